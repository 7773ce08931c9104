// SPDX-License-Identifier: Apache-2.0
/// @file
/// Lanes that are threads of a warp on a GPU: together they are what one thread is alone.
#include "support/random_batch.hpp"
#include <lod/kernels/bulk/cross_entropy.hpp>
#include <lod/kernels/bulk/ctc_loss.hpp>
#include <lod/kernels/bulk/edit_distance.hpp>
#include <lod/kernels/bulk/lanes.hpp>
#include <lod/kernels/bulk/linear_chain_crf.hpp>
#include <lod/kernels/bulk/sequence_pool.hpp>
#include <lod/kernels/bulk/sequence_softmax.hpp>
#include <lod/kernels/cuda/thread_lanes.hpp>

#include <doctest/doctest.h>
#include <ucontext.h>

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

using namespace lod_test;
namespace bulk = lod::kernel::bulk;

namespace {

/// The threads of a warp, as parts of one thread that take turns: each goes on until it meets the others. Threads of
/// the system would have to wait for processors at each of the many meetings, which takes minutes where others use
/// these.
template <int threads>
class Meeting {
 public:
  std::vector<std::uint32_t> words = std::vector<std::uint32_t>(std::size_t{threads});

  /// Calls f(thread) for each of them.
  template <class F>
  void run(const F& f) {
    static std::vector<std::byte> stacks(threads * stack_size);
    work_ = f;
    current_ = this;
    for (std::size_t thread = 0; thread < threads; ++thread) {
      ucontext_t& context = contexts_[thread];
      REQUIRE(getcontext(&context) == 0);
      context.uc_stack.ss_sp = stacks.data() + thread * stack_size;
      context.uc_stack.ss_size = stack_size;
      // All meet equally often, so that the last turns end in order.
      context.uc_link = &contexts_[thread + 1];
      makecontext(&context, reinterpret_cast<void (*)()>(&begin), 1, static_cast<int>(thread));
    }
    REQUIRE(swapcontext(&contexts_[threads], &contexts_[0]) == 0);
  }
  /// Returns once all other threads have called this as often.
  void meet(int thread) {
    const int next = (thread + 1) % threads;
    swapcontext(&contexts_[static_cast<std::size_t>(thread)], &contexts_[static_cast<std::size_t>(next)]);
  }

 private:
  static constexpr std::size_t stack_size = std::size_t{1} << 18;
  static void begin(int thread) { current_->work_(thread); }

  static inline Meeting* current_ = nullptr;
  std::function<void(int)> work_;
  std::array<ucontext_t, std::size_t{threads} + 1> contexts_;  // the last is of who calls run
};
template <int threads>
struct MeetingExchange {
  Meeting<threads>* meeting;
  int thread;
  std::uint32_t of(std::uint32_t word, int other) const {
    meeting->words[static_cast<std::size_t>(thread)] = word;
    meet();
    const std::uint32_t brought = meeting->words[static_cast<std::size_t>(other)];
    meet();
    return brought;
  }
  std::uint32_t down(std::uint32_t word, int distance) const {
    return of(word, thread + distance < threads ? thread + distance : thread);
  }
  std::uint32_t up(std::uint32_t word) const { return of(word, thread > 0 ? thread - 1 : thread); }
  std::uint32_t first(std::uint32_t word) const { return of(word, 0); }
  void meet() const { meeting->meet(thread); }
};

/// Calls f(lanes, thread) for each of the threads, side by side.
template <int threads, class F>
void for_each_thread(const F& f) {
  Meeting<threads> meeting;
  meeting.run([&](int thread) {
    f(bulk::ThreadLanes<MeetingExchange<threads>, threads>(thread, {&meeting, thread}),
      static_cast<std::size_t>(thread));
  });
}

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
  typename AnyLanes::template Kept<float, most == 0 ? AnyLanes::count : most> kept{};
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

template <int most, int threads, class OneThread>
void check(const std::vector<float>& x) {
  const Sum expected = sum_of<most>(OneThread(), x);
  std::vector<Sum> found(std::size_t{threads});
  std::vector<std::vector<std::int64_t>> rows(std::size_t{threads});
  for_each_thread<threads>([&](const auto& lanes, std::size_t thread) {
    found[thread] = sum_of<most>(lanes, x);
    lanes.template for_each_row<most>(static_cast<std::int64_t>(x.size()),
                                      [&](std::int64_t row, int) { rows[thread].push_back(row); });
  });
  std::size_t visited = 0;
  for (std::size_t thread = 0; thread < found.size(); ++thread) {
    CHECK(found[thread].sum == expected.sum);
    CHECK(found[thread].weighed == expected.weighed);
    visited += rows[thread].size();
  }
  CHECK(visited == x.size());
}

/// What a lane has of the words that came by.
struct Runner {
  int lane;
  std::int64_t last;
  std::uint32_t sum;
};
/// What the last of the lanes that are used passes on, where each of them changes a word by all it has seen. The words
/// that it passes on first are where the first lane reads in a second relay.
template <class AnyLanes>
void relay(const AnyLanes& lanes, int used, std::vector<std::uint32_t>& words) {
  for (int round = 0; round < 2; ++round) {
    const auto start = [&](int lane) { return Runner{lane, -1, static_cast<std::uint32_t>(5 * lane + round)}; };
    const auto pass = [&](Runner& runner, int lane, std::int64_t k, std::uint32_t word) {
      std::uint32_t& stored = words[static_cast<std::size_t>(k)];
      if (lane == 0) word = word + stored;
      // Lanes get all words, in order.
      runner.sum = 31 * runner.sum + (lane == runner.lane && k == runner.last + 1 ? word : 0);
      runner.last = k;
      if (lane + 1 == used) stored = runner.sum;
      return runner.sum;
    };
    lanes.relay(used, static_cast<std::int64_t>(words.size()), start, pass);
  }
}
template <int threads, class OneThread>
void check_relay(int used, std::size_t words) {
  std::vector<std::uint32_t> expected(words, 17), found(words, 17);
  relay(OneThread(), used, expected);
  for_each_thread<threads>([&](const auto& lanes, std::size_t) { relay(lanes, used, found); });
  CHECK(found == expected);
}

/// What a body writes for all columns of a sequence, by lanes of one thread and by threads; body(lanes, column, y).
template <class Body>
void check_body(std::size_t size, std::int64_t row_size, const Body& body) {
  std::vector<float> expected(size, -7), found(size, -7);
  for (std::int64_t column = 0; column < row_size; ++column) body(bulk::OneThread(), column, expected.data());
  for_each_thread<bulk::threads_of_column>([&](const auto& lanes, std::size_t) {
    for (std::int64_t column = 0; column < row_size; ++column) body(lanes, column, found.data());
  });
  bool same = true;
  for (std::size_t at = 0; at < size; ++at) {
    same = same && std::bit_cast<std::uint32_t>(expected[at]) == std::bit_cast<std::uint32_t>(found[at]);
  }
  CHECK(same);
}

}  // namespace

TEST_CASE("threads that share a column pool it, and make a softmax and its gradient of it, as one thread does") {
  Engine engine(72);
  constexpr float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  for (const std::int64_t rows : {0, 1, 3, 4, 5, 15, 16, 17, 20, 31, 32, 33, 48, 49, 63, 64, 65, 100, 512}) {
    for (const std::int64_t row_size : {1, 3}) {
      for (const float other : {0.0F, infinity, -infinity, nan}) {
        CAPTURE(rows);
        CAPTURE(row_size);
        CAPTURE(other);
        std::vector<float> x(static_cast<std::size_t>(rows * row_size)), dy(x.size());
        for (float& number : x) {
          number = random_number(engine, 0, 9) == 0 ? other : static_cast<float>(random_number(engine, -99, 99)) / 7;
        }
        for (float& number : dy) number = static_cast<float>(random_number(engine, -9, 9)) / 3;
        const std::vector<std::int64_t> offsets = {3, 3 + rows};
        const lod::kernel::Segments sequences(offsets.data(), 1, rows);
        for (const bool flag : {false, true}) {  // logarithm, minimum
          check_body(x.size(), row_size, [&](const auto& lanes, std::int64_t column, float* y) {
            bulk::SoftmaxOfShort<float, 1>{x.data(), sequences, row_size, flag, y}(0, column, lanes);
          });
          check_body(x.size(), row_size, [&](const auto& lanes, std::int64_t column, float* y) {
            bulk::SoftmaxGradOfShort<float, 1>{dy.data(), x.data(), sequences, row_size, flag, y}(0, column, lanes);
          });
          const bulk::NumbersOfRow<float, 1> numbers{x.data(), sequences, row_size};
          check_body(static_cast<std::size_t>(row_size), row_size,
                     [&](const auto& lanes, std::int64_t column, float* y) {
                       using Write = bulk::WriteWinners<float, 1>;
                       bulk::WinnersOfShort<float, 1, bulk::NumbersOfRow<float, 1>, Write>{
                           sequences, flag, numbers, Write{sequences, row_size, 5, y, nullptr}}(0, column, lanes);
                     });
          check_body(static_cast<std::size_t>(row_size), row_size,
                     [&](const auto& lanes, std::int64_t column, float* y) {
                       using Term = bulk::Terms<float, float, 1, bulk::NumbersOfRow<float, 1>>;
                       using Write = bulk::WritePooled<float, 1>;
                       bulk::SumShort<bulk::Few<float, 1>, Term, Write>{
                           sequences, Term{numbers}, Write{sequences, row_size, lod::PoolType::SUM, false, 5, y}}(
                           0, column, lanes);
                     });
        }
      }
    }
  }
}

TEST_CASE("threads that share a column have what one thread has for it") {
  Engine engine(71);
  for (const std::size_t rows : {0U, 1U, 3U, 4U, 15U, 16U, 17U, 31U, 32U, 33U, 47U, 63U, 64U, 65U, 200U, 512U}) {
    CAPTURE(rows);
    std::vector<float> x(rows);
    for (float& number : x) number = static_cast<float>(random_number(engine, -1000, 1000)) / 7;
    check<0, bulk::threads_of_column, bulk::OneThread>(x);
    check<0, 32, bulk::OneWarp>(x);
    if (rows <= 64) check<64, bulk::threads_of_column, bulk::OneThread>(x);
  }
}

TEST_CASE("threads pass on words as one thread does for all of them") {
  for (const std::size_t words : {0U, 1U, 2U, 3U, 5U, 40U}) {
    CAPTURE(words);
    for (const int used : {1, 2, 4}) check_relay<4, bulk::LanesInTurn<4>>(used, words);
    for (const int used : {1, 7, 32}) check_relay<32, bulk::OneWarp>(used, words);
  }
}

TEST_CASE("threads that share a pair of sequences find the edits that one thread finds") {
  Engine engine(72);
  for (const std::int64_t longest : {3, 33, 200, 1100}) {
    CAPTURE(longest);
    // The longer one is a's or b's; some begin and end alike.
    std::vector<std::int64_t> a_offsets{0}, b_offsets{0};
    std::vector<std::int16_t> a, b;
    for (const std::int64_t length : {longest, std::int64_t{0}, std::int64_t{20}, std::int64_t{1}, longest - 1}) {
      for (std::int64_t k = 0; k < length; ++k) a.push_back(static_cast<std::int16_t>(random_number(engine, 0, 3)));
      a_offsets.push_back(static_cast<std::int64_t>(a.size()));
      const std::int64_t other = length == 20 ? longest : random_number(engine, 0, 30);
      for (std::int64_t k = 0; k < other; ++k) {
        const bool alike = (k < 5 || k + 2 > other) && k < length;
        b.push_back(alike ? a[a.size() - static_cast<std::size_t>(length - k)]
                          : static_cast<std::int16_t>(random_number(engine, 0, 3)));
      }
      b_offsets.push_back(static_cast<std::int64_t>(b.size()));
    }
    const auto size = static_cast<std::int64_t>(a_offsets.size()) - 1;
    const lod::kernel::Segments a_sequences(a_offsets.data(), size, longest),
        b_sequences(b_offsets.data(), size, longest);
    std::vector<std::uint8_t> changes(b.size());
    const auto distances = [&](std::vector<std::int64_t>& found) {
      const auto finish = [&found](std::int64_t i, std::int64_t edits) { found[static_cast<std::size_t>(i)] = edits; };
      return bulk::DistanceOfPair<std::int16_t, decltype(finish)>{a.data(),    a_sequences,    b.data(),
                                                                  b_sequences, changes.data(), finish};
    };
    std::vector<std::int64_t> expected(static_cast<std::size_t>(size), -1), few = expected, many = expected;
    const auto by_one = distances(expected), by_few = distances(few), by_many = distances(many);
    for (std::int64_t i = 0; i < size; ++i) by_one(i, bulk::LaneAlone());
    for_each_thread<4>([&](const auto& lanes, std::size_t) {
      for (std::int64_t i = 0; i < size; ++i) by_few(i, lanes);
    });
    for_each_thread<32>([&](const auto& lanes, std::size_t) {
      for (std::int64_t i = 0; i < size; ++i) by_many(i, lanes);
    });
    CHECK(few == expected);
    CHECK(many == expected);
  }
}

TEST_CASE(
    "threads that share the tags of a sequence find the path, the likelihood and the shares that one thread finds") {
  Engine engine(73);
  const std::vector<std::int64_t> offsets{2, 7, 7, 8, 20};
  const lod::kernel::Segments sequences(offsets.data(), 4, 12);
  const auto rows = static_cast<std::size_t>(sequences.rows());
  for (const std::int64_t tags : {1, 5, 31, 32, 33, 70}) {
    CAPTURE(tags);
    const auto size = static_cast<std::size_t>(tags);
    const auto random = [&](std::size_t count) {
      std::vector<float> x(count);
      for (float& number : x) number = static_cast<float>(random_number(engine, -20, 20)) / 4;
      return x;
    };
    const std::vector<float> emission = random(rows * size), transition = random((size + 2) * size), dy = random(4);
    std::vector<std::int64_t> labels(rows);
    for (std::int64_t& label : labels) label = random_number(engine, 0, tags - 1);
    struct Found {
      std::vector<std::int64_t> path, of_row;
      std::vector<float> likelihood, scores, logarithms, shares, demission;
      Found(std::size_t of_rows, std::size_t of_tags)
          : path(of_rows),
            of_row(of_rows),
            likelihood(4),
            scores(of_rows * of_tags),
            logarithms(of_rows * of_tags),
            shares(of_rows * of_tags),
            demission(of_rows * of_tags) {}
    };
    const auto find = [&](const auto& lanes, Found& found) {
      const bulk::LinearChain<float> chain{emission.data(), sequences, tags, transition.data(), found.scores.data()};
      const bulk::PathSums<float> paths{chain, labels.data(), found.logarithms.data()};
      for (std::int64_t i = 0; i < sequences.size; ++i) {
        bulk::DecodeSequence<float>{chain, found.path.data()}(i, lanes);
        lanes.meet();
        bulk::LikelihoodOfSequence<float>{paths, found.likelihood.data()}(i, lanes);
        lanes.meet();
        bulk::SharesOfSequence<float>{paths, dy.data(), found.shares.data(), found.of_row.data(),
                                      found.demission.data()}(i, lanes);
        lanes.meet();
      }
    };
    Found expected(rows, size), found(rows, size);
    find(bulk::OneWarp(), expected);
    for_each_thread<32>([&](const auto& lanes, std::size_t) { find(lanes, found); });
    CHECK(found.path == expected.path);
    CHECK(found.of_row == expected.of_row);
    CHECK(found.likelihood == expected.likelihood);
    CHECK(found.scores == expected.scores);
    CHECK(found.logarithms == expected.logarithms);
    CHECK(found.shares == expected.shares);
    CHECK(found.demission == expected.demission);
  }
}

TEST_CASE("threads that share the states of a frame, or the classes of a row, find what one thread finds") {
  Engine engine(8);
  // Sequences of 1, 0, 9 and 40 frames, with fewer and with more states than a warp has threads; one that cannot be.
  const std::vector<std::int64_t> offsets = {0, 1, 1, 10, 50}, label_offsets = {0, 1, 1, 4, 25};
  const lod::kernel::Segments sequences(offsets.data(), 4, 40), label_sequences(label_offsets.data(), 4, 21);
  for (const std::int64_t classes : {3, 70}) {
    CAPTURE(classes);
    auto logits = real_numbers<float>(engine, {50, classes});
    const auto dy = real_numbers<float>(engine, {50});
    const auto labels = random_ids(engine, lod::LoD::from_lengths({{50}}), classes);
    // Numbers of usual size; in the last but one sequence others, near the greatest.
    for (std::int64_t row = 1; classes == 70 && row < 10; ++row) {
      for (float& number : logits.row(row)) number *= 1e38F;
    }
    struct Found {
      std::vector<float> loss, gradient, entropy, entropy_gradient, scores, ends;
      std::vector<bulk::CtcLink> links;
      explicit Found(std::size_t numbers)
          : loss(4), gradient(numbers), entropy(50), entropy_gradient(numbers), scores(50 * 43), ends(108), links(25) {}
    };
    const auto find = [&](const auto& lanes, Found& found) {
      const lod::kernel::CtcBatch<float> batch{logits.data(), sequences, classes, labels.data(), label_sequences, 1};
      for (std::int64_t i = 0; i < sequences.size; ++i) {
        bulk::CtcLossOfSequence<float>{batch, false, found.ends.data(), found.loss.data()}(i, lanes);
        lanes.meet();
        bulk::CtcGradientOfSequence<float>{
            batch, dy.data(), 43, found.scores.data(), found.ends.data(), found.links.data(), found.gradient.data()}(
            i, lanes);
        lanes.meet();
      }
      const lod::kernel::TargetLabels targets{labels.data(), 2, 0.25};
      for (std::int64_t row = 0; row < 50; ++row) {
        bulk::LossOfRow<float>{logits.data(), classes, targets, found.entropy.data()}(row, lanes);
        bulk::CrossEntropyGradOfRow<float>{
            dy.data(), 1, nullptr, logits.data(), classes, targets, found.entropy_gradient.data()}(row, lanes);
      }
    };
    Found expected(logits.values().size()), found(logits.values().size());
    find(bulk::OneWarp(), expected);
    for_each_thread<32>([&](const auto& lanes, std::size_t) { find(lanes, found); });
    CHECK(found.loss == expected.loss);
    CHECK(found.gradient == expected.gradient);
    CHECK(found.entropy == expected.entropy);
    CHECK(found.entropy_gradient == expected.entropy_gradient);
  }
}

TEST_CASE("ctc_loss_grad: a label that is no class, which is an error later, does not write beside the gradient") {
  const std::vector<std::int64_t> offsets = {0, 2}, label_offsets = {0, 1}, labels = {-1};
  const lod::kernel::Segments sequences(offsets.data(), 1, 2), label_sequences(label_offsets.data(), 1, 1);
  for (const float number : {1.F, 3e38F}) {
    CAPTURE(number);
    const std::vector<float> logits(6, number), dy = {1};
    std::vector<float> gradient(8, 7), scores(6), ends(6);
    std::vector<bulk::CtcLink> links(1);
    const lod::kernel::CtcBatch<float> batch{logits.data(), sequences, 3, labels.data(), label_sequences, 1};
    bulk::CtcGradientOfSequence<float>{batch,        dy.data(),          3, scores.data(), ends.data(),
                                       links.data(), gradient.data() + 1}(0, bulk::OneWarp());
    CHECK(gradient == std::vector<float>{7, 0, 0, 0, 0, 0, 0, 7});
  }
}
