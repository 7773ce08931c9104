// SPDX-License-Identifier: Apache-2.0
/// @file
/// The operators that come with the library, by their types.
#pragma once

#include <lod/core/target.hpp>
#include <lod/program/operator.hpp>
#include <lod/program/operators/elementwise.hpp>
#include <lod/program/operators/embedding.hpp>
#include <lod/program/operators/movement.hpp>
#include <lod/program/operators/products.hpp>
#include <lod/program/operators/recurrent.hpp>
#include <lod/program/operators/unary.hpp>

#include <span>

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs {

template <class E>
std::span<const detail::BuiltInOperator<E>> all() {
  static constexpr detail::BuiltInOperator<E> operators[] = {
      {"concat", concat<E>},
      {"elementwise_add", elementwise<Adds, E>},
      {"gru", gru<E>},
      {"lookup_table", lookup_table<E, true>},
      {"lookup_table_v2", lookup_table<E, false>},
      {"lstm", lstm<E>},
      {"mul", mul<E>},
      {"scale", scale<E>},
  };
  return operators;
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs
