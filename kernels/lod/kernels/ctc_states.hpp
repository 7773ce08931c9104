// SPDX-License-Identifier: Apache-2.0
/// @file
/// The states through which the frames of a sequence spell its labels: each label, and a blank before, between and
/// after them. A path stays in a state or moves to the next one, and may skip a blank between different labels.
#pragma once

#include <lod/core/sizes.hpp>
#include <lod/core/target.hpp>
#include <lod/ops/kernel.hpp>

#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET {

/// The states of a sequence.
template <class T>
struct CtcStates {
  const T* logits;  ///< of its frames
  std::int64_t frames;
  std::int64_t classes;
  const std::int64_t* labels;
  std::int64_t label_count;
  std::int64_t blank;

  LOD_HOST_DEVICE std::int64_t count() const { return 2 * label_count + 1; }
  /// The class of a state; -1 if no path leads there: for a label that is the blank, or an error that is thrown later.
  LOD_HOST_DEVICE std::int64_t class_of(std::int64_t state) const {
    if (state % 2 == 0) return blank;
    const std::int64_t label = labels[state / 2];
    return label == blank ? -1 : label;
  }
  /// Whether there are frames enough to spell the labels, and no label is the blank.
  LOD_HOST_DEVICE bool can_be_spelled() const {
    std::int64_t needed = label_count;
    for (std::int64_t i = 0; i < label_count; ++i) {
      if (labels[i] == blank) return false;
      if (i > 0 && labels[i] == labels[i - 1]) ++needed;
    }
    return needed <= frames;
  }
  /// Whether a path may come from the state two before it.
  LOD_HOST_DEVICE bool skips_to(std::int64_t state) const {
    return state % 2 != 0 && state > 1 && labels[state / 2] != labels[state / 2 - 1];
  }
};

/// The states of a batch.
template <class T>
struct CtcBatch {
  const T* logits;
  Segments sequences;
  std::int64_t classes;
  const std::int64_t* labels;
  Segments label_sequences;
  std::int64_t blank;

  LOD_HOST_DEVICE CtcStates<T> operator[](std::int64_t i) const {
    return {logits + sequences.begin(i) * classes, sequences.length(i),       classes,
            labels + label_sequences.begin(i),     label_sequences.length(i), blank};
  }
  /// The greatest number of states of a sequence.
  std::int64_t most_states() const noexcept {
    return lod::detail::saturated_sum(lod::detail::saturated_product(2, label_sequences.max_rows), 1);
  }
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET
