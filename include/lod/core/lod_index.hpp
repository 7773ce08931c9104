// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup core
/// The LoD: nested offsets that cut rows into sequences, sequences into longer ones, and so on.
///
/// Terms, using three articles of 3, 1 and 2 sentences, which have 3 2 4, 1, and 2 3 words; a row is one word:
///
///     lengths   3           1  2          offsets of level 0   0 3 4 6              (index sentences)
///               3   2  4    1  2  3       offsets of level 1   0 3 5 9 10 12 15     (index rows)
///     rows      ||| || ||||  |  || |||    absolute offsets of level 0   0 9 10 15   (rows)
///
/// Level 0 is the outermost; a negative level counts from the last, which is -1. The offsets of a level are n+1 numbers
/// for n sequences. An empty sequence is a repeated offset, zero sequences are the single offset {0}: both are valid at
/// every level. A LoD has at most `max_levels` levels.
#pragma once

#include <lod/core/error.hpp>
#include <lod/core/lifetime.hpp>
#include <lod/core/lod_block.hpp>
#include <lod/core/reference.hpp>
#include <lod/core/target.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace lod::inline LOD_INTERFACE {

class LoD;

/// The greatest number of levels of a LoD. Code that goes from level to level, such as drawings and readers, may
/// recurse; and a level takes more bytes in memory than in a file, so that without a limit a small file could take all
/// memory.
inline constexpr int max_levels = 64;

namespace detail {

/// Describes an error in a branch: step `depth` is outside the `found` sequences there, or, if `depth` is the length of
/// the branch, it has too many steps.
LOD_TAGGED inline std::string wrong_branch(std::span<const std::int64_t> branch, std::size_t depth, std::int64_t found,
                                           int levels);

[[noreturn, gnu::cold, gnu::noinline]] LOD_TAGGED inline void throw_no_such_level(int level, int levels,
                                                                                  const char* what) {
  const std::string range = levels > 0 ? detail::text({", expected ", -levels, " to ", levels - 1}) : "";
  throw OutOfRange(
      detail::text({what, *what ? ": " : "", "level ", level, " of a LoD with ", levels, " levels", range}));
}
/// `level`, counted from the outermost; negative ones count from the last. Throws OutOfRange.
LOD_TAGGED inline int resolve_level(int level, int levels, const char* what = "") {
  const int resolved = level < 0 ? level + levels : level;
  if (resolved < 0 || resolved >= levels) throw_no_such_level(level, levels, what);
  return resolved;
}

}  // namespace detail

/// A part of a LoD, or of a plain tensor's rows: consecutive sequences of one level, with everything below them.
/// Borrowed: valid as long as a copy of the LoD (or the tensor) exists. Costs nothing to copy, never allocates.
///
/// Offsets are those of the whole LoD: those of a part need not begin at 0.
class LoDView {
 public:
  /// No level and no rows.
  LOD_TAGGED LoDView() = default;
  /// No level; rows [begin, end).
  LOD_TAGGED static LoDView plain(std::int64_t begin, std::int64_t end) noexcept {
    return LoDView(nullptr, 0, begin, end);
  }

  /// The number of levels.
  LOD_TAGGED int levels() const noexcept { return block_ ? block_->levels - first_level_ : 0; }
  /// The number of sequences of the outermost level; the number of rows if there is no level, since each row is then an
  /// element of the batch.
  LOD_TAGGED std::int64_t size() const noexcept { return end_ - begin_; }
  /// The number of sequences of `level`. Throws OutOfRange.
  LOD_TAGGED std::int64_t size(int level) const {
    const Range range = range_of(detail::resolve_level(level, levels()));
    return range.end - range.begin;
  }
  /// The number of rows.
  LOD_TAGGED std::int64_t rows() const noexcept { return last_row() - first_row(); }
  /// The number of the first row in the whole tensor.
  LOD_TAGGED std::int64_t first_row() const noexcept { return row_at(begin_); }
  /// One more than the number of the last row.
  LOD_TAGGED std::int64_t last_row() const noexcept { return row_at(end_); }

  /// size(level) + 1 numbers, which index the sequences of the next level of the whole LoD, or its rows. They begin at
  /// 0 only if the part does. Throws OutOfRange.
  LOD_TAGGED std::span<const std::int64_t> offsets(int level) const {
    const int resolved = detail::resolve_level(level, levels());
    const Range range = range_of(resolved);
    return {entry(resolved).offsets + range.begin, static_cast<std::size_t>(range.end - range.begin + 1)};
  }
  /// size(level) + 1 row numbers of the whole tensor; the first one is `first_row()`. Throws OutOfRange.
  LOD_TAGGED std::span<const std::int64_t> absolute_offsets(int level) const {
    const int resolved = detail::resolve_level(level, levels());
    const Range range = range_of(resolved);
    return {entry(resolved).absolute + range.begin, static_cast<std::size_t>(range.end - range.begin + 1)};
  }
  /// An upper bound for the rows of the longest sequence of `level`, exact if this is the whole LoD: O(1).
  LOD_TAGGED std::int64_t max_rows(int level) const {
    const int resolved = detail::resolve_level(level, levels());
    const std::int64_t bound = entry(resolved).max_rows;
    return bound < rows() ? bound : rows();
  }

  /// Sequences [begin, end) of the outermost level (rows where there is none), with the same levels.
  /// Throws OutOfRange unless 0 <= begin <= end <= size().
  LOD_TAGGED LoDView between(std::int64_t begin, std::int64_t end) const {
    if (begin < 0 || end < begin || end > size()) throw_range(begin, end);
    return LoDView(block_, first_level_, begin_ + begin, begin_ + end);
  }
  /// `between` by its former name.
  LOD_TAGGED [[deprecated("a range of sequences is between(begin, end), a branch slice({i, ...})")]] LoDView slice(
      std::int64_t begin, std::int64_t end) const {
    return between(begin, end);
  }
  /// The slice of a branch <i, j, ...>: its one sequence, which stays as the outermost level of the part. An empty
  /// branch is the whole. Throws OutOfRange for a branch that is longer than there are levels, or leaves them. Time:
  /// a few loads for each step of the branch.
  LOD_TAGGED [[gnu::always_inline]] LoDView slice(std::span<const std::int64_t> branch) const {
    // Inlined into the callers, whose branches have a known length, and on plain numbers: so a slice costs no more than
    // its loads. One comparison checks both ends of the range.
    if (branch.empty()) return *this;
    if (branch.size() > static_cast<std::size_t>(levels())) throw_branch(branch, branch.size(), 0);
    int level = first_level_ - 1;
    std::int64_t begin = begin_, end = end_;
    for (std::size_t depth = 0; depth < branch.size(); ++depth) {
      if (depth > 0) {
        const std::int64_t* offsets = (*block_)[level].offsets;
        begin = offsets[begin];
        end = offsets[end];
      }
      const std::int64_t step = branch[depth], size = end - begin;
      if (static_cast<std::uint64_t>(step) >= static_cast<std::uint64_t>(size)) throw_branch(branch, depth, size);
      begin += step;
      end = begin + 1;
      ++level;
    }
    return LoDView(block_, level, begin, end);
  }
  /// Sequence i of the outermost level as an element: its contents, with one level fewer. If there is no level, row i.
  /// Throws OutOfRange unless 0 <= i < size().
  LOD_TAGGED LoDView operator[](std::int64_t i) const {
    if (i < 0 || i >= size()) throw_element(i);
    return element(i);
  }
  /// operator[] without the check, for iterators.
  LOD_TAGGED LoDView element(std::int64_t i) const noexcept {
    const LoDView part(block_, first_level_, begin_ + i, begin_ + i + 1);
    return levels() == 0 ? part : part.children();
  }

  /// The contents of all sequences of the outermost level together, as a part with one level fewer. There must be a
  /// level.
  LOD_TAGGED LoDView all_children() const noexcept {
    LOD_ASSERT(levels() > 0);
    return children();
  }

  /// The levels as absolute offsets, in rows of the whole tensor: the form in which slices are drawn on paper.
  LOD_TAGGED std::vector<std::vector<std::int64_t>> absolute_lod() const {
    std::vector<std::vector<std::int64_t>> all(static_cast<std::size_t>(levels()));
    for (int level = 0; level < levels(); ++level) {
      const auto offsets = absolute_offsets(level);
      all[static_cast<std::size_t>(level)] = std::vector<std::int64_t>(offsets.data(), offsets.data() + offsets.size());
    }
    return all;
  }
  /// The LoD of the part, its offsets counted from its own start. The whole LoD is shared, a true part is copied.
  LOD_TAGGED LoD lod() const;

  /// True if this is a whole LoD, not a part of one; false without levels.
  LOD_TAGGED bool is_whole() const noexcept {
    return block_ && first_level_ == 0 && begin_ == 0 && end_ == entry(0).size;
  }

  /// The block that the views of a LoD share; null without levels. For executors, which keep copies of its numbers.
  LOD_TAGGED const detail::LoDBlock* block() const noexcept { return block_; }

  /// True if both have the same lengths at every level.
  LOD_TAGGED friend bool operator==(const LoDView& a, const LoDView& b) noexcept {
    if (a.block_ == b.block_ && a.first_level_ == b.first_level_ && a.begin_ == b.begin_ && a.end_ == b.end_)
      return true;
    if (a.levels() != b.levels() || a.rows() != b.rows()) return false;
    // Of two LoDs with many sequences it is remembered that they are equal: an output keeps its own from call to call.
    const bool whole = a.is_whole() && b.is_whole();
    if (whole && detail::LoDBlock::are_known_equal(*a.block_, *b.block_)) return true;
    const bool equal = equal_levels(a, b, a.levels());
    constexpr std::int64_t many = 1024;
    if (whole && equal && a.entry(a.levels() - 1).size >= many) detail::LoDBlock::remember_equal(*a.block_, *b.block_);
    return equal;
  }
  /// True if `a` and `b` agree in the lengths of the first `count` levels, which both must have.
  LOD_TAGGED static bool equal_levels(const LoDView& a, const LoDView& b, int count) noexcept {
    if (count > 0 && a.size() != b.size()) return false;
    if (a.block_ == b.block_ && a.first_level_ == b.first_level_ && a.begin_ == b.begin_) return true;
    for (int level = 0; level < count; ++level) {
      const Range range_a = a.range_of(level), range_b = b.range_of(level);
      if (range_a.end - range_a.begin != range_b.end - range_b.begin) return false;
      const std::int64_t* offsets_a = a.entry(level).offsets + range_a.begin;
      const std::int64_t* offsets_b = b.entry(level).offsets + range_b.begin;
      if (offsets_a[0] == offsets_b[0]) {  // as where both are whole: compared by vectors
        if (!std::equal(offsets_a, offsets_a + (range_a.end - range_a.begin) + 1, offsets_b)) return false;
        continue;
      }
      for (std::int64_t i = 0; i <= range_a.end - range_a.begin; ++i) {
        if (offsets_a[i] - offsets_a[0] != offsets_b[i] - offsets_b[0]) return false;
      }
    }
    return true;
  }

 private:
  friend class LoD;
  struct Range {
    std::int64_t begin;
    std::int64_t end;
  };

  LOD_TAGGED LoDView(const detail::LoDBlock* block, int first_level, std::int64_t begin, std::int64_t end) noexcept
      : block_(block), first_level_(first_level), begin_(begin), end_(end) {}

  LOD_TAGGED const detail::Level& entry(int level) const noexcept { return (*block_)[first_level_ + level]; }
  LOD_TAGGED std::int64_t row_at(std::int64_t position) const noexcept {
    return levels() == 0 ? position : entry(0).absolute[position];
  }
  LOD_TAGGED LoDView children() const noexcept {
    const std::int64_t* offsets = entry(0).offsets;
    return LoDView(block_, first_level_ + 1, offsets[begin_], offsets[end_]);
  }
  LOD_TAGGED Range range_of(int level) const noexcept {
    Range range{begin_, end_};
    for (int above = 0; above < level; ++above) {
      const std::int64_t* offsets = entry(above).offsets;
      range = {offsets[range.begin], offsets[range.end]};
    }
    return range;
  }
  LOD_TAGGED const char* parts() const noexcept { return levels() > 0 ? " sequences" : " rows"; }
  LOD_TAGGED [[noreturn, gnu::cold, gnu::noinline]] void throw_range(std::int64_t begin, std::int64_t end) const {
    throw OutOfRange(detail::text({"slice [", begin, ", ", end, ") of ", size(), parts()}));
  }
  LOD_TAGGED [[noreturn, gnu::cold, gnu::noinline]] void throw_element(std::int64_t i) const {
    throw OutOfRange(detail::text({"element ", i, " of ", size(), parts()}));
  }
  LOD_TAGGED [[noreturn, gnu::cold, gnu::noinline]] void throw_branch(std::span<const std::int64_t> branch,
                                                                      std::size_t depth, std::int64_t found) const {
    throw OutOfRange(detail::wrong_branch(branch, depth, found, levels()));
  }

  const detail::LoDBlock* block_ = nullptr;
  int first_level_ = 0;
  std::int64_t begin_ = 0;
  std::int64_t end_ = 0;
};

namespace detail {

/// The numbers of every level in 64 bits. Throws InvalidLoD for one that does not fit, naming level and position.
template <std::integral I>
LOD_TAGGED std::vector<std::vector<std::int64_t>> wide_numbers(const std::vector<std::vector<I>>& levels) {
  std::vector<std::vector<std::int64_t>> wide;
  wide.reserve(levels.size());
  for (const std::vector<I>& numbers : levels) {
    const auto none = std::find_if(numbers.begin(), numbers.end(), [](I number) {
      return number > 0 && static_cast<std::uint64_t>(number) > std::uint64_t{std::numeric_limits<std::int64_t>::max()};
    });
    if (none != numbers.end()) {
      throw InvalidLoD(
          text({"level ", wide.size(), ", position ", none - numbers.begin(), ": ", *none, " is beyond 63 bits"}));
    }
    wide.emplace_back(numbers.begin(), numbers.end());
  }
  return wide;
}

}  // namespace detail

/// The index: validated once, then immutable; copies share it and cost one counter. A LoD without levels belongs to a
/// plain tensor. LoDs with the same offsets are equal. Anything that would create more than `max_levels` levels throws
/// InvalidLoD.
class LoD {
 public:
  /// No levels.
  LOD_TAGGED LoD() = default;
  LOD_TAGGED_COPIES(LoD);
  /// Exchanges the two.
  LOD_TAGGED friend void swap(LoD& a, LoD& b) noexcept { swap(a.block_, b.block_); }

  /// From the lengths of every level, outermost first. Throws InvalidLoD for more than `max_levels` levels, and, naming
  /// level and position, for a negative length, for sums beyond 64 bits, and if the lengths of a level do not add up to
  /// the number of sequences of the next. O(sequences), one allocation.
  LOD_TAGGED static LoD from_lengths(const std::vector<std::vector<std::int64_t>>& lengths);
  /// The same from integers of any type.
  template <std::integral I>
    requires(!std::same_as<I, std::int64_t>)
  LOD_TAGGED static LoD from_lengths(const std::vector<std::vector<I>>& lengths) {
    return from_lengths(detail::wide_numbers(lengths));
  }
  /// From the offsets of every level. Throws InvalidLoD for more than `max_levels` levels, and, naming level and
  /// position, if a level has no offset, does not begin at 0, descends, or does not end at the number of sequences of
  /// the next.
  LOD_TAGGED static LoD from_offsets(const std::vector<std::vector<std::int64_t>>& offsets);
  /// The same, from spans, and from a list in braces.
  LOD_TAGGED static LoD from_offsets(std::span<const std::span<const std::int64_t>> offsets);
  LOD_TAGGED static LoD from_offsets(std::initializer_list<std::vector<std::int64_t>> offsets);
  /// The same from integers of any type.
  template <std::integral I>
    requires(!std::same_as<I, std::int64_t>)
  LOD_TAGGED static LoD from_offsets(const std::vector<std::vector<I>>& offsets) {
    return from_offsets(detail::wide_numbers(offsets));
  }
  /// The same, but the LoD uses the given offsets in place, and keeps them alive by keeping `owner` (a shared pointer,
  /// a mapped file, ...). They must not change. Allocates memory for the row numbers of all levels except the last.
  template <class Owner>
  LOD_TAGGED static LoD wrap(std::span<const std::span<const std::int64_t>> offsets, Owner owner) {
    return wrap_checked(offsets, detail::Reference<const detail::Shared>::adopt(
                                     new detail::OwnerBlock<std::remove_const_t<Owner>>(std::move(owner))));
  }
  /// The same from offsets that fill(level, numbers) writes to the LoD's own memory, a span of sizes[level] + 1 numbers
  /// for each level from the outermost on: for readers, whose offsets are nowhere else. Throws InvalidLoD, also for a
  /// negative size, and what `fill` throws.
  template <class Fill>
  LOD_TAGGED static LoD from_filled_offsets(std::span<const std::int64_t> sizes, const Fill& fill);
  /// From row numbers at every level, as returned by `absolute_offsets` and `LoDView::absolute_lod`. All levels begin
  /// with the same number, which becomes row 0, and end with the same one. If several lower boundaries coincide at an
  /// upper one (empty sequences), it is taken as the first of them; the last boundary as the last. Throws InvalidLoD as
  /// above, also if an upper boundary is not one of the level below.
  LOD_TAGGED static LoD from_absolute_offsets(const std::vector<std::vector<std::int64_t>>& offsets);

  /// The inverse of `row_ids`: for each row the number of its sequence, out of `size` sequences, or, if `size` is -1,
  /// as many as the last number implies. Numbers never descend; sequences that no row names are empty. Throws
  /// InvalidLoD, naming the position, for numbers that descend or are outside [0, size), and for a size below -1.
  LOD_TAGGED static LoD from_row_ids(std::span<const std::int64_t> ids, std::int64_t size = -1);
  LOD_TAGGED static LoD from_row_ids(std::initializer_list<std::int64_t> ids, std::int64_t size = -1);
  /// The same for several levels, outermost first: ids[level] says for each sequence of the next level, or each row,
  /// which sequence of `level` it is in; sizes[level] is -1 or the number of its sequences, and without sizes all are
  /// -1. For a given LoD, these are `levels_above(level + 1).row_ids(level)`. Throws InvalidLoD also if the levels do
  /// not fit each other, and if there are not as many sizes as levels.
  LOD_TAGGED static LoD from_nested_row_ids(const std::vector<std::vector<std::int64_t>>& ids,
                                            std::span<const std::int64_t> sizes = {});

  /// The number of levels.
  LOD_TAGGED int levels() const noexcept { return block_ ? block_->levels : 0; }
  /// The number of rows that the last level indexes; 0 without levels, since the LoD then says nothing about rows.
  LOD_TAGGED std::int64_t rows() const noexcept {
    if (!block_) return 0;
    const detail::Level& last = (*block_)[block_->levels - 1];
    return last.offsets[last.size];
  }
  /// The number of sequences of `level`. Throws OutOfRange.
  LOD_TAGGED std::int64_t size(int level) const { return entry(level).size; }
  /// size(level) + 1 numbers: they index the sequences of the next level, or the rows. Throws OutOfRange.
  LOD_TAGGED std::span<const std::int64_t> offsets(int level) const LOD_LIFETIMEBOUND {
    const detail::Level& found = entry(level);
    return {found.offsets, static_cast<std::size_t>(found.size + 1)};
  }
  /// The number of sequences of the next level (rows for the last) in each sequence. Throws OutOfRange.
  LOD_TAGGED std::vector<std::int64_t> lengths(int level) const {
    const auto positions = offsets(level);
    std::vector<std::int64_t> differences(positions.size() - 1);
    for (std::size_t i = 0; i < differences.size(); ++i) differences[i] = positions[i + 1] - positions[i];
    return differences;
  }
  /// size(level) + 1 row numbers. Throws OutOfRange.
  LOD_TAGGED std::vector<std::int64_t> absolute_offsets(int level) const {
    const detail::Level& found = entry(level);
    return {found.absolute, found.absolute + found.size + 1};
  }
  /// The greatest of `lengths(level)`; 0 for no sequences. Throws OutOfRange.
  LOD_TAGGED std::int64_t max_length(int level) const {
    const auto positions = offsets(level);
    std::int64_t longest = 0;
    for (std::size_t i = 1; i < positions.size(); ++i) {
      if (positions[i] - positions[i - 1] > longest) longest = positions[i] - positions[i - 1];
    }
    return longest;
  }
  /// For each row, the number of its sequence of `level`. `from_row_ids` is the inverse. Throws OutOfRange, and
  /// ShapeMismatch if there are more rows, which may be without elements, than a list in memory can have.
  LOD_TAGGED std::vector<std::int64_t> row_ids(int level) const;
  /// The lengths of every level: the argument of `from_lengths`.
  LOD_TAGGED std::vector<std::vector<std::int64_t>> lengths() const;

  /// The whole, as a view.
  LOD_TAGGED LoDView view() const noexcept LOD_LIFETIMEBOUND {
    return block_ ? LoDView(block_.get(), 0, 0, (*block_)[0].size) : LoDView();
  }

  /// Sequences [begin, end) of `level` with all below them; the levels above are dropped. Throws OutOfRange.
  LOD_TAGGED LoD between(std::int64_t begin, std::int64_t end, int level = 0) const {
    const int resolved = detail::resolve_level(level, levels());
    return LoDView(block_.get(), resolved, 0, (*block_)[resolved].size).between(begin, end).lod();
  }
  /// `between` by its former name.
  LOD_TAGGED [[deprecated("a range of sequences is between(begin, end, level)")]] LoD slice(std::int64_t begin,
                                                                                            std::int64_t end,
                                                                                            int level = 0) const {
    return between(begin, end, level);
  }
  /// Levels [first, last), the last kept one converted to index rows: what remains when the finer levels are dropped
  /// and the rows stay. No levels if first == last. Throws OutOfRange, also for a negative number: here none counts
  /// from the last.
  LOD_TAGGED [[nodiscard]] LoD slice_levels(int first, int last) const;
  /// Levels [0, level), unchanged: they index the sequences of `level`, so this is the LoD of a tensor with one row for
  /// each of those. All levels for level == levels(). Throws OutOfRange.
  LOD_TAGGED [[nodiscard]] LoD levels_above(int level) const;
  /// One more level, below the last: `offsets` cut the former rows into shorter sequences. The former rows become the
  /// sequences of the new level. Throws InvalidLoD if the offsets are invalid or not for `rows()` sequences, and if
  /// there are `max_levels` levels already.
  LOD_TAGGED [[nodiscard]] LoD append_level(std::span<const std::int64_t> offsets) const;
  LOD_TAGGED [[nodiscard]] LoD append_level(std::initializer_list<std::int64_t> offsets) const;

  LOD_TAGGED friend bool operator==(const LoD& a, const LoD& b) noexcept { return a.view() == b.view(); }

 private:
  friend class LoDView;
  using Block = detail::Reference<const detail::LoDBlock>;
  LOD_TAGGED explicit LoD(Block block) noexcept : block_(std::move(block)) {}

  LOD_TAGGED const detail::Level& entry(int level) const {
    const int resolved = detail::resolve_level(level, levels());
    return (*block_)[resolved];
  }
  /// A LoD of `levels` levels with size(level) sequences each, whose valid offsets `fill(level, offsets)` writes.
  template <class Size, class Fill>
  LOD_TAGGED static LoD build(int levels, const Size& size, const Fill& fill) {
    if (levels <= 0) return LoD();
    auto block = detail::LoDBlock::allocate(levels, size);
    for (int level = 0; level < levels; ++level) fill(level, (*block)[level].offsets);
    block->derive();
    return LoD(Block::share(block.get()));
  }
  /// A LoD of `count` levels with the offsets offsets(level), which are checked.
  template <class Offsets>
  LOD_TAGGED static LoD build_checked(std::size_t count, const Offsets& offsets);
  LOD_TAGGED static LoD wrap_checked(std::span<const std::span<const std::int64_t>> offsets,
                                     detail::Reference<const detail::Shared> owner);
  /// Computes the offsets of `count` sequences, where item i is in sequence ids[i].
  LOD_TAGGED static void fill_offsets(std::span<const std::int64_t> ids, std::int64_t count,
                                      std::int64_t* offsets) noexcept;

  Block block_;
};

/// `LoD::from_row_ids`: the LoD of one level whose row i is in sequence ids[i].
LOD_TAGGED inline LoD lod_from_row_ids(std::span<const std::int64_t> ids, std::int64_t size = -1) {
  return detail::with_name("lod_from_row_ids", [&] { return LoD::from_row_ids(ids, size); });
}
LOD_TAGGED inline LoD lod_from_row_ids(std::initializer_list<std::int64_t> ids, std::int64_t size = -1) {
  return detail::with_name("lod_from_row_ids", [&] { return LoD::from_row_ids(ids, size); });
}

}  // namespace lod::inline LOD_INTERFACE

#include <lod/core/lod_index_inl.hpp>
