// SPDX-License-Identifier: Apache-2.0
#include "support/check_throws.hpp"
#include "support/close.hpp"
#include "support/counting_resource.hpp"
#include "support/element_types.hpp"
#include "support/executors.hpp"
#include "support/gradient.hpp"
#include "support/inferred.hpp"
#include "support/random_batch.hpp"
#include "support/random_lod.hpp"
#include <lod/lod.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <type_traits>
#include <vector>

using lod::LoD;
using lod::LoDTensor;
using lod::MeanVarOptions;
using namespace lod_test;
using Nested = std::vector<std::vector<float>>;

namespace {

/// Half a unit in the last place of a T near 1.
template <class T>
constexpr long double half_unit = std::is_same_v<T, lod::bfloat16>  ? 0x1p-9L
                                  : std::is_same_v<T, lod::float16> ? 0x1p-12L
                                  : std::is_same_v<T, float>        ? 0x1p-25L
                                                                    : 0x1p-54L;

struct Reference {
  long double mean = 0, variance = 0, greatest = 0;
};
/// Of one column, in two passes.
template <class View>
Reference reference_mean_var(const View& x, std::int64_t begin, std::int64_t end, std::size_t column, bool unbiased) {
  Reference found;
  if (begin == end) return found;
  const auto number = [&](std::int64_t row) {
    return static_cast<long double>(static_cast<double>(x.row(row)[column]));
  };
  const auto count = static_cast<long double>(end - begin);
  for (std::int64_t row = begin; row < end; ++row) {
    found.mean += number(row) / count;
    found.greatest = std::max(found.greatest, std::fabs(number(row)));
  }
  for (std::int64_t row = begin; row < end; ++row) {
    found.variance += (number(row) - found.mean) * (number(row) - found.mean) / (count - (unbiased ? 1 : 0));
  }
  return found;
}

template <class Executor, lod::LoDTensorLike X>
void check_mean_var(const Executor& executor, const X& x, const MeanVarOptions& options) {
  using T = std::remove_const_t<typename X::value_type>;
  const auto view = x.view();
  INFO("level ", options.level, " of ", view.levels(), ", row size ", view.row_size(), ", unbiased ", options.unbiased);
  const auto [mean, variance] = lod::sequence_mean_var(executor, x, options);
  const auto offsets = view.lod_view().absolute_offsets(options.level);
  const auto size = static_cast<std::int64_t>(offsets.size()) - 1;
  CHECK(mean.lod() == view.lod().levels_above(options.level));
  CHECK(variance.lod() == mean.lod());
  REQUIRE(mean.shape() == lod::Shape(size, view.row_shape()));
  REQUIRE(variance.shape() == mean.shape());
  // Sixteen units in the last place of the type that computes, and a rounding to T, of which a tiny variance has few
  // digits.
  constexpr long double computed = std::is_same_v<T, double> ? 0x1p-48L : 0x1p-19L;
  constexpr long double epsilon = computed + half_unit<T> * 2;
  const auto least = static_cast<long double>(static_cast<double>(std::numeric_limits<T>::denorm_min()));
  bool all_close = true;
  for (std::int64_t i = 0; i < size; ++i) {
    const std::int64_t begin = offsets[static_cast<std::size_t>(i)] - offsets[0];
    const std::int64_t end = offsets[static_cast<std::size_t>(i) + 1] - offsets[0];
    for (std::size_t column = 0; column < static_cast<std::size_t>(view.row_size()); ++column) {
      const auto found_mean = static_cast<long double>(static_cast<double>(mean.row(i)[column]));
      const auto found_variance = static_cast<long double>(static_cast<double>(variance.row(i)[column]));
      if (options.unbiased && end - begin == 1) {
        all_close = all_close && std::isnan(static_cast<double>(variance.row(i)[column]));
        continue;
      }
      const Reference expected = reference_mean_var(view, begin, end, column, options.unbiased);
      all_close = all_close && std::fabs(found_mean - expected.mean) <= epsilon * expected.greatest;
      all_close = all_close && std::fabs(found_variance - expected.variance) <= epsilon * expected.variance + least / 2;
    }
  }
  CHECK(all_close);
}

template <class T>
T number_of(double value) {
  return static_cast<T>(static_cast<std::conditional_t<std::is_same_v<T, double>, double, float>>(value));
}

}  // namespace

TEST_CASE("sequence_mean_var: worked numbers") {
  const auto x = LoDTensor<float>::from_nested(Nested{{1, 2, 3, 4}, {}, {5}, {2, 4, 4, 4, 5, 5, 7, 9}});
  for_each_executor([&](const auto& executor) {
    const auto [mean, variance] = lod::sequence_mean_var(executor, x);
    CHECK(values_of(mean) == std::vector<float>{2.5F, 0, 5, 5});
    CHECK(values_of(variance) == std::vector<float>{1.25F, 0, 0, 4});
    const auto unbiased = lod::sequence_mean_var(executor, x, {.unbiased = true});
    CHECK(same_bits(unbiased.mean, mean));
    CHECK(unbiased.variance.data()[0] == 5.F / 3);
    CHECK(unbiased.variance.data()[1] == 0);
    CHECK(std::isnan(unbiased.variance.data()[2]));
    CHECK(unbiased.variance.data()[3] == 32.F / 7);
    // dmean / n + dvariance * 2 / n * (x - mean)
    const auto ones = LoDTensor<float>::from_nested(std::vector<float>{1, 1, 1, 1});
    const auto dx = lod::sequence_mean_var_grad(executor, ones, ones, x);
    CHECK(dx.lod() == x.lod());
    CHECK(values_of(dx) ==
          std::vector<float>{-.5F, 0, .5F, 1, 1, -.625F, -.125F, -.125F, -.125F, .125F, .125F, .625F, 1.125F});
    const auto of_unbiased = lod::sequence_mean_var_grad(executor, ones, ones, x, {.unbiased = true});
    CHECK(of_unbiased.data()[0] == doctest::Approx(.25 - 1));
    CHECK(std::isnan(of_unbiased.data()[4]));
    CHECK(of_unbiased.data()[12] == doctest::Approx(.125 + 8. / 7));
  });
}

TEST_CASE("sequence_mean_var: two columns and two levels, worked") {
  LoDTensor<double> x(LoD::from_lengths({{2, 0, 1}, {1, 2, 2}}), {2});
  std::copy_n(std::vector<double>{1, 10, 2, 20, 4, 60, 0, 0, 6, -6}.data(), 10, x.data());
  for_each_executor([&](const auto& executor) {
    const auto inner = lod::sequence_mean_var(executor, x);
    CHECK(values_of(inner.mean) == std::vector<double>{1, 10, 3, 40, 3, -3});
    CHECK(values_of(inner.variance) == std::vector<double>{0, 0, 1, 400, 9, 9});
    CHECK(inner.mean.lod() == LoD::from_lengths({{2, 0, 1}}));
    const auto outer = lod::sequence_mean_var(executor, x, {.level = 0});
    CHECK(outer.mean.data()[0] == doctest::Approx(7. / 3).epsilon(1e-15));
    CHECK(outer.mean.data()[1] == 30);
    CHECK(outer.mean.row(1)[0] == 0);
    CHECK(outer.mean.row(2)[1] == -3);
    CHECK(outer.variance.data()[1] == doctest::Approx(1400. / 3));
    CHECK(outer.variance.levels() == 0);
  });
}

TEST_CASE("sequence_mean_var: agrees with two passes over slices of every type, depth, level and row size") {
  for_each_type(FloatingTypes(), []<class T>(std::type_identity<T>) {
    for_each_random_lod(2, 1, 5, [](Engine& engine, const Lengths& lengths) {
      for (const std::int64_t row_size : {1, 2, 3, 7, 8, 17, 64, 71}) {
        const auto x = real_numbers<T>(engine, LoD::from_lengths(lengths), {row_size});
        const auto slice = x.between(random_number(engine, 0, x.size() > 0), x.size());
        for (int level = 0; level < x.levels(); ++level) {
          for (const bool unbiased : {false, true}) {
            check_mean_var(lod::CpuExecutor(2), slice, {.level = level, .unbiased = unbiased});
          }
        }
      }
    });
  });
}

TEST_CASE("sequence_mean_var: the same bits on every executor, in any batch, wherever a sequence lies") {
  for_each_type(FloatingTypes(), []<class T>(std::type_identity<T>) {
    for (const std::int64_t row_size : {1, 3, 4, 8, 16, 33}) {
      INFO("row size ", row_size);
      Engine engine(static_cast<std::uint64_t>(row_size));
      const std::int64_t size = slow ? 100 : 400;
      const auto x =
          real_numbers<T>(engine, giant_among_short(engine, size, 9 * grain / 4 / row_size + 1200), {row_size});
      const lod::CpuExecutor alone(1);
      const auto expected = lod::sequence_mean_var(alone, x);
      check_mean_var(alone, x, {.level = 0});
      const auto dx = lod::sequence_mean_var_grad(alone, expected.variance, expected.mean, x);
      for_each_executor([&](const auto& executor) {
        const auto found = lod::sequence_mean_var(executor, x);
        CHECK(same_bits(found.mean, expected.mean));
        CHECK(same_bits(found.variance, expected.variance));
        CHECK(same_bits(lod::sequence_mean_var_grad(executor, expected.variance, expected.mean, x), dx));
        for (const std::int64_t begin : {size * 2 / 5, size / 2, size - 1}) {
          const auto part = lod::sequence_mean_var(executor, x.between(begin, x.size()));
          CHECK(same_bits(part.mean, expected.mean.between(begin, x.size())));
          CHECK(same_bits(part.variance, expected.variance.between(begin, x.size())));
        }
        auto overwritten = x;
        lod::sequence_mean_var_grad_into(executor, expected.variance, expected.mean, overwritten, overwritten);
        CHECK(same_bits(overwritten, dx));
      });
    }
  });
}

TEST_CASE("sequence_mean_var: an offset that all rows share does not touch the variance") {
  for (const std::int64_t row_size : {1, 3, 8, 20}) {
    for (const std::int64_t rows : {std::int64_t{3}, std::int64_t{500}, 2 * grain / row_size + 700}) {
      INFO("row size ", row_size, ", rows ", rows);
      LoDTensor<double> x(LoD::from_lengths({{rows}}), {row_size});
      LoDTensor<float> y(x.lod(), {row_size});
      for (std::int64_t i = 0; i < rows * row_size; ++i) {
        const auto small = static_cast<double>(i * 7919 % 64) / 64;
        x.data()[i] = 1e8 + small;
        y.data()[i] = static_cast<float>(65536 + small);
      }
      for_each_executor([&](const auto& executor) {
        check_mean_var(executor, x, {.level = 0});
        check_mean_var(executor, y, {.level = 0});
      });
    }
  }
}

TEST_CASE("sequence_mean_var: rows far off at the start, the middle or the end cost few digits") {
  for (const std::int64_t row_size : {1, 8}) {
    for (const std::int64_t rows : {std::int64_t{17}, std::int64_t{512}, 9 * grain / 8 / row_size}) {
      for (const std::int64_t outlier : {std::int64_t{0}, rows / 2, rows - 1}) {
        Engine engine(3);
        auto x = real_numbers<float>(engine, LoD::from_lengths({{rows}}), {row_size});
        for (float& number : x.row(outlier)) number = 1e6F;
        const auto [mean, variance] = lod::sequence_mean_var(x);
        const Reference expected = reference_mean_var(x, 0, rows, 0, false);
        CHECK(variance.data()[0] == doctest::Approx(static_cast<double>(expected.variance)).epsilon(2e-5));
        CHECK(mean.data()[0] == doctest::Approx(static_cast<double>(expected.mean)).epsilon(1e-5));
      }
    }
  }
}

TEST_CASE("sequence_mean_var: equal rows have exactly their mean, and no variance") {
  for_each_type(FloatingTypes(), []<class T>(std::type_identity<T>) {
    for (const std::int64_t row_size : {1, 5, 9}) {
      for (const std::int64_t rows :
           {std::int64_t{1}, std::int64_t{2}, std::int64_t{3}, std::int64_t{7}, std::int64_t{600}, grain + 1}) {
        if (rows * row_size > 3 * grain) continue;
        for (const double value : {0.1, -3e4, 6e-8}) {
          LoDTensor<T> x(LoD::from_lengths({{rows}}), {row_size});
          std::fill_n(x.data(), rows * row_size, number_of<T>(value));
          for_each_executor([&](const auto& executor) {
            const auto [mean, variance] = lod::sequence_mean_var(executor, x);
            for (const T number : mean.values()) CHECK(number == number_of<T>(value));
            for (const T number : variance.values()) CHECK(static_cast<double>(number) == 0);
          });
        }
      }
    }
  });
}

TEST_CASE("sequence_mean_var: the mean of zeros is -0 if all of them are") {
  for_each_type(FloatingTypes(), []<class T>(std::type_identity<T>) {
    for (const std::int64_t row_size : {1, 2, 3, 7, 9, 33}) {
      // Short sequences side by side, and chunks that are not whole.
      std::vector<std::int64_t> lengths = {1, 0, 2, 3, 4, 40, 511, 512, 513, 1100, 2 * grain / row_size + 700};
      const auto size = static_cast<std::int64_t>(lengths.size());
      LoDTensor<T> x(LoD::from_lengths({lengths}), {row_size});
      std::fill_n(x.data(), x.rows() * row_size, number_of<T>(-0.0));
      Engine engine(static_cast<std::uint64_t>(row_size));
      for (std::int64_t column = -1; column < row_size; column += 1 + row_size / 3) {  // of -1, all zeros are negative
        auto mixed = x;
        for (std::int64_t i = 0; i < size && column >= 0; ++i) {
          if (mixed[i].rows() == 0) continue;
          mixed[i].row(random_number(engine, 0, mixed[i].rows() - 1))[static_cast<std::size_t>(column)] = T{};
        }
        for_each_executor([&](const auto& executor) {
          const auto [mean, variance] = lod::sequence_mean_var(executor, mixed);
          for (std::int64_t i = 0; i < size; ++i) {
            for (std::int64_t k = 0; k < row_size; ++k) {
              INFO("row size ", row_size, ", length ", lengths[static_cast<std::size_t>(i)], ", column ", k, " of ",
                   column);
              const auto found = static_cast<double>(mean.row(i)[static_cast<std::size_t>(k)]);
              REQUIRE(found == 0);
              REQUIRE(std::signbit(found) == (lengths[static_cast<std::size_t>(i)] > 0 && k != column));
              REQUIRE(static_cast<double>(variance.row(i)[static_cast<std::size_t>(k)]) == 0);
            }
          }
        });
      }
    }
  });
}

TEST_CASE("sequence_mean_var: numbers near the greatest have their mean, and their variance where there is one") {
  const auto check_large = []<class T>(T greatest) {
    constexpr T inf = std::numeric_limits<T>::infinity();
    const T step = greatest / T(4096) / T(4096);
    for (const std::int64_t row_size : {1, 3, 9}) {
      for (const std::int64_t rows : {std::int64_t{2}, std::int64_t{6}, std::int64_t{1200}}) {
        INFO("row size ", row_size, ", rows ", rows);
        LoDTensor<T> x(LoD::from_lengths({{rows, rows, rows}}), {row_size});
        // Equal; both signs; as many of a and of b, whose variance is large and finite.
        const T root = std::sqrt(greatest) * T(0.9);
        for (std::int64_t row = 0; row < rows; ++row) {
          for (std::int64_t column = 0; column < row_size; ++column) {
            x.row(row)[static_cast<std::size_t>(column)] = greatest - (row % 2 == 0 ? 0 : step * T(2));
            x.row(rows + row)[static_cast<std::size_t>(column)] = row % 2 == 0 ? greatest : -greatest;
            x.row(2 * rows + row)[static_cast<std::size_t>(column)] = row % 2 == 0 ? root : -root;
          }
        }
        for_each_executor([&](const auto& executor) {
          const auto [mean, variance] = lod::sequence_mean_var(executor, x);
          for (std::size_t column = 0; column < static_cast<std::size_t>(row_size); ++column) {
            CHECK(mean.row(0)[column] == greatest - step);
            CHECK(variance.row(0)[column] == inf);
            CHECK(mean.row(1)[column] == 0);
            CHECK(variance.row(1)[column] == inf);
            CHECK(mean.row(2)[column] == 0);
            CHECK(static_cast<double>(variance.row(2)[column] / greatest) == doctest::Approx(0.81).epsilon(1e-6));
          }
        });
      }
    }
  };
  check_large(std::numeric_limits<float>::max());
  check_large(std::numeric_limits<double>::max());
  LoDTensor<lod::float16> halves(LoD::from_lengths({{3}}), {});
  for (auto& number : halves.values()) number = std::numeric_limits<lod::float16>::max();
  halves.data()[1] = lod::float16(-65504.F);
  const auto [mean, variance] = lod::sequence_mean_var(halves);
  CHECK(static_cast<float>(mean.data()[0]) == 21840);  // 21834.67, rounded
  CHECK(static_cast<float>(variance.data()[0]) == infinity);
}

TEST_CASE("sequence_mean_var: tiny numbers do not vanish before they must") {
  constexpr float least = std::numeric_limits<float>::denorm_min();
  const auto x = LoDTensor<float>::from_nested(Nested{{least, 3 * least}, {1e-18F, 3e-18F}, {1e-30F, 3e-30F, 2e-30F}});
  for_each_executor([&](const auto& executor) {
    const auto [mean, variance] = lod::sequence_mean_var(executor, x);
    CHECK(mean.data()[0] == 2 * least);
    CHECK(variance.data()[0] == 0);
    CHECK(variance.data()[1] == doctest::Approx(1e-36F));
    CHECK(mean.data()[2] == doctest::Approx(2e-30F));
    CHECK(variance.data()[2] == 0);
    CHECK(!std::signbit(variance.data()[2]));
  });
}

TEST_CASE("sequence_mean_var: the mean of a single row is that row, with or without a variance") {
  for_each_type(FloatingTypes(), []<class T>(std::type_identity<T>) {
    using Limits = std::numeric_limits<T>;
    for (const std::int64_t row_size : {1, 2, 9, 33}) {
      LoDTensor<T> x(LoD::from_lengths({{1, 0, 1, 1}}), {row_size});
      const T numbers[] = {Limits::denorm_min(), Limits::min(), number_of<T>(-3e-7), Limits::max(), Limits::lowest()};
      for (std::size_t i = 0; i < x.values().size(); ++i) x.values()[i] = numbers[i % 5];
      for (const bool unbiased : {false, true}) {
        for_each_executor([&](const auto& executor) {
          const auto mean = lod::sequence_mean_var(executor, x, {.unbiased = unbiased}).mean;
          CHECK(same_bits(lod::remove_empty(x).with_lod(LoD()), lod::select(mean, {0, 2, 3})));
        });
      }
    }
  });
}

TEST_CASE("sequence_mean_var: infinities and NaN stay in their columns and sequences") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const std::int64_t row_size : {1, 3, 9}) {
    for (const std::int64_t rows : {std::int64_t{1}, std::int64_t{20}, std::int64_t{600}, 17 * grain / 16}) {
      INFO("row size ", row_size, ", rows ", rows);
      LoDTensor<float> x(LoD::from_lengths({{rows, rows, rows, rows}}), {row_size});
      for (float& number : x.values()) number = 2;
      x.row(rows - 1)[0] = infinity;
      x.row(2 * rows - 1)[0] = -infinity;
      x.row(2 * rows)[0] = nan;
      x.row(3 * rows)[0] = infinity;
      x.row(4 * rows - 1)[0] = -infinity;
      for_each_executor([&](const auto& executor) {
        const auto [mean, variance] = lod::sequence_mean_var(executor, x);
        CHECK(mean.row(0)[0] == infinity);
        CHECK(mean.row(1)[0] == -infinity);
        CHECK(std::isnan(mean.row(2)[0]));
        if (rows > 1) CHECK(std::isnan(mean.row(3)[0]));
        for (std::int64_t i = 0; i < 4; ++i) {
          CHECK(std::isnan(variance.row(i)[0]));
          for (std::size_t column = 1; column < static_cast<std::size_t>(row_size); ++column) {
            CHECK(mean.row(i)[column] == 2);
            CHECK(variance.row(i)[column] == 0);
          }
        }
      });
    }
  }
}

TEST_CASE("sequence_mean_var: batches without sequences, of empty ones only, and rows without elements") {
  for_each_executor([](const auto& executor) {
    for (const auto& lengths : std::vector<Lengths>{{{}}, {{0}}, {{0, 0}}, {{}, {}}, {{0, 0}, {}}, {{2, 0}, {0, 0}}}) {
      for (const std::int64_t row_size : {0, 1, 3, 8}) {
        const LoDTensor<float> x(LoD::from_lengths(lengths), {row_size});
        for (int level = 0; level < x.levels(); ++level) {
          for (const bool unbiased : {false, true}) {
            const MeanVarOptions options{.level = level, .unbiased = unbiased};
            const auto [mean, variance] = lod::sequence_mean_var(executor, x, options);
            CHECK(mean.shape() == lod::Shape{x.lod().size(level), row_size});
            CHECK(same_bits(mean, lod::sequence_pool(executor, x, lod::PoolType::AVERAGE, {.level = level})));
            CHECK(same_bits(variance, mean));
            CHECK(same_bits(lod::sequence_mean_var_grad(executor, mean, variance, x, options), x));
          }
        }
      }
    }
  });
}

TEST_CASE("sequence_mean_var_grad: agrees with differences") {
  for_each_random_lod(4, 1, 3, [](Engine& engine, const Lengths& lengths) {
    for (const std::int64_t row_size : {1, 3, 8, 17}) {
      auto x = real_numbers<double>(engine, LoD::from_lengths(lengths), {row_size});
      if (x.rows() * row_size > 300) continue;
      for (int level = 0; level < x.levels(); ++level) {
        for (const bool unbiased : {false, true}) {
          INFO("row size ", row_size, ", level ", level, ", unbiased ", unbiased);
          const MeanVarOptions options{.level = level, .unbiased = unbiased};
          const auto lengths_of = x.lod().absolute_offsets(level);
          bool any_single = false;
          for (std::size_t i = 0; i + 1 < lengths_of.size(); ++i) {
            any_single = any_single || lengths_of[i + 1] - lengths_of[i] == 1;
          }
          if (unbiased && any_single) continue;  // has no variance, and no gradient of one
          // Each with a gradient of 0 for the other.
          check_gradient(
              engine, x, [&](const auto& at) { return lod::sequence_mean_var(at, options).mean; },
              [&](const auto& dy) {
                const LoDTensor<double> none(dy.lod(), {row_size});
                return lod::sequence_mean_var_grad(dy, dy.levels() > 0 ? none : LoDTensor<double>(dy.shape()), x,
                                                   options);
              });
          check_gradient(
              engine, x, [&](const auto& at) { return lod::sequence_mean_var(at, options).variance; },
              [&](const auto& dy) {
                const LoDTensor<double> none(dy.lod(), {row_size});
                return lod::sequence_mean_var_grad(dy.levels() > 0 ? none : LoDTensor<double>(dy.shape()), dy, x,
                                                   options);
              });
        }
      }
    }
  });
}

TEST_CASE("sequence_mean_var_grad: takes distances from the mean, not from its nearest float") {
  // The mean is 65536 + 1/256, which no float is.
  const auto x = LoDTensor<float>::from_nested(Nested{{65536, 65536.0078125F}});
  const auto ones = LoDTensor<float>::from_nested(std::vector<float>{1});
  for_each_executor([&](const auto& executor) {
    const auto dx = lod::sequence_mean_var_grad(executor, LoDTensor<float>({1}), ones, x);
    CHECK(values_of(dx) == std::vector<float>{-0.00390625F, 0.00390625F});
  });
}

TEST_CASE_TEMPLATE("sequence_mean_var_grad: does not overflow on the way", T, float, double, lod::bfloat16) {
  const T most = lod::Scalar(std::numeric_limits<T>::max()).to<T>(), small = static_cast<T>(0.25F);
  for (const std::int64_t columns : {1, 3, 20}) {
    CAPTURE(columns);
    // Twice the gradient of the variance is too much; the distance from the mean; the product of both beside a mean.
    LoDTensor<T> x(LoD::from_lengths({{4, 2, 2}}), {columns}), dmean({3, columns}), dvariance({3, columns});
    const auto fill = [](auto rows, T number) { std::ranges::fill(rows, number); };
    fill(x.row(0), small);
    fill(x.row(4), most);
    fill(x.row(5), -most);
    fill(x.row(6), static_cast<T>(3.F));
    fill(x.row(7), static_cast<T>(-3.F));
    fill(dvariance.row(0), most);
    fill(dvariance.row(1), small);
    fill(dvariance.row(2), static_cast<T>(-static_cast<double>(most) / 2));
    fill(dmean.row(2), most);
    const double m = static_cast<double>(most), part = 0.25 / 4;
    // In units of the greatest number: 2 / n * dvariance * distance + dmean / n.
    const double expected[] = {
        2. / 4 * (0.25 - part), -2. / 4 * part, -2. / 4 * part, -2. / 4 * part, 0.25, -0.25, 0.5 - 1.5, 0.5 + 1.5};
    for_each_executor([&](const auto& executor) {
      const auto dx = lod::sequence_mean_var_grad(executor, dmean, dvariance, x);
      for (std::int64_t row = 0; row < 8; ++row) {
        for (const T number : dx.row(row)) {
          if (row == 7) {
            CHECK(static_cast<double>(number) == std::numeric_limits<double>::infinity());
          } else {
            CHECK(static_cast<double>(number) / m == doctest::Approx(expected[row]).epsilon(0.01));
          }
        }
      }
      LoDTensor<T> here = x;
      lod::sequence_mean_var_grad_into(executor, dmean, dvariance, here, here);
      CHECK(same_bits(here, dx));
      // A sequence of a row, without an unbiased variance, is NaN still.
      const LoDTensor<T> one(LoD::from_lengths({{1}}), {columns});
      const auto none = lod::sequence_mean_var_grad(executor, LoDTensor<T>({1, columns}), LoDTensor<T>({1, columns}),
                                                    one, {.unbiased = true});
      CHECK(std::isnan(static_cast<double>(none.data()[0])));
    });
  }
}

TEST_CASE("sequence_mean_var: a second call allocates nothing") {
  for (const int threads : thread_counts) {
    CountingResource resource;
    const lod::CpuExecutor executor(threads, &resource);
    for (const std::int64_t row_size : {1, 7, 16}) {
      Engine engine(2);
      const auto x = real_numbers<float>(engine, giant_among_short(engine, 300, 3 * grain / 2), {row_size});
      LoDTensor<float> mean(&resource), variance(&resource), dx(&resource);
      const auto call = [&] {
        lod::sequence_mean_var_into(executor, x, mean, variance);
        lod::sequence_mean_var_grad_into(executor, mean, variance, x, dx);
      };
      call();
      const int before = resource.allocations;
      call();
      CHECK(resource.allocations == before);
    }
  }
}

TEST_CASE("sequence_mean_var: bad arguments throw and change nothing; views as outputs") {
  const LoDTensor<float> x(LoD::from_lengths({{2, 1}}), {2}), plain({3, 2}), rows({2, 2});
  LoDTensor<float> y({1, 2}), z({1, 2});
  const lod::CpuExecutor executor(1);
  check_throws<lod::InvalidLoD>([&] { lod::sequence_mean_var_into(executor, plain, y, z); },
                                "sequence_mean_var: the tensor has no level, expected at least one", y);
  check_throws<lod::OutOfRange>([&] { lod::sequence_mean_var_into(executor, x, {.level = 1}, y, z); },
                                "level 1 of a LoD with 1 levels", y);
  check_throws<std::invalid_argument>([&] { lod::sequence_mean_var_into(executor, x, y, y); }, "sequence_mean_var", y);
  check_throws<lod::InvalidLoD>([&] { lod::sequence_mean_var_grad_into(executor, rows, rows, plain, y); },
                                "sequence_mean_var_grad: x: the tensor has no level", y);
  check_throws<lod::ShapeMismatch>([&] { lod::sequence_mean_var_grad_into(executor, plain, rows, x, y); },
                                   "sequence_mean_var_grad: dmean: 3 rows, expected 2", y);
  check_throws<lod::ShapeMismatch>([&] { lod::sequence_mean_var_grad_into(executor, rows, plain, x, y); },
                                   "sequence_mean_var_grad: dvariance: 3 rows, expected 2", y);
  const LoDTensor<float> wide({2, 3});
  check_throws<lod::ShapeMismatch>([&] { lod::sequence_mean_var_grad_into(executor, wide, rows, x, y); },
                                   "sequence_mean_var_grad: dmean: rows of shape {3}, expected {2}", y);
  check_throws<lod::ShapeMismatch>([&] { lod::sequence_mean_var_grad_into(executor, rows, wide, x, y); },
                                   "sequence_mean_var_grad: dvariance: rows of shape {3}, expected {2}", y);

  LoDTensor<float> mean({2, 2}), variance({2, 2}), other({3, 2});
  lod::sequence_mean_var_into(executor, x, mean.view(), variance.view());
  CHECK(mean.data()[0] == 0);
  check_throws<lod::ShapeMismatch>([&] { lod::sequence_mean_var_into(executor, x, mean, other.view()); },
                                   ": a view of shape {3, 2} with 0 levels", other);
}

TEST_CASE("infer_sequence_mean_var: allows what the operation gives, and refuses what it does") {
  for_each_random_batch<float>(1, {2}, [](Engine&, const lod::LoDTensor<float>& x) {
    for (int level = 0; level < x.levels(); ++level) {
      const MeanVarOptions options{.level = level};
      const auto found = lod::sequence_mean_var(x, options);
      check_inference(
          found.mean, [&](const auto& desc) { return lod::infer_sequence_mean_var(desc, options).mean; }, describe(x));
      check_inference(
          found.variance, [&](const auto& desc) { return lod::infer_sequence_mean_var(desc, options).variance; },
          describe(x));
      check_inferred(lod::sequence_mean_var_grad(found.mean, found.variance, x, options), describe(x));
    }
  });
  const auto inferred = lod::infer_sequence_mean_var(described(lod::DataType::BF16, {15, 2}, 2));
  CHECK(inferred.mean == described(lod::DataType::BF16, {-1, 2}, 1));
  CHECK(inferred.variance == inferred.mean);
  CHECK_THROWS_AS(lod::infer_sequence_mean_var(described(lod::DataType::FP32, {15}, 0)), lod::InvalidLoD);
  CHECK_THROWS_AS(lod::infer_sequence_mean_var(described(lod::DataType::FP32, {15}, 1), {.level = 1}), lod::OutOfRange);
  CHECK_THROWS_WITH_AS(lod::infer_sequence_mean_var(described(lod::DataType::INT32, {15}, 1)),
                       doctest::Contains("elements of INT32, expected float16"), lod::ShapeMismatch);
}
