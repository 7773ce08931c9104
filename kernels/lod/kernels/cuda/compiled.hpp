// SPDX-License-Identifier: Apache-2.0
/// @file
/// The kernels for GPUs out of the compiled library, for files that another compiler than nvcc compiles.
#pragma once

#include <lod/cuda/executor.hpp>
#include <lod/kernels/cuda/boundary.hpp>
#include <lod/kernels/cuda/kernels.hpp>
#include <lod/target.hpp>

#include <concepts>
#include <cstdint>
#include <type_traits>

namespace lod::inline LOD_TARGET {
namespace kernel {

/// Whether the library has the elements, if any, that an argument points to. Masks may be of bool, too.
template <class Name, class A>
inline constexpr bool has_elements = true;
template <class Name, class P>
inline constexpr bool has_elements<Name, P*> = compiled::has_elements<std::remove_const_t<P>> ||
                                               (std::same_as<Name, compiled::name::SequenceMask> &&
                                                std::same_as<P, bool>);
template <class Name, class P>
inline constexpr bool has_elements<Name, P* const*> = has_elements<Name, P*>;
template <class Name, class P>
inline constexpr bool has_elements<Name, P**> = has_elements<Name, P*>;

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
LOD_CUDA_KERNELS(LOD_COMPILED)
#undef LOD_COMPILED

template <class Name>
struct CompiledFilter : Compiled<Name> {
  static std::int64_t scratch(std::int64_t rows) noexcept { return rows + 1; }  // as bulk::RowFilter has it
  template <class... A>
  static void count(const CudaExecutor& executor, const A&... arguments) {
    Compiled<compiled::name::Count<Name>>::run(executor, arguments...);
  }
};

#define LOD_COMPILED(filter_name) \
  template <>                     \
  struct filter_name<CudaExecutor> : CompiledFilter<compiled::name::filter_name> {};
LOD_CUDA_FILTERS(LOD_COMPILED)
#undef LOD_COMPILED

}  // namespace kernel
}  // namespace lod::inline LOD_TARGET
