// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup ranks
/// What every rank does by itself, and all must have done before they go on.
#pragma once

#include <lod/core/target.hpp>
#include <lod/mpi/agreement.hpp>
#include <lod/mpi/communicator.hpp>

namespace lod::inline LOD_INTERFACE::mpi::inline LOD_TARGET {

/// Calls f() on each rank. Collective: where it throws on any rank, all of them throw, that one its own exception and
/// the others a RankError with its text. One collective of MPI.
template <class F>
void together(const Communicator& communicator, const F& f) {
  between_ranks::Agreement agreement(between_ranks::group_of(communicator), between_ranks::Operation::TOGETHER);
  agreement.prepare(f);
  agreement.exchange_and_check();
}

}  // namespace lod::inline LOD_INTERFACE::mpi::inline LOD_TARGET
