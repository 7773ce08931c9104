// SPDX-License-Identifier: Apache-2.0
/// @file
/// The running sums of groups of numbers, each group on its own. Each sum waits for the one before it, so several
/// groups go side by side: the eight of a full leaf as the lanes of one vector, fewer as independent chains.
#pragma once

#include <lod/core/target.hpp>
#include <lod/kernels/cpu/rows.hpp>
#include <lod/kernels/cpu/transpose.hpp>
#include <lod/ops/sequence_cumsum.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu {

/// Eight accumulators. Integers are unsigned, so that they wrap around.
template <class A>
struct EightNumbers;
template <>
struct EightNumbers<float> {
  typedef float type __attribute__((vector_size(32)));
};
template <>
struct EightNumbers<double> {
  typedef double type __attribute__((vector_size(64)));
};
template <>
struct EightNumbers<std::int64_t> {
  typedef std::uint64_t type __attribute__((vector_size(64)));
};

/// Sums of up to eight groups of `cumsum_group_rows` numbers, counted in the direction of the sums.
template <class A>
class GroupSums {
  static constexpr std::int64_t group_rows = cumsum_group_rows;

 public:
  static constexpr std::int64_t groups = 8;

  GroupSums(bool exclusive, bool reverse) noexcept
      : exclusive_(exclusive), reverse_(reverse), start_(start_of_sums<A>(exclusive)) {}

  /// Replaces each of `count` numbers by the running sum in its group; totals[g] is the total of group g. The last
  /// group may be incomplete.
  void operator()(A* numbers, std::int64_t count, A* totals) const noexcept {
    if (count == groups * group_rows)
      return reverse_ ? sum_all<true>(numbers, totals) : sum_all<false>(numbers, totals);
    const std::int64_t whole = count / group_rows, rest = count % group_rows, start = reverse_ ? count - 1 : 0;
    for (std::int64_t group = 0; group * group_rows < count; ++group) totals[group] = start_;
    if (rest > 0) sum_chains(whole + 1, numbers + start, 0, rest, totals);
    if (whole > 0) sum_chains(whole, numbers + start, rest, group_rows, totals);
  }

 private:
  using Eight = typename EightNumbers<A>::type;

  template <bool reverse>
  void sum_all(A* numbers, A* totals) const noexcept {
    Eight total;  // of each group, in memory order
    for (int g = 0; g < 8; ++g) total[g] = static_cast<std::remove_cvref_t<decltype(total[g])>>(start_);
    for (std::int64_t k = 0; k < group_rows; k += 8) {
      const std::int64_t first = reverse ? group_rows - 8 - k : k;
      Eight block[8];
      for (int g = 0; g < 8; ++g) std::memcpy(&block[g], numbers + g * group_rows + first, sizeof(Eight));
      transpose(block);
      for (int row = 0; row < 8; ++row) {
        Eight& next = block[reverse ? 7 - row : row];
        const Eight before = total;
        total = before + next;
        next = exclusive_ ? before : total;
      }
      transpose(block);
      for (int g = 0; g < 8; ++g) std::memcpy(numbers + g * group_rows + first, &block[g], sizeof(Eight));
    }
    A in_memory[8];
    std::memcpy(in_memory, &total, sizeof total);
    for (int g = 0; g < 8; ++g) totals[g] = in_memory[reverse ? 7 - g : g];
  }

  /// Sums the numbers [begin, end) of each of the first `chains` groups.
  template <std::int64_t most = groups>
  void sum_chains(std::int64_t chains, A* first, std::int64_t begin, std::int64_t end, A* totals) const noexcept {
    if constexpr (most > 1) {
      if (chains < most) return sum_chains<most - 1>(chains, first, begin, end, totals);
    }
    constexpr auto all = static_cast<std::size_t>(most);
    const std::int64_t step = reverse_ ? -1 : 1;
    A sum[all];
    for (std::size_t group = 0; group < all; ++group) sum[group] = totals[group];
    for (std::int64_t k = begin; k < end; ++k) {
      for (std::size_t group = 0; group < all; ++group) {
        A& number = first[(static_cast<std::int64_t>(group) * group_rows + k) * step];
        const A before = sum[group];
        sum[group] = plus(before, number);
        number = exclusive_ ? before : sum[group];
      }
    }
    for (std::size_t group = 0; group < all; ++group) totals[group] = sum[group];
  }

  bool exclusive_;
  bool reverse_;
  A start_;
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu
