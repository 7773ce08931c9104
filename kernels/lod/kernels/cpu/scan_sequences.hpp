// SPDX-License-Identifier: Apache-2.0
/// @file
/// Scans by a user's function on the CPU: leaves of rows, each scanned by itself and joined with what is before it.
#pragma once

#include <lod/core/version.hpp>
#include <lod/kernels/cpu/launch.hpp>
#include <lod/kernels/cpu/parallel.hpp>
#include <lod/kernels/sum_tree.hpp>
#include <lod/ops/for_each_sequence.hpp>
#include <lod/ops/scan_sequences.hpp>

#include <algorithm>
#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu {

/// Scans rows, which are `step` numbers apart in the direction of the scan.
template <class T, class Op>
struct ScannedNumbers {
  std::int64_t row_size;
  std::int64_t step;
  const Op& op;

  /// Scans a leaf by itself and writes the last row to `total`. If there is something before the leaf, rows of y are
  /// joined with it; without y nothing else is written.
  void leaf(const T* x, std::int64_t count, const T* before, T* y, T* total) const {
    for (std::int64_t i = 0; i < row_size; ++i) total[i] = x[i];
    put(total, before, y);
    for (std::int64_t row = 1; row < count; ++row) {
      const T* const from = x + row * step;
      for (std::int64_t i = 0; i < row_size; ++i) total[i] = op(total[i], from[i]);
      put(total, before, y ? y + row * step : nullptr);
    }
  }
  void join(const T* before, const T* leaf, T* all) const {
    for (std::int64_t i = 0; i < row_size; ++i) all[i] = op(before[i], leaf[i]);
  }

 private:
  void put(const T* scanned, const T* before, T* y) const {
    if (!y) return;
    if (before) return join(before, scanned, y);
    for (std::int64_t i = 0; i < row_size; ++i) y[i] = scanned[i];
  }
};

template <>
struct Kernel<ScanSequences> {
  template <class T, class Op>
  static void run(const CpuExecutor& executor, const T* x, const Segments& sequences, std::int64_t row_size,
                  const Op& op, bool reverse, T* y) {
    if (row_size == 0) return;
    const cpu::ScannedNumbers<T, Op> scanned{row_size, reverse ? -row_size : row_size, op};
    const auto callers = cpu::FloatingPointControl::read();
    const std::int64_t row_bytes = lod::detail::bytes_of<T>(2, row_size);
    const auto leaves_of = [](std::int64_t rows) { return (rows + leaf_rows - 1) / leaf_rows; };
    // Where a leaf begins, counted in the direction of the scan, and how many rows it has.
    const auto place = [&](std::int64_t i, std::int64_t number) {
      const std::int64_t first = number * leaf_rows;
      return (sequences.begin(i) + (reverse ? sequences.length(i) - 1 - first : first)) * row_size;
    };
    const auto count = [&](std::int64_t i, std::int64_t number) {
      return std::min(sequences.length(i) - number * leaf_rows, leaf_rows);
    };
    cpu::LongSequences long_ones(executor, sequences, cpu::longest_alone(executor, sequences, row_bytes, leaf_rows));
    const cpu::ThreadScratch<T> scratch(executor, lod::detail::saturated_product(2, row_size));
    const Workspace::Loan<T> of_leaves(executor.workspace(),
                                       lod::detail::saturated_product(leaves_of(long_ones.longest()), row_size));
    operation::FirstError error;
    cpu::parallel_sequences(executor, sequences, row_bytes, [&](std::int64_t begin, std::int64_t end, int thread) {
      const cpu::FloatingPointControl control(callers);
      T *const total = scratch(thread), *const before = total + row_size;
      error.guard(begin, [&] {
        for (std::int64_t i = begin; i < end; ++i) {
          if (long_ones.note(i, sequences.length(i))) continue;
          const std::int64_t leaves = leaves_of(sequences.length(i));
          for (std::int64_t number = 0; number < leaves; ++number) {
            const std::int64_t at = place(i, number);
            scanned.leaf(x + at, count(i, number), number > 0 ? before : nullptr, y + at, total);
            number > 0 ? scanned.join(before, total, before) : static_cast<void>(std::copy_n(total, row_size, before));
          }
        }
      });
    });
    long_ones.for_each([&](std::int64_t i) {
      const std::int64_t leaves = leaves_of(sequences.length(i));
      const auto for_each_leaf = [&](const auto& body) {
        cpu::parallel_ranges(executor, leaves, sequences.length(i) * row_bytes,
                             [&](std::int64_t begin, std::int64_t end, int thread) {
                               const cpu::FloatingPointControl control(callers);
                               error.guard(i, [&] {
                                 for (std::int64_t number = begin; number < end; ++number) {
                                   body(number, of_leaves.data() + number * row_size, scratch(thread));
                                 }
                               });
                             });
      };
      for_each_leaf([&](std::int64_t number, T* total, T*) {
        scanned.leaf(x + place(i, number), count(i, number), nullptr, nullptr, total);
      });
      if (error.any()) return;
      const cpu::FloatingPointControl control(callers);
      error.guard(i, [&] {
        for (std::int64_t number = 1; number < leaves; ++number) {
          T* const total = of_leaves.data() + number * row_size;
          scanned.join(total - row_size, total, total);
        }
      });
      if (error.any()) return;
      for_each_leaf([&](std::int64_t number, T* total, T* again) {
        const std::int64_t at = place(i, number);
        scanned.leaf(x + at, count(i, number), number > 0 ? total - row_size : nullptr, y + at, again);
      });
    });
    error.rethrow();
  }
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu
