// SPDX-License-Identifier: Apache-2.0
/// @file
/// Calls of a group become one closure in the stream, which does them by MPI. Collective calls are compared between
/// ranks, in their order; each send is compared with the receive that it meets.
#include "support/emulated_nccl.hpp"

#include "support/emulated_cuda.hpp"
#include <lod/core/data_type.hpp>

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

struct ncclComm {
  MPI_Comm processes = MPI_COMM_NULL;
  int rank = 0;
  int size = 1;
  int device = 0;
  bool aborted = false;
};

namespace {

using lod_test::emulated_cuda::on_failure;

enum class Kind : std::int64_t { SEND, RECEIVE, BROADCAST, ALL_GATHER, ALL_REDUCE };

struct Call {
  Kind kind{};
  const void* from = nullptr;
  void* to = nullptr;
  std::size_t count = 0;
  ncclDataType_t type = ncclUint8;
  int peer = 0;  // or root
  ncclComm_t communicator = nullptr;
  cudaStream_t stream = nullptr;
};

struct Library {
  MPI_Comm processes = MPI_COMM_WORLD;
  std::map<std::string, ncclResult_t> failures;
  ncclResult_t state = ncclSuccess;
  std::set<ncclComm_t> communicators;
  int depth = 0;  // of groups
  std::vector<Call> group;
  std::int64_t calls = 0;
  int polls = 0;  // one after the other
};
Library& library() {
  static Library one;
  return one;
}

/// What a function returns at once; success if it is to do its work.
ncclResult_t refusal(const char* function) {
  library().polls = 0;
  const auto found = library().failures.find(function);
  if (found == library().failures.end()) return ncclSuccess;
  return library().failures.extract(found).mapped();
}

std::size_t bytes_of(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
    case ncclUint8:
      return 1;
    case ncclFloat16:
    case ncclBfloat16:
      return 2;
    case ncclInt32:
    case ncclUint32:
    case ncclFloat32:
      return 4;
    default:
      return 8;
  }
}

void check_memory(const void* from, std::size_t bytes, const char* what) {
  const auto address = reinterpret_cast<std::uintptr_t>(from);
  const auto [begin, end] = lod_test::emulated_cuda::memory_around(address);
  if (begin == 0 || bytes > end - address) on_failure(what);
}
/// Fails unless two buffers are apart, or the second is at `place` bytes of the first.
void check_apart(const void* from, std::size_t from_bytes, const void* to, std::size_t to_bytes, std::size_t place) {
  const auto a = reinterpret_cast<std::uintptr_t>(from), b = reinterpret_cast<std::uintptr_t>(to);
  if (a + from_bytes <= b || b + to_bytes <= a || a == b + place) return;
  on_failure("emulated NCCL: what is sent overlaps what is received");
}

/// Fails unless all ranks call the same.
void check_same(const Call& call, const ncclComm& of) {
  using Words = std::array<std::int64_t, 4>;
  const Words own{static_cast<std::int64_t>(call.kind), static_cast<std::int64_t>(call.count),
                  static_cast<std::int64_t>(call.type), call.peer};
  std::vector<Words> all(static_cast<std::size_t>(of.size));
  MPI_Allgather(own.data(), sizeof own, MPI_BYTE, all.data(), sizeof own, MPI_BYTE, of.processes);
  for (const Words& other : all) {
    if (other != own) on_failure("emulated NCCL: ranks call different collectives, or with different counts");
  }
}

template <class T>
void add(const std::byte* terms, std::size_t count, int ranks, void* to) {
  std::vector<T> sum(count), term(count);
  for (int rank = 0; rank < ranks; ++rank) {
    std::memcpy(term.data(), terms + static_cast<std::size_t>(rank) * count * sizeof(T), count * sizeof(T));
    for (std::size_t i = 0; i < count; ++i) {
      if constexpr (std::is_integral_v<T>) {
        using Wrapping = std::make_unsigned_t<T>;
        sum[i] = static_cast<T>(static_cast<Wrapping>(sum[i]) + static_cast<Wrapping>(term[i]));
      } else if constexpr (sizeof(T) == 2) {
        sum[i] = static_cast<T>(static_cast<float>(sum[i]) + static_cast<float>(term[i]));
      } else {
        sum[i] += term[i];
      }
    }
  }
  std::memcpy(to, sum.data(), count * sizeof(T));
}
void add(ncclDataType_t type, const std::byte* terms, std::size_t count, int ranks, void* to) {
  switch (type) {
    case ncclInt8:
      return add<std::int8_t>(terms, count, ranks, to);
    case ncclUint8:
      return add<std::uint8_t>(terms, count, ranks, to);
    case ncclInt32:
      return add<std::int32_t>(terms, count, ranks, to);
    case ncclUint32:
      return add<std::uint32_t>(terms, count, ranks, to);
    case ncclInt64:
      return add<std::int64_t>(terms, count, ranks, to);
    case ncclUint64:
      return add<std::uint64_t>(terms, count, ranks, to);
    case ncclFloat16:
      return add<lod::float16>(terms, count, ranks, to);
    case ncclBfloat16:
      return add<lod::bfloat16>(terms, count, ranks, to);
    case ncclFloat32:
      return add<float>(terms, count, ranks, to);
    case ncclFloat64:
      return add<double>(terms, count, ranks, to);
    default:
      on_failure("emulated NCCL: numbers of this type are not added up");
  }
}

void run_collective(const Call& call, const ncclComm& of) {
  check_same(call, of);
  const auto ranks = static_cast<std::size_t>(of.size);
  const std::size_t bytes = call.count * bytes_of(call.type);
  const auto count = static_cast<int>(bytes);
  const bool gathers = call.kind == Kind::ALL_GATHER;
  if (call.kind != Kind::BROADCAST || call.peer == of.rank) {
    check_memory(call.from, bytes, "emulated NCCL: a collective reads what is not the device's");
    const std::size_t place = gathers ? static_cast<std::size_t>(of.rank) * bytes : 0;
    check_apart(call.from, bytes, call.to, gathers ? ranks * bytes : bytes, place);
  }
  check_memory(call.to, gathers ? ranks * bytes : bytes, "emulated NCCL: a collective writes what is not the device's");
  if (call.kind == Kind::BROADCAST) {
    if (call.peer == of.rank) std::memmove(call.to, call.from, bytes);
    MPI_Bcast(call.to, count, MPI_BYTE, call.peer, of.processes);
    return;
  }
  std::vector<std::byte> all(ranks * bytes);
  MPI_Allgather(call.from, count, MPI_BYTE, all.data(), count, MPI_BYTE, of.processes);
  if (gathers) {
    std::memcpy(call.to, all.data(), all.size());
  } else {
    add(call.type, all.data(), call.count, of.size, call.to);
  }
}

/// All sends and receives of a group at the same time: first what they are, then values.
void run_messages(const std::vector<Call>& calls, const ncclComm& of) {
  using Words = std::array<std::int64_t, 2>;
  constexpr int size_of_words = sizeof(Words);
  std::vector<MPI_Request> requests;
  std::vector<Words> sent(calls.size()), received(calls.size());
  const auto words = [](const Call& call) {
    return Words{static_cast<std::int64_t>(call.count), static_cast<std::int64_t>(call.type)};
  };
  for (const int tag : {0, 1}) {
    for (std::size_t i = 0; i < calls.size(); ++i) {
      const Call& call = calls[i];
      const auto bytes = static_cast<int>(call.count * bytes_of(call.type));
      MPI_Request& request = requests.emplace_back(MPI_REQUEST_NULL);
      if (call.kind == Kind::SEND) {
        check_memory(call.from, static_cast<std::size_t>(bytes), "emulated NCCL: ncclSend of what is not the device's");
        sent[i] = words(call);
        MPI_Isend(tag == 0 ? static_cast<const void*>(&sent[i]) : call.from, tag == 0 ? size_of_words : bytes, MPI_BYTE,
                  call.peer, tag, of.processes, &request);
      } else {
        check_memory(call.to, static_cast<std::size_t>(bytes), "emulated NCCL: ncclRecv to what is not the device's");
        MPI_Irecv(tag == 0 ? static_cast<void*>(&received[i]) : call.to, tag == 0 ? size_of_words : bytes, MPI_BYTE,
                  call.peer, tag, of.processes, &request);
      }
    }
    MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
    requests.clear();
    for (std::size_t i = 0; tag == 0 && i < calls.size(); ++i) {
      if (calls[i].kind == Kind::RECEIVE && received[i] != words(calls[i])) {
        on_failure("emulated NCCL: ncclRecv meets an ncclSend of another count or type");
      }
    }
  }
}

void run(const std::vector<Call>& calls, const ncclComm& of) {
  if (of.aborted) return;
  std::vector<Call> messages;
  for (const Call& call : calls) {
    if (call.kind == Kind::SEND || call.kind == Kind::RECEIVE) {
      messages.push_back(call);
    } else {
      run_collective(call, of);
    }
  }
  run_messages(messages, of);
}

ncclResult_t end_group() {
  std::vector<Call> calls = std::exchange(library().group, {});
  if (calls.empty()) return ncclSuccess;
  const ncclComm_t of = calls.front().communicator;
  const cudaStream_t stream = calls.front().stream;
  for (const Call& call : calls) {
    if (call.communicator != of || call.stream != stream) {
      on_failure("emulated NCCL: a group with several communicators or streams, which it does not know");
    }
  }
  library().calls += static_cast<std::int64_t>(calls.size());
  lod_test::emulated_cuda::launch(stream, [calls = std::move(calls), copy = of] { run(calls, *copy); });
  return cudaGetLastError() == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}
ncclResult_t add_call(const char* function, const Call& call) {
  const ncclResult_t refused = refusal(function);
  if (refused != ncclSuccess) return refused;
  if (!call.communicator || call.communicator->aborted || !call.stream) return ncclInvalidArgument;
  if (call.peer < 0 || call.peer >= call.communicator->size || call.type >= ncclNumTypes) return ncclInvalidArgument;
  if (call.count > 0 && !call.to && call.kind != Kind::SEND) return ncclInvalidArgument;
  library().group.push_back(call);
  return library().depth > 0 ? ncclSuccess : end_group();
}

}

namespace lod_test::emulated_nccl {

void set_processes(MPI_Comm processes) { library().processes = processes; }
void fail_next(const char* function, ncclResult_t error) { library().failures[function] = error; }
void set_state(ncclResult_t state) { library().state = state; }
std::int64_t calls() { return library().calls; }
std::int64_t live_communicators() { return static_cast<std::int64_t>(library().communicators.size()); }

}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  static int last = 0;
  *id = {};
  std::snprintf(id->internal, sizeof id->internal, "%d of process %d", ++last, static_cast<int>(getpid()));
  return refusal(__func__);
}
ncclResult_t ncclCommInitRank(ncclComm_t* communicator, int size, ncclUniqueId id, int rank) {
  const ncclResult_t refused = refusal(__func__);
  if (refused != ncclSuccess) return refused;
  auto made = std::make_unique<ncclComm>();
  MPI_Comm_dup(library().processes, &made->processes);
  MPI_Comm_rank(made->processes, &made->rank);
  MPI_Comm_size(made->processes, &made->size);
  cudaGetDevice(&made->device);
  if (made->rank != rank || made->size != size) on_failure("emulated NCCL: ncclCommInitRank of ranks unlike MPI's");
  ncclUniqueId first = id;
  MPI_Bcast(&first, sizeof first, MPI_BYTE, 0, made->processes);
  if (std::memcmp(&first, &id, sizeof id) != 0) on_failure("emulated NCCL: ncclCommInitRank by different ids");
  *communicator = made.release();
  library().communicators.insert(*communicator);
  return ncclSuccess;
}
ncclResult_t ncclCommDestroy(ncclComm_t communicator) {
  if (library().communicators.erase(communicator) == 0) on_failure("emulated NCCL: ncclCommDestroy of none");
  MPI_Comm_free(&communicator->processes);
  delete communicator;
  return refusal(__func__);
}
/// What is enqueued still has its address, and does nothing.
ncclResult_t ncclCommAbort(ncclComm_t communicator) {
  if (library().communicators.erase(communicator) == 0) on_failure("emulated NCCL: ncclCommAbort of none");
  static std::vector<std::unique_ptr<ncclComm>> aborted;
  communicator->aborted = true;
  MPI_Comm_free(&communicator->processes);
  aborted.emplace_back(communicator);
  return refusal(__func__);
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t, ncclResult_t* state) {
  const int polls = library().polls + 1;
  const ncclResult_t refused = refusal(__func__);
  // Who asks again and again lets time pass.
  library().polls = polls;
  if (polls > 1) lod_test::emulated_cuda::run_all();
  *state = library().state;
  return refused;
}
ncclResult_t ncclCommCount(ncclComm_t communicator, int* size) {
  *size = communicator->size;
  return refusal(__func__);
}
ncclResult_t ncclCommUserRank(ncclComm_t communicator, int* rank) {
  *rank = communicator->rank;
  return refusal(__func__);
}
ncclResult_t ncclCommCuDevice(ncclComm_t communicator, int* device) {
  *device = communicator->device;
  return refusal(__func__);
}
const char* ncclGetErrorString(ncclResult_t code) {
  return code == ncclRemoteError ? "remote process exited or there was a network error" : "an error of NCCL";
}
const char* ncclGetLastError(ncclComm_t) { return "the emulated one"; }

ncclResult_t ncclGroupStart() {
  ++library().depth;
  return refusal(__func__);
}
ncclResult_t ncclGroupEnd() {
  if (library().depth == 0) return ncclInvalidUsage;
  if (--library().depth > 0) return refusal(__func__);
  const ncclResult_t refused = refusal(__func__);
  if (refused == ncclSuccess || refused == ncclInProgress) {
    const ncclResult_t ended = end_group();
    return ended == ncclSuccess ? refused : ended;
  }
  library().group.clear();
  return refused;
}
ncclResult_t ncclSend(const void* from, std::size_t count, ncclDataType_t type, int peer, ncclComm_t communicator,
                      cudaStream_t stream) {
  return add_call(__func__, {Kind::SEND, from, nullptr, count, type, peer, communicator, stream});
}
ncclResult_t ncclRecv(void* to, std::size_t count, ncclDataType_t type, int peer, ncclComm_t communicator,
                      cudaStream_t stream) {
  return add_call(__func__, {Kind::RECEIVE, nullptr, to, count, type, peer, communicator, stream});
}
ncclResult_t ncclBroadcast(const void* from, void* to, std::size_t count, ncclDataType_t type, int root,
                           ncclComm_t communicator, cudaStream_t stream) {
  return add_call(__func__, {Kind::BROADCAST, from, to, count, type, root, communicator, stream});
}
ncclResult_t ncclAllGather(const void* from, void* to, std::size_t count, ncclDataType_t type, ncclComm_t communicator,
                           cudaStream_t stream) {
  return add_call(__func__, {Kind::ALL_GATHER, from, to, count, type, 0, communicator, stream});
}
ncclResult_t ncclAllReduce(const void* from, void* to, std::size_t count, ncclDataType_t type, ncclRedOp_t operation,
                           ncclComm_t communicator, cudaStream_t stream) {
  if (operation != ncclSum) return ncclInvalidArgument;
  return add_call(__func__, {Kind::ALL_REDUCE, from, to, count, type, 0, communicator, stream});
}
