// SPDX-License-Identifier: Apache-2.0
/// @file
/// The part of the CUDA runtime that the library calls, emulated on the CPU, so that what the host does around its
/// kernels is tested on machines without a GPU. It is as late and as strict as the real one may be: what is enqueued
/// runs only when something waits for it, device memory is out of the host's reach and begins and ends as rubbish.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>

namespace lod_test::emulated_cuda {

/// How many calls succeeded so far, of all threads. Recorded calls count when they are recorded; what a graph repeats
/// does not count again.
struct Counters {
  std::int64_t allocations = 0;       ///< of device and of pinned memory, in stream order or not
  std::int64_t frees = 0;             ///< of the same
  std::int64_t synchronisations = 0;  ///< whatever makes the host wait, hidden or not: cudaFree and cudaMemcpy do too
  std::int64_t queries = 0;           ///< of events and streams
  std::int64_t creations = 0;         ///< of events and streams
  std::int64_t copies = 0;
  std::int64_t fills = 0;
  std::int64_t launches = 0;
  std::int64_t host_functions = 0;
  std::int64_t graph_launches = 0;

  friend bool operator==(const Counters&, const Counters&) = default;
};

Counters operator-(const Counters& after, const Counters& before);
Counters counters();

/// Device memory lives until its free has run, and that of a graph until the graph and its executables are gone.
std::int64_t live_bytes();
std::int64_t live_pinned_bytes();
std::int64_t live_streams();
std::int64_t live_events();

/// Runs all that is enqueued, as if time had passed: no one waited for it, so it is no synchronisation.
void run_all();

/// One by default. With none, every call that needs a device returns cudaErrorNoDevice.
void set_device_count(int count);

/// Lets the next call of a function of the runtime, or of "launch", return this error and do nothing.
void fail_next(const char* function, cudaError_t error);

/// Is told of what no error code can tell; prints and aborts unless a test replaces it.
extern void (*on_failure)(const char* text);

/// Fails if a word of the object, which a kernel is to receive as plain bytes, is an address the device can not read:
/// one of readable host memory that is neither pinned nor machine code. The words are those at multiples of 8 bytes.
/// Numbers may happen to be such an address, two adjacent ints too if the second is between 0x5000 and 0x7fff, which
/// is rare. The heap of a program without position independence is not recognised, since its addresses are too low.
void check_plain(const void* object, std::size_t bytes, const char* what);

/// The memory around an address that a kernel may touch now: a block of the device's, or pinned. Begin and end are 0 if
/// there is none.
std::pair<std::uintptr_t, std::uintptr_t> memory_around(std::uintptr_t address);

/// As a launch with a launch configuration does, this leaves an error to cudaGetLastError.
void enqueue_kernel(cudaStream_t stream, std::function<void()> kernel);

/// A body, of which there are very many: by its bytes, and a function that calls it for each number below `count`.
struct AnyBody {
  const void* bytes;
  std::size_t size;
  void (*call)(const void* bytes, std::int64_t count);
};
/// Enqueues a copy of the body's bytes, which stands for a kernel and its arguments.
void launch_bodies(cudaStream_t stream, const AnyBody& body, std::int64_t count);

/// Enqueues a copy of the closure, which stands for a kernel and its arguments.
template <class Closure>
void launch(cudaStream_t stream, const Closure& closure) {
  enqueue_kernel(stream, std::function<void()>(closure));
}

}
