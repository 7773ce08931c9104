// SPDX-License-Identifier: Apache-2.0
/// @file
/// The library lodtensor::cpu: the kernels of the headers, compiled once for each instruction set, and the choice among
/// these sets. LOD_RUN is the function for the set that a file is compiled for: run_by_baseline, run_by_avx2,
/// run_by_avx512. Where LOD_RUN_ANY is defined, the file also defines the function that chooses; LOD_HAS_WIDER_SETS
/// says that there is more than the baseline to choose from.
#pragma once

#include "instances.hpp"
#include <lod/core/executor.hpp>
#include <lod/core/instruction_set.hpp>
#include <lod/core/version.hpp>
#include <lod/cpu.hpp>

#include <cstddef>

template <class Kernel, class... Arguments>
typename lod::compiled::ResultOf<Kernel>::type lod::compiled::LOD_RUN(const CpuExecutor& executor,
                                                                      Arguments... arguments) {
  return kernel::receive<Kernel>(executor, arguments...);
}

#ifdef LOD_RUN_ANY
template <class Kernel, class... Arguments>
typename lod::compiled::ResultOf<Kernel>::type lod::compiled::run(const CpuExecutor& executor, Arguments... arguments) {
  const InstructionSet instructions = instruction_set();
#  ifdef LOD_HAS_WIDER_SETS
  if (instructions == InstructionSet::AVX512) return run_by_avx512<Kernel>(executor, arguments...);
  if (instructions == InstructionSet::AVX2) return run_by_avx2<Kernel>(executor, arguments...);
#  endif
  static_cast<void>(instructions);
  return run_by_baseline<Kernel>(executor, arguments...);
}
#endif

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {
namespace kernel {

struct CpuLibrary {
  using executor = CpuExecutor;
  static constexpr bool on_gpu = false;

  template <class Name, class... Passed>
  static constexpr bool instantiate() {
#ifdef LOD_RUN_ANY
    if (&compiled::run<Name, Passed...> == nullptr) return false;
#endif
    return &compiled::LOD_RUN<Name, Passed...> != nullptr;
  }
  /// @{
  /// The function of a kernel.
  template <class Name, class... Arguments>
  static constexpr auto function() {
    using Kernel = typename KernelOf<CpuExecutor, Name>::type;
    if constexpr (sizeof...(Arguments) == 0) {
      return &Kernel::run;
    } else {
      return &Kernel::template run<Arguments...>;
    }
  }
  template <class Name, class Rule, class T, class S, std::size_t states>
  static constexpr auto rule() {
    return &KernelOf<CpuExecutor, Name>::type::template run<Rule, T, S, states>;
  }
  template <class Filter, class T>
  static constexpr auto count() {
    return &KernelOf<CpuExecutor, Filter>::type::template count<T>;
  }
  /// @}
};

}  // namespace kernel
}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET
