// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup gpu_ranks
/// The GPUs that work together: one for each rank of an MPI communicator.
#pragma once

#include <lod/core/lifetime.hpp>
#include <lod/core/target.hpp>
#include <lod/cuda/executor.hpp>
#include <lod/cuda/memory.hpp>
#include <lod/mpi/communicator.hpp>
#include <lod/mpi/interface.hpp>
#include <lod/mpi/together.hpp>
#include <lod/nccl/interface.hpp>

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <thread>
#include <utility>

namespace lod::inline LOD_INTERFACE::nccl {

class Communicator;

}  // namespace lod::inline LOD_INTERFACE::nccl

namespace lod::inline LOD_INTERFACE::between_gpus {

/// What copies of a communicator share.
struct Group {
  LOD_TAGGED Group(MPI_Comm of, const CudaExecutor& by) : hosts(of), executor(by) {}
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;
  LOD_TAGGED ~Group() {
    if (!owned || !handle) return;
    try {
      const detail::CurrentDevice current(executor.ordinal());
      detail::ignore_cuda(cudaStreamSynchronize(executor.stream()));
      static_cast<void>(ncclCommDestroy(handle));
    } catch (...) {  // the GPU is gone
    }
  }

  /// Throws NcclError if work that was enqueued has failed. A communicator of our own is aborted then, so that the
  /// stream goes on.
  LOD_TAGGED void check_work() {
    if (!handle) {
      throw nccl::NcclError("nccl::Communicator: it was aborted after an error, expected a new one", ncclInvalidUsage);
    }
    ncclResult_t state = ncclSuccess;
    check(ncclCommGetAsyncError(handle, &state), "ncclCommGetAsyncError", handle);
    if (state == ncclSuccess || state == ncclInProgress) return;
    try {
      check(state, "enqueued work", handle);
    } catch (...) {
      if (owned) static_cast<void>(ncclCommAbort(std::exchange(handle, nullptr)));
      throw;
    }
  }

  mpi::Communicator hosts;  ///< by which sizes are exchanged
  CudaExecutor executor;
  ncclComm_t handle = nullptr;
  bool owned = false;
};

LOD_TAGGED  /// What a communicator is a handle of.
    inline Group&
    group_of(const nccl::Communicator& communicator) noexcept;

}  // namespace lod::inline LOD_INTERFACE::between_gpus

namespace lod::inline LOD_INTERFACE::nccl {

/// The ranks of an MPI communicator, each with a GPU: that of its executor. Values go from GPU to GPU by NCCL, in the
/// executor's stream; what the CPU must know of them, levels and sizes, goes by MPI. Copies are the same communicator.
/// To be used by one thread at a time.
///
/// An operation waits on the CPU for the other ranks to call it, as one of `lod::mpi` does, and for no GPU: it begins
/// with one or two small exchanges of sizes through MPI, and returns when its values are enqueued. Levels are in the
/// memory of the CPU, so the sizes of tensors are known there. Functions that must wait for the stream say so in their
/// names. Arguments and results belong to the executor's stream; see `CudaExecutor::wait_for` for those of others.
///
/// Whatever can fail before values are enqueued, invalid arguments and memory for results, is an error on all ranks, as
/// in `lod::mpi`: that rank's own exception there, a mpi::RankError with its text on the others, and nothing is
/// enqueued. From then on errors are NCCL's: the next operation throws a NcclError for them, or `synchronize`, which,
/// unlike that of the executor, does not wait for ever if another GPU is lost.
///
/// All ranks call operations in the same order, outside of groups of the user's own (ncclGroupStart).
class Communicator {
 public:
  /// A NCCL communicator of its own, freed with the last copy of this, which waits for the stream first. Collective:
  /// every rank of `of` calls it. Throws NcclError, MpiError, CudaError and std::invalid_argument as
  /// mpi::Communicator does. Ranks must have GPUs of their own: NCCL refuses two ranks on one.
  LOD_TAGGED Communicator(MPI_Comm of, const CudaExecutor& executor)
      : group_(std::make_shared<between_gpus::Group>(of, executor)) {
    auto& hosts = group_->hosts;
    ncclUniqueId id{};
    mpi::together(hosts, [&] {
      if (hosts.rank() == 0) between_gpus::check(ncclGetUniqueId(&id), "ncclGetUniqueId");
    });
    auto& of_hosts = between_ranks::group_of(hosts);
    between_ranks::check(MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, of_hosts.handle), "MPI_Bcast");
    mpi::together(hosts, [&] {
      const detail::CurrentDevice current(executor.ordinal());
      const ncclResult_t code = ncclCommInitRank(&group_->handle, hosts.size(), id, hosts.rank());
      between_gpus::check(code, "ncclCommInitRank", group_->handle);
      group_->owned = true;
    });
  }
  /// One of the user's, which must outlive this, and is neither freed nor aborted. Collective. Throws
  /// std::invalid_argument unless it has as many ranks as `of`, in the same order, and the GPU of the executor.
  LOD_TAGGED Communicator(MPI_Comm of, ncclComm_t communicator, const CudaExecutor& executor)
      : group_(std::make_shared<between_gpus::Group>(of, executor)) {
    auto& hosts = group_->hosts;
    mpi::together(hosts, [&] {
      int size = 0, rank = 0, device = 0;
      between_gpus::check(ncclCommCount(communicator, &size), "ncclCommCount");
      between_gpus::check(ncclCommUserRank(communicator, &rank), "ncclCommUserRank");
      between_gpus::check(ncclCommCuDevice(communicator, &device), "ncclCommCuDevice");
      if (size != hosts.size() || rank != hosts.rank() || device != executor.ordinal()) {
        throw std::invalid_argument(detail::text(
            {"nccl::Communicator: rank ", rank, " of ", size, " on GPU ", device, ", expected rank ", hosts.rank(),
             " of ", hosts.size(), " as in the MPI communicator, on GPU ", executor.ordinal(), " of the executor"}));
      }
    });
    group_->handle = communicator;
  }

  /// This rank, from 0.
  LOD_TAGGED int rank() const noexcept { return group_->hosts.rank(); }
  /// How many ranks there are.
  LOD_TAGGED int size() const noexcept { return group_->hosts.size(); }
  /// In whose stream everything is enqueued.
  LOD_TAGGED const CudaExecutor& executor() const noexcept LOD_LIFETIMEBOUND { return group_->executor; }
  /// What this rank has sent through MPI: sizes and levels.
  LOD_TAGGED const mpi::Traffic& traffic() const noexcept LOD_LIFETIMEBOUND { return group_->hosts.traffic(); }

  /// Waits until everything that was enqueued in the executor's stream has completed. Throws NcclError if
  /// communication failed, and then aborts a communicator of its own; otherwise as CudaExecutor::synchronize.
  LOD_TAGGED void synchronize() const {
    while (true) {
      group_->check_work();
      const cudaError_t state = cudaStreamQuery(executor().stream());
      if (state != cudaErrorNotReady) break;
      detail::ignore_cuda(state);
      std::this_thread::yield();
    }
    executor().synchronize();
  }

 private:
  friend between_gpus::Group& between_gpus::group_of(const Communicator& communicator) noexcept;
  std::shared_ptr<between_gpus::Group> group_;
};

}  // namespace lod::inline LOD_INTERFACE::nccl

namespace lod::inline LOD_INTERFACE::between_gpus {

/// What a communicator is a handle of.
inline Group& group_of(const nccl::Communicator& communicator) noexcept { return *communicator.group_; }

/// Calls of NCCL that are enqueued as one, in the executor's stream. Sizes are in bytes; calls for none are left out.
class Calls {
 public:
  /// Begins them.
  LOD_TAGGED explicit Calls(Group& group) : group_(&group), current_(group.executor.ordinal()) {
    check(ncclGroupStart(), "ncclGroupStart");
  }
  Calls(const Calls&) = delete;
  Calls& operator=(const Calls&) = delete;
  LOD_TAGGED ~Calls() {
    if (!ended_) static_cast<void>(ncclGroupEnd());
  }

  LOD_TAGGED void send(const std::byte* from, std::int64_t bytes, int to) {
    if (bytes > 0) call("ncclSend", ncclSend(from, size(bytes), ncclUint8, to, group_->handle, stream()));
  }
  LOD_TAGGED void receive(std::byte* to, std::int64_t bytes, int from) {
    if (bytes > 0) call("ncclRecv", ncclRecv(to, size(bytes), ncclUint8, from, group_->handle, stream()));
  }
  LOD_TAGGED void broadcast(const std::byte* from, std::byte* to, std::int64_t bytes, int root) {
    if (bytes <= 0) return;
    call("ncclBroadcast", ncclBroadcast(from, to, size(bytes), ncclUint8, root, group_->handle, stream()));
  }
  LOD_TAGGED void all_gather(const std::byte* from, std::byte* to, std::int64_t bytes_of_each) {
    if (bytes_of_each <= 0) return;
    call("ncclAllGather", ncclAllGather(from, to, size(bytes_of_each), ncclUint8, group_->handle, stream()));
  }
  LOD_TAGGED void all_reduce(const void* from, void* to, std::int64_t count, ncclDataType_t type) {
    if (count <= 0) return;
    call("ncclAllReduce", ncclAllReduce(from, to, size(count), type, ncclSum, group_->handle, stream()));
  }
  /// Enqueues them.
  LOD_TAGGED void end() {
    ended_ = true;
    check(ncclGroupEnd(), "ncclGroupEnd", group_->handle);
  }

 private:
  LOD_TAGGED static std::size_t size(std::int64_t bytes) noexcept { return static_cast<std::size_t>(bytes); }
  LOD_TAGGED cudaStream_t stream() const noexcept { return group_->executor.stream(); }
  /// In a group, a communicator that does not block may say so already.
  LOD_TAGGED void call(const char* name, ncclResult_t code) const {
    if (code != ncclInProgress) check(code, name, group_->handle);
  }

  Group* group_;
  detail::CurrentDevice current_;
  bool ended_ = false;
};

}  // namespace lod::inline LOD_INTERFACE::between_gpus
