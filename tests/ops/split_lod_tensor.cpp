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
#include "support/same_bits.hpp"
#include <lod/lod.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

using lod::LoD;
using lod::LoDTensor;
using namespace lod_test;
using Mask = std::vector<bool>;
using Numbers = std::vector<std::int64_t>;

namespace {

template <class T>
Tree<T> part(const std::vector<Tree<T>>& sequences, const Mask& mask, bool kept) {
  Tree<T> chosen;
  for (std::size_t i = 0; i < mask.size(); ++i) {
    if (mask[i] == kept) chosen.parts.push_back(sequences[i]);
  }
  return chosen;
}

}  // namespace

TEST_CASE("split_lod_tensor: the worked examples of PaddlePaddle's tests") {
  const auto x = counted_rows({{3, 6, 1}});
  const auto [in_true, in_false] = lod::split_lod_tensor(x, {false, true, false});
  CHECK(values_of(in_true) == Numbers{3, 4, 5, 6, 7, 8});
  CHECK(in_true.lod() == LoD::from_lengths({{6}}));
  CHECK(values_of(in_false) == Numbers{0, 1, 2, 9});
  CHECK(in_false.lod() == LoD::from_lengths({{3, 1}}));

  const auto rows = counted_rows({}, 10);
  const auto branches = lod::split_lod_tensor(rows, Numbers{0, 0, 1, 1, 1, 1, 0, 0, 0, 0});
  CHECK(values_of(branches.in_true) == Numbers{2, 3, 4, 5});
  CHECK(values_of(branches.in_false) == Numbers{0, 1, 6, 7, 8, 9});
  CHECK(branches.in_true.levels() == 0);
}

TEST_CASE("merge_lod_tensor: what follows an empty sequence in its branch is not lost") {
  // PaddlePaddle's reads the empty sequence again, for all that follow it.
  const auto x = counted_rows({{2, 0, 3, 0, 1, 4}});
  for (const Mask& mask : {Mask{true, true, true, false, true, true}, Mask{false, true, false, true, false, true},
                           Mask(6, true), Mask(6, false)}) {
    const auto [in_true, in_false] = lod::split_lod_tensor(x, mask);
    CHECK(same_bits(lod::merge_lod_tensor(in_true, in_false, mask), x));
  }
}

TEST_CASE("merge_lod_tensor: at an inner level, the levels above come in their order") {
  // PaddlePaddle's puts them the other way round, from level 2 on.
  const auto x = counted_rows({{2, 1}, {1, 0, 2}, {2, 1, 0}});
  const Mask mask = {true, false, true};
  const auto [in_true, in_false] = lod::split_lod_tensor(x, mask, {.level = 2});
  CHECK(in_true.lod() == LoD::from_lengths({{2, 0}}));
  CHECK(in_false.lod() == LoD::from_lengths({{1}}));
  CHECK(same_bits(lod::merge_lod_tensor(in_true, in_false, mask, {.level = 2, .lod = x.lod()}), x));
  // Without the LoD's levels above: the sequences alone.
  CHECK(lod::merge_lod_tensor(in_true, in_false, mask).lod() == LoD::from_lengths({{2, 1, 0}}));
}

TEST_CASE("merge_lod_tensor: the options that split, negative levels too, undo the split") {
  const Mask mask = {true, false, true};
  for_each_executor([&](const auto& executor) {
    for (const auto& x :
         {counted_rows({{1, 0, 2}}), counted_rows({{2, 1}, {1, 0, 2}, {2, 1, 0}}), LoDTensor<std::int64_t>({3})}) {
      const auto [in_true, in_false] = lod::split_lod_tensor(executor, x, mask, {.level = -1});
      const lod::MergeBranchOptions options{.level = -1, .lod = x.lod()};
      CHECK(same_bits(lod::merge_lod_tensor(executor, in_true, in_false, mask, options), x));
      CHECK(lod::infer_merge_lod_tensor(lod::describe(in_true), lod::describe(in_false), described_list(3), options)
                .lod_level == x.levels());
    }
  });
}

TEST_CASE("split_lod_tensor, merge_lod_tensor: options may be left out") {
  const auto x = counted_rows({{2, 0, 3}});
  const auto split = lod::split_lod_tensor(x, {true, false, true});
  for_each_executor([&](const auto& executor) {
    decltype(split.in_true) in_true, in_false, y;
    lod::split_lod_tensor_into(executor, x, {true, false, true}, in_true, in_false);
    CHECK(same_bits(in_true, split.in_true));
    lod::merge_lod_tensor_into(executor, in_true, in_false, {true, false, true}, y);
    CHECK(same_bits(y, x));
    lod::merge_lod_tensor_grad_into(executor, x, {true, false, true}, in_true, in_false);
    CHECK(same_bits(in_false, split.in_false));
    lod::split_lod_tensor_grad_into(executor, in_true, in_false, {true, false, true}, y);
    CHECK(same_bits(y, x));
  });
}

TEST_CASE("merge_lod_tensor: branches that changed what their sequences hold") {
  const auto x = counted_rows({{3, 6, 0, 1}});
  const Mask mask = {false, true, true, false};
  const auto [in_true, in_false] = lod::split_lod_tensor(x, mask);
  const auto twice = lod::sequence_concat(in_true, in_true);
  const auto y = lod::merge_lod_tensor(twice, in_false, mask);
  CHECK(y.lod() == LoD::from_lengths({{3, 12, 0, 1}}));
  // Rows, one a sequence.
  const auto rows = lod::merge_lod_tensor(lod::sequence_pool(in_true, lod::PoolType::SUM),
                                          lod::sequence_pool(in_false, lod::PoolType::FIRST), mask);
  CHECK(values_of(rows) == Numbers{0, 33, 0, 9});
  // Rows under the levels above them.
  CHECK(lod::merge_lod_tensor(rows.between(1, 3), lod::select(rows, {0, 3}), mask,
                              {.level = 1, .lod = LoD::from_lengths({{1, 3}})})
            .lod() == LoD::from_lengths({{1, 3}}));
}

TEST_CASE("split_lod_tensor: agrees with nested loops for slices of every type, depth and level, and comes back") {
  for_each_type(AllTypes(), []<class T>(std::type_identity<T>) {
    for_each_random_lod(2, 0, 5, [](Engine& engine, const Lengths& lengths) {
      for (const std::int64_t row_size : {1, 3, 8, 17}) {
        const auto x = lengths.empty() ? small_integers<T>(engine, {random_number(engine, 0, 6), row_size})
                                       : small_integers<T>(engine, LoD::from_lengths(lengths), {row_size});
        const auto slice = x.between(random_number(engine, 0, x.size() > 0), x.size());
        for (int level = 0; level < std::max(x.levels(), 1); ++level) {
          INFO("level ", level, ", row size ", row_size);
          const auto sequences = sequences_of(tree_of(slice), level);
          const Mask mask = random_mask(engine, static_cast<std::int64_t>(sequences.size()));
          const lod::CpuExecutor executor(2);
          const auto [in_true, in_false] = lod::split_lod_tensor(executor, slice, mask, {.level = level});
          const int levels = std::max(x.levels() - level, 0);
          check_tree(in_true, levels, part(sequences, mask, true));
          check_tree(in_false, levels, part(sequences, mask, false));
          CHECK(same_bits(
              lod::merge_lod_tensor(executor, in_true, in_false, mask, {.level = level, .lod = slice.lod()}), slice));
        }
      }
    });
  });
}

TEST_CASE("split_lod_tensor: no sequences, and empty ones only") {
  for (const auto& lengths : std::vector<Lengths>{{{}}, {{0}}, {{0, 0}}, {{}, {}}, {{0, 0}, {}}, {{2, 0}, {0, 0}}}) {
    const LoDTensor<float> x(LoD::from_lengths(lengths), {3});
    for (int level = 0; level < x.levels(); ++level) {
      const Mask mask(static_cast<std::size_t>(x.lod().size(level)), true);
      const auto [in_true, in_false] = lod::split_lod_tensor(x, mask, {.level = level});
      CHECK(in_false.size() == 0);
      CHECK(in_false.levels() == x.levels() - level);
      CHECK(in_false.row_shape() == x.row_shape());
      CHECK(same_bits(lod::merge_lod_tensor(in_true, in_false, mask, {.level = level, .lod = x.lod()}), x));
    }
  }
}

TEST_CASE("split_lod_tensor: the same bits for any number of threads, and a second call allocates nothing") {
  Engine engine(4);
  const LoD flat = giant_among_short(engine, 500, 20000);
  const auto x = real_numbers<float>(engine, LoD::from_lengths({{200, 0, 300}, flat.lengths(0)}), {17});
  const Mask mask = random_mask(engine, 500);
  const auto expected = lod::split_lod_tensor(lod::CpuExecutor(1), x, mask, {.level = 1});
  for (const int threads : thread_counts) {
    CAPTURE(threads);
    CountingResource resource;
    const lod::CpuExecutor executor(threads, &resource);
    LoDTensor<float> in_true(&resource), in_false(&resource), y(&resource);
    LoDTensor<float> dtrue(&resource), dfalse(&resource), dx(&resource);
    const lod::MergeBranchOptions back{.level = 1, .lod = x.lod()};
    int before = -1;
    for (int call = 0; call < 2; ++call) {
      before = resource.allocations;
      lod::split_lod_tensor_into(executor, x, mask, {.level = 1}, in_true, in_false);
      lod::merge_lod_tensor_into(executor, in_true, in_false, mask, back, y);
      lod::merge_lod_tensor_grad_into(executor, y, mask, {.level = 1}, dtrue, dfalse);
      lod::split_lod_tensor_grad_into(executor, dtrue, dfalse, mask, back, dx);
    }
    CHECK(resource.allocations == before);
    CHECK(before > 0);
    CHECK(same_bits(dx, x));
    CHECK(same_bits(in_true, expected.in_true));
    CHECK(same_bits(in_false, expected.in_false));
    CHECK(same_bits(y, x));
  }
}

TEST_CASE("split_lod_tensor, merge_lod_tensor: gradients against differences") {
  Engine engine(12);
  for (const std::int64_t row_size : {1, 3, 8, 17}) {
    auto x = real_numbers<double>(engine, LoD::from_lengths({{2, 0, 2}, {2, 0, 3, 1}}), {row_size});
    const Mask mask = {true, false, false, true};
    const lod::SplitBranchOptions split{.level = 1};
    const lod::MergeBranchOptions merge{.level = 1, .lod = x.lod()};
    auto [in_true, in_false] = lod::split_lod_tensor(x, mask, split);
    const LoDTensor<double> no_true(in_true.lod(), {row_size}), no_false(in_false.lod(), {row_size});
    check_gradient(
        engine, x, [&](const auto& at) { return lod::split_lod_tensor(at, mask, split).in_true; },
        [&](const auto& dy) { return lod::split_lod_tensor_grad(dy, no_false, mask, merge); });
    check_gradient(
        engine, x, [&](const auto& at) { return lod::split_lod_tensor(at, mask, split).in_false; },
        [&](const auto& dy) { return lod::split_lod_tensor_grad(no_true, dy, mask, merge); });
    check_gradient(
        engine, in_true,
        [&, &other = in_false](const auto& at) { return lod::merge_lod_tensor(at, other, mask, merge); },
        [&](const auto& dy) { return lod::merge_lod_tensor_grad(dy, mask, split).in_true; });
    check_gradient(
        engine, in_false,
        [&, &other = in_true](const auto& at) { return lod::merge_lod_tensor(other, at, mask, merge); },
        [&](const auto& dy) { return lod::merge_lod_tensor_grad(dy, mask, split).in_false; });
  }
}

TEST_CASE("split_lod_tensor, merge_lod_tensor: bad arguments throw and change nothing") {
  const LoDTensor<float> x(LoD::from_lengths({{2, 1}}), {2}), plain({3, 2}), wide(LoD::from_lengths({{1}}), {3});
  LoDTensor<float> a({1, 2}), b({1, 3});
  const lod::CpuExecutor executor(1);
  const auto split = [&](const auto& from, const Mask& mask, int level) {
    return [&, mask, level] { lod::split_lod_tensor_into(executor, from, mask, {.level = level}, a, b); };
  };
  check_throws<lod::OutOfRange>(split(x, {true, true}, 1), "level 1 of a LoD with 1 levels", a);
  check_throws<lod::OutOfRange>(split(plain, {true, true}, 1), "level 1 of a LoD with 1 levels", a);
  check_throws<lod::ShapeMismatch>(split(x, {true}, 0), "split_lod_tensor: a mask of 1 elements, expected 2", b);
  LoDTensor<float> one(LoD::from_lengths({{2}}), {2}), wrong(LoD::from_lengths({{2}}), {2});
  check_throws<lod::ShapeMismatch>(
      [&] {
        lod::split_lod_tensor_into(executor, x, Mask{true, false}, {}, one.view(), wrong.view());
      },
      "and the levels of the result", one);

  const auto first = x.between(0, 1), second = x.between(1, 2);
  const auto merge = [&](const auto& in_true, const auto& in_false, const Mask& mask,
                         const lod::MergeBranchOptions& options) {
    return [&, mask, options] { lod::merge_lod_tensor_into(executor, in_true, in_false, mask, options, a); };
  };
  check_throws<lod::InvalidLoD>(merge(first, plain, {true, false}, {}),
                                "merge_lod_tensor: in_false has 0 levels, expected 1 as in_true has", a);
  check_throws<lod::ShapeMismatch>(merge(first, wide, {true, false}, {}),
                                   "merge_lod_tensor: in_false: rows of shape {3}, expected {2}", a);
  check_throws<lod::ShapeMismatch>(merge(first, second, {true, true}, {}),
                                   "in_true has 1 sequences (rows, where it has no level), expected 2 by the mask", a);
  check_throws<lod::ShapeMismatch>(merge(first, second, {true}, {}),
                                   "in_false has 1 sequences (rows, where it has no level), expected 0 by the mask", a);
  check_throws<lod::OutOfRange>(merge(first, second, {true, false}, {.level = 1}),
                                "merge_lod_tensor: level 1, but options.lod has 0 levels above", a);
  check_throws<lod::OutOfRange>(merge(first, second, {true, false}, {.level = -1}),
                                "merge_lod_tensor: level -1, but options.lod has 0 levels above", a);
  check_throws<lod::ShapeMismatch>(
      merge(first, second, {true, false}, {.level = 1, .lod = LoD::from_lengths({{3}, {1, 1, 1}})}),
      "merge_lod_tensor: a mask of 2 elements, expected 3", a);
  check_throws<lod::ShapeMismatch>(
      [&] {
        lod::merge_lod_tensor_into(executor, first, second, Mask{false, true}, {}, wrong.view());
      },
      "and the levels of the result", wrong);
}

TEST_CASE("infer_split_lod_tensor, infer_merge_lod_tensor: allow what the operations give, and refuse what they do") {
  for_each_random_batch<float>(0, {2}, [](Engine& engine, const lod::LoDTensor<float>& x) {
    for (int level = 0; level < (x.levels() > 0 ? x.levels() : 1); ++level) {
      std::vector<std::int64_t> mask(static_cast<std::size_t>(x.levels() > 0 ? x.lod().size(level) : x.rows()));
      for (std::int64_t& element : mask) element = random_number(engine, 0, 1);
      const auto mask_desc = described_list(static_cast<std::int64_t>(mask.size()));
      const auto y = lod::split_lod_tensor(x, mask, {.level = level});
      const auto inferred = lod::infer_split_lod_tensor(describe(x), mask_desc, {.level = level});
      check_inferred(y.in_true, inferred.in_true);
      check_inferred(y.in_false, inferred.in_false);
      const lod::MergeBranchOptions options{.level = level, .lod = x.lod()};
      const auto merged = lod::merge_lod_tensor(y.in_true, y.in_false, mask, options);
      CHECK(same_bits(merged, x));
      check_inference(
          merged,
          [&](const auto& a, const auto& b, const auto& c) { return lod::infer_merge_lod_tensor(a, b, c, options); },
          describe(y.in_true), describe(y.in_false), mask_desc);
    }
  });
  const auto plain = described(lod::DataType::FP32, {3, -1}), other = described(lod::DataType::FP32, {4, 2});
  const auto deep = described(lod::DataType::FP32, {15, 2}, 3);
  CHECK(lod::infer_split_lod_tensor(deep, described_list(6), {.level = 1}).in_false ==
        described(lod::DataType::FP32, {-1, 2}, 2));
  CHECK(lod::infer_merge_lod_tensor(plain, other, described_list(7)) == described(lod::DataType::FP32, {7, 2}));
  CHECK_THROWS_AS(lod::infer_split_lod_tensor(deep, described_list(6), {.level = 3}), lod::OutOfRange);
  CHECK_THROWS_AS(lod::infer_merge_lod_tensor(plain, deep, described_list(7)), lod::InvalidLoD);
  CHECK_THROWS_AS(lod::infer_merge_lod_tensor(plain, other, described_list(7), {.level = 1}), lod::OutOfRange);
  CHECK_THROWS_WITH_AS(lod::infer_split_lod_tensor(other, described_list(5)),
                       doctest::Contains("split_lod_tensor: a mask of 5 elements, expected 4"), lod::ShapeMismatch);
  CHECK_THROWS_WITH_AS(lod::infer_merge_lod_tensor(plain, other, described_list(8)),
                       doctest::Contains("merge_lod_tensor: a mask of 8 elements, expected 7"), lod::ShapeMismatch);
}
