// SPDX-License-Identifier: Apache-2.0
#include "support/check_throws.hpp"
#include "support/counting_resource.hpp"
#include "support/element_types.hpp"
#include "support/executors.hpp"
#include "support/gradient.hpp"
#include "support/inferred.hpp"
#include "support/random_batch.hpp"
#include "support/random_lod.hpp"
#include <lod/lod.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <numeric>
#include <type_traits>
#include <vector>

using lod::LoD;
using lod::LoDTensor;
using namespace lod_test;

TEST_CASE("lod_reset: the cases of PaddlePaddle's tests") {
  Engine engine(1);
  const auto x = real_numbers<float>(engine, LoD::from_lengths({{3, 2, 5}}), {20});
  const auto y = lod::lod_reset(x, LoD::from_offsets({{0, 7, 10}}));
  CHECK(y.lod() == LoD::from_lengths({{7, 3}}));
  CHECK(std::equal(y.values().begin(), y.values().end(), x.values().begin()));
  CHECK(y.data() != x.data());
  CHECK(lod::lod_reset(x, LoD::from_offsets({{0, 4, 7, 10}})).lod() == LoD::from_lengths({{4, 3, 3}}));
  const auto plain = lod::lod_reset(x, LoD());
  CHECK(plain.shape() == lod::Shape{10, 20});
  CHECK(plain.levels() == 0);

  std::vector<std::int64_t> offsets(11);
  std::iota(offsets.begin(), offsets.end(), 0);
  const auto appended = lod::lod_append(x, offsets);
  CHECK(appended.lod() == LoD::from_lengths({{3, 2, 5}, {1, 1, 1, 1, 1, 1, 1, 1, 1, 1}}));
  CHECK(std::equal(appended.values().begin(), appended.values().end(), x.values().begin()));
}

TEST_CASE("lod_append: takes offsets, and refuses what are lengths") {
  const auto x = LoDTensor<int>::from_nested(std::vector<int>{1, 2, 3, 4, 5, 6});
  CHECK(lod::lod_append(x, {0, 2, 2, 6}).lod() == LoD::from_lengths({{2, 0, 4}}));
  // The example of PaddlePaddle's documentation.
  CHECK_THROWS_WITH_AS(lod::lod_append(x, {1, 1, 1, 1, 1, 1}),
                       "lod_append: LoD: level 0, position 0: the first offset is 1, expected 0", lod::InvalidLoD);
}

TEST_CASE("lod_reset, lod_append: slices of every type and depth, on every executor, and back") {
  for_each_type(AllTypes(), []<class T>(std::type_identity<T>) {
    for_each_random_lod(2, 1, 5, [](Engine& engine, const Lengths& lengths) {
      const auto x = small_integers<T>(engine, LoD::from_lengths(lengths), {random_number(engine, 1, 9)});
      const auto slice = x.between(random_number(engine, 0, x.size() > 0), x.size());
      const LoD whole = LoD::from_lengths({{0, slice.rows(), 0}});
      // A new sequence for each row: the first takes two of them, if there are two, the second none.
      std::vector<std::int64_t> cuts(static_cast<std::size_t>(slice.rows()) + 1);
      std::iota(cuts.begin(), cuts.end(), 0);
      if (cuts.size() > 2) cuts[1] = 2;
      const LoD longer = slice.lod().append_level(cuts);
      for_each_executor([&](const auto& executor) {
        const auto y = lod::lod_reset(executor, slice, whole);
        CHECK(y.lod() == whole);
        CHECK(same_bits(lod::lod_reset_grad(executor, y, slice.lod_view()), slice));
        const auto z = lod::lod_append(executor, slice, cuts);
        CHECK(z.lod() == longer);
        CHECK(same_bits(lod::lod_append_grad(executor, z, slice.lod_view()), slice));
      });
    });
  });
}

TEST_CASE("lod_reset, lod_append: gradients against differences, and a second call allocates nothing") {
  Engine engine(3);
  const LoD index = LoD::from_lengths({{2, 0, 1}}), other = LoD::from_lengths({{0, 3}});
  for (const std::int64_t row_size : {1, 3, 8, 17}) {
    auto x = real_numbers<double>(engine, index, {row_size});
    check_gradient(
        engine, x, [&](const auto& at) { return lod::lod_reset(at, other); },
        [&](const auto& dy) { return lod::lod_reset_grad(dy, index); });
    check_gradient(
        engine, x,
        [&](const auto& at) {
          return lod::lod_append(at, {0, 1, 1, 3});
        },
        [&](const auto& dy) { return lod::lod_append_grad(dy, index); });
    auto plain = real_numbers<double>(engine, {3, row_size});
    check_gradient(
        engine, plain, [&](const auto& at) { return lod::lod_reset(at, other); },
        [&](const auto& dy) { return lod::lod_reset_grad(dy, 3); });
  }
  for (const int threads : thread_counts) {
    CAPTURE(threads);
    const auto x = real_numbers<float>(engine, {30000, 3});
    const LoD halves = LoD::from_lengths({{10000, 20000}});
    CountingResource resource;
    const lod::CpuExecutor executor(threads, &resource);
    LoDTensor<float> y(&resource), z(&resource), dx(&resource);
    int before = -1;
    for (int call = 0; call < 2; ++call) {
      before = resource.allocations;
      lod::lod_reset_into(executor, x, halves, y);
      lod::lod_append_into(executor, x, {0, 5000, 30000}, z);
      lod::lod_reset_grad_into(executor, y, 30000, dx);
      lod::lod_append_grad_into(executor, z, 30000, dx);
    }
    CHECK(resource.allocations == before);
    CHECK(before > 0);
  }
}

TEST_CASE("lod_reset, lod_append: bad arguments throw and change nothing") {
  const LoDTensor<float> x(LoD::from_lengths({{2, 1}}), {2});
  LoDTensor<float> y({1, 2}), wrong(LoD::from_lengths({{1, 2}}), {2});
  const lod::CpuExecutor executor(1);
  check_throws<lod::ShapeMismatch>([&] { lod::lod_reset_into(executor, x, LoD::from_lengths({{2}}), y); },
                                   "the LoD is for 2 rows, but there are 3", y);
  check_throws<lod::InvalidLoD>(
      [&] {
        lod::lod_append_into(executor, x, {0, 2, 1, 3}, y);
      },
      "LoD: level 1, position 2: offset 1 follows 2", y);
  check_throws<lod::InvalidLoD>([&] { lod::lod_append_into(executor, x, std::vector<std::int64_t>(), y); },
                                "LoD: level 1 has no offset", y);
  check_throws<lod::InvalidLoD>(
      [&] {
        lod::lod_append_into(executor, x, {0, 3}, y);
      },
      "LoD: level 0 covers 3 sequences of the next level, but level 1 has 1", y);
  check_throws<lod::ShapeMismatch>(
      [&] {
        lod::lod_append_into(executor, x, {0, 1, 2, 5}, y);
      },
      "lod_append: x: 3 rows, expected 5", y);
  check_throws<lod::ShapeMismatch>([&] { lod::lod_reset_grad_into(executor, x, 2, y); },
                                   "lod_reset_grad: dy: 3 rows, expected 2", y);
  check_throws<lod::ShapeMismatch>([&] { lod::lod_reset_into(executor, x, LoD::from_lengths({{3}}), wrong.view()); },
                                   "and the levels of the result", wrong);
  check_throws<lod::ShapeMismatch>(
      [&] {
        lod::lod_append_into(executor, x, {0, 1, 2, 3}, wrong.view());
      },
      "and the levels of the result", wrong);
}

TEST_CASE("infer_lod_reset, infer_lod_append: allow what the operations give, and refuse what they do") {
  for_each_random_batch<float>(0, {2}, [](Engine&, const lod::LoDTensor<float>& x) {
    const auto whole = lod::LoD::from_lengths({{x.rows()}});
    check_inference(
        lod::lod_reset(x, whole), [](const auto& a, const auto& b) { return lod::infer_lod_reset(a, b); }, describe(x),
        described(whole));
    std::vector<std::int64_t> offsets;
    for (std::int64_t row = 0; row <= x.rows(); ++row) offsets.push_back(row);
    const auto y = lod::lod_append(x, offsets);
    check_inference(
        y, [](const auto& a, const auto& b) { return lod::infer_lod_append(a, b); }, describe(x),
        described_list(x.rows() + 1));
    if (x.levels() > 0) check_inferred(lod::lod_append_grad(y, x.lod()), describe(x));
  });
  const auto x = described(lod::DataType::FP32, {-1, 2}, 3);
  CHECK(lod::infer_lod_reset(x, described(lod::DataType::BOOL, {15}, 1)) == described(lod::DataType::FP32, {15, 2}, 1));
  CHECK(lod::infer_lod_reset(x, described(lod::DataType::BOOL, {15})) == described(lod::DataType::FP32, {-1, 2}));
  CHECK(lod::infer_lod_append(x, described_list(16)) == described(lod::DataType::FP32, {15, 2}, 4));
  CHECK_THROWS_AS(lod::infer_lod_append(x, described_list(0)), lod::InvalidLoD);
  CHECK_THROWS_AS(lod::infer_lod_append(described(lod::DataType::FP32, {3}, 1), described_list(3)), lod::InvalidLoD);
  CHECK_THROWS_AS(lod::infer_lod_append(x, described_list(3, lod::DataType::INT32)), lod::ShapeMismatch);
  CHECK_THROWS_WITH_AS(
      lod::infer_lod_reset(described(lod::DataType::FP32, {3}), described(lod::DataType::FP32, {4}, 1)),
      doctest::Contains("lod_reset: x: 3 rows, expected 4"), lod::ShapeMismatch);
}
