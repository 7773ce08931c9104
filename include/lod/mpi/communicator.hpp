// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup ranks
/// The ranks that work together.
#pragma once

#include <lod/core/device.hpp>
#include <lod/core/error.hpp>
#include <lod/core/executor.hpp>
#include <lod/core/lifetime.hpp>
#include <lod/core/target.hpp>
#include <lod/mpi/interface.hpp>

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <vector>

namespace lod::inline LOD_INTERFACE::mpi {

/// What a rank has sent to the others: calls of MPI's collectives, messages and the bytes in them. The first step of a
/// collective operation is one of MPI's collectives, for the sizes, or two steps of messages where there are many
/// ranks; all else is messages.
struct Traffic {
  std::int64_t collectives = 0;
  std::int64_t messages = 0;
  std::int64_t bytes = 0;
};

/// From so many ranks on a rank sends small blocks in two steps by default, to about 2 sqrt(ranks) others.
inline constexpr int default_two_steps_from = 64;

/// How ranks exchange; the same on all of them.
struct CommunicatorOptions {
  /// From so many ranks on, what every rank has for every other one goes through a third rank where it is small, so
  /// that a rank sends about 2 sqrt(ranks) messages in place of ranks - 1. Results are the same.
  /// `two_steps_from(network)` is the number for a network whose latency and bandwidth are known.
  int two_steps_from = default_two_steps_from;
};

class Communicator;

}  // namespace lod::inline LOD_INTERFACE::mpi

namespace lod::inline LOD_INTERFACE::between_ranks {

class UnderWay;

/// What copies of a communicator share.
struct Group {
  LOD_TAGGED Group(MPI_Comm of, const CpuExecutor& by) : executor(by) {
    int between_groups = 0;
    check(MPI_Comm_test_inter(of, &between_groups), "MPI_Comm_test_inter");
    if (between_groups) throw std::invalid_argument("Communicator: an inter-communicator, expected one of one group");
    check(MPI_Comm_dup(of, &handle), "MPI_Comm_dup");
    try {
      check(MPI_Comm_set_errhandler(handle, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
      check(MPI_Comm_rank(handle, &rank), "MPI_Comm_rank");
      check(MPI_Comm_size(handle, &size), "MPI_Comm_size");
    } catch (...) {
      MPI_Comm_free(&handle);
      throw;
    }
  }
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;
  LOD_TAGGED ~Group() {
    int finalized = 0;
    if (MPI_Finalized(&finalized) == MPI_SUCCESS && !finalized) MPI_Comm_free(&handle);
  }

  // Tags, of which every MPI has 32767 at least: those of the user for single messages; for their contents, another for
  // each, so that messages that are received at the same time do not meet; and one for each collective operation.
  static constexpr int user_tags = 8192;
  static constexpr unsigned content_tags = 8192;
  static constexpr unsigned operation_tags = 16383;
  LOD_TAGGED int tag_of_content() noexcept { return user_tags + static_cast<int>(contents_++ % content_tags); }
  LOD_TAGGED int tag_of_operation() noexcept {
    return user_tags + static_cast<int>(content_tags) + static_cast<int>(operations_++ % operation_tags);
  }

  static constexpr std::int64_t default_piece = std::int64_t{1} << 26;
  static constexpr std::int64_t default_merged = 4096;

  CpuExecutor executor;
  MPI_Comm handle = MPI_COMM_NULL;
  int rank = 0;
  int size = 1;
  /// Messages are cut into pieces of so many bytes, since MPI counts in 31 bits; the same on all ranks.
  std::int64_t piece = default_piece;
  /// Parts of so many bytes together go to a rank as one message: to copy them takes less time than another message.
  std::int64_t merged = default_merged;
  /// From so many ranks on, what each has for each other one goes in two steps, where it is small: see blocks.hpp.
  int two_steps_from = mpi::default_two_steps_from;
  mpi::Traffic traffic;
  /// Operations that have begun and not ended: whoever waits for one lets all of them go on, since another rank may
  /// wait for another one first.
  std::vector<UnderWay*> under_way;

 private:
  unsigned contents_ = 0;
  unsigned operations_ = 0;
};

LOD_TAGGED inline Group& group_of(const mpi::Communicator& communicator) noexcept;

}  // namespace lod::inline LOD_INTERFACE::between_ranks

namespace lod::inline LOD_INTERFACE::mpi {

/// The ranks of an MPI communicator of the user's. Works on a duplicate, in which no message of the user's is, and
/// which is freed with the last copy of this, unless MPI has been finalized. Copies are the same communicator. To be
/// used by one thread at a time, where MPI permits that.
///
/// Operations on it begin with their sizes, and with whether each rank could do its part: an exception on one rank,
/// which throws it, is a RankError with its text on all others in the same call, and nothing is changed. What can still
/// fail once sizes are known is memory. A rank that has none for its result takes part in the exchange all the same, so
/// that nobody waits for it; where every rank sends something to each other one, all throw then, otherwise only that
/// rank. Collective operations must be called by all ranks in the same order; a rank that calls another one than the
/// others is an error on all.
class Communicator {
 public:
  /// Collective: every rank of `of` must call it, with the same options. Operations work by `executor`; results by
  /// value are in its memory. Throws MpiError, and std::invalid_argument for an inter-communicator. MPI must have been
  /// initialised.
  LOD_TAGGED explicit Communicator(MPI_Comm of, const CpuExecutor& executor = default_executor<Cpu>(),
                                   const CommunicatorOptions& options = {})
      : group_(std::make_shared<between_ranks::Group>(of, executor)) {
    group_->two_steps_from = options.two_steps_from;
  }

  /// This rank, from 0.
  LOD_TAGGED int rank() const noexcept { return group_->rank; }
  /// How many ranks there are.
  LOD_TAGGED int size() const noexcept { return group_->size; }
  /// Who works.
  LOD_TAGGED const CpuExecutor& executor() const noexcept LOD_LIFETIMEBOUND { return group_->executor; }
  /// What this rank has sent since the communicator was made.
  LOD_TAGGED const Traffic& traffic() const noexcept LOD_LIFETIMEBOUND { return group_->traffic; }

 private:
  friend between_ranks::Group& between_ranks::group_of(const Communicator& communicator) noexcept;
  std::shared_ptr<between_ranks::Group> group_;
};

}  // namespace lod::inline LOD_INTERFACE::mpi

namespace lod::inline LOD_INTERFACE::between_ranks {

inline Group& group_of(const mpi::Communicator& communicator) noexcept { return *communicator.group_; }

/// Throws OutOfRange unless there is such a rank. `what` begins the text.
LOD_TAGGED inline void check_rank(const Group& group, int rank, const char* what) {
  if (rank < 0 || rank >= group.size) {
    throw OutOfRange(detail::text({what, ": rank ", rank, ", expected 0 to ", group.size - 1}));
  }
}

}  // namespace lod::inline LOD_INTERFACE::between_ranks
