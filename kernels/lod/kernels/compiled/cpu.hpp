// SPDX-License-Identifier: Apache-2.0
/// @file
/// The kernels for CPUs: from the compiled library, or from the headers for elements that it does not have.
#pragma once

#include <lod/core/executor.hpp>
#include <lod/core/target.hpp>
#include <lod/kernels/compiled/boundary.hpp>
#include <lod/kernels/compiled/kernels.hpp>
#include <lod/kernels/cpu/for_each_range.hpp>
#include <lod/kernels/cpu/for_each_sequence.hpp>
#include <lod/kernels/cpu/unique_sequences.hpp>
#include <lod/ops/kernel.hpp>

#include <cstdint>

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {
namespace kernel {

/// `Inline` is the kernel of the headers.
template <class Name, class Inline>
struct CompiledForCpu {
  template <class... A>
  static auto run(const CpuExecutor& executor, const A&... arguments) {
    if constexpr ((has_elements<Name, A> && ...)) {
      return compiled::run<Name>(executor, Passed<A>::pass(arguments)...);
    } else {
      return Inline::run(executor, arguments...);
    }
  }
};

#define LOD_COMPILED(kernel_name) \
  template <>                     \
  struct kernel_name<CpuExecutor> : CompiledForCpu<compiled::name::kernel_name, kernel_name<InlineCpu>> {};
LOD_SHARED_KERNELS(LOD_COMPILED)
#undef LOD_COMPILED

template <class Name, class Inline>
struct CompiledFilterForCpu : CompiledForCpu<Name, Inline> {
  static std::int64_t scratch(std::int64_t rows) noexcept { return Inline::scratch(rows); }
  template <class... A>
  static void count(const CpuExecutor& executor, const A&... arguments) {
    if constexpr ((has_elements<Name, A> && ...)) {
      compiled::run<compiled::name::Count<Name>>(executor, Passed<A>::pass(arguments)...);
    } else {
      Inline::count(executor, arguments...);
    }
  }
};

#define LOD_COMPILED(filter_name) \
  template <>                     \
  struct filter_name<CpuExecutor> : CompiledFilterForCpu<compiled::name::filter_name, filter_name<InlineCpu>> {};
LOD_FILTERS(LOD_COMPILED)
#undef LOD_COMPILED

#define LOD_INLINE(kernel_name) \
  template <>                   \
  struct kernel_name<CpuExecutor> : kernel_name<InlineCpu> {};
LOD_INLINE_KERNELS(LOD_INLINE)
#undef LOD_INLINE

}  // namespace kernel
}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET
