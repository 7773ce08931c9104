// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup core
/// The stream of an NVIDIA GPU in which all work for a tensor is enqueued: its memory, and copies to and from the GPU.
/// Needs the headers of the CUDA runtime but no particular compiler.
#pragma once

#include <lod/core/buffer.hpp>
#include <lod/core/device.hpp>
#include <lod/core/error.hpp>
#include <lod/core/reference.hpp>
#include <lod/core/version.hpp>
#include <lod/cuda/memory.hpp>

#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <utility>
#include <vector>

namespace lod::inline LOD_INTERFACE {

class CudaStream;

/// The memory of an NVIDIA GPU.
struct Cuda {
  /// The source of memory: an executor's stream, `executor.resource()`.
  using memory_resource = CudaStream;
  /// There is no default: the stream in which a tensor's work is enqueued must be given, by `executor.resource()`.
  static memory_resource* default_resource() = delete;
};

namespace detail {

/// The state that outlives a stream: whether the stream still exists, and what must live as long as it does.
struct StreamState final : Shared {
  explicit StreamState(cudaStream_t of)
      : Shared([](const Shared* shared) noexcept { delete static_cast<const StreamState*>(shared); }), stream(of) {}
  cudaStream_t stream;
  std::mutex mutex;  // guards everything below
  bool alive = true;
  std::vector<Reference<const Shared>> kept;
};

/// Throws CudaError.
inline bool is_capturing(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  check_cuda(cudaStreamIsCapturing(stream, &status), "cudaStreamIsCapturing");
  return status != cudaStreamCaptureStatusNone;
}

/// Orders everything that is enqueued in `later` from now on after everything that has been enqueued in `earlier`, a
/// stream of GPU `device`. Does not wait itself. Throws CudaError.
inline void order_streams(int device, cudaStream_t earlier, cudaStream_t later) {
  const CurrentDevice current(device);
  cudaEvent_t event = nullptr;
  check_cuda(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreateWithFlags");
  const cudaError_t recorded = cudaEventRecord(event, earlier);
  const cudaError_t waits = recorded == cudaSuccess ? cudaStreamWaitEvent(later, event, 0) : cudaSuccess;
  ignore_cuda(cudaEventDestroy(event));
  check_cuda(recorded, "cudaEventRecord");
  check_cuda(waits, "cudaStreamWaitEvent");
}

}  // namespace detail

/// A stream of a GPU and the source of memory for work enqueued in it. Executors own one; the tensors that they make
/// keep it alive. All member functions may be called from several threads at a time.
///
/// While the stream is captured into a graph, memory is not taken from the graph: what is allocated exists before the
/// graph runs, and what is freed is kept until the stream's end, since the graph may use it in every run.
class CudaStream final : public detail::Shared {
 public:
  /// A new stream of `device`, or the user's `stream`, which must outlive this object. Throws CudaError.
  static detail::Reference<CudaStream> make(int device, cudaStream_t stream, CudaMemoryResource* memory) {
    return detail::Reference<CudaStream>::adopt(new CudaStream(device, stream, memory));
  }

  /// The number of the GPU.
  int device() const noexcept { return device_; }
  /// The stream.
  cudaStream_t get() const noexcept { return stream_; }
  /// The source of memory.
  CudaMemoryResource* memory() const noexcept { return memory_; }

  /// Whether the stream is being captured into a graph. Throws CudaError.
  bool capturing() const { return detail::is_capturing(stream_); }
  /// For objects that may outlive the stream.
  const detail::Reference<detail::StreamState>& state() const noexcept { return state_; }

  /// Memory for work enqueued from now on. Throws CudaError.
  void* allocate(std::size_t bytes) {
    const detail::CurrentDevice current(device_);
    if (!capturing()) return memory_->allocate(bytes, alignment, stream_);
    const detail::BesideCapture beside;
    void* const memory = memory_->allocate(bytes, alignment, side_stream());
    detail::check_cuda(cudaStreamSynchronize(side_stream()), "cudaStreamSynchronize");
    return memory;
  }
  /// Frees memory that work enqueued so far may still use.
  void deallocate(void* memory, std::size_t bytes) noexcept {
    try {
      const detail::CurrentDevice current(device_);
      if (capturing()) {
        const std::lock_guard lock(mutex_);
        of_graphs_.emplace_back(memory, bytes);
      } else {
        memory_->deallocate(memory, bytes, alignment, stream_);
      }
    } catch (...) {  // the GPU is gone, and its memory with it; or the memory is leaked for lack of room to note it
    }
  }

  /// Enqueues a copy within the memory of this GPU.
  void copy(void* to, const void* from, std::size_t bytes) {
    const detail::CurrentDevice current(device_);
    detail::check_cuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream_), "cudaMemcpyAsync");
  }
  /// Enqueues setting bytes to zero.
  void set_zero(void* to, std::size_t bytes) {
    const detail::CurrentDevice current(device_);
    detail::check_cuda(cudaMemsetAsync(to, 0, bytes, stream_), "cudaMemsetAsync");
  }
  /// Enqueues a copy to the GPU. `from` is read before this returns, through pinned memory that is reused; waits only
  /// if more than 64 MiB are in flight. While the stream is captured, the copy is made at once and is not part of the
  /// graph.
  void upload(void* to, const void* from, std::size_t bytes) {
    const detail::CurrentDevice current(device_);
    const std::lock_guard lock(transfers_);
    if (capturing()) {
      const detail::BesideCapture beside;
      send(to, from, bytes, side_stream(), [this](std::size_t part) { return aside(part); });
      detail::check_cuda(cudaStreamSynchronize(side_stream()), "cudaStreamSynchronize");
    } else {
      send(to, from, bytes, stream_, [this](std::size_t part) { return in_order(part); });
    }
  }
  /// Waits for everything that is enqueued, then copies from the GPU. Must not be called while the stream is captured.
  void download(void* to, const void* from, std::size_t bytes) {
    const detail::CurrentDevice current(device_);
    const std::lock_guard lock(transfers_);
    auto* target = static_cast<std::byte*>(to);
    const auto* source = static_cast<const std::byte*>(from);
    // Two parts at a time: one is transferred while the other is copied to its destination.
    std::array<std::size_t, 2> sizes{};
    std::size_t requested = 0, arrived = 0;
    for (std::size_t turn = 0; arrived < bytes; turn = 1 - turn) {
      Pinned& mine = incoming_[turn];
      if (sizes[turn] > 0) {
        mine.wait();
        std::memcpy(target + arrived, mine.memory(), sizes[turn]);
        arrived += std::exchange(sizes[turn], 0);
      }
      if (requested < bytes) {
        const std::size_t part = std::min(bytes - requested, largest_part);
        mine.reserve(part);
        detail::check_cuda(cudaMemcpyAsync(mine.memory(), source + requested, part, cudaMemcpyDeviceToHost, stream_),
                           "cudaMemcpyAsync");
        mine.record(stream_);
        sizes[turn] = part;
        requested += part;
      }
    }
  }
  /// Waits until everything that is enqueued is done. Throws CudaError, also for errors of that work.
  void synchronize() {
    const detail::CurrentDevice current(device_);
    detail::check_cuda(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
  }

 private:
  static constexpr std::size_t largest_part = std::size_t{4} << 20;
  static constexpr std::size_t smallest_block = std::size_t{1} << 20;
  static constexpr std::size_t under_way_at_most = std::size_t{64} << 20;

  /// A block of pinned memory, and the event after which the GPU is done with it.
  class Pinned {
   public:
    Pinned() = default;
    Pinned(Pinned&& other) noexcept
        : memory_(std::exchange(other.memory_, nullptr)),
          size_(std::exchange(other.size_, 0)),
          done_(std::exchange(other.done_, nullptr)) {}
    Pinned& operator=(Pinned&& other) noexcept {
      std::swap(memory_, other.memory_);
      std::swap(size_, other.size_);
      std::swap(done_, other.done_);
      return *this;
    }
    ~Pinned() {
      if (done_) detail::ignore_cuda(cudaEventDestroy(done_));
      if (memory_) detail::ignore_cuda(cudaFreeHost(memory_));
    }

    std::byte* memory() const noexcept { return static_cast<std::byte*>(memory_); }
    std::size_t size() const noexcept { return size_; }
    /// Makes room for `bytes`; the GPU must be done with the block.
    void reserve(std::size_t bytes) {
      if (bytes <= size_) return;
      *this = Pinned();
      const std::size_t size = std::bit_ceil(std::max(bytes, smallest_block));
      detail::check_cuda(cudaEventCreateWithFlags(&done_, cudaEventDisableTiming), "cudaEventCreateWithFlags");
      detail::check_cuda(cudaHostAlloc(&memory_, size, cudaHostAllocDefault), "cudaHostAlloc");
      size_ = size;
    }
    /// Records that work enqueued in `stream` so far uses it.
    void record(cudaStream_t stream) { detail::check_cuda(cudaEventRecord(done_, stream), "cudaEventRecord"); }
    void wait() { detail::check_cuda(cudaEventSynchronize(done_), "cudaEventSynchronize"); }
    bool is_done() {
      const cudaError_t error = cudaEventQuery(done_);
      if (error != cudaErrorNotReady) detail::check_cuda(error, "cudaEventQuery");
      detail::ignore_cuda(error);
      return error == cudaSuccess;
    }

   private:
    void* memory_ = nullptr;
    std::size_t size_ = 0;
    cudaEvent_t done_ = nullptr;
  };

  template <class Place>
  static void send(void* to, const void* from, std::size_t bytes, cudaStream_t stream, const Place& place) {
    auto* target = static_cast<std::byte*>(to);
    const auto* source = static_cast<const std::byte*>(from);
    while (bytes > 0) {
      const std::size_t part = std::min(bytes, largest_part);
      std::byte* const staged = place(part);
      std::memcpy(staged, source, part);
      detail::check_cuda(cudaMemcpyAsync(target, staged, part, cudaMemcpyHostToDevice, stream), "cudaMemcpyAsync");
      target += part;
      source += part;
      bytes -= part;
    }
  }
  /// Pinned memory for a copy outside a graph: waits for the last such copy.
  std::byte* aside(std::size_t bytes) {
    detail::check_cuda(cudaStreamSynchronize(side_stream()), "cudaStreamSynchronize");
    aside_.reserve(bytes);
    return aside_.memory();
  }
  /// Pinned memory for the stream's next copy. Many small copies share a block.
  std::byte* in_order(std::size_t bytes) {
    if (used_ + bytes > current_.size()) next_block(bytes);
    std::byte* const place = current_.memory() + used_;
    used_ += (bytes + alignment - 1) / alignment * alignment;
    return place;
  }
  void next_block(std::size_t bytes) {
    Pinned next;
    for (std::size_t i = 0; i < under_way_.size() && next.size() == 0; ++i) {
      if (under_way_[i].size() < bytes) continue;
      const bool full = under_way_bytes_ >= under_way_at_most;
      if (full) under_way_[i].wait();
      if (full || under_way_[i].is_done()) {
        next = std::move(under_way_[i]);
        under_way_.erase(under_way_.begin() + static_cast<std::ptrdiff_t>(i));
        under_way_bytes_ -= next.size();
      }
    }
    next.reserve(bytes);
    if (current_.size() > 0) {
      under_way_.reserve(under_way_.size() + 1);
      current_.record(stream_);
      under_way_bytes_ += current_.size();
      under_way_.push_back(std::move(current_));
    }
    current_ = std::move(next);
    used_ = 0;
  }

  CudaStream(int device, cudaStream_t stream, CudaMemoryResource* memory)
      : Shared([](const Shared* shared) noexcept { delete static_cast<const CudaStream*>(shared); }),
        device_(device),
        stream_(stream),
        memory_(memory),
        state_(detail::Reference<detail::StreamState>::adopt(new detail::StreamState(stream))) {
    const detail::CurrentDevice current(device);
    if (!memory_) memory_ = default_cuda_resource(device);
    if (!stream_) {
      detail::check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
      owned_ = true;
      state_->stream = stream_;
    }
  }
  ~CudaStream() {
    try {
      const detail::CurrentDevice current(device_);
      detail::ignore_cuda(cudaStreamSynchronize(stream_));
      std::vector<detail::Reference<const Shared>> kept;
      {
        const std::lock_guard lock(state_->mutex);
        state_->alive = false;
        kept.swap(state_->kept);
      }
      for (const auto& [memory, bytes] : of_graphs_) memory_->deallocate(memory, bytes, alignment, stream_);
      if (side_) detail::ignore_cuda(cudaStreamDestroy(side_));
      if (owned_) detail::ignore_cuda(cudaStreamDestroy(stream_));
    } catch (...) {  // the GPU is gone, and all of this with it
    }
  }

  cudaStream_t side_stream() {
    const std::lock_guard lock(mutex_);
    if (!side_) {
      detail::check_cuda(cudaStreamCreateWithFlags(&side_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    }
    return side_;
  }

  int device_;
  cudaStream_t stream_;
  bool owned_ = false;
  CudaMemoryResource* memory_;
  detail::Reference<detail::StreamState> state_;
  std::mutex mutex_;  // guards the two members below
  cudaStream_t side_ = nullptr;
  std::vector<std::pair<void*, std::size_t>> of_graphs_;  // memory released while the stream was captured
  std::mutex transfers_;                                  // guards everything below
  Pinned current_;                                        // its first `used_` bytes are in use by copies
  std::size_t used_ = 0;
  std::vector<Pinned> under_way_;  // the oldest first
  std::size_t under_way_bytes_ = 0;
  Pinned aside_;
  std::array<Pinned, 2> incoming_;
};

namespace detail {

/// When destroyed, makes work enqueued in `later` from then on happen after everything enqueued in `earlier`. One of
/// them is the stream of `home`, the other one belongs to the same GPU and must still exist.
class OrderAtEnd {
 public:
  OrderAtEnd(Reference<CudaStream> home, cudaStream_t earlier, cudaStream_t later) noexcept
      : home_(std::move(home)), earlier_(earlier), later_(later) {}
  OrderAtEnd(OrderAtEnd&&) noexcept = default;  // the source orders nothing
  OrderAtEnd& operator=(OrderAtEnd&&) = delete;
  ~OrderAtEnd() {
    if (!home_) return;
    try {
      order_streams(home_->device(), earlier_, later_);
    } catch (...) {  // the GPU is gone, and its memory with it
    }
  }

 private:
  Reference<CudaStream> home_;
  cudaStream_t earlier_;
  cudaStream_t later_;
};

/// GPU memory that a buffer holds.
struct CudaBlock final : MemoryBlock {
  CudaBlock(Reference<CudaStream> from, std::size_t size)
      : MemoryBlock([](const Shared* shared) noexcept {
          const auto* block = static_cast<const CudaBlock*>(shared);
          block->stream->deallocate(block->memory, block->bytes);
          delete block;
        }),
        stream(std::move(from)),
        bytes(size) {}
  Reference<CudaStream> stream;
  std::size_t bytes;
  void* memory = nullptr;
};

template <>
struct MemoryOf<Cuda> {
  using Resource = CudaStream;
  struct Allocation {
    Reference<const MemoryBlock> block;
    void* values;
  };
  static Resource* initial_resource() noexcept { return nullptr; }
  static Resource* resource_of_copies(Resource* resource) noexcept { return resource; }
  static Allocation allocate(std::size_t bytes, Resource* resource) {
    if (!resource) {
      throw std::invalid_argument("a tensor on a GPU that was made without a stream: expected executor.resource()");
    }
    auto block = std::make_unique<CudaBlock>(Reference<CudaStream>::share(resource), bytes);
    block->memory = resource->allocate(bytes);
    void* const values = block->memory;
    return {Reference<const MemoryBlock>::adopt(block.release()), values};
  }
  /// Not while the stream is captured: the graph uses the memory whenever it runs.
  static bool reusable(Resource* resource) noexcept {
    try {
      return !resource->capturing();
    } catch (...) {
      return false;
    }
  }
  static void copy(Resource* resource, void* to, const void* from, std::size_t bytes) {
    resource->copy(to, from, bytes);
  }
  static void set_zero(Resource* resource, void* to, std::size_t bytes) { resource->set_zero(to, bytes); }
};

}  // namespace detail

}  // namespace lod::inline LOD_INTERFACE
