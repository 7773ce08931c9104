// SPDX-License-Identifier: Apache-2.0
/// @file
/// Operators on each element: scale, and activations.
#pragma once

#include <lod/core/any_tensor.hpp>
#include <lod/core/executor.hpp>
#include <lod/core/target.hpp>
#include <lod/program/operator.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs {

/// y = f(x), element by element, with the levels and the type of x.
template <class T, class E, class F>
void map_elements(const OperatorCall<E>& call, const Slot& x, const Slot& y, const F& f) {
  const AnyLoDTensor& from = call.tensor(x);
  const auto values = call.template view<T>(x).values();
  auto to = call.output_bytes(y, from.data_type(), from.lod(), from.row_shape(), from.rows());
  std::transform(values.begin(), values.end(), to.template elements<T>(), f);
}

/// scale: X -> Out; scale = 1, bias = 0, bias_after_scale = true.
template <Executor E>
RunOperator<E> scale(const OperatorArguments& op) {
  op.expect_no_input("ScaleTensor");
  const Slot x = op.input("X"), out = op.output("Out");
  const float factor = op.attr("scale", 1.0f), bias = op.attr("bias", 0.0f);
  const bool is_after = op.attr("bias_after_scale", true);
  return [=](OperatorCall<E>& call) {
    call.with_number(x, [&](auto element) {
      using T = typename decltype(element)::type;
      const T a = static_cast<T>(factor), b = static_cast<T>(bias);
      if (is_after) {
        map_elements<T>(call, x, out, [=](T v) { return static_cast<T>(v * a + b); });
      } else {
        map_elements<T>(call, x, out, [=](T v) { return static_cast<T>((v + b) * a); });
      }
    });
  };
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs
