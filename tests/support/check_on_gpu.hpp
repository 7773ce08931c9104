// SPDX-License-Identifier: Apache-2.0
/// @file
/// Checks of operations on a GPU: the results are those of the same kernels on the CPU, a second call allocates nothing
/// and waits for nothing, and a graph that was captured from a call does the same whenever it runs. On a GPU with nvcc,
/// or with the compiled library; or, with LOD_TEST_EMULATED_GPU, on one that is emulated, where it is also seen who
/// waits.
#pragma once

#include "support/counting_cuda_resource.hpp"
#include "support/device_calls.hpp"
#include "support/gpu_transfer.hpp"
#include "support/interpreted_kernels.hpp"
#include "support/thrust_system.hpp"
#include <lod/cuda.hpp>
#if defined(__CUDACC__)
#  include <lod/cuda.cuh>
#elif !defined(LOD_CUDA_LIBRARY)
#  include "support/emulated_stream.hpp"
#endif
#ifdef LOD_TEST_EMULATED_GPU
#  include "support/emulated_cuda.hpp"
#endif

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

namespace lod_test {

/// What of a call is checked: its results alone, where it waits or allocates by itself, or all that is said above.
enum class Checked { RESULTS, ALL };

/// The check of a call that is given for both executors. It is compiled once, and not for each of the calls.
inline void check_on_gpu(const std::string& name, const std::function<void(DeviceCall<ThrustExecutor>&)>& f_on_cpu,
                         const std::function<void(DeviceCall<lod::CudaExecutor>&)>& f, Checked what) {
  CAPTURE(name);
  const ThrustExecutor on_cpu;
  DeviceCall<ThrustExecutor> there(on_cpu);
  there.make(f_on_cpu);
  const std::vector<Result> expected = there.results();

  CountingCudaResource resource;
  const lod::CudaExecutor executor(&resource);
  DeviceCall<lod::CudaExecutor> call(executor);
  call.make(f);
  check_same_results(call.results(), expected);
  if (what == Checked::RESULTS) return;

  call.forget();
  executor.synchronize();
  const std::int64_t allocations = resource.allocations;
#ifdef LOD_TEST_EMULATED_GPU
  const emulated_cuda::Counters before = emulated_cuda::counters();
#endif
  call.make(f);
  CHECK(resource.allocations == allocations);
#ifdef LOD_TEST_EMULATED_GPU
  const emulated_cuda::Counters made = emulated_cuda::counters() - before;
  CHECK(made.allocations == 0);
  CHECK(made.frees == 0);
  CHECK(made.creations == 0);
  CHECK(made.synchronisations == 0);
#endif
  check_same_results(call.results(), expected);

  // tools/gpu-check says 0 for a tool that graphs confuse.
  if (const char* const graphs = std::getenv("LOD_TEST_GRAPHS"); graphs && *graphs == '0') return;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  call.forget();
  executor.synchronize();
  REQUIRE(cudaStreamBeginCapture(executor.stream(), cudaStreamCaptureModeThreadLocal) == cudaSuccess);
  call.make(f);
  REQUIRE(cudaStreamEndCapture(executor.stream(), &graph) == cudaSuccess);
  REQUIRE(cudaGraphInstantiate(&executable, graph, 0) == cudaSuccess);
  for (int run = 0; run < 2; ++run) {
    call.forget();
    REQUIRE(cudaGraphLaunch(executable, executor.stream()) == cudaSuccess);
    check_same_results(call.results(), expected);
  }
  CHECK(cudaGraphExecDestroy(executable) == cudaSuccess);
  CHECK(cudaGraphDestroy(graph) == cudaSuccess);
}

/// f(call) calls an operation with the executor, the arguments and the results of a DeviceCall.
template <class F>
void check_on_gpu(const std::string& name, const F& f, Checked what = Checked::ALL) {
  check_on_gpu(name, std::function<void(DeviceCall<ThrustExecutor>&)>(std::cref(f)),
               std::function<void(DeviceCall<lod::CudaExecutor>&)>(std::cref(f)), what);
}

#ifdef LOD_TEST_EMULATED_GPU
/// How many kernels and fills the second of two equal calls launches; a sort counts as one here.
template <class F>
std::int64_t launches_of(const lod::CudaExecutor& executor, const F& call) {
  call();
  executor.synchronize();
  const emulated_cuda::Counters before = emulated_cuda::counters();
  call();
  const emulated_cuda::Counters made = emulated_cuda::counters() - before;
  return made.launches + made.fills;
}
#endif

}  // namespace lod_test
