// SPDX-License-Identifier: Apache-2.0
#include "support/check_throws.hpp"
#include "support/element_types.hpp"
#include "support/executors.hpp"
#include "support/gradient.hpp"
#include "support/inferred.hpp"
#include "support/random_batch.hpp"
#include "support/random_lod.hpp"
#include "support/reference.hpp"
#include "support/same_bits.hpp"
#include <lod/lod.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <type_traits>
#include <vector>

using lod::LoD;
using lod::LoDTensor;
using namespace lod_test;

namespace {

/// A LoD whose one level has these lengths.
LoD repeats_of(const std::vector<std::int64_t>& lengths) { return LoD::from_lengths({lengths}); }

std::vector<std::int64_t> random_repeats(Engine& engine, std::int64_t count) {
  std::vector<std::int64_t> repeats;
  for (std::int64_t i = 0; i < count; ++i) repeats.push_back(random_number(engine, 0, 3));
  return repeats;
}

}  // namespace

TEST_CASE("sequence_expand: sequences as blocks, rows where there is no level") {
  const auto x = LoDTensor<int>::from_nested(std::vector<std::vector<int>>{{1, 2}, {3}, {}, {4}});
  const auto y = lod::sequence_expand(x, repeats_of({2, 0, 3, 1}));
  CHECK(y.lod() == LoD::from_lengths({{2, 2, 0, 0, 0, 1}}));
  CHECK(values_of(y) == std::vector<int>{1, 2, 1, 2, 4});
  const auto rows = LoDTensor<int>::from_nested(std::vector<int>{1, 2, 3});
  const auto repeated = lod::sequence_expand(rows, repeats_of({1, 3, 0}));
  CHECK(repeated.levels() == 0);
  CHECK(values_of(repeated) == std::vector<int>{1, 2, 2, 2});
}

TEST_CASE("sequence_expand: agrees with nested loops for slices of every type, depth and row size") {
  for_each_type(AllTypes(), []<class T>(std::type_identity<T>) {
    for_each_random_lod(2, 0, 5, [](Engine& engine, const Lengths& lengths) {
      for (const std::int64_t row_size : {1, 3, 8, 17, 64}) {
        const auto x = lengths.empty() ? small_integers<T>(engine, {random_number(engine, 1, 6), row_size})
                                       : small_integers<T>(engine, LoD::from_lengths(lengths), {row_size});
        const auto slice = x.between(random_number(engine, 0, x.size() > 0), x.size());
        const auto repeats = random_repeats(engine, slice.size());
        check_tree(lod::sequence_expand(lod::CpuExecutor(2), slice, repeats_of(repeats)), x.levels(),
                   reference_expand(tree_of(slice), repeats));
      }
    });
  });
}

TEST_CASE("sequence_expand: the cases of PaddlePaddle's tests") {
  struct Case {
    Lengths x;  ///< none: so many plain rows as ref_level has sequences
    lod::Shape row_shape;
    Lengths y;
    int ref_level;
  };
  const std::vector<Case> cases = {{{}, {40}, {{1, 3, 4}}, -1},
                                   {{}, {20}, {{2, 3}, {2, 2, 3, 3, 3}}, 1},
                                   {{{1}}, {2, 50}, {{2}, {1, 1}}, 0},
                                   {{{1, 1, 1, 1}}, {25}, {{2, 2, 2, 2}}, -1},
                                   {{{2, 3}}, {20}, {{2}, {2, 3}}, -1},
                                   {{}, {20}, {{2, 4}, {2, 2, 3, 0, 3, 3}}, 1},
                                   {{{1, 1, 0, 1, 1}}, {25}, {{0, 2, 4, 2, 0}}, -1}};
  Engine engine(5);
  for (const Case& one : cases) {
    const LoD y_lod = LoD::from_lengths(one.y);
    const std::vector<std::int64_t> repeats = y_lod.lengths(one.ref_level);
    const auto x = one.x.empty() ? small_integers<float>(
                                       engine, lod::Shape(static_cast<std::int64_t>(repeats.size()), one.row_shape))
                                 : small_integers<float>(engine, LoD::from_lengths(one.x), one.row_shape);
    for_each_executor([&](const auto& executor) {
      check_tree(lod::sequence_expand(executor, x, y_lod, {.ref_level = one.ref_level}), x.levels(),
                 reference_expand(tree_of(x), repeats));
    });
  }
}

TEST_CASE("sequence_expand: batches without sequences, and of empty or dropped ones only") {
  for (const auto& lengths : std::vector<Lengths>{{{}}, {{0}}, {{0, 0}}, {{}, {}}, {{0, 0}, {}}, {{2, 0}, {0, 0}}}) {
    const LoDTensor<float> x(LoD::from_lengths(lengths), {3});
    for (const std::int64_t count : {0, 2}) {
      const std::vector<std::int64_t> repeats(static_cast<std::size_t>(x.size()), count);
      const auto y = lod::sequence_expand(x, repeats_of(repeats));
      check_tree(y, x.levels(), reference_expand(tree_of(x), repeats));
      CHECK(same_bits(lod::sequence_expand_grad(y, x.lod(), repeats_of(repeats)), x));
    }
  }
  const LoDTensor<float> none({0, 3});
  CHECK(lod::sequence_expand(none, repeats_of({})).shape() == none.shape());
  CHECK(lod::sequence_expand_as(none, LoD::from_lengths({{}})).lod() == LoD::from_lengths({{}}));
  const LoDTensor<float> narrow({2, 0});
  CHECK(lod::sequence_expand_as(narrow, repeats_of({1, 3})).shape() == lod::Shape{4, 0});
}

TEST_CASE("sequence_expand: blocks of any size are shared by threads") {
  Engine engine(8);
  for (const std::int64_t row_size : {1, 3, 8, 17}) {
    const LoD index = giant_among_short(engine, 1001, 5 * grain / 8);
    const auto x = real_numbers<float>(engine, index, {row_size});
    std::vector<std::int64_t> repeats = random_repeats(engine, 1001);
    repeats[500] = 3;
    repeats[20] = grain / 2;
    const auto expected = reference_expand(tree_of(x), repeats);
    for_each_executor([&](const auto& executor) {
      const auto y = lod::sequence_expand(executor, x, repeats_of(repeats));
      check_tree(y, 1, expected);
    });
  }
}

TEST_CASE("sequence_expand_grad: agrees with differences") {
  Engine engine(12);
  const LoD y_lod = LoD::from_lengths({{2, 1}, {2, 0, 3}});
  for (const std::int64_t row_size : {1, 3, 8, 17}) {
    auto nested = real_numbers<double>(engine, LoD::from_lengths({{2, 1, 2}, {2, 0, 3, 1, 2}}), {row_size});
    check_gradient(
        engine, nested, [&](const auto& at) { return lod::sequence_expand(at, y_lod); },
        [&](const auto& dy) { return lod::sequence_expand_grad(dy, nested.lod(), y_lod); });
    auto flat = real_numbers<double>(engine, LoD::from_lengths({{2, 3}}), {row_size});
    check_gradient(
        engine, flat, [&](const auto& at) { return lod::sequence_expand(at, y_lod, {.ref_level = 0}); },
        [&](const auto& dy) { return lod::sequence_expand_grad(dy, flat.lod(), y_lod, {.ref_level = 0}); });
    auto rows = real_numbers<double>(engine, {3, row_size});
    check_gradient(
        engine, rows, [&](const auto& at) { return lod::sequence_expand(at, y_lod); },
        [&](const auto& dy) { return lod::sequence_expand_grad(dy, LoD(), y_lod); });
    check_gradient(
        engine, rows,
        [&](const auto& at) {
          return lod::sequence_expand_as(at, repeats_of({2, 0, 4}));
        },
        [&](const auto& dy) {
          return lod::sequence_expand_as_grad(dy, repeats_of({2, 0, 4}));
        });
  }
}

TEST_CASE("sequence_expand_grad: sums the copies, the same bits for any number of threads") {
  for_each_type(Types<std::int32_t, float, lod::bfloat16>(), []<class T>(std::type_identity<T>) {
    for (const std::int64_t row_size : {1, 3, 8, 17}) {
      INFO("row size ", row_size);
      Engine engine(3);
      // Every way that the kernel has: few and many copies of short sequences, of long ones, none.
      std::vector<std::int64_t> lengths = {1, 3, 0, 5, 2, 4000, 1, 7},
                                repeats = {2, 0, 4, 1, 300, 5, 17 * grain / 16, 3};
      lengths.push_back(900);  // several tiles, each of many copies
      repeats.push_back(70);
      for (const std::int64_t copies : {512, 513, 767, 769, 1024, 1025}) {  // about so many as are added up at a time
        lengths.push_back(copies % 3 + 1);
        repeats.push_back(copies);
      }
      const LoD x_lod = LoD::from_lengths({lengths}), y_lod = repeats_of(repeats);
      const auto x = small_integers<T>(engine, x_lod, {row_size});
      const auto dy = lod::sequence_expand(x, y_lod);
      const auto expected = lod::sequence_expand_grad(lod::CpuExecutor(1), dy, x_lod, y_lod);
      bool as_expected = true;
      for (std::size_t i = 0; i < lengths.size(); ++i) {
        const auto first = static_cast<std::size_t>(x_lod.offsets(0)[i] * row_size);
        const auto end = static_cast<std::size_t>(x_lod.offsets(0)[i + 1] * row_size);
        for (std::size_t n = first; n < end; ++n) {
          const auto sum = static_cast<T>(static_cast<Wide<T>>(x.values()[n]) * static_cast<Wide<T>>(repeats[i]));
          as_expected = as_expected && expected.values()[n] == sum;
        }
      }
      CHECK(as_expected);
      for_each_executor([&](const auto& executor) {
        CHECK(same_bits(lod::sequence_expand_grad(executor, dy, x_lod, y_lod), expected));
      });
    }
  });
}

TEST_CASE("sequence_expand_as: agrees with nested loops for slices of every type, and any number of levels") {
  for_each_type(AllTypes(), []<class T>(std::type_identity<T>) {
    for_each_random_lod(2, 1, 5, [](Engine& engine, const Lengths& lengths) {
      const LoD y_lod = LoD::from_lengths(lengths);
      for (const std::int64_t row_size : {1, 3, 8, 17}) {
        const auto x = small_integers<T>(engine, {y_lod.size(-1) + 2, row_size});
        const auto y = lod::sequence_expand_as(lod::CpuExecutor(2), x.between(1, x.size() - 1), y_lod);
        CHECK(y.lod() == y_lod);
        CHECK(tree_of(y.view().with_lod(LoD())) ==
              reference_expand(tree_of(x.between(1, x.size() - 1)), y_lod.lengths(-1)));
      }
    });
  });
}

TEST_CASE("sequence_expand_as_grad: the sums of sequence_pool, with the levels above the last") {
  for_each_random_lod(4, 1, 5, [](Engine& engine, const Lengths& lengths) {
    const auto dy = real_numbers<float>(engine, LoD::from_lengths(lengths), {3});
    for_each_executor([&](const auto& executor) {
      CHECK(
          same_bits(lod::sequence_expand_as_grad(executor, dy, dy.lod()), lod::sequence_pool(dy, lod::PoolType::SUM)));
    });
  });
}

TEST_CASE("sequence_expand_as: the cases of PaddlePaddle's tests") {
  const auto two = LoDTensor<int>::from_nested(std::vector<int>{7, 8});
  CHECK(values_of(lod::sequence_expand_as(two, LoD::from_offsets({{0, 3, 5}}))) == std::vector<int>{7, 7, 7, 8, 8});
  Engine engine(6);
  const auto check = [&](const lod::Shape& shape, const std::vector<std::int64_t>& repeats) {
    const auto x = small_integers<float>(engine, shape);
    for_each_executor([&](const auto& executor) {
      const auto y = lod::sequence_expand_as(executor, x, repeats_of(repeats));
      CHECK(y.lod() == repeats_of(repeats));
      CHECK(tree_of(y.view().with_lod(LoD())) == reference_expand(tree_of(x), repeats));
    });
  };
  check({3, 40}, {1, 3, 4});
  check({5, 20}, {2, 2, 0, 3, 3});
  check({5, 20}, {0, 4, 0, 6, 0});
  check({1, 2, 50}, {2});
}

TEST_CASE("sequence_expand: bad arguments throw and change nothing") {
  const LoD two = repeats_of({2, 1});
  const LoDTensor<float> x(two, {2}), rows({3, 2});
  LoDTensor<float> y({1, 2});
  const lod::CpuExecutor executor(1);
  check_throws<lod::ShapeMismatch>(
      [&] {
        lod::sequence_expand_into(executor, x, repeats_of({1, 1, 1}), y);
      },
      "sequence_expand: x has 2 sequences (rows, where it has no level), expected 3", y);
  check_throws<lod::ShapeMismatch>([&] { lod::sequence_expand_into(executor, rows, two, y); },
                                   "x has 3 sequences (rows, where it has no level), expected 2", y);
  check_throws<lod::OutOfRange>([&] { lod::sequence_expand_into(executor, x, two, {.ref_level = 1}, y); },
                                "level 1 of a LoD with 1 levels", y);
  check_throws<lod::OutOfRange>([&] { lod::sequence_expand_into(executor, rows, LoD(), y); },
                                "level -1 of a LoD with 0 levels", y);
  check_throws<lod::ShapeMismatch>([&] { lod::sequence_expand_grad_into(executor, rows, two, two, y); },
                                   "sequence_expand_grad: dy: 3 rows, expected 5", y);
  check_throws<lod::ShapeMismatch>([&] { lod::sequence_expand_grad_into(executor, x.between(0, 1), LoD(), two, y); },
                                   "sequence_expand_grad: dy: 2 rows, expected 3", y);
  check_throws<lod::ShapeMismatch>([&] { lod::sequence_expand_grad_into(executor, x, repeats_of({3}), two, y); },
                                   "sequence_expand_grad: x has 1 sequences", y);
  check_throws<lod::ShapeMismatch>([&] { lod::sequence_expand_as_into(executor, rows, two, y); },
                                   "sequence_expand_as: x: 3 rows, expected 2", y);
  check_throws<lod::InvalidLoD>([&] { lod::sequence_expand_as_into(executor, rows, LoD(), y); },
                                "sequence_expand_as: y_lod: the tensor has no level", y);
  check_throws<lod::ShapeMismatch>([&] { lod::sequence_expand_as_grad_into(executor, rows, repeats_of({1}), y); },
                                   "sequence_expand_as_grad: dy: 3 rows, expected 1", y);
}

TEST_CASE("sequence_expand: results beyond 64 bits throw instead of filling memory") {
  const std::int64_t many = std::int64_t{1} << 62;
  const LoDTensor<float> x(LoD::from_lengths({{many, 0}}), {0});
  LoDTensor<float> y({1});
  const lod::CpuExecutor executor(1);
  check_throws<lod::ShapeMismatch>(
      [&] {
        lod::sequence_expand_into(executor, x, repeats_of({2, 0}), y);
      },
      "more sequences or rows than 64 bits count", y);
  check_throws<lod::ShapeMismatch>(
      [&] {
        lod::sequence_expand_grad_into(executor, x, x.lod(), repeats_of({2, 0}), y);
      },
      "more rows than 64 bits count", y);
}

TEST_CASE("sequence_expand: a view as the output must have the shape and the levels of the result") {
  Engine engine(2);
  const auto x = small_integers<float>(engine, repeats_of({2, 1}), {2});
  const lod::CpuExecutor executor(1);
  LoDTensor<float> y(repeats_of({2, 2, 1}), {2}), wrong(repeats_of({2, 3}), {2});
  lod::sequence_expand_into(executor, x, repeats_of({2, 1}), y.view());
  CHECK(same_bits(y, lod::sequence_expand(x, repeats_of({2, 1}))));
  check_throws<lod::ShapeMismatch>(
      [&] {
        lod::sequence_expand_into(executor, x, repeats_of({2, 1}), wrong.view());
      },
      "and the levels of the result", wrong);
}

TEST_CASE("infer_sequence_expand: allows what the operations give, and knows the rows where they follow") {
  for_each_random_batch<float>(1, {2}, [](Engine& engine, const lod::LoDTensor<float>& y) {
    const lod::LoD& lod = y.lod();
    for (int level = 0; level < lod.levels(); ++level) {
      const lod::ExpandOptions options{.ref_level = level};
      const std::int64_t size = lod.size(level);
      const std::vector<std::int64_t> lengths(static_cast<std::size_t>(size), 2);
      for (const auto& x : {small_integers<float>(engine, {size, 2}),
                            small_integers<float>(engine, lod::LoD::from_lengths({lengths}), {2})}) {
        const auto expanded = lod::sequence_expand(x, lod, options);
        check_inference(
            expanded, [&](const auto& a, const auto& b) { return lod::infer_sequence_expand(a, b, options); },
            describe(x), described(lod));
        check_inferred(lod::sequence_expand_grad(expanded, x.lod(), lod, options), describe(x));
      }
    }
    const auto x = small_integers<float>(engine, {lod.size(-1), 2});
    check_inference(
        lod::sequence_expand_as(x, lod),
        [](const auto& a, const auto& b) { return lod::infer_sequence_expand_as(a, b); }, describe(x), described(lod));
  });
  const auto x = described(lod::DataType::INT8, {6, 2}), y = described(lod::DataType::FP32, {15}, 2);
  CHECK(lod::infer_sequence_expand(x, y) == described(lod::DataType::INT8, {15, 2}));
  CHECK(lod::infer_sequence_expand(x, y, {.ref_level = 0}) == described(lod::DataType::INT8, {-1, 2}));
  CHECK(lod::infer_sequence_expand_as(x, y) == described(lod::DataType::INT8, {15, 2}, 2));
  CHECK_THROWS_AS(lod::infer_sequence_expand(x, x), lod::OutOfRange);
  CHECK_THROWS_WITH_AS(lod::infer_sequence_expand_as(x, x),
                       doctest::Contains("sequence_expand_as: y_lod: the tensor has no level"), lod::InvalidLoD);
}
