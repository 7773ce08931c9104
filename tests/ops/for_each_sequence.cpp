// SPDX-License-Identifier: Apache-2.0
#include "support/check_throws.hpp"
#include "support/element_types.hpp"
#include "support/executors.hpp"
#include "support/inferred.hpp"
#include "support/random_batch.hpp"
#include "support/random_lod.hpp"
#include "support/reference.hpp"
#include "support/repeatable.hpp"
#include <lod/lod.hpp>

#include <doctest/doctest.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

using lod::LoD;
using lod::LoDTensor;
using lod::LoDTensorView;
using namespace lod_test;

TEST_CASE("for_each_sequence: every sequence of every level once, as a view that may write") {
  for_each_random_lod(4, 1, 5, [](Engine& engine, const Lengths& lengths) {
    auto x = real_numbers<double>(engine, LoD::from_lengths(lengths), {3});
    const auto slice = x.between(random_number(engine, 0, x.size() > 0), x.size());
    for_each_executor([&](const auto& executor) {
      for (int level = 0; level < x.levels(); ++level) {
        // A number for each sequence, written to all its rows.
        std::vector<int> calls(static_cast<std::size_t>(slice.lod_view().size(level)));
        lod::for_each_sequence(executor, slice, level, [&](const LoDTensorView<double>& sequence, std::int64_t i) {
          ++calls[static_cast<std::size_t>(i)];
          for (double& value : sequence.values()) value = static_cast<double>(i);
        });
        CHECK(std::ranges::all_of(calls, [](int count) { return count == 1; }));
        const auto expected = slice.lod().row_ids(level);
        bool same = true;
        for (std::int64_t row = 0; row < slice.rows(); ++row) {
          for (const double value : slice.row(row)) {
            same = same && value == static_cast<double>(expected[static_cast<std::size_t>(row)]);
          }
        }
        CHECK(same);
      }
    });
  });
}

TEST_CASE("for_each_sequence: tensors, const tensors, views and plain rows") {
  LoDTensor<int> x(LoD::from_lengths({{2, 0, 1}, {1, 1, 2}}), {});
  lod::for_each_sequence(x, 0, [](auto&& article) {
    CHECK(article.levels() == 1);
    static_assert(!std::is_const_v<typename std::remove_cvref_t<decltype(article)>::element_type>);
  });
  const auto& fixed = x;
  std::atomic<std::int64_t> rows = 0;
  lod::for_each_sequence(fixed, -1, [&](auto&& sentence) {
    static_assert(std::is_const_v<typename std::remove_cvref_t<decltype(sentence)>::element_type>);
    rows += sentence.rows();
  });
  CHECK(rows == 4);
  LoDTensor<int> plain({5, 2});
  lod::for_each_sequence(plain.view(), 0, [](const LoDTensorView<int>& row, std::int64_t i) {
    CHECK(row.rows() == 1);
    row.values()[1] = static_cast<int>(i);
  });
  for (std::int64_t i = 0; i < 5; ++i) CHECK(plain.row(i)[1] == i);
  CHECK_THROWS_AS(lod::for_each_sequence(x, 2, [](auto&&) {}), lod::OutOfRange);
  CHECK_THROWS_AS(lod::for_each_sequence(plain, 1, [](auto&&) {}), lod::OutOfRange);
  lod::for_each_sequence(LoDTensor<int>(LoD::from_lengths({{}}), {}), 0, [](auto&&) { CHECK(false); });
}

TEST_CASE("for_each_sequence: what the first sequence threw passes through, whatever the others did") {
  Engine engine(3);
  const auto x = real_numbers<float>(engine, giant_among_short(engine, 1000, 300), {3});
  for_each_executor([&](const auto& executor) {
    for (int repeat = 0; repeat < 5; ++repeat) {
      std::vector<std::atomic<int>> calls(1000);
      const auto run = [&] {
        lod::for_each_sequence(executor, x, 0, [&](auto&&, std::int64_t i) {
          ++calls[static_cast<std::size_t>(i)];
          if (i >= 300) throw std::runtime_error("sequence " + std::to_string(i));
        });
      };
      CHECK_THROWS_WITH_AS(run(), "sequence 300", std::runtime_error);
      CHECK(std::all_of(calls.begin(), calls.begin() + 300, [](const auto& count) { return count == 1; }));
    }
  });
}

TEST_CASE("for_each_sequence, map_rows: a thread that is cancelled meanwhile ends after the operation") {
  struct Run {
    std::function<void(Run&)> call;
    std::atomic<std::int64_t> calls = 0;
    bool has_ended = false;
    pthread_t caller{};
    /// What the user's function does.
    void step() {
      if (calls++ == 0) pthread_cancel(caller);
      if (pthread_equal(pthread_self(), caller) != 0) pthread_testcancel();
    }
  };
  const auto check = [](std::int64_t calls, const std::function<void(Run&)>& call) {
    Run run{call};
    pthread_t thread;
    const auto begin = [](void* given) -> void* {
      Run& its = *static_cast<Run*>(given);
      its.caller = pthread_self();
      its.call(its);
      its.has_ended = true;
      pthread_testcancel();
      return nullptr;
    };
    void* result = nullptr;
    REQUIRE(pthread_create(&thread, nullptr, begin, &run) == 0);
    REQUIRE(pthread_join(thread, &result) == 0);
    CHECK(result == PTHREAD_CANCELED);
    CHECK(run.has_ended);
    CHECK(run.calls == calls);
    run.calls = 1;
    run.caller = pthread_self();
    call(run);  // by another thread, which is not cancelled
    CHECK(run.calls == calls + 1);
  };
  const LoDTensor<float> x(LoD::from_lengths({std::vector<std::int64_t>(2000, 40)}), {8});
  for_each_executor([&](const auto& executor) {
    check(x.size(), [&](Run& run) { lod::for_each_sequence(executor, x, 0, [&](const auto&) { run.step(); }); });
  });
  for (const int threads : thread_counts) {
    const lod::CpuExecutor executor(threads);
    check(x.rows(), [&](Run& run) {
      const auto y = lod::map_rows<float>(executor, x, {}, [&](const float* from, float* to) {
        run.step();
        *to = *from;
      });
      CHECK(y.rows() == x.rows());
    });
  }
}

TEST_CASE("map_sequences: agrees with one call after the other, for slices of every type and depth") {
  for_each_type(AllTypes(), []<class T>(std::type_identity<T>) {
    for_each_random_lod(2, 1, 5, [](Engine& engine, const Lengths& lengths) {
      for (const std::int64_t row_size : {1, 3, 8, 17}) {
        const auto x = small_integers<T>(engine, LoD::from_lengths(lengths), {row_size});
        const auto slice = x.between(random_number(engine, 0, x.size() > 0), x.size());
        for_each_executor([&](const auto& executor) {
          CHECK(same_bits(lod::map_sequences(executor, slice, [](const auto& sequence) { return sequence; }), slice));
          // The second half of each, as a tensor of another type.
          const auto second_half = [](const LoDTensorView<const T>& sequence) {
            const auto part = sequence.between(sequence.size() / 2, sequence.size());
            LoDTensor<double> y(part.lod(), part.row_shape());
            if (part.levels() == 0) y = LoDTensor<double>(part.shape());
            for (std::size_t i = 0; i < part.values().size(); ++i) {
              y.values()[i] = static_cast<double>(part.values()[i]);
            }
            return y;
          };
          const auto y = lod::map_sequences(executor, slice, second_half);
          Tree<double> expected;
          for (const auto sequence : slice) expected.parts.push_back(tree_of(second_half(sequence)));
          check_tree(y, x.levels(), expected);
          CHECK(y.row_shape() == x.row_shape());
        });
      }
    });
  });
}

TEST_CASE("map_sequences: results may have other levels than x, rows become sequences") {
  Engine engine(5);
  const auto x = real_numbers<float>(engine, LoD::from_lengths({{2, 0, 1}, {2, 0, 3}}), {2});
  // One row for each sentence of each article: pooling as it is.
  const auto sums =
      lod::map_sequences(x, [](const auto& article) { return lod::sequence_pool(article, lod::PoolType::SUM); });
  CHECK(same_bits(sums, lod::sequence_pool(x, lod::PoolType::SUM)));
  const auto rows = real_numbers<float>(engine, {3, 2});
  const auto twice = lod::map_sequences(rows, [](const auto& row) { return lod::concat(row, row); });
  CHECK(twice.lod() == LoD::from_lengths({{2, 2, 2}}));
  CHECK(same_bits(twice[1].between(1, 2), rows.between(1, 2)));
}

TEST_CASE("map_sequences: the function may take the number of the sequence, too") {
  const auto check_numbers = [](const auto& x) {
    for_each_executor([&](const auto& executor) {
      // As many rows of i as the sequence has, and one more.
      const auto y = lod::map_sequences(executor, x, [](const auto& sequence, std::int64_t i) {
        LoDTensor<std::int64_t> rows({sequence.rows() + 1});
        for (std::int64_t& value : rows.values()) value = i;
        return rows;
      });
      std::vector<std::int64_t> expected;
      for (std::int64_t i = 0; i < x.size(); ++i) {
        expected.insert(expected.end(), static_cast<std::size_t>(x[i].rows()) + 1, i);
      }
      CHECK(std::equal(expected.begin(), expected.end(), y.values().begin(), y.values().end()));
      CHECK(y.size() == x.size());
    });
  };
  check_numbers(LoDTensor<float>(LoD::from_lengths({{2, 0, 3}}), {2}));
  check_numbers(LoDTensor<float>(LoD::from_lengths({{2, 0, 1}, {1, 1, 2}}), {}));
  check_numbers(LoDTensor<float>({4, 2}));
  const LoDTensor<float> none(LoD::from_lengths({{}}), {2});
  const auto first = [](const LoDTensorView<const float>& sequence, std::int64_t i) {
    CHECK(i == 0);
    return sequence;
  };
  CHECK(same_bits(lod::map_sequences(none, first), none));
}

TEST_CASE("map_sequences: without sequences, the function is asked once what its results are like") {
  for (const auto& lengths : std::vector<Lengths>{{{}}, {{}, {}}, {{}, {}, {}}}) {
    const LoDTensor<float> x(LoD::from_lengths(lengths), {2});
    int calls = 0;
    const auto y = lod::map_sequences(x, [&](const auto& sequence) {
      ++calls;
      CHECK(sequence.levels() == x.levels() - 1);
      CHECK(sequence.size() == 0);
      return LoDTensor<int>(LoD::from_lengths({{0}, {}}), {5});
    });
    CHECK(calls == 1);
    CHECK(y.lod() == LoD::from_lengths({{}, {}, {}}));
    CHECK(y.row_shape() == lod::Shape{5});
  }
  CHECK(lod::map_sequences(LoDTensor<float>({0, 2}), [](const auto& row) { return row; }).shape() == lod::Shape{0, 2});
}

TEST_CASE("map_sequences: a second call allocates nothing but what the function does") {
  on_counting_executors([](const auto& check, const auto& executor, CountingResource& resource) {
    Engine engine(2);
    const auto x = real_numbers<float>(engine, giant_among_short(engine, 300, 20000), {3});
    LoDTensor<float> y(&resource);
    check("map_sequences", [&] {
      lod::map_sequences_into(
          executor, x, [](const auto& sequence) { return sequence.between(0, sequence.rows() / 2); }, y);
    });
    CHECK(y.rows() < x.rows());
  });
}

TEST_CASE("map_sequences: bad results throw and change nothing") {
  const LoDTensor<float> x(LoD::from_lengths({{2, 1}}), {2});
  LoDTensor<float> y({1, 2});
  const lod::CpuExecutor executor(1);
  check_throws<lod::InvalidLoD>(
      [&] {
        lod::map_sequences_into(
            executor, x,
            [](const auto& sequence) {
              return LoDTensor<float>(sequence.rows() == 2 ? LoD() : LoD::from_lengths({{1}}), {2});
            },
            y);
      },
      "map_sequences: the result for sequence 1 has 1 levels, expected 0 as the first has", y);
  check_throws<lod::ShapeMismatch>(
      [&] {
        lod::map_sequences_into(
            executor, x,
            [](const auto& sequence) {
              return LoDTensor<float>({1, sequence.rows()});
            },
            y);
      },
      "map_sequences: the result for sequence 1 has rows of shape {1}, expected {2} as the first has", y);
  check_throws<std::runtime_error>(
      [&] {
        lod::map_sequences_into(
            executor, x,
            [](const auto& sequence) -> LoDTensor<float> {
              throw std::runtime_error("of " + std::to_string(sequence.rows()));
            },
            y);
      },
      "of 2", y);
  LoDTensor<float> wrong(LoD::from_lengths({{1, 2}}), {2}), fits(x.lod(), {2});
  const auto same = [](const auto& sequence) { return sequence; };
  check_throws<lod::ShapeMismatch>([&] { lod::map_sequences_into(executor, x, same, wrong.view()); },
                                   "and the levels of the result", wrong);
  lod::map_sequences_into(executor, x, same, fits.view());
  CHECK(same_bits(fits, x));
}

TEST_CASE("infer_map_sequences: allows what the operation gives") {
  for_each_random_batch<float>(0, {2}, [](Engine&, const lod::LoDTensor<float>& x) {
    const auto f = [](const auto&) { return lod::LoDTensor<std::int16_t>(lod::LoD::from_lengths({{2, 1}}), {4}); };
    check_inference(
        lod::map_sequences(x, f), [](const auto& a, const auto& b) { return lod::infer_map_sequences(a, b); },
        describe(x), describe(f(x)));
  });
  CHECK(lod::infer_map_sequences(described(lod::DataType::FP32, {15}, 2), described(lod::DataType::INT8, {3, 5}, 1)) ==
        described(lod::DataType::INT8, {-1, 5}, 2));
  CHECK_THROWS_AS(lod::infer_map_sequences({}, described_list(4)), lod::ShapeMismatch);
}
