// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup core
/// Executors say who works, with how many threads and scratch memory. Devices (device.hpp) say where the values are.
#pragma once

#include <lod/core/buffer.hpp>
#include <lod/core/device.hpp>
#include <lod/core/error.hpp>
#include <lod/core/forks.hpp>
#include <lod/core/processors.hpp>
#include <lod/core/reference.hpp>
#include <lod/core/target.hpp>
#include <lod/core/thread_pool.hpp>

#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace lod::inline LOD_INTERFACE {

class LoDView;

/// Scratch memory of a device, kept for the next operation: once warm, operations allocate none. Blocks are lent and
/// returned automatically. May be used from several threads at a time. On a device with streams all loans are for work
/// in the stream of the resource: returned memory is lent again at once, since work in a stream runs in order.
template <class Device>
class ScratchMemory {
  struct Lent {
    LOD_TAGGED Lent(ScratchMemory& from, std::size_t bytes)
        : memory(from), block(from.take(static_cast<std::int64_t>(bytes))) {}
    Lent(const Lent&) = delete;
    Lent& operator=(const Lent&) = delete;
    LOD_TAGGED ~Lent() { memory.give_back(std::move(block)); }
    ScratchMemory& memory;
    Buffer<std::byte, Device> block;
  };

 public:
  /// The source of memory.
  using Resource = typename Device::memory_resource;

  /// Empty; blocks come from `resource`.
  LOD_TAGGED explicit ScratchMemory(Resource* resource) noexcept : resource_(resource) {}
  ScratchMemory(const ScratchMemory&) = delete;
  ScratchMemory& operator=(const ScratchMemory&) = delete;
  LOD_TAGGED ~ScratchMemory() = default;

  /// Returns all memory that is not on loan to the resource. Otherwise the memory that one large operation needed is
  /// kept until the last copy of the executor is gone.
  LOD_TAGGED void release() noexcept {
    std::vector<Buffer<std::byte, Device>> blocks;
    if (const auto held = lock()) free_.swap(blocks);
  }

  /// `count` uninitialised values of T, until the loan ends. A loan must not outlive the memory that it comes from. On
  /// the CPU, up to 512 bytes lie in the loan itself, on the stack of its operation: no lock, and no search for a
  /// block.
  template <class T>
  class Loan {
   public:
    /// Throws ShapeMismatch if the bytes exceed the address space, and what the memory resource throws.
    LOD_TAGGED Loan(ScratchMemory& memory, std::int64_t count) : count_(count) {
      const std::size_t bytes = detail::checked_bytes(count, sizeof(T));
      data_ = reinterpret_cast<T*>(on_cpu && bytes <= few ? own_ : lent_.emplace(memory, bytes).block.data());
    }
    Loan(const Loan&) = delete;
    Loan& operator=(const Loan&) = delete;
    LOD_TAGGED ~Loan() = default;

    /// @{
    /// The lent values.
    LOD_TAGGED T* data() const noexcept { return data_; }
    LOD_TAGGED T& operator[](std::int64_t i) const noexcept { return data_[i]; }
    LOD_TAGGED std::span<T> span() const noexcept { return {data_, static_cast<std::size_t>(count_)}; }
    /// @}

   private:
    static constexpr bool on_cpu = std::same_as<Device, Cpu>;
    static constexpr std::size_t few = 512;  // bytes

    std::int64_t count_;
    T* data_;
    std::optional<Lent> lent_;
    alignas(on_cpu ? alignment : 1) std::byte own_[on_cpu ? few : 1];  // not initialised
  };

 private:
  using Memory = detail::MemoryOf<Device>;

  /// The smallest free block that is large enough; otherwise the largest one, enlarged; otherwise a new one. A loan of
  /// 0 bytes takes no block, so that the next loan can have it.
  LOD_TAGGED Buffer<std::byte, Device> take(std::int64_t bytes) {
    Buffer<std::byte, Device> block(resource_);
    if (bytes > 0 && Memory::reusable(resource_)) take_kept(bytes, block);
    if (block.size() < bytes) block = Buffer<std::byte, Device>(bytes, resource_);
    if (block.size() > 0) ++lent_;
    return block;
  }
  LOD_TAGGED void take_kept(std::int64_t bytes, Buffer<std::byte, Device>& block) {
    if (const auto held = lock()) {
      std::size_t best = free_.size();
      for (std::size_t i = 0; i < free_.size(); ++i) {
        const bool better =
            best == free_.size() ||
            (free_[best].size() < bytes ? free_[i].size() > free_[best].size()
                                        : free_[i].size() >= bytes && free_[i].size() < free_[best].size());
        if (better) best = i;
      }
      if (best < free_.size()) {
        block = std::move(free_[best]);
        free_.erase(free_.begin() + static_cast<std::ptrdiff_t>(best));
      } else if (free_.capacity() <= lent_) {
        // Room for every lent block, so that returning one cannot fail.
        free_.reserve(2 * lent_ + 8);
      }
    }
  }
  LOD_TAGGED void give_back(Buffer<std::byte, Device> block) noexcept {
    if (block.size() == 0) return;
    --lent_;
    if (!Memory::reusable(resource_)) return;
    try {
      if (const auto held = lock()) free_.push_back(std::move(block));
    } catch (...) {  // no room in the list: the block is freed instead of kept
    }
  }
  LOD_TAGGED std::unique_lock<std::mutex> lock() { return detail::lock_unless_lost(mutex_, forks_before_); }

  Resource* resource_;
  int forks_before_ = detail::forks.seen;
  std::mutex mutex_;
  std::vector<Buffer<std::byte, Device>> free_;
  std::atomic<std::size_t> lent_ = 0;
};

namespace detail {
/// Its address identifies the executable or shared library that uses it.
[[gnu::visibility("hidden")]] inline char module_mark = 0;
}  // namespace detail

/// What an executor keeps in CPU memory for the next operation: scratch memory, and objects of operations. May be used
/// from several threads at a time.
class Workspace : public ScratchMemory<Cpu> {
  struct AnyObject {
    LOD_TAGGED explicit AnyObject(const char* of) noexcept : key(of) {}
    AnyObject(const AnyObject&) = delete;
    AnyObject& operator=(const AnyObject&) = delete;
    LOD_TAGGED virtual ~AnyObject() = default;
    const char* key;
  };
  /// `Flags` gives the table of its virtual functions a name for each set of flags.
  template <class T, class Flags>
  struct Object final : AnyObject {
    template <class... Arguments>
    LOD_TAGGED explicit Object(const Arguments&... arguments) : AnyObject(&type), value(arguments...) {}
    T value;
    static inline char type = 0;  // its address stands for T; not const, or a linker might fold those of two types
  };

 public:
  /// Empty; blocks come from `resource`.
  LOD_TAGGED explicit Workspace(Resource* resource) noexcept : ScratchMemory(resource), module_(&detail::module_mark) {}
  LOD_TAGGED ~Workspace() = default;

  /// As ScratchMemory::release, and also destroys the objects that are kept.
  LOD_TAGGED void release() noexcept {  // NOLINT(bugprone-derived-method-shadowing-base-method): it calls that
    ScratchMemory::release();
    std::vector<std::unique_ptr<AnyObject>> objects;
    if (const auto held = lock()) kept_.swap(objects);
  }

  /// An object that an operation keeps for its next call, so that tensors in it keep their memory. It is in the state
  /// in which its last loan left it; if none of this type is free, T(arguments...) makes one. A loan must not outlive
  /// the workspace. A shared library that works with another module's executor gets a new object each time, which is
  /// not kept: once the library were unloaded, nobody could destroy it.
  template <class T>
  class Kept {
   public:
    /// Throws what the constructor of T throws.
    template <class... Arguments>
    LOD_TAGGED explicit Kept(Workspace& workspace, const Arguments&... arguments) : workspace_(workspace) {
      if (workspace.module_ == &detail::module_mark) object_ = workspace.take_object(&Object<T, detail::Flags>::type);
      if (!object_) object_ = std::make_unique<Object<T, detail::Flags>>(arguments...);
    }
    Kept(const Kept&) = delete;
    Kept& operator=(const Kept&) = delete;
    LOD_TAGGED ~Kept() {
      if (workspace_.module_ == &detail::module_mark) workspace_.give_back(std::move(object_));
    }

    /// @{
    /// The lent object.
    LOD_TAGGED T& operator*() const noexcept { return static_cast<Object<T, detail::Flags>&>(*object_).value; }
    LOD_TAGGED T* operator->() const noexcept { return &**this; }
    /// @}

   private:
    Workspace& workspace_;
    std::unique_ptr<AnyObject> object_;
  };

 private:
  LOD_TAGGED std::unique_ptr<AnyObject> take_object(const char* key) noexcept {
    std::unique_ptr<AnyObject> object;
    const auto held = lock();
    if (!held) return object;
    // The last one first, so that nested operations each find the object that they left.
    for (std::size_t i = kept_.size(); i-- > 0 && !object;) {
      if (kept_[i]->key != key) continue;
      object = std::move(kept_[i]);
      kept_.erase(kept_.begin() + static_cast<std::ptrdiff_t>(i));
    }
    return object;
  }
  LOD_TAGGED void give_back(std::unique_ptr<AnyObject> object) noexcept {
    try {
      if (const auto held = lock()) kept_.push_back(std::move(object));
    } catch (...) {  // no room in the list: the object is destroyed
    }
  }
  LOD_TAGGED std::unique_lock<std::mutex> lock() { return detail::lock_unless_lost(mutex_, forks_before_); }

  const char* module_;  // that made this
  int forks_before_ = detail::forks.seen;
  std::mutex mutex_;
  std::vector<std::unique_ptr<AnyObject>> kept_;
};

namespace detail {

/// The workspace of an executor and its copies.
struct SharedWorkspace final : Shared {
  LOD_TAGGED explicit SharedWorkspace(std::pmr::memory_resource* resource)
      : Shared(&SharedWorkspace::destroy), workspace(resource) {}
  LOD_TAGGED ~SharedWorkspace() = default;
  LOD_TAGGED static void destroy(const Shared* shared) noexcept { delete static_cast<const SharedWorkspace*>(shared); }
  LOD_TAGGED static Reference<SharedWorkspace> make(std::pmr::memory_resource* resource) {
    return Reference<SharedWorkspace>::adopt(new SharedWorkspace(resource));
  }
  mutable Workspace workspace;
};

}  // namespace detail

/// What an operation runs on. Its tensors must be in the memory of `device`; `resource` allocates new ones there,
/// `scratch` lends memory there, and `workspace` lends CPU memory. If the CPU cannot access the device's memory,
/// `upload` enqueues a copy from CPU memory to the device, `offsets` returns a LoD's offsets there, and kernels write
/// the position of an id outside [0, height) to `fault`; the next call that waits for the executor throws.
template <class E>
concept Executor = requires(const E& executor) {
  typename E::device;
  { executor.resource() } -> std::convertible_to<typename E::device::memory_resource*>;
  { executor.scratch() } -> std::same_as<ScratchMemory<typename E::device>&>;
  { executor.workspace() } -> std::same_as<Workspace&>;
}
&&(std::same_as<typename E::device, Cpu> ||
   requires(const E& executor, const void* from, std::size_t bytes, const LoDView& lod, const std::int64_t* offsets,
            const char* what, std::int64_t height) {
     { executor.upload(from, bytes) } -> std::same_as<typename E::Upload>;
     executor.offsets(lod, offsets);
     { executor.fault(what, height) } -> std::same_as<std::int64_t*>;
   });

/// Works on the CPU with at most `threads()` threads: the calling thread, and threads of a pool that all executors made
/// in the same executable or shared library share. An operation is cut into tasks, which threads claim one by one. It
/// never waits for a thread that has not begun: beside other programs, or under a quota, it takes at most about as long
/// as with the calling thread alone. It uses fewer threads if there is little work, if other operations are running
/// (all operations together use no more threads than there are processors, or than one executor has), or if the system
/// refuses to start more, which is then not tried again. Results do not depend on threads, to the last bit.
///
/// Files compiled with LOD_OPENMP or LOD_TBB defined take their threads from OpenMP or oneTBB; with LOD_SERIAL they use
/// only the calling thread. OpenMP's threads wait for each other. Since OpenMP ends a program that reaches the system's
/// limit of threads, the library first tries how many the system can start, and uses half as many. It uses one thread
/// inside a parallel region, and at most OMP_THREAD_LIMIT; OMP_NUM_THREADS is ignored. oneTBB's threads are limited by
/// the arena of the calling thread.
///
/// A child of fork() starts threads of its own. If a function that an operation calls forks, then in the child the
/// operation throws std::runtime_error once that function returns; if it ran on a thread of the pool, the child ends.
/// With OpenMP, also below a ThrustExecutor, the calling thread's OpenMP threads are ended before the fork, and parent
/// and child start new ones. A child that was forked in a parallel region works with one thread, as does the main
/// thread of a child that loads the library only after fork(). The child does not wait for locks of an executor that
/// other threads of the parent held. It cannot use GPUs.
///
/// Operations round to nearest, keep subnormal numbers (except `sequence_softmax`, `sequence_log_softmax` and
/// `sequence_logsumexp`, which flush them to zero), and do not trap, whatever the calling thread's floating-point
/// control word says (MXCSR, FPCR). They restore that word when they return; exception flags stay as arithmetic on the
/// calling thread raised them. Functions that the caller passes (`for_each_sequence`, `map_sequences`) run under the
/// caller's control word on every thread; cells of `dynamic_rnn` run on the calling thread. What depends only on
/// options, such as the step of `adam`, is also computed under the caller's word. Other executors do not set it.
///
/// Copies share one workspace, whose memory is kept until the last of them is gone; the resource must outlive it. Moves
/// are copies. An executor may be used by several threads at a time.
class CpuExecutor {
 public:
  /// The device whose memory its tensors are in.
  using device = Cpu;

  /// As many threads as there are processors that the process may use: those that the calling thread is bound to (by
  /// taskset, a cpuset or a cluster's scheduler, but not by OMP_PROC_BIND), limited, as in containers, by the quota of
  /// its control group and the enclosing ones, in whole processors. The quota is read once.
  LOD_TAGGED CpuExecutor() : CpuExecutor(detail::usable_processors()) {}
  /// Throws OutOfRange for fewer than one thread. Results and scratch memory come from `resource`.
  LOD_TAGGED explicit CpuExecutor(int threads, std::pmr::memory_resource* resource = Cpu::default_resource())
      : threads_(threads), resource_(resource) {
    if (threads < 1) throw OutOfRange(detail::text({"CpuExecutor: ", threads, " threads, expected 1 or more"}));
    shared_ = detail::SharedWorkspace::make(resource);
  }

  // No moves: a moved-from executor still works.
  LOD_TAGGED CpuExecutor(const CpuExecutor&) noexcept = default;
  LOD_TAGGED CpuExecutor& operator=(const CpuExecutor&) noexcept = default;
  LOD_TAGGED ~CpuExecutor() = default;

  /// The greatest number of threads an operation uses.
  LOD_TAGGED int threads() const noexcept { return threads_; }
  /// Where results and scratch memory come from.
  LOD_TAGGED std::pmr::memory_resource* resource() const noexcept { return resource_; }
  /// Its scratch memory, which copies of the executor share.
  LOD_TAGGED Workspace& workspace() const noexcept { return shared_->workspace; }
  /// The same: its tensors are in CPU memory.
  LOD_TAGGED ScratchMemory<Cpu>& scratch() const noexcept { return shared_->workspace; }
  /// The threads that share its work with the calling one.
  LOD_TAGGED detail::ThreadPool& pool() const noexcept { return *pool_; }

 private:
  int threads_;
  detail::ThreadPool* pool_ = &detail::ThreadPool::of_module();
  std::pmr::memory_resource* resource_;
  detail::Reference<detail::SharedWorkspace> shared_;
};

namespace detail {

/// Not a static of a function, since each set of flags has its own copy of a function. Without a guard, for which a
/// child of fork() might wait.
inline const CpuExecutor* shared_executor = nullptr;

}  // namespace detail

/// The executor of operations that are called without one, shared by the program: as many threads as `CpuExecutor()`
/// has, memory from the resource that is the default at its first use, which must outlive all later calls. There is
/// none for GPUs, which always need one with a stream. It is never destroyed: destructors of static objects may call
/// operations, and so may threads that still run when `main` has returned.
template <class Device>
LOD_TAGGED const auto& default_executor() {
  static_assert(std::same_as<Device, Cpu>, "tensors on this device always take an executor as the first argument");
  const CpuExecutor* made = __atomic_load_n(&detail::shared_executor, __ATOMIC_ACQUIRE);
  if (!made) {
    const CpuExecutor* const mine = new CpuExecutor;
    if (__atomic_compare_exchange_n(&detail::shared_executor, &made, mine, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
      return *mine;
    }
    delete mine;
  }
  return *made;
}

}  // namespace lod::inline LOD_INTERFACE
