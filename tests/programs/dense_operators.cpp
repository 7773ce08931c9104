// SPDX-License-Identifier: Apache-2.0
// Operators on dense tensors, with PaddlePaddle's slots, attributes and defaults. paddle_test.py compares each with
// PaddlePaddle itself.
#include "programs/one_operator.hpp"
#include "programs/other_libraries.hpp"
#include "support/count_allocations.hpp"
#include "support/decimal_comma.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <climits>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

using lod::AnyLoDTensor;
using lod::DataType;
using lod::InvalidProgram;
using lod::OutOfRange;
using lod::Shape;
using lod::ShapeMismatch;
using lod_test::apply;
using lod_test::attr;
using lod_test::Attrs;
using lod_test::Floats;
using lod_test::Ids;
using lod_test::numbers;
using lod_test::plain;
using lod_test::ragged;

namespace {

lod::LoDTensor<float> two_by_three() { return plain<float>({2, 3}, {1, 2, 3, 4, 5, 6}); }
std::vector<bool> truths(const AnyLoDTensor& x) {
  const auto values = x.view<bool>().values();
  return {values.begin(), values.end()};
}
Floats of_both(const std::string& type, const AnyLoDTensor& x, const AnyLoDTensor& y, Attrs attrs = {}) {
  return numbers<float>(apply(type, {{"X", {x}}, {"Y", {y}}}, {"Out"}, std::move(attrs))[0]);
}
Floats rounded(Floats values) {
  std::transform(values.begin(), values.end(), values.begin(), [](float v) { return std::round(v * 1000) / 1000; });
  return values;
}

}  // namespace

TEST_CASE("mul: dimensions before x_num_col_dims are rows, those before y_num_col_dims too") {
  lod_test::by_each_library(
      [] {
        const auto x = plain<float>({2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
        const auto y = plain<float>({2, 1}, {10, 1});
        const auto by_rows = apply("mul", {{"X", {x}}, {"Y", {y}}}, {"Out"}, {attr("x_num_col_dims", 2)})[0];
        CHECK(by_rows.shape() == Shape{2, 2, 1});
        CHECK(numbers<float>(by_rows) == Floats{12, 34, 56, 78});
        const auto flat = apply("mul", {{"X", {x}}, {"Y", {plain<float>({2, 2, 1}, {1, 1, 1, 1})}}}, {"Out"},
                                {attr("y_num_col_dims", 2)})[0];
        CHECK(numbers<float>(flat) == Floats{10, 26});
        CHECK_THROWS_AS(apply("mul", {{"X", {x}}, {"Y", {y}}}, {"Out"}, {attr("x_num_col_dims", 0)}), InvalidProgram);
        CHECK_THROWS_AS(apply("mul", {{"X", {x}}, {"Y", {y}}}, {"Out"}), ShapeMismatch);
      },
      lod_test::replace_by_blas);
}

TEST_CASE("fc: a product, a bias, and perhaps no negative numbers") {
  lod_test::by_each_library(
      [] {
        const auto x = ragged<float>({1, 0, 1}, {2}, {1, 2, -3, -4});
        const auto w = plain<float>({2, 1}, {10, 1}), b = plain<float>({1, 1}, {5});
        const auto y = apply("fc", {{"Input", {x}}, {"W", {w}}, {"Bias", {b}}}, {"Out"})[0];
        CHECK(numbers<float>(y) == Floats{17, -29});
        CHECK(y.lod() == x.lod());
        CHECK(numbers<float>(apply("fc", {{"Input", {x}}, {"W", {w}}}, {"Out"},
                                   {attr("activation_type", std::string("relu"))})[0]) == Floats{12, 0});
        CHECK_THROWS_AS(
            apply("fc", {{"Input", {x}}, {"W", {w}}}, {"Out"}, {attr("activation_type", std::string("tanh"))}),
            InvalidProgram);
      },
      lod_test::replace_by_blas);
}

TEST_CASE("matmul, matmul_v2: matrices of a batch, transposed or not") {
  lod_test::by_each_library(
      [] {
        const auto a = two_by_three(), b = plain<float>({3, 1}, {1, 10, 100});
        CHECK(of_both("matmul", a, b, {attr("alpha", 2.0f)}) == Floats{642, 1308});
        CHECK(of_both("matmul_v2", a, b) == Floats{321, 654});
        CHECK(of_both("matmul", b, a, {attr("transpose_X", true), attr("transpose_Y", true)}) == Floats{321, 654});
        CHECK(of_both("matmul_v2", b, a, {attr("trans_x", true), attr("trans_y", true)}) == Floats{321, 654});
        // The same matrix for each of a batch, and vectors.
        const auto batch = plain<float>({2, 1, 3}, {1, 2, 3, 4, 5, 6});
        const auto y = apply("matmul_v2", {{"X", {batch}}, {"Y", {b}}}, {"Out"})[0];
        CHECK(y.shape() == Shape{2, 1, 1});
        CHECK(numbers<float>(y) == Floats{321, 654});
        const auto vector = plain<float>({3}, {1, 10, 100});
        CHECK(apply("matmul_v2", {{"X", {a}}, {"Y", {vector}}}, {"Out"})[0].shape() == Shape{2});
        CHECK(of_both("matmul", vector, vector) == Floats{10101});
        CHECK_THROWS_AS(of_both("matmul", a, a), ShapeMismatch);
      },
      lod_test::replace_by_blas);
}

TEST_CASE("elementwise_*: Y stands at axis of X, by default at its end") {
  const auto x = ragged<float>({1, 1}, {3}, {1, 2, 3, 4, 5, 6});
  const auto row = plain<float>({3}, {10, 20, 30}), column = plain<float>({2}, {10, 20});
  const auto sum = apply("elementwise_add", {{"X", {x}}, {"Y", {row}}}, {"Out"})[0];
  CHECK(numbers<float>(sum) == Floats{11, 22, 33, 14, 25, 36});
  CHECK(sum.lod() == x.lod());
  CHECK(of_both("elementwise_add", x, column, {attr("axis", 0)}) == Floats{11, 12, 13, 24, 25, 26});
  CHECK(of_both("elementwise_add", x, plain<float>({2, 1}, {10, 20})) == Floats{11, 12, 13, 24, 25, 26});
  CHECK(of_both("elementwise_add", plain<float>({2, 1}, {10, 20}), row) == Floats{20, 30, 40, 30, 40, 50});
  CHECK(of_both("elementwise_sub", x, x) == Floats{0, 0, 0, 0, 0, 0});
  CHECK(of_both("elementwise_mul", x, row) == Floats{10, 40, 90, 40, 100, 180});
  CHECK(of_both("elementwise_div", row, x) == Floats{10, 10, 10, 2.5f, 4, 5});
  CHECK(of_both("elementwise_max", x, plain<float>({1}, {3})) == Floats{3, 3, 3, 4, 5, 6});
  CHECK(of_both("elementwise_min", x, plain<float>({1}, {3})) == Floats{1, 2, 3, 3, 3, 3});
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  for (const char* const type : {"elementwise_max", "elementwise_min"}) {
    const auto found = of_both(type, plain<float>({3}, {1, nan, nan}), plain<float>({3}, {nan, 1, nan}));
    CHECK(std::all_of(found.begin(), found.end(), [](float v) { return std::isnan(v); }));
  }
  CHECK(of_both("elementwise_pow", x, plain<float>({1}, {2})) == Floats{1, 4, 9, 16, 25, 36});
  CHECK_THROWS_AS(of_both("elementwise_add", x, column), ShapeMismatch);
  CHECK_THROWS_AS(of_both("elementwise_add", x, row, {attr("axis", 4)}), OutOfRange);
  // A column is none, even where it has as many numbers as a row.
  CHECK(of_both("elementwise_add", plain<float>({2, 2}, {1, 2, 3, 4}), plain<float>({2, 1}, {10, 20})) ==
        Floats{11, 12, 23, 24});
}

TEST_CASE("elementwise_*: integers") {
  const auto of = [](const char* type, const std::vector<std::int64_t>& a, const std::vector<std::int64_t>& b) {
    const auto x = plain<std::int64_t>({static_cast<std::int64_t>(a.size())}, a);
    const auto y = plain<std::int64_t>({static_cast<std::int64_t>(b.size())}, b);
    return numbers<std::int64_t>(apply(type, {{"X", {x}}, {"Y", {y}}}, {"Out"})[0]);
  };
  // The remainder has the sign of the divisor, and the quotient is rounded down.
  CHECK(of("elementwise_mod", {7, -7, 7, -7}, {3, 3, -3, -3}) == Ids{1, 2, -2, -1});
  CHECK(of("elementwise_floordiv", {7, -7, 7, -7}, {3, 3, -3, -3}) == Ids{2, -3, -3, 2});
  constexpr std::int64_t least = std::numeric_limits<std::int64_t>::min();
  CHECK(of("elementwise_floordiv", {least}, {-1}) == Ids{least});
  CHECK(of("elementwise_mod", {least}, {-1}) == Ids{0});
  CHECK(of("elementwise_add", {least}, {-1}) == Ids{std::numeric_limits<std::int64_t>::max()});
  for (const char* const type : {"elementwise_div", "elementwise_mod", "elementwise_floordiv"}) {
    CHECK_THROWS_AS(of(type, {1}, {0}), OutOfRange);
  }
}

TEST_CASE("comparisons and logic give bool") {
  const auto a = plain<float>({3}, {1, 2, 3}), b = plain<float>({3}, {3, 2, 1});
  const auto of = [&](const char* type) { return truths(apply(type, {{"X", {a}}, {"Y", {b}}}, {"Out"})[0]); };
  using Truths = std::vector<bool>;
  CHECK(of("less_than") == Truths{true, false, false});
  CHECK(of("less_equal") == Truths{true, true, false});
  CHECK(of("greater_than") == Truths{false, false, true});
  CHECK(of("greater_equal") == Truths{false, true, true});
  CHECK(of("equal") == Truths{false, true, false});
  CHECK(of("not_equal") == Truths{true, false, true});
  lod::LoDTensor<bool> p(Shape{4}), q(Shape{4});
  for (const std::size_t i : {0u, 1u}) p.values()[i] = true;
  for (const std::size_t i : {0u, 2u}) q.values()[i] = true;
  const auto logic = [&](const char* type) { return truths(apply(type, {{"X", {p}}, {"Y", {q}}}, {"Out"})[0]); };
  CHECK(logic("logical_and") == Truths{true, false, false, false});
  CHECK(logic("logical_or") == Truths{true, true, true, false});
  CHECK(logic("logical_xor") == Truths{false, true, true, false});
  CHECK(truths(apply("logical_not", {{"X", {p}}}, {"Out"})[0]) == Truths{false, false, true, true});
  CHECK_THROWS_AS(apply("logical_and", {{"X", {a}}, {"Y", {b}}}, {"Out"}), ShapeMismatch);
}

TEST_CASE("activations: at -2, 0, 0.5 and 3") {
  const auto x = ragged<float>({1, 0, 3}, {}, {-2, 0, 0.5f, 3});
  const auto of = [&](const char* type, Attrs attrs = {}) {
    const auto y = apply(type, {{"X", {x}}}, {"Out"}, std::move(attrs))[0];
    CHECK(y.lod() == x.lod());
    return rounded(numbers<float>(y));
  };
  CHECK(of("relu") == Floats{0, 0, 0.5f, 3});
  CHECK(of("sigmoid") == Floats{0.119f, 0.5f, 0.622f, 0.953f});
  CHECK(of("logsigmoid") == Floats{-2.127f, -0.693f, -0.474f, -0.049f});
  CHECK(of("tanh") == Floats{-0.964f, 0, 0.462f, 0.995f});
  CHECK(of("exp") == Floats{0.135f, 1, 1.649f, 20.086f});
  CHECK(of("square") == Floats{4, 0, 0.25f, 9});
  CHECK(of("abs") == Floats{2, 0, 0.5f, 3});
  CHECK(of("floor") == Floats{-2, 0, 0, 3});
  CHECK(of("ceil") == Floats{-2, 0, 1, 3});
  CHECK(of("round") == Floats{-2, 0, 1, 3});
  CHECK(of("sign") == Floats{-1, 0, 1, 1});
  CHECK(of("sin") == Floats{-0.909f, 0, 0.479f, 0.141f});
  CHECK(of("cos") == Floats{-0.416f, 1, 0.878f, -0.99f});
  CHECK(of("erf") == Floats{-0.995f, 0, 0.52f, 1});
  CHECK(of("atan") == Floats{-1.107f, 0, 0.464f, 1.249f});
  CHECK(of("sinh") == Floats{-3.627f, 0, 0.521f, 10.018f});
  CHECK(of("cosh") == Floats{3.762f, 1, 1.128f, 10.068f});
  CHECK(of("tan") == Floats{2.185f, 0, 0.546f, -0.143f});
  CHECK(of("expm1") == Floats{-0.865f, 0, 0.649f, 19.086f});
  CHECK(of("mish") == Floats{-0.253f, 0, 0.375f, 2.987f});
  CHECK(of("mish", {attr("threshold", 1.0f)}) == Floats{-0.269f, 0, 0.375f, 2.985f});
  CHECK(of("selu") == Floats{-1.52f, 0, 0.525f, 3.152f});
  CHECK(of("soft_relu", {attr("threshold", 1.0f)}) == Floats{0.313f, 0.693f, 0.974f, 1.313f});
  CHECK(of("softsign") == Floats{-0.667f, 0, 0.333f, 0.75f});
  CHECK(of("tanh_shrink") == Floats{-1.036f, 0, 0.038f, 2.005f});
  CHECK(of("relu6", {attr("threshold", 2.0f)}) == Floats{0, 0, 0.5f, 2});
  CHECK(of("leaky_relu") == Floats{-0.04f, 0, 0.5f, 3});
  CHECK(of("leaky_relu", {attr("alpha", 0.5f)}) == Floats{-1, 0, 0.5f, 3});
  CHECK(of("elu") == Floats{-0.865f, 0, 0.5f, 3});
  CHECK(of("gelu") == Floats{-0.046f, 0, 0.346f, 2.996f});
  CHECK(of("gelu", {attr("approximate", true)}) == Floats{-0.045f, 0, 0.346f, 2.996f});
  CHECK(of("swish") == Floats{-0.238f, 0, 0.311f, 2.858f});
  CHECK(of("silu") == Floats{-0.238f, 0, 0.311f, 2.858f});
  CHECK(of("softplus") == Floats{0.127f, 0.693f, 0.974f, 3.049f});
  CHECK(of("hard_sigmoid") == Floats{0.1f, 0.5f, 0.6f, 1});
  CHECK(of("hard_swish") == Floats{-0.333f, 0, 0.292f, 3});
  CHECK(of("hard_shrink") == Floats{-2, 0, 0, 3});
  CHECK(of("softshrink") == Floats{-1.5f, 0, 0, 2.5f});
  CHECK(of("thresholded_relu") == Floats{0, 0, 0, 3});
  CHECK(of("brelu", {attr("t_min", -1.0f), attr("t_max", 2.0f)}) == Floats{-1, 0, 0.5f, 2});
  CHECK(of("stanh") == Floats{-1.496f, 0, 0.554f, 1.655f});
  CHECK(of("pow", {attr("factor", 2.0f)}) == Floats{4, 0, 0.25f, 9});
  CHECK(of("clip", {attr("min", -1.0f), attr("max", 1.0f)}) == Floats{-1, 0, 0.5f, 1});
  CHECK_THROWS_AS(of("clip", {attr("min", 1.0f), attr("max", -1.0f)}), InvalidProgram);
  CHECK_THROWS_AS(of("clip"), InvalidProgram);
  const auto positive = plain<double>({2}, {0.25, 4});
  const auto in_double = [&](const char* type) {
    return numbers<double>(apply(type, {{"X", {positive}}}, {"Out"})[0]);
  };
  CHECK(in_double("sqrt") == std::vector<double>{0.5, 2});
  CHECK(in_double("rsqrt") == std::vector<double>{2, 0.5});
  CHECK(in_double("reciprocal") == std::vector<double>{4, 0.25});
  CHECK(in_double("log2") == std::vector<double>{-2, 2});
  CHECK(in_double("log10") == std::vector<double>{std::log10(0.25), std::log10(4.0)});
  CHECK(in_double("log1p") == std::vector<double>{std::log1p(0.25), std::log1p(4.0)});
  CHECK(in_double("asin")[0] == std::asin(0.25));
  CHECK(in_double("acos")[0] == std::acos(0.25));
  CHECK(in_double("log") == std::vector<double>{std::log(0.25), std::log(4.0)});
  CHECK_THROWS_AS(apply("tanh", {{"X", {plain<std::int64_t>({1}, {1})}}}, {"Out"}), ShapeMismatch);
  CHECK_THROWS_AS(apply("pow", {{"X", {x}}, {"FactorTensor", {x}}}, {"Out"}), InvalidProgram);
}

TEST_CASE("activations: of NaN all are NaN") {
  const auto x = plain<float>({1}, {std::numeric_limits<float>::quiet_NaN()});
  for (const char* const type :
       {"relu",     "sigmoid",      "logsigmoid", "tanh",        "exp",        "square",
        "abs",      "floor",        "ceil",       "round",       "sign",       "sin",
        "cos",      "erf",          "atan",       "sinh",        "cosh",       "tan",
        "expm1",    "mish",         "selu",       "soft_relu",   "softsign",   "tanh_shrink",
        "relu6",    "leaky_relu",   "elu",        "gelu",        "swish",      "silu",
        "softplus", "hard_sigmoid", "hard_swish", "hard_shrink", "softshrink", "thresholded_relu",
        "brelu",    "stanh",        "sqrt",       "rsqrt",       "reciprocal", "log",
        "log2",     "log10",        "log1p",      "asin",        "acos"}) {
    INFO(type);
    CHECK(std::isnan(numbers<float>(apply(type, {{"X", {x}}}, {"Out"})[0])[0]));
  }
}

TEST_CASE("tanh, exp and erf of float are within 2 units in the last place") {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  Floats values = {0,       -0.0f,   1e-30f, -1e-5f, 0.62499f, 0.625f, 0.87499f, 0.875f, 9,      -50,      -87.5,
                   -103.9f, -104.5f, 88.72f, 88.73f, 100,      1e30f,  -1e30f,   -200,   1e-40f, infinity, -infinity};
  for (int i = -2000; i <= 2000; ++i) values.push_back(static_cast<float>(i) / 211);
  const auto x = plain<float>({static_cast<std::int64_t>(values.size())}, values);
  const auto check = [&](const char* type, double (*exactly)(double)) {
    CAPTURE(type);
    const auto found = numbers<float>(apply(type, {{"X", {x}}}, {"Out"})[0]);
    for (std::size_t i = 0; i < values.size(); ++i) {
      CAPTURE(values[i]);
      const double exact = exactly(static_cast<double>(values[i]));
      const auto near = static_cast<float>(exact);
      const double unit = static_cast<double>(std::nextafter(std::abs(near), infinity) - std::abs(near));
      CHECK((found[i] == near || std::abs(static_cast<double>(found[i]) - exact) <= 2 * unit));
    }
    const auto none = plain<float>({1}, {std::numeric_limits<float>::quiet_NaN()});
    CHECK(std::isnan(numbers<float>(apply(type, {{"X", {none}}}, {"Out"})[0])[0]));
    return found;
  };
  CHECK(std::signbit(check("tanh", std::tanh)[1]));
  CHECK(std::signbit(check("erf", std::erf)[1]));
  CHECK(check("exp", std::exp)[0] == 1);
}

TEST_CASE("activations: threads change no bit, and a second run allocates nothing") {
  using lod_test::op;
  const lod::ProgramDesc program = lod_test::program_of(
      {op("tanh", {{"X", {"x"}}}, {{"Out", {"y"}}}),
       op("tanh_grad", {{"Out", {"y"}}, {"Out@GRAD", {"x"}}}, {{"X@GRAD", {"dx"}}}),
       op("cast", {{"X", {"dx"}}}, {{"Out", {"z"}}}, {attr("in_dtype", 5), attr("out_dtype", 6)})});
  lod::LoDTensor<float> x({3, 33333});
  for (std::int64_t i = 0; i < 3 * 33333; ++i) x.data()[i] = static_cast<float>(i % 1000 - 500) / 200;
  const lod::Feed feed = {{"x", AnyLoDTensor(x)}};
  lod::Scope scope;
  lod::PreparedProgram one(lod::CpuExecutor(1), program, scope, {"y", "z"});
  lod::PreparedProgram three(lod::CpuExecutor(3), program, scope, {"y", "z"});
  one.run(feed);
  three.run(feed);
  const std::int64_t allocations = lod_test::allocations;
  const auto &a = one.run(feed), &b = three.run(feed);
  if (lod_test::counts_allocations) CHECK(lod_test::allocations == allocations);
  for (std::size_t i = 0; i < 2; ++i) CHECK(std::ranges::equal(a[i].bytes(), b[i].bytes()));
}

TEST_CASE("scale, increment, cast") {
  const auto x = plain<std::int64_t>({2}, {1, -2});
  CHECK(numbers<std::int64_t>(apply("scale", {{"X", {x}}}, {"Out"}, {attr("scale", 3.0f), attr("bias", 1.0f)})[0]) ==
        Ids{4, -5});
  CHECK(numbers<std::int64_t>(apply("scale", {{"X", {x}}}, {"Out"},
                                    {attr("scale", 3.0f), attr("bias", 1.0f), attr("bias_after_scale", false)})[0]) ==
        Ids{6, -3});
  CHECK(numbers<std::int64_t>(apply("increment", {{"X", {x}}}, {"Out"})[0]) == Ids{2, -1});
  const auto as = [](const AnyLoDTensor& from, DataType type) {
    return apply("cast", {{"X", {from}}}, {"Out"}, {attr("out_dtype", static_cast<int>(type))})[0];
  };
  CHECK(numbers<float>(as(x, DataType::FP32)) == Floats{1, -2});
  CHECK(numbers<std::int64_t>(as(plain<float>({2}, {1.9f, -1.9f}), DataType::INT64)) == Ids{1, -1});
  CHECK(truths(as(plain<float>({2}, {0, -1.9f}), DataType::BOOL)) == std::vector<bool>{false, true});
  CHECK(numbers<double>(as(as(plain<float>({2}, {0, 5}), DataType::BOOL), DataType::FP64)) ==
        std::vector<double>{0, 1});
  CHECK_THROWS_AS(as(x, DataType::COMPLEX64), InvalidProgram);
  // What an integer can't hold is clamped; sums and products of integers wrap around.
  constexpr float none = std::numeric_limits<float>::quiet_NaN();
  constexpr std::int64_t greatest = std::numeric_limits<std::int64_t>::max(), least = -greatest - 1;
  CHECK(numbers<std::int64_t>(as(plain<float>({3}, {1e30f, -1e30f, none}), DataType::INT64)) ==
        Ids{greatest, least, 0});
  CHECK(numbers<std::int64_t>(apply("scale", {{"X", {x}}}, {"Out"}, {attr("scale", 3e38f), attr("bias", none)})[0]) ==
        Ids{greatest, 2});
  CHECK(numbers<std::int64_t>(apply("increment", {{"X", {plain<std::int64_t>({1}, {greatest})}}}, {"Out"})[0]) ==
        Ids{least});
}

TEST_CASE("sum, mean, reduce_*") {
  const auto x = two_by_three();
  CHECK(numbers<float>(apply("sum", {{"X", {x, x, x}}}, {"Out"})[0]) == Floats{3, 6, 9, 12, 15, 18});
  CHECK_THROWS_AS(apply("sum", {{"X", {x, plain<float>({1}, {1})}}}, {"Out"}), ShapeMismatch);
  const auto mean = apply("mean", {{"X", {x}}}, {"Out"})[0];
  CHECK(numbers<float>(mean) == Floats{3.5f});
  CHECK(mean.shape() == Shape{1});
  const auto reduced = [&](const char* type, Attrs attrs) {
    return apply(type, {{"X", {x}}}, {"Out"}, std::move(attrs))[0];
  };
  const auto axes = [](std::vector<int> dims) { return attr("dim", dims); };
  CHECK(numbers<float>(reduced("reduce_sum", {})) == Floats{5, 7, 9});
  CHECK(numbers<float>(reduced("reduce_sum", {axes({-1})})) == Floats{6, 15});
  CHECK(reduced("reduce_sum", {axes({1}), attr("keep_dim", true)}).shape() == Shape{2, 1});
  CHECK(numbers<float>(reduced("reduce_sum", {axes({0, 1})})) == Floats{21});
  CHECK(numbers<float>(reduced("reduce_sum", {attr("reduce_all", true)})) == Floats{21});
  CHECK(numbers<float>(reduced("reduce_mean", {axes({1})})) == Floats{2, 5});
  CHECK(numbers<float>(reduced("reduce_max", {axes({0})})) == Floats{4, 5, 6});
  CHECK(numbers<float>(reduced("reduce_min", {axes({1})})) == Floats{1, 4});
  CHECK(numbers<float>(reduced("reduce_prod", {axes({1})})) == Floats{6, 120});
  CHECK_THROWS_AS(reduced("reduce_sum", {axes({2})}), OutOfRange);
  lod::LoDTensor<bool> p(Shape{2, 2});
  p.values()[0] = p.values()[1] = p.values()[2] = true;
  CHECK(truths(apply("reduce_all", {{"X", {p}}}, {"Out"}, {axes({1})})[0]) == std::vector<bool>{true, false});
  CHECK(truths(apply("reduce_any", {{"X", {p}}}, {"Out"}, {axes({1})})[0]) == std::vector<bool>{true, true});
  // Levels stay where rows do; of nothing the sum is 0.
  const auto rows = ragged<float>({1, 0, 1}, {2}, {1, 2, 3, 4});
  CHECK(apply("reduce_sum", {{"X", {rows}}}, {"Out"}, {axes({1}), attr("keep_dim", true)})[0].lod() == rows.lod());
  CHECK(apply("reduce_sum", {{"X", {rows}}}, {"Out"}, {axes({0})})[0].levels() == 0);
  CHECK(numbers<float>(apply("reduce_sum", {{"X", {plain<float>({0, 2}, {})}}}, {"Out"})[0]) == Floats{0, 0});
  // Of no integers the mean is 0; products of integers wrap around.
  CHECK(numbers<std::int64_t>(apply("reduce_mean", {{"X", {plain<std::int64_t>({0, 2}, {})}}}, {"Out"})[0]) ==
        Ids{0, 0});
  CHECK(std::isnan(numbers<float>(apply("mean", {{"X", {plain<float>({0, 2}, {})}}}, {"Out"})[0])[0]));
  const auto large = plain<std::int64_t>({2}, {std::int64_t{1} << 62, 6});
  CHECK(numbers<std::int64_t>(apply("reduce_prod", {{"X", {large}}}, {"Out"})[0]) ==
        Ids{std::numeric_limits<std::int64_t>::min()});
  // 2^24 + 1 is no float: sums are not computed in float.
  CHECK(numbers<float>(apply("reduce_sum", {{"X", {plain<float>({3}, {16777216, 1, 1})}}}, {"Out"})[0]) ==
        Floats{16777218});
}

TEST_CASE("softmax and what is made of it") {
  const auto x = plain<float>({2, 2}, {0, std::log(3.0f), 1000, 1000});
  CHECK(rounded(numbers<float>(apply("softmax", {{"X", {x}}}, {"Out"})[0])) == Floats{0.25f, 0.75f, 0.5f, 0.5f});
  CHECK(rounded(numbers<float>(apply("log_softmax", {{"X", {x}}}, {"Out"})[0])) ==
        Floats{-1.386f, -0.288f, -0.693f, -0.693f});
  const auto labels = plain<std::int64_t>({2, 1}, {1, 0});
  const auto loss = apply("softmax_with_cross_entropy", {{"Logits", {x}}, {"Label", {labels}}}, {"Softmax", "Loss"});
  CHECK(rounded(numbers<float>(loss[0])) == Floats{0.25f, 0.75f, 0.5f, 0.5f});
  CHECK(rounded(numbers<float>(loss[1])) == Floats{0.288f, 0.693f});
  CHECK(loss[1].shape() == Shape{2, 1});
  const auto p = plain<float>({2, 2}, {0.25f, 0.75f, 0, 1});
  CHECK(rounded(numbers<float>(apply("cross_entropy", {{"X", {p}}, {"Label", {plain<std::int64_t>({2, 1}, {1, 1})}}},
                                     {"Y"})[0])) == Floats{0.288f, 0});
  CHECK(numbers<float>(apply("cross_entropy", {{"X", {p}}, {"Label", {labels}}}, {"Y"},
                             {attr("ignore_index", 1)})[0]) == Floats{0, 1e20f});
  CHECK(rounded(numbers<float>(
            apply("cross_entropy",
                  {{"X", {plain<float>({1, 2}, {0.25f, 0.75f})}}, {"Label", {plain<float>({1, 2}, {0.5f, 0.5f})}}},
                  {"Y"}, {attr("soft_label", true)})[0])) == Floats{0.837f});
  CHECK_THROWS_AS(apply("cross_entropy", {{"X", {p}}, {"Label", {plain<std::int64_t>({2, 1}, {1, 2})}}}, {"Y"}),
                  OutOfRange);
  CHECK_THROWS_AS(apply("cross_entropy", {{"X", {p}}, {"Label", {plain<std::int64_t>({1, 1}, {1})}}}, {"Y"}),
                  ShapeMismatch);
}

TEST_CASE("top_k, arg_max, arg_min, accuracy: of equal numbers the first") {
  const auto x = plain<float>({2, 3}, {1, 5, 5, 3, 2, 1});
  const auto top = apply("top_k", {{"X", {x}}}, {"Out", "Indices"}, {attr("k", 2)});
  CHECK(numbers<float>(top[0]) == Floats{5, 5, 3, 2});
  CHECK(numbers<std::int64_t>(top[1]) == Ids{1, 2, 0, 1});
  CHECK_THROWS_AS(apply("top_k", {{"X", {x}}}, {"Out", "Indices"}, {attr("k", 4)}), ShapeMismatch);
  const auto chosen = apply("arg_max", {{"X", {x}}}, {"Out"}, {attr("axis", std::int64_t{1})})[0];
  CHECK(numbers<std::int64_t>(chosen) == Ids{1, 0});
  CHECK(chosen.shape() == Shape{2});
  CHECK(numbers<std::int64_t>(apply("arg_min", {{"X", {x}}}, {"Out"}, {attr("axis", std::int64_t{0})})[0]) ==
        Ids{0, 1, 1});
  const auto right =
      apply("accuracy", {{"Out", {top[0]}}, {"Indices", {top[1]}}, {"Label", {plain<std::int64_t>({2, 1}, {2, 2})}}},
            {"Accuracy", "Correct", "Total"});
  CHECK(numbers<float>(right[0]) == Floats{0.5f});
  CHECK(numbers<std::int32_t>(right[1]) == std::vector<std::int32_t>{1});
  CHECK(numbers<std::int32_t>(right[2]) == std::vector<std::int32_t>{2});
}

TEST_CASE("top_k, arg_max, arg_min: NaN is the greatest, and the first is chosen, wherever it is") {
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  const auto x = plain<float>({4, 4}, {nan, 1, 3, nan, 1, nan, 3, 2, 2, 1, nan, nan, nan, nan, nan, nan});
  const auto top = apply("top_k", {{"X", {x}}}, {"Out", "Indices"}, {attr("k", 3)});
  CHECK(numbers<std::int64_t>(top[1]) == Ids{0, 3, 2, 1, 2, 3, 2, 3, 0, 0, 1, 2});
  const auto greatest = numbers<float>(top[0]);
  CHECK((std::isnan(greatest[1]) && greatest[2] == 3 && greatest[4] == 3 && greatest[8] == 2));
  for (const char* const type : {"arg_max", "arg_min"}) {
    CHECK(numbers<std::int64_t>(apply(type, {{"X", {x}}}, {"Out"}, {attr("axis", std::int64_t{1})})[0]) ==
          Ids{0, 1, 2, 0});
  }
}

TEST_CASE("maxout, kldiv_loss: NaN is not lost, wherever it is") {
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  const auto x = plain<float>({1, 6, 1}, {nan, 1, 1, nan, 2, 1});
  const auto greatest = numbers<float>(apply("maxout", {{"X", {x}}}, {"Out"}, {attr("groups", 2)})[0]);
  CHECK((std::isnan(greatest[0]) && std::isnan(greatest[1]) && greatest[2] == 2));
  const auto out = plain<float>({1, 3, 1}, {nan, nan, 2}), dy = plain<float>({1, 3, 1}, {5, 6, 7});
  const auto dx =
      apply("maxout_grad", {{"X", {x}}, {"Out", {out}}, {"Out@GRAD", {dy}}}, {"X@GRAD"}, {attr("groups", 2)})[0];
  CHECK(numbers<float>(dx) == Floats{5, 0, 0, 6, 7, 0});
  const auto loss = numbers<float>(
      apply("kldiv_loss", {{"X", {plain<float>({1, 3}, {0, 0, 0})}}, {"Target", {plain<float>({1, 3}, {nan, 0, -1})}}},
            {"Loss"}, {attr("reduction", std::string("none"))})[0]);
  CHECK((std::isnan(loss[0]) && loss[1] == 0 && loss[2] == 0));
}

TEST_CASE("layer_norm, batch_norm, dropout: in inference") {
  const auto x = plain<float>({1, 2}, {1, 3});
  const auto y =
      apply("layer_norm", {{"X", {x}}, {"Scale", {plain<float>({2}, {2, 2})}}, {"Bias", {plain<float>({2}, {1, 1})}}},
            {"Y", "Mean", "Variance"});
  CHECK(rounded(numbers<float>(y[0])) == Floats{-1, 3});
  CHECK(numbers<float>(y[1]) == Floats{2});
  CHECK(numbers<float>(y[2]) == Floats{1});
  const auto one = [](float value) { return plain<float>({2}, {value, 2 * value}); };
  const auto normal = apply(
      "batch_norm", {{"X", {x}}, {"Scale", {one(1)}}, {"Bias", {one(10)}}, {"Mean", {one(1)}}, {"Variance", {one(4)}}},
      {"Y"}, {attr("is_test", true)})[0];
  CHECK(rounded(numbers<float>(normal)) == Floats{10, 20.707f});
  CHECK_THROWS_AS(
      apply("batch_norm", {{"X", {x}}, {"Scale", {x}}, {"Bias", {x}}, {"Mean", {x}}, {"Variance", {x}}}, {"Y"}),
      InvalidProgram);
  CHECK(numbers<float>(apply("dropout", {{"X", {x}}}, {"Out", "-Mask"}, {attr("is_test", true)})[0]) ==
        Floats{0.5f, 1.5f});
  CHECK(numbers<float>(apply("dropout", {{"X", {x}}}, {"Out"},
                             {attr("is_test", true),
                              attr("dropout_implementation", std::string("upscale_in_train"))})[0]) == Floats{1, 3});
  CHECK_THROWS_AS(apply("dropout", {{"X", {x}}}, {"Out"}), InvalidProgram);
}

TEST_CASE("concat, split, stack: along an axis") {
  const auto x = two_by_three(), y = plain<float>({2, 1}, {7, 8});
  CHECK(numbers<float>(apply("concat", {{"X", {x, y}}}, {"Out"}, {attr("axis", 1)})[0]) ==
        Floats{1, 2, 3, 7, 4, 5, 6, 8});
  CHECK(apply("concat", {{"X", {x, x}}}, {"Out"})[0].shape() == Shape{4, 3});
  CHECK_THROWS_WITH_AS(apply("concat", {{"X", {x, y}}}, {"Out"}),
                       "block 0, operator 0 'concat' (X: 'in X0', X: 'in X1'; Out: 'out Out0'): variable 'in X1': FP32 "
                       "of shape {2, 1}, expected FP32 of shape {2, 3} in all dimensions but 0",
                       ShapeMismatch);
  const auto parts =
      apply("split", {{"X", {x}}}, {"Out", "Out"}, {attr("axis", 1), attr("sections", std::vector<int>{-1, 1})});
  CHECK(numbers<float>(parts[0]) == Floats{1, 2, 4, 5});
  CHECK(numbers<float>(parts[1]) == Floats{3, 6});
  CHECK(numbers<float>(apply("split", {{"X", {x}}}, {"Out", "Out"}, {attr("num", 2)})[1]) == Floats{4, 5, 6});
  CHECK_THROWS_AS(apply("split", {{"X", {x}}}, {"Out", "Out"}, {attr("axis", 1), attr("num", 2)}), ShapeMismatch);
  CHECK_THROWS_AS(apply("split", {{"X", {x}}}, {"Out"}, {attr("num", 2)}), InvalidProgram);
  // A part may take the place of the whole.
  lod::Scope scope;
  const auto in_place = lod::run(
      lod_test::program_of({lod_test::op("split", {{"X", {"x"}}}, {{"Out", {"x", "rest"}}}, {attr("num", 2)})}), scope,
      {.feed = {{"x", x}}, .fetch = {"x", "rest"}});
  CHECK(numbers<float>(in_place[0]) == Floats{1, 2, 3});
  CHECK(numbers<float>(in_place[1]) == Floats{4, 5, 6});
  const auto both = apply("stack", {{"X", {x, x}}}, {"Y"}, {attr("axis", 1)})[0];
  CHECK(both.shape() == Shape{2, 2, 3});
  CHECK(numbers<float>(both) == Floats{1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6});
  const auto none = plain<float>({0, 3}, {});
  CHECK(apply("concat", {{"X", {none, none}}}, {"Out"}, {attr("axis", 1)})[0].shape() == Shape{0, 6});
  CHECK(apply("split", {{"X", {none}}}, {"Out", "Out"}, {attr("axis", 1), attr("sections", std::vector<int>{1, 2})})[1]
            .shape() == Shape{0, 2});
  CHECK(apply("stack", {{"X", {none, none}}}, {"Y"}, {attr("axis", 1)})[0].shape() == Shape{0, 2, 3});
}

TEST_CASE("reshape2 and its kin: the same elements under another shape") {
  const auto x = plain<std::int64_t>({2, 1, 3}, {1, 2, 3, 4, 5, 6});
  const auto shape = [&](const char* type, Attrs attrs) {
    const auto y = apply(type, {{"X", {x}}}, {"Out", "-XShape"}, std::move(attrs))[0];
    CHECK(numbers<std::int64_t>(y) == Ids{1, 2, 3, 4, 5, 6});
    return y.shape();
  };
  const auto list = [](const char* name, std::vector<int> values) { return attr(name, values); };
  CHECK(shape("reshape2", {list("shape", {3, -1})}) == Shape{3, 2});
  CHECK(shape("reshape2", {list("shape", {0, -1})}) == Shape{2, 3});
  CHECK(shape("squeeze2", {list("axes", {})}) == Shape{2, 3});
  CHECK(shape("squeeze2", {list("axes", {0, 1})}) == Shape{2, 3});
  CHECK(shape("unsqueeze2", {list("axes", {0, -1})}) == Shape{1, 2, 1, 3, 1});
  CHECK(shape("flatten2", {attr("axis", 2)}) == Shape{2, 3});
  CHECK(shape("flatten_contiguous_range", {attr("start_axis", 0), attr("stop_axis", 2)}) == Shape{6});
  CHECK_THROWS_AS(shape("reshape2", {list("shape", {4, -1})}), ShapeMismatch);
  CHECK_THROWS_AS(shape("reshape2", {list("shape", {-1, -1, 2})}), InvalidProgram);
  CHECK_THROWS_AS(shape("reshape2", {list("shape", {-2, -3})}), InvalidProgram);
  const int largest = std::numeric_limits<int>::max();
  CHECK_THROWS_AS(shape("reshape2", {list("shape", {largest, largest, largest, -1})}), ShapeMismatch);
  const auto rows = ragged<float>({1, 1}, {4}, {1, 2, 3, 4, 5, 6, 7, 8});
  CHECK(apply("reshape2", {{"X", {rows}}}, {"Out"}, {list("shape", {-1, 2, 2})})[0].lod() == rows.lod());
  CHECK(apply("assign", {{"X", {rows}}}, {"Out"})[0].lod() == rows.lod());
}

TEST_CASE("transpose2, slice, gather, expand") {
  const auto x = two_by_three();
  CHECK(numbers<float>(apply("transpose2", {{"X", {x}}}, {"Out"}, {attr("axis", std::vector<int>{1, 0})})[0]) ==
        Floats{1, 4, 2, 5, 3, 6});
  CHECK_THROWS_AS(apply("transpose2", {{"X", {x}}}, {"Out"}, {attr("axis", std::vector<int>{1, 1})}), ShapeMismatch);
  const auto cut = [&](std::vector<int> axes, std::vector<int> starts, std::vector<int> ends,
                       std::vector<int> dropped) {
    return apply("slice", {{"Input", {x}}}, {"Out"},
                 {attr("axes", axes), attr("starts", starts), attr("ends", ends), attr("decrease_axis", dropped)})[0];
  };
  CHECK(numbers<float>(cut({1}, {-2}, {100}, {})) == Floats{2, 3, 5, 6});
  CHECK(cut({0}, {1}, {2}, {0}).shape() == Shape{3});
  CHECK(cut({0}, {2}, {1}, {}).shape() == Shape{0, 3});
  CHECK_THROWS_AS(cut({1}, {0}, {2}, {1}), ShapeMismatch);
  CHECK(numbers<float>(apply("gather", {{"X", {x}}, {"Index", {plain<std::int32_t>({3}, {1, 0, 1})}}}, {"Out"})[0]) ==
        Floats{4, 5, 6, 1, 2, 3, 4, 5, 6});
  CHECK_THROWS_AS(apply("gather", {{"X", {x}}, {"Index", {plain<std::int64_t>({1}, {2})}}}, {"Out"}), OutOfRange);
}

TEST_CASE("expand, tile, flip, pad: elements taken along each axis") {
  using Ints = std::vector<int>;
  const auto column = plain<float>({2, 1}, {1, 2}), x = two_by_three();
  const auto of = [](const char* type, const AnyLoDTensor& from, Attrs attrs) {
    return apply(type, {{"X", {from}}}, {"Out"}, std::move(attrs))[0];
  };
  CHECK(numbers<float>(of("expand", column, {attr("expand_times", Ints{1, 3})})) == Floats{1, 1, 1, 2, 2, 2});
  CHECK(numbers<float>(of("expand", x, {attr("expand_times", Ints{2, 1})})) ==
        Floats{1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6});
  CHECK_THROWS_AS(of("expand", column, {attr("expand_times", std::vector<std::int64_t>{INT64_MAX, 1})}), ShapeMismatch);
  CHECK_THROWS_AS(of("expand", column, {attr("expand_times", Ints{2})}), ShapeMismatch);
  CHECK_THROWS_AS(of("expand", column, {attr("expand_times", Ints{2, 0})}), InvalidProgram);
  const auto tiled = of("tile", plain<float>({2}, {1, 2}), {attr("repeat_times", Ints{2, 2})});
  CHECK(tiled.shape() == Shape{2, 4});
  CHECK(numbers<float>(tiled) == Floats{1, 2, 1, 2, 1, 2, 1, 2});
  CHECK(of("tile", column, {attr("repeat_times", Ints{3})}).shape() == Shape{2, 3});
  const auto wide = of("expand_v2", column, {attr("shape", Ints{2, -1, 2})});
  CHECK(wide.shape() == Shape{2, 2, 2});
  CHECK(numbers<float>(wide) == Floats{1, 1, 2, 2, 1, 1, 2, 2});
  CHECK_THROWS_AS(of("expand_v2", column, {attr("shape", Ints{4, 1})}), ShapeMismatch);
  CHECK_THROWS_AS(of("expand_v2", column, {attr("shape", Ints{-1, 2, 1})}), ShapeMismatch);
  CHECK_THROWS_AS(of("expand_v2", column, {attr("shape", Ints{2})}), ShapeMismatch);
  CHECK(numbers<float>(apply("expand_as_v2", {{"X", {column}}, {"Y", {x}}}, {"Out"})[0]) == Floats{1, 1, 1, 2, 2, 2});
  CHECK(numbers<float>(of("flip", x, {attr("axis", Ints{0, -1})})) == Floats{6, 5, 4, 3, 2, 1});
  CHECK(numbers<float>(of("reverse", x, {attr("axis", Ints{1})})) == Floats{3, 2, 1, 6, 5, 4});
  CHECK_THROWS_AS(of("flip", x, {attr("axis", Ints{2})}), OutOfRange);
  const auto sides = attr("paddings", Ints{0, 1, 2, 0});
  CHECK(numbers<float>(of("pad", column, {sides, attr("pad_value", 0.5f)})) ==
        Floats{0.5f, 0.5f, 1, 0.5f, 0.5f, 2, 0.5f, 0.5f, 0.5f});
  CHECK(numbers<std::int64_t>(of("pad", plain<std::int64_t>({1}, {7}), {attr("paddings", Ints{1, 1})})) ==
        Ids{0, 7, 0});
  CHECK_THROWS_AS(of("pad", column, {attr("paddings", Ints{1, 1})}), ShapeMismatch);
  CHECK_THROWS_AS(of("pad", column, {attr("paddings", Ints{1, 1, -1, 0})}), InvalidProgram);
  const auto sequences = ragged<float>({1, 0, 2}, {1}, {1, 2, 3});  // levels stay where all rows do
  CHECK(of("tile", sequences, {attr("repeat_times", Ints{2})}).lod() == sequences.lod());
  CHECK(of("tile", sequences, {attr("repeat_times", Ints{2, 1})}).levels() == 0);
}

TEST_CASE("strided_slice, index_select, multiplex, size") {
  using Ints = std::vector<int>;
  const auto x = two_by_three();
  const auto cut = [&](Ints axes, Ints starts, Ints ends, Ints strides) {
    return numbers<float>(
        apply("strided_slice", {{"Input", {x}}}, {"Out"},
              {attr("axes", axes), attr("starts", starts), attr("ends", ends), attr("strides", strides)})[0]);
  };
  CHECK(cut({1}, {0}, {3}, {2}) == Floats{1, 3, 4, 6});
  CHECK(cut({1}, {-1}, {-1}, {-1}) == Floats{3, 2, 1, 6, 5, 4});
  CHECK(cut({0, 1}, {1, 5}, {9, -9}, {1, -2}) == Floats{6, 4});
  CHECK(cut({1}, {2}, {1}, {1}).empty());
  CHECK(cut({1}, {1}, {3}, {INT_MAX}) == Floats{2, 5});
  CHECK(cut({1}, {1}, {-1}, {INT_MIN}) == Floats{2, 5});
  CHECK_THROWS_AS(cut({1}, {0}, {3}, {0}), InvalidProgram);
  CHECK_THROWS_AS(cut({2}, {0}, {3}, {1}), OutOfRange);
  const auto columns = plain<std::int64_t>({3}, {2, 0, 2});
  CHECK(numbers<float>(apply("index_select", {{"X", {x}}, {"Index", {columns}}}, {"Out"}, {attr("dim", -1)})[0]) ==
        Floats{3, 1, 3, 6, 4, 6});
  CHECK_THROWS_AS(apply("index_select", {{"X", {x}}, {"Index", {columns}}}, {"Out"}), OutOfRange);
  const auto y = plain<float>({2, 3}, {7, 8, 9, 10, 11, 12});
  const auto chosen = [&](int first, int second) {
    return numbers<float>(
        apply("multiplex", {{"X", {x, y}}, {"Ids", {plain<std::int32_t>({2, 1}, {first, second})}}}, {"Out"})[0]);
  };
  CHECK(chosen(1, 0) == Floats{7, 8, 9, 4, 5, 6});
  CHECK_THROWS_AS(chosen(0, 2), OutOfRange);
  CHECK(numbers<std::int64_t>(apply("size", {{"Input", {x}}}, {"Out"})[0]) == Ids{6});
}

TEST_CASE("crop, pad_constant_like, scatter_nd_add, eye, linspace") {
  const auto x = plain<float>({2, 3}, {1, 2, 3, 4, 5, 6});
  const auto crop = [&](std::vector<int> shape, std::vector<int> offsets) {
    return apply("crop", {{"X", {x}}}, {"Out"}, {attr("shape", shape), attr("offsets", offsets)})[0];
  };
  CHECK(numbers<float>(crop({1, 2}, {1, 0})) == Floats{4, 5});
  CHECK(crop({2, 0}, {0, 3}).shape() == Shape{2, 0});
  CHECK_THROWS_WITH_AS(crop({2, 2}, {1, 0}),
                       doctest::Contains("shape {2, 2} from {1, 0} on, expected a part of {2, 3}"), ShapeMismatch);
  CHECK_THROWS_AS(crop({2, 2}, {0, -1}), ShapeMismatch);
  CHECK_THROWS_AS(crop({2}, {0}), ShapeMismatch);
  CHECK_THROWS_AS(crop({2, 2}, {0}), ShapeMismatch);
  CHECK_THROWS_AS(crop({2, std::numeric_limits<int>::max()}, {0, 1}), ShapeMismatch);
  CHECK_THROWS_AS(crop({}, {}), InvalidProgram);
  const auto inner = plain<float>({1, 2}, {7, 8});
  CHECK(numbers<float>(apply("pad_constant_like", {{"X", {x}}, {"Y", {inner}}}, {"Out"},
                             {attr("pad_value", 9.0F)})[0]) == Floats{7, 8, 9, 9, 9, 9});
  CHECK_THROWS_AS(apply("pad_constant_like", {{"X", {inner}}, {"Y", {x}}}, {"Out"}), ShapeMismatch);
  const auto index = plain<std::int64_t>({2, 1}, {1, 1}), beyond = plain<std::int64_t>({2, 1}, {0, 2});
  CHECK(numbers<float>(apply("scatter_nd_add", {{"X", {x}}, {"Index", {index}}, {"Updates", {x}}}, {"Out"})[0]) ==
        Floats{1, 2, 3, 9, 12, 15});
  CHECK_THROWS_AS(apply("scatter_nd_add", {{"X", {x}}, {"Index", {beyond}}, {"Updates", {x}}}, {"Out"}),
                  lod::OutOfRange);
  CHECK_THROWS_AS(apply("scatter_nd_add", {{"X", {x}}, {"Index", {index}}, {"Updates", {inner}}}, {"Out"}),
                  ShapeMismatch);
  CHECK(numbers<float>(
            apply("eye", {}, {"Out"}, {attr("num_rows", std::int64_t{2}), attr("num_columns", std::int64_t{3})})[0]) ==
        Floats{1, 0, 0, 0, 1, 0});
  CHECK_THROWS_AS(apply("eye", {}, {"Out"}, {attr("num_rows", std::int64_t{-1})}), InvalidProgram);
  const auto line = [](std::int32_t count, auto first, decltype(first) last) {
    using T = decltype(first);
    const auto from = plain<T>({1}, {first}), to = plain<T>({1}, {last});
    return numbers<T>(apply(
        "linspace", {{"Start", {from}}, {"Stop", {to}}, {"Num", {plain<std::int32_t>({1}, {count})}}}, {"Out"})[0]);
  };
  CHECK(line(3, 1.0F, 2.0F) == Floats{1, 1.5F, 2});
  CHECK(line(1, 1.0F, 2.0F) == Floats{1});
  CHECK_THROWS_AS(line(0, 1.0F, 2.0F), lod::OutOfRange);
  // Their difference is beyond the range.
  CHECK(line(3, 3e38F, -3e38F) == Floats{3e38F, 0, -3e38F});
  CHECK(line(5, -1.5e308, 1.5e308) == std::vector<double>{-1.5e308, -0.75e308, 0, 0.75e308, 1.5e308});
  for (std::int32_t count = 2; count < 100; ++count) CHECK(line(count, 0.1F, 0.7F).back() == 0.7F);
}

TEST_CASE("cvm, shard_index, squared_l2_distance: counts of clicks, ids of a shard, distances of rows") {
  const auto x = lod_test::ragged<double>({2, 1}, {3}, {0, 0, 1, 3, 1, 2, 0, 1, 3});
  const auto counted = numbers<double>(apply("cvm", {{"X", {x}}, {"CVM", {x}}}, {"Y"})[0]);
  CHECK(counted[3] == doctest::Approx(std::log(4)));
  CHECK(counted[4] == doctest::Approx(std::log(2) - std::log(4)));
  const auto rest = apply("cvm", {{"X", {x}}, {"CVM", {x}}}, {"Y"}, {attr("use_cvm", false)})[0];
  CHECK(numbers<double>(rest) == std::vector<double>{1, 2, 3});
  CHECK(rest.lod() == x.lod());
  const auto counts = plain<double>({2, 2}, {5, 6, 7, 8});
  const auto back = [&](const AnyLoDTensor& given, const AnyLoDTensor& dy, bool use_cvm) {
    return numbers<double>(
        apply("cvm_grad", {{"X", {x}}, {"CVM", {given}}, {"Y@GRAD", {dy}}}, {"X@GRAD"}, {attr("use_cvm", use_cvm)})[0]);
  };
  CHECK(back(counts, x, true) == std::vector<double>{5, 6, 1, 5, 6, 2, 7, 8, 3});
  CHECK(back(counts, rest, false) == std::vector<double>{5, 6, 1, 5, 6, 2, 7, 8, 3});
  CHECK_THROWS_AS(back(counts, rest, true), ShapeMismatch);
  CHECK_THROWS_AS(back(plain<double>({3, 2}, {1, 2, 3, 4, 5, 6}), x, true), ShapeMismatch);
  CHECK_THROWS_AS(apply("cvm", {{"X", {plain<float>({2, 1}, {1, 2})}}, {"CVM", {x}}}, {"Y"}), ShapeMismatch);
  const auto shard = [](std::int64_t id, int shards) {
    return numbers<std::int64_t>(apply("shard_index", {{"X", {plain<std::int64_t>({1, 1}, {id})}}}, {"Out"},
                                       {attr("index_num", 7), attr("nshards", shards), attr("shard_id", 1)})[0])[0];
  };
  CHECK(shard(3, 2) == -1);
  CHECK(shard(4, 2) == 0);
  CHECK(shard(6, 2) == 2);
  CHECK_THROWS_AS(shard(7, 2), lod::OutOfRange);
  CHECK_THROWS_AS(shard(-1, 2), lod::OutOfRange);
  CHECK_THROWS_AS(shard(0, 1), InvalidProgram);
  const auto rows = plain<float>({2, 2}, {1, 2, 3, 5}), one = plain<float>({1, 2}, {1, 1});
  const auto apart = apply("squared_l2_distance", {{"X", {rows}}, {"Y", {one}}}, {"sub_result", "Out"});
  CHECK(numbers<float>(apart[0]) == Floats{0, 1, 2, 4});
  CHECK(numbers<float>(apart[1]) == Floats{1, 20});
  CHECK_THROWS_AS(apply("squared_l2_distance", {{"X", {one}}, {"Y", {rows}}}, {"sub_result", "Out"}), ShapeMismatch);
}

TEST_CASE("sampling_id, uniform_random_batch_size_like: random numbers as a batch wants them") {
  const auto ids = numbers<std::int64_t>(
      apply("sampling_id", {{"X", {plain<float>({4, 3}, {1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0})}}}, {"Out"})[0]);
  CHECK(Ids(ids.begin(), ids.begin() + 3) == Ids{0, 1, 2});
  CHECK(ids[3] == 2);  // of probabilities that are too small the last
  CHECK_THROWS_AS(apply("sampling_id", {{"X", {plain<float>({1, 0}, {})}}}, {"Out"}), ShapeMismatch);
  for (const char* const type : {"uniform_random_batch_size_like", "gaussian_random_batch_size_like"}) {
    const auto drawn = apply(type, {{"Input", {ragged<float>({1, 0, 2}, {1}, {1, 2, 3})}}}, {"Out"},
                             {attr("shape", std::vector<int>{-1, 2}), attr("seed", 3)})[0];
    CHECK(drawn.shape() == Shape{3, 2});
    CHECK(numbers<float>(drawn)[0] != numbers<float>(drawn)[5]);
  }
}

TEST_CASE("add_position_encoding counts rows in their sequences") {
  const auto of = [](const AnyLoDTensor& x) {
    return rounded(numbers<float>(apply("add_position_encoding", {{"X", {x}}}, {"Out"}, {attr("alpha", 2.0f)})[0]));
  };
  const Floats expected = {2, 3, 2.841f, 2.54f, 2, 3};  // sin 0, cos 0; sin 1e-4 would be of one number alone
  CHECK(of(ragged<float>({2, 0, 1}, {4}, Floats(12, 1))).size() == 12);
  const Floats found = of(ragged<float>({2, 0, 1}, {4}, Floats(12, 1)));
  CHECK(Floats{found[0], found[2], found[4], found[6], found[8], found[10]} == expected);
  CHECK(of(plain<float>({1, 2, 4}, Floats(8, 1))) == Floats(found.begin(), found.begin() + 8));
  CHECK_THROWS_AS(of(plain<float>({2, 4}, Floats(8, 1))), ShapeMismatch);
  CHECK_THROWS_AS(of(ragged<float>({2}, {3}, Floats(6, 1))), ShapeMismatch);
}

TEST_CASE("argsort, cumsum, maxout, prelu, range") {
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  const auto sorted = [](const Floats& line, bool descending) {
    const auto found = apply("argsort", {{"X", {plain<float>({1, static_cast<std::int64_t>(line.size())}, line)}}},
                             {"-Out", "Indices"}, {attr("descending", descending)});
    return numbers<std::int64_t>(found[0]);
  };
  CHECK(sorted({3, 1, nan, 1, 2}, false) == Ids{1, 3, 4, 0, 2});
  CHECK(sorted({3, 1, nan, 1, 2}, true) == Ids{2, 0, 4, 1, 3});
  CHECK(sorted({}, true).empty());
  const auto x = two_by_three();
  const auto sums = [&](Attrs attrs) {
    return numbers<float>(apply("cumsum", {{"X", {x}}}, {"Out"}, std::move(attrs))[0]);
  };
  CHECK(sums({}) == Floats{1, 3, 6, 4, 9, 15});
  CHECK(sums({attr("axis", 0), attr("reverse", true)}) == Floats{5, 7, 9, 4, 5, 6});
  CHECK(sums({attr("flatten", true), attr("exclusive", true)}) == Floats{0, 1, 3, 6, 10, 15});
  for (const bool is_exclusive : {false, true}) {
    const auto zeros = numbers<float>(
        apply("cumsum", {{"X", {plain<float>({2}, {-0.0F, -0.0F})}}}, {"Out"}, {attr("exclusive", is_exclusive)})[0]);
    CHECK(std::all_of(zeros.begin(), zeros.end(), [=](float v) { return std::signbit(v) != is_exclusive; }));
  }
  CHECK(numbers<std::int64_t>(apply("cumsum", {{"X", {plain<std::int64_t>({2}, {INT64_MAX, 1})}}}, {"Out"})[0]) ==
        Ids{INT64_MAX, INT64_MIN});
  CHECK(numbers<float>(apply("maxout", {{"X", {x}}}, {"Out"}, {attr("groups", 3)})[0]) == Floats{3, 6});
  CHECK_THROWS_AS(apply("maxout", {{"X", {x}}}, {"Out"}, {attr("groups", 2)}), ShapeMismatch);
  const auto leaked = [](const char* mode, const Floats& slopes) {
    return numbers<float>(apply("prelu",
                                {{"X", {plain<float>({2, 2}, {-1, 2, -3, -4})}},
                                 {"Alpha", {plain<float>({static_cast<std::int64_t>(slopes.size())}, slopes)}}},
                                {"Out"}, {attr("mode", std::string(mode))})[0]);
  };
  CHECK(leaked("all", {0.5f}) == Floats{-0.5f, 2, -1.5f, -2});
  CHECK(leaked("channel", {0.5f, 2}) == Floats{-0.5f, 2, -1.5f, -8});
  CHECK(leaked("element", {0.5f, 2}) == Floats{-0.5f, 2, -1.5f, -8});
  CHECK_THROWS_AS(leaked("channel", {0.5f}), ShapeMismatch);
  CHECK_THROWS_AS(leaked("row", {0.5f}), InvalidProgram);
  const auto range = [](float start, float end, float step) {
    const auto one = [](float number) { return std::vector<AnyLoDTensor>{plain<float>({1}, {number})}; };
    return numbers<float>(apply("range", {{"Start", one(start)}, {"End", one(end)}, {"Step", one(step)}}, {"Out"})[0]);
  };
  CHECK(range(1, 2.5f, 0.5f) == Floats{1, 1.5f, 2});
  CHECK(range(1, -1, -1) == Floats{1, 0});
  CHECK(range(1, 0, 1).empty());
  CHECK_THROWS_AS(range(1, 2, 0), OutOfRange);
  CHECK_THROWS_AS(range(1, nan, 1), OutOfRange);
}

TEST_CASE("average_accumulates: adds parameters up until a window is full, and exactly") {
  const auto after = [](float sum_1, float sum_2, std::int64_t kept, std::int64_t updates, float part = 0.5f) {
    const auto one = [](float number) { return std::vector<AnyLoDTensor>{plain<float>({1}, {number})}; };
    const auto count = [](std::int64_t n) { return std::vector<AnyLoDTensor>{plain<std::int64_t>({1}, {n})}; };
    const auto out = apply(
        "average_accumulates",
        {{"param", one(2)},
         {"in_sum_1", one(sum_1)},
         {"in_sum_2", one(sum_2)},
         {"in_sum_3", one(7)},
         {"in_num_accumulates", count(kept)},
         {"in_old_num_accumulates", count(9)},
         {"in_num_updates", count(updates)}},
        {"out_sum_1", "out_sum_2", "out_sum_3", "out_num_accumulates", "out_old_num_accumulates", "out_num_updates"},
        {attr("average_window", part), attr("min_average_window", std::int64_t{2}),
         attr("max_average_window", std::int64_t{10})});
    Floats all;
    for (std::size_t i = 0; i < 3; ++i) all.push_back(numbers<float>(out[i])[0]);
    for (std::size_t i = 3; i < 6; ++i) all.push_back(static_cast<float>(numbers<std::int64_t>(out[i])[0]));
    return all;
  };
  CHECK(after(0, 0, 0, 0) == Floats{2, 0, 7, 1, 9, 1});
  CHECK(after(3, 4, 2, 9) == Floats{5, 4, 7, 3, 9, 10});
  CHECK(after(3, 4, 4, 9) == Floats{0, 0, 9, 0, 5, 10});
  CHECK(after(3, 4, 9, 1000) == Floats{0, 0, 9, 0, 10, 1001});
  CHECK(after(3, 4, 3, 16383) == Floats{0, 9, 7, 4, 9, 16384});
  CHECK_THROWS_AS(after(0, 0, -1, 0), OutOfRange);
  CHECK_THROWS_AS(after(0, 0, 0, std::numeric_limits<std::int64_t>::max()), OutOfRange);
  CHECK_THROWS_AS(after(0, 0, 0, 0, std::numeric_limits<float>::quiet_NaN()), InvalidProgram);
}

TEST_CASE("adadelta, adamax, decayed_adagrad, lamb, lars_momentum: one step") {
  const auto one = [](float number) { return std::vector<AnyLoDTensor>{plain<float>({1}, {number})}; };
  const auto step = [&](const char* type, std::vector<std::pair<std::string, std::vector<AnyLoDTensor>>> states,
                        std::vector<std::string> outputs, Attrs attrs) {
    states.insert(states.end(), {{"Param", one(2)}, {"Grad", one(0.5f)}});
    return numbers<float>(apply(type, states, outputs, std::move(attrs))[0])[0];
  };
  const auto rate = std::pair("LearningRate", one(0.1f));
  CHECK(step("decayed_adagrad", {rate, {"Moment", one(1)}}, {"ParamOut", "-MomentOut"},
             {attr("decay", 0.5f), attr("epsilon", 0.0f)}) == doctest::Approx(2 - 0.05 / std::sqrt(0.625)));
  CHECK(step("adadelta", {{"AvgSquaredGrad", one(1)}, {"AvgSquaredUpdate", one(4)}},
             {"ParamOut", "-AvgSquaredGradOut", "-AvgSquaredUpdateOut"},
             {attr("rho", 0.5f), attr("epsilon", 0.0f)}) == doctest::Approx(2 - std::sqrt(4 / 0.625) * 0.5));
  CHECK(step("adamax", {rate, {"Moment", one(1)}, {"InfNorm", one(2)}, {"Beta1Pow", one(0.5f)}},
             {"ParamOut", "-MomentOut", "-InfNormOut"},
             {attr("beta1", 0.5f), attr("beta2", 0.5f)}) == doctest::Approx(2 - 0.2 * 0.75 / 1));
  CHECK(step("lamb", {rate, {"Moment1", one(1)}, {"Moment2", one(1)}, {"Beta1Pow", one(0.5f)}, {"Beta2Pow", one(0.5f)}},
             {"ParamOut", "-Moment1Out", "-Moment2Out"},
             {attr("weight_decay", 0.25f)}) == doctest::Approx(2 - 0.1 * 2));
  CHECK(step("lars_momentum", {rate, {"Velocity", one(1)}}, {"ParamOut", "-VelocityOut"},
             {attr("mu", 0.5f), attr("lars_coeff", 1.0f), attr("lars_weight_decay", Floats{0.25f})}) ==
        doctest::Approx(2 - (0.5 + 0.1 * 2 / (0.5 + 0.5) * 1)));
  CHECK(step("lars_momentum", {rate, {"Velocity", one(1)}}, {"ParamOut", "-VelocityOut"},
             {attr("mu", 0.5f), attr("lars_coeff", 1.0f), attr("lars_weight_decay", 0.25f)}) ==
        doctest::Approx(2 - (0.5 + 0.1 * 2 / (0.5 + 0.5) * 1)));
  CHECK_THROWS_AS(
      step("lars_momentum", {rate, {"Velocity", {two_by_three()}}}, {"ParamOut", "-VelocityOut"}, {attr("mu", 0.5f)}),
      ShapeMismatch);
}

TEST_CASE_TEMPLATE("adadelta, adamax, decayed_adagrad, lamb, lars_momentum: finite numbers stay finite", T, float,
                   double) {
  using Limits = std::numeric_limits<T>;
  const T extremes[] = {0, Limits::denorm_min(), std::sqrt(Limits::min()), std::sqrt(Limits::max()) * 2, Limits::max()};
  struct Optimizer {
    const char* type;
    std::vector<std::string> states, powers, outputs;
    Attrs attrs;
  };
  const Optimizer optimizers[] = {
      {"adadelta",
       {"AvgSquaredGrad", "AvgSquaredUpdate"},
       {},
       {"ParamOut", "AvgSquaredGradOut", "AvgSquaredUpdateOut"},
       {}},
      {"adamax", {"Moment", "InfNorm"}, {"Beta1Pow"}, {"ParamOut", "MomentOut", "InfNormOut"}, {}},
      {"decayed_adagrad", {"Moment"}, {}, {"ParamOut", "MomentOut"}, {}},
      {"lamb",
       {"Moment1", "Moment2"},
       {"Beta1Pow", "Beta2Pow"},
       {"ParamOut", "Moment1Out", "Moment2Out"},
       {attr("weight_decay", 0.25f)}},
      {"lars_momentum", {"Velocity"}, {}, {"ParamOut", "VelocityOut"}, {attr("mu", 0.5f)}}};
  const auto stay_finite = [](const Optimizer& optimizer, float epsilon, T parameter, T gradient, T state) {
    const auto two = [](T first, T second) { return std::vector<AnyLoDTensor>{plain<T>({2}, {first, second})}; };
    const auto half = std::vector<AnyLoDTensor>{plain<float>({1}, {0.5f})};
    std::vector<std::pair<std::string, std::vector<AnyLoDTensor>>> inputs{
        {"Param", two(parameter, 1)}, {"Grad", two(gradient, -gradient)}, {"LearningRate", half}};
    for (const std::string& name : optimizer.states) inputs.push_back({name, two(state, state)});
    for (const std::string& name : optimizer.powers) inputs.push_back({name, half});
    Attrs attrs = optimizer.attrs;
    attrs.push_back(attr("epsilon", epsilon));
    return std::ranges::all_of(apply(optimizer.type, inputs, optimizer.outputs, attrs), [](const AnyLoDTensor& out) {
      return std::ranges::all_of(numbers<T>(out), [](T number) { return std::isfinite(number); });
    });
  };
  for (const Optimizer& optimizer : optimizers) {
    CAPTURE(optimizer.type);
    for (const T parameter : extremes) {
      for (const T gradient : extremes) {
        for (const T state : {T{0}, Limits::denorm_min(), Limits::max()}) {
          INFO("parameter ", parameter, ", gradient ", gradient, ", states ", state);
          CHECK(stay_finite(optimizer, 0, parameter, gradient, state));
          CHECK(stay_finite(optimizer, 1e-6f, parameter, gradient, state));
        }
      }
    }
  }
}

TEST_CASE("unstack, gather_nd, scatter, where") {
  const auto x = two_by_three();
  const auto columns = apply("unstack", {{"X", {x}}}, {"Y", "Y", "Y"}, {attr("axis", -1), attr("num", 3)});
  CHECK(columns[2].shape() == Shape{2});
  CHECK(numbers<float>(columns[2]) == Floats{3, 6});
  CHECK(numbers<float>(apply("unbind", {{"X", {x}}}, {"Out", "Out"})[1]) == Floats{4, 5, 6});
  CHECK_THROWS_AS(apply("unbind", {{"X", {x}}}, {"Out"}), ShapeMismatch);

  const auto taken = [&](const Shape& shape, const Ids& index) {
    return apply("gather_nd", {{"X", {x}}, {"Index", {plain<std::int64_t>(shape, index)}}}, {"Out"})[0];
  };
  CHECK(numbers<float>(taken({2, 2}, {1, 2, 0, 0})) == Floats{6, 1});
  CHECK(taken({1, 1, 1}, {1}).shape() == Shape{1, 1, 3});
  CHECK_THROWS_AS(taken({1, 2}, {1, 3}), OutOfRange);
  CHECK_THROWS_AS(taken({1, 1}, {-1}), OutOfRange);
  CHECK_THROWS_AS(taken({1, 3}, {0, 0, 0}), ShapeMismatch);

  const auto put = [&](const Ids& rows, const Floats& updates, bool overwrite) {
    const auto count = static_cast<std::int64_t>(rows.size());
    return numbers<float>(apply(
        "scatter",
        {{"X", {x}}, {"Ids", {plain<std::int64_t>({count}, rows)}}, {"Updates", {plain<float>({count, 3}, updates)}}},
        {"Out"}, {attr("overwrite", overwrite)})[0]);
  };
  CHECK(put({1, 1}, {7, 8, 9, 1, 1, 1}, true) == Floats{1, 2, 3, 1, 1, 1});
  CHECK(put({1, 1}, {7, 8, 9, 1, 1, 1}, false) == Floats{1, 2, 3, 8, 9, 10});
  CHECK(put({}, {}, true) == Floats{1, 2, 3, 4, 5, 6});
  CHECK_THROWS_AS(put({2}, {1, 1, 1}, true), OutOfRange);
  CHECK_THROWS_AS(put({1}, {1, 1, 1, 1, 1, 1}, true), ShapeMismatch);

  const auto holds = apply("greater_than", {{"X", {x}}, {"Y", {plain<float>({1}, {4})}}}, {"Out"})[0];
  const auto zeros = apply("fill_zeros_like", {{"X", {x}}}, {"Out"})[0];
  CHECK(numbers<float>(apply("where", {{"Condition", {holds}}, {"X", {x}}, {"Y", {zeros}}}, {"Out"})[0]) ==
        Floats{0, 0, 0, 0, 5, 6});
  CHECK_THROWS_AS(apply("where", {{"Condition", {holds}}, {"X", {x}}, {"Y", {plain<float>({1}, {0})}}}, {"Out"}),
                  ShapeMismatch);
  CHECK(numbers<std::int64_t>(apply("where_index", {{"Condition", {holds}}}, {"Out"})[0]) == Ids{1, 1, 1, 2});
}

TEST_CASE("fill_constant and its kin, shape, assign_value, one_hot") {
  CHECK(numbers<float>(apply("fill_constant", {}, {"Out"},
                             {attr("shape", std::vector<std::int64_t>{2}), attr("value", 0.5f)})[0]) ==
        Floats{0.5f, 0.5f});
  CHECK(numbers<std::int64_t>(apply("fill_constant", {}, {"Out"},
                                    {attr("shape", std::vector<std::int64_t>{1}), attr("dtype", 3),
                                     attr("str_value", std::string("9007199254740993"))})[0]) == Ids{9007199254740993});
  CHECK_THROWS_AS(apply("fill_constant", {}, {"Out"}, {attr("str_value", std::string("one"))}), InvalidProgram);
  {
    const lod_test::DecimalComma locale;
    const auto half =
        apply("fill_constant", {}, {"Out"}, {attr("shape", Ids{1}), attr("str_value", std::string("0.5"))});
    CHECK(numbers<float>(half[0]) == Floats{0.5f});
  }
  const auto like = [](const AnyLoDTensor& x) {
    return apply("fill_constant_batch_size_like", {{"Input", {x}}}, {"Out"},
                 {attr("shape", std::vector<int>{-1, 2})})[0]
        .shape();
  };
  CHECK(like(two_by_three()) == Shape{2, 2});
  CHECK(like(ragged<float>({1, 0, 2}, {1}, {1, 2, 3})) == Shape{3, 2});
  const auto zeros = apply("fill_zeros_like", {{"X", {ragged<float>({1, 0, 1}, {1}, {1, 2})}}}, {"Out"})[0];
  CHECK(numbers<float>(zeros) == Floats{0, 0});
  CHECK(zeros.lod().size(0) == 3);
  CHECK(numbers<std::int32_t>(apply("shape", {{"Input", {two_by_three()}}}, {"Out"})[0]) ==
        std::vector<std::int32_t>{2, 3});
  CHECK(numbers<float>(apply("assign_value", {}, {"Out"},
                             {attr("shape", std::vector<int>{2}), attr("dtype", 5),
                              attr("fp32_values", Floats{1, 2})})[0]) == Floats{1, 2});
  const auto ids = plain<std::int64_t>({2, 1}, {2, 0});
  const auto hot = apply("one_hot", {{"X", {ids}}}, {"Out"}, {attr("depth", 3)})[0];
  CHECK(numbers<float>(hot) == Floats{0, 0, 1, 1, 0, 0});
  CHECK(hot.shape() == Shape{2, 3});
  CHECK(apply("one_hot_v2", {{"X", {ids}}}, {"Out"}, {attr("depth", 3)})[0].shape() == Shape{2, 1, 3});
  CHECK_THROWS_AS(apply("one_hot", {{"X", {ids}}}, {"Out"}, {attr("depth", 2)}), OutOfRange);
  CHECK(numbers<float>(apply("one_hot", {{"X", {ids}}}, {"Out"},
                             {attr("depth", 2), attr("allow_out_of_range", true)})[0]) == Floats{0, 0, 1, 0});
}

TEST_CASE("operators: a batch without rows goes through, and a second run allocates nothing") {
  using Inputs = std::vector<std::pair<std::string, std::string>>;
  struct Sample {
    const char* type;
    Inputs inputs;
    const char* output;
    Attrs attrs;
  };
  const std::vector<Sample> samples = {
      {"mul", {{"X", "x"}, {"Y", "w"}}, "Out", {}},
      {"matmul", {{"X", "x"}, {"Y", "w"}}, "Out", {}},
      {"elementwise_add", {{"X", "x"}, {"Y", "row"}}, "Out", {}},
      {"elementwise_max", {{"X", "x"}, {"Y", "row"}}, "Out", {}},
      {"less_than", {{"X", "x"}, {"Y", "row"}}, "Out", {}},
      {"tanh", {{"X", "x"}}, "Out", {}},
      {"softmax", {{"X", "x"}}, "Out", {}},
      {"reduce_sum", {{"X", "x"}}, "Out", {attr("dim", std::vector<int>{1})}},
      {"concat", {{"X", "x"}}, "Out", {attr("axis", 1)}},
      {"reshape2", {{"X", "x"}}, "Out", {attr("shape", std::vector<int>{-1, 2})}},
      {"transpose2", {{"X", "x"}}, "Out", {attr("axis", std::vector<int>{1, 0})}},
      {"slice",
       {{"Input", "x"}},
       "Out",
       {attr("axes", std::vector<int>{1}), attr("starts", std::vector<int>{0}), attr("ends", std::vector<int>{1})}},
      {"tile", {{"X", "x"}}, "Out", {attr("repeat_times", std::vector<int>{2})}},
      {"pad", {{"X", "x"}}, "Out", {attr("paddings", std::vector<int>{0, 0, 1, 0})}},
      {"flip", {{"X", "x"}}, "Out", {attr("axis", std::vector<int>{0})}},
      {"gather_nd", {{"X", "w"}, {"Index", "ids"}}, "Out", {}},
      {"scatter", {{"X", "w"}, {"Ids", "ids"}, {"Updates", "x"}}, "Out", {attr("overwrite", false)}},
      {"cumsum", {{"X", "x"}}, "Out", {}},
      {"prelu", {{"X", "x"}, {"Alpha", "row"}}, "Out", {attr("mode", std::string("channel"))}},
      {"label_smooth", {{"X", "x"}}, "Out", {attr("epsilon", 0.5f)}},
      {"bpr_loss", {{"X", "x"}, {"Label", "ids"}}, "Y", {}},
      {"sequence_pool", {{"X", "x"}}, "Out", {}},
      {"sequence_softmax", {{"X", "x"}}, "Out", {}},
      {"sequence_reverse", {{"X", "x"}}, "Y", {}},
      {"sequence_concat", {{"X", "x"}}, "Out", {}},
      {"sequence_expand_as", {{"X", "per sequence"}, {"Y", "x"}}, "Out", {}},
      {"row_conv", {{"X", "x"}, {"Filter", "w"}}, "Out", {}},
      {"lookup_table", {{"W", "w"}, {"Ids", "ids"}}, "Out", {}},
      {"sequence_erase", {{"X", "ids"}}, "Out", {attr("tokens", std::vector<int>{1})}},
      {"sequence_enumerate", {{"X", "ids"}}, "Out", {attr("win_size", 2)}},
      {"crf_decoding", {{"Emission", "x"}, {"Transition", "transition"}}, "ViterbiPath", {}},
  };
  for (const Sample& sample : samples) {
    CAPTURE(sample.type);
    lod_test::Arguments inputs;
    for (const auto& one : sample.inputs) inputs.emplace_back(one.first, std::vector<std::string>{one.second});
    lod::Scope scope;
    lod::PreparedProgram prepared(
        lod::CpuExecutor(1),
        lod_test::program_of({lod_test::op(sample.type, inputs, {{sample.output, {"out"}}}, sample.attrs)}), scope,
        {"out"});
    for (const bool is_empty : {false, true}) {
      const std::vector<std::int64_t> lengths =
          is_empty ? std::vector<std::int64_t>{} : std::vector<std::int64_t>{2, 0, 1};
      const std::size_t rows = is_empty ? 0 : 3;
      const lod::Feed all = {
          {"x", AnyLoDTensor(ragged<float>(lengths, {2}, Floats(2 * rows, 1)))},
          {"ids", AnyLoDTensor(ragged<std::int64_t>(lengths, {1}, Ids(rows, 0)))},
          {"per sequence", AnyLoDTensor(plain<float>({static_cast<std::int64_t>(rows), 1}, Floats(rows, 1)))},
          {"w", AnyLoDTensor(plain<float>({2, 2}, {1, 2, 3, 4}))},
          {"row", AnyLoDTensor(plain<float>({2}, {1, 2}))},
          {"transition", AnyLoDTensor(plain<float>({4, 2}, Floats(8, 0)))}};
      lod::Feed feed;
      for (const auto& one : sample.inputs) feed.emplace(one.second, all.at(one.second));
      prepared.run(feed);
      prepared.run(feed);
      const std::int64_t before = lod_test::allocations;
      prepared.run(feed);
      if (lod_test::counts_allocations) CHECK(lod_test::allocations == before);
    }
  }
}

TEST_CASE("dropout: in training a mask says what stays, and the gradient goes there") {
  const auto x = plain<float>({2000}, Floats(2000, 3));
  for (const bool upscales : {false, true}) {
    const Attrs attrs = {
        attr("dropout_prob", 0.25F), attr("seed", 5),
        attr("dropout_implementation", std::string(upscales ? "upscale_in_train" : "downgrade_in_infer"))};
    const auto results = apply("dropout", {{"X", {x}}}, {"Out", "Mask"}, attrs);
    const auto out = numbers<float>(results[0]);
    const auto mask = numbers<std::uint8_t>(results[1]);
    const auto count = std::count(mask.begin(), mask.end(), 1);
    CHECK((count > 1400 && count < 1600));
    lod::Scope scope;
    const auto gradient =
        lod_test::op("dropout_grad", {{"Mask", {"mask"}}, {"Out@GRAD", {"y@GRAD"}}}, {{"X@GRAD", {"x@GRAD"}}}, attrs);
    const lod::RunOptions given{.feed = {{"mask", results[1]}, {"y@GRAD", x}}, .fetch = {"x@GRAD"}};
    const auto back = numbers<float>(lod::run(lod_test::program_of({gradient}), scope, given)[0]);
    CHECK(out == back);
    for (std::size_t i = 0; i < out.size(); ++i) CHECK(out[i] == (mask[i] ? upscales ? 4 : 3 : 0));
    CHECK(numbers<float>(apply("dropout", {{"X", {x}}}, {"Out", "-Mask"}, attrs)[0]) == out);
  }
}

TEST_CASE(
    "uniform_random, gaussian_random, truncated_gaussian_random: seeds decide, and the distributions are theirs") {
  const auto draw = [](const char* type, Attrs attrs) {
    attrs.push_back(attr("shape", std::vector<std::int64_t>{50, 200}));
    return numbers<float>(apply(type, {}, {"Out"}, std::move(attrs))[0]);
  };
  const auto moments = [](const Floats& values) {
    double mean = 0, square = 0;
    for (const float v : values) {
      mean += static_cast<double>(v) / static_cast<double>(values.size());
      square += static_cast<double>(v) * static_cast<double>(v) / static_cast<double>(values.size());
    }
    return std::pair(mean, std::sqrt(square - mean * mean));
  };
  const auto uniform = draw("uniform_random", {attr("min", 1.0F), attr("max", 3.0F), attr("seed", 1)});
  CHECK((*std::min_element(uniform.begin(), uniform.end()) >= 1 &&
         *std::max_element(uniform.begin(), uniform.end()) < 3));
  CHECK(moments(uniform).first == doctest::Approx(2).epsilon(0.02));
  CHECK(moments(uniform).second == doctest::Approx(2 / std::sqrt(12)).epsilon(0.02));
  CHECK(draw("uniform_random", {attr("min", 1.0F), attr("max", 3.0F), attr("seed", 1)}) == uniform);
  CHECK(draw("uniform_random", {attr("min", 1.0F), attr("max", 3.0F), attr("seed", 2)}) != uniform);
  const auto normal = draw("gaussian_random", {attr("mean", 5.0F), attr("std", 2.0F)});
  CHECK(moments(normal).first == doctest::Approx(5).epsilon(0.02));
  CHECK(moments(normal).second == doctest::Approx(2).epsilon(0.02));
  const auto truncated = draw("truncated_gaussian_random", {attr("mean", 5.0F), attr("std", 2.0F)});
  CHECK((*std::min_element(truncated.begin(), truncated.end()) >= 1 &&
         *std::max_element(truncated.begin(), truncated.end()) <= 9));
  CHECK(moments(truncated).second == doctest::Approx(2 * 0.87963).epsilon(0.03));
}

TEST_CASE("auc, isfinite: what becomes of a training is measured") {
  const auto predicted = plain<float>({4, 2}, {0.9F, 0.1F, 0.6F, 0.4F, 0.65F, 0.35F, 0.2F, 0.8F});
  const auto labels = plain<std::int64_t>({4, 1}, {0, 0, 1, 1});
  const Attrs attrs = {attr("num_thresholds", 100), attr("slide_steps", 0)};
  const auto none = plain<std::int64_t>({101}, Ids(101));
  const auto measure = [&](const AnyLoDTensor& p, const AnyLoDTensor& n, const AnyLoDTensor& values) {
    return apply("auc", {{"Predict", {values}}, {"Label", {labels}}, {"StatPos", {p}}, {"StatNeg", {n}}},
                 {"AUC", "StatPosOut", "StatNegOut"}, attrs);
  };
  const auto first = measure(none, none, predicted);
  CHECK(numbers<double>(first[0])[0] == 0.75);
  CHECK(first[1].shape() == Shape{1, 101});
  CHECK(numbers<double>(measure(first[1], first[2], predicted)[0])[0] == 0.75);
  const auto kept = plain<std::int64_t>({1, 203}, Ids(203));
  const auto slid =
      apply("auc", {{"Predict", {predicted}}, {"Label", {labels}}, {"StatPos", {kept}}, {"StatNeg", {kept}}},
            {"AUC", "StatPosOut", "StatNegOut"}, {attr("num_thresholds", 100), attr("slide_steps", 1)});
  CHECK(slid[1].shape() == Shape{203});
  CHECK(numbers<std::int64_t>(slid[2])[202] == 1);
  CHECK_THROWS_AS(measure(none, none, plain<float>({4, 1}, {0, 0, 0, 2})), OutOfRange);
  CHECK_THROWS_AS(measure(plain<std::int64_t>({3}, {0, 0, 0}), none, predicted), ShapeMismatch);

  const float inf = std::numeric_limits<float>::infinity();
  CHECK(truths(apply("isfinite_v2", {{"X", {plain<float>({3}, {1, inf, NAN})}}}, {"Out"})[0]) ==
        std::vector<bool>{true, false, false});
  CHECK(truths(apply("isfinite", {{"X", {plain<float>({2}, {1, inf})}}}, {"Out"})[0]) == std::vector<bool>{false});
}
