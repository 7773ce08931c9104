// SPDX-License-Identifier: Apache-2.0
/// @file
/// Batches of many short sequences: back ends take several of them at once, whatever their lengths. What they give must
/// be what each sequence gives alone.
#include "support/close.hpp"
#include "support/executors.hpp"
#include "support/random_batch.hpp"
#include <lod/lod.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <limits>
#include <span>
#include <string>
#include <vector>

using lod::LoD;
using lod::LoDTensor;
using lod::PoolType;
using namespace lod_test;

namespace {

constexpr float nan = std::numeric_limits<float>::quiet_NaN();

struct NamedLengths {
  const char* name;
  std::vector<std::int64_t> lengths;
};

/// Lengths around those of vectors, of groups of sequences, and of what is short.
std::vector<NamedLengths> batches() {
  std::vector<NamedLengths> all = {
      {"empty", std::vector<std::int64_t>(40, 0)},      {"one row", std::vector<std::int64_t>(100, 1)},
      {"eight rows", std::vector<std::int64_t>(33, 8)}, {"nine rows", std::vector<std::int64_t>(33, 9)},
      {"32 rows", std::vector<std::int64_t>(17, 32)},   {"33 rows", std::vector<std::int64_t>(17, 33)},
      {"fewer than eight sequences", {3, 0, 5}}};
  std::vector<std::int64_t> growing, mixed, sparse;
  for (std::int64_t length = 0; length < 48; ++length) {
    growing.push_back(length);
    // Long ones at every place of a group, one, two and three of eight.
    for (std::int64_t k = 0; k < 8; ++k) mixed.push_back(k == length % 8 || length % 3 * k == 6 ? 40 + 20 * k : k);
    for (std::int64_t k = 0; k < 8; ++k) sparse.push_back(k == length % 8 || k == length / 8 ? length % 33 : 0);
  }
  all.push_back({"growing", growing});
  all.push_back({"long ones between", mixed});
  all.push_back({"mostly empty", sparse});
  // Runs of hundreds; those that are not empty are short and long, and at both ends of a run.
  std::vector<std::int64_t> nearly_empty(700, 0);
  for (std::size_t i = 0; i < nearly_empty.size(); i += i % 50 == 0 ? 1 : 7) {
    nearly_empty[i] = i % 11 == 0 ? 33 + static_cast<std::int64_t>(i % 5) : static_cast<std::int64_t>(i % 33);
  }
  all.push_back({"nearly all empty", nearly_empty});
  nearly_empty.erase(nearly_empty.begin(), nearly_empty.begin() + 5);
  nearly_empty.back() = 3;
  all.push_back({"nearly all empty, an odd number of them", nearly_empty});
  return all;
}

/// Calls body(x) with numbers of all sorts for each of the batches; where all is slow, with every other sort.
template <class T, class Body>
void for_each_batch(const Body& body, const lod::Shape& row_shape = {}) {
  std::size_t turn = 0;
  for (const NamedLengths& batch : batches()) {
    const LoD lod = LoD::from_lengths({batch.lengths});
    ++turn;  // the next batch has the others
    for (const char* numbers : {"of all sorts", "whole", "with zeros of both signs", "with NaNs and infinities"}) {
      if (slow && turn++ % 2 == 0) continue;
      CAPTURE(std::string(batch.name));
      CAPTURE(std::string(numbers));
      Engine engine(3);
      auto x = real_numbers<T>(engine, lod, row_shape);
      for (T& number : x.values()) {
        if (numbers[0] == 'w' && numbers[1] == 'h') number = static_cast<T>(static_cast<float>(engine() % 7) - 3);
        if (numbers[5] == 'z') number = static_cast<T>(engine() % 2 ? 0.0F : -0.0F);
        if (numbers[5] == 'N' && engine() % 5 == 0) {
          number = static_cast<T>(engine() % 3 == 0 ? nan : engine() % 2 ? infinity : -infinity);
        }
      }
      body(x);
    }
  }
}

/// The same bits; of NaNs any two are the same.
template <class T>
bool same_or_nan(const T& a, const T& b) {
  return std::memcmp(&a, &b, sizeof(T)) == 0 || (a != a && b != b);
}

/// f(executor, x) of the batch is what f gives for each sequence, one after the other.
template <class T, class F>
void check_each_alone(const LoDTensor<T>& x, const F& f) {
  for_each_executor([&](const auto& executor) {
    const auto together = f(executor, x);
    auto next = together.values().begin();
    for (std::int64_t i = 0; i < x.lod().size(0); ++i) {
      INFO("sequence ", i);
      const auto alone = f(working_alone(executor), LoDTensor<T>::copy_of(x.between(i, i + 1)));
      REQUIRE(together.values().end() - next >= std::ssize(alone.values()));
      CHECK(std::ranges::equal(alone.values(), std::span(next, alone.values().size()),
                               [](const auto& a, const auto& b) { return same_or_nan(a, b); }));
      next += std::ssize(alone.values());
    }
    CHECK(next == together.values().end());
  });
}

}  // namespace

TEST_CASE("sequence_pool: of many short sequences each has what it has alone") {
  for_each_batch<float>([](const auto& x) {
    for (const PoolType type : {PoolType::SUM, PoolType::AVERAGE, PoolType::SQRT, PoolType::MAX, PoolType::MIN}) {
      CAPTURE(static_cast<int>(type));
      check_each_alone(x, [type](const auto& e, const auto& batch) {
        return lod::sequence_pool(e, batch, type, {.pad_value = -7});
      });
    }
  });
}

TEST_CASE_TEMPLATE("sequence_pool: of many short sequences of 8 and 16 bits each has what it has alone", T,
                   lod::float16, lod::bfloat16, std::int16_t, std::int8_t, std::uint8_t) {
  // 16 sequences of 32 rows are the most that are pooled together as wider numbers; 512 and 513 rows, also among
  // others.
  std::vector<std::int64_t> lengths(32, 32), mixed;
  lengths.push_back(33);
  for (int k = 0; k < 9; ++k) mixed.insert(mixed.end(), {0, 1, 33, 17, 32, 0, 40, 2});
  lengths.insert(lengths.end(), mixed.begin(), mixed.end());
  for (const std::int64_t long_one : {500, 513}) {
    lengths.insert(lengths.end(), {long_one, 1, 2, 0, 3, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 5});
  }
  const auto lod = LoD::from_lengths({lengths});
  for (const bool extreme : {false, true}) {
    CAPTURE(extreme);
    Engine engine(5);
    LoDTensor<T> x(lod, {});
    if constexpr (std::integral<T>) {
      for (T& number : x.values()) number = static_cast<T>(engine());
    } else {
      fill_real(engine, x);
    }
    for (T& number : x.values()) {
      using Limits = std::numeric_limits<T>;
      if (extreme) number = engine() % 2 ? Limits::max() : Limits::lowest();
      if (!std::integral<T> && extreme && engine() % 40 == 0)
        number = engine() % 2 ? Limits::quiet_NaN() : -Limits::infinity();
    }
    for (const PoolType type : {PoolType::SUM, PoolType::AVERAGE, PoolType::SQRT, PoolType::MAX, PoolType::MIN}) {
      CAPTURE(static_cast<int>(type));
      const auto pool = [type](const auto& e, const auto& batch) {
        return lod::sequence_pool(e, batch, type, {.pad_value = 7});
      };
      check_each_alone(x, pool);
      check_each_alone(LoDTensor<T>::copy_of(x.between(1, x.size())), pool);
      const auto whole = pool(lod::CpuExecutor(1), x), part = pool(lod::CpuExecutor(1), x.between(3, x.size() - 2));
      for (std::size_t i = 0; i < part.values().size(); ++i) CHECK(same_or_nan(part.data()[i], whole.data()[i + 3]));
    }
  }
}

TEST_CASE("sequence_max_pool: the winner of each column of many short sequences is the first of the greatest numbers") {
  for (const std::int64_t row_size : {1, 2, 5, 7, 9, 17}) {
    CAPTURE(row_size);
    for_each_batch<float>(
        [](const auto& x) {
          const auto [values, index] = lod::sequence_max_pool(x);
          const auto offsets = x.lod_view().absolute_offsets(0);
          for (std::int64_t i = 0; i < x.size(); ++i) {
            const auto found = values.row(i);
            bool as_expected = true;
            for (std::size_t column = 0; column < found.size(); ++column) {
              std::int64_t winner = -1;
              for (std::int64_t row = offsets[static_cast<std::size_t>(i)];
                   row < offsets[static_cast<std::size_t>(i) + 1]; ++row) {
                const float number = x.row(row)[column], best = winner < 0 ? 0 : x.row(winner)[column];
                if (winner < 0 || number > best || (number != number && best == best)) winner = row;
              }
              as_expected = as_expected && index.row(i)[column] == winner;
              as_expected = as_expected && same_or_nan(found[column], winner < 0 ? 0 : x.row(winner)[column]);
            }
            INFO("sequence ", i);
            CHECK(as_expected);
          }
        },
        {row_size});
  }
}

TEST_CASE("sequence_pool, sequence_softmax: of many short sequences of narrow rows each has what it has alone") {
  for (const std::int64_t row_size : {2, 5, 7, 9, 17}) {
    CAPTURE(row_size);
    for_each_batch<float>(
        [](const auto& x) {
          for (const PoolType type : {PoolType::SQRT, PoolType::MAX, PoolType::LAST}) {
            CAPTURE(static_cast<int>(type));
            check_each_alone(x,
                             [type](const auto& e, const auto& batch) { return lod::sequence_pool(e, batch, type); });
          }
          check_each_alone(x, [](const auto& e, const auto& batch) { return lod::sequence_softmax(e, batch); });
        },
        {row_size});
  }
}

TEST_CASE("sequence_max_pool: of many short sequences each has the row that it has alone") {
  for_each_batch<float>([](const auto& x) {
    for_each_executor([&](const auto& executor) {
      const auto top = lod::sequence_max_pool(executor, x);
      for (std::int64_t i = 0; i < x.lod().size(0); ++i) {
        const auto sequence = x.between(i, i + 1);
        const auto alone = lod::sequence_max_pool(working_alone(executor), sequence);
        const std::int64_t row = alone.index.data()[0];
        CHECK(same_or_nan(top.values.data()[i], alone.values.data()[0]));
        CHECK(top.index.data()[i] == (row < 0 ? -1 : sequence.first_row() + row));
      }
    });
  });
}

TEST_CASE_TEMPLATE("sequence_softmax, sequence_log_softmax: of many short sequences each has what it has alone", T,
                   float, double, lod::bfloat16) {
  for_each_batch<T>([](const auto& x) {
    check_each_alone(x, [](const auto& e, const auto& batch) { return lod::sequence_softmax(e, batch); });
    check_each_alone(x, [](const auto& e, const auto& batch) { return lod::sequence_log_softmax(e, batch); });
    // In place, too.
    for_each_executor([&](const auto& executor) {
      auto y = x;
      lod::sequence_softmax_into(executor, x, y);
      auto in_place = x;
      lod::sequence_softmax_into(executor, in_place, in_place);
      CHECK(std::ranges::equal(y.values(), in_place.values(),
                               [](const auto& a, const auto& b) { return same_or_nan(a, b); }));
    });
  });
}

TEST_CASE_TEMPLATE("sequence_logsumexp: of many short sequences each has what it has alone", T, float, double,
                   lod::bfloat16) {
  for_each_batch<T>([](const auto& x) {
    check_each_alone(x, [](const auto& e, const auto& batch) { return lod::sequence_logsumexp(e, batch); });
  });
}

TEST_CASE_TEMPLATE("sequence_cumsum: of many short sequences each has what it has alone, in place too", T, float,
                   double, lod::bfloat16) {
  for_each_batch<T>([](const auto& x) {
    for (const lod::CumsumOptions& options : {lod::CumsumOptions{}, {.exclusive = true}, {.reverse = true}}) {
      CAPTURE(options.exclusive);
      CAPTURE(options.reverse);
      check_each_alone(x, [&](const auto& e, const auto& batch) { return lod::sequence_cumsum(e, batch, options); });
      check_each_alone(x, [&](const auto& e, const auto& batch) {
        auto y = LoDTensor<T>::copy_of(batch.view());
        lod::sequence_cumsum_into(e, y, options, y);
        return y;
      });
    }
  });
}

TEST_CASE("sequence_pad, sequence_unpad: many short sequences, from both sides, and back") {
  for_each_batch<float>([](const auto& x) {
    for (const lod::Side side : {lod::Side::RIGHT, lod::Side::LEFT}) {
      const std::int64_t longest = x.lod().max_length(0) + 2;
      for_each_executor([&](const auto& executor) {
        const auto padded = lod::sequence_pad(executor, x, {.pad_value = 9, .padded_length = longest, .side = side});
        for (std::int64_t i = 0; i < x.lod().size(0); ++i) {
          const auto rows = x.between(i, i + 1).values();
          const auto block =
              padded.dense.values().subspan(static_cast<std::size_t>(i * longest), static_cast<std::size_t>(longest));
          const std::size_t before = side == lod::Side::LEFT ? block.size() - rows.size() : 0;
          for (std::size_t k = 0; k < block.size(); ++k) {
            const bool kept = k >= before && k < before + rows.size();
            CHECK(same_or_nan(block[k], kept ? rows[k - before] : 9.0F));
          }
        }
        CHECK(same_bits(lod::sequence_unpad(executor, padded.dense, padded.lengths, {.side = side}), x));
      });
    }
  });
}
