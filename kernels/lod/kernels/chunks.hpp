// SPDX-License-Identifier: Apache-2.0
/// @file
/// The chunks that the labels of a sequence mark, read row by row.
#pragma once

#include <lod/core/target.hpp>
#include <lod/ops/chunk_eval.hpp>

#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET {

/// Reads labels, and tells when a chunk has ended.
class ChunkReader {
 public:
  LOD_HOST_DEVICE explicit ChunkReader(const ChunkLabels& labels) noexcept : tags_(labels.tags), types_(labels.types) {}

  /// Reads the label of a row; true if a chunk ended before it.
  LOD_HOST_DEVICE bool read(std::int64_t row, std::int64_t label) noexcept {
    const bool is_inside = label >= 0 && label < types_ * tags_.count;
    return move_to(row, is_inside ? label / tags_.count : -1, is_inside ? label % tags_.count : -1);
  }
  /// After the last row.
  LOD_HOST_DEVICE bool end() noexcept { return move_to(0, -1, -1); }

  /// The first row and the type of the chunk that has ended.
  LOD_HOST_DEVICE std::int64_t first() const noexcept { return ended_first_; }
  LOD_HOST_DEVICE std::int64_t type() const noexcept { return ended_type_; }

 private:
  LOD_HOST_DEVICE bool move_to(std::int64_t row, std::int64_t type, std::int64_t tag) noexcept {
    const bool ended = is_open_ && ends_before(type, tag);
    ended_first_ = first_;
    ended_type_ = type_;
    if (ended) is_open_ = false;
    if (begins_with(type, tag)) {
      first_ = row;
      is_open_ = true;
    }
    type_ = type;
    tag_ = tag;
    return ended;
  }
  LOD_HOST_DEVICE bool is_last() const noexcept { return tag_ >= 0 && (tag_ == tags_.end || tag_ == tags_.single); }
  LOD_HOST_DEVICE bool is_first(std::int64_t tag) const noexcept { return tag == tags_.begin || tag == tags_.single; }
  /// Whether a chunk that the row before belongs to has ended.
  LOD_HOST_DEVICE bool ends_before(std::int64_t type, std::int64_t tag) const noexcept {
    if (type != type_) return type_ >= 0;
    return type >= 0 && (is_last() || (is_first(tag) && (tag_ == tags_.begin || tag_ == tags_.inside)));
  }
  LOD_HOST_DEVICE bool begins_with(std::int64_t type, std::int64_t tag) const noexcept {
    if (type != type_) return type >= 0;
    return type >= 0 && (is_first(tag) || ((tag == tags_.inside || tag == tags_.end) && is_last()));
  }

  ChunkTags tags_;
  std::int64_t types_;
  std::int64_t type_ = -1;  // of the row before; -1 outside of chunks
  std::int64_t tag_ = -1;
  std::int64_t first_ = 0;
  std::int64_t ended_first_ = 0;
  std::int64_t ended_type_ = -1;
  bool is_open_ = false;
};

/// Writes how many chunks of a sequence were inferred, are labelled, and are correct.
template <class T>
LOD_HOST_DEVICE void count_chunks(const T* inference, const T* label, std::int64_t rows, const ChunkLabels& labels,
                                  std::int64_t* counts) noexcept {
  ChunkReader a(labels), b(labels);
  std::int64_t inferred = 0, labelled = 0, correct = 0;
  for (std::int64_t row = 0; row <= rows; ++row) {
    const bool a_ended = row < rows ? a.read(row, static_cast<std::int64_t>(inference[row])) : a.end();
    const bool b_ended = row < rows ? b.read(row, static_cast<std::int64_t>(label[row])) : b.end();
    const bool a_counts = a_ended && labels.counts(a.type()), b_counts = b_ended && labels.counts(b.type());
    inferred += a_counts;
    labelled += b_counts;
    correct += a_counts && b_counts && a.first() == b.first() && a.type() == b.type();
  }
  counts[0] = inferred;
  counts[1] = labelled;
  counts[2] = correct;
}

/// Writes precision, recall and F1.
LOD_HOST_DEVICE inline void chunk_rates(const std::int64_t* counts, float* rates) noexcept {
  const auto correct = static_cast<double>(counts[2]);
  const double precision = counts[0] > 0 ? correct / static_cast<double>(counts[0]) : 0;
  const double recall = counts[1] > 0 ? correct / static_cast<double>(counts[1]) : 0;
  rates[0] = static_cast<float>(precision);
  rates[1] = static_cast<float>(recall);
  rates[2] = static_cast<float>(counts[2] > 0 ? 2 * precision * recall / (precision + recall) : 0);
}

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET
