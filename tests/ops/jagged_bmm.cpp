// SPDX-License-Identifier: Apache-2.0
#include "support/check_throws.hpp"
#include "support/count_allocations.hpp"
#include "support/element_types.hpp"
#include "support/executors.hpp"
#include "support/inferred.hpp"
#include "support/random_batch.hpp"
#include "support/random_lod.hpp"
#include "support/same_bits.hpp"
#include <lod/lod.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

namespace jagged_bmm_cases {

using lod::LoD;
using lod::LoDTensor;
using namespace lod_test;

/// Sums in long double, rounded to T as the library's sums are: through float, unless T is double.
template <class T>
T rounded(long double sum) {
  if constexpr (std::same_as<T, double>) return static_cast<double>(sum);
  return static_cast<T>(static_cast<float>(sum));
}

/// Calls body(i, begin, end) with the rows of each sequence of a level, counted from the first row of x.
template <class X, class Body>
void for_each_sequence_of(const X& x, int level, const Body& body) {
  const auto offsets = x.lod_view().absolute_offsets(level);
  for (std::size_t i = 0; i + 1 < offsets.size(); ++i) {
    body(static_cast<std::int64_t>(i), offsets[i] - offsets[0], offsets[i + 1] - offsets[0]);
  }
}

/// Rows of x, of `terms` numbers, times {terms, columns}, or with `transposed` {columns, terms}.
template <class X, class Dense>
auto rows_by_matrices(const X& x, int level, const Dense& dense, std::int64_t columns, bool transposed) {
  using T = typename X::value_type;
  const std::int64_t terms = x.row_size();
  std::vector<T> y(static_cast<std::size_t>(x.rows() * columns));
  for_each_sequence_of(x, level, [&](std::int64_t i, std::int64_t begin, std::int64_t end) {
    const T* const matrix = dense.data() + i * terms * columns;
    for (std::int64_t row = begin; row < end; ++row) {
      for (std::int64_t column = 0; column < columns; ++column) {
        long double sum = 0;
        for (std::int64_t k = 0; k < terms; ++k) {
          sum += static_cast<long double>(static_cast<double>(x.data()[row * terms + k])) *
                 static_cast<double>(matrix[transposed ? column * terms + k : k * columns + column]);
        }
        y[static_cast<std::size_t>(row * columns + column)] = rounded<T>(sum);
      }
    }
  });
  return y;
}
/// The rows of x, transposed, times those of y.
template <class X, class Y>
auto rows_by_rows(const X& x, int level, const Y& y) {
  using T = typename X::value_type;
  const std::int64_t height = x.row_size(), width = y.row_size();
  std::vector<T> z;
  for_each_sequence_of(x, level, [&](std::int64_t, std::int64_t begin, std::int64_t end) {
    for (std::int64_t k = 0; k < height; ++k) {
      for (std::int64_t n = 0; n < width; ++n) {
        long double sum = 0;
        for (std::int64_t row = begin; row < end; ++row) {
          sum += static_cast<long double>(static_cast<double>(x.data()[row * height + k])) *
                 static_cast<double>(y.data()[row * width + n]);
        }
        z.push_back(rounded<T>(sum));
      }
    }
  });
  return z;
}

/// Checks that numbers differ by no more than the error of a sum of 256 products, each at most 16.
template <class X>
void check_close(const X& found, const std::vector<typename X::value_type>& expected, double terms) {
  using T = typename X::value_type;
  REQUIRE(found.values().size() == expected.size());
  const double epsilon = std::same_as<T, double> ? 0x1p-52 : 0x1p-23;
  const double tolerance = 16 * epsilon * 256 * std::sqrt(terms + 1);
  double worst = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    worst = std::max(worst, std::abs(static_cast<double>(found.data()[i]) - static_cast<double>(expected[i])));
  }
  CHECK(worst <= tolerance);
}

TEST_CASE("jagged_dense_bmm: worked numbers, of both levels, rows of several dimensions, and no sequences") {
  const auto x = LoDTensor<float>::from_values(LoD::from_lengths({{2, 1}, {1, 0, 2}}), {2, 1},
                                               std::vector<float>{1, 2, 3, 4, 5, 6});
  const auto dense =
      LoDTensor<float>::from_values(LoD(), {2, 2}, std::vector<float>{1, 0, 0, 1, 9, 9, 9, 9, 1, 2, 10, 20});
  const auto dy = LoDTensor<float>::from_values(LoD(), {2}, std::vector<float>{1, 2, 0, 1, 1, 0});
  for_each_executor([&](const auto& executor) {
    const auto y = lod::jagged_dense_bmm(executor, x, dense);
    CHECK(y.lod() == x.lod());
    CHECK(y.shape() == lod::Shape{3, 2});
    CHECK(values_of(y) == std::vector<float>{1, 2, 43, 86, 65, 130});
    CHECK(values_of(lod::jagged_dense_bmm(executor, x, dense.between(0, 2), {.level = 0})) ==
          std::vector<float>{1, 2, 63, 63, 99, 99});
    const auto d = lod::jagged_dense_bmm_grad(executor, dy, x, dense);
    CHECK(d.dx.lod() == x.lod());
    CHECK(d.dx.row_shape() == x.row_shape());
    CHECK(values_of(d.dx) == std::vector<float>{1, 2, 2, 20, 1, 10});
    CHECK(d.ddense.shape() == dense.shape());
    CHECK(values_of(d.ddense) == std::vector<float>{1, 2, 2, 4, 0, 0, 0, 0, 5, 3, 6, 4});
    const LoDTensor<float> nothing(LoD::from_lengths({{}}), {2});
    CHECK(lod::jagged_dense_bmm(executor, nothing, dense.between(0, 0)).shape() == lod::Shape{0, 2});
    CHECK(lod::jagged_dense_bmm_grad(executor, dy.between(0, 0), nothing, dense.between(0, 0)).ddense.rows() == 0);
  });
}

TEST_CASE("jagged_jagged_bmm: worked numbers, of both levels, rows of several dimensions, and no sequences") {
  const LoD lod = LoD::from_lengths({{2, 1}, {1, 0, 2}});
  const auto x = LoDTensor<float>::from_values(lod, {2}, std::vector<float>{1, 2, 3, 4, 5, 6});
  const auto y = LoDTensor<float>::from_values(lod, {1, 3}, std::vector<float>{1, 0, 2, 0, 1, 0, 1, 1, 1});
  const auto dz = LoDTensor<float>::from_values(
      LoD(), {2, 1, 3}, std::vector<float>{1, 1, 1, 2, 0, 0, 7, 7, 7, 7, 7, 7, 0, 1, 0, 0, 0, 3});
  for_each_executor([&](const auto& executor) {
    const auto z = lod::jagged_jagged_bmm(executor, x, y);
    CHECK(z.lod() == LoD::from_lengths({{2, 1}}));
    CHECK(z.shape() == lod::Shape{3, 2, 1, 3});
    CHECK(values_of(z) == std::vector<float>{1, 0, 2, 2, 0, 4, 0, 0, 0, 0, 0, 0, 5, 8, 5, 6, 10, 6});
    const auto outer = lod::jagged_jagged_bmm(executor, x, y, {.level = 0});
    CHECK(outer.lod() == LoD());
    CHECK(values_of(outer) == std::vector<float>{1, 0, 2, 2, 0, 4, 5, 8, 5, 6, 10, 6});
    const auto d = lod::jagged_jagged_bmm_grad(executor, dz, x, y);
    CHECK(d.dx.lod() == lod);
    CHECK(values_of(d.dx) == std::vector<float>{3, 2, 1, 0, 1, 3});
    CHECK(d.dy.lod() == lod);
    CHECK(d.dy.row_shape() == y.row_shape());
    CHECK(values_of(d.dy) == std::vector<float>{5, 1, 1, 0, 3, 12, 0, 5, 18});
    const LoDTensor<float> none(LoD::from_lengths({{}}), {2});
    CHECK(lod::jagged_jagged_bmm(executor, none, none).shape() == lod::Shape{0, 2, 2});
  });
}

TEST_CASE(
    "jagged_dense_bmm, jagged_jagged_bmm and their gradients: agree with sums for slices of every type and depth") {
  for_each_type(FloatingTypes(), []<class T>(std::type_identity<T>) {
    for (const std::int64_t terms : {0, 1, 7, 33}) {
      for_each_random_lod(slow ? 1 : 3, 1, 3, [&](Engine& engine, const Lengths& lengths) {
        const LoD index = LoD::from_lengths(lengths);
        const auto whole = small_integers<T>(engine, index, {terms});
        const std::int64_t from = random_number(engine, 0, whole.size() > 0);
        const auto x = whole.between(from, whole.size());
        const int level = static_cast<int>(random_number(engine, 0, x.levels() - 1));
        const std::int64_t size = x.size(level);
        for (const std::int64_t columns : {0, 1, 5, 40}) {
          CAPTURE(terms);
          CAPTURE(columns);
          const auto dense = small_integers<T>(engine, {size, terms, columns});
          const auto all_y = small_integers<T>(engine, index, {columns});
          const auto y = all_y.between(from, whole.size());
          for_each_executor([&](const auto& executor) {
            const auto product = lod::jagged_dense_bmm(executor, x, dense, {.level = level});
            CHECK(product.lod() == x.lod());
            CHECK(product.row_shape() == lod::Shape{columns});
            CHECK(values_of(product) == rows_by_matrices(x, level, dense, columns, false));
            const auto d = lod::jagged_dense_bmm_grad(executor, y, x, dense, {.level = level});
            CHECK(d.dx.lod() == x.lod());
            CHECK(values_of(d.dx) == rows_by_matrices(y, level, dense, terms, true));
            CHECK(d.ddense.shape() == dense.shape());
            CHECK(values_of(d.ddense) == rows_by_rows(x, level, y));

            const auto z = lod::jagged_jagged_bmm(executor, x, y, {.level = level});
            CHECK(z.lod() == lod::sequence_pool(executor, x, lod::PoolType::SUM, {.level = level}).lod());
            CHECK(z.shape() == lod::Shape{size, terms, columns});
            CHECK(values_of(z) == rows_by_rows(x, level, y));
            const auto back = lod::jagged_jagged_bmm_grad(executor, dense, x, y, {.level = level});
            CHECK(back.dx.lod() == x.lod());
            CHECK(values_of(back.dx) == rows_by_matrices(y, level, dense, terms, true));
            CHECK(back.dy.lod() == x.lod());
            CHECK(values_of(back.dy) == rows_by_matrices(x, level, dense, columns, false));
          });
        }
      });
    }
  });
}

TEST_CASE(
    "jagged_dense_bmm, jagged_jagged_bmm and their gradients: the same bits for any threads, and for a sequence "
    "alone, with giants among short ones") {
  for_each_type(Types<lod::bfloat16, float, double>(), []<class T>(std::type_identity<T>) {
    struct Sizes {
      std::int64_t giant, terms, columns;
    };
    // Of several leaves in the rows, in the numbers of a row, in columns; more than a tile of either.
    for (const Sizes& sizes : {Sizes{5000, 3, 2}, Sizes{1100, 33, 17}, Sizes{700, 300, 5}, Sizes{97, 1100, 3},
                               Sizes{300, 20, 270}, Sizes{50, 100, 64}}) {
      if (slow && sizes.terms * sizes.columns > 500) continue;
      INFO("LOD_TEST_SEED=", first_seed(), ": ", sizes.giant, " x ", sizes.terms, " x ", sizes.columns);
      Engine engine(first_seed());
      const LoD index = giant_among_short(engine, 30, sizes.giant);
      const auto x = real_numbers<T>(engine, index, {sizes.terms}), y = real_numbers<T>(engine, index, {sizes.columns});
      const auto dense = small_reals<T>(engine, {index.size(0), sizes.terms, sizes.columns});
      const lod::CpuExecutor alone(1);
      const auto product = lod::jagged_dense_bmm(alone, x, dense);
      const auto d = lod::jagged_dense_bmm_grad(alone, y, x, dense);
      const auto z = lod::jagged_jagged_bmm(alone, x, y);
      const auto back = lod::jagged_jagged_bmm_grad(alone, dense, x, y);
      if constexpr (!std::same_as<T, lod::bfloat16>) {
        check_close(product, rows_by_matrices(x, 0, dense, sizes.columns, false), static_cast<double>(sizes.terms));
        check_close(d.dx, rows_by_matrices(y, 0, dense, sizes.terms, true), static_cast<double>(sizes.columns));
        check_close(z, rows_by_rows(x, 0, y), static_cast<double>(sizes.giant));
      }
      CHECK(same_bits(d.ddense, z));
      CHECK(same_bits(back.dx, d.dx));
      CHECK(same_bits(back.dy, product));
      const auto check = [&](const auto& executor) {
        CHECK(same_bits(lod::jagged_dense_bmm(executor, x, dense), product));
        const auto other = lod::jagged_dense_bmm_grad(executor, y, x, dense);
        CHECK(same_bits(other.dx, d.dx));
        CHECK(same_bits(other.ddense, d.ddense));
        CHECK(same_bits(lod::jagged_jagged_bmm(executor, x, y), z));
        const auto again = lod::jagged_jagged_bmm_grad(executor, dense, x, y);
        CHECK(same_bits(again.dx, back.dx));
        CHECK(same_bits(again.dy, back.dy));
      };
      for (const int threads : {2, 3}) check(lod::CpuExecutor(threads));
      for_each_executor(check);
      for (const std::int64_t i : {std::int64_t{0}, index.size(0) / 2, index.size(0) - 1}) {
        const auto own = x.between(i, i + 1), own_y = y.between(i, i + 1);
        const auto matrix = dense.between(i, i + 1);
        CHECK(same_bits(lod::jagged_dense_bmm(own, matrix), product.between(i, i + 1)));
        CHECK(values_of(lod::jagged_jagged_bmm(own, own_y)) == values_of(z.between(i, i + 1)));
        // As the linear layer has them.
        const auto weight = LoDTensor<T>::from_values(LoD(), {sizes.columns}, values_of(matrix));
        CHECK(same_bits(lod::linear(own, weight), product.between(i, i + 1)));
      }
    }
  });
}

TEST_CASE("jagged_dense_bmm, jagged_jagged_bmm: NaN and infinity stay in their row, and in their sequence") {
  const float nan = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity();
  const LoD index = LoD::from_lengths({{2, 0, 1, 2}});
  for_each_executor([&](const auto& executor) {
    LoDTensor<float> x(index, {20}), y(index, {18}), dense({4, 20, 18});
    x.fill(1);
    y.fill(1);
    dense.fill(1);
    x.data()[0] = nan;
    x.data()[20 * 2 + 3] = infinity;
    for (std::int64_t k = 0; k < 20 * 18; ++k) dense.data()[20 * 18 + k] = nan;  // of an empty sequence
    dense.data()[3 * 20 * 18] = -infinity;
    const auto product = lod::jagged_dense_bmm(executor, x, dense);
    const auto z = lod::jagged_jagged_bmm(executor, x, y);
    for (std::int64_t n = 0; n < 18; ++n) {
      CAPTURE(n);
      CHECK(std::isnan(product.data()[n]));
      CHECK(product.data()[18 + n] == 20);
      CHECK(product.data()[2 * 18 + n] == infinity);
      CHECK(product.data()[3 * 18 + n] == (n == 0 ? -infinity : 20));
      CHECK(std::isnan(z.data()[n]));
      CHECK(z.data()[18 + n] == 2);
      CHECK(z.data()[20 * 18 + n] == 0);
      CHECK(z.data()[(2 * 20 + 3) * 18 + n] == infinity);
      CHECK(z.data()[(2 * 20 + 4) * 18 + n] == 1);
    }
    const auto d = lod::jagged_dense_bmm_grad(executor, y, x, dense);
    for (std::int64_t k = 0; k < 20 * 18; ++k) CHECK(d.ddense.data()[20 * 18 + k] == 0);
  });
}

TEST_CASE("jagged_dense_bmm, jagged_jagged_bmm: rows without elements, and rows of any size where there are none") {
  constexpr std::int64_t greatest = std::numeric_limits<std::int64_t>::max();
  for_each_executor([&](const auto& executor) {
    const LoD lod = LoD::from_lengths({{2, 1}, {greatest / 2, 0, greatest / 3}});
    const LoDTensor<float> x(lod, {0}), dense({3, 0, 0});
    CHECK(lod::jagged_dense_bmm(executor, x, dense).lod() == lod);
    CHECK(lod::jagged_dense_bmm_grad(executor, x, x, dense).ddense.shape() == dense.shape());
    CHECK(lod::jagged_jagged_bmm(executor, x, x).shape() == dense.shape());
    CHECK(lod::jagged_jagged_bmm_grad(executor, dense, x, x).dy.lod() == lod);
    for (const std::int64_t size : {std::int64_t{1} << 57, greatest / 3, greatest}) {
      const LoDTensor<float> wide(LoD::from_lengths({{}}), {size}), narrow(LoD::from_lengths({{}}), {1});
      const LoDTensor<float> to_narrow({0, size, 1}), to_wide({0, 1, size});
      CHECK(lod::jagged_dense_bmm(executor, wide, to_narrow).row_size() == 1);
      CHECK(lod::jagged_dense_bmm(executor, narrow, to_wide).row_size() == size);
      CHECK(lod::jagged_dense_bmm_grad(executor, narrow, wide, to_narrow).dx.row_size() == size);
      CHECK(lod::jagged_dense_bmm_grad(executor, wide, narrow, to_wide).ddense.row_size() == size);
      CHECK(lod::jagged_jagged_bmm(executor, wide, narrow).row_size() == size);
      CHECK(lod::jagged_jagged_bmm_grad(executor, to_wide, narrow, wide).dy.row_size() == size);
    }
  });
}

TEST_CASE("jagged_dense_bmm, jagged_jagged_bmm: a second call into the same outputs allocates nothing") {
  if (!counts_allocations) return;
  for (const int threads : {1, 3}) {
    CAPTURE(threads);
    const lod::CpuExecutor executor(threads);
    Engine engine(5);
    const LoD index = giant_among_short(engine, 20, 1500);
    const auto x = real_numbers<float>(engine, index, {40}), y = real_numbers<float>(engine, index, {30});
    const auto dense = real_numbers<float>(engine, {index.size(0), 40, 30});
    LoDTensor<float> product, z, dx, ddense, back_x, back_y;
    const auto run = [&] {
      lod::jagged_dense_bmm_into(executor, x, dense, product);
      lod::jagged_dense_bmm_grad_into(executor, y, x, dense, dx, ddense);
      lod::jagged_jagged_bmm_into(executor, x, y, z);
      lod::jagged_jagged_bmm_grad_into(executor, dense, x, y, back_x, back_y);
    };
    run();
    const std::int64_t before = allocations;
    run();
    CHECK(allocations == before);
  }
}

TEST_CASE("jagged_dense_bmm and its gradient: wrong arguments") {
  const lod::CpuExecutor executor(1);
  const LoDTensor<float> x(LoD::from_lengths({{2, 1}, {1, 0, 2}}), {2}), plain({3, 2}), dense({3, 2, 4}),
      few({2, 2, 4}), high({3, 3, 4}), flat({3}), dy({3, 4}), long_dy({4, 4}), wide_dy({3, 5});
  LoDTensor<float> y({1}), ddense;
  y.values()[0] = 7;
  check_throws<lod::InvalidLoD>([&] { lod::jagged_dense_bmm_into(executor, plain, dense, y); }, "no level", y);
  check_throws<lod::OutOfRange>([&] { lod::jagged_dense_bmm_into(executor, x, dense, {.level = 2}, y); },
                                "jagged_dense_bmm", y);
  check_throws<lod::ShapeMismatch>([&] { lod::jagged_dense_bmm_into(executor, x, few, y); },
                                   "jagged_dense_bmm: dense: 2 rows, expected 3, one for each sequence", y);
  check_throws<lod::ShapeMismatch>([&] { lod::jagged_dense_bmm_into(executor, x, dense, {.level = 0}, y); },
                                   "jagged_dense_bmm: dense: 3 rows, expected 2", y);
  check_throws<lod::ShapeMismatch>([&] { lod::jagged_dense_bmm_into(executor, x, high, y); },
                                   "jagged_dense_bmm: dense: rows of shape {3, 4}, expected matrices {2, ...}", y);
  check_throws<lod::ShapeMismatch>([&] { lod::jagged_dense_bmm_into(executor, x, flat, y); },
                                   "jagged_dense_bmm: dense: rows of shape {}, expected matrices {2, ...}", y);
  const auto grad = [&](const auto& by, const auto& of, const auto& with, const lod::JaggedBmmOptions& options = {}) {
    return [&, options] { lod::jagged_dense_bmm_grad_into(executor, by, of, with, options, y, ddense); };
  };
  check_throws<lod::InvalidLoD>(grad(dy, plain, dense), "jagged_dense_bmm_grad: x", y);
  check_throws<lod::OutOfRange>(grad(dy, x, dense, {.level = -3}), "jagged_dense_bmm_grad", y);
  check_throws<lod::ShapeMismatch>(grad(dy, x, few), "jagged_dense_bmm_grad: dense: 2 rows, expected 3", y);
  check_throws<lod::ShapeMismatch>(grad(dy, x, high), "jagged_dense_bmm_grad: dense: rows of shape {3, 4}", y);
  check_throws<lod::ShapeMismatch>(grad(long_dy, x, dense), "jagged_dense_bmm_grad: dy: 4 rows, expected 3", y);
  check_throws<lod::ShapeMismatch>(grad(wide_dy, x, dense), "jagged_dense_bmm_grad: dy: rows of shape {5}", y);
  CHECK(ddense.rows() == 0);
}

TEST_CASE("jagged_jagged_bmm and its gradient: wrong arguments") {
  const lod::CpuExecutor executor(1);
  const LoD index = LoD::from_lengths({{2, 1}, {1, 0, 2}});
  const LoDTensor<float> x(index, {2}), y(index, {4}), plain({3, 4}),
      shifted(LoD::from_lengths({{2, 1}, {1, 1, 1}}), {4}), shallow(LoD::from_lengths({{1, 0, 2}}), {4}), dz({3, 2, 4}),
      few({2, 2, 4}), turned({3, 4, 2});
  LoDTensor<float> z({1}), dy;
  z.values()[0] = 7;
  check_throws<lod::InvalidLoD>([&] { lod::jagged_jagged_bmm_into(executor, plain, plain, z); },
                                "jagged_jagged_bmm: x: the tensor has no level", z);
  check_throws<lod::OutOfRange>([&] { lod::jagged_jagged_bmm_into(executor, x, y, {.level = 2}, z); },
                                "jagged_jagged_bmm", z);
  for (const auto& other : {plain, shifted, shallow}) {
    check_throws<lod::ShapeMismatch>([&] { lod::jagged_jagged_bmm_into(executor, x, other, z); },
                                     "jagged_jagged_bmm: y: 3 rows with", z);
    check_throws<lod::ShapeMismatch>([&] { lod::jagged_jagged_bmm_grad_into(executor, dz, x, other, z, dy); },
                                     "jagged_jagged_bmm_grad: y: 3 rows with", z);
  }
  check_throws<lod::ShapeMismatch>([&] { lod::jagged_jagged_bmm_grad_into(executor, few, x, y, z, dy); },
                                   "jagged_jagged_bmm_grad: dz: 2 rows, expected 3, one for each sequence", z);
  check_throws<lod::ShapeMismatch>([&] { lod::jagged_jagged_bmm_grad_into(executor, turned, x, y, z, dy); },
                                   "jagged_jagged_bmm_grad: dz: rows of shape {4, 2}, expected {2, 4}", z);
  // Without rows, rows may be larger than any memory; not so their products.
  constexpr std::int64_t huge = std::int64_t{1} << 40;
  const LoDTensor<float> wide(LoD::from_lengths({{0}}), {huge});
  check_throws<lod::ShapeMismatch>([&] { lod::jagged_jagged_bmm_into(executor, wide, wide, z); },
                                   "jagged_jagged_bmm: rows of x of", z);
  CHECK(dy.rows() == 0);
}

TEST_CASE("infer_jagged_dense_bmm, infer_jagged_jagged_bmm: what they give and refuse") {
  using lod::DataType;
  for_each_random_batch<float>(1, {2}, [](Engine& engine, const LoDTensor<float>& x) {
    const int level = static_cast<int>(random_number(engine, 0, x.levels() - 1));
    const LoDTensor<float> dense({x.size(level), 2, 5});
    check_inference(
        lod::jagged_dense_bmm(x, dense, {.level = level}),
        [&](const auto& of, const auto& by) { return lod::infer_jagged_dense_bmm(of, by, {.level = level}); },
        describe(x), describe(dense));
    check_inference(
        lod::jagged_jagged_bmm(x, x, {.level = level}),
        [&](const auto& of, const auto& by) { return lod::infer_jagged_jagged_bmm(of, by, {.level = level}); },
        describe(x), describe(x));
  });
  const auto x = described(DataType::FP32, {-1, 2}, 1), dense = described(DataType::FP32, {-1, 2, 5});
  CHECK(lod::infer_jagged_dense_bmm(x, dense) == described(DataType::FP32, {-1, 5}, 1));
  CHECK_THROWS_AS(lod::infer_jagged_dense_bmm(described(DataType::FP32, {-1, 2}), dense), lod::InvalidLoD);
  CHECK_THROWS_AS(lod::infer_jagged_dense_bmm(x, dense, {.level = 1}), lod::OutOfRange);
  CHECK_THROWS_AS(lod::infer_jagged_dense_bmm(described(DataType::INT64, {-1, 2}, 1), dense), lod::ShapeMismatch);
  CHECK_THROWS_AS(lod::infer_jagged_dense_bmm(x, described(DataType::FP64, {-1, 2, 5})), lod::ShapeMismatch);
  CHECK_THROWS_AS(lod::infer_jagged_dense_bmm(x, described(DataType::FP32, {-1, 3, 5})), lod::ShapeMismatch);
  CHECK_THROWS_AS(lod::infer_jagged_dense_bmm(x, described(DataType::FP32, {-1})), lod::ShapeMismatch);
  const auto y = described(DataType::FP32, {7, 3, 4}, 1);
  CHECK(lod::infer_jagged_jagged_bmm(x, y) == described(DataType::FP32, {-1, 2, 3, 4}));
  CHECK_THROWS_AS(lod::infer_jagged_jagged_bmm(described(DataType::FP32, {-1, 2}), y), lod::InvalidLoD);
  CHECK_THROWS_AS(lod::infer_jagged_jagged_bmm(x, y, {.level = -2}), lod::OutOfRange);
  CHECK_THROWS_AS(lod::infer_jagged_jagged_bmm(described(DataType::FP32, {6, 2}, 1), y), lod::ShapeMismatch);
  CHECK_THROWS_AS(lod::infer_jagged_jagged_bmm(x, described(DataType::FP32, {7, 3}, 2)), lod::ShapeMismatch);
  CHECK_THROWS_AS(lod::infer_jagged_jagged_bmm(x, described(DataType::FP64, {7, 3}, 1)), lod::ShapeMismatch);
}

}  // namespace jagged_bmm_cases
