// SPDX-License-Identifier: Apache-2.0
#include "support/check_throws.hpp"
#include "support/counting_resource.hpp"
#include "support/element_types.hpp"
#include "support/executors.hpp"
#include "support/gradient.hpp"
#include "support/inferred.hpp"
#include "support/random_batch.hpp"
#include "support/random_lod.hpp"
#include "support/reference.hpp"
#include <lod/lod.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

using lod::LoD;
using lod::LoDTensor;
using namespace lod_test;
using Numbers = std::vector<std::int64_t>;

namespace {

template <class T>
Tree<T> reference_slice(Tree<T> tree, const Numbers& offset, const Numbers& length) {
  for (std::size_t i = 0; i < tree.parts.size(); ++i) {
    auto& parts = tree.parts[i].parts;
    const auto first = parts.begin() + static_cast<std::ptrdiff_t>(offset[i]);
    parts = {first, first + static_cast<std::ptrdiff_t>(length[i])};
  }
  return tree;
}

/// Parts of the top-level sequences.
struct Slices {
  Numbers offset;
  Numbers length;

  Slices(Engine& engine, const Numbers& lengths) {
    for (const std::int64_t count : lengths) {
      offset.push_back(random_number(engine, 0, count));
      length.push_back(random_number(engine, 0, count - offset.back()));
    }
  }
};

}  // namespace

TEST_CASE("sequence_slice: sentences of articles, words of sentences") {
  LoDTensor<int> x(LoD::from_lengths({{3, 1, 2}, {3, 2, 4, 1, 2, 3}}), {});
  for (int row = 0; row < 15; ++row) x.data()[row] = row;
  const auto y = lod::sequence_slice(x, Numbers{1, 0, 1}, Numbers{2, 0, 1});
  CHECK(y.lod() == LoD::from_lengths({{2, 0, 1}, {2, 4, 3}}));
  CHECK(std::vector<int>(y.values().begin(), y.values().end()) == std::vector<int>{3, 4, 5, 6, 7, 8, 12, 13, 14});

  CHECK(same_bits(lod::sequence_slice(x, {1, 0, 1}, {2, 0, 1}), y));
  const std::int64_t firsts[] = {1, 0, 1};
  for_each_executor([&](const auto& executor) {
    LoDTensor<int> z;
    lod::sequence_slice_into(executor, x, firsts, {2, 0, 1}, z);
    CHECK(same_bits(z, y));
    lod::sequence_slice_grad_into(executor, y, x.lod(), {1, 0, 1}, {2, 0, 1}, z);
    CHECK(same_bits(z, lod::sequence_slice_grad(y, x.lod(), {1, 0, 1}, {2, 0, 1})));
  });

  // Of the sentences of the first article, given as tensors.
  const auto offset = LoDTensor<std::int64_t>::from_nested(Numbers{0, 1, 1});
  const auto length = LoDTensor<std::int64_t>::from_nested(Numbers{2, 1, 3});
  const auto words = lod::sequence_slice(x[0], offset, length);
  CHECK(words.lod() == LoD::from_lengths({{2, 1, 3}}));
  CHECK(std::vector<int>(words.values().begin(), words.values().end()) == std::vector<int>{0, 1, 4, 6, 7, 8});
}

TEST_CASE("sequence_slice: agrees with nested loops for slices of every type, depth and row size") {
  for_each_type(AllTypes(), []<class T>(std::type_identity<T>) {
    for_each_random_lod(2, 1, 5, [](Engine& engine, const Lengths& lengths) {
      for (const std::int64_t row_size : {1, 3, 8, 17, 64}) {
        INFO("row size ", row_size);
        const auto x = small_integers<T>(engine, LoD::from_lengths(lengths), {row_size});
        const auto slice = x.between(random_number(engine, 0, x.size() > 0), x.size());
        const Slices parts(engine, slice.lod().lengths(0));
        check_tree(lod::sequence_slice(lod::CpuExecutor(2), slice, parts.offset, parts.length), x.levels(),
                   reference_slice(tree_of(slice), parts.offset, parts.length));
      }
    });
  });
}

TEST_CASE("sequence_slice: the cases of PaddlePaddle's tests") {
  Engine engine(1);
  for_each_executor([&](const auto& executor) {
    const auto check = [&](const Numbers& lengths, const Numbers& offset, const Numbers& length) {
      const auto x = small_integers<float>(engine, LoD::from_lengths({lengths}), {3, 2});
      check_tree(lod::sequence_slice(executor, x, offset, length), 1, reference_slice(tree_of(x), offset, length));
    };
    check({20, 20, 20, 20, 20}, {1, 2, 3, 4, 5}, {10, 8, 6, 4, 2});
    check({20, 30, 0, 30, 20}, {1, 2, 0, 4, 5}, {10, 8, 0, 4, 2});
    check({0, 70, 0, 30, 0}, {0, 2, 0, 4, 0}, {0, 8, 0, 4, 0});
    check({0, 100, 0, 0, 0}, {0, 2, 0, 0, 0}, {0, 8, 0, 0, 0});
  });
}

TEST_CASE("sequence_slice: batches without sequences, of empty ones only, and rows without elements") {
  for (const auto& lengths : std::vector<Lengths>{{{}}, {{0}}, {{0, 0}}, {{}, {}}, {{0, 0}, {}}}) {
    const LoDTensor<float> x(LoD::from_lengths(lengths), {3});
    const Numbers zeros(lengths[0].size());
    CHECK(same_bits(lod::sequence_slice(x, zeros, zeros), x));
    CHECK(same_bits(lod::sequence_slice_grad(x, x.lod(), zeros, zeros), x));
  }
  const LoDTensor<float> x(LoD::from_lengths({{2, 1}}), {0});
  CHECK(lod::sequence_slice(x, Numbers{1, 0}, Numbers{1, 1}).shape() == lod::Shape{2, 0});
}

TEST_CASE("sequence_slice, sequence_slice_grad: long sequences are shared by threads") {
  Engine engine(4);
  for (const std::int64_t row_size : {1, 3, 17}) {
    const LoD words = giant_among_short(engine, 3000, 17 * grain / 16);
    const auto x = real_numbers<float>(engine, LoD::from_lengths({{1000, 0, 2000}, words.lengths(0)}), {row_size});
    const Numbers offset = {20, 0, 300}, length = {800, 0, 1500};
    const auto y = lod::sequence_slice(lod::CpuExecutor(1), x, offset, length);
    const auto dx = lod::sequence_slice_grad(lod::CpuExecutor(1), y, x.lod(), offset, length);
    for_each_executor([&](const auto& executor) {
      CHECK(same_bits(lod::sequence_slice(executor, x, offset, length), y));
      CHECK(same_bits(lod::sequence_slice_grad(executor, y, x.lod(), offset, length), dx));
    });
    CHECK(same_bits(lod::sequence_slice(dx, offset, length), y));
  }
}

TEST_CASE("sequence_slice_grad: agrees with differences") {
  for_each_random_lod(4, 1, 3, [](Engine& engine, const Lengths& lengths) {
    for (const std::int64_t row_size : {1, 3, 8, 17}) {
      auto x = real_numbers<double>(engine, LoD::from_lengths(lengths), {row_size});
      const Slices parts(engine, x.lod().lengths(0));
      check_gradient(
          engine, x, [&](const auto& at) { return lod::sequence_slice(at, parts.offset, parts.length); },
          [&](const auto& dy) { return lod::sequence_slice_grad(dy, x.lod(), parts.offset, parts.length); });
    }
  });
}

TEST_CASE("sequence_slice: bad arguments throw and change nothing") {
  const LoDTensor<float> x(LoD::from_lengths({{2, 1}}), {2}), plain({3, 2});
  LoDTensor<float> y({1, 2});
  const lod::CpuExecutor executor(1);
  const auto slice = [&](const Numbers& offset, const Numbers& length) {
    return [&, offset, length] { lod::sequence_slice_into(executor, x, offset, length, y); };
  };
  check_throws<lod::InvalidLoD>([&] { lod::sequence_slice_into(executor, plain, Numbers{}, Numbers{}, y); },
                                "sequence_slice: the tensor has no level, expected at least one", y);
  check_throws<lod::ShapeMismatch>(slice({0}, {1, 1}), "sequence_slice: 1 offsets and 2 lengths, expected 2 of each",
                                   y);
  check_throws<lod::ShapeMismatch>(slice({0, 0}, {1}), "2 offsets and 1 lengths, expected 2 of each", y);
  check_throws<lod::OutOfRange>(slice({-1, 0}, {1, 1}), "sequence 0 of length 2, offset -1, length 1", y);
  check_throws<lod::OutOfRange>(slice({0, 0}, {1, -1}), "sequence 1 of length 1, offset 0, length -1", y);
  check_throws<lod::OutOfRange>(slice({1, 0}, {2, 1}), "sequence 0 of length 2, offset 1, length 2", y);
  check_throws<lod::OutOfRange>(slice({0, 2}, {2, 0}), "sequence 1 of length 1, offset 2, length 0", y);
  check_throws<lod::OutOfRange>(slice({1, 0}, {INT64_MAX, 1}), "sequence 0 of length 2, offset 1", y);

  const Numbers zeros = {0, 0}, ones = {1, 1};
  check_throws<lod::InvalidLoD>([&] { lod::sequence_slice_grad_into(executor, x, LoD(), zeros, ones, y); },
                                "sequence_slice_grad: lod: the tensor has no level", y);
  check_throws<lod::ShapeMismatch>([&] { lod::sequence_slice_grad_into(executor, x, x.lod(), zeros, ones, y); },
                                   "sequence_slice_grad: dy: 3 rows, expected 2", y);
  check_throws<lod::OutOfRange>([&] { lod::sequence_slice_grad_into(executor, x, x.lod(), ones, ones, y); },
                                "sequence_slice_grad: sequence 1 of length 1, offset 1, length 1", y);
}

TEST_CASE("sequence_slice: a view as the output must have the shape and the levels of the result") {
  Engine engine(2);
  const auto x = small_integers<float>(engine, LoD::from_lengths({{2, 1}, {2, 0, 3}}), {2});
  const lod::CpuExecutor executor(1);
  const Numbers offset = {1, 0}, length = {1, 1};
  LoDTensor<float> y(LoD::from_lengths({{1, 1}, {0, 3}}), {2}), other(LoD::from_lengths({{1, 1}, {3, 0}}), {2});
  lod::sequence_slice_into(executor, x, offset, length, y.view());
  CHECK(same_bits(y, lod::sequence_slice(x, offset, length)));
  check_throws<lod::ShapeMismatch>([&] { lod::sequence_slice_into(executor, x, offset, length, other.view()); },
                                   ": a view of shape {3, 2} with 2 levels", other);
}

TEST_CASE("infer_sequence_slice: allows what the operation gives, and refuses what it does") {
  for_each_random_batch<float>(1, {2}, [](Engine&, const lod::LoDTensor<float>& x) {
    const std::vector<std::int64_t> offset(static_cast<std::size_t>(x.size()), 0);
    std::vector<std::int64_t> length = x.lod().lengths(0);
    for (std::int64_t& count : length) count /= 2;
    const auto y = lod::sequence_slice(x, offset, length);
    check_inference(
        y, [](const auto& desc) { return lod::infer_sequence_slice(desc); }, describe(x));
    check_inferred(lod::sequence_slice_grad(y, x.lod(), offset, length), describe(x));
  });
  CHECK(lod::infer_sequence_slice(described(lod::DataType::INT16, {15, 2}, 3)) ==
        described(lod::DataType::INT16, {-1, 2}, 3));
  CHECK_THROWS_AS(lod::infer_sequence_slice(described(lod::DataType::INT16, {15, 2})), lod::InvalidLoD);
}
