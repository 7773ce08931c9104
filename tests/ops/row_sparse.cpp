// SPDX-License-Identifier: Apache-2.0
#include "support/row_sparse.hpp"

#include "support/check_throws.hpp"
#include "support/executors.hpp"
#include "support/gradient.hpp"
#include "support/inferred.hpp"
#include "support/random_batch.hpp"
#include "support/repeatable.hpp"
#include <lod/lod.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <string>
#include <vector>

using lod::LoD;
using lod::LoDTensor;
using lod::ScatterOp;
using lod::SelectedRows;
using namespace lod_test;
using Numbers = std::vector<std::int64_t>;
using Reals = std::vector<double>;

namespace {

constexpr ScatterOp all_scatter_ops[] = {ScatterOp::ASSIGN, ScatterOp::ADD, ScatterOp::SUB,  ScatterOp::SUBBY,
                                         ScatterOp::MUL,    ScatterOp::DIV, ScatterOp::DIVBY};

Numbers random_rows(Engine& engine, std::int64_t count, std::int64_t height) {
  Numbers rows;
  for (std::int64_t i = 0; i < count; ++i) rows.push_back(random_number(engine, 0, height - 1));
  return rows;
}

/// Row after row, as a plain loop has it.
double scattered(ScatterOp op, double dense, double listed) {
  switch (op) {
    case ScatterOp::ASSIGN:
      return listed;
    case ScatterOp::ADD:
      return dense + listed;
    case ScatterOp::SUB:
      return dense - listed;
    case ScatterOp::SUBBY:
      return listed - dense;
    case ScatterOp::MUL:
      return dense * listed;
    case ScatterOp::DIV:
      return dense / listed;
    default:
      return listed / dense;
  }
}

/// Powers of two: products and quotients are exact, and few sums are not.
template <class T>
void fill_powers(Engine& engine, LoDTensor<T>& x) {
  for (T& number : x.values())
    number = static_cast<T>(std::ldexp(1.0F, static_cast<int>(random_number(engine, -1, 1))));
}

}  // namespace

TEST_CASE("add: the rows of both, one behind the other; they count as their sum") {
  const SelectedRows<float> a({0, 4, 7}, 10, {2}), b({0, 5, 7, 9}, 10, {2});
  auto ones = a, twos = b;
  for (float& value : ones.value().values()) value = 1;
  for (float& value : twos.value().values()) value = 2;
  const auto sum = lod::add(ones, twos);
  CHECK(sum.rows() == Numbers{0, 4, 7, 0, 5, 7, 9});
  CHECK(sum.height() == 10);
  const auto dense = lod::to_dense(sum);
  CHECK(dense.row(0)[1] == 3);
  CHECK(dense.row(4)[0] == 1);
  CHECK(dense.row(9)[1] == 2);
  LoDTensor<float> threes({10, 2});
  for (float& value : threes.values()) value = 3;
  const auto total = lod::add(sum, threes);
  CHECK(total.row(0)[0] == 6);  // 3 + 1 + 2
  CHECK(total.row(1)[0] == 3);
  CHECK(total.row(4)[1] == 4);
  lod::scatter(sum, ScatterOp::ADD, threes);
  CHECK(same_bits(threes, total));
  CHECK(lod::add(SelectedRows<float>({}, 10, {2}), SelectedRows<float>({}, 10, {2})).rows().empty());
  CHECK(lod::add(ones, SelectedRows<float>({}, 10, {2})).rows() == a.rows());
}

TEST_CASE("add: a row-sparse and a dense tensor, whose levels stay; in place too") {
  const auto x = LoDTensor<float>::from_values(LoD::from_lengths({{1, 0, 2}}), {}, std::vector<float>{1, 2, 3});
  const auto g = rows_of_one({2, 0, 2}, 3, {10, 20, 30});
  auto y = lod::add(g, x);
  CHECK(y.lod() == x.lod());
  CHECK(numbers_of(y) == Reals{21, 2, 43});
  lod::add_into(lod::CpuExecutor(1), g, y, y);
  CHECK(numbers_of(y) == Reals{41, 2, 83});
  // The add of two dense tensors is another one.
  CHECK(numbers_of(lod::add(x, x)) == Reals{2, 4, 6});
}

TEST_CASE("add: the gradients are dy and its rows") {
  Engine engine(1);
  auto x = real_numbers<double>(engine, {5, 3});
  const Numbers rows = {3, 0, 3};
  auto value = real_numbers<double>(engine, {3, 3});
  const auto f = [&](const auto&) { return lod::add(SelectedRows<double>(rows, 5, LoDTensor<double>(value)), x); };
  check_gradient(engine, x, f, [](const auto& dy) { return dy; });
  check_gradient(engine, value, f, [&](const auto& dy) { return lod::from_dense(dy, rows).value(); });
}

TEST_CASE("scale: the values; rows as they are; in place too") {
  auto g = rows_of_one({2, 0, 2}, 3, {1, -2, 3});
  const auto halved = lod::scale(g, 0.5);
  CHECK(halved.rows() == g.rows());
  CHECK(numbers_of(halved.value()) == Reals{0.5, -1, 1.5});
  lod::scale_into(lod::CpuExecutor(1), g, -2, g);
  CHECK(numbers_of(g.value()) == Reals{-2, 4, -6});
  const auto whole = rows_of_one<std::int8_t>({0, 1, 2}, 3, {100, -100, 1});
  CHECK(numbers_of(lod::scale(whole, 2).value()) == Reals{-56, 56, 2});
  CHECK(lod::scale(SelectedRows<lod::float16>({}, 3, {2}), 3).rows().empty());
  // One rounding: 2049 * 3 does not fit 16 bits, the factor 0.1 is not a number of 16 bits.
  const auto tenth = lod::scale(rows_of_one<lod::float16>({0}, 1, {2048}), 0.1);
  CHECK(tenth.value().data()[0] == lod::float16(2048.F * 0.1F));
}

TEST_CASE("scatter: each way, with a row listed twice") {
  const auto g = rows_of_one<double>({2, 0, 2}, 4, {8, 3, 2});
  const auto apply = [&](ScatterOp op) {
    auto y = LoDTensor<double>::from_values({}, {}, Reals{6, 5, 16, 7});
    lod::scatter(g, op, y);
    return numbers_of(y);
  };
  CHECK(apply(ScatterOp::ASSIGN) == Reals{3, 5, 2, 7});
  CHECK(apply(ScatterOp::ADD) == Reals{9, 5, 26, 7});
  CHECK(apply(ScatterOp::SUB) == Reals{3, 5, 6, 7});
  CHECK(apply(ScatterOp::SUBBY) == Reals{-3, 5, 2 - (8 - 16), 7});
  CHECK(apply(ScatterOp::MUL) == Reals{18, 5, 256, 7});
  CHECK(apply(ScatterOp::DIV) == Reals{2, 5, 1, 7});
  CHECK(apply(ScatterOp::DIVBY) == Reals{0.5, 5, 4, 7});
}

TEST_CASE_TEMPLATE("scatter: agrees with a plain loop, into slices too, by any number of threads", T, float, double,
                   lod::float16, lod::bfloat16, std::int8_t, std::uint8_t, std::int16_t, std::int32_t, std::int64_t) {
  for (std::uint64_t seed = 1; seed <= (slow ? 1 : 3); ++seed) {
    CAPTURE(seed);
    Engine engine(seed);
    for (const std::int64_t row_size : {1, 3, 8, 17}) {
      // Few repetitions, since products of many powers leave the range of exact numbers.
      for (const std::int64_t count : {0, 3, 300}) {
        const std::int64_t height = 4 + 13 * count;
        SelectedRows<T> g(random_rows(engine, count, height), height, {row_size});
        auto whole = LoDTensor<T>({height + 2, row_size});
        if constexpr (std::unsigned_integral<T>) {
          for (T& number : g.value().values()) number = 1;
          for (T& number : whole.values()) number = 1;
        } else if constexpr (std::integral<T>) {
          for (T& number : g.value().values()) number = static_cast<T>(random_number(engine, 0, 1) * 2 - 1);
          for (T& number : whole.values()) number = static_cast<T>(random_number(engine, 0, 1) * 2 - 1);
        } else {
          fill_powers(engine, g.value());
          fill_powers(engine, whole);
        }
        for (const ScatterOp op : all_scatter_ops) {
          CAPTURE(static_cast<int>(op));
          auto expected = numbers_of(whole);
          for (std::size_t i = 0; i < g.rows().size(); ++i) {
            for (std::int64_t c = 0; c < row_size; ++c) {
              double& number = expected[static_cast<std::size_t>((g.rows()[i] + 1) * row_size + c)];
              number = scattered(op, number,
                                 static_cast<double>(g.value().data()[static_cast<std::int64_t>(i) * row_size + c]));
            }
          }
          if constexpr (std::unsigned_integral<T>) {  // which wraps around
            for (double& number : expected) number -= 256 * std::floor(number / 256);
          }
          for_each_executor([&](const auto& executor) {
            auto y = whole;
            lod::scatter(executor, g, op, y.between(1, height + 1));
            CHECK(numbers_of(y) == expected);
          });
        }
      }
    }
  }
}

TEST_CASE("scatter: ADD and SUB take the sum, which stays accurate over any number of rows") {
  // 0.5 + 0.5 + ... in 16 bits would stop at 1024.
  const Numbers rows(3000, 1);
  SelectedRows<lod::float16> g(rows, 2, {});
  for (auto& value : g.value().values()) value = lod::float16(0.5F);
  LoDTensor<lod::float16> y({2});
  lod::scatter(g, ScatterOp::ADD, y);
  CHECK(static_cast<float>(y.data()[1]) == 1500);
  lod::scatter(g, ScatterOp::SUB, y);
  CHECK(static_cast<float>(y.data()[1]) == 0);
}

TEST_CASE("scatter_grad: agrees with differences, each way, rows listed repeatedly") {
  Engine engine(8);
  const Numbers rows = {3, 0, 3, 5, 0, 3};
  for (const std::int64_t row_size : {1, 3, 8, 17}) {
    auto x = real_numbers<double>(engine, {7, row_size}), value = real_numbers<double>(engine, {6, row_size});
    for (auto* numbers : {&x, &value}) {
      for (double& number : numbers->values()) number = number < 0 ? number - 1 : number + 1;  // away from 0
    }
    for (const ScatterOp op : all_scatter_ops) {
      CAPTURE(static_cast<int>(op));
      const auto g = [&] { return SelectedRows<double>(rows, 7, LoDTensor<double>(value)); };
      const auto f = [&](const auto&) {
        auto y = x;
        lod::scatter(g(), op, y);
        return y;
      };
      check_gradient(engine, x, f, [&](const auto& dy) { return lod::scatter_grad(dy, g(), op, x).dense; });
      check_gradient(engine, value, f, [&](const auto& dy) {
        const auto d = lod::scatter_grad(dy, g(), op, x);
        CHECK(d.g.rows() == rows);
        return d.g.value();
      });
    }
  }
  const SelectedRows<float> none({}, 3, {2});
  const auto levels = real_numbers<float>(engine, LoD::from_lengths({{2, 0, 1}}), {2});
  CHECK(same_bits(lod::scatter_grad(levels, none, ScatterOp::MUL, levels).dense, levels));
  CHECK_THROWS_WITH_AS(lod::scatter_grad(LoDTensor<float>({4, 2}), none, ScatterOp::ADD, levels),
                       "scatter_grad: dy: height 4, expected 3", lod::ShapeMismatch);
  CHECK_THROWS_WITH_AS(lod::scatter_grad(levels, none, ScatterOp::ADD, LoDTensor<float>({3, 1})),
                       "scatter_grad: the dense tensor: rows of shape {1}, expected {2}", lod::ShapeMismatch);
}

TEST_CASE("scatter: what does not fit, or would divide integers by 0, throws and changes nothing") {
  auto y = LoDTensor<std::int32_t>::from_values({}, {}, std::vector<std::int32_t>{1, 2, 3});
  const auto zero = rows_of_one<std::int32_t>({2, 0}, 3, {5, 0});
  check_throws<lod::OutOfRange>([&] { lod::scatter(zero, ScatterOp::DIV, y); },
                                "scatter: division by 0 in row 0, column 0", y);
  // 1 / 3 is 0, by which the second row would be divided.
  check_throws<lod::OutOfRange>(
      [&] {
        lod::scatter(rows_of_one<std::int32_t>({2, 2}, 3, {1, 1}), ScatterOp::DIVBY, y);
      },
      "scatter: division by 0 in row 2", y);
  check_throws<lod::OutOfRange>([&] { lod::scatter(zero, static_cast<ScatterOp>(7), y); },
                                "scatter: ScatterOp 7, expected ASSIGN to DIVBY", y);
  check_throws<lod::ShapeMismatch>([&] { lod::scatter(rows_of_one<std::int32_t>({2}, 4, {1}), ScatterOp::ADD, y); },
                                   "scatter: the dense tensor: height 3, expected 4", y);
  check_throws<lod::ShapeMismatch>([&] { lod::scatter(SelectedRows<std::int32_t>({2}, 3, {2}), ScatterOp::ADD, y); },
                                   "scatter: the dense tensor: rows of shape {}, expected {2}", y);
  CHECK_THROWS_AS(rows_of_one({3}, 3, {1}), lod::OutOfRange);  // a row outside the height there is never
  const SelectedRows<float> a({1}, 10, {3});
  CHECK_THROWS_WITH_AS(lod::add(a, SelectedRows<float>({1}, 11, {3})), "add: height 11, expected 10",
                       lod::ShapeMismatch);
  CHECK_THROWS_WITH_AS(lod::add(a, SelectedRows<float>({1}, 10, {2})), "add: rows of shape {2}, expected {3}",
                       lod::ShapeMismatch);
  CHECK_THROWS_WITH_AS(lod::add(a, LoDTensor<float>({9, 3})), "add: height 9, expected 10", lod::ShapeMismatch);

  const LoDTensor<float> dy({10, 3});
  LoDTensor<float> ddense({1});
  float few[1] = {};
  SelectedRows<float> dg;
  dg.value() = LoDTensor<float>::wrap(few, lod::LoD(), {});
  check_throws<lod::ShapeMismatch>(
      [&] { lod::scatter_grad_into(lod::CpuExecutor(1), dy, a, ScatterOp::MUL, dy, ddense, dg); },
      "the wrapped memory holds 1 values", ddense);
}

TEST_CASE("row-sparse operations: more or fewer rows of values than ids are refused, and nothing changes") {
  for (const std::int64_t rows : {2, 4}) {
    CAPTURE(rows);
    const SelectedRows<float> whole({1, 0, 2}, 3, {2});
    SelectedRows<float> torn = whole;
    torn.value() = LoDTensor<float>({rows, 2});
    SelectedRows<float> out({0, 1}, 2, {1});
    LoDTensor<float> y({3, 2}), states({3, 2});
    std::vector<SelectedRows<float>> parts;
    for_each_executor([&](const auto& executor) {
      const auto refuses = [&](const char* what, const auto& call) {
        CAPTURE(what);
        const std::string text = std::string(what) + ": 3 ids, but " + std::to_string(rows) + " rows of values";
        CHECK_THROWS_WITH_AS(call(), text.c_str(), lod::ShapeMismatch);
        CHECK(out.rows() == Numbers{0, 1});
        CHECK(out.value().rows() == 2);
        CHECK(same_bits(y, LoDTensor<float>({3, 2})));
        CHECK(same_bits(states, LoDTensor<float>({3, 2})));
        CHECK(parts.empty());
      };
      refuses("merge_add", [&] { lod::merge_add_into(executor, torn, out); });
      refuses("merge_add", [&] { return lod::merge_add(executor, whole, torn); });
      refuses("merge_average", [&] { lod::merge_average_into(executor, torn, out); });
      refuses("merge_add_grad", [&] { lod::merge_add_grad_into(executor, torn, {1, 0, 2}, out); });
      refuses("merge_average_grad", [&] { lod::merge_average_grad_into(executor, torn, {1, 0, 2}, out); });
      refuses("to_dense", [&] { lod::to_dense_into(executor, torn, y); });
      refuses("add", [&] { lod::add_into(executor, torn, whole, out); });
      refuses("add", [&] { lod::add_into(executor, whole, torn, out); });
      refuses("add", [&] { lod::add_into(executor, torn, states, y); });
      refuses("scale", [&] { lod::scale_into(executor, torn, 2, out); });
      refuses("scatter", [&] { lod::scatter(executor, torn, ScatterOp::ADD, y); });
      refuses("scatter_grad", [&] { lod::scatter_grad_into(executor, y, torn, ScatterOp::MUL, states, y, out); });
      refuses("clip", [&] { lod::clip_into(executor, torn, -1, 1, out); });
      refuses("clip_grad", [&] { lod::clip_grad_into(executor, torn, whole, -1, 1, out); });
      refuses("clip_grad", [&] { lod::clip_grad_into(executor, whole, torn, -1, 1, out); });
      refuses("clip_by_norm", [&] { lod::clip_by_norm_into(executor, torn, 1, out); });
      refuses("clip_by_norm_grad", [&] { lod::clip_by_norm_grad_into(executor, torn, whole, 1, out); });
      refuses("split_selected_rows", [&] { lod::split_selected_rows_into(executor, torn, {1, 2}, parts); });
      refuses("split_selected_rows_grad", [&] {
        lod::split_selected_rows_grad_into(executor, std::vector{whole, torn}, out);
      });
      refuses("sgd: gradient", [&] { lod::sgd(executor, y, torn); });
      refuses("adagrad: gradient", [&] { lod::adagrad(executor, y, states, torn); });
    });
  }
}

TEST_CASE("add, scale, scatter: the same bits for any number of threads; a second call allocates nothing") {
  Engine engine(5);
  const auto g = rows_mostly_one<float>(engine, 40000, 3000, 5);
  const auto x = real_numbers<float>(engine, {3000, 5});
  struct Results {
    SelectedRows<float> sum, scaled, dg;
    LoDTensor<float> dense, ddense;
    explicit Results(std::pmr::memory_resource* resource)
        : sum(resource), scaled(resource), dg(resource), dense(resource), ddense(resource) {}
  };
  check_repeatable<Results>(
      [&](const auto& executor, Results& r) {
        lod::add_into(executor, g, g, r.sum);
        lod::add_into(executor, g, x, r.dense);
        lod::scale_into(executor, g, 0.3, r.scaled);
        lod::scatter(executor, g, ScatterOp::SUBBY, r.dense);
        lod::scatter_grad_into(executor, r.dense, g, ScatterOp::MUL, x, r.ddense, r.dg);
      },
      [](const Results& a, const Results& b) {
        CHECK(same_bits(a.sum.value(), b.sum.value()));
        CHECK(same_bits(a.scaled.value(), b.scaled.value()));
        CHECK(same_bits(a.dense, b.dense));
        CHECK(same_bits(a.ddense, b.ddense));
        CHECK(same_bits(a.dg.value(), b.dg.value()));
      });
}

TEST_CASE("infer_add, infer_scale: allow what the operations give") {
  const SelectedRows<float> g({4, 0, 4}, 10, {8});
  const LoDTensor<float> x(LoD::from_lengths({{7, 0, 3}}), {8});
  for (const auto& desc : {describe(g), blank(describe(g))}) {
    CHECK_NOTHROW(lod::check(lod::add(g, g), lod::infer_add(desc, describe(g))));
    check_inference(
        lod::add(g, x), [&](const auto& dense) { return lod::infer_add(desc, dense); }, describe(x));
    CHECK_NOTHROW(lod::check(lod::scale(g, 2), lod::infer_scale(desc)));
  }
  CHECK(lod::infer_scale(describe(g)) == describe(g));
  CHECK_THROWS_WITH_AS(lod::infer_add(describe(g), lod::TensorDesc{lod::DataType::FP32, {9, 8}}),
                       doctest::Contains("add: height 9, expected 10"), lod::ShapeMismatch);
  CHECK_THROWS_AS(lod::infer_add(describe(g), described(lod::DataType::FP32, {10, 7})), lod::ShapeMismatch);
}
