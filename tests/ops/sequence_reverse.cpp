// SPDX-License-Identifier: Apache-2.0
#include "support/check_throws.hpp"
#include "support/element_types.hpp"
#include "support/executors.hpp"
#include "support/gradient.hpp"
#include "support/inferred.hpp"
#include "support/random_batch.hpp"
#include "support/random_lod.hpp"
#include "support/reference.hpp"
#include <lod/lod.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <type_traits>
#include <vector>

using lod::LoD;
using lod::LoDTensor;
using namespace lod_test;

TEST_CASE("sequence_reverse: the running example") {
  LoDTensor<int> x(LoD::from_lengths({{3, 1, 2}, {3, 2, 4, 1, 2, 3}}), {});
  for (int row = 0; row < 15; ++row) x.data()[row] = row;
  const auto words = lod::sequence_reverse(x);
  CHECK(words.lod() == x.lod());
  CHECK(std::vector<int>(words.values().begin(), words.values().end()) ==
        std::vector<int>{2, 1, 0, 4, 3, 8, 7, 6, 5, 9, 11, 10, 14, 13, 12});
  const auto sentences = lod::sequence_reverse(x, {.level = 0});
  CHECK(sentences.lod() == LoD::from_lengths({{3, 1, 2}, {4, 2, 3, 1, 3, 2}}));
  CHECK(std::vector<int>(sentences.values().begin(), sentences.values().end()) ==
        std::vector<int>{5, 6, 7, 8, 3, 4, 0, 1, 2, 9, 12, 13, 14, 10, 11});
}

TEST_CASE("sequence_reverse: agrees with nested loops for slices of every type, depth, level and row size") {
  for_each_type(AllTypes(), []<class T>(std::type_identity<T>) {
    for_each_random_lod(2, 1, 5, [](Engine& engine, const Lengths& lengths) {
      for (const std::int64_t row_size : {1, 3, 8, 17, 64}) {
        const auto x = small_integers<T>(engine, LoD::from_lengths(lengths), {row_size});
        const auto slice = x.between(random_number(engine, 0, x.size() > 0), x.size());
        for (int level = 0; level < x.levels(); ++level) {
          INFO("level ", level, ", row size ", row_size);
          check_tree(lod::sequence_reverse(lod::CpuExecutor(2), slice, {.level = level}), x.levels(),
                     reference_reverse(tree_of(slice), level));
        }
      }
    });
  });
}

TEST_CASE("sequence_reverse: the cases of PaddlePaddle's tests") {
  Engine engine(1);
  const auto check = [&](const Lengths& lengths, const lod::Shape& row_shape) {
    const auto x = small_integers<float>(engine, LoD::from_lengths(lengths), row_shape);
    for_each_executor([&](const auto& executor) {
      check_tree(lod::sequence_reverse(executor, x), 1, reference_reverse(tree_of(x), 0));
    });
  };
  check({{2, 3, 5}}, {3, 4});
  check({{4, 5, 3}}, {10});
  check({{12}}, {10});
  check({{3, 0, 6, 3}}, {10});
  check({{0, 2, 10, 0}}, {10});
}

TEST_CASE("sequence_reverse: batches without sequences, of empty ones only, and rows without elements") {
  for (const auto& lengths : std::vector<Lengths>{{{}}, {{0}}, {{0, 0}}, {{}, {}}, {{0, 0}, {}}, {{2, 0}, {0, 0}}}) {
    const LoDTensor<float> x(LoD::from_lengths(lengths), {3});
    for (int level = 0; level < x.levels(); ++level) CHECK(same_bits(lod::sequence_reverse(x, {.level = level}), x));
  }
  const LoDTensor<float> x(LoD::from_lengths({{2, 1}}), {0});
  CHECK(same_bits(lod::sequence_reverse(x), x));
}

TEST_CASE("sequence_reverse: long sequences are shared by threads, twice reversed is as before") {
  Engine engine(4);
  for (const std::int64_t row_size : {1, 3, 17}) {
    const LoD words = giant_among_short(engine, 3000, 17 * grain / 16);
    const auto x = real_numbers<float>(engine, LoD::from_lengths({{1000, 0, 2000}, words.lengths(0)}), {row_size});
    for (const int level : {0, 1}) {
      const auto expected = lod::sequence_reverse(lod::CpuExecutor(1), x, {.level = level});
      CHECK_FALSE(same_bits(expected, x));
      for_each_executor([&](const auto& executor) {
        CHECK(same_bits(lod::sequence_reverse(executor, x, {.level = level}), expected));
        CHECK(same_bits(lod::sequence_reverse(executor, expected, {.level = level}), x));
      });
    }
  }
}

TEST_CASE("sequence_reverse_grad: agrees with differences") {
  Engine engine(12);
  auto x = real_numbers<double>(engine, LoD::from_lengths({{2, 0, 1}, {2, 0, 3}, {1, 3, 0, 4, 2}}), {2});
  for (int level = 0; level < 3; ++level) {
    INFO("level ", level);
    check_gradient(
        engine, x, [&](const auto& at) { return lod::sequence_reverse(at, {.level = level}); },
        [&](const auto& dy) { return lod::sequence_reverse_grad(dy, {.level = level}); });
  }
  LoDTensor<double> dx;
  lod::sequence_reverse_grad_into(lod::CpuExecutor(1), lod::sequence_reverse(x), dx);
  CHECK(same_bits(dx, x));
  CHECK(same_bits(lod::sequence_reverse_grad(lod::CpuExecutor(1), dx), lod::sequence_reverse(x)));
}

TEST_CASE("sequence_reverse: bad arguments throw and change nothing") {
  const LoDTensor<float> x(LoD::from_lengths({{2, 1}}), {2}), plain({3, 2});
  LoDTensor<float> y({1, 2});
  const lod::CpuExecutor executor(1);
  check_throws<lod::InvalidLoD>([&] { lod::sequence_reverse_into(executor, plain, y); },
                                "sequence_reverse: the tensor has no level, expected at least one", y);
  check_throws<lod::OutOfRange>([&] { lod::sequence_reverse_into(executor, x, {.level = 1}, y); },
                                "level 1 of a LoD with 1 levels", y);
}

TEST_CASE("sequence_reverse: a view as the output must have the shape and the levels of the result") {
  Engine engine(2);
  const auto x = small_integers<float>(engine, LoD::from_lengths({{2, 1}, {2, 0, 3}}), {2});
  const lod::CpuExecutor executor(1);
  LoDTensor<float> permuted(LoD::from_lengths({{2, 1}, {0, 2, 3}}), {2}), same(x.lod(), {2});
  lod::sequence_reverse_into(executor, x, {.level = 0}, permuted.view());
  CHECK(same_bits(permuted, lod::sequence_reverse(x, {.level = 0})));
  check_throws<lod::ShapeMismatch>([&] { lod::sequence_reverse_into(executor, x, {.level = 0}, same.view()); },
                                   ": a view of shape {5, 2} with 2 levels", same);
  check_throws<lod::ShapeMismatch>([&] { lod::sequence_reverse_into(executor, x, permuted.view()); },
                                   ": a view of shape {5, 2} with 2 levels", permuted);
}

TEST_CASE("infer_sequence_reverse: allows what the operation gives, and refuses what it does") {
  for_each_random_batch<float>(1, {2}, [](Engine&, const lod::LoDTensor<float>& x) {
    for (int level = 0; level < x.levels(); ++level) {
      const lod::ReverseOptions options{.level = level};
      const auto y = lod::sequence_reverse(x, options);
      check_inference(
          y, [&](const auto& desc) { return lod::infer_sequence_reverse(desc, options); }, describe(x));
      check_inferred(lod::sequence_reverse_grad(y, options), describe(x));
    }
  });
  const auto x = described(lod::DataType::COMPLEX64, {15, -1}, 2);
  CHECK(lod::infer_sequence_reverse(x) == x);
  CHECK_THROWS_AS(lod::infer_sequence_reverse(described(lod::DataType::FP32, {15}, 0)), lod::InvalidLoD);
  CHECK_THROWS_AS(lod::infer_sequence_reverse(x, {.level = 2}), lod::OutOfRange);
}
