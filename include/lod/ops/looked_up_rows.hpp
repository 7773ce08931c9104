// SPDX-License-Identifier: Apache-2.0
/// @file
/// Rows of a table that are pooled as they are looked up, and the kernels that do so.
#pragma once

#include <lod/core/target.hpp>
#include <lod/ops/kernel.hpp>

#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel {

/// Looked-up rows: row k is weights[k] * table[ids[k]], without the factor if `weights` is null. The row of a negative
/// id, which may occur on a GPU, is zero.
template <class T>
struct LookUp {
  const T* table;
  const std::int64_t* ids;
  const T* weights;
  std::int64_t row_size;
  std::int64_t height;  ///< rows of the table
};

/// The gradients of looked-up rows. Number j is that of row k = occurrences[j], which is in sequence[j]: weights[k] *
/// dy[sequence[j]], without the factor if `weights` is null; if `winners` is not null, it is 0 in the columns c with
/// winners[sequence[j]][c] != k.
template <class T>
struct LookUpGrad {
  const T* dy;
  const std::int64_t* occurrences;
  const std::int64_t* sequence;
  const T* weights;
  const std::int64_t* winners;
  std::int64_t row_size;
};

/// run(executor, rows, sequences, type, pad_value, y)
struct EmbeddingPool {};
/// run(executor, rows, sequences, minimum, pad_value, y, index)
struct EmbeddingMaxPool {};
/// Moves the ids that are not padding together, in two steps. `scratch`, kept_scratch(rows) numbers, tells the second
/// step where they go.
///
/// run(executor, ids, sequences, padding_idx, minus_one, scratch, offsets): sets offsets[i] to the number of ids before
/// sequence i that are not padding, for i in [0, sequences.size].
struct CountKept {};
/// run(executor, ids, sequences, scratch, kept, rows, places): kept[j] is the j-th id that is not padding and rows[j]
/// its position among all; on a GPU both are -1 for each j beyond the last. places[k] = j for id k, -1 if it is
/// padding. rows and places may be null.
struct KeepIds {};
LOD_TAGGED constexpr std::int64_t kept_scratch(std::int64_t rows) noexcept { return rows + 4; }
/// On a GPU. run(executor, ids, rows, sequences, type, height, listed, order, occurrences, sequence, fault): for each
/// id k, listed[k] is the id itself if it has a gradient, otherwise `height`; order[k] = k, occurrences[k] = rows[k],
/// or k if `rows` is null, sequence[k] is its sequence. An id in a sequence that is outside [0, height) has no
/// gradient, and *fault becomes the position of one such id. An id outside all sequences has no gradient either.
struct ListLookUps {};
/// run(executor, rows, order, groups, y): y[g] = the sum of gradients order[i] for i in group g.
struct SumLookUpGrads {};
/// run(executor, rows, dy, winners, sequences, type, dweights): dweights[k] = the dot product of table[ids[k]] and the
/// gradient of row k.
struct LookUpWeightsGrad {};

}  // namespace lod::inline LOD_INTERFACE::kernel
