// SPDX-License-Identifier: Apache-2.0
#include "support/counting_resource.hpp"
#include <lod/selected_rows.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <new>
#include <vector>

using lod::SelectedRows;
using Numbers = std::vector<std::int64_t>;

TEST_CASE("SelectedRows: ids outside the height are refused") {
  CHECK_THROWS_AS(SelectedRows<float>({4, 10}, 10, {8}), lod::OutOfRange);
  CHECK_THROWS_AS(SelectedRows<float>({-1}, 10, {8}), lod::OutOfRange);
  CHECK_THROWS_AS(SelectedRows<float>({}, -1, {8}), lod::ShapeMismatch);
}

TEST_CASE("SelectedRows: ids and values must be as many") {
  CHECK_THROWS_WITH_AS(SelectedRows<float>({4, 1}, 10, lod::LoDTensor<float>({3, 8})),
                       "SelectedRows: 2 ids, but 3 rows of values", lod::ShapeMismatch);
  const SelectedRows<float> g({4, 1}, 10, lod::LoDTensor<float>({2, 8}));
  CHECK(g.dense_shape() == Numbers{10, 8});
}

TEST_CASE("SelectedRows: a refused resize changes nothing") {
  SelectedRows<float> g({4, 0}, 10, {8});
  const Numbers rows = {3, 99};
  CHECK_THROWS_AS(g.resize(rows, 20, {2}), lod::OutOfRange);
  CHECK(g.rows() == Numbers{4, 0});
  CHECK(g.height() == 10);
  CHECK(g.row_shape() == Numbers{8});
}

TEST_CASE("SelectedRows: an assignment that fails changes nothing") {
  lod_test::CountingResource resource;
  const lod::SelectedRows<float> other({1, 2, 3, 4, 5, 6, 7, 8}, 9, {4});
  lod::SelectedRows<float> g({0, 1}, 5, {4}, &resource);
  g.value().data()[7] = 3;
  resource.fail_from = resource.allocations;
  CHECK_THROWS_AS(g = other, std::bad_alloc);
  CHECK(g.rows() == std::vector<std::int64_t>{0, 1});
  CHECK(g.height() == 5);
  CHECK(g.value().shape() == lod::Shape{2, 4});
  CHECK(g.value().data()[7] == 3);
  resource.fail_from = -1;
  g = other;
  CHECK(g.rows() == other.rows());
  CHECK(g.value().resource() == &resource);
  const auto& self = g;
  g = self;
  CHECK(g.rows() == other.rows());
}

TEST_CASE("SelectedRows: no rows, repeated rows") {
  const SelectedRows<double> none({}, 5, {3});
  CHECK(none.value().shape() == Numbers{0, 3});
  CHECK(!none.contains(0));
  const SelectedRows<double> twice({2, 2}, 5, {});
  CHECK(twice.index_of(2) == 0);
  CHECK(twice.value().values()[1] == 0.0);
}

TEST_CASE("SelectedRows: find says -1 where index_of throws; both mean the first of repeated rows") {
  const SelectedRows<float> g({7, 0, 4, 0}, 10, {2});
  CHECK(g.find(0) == 1);
  CHECK(g.find(4) == 2);
  CHECK(g.find(3) == -1);
  CHECK(g.find(-1) == -1);
  CHECK(g.index_of(0) == 1);
  CHECK(g.contains(7));
  CHECK_FALSE(g.contains(10));
  CHECK_THROWS_WITH_AS(g.index_of(3), "SelectedRows: id 3 is not among the rows listed", lod::OutOfRange);
}
