// SPDX-License-Identifier: Apache-2.0
/// @file
/// Sorting the rows of sequences in bulk: all rows of the batch at once, by sequence and number.
#pragma once

#include <lod/core/version.hpp>
#include <lod/kernels/bulk/bulk.hpp>
#include <lod/kernels/sort_key.hpp>
#include <lod/ops/sequence_sort.hpp>
#include <lod/ops/staging.hpp>

#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk {

/// Sets order[place] to the row that is at each place when the rows of each group are sorted. The rows of a group are
/// contiguous; group_of(row) ascends and is less than `groups`.
template <class E, class T, class GroupOf>
void sort_groups(const E& executor, const T* x, std::int64_t rows, std::int64_t groups, const GroupOf& group_of,
                 bool descending, std::int64_t* order) {
  // One sort, if a group and a key fit one number; otherwise one by keys and one by groups.
  constexpr std::int64_t most = std::int64_t{1} << 31;
  const bool together = has_narrow_key<T> && groups <= most;
  const Scratch<E, std::int64_t> loan(executor, rows);
  std::int64_t* const keys = loan.data();
  for_each(executor, rows, [=] LOD_HOST_DEVICE(std::int64_t row) {
    const std::int64_t key = sort_key(x[row], descending);
    keys[row] = together ? 2 * most * group_of(row) + (key + most) : key;
    order[row] = row;
  });
  System<E>(executor).sort_by_key(keys, rows, order, together ? 32 + bits_up_to(groups - 1) : 64);
  if (together || groups <= 1) return;
  for_each(executor, rows, [=] LOD_HOST_DEVICE(std::int64_t place) { keys[place] = group_of(order[place]); });
  System<E>(executor).sort_by_key(keys, rows, order, bits_up_to(groups - 1));
}

/// The sequences as groups.
struct SequenceOfRow {
  Segments sequences;
  LOD_HOST_DEVICE std::int64_t operator()(std::int64_t row) const noexcept { return sequence_of(sequences, row); }
};

template <>
struct Kernel<SequenceSort> {
  template <class E, class T>
  static void run(const E& executor, const T* x, const Segments& sequences, bool descending, T* y,
                  std::int64_t* index) {
    const std::int64_t rows = sequences.rows();
    const Scratch<E, std::int64_t> loan(executor, index ? 0 : rows);
    std::int64_t* const order = index ? index : loan.data();
    sort_groups(executor, x, rows, sequences.size, SequenceOfRow{sequences}, descending, order);
    if (!y) return;
    for_each(executor, rows, [=] LOD_HOST_DEVICE(std::int64_t place) { y[place] = x[order[place]]; });
  }
};

template <>
struct Kernel<SequenceTopK> {
  template <class E, class T>
  static void run(const E& executor, const T* x, const Segments& sequences, const Segments& parts, T* y,
                  std::int64_t* index) {
    const std::int64_t rows = sequences.rows();
    const Scratch<E, std::int64_t> loan(executor, rows);
    std::int64_t* const order = loan.data();
    sort_groups(executor, x, rows, sequences.size, SequenceOfRow{sequences}, true, order);
    for_each(executor, parts.rows(), [=] LOD_HOST_DEVICE(std::int64_t at) {
      const std::int64_t i = sequence_of(parts, at), row = order[sequences.begin(i) + at - parts.begin(i)];
      y[at] = x[row];
      index[at] = row;
    });
  }
};

template <>
struct Kernel<SequenceSortGrad> {
  /// An index names each row at most once: the order in which the rows are written does not matter.
  template <class E, class T>
  static void run(const E& executor, const T* dy, const std::int64_t* index, const Segments& parts,
                  const Segments& sequences, T* dx) {
    for_each(executor, sequences.rows(), [=] LOD_HOST_DEVICE(std::int64_t row) { dx[row] = T{}; });
    for_each(executor, parts.rows(), [=] LOD_HOST_DEVICE(std::int64_t at) {
      const std::int64_t row = index[at];
      if (row >= 0 && row < sequences.rows()) dx[row] = dy[at];  // only the CPU has checked it before
    });
  }
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk
