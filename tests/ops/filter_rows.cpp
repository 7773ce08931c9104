// SPDX-License-Identifier: Apache-2.0
#include "support/check_throws.hpp"
#include "support/element_types.hpp"
#include "support/executors.hpp"
#include "support/inferred.hpp"
#include "support/random_batch.hpp"
#include "support/random_lod.hpp"
#include <lod/lod.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

using lod::LoD;
using lod::LoDTensor;
using namespace lod_test;

TEST_CASE("filter_rows: worked numbers, masks of every form, and rows without levels") {
  const auto x = LoDTensor<int>::from_values(LoD::from_lengths({{2, 1}, {2, 0, 3}}), {2},
                                             std::vector<int>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10});
  for_each_executor([&](const auto& executor) {
    const auto y = lod::filter_rows(executor, x, {false, true, false, false, true});
    CHECK(y.lod() == LoD::from_lengths({{2, 1}, {1, 0, 1}}));
    CHECK(y.shape() == lod::Shape{2, 2});
    CHECK(values_of(y) == std::vector<int>{3, 4, 9, 10});
    CHECK(values_of(lod::filter_rows(executor, x, std::vector<int>{0, -7, 0, 0, 1})) == values_of(y));
    LoDTensor<bool> column({5, 1});
    column.data()[1] = column.data()[4] = true;
    CHECK(values_of(lod::filter_rows(executor, x, column)) == values_of(y));
    CHECK(lod::filter_rows(executor, x, std::vector<bool>(5)).lod() == LoD::from_lengths({{2, 1}, {0, 0, 0}}));
    const auto back = lod::filter_rows_grad(executor, y, x.lod(), {false, true, false, false, true});
    CHECK(back.lod() == x.lod());
    CHECK(values_of(back) == std::vector<int>{0, 0, 3, 4, 0, 0, 0, 0, 9, 10});
    const auto rows = LoDTensor<int>::from_values(LoD(), {}, std::vector<int>{7, 8, 9});
    CHECK(values_of(lod::filter_rows(executor, rows, {true, false, true})) == std::vector<int>{7, 9});
  });
}

TEST_CASE("filter_rows: agrees with loops for slices of every type, depth and row size") {
  for_each_type(AllTypes(), []<class T>(std::type_identity<T>) {
    for_each_random_batch<T>(2, {0, 1, 8, 17}, [](Engine& engine, const LoDTensor<T>& whole) {
      const auto x = whole.between(random_number(engine, 0, whole.size() > 0), whole.size());
      const auto mask = random_mask(engine, x.rows());
      const int last = x.levels() - 1;
      const auto offsets = x.lod_view().absolute_offsets(last);
      std::vector<std::int64_t> lengths;
      std::vector<T> values;
      for (std::size_t i = 0; i + 1 < offsets.size(); ++i) {
        lengths.push_back(0);
        for (std::int64_t row = offsets[i] - offsets[0]; row < offsets[i + 1] - offsets[0]; ++row) {
          if (!mask[static_cast<std::size_t>(row)]) continue;
          ++lengths.back();
          for (const T value : x.row(row)) values.push_back(value);
        }
      }
      for_each_executor([&](const auto& executor) {
        const auto y = lod::filter_rows(executor, x, mask);
        CHECK(y.lod().levels_above(last) == x.lod().levels_above(last));
        CHECK(y.lod_view().size(last) == static_cast<std::int64_t>(lengths.size()));
        for (std::size_t i = 0; i < lengths.size(); ++i) {
          const auto found = y.lod_view().absolute_offsets(last);
          CHECK(found[i + 1] - found[i] == lengths[i]);
        }
        CHECK(values_of(y) == values);
      });
    });
  });
}

TEST_CASE("filter_rows and its gradient: wrong arguments; infer_filter_rows: what it gives and refuses") {
  const lod::CpuExecutor executor(1);
  const LoDTensor<float> x(LoD::from_lengths({{2, 1}}), {2});
  LoDTensor<float> y({1});
  y.values()[0] = 7;
  check_throws<lod::ShapeMismatch>(
      [&] {
        lod::filter_rows_into(executor, x, {true, false}, y);
      },
      "filter_rows: a mask of 2 elements, expected 3, one for each row", y);
  check_throws<lod::ShapeMismatch>(
      [&] {
        lod::filter_rows_grad_into(executor, x, x.lod(), {true, false, true}, y);
      },
      "filter_rows_grad: dy: 3 rows, expected 2", y);
  check_throws<lod::ShapeMismatch>(
      [&] {
        lod::filter_rows_grad_into(executor, x, x.lod(), {true, false}, y);
      },
      "filter_rows_grad: a mask of 2 elements, expected 3", y);
  using lod::DataType;
  const auto of = described(DataType::FP32, {15, 2}, 2), mask = described(DataType::BOOL, {15});
  CHECK(lod::infer_filter_rows(of, mask) == described(DataType::FP32, {-1, 2}, 2));
  CHECK_THROWS_AS(lod::infer_filter_rows(of, described(DataType::BOOL, {14})), lod::ShapeMismatch);
}
