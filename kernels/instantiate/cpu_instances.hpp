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

template <class Tag, class... Arguments>
typename lod::compiled::ResultOf<Tag>::type lod::compiled::LOD_RUN(const CpuExecutor& executor,
                                                                   Arguments... arguments) {
  return kernel::launch(Tag(), executor, arguments...);
}

#ifdef LOD_RUN_ANY
template <class Tag, class... Arguments>
typename lod::compiled::ResultOf<Tag>::type lod::compiled::run(const CpuExecutor& executor, Arguments... arguments) {
  const InstructionSet instructions = instruction_set();
#  ifdef LOD_HAS_WIDER_SETS
  if (instructions == InstructionSet::AVX512) return run_by_avx512<Tag>(executor, arguments...);
  if (instructions == InstructionSet::AVX2) return run_by_avx2<Tag>(executor, arguments...);
#  endif
  static_cast<void>(instructions);
  return run_by_baseline<Tag>(executor, arguments...);
}
#endif

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET {

struct CpuLibrary {
  using executor = CpuExecutor;
  /// Whether there is a kernel for CPUs.
  template <class Tag>
  static constexpr bool has = requires {
    sizeof(cpu::Kernel<Tag>);
  };

  template <class Tag, class... Passed>
  static constexpr bool instantiate() {
#ifdef LOD_RUN_ANY
    if (&compiled::run<Tag, Passed...> == nullptr) return false;
#endif
    return &compiled::LOD_RUN<Tag, Passed...> != nullptr;
  }
  /// @{
  /// The type of a kernel's function, as a null pointer.
  template <class Tag>
  static constexpr decltype(&cpu::Kernel<Tag>::run) function() noexcept {
    return nullptr;
  }
  template <class Tag, class First, class... More>
  static constexpr decltype(&cpu::Kernel<Tag>::template run<First, More...>) function() noexcept {
    return nullptr;
  }
  /// @}
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET
