// SPDX-License-Identifier: Apache-2.0
/// @file
/// Reductions by a user's function on the CPU: leaves of rows, and the leaves of a sequence one after the other.
#pragma once

#include <lod/core/version.hpp>
#include <lod/kernels/cpu/launch.hpp>
#include <lod/kernels/cpu/parallel.hpp>
#include <lod/kernels/sum_tree.hpp>
#include <lod/ops/for_each_sequence.hpp>
#include <lod/ops/reduce_sequences.hpp>

#include <algorithm>
#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu {

/// Reduces numbers of type T as numbers of type U.
template <class T, class U, class Op>
struct ReducedRows {
  std::int64_t row_size;
  const U& initial;
  const Op& op;

  /// Of `count` rows, one at least and at most a leaf.
  void leaf(const T* x, std::int64_t count, U* to) const {
    if (row_size == 1) {
      *to = scalars(x, count);
      return;
    }
    for (std::int64_t i = 0; i < row_size; ++i) to[i] = static_cast<U>(x[i]);
    for (std::int64_t row = 1; row < count; ++row) {
      const T* const from = x + row * row_size;
      for (std::int64_t i = 0; i < row_size; ++i) to[i] = op(to[i], static_cast<U>(from[i]));
    }
  }
  /// The same for scalar rows, in four runs side by side: a processor does not wait for one call before the next.
  U scalars(const T* x, std::int64_t count) const {
    constexpr std::int64_t runs = 4;
    const std::int64_t each = count / runs;
    const auto number = [&](std::int64_t i) { return static_cast<U>(x[i]); };
    if (each < 2) {
      U all = number(0);
      for (std::int64_t i = 1; i < count; ++i) all = op(all, number(i));
      return all;
    }
    U a = number(0), b = number(each), c = number(2 * each), d = number(3 * each);
    for (std::int64_t i = 1; i < each; ++i) {
      a = op(a, number(i));
      b = op(b, number(each + i));
      c = op(c, number(2 * each + i));
      d = op(d, number(3 * each + i));
    }
    for (std::int64_t i = runs * each; i < count; ++i) d = op(d, number(i));
    return op(op(a, b), op(c, d));
  }
  void join(U* all, const U* more) const {
    for (std::int64_t i = 0; i < row_size; ++i) all[i] = op(all[i], more[i]);
  }
  void finish(const U* all, U* y) const {
    for (std::int64_t i = 0; i < row_size; ++i) y[i] = op(initial, all[i]);
  }
  /// A whole sequence, with scratch memory for two rows.
  void sequence(const T* x, std::int64_t rows, U* scratch, U* y) const {
    if (rows == 0) return static_cast<void>(std::fill_n(y, row_size, initial));
    leaf(x, std::min(rows, leaf_rows), scratch);
    for (std::int64_t first = leaf_rows; first < rows; first += leaf_rows) {
      leaf(x + first * row_size, std::min(rows - first, leaf_rows), scratch + row_size);
      join(scratch, scratch + row_size);
    }
    finish(scratch, y);
  }
};

template <>
struct Kernel<ReduceSequences> {
  template <class T, class U, class Op>
  static void run(const CpuExecutor& executor, const T* x, const Segments& sequences, std::int64_t row_size,
                  const U& initial, const Op& op, U* y) {
    if (row_size == 0) return;
    const cpu::ReducedRows<T, U, Op> reduced{row_size, initial, op};
    const auto callers = cpu::FloatingPointControl::read();
    const std::int64_t row_bytes = lod::detail::bytes_of<T>(1, row_size);
    const auto leaves_of = [](std::int64_t rows) { return (rows + leaf_rows - 1) / leaf_rows; };
    cpu::LongSequences long_ones(executor, sequences, cpu::longest_alone(executor, sequences, row_bytes, leaf_rows));
    const cpu::ThreadScratch<U> scratch(executor, lod::detail::saturated_product(2, row_size));
    const Workspace::Loan<U> of_leaves(executor.workspace(),
                                       lod::detail::saturated_product(leaves_of(long_ones.longest()), row_size));
    operation::FirstError error;
    cpu::parallel_sequences(executor, sequences, row_bytes, [&](std::int64_t begin, std::int64_t end, int thread) {
      const cpu::FloatingPointControl control(callers);
      error.guard(begin, [&] {
        for (std::int64_t i = begin; i < end; ++i) {
          const std::int64_t rows = sequences.length(i);
          if (long_ones.note(i, rows)) continue;
          reduced.sequence(x + sequences.begin(i) * row_size, rows, scratch(thread), y + i * row_size);
        }
      });
    });
    long_ones.for_each([&](std::int64_t i) {
      const std::int64_t rows = sequences.length(i), before = sequences.begin(i) * row_size, leaves = leaves_of(rows);
      cpu::parallel_ranges(executor, leaves, rows * row_bytes, [&](std::int64_t begin, std::int64_t end) {
        const cpu::FloatingPointControl control(callers);
        error.guard(i, [&] {
          for (std::int64_t number = begin; number < end; ++number) {
            const std::int64_t first = number * leaf_rows;
            reduced.leaf(x + before + first * row_size, std::min(rows - first, leaf_rows),
                         of_leaves.data() + number * row_size);
          }
        });
      });
      if (error.any()) return;
      const cpu::FloatingPointControl control(callers);
      error.guard(i, [&] {
        U* const all = of_leaves.data();
        for (std::int64_t number = 1; number < leaves; ++number) reduced.join(all, all + number * row_size);
        reduced.finish(all, y + i * row_size);
      });
    });
    error.rethrow();
  }
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu
