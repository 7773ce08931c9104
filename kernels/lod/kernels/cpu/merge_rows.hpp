// SPDX-License-Identifier: Apache-2.0
/// @file
/// Rows sorted by id and pooled, on the CPU.
#pragma once

#include <lod/kernels/cpu/parallel.hpp>
#include <lod/kernels/cpu/row_sum.hpp>
#include <lod/kernels/cpu/sequence_pool.hpp>
#include <lod/kernels/cpu/vector.hpp>
#include <lod/ops/merge_rows.hpp>

#include <array>
#include <bit>
#include <cstdint>
#include <utility>

namespace lod::inline LOD_TARGET {
namespace kernel {

namespace cpu {

/// Reads rows that lie anywhere, in the order of a list, which is `left` long.
template <class T>
struct OrderedRows {
  const T* const* rows;
  const std::int64_t* order;
  std::int64_t left;
  std::int64_t row_size;
  const T* operator()(std::int64_t row) const noexcept {
    if (row + prefetch_distance < left) prefetch(rows[order[row + prefetch_distance]], row_size);
    return rows[order[row]];
  }
};

/// Calls finish(g, sums) with the sums of the rows of each group.
template <class T, class Finish>
void for_each_group_sum(const CpuExecutor& executor, const T* const* rows, const std::int64_t* order,
                        const Segments& groups, std::int64_t row_size, const Finish& finish) {
  const std::int64_t count = groups.rows();
  const auto rows_of = [=](std::int64_t group, int) {
    const std::int64_t first = groups.begin(group);
    return OrderedRows<T>{rows, order + first, count - first, row_size};
  };
  sum_sequences<T>(executor, groups, row_size, rows_of, finish);
}

}  // namespace cpu

template <>
struct GroupRows<CpuExecutor> {
  static std::int64_t run(const CpuExecutor& executor, const std::int64_t* ids, std::int64_t count, std::int64_t height,
                          std::int64_t* order, std::int64_t* unique, std::int64_t* groups) {
    groups[0] = 0;
    if (count == 0) return 0;
    struct Entry {
      std::int64_t id;
      std::int64_t position;
    };
    // A stable radix sort, least significant digit first, over the bits that the ids need.
    constexpr int digit_bits = 11;
    constexpr std::size_t digits = std::size_t{1} << digit_bits;
    const Workspace::Loan<Entry> first(executor.workspace(), count), second(executor.workspace(), count);
    Entry* from = first.data();
    Entry* to = second.data();
    for (std::int64_t i = 0; i < count; ++i) from[i] = {ids[i], i};
    const auto bits = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(height - 1)));
    for (int shift = 0; shift < bits; shift += digit_bits) {
      const auto digit = [shift](const Entry& entry) {
        return static_cast<std::size_t>(entry.id >> shift) & (digits - 1);
      };
      std::array<std::int64_t, digits> places{};
      for (std::int64_t i = 0; i < count; ++i) ++places[digit(from[i])];
      std::int64_t before = 0;
      for (std::int64_t& place : places) before += std::exchange(place, before);
      for (std::int64_t i = 0; i < count; ++i) to[places[digit(from[i])]++] = from[i];
      std::swap(from, to);
    }
    std::int64_t size = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      order[i] = from[i].position;
      if (i == 0 || from[i].id != from[i - 1].id) {
        unique[size] = from[i].id;
        groups[size++] = i;
      }
    }
    groups[size] = count;
    return size;
  }
};

template <>
struct SumGroups<CpuExecutor> {
  template <class T>
  static void run(const CpuExecutor& executor, PoolType type, const T* const* rows, const std::int64_t* order,
                  const Segments& groups, std::int64_t row_size, const std::int64_t* to, T* y) {
    cpu::for_each_group_sum(executor, rows, order, groups, row_size,
                            [&](std::int64_t group, const Accumulator<T>* sums) {
                              T* out = y + (to ? to[group] : group) * row_size;
                              cpu::finish_sum(type, groups.length(group), sums, row_size, out);
                            });
  }
};

template <>
struct SetZero<CpuExecutor> {
  template <class T>
  static void run(const CpuExecutor& executor, T* y, std::int64_t count) {
    cpu::parallel_ranges(executor, count, count * static_cast<std::int64_t>(sizeof(T)),
                         [&](std::int64_t begin, std::int64_t end) { cpu::fill(y + begin, end - begin, T{}); });
  }
};

}  // namespace kernel
}  // namespace lod::inline LOD_TARGET
