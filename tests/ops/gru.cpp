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
#include <type_traits>
#include <vector>

using lod::LoD;
using lod::LoDTensor;
using namespace lod_test;

namespace {

template <class T>
lod::GruWeights<T> random_gru_weights(Engine& engine, std::int64_t inputs, std::int64_t size, bool bias = true) {
  return {small_reals<T>(engine, {inputs, 3 * size}), small_reals<T>(engine, {size, 3 * size}),
          bias ? small_reals<T>(engine, {3 * size}) : LoDTensor<T>(),
          bias ? small_reals<T>(engine, {size}) : LoDTensor<T>()};
}

/// The formulas of the header, for one row.
template <class T>
std::vector<double> reference_step(const lod::GruWeights<T>& w, std::span<const T> x, const std::vector<double>& before,
                                   const lod::GruOptions<T>& options) {
  const std::size_t size = before.size();
  const auto bias = [](const LoDTensor<T>& numbers, std::size_t i) {
    return numbers.rows() > 0 ? static_cast<double>(numbers.values()[i]) : 0;
  };
  const auto from_input = [&](std::size_t column) {
    double sum = bias(w.bias, column);
    for (std::size_t k = 0; k < x.size(); ++k) {
      sum += static_cast<double>(x[k]) * static_cast<double>(w.input.values()[k * 3 * size + column]);
    }
    return sum;
  };
  const auto from = [&](const std::vector<double>& state, std::size_t column) {
    double sum = 0;
    for (std::size_t k = 0; k < size; ++k) {
      sum += state[k] * static_cast<double>(w.recurrent.values()[k * 3 * size + column]);
    }
    return sum;
  };
  std::vector<double> r(size), reset(size), after(size);
  for (std::size_t j = 0; j < size; ++j) {
    r[j] = sigmoid(from_input(j) + from(before, j));
    reset[j] = r[j] * before[j];
  }
  for (std::size_t j = 0; j < size; ++j) {
    const std::size_t last = 2 * size + j;
    const double z = sigmoid(from_input(size + j) + from(before, size + j)), b = bias(w.recurrent_bias, j);
    const double n =
        std::tanh(from_input(last) + (options.reset_after ? r[j] * (from(before, last) + b) : from(reset, last) + b));
    const double kept = options.origin_mode ? z : 1 - z;
    after[j] = kept * before[j] + (1 - kept) * n;
  }
  return after;
}

/// Checks a run over a tensor or a slice against one sequence after the other.
template <class T>
void check_run(const lod::Gru<T>& y, const lod::LoDTensorView<const T>& x, const lod::GruWeights<T>& weights,
               const lod::GruOptions<T>& options) {
  const int level = options.level < 0 ? options.level + x.levels() : options.level;
  const LoD index = x.lod();
  const auto size = static_cast<std::size_t>(weights.recurrent.rows());
  const auto rows = index.absolute_offsets(level);
  REQUIRE(y.hidden.lod() == index);
  REQUIRE(y.hidden.row_shape() == lod::Shape{weights.recurrent.rows()});
  REQUIRE(y.last_hidden.lod() == index.levels_above(level));
  REQUIRE(y.last_hidden.rows() == index.size(level));
  bool same = true;
  for (std::int64_t i = 0; i < index.size(level); ++i) {
    std::vector<double> state(size);
    for (std::size_t j = 0; j < size; ++j) {
      if (options.initial_hidden.rows() > 0) state[j] = static_cast<double>(options.initial_hidden.row(i)[j]);
    }
    const std::int64_t begin = rows[static_cast<std::size_t>(i)], end = rows[static_cast<std::size_t>(i) + 1];
    for (std::int64_t t = 0; t < end - begin; ++t) {
      const std::int64_t row = options.reverse ? end - 1 - t : begin + t;
      state = reference_step<T>(weights, x.row(row), state, options);
      same = same && close_states<T>(y.hidden.row(row), state);
    }
    same = same && close_states<T>(y.last_hidden.row(i), state);
  }
  CHECK(same);
}

template <class T>
bool same_run(const lod::Gru<T>& a, const lod::Gru<T>& b) {
  return same_bits(a.hidden, b.hidden) && same_bits(a.last_hidden, b.last_hidden);
}
template <class T>
bool same_grad(const lod::GruGrad<T>& a, const lod::GruGrad<T>& b) {
  return same_bits(a.x, b.x) && same_bits(a.weights.input, b.weights.input) &&
         same_bits(a.weights.recurrent, b.weights.recurrent) && same_bits(a.weights.bias, b.weights.bias) &&
         same_bits(a.weights.recurrent_bias, b.weights.recurrent_bias) && same_bits(a.initial_hidden, b.initial_hidden);
}

}  // namespace

TEST_CASE("gru: agrees with one sequence after the other, for slices of every type, depth and level") {
  for_each_type(FloatingTypes(), []<class T>(std::type_identity<T>) {
    for_each_random_lod(4, 1, 5, [](Engine& engine, const Lengths& lengths) {
      for (const std::int64_t size : {1, 3, 8, 17}) {
        const auto x = real_numbers<T>(engine, LoD::from_lengths(lengths), {2, 2});
        const auto slice = x.between(random_number(engine, 0, x.size() > 0), x.size());
        const auto weights = random_gru_weights<T>(engine, 4, size, size != 3);
        for (int level = 0; level < x.levels(); ++level) {
          // Where all is slow, each size meets every other level.
          if (slow && (size + level) % 2 == 1) continue;
          const std::int64_t sequences = slice.lod_view().size(level);
          const auto hidden = small_reals<T>(engine, {sequences, size});
          const bool reverse = random_number(engine, 0, 1) == 1;
          INFO("level ", level, ", size ", size, ", reverse ", reverse);
          const lod::GruOptions<T> plain{.reverse = reverse, .level = level};
          check_run(lod::gru(lod::CpuExecutor(2), slice, weights, plain), slice.view(), weights, plain);
          for (const bool reset_after : {true, false}) {
            const lod::GruOptions<T> all{.initial_hidden = hidden,
                                         .reverse = reverse,
                                         .level = level,
                                         .reset_after = reset_after,
                                         .origin_mode = (size + level) % 2 == 0};
            check_run(lod::gru(lod::CpuExecutor(2), slice, weights, all), slice.view(), weights, all);
          }
          const lod::GruOptions<T> as_paddle{.level = level, .reset_after = false, .origin_mode = false};
          check_run(lod::gru(slice, weights, as_paddle), slice.view(), weights, as_paddle);
        }
      }
    });
  });
}

TEST_CASE("gru: a sequence in two parts, the second with the states that the first left") {
  Engine engine(3);
  const auto weights = random_gru_weights<double>(engine, 3, 5);
  const auto x = real_numbers<double>(engine, LoD::from_lengths({{7, 4}}), {3});
  const auto whole = lod::gru(x, weights);
  for (std::int64_t i = 0; i < 2; ++i) {
    const auto first = LoDTensor<double>::copy_of(x[i].between(0, 3)).with_lod(LoD::from_lengths({{3}}));
    const std::int64_t left = x[i].rows() - 3;
    const auto second = LoDTensor<double>::copy_of(x[i].between(3, x[i].rows())).with_lod(LoD::from_lengths({{left}}));
    const auto a = lod::gru(first, weights);
    const auto b = lod::gru(second, weights, {.initial_hidden = a.last_hidden});
    CHECK(same_bits(b.hidden.with_lod(LoD()), whole.hidden[i].between(3, x[i].rows())));
    CHECK(same_bits(b.last_hidden, whole.last_hidden.between(i, i + 1)));
  }
}

TEST_CASE("gru: the same bits for any number of threads, and for a slice as for a copy") {
  for_each_type(FloatingTypes(), []<class T>(std::type_identity<T>) {
    for (const std::int64_t size : {1, 33}) {
      INFO("size ", size);
      Engine engine(4);
      const auto weights = random_gru_weights<T>(engine, 20, size);
      const std::int64_t count = grain / 320;
      const LoD words = giant_among_short(engine, count, count / 2);
      const auto x = real_numbers<T>(
          engine, LoD::from_lengths({{1, count / 2, 0, count - count / 2 - 1}, words.lengths(0)}), {20});
      const auto slice = x.between(1, 4);
      const auto copy = LoDTensor<T>::copy_of(slice);
      const auto hidden = small_reals<T>(engine, {slice.lod_view().size(1), size});
      const lod::GruOptions<T> options{.initial_hidden = hidden, .reset_after = size == 1};
      for_each_executor([&](const auto& executor) {
        const auto one = working_alone(executor);
        const auto expected = lod::gru(one, copy, weights, options);
        const auto grad =
            lod::gru_grad(one, expected.hidden, copy, weights, expected.trace, {.dlast_hidden = expected.last_hidden});
        const auto y = lod::gru(executor, slice, weights, options);
        CHECK(same_run(y, expected));
        CHECK(same_grad(lod::gru_grad(executor, y.hidden, slice, weights, y.trace, {.dlast_hidden = y.last_hidden}),
                        grad));
      });
      // What stands in the rest of the batch does not matter either.
      const auto alone = lod::gru(x.between(2, 4), weights);
      const auto together = lod::gru(x, weights);
      CHECK(same_bits(alone.hidden, together.hidden.between(2, 4)));
    }
  });
}

TEST_CASE("gru: no sequences, empty ones only, and states of no numbers") {
  Engine engine(1);
  const auto weights = random_gru_weights<float>(engine, 3, 2);
  for (const auto& lengths : std::vector<Lengths>{{{}}, {{0}}, {{0, 0}}, {{}, {}}, {{0, 0}, {}}, {{2, 0}, {0, 0}}}) {
    const LoDTensor<float> x(LoD::from_lengths(lengths), {3});
    for (int level = 0; level < x.levels(); ++level) {
      const auto hidden = small_reals<float>(engine, {x.lod().size(level), 2});
      const auto y = lod::gru(x, weights, {.initial_hidden = hidden, .level = level, .reset_after = level == 0});
      CHECK(y.hidden.lod() == x.lod());
      CHECK(y.hidden.shape() == lod::Shape{0, 2});
      CHECK(std::ranges::equal(y.last_hidden.values(), hidden.values()));
      const auto d = lod::gru_grad(y.hidden, x, weights, y.trace, {.dlast_hidden = hidden});
      CHECK(same_bits(d.x, x));
      CHECK(std::ranges::equal(d.initial_hidden.values(), hidden.values()));
      for (const auto* dweights :
           {&d.weights.input, &d.weights.recurrent, &d.weights.bias, &d.weights.recurrent_bias}) {
        CHECK(std::ranges::all_of(dweights->values(), [](float number) { return number == 0; }));
      }
      CHECK(d.weights.input.shape() == weights.input.shape());
    }
  }
  const auto none = random_gru_weights<float>(engine, 3, 0);
  const LoDTensor<float> x(LoD::from_lengths({{2, 1}}), {3});
  for (const bool reset_after : {true, false}) {
    const auto y = lod::gru(x, none, {.reset_after = reset_after});
    CHECK(y.hidden.shape() == lod::Shape{3, 0});
    CHECK(lod::gru_grad(y.hidden, x, none, y.trace).x.shape() == x.shape());
  }
  const auto blind = random_gru_weights<float>(engine, 0, 2);
  const LoDTensor<float> narrow(LoD::from_lengths({{2, 1}}), {0});
  check_run(lod::gru(narrow, blind), narrow.view(), blind, {});
}

TEST_CASE("gru: gates saturate without overflow, and NaN stays in its sequence") {
  lod::GruWeights<float> weights{LoDTensor<float>({1, 3}), LoDTensor<float>({1, 3})};
  weights.input.values()[0] = 1;   // r
  weights.input.values()[1] = -1;  // z
  weights.input.values()[2] = 1;   // n
  auto x = LoDTensor<float>::from_nested(
      std::vector<std::vector<float>>{{1e30f}, {-1e30f}, {infinity}, {-infinity}, {std::nanf("")}, {0}});
  const auto y = lod::gru(x, weights);
  CHECK(y.hidden.data()[0] == 1);
  CHECK(y.hidden.data()[1] == 0);
  CHECK(y.hidden.data()[2] == 1);
  CHECK(y.hidden.data()[3] == 0);
  CHECK(std::isnan(y.hidden.data()[4]));
  CHECK(y.hidden.data()[5] == 0);
}

TEST_CASE("gru_grad: agrees with differences, by everything and through every result") {
  Engine engine(6);
  for (const std::int64_t size : {1, 3, 8, 17}) {
    for (const bool reverse : {false, true}) {
      if (size == 17 && reverse) continue;
      INFO("size ", size, ", reverse ", reverse);
      auto weights = random_gru_weights<double>(engine, 3, size);
      auto x = real_numbers<double>(engine, LoD::from_lengths({{2, 0, 2}, {3, 0, 1, 3}}), {3});
      auto hidden = small_reals<double>(engine, {4, size});
      const auto run = [&] {
        return lod::gru(x, weights,
                        {.initial_hidden = hidden,
                         .reverse = reverse,
                         .reset_after = size == 1 || size == 8,
                         .origin_mode = !reverse});
      };
      const LoDTensor<double> none;
      // Both results in one tensor, so that one random gradient goes through each.
      const auto loss = [&](LoDTensor<double>& at, const auto& now) {
        const LoDTensor<double> before = at;
        at = now;
        const auto y = run();
        at = before;
        LoDTensor<double> all({x.rows() + 4, size});
        const auto to = std::copy(y.hidden.values().begin(), y.hidden.values().end(), all.values().begin());
        std::copy(y.last_hidden.values().begin(), y.last_hidden.values().end(), to);
        return all;
      };
      const auto grad = [&](const LoDTensor<double>& d) {
        const std::int64_t rows = x.rows();
        return lod::gru_grad(d.between(0, rows), x, weights, run().trace, {.dlast_hidden = d.between(rows, rows + 4)});
      };
      const auto check = [&](LoDTensor<double>& at, const auto& member) {
        check_gradient(
            engine, at, [&](const auto& now) { return loss(at, now); },
            [&](const auto& d) {
              const auto gradients = grad(d);
              return LoDTensor<double>(member(gradients)).with_lod(at.lod());
            });
      };
      check(x, [](const auto& d) { return d.x; });
      check(weights.input, [](const auto& d) { return d.weights.input; });
      check(weights.recurrent, [](const auto& d) { return d.weights.recurrent; });
      check(weights.bias, [](const auto& d) { return d.weights.bias; });
      check(weights.recurrent_bias, [](const auto& d) { return d.weights.recurrent_bias; });
      check(hidden, [](const auto& d) { return d.initial_hidden; });
      CHECK(grad(LoDTensor<double>({x.rows() + 4, size})).initial_hidden.lod() == x.lod().levels_above(1));
    }
  }
}

TEST_CASE("gru_grad: without initial states, without a bias, by an outer level, by the last states only") {
  Engine engine(7);
  for (const std::int64_t size : {1, 17}) {
    auto weights = random_gru_weights<double>(engine, 2, size, false);
    auto x = real_numbers<double>(engine, LoD::from_lengths({{2, 0, 2}, {3, 0, 1, 1}}), {2});
    const lod::GruOptions<double> options{.level = 0, .reset_after = size == 17};
    const auto run = [&](const auto& at) { return lod::gru(at, weights, options); };
    const auto grad = [&](const auto& dlast) {
      return lod::gru_grad(LoDTensor<double>(), x, weights, run(x).trace, {.dlast_hidden = dlast});
    };
    check_gradient(
        engine, x, [&](const auto& at) { return run(at).last_hidden; }, [&](const auto& d) { return grad(d).x; });
    check_gradient(
        engine, weights.recurrent,
        [&](const auto& at) {
          return lod::gru(x, lod::GruWeights<double>{weights.input, at}, options).last_hidden;
        },
        [&](const auto& d) { return grad(d).weights.recurrent; });
    const auto d = grad(LoDTensor<double>({3, size}));
    CHECK(d.weights.bias.rows() == 0);
    CHECK(d.initial_hidden.shape() == lod::Shape{3, size});
  }
}

TEST_CASE("gru: bad arguments throw and change nothing") {
  Engine engine(2);
  const auto x = real_numbers<float>(engine, LoD::from_lengths({{2, 1}}), {3});
  const auto weights = random_gru_weights<float>(engine, 3, 2);
  const lod::CpuExecutor executor(1);
  LoDTensor<float> hidden({1, 1}), last_hidden;
  lod::GruTrace<float> trace;
  const auto run = [&](const auto& input, const auto& by, const lod::GruOptions<float>& options) {
    return [&, options] { lod::gru_into(executor, input, by, options, hidden, last_hidden, trace); };
  };
  const LoDTensor<float> plain({3, 3}), three({3, 2}), wide({2, 3});
  check_throws<lod::InvalidLoD>(run(plain, weights, {}), "gru: the tensor has no level", hidden);
  check_throws<lod::OutOfRange>(run(x, weights, {.level = 1}), "level 1 of a LoD with 1 levels", hidden);
  const auto with = [&](const auto& change) {
    auto changed = weights;
    change(changed);
    return changed;
  };
  const auto input = with([](auto& w) { w.input = LoDTensor<float>({2, 6}); });
  const auto recurrent = with([](auto& w) { w.recurrent = LoDTensor<float>({2, 9}); });
  const auto bias = with([](auto& w) { w.bias = LoDTensor<float>({7}); });
  const auto memory = with([](auto& w) { w.recurrent_bias = LoDTensor<float>({6}); });
  check_throws<lod::ShapeMismatch>(run(x, memory, {}), "gru: weights.recurrent_bias of 6 numbers, expected 2 or none",
                                   hidden);
  check_throws<lod::ShapeMismatch>(run(x, input, {}), "gru: weights.input of shape {2, 6}, expected {3, 6}", hidden);
  check_throws<lod::ShapeMismatch>(run(x, recurrent, {}), "gru: weights.recurrent of shape {2, 9}, expected {2, 6}",
                                   hidden);
  check_throws<lod::ShapeMismatch>(run(x, bias, {}), "gru: weights.bias of 7 numbers, expected 6 or none", hidden);
  check_throws<lod::ShapeMismatch>(run(x, weights, {.initial_hidden = three}),
                                   "gru: initial_hidden: 3 rows, expected 2", hidden);
  check_throws<lod::ShapeMismatch>(run(x, weights, {.initial_hidden = wide}),
                                   "gru: initial_hidden: rows of shape {3}, expected {2}", hidden);
  CHECK(trace.hidden.rows() == 0);
  LoDTensor<float> fits(x.lod(), {2}), states({2, 2}), wrong({3, 2});
  check_throws<lod::ShapeMismatch>([&] { lod::gru_into(executor, x, weights, {}, fits.view(), wrong.view(), trace); },
                                   "and the levels of the result", fits);
  const auto y = lod::gru(x, weights);
  lod::gru_into(executor, x, weights, {}, fits.view(), states.view(), trace);
  CHECK(same_bits(fits, y.hidden));
  CHECK(same_bits(states, y.last_hidden));

  LoDTensor<float> dx({1, 1}), dh;
  lod::GruWeights<float> dweights;
  const auto grad = [&](const auto& dhidden, const auto& of, const auto& from,
                        const lod::GruGradOptions<float>& options) {
    return [&, options] { lod::gru_grad_into(executor, dhidden, of, weights, from, options, dx, dweights, dh); };
  };
  const auto other = real_numbers<float>(engine, LoD::from_lengths({{1, 2}}), {3});
  const char* const not_its = "gru_grad: the trace is not that of a run over x with these weights";
  check_throws<lod::ShapeMismatch>(grad(y.hidden, other, y.trace, {}), not_its, dx);
  check_throws<lod::ShapeMismatch>(grad(y.hidden, x, lod::GruTrace<float>(), {}), not_its, dx);
  check_throws<lod::ShapeMismatch>(grad(y.hidden, x, lod::gru(x, random_gru_weights<float>(engine, 3, 4)).trace, {}),
                                   not_its, dx);
  check_throws<lod::ShapeMismatch>(grad(states, x, y.trace, {}), "gru_grad: dhidden: 2 rows, expected 3", dx);
  check_throws<lod::ShapeMismatch>(grad(y.hidden, x, y.trace, {.dlast_hidden = three}),
                                   "gru_grad: dlast_hidden: 3 rows, expected 2", dx);
  check_throws<lod::ShapeMismatch>(grad(y.hidden, x, y.trace, {.dlast_hidden = wide}),
                                   "gru_grad: dlast_hidden: rows of shape {3}, expected {2}", dx);
  LoDTensor<float> right(x.lod(), {3});
  check_throws<lod::ShapeMismatch>(
      [&] { lod::gru_grad_into(executor, y.hidden, x, weights, y.trace, {}, right.view(), dweights, wrong.view()); },
      "and the levels of the result", right);
  float few[1] = {};
  for (auto member : {&lod::GruWeights<float>::input, &lod::GruWeights<float>::recurrent, &lod::GruWeights<float>::bias,
                      &lod::GruWeights<float>::recurrent_bias}) {
    lod::GruWeights<float> wrapped;
    wrapped.*member = LoDTensor<float>::wrap(few, LoD(), {});
    check_throws<lod::ShapeMismatch>(
        [&] { lod::gru_grad_into(executor, y.hidden, x, weights, y.trace, {}, dx, wrapped, dh); },
        "the wrapped memory holds 1 values", dx);
  }
}

TEST_CASE("infer_gru: allows what the operations give, and refuses what they do") {
  const lod::GruWeights<float> weights{LoDTensor<float>({2, 9}), LoDTensor<float>({3, 9}), LoDTensor<float>({9}),
                                       LoDTensor<float>({3})};
  const lod::GruWeightsDesc known{describe(weights.input), describe(weights.recurrent), describe(weights.bias),
                                  describe(weights.recurrent_bias)};
  const lod::GruWeightsDesc unknown{blank(known.input), blank(known.recurrent)};
  for_each_random_batch<float>(1, {2}, [&](Engine&, const lod::LoDTensor<float>& x) {
    for (int level = 0; level < x.levels(); ++level) {
      const auto y = lod::gru(x, weights, {.level = level});
      const auto d = lod::gru_grad(y.hidden, x, weights, y.trace);
      for (const bool blanked : {false, true}) {
        const auto desc = blanked ? blank(describe(x)) : describe(x);
        const auto inferred = lod::infer_gru(desc, blanked ? unknown : known, {.level = level});
        check_inferred(y.hidden, inferred.hidden);
        check_inferred(y.last_hidden, inferred.last_hidden);
        const auto gradients = lod::infer_gru_grad(desc, blanked ? unknown : known, {.level = level});
        check_inferred(d.x, gradients.x);
        check_inferred(d.weights.recurrent, gradients.weights.recurrent);
        check_inferred(d.initial_hidden, gradients.initial_hidden);
      }
    }
  });
  const auto x = described(lod::DataType::FP32, {15, -1}, 2);
  CHECK(lod::infer_gru(x, known).hidden == described(lod::DataType::FP32, {15, 3}, 2));
  CHECK(lod::infer_gru(x, {blank(known.input), known.recurrent}, {.level = 0}).last_hidden ==
        described(lod::DataType::FP32, {-1, 3}));
  CHECK_THROWS_AS(lod::infer_gru(described(lod::DataType::FP32, {15, 2}), known), lod::InvalidLoD);
  CHECK_THROWS_AS(lod::infer_gru(x, known, {.level = 2}), lod::OutOfRange);
  CHECK_THROWS_AS(lod::infer_gru(described(lod::DataType::INT32, {15, 2}, 1), known), lod::ShapeMismatch);
  CHECK_THROWS_AS(lod::infer_gru(x, {known.input, described(lod::DataType::FP32, {3, 10})}), lod::ShapeMismatch);
  CHECK_THROWS_WITH_AS(lod::infer_gru(x, {known.input, known.recurrent, {}, described(lod::DataType::FP32, {2})}),
                       doctest::Contains("gru: weights.recurrent_bias of 2 numbers, expected 3 or none"),
                       lod::ShapeMismatch);
  CHECK_THROWS_AS(lod::infer_gru(x, known, {.initial_hidden = described(lod::DataType::FP64, {6, 3})}),
                  lod::ShapeMismatch);
}

TEST_CASE("gru_cell: a loop over steps gives the bits of gru, products beforehand too, and its gradients") {
  for_each_type(FloatingTypes(), []<class T>(std::type_identity<T>) {
    using View = lod::LoDTensorView<const T>;
    Engine engine(8);
    for (const int form : {0, 1, 2, 3}) {
      const std::int64_t size = form == 1 ? 17 : 2;
      const bool reset_after = form % 2 == 0, origin_mode = form / 2 == 0;
      CAPTURE(form);
      const lod::CpuExecutor executor(2);
      const auto weights = random_gru_weights<T>(engine, 3, size);
      const auto x = real_numbers<T>(engine, LoD::from_lengths({{2, 0, 5, 1}}), {3});
      const auto hidden = small_reals<T>(engine, {4, size});
      const auto y = lod::gru(executor, x, weights,
                              {.initial_hidden = hidden, .reset_after = reset_after, .origin_mode = origin_mode});
      const lod::RankTable table(x.lod());
      const auto first = lod::reorder_lod_tensor_by_rank(executor, hidden, table);
      const lod::GruWeights<T> without_input{{}, weights.recurrent, {}, weights.recurrent_bias};
      for (const bool is_projected : {false, true}) {
        const auto steps = lod::to_time_major(
            executor, is_projected ? lod::linear(executor, x, weights.input, {.bias = weights.bias}) : x, table);
        const auto& by = is_projected ? without_input : weights;
        lod::TimeMajor<T> h(table, {size}), gates(table, {3 * size}), memory(table, {size});
        // What stands before step t, for the sequences that take it.
        const auto before = [&](std::int64_t t) -> View {
          return (t > 0 ? std::as_const(h).step(t - 1) : first.view()).between(0, table.active(t));
        };
        for (std::int64_t t = 0; t < table.steps(); ++t) {
          lod::gru_cell_into(executor, steps.step(t), before(t), by,
                             {.reset_after = reset_after, .origin_mode = origin_mode}, h.step(t), gates.step(t),
                             memory.step(t));
        }
        CHECK(same_bits(lod::from_time_major(executor, h, table), y.hidden));

        if constexpr (std::is_same_v<T, double>) {
          const auto expected = lod::gru_grad(executor, y.hidden, x, weights, y.trace);
          lod::GruWeights<T> dweights{LoDTensor<T>(by.input.shape()), LoDTensor<T>(by.recurrent.shape()),
                                      LoDTensor<T>(by.bias.shape()), LoDTensor<T>(by.recurrent_bias.shape())};
          lod::TimeMajor<T> dx(table, {steps.values().row_size()});
          LoDTensor<T> dstate({0, size});
          for (std::int64_t t = table.steps(); t-- > 0;) {
            // The gradient with respect to h is h, plus what the next step gave.
            LoDTensor<T> dh = LoDTensor<T>::copy_of(h.step(t)), next;
            for (std::int64_t i = 0; i < dstate.rows() * size; ++i) dh.data()[i] += dstate.data()[i];
            lod::gru_cell_grad_into(executor, dh, steps.step(t), before(t), by, gates.step(t), memory.step(t),
                                    {.reset_after = reset_after, .origin_mode = origin_mode, .accumulate = true},
                                    dx.step(t), dweights, next);
            dstate = next;
          }
          const auto same = [](const auto& a, const auto& b) {
            return a.shape() == b.shape() && std::ranges::equal(a.values(), b.values(), [](T u, T v) {
                     return std::abs(u - v) <= 1e-12 * std::max(1.0, std::abs(v));
                   });
          };
          CHECK(same(dweights.recurrent, expected.weights.recurrent));
          CHECK(same(dweights.recurrent_bias, expected.weights.recurrent_bias));
          CHECK(same(dstate, lod::reorder_lod_tensor_by_rank(expected.initial_hidden, table).between(0, 3)));
          const auto by_batch = lod::from_time_major(executor, dx, table);
          if (!is_projected) {
            CHECK(same(by_batch, expected.x));
            CHECK(same(dweights.input, expected.weights.input));
            CHECK(same(dweights.bias, expected.weights.bias));
          } else {
            CHECK(same(lod::linear_grad(executor, by_batch, x, weights.input).dx, expected.x));
          }
        }
      }
    }
  });
}

TEST_CASE("gru_cell: without rows, without states, and bad arguments, which change nothing") {
  Engine engine(9);
  const auto weights = random_gru_weights<float>(engine, 3, 2);
  const auto none = LoDTensor<float>({0, 2}), zeros = LoDTensor<float>({2, 2});
  const auto x = real_numbers<float>(engine, {2, 3});
  for (const bool reset_after : {false, true}) {
    const auto y = lod::gru_cell(LoDTensor<float>({0, 3}), none, weights, {.reset_after = reset_after});
    CHECK(y.hidden.shape() == lod::Shape{0, 2});
    const auto nothing = lod::gru_cell_grad(none, LoDTensor<float>({0, 3}), none, weights, y.gates, y.memory,
                                            {.reset_after = reset_after});
    CHECK(std::ranges::all_of(nothing.weights.recurrent.values(), [](float number) { return number == 0; }));
    const auto started = lod::gru_cell(x, none, weights, {.reset_after = reset_after});
    CHECK(same_bits(started.hidden, lod::gru_cell(x, zeros, weights, {.reset_after = reset_after}).hidden));
    const auto d =
        lod::gru_cell_grad(zeros, x, none, weights, started.gates, started.memory, {.reset_after = reset_after});
    CHECK(d.hidden.shape() == lod::Shape{2, 2});
    const auto inferred =
        lod::infer_gru_cell(describe(x), describe(none), {describe(weights.input), describe(weights.recurrent)});
    check_inferred(started.hidden, inferred.hidden);
    check_inferred(started.gates, inferred.gates);
  }
  const auto y = lod::gru_cell(x, zeros, weights);
  const lod::CpuExecutor executor(1);
  LoDTensor<float> h({1, 1}), gates, memory, dx({1, 1}), dh;
  check_throws<lod::ShapeMismatch>([&] { lod::gru_cell_into(executor, x, x, weights, h, gates, memory); },
                                   "gru_cell: hidden: rows of shape {3}, expected {2}", h);
  lod::GruWeights<float> dweights;
  check_throws<lod::ShapeMismatch>(
      [&] { lod::gru_cell_grad_into(executor, zeros, x, zeros, weights, y.memory, y.memory, dx, dweights, dh); },
      "gru_cell_grad: gates: rows of shape {2}, expected {6}", dx);
  check_throws<lod::ShapeMismatch>(
      [&] {
        lod::gru_cell_grad_into(executor, zeros, x, zeros, weights, y.gates, y.memory, {.accumulate = true}, dx,
                                dweights, dh);
      },
      "gru_cell_grad: dweights.input: shape {0}, expected {3, 6}, that of the weights, to add to", dx);
}
