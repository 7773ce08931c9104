// SPDX-License-Identifier: Apache-2.0
/// @file
/// The threads that share a column on a GPU, as threads of the CPU: together they are what one thread is alone.
#include "support/random_batch.hpp"
#include <lod/kernels/cuda/thread_lanes.hpp>
#include <lod/kernels/thrust/lanes.hpp>

#include <doctest/doctest.h>

#include <array>
#include <barrier>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

using namespace lod_test;
namespace bulk = lod::kernel::bulk;

namespace {

constexpr int threads = bulk::threads_of_column;

/// Where the threads meet to exchange words.
struct Meeting {
  std::barrier<> barrier{threads};
  std::array<std::uint32_t, threads> words{};
};
struct MeetingExchange {
  Meeting* meeting;
  int thread;
  std::uint32_t of(std::uint32_t word, int other) const {
    meeting->words[static_cast<std::size_t>(thread)] = word;
    meeting->barrier.arrive_and_wait();
    const std::uint32_t brought = meeting->words[static_cast<std::size_t>(other)];
    meeting->barrier.arrive_and_wait();
    return brought;
  }
  std::uint32_t down(std::uint32_t word, int distance) const {
    return of(word, thread + distance < threads ? thread + distance : thread);
  }
  std::uint32_t first(std::uint32_t word) const { return of(word, 0); }
};
using Lanes = bulk::ThreadLanes<MeetingExchange>;

/// Of more than a word, and such that the order of what is joined shows.
struct Sum {
  float sum;
  double weighed;
};
struct JoinSums {
  Sum operator()(const Sum& a, const Sum& b) const { return {a.sum + b.sum, a.weighed - 2 * b.weighed}; }
};

/// The sum of some numbers, by rows that are read again or, where `most` says how many there are, by what is kept.
template <int most, class AnyLanes>
Sum sum_of(const AnyLanes& lanes, const std::vector<float>& x) {
  const auto rows = static_cast<std::int64_t>(x.size());
  typename AnyLanes::template Kept<float, most == 0 ? bulk::lanes_at_a_time : most> kept{};
  const auto read = [&](std::int64_t row) { return x[static_cast<std::size_t>(row)]; };
  if constexpr (most > 0) {
    lanes.template for_each_row<most>(rows, [&](std::int64_t row, int k) { kept.of(k) = read(row); });
  }
  const auto add = [&](Sum& sum, std::int64_t row, int k) {
    const float number = most > 0 ? kept.of(k) : read(row);
    sum = {sum.sum + number, 3 * sum.weighed + static_cast<double>(number)};
  };
  return lanes.shared(lanes.template fold_rows<most>(rows, Sum{}, add, JoinSums()));
}

template <int most>
void check(const std::vector<float>& x) {
  const Sum expected = sum_of<most>(bulk::OneThread(), x);
  Meeting meeting;
  std::array<Sum, threads> found{};
  std::array<std::vector<std::int64_t>, threads> rows;
  std::vector<std::thread> all;
  for (int thread = 0; thread < threads; ++thread) {
    all.emplace_back([&, thread] {
      const Lanes lanes(thread, MeetingExchange{&meeting, thread});
      found[static_cast<std::size_t>(thread)] = sum_of<most>(lanes, x);
      lanes.for_each_row<most>(static_cast<std::int64_t>(x.size()),
                               [&](std::int64_t row, int) { rows[static_cast<std::size_t>(thread)].push_back(row); });
    });
  }
  for (std::thread& thread : all) thread.join();
  std::size_t visited = 0;
  for (int thread = 0; thread < threads; ++thread) {
    const Sum& sum = found[static_cast<std::size_t>(thread)];
    CHECK(sum.sum == expected.sum);
    CHECK(sum.weighed == expected.weighed);
    visited += rows[static_cast<std::size_t>(thread)].size();
  }
  CHECK(visited == x.size());
}

}  // namespace

TEST_CASE("threads that share a column have what one thread has for it") {
  Engine engine(71);
  for (const std::size_t rows : {0U, 1U, 3U, 4U, 15U, 16U, 17U, 31U, 32U, 33U, 47U, 63U, 64U, 65U, 200U, 512U}) {
    CAPTURE(rows);
    std::vector<float> x(rows);
    for (float& number : x) number = static_cast<float>(random_number(engine, -1000, 1000)) / 7;
    check<0>(x);
    if (rows <= 64) check<64>(x);
  }
}
