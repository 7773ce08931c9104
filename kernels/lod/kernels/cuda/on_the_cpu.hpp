// SPDX-License-Identifier: Apache-2.0
/// @file
/// The part of the GPU back end that any compiler can compile: the statement that kernels exist, and what the CPU does
/// for sequences on a GPU.
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
/// All operations but those that would have to wait.
template <class Op>
inline constexpr bool has_kernels<Op, Cuda> = !on_cpu_only<Op>;
}  // namespace lod::inline LOD_INTERFACE

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET {

/// One thread, in order: what one call enqueues comes before what the next call enqueues.
template <class Body>
void launch(ForEachSequence, const CudaExecutor&, const Segments& sequences, const Body& body) {
  for (std::int64_t i = 0; i < sequences.size; ++i) body(i);
}

template <class... A>
std::int64_t launch(UniqueSequences, const CudaExecutor& executor, const A&... arguments) {
  return operation::unique_by_twins(executor, arguments...);
}

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET
