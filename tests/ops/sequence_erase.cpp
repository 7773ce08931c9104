// SPDX-License-Identifier: Apache-2.0
#include "support/check_throws.hpp"
#include "support/counting_resource.hpp"
#include "support/element_types.hpp"
#include "support/executors.hpp"
#include "support/inferred.hpp"
#include "support/random_batch.hpp"
#include "support/random_lod.hpp"
#include "support/reference.hpp"
#include <lod/lod.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
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

using IdTypes = Types<bool, std::int8_t, std::uint8_t, std::int16_t, std::int32_t, std::int64_t>;

template <class T>
Tree<T> reference_erase(Tree<T> tree, int levels, const Numbers& tokens) {
  if (levels > 0) {
    for (auto& part : tree.parts) part = reference_erase(part, levels - 1, tokens);
  } else {
    std::erase_if(tree.parts, [&](const Tree<T>& row) {
      return std::find(tokens.begin(), tokens.end(), static_cast<std::int64_t>(row.row[0])) != tokens.end();
    });
  }
  return tree;
}

}  // namespace

TEST_CASE("sequence_erase: ids leave their sentences, which stay in their articles") {
  const auto x = LoDTensor<std::int64_t>::from_nested(
      std::vector<std::vector<Numbers>>{{{2, 2, 6}, {1}, {3, 9}}, {}, {{6, 1}, {0, 1}}});
  const auto y = lod::sequence_erase(x, Numbers{3, 6, 1});
  CHECK(same_bits(
      y, LoDTensor<std::int64_t>::from_nested(std::vector<std::vector<Numbers>>{{{2, 2}, {}, {9}}, {}, {{}, {0}}})));
  CHECK(same_bits(lod::sequence_erase(x, {3, 6, 1}), y));
  const std::int64_t tokens[] = {3, 6, 1};
  for_each_executor([&](const auto& executor) {
    CHECK(same_bits(lod::sequence_erase(executor, x, tokens), y));
    CHECK(same_bits(lod::sequence_erase_and_wait(executor, x, {3, 6, 1}), y));
    auto z = lod::sequence_erase(x, Numbers{});
    lod::sequence_erase_into(executor, x, {3, 6, 1}, z);
    CHECK(same_bits(z, y));
    lod::sequence_erase_and_wait_into(executor, x, {1}, z);
    CHECK(same_bits(z, lod::sequence_erase(x, Numbers{1})));
  });
  const auto slice = lod::sequence_erase(x.slice({2}), std::array{0});
  CHECK(same_bits(slice, LoDTensor<std::int64_t>::from_nested(std::vector<std::vector<Numbers>>{{{6, 1}, {1}}})));
}

TEST_CASE("sequence_erase: the cases of PaddlePaddle's tests") {
  Engine engine(1);
  for_each_executor([&](const auto& executor) {
    const auto check = [&](const Lengths& lengths, const Numbers& tokens) {
      LoDTensor<std::int32_t> x(LoD::from_lengths(lengths), {1});
      for (auto& id : x.values()) id = static_cast<std::int32_t>(random_number(engine, 0, 9));
      check_tree(lod::sequence_erase(executor, x, tokens), x.levels(), reference_erase(tree_of(x), x.levels(), tokens));
    };
    check({{9, 4, 11, 6}}, {2, 3, 5});
    check({{9, 4, 11, 6}}, {});
    check({{1, 3}, {9, 4, 11, 6}}, {2, 3, 5});
    check({{0, 9, 0, 0, 10, 11, 0}}, {2, 3, 5});
  });
}

TEST_CASE("sequence_erase: agrees with nested loops for slices of every type and depth") {
  for_each_type(IdTypes(), []<class T>(std::type_identity<T>) {
    for_each_random_lod(8, 1, 5, [](Engine& engine, const Lengths& lengths) {
      const auto x = small_integers<T>(engine, LoD::from_lengths(lengths), {});
      const auto slice = x.between(random_number(engine, 0, x.size() > 0), x.size());
      for (const Numbers& tokens :
           {Numbers{}, Numbers{1, 3, -2}, Numbers{0, 0, 1}, Numbers{-3, -2, -1, 0, 1, 2, 3, 4}}) {
        check_tree(lod::sequence_erase(lod::CpuExecutor(2), slice, tokens), x.levels(),
                   reference_erase(tree_of(slice), x.levels(), tokens));
      }
    });
  });
}

TEST_CASE("sequence_erase: a token that the type of the ids does not hold erases nothing") {
  const auto x = LoDTensor<std::uint8_t>::from_nested(std::vector<std::vector<int>>{{255, 0, 1}, {44}});
  CHECK(same_bits(lod::sequence_erase(x, Numbers{-1, 256, 300, INT64_MAX}), x));
  CHECK(lod::sequence_erase(x, std::vector<std::uint64_t>{255, 44, UINT64_MAX}).lod() == LoD::from_lengths({{2, 0}}));
  const auto y = LoDTensor<std::int64_t>::from_nested(std::vector<Numbers>{{-1, 1}});
  CHECK(same_bits(lod::sequence_erase(y, std::vector<std::uint64_t>{UINT64_MAX}), y));
}

TEST_CASE("sequence_erase: many tokens, given as tensor, view or span, among many ids") {
  Engine engine(4);
  for (const std::int64_t size : {500, slow ? 2000 : 20000}) {
    const LoD words = giant_among_short(engine, size, grain);
    LoDTensor<std::int64_t> x(LoD::from_lengths({{size / 2, 0, size - size / 2}, words.lengths(0)}), {});
    for (auto& id : x.values()) id = random_number(engine, 0, 999);
    for (const std::int64_t count : {3, 16, 17, 400}) {
      INFO("tokens ", count);
      LoDTensor<std::int64_t> tokens({count});
      for (auto& token : tokens.values()) token = random_number(engine, 0, 999);
      const Numbers list(tokens.values().begin(), tokens.values().end());
      const auto expected = reference_erase(tree_of(x), 2, list);
      for_each_executor(
          [&](const auto& executor) { check_tree(lod::sequence_erase(executor, x, tokens), 2, expected); });
      check_tree(lod::sequence_erase(x, tokens.view()), 2, expected);
      check_tree(lod::sequence_erase(x, std::span<const std::int64_t>(list)), 2, expected);
    }
  }
}

TEST_CASE(
    "sequence_erase: sizes around those of vectors, words and blocks; few and more tokens; none, some, all erased") {
  for_each_type(IdTypes(), []<class T>(std::type_identity<T>) {
    Engine engine(5);
    for (const std::int64_t size : {1, 3, 4, 31, 63, 64, 65, 127, 128, 129, 4095, 4096, 4097, 4160, 8192}) {
      LoDTensor<T> x(LoD::from_lengths({{size / 3, 0, size - size / 3}}), {});
      for (auto& id : x.values()) id = static_cast<T>(random_number(engine, 0, 20));
      for (const std::int64_t count : {0, 1, 2, 3, 4, 5, 9, 16, 17, 21}) {
        INFO("rows ", size, ", tokens ", count);
        Numbers tokens;
        for (std::int64_t token = 0; token < count; ++token) tokens.push_back(token);
        // The tokens are the ids below their number.
        std::vector<T> kept;
        Numbers lengths(3);
        for (std::int64_t row = 0; row < size; ++row) {
          if (static_cast<std::int64_t>(x.data()[row]) < count) continue;
          kept.push_back(x.data()[row]);
          ++lengths[row < size / 3 ? 0 : 2];
        }
        const auto y = lod::sequence_erase(lod::CpuExecutor(2), x, tokens);
        CHECK(y.lod() == LoD::from_lengths({lengths}));
        CHECK(std::equal(kept.begin(), kept.end(), y.values().begin(), y.values().end()));
      }
    }
  });
}

TEST_CASE("sequence_erase: a result that goes past the caches, to lines that it begins and ends in") {
  constexpr std::int64_t size = 256 * grain / 8 * 11 / 10 + 11;  // more than the caches are taken to hold
  const LoD lod = LoD::from_lengths({{7, 0, size - 7}});
  LoDTensor<std::int64_t> x(lod, {});
  Engine engine(7);
  for (auto& id : x.values()) id = static_cast<std::int64_t>(engine() % 64);
  std::vector<std::int64_t> expected(x.values().begin(), x.values().end());
  std::erase(expected, 3);
  for (const int threads : thread_counts) {
    const auto y = lod::sequence_erase(lod::CpuExecutor(threads), x, Numbers{3});
    CHECK(std::equal(expected.begin(), expected.end(), y.values().begin(), y.values().end()));
  }
}

TEST_CASE("sequence_erase: batches without sequences, of empty ones only, and all erased") {
  for_each_executor([](const auto& executor) {
    for (const auto& lengths : std::vector<Lengths>{{{}}, {{0}}, {{0, 0}}, {{}, {}}, {{0, 0}, {}}}) {
      const LoDTensor<int> x(LoD::from_lengths(lengths), {});
      CHECK(same_bits(lod::sequence_erase(executor, x, Numbers{1}), x));
    }
    const LoDTensor<int> zeros(LoD::from_lengths({{2, 0}, {2000, 70000}}), {});
    const auto y = lod::sequence_erase(executor, zeros, Numbers{0});
    CHECK(y.lod() == LoD::from_lengths({{2, 0}, {0, 0}}));
    CHECK(same_bits(lod::sequence_erase(executor, zeros, Numbers{1}), zeros));
  });
}

TEST_CASE("sequence_erase_and_wait: on the CPU the same, where a second call allocates nothing") {
  CountingResource resource;
  const lod::CpuExecutor executor(2, &resource);
  Engine engine(3);
  const auto x = small_integers<int>(engine, LoD::from_lengths({{2, 0, 1}, {3, 0, 40}}), {});
  const Numbers tokens = {1, 2};
  LoDTensor<int> y(&resource);
  lod::sequence_erase_and_wait_into(executor, x, tokens, y);
  CHECK(same_bits(y, lod::sequence_erase(x, tokens)));
  CHECK(same_bits(y, lod::sequence_erase_and_wait(x, tokens)));
  const int before = resource.allocations;
  lod::sequence_erase_and_wait_into(executor, x, tokens, y);
  CHECK(resource.allocations == before);
  CHECK(lod::infer_sequence_erase_and_wait(lod::describe(x)) == lod::infer_sequence_erase(lod::describe(x)));
}

TEST_CASE("sequence_erase: bad arguments throw and change nothing; views as outputs") {
  const LoDTensor<int> x(LoD::from_lengths({{2, 1}}), {2}), plain({3});
  LoDTensor<int> y({1, 2});
  const lod::CpuExecutor executor(1);
  check_throws<lod::InvalidLoD>([&] { lod::sequence_erase_into(executor, plain, Numbers{}, y); },
                                "sequence_erase: the tensor has no level, expected at least one", y);
  check_throws<lod::ShapeMismatch>([&] { lod::sequence_erase_into(executor, x, Numbers{}, y); },
                                   "sequence_erase: rows of shape {2}, expected one id a row", y);

  const auto ids = LoDTensor<int>::from_nested(std::vector<std::vector<int>>{{1, 2}, {1}});
  LoDTensor<int> out(LoD::from_lengths({{1, 0}}), {}), other(LoD::from_lengths({{0, 1}}), {});
  lod::sequence_erase_into(executor, ids, Numbers{1}, out.view());
  CHECK(out.data()[0] == 2);
  check_throws<lod::ShapeMismatch>([&] { lod::sequence_erase_into(executor, ids, Numbers{1}, other.view()); },
                                   ": a view of shape {1} with 1 levels", other);
}

TEST_CASE("infer_sequence_erase: allows what the operation gives, and refuses what it does") {
  for_each_random_batch<std::int32_t>(1, {1}, [](Engine&, const lod::LoDTensor<std::int32_t>& x) {
    check_inference(
        lod::sequence_erase(x, std::vector<int>{0, 1}),
        [](const auto& desc) { return lod::infer_sequence_erase(desc); }, describe(x));
  });
  CHECK(lod::infer_sequence_erase(described(lod::DataType::INT8, {15, 1}, 2)) ==
        described(lod::DataType::INT8, {-1, 1}, 2));
  CHECK_THROWS_AS(lod::infer_sequence_erase(described_list(15)), lod::InvalidLoD);
  CHECK_THROWS_AS(lod::infer_sequence_erase(described(lod::DataType::INT8, {15, 2}, 2)), lod::ShapeMismatch);
  CHECK_THROWS_WITH_AS(lod::infer_sequence_erase(described(lod::DataType::FP32, {15}, 2)),
                       doctest::Contains("sequence_erase: elements of FP32, expected bool, integers"),
                       lod::ShapeMismatch);
}
