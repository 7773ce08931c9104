// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup gpu_ranks
/// The C interface of NCCL, which no other header includes, and its exception.
#pragma once

#include <lod/core/error.hpp>
#include <lod/core/target.hpp>

#include <nccl.h>

#include <stdexcept>
#include <string>
#include <thread>

namespace lod::inline LOD_INTERFACE::nccl {

/// A call of NCCL that failed, or work of a communicator that did: the call, and NCCL's text.
class NcclError : public std::runtime_error {
 public:
  /// A text, and NCCL's number.
  LOD_TAGGED NcclError(const std::string& what, ncclResult_t code) : std::runtime_error(what), code_(code) {}
  /// NCCL's own number.
  LOD_TAGGED ncclResult_t code() const noexcept { return code_; }

 private:
  ncclResult_t code_;
};

}  // namespace lod::inline LOD_INTERFACE::nccl

namespace lod::inline LOD_INTERFACE::between_gpus {

/// Throws NcclError unless `code`, which `call` returned, is success. A communicator that does not block, which says
/// that the call is in progress, is waited for.
LOD_TAGGED inline void check(ncclResult_t code, const char* call, ncclComm_t communicator = nullptr) {
  while (code == ncclInProgress && communicator) {
    std::this_thread::yield();
    if (ncclCommGetAsyncError(communicator, &code) != ncclSuccess) break;
  }
  if (code == ncclSuccess) return;
  const char* const last = ncclGetLastError(communicator);
  std::string text = detail::text({call, ": ", ncclGetErrorString(code)});
  if (last && *last) text += detail::text({" (", last, ")"});
  throw nccl::NcclError(text, code);
}

}  // namespace lod::inline LOD_INTERFACE::between_gpus
