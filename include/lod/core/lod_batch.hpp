// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup core
/// Batches of LoDs along the top level: append, concatenate, split.
#pragma once

#include <lod/core/error.hpp>
#include <lod/core/lod_index.hpp>
#include <lod/core/sizes.hpp>
#include <lod/core/target.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace lod::inline LOD_INTERFACE {

/// The batches one after the other: the sequences of every level of the first, then those of the second, and so on. All
/// must have the same number of levels. Throws InvalidLoD if they do not, or if there are none. LoDs without levels
/// give one without levels.
LOD_TAGGED [[nodiscard]] inline LoD concat(std::span<const LoD> lods) {
  if (lods.empty()) throw InvalidLoD("concat: no LoD given, expected at least one");
  std::vector<std::vector<std::int64_t>> lengths(static_cast<std::size_t>(lods[0].levels()));
  for (std::size_t i = 0; i < lods.size(); ++i) {
    if (lods[i].levels() != lods[0].levels()) {
      throw InvalidLoD(detail::text(
          {"concat: LoD ", i, " has ", lods[i].levels(), " levels, expected ", lods[0].levels(), " as the first has"}));
    }
    for (std::size_t level = 0; level < lengths.size(); ++level) {
      const auto more = lods[i].lengths(static_cast<int>(level));
      lengths[level].insert(lengths[level].end(), more.begin(), more.end());
    }
  }
  return LoD::from_lengths(lengths);
}
template <class... More>
LOD_TAGGED [[nodiscard]] LoD concat(const LoD& first, const More&... more) requires(std::same_as<More, LoD>&&...) {
  const LoD all[] = {first, more...};
  return concat(std::span<const LoD>{all, 1 + sizeof...(More)});
}

/// The batch `lod` followed by one more sequence for each length of level 0 of `lengths`, with the lengths of its parts
/// below. A LoD without a level takes the levels of `lengths`. Throws InvalidLoD if the numbers of levels differ, and
/// as `LoD::from_lengths` does.
LOD_TAGGED [[nodiscard]] inline LoD append(const LoD& lod, const std::vector<std::vector<std::int64_t>>& lengths) {
  const LoD more = LoD::from_lengths(lengths);
  return lod.levels() == 0 ? more : concat(lod, more);
}

/// The batch cut before the given top-level sequences: `boundaries.size() + 1` parts, some perhaps without sequences.
/// Throws OutOfRange unless the boundaries ascend from 0 to the number of sequences, and for a LoD without a level.
LOD_TAGGED [[nodiscard]] inline std::vector<LoD> split_at(const LoD& lod, std::span<const std::int64_t> boundaries) {
  const std::int64_t size = lod.size(0);
  std::vector<LoD> parts;
  parts.reserve(boundaries.size() + 1);
  std::int64_t begin = 0;
  for (std::int64_t boundary : boundaries) {
    parts.push_back(lod.between(begin, boundary));
    begin = boundary;
  }
  parts.push_back(lod.between(begin, size));
  return parts;
}

namespace detail {

/// Calls cut(i) for the `count` - 1 boundaries that cut `size` sequences into parts as even in rows as possible: each
/// is the boundary nearest to its even share, the earlier one of two. rows_before(i) is the number of rows before
/// sequence i. Throws OutOfRange for a count under 1.
template <class RowsBefore, class Cut>
LOD_TAGGED void even_cuts(std::int64_t size, std::int64_t count, const RowsBefore& rows_before, const Cut& cut) {
  if (count < 1) throw OutOfRange(detail::text({"split: into ", count, " parts, expected 1 or more"}));
  const std::int64_t rows = rows_before(size);
  std::int64_t position = 0;
  for (std::int64_t part = 1; part < count; ++part) {
    // The share is `whole` rows plus `part_of_row` / `count` of a row.
    const UnsignedInt128 left = static_cast<UnsignedInt128>(rows % count) * static_cast<UnsignedInt128>(part);
    const auto divisor = static_cast<UnsignedInt128>(count);
    const std::int64_t whole = rows / count * part + static_cast<std::int64_t>(left / divisor);
    const auto part_of_row = static_cast<std::int64_t>(left % divisor);
    // By steps that double, then halve: if the sequences are rows, there may be far more of them than parts.
    std::int64_t step = 1;
    while (step <= size - position && rows_before(position + step) <= whole) {
      position += step;
      if (step <= size / 2) step *= 2;
    }
    for (; step > 0; step /= 2) {
      if (step <= size - position && rows_before(position + step) <= whole) position += step;
    }
    const auto next_is_nearer = [&] {
      const std::int64_t further = (rows_before(position + 1) - whole) - (whole - rows_before(position));
      return further < 0 || (further < 2 && further * count < 2 * part_of_row);
    };
    cut(position + (position < size && next_is_nearer() ? 1 : 0));
  }
}

}  // namespace detail

/// The batch cut along its top level into `count` parts, always that many, as even in *rows* as whole sequences allow:
/// each cut is at the boundary nearest to its even share, the earlier one of two. Throws OutOfRange for a count under 1
/// and for a LoD without a level.
LOD_TAGGED [[nodiscard]] inline std::vector<LoD> split(const LoD& lod, std::int64_t count) {
  const auto rows = lod.view().absolute_offsets(0);
  std::vector<std::int64_t> boundaries;
  if (count > 1) boundaries.reserve(detail::checked_count<LoD>(count, "split"));
  detail::even_cuts(
      lod.size(0), count, [&](std::int64_t i) { return rows[static_cast<std::size_t>(i)]; },
      [&](std::int64_t boundary) { boundaries.push_back(boundary); });
  return split_at(lod, boundaries);
}

}  // namespace lod::inline LOD_INTERFACE
