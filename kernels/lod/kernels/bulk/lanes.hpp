// SPDX-License-Identifier: Apache-2.0
/// @file
/// The lanes that share a column of rows: row k belongs to lane k mod `lanes_at_a_time`, as in the tree of narrow rows.
/// Each of the GPU threads that work side by side has some of the lanes; on a CPU one thread has all of them.
#pragma once

#include <lod/core/float16.hpp>
#include <lod/core/target.hpp>

#include <cstddef>
#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk {

/// How many lanes share a column.
inline constexpr int lanes_at_a_time = 16;

/// Lanes that all belong to one thread. Other classes with these functions share the lanes among several threads.
template <std::size_t lanes>
struct LanesInTurn {
  static constexpr int count = static_cast<int>(lanes);

  /// Numbers of `rows` rows; `of(k)` is that of the thread's k-th row.
  template <class A, std::size_t rows>
  struct Kept {
    A number[rows];
    LOD_HOST_DEVICE A& of(int k) noexcept { return number[k]; }
    LOD_HOST_DEVICE const A& of(int k) const noexcept { return number[k]; }
  };

  /// Calls f(row, k) for each of `rows` rows, the k-th of its thread. There are at most `most` rows; if `most` is 0,
  /// there may be any number, and k is 0. A Row of 32 bits takes a GPU half as many instructions as one of 64.
  template <int most, class Row, class F>
  LOD_HOST_DEVICE void for_each_row(Row rows, const F& f) const {
    for (Row row = 0; row < rows; ++row) f(row, most > 0 ? static_cast<int>(row) : 0);
  }
  /// The same for row positions: f may also be called for positions after the last row, up to `most`, so that threads
  /// in lockstep need not check which of them have a row.
  template <int most, class Row, class F>
  LOD_HOST_DEVICE void for_each_place(Row rows, const F& f) const {
    for_each_row<most>(rows, f);
  }
  /// Each lane begins with `start`, and add(number, row, k) folds each of its rows into it, in order. The numbers
  /// of all lanes are then joined into one: those of the second half to those of the first, and so on. The result is
  /// valid only where `is_first`.
  template <int most, class Row, class A, class Add, class Join>
  LOD_HOST_DEVICE A fold_rows(Row rows, const A& start, const Add& add, const Join& join) const {
    A numbers[lanes];
    for (A& number : numbers) number = start;
    if constexpr (most > 0) {
      for_each_row<most>(rows, [&](Row row, int k) { add(numbers[row % count], row, k); });
    } else {
      // The lane indices are known to the compiler, so that the numbers stay in registers. Several rows at a time also
      // where there is one lane: a GPU's thread then reads all of them before it waits for the first.
      constexpr int at_a_time = count < 4 ? 4 : count;
      Row first = 0;
      for (; first + at_a_time <= rows; first += at_a_time) {
        for (int k = 0; k < at_a_time; ++k) add(numbers[k % count], first + k, 0);
      }
      for (int k = 0; k < at_a_time; ++k) {
        if (k % 4 == 0 && first + k >= rows) break;
        if (first + k < rows) add(numbers[k % count], first + k, 0);
      }
    }
    for (int folded = count / 2; folded > 0; folded /= 2) {
      for (int lane = 0; lane < folded; ++lane) numbers[lane] = join(numbers[lane], numbers[folded + lane]);
    }
    return numbers[0];
  }
  /// The same by positions.
  template <int most, class Row, class A, class Add, class Join>
  LOD_HOST_DEVICE A fold_places(Row rows, const A& start, const Add& add, const Join& join) const {
    return fold_rows<most>(rows, start, add, join);
  }
  /// The first thread's number, for all threads.
  template <class A>
  LOD_HOST_DEVICE A shared(const A& number) const {
    return number;
  }
  LOD_HOST_DEVICE bool is_first() const noexcept { return true; }
  /// After this, all threads can read what any of them wrote or could read.
  LOD_HOST_DEVICE void meet() const noexcept {}
  /// The k-th row of the thread is its first row plus k steps.
  static constexpr int row_step = 1;
  LOD_HOST_DEVICE int first_row() const noexcept { return 0; }

  /// The number of lanes in a relay.
  static constexpr int runners = static_cast<int>(lanes);
  /// Passes words from lane to lane. Each of the first `used` lanes begins with the state start(lane). When the lane
  /// before it has passed on word k, it computes pass(state, lane, k, word) and passes the result on; the first lane
  /// receives 0. Lanes that are threads run side by side, each a word later than the lane before it. What any of them
  /// wrote before is visible to all.
  template <class Start, class Pass>
  LOD_HOST_DEVICE void relay(int used, std::int64_t words, const Start& start, const Pass& pass) const {
    decltype(start(0)) states[lanes];
    for (int lane = 0; lane < used; ++lane) states[lane] = start(lane);
    for (std::int64_t k = 0; k < words; ++k) {
      std::uint32_t word = 0;
      for (int lane = 0; lane < used; ++lane) word = pass(states[lane], lane, k, word);
    }
  }
};
/// All lanes of a column.
using OneThread = LanesInTurn<lanes_at_a_time>;
/// The same for a column of few rows.
struct FewRows : OneThread {
  static constexpr int most = 31;
};
/// As many lanes as GPU threads run in lockstep.
using OneWarp = LanesInTurn<32>;
/// The lane of a column that is not shared.
using LaneAlone = LanesInTurn<1>;

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk
