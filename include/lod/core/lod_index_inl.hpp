// SPDX-License-Identifier: Apache-2.0
/// @file
/// The longer bodies of lod_index.hpp.
#pragma once

#include <lod/core/lod_index.hpp>
#include <lod/core/sizes.hpp>

namespace lod::inline LOD_INTERFACE {

namespace detail {

/// Throws InvalidLoD for more levels than a LoD can have. `what` begins the text.
LOD_TAGGED inline void check_level_count(std::size_t levels, const char* what = "LoD") {
  if (levels > std::size_t{max_levels}) {
    throw InvalidLoD(text({what, ": ", levels, " levels, expected ", max_levels, " at most"}));
  }
}

LOD_TAGGED inline std::string place(std::size_t level, std::size_t position) {
  return text({"LoD: level ", level, ", position ", position, ": "});
}

/// Throws InvalidLoD unless `offsets` begin with 0 and never descend.
LOD_TAGGED inline void check_offsets(std::span<const std::int64_t> offsets, std::size_t level) {
  if (offsets.empty()) {
    throw InvalidLoD(detail::text({"LoD: level ", level, " has no offset, expected at least the {0} of no sequences"}));
  }
  if (offsets[0] != 0) {
    throw InvalidLoD(detail::text({place(level, 0), "the first offset is ", offsets[0], ", expected 0"}));
  }
  for (std::size_t i = 1; i < offsets.size(); ++i) {
    if (offsets[i] < offsets[i - 1]) {
      throw InvalidLoD(detail::text({place(level, i), "offset ", offsets[i], " follows ", offsets[i - 1],
                                     ", expected offsets that never descend"}));
    }
  }
}

/// Throws InvalidLoD unless level `level`, which ends at `end`, covers the `size` sequences of the next one.
LOD_TAGGED inline void check_levels(std::size_t level, std::int64_t end, std::int64_t size) {
  if (end != size) {
    throw InvalidLoD(detail::text(
        {"LoD: level ", level, " covers ", end, " sequences of the next level, but level ", level + 1, " has ", size}));
  }
}

LOD_TAGGED inline std::string wrong_branch(std::span<const std::int64_t> branch, std::size_t depth, std::int64_t found,
                                           int levels) {
  std::string all = "branch <";
  for (std::size_t i = 0; i < branch.size(); ++i) all += text({i > 0 ? ", " : "", branch[i]});
  all += ">: ";
  if (depth == branch.size()) {
    return text({all, depth, depth == 1 ? " step" : " steps", ", but there ", levels == 1 ? "is " : "are ", levels,
                 levels == 1 ? " level" : " levels"});
  }
  return text({all, "step ", depth, " is ", branch[depth], ", but level ", depth, " has ", found, " sequence",
               found == 1 ? "" : "s", " there, counted from 0"});
}

}  // namespace detail

inline LoD LoD::from_lengths(const std::vector<std::vector<std::int64_t>>& lengths) {
  detail::check_level_count(lengths.size());
  for (std::size_t level = 0; level < lengths.size(); ++level) {
    std::int64_t sum = 0;
    for (std::size_t i = 0; i < lengths[level].size(); ++i) {
      if (lengths[level][i] < 0) {
        throw InvalidLoD(
            detail::text({detail::place(level, i), "length ", lengths[level][i], " is negative, expected 0 or more"}));
      }
      if (__builtin_add_overflow(sum, lengths[level][i], &sum)) {
        throw InvalidLoD(detail::text({detail::place(level, i), "the sum of the lengths up to here exceeds 64 bits"}));
      }
    }
    if (level + 1 < lengths.size()) {
      detail::check_levels(level, sum, static_cast<std::int64_t>(lengths[level + 1].size()));
    }
  }
  const auto of = [&](int level) -> const auto& { return lengths[static_cast<std::size_t>(level)]; };
  return build(
      static_cast<int>(lengths.size()), [&](int level) { return static_cast<std::int64_t>(of(level).size()); },
      [&](int level, std::int64_t* offsets) {
        *offsets = 0;
        for (std::int64_t length : of(level)) {
          offsets[1] = offsets[0] + length;
          ++offsets;
        }
      });
}

namespace detail {

/// Throws InvalidLoD unless offsets(level) are the offsets of a valid LoD of `count` levels.
template <class Offsets>
LOD_TAGGED void check_all_offsets(std::size_t count, const Offsets& offsets) {
  check_level_count(count);
  const int levels = static_cast<int>(count);
  for (int level = 0; level < levels; ++level) {
    const std::span<const std::int64_t> found = offsets(level);
    check_offsets(found, static_cast<std::size_t>(level));
    if (level > 0) {
      check_levels(static_cast<std::size_t>(level) - 1, offsets(level - 1).back(),
                   static_cast<std::int64_t>(found.size()) - 1);
    }
  }
}

}  // namespace detail

template <class Offsets>
LoD LoD::build_checked(std::size_t count, const Offsets& offsets) {
  detail::check_all_offsets(count, offsets);
  const int levels = static_cast<int>(count);
  const auto size = [&](int level) { return static_cast<std::int64_t>(offsets(level).size()) - 1; };
  return build(levels, size, [&](int level, std::int64_t* out) {
    const std::span<const std::int64_t> from = offsets(level);
    std::memcpy(out, from.data(), from.size_bytes());
  });
}

inline LoD LoD::from_offsets(std::span<const std::span<const std::int64_t>> offsets) {
  return build_checked(offsets.size(), [&](int level) { return offsets[static_cast<std::size_t>(level)]; });
}

inline LoD LoD::wrap_checked(std::span<const std::span<const std::int64_t>> offsets,
                             detail::Reference<const detail::Shared> owner) {
  const auto of = [&](int level) { return offsets[static_cast<std::size_t>(level)]; };
  if (offsets.empty()) return LoD();
  detail::check_all_offsets(offsets.size(), of);
  const int levels = static_cast<int>(offsets.size());
  auto block = detail::LoDBlock::allocate(
      levels, [&](int level) { return static_cast<std::int64_t>(of(level).size()) - 1; }, std::move(owner));
  for (int level = 0; level < levels; ++level) {
    detail::Level& entry = (*block)[level];
    entry.offsets = const_cast<std::int64_t*>(of(level).data());  // nothing writes to the levels of a finished block
    if (level + 1 == levels) entry.absolute = entry.offsets;
  }
  block->derive();
  return LoD(Block::share(block.get()));
}

template <class Fill>
LoD LoD::from_filled_offsets(std::span<const std::int64_t> sizes, const Fill& fill) {
  detail::check_level_count(sizes.size());
  const auto size = [&](int level) { return sizes[static_cast<std::size_t>(level)]; };
  for (std::size_t level = 0; level < sizes.size(); ++level) {
    if (sizes[level] < 0) throw InvalidLoD(detail::text({"LoD: level ", level, " has ", sizes[level], " sequences"}));
  }
  std::vector<std::span<const std::int64_t>> filled;
  return build(static_cast<int>(sizes.size()), size, [&](int level, std::int64_t* out) {
    const std::span<std::int64_t> numbers(out, static_cast<std::size_t>(size(level)) + 1);
    fill(level, numbers);
    filled.emplace_back(numbers);
    if (filled.size() < sizes.size()) return;
    detail::check_all_offsets(filled.size(), [&](int checked) { return filled[static_cast<std::size_t>(checked)]; });
  });
}

inline LoD LoD::from_offsets(const std::vector<std::vector<std::int64_t>>& offsets) {
  return build_checked(offsets.size(), [&](int level) {
    const auto& found = offsets[static_cast<std::size_t>(level)];
    return std::span<const std::int64_t>{found.data(), found.size()};
  });
}

inline LoD LoD::from_offsets(std::initializer_list<std::vector<std::int64_t>> offsets) {
  return build_checked(offsets.size(), [&](int level) {
    const auto& found = offsets.begin()[level];
    return std::span<const std::int64_t>{found.data(), found.size()};
  });
}

inline LoD LoD::from_absolute_offsets(const std::vector<std::vector<std::int64_t>>& offsets) {
  detail::check_level_count(offsets.size());
  std::vector<std::vector<std::int64_t>> relative(offsets.size());
  for (std::size_t level = offsets.size(); level-- > 0;) {
    const auto& rows = offsets[level];
    if (rows.empty()) detail::check_offsets({}, level);
    if (rows.front() < 0) {
      throw InvalidLoD(detail::text({detail::place(level, 0), "row ", rows.front(), ", expected 0 or more"}));
    }
    relative[level] = std::vector<std::int64_t>(rows.size());
    if (level + 1 == offsets.size()) {
      for (std::size_t i = 0; i < rows.size(); ++i) relative[level][i] = rows[i] < 0 ? rows[i] : rows[i] - rows.front();
      detail::check_offsets(relative[level], level);
      continue;
    }
    const auto& below = offsets[level + 1];
    if (rows.front() != below.front() || rows.back() != below.back()) {
      throw InvalidLoD(
          detail::text({"LoD: level ", level, " goes from row ", rows.front(), " to row ", rows.back(), ", expected ",
                        below.front(), " to ", below.back(), " as level ", level + 1, " does"}));
    }
    std::size_t position = 0;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      while (position < below.size() && below[position] < rows[i]) ++position;
      if (i + 1 == rows.size() && i > 0) position = below.size() - 1;
      if (position == below.size() || below[position] != rows[i]) {
        throw InvalidLoD(detail::text({detail::place(level, i), "row ", rows[i], " is no boundary of level ", level + 1,
                                       " or stands before an earlier one"}));
      }
      relative[level][i] = static_cast<std::int64_t>(position);
    }
  }
  return from_offsets(relative);
}

namespace detail {

/// The number of sequences of a level whose items are in the sequences `ids`: `size`, unless that is -1. Throws
/// InvalidLoD unless they describe a level.
LOD_TAGGED inline std::int64_t check_item_ids(std::span<const std::int64_t> ids, std::int64_t size, std::size_t level) {
  // What memory can hold, and small enough to add 1 to a size.
  constexpr std::int64_t most = (std::int64_t{1} << 59) - 1;
  if (size < -1 || size > most) {
    throw InvalidLoD(text({"LoD: level ", level, ": size ", size, ", expected -1 or 0 to ", most}));
  }
  std::int64_t least = 0;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < least) {
      if (ids[i] < 0) throw InvalidLoD(text({place(level, i), "sequence ", ids[i], ", expected 0 or more"}));
      throw InvalidLoD(
          text({place(level, i), "sequence ", ids[i], " follows ", least, ", expected numbers that never descend"}));
    }
    least = ids[i];
    if (const std::int64_t last = size < 0 ? most - 1 : size - 1; least > last) {
      throw InvalidLoD(text({place(level, i), "sequence ", least, " of ", last + 1, ", counted from 0"}));
    }
  }
  if (size >= 0) return size;
  return ids.empty() ? 0 : ids.back() + 1;
}

}  // namespace detail

inline LoD LoD::from_nested_row_ids(const std::vector<std::vector<std::int64_t>>& ids,
                                    std::span<const std::int64_t> sizes) {
  detail::check_level_count(ids.size());
  if (!sizes.empty() && sizes.size() != ids.size()) {
    throw InvalidLoD(detail::text({"LoD: ", sizes.size(), " sizes for ", ids.size(), " levels"}));
  }
  std::vector<std::int64_t> counts(ids.size());
  for (std::size_t level = 0; level < ids.size(); ++level) {
    std::int64_t size = sizes.empty() ? -1 : sizes[level];
    // Below the outermost level, there are as many sequences as the level above has items.
    if (level > 0 && size == -1) size = static_cast<std::int64_t>(ids[level - 1].size());
    counts[level] = detail::check_item_ids(ids[level], size, level);
    if (level > 0) {
      detail::check_levels(level - 1, static_cast<std::int64_t>(ids[level - 1].size()), counts[level]);
    }
  }
  return build(
      static_cast<int>(ids.size()), [&](int level) { return counts[static_cast<std::size_t>(level)]; },
      [&](int level, std::int64_t* offsets) {
        const auto& items = ids[static_cast<std::size_t>(level)];
        fill_offsets({items.data(), items.size()}, counts[static_cast<std::size_t>(level)], offsets);
      });
}

inline LoD LoD::from_row_ids(std::span<const std::int64_t> ids, std::int64_t size) {
  const std::int64_t count = detail::check_item_ids(ids, size, 0);
  return build(
      1, [=](int) { return count; }, [=](int, std::int64_t* offsets) { fill_offsets(ids, count, offsets); });
}
inline LoD LoD::from_row_ids(std::initializer_list<std::int64_t> ids, std::int64_t size) {
  return from_row_ids(std::span<const std::int64_t>{ids.begin(), ids.size()}, size);
}

inline void LoD::fill_offsets(std::span<const std::int64_t> ids, std::int64_t count, std::int64_t* offsets) noexcept {
  std::int64_t next = 0;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    while (next <= ids[i]) offsets[next++] = static_cast<std::int64_t>(i);
  }
  while (next <= count) offsets[next++] = static_cast<std::int64_t>(ids.size());
}

inline std::vector<std::int64_t> LoD::row_ids(int level) const {
  const detail::Level& found = entry(level);
  std::vector<std::int64_t> ids(detail::checked_count<std::int64_t>(rows(), "LoD::row_ids"));
  for (std::int64_t sequence = 0; sequence < found.size; ++sequence) {
    for (std::int64_t row = found.absolute[sequence]; row < found.absolute[sequence + 1]; ++row) {
      ids[static_cast<std::size_t>(row)] = sequence;
    }
  }
  return ids;
}

inline LoD LoD::slice_levels(int first, int last) const {
  if (first < 0 || last < first || last > levels()) {
    throw OutOfRange(detail::text({"levels [", first, ", ", last, ") of a LoD with ", levels(), " levels"}));
  }
  const auto size = [&](int level) { return (*block_)[first + level].size; };
  return build(last - first, size, [&](int level, std::int64_t* offsets) {
    const detail::Level& from = (*block_)[first + level];
    const bool bottom = first + level + 1 == last;
    std::memcpy(offsets, bottom ? from.absolute : from.offsets,
                static_cast<std::size_t>(from.size + 1) * sizeof(std::int64_t));
  });
}

inline std::vector<std::vector<std::int64_t>> LoD::lengths() const {
  std::vector<std::vector<std::int64_t>> all(static_cast<std::size_t>(levels()));
  for (int level = 0; level < levels(); ++level) all[static_cast<std::size_t>(level)] = lengths(level);
  return all;
}

inline LoD LoD::levels_above(int level) const {
  if (level == levels()) return *this;
  const int count = level == 0 ? 0 : detail::resolve_level(level, levels());
  return build_checked(static_cast<std::size_t>(count), [&](int above) { return offsets(above); });
}

inline LoD LoD::append_level(std::span<const std::int64_t> offsets) const {
  return build_checked(static_cast<std::size_t>(levels()) + 1,
                       [&](int level) { return level < levels() ? this->offsets(level) : offsets; });
}
inline LoD LoD::append_level(std::initializer_list<std::int64_t> offsets) const {
  return append_level(std::span<const std::int64_t>{offsets.begin(), offsets.size()});
}

inline LoD LoDView::lod() const {
  if (levels() == 0) return LoD();
  if (is_whole()) return LoD(detail::Reference<const detail::LoDBlock>::share(block_));
  const auto size_of = [&](int level) { return size(level); };
  return LoD::build(levels(), size_of, [&](int level, std::int64_t* out) {
    const auto from = offsets(level);
    for (std::size_t i = 0; i < from.size(); ++i) out[i] = from[i] - from[0];
  });
}

}  // namespace lod::inline LOD_INTERFACE
