// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup descriptions
/// Programs that train: updates of parameters by the gradients of a loss.
///
///     lod::ProgramDesc startup;
///     lod::minimize(program, startup, "loss", lod::Adam{.learning_rate = 1e-3f});
///     lod::run(startup, scope);  // fills what the updates need
///     lod::PreparedProgram step(lod::CpuExecutor(), program, scope, {"loss"});
///     for (const lod::Feed& batch : batches) step.run(batch);
#pragma once

#include <lod/core/executor.hpp>
#include <lod/core/target.hpp>
#include <lod/program/backward.hpp>
#include <lod/program/program.hpp>

#include <concepts>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace lod::inline LOD_INTERFACE {

// Optimizers, with PaddlePaddle's names and defaults; <lod/ops/optimizers.hpp> has their formulas, and
// <lod/program/operators/dense_optimizers.hpp> those of the last five, which take no row-sparse gradients.

/// parameter -= learning_rate * gradient.
struct SGD {
  float learning_rate = 0.001f;
};
/// See `momentum`.
struct Momentum {
  float learning_rate = 0.001f;
  float momentum = 0.9f;
  bool use_nesterov = false;
};
/// See `adagrad`.
struct Adagrad {
  float learning_rate = 0.001f;
  float epsilon = 1e-6f;
  float initial_accumulator_value = 0;
};
/// See `rmsprop`.
struct RMSProp {
  float learning_rate = 0.001f;
  float rho = 0.95f;
  float epsilon = 1e-6f;
  float momentum = 0;
  bool centered = false;
};
/// See `adam`. `lazy_mode`: rows that a row-sparse gradient does not list stay.
struct Adam {
  float learning_rate = 0.001f;
  float beta1 = 0.9f;
  float beta2 = 0.999f;
  float epsilon = 1e-8f;
  bool lazy_mode = false;
};
/// See `ftrl`.
struct Ftrl {
  float learning_rate = 0.001f;
  float l1 = 0;
  float l2 = 0;
  float lr_power = -0.5f;
};

/// Adagrad with a running mean in place of the sum of squares.
struct DecayedAdagrad {
  float learning_rate = 0.001f;
  float decay = 0.95f;
  float epsilon = 1e-6f;
};
/// Scales each gradient by the ratio of the root mean square of earlier steps to that of the gradients.
struct Adadelta {
  float learning_rate = 0.001f;
  float epsilon = 1e-6f;
  float rho = 0.95f;
};
/// Adam with the (decaying) greatest gradient so far in place of the mean of squares.
struct Adamax {
  float learning_rate = 0.001f;
  float beta1 = 0.9f;
  float beta2 = 0.999f;
  float epsilon = 1e-8f;
};
/// Adam with steps scaled to the norm of the parameter times the learning rate.
struct Lamb {
  float learning_rate = 0.001f;
  float lamb_weight_decay = 0.01f;
  float beta1 = 0.9f;
  float beta2 = 0.999f;
  float epsilon = 1e-6f;
};
/// Momentum with a learning rate that follows the ratio of the parameter's norm to that of the gradient.
struct LarsMomentum {
  float learning_rate = 0.001f;
  float momentum = 0.9f;
  float lars_coeff = 0.001f;
  float lars_weight_decay = 0.0005f;
  float epsilon = 0;
};

/// Any of these.
using Optimizer =
    std::variant<SGD, Momentum, Adagrad, RMSProp, Adam, Ftrl, DecayedAdagrad, Adadelta, Adamax, Lamb, LarsMomentum>;

/// coeff * sign(parameter) is added to each gradient.
struct L1Decay {
  float coeff = 0;
};
/// coeff * parameter is added to each gradient.
struct L2Decay {
  float coeff = 0;
};

/// Each number of a gradient is at least `min` (by default -max), at most `max`.
struct ClipGradByValue {
  float max = 1;
  std::optional<float> min = {};
};
/// Each gradient is scaled down to this norm if its norm is greater.
struct ClipGradByNorm {
  float clip_norm = 1;
};
/// All gradients are scaled down by one factor if their norm, taken together as one vector, is greater than this.
struct ClipGradByGlobalNorm {
  float clip_norm = 1;
};

/// The options of `minimize`.
struct MinimizeOptions {
  std::variant<std::monostate, L1Decay, L2Decay> weight_decay = {};
  std::variant<std::monostate, ClipGradByValue, ClipGradByNorm, ClipGradByGlobalNorm> grad_clip = {};
  BackwardOptions backward = {};
};

}  // namespace lod::inline LOD_INTERFACE

namespace lod::inline LOD_INTERFACE::detail {

/// Adds what updates the parameters to a copy of the program that has the operators of `append_backward`, which has
/// returned `pairs`, and moves it into `program`; see `minimize`.
LOD_PROGRAMS std::vector<ParameterGradient> add_updates(ProgramDesc& program, ProgramDesc& startup,
                                                        ProgramDesc with_gradients,
                                                        std::vector<ParameterGradient> pairs,
                                                        const Optimizer& optimizer, const MinimizeOptions& options);

}  // namespace lod::inline LOD_INTERFACE::detail

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {

/// Makes a program train: a run of it also updates the parameters that the loss depends on. Adds to block 0 what
/// `append_backward` does, then what clips the gradients, then what adds the decay of weights, then an operator for
/// each parameter. The variables that these keep from run to run, the learning rate and the states of the optimizer
/// (`w_moment1_0`), are persistable; `startup`, which is to be run once in the same scope, and which may be empty here,
/// gets the operators that fill them. Returns the parameters, in the order of their names, each with the gradient that
/// it is updated by. PaddlePaddle runs both programs.
///
/// Throws as `append_backward`, and InvalidProgram for a parameter whose type or shape is not described; then both
/// programs stay as they were. Semantics: PaddlePaddle's Optimizer.minimize, with its names of variables where they
/// follow from those of parameters.
template <std::same_as<CpuExecutor> E = CpuExecutor>
std::vector<ParameterGradient> minimize(ProgramDesc& program, ProgramDesc& startup, std::string_view loss,
                                        const Optimizer& optimizer, const MinimizeOptions& options = {}) {
  ProgramDesc copy = program;
  auto pairs = append_backward<E>(copy, loss, options.backward);
  return detail::add_updates(program, startup, std::move(copy), std::move(pairs), optimizer, options);
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET

// What the bodies use; and the bodies.
#ifndef LOD_PROGRAMS_ARE_COMPILED
#  include <algorithm>
#  include <cstdint>
#endif
#ifndef LOD_PROGRAMS_ARE_COMPILED
#  include <lod/program/minimize_inl.hpp>
#endif
