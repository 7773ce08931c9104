// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup row_sparse
/// Embeddings pooled as they are looked up: the rows in between are never written.
#pragma once

#include <lod/core/error.hpp>
#include <lod/core/scalar.hpp>
#include <lod/core/selected_rows.hpp>
#include <lod/core/target.hpp>
#include <lod/ops/argument_list.hpp>
#include <lod/ops/checked_ids.hpp>
#include <lod/ops/declaration.hpp>
#include <lod/ops/embedding.hpp>
#include <lod/ops/infer.hpp>
#include <lod/ops/kernel.hpp>
#include <lod/ops/looked_up_rows.hpp>
#include <lod/ops/merge_rows.hpp>
#include <lod/ops/output.hpp>
#include <lod/ops/row_index.hpp>
#include <lod/ops/row_places.hpp>
#include <lod/ops/sequence_pool.hpp>
#include <lod/ops/staging.hpp>
#include <lod/ops/supports.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>

namespace lod::inline LOD_INTERFACE::op {
struct embedding_pool : elements::Arithmetic {
  static constexpr Text text{"table, ids, type", "`sequence_pool` of `embedding`, in one pass."};
};
struct embedding_pool_grad : elements::Arithmetic {
  static constexpr Text text{"dy, ids, height, type",
                             "The gradient of `embedding_pool` for its table, each row listed once."};
};
struct embedding_pool_weights_grad : elements::Arithmetic {
  static constexpr Text text{"dy, table, ids, type", "The gradient of `embedding_pool` for its weights."};
};
}  // namespace lod::inline LOD_INTERFACE::op

namespace lod::inline LOD_INTERFACE {

/// How rows are looked up and pooled.
template <class T, class Device = Cpu>
struct EmbeddingPoolOptions {
  /// A factor for each id's row; the levels are ignored. By default 1.
  OptionalTensor<T, Device> weights = nullptr;
  std::int64_t padding_idx = -1;         ///< the padding id, of a row of the table, which is left out; -1: none
  bool skip_minus_one = false;           ///< whether the id -1 is padding too; otherwise it is an error
  Scalar pad_value = 0;                  ///< every element of the row of a sequence that is empty, or only padding
  int level = -1;                        ///< the level of the ids whose sequences are pooled
  RowIndex row_index = RowIndex::BATCH;  ///< the origin of the winning row numbers of the ids
};

/// The options of `infer_embedding_pool`. Omitted weights are described as a tensor without dimensions.
struct EmbeddingPoolDescOptions {
  LoDTensorDesc weights = {};
  int level = -1;
  RowIndex row_index = RowIndex::BATCH;
};

}  // namespace lod::inline LOD_INTERFACE

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {

namespace operation {

/// The sequences that are pooled. Throws unless the options fit the ids.
template <Executor E, class Ids, class T, class Device>
kernel::Segments check_embedding_pool(const E& executor, const Ids& ids, const EmbeddingPoolOptions<T, Device>& options,
                                      const char* what) {
  check_has_level(ids, what);
  const int level = detail::resolve_level(options.level, ids.levels(), what);
  if (ids.row_size() != 1) {
    throw ShapeMismatch(
        detail::text({what, ": ids: rows of shape ", to_string(ids.row_shape()), ", expected one id a row"}));
  }
  if (options.weights && (options.weights->rows() != ids.rows() || options.weights->row_size() != 1)) {
    throw ShapeMismatch(detail::text({what, ": weights of shape ", to_string(options.weights->shape()), ", expected ",
                                      ids.rows(), " numbers, one for each id"}));
  }
  return segments(executor, ids, level);
}

/// The padding ids.
template <class T, class Device>
kernel::PaddingIds padding_of(const EmbeddingPoolOptions<T, Device>& options) noexcept {
  return {options.padding_idx, options.skip_minus_one};
}

/// What is needed about the ids that are not padding, besides the ids.
struct KeptIdsOptions {
  bool rows = false;    ///< their original positions
  bool places = false;  ///< the new position of each id
};
/// The sequences of ids without padding: the remaining ids are moved together, and sequences become shorter. If there
/// is no padding, they stay as they are; on a GPU that is not checked.
template <Executor E>
class KeptIds {
  using Numbers = kernel::Scratch<E, std::int64_t>;

 public:
  /// `ids` are the caller's, `values` are the ids for kernels; `sequences` is for kernels.
  KeptIds(const E& executor, const std::int64_t* ids, const std::int64_t* values, const kernel::Segments& sequences,
          const kernel::PaddingIds& padding, const KeptIdsOptions& options)
      : sequences_(sequences), values_(values) {
    if (!padding.any()) return;
    const std::int64_t count = sequences.rows();
    const Numbers scratch(executor, kernel::kept_scratch(count));
    offsets_.emplace(executor, sequences.size + 1);
    launch(kernel::CountKept(), executor, ids, sequences, padding.id, padding.minus_one, scratch.data(),
           offsets_->data());
    if constexpr (on_cpu<E>) {
      if (offsets_->data()[sequences.size] == count) return;
      sequences_ = kernel::Segments(offsets_->data(), sequences.size, sequences.max_rows);
    } else {
      sequences_ = kernel::Segments(offsets_->data(), sequences.size, sequences.max_rows, 0, count);
    }
    kept_.emplace(executor, count);
    rows_.emplace(executor, options.rows ? count : 0);
    places_.emplace(executor, options.places ? count : 0);
    launch(kernel::KeepIds(), executor, values, sequences, static_cast<const std::int64_t*>(scratch.data()),
           kept_->data(), options.rows ? rows_->data() : nullptr, options.places ? places_->data() : nullptr);
    values_ = kept_->data();
  }

  /// Whether there may be padding to leave out.
  bool leaves_out() const noexcept { return kept_.has_value(); }
  /// The sequences without padding. On a GPU, rows() may exceed their total.
  const kernel::Segments& sequences() const noexcept { return sequences_; }
  const std::int64_t* values() const noexcept { return values_; }
  /// @{
  /// If something is left out: the old positions of the others, and the new position of each id, -1 for padding.
  const std::int64_t* rows() const noexcept { return rows_->data(); }
  const std::int64_t* places() const noexcept { return places_->data(); }
  /// @}

 private:
  std::optional<Numbers> offsets_, kept_, rows_, places_;
  kernel::Segments sequences_;
  const std::int64_t* values_;
};

/// The input of the pooled lookup: ids without padding, and their weights.
template <Executor E, class T>
class LookedUp {
 public:
  /// `sequences` is for kernels.
  template <class Table, class Ids, class Device>
  LookedUp(const E& executor, const Table& table, const Ids& ids, const kernel::Segments& sequences,
           const EmbeddingPoolOptions<T, Device>& options, const char* what, const KeptIdsOptions& kept = {})
      : checked_(executor, ids, table.rows(), what, padding_of(options)),
        kept_(executor, ids.data(), checked_.data(), sequences, padding_of(options),
              {.rows = kept.rows || options.weights, .places = kept.places}),
        weights_(executor, options.weights && kept_.leaves_out() ? kept_.sequences().rows() : 0),
        rows_{table.data(), kept_.values(), options.weights.data(), table.row_size(), table.rows()} {
    if (!options.weights || !kept_.leaves_out()) return;
    launch(kernel::GatherRows(), executor, options.weights.data(), kept_.rows(), kept_.sequences().rows(),
           std::int64_t{1}, std::int64_t{-1}, weights_.data());
    rows_.weights = weights_.data();
  }

  const kernel::LookUp<T>& rows() const noexcept { return rows_; }
  const KeptIds<E>& kept() const noexcept { return kept_; }

 private:
  CheckedIds<E> checked_;
  KeptIds<E> kept_;
  kernel::Scratch<E, T> weights_;
  kernel::LookUp<T> rows_;
};

/// The gradients of pooled rows as gradients of single rows: divided by the lengths if the type requires it.
template <Executor E, class T>
class UnpooledGrad {
 public:
  UnpooledGrad(const E& executor, const T* dy, const kernel::Segments& sequences, std::int64_t row_size, PoolType type)
      : divided_(executor, divides(type) ? sequences.size * row_size : 0), dy_(dy) {
    if (!divides(type)) return;
    launch(kernel::DividePooled(), executor, dy, sequences, row_size, type, divided_.data());
    dy_ = divided_.data();
  }
  const T* data() const noexcept { return dy_; }

 private:
  static bool divides(PoolType type) noexcept { return type == PoolType::AVERAGE || type == PoolType::SQRT; }

  kernel::Scratch<E, T> divided_;
  const T* dy_;
};

/// `winners` is null for sums, for FIRST and for LAST.
template <Executor E, LoDTensorLike X, LoDTensorLike Ids, class T, class Device>
void looked_up_grad_into(const E& executor, const char* what, const X& dy, const std::int64_t* winners, const Ids& ids,
                         std::int64_t height, PoolType type, const EmbeddingPoolOptions<T, Device>& options,
                         const kernel::Segments& sequences, const Shape& row_shape, SelectedRows<T, Device>& dtable) {
  using Numbers = kernel::Scratch<E, std::int64_t>;
  const std::int64_t count = ids.rows();
  const kernel::PaddingIds padding = padding_of(options);
  detail::check_height(height, what);
  if constexpr (on_cpu<E>) ids.check(executor, height, what, padding.least());
  const KeptIds<E> kept(executor, ids.data(), ids.data(), sequences, padding, {.rows = true});
  const std::int64_t* const kept_rows = kept.leaves_out() ? kept.rows() : nullptr;
  // The ids that have a gradient, their positions, and their sequences.
  const Numbers listed(executor, count), occurrences(executor, count), sequence(executor, count);
  const Numbers order(executor, count), unique(executor, count), groups(executor, count + 1);
  std::int64_t size = 0, rows = 0;
  if constexpr (on_cpu<E>) {
    for (std::int64_t i = 0; i < sequences.size; ++i) {
      std::int64_t begin = kept.sequences().begin(i), end = begin + kept.sequences().length(i);
      if (begin == end) continue;
      if (type == PoolType::FIRST) end = begin + 1;
      if (type == PoolType::LAST) begin = end - 1;
      for (std::int64_t k = begin; k < end; ++k) {
        listed.data()[size] = kept.values()[k];
        occurrences.data()[size] = kept_rows ? kept_rows[k] : k;
        sequence.data()[size++] = i;
      }
    }
    rows = launch(kernel::GroupRows(), executor, static_cast<const std::int64_t*>(listed.data()), size, height,
                  order.data(), unique.data(), groups.data());
  } else {
    rows = size = count;
  }
  const UnpooledGrad<E, T> unpooled(executor, dy.data(), kept.sequences(), dy.row_size(), type);
  RowsOutput<E, T> out = [&] {
    const auto others = {
        OtherMemory("dy", dy), OtherMemory("ids", ids), OtherMemory("weights", options.weights),
        OtherMemory("index", std::span(winners, winners ? static_cast<std::size_t>(dy.rows() * dy.row_size()) : 0))};
    if constexpr (on_cpu<E>) {
      return RowsOutput<E, T>(executor, what, dtable, std::span(unique.data(), static_cast<std::size_t>(rows)), height,
                              row_shape, others);
    } else {
      return RowsOutput<E, T>(executor, what, dtable, count, height, row_shape, others);
    }
  }();
  if constexpr (!on_cpu<E>) {
    launch(kernel::ListLookUps(), executor, kept.values(), kept_rows, kept.sequences(), type, height, listed.data(),
           order.data(), occurrences.data(), sequence.data(), executor.fault(what, height));
    launch(kernel::GroupListed(), executor, listed.data(), count, height, order.data(), unique.data(), groups.data(),
           out.ids());
  }
  launch(kernel::SumLookUpGrads(), executor,
         kernel::LookUpGrad<T>{unpooled.data(), occurrences.data(), sequence.data(), options.weights.data(), winners,
                               row_shape.elements()},
         order.data(), kernel::Segments(groups.data(), rows, size, 0, size), out.data());
}

/// The row shape of the table, from those of dy and the ids. Throws if dy does not fit.
template <class View, class Ids>
Shape check_pooled_grad(const View& dy, const Ids& ids, const kernel::Segments& sequences, const Subject& what) {
  check_row_count(dy.rows(), sequences.size, what);
  const Shape row_shape = dy.row_shape().without_first(ids.row_shape().size());
  check_row_shape(dy.row_shape(), ids.row_shape().followed_by(row_shape), what);
  return row_shape;
}

template <>
struct Declared<op::embedding_pool> : Takes<Tensor, Ids, PoolType>,
                                      WithTyped<EmbeddingPoolOptions>,
                                      Launches<kernel::EmbeddingPool>,
                                      LaunchesOnIds<kernel::CountKept, kernel::KeepIds> {
  static constexpr const char* name = "embedding_pool";
  using Gradient = op::embedding_pool_grad;
  template <Executor E, class T>
  static void run(const E& executor, const Input<E, T>& table, const IdsInput<E>& ids, PoolType type,
                  const EmbeddingPoolOptions<T, typename E::device>& options, const To<E, T>& y) {
    check_pool_type(type, name);
    const kernel::Segments sequences = check_embedding_pool(executor, ids, options, name);
    const LookedUp<E, T> looked_up(executor, table, ids, sequences, options, name);
    const int level = detail::resolve_level(options.level, ids.levels(), name);
    const T pad_value = detail::checked<T>(options.pad_value, name, "pad_value");
    const auto out = prepare(executor, name, y, LevelsAbove{ids.lod_view(), level},
                             looked_up_shape(ids.row_shape(), table.row_shape(), name),
                             {{"table", table}, {"ids", ids}, {"weights", options.weights}});
    launch(kernel::EmbeddingPool(), executor, looked_up.rows(), looked_up.kept().sequences(), type, pad_value,
           out.data());
  }
};

template <>
struct Declared<op::embedding_pool_grad> : Takes<Tensor, Ids, std::int64_t, PoolType>,
                                           WithTyped<EmbeddingPoolOptions>,
                                           Gives<Of<SelectedRows>>,
                                           Launches<kernel::SumLookUpGrads>,
                                           LaunchesOnIds<kernel::ListLookUps> {
  static constexpr const char* name = "embedding_pool_grad";
  template <Executor E, class T>
  static void run(const E& executor, const Input<E, T>& dy, const IdsInput<E>& ids, std::int64_t height, PoolType type,
                  const EmbeddingPoolOptions<T, typename E::device>& options,
                  SelectedRows<T, typename E::device>& dtable) {
    check_sums_or_steps(type, name, "embedding_max_pool_grad or embedding_min_pool_grad");
    const kernel::Segments sequences = check_embedding_pool(executor, ids, options, name);
    const Shape row_shape = check_pooled_grad(dy, ids, sequences, {name, "dy"});
    looked_up_grad_into(executor, name, dy, nullptr, ids, height, type, options, sequences, row_shape, dtable);
  }
};

template <>
struct Declared<op::embedding_pool_weights_grad>
    : Takes<Tensor, Tensor, Ids, PoolType>, WithTyped<EmbeddingPoolOptions>, Launches<kernel::LookUpWeightsGrad> {
  static constexpr const char* name = "embedding_pool_weights_grad";
  template <Executor E, class T>
  static void run(const E& executor, const Input<E, T>& dy, const Input<E, T>& table, const IdsInput<E>& ids,
                  PoolType type, const EmbeddingPoolOptions<T, typename E::device>& options, const To<E, T>& dweights) {
    check_pool_type(type, name);
    const kernel::Segments sequences = check_embedding_pool(executor, ids, options, name);
    check_row_shape(check_pooled_grad(dy, ids, sequences, {name, "dy"}), table.row_shape(), {name, "dy"});
    const LookedUp<E, T> looked_up(executor, table, ids, sequences, options, name, {.places = true});
    const KeptIds<E>& kept = looked_up.kept();
    const bool extreme = type == PoolType::MAX || type == PoolType::MIN;
    const std::int64_t numbers = extreme ? sequences.size * table.row_size() : 0;
    const kernel::Scratch<E, T> values(executor, numbers);
    const kernel::Scratch<E, std::int64_t> winners(executor, numbers);
    if (extreme) {
      launch(kernel::EmbeddingMaxPool(), executor, looked_up.rows(), kept.sequences(), type == PoolType::MIN, T{},
             values.data(), winners.data());
    }
    const UnpooledGrad<E, T> unpooled(executor, dy.data(), kept.sequences(), table.row_size(), type);
    const kernel::Scratch<E, T> of_kept(executor, kept.leaves_out() ? kept.sequences().rows() : 0);
    const auto out = prepare(executor, {name, "dweights"}, dweights, SameLevels{ids.lod_view()}, ids.row_shape(),
                             {{"dy", dy}, {"table", table}, {"ids", ids}, {"weights", options.weights}});
    launch(kernel::LookUpWeightsGrad(), executor, looked_up.rows(), unpooled.data(),
           extreme ? static_cast<const std::int64_t*>(winners.data()) : nullptr, kept.sequences(), type,
           kept.leaves_out() ? of_kept.data() : out.data());
    if (kept.leaves_out()) {
      launch(kernel::GatherRows(), executor, static_cast<const T*>(of_kept.data()), kept.places(), ids.rows(),
             std::int64_t{1}, std::int64_t{-1}, out.data());
    }
  }
};

}  // namespace operation

/// `sequence_pool` of `embedding`, in one pass: one row for each sequence of `level` of the ids, pooled from the table
/// rows that its ids name, each multiplied by its weight. LoD: the levels of the ids above `level`; row shape: that of
/// the ids, then that of the table. The bits, except those of NaNs, are those of `sequence_pool(mul(embedding(table,
/// ids), weights), type)`; a weighted AVERAGE is divided by the number of ids, not by the sum of the weights. Weighted
/// rows and sums have the type of the table: for sums that it cannot hold, `sequence_pool<U>` of the rows.
///
/// Padding ids, `padding_idx` and, with `skip_minus_one`, -1, are left out with their weights, as if they were not
/// there: they do not count in AVERAGE and SQRT, never win MAX or MIN, and FIRST and LAST skip them. A sequence that is
/// empty, or only padding, gives `pad_value`.
///
/// Time: one access to a table row for each id. Throws InvalidLoD if the ids have no level, OutOfRange for the level,
/// for a number that is not a PoolType, for a `pad_value` that the table's type cannot hold and for any other id
/// outside [0, table.rows()), ShapeMismatch unless there is one id per row and one weight per id. If it throws, nothing
/// is changed. The output must not overlap the arguments. Semantics: the framework operators fused_embedding_seq_pool
/// (SUM) and EmbeddingBag.
inline constexpr operation::Call<op::embedding_pool> embedding_pool{};
inline constexpr operation::CallInto<op::embedding_pool> embedding_pool_into{};

/// The gradient of `embedding_pool` for its table of `height` rows: equal to `merge_add` of `embedding_grad` of
/// `sequence_pool_grad`, with each row listed once and ids ascending, but without an intermediate row for each id.
/// Padding ids are left out; for FIRST and LAST, only the first or last id that is not padding remains. Time: a radix
/// sort of the ids, then one access to a row of dy for each id. `dtable` must not overlap dy.
///
/// Throws as `embedding_pool`, ShapeMismatch unless dy has one row for each sequence, of a shape that begins with that
/// of the ids, and std::invalid_argument for MAX and MIN, whose gradients need the index (`embedding_max_pool_grad`,
/// `embedding_min_pool_grad`).
inline constexpr operation::Call<op::embedding_pool_grad> embedding_pool_grad{};
inline constexpr operation::CallInto<op::embedding_pool_grad> embedding_pool_grad_into{};

/// The gradient of `embedding_pool` of any type with respect to its weights: for each id the dot product of its table
/// row and that row's gradient, 0 for padding. Rows and LoD as the ids. MAX and MIN are computed again to find which
/// rows won. `dweights` must not overlap the arguments. Throws as `embedding_pool`, and ShapeMismatch unless dy has the
/// rows and the row shape of its result.
inline constexpr operation::Call<op::embedding_pool_weights_grad> embedding_pool_weights_grad{};
inline constexpr operation::CallInto<op::embedding_pool_weights_grad> embedding_pool_weights_grad_into{};

namespace operation {

template <class Op>
infer::Batch infer_embedding_pool(const LoDTensorDesc& table, const LoDTensorDesc& ids,
                                  const EmbeddingPoolDescOptions& options, const char* what) {
  const infer::Batch list(ids, what);
  infer::check_ids(list.type, what);
  list.check_scalar_rows(what, "one id a row");
  const infer::Batch rows = infer::batch_for<Op>(table, what);
  infer::Batch y = list.pooled(options.level, what);
  if (!options.weights.tensor.dims.empty()) {
    const infer::Batch weights(options.weights, what);
    infer::check_type(weights.type, rows.type, what);
    weights.check_scalar_rows(what, "one weight a row");
    infer::check_row_count(weights.rows, list.rows, what);
  }
  y.type = rows.type;
  y.row_shape.insert(y.row_shape.end(), rows.row_shape.begin(), rows.row_shape.end());
  return y;
}

}  // namespace operation

/// The result of `embedding_pool`, described: see <lod/infer.hpp>.
inline LoDTensorDesc infer_embedding_pool(const LoDTensorDesc& table, const LoDTensorDesc& ids, PoolType type,
                                          const EmbeddingPoolDescOptions& options = {}) {
  operation::check_pool_type(type, "embedding_pool");
  return operation::infer_embedding_pool<op::embedding_pool>(table, ids, options, "embedding_pool");
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET
