// SPDX-License-Identifier: Apache-2.0
/// @file
/// Softmax on the CPU: exponentials and products by whole vectors, over all columns of a sequence as one array; sums
/// by the one tree of row_sum.hpp.
#pragma once

#include <lod/kernels/cpu/exponential.hpp>
#include <lod/kernels/cpu/large_output.hpp>
#include <lod/kernels/cpu/parallel.hpp>
#include <lod/kernels/cpu/row_sum.hpp>
#include <lod/kernels/cpu/short_sequences.hpp>
#include <lod/kernels/cpu/vector.hpp>
#include <lod/ops/sequence_softmax.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace lod::inline LOD_TARGET {
namespace kernel {

namespace cpu {

/// One number for each column, followed by the first ones again: a vector may be read from any column on. So the rows
/// of a sequence can be gone through as one array, whatever their size.
template <class A>
class ColumnNumbers {
 public:
  static constexpr std::int64_t scratch(std::int64_t row_size) noexcept { return row_size + lanes<A>; }
  ColumnNumbers(A* numbers, std::int64_t row_size) noexcept : numbers_(numbers), row_size_(row_size) {}

  /// change(numbers[column]) for each column.
  template <class Change>
  void set(const A* numbers, const Change& change) const noexcept {
    for (std::int64_t column = 0; column < row_size_; ++column) numbers_[column] = change(numbers[column]);
    for (std::int64_t i = 0; i < lanes<A>; ++i) numbers_[row_size_ + i] = numbers_[i];
  }
  Vector<A> operator()(std::int64_t column) const noexcept { return Vector<A>::load_unaligned(numbers_ + column); }

 private:
  A* numbers_;
  std::int64_t row_size_;
};

/// Calls body(i, count, column) for the vectors of so many rows as one array: they hold the numbers from i on, the
/// first of which is in `column`. All have `count` = `lanes<T>` of them, the last perhaps fewer.
template <class T, class Body>
inline void for_each_vector(std::int64_t rows, std::int64_t row_size, const Body& body) {
  const std::int64_t numbers = rows * row_size;
  const std::int64_t step = lanes<T> % row_size;
  std::int64_t column = 0, i = 0;
  for (; i + lanes<T> <= numbers; i += lanes<T>) {
    body(i, lanes<T>, column);
    column += step;
    if (column >= row_size) column -= row_size;
  }
  if (i < numbers) body(i, numbers - i, column);
}

/// The greatest number; unspecified where one is a NaN.
template <class T>
inline Accumulator<T> greatest_number(const T* x, std::int64_t count) noexcept {
  using A = Accumulator<T>;
  constexpr A least = -std::numeric_limits<A>::infinity();
  Vector<T> best(least);
  for_each_vector<T>(count, 1, [&](std::int64_t i, std::int64_t some, std::int64_t) {
    best = xsimd::max(best, load_vector(x + i, some, least));
  });
  alignas(64) A lane[Vector<T>::size];
  best.store_aligned(lane);
  return *std::max_element(lane, lane + Vector<T>::size);
}

/// The greatest number of each column; unspecified for a column with a NaN.
template <class T>
void column_maxima(const T* x, std::int64_t rows, std::int64_t row_size, Accumulator<T>* maxima) noexcept {
  using A = Accumulator<T>;
  constexpr A least = -std::numeric_limits<A>::infinity();
  if (row_size == 1) {
    *maxima = greatest_number(x, rows);
    return;
  }
  if (masked<T> && row_size < lanes<T> && rows < 2 * lanes<T>) {
    Vector<T> best(least);
    for (std::int64_t row = 0; row < rows; ++row) best = xsimd::max(best, load(x + row * row_size, row_size, least));
    store(maxima, best, row_size);
    return;
  }
  std::fill_n(maxima, row_size, least);
  const auto add_rows = [maxima, row_size](const auto* from, std::int64_t count) {
    for (; count > 0; --count, from += row_size) {
      for (std::int64_t i = 0; i < row_size; ++i) maxima[i] = std::max(maxima[i], static_cast<A>(from[i]));
    }
  };
  std::int64_t row = 0;
  if (row_size >= lanes<T>) {
    // Row by row, though four at a time would be fewer steps: it is one stream, which the machine reads ahead.
    for (; row < rows; ++row) {
      const T* const from = x + row * row_size;
      std::int64_t i = 0;
      for (; i + lanes<T> <= row_size; i += lanes<T>) {
        xsimd::max(Vector<T>::load_unaligned(maxima + i), load(from + i)).store_unaligned(maxima + i);
      }
      for (; i < row_size; ++i) maxima[i] = std::max(maxima[i], static_cast<A>(from[i]));
    }
  } else {  // as many rows as there are lanes are `row_size` vectors
    Vector<T> best[Vector<T>::size];
    for (auto& vector : best) vector = Vector<T>(least);
    for (; row + lanes<T> <= rows; row += lanes<T>) {
      for (std::int64_t v = 0; v < row_size; ++v) {
        best[v] = xsimd::max(best[v], load(x + row * row_size + v * lanes<T>));
      }
    }
    alignas(64) A numbers[Vector<T>::size * Vector<T>::size];
    for (std::int64_t v = 0; v < row_size; ++v) best[v].store_aligned(numbers + v * lanes<T>);
    add_rows(numbers, lanes<T>);
  }
  add_rows(x + row * row_size, rows - row);
}

/// What is subtracted from a column: its maximum; 0 for a column of -inf, so that its exponentials are 0.
template <class A>
inline A softmax_shift(A maximum) noexcept {
  return maximum == -std::numeric_limits<A>::infinity() ? A{} : maximum;
}
/// What a column's exponentials are multiplied with, one over their sum (which takes half the time that dividing by it
/// would), or the logarithm of the sum, which is subtracted. The sum is 0 for a column of -inf only.
template <bool logarithm, class A>
inline A softmax_normaliser(A sum) noexcept {
  if constexpr (logarithm) {
    return sum == A{} ? A{} : std::log(sum);
  } else {
    return sum == A{} ? A{1} : A{1} / sum;
  }
}

/// Many short sequences of scalar rows at once: what is worked out for each number goes through them as one array, so
/// that no vector is cut by the end of a sequence; only the maxima and the sums are by sequence.
template <bool logarithm, class T>
class ScalarSoftmax {
  using A = Accumulator<T>;
  /// A block keeps its numbers in the first-level cache.
  static constexpr std::int64_t most_numbers = 2048;
  static constexpr std::int64_t most_sequences = 512;
  /// Behind the numbers of a block, so many may be read and written.
  static constexpr std::int64_t slack = 64;

 public:
  static constexpr std::int64_t scratch() noexcept { return 2 * (most_numbers + slack) + most_sequences; }
  ScalarSoftmax(A* scratch, const LargeOutput& output) noexcept
      : output_(output),
        terms_(scratch),
        others_(terms_ + most_numbers + slack),
        of_sequences_(others_ + most_numbers + slack) {}

  /// The end of the block of sequences from `begin` on, before `end`: it stops before a sequence of more than a leaf of
  /// rows. It is `begin` where that is such a one.
  static std::int64_t block_end(const Segments& sequences, std::int64_t begin, std::int64_t end) noexcept {
    std::int64_t last = begin;
    const std::int64_t full = sequences.begin(begin) + most_numbers, most = std::min(end, begin + most_sequences);
    while (last < most && sequences.begin(last + 1) <= full && sequences.length(last) <= leaf_rows) ++last;
    return last;
  }

  /// The sequences of a block; x and y may be the same. `readable` numbers may be read from x on.
  void run(const T* x, const Segments& block, std::int64_t readable, T* y) const noexcept {
    const std::int64_t count = block.rows();
    const auto maximum = [&](std::int64_t i) {
      if (block.length(i) > 0) of_sequences_[i] = greatest_number(x + block.begin(i), block.length(i));
    };
    if constexpr (ShortSequences<T>::available) {
      const ShortSequences<T> some(x, block, readable);
      for_each_short_sequence(
          0, block.size, [&](std::int64_t i) { return some.pool_greatest(i, of_sequences_ + i); }, maximum);
    } else {
      for (std::int64_t i = 0; i < block.size; ++i) maximum(i);
    }
    for_each_vector_of_sequences(
        block, softmax_shift<A>, [&](std::int64_t k, std::int64_t some, const Vector<T>& shift) {
          const Vector<T> numbers = readable - k < lanes<T> ? load(x + k, some, A{}) : load(x + k);
          (numbers - shift).store_unaligned(terms_ + k);
        });
    // The logarithm also keeps what is shifted.
    A* const exponentials = logarithm ? others_ : terms_;
    for (std::int64_t k = 0; k < count; k += lanes<T>) {
      exponential(Vector<T>::load_unaligned(terms_ + k)).store_unaligned(exponentials + k);
    }
    const auto sum = [&](std::int64_t i) {
      const ContiguousRows<A> terms{exponentials + block.begin(i), 1, count + slack - block.begin(i)};
      sum_narrow_leaf<1, A>(terms, 0, block.length(i), of_sequences_ + i);
    };
    if constexpr (ShortSequences<A>::available) {
      const ShortSequences<A> some(exponentials, block, count + slack);
      for_each_short_sequence(
          0, block.size, [&](std::int64_t i) { return some.pool_sums(i, PoolType::SUM, A{}, of_sequences_ + i); }, sum);
    } else {
      for (std::int64_t i = 0; i < block.size; ++i) sum(i);
    }
    for_each_vector_of_sequences(block, softmax_normaliser<logarithm, A>,
                                 [&](std::int64_t k, std::int64_t, const Vector<T>& normaliser) {
                                   const Vector<T> term = Vector<T>::load_unaligned(terms_ + k);
                                   (logarithm ? term - normaliser : term * normaliser).store_unaligned(others_ + k);
                                 });
    if constexpr (std::same_as<T, A>) {
      output_.copy(others_, count, y);
    } else {
      convert(others_, count, y);
    }
  }

 private:
  /// Calls body(k, count, change(of_sequences_[i])) for vectors that hold the numbers of sequence i from number k on,
  /// in the order of the sequences: what one writes behind the end of a sequence, the next one writes again. The first
  /// `count` are the sequence's; that may be more than there are lanes, or less than none.
  template <class Change, class Body>
  void for_each_vector_of_sequences(const Segments& block, const Change& change, const Body& body) const noexcept {
    for (std::int64_t i = 0; i < block.size; ++i) {
      const std::int64_t first = block.begin(i), length = block.length(i);
      if (length == 0) continue;
      const Vector<T> number(change(of_sequences_[i]));
      // So many that short sequences are all alike.
      std::int64_t k = 0;
      for (; k < 32; k += lanes<T>) body(first + k, length - k, number);
      for (; k < length; k += lanes<T>) body(first + k, length - k, number);
    }
  }

  LargeOutput output_;
  A* terms_;
  A* others_;        // the exponentials of a logarithm, then the results
  A* of_sequences_;  // the maximum, then the sum
};

/// The two passes over rows of any size. All columns have their shift and, for the second pass, their normaliser.
template <bool logarithm, class T>
class Softmax {
  using A = Accumulator<T>;

 public:
  Softmax(A* scratch, std::int64_t row_size) noexcept
      : row_size_(row_size), shift_(scratch, row_size), normaliser_(scratch + shift_.scratch(row_size), row_size) {}
  static constexpr std::int64_t scratch(std::int64_t row_size) noexcept {
    return 2 * ColumnNumbers<A>::scratch(row_size);
  }

  void set_maxima(const A* maxima) const noexcept { shift_.set(maxima, softmax_shift<A>); }
  void set_sums(const A* sums) const noexcept { normaliser_.set(sums, softmax_normaliser<logarithm, A>); }

  static constexpr auto following = static_cast<std::int64_t>(8192 / sizeof(T));

  // From x and from y on, `room` numbers may be read and written; those behind the sequence are written later.

  /// exp(x - shift), to the end of a vector. Asks for what follows: the next sequences are read after all three passes
  /// over this one, and the machine does not read ahead so far.
  void exponentials(const T* x, std::int64_t rows, std::int64_t room, A* to) const noexcept {
    for_each_vector<T>(rows, row_size_, [&](std::int64_t i, std::int64_t count, std::int64_t column) {
      __builtin_prefetch(x + i + following, 0, 2);
      exponential(load_vector(x + i, count, A{}, room - i) - shift_(column)).store_unaligned(to + i);
    });
  }
  void normalise_exponentials(const A* terms, std::int64_t rows, T* y, std::int64_t room) const noexcept {
    for_each_vector<T>(rows, row_size_, [&](std::int64_t i, std::int64_t count, std::int64_t column) {
      store_first(y + i, Vector<T>::load_unaligned(terms + i) * normaliser_(column), count, room - i);
    });
  }
  void normalise(const T* x, std::int64_t rows, T* y, std::int64_t room) const noexcept {
    for_each_vector<T>(rows, row_size_, [&](std::int64_t i, std::int64_t count, std::int64_t column) {
      const Vector<T> shifted = load_vector(x + i, count, A{}, room - i) - shift_(column);
      if constexpr (logarithm) {
        store_first(y + i, shifted - normaliser_(column), count, room - i);
      } else {
        store_first(y + i, exponential(shifted) * normaliser_(column), count, room - i);
      }
    });
  }

 private:
  std::int64_t row_size_;
  ColumnNumbers<A> shift_;
  ColumnNumbers<A> normaliser_;
};

/// A sequence of up to so many numbers keeps its exponentials in scratch memory, which fits the second-level cache;
/// those of a longer one are computed twice.
inline constexpr std::int64_t kept_numbers = 65536;

template <bool logarithm, class T>
void softmax_sequences(const CpuExecutor& executor, const T* x, const Segments& sequences, std::int64_t row_size,
                       T* y) {
  using A = Accumulator<T>;
  const std::int64_t row_bytes = 2 * row_size * static_cast<std::int64_t>(sizeof(T));
  const std::int64_t step = chunk_rows(row_size);  // the longest sequence that one thread takes
  const std::int64_t block_numbers =
      std::max(computed_scratch(row_size), std::min(sequences.max_rows * row_size, kept_numbers)) + lanes<T>;
  const LargeOutput output(sequences.rows() * row_size * static_cast<std::int64_t>(sizeof(T)));
  const ThreadScratch<A> columns(executor, Softmax<logarithm, T>::scratch(row_size));
  const ThreadScratch<A> sums(executor, sum_scratch(row_size));
  const ThreadScratch<A> blocks(executor, block_numbers);
  const ThreadScratch<A> scalar_blocks(executor, row_size == 1 ? ScalarSoftmax<logarithm, T>::scratch() : 0);
  const auto terms = [row_size](const Softmax<logarithm, T>& softmax, const T* first, std::int64_t room, A* block) {
    const auto compute = [=](std::int64_t row, std::int64_t count, A* to) {
      softmax.exponentials(first + row * row_size, count, room - row * row_size, to);
    };
    return ComputedRows{compute, block};
  };

  parallel_sequences(executor, sequences, row_bytes, [&](std::int64_t begin, std::int64_t end, int thread) {
    const Softmax<logarithm, T> softmax(columns(thread), row_size);
    A* const sum = sums(thread);
    A* const block = blocks(thread);
    for (std::int64_t i = begin; i < end; ++i) {
      const T* const from = x + sequences.begin(i) * row_size;
      T* const to = y + sequences.begin(i) * row_size;
      const std::int64_t room = x == y ? 0 : (sequences.begin(end) - sequences.begin(i)) * row_size;
      if (row_size == 1) {
        const ScalarSoftmax<logarithm, T> scalars(scalar_blocks(thread), output);
        const std::int64_t last = scalars.block_end(sequences, i, end);
        if (last > i) {
          const Segments some(sequences.offsets + i, last - i, leaf_rows);
          // In place, what lies behind may be another thread's to write.
          scalars.run(from, some, x == y ? some.rows() : sequences.rows() - sequences.begin(i), to);
          i = last - 1;
          continue;
        }
      }
      const std::int64_t rows = sequences.length(i);
      if (rows == 0 || rows > step) continue;
      column_maxima(from, rows, row_size, sum);
      softmax.set_maxima(sum);
      if (!logarithm && rows * row_size <= kept_numbers) {
        softmax.exponentials(from, rows, room, block);
        softmax.set_sums(sum_rows<A>(ContiguousRows<A>{block, row_size, block_numbers}, rows, row_size, sum));
        if constexpr (std::same_as<T, A>) {
          if (output.past_caches()) {
            softmax.normalise_exponentials(block, rows, block, block_numbers);
            output.copy(block, rows * row_size, to);
            continue;
          }
        }
        softmax.normalise_exponentials(block, rows, to, room);
      } else {
        softmax.set_sums(sum_rows<A>(terms(softmax, from, room, block), rows, row_size, sum));
        softmax.normalise(from, rows, to, room);
      }
    }
  });

  if (sequences.max_rows <= step) return;
  const Softmax<logarithm, T> softmax(columns(0), row_size);
  for (std::int64_t i = 0; i < sequences.size; ++i) {
    const std::int64_t rows = sequences.length(i);
    if (rows <= step) continue;
    const T* const from = x + sequences.begin(i) * row_size;
    T* const to = y + sequences.begin(i) * row_size;
    const std::int64_t chunks = (rows + step - 1) / step;
    const Workspace::Loan<A> maxima(executor.workspace(), chunks * row_size);
    parallel_for(executor, chunks, rows * row_bytes, [&](std::int64_t chunk) {
      column_maxima(from + chunk * step * row_size, std::min(step, rows - chunk * step), row_size,
                    maxima.data() + chunk * row_size);
    });
    column_maxima(maxima.data(), chunks, row_size, sums(0));
    softmax.set_maxima(sums(0));
    sum_rows<A>(
        executor, [&](int thread) { return terms(softmax, from, 0, blocks(thread)); }, rows, row_size, rows * row_bytes,
        sums(0));
    softmax.set_sums(sums(0));
    parallel_ranges(executor, rows, rows * row_bytes, [&](std::int64_t begin, std::int64_t end) {
      softmax.normalise(from + begin * row_size, end - begin, to + begin * row_size, 0);
    });
  }
}

/// What is summed for the gradient: dy * y for the softmax, dy for its logarithm.
template <bool logarithm, class V>
inline V softmax_grad_term(const V& dy, const V& y) noexcept {
  return logarithm ? dy : dy * y;
}
template <bool logarithm, class V>
inline V softmax_gradient(const V& dy, const V& y, const V& sum) noexcept {
  return logarithm ? dy - exponential(y) * sum : (dy - sum) * y;
}

/// The gradient of one sequence of up to a leaf of scalar rows; `room` as in `Softmax`.
template <bool logarithm, class T>
inline void softmax_grad_scalars(const T* dy, const T* y, std::int64_t rows, T* dx, std::int64_t room) noexcept {
  using A = Accumulator<T>;
  Vector<T> sums[narrow_vectors<1, T>];
  for (auto& sum : sums) sum = Vector<T>(A{});
  for (std::int64_t i = 0; i < rows;) {
    for (std::size_t v = 0; v < narrow_vectors<1, T> && i < rows; ++v, i += lanes<T>) {
      sums[v] += softmax_grad_term<logarithm>(load_first(dy + i, rows - i, A{}, room - i),
                                              load_first(y + i, rows - i, A{}, room - i));
    }
  }
  A total;
  add_tree<1, T>(sums, &total);
  const Vector<T> sum(total);
  for_each_vector<T>(rows, 1, [&](std::int64_t i, std::int64_t count, std::int64_t) {
    const Vector<T> a = load_vector(dy + i, count, A{}, room - i), b = load_vector(y + i, count, A{}, room - i);
    store_first(dx + i, softmax_gradient<logarithm>(a, b, sum), count, room - i);
  });
}

template <bool logarithm, class T>
void softmax_grad_sequences(const CpuExecutor& executor, const T* dy, const T* y, const Segments& sequences,
                            std::int64_t row_size, T* dx) {
  using A = Accumulator<T>;
  const std::int64_t row_bytes = 3 * row_size * static_cast<std::int64_t>(sizeof(T));
  const std::int64_t step = chunk_rows(row_size);  // the longest sequence that one thread takes
  const bool in_place = dx == dy || dx == y;
  const auto unchanged = [](A number) { return number; };
  const ThreadScratch<A> columns(executor, ColumnNumbers<A>::scratch(row_size));
  const ThreadScratch<A> sums(executor, sum_scratch(row_size));
  const ThreadScratch<A> blocks(executor, computed_scratch(row_size) + lanes<T>);
  // Rows from `first` on; `end` is the first number that must not be touched, where that is not an earlier one.
  const auto terms = [dy, y, row_size](std::int64_t first, std::int64_t end, A* block) {
    const auto compute = [=](std::int64_t row, std::int64_t count, A* to) {
      for_each_vector<T>(count, row_size, [=](std::int64_t i, std::int64_t some, std::int64_t) {
        const std::int64_t at = (first + row) * row_size + i;
        softmax_grad_term<logarithm>(load_vector(dy + at, some, A{}, end - at),
                                     load_vector(y + at, some, A{}, end - at))
            .store_unaligned(to + i);
      });
    };
    return ComputedRows{compute, block};
  };
  const auto write = [=](std::int64_t first, std::int64_t rows, std::int64_t end, const ColumnNumbers<A>& column_sums) {
    for_each_vector<T>(rows, row_size, [&](std::int64_t i, std::int64_t count, std::int64_t column) {
      const std::int64_t at = first * row_size + i;
      const Vector<T> a = load_vector(dy + at, count, A{}, end - at), b = load_vector(y + at, count, A{}, end - at);
      store_first(dx + at, softmax_gradient<logarithm>(a, b, column_sums(column)), count, end - at);
    });
  };

  parallel_sequences(executor, sequences, row_bytes, [&](std::int64_t begin, std::int64_t end, int thread) {
    const ColumnNumbers<A> column_sums(columns(thread), row_size);
    const std::int64_t last = in_place ? 0 : sequences.begin(end) * row_size;
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t rows = sequences.length(i), first = sequences.begin(i);
      if (rows == 0 || rows > step) continue;
      if (row_size == 1 && rows <= leaf_rows) {
        softmax_grad_scalars<logarithm>(dy + first, y + first, rows, dx + first, last - first);
        continue;
      }
      column_sums.set(sum_rows<A>(terms(first, last, blocks(thread)), rows, row_size, sums(thread)), unchanged);
      write(first, rows, last, column_sums);
    }
  });

  if (sequences.max_rows <= step) return;
  const ColumnNumbers<A> column_sums(columns(0), row_size);
  for (std::int64_t i = 0; i < sequences.size; ++i) {
    const std::int64_t rows = sequences.length(i), first = sequences.begin(i);
    if (rows <= step) continue;
    sum_rows<A>(
        executor, [&](int thread) { return terms(first, 0, blocks(thread)); }, rows, row_size, rows * row_bytes,
        sums(0));
    column_sums.set(sums(0), unchanged);
    parallel_ranges(executor, rows, rows * row_bytes,
                    [&](std::int64_t begin, std::int64_t end) { write(first + begin, end - begin, 0, column_sums); });
  }
}

}  // namespace cpu

template <>
struct SequenceSoftmax<InlineCpu> {
  template <class T>
  static void run(const CpuExecutor& executor, const T* x, const Segments& sequences, std::int64_t row_size,
                  bool logarithm, T* y) {
    if (row_size == 0) return;
    if (logarithm) {
      cpu::softmax_sequences<true>(executor, x, sequences, row_size, y);
    } else {
      cpu::softmax_sequences<false>(executor, x, sequences, row_size, y);
    }
  }
};

template <>
struct SequenceSoftmaxGrad<InlineCpu> {
  template <class T>
  static void run(const CpuExecutor& executor, const T* dy, const T* y, const Segments& sequences,
                  std::int64_t row_size, bool logarithm, T* dx) {
    if (row_size == 0) return;
    if (logarithm) {
      cpu::softmax_grad_sequences<true>(executor, dy, y, sequences, row_size, dx);
    } else {
      cpu::softmax_grad_sequences<false>(executor, dy, y, sequences, row_size, dx);
    }
  }
};

}  // namespace kernel
}  // namespace lod::inline LOD_TARGET
