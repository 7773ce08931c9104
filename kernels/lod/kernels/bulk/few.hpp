// SPDX-License-Identifier: Apache-2.0
/// @file
/// A few adjacent numbers, for threads that take 16 bytes of a row at a time, the fastest access to a GPU's memory.
#pragma once

#include <lod/core/target.hpp>
#include <lod/kernels/bulk/bulk.hpp>
#include <lod/kernels/sum_tree.hpp>
#include <lod/kernels/wide_sum.hpp>
#include <lod/ops/kernel.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk {

/// Sixteen bytes of any type.
struct [[gnu::may_alias]] alignas(16) Sixteen {
  std::uint64_t words[2];
};

/// How many numbers of type T make 16 bytes; 1 if none do.
template <class T>
inline constexpr std::size_t in_sixteen_bytes = sizeof(T) < 16 && 16 % sizeof(T) == 0 ? 16 / sizeof(T) : 1;

/// How many numbers of wide rows a thread computes with at a time. Bytes would be too many for its registers.
template <class T>
inline constexpr std::size_t numbers_at_a_time = sizeof(T) > 1 ? in_sixteen_bytes<T> : 1;
/// Whether rows of `row_size` numbers, from each of these addresses on, are wide and can be read and written several
/// numbers at a time.
template <class T, class... More>
bool takes_several(std::int64_t row_size, const T* first, const More*... more) noexcept {
  constexpr auto most = static_cast<std::int64_t>(numbers_at_a_time<T>);
  const auto is_aligned = [](const T* x) { return reinterpret_cast<std::uintptr_t>(x) % 16 == 0; };
  return most > 1 && row_size > narrow_row_size && row_size % most == 0 && is_aligned(first) &&
         (is_aligned(more) && ...);
}
/// Calls f.template operator()<count>() with the count of numbers that a thread takes at a time from these rows.
template <class F, class T, class... More>
void with_count(const F& f, std::int64_t row_size, const T* first, const More*... more) {
  if (takes_several(row_size, first, more...)) {
    f.template operator()<numbers_at_a_time<T>>();
  } else {
    f.template operator()<1>();
  }
}

/// The numbers of a row that one thread has.
template <class A, std::size_t count>
struct Few {
  A number[count];

  static LOD_HOST_DEVICE constexpr Few empty_sum() noexcept {
    Few sums{};
    for (A& sum : sums.number) sum = kernel::empty_sum<A>();
    return sums;
  }
  friend LOD_HOST_DEVICE Few operator+(const Few& a, const Few& b) noexcept {
    Few sums;
    for (std::size_t n = 0; n < count; ++n) sums.number[n] = plus(a.number[n], b.number[n]);
    return sums;
  }
};

/// Reads the numbers at an address, which must be aligned as `Sixteen` if there are several.
template <std::size_t count, class T>
LOD_HOST_DEVICE Few<T, count> read_few(const T* from) noexcept {
  if constexpr (count == 1) {
    return {{*from}};
  } else {
    static_assert(sizeof(Few<T, count>) == sizeof(Sixteen));
    const Sixteen bytes = *reinterpret_cast<const Sixteen*>(from);
    Few<T, count> numbers;
    std::memcpy(&numbers, &bytes, sizeof(bytes));
    return numbers;
  }
}
/// The same for rows of unknown alignment.
template <std::size_t count, class T>
LOD_HOST_DEVICE Few<T, count> read_few_anywhere(const T* from) noexcept {
  if constexpr (count > 1) {
    if (reinterpret_cast<std::uintptr_t>(from) % sizeof(Sixteen) != 0) {
      Few<T, count> numbers;
      for (std::size_t n = 0; n < count; ++n) numbers.number[n] = from[n];
      return numbers;
    }
  }
  return read_few<count>(from);
}
template <class T, std::size_t count>
LOD_HOST_DEVICE void write_few(T* to, const Few<T, count>& numbers) noexcept {
  if constexpr (count == 1) {
    *to = numbers.number[0];
  } else {
    static_assert(sizeof(Few<T, count>) == sizeof(Sixteen));
#ifdef __CUDA_ARCH__
    // When copying the struct, nvcc stores each number on its own.
    uint4 words;
    std::memcpy(&words, &numbers, sizeof(words));
    *reinterpret_cast<uint4*>(to) = words;
#else
    Sixteen bytes;
    std::memcpy(&bytes, &numbers, sizeof(bytes));
    *reinterpret_cast<Sixteen*>(to) = bytes;
#endif
  }
}
/// Each number converted to B.
template <class B, class T, std::size_t count>
LOD_HOST_DEVICE Few<B, count> converted(const Few<T, count>& numbers) noexcept {
  Few<B, count> all;
  for (std::size_t n = 0; n < count; ++n) all.number[n] = static_cast<B>(numbers.number[n]);
  return all;
}

/// f applied to each number and those at the same positions in the others.
template <class F, class A, std::size_t count, class... Others>
LOD_HOST_DEVICE auto each(const F& f, const Few<A, count>& numbers, const Others&... others) {
  Few<decltype(f(numbers.number[0], others.number[0]...)), count> all;
  for (std::size_t n = 0; n < count; ++n) all.number[n] = f(numbers.number[n], others.number[n]...);
  return all;
}
/// Joins each number separately.
template <class Join, std::size_t count>
struct JoinEach {
  using Joined = Few<decltype(Join().nothing()), count>;
  LOD_HOST_DEVICE Joined nothing() const {
    Joined all;
    for (auto& number : all.number) number = Join().nothing();
    return all;
  }
  LOD_HOST_DEVICE Joined operator()(const Joined& a, const Joined& b) const { return each(Join(), a, b); }
};

/// sum += term; the rounding error is added to `error`; each number separately.
template <class A>
LOD_HOST_DEVICE void add_rounded(A& sum, A& error, const A& term) noexcept {
  add_compensated(sum, error, term);
}
LOD_HOST_DEVICE inline void add_rounded(WideInteger& sum, WideInteger&, const WideInteger& term) noexcept {
  sum = sum + term;
}
template <class A, std::size_t count>
LOD_HOST_DEVICE void add_rounded(Few<A, count>& sum, Few<A, count>& error, const Few<A, count>& term) noexcept {
  for (std::size_t n = 0; n < count; ++n) add_rounded(sum.number[n], error.number[n], term.number[n]);
}

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk
