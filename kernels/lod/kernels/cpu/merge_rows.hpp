// SPDX-License-Identifier: Apache-2.0
/// @file
/// Rows sorted by id and pooled, on the CPU.
#pragma once

#include <lod/kernels/cpu/group_rows.hpp>
#include <lod/kernels/cpu/large_output.hpp>
#include <lod/kernels/cpu/parallel.hpp>
#include <lod/kernels/cpu/row_sum.hpp>
#include <lod/kernels/cpu/sequence_pool.hpp>
#include <lod/kernels/cpu/short_sequences.hpp>
#include <lod/kernels/cpu/vector.hpp>
#include <lod/ops/merge_rows.hpp>

#include <concepts>
#include <cstddef>
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

/// The rows of groups, in order of the groups.
template <class T>
struct GroupedRows {
  NumberedRows<T> rows;
  const std::int64_t* order;
  Segments groups;
  std::int64_t row_size;

  OrderedRows<T> operator()(std::int64_t group, int) const noexcept {
    const std::int64_t first = groups.begin(group);
    return {rows, order + first, groups.rows() - first, row_size};
  }
};

/// Calls finish(g, sums) with the sums of the rows of each group.
template <class T, class Finish>
void for_each_group_sum(const CpuExecutor& executor, const NumberedRows<T>& rows, const std::int64_t* order,
                        const Segments& groups, std::int64_t row_size, const Finish& finish) {
  sum_sequences<T>(executor, groups, row_size, GroupedRows<T>{rows, order, groups, row_size}, finish);
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
  bool past_caches() const noexcept { return output_.past_caches(); }

 private:
  PoolType type_;
  Segments groups_;
  std::int64_t row_size_;
  const std::int64_t* to_;
  T* y_;
  LargeOutput output_;
};

/// Writes the sums of groups of at most a leaf of rows, which are so many vectors, from the registers in which they add
/// up: of the `short_sequences` groups from `first` on. Returns the others, one bit each. `past_caches`: y is a
/// multiple of a vector, and written past the caches.
template <std::size_t vectors, class T>
unsigned write_vector_sums(GroupedRows<T> grouped, std::int64_t first, const std::int64_t* to, bool past_caches, T* y) {
  constexpr std::int64_t row_size = static_cast<std::int64_t>(vectors) * lanes<T>;
  grouped.row_size = grouped.rows.row_size = row_size;  // known to the compiler from here on
  unsigned others = 0;
  for (std::int64_t k = 0; k < short_sequences; ++k) {
    const std::int64_t group = first + k, length = grouped.groups.length(group);
    if (length < 1 || length > leaf_rows) {
      others |= 1U << k;
      continue;
    }
    const OrderedRows<T> rows = grouped(group, 0);
    VectorRow<vectors, T> sums;
    if (length == 1) {  // as the row is: the sum of a negative zero and zero is not
      const T* const row = rows(0);
      for (std::size_t v = 0; v < vectors; ++v) sums[v] = load(row + v * Vector<T>::size);
    } else {
      for (std::size_t v = 0; v < vectors; ++v) sums[v] = Vector<T>(T{});
      add_vector_rows<vectors, T>(rows, 0, length, sums);
    }
    T* const out = y + (to ? to[group] : group) * row_size;
    for (std::size_t v = 0; v < vectors; ++v) {
      T* const part = out + v * Vector<T>::size;
      past_caches ? write_vector(part, sums[v]) : store<T>(part, sums[v]);
    }
  }
  return others;
}

}  // namespace cpu

template <>
struct SumGroups<InlineCpu> {
  template <class T>
  static void run(const CpuExecutor& executor, PoolType type, const NumberedRows<T>& rows, const std::int64_t* order,
                  const Segments& groups, std::int64_t row_size, const std::int64_t* to, T* y) {
    const cpu::PooledGroups<T> finish(type, groups, row_size, to, y);
    if constexpr (std::same_as<T, Accumulator<T>>) {
      // The sums of narrow rows follow another tree.
      const bool whole = row_size > narrow_row_size && row_size % cpu::lanes<T> == 0;
      const std::int64_t vectors = whole ? row_size / cpu::lanes<T> : 0;
      if (type == PoolType::SUM && (vectors == 1 || vectors == 2 || vectors == 4 || vectors == 8)) {
        const cpu::GroupedRows<T> grouped{rows, order, groups, row_size};
        const bool past_caches = finish.past_caches() && reinterpret_cast<std::uintptr_t>(y) % 64 == 0;
        return cpu::sum_sequences<T>(executor, groups, row_size, grouped, finish, [=](std::int64_t first) {
          if (vectors == 1) return cpu::write_vector_sums<1>(grouped, first, to, past_caches, y);
          if (vectors == 2) return cpu::write_vector_sums<2>(grouped, first, to, past_caches, y);
          if (vectors == 4) return cpu::write_vector_sums<4>(grouped, first, to, past_caches, y);
          return cpu::write_vector_sums<8>(grouped, first, to, past_caches, y);
        });
      }
    }
    cpu::for_each_group_sum(executor, rows, order, groups, row_size, finish);
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
