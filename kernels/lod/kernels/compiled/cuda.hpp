// SPDX-License-Identifier: Apache-2.0
/// @file
/// The kernels for GPUs from the compiled library, for files that are compiled by another compiler than nvcc.
#pragma once

#include <lod/core/target.hpp>
#include <lod/cuda/executor.hpp>
#include <lod/kernels/compiled/boundary.hpp>
#include <lod/kernels/compiled/kernels.hpp>
#include <lod/kernels/cuda/on_the_cpu.hpp>

#include <cstdint>

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {
namespace kernel {

template <class Name>
struct Compiled {
  template <class... A>
  static auto run(const CudaExecutor& executor, const A&... arguments) {
    static_assert((has_elements<Name, A> && ...),
                  "lodtensor::cuda has kernels for elements of type float, double, float16, bfloat16, int32 and int64: "
                  "files with others are compiled by nvcc, with <lod/cuda.cuh>");
    return compiled::enqueue<Name>(executor, Passed<A>::pass(arguments)...);
  }
};

#define LOD_COMPILED(kernel_name) \
  template <>                     \
  struct kernel_name<CudaExecutor> : Compiled<compiled::name::kernel_name> {};
LOD_SHARED_KERNELS(LOD_COMPILED)
LOD_CUDA_ONLY_KERNELS(LOD_COMPILED)
#undef LOD_COMPILED

template <class Name>
struct CompiledFilter : Compiled<Name> {
  static std::int64_t scratch(std::int64_t rows) noexcept { return rows + 1; }  // as in bulk::RowFilter
  template <class... A>
  static void count(const CudaExecutor& executor, const A&... arguments) {
    Compiled<compiled::name::Count<Name>>::run(executor, arguments...);
  }
};

#define LOD_COMPILED(filter_name) \
  template <>                     \
  struct filter_name<CudaExecutor> : CompiledFilter<compiled::name::filter_name> {};
LOD_FILTERS(LOD_COMPILED)
#undef LOD_COMPILED

}  // namespace kernel
}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET
