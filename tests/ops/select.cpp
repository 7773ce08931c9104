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

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

using lod::LoD;
using lod::LoDTensor;
using namespace lod_test;
using Numbers = std::vector<std::int64_t>;

namespace {

Numbers random_numbers(Engine& engine, std::int64_t size) {
  Numbers ids;
  for (std::int64_t i = 0; size > 0 && i < 5; ++i) ids.push_back(random_number(engine, 0, size - 1));
  return ids;
}

template <class T>
Tree<T> reference_select(const Tree<T>& tree, const Numbers& ids) {
  Tree<T> chosen;
  for (const std::int64_t id : ids) chosen.parts.push_back(tree.parts[static_cast<std::size_t>(id)]);
  return chosen;
}
template <class T>
Tree<T> reference_remove_empty(const Tree<T>& tree, int level) {
  Tree<T> kept;
  for (const auto& part : tree.parts) {
    if (level > 0) {
      kept.parts.push_back(reference_remove_empty(part, level - 1));
    } else if (!part.parts.empty()) {
      kept.parts.push_back(part);
    }
  }
  return kept;
}

}  // namespace

TEST_CASE("select: sequences by id, in any order, repeated, with all below them") {
  const auto x = LoDTensor<int>::from_nested(std::vector<std::vector<std::vector<int>>>{{{1, 2}, {3}}, {}, {{4}, {}}});
  const auto y = lod::select(x, {2, 0, 2});
  CHECK(tree_of(y) == tree_of(LoDTensor<int>::from_nested(
                          std::vector<std::vector<std::vector<int>>>{{{4}, {}}, {{1, 2}, {3}}, {{4}, {}}})));
  const auto rows = LoDTensor<int>::from_nested(std::vector<int>{7, 8, 9});
  CHECK(tree_of(lod::select(rows, {2, 1})) == tree_of(LoDTensor<int>::from_nested(std::vector<int>{9, 8})));
}

TEST_CASE("select, filter: ids and masks of every form are the same") {
  Engine engine(1);
  const auto x = real_numbers<float>(engine, LoD::from_lengths({{2, 0, 3, 1}}), {3});
  const auto expected = lod::select(x, {3, 1});
  CHECK(same_bits(lod::select(x, Numbers{3, 1}), expected));
  CHECK(same_bits(lod::select(x, std::array<std::int64_t, 2>{3, 1}), expected));
  const Numbers list = {3, 1};
  CHECK(same_bits(lod::select(x, std::span<const std::int64_t>(list)), expected));
  CHECK(same_bits(lod::select(x, LoDTensor<std::int64_t>::from_nested(list)), expected));
  CHECK(same_bits(lod::select(lod::CpuExecutor(2), x, list), expected));

  const auto kept = lod::filter(x, {true, false, false, true});
  CHECK(same_bits(kept, lod::select(x, {0, 3})));
  CHECK(same_bits(lod::filter(x, std::vector<bool>{true, false, false, true}), kept));
  CHECK(same_bits(lod::filter(x, std::vector<int>{1, 0, 0, -2}), kept));
  CHECK(same_bits(lod::filter(x, std::array<std::uint8_t, 4>{1, 0, 0, 1}), kept));
  CHECK(same_bits(lod::filter(x, LoDTensor<bool>::from_nested(std::vector<bool>{true, false, false, true})), kept));
  const LoDTensor<bool> column = [] {
    LoDTensor<bool> mask({4, 1});
    mask.data()[0] = mask.data()[3] = true;
    return mask;
  }();
  CHECK(same_bits(lod::filter(x, column), kept));
}

TEST_CASE("select, filter, remove_empty: agree with nested loops for slices of every type, depth and row size") {
  for_each_type(AllTypes(), []<class T>(std::type_identity<T>) {
    for_each_random_lod(2, 0, 5, [](Engine& engine, const Lengths& lengths) {
      for (const std::int64_t row_size : {1, 3, 8, 17}) {
        INFO("row size ", row_size);
        const auto x = random_tensor<T>(engine, lengths, row_size);
        const auto slice = x.between(random_number(engine, 0, x.size() > 0), x.size());
        const lod::CpuExecutor executor(2);
        const Numbers ids = random_numbers(engine, slice.size());
        check_tree(lod::select(executor, slice, ids), x.levels(), reference_select(tree_of(slice), ids));

        const auto mask = random_mask(engine, slice.size());
        Numbers kept;
        for (std::size_t i = 0; i < mask.size(); ++i) {
          if (mask[i]) kept.push_back(static_cast<std::int64_t>(i));
        }
        const auto filtered = lod::filter(executor, slice, mask);
        check_tree(filtered, x.levels(), reference_select(tree_of(slice), kept));
        // Back in their places, zeros in the others.
        const auto back = lod::filter_grad(executor, filtered, slice.lod_view(), mask);
        CHECK(back.lod_view() == slice.lod_view());
        CHECK(same_bits(lod::filter(executor, back, mask), filtered));
        std::vector<bool> others = mask;
        others.flip();
        const auto zeros = lod::filter(executor, back, others);
        for (const T value : zeros.values()) CHECK(value == T{});

        for (int level = 0; level < x.levels(); ++level) {
          INFO("level ", level);
          const auto y = lod::remove_empty(executor, slice, {.level = level});
          check_tree(y, x.levels(), reference_remove_empty(tree_of(slice), level));
          CHECK(same_bits(lod::remove_empty_grad(executor, y, slice.lod_view()), slice));
        }
      }
    });
  });
}

TEST_CASE("remove_empty: a sequence of empty ones is not empty, unless these are dropped first") {
  const auto x = LoDTensor<int>::from_nested(std::vector<std::vector<std::vector<int>>>{{{}, {}}, {}, {{1}, {}}});
  CHECK(lod::remove_empty(x).lod() == LoD::from_lengths({{2, 2}, {0, 0, 1, 0}}));
  const auto inner = lod::remove_empty(x, {.level = -1});
  CHECK(inner.lod() == LoD::from_lengths({{0, 0, 1}, {1}}));
  CHECK(lod::remove_empty(inner).lod() == LoD::from_lengths({{1}, {1}}));
}

TEST_CASE("select, filter: batches without sequences, and of empty ones only, and rows without elements") {
  for (const auto& lengths : std::vector<Lengths>{{{}}, {{0}}, {{0, 0}}, {{}, {}}, {{0, 0}, {}}, {{2, 0}, {0, 0}}}) {
    const LoDTensor<float> x(LoD::from_lengths(lengths), {3});
    const auto none = lod::select(x, Numbers());
    CHECK(none.size() == 0);
    CHECK(none.levels() == x.levels());
    CHECK(none.row_shape() == x.row_shape());
    CHECK(same_bits(lod::select_grad(none, x.lod(), Numbers()), x));
    const std::vector<bool> all(static_cast<std::size_t>(x.size()), true);
    CHECK(same_bits(lod::filter(x, all), x));
    CHECK(same_bits(lod::filter_grad(x, x.lod(), all), x));
    CHECK(lod::remove_empty(x).rows() == 0);
  }
  const LoDTensor<float> narrow(LoD::from_lengths({{2, 1}}), {0});
  CHECK(lod::select(narrow, {1, 1}).shape() == lod::Shape{2, 0});
  CHECK(lod::select_grad(lod::select(narrow, {1, 1}), narrow.lod(), {1, 1}).shape() == narrow.shape());
}

TEST_CASE("select, filter: the same bits for any number of threads, also where a sequence was selected often") {
  for (const std::int64_t row_size : {1, 3, 17}) {
    Engine engine(4);
    const auto x = real_numbers<float>(engine, giant_among_short(engine, 500, 20000), {row_size});
    Numbers ids = {250, 3, 250, 4, 3, 250};
    for (int i = 0; i < 700; ++i) ids.push_back(7 + i % 5);
    const auto mask = random_mask(engine, 500);
    const auto y = lod::select(lod::CpuExecutor(1), x, ids);
    const auto dx = lod::select_grad(lod::CpuExecutor(1), y, x.lod(), ids);
    const auto kept = lod::filter(lod::CpuExecutor(1), x, mask);
    for_each_executor([&](const auto& executor) {
      CHECK(same_bits(lod::select(executor, x, ids), y));
      CHECK(same_bits(lod::select_grad(executor, y, x.lod(), ids), dx));
      CHECK(same_bits(lod::filter(executor, x, mask), kept));
      CHECK(same_bits(lod::filter_grad(executor, kept, x.lod(), mask),
                      lod::filter_grad(lod::CpuExecutor(1), kept, x.lod(), mask)));
    });
    CHECK(dx.data()[0] == 0);
    CHECK(same_bits(dx.between(4, 5), x.between(4, 5)));  // selected once
  }
}

TEST_CASE("select, filter, remove_empty: gradients against differences") {
  Engine engine(12);
  for (const std::int64_t row_size : {1, 3, 8, 17}) {
    auto x = real_numbers<double>(engine, LoD::from_lengths({{2, 0, 1, 2}, {2, 0, 3, 1, 1}}), {row_size});
    auto rows = real_numbers<double>(engine, {4, row_size});
    const Numbers ids = {3, 0, 3, 1, 3};
    const std::vector<bool> mask = {true, true, false, true};
    check_gradient(
        engine, x, [&](const auto& at) { return lod::select(at, ids); },
        [&](const auto& dy) { return lod::select_grad(dy, x.lod(), ids); });
    check_gradient(
        engine, rows, [&](const auto& at) { return lod::select(at, ids); },
        [&](const auto& dy) { return lod::select_grad(dy, 4, ids); });
    check_gradient(
        engine, x, [&](const auto& at) { return lod::filter(at, mask); },
        [&](const auto& dy) { return lod::filter_grad(dy, x.lod(), mask); });
    check_gradient(
        engine, rows, [&](const auto& at) { return lod::filter(at, mask); },
        [&](const auto& dy) { return lod::filter_grad(dy, 4, mask); });
    check_gradient(
        engine, x, [&](const auto& at) { return lod::remove_empty(at, {.level = 1}); },
        [&](const auto& dy) { return lod::remove_empty_grad(dy, x.lod()); });
  }
}

TEST_CASE("select, filter, remove_empty: bad arguments throw and change nothing") {
  const LoDTensor<float> x(LoD::from_lengths({{2, 1}}), {2}), plain({3, 2});
  LoDTensor<float> y({1, 2});
  const lod::CpuExecutor executor(1);
  check_throws<lod::OutOfRange>(
      [&] {
        lod::select_into(executor, x, {0, 2}, y);
      },
      "select: id 2 at position 1, expected 0 to 1", y);
  check_throws<lod::OutOfRange>([&] { lod::select_into(executor, plain, {-1}, y); },
                                "select: id -1 at position 0, expected 0 to 2", y);
  check_throws<lod::OutOfRange>([&] { lod::select_grad_into(executor, plain, x.lod(), {2}, y); },
                                "select_grad: id 2 at position 0, expected 0 to 1", y);
  check_throws<lod::ShapeMismatch>([&] { lod::select_grad_into(executor, plain, x.lod(), {0}, y); },
                                   "select_grad: dy: 3 rows, expected 2", y);
  check_throws<lod::ShapeMismatch>(
      [&] { lod::filter_into(executor, x, {true}, y); },
      "filter: a mask of 1 elements, expected 2, one for each sequence (row, where there is no level)", y);
  check_throws<lod::ShapeMismatch>([&] { lod::filter_grad_into(executor, plain, x.lod(), {true}, y); },
                                   "filter_grad: a mask of 1 elements, expected 2", y);
  check_throws<lod::ShapeMismatch>(
      [&] {
        lod::filter_grad_into(executor, plain, x.lod(), {true, false}, y);
      },
      "filter_grad: dy: 3 rows, expected 2", y);
  // The LoD of a plain tensor does not know how many rows there are.
  const char* const hint = "(a LoD without a level has no rows: give their number, or lod_view() of the tensor)";
  check_throws<lod::ShapeMismatch>(
      [&] {
        lod::filter_grad_into(executor, plain, plain.lod(), {true, true, true}, y);
      },
      hint, y);
  check_throws<lod::OutOfRange>([&] { lod::select_grad_into(executor, plain, plain.lod(), {0, 1, 2}, y); }, hint, y);
  check_throws<lod::OutOfRange>(
      [&] {
        lod::select_grad_into(executor, plain, 0, {0, 1, 2}, y);
      },
      "select_grad: 3 ids, but x has no sequence to select", y);
  check_throws<lod::ShapeMismatch>([&] { lod::remove_empty_grad_into(executor, plain, plain.lod(), y); }, hint, y);
  check_throws<lod::InvalidLoD>([&] { lod::remove_empty_into(executor, plain, y); },
                                "remove_empty: the tensor has no level, expected at least one", y);
  check_throws<lod::OutOfRange>([&] { lod::remove_empty_into(executor, x, {.level = 1}, y); },
                                "level 1 of a LoD with 1 levels", y);
  check_throws<lod::ShapeMismatch>([&] { lod::remove_empty_grad_into(executor, plain, LoD::from_lengths({{2}}), y); },
                                   "remove_empty_grad: dy: 3 rows, expected 2", y);
  // Views as outputs must have the shape and the levels of the results.
  LoDTensor<float> two(LoD::from_lengths({{1, 2}}), {2}), wrong(LoD::from_lengths({{2, 2}}), {2});
  lod::select_into(executor, x, {1, 0}, two.view());
  CHECK(same_bits(two, lod::select(x, {1, 0})));
  check_throws<lod::ShapeMismatch>(
      [&] {
        lod::select_into(executor, x, {1, 0}, wrong.view());
      },
      "and the levels of the result", wrong);
  check_throws<lod::ShapeMismatch>(
      [&] {
        lod::filter_into(executor, x, {true, true}, wrong.view());
      },
      "and the levels of the result", wrong);
  check_throws<lod::ShapeMismatch>(
      [&] {
        lod::select_grad_into(executor, plain, x.lod(), {0, 1}, wrong.view());
      },
      "and the levels of the result", wrong);
  check_throws<lod::ShapeMismatch>(
      [&] {
        lod::filter_grad_into(executor, plain, x.lod(), {true, true}, wrong.view());
      },
      "and the levels of the result", wrong);
  check_throws<lod::ShapeMismatch>([&] { lod::remove_empty_into(executor, x, wrong.view()); },
                                   "and the levels of the result", wrong);
}

TEST_CASE("infer_select, infer_filter, infer_remove_empty: allow what the operations give, and refuse what they do") {
  for_each_random_batch<float>(0, {2}, [](Engine&, const lod::LoDTensor<float>& x) {
    const std::vector<std::int64_t> ids(x.size() > 0 ? 3 : 0);
    const std::vector<std::int64_t> mask(static_cast<std::size_t>(x.size()), 1);
    const auto y = lod::select(x, ids);
    check_inference(
        y, [](const auto& a, const auto& b) { return lod::infer_select(a, b); }, describe(x),
        described_list(static_cast<std::int64_t>(ids.size())));
    check_inference(
        lod::filter(x, mask), [](const auto& a, const auto& b) { return lod::infer_filter(a, b); }, describe(x),
        described_list(x.size(), lod::DataType::BOOL));
    if (x.levels() > 0) check_inferred(lod::select_grad(y, x.lod(), ids), describe(x));
    for (int level = 0; level < x.levels(); ++level) {
      check_inference(
          lod::remove_empty(x, {.level = level}),
          [&](const auto& desc) { return lod::infer_remove_empty(desc, {.level = level}); }, describe(x));
    }
  });
  const auto plain = described(lod::DataType::FP32, {15, 2}), deep = described(lod::DataType::FP32, {15, 2}, 2);
  CHECK(lod::infer_select(plain, described_list(4)) == described(lod::DataType::FP32, {4, 2}));
  CHECK(lod::infer_select(deep, described_list(4)) == described(lod::DataType::FP32, {-1, 2}, 2));
  CHECK(lod::infer_filter(plain, described_list(15)) == described(lod::DataType::FP32, {-1, 2}));
  CHECK(lod::infer_remove_empty(deep) == deep);
  CHECK_THROWS_AS(lod::infer_select(plain, described_list(4, lod::DataType::INT32)), lod::ShapeMismatch);
  CHECK_THROWS_WITH_AS(lod::infer_filter(plain, described_list(14)),
                       doctest::Contains("filter: a mask of 14 elements, expected 15"), lod::ShapeMismatch);
  CHECK_THROWS_AS(lod::infer_remove_empty(plain), lod::InvalidLoD);
  CHECK_THROWS_AS(lod::infer_remove_empty(deep, {.level = 2}), lod::OutOfRange);
}
