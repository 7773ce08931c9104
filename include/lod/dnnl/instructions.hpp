// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup core
/// What oneDNN finds in the processor.
#pragma once

#include <lod/core/target.hpp>

#include <oneapi/dnnl/dnnl.hpp>

namespace lod::inline LOD_INTERFACE {

/// For which products the processor has instructions that oneDNN takes.
struct DnnlInstructions {
  bool bfloat16 = false;  ///< of bfloat16, with sums of float: AVX-512 BF16, or AMX
  bool int8 = false;      ///< of int8, with sums of int32 that do not saturate: AVX-512 VNNI, or AMX
  bool amx = false;       ///< of both, by tiles of rows and columns: AMX
};

/// The instructions of the processor that oneDNN takes, no more than ONEDNN_MAX_CPU_ISA in the environment allows.
LOD_TAGGED inline DnnlInstructions dnnl_instructions() noexcept {
  const auto has = [found = static_cast<unsigned>(dnnl_get_effective_cpu_isa())](dnnl_cpu_isa_t one) {
    return (found & static_cast<unsigned>(one)) == static_cast<unsigned>(one);
  };
  return {.bfloat16 = has(dnnl_cpu_isa_avx512_core_bf16),
          .int8 = has(dnnl_cpu_isa_avx512_core_vnni),
          .amx = has(dnnl_cpu_isa_avx512_core_amx)};
}

}  // namespace lod::inline LOD_INTERFACE
