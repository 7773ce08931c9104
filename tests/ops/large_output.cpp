// SPDX-License-Identifier: Apache-2.0
/// @file
/// Results too large for a cache, which back ends may write in other ways than small ones. Whatever the way, they are
/// the results of their parts.
#include "support/executors.hpp"
#include "support/random_batch.hpp"
#include <lod/lod.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <vector>

using lod::LoD;
using lod::LoDTensor;
using namespace lod_test;

namespace {

/// Rows of the longest sequences, to whose length all others are padded.
constexpr std::int64_t longest_in_large_batch = slow ? 60 : 300;

/// Short and long sequences whose rows take somewhat more than a large result.
template <class T>
LoDTensor<T> large_batch(std::int64_t row_size) {
  Engine engine(5);
  const std::int64_t row_bytes = row_size * static_cast<std::int64_t>(sizeof(T));
  std::vector<std::int64_t> lengths;
  for (std::int64_t left = 256 * grain / row_bytes + 100; left > 0; left -= lengths.back()) {
    lengths.push_back(engine() % 1000 == 0 ? longest_in_large_batch : random_number(engine, 0, 40));
  }
  LoDTensor<T> x(LoD::from_lengths({lengths}), row_size == 1 ? lod::Shape{} : lod::Shape{row_size}, lod::uninitialized);
  for (std::int64_t i = 0; i < x.rows() * row_size; ++i) x.data()[i] = static_cast<T>(static_cast<float>(i % 251));
  return x;
}

/// Calls body(first, last) for parts of the batch that are small.
template <class X, class Body>
void for_each_part(const X& x, const Body& body) {
  const std::int64_t size = x.lod().size(0), parts = 16;
  for (std::int64_t part = 0; part < parts; ++part) body(size * part / parts, size * (part + 1) / parts);
}

/// f(executor, batch): as f of its parts. Two threads are enough: what differs is the way of writing, not the sharing.
template <class X, class F>
void check_parts(const char* name, const X& x, const F& f) {
  CAPTURE(name);
  const auto whole = f(lod::CpuExecutor(2), x.view());
  std::int64_t row = 0;
  for_each_part(x, [&](std::int64_t first, std::int64_t last) {
    const auto part = f(lod::CpuExecutor(1), x.between(first, last));
    REQUIRE(row + part.rows() <= whole.rows());
    CHECK(std::memcmp(part.data(), whole.data() + row * whole.row_size(), part.values().size_bytes()) == 0);
    row += part.rows();
  });
  CHECK(row == whole.rows());
}

template <class T>
void check_large(std::int64_t row_size) {
  CAPTURE(row_size);
  const auto x = large_batch<T>(row_size);
  check_parts("reverse", x, [](const auto& e, const auto& batch) { return lod::sequence_reverse(e, batch); });
  check_parts("concat", x, [](const auto& e, const auto& batch) { return lod::sequence_concat(e, batch, batch); });
  check_parts("slice", x, [](const auto& e, const auto& batch) {
    const auto lengths = batch.lod().lengths(0);
    std::vector<std::int64_t> offsets, counts;
    for (const std::int64_t length : lengths) {
      offsets.push_back(length / 4);
      counts.push_back((length + 1) / 2);
    }
    return lod::sequence_slice(e, batch, offsets, counts);
  });
  check_parts("select", x, [](const auto& e, const auto& batch) {
    // Each up to twice, which its length says, for parts begin with other numbers.
    const auto lengths = batch.lod().lengths(0);
    std::vector<std::int64_t> ids;
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      ids.insert(ids.end(), static_cast<std::size_t>(lengths[i] % 3), static_cast<std::int64_t>(i));
    }
    return lod::select(e, batch, ids);
  });
  check_parts("expand_as", x, [](const auto& e, const auto& batch) {
    const auto firsts = lod::sequence_first_step(e, batch);
    return lod::sequence_expand_as(e, firsts, batch.lod());
  });
  if constexpr (std::same_as<T, float>) {
    check_parts("softmax", x, [](const auto& e, const auto& batch) { return lod::sequence_softmax(e, batch); });
    check_parts("pool_grad", x, [](const auto& e, const auto& batch) {
      const auto firsts = lod::sequence_first_step(e, batch);
      return lod::sequence_pool_grad(e, firsts, batch.lod(), lod::PoolType::AVERAGE);
    });
  }
  for (const bool reverse : {false, true}) {
    check_parts("cumsum", x,
                [=](const auto& e, const auto& batch) { return lod::sequence_cumsum(e, batch, {.reverse = reverse}); });
  }
  for (const lod::Side side : {lod::Side::RIGHT, lod::Side::LEFT}) {
    for (const std::int64_t padded_length : {std::int64_t{31}, longest_in_large_batch}) {
      // Where all is slow, either length from one side, and from the other for other row sizes.
      if (slow && ((side == lod::Side::LEFT) == (padded_length == 31)) != (row_size % 2 == 0)) continue;
      CAPTURE(padded_length);
      const lod::PadOptions options{
          .pad_value = 3, .padded_length = padded_length, .side = side, .truncate = padded_length == 31};
      check_parts("pad", x,
                  [&](const auto& e, const auto& batch) { return lod::sequence_pad(e, batch, options).dense; });
      check_parts("pad_grad", x, [&](const auto& e, const auto& batch) {
        const auto dense = lod::sequence_pad(e, batch, options).dense;
        return lod::sequence_pad_grad(e, dense, batch.lod(), options);
      });
    }
  }
}

}  // namespace

TEST_CASE("Large results are those of their parts: rows of less than a line, of lines, and of other sizes") {
  check_large<float>(1);
  check_large<lod::bfloat16>(1);
  check_large<double>(1);
  check_large<float>(16);
  check_large<float>(25);
  check_large<lod::float16>(3);
  check_large<std::int64_t>(8);
}

TEST_CASE("Large results: sequences of up to 40 scalar rows, padded and back") {
  Engine engine(9);
  std::vector<std::int64_t> lengths;
  for (std::int64_t left = 256 * grain / 4 + 77; left > 0; left -= lengths.back()) {
    lengths.push_back(random_number(engine, 0, 40));
  }
  auto x = LoDTensor<float>(LoD::from_lengths({lengths}), {});
  for (std::int64_t i = 0; i < x.rows(); ++i) x.data()[i] = static_cast<float>(i % 1009);
  for (const lod::Side side : {lod::Side::RIGHT, lod::Side::LEFT}) {
    for (const int threads : {1, 3}) {
      const lod::CpuExecutor executor(threads);
      const auto padded = lod::sequence_pad(executor, x, {.side = side});
      CHECK(same_bits(lod::sequence_unpad(executor, padded.dense, padded.lengths, {.side = side}), x));
    }
  }
}
