// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup row_sparse
/// Maxima and minima of embeddings, pooled as they are looked up, and which rows won.
#pragma once

#include <lod/infer.hpp>
#include <lod/kernel.hpp>
#include <lod/ops/checked_ids.hpp>
#include <lod/ops/embedding.hpp>
#include <lod/ops/embedding_pool.hpp>
#include <lod/ops/looked_up_rows.hpp>
#include <lod/ops/row_index.hpp>
#include <lod/ops/sequence_pool.hpp>
#include <lod/output.hpp>
#include <lod/scalar.hpp>
#include <lod/selected_rows.hpp>
#include <lod/supports.hpp>
#include <lod/target.hpp>

#include <concepts>
#include <cstdint>
#include <type_traits>

namespace lod::inline LOD_INTERFACE::op {
struct embedding_max_pool : elements::Arithmetic {};
struct embedding_max_pool_grad : elements::Arithmetic {};
struct embedding_min_pool : elements::Arithmetic {};
struct embedding_min_pool_grad : elements::Arithmetic {};
}  // namespace lod::inline LOD_INTERFACE::op

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {

namespace operation {

template <Executor E, LoDTensorLike Table, LoDTensorLike Ids, class T, class Device, class Y, class Index>
void embedding_extreme_pool_into(const E& executor, const Table& table, const Ids& ids, bool minimum,
                                 const EmbeddingPoolOptions<T, Device>& options, Y&& values, Index&& index) {
  const char* const what = minimum ? "embedding_min_pool" : "embedding_max_pool";
  const auto rows = table.view();
  const auto list = ids.view();
  const kernel::Segments sequences = check_embedding_pool(executor, list, options, what);
  const LookedUp<E, T> looked_up(executor, rows, list, sequences, options, what, {.rows = true});
  const int level = detail::resolve_level(options.level, list.levels(), what);
  const T pad_value = detail::checked<T>(options.pad_value, what, "pad_value");
  const Shape row_shape = looked_up_shape(list.row_shape(), rows.row_shape(), what);
  const LevelsAbove above{list.lod_view(), level};
  check_row_index(options.row_index, what);
  const IndexLevels<LevelsAbove> of_index{above, options.row_index};
  const OtherMemory weights("weights", options.weights);
  const auto out =
      prepare<T>(executor, {what, "values"}, values, above, row_shape, {{"table", rows}, {"ids", list}, weights});
  const auto winners = prepare<std::int64_t>(executor, {what, "index"}, index, of_index, row_shape,
                                             {{"table", rows}, {"ids", list}, weights, {"values", values}});
  kernel::EmbeddingMaxPool<E>::run(executor, looked_up.rows(), looked_up.kept().sequences(), minimum, pad_value,
                                   out.data(), winners.data());
  const bool leaves_out = looked_up.kept().leaves_out(), by_sequence = options.row_index == RowIndex::SEQUENCE;
  if (leaves_out || by_sequence) {
    renumber(executor, winners.data(), {{}, rows.row_size()}, sequences, leaves_out ? looked_up.kept().rows() : nullptr,
             by_sequence ? kernel::Renumbering::TO_SEQUENCE : kernel::Renumbering::KEEP, winners.data());
  }
}

template <bool minimum, Executor E, LoDTensorLike X, LoDTensorLike Index, LoDTensorLike Ids>
void embedding_extreme_pool_grad_into(const E& executor, const X& dy, const Index& index, const Ids& ids,
                                      std::int64_t height,
                                      const EmbeddingPoolOptions<value_type_t<X>, device_t<X>>& options,
                                      SelectedRows<value_type_t<X>, device_t<X>>& dtable) {
  detail::check_elements<std::conditional_t<minimum, op::embedding_min_pool_grad, op::embedding_max_pool_grad>,
                         value_type_t<X>>();
  static_assert(std::same_as<value_type_t<Index>, std::int64_t>,
                "embedding_max_pool_grad, embedding_min_pool_grad: the index is int64");
  constexpr const char* what = minimum ? "embedding_min_pool_grad" : "embedding_max_pool_grad";
  constexpr const char* of_dy = minimum ? "embedding_min_pool_grad: dy" : "embedding_max_pool_grad: dy";
  constexpr const char* of_index = minimum ? "embedding_min_pool_grad: index" : "embedding_max_pool_grad: index";
  const auto view = dy.view();
  const auto winners = index.view();
  const auto list = ids.view();
  const kernel::Segments sequences = check_embedding_pool(executor, list, options, what);
  const Shape row_shape = check_pooled_grad(view, list, sequences, of_dy);
  check_row_count(winners.rows(), sequences.size, of_index);
  check_row_shape(winners.row_shape(), view.row_shape(), of_index);
  check_row_index(options.row_index, what);
  const RowsOfBatch<E> rows(executor, winners.data(), winners.rows() * winners.row_size(), options.row_index,
                            {{}, winners.row_size()}, sequences);
  embedding_pool_grad_into(executor, what, view, rows.data(), list, height, PoolType::MAX, options, sequences,
                           row_shape, dtable);
}

}  // namespace operation

/// `embedding_pool` with MAX, and for each element the row of the ids that won, counted from their first: of equal ones
/// the first; -1 for a sequence that is empty, or only padding. `row_index` says where rows are counted from.
template <Executor E, LoDTensorLike Table, LoDTensorLike Ids, class Y, class Index>
void embedding_max_pool_into(const E& executor, const Table& table, const Ids& ids,
                             const EmbeddingPoolOptions<value_type_t<Table>, device_t<Table>>& options, Y&& values,
                             Index&& index) {
  detail::check_elements<op::embedding_max_pool, value_type_t<Table>>();
  operation::embedding_extreme_pool_into(executor, table, ids, false, options, values, index);
}
template <Executor E, LoDTensorLike Table, LoDTensorLike Ids, class Y, class Index>
void embedding_max_pool_into(const E& executor, const Table& table, const Ids& ids, Y&& values, Index&& index) {
  embedding_max_pool_into(executor, table, ids, {}, values, index);
}
template <Executor E, LoDTensorLike Table, LoDTensorLike Ids>
[[nodiscard]] MaxPool<value_type_t<Table>, device_t<Table>> embedding_max_pool(
    const E& executor, const Table& table, const Ids& ids,
    const EmbeddingPoolOptions<value_type_t<Table>, device_t<Table>>& options = {}) {
  MaxPool<value_type_t<Table>, device_t<Table>> y{LoDTensor<value_type_t<Table>, device_t<Table>>(executor.resource()),
                                                  LoDTensor<std::int64_t, device_t<Table>>(executor.resource())};
  embedding_max_pool_into(executor, table, ids, options, y.values, y.index);
  return y;
}
template <LoDTensorLike Table, LoDTensorLike Ids>
[[nodiscard]] auto embedding_max_pool(const Table& table, const Ids& ids,
                                      const EmbeddingPoolOptions<value_type_t<Table>, device_t<Table>>& options = {}) {
  return embedding_max_pool(default_executor<device_t<Table>>(), table, ids, options);
}

/// `embedding_pool` with MIN, and which row won.
template <Executor E, LoDTensorLike Table, LoDTensorLike Ids, class Y, class Index>
void embedding_min_pool_into(const E& executor, const Table& table, const Ids& ids,
                             const EmbeddingPoolOptions<value_type_t<Table>, device_t<Table>>& options, Y&& values,
                             Index&& index) {
  detail::check_elements<op::embedding_min_pool, value_type_t<Table>>();
  operation::embedding_extreme_pool_into(executor, table, ids, true, options, values, index);
}
template <Executor E, LoDTensorLike Table, LoDTensorLike Ids, class Y, class Index>
void embedding_min_pool_into(const E& executor, const Table& table, const Ids& ids, Y&& values, Index&& index) {
  embedding_min_pool_into(executor, table, ids, {}, values, index);
}
template <Executor E, LoDTensorLike Table, LoDTensorLike Ids>
[[nodiscard]] MaxPool<value_type_t<Table>, device_t<Table>> embedding_min_pool(
    const E& executor, const Table& table, const Ids& ids,
    const EmbeddingPoolOptions<value_type_t<Table>, device_t<Table>>& options = {}) {
  MaxPool<value_type_t<Table>, device_t<Table>> y{LoDTensor<value_type_t<Table>, device_t<Table>>(executor.resource()),
                                                  LoDTensor<std::int64_t, device_t<Table>>(executor.resource())};
  embedding_min_pool_into(executor, table, ids, options, y.values, y.index);
  return y;
}
template <LoDTensorLike Table, LoDTensorLike Ids>
[[nodiscard]] auto embedding_min_pool(const Table& table, const Ids& ids,
                                      const EmbeddingPoolOptions<value_type_t<Table>, device_t<Table>>& options = {}) {
  return embedding_min_pool(default_executor<device_t<Table>>(), table, ids, options);
}

/// The gradient of `embedding_max_pool`: like that of `embedding_pool`, but a row gets dy only in the columns that it
/// won. Ids that won nothing have rows of zeros. Also throws ShapeMismatch if the index does not fit; a number in it
/// that is not a row of its sequence means that there is no winner.
template <Executor E, LoDTensorLike X, LoDTensorLike Index, LoDTensorLike Ids>
void embedding_max_pool_grad_into(const E& executor, const X& dy, const Index& index, const Ids& ids,
                                  std::int64_t height,
                                  const EmbeddingPoolOptions<value_type_t<X>, device_t<X>>& options,
                                  SelectedRows<value_type_t<X>, device_t<X>>& dtable) {
  operation::embedding_extreme_pool_grad_into<false>(executor, dy, index, ids, height, options, dtable);
}
template <Executor E, LoDTensorLike X, LoDTensorLike Index, LoDTensorLike Ids>
void embedding_max_pool_grad_into(const E& executor, const X& dy, const Index& index, const Ids& ids,
                                  std::int64_t height, SelectedRows<value_type_t<X>, device_t<X>>& dtable) {
  embedding_max_pool_grad_into(executor, dy, index, ids, height, {}, dtable);
}
template <Executor E, LoDTensorLike X, LoDTensorLike Index, LoDTensorLike Ids>
[[nodiscard]] SelectedRows<value_type_t<X>, device_t<X>> embedding_max_pool_grad(
    const E& executor, const X& dy, const Index& index, const Ids& ids, std::int64_t height,
    const EmbeddingPoolOptions<value_type_t<X>, device_t<X>>& options = {}) {
  SelectedRows<value_type_t<X>, device_t<X>> dtable(executor.resource());
  embedding_max_pool_grad_into(executor, dy, index, ids, height, options, dtable);
  return dtable;
}
template <LoDTensorLike X, LoDTensorLike Index, LoDTensorLike Ids>
[[nodiscard]] auto embedding_max_pool_grad(const X& dy, const Index& index, const Ids& ids, std::int64_t height,
                                           const EmbeddingPoolOptions<value_type_t<X>, device_t<X>>& options = {}) {
  return embedding_max_pool_grad(default_executor<device_t<X>>(), dy, index, ids, height, options);
}

/// The gradient of `embedding_min_pool`: the same as that of `embedding_max_pool`, since only the index matters.
template <Executor E, LoDTensorLike X, LoDTensorLike Index, LoDTensorLike Ids>
void embedding_min_pool_grad_into(const E& executor, const X& dy, const Index& index, const Ids& ids,
                                  std::int64_t height,
                                  const EmbeddingPoolOptions<value_type_t<X>, device_t<X>>& options,
                                  SelectedRows<value_type_t<X>, device_t<X>>& dtable) {
  operation::embedding_extreme_pool_grad_into<true>(executor, dy, index, ids, height, options, dtable);
}
template <Executor E, LoDTensorLike X, LoDTensorLike Index, LoDTensorLike Ids>
void embedding_min_pool_grad_into(const E& executor, const X& dy, const Index& index, const Ids& ids,
                                  std::int64_t height, SelectedRows<value_type_t<X>, device_t<X>>& dtable) {
  embedding_min_pool_grad_into(executor, dy, index, ids, height, {}, dtable);
}
template <Executor E, LoDTensorLike X, LoDTensorLike Index, LoDTensorLike Ids>
[[nodiscard]] auto embedding_min_pool_grad(const E& executor, const X& dy, const Index& index, const Ids& ids,
                                           std::int64_t height,
                                           const EmbeddingPoolOptions<value_type_t<X>, device_t<X>>& options = {}) {
  SelectedRows<value_type_t<X>, device_t<X>> dtable(executor.resource());
  embedding_min_pool_grad_into(executor, dy, index, ids, height, options, dtable);
  return dtable;
}
template <LoDTensorLike X, LoDTensorLike Index, LoDTensorLike Ids>
[[nodiscard]] auto embedding_min_pool_grad(const X& dy, const Index& index, const Ids& ids, std::int64_t height,
                                           const EmbeddingPoolOptions<value_type_t<X>, device_t<X>>& options = {}) {
  return embedding_min_pool_grad(default_executor<device_t<X>>(), dy, index, ids, height, options);
}

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
