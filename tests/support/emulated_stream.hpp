// SPDX-License-Identifier: Apache-2.0
/// @file
/// The algorithms of kernels on emulated GPUs: enqueued in the stream of the executor, and done by the CPU when
/// something waits for it. What they are given must not point into the memory of the host.
#pragma once

#include "support/emulated_cuda.hpp"
#include <lod/cuda.hpp>
#include <lod/kernels/cuda/fallback.hpp>
#include <lod/kernels/thrust/system.hpp>

#include <thrust/system/cpp/execution_policy.h>

#include <cstdint>
#include <type_traits>

namespace lod::inline LOD_TARGET {
namespace kernel::bulk {

template <>
class System<CudaExecutor> {
  using OnCpu = Algorithms<std::remove_cvref_t<decltype(::thrust::cpp::par)>>;

 public:
  explicit System(const CudaExecutor& executor) : current_(executor.ordinal()), stream_(executor.stream()) {}

  template <class Body>
  void for_each(std::int64_t count, const Body& body) const {
    enqueue([](const OnCpu& cpu, std::int64_t size, const Body& each) { cpu.for_each(size, each); }, count, body);
  }
  template <class Key, class Value>
  void sort_by_key(Key* keys, std::int64_t count, Value* values) const {
    enqueue([](const OnCpu& cpu, Key* by, std::int64_t size, Value* with) { cpu.sort_by_key(by, size, with); }, keys,
            count, values);
  }
  void inclusive_scan(std::int64_t* numbers, std::int64_t count) const {
    enqueue([](const OnCpu& cpu, std::int64_t* to, std::int64_t size) { cpu.inclusive_scan(to, size); }, numbers,
            count);
  }
  void exclusive_scan(std::int64_t* numbers, std::int64_t count) const {
    enqueue([](const OnCpu& cpu, std::int64_t* to, std::int64_t size) { cpu.exclusive_scan(to, size); }, numbers,
            count);
  }

 private:
  /// Fails if an argument of a kernel has an address of the host in it. Bytes between members are rubbish, which may
  /// look like one: only a compiler that can clear them makes this check.
  template <class Argument>
  static void check([[maybe_unused]] Argument argument) {
    static_assert(std::is_trivially_copyable_v<Argument>, "kernels get their arguments byte by byte");
#if __has_builtin(__builtin_clear_padding)
    __builtin_clear_padding(&argument);
    lod_test::emulated_cuda::check_plain(&argument, sizeof(argument), "the arguments of a kernel");
#endif
  }
  /// Enqueues work(algorithms of the CPU, arguments...), the arguments being those of a kernel.
  template <class Work, class... Arguments>
  void enqueue(const Work& work, const Arguments&... arguments) const {
    (check(arguments), ...);
    lod_test::emulated_cuda::launch(stream_, [work, arguments...] { work(OnCpu(::thrust::cpp::par), arguments...); });
    detail::check_cuda(cudaGetLastError(), "the launch of a kernel");
  }

  detail::CurrentDevice current_;
  cudaStream_t stream_;
};

}  // namespace kernel::bulk
}  // namespace lod::inline LOD_TARGET
