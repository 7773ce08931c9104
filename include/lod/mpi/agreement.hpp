// SPDX-License-Identifier: Apache-2.0
/// @file
/// How operations between ranks begin: each tells every other one what it will send, or that it cannot.
#pragma once

#include <lod/core/error.hpp>
#include <lod/core/shape.hpp>
#include <lod/core/target.hpp>
#include <lod/mpi/blocks.hpp>
#include <lod/mpi/communicator.hpp>
#include <lod/mpi/interface.hpp>
#include <lod/mpi/messages.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

namespace lod::inline LOD_INTERFACE::between_ranks {

/// The operations, as ranks tell each other which one they call.
enum class Operation : std::int64_t {
  BROADCAST,
  GATHER,
  ALL_GATHER,
  SCATTER,
  ALL_TO_ALL,
  ALL_TO_ALL_GRAD,
  ALL_REDUCE,
  ALL_REDUCE_ROWS,
  TOGETHER,
  TABLE,
  TABLE_SIZES,
  TABLE_LOOK_UP,
  TABLE_POOL,
  TABLE_UPDATE,
  TABLE_SAVE,
  SAVE,
};
/// Its name.
LOD_TAGGED constexpr const char* to_string(Operation operation) noexcept {
  constexpr const char* names[] = {"broadcast",
                                   "gather",
                                   "all_gather",
                                   "scatter",
                                   "all_to_all",
                                   "all_to_all_grad",
                                   "all_reduce",
                                   "all_reduce",
                                   "together",
                                   "ShardedTable",
                                   "ShardedTable::sizes",
                                   "ShardedTable::look_up",
                                   "ShardedTable::pool",
                                   "ShardedTable's optimizer",
                                   "ShardedTable::save",
                                   "CheckpointWriter"};
  return names[static_cast<std::size_t>(operation)];
}

/// What a rank tells another one before it sends anything, as bytes.
struct Header {
  static constexpr std::size_t max_samples = 16;

  std::int64_t operation = 0;
  std::int64_t failed = 0;  ///< this rank cannot do its part
  std::int64_t root = 0;    ///< on which all must agree
  std::int64_t kind = 0;    ///< of values: see `Kind`
  std::int64_t type = 0;    ///< of their elements: a DataType, or the negative size of those that have none
  std::int64_t height = 0;  ///< of row-sparse values
  std::int64_t levels = 0;
  std::int64_t rank = 0;  ///< of the row shape
  std::int64_t row_shape[Shape::max_rank] = {};
  std::int64_t rows = 0;                   ///< that will come
  std::int64_t numbers = 0;                ///< that will come: lengths, or ids
  std::int64_t tag = 0;                    ///< of what will come, or a number of the operation's
  std::int64_t samples[max_samples] = {};  ///< numbers of the operation's
};
static_assert(std::is_trivially_copyable_v<Header>);

/// The text of the exception that is being handled.
LOD_TAGGED inline std::string text_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& known) {
    return known.what();
  } catch (...) {
    return "an exception without a text";
  }
}

/// A text as a message of fixed size.
struct Words {
  static constexpr std::size_t room = 2048;
  char text[room] = {};
  LOD_TAGGED explicit Words(const std::string& from = {}) noexcept {
    std::memcpy(text, from.data(), std::min(from.size(), room - 1));
  }
};

/// Ends an operation in which ranks failed: those throw their own exception, the others a RankError with the text of
/// the first of them. failed[r] is nonzero for those, and the same on all ranks; `own` is set on those that failed.
[[noreturn]] LOD_TAGGED inline void throw_together(Group& group, int tag, std::span<const std::int64_t> failed,
                                                   const std::exception_ptr& own) {
  const auto count = static_cast<std::size_t>(group.size);
  const Words mine(own ? text_of(own) : "");
  std::vector<Words> words(count);
  Messages messages(group);
  for (int rank = 0; rank < group.size; ++rank) {
    if (rank == group.rank) continue;
    if (own) messages.send(rank, tag, mine.text, sizeof mine.text);
    const auto i = static_cast<std::size_t>(rank);
    if (failed[i] != 0) messages.receive(rank, tag, words[i].text, sizeof words[i].text);
  }
  messages.complete(true);
  if (own) std::rethrow_exception(own);
  const auto is_set = [](std::int64_t one) { return one != 0; };
  const auto first = std::find_if(failed.begin(), failed.end(), is_set) - failed.begin();
  throw mpi::RankError(static_cast<int>(first), words[static_cast<std::size_t>(first)].text);
}

/// The first step of a collective operation: headers, one for each pair of ranks, by a collective of MPI, or, where
/// there are many ranks, in two steps of messages.
class Agreement {
 public:
  LOD_TAGGED Agreement(Group& group, Operation operation, int root = 0)
      : group_(group),
        operation_(operation),
        tag_(group.tag_of_operation()),
        to_(static_cast<std::size_t>(group.size)),
        from_(static_cast<std::size_t>(group.size)) {
    for (Header& header : to_) {
      header.operation = static_cast<std::int64_t>(operation);
      header.root = root;
    }
  }

  /// Calls f(), which prepares this rank's part and its headers. What it throws is thrown by `check`.
  template <class F>
  LOD_TAGGED void prepare(const F& f) noexcept {
    try {
      f();
    } catch (...) {
      error_ = std::current_exception();
      for (Header& header : to_) header.failed = 1;
    }
  }
  /// What this rank tells another one, which `tell` replaces, but for the operation and its root.
  LOD_TAGGED Header& to(int rank) noexcept { return to_[static_cast<std::size_t>(rank)]; }
  LOD_TAGGED void tell(int rank, const Header& header) noexcept {
    Header& before = to(rank);
    const std::int64_t root = before.root;
    before = header;
    before.operation = static_cast<std::int64_t>(operation_);
    before.root = root;
  }
  LOD_TAGGED void to_all(const Header& header) noexcept {
    for (int rank = 0; rank < group_.size; ++rank) tell(rank, header);
  }
  LOD_TAGGED void exchange(Messages& messages) {
    constexpr int bytes = sizeof(Header);
    if (group_.size >= group_.two_steps_from) {
      from_ = to_;  // this rank's own
      passing_ = exchange_blocks(
          group_, messages, tag_, bytes, [](int, int) { return static_cast<std::int64_t>(sizeof(Header)); },
          [this](int rank) {
            return Parts<const void>{{{&to(rank), sizeof(Header)}}};
          },
          [this](int rank) {
            return Parts<void>{{{&from_[static_cast<std::size_t>(rank)], sizeof(Header)}}};
          });
      return;
    }
    messages.collective("MPI_Ialltoall", static_cast<std::int64_t>(bytes) * (group_.size - 1),
                        [&](MPI_Comm handle, MPI_Request* request) {
                          return MPI_Ialltoall(to_.data(), bytes, MPI_BYTE, from_.data(), bytes, MPI_BYTE, handle,
                                               request);
                        });
  }
  /// Once the headers are there: throws on all ranks if one has failed, calls another operation or names another root.
  LOD_TAGGED void check() {
    for (int rank = 1; rank < group_.size; ++rank) {
      if (from(rank).operation != from(0).operation) {
        throw mpi::RankError(rank, detail::text({"calls ", name(from(rank)), " where rank 0 calls ", name(from(0))}));
      }
    }
    std::vector<std::int64_t> failed;
    failed.reserve(from_.size());
    for (const Header& header : from_) failed.push_back(header.failed);
    if (std::any_of(failed.begin(), failed.end(), [](std::int64_t one) { return one != 0; })) {
      throw_together(group_, tag_, failed, error_);
    }
    for (int rank = 1; rank < group_.size; ++rank) {
      if (from(rank).root != from(0).root) {
        throw mpi::RankError(
            rank, detail::text({what(), ": root ", from(rank).root, ", expected ", from(0).root, " as rank 0 has"}));
      }
    }
  }
  /// Both at once: for operations that consist of no more.
  LOD_TAGGED void exchange_and_check() {
    Messages messages(group_);
    exchange(messages);
    finish(group_, nullptr, [&](bool wait) { return messages.complete(wait); });
    check();
  }
  /// What another rank tells this one.
  LOD_TAGGED const Header& from(int rank) const noexcept { return from_[static_cast<std::size_t>(rank)]; }

  /// What a rank tells another one, where this rank is one of them or passes it on.
  LOD_TAGGED Header between(int sender, int receiver) const noexcept {
    if (sender == group_.rank) return to_[static_cast<std::size_t>(receiver)];
    if (receiver == group_.rank) return from(sender);
    Header header;
    std::memcpy(&header, (*passing_)[Grid(group_).place_between(sender, receiver)], sizeof header);
    return header;
  }

  LOD_TAGGED const char* what() const noexcept { return to_string(operation_); }
  LOD_TAGGED int tag() const noexcept { return tag_; }

 private:
  LOD_TAGGED static const char* name(const Header& header) noexcept {
    return to_string(static_cast<Operation>(header.operation));
  }

  Group& group_;
  Operation operation_;
  int tag_;
  std::vector<Header> to_;
  std::vector<Header> from_;
  std::shared_ptr<const std::vector<const std::byte*>> passing_;
  std::exception_ptr error_;
};

}  // namespace lod::inline LOD_INTERFACE::between_ranks
