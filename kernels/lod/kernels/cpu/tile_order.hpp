// SPDX-License-Identifier: Apache-2.0
/// @file
/// Sequences of differing lengths, put into tiles with others of about their own length. A tile takes as long for each
/// of its lanes as for the longest sequence in it: one of 100 rows among others of 3 would make those 30 times as long.
#pragma once

#include <lod/core/target.hpp>
#include <lod/kernels/cpu/sequence_tile.hpp>
#include <lod/ops/kernel.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu {

/// Some sequences that follow each other, the tallest first as far as the heights of tiles differ.
template <std::int64_t lanes>
class TileOrder {
 public:
  static constexpr std::int64_t most_sequences = 256;

  /// Takes sequences from `begin` on, before `end`, at most 256. The rows of those of no more than `tallest` fit one
  /// tile of that height.
  TileOrder(const Segments& sequences, std::int64_t begin, std::int64_t end, std::int64_t tallest) noexcept
      : sequences_(sequences), begin_(begin), tallest_(tallest) {
    const std::int64_t most = std::min(end - begin, most_sequences);
    for (std::int64_t rows = 0; size_ < most; ++size_) {
      const std::int64_t length = sequences.length(begin + size_);
      if (length <= tallest) rows += length;
      if (rows > lanes * tallest) break;
      heights_[size_] = static_cast<std::uint8_t>(height_class(std::min(length, tallest + 1)));
      ++counts_[heights_[size_]];
    }
  }

  /// The number of sequences taken.
  std::int64_t size() const noexcept { return size_; }
  /// Sequence k < size(), as all others by its number among all sequences.
  std::int64_t sequence(std::int64_t k) const noexcept { return begin_ + k; }
  bool fits_tile(std::int64_t k) const noexcept { return sequences_.length(begin_ + k) <= tallest_; }

  /// Calls tile(sequences, places) for tiles of them, where sequence k of a tile is number places[k] of these; and
  /// one(k) for each that is better processed alone, before any tile with shorter ones. Neither for empty ones.
  template <class Tile, class One>
  void for_each(const Tile& tile, const One& one) const {
    std::int64_t places[static_cast<std::size_t>(classes)], listed = 0;
    for (std::int64_t height = classes - 1; height > 0; --height) {
      places[height] = listed;
      listed += counts_[height];
    }
    std::uint8_t order[most_sequences];
    for (std::int64_t k = 0; k < size_; ++k) {
      if (heights_[k] > 0) order[places[heights_[k]]++] = static_cast<std::uint8_t>(k);
    }
    for (std::int64_t k = 0; k < listed;) {
      const std::uint8_t* const some_places = order + k;
      if (fits_tile(*some_places)) {
        const TileSequences<lanes> some(sequences_, begin_, some_places, std::min(lanes, listed - k));
        if (some.size() > 0) {
          tile(some, some_places);
          k += some.size();
          continue;
        }
      }
      one(std::int64_t{*some_places});
      ++k;
    }
  }

 private:
  /// 0 for no rows, 1 for a tile of 8 rows, 2 for 16, and one for each multiple of 32; the last for what is too long.
  static constexpr std::int64_t height_class(std::int64_t length) noexcept {
    return length == 0 ? 0 : length <= 8 ? 1 : length <= 16 ? 2 : 2 + (length + 31) / 32;
  }
  static constexpr std::int64_t classes = height_class(tile_rows + 1) + 1;

  Segments sequences_;
  std::int64_t begin_, tallest_, size_ = 0;
  std::int64_t counts_[static_cast<std::size_t>(classes)] = {};
  std::uint8_t heights_[most_sequences];
};

/// Calls f(begin, end) for each range of numbers below `size` that are all `chosen`, and not part of a longer one.
template <class Chosen, class F>
void for_each_run(std::int64_t size, const Chosen& chosen, const F& f) {
  for (std::int64_t begin = 0, end = 0; begin < size; begin = end + 1) {
    for (end = begin; end < size && chosen(end);) ++end;
    if (begin < end) f(begin, end);
  }
}

/// Whether putting sequences [begin, end) in order takes less time than it saves: a tall sequence alone takes
/// `alone` tenths of the time of a lane of a full tile, and putting a sequence in order as long as ten rows of a lane.
inline bool order_pays(const Segments& sequences, std::int64_t begin, std::int64_t end, std::int64_t tallest,
                       std::int64_t alone) noexcept {
  std::int64_t rows = 0, others = 0;
  for (std::int64_t i = begin; i < end; ++i) {
    const std::int64_t length = sequences.length(i);
    const bool is_tall = length > low_tile_rows;
    rows += is_tall && length <= tallest ? length : 0;
    others += !is_tall;
  }
  return rows * (alone - 10) > 100 * others;
}

/// Calls for sequences [begin, end): in_order(i, settled), which processes those from i on by tiles as they come, and
/// returns the first whose tile would hold none, or be sparse and not begin before `settled`; mixed(order), for others
/// in a better order; and one(i), for each that is better processed alone, which takes `alone` hundredths of the time
/// of a tile.
template <std::int64_t lanes, class InOrder, class Mixed, class One>
void for_each_tile(const Segments& sequences, std::int64_t begin, std::int64_t end, std::int64_t tallest,
                   std::int64_t alone, const InOrder& in_order, const Mixed& mixed, const One& one) {
  using Order = TileOrder<lanes>;
  std::int64_t settled = begin;
  while (begin < end && (begin = in_order(begin, settled)) < end) {
    if (begin < settled) {
      one(begin++);
      continue;
    }
    settled = std::min(begin + Order::most_sequences, end);
    if (order_pays(sequences, begin, settled, tallest, alone)) {
      const Order order(sequences, begin, end, tallest);
      mixed(order);
      begin += order.size();
      settled = begin;
    }
  }
}

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu
