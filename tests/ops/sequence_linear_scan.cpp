// SPDX-License-Identifier: Apache-2.0
#include "support/check_throws.hpp"
#include "support/element_types.hpp"
#include "support/executors.hpp"
#include "support/inferred.hpp"
#include "support/random_batch.hpp"
#include "support/random_lod.hpp"
#include "support/repeatable.hpp"
#include <lod/lod.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

namespace {

using lod::LinearScanOptions;
using lod::LoD;
using lod::LoDTensor;
using namespace lod_test;

/// How far a number may be from that of long double, for sums of magnitudes of 1.
template <class T>
constexpr long double unit = std::is_same_v<T, lod::bfloat16>  ? 0x1p-8L
                             : std::is_same_v<T, lod::float16> ? 0x1p-10L
                             : std::is_same_v<T, float>        ? 0x1p-20L
                                                               : 0x1p-48L;

template <class T>
bool is_close(T found, long double expected, long double magnitude) {
  const auto number = static_cast<long double>(static_cast<double>(found));
  return std::fabs(number - expected) <= magnitude * unit<T> + (sizeof(T) == 2 ? 0x1p-24L : 0);
}

/// Visits the numbers of a sequence in one column, in the direction of the scan: the places of the rows.
template <class View>
std::vector<std::int64_t> places(const View& h, std::int64_t level, std::size_t i, std::int64_t column, bool reverse) {
  const auto offsets = h.lod_view().absolute_offsets(static_cast<int>(level));
  std::vector<std::int64_t> result;
  for (std::int64_t row = offsets[i]; row < offsets[i + 1]; ++row) {
    result.push_back((row - offsets[0]) * h.row_size() + column);
  }
  if (reverse) std::reverse(result.begin(), result.end());
  return result;
}

/// The scan and its gradient against long double, one number after the other. Whatever stands in the first factors has
/// no influence without initial rows.
template <class T, class E>
void check_scan(const E& executor, LoDTensor<T> a, const lod::LoDTensorView<const T>& b, const LoDTensor<T>& dh,
                const LinearScanOptions<T>& options) {
  INFO("rows of ", b.row_size(), ", level ", options.level, ", reverse ", options.reverse, ", initial ",
       static_cast<bool>(options.initial));
  const int level = options.level < 0 ? b.levels() + options.level : options.level;
  const std::int64_t size = b.lod_view().size(level), row_size = b.row_size();
  if (!options.initial) {
    for (std::int64_t i = 0; i < size; ++i) {
      for (std::int64_t column = 0; column < row_size; ++column) {
        const auto at = places(b, level, static_cast<std::size_t>(i), column, options.reverse);
        if (!at.empty()) a.data()[at[0]] = std::numeric_limits<T>::infinity();
      }
    }
  }
  const auto h = lod::sequence_linear_scan(executor, a, b, options);
  CHECK(h.lod() == b.lod());
  REQUIRE(h.shape() == b.shape());
  CHECK(same_bits(h, lod::sequence_linear_scan(working_alone(executor), a, b, options)));
  if (!options.initial) {  // whose gradient, that of zeros, would be infinite
    for (T& factor : a.values()) factor = static_cast<double>(factor) > 1 ? T(0) : factor;
  }
  const auto grad = lod::sequence_linear_scan_grad(executor, dh, a, h, options);
  CHECK(grad.da.lod() == a.lod());
  CHECK(grad.db.lod() == b.lod());
  REQUIRE(grad.da.shape() == b.shape());
  REQUIRE(grad.db.shape() == b.shape());
  CHECK(grad.dinitial.levels() == level);
  REQUIRE(grad.dinitial.rows() == size);
  REQUIRE(grad.dinitial.row_shape() == b.row_shape());
  const auto again = lod::sequence_linear_scan_grad(working_alone(executor), dh, a, h, options);
  CHECK((same_bits(grad.da, again.da) && same_bits(grad.db, again.db) && same_bits(grad.dinitial, again.dinitial)));
  const auto wide = [](T number) { return static_cast<long double>(static_cast<double>(number)); };
  bool all = true;
  for (std::int64_t i = 0; i < size; ++i) {
    for (std::int64_t column = 0; column < row_size; ++column) {
      const auto at = places(b, level, static_cast<std::size_t>(i), column, options.reverse);
      const long double start = options.initial ? wide(options.initial->data()[i * row_size + column]) : 0;
      long double state = start, magnitude = std::fabs(start);
      for (const std::int64_t place : at) {
        const long double factor = wide(a.data()[place]), term = wide(b.data()[place]);
        state = factor * state + term;
        magnitude = std::fabs(factor) * magnitude + std::fabs(term);
        all = all && is_close(h.data()[place], state, magnitude);
      }
      long double gradient = 0, of_first = 0;
      magnitude = 0;
      for (std::size_t k = at.size(); k-- > 0;) {
        const long double after = k + 1 < at.size() ? wide(a.data()[at[k + 1]]) : 0, own = wide(dh.data()[at[k]]);
        gradient = own + after * gradient;
        magnitude = std::fabs(own) + std::fabs(after) * magnitude;
        all = all && is_close(grad.db.data()[at[k]], gradient, magnitude);
        const long double before = k > 0 ? wide(h.data()[at[k - 1]]) : start;
        all = all && is_close(grad.da.data()[at[k]], gradient * before, magnitude * std::fabs(before));
        of_first = wide(a.data()[at[k]]);
      }
      all = all &&
            is_close(grad.dinitial.data()[i * row_size + column], of_first * gradient, std::fabs(of_first) * magnitude);
    }
  }
  CHECK(all);
}

/// Factors between -1 and 1, and zeros among them.
template <class T>
LoDTensor<T> random_factors(Engine& engine, const lod::Shape& shape) {
  auto a = small_reals<T>(engine, shape);
  for (T& factor : a.values()) {
    if (engine() % 50 == 0) factor = T(0);
  }
  return a;
}

/// Both directions, with initial rows and without.
template <class T, class E>
void check_all_forms(Engine& engine, const E& executor, const lod::LoDTensorView<const T>& b, int level) {
  const lod::Shape shape = b.shape(), of_initial = {b.lod_view().size(level), b.row_size()};
  const auto a = random_factors<T>(engine, shape);
  const auto dh = real_numbers<T>(engine, shape), initial = real_numbers<T>(engine, of_initial);
  for (const bool reverse : {false, true}) {
    check_scan<T>(executor, a, b, dh, {.reverse = reverse, .level = level});
    check_scan<T>(executor, a, b, dh, {.initial = initial, .reverse = reverse, .level = level});
  }
}

}  // namespace

TEST_CASE("sequence_linear_scan: worked numbers, forth and back, with initial rows and without") {
  const LoD lod = LoD::from_lengths({{3, 0, 2}});
  const auto a = LoDTensor<float>::from_values(lod, {}, std::vector<float>{9, 2, 3, 9, 0});
  const auto b = LoDTensor<float>::from_values(lod, {}, std::vector<float>{1, 1, 2, 5, 6});
  const auto initial = LoDTensor<float>::from_values(LoD(), {}, std::vector<float>{1, 70, 2});
  const auto dh = LoDTensor<float>::from_values(lod, {}, std::vector<float>{1, 1, 1, 1, 1});
  for_each_executor([&](const auto& executor) {
    const auto h = lod::sequence_linear_scan(executor, a, b);
    CHECK(h.lod() == lod);
    CHECK(values_of(h) == std::vector<float>{1, 3, 11, 5, 6});
    CHECK(values_of(lod::sequence_linear_scan(executor, a, b, {.initial = initial})) ==
          std::vector<float>{10, 21, 65, 23, 6});
    CHECK(values_of(lod::sequence_linear_scan(executor, a, b, {.reverse = true})) ==
          std::vector<float>{46, 5, 2, 59, 6});
    CHECK(values_of(lod::sequence_linear_scan(executor, a, b, {.initial = initial, .reverse = true})) ==
          std::vector<float>{100, 11, 5, 59, 6});
    const auto grad = lod::sequence_linear_scan_grad(executor, dh, a, h);
    CHECK(values_of(grad.db) == std::vector<float>{9, 4, 1, 1, 1});
    CHECK(values_of(grad.da) == std::vector<float>{0, 4, 3, 0, 5});
    CHECK(values_of(grad.dinitial) == std::vector<float>{81, 0, 9});
    const auto from_given = lod::sequence_linear_scan_grad(executor, dh, a, h, {.initial = initial});
    CHECK(values_of(from_given.da) == std::vector<float>{9, 4, 3, 2, 5});
    CHECK(values_of(from_given.db) == values_of(grad.db));
    // Of no rows, and of rows of no numbers.
    CHECK(lod::sequence_linear_scan(executor, a.between(1, 2), b.between(1, 2)).shape() == lod::Shape{0});
    const LoDTensor<float> empty(lod, {0});
    CHECK(lod::sequence_linear_scan(executor, empty, empty).shape() == lod::Shape{5, 0});
    CHECK(lod::sequence_linear_scan_grad(executor, empty, empty, empty).dinitial.shape() == lod::Shape{3, 0});
  });
}

TEST_CASE("sequence_linear_scan and its gradient: agree with long double, at every level of slices of every type") {
  for_each_type(FloatingTypes(), []<class T>(std::type_identity<T>) {
    for (const std::int64_t row_size : {1, 2, 3, 7, 8, 16, 17, 64, 70, 130}) {
      for_each_random_lod(2, 1, 3, [&](Engine& engine, const Lengths& lengths) {
        const auto whole = real_numbers<T>(engine, LoD::from_lengths(lengths), {row_size});
        const auto b = std::as_const(whole).view().between(random_number(engine, 0, whole.size() > 0), whole.size());
        for_each_executor([&](const auto& executor) {
          check_all_forms<T>(engine, executor, b, static_cast<int>(random_number(engine, 0, b.levels() - 1)));
        });
      });
    }
  });
}

TEST_CASE("sequence_linear_scan: sequences around the size of a leaf, and a giant that all threads share") {
  Engine engine(3);
  const std::int64_t leaf = lod::kernel::leaf_rows;
  const LoD around = LoD::from_lengths({{leaf - 1, 0, leaf, leaf + 1, 2, 2 * leaf, 2 * leaf + 1, 3 * leaf + 5}});
  for (const std::int64_t row_size : {1, 3, 20}) {
    const auto b = real_numbers<float>(engine, around, {row_size});
    const auto giant = real_numbers<double>(engine, giant_among_short(engine, 20, grain / row_size), {row_size});
    for_each_executor([&](const auto& executor) {
      check_all_forms<float>(engine, executor, std::as_const(b).view(), 0);
      check_all_forms<double>(engine, executor, std::as_const(giant).view(), 0);
    });
  }
}

TEST_CASE("sequence_linear_scan: a sequence has the bits that it has alone") {
  Engine engine(4);
  const auto b = real_numbers<float>(engine, giant_among_short(engine, 9, 3000), {5});
  const auto a = LoDTensor<float>::from_values(b.lod(), {5}, values_of(random_factors<float>(engine, b.shape())));
  for_each_executor([&](const auto& executor) {
    const auto h = lod::sequence_linear_scan(executor, a, b);
    for (std::int64_t i = 0; i < b.size(); ++i) {
      const auto alone = lod::sequence_linear_scan(executor, a.between(i, i + 1), b.between(i, i + 1));
      CHECK(same_bits(alone, h.between(i, i + 1)));
    }
  });
}

TEST_CASE("sequence_linear_scan: with factors of ones a running sum, of any length") {
  LoDTensor<float> ones(LoD::from_lengths({{3000, 0, 2}}), {2});
  ones.fill(1);
  for_each_executor([&](const auto& executor) {
    for (const bool reverse : {false, true}) {
      const auto h = lod::sequence_linear_scan(executor, ones, ones, {.reverse = reverse});
      CHECK(values_of(h) == values_of(lod::sequence_cumsum(executor, ones, {.reverse = reverse})));
    }
  });
}

TEST_CASE("sequence_linear_scan: NaN and infinity stay in their sequence and column; great products spare a zero") {
  const std::int64_t rows = 2000;
  const LoD lod = LoD::from_lengths({{rows, rows, rows}});
  LoDTensor<float> a(lod, {2}), b(lod, {2});
  a.fill(0.5F);
  b.fill(1);
  b.row(100)[1] = std::numeric_limits<float>::infinity();
  a.row(rows + 700)[0] = std::numeric_limits<float>::quiet_NaN();
  for (std::int64_t row = 2 * rows; row < 3 * rows; ++row) {
    a.row(row)[0] = a.row(row)[1] = 8;
    b.row(row)[0] = b.row(row)[1] = 0;
  }
  for_each_executor([&](const auto& executor) {
    const auto h = lod::sequence_linear_scan(executor, a, b);
    CHECK(h.row(rows - 1)[0] == 2);
    CHECK(h.row(99)[1] == 2);
    for (const std::int64_t row : {100, 101, 600, 1999}) CHECK(!std::isfinite(h.row(row)[1]));
    CHECK(h.row(rows + 699)[0] == 2);
    for (const std::int64_t row : {700, 701, 1100, 1999}) CHECK(std::isnan(h.row(rows + row)[0]));
    CHECK(h.row(2 * rows - 1)[1] == 2);
    bool all = true;
    for (std::int64_t row = 2 * rows; row < 3 * rows; ++row) all = all && h.row(row)[0] == 0 && h.row(row)[1] == 0;
    CHECK(all);
  });
}

TEST_CASE("sequence_linear_scan: in place, and without memory the second time") {
  on_counting_executors([&](const auto& check, const lod::CpuExecutor& executor, CountingResource& resource) {
    Engine engine(7);
    const auto b = real_numbers<float>(engine, giant_among_short(engine, 50, grain / 64), {300});
    const auto factors = random_factors<float>(engine, b.shape()), initial = real_numbers<float>(engine, {50, 300});
    LoDTensor<float> h(&resource), da(&resource), db(&resource), dinitial(&resource);
    check("sequence_linear_scan",
          [&] { lod::sequence_linear_scan_into(executor, factors, b, {.initial = initial}, h); });
    check("sequence_linear_scan_grad", [&] {
      lod::sequence_linear_scan_grad_into(executor, b, factors, h, {.initial = initial}, da, db, dinitial);
    });
    auto z = b;
    lod::sequence_linear_scan_into(executor, factors, z, {.initial = initial}, z);
    CHECK(same_bits(z, h));
    auto by = LoDTensor<float>::from_values(b.lod(), {300}, values_of(factors));
    lod::sequence_linear_scan_into(executor, by, b, {.initial = initial}, by.view());
    CHECK(same_bits(by, h));
  });
}

TEST_CASE("sequence_linear_scan and its gradient: wrong arguments change nothing") {
  const lod::CpuExecutor executor(1);
  const LoDTensor<float> b(LoD::from_lengths({{4, 2}}), {3}), plain({6, 3}), fewer({5, 3}), narrow({6, 2});
  const LoDTensor<float> start({2, 3}), starts({3, 3}), narrow_start({2, 2});
  LoDTensor<float> h({1});
  h.values()[0] = 7;
  check_throws<lod::InvalidLoD>([&] { lod::sequence_linear_scan_into(executor, b, plain, h); },
                                "sequence_linear_scan: b: the tensor has no level", h);
  check_throws<lod::OutOfRange>([&] { lod::sequence_linear_scan_into(executor, plain, b, {.level = 1}, h); },
                                "sequence_linear_scan: level 1", h);
  check_throws<lod::ShapeMismatch>([&] { lod::sequence_linear_scan_into(executor, fewer, b, h); },
                                   "sequence_linear_scan: a: 5 rows, expected 6", h);
  check_throws<lod::ShapeMismatch>([&] { lod::sequence_linear_scan_into(executor, narrow, b, h); },
                                   "sequence_linear_scan: a: rows of shape {2}, expected {3}", h);
  check_throws<lod::ShapeMismatch>([&] { lod::sequence_linear_scan_into(executor, plain, b, {.initial = starts}, h); },
                                   "sequence_linear_scan: initial: 3 rows, expected 2", h);
  check_throws<lod::ShapeMismatch>(
      [&] { lod::sequence_linear_scan_into(executor, plain, b, {.initial = narrow_start}, h); },
      "sequence_linear_scan: initial: rows of shape {2}, expected {3}", h);
  LoDTensor<float> da = h, db = h;
  check_throws<lod::InvalidLoD>([&] { lod::sequence_linear_scan_grad_into(executor, b, b, plain, da, db, h); },
                                "sequence_linear_scan_grad: h: the tensor has no level", h);
  check_throws<lod::ShapeMismatch>([&] { lod::sequence_linear_scan_grad_into(executor, fewer, b, b, da, db, h); },
                                   "sequence_linear_scan_grad: dh: 5 rows, expected 6", h);
  check_throws<lod::ShapeMismatch>([&] { lod::sequence_linear_scan_grad_into(executor, b, narrow, b, da, db, h); },
                                   "sequence_linear_scan_grad: a: rows of shape {2}", h);
  check_throws<lod::ShapeMismatch>(
      [&] { lod::sequence_linear_scan_grad_into(executor, b, b, b, {.initial = starts}, da, db, h); },
      "sequence_linear_scan_grad: initial: 3 rows, expected 2", h);
  check_throws<std::invalid_argument>([&] { lod::sequence_linear_scan_grad_into(executor, b, b, b, da, da, h); },
                                      "sequence_linear_scan_grad: db overlaps da, expected memory of its own", h);
}

TEST_CASE("infer_sequence_linear_scan: allows what the operation gives, and refuses what it does") {
  using lod::DataType;
  for_each_random_batch<float>(1, {2, 4}, [](Engine&, const LoDTensor<float>& batch) {
    check_inference(
        lod::sequence_linear_scan(batch, batch), [](const auto& of) { return lod::infer_sequence_linear_scan(of, of); },
        describe(batch));
  });
  const auto b = described(DataType::FP16, {-1, 12}, 2), a = described(DataType::FP16, {7, 12});
  const auto initial = described(DataType::FP16, {-1, 12}), floats = described(DataType::FP32, {7, 12});
  const auto narrow = described(DataType::FP16, {7, 11}), fewer = described(DataType::FP16, {6, 12});
  CHECK(lod::infer_sequence_linear_scan(a, b, {.initial = &initial}) == b);
  CHECK_THROWS_AS(lod::infer_sequence_linear_scan(a, a), lod::InvalidLoD);
  CHECK_THROWS_AS(lod::infer_sequence_linear_scan(a, b, {.level = 2}), lod::OutOfRange);
  CHECK_THROWS_AS(lod::infer_sequence_linear_scan(floats, b), lod::ShapeMismatch);
  CHECK_THROWS_AS(lod::infer_sequence_linear_scan(narrow, b), lod::ShapeMismatch);
  CHECK_THROWS_AS(lod::infer_sequence_linear_scan(fewer, described(DataType::FP16, {7, 12}, 1)), lod::ShapeMismatch);
  CHECK_THROWS_AS(lod::infer_sequence_linear_scan(a, b, {.initial = &narrow}), lod::ShapeMismatch);
  CHECK_THROWS_AS(
      lod::infer_sequence_linear_scan(described(DataType::INT32, {7, 12}, 1), described(DataType::INT32, {7, 12}, 1)),
      lod::ShapeMismatch);
}
