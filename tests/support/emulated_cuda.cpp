// SPDX-License-Identifier: Apache-2.0
/// @file
/// Streams are queues of closures, an event is a place in such a queue, and a graph is a list of closures. One mutex
/// guards all of it and is released only while a kernel or a host function runs, so that those may wait for threads
/// that call the runtime meanwhile.
#include "support/emulated_cuda.hpp"

#include <cuda_profiler_api.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <thread>
#include <utility>
#include <vector>

// Where the linker puts the program; without position independence this is below all other host memory.
extern "C" const char __executable_start[];
extern "C" const char _etext[];
extern "C" const char _end[];

namespace {

using lod_test::emulated_cuda::Counters;
using lod_test::emulated_cuda::on_failure;
using Lock = std::unique_lock<std::mutex>;

/// Runs with the lock held; what must not hold it opens an Unlocked.
using Work = std::function<void(Lock&)>;

constexpr int poison = 0xFB;
constexpr std::size_t alignment = 256;

std::uintptr_t address_of(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer); }

/// The addresses of the device's memory. The host may touch them only while enqueued work runs.
class Arena {
 public:
  static constexpr std::size_t capacity = std::size_t{32} << 30U;

  Arena() : base_(mmap(nullptr, capacity, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {
    if (base_ == MAP_FAILED) throw std::bad_alloc();
  }

  [[nodiscard]] std::uintptr_t begin() const { return address_of(base_); }
  [[nodiscard]] bool contains(std::uintptr_t address) const { return address - begin() < capacity; }

  void use_up_to(std::uintptr_t address) {
    constexpr std::size_t page = 65536;
    const std::size_t used = (address - begin() + page - 1) / page * page;
    if (used <= used_) return;
    used_ = used;
    if (openings_ > 0) protect(PROT_READ | PROT_WRITE);
  }

  void open() {
    if (openings_++ == 0) protect(PROT_READ | PROT_WRITE);
  }
  void close() {
    if (--openings_ == 0) protect(PROT_NONE);
  }

 private:
  void protect(int access) {
    if (used_ > 0 && mprotect(base_, used_, access) != 0) on_failure("the device's memory can not be protected");
  }

  void* base_;
  std::size_t used_ = 0;
  int openings_ = 0;
};

/// Device memory that is reserved. It is alive from its allocation to its free, both in stream order.
struct Block {
  std::size_t bytes;
  int device;
  cudaMemPool_t pool;
  std::int64_t life;  ///< tells it from an earlier block at the same address
  bool alive = false;
  bool free_enqueued = false;
  bool recorded = false;  ///< a graph brings it to life, so its address stays reserved after a free

  /// Always more than the block, so that writing past its end meets poison before it meets a neighbour.
  [[nodiscard]] std::size_t reserved() const { return (bytes + alignment - 1) / alignment * alignment + alignment; }
};

/// Makes rubbish of a block. In the middle of a large one it stays what it was, so that what is reserved in large
/// pieces and hardly used takes no memory.
void fill_with_poison(unsigned char* first, const Block& block) {
  constexpr std::size_t large = std::size_t{16} << 20U, end = std::size_t{1} << 12U;
  const std::size_t bytes = block.reserved();
  if (bytes < large) {
    std::memset(first, poison, bytes);
  } else {
    std::memset(first, poison, end);
    std::memset(first + bytes - end, poison, end);
  }
}

/// What a capture records and a graph repeats. The order of the calls is one that all dependencies allow.
struct Recording {
  Recording() = default;
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;
  ~Recording();

  std::vector<Work> works;
  std::vector<cudaGraphNodeType> types;  ///< for each of them; their addresses are the nodes
  std::vector<std::uintptr_t> allocations;
};

struct Capture {
  cudaStream_t origin;
  cudaStreamCaptureMode mode;
  std::thread::id thread = std::this_thread::get_id();
  std::shared_ptr<Recording> recording = std::make_shared<Recording>();
  std::vector<std::shared_ptr<CUstream_st>> members;
  bool invalidated = false;
  bool ended = false;
};

/// For each stream of a capture, up to how many recorded works its own are waited for.
using Dependencies = std::map<const CUstream_st*, std::size_t>;

}

struct CUstream_st {
  int device;
  unsigned int flags;
  std::deque<Work> queue;
  std::int64_t enqueued = 0;
  std::int64_t completed = 0;
  bool running = false;
  bool destroyed = false;
  std::shared_ptr<Capture> capture;
  Dependencies dependencies;
};

struct CUevent_st {
  int device;
  unsigned int flags;
  std::shared_ptr<CUstream_st> stream;  ///< none if never recorded, or last recorded in a capture
  std::int64_t position = 0;
  std::shared_ptr<Capture> capture;
  Dependencies dependencies;

  [[nodiscard]] bool ready() const { return !stream || stream->completed >= position; }
};

struct CUgraph_st {
  std::shared_ptr<Recording> recording;
};

struct CUgraphExec_st {
  std::shared_ptr<Recording> recording;
};

struct CUmemPoolHandle_st {
  int device;
  std::map<cudaMemPoolAttr, std::uint64_t> attributes;
};

namespace {

template <class Object>
using Registry = std::map<Object*, std::shared_ptr<Object>>;

struct Runtime {
  std::mutex mutex;
  std::condition_variable progress;
  Arena arena;
  std::map<std::uintptr_t, Block> blocks;
  std::map<std::uintptr_t, std::size_t> pinned;
  Registry<CUstream_st> streams;
  Registry<CUevent_st> events;
  Registry<CUgraph_st> graphs;
  Registry<CUgraphExec_st> executables;
  Registry<CUmemPoolHandle_st> pools;
  std::map<int, cudaMemPool_t> default_pools;
  std::vector<std::shared_ptr<Capture>> captures;
  std::map<std::string, cudaError_t> failures;
  Counters counters;
  std::int64_t last_life = 0;
  int device_count = 1;
};

/// Never destroyed, since static objects of a test may still call the runtime at the end of the program.
Runtime& runtime() {
  static Runtime& instance = *new Runtime;
  return instance;
}

thread_local int current_device = 0;
thread_local cudaError_t last_error = cudaSuccess;
thread_local cudaStreamCaptureMode capture_mode = cudaStreamCaptureModeGlobal;
thread_local bool inside_work = false;

class OpenArena {
 public:
  OpenArena() { runtime().arena.open(); }
  OpenArena(const OpenArena&) = delete;
  OpenArena& operator=(const OpenArena&) = delete;
  ~OpenArena() { runtime().arena.close(); }
};

/// Releases the lock for code that is not ours, which may throw, and must not call the runtime.
class Unlocked {
 public:
  explicit Unlocked(Lock& lock) : lock_(lock), outer_(std::exchange(inside_work, true)) { lock_.unlock(); }
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;
  ~Unlocked() {
    lock_.lock();
    inside_work = outer_;
  }

 private:
  Lock& lock_;
  bool outer_;
};

/// Marks a stream as busy with its next work, and that work as done.
class Turn {
 public:
  explicit Turn(CUstream_st& stream) : stream_(stream) { stream_.running = true; }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  ~Turn() {
    stream_.running = false;
    ++stream_.completed;
    runtime().progress.notify_all();
  }

 private:
  CUstream_st& stream_;
};

void fail(Lock& lock, const char* text) {
  const Unlocked unlocked(lock);
  on_failure(text);
}

template <class Object>
std::shared_ptr<Object> find(const Registry<Object>& registry, Object* handle) {
  const auto found = registry.find(handle);
  return found == registry.end() ? nullptr : found->second;
}

std::shared_ptr<CUstream_st> find_stream(cudaStream_t handle) {
  std::shared_ptr<CUstream_st> stream = find(runtime().streams, handle);
  return stream && stream->destroyed ? nullptr : stream;
}

template <class Object>
Object* add(Registry<Object>& registry, Object object) {
  auto owner = std::make_shared<Object>(std::move(object));
  Object* const handle = owner.get();
  registry.emplace(handle, std::move(owner));
  return handle;
}

// Calls ---------------------------------------------------------------------------------------------------------------

enum class Needs { nothing, device, no_capture };

/// Whether this thread must not make calls that could wait for, or disturb, work that a capture merely records.
/// The captures that forbid it are lost by the attempt.
bool forbidden_by_capture() {
  bool forbidden = false;
  for (const auto& capture : runtime().captures) {
    const bool own = capture->thread == std::this_thread::get_id();
    const bool forbids =
        own ? capture->mode != cudaStreamCaptureModeRelaxed && capture_mode != cudaStreamCaptureModeRelaxed
            : capture->mode == cudaStreamCaptureModeGlobal && capture_mode == cudaStreamCaptureModeGlobal;
    capture->invalidated = capture->invalidated || forbids;
    forbidden = forbidden || forbids;
  }
  return forbidden;
}

cudaError_t refusal(const char* function, Needs needs) {
  if (inside_work) return cudaErrorNotPermitted;
  if (const auto injected = runtime().failures.extract(function)) return injected.mapped();
  if (needs == Needs::nothing) return cudaSuccess;
  if (runtime().device_count == 0) return cudaErrorNoDevice;
  return needs == Needs::no_capture && forbidden_by_capture() ? cudaErrorStreamCaptureUnsupported : cudaSuccess;
}

/// Every function of the runtime is its body within this.
template <class Body>
cudaError_t call(const char* function, Needs needs, const Body& body) {
  Lock lock(runtime().mutex);
  cudaError_t result = refusal(function, needs);
  if (result == cudaSuccess) result = body(lock);
  if (result != cudaSuccess) last_error = result;
  return result;
}

// Work ----------------------------------------------------------------------------------------------------------------

cudaError_t state_of(const std::shared_ptr<CUstream_st>& stream) {
  if (!stream) return cudaErrorInvalidResourceHandle;
  return stream->capture && stream->capture->invalidated ? cudaErrorStreamCaptureInvalidated : cudaSuccess;
}

void enqueue(CUstream_st& stream, Work work, cudaGraphNodeType type = cudaGraphNodeTypeEmpty) {
  if (stream.capture) {
    std::vector<Work>& works = stream.capture->recording->works;
    works.push_back(std::move(work));
    stream.capture->recording->types.push_back(type);
    stream.dependencies[&stream] = works.size();
  } else {
    stream.queue.push_back(std::move(work));
    ++stream.enqueued;
  }
}

/// Another thread may be running the same stream: then its progress is awaited.
void run_until(const std::shared_ptr<CUstream_st>& stream, std::int64_t position, Lock& lock) {
  if (stream->completed >= position) return;
  const OpenArena open;
  while (stream->completed < position) {
    if (stream->running) {
      runtime().progress.wait(lock);
      continue;
    }
    const Work work = std::move(stream->queue.front());
    stream->queue.pop_front();
    const Turn turn(*stream);
    work(lock);
  }
}

template <class Predicate>
void run_streams(Lock& lock, const Predicate& predicate) {
  std::vector<std::pair<std::shared_ptr<CUstream_st>, std::int64_t>> targets;
  for (const auto& [handle, stream] : runtime().streams) {
    if (predicate(*stream)) targets.emplace_back(stream, stream->enqueued);
  }
  for (const auto& [stream, position] : targets) run_until(stream, position, lock);
  std::erase_if(runtime().streams, [](const auto& entry) {
    return entry.second->destroyed && entry.second->completed == entry.second->enqueued;
  });
}

/// What the default stream waits for; it is emulated only where the runtime uses it of its own accord.
bool is_blocking(const CUstream_st& stream) {
  return stream.device == current_device && (stream.flags & cudaStreamNonBlocking) == 0;
}

// Memory --------------------------------------------------------------------------------------------------------------

/// The entry whose range holds the address, or null; of a map from starts of ranges.
template <class Ranges>
auto* find_range(Ranges& ranges, std::uintptr_t address) {
  const auto next = ranges.upper_bound(address);
  return next == ranges.begin() ? nullptr : &*std::prev(next);
}

/// The block that holds all of these bytes, or null.
Block* find_block(std::uintptr_t address, std::size_t bytes) {
  auto* const entry = find_range(runtime().blocks, address);
  if (entry == nullptr) return nullptr;
  const std::size_t offset = address - entry->first;
  Block& block = entry->second;
  return offset < block.bytes && bytes <= block.bytes - offset ? &block : nullptr;
}

/// The block that starts here, or null if there is none or its free is already enqueued.
Block* find_allocated(const void* pointer) {
  const auto found = runtime().blocks.find(address_of(pointer));
  return found == runtime().blocks.end() || found->second.free_enqueued ? nullptr : &found->second;
}

/// First fit, between the blocks there are. Null if the memory is exhausted.
void* reserve(std::size_t bytes, int device, cudaMemPool_t pool) {
  Runtime& all = runtime();
  const std::uintptr_t arena_end = all.arena.begin() + Arena::capacity;
  if (bytes > Arena::capacity) return nullptr;
  const Block block{.bytes = bytes, .device = device, .pool = pool, .life = ++all.last_life};
  std::uintptr_t start = all.arena.begin();
  for (const auto& [other_start, other] : all.blocks) {
    if (other_start - start >= block.reserved()) break;
    start = other_start + other.reserved();
  }
  if (arena_end - start < block.reserved()) return nullptr;
  all.blocks.emplace(start, block);
  all.arena.use_up_to(start + block.reserved());
  return reinterpret_cast<void*>(start);
}

/// A place in memory, and in device memory the life of its block, so that a later block there is not mistaken for it.
struct Place {
  explicit Place(const void* pointer) : address(address_of(pointer)) {
    if (const Block* const block = find_block(address, 1)) life = block->life;
  }

  [[nodiscard]] bool valid() const {
    if (life == 0) return true;
    const Block* const block = find_block(address, 1);
    return block != nullptr && block->life == life && block->alive;
  }
  [[nodiscard]] void* pointer() const { return reinterpret_cast<void*>(address); }

  std::uintptr_t address;
  std::int64_t life = 0;
};

void copy_now(const Place& to, const void* from, std::size_t bytes, Lock& lock) {
  if (to.valid()) {
    std::memcpy(to.pointer(), from, bytes);
  } else {
    fail(lock, "a copy writes to device memory that is not allocated when it runs");
  }
}

Work copy_work(const Place& to, const Place& from, std::size_t bytes) {
  return [to, from, bytes](Lock& lock) {
    if (from.valid()) {
      copy_now(to, from.pointer(), bytes, lock);
    } else {
      fail(lock, "a copy reads device memory that is not allocated when it runs");
    }
  };
}

Work fill_work(const Place& to, int value, std::size_t bytes) {
  return [to, value, bytes](Lock& lock) {
    if (to.valid()) {
      std::memset(to.pointer(), value, bytes);
    } else {
      fail(lock, "a fill writes to device memory that is not allocated when it runs");
    }
  };
}

Work allocation_work(const Place& place) {
  return [place](Lock& lock) {
    Block* const block = find_block(place.address, 1);
    if (block == nullptr || block->life != place.life) return;  // it has been freed too early, which was reported
    if (block->alive) return fail(lock, "a graph allocates memory that its last launch left allocated");
    block->alive = true;
    const OpenArena open;
    fill_with_poison(static_cast<unsigned char*>(place.pointer()), *block);
  };
}

/// A graph's own free is repeated with the graph, so the memory counts as freed for all calls to come.
Work free_work(const Place& place, bool recorded) {
  return [place, recorded](Lock& lock) {
    if (!place.valid()) return fail(lock, "device memory is freed before it is allocated in stream order, or twice");
    const OpenArena open;
    Block& block = *find_block(place.address, 1);
    auto* const bytes = static_cast<unsigned char*>(place.pointer());
    const bool intact =
        std::all_of(bytes + block.bytes, bytes + block.reserved(), [](unsigned char value) { return value == poison; });
    fill_with_poison(bytes, block);
    block.alive = false;
    block.free_enqueued = recorded;
    if (!block.recorded) runtime().blocks.erase(place.address);
    if (!intact) fail(lock, "work wrote past the end of device memory");
  };
}

Recording::~Recording() {
  for (const std::uintptr_t start : allocations) {
    const auto found = runtime().blocks.find(start);
    if (found->second.alive) {
      found->second.recorded = false;  // the last launch left it to whoever frees it
    } else {
      runtime().blocks.erase(found);
    }
  }
}

cudaError_t allocate_now(void** pointer, std::size_t bytes, Lock& lock) {
  *pointer = nullptr;
  if (bytes > 0) {
    *pointer = reserve(bytes, current_device, nullptr);
    if (*pointer == nullptr) return cudaErrorMemoryAllocation;
    allocation_work(Place(*pointer))(lock);
  }
  ++runtime().counters.allocations;
  return cudaSuccess;
}

/// Waits for what is freed later where there is no memory, as a pool does.
cudaError_t allocate_in_order(void** pointer, std::size_t bytes, cudaMemPool_t pool, cudaStream_t handle, Lock& lock) {
  const auto stream = find_stream(handle);
  if (const cudaError_t error = state_of(stream); error != cudaSuccess) return error;
  *pointer = nullptr;
  if (bytes > 0) {
    *pointer = reserve(bytes, stream->device, pool);
    if (*pointer == nullptr && !stream->capture) {
      run_streams(lock, [](const CUstream_st&) { return true; });
      *pointer = reserve(bytes, stream->device, pool);
    }
    if (*pointer == nullptr) return cudaErrorMemoryAllocation;
    const Place place(*pointer);
    if (stream->capture) {
      find_allocated(*pointer)->recorded = true;
      stream->capture->recording->allocations.push_back(place.address);
    }
    enqueue(*stream, allocation_work(place));
  }
  ++runtime().counters.allocations;
  return cudaSuccess;
}

cudaError_t allocate_pinned(void** pointer, std::size_t bytes) {
  *pointer = nullptr;
  if (bytes > 0) {
    if (posix_memalign(pointer, alignment, bytes) != 0) return cudaErrorMemoryAllocation;
    std::memset(*pointer, poison, bytes);
    runtime().pinned.emplace(address_of(*pointer), bytes);
  }
  ++runtime().counters.allocations;
  return cudaSuccess;
}

enum class Memory { none, pageable, pinned, device };

/// What kind of memory holds all of these bytes.
Memory memory_of(const void* pointer, std::size_t bytes) {
  Runtime& all = runtime();
  const std::uintptr_t address = address_of(pointer);
  if (all.arena.contains(address)) {
    const Block* const block = find_block(address, bytes);
    return block != nullptr && !block->free_enqueued ? Memory::device : Memory::none;
  }
  if (const auto* const range = find_range(all.pinned, address)) {
    const std::size_t offset = address - range->first;
    if (offset < range->second) return bytes <= range->second - offset ? Memory::pinned : Memory::none;
  }
  return pointer == nullptr ? Memory::none : Memory::pageable;
}

bool on_host(Memory memory) { return memory == Memory::pageable || memory == Memory::pinned; }

cudaError_t check_kind(cudaMemcpyKind kind, Memory to, Memory from) {
  const auto matches = [&](bool to_host, bool from_host) {
    const bool known = to != Memory::none && from != Memory::none;
    return known && on_host(to) == to_host && on_host(from) == from_host ? cudaSuccess : cudaErrorInvalidValue;
  };
  switch (kind) {
    case cudaMemcpyHostToHost:
      return matches(true, true);
    case cudaMemcpyHostToDevice:
      return matches(false, true);
    case cudaMemcpyDeviceToHost:
      return matches(true, false);
    case cudaMemcpyDeviceToDevice:
      return matches(false, false);
    case cudaMemcpyDefault:
      return matches(on_host(to), on_host(from));
  }
  return cudaErrorInvalidMemcpyDirection;
}

// Captures ------------------------------------------------------------------------------------------------------------

/// What waits for a stream or asks for its state can not be recorded.
cudaError_t check_not_capturing(const CUstream_st& stream) {
  if (!stream.capture) return cudaSuccess;
  stream.capture->invalidated = true;
  return cudaErrorStreamCaptureUnsupported;
}

cudaError_t check_not_captured(const CUevent_st& event) {
  if (!event.capture) return cudaSuccess;
  event.capture->invalidated = true;
  return cudaErrorCapturedEvent;
}

/// Neither can what waits for a whole device, or for its blocking streams, while it has such a stream that captures.
template <class Predicate>
bool invalidate_captures(const Predicate& predicate) {
  bool found = false;
  for (const auto& capture : runtime().captures) {
    const bool concerned = std::any_of(capture->members.begin(), capture->members.end(),
                                       [&](const auto& member) { return predicate(*member); });
    capture->invalidated = capture->invalidated || concerned;
    found = found || concerned;
  }
  return found;
}

/// A wait for an event of a capture takes the stream into that capture.
cudaError_t wait_for_captured(const std::shared_ptr<CUstream_st>& stream, const CUevent_st& event) {
  if (event.capture->ended) return cudaErrorCapturedEvent;
  if (event.capture->invalidated) return cudaErrorStreamCaptureInvalidated;
  if (!stream->capture) {
    stream->capture = event.capture;
    stream->capture->members.push_back(stream);
  } else if (stream->capture != event.capture) {
    stream->capture->invalidated = true;
    event.capture->invalidated = true;
    return cudaErrorStreamCaptureMerge;
  }
  for (const auto& [other, count] : event.dependencies) {
    std::size_t& known = stream->dependencies[other];
    known = std::max(known, count);
  }
  return cudaSuccess;
}

bool all_joined(Capture& capture, CUstream_st& origin) {
  return std::all_of(capture.members.begin(), capture.members.end(), [&](const auto& member) {
    return origin.dependencies[member.get()] >= member->dependencies[member.get()];
  });
}

// Properties ----------------------------------------------------------------------------------------------------------

constexpr int multiprocessors = 4;
constexpr int shared_bytes_by_default = 48 * 1024;
constexpr int shared_bytes_at_most = 227 * 1024;
constexpr int shared_bytes_of_multiprocessor = 228 * 1024;
constexpr int threads_of_block = 1024;
constexpr int threads_of_multiprocessor = 2048;
constexpr int registers = 65536;
constexpr int l2_bytes = 32 << 20;

struct ErrorText {
  cudaError_t error;
  const char* name;
  const char* text;
};

constexpr ErrorText error_texts[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorInitializationError, "cudaErrorInitializationError", "initialization error"},
    {cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration", "invalid configuration argument"},
    {cudaErrorInvalidMemcpyDirection, "cudaErrorInvalidMemcpyDirection", "invalid copy direction for memcpy"},
    {cudaErrorInsufficientDriver, "cudaErrorInsufficientDriver", "the driver is older than the runtime"},
    {cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {cudaErrorIllegalState, "cudaErrorIllegalState", "the operation cannot be performed in the present state"},
    {cudaErrorNotReady, "cudaErrorNotReady", "device not ready"},
    {cudaErrorIllegalAddress, "cudaErrorIllegalAddress", "an illegal memory access was encountered"},
    {cudaErrorLaunchOutOfResources, "cudaErrorLaunchOutOfResources", "too many resources requested for launch"},
    {cudaErrorLaunchFailure, "cudaErrorLaunchFailure", "unspecified launch failure"},
    {cudaErrorNotPermitted, "cudaErrorNotPermitted", "operation not permitted"},
    {cudaErrorNotSupported, "cudaErrorNotSupported", "operation not supported"},
    {cudaErrorStreamCaptureUnsupported, "cudaErrorStreamCaptureUnsupported",
     "operation not permitted when stream is capturing"},
    {cudaErrorStreamCaptureInvalidated, "cudaErrorStreamCaptureInvalidated",
     "operation failed due to a previous error during capture"},
    {cudaErrorStreamCaptureMerge, "cudaErrorStreamCaptureMerge", "operation would merge two captures"},
    {cudaErrorStreamCaptureUnmatched, "cudaErrorStreamCaptureUnmatched", "capture was not begun in this stream"},
    {cudaErrorStreamCaptureUnjoined, "cudaErrorStreamCaptureUnjoined", "capture has a stream that was not joined"},
    {cudaErrorStreamCaptureIsolation, "cudaErrorStreamCaptureIsolation",
     "dependency created on uncaptured work in another stream"},
    {cudaErrorStreamCaptureWrongThread, "cudaErrorStreamCaptureWrongThread",
     "attempt to end a capture from a thread that did not begin it"},
    {cudaErrorStreamCaptureImplicit, "cudaErrorStreamCaptureImplicit",
     "operation would make the default stream depend on a capturing blocking stream"},
    {cudaErrorCapturedEvent, "cudaErrorCapturedEvent", "operation not permitted on an event of a capturing stream"},
    {cudaErrorUnknown, "cudaErrorUnknown", "unknown error"},
};

const ErrorText* find_error(cudaError_t error) {
  const auto* const found = std::find_if(std::begin(error_texts), std::end(error_texts),
                                         [&](const auto& entry) { return entry.error == error; });
  return found == std::end(error_texts) ? nullptr : found;
}

bool has_device(int device) { return device >= 0 && device < runtime().device_count; }

cudaError_t create_stream(const char* function, cudaStream_t* handle, unsigned int flags) {
  return call(function, Needs::device, [&](Lock&) {
    if (handle == nullptr) return cudaErrorInvalidValue;
    CUstream_st stream{};
    stream.device = current_device;
    stream.flags = flags;
    *handle = add(runtime().streams, std::move(stream));
    ++runtime().counters.creations;
    return cudaSuccess;
  });
}

cudaError_t create_event(const char* function, cudaEvent_t* handle, unsigned int flags) {
  return call(function, Needs::device, [&](Lock&) {
    if (handle == nullptr) return cudaErrorInvalidValue;
    CUevent_st event{};
    event.device = current_device;
    event.flags = flags;
    *handle = add(runtime().events, std::move(event));
    ++runtime().counters.creations;
    return cudaSuccess;
  });
}

}

// Errors, versions and devices ----------------------------------------------------------------------------------------

cudaError_t cudaGetLastError() { return std::exchange(last_error, cudaSuccess); }

cudaError_t cudaPeekAtLastError() { return last_error; }

const char* cudaGetErrorName(cudaError_t error) {
  const ErrorText* const entry = find_error(error);
  return entry == nullptr ? "unrecognized error code" : entry->name;
}

const char* cudaGetErrorString(cudaError_t error) {
  const ErrorText* const entry = find_error(error);
  return entry == nullptr ? "unrecognized error code" : entry->text;
}

cudaError_t cudaDriverGetVersion(int* version) {
  return call(__func__, Needs::nothing, [&](Lock&) {
    *version = runtime().device_count == 0 ? 0 : CUDART_VERSION;
    return cudaSuccess;
  });
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  return call(__func__, Needs::nothing, [&](Lock&) {
    *version = CUDART_VERSION;
    return cudaSuccess;
  });
}

cudaError_t cudaGetDeviceCount(int* count) {
  return call(__func__, Needs::nothing, [&](Lock&) {
    *count = runtime().device_count;
    return *count == 0 ? cudaErrorNoDevice : cudaSuccess;
  });
}

cudaError_t cudaSetDevice(int device) {
  return call(__func__, Needs::device, [&](Lock&) {
    if (!has_device(device)) return cudaErrorInvalidDevice;
    current_device = device;
    return cudaSuccess;
  });
}

cudaError_t cudaGetDevice(int* device) {
  return call(__func__, Needs::device, [&](Lock&) {
    *device = current_device;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  return call(__func__, Needs::device, [&](Lock&) {
    if (!has_device(device)) return cudaErrorInvalidDevice;
    switch (attribute) {
      case cudaDevAttrMultiProcessorCount:
        *value = multiprocessors;
        break;
      case cudaDevAttrMaxSharedMemoryPerBlock:
        *value = shared_bytes_by_default;
        break;
      case cudaDevAttrMaxSharedMemoryPerBlockOptin:
        *value = shared_bytes_at_most;
        break;
      case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
        *value = shared_bytes_of_multiprocessor;
        break;
      case cudaDevAttrReservedSharedMemoryPerBlock:
        *value = 1024;
        break;
      case cudaDevAttrComputeCapabilityMajor:
        *value = 9;
        break;
      case cudaDevAttrComputeCapabilityMinor:
        *value = 0;
        break;
      case cudaDevAttrMaxThreadsPerBlock:
        *value = threads_of_block;
        break;
      case cudaDevAttrMaxThreadsPerMultiProcessor:
        *value = threads_of_multiprocessor;
        break;
      case cudaDevAttrMaxRegistersPerBlock:
        *value = registers;
        break;
      case cudaDevAttrL2CacheSize:
        *value = l2_bytes;
        break;
      case cudaDevAttrWarpSize:
        *value = 32;
        break;
      case cudaDevAttrMaxGridDimX:
        *value = std::numeric_limits<int>::max();
        break;
      case cudaDevAttrMemoryPoolsSupported:
      case cudaDevAttrUnifiedAddressing:
      case cudaDevAttrCanMapHostMemory:
      case cudaDevAttrConcurrentKernels:
        *value = 1;
        break;
      case cudaDevAttrIntegrated:
      case cudaDevAttrPageableMemoryAccess:
        *value = 0;
        break;
      default:
        return cudaErrorInvalidValue;
    }
    return cudaSuccess;
  });
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  return call("cudaGetDeviceProperties", Needs::device, [&](Lock&) {
    if (!has_device(device)) return cudaErrorInvalidDevice;
    *properties = cudaDeviceProp{};
    std::snprintf(properties->name, sizeof properties->name, "emulated device");
    properties->totalGlobalMem = Arena::capacity;
    properties->sharedMemPerBlock = shared_bytes_by_default;
    properties->sharedMemPerBlockOptin = shared_bytes_at_most;
    properties->sharedMemPerMultiprocessor = shared_bytes_of_multiprocessor;
    properties->reservedSharedMemPerBlock = 1024;
    properties->regsPerBlock = registers;
    properties->l2CacheSize = l2_bytes;
    properties->warpSize = 32;
    properties->maxThreadsPerBlock = threads_of_block;
    properties->maxThreadsPerMultiProcessor = threads_of_multiprocessor;
    properties->multiProcessorCount = multiprocessors;
    properties->major = 9;
    properties->minor = 0;
    properties->memoryPoolsSupported = 1;
    properties->unifiedAddressing = 1;
    properties->canMapHostMemory = 1;
    properties->concurrentKernels = 1;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceSynchronize() {
  return call(__func__, Needs::no_capture, [](Lock& lock) {
    const auto of_device = [](const CUstream_st& stream) { return stream.device == current_device; };
    if (invalidate_captures(of_device)) return cudaErrorStreamCaptureUnsupported;
    ++runtime().counters.synchronisations;
    run_streams(lock, of_device);
    return cudaSuccess;
  });
}

// Memory --------------------------------------------------------------------------------------------------------------

cudaError_t cudaMalloc(void** pointer, std::size_t bytes) {
  return call(__func__, Needs::no_capture, [&](Lock& lock) { return allocate_now(pointer, bytes, lock); });
}

cudaError_t cudaMallocAsync(void** pointer, std::size_t bytes, cudaStream_t stream) {
  return call(__func__, Needs::device,
              [&](Lock& lock) { return allocate_in_order(pointer, bytes, nullptr, stream, lock); });
}

cudaError_t cudaMallocFromPoolAsync(void** pointer, std::size_t bytes, cudaMemPool_t pool, cudaStream_t stream) {
  return call(__func__, Needs::device, [&](Lock& lock) {
    if (!find(runtime().pools, pool)) return cudaErrorInvalidValue;
    return allocate_in_order(pointer, bytes, pool, stream, lock);
  });
}

cudaError_t cudaFree(void* pointer) {
  return call(__func__, Needs::no_capture, [&](Lock& lock) {
    if (pointer == nullptr) return cudaSuccess;
    Block* const block = find_allocated(pointer);
    if (block == nullptr) return cudaErrorInvalidValue;
    block->free_enqueued = true;
    ++runtime().counters.frees;
    ++runtime().counters.synchronisations;
    const Place place(pointer);
    run_streams(lock, [device = block->device](const CUstream_st& stream) { return stream.device == device; });
    free_work(place, false)(lock);
    return cudaSuccess;
  });
}

cudaError_t cudaFreeAsync(void* pointer, cudaStream_t handle) {
  return call(__func__, Needs::device, [&](Lock&) {
    const auto stream = find_stream(handle);
    if (const cudaError_t error = state_of(stream); error != cudaSuccess) return error;
    Block* const block = find_allocated(pointer);
    if (block == nullptr) return cudaErrorInvalidValue;
    const bool recorded = stream->capture != nullptr;
    if (recorded && !block->recorded) return cudaErrorInvalidValue;  // a graph frees only what a graph allocates
    block->free_enqueued = true;
    enqueue(*stream, free_work(Place(pointer), recorded));
    ++runtime().counters.frees;
    return cudaSuccess;
  });
}

cudaError_t cudaMallocHost(void** pointer, std::size_t bytes) {
  return call(__func__, Needs::no_capture, [&](Lock&) { return allocate_pinned(pointer, bytes); });
}

cudaError_t cudaHostAlloc(void** pointer, std::size_t bytes, unsigned int) {
  return call(__func__, Needs::no_capture, [&](Lock&) { return allocate_pinned(pointer, bytes); });
}

cudaError_t cudaFreeHost(void* pointer) {
  return call(__func__, Needs::no_capture, [&](Lock& lock) {
    if (pointer == nullptr) return cudaSuccess;
    if (!runtime().pinned.contains(address_of(pointer))) return cudaErrorInvalidValue;
    ++runtime().counters.frees;
    ++runtime().counters.synchronisations;
    run_streams(lock, [](const CUstream_st&) { return true; });
    if (runtime().pinned.erase(address_of(pointer)) == 0) return cudaErrorInvalidValue;  // by another thread meanwhile
    std::free(pointer);
    return cudaSuccess;
  });
}

cudaError_t cudaHostGetDevicePointer(void** device_pointer, void* pointer, unsigned int) {
  return call(__func__, Needs::device, [&](Lock&) {
    if (memory_of(pointer, 1) != Memory::pinned) return cudaErrorInvalidValue;
    *device_pointer = pointer;
    return cudaSuccess;
  });
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
  return call(__func__, Needs::device, [&](Lock&) {
    *attributes = cudaPointerAttributes{};
    attributes->type = cudaMemoryTypeUnregistered;
    attributes->device = -2;  // what the runtime says of memory that it does not know
    void* const address = const_cast<void*>(pointer);
    const Memory memory = memory_of(pointer, 1);
    if (memory == Memory::device) {
      attributes->type = cudaMemoryTypeDevice;
      attributes->device = find_block(address_of(pointer), 1)->device;
      attributes->devicePointer = address;
    } else if (memory == Memory::pinned) {
      attributes->type = cudaMemoryTypeHost;
      attributes->device = current_device;
      attributes->devicePointer = address;
      attributes->hostPointer = address;
    }
    return cudaSuccess;
  });
}

cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  return call(__func__, Needs::no_capture, [&](Lock& lock) {
    if (bytes == 0) return cudaSuccess;
    const cudaError_t error = check_kind(kind, memory_of(to, bytes), memory_of(from, bytes));
    if (error != cudaSuccess) return error;
    if (invalidate_captures(is_blocking)) return cudaErrorStreamCaptureImplicit;
    ++runtime().counters.copies;
    ++runtime().counters.synchronisations;
    const Work copy = copy_work(Place(to), Place(from), bytes);
    run_streams(lock, is_blocking);
    const OpenArena open;
    copy(lock);
    return cudaSuccess;
  });
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t handle) {
  return call(__func__, Needs::device, [&](Lock& lock) {
    const auto stream = find_stream(handle);
    if (const cudaError_t error = state_of(stream); error != cudaSuccess || bytes == 0) return error;
    const Memory target = memory_of(to, bytes);
    const Memory source = memory_of(from, bytes);
    if (const cudaError_t error = check_kind(kind, target, source); error != cudaSuccess) return error;
    ++runtime().counters.copies;
    const bool capturing = stream->capture != nullptr;
    if (!capturing && source == Memory::pageable && target == Memory::device) {
      const auto* const first = static_cast<const std::byte*>(from);
      enqueue(*stream, [contents = std::vector<std::byte>(first, first + bytes), place = Place(to)](Lock& work_lock) {
        copy_now(place, contents.data(), contents.size(), work_lock);
      });
      return cudaSuccess;
    }
    enqueue(*stream, copy_work(Place(to), Place(from), bytes), cudaGraphNodeTypeMemcpy);
    const bool waits = target == Memory::pageable || (on_host(target) && on_host(source));
    if (!capturing && waits) {
      ++runtime().counters.synchronisations;
      run_until(stream, stream->enqueued, lock);
    }
    return cudaSuccess;
  });
}

cudaError_t cudaMemset(void* to, int value, std::size_t bytes) {
  return call(__func__, Needs::no_capture, [&](Lock& lock) {
    if (bytes == 0) return cudaSuccess;
    if (memory_of(to, bytes) != Memory::device) return cudaErrorInvalidValue;
    if (invalidate_captures(is_blocking)) return cudaErrorStreamCaptureImplicit;
    ++runtime().counters.fills;
    ++runtime().counters.synchronisations;
    const Work fill = fill_work(Place(to), value, bytes);
    run_streams(lock, is_blocking);
    const OpenArena open;
    fill(lock);
    return cudaSuccess;
  });
}

cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t handle) {
  return call(__func__, Needs::device, [&](Lock&) {
    const auto stream = find_stream(handle);
    if (const cudaError_t error = state_of(stream); error != cudaSuccess || bytes == 0) return error;
    if (memory_of(to, bytes) != Memory::device) return cudaErrorInvalidValue;
    ++runtime().counters.fills;
    enqueue(*stream, fill_work(Place(to), value, bytes), cudaGraphNodeTypeMemset);
    return cudaSuccess;
  });
}

cudaError_t cudaMemPoolCreate(cudaMemPool_t* handle, const cudaMemPoolProps* properties) {
  return call(__func__, Needs::device, [&](Lock&) {
    if (handle == nullptr || properties == nullptr || !has_device(properties->location.id))
      return cudaErrorInvalidValue;
    *handle = add(runtime().pools, CUmemPoolHandle_st{properties->location.id, {}});
    return cudaSuccess;
  });
}

cudaError_t cudaMemPoolDestroy(cudaMemPool_t handle) {
  return call(__func__, Needs::device, [&](Lock&) {
    const auto pool = find(runtime().pools, handle);
    if (!pool) return cudaErrorInvalidValue;
    const auto standard = runtime().default_pools.find(pool->device);
    if (standard != runtime().default_pools.end() && standard->second == handle) return cudaErrorInvalidValue;
    runtime().pools.erase(handle);
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* handle, int device) {
  return call(__func__, Needs::device, [&](Lock&) {
    if (!has_device(device)) return cudaErrorInvalidDevice;
    cudaMemPool_t& pool = runtime().default_pools[device];
    if (pool == nullptr) pool = add(runtime().pools, CUmemPoolHandle_st{device, {}});
    *handle = pool;
    return cudaSuccess;
  });
}

namespace {

/// The switches of a pool are of type int, its sizes are of 64 bits.
bool is_switch(cudaMemPoolAttr attribute) {
  return attribute == cudaMemPoolReuseFollowEventDependencies || attribute == cudaMemPoolReuseAllowOpportunistic ||
         attribute == cudaMemPoolReuseAllowInternalDependencies;
}

std::uint64_t used_bytes(cudaMemPool_t pool) {
  std::uint64_t sum = 0;
  for (const auto& [start, block] : runtime().blocks) sum += block.pool == pool ? block.bytes : 0;
  return sum;
}

}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t handle, cudaMemPoolAttr attribute, void* value) {
  return call(__func__, Needs::device, [&](Lock&) {
    const auto pool = find(runtime().pools, handle);
    if (!pool || value == nullptr) return cudaErrorInvalidValue;
    pool->attributes[attribute] = is_switch(attribute) ? static_cast<std::uint64_t>(*static_cast<int*>(value))
                                                       : *static_cast<std::uint64_t*>(value);
    return cudaSuccess;
  });
}

cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t handle, cudaMemPoolAttr attribute, void* value) {
  return call(__func__, Needs::device, [&](Lock&) {
    const auto pool = find(runtime().pools, handle);
    if (!pool || value == nullptr) return cudaErrorInvalidValue;
    const bool counted = attribute == cudaMemPoolAttrUsedMemCurrent || attribute == cudaMemPoolAttrReservedMemCurrent;
    const auto stored = pool->attributes.try_emplace(attribute, is_switch(attribute) ? 1 : 0).first->second;
    if (is_switch(attribute)) {
      *static_cast<int*>(value) = static_cast<int>(stored);
    } else {
      *static_cast<std::uint64_t*>(value) = counted ? used_bytes(handle) : stored;
    }
    return cudaSuccess;
  });
}

// Streams and events --------------------------------------------------------------------------------------------------

cudaError_t cudaStreamCreate(cudaStream_t* handle) { return create_stream(__func__, handle, cudaStreamDefault); }

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* handle, unsigned int flags) {
  return create_stream(__func__, handle, flags);
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* handle, unsigned int flags, int) {
  return create_stream(__func__, handle, flags);
}

/// What is enqueued still runs, with the next that waits for the device or for an event after it.
cudaError_t cudaStreamDestroy(cudaStream_t handle) {
  return call(__func__, Needs::device, [&](Lock&) {
    const auto stream = find_stream(handle);
    if (!stream) return cudaErrorInvalidResourceHandle;
    if (const cudaError_t error = check_not_capturing(*stream); error != cudaSuccess) return error;
    stream->destroyed = true;
    if (stream->completed == stream->enqueued) runtime().streams.erase(handle);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamGetDevice(cudaStream_t handle, int* device) {
  return call(__func__, Needs::device, [&](Lock&) {
    const auto stream = find_stream(handle);
    if (!stream) return cudaErrorInvalidResourceHandle;
    *device = stream->device;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  return call(__func__, Needs::device, [&](Lock& lock) {
    const auto stream = find_stream(handle);
    if (!stream) return cudaErrorInvalidResourceHandle;
    if (const cudaError_t error = check_not_capturing(*stream); error != cudaSuccess) return error;
    ++runtime().counters.synchronisations;
    run_until(stream, stream->enqueued, lock);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamQuery(cudaStream_t handle) {
  return call(__func__, Needs::device, [&](Lock&) {
    const auto stream = find_stream(handle);
    if (!stream) return cudaErrorInvalidResourceHandle;
    if (const cudaError_t error = check_not_capturing(*stream); error != cudaSuccess) return error;
    ++runtime().counters.queries;
    return stream->completed == stream->enqueued ? cudaSuccess : cudaErrorNotReady;
  });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event_handle, unsigned int) {
  return call(__func__, Needs::device, [&](Lock&) {
    const auto stream = find_stream(handle);
    const auto event = find(runtime().events, event_handle);
    if (!event) return cudaErrorInvalidResourceHandle;
    if (const cudaError_t error = state_of(stream); error != cudaSuccess) return error;
    if (event->capture) return wait_for_captured(stream, *event);
    if (stream->capture && event->stream) {
      stream->capture->invalidated = true;
      return cudaErrorStreamCaptureIsolation;
    }
    if (event->stream) {
      enqueue(*stream,
              [other = event->stream, position = event->position](Lock& lock) { run_until(other, position, lock); });
    }
    return cudaSuccess;
  });
}

cudaError_t cudaLaunchHostFunc(cudaStream_t handle, cudaHostFn_t function, void* argument) {
  return call(__func__, Needs::device, [&](Lock&) {
    const auto stream = find_stream(handle);
    if (const cudaError_t error = state_of(stream); error != cudaSuccess) return error;
    if (function == nullptr) return cudaErrorInvalidValue;
    ++runtime().counters.host_functions;
    enqueue(*stream, [function, argument](Lock& lock) {
      const Unlocked unlocked(lock);
      function(argument);
    });
    return cudaSuccess;
  });
}

cudaError_t cudaEventCreate(cudaEvent_t* handle) { return create_event(__func__, handle, cudaEventDefault); }

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* handle, unsigned int flags) {
  return create_event(__func__, handle, flags);
}

cudaError_t cudaEventDestroy(cudaEvent_t handle) {
  return call(__func__, Needs::device, [&](Lock&) {
    return runtime().events.erase(handle) == 0 ? cudaErrorInvalidResourceHandle : cudaSuccess;
  });
}

cudaError_t cudaEventRecord(cudaEvent_t event_handle, cudaStream_t handle) {
  return call(__func__, Needs::device, [&](Lock&) {
    const auto event = find(runtime().events, event_handle);
    const auto stream = find_stream(handle);
    if (!event) return cudaErrorInvalidResourceHandle;
    if (const cudaError_t error = state_of(stream); error != cudaSuccess) return error;
    if (event->device != stream->device) return cudaErrorInvalidResourceHandle;
    event->capture = stream->capture;
    if (stream->capture) {
      event->stream = nullptr;
      event->dependencies = stream->dependencies;
    } else {
      enqueue(*stream, [](Lock&) {});  // even with nothing before it, a record is not done at once
      event->stream = stream;
      event->position = stream->enqueued;
    }
    return cudaSuccess;
  });
}

cudaError_t cudaEventQuery(cudaEvent_t handle) {
  return call(__func__, Needs::no_capture, [&](Lock&) {
    const auto event = find(runtime().events, handle);
    if (!event) return cudaErrorInvalidResourceHandle;
    if (const cudaError_t error = check_not_captured(*event); error != cudaSuccess) return error;
    ++runtime().counters.queries;
    return event->ready() ? cudaSuccess : cudaErrorNotReady;
  });
}

cudaError_t cudaEventSynchronize(cudaEvent_t handle) {
  return call(__func__, Needs::no_capture, [&](Lock& lock) {
    const auto event = find(runtime().events, handle);
    if (!event) return cudaErrorInvalidResourceHandle;
    if (const cudaError_t error = check_not_captured(*event); error != cudaSuccess) return error;
    ++runtime().counters.synchronisations;
    const auto stream = event->stream;
    if (stream) run_until(stream, event->position, lock);
    return cudaSuccess;
  });
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start_handle, cudaEvent_t stop_handle) {
  return call(__func__, Needs::device, [&](Lock&) {
    for (const cudaEvent_t handle : {start_handle, stop_handle}) {
      const auto event = find(runtime().events, handle);
      if (!event || !event->stream || (event->flags & cudaEventDisableTiming) != 0)
        return cudaErrorInvalidResourceHandle;
      if (!event->ready()) return cudaErrorNotReady;
    }
    *milliseconds = 0;
    return cudaSuccess;
  });
}

// Graphs --------------------------------------------------------------------------------------------------------------

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  return call(__func__, Needs::nothing, [&](Lock&) {
    std::swap(*mode, capture_mode);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode mode) {
  return call(__func__, Needs::device, [&](Lock&) {
    const auto stream = find_stream(handle);
    if (!stream) return cudaErrorInvalidResourceHandle;
    if (stream->capture) return cudaErrorIllegalState;
    stream->capture = std::make_shared<Capture>();
    stream->capture->origin = handle;
    stream->capture->mode = mode;
    stream->capture->members.push_back(stream);
    runtime().captures.push_back(stream->capture);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* graph) {
  return call(__func__, Needs::device, [&](Lock&) {
    const auto stream = find_stream(handle);
    if (!stream) return cudaErrorInvalidResourceHandle;
    const auto capture = stream->capture;
    if (!capture) return cudaErrorIllegalState;
    if (capture->origin != handle) return cudaErrorStreamCaptureUnmatched;
    if (capture->mode != cudaStreamCaptureModeRelaxed && capture->thread != std::this_thread::get_id()) {
      return cudaErrorStreamCaptureWrongThread;
    }
    const bool joined = all_joined(*capture, *stream);
    capture->ended = true;
    for (const auto& member : std::exchange(capture->members, {})) {
      member->capture = nullptr;
      member->dependencies.clear();
    }
    std::erase(runtime().captures, capture);
    *graph = nullptr;
    const auto recording = std::exchange(capture->recording, nullptr);  // events may keep the capture itself
    if (capture->invalidated) return cudaErrorStreamCaptureInvalidated;
    if (!joined) return cudaErrorStreamCaptureUnjoined;
    *graph = add(runtime().graphs, CUgraph_st{recording});
    return cudaSuccess;
  });
}

cudaError_t cudaStreamIsCapturing(cudaStream_t handle, cudaStreamCaptureStatus* status) {
  return call(__func__, Needs::device, [&](Lock&) {
    const auto stream = find_stream(handle);
    if (!stream) return cudaErrorInvalidResourceHandle;
    *status = !stream->capture               ? cudaStreamCaptureStatusNone
              : stream->capture->invalidated ? cudaStreamCaptureStatusInvalidated
                                             : cudaStreamCaptureStatusActive;
    return cudaSuccess;
  });
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t handle, unsigned long long) {
  return call(__func__, Needs::device, [&](Lock&) {
    const auto graph = find(runtime().graphs, handle);
    if (!graph) return cudaErrorInvalidValue;
    *executable = add(runtime().executables, CUgraphExec_st{graph->recording});
    return cudaSuccess;
  });
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t handle, cudaStream_t stream_handle) {
  return call(__func__, Needs::device, [&](Lock&) {
    const auto executable = find(runtime().executables, handle);
    const auto stream = find_stream(stream_handle);
    if (!executable) return cudaErrorInvalidValue;
    if (const cudaError_t error = state_of(stream); error != cudaSuccess) return error;
    ++runtime().counters.graph_launches;
    for (std::size_t i = 0; i < executable->recording->works.size(); ++i) {
      enqueue(*stream, [recording = executable->recording, i](Lock& lock) { recording->works[i](lock); });
    }
    return cudaSuccess;
  });
}

cudaError_t cudaGraphGetNodes(cudaGraph_t handle, cudaGraphNode_t* nodes, std::size_t* size) {
  return call(__func__, Needs::device, [&](Lock&) {
    const auto graph = find(runtime().graphs, handle);
    if (!graph) return cudaErrorInvalidValue;
    std::vector<cudaGraphNodeType>& types = graph->recording->types;
    for (std::size_t i = 0; nodes && i < std::min(*size, types.size()); ++i) {
      nodes[i] = reinterpret_cast<cudaGraphNode_t>(&types[i]);
    }
    *size = types.size();
    return cudaSuccess;
  });
}

cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, cudaGraphNodeType* type) {
  return call(__func__, Needs::device, [&](Lock&) {
    *type = *reinterpret_cast<const cudaGraphNodeType*>(node);
    return cudaSuccess;
  });
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t handle) {
  return call(__func__, Needs::device,
              [&](Lock&) { return runtime().executables.erase(handle) == 0 ? cudaErrorInvalidValue : cudaSuccess; });
}

cudaError_t cudaGraphDestroy(cudaGraph_t handle) {
  return call(__func__, Needs::device,
              [&](Lock&) { return runtime().graphs.erase(handle) == 0 ? cudaErrorInvalidValue : cudaSuccess; });
}

// There is nothing to profile: as on a GPU when no profiler watches.
cudaError_t cudaProfilerStart() { return cudaSuccess; }
cudaError_t cudaProfilerStop() { return cudaSuccess; }

// For tests -----------------------------------------------------------------------------------------------------------

namespace lod_test::emulated_cuda {
namespace {

[[noreturn]] void print_and_abort(const char* text) {
  std::fprintf(stderr, "emulated CUDA runtime: %s\n", text);
  std::abort();
}

/// The system reads the argument before it finds that there is no such operation, and tells which of both failed.
/// This distinguishes memory that is merely reserved, as sanitizers do on a large scale, from memory that is there.
bool is_readable(std::uintptr_t address) {
  constexpr long no_operation = 0x7fff;
  constexpr std::size_t signal_set_bytes = 8;
  const int error_before = errno;
  const auto word = address / signal_set_bytes * signal_set_bytes;
  const bool readable =
      syscall(SYS_rt_sigprocmask, no_operation, word, nullptr, signal_set_bytes) == -1 && errno != EFAULT;
  errno = error_before;
  return readable;
}

/// Without position independence the program's data is low, but its heap is not told from plain numbers there.
bool is_host_address(std::uintptr_t address) {
  const bool in_text = address >= address_of(__executable_start) && address < address_of(_etext);
  const bool in_image = address >= address_of(__executable_start) && address < address_of(_end);
  const bool in_user_space = address >= 0x0000'5000'0000'0000 && address <= 0x0000'7fff'ffff'ffff;
  if (in_text || !(in_image || in_user_space)) return false;
  {
    const Lock lock(runtime().mutex);
    if (runtime().arena.contains(address) || memory_of(reinterpret_cast<void*>(address), 1) == Memory::pinned) {
      return false;
    }
  }
  return is_readable(address);
}

}

void (*on_failure)(const char* text) = print_and_abort;

Counters operator-(const Counters& after, const Counters& before) {
  return {.allocations = after.allocations - before.allocations,
          .frees = after.frees - before.frees,
          .synchronisations = after.synchronisations - before.synchronisations,
          .queries = after.queries - before.queries,
          .creations = after.creations - before.creations,
          .copies = after.copies - before.copies,
          .fills = after.fills - before.fills,
          .launches = after.launches - before.launches,
          .host_functions = after.host_functions - before.host_functions,
          .graph_launches = after.graph_launches - before.graph_launches};
}

Counters counters() {
  const Lock lock(runtime().mutex);
  return runtime().counters;
}

std::int64_t live_bytes() {
  const Lock lock(runtime().mutex);
  std::size_t sum = 0;
  for (const auto& [start, block] : runtime().blocks) sum += block.bytes;
  return static_cast<std::int64_t>(sum);
}

std::int64_t live_pinned_bytes() {
  const Lock lock(runtime().mutex);
  std::size_t sum = 0;
  for (const auto& [start, bytes] : runtime().pinned) sum += bytes;
  return static_cast<std::int64_t>(sum);
}

std::int64_t live_streams() {
  const Lock lock(runtime().mutex);
  return std::count_if(runtime().streams.begin(), runtime().streams.end(),
                       [](const auto& entry) { return !entry.second->destroyed; });
}

std::int64_t live_events() {
  const Lock lock(runtime().mutex);
  return static_cast<std::int64_t>(runtime().events.size());
}

void run_all() {
  Lock lock(runtime().mutex);
  run_streams(lock, [](const CUstream_st&) { return true; });
}

void set_device_count(int count) {
  const Lock lock(runtime().mutex);
  runtime().device_count = count;
  if (current_device >= count) current_device = 0;
}

void fail_next(const char* function, cudaError_t error) {
  const Lock lock(runtime().mutex);
  runtime().failures[function] = error;
}

void check_plain(const void* object, std::size_t bytes, const char* what) {
  constexpr std::size_t word_bytes = sizeof(std::uintptr_t);
  const auto* const first = static_cast<const std::byte*>(object);
  const std::size_t misalignment = address_of(object) % word_bytes;
  for (std::size_t at = misalignment == 0 ? 0 : word_bytes - misalignment; at + word_bytes <= bytes; at += word_bytes) {
    std::uintptr_t word = 0;
    std::memcpy(&word, first + at, word_bytes);
    if (!is_host_address(word)) continue;
    char text[256];
    std::snprintf(text, sizeof text, "a kernel captures an address of the host: %s, at byte %zu", what, at);
    on_failure(text);
  }
}

std::pair<std::uintptr_t, std::uintptr_t> memory_around(std::uintptr_t address) {
  const Lock lock(runtime().mutex);
  if (const auto* const entry = find_range(runtime().blocks, address); entry != nullptr && entry->second.alive) {
    if (address < entry->first + entry->second.bytes) return {entry->first, entry->first + entry->second.bytes};
  }
  if (const auto* const entry = find_range(runtime().pinned, address); entry != nullptr) {
    if (address < entry->first + entry->second) return {entry->first, entry->first + entry->second};
  }
  return {};
}

void enqueue_kernel(cudaStream_t handle, std::function<void()> kernel) {
  call("launch", Needs::device, [&](Lock&) {
    const auto stream = find_stream(handle);
    if (const cudaError_t error = state_of(stream); error != cudaSuccess) return error;
    if (stream->device != current_device) return cudaErrorInvalidResourceHandle;
    ++runtime().counters.launches;
    const auto run = [kernel = std::move(kernel)](Lock& lock) {
      const Unlocked unlocked(lock);
      kernel();
    };
    enqueue(*stream, run, cudaGraphNodeTypeKernel);
    return cudaSuccess;
  });
}

void launch_bodies(cudaStream_t stream, const AnyBody& body, std::int64_t count) {
  std::vector<std::max_align_t> bytes(body.size / sizeof(std::max_align_t) + 1);
  std::memcpy(bytes.data(), body.bytes, body.size);
  enqueue_kernel(stream, [bytes = std::move(bytes), call = body.call, count] { call(bytes.data(), count); });
}

}
