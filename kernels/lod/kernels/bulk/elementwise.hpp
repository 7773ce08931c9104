// SPDX-License-Identifier: Apache-2.0
/// @file
/// Elementwise arithmetic in bulk.
#pragma once

#include <lod/core/version.hpp>
#include <lod/kernels/bulk/bulk.hpp>
#include <lod/kernels/bulk/lane.hpp>
#include <lod/ops/elementwise.hpp>

#include <concepts>
#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk {

/// f(x), computed in the accumulator of T; integers as `Map` says.
template <class T, class F>
LOD_HOST_DEVICE T mapped(const F& f, T x) {
  if constexpr (std::integral<T>) {
    return static_cast<T>(f(static_cast<MappedInteger<T>>(x)));
  } else {
    using A = Accumulator<T>;
    return static_cast<T>(f(Lane<A>(static_cast<A>(x))).number);
  }
}
/// f(x, y): integers in their own type.
template <class T, class F>
LOD_HOST_DEVICE T combined(const F& f, T x, T y) {
  using A = Accumulator<T>;
  if constexpr (std::integral<T>) {
    return f(x, y);
  } else {
    return static_cast<T>(f(Lane<A>(static_cast<A>(x)), Lane<A>(static_cast<A>(y))).number);
  }
}

template <>
struct Kernel<Map> {
  template <class E, class F, class T>
  static void run(const E& executor, const F& f, const T* x, std::int64_t count, T* y) {
    for_each(executor, count, [=] LOD_HOST_DEVICE(std::int64_t at) { y[at] = mapped(f, x[at]); });
  }
};

template <>
struct Kernel<Combine> {
  template <class E, class F, class T>
  static void run(const E& executor, const F& f, const T* x, const T* y, std::int64_t count, T* z) {
    for_each(executor, count, [=] LOD_HOST_DEVICE(std::int64_t at) { z[at] = combined(f, x[at], y[at]); });
  }
};

template <>
struct Kernel<CombineRows> {
  template <class E, class F, class T>
  static void run(const E& executor, const F& f, const T* x, const T* y, const Segments& sequences,
                  std::int64_t row_size, T* z) {
    const auto write = [=] LOD_HOST_DEVICE(std::int64_t i, std::int64_t row, std::int64_t column) {
      const std::int64_t at = row * row_size + column;
      z[at] = combined(f, x[at], y[i * row_size + column]);
    };
    for_each_in_sequences(executor, sequences, row_size, write);
  }
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk
