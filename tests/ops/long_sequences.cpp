// SPDX-License-Identifier: Apache-2.0
/// @file
/// Long sequences among short ones: each has the bits that it has alone, and on every executor the same where nothing
/// but sums is computed.
#include "support/long_sequences.hpp"

#include "support/close.hpp"
#include "support/executors.hpp"
#include "support/random_batch.hpp"
#include <lod/lod.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <type_traits>
#include <vector>

using lod::LoDTensor;
using lod::PoolType;
using namespace lod_test;

namespace {

template <class T, class F>
void check_all(const char* name, const LoDTensor<T>& x, const F& f) {
  INFO(name);
  const auto slice = x.between(1, 4);
  const auto copy = LoDTensor<T>::copy_of(slice);
  const lod::CpuExecutor alone(1);
  const auto whole_result = f(alone, x.view()), copy_result = f(alone, copy.view());
  for_each_executor([&](const auto& executor) {
    CHECK(same_bits(f(executor, x.view()), whole_result));
    CHECK(same_bits(f(executor, slice), copy_result));
  });
}

}  // namespace

TEST_CASE_TEMPLATE("long sequences among short ones: reductions and running sums have one result", T, float, double,
                   lod::float16, std::int32_t) {
  for (const std::int64_t row_size : {1, 3, 8, 12, 17}) {
    // Where all is slow, one type has every row size.
    if (slow && !std::is_same_v<T, float> && row_size != 1 && row_size != 8) continue;
    CAPTURE(row_size);
    Engine engine(51);
    const lod::LoD index = long_among_short(engine, row_size);
    LoDTensor<T> x(index, {row_size});
    if constexpr (lod::supports<lod::op::sequence_softmax, T>) {
      fill_real(engine, x);
    } else {
      fill_small(engine, x);
    }
    for (const PoolType type : {PoolType::SUM, PoolType::AVERAGE}) {
      check_all("sequence_pool", x, [&](const auto& e, const auto& v) { return lod::sequence_pool(e, v, type); });
    }
    check_all("sequence_pool of the outermost level", x,
              [&](const auto& e, const auto& v) { return lod::sequence_pool(e, v, PoolType::SUM, {.level = 0}); });
    for (const bool reverse : {false, true}) {
      check_all("sequence_cumsum", x, [&](const auto& e, const auto& v) {
        return lod::sequence_cumsum(e, v, {.exclusive = reverse, .reverse = reverse});
      });
    }
    const auto ties = many_ties<T>(engine, index, row_size);
    check_all("max_pool", ties, [](const auto& e, const auto& v) { return lod::sequence_max_pool(e, v).index; });
    check_all("min_pool", ties, [](const auto& e, const auto& v) { return lod::sequence_min_pool(e, v).index; });
    check_all("MAX", ties, [](const auto& e, const auto& v) { return lod::sequence_pool(e, v, PoolType::MAX); });
    check_all("MIN", ties, [](const auto& e, const auto& v) {
      return lod::sequence_pool(e, v, PoolType::MIN, {.pad_value = 2, .level = 0});
    });
  }
}

TEST_CASE_TEMPLATE("long sequences among short ones: pools of looked-up rows have one result", T, float,
                   lod::bfloat16) {
  for (const std::int64_t row_size : {1, 3, 8, 12}) {
    CAPTURE(row_size);
    Engine engine(53);
    const lod::LoD index = long_among_short(engine, row_size);
    const auto ids = random_ids(engine, index, 40);
    const auto table = many_ties<T>(engine, lod::LoD::from_lengths({{900}}), row_size);
    for (const PoolType type : {PoolType::AVERAGE, PoolType::MAX, PoolType::MIN, PoolType::LAST}) {
      check_all("embedding_pool", ids,
                [&](const auto& e, const auto& v) { return lod::embedding_pool(e, table, v, type); });
    }
    check_all("embedding_max_pool", ids,
              [&](const auto& e, const auto& v) { return lod::embedding_max_pool(e, table, v).index; });
  }
}

TEST_CASE("long sequences among short ones: rows that begin at no multiple of 16 bytes are pooled alike") {
  Engine engine(54);
  const std::int64_t row_size = 8;
  const lod::LoD index = long_among_short(engine, row_size);
  const auto x = real_numbers<float>(engine, index, {row_size});
  std::vector<float> numbers(x.values().size() + 4);
  for (const std::size_t shift : {0U, 1U, 2U, 4U}) {
    CAPTURE(shift);
    const auto values = std::span(numbers).subspan(shift, x.values().size());
    std::copy(x.values().begin(), x.values().end(), values.begin());
    const auto shifted = LoDTensor<float>::wrap(values, index, {row_size});
    for_each_executor([&](const auto& executor) {
      for (const PoolType type : {PoolType::SQRT, PoolType::MAX}) {
        CHECK(same_bits(lod::sequence_pool(executor, shifted, type), lod::sequence_pool(executor, x, type)));
      }
    });
  }
}

TEST_CASE("long sequences among short ones: a softmax and its gradient are what they are in parts of the batch") {
  for (const std::int64_t row_size : {1, 3, 8, 12}) {
    CAPTURE(row_size);
    Engine engine(52);
    const auto index = lod::LoD::from_lengths({long_among_short(engine, row_size).lengths(-1)});
    auto x = real_numbers<float>(engine, index, {row_size});
    const auto dy = real_numbers<float>(engine, index, {row_size});
    x.data()[100 * row_size] = -std::numeric_limits<float>::infinity();
    for_each_executor([&](const auto& executor) {
      const auto check = [&](const char* name, const auto& f) {
        INFO(name);
        const auto all = f(x.view(), dy.view());
        bool same = true;
        for (std::int64_t i = 0; i < index.size(0); ++i) {
          const auto one = f(x.between(i, i + 1), dy.between(i, i + 1));
          same = same && same_bits(one, all.between(i, i + 1));
        }
        CHECK(same);
      };
      check("softmax", [&](const auto& v, const auto&) { return lod::sequence_softmax(executor, v); });
      check("log_softmax", [&](const auto& v, const auto&) { return lod::sequence_log_softmax(executor, v); });
      check("softmax_grad", [&](const auto& v, const auto& d) { return lod::sequence_softmax_grad(executor, d, v); });
      check("log_softmax_grad",
            [&](const auto& v, const auto& d) { return lod::sequence_log_softmax_grad(executor, d, v); });
      check("logsumexp", [&](const auto& v, const auto&) { return lod::sequence_logsumexp(executor, v); });
    });
  }
}

TEST_CASE("long sequences: leaves of infinities, NaN, very large and very small numbers beside others") {
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  const std::int64_t leaf = lod::kernel::leaf_rows, rows = 3 * leaf + 5;
  struct NamedNumbers {
    const char* name;
    float in_leaf[3];  ///< of all rows of the leaf
    float last;        ///< of the last row
  };
  const NamedNumbers cases[] = {{"nothing but -inf", {-infinity, -infinity, -infinity}, -infinity},
                                {"leaves of -inf", {-infinity, -1000, -infinity}, -1001},
                                {"-inf but for the last row", {-infinity, -infinity, -infinity}, -1e30F},
                                {"large ones", {80, 1e30F, 1e30F}, 1e30F},
                                {"small ones", {-1e30F, -80, -81}, 0},
                                {"+inf", {1, 2, 3}, infinity},
                                {"NaN among -inf", {-infinity, -infinity, -infinity}, nan},
                                {"NaN", {1, nan, 3}, 2}};
  for (const NamedNumbers& numbers : cases) {
    INFO(numbers.name);
    LoDTensor<float> x(lod::LoD::from_lengths({{3, rows, 0, 2}}), {});
    float* const sequence = x.data() + 3;
    for (std::int64_t row = 0; row < rows; ++row)
      sequence[row] = numbers.in_leaf[std::min(row / leaf, std::int64_t{2})];
    sequence[rows - 1] = numbers.last;

    double maximum = -infinity, sum = 0;
    bool is_nan = false;
    for (std::int64_t row = 0; row < rows; ++row) {
      maximum = std::max(maximum, static_cast<double>(sequence[row]));
      is_nan = is_nan || std::isnan(sequence[row]);
    }
    const double shift = std::isfinite(maximum) ? maximum : 0;
    for (std::int64_t row = 0; row < rows; ++row) sum += std::exp(static_cast<double>(sequence[row]) - shift);
    for_each_executor([&](const auto& executor) {
      const auto y = lod::sequence_softmax(executor, x), logarithms = lod::sequence_log_softmax(executor, x);
      const float logsumexp = lod::sequence_logsumexp(executor, x).values()[1];
      if (is_nan) {
        CHECK(std::isnan(logsumexp));
      } else {
        CHECK(close(logsumexp, shift + std::log(sum)));
      }
      for (const std::int64_t row : {std::int64_t{0}, leaf, 2 * leaf, rows - 1}) {
        CAPTURE(row);
        const auto at = static_cast<std::size_t>(3 + row);
        if (is_nan || maximum == infinity) {
          CHECK(std::isnan(y.values()[at]));
          CHECK(std::isnan(logarithms.values()[at]));
          continue;
        }
        const double shifted = static_cast<double>(sequence[row]) - shift;
        const bool all_masked = maximum == -infinity;
        CHECK(close(y.values()[at], all_masked ? 0 : std::exp(shifted) / sum));
        CHECK(close(logarithms.values()[at], all_masked ? maximum : shifted - std::log(sum)));
      }
    });
  }
}
