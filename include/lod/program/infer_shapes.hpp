// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup descriptions
/// Infers the shapes, element types and levels of a program's variables before it runs.
///
///     lod::infer_shapes(program);
///     program.find_var("scores")->type.lod_tensor->tensor.dims;  // {-1, 57}
#pragma once

#include <lod/core/executor.hpp>
#include <lod/core/target.hpp>
#include <lod/program/infer_shape_context.hpp>
#include <lod/program/operator.hpp>
#include <lod/program/program.hpp>

#include <string>
#include <utility>

namespace lod::inline LOD_INTERFACE::detail {

/// Returns the rule of an operator; null if it has none.
using RuleOf = InferShape (*)(const std::string& type);

/// See `infer_shapes`.
LOD_PROGRAMS void infer_shapes(ProgramDesc& program, RuleOf rule_of);

}  // namespace lod::inline LOD_INTERFACE::detail

namespace lod::inline LOD_INTERFACE {

/// Describes the outputs of a program's operators: the kind, the element type, the dimensions and the `lod_level` of
/// each variable that one of them writes, in inner blocks too, from the descriptions of what they read. A dimension
/// that depends on values, or on the size of a batch, is -1. Operators of inner blocks are visited once, where the
/// operator that owns their block is; so the shapes after a loop are taken to be those after its first step.
///
/// These stay as they are: persistable variables; variables that no block describes; outputs of operators without a
/// rule, and of those that read a variable of which nothing is known. An output `x@GRAD` of an operator without a rule
/// is described as `x`.
///
/// Throws InvalidProgram, naming block, operator and variables, for contradictions: shapes, types or levels that do not
/// fit, attributes of a wrong type or value, a persistable variable whose description differs from what an operator
/// writes to it; and as `validate` does. The program is then unchanged. The rules are those of the operators for the
/// executor E. O(size of the program). Semantics: PaddlePaddle's infer_shape at compile time, except that this neither
/// takes unknown dimensions for known ones nor omits levels that tensors have at run time.
template <Executor E = CpuExecutor>
LOD_TAGGED void infer_shapes(ProgramDesc& program) {
  const detail::RuleOf rule_of = [](const std::string& type) {
    auto found = operators<E>().find(type);
    return found ? std::move(found->infer) : operators_of_programs::inference_of(type);
  };
  detail::infer_shapes(program, rule_of);
}

}  // namespace lod::inline LOD_INTERFACE

// What the bodies use; and the bodies.
#ifndef LOD_PROGRAMS_ARE_COMPILED
#  include <algorithm>
#  include <cstddef>
#  include <cstdint>
#  include <exception>
#  include <string_view>
#  include <vector>
#endif
#ifndef LOD_PROGRAMS_ARE_COMPILED
#  include <lod/program/infer_shapes_inl.hpp>
#endif
