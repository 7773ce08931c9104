// SPDX-License-Identifier: Apache-2.0
/// @file
/// Softmax on the CPU: exponentials and products by whole vectors, over all columns of a sequence as one array; sums by
/// the tree of row_sum.hpp.
#pragma once

#include <lod/core/version.hpp>
#include <lod/kernels/cpu/column_numbers.hpp>
#include <lod/kernels/cpu/exponential.hpp>
#include <lod/kernels/cpu/large_output.hpp>
#include <lod/kernels/cpu/launch.hpp>
#include <lod/kernels/cpu/narrow_softmax.hpp>
#include <lod/kernels/cpu/parallel.hpp>
#include <lod/kernels/cpu/row_sum.hpp>
#include <lod/kernels/cpu/softmax_terms.hpp>
#include <lod/kernels/cpu/vector.hpp>
#include <lod/ops/sequence_softmax.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu {

/// The two passes, for rows of any size.
template <bool logarithm, class T>
class Softmax {
  using A = Accumulator<T>;

 public:
  Softmax(A* scratch, std::int64_t row_size) noexcept
      : row_size_(row_size),
        shift_(scratch, row_size),
        normaliser_(scratch + shift_.scratch(row_size), row_size),
        reciprocal_(scratch + 2 * shift_.scratch(row_size), row_size) {}
  static constexpr std::int64_t scratch(std::int64_t row_size) noexcept {
    return 3 * ColumnNumbers<A>::scratch(row_size);
  }

  /// Determines what is subtracted from each column and what the column is normalised by. sum() returns the sums of
  /// `exponentials`; it is called again if they need a shift. maxima() returns the maxima of the columns, and may
  /// overwrite the sums.
  template <class Sum, class Maxima>
  void settle(const Sum& sum, const Maxima& maxima) {
    const A* sums = nullptr;
    shifted_ = logarithm;
    if constexpr (logarithm) {
      shift_.set(maxima(), [](const Vector<A>& greatest, std::int64_t) { return softmax_shift(greatest); });
      sums = sum();
    } else {
      sums = sum();
      if (!are_plain(sums, row_size_)) {
        normaliser_.set(sums);
        shift_.set(maxima(), [&](const Vector<A>& greatest, std::int64_t column) {
          return softmax_shift(greatest, normaliser_(column));
        });
        shifted_ = true;
        sums = sum();
      }
    }
    normaliser_.set(sums, [](const Vector<A>& all, std::int64_t) { return softmax_normaliser<logarithm, A>(all); });
    if constexpr (!logarithm) {
      reciprocal_.set(sums,
                      [&](const Vector<A>&, std::int64_t column) { return Vector<A>(A{1}) / normaliser_(column); });
    }
  }

  static constexpr auto following = static_cast<std::int64_t>(8192 / sizeof(T));

  // From x and from y on, `room` numbers may be read and written; those after the sequence are overwritten later.

  /// exp(x - shift), up to the end of a vector. Prefetches what follows: the next sequences are read after further
  /// passes over this one, which is too far for the hardware to read ahead.
  void exponentials(const T* x, std::int64_t rows, std::int64_t room, A* to) const noexcept {
    for_each_shifted(x, rows, room, [&](std::int64_t i, std::int64_t, std::int64_t, const Vector<T>& number) {
      __builtin_prefetch(x + i + following, 0, 2);
      exponential(number).store_unaligned(to + i);
    });
  }
  void normalise_exponentials(const A* terms, std::int64_t rows, T* y, std::int64_t room) const noexcept {
    for_each_vector<T>(rows, row_size_, [&](std::int64_t i, std::int64_t count, std::int64_t column) {
      store_first(y + i, normalised(Vector<T>::load_unaligned(terms + i), column), count, room - i);
    });
  }
  // Not inlined: inside its callers, g++ would not inline the function that is called for each vector.
  [[gnu::noinline]] void normalise(const T* x, std::int64_t rows, T* y, std::int64_t room) const noexcept {
    for_each_shifted(
        x, rows, room, [&](std::int64_t i, std::int64_t count, std::int64_t column, const Vector<T>& number) {
          store_first(y + i, normalised(logarithm ? number : exponential(number), column), count, room - i);
        });
  }

 private:
  Vector<A> normalised(const Vector<A>& term, std::int64_t column) const noexcept {
    if constexpr (logarithm) {
      return term - normaliser_(column);
    } else {
      return softmax_quotient(term, normaliser_(column), reciprocal_(column));
    }
  }
  /// Calls body(i, count, column, x - shift), the first three as by `for_each_vector`.
  template <class Body>
  void for_each_shifted(const T* x, std::int64_t rows, std::int64_t room, const Body& body) const noexcept {
    const auto number = [=](std::int64_t i, std::int64_t count) { return load_vector(x + i, count, A{}, room - i); };
    if (shifted_) {
      for_each_vector<T>(rows, row_size_, [&](std::int64_t i, std::int64_t count, std::int64_t column) {
        body(i, count, column, number(i, count) - shift_(column));
      });
    } else {
      for_each_vector<T>(rows, row_size_, [&](std::int64_t i, std::int64_t count, std::int64_t column) {
        body(i, count, column, number(i, count));
      });
    }
  }

  std::int64_t row_size_;
  ColumnNumbers<A> shift_;
  ColumnNumbers<A> normaliser_;
  ColumnNumbers<A> reciprocal_;
  bool shifted_ = false;
};

/// The exponentials of a sequence of at most this size are kept in scratch memory, which fits the second-level cache;
/// those of a longer one are computed twice.
inline constexpr std::int64_t kept_numbers = 65536;

template <bool logarithm, class T>
void softmax_sequences(const CpuExecutor& executor, const T* x, const Segments& sequences, std::int64_t row_size,
                       T* y) {
  if (sequences.rows() == 0 || row_size == 0) return;
  using A = Accumulator<T>;
  const std::int64_t row_bytes = lod::detail::bytes_of<T>(2, row_size);
  const std::int64_t step = chunk_rows(row_size);
  LongSequences long_ones(executor, sequences, longest_alone(executor, sequences, row_bytes, step));
  const bool any_long = long_ones.longest() > 0;
  // The exponentials of short sequences are kept, those of others computed a few rows at a time.
  const std::int64_t longest = sequences.max_rows * row_size;
  const bool computes_some = logarithm || any_long || longest > kept_numbers;
  const std::int64_t block_numbers =
      std::max(computes_some ? computed_scratch(row_size) : 0, std::min(longest, kept_numbers)) + lanes<T>;
  const LargeOutput output(lod::detail::bytes_of<T>(sequences.rows(), row_size));
  const ThreadScratch<A> columns(executor, Softmax<logarithm, T>::scratch(row_size));
  const ThreadScratch<A> sums(executor, sum_scratch(row_size));
  const ThreadScratch<A> blocks(executor, block_numbers);
  const bool is_narrow = row_size <= narrow_row_size;
  const ThreadScratch<A> narrow_blocks(executor, is_narrow ? NarrowExponentials<T>::scratch() : 0);
  const Workspace::Loan<A> partial(executor.workspace(),
                                   any_long ? shared_sum_scratch(long_ones.longest(), row_size) : 0);
  const Workspace::Loan<A> chunk_maxima(executor.workspace(), shared_maxima_scratch(long_ones.longest(), row_size));
  const auto terms = [row_size](const Softmax<logarithm, T>& softmax, const T* first, std::int64_t room, A* block) {
    const auto compute = [=](std::int64_t row, std::int64_t count, A* to) {
      softmax.exponentials(first + row * row_size, count, room - row * row_size, to);
    };
    return ComputedRows{compute, block};
  };

  parallel_sequences(executor, sequences, row_bytes, [&](std::int64_t begin, std::int64_t end, int thread) {
    Softmax<logarithm, T> softmax(columns(thread), row_size);
    A* const sum = sums(thread);
    A* const block = blocks(thread);
    const FloatingPointControl flushing(FloatingPointControl::flushing);
    std::optional<NarrowSoftmax<logarithm, T>> narrow;  // one for all blocks: it learns from those before
    if (is_narrow) narrow.emplace(narrow_blocks(thread), row_size, output);
    for (std::int64_t i = begin; i < end; ++i) {
      const T* const from = x + sequences.begin(i) * row_size;
      T* const to = y + sequences.begin(i) * row_size;
      const std::int64_t room = x == y ? 0 : (sequences.begin(end) - sequences.begin(i)) * row_size;
      if (narrow) {
        const std::int64_t last = narrow->block_end(sequences, i, end);
        if (last > i) {
          const Segments some(sequences.offsets + i, last - i, leaf_rows);
          // In place, another thread may be writing what comes after.
          const std::int64_t readable = x == y ? some.rows() : sequences.rows() - sequences.begin(i);
          narrow->run(from, some, readable * row_size, to);
          i = last - 1;
          continue;
        }
      }
      const std::int64_t rows = sequences.length(i);
      if (rows == 0 || long_ones.note(i, rows)) continue;
      const bool kept = !logarithm && rows * row_size <= kept_numbers;
      const auto sum_exponentials = [&] {
        if (!kept) return sum_rows<A>(terms(softmax, from, room, block), rows, row_size, sum);
        softmax.exponentials(from, rows, room, block);
        return sum_rows<A>(ContiguousRows<A>{block, row_size, block_numbers}, rows, row_size, sum);
      };
      softmax.settle(sum_exponentials, [&] { return column_maxima(from, rows, row_size, sum); });
      if (kept) {
        if constexpr (std::same_as<T, A>) {
          if (output.past_caches()) {
            softmax.normalise_exponentials(block, rows, block, block_numbers);
            output.copy(block, rows * row_size, to);
            continue;
          }
        }
        softmax.normalise_exponentials(block, rows, to, room);
      } else {
        softmax.normalise(from, rows, to, room);
      }
    }
  });

  Softmax<logarithm, T> softmax(columns(0), row_size);
  long_ones.for_each([&](std::int64_t i) {
    const std::int64_t rows = sequences.length(i);
    const T* const from = x + sequences.begin(i) * row_size;
    T* const to = y + sequences.begin(i) * row_size;
    const auto sum_exponentials = [&] {
      sum_rows<A>(
          executor, [&](int thread) { return terms(softmax, from, 0, blocks(thread)); }, rows, row_size,
          rows * row_bytes, partial, sums(0));
      return sums(0);
    };
    const auto maxima = [&] {
      return column_maxima(executor, from, rows, row_size, rows * row_bytes, chunk_maxima, sums(0));
    };
    softmax.settle(sum_exponentials, maxima);
    parallel_ranges(executor, rows, rows * row_bytes, [&](std::int64_t begin, std::int64_t end) {
      const FloatingPointControl flushing(FloatingPointControl::flushing);
      softmax.normalise(from + begin * row_size, end - begin, to + begin * row_size, 0);
    });
  });
}

/// The terms that are summed for the gradient: dy * y for the softmax, dy for its logarithm.
template <bool logarithm, class V>
inline V softmax_grad_term(const V& dy, const V& y) noexcept {
  return logarithm ? dy : dy * y;
}
template <bool logarithm, class V>
inline V softmax_gradient(const V& dy, const V& y, const V& sum) noexcept {
  return logarithm ? dy - exponential(y) * sum : (dy - sum) * y;
}

/// The gradient of one sequence of at most a leaf of rows of 1 to 7 columns; `room` as in `Softmax`.
template <bool logarithm, std::size_t columns, class T>
inline void softmax_grad_narrow(const T* dy, const T* y, std::int64_t rows, T* dx, std::int64_t room) noexcept {
  using A = Accumulator<T>;
  const std::int64_t numbers = rows * static_cast<std::int64_t>(columns);
  Vector<T> sums[narrow_vectors<columns, T>];
  for (auto& sum : sums) sum = Vector<T>(A{});
  for (std::int64_t i = 0; i < numbers;) {
#pragma GCC unroll 16
    for (std::size_t v = 0; v < narrow_vectors<columns, T>; ++v, i += lanes<T>) {
      if (i >= numbers) break;  // as the loop's condition it would make g++ warn at -O0
      Vector<T> term = softmax_grad_term<logarithm>(load_first(dy + i, numbers - i, A{}, room - i),
                                                    load_first(y + i, numbers - i, A{}, room - i));
      // Rounded before it is added, as in sequences of more than a leaf; g++ would fuse the two.
      if constexpr (columns > 1) term = read_once(term);
      sums[v] += term;
    }
  }
  const RepeatedColumns<columns, A> sum(add_tree<columns, T>(sums));
  const auto write = [&](std::int64_t i, std::int64_t count, std::size_t v) {
    const Vector<T> a = load_vector(dy + i, count, A{}, room - i), b = load_vector(y + i, count, A{}, room - i);
    store_first(dx + i, softmax_gradient<logarithm>(a, b, sum.vector[v]), count, room - i);
  };
  constexpr std::int64_t block = static_cast<std::int64_t>(columns) * lanes<T>;
  std::int64_t i = 0;
  for (; i + block <= numbers; i += block) {
#pragma GCC unroll 16
    for (std::size_t v = 0; v < columns; ++v) write(i + static_cast<std::int64_t>(v) * lanes<T>, lanes<T>, v);
  }
#pragma GCC unroll 16
  for (std::size_t v = 0; v < columns; ++v, i += lanes<T>) {
    if (i >= numbers) break;
    write(i, std::min(numbers - i, lanes<T>), v);
  }
}

template <bool logarithm, class T>
void softmax_grad_sequences(const CpuExecutor& executor, const T* dy, const T* y, const Segments& sequences,
                            std::int64_t row_size, T* dx) {
  if (sequences.rows() == 0 || row_size == 0) return;
  using A = Accumulator<T>;
  const std::int64_t row_bytes = lod::detail::bytes_of<T>(3, row_size);
  const std::int64_t step = chunk_rows(row_size);
  const bool in_place = dx == dy || dx == y;
  const ThreadScratch<A> columns(executor, ColumnNumbers<A>::scratch(row_size));
  const ThreadScratch<A> sums(executor, sum_scratch(row_size));
  const ThreadScratch<A> blocks(executor, computed_scratch(row_size) + lanes<T>);
  LongSequences long_ones(executor, sequences, longest_alone(executor, sequences, row_bytes, step));
  // Rows from `first` on; numbers from `end` on must not be touched (unless they belong to these rows).
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
  // A sum of negative zeros becomes a positive zero, as in `softmax_grad_narrow`.
  const auto with_positive_zeros = [row_size](A* numbers) {
    for (std::int64_t i = 0; i < row_size; ++i) numbers[i] += A{};
    return numbers;
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
      if (rows == 0 || long_ones.note(i, rows)) continue;
      if (row_size <= narrow_row_size && rows <= leaf_rows) {
        const std::int64_t at = first * row_size;
        with_narrow_columns(row_size, [&](auto width) {
          softmax_grad_narrow<logarithm, width>(dy + at, y + at, rows, dx + at, last - at);
        });
        continue;
      }
      sum_rows<A>(terms(first, last, blocks(thread)), rows, row_size, sums(thread));
      column_sums.set(with_positive_zeros(sums(thread)));
      write(first, rows, last, column_sums);
    }
  });

  const ColumnNumbers<A> column_sums(columns(0), row_size);
  long_ones.for_each([&](std::int64_t i) {
    const std::int64_t rows = sequences.length(i), first = sequences.begin(i);
    sum_rows<A>(
        executor, [&](int thread) { return terms(first, 0, blocks(thread)); }, rows, row_size, rows * row_bytes,
        sums(0));
    column_sums.set(with_positive_zeros(sums(0)));
    parallel_ranges(executor, rows, rows * row_bytes,
                    [&](std::int64_t begin, std::int64_t end) { write(first + begin, end - begin, 0, column_sums); });
  });
}

template <>
struct Kernel<SequenceSoftmax> {
  template <class T>
  static void run(const CpuExecutor& executor, const T* x, const Segments& sequences, std::int64_t row_size,
                  bool logarithm, T* y) {
    if (row_size == 0) return;
    if (sequences.have_a_row_each()) {
      // 1, or its logarithm, for any finite number. What a number less itself is tells infinities and NaN from these.
      using V = cpu::Vector<T>;
      const V lowest(-std::numeric_limits<Accumulator<T>>::infinity()), of_finite(logarithm ? 0 : 1),
          of_lowest = logarithm ? lowest : V(0);
      const auto one = [=](const V& number) {
        return xsimd::select(number == lowest, of_lowest, number - number + of_finite);
      };
      return cpu::parallel_ranges(
          executor, sequences.size * row_size, lod::detail::bytes_of<T>(2, sequences.size, row_size),
          [&](std::int64_t begin, std::int64_t end) { cpu::transform(x + begin, end - begin, y + begin, one); });
    }
    if (logarithm) {
      cpu::softmax_sequences<true>(executor, x, sequences, row_size, y);
    } else {
      cpu::softmax_sequences<false>(executor, x, sequences, row_size, y);
    }
  }
};

template <>
struct Kernel<SequenceSoftmaxGrad> {
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

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu
