// SPDX-License-Identifier: Apache-2.0
/// @file
/// Lanes as neighbouring threads of a warp.
#pragma once

#include <lod/core/float16.hpp>
#include <lod/core/target.hpp>
#include <lod/kernels/bulk/lanes.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk {

/// How many threads share a column: with fewer, more of their work is for rows; with more, a warp reads more of a
/// column in one access.
inline constexpr int threads_of_column = 4;

/// One of `threads` threads: it has the lanes `thread`, `thread` + threads, and so on. An Exchange reads words of the
/// other threads, all of which must call it together: down(word, distance) returns the word of the thread `distance`
/// after this one, up(word) that of the thread before, first(word) that of the first. meet() lets each read what the
/// others wrote.
template <class Exchange, int threads = threads_of_column>
class ThreadLanes {
 public:
  static constexpr int count = threads > lanes_at_a_time ? threads : lanes_at_a_time;

  template <class A, std::size_t rows>
  struct Kept {
    static_assert(rows % threads == 0);
    A number[rows / threads];
    LOD_HOST_DEVICE A& of(int k) noexcept { return number[k]; }
    LOD_HOST_DEVICE const A& of(int k) const noexcept { return number[k]; }
  };

  LOD_HOST_DEVICE ThreadLanes(int thread, const Exchange& exchange) : thread_(thread), exchange_(exchange) {}

  template <int most, class Row, class F>
  LOD_HOST_DEVICE void for_each_row(Row rows, const F& f) const {
    if constexpr (most > 0) {
      for_each_place<most>(rows, [&](Row row, int k) {
        if (row < rows) f(row, k);
      });
    } else {
      for (Row row = thread_; row < rows; row += threads) f(row, 0);
    }
  }
  template <int most, class Row, class F>
  LOD_HOST_DEVICE void for_each_place(Row rows, const F& f) const {
    // The number of steps is known to the compiler, so that everything stays in registers.
    for (int k = 0; k < most / threads; ++k) {
      if (k % own_lanes == 0 && k * threads >= rows) break;  // the same for all threads
      f(static_cast<Row>(thread_ + k * threads), k);
    }
  }
  template <int most, class Row, class A, class Add, class Join>
  LOD_HOST_DEVICE A fold_rows(Row rows, const A& start, const Add& add, const Join& join) const {
    A numbers[static_cast<std::size_t>(own_lanes)];
    for (A& number : numbers) number = start;
    if constexpr (most > 0) {
      for_each_row<most>(rows, [&](Row row, int k) { add(numbers[k % own_lanes], row, k); });
    } else {
      Row first = thread_;
      // Several rows of all lanes at once, then one, without a check for each: a thread reads eight side by side.
      constexpr int several = (threads == lanes_at_a_time ? 8 : 2) * count;
      for (; first - thread_ + several <= rows; first += several) {
        for (int k = 0; k < several / threads; ++k) add(numbers[k % own_lanes], first + k * threads, 0);
      }
      for (; first - thread_ + count <= rows; first += count) {
        for (int lane = 0; lane < own_lanes; ++lane) add(numbers[lane], first + lane * threads, 0);
      }
      for (int lane = 0; lane < own_lanes; ++lane) {
        const Row row = first + lane * threads;
        if (row < rows) add(numbers[lane], row, 0);
      }
    }
    return joined(numbers, join);
  }
  template <int most, class Row, class A, class Add, class Join>
  LOD_HOST_DEVICE A fold_places(Row rows, const A& start, const Add& add, const Join& join) const {
    A numbers[static_cast<std::size_t>(own_lanes)];
    for (A& number : numbers) number = start;
    for_each_place<most>(rows, [&](Row row, int k) { add(numbers[k % own_lanes], row, k); });
    return joined(numbers, join);
  }
  template <class A>
  LOD_HOST_DEVICE A shared(const A& number) const {
    return exchanged(number, [&](std::uint32_t word) { return exchange_.first(word); });
  }
  LOD_HOST_DEVICE bool is_first() const noexcept { return thread_ == 0; }
  LOD_HOST_DEVICE void meet() const { exchange_.meet(); }
  static constexpr int row_step = threads;
  LOD_HOST_DEVICE int first_row() const noexcept { return thread_; }

  static constexpr int runners = threads;
  template <class Start, class Pass>
  LOD_HOST_DEVICE void relay(int used, std::int64_t words, const Start& start, const Pass& pass) const {
    meet();
    auto state = start(thread_);
    std::uint32_t word = 0;
    // All threads take all steps, since each of them must provide its word.
    for (std::int64_t k = -thread_; k < words + used - 1 - thread_; ++k) {
      const std::uint32_t passed_on = exchange_.up(word);
      if (thread_ < used && k >= 0 && k < words) word = pass(state, thread_, k, is_first() ? 0 : passed_on);
    }
  }

 private:
  static constexpr int own_lanes = count / threads;

  /// The numbers of all lanes joined, for the first thread.
  template <class A, class Join>
  LOD_HOST_DEVICE A joined(A (&numbers)[static_cast<std::size_t>(own_lanes)], const Join& join) const {
    for (int folded = own_lanes / 2; folded > 0; folded /= 2) {
      for (int lane = 0; lane < folded; ++lane) numbers[lane] = join(numbers[lane], numbers[folded + lane]);
    }
    A number = numbers[0];
    for (int distance = threads / 2; distance > 0; distance /= 2) {
      number = join(number, exchanged(number, [&](std::uint32_t word) { return exchange_.down(word, distance); }));
    }
    return number;
  }
  /// A number of another thread; bring(word) fetches it word by word.
  template <class A, class Bring>
  static LOD_HOST_DEVICE A exchanged(const A& number, const Bring& bring) {
    std::uint32_t words[(sizeof(A) + 3) / 4] = {};
    std::memcpy(words, &number, sizeof(A));
    for (std::uint32_t& word : words) word = bring(word);
    A other;
    std::memcpy(&other, words, sizeof(A));
    return other;
  }

  int thread_;
  Exchange exchange_;
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk
