// SPDX-License-Identifier: Apache-2.0
// Sums and means of numbers at the ends of their types, against 128-bit integers and long double.
#include "support/executors.hpp"
#include "support/random_batch.hpp"
#include "support/random_lod.hpp"
#include <lod/lod.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <string>
#include <type_traits>
#include <vector>

using lod::LoDTensor;
using lod::PoolType;
using lod::SelectedRows;
using namespace lod_test;

namespace {

__extension__ typedef __int128 Exact;
using Real = long double;

/// A batch whose sequences are what kernels distinguish: none, one row, few, a leaf, several, many.
const std::vector<std::int64_t> kinds_of_lengths = {1, 0, 2, 7, 16, 4, 33, 512, 513, 1, 0, 1100};
const lod::LoD of_all_lengths = lod::LoD::from_lengths({kinds_of_lengths});
const std::vector<std::int64_t> row_sizes = {1, 3, 16, 17, 70};

/// The column of a sequence.
template <class X>
std::vector<typename X::value_type> column(const X& x, std::int64_t first, std::int64_t length, std::int64_t c) {
  std::vector<typename X::value_type> numbers;
  for (std::int64_t row = first; row < first + length; ++row)
    numbers.push_back(x.row(row)[static_cast<std::size_t>(c)]);
  return numbers;
}
/// f(i, column, numbers) for each sequence and column.
template <class X, class F>
void for_each_column(const X& x, const F& f) {
  for (std::int64_t i = 0, first = 0; i < of_all_lengths.size(0);
       first += kinds_of_lengths[static_cast<std::size_t>(i++)]) {
    for (std::int64_t c = 0; c < x.row_size(); ++c)
      f(i, c, column(x, first, kinds_of_lengths[static_cast<std::size_t>(i)], c));
  }
}

template <class T>
T nearest(Exact number) {
  return static_cast<T>(std::clamp<Exact>(number, std::numeric_limits<T>::min(), std::numeric_limits<T>::max()));
}

template <class T>
void check_integer(PoolType type, const std::vector<T>& numbers, T found) {
  if (numbers.empty()) {
    CHECK(found == 0);
    return;
  }
  const Exact n = static_cast<Exact>(numbers.size());
  Exact sum = 0;
  for (const T number : numbers) sum += number;
  const bool fits = sum >= std::numeric_limits<T>::min() && sum <= std::numeric_limits<T>::max();
  if (type == PoolType::SUM) {
    CHECK(found == static_cast<T>(static_cast<std::uint64_t>(sum)));
  } else if (type == PoolType::AVERAGE) {
    CHECK(found == static_cast<T>(sum / n));
  } else {
    auto root = static_cast<Exact>(std::sqrt(static_cast<double>(n)));
    if (root * root == n) {
      CHECK(found == nearest<T>(sum / root));
    } else {
      // The greatest q with q^2 n <= sum^2: at most what a long double is off by.
      const Real exact = std::trunc(static_cast<Real>(sum) / std::sqrt(static_cast<Real>(n)));
      const Real expected = std::clamp(exact, static_cast<Real>(std::numeric_limits<T>::min()),
                                       static_cast<Real>(std::numeric_limits<T>::max()));
      const Real error = std::fabs(static_cast<Real>(found) - expected);
      CHECK(error <= (std::fabs(expected) < 0x1p52L ? 0 : 1 + std::fabs(expected) * 0x1p-62L));
      // Small enough to be checked exactly.
      if (fits && sum < Exact{1} << 40 && sum > -(Exact{1} << 40)) {
        const Exact q = found < 0 ? -Exact{found} : Exact{found}, size = sum < 0 ? -sum : sum;
        CHECK(q * q * n <= size * size);
        CHECK((q + 1) * (q + 1) * n > size * size);
      }
    }
  }
}

/// Each kind of numbers meets narrow and wide rows, but not rows of every size: all types take a second or two.
bool is_chosen(std::int64_t row_size, int kind) {
  return row_size <= 1 || (row_size <= 17 ? kind % 2 == row_size % 2 : kind == 2);
}

/// Numbers of one kind: about the ends of the type, all of one sign or of both, or small ones.
template <class T>
LoDTensor<T> integers(Engine& engine, std::int64_t row_size, int kind) {
  LoDTensor<T> x(of_all_lengths, {row_size});
  using Limits = std::numeric_limits<T>;
  for (T& number : x.values()) {
    const auto little = static_cast<T>(engine() % 100);
    const T large = static_cast<T>(Limits::max() - little), least = static_cast<T>(Limits::min() + little);
    number = kind == 0 ? large : kind == 1 ? least : kind == 2 ? (engine() % 2 == 0 ? large : least) : little;
  }
  return x;
}

/// Calls f(engine, row_size, kind) for what is tried.
template <class F>
void for_each_tried(const std::vector<std::int64_t>& sizes, const F& f) {
  for (const std::int64_t row_size : sizes) {
    for (int kind = 0; kind < 4; ++kind) {
      if (!is_chosen(row_size, kind)) continue;
      Engine engine(first_seed() + static_cast<std::uint64_t>(kind));
      CAPTURE(first_seed());
      CAPTURE(row_size);
      CAPTURE(kind);
      f(engine, row_size, kind);
    }
  }
}

/// Checks what x is pooled to by check(type, a column, what it gave), calls also(type, y), and compares executors.
template <class T, class Check, class Also>
void check_exact_pools(const LoDTensor<T>& x, const Check& check, const Also& also) {
  for (const PoolType type : {PoolType::SUM, PoolType::AVERAGE, PoolType::SQRT}) {
    CAPTURE(static_cast<int>(type));
    const auto y = lod::sequence_pool(lod::CpuExecutor(1), x, type);
    for_each_column(x, [&](std::int64_t i, std::int64_t c, const std::vector<T>& numbers) {
      CAPTURE(numbers.size());
      check(type, numbers, y.row(i)[static_cast<std::size_t>(c)]);
    });
    for_each_executor([&](const auto& executor) { CHECK(same_bits(lod::sequence_pool(executor, x, type), y)); });
    also(type, y);
  }
}

template <class T>
void check_integers() {
  for_each_tried(row_sizes, [](Engine& engine, std::int64_t row_size, int kind) {
    const LoDTensor<T> x = integers<T>(engine, row_size, kind);
    check_exact_pools(
        x, [](PoolType type, const std::vector<T>& numbers, T found) { check_integer(type, numbers, found); },
        [&](PoolType type, const LoDTensor<T>& y) {
          // Many digits are divided by roots: where all is slow, not for all rows of wide ones.
          if (slow && sizeof(T) == 8 && type == PoolType::SQRT && row_size > 3) return;
          // The gradient divides in the same way.
          const auto dx = lod::sequence_pool_grad(lod::CpuExecutor(1), y, of_all_lengths, type);
          for (std::int64_t i = 0, first = 0; i < of_all_lengths.size(0);
               first += kinds_of_lengths[static_cast<std::size_t>(i++)]) {
            const auto n = kinds_of_lengths[static_cast<std::size_t>(i)];
            if (n == 0 || type != PoolType::AVERAGE) continue;
            CHECK(dx.row(first)[0] == static_cast<T>(Exact{y.row(i)[0]} / n));
          }
          for_each_executor([&](const auto& executor) {
            CHECK(same_bits(lod::sequence_pool_grad(executor, y, of_all_lengths, type), dx));
          });
        });
  });
}

template <class T>
Real as_real(T number) {
  return static_cast<Real>(static_cast<double>(number));
}

template <class T>
LoDTensor<T> reals(Engine& engine, std::int64_t row_size, int kind) {
  LoDTensor<T> x(of_all_lengths, {row_size});
  const T greatest = std::numeric_limits<T>::max();
  std::int64_t at = 0;
  for (T& number : x.values()) {
    const bool negative = kind == 1 || (kind == 2 && engine() % 2 == 0) || (kind == 3 && at++ / row_size % 2 == 1);
    number = engine() % 8 == 0 ? static_cast<T>(greatest / T(2)) : greatest;
    if (negative) number = -number;
  }
  return x;
}

/// `error` is what a sum may be off by, against the sum of all sizes: that of 128 additions where it is made of floats.
template <class T>
void check_real(PoolType type, const std::vector<T>& numbers, T found, Real error = 0x1p-45L) {
  using Limits = std::numeric_limits<T>;
  if (numbers.empty()) return;
  Real sum = 0, size = 0;
  for (const T number : numbers) {
    sum += as_real(number);
    size += std::fabs(as_real(number));
  }
  const auto n = static_cast<Real>(numbers.size());
  const Real divisor = type == PoolType::AVERAGE ? n : type == PoolType::SQRT ? std::sqrt(n) : 1;
  const Real exact = sum / divisor, greatest = as_real(Limits::max());
  const Real bound = 2 * as_real(Limits::epsilon()) * std::fabs(exact) + size / divisor * error;
  if (std::fabs(exact) + bound < greatest || type == PoolType::AVERAGE) {
    CHECK(std::isfinite(static_cast<double>(found)));
    CHECK(std::fabs(as_real(found) - exact) <= bound);
  } else if (std::fabs(exact) > greatest * (1 + 2 * as_real(Limits::epsilon()))) {
    CHECK(std::isinf(static_cast<double>(found)));
  }
}

template <class T>
void check_reals() {
  for_each_tried(row_sizes, [](Engine& engine, std::int64_t row_size, int kind) {
    check_exact_pools(
        reals<T>(engine, row_size, kind),
        [](PoolType type, const std::vector<T>& numbers, T found) { check_real(type, numbers, found); },
        [](PoolType, const LoDTensor<T>&) {});
  });
}

/// The rows of that batch as those of a row-sparse gradient, sequence i as id i.
template <class T>
SelectedRows<T> as_rows(const LoDTensor<T>& x) {
  SelectedRows<T> g(of_all_lengths.row_ids(0), of_all_lengths.size(0), {x.row_size()});
  std::copy(x.values().begin(), x.values().end(), g.value().data());
  return g;
}

/// Row-sparse sums and means, and looked-up ones, are those of sequences.
template <class T>
void check_others(const LoDTensor<T>& x) {
  const SelectedRows<T> g = as_rows(x);
  LoDTensor<T> table({x.rows(), x.row_size()});
  std::copy(x.values().begin(), x.values().end(), table.data());
  LoDTensor<std::int64_t> ids(of_all_lengths, {});
  std::iota(ids.values().begin(), ids.values().end(), 0);
  const LoDTensor<T> ones = [&] {
    LoDTensor<T> weights({x.rows()});
    std::fill(weights.values().begin(), weights.values().end(), T(1));
    return weights;
  }();
  for (const PoolType type : {PoolType::SUM, PoolType::AVERAGE, PoolType::SQRT}) {
    CAPTURE(static_cast<int>(type));
    const auto y = lod::sequence_pool(lod::CpuExecutor(1), x, type);
    for_each_executor([&](const auto& executor) {
      CHECK(same_bits(lod::embedding_pool(executor, table, ids, type), y));
      CHECK(same_bits(lod::embedding_pool(executor, table, ids, type, {.weights = ones}), y));
      if (type == PoolType::SQRT) return;
      const auto merged = type == PoolType::SUM ? lod::merge_add(executor, g) : lod::merge_average(executor, g);
      for (std::size_t k = 0; k < merged.rows().size(); ++k) {
        const auto row = static_cast<std::int64_t>(k), id = merged.rows()[k];
        CHECK(std::equal(merged.value().row(row).begin(), merged.value().row(row).end(), y.row(id).begin()));
      }
    });
  }
}

}  // namespace

TEST_CASE_TEMPLATE("sequence_pool: sums, means and their gradients of integers at the ends of their types", T,
                   std::int8_t, std::uint8_t, std::int32_t, std::uint32_t, std::int64_t, std::uint64_t) {
  check_integers<T>();
}

TEST_CASE_TEMPLATE("sequence_pool: means of numbers near the greatest are finite, and so are sums that end there", T,
                   float, double, lod::bfloat16, lod::float16) {
  check_reals<T>();
}

TEST_CASE_TEMPLATE("merge_add, merge_average, embedding_pool: numbers at the ends of their types, as sequences", T,
                   std::int64_t, std::uint64_t, float, double, lod::bfloat16) {
  for_each_tried({1, 3, 16, 17}, [](Engine& engine, std::int64_t row_size, int kind) {
    if constexpr (std::is_integral_v<T>) {
      check_others(integers<T>(engine, row_size, kind));
    } else if (kind != 2) {  // sums that are NaN without need have no order
      check_others(reals<T>(engine, row_size, kind));
    }
  });
}

TEST_CASE_TEMPLATE("sequence_pool<U>: sums that the elements cannot hold", T, bool, std::int8_t, std::uint8_t,
                   std::int16_t, std::int32_t, lod::float16, lod::bfloat16) {
  using U = std::conditional_t<std::is_integral_v<T>, std::int64_t, float>;
  for (const std::int64_t row_size : row_sizes) {
    Engine engine(first_seed());
    CAPTURE(first_seed());
    LoDTensor<T> x(of_all_lengths, {row_size});
    for (T& number : x.values()) number = engine() % 3 == 0 ? T(1) : std::numeric_limits<T>::max();
    for (const PoolType type : {PoolType::SUM, PoolType::AVERAGE, PoolType::SQRT}) {
      const auto y = lod::sequence_pool<U>(lod::CpuExecutor(1), x, type, {.pad_value = 1000});
      for_each_column(x, [&](std::int64_t i, std::int64_t c, const std::vector<T>& numbers) {
        const U found = y.row(i)[static_cast<std::size_t>(c)];
        if (numbers.empty()) {
          CHECK(found == 1000);
          return;
        }
        if constexpr (std::is_integral_v<T>) {
          check_integer(type, std::vector<std::int64_t>(numbers.begin(), numbers.end()), found);
        } else {
          check_real(type, std::vector<float>(numbers.begin(), numbers.end()), found, 0x1p-17L);
        }
      });
      for_each_executor([&](const auto& executor) {
        CHECK(same_bits(lod::sequence_pool<U>(executor, x, type, {.pad_value = 1000}), y));
        LoDTensor<U> out;
        lod::sequence_pool_into(executor, x, type, {.pad_value = 1000}, out);
        CHECK(same_bits(out, y));
      });
      CHECK_NOTHROW(lod::check(y, lod::infer_sequence_pool(lod::describe(x), type, lod::data_type_v<U>)));
    }
    CHECK_THROWS_AS(static_cast<void>(lod::sequence_pool<U>(x, PoolType::MAX)), std::invalid_argument);
  }
}

TEST_CASE_TEMPLATE("sequence_pool: the greatest and least of integers, beyond the greatest with a sign too", T,
                   std::uint64_t, std::int64_t, std::uint8_t) {
  for (const std::int64_t row_size : {1, 3, 17}) {
    Engine engine(first_seed());
    CAPTURE(first_seed());
    const LoDTensor<T> x = integers<T>(engine, row_size, 2);
    for_each_executor([&](const auto& executor) {
      const auto greatest = lod::sequence_max_pool(executor, x);
      CHECK(same_bits(lod::sequence_pool(executor, x, PoolType::MAX), greatest.values));
      const auto least = lod::sequence_pool(executor, x, PoolType::MIN);
      for_each_column(x, [&](std::int64_t i, std::int64_t c, const std::vector<T>& numbers) {
        if (numbers.empty()) return;
        const auto at = static_cast<std::size_t>(c);
        const auto winner = std::max_element(numbers.begin(), numbers.end());
        CHECK(greatest.values.row(i)[at] == *winner);
        CHECK(x.row(greatest.index.row(i)[at])[at] == *winner);
        CHECK(least.row(i)[at] == *std::min_element(numbers.begin(), numbers.end()));
      });
    });
  }
}

TEST_CASE("sequence_pool: a long sequence of extremes") {
  for (const std::int64_t row_size : {1, 3}) {
    LoDTensor<std::int64_t> x(lod::LoD::from_lengths({{70000}}), {row_size});
    LoDTensor<double> real_x(x.lod(), {row_size});
    std::fill(x.values().begin(), x.values().end(), std::numeric_limits<std::int64_t>::max());
    std::fill(real_x.values().begin(), real_x.values().end(), -std::numeric_limits<double>::max());
    for_each_executor([&](const auto& executor) {
      const auto means = lod::sequence_pool(executor, x, PoolType::AVERAGE);
      for (const std::int64_t mean : means.values()) {
        CHECK(mean == std::numeric_limits<std::int64_t>::max());
      }
      const auto real_means = lod::sequence_pool(executor, real_x, PoolType::AVERAGE);
      for (const double mean : real_means.values()) {
        CHECK(mean == -std::numeric_limits<double>::max());
      }
    });
  }
}

TEST_CASE_TEMPLATE("sums: infinite and NaN numbers stay what they are", T, float, double, lod::bfloat16, lod::float16) {
  using Limits = std::numeric_limits<T>;
  const T infinite = Limits::infinity(), greatest = Limits::max();
  const std::vector<std::vector<T>> sequences = {{greatest, infinite, greatest},
                                                 {greatest, greatest, -infinite},
                                                 {infinite, -infinite},
                                                 {T(1), Limits::quiet_NaN(), greatest}};
  const auto x = LoDTensor<T>::from_nested(sequences);
  for_each_executor([&](const auto& executor) {
    for (const PoolType type : {PoolType::SUM, PoolType::AVERAGE, PoolType::SQRT}) {
      const auto y = lod::sequence_pool(executor, x, type);
      CHECK(y.data()[0] == infinite);
      CHECK(y.data()[1] == -infinite);
      CHECK(std::isnan(static_cast<float>(y.data()[2])));
      CHECK(std::isnan(static_cast<float>(y.data()[3])));
    }
  });
}

TEST_CASE_TEMPLATE("sums: of negative zeros alone they are negative zeros", T, float, double, lod::bfloat16,
                   lod::float16) {
  const auto negative = [](const auto& y, std::int64_t row) {
    return std::all_of(y.row(row).begin(), y.row(row).end(),
                       [](T number) { return number == T{} && std::signbit(static_cast<float>(number)); });
  };
  for (const std::int64_t row_size : row_sizes) {
    LoDTensor<T> x(of_all_lengths, {row_size});
    std::fill(x.values().begin(), x.values().end(), -T{});
    // But for one 0, in the sequence of four rows.
    const std::int64_t four = 5, first = std::accumulate(kinds_of_lengths.begin(), kinds_of_lengths.begin() + four,
                                                         std::int64_t{0});
    for (T& number : x.row(first + 2)) number = T{};
    for_each_executor([&](const auto& executor) {
      for (const PoolType type : {PoolType::SUM, PoolType::AVERAGE, PoolType::SQRT}) {
        const auto y = lod::sequence_pool(executor, x, type);
        for (std::int64_t i = 0; i < of_all_lengths.size(0); ++i) {
          CAPTURE(i);
          CHECK(negative(y, i) == (kinds_of_lengths[static_cast<std::size_t>(i)] > 0 && i != four));
        }
      }
      const auto running = lod::sequence_cumsum(executor, x);
      const auto reversed = lod::sequence_cumsum(executor, x, {.reverse = true});
      for (std::int64_t row = 0; row < x.rows(); ++row) {
        CAPTURE(row);
        const bool of_four = row >= first && row < first + 4;
        CHECK(negative(running, row) == !(of_four && row >= first + 2));
        CHECK(negative(reversed, row) == !(of_four && row <= first + 2));
      }
      CHECK_FALSE(negative(lod::sequence_cumsum(executor, x, {.exclusive = true}), 0));
      const auto merged = lod::merge_add(executor, as_rows(x));
      for (std::size_t k = 0; k < merged.rows().size(); ++k) {
        CHECK(negative(merged.value(), static_cast<std::int64_t>(k)) == (merged.rows()[k] != four));
      }
    });
  }
}
