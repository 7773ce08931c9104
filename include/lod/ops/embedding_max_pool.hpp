// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup row_sparse
/// Maxima and minima of embeddings, pooled as they are looked up, with the rows that won.
#pragma once

#include <lod/core/scalar.hpp>
#include <lod/core/selected_rows.hpp>
#include <lod/core/target.hpp>
#include <lod/ops/checked_ids.hpp>
#include <lod/ops/declaration.hpp>
#include <lod/ops/embedding.hpp>
#include <lod/ops/embedding_pool.hpp>
#include <lod/ops/infer.hpp>
#include <lod/ops/kernel.hpp>
#include <lod/ops/looked_up_rows.hpp>
#include <lod/ops/output.hpp>
#include <lod/ops/row_index.hpp>
#include <lod/ops/sequence_pool.hpp>
#include <lod/ops/supports.hpp>

#include <cstdint>

namespace lod::inline LOD_INTERFACE::op {
struct embedding_max_pool : elements::Arithmetic {
  static constexpr Text text{
      "table, ids", "The greatest numbers of the table's rows that each sequence names, and the rows that have them."};
};
struct embedding_max_pool_grad : elements::Arithmetic {
  static constexpr Text text{"dy, index, ids, height"};
};
struct embedding_min_pool : elements::Arithmetic {
  static constexpr Text text{
      "table, ids", "The least numbers of the table's rows that each sequence names, and the rows that have them."};
};
struct embedding_min_pool_grad : elements::Arithmetic {
  static constexpr Text text{"dy, index, ids, height"};
};
}  // namespace lod::inline LOD_INTERFACE::op

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {

namespace operation {

template <class Op, bool minimum>
struct EmbeddingExtremePool : Takes<Tensor, Ids>,
                              WithTyped<EmbeddingPoolOptions>,
                              GivesAll<MaxPool, Tensor, TensorOf<std::int64_t>>,
                              Launches<kernel::EmbeddingMaxPool> {
  template <Executor E, class T>
  static void run(const E& executor, const Input<E, T>& table, const IdsInput<E>& ids,
                  const EmbeddingPoolOptions<T, typename E::device>& options, const To<E, T>& values,
                  const To<E, std::int64_t>& index) {
    const char* const name = Declared<Op>::name;
    const kernel::Segments sequences = check_embedding_pool(executor, ids, options, name);
    const LookedUp<E, T> looked_up(executor, table, ids, sequences, options, name, {.rows = true});
    const int level = detail::resolve_level(options.level, ids.levels(), name);
    const T pad_value = detail::checked<T>(options.pad_value, name, "pad_value");
    const Shape row_shape = looked_up_shape(ids.row_shape(), table.row_shape(), name);
    const LevelsAbove above{ids.lod_view(), level};
    check_row_index(options.row_index, name);
    const IndexLevels<LevelsAbove> of_index{above, options.row_index};
    const OtherMemory weights("weights", options.weights);
    const auto out =
        prepare(executor, {name, "values"}, values, above, row_shape, {{"table", table}, {"ids", ids}, weights});
    const auto winners = prepare(executor, {name, "index"}, index, of_index, row_shape,
                                 {{"table", table}, {"ids", ids}, weights, {"values", values}});
    launch(kernel::EmbeddingMaxPool(), executor, looked_up.rows(), looked_up.kept().sequences(), minimum, pad_value,
           out.data(), winners.data());
    const bool leaves_out = looked_up.kept().leaves_out(), by_sequence = options.row_index == RowIndex::SEQUENCE;
    if (leaves_out || by_sequence) {
      renumber(executor, winners.data(), {{}, table.row_size()}, sequences,
               leaves_out ? looked_up.kept().rows() : nullptr,
               by_sequence ? kernel::Renumbering::TO_SEQUENCE : kernel::Renumbering::KEEP, winners.data());
    }
  }
};
template <>
struct Declared<op::embedding_max_pool> : EmbeddingExtremePool<op::embedding_max_pool, false> {
  static constexpr const char* name = "embedding_max_pool";
  using Gradient = op::embedding_max_pool_grad;
};
template <>
struct Declared<op::embedding_min_pool> : EmbeddingExtremePool<op::embedding_min_pool, true> {
  static constexpr const char* name = "embedding_min_pool";
  using Gradient = op::embedding_min_pool_grad;
};

template <class Op>
struct EmbeddingExtremePoolGrad : Takes<Tensor, TensorOf<std::int64_t>, Ids, std::int64_t>,
                                  WithTyped<EmbeddingPoolOptions>,
                                  Gives<Of<SelectedRows>> {
  template <Executor E, class T>
  static void run(const E& executor, const Input<E, T>& dy, const Input<E, std::int64_t>& index, const IdsInput<E>& ids,
                  std::int64_t height, const EmbeddingPoolOptions<T, typename E::device>& options,
                  SelectedRows<T, typename E::device>& dtable) {
    const char* const name = Declared<Op>::name;
    const kernel::Segments sequences = check_embedding_pool(executor, ids, options, name);
    const Shape row_shape = check_pooled_grad(dy, ids, sequences, {name, "dy"});
    check_row_count(index.rows(), sequences.size, {name, "index"});
    check_row_shape(index.row_shape(), dy.row_shape(), {name, "index"});
    check_row_index(options.row_index, name);
    const RowsOfBatch<E> rows(executor, index.data(), index.rows() * index.row_size(), options.row_index,
                              {{}, index.row_size()}, sequences);
    looked_up_grad_into(executor, name, dy, rows.data(), ids, height, PoolType::MAX, options, sequences, row_shape,
                        dtable);
  }
};
template <>
struct Declared<op::embedding_max_pool_grad> : EmbeddingExtremePoolGrad<op::embedding_max_pool_grad> {
  static constexpr const char* name = "embedding_max_pool_grad";
};
template <>
struct Declared<op::embedding_min_pool_grad> : EmbeddingExtremePoolGrad<op::embedding_min_pool_grad> {
  static constexpr const char* name = "embedding_min_pool_grad";
};

}  // namespace operation

/// `embedding_pool` with MAX, and for each element the number of the row of ids that won, the first of equal ones; -1
/// for a sequence that is empty, or only padding. `row_index` says where rows are counted from.
inline constexpr operation::Call<op::embedding_max_pool> embedding_max_pool{};
inline constexpr operation::CallInto<op::embedding_max_pool> embedding_max_pool_into{};

/// `embedding_pool` with MIN, and which row won.
inline constexpr operation::Call<op::embedding_min_pool> embedding_min_pool{};
inline constexpr operation::CallInto<op::embedding_min_pool> embedding_min_pool_into{};

/// The gradient of `embedding_max_pool`: like that of `embedding_pool`, but a row gets dy only in the columns that it
/// won. Ids that won nothing have rows of zeros. Also throws ShapeMismatch if the index does not fit; a number in it
/// that is not a row of its sequence means that there is no winner.
inline constexpr operation::Call<op::embedding_max_pool_grad> embedding_max_pool_grad{};
inline constexpr operation::CallInto<op::embedding_max_pool_grad> embedding_max_pool_grad_into{};

/// The gradient of `embedding_min_pool`: the same as that of `embedding_max_pool`, since only the index matters.
inline constexpr operation::Call<op::embedding_min_pool_grad> embedding_min_pool_grad{};
inline constexpr operation::CallInto<op::embedding_min_pool_grad> embedding_min_pool_grad_into{};

/// The results of `embedding_max_pool` and `embedding_min_pool`, described: see <lod/infer.hpp>.
inline MaxPoolDesc infer_embedding_max_pool(const LoDTensorDesc& table, const LoDTensorDesc& ids,
                                            const EmbeddingPoolDescOptions& options = {}) {
  const infer::Batch values =
      operation::infer_embedding_pool<op::embedding_max_pool>(table, ids, options, "embedding_max_pool");
  return {values, operation::infer_index(values, options.row_index, "embedding_max_pool")};
}
inline MaxPoolDesc infer_embedding_min_pool(const LoDTensorDesc& table, const LoDTensorDesc& ids,
                                            const EmbeddingPoolDescOptions& options = {}) {
  const infer::Batch values =
      operation::infer_embedding_pool<op::embedding_min_pool>(table, ids, options, "embedding_min_pool");
  return {values, operation::infer_index(values, options.row_index, "embedding_min_pool")};
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET
