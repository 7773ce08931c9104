// SPDX-License-Identifier: Apache-2.0
/// @file
/// Means and variances of sequences on the CPU.
#pragma once

#include <lod/core/version.hpp>
#include <lod/kernels/cpu/column_numbers.hpp>
#include <lod/kernels/cpu/large_output.hpp>
#include <lod/kernels/cpu/launch.hpp>
#include <lod/kernels/cpu/moments.hpp>
#include <lod/kernels/cpu/narrow_rows.hpp>
#include <lod/kernels/cpu/parallel.hpp>
#include <lod/kernels/cpu/row_sum.hpp>
#include <lod/kernels/cpu/sequence_sums.hpp>
#include <lod/kernels/cpu/vector.hpp>
#include <lod/kernels/moments.hpp>
#include <lod/ops/sequence_mean_var.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu {

/// The sums of a leaf of rows of 1 to 7 columns, in the order of `sum_narrow_leaf`.
template <std::size_t columns, class T>
void narrow_leaf_distances(const ContiguousRows<T>& rows, std::int64_t count, Accumulator<T>* shift,
                           Accumulator<T>* sum, Accumulator<T>* squares) {
  using A = Accumulator<T>;
  using V = Vector<T>;
  const MomentsArithmetic arithmetic;
  constexpr std::size_t vectors = narrow_vectors<columns, T>;
  constexpr std::int64_t block = vectors * lanes<T>;
  constexpr std::size_t parts = NarrowRow<columns, T>::vectors;
  alignas(64) A shift_row[std::max<std::size_t>(parts, 2) * V::size] = {};
  if constexpr (columns == 1) {
    const auto number = [&](std::int64_t row) { return static_cast<A>(rows.first[row]); };
    std::fill_n(shift_row, 2 * V::size, shift_of<A>(count, number, arithmetic));
  } else {
#pragma GCC unroll 16
    for (std::size_t v = 0; v < parts; ++v) {
      const auto number = [&](std::int64_t row) {
        const auto at = static_cast<std::int64_t>(v) * lanes<T>, i = row * static_cast<std::int64_t>(columns) + at;
        return load_first(rows.first + i, static_cast<std::int64_t>(columns) - at, A{}, rows.readable - i);
      };
      shift_of<V>(count, number, arithmetic).store_aligned(shift_row + v * V::size);
    }
  }
  copy(shift_row, columns, shift);
  const RepeatedColumns<columns, A> shifts(shift_row);
  V sums[vectors], all_squares[vectors];
#pragma GCC unroll 16
  for (std::size_t v = 0; v < vectors; ++v) sums[v] = all_squares[v] = V(empty_sum<A>());
  const auto add = [&](std::size_t v, const V& distance) {
    sums[v] += distance;
    all_squares[v] += arithmetic.product(distance, distance);
  };
  const T* x = rows.first;
  std::int64_t left = count * static_cast<std::int64_t>(columns), readable = rows.readable;
  for (; left >= block; left -= block, readable -= block, x += block) {
#pragma GCC unroll 16
    for (std::size_t v = 0; v < vectors; ++v) add(v, load(x + v * V::size) - shifts.vector[v % columns]);
  }
#pragma GCC unroll 16
  for (std::size_t v = 0; v < vectors; ++v, left -= lanes<T>, readable -= lanes<T>, x += lanes<T>) {
    if (left <= 0) break;  // as the loop's condition it would make g++ warn at -O0
    const V distance = load_first(x, left, A{}, readable) - shifts.vector[v % columns];
    add(v, xsimd::select(first_lanes<T>(left), distance, V(empty_sum<A>())));
  }
  add_tree<columns, T>(sums).store(sum);
  add_tree<columns, T>(all_squares).store(squares);
}

/// Adds some rows to the sums of `vectors` vectors of columns, the last of which has `last` columns: four rows at a
/// time, as `add_wide_rows`.
template <std::size_t vectors, class T>
[[gnu::always_inline]] inline void add_distances(const ContiguousRows<T>& rows, std::int64_t column, std::int64_t count,
                                                 std::int64_t last, const MomentsScratch<Accumulator<T>>& to) {
  using V = Vector<T>;
  const MomentsArithmetic arithmetic;
  V shifts[vectors], sums[vectors], squares[vectors];
  const auto at = [](std::size_t v) { return static_cast<std::int64_t>(v) * lanes<T>; };
#pragma GCC unroll 16
  for (std::size_t v = 0; v < vectors; ++v) {
    shifts[v] = V::load_unaligned(to.shift() + column + at(v));
    sums[v] = V::load_unaligned(to.sum() + column + at(v));
    squares[v] = V::load_unaligned(to.squares() + column + at(v));
  }
  const auto distance = [&](std::int64_t row, std::size_t v) {
    const std::int64_t i = row * rows.row_size + column + at(v);
    if (vectors > 1 || last == lanes<T>) return load(rows.first + i) - shifts[v];
    return load_first(rows.first + i, last, {}, rows.readable - i) - shifts[v];
  };
  std::int64_t row = 0;
  for (; row + 4 <= count; row += 4) {
    if (column == 0) prefetch_after<4, T>(rows, row, rows.row_size);
#pragma GCC unroll 16
    for (std::size_t v = 0; v < vectors; ++v) {
      const V a = distance(row, v), b = distance(row + 1, v), c = distance(row + 2, v), d = distance(row + 3, v);
      sums[v] += (a + b) + (c + d);
      squares[v] +=
          (arithmetic.product(a, a) + arithmetic.product(b, b)) + (arithmetic.product(c, c) + arithmetic.product(d, d));
    }
  }
  for (; row < count; ++row) {
#pragma GCC unroll 16
    for (std::size_t v = 0; v < vectors; ++v) {
      const V a = distance(row, v);
      sums[v] += a;
      squares[v] += arithmetic.product(a, a);
    }
  }
#pragma GCC unroll 16
  for (std::size_t v = 0; v < vectors; ++v) {
    sums[v].store_unaligned(to.sum() + column + at(v));
    squares[v].store_unaligned(to.squares() + column + at(v));
  }
}

/// The sums of a leaf of wider rows.
template <class T>
void wide_leaf_distances(const ContiguousRows<T>& rows, std::int64_t count, const MomentsScratch<Accumulator<T>>& to) {
  using A = Accumulator<T>;
  using V = Vector<T>;
  constexpr std::size_t some = vectors_of_four;
  constexpr std::int64_t block = static_cast<std::int64_t>(some) * lanes<T>;
  // A few rows at a time stay in the first-level cache until all their columns have been added.
  constexpr std::int64_t step = 16;
  const std::int64_t row_size = rows.row_size, at_a_time = row_size <= block ? count : step;
  for (std::int64_t column = 0; column < row_size; column += lanes<T>) {
    const std::int64_t columns = std::min(row_size - column, lanes<T>);
    const auto number = [&](std::int64_t row) {
      const std::int64_t i = row * row_size + column;
      return load_vector(rows.first + i, columns, A{}, rows.readable - i);
    };
    shift_of<V>(count, number, MomentsArithmetic()).store_unaligned(to.shift() + column);
    V(empty_sum<A>()).store_unaligned(to.sum() + column);
    V(empty_sum<A>()).store_unaligned(to.squares() + column);
  }
  for (std::int64_t row = 0; row < count; row += at_a_time) {
    const ContiguousRows<T> here = rows_from(rows, row);
    const std::int64_t rows_here = std::min(at_a_time, count - row);
    std::int64_t column = 0;
    for (; column + block <= row_size; column += block) add_distances<some>(here, column, rows_here, lanes<T>, to);
    for (; column < row_size; column += lanes<T>) {
      add_distances<1>(here, column, rows_here, std::min(row_size - column, lanes<T>), to);
    }
  }
}

template <class T>
void leaf_distances(const ContiguousRows<T>& rows, std::int64_t count, const MomentsScratch<Accumulator<T>>& to) {
  if (rows.row_size > narrow_row_size) return wide_leaf_distances(rows, count, to);
  with_narrow_columns(rows.row_size, [&](auto columns) {
    narrow_leaf_distances<columns>(rows, count, to.shift(), to.sum(), to.squares());
  });
}

/// The moments of at most a chunk of rows.
template <class T>
void chunk_moments(const ContiguousRows<T>& rows, std::int64_t count, const MomentsScratch<Accumulator<T>>& scratch,
                   Accumulator<T>* to) {
  using A = Accumulator<T>;
  for (std::int64_t row = 0; row < count; row += leaf_rows) {
    const std::int64_t more = std::min(count - row, leaf_rows);
    leaf_distances(rows_from(rows, row), more, scratch);
    scratch.for_each_column([&]<class V>(std::int64_t column) {
      Moments<V> leaf = scratch.template moments_of_leaf<V>(column, more);
      if (row > 0) {
        Moments<V> all = scratch.template load_moments<V>(to, column);
        join_moments<A>(all, row, leaf, more, MomentsArithmetic());
        leaf = all;
      }
      scratch.store_moments(to, column, leaf);
    });
  }
}
/// Joins the moments of a chunk to those of the rows before it.
template <class A>
void join_chunk_moments(const MomentsScratch<A>& scratch, A* all, std::int64_t rows, const A* chunk,
                        std::int64_t more) {
  scratch.for_each_column([&]<class V>(std::int64_t column) {
    Moments<V> joined = scratch.template load_moments<V>(all, column);
    join_moments<A>(joined, rows, scratch.template load_moments<V>(chunk, column), more, MomentsArithmetic());
    scratch.store_moments(all, column, joined);
  });
}

/// The MeanVarNumbers of a column whose sums have become infinite or NaN.
template <class T>
[[gnu::noinline]] MeanVarNumbers<Accumulator<T>> careful_column(const ContiguousRows<T>& rows, std::int64_t count,
                                                                std::int64_t column, bool unbiased) {
  using A = Accumulator<T>;
  const auto read = [&](std::int64_t row) { return static_cast<A>(rows(row)[column]); };
  return careful_mean_var<A>(read, count, unbiased, MomentsArithmetic());
}

/// Computes means and variances from moments(column), of single numbers or of vectors.
template <class T, class MomentsOf>
void finish_moments(const ContiguousRows<T>& rows, std::int64_t count, bool unbiased,
                    const MomentsScratch<Accumulator<T>>& scratch, const MomentsOf& moments) {
  using A = Accumulator<T>;
  const auto divisor = static_cast<A>(squares_divisor(count, unbiased));
  A* const mean = scratch.mean();
  A* const error = scratch.mean_error();
  A* const variance = scratch.variance();
  scratch.for_each_column([&]<class V>(std::int64_t column) {
    const MeanVarNumbers<V> numbers = mean_var_of(moments.template operator()<V>(column), V(divisor));
    MomentsScratch<A>::store(mean + column, numbers.mean);
    MomentsScratch<A>::store(error + column, numbers.mean_error);
    MomentsScratch<A>::store(variance + column, numbers.variance);
  });
  if (seem_finite(mean, rows.row_size) && seem_finite(variance, rows.row_size)) return;
  for (std::int64_t column = 0; column < rows.row_size; ++column) {
    if (is_finite(mean[column]) && is_finite(variance[column])) continue;
    const MeanVarNumbers<A> numbers = careful_column(rows, count, column, unbiased);
    mean[column] = numbers.mean;
    error[column] = numbers.mean_error;
    variance[column] = numbers.variance;
  }
}

/// Means and variances of short sequences of narrow rows: the sums of one sequence after the other, then the results of
/// all at once.
template <class T>
class NarrowMoments {
  using A = Accumulator<T>;
  static constexpr std::int64_t most = 64;

 public:
  explicit NarrowMoments(std::int64_t row_size) noexcept : row_size_(row_size) {}

  /// The end of the sequences from `first` on that are handled together; `first` if there are none.
  std::int64_t block_end(const Segments& sequences, std::int64_t first, std::int64_t end) const noexcept {
    if (row_size_ > narrow_row_size) return first;
    const std::int64_t stop = std::min(end, first + most / row_size_);
    std::int64_t last = first;
    while (last < stop && sequences.length(last) <= leaf_rows) ++last;
    return last;
  }

  /// Calls write(begin, end - begin, mean, mean_error, variance); rows_of(i) are the rows of a sequence.
  template <class RowsOf, class Write>
  void run(const Segments& sequences, std::int64_t begin, std::int64_t end, bool unbiased, const RowsOf& rows_of,
           const Write& write) {
    const std::int64_t size = (end - begin) * row_size_;
    with_narrow_columns(row_size_, [&](auto columns) {
      for (std::int64_t i = begin, k = 0; i < end; ++i, k += row_size_) {
        const std::int64_t count = sequences.length(i);
        fill<A>(counts_ + k, row_size_, static_cast<A>(std::max<std::int64_t>(count, 1)));
        fill<A>(divisors_ + k, row_size_, count > 0 ? static_cast<A>(squares_divisor(count, unbiased)) : A{1});
        if (count > 0) {
          narrow_leaf_distances<columns>(rows_of(i), count, shifts_ + k, sums_ + k, squares_ + k);
        } else {
          for (A* const numbers : {shifts_, sums_, squares_}) fill<A>(numbers + k, row_size_, A{});
        }
      }
    });
    bool finite = true;
    for (std::int64_t k = 0; k < size; k += lanes<A>) {
      const auto at = [k](const A* numbers) { return Vector<A>::load_aligned(numbers + k); };
      const MeanVarNumbers<Vector<A>> numbers = mean_var_of(
          leaf_moments(at(shifts_), at(sums_), at(squares_), at(counts_), MomentsArithmetic()), at(divisors_));
      numbers.mean.store_aligned(means_ + k);
      numbers.mean_error.store_aligned(errors_ + k);
      numbers.variance.store_aligned(variances_ + k);
      const auto used = first_lanes<A>(size - k);
      finite = finite && all_finite(xsimd::select(used, numbers.mean, Vector<A>(A{}))) &&
               all_finite(xsimd::select(used, numbers.variance, Vector<A>(A{})));
    }
    for (std::int64_t k = 0; k < size && !finite; ++k) {
      if (is_finite(means_[k]) && is_finite(variances_[k])) continue;
      const std::int64_t i = begin + k / row_size_;
      const MeanVarNumbers<A> numbers = careful_column(rows_of(i), sequences.length(i), k % row_size_, unbiased);
      means_[k] = numbers.mean;
      errors_[k] = numbers.mean_error;
      variances_[k] = numbers.variance;
    }
    write(begin, end - begin, static_cast<const A*>(means_), static_cast<const A*>(errors_),
          static_cast<const A*>(variances_));
  }

 private:
  std::int64_t row_size_;
  // Lanes after the last sequence compute with what is there.
  alignas(64) A shifts_[most] = {}, sums_[most] = {}, squares_[most] = {}, counts_[most] = {}, divisors_[most] = {};
  alignas(64) A means_[most], errors_[most], variances_[most];
};

/// Calls write(i, count, mean, mean_error, variance), with row_size numbers for each of `count` sequences from i on, or
/// write_empty(i, count) for empty ones, until all sequences have had theirs. Long ones are shared by all threads.
template <class T, class Write, class WriteEmpty>
void mean_var_of_sequences(const CpuExecutor& executor, const T* x, const Segments& sequences, std::int64_t row_size,
                           bool unbiased, const Write& write, const WriteEmpty& write_empty) {
  using A = Accumulator<T>;
  using Numbers = MomentsScratch<A>;
  if (sequences.size == 0 || row_size == 0) return;
  const std::int64_t row_bytes = lod::detail::bytes_of<T>(row_size), step = chunk_rows(row_size);
  if (sequences.rows() == 0) {
    return parallel_ranges(executor, sequences.size, 2 * sequences.size * row_bytes,
                           [&](std::int64_t begin, std::int64_t end) { write_empty(begin, end - begin); });
  }
  const ThreadScratch<A> scratch(executor, Numbers::size(row_size));
  LongSequences long_ones(executor, sequences, longest_alone(executor, sequences, row_bytes, step));
  const std::int64_t shared_size = Numbers::shared_rows * Numbers::stride(row_size);
  const Workspace::Loan<A> shared(executor.workspace(), (long_ones.longest() + step - 1) / step * shared_size);
  const bool far = lod::detail::bytes_of<T>(sequences.rows(), row_size) >= large_output_bytes;
  const auto rows_of = [&](std::int64_t i) {
    const std::int64_t before = sequences.begin(i) * row_size;
    return ContiguousRows<T>{x + before, row_size, sequences.rows() * row_size - before, far};
  };
  const auto write_one = [&](std::int64_t i, const Numbers& numbers) {
    write(i, std::int64_t{1}, static_cast<const A*>(numbers.mean()), static_cast<const A*>(numbers.mean_error()),
          static_cast<const A*>(numbers.variance()));
  };
  parallel_sequences(executor, sequences, row_bytes, [&](std::int64_t begin, std::int64_t end, int thread) {
    const Numbers numbers(scratch(thread), row_size);
    NarrowMoments<T> narrow(row_size);
    for (std::int64_t i = begin; i < end; ++i) {
      if (const std::int64_t last = narrow.block_end(sequences, i, end); last > i) {
        narrow.run(sequences, i, last, unbiased, rows_of, write);
        i = last - 1;
        continue;
      }
      const std::int64_t count = sequences.length(i);
      if (count == 0) {  // many in a row, where there are some
        std::int64_t last = i + 1;
        while (last < end && sequences.length(last) == 0) ++last;
        write_empty(i, last - i);
        i = last - 1;
        continue;
      }
      if (long_ones.note(i, count)) continue;
      const ContiguousRows<T> rows = rows_of(i);
      if (count <= leaf_rows) {
        leaf_distances(rows, count, numbers);
        finish_moments(rows, count, unbiased, numbers, [&]<class V>(std::int64_t column) {
          return numbers.template moments_of_leaf<V>(column, count);
        });
      } else {
        chunk_moments(rows, std::min(count, step), numbers, numbers.all());
        for (std::int64_t row = step; row < count; row += step) {
          const std::int64_t more = std::min(count - row, step);
          chunk_moments(rows_from(rows, row), more, numbers, numbers.chunk());
          join_chunk_moments(numbers, numbers.all(), row, numbers.chunk(), more);
        }
        finish_moments(rows, count, unbiased, numbers, [&]<class V>(std::int64_t column) {
          return numbers.template load_moments<V>(numbers.all(), column);
        });
      }
      write_one(i, numbers);
    }
  });
  const Numbers numbers(scratch(0), row_size);
  long_ones.for_each([&](std::int64_t i) {
    const std::int64_t count = sequences.length(i), chunks = (count + step - 1) / step;
    const ContiguousRows<T> rows = rows_of(i);
    A* const all = shared.data();
    parallel_for(executor, chunks, count * row_bytes, [&](std::int64_t chunk, int thread) {
      chunk_moments(rows_from(rows, chunk * step), std::min(count - chunk * step, step),
                    Numbers(scratch(thread), row_size), all + chunk * shared_size);
    });
    for (std::int64_t chunk = 1; chunk < chunks; ++chunk) {
      join_chunk_moments(numbers, all, chunk * step, all + chunk * shared_size, std::min(count - chunk * step, step));
    }
    finish_moments(rows, count, unbiased, numbers,
                   [&]<class V>(std::int64_t column) { return numbers.template load_moments<V>(all, column); });
    write_one(i, numbers);
  });
}

template <>
struct Kernel<SequenceMeanVar> {
  template <class T>
  static void run(const CpuExecutor& executor, const T* x, const Segments& sequences, std::int64_t row_size,
                  bool unbiased, T* mean, T* variance) {
    using A = Accumulator<T>;
    const auto write = [=](std::int64_t i, std::int64_t count, const A* means, const A*, const A* variances) {
      cpu::convert(means, count * row_size, mean + i * row_size);
      cpu::convert(variances, count * row_size, variance + i * row_size);
    };
    const auto write_empty = [=](std::int64_t i, std::int64_t count) {
      cpu::fill(mean + i * row_size, count * row_size, T{});
      cpu::fill(variance + i * row_size, count * row_size, T{});
    };
    cpu::mean_var_of_sequences(executor, x, sequences, row_size, unbiased, write, write_empty);
  }
};

/// What some gradients of a sequence are computed from.
template <class T>
struct MeanVarOfSequence {
  using A = Accumulator<T>;

  const T* dmean;
  const T* dvariance;
  const A* mean;
  const A* error;
  std::int64_t row_size, rows;
  bool unbiased;

  /// The gradients of `some` numbers, the first of which is in `column`: those that have overflowed are computed again.
  [[gnu::noinline]] Vector<A> gradients(Vector<A> found, Vector<A> some, std::int64_t count,
                                        std::int64_t column) const {
    alignas(64) A result[Vector<A>::size], number[Vector<A>::size];
    found.store_aligned(result);
    some.store_aligned(number);
    for (std::int64_t k = 0; k < count; ++k) {
      const std::int64_t at = (column + k) % row_size;
      result[k] = careful_mean_var_gradient(result[k], static_cast<A>(dmean[at]), static_cast<A>(dvariance[at]),
                                            number[k], mean[at], error[at], rows, unbiased);
    }
    return Vector<A>::load_aligned(result);
  }
};

template <>
struct Kernel<SequenceMeanVarGrad> {
  template <class T>
  static void run(const CpuExecutor& executor, const T* dmean, const T* dvariance, const T* x,
                  const Segments& sequences, std::int64_t row_size, bool unbiased, T* dx) {
    using A = Accumulator<T>;
    if (sequences.rows() == 0 || row_size == 0) return;
    const cpu::ThreadScratch<A> scratch(executor, 4 * cpu::ColumnNumbers<A>::scratch(row_size) + row_size);
    const std::int64_t numbers = sequences.size * row_size;
    const Workspace::Loan<A> means(executor.workspace(), numbers), errors(executor.workspace(), numbers);
    A* const mean = means.data();
    A* const error = errors.data();
    cpu::mean_var_of_sequences(
        executor, x, sequences, row_size, unbiased,
        [=](std::int64_t i, std::int64_t count, const A* means_found, const A* errors_found, const A*) {
          cpu::copy(means_found, count * row_size, mean + i * row_size);
          cpu::copy(errors_found, count * row_size, error + i * row_size);
        },
        [](std::int64_t, std::int64_t) {});
    const cpu::MomentsArithmetic arithmetic;
    const auto of_sequence_at = [&](std::int64_t i) {
      const std::int64_t at = i * row_size, length = sequences.length(i);
      return cpu::MeanVarOfSequence<T>{dmean + at, dvariance + at, mean + at, error + at, row_size, length, unbiased};
    };
    const auto write_scalars = [&](std::int64_t i, std::int64_t begin, std::int64_t end, std::int64_t) {
      const std::int64_t length = sequences.length(i);
      const A of_squares = A{2} / static_cast<A>(squares_divisor(length, unbiased));
      const cpu::Vector<A> center(mean[i]), rest(error[i]);
      const cpu::Vector<A> share(static_cast<A>(dmean[i]) / static_cast<A>(length));
      const cpu::Vector<A> factor(static_cast<A>(dvariance[i]) * of_squares);
      const T* const from = x + sequences.begin(i);
      T* const to = dx + sequences.begin(i);
      for (std::int64_t row = begin; row < end; row += cpu::lanes<T>) {
        const std::int64_t count = std::min(end - row, cpu::lanes<T>);
        const cpu::Vector<A> some = cpu::load_vector(from + row, count);
        cpu::Vector<A> found = share + arithmetic.product(factor, (some - center) - rest);
        if (!cpu::all_finite(found)) [[unlikely]]
          found = of_sequence_at(i).gradients(found, some, count, 0);
        cpu::store_first(to + row, found, count, 0);
      }
    };
    const auto write = [&](std::int64_t i, std::int64_t begin, std::int64_t end, std::int64_t, int thread) {
      A* const first = scratch(thread);
      const auto columns = [&](std::int64_t k) {
        return cpu::ColumnNumbers<A>(first + k * cpu::ColumnNumbers<A>::scratch(row_size), row_size);
      };
      const cpu::ColumnNumbers<A> center = columns(0), rest = columns(1), share = columns(2), factor = columns(3);
      A* const widened = first + 4 * cpu::ColumnNumbers<A>::scratch(row_size);
      const std::int64_t length = sequences.length(i), of_sequence = i * row_size;
      const cpu::Vector<A> rows(static_cast<A>(length));
      const cpu::Vector<A> of_squares(A{2} / static_cast<A>(squares_divisor(length, unbiased)));
      center.set(mean + of_sequence);
      rest.set(error + of_sequence);
      cpu::convert(dmean + of_sequence, row_size, widened);
      share.set(widened, [&](const cpu::Vector<A>& dy, std::int64_t) { return dy / rows; });
      cpu::convert(dvariance + of_sequence, row_size, widened);
      factor.set(widened, [&](const cpu::Vector<A>& dy, std::int64_t) { return arithmetic.product(dy, of_squares); });
      const std::int64_t before = (sequences.begin(i) + begin) * row_size;
      cpu::for_each_vector<T>(end - begin, row_size, [&](std::int64_t at, std::int64_t count, std::int64_t column) {
        const cpu::Vector<A> some = cpu::load_vector(x + before + at, count);
        const cpu::Vector<A> distance = (some - center(column)) - rest(column);
        cpu::Vector<A> found = share(column) + arithmetic.product(factor(column), distance);
        if (!cpu::all_finite(found)) [[unlikely]]
          found = of_sequence_at(i).gradients(found, some, count, column);
        cpu::store_first(dx + before + at, found, count, 0);
      });
    };
    const std::int64_t row_bytes = lod::detail::bytes_of<T>(2, row_size);
    if (row_size == 1) return cpu::parallel_rows(executor, sequences, row_bytes, write_scalars);
    cpu::parallel_rows(executor, sequences, row_bytes, write);
  }
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu
