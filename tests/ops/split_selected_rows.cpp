// SPDX-License-Identifier: Apache-2.0
#include "support/executors.hpp"
#include "support/inferred.hpp"
#include "support/random_batch.hpp"
#include "support/repeatable.hpp"
#include "support/row_sparse.hpp"
#include <lod/lod.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <span>
#include <vector>

using lod::SelectedRows;
using namespace lod_test;
using Numbers = std::vector<std::int64_t>;
using Reals = std::vector<double>;

TEST_CASE("split_selected_rows: the field's case, and its gradient") {
  SelectedRows<float> g({0, 5, 7, 4, 20}, 23, {2});
  for (std::size_t i = 0; i < 10; ++i) g.value().values()[i] = static_cast<float>(i);
  const auto parts = lod::split_selected_rows(g, {5, 5, 5, 5, 3});
  REQUIRE(parts.size() == 5);
  CHECK(parts[0].rows() == Numbers{0, 4});
  CHECK(parts[1].rows() == Numbers{0, 2});
  CHECK(parts[2].rows().empty());
  CHECK(parts[2].height() == 5);
  CHECK(parts[4].rows() == Numbers{0});
  CHECK(parts[4].height() == 3);
  CHECK(numbers_of(parts[0].value()) == Reals{0, 1, 6, 7});
  CHECK(numbers_of(parts[4].value()) == Reals{8, 9});
  const auto joined = lod::split_selected_rows_grad(parts);
  CHECK(joined.rows() == Numbers{0, 4, 5, 7, 20});
  CHECK(joined.height() == 23);
  CHECK(same_bits(lod::to_dense(joined), lod::to_dense(g)));
  const std::span<const SelectedRows<float>> view(parts);
  CHECK(lod::split_selected_rows_grad(view).rows() == joined.rows());
  CHECK(lod::split_selected_rows_grad(view.first(3)).height() == 15);
}

TEST_CASE("split_selected_rows: unsorted and repeated rows, empty sections, nothing at all") {
  const auto g = rows_of_one({3, 1, 3, 0}, 4, {1, 2, 3, 4});
  const auto parts = lod::split_selected_rows(g, Numbers{0, 1, 0, 3, 0});
  CHECK(parts[0].rows().empty());
  CHECK(parts[0].height() == 0);
  CHECK(parts[1].rows() == Numbers{0});
  CHECK(parts[3].rows() == Numbers{2, 0, 2});
  CHECK(numbers_of(parts[3].value()) == Reals{1, 2, 3});
  CHECK(lod::split_selected_rows(SelectedRows<float>({}, 0, {3}), Numbers{}).empty());
  CHECK_THROWS_WITH_AS(lod::split_selected_rows(g, {2, 3}),
                       "split_selected_rows: sections of height 5 in all, expected 4 as the tensor has",
                       lod::ShapeMismatch);
  CHECK_THROWS_WITH_AS(lod::split_selected_rows(g, {5, -1}),
                       "split_selected_rows: section 1 of height -1, expected 0 or more", lod::ShapeMismatch);
  CHECK_THROWS_AS(lod::split_selected_rows(g, {INT64_MAX, 1}), lod::ShapeMismatch);
  CHECK_THROWS_AS(lod::split_selected_rows_grad(std::vector<SelectedRows<float>>{}), lod::ShapeMismatch);
  std::vector<SelectedRows<float>> tall = {SelectedRows<float>({}, INT64_MAX, {}), SelectedRows<float>({}, 1, {})};
  CHECK_THROWS_AS(lod::split_selected_rows_grad(tall), lod::ShapeMismatch);
  tall[0] = SelectedRows<float>({}, 1, {2});
  CHECK_THROWS_AS(lod::split_selected_rows_grad(tall), lod::ShapeMismatch);
}

TEST_CASE("split_selected_rows: a later part on memory that is too small is found before an earlier one is changed") {
  const auto g = rows_of_one({3, 1, 3, 0}, 4, {1, 2, 3, 4});
  for_each_executor([&](const auto& executor) {
    float few[1] = {};
    std::vector<SelectedRows<float>> parts(3, rows_of_one<float>({2}, 5, {7}));
    parts[1].value() = lod::LoDTensor<float>::wrap(few, lod::LoD(), {});
    CHECK_THROWS_AS(lod::split_selected_rows_into(executor, g, {2, 2}, parts), lod::ShapeMismatch);
    REQUIRE(parts.size() == 3);
    CHECK(parts[0].rows() == Numbers{2});
    CHECK(parts[0].height() == 5);
    CHECK(numbers_of(parts[0].value()) == Reals{7});
  });
}

TEST_CASE("split_selected_rows: the same bits for any number of threads; a second call allocates nothing") {
  Engine engine(5);
  const auto g = rows_mostly_one<float>(engine, 40000, 3000, 5);
  const Numbers sections = {1000, 0, 2000};
  struct Results {
    std::vector<SelectedRows<float>> parts;
    SelectedRows<float> joined;
    explicit Results(std::pmr::memory_resource* resource) : joined(resource) {}
  };
  check_repeatable<Results>(
      [&](const auto& executor, Results& r) {
        lod::split_selected_rows_into(executor, g, sections, r.parts);
        lod::split_selected_rows_grad_into(executor, r.parts, r.joined);
      },
      [](const Results& a, const Results& b) {
        for (std::size_t part = 0; part < a.parts.size(); ++part) {
          CHECK(same_bits(a.parts[part].value(), b.parts[part].value()));
        }
        CHECK(same_bits(a.joined.value(), b.joined.value()));
      });
}

TEST_CASE("infer_split_selected_rows: allows what the operation gives") {
  const SelectedRows<float> g({4, 0, 4}, 10, {8});
  const Numbers sections = {3, 0, 7};
  for (const auto& desc : {describe(g), blank(describe(g))}) {
    const auto parts = lod::split_selected_rows(g, sections);
    const auto inferred = lod::infer_split_selected_rows(desc, sections);
    REQUIRE(inferred.size() == parts.size());
    for (std::size_t part = 0; part < parts.size(); ++part) {
      CHECK_NOTHROW(lod::check(parts[part], inferred[part]));
      CHECK(inferred[part].dims[0] == sections[part]);
    }
  }
  CHECK_THROWS_AS(lod::infer_split_selected_rows(describe(g), Numbers{3, 6}), lod::ShapeMismatch);
  CHECK_THROWS_AS(lod::infer_split_selected_rows(describe(g), Numbers{-1, 11}), lod::ShapeMismatch);
}
