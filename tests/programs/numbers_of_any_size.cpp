// SPDX-License-Identifier: Apache-2.0
// Operators on numbers at the ends of their range: what is finite in the end does not fail on the way.
#include "programs/one_operator.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

using lod::AnyLoDTensor;
using lod::DataType;
using lod::OutOfRange;
using lod::Shape;
using lod_test::apply;
using lod_test::attr;
using lod_test::Attrs;
using lod_test::Floats;
using lod_test::Ids;
using lod_test::numbers;
using lod_test::plain;

namespace {

using Doubles = std::vector<double>;

/// Numbers times `scale`, in this shape.
template <class T>
AnyLoDTensor scaled(const Shape& shape, T scale) {
  std::vector<T> values(static_cast<std::size_t>(shape.elements()));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<T>(static_cast<int>(i * 7 % 5) - 1) * scale;
  return plain<T>(shape, values);
}
/// Checks that the result of an operator, made from x, is multiplied by `to` where x is by `scale`.
template <class T, class Call>
void check_scaled(const char* name, const Shape& shape, T scale, T to, const Call& call) {
  CAPTURE(std::string(name));
  CAPTURE(scale);
  const std::vector<T> plain_result = numbers<T>(call(scaled<T>(shape, 1))),
                       result = numbers<T>(call(scaled<T>(shape, scale)));
  REQUIRE(result.size() == plain_result.size());
  T greatest{};
  for (const T number : plain_result) greatest = std::max(greatest, std::fabs(number * to));
  for (std::size_t i = 0; i < result.size(); ++i) {
    CHECK(std::isfinite(result[i]));
    CHECK(std::fabs(result[i] - plain_result[i] * to) <= 16 * std::numeric_limits<T>::epsilon() * greatest);
  }
}

}  // namespace

TEST_CASE_TEMPLATE("norms, cosines and means of large and of tiny numbers are those of ordinary ones", T, float,
                   double) {
  constexpr bool wide = std::is_same_v<T, double>;
  const auto none = plain<T>({3}, {0, 0, 0}), ones = plain<T>({3}, {1, 1, 1});
  // The greatest number of scaled() is 3.
  for (const T scale : {T(wide ? 0x1.4p1022 : 0x1.4p126), T(wide ? 0x1p-1000 : 0x1p-110)}) {
    check_scaled<T>("norm", {3, 4}, scale, 1, [](const AnyLoDTensor& x) {
      return apply("norm", {{"X", {x}}}, {"Out", "-Norm"}, {attr("axis", 1), attr("epsilon", 0.0f)})[0];
    });
    const auto y = plain<T>({3, 4}, {1, -2, 3, 1, 1, 2, 3, 4, -1, 1, 5, 1});
    check_scaled<T>("cos_sim", {3, 4}, scale, 1, [&](const AnyLoDTensor& x) {
      return apply("cos_sim", {{"X", {x}}, {"Y", {y}}}, {"Out", "-XNorm", "-YNorm"})[0];
    });
    check_scaled<T>("layer_norm", {3, 4}, scale, 1, [](const AnyLoDTensor& x) {
      return apply("layer_norm", {{"X", {x}}}, {"Y", "-Mean", "-Variance"}, {attr("epsilon", 0.0f)})[0];
    });
    const Shape images{2, 3, 2, 3};
    check_scaled<T>("group_norm", images, scale, 1, [](const AnyLoDTensor& x) {
      return apply("group_norm", {{"X", {x}}}, {"Y", "-Mean", "-Variance"},
                   {attr("groups", 3), attr("epsilon", 0.0f)})[0];
    });
    check_scaled<T>("instance_norm", images, scale, 1, [](const AnyLoDTensor& x) {
      return apply("instance_norm", {{"X", {x}}}, {"Y", "-SavedMean", "-SavedVariance"}, {attr("epsilon", 0.0f)})[0];
    });
    for (const char* const layout : {"NCHW", "NHWC"}) {
      CAPTURE(std::string(layout));
      check_scaled<T>("batch_norm", Shape{2, 3, 3, 3}, scale, 1, [&](const AnyLoDTensor& x) {
        return apply("batch_norm",
                     {{"X", {x}}, {"Scale", {ones}}, {"Bias", {none}}, {"Mean", {none}}, {"Variance", {ones}}},
                     {"Y", "-MeanOut", "-VarianceOut", "-SavedMean", "-SavedVariance"},
                     {attr("epsilon", 0.0f), attr("data_layout", std::string(layout))})[0];
      });
    }
    check_scaled<T>("lrn", images, scale, 1, [](const AnyLoDTensor& x) {
      return apply("lrn", {{"X", {x}}}, {"Out", "-MidOut"},
                   {attr("k", 0.0f), attr("alpha", 1.0f), attr("beta", 0.5f), attr("n", 3)})[0];
    });
    check_scaled<T>("pool2d", images, scale, scale, [](const AnyLoDTensor& x) {
      return apply("pool2d", {{"X", {x}}}, {"Out"},
                   {attr("pooling_type", std::string("avg")), attr("ksize", std::vector<int>{2, 3})})[0];
    });
    check_scaled<T>("mean", {5, 20}, scale, scale, [](const AnyLoDTensor& x) {
      return apply("mean", {{"X", {x}}}, {"Out"})[0];
    });
    for (const int axis : {0, 1}) {
      check_scaled<T>("reduce_mean", {40, 40}, scale, scale, [&](const AnyLoDTensor& x) {
        return apply("reduce_mean", {{"X", {x}}}, {"Out"}, {attr("dim", std::vector<int>{axis})})[0];
      });
    }
  }
}

TEST_CASE_TEMPLATE("layer_norm_grad, group_norm_grad, instance_norm_grad: variances that were beyond the type", T,
                   float, double) {
  constexpr bool wide = std::is_same_v<T, double>;
  for (const T scale : {T(wide ? 0x1p1000 : 0x1p120), T(wide ? 0x1p-1000 : 0x1p-110)}) {
    const auto gradients = [](const std::string& type, const Shape& shape, const std::string& mean,
                              const std::string& variance, std::int64_t factors) {
      return [=](const AnyLoDTensor& x) {
        const auto factor = plain<T>({factors}, std::vector<T>(static_cast<std::size_t>(factors), 2));
        std::vector<T> slopes(static_cast<std::size_t>(shape.elements()));
        for (std::size_t i = 0; i < slopes.size(); ++i) slopes[i] = static_cast<T>(static_cast<int>(i * i % 7) - 2);
        const auto dy = plain<T>(shape, slopes);
        Attrs attrs = {attr("epsilon", 0.0f)};
        if (type == "group_norm") attrs.push_back(attr("groups", 3));
        const auto kept = apply(type, {{"X", {x}}, {"Scale", {factor}}}, {"-Y", mean, variance}, attrs);
        return apply(type + "_grad",
                     {{"X", {x}}, {"Scale", {factor}}, {mean, {kept[0]}}, {variance, {kept[1]}}, {"Y@GRAD", {dy}}},
                     {"X@GRAD", "Scale@GRAD"}, attrs);
      };
    };
    const auto check = [&](const char* type, const Shape& shape, const char* mean, const char* variance,
                           std::int64_t factors) {
      const auto both = gradients(type, shape, mean, variance, factors);
      check_scaled<T>(type, shape, scale, 1 / scale, [&](const AnyLoDTensor& x) { return both(x)[0]; });
      check_scaled<T>(type, shape, scale, 1, [&](const AnyLoDTensor& x) { return both(x)[1]; });
    };
    check("layer_norm", {3, 4}, "Mean", "Variance", 4);
    check("group_norm", {2, 3, 2, 3}, "Mean", "Variance", 3);
    check("instance_norm", {2, 3, 2, 3}, "SavedMean", "SavedVariance", 3);
  }
}

TEST_CASE("reduce_mean: of integers the exact sum, divided") {
  constexpr auto most = std::numeric_limits<std::int64_t>::max(), least = std::numeric_limits<std::int64_t>::min();
  const auto x = plain<std::int64_t>({3, 3}, {most, most, most - 3, least, least, least + 3, most, least, 7});
  const auto mean = [&](int axis) {
    return numbers<std::int64_t>(apply("reduce_mean", {{"X", {x}}}, {"Out"}, {attr("dim", std::vector<int>{axis})})[0]);
  };
  CHECK(mean(1) == Ids{most - 1, least + 1, 2});
  CHECK(mean(0) == Ids{3074457345618258602, -3074457345618258603, 2});
  CHECK(numbers<std::int64_t>(apply("reduce_mean", {{"X", {plain<std::int64_t>({0, 2}, {})}}}, {"Out"})[0]) ==
        Ids{0, 0});
}

TEST_CASE("reduce_sum, reduce_prod: sums beyond the range on the way only; -0 alone stays, nothing adds up to 0") {
  constexpr double most = std::numeric_limits<double>::max();
  const auto reduced = [](const char* type, const AnyLoDTensor& x, int axis) {
    return numbers<double>(apply(type, {{"X", {x}}}, {"Out"}, {attr("dim", std::vector<int>{axis})})[0]);
  };
  CHECK(reduced("reduce_sum", plain<double>({1, 3}, {most, most, -most}), 1) == Doubles{most});
  CHECK(reduced("reduce_sum", plain<double>({3, 1}, {most, most, -most}), 0) == Doubles{most});
  CHECK(std::isinf(reduced("reduce_sum", plain<double>({1, 3}, {most, most, 1}), 1)[0]));
  CHECK(reduced("reduce_prod", plain<double>({1, 3}, {0x1p1000, 0x1p1000, 0x1p-1020}), 1) == Doubles{0x1p980});
  for (const int axis : {0, 1}) {
    CHECK(std::signbit(reduced("reduce_sum", plain<double>({1, 1}, {-0.0}), axis)[0]));
    CHECK(std::signbit(reduced("reduce_mean", plain<double>({1, 1}, {-0.0}), axis)[0]));
  }
  CHECK(!std::signbit(reduced("reduce_sum", plain<double>({0, 1}, {}), 0)[0]));
  CHECK(!std::signbit(reduced("reduce_sum", plain<double>({1, 2}, {-0.0, 0.0}), 1)[0]));
}

TEST_CASE("fill_constant, fill_any_like: numbers that the elements cannot hold") {
  const auto filled = [](const char* number, DataType type) {
    return apply(
        "fill_constant", {}, {"Out"},
        {attr("shape", Ids{1}), attr("dtype", static_cast<int>(type)), attr("str_value", std::string(number))})[0];
  };
  CHECK(numbers<std::int32_t>(filled("-2147483648", DataType::INT32)) == std::vector{-2147483647 - 1});
  CHECK(numbers<std::int32_t>(filled("-3.75", DataType::INT32)) == std::vector{-3});
  CHECK(std::isinf(numbers<float>(filled("inf", DataType::FP32))[0]));
  for (const char* const number : {"5000000000", "-2147483649", "nan", "inf", "1e300"}) {
    CAPTURE(std::string(number));
    CHECK_THROWS_WITH_AS(filled(number, DataType::INT32),
                         doctest::Contains(" is beyond int32 [-2147483648, 2147483647]"), OutOfRange);
  }
  CHECK_THROWS_AS(filled("1e300", DataType::INT64), OutOfRange);
  CHECK_THROWS_AS(filled("1e300", DataType::FP32), OutOfRange);
  const auto x = plain<std::int32_t>({1}, {2});
  CHECK_THROWS_AS(apply("fill_any_like", {{"X", {x}}}, {"Out"}, {attr("value", 3e9f)}), OutOfRange);
}
