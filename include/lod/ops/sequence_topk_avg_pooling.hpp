// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup reductions
/// Pooling of matrices whose size is that of two sequences: the means of each row's greatest numbers.
#pragma once

#include <lod/error.hpp>
#include <lod/infer.hpp>
#include <lod/kernel.hpp>
#include <lod/lod_index.hpp>
#include <lod/ops/argument_list.hpp>
#include <lod/ops/sequence_sort.hpp>
#include <lod/output.hpp>
#include <lod/shape.hpp>
#include <lod/supports.hpp>
#include <lod/target.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>

namespace lod::inline LOD_INTERFACE::op {
struct sequence_topk_avg_pooling : elements::Floating {};
struct sequence_topk_avg_pooling_grad : elements::Floating {};
}  // namespace lod::inline LOD_INTERFACE::op

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {

namespace kernel {

/// Sequence i consists of `channels` matrices of rows.length(i) x columns.length(i) numbers, one after the other.
struct ChannelMatrices {
  Segments rows;
  Segments columns;
  std::int64_t channels;
};

/// run(executor, x, matrices, starts, topks, y): sequence i begins with number starts[i] of x. y[row][channel][k] is
/// the mean of the greatest topks[k] numbers. `topks` is in CPU memory.
template <class Executor>
struct SequenceTopKAvgPooling : Missing<Executor> {};
/// run(executor, dy, x, matrices, starts, topks, dx)
template <class Executor>
struct SequenceTopKAvgPoolingGrad : Missing<Executor> {};

}  // namespace kernel

namespace operation {

inline void check_topk_avg_options(std::span<const std::int64_t> topks, std::int64_t channel_num, const char* what) {
  if (channel_num < 1) {
    throw OutOfRange(detail::text({what, ": channel_num ", channel_num, ", expected 1 or more"}));
  }
  for (const std::int64_t k : topks) {
    if (k < 1) throw OutOfRange(detail::text({what, ": the mean of ", k, " numbers, expected 1 or more"}));
  }
}

/// The elements of a row of the result. Throws ShapeMismatch if they exceed 64 bits.
inline std::int64_t mean_count(std::span<const std::int64_t> topks, std::int64_t channel_num, const char* what) {
  std::int64_t means = 0;
  if (__builtin_mul_overflow(channel_num, static_cast<std::int64_t>(topks.size()), &means)) {
    throw ShapeMismatch(
        detail::text({what, ": ", channel_num, " channels of ", topks.size(), " means are more than 64 bits count"}));
  }
  return means;
}

/// The matrices of x, checked: their sizes are the lengths of the last levels of both LoDs.
template <Executor E, class View>
kernel::ChannelMatrices check_topk_avg_pooling(const E& executor, const View& x, const LoD& row_lod,
                                               const LoD& column_lod, std::span<const std::int64_t> topks,
                                               std::int64_t channel_num, const char* what) {
  detail::check_elements<op::sequence_topk_avg_pooling, value_type_t<View>>();
  check_has_level(x, what);
  check_has_level(row_lod, what);
  check_has_level(column_lod, what);
  check_scalar_rows(x, what);
  check_topk_avg_options(topks, channel_num, what);
  const kernel::Segments sequences = segments(x.lod_view(), -1);
  if (row_lod.size(-1) != sequences.size || column_lod.size(-1) != sequences.size) {
    throw ShapeMismatch(detail::text({what, ": ", row_lod.size(-1), " sequences of rows and ", column_lod.size(-1),
                                      " of columns, expected ", sequences.size, " of each, as x has"}));
  }
  const kernel::Segments rows_of = segments(row_lod.view(), -1), columns_of = segments(column_lod.view(), -1);
  for (std::int64_t i = 0; i < sequences.size; ++i) {
    const std::int64_t rows = rows_of.length(i), columns = columns_of.length(i);
    std::int64_t numbers = 0;
    if (__builtin_mul_overflow(rows, columns, &numbers) || __builtin_mul_overflow(numbers, channel_num, &numbers) ||
        numbers != sequences.length(i)) {
      throw ShapeMismatch(detail::text({what, ": sequence ", i, " has ", sequences.length(i), " rows, expected ",
                                        channel_num, " * ", rows, " * ", columns}));
    }
  }
  return {on_device(executor, row_lod.view(), rows_of), on_device(executor, column_lod.view(), columns_of),
          channel_num};
}

}  // namespace operation

/// x is a batch of matrices that compare two sequences: sequence i of its last level has channel_num of them, one after
/// the other, with as many rows as sequence i of `row_lod` is long and as many columns as that of `column_lod` (their
/// last levels). The result has, for each row of `row_lod`, the mean of the greatest topks[k] numbers of that row of
/// each channel: rows of channel_num * topks.size() elements, LoD: row_lod. Semantics: PaddlePaddle's
/// sequence_topk_avg_pooling, with any number of levels.
///
/// If there are fewer columns than topks[k], the sum of all is still divided by topks[k]; without columns the result is
/// 0. The greatest numbers are those of `sequence_topk`. The output must not overlap x. Throws InvalidLoD if x or a LoD
/// has no level, OutOfRange for a number in `topks` or a channel_num under 1, ShapeMismatch if the sizes do not fit.
template <Executor E, LoDTensorLike X, operation::ArgumentList Topks = std::initializer_list<std::int64_t>, class Y>
void sequence_topk_avg_pooling_into(const E& executor, const X& x, const LoD& row_lod, const LoD& column_lod,
                                    const Topks& topks, std::int64_t channel_num, Y&& y) {
  const auto view = x.view();
  const auto numbers = operation::ids_of(topks);
  const auto matrices = operation::check_topk_avg_pooling(executor, view, row_lod, column_lod, numbers, channel_num,
                                                          "sequence_topk_avg_pooling");
  const std::int64_t means = operation::mean_count(numbers, channel_num, "sequence_topk_avg_pooling");
  const auto out = operation::prepare<value_type_t<X>>(executor, "sequence_topk_avg_pooling", y,
                                                       operation::SameLevels{row_lod.view()}, Shape{means},
                                                       {{"x", view}, {"topks", numbers}});
  kernel::SequenceTopKAvgPooling<E>::run(executor, view.data(), matrices, operation::segments(executor, view, -1),
                                         numbers, out.data());
}
template <Executor E, LoDTensorLike X, operation::ArgumentList Topks = std::initializer_list<std::int64_t>>
[[nodiscard]] LoDTensor<value_type_t<X>, device_t<X>> sequence_topk_avg_pooling(const E& executor, const X& x,
                                                                                const LoD& row_lod,
                                                                                const LoD& column_lod,
                                                                                const Topks& topks,
                                                                                std::int64_t channel_num) {
  LoDTensor<value_type_t<X>, device_t<X>> y(executor.resource());
  sequence_topk_avg_pooling_into(executor, x, row_lod, column_lod, topks, channel_num, y);
  return y;
}
template <LoDTensorLike X, operation::ArgumentList Topks = std::initializer_list<std::int64_t>>
[[nodiscard]] auto sequence_topk_avg_pooling(const X& x, const LoD& row_lod, const LoD& column_lod, const Topks& topks,
                                             std::int64_t channel_num) {
  return sequence_topk_avg_pooling(default_executor<device_t<X>>(), x, row_lod, column_lod, topks, channel_num);
}

/// The gradient of `sequence_topk_avg_pooling` with the same arguments: a number that is part of the mean of topks[k]
/// gets dy / topks[k] from it. LoD and row shape as x; the levels of dy are ignored. `dx` must overlap neither dy nor
/// x. Throws as `sequence_topk_avg_pooling`, and ShapeMismatch unless dy has the rows of its result.
template <Executor E, LoDTensorLike DY, LoDTensorLike X,
          operation::ArgumentList Topks = std::initializer_list<std::int64_t>, class DX>
void sequence_topk_avg_pooling_grad_into(const E& executor, const DY& dy, const X& x, const LoD& row_lod,
                                         const LoD& column_lod, const Topks& topks, std::int64_t channel_num, DX&& dx) {
  static_assert(std::same_as<value_type_t<DY>, value_type_t<X>>,
                "sequence_topk_avg_pooling_grad: dy and x must have one element type");
  const auto gradient = dy.view();
  const auto view = x.view();
  const auto numbers = operation::ids_of(topks);
  const auto matrices = operation::check_topk_avg_pooling(executor, view, row_lod, column_lod, numbers, channel_num,
                                                          "sequence_topk_avg_pooling_grad");
  operation::check_row_count(gradient.rows(), row_lod.rows(), "sequence_topk_avg_pooling_grad: dy");
  operation::check_row_shape(gradient.row_shape(),
                             Shape{operation::mean_count(numbers, channel_num, "sequence_topk_avg_pooling_grad")},
                             "sequence_topk_avg_pooling_grad: dy");
  const auto out = operation::prepare<value_type_t<X>>(executor, {"sequence_topk_avg_pooling_grad", "dx"}, dx,
                                                       operation::SameLevels{view.lod_view()}, view.row_shape(),
                                                       {{"dy", gradient}, {"x", view}, {"topks", numbers}});
  kernel::SequenceTopKAvgPoolingGrad<E>::run(executor, gradient.data(), view.data(), matrices,
                                             operation::segments(executor, view, -1), numbers, out.data());
}
template <Executor E, LoDTensorLike DY, LoDTensorLike X,
          operation::ArgumentList Topks = std::initializer_list<std::int64_t>>
[[nodiscard]] LoDTensor<value_type_t<X>, device_t<X>> sequence_topk_avg_pooling_grad(const E& executor, const DY& dy,
                                                                                     const X& x, const LoD& row_lod,
                                                                                     const LoD& column_lod,
                                                                                     const Topks& topks,
                                                                                     std::int64_t channel_num) {
  LoDTensor<value_type_t<X>, device_t<X>> dx(executor.resource());
  sequence_topk_avg_pooling_grad_into(executor, dy, x, row_lod, column_lod, topks, channel_num, dx);
  return dx;
}
template <LoDTensorLike DY, LoDTensorLike X, operation::ArgumentList Topks = std::initializer_list<std::int64_t>>
[[nodiscard]] auto sequence_topk_avg_pooling_grad(const DY& dy, const X& x, const LoD& row_lod, const LoD& column_lod,
                                                  const Topks& topks, std::int64_t channel_num) {
  return sequence_topk_avg_pooling_grad(default_executor<device_t<X>>(), dy, x, row_lod, column_lod, topks,
                                        channel_num);
}

/// The result of `sequence_topk_avg_pooling`, described: see <lod/infer.hpp>.
template <operation::ArgumentList Topks = std::initializer_list<std::int64_t>>
LoDTensorDesc infer_sequence_topk_avg_pooling(const LoDTensorDesc& x, const LoDTensorDesc& row_lod,
                                              const LoDTensorDesc& column_lod, const Topks& topks,
                                              std::int64_t channel_num) {
  const char* const what = "sequence_topk_avg_pooling";
  const infer::Batch matrices = infer::batch_for<op::sequence_topk_avg_pooling>(x, what);
  infer::Batch y(row_lod, what);
  matrices.check_has_level(what);
  y.check_has_level(what);
  infer::Batch(column_lod, what).check_has_level(what);
  matrices.check_scalar_rows(what, "one number a row");
  const auto numbers = operation::ids_of(topks);
  operation::check_topk_avg_options(numbers, channel_num, what);
  y.type = matrices.type;
  y.row_shape = {infer::product({channel_num, static_cast<std::int64_t>(numbers.size())}, what)};
  return y;
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET
