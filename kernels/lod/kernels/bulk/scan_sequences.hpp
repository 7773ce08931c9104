// SPDX-License-Identifier: Apache-2.0
/// @file
/// Scans by a user's function in bulk: the last rows of leaves, what is before each leaf, and the rows.
#pragma once

#include <lod/core/version.hpp>
#include <lod/kernels/bulk/bulk.hpp>
#include <lod/kernels/bulk/leaves.hpp>
#include <lod/ops/scan_sequences.hpp>
#include <lod/ops/staging.hpp>

#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk {

/// Scans one column of a leaf.
template <class T, class Op>
struct ScanNumbersOfColumn {
  const T* x;
  Segments sequences;
  std::int64_t row_size;
  Op op;
  bool reverse;
  T* y;

  /// Calls write(place, scanned) for each row, scanned by the leaf itself, and returns the last one.
  template <class Write>
  LOD_HOST_DEVICE T run(const Leaf& leaf, std::int64_t column, const Write& write) const {
    const std::int64_t i = leaf.sequence, step = reverse ? -row_size : row_size;
    const std::int64_t row = reverse ? sequences.length(i) - 1 - leaf.first : leaf.first;
    std::int64_t at = (sequences.begin(i) + row) * row_size + column;
    T all = x[at];
    write(at, all);
    for (std::int64_t k = 1; k < leaf.rows; ++k) {
      at += step;
      all = op(all, x[at]);
      write(at, all);
    }
    return all;
  }
  LOD_HOST_DEVICE void write(const Leaf& leaf, std::int64_t column) const {
    run(leaf, column, [this](std::int64_t at, const T& scanned) { y[at] = scanned; });
  }
};
template <class T, class Op>
struct ScanShortByUser {
  ScanNumbersOfColumn<T, Op> scan;
  template <class Lanes>
  LOD_HOST_DEVICE void operator()(std::int64_t i, std::int64_t column, const Lanes&) const {
    const std::int64_t rows = scan.sequences.length(i);
    if (rows > 0) scan.write({i, 0, 0, rows}, column);
  }
};
template <class T, class Op>
struct LastOfLeaf {
  ScanNumbersOfColumn<T, Op> scan;
  LeafParts<T> last;
  template <class Lanes>
  LOD_HOST_DEVICE void operator()(std::int64_t place, const Leaf& leaf, std::int64_t column, const Lanes&) const {
    last.put(place, column, scan.run(leaf, column, [](std::int64_t, const T&) {}));
  }
};
template <class T, class Op>
struct ScanLeafByUser {
  ScanNumbersOfColumn<T, Op> scan;
  LeafParts<T> last;  ///< of each leaf, with what is before it
  template <class Lanes>
  LOD_HOST_DEVICE void operator()(std::int64_t place, const Leaf& leaf, std::int64_t column, const Lanes&) const {
    if (leaf.number == 0) return scan.write(leaf, column);
    const T before = last.of(place - 1, column);
    scan.run(leaf, column, [&](std::int64_t at, const T& scanned) { scan.y[at] = scan.op(before, scanned); });
  }
};
template <class T, class Op>
struct JoinLeavesByUser {
  Leaves leaves;
  Op op;
  LeafParts<T> last;
  LOD_HOST_DEVICE void operator()(std::int64_t place, std::int64_t column) const {
    const Leaf leaf = leaves.at(place);
    if (leaf.rows == 0 || leaf.number != 0) return;
    for (std::int64_t next = 1; next < leaves.count(leaf.sequence); ++next) {
      T& own = last.of(place + next, column);
      own = op(last.of(place + next - 1, column), own);
    }
  }
};

template <>
struct Kernel<ScanSequences> {
  template <class E, class T, class Op>
  static void run(const E& executor, const T* x, const Segments& sequences, std::int64_t row_size, const Op& op,
                  bool reverse, T* y) {
    if (row_size == 0) return;
    const ScanNumbersOfColumn<T, Op> scan{x, sequences, row_size, op, reverse, y};
    const Leaves leaves{sequences};
    const LeafScratch<E, T> loan(executor, leaves, row_size);
    const LeafParts<T> last = loan.parts();
    // A column belongs to one thread: each of its results depends on the one before it.
    for_each_short_and_leaf<Columns::own>(executor, sequences, row_size, ScanShortByUser<T, Op>{scan},
                                          LastOfLeaf<T, Op>{scan, last});
    if (!leaves.any()) return;
    for_each_element(executor, leaves.places(), row_size, JoinLeavesByUser<T, Op>{leaves, op, last});
    for_each_leaf<Columns::own>(executor, leaves, row_size, ScanLeafByUser<T, Op>{scan, last});
  }
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk
