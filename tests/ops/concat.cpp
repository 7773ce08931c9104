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

namespace {

template <class T>
LoDTensor<T> random_depth(Engine& engine, int levels, std::int64_t row_size) {
  return random_tensor<T>(engine, levels == 0 ? Lengths() : RandomLoD{.levels = levels}.lengths(engine), row_size);
}

template <class T>
Tree<T> reference_join(const std::vector<Tree<T>>& trees) {
  Tree<T> joined;
  for (const auto& tree : trees) joined.parts.insert(joined.parts.end(), tree.parts.begin(), tree.parts.end());
  return joined;
}

}  // namespace

TEST_CASE("concat: batches one behind the other, at every level") {
  const auto a = LoDTensor<int>::from_nested(std::vector<std::vector<std::vector<int>>>{{{1, 2}, {3}}, {}});
  const auto b = LoDTensor<int>::from_nested(std::vector<std::vector<std::vector<int>>>{{{}, {4}}});
  CHECK(tree_of(lod::concat(a, b)) ==
        tree_of(LoDTensor<int>::from_nested(std::vector<std::vector<std::vector<int>>>{{{1, 2}, {3}}, {}, {{}, {4}}})));
  CHECK(tree_of(lod::concat(a[0][0], b[0][1], a[0][1])) ==
        tree_of(LoDTensor<int>::from_nested(std::vector<int>{1, 2, 4, 3})));
}

TEST_CASE("concat, split_at: agree with nested loops for slices of every type, depth and row size") {
  for_each_type(AllTypes(), []<class T>(std::type_identity<T>) {
    for (int levels = 0; levels <= 5; ++levels) {
      for (const std::int64_t row_size : {1, 3, 8, 17}) {
        INFO("LOD_TEST_SEED=", first_seed(), ": depth ", levels, ", row size ", row_size);
        Engine engine(first_seed() + static_cast<std::uint64_t>(levels));
        const auto a = random_depth<T>(engine, levels, row_size), b = random_depth<T>(engine, levels, row_size),
                   c = random_depth<T>(engine, levels, row_size);
        const std::vector<lod::LoDTensorView<const T>> views = {
            a.between(0, a.size()), b.between(b.size() / 2, b.size()), c.between(c.size() > 0, c.size())};
        const lod::CpuExecutor executor(2);
        const auto y = lod::concat(executor, views);
        check_tree(y, levels, reference_join<T>({tree_of(views[0]), tree_of(views[1]), tree_of(views[2])}));

        const std::vector<lod::BatchLevels> lods = {views[0].lod_view(), views[1].lod_view(), views[2].lod_view()};
        const auto parts = lod::concat_grad(executor, y, lods);
        const auto same = lod::split_at(executor, y, {views[0].size(), views[0].size() + views[1].size()});
        REQUIRE(parts.size() == 3);
        REQUIRE(same.size() == 3);
        for (std::size_t i = 0; i < 3; ++i) {
          CHECK(same_bits(parts[i], views[i]));
          CHECK(same_bits(same[i], views[i]));
        }
        for (const std::int64_t count : {1, 2, 5, 20}) {
          const auto shares = lod::split(executor, y, count);
          CHECK(static_cast<std::int64_t>(shares.size()) == count);
          CHECK(same_bits(lod::split_grad(executor, shares), y));
        }
      }
    }
  });
}

TEST_CASE("split: always so many parts, as even in rows as whole sequences allow") {
  Engine engine(2);
  const LoD index = LoD::from_lengths({{100, 1, 1, 98}});
  const auto x = real_numbers<float>(engine, index, {3});
  const auto halves = lod::split(x, 2);
  REQUIRE(halves.size() == 2);
  CHECK(halves[0].lod() == LoD::from_lengths({{100}}));
  CHECK(halves[1].lod() == LoD::from_lengths({{1, 1, 98}}));
  // The same cuts as those of the LoD alone.
  for (std::int64_t count = 1; count < 8; ++count) {
    const auto parts = lod::split(x, count);
    const auto lods = lod::split(index, count);
    REQUIRE(parts.size() == lods.size());
    for (std::size_t i = 0; i < parts.size(); ++i) CHECK(parts[i].lod() == lods[i]);
  }
  // A slice is cut by its own rows.
  CHECK(lod::split(x.between(1, 4), 2)[0].lod() == LoD::from_lengths({{1, 1}}));
  const auto rows = lod::split(real_numbers<float>(engine, {7, 2}), 3);
  // Shares end at 2 1/3 and 4 2/3 rows.
  CHECK(rows[0].rows() == 2);
  CHECK(rows[1].rows() == 3);
  CHECK(rows[2].rows() == 2);
  const auto none = lod::split(LoDTensor<float>(LoD::from_lengths({{}}), {3}), 4);
  REQUIRE(none.size() == 4);
  for (const auto& part : none) CHECK(part.lod() == LoD::from_lengths({{}}));
  CHECK_THROWS_WITH_AS(lod::split(x, 0), "split: into 0 parts, expected 1 or more", lod::OutOfRange);
  CHECK_THROWS_WITH_AS(lod::split(x, -2), "split: into -2 parts, expected 1 or more", lod::OutOfRange);
}

TEST_CASE("concat: arguments one by one, in a vector, a span, as tensors and as views, are the same") {
  Engine engine(3);
  const auto a = random_depth<float>(engine, 2, 3), b = random_depth<float>(engine, 2, 3);
  const auto expected = reference_join<float>({tree_of(a), tree_of(b)});
  const std::vector<LoDTensor<float>> tensors = {a, b};
  for_each_executor([&](const auto& executor) {
    check_tree(lod::concat(executor, a, b.view()), 2, expected);
    check_tree(lod::concat(executor, tensors), 2, expected);
    LoDTensor<float> y;
    lod::concat_into(executor, a, b, y);
    check_tree(y, 2, expected);
    lod::concat_into(executor, std::span<const LoDTensor<float>>(tensors), y.view());
    check_tree(y, 2, expected);
  });
  check_tree(lod::concat(tensors), 2, expected);
  CHECK(same_bits(lod::concat(a), a));
  const std::vector<LoD> lods = {a.lod(), b.lod()};
  const auto y = lod::concat(a, b);
  CHECK(same_bits(lod::concat_grad(y, lods)[1], b));
  CHECK(same_bits(lod::concat_grad(y, {a.lod(), b.lod()})[0], a));
  CHECK(lod::concat_grad(y.with_lod(LoD()), {y.rows(), std::int64_t{0}})[1].shape() == lod::Shape{0, 3});
}

TEST_CASE("concat, split: long batches are shared by threads, and a second call allocates nothing") {
  Engine engine(6);
  for (const std::int64_t row_size : {1, 17}) {
    const auto a = real_numbers<float>(engine, giant_among_short(engine, 2000, 50000), {row_size});
    const auto b = real_numbers<float>(engine, giant_among_short(engine, 2000, 3), {row_size});
    const auto expected = lod::concat(lod::CpuExecutor(1), a, b);
    const std::vector<LoD> lods = {a.lod(), b.lod()};
    for (const int threads : thread_counts) {
      CAPTURE(threads);
      CountingResource resource;
      const lod::CpuExecutor executor(threads, &resource);
      LoDTensor<float> y(&resource), dx(&resource);
      std::vector<LoDTensor<float>> parts(3, LoDTensor<float>(&resource)), shares(7, LoDTensor<float>(&resource)),
          both(2, LoDTensor<float>(&resource));
      int before = -1;
      for (int call = 0; call < 2; ++call) {
        before = resource.allocations;
        lod::concat_into(executor, a, b, y);
        lod::concat_grad_into(executor, y, lods, both);
        lod::split_at_into(executor, y, {5, 2000}, parts);
        lod::split_into(executor, y, 7, shares);
        lod::split_grad_into(executor, shares, dx);
      }
      CHECK(resource.allocations == before);
      CHECK(before > 0);
      CHECK(same_bits(y, expected));
      CHECK(same_bits(both[0], a));
      CHECK(same_bits(both[1], b));
      CHECK(same_bits(parts[1], a.between(5, 2000)));
      CHECK(same_bits(dx, expected));
    }
  }
}

TEST_CASE("concat, split_at: gradients against differences") {
  Engine engine(12);
  for (const std::int64_t row_size : {1, 3, 8, 17}) {
    std::vector<LoDTensor<double>> x;
    std::vector<LoD> lods;
    for (int i = 0; i < 3; ++i) {
      lods.push_back(LoD::from_lengths(RandomLoD{.levels = 2, .sequences = 3}.lengths(engine)));
      x.push_back(real_numbers<double>(engine, lods.back(), {row_size}));
    }
    for (std::size_t i = 0; i < 3; ++i) {
      check_gradient(
          engine, x[i],
          [&](const auto& at) {
            auto arguments = x;
            arguments[i] = at;
            return lod::concat(arguments);
          },
          [&](const auto& dy) { return lod::concat_grad(dy, lods)[i]; });
    }
    auto whole = real_numbers<double>(engine, LoD::from_lengths({{2, 0, 3}}), {row_size});
    check_gradient(
        engine, whole, [&](const auto& at) { return lod::split_at(at, {1})[1]; },
        [&](const auto& dy) {
          return lod::split_grad(
              std::vector<LoDTensor<double>>{LoDTensor<double>(LoD::from_lengths({{2}}), {row_size}), dy});
        });
  }
}

TEST_CASE("concat, split_at: bad arguments throw and change nothing") {
  const LoD one = LoD::from_lengths({{2, 1}});
  const LoDTensor<float> x(one, {2}), plain({3, 2}), wide(one, {3});
  LoDTensor<float> y({1, 2});
  const lod::CpuExecutor executor(1);
  check_throws<lod::InvalidLoD>([&] { lod::concat_into(executor, std::vector<LoDTensor<float>>(), y); },
                                "concat: nothing given, expected at least one tensor", y);
  check_throws<lod::InvalidLoD>([&] { lod::concat_into(executor, x, plain, y); },
                                "concat: tensor 1 has 0 levels, expected 1 as the first has", y);
  const LoDTensor<float> endless(lod::Shape{std::int64_t{1} << 62, 0});
  check_throws<lod::ShapeMismatch>([&] { lod::concat_into(executor, endless, endless, y); },
                                   "more sequences or rows than 64 bits count", y);
  check_throws<lod::ShapeMismatch>([&] { lod::concat_into(executor, x, x, wide, y); },
                                   "concat: tensor 2 has rows of shape {3}, expected {2} as the first has", y);
  std::vector<LoDTensor<float>> outputs(2);
  const std::vector<LoD> lods = {one, one};
  check_throws<lod::ShapeMismatch>([&] { lod::concat_grad_into(executor, x, lods, outputs); },
                                   "concat_grad: dy: 3 rows, expected 6", outputs[0]);
  check_throws<lod::ShapeMismatch>(
      [&] {
        lod::concat_grad_into(executor, plain, {plain.lod(), plain.lod()}, outputs);
      },
      "concat_grad: dy: 3 rows, expected 0 (a LoD without a level has no rows", outputs[0]);
  check_throws<lod::ShapeMismatch>([&] { lod::concat_grad_into(executor, x, std::vector<LoD>{one}, outputs); },
                                   "concat_grad: 2 outputs, expected 1, one for each batch", outputs[0]);
  check_throws<lod::OutOfRange>([&] { lod::split_at_into(executor, x, {3}, outputs); },
                                "split_at: boundary 3 at position 0, expected 0 to 2", outputs[0]);
  check_throws<lod::OutOfRange>(
      [&] {
        lod::split_at_into(executor, x, {2, 1}, outputs);
      },
      "split_at: boundary 1 at position 1, expected 2 to 2", outputs[0]);
  check_throws<lod::ShapeMismatch>(
      [&] {
        lod::split_at_into(executor, x, {1, 1}, outputs);
      },
      "split_at: 2 outputs, expected 3", outputs[0]);
  check_throws<lod::ShapeMismatch>([&] { lod::split_into(executor, x, 3, outputs); }, "split: 2 outputs, expected 3",
                                   outputs[0]);
  // The first output fits; still it is not touched where the second one does not.
  LoDTensor<float> first(LoD::from_lengths({{2}}), {2}), second(LoD::from_lengths({{2}}), {2}), third(one, {2});
  const std::vector<lod::LoDTensorView<float>> views = {first.view(), second.view()};
  check_throws<lod::ShapeMismatch>([&] { lod::split_at_into(executor, x, {1}, views); }, "and the levels of the result",
                                   first);
  const std::vector<lod::LoDTensorView<float>> grads = {third.view(), second.view()};
  check_throws<lod::ShapeMismatch>(
      [&] {
        lod::concat_grad_into(executor, LoDTensor<float>({6, 2}), lods, grads);
      },
      "and the levels of the result", third);
  check_throws<lod::ShapeMismatch>([&] { lod::concat_into(executor, x, x, third.view()); },
                                   "and the levels of the result", third);
}

TEST_CASE("infer_concat, infer_split: allow what the operations give, and know the rows where they follow") {
  for_each_random_batch<float>(0, {2}, [](Engine& engine, const lod::LoDTensor<float>& x) {
    check_inference(
        lod::concat(x, x), [](const auto& descs) { return lod::infer_concat(descs); },
        std::vector<lod::LoDTensorDesc>(2, describe(x)));
    const std::vector<std::int64_t> boundaries = {random_number(engine, 0, x.size()), x.size()};
    const auto parts = lod::split_at(x, boundaries), even = lod::split(x, 3);
    for (const auto& desc : {describe(x), blank(describe(x))}) {
      const auto inferred = lod::infer_split_at(desc, boundaries), inferred_even = lod::infer_split(desc, 3);
      REQUIRE(inferred.size() == parts.size());
      REQUIRE(inferred_even.size() == even.size());
      for (std::size_t i = 0; i < parts.size(); ++i) check_inferred(parts[i], inferred[i]);
      for (std::size_t i = 0; i < even.size(); ++i) check_inferred(even[i], inferred_even[i]);
    }
    check_inferred(lod::split_grad(parts), describe(x));
  });
  const auto plain = described(lod::DataType::UINT8, {10, 2}), deep = described(lod::DataType::UINT8, {10, 2}, 1);
  CHECK(lod::infer_concat({plain, plain}) == described(lod::DataType::UINT8, {20, 2}));
  CHECK(lod::infer_split_at(plain, {3, 3})[2] == described(lod::DataType::UINT8, {7, 2}));
  CHECK(lod::infer_split_at(blank(plain), {3, 4})[1] == described(lod::DataType::UINT8, {1, -1}));
  CHECK(lod::infer_split_at(deep, {3})[0] == described(lod::DataType::UINT8, {-1, 2}, 1));
  CHECK(lod::infer_split(deep, 1)[0] == deep);
  CHECK_THROWS_AS(lod::infer_concat({}), lod::InvalidLoD);
  CHECK_THROWS_AS(lod::infer_concat({plain, deep}), lod::InvalidLoD);
  CHECK_THROWS_WITH_AS(lod::infer_split_at(plain, {3, 11}),
                       doctest::Contains("split_at: boundary 11 at position 1, expected 3 to 10"), lod::OutOfRange);
  CHECK_THROWS_AS(lod::infer_split_at(deep, {3, 2}), lod::OutOfRange);
  CHECK_THROWS_AS(lod::infer_split(deep, 0), lod::OutOfRange);
}

TEST_CASE("split, concat: the cases of PaddlePaddle's tests, with empty batches") {
  Engine engine(7);
  const auto x = small_integers<float>(engine, LoD::from_offsets({{0, 2, 4, 5, 6}, {0, 1, 6, 8, 13, 15, 20}}), {});
  const LoDTensor<float> none(LoD::from_offsets({{0}, {0}}), {});
  for_each_executor([&](const auto& executor) {
    const auto parts = lod::split(executor, x, 2);
    REQUIRE(parts.size() == 2);
    CHECK(parts[0].lod() == LoD::from_offsets({{0, 2, 4}, {0, 1, 6, 8, 13}}));
    CHECK(parts[1].lod() == LoD::from_offsets({{0, 1, 2}, {0, 2, 7}}));
    CHECK(same_bits(parts[1], x.between(2, 4)));
    CHECK(same_bits(lod::concat(executor, parts[0], parts[1], none), x));
  });
  const auto empty = lod::split(LoDTensor<float>(LoD::from_offsets({{0}}), {5}), 2);
  REQUIRE(empty.size() == 2);
  for (const auto& part : empty) {
    CHECK(part.lod() == LoD::from_offsets({{0}}));
    CHECK(part.shape() == lod::Shape{0, 5});
  }
}
