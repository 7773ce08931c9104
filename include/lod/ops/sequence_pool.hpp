// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup reductions
/// Pooling: one row from the rows of each sequence.
#pragma once

#include <lod/infer.hpp>
#include <lod/kernel.hpp>
#include <lod/ops/row_index.hpp>
#include <lod/output.hpp>
#include <lod/scalar.hpp>
#include <lod/supports.hpp>
#include <lod/target.hpp>

#include <concepts>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <type_traits>

namespace lod::inline LOD_INTERFACE::op {
struct sequence_pool : elements::Arithmetic {};
struct sequence_pool_grad : elements::Arithmetic {};
struct sequence_first_step : elements::Arithmetic {};
struct sequence_last_step : elements::Arithmetic {};
struct sequence_max_pool : elements::Arithmetic {};
struct sequence_max_pool_grad : elements::Arithmetic {};
struct sequence_min_pool : elements::Arithmetic {};
struct sequence_min_pool_grad : elements::Arithmetic {};
}  // namespace lod::inline LOD_INTERFACE::op

namespace lod::inline LOD_INTERFACE {

/// How the n rows of a sequence become one, column by column. Semantics: PaddlePaddle's sequence_pool.
enum class PoolType {
  SUM,      ///< the sum
  AVERAGE,  ///< the sum / n
  SQRT,     ///< the sum / sqrt(n)
  MAX,      ///< the greatest; NaN if there is one
  MIN,      ///< the least; NaN if there is one
  FIRST,    ///< the first row
  LAST      ///< the last row
};

/// The options of `sequence_pool` and of operations that pool by one rule, and of their gradients.
struct PoolOptions {
  Scalar pad_value = 0;                  ///< every element of the row of an empty sequence
  int level = -1;                        ///< the level whose sequences are pooled; by default the last
  RowIndex row_index = RowIndex::BATCH;  ///< what the rows that won are counted from, where an index names them
};

/// The result of `sequence_max_pool` and `sequence_min_pool`.
template <class T, class Device>
struct MaxPool {
  LoDTensor<T, Device> values;
  /// For each element of `values`, the row of x that won, counted from the first row of x; -1 for an empty sequence. No
  /// level. With RowIndex::SEQUENCE counted from the first row of its sequence, with the levels of the values.
  LoDTensor<std::int64_t, Device> index;
};

/// The results of `sequence_max_pool` and `sequence_min_pool`, described.
struct MaxPoolDesc {
  LoDTensorDesc values;
  LoDTensorDesc index;
};

}  // namespace lod::inline LOD_INTERFACE

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {

namespace kernel {
template <class Executor>
struct SequencePool : Missing<Executor> {};
/// SequencePool with SUM, AVERAGE or SQRT of type `Accumulator<T>`: run(executor, x, sequences, row_size, type,
/// pad_value, y), with pad_value and y of that type.
template <class Executor>
struct SequenceSums : Missing<Executor> {};
template <class Executor>
struct SequenceMaxPool : Missing<Executor> {};
template <class Executor>
struct SequencePoolGrad : Missing<Executor> {};
template <class Executor>
struct SequenceMaxPoolGrad : Missing<Executor> {};
/// run(executor, dy, sequences, row_size, type, y): y[i] = dy[i] divided as the sum of sequence i was, unless that is
/// empty.
template <class Executor>
struct DividePooled : Missing<Executor> {};
}  // namespace kernel

namespace operation {

/// Throws OutOfRange for a number that is not a PoolType.
inline void check_pool_type(PoolType type, const char* what) {
  if (type < PoolType::SUM || type > PoolType::LAST) {
    throw OutOfRange(detail::text({what, ": PoolType ", static_cast<int>(type), ", expected SUM to LAST"}));
  }
}

/// The same for gradients. Also throws std::invalid_argument for MAX and MIN, whose gradients `others` compute.
inline void check_sums_or_steps(PoolType type, const char* what, const char* others) {
  check_pool_type(type, what);
  if (type == PoolType::MAX || type == PoolType::MIN) {
    throw std::invalid_argument(detail::text({what, ": of MAX and MIN, use ", others, " with the index"}));
  }
}

/// Throws std::invalid_argument for types whose result is a row of x, and so of its type.
inline void check_wide_pool_type(PoolType type) {
  if (type > PoolType::SQRT) {
    throw std::invalid_argument(
        detail::text({"sequence_pool: PoolType ", static_cast<int>(type),
                      " into elements of another type than x has, expected SUM, AVERAGE or SQRT"}));
  }
}

/// Sums and what is computed from them, in the type of the computation.
template <Executor E, LoDTensorLike X, class Y>
void pool_sums_into(const E& executor, const X& x, PoolType type, const PoolOptions& options, Y&& y) {
  using T = value_type_t<X>;
  using U = kernel::Accumulator<T>;
  detail::check_elements<op::sequence_pool, T>();
  check_pool_type(type, "sequence_pool");
  check_wide_pool_type(type);
  const auto view = x.view();
  check_has_level(view, "sequence_pool");
  const int level = detail::resolve_level(options.level, view.levels(), "sequence_pool");
  const U pad_value = detail::checked<U>(options.pad_value, "sequence_pool", "pad_value");
  const auto out =
      prepare<U>(executor, "sequence_pool", y, LevelsAbove{view.lod_view(), level}, view.row_shape(), {{"x", view}});
  kernel::SequenceSums<E>::run(executor, view.data(), segments(executor, view, level), view.row_size(), type, pad_value,
                               out.data());
}

template <class Op, Executor E, LoDTensorLike X, class Y>
void pool_into(const E& executor, const X& x, PoolType type, const PoolOptions& options, const char* what, Y&& y) {
  detail::check_elements<Op, value_type_t<X>>();
  using T = value_type_t<X>;
  check_pool_type(type, what);
  const auto view = x.view();
  check_has_level(view, what);
  const int level = detail::resolve_level(options.level, view.levels(), what);
  const T pad_value = detail::checked<T>(options.pad_value, what, "pad_value");
  const auto out = prepare<T>(executor, what, y, LevelsAbove{view.lod_view(), level}, view.row_shape(), {{"x", view}});
  kernel::SequencePool<E>::run(executor, view.data(), segments(executor, view, level), view.row_size(), type, pad_value,
                               out.data());
}

}  // namespace operation

/// One row for each sequence of `level`, pooled from all rows under it: y[i] = pool(the rows of sequence i). Row shape
/// as x; LoD: the levels of x above `level`.
///
/// Sums of floating-point numbers follow one tree for each sequence, counted from its start, with compensation over
/// long ones: the bits depend neither on threads nor on the rest of the batch, and the error does not grow with the
/// length. float16 and bfloat16 are summed as float, integers as int64. A sum of numbers is finite if their true sum
/// is, and a mean of finite numbers is always finite; a sum of negative zeros is a negative zero. SUM of integers wraps
/// around in their type, and for bool is whether any is true: for counts and wider sums see below. AVERAGE and SQRT of
/// integers are those of the exact sum, truncated; SQRT is clamped to T. An empty sequence gives `pad_value`. One pass
/// over x, no synchronisation. The output must not overlap x. Throws InvalidLoD if x has no level, OutOfRange for the
/// level, for a `pad_value` that a T cannot hold and for a number that is not a PoolType.
template <Executor E, LoDTensorLike X, class Y>
void sequence_pool_into(const E& executor, const X& x, PoolType type, const PoolOptions& options, Y&& y) {
  if constexpr (kernel::has_wide_sums<value_type_t<X>, value_type_t<std::remove_cvref_t<Y>>>) {
    operation::pool_sums_into(executor, x, type, options, y);
  } else {
    operation::pool_into<op::sequence_pool>(executor, x, type, options, "sequence_pool", y);
  }
}
template <Executor E, LoDTensorLike X, class Y>
void sequence_pool_into(const E& executor, const X& x, PoolType type, Y&& y) {
  sequence_pool_into(executor, x, type, PoolOptions{}, y);
}
template <Executor E, LoDTensorLike X>
[[nodiscard]] LoDTensor<value_type_t<X>, device_t<X>> sequence_pool(const E& executor, const X& x, PoolType type,
                                                                    const PoolOptions& options = {}) {
  LoDTensor<value_type_t<X>, device_t<X>> y(executor.resource());
  sequence_pool_into(executor, x, type, options, y);
  return y;
}
template <LoDTensorLike X>
[[nodiscard]] auto sequence_pool(const X& x, PoolType type, const PoolOptions& options = {}) {
  return sequence_pool(default_executor<device_t<X>>(), x, type, options);
}

/// SUM, AVERAGE and SQRT in the type U, in which they are computed: `sequence_pool<std::int64_t>` for bool and for
/// integers of up to 32 bits, `sequence_pool<float>` for float16 and bfloat16. So the SUM of bool counts, and no sum
/// wraps around. `sequence_pool_into` gives the same for a y of that type; `pad_value` is a U. The gradient is
/// `sequence_pool_grad` of dy, which has elements of type U. Throws as above, and std::invalid_argument for other pool
/// types.
template <class U, Executor E, LoDTensorLike X>
[[nodiscard]] LoDTensor<U, device_t<X>> sequence_pool(const E& executor, const X& x, PoolType type,
                                                      const PoolOptions& options = {}) {
  kernel::check_wide_sums<value_type_t<X>, U>();
  LoDTensor<U, device_t<X>> y(executor.resource());
  operation::pool_sums_into(executor, x, type, options, y);
  return y;
}
template <class U, LoDTensorLike X>
[[nodiscard]] auto sequence_pool(const X& x, PoolType type, const PoolOptions& options = {}) {
  return sequence_pool<U>(default_executor<device_t<X>>(), x, type, options);
}

/// The first row of each sequence: `sequence_pool` with FIRST.
template <Executor E, LoDTensorLike X, class Y>
void sequence_first_step_into(const E& executor, const X& x, const PoolOptions& options, Y&& y) {
  operation::pool_into<op::sequence_first_step>(executor, x, PoolType::FIRST, options, "sequence_first_step", y);
}
template <Executor E, LoDTensorLike X, class Y>
void sequence_first_step_into(const E& executor, const X& x, Y&& y) {
  sequence_first_step_into(executor, x, PoolOptions{}, y);
}
template <Executor E, LoDTensorLike X>
[[nodiscard]] LoDTensor<value_type_t<X>, device_t<X>> sequence_first_step(const E& executor, const X& x,
                                                                          const PoolOptions& options = {}) {
  LoDTensor<value_type_t<X>, device_t<X>> y(executor.resource());
  sequence_first_step_into(executor, x, options, y);
  return y;
}
template <LoDTensorLike X>
[[nodiscard]] auto sequence_first_step(const X& x, const PoolOptions& options = {}) {
  return sequence_first_step(default_executor<device_t<X>>(), x, options);
}
/// The last row of each sequence: `sequence_pool` with LAST.
template <Executor E, LoDTensorLike X, class Y>
void sequence_last_step_into(const E& executor, const X& x, const PoolOptions& options, Y&& y) {
  operation::pool_into<op::sequence_last_step>(executor, x, PoolType::LAST, options, "sequence_last_step", y);
}
template <Executor E, LoDTensorLike X, class Y>
void sequence_last_step_into(const E& executor, const X& x, Y&& y) {
  sequence_last_step_into(executor, x, PoolOptions{}, y);
}
template <Executor E, LoDTensorLike X>
[[nodiscard]] LoDTensor<value_type_t<X>, device_t<X>> sequence_last_step(const E& executor, const X& x,
                                                                         const PoolOptions& options = {}) {
  LoDTensor<value_type_t<X>, device_t<X>> y(executor.resource());
  sequence_last_step_into(executor, x, options, y);
  return y;
}
template <LoDTensorLike X>
[[nodiscard]] auto sequence_last_step(const X& x, const PoolOptions& options = {}) {
  return sequence_last_step(default_executor<device_t<X>>(), x, options);
}

namespace operation {
template <bool minimum, Executor E, LoDTensorLike X, class Y, class Index>
void extreme_pool_into(const E& executor, const X& x, const PoolOptions& options, Y&& y, Index&& index) {
  detail::check_elements<std::conditional_t<minimum, op::sequence_min_pool, op::sequence_max_pool>, value_type_t<X>>();
  using T = value_type_t<X>;
  const auto view = x.view();
  constexpr const char* what = minimum ? "sequence_min_pool" : "sequence_max_pool";
  check_has_level(view, what);
  const T pad_value = detail::checked<T>(options.pad_value, what, "pad_value");
  const int level = detail::resolve_level(options.level, view.levels(), what);
  const kernel::Segments sequences = segments(executor, view, level);
  const LevelsAbove above{view.lod_view(), level};
  check_row_index(options.row_index, what);
  const IndexLevels<LevelsAbove> of_index{above, options.row_index};
  const auto values = prepare<T>(executor, {what, "values"}, y, above, view.row_shape(), {{"x", view}});
  const auto rows =
      prepare<std::int64_t>(executor, {what, "index"}, index, of_index, view.row_shape(), {{"x", view}, {"values", y}});
  kernel::SequenceMaxPool<E>::run(executor, view.data(), sequences, view.row_size(), minimum, pad_value, values.data(),
                                  rows.data());
  if (options.row_index == RowIndex::SEQUENCE) {
    renumber(executor, rows.data(), {{}, view.row_size()}, sequences, nullptr, kernel::Renumbering::TO_SEQUENCE,
             rows.data());
  }
}
}  // namespace operation

/// `sequence_pool` with MAX, and which row won: of equal ones the first, of several NaNs the first NaN. Also throws
/// OutOfRange for a number that is not a RowIndex.
template <Executor E, LoDTensorLike X, class Y, class Index>
void sequence_max_pool_into(const E& executor, const X& x, const PoolOptions& options, Y&& values, Index&& index) {
  operation::extreme_pool_into<false>(executor, x, options, values, index);
}
template <Executor E, LoDTensorLike X, class Y, class Index>
void sequence_max_pool_into(const E& executor, const X& x, Y&& values, Index&& index) {
  operation::extreme_pool_into<false>(executor, x, PoolOptions{}, values, index);
}
template <Executor E, LoDTensorLike X>
[[nodiscard]] MaxPool<value_type_t<X>, device_t<X>> sequence_max_pool(const E& executor, const X& x,
                                                                      const PoolOptions& options = {}) {
  MaxPool<value_type_t<X>, device_t<X>> y{LoDTensor<value_type_t<X>, device_t<X>>(executor.resource()),
                                          LoDTensor<std::int64_t, device_t<X>>(executor.resource())};
  sequence_max_pool_into(executor, x, options, y.values, y.index);
  return y;
}
template <LoDTensorLike X>
[[nodiscard]] auto sequence_max_pool(const X& x, const PoolOptions& options = {}) {
  return sequence_max_pool(default_executor<device_t<X>>(), x, options);
}

/// `sequence_pool` with MIN, and which row won.
template <Executor E, LoDTensorLike X, class Y, class Index>
void sequence_min_pool_into(const E& executor, const X& x, const PoolOptions& options, Y&& values, Index&& index) {
  operation::extreme_pool_into<true>(executor, x, options, values, index);
}
template <Executor E, LoDTensorLike X, class Y, class Index>
void sequence_min_pool_into(const E& executor, const X& x, Y&& values, Index&& index) {
  operation::extreme_pool_into<true>(executor, x, PoolOptions{}, values, index);
}
template <Executor E, LoDTensorLike X>
[[nodiscard]] MaxPool<value_type_t<X>, device_t<X>> sequence_min_pool(const E& executor, const X& x,
                                                                      const PoolOptions& options = {}) {
  MaxPool<value_type_t<X>, device_t<X>> y{LoDTensor<value_type_t<X>, device_t<X>>(executor.resource()),
                                          LoDTensor<std::int64_t, device_t<X>>(executor.resource())};
  sequence_min_pool_into(executor, x, options, y.values, y.index);
  return y;
}
template <LoDTensorLike X>
[[nodiscard]] auto sequence_min_pool(const X& x, const PoolOptions& options = {}) {
  return sequence_min_pool(default_executor<device_t<X>>(), x, options);
}

/// The gradient of `sequence_pool` for the sequences of `lod`, which is that of its x: dx has the rows and levels of
/// `lod`. SUM gives every row of a sequence its dy, AVERAGE and SQRT divide it as they did, FIRST and LAST give it to
/// one row and 0 to the others. An empty sequence has no rows, so its dy is dropped. `dx` must not overlap dy. Throws
/// InvalidLoD if `lod` has no level, OutOfRange as `sequence_pool`, ShapeMismatch unless dy has one row for each
/// sequence of `level`; std::invalid_argument for MAX and MIN, whose gradients need the index
/// (`sequence_max_pool_grad`, `sequence_min_pool_grad`).
template <Executor E, LoDTensorLike X, class Y>
void sequence_pool_grad_into(const E& executor, const X& dy, const LoD& lod, PoolType type, const PoolOptions& options,
                             Y&& dx) {
  detail::check_elements<op::sequence_pool_grad, value_type_t<X>>();
  operation::check_sums_or_steps(type, "sequence_pool_grad", "sequence_max_pool_grad or sequence_min_pool_grad");
  const auto view = dy.view();
  operation::check_has_level(lod, "sequence_pool_grad: lod");
  const int level = detail::resolve_level(options.level, lod.levels(), "sequence_pool_grad");
  operation::check_row_count(view.rows(), lod.size(level), "sequence_pool_grad: dy");
  const LoDView sequences = lod.view();
  const auto out = operation::prepare<value_type_t<X>>(
      executor, {"sequence_pool_grad", "dx"}, dx, operation::SameLevels{sequences}, view.row_shape(), {{"dy", view}});
  kernel::SequencePoolGrad<E>::run(executor, view.data(), operation::segments(executor, out, level), view.row_size(),
                                   type, out.data());
}
template <Executor E, LoDTensorLike X, class Y>
void sequence_pool_grad_into(const E& executor, const X& dy, const LoD& lod, PoolType type, Y&& dx) {
  sequence_pool_grad_into(executor, dy, lod, type, PoolOptions{}, dx);
}
template <Executor E, LoDTensorLike X>
[[nodiscard]] LoDTensor<value_type_t<X>, device_t<X>> sequence_pool_grad(const E& executor, const X& dy, const LoD& lod,
                                                                         PoolType type,
                                                                         const PoolOptions& options = {}) {
  LoDTensor<value_type_t<X>, device_t<X>> dx(executor.resource());
  sequence_pool_grad_into(executor, dy, lod, type, options, dx);
  return dx;
}
template <LoDTensorLike X>
[[nodiscard]] auto sequence_pool_grad(const X& dy, const LoD& lod, PoolType type, const PoolOptions& options = {}) {
  return sequence_pool_grad(default_executor<device_t<X>>(), dy, lod, type, options);
}

namespace operation {
template <bool minimum, Executor E, LoDTensorLike X, LoDTensorLike Index, class Y>
void extreme_pool_grad_into(const E& executor, const X& dy, const Index& index, const LoD& lod,
                            const PoolOptions& options, Y&& dx) {
  detail::check_elements<std::conditional_t<minimum, op::sequence_min_pool_grad, op::sequence_max_pool_grad>,
                         value_type_t<X>>();
  const auto view = dy.view();
  const auto winners = index.view();
  constexpr const char* operation = minimum ? "sequence_min_pool_grad" : "sequence_max_pool_grad";
  check_has_level(lod, minimum ? "sequence_min_pool_grad: lod" : "sequence_max_pool_grad: lod");
  const int level = detail::resolve_level(options.level, lod.levels(), operation);
  check_row_count(view.rows(), lod.size(level), minimum ? "sequence_min_pool_grad: dy" : "sequence_max_pool_grad: dy");
  const char* const what = minimum ? "sequence_min_pool_grad: index" : "sequence_max_pool_grad: index";
  check_row_count(winners.rows(), lod.size(level), what);
  check_row_shape(winners.row_shape(), view.row_shape(), what);
  check_row_index(options.row_index, what);
  if constexpr (on_cpu<E>) {
    const auto bounds = lod.view().absolute_offsets(level);
    const std::int64_t* winner = winners.data();
    for (std::size_t i = 0; i + 1 < bounds.size(); ++i) {
      const IndexRange range(options.row_index, bounds[i], bounds[i + 1] - bounds[i]);
      for (std::int64_t column = 0; column < view.row_size(); ++column, ++winner) {
        if (*winner == -1 || range.contains(*winner)) continue;
        const std::string found = detail::text({what, " ", *winner, " of sequence ", i, ", expected -1"});
        if (range.length == 0) throw OutOfRange(found + ", the sequence is empty");
        throw OutOfRange(detail::text({found, " or a row from ", range.first, " to ", range.first + range.length - 1}));
      }
    }
  }
  const LoDView sequences = lod.view();
  const RowsOfBatch<E> rows(executor, winners.data(), winners.rows() * view.row_size(), options.row_index,
                            {{}, view.row_size()}, segments(executor, sequences, level));
  const auto out = prepare<value_type_t<X>>(executor, {operation, "dx"}, dx, SameLevels{sequences}, view.row_shape(),
                                            {{"dy", view}, {"index", winners}});
  kernel::SequenceMaxPoolGrad<E>::run(executor, view.data(), rows.data(), segments(executor, out, level),
                                      view.row_size(), out.data());
}
}  // namespace operation

/// The gradient of `sequence_max_pool`: dx, with the rows and levels of `lod`, has dy at the rows that won, for each
/// column, and 0 elsewhere. Throws InvalidLoD if `lod` has no level, ShapeMismatch if dy or index do not fit,
/// OutOfRange for the level and for an index that is neither -1 nor a row of its sequence; on a GPU, where this is not
/// checked, such an index counts as -1.
template <Executor E, LoDTensorLike X, LoDTensorLike Index, class Y>
void sequence_max_pool_grad_into(const E& executor, const X& dy, const Index& index, const LoD& lod,
                                 const PoolOptions& options, Y&& dx) {
  operation::extreme_pool_grad_into<false>(executor, dy, index, lod, options, dx);
}
template <Executor E, LoDTensorLike X, LoDTensorLike Index, class Y>
void sequence_max_pool_grad_into(const E& executor, const X& dy, const Index& index, const LoD& lod, Y&& dx) {
  operation::extreme_pool_grad_into<false>(executor, dy, index, lod, PoolOptions{}, dx);
}
template <Executor E, LoDTensorLike X, LoDTensorLike Index>
[[nodiscard]] LoDTensor<value_type_t<X>, device_t<X>> sequence_max_pool_grad(const E& executor, const X& dy,
                                                                             const Index& index, const LoD& lod,
                                                                             const PoolOptions& options = {}) {
  LoDTensor<value_type_t<X>, device_t<X>> dx(executor.resource());
  sequence_max_pool_grad_into(executor, dy, index, lod, options, dx);
  return dx;
}
template <LoDTensorLike X, LoDTensorLike Index>
[[nodiscard]] auto sequence_max_pool_grad(const X& dy, const Index& index, const LoD& lod,
                                          const PoolOptions& options = {}) {
  return sequence_max_pool_grad(default_executor<device_t<X>>(), dy, index, lod, options);
}

/// The gradient of `sequence_min_pool`: the same as that of `sequence_max_pool`, since only the index matters.
template <Executor E, LoDTensorLike X, LoDTensorLike Index, class Y>
void sequence_min_pool_grad_into(const E& executor, const X& dy, const Index& index, const LoD& lod,
                                 const PoolOptions& options, Y&& dx) {
  operation::extreme_pool_grad_into<true>(executor, dy, index, lod, options, dx);
}
template <Executor E, LoDTensorLike X, LoDTensorLike Index, class Y>
void sequence_min_pool_grad_into(const E& executor, const X& dy, const Index& index, const LoD& lod, Y&& dx) {
  operation::extreme_pool_grad_into<true>(executor, dy, index, lod, PoolOptions{}, dx);
}
template <Executor E, LoDTensorLike X, LoDTensorLike Index>
[[nodiscard]] LoDTensor<value_type_t<X>, device_t<X>> sequence_min_pool_grad(const E& executor, const X& dy,
                                                                             const Index& index, const LoD& lod,
                                                                             const PoolOptions& options = {}) {
  LoDTensor<value_type_t<X>, device_t<X>> dx(executor.resource());
  sequence_min_pool_grad_into(executor, dy, index, lod, options, dx);
  return dx;
}
template <LoDTensorLike X, LoDTensorLike Index>
[[nodiscard]] auto sequence_min_pool_grad(const X& dy, const Index& index, const LoD& lod,
                                          const PoolOptions& options = {}) {
  return sequence_min_pool_grad(default_executor<device_t<X>>(), dy, index, lod, options);
}

/// The result of `sequence_pool`, described: see <lod/infer.hpp>, also for everything that follows here.
inline LoDTensorDesc infer_sequence_pool(const LoDTensorDesc& x, PoolType type, const PoolOptions& options = {}) {
  operation::check_pool_type(type, "sequence_pool");
  return infer::batch_for<op::sequence_pool>(x, "sequence_pool").pooled(options.level, "sequence_pool");
}
/// The same for `sequence_pool<U>`, with the DataType of U as `sums`. Throws if x has no such sums.
inline LoDTensorDesc infer_sequence_pool(const LoDTensorDesc& x, PoolType type, DataType sums,
                                         const PoolOptions& options = {}) {
  operation::check_wide_pool_type(type);
  return infer::with_wide_sums(infer_sequence_pool(x, type, options), sums, "sequence_pool");
}
inline LoDTensorDesc infer_sequence_first_step(const LoDTensorDesc& x, const PoolOptions& options = {}) {
  return infer::batch_for<op::sequence_first_step>(x, "sequence_first_step")
      .pooled(options.level, "sequence_first_step");
}
inline LoDTensorDesc infer_sequence_last_step(const LoDTensorDesc& x, const PoolOptions& options = {}) {
  return infer::batch_for<op::sequence_last_step>(x, "sequence_last_step").pooled(options.level, "sequence_last_step");
}
inline MaxPoolDesc infer_sequence_max_pool(const LoDTensorDesc& x, const PoolOptions& options = {}) {
  const infer::Batch values =
      infer::batch_for<op::sequence_max_pool>(x, "sequence_max_pool").pooled(options.level, "sequence_max_pool");
  return {values, operation::infer_index(values, options.row_index, "sequence_max_pool")};
}
inline MaxPoolDesc infer_sequence_min_pool(const LoDTensorDesc& x, const PoolOptions& options = {}) {
  const infer::Batch values =
      infer::batch_for<op::sequence_min_pool>(x, "sequence_min_pool").pooled(options.level, "sequence_min_pool");
  return {values, operation::infer_index(values, options.row_index, "sequence_min_pool")};
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET
