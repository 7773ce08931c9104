// SPDX-License-Identifier: Apache-2.0
/// @file
/// How kernels run on CPUs: for each tag a specialisation of `cpu::Kernel`.
#pragma once

#include <lod/core/executor.hpp>
#include <lod/core/target.hpp>
#include <lod/ops/kernel.hpp>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET {

namespace cpu {
/// The kernel of a tag: its static function `run(executor, ...)`, as the tag's comment says.
template <class Tag>
struct Kernel;
}  // namespace cpu

/// Runs a kernel of the headers.
template <class Tag, class... A>
auto launch(Tag, const CpuExecutor& executor, const A&... arguments) {
  return cpu::Kernel<Tag>::run(executor, arguments...);
}

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET
