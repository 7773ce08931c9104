// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup recurrent
/// The rank table: the sequences of a level, longest first. Time-major blocks and recurrent networks follow it.
#pragma once

#include <lod/core/error.hpp>
#include <lod/core/lifetime.hpp>
#include <lod/core/lod_index.hpp>
#include <lod/core/sizes.hpp>
#include <lod/core/target.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace lod::inline LOD_INTERFACE {

/// The options of `RankTable`.
struct RankOptions {
  int level = 0;  ///< the level whose sequences are ranked; by default the first
};

/// The sequences of one level sorted by descending length, equal lengths in their original order. A sequence's length
/// is the number of its parts in the next level: of rows at the last level, otherwise of sub-sequences.
class RankTable {
 public:
  /// A sequence.
  struct Item {
    std::int64_t index;   ///< its index in the level
    std::int64_t length;  ///< its number of steps
    LOD_TAGGED friend bool operator==(const Item&, const Item&) = default;
  };

  /// The table of a batch with one level and no sequences.
  LOD_TAGGED RankTable() = default;
  LOD_TAGGED RankTable(const RankTable&) = default;
  LOD_TAGGED RankTable(RankTable&&) noexcept = default;
  /// A move to itself changes nothing.
  LOD_TAGGED RankTable& operator=(RankTable&& other) noexcept {
    if (this == &other) return *this;  // a vector that is moved to itself may lose everything
    lod_ = std::move(other.lod_);
    level_ = other.level_;
    items_ = std::move(other.items_);
    active_ = std::move(other.active_);
    return *this;
  }
  /// If it throws, this is unchanged.
  LOD_TAGGED RankTable& operator=(const RankTable& other) { return *this = RankTable(other); }
  LOD_TAGGED ~RankTable() = default;

  /// Throws OutOfRange for the level, and ShapeMismatch if memory cannot hold a number for each step (rows without
  /// elements may make sequences of any length). O(sequences + longest length).
  LOD_TAGGED explicit RankTable(const LoD& lod, const RankOptions& options = {})
      : lod_(lod), level_(detail::resolve_level(options.level, lod.levels(), "RankTable")) {
    const auto offsets = lod_.offsets(level_);
    const std::int64_t longest = lod_.max_length(level_);
    // A counting sort by length: active_[t] first counts the sequences of more than t steps, which is also where those
    // of t steps begin.
    active_.assign(detail::checked_count<std::int64_t>(longest, "RankTable: steps") + 1, 0);
    for (std::size_t i = 0; i + 1 < offsets.size(); ++i)
      ++active_[static_cast<std::size_t>(offsets[i + 1] - offsets[i])];
    std::int64_t longer = 0;
    for (std::size_t length = active_.size(); length-- > 0;) {
      const std::int64_t count = active_[length];
      active_[length] = longer;
      longer += count;
    }
    items_.resize(offsets.size() - 1);
    std::vector<std::int64_t> next = active_;
    active_.pop_back();  // none is longer than the longest
    for (std::size_t i = 0; i + 1 < offsets.size(); ++i) {
      const std::int64_t length = offsets[i + 1] - offsets[i];
      items_[static_cast<std::size_t>(next[static_cast<std::size_t>(length)]++)] = {static_cast<std::int64_t>(i),
                                                                                    length};
    }
  }

  /// Longest first.
  LOD_TAGGED std::span<const Item> items() const noexcept LOD_LIFETIMEBOUND { return {items_.data(), items_.size()}; }
  /// The number of sequences.
  LOD_TAGGED std::int64_t size() const noexcept { return static_cast<std::int64_t>(items_.size()); }
  /// The sequence of this rank, which must exist.
  LOD_TAGGED const Item& operator[](std::int64_t rank) const noexcept { return items_[static_cast<std::size_t>(rank)]; }
  /// The longest length; 0 for no sequences.
  LOD_TAGGED std::int64_t steps() const noexcept { return static_cast<std::int64_t>(active_.size()); }
  /// How many sequences are longer than t: they are the first ones of the table. 0 from steps() on. Throws OutOfRange
  /// for a negative t.
  LOD_TAGGED std::int64_t active(std::int64_t t) const {
    if (t < 0) throw OutOfRange(detail::text({"RankTable: step ", t, ", expected 0 or more"}));
    return t < steps() ? active_[static_cast<std::size_t>(t)] : 0;
  }
  /// The LoD that it ranks.
  LOD_TAGGED const LoD& lod() const noexcept LOD_LIFETIMEBOUND { return lod_; }
  /// The level that it ranks, counted from 0.
  LOD_TAGGED int level() const noexcept { return level_; }

 private:
  LoD lod_ = LoD::from_lengths({{}});
  int level_ = 0;
  std::vector<Item> items_;
  std::vector<std::int64_t> active_;
};

}  // namespace lod::inline LOD_INTERFACE
