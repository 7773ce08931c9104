// SPDX-License-Identifier: Apache-2.0
/// @file
/// What is computed for each of many numbers without an operation for it: by a loop on the CPU, by a kernel elsewhere.
#pragma once

#include <lod/core/executor.hpp>
#include <lod/core/target.hpp>
#include <lod/ops/kernel.hpp>
#include <lod/ops/staging.hpp>

#include <algorithm>
#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel {
/// run(executor, count, body): calls body(i) for each i in [0, count), in any order. Of a CPU the body is called by one
/// thread; elsewhere it has plain values and addresses alone.
struct ForEachPlace {
  static constexpr bool in_headers_only = true;  ///< it calls a function of the caller's
};
}  // namespace lod::inline LOD_INTERFACE::kernel

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operation {

/// Calls body(i) for each i in [0, count), as kernel::ForEachPlace says.
template <Executor E, class Body>
void for_each_place(const E& executor, std::int64_t count, const Body& body) {
  if constexpr (on_cpu<E>) {
    for (std::int64_t i = 0; i < count; ++i) body(i);
  } else {
    launch(kernel::ForEachPlace(), executor, count, body);
  }
}

template <class F, class T, class U>
struct MappedNumbers {
  F f;
  const T* x;
  U* y;
  LOD_HOST_DEVICE void operator()(std::int64_t i) const { y[i] = f(x[i]); }
};
/// y[i] = f(x[i]). y may be x.
template <Executor E, class T, class U, class F>
void map_numbers(const E& executor, const T* x, std::int64_t count, U* y, const F& f) {
  if constexpr (on_cpu<E>) {
    std::transform(x, x + count, y, f);
  } else {
    for_each_place(executor, count, MappedNumbers<F, T, U>{f, x, y});
  }
}

template <class F, class T, class U>
struct CombinedNumbers {
  F f;
  const T* x;
  const T* y;
  U* z;
  LOD_HOST_DEVICE void operator()(std::int64_t i) const { z[i] = f(x[i], y[i]); }
};
/// z[i] = f(x[i], y[i]). z may be x or y.
template <Executor E, class T, class U, class F>
void combine_numbers(const E& executor, const T* x, const T* y, std::int64_t count, U* z, const F& f) {
  if constexpr (on_cpu<E>) {
    std::transform(x, x + count, y, z, f);
  } else {
    for_each_place(executor, count, CombinedNumbers<F, T, U>{f, x, y, z});
  }
}

template <class T>
struct RepeatedNumber {
  T number;
  T* y;
  LOD_HOST_DEVICE void operator()(std::int64_t i) const { y[i] = number; }
};
/// y[i] = number.
template <Executor E, class T>
void repeat_number(const E& executor, const T& number, std::int64_t count, T* y) {
  if constexpr (on_cpu<E>) {
    std::fill_n(y, count, number);
  } else {
    for_each_place(executor, count, RepeatedNumber<T>{number, y});
  }
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operation
