// SPDX-License-Identifier: Apache-2.0
/// @file
/// What sums over ranks have in common: which parts there are, and which sums of them each rank has.
#pragma once

#include <lod/core/error.hpp>
#include <lod/core/target.hpp>
#include <lod/mpi/agreement.hpp>
#include <lod/mpi/carried.hpp>
#include <lod/mpi/communicator.hpp>
#include <lod/mpi/exchange.hpp>
#include <lod/mpi/messages.hpp>
#include <lod/mpi/sum_tree.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <vector>

namespace lod::inline LOD_INTERFACE::mpi {

/// The options of `all_reduce`.
struct AllReduceOptions {
  /// Sums are computed by one tree over the parts of all ranks, so that they have the same bits however these are
  /// distributed. Otherwise each rank adds up its own first, and sends one sum.
  bool fixed_tree = false;
};

}  // namespace lod::inline LOD_INTERFACE::mpi

namespace lod::inline LOD_INTERFACE::between_ranks::inline LOD_TARGET {

/// The frame of a sum: `Steps` that agree on the parts, and then know of every rank which subtrees it has the sums of.
class Reduction : public Steps {
 protected:
  Reduction(const mpi::Communicator& communicator, Operation operation, const mpi::AllReduceOptions& options)
      : Steps(communicator),
        options_(options),
        agreement_(group, operation),
        failed_(static_cast<std::size_t>(group.size)) {}

  /// Tells the others; part `i` of `count` is described by describe(i).
  template <class Describe>
  void agree(std::size_t count, const Header& none, const Describe& describe) {
    agreement_.prepare([&] {
      Header header = none;
      for (std::size_t i = 0; i < count; ++i) {
        const Header part = describe(i);
        if (i == 0) header = part;
        check_alike(part, header, detail::text({agreement_.what(), ": part ", i}));
      }
      parts_ = static_cast<std::int64_t>(count);
      header.tag = parts_;
      header.numbers = options_.fixed_tree ? 1 : 0;
      finish_header(header);
      agreement_.to_all(header);
    });
    agreement_.exchange(messages);
  }
  /// Adds what an operation tells beside.
  virtual void finish_header(Header&) {}

  /// With the headers there: throws on all ranks what is wrong with the parts, and finds the subtrees.
  void know() {
    agreement_.check();
    const char* const what = agreement_.what();
    std::int64_t count = 0;
    first_ = -1;
    for (int rank = 0; rank < group.size; ++rank) {
      const Header& header = agreement_.from(rank);
      if ((header.numbers != 0) != (agreement_.from(0).numbers != 0)) {
        throw mpi::RankError(rank, detail::text({what, ": the option fixed_tree differs from that of rank 0"}));
      }
      if (header.tag > 0 && first_ < 0) first_ = rank;
      if (header.tag > 0) check_alike(header, agreement_.from(first_), of_rank(what, rank));
      if (rank == group.rank) begin_ = count;
      count += parts_of(header);
    }
    if (first_ < 0) throw ShapeMismatch(detail::text({what, ": no rank has a part, expected at least one"}));
    count_ = count;
    std::int64_t begin = 0;
    for (int rank = 0; rank < group.size; ++rank) {
      const std::int64_t end = begin + parts_of(agreement_.from(rank));
      trees_.push_back(subtrees(begin, end, count));
      begin = end;
    }
  }
  /// Parts of the tree.
  std::int64_t parts_of(const Header& header) const noexcept {
    return options_.fixed_tree ? header.tag : header.tag > 0 ? 1 : 0;
  }

  /// The subtrees whose sums a rank has.
  const std::vector<Subtree>& trees(int rank) const noexcept { return trees_[static_cast<std::size_t>(rank)]; }
  /// The most that any rank has.
  std::size_t most_trees() const noexcept {
    std::size_t most = 0;
    for (const auto& of_rank : trees_) most = std::max(most, of_rank.size());
    return most;
  }
  Subtree whole() const noexcept { return {0, count_}; }
  /// What all parts are like.
  const Header& common() const noexcept { return agreement_.from(first_); }

  /// Calls f(), unless this rank has failed; then it has.
  template <class F>
  void attempt(const F& f) noexcept {
    if (error_) return;
    try {
      f();
    } catch (...) {
      error_ = std::current_exception();
    }
  }

  mpi::AllReduceOptions options_;
  Agreement agreement_;
  std::vector<std::int64_t> failed_;  // for each rank
  std::int64_t parts_ = 0;            // of this rank
  std::int64_t begin_ = 0;            // the first of them in the tree
  std::int64_t count_ = 0;            // of all
  int first_ = 0;                     // rank with parts
  std::vector<std::vector<Subtree>> trees_;
  std::exception_ptr error_;
  int step_ = 0;
};

}  // namespace lod::inline LOD_INTERFACE::between_ranks::inline LOD_TARGET
