// SPDX-License-Identifier: Apache-2.0
/// @file
/// What needs the operators of programs, each of which is compiled where it is included: in one file, therefore.
#pragma once

#include <lod/any_tensor.hpp>
#include <lod/program/minimize.hpp>
#include <lod/program/program.hpp>
#include <lod/program/run.hpp>
#include <lod/program/scope.hpp>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace lod_python {

/// Runs a program that is prepared.
using PreparedRun = std::function<std::vector<lod::AnyLoDTensor>(const lod::Feed&)>;

/// See PreparedProgram. The program is copied, the scope must outlive what is returned.
PreparedRun prepare(const lod::ProgramDesc& program, lod::Scope& scope, const std::vector<std::string>& fetch);

/// @{
/// The library's functions of these names.
void infer_shapes(lod::ProgramDesc& program);
lod::ProgramDesc prune(const lod::ProgramDesc& program, const std::vector<std::string>& targets);
std::vector<lod::ParameterGradient> append_backward(lod::ProgramDesc& program, std::string_view loss,
                                                    const lod::BackwardOptions& options);
std::vector<lod::ParameterGradient> minimize(lod::ProgramDesc& program, lod::ProgramDesc& startup,
                                             std::string_view loss, const lod::Optimizer& optimizer,
                                             const lod::MinimizeOptions& options);
/// @}

/// The types of all operators, ascending.
std::vector<std::string> operator_types();

}  // namespace lod_python
