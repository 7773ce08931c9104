// SPDX-License-Identifier: Apache-2.0
/// @file
/// The element types, for checks that hold for all of them.
#pragma once

#include <lod/data_type.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <type_traits>

namespace lod_test {

template <class... T>
struct Types {};

using AllTypes = Types<bool, std::int8_t, std::uint8_t, std::int16_t, std::int32_t, std::int64_t, lod::float16,
                       lod::bfloat16, float, double>;
using FloatingTypes = Types<lod::float16, lod::bfloat16, float, double>;

/// Calls body(std::type_identity<T>()) for each type T.
template <class... T, class Body>
void for_each_type(Types<T...>, const Body& body) {
  const auto call = [&](auto type) {
    const std::string name = lod::to_string(lod::data_type_v<typename decltype(type)::type>);
    CAPTURE(name);
    body(type);
  };
  (call(std::type_identity<T>()), ...);
}

}  // namespace lod_test
