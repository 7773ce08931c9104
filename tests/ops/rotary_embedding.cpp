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

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

namespace {

using lod::LoD;
using lod::LoDTensor;
using lod::RotaryOptions;
using namespace lod_test;
using Positions = LoDTensor<std::int64_t>;

template <class T>
long double wide(T number) {
  return static_cast<long double>(static_cast<double>(number));
}

/// Of one pair after the other, in long double. Angles of large positions have an error of their last bits, as the
/// frequencies have.
template <class T>
void check_turned(const LoDTensor<T>& y, const lod::LoDTensorView<const T>& x, const RotaryOptions<T>& options,
                  const std::vector<std::int64_t>& positions, bool back) {
  INFO("rows of ", x.row_size(), ", ", options.heads, " heads, interleaved ", options.interleaved, ", back ", back);
  CHECK(y.lod() == x.lod());
  REQUIRE(y.shape() == x.shape());
  constexpr long double unit = std::is_same_v<T, lod::bfloat16>  ? 0x1p-8L
                               : std::is_same_v<T, lod::float16> ? 0x1p-10L
                               : std::is_same_v<T, float>        ? 0x1p-22L
                                                                 : 0x1p-50L;
  const std::int64_t row_size = x.row_size(), dim = row_size / options.heads, pairs = dim / 2;
  bool all = true;
  for (std::int64_t row = 0; row < x.rows(); ++row) {
    const std::int64_t position = positions[static_cast<std::size_t>(row)];
    for (std::int64_t place = 0; place < row_size / 2; ++place) {
      const std::int64_t i = place % pairs, start = row * row_size + place / pairs * dim;
      const std::int64_t first = start + (options.interleaved ? 2 * i : i);
      const std::int64_t second = first + (options.interleaved ? 1 : pairs);
      const long double angle = static_cast<long double>(position) *
                                std::pow(static_cast<long double>(options.base),
                                         -2 * static_cast<long double>(i) / static_cast<long double>(dim));
      const long double cosine = std::cos(angle), sine = back ? -std::sin(angle) : std::sin(angle);
      const long double a = wide(x.data()[first]), b = wide(x.data()[second]);
      const long double allowed =
          (std::fabs(a) + std::fabs(b)) * (unit + std::fabs(angle) * 0x1p-51L) + (sizeof(T) == 2 ? 0x1p-24L : 0);
      all = all && std::fabs(wide(y.data()[first]) - (a * cosine - b * sine)) <= allowed;
      all = all && std::fabs(wide(y.data()[second]) - (b * cosine + a * sine)) <= allowed;
    }
  }
  CHECK(all);
}

/// The same for the operation and its gradient, and that threads change no bit.
template <class T, class E>
void check_rotary(const E& executor, const lod::LoDTensorView<const T>& x, const RotaryOptions<T>& options,
                  const std::vector<std::int64_t>& positions) {
  const auto y = lod::rotary_embedding(executor, x, options);
  check_turned(y, x, options, positions, false);
  CHECK(same_bits(y, lod::rotary_embedding(working_alone(executor), x, options)));
  const auto dx = lod::rotary_embedding_grad(executor, x, options);
  check_turned(dx, x, options, positions, true);
  CHECK(same_bits(dx, lod::rotary_embedding_grad(working_alone(executor), x, options)));
}

}  // namespace

TEST_CASE("rotary_embedding: worked numbers, both orders of pairs, heads, and given positions") {
  const auto x = LoDTensor<double>::from_values(LoD::from_lengths({{2, 0, 1}}), {4},
                                                std::vector<double>{1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4});
  const double c = std::cos(1), s = std::sin(1), d = std::cos(0.1), t = std::sin(0.1);
  const auto check = [](const LoDTensor<double>& y, const std::vector<double>& expected) {
    REQUIRE(y.values().size() == expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) CHECK(y.values()[i] == doctest::Approx(expected[i]));
  };
  for_each_executor([&](const auto& executor) {
    // Pair 0 is turned by 1 a position, pair 1 by 100^(-2 / 4).
    const auto y = lod::rotary_embedding(executor, x, {.base = 100});
    CHECK(y.lod() == x.lod());
    check(y, {1, 2, 3, 4, c - 3 * s, 2 * d - 4 * t, 3 * c + s, 4 * d + 2 * t, 1, 2, 3, 4});
    check(lod::rotary_embedding(executor, x, {.base = 100, .interleaved = true}),
          {1, 2, 3, 4, c - 2 * s, 2 * c + s, 3 * d - 4 * t, 4 * d + 3 * t, 1, 2, 3, 4});
    check(lod::rotary_embedding(executor, x, {.heads = 2, .base = 100}),
          {1, 2, 3, 4, c - 2 * s, 2 * c + s, 3 * c - 4 * s, 4 * c + 3 * s, 1, 2, 3, 4});
    const auto positions = Positions::from_values(LoD(), {}, std::vector<std::int64_t>{0, -1, 0});
    const auto plain = LoDTensor<double>::from_values(LoD(), {4}, values_of(x));
    check(lod::rotary_embedding(executor, plain, {.base = 100, .positions = positions}),
          {1, 2, 3, 4, c + 3 * s, 2 * d + 4 * t, 3 * c - s, 4 * d - 2 * t, 1, 2, 3, 4});
    check(lod::rotary_embedding_grad(executor, x, {.base = 100}),
          {1, 2, 3, 4, c + 3 * s, 2 * d + 4 * t, 3 * c - s, 4 * d - 2 * t, 1, 2, 3, 4});
    CHECK(lod::rotary_embedding(executor, x.between(1, 2)).shape() == lod::Shape{0, 4});
    CHECK(lod::rotary_embedding(executor, LoDTensor<float>(LoD::from_lengths({{3}}), {0})).shape() == lod::Shape{3, 0});
  });
}

TEST_CASE("rotary_embedding and its gradient: agree with long double, for slices of every type and width") {
  for_each_type(FloatingTypes(), []<class T>(std::type_identity<T>) {
    for (const std::int64_t dim : {2, 4, 6, 14, 34, 64, 66, 250}) {
      for_each_random_lod(3, 1, 2, [&](Engine& engine, const Lengths& lengths) {
        for (const std::int64_t heads : {1, 3}) {
          const auto whole = real_numbers<T>(engine, LoD::from_lengths(lengths), {heads, dim});
          const auto x = std::as_const(whole).view().between(random_number(engine, 0, whole.size() > 0), whole.size());
          const std::vector<std::int64_t> places = values_of(lod::sequence_positions(x.lod_view()));
          Positions given({x.rows()});
          for (std::int64_t& position : given.values()) position = random_number(engine, -100, 100000);
          for_each_executor([&](const auto& executor) {
            for (const bool interleaved : {false, true}) {
              check_rotary<T>(executor, x, {.heads = heads, .interleaved = interleaved}, places);
              check_rotary<T>(executor, x, {.heads = heads, .interleaved = interleaved, .positions = given},
                              values_of(given));
            }
          });
        }
      });
    }
  });
}

TEST_CASE("rotary_embedding: a giant among short sequences, and positions in the millions") {
  Engine engine(5);
  const auto x = real_numbers<float>(engine, giant_among_short(engine, 200, grain / 4), {12});
  const std::vector<std::int64_t> places = values_of(lod::sequence_positions(x.lod()));
  auto far = Positions(x.lod(), {});
  for (std::int64_t& position : far.values()) position = random_number(engine, 1000000000, 1000001000);
  const auto y = real_numbers<double>(engine, {100, 2});
  const auto last = Positions::from_values(LoD(), {}, std::vector<std::int64_t>(100, std::int64_t{1} << 40));
  for_each_executor([&](const auto& executor) {
    check_rotary<float>(executor, std::as_const(x).view(), {}, places);
    check_rotary<float>(executor, std::as_const(x).view(), {.positions = far}, values_of(far));
    check_rotary<double>(executor, std::as_const(y).view(), {.positions = last}, values_of(last));
  });
}

TEST_CASE("rotary_embedding: products of turned rows depend on their distance alone; turning back gives the rows") {
  Engine engine(6);
  const auto row = real_numbers<double>(engine, {1, 16}), other = real_numbers<double>(engine, {1, 16});
  for_each_executor([&](const auto& executor) {
    const auto product = [&](std::int64_t a, std::int64_t b) {
      const auto of_a = Positions::from_values(LoD(), {}, std::vector<std::int64_t>{a});
      const auto of_b = Positions::from_values(LoD(), {}, std::vector<std::int64_t>{b});
      const auto y = lod::rotary_embedding(executor, row, {.positions = of_a});
      const auto z = lod::rotary_embedding(executor, other, {.positions = of_b});
      double sum = 0;
      for (std::size_t i = 0; i < 16; ++i) sum += y.values()[i] * z.values()[i];
      return sum;
    };
    CHECK(product(3, 10) == doctest::Approx(product(1003, 1010)));
    CHECK(product(40, 2) == doctest::Approx(product(38, 0)));
    const auto x = real_numbers<double>(engine, LoD::from_lengths({{100, 0, 40}}), {6});
    const auto same = lod::rotary_embedding_grad(executor, lod::rotary_embedding(executor, x));
    for (std::size_t i = 0; i < x.values().size(); ++i) {
      CHECK(same.values()[i] == doctest::Approx(x.values()[i]).epsilon(1e-12));
    }
  });
}

TEST_CASE("rotary_embedding: negative positions turn back, as exactly as positive ones turn") {
  Engine engine(first_seed());
  for (const std::int64_t size : {2, 6, 64}) {
    CAPTURE(size);
    const std::vector<std::int64_t> distances = {0, 1, 2, 3, 31, 32, 33, 1000001};
    auto backwards = distances;
    for (std::int64_t& position : backwards) position = -position;
    const auto forth = Positions::from_values(LoD(), {}, distances),
               back = Positions::from_values(LoD(), {}, backwards);
    const auto x = real_numbers<double>(engine, LoD::from_lengths({{8}}), {size});
    // The second number of each pair is mirrored.
    const auto mirrored = [&](LoDTensor<double> numbers) {
      for (std::int64_t row = 0; row < 8; ++row) {
        for (std::int64_t i = size / 2; i < size; ++i) numbers.data()[row * size + i] *= -1;
      }
      return numbers;
    };
    for_each_executor([&](const auto& executor) {
      CHECK(same_bits(mirrored(lod::rotary_embedding(executor, mirrored(x), {.positions = &forth})),
                      lod::rotary_embedding(executor, x, {.positions = &back})));
    });
  }
}

TEST_CASE("rotary_embedding: NaN and infinity spoil their pair alone") {
  auto x = LoDTensor<float>(LoD::from_lengths({{3}}), {36});
  x.fill(1);
  const auto clean = x;
  x.data()[36 + 3] = std::numeric_limits<float>::quiet_NaN();
  x.data()[72 + 18 + 4] = std::numeric_limits<float>::infinity();
  for_each_executor([&](const auto& executor) {
    const auto y = lod::rotary_embedding(executor, x), expected = lod::rotary_embedding(executor, clean);
    for (std::size_t i = 0; i < y.values().size(); ++i) {
      CAPTURE(i);
      const bool spoilt = i == 36 + 3 || i == 36 + 18 + 3 || i == 72 + 4 || i == 72 + 18 + 4;
      CHECK(std::isfinite(y.values()[i]) == !spoilt);
      if (!spoilt) CHECK(y.values()[i] == expected.values()[i]);
    }
  });
}

TEST_CASE("rotary_embedding: in place, into a view, and without memory the second time") {
  on_counting_executors([&](const auto& check, const lod::CpuExecutor& executor, CountingResource& resource) {
    Engine engine(7);
    const auto x = real_numbers<float>(engine, giant_among_short(engine, 50, grain / 8), {3, 12});
    const auto positions = lod::sequence_positions(executor, x.lod(), {.level = 0});
    for (const bool interleaved : {false, true}) {
      LoDTensor<float> y(&resource), dx(&resource);
      check("rotary_embedding",
            [&] { lod::rotary_embedding_into(executor, x, {.heads = 3, .interleaved = interleaved}, y); });
      check("rotary_embedding_grad", [&] {
        lod::rotary_embedding_grad_into(executor, x, {.heads = 3, .interleaved = interleaved, .positions = positions},
                                        dx);
      });
      auto z = x;
      lod::rotary_embedding_into(executor, z, {.heads = 3, .interleaved = interleaved}, z);
      CHECK(same_bits(z, y));
      z = x;
      lod::rotary_embedding_grad_into(executor, z, {.heads = 3, .interleaved = interleaved}, z.view());
      CHECK(same_bits(z, dx));
    }
  });
}

TEST_CASE("rotary_embedding and its gradient: wrong arguments change nothing") {
  const lod::CpuExecutor executor(1);
  const LoDTensor<float> x(LoD::from_lengths({{4}}), {6}), plain({4, 6}), odd(LoD::from_lengths({{4}}), {5});
  const Positions fewer({3}), pairs({4, 2});
  LoDTensor<float> y({1});
  y.values()[0] = 7;
  check_throws<lod::InvalidLoD>([&] { lod::rotary_embedding_into(executor, plain, y); },
                                "rotary_embedding: the tensor has no level", y);
  check_throws<lod::OutOfRange>([&] { lod::rotary_embedding_into(executor, x, {.heads = 0}, y); },
                                "rotary_embedding: 0 heads, expected 1 or more", y);
  for (const double base : {0., -1., HUGE_VAL, std::numeric_limits<double>::quiet_NaN()}) {
    check_throws<lod::OutOfRange>([&] { lod::rotary_embedding_into(executor, x, {.base = base}, y); },
                                  "rotary_embedding: base", y);
  }
  check_throws<lod::ShapeMismatch>([&] { lod::rotary_embedding_into(executor, odd, y); },
                                   "rotary_embedding: rows of 5 numbers, expected 1 heads of an even number each", y);
  check_throws<lod::ShapeMismatch>([&] { lod::rotary_embedding_into(executor, x, {.heads = 4}, y); },
                                   "rotary_embedding: rows of 6 numbers, expected 4 heads", y);
  check_throws<lod::ShapeMismatch>([&] { lod::rotary_embedding_grad_into(executor, x, {.heads = 2}, y); },
                                   "rotary_embedding_grad: rows of 6 numbers, expected 2 heads", y);
  check_throws<lod::ShapeMismatch>([&] { lod::rotary_embedding_into(executor, x, {.positions = fewer}, y); },
                                   "rotary_embedding: positions: 3 rows, expected 4", y);
  check_throws<lod::ShapeMismatch>([&] { lod::rotary_embedding_grad_into(executor, x, {.positions = pairs}, y); },
                                   "rotary_embedding_grad: positions: rows of shape {2}", y);
  LoDTensor<float> z(LoD::from_lengths({{4}}), {7});
  check_throws<lod::ShapeMismatch>([&] { lod::rotary_embedding_into(executor, x, z.view()); }, "rotary_embedding: ", z);
  LoDTensor<float> w({5, 6});
  const auto overlapping = w.between(0, 4);
  check_throws<std::invalid_argument>(
      [&] {
        const Positions four({4});
        lod::rotary_embedding_into(executor, overlapping, {.positions = four}, w.between(1, 5));
      },
      "rotary_embedding: the output overlaps x", w);
}

TEST_CASE("infer_rotary_embedding: allows what the operation gives, and refuses what it does") {
  using lod::DataType;
  for_each_random_batch<float>(1, {2, 4}, [](Engine&, const LoDTensor<float>& batch) {
    check_inference(
        lod::rotary_embedding(batch, {.heads = 2}),
        [](const auto& of) { return lod::infer_rotary_embedding(of, {.heads = 2}); }, describe(batch));
  });
  const auto x = described(DataType::FP16, {-1, 12}, 1), positions = described(DataType::INT64, {7, 1}),
             floats = described(DataType::FP32, {7}), pairs = described(DataType::INT64, {7, 2});
  CHECK(lod::infer_rotary_embedding(x, {.heads = 3, .positions = &positions}) == x);
  CHECK(lod::infer_rotary_embedding(described(DataType::FP32, {7, 12}), {.positions = &positions}) ==
        described(DataType::FP32, {7, 12}));
  CHECK_THROWS_AS(lod::infer_rotary_embedding(described(DataType::FP32, {8, 12}), {.positions = &positions}),
                  lod::ShapeMismatch);
  CHECK_THROWS_AS(lod::infer_rotary_embedding(x, {.positions = &floats}), lod::ShapeMismatch);
  CHECK_THROWS_AS(lod::infer_rotary_embedding(x, {.positions = &pairs}), lod::ShapeMismatch);
  CHECK_THROWS_AS(lod::infer_rotary_embedding(described(DataType::FP32, {7, 12})), lod::InvalidLoD);
  CHECK_THROWS_AS(lod::infer_rotary_embedding(x, {.heads = 5}), lod::ShapeMismatch);
  CHECK_THROWS_AS(lod::infer_rotary_embedding(x, {.heads = -1}), lod::OutOfRange);
  CHECK_THROWS_AS(lod::infer_rotary_embedding(x, {.base = 0}), lod::OutOfRange);
  CHECK_THROWS_AS(lod::infer_rotary_embedding(described(DataType::INT32, {7, 12}, 1)), lod::ShapeMismatch);
}
