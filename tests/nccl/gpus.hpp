// SPDX-License-Identifier: Apache-2.0
/// @file
/// What the cases of several emulated GPUs share: each rank has one.
#pragma once

#include "mpi/ranks.hpp"
#include "support/emulated_cuda.hpp"
#include "support/emulated_nccl.hpp"
#include "support/emulated_stream.hpp"
#include "support/same_bits.hpp"
#include <lod/nccl.hpp>
#include <lod/ops.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

namespace lod_test {

/// The ranks of the run, once with values in CPU memory, whose results are the reference, and once with GPUs.
struct Gpus {
  lod::mpi::Communicator hosts = all_ranks();
  lod::CudaExecutor executor{};
  lod::nccl::Communicator ranks{MPI_COMM_WORLD, executor};

  int next() const { return (ranks.rank() + 1) % ranks.size(); }
  int before() const { return (ranks.rank() + ranks.size() - 1) % ranks.size(); }
  template <class X>
  auto there(const X& x) const {
    return lod::to<lod::Cuda>(executor, x);
  }
  /// Also where there is nothing to copy, since what is enqueued here is done only then, and others may wait for it.
  template <class X>
  auto here(const X& x) const {
    executor.synchronize();
    return lod::to<lod::Cpu>(executor, x);
  }
};

/// Calls f(), which may wait for other ranks, and checks that it does not for the GPU.
template <class F>
auto without_waiting(const F& f) {
  const emulated_cuda::Counters before = emulated_cuda::counters();
  auto result = f();
  CHECK((emulated_cuda::counters() - before).synchronisations == 0);
  return result;
}

}  // namespace lod_test
