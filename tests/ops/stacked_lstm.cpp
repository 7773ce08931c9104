// SPDX-License-Identifier: Apache-2.0
#include "support/check_throws.hpp"
#include "support/counting_resource.hpp"
#include "support/element_types.hpp"
#include "support/executors.hpp"
#include "support/gradient.hpp"
#include "support/inferred.hpp"
#include "support/random_batch.hpp"
#include "support/random_lod.hpp"
#include "support/side_by_side.hpp"
#include <lod/lod.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

using lod::LoD;
using lod::LoDTensor;
using namespace lod_test;

namespace {

template <class T>
lod::LstmWeights<T> random_lstm_direction(Engine& engine, std::int64_t inputs, std::int64_t size,
                                          std::int64_t projected, bool peepholes) {
  return {small_reals<T>(engine, {inputs, 4 * size}), small_reals<T>(engine, {projected ? projected : size, 4 * size}),
          small_reals<T>(engine, {4 * size}), peepholes ? small_reals<T>(engine, {3 * size}) : LoDTensor<T>(),
          projected ? small_reals<T>(engine, {size, projected}) : LoDTensor<T>()};
}

/// Three layers: both directions, of different sizes; backward alone, with peepholes; forward, and backward projected.
template <class T>
lod::LstmLayers<T> random_lstm_layers(Engine& engine, std::int64_t inputs) {
  return {{.forward = random_lstm_direction<T>(engine, inputs, 3, 0, false),
           .backward = random_lstm_direction<T>(engine, inputs, 9, 0, true)},
          {.backward = random_lstm_direction<T>(engine, 12, 5, 0, true)},
          {.forward = random_lstm_direction<T>(engine, 5, 2, 0, false),
           .backward = random_lstm_direction<T>(engine, 5, 4, 3, false)}};
}
constexpr std::int64_t last_lstm_width = 5, all_lstm_states = 3 + 9 + 5 + 2 + 3, all_lstm_cells = 3 + 9 + 5 + 2 + 4;

/// The header's definition: `lstm` for each direction, its results side by side, and dropout between the layers.
template <class T, class E>
lod::Lstm<T> one_lstm_after_the_other(const E& executor, const lod::LoDTensorView<const T>& x,
                                      const lod::LstmLayers<T>& layers, const lod::StackedLstmOptions<T>& options) {
  lod::Lstm<T> all;
  LoDTensor<T> input = LoDTensor<T>::copy_of(x);
  std::vector<LoDTensor<T>> hidden, cell;
  std::int64_t state = 0, numbers = 0;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    std::vector<LoDTensor<T>> shown;
    for (const bool reverse : {false, true}) {
      const auto& weights = reverse ? layers[i].backward : layers[i].forward;
      if (weights.recurrent.rows() == 0) continue;
      const std::int64_t width = weights.recurrent.rows(), size = weights.recurrent.row_size() / 4;
      const auto h = some_columns<T>(options.initial_hidden, state, width),
                 c = some_columns<T>(options.initial_cell, numbers, size);
      auto y = lod::lstm(executor, input, weights,
                         {.initial_hidden = h,
                          .initial_cell = c,
                          .reverse = reverse,
                          .level = options.level,
                          .cell_clip = options.cell_clip,
                          .projection_clip = options.projection_clip});
      state += width;
      numbers += size;
      shown.push_back(std::move(y.hidden));
      hidden.push_back(std::move(y.last_hidden));
      cell.push_back(std::move(y.last_cell));
    }
    input = side_by_side(shown);
    if (options.dropout > 0 && i + 1 < layers.size()) {
      input = lod::sequence_dropout(executor, input,
                                    {.probability = options.dropout, .seed = options.seed * layers.size() + i});
    }
  }
  all.hidden = std::move(input);
  all.last_hidden = side_by_side(hidden);
  all.last_cell = side_by_side(cell);
  return all;
}

template <class A, class B>
bool same_stacked_run(const A& a, const B& b) {
  return same_bits(a.hidden, b.hidden) && same_bits(a.last_hidden, b.last_hidden) &&
         same_bits(a.last_cell, b.last_cell);
}
template <class T>
std::vector<const LoDTensor<T>*> tensors_of_layers(const lod::LstmLayers<T>& layers) {
  std::vector<const LoDTensor<T>*> all;
  for (const auto& layer : layers) {
    for (const auto* w : {&layer.forward, &layer.backward}) {
      all.insert(all.end(), {&w->input, &w->recurrent, &w->bias, &w->peepholes, &w->projection});
    }
  }
  return all;
}

}  // namespace

TEST_CASE("stacked_lstm: the bits of one lstm after the other, for slices of every type, depth and level") {
  for_each_type(FloatingTypes(), []<class T>(std::type_identity<T>) {
    for_each_random_lod(3, 1, 5, [](Engine& engine, const Lengths& lengths) {
      const auto x = real_numbers<T>(engine, LoD::from_lengths(lengths), {2, 2});
      const auto slice = x.between(random_number(engine, 0, x.size() > 0), x.size());
      const auto layers = random_lstm_layers<T>(engine, 4);
      const int level = static_cast<int>(random_number(engine, 0, x.levels() - 1));
      const std::int64_t sequences = slice.lod_view().size(level);
      const auto hidden = small_reals<T>(engine, {sequences, all_lstm_states}),
                 cell = small_reals<T>(engine, {sequences, all_lstm_cells});
      const lod::CpuExecutor executor(2);
      for (const lod::StackedLstmOptions<T>& options :
           {lod::StackedLstmOptions<T>{.level = level},
            lod::StackedLstmOptions<T>{.initial_cell = cell, .level = level, .cell_clip = 0.25},
            lod::StackedLstmOptions<T>{.initial_hidden = hidden,
            .initial_cell = cell,
            .level = level,
            .projection_clip = 0.125,
            .dropout = 0.4,
            .seed = 7}}) {
        const auto y = lod::stacked_lstm(executor, slice, layers, options);
        CHECK(same_stacked_run(y, one_lstm_after_the_other<T>(executor, slice.view(), layers, options)));
        CHECK(y.hidden.row_shape() == lod::Shape{last_lstm_width});
        CHECK(y.last_hidden.lod() == slice.lod().levels_above(level));
      }
      // A single layer of one direction is lstm.
      const lod::LstmLayers<T> one{{.forward = layers[0].forward}};
      CHECK(same_stacked_run(lod::stacked_lstm(slice, one, {.level = level}),
                             lod::lstm(slice, layers[0].forward, {.level = level})));
    });
  });
}

TEST_CASE("stacked_lstm: the same bits on every executor, for any number of threads") {
  Engine engine(4);
  const auto layers = random_lstm_layers<float>(engine, 20);
  const std::int64_t count = grain / 320;
  const auto x = real_numbers<float>(engine, giant_among_short(engine, count, count / 2), {20});
  const lod::StackedLstmOptions<float> options{.dropout = 0.25, .seed = 3};
  const auto same_gradients = [&](const auto& a, const auto& b) {
    const auto left = tensors_of_layers(a.layers), right = tensors_of_layers(b.layers);
    for (std::size_t i = 0; i < left.size(); ++i) {
      if (!same_bits(*left[i], *right[i])) return false;
    }
    return same_bits(a.x, b.x) && same_bits(a.initial_hidden, b.initial_hidden) &&
           same_bits(a.initial_cell, b.initial_cell);
  };
  for_each_executor([&](const auto& executor) {
    const auto alone = working_alone(executor);
    const auto expected = lod::stacked_lstm(alone, x, layers, options);
    const auto y = lod::stacked_lstm(executor, x, layers, options);
    CHECK(same_stacked_run(y, expected));
    CHECK(same_gradients(
        lod::stacked_lstm_grad(executor, y.hidden, x, layers, y.trace, {.dlast_cell = y.last_cell}),
        lod::stacked_lstm_grad(alone, expected.hidden, x, layers, expected.trace, {.dlast_cell = y.last_cell})));
  });
}

TEST_CASE("stacked_lstm: a second part of sequences, with the states that the first left") {
  Engine engine(3);
  lod::LstmLayers<double> layers{{.forward = random_lstm_direction<double>(engine, 3, 5, 0, true)},
                                 {.forward = random_lstm_direction<double>(engine, 5, 4, 2, false)}};
  const auto x = real_numbers<double>(engine, LoD::from_lengths({{7}}), {3});
  const auto whole = lod::stacked_lstm(x, layers);
  const auto part = [&](std::int64_t begin, std::int64_t end) {
    return LoDTensor<double>::copy_of(x[0].between(begin, end)).with_lod(LoD::from_lengths({{end - begin}}));
  };
  const auto a = lod::stacked_lstm(part(0, 3), layers);
  const auto b = lod::stacked_lstm(part(3, 7), layers, {.initial_hidden = a.last_hidden, .initial_cell = a.last_cell});
  CHECK(same_bits(b.hidden.with_lod(LoD()), whole.hidden[0].between(3, 7)));
  CHECK(same_bits(b.last_hidden, whole.last_hidden));
  CHECK(same_bits(b.last_cell, whole.last_cell));
}

TEST_CASE("stacked_lstm: no sequences, and empty ones only") {
  Engine engine(1);
  const auto layers = random_lstm_layers<float>(engine, 3);
  for (const auto& lengths : std::vector<Lengths>{{{}}, {{0}}, {{0, 0}}, {{2, 0}, {0, 0}}}) {
    const LoDTensor<float> x(LoD::from_lengths(lengths), {3});
    const std::int64_t sequences = x.lod().size(x.levels() - 1);
    const auto hidden = small_reals<float>(engine, {sequences, all_lstm_states});
    const auto y = lod::stacked_lstm(x, layers, {.initial_hidden = hidden});
    CHECK(y.hidden.lod() == x.lod());
    CHECK(y.hidden.shape() == lod::Shape{0, last_lstm_width});
    CHECK(std::ranges::equal(y.last_hidden.values(), hidden.values()));
    CHECK(y.last_cell.shape() == lod::Shape{sequences, all_lstm_cells});
    const auto d = lod::stacked_lstm_grad(y.hidden, x, layers, y.trace, {.dlast_hidden = hidden});
    CHECK(same_bits(d.x, x));
    CHECK(std::ranges::equal(d.initial_hidden.values(), hidden.values()));
    for (const auto* dweights : tensors_of_layers(d.layers)) {
      CHECK(std::ranges::all_of(dweights->values(), [](float number) { return number == 0; }));
    }
  }
}

TEST_CASE("stacked_lstm_grad: agrees with differences, by everything and through every result") {
  Engine engine(6);
  for (const double dropout : {0.0, 0.3}) {
    INFO("dropout ", dropout);
    auto layers = random_lstm_layers<double>(engine, 3);
    auto x = real_numbers<double>(engine, LoD::from_lengths({{2, 0, 2}, {3, 0, 1, 3}}), {3});
    auto hidden = small_reals<double>(engine, {4, all_lstm_states}),
         cell = small_reals<double>(engine, {4, all_lstm_cells});
    const auto run = [&] {
      return lod::stacked_lstm(x, layers,
                               {.initial_hidden = hidden, .initial_cell = cell, .dropout = dropout, .seed = 5});
    };
    // All three results in one tensor, so that one random gradient goes through each.
    const auto check = [&](LoDTensor<double>& at, const auto& member) {
      check_gradient(
          engine, at,
          [&](const auto& now) {
            const LoDTensor<double> before = at;
            at = now;
            const auto y = run();
            at = before;
            return numbers_in_a_row<double>({&y.hidden, &y.last_hidden, &y.last_cell});
          },
          [&](const auto& d) {
            LoDTensor<double> dhidden({x.rows(), last_lstm_width}), dlast({4, all_lstm_states}),
                dcell({4, all_lstm_cells});
            from_numbers_in_a_row<double>(d, {&dhidden, &dlast, &dcell});
            const auto gradients =
                lod::stacked_lstm_grad(dhidden, x, layers, run().trace, {.dlast_hidden = dlast, .dlast_cell = dcell});
            return LoDTensor<double>(member(gradients)).with_lod(at.lod());
          });
    };
    check(x, [](const auto& d) { return d.x; });
    check(hidden, [](const auto& d) { return d.initial_hidden; });
    check(cell, [](const auto& d) { return d.initial_cell; });
    const std::size_t count = tensors_of_layers(layers).size();
    for (std::size_t i = 0; i < count; ++i) {
      auto& weights = const_cast<LoDTensor<double>&>(*tensors_of_layers(layers)[i]);
      if (weights.rows() > 0) check(weights, [&](const auto& d) { return *tensors_of_layers(d.layers)[i]; });
    }
  }
}

TEST_CASE("stacked_lstm: bad arguments throw and change nothing") {
  Engine engine(2);
  const auto x = real_numbers<float>(engine, LoD::from_lengths({{2, 1}}), {3});
  const auto layers = random_lstm_layers<float>(engine, 3);
  const lod::CpuExecutor executor(1);
  LoDTensor<float> hidden({1, 1}), last_hidden, last_cell;
  lod::StackedLstmTrace<float> trace;
  const auto run = [&](const auto& input, const auto& by, const lod::StackedLstmOptions<float>& options) {
    return
        [&, options] { lod::stacked_lstm_into(executor, input, by, options, hidden, last_hidden, last_cell, trace); };
  };
  check_throws<lod::InvalidLoD>(run(LoDTensor<float>({3, 3}), layers, {}), "stacked_lstm: the tensor has no level",
                                hidden);
  check_throws<lod::OutOfRange>(run(x, layers, {.level = 1}), "level 1 of a LoD with 1 levels", hidden);
  const lod::LstmLayers<float> none;
  check_throws<lod::ShapeMismatch>(run(x, none, {}), "stacked_lstm: no layers, expected at least one", hidden);
  auto empty = layers;
  empty[1] = {};
  check_throws<lod::ShapeMismatch>(run(x, empty, {}), "stacked_lstm: layers[1] has weights for no direction", hidden);
  auto wrong = layers;
  wrong[2].backward.input = LoDTensor<float>({4, 16});
  check_throws<lod::ShapeMismatch>(
      run(x, wrong, {}), "stacked_lstm: layers[2].backward: weights.input of shape {4, 16}, expected {5, 16}", hidden);
  check_throws<lod::OutOfRange>(run(x, layers, {.cell_clip = -1}), "layers[0].forward: cell_clip -1", hidden);
  check_throws<lod::OutOfRange>(run(x, layers, {.dropout = 1.5}), "stacked_lstm: probability 1.5", hidden);
  const LoDTensor<float> states({2, all_lstm_states}), cells({2, all_lstm_cells}), three({3, all_lstm_states});
  check_throws<lod::ShapeMismatch>(run(x, layers, {.initial_hidden = three}),
                                   "stacked_lstm: initial_hidden: 3 rows, expected 2", hidden);
  check_throws<lod::ShapeMismatch>(run(x, layers, {.initial_cell = states}),
                                   "stacked_lstm: initial_cell: rows of shape {22}, expected {23}", hidden);
  CHECK(trace.layers.empty());
  auto overlapping = layers;
  check_throws<std::invalid_argument>(
      [&] {
        lod::stacked_lstm_into(executor, x, overlapping, overlapping[1].backward.bias, last_hidden, last_cell, trace);
      },
      "stacked_lstm: hidden overlaps weights.bias", overlapping[1].backward.bias);

  const auto y = lod::stacked_lstm(x, layers);
  LoDTensor<float> dx({1, 1}), dh, dc;
  lod::LstmLayers<float> dlayers;
  const auto grad = [&](const auto& dhidden, const auto& of, const auto& by, const auto& from,
                        const lod::StackedLstmGradOptions<float>& options) {
    return [&, options] { lod::stacked_lstm_grad_into(executor, dhidden, of, by, from, options, dx, dlayers, dh, dc); };
  };
  const char* const not_its = "stacked_lstm_grad: the trace is not that of a run over x with these weights";
  const auto other = real_numbers<float>(engine, LoD::from_lengths({{1, 2}}), {3});
  check_throws<lod::ShapeMismatch>(grad(y.hidden, other, layers, y.trace, {}), not_its, dx);
  check_throws<lod::ShapeMismatch>(grad(y.hidden, x, layers, lod::StackedLstmTrace<float>(), {}), not_its, dx);
  const lod::LstmLayers<float> first{layers[0]};
  check_throws<lod::ShapeMismatch>(grad(y.hidden, x, first, y.trace, {}), not_its, dx);
  auto turned = layers;
  std::swap(turned[1].forward, turned[1].backward);
  check_throws<lod::ShapeMismatch>(grad(y.hidden, x, turned, y.trace, {}), not_its, dx);
  check_throws<lod::ShapeMismatch>(grad(states, x, layers, y.trace, {}), "stacked_lstm_grad: dhidden: 2 rows", dx);
  check_throws<lod::ShapeMismatch>(grad(y.hidden, x, layers, y.trace, {.dlast_cell = states}),
                                   "stacked_lstm_grad: dlast_cell: rows of shape {22}, expected {23}", dx);
}

TEST_CASE("infer_stacked_lstm: allows what the operations give, and refuses what they do") {
  Engine engine(5);
  const auto layers = random_lstm_layers<float>(engine, 2);
  const auto described_weights = [](const lod::LstmWeights<float>& w) {
    return lod::LstmWeightsDesc{describe(w.input), describe(w.recurrent), describe(w.bias), describe(w.peepholes),
                                describe(w.projection)};
  };
  std::vector<lod::LstmLayerDesc> known;
  for (const auto& layer : layers) {
    known.push_back({described_weights(layer.forward), described_weights(layer.backward)});
  }
  for_each_random_batch<float>(1, {2}, [&](Engine&, const LoDTensor<float>& x) {
    for (int level = 0; level < x.levels(); ++level) {
      const auto y = lod::stacked_lstm(x, layers, {.level = level});
      const auto d = lod::stacked_lstm_grad(y.hidden, x, layers, y.trace);
      for (const bool blanked : {false, true}) {
        const auto desc = blanked ? blank(describe(x)) : describe(x);
        const auto inferred = lod::infer_stacked_lstm(desc, known, {.level = level});
        check_inferred(y.hidden, inferred.hidden);
        check_inferred(y.last_hidden, inferred.last_hidden);
        check_inferred(y.last_cell, inferred.last_cell);
        const auto gradients = lod::infer_stacked_lstm_grad(desc, known, {.level = level});
        check_inferred(d.x, gradients.x);
        check_inferred(d.layers[2].backward.projection, gradients.layers[2].backward.projection);
        check_inferred(d.initial_cell, gradients.initial_cell);
      }
    }
  });
  const auto x = described(lod::DataType::FP32, {15, 2}, 1);
  CHECK(lod::infer_stacked_lstm(x, known).last_cell == described(lod::DataType::FP32, {-1, all_lstm_cells}));
  CHECK_THROWS_WITH_AS(static_cast<void>(lod::infer_stacked_lstm(x, {})), doctest::Contains("stacked_lstm: no layers"),
                       lod::ShapeMismatch);
  auto wrong = known;
  wrong[1].backward.input = described(lod::DataType::FP32, {11, 20});
  CHECK_THROWS_WITH_AS(static_cast<void>(lod::infer_stacked_lstm(x, wrong)),
                       doctest::Contains("stacked_lstm: layers[1].backward: weights.input: 11 rows, expected 12"),
                       lod::ShapeMismatch);
}
