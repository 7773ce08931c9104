// SPDX-License-Identifier: Apache-2.0
/// @file
/// The kernels for GPUs from the compiled library, for files that are compiled by another compiler than nvcc.
#pragma once

#include <lod/core/target.hpp>
#include <lod/cuda/executor.hpp>
#include <lod/kernels/compiled/boundary.hpp>
#include <lod/kernels/cuda/on_the_cpu.hpp>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET {

/// Enqueues a kernel of the library.
template <class Tag, class... A>
  requires(!requires { Tag::in_headers_only; })
auto launch(Tag, const CudaExecutor& executor, const A&... arguments) {
  static_assert((compiled::takes<Tag, A> && ...),
                "lodtensor::cuda has kernels for elements of type float, double, float16, bfloat16, int32 and int64: "
                "files with others are compiled by nvcc, with <lod/cuda.cuh>");
  return compiled::enqueue<Tag, typename compiled::Passed<A>::type...>(executor,
                                                                       compiled::Passed<A>::pass(arguments)...);
}
/// A library has no kernels that call a function of the user's.
template <class Tag, class... A>
  requires(requires { Tag::calls_on_device; })
void launch(Tag, const CudaExecutor&, const A&...) {
  static_assert(!Tag::calls_on_device,
                "a function of yours runs on a GPU only if nvcc compiles the call: with <lod/cuda.cuh>, in a .cu file");
}

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET
