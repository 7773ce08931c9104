// SPDX-License-Identifier: Apache-2.0
/// @file
/// Sizes at which 32 bits wrap: row 65536 of 65536 bytes begins at 2^32, where they see row 0.
#include "support/executors.hpp"
#include <lod/lod.hpp>

#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

using lod::LoD;
using lod::LoDTensor;
using namespace lod_test;
using Bytes = LoDTensor<std::int8_t>;
using Numbers = std::vector<std::int64_t>;

namespace {

constexpr std::int64_t many_rows = 65537, wide_row = 65536, last_row = many_rows - 1;

void fill(std::span<std::int8_t> row, std::int8_t value) { std::fill(row.begin(), row.end(), value); }

/// Tensors of four gigabytes need a machine that has them.
bool has_memory() { return sysconf(_SC_PHYS_PAGES) >= (std::int64_t{12} << 30) / sysconf(_SC_PAGE_SIZE); }

/// Such a tensor is written as a whole: not under tools that make that slow.
constexpr bool writes_gigabytes = grain == 65536;

}  // namespace

TEST_CASE("embedding, select, sequence_pool, ...: rows behind 2^32 elements are read and written where they are" *
          doctest::skip(!has_memory())) {
  Bytes x({many_rows, wide_row}, lod::uninitialized);  // the system gives memory for the rows that are touched only
  for (const std::int64_t row : {std::int64_t{0}, last_row - 1, last_row}) fill(x.row(row), 1);
  x.row(last_row)[1] = 7;
  const Bytes expected = Bytes::copy_of(x.between(last_row, many_rows));
  const auto one = std::as_const(x).with_lod(LoD::from_lengths({{many_rows}}));
  const auto two = std::as_const(x).with_lod(LoD::from_lengths({{last_row, 1}}));
  Numbers lengths(static_cast<std::size_t>(many_rows));
  lengths.back() = wide_row;
  for_each_executor([&](const auto& executor) {
    CHECK(same_bits(lod::embedding(executor, x, LoDTensor<std::int64_t>::from_nested(Numbers{last_row})), expected));
    CHECK(same_bits(lod::select(executor, x, Numbers{last_row}), expected));
    CHECK(same_bits(lod::from_dense(executor, x, Numbers{last_row}).value(), expected));
    CHECK(same_bits(lod::sequence_pool(executor, two, lod::PoolType::FIRST).between(1, 2), expected));
    CHECK(same_bits(lod::sequence_pool(executor, two, lod::PoolType::LAST).between(1, 2), expected));
    CHECK(same_bits(lod::sequence_slice(executor, one, Numbers{last_row}, Numbers{1}).with_lod(LoD()), expected));
    const auto unpadded = lod::sequence_unpad(executor, x, lengths);
    CHECK(std::equal(unpadded.values().begin(), unpadded.values().end(), expected.values().begin()));
  });
  lod::scatter(lod::SelectedRows<std::int8_t>({last_row}, many_rows, Bytes(expected)), lod::ScatterOp::ADD, x);
  CHECK(x.row(last_row)[1] == 14);
  CHECK(x.row(0)[1] == 1);
  Numbers counts(static_cast<std::size_t>(many_rows));
  counts.back() = 1;
  LoDTensor<std::int64_t> ids(LoD::from_lengths({counts}), {});
  ids.data()[0] = wide_row - 1;
  Bytes update({1});
  update.data()[0] = 5;
  lod::sequence_scatter_into(lod::CpuExecutor(2), x, ids, update, x);
  CHECK(x.row(last_row).back() == 7);
  CHECK(x.row(0).back() == 1);
}

TEST_CASE("sequence_expand, sequence_pad: all rows of a result beyond 32 bits are written" *
          doctest::skip(!writes_gigabytes || !has_memory())) {
  Bytes row({1, wide_row});
  fill(row.values(), 5);
  Bytes y({many_rows, wide_row}, lod::uninitialized);
  lod::sequence_expand_into(lod::CpuExecutor(2), row, LoD::from_lengths({{many_rows}}), y.view());
  bool all = true;
  for (std::int64_t i = 0; i < many_rows; ++i) all = all && y.row(i).front() == 5 && y.row(i).back() == 5;
  CHECK(all);

  constexpr std::int64_t places = 32769;  // 65537 * 32769 is more than 2^31
  Numbers lengths(static_cast<std::size_t>(many_rows));
  lengths.front() = lengths.back() = 1;
  Bytes x(LoD::from_lengths({lengths}), {});
  x.data()[0] = 6;
  x.data()[1] = 7;
  auto dense = Bytes::wrap(y.values().first(static_cast<std::size_t>(many_rows * places)), LoD(), {places});
  LoDTensor<std::int64_t> counts;
  lod::sequence_pad_into(lod::CpuExecutor(2), x, {.pad_value = 9, .padded_length = places}, dense.view(), counts);
  all = dense.row(0)[0] == 6 && dense.row(last_row)[0] == 7;
  for (std::int64_t i = 0; i < many_rows; ++i) all = all && dense.row(i)[1] == 9 && dense.row(i).back() == 9;
  CHECK(all);
}
