// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup row_sparse
/// Embeddings: rows of a table looked up by ids, and the row-sparse gradient of the table.
#pragma once

#include <lod/infer.hpp>
#include <lod/kernel.hpp>
#include <lod/ops/checked_ids.hpp>
#include <lod/ops/row_places.hpp>
#include <lod/ops/run_copy.hpp>
#include <lod/output.hpp>
#include <lod/selected_rows.hpp>
#include <lod/supports.hpp>
#include <lod/target.hpp>

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <span>

namespace lod::inline LOD_INTERFACE::op {
struct embedding : elements::Any {};
struct embedding_grad : elements::Any {};
}  // namespace lod::inline LOD_INTERFACE::op

namespace lod::inline LOD_INTERFACE {

/// The options of `embedding` and `embedding_grad`.
struct EmbeddingOptions {
  std::int64_t padding_idx = -1;  ///< the padding id: its row is zero and gets no gradient; -1: none
  bool skip_minus_one = false;    ///< whether the id -1 is padding too; otherwise it is an error
};

}  // namespace lod::inline LOD_INTERFACE

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {

namespace kernel {
/// y[i] = x[ids[i]] for i in [0, count), rows of row_size elements; zero if ids[i] is `skipped` and, on a GPU, if it is
/// negative.
template <class Executor>
struct GatherRows : Missing<Executor> {};
}  // namespace kernel

namespace operation {

/// The row shape of the ids followed by that of the table. Throws ShapeMismatch if that is not a valid shape.
inline Shape looked_up_shape(const Shape& ids, const Shape& table, const char* what) {
  try {
    return ids.followed_by(table);
  } catch (const ShapeMismatch& error) {
    throw ShapeMismatch(detail::text({what, ": ids of row shape ", to_string(ids), ", a table of row shape ",
                                      to_string(table), ": ", error.what()}));
  }
}

}  // namespace operation

/// y[i] = table[ids[i]]: the LoD of the ids, rows of the shape {ids' row shape..., table's row shape...}. The row of
/// `padding_idx` is zero, whatever the table holds there, and so is that of an id -1 with `skip_minus_one`. Throws
/// OutOfRange for any other id outside [0, table.rows()), with nothing changed; on a GPU its row is zero, and whatever
/// waits for the executor next throws. One pass. The output must not overlap the table or the ids. Semantics:
/// PaddlePaddle's lookup_table.
template <Executor E, LoDTensorLike Table, LoDTensorLike Ids, class Y>
void embedding_into(const E& executor, const Table& table, const Ids& ids, const EmbeddingOptions& options, Y&& y) {
  static_assert(std::same_as<value_type_t<Ids>, std::int64_t>, "embedding: ids are int64");
  const auto rows = table.view();
  const auto list = ids.view();
  const kernel::PaddingIds padding{options.padding_idx, options.skip_minus_one};
  const operation::CheckedIds<E> checked(executor, list.values(), rows.rows(), "embedding", padding);
  const std::int64_t count = list.rows() * list.row_size();
  const std::int64_t* found = checked.data();
  // Kernels skip one id: if there are two, the other is replaced by that one. On a GPU all are -1 already.
  const bool two = operation::on_cpu<E> && padding.minus_one && padding.id >= 0;
  const Workspace::Loan<std::int64_t> one_padding(executor.workspace(), two ? count : 0);
  const auto out = operation::prepare<value_type_t<Table>>(
      executor, "embedding", y, operation::SameLevels{list.lod_view()},
      operation::looked_up_shape(list.row_shape(), rows.row_shape(), "embedding"), {{"table", rows}, {"ids", list}});
  if (two) {
    std::replace_copy(found, found + count, one_padding.data(), padding.id, std::int64_t{-1});
    found = one_padding.data();
  }
  kernel::GatherRows<E>::run(executor, rows.data(), found, count, rows.row_size(),
                             padding.minus_one ? std::int64_t{-1} : padding.id, out.data());
}
template <Executor E, LoDTensorLike Table, LoDTensorLike Ids, class Y>
  requires(!std::same_as<std::remove_cvref_t<Y>, EmbeddingOptions>)
void embedding_into(const E& executor, const Table& table, const Ids& ids, Y&& y) {
  embedding_into(executor, table, ids, EmbeddingOptions{}, y);
}
template <Executor E, LoDTensorLike Table, LoDTensorLike Ids>
[[nodiscard]] LoDTensor<value_type_t<Table>, device_t<Table>> embedding(const E& executor, const Table& table,
                                                                        const Ids& ids,
                                                                        const EmbeddingOptions& options = {}) {
  LoDTensor<value_type_t<Table>, device_t<Table>> y(executor.resource());
  embedding_into(executor, table, ids, options, y);
  return y;
}
template <LoDTensorLike Table, LoDTensorLike Ids>
[[nodiscard]] auto embedding(const Table& table, const Ids& ids, const EmbeddingOptions& options = {}) {
  return embedding(default_executor<device_t<Table>>(), table, ids, options);
}

/// The gradient of `embedding` for its table of `height` rows: row dy[i] for ids[i], in the order of the ids, without
/// adding up repeated ids (`merge_add` does that). Padding ids are left out; on a GPU they keep a place, which names no
/// row. Throws ShapeMismatch unless dy has as many rows as the ids, of a shape that begins with theirs; OutOfRange for
/// any other id outside [0, height).
template <Executor E, LoDTensorLike X, LoDTensorLike Ids>
void embedding_grad_into(const E& executor, const X& dy, const Ids& ids, std::int64_t height,
                         const EmbeddingOptions& options, SelectedRows<value_type_t<X>, device_t<X>>& dtable) {
  static_assert(std::same_as<value_type_t<Ids>, std::int64_t>, "embedding_grad: ids are int64");
  using T = value_type_t<X>;
  const auto view = dy.view();
  const auto list = ids.view();
  operation::check_row_count(view.rows(), list.rows(), "embedding_grad: dy");
  const std::size_t rank = list.row_shape().size();
  const Shape row_shape = view.row_shape().without_first(rank);
  operation::check_row_shape(view.row_shape(), list.row_shape().followed_by(row_shape), "embedding_grad: dy");
  const std::int64_t count = list.rows() * list.row_size();
  const kernel::PaddingIds padding{options.padding_idx, options.skip_minus_one};
  const operation::CheckedIds<E> checked(executor, list.values(), height, "embedding_grad", padding);
  if constexpr (operation::on_cpu<E>) {
    const Workspace::Loan<std::int64_t> kept(executor.workspace(), count);       // the ids
    const Workspace::Loan<std::int64_t> positions(executor.workspace(), count);  // and their positions
    std::int64_t size = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      if (padding.contains(list.data()[i])) continue;
      kept[size] = list.data()[i];
      positions[size++] = i;
    }
    operation::RowsOutput<E, T> out(executor, "embedding_grad", dtable,
                                    std::span(kept.data(), static_cast<std::size_t>(size)), height, row_shape,
                                    {{"dy", view}, {"ids", list}});
    kernel::GatherRows<E>::run(executor, view.data(), positions.data(), size, row_shape.elements(), std::int64_t{-1},
                               out.data());
  } else {
    operation::RowsOutput<E, T> out(executor, "embedding_grad", dtable, count, height, row_shape,
                                    {{"dy", view}, {"ids", list}});
    kernel::CopyValues<E>::run(executor, checked.data(), count, out.ids());
    kernel::CopyValues<E>::run(executor, view.data(), count * row_shape.elements(), out.data());
  }
}
template <Executor E, LoDTensorLike X, LoDTensorLike Ids>
void embedding_grad_into(const E& executor, const X& dy, const Ids& ids, std::int64_t height,
                         SelectedRows<value_type_t<X>, device_t<X>>& dtable) {
  embedding_grad_into(executor, dy, ids, height, EmbeddingOptions{}, dtable);
}
template <Executor E, LoDTensorLike X, LoDTensorLike Ids>
[[nodiscard]] SelectedRows<value_type_t<X>, device_t<X>> embedding_grad(const E& executor, const X& dy, const Ids& ids,
                                                                        std::int64_t height,
                                                                        const EmbeddingOptions& options = {}) {
  SelectedRows<value_type_t<X>, device_t<X>> dtable(executor.resource());
  embedding_grad_into(executor, dy, ids, height, options, dtable);
  return dtable;
}
template <LoDTensorLike X, LoDTensorLike Ids>
[[nodiscard]] auto embedding_grad(const X& dy, const Ids& ids, std::int64_t height,
                                  const EmbeddingOptions& options = {}) {
  return embedding_grad(default_executor<device_t<X>>(), dy, ids, height, options);
}

/// The result of `embedding`, described: see <lod/infer.hpp>.
inline LoDTensorDesc infer_embedding(const LoDTensorDesc& table, const LoDTensorDesc& ids,
                                     const EmbeddingOptions& = {}) {
  const infer::Batch rows(table, "embedding: table");
  infer::Batch y(ids, "embedding: ids");
  infer::check_type(y.type, DataType::INT64, "embedding: ids");
  y.type = rows.type;
  y.row_shape.insert(y.row_shape.end(), rows.row_shape.begin(), rows.row_shape.end());
  return y;
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET
