// SPDX-License-Identifier: Apache-2.0
/// @file
/// Linear recurrences on the CPU.
///
/// A sequence consists of leaves of rows, counted in the direction of the scan. The state before a leaf becomes that
/// before the next one by a factor, the product of the leaf's factors, and a term, the leaf's last state with zero
/// before it. Threads that share a sequence work these out for all its leaves at once. A thread that has a sequence for
/// itself works them out, too, in the same pass: so both have the same bits.
#pragma once

#include <lod/core/version.hpp>
#include <lod/kernels/cpu/launch.hpp>
#include <lod/kernels/cpu/parallel.hpp>
#include <lod/kernels/cpu/rows.hpp>
#include <lod/kernels/cpu/vector.hpp>
#include <lod/kernels/fused.hpp>
#include <lod/kernels/linear_scan.hpp>
#include <lod/kernels/sum_tree.hpp>
#include <lod/ops/sequence_linear_scan.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu {

/// Which numbers of a row are processed together: one, or the first `count` of a vector.
struct OneColumn {};
struct Columns {
  std::int64_t count;
};
template <class T>
[[gnu::always_inline]] inline Accumulator<T> read_columns(const T* x, OneColumn) {
  return static_cast<Accumulator<T>>(*x);
}
template <class T>
[[gnu::always_inline]] inline Vector<T> read_columns(const T* x, Columns columns) {
  return load_vector(x, columns.count);
}
template <class T>
[[gnu::always_inline]] inline void write_columns(T* y, Accumulator<T> number, OneColumn) {
  *y = static_cast<T>(number);
}
template <class T>
[[gnu::always_inline]] inline void write_columns(T* y, const Vector<T>& numbers, Columns columns) {
  store_first(y, numbers, columns.count, columns.count);
}
/// The state after a row.
template <class A>
[[gnu::always_inline]] inline A next_state(A factor, A state, A term) {
  return fused(factor, state, term);
}
template <class A>
[[gnu::always_inline]] inline xsimd::batch<A> next_state(const xsimd::batch<A>& factor, const xsimd::batch<A>& state,
                                                         const xsimd::batch<A>& term) {
  return multiply_add(factor, state, term);
}

/// The rows of a leaf, in the direction of the scan.
struct ScannedRows {
  std::int64_t sequence;
  std::int64_t place;  ///< of the first number of the first row
  std::int64_t count;
  bool begins;  ///< whether the sequence begins with the first of them
  bool ends;    ///< whether it ends with the last
};

/// Scans rows of T. `Numbers` says what is read and written.
template <class T, class Numbers>
class LinearScan {
 public:
  using A = Accumulator<T>;
  /// The scratch memory of a thread, in numbers.
  static std::int64_t scratch(std::int64_t row_size) noexcept { return lod::detail::saturated_product(4, row_size); }
  static std::int64_t leaves_of(std::int64_t rows) noexcept { return (rows + leaf_rows - 1) / leaf_rows; }

  LinearScan(const Numbers& numbers, const Segments& sequences) noexcept
      : numbers_(numbers), sequences_(sequences), row_size_(numbers.row_size), step_(numbers.step()) {}

  ScannedRows leaf(std::int64_t i, std::int64_t number) const noexcept {
    const std::int64_t rows = sequences_.length(i), first = number * leaf_rows,
                       count = std::min(leaf_rows, rows - first);
    const std::int64_t row = sequences_.begin(i) + (numbers_.backwards ? rows - 1 - first : first);
    return {i, row * row_size_, count, number == 0, first + count == rows};
  }

  /// Moves the states over the rows of a leaf, which are written if `writes`. Where the sequence begins, the states are
  /// set. If `totals`, the factor and the term of the leaf are worked out: with the states, or if nothing is written
  /// instead of them.
  template <bool writes, bool totals>
  void run(const ScannedRows& rows, A* states, A* factors = nullptr, A* terms = nullptr) const {
    if constexpr (totals) {
      fill(factors, row_size_, A{1});
      fill(terms, row_size_, A{});
    }
    ScannedRows others = rows;
    if (rows.begins) {
      if (const T* const start = numbers_.start(rows.sequence)) {
        widen(start, row_size_, states);
      } else {
        // Nothing is before the first row, whose factor has no influence.
        others.place += step_;
        --others.count;
        for_all_columns<writes, false, true>({rows.sequence, rows.place, 1, true, others.count == 0 && rows.ends},
                                             states, nullptr, nullptr);
      }
    }
    // Few rows at a time: of all tensors, lines are read and written one after the other.
    const std::int64_t at_a_time = std::clamp<std::int64_t>(block_numbers / row_size_, 1, 16);
    while (others.count > 0) {
      ScannedRows some = others;
      some.count = std::min(at_a_time, others.count);
      some.ends = rows.ends && some.count == others.count;
      for_all_columns<writes, totals, false>(some, states, factors, terms);
      others.place += some.count * step_;
      others.count -= some.count;
    }
    if constexpr (Numbers::is_gradient) {
      if (writes && rows.ends) finish(rows.sequence, rows.place + (rows.count - 1) * step_, states);
    }
  }

  /// A whole sequence, by one thread.
  void sequence(std::int64_t i, A* scratch) const {
    const std::int64_t leaves = leaves_of(sequences_.length(i));
    if (leaves == 0) return empty_sequence(i);
    A *const states = scratch, *const before = states + row_size_, *const factors = before + row_size_;
    A* const terms = factors + row_size_;
    run<true, false>(leaf(i, 0), states);
    for (std::int64_t number = 1; number < leaves; ++number) {
      if (number + 1 == leaves) return run<true, false>(leaf(i, number), states);
      copy(states, row_size_, before);
      run<true, true>(leaf(i, number), states, factors, terms);
      for (std::int64_t k = 0; k < row_size_; ++k) states[k] = after_leaf(before[k], factors[k], terms[k]);
    }
  }

 private:
  /// The numbers of a kilobyte.
  static constexpr auto block_numbers = static_cast<std::int64_t>(1024 / sizeof(T));

  void empty_sequence(std::int64_t i) const {
    if constexpr (Numbers::is_gradient) fill(numbers_.dinitial + i * row_size_, row_size_, T{});
  }
  /// The gradient of what is before the first row of the scan that is differentiated: at `place`, with these states.
  void finish(std::int64_t i, std::int64_t place, const A* states) const {
    const T* const by = numbers_.a + place;
    T* const to = numbers_.dinitial + i * row_size_;
    for_each_column_block<1, false>([&](std::int64_t column, auto, auto columns) {
      write_columns(to + column, read_columns(by + column, columns) * load_state(states + column, columns), columns);
    });
  }

  /// Calls body(column, vectors, columns) for the columns of a row, the last ones first if `backwards`: `vectors`
  /// vectors of them, of which the last has `columns`.
  template <std::size_t most_vectors, bool backwards, class Body>
  [[gnu::always_inline]] void for_each_column_block(const Body& body) const {
    if (row_size_ == 1) return body(std::int64_t{0}, std::integral_constant<std::size_t, 1>(), OneColumn());
    constexpr std::int64_t size = static_cast<std::int64_t>(most_vectors) * lanes<T>;
    const std::int64_t in_blocks = row_size_ / size * size;
    const auto blocks = [&]() __attribute__((always_inline)) {
      for (std::int64_t column = 0; column < in_blocks; column += size) {
        body(backwards ? in_blocks - size - column : column, std::integral_constant<std::size_t, most_vectors>(),
             Columns{lanes<T>});
      }
    };
    if (!backwards) blocks();
    for (std::int64_t column = in_blocks; column < row_size_; column += lanes<T>) {
      body(column, std::integral_constant<std::size_t, 1>(), Columns{std::min(lanes<T>, row_size_ - column)});
    }
    if (backwards) blocks();
  }
  [[gnu::always_inline]] static A load_state(const A* state, OneColumn) { return *state; }
  [[gnu::always_inline]] static Vector<T> load_state(const A* states, Columns columns) {
    return load_vector(states, columns.count);
  }

  /// All columns of a few rows; `fresh` if nothing is before them. Backwards, the columns are, too: processors read
  /// ahead of what goes in one direction.
  template <bool writes, bool totals, bool fresh>
  [[gnu::always_inline]] void for_all_columns(const ScannedRows& rows, A* states, A* factors, A* terms) const {
    if (step_ < 0) return scan_block<writes, totals, fresh, true>(rows, states, factors, terms);
    scan_block<writes, totals, fresh, false>(rows, states, factors, terms);
  }
  template <bool writes, bool totals, bool fresh, bool backwards>
  [[gnu::always_inline]] void scan_block(const ScannedRows& rows, A* states, A* factors, A* terms) const {
    for_each_column_block<4, backwards>([&](std::int64_t column, auto vectors,
                                            auto columns) __attribute__((always_inline)) {
      scan_columns<writes, totals, fresh, backwards, vectors>(rows, column, columns, states, factors, terms);
    });
  }
  template <bool writes, bool totals, bool fresh, bool backwards, std::size_t vectors, class Some>
  [[gnu::always_inline]] void scan_columns(const ScannedRows& rows, std::int64_t column, Some columns, A* states,
                                           A* factors, A* terms) const {
    constexpr bool moves = writes || !totals;
    using V = decltype(load_state(states, columns));
    const Numbers numbers = numbers_;  // a copy, which what is written does not change
    V state[vectors], factor[vectors], term[vectors];
#pragma GCC unroll 4
    for (std::size_t v = 0; v < vectors; ++v) {
      const std::int64_t at = column + static_cast<std::int64_t>(v) * lanes<T>;
      if constexpr (moves && !fresh) state[v] = load_state(states + at, columns);
      if constexpr (totals) {
        factor[v] = load_state(factors + at, columns);
        term[v] = load_state(terms + at, columns);
      }
    }
    for (std::int64_t k = 0; k < rows.count; ++k) {
      const bool is_last = rows.ends && k + 1 == rows.count;
#pragma GCC unroll 4
      for (std::size_t n = 0; n < vectors; ++n) {
        const std::size_t v = backwards ? vectors - 1 - n : n;
        const std::int64_t at = column + static_cast<std::int64_t>(v) * lanes<T>, place = rows.place + k * step_ + at;
        const V more = read_columns(numbers.term(place), columns);
        if constexpr (fresh) {
          state[v] = more;
        } else {
          const V by = read_columns(numbers.factor(place), columns);
          if constexpr (moves) state[v] = next_state(by, state[v], more);
          if constexpr (totals) {
            factor[v] *= by;
            term[v] = next_state(by, term[v], more);
          }
        }
        if constexpr (writes) {
          write_columns(numbers.state(place), state[v], columns);
          if constexpr (Numbers::is_gradient) {
            const T* const other = numbers.multiplied(place, is_last, rows.sequence, at);
            write_columns(numbers.da + place, other ? state[v] * read_columns(other, columns) : V(A{}), columns);
          }
        }
      }
    }
#pragma GCC unroll 4
    for (std::size_t v = 0; v < vectors; ++v) {
      const std::int64_t at = column + static_cast<std::int64_t>(v) * lanes<T>;
      if constexpr (moves) write_columns(states + at, state[v], columns);
      if constexpr (totals) {
        write_columns(factors + at, factor[v], columns);
        write_columns(terms + at, term[v], columns);
      }
    }
  }

  Numbers numbers_;
  Segments sequences_;
  std::int64_t row_size_, step_;
};

/// Scans all sequences; `tensors` are read or written.
template <class T, class Numbers>
void scan_sequences(const CpuExecutor& executor, const Numbers& numbers, const Segments& sequences,
                    std::int64_t tensors) {
  using A = Accumulator<T>;
  const std::int64_t row_size = numbers.row_size;
  if (row_size == 0) return;
  using Scan = LinearScan<T, Numbers>;
  const std::int64_t row_bytes = lod::detail::bytes_of<T>(tensors, row_size);
  const Scan scan(numbers, sequences);
  const ThreadScratch<A> scratch(executor, Scan::scratch(row_size));
  LongSequences long_ones(executor, sequences, longest_alone(executor, sequences, row_bytes, leaf_rows));
  const Workspace::Loan<A> of_leaves(
      executor.workspace(), lod::detail::saturated_product(2 * Scan::leaves_of(long_ones.longest()), row_size));
  parallel_sequences(executor, sequences, row_bytes, [&](std::int64_t begin, std::int64_t end, int thread) {
    for (std::int64_t i = begin; i < end; ++i) {
      if (!long_ones.note(i, sequences.length(i))) scan.sequence(i, scratch(thread));
    }
  });
  long_ones.for_each([&](std::int64_t i) {
    const std::int64_t rows = sequences.length(i), leaves = Scan::leaves_of(rows);
    const auto for_each_leaf = [&](const auto& body) {
      parallel_ranges(executor, leaves, rows * row_bytes, [&](std::int64_t begin, std::int64_t end, int thread) {
        for (std::int64_t number = begin; number < end; ++number) {
          A* const factors = of_leaves.data() + 2 * number * row_size;
          body(scan.leaf(i, number), factors, factors + row_size, scratch(thread));
        }
      });
    };
    for_each_leaf([&](const ScannedRows& leaf, A* factors, A* terms, A* states) {
      if (leaf.begins) return scan.template run<false, false>(leaf, terms);
      if (!leaf.ends) scan.template run<false, true>(leaf, states, factors, terms);
    });
    // The terms of leaves become the states before the next ones.
    for (std::int64_t number = 1; number + 1 < leaves; ++number) {
      const A* const before = of_leaves.data() + (2 * number - 1) * row_size;
      const A* const factors = of_leaves.data() + 2 * number * row_size;
      A* const terms = of_leaves.data() + (2 * number + 1) * row_size;
      for (std::int64_t k = 0; k < row_size; ++k) terms[k] = after_leaf(before[k], factors[k], terms[k]);
    }
    for_each_leaf([&](const ScannedRows& leaf, A* factors, A*, A* states) {
      if (!leaf.begins) copy(factors - row_size, row_size, states);
      scan.template run<true, false>(leaf, states);
    });
  });
}

template <>
struct Kernel<SequenceLinearScan> {
  template <class T>
  static void run(const CpuExecutor& executor, const T* a, const T* b, const Segments& sequences, std::int64_t row_size,
                  const T* initial, bool reverse, T* h) {
    cpu::scan_sequences<T>(executor, ScanNumbers<T>{a, b, initial, h, row_size, reverse}, sequences, 3);
  }
};

template <>
struct Kernel<SequenceLinearScanGrad> {
  template <class T>
  static void run(const CpuExecutor& executor, const T* dh, const T* a, const T* h, const Segments& sequences,
                  std::int64_t row_size, const T* initial, bool reverse, T* da, T* db, T* dinitial) {
    cpu::scan_sequences<T>(executor, ScanGradientNumbers<T>{dh, a, h, initial, da, db, dinitial, row_size, !reverse},
                           sequences, 5);
  }
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu
