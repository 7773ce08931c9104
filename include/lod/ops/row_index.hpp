// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup reductions
/// Row numbers as results, and as arguments of gradients: those of winning, sorted or greatest rows.
#pragma once

#include <lod/core/error.hpp>
#include <lod/core/executor.hpp>
#include <lod/core/lod_index.hpp>
#include <lod/core/target.hpp>
#include <lod/ops/infer.hpp>
#include <lod/ops/kernel.hpp>
#include <lod/ops/new_offsets.hpp>
#include <lod/ops/output.hpp>
#include <lod/ops/staging.hpp>

#include <cstdint>

namespace lod::inline LOD_INTERFACE {

/// Where the row numbers in an index are counted from.
enum class RowIndex {
  BATCH,    ///< the first row of the whole batch; the index has no level
  SEQUENCE  ///< the first row of the sequence; the index has the levels of the values that it belongs to
};

}  // namespace lod::inline LOD_INTERFACE

namespace lod::inline LOD_INTERFACE::kernel {

/// The sequence that each number of an index refers to: number k refers to sequence i if k is in part i of `parts`; if
/// these have no offsets, there are `row_size` numbers for each sequence.
struct IndexedRows {
  Segments parts;
  std::int64_t row_size = 1;
};
/// How row numbers are converted: counted from the first row of their sequence, or of the batch.
enum class Renumbering : int { TO_SEQUENCE, TO_BATCH, KEEP };

/// The new number of row `row`, counted in the old way, of sequence i; -1 if it is not a row of a sequence. If `places`
/// is not null, it maps rows to rows of another batch, whose numbers are converted.
LOD_TAGGED LOD_HOST_DEVICE inline std::int64_t renumbered(std::int64_t row, std::int64_t i, const Segments& sequences,
                                                          const std::int64_t* places,
                                                          Renumbering renumbering) noexcept {
  if (row < 0) return -1;
  if (renumbering == Renumbering::TO_BATCH) return row < sequences.length(i) ? sequences.begin(i) + row : -1;
  const std::int64_t in_batch = places == nullptr ? row : places[row];
  return renumbering == Renumbering::KEEP ? in_batch : in_batch - sequences.begin(i);
}

/// On a GPU. run(executor, index, parts, row_size, sequences, places, renumbering, to): for each number of an index
/// over IndexedRows{parts, row_size} the result of `renumbered`; `to` may be the index.
struct RenumberRows {};

}  // namespace lod::inline LOD_INTERFACE::kernel

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {

namespace operation {

/// Writes the result of `renumbered` for an index to `to`, which may be the index itself. `parts` and `sequences` are
/// for kernels.
template <Executor E>
void renumber(const E& executor, const std::int64_t* index, const kernel::IndexedRows& rows,
              const kernel::Segments& sequences, const std::int64_t* places, kernel::Renumbering renumbering,
              std::int64_t* to) {
  if constexpr (on_cpu<E>) {
    const bool by_parts = rows.parts.offsets != nullptr;
    launch(kernel::ForEachRange(), executor, sequences.size, [=](std::int64_t, std::int64_t first, std::int64_t last) {
      for (std::int64_t i = first; i < last; ++i) {
        const std::int64_t begin = by_parts ? rows.parts.begin(i) : i * rows.row_size;
        const std::int64_t end = begin + (by_parts ? rows.parts.length(i) : rows.row_size);
        for (std::int64_t k = begin; k < end; ++k) {
          to[k] = kernel::renumbered(index[k], i, sequences, places, renumbering);
        }
      }
    });
  } else {
    launch(kernel::RenumberRows(), executor, index, rows.parts, rows.row_size, sequences, places,
           static_cast<int>(renumbering), to);
  }
}

/// Converts an index whose rows are counted from the first of the batch to the requested origin; part i of it refers to
/// sequence i.
template <Executor E>
void count_by(const E& executor, RowIndex counted, const kernel::Segments& parts, const kernel::Segments& sequences,
              std::int64_t* index) {
  if (counted != RowIndex::SEQUENCE) return;
  renumber(executor, index, {parts}, sequences, nullptr, kernel::Renumbering::TO_SEQUENCE, index);
}

/// An index for kernels, whose rows are counted from the first of the batch.
template <Executor E>
class RowsOfBatch {
 public:
  /// An index of `count` numbers.
  RowsOfBatch(const E& executor, const std::int64_t* index, std::int64_t count, RowIndex counted,
              const kernel::IndexedRows& rows, const kernel::Segments& sequences)
      : numbers_(executor, counted == RowIndex::SEQUENCE ? count : 0), index_(index) {
    if (counted != RowIndex::SEQUENCE) return;
    renumber(executor, index, rows, sequences, nullptr, kernel::Renumbering::TO_BATCH, numbers_.data());
    index_ = numbers_.data();
  }
  const std::int64_t* data() const noexcept { return index_; }

 private:
  kernel::Scratch<E, std::int64_t> numbers_;
  const std::int64_t* index_;
};

/// Throws OutOfRange for a number that is not a RowIndex.
inline void check_row_index(RowIndex counted, const Subject& what) {
  if (counted != RowIndex::BATCH && counted != RowIndex::SEQUENCE) {
    throw OutOfRange(
        detail::text({what.text(), ": RowIndex ", static_cast<int>(counted), ", expected BATCH or SEQUENCE"}));
  }
}

/// The structure of an index: the levels of the values that it belongs to, or none. See <lod/ops/output.hpp>.
template <class Levels>
struct IndexLevels {
  const Levels& levels;
  RowIndex counted;

  std::int64_t rows() const { return levels.rows(); }
  bool is(const LoDView& other) const {
    return counted == RowIndex::SEQUENCE ? levels.is(other) : PlainRows{rows()}.is(other);
  }
  LoD make() const { return counted == RowIndex::SEQUENCE ? levels.make() : LoD(); }
};

/// The description of an index that belongs to values.
inline infer::Batch infer_index(const infer::Batch& values, RowIndex counted, const char* what) {
  check_row_index(counted, what);
  return {DataType::INT64, values.rows, values.row_shape, counted == RowIndex::SEQUENCE ? values.levels : 0};
}

/// The valid numbers of an index for one sequence: `length` numbers from `first` on.
struct IndexRange {
  std::int64_t first, length;
  IndexRange(RowIndex counted, std::int64_t begin, std::int64_t rows) noexcept
      : first(counted == RowIndex::SEQUENCE ? 0 : begin), length(rows) {}
  bool contains(std::int64_t row) const noexcept { return row >= first && row - first < length; }
};

}  // namespace operation

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET
