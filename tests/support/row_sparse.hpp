// SPDX-License-Identifier: Apache-2.0
/// @file
/// Row-sparse tensors in the short form in which cases write them.
#pragma once

#include "support/random_batch.hpp"
#include <lod/lod_tensor.hpp>
#include <lod/selected_rows.hpp>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <vector>

namespace lod_test {

/// One number a row.
template <class T = float>
lod::SelectedRows<T> rows_of_one(const std::vector<std::int64_t>& rows, std::int64_t height,
                                 std::initializer_list<double> values) {
  lod::SelectedRows<T> g(rows, height, {});
  std::size_t i = 0;
  for (const double value : values) g.value().values()[i++] = static_cast<T>(value);
  return g;
}

template <class T>
std::vector<double> numbers_of(const lod::LoDTensor<T>& x) {
  std::vector<double> numbers;
  for (const T value : x.values()) numbers.push_back(static_cast<double>(value));
  return numbers;
}

/// `count` rows of `row_size` real numbers, unsorted, of which one id has most.
template <class T>
lod::SelectedRows<T> rows_mostly_one(Engine& engine, std::int64_t count, std::int64_t height, std::int64_t row_size) {
  std::vector<std::int64_t> rows;
  for (std::int64_t i = 0; i < count; ++i) rows.push_back(i % 3 ? height / 39 : random_number(engine, 0, height - 1));
  return {rows, height, real_numbers<T>(engine, {count, row_size})};
}

}  // namespace lod_test
