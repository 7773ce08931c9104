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

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <type_traits>
#include <vector>

using lod::LoD;
using lod::LoDTensor;
using lod::PadOptions;
using lod::Side;
using namespace lod_test;
using Numbers = std::vector<std::int64_t>;

namespace {

/// All numbers of the dense block, sequence by sequence.
template <class T>
std::vector<T> reference_pad(const std::vector<Tree<T>>& sequences, std::size_t row_size, std::size_t length, Side side,
                             T pad_value) {
  std::vector<T> dense;
  for (const auto& sequence : sequences) {
    const auto rows = rows_of(sequence);
    // Right-aligned or left-aligned: which row of the sequence stands in the first place.
    const std::ptrdiff_t first = side == Side::LEFT ? std::ssize(rows) - static_cast<std::ptrdiff_t>(length) : 0;
    for (std::ptrdiff_t place = 0; place < static_cast<std::ptrdiff_t>(length); ++place) {
      const std::ptrdiff_t row = first + place;
      for (std::size_t column = 0; column < row_size; ++column) {
        const bool padding = row < 0 || row >= std::ssize(rows);
        dense.push_back(padding ? pad_value : rows[static_cast<std::size_t>(row)][column]);
      }
    }
  }
  return dense;
}

/// Pads x and takes the padding away again.
template <class Executor, lod::LoDTensorLike X>
void check_pad(const Executor& executor, const X& x, PadOptions options) {
  using T = typename X::value_type;
  const auto view = x.view();
  const auto sequences = sequences_of(tree_of(view), options.level);
  std::int64_t length = options.padded_length;
  for (const auto& sequence : sequences) {
    if (options.padded_length < 0) length = std::max(length, static_cast<std::int64_t>(rows_of(sequence).size()));
  }
  length = std::max<std::int64_t>(length, 0);
  INFO("level ", options.level, ", row size ", view.row_size(), ", padded length ", length, ", left ",
       options.side == Side::LEFT);
  const auto y = lod::sequence_pad(executor, view, options);
  const auto size = static_cast<std::int64_t>(sequences.size());
  CHECK(y.dense.levels() == 0);
  REQUIRE(y.dense.shape() == lod::Shape(size, lod::Shape(length, view.row_shape())));
  const auto expected = reference_pad(sequences, static_cast<std::size_t>(view.row_size()),
                                      static_cast<std::size_t>(length), options.side, options.pad_value.to<T>());
  CHECK(std::equal(expected.begin(), expected.end(), y.dense.values().begin(), y.dense.values().end()));
  REQUIRE(y.lengths.shape() == lod::Shape{size});
  Tree<T> kept;
  for (std::int64_t i = 0; i < size; ++i) {
    const auto rows = rows_of(sequences[static_cast<std::size_t>(i)]);
    const std::int64_t count = std::min(static_cast<std::int64_t>(rows.size()), length);
    CHECK(y.lengths.data()[i] == count);
    Tree<T> sequence;
    for (const auto& row : rows) sequence.parts.push_back({{}, row});
    const auto first = options.side == Side::LEFT ? static_cast<std::ptrdiff_t>(rows.size()) - count : 0;
    sequence.parts = {sequence.parts.begin() + first, sequence.parts.begin() + first + count};
    kept.parts.push_back(sequence);
  }
  check_tree(lod::sequence_unpad(executor, y.dense, y.lengths, {.side = options.side}), 1, kept);
}

}  // namespace

TEST_CASE("sequence_pad: right, left, longer, cut off") {
  const auto x = LoDTensor<int>::from_nested(std::vector<std::vector<int>>{{1, 2, 3}, {}, {4}});
  const auto numbers = [&](const PadOptions& options) {
    const auto y = lod::sequence_pad(x, options);
    return std::vector<int>(y.dense.values().begin(), y.dense.values().end());
  };
  CHECK(numbers({}) == std::vector<int>{1, 2, 3, 0, 0, 0, 4, 0, 0});
  CHECK(numbers({.pad_value = -1, .side = Side::LEFT}) == std::vector<int>{1, 2, 3, -1, -1, -1, -1, -1, 4});
  CHECK(numbers({.padded_length = 4}) == std::vector<int>{1, 2, 3, 0, 0, 0, 0, 0, 4, 0, 0, 0});
  CHECK(numbers({.padded_length = 2, .truncate = true}) == std::vector<int>{1, 2, 0, 0, 4, 0});
  CHECK(numbers({.padded_length = 2, .side = Side::LEFT, .truncate = true}) == std::vector<int>{2, 3, 0, 0, 0, 4});
  CHECK(numbers({.padded_length = 0, .truncate = true}).empty());
  const auto y = lod::sequence_pad(x);
  CHECK(std::vector<std::int64_t>(y.lengths.values().begin(), y.lengths.values().end()) ==
        std::vector<std::int64_t>{3, 0, 1});
}

TEST_CASE("sequence_pad, sequence_unpad: agree with nested loops for slices of every type, depth, level, row size") {
  for_each_type(AllTypes(), []<class T>(std::type_identity<T>) {
    for_each_random_lod(2, 1, 5, [](Engine& engine, const Lengths& lengths) {
      for (const std::int64_t row_size : {1, 3, 8, 17, 64}) {
        const auto x = small_integers<T>(engine, LoD::from_lengths(lengths), {row_size});
        const auto slice = x.between(random_number(engine, 0, x.size() > 0), x.size());
        const Side side = random_number(engine, 0, 1) == 0 ? Side::LEFT : Side::RIGHT;
        const int level = static_cast<int>(random_number(engine, 0, x.levels() - 1));
        const lod::CpuExecutor executor(2);
        check_pad(executor, slice, {.pad_value = 1, .side = side, .level = level});
        check_pad(executor, slice, {.padded_length = 3, .side = side, .truncate = true, .level = level});
      }
    });
  });
}

TEST_CASE("sequence_pad: the cases of PaddlePaddle's tests") {
  Engine engine(4);
  for_each_executor([&](const auto& executor) {
    for (const lod::Shape& row_shape : {lod::Shape{10}, lod::Shape{2, 5}}) {
      const auto x = small_integers<float>(engine, LoD::from_lengths({{2, 3, 4, 3}}), row_shape);
      for (const std::int64_t length : {-1, 7}) check_pad(executor, x, {.pad_value = 1.0, .padded_length = length});
      const auto sparse = small_integers<float>(engine, LoD::from_lengths({{0, 8, 0, 4, 0}}), row_shape);
      check_pad(executor, sparse, {.pad_value = 1.0, .padded_length = 10});
    }
  });
}

TEST_CASE("sequence_unpad: the cases of PaddlePaddle's tests") {
  Engine engine(4);
  const auto check = [&](const lod::Shape& shape, const std::vector<std::int64_t>& lengths) {
    const auto dense = small_integers<float>(engine, shape);
    const auto y = lod::sequence_unpad(dense, lengths);
    CHECK(y.lod() == LoD::from_lengths({lengths}));
    CHECK(y.row_shape() == shape.without_first(2));
    const std::int64_t row_size = y.row_size();
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      const auto sequence = y[static_cast<std::int64_t>(i)].values();
      CHECK(std::equal(sequence.begin(), sequence.end(), dense.row(static_cast<std::int64_t>(i)).begin()));
      CHECK(static_cast<std::int64_t>(sequence.size()) == lengths[i] * row_size);
    }
  };
  check({3, 40}, {2, 3, 4});
  check({3, 5, 4, 3}, {2, 3, 4});
  check({4, 5, 3, 3, 6}, {5, 2, 3, 4});
  check({4, 5, 3, 3, 6}, {5, 0, 0, 4});
  check({4, 5, 3, 3, 6}, {0, 4, 3, 0});
}

TEST_CASE("sequence_unpad: lengths as a tensor, a view, a vector, a span, a list in braces") {
  const auto dense = LoDTensor<int>::from_values(LoD(), {3}, std::vector<int>{1, 2, 0, 3, 0, 0});
  const std::vector<std::int64_t> lengths = {2, 1};
  const auto tensor = LoDTensor<std::int64_t>::from_values(LoD(), {}, lengths);
  const auto expected = LoDTensor<int>::from_nested(std::vector<std::vector<int>>{{1, 2}, {3}});
  for_each_executor([&](const auto& executor) {
    CHECK(same_bits(lod::sequence_unpad(executor, dense, tensor), expected));
    CHECK(same_bits(lod::sequence_unpad(executor, dense, tensor.view()), expected));
    CHECK(same_bits(lod::sequence_unpad(executor, dense, lengths), expected));
    CHECK(same_bits(lod::sequence_unpad(executor, dense, std::span<const std::int64_t>(lengths)), expected));
    CHECK(same_bits(lod::sequence_unpad(executor, dense, {2, 1}), expected));
    CHECK(same_bits(lod::sequence_unpad_grad(executor, expected, {2, 1}, 3), dense));
  });
  CHECK(same_bits(lod::sequence_unpad(dense, {2, 1}), expected));
  CHECK(same_bits(lod::sequence_unpad_grad(expected, {2, 1}, 3, {.side = Side::RIGHT}), dense));
  // A part of a dense block, with levels of its own.
  const auto batch =
      LoDTensor<int>::from_values(LoD::from_lengths({{1, 2}}), {3}, std::vector<int>{9, 9, 9, 1, 2, 0, 3, 0, 0});
  CHECK(same_bits(lod::sequence_unpad(batch[1], lengths), expected));
}

TEST_CASE("sequence_pad: batches without sequences, of empty ones only, and rows without elements") {
  for_each_executor([](const auto& executor) {
    for (const auto& lengths : std::vector<Lengths>{{{}}, {{0}}, {{0, 0}}, {{}, {}}, {{0, 0}, {}}, {{2, 0}, {0, 0}}}) {
      for (const std::int64_t row_size : {0, 3}) {
        const LoDTensor<float> x(LoD::from_lengths(lengths), {row_size});
        for (int level = 0; level < x.levels(); ++level) {
          for (const Side side : {Side::LEFT, Side::RIGHT}) {
            check_pad(executor, x, {.pad_value = 1, .side = side, .level = level});
            check_pad(executor, x, {.pad_value = 1, .padded_length = 2, .side = side, .level = level});
          }
        }
      }
    }
  });
}

TEST_CASE("sequence_pad: a giant among short sequences is shared by threads, the bits are the same") {
  Engine engine(5);
  // All sequences padded to the giant's length are what threads share.
  const std::int64_t giant = slow ? 400 : 3000;
  for (const std::int64_t row_size : {1, 3, 17}) {
    const std::int64_t size = row_size == 1 && !slow ? 2000 : 200;
    const auto x = real_numbers<float>(engine, giant_among_short(engine, size, giant), {row_size});
    for (const Side side : {Side::LEFT, Side::RIGHT}) {
      for (const std::int64_t length : {std::int64_t{-1}, std::int64_t{4}, giant / 3}) {
        const PadOptions options{.pad_value = 1, .padded_length = length, .side = side, .truncate = true};
        check_pad(lod::CpuExecutor(1), x, options);
        const auto expected = lod::sequence_pad(lod::CpuExecutor(1), x, options);
        const auto dx = lod::sequence_pad_grad(lod::CpuExecutor(1), expected.dense, x.lod(), options);
        for_each_executor([&](const auto& executor) {
          const auto y = lod::sequence_pad(executor, x, options);
          CHECK(same_bits(y.dense, expected.dense));
          CHECK(same_bits(y.lengths, expected.lengths));
          CHECK(same_bits(lod::sequence_pad_grad(executor, y.dense, x.lod(), options), dx));
          const auto slice = x.between(100, 200);
          CHECK(same_bits(lod::sequence_pad(executor, slice, options).dense,
                          lod::sequence_pad(LoDTensor<float>::copy_of(slice), options).dense));
        });
      }
    }
  }
}

TEST_CASE("sequence_pad_grad, sequence_unpad_grad: agree with differences") {
  Engine engine(12);
  const LoD index = LoD::from_lengths({{2, 0, 1}, {2, 0, 3}});
  auto x = real_numbers<double>(engine, index, {2});
  for (const int level : {0, 1}) {
    for (const Side side : {Side::LEFT, Side::RIGHT}) {
      for (const std::int64_t length : {-1, 1, 5}) {
        INFO("level ", level, ", left ", side == Side::LEFT, ", padded length ", length);
        const PadOptions options{.padded_length = length, .side = side, .truncate = true, .level = level};
        check_gradient(
            engine, x, [&](const auto& at) { return lod::sequence_pad(at, options).dense; },
            [&](const auto& dy) { return lod::sequence_pad_grad(dy, index, options); });
      }
      const std::vector<std::int64_t> lengths = {2, 0, 3};
      auto dense = real_numbers<double>(engine, {3, 4, 2});
      check_gradient(
          engine, dense, [&](const auto& at) { return lod::sequence_unpad(at, lengths, {.side = side}); },
          [&](const auto& dy) { return lod::sequence_unpad_grad(dy, lengths, 4, {.side = side}); });
    }
  }
}

TEST_CASE("sequence_pad: bad arguments throw and change nothing") {
  const LoD index = LoD::from_lengths({{2, 1}});
  const LoDTensor<float> x(index, {2}), plain({3, 2});
  LoDTensor<float> y({1, 2});
  LoDTensor<std::int64_t> lengths({1});
  const lod::CpuExecutor executor(1);
  const auto pad = [&](const PadOptions& options) {
    return [&, options] { lod::sequence_pad_into(executor, x, options, y, lengths); };
  };
  check_throws<lod::InvalidLoD>([&] { lod::sequence_pad_into(executor, plain, y, lengths); },
                                "sequence_pad: the tensor has no level", y);
  check_throws<lod::OutOfRange>(pad({.level = 1}), "level 1 of a LoD with 1 levels", y);
  constexpr auto no_side = static_cast<lod::Side>(2);
  check_throws<lod::OutOfRange>(pad({.side = no_side}), "sequence_pad: Side 2, expected RIGHT or LEFT", y);
  check_throws<lod::OutOfRange>([&] { lod::sequence_unpad_into(executor, x, Numbers{1}, {.side = no_side}, y); },
                                "sequence_unpad: Side 2", y);
  check_throws<lod::OutOfRange>(pad({.padded_length = -2}), "sequence_pad: padded_length -2, expected -1 or more", y);
  check_throws<lod::ShapeMismatch>(pad({.padded_length = 1}),
                                   "sequence_pad: sequence 0 has 2 rows, expected at most padded_length, 1", y);
  CHECK(lengths.shape() == lod::Shape{1});

  const LoDTensor<float> dense({2, 2, 2}), scalars({2});
  check_throws<lod::ShapeMismatch>([&] { lod::sequence_pad_grad_into(executor, plain, index, y); },
                                   "sequence_pad_grad: dy: 3 rows, expected 2", y);
  check_throws<lod::ShapeMismatch>([&] { lod::sequence_pad_grad_into(executor, scalars, index, y); },
                                   "sequence_pad_grad: dy: scalar rows", y);
  check_throws<lod::ShapeMismatch>(
      [&] { lod::sequence_pad_grad_into(executor, dense, index, {.padded_length = 3}, y); },
      "sequence_pad_grad: dy: rows of shape {2, 2}, expected {3, 2}", y);
  check_throws<lod::ShapeMismatch>(
      [&] { lod::sequence_pad_grad_into(executor, dense, index, {.padded_length = 1}, y); },
      "sequence_pad_grad: sequence 0 has 2 rows", y);
  check_throws<lod::InvalidLoD>([&] { lod::sequence_pad_grad_into(executor, dense, LoD(), y); },
                                "sequence_pad_grad: lod: the tensor has no level", y);

  check_throws<lod::ShapeMismatch>(
      [&] {
        lod::sequence_unpad_into(executor, scalars, Numbers{1, 1}, y);
      },
      "sequence_unpad: dense: scalar rows, expected the shape {sequences, length", y);
  check_throws<lod::ShapeMismatch>([&] { lod::sequence_unpad_into(executor, dense, Numbers{1}, y); },
                                   "sequence_unpad: 1 lengths, expected 2", y);
  check_throws<lod::OutOfRange>(
      [&] {
        lod::sequence_unpad_into(executor, dense, Numbers{1, 3}, y);
      },
      "sequence_unpad: length 1 is 3, expected 0 to 2", y);
  check_throws<lod::OutOfRange>(
      [&] {
        lod::sequence_unpad_into(executor, dense, Numbers{-1, 1}, y);
      },
      "sequence_unpad: length 0 is -1, expected 0 to 2", y);
  check_throws<lod::ShapeMismatch>(
      [&] {
        lod::sequence_unpad_grad_into(executor, plain, Numbers{1, 1}, 2, y);
      },
      "sequence_unpad_grad: dy: 3 rows, expected 2", y);
  check_throws<lod::OutOfRange>(
      [&] {
        lod::sequence_unpad_grad_into(executor, plain, Numbers{2, 1}, 1, y);
      },
      "sequence_unpad_grad: length 0 is 2, expected 0 to 1", y);
}

TEST_CASE("sequence_pad: views as outputs must have the shapes of the results; all are checked before one is written") {
  Engine engine(2);
  const auto x = small_integers<float>(engine, LoD::from_lengths({{2, 1}}), {2});
  const lod::CpuExecutor executor(1);
  LoDTensor<float> dense({3, 2, 2});
  LoDTensor<std::int64_t> lengths({3});
  lod::sequence_pad_into(executor, x, dense.between(1, 3), lengths.between(0, 2));
  CHECK(same_bits(dense.between(1, 3), lod::sequence_pad(x).dense));
  CHECK(same_bits(lengths.between(0, 2), lod::sequence_pad(x).lengths));
  CHECK(dense.row(0)[0] == 0);
  LoDTensor<float> untouched({2, 2, 2});
  check_throws<lod::ShapeMismatch>([&] { lod::sequence_pad_into(executor, x, untouched.view(), lengths.view()); },
                                   ": a view of shape {3} with 0 levels, expected shape {2}", untouched);
  check_throws<lod::ShapeMismatch>([&] { lod::sequence_pad_into(executor, x, dense.view(), lengths.between(0, 2)); },
                                   ": a view of shape {3, 2, 2}", dense);
  std::int64_t memory[1];
  auto too_small = LoDTensor<std::int64_t>::wrap(memory, LoD(), {});
  LoDTensor<float> another({1});
  check_throws<lod::ShapeMismatch>([&] { lod::sequence_pad_into(executor, x, another, too_small); },
                                   "the wrapped memory holds 1 values, expected 2", another);
}

TEST_CASE("infer_sequence_pad: allows what the operations give, and refuses what they do") {
  for_each_random_batch<float>(1, {2}, [](Engine&, const lod::LoDTensor<float>& x) {
    for (int level = 0; level < x.levels(); ++level) {
      for (const std::int64_t length : {-1, 3}) {
        const lod::PadOptions options{.padded_length = length, .truncate = true, .level = level};
        const auto y = lod::sequence_pad(x, options);
        for (const auto& desc : {describe(x), blank(describe(x))}) {
          check_inferred(y.dense, lod::infer_sequence_pad(desc, options).dense);
          check_inferred(y.lengths, lod::infer_sequence_pad(desc, options).lengths);
        }
        check_inferred(lod::sequence_pad_grad(y.dense, x.lod(), options), describe(x));
        check_inference(
            lod::sequence_unpad(y.dense, y.lengths),
            [](const auto& a, const auto& b) { return lod::infer_sequence_unpad(a, b); }, describe(y.dense),
            describe(y.lengths));
      }
    }
  });
  const auto x = described(lod::DataType::FP64, {15, 2}, 2);
  CHECK(lod::infer_sequence_pad(x).dense == described(lod::DataType::FP64, {-1, -1, 2}));
  CHECK(lod::infer_sequence_pad(x, {.padded_length = 4}).dense == described(lod::DataType::FP64, {-1, 4, 2}));
  CHECK(lod::infer_sequence_pad(x).lengths == described(lod::DataType::INT64, {-1}));
  CHECK(lod::infer_sequence_unpad(described(lod::DataType::FP64, {6, 4, 2}), described_list(6)) ==
        described(lod::DataType::FP64, {-1, 2}, 1));
  CHECK(lod::infer_sequence_unpad(described(lod::DataType::FP64, {6, 4, 2}), described_list(6), {.side = Side::LEFT}) ==
        described(lod::DataType::FP64, {-1, 2}, 1));
  CHECK_THROWS_AS(lod::infer_sequence_pad(described(lod::DataType::FP32, {15})), lod::InvalidLoD);
  CHECK_THROWS_AS(lod::infer_sequence_pad(x, {.padded_length = -2}), lod::OutOfRange);
  CHECK_THROWS_AS(lod::infer_sequence_unpad(described(lod::DataType::FP32, {6}), described_list(6)),
                  lod::ShapeMismatch);
  CHECK_THROWS_WITH_AS(lod::infer_sequence_unpad(x, described_list(6)),
                       doctest::Contains("sequence_unpad: 6 lengths, expected 15"), lod::ShapeMismatch);
}

TEST_CASE("sequence_pad, sequence_unpad: there and back, 10 rows of 16 and of 128 numbers") {
  Engine engine(6);
  for_each_executor([&](const auto& executor) {
    for (const auto& offsets : std::vector<std::vector<std::int64_t>>{{0, 10}, {0, 2, 7, 10}}) {
      for (const std::int64_t row_size : {16, 128}) {
        const auto x = real_numbers<float>(engine, LoD::from_offsets({offsets}), {row_size});
        const auto y = lod::sequence_pad(executor, x);
        CHECK(same_bits(lod::sequence_unpad(executor, y.dense, y.lengths), x));
      }
    }
  });
}
