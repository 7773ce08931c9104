// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup descriptions
/// Gradients of programs.
///
///     for (const auto& [parameter, gradient] : lod::append_backward(program, "loss")) ...
#pragma once

#include <lod/core/executor.hpp>
#include <lod/core/target.hpp>
#include <lod/program/program.hpp>

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lod::inline LOD_INTERFACE {

/// The options of `append_backward`.
struct BackwardOptions {
  /// The variables whose gradients are wanted; if empty, those with `is_parameter` and without `stop_gradient`.
  std::vector<std::string> parameters = {};
  /// Variables that are treated as constants, besides those with `stop_gradient`.
  std::vector<std::string> constants = {};
};

/// A parameter of a program and the variable that holds its gradient.
struct ParameterGradient {
  std::string parameter;
  std::string gradient;

  LOD_TAGGED bool operator==(const ParameterGradient&) const = default;
};

/// The values of the attribute `op_role` of operators, which can be combined.
struct OpRole {
  static constexpr std::int32_t FORWARD = 0;
  static constexpr std::int32_t BACKWARD = 1;
  static constexpr std::int32_t OPTIMIZE = 2;
  static constexpr std::int32_t LOSS = 256;
};

}  // namespace lod::inline LOD_INTERFACE

namespace lod::inline LOD_INTERFACE::detail {

/// See `append_backward`.
template <class E>
LOD_PROGRAMS std::vector<ParameterGradient> append_backward(ProgramDesc& program, std::string_view loss,
                                                            const BackwardOptions& options);

}  // namespace lod::inline LOD_INTERFACE::detail

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {

/// Adds to block 0 of a program the operators that compute the gradients of a loss with respect to its parameters, and
/// their variables. Returns the parameters that the loss depends on, in the order of their variables (or of the
/// options), each with the variable of its gradient.
///
/// The gradient of x is `x@GRAD`, described with the type and shape of x; that of a parameter of which only some rows
/// are used (`is_sparse`) is SELECTED_ROWS. Where x is used several times, the parts are `x@GRAD@RENAME@block0@0`, ...,
/// and `sum` adds them up. Where no gradient is needed, the argument is `@EMPTY@`. The loss must have one element; its
/// gradient is 1. Outputs of operators without a gradient, such as comparisons, count as constants. Attributes
/// `op_role` and `op_role_var` are as in PaddlePaddle, which runs these programs.
///
/// Gradients pass through `while`, `conditional_block` and `recurrent`, in blocks that are added, nested as the others
/// are. They must keep their steps (an output `StepScopes`, `Scope`, `step_scopes`; not `is_test`, but `is_train`). A
/// loop that takes no step passes on the gradients of what it would have changed. Each element of an array has a
/// gradient; that of an element on which nothing depends is zeros, or is missing. Numbers that `increment` counts in
/// place are counted back, as PaddlePaddle does: after a run they are what they were before.
///
/// Throws InvalidProgram, and leaves the program as it was: if the loss is not a variable of block 0, has a gradient
/// already, or depends on no parameter; if an operator's gradient needs a value that another one has overwritten (a
/// loop keeps what its steps began with; copy others by `assign`); and what an operator's `gradient` throws.
/// O(operators * variables * depth of blocks). Semantics: PaddlePaddle's append_backward; where that counts a gradient
/// more than once (for what a loop only writes, for elements that are read twice, for branches in loops), this does
/// not.
template <std::same_as<CpuExecutor> E = CpuExecutor>
std::vector<ParameterGradient> append_backward(ProgramDesc& program, std::string_view loss,
                                               const BackwardOptions& options = {}) {
  return detail::append_backward<E>(program, loss, options);
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET

// What the bodies use; and the bodies.
#ifndef LOD_PROGRAMS_ARE_COMPILED
#  include <algorithm>
#  include <cstddef>
#  include <iterator>
#  include <utility>
#endif
#ifndef LOD_PROGRAMS_ARE_COMPILED
#  include <lod/program/backward_inl.hpp>
#endif
