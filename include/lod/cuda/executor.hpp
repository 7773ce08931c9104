// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup core
/// The executor for NVIDIA GPUs: enqueues operations in a stream. Needs the headers of the CUDA runtime but no
/// particular compiler; the kernels come with <lod/cuda.cuh> or from the compiled library.
#pragma once

#include <lod/core/executor.hpp>
#include <lod/core/lod_index.hpp>
#include <lod/core/reference.hpp>
#include <lod/core/row_marks.hpp>
#include <lod/core/version.hpp>
#include <lod/cuda/faults.hpp>
#include <lod/cuda/stream.hpp>

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace lod::inline LOD_INTERFACE {

namespace detail {

/// The stream of a GPU in which numbers of LoDs are copied and freed. Like LoDs, it outlives executors.
inline CudaStream& offsets_stream(int device) {
  static std::mutex mutex;
  // Never destroyed: LoDs may outlive everything, and at the program's end the runtime may already be gone.
  static auto& streams = *new std::vector<Reference<CudaStream>>;
  const std::lock_guard lock(mutex);
  for (const auto& stream : streams) {
    if (stream->device() == device) return *stream;
  }
  return *streams.emplace_back(CudaStream::make(device, nullptr, nullptr));
}

/// Offsets of a LoD on a GPU and, if they count rows, the marks among these rows.
struct MarkedOffsets {
  const std::int64_t* numbers;
  RowMarks marks;
};

/// The numbers of a LoD on a GPU, followed by the marks among the rows of each of its levels.
class CudaOffsets final : public LoDBlock::DeviceCopy {
 public:
  /// Enqueues the copy. Throws CudaError.
  CudaOffsets(const LoDBlock& block, int device)
      : DeviceCopy(&own_kind, [](DeviceCopy* copy) noexcept { delete static_cast<CudaOffsets*>(copy); }),
        home_(offsets_stream(device)),
        mark_place_(static_cast<std::int64_t>(block.number_count())),
        mark_count_(RowMarks::count(rows_of(block))),
        numbers_(mark_place_ + block.levels * mark_count_, &home_) {
    const CurrentDevice current(device);
    const BesideCapture beside;
    std::int64_t* to = numbers_.data();
    const auto append = [&](std::span<const std::int64_t> numbers) {
      home_.upload(to, numbers.data(), numbers.size_bytes());
      to += numbers.size();
    };
    block.for_each_piece(append);
    std::vector<std::int64_t> marks;
    marks.reserve(static_cast<std::size_t>(mark_count_));
    for (int level = 0; level < block.levels; ++level) {
      marks.clear();
      RowMarks::for_each(block[level].absolute, block[level].size, [&](std::int64_t mark) { marks.push_back(mark); });
      append(marks);
    }
    check_cuda(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "cudaEventCreateWithFlags");
    const cudaError_t error = cudaEventRecord(event_, home_.get());
    if (error != cudaSuccess) ignore_cuda(cudaEventDestroy(event_));
    check_cuda(error, "cudaEventRecord");
  }
  /// The memory is reused only after all work of the streams that use it.
  ~CudaOffsets() {
    try {
      const CurrentDevice current(device());
      const BesideCapture beside;
      for (const auto& [user, of_graph] : users_) {
        const std::lock_guard lock(user->mutex);
        if (!user->alive || of_graph) continue;
        if (is_capturing(user->stream)) {  // no order with work before the graph can be established
          user->kept.push_back(Reference<const Shared>::share(numbers_.block()));
        } else {
          ignore_cuda(cudaEventRecord(event_, user->stream));
          ignore_cuda(cudaStreamWaitEvent(home_.get(), event_, 0));
        }
      }
      ignore_cuda(cudaEventDestroy(event_));
    } catch (...) {  // the GPU is gone, and its memory with it
    }
  }

  /// A copy as a CudaOffsets; null if another back end made it.
  static CudaOffsets* from(LoDBlock::DeviceCopy* copy) noexcept {
    return copy->kind == &own_kind ? static_cast<CudaOffsets*>(copy) : nullptr;
  }

  int device() const noexcept { return home_.device(); }
  /// Offsets of the block, where `numbers` is the address of its numbers on the GPU.
  MarkedOffsets offsets(const LoDBlock& block, const std::int64_t* numbers,
                        const std::int64_t* offsets) const noexcept {
    MarkedOffsets found{numbers + block.position_of(offsets), {}};
    for (int level = 0; level < block.levels; ++level) {
      const std::int64_t* const rows = block[level].absolute;
      if (std::less<>()(offsets, rows) || std::less<>()(rows + block[level].size, offsets)) continue;
      found.marks = {numbers + mark_place_ + level * mark_count_, offsets - rows};
    }
    return found;
  }
  /// The numbers, for work enqueued in `stream` from now on. Throws CudaError.
  const std::int64_t* numbers(const CudaStream& stream) {
    const bool capturing = stream.capturing();
    const std::lock_guard lock(mutex_);
    for (auto& [user, of_graph] : users_) {
      if (user.get() != stream.state().get()) continue;
      if (capturing && !of_graph) keep(of_graph, *user);
      return numbers_.data();
    }
    User& user = users_.emplace_back(User{stream.state(), false});
    try {
      if (capturing) {  // a graph cannot wait for anything outside it
        const BesideCapture beside;
        check_cuda(cudaEventSynchronize(event_), "cudaEventSynchronize");
        keep(user.of_graph, *user.stream);
      } else {
        check_cuda(cudaStreamWaitEvent(stream.get(), event_, 0), "cudaStreamWaitEvent");
      }
    } catch (...) {
      users_.pop_back();
      throw;
    }
    return numbers_.data();
  }

 private:
  struct User {
    Reference<StreamState> stream;
    bool of_graph;  // the stream keeps the memory, since a graph uses it whenever it runs
  };
  void keep(bool& of_graph, StreamState& stream) {
    const std::lock_guard lock(stream.mutex);
    stream.kept.push_back(Reference<const Shared>::share(numbers_.block()));
    of_graph = true;
  }

  static std::int64_t rows_of(const LoDBlock& block) noexcept {
    const Level& last = block[block.levels - 1];
    return last.offsets[last.size];
  }

  static inline char own_kind = 0;  // not const, or a linker might fold it with that of another class

  CudaStream& home_;
  std::int64_t mark_place_;
  std::int64_t mark_count_;  // for each level
  Buffer<std::int64_t, Cuda> numbers_;
  cudaEvent_t event_ = nullptr;  // records when the numbers have arrived
  std::mutex mutex_;
  std::vector<User> users_;
};

/// One address for each type.
template <class X>
inline constexpr char type_key = 0;

/// The state that an executor and its copies share.
struct CudaShared final : Shared {
  explicit CudaShared(Reference<CudaStream> of)
      : Shared([](const Shared* shared) noexcept { delete static_cast<const CudaShared*>(shared); }),
        stream(std::move(of)),
        scratch(stream.get()),
        workspace(Cpu::default_resource()) {}
  Reference<CudaStream> stream;
  mutable ScratchMemory<Cuda> scratch;
  mutable Workspace workspace;
  mutable CudaFaults faults;
  mutable std::mutex mutex;  // guards the companions
  mutable std::vector<std::pair<const char*, Reference<Shared>>> companions;
};

}  // namespace detail

/// Enqueues operations in a stream of a GPU and returns without waiting for them; after `synchronize()` they have
/// completed. Tensors that an executor makes keep its stream alive. Another executor may read its results after
/// `wait_for`. Copies share one stream and its scratch memory; moves are copies. An executor may be used by several
/// threads at a time; their work is enqueued in the order of their calls. Graphs that are captured with an executor
/// must run in its stream, to which their scratch memory belongs.
class CudaExecutor {
 public:
  /// The device whose memory its tensors are in.
  using device = Cuda;

  /// A stream of its own, on the thread's current GPU; memory from `memory`, or, if that is null, from the runtime's
  /// stream-ordered allocator. Throws CudaError, also if there is no GPU or no driver.
  explicit CudaExecutor(CudaMemoryResource* memory = nullptr) : CudaExecutor(current_device(), memory) {}
  /// A stream of its own, on GPU number `ordinal`.
  explicit CudaExecutor(int ordinal, CudaMemoryResource* memory = nullptr) : CudaExecutor(ordinal, nullptr, memory) {}
  /// A stream of the user's, which must outlive the executor and its tensors. Not the default stream, whose work waits
  /// for that of all others: throws std::invalid_argument for it.
  explicit CudaExecutor(cudaStream_t stream, CudaMemoryResource* memory = nullptr)
      : CudaExecutor(current_device(), given(stream), memory) {}

  // No moves: a moved-from executor still works.
  CudaExecutor(const CudaExecutor&) noexcept = default;
  CudaExecutor& operator=(const CudaExecutor&) noexcept = default;
  ~CudaExecutor() = default;

  /// The number of the GPU.
  int ordinal() const noexcept { return shared_->stream->device(); }
  /// The stream.
  cudaStream_t stream() const noexcept { return shared_->stream->get(); }
  /// The memory resource of results, with which a tensor is constructed.
  CudaStream* resource() const noexcept { return shared_->stream.get(); }
  /// Its scratch memory on the GPU.
  ScratchMemory<Cuda>& scratch() const noexcept { return shared_->scratch; }
  /// Its scratch memory on the CPU.
  Workspace& workspace() const noexcept { return shared_->workspace; }

  /// Waits until everything that was enqueued has completed. Throws CudaError, also for errors of enqueued work, and
  /// OutOfRange for invalid ids that operations found on the GPU.
  void synchronize() const {
    shared_->stream->synchronize();
    rethrow_faults();
  }
  /// Throws OutOfRange for an invalid id found by an operation that is known to have completed. Does not wait.
  void rethrow_faults() const { shared_->faults.rethrow(); }
  /// Orders everything that is enqueued here from now on after everything that has been enqueued in `other`. Does not
  /// wait itself.
  void wait_for(const CudaExecutor& other) const { detail::order_streams(other.ordinal(), other.stream(), stream()); }

  /// Values copied to scratch memory on the GPU, for work enqueued while this object exists.
  class Upload {
   public:
    /// The address of the copy on the GPU.
    const void* data() const noexcept { return loan_.data(); }

   private:
    friend CudaExecutor;
    Upload(const CudaExecutor& executor, const void* from, std::size_t bytes)
        : loan_(executor.scratch(), static_cast<std::int64_t>(bytes)) {
      if (bytes > 0) executor.resource()->upload(loan_.data(), from, bytes);
    }
    ScratchMemory<Cuda>::Loan<std::byte> loan_;
  };
  /// For operations, which compute offsets and addresses on the CPU: enqueues a copy of `bytes` bytes. `from` has been
  /// read when this returns. Throws CudaError.
  Upload upload(const void* from, std::size_t bytes) const { return Upload(*this, from, bytes); }

  /// For operations: where a kernel stores the position of an id outside [0, height). `what`, a string literal, begins
  /// the text of the error. Throws CudaError, and OutOfRange for an invalid id that was found thousands of calls
  /// before.
  std::int64_t* fault(const char* what, std::int64_t height) const { return shared_->faults.place(what, height); }
  /// For kernels: the X that the executor and its copies share, created by X::make(*this) on first use. X derives from
  /// detail::Shared. Throws what X::make throws.
  template <class X>
  X& companion() const {
    const std::lock_guard lock(shared_->mutex);
    for (const auto& [key, made] : shared_->companions) {
      if (key == &detail::type_key<X>) return static_cast<X&>(*made);
    }
    detail::Reference<X> made = X::make(*this);
    shared_->companions.emplace_back(&detail::type_key<X>, detail::Reference<detail::Shared>::share(made.get()));
    return *made;
  }

  /// For operations: `offsets`, which are among the numbers of the LoD, on the GPU. The numbers of a LoD are copied
  /// once for all tensors that share it and for all executors of a GPU. Throws CudaError.
  detail::MarkedOffsets offsets(const LoDView& lod, const std::int64_t* offsets) const {
    const detail::LoDBlock& block = *lod.block();
    for (auto* copy = block.copies(); copy; copy = copy->next) {
      auto* const found = detail::CudaOffsets::from(copy);
      if (found && found->device() == ordinal())
        return found->offsets(block, found->numbers(*shared_->stream), offsets);
    }
    auto made = std::make_unique<detail::CudaOffsets>(block, ordinal());
    const detail::MarkedOffsets found = made->offsets(block, made->numbers(*shared_->stream), offsets);
    block.add(made.release());
    return found;
  }

 private:
  CudaExecutor(int ordinal, cudaStream_t stream, CudaMemoryResource* memory)
      : shared_(detail::Reference<detail::CudaShared>::adopt(
            new detail::CudaShared(CudaStream::make(ordinal, stream, memory)))) {}
  static int current_device() {
    int device = 0;
    detail::check_cuda(cudaGetDevice(&device), "cudaGetDevice");
    int count = 0;
    detail::check_cuda(cudaGetDeviceCount(&count), "cudaGetDeviceCount");
    return device;
  }
  static cudaStream_t given(cudaStream_t stream) {
    if (!stream) throw std::invalid_argument("CudaExecutor: the default stream, expected another one");
    return stream;
  }

  detail::Reference<detail::CudaShared> shared_;
};

}  // namespace lod::inline LOD_INTERFACE
