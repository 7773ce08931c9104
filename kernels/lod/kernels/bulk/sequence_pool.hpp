// SPDX-License-Identifier: Apache-2.0
/// @file
/// Pooling in bulk.
#pragma once

#include <lod/core/version.hpp>
#include <lod/kernels/bulk/bulk.hpp>
#include <lod/kernels/bulk/few.hpp>
#include <lod/kernels/bulk/leaves.hpp>
#include <lod/kernels/bulk/row_sum.hpp>
#include <lod/kernels/wide_sum.hpp>
#include <lod/ops/sequence_pool.hpp>
#include <lod/ops/staging.hpp>

#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk {

/// The pooled result of `length` rows from their sum; for gradients, the same with dy as `sum`.
template <class T, class Sum>
LOD_HOST_DEVICE T pooled(PoolType type, std::int64_t length, Sum sum) {
  using A = Accumulator<T>;
  if constexpr (std::same_as<Sum, WideInteger>) {
    return sum.template pooled<T>(type, length);
  } else if constexpr (std::integral<A>) {
    return pooled_integer<T>(type, length, sum);
  } else {
    if (type == PoolType::SUM) return static_cast<T>(sum);
    const A divisor =
        type == PoolType::AVERAGE ? static_cast<A>(length) : static_cast<A>(std::sqrt(static_cast<double>(length)));
    return static_cast<T>(static_cast<A>(sum) / divisor);
  }
}

/// Whether `candidate` replaces `best`, which comes before it.
template <class T>
LOD_HOST_DEVICE bool wins(bool minimum, const T& candidate, const T& best) {
  if constexpr (std::integral<T>) {
    return minimum ? candidate < best : candidate > best;
  } else {
    using A = Accumulator<T>;
    const A a = static_cast<A>(candidate), b = static_cast<A>(best);
    // NaN, for which every comparison is false, also wins, but not over another NaN. Without a branch, whose sides
    // threads would execute one after the other.
    const A less = minimum ? b : a, more = minimum ? a : b;
    return !(less <= more) && b == b;
  }
}

/// For each number of a column, the row of the winner among some rows, and the winner; row -1 if there are no rows.
template <class T, std::size_t count, class Row = std::int64_t>
struct Winners {
  Row row[count];
  T number[count];
};
/// Joins the winners of two sets of rows.
template <class T, std::size_t count, class Row = std::int64_t>
struct JoinWinners {
  using Both = Winners<T, count, Row>;

  bool minimum;
  LOD_HOST_DEVICE Both nothing() const {
    Both none{};
    for (Row& row : none.row) row = -1;
    return none;
  }
  LOD_HOST_DEVICE Both operator()(const Both& a, const Both& b) const {
    Both both;
    for (std::size_t n = 0; n < count; ++n) {
      const bool b_is_second = b.row[n] > a.row[n];
      const bool b_wins = b_is_second ? wins(minimum, b.number[n], a.number[n])
                                      : b.row[n] >= 0 && !wins(minimum, a.number[n], b.number[n]);
      const bool takes_b = a.row[n] < 0 || b_wins;
      both.row[n] = takes_b ? b.row[n] : a.row[n];
      both.number[n] = takes_b ? b.number[n] : a.number[n];
    }
    return both;
  }
};
/// The winners of a column among rows [first, first + rows) of a sequence; numbers(row) are the row's numbers there.
template <class T, std::size_t count, class Lanes, class Numbers>
LOD_HOST_DEVICE Winners<T, count> winners(const Lanes& lanes, bool minimum, const Numbers& numbers, std::int64_t first,
                                          std::int64_t rows) {
  const JoinWinners<T, count, int> join{minimum};
  const auto take = [&](Winners<T, count, int>& best, int row, int) {
    const Few<T, count> candidates = numbers(first + row);
    for (std::size_t n = 0; n < count; ++n) {
      const bool beats = wins(minimum, candidates.number[n], best.number[n]);
      const bool takes = beats || best.row[n] < 0;
      best.row[n] = takes ? row : best.row[n];
      best.number[n] = takes ? candidates.number[n] : best.number[n];
    }
  };
  const Winners<T, count, int> best = lanes.template fold_rows<0>(static_cast<int>(rows), join.nothing(), take, join);
  Winners<T, count> of_sequence;
  for (std::size_t n = 0; n < count; ++n) {
    of_sequence.row[n] = best.row[n] < 0 ? -1 : first + best.row[n];
    of_sequence.number[n] = best.number[n];
  }
  return of_sequence;
}

/// Finds the winners of short sequences.
template <class T, std::size_t count, class Numbers, class Finish>
struct WinnersOfShort {
  Segments sequences;
  bool minimum;
  Numbers numbers;
  Finish finish;

  template <class Lanes>
  LOD_HOST_DEVICE void operator()(std::int64_t i, std::int64_t column, const Lanes& lanes) const {
    const auto of_row = term_of_row<Lanes>(numbers, i, column);
    const auto best = winners<T, count>(lanes, minimum, of_row, 0, sequences.length(i));
    if (lanes.is_first()) finish(i, column, best);
  }
  /// @{
  /// For scalar rows that can be staged.
  template <class Lanes>
  LOD_HOST_DEVICE void operator()(std::int64_t i, int rows, const T* from, T*, const Lanes& lanes) const {
    const auto best = winners<T, count>(lanes, minimum, numbers.of_scalars(from), 0, rows);
    if (lanes.is_first()) finish(i, 0, best);
  }
  const T* input() const noexcept requires requires(const Numbers& of) { of.scalars(); }
  { return numbers.scalars(); }
  static T* output() noexcept { return nullptr; }
  /// @}
};
/// Finds the winners of the leaves of long sequences.
template <class T, std::size_t count, class Numbers>
struct WinnersOfLeaf {
  bool minimum;
  Numbers numbers;
  LeafParts<Winners<T, count>> all;

  template <class Lanes>
  LOD_HOST_DEVICE void operator()(std::int64_t place, const Leaf& leaf, std::int64_t column, const Lanes& lanes) const {
    const auto of_row = term_of_row<Lanes>(numbers, leaf.sequence, column);
    const auto best = winners<T, count>(lanes, minimum, of_row, leaf.first, leaf.rows);
    if (lanes.is_first()) all.put(place, column, best);
  }
};
/// Calls finish(i, column, winners) without the place.
template <class Found, class Finish>
struct FinishWinners {
  Finish finish;
  LOD_HOST_DEVICE void operator()(std::int64_t, std::int64_t i, std::int64_t column, const Found& best) const {
    finish(i, column, best);
  }
};

/// Calls finish(i, column, winners) for each sequence i and each column of `count` adjacent numbers; numbers(i, row,
/// column) are the numbers to compare, and rows are counted from the start of the sequence.
template <class T, std::size_t count, class E, class Numbers, class Finish>
void find_winners(const E& executor, const Segments& sequences, std::int64_t row_size, bool minimum,
                  const Numbers& numbers, const Finish& finish) {
  using Found = Winners<T, count>;
  if (sequences.size == 0 || row_size == 0) return;
  constexpr Columns sharing = columns_of<count>;
  const std::int64_t columns = row_size / static_cast<std::int64_t>(count);
  const Leaves leaves{sequences};
  const LeafScratch<E, Found> found(executor, leaves, columns);
  for_each_short_and_leaf<sharing>(executor, sequences, columns,
                                   WinnersOfShort<T, count, Numbers, Finish>{sequences, minimum, numbers, finish},
                                   WinnersOfLeaf<T, count, Numbers>{minimum, numbers, found.parts()});
  if (!leaves.any()) return;
  join_parts<sharing>(executor, leaves, found.parts(), JoinWinners<T, count>{minimum},
                      FinishWinners<Found, Finish>{finish});
}

/// Writes the winners to y and, unless `index` is null, their rows, counted from the start of the batch, to `index`.
template <class T, std::size_t count>
struct WriteWinners {
  Segments sequences;
  std::int64_t row_size;
  T pad_value;
  T* y;
  std::int64_t* index;

  LOD_HOST_DEVICE void operator()(std::int64_t i, std::int64_t column, const Winners<T, count>& best) const {
    const std::int64_t at = i * row_size + column * static_cast<std::int64_t>(count);
    Few<T, count> numbers;
    for (std::size_t n = 0; n < count; ++n) numbers.number[n] = best.row[n] < 0 ? pad_value : best.number[n];
    write_few(y + at, numbers);
    if (index == nullptr) return;
    const std::int64_t first = sequences.begin(i);
    std::int64_t* const to = index + at;
    const auto row = [&](std::size_t n) { return best.row[n] < 0 ? -1 : first + best.row[n]; };
    if (count > 1 && reinterpret_cast<std::uintptr_t>(to) % sizeof(Sixteen) == 0) {
      for (std::size_t n = 0; n + 1 < count; n += 2) write_few(to + n, Few<std::int64_t, 2>{{row(n), row(n + 1)}});
    } else {
      for (std::size_t n = 0; n < count; ++n) to[n] = row(n);
    }
  }
};

/// The numbers of a sequence's row in a column of `count` numbers.
template <class T, std::size_t count>
struct NumbersOfRow {
  const T* x;
  Segments sequences;
  std::int64_t row_size;

  template <class Offset>
  struct OfColumn {
    const T* first;
    Offset row_size;
    LOD_HOST_DEVICE Few<T, count> operator()(std::int64_t row) const noexcept {
      return read_few<count>(first + static_cast<Offset>(row) * row_size);
    }
  };
  template <class Offset>
  LOD_HOST_DEVICE OfColumn<Offset> of_column(std::int64_t i, std::int64_t column) const noexcept {
    // There may be no rows at all, and x may be null.
    const std::int64_t first = sequences.begin(i) * row_size + column * static_cast<std::int64_t>(count);
    return {x == nullptr ? nullptr : x + first, static_cast<Offset>(row_size)};
  }
  /// @{
  /// The numbers of scalar rows, and the numbers of the rows of a sequence that were staged at `from`.
  const T* scalars() const noexcept requires(count == 1) { return x; }
  static LOD_HOST_DEVICE OfColumn<std::int32_t> of_scalars(const T* from) noexcept { return {from, 1}; }
  /// @}
};
/// The same as numbers of type A, which are summed.
template <class A, class T, std::size_t count, class Numbers>
struct Terms {
  Numbers numbers;

  template <class Offset>
  LOD_HOST_DEVICE auto of_column(std::int64_t i, std::int64_t column) const {
    return [of_row = numbers.template of_column<Offset>(i, column)](std::int64_t row) {
      return converted<A>(of_row(row));
    };
  }
  const T* scalars() const noexcept requires requires(const Numbers& of) { of.scalars(); }
  { return numbers.scalars(); }
  LOD_HOST_DEVICE auto of_scalars(const T* from) const noexcept {
    return [of_row = numbers.of_scalars(from)](std::int64_t row) { return converted<A>(of_row(row)); };
  }
};
/// Writes the pooled sums of a sequence.
template <class T, std::size_t count>
struct WritePooled {
  Segments sequences;
  std::int64_t row_size;
  PoolType type;
  bool keeps_single;  ///< the result for a single row is the row itself
  T pad_value;
  T* y;

  static constexpr bool is_corrected = true;
  template <class A>
  LOD_HOST_DEVICE void operator()(std::int64_t i, std::int64_t column, const Few<A, count>& sums) const {
    (*this)(i, column, sums, sequences.length(i));
  }
  template <class A>
  LOD_HOST_DEVICE void operator()(std::int64_t i, std::int64_t column, const Few<A, count>& sums,
                                  std::int64_t length) const {
    const PoolType by = keeps_single && length == 1 ? PoolType::SUM : type;
    Few<T, count> numbers;
    for (std::size_t n = 0; n < count; ++n) {
      numbers.number[n] = length > 0 ? pooled<T>(by, length, sums.number[n]) : pad_value;
    }
    write_few(y + i * row_size + column * static_cast<std::int64_t>(count), numbers);
  }
  template <class A>
  LOD_HOST_DEVICE void correct(std::int64_t i, std::int64_t column, std::size_t n, const WideSum<A>& sum) const {
    const std::int64_t at = i * row_size + column * static_cast<std::int64_t>(count);
    y[at + static_cast<std::int64_t>(n)] = static_cast<T>(sum.pooled(type, sequences.length(i)));
  }
};
/// Writes the pooled sums of rows in columns of `count` numbers: exact sums for 64-bit integers that are divided.
template <class T, std::size_t count, class E, class Numbers>
void pool_sums(const E& executor, const Segments& sequences, std::int64_t row_size, const Numbers& numbers,
               const WritePooled<T, count>& write) {
  if constexpr (divides_wide_sums<T>) {
    if (write.type != PoolType::SUM) {
      sum_few<WideInteger, count>(executor, sequences, row_size, Terms<WideInteger, T, count, Numbers>{numbers}, write);
      return;
    }
  }
  using A = Accumulator<T>;
  sum_few<A, count>(executor, sequences, row_size, Terms<A, T, count, Numbers>{numbers}, write);
}

template <>
struct Kernel<SequencePool> {
  template <class E, class T>
  static void run(const E& executor, const T* x, const Segments& sequences, std::int64_t row_size, PoolType type,
                  T pad_value, T* y) {
    if (type == PoolType::FIRST || type == PoolType::LAST) {
      for_each_element(executor, sequences.size, row_size, [=] LOD_HOST_DEVICE(std::int64_t i, std::int64_t column) {
        const std::int64_t length = sequences.length(i), row = type == PoolType::FIRST ? 0 : length - 1;
        // There may be no rows at all, and x may be null.
        y[i * row_size + column] = length > 0 ? x[(sequences.begin(i) + row) * row_size + column] : pad_value;
      });
    } else {
      const auto of_columns = [&]<std::size_t count>() {
        reduce<count>(executor, x, sequences, row_size, type, pad_value, y);
      };
      with_count(of_columns, row_size, x, y);
    }
  }

 private:
  template <std::size_t count, class E, class T>
  static void reduce(const E& executor, const T* x, const Segments& sequences, std::int64_t row_size, PoolType type,
                     T pad_value, T* y) {
    const NumbersOfRow<T, count> numbers{x, sequences, row_size};
    if (type == PoolType::MAX || type == PoolType::MIN) {
      find_winners<T, count>(executor, sequences, row_size, type == PoolType::MIN, numbers,
                             WriteWinners<T, count>{sequences, row_size, pad_value, y, nullptr});
    } else {
      pool_sums(executor, sequences, row_size, numbers,
                WritePooled<T, count>{sequences, row_size, type, false, pad_value, y});
    }
  }
};

template <>
struct Kernel<SequenceSums> {
  template <class E, class T>
  static void run(const E& executor, const T* x, const Segments& sequences, std::int64_t row_size, PoolType type,
                  Accumulator<T> pad_value, Accumulator<T>* y) {
    using A = Accumulator<T>;
    using Numbers = NumbersOfRow<T, 1>;
    // The sums and their terms differ in size: one number at a time.
    sum_few<A, 1>(executor, sequences, row_size, Terms<A, T, 1, Numbers>{Numbers{x, sequences, row_size}},
                  WritePooled<A, 1>{sequences, row_size, type, false, pad_value, y});
  }
};

template <>
struct Kernel<SequenceMaxPool> {
  template <class E, class T>
  static void run(const E& executor, const T* x, const Segments& sequences, std::int64_t row_size, bool minimum,
                  T pad_value, T* y, std::int64_t* index) {
    const auto find = [&]<std::size_t count>() {
      find_winners<T, count>(executor, sequences, row_size, minimum, NumbersOfRow<T, count>{x, sequences, row_size},
                             WriteWinners<T, count>{sequences, row_size, pad_value, y, index});
    };
    with_count(find, row_size, x, y);
  }
};

template <>
struct Kernel<SequencePoolGrad> {
  template <class E, class T>
  static void run(const E& executor, const T* dy, const Segments& sequences, std::int64_t row_size, PoolType type,
                  T* dx) {
    const auto write = [=] LOD_HOST_DEVICE(std::int64_t i, std::int64_t row, std::int64_t column) {
      const std::int64_t at = row * row_size + column, length = sequences.length(i);
      const T from = dy[i * row_size + column];
      if (type == PoolType::FIRST || type == PoolType::LAST) {
        dx[at] = row - sequences.begin(i) == (type == PoolType::FIRST ? 0 : length - 1) ? from : T{};
      } else {
        dx[at] = pooled<T>(type, length, from);
      }
    };
    for_each_in_sequences(executor, sequences, row_size, write);
  }
};

template <>
struct Kernel<SequenceMaxPoolGrad> {
  template <class E, class T>
  static void run(const E& executor, const T* dy, const std::int64_t* index, const Segments& sequences,
                  std::int64_t row_size, T* dx) {
    const auto write = [=] LOD_HOST_DEVICE(std::int64_t i, std::int64_t row, std::int64_t column) {
      const std::int64_t won = i * row_size + column;
      dx[row * row_size + column] = index[won] == row ? dy[won] : T{};
    };
    for_each_in_sequences(executor, sequences, row_size, write);
  }
};

template <>
struct Kernel<DividePooled> {
  template <class E, class T>
  static void run(const E& executor, const T* dy, const Segments& sequences, std::int64_t row_size, PoolType type,
                  T* y) {
    for_each_element(executor, sequences.size, row_size, [=] LOD_HOST_DEVICE(std::int64_t i, std::int64_t column) {
      const std::int64_t length = sequences.length(i), at = i * row_size + column;
      if (length > 0) y[at] = pooled<T>(type, length, dy[at]);
    });
  }
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk
