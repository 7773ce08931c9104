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

using lod::LoD;
using lod::LoDTensor;
using namespace lod_test;

/// The widths around those of vectors, of the sums that share a row, and of the parts of a row.
constexpr std::int64_t widths[] = {1, 2, 3, 5, 7, 17, 32, 33, 1000};

template <class T>
constexpr long double unit = std::is_same_v<T, lod::bfloat16>  ? 0x1p-8L
                             : std::is_same_v<T, lod::float16> ? 0x1p-11L
                             : std::is_same_v<T, float>        ? 0x1p-24L
                                                               : 0x1p-53L;
template <class T>
constexpr long double computed_unit = std::is_same_v<T, double> ? 0x1p-53L : 0x1p-24L;

template <class T>
long double wide(T number) {
  return static_cast<long double>(static_cast<double>(number));
}
template <class T>
T number_of(double value) {
  return static_cast<T>(static_cast<std::conditional_t<std::is_same_v<T, double>, double, float>>(value));
}

/// A row normalised, and what its numbers are multiplied by; in two passes.
struct Reference {
  std::vector<long double> normal;
  long double factor = 0;
};
template <class T>
Reference normalised(const T* x, std::int64_t row_size, double epsilon, bool centred) {
  const auto count = static_cast<long double>(row_size);
  long double mean = 0, squares = 0;
  for (std::int64_t i = 0; centred && i < row_size; ++i) mean += wide(x[i]) / count;
  for (std::int64_t i = 0; i < row_size; ++i) squares += (wide(x[i]) - mean) * (wide(x[i]) - mean) / count;
  Reference found;
  found.factor = 1 / std::sqrt(squares + static_cast<long double>(epsilon));
  for (std::int64_t i = 0; i < row_size; ++i) found.normal.push_back((wide(x[i]) - mean) * found.factor);
  return found;
}

/// Whether a result is close to the reference: to so many units of what it was computed from, and rounded once.
template <class T>
bool is_close(T found, long double expected, long double from) {
  const long double error = std::fabs(wide(found) - expected);
  return error <= unit<T> * std::fabs(expected) + 24 * computed_unit<T> * from +
                      static_cast<long double>(std::is_same_v<T, lod::float16> ? 0x1p-25 : 0x1p-130);
}

template <class T>
void check_norm(const LoDTensor<T>& y, const lod::LoDTensorView<const T>& x, const LoDTensor<T>* scale,
                const LoDTensor<T>* bias, double epsilon, bool centred) {
  CHECK(y.lod() == x.lod());
  REQUIRE(y.shape() == x.shape());
  const std::int64_t row_size = x.row_size();
  bool all = true;
  for (std::int64_t row = 0; row < x.rows(); ++row) {
    const Reference expected = normalised(x.data() + row * row_size, row_size, epsilon, centred);
    for (std::int64_t i = 0; i < row_size; ++i) {
      const long double by = scale ? wide(scale->data()[i]) : 1, added = bias ? wide(bias->data()[i]) : 0;
      const long double normal = expected.normal[static_cast<std::size_t>(i)];
      all = all && is_close(y.data()[row * row_size + i], normal * by + added,
                            (std::fabs(normal) + 1) * std::fabs(by) + std::fabs(added));
    }
  }
  CHECK(all);
}

/// The gradients against sums in long double.
template <class T, class Found>
void check_norm_grad(const Found& found, const LoDTensor<T>* dbias, const lod::LoDTensorView<const T>& dy,
                     const lod::LoDTensorView<const T>& x, const LoDTensor<T>* scale, double epsilon, bool centred) {
  const std::int64_t row_size = x.row_size();
  const auto count = static_cast<long double>(row_size);
  CHECK(found.dx.lod() == x.lod());
  REQUIRE(found.dx.shape() == x.shape());
  REQUIRE(found.dscale.shape() == lod::Shape(1, x.row_shape()));
  std::vector<long double> dscale(static_cast<std::size_t>(row_size)), to_dscale = dscale, bias = dscale,
                                                                       to_bias = dscale;
  bool all = true;
  for (std::int64_t row = 0; row < x.rows(); ++row) {
    const Reference at = normalised(x.data() + row * row_size, row_size, epsilon, centred);
    const auto of_row = [&](std::int64_t i) { return wide(dy.data()[row * row_size + i]); };
    const auto by = [&](std::int64_t i) { return scale ? wide(scale->data()[i]) : 1; };
    long double mean = 0, weighed = 0, size = 0;
    for (std::int64_t i = 0; i < row_size; ++i) {
      const auto place = static_cast<std::size_t>(i);
      mean += centred ? of_row(i) * by(i) / count : 0;
      weighed += of_row(i) * by(i) * at.normal[place] / count;
      size += std::fabs(of_row(i) * by(i)) * (1 + std::fabs(at.normal[place])) / count;
      dscale[place] += of_row(i) * at.normal[place];
      to_dscale[place] += std::fabs(of_row(i)) * (1 + std::fabs(at.normal[place]));
      bias[place] += of_row(i);
      to_bias[place] += std::fabs(of_row(i));
    }
    for (std::int64_t i = 0; i < row_size; ++i) {
      const long double normal = at.normal[static_cast<std::size_t>(i)];
      const long double expected = at.factor * (of_row(i) * by(i) - mean - normal * weighed);
      const long double from = at.factor * (std::fabs(of_row(i) * by(i)) + size * (1 + std::fabs(normal)));
      all = all && is_close(found.dx.data()[row * row_size + i], expected, from);
    }
  }
  CHECK(all);
  for (std::size_t i = 0; i < dscale.size(); ++i) {
    CHECK(is_close(found.dscale.data()[i], dscale[i], to_dscale[i]));
    if (dbias) CHECK(is_close(dbias->data()[i], bias[i], to_bias[i]));
  }
}

template <class T, class E>
void check_all(const E& executor, const lod::LoDTensorView<const T>& dy, const lod::LoDTensorView<const T>& x,
               const LoDTensor<T>* scale, const LoDTensor<T>* bias, double epsilon) {
  INFO("rows of ", x.row_size(), ", scale ", scale != nullptr, ", bias ", bias != nullptr);
  const lod::LayerNormOptions<T> options{.scale = scale, .bias = bias, .epsilon = epsilon};
  const lod::RmsNormOptions<T> of_rms{.scale = scale, .epsilon = epsilon};
  const auto y = lod::layer_norm(executor, x, options);
  check_norm(y, x, scale, bias, epsilon, true);
  const auto z = lod::rms_norm(executor, x, of_rms);
  check_norm<T>(z, x, scale, nullptr, epsilon, false);
  const auto d = lod::layer_norm_grad(executor, dy, x, options);
  check_norm_grad<T>(d, &d.dbias, dy, x, scale, epsilon, true);
  CHECK(d.dbias.shape() == d.dscale.shape());
  const auto of = lod::rms_norm_grad(executor, dy, x, of_rms);
  check_norm_grad<T>(of, nullptr, dy, x, scale, epsilon, false);
  // Nothing but sums, products, quotients and roots: the bits are those of one thread, and of every back end.
  const lod::CpuExecutor alone(1);
  CHECK(same_bits(y, lod::layer_norm(alone, x, options)));
  CHECK(same_bits(z, lod::rms_norm(alone, x, of_rms)));
  const auto same = lod::layer_norm_grad(alone, dy, x, options);
  CHECK(same_bits(d.dx, same.dx));
  CHECK(same_bits(d.dscale, same.dscale));
  CHECK(same_bits(d.dbias, same.dbias));
  const auto same_rms = lod::rms_norm_grad(alone, dy, x, of_rms);
  CHECK(same_bits(of.dx, same_rms.dx));
  CHECK(same_bits(of.dscale, same_rms.dscale));
}

}  // namespace

TEST_CASE("layer_norm, rms_norm: worked numbers, rows of several dimensions, and rows without numbers") {
  const auto x = LoDTensor<double>::from_values(LoD::from_lengths({{2, 0}}), {2, 2},
                                                std::vector<double>{1, 3, 5, 7, -3, 4, 3, -4});
  const auto scale = LoDTensor<double>::from_values(LoD(), {}, std::vector<double>{1, 2, 3, 4});
  const auto bias = LoDTensor<double>::from_values(LoD(), {2}, std::vector<double>{0, 10, 20, 30});
  for_each_executor([&](const auto& executor) {
    // The means are 4 and 0, the variances 5 and 12.5.
    const auto y = lod::layer_norm(executor, x, {.scale = scale, .bias = bias, .epsilon = 4});
    CHECK(y.lod() == x.lod());
    CHECK(y.shape() == lod::Shape{2, 2, 2});
    const double r = 1 / std::sqrt(16.5);
    const std::vector<double> expected{-1, 10 - 2 / 3., 21, 34, -3 * r, 10 + 8 * r, 20 + 9 * r, 30 - 16 * r};
    for (std::size_t i = 0; i < expected.size(); ++i) CHECK(y.values()[i] == doctest::Approx(expected[i]));
    // The means of the squares are 21 and 12.5.
    const auto z = lod::rms_norm(executor, x, {.scale = scale, .epsilon = 4});
    const std::vector<double> roots{1 / 5., 6 / 5., 3, 28 / 5., -3 * r, 8 * r, 9 * r, -16 * r};
    for (std::size_t i = 0; i < roots.size(); ++i) CHECK(z.values()[i] == doctest::Approx(roots[i]));

    CHECK(lod::layer_norm(executor, x.between(1, 2)).shape() == lod::Shape{0, 2, 2});
    CHECK(values_of(lod::layer_norm(executor, LoDTensor<float>({3, 0}))).empty());
    CHECK(values_of(lod::rms_norm(executor, LoDTensor<float>({3, 0}))).empty());
    const auto none = lod::layer_norm_grad(executor, x.between(1, 2), x.between(1, 2), {.scale = scale});
    CHECK(none.dx.shape() == lod::Shape{0, 2, 2});
    CHECK(values_of(none.dscale) == std::vector<double>(4));
    CHECK(values_of(none.dbias) == std::vector<double>(4));
    CHECK(values_of(lod::rms_norm_grad(executor, x.between(1, 2), x.between(1, 2)).dscale) == std::vector<double>(4));
    const LoDTensor<float> no_numbers({3, 0});
    CHECK(lod::layer_norm_grad(executor, no_numbers, no_numbers).dbias.shape() == lod::Shape{1, 0});
  });
}

TEST_CASE("layer_norm, rms_norm and their gradients: agree with long double, for slices of every type and width") {
  for_each_type(FloatingTypes(), []<class T>(std::type_identity<T>) {
    for (const std::int64_t width : widths) {
      for_each_random_lod(width < 100 ? 2 : 1, 1, 3, [&](Engine& engine, const Lengths& lengths) {
        const auto whole = real_numbers<T>(engine, LoD::from_lengths(lengths), {width});
        const auto x = std::as_const(whole).view().between(random_number(engine, 0, whole.size() > 0), whole.size());
        const auto dy = real_numbers<T>(engine, {x.rows(), width});
        const auto scale = real_numbers<T>(engine, {width}), bias = real_numbers<T>(engine, {1, width});
        for_each_executor([&](const auto& executor) {
          check_all<T>(executor, std::as_const(dy).view(), x, nullptr, nullptr, 1e-3);
          check_all<T>(executor, std::as_const(dy).view(), x, &scale, &bias, 1e-5);
          check_all<T>(executor, std::as_const(dy).view(), x, &scale, nullptr, 1e-5);
          check_all<T>(executor, std::as_const(dy).view(), x, nullptr, &bias, 1e-5);
        });
      });
    }
  });
}

TEST_CASE("layer_norm, rms_norm and their gradients: many rows, a giant row, and rows of whole parts") {
  Engine engine(5);
  const auto check = [&]<class T>(std::type_identity<T>, std::int64_t rows, std::int64_t width) {
    const auto x = real_numbers<T>(engine, {rows, width}), dy = real_numbers<T>(engine, {rows, width});
    const auto scale = real_numbers<T>(engine, {width}), bias = real_numbers<T>(engine, {width});
    for_each_executor([&](const auto& executor) {
      check_all<T>(executor, std::as_const(dy).view(), std::as_const(x).view(), &scale, &bias, 1e-5);
    });
  };
  check(std::type_identity<float>(), 3 * grain / 8, 3);
  check(std::type_identity<float>(), grain / 16, 20);
  check(std::type_identity<float>(), 1, 2 * grain + 3);
  check(std::type_identity<double>(), 2, 4096);
  check(std::type_identity<lod::bfloat16>(), 3, 8192 + 40);
}

TEST_CASE("layer_norm, rms_norm: a row's bits depend on nothing but the row") {
  Engine engine(6);
  for (const std::int64_t width : widths) {
    const auto x = real_numbers<float>(engine, {23, width});
    for_each_executor([&](const auto& executor) {
      const auto y = lod::layer_norm(executor, x);
      const auto z = lod::rms_norm(executor, x);
      bool same = true;
      for (std::int64_t row = 0; row < x.rows(); ++row) {
        same = same && same_bits(lod::layer_norm(executor, x.between(row, row + 1)), y.between(row, row + 1));
        same = same && same_bits(lod::rms_norm(executor, x.between(row, row + 1)), z.between(row, row + 1));
      }
      CHECK(same);
    });
  }
}

TEST_CASE("layer_norm: far from 0, among outliers, and of equal numbers") {
  for (const std::int64_t width : {2, 5, 40, 1000}) {
    CAPTURE(width);
    Engine engine(7);
    auto x = real_numbers<float>(engine, {3, width});
    for (std::int64_t i = 0; i < width; ++i) {
      x.data()[i] = 1e6F + static_cast<float>(i % 5);                                 // not a float's distance apart
      x.data()[width + i] = i < 3 ? 1e4F : x.data()[width + i];                       // the first three far off
      x.data()[2 * width + i] = i == 1 ? -3e5F : 0.125F * static_cast<float>(i % 3);  // one that counts for all
    }
    const auto equal = [&] {
      LoDTensor<float> y({2, width});
      y.fill(0.1F);
      return y;
    }();
    for_each_executor([&](const auto& executor) {
      check_norm<float>(lod::layer_norm(executor, x), std::as_const(x).view(), nullptr, nullptr, 1e-5, true);
      CHECK(values_of(lod::layer_norm(executor, equal)) == std::vector<float>(static_cast<std::size_t>(2 * width)));
    });
  }
}

TEST_CASE("layer_norm, rms_norm: squares beyond the range of the type, and below it") {
  const auto check = []<class T>(std::type_identity<T>, const std::vector<double>& sizes, double epsilon) {
    Engine engine(8);
    for (const std::int64_t width : {2, 3, 17, 100}) {
      for (const double size : sizes) {
        INFO("rows of ", width, " numbers of about ", size);
        auto x = real_numbers<T>(engine, {20, width});
        for (T& number : x.values()) number = number_of<T>(static_cast<double>(number) / 4 * size);
        x.data()[width] = number_of<T>(1);  // among others
        for_each_executor([&](const auto& executor) {
          check_norm<T>(lod::layer_norm(executor, x, {.epsilon = epsilon}), std::as_const(x).view(), nullptr, nullptr,
                        epsilon, true);
          check_norm<T>(lod::rms_norm(executor, x, {.epsilon = epsilon}), std::as_const(x).view(), nullptr, nullptr,
                        epsilon, false);
        });
      }
    }
  };
  check(std::type_identity<float>(), {1e19, 1e30, 3e38}, 1e-5);
  check(std::type_identity<float>(), {1e-10, 1e-19, 1e-30}, 0);
  check(std::type_identity<double>(), {1e154, 1e200, 1e308}, 1e-5);
  check(std::type_identity<double>(), {1e-150, 1e-200, 1e-302, 1e-310}, 0);
  check(std::type_identity<lod::bfloat16>(), {1e30, 3e38}, 1e-5);
  check(std::type_identity<lod::float16>(), {60000}, 1e-5);
}

TEST_CASE("layer_norm, rms_norm and their gradients: NaN and infinity stay in their rows") {
  for_each_type(FloatingTypes(), []<class T>(std::type_identity<T>) {
    for (const std::int64_t width : {1, 3, 17, 33}) {
      CAPTURE(width);
      Engine engine(9);
      auto x = real_numbers<T>(engine, {40, width});
      const auto dy = real_numbers<T>(engine, {40, width});
      const auto before = x;
      x.data()[5 * width] = number_of<T>(std::numeric_limits<double>::quiet_NaN());
      x.data()[21 * width + width - 1] = number_of<T>(-std::numeric_limits<double>::infinity());
      for (std::int64_t i = 0; i < width; ++i) x.data()[30 * width + i] = number_of<T>(i % 2 ? -INFINITY : INFINITY);
      const auto check = [&](const LoDTensor<T>& found, const LoDTensor<T>& clean) {
        bool all = true;
        for (std::int64_t row = 0; row < x.rows(); ++row) {
          const auto numbers = found.view().row(row);
          if (row == 5 || row == 21 || row == 30) {
            for (const T number : numbers) all = all && std::isnan(static_cast<double>(number));
          } else {
            all = all && same_bits(found.between(row, row + 1), clean.between(row, row + 1));
          }
        }
        CHECK(all);
      };
      for_each_executor([&](const auto& executor) {
        check(lod::layer_norm(executor, x), lod::layer_norm(executor, before));
        check(lod::rms_norm(executor, x), lod::rms_norm(executor, before));
        check(lod::layer_norm_grad(executor, dy, x).dx, lod::layer_norm_grad(executor, dy, before).dx);
        check(lod::rms_norm_grad(executor, dy, x).dx, lod::rms_norm_grad(executor, dy, before).dx);
      });
    }
  });
  // An epsilon of 0 leaves nothing to divide by.
  const LoDTensor<float> zeros({2, 5});
  for_each_executor([&](const auto& executor) {
    const auto y = lod::layer_norm(executor, zeros, {.epsilon = 0}), z = lod::rms_norm(executor, zeros, {.epsilon = 0});
    for (const float number : y.values()) CHECK(std::isnan(number));
    for (const float number : z.values()) CHECK(std::isnan(number));
  });
  // However small another one is, it leaves a row of equal numbers 0.
  for_each_type(FloatingTypes(), [&]<class T>(std::type_identity<T>) {
    for (const double epsilon : {1e-30, 1e-150, 1e-300, 5e-324}) {
      for_each_executor([&](const auto& executor) {
        const LoDTensor<T> equal({2, 5});
        const auto y = lod::layer_norm(executor, equal, {.epsilon = epsilon}),
                   z = lod::rms_norm(executor, equal, {.epsilon = epsilon});
        for (const T number : y.values()) CHECK(number == T{});
        for (const T number : z.values()) CHECK(number == T{});
      });
    }
  });
}

TEST_CASE_TEMPLATE("layer_norm_grad, rms_norm_grad: rows of subnormal numbers, and of the greatest, without an epsilon",
                   T, float, double, lod::bfloat16) {
  constexpr bool wide = std::is_same_v<T, double>;
  Engine engine(first_seed());
  for (const std::int64_t size : {2, 5, 40, 600}) {
    CAPTURE(size);
    auto x = small_integers<T>(engine, {7, size});
    for (std::int64_t row = 0; row < 7; ++row) x.row(row)[0] = static_cast<T>(9.F);  // none of the others
    const auto dy = real_numbers<T>(engine, {7, size});
    const auto scale = real_numbers<T>(engine, {size});
    const auto times = [](LoDTensor<T> numbers, int exponent) {
      for (T& number : numbers.values()) number = static_cast<T>(std::ldexp(static_cast<double>(number), exponent));
      return numbers;
    };
    // The factor of gradients is beyond the range, or subnormal; the gradients of these dy are not.
    const int least = wide ? -1074 : std::is_same_v<T, float> ? -149 : -133, most = wide ? 1019 : 123;
    for (const auto& exponents : {std::pair{least, wide ? -500 : -60}, std::pair{most, wide ? 500 : 60}}) {
      const int exponent = exponents.first, of_dy = exponents.second;
      CAPTURE(exponent);
      const auto extreme = times(x, exponent), scaled_dy = times(dy, of_dy);
      for_each_executor([&](const auto& executor) {
        const auto check = [&](const LoDTensor<T>& found, const LoDTensor<T>& expected) {
          bool same = true;
          for (std::size_t i = 0; i < found.values().size(); ++i) {
            const double number = std::ldexp(static_cast<double>(found.values()[i]), exponent - of_dy);
            const auto usual = static_cast<double>(expected.values()[i]);
            same = same && std::fabs(number - usual) <= (wide ? 1e-13 : std::is_same_v<T, float> ? 1e-5 : 1e-2);
          }
          CHECK(same);
        };
        check(lod::layer_norm_grad(executor, scaled_dy, extreme, {.scale = &scale, .epsilon = 0}).dx,
              lod::layer_norm_grad(executor, dy, x, {.scale = &scale, .epsilon = 0}).dx);
        check(lod::rms_norm_grad(executor, scaled_dy, extreme, {.epsilon = 0}).dx,
              lod::rms_norm_grad(executor, dy, x, {.epsilon = 0}).dx);
      });
      const auto alone = lod::layer_norm_grad(lod::CpuExecutor(1), scaled_dy, extreme, {.scale = &scale, .epsilon = 0});
      for_each_executor([&](const auto& executor) {
        const auto d = lod::layer_norm_grad(executor, scaled_dy, extreme, {.scale = &scale, .epsilon = 0});
        CHECK(same_bits(d.dx, alone.dx));
        CHECK(same_bits(d.dscale, alone.dscale));
      });
    }
  }
}

TEST_CASE("layer_norm, rms_norm: in place, into a view, and without memory the second time") {
  Engine engine(10);
  on_counting_executors([&](const auto& check, const lod::CpuExecutor& executor, CountingResource& resource) {
    const auto x = real_numbers<float>(engine, giant_among_short(engine, 40, grain / 8), {11});
    const auto scale = real_numbers<float>(engine, {11});
    LoDTensor<float> y(&resource), dx(&resource), dscale(&resource), dbias(&resource);
    check("layer_norm", [&] { lod::layer_norm_into(executor, x, {.scale = scale, .bias = scale}, y); });
    check("layer_norm_grad", [&] { lod::layer_norm_grad_into(executor, x, x, {.scale = scale}, dx, dscale, dbias); });
    check("rms_norm", [&] { lod::rms_norm_into(executor, x, {.scale = scale}, y); });
    check("rms_norm_grad", [&] { lod::rms_norm_grad_into(executor, x, x, {.scale = scale}, dx, dscale); });
    auto z = x;
    lod::rms_norm_into(executor, z, {.scale = scale}, z);
    CHECK(same_bits(z, y));
    z = x;
    lod::rms_norm_into(executor, z, {.scale = scale}, z.view());
    CHECK(same_bits(z, y));
  });
}

TEST_CASE("layer_norm, rms_norm and their gradients: wrong arguments change nothing") {
  const lod::CpuExecutor executor(1);
  const LoDTensor<float> x({4, 2}), wide_one({3}), dy({4, 3}), fewer({3, 2});
  LoDTensor<float> y({1}), dscale, dbias;
  y.values()[0] = 7;
  check_throws<lod::ShapeMismatch>([&] { lod::layer_norm_into(executor, x, {.scale = wide_one}, y); },
                                   "layer_norm: scale: shape {3}, expected 2 numbers", y);
  check_throws<lod::ShapeMismatch>([&] { lod::layer_norm_into(executor, x, {.bias = wide_one}, y); },
                                   "layer_norm: bias: shape {3}, expected 2 numbers", y);
  check_throws<lod::ShapeMismatch>([&] { lod::rms_norm_into(executor, x, {.scale = wide_one}, y); },
                                   "rms_norm: scale: shape {3}, expected 2 numbers", y);
  for (const double epsilon : {-1e-5, std::numeric_limits<double>::quiet_NaN(), HUGE_VAL, 1e300}) {
    check_throws<lod::OutOfRange>([&] { lod::layer_norm_into(executor, x, {.epsilon = epsilon}, y); },
                                  "layer_norm: epsilon", y);
    check_throws<lod::OutOfRange>([&] { lod::rms_norm_into(executor, x, {.epsilon = epsilon}, y); },
                                  "rms_norm: epsilon", y);
    check_throws<lod::OutOfRange>([&] { lod::rms_norm_grad_into(executor, x, x, {.epsilon = epsilon}, y, dscale); },
                                  "rms_norm_grad: epsilon", y);
  }
  check_throws<lod::ShapeMismatch>([&] { lod::layer_norm_grad_into(executor, dy, x, y, dscale, dbias); },
                                   "layer_norm_grad: dy: rows of shape {3}, expected {2}", y);
  check_throws<lod::ShapeMismatch>([&] { lod::rms_norm_grad_into(executor, fewer, x, y, dscale); },
                                   "rms_norm_grad: dy: 3 rows, expected 4", y);
  check_throws<lod::ShapeMismatch>(
      [&] { lod::layer_norm_grad_into(executor, x, x, {.scale = wide_one}, y, dscale, dbias); },
      "layer_norm_grad: scale: shape {3}", y);
  check_throws<std::invalid_argument>([&] { lod::layer_norm_grad_into(executor, x, x, y, y, dbias); },
                                      "layer_norm_grad: dscale overlaps dx", y);
  LoDTensor<float> z({4, 2});
  check_throws<std::invalid_argument>([&] { lod::layer_norm_into(executor, x, {.scale = z.between(0, 1)}, z); },
                                      "layer_norm: the output overlaps scale", z);
  check_throws<std::invalid_argument>([&] { lod::rms_norm_grad_into(executor, z, x, z, dscale); },
                                      "rms_norm_grad: dx overlaps dy", z);
}

TEST_CASE("infer_layer_norm, infer_rms_norm: allow what the operations give, and refuse what they do") {
  using lod::DataType;
  for_each_random_batch<float>(0, {2}, [](Engine&, const LoDTensor<float>& batch) {
    check_inference(
        lod::layer_norm(batch), [](const auto& of) { return lod::infer_layer_norm(of); }, describe(batch));
    check_inference(
        lod::rms_norm(batch), [](const auto& of) { return lod::infer_rms_norm(of); }, describe(batch));
  });
  const auto x = described(DataType::BF16, {-1, 2, 3}, 1), six = described(DataType::BF16, {2, 3}),
             five = described(DataType::BF16, {5}), other = described(DataType::FP32, {6});
  CHECK(lod::infer_layer_norm(x, {.scale = &six, .bias = &six}) == x);
  CHECK(lod::infer_rms_norm(x, {.scale = &six}) == x);
  CHECK_THROWS_AS(lod::infer_layer_norm(x, {.scale = &five}), lod::ShapeMismatch);
  CHECK_THROWS_AS(lod::infer_layer_norm(x, {.bias = &five}), lod::ShapeMismatch);
  CHECK_THROWS_AS(lod::infer_layer_norm(x, {.bias = &other}), lod::ShapeMismatch);
  CHECK_THROWS_AS(lod::infer_rms_norm(x, {.scale = &five}), lod::ShapeMismatch);
  CHECK_THROWS_AS(lod::infer_rms_norm(x, {.epsilon = -1}), lod::OutOfRange);
  CHECK_THROWS_AS(lod::infer_layer_norm(x, {.epsilon = 1e300}), lod::OutOfRange);
  CHECK(lod::infer_layer_norm(described(DataType::FP64, {5}), {.epsilon = 1e300}) == described(DataType::FP64, {5}));
  CHECK_THROWS_AS(lod::infer_layer_norm(described(DataType::INT32, {5})), lod::ShapeMismatch);
}
