// SPDX-License-Identifier: Apache-2.0
/// @file
/// The exchange that most operations between ranks consist of: each sends a part to some others, and joins what
/// arrives.
#pragma once

#include <lod/core/error.hpp>
#include <lod/core/sizes.hpp>
#include <lod/core/target.hpp>
#include <lod/mpi/agreement.hpp>
#include <lod/mpi/blocks.hpp>
#include <lod/mpi/carried.hpp>
#include <lod/mpi/communicator.hpp>
#include <lod/mpi/messages.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace lod::inline LOD_INTERFACE::between_ranks::inline LOD_TARGET {

/// Who sends.
enum class Pattern {
  TO_ROOT,    ///< all, to one
  FROM_ROOT,  ///< one, to all
  DENSE,      ///< each to each
};

/// Throws InvalidLoD or ShapeMismatch unless two ranks describe values that can be joined.
inline void check_alike(const Header& x, const Header& first, const std::string& which) {
  check_takes(first, x, which);
  if (x.levels != first.levels) {
    throw InvalidLoD(detail::text({which, ": ", x.levels, " levels, expected ", first.levels, " as the first has"}));
  }
  if (row_shape_of(x) != row_shape_of(first)) {
    throw ShapeMismatch(detail::text({which, ": rows of shape ", lod::to_string(row_shape_of(x)), ", expected ",
                                      lod::to_string(row_shape_of(first)), " as the first has"}));
  }
  if (x.height != first.height) {
    const bool sparse = first.kind == static_cast<std::int64_t>(Kind::ROWS);
    throw ShapeMismatch(detail::text({which, sparse ? ": height " : ": ", x.height, sparse ? "" : " rows",
                                      ", expected ", first.height, " as the first has"}));
  }
}

/// A base of what prepares parts that lie where they are sent from.
struct InPlace {
  void copy_rows(const Outgoing& own, std::byte* to) const {
    const std::int64_t bytes = bytes_of_values(own.header);
    if (bytes > 0) std::memcpy(to, own.values, static_cast<std::size_t>(bytes));
  }
};

/// Such an operation. `Prepare` is made of the last arguments. `prepare()` returns this rank's part for each rank, or
/// one for all of them; it is called where the rank sends something. `prepare.copy_rows(own, to)` copies this rank's
/// part for itself, and what must be copied before it is sent.
template <class Y, class Prepare>
class Exchange : public Steps {
 public:
  template <class... Arguments>
  Exchange(const mpi::Communicator& communicator, Operation operation, Pattern pattern, int root, Y& y,
           const Arguments&... arguments)
      : Steps(communicator),
        pattern_(pattern),
        root_(root),
        prepare_(arguments...),
        agreement_(group, operation, root),
        incoming_(y),
        failed_(static_cast<std::size_t>(group.size)),
        numbers_(static_cast<std::size_t>(group.size)) {}

  bool next() override {
    switch (step_++) {
      case 0:
        agree();
        return true;
      case 1:
        send();
        return true;
      default:
        finish();
        return false;
    }
  }

 private:
  bool sends_to(int rank) const noexcept {
    return pattern_ == Pattern::TO_ROOT ? rank == root_ : pattern_ == Pattern::DENSE || group.rank == root_;
  }
  bool receives_from(int rank) const noexcept {
    return pattern_ == Pattern::FROM_ROOT ? rank == root_ : pattern_ == Pattern::DENSE || group.rank == root_;
  }
  Outgoing& part(int rank) noexcept { return parts_[parts_.size() == 1 ? 0 : static_cast<std::size_t>(rank)]; }
  /// The rank with whose description the others are compared.
  int first() const noexcept { return pattern_ == Pattern::FROM_ROOT ? root_ : 0; }

  void agree() {
    agreement_.prepare([&] {
      check_rank(group, root_, agreement_.what());
      if (pattern_ == Pattern::FROM_ROOT && group.rank != root_) {
        agreement_.to_all(expected<Y>());
        return;
      }
      parts_ = prepare_();
      for (int rank = 0; rank < group.size; ++rank) agreement_.tell(rank, part(rank).header);
    });
    agreement_.exchange(messages);
  }

  void send() {
    agreement_.check();
    prepare_output();
    const int tag = agreement_.tag();
    std::byte* const values = error_ ? nullptr : incoming_.values();
    std::vector<std::byte*> places;
    std::int64_t position = 0;
    for (int rank = 0; rank < group.size; ++rank) {
      places.push_back(values ? values + position : nullptr);
      if (receives_from(rank)) position += bytes_of_values(agreement_.from(rank));
    }
    copy_rows(places[static_cast<std::size_t>(group.rank)]);
    std::int64_t& own = failed_[static_cast<std::size_t>(group.rank)];
    own = error_ ? 1 : 0;
    const std::int64_t flag = pattern_ == Pattern::DENSE ? sizeof own : 0;
    const auto in = [this, flag, places](int rank) {
      const auto i = static_cast<std::size_t>(rank);
      const Header& header = agreement_.from(rank);
      std::int64_t* const numbers = error_ ? nullptr : numbers_[i].data();
      return Parts<void>{
          {{&failed_[i], flag}, {numbers, bytes_of_numbers(header)}, {places[i], bytes_of_values(header)}}};
    };
    const auto out = [&](int rank) {
      const Outgoing& to = part(rank);
      return Parts<const void>{
          {{&own, flag}, {to.numbers.data(), bytes_of_numbers(to.header)}, {to.values, bytes_of_values(to.header)}}};
    };
    if (pattern_ == Pattern::DENSE) {
      const auto size = [this, flag](int from, int to) {
        const Header header = agreement_.between(from, to);
        return detail::saturated_sum(flag + bytes_of_numbers(header), bytes_of_values(header));
      };
      exchange_blocks(group, messages, tag, group.merged, size, out, in);
    } else {
      for (int rank = 0; rank < group.size; ++rank) {
        if (rank == group.rank) continue;
        if (receives_from(rank)) messages.receive(rank, tag, in(rank));
        if (sends_to(rank)) messages.send(rank, tag, out(rank));
      }
    }
  }
  /// Before anything is sent, so that others are told if it fails: all of them throw then, whatever they get.
  void copy_rows(std::byte* to) {
    if (error_ || !receives_from(group.rank)) return;
    try {
      prepare_.copy_rows(part(group.rank), to);
    } catch (...) {
      error_ = std::current_exception();
    }
  }
  /// What all ranks see alike is checked on all of them; what this one lacks, or cannot count, is its own error.
  void prepare_output() {
    const char* const what = agreement_.what();
    Header all = agreement_.from(first());
    for (int rank = 0; rank < group.size; ++rank) {
      if (pattern_ == Pattern::FROM_ROOT) {
        check_takes(agreement_.from(rank), all, of_rank(what, rank));
      } else {
        check_alike(agreement_.from(rank), all, of_rank(what, rank));
      }
    }
    try {
      std::int64_t numbers = 0;
      all.rows = 0;
      for (int rank = 0; rank < group.size; ++rank) {
        if (!receives_from(rank)) continue;
        const Header& header = agreement_.from(rank);
        if (rank != group.rank) numbers = detail::saturated_sum(numbers, header.numbers);
        if (__builtin_add_overflow(all.rows, header.rows, &all.rows)) {
          throw ShapeMismatch(detail::text({what, ": the ranks have more rows than 64 bits count"}));
        }
      }
      number_memory_.emplace(group.executor.workspace(), numbers);
      std::int64_t* next = number_memory_->data();
      for (int rank = 0; rank < group.size; ++rank) {
        if (!receives_from(rank) || rank == group.rank) continue;
        const Header& header = agreement_.from(rank);
        numbers_[static_cast<std::size_t>(rank)] = {next, static_cast<std::size_t>(header.numbers)};
        if (bytes_of_numbers(header) == 0) std::fill_n(next, header.numbers, 0);
        next += header.numbers;
      }
      incoming_.prepare(all, group.executor.resource());
    } catch (...) {
      error_ = std::current_exception();
    }
  }

  void finish() {
    const auto is_set = [](std::int64_t failed) { return failed != 0; };
    if (pattern_ == Pattern::DENSE && std::any_of(failed_.begin(), failed_.end(), is_set)) {
      throw_together(group, agreement_.tag(), failed_, error_);
    }
    if (error_) std::rethrow_exception(error_);
    std::vector<std::span<const std::int64_t>> parts;
    for (int rank = 0; rank < group.size; ++rank) {
      if (!receives_from(rank)) continue;
      parts.push_back(rank == group.rank ? part(rank).numbers : numbers_[static_cast<std::size_t>(rank)]);
    }
    incoming_.finish(group.executor.workspace(), parts);
  }

  Pattern pattern_;
  int root_;
  Prepare prepare_;
  Agreement agreement_;
  Incoming<Y> incoming_;
  std::vector<std::int64_t> failed_;  // for each rank; what arrives of a dense exchange
  std::vector<Outgoing> parts_;
  std::vector<std::span<std::int64_t>> numbers_;  // of each other rank, in
  std::optional<Workspace::Loan<std::int64_t>> number_memory_;
  std::exception_ptr error_;
  int step_ = 0;
};

/// One part for all ranks.
inline std::vector<Outgoing> for_all(Outgoing part) {
  std::vector<Outgoing> parts;
  parts.push_back(std::move(part));
  return parts;
}

}  // namespace lod::inline LOD_INTERFACE::between_ranks::inline LOD_TARGET
