// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup row_sparse
/// Embeddings: rows of a table looked up by ids, and the row-sparse gradient of the table.
#pragma once

#include <lod/core/selected_rows.hpp>
#include <lod/core/target.hpp>
#include <lod/ops/checked_ids.hpp>
#include <lod/ops/declaration.hpp>
#include <lod/ops/infer.hpp>
#include <lod/ops/kernel.hpp>
#include <lod/ops/output.hpp>
#include <lod/ops/row_places.hpp>
#include <lod/ops/run_copy.hpp>
#include <lod/ops/supports.hpp>

#include <algorithm>
#include <cstdint>
#include <span>

namespace lod::inline LOD_INTERFACE::op {
struct embedding : elements::Any {
  static constexpr Text text{"table, ids", "Rows of a table by their ids; zeros for `padding_idx`."};
};
struct embedding_grad : elements::Any {
  static constexpr Text text{"dy, ids, height", "The gradient of `embedding` for a table of so many rows."};
};
}  // namespace lod::inline LOD_INTERFACE::op

namespace lod::inline LOD_INTERFACE {

/// The options of `embedding` and `embedding_grad`.
struct EmbeddingOptions {
  std::int64_t padding_idx = -1;  ///< the padding id, of a row of the table: it is zero and gets no gradient; -1: none
  bool skip_minus_one = false;    ///< whether the id -1 is padding too; otherwise it is an error
};

}  // namespace lod::inline LOD_INTERFACE

namespace lod::inline LOD_INTERFACE::kernel {
/// y[i] = x[ids[i]] for i in [0, count), rows of row_size elements; zero if ids[i] is `skipped` and, on a GPU, if it is
/// negative.
struct GatherRows {};
}  // namespace lod::inline LOD_INTERFACE::kernel

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {

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

template <>
struct Declared<op::embedding> : Takes<Tensor, Ids>,
                                 With<EmbeddingOptions>,
                                 Launches<kernel::GatherRows>,
                                 LaunchesOnIds<kernel::CheckIds, kernel::WidenIds, kernel::AreIds> {
  static constexpr const char* name = "embedding";
  using Gradient = op::embedding_grad;
  template <Executor E, class T>
  static void run(const E& executor, const Input<E, T>& table, const IdsInput<E>& ids, const EmbeddingOptions& options,
                  const To<E, T>& y) {
    const kernel::PaddingIds padding{options.padding_idx, options.skip_minus_one};
    const CheckedIds<E> checked(executor, ids, table.rows(), name, padding);
    const std::int64_t count = ids.rows() * ids.row_size();
    const std::int64_t* found = checked.data();
    // Kernels skip a single id: if there are two padding ids, the other is replaced by it. On a GPU both are -1
    // already.
    const bool two = on_cpu<E> && padding.minus_one && padding.id >= 0;
    const Workspace::Loan<std::int64_t> one_padding(executor.workspace(), two ? count : 0);
    const auto out =
        prepare(executor, name, y, SameLevels{ids.lod_view()},
                looked_up_shape(ids.row_shape(), table.row_shape(), name), {{"table", table}, {"ids", ids}});
    if (two) {
      std::replace_copy(found, found + count, one_padding.data(), padding.id, std::int64_t{-1});
      found = one_padding.data();
    }
    launch(kernel::GatherRows(), executor, table.data(), found, count, table.row_size(),
           padding.minus_one ? std::int64_t{-1} : padding.id, out.data());
  }
};

template <>
struct Declared<op::embedding_grad>
    : Takes<Tensor, Ids, std::int64_t>, With<EmbeddingOptions>, Gives<Of<SelectedRows>> {
  static constexpr const char* name = "embedding_grad";
  template <Executor E, class T>
  static void run(const E& executor, const Input<E, T>& dy, const IdsInput<E>& ids, std::int64_t height,
                  const EmbeddingOptions& options, SelectedRows<T, typename E::device>& dtable) {
    check_row_count(dy.rows(), ids.rows(), {name, "dy"});
    const std::size_t rank = ids.row_shape().size();
    const Shape row_shape = dy.row_shape().without_first(rank);
    check_row_shape(dy.row_shape(), ids.row_shape().followed_by(row_shape), {name, "dy"});
    const std::int64_t count = ids.rows() * ids.row_size();
    const kernel::PaddingIds padding{options.padding_idx, options.skip_minus_one};
    const CheckedIds<E> checked(executor, ids, height, name, padding);
    if constexpr (on_cpu<E>) {
      const Workspace::Loan<std::int64_t> kept(executor.workspace(), count);       // the ids
      const Workspace::Loan<std::int64_t> positions(executor.workspace(), count);  // and their positions
      std::int64_t size = 0;
      for (std::int64_t i = 0; i < count; ++i) {
        if (padding.contains(ids.data()[i])) continue;
        kept[size] = ids.data()[i];
        positions[size++] = i;
      }
      RowsOutput<E, T> out(executor, name, dtable, std::span(kept.data(), static_cast<std::size_t>(size)), height,
                           row_shape, {{"dy", dy}, {"ids", ids}});
      launch(kernel::GatherRows(), executor, dy.data(), positions.data(), size, row_shape.elements(), std::int64_t{-1},
             out.data());
    } else {
      RowsOutput<E, T> out(executor, name, dtable, count, height, row_shape, {{"dy", dy}, {"ids", ids}});
      launch(kernel::CopyValues(), executor, checked.data(), count, out.ids());
      launch(kernel::CopyValues(), executor, dy.data(), count * row_shape.elements(), out.data());
    }
  }
};

}  // namespace operation

/// y[i] = table[ids[i]]: the LoD of the ids, rows of the shape {ids' row shape..., table's row shape...}. The row of
/// `padding_idx` is zero, whatever the table holds there, and so is that of an id -1 with `skip_minus_one`. Throws
/// OutOfRange for any other id outside [0, table.rows()), with nothing changed; on a GPU its row is zero, and the next
/// call that waits for the executor throws. One pass. The output must not overlap the table or the ids. Semantics:
/// PaddlePaddle's lookup_table.
///
/// Ids are of type std::int64_t or std::int32_t, in the other operations on embeddings too, in `sequence_scatter` and
/// `grouped_linear`, and so are the labels of losses. Kernels read 64 bits: those of 32 are widened as they are
/// checked, in scratch memory of 8 bytes an id.
inline constexpr operation::Call<op::embedding> embedding{};
inline constexpr operation::CallInto<op::embedding> embedding_into{};

/// The gradient of `embedding` for its table of `height` rows: row dy[i] for ids[i], in the order of the ids. Repeated
/// ids are not added up (`merge_add` does that). Padding ids are left out; on a GPU they keep their places, which then
/// name no row. Throws ShapeMismatch unless dy has as many rows as the ids, of a shape that begins with theirs;
/// OutOfRange for any other id outside [0, height).
inline constexpr operation::Call<op::embedding_grad> embedding_grad{};
inline constexpr operation::CallInto<op::embedding_grad> embedding_grad_into{};

/// The result of `embedding`, described: see <lod/infer.hpp>.
inline LoDTensorDesc infer_embedding(const LoDTensorDesc& table, const LoDTensorDesc& ids,
                                     const EmbeddingOptions& = {}) {
  const infer::Batch rows(table, "embedding: table");
  infer::Batch y(ids, "embedding: ids");
  infer::check_ids(y.type, "embedding: ids");
  y.type = rows.type;
  y.row_shape.insert(y.row_shape.end(), rows.row_shape.begin(), rows.row_shape.end());
  return y;
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET
