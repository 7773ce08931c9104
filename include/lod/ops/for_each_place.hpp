// SPDX-License-Identifier: Apache-2.0
/// @file
/// Element-wise computations that have no operation of their own: by loops of CPU threads, by a kernel elsewhere.
#pragma once

#include <lod/core/executor.hpp>
#include <lod/core/target.hpp>
#include <lod/ops/kernel.hpp>
#include <lod/ops/new_offsets.hpp>
#include <lod/ops/staging.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel {
/// run(executor, count, body): calls body(i) for each i in [0, count), in any order. On a CPU a single thread calls the
/// body; elsewhere the body may contain only plain values and addresses.
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

/// A call of body(begin, end) whose type is the same for all bodies, so that the code that shares work among threads is
/// compiled once.
struct PartOfNumbers {
  void (*run)(const void* body, std::int64_t begin, std::int64_t end);
  const void* body;
  void operator()(std::int64_t, std::int64_t begin, std::int64_t end) const { run(body, begin, end); }
};
/// Calls body(begin, end) for parts of [0, count), on CPU threads. For each number, `bytes` are read and written, and
/// the computation takes several times as long as that.
template <Executor E, class Body>
void for_each_part(const E& executor, std::int64_t count, std::size_t bytes, const Body& body) {
  constexpr std::int64_t computation = 4;
  const auto run = [](const void* one, std::int64_t begin, std::int64_t end) {
    (*static_cast<const Body*>(one))(begin, end);
  };
  launch(kernel::ForEachRange(), executor, count, computation * count * static_cast<std::int64_t>(bytes),
         PartOfNumbers{run, &body});
}

/// z[i] = f(x[i]...). By blocks of a known size, too long to be unrolled, with all that f calls inlined: of these
/// compilers make vectors even where they do so only at no cost in the size of code, as g++ with -O2.
template <class F, class U, class... T>
[[gnu::flatten]] void compute_numbers(const F& f, std::int64_t count, U* z, const T*... x) {
  constexpr std::int64_t side_by_side = 32;
  std::int64_t i = 0;
  for (; i + side_by_side <= count; i += side_by_side) {
    U block[side_by_side];
    for (std::int64_t k = 0; k < side_by_side; ++k) block[k] = f(x[i + k]...);
    std::copy_n(block, side_by_side, z + i);
  }
  for (; i < count; ++i) z[i] = f(x[i]...);
}

template <class F, class T, class U>
struct MappedNumbers {
  F f;
  const T* x;
  U* y;
  LOD_HOST_DEVICE void operator()(std::int64_t i) const { y[i] = f(x[i]); }
};
/// y[i] = f(x[i]). y may be x. f is called by several threads.
template <Executor E, class T, class U, class F>
void map_numbers(const E& executor, const T* x, std::int64_t count, U* y, const F& f) {
  if constexpr (on_cpu<E>) {
    for_each_part(executor, count, sizeof(T) + sizeof(U),
                  [&](std::int64_t begin, std::int64_t end) { compute_numbers(f, end - begin, y + begin, x + begin); });
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
/// z[i] = f(x[i], y[i]). z may be x or y. f is called by several threads.
template <Executor E, class T, class U, class F>
void combine_numbers(const E& executor, const T* x, const T* y, std::int64_t count, U* z, const F& f) {
  if constexpr (on_cpu<E>) {
    for_each_part(executor, count, 2 * sizeof(T) + sizeof(U), [&](std::int64_t begin, std::int64_t end) {
      compute_numbers(f, end - begin, z + begin, x + begin, y + begin);
    });
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
