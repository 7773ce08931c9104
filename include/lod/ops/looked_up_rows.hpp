// SPDX-License-Identifier: Apache-2.0
/// @file
/// Rows of a table that are pooled where they are looked up, and the kernels that do it.
#pragma once

#include <lod/kernel.hpp>
#include <lod/target.hpp>

#include <cstdint>

namespace lod::inline LOD_TARGET {

namespace kernel {

/// Rows looked up: row k is weights[k] * table[ids[k]], where `weights` is not null; zero in place of table[skipped]
/// and where the id is negative.
template <class T>
struct LookUp {
  const T* table;
  const std::int64_t* ids;
  const T* weights;
  std::int64_t row_size;
  std::int64_t skipped;
  std::int64_t height;  ///< rows of the table
};

/// The gradients of rows that were looked up. Number j is that of row k = occurrences[j], which is in sequence[j]:
/// weights[k] * dy[sequence[j]], where `weights` is not null; where `winners` is not null, it is 0 in the columns c
/// with winners[sequence[j]][c] != k.
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
template <class Executor>
struct EmbeddingPool : Missing<Executor> {};
/// run(executor, rows, sequences, minimum, pad_value, y, index)
template <class Executor>
struct EmbeddingMaxPool : Missing<Executor> {};
/// On a GPU. run(executor, ids, sequences, type, height, skipped, listed, order, occurrences, sequence, fault): for
/// each id k, listed[k] is itself where it has a gradient, else `height`; order[k] = occurrences[k] = k, sequence[k] is
/// its sequence. `skipped` has none, nor what is not in [0, height): *fault is then one such position.
template <class Executor>
struct ListLookUps : Missing<Executor> {};
/// run(executor, rows, order, groups, y): y[g] = the sum of the gradients number order[i], i in group g.
template <class Executor>
struct SumLookUpGrads : Missing<Executor> {};
/// run(executor, rows, dy, winners, sequences, type, dweights): dweights[k] = the scalar product of table[ids[k]] and
/// the gradient of row k.
template <class Executor>
struct LookUpWeightsGrad : Missing<Executor> {};

}  // namespace kernel

}  // namespace lod::inline LOD_TARGET
