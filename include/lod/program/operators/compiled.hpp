// SPDX-License-Identifier: Apache-2.0
/// @file
/// The operators that come with the library, and the code that runs programs, compiled separately: in the libraries
/// lodtensor::cpu and lodtensor::cuda, or in kernels/instantiate/operators.cpp alone.
#pragma once

#include <lod/core/executor.hpp>
#include <lod/core/target.hpp>
#include <lod/program/operator.hpp>
#include <lod/program/program.hpp>
#include <lod/program/run.hpp>
#include <lod/program/scope.hpp>

#include <memory>
#include <span>
#include <string>
#include <vector>

namespace lod::inline LOD_INTERFACE {
class CudaExecutor;
}  // namespace lod::inline LOD_INTERFACE

namespace lod::inline LOD_INTERFACE::compiled {

/// @{
/// For CPUs.
std::span<const lod::detail::BuiltInOperator<CpuExecutor>> operators_of_programs();
std::unique_ptr<lod::detail::ProgramToRun> prepare(const CpuExecutor& executor, const ProgramDesc& program,
                                                   Scope& scope, const std::vector<std::string>& fetch,
                                                   const RunLimits& limits, bool keep_values);
/// @}
/// @{
/// For GPUs. The library has no operators for CPUs: if one is needed, the caller's `find_on_cpu` returns it.
std::span<const lod::detail::BuiltInOperator<CudaExecutor>> operators_of_programs_on_gpus();
std::unique_ptr<lod::detail::ProgramToRun> prepare(const CudaExecutor& executor, const ProgramDesc& program,
                                                   Scope& scope, const std::vector<std::string>& fetch,
                                                   const RunLimits& limits, bool keep_values,
                                                   lod::detail::FindOperator<CpuExecutor>* find_on_cpu);
/// @}

}  // namespace lod::inline LOD_INTERFACE::compiled

// The libraries include this too, so that the definitions under these names are the same there and in their users'
// files, of which the linker keeps one.
namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs {

#if defined(LOD_CPU_LIBRARY) || defined(LOD_OPERATORS_LIBRARY)
template <>
inline std::span<const detail::BuiltInOperator<CpuExecutor>> built_in<CpuExecutor>() {
  return compiled::operators_of_programs();
}
template <>
inline std::unique_ptr<detail::ProgramToRun> prepare(const CpuExecutor& executor, const ProgramDesc& program,
                                                     Scope& scope, const std::vector<std::string>& fetch,
                                                     const RunLimits& limits, bool keep_values) {
  return compiled::prepare(executor, program, scope, fetch, limits, keep_values);
}
#endif
#ifdef LOD_CUDA_LIBRARY
template <>
inline std::span<const detail::BuiltInOperator<CudaExecutor>> built_in<CudaExecutor>() {
  return compiled::operators_of_programs_on_gpus();
}
template <>
inline std::unique_ptr<detail::ProgramToRun> prepare(const CudaExecutor& executor, const ProgramDesc& program,
                                                     Scope& scope, const std::vector<std::string>& fetch,
                                                     const RunLimits& limits, bool keep_values) {
  return compiled::prepare(executor, program, scope, fetch, limits, keep_values, detail::find_operator<CpuExecutor>);
}
#endif

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs
