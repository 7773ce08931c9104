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

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

using lod::LoD;
using lod::LoDTensor;
using namespace lod_test;

namespace {

/// A batch with as many outermost sequences as `size`, like the random ones otherwise.
LoD batch_of(Engine& engine, int levels, std::int64_t size) {
  Lengths lengths;
  for (int level = 0; level < levels; ++level) {
    auto& next = lengths.emplace_back();
    std::int64_t below = 0;
    for (std::int64_t i = 0; i < size; ++i) {
      next.push_back(random_number(engine, 0, 3));
      below += next.back();
    }
    size = below;
  }
  return LoD::from_lengths(lengths);
}

}  // namespace

TEST_CASE("sequence_concat: words of sentences, and sentences of articles") {
  const auto a = LoDTensor<int>::from_nested(std::vector<std::vector<std::vector<int>>>{{{1, 2}, {3}}, {}});
  const auto b = LoDTensor<int>::from_nested(std::vector<std::vector<std::vector<int>>>{{{}, {4}}, {{5, 6}}});
  const auto y = lod::sequence_concat(a, b);
  CHECK(tree_of(y) == tree_of(LoDTensor<int>::from_nested(
                          std::vector<std::vector<std::vector<int>>>{{{1, 2}, {3}, {}, {4}}, {{5, 6}}})));
  const auto words = lod::sequence_concat(a[0], b[0]);
  CHECK(tree_of(words) == tree_of(LoDTensor<int>::from_nested(std::vector<std::vector<int>>{{1, 2}, {3, 4}})));
}

TEST_CASE("sequence_concat: agrees with nested loops for slices of every type, depth and row size") {
  for_each_type(AllTypes(), []<class T>(std::type_identity<T>) {
    for (int levels = 1; levels <= 5; ++levels) {
      for (const std::int64_t row_size : {1, 3, 8, 17, 64}) {
        const auto seed = first_seed() + static_cast<std::uint64_t>(levels);
        INFO("LOD_TEST_SEED=", first_seed(), ": depth ", levels, ", row size ", row_size);
        Engine engine(seed);
        const std::int64_t size = random_number(engine, 0, 5);
        const auto a = small_integers<T>(engine, batch_of(engine, levels, size + 2), {row_size});
        const auto b = small_integers<T>(engine, batch_of(engine, levels, size), {row_size});
        const auto c = small_integers<T>(engine, batch_of(engine, levels, size + 1), {row_size});
        using View = lod::LoDTensorView<const T>;
        const std::vector<View> views = {a.between(1, size + 1), b, c.between(1, size + 1)};
        const auto y = lod::sequence_concat(lod::CpuExecutor(2), views);
        check_tree(y, levels, reference_concat<T>({tree_of(views[0]), tree_of(views[1]), tree_of(views[2])}));
        const std::vector<LoD> lods = {views[0].lod(), views[1].lod(), views[2].lod()};
        const auto parts = lod::sequence_concat_grad(lod::CpuExecutor(2), y, lods);
        REQUIRE(parts.size() == 3);
        for (std::size_t i = 0; i < 3; ++i) CHECK(same_bits(parts[i], views[i]));
      }
    }
  });
}

TEST_CASE("sequence_concat: arguments one by one, in a vector, a span, as tensors and as views, are the same") {
  Engine engine(3);
  const auto a = small_integers<float>(engine, batch_of(engine, 2, 4), {3});
  const auto b = small_integers<float>(engine, batch_of(engine, 2, 4), {3});
  const auto expected = reference_concat<float>({tree_of(a), tree_of(b)});
  const std::vector<LoDTensor<float>> tensors = {a, b};
  for_each_executor([&](const auto& executor) {
    check_tree(lod::sequence_concat(executor, a, b.view()), 2, expected);
    check_tree(lod::sequence_concat(executor, tensors), 2, expected);
    LoDTensor<float> y;
    lod::sequence_concat_into(executor, a, b, y);
    check_tree(y, 2, expected);
    lod::sequence_concat_into(executor, std::span<const LoDTensor<float>>(tensors), y.view());
    check_tree(y, 2, expected);
  });
  check_tree(lod::sequence_concat(tensors), 2, expected);
  CHECK(same_bits(lod::sequence_concat(a), a));
}

TEST_CASE("sequence_concat: the cases of PaddlePaddle's tests") {
  Engine engine(5);
  const std::vector<std::vector<std::vector<std::int64_t>>> cases = {
      {{7, 3}, {12, 8}}, {{10, 0}, {12, 8}}, {{10, 0}, {20, 0}}, {{0, 10}, {0, 20}}, {{0, 10}, {20, 0}}};
  for (const auto& one : cases) {
    const auto a = small_integers<float>(engine, LoD::from_lengths({one[0]}), {80});
    const auto b = small_integers<float>(engine, LoD::from_lengths({one[1]}), {80});
    for_each_executor([&](const auto& executor) {
      check_tree(lod::sequence_concat(executor, a, b), 1, reference_concat<float>({tree_of(a), tree_of(b)}));
    });
  }
}

TEST_CASE("sequence_concat: batches without sequences, of empty ones only, and rows without elements") {
  for (const auto& lengths : std::vector<Lengths>{{{}}, {{0}}, {{0, 0}}, {{}, {}}, {{0, 0}, {}}}) {
    const LoDTensor<float> x(LoD::from_lengths(lengths), {3});
    const auto y = lod::sequence_concat(x, x);
    CHECK(same_bits(y, x));
    const std::vector<LoD> lods = {x.lod(), x.lod()};
    for (const auto& dx : lod::sequence_concat_grad(y, lods)) CHECK(same_bits(dx, x));
  }
  const LoDTensor<float> x(LoD::from_lengths({{2, 1}}), {0});
  CHECK(lod::sequence_concat(x, x).shape() == lod::Shape{6, 0});
}

TEST_CASE("sequence_concat: long sequences are shared by threads") {
  Engine engine(6);
  for (const std::int64_t row_size : {1, 17}) {
    const auto a = real_numbers<float>(engine, giant_among_short(engine, 2000, 50000), {row_size});
    const auto b = real_numbers<float>(engine, giant_among_short(engine, 2000, 3), {row_size});
    const auto expected = reference_concat<float>({tree_of(a), tree_of(b)});
    const std::vector<LoD> lods = {a.lod(), b.lod()};
    for_each_executor([&](const auto& executor) {
      const auto y = lod::sequence_concat(executor, a, b);
      check_tree(y, 1, expected);
      const auto parts = lod::sequence_concat_grad(executor, y, lods);
      CHECK(same_bits(parts[0], a));
      CHECK(same_bits(parts[1], b));
    });
  }
}

TEST_CASE("sequence_concat_grad: agrees with differences, for each argument") {
  Engine engine(12);
  std::vector<LoDTensor<double>> x;
  std::vector<LoD> lods;
  for (int i = 0; i < 3; ++i) {
    lods.push_back(batch_of(engine, 2, 3));
    x.push_back(real_numbers<double>(engine, lods.back(), {2}));
  }
  for (std::size_t i = 0; i < 3; ++i) {
    INFO("argument ", i);
    check_gradient(
        engine, x[i],
        [&](const auto& at) {
          auto arguments = x;
          arguments[i] = at;
          return lod::sequence_concat(arguments);
        },
        [&](const auto& dy) { return lod::sequence_concat_grad(dy, lods)[i]; });
  }
  const auto y = lod::sequence_concat(x);
  const auto dxs = lod::sequence_concat_grad(y, {lods[0], lods[1], lods[2]});
  for_each_executor([&](const auto& executor) {
    std::vector<LoDTensor<double>> outputs(3);
    lod::sequence_concat_grad_into(executor, y, {lods[0], lods[1], lods[2]}, outputs);
    for (std::size_t i = 0; i < 3; ++i) {
      CHECK(same_bits(dxs[i], x[i]));
      CHECK(same_bits(outputs[i], x[i]));
    }
  });
}

TEST_CASE("sequence_concat: bad arguments throw and change nothing") {
  const LoD one = LoD::from_lengths({{2, 1}});
  const LoDTensor<float> x(one, {2}), plain({3, 2}), three(LoD::from_lengths({{1, 1, 1}}), {2}),
      deep(LoD::from_lengths({{1, 1}, {2, 1}}), {2}), wide(one, {3});
  LoDTensor<float> y({1, 2});
  const lod::CpuExecutor executor(1);
  check_throws<lod::InvalidLoD>([&] { lod::sequence_concat_into(executor, std::vector<LoDTensor<float>>(), y); },
                                "sequence_concat: nothing given, expected at least one tensor", y);
  check_throws<lod::InvalidLoD>([&] { lod::sequence_concat_into(executor, plain, plain, y); },
                                "sequence_concat: tensor 0 has 0 levels, expected at least one", y);
  check_throws<lod::InvalidLoD>([&] { lod::sequence_concat_into(executor, x, deep, y); },
                                "sequence_concat: tensor 1 has 2 levels, expected 1 as the first has", y);
  check_throws<lod::ShapeMismatch>([&] { lod::sequence_concat_into(executor, x, x, three, y); },
                                   "sequence_concat: tensor 2 has 3 sequences, expected 2 as the first has", y);
  check_throws<lod::ShapeMismatch>([&] { lod::sequence_concat_into(executor, x, wide, y); },
                                   "sequence_concat: tensor 1 has rows of shape {3}, expected {2} as the first has", y);

  std::vector<LoDTensor<float>> outputs(2);
  const auto grad = [&](const std::vector<LoD>& lods) {
    return [&, lods] { lod::sequence_concat_grad_into(executor, LoDTensor<float>({6, 2}), lods, outputs); };
  };
  check_throws<lod::InvalidLoD>(grad({}), "sequence_concat_grad: no LoD given", outputs[0]);
  check_throws<lod::InvalidLoD>(grad({LoD(), LoD()}), "LoD 0 has 0 levels, expected at least one", outputs[0]);
  check_throws<lod::InvalidLoD>(grad({one, deep.lod()}), "LoD 1 has 2 levels, expected 1 as the first has", outputs[0]);
  check_throws<lod::ShapeMismatch>(grad({one, three.lod()}), "LoD 1 has 3 sequences, expected 2", outputs[0]);
  check_throws<lod::ShapeMismatch>(grad({one}), "sequence_concat_grad: dy: 6 rows, expected 3", outputs[0]);
  check_throws<lod::ShapeMismatch>(grad({one, LoD::from_lengths({{1, 1}}), LoD::from_lengths({{1, 0}})}),
                                   "2 outputs, expected 3, one for each LoD", outputs[0]);
}

TEST_CASE("sequence_concat: views as outputs must have the shape and the levels of the results") {
  Engine engine(2);
  const LoD one = LoD::from_lengths({{2, 1}});
  const auto a = small_integers<float>(engine, one, {2}), b = small_integers<float>(engine, one, {2});
  const lod::CpuExecutor executor(1);
  LoDTensor<float> y(LoD::from_lengths({{4, 2}}), {2}), wrong(LoD::from_lengths({{3, 3}}), {2});
  lod::sequence_concat_into(executor, a, b, y.view());
  CHECK(same_bits(y, lod::sequence_concat(a, b)));
  check_throws<lod::ShapeMismatch>([&] { lod::sequence_concat_into(executor, a, b, wrong.view()); },
                                   "and the levels of the result", wrong);
  // The first output fits; still it is not touched where the second one does not.
  LoDTensor<float> first(one, {2}), second(LoD::from_lengths({{1, 2}}), {2});
  const std::vector<LoD> lods = {one, one};
  const std::vector<lod::LoDTensorView<float>> outputs = {first.view(), second.view()};
  check_throws<lod::ShapeMismatch>([&] { lod::sequence_concat_grad_into(executor, y, lods, outputs); },
                                   "and the levels of the result", first);
  LoDTensor<float> other(one, {2});
  lod::sequence_concat_grad_into(executor, y, lods, std::vector<lod::LoDTensorView<float>>{first.view(), other.view()});
  CHECK(same_bits(first, a));
  CHECK(same_bits(other, b));
}

TEST_CASE("infer_sequence_concat: allows what the operation gives, and joins what is known") {
  for_each_random_batch<float>(1, {2}, [](Engine&, const lod::LoDTensor<float>& x) {
    const std::vector<lod::LoDTensor<float>> xs = {x, x, x};
    const auto y = lod::sequence_concat(xs);
    check_inference(
        y, [](const auto& descs) { return lod::infer_sequence_concat(descs); },
        std::vector<lod::LoDTensorDesc>(3, describe(x)));
    const std::vector<lod::LoD> lods(3, x.lod());
    for (const auto& dx : lod::sequence_concat_grad(y, lods)) check_inferred(dx, describe(x));
  });
  const auto a = described(lod::DataType::FP32, {3, -1, 5}, 2), b = described(lod::DataType::FP32, {4, 7, -1}, 2);
  CHECK(lod::infer_sequence_concat({a, b}) == described(lod::DataType::FP32, {7, 7, 5}, 2));
  CHECK(lod::infer_sequence_concat({a, blank(b)}) == described(lod::DataType::FP32, {-1, -1, 5}, 2));
  CHECK_THROWS_AS(lod::infer_sequence_concat({}), lod::InvalidLoD);
  CHECK_THROWS_AS(lod::infer_sequence_concat({described(lod::DataType::FP32, {3}, 0)}), lod::InvalidLoD);
  CHECK_THROWS_WITH_AS(lod::infer_sequence_concat({a, described(lod::DataType::FP32, {3, 7, 5}, 1)}),
                       doctest::Contains("sequence_concat: tensor 1 has 1 levels, expected 2"), lod::InvalidLoD);
  CHECK_THROWS_WITH_AS(lod::infer_sequence_concat({a, described(lod::DataType::FP32, {3, 7, 6}, 2)}),
                       doctest::Contains("sequence_concat: rows of shape {7, 6}, expected {-1, 5}"),
                       lod::ShapeMismatch);
  CHECK_THROWS_AS(lod::infer_sequence_concat({a, described(lod::DataType::FP64, {3, 7, 5}, 2)}), lod::ShapeMismatch);
}
