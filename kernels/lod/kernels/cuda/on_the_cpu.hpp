// SPDX-License-Identifier: Apache-2.0
/// @file
/// What goes with the kernels for GPUs, whatever compiler compiles it: that they are there, and what the CPU does about
/// sequences on a GPU.
#pragma once

#include <lod/core/device.hpp>
#include <lod/core/keyed_hash.hpp>
#include <lod/core/target.hpp>
#include <lod/cuda/executor.hpp>
#include <lod/ops/for_each_sequence.hpp>
#include <lod/ops/staging.hpp>
#include <lod/ops/supports.hpp>
#include <lod/ops/unique_sequences.hpp>

#include <cstdint>

namespace lod::inline LOD_INTERFACE {
/// All but what would have to wait.
template <class Op>
inline constexpr bool has_kernels<Op, Cuda> = !on_cpu_only<Op>;
}  // namespace lod::inline LOD_INTERFACE

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {
namespace kernel {

template <>
struct ForEachSequence<CudaExecutor> {
  template <class Body>
  static void run(const CudaExecutor&, const Segments& sequences, const Body& body) {
    // What one call enqueues comes before what the next one does: one thread, in order.
    for (std::int64_t i = 0; i < sequences.size; ++i) body(i);
  }
};

template <>
struct UniqueSequences<CudaExecutor> {
  template <class T, class SameLevels>
  static std::int64_t run(const CudaExecutor& executor, const T* x, const Segments& sequences,
                          const operation::Array<CudaExecutor, std::int64_t>& splits, const detail::HashKey& key,
                          std::int64_t row_size, const SameLevels& same_levels, std::int64_t* first,
                          std::int64_t* index) {
    return operation::unique_by_twins(executor, x, sequences, splits, key, row_size, same_levels, first, index);
  }
};

}  // namespace kernel
}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET
