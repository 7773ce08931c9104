// SPDX-License-Identifier: Apache-2.0
/// @file
/// Permutes the numbers of vectors.
#pragma once

#include <lod/core/target.hpp>

#include <cstddef>
#include <cstring>
#include <utility>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu {

/// result[i] = number place(i) of a and b, which are the compiler's own vectors; the numbers of b continue the count of
/// those of a. `Place` is a stateless function. The result is not returned by value: vectors wider than the processor's
/// would change the calling convention.
template <class V, class Place>
[[gnu::always_inline]] inline void shuffle(const V& a, const V& b, const Place&, V& result) noexcept {
  constexpr std::size_t size = sizeof a / sizeof a[0];
#ifdef __CUDACC__  // nvcc loses the pack expansion after the places
  const V first = a, second = b;
  for (std::size_t i = 0; i < size; ++i) {
    const std::size_t place = Place()(i);
    result[i] = place < size ? first[place] : second[place - size];
  }
#else
  [&]<std::size_t... i>(std::index_sequence<i...>) __attribute__((always_inline)) {
    result = __builtin_shufflevector(a, b, static_cast<int>(Place()(i))...);
  }
  (std::make_index_sequence<size>());
#endif
}

/// As many numbers of type A, a power of two, as `bytes` hold.
template <class A, std::size_t bytes>
struct PartOfVector {
  typedef A type __attribute__((vector_size(bytes)));
};
/// The numbers of a, followed by those of b.
template <class A, class V, class Twice = typename PartOfVector<A, 2 * sizeof(V)>::type>
[[gnu::always_inline]] inline void join(const V& a, const V& b, Twice& result) noexcept {
#ifdef __CUDACC__
  std::memcpy(&result, &a, sizeof a);
  std::memcpy(reinterpret_cast<std::byte*>(&result) + sizeof a, &b, sizeof b);
#else
  [&]<std::size_t... i>(std::index_sequence<i...>) __attribute__((always_inline)) {
    result = __builtin_shufflevector(a, b, static_cast<int>(i)...);
  }
  (std::make_index_sequence<sizeof result / sizeof(A)>());
#endif
}

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu
