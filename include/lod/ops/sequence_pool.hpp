// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup reductions
/// Pooling: one row from the rows of each sequence.
#pragma once

#include <lod/infer.hpp>
#include <lod/kernel.hpp>
#include <lod/output.hpp>
#include <lod/scalar.hpp>
#include <lod/supports.hpp>
#include <lod/target.hpp>

#include <type_traits>

namespace lod::op {
struct sequence_pool : elements::Arithmetic {};
struct sequence_pool_grad : elements::Arithmetic {};
struct sequence_first_step : elements::Arithmetic {};
struct sequence_last_step : elements::Arithmetic {};
struct sequence_max_pool : elements::Arithmetic {};
struct sequence_max_pool_grad : elements::Arithmetic {};
struct sequence_min_pool : elements::Arithmetic {};
struct sequence_min_pool_grad : elements::Arithmetic {};
}  // namespace lod::op

namespace lod::inline LOD_TARGET {

/// How the n rows of a sequence become one, for each column on its own. Semantics: PaddlePaddle's sequence_pool.
enum class PoolType {
  SUM,      ///< the sum
  AVERAGE,  ///< the sum / n
  SQRT,     ///< the sum / sqrt(n)
  MAX,      ///< the greatest; NaN where there is one
  MIN,      ///< the least; NaN where there is one
  FIRST,    ///< the first row
  LAST      ///< the last row
};

/// The options of `sequence_pool` and of what pools by one rule, and of their gradients.
struct PoolOptions {
  Scalar pad_value = 0;  ///< every element of the row of an empty sequence
  int level = -1;        ///< the level whose sequences are pooled
};

/// What `sequence_max_pool` and `sequence_min_pool` give.
template <class T, class Device>
struct MaxPool {
  LoDTensor<T, Device> values;
  /// For each element of `values`, the row of x, counted from its first, that won; -1 for an empty sequence. No level.
  LoDTensor<std::int64_t, Device> index;
};

namespace kernel {
template <class Executor>
struct SequencePool : Missing<Executor> {};
template <class Executor>
struct SequenceMaxPool : Missing<Executor> {};
template <class Executor>
struct SequencePoolGrad : Missing<Executor> {};
template <class Executor>
struct SequenceMaxPoolGrad : Missing<Executor> {};
/// run(executor, dy, sequences, row_size, type, y): y[i] = dy[i] divided as the sum of sequence i was, if it is not
/// empty.
template <class Executor>
struct DividePooled : Missing<Executor> {};
}  // namespace kernel

/// One row for each sequence of `level`, pooled from all rows under it: y[i] = pool(the rows of sequence i). Row shape
/// as x; LoD: the levels of x above `level`.
///
/// Sums of floating-point numbers follow one tree for each sequence, counted from its start, with compensation over
/// long ones: the bits depend neither on threads nor on the rest of the batch, and the error does not grow with the
/// length. float16 and bfloat16 are summed as float, integers as int64; AVERAGE and SQRT of integers are truncated.
/// An empty sequence gives `pad_value`. One pass over x, no synchronisation. The output must not overlap x.
/// Throws InvalidLoD where x has no level, OutOfRange for the level.
template <Executor E, LoDTensorLike X, class Y>
void sequence_pool_into(const E& executor, const X& x, PoolType type, const PoolOptions& options, Y&& y) {
  detail::check_elements<op::sequence_pool, value_type_t<X>>();
  using T = value_type_t<X>;
  const auto view = x.view();
  operation::check_has_level(view, "sequence_pool");
  const int level = detail::resolve_level(options.level, view.levels());
  const auto out = operation::prepare(executor, y, operation::LevelsAbove{view.lod_view(), level}, view.row_shape());
  kernel::SequencePool<E>::run(executor, view.data(), operation::segments(executor, view, level), view.row_size(), type,
                               options.pad_value.to<T>(), out.data());
}
template <Executor E, LoDTensorLike X, class Y>
void sequence_pool_into(const E& executor, const X& x, PoolType type, Y&& y) {
  sequence_pool_into(executor, x, type, PoolOptions{}, y);
}
template <Executor E, LoDTensorLike X>
LoDTensor<value_type_t<X>, device_t<X>> sequence_pool(const E& executor, const X& x, PoolType type,
                                                      const PoolOptions& options = {}) {
  LoDTensor<value_type_t<X>, device_t<X>> y(executor.resource());
  sequence_pool_into(executor, x, type, options, y);
  return y;
}
template <LoDTensorLike X>
auto sequence_pool(const X& x, PoolType type, const PoolOptions& options = {}) {
  return sequence_pool(default_executor<device_t<X>>(), x, type, options);
}

/// The first row of each sequence: `sequence_pool` with FIRST.
template <Executor E, LoDTensorLike X, class Y>
void sequence_first_step_into(const E& executor, const X& x, const PoolOptions& options, Y&& y) {
  sequence_pool_into(executor, x, PoolType::FIRST, options, y);
}
template <Executor E, LoDTensorLike X, class Y>
void sequence_first_step_into(const E& executor, const X& x, Y&& y) {
  sequence_pool_into(executor, x, PoolType::FIRST, y);
}
template <Executor E, LoDTensorLike X>
auto sequence_first_step(const E& executor, const X& x, const PoolOptions& options = {}) {
  return sequence_pool(executor, x, PoolType::FIRST, options);
}
template <LoDTensorLike X>
auto sequence_first_step(const X& x, const PoolOptions& options = {}) {
  return sequence_pool(x, PoolType::FIRST, options);
}
/// The last row of each sequence: `sequence_pool` with LAST.
template <Executor E, LoDTensorLike X, class Y>
void sequence_last_step_into(const E& executor, const X& x, const PoolOptions& options, Y&& y) {
  sequence_pool_into(executor, x, PoolType::LAST, options, y);
}
template <Executor E, LoDTensorLike X, class Y>
void sequence_last_step_into(const E& executor, const X& x, Y&& y) {
  sequence_pool_into(executor, x, PoolType::LAST, y);
}
template <Executor E, LoDTensorLike X>
auto sequence_last_step(const E& executor, const X& x, const PoolOptions& options = {}) {
  return sequence_pool(executor, x, PoolType::LAST, options);
}
template <LoDTensorLike X>
auto sequence_last_step(const X& x, const PoolOptions& options = {}) {
  return sequence_pool(x, PoolType::LAST, options);
}

namespace operation {
template <bool minimum, Executor E, LoDTensorLike X, class Y, class Index>
void extreme_pool_into(const E& executor, const X& x, const PoolOptions& options, Y&& y, Index&& index) {
  detail::check_elements<std::conditional_t<minimum, op::sequence_min_pool, op::sequence_max_pool>, value_type_t<X>>();
  using T = value_type_t<X>;
  const auto view = x.view();
  check_has_level(view, minimum ? "sequence_min_pool" : "sequence_max_pool");
  const int level = detail::resolve_level(options.level, view.levels());
  const kernel::Segments sequences = segments(executor, view, level);
  const LevelsAbove above{view.lod_view(), level};
  check_output(y, above, view.row_shape());
  check_output(index, PlainRows{sequences.size}, view.row_shape());
  const auto values = prepare(executor, y, above, view.row_shape());
  const auto rows = prepare(executor, index, PlainRows{sequences.size}, view.row_shape());
  kernel::SequenceMaxPool<E>::run(executor, view.data(), sequences, view.row_size(), minimum, options.pad_value.to<T>(),
                                  values.data(), rows.data());
}
}  // namespace operation

/// `sequence_pool` with MAX, and which row won: of equal ones the first, of several NaNs the first NaN.
template <Executor E, LoDTensorLike X, class Y, class Index>
void sequence_max_pool_into(const E& executor, const X& x, const PoolOptions& options, Y&& values, Index&& index) {
  operation::extreme_pool_into<false>(executor, x, options, values, index);
}
template <Executor E, LoDTensorLike X, class Y, class Index>
void sequence_max_pool_into(const E& executor, const X& x, Y&& values, Index&& index) {
  operation::extreme_pool_into<false>(executor, x, PoolOptions{}, values, index);
}
template <Executor E, LoDTensorLike X>
MaxPool<value_type_t<X>, device_t<X>> sequence_max_pool(const E& executor, const X& x,
                                                        const PoolOptions& options = {}) {
  MaxPool<value_type_t<X>, device_t<X>> y{LoDTensor<value_type_t<X>, device_t<X>>(executor.resource()),
                                          LoDTensor<std::int64_t, device_t<X>>(executor.resource())};
  sequence_max_pool_into(executor, x, options, y.values, y.index);
  return y;
}
template <LoDTensorLike X>
auto sequence_max_pool(const X& x, const PoolOptions& options = {}) {
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
MaxPool<value_type_t<X>, device_t<X>> sequence_min_pool(const E& executor, const X& x,
                                                        const PoolOptions& options = {}) {
  MaxPool<value_type_t<X>, device_t<X>> y{LoDTensor<value_type_t<X>, device_t<X>>(executor.resource()),
                                          LoDTensor<std::int64_t, device_t<X>>(executor.resource())};
  sequence_min_pool_into(executor, x, options, y.values, y.index);
  return y;
}
template <LoDTensorLike X>
auto sequence_min_pool(const X& x, const PoolOptions& options = {}) {
  return sequence_min_pool(default_executor<device_t<X>>(), x, options);
}

/// The gradient of `sequence_pool` for the sequences of `lod`, which is that of its x: dx has the rows and levels of
/// `lod`. SUM gives every row of a sequence its dy, AVERAGE and SQRT divide as they did, FIRST and LAST give it to one
/// row and 0 to the others. The rows of an empty sequence do not exist, so its dy goes nowhere. `dx` must not overlap
/// dy. Throws ShapeMismatch unless dy has one row for each sequence of `level`; std::invalid_argument for MAX and MIN,
/// whose gradients need the index (`sequence_max_pool_grad`, `sequence_min_pool_grad`).
template <Executor E, LoDTensorLike X, class Y>
void sequence_pool_grad_into(const E& executor, const X& dy, const LoD& lod, PoolType type, const PoolOptions& options,
                             Y&& dx) {
  detail::check_elements<op::sequence_pool_grad, value_type_t<X>>();
  const auto view = dy.view();
  if (type == PoolType::MAX || type == PoolType::MIN) {
    throw std::invalid_argument("sequence_pool_grad: of MAX and MIN, use sequence_max_pool_grad with the index");
  }
  const int level = detail::resolve_level(options.level, lod.levels());
  operation::check_row_count(view.rows(), lod.size(level), "sequence_pool_grad: dy");
  const LoDView sequences = lod.view();
  const auto out = operation::prepare(executor, dx, operation::SameLevels{sequences}, view.row_shape());
  kernel::SequencePoolGrad<E>::run(executor, view.data(), operation::segments(executor, out, level), view.row_size(),
                                   type, out.data());
}
template <Executor E, LoDTensorLike X>
LoDTensor<value_type_t<X>, device_t<X>> sequence_pool_grad(const E& executor, const X& dy, const LoD& lod,
                                                           PoolType type, const PoolOptions& options = {}) {
  LoDTensor<value_type_t<X>, device_t<X>> dx(executor.resource());
  sequence_pool_grad_into(executor, dy, lod, type, options, dx);
  return dx;
}
template <LoDTensorLike X>
auto sequence_pool_grad(const X& dy, const LoD& lod, PoolType type, const PoolOptions& options = {}) {
  return sequence_pool_grad(default_executor<device_t<X>>(), dy, lod, type, options);
}

/// The gradient of `sequence_max_pool`: dx, with the rows and levels of `lod`, has dy at the rows that won, for each
/// column, and 0 elsewhere. Throws ShapeMismatch where dy or index do not fit, OutOfRange for an index that is neither
/// -1 nor a row of its sequence; on a GPU, where nobody waits to look, such an index counts as -1.
template <Executor E, LoDTensorLike X, LoDTensorLike Index, class Y>
void sequence_max_pool_grad_into(const E& executor, const X& dy, const Index& index, const LoD& lod,
                                 const PoolOptions& options, Y&& dx) {
  detail::check_elements<op::sequence_max_pool_grad, value_type_t<X>>();
  const auto view = dy.view();
  const auto winners = index.view();
  const int level = detail::resolve_level(options.level, lod.levels());
  operation::check_row_count(view.rows(), lod.size(level), "sequence_max_pool_grad: dy");
  operation::check_row_count(winners.rows(), lod.size(level), "sequence_max_pool_grad: index");
  operation::check_row_shape(winners.row_shape(), view.row_shape(), "sequence_max_pool_grad: index");
  if constexpr (operation::on_cpu<E>) {
    const auto bounds = lod.view().absolute_offsets(level);
    const std::int64_t* winner = winners.data();
    for (std::size_t i = 0; i + 1 < bounds.size(); ++i) {
      for (std::int64_t column = 0; column < view.row_size(); ++column, ++winner) {
        if (*winner != -1 && (*winner < bounds[i] || *winner >= bounds[i + 1])) {
          throw OutOfRange(detail::text({"sequence_max_pool_grad: index ", *winner, " of sequence ", i,
                                         ", expected -1 or a row from ", bounds[i], " to ", bounds[i + 1] - 1}));
        }
      }
    }
  }
  const LoDView sequences = lod.view();
  const auto out = operation::prepare(executor, dx, operation::SameLevels{sequences}, view.row_shape());
  kernel::SequenceMaxPoolGrad<E>::run(executor, view.data(), winners.data(), operation::segments(executor, out, level),
                                      view.row_size(), out.data());
}
template <Executor E, LoDTensorLike X, LoDTensorLike Index>
LoDTensor<value_type_t<X>, device_t<X>> sequence_max_pool_grad(const E& executor, const X& dy, const Index& index,
                                                               const LoD& lod, const PoolOptions& options = {}) {
  LoDTensor<value_type_t<X>, device_t<X>> dx(executor.resource());
  sequence_max_pool_grad_into(executor, dy, index, lod, options, dx);
  return dx;
}
template <LoDTensorLike X, LoDTensorLike Index>
auto sequence_max_pool_grad(const X& dy, const Index& index, const LoD& lod, const PoolOptions& options = {}) {
  return sequence_max_pool_grad(default_executor<device_t<X>>(), dy, index, lod, options);
}

/// The gradient of `sequence_min_pool`: as that of `sequence_max_pool`, since only the index counts.
template <Executor E, LoDTensorLike X, LoDTensorLike Index, class Y>
void sequence_min_pool_grad_into(const E& executor, const X& dy, const Index& index, const LoD& lod,
                                 const PoolOptions& options, Y&& dx) {
  sequence_max_pool_grad_into(executor, dy, index, lod, options, dx);
}
template <Executor E, LoDTensorLike X, LoDTensorLike Index>
auto sequence_min_pool_grad(const E& executor, const X& dy, const Index& index, const LoD& lod,
                            const PoolOptions& options = {}) {
  return sequence_max_pool_grad(executor, dy, index, lod, options);
}
template <LoDTensorLike X, LoDTensorLike Index>
auto sequence_min_pool_grad(const X& dy, const Index& index, const LoD& lod, const PoolOptions& options = {}) {
  return sequence_max_pool_grad(dy, index, lod, options);
}

/// What `sequence_max_pool` and `sequence_min_pool` give, described.
struct MaxPoolDesc {
  LoDTensorDesc values;
  LoDTensorDesc index;
};

/// What `sequence_pool` gives, described: see <lod/infer.hpp>, also for all that follows it here.
inline LoDTensorDesc infer_sequence_pool(const LoDTensorDesc& x, PoolType, const PoolOptions& options = {}) {
  return infer::batch_for<op::sequence_pool>(x, "sequence_pool").pooled(options.level, "sequence_pool");
}
inline LoDTensorDesc infer_sequence_first_step(const LoDTensorDesc& x, const PoolOptions& options = {}) {
  return infer_sequence_pool(x, PoolType::FIRST, options);
}
inline LoDTensorDesc infer_sequence_last_step(const LoDTensorDesc& x, const PoolOptions& options = {}) {
  return infer_sequence_pool(x, PoolType::LAST, options);
}
inline MaxPoolDesc infer_sequence_max_pool(const LoDTensorDesc& x, const PoolOptions& options = {}) {
  const infer::Batch values =
      infer::batch_for<op::sequence_max_pool>(x, "sequence_max_pool").pooled(options.level, "sequence_max_pool");
  return {values, infer::Batch(DataType::INT64, values.rows, values.row_shape, 0)};
}
inline MaxPoolDesc infer_sequence_min_pool(const LoDTensorDesc& x, const PoolOptions& options = {}) {
  const infer::Batch values =
      infer::batch_for<op::sequence_min_pool>(x, "sequence_min_pool").pooled(options.level, "sequence_min_pool");
  return {values, infer::Batch(DataType::INT64, values.rows, values.row_shape, 0)};
}

}  // namespace lod::inline LOD_TARGET
