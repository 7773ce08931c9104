// SPDX-License-Identifier: Apache-2.0
/// @file
/// The library lodtensor::cpu: the operators of programs, and what runs programs. They call the library's kernels, so
/// that one object serves all instruction sets. With LOD_OPERATORS_LIBRARY and without LOD_CPU_LIBRARY they stand
/// alone, with the kernels that they call: programs that have files for the same flags share them.
#ifndef LOD_OPERATORS_LIBRARY
#  define LOD_CPU_LIBRARY
#endif
#include <lod/cpu.hpp>
#include <lod/program/backward_inl.hpp>
#include <lod/program/infer_shapes_inl.hpp>
#include <lod/program/interpreter.hpp>
#include <lod/program/minimize_inl.hpp>
#include <lod/program/operators/all.hpp>
#include <lod/program/operators/compiled.hpp>
#include <lod/program/operators/inference.hpp>
#include <lod/program/prune_inl.hpp>
#include <lod/program/scope_inl.hpp>
#include <lod/program/trace_inl.hpp>
#include <lod/program/variable_inl.hpp>

namespace lod::inline LOD_INTERFACE::compiled {

std::span<const lod::detail::BuiltInOperator<CpuExecutor>> operators_of_programs() {
  return lod::operators_of_programs::all<CpuExecutor>();
}
InferShape inference_of(std::string_view type) { return lod::operators_of_programs::inference_in_table(type); }
std::unique_ptr<lod::detail::ProgramToRun> prepare(const CpuExecutor& executor, const ProgramDesc& program,
                                                   Scope& scope, const std::vector<std::string>& fetch,
                                                   const RunLimits& limits, bool keep_values) {
  return std::make_unique<Interpreter<CpuExecutor>>(executor, program, scope, fetch, limits, keep_values);
}

}  // namespace lod::inline LOD_INTERFACE::compiled

namespace lod::inline LOD_INTERFACE::detail {

template std::vector<ParameterGradient> append_backward<CpuExecutor>(ProgramDesc& program, std::string_view loss,
                                                                     const BackwardOptions& options);

}  // namespace lod::inline LOD_INTERFACE::detail
