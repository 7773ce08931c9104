// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup core
/// The executor of the Thrust back end, without its kernels. On the CPU it runs the bodies of GPU kernels where there
/// is no GPU; for speed, use the executor of <lod/cpu.hpp>.
#pragma once

#include <lod/core/device.hpp>
#include <lod/core/executor.hpp>
#include <lod/core/reference.hpp>
#include <lod/core/target.hpp>

#include <memory_resource>

namespace lod::inline LOD_INTERFACE {

/// Works on the CPU as a Thrust execution policy says: `thrust::cpp::par`, `thrust::omp::par`, `thrust::tbb::par`.
/// Results depend neither on the policy nor on its threads. Copies share one workspace; moves are copies. An executor
/// may be used by several threads at a time.
template <class Policy>
class ThrustExecutor {
 public:
  /// The memory that its tensors are in.
  using device = Cpu;

  /// Results and scratch memory come from `resource`.
  LOD_TAGGED explicit ThrustExecutor(const Policy& policy = Policy(),
                                     std::pmr::memory_resource* resource = Cpu::default_resource())
      : policy_(policy), resource_(resource), shared_(detail::SharedWorkspace::make(resource)) {}

  // No moves: a moved-from executor still works.
  LOD_TAGGED ThrustExecutor(const ThrustExecutor&) = default;
  LOD_TAGGED ThrustExecutor& operator=(const ThrustExecutor&) = default;
  LOD_TAGGED ~ThrustExecutor() = default;

  /// The policy.
  LOD_TAGGED const Policy& policy() const noexcept { return policy_; }
  /// The source of memory for results and scratch memory.
  LOD_TAGGED std::pmr::memory_resource* resource() const noexcept { return resource_; }
  /// Its scratch memory, which copies of the executor share.
  LOD_TAGGED Workspace& workspace() const noexcept { return shared_->workspace; }
  /// The same: its tensors are in CPU memory.
  LOD_TAGGED ScratchMemory<Cpu>& scratch() const noexcept { return shared_->workspace; }

 private:
  Policy policy_;
  std::pmr::memory_resource* resource_;
  detail::Reference<detail::SharedWorkspace> shared_;
};

}  // namespace lod::inline LOD_INTERFACE
