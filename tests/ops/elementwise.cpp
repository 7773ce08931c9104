// SPDX-License-Identifier: Apache-2.0
#include "support/check_throws.hpp"
#include "support/counting_resource.hpp"
#include "support/element_types.hpp"
#include "support/executors.hpp"
#include "support/inferred.hpp"
#include "support/random_batch.hpp"
#include "support/random_lod.hpp"
#include "support/reference.hpp"
#include <lod/lod.hpp>

#include <doctest/doctest.h>

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

using lod::LoD;
using lod::LoDTensor;
using namespace lod_test;

namespace {

using NumberTypes = Types<std::int8_t, std::uint8_t, std::int16_t, std::int32_t, std::int64_t, lod::float16,
                          lod::bfloat16, float, double>;
enum class Op { ADD, SUB, MUL, DIV };
constexpr Op all_operations[] = {Op::ADD, Op::SUB, Op::MUL, Op::DIV};

/// One number, as the type itself computes it.
template <class T>
T reference(Op op, T a, T b) {
  if (op == Op::ADD) return static_cast<T>(a + b);
  if (op == Op::SUB) return static_cast<T>(a - b);
  if (op == Op::MUL) return static_cast<T>(a * b);
  return static_cast<T>(a / b);
}

template <class E, class X, class Y>
auto run(const E& executor, Op op, const X& x, const Y& y, const lod::ElementwiseOptions& options = {}) {
  if (op == Op::ADD) return lod::add(executor, x, y, options);
  if (op == Op::SUB) return lod::sub(executor, x, y, options);
  if (op == Op::MUL) return lod::mul(executor, x, y, options);
  return lod::div(executor, x, y, options);
}

/// True where z is x op y, row_of(row) being the row of y for a row of x.
template <class Z, class X, class RowOf>
bool is_result(Op op, const Z& z, const X& x, const RowOf& row_of) {
  if (!(z.lod_view() == x.lod_view()) || z.shape() != x.shape()) return false;
  const std::int64_t row_size = x.row_size();
  for (std::int64_t row = 0; row < x.rows(); ++row) {
    const auto* const results = z.row(row).data();
    const auto *const firsts = x.row(row).data(), *const seconds = row_of(row);
    for (std::int64_t i = 0; i < row_size; ++i) {
      if (results[i] != reference(op, firsts[i], seconds[i])) return false;
    }
  }
  return true;
}

/// Small integers without 0.
template <class T>
void fill_divisors(Engine& engine, LoDTensor<T>& y) {
  fill_small(engine, y);
  for (std::size_t i = 0; i < y.values().size(); ++i) {
    if (y.values()[i] == T{}) y.values()[i] = static_cast<T>(5);
  }
}

}  // namespace

TEST_CASE("add, sub, mul, div: the three forms of the second argument") {
  const auto x =
      LoDTensor<int>::from_nested(std::vector<std::vector<std::array<int, 2>>>{{{1, 2}, {3, 4}}, {}, {{5, 6}}});
  CHECK(values_of(lod::add(x, x)) == std::vector<int>{2, 4, 6, 8, 10, 12});
  LoDTensor<int> bias({2});
  bias.data()[0] = 10;
  bias.data()[1] = 20;
  CHECK(values_of(lod::add(x, bias)) == std::vector<int>{11, 22, 13, 24, 15, 26});
  CHECK(values_of(lod::sub(x, lod::sequence_pool(x, lod::PoolType::FIRST))) == std::vector<int>{0, 0, 2, 2, 0, 0});
  CHECK(lod::mul(x, bias).lod() == x.lod());
  CHECK(values_of(lod::div(LoDTensor<int>::from_values(LoD(), {}, std::vector<int>{7, -7, 9}),
                           LoDTensor<int>::from_values(LoD(), {}, std::vector<int>{2, 2, -4}))) ==
        std::vector<int>{3, -3, -2});
}

TEST_CASE("add, sub, mul, div: agree with one number after the other, for slices of every type, depth and row size") {
  for_each_type(NumberTypes(), []<class T>(std::type_identity<T>) {
    for_each_random_lod(5, 0, 5, [](Engine& engine, const Lengths& lengths) {
      for (const std::int64_t row_size : {1, 3, 8, 17}) {
        const auto x = lengths.empty() ? small_integers<T>(engine, {random_number(engine, 0, 30), row_size})
                                       : small_integers<T>(engine, LoD::from_lengths(lengths), {row_size});
        const auto slice = x.between(random_number(engine, 0, x.size() > 0), x.size());
        const auto with = [&](LoDTensor<T> y) {
          fill_divisors(engine, y);
          return y;
        };
        const auto same = with(LoDTensor<T>::copy_of(slice));
        const auto row = with(LoDTensor<T>({row_size})), one = with(LoDTensor<T>({1, row_size}));
        const lod::CpuExecutor executor(2);
        for (const Op op : all_operations) {
          INFO("operation ", static_cast<int>(op), ", row size ", row_size);
          const auto rows_of = [&](const auto& y) { return [&](std::int64_t i) { return y.data() + i * row_size; }; };
          CHECK(is_result(op, run(executor, op, slice, same), slice, rows_of(same)));
          CHECK(is_result(op, run(executor, op, slice, row), slice, [&](std::int64_t) { return row.data(); }));
          CHECK(is_result(op, run(executor, op, slice, one), slice, [&](std::int64_t) { return one.data(); }));
          if (x.levels() > 0) {
            const int level = static_cast<int>(random_number(engine, 0, x.levels() - 1));
            const auto ids = slice.lod().row_ids(level);
            const auto of_sequence = [&](const auto& y) {
              return [&](std::int64_t i) { return y.data() + ids[static_cast<std::size_t>(i)] * row_size; };
            };
            const auto plain = with(LoDTensor<T>({slice.lod_view().size(level), row_size}));
            CHECK(is_result(op, run(executor, op, slice, plain, {.level = level}), slice, of_sequence(plain)));
            const auto pooled = with(lod::sequence_pool(slice, lod::PoolType::FIRST, {.level = level}));
            CHECK(is_result(op, run(executor, op, slice, pooled, {.level = level}), slice, of_sequence(pooled)));
          }
        }
      }
    });
  });
}

TEST_CASE("add, sub, mul, div: integers wrap around, and are never divided by 0") {
  const auto numbers = [](const std::vector<std::int64_t>& values) {
    return LoDTensor<std::int64_t>::from_values(LoD(), {}, values);
  };
  constexpr std::int64_t least = std::numeric_limits<std::int64_t>::min(),
                         greatest = std::numeric_limits<std::int64_t>::max();
  CHECK(lod::add(numbers({greatest}), numbers({1})).data()[0] == least);
  CHECK(lod::sub(numbers({least}), numbers({1})).data()[0] == greatest);
  CHECK(lod::mul(numbers({greatest}), numbers({2})).data()[0] == -2);
  CHECK(lod::div(numbers({least}), numbers({-1})).data()[0] == least);
  LoDTensor<std::int8_t> byte({1}), minus({1});
  byte.data()[0] = -128;
  minus.data()[0] = -1;
  CHECK(lod::div(byte, minus).data()[0] == -128);
  CHECK(lod::mul(byte, byte).data()[0] == 0);

  const lod::CpuExecutor executor(1);
  auto z = numbers({5});
  check_throws<lod::OutOfRange>(
      [&] {
        lod::div_into(executor, numbers({1, 2}), numbers({1, 0}), z);
      },
      "div: number 1 of y is 0", z);
  const auto x = LoDTensor<int>::from_nested(std::vector<std::vector<int>>{{4, 6}, {}, {9}});
  auto y = LoDTensor<int>::from_values(LoD(), {}, std::vector<int>{2, 0, 3});
  CHECK(lod::div(x, y).data()[2] == 3);  // nothing is divided by the 0 of the empty sequence
  y.data()[2] = 0;
  CHECK_THROWS_WITH_AS(lod::div(x, y), "div: number 2 of y is 0", lod::OutOfRange);
  // Floating-point numbers have their infinities.
  const auto real = LoDTensor<float>::from_values(LoD(), {}, std::vector<float>{1, -1});
  CHECK(lod::div(real, LoDTensor<float>({2})).data()[0] == std::numeric_limits<float>::infinity());
}

TEST_CASE("add, sub, mul, div: in place, on every executor, large and uneven") {
  for (const std::int64_t row_size : {1, 3, 17}) {
    Engine engine(4);
    const auto x = real_numbers<float>(engine, giant_among_short(engine, 500, 30000), {row_size});
    const auto y = real_numbers<float>(engine, {500, row_size});
    for (const Op op : all_operations) {
      const auto expected = run(lod::CpuExecutor(1), op, x, y);
      for_each_executor([&](const auto& executor) {
        CHECK(same_bits(run(executor, op, x, y), expected));
        LoDTensor<float> z = x;
        if (op == Op::MUL) {
          lod::mul_into(executor, z, y, z);
          CHECK(same_bits(z, expected));
        }
      });
    }
    const auto d = lod::div_grad(lod::CpuExecutor(1), x, x, y);
    for_each_executor([&](const auto& executor) {
      const auto again = lod::div_grad(executor, x, x, y);
      CHECK(same_bits(again.x, d.x));
      CHECK(same_bits(again.y, d.y));
    });
  }
}

TEST_CASE("add, sub, mul, div: batches without sequences, and of empty ones only") {
  for (const auto& lengths : std::vector<Lengths>{{{}}, {{0}}, {{0, 0}}, {{}, {}}, {{0, 0}, {}}, {{2, 0}, {0, 0}}}) {
    const LoDTensor<float> x(LoD::from_lengths(lengths), {3}), row({3}), sequences({x.lod().size(-1), 3});
    for (const Op op : all_operations) {
      CHECK(same_bits(run(lod::CpuExecutor(1), op, x, x), x));
      CHECK(same_bits(run(lod::CpuExecutor(1), op, x, row), x));
      CHECK(same_bits(run(lod::CpuExecutor(1), op, x, sequences), x));
    }
    const auto d = lod::div_grad(x, x, sequences);
    CHECK(same_bits(d.y, sequences));  // zeros, not 0 / 0
    CHECK(same_bits(lod::mul_grad(x, x, row).y, row));
  }
}

TEST_CASE("add, sub, mul, div: bad arguments throw and change nothing") {
  const LoDTensor<float> x(LoD::from_lengths({{2, 1}, {1, 0, 2}}), {2}), four({4, 2}), wide({1, 3}),
      other(LoD::from_lengths({{1, 2}, {1, 0, 2}}), {2}), outer(LoD::from_lengths({{1, 2}}), {2});
  LoDTensor<float> z({1, 1}), dy({1, 1});
  const lod::CpuExecutor executor(1);
  check_throws<lod::ShapeMismatch>(
      [&] { lod::add_into(executor, x, four, z); },
      "add: y of shape {4, 2} with 0 levels, expected the levels and the shape {3, 2} of x, or a row of shape {2}, or "
      "one for each sequence of level 1",
      z);
  check_throws<lod::ShapeMismatch>([&] { lod::sub_into(executor, x, wide, z); }, "sub: y of shape {1, 3}", z);
  check_throws<lod::ShapeMismatch>([&] { lod::mul_into(executor, x, other, z); },
                                   "mul: y of shape {3, 2} with 2 levels", z);
  check_throws<lod::ShapeMismatch>([&] { lod::div_into(executor, x, outer, z); },
                                   "div: y of shape {3, 2} with 1 levels", z);
  check_throws<lod::OutOfRange>([&] { lod::div_into(executor, x, four, {.level = 2}, z); },
                                "level 2 of a LoD with 2 levels", z);
  // The level counts whichever form y has.
  const LoDTensor<float> row({2});
  for (const LoDTensor<float>* y : {&x, &row}) {
    for_each_executor([&](const auto& on) {
      const auto refuses = [&](const auto& call) {
        check_throws<lod::OutOfRange>(call, "level 99 of a LoD with 2 levels", z);
      };
      refuses([&] { lod::add_into(on, x, *y, {.level = 99}, z); });
      refuses([&] { lod::sub_into(on, x, *y, {.level = 99}, z); });
      refuses([&] { lod::mul_into(on, x, *y, {.level = 99}, z); });
      refuses([&] { lod::div_into(on, x, *y, {.level = 99}, z); });
      refuses([&] { lod::add_grad_into(on, x, x, *y, {.level = 99}, z, dy); });
      refuses([&] { lod::sub_grad_into(on, x, x, *y, {.level = 99}, z, dy); });
      refuses([&] { lod::mul_grad_into(on, x, x, *y, {.level = 99}, z, dy); });
      refuses([&] { lod::div_grad_into(on, x, x, *y, {.level = 99}, z, dy); });
    });
  }
  check_throws<lod::ShapeMismatch>(
      [&] { lod::add_into(executor, four, x, z); },
      "add: y of shape {3, 2} with 2 levels, expected the levels and the shape {4, 2} of x, or a row of shape {2}", z);
  check_throws<lod::ShapeMismatch>([&] { lod::add_grad_into(executor, four, x, x, {}, z, dy); },
                                   "add_grad: 4 rows, expected 3", z);
  check_throws<lod::ShapeMismatch>(
      [&] {
        lod::mul_grad_into(executor, wide, LoDTensor<float>({1, 2}), four, {}, z, dy);
      },
      "mul_grad: y of shape {4, 2}", z);
  check_throws<lod::ShapeMismatch>(
      [&] {
        lod::mul_grad_into(executor, wide, LoDTensor<float>({1, 2}), LoDTensor<float>({2}), {}, z, dy);
      },
      "mul_grad: rows of shape {3}, expected {2}", z);
  // Views as outputs must have the shape and the levels of the results.
  LoDTensor<float> fits(x.lod(), {2}), wrong(other.lod(), {2});
  check_throws<lod::ShapeMismatch>([&] { lod::add_into(executor, x, x, wrong.view()); }, "and the levels of the result",
                                   wrong);
  check_throws<lod::ShapeMismatch>(
      [&] { lod::mul_grad_into(executor, x, x, LoDTensor<float>({2}), {}, fits.view(), wrong.view()); },
      "and the levels of the result", fits);
  lod::add_into(executor, x, x, fits.view());
  CHECK(same_bits(fits, lod::add(x, x)));
}

TEST_CASE("infer_add, infer_sub, infer_mul, infer_div: allow what the operations give, and refuse what they do") {
  for_each_random_batch<float>(0, {2}, [](Engine& engine, const lod::LoDTensor<float>& x) {
    const auto infer = [](const auto& a, const auto& b) { return lod::infer_add(a, b); };
    check_inference(lod::add(x, x), infer, describe(x), describe(x));
    const auto row = small_integers<float>(engine, {2}), rows = small_integers<float>(engine, {1, 2});
    check_inference(lod::add(x, row), infer, describe(x), describe(row));
    check_inference(lod::sub(x, rows), infer, describe(x), describe(rows));
    for (int level = 0; level < x.levels(); ++level) {
      const lod::ElementwiseOptions options{.level = level};
      const auto y = lod::sequence_pool(x, lod::PoolType::SUM, {.level = level});
      check_inference(
          lod::mul(x, y, options), [&](const auto& a, const auto& b) { return lod::infer_mul(a, b, options); },
          describe(x), describe(y));
      const auto d = lod::mul_grad(x, x, y, options);
      check_inferred(d.x, describe(x));
      check_inferred(d.y, describe(y));
    }
  });
  const auto x = described(lod::DataType::INT32, {15, 2}, 2), y = described(lod::DataType::INT32, {15, 3}, 2);
  CHECK(lod::infer_sub(x, x) == x);
  CHECK(lod::infer_div(x, described(lod::DataType::INT32, {2})) == x);
  CHECK_THROWS_WITH_AS(lod::infer_add(x, y),
                       doctest::Contains("add: y of shape {15, 3} with 2 levels, expected the levels and the shape "
                                         "{15, 2} of x, or a row of it, or one for each sequence"),
                       lod::ShapeMismatch);
  CHECK_THROWS_AS(lod::infer_mul(x, described(lod::DataType::INT32, {14, 2}, 2)), lod::ShapeMismatch);
  CHECK_THROWS_AS(lod::infer_mul(x, described(lod::DataType::INT32, {6, 2}), {.level = 2}), lod::OutOfRange);
  CHECK_THROWS_AS(lod::infer_add(x, x, {.level = 2}), lod::OutOfRange);
  CHECK_THROWS_AS(lod::infer_sub(x, described(lod::DataType::INT32, {2}), {.level = -3}), lod::OutOfRange);
  CHECK_THROWS_AS(lod::infer_div(x, described(lod::DataType::FP32, {15, 2}, 2)), lod::ShapeMismatch);
  CHECK_THROWS_WITH_AS(lod::infer_div(described(lod::DataType::BOOL, {15}), described(lod::DataType::BOOL, {15})),
                       doctest::Contains("div: elements of BOOL, expected integers"), lod::ShapeMismatch);
}
