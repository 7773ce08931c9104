// SPDX-License-Identifier: Apache-2.0
/// @file
/// Sorting without branches: the same comparisons in the same order, whatever the numbers.
#pragma once

#include <lod/core/target.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu {

/// Batcher's merge exchange for `size` numbers: pairs of positions, the lower one first. After all comparisons in turn,
/// each of which moves the lesser of two numbers to the lower position, the numbers ascend.
template <std::size_t size>
class SortingNetwork {
  static constexpr std::size_t half() noexcept {
    std::size_t power = 1;
    while (2 * power < size) power *= 2;
    return power;
  }
  template <class Body>
  static constexpr void for_each_comparison(const Body& body) noexcept {
    for (std::size_t p = half(); p > 0; p /= 2) {
      std::size_t q = half(), r = 0, distance = p;
      while (true) {
        for (std::size_t i = 0; i + distance < size; ++i) {
          if ((i & p) == r) body(i, i + distance);
        }
        if (q == p) break;
        distance = q - p;
        q /= 2;
        r = p;
      }
    }
  }
  static constexpr std::size_t count() noexcept {
    std::size_t result = 0;
    for_each_comparison([&](std::size_t, std::size_t) { ++result; });
    return result;
  }

 public:
  struct Comparison {
    std::size_t lower, higher;
  };
  static constexpr auto comparisons = [] {
    std::array<Comparison, count()> all{};
    std::size_t next = 0;
    for_each_comparison([&](std::size_t lower, std::size_t higher) { all[next++] = {lower, higher}; });
    return all;
  }();
};

template <std::size_t size, class V, class Order, std::size_t... i, std::size_t... kept, std::size_t... comparison>
[[gnu::noinline]] inline void sort_by_network(V* numbers, const Order& order, std::index_sequence<i...>,
                                              std::index_sequence<kept...>,
                                              std::index_sequence<comparison...>) noexcept {
  constexpr auto& pairs = SortingNetwork<size>::comparisons;
  // One expression, without functions of our own: it compiles quickly, with any checks and without optimisation too.
  V all[size], less;
  ((all[i] = numbers[i]), ...);
  ((less = order.lesser(all[pairs[comparison].lower], all[pairs[comparison].higher]),
    all[pairs[comparison].higher] = order.greater(all[pairs[comparison].lower], all[pairs[comparison].higher]),
    all[pairs[comparison].lower] = less),
   ...);
  ((numbers[kept] = all[kept]), ...);
}
/// Sorts `size` numbers, of which only the first `kept` are needed: comparisons that affect only the others are left
/// out. The numbers may be vectors, which stay in registers. order.lesser(a, b) is one of the two, order.greater(a, b)
/// the other.
template <std::size_t size, std::size_t kept = size, class V, class Order>
inline void sort_by_network(V* numbers, const Order& order) noexcept {
  sort_by_network<size>(numbers, order, std::make_index_sequence<size>(),
                        std::make_index_sequence<std::min(kept, size)>(),
                        std::make_index_sequence<SortingNetwork<size>::comparisons.size()>());
}

/// Compares numbers `distance` apart, then those half as far apart, and so on. All stay in registers.
template <std::size_t distance, class V, class Order, std::size_t size, std::size_t... i>
[[gnu::always_inline]] inline void halve_bitonic(V (&all)[size], const Order& order,
                                                 std::index_sequence<i...> pairs) noexcept {
  if constexpr (distance > 0) {
    // Pair i begins at the number whose bits above that of the distance are those of i, moved by one.
    constexpr auto lower = [](std::size_t pair) { return pair / distance * 2 * distance + pair % distance; };
    V less;
    ((less = order.lesser(all[lower(i)], all[lower(i) + distance]),
      all[lower(i) + distance] = order.greater(all[lower(i)], all[lower(i) + distance]), all[lower(i)] = less),
     ...);
    halve_bitonic<distance / 2>(all, order, pairs);
  }
}
template <class V, class Order, std::size_t... i>
[[gnu::always_inline]] inline void halve_bitonic(V* numbers, std::size_t step, const Order& order,
                                                 std::index_sequence<i...>) noexcept {
  V all[sizeof...(i)];
  ((all[i] = numbers[i * step]), ...);
  halve_bitonic<sizeof...(i) / 2>(all, order, std::make_index_sequence<sizeof...(i) / 2>());
  ((numbers[i * step] = all[i]), ...);
}
/// Sorts a bitonic sequence: numbers that ascend and then descend, or a rotation of such. Two ascending arrays become
/// two of these when their numbers are compared crosswise, as by `merge_ascending`. `size` is a power of two. Each
/// number is read and written once for three comparisons.
template <class V, class Order>
inline void sort_bitonic(V* numbers, std::size_t size, const Order& order) noexcept {
  const auto halve =
      [ =, &order ]<std::size_t... i>(std::size_t step, std::index_sequence<i...> few) __attribute__((always_inline)) {
    for (std::size_t begin = 0; begin < size; begin += sizeof...(i) * step) {
      for (std::size_t k = begin; k < begin + step; ++k) halve_bitonic(numbers + k, step, order, few);
    }
  };
  std::size_t sorted = size;  // the size of the parts that are in place
  for (; sorted >= 8; sorted /= 8) halve(sorted / 8, std::make_index_sequence<8>());
  if (sorted == 4) halve(1, std::make_index_sequence<4>());
  if (sorted == 2) halve(1, std::make_index_sequence<2>());
}
/// The same if only the first `count` numbers, a sum of powers of two that are at least 8, are there, and those after
/// them are greater than all.
template <class V, class Order>
inline void sort_bitonic(V* numbers, std::size_t size, std::size_t count, const Order& order) noexcept {
  for (; count < size; size /= 2) {
    const std::size_t half = size / 2;
    if (count <= half) continue;
    for (std::size_t i = half; i < count; ++i) {
      const V a = numbers[i - half], b = numbers[i];
      numbers[i - half] = order.lesser(a, b);
      numbers[i] = order.greater(a, b);
    }
    sort_bitonic(numbers, half, order);
    numbers += half;
    count -= half;
  }
  sort_bitonic(numbers, size, order);
}
/// Merges numbers[0 .. size) and other[0 .. others), both ascending: afterwards the lesser `size` of them ascend from
/// `numbers` on, and the greater ones from `other` on, unless they are `dropped`. `size` is a power of two, `others` is
/// at most that.
template <bool dropped, class V, class Order>
inline void merge_ascending(V* numbers, std::size_t size, V* other, std::size_t others, const Order& order) noexcept {
  // The least of one against the greatest of the other.
  for (std::size_t i = size - others; i < size; ++i) {
    const V a = numbers[i], b = other[size - 1 - i];
    numbers[i] = order.lesser(a, b);
    if constexpr (!dropped) other[size - 1 - i] = order.greater(a, b);
  }
  sort_bitonic(numbers, size, order);
  if constexpr (!dropped) sort_bitonic(other, size, others, order);
}

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu
