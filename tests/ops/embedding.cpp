// SPDX-License-Identifier: Apache-2.0
#include "support/check_throws.hpp"
#include "support/element_types.hpp"
#include "support/executors.hpp"
#include "support/gradient.hpp"
#include "support/inferred.hpp"
#include "support/random_batch.hpp"
#include "support/random_lod.hpp"
#include "support/repeatable.hpp"
#include <lod/lod.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <type_traits>
#include <vector>

using lod::LoD;
using lod::LoDTensor;
using namespace lod_test;
using Numbers = std::vector<std::int64_t>;
using Ids = LoDTensor<std::int64_t>;

TEST_CASE("embedding: rows of the table, LoD of the ids, for slices of every type, depth and row size") {
  for_each_type(AllTypes(), []<class T>(std::type_identity<T>) {
    for_each_random_lod(2, 0, 5, [](Engine& engine, const Lengths& lengths) {
      auto all = lengths.empty() ? Ids({random_number(engine, 0, 6)}) : Ids(LoD::from_lengths(lengths), {});
      for (auto& id : all.values()) id = random_number(engine, 0, 8);
      const auto ids = all.between(random_number(engine, 0, all.size() > 0), all.size());
      for (const std::int64_t row_size : {1, 3, 8, 17}) {
        const auto table = small_integers<T>(engine, {11, row_size});
        const auto part = table.between(1, 10);
        const auto y = lod::embedding(lod::CpuExecutor(2), part, ids, {.padding_idx = 4});
        CHECK(y.lod() == ids.lod());
        REQUIRE(y.shape() == lod::Shape{ids.rows(), row_size});
        bool same = true;
        for (std::int64_t i = 0; i < y.rows(); ++i) {
          for (std::size_t c = 0; c < static_cast<std::size_t>(row_size); ++c) {
            const std::int64_t id = ids.data()[i];
            same = same && y.row(i)[c] == (id == 4 ? T{} : part.row(id)[c]);
          }
        }
        CHECK(same);
        CHECK(same_bits(lod::embedding_grad(lod::CpuExecutor(2), y, ids, 9).value(), y.with_lod(LoD())));
      }
    });
  });
  LoDTensor<float> wrong({2, 2});
  check_throws<lod::ShapeMismatch>(
      [&] {
        lod::embedding_into(lod::CpuExecutor(1), LoDTensor<float>({5, 2}), Ids({3}), wrong.view());
      },
      ": a view of shape {2, 2}", wrong);
}

TEST_CASE("embedding: ids with a row shape, and none at all") {
  const LoDTensor<float> table({5, 2});
  const LoDTensor<std::int64_t> ids({3, 4});
  CHECK(lod::embedding(table, ids).shape() == Numbers{3, 4, 2});
  CHECK(lod::embedding(table, LoDTensor<std::int64_t>(LoD::from_offsets({{0}}), {})).shape() == Numbers{0, 2});
}

TEST_CASE("embedding: an id outside the table throws and changes nothing") {
  const LoDTensor<float> table({5, 2});
  LoDTensor<std::int64_t> ids({3});
  LoDTensor<float> y({7});
  ids.values()[2] = 5;
  CHECK_THROWS_AS(lod::embedding_into(lod::CpuExecutor(1), table, ids, y), lod::OutOfRange);
  ids.values()[2] = -1;
  CHECK_THROWS_AS(lod::embedding_into(lod::CpuExecutor(1), table, ids, y), lod::OutOfRange);
  CHECK(y.shape() == Numbers{7});
  CHECK_THROWS_AS(lod::embedding_grad(LoDTensor<float>({3, 2}), ids, 5), lod::OutOfRange);
  CHECK_THROWS_AS(lod::embedding_grad(LoDTensor<float>({2, 2}), ids, 5), lod::ShapeMismatch);
  CHECK_THROWS_WITH_AS(lod::embedding_grad(LoDTensor<float>({3, 2}), ids, -4),
                       "embedding_grad: height -4, expected 0 or more", lod::ShapeMismatch);
}

TEST_CASE("embedding_grad: one row for each id, none for the padding") {
  const auto ids = LoDTensor<std::int64_t>::from_values(LoD(), {}, Numbers{3, 0, 3, 1});
  const auto dy = LoDTensor<float>::from_values(LoD(), {2}, std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8});
  const auto g = lod::embedding_grad(dy, ids, 5, {.padding_idx = 0});
  CHECK(g.rows() == Numbers{3, 3, 1});
  CHECK(g.height() == 5);
  CHECK(g.value().row(2)[1] == 8);
  for_each_executor([&](const auto& executor) {
    lod::SelectedRows<float> all;
    lod::embedding_grad_into(executor, dy, ids, 5, all);
    CHECK(all.rows() == Numbers{3, 0, 3, 1});
  });
}

TEST_CASE("embedding, embedding_grad: the id -1 stands for nothing by an option, beside padding_idx or without") {
  const auto table = LoDTensor<float>::from_values({}, {2}, std::vector<float>{1, 2, 3, 4, 5, 6});
  for_each_random_lod(4, 0, 3, [&](Engine& engine, const Lengths& lengths) {
    LoDTensor<std::int64_t> ids =
        lengths.empty() ? LoDTensor<std::int64_t>({7}) : LoDTensor<std::int64_t>(LoD::from_lengths(lengths), {});
    for (std::int64_t& id : ids.values()) id = random_number(engine, -1, 2);
    for (const std::int64_t padding : {-1, 1}) {
      const lod::EmbeddingOptions options{.padding_idx = padding, .skip_minus_one = true};
      LoDTensor<float> expected(ids.lod(), {2});
      if (lengths.empty()) expected = LoDTensor<float>({7, 2});
      Numbers kept;
      for (std::int64_t i = 0; i < ids.rows(); ++i) {
        const std::int64_t id = ids.data()[i];
        if (id == -1 || id == padding) continue;
        kept.push_back(id);
        std::ranges::copy(table.row(id), expected.row(i).begin());
      }
      for_each_executor([&](const auto& executor) {
        CHECK(same_bits(lod::embedding(executor, table, ids, options), expected));
        const auto gradient = lod::embedding_grad(executor, expected, ids, 3, options);
        CHECK(gradient.rows() == kept);
        for (std::size_t i = 0; i < kept.size(); ++i) {
          CHECK(std::ranges::equal(gradient.value().row(static_cast<std::int64_t>(i)), table.row(kept[i])));
        }
      });
    }
  });
  const auto bad = LoDTensor<std::int64_t>::from_values(LoD(), {}, Numbers{-1, 2, -2});
  LoDTensor<float> y({3, 2});
  check_throws<lod::OutOfRange>([&] { lod::embedding_into(lod::CpuExecutor(1), table, bad, {}, y); },
                                "embedding: id -1 at position 0, expected 0 to 2", y);
  check_throws<lod::OutOfRange>(
      [&] { lod::embedding_into(lod::CpuExecutor(1), table, bad, {.skip_minus_one = true}, y); },
      "embedding: id -2 at position 2, expected -1 to 2", y);
  const auto beyond = LoDTensor<std::int64_t>::from_values(LoD(), {}, Numbers{3});
  check_throws<lod::OutOfRange>([&] { lod::embedding_into(lod::CpuExecutor(1), table, beyond, {.padding_idx = 3}, y); },
                                "embedding: id 3 at position 0, expected 0 to 2", y);
  const LoDTensor<float> no_rows({0, 2});
  const auto nothing = LoDTensor<std::int64_t>::from_values(LoD(), {}, Numbers{-1, -1});
  CHECK(lod::embedding(no_rows, nothing, {.skip_minus_one = true}).shape() == Numbers{2, 2});
}

TEST_CASE("embedding_grad: against differences, repeated ids included") {
  for_each_random_lod(8, 1, 3, [](Engine& engine, const Lengths& lengths) {
    const auto ids = random_ids(engine, LoD::from_lengths(lengths), 6);
    if (ids.rows() > 30) return;
    for (const std::int64_t row_size : {1, 3, 8, 17}) {
      auto table = real_numbers<double>(engine, {6, row_size});
      check_gradient(
          engine, table, [&](const auto& at) { return lod::embedding(at, ids, {.padding_idx = 2}); },
          [&](const auto& dy) { return lod::to_dense(lod::embedding_grad(dy, ids, 6, {.padding_idx = 2})); });
    }
  });
}

TEST_CASE("embedding: the same bits for any number of threads; a second call allocates nothing") {
  Engine engine(2);
  const auto ids = random_ids(engine, giant_among_short(engine, 3000, 70000), 5000);
  const auto table = real_numbers<float>(engine, {5000, 5});
  struct Results {
    LoDTensor<float> y;
    lod::SelectedRows<float> g;
    explicit Results(std::pmr::memory_resource* resource) : y(resource), g(resource) {}
  };
  check_repeatable<Results>(
      [&](const auto& executor, Results& r) {
        lod::embedding_into(executor, table, ids, r.y);
        lod::embedding_grad_into(executor, r.y, ids, 5000, {}, r.g);
      },
      [](const Results& a, const Results& b) {
        CHECK(same_bits(a.y, b.y));
        CHECK(same_bits(a.g.value(), b.g.value()));
      });
}

TEST_CASE("infer_embedding: allows what the operation gives, and refuses what it does") {
  using namespace lod_test;
  const lod::LoDTensor<float> table({9, 2, 3});
  for_each_random_batch<float>(0, {2}, [&](Engine&, const lod::LoDTensor<float>& x) {
    const lod::LoDTensor<std::int64_t> ids =
        x.levels() > 0 ? lod::LoDTensor<std::int64_t>(x.lod(), {2}) : lod::LoDTensor<std::int64_t>({x.rows(), 2});
    const auto y = lod::embedding(table, ids);
    check_inference(
        y, [](const auto& a, const auto& b) { return lod::infer_embedding(a, b); }, describe(table), describe(ids));
    CHECK(describe(lod::embedding_grad(y, ids, table.rows())) == describe(table).tensor);
  });
  const auto ids = described(lod::DataType::INT64, {15, 1}, 2);
  CHECK(lod::infer_embedding(described(lod::DataType::BF16, {-1, 8}), ids) ==
        described(lod::DataType::BF16, {15, 1, 8}, 2));
  CHECK(lod::infer_embedding(described(lod::DataType::FP32, {-1, 8}), described(lod::DataType::INT32, {15})) ==
        described(lod::DataType::FP32, {15, 8}));
  CHECK_THROWS_WITH_AS(lod::infer_embedding(ids, described(lod::DataType::UINT32, {15})),
                       doctest::Contains("embedding: ids: elements of UINT32, expected INT64 or INT32"),
                       lod::ShapeMismatch);
}
