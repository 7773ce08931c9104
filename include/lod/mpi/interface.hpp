// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup ranks
/// The C interface of MPI, which no other header includes, and the exceptions of what is done between ranks.
#pragma once

#include <lod/core/error.hpp>
#include <lod/core/target.hpp>

#include <stdexcept>
#include <string>

/// @cond
// The C++ bindings, which MPI has dropped, would be functions without our flags in their names.
#ifndef OMPI_SKIP_MPICXX
#  define OMPI_SKIP_MPICXX 1
#endif
#ifndef MPICH_SKIP_MPICXX
#  define MPICH_SKIP_MPICXX 1
#endif
/// @endcond
#include <mpi.h>

namespace lod::inline LOD_INTERFACE::mpi {

/// A call of MPI that failed: the call, and MPI's text.
class MpiError : public std::runtime_error {
 public:
  /// A text, and MPI's number.
  LOD_TAGGED MpiError(const std::string& what, int code) : std::runtime_error(what), code_(code) {}
  /// MPI's own number.
  LOD_TAGGED int code() const noexcept { return code_; }

 private:
  int code_;
};

/// Another rank threw an exception in a collective call, before anything was changed; that one throws its own.
class RankError : public std::runtime_error {
 public:
  /// The rank, and the text of its exception.
  LOD_TAGGED RankError(int rank, const std::string& reason)
      : std::runtime_error(detail::readable(detail::text({"rank ", rank, ": ", reason}))), rank_(rank) {}
  /// The rank that failed; the first of several.
  LOD_TAGGED int rank() const noexcept { return rank_; }

 private:
  int rank_;
};

}  // namespace lod::inline LOD_INTERFACE::mpi

namespace lod::inline LOD_INTERFACE::between_ranks {

/// Throws MpiError unless `code`, which `call` returned, is success.
LOD_TAGGED inline void check(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  char words[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(code, words, &length);
  throw mpi::MpiError(detail::text({call, ": ", words}), code);
}

}  // namespace lod::inline LOD_INTERFACE::between_ranks
