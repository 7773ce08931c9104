// SPDX-License-Identifier: Apache-2.0
#include "support/check_throws.hpp"
#include "support/element_types.hpp"
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
lod::GruWeights<T> random_gru_direction(Engine& engine, std::int64_t inputs, std::int64_t size) {
  return {small_reals<T>(engine, {inputs, 3 * size}), small_reals<T>(engine, {size, 3 * size}),
          small_reals<T>(engine, {3 * size}), small_reals<T>(engine, {size})};
}
/// Both directions, of different sizes; backward alone.
template <class T>
lod::GruLayers<T> random_gru_layers(Engine& engine, std::int64_t inputs) {
  return {
      {.forward = random_gru_direction<T>(engine, inputs, 3), .backward = random_gru_direction<T>(engine, inputs, 9)},
      {.backward = random_gru_direction<T>(engine, 12, 5)}};
}
constexpr std::int64_t all_gru_states = 3 + 9 + 5;

}  // namespace

TEST_CASE("stacked_gru: the bits of one gru after the other, for slices of every type, depth and level") {
  for_each_type(FloatingTypes(), []<class T>(std::type_identity<T>) {
    for_each_random_lod(3, 1, 5, [](Engine& engine, const Lengths& lengths) {
      const auto x = real_numbers<T>(engine, LoD::from_lengths(lengths), {2, 2});
      const auto slice = x.between(random_number(engine, 0, x.size() > 0), x.size());
      const auto layers = random_gru_layers<T>(engine, 4);
      const int level = static_cast<int>(random_number(engine, 0, x.levels() - 1));
      const auto hidden = small_reals<T>(engine, {slice.lod_view().size(level), all_gru_states});
      for (const bool reset_after : {false, true}) {
        const auto y = lod::stacked_gru(slice, layers,
                                        {.initial_hidden = hidden,
                                         .level = level,
                                         .reset_after = reset_after,
                                         .origin_mode = !reset_after,
                                         .dropout = 0.4,
                                         .seed = 7});
        const auto run = [&](const auto& input, const lod::GruWeights<T>& weights, std::int64_t first, bool reverse) {
          const auto initial = some_columns<T>(hidden, first, weights.recurrent.rows());
          return lod::gru(input, weights,
                          {.initial_hidden = initial,
                           .reverse = reverse,
                           .level = level,
                           .reset_after = reset_after,
                           .origin_mode = !reset_after});
        };
        const auto forward = run(slice, layers[0].forward, 0, false),
                   backward = run(slice, layers[0].backward, 3, true);
        const auto joined = lod::sequence_dropout(side_by_side<T>({forward.hidden, backward.hidden}),
                                                  {.probability = 0.4, .seed = 7 * 2});
        const auto last = run(joined, layers[1].backward, 12, true);
        CHECK(same_bits(y.hidden, last.hidden));
        CHECK(same_bits(y.last_hidden, side_by_side<T>({forward.last_hidden, backward.last_hidden, last.last_hidden})));
      }
    });
  });
}

TEST_CASE("stacked_gru_grad: agrees with differences, by everything and through every result") {
  Engine engine(6);
  for (const double dropout : {0.0, 0.3}) {
    INFO("dropout ", dropout);
    auto layers = random_gru_layers<double>(engine, 3);
    auto x = real_numbers<double>(engine, LoD::from_lengths({{2, 0, 2}, {3, 0, 1, 3}}), {3});
    auto hidden = small_reals<double>(engine, {4, all_gru_states});
    const auto run = [&] {
      return lod::stacked_gru(x, layers,
                              {.initial_hidden = hidden, .reset_after = dropout > 0, .dropout = dropout, .seed = 5});
    };
    const auto check = [&](LoDTensor<double>& at, const auto& member) {
      check_gradient(
          engine, at,
          [&](const auto& now) {
            const LoDTensor<double> before = at;
            at = now;
            const auto y = run();
            at = before;
            return numbers_in_a_row<double>({&y.hidden, &y.last_hidden});
          },
          [&](const auto& d) {
            LoDTensor<double> dhidden({x.rows(), 5}), dlast({4, all_gru_states});
            from_numbers_in_a_row<double>(d, {&dhidden, &dlast});
            const auto gradients = lod::stacked_gru_grad(dhidden, x, layers, run().trace, {.dlast_hidden = dlast});
            return LoDTensor<double>(member(gradients)).with_lod(at.lod());
          });
    };
    check(x, [](const auto& d) { return d.x; });
    check(hidden, [](const auto& d) { return d.initial_hidden; });
    using Weights = lod::GruWeights<double>;
    for (auto member : {&Weights::input, &Weights::recurrent, &Weights::bias, &Weights::recurrent_bias}) {
      check(layers[0].forward.*member, [&](const auto& d) { return d.layers[0].forward.*member; });
      check(layers[0].backward.*member, [&](const auto& d) { return d.layers[0].backward.*member; });
      check(layers[1].backward.*member, [&](const auto& d) { return d.layers[1].backward.*member; });
    }
  }
}

TEST_CASE("stacked_gru: no sequences, bad arguments, and what infer_stacked_gru says") {
  Engine engine(2);
  const auto layers = random_gru_layers<float>(engine, 3);
  const LoDTensor<float> none(LoD::from_lengths({{0, 0}}), {3});
  const auto y = lod::stacked_gru(none, layers);
  CHECK(y.hidden.shape() == lod::Shape{0, 5});
  CHECK(y.last_hidden.shape() == lod::Shape{2, all_gru_states});
  CHECK(same_bits(lod::stacked_gru_grad(y.hidden, none, layers, y.trace).x, none));

  const auto x = real_numbers<float>(engine, LoD::from_lengths({{2, 1}}), {3});
  const lod::CpuExecutor executor(1);
  LoDTensor<float> hidden({1, 1}), last_hidden;
  lod::StackedGruTrace<float> trace;
  auto wrong = layers;
  wrong[1].backward.recurrent_bias = LoDTensor<float>({4});
  check_throws<lod::ShapeMismatch>(
      [&] { lod::stacked_gru_into(executor, x, wrong, hidden, last_hidden, trace); },
      "stacked_gru: layers[1].backward: weights.recurrent_bias of 4 numbers, expected 5 or none", hidden);
  const LoDTensor<float> states({2, 5});
  check_throws<lod::ShapeMismatch>(
      [&] { lod::stacked_gru_into(executor, x, layers, {.initial_hidden = states}, hidden, last_hidden, trace); },
      "stacked_gru: initial_hidden: rows of shape {5}, expected {17}", hidden);
  std::vector<lod::GruLayerDesc> described_layers;
  for (const auto& layer : layers) {
    const auto weights = [](const lod::GruWeights<float>& w) {
      return lod::GruWeightsDesc{describe(w.input), describe(w.recurrent), describe(w.bias),
                                 describe(w.recurrent_bias)};
    };
    described_layers.push_back({weights(layer.forward), weights(layer.backward)});
  }
  const auto z = lod::stacked_gru(x, layers);
  const auto inferred = lod::infer_stacked_gru(describe(x), described_layers);
  check_inferred(z.hidden, inferred.hidden);
  check_inferred(z.last_hidden, inferred.last_hidden);
  check_inferred(lod::stacked_gru_grad(z.hidden, x, layers, z.trace).initial_hidden,
                 lod::infer_stacked_gru_grad(describe(x), described_layers).initial_hidden);
}
