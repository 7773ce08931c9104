// SPDX-License-Identifier: Apache-2.0
/// @file
/// The operators that come with the library, from the compiled library lodtensor::cpu.
#pragma once

#include <lod/core/executor.hpp>
#include <lod/core/target.hpp>
#include <lod/program/operator.hpp>

#include <span>

namespace lod::inline LOD_INTERFACE::compiled {

/// Those for CPUs.
std::span<const lod::detail::BuiltInOperator<CpuExecutor>> operators_of_programs();

}  // namespace lod::inline LOD_INTERFACE::compiled

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs {

template <>
inline std::span<const detail::BuiltInOperator<CpuExecutor>> all<CpuExecutor>() {
  return compiled::operators_of_programs();
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs
