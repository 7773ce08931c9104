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

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

using lod::LoD;
using lod::LoDTensor;
using namespace lod_test;

namespace {

/// The children of all sequences, one after the other.
template <class T>
Tree<T> children_of(const Tree<T>& tree) {
  Tree<T> joined;
  for (const auto& part : tree.parts) joined.parts.insert(joined.parts.end(), part.parts.begin(), part.parts.end());
  return joined;
}
template <class T>
Tree<T> reference_remove_level(const Tree<T>& tree, int level) {
  if (level == 0) return children_of(tree);
  Tree<T> result;
  for (const auto& part : tree.parts) {
    result.parts.push_back(level == 1 ? children_of(part) : reference_remove_level(part, level - 1));
  }
  return result;
}
template <class T>
Tree<T> reference_flatten(const Tree<T>& tree, int level, int levels) {
  Tree<T> result = tree;
  for (int removed = levels - 1; removed > level; --removed) result = reference_remove_level(result, removed);
  return result;
}
template <class T>
Tree<T> reference_transpose(const Tree<T>& tree) {
  Tree<T> result;
  for (const auto& part : tree.parts) {
    for (std::size_t t = 0; t < part.parts.size(); ++t) {
      if (result.parts.size() <= t) result.parts.emplace_back();
      result.parts[t].parts.push_back(part.parts[t]);
    }
  }
  return result;
}

LoD one_level(const LoD& lod, int level) { return LoD::from_lengths({lod.lengths(level)}); }
/// A level, with how the level above holds it.
LoD two_levels(const LoD& lod, int level) { return LoD::from_lengths({lod.lengths(level - 1), lod.lengths(level)}); }

}  // namespace

TEST_CASE("levels: the running example without each level, flat, and transposed") {
  LoDTensor<int> x(LoD::from_lengths({{3, 1, 2}, {3, 2, 4, 1, 2, 3}}), {});
  for (int row = 0; row < 15; ++row) x.data()[row] = row;
  const auto sentences = lod::remove_level(x, 0), articles = lod::remove_level(x, 1);
  CHECK(sentences.lod() == LoD::from_lengths({{3, 2, 4, 1, 2, 3}}));
  CHECK(articles.lod() == LoD::from_lengths({{9, 1, 5}}));
  CHECK(same_bits(lod::flatten(x), articles));
  CHECK(same_bits(lod::flatten(x, {.level = 1}), x));
  CHECK(lod::remove_level(articles, 0).levels() == 0);
  CHECK(same_bits(lod::insert_level(sentences, 0, LoD::from_lengths({{3, 1, 2}})), x));
  CHECK(same_bits(lod::insert_level(articles, 1, LoD::from_lengths({{3, 2, 4, 1, 2, 3}})), x));
  CHECK(same_bits(lod::insert_level(articles, -1, LoD::from_lengths({{3, 2, 4, 1, 2, 3}})), x));

  // The first sentences, the second ones, the third.
  const auto y = lod::transpose_levels(x);
  CHECK(y.lod() == LoD::from_lengths({{3, 2, 1}, {3, 1, 2, 2, 3, 4}}));
  CHECK(std::vector<int>(y.values().begin(), y.values().end()) ==
        std::vector<int>{0, 1, 2, 9, 10, 11, 3, 4, 12, 13, 14, 5, 6, 7, 8});
}

TEST_CASE("levels: agree with nested loops for slices of every type, depth and level, and come back") {
  for_each_type(AllTypes(), []<class T>(std::type_identity<T>) {
    for_each_random_lod(2, 1, 5, [](Engine& engine, const Lengths& lengths) {
      for (const std::int64_t row_size : {1, 3, 8, 17}) {
        const auto x = small_integers<T>(engine, LoD::from_lengths(lengths), {row_size});
        const auto slice = x.between(random_number(engine, 0, x.size() > 0), x.size());
        const LoD index = slice.lod();
        const lod::CpuExecutor executor(2);
        for (int level = 0; level < x.levels(); ++level) {
          INFO("level ", level, ", row size ", row_size);
          const auto y = lod::remove_level(executor, slice, level);
          check_tree(y, x.levels() - 1, reference_remove_level(tree_of(slice), level));
          const LoD removed = level > 0 ? two_levels(index, level) : one_level(index, level);
          CHECK(same_bits(lod::insert_level(executor, y, level, removed), slice));
          CHECK(same_bits(lod::remove_level_grad(executor, y, slice.lod_view()), slice));
          check_tree(lod::flatten(executor, slice, {.level = level}), level + 1,
                     reference_flatten(tree_of(slice), level, x.levels()));
        }
        const auto y = lod::transpose_levels(executor, slice);
        check_tree(y, x.levels(), reference_transpose(tree_of(slice)));
        CHECK(same_bits(lod::transpose_levels_grad(executor, y, slice.lod_view()), slice));
      }
    });
  });
}

TEST_CASE("insert_level: empty new sequences at a boundary belong to the one that begins there, or as two levels say") {
  const LoDTensor<float> x(LoD::from_lengths({{2, 0, 1}}), {2});
  // Cuts 0 0 2 2 3 3 under boundaries 0 2 2 3.
  const LoD cuts = LoD::from_lengths({{0, 2, 0, 1, 0}});
  CHECK(lod::insert_level(x, 1, cuts).lod() == LoD::from_lengths({{2, 0, 3}, {0, 2, 0, 1, 0}}));
  CHECK(lod::insert_level(x, 1, LoD::from_lengths({{2, 1, 2}, {0, 2, 0, 1, 0}})).lod() ==
        LoD::from_lengths({{2, 1, 2}, {0, 2, 0, 1, 0}}));
  CHECK(lod::insert_level(x, 1, LoD::from_lengths({{3, 0, 2}, {0, 2, 0, 1, 0}})).lod() ==
        LoD::from_lengths({{3, 0, 2}, {0, 2, 0, 1, 0}}));
  // A plain tensor is cut into sequences.
  CHECK(lod::insert_level(LoDTensor<float>({3, 2}), 0, LoD::from_lengths({{1, 0, 2}})).lod() ==
        LoD::from_lengths({{1, 0, 2}}));
}

TEST_CASE("levels: batches without sequences, and of empty ones only") {
  for (const auto& lengths : std::vector<Lengths>{{{}}, {{0}}, {{0, 0}}, {{}, {}}, {{0, 0}, {}}, {{2, 0}, {0, 0}}}) {
    const LoDTensor<float> x(LoD::from_lengths(lengths), {3});
    for (int level = 0; level < x.levels(); ++level) {
      const auto y = lod::remove_level(x, level);
      CHECK(y.levels() == x.levels() - 1);
      CHECK(y.row_shape() == x.row_shape());
      const LoD removed = level > 0 ? two_levels(x.lod(), level) : one_level(x.lod(), level);
      CHECK(same_bits(lod::insert_level(y, level, removed), x));
    }
    CHECK(lod::flatten(x).lod() == LoD::from_offsets({x.lod().absolute_offsets(0)}));
    const auto y = lod::transpose_levels(x);
    CHECK(y.size() == x.lod().max_length(0));
    CHECK(same_bits(lod::transpose_levels_grad(y, x.lod()), x));
  }
  const LoDTensor<float> plain({2, 3});
  CHECK(same_bits(lod::flatten(plain), plain));
}

TEST_CASE("levels: the same bits for any number of threads, and a second call allocates nothing") {
  Engine engine(4);
  const LoD flat = giant_among_short(engine, 500, 20000);
  const auto x = real_numbers<float>(engine, LoD::from_lengths({{200, 0, 300}, flat.lengths(0)}), {17});
  const auto transposed = lod::transpose_levels(lod::CpuExecutor(1), x);
  for (const int threads : thread_counts) {
    CAPTURE(threads);
    CountingResource resource;
    const lod::CpuExecutor executor(threads, &resource);
    const LoD inserted = LoD::from_lengths({{100, 100, 0, 300}});
    LoDTensor<float> y(&resource), z(&resource), dx(&resource), t(&resource), f(&resource);
    int before = -1;
    for (int call = 0; call < 2; ++call) {
      before = resource.allocations;
      lod::remove_level_into(executor, x, 1, y);
      lod::insert_level_into(executor, x, 1, inserted, z);
      lod::insert_level_grad_into(executor, z, x.lod(), dx);
      lod::remove_level_grad_into(executor, y, x.lod(), dx);
      lod::flatten_into(executor, x, f);
      lod::flatten_grad_into(executor, f, x.lod(), dx);
      lod::transpose_levels_into(executor, x, t);
      lod::transpose_levels_grad_into(executor, t, x.lod(), dx);
    }
    CHECK(resource.allocations == before);
    CHECK(before > 0);
    CHECK(same_bits(t, transposed));
    CHECK(same_bits(dx, x));
    CHECK(same_bits(f, y));
    CHECK(z.lod() == LoD::from_lengths({{2, 0, 2}, {100, 100, 0, 300}, flat.lengths(0)}));
  }
}

TEST_CASE("levels: gradients against differences") {
  Engine engine(12);
  for (const std::int64_t row_size : {1, 3, 8, 17}) {
    auto x = real_numbers<double>(engine, LoD::from_lengths({{2, 0, 1, 2}, {2, 0, 3, 1, 1}}), {row_size});
    check_gradient(
        engine, x, [&](const auto& at) { return lod::remove_level(at, 1); },
        [&](const auto& dy) { return lod::remove_level_grad(dy, x.lod()); });
    check_gradient(
        engine, x,
        [&](const auto& at) {
          return lod::insert_level(at, 0, LoD::from_lengths({{1, 3}}));
        },
        [&](const auto& dy) { return lod::insert_level_grad(dy, x.lod()); });
    check_gradient(
        engine, x, [&](const auto& at) { return lod::flatten(at); },
        [&](const auto& dy) { return lod::flatten_grad(dy, x.lod()); });
    check_gradient(
        engine, x, [&](const auto& at) { return lod::transpose_levels(at); },
        [&](const auto& dy) { return lod::transpose_levels_grad(dy, x.lod()); });
  }
}

TEST_CASE("levels: bad arguments throw and change nothing") {
  const LoDTensor<float> x(LoD::from_lengths({{2, 1}, {1, 0, 2}}), {2}), plain({3, 2});
  LoDTensor<float> y({1, 2});
  const lod::CpuExecutor executor(1);
  check_throws<lod::OutOfRange>([&] { lod::remove_level_into(executor, x, 2, y); }, "level 2 of a LoD with 2 levels",
                                y);
  check_throws<lod::InvalidLoD>([&] { lod::remove_level_into(executor, plain, 0, y); },
                                "remove_level: the tensor has no level", y);
  const auto insert = [&](int level, const Lengths& lengths) {
    return [&, level, lengths] { lod::insert_level_into(executor, x, level, LoD::from_lengths(lengths), y); };
  };
  check_throws<lod::OutOfRange>(insert(3, {{3}}), "insert_level: new level 3 in a LoD with 2 levels, expected -3 to 2",
                                y);
  check_throws<lod::OutOfRange>(insert(-4, {{3}}), "insert_level: new level -4 in a LoD with 2 levels", y);
  check_throws<lod::InvalidLoD>(insert(0, {{1}, {2}}), "insert_level: lod has 2 levels, expected 1", y);
  check_throws<lod::InvalidLoD>(insert(1, {}), "insert_level: lod has 0 levels, expected 1, or 2 with those above", y);
  check_throws<lod::InvalidLoD>(insert(0, {{1, 2}}),
                                "insert_level: lod is for 3 sequences or rows, but 2 are below the new level", y);
  check_throws<lod::InvalidLoD>(
      insert(1, {{1, 2}}), "insert_level: the sequences above have a boundary at 2 (position 1), where lod has none",
      y);
  check_throws<lod::InvalidLoD>(insert(1, {{1, 1}, {1, 2}}),
                                "insert_level: the sequences above have a boundary at 2 (position 1)", y);
  check_throws<lod::InvalidLoD>(insert(1, {{1, 1, 0}, {2, 1}}),
                                "insert_level: level 0 of lod has 3 sequences, expected 2, as many as are above", y);
  check_throws<lod::InvalidLoD>(
      [&] {
        lod::insert_level_into(executor, LoDTensor<float>(LoD::from_lengths({{}}), {2}), 1, LoD::from_lengths({{0, 0}}),
                               y);
      },
      "insert_level: lod has 2 sequences, but there is none above to which they could belong", y);
  check_throws<lod::OutOfRange>([&] { lod::flatten_into(executor, x, {.level = 2}, y); },
                                "level 2 of a LoD with 2 levels", y);
  check_throws<lod::ShapeMismatch>([&] { lod::flatten_grad_into(executor, plain, 2, y); },
                                   "flatten_grad: dy: 3 rows, expected 2", y);
  check_throws<lod::ShapeMismatch>([&] { lod::remove_level_grad_into(executor, plain, 2, y); },
                                   "remove_level_grad: dy: 3 rows, expected 2", y);
  check_throws<lod::ShapeMismatch>([&] { lod::insert_level_grad_into(executor, plain, 2, y); },
                                   "insert_level_grad: dy: 3 rows, expected 2", y);
  check_throws<lod::InvalidLoD>([&] { lod::transpose_levels_into(executor, plain, y); },
                                "transpose_levels: the tensor has no level", y);
  check_throws<lod::InvalidLoD>([&] { lod::transpose_levels_grad_into(executor, plain, x.lod(), y); },
                                "transpose_levels_grad: dy: the tensor has no level", y);
  check_throws<lod::InvalidLoD>([&] { lod::transpose_levels_grad_into(executor, x, 3, y); },
                                "transpose_levels_grad: x: the tensor has no level", y);
  check_throws<lod::ShapeMismatch>([&] { lod::transpose_levels_grad_into(executor, x, LoD::from_lengths({{3}}), y); },
                                   "transpose_levels_grad: the outermost level of dy is not that of x, transposed", y);

  LoDTensor<float> wrong(LoD::from_lengths({{2, 1}}), {2});
  check_throws<lod::ShapeMismatch>([&] { lod::remove_level_into(executor, x, 1, wrong.view()); },
                                   "and the levels of the result", wrong);
  check_throws<lod::ShapeMismatch>([&] { lod::flatten_into(executor, x, wrong.view()); },
                                   "and the levels of the result", wrong);
  check_throws<lod::ShapeMismatch>([&] { lod::transpose_levels_into(executor, x, wrong.view()); },
                                   "and the levels of the result", wrong);
}

TEST_CASE("infer_remove_level, ...: allow what the operations give, and refuse what they do") {
  for_each_random_batch<float>(0, {2}, [](Engine&, const lod::LoDTensor<float>& x) {
    check_inference(
        lod::flatten(x), [](const auto& desc) { return lod::infer_flatten(desc); }, describe(x));
    const auto ones = lod::LoD::from_lengths({std::vector<std::int64_t>(static_cast<std::size_t>(x.rows()), 1)});
    check_inference(
        lod::insert_level(x, -1, ones), [](const auto& a, const auto& b) { return lod::infer_insert_level(a, -1, b); },
        describe(x), described(ones));
    if (x.levels() == 0) return;
    const auto whole = lod::LoD::from_lengths({{x.size()}});
    check_inference(
        lod::insert_level(x, 0, whole), [](const auto& a, const auto& b) { return lod::infer_insert_level(a, 0, b); },
        describe(x), described(whole));
    check_inference(
        lod::transpose_levels(x), [](const auto& desc) { return lod::infer_transpose_levels(desc); }, describe(x));
    for (int level = 0; level < x.levels(); ++level) {
      const auto y = lod::remove_level(x, level);
      check_inference(
          y, [&](const auto& desc) { return lod::infer_remove_level(desc, level); }, describe(x));
      check_inferred(lod::remove_level_grad(y, x.lod()), describe(x));
      check_inference(
          lod::flatten(x, {.level = level}),
          [&](const auto& desc) { return lod::infer_flatten(desc, {.level = level}); }, describe(x));
    }
  });
  const auto plain = described(lod::DataType::FP32, {15, 2}), deep = described(lod::DataType::FP32, {15, 2}, 3);
  CHECK(lod::infer_remove_level(deep, -1) == described(lod::DataType::FP32, {15, 2}, 2));
  CHECK(lod::infer_insert_level(blank(plain), 0, described(lod::DataType::FP32, {15}, 1)) ==
        described(lod::DataType::FP32, {15, -1}, 1));
  CHECK(lod::infer_flatten(deep) == described(lod::DataType::FP32, {15, 2}, 1));
  CHECK(lod::infer_flatten(plain) == plain);
  CHECK(lod::infer_transpose_levels(deep) == deep);
  CHECK_THROWS_AS(lod::infer_remove_level(plain, 0), lod::InvalidLoD);
  CHECK_THROWS_AS(lod::infer_remove_level(deep, 3), lod::OutOfRange);
  CHECK_THROWS_AS(lod::infer_insert_level(deep, 4, described_list(15)), lod::OutOfRange);
  CHECK_THROWS_AS(lod::infer_flatten(deep, {.level = 3}), lod::OutOfRange);
  CHECK_THROWS_AS(lod::infer_transpose_levels(plain), lod::InvalidLoD);
  CHECK_THROWS_WITH_AS(lod::infer_insert_level(plain, 0, described(lod::DataType::FP32, {15}, 2)),
                       doctest::Contains("insert_level: lod has 2 levels, expected 1"), lod::InvalidLoD);
  CHECK_THROWS_WITH_AS(lod::infer_insert_level(plain, 0, described(lod::DataType::FP32, {14}, 1)),
                       doctest::Contains("insert_level: lod is for 14 sequences or rows, but 15 are below"),
                       lod::InvalidLoD);
}
