// SPDX-License-Identifier: Apache-2.0
// Gradients of operators, against differences. paddle_training_test.py compares training with PaddlePaddle itself.
#include "programs/one_operator.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <random>
#include <string>
#include <utility>
#include <vector>

using lod::AnyLoDTensor;
using lod::Shape;
using lod_test::Arguments;
using lod_test::attr;
using lod_test::Attrs;
using lod_test::numbers;
using lod_test::op;
using lod_test::plain;
using lod_test::program_of;

namespace {

using Doubles = std::vector<double>;

/// An operator on numbers between 0.2 and 2, of which every second one is negative unless they must be `positive`.
struct Sample {
  std::string type;
  std::vector<std::pair<std::string, std::vector<Shape>>> inputs;
  std::string output = "Out";
  Attrs attrs = {};
  std::vector<std::string> hidden = {};  ///< further outputs
  bool positive = false;
  std::vector<std::pair<std::string, AnyLoDTensor>> constants = {};  ///< inputs without a gradient
};

/// The operator, and the gradients of its inputs from one of its output, both fed.
struct Trial {
  lod::OpDesc forward = {};
  lod::Feed feed = {};
  std::string output = {};
  std::vector<std::string> inputs = {};

  std::vector<AnyLoDTensor> run(std::vector<lod::OpDesc> ops, const std::vector<std::string>& fetch) const {
    lod::Scope scope;
    return lod::run(program_of(std::move(ops)), scope, {.feed = feed, .fetch = fetch});
  }
  Doubles value() const { return numbers<double>(run({forward}, {output})[0]); }
};

lod::LoDTensor<double> drawn(const Shape& shape, std::mt19937& random, bool positive) {
  std::uniform_real_distribution<double> draw(0.2, 2);
  Doubles values(static_cast<std::size_t>(shape.elements()));
  double sign = 1;
  for (double& value : values) value = draw(random) * (sign = positive ? 1 : -sign);
  return plain<double>(shape, values);
}

Trial trial_of(const Sample& sample, std::mt19937& random) {
  Trial trial{.output = sample.output};
  Arguments inputs, outputs{{sample.output, {sample.output}}};
  for (const auto& [parameter, shapes] : sample.inputs) {
    auto& names = inputs.emplace_back(parameter, std::vector<std::string>()).second;
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      names.push_back(parameter + std::to_string(i));
      trial.feed.emplace(names.back(), drawn(shapes[i], random, sample.positive));
      trial.inputs.push_back(names.back());
    }
  }
  for (const auto& [parameter, value] : sample.constants) {
    inputs.emplace_back(parameter, std::vector<std::string>{parameter});
    trial.feed.emplace(parameter, value);
  }
  for (const std::string& parameter : sample.hidden) outputs.push_back({parameter, {parameter}});
  trial.forward = op(sample.type, inputs, outputs, sample.attrs);
  return trial;
}

void check_gradient(const Sample& sample) {
  CAPTURE(sample.type);
  std::mt19937 random(7);
  Trial trial = trial_of(sample, random);
  lod::GradientArguments::Names constants;
  for (const auto& one : sample.constants) constants.insert(one.first);
  const auto found = lod::operators().find(sample.type);
  REQUIRE(found->gradient);
  std::vector<lod::OpDesc> ops = found->gradient(lod::GradientArguments(trial.forward, constants));
  ops.insert(ops.begin(), trial.forward);
  const AnyLoDTensor y = trial.run({trial.forward}, {trial.output})[0];
  const auto dy = drawn(y.shape(), random, false);
  std::vector<std::string> names;
  for (const std::string& name : trial.inputs) names.push_back(lod::gradient_name(name));
  lod::Feed given = trial.feed;
  given.emplace(lod::gradient_name(trial.output), dy);
  std::swap(given, trial.feed);
  const auto gradients = trial.run(ops, names);
  std::swap(given, trial.feed);
  for (std::size_t i = 0; i < trial.inputs.size(); ++i) {
    AnyLoDTensor& x = trial.feed.at(trial.inputs[i]);
    CAPTURE(trial.inputs[i]);
    REQUIRE(gradients[i].shape() == x.shape());
    const Doubles gradient = numbers<double>(gradients[i]);
    for (std::size_t k = 0; k < gradient.size(); ++k) {
      double difference = 0;
      for (const double step : {1e-5, -1e-5}) {
        const AnyLoDTensor kept = x;
        lod::LoDTensor<double> moved = x.copy<double>();
        moved.values()[k] += step;
        x = moved;
        const Doubles value = trial.value();
        for (std::size_t j = 0; j < value.size(); ++j) difference += value[j] * dy.values()[j] / (2 * step);
        x = kept;
      }
      CHECK(gradient[k] == doctest::Approx(difference).epsilon(1e-6).scale(1));
    }
  }
}

}  // namespace

TEST_CASE("activations: gradients are those of differences") {
  for (const char* const type :
       {"abs",        "brelu",      "ceil",       "cos",         "elu",          "erf",
        "exp",        "floor",      "gelu",       "hard_shrink", "hard_sigmoid", "hard_swish",
        "leaky_relu", "logsigmoid", "reciprocal", "relu",        "relu6",        "round",
        "sigmoid",    "silu",       "sin",        "softplus",    "softshrink",   "softsign",
        "square",     "stanh",      "swish",      "tanh",        "tanh_shrink",  "thresholded_relu"}) {
    check_gradient({type, {{"X", {Shape{3, 4}}}}});
  }
  for (const char* const type : {"log", "pow", "rsqrt", "sqrt"}) {
    check_gradient({.type = type, .inputs = {{"X", {Shape{3, 4}}}}, .attrs = {attr("factor", 1.5f)}, .positive = true});
  }
  const std::vector<std::pair<std::string, std::vector<Shape>>> x = {{"X", {Shape{3, 4}}}};
  check_gradient({"gelu", x, "Out", {attr("approximate", true)}});
  check_gradient({"clip", x, "Out", {attr("min", -0.5f), attr("max", 1.0f)}});
  check_gradient({"hard_swish", x, "Out", {attr("offset", 1.0f), attr("threshold", 2.0f)}});
  check_gradient({"swish", x, "Out", {attr("beta", 0.7f)}});
}
