// SPDX-License-Identifier: Apache-2.0
/// @file
/// The tree by which parts are summed up: the same additions whichever ranks have the parts.
///
/// Parts 0, 1, ... are the leaves of a balanced binary tree, which lacks the leaves beyond the last part. A rank has
/// consecutive ones, and can sum up the largest subtrees whose leaves it has all of; only those sums travel.
#pragma once

#include <lod/core/target.hpp>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <utility>
#include <vector>

namespace lod::inline LOD_INTERFACE::between_ranks {

/// A subtree: its leaves [begin, end).
struct Subtree {
  std::int64_t begin;
  std::int64_t end;

  LOD_TAGGED std::int64_t size() const noexcept { return end - begin; }
  /// Where its two halves meet. The left one has as many leaves as a full tree can.
  LOD_TAGGED std::int64_t middle() const noexcept {
    return begin + static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(size() - 1)));
  }
  LOD_TAGGED bool operator==(const Subtree&) const = default;
};

/// The fewest subtrees of a tree of `count` leaves that together have the leaves [begin, end).
LOD_TAGGED inline std::vector<Subtree> subtrees(std::int64_t begin, std::int64_t end, std::int64_t count) {
  std::vector<Subtree> all;
  while (begin < end) {
    // A subtree begins at a multiple of the leaves that it has room for.
    const auto number = static_cast<std::uint64_t>(begin);
    std::uint64_t room = begin == 0 ? std::bit_ceil(static_cast<std::uint64_t>(count)) : number & (0 - number);
    // The last one may lack leaves.
    while (end < count && begin + static_cast<std::int64_t>(room) > end) room /= 2;
    all.push_back({begin, std::min(begin + static_cast<std::int64_t>(room), end)});
    begin = all.back().end;
  }
  return all;
}

}  // namespace lod::inline LOD_INTERFACE::between_ranks

namespace lod::inline LOD_INTERFACE::between_ranks::inline LOD_TARGET {

/// Where a subtree is in a list of pairs of subtrees that ascend and what belongs to them; the end if it is not.
template <class Known>
auto find_subtree(Known& known, const Subtree& tree) {
  const auto found = std::lower_bound(known.begin(), known.end(), tree.begin,
                                      [](const auto& one, std::int64_t begin) { return one.first.begin < begin; });
  return found != known.end() && found->first == tree ? found : known.end();
}

/// The sum of a subtree: take(tree), if is_known(tree), otherwise add(sum of the left half, sum of the right one).
template <class IsKnown, class Take, class Add>
auto sum_of(const Subtree& tree, const IsKnown& is_known, const Take& take, const Add& add) {
  using Term = decltype(take(tree));
  if (is_known(tree)) return take(tree);
  Term left = sum_of(Subtree{tree.begin, tree.middle()}, is_known, take, add);
  Term right = sum_of(Subtree{tree.middle(), tree.end}, is_known, take, add);
  return add(std::move(left), std::move(right));
}

}  // namespace lod::inline LOD_INTERFACE::between_ranks::inline LOD_TARGET
