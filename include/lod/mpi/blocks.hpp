// SPDX-License-Identifier: Apache-2.0
/// @file
/// Blocks that every rank has for every other one: directly, or, where there are many ranks, small ones through a
/// third.
///
/// With p ranks and w the square root of p, rounded up, the block for the rank at distance `column + line * w` after
/// the sender first goes to the rank at distance `column`, together with those for all lines; that rank puts what has
/// come for one line into one message, to the rank `line * w` after it. So a rank sends about 2 (w - 1) messages in
/// place of p - 1, and small blocks twice. Any number of ranks will do.
#pragma once

#include <lod/core/target.hpp>
#include <lod/mpi/communicator.hpp>
#include <lod/mpi/interface.hpp>
#include <lod/mpi/messages.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

namespace lod::inline LOD_INTERFACE::between_ranks {

/// The places of ranks in such an exchange, as one of them sees them.
class Grid {
 public:
  LOD_TAGGED explicit Grid(const Group& group) noexcept : own_(group.rank), ranks_(group.size), width_(width(ranks_)) {}

  /// The columns: the first one is the rank itself.
  LOD_TAGGED int columns() const noexcept { return width_; }
  /// The lines of the ranks of a column.
  LOD_TAGGED int lines(int column) const noexcept { return (ranks_ - column + width_ - 1) / width_; }
  /// The columns of a line.
  LOD_TAGGED int columns(int line) const noexcept { return std::min(width_, ranks_ - line * width_); }
  LOD_TAGGED int after(int column, int line) const noexcept { return (own_ + column + line * width_) % ranks_; }
  LOD_TAGGED int before(int column, int line) const noexcept {
    return (own_ + ranks_ - column - line * width_) % ranks_;
  }
  /// The place in a table of all columns and lines.
  LOD_TAGGED std::size_t place(int column, int line) const noexcept {
    return static_cast<std::size_t>(column) + static_cast<std::size_t>(line) * static_cast<std::size_t>(width_);
  }
  /// The same of a block that another rank sends through this one.
  LOD_TAGGED std::size_t place_between(int from, int to) const noexcept {
    return place((own_ + ranks_ - from) % ranks_, (to + ranks_ - own_) % ranks_ / width_);
  }
  LOD_TAGGED static constexpr int width(int ranks) noexcept {
    int width = 1;
    while (width * width < ranks) ++width;
    return width;
  }

 private:
  int own_;
  int ranks_;
  int width_;
};

}  // namespace lod::inline LOD_INTERFACE::between_ranks

namespace lod::inline LOD_INTERFACE::between_ranks::inline LOD_TARGET {

/// An exchange in two steps; see `exchange_blocks`.
template <class Size, class In>
class TwoSteps {
 public:
  TwoSteps(Group& group, Messages& messages, int tag, std::int64_t limit, Size size, In in)
      : group_(&group),
        messages_(&messages),
        tag_(tag),
        limit_(limit),
        size_(std::move(size)),
        in_(std::move(in)),
        grid_(group),
        passing_(static_cast<std::size_t>(grid_.columns() * grid_.lines(0))),
        arriving_(passing_.size()) {}

  /// What goes through the first step, and what does not go through any.
  template <class Out>
  void begin(const Out& out) {
    for (int rank = 0; rank < group_->size; ++rank) {
      if (rank == group_->rank) continue;
      if (!is_small(rank, group_->rank)) messages_->receive(rank, tag_, in_(rank));
      if (!is_small(group_->rank, rank)) messages_->send(rank, tag_, out(rank));
    }
    for (int line = 1; line < grid_.lines(0); ++line) own_.push_back(packed(out, 0, line, line + 1).first);
    for (int column = 1; column < grid_.columns(); ++column) {
      const auto [sent, bytes] = packed(out, column, 0, grid_.lines(column));
      messages_->send(grid_.after(column, 0), tag_, sent, bytes);
      const int from = grid_.before(column, 0);
      std::int64_t coming = 0;
      for (int line = 0; line < grid_.lines(column); ++line) coming += small(from, grid_.after(0, line));
      std::byte* next = messages_->keep(coming);
      messages_->receive(from, tag_, next, coming);
      for (int line = 0; line < grid_.lines(column); ++line) {
        passing_[grid_.place(column, line)] = next;
        next += small(from, grid_.after(0, line));
      }
    }
  }
  /// The second step.
  void pass_on() {
    for (int line = 1; line < grid_.lines(0); ++line) {
      const int to = grid_.after(0, line), from = grid_.before(0, line);
      std::int64_t bytes = 0, coming = 0;
      for (int column = 0; column < grid_.columns(line); ++column) {
        bytes += small(grid_.before(column, 0), to);
        coming += small(grid_.before(column, line), group_->rank);
      }
      std::byte* const passed_on = messages_->keep(bytes);
      std::byte* next = passed_on;
      for (int column = 0; column < grid_.columns(line); ++column) {
        const std::int64_t count = small(grid_.before(column, 0), to);
        const std::byte* const block =
            column == 0 ? own_[static_cast<std::size_t>(line) - 1] : passing_[grid_.place(column, line)];
        if (count > 0) std::memcpy(next, block, static_cast<std::size_t>(count));
        next += count;
      }
      messages_->send(to, tag_, passed_on, bytes);
      next = messages_->keep(coming);
      messages_->receive(from, tag_, next, coming);
      for (int column = 0; column < grid_.columns(line); ++column) {
        arriving_[grid_.place(column, line)] = next;
        next += small(grid_.before(column, line), group_->rank);
      }
    }
  }
  /// What has arrived, to where it belongs.
  void end() const {
    for (int line = 0; line < grid_.lines(0); ++line) {
      for (int column = line == 0 ? 1 : 0; column < grid_.columns(line); ++column) {
        const int from = grid_.before(column, line);
        if (!is_small(from, group_->rank)) continue;
        const std::size_t place = grid_.place(column, line);
        unpack(line == 0 ? passing_[place] : arriving_[place], in_(from));
      }
    }
  }
  /// Where the blocks lie that go through this rank, by their places.
  const std::vector<const std::byte*>& passing() const noexcept { return passing_; }

 private:
  bool is_small(int from, int to) const { return size_(from, to) <= limit_; }
  std::int64_t small(int from, int to) const { return is_small(from, to) ? size_(from, to) : 0; }
  /// The blocks for some lines of a column, one after the other.
  template <class Out>
  std::pair<const std::byte*, std::int64_t> packed(const Out& out, int column, int begin, int end) const {
    std::int64_t bytes = 0;
    for (int line = begin; line < end; ++line) bytes += small(group_->rank, grid_.after(column, line));
    std::byte* const all = messages_->keep(bytes);
    std::byte* next = all;
    for (int line = begin; line < end; ++line) {
      const int to = grid_.after(column, line);
      if (is_small(group_->rank, to)) next = pack(out(to), next);
    }
    return {all, bytes};
  }

  Group* group_;
  Messages* messages_;
  int tag_;
  std::int64_t limit_;
  Size size_;
  In in_;
  Grid grid_;
  std::vector<const std::byte*> own_;
  std::vector<const std::byte*> passing_;
  std::vector<const std::byte*> arriving_;
};

/// Begins to exchange blocks of all ranks with all: out(rank) is what this one has for another, in(rank) where that
/// one's arrives, both without bytes where there is nothing. Below `group.two_steps_from` ranks directly. Otherwise
/// those of at most `limit` bytes go in two steps: then size(from, to), by which no message is sent, must be known to
/// the rank `from`, to `to` and to the one between them, alike. Returns where the blocks lie, once all have arrived,
/// that go through this rank, by `Grid::place_between`; nothing where they go directly.
template <class Size, class Out, class In>
std::shared_ptr<const std::vector<const std::byte*>> exchange_blocks(Group& group, Messages& messages, int tag,
                                                                     std::int64_t limit, const Size& size,
                                                                     const Out& out, const In& in) {
  if (group.size >= group.two_steps_from && group.size > 1) {
    const auto steps = std::make_shared<TwoSteps<Size, In>>(group, messages, tag, limit, size, in);
    steps->begin(out);
    messages.then([steps] { steps->pass_on(); });
    messages.then([steps] { steps->end(); });
    return {steps, &steps->passing()};
  }
  for (int rank = 0; rank < group.size; ++rank) {
    if (rank == group.rank) continue;
    messages.receive(rank, tag, in(rank));
    messages.send(rank, tag, out(rank));
  }
  return nullptr;
}

}  // namespace lod::inline LOD_INTERFACE::between_ranks::inline LOD_TARGET
