// SPDX-License-Identifier: Apache-2.0
/// @file
/// Kernels in bulk on GPUs, for tags without a kernel of their own there.
#pragma once

#include <lod/core/target.hpp>
#include <lod/cuda/executor.hpp>
#include <lod/kernels/bulk/kernels.hpp>
#include <lod/kernels/cuda/on_the_cpu.hpp>

#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET {

template <>
inline constexpr bool bulk::runs_in_bulk<CudaExecutor> = true;

/// The variant in which the CPU does not wait for the number of groups.
template <class... A>
std::int64_t launch(GroupRows, const CudaExecutor& executor, const A&... arguments) {
  return bulk::GroupRowsInPlaces::run(executor, arguments...);
}

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET
