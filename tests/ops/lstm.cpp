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
lod::LstmWeights<T> random_lstm_weights(Engine& engine, std::int64_t inputs, std::int64_t size, bool bias = true,
                                        bool peepholes = false, std::int64_t projected = 0) {
  return {small_reals<T>(engine, {inputs, 4 * size}), small_reals<T>(engine, {projected ? projected : size, 4 * size}),
          bias ? small_reals<T>(engine, {4 * size}) : LoDTensor<T>(),
          peepholes ? small_reals<T>(engine, {3 * size}) : LoDTensor<T>(),
          projected ? small_reals<T>(engine, {size, projected}) : LoDTensor<T>()};
}

/// Hidden state and cell of one sequence.
struct State {
  std::vector<double> hidden, cell;
};

/// x, or the limit that it exceeds; 0 is none.
double clipped(double x, double limit) { return limit > 0 ? std::clamp(x, -limit, limit) : x; }

/// The formulas of the header, for one row.
template <class T>
State reference_step(const lod::LstmWeights<T>& w, std::span<const T> x, const State& before,
                     const lod::LstmOptions<T>& options) {
  const std::size_t size = before.cell.size(), width = before.hidden.size();
  const auto gate = [&](std::size_t which, std::size_t j) {
    const std::size_t column = which * size + j;
    double sum = w.bias.rows() > 0 ? static_cast<double>(w.bias.values()[column]) : 0;
    for (std::size_t k = 0; k < x.size(); ++k) {
      sum += static_cast<double>(x[k]) * static_cast<double>(w.input.values()[k * 4 * size + column]);
    }
    for (std::size_t k = 0; k < width; ++k) {
      sum += before.hidden[k] * static_cast<double>(w.recurrent.values()[k * 4 * size + column]);
    }
    return sum;
  };
  const auto seen = [&](std::size_t which, std::size_t j, double cell) {
    return w.peepholes.rows() > 0 ? static_cast<double>(w.peepholes.values()[which * size + j]) * cell : 0;
  };
  State after = before;
  std::vector<double> shown(size);
  for (std::size_t j = 0; j < size; ++j) {
    const double i = sigmoid(gate(0, j) + seen(0, j, before.cell[j]));
    const double f = sigmoid(gate(1, j) + seen(1, j, before.cell[j]));
    after.cell[j] = clipped(f * before.cell[j] + i * std::tanh(gate(2, j)), options.cell_clip);
    shown[j] = sigmoid(gate(3, j) + seen(2, j, after.cell[j])) * std::tanh(after.cell[j]);
  }
  if (w.projection.rows() == 0) {
    after.hidden = shown;
    return after;
  }
  for (std::size_t j = 0; j < width; ++j) {
    double sum = 0;
    for (std::size_t k = 0; k < size; ++k) sum += shown[k] * static_cast<double>(w.projection.values()[k * width + j]);
    after.hidden[j] = clipped(sum, options.projection_clip);
  }
  return after;
}

/// Checks a run over a tensor or a slice against one sequence after the other.
template <class T>
void check_run(const lod::Lstm<T>& y, const lod::LoDTensorView<const T>& x, const lod::LstmWeights<T>& weights,
               const lod::LstmOptions<T>& options) {
  const int level = options.level < 0 ? options.level + x.levels() : options.level;
  const LoD index = x.lod();
  const auto width = static_cast<std::size_t>(weights.recurrent.rows());
  const auto size = static_cast<std::size_t>(weights.recurrent.row_size() / 4);
  const auto rows = index.absolute_offsets(level);
  REQUIRE(y.hidden.lod() == index);
  REQUIRE(y.hidden.row_shape() == lod::Shape{weights.recurrent.rows()});
  REQUIRE(y.last_hidden.lod() == index.levels_above(level));
  REQUIRE(y.last_cell.lod() == index.levels_above(level));
  REQUIRE(y.last_hidden.rows() == index.size(level));
  bool same = true;
  for (std::int64_t i = 0; i < index.size(level); ++i) {
    State state{std::vector<double>(width), std::vector<double>(size)};
    for (std::size_t j = 0; j < width; ++j) {
      if (options.initial_hidden.rows() > 0) state.hidden[j] = static_cast<double>(options.initial_hidden.row(i)[j]);
    }
    for (std::size_t j = 0; j < size; ++j) {
      if (options.initial_cell.rows() > 0) state.cell[j] = static_cast<double>(options.initial_cell.row(i)[j]);
    }
    const std::int64_t begin = rows[static_cast<std::size_t>(i)], end = rows[static_cast<std::size_t>(i) + 1];
    for (std::int64_t t = 0; t < end - begin; ++t) {
      const std::int64_t row = options.reverse ? end - 1 - t : begin + t;
      state = reference_step<T>(weights, x.row(row), state, options);
      same = same && close_states<T>(y.hidden.row(row), state.hidden);
    }
    same =
        same && close_states<T>(y.last_hidden.row(i), state.hidden) && close_states<T>(y.last_cell.row(i), state.cell);
  }
  CHECK(same);
}

template <class T>
bool same_run(const lod::Lstm<T>& a, const lod::Lstm<T>& b) {
  return same_bits(a.hidden, b.hidden) && same_bits(a.last_hidden, b.last_hidden) &&
         same_bits(a.last_cell, b.last_cell);
}
template <class T>
bool same_grad(const lod::LstmGrad<T>& a, const lod::LstmGrad<T>& b) {
  return same_bits(a.x, b.x) && same_bits(a.weights.input, b.weights.input) &&
         same_bits(a.weights.recurrent, b.weights.recurrent) && same_bits(a.weights.bias, b.weights.bias) &&
         same_bits(a.weights.peepholes, b.weights.peepholes) && same_bits(a.weights.projection, b.weights.projection) &&
         same_bits(a.initial_hidden, b.initial_hidden) && same_bits(a.initial_cell, b.initial_cell);
}

}  // namespace

TEST_CASE("lstm: agrees with one sequence after the other, for slices of every type, depth and level") {
  for_each_type(FloatingTypes(), []<class T>(std::type_identity<T>) {
    for_each_random_lod(4, 1, 5, [](Engine& engine, const Lengths& lengths) {
      for (const std::int64_t size : {1, 3, 8, 17}) {
        const auto x = real_numbers<T>(engine, LoD::from_lengths(lengths), {2, 2});
        const auto slice = x.between(random_number(engine, 0, x.size() > 0), x.size());
        const auto weights = random_lstm_weights<T>(engine, 4, size, size != 3, size == 3 || size == 17);
        for (int level = 0; level < x.levels(); ++level) {
          // Where all is slow, each size meets every other level.
          if (slow && (size + level) % 2 == 1) continue;
          const std::int64_t sequences = slice.lod_view().size(level);
          const auto hidden = small_reals<T>(engine, {sequences, size}),
                     cell = small_reals<T>(engine, {sequences, size});
          const bool reverse = random_number(engine, 0, 1) == 1;
          INFO("level ", level, ", size ", size, ", reverse ", reverse);
          const lod::LstmOptions<T> plain{.reverse = reverse, .level = level};
          check_run(lod::lstm(lod::CpuExecutor(2), slice, weights, plain), slice.view(), weights, plain);
          const lod::LstmOptions<T> both{
              .initial_hidden = hidden, .initial_cell = cell, .reverse = reverse, .level = level};
          check_run(lod::lstm(lod::CpuExecutor(2), slice, weights, both), slice.view(), weights, both);
          const lod::LstmOptions<T> one{.initial_cell = cell, .level = level};
          check_run(lod::lstm(slice, weights, one), slice.view(), weights, one);
        }
      }
    });
  });
}

TEST_CASE("lstm: projected states and limits agree with one sequence after the other, slices of every type and level") {
  for_each_type(FloatingTypes(), []<class T>(std::type_identity<T>) {
    for_each_random_lod(2, 1, 5, [](Engine& engine, const Lengths& lengths) {
      for (const auto& sizes : {std::pair<std::int64_t, std::int64_t>(1, 1), {5, 3}, {17, 8}, {3, 19}}) {
        const std::int64_t size = sizes.first, width = sizes.second;
        const auto x = real_numbers<T>(engine, LoD::from_lengths(lengths), {4});
        const auto slice = x.between(random_number(engine, 0, x.size() > 0), x.size());
        const auto weights = random_lstm_weights<T>(engine, 4, size, size != 3, size == 17, width);
        const int level = static_cast<int>(random_number(engine, 0, x.levels() - 1));
        const std::int64_t sequences = slice.lod_view().size(level);
        const auto hidden = small_reals<T>(engine, {sequences, width}),
                   cell = small_reals<T>(engine, {sequences, size});
        INFO("level ", level, ", size ", size, ", width ", width);
        const lod::LstmOptions<T> plain{.level = level};
        check_run(lod::lstm(lod::CpuExecutor(2), slice, weights, plain), slice.view(), weights, plain);
        const lod::LstmOptions<T> limited{.initial_hidden = hidden,
                                          .initial_cell = cell,
                                          .reverse = true,
                                          .level = level,
                                          .cell_clip = 0.25,
                                          .projection_clip = 0.125};
        const auto y = lod::lstm(lod::CpuExecutor(2), slice, weights, limited);
        check_run(y, slice.view(), weights, limited);
        CHECK(std::ranges::all_of(y.hidden.values(), [](T h) { return std::abs(static_cast<double>(h)) <= 0.125; }));
      }
      // A limit alone, of the cell.
      const auto x = real_numbers<T>(engine, LoD::from_lengths(lengths), {4});
      const auto weights = random_lstm_weights<T>(engine, 4, 3);
      const lod::LstmOptions<T> limited{.cell_clip = 0.125};
      check_run(lod::lstm(x, weights, limited), x.view(), weights, limited);
    });
  });
}

TEST_CASE("lstm: limits that no number reaches, and a projection by the unit matrix, change no bit") {
  Engine engine(31);
  const auto weights = random_lstm_weights<float>(engine, 3, 8);
  const auto x = real_numbers<float>(engine, LoD::from_lengths({{7, 0, 4}}), {3});
  const auto y = lod::lstm(x, weights);
  CHECK(same_run(lod::lstm(x, weights, {.cell_clip = infinity, .projection_clip = 1}), y));
  auto unit = weights;
  unit.projection = LoDTensor<float>({8, 8});
  for (std::int64_t i = 0; i < 8; ++i) unit.projection.row(i)[static_cast<std::size_t>(i)] = 1;
  CHECK(same_run(lod::lstm(x, unit, {.projection_clip = infinity}), y));
}

TEST_CASE("lstm: a number that reached a limit equals it and passes on no gradient, whatever the limit") {
  for_each_type(FloatingTypes(), []<class T>(std::type_identity<T>) {
    const auto filled = [](LoDTensor<T> y, float number) {
      for (T& each : y.values()) each = static_cast<T>(number);
      return y;
    };
    const auto x = filled(LoDTensor<T>(LoD::from_lengths({{1, 2}}), {1}), 4);
    lod::LstmWeights<T> weights{.input = filled(LoDTensor<T>({1, 12}), 1),
                                .recurrent = filled(LoDTensor<T>({3, 12}), 0)};
    const auto vanishes = [](const LoDTensor<T>& y) {
      return std::ranges::all_of(y.values(), [](T number) { return number == T{}; });
    };
    // 0.1 becomes less as a float16, 0.7 as a bfloat16; the last two would become 0 in narrow types.
    for (const double limit : {0.1, 0.3, 0.7, 1e-9, 1e-50}) {
      INFO("limit ", limit);
      const T stored = std::max(static_cast<T>(limit), std::numeric_limits<T>::denorm_min());
      const auto is_limit = [&](const LoDTensor<T>& y) {
        return std::ranges::all_of(y.values(), [&](T number) { return number == stored; });
      };
      const auto y = lod::lstm(x, weights, {.cell_clip = limit});
      CHECK(is_limit(y.last_cell));
      const auto ones = filled(y.last_cell, 1);
      const auto of_cell = lod::lstm_grad(LoDTensor<T>(), x, weights, y.trace, {.dlast_cell = ones});
      CHECK(vanishes(of_cell.x));
      CHECK(vanishes(of_cell.weights.input));
      auto projecting = weights;
      projecting.projection = filled(LoDTensor<T>({3, 3}), 4);
      const auto z = lod::lstm(x, projecting, {.projection_clip = limit});
      CHECK(is_limit(z.hidden));
      const auto of_state = lod::lstm_grad(filled(z.hidden, 1), x, projecting, z.trace);
      CHECK(vanishes(of_state.x));
      CHECK(vanishes(of_state.weights.projection));
    }
  });
}

TEST_CASE("lstm: a sequence in two parts, the second with the states that the first left") {
  Engine engine(3);
  const auto weights = random_lstm_weights<double>(engine, 3, 5);
  const auto x = real_numbers<double>(engine, LoD::from_lengths({{7, 4}}), {3});
  const auto whole = lod::lstm(x, weights);
  for (std::int64_t i = 0; i < 2; ++i) {
    const auto first = LoDTensor<double>::copy_of(x[i].between(0, 3)).with_lod(LoD::from_lengths({{3}}));
    const std::int64_t left = x[i].rows() - 3;
    const auto second = LoDTensor<double>::copy_of(x[i].between(3, x[i].rows())).with_lod(LoD::from_lengths({{left}}));
    const auto a = lod::lstm(first, weights);
    const auto b = lod::lstm(second, weights, {.initial_hidden = a.last_hidden, .initial_cell = a.last_cell});
    CHECK(same_bits(b.hidden.with_lod(LoD()), whole.hidden[i].between(3, x[i].rows())));
    CHECK(same_bits(b.last_cell, whole.last_cell.between(i, i + 1)));
  }
}

TEST_CASE("lstm: the same bits for any number of threads, and for a slice as for a copy") {
  for_each_type(FloatingTypes(), []<class T>(std::type_identity<T>) {
    for (const std::int64_t size : {1, 33}) {
      INFO("size ", size);
      Engine engine(4);
      const auto weights = random_lstm_weights<T>(engine, 20, size, true, size == 33, size == 33 ? 9 : 0);
      const std::int64_t width = weights.recurrent.rows();
      const std::int64_t count = grain / 320;
      const LoD words = giant_among_short(engine, count, count / 2);
      const auto x = real_numbers<T>(
          engine, LoD::from_lengths({{1, count / 2, 0, count - count / 2 - 1}, words.lengths(0)}), {20});
      const auto slice = x.between(1, 4);
      const auto copy = LoDTensor<T>::copy_of(slice);
      const auto hidden = small_reals<T>(engine, {slice.lod_view().size(1), width});
      const lod::LstmOptions<T> options{.initial_hidden = hidden, .projection_clip = 0.5};
      for_each_executor([&](const auto& executor) {
        const auto one = working_alone(executor);
        const auto expected = lod::lstm(one, copy, weights, options);
        const auto grad =
            lod::lstm_grad(one, expected.hidden, copy, weights, expected.trace, {.dlast_cell = expected.last_cell});
        const auto y = lod::lstm(executor, slice, weights, options);
        CHECK(same_run(y, expected));
        CHECK(
            same_grad(lod::lstm_grad(executor, y.hidden, slice, weights, y.trace, {.dlast_cell = y.last_cell}), grad));
      });
      // What stands in the rest of the batch does not matter either.
      const auto alone = lod::lstm(x.between(2, 4), weights);
      const auto together = lod::lstm(x, weights);
      CHECK(same_bits(alone.hidden, together.hidden.between(2, 4)));
    }
  });
}

TEST_CASE("lstm: no sequences, empty ones only, and states of no numbers") {
  Engine engine(1);
  const auto weights = random_lstm_weights<float>(engine, 3, 2);
  for (const auto& lengths : std::vector<Lengths>{{{}}, {{0}}, {{0, 0}}, {{}, {}}, {{0, 0}, {}}, {{2, 0}, {0, 0}}}) {
    const LoDTensor<float> x(LoD::from_lengths(lengths), {3});
    for (int level = 0; level < x.levels(); ++level) {
      const auto hidden = small_reals<float>(engine, {x.lod().size(level), 2});
      const auto y = lod::lstm(x, weights, {.initial_hidden = hidden, .level = level});
      CHECK(y.hidden.lod() == x.lod());
      CHECK(y.hidden.shape() == lod::Shape{0, 2});
      CHECK(std::ranges::equal(y.last_hidden.values(), hidden.values()));
      CHECK(y.last_cell.shape() == hidden.shape());
      CHECK(std::ranges::all_of(y.last_cell.values(), [](float number) { return number == 0; }));
      const auto d = lod::lstm_grad(y.hidden, x, weights, y.trace, {.dlast_hidden = hidden});
      CHECK(same_bits(d.x, x));
      CHECK(std::ranges::equal(d.initial_hidden.values(), hidden.values()));
      for (const auto* dweights : {&d.weights.input, &d.weights.recurrent, &d.weights.bias}) {
        CHECK(std::ranges::all_of(dweights->values(), [](float number) { return number == 0; }));
      }
      CHECK(d.weights.input.shape() == weights.input.shape());
    }
  }
  const auto none = random_lstm_weights<float>(engine, 3, 0);
  const LoDTensor<float> x(LoD::from_lengths({{2, 1}}), {3});
  const auto y = lod::lstm(x, none);
  CHECK(y.hidden.shape() == lod::Shape{3, 0});
  CHECK(lod::lstm_grad(y.hidden, x, none, y.trace).x.shape() == x.shape());
  const auto blind = random_lstm_weights<float>(engine, 0, 2);
  const LoDTensor<float> narrow(LoD::from_lengths({{2, 1}}), {0});
  check_run(lod::lstm(narrow, blind), narrow.view(), blind, {});
}

TEST_CASE("lstm: gates saturate without overflow, and NaN stays in its sequence") {
  lod::LstmWeights<float> weights{LoDTensor<float>({1, 4}), LoDTensor<float>({1, 4})};
  for (float& weight : weights.input.values()) weight = 1;
  auto x = LoDTensor<float>::from_nested(
      std::vector<std::vector<float>>{{1e30f}, {-1e30f}, {infinity}, {-infinity}, {std::nanf("")}, {0}});
  const auto y = lod::lstm(x, weights);
  CHECK(y.hidden.data()[0] == doctest::Approx(std::tanh(1.0)));
  CHECK(y.hidden.data()[1] == 0);
  CHECK(y.hidden.data()[2] == doctest::Approx(std::tanh(1.0)));
  CHECK(y.hidden.data()[3] == 0);
  CHECK(std::isnan(y.hidden.data()[4]));
  CHECK(y.hidden.data()[5] == 0);
}

TEST_CASE("lstm_grad: agrees with differences, by everything and through every result") {
  Engine engine(6);
  for (const auto& sizes : {std::pair<std::int64_t, std::int64_t>(1, 1), {3, 3}, {8, 8}, {17, 17}, {8, 3}, {3, 5}}) {
    const std::int64_t size = sizes.first, width = sizes.second;
    for (const bool reverse : {false, true}) {
      if (size == 17 && reverse) continue;
      INFO("size ", size, ", width ", width, ", reverse ", reverse);
      const bool projects = size != width;
      auto weights = random_lstm_weights<double>(engine, 3, size, true, size == 3 || size == 17, projects ? width : 0);
      auto x = real_numbers<double>(engine, LoD::from_lengths({{2, 0, 2}, {3, 0, 1, 3}}), {3});
      auto hidden = small_reals<double>(engine, {4, width}), cell = small_reals<double>(engine, {4, size});
      // Limits that some numbers reach, and none is near enough for a difference to cross.
      const double cell_clip = projects && reverse ? 0.3 : 0, projection_clip = projects && reverse ? 0.1 : 0;
      const auto run = [&] {
        return lod::lstm(x, weights,
                         {.initial_hidden = hidden,
                          .initial_cell = cell,
                          .reverse = reverse,
                          .cell_clip = cell_clip,
                          .projection_clip = projection_clip});
      };
      // All three results in one tensor, so that one random gradient goes through each.
      const auto loss = [&](LoDTensor<double>& at, const auto& now) {
        const LoDTensor<double> before = at;
        at = now;
        const auto y = run();
        at = before;
        LoDTensor<double> all({(x.rows() + 4) * width + 4 * size});
        auto to = std::copy(y.hidden.values().begin(), y.hidden.values().end(), all.values().begin());
        to = std::copy(y.last_hidden.values().begin(), y.last_hidden.values().end(), to);
        std::copy(y.last_cell.values().begin(), y.last_cell.values().end(), to);
        return all;
      };
      const auto grad = [&](const LoDTensor<double>& d) {
        LoDTensor<double> dhidden({x.rows(), width}), dlast({4, width}), dcell({4, size});
        const double* from = d.data();
        for (auto* part : {&dhidden, &dlast, &dcell}) {
          std::copy_n(from, part->values().size(), part->data());
          from += part->values().size();
        }
        return lod::lstm_grad(dhidden, x, weights, run().trace, {.dlast_hidden = dlast, .dlast_cell = dcell});
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
      if (weights.peepholes.rows() > 0) check(weights.peepholes, [](const auto& d) { return d.weights.peepholes; });
      if (projects) check(weights.projection, [](const auto& d) { return d.weights.projection; });
      check(hidden, [](const auto& d) { return d.initial_hidden; });
      check(cell, [](const auto& d) { return d.initial_cell; });
      CHECK(grad(LoDTensor<double>({(x.rows() + 4) * width + 4 * size})).initial_hidden.lod() ==
            x.lod().levels_above(1));
    }
  }
}

TEST_CASE("lstm_grad: without initial states, without a bias, by an outer level, by the last states only") {
  Engine engine(7);
  for (const std::int64_t size : {1, 17}) {
    auto weights = random_lstm_weights<double>(engine, 2, size, false);
    auto x = real_numbers<double>(engine, LoD::from_lengths({{2, 0, 2}, {3, 0, 1, 1}}), {2});
    const auto run = [&](const auto& at) { return lod::lstm(at, weights, {.level = 0}); };
    const auto grad = [&](const auto& dlast) {
      return lod::lstm_grad(LoDTensor<double>(), x, weights, run(x).trace, {.dlast_hidden = dlast});
    };
    check_gradient(
        engine, x, [&](const auto& at) { return run(at).last_hidden; }, [&](const auto& d) { return grad(d).x; });
    check_gradient(
        engine, weights.recurrent,
        [&](const auto& at) {
          return lod::lstm(x, lod::LstmWeights<double>{weights.input, at}, {.level = 0}).last_hidden;
        },
        [&](const auto& d) { return grad(d).weights.recurrent; });
    const auto d = grad(LoDTensor<double>({3, size}));
    CHECK(d.weights.bias.rows() == 0);
    CHECK(d.initial_hidden.shape() == lod::Shape{3, size});
  }
}

TEST_CASE("lstm: bad arguments throw and change nothing") {
  Engine engine(2);
  const auto x = real_numbers<float>(engine, LoD::from_lengths({{2, 1}}), {3});
  const auto weights = random_lstm_weights<float>(engine, 3, 2, true, true);
  const lod::CpuExecutor executor(1);
  LoDTensor<float> hidden({1, 1}), last_hidden, last_cell;
  lod::LstmTrace<float> trace;
  const auto run = [&](const auto& input, const auto& by, const lod::LstmOptions<float>& options) {
    return [&, options] { lod::lstm_into(executor, input, by, options, hidden, last_hidden, last_cell, trace); };
  };
  const LoDTensor<float> plain({3, 3}), three({3, 2}), wide({2, 3});
  check_throws<lod::InvalidLoD>(run(plain, weights, {}), "lstm: the tensor has no level", hidden);
  check_throws<lod::OutOfRange>(run(x, weights, {.level = 1}), "level 1 of a LoD with 1 levels", hidden);
  const auto with = [&](const auto& change) {
    auto changed = weights;
    change(changed);
    return changed;
  };
  const auto input = with([](auto& w) { w.input = LoDTensor<float>({2, 8}); });
  const auto recurrent = with([](auto& w) { w.recurrent = LoDTensor<float>({2, 6}); });
  const auto bias = with([](auto& w) { w.bias = LoDTensor<float>({7}); });
  check_throws<lod::ShapeMismatch>(run(x, input, {}), "lstm: weights.input of shape {2, 8}, expected {3, 8}", hidden);
  check_throws<lod::ShapeMismatch>(run(x, recurrent, {}), "lstm: weights.recurrent of shape {2, 6}, expected {2, 8}",
                                   hidden);
  check_throws<lod::ShapeMismatch>(run(x, bias, {}), "lstm: weights.bias of 7 numbers, expected 8 or none", hidden);
  const auto peepholes = with([](auto& w) { w.peepholes = LoDTensor<float>({8}); });
  check_throws<lod::ShapeMismatch>(run(x, peepholes, {}), "lstm: weights.peepholes of 8 numbers, expected 6 or none",
                                   hidden);
  const auto projection = with([](auto& w) { w.projection = LoDTensor<float>({2, 3}); });
  check_throws<lod::ShapeMismatch>(run(x, projection, {}), "lstm: weights.projection of shape {2, 3}, expected {2, 2}",
                                   hidden);
  const auto cells_differ = with([](auto& w) { w.projection = LoDTensor<float>({3, 2}); });
  check_throws<lod::ShapeMismatch>(run(x, cells_differ, {}),
                                   "lstm: weights.recurrent of shape {2, 8}, expected {2, 12}", hidden);
  check_throws<lod::OutOfRange>(run(x, weights, {.cell_clip = -1}), "lstm: cell_clip -1, expected 0 or more", hidden);
  check_throws<lod::OutOfRange>(run(x, weights, {.projection_clip = std::nan("")}),
                                "lstm: projection_clip nan, expected 0 or more", hidden);
  check_throws<lod::ShapeMismatch>(run(x, weights, {.initial_hidden = three}),
                                   "lstm: initial_hidden: 3 rows, expected 2", hidden);
  check_throws<lod::ShapeMismatch>(run(x, weights, {.initial_cell = wide}),
                                   "lstm: initial_cell: rows of shape {3}, expected {2}", hidden);
  CHECK(trace.hidden.rows() == 0);
  LoDTensor<float> fits(x.lod(), {2}), states({2, 2}), wrong({3, 2});
  check_throws<lod::ShapeMismatch>(
      [&] { lod::lstm_into(executor, x, weights, {}, fits.view(), states.view(), wrong.view(), trace); },
      "and the levels of the result", fits);
  const auto y = lod::lstm(x, weights);
  LoDTensor<float> cells({2, 2});
  lod::lstm_into(executor, x, weights, {}, fits.view(), states.view(), cells.view(), trace);
  CHECK(same_bits(fits, y.hidden));
  CHECK(same_bits(cells, y.last_cell));

  LoDTensor<float> dx({1, 1}), dh, dc;
  lod::LstmWeights<float> dweights;
  const auto grad = [&](const auto& dhidden, const auto& of, const auto& from,
                        const lod::LstmGradOptions<float>& options) {
    return [&, options] { lod::lstm_grad_into(executor, dhidden, of, weights, from, options, dx, dweights, dh, dc); };
  };
  const auto other = real_numbers<float>(engine, LoD::from_lengths({{1, 2}}), {3});
  const char* const not_its = "lstm_grad: the trace is not that of a run over x with these weights";
  check_throws<lod::ShapeMismatch>(grad(y.hidden, other, y.trace, {}), not_its, dx);
  check_throws<lod::ShapeMismatch>(grad(y.hidden, x, lod::LstmTrace<float>(), {}), not_its, dx);
  check_throws<lod::ShapeMismatch>(grad(y.hidden, x, lod::lstm(x, random_lstm_weights<float>(engine, 3, 4)).trace, {}),
                                   not_its, dx);
  {
    // The same states, of wider cells.
    const auto of_wider = lod::lstm(x, random_lstm_weights<float>(engine, 3, 4, true, false, 2));
    check_throws<lod::ShapeMismatch>(grad(y.hidden, x, of_wider.trace, {}), not_its, dx);
  }
  check_throws<lod::ShapeMismatch>(grad(cells, x, y.trace, {}), "lstm_grad: dhidden: 2 rows, expected 3", dx);
  check_throws<lod::ShapeMismatch>(grad(y.hidden, x, y.trace, {.dlast_hidden = three}),
                                   "lstm_grad: dlast_hidden: 3 rows, expected 2", dx);
  check_throws<lod::ShapeMismatch>(grad(y.hidden, x, y.trace, {.dlast_cell = wide}),
                                   "lstm_grad: dlast_cell: rows of shape {3}, expected {2}", dx);
  LoDTensor<float> right(x.lod(), {3});
  check_throws<lod::ShapeMismatch>(
      [&] {
        lod::lstm_grad_into(executor, y.hidden, x, weights, y.trace, {}, right.view(), dweights, states.view(),
                            wrong.view());
      },
      "and the levels of the result", right);
  float few[1] = {};
  for (auto member : {&lod::LstmWeights<float>::input, &lod::LstmWeights<float>::recurrent,
                      &lod::LstmWeights<float>::bias, &lod::LstmWeights<float>::peepholes}) {
    lod::LstmWeights<float> wrapped;
    wrapped.*member = LoDTensor<float>::wrap(few, LoD(), {});
    check_throws<lod::ShapeMismatch>(
        [&] { lod::lstm_grad_into(executor, y.hidden, x, weights, y.trace, {}, dx, wrapped, states, cells); },
        "the wrapped memory holds 1 values", dx);
  }
}

TEST_CASE("infer_lstm: allows what the operations give, and refuses what they do") {
  const lod::LstmWeights<float> weights{LoDTensor<float>({2, 12}), LoDTensor<float>({3, 12}), LoDTensor<float>({12}),
                                        LoDTensor<float>({9})};
  const lod::LstmWeightsDesc known{describe(weights.input), describe(weights.recurrent), describe(weights.bias),
                                   describe(weights.peepholes)};
  const lod::LstmWeightsDesc unknown{blank(known.input), blank(known.recurrent)};
  for_each_random_batch<float>(1, {2}, [&](Engine&, const lod::LoDTensor<float>& x) {
    for (int level = 0; level < x.levels(); ++level) {
      const auto y = lod::lstm(x, weights, {.level = level});
      const auto d = lod::lstm_grad(y.hidden, x, weights, y.trace);
      for (const bool blanked : {false, true}) {
        const auto desc = blanked ? blank(describe(x)) : describe(x);
        const auto inferred = lod::infer_lstm(desc, blanked ? unknown : known, {.level = level});
        check_inferred(y.hidden, inferred.hidden);
        check_inferred(y.last_hidden, inferred.last_hidden);
        check_inferred(y.last_cell, inferred.last_cell);
        const auto gradients = lod::infer_lstm_grad(desc, blanked ? unknown : known, {.level = level});
        check_inferred(d.x, gradients.x);
        check_inferred(d.weights.recurrent, gradients.weights.recurrent);
        check_inferred(d.initial_hidden, gradients.initial_hidden);
        check_inferred(d.initial_cell, gradients.initial_cell);
      }
    }
  });
  const lod::LstmWeightsDesc projected{
      known.input, described(lod::DataType::FP32, {5, 12}), {}, {}, described(lod::DataType::FP32, {3, 5})};
  const lod::LstmWeightsDesc blanked{known.input, blank(projected.recurrent), {}, {}, projected.projection};
  for (const auto& weights_of_projected : {projected, blanked}) {
    const auto y = lod::infer_lstm(described(lod::DataType::FP32, {15, 2}, 1), weights_of_projected);
    CHECK(y.hidden == described(lod::DataType::FP32, {15, 5}, 1));
    CHECK(y.last_hidden == described(lod::DataType::FP32, {-1, 5}));
    CHECK(y.last_cell == described(lod::DataType::FP32, {-1, 3}));
  }
  auto narrower = projected;
  narrower.projection = described(lod::DataType::FP32, {3, 4});
  CHECK_THROWS_WITH_AS(lod::infer_lstm(described(lod::DataType::FP32, {15, 2}, 1), narrower),
                       doctest::Contains("lstm: weights.projection: 4 columns, expected 5, the rows of"),
                       lod::ShapeMismatch);
  const auto x = described(lod::DataType::FP32, {15, -1}, 2);
  const auto y = lod::infer_lstm(x, {known.input, blank(known.recurrent)});
  CHECK(y.hidden == described(lod::DataType::FP32, {15, 3}, 2));
  CHECK(y.last_cell == described(lod::DataType::FP32, {-1, 3}, 1));
  CHECK_THROWS_AS(lod::infer_lstm(described(lod::DataType::FP32, {15, 2}), known), lod::InvalidLoD);
  CHECK_THROWS_AS(lod::infer_lstm(x, known, {.level = 2}), lod::OutOfRange);
  CHECK_THROWS_AS(lod::infer_lstm(described(lod::DataType::INT32, {15, 2}, 1), known), lod::ShapeMismatch);
  CHECK_THROWS_WITH_AS(lod::infer_lstm(described(lod::DataType::FP32, {15, 3}, 1), known),
                       doctest::Contains("lstm: weights.input: 2 rows, expected 3"), lod::ShapeMismatch);
  CHECK_THROWS_WITH_AS(lod::infer_lstm(x, {known.input, described(lod::DataType::FP32, {4, 12})}),
                       doctest::Contains("lstm: weights.recurrent: 12 columns, expected 4 * 4"), lod::ShapeMismatch);
  CHECK_THROWS_WITH_AS(lod::infer_lstm(x, {known.input, known.recurrent, described(lod::DataType::FP32, {11})}),
                       doctest::Contains("lstm: weights.bias of 11 numbers, expected 12 or none"), lod::ShapeMismatch);
  CHECK_THROWS_WITH_AS(lod::infer_lstm(x, {known.input, known.recurrent, {}, described(lod::DataType::FP32, {12})}),
                       doctest::Contains("lstm: weights.peepholes of 12 numbers, expected 9 or none"),
                       lod::ShapeMismatch);
  CHECK_THROWS_WITH_AS(lod::infer_lstm(x, known, {.initial_hidden = described(lod::DataType::FP32, {6, 4})}),
                       doctest::Contains("lstm: initial_hidden: rows of shape {4}, expected {3}"), lod::ShapeMismatch);
}

TEST_CASE("lstm_cell: a loop over steps gives the bits of lstm, products beforehand too, and its gradients") {
  for_each_type(FloatingTypes(), []<class T>(std::type_identity<T>) {
    using View = lod::LoDTensorView<const T>;
    Engine engine(8);
    for (const std::int64_t size : {1, 17}) {
      const lod::CpuExecutor executor(2);
      const auto weights = random_lstm_weights<T>(engine, 3, size, true, size == 17, size == 17 ? 6 : 0);
      const std::int64_t width = weights.recurrent.rows();
      const lod::LstmCellOptions limits{.cell_clip = size == 17 ? 0.3 : 0.0, .projection_clip = size == 17 ? 0.1 : 0.0};
      const auto x = real_numbers<T>(engine, LoD::from_lengths({{2, 0, 5, 1}}), {3});
      const auto hidden = small_reals<T>(engine, {4, width}), cell = small_reals<T>(engine, {4, size});
      const auto y = lod::lstm(executor, x, weights,
                               {.initial_hidden = hidden,
                                .initial_cell = cell,
                                .cell_clip = limits.cell_clip,
                                .projection_clip = limits.projection_clip});
      const lod::RankTable table(x.lod());
      const auto first = lod::reorder_lod_tensor_by_rank(executor, hidden, table),
                 first_cell = lod::reorder_lod_tensor_by_rank(executor, cell, table);
      const lod::LstmWeights<T> without_input{{}, weights.recurrent, {}, weights.peepholes, weights.projection};
      for (const bool is_projected : {false, true}) {
        const auto steps = lod::to_time_major(
            executor, is_projected ? lod::linear(executor, x, weights.input, {.bias = weights.bias}) : x, table);
        const auto& by = is_projected ? without_input : weights;
        lod::TimeMajor<T> h(table, {width}), c(table, {size}), gates(table, {4 * size});
        // What stands before step t, for the sequences that take it.
        const auto before = [&](const lod::TimeMajor<T>& states, const LoDTensor<T>& initial, std::int64_t t) -> View {
          return (t > 0 ? states.step(t - 1) : initial.view()).between(0, table.active(t));
        };
        for (std::int64_t t = 0; t < table.steps(); ++t) {
          lod::lstm_cell_into(executor, steps.step(t), before(h, first, t), before(c, first_cell, t), by, limits,
                              h.step(t), c.step(t), gates.step(t));
        }
        CHECK(same_bits(lod::from_time_major(executor, h, table), y.hidden));

        if constexpr (std::is_same_v<T, double>) {
          const auto expected = lod::lstm_grad(executor, y.hidden, x, weights, y.trace);
          lod::LstmWeights<T> dweights{LoDTensor<T>(by.input.shape()), LoDTensor<T>(by.recurrent.shape()),
                                       LoDTensor<T>(by.bias.shape()), LoDTensor<T>(by.peepholes.shape()),
                                       LoDTensor<T>(by.projection.shape())};
          lod::TimeMajor<T> dx(table, {steps.values().row_size()});
          LoDTensor<T> dstate({0, width}), dcell({0, size});
          for (std::int64_t t = table.steps(); t-- > 0;) {
            // The gradient with respect to h is h, plus what the next step gave.
            LoDTensor<T> dh = LoDTensor<T>::copy_of(h.step(t)), dc({dh.rows(), size}), next_state, next_cell;
            for (std::int64_t i = 0; i < dstate.rows() * width; ++i) dh.data()[i] += dstate.data()[i];
            std::copy_n(dcell.data(), dcell.rows() * size, dc.data());
            lod::lstm_cell_grad_into(
                executor, dh, dc, steps.step(t), before(h, first, t), before(c, first_cell, t), by, c.step(t),
                gates.step(t),
                {.accumulate = true, .cell_clip = limits.cell_clip, .projection_clip = limits.projection_clip},
                dx.step(t), dweights, next_state, next_cell);
            dstate = next_state;
            dcell = next_cell;
          }
          const auto same = [](const auto& a, const auto& b) {
            return a.shape() == b.shape() && std::ranges::equal(a.values(), b.values(), [](T u, T v) {
                     return std::abs(u - v) <= 1e-12 * std::max(1.0, std::abs(v));
                   });
          };
          CHECK(same(dweights.recurrent, expected.weights.recurrent));
          if (size == 17) {
            CHECK(same(dweights.peepholes, expected.weights.peepholes));
            CHECK(same(dweights.projection, expected.weights.projection));
          }
          CHECK(same(dstate, lod::reorder_lod_tensor_by_rank(expected.initial_hidden, table).between(0, 3)));
          const auto by_batch = lod::from_time_major(executor, dx, table);
          if (!is_projected) {
            CHECK(same(by_batch, expected.x));
            CHECK(same(dweights.input, expected.weights.input));
            CHECK(same(dweights.bias, expected.weights.bias));
          } else {
            const auto d = lod::linear_grad(executor, by_batch, x, weights.input);
            CHECK(same(d.dx, expected.x));
            CHECK(same(d.dweight, expected.weights.input));
          }
        }
      }
    }
  });
}

TEST_CASE("lstm_cell: without rows, without states, and bad arguments, which change nothing") {
  Engine engine(9);
  const auto weights = random_lstm_weights<float>(engine, 3, 2, true, true);
  const auto none = LoDTensor<float>({0, 2});
  const auto y = lod::lstm_cell(LoDTensor<float>({0, 3}), none, none, weights);
  CHECK(y.hidden.shape() == lod::Shape{0, 2});
  const auto nothing = lod::lstm_cell_grad(none, none, LoDTensor<float>({0, 3}), none, none, weights, y.cell, y.gates);
  CHECK(std::ranges::all_of(nothing.weights.recurrent.values(), [](float number) { return number == 0; }));
  const auto x = real_numbers<float>(engine, {2, 3});
  const auto zeros = LoDTensor<float>({2, 2});
  const auto started = lod::lstm_cell(x, none, none, weights);
  CHECK(same_bits(started.hidden, lod::lstm_cell(x, zeros, zeros, weights).hidden));
  const auto d = lod::lstm_cell_grad(zeros, none, x, none, none, weights, started.cell, started.gates);
  CHECK(d.hidden.shape() == lod::Shape{2, 2});
  const auto inferred = lod::infer_lstm_cell(describe(x), describe(none), describe(none),
                                             {describe(weights.input), describe(weights.recurrent)});
  check_inferred(started.hidden, inferred.hidden);
  check_inferred(started.gates, inferred.gates);
  const auto wide = described(lod::DataType::FP32, {2, 8});
  CHECK(lod::infer_lstm_cell(wide, {}, {}, {{}, describe(weights.recurrent)}).gates == wide);
  CHECK_THROWS_AS(lod::infer_lstm_cell(wide, {}, {}, {{}, described(lod::DataType::FP32, {3, 12})}),
                  lod::ShapeMismatch);

  const lod::CpuExecutor executor(1);
  LoDTensor<float> h({1, 1}), c, gates;
  const auto run = [&](const auto& at, const auto& hidden, const auto& by) {
    return [&] { lod::lstm_cell_into(executor, at, hidden, zeros, by, h, c, gates); };
  };
  check_throws<lod::ShapeMismatch>(run(x, LoDTensor<float>({3, 2}), weights), "lstm_cell: hidden: 3 rows, expected 2",
                                   h);
  check_throws<lod::ShapeMismatch>(run(LoDTensor<float>({2, 4}), zeros, weights),
                                   "lstm_cell: weights.input of shape {3, 8}, expected {4, 8}", h);
  const lod::LstmWeights<float> without_input{{}, weights.recurrent};
  check_throws<lod::ShapeMismatch>(run(x, zeros, without_input),
                                   "lstm_cell: weights.input of shape {0}, expected {3, 8}", h);
  lod::LstmWeights<float> dweights;
  LoDTensor<float> dx({1, 1}), dh, dc;
  const auto grad = [&](const auto& new_cell, bool accumulate) {
    return [&, accumulate] {
      lod::lstm_cell_grad_into(executor, zeros, zeros, x, zeros, zeros, weights, new_cell, started.gates,
                               {.accumulate = accumulate}, dx, dweights, dh, dc);
    };
  };
  check_throws<lod::ShapeMismatch>(grad(none, false), "lstm_cell_grad: new_cell: 0 rows, expected 2", dx);
  check_throws<lod::ShapeMismatch>(
      grad(started.cell, true),
      "lstm_cell_grad: dweights.input: shape {0}, expected {3, 8}, that of the weights, to add to", dx);
}
