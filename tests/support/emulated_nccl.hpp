// SPDX-License-Identifier: Apache-2.0
/// @file
/// The part of NCCL that the library calls, between emulated GPUs: each process of an MPI program has one. As the
/// emulated CUDA runtime it is late and strict: communication is done when something waits for its stream, so a rank
/// must do that before it waits for one in some other way; and calls that do not fit those of the other ranks, memory
/// that is not the device's, and buffers that overlap end the program.
#pragma once

#include <lod/mpi/interface.hpp>

#include <nccl.h>

#include <cstdint>

namespace lod_test::emulated_nccl {

/// The processes among which ncclCommInitRank makes communicators; those of the world by default.
void set_processes(MPI_Comm processes);

/// Lets the next call of a function return this, and do nothing.
void fail_next(const char* function, ncclResult_t error);

/// The state that ncclCommGetAsyncError tells from now on, of all communicators.
void set_state(ncclResult_t state);

/// Calls that were enqueued, as ncclSend, and communicators that exist.
std::int64_t calls();
std::int64_t live_communicators();

}
