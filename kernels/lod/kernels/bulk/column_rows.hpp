// SPDX-License-Identifier: Apache-2.0
/// @file
/// The rows of a column that are gone through several times: for the greatest number, for a sum, for results.
#pragma once

#include <lod/core/target.hpp>
#include <lod/kernels/bulk/bulk.hpp>
#include <lod/kernels/bulk/few.hpp>
#include <lod/kernels/bulk/lanes.hpp>
#include <lod/kernels/bulk/row_sum.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk {

// A constant, because device code cannot call the functions of numeric_limits.
template <class A>
inline constexpr A negative_infinity = -std::numeric_limits<A>::infinity();

/// The greater of two numbers; -inf if there is none. NaN is skipped: it makes the sums of exponentials NaN anyway.
template <class A>
struct Greatest {
  LOD_HOST_DEVICE A nothing() const { return negative_infinity<A>; }
  LOD_HOST_DEVICE A operator()(A a, A b) const { return greatest(a, b); }
};

/// A column of at most a leaf of rows, `count` adjacent numbers wide, as lanes process it. If there are at most `kept`
/// rows, they are read once and stay in registers; otherwise they are reread, from a cache.
template <class T, std::size_t count, class Lanes, int kept>
class ColumnRows {
  using Numbers = Few<Accumulator<T>, count>;
  // Rows whose columns lanes share are narrow.
  using Offset = std::conditional_t<(Lanes::count > 1), std::int32_t, std::int64_t>;

 public:
  static constexpr bool keeps = kept > 0;

  /// x[row * row_size] is the first number of a row.
  LOD_HOST_DEVICE ColumnRows(const Lanes& lanes, const T* x, std::int64_t rows, std::int64_t row_size)
      : lanes_(lanes), rows_(static_cast<int>(rows)), row_size_(static_cast<Offset>(row_size)), x_(start(x)) {
    if constexpr (keeps) {
      lanes.template for_each_place<kept>(rows_, [&](int row, int k) {
        Numbers& numbers = kept_.of(k);
        if (row < rows_) {
          numbers = read(offset(row, k));
        } else {
          for (auto& number : numbers.number) number = negative_infinity<Accumulator<T>>;
        }
      });
    }
  }

  /// The origin of row offsets, for rows that begin at `first`: with kept rows, the thread's first row, if there is
  /// one, so that its other rows follow at steps that the compiler knows.
  template <class Number>
  LOD_HOST_DEVICE Number* start(Number* first) const {
    if constexpr (keeps) {
      const int row = lanes_.first_row();
      return first + (row < rows_ ? static_cast<Offset>(row) * row_size_ : Offset{});
    } else {
      return first;
    }
  }
  /// Calls f(offset, numbers) for each row.
  template <class F>
  LOD_HOST_DEVICE void for_each(const F& f) const {
    lanes_.template for_each_row<kept>(rows_, [&](int row, int k) { f(offset(row, k), numbers(row, k)); });
  }
  /// The greatest numbers, for the first lane.
  LOD_HOST_DEVICE Numbers maximum() const {
    const JoinEach<Greatest<Accumulator<T>>, count> greater;
    const auto take = [&](Numbers& most, int row, int k) { most = greater(most, numbers(row, k)); };
    if constexpr (keeps) {
      return lanes_.template fold_places<kept>(rows_, greater.nothing(), take, greater);
    } else {
      return lanes_.template fold_rows<0>(rows_, greater.nothing(), take, greater);
    }
  }
  /// The sums of term(offset, numbers) by the tree of a leaf, for the first lane.
  template <class Term>
  LOD_HOST_DEVICE Numbers sum(const Term& term) const {
    if constexpr (keeps) {
      const auto add = [&](Numbers& sum, int row, int k) { sum = plus(sum, term(offset(row, k), numbers(row, k))); };
      return lanes_.template fold_rows<kept>(rows_, Numbers{}, add, Plus());
    } else {
      return sum_leaf<Numbers>(
          lanes_,
          [&](std::int64_t in_leaf) {
            const Offset at = offset(static_cast<int>(in_leaf), 0);
            return term(at, read(at));
          },
          0, rows_);
    }
  }
  /// The same for term(numbers), which is 0 for -inf; kept numbers are replaced by next(numbers, their term).
  template <class Term, class Next>
  LOD_HOST_DEVICE Numbers sum(const Term& term, const Next& next) {
    if constexpr (keeps) {
      const auto add = [&](Numbers& sum, int, int k) {
        Numbers& numbers = kept_.of(k);
        const Numbers added = term(numbers);
        numbers = next(numbers, added);
        sum = plus(sum, added);
      };
      return lanes_.template fold_places<kept>(rows_, Numbers{}, add, Plus());
    } else {
      return sum([&](Offset, const Numbers& numbers) { return term(numbers); });
    }
  }

 private:
  struct Plus {
    LOD_HOST_DEVICE Numbers operator()(const Numbers& a, const Numbers& b) const { return plus(a, b); }
  };
  LOD_HOST_DEVICE Offset offset(int row, int k) const {
    return keeps ? static_cast<Offset>(k * Lanes::row_step) * row_size_ : static_cast<Offset>(row) * row_size_;
  }
  LOD_HOST_DEVICE Numbers read(Offset offset) const { return converted<Accumulator<T>>(read_few<count>(x_ + offset)); }
  LOD_HOST_DEVICE Numbers numbers(int row, int k) const {
    if constexpr (keeps) {
      return kept_.of(k);
    } else {
      return read(offset(row, k));
    }
  }

  const Lanes& lanes_;
  int rows_;
  Offset row_size_;
  const T* x_;
  typename Lanes::template Kept<Numbers, (keeps ? kept : lanes_at_a_time)> kept_;
};

/// Calls f(column) with the ColumnRows of some rows.
template <std::size_t count, class T, class Lanes, class F>
LOD_HOST_DEVICE void with_column(const Lanes& lanes, const T* x, std::int64_t rows, std::int64_t row_size, const F& f) {
  // Each of four threads keeps 16 words: with more, the registers would be enough for too few threads.
  constexpr int kept = (sizeof(Accumulator<T>) > sizeof(float) ? 2 : 4) * lanes_at_a_time;
  if constexpr (Lanes::count > 1) {
    if (rows <= kept) {
      ColumnRows<T, count, Lanes, kept> all(lanes, x, rows, row_size);
      return f(all);
    }
  }
  ColumnRows<T, count, Lanes, 0> all(lanes, x, rows, row_size);
  f(all);
}

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk
