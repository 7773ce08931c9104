// SPDX-License-Identifier: Apache-2.0
/// @file
/// Rows sorted by id and pooled, on the CPU.
#pragma once

#include <lod/kernels/cpu/group_rows.hpp>
#include <lod/kernels/cpu/large_output.hpp>
#include <lod/kernels/cpu/parallel.hpp>
#include <lod/kernels/cpu/row_sum.hpp>
#include <lod/kernels/cpu/sequence_pool.hpp>
#include <lod/kernels/cpu/vector.hpp>
#include <lod/ops/merge_rows.hpp>

#include <concepts>
#include <cstdint>

namespace lod::inline LOD_TARGET {
namespace kernel {

namespace cpu {

/// Reads rows that lie anywhere, in the order of a list, which is `left` long.
template <class T>
struct OrderedRows {
  NumberedRows<T> rows;
  const std::int64_t* order;
  std::int64_t left;
  std::int64_t row_size;
  // Inline: a call would have the sums of rows leave their registers.
  [[gnu::always_inline]] const T* operator()(std::int64_t row) const noexcept {
    // A listed address lies anywhere too: it is asked for before the row.
    if (rows.list && row + 2 * prefetch_distance < left) {
      __builtin_prefetch(rows.list + order[row + 2 * prefetch_distance]);
    }
    if (row + prefetch_distance < left) prefetch(rows[order[row + prefetch_distance]], row_size);
    return rows[order[row]];
  }
};

/// Calls finish(g, sums) with the sums of the rows of each group.
template <class T, class Finish>
void for_each_group_sum(const CpuExecutor& executor, const NumberedRows<T>& rows, const std::int64_t* order,
                        const Segments& groups, std::int64_t row_size, const Finish& finish) {
  const std::int64_t count = groups.rows();
  const auto rows_of = [=](std::int64_t group, int) {
    const std::int64_t first = groups.begin(group);
    return OrderedRows<T>{rows, order + first, count - first, row_size};
  };
  sum_sequences<T>(executor, groups, row_size, rows_of, finish);
}

/// Writes the pooled rows of groups.
template <class T>
class PooledGroups {
 public:
  PooledGroups(PoolType type, const Segments& groups, std::int64_t row_size, const std::int64_t* to, T* y) noexcept
      : type_(type),
        groups_(groups),
        row_size_(row_size),
        to_(to),
        y_(y),
        output_(groups.size * row_size * static_cast<std::int64_t>(sizeof(T))) {}

  void operator()(std::int64_t group, const Accumulator<T>* sums) const noexcept {
    if (!sums) return;  // no group is empty
    T* const out = y_ + (to_ ? to_[group] : group) * row_size_;
    if constexpr (std::same_as<T, Accumulator<T>>) {
      // Most rows of a sparse gradient are alone: then the sum is the row, where the source has it.
      if (type_ == PoolType::SUM) return output_.copy(sums, row_size_, out);
    }
    finish_sum(type_, groups_.length(group), sums, row_size_, out);
  }

 private:
  PoolType type_;
  Segments groups_;
  std::int64_t row_size_;
  const std::int64_t* to_;
  T* y_;
  LargeOutput output_;
};

}  // namespace cpu

template <>
struct SumGroups<InlineCpu> {
  template <class T>
  static void run(const CpuExecutor& executor, PoolType type, const NumberedRows<T>& rows, const std::int64_t* order,
                  const Segments& groups, std::int64_t row_size, const std::int64_t* to, T* y) {
    cpu::for_each_group_sum(executor, rows, order, groups, row_size,
                            cpu::PooledGroups<T>(type, groups, row_size, to, y));
  }
};

template <>
struct SetZero<InlineCpu> {
  template <class T>
  static void run(const CpuExecutor& executor, T* y, std::int64_t count) {
    cpu::parallel_ranges(executor, count, count * static_cast<std::int64_t>(sizeof(T)),
                         [&](std::int64_t begin, std::int64_t end) { cpu::fill(y + begin, end - begin, T{}); });
  }
};

}  // namespace kernel
}  // namespace lod::inline LOD_TARGET
