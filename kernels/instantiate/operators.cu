// SPDX-License-Identifier: Apache-2.0
/// @file
/// The library lodtensor::cuda: the operators of programs that have kernels for GPUs, and what runs programs there.
/// They call the library's kernels; what operators compute for each of many numbers is compiled here.
#define LOD_CUDA_LIBRARY
#include <lod/core/version.hpp>
#include <lod/cuda.hpp>
#include <lod/kernels/compiled/cuda.hpp>
#include <lod/kernels/cpu/run_copy.hpp>
#include <lod/kernels/cuda/system.cuh>
#include <lod/ops/for_each_place.hpp>
#include <lod/program/interpreter.hpp>
#include <lod/program/operators/compiled.hpp>
#include <lod/program/operators/inference.hpp>
#include <lod/program/operators/on_device.hpp>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET {

template <class Body>
void launch(ForEachPlace, const CudaExecutor& executor, std::int64_t count, const Body& body) {
  if (count > 0) bulk::System<CudaExecutor>(executor).for_each(count, body);
}

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET

namespace lod::inline LOD_INTERFACE::compiled {

std::span<const lod::detail::BuiltInOperator<CudaExecutor>> operators_of_programs_on_gpus() {
  return lod::operators_of_programs::all_on_device<CudaExecutor>();
}
std::unique_ptr<lod::detail::ProgramToRun> prepare(const CudaExecutor& executor, const ProgramDesc& program,
                                                   Scope& scope, const std::vector<std::string>& fetch,
                                                   const RunLimits& limits, bool keep_values,
                                                   lod::detail::FindOperator<CpuExecutor>* find_on_cpu) {
  return std::make_unique<Interpreter<CudaExecutor>>(executor, program, scope, fetch, limits, keep_values, find_on_cpu);
}

}  // namespace lod::inline LOD_INTERFACE::compiled
