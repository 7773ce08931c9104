// SPDX-License-Identifier: Apache-2.0
#include "support/counting_resource.hpp"
#include "support/executors.hpp"
#include "support/gradient.hpp"
#include "support/inferred.hpp"
#include "support/random_batch.hpp"
#include "support/random_lod.hpp"
#include <lod/lod.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

using lod::LoD;
using lod::LoDTensor;
using Numbers = std::vector<std::int64_t>;

namespace {
LoDTensor<std::int64_t> random_ids(std::mt19937_64& random, const LoD& index, std::int64_t height) {
  LoDTensor<std::int64_t> ids(index, {});
  std::uniform_int_distribution<std::int64_t> id(0, height - 1);
  for (auto& value : ids.values()) value = id(random);
  return ids;
}
}  // namespace

TEST_CASE_TEMPLATE("embedding: rows of the table, LoD of the ids, slices too", T, float, double, lod::float16,
                   std::int32_t, bool) {
  for (std::uint64_t number = 1; number <= 5; ++number) {
    lod_test::Engine engine(number);
    CAPTURE(number);
    const LoD index = LoD::from_lengths(lod_test::RandomLoD{.levels = 2}.lengths(engine));
    const auto ids = random_ids(engine, index, 9);
    for (const std::int64_t row_size : {1, 3, 8, 17}) {
      const auto table = lod_test::small_integers<T>(engine, LoD::from_lengths({{9}}), {row_size});
      lod_test::for_each_executor([&](const auto& executor) {
        const auto y = lod::embedding(executor, table, ids, {.padding_idx = 4});
        CHECK(y.lod() == index);
        REQUIRE(y.shape() == Numbers{index.rows(), row_size});
        for (std::int64_t i = 0; i < y.rows(); ++i) {
          for (std::size_t c = 0; c < static_cast<std::size_t>(row_size); ++c) {
            const std::int64_t id = ids.data()[i];
            CHECK(y.row(i)[c] == (id == 4 ? T{} : table.row(id)[c]));
          }
        }
        const auto part = lod::embedding(executor, table, ids.slice(ids.size() / 3, ids.size()), {.padding_idx = 4});
        CHECK(lod_test::same_bits(part, LoDTensor<T>::copy_of(y.slice(y.size() / 3, y.size()))));
      });
    }
  }
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
}

TEST_CASE("embedding_grad: one row for each id, none for the padding") {
  const auto ids = LoDTensor<std::int64_t>::from_values(LoD(), {}, Numbers{3, 0, 3, 1});
  const auto dy = LoDTensor<float>::from_values(LoD(), {2}, std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8});
  const auto g = lod::embedding_grad(dy, ids, 5, {.padding_idx = 0});
  CHECK(g.rows() == Numbers{3, 3, 1});
  CHECK(g.height() == 5);
  CHECK(g.value().row(2)[1] == 8);
}

TEST_CASE("embedding_grad: against differences, repeated ids included") {
  lod_test::Engine engine(11);
  const auto ids = random_ids(engine, LoD::from_lengths({{4, 0, 7}}), 6);
  auto table = lod_test::real_numbers<double>(engine, LoD::from_lengths({{6}}), {3});
  lod_test::check_gradient(
      engine, table, [&](const auto& at) { return lod::embedding(at, ids, {.padding_idx = 2}); },
      [&](const auto& dy) {
        return lod::to_dense(lod::embedding_grad(dy, ids, 6, {.padding_idx = 2})).with_lod(table.lod());
      });
}

TEST_CASE("embedding: a second call allocates nothing") {
  lod_test::CountingResource resource;
  const lod::CpuExecutor executor(1, &resource);
  lod_test::Engine engine(2);
  const auto ids = random_ids(engine, LoD::from_lengths({{4, 0, 7}}), 6);
  const LoDTensor<float> table({6, 5});
  auto y = lod::embedding(executor, table, ids);
  auto g = lod::embedding_grad(executor, y, ids, 6);
  lod::embedding_grad_into(executor, y, ids, 6, {}, g);
  const int before = resource.allocations;
  lod::embedding_into(executor, table, ids, y);
  lod::embedding_grad_into(executor, y, ids, 6, {}, g);
  CHECK(resource.allocations == before);
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
  CHECK_THROWS_WITH_AS(lod::infer_embedding(ids, described(lod::DataType::INT32, {15})),
                       doctest::Contains("embedding: ids: elements of INT32, expected INT64"), lod::ShapeMismatch);
}
