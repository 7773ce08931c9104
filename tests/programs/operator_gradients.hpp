// SPDX-License-Identifier: Apache-2.0
/// @file
/// The gradients of operators, as these describe them.
#pragma once

#include "programs/one_operator.hpp"
#include "programs/other_libraries.hpp"
#include "support/count_allocations.hpp"
#include "support/gradient.hpp"
#include "support/random_lod.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace lod_test {

/// An operator, and the inputs for which no gradient is wanted beside those that are not of real numbers.
struct GradientSample {
  std::string type;
  std::vector<std::pair<std::string, std::vector<lod::AnyLoDTensor>>> inputs;
  std::vector<std::string> outputs;  ///< of the first one gradients are taken; `MeanOut=Mean0` into an input
  Attrs attrs = {};
  std::set<std::string, std::less<>> constants = {};
  bool has_floats = true;  ///< false: double alone

  lod::OpDesc desc() const {
    Arguments in, out;
    for (const auto& one : inputs) {
      in.emplace_back(one.first, std::vector<std::string>());
      for (std::size_t i = 0; i < one.second.size(); ++i) in.back().second.push_back(name(one.first, i));
    }
    for (const std::string& output : outputs) {
      const std::size_t equals = output.find('=');
      out.push_back({output.substr(0, equals), {equals == output.npos ? output : output.substr(equals + 1)}});
    }
    return op(type, in, out, attrs);
  }
  static std::string name(const std::string& parameter, std::size_t i) { return parameter + std::to_string(i); }
};

/// The same numbers as float.
inline lod::AnyLoDTensor in_float(const lod::AnyLoDTensor& x) {
  if (x.data_type() != lod::DataType::FP64) return x;
  lod::LoDTensor<float> y;
  y.resize(x.lod(), x.row_shape(), x.rows());
  const auto values = x.view<double>().values();
  std::transform(values.begin(), values.end(), y.data(), [](double v) { return static_cast<float>(v); });
  return y;
}

/// Checks the gradients that an operator describes: on double against differences, on float against those; twice, since
/// a second run must allocate nothing.
inline void check_gradients(Engine& random, const GradientSample& sample) {
  CAPTURE(first_seed());
  CAPTURE(sample.type);
  const lod::OpDesc op = sample.desc();
  lod::Feed feed;
  lod::GradientArguments::Names constants;
  std::vector<std::string> inputs, gradients;
  for (const auto& [parameter, tensors] : sample.inputs) {
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const std::string name = GradientSample::name(parameter, i);
      feed[name] = tensors[i];
      if (tensors[i].data_type() != lod::DataType::FP64 || sample.constants.contains(parameter)) {
        constants.insert(name);
      } else {
        inputs.push_back(name);
        gradients.push_back(name + "@GRAD");
      }
    }
  }
  const auto type = lod::operators().find(sample.type);
  REQUIRE(type);
  REQUIRE(type->gradient);
  std::vector<lod::OpDesc> ops = {op};
  for (lod::OpDesc& one : type->gradient(lod::GradientArguments(op, constants))) ops.push_back(std::move(one));
  lod::Scope scope;
  const lod::CpuExecutor executor(1);
  lod::PreparedProgram forward(executor, program_of({op}), scope, {sample.outputs[0]});
  lod::PreparedProgram both(executor, program_of(ops), scope, gradients);
  const std::string seed = sample.outputs[0] + "@GRAD";

  lod::AnyLoDTensor dy;
  std::vector<std::vector<double>> slopes;
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    CAPTURE(inputs[k]);
    auto x = feed[inputs[k]].copy<double>();
    const lod::Feed before = feed;
    check_gradient(
        random, x,
        [&](const lod::LoDTensor<double>& moved) {
          feed[inputs[k]] = lod::LoDTensor<double>(moved);
          return forward.run(feed)[0].copy<double>();
        },
        [&](const lod::LoDTensor<double>& weights) {
          dy = lod::LoDTensor<double>(weights);
          feed[seed] = dy;
          auto found = both.run(feed)[k].copy<double>();
          feed.erase(seed);
          return found;
        });
    feed = before;
  }
  feed[seed] = dy;
  for (const lod::AnyLoDTensor& one : both.run(feed)) slopes.push_back(numbers<double>(one));
  if (!sample.has_floats) return;
  for (auto& one : feed) one.second = in_float(one.second);
  both.run(feed);
  both.run(feed);
  const std::int64_t before = allocations;
  const auto& found = both.run(feed);
  // What was fed, and is written, is not kept.
  const bool keeps_all = std::none_of(sample.outputs.begin(), sample.outputs.end(),
                                      [](const std::string& output) { return output.find('=') != output.npos; });
  if (counts_allocations && keeps_all && !is_by_dnnl) CHECK(allocations == before);
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    CAPTURE(inputs[k]);
    const auto near = numbers<float>(found[k]);
    REQUIRE(near.size() == slopes[k].size());
    for (std::size_t i = 0; i < near.size(); ++i) {
      CHECK(static_cast<double>(near[i]) == doctest::Approx(slopes[k][i]).epsilon(1e-4).scale(1));
    }
  }
  check_on_thrust(program_of(ops), {.feed = feed, .fetch = gradients}, found);
}

}  // namespace lod_test
