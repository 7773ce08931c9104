// SPDX-License-Identifier: Apache-2.0
/// @file
/// Pooling on the CPU.
#pragma once

#include <lod/core/version.hpp>
#include <lod/kernels/cpu/exact_sums.hpp>
#include <lod/kernels/cpu/extremes.hpp>
#include <lod/kernels/cpu/for_each_short_sequence.hpp>
#include <lod/kernels/cpu/large_output.hpp>
#include <lod/kernels/cpu/launch.hpp>
#include <lod/kernels/cpu/parallel.hpp>
#include <lod/kernels/cpu/pooled_sums.hpp>
#include <lod/kernels/cpu/repeat_rows.hpp>
#include <lod/kernels/cpu/row_sum.hpp>
#include <lod/kernels/cpu/run_copy.hpp>
#include <lod/kernels/cpu/sequence_sums.hpp>
#include <lod/kernels/cpu/vector.hpp>
#include <lod/kernels/cpu/widened_sequences.hpp>
#include <lod/ops/sequence_pool.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu {

template <class T>
void pool_sums(const CpuExecutor& executor, const T* x, const Segments& sequences, std::int64_t row_size, PoolType type,
               T pad_value, T* y) {
  const std::int64_t numbers = sequences.rows() * row_size;
  const bool far = numbers * static_cast<std::int64_t>(sizeof(T)) >= large_output_bytes;
  const auto rows_of = [=](std::int64_t i, int) {
    const std::int64_t first = sequences.begin(i) * row_size;
    return ContiguousRows<T>{x + first, row_size, numbers - first, far};
  };
  const PooledSums<T> finish(type, sequences, row_size, pad_value, nullptr, y);
  if constexpr (divides_wide_sums<T>) {
    if (type != PoolType::SUM) return sum_sequences_exactly<T>(executor, sequences, row_size, rows_of, finish);
  }
  if (row_size == 1) {
    const auto each = [=](std::int64_t i, std::int64_t count) {
      return sum_narrow_sequences<1, T>(sequences, i, count, rows_of, finish);
    };
    if constexpr (ShortSequences<T>::available) {
      const auto pool = [=](const ShortSequences<T>& some, std::int64_t i, T* pooled) {
        return some.pool_sums(i, type, pad_value, pooled);
      };
      const PooledShortSequences some(ShortSequences<T>(x, sequences, sequences.rows()), pool, pad_value, y);
      return sum_sequences<T>(executor, sequences, 1, rows_of, finish, TriedInTurn(some, each));
    } else if constexpr (widens_short_sequences<T>) {
      const auto pool = [=](const auto& some, std::int64_t i, float* pooled) {
        return some.pool_sums(i, type, 0, pooled);
      };
      const WidenedShortSequences widened(x, sequences, pad_value, pool, y);
      // The roots by which integers are divided are not exact in float.
      const bool exact = !std::integral<T> || type != PoolType::SQRT;
      const auto some = [=](std::int64_t i) { return exact ? widened(i) : all_short_sequences; };
      return sum_sequences<T>(executor, sequences, 1, rows_of, finish, TriedInTurn(some, each));
    } else {
      return sum_sequences<T>(executor, sequences, 1, rows_of, finish, each);
    }
  }
  sum_sequences_by_vectors<T>(executor, sequences, row_size, rows_of, finish);
}

/// The greatest (least) number of each column of `length` rows; calls set_row(column, row) with the row that holds it.
template <bool minimum, class T, class Rows, class SetRow>
void pool_extremes(const Rows& rows, std::int64_t length, std::int64_t row_size, T* y, const SetRow& set_row) {
  copy(rows(0), row_size, y);
  for (std::int64_t column = 0; column < row_size; ++column) set_row(column, 0);
  for (std::int64_t row = 1; row < length; ++row) {
    const T* candidates = rows(row);
    for (std::int64_t column = 0; column < row_size; ++column) {
      if (wins<minimum>(candidates[column], y[column])) {
        y[column] = candidates[column];
        set_row(column, row);
      }
    }
  }
}

/// The same without the row: whole vectors at a time, along the columns of wide rows, or across contiguous narrow ones.
template <bool minimum, class T, class Rows>
void pool_extremes(const Rows& rows, std::int64_t length, std::int64_t row_size, T* y) {
  if constexpr (!compares_by_vectors<T>) {
    return pool_extremes<minimum>(rows, length, row_size, y, [](std::int64_t, std::int64_t) {});
  }
  if constexpr (std::same_as<Rows, ContiguousRows<T>>) {
    if (row_size <= narrow_row_size) {
      return with_narrow_columns(row_size, [&](auto columns) {
        pool_narrow_extremes<minimum, columns>(rows.first, length, rows.readable, y);
      });
    }
  }
  if (row_size >= lanes<T> || loads_parts<T>) {
    if (row_size <= lanes<T>) return keep_rows<minimum, 1>(rows, length, row_size, y);
    if (row_size <= 2 * lanes<T>) return keep_rows<minimum, 2>(rows, length, row_size, y);
    if (row_size <= 3 * lanes<T>) return keep_rows<minimum, 3>(rows, length, row_size, y);
    if (row_size <= 4 * lanes<T>) return keep_rows<minimum, 4>(rows, length, row_size, y);
    copy(rows(0), row_size, y);
    for (std::int64_t row = 1; row < length; ++row) transform(rows(row), y, row_size, y, keep<minimum, Accumulator<T>>);
  } else {
    pool_extremes<minimum>(rows, length, row_size, y, [](std::int64_t, std::int64_t) {});
  }
}

/// Row numbers are as wide as the numbers that are compared, so that one mask fits both.
template <class T>
using Place = std::conditional_t<sizeof(Accumulator<T>) == 4, std::int32_t, std::int64_t>;
/// The greatest length of a part of a sequence whose rows are counted.
inline constexpr std::int64_t most_places = std::int64_t{1} << 30;

/// The bits of row numbers as a vector of T, whatever number they would be there. Not xsimd's bitwise_cast, whose
/// template argument is the resulting vector in 8.1 and its element in 11.
template <class T>
inline Vector<T> bits_of_places(const xsimd::batch<Place<T>>& places) noexcept {
  return std::bit_cast<Vector<T>>(places);
}
/// For several vectors of rows [first, last), from `column` on: numbers that win replace those in `y`, and their rows
/// those in `place`. Both stay in registers meanwhile.
template <bool minimum, std::size_t vectors, class T, class Rows>
inline void keep_rows_and_places(const Rows& rows, std::int64_t first, std::int64_t last, std::int64_t column, T* y,
                                 Place<T>* place) {
  using Places = xsimd::batch<Place<T>>;
  Vector<T> best[vectors], places[vectors];
#pragma GCC unroll 16
  for (std::size_t v = 0; v < vectors; ++v) {
    best[v] = load(y + v * Vector<T>::size);
    places[v] = bits_of_places<T>(Places::load_unaligned(place + v * Vector<T>::size));
  }
  for (std::int64_t row = first; row < last; ++row) {
    const T* const candidates = rows(row) + column;
    const Vector<T> here = bits_of_places<T>(Places(static_cast<Place<T>>(row)));
#pragma GCC unroll 16
    for (std::size_t v = 0; v < vectors; ++v) {
      const Vector<T> candidate = load(candidates + v * Vector<T>::size);
      const auto won = minimum ? falls_below(candidate, best[v]) : exceeds(candidate, best[v]);
      best[v] = xsimd::select(won, candidate, best[v]);
      places[v] = xsimd::select(won, here, places[v]);
    }
  }
#pragma GCC unroll 16
  for (std::size_t v = 0; v < vectors; ++v) {
    store<T>(y + v * Vector<T>::size, best[v]);
    std::bit_cast<Places>(places[v]).store_unaligned(place + v * Vector<T>::size);
  }
}

/// The same for rests of rows narrower than a vector, `rest` numbers each.
template <bool minimum, class T, class Rows>
inline void keep_rests_and_places(const Rows& rows, std::int64_t first, std::int64_t last, std::int64_t column,
                                  std::int64_t rest, T* y, Place<T>* place) {
  using Places = xsimd::batch<Place<T>>;
  alignas(64) Place<T> numbers[Vector<T>::size] = {};
  std::copy_n(place, rest, numbers);
  Vector<T> best = load(y, rest, Accumulator<T>{}), places = bits_of_places<T>(Places::load_aligned(numbers));
  for (std::int64_t row = first; row < last; ++row) {
    const Vector<T> candidate = load(rows(row) + column, rest, Accumulator<T>{});
    const auto won = minimum ? falls_below(candidate, best) : exceeds(candidate, best);
    best = xsimd::select(won, candidate, best);
    places = xsimd::select(won, bits_of_places<T>(Places(static_cast<Place<T>>(row))), places);
  }
  store(y, best, rest);
  std::bit_cast<Places>(places).store_aligned(numbers);
  std::copy_n(numbers, rest, place);
}

/// The greatest (least) number of each column of `length` <= `most_places` rows; `place` receives the row that holds
/// it, for each column.
template <bool minimum, class T, class Rows>
void pool_extremes_and_places(const Rows& rows, std::int64_t length, std::int64_t row_size, T* y, Place<T>* place) {
  if constexpr (!compares_by_vectors<T>) {
    return pool_extremes<minimum>(rows, length, row_size, y, [=](std::int64_t column, std::int64_t row) {
      place[column] = static_cast<Place<T>>(row);
    });
  }
  if constexpr (std::same_as<Rows, ContiguousRows<T>>) {
    if (row_size <= narrow_row_size) {
      const auto set_place = [place](std::size_t column, std::int64_t row) {
        place[column] = static_cast<Place<T>>(row);
      };
      return with_narrow_columns(row_size, [&](auto columns) {
        pool_narrow_extremes<minimum, columns>(rows.first, length, rows.readable, y, set_place);
      });
    }
  }
  copy(rows(0), row_size, y);
  std::fill_n(place, row_size, Place<T>{});
  if (row_size == 4 * lanes<T>) return keep_rows_and_places<minimum, 4>(rows, 1, length, 0, y, place);
  if (row_size == 2 * lanes<T>) return keep_rows_and_places<minimum, 2>(rows, 1, length, 0, y, place);
  if (row_size == lanes<T>) return keep_rows_and_places<minimum, 1>(rows, 1, length, 0, y, place);
  // A few rows at a time, which stay in the first-level cache until their last columns have been compared too.
  const std::int64_t full = row_size / lanes<T> * lanes<T>;
  const std::int64_t step = full > 0 ? 16 : length;
  for (std::int64_t begin = 1; begin < length; begin += step) {
    const std::int64_t end = std::min(begin + step, length);
    for (std::int64_t column = 0; column < full; column += lanes<T>) {
      keep_rows_and_places<minimum, 1>(rows, begin, end, column, y + column, place + column);
    }
    if (full == row_size) continue;
    const bool by_vectors = masked<T> || (loads_parts<T> && full == 0);
    if (by_vectors) {
      keep_rests_and_places<minimum>(rows, begin, end, full, row_size - full, y + full, place + full);
    }
    for (std::int64_t row = begin; row < end && !by_vectors; ++row) {
      const T* const candidates = rows(row);
      for (std::int64_t column = full; column < row_size; ++column) {
        const bool won = wins<minimum>(candidates[column], y[column]);
        y[column] = won ? candidates[column] : y[column];
        place[column] = won ? static_cast<Place<T>>(row) : place[column];
      }
    }
  }
}

/// MAX and MIN of every sequence, and in `index`, unless it is null, the row of each element, counted from the first
/// row of x. Long sequences are shared by all threads.
template <bool minimum, bool with_index, class T>
void pool_sequence_extremes(const CpuExecutor& executor, const T* x, const Segments& sequences, std::int64_t row_size,
                            T pad_value, T* y, std::int64_t* index) {
  const std::int64_t row_bytes = lod::detail::bytes_of<T>(row_size);
  const std::int64_t numbers = sequences.rows() * row_size;
  const std::int64_t step = chunk_rows(row_size);
  const ThreadScratch<Place<T>> places(executor, index ? row_size : 0);
  const std::int64_t longest = std::min(longest_alone(executor, sequences, row_bytes, step), most_places);
  LongSequences long_ones(executor, sequences, longest);
  const std::int64_t most_chunks = (long_ones.longest() + step - 1) / step;
  const Workspace::Loan<T> bests(executor.workspace(), most_chunks * row_size);
  const Workspace::Loan<std::int64_t> rows_of_bests(executor.workspace(), index ? most_chunks * row_size : 0);
  const auto places_of = [&places](int thread) { return places(thread); };
  // For `length` rows from `first` on.
  const auto pool = [=](std::int64_t first, std::int64_t length, T* best, std::int64_t* rows, int thread) {
    const ContiguousRows<T> from{x + first * row_size, row_size, numbers - first * row_size};
    if constexpr (with_index) {
      Place<T>* const place = places_of(thread);
      pool_extremes_and_places<minimum>(from, length, row_size, best, place);
      for (std::int64_t column = 0; column < row_size; ++column) rows[column] = first + place[column];
    } else {
      pool_extremes<minimum>(from, length, row_size, best);
    }
  };

  parallel_sequences(executor, sequences, row_bytes, [&](std::int64_t begin, std::int64_t end, int thread) {
    const auto one = [&](std::int64_t i) {
      const std::int64_t length = sequences.length(i);
      if (long_ones.note(i, length)) return;
      std::int64_t* const rows = index ? index + i * row_size : nullptr;
      if (length > 0) return pool(sequences.begin(i), length, y + i * row_size, rows, thread);
      fill(y + i * row_size, row_size, pad_value);
      if (rows) fill<std::int64_t>(rows, row_size, -1);
    };
    if constexpr (with_index && ShortSequences<T>::available) {
      if (row_size == 1) {
        const ShortSequences<T> short_ones(x, sequences, sequences.rows());
        const auto some = [=](std::int64_t i) {
          if (sequences.begin(i) == sequences.begin(i + short_sequences)) {
            fill(y + i, short_sequences, pad_value);
            fill<std::int64_t>(index + i, short_sequences, -1);
            return 0U;
          }
          const unsigned others = short_ones.template pool_extremes<minimum>(i, pad_value, y + i);
          if (others != all_short_sequences) short_ones.find_rows(i, y + i, sequences.first, index + i);
          return others;
        };
        return for_each_short_sequence(begin, end, some, one);
      }
    }
    if constexpr (!with_index && compares_by_vectors<T>) {
      if (row_size <= narrow_row_size) {
        const auto narrow = [=](std::int64_t i) {
          return pool_narrow_extremes<minimum>(x, sequences, row_size, i, longest, y + i * row_size);
        };
        const auto in_turn = [&](const auto& some) {
          for_each_short_sequence(begin, end, TriedInTurn(some, narrow), one);
        };
        if constexpr (ShortSequences<T>::available) {
          const auto pool_some = [=](const ShortSequences<T>& some, std::int64_t i, T* pooled) {
            return some.template pool_extremes<minimum>(i, pad_value, pooled);
          };
          const ShortSequences<T> some(x, sequences, sequences.rows());
          if (row_size == 1) return in_turn(PooledShortSequences(some, pool_some, pad_value, y));
        } else if constexpr (widens_short_sequences<T>) {
          const auto pool_some = [](const auto& some, std::int64_t i, float* pooled) {
            return some.template pool_extremes<minimum>(i, 0, pooled);
          };
          if (row_size == 1) return in_turn(WidenedShortSequences(x, sequences, pad_value, pool_some, y));
        }
        return for_each_short_sequence(begin, end, narrow, one);
      }
      const bool fits_vector = row_size == lanes<T> || (row_size < lanes<T> && loads_parts<T>);
      if (row_size > narrow_row_size && fits_vector) {  // where the calls would take longest
        for (std::int64_t i = begin; i < end; ++i) {
          const std::int64_t length = sequences.length(i), first = sequences.begin(i) * row_size;
          if (length == 0 || length > longest) {
            one(i);
          } else {
            keep_rows<minimum, 1>(ContiguousRows<T>{x + first, row_size, numbers - first}, length, row_size,
                                  y + i * row_size);
          }
        }
        return;
      }
    }
    for (std::int64_t i = begin; i < end; ++i) one(i);
  });

  long_ones.for_each([&](std::int64_t i) {
    const std::int64_t length = sequences.length(i), first = sequences.begin(i);
    // The winners of the chunks, in order; the first winner among them is that of the sequence.
    const std::int64_t chunks = (length + step - 1) / step;
    parallel_for(executor, chunks, length * row_bytes, [&](std::int64_t chunk, int thread) {
      pool(first + chunk * step, std::min(step, length - chunk * step), bests.data() + chunk * row_size,
           index ? rows_of_bests.data() + chunk * row_size : nullptr, thread);
    });
    T* const out = y + i * row_size;
    const ContiguousRows<T> winners{bests.data(), row_size, chunks * row_size};
    if constexpr (with_index) {
      Place<T>* const place = places_of(0);
      pool_extremes_and_places<minimum>(winners, chunks, row_size, out, place);
      for (std::int64_t column = 0; column < row_size; ++column) {
        index[i * row_size + column] = rows_of_bests[place[column] * row_size + column];
      }
    } else {
      pool_extremes<minimum>(winners, chunks, row_size, out);
    }
  });
}

template <>
struct Kernel<SequencePool> {
  template <class T>
  static void run(const CpuExecutor& executor, const T* x, const Segments& sequences, std::int64_t row_size,
                  PoolType type, T pad_value, T* y) {
    if (sequences.size == 0 || row_size == 0) return;
    if (sequences.rows() == 0) {
      const std::int64_t results = sequences.size * row_size;
      return cpu::parallel_ranges(
          executor, results, lod::detail::bytes_of<T>(results),
          [=](std::int64_t begin, std::int64_t end) { cpu::fill(y + begin, end - begin, pad_value); });
    }
    if (sequences.have_a_row_each()) {
      return cpu::Kernel<CopyValues>::run(executor, x, sequences.size * row_size, y);
    }
    if (type == PoolType::SUM || type == PoolType::AVERAGE || type == PoolType::SQRT) {
      return cpu::pool_sums(executor, x, sequences, row_size, type, pad_value, y);
    }
    if (type == PoolType::MAX) {
      return cpu::pool_sequence_extremes<false, false>(executor, x, sequences, row_size, pad_value, y, nullptr);
    }
    if (type == PoolType::MIN) {
      return cpu::pool_sequence_extremes<true, false>(executor, x, sequences, row_size, pad_value, y, nullptr);
    }
    cpu::parallel_ranges(executor, sequences.size, lod::detail::bytes_of<T>(2, sequences.size, row_size),
                         [&](std::int64_t begin, std::int64_t end) {
                           for (std::int64_t i = begin; i < end; ++i) {
                             const std::int64_t length = sequences.length(i);
                             if (length == 0) {
                               cpu::fill(y + i * row_size, row_size, pad_value);
                             } else {
                               const std::int64_t row = sequences.begin(i) + (type == PoolType::FIRST ? 0 : length - 1);
                               const std::int64_t room = std::min(sequences.rows() - row, end - i) * row_size;
                               cpu::copy(x + row * row_size, row_size, y + i * row_size, room);
                             }
                           }
                         });
  }
};

template <>
struct Kernel<SequenceSums> {
  template <class T>
  static void run(const CpuExecutor& executor, const T* x, const Segments& sequences, std::int64_t row_size,
                  PoolType type, Accumulator<T> pad_value, Accumulator<T>* y) {
    const std::int64_t numbers = lod::detail::saturated_product(sequences.rows(), row_size);
    const bool far = lod::detail::bytes_of<T>(numbers) >= cpu::large_output_bytes;
    const auto rows_of = [=](std::int64_t i, int) {
      const std::int64_t first = sequences.begin(i) * row_size;
      return cpu::ContiguousRows<T>{x + first, row_size, numbers - first, far};
    };
    cpu::sum_sequences<T>(executor, sequences, row_size, rows_of,
                          cpu::PooledSums<Accumulator<T>>(type, sequences, row_size, pad_value, nullptr, y));
  }
};

template <>
struct Kernel<SequenceMaxPool> {
  template <class T>
  static void run(const CpuExecutor& executor, const T* x, const Segments& sequences, std::int64_t row_size,
                  bool minimum, T pad_value, T* y, std::int64_t* index) {
    if (sequences.size == 0 || row_size == 0) return;
    if (minimum) {
      cpu::pool_sequence_extremes<true, true>(executor, x, sequences, row_size, pad_value, y, index);
    } else {
      cpu::pool_sequence_extremes<false, true>(executor, x, sequences, row_size, pad_value, y, index);
    }
  }
};

template <>
struct Kernel<SequencePoolGrad> {
  template <class T>
  static void run(const CpuExecutor& executor, const T* dy, const Segments& sequences, std::int64_t row_size,
                  PoolType type, T* dx) {
    if (type != PoolType::FIRST && type != PoolType::LAST) {
      return cpu::repeat_rows(executor, dy, sequences, row_size, type, dx);
    }
    const std::int64_t row_bytes = lod::detail::bytes_of<T>(row_size);
    const cpu::LargeOutput output(sequences.rows() * row_bytes);
    cpu::parallel_rows(executor, sequences, row_bytes,
                       [&](std::int64_t i, std::int64_t begin, std::int64_t end, std::int64_t room) {
                         T* const first = dx + (sequences.begin(i) + begin) * row_size;
                         output.fill(first, (end - begin) * row_size, T{}, room * row_size);
                         const std::int64_t row = type == PoolType::FIRST ? 0 : sequences.length(i) - 1;
                         if (row < begin || row >= end) return;
                         cpu::copy(dy + i * row_size, row_size, first + (row - begin) * row_size);
                       });
  }
};

template <>
struct Kernel<SequenceMaxPoolGrad> {
  template <class T>
  static void run(const CpuExecutor& executor, const T* dy, const std::int64_t* index, const Segments& sequences,
                  std::int64_t row_size, T* dx) {
    if (sequences.rows() == 0 || row_size == 0) return;
    const std::int64_t row_bytes = lod::detail::bytes_of<T>(row_size);
    cpu::parallel_sequences(executor, sequences, row_bytes, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        cpu::fill(dx + sequences.begin(i) * row_size, sequences.length(i) * row_size, T{});
        for (std::int64_t column = 0; column < row_size; ++column) {
          const std::int64_t row = index[i * row_size + column];
          if (row >= 0) dx[row * row_size + column] = dy[i * row_size + column];
        }
      }
    });
  }
};

template <>
struct Kernel<DividePooled> {
  template <class T>
  static void run(const CpuExecutor& executor, const T* dy, const Segments& sequences, std::int64_t row_size,
                  PoolType type, T* y) {
    const std::int64_t bytes = lod::detail::bytes_of<T>(2, sequences.size, row_size);
    cpu::parallel_ranges(executor, sequences.size, bytes, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        if (sequences.length(i) == 0) continue;
        cpu::finish_sum(type, sequences.length(i), dy + i * row_size, row_size, y + i * row_size);
      }
    });
  }
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu
