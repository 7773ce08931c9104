// SPDX-License-Identifier: Apache-2.0
/// @file
/// The operators that come with the library, and what runs programs, compiled apart: in the library
/// lodtensor::cpu, or in kernels/instantiate/operators.cpp alone.
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

namespace lod::inline LOD_INTERFACE::compiled {

/// @{
/// For CPUs.
std::span<const lod::detail::BuiltInOperator<CpuExecutor>> operators_of_programs();
std::unique_ptr<lod::detail::ProgramToRun> prepare(const CpuExecutor& executor, const ProgramDesc& program,
                                                   Scope& scope, const std::vector<std::string>& fetch,
                                                   const RunLimits& limits, bool keep_values);
/// @}

}  // namespace lod::inline LOD_INTERFACE::compiled

// The library includes this too: what it has under these names is then the same as what its users have, of which a
// linker keeps one.
namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs {

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

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs
