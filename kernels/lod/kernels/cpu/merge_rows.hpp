// SPDX-License-Identifier: Apache-2.0
/// @file
/// Rows sorted by id and pooled, on the CPU.
#pragma once

#include <lod/core/version.hpp>
#include <lod/kernels/cpu/exact_sums.hpp>
#include <lod/kernels/cpu/group_rows.hpp>
#include <lod/kernels/cpu/large_output.hpp>
#include <lod/kernels/cpu/launch.hpp>
#include <lod/kernels/cpu/parallel.hpp>
#include <lod/kernels/cpu/pooled_sums.hpp>
#include <lod/kernels/cpu/row_sum.hpp>
#include <lod/kernels/cpu/sequence_pool.hpp>
#include <lod/kernels/cpu/sequence_sums.hpp>
#include <lod/kernels/cpu/short_sequences.hpp>
#include <lod/kernels/cpu/vector.hpp>
#include <lod/ops/merge_rows.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu {

/// The addresses of rows that are read in the order of a list.
template <class T>
struct OrderedPlaces {
  NumberedRows<T> rows;
  const std::int64_t* order;

  void set_row_size(std::int64_t size) noexcept { rows.row_size = size; }
  [[gnu::always_inline]] const T* operator()(std::int64_t k) const noexcept { return rows[order[k]]; }
  /// The list of addresses is read at random too.
  [[gnu::always_inline]] void prefetch_place(std::int64_t k) const noexcept {
    if (rows.list) __builtin_prefetch(rows.list + order[k]);
  }
};

/// The rows of groups, in the order of the groups.
template <class T>
struct GroupedRows {
  NumberedRows<T> rows;
  const std::int64_t* order;
  Segments groups;
  std::int64_t row_size;

  ScatteredRows<T, OrderedPlaces<T>> operator()(std::int64_t group, int) const noexcept {
    const std::int64_t first = groups.begin(group);
    return {{rows, order + first}, groups.rows() - first, row_size};
  }
};

/// Calls finish(g, sums) with the sums of the rows of each group.
template <class T, class Finish>
void for_each_group_sum(const CpuExecutor& executor, const NumberedRows<T>& rows, const std::int64_t* order,
                        const Segments& groups, std::int64_t row_size, const Finish& finish) {
  sum_sequences<T>(executor, groups, row_size, GroupedRows<T>{rows, order, groups, row_size}, finish);
}

template <>
struct Kernel<SumGroups> {
  template <class T>
  static void run(const CpuExecutor& executor, PoolType type, const NumberedRows<T>& rows, const std::int64_t* order,
                  const Segments& groups, std::int64_t row_size, const std::int64_t* to, T* y) {
    if (row_size == 1 && !to) {
      // Rows of one number are gathered first: then many short groups of them are summed at a time.
      const std::int64_t count = groups.rows();
      const Workspace::Loan<T> found(executor.workspace(), count);
      const cpu::ScatteredRows<T, cpu::OrderedPlaces<T>> ordered{{rows, order}, count, 1};
      cpu::parallel_ranges(executor, count, count * lod::detail::bytes_of<T>(1),
                           [&](std::int64_t begin, std::int64_t end) {
                             for (std::int64_t i = begin; i < end; ++i) found[i] = *ordered(i);
                           });
      return cpu::Kernel<SequencePool>::run(executor, found.data(), groups, 1, type, T{}, y);
    }
    const cpu::PooledSums<T> finish(type, groups, row_size, T{}, to, y);
    if constexpr (divides_wide_sums<T>) {
      if (type != PoolType::SUM) {
        return cpu::sum_sequences_exactly<T>(executor, groups, row_size,
                                             cpu::GroupedRows<T>{rows, order, groups, row_size}, finish);
      }
    }
    cpu::sum_sequences_by_vectors<T>(executor, groups, row_size, cpu::GroupedRows<T>{rows, order, groups, row_size},
                                     finish);
  }
};

template <>
struct Kernel<SetZero> {
  template <class T>
  static void run(const CpuExecutor& executor, T* y, std::int64_t count) {
    cpu::parallel_ranges(executor, count, count * static_cast<std::int64_t>(sizeof(T)),
                         [&](std::int64_t begin, std::int64_t end) { cpu::fill(y + begin, end - begin, T{}); });
  }
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu
