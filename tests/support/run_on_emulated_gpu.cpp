// SPDX-License-Identifier: Apache-2.0
// Programs on an emulated GPU, whose operators are compiled once for all tests.
#include "support/emulated_stream.hpp"
#include <lod/cpu.hpp>
#include <lod/operators.hpp>

#include <memory>
#include <string>
#include <vector>

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs {

template std::unique_ptr<detail::ProgramToRun> prepare(const CudaExecutor&, const ProgramDesc&, Scope&,
                                                       const std::vector<std::string>&, const RunLimits&, bool);
template std::span<const detail::BuiltInOperator<CudaExecutor>> all<CudaExecutor>();

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs
