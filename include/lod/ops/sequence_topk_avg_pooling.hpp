// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup reductions
/// Pooling of matrices whose sizes are the lengths of two sequences: the means of each row's greatest numbers.
#pragma once

#include <lod/core/error.hpp>
#include <lod/core/lod_index.hpp>
#include <lod/core/shape.hpp>
#include <lod/ops/argument_list.hpp>
#include <lod/ops/declaration.hpp>
#include <lod/ops/infer.hpp>
#include <lod/ops/sequence_sort.hpp>

#include <cstdint>
#include <span>

namespace lod::inline LOD_INTERFACE::op {
struct sequence_topk_avg_pooling : elements::Floating {
  static constexpr Text text{"x, row_lod, column_lod, topks, channel_num",
                             "The means of the greatest numbers of each row of a batch of matrices."};
};
struct sequence_topk_avg_pooling_grad : elements::Floating {
  static constexpr Text text{"dy, x, row_lod, column_lod, topks, channel_num"};
};
}  // namespace lod::inline LOD_INTERFACE::op

namespace lod::inline LOD_INTERFACE::kernel {

/// Sequence i consists of `channels` matrices of rows.length(i) x columns.length(i) numbers, one after the other.
struct ChannelMatrices {
  Segments rows;
  Segments columns;
  std::int64_t channels;
};

/// run(executor, x, matrices, starts, topks, y): sequence i begins with number starts[i] of x. y[row][channel][k] is
/// the mean of the greatest topks[k] numbers. `topks` is in CPU memory.
struct SequenceTopKAvgPooling {};
/// run(executor, dy, x, matrices, starts, topks, dx)
struct SequenceTopKAvgPoolingGrad {};

}  // namespace lod::inline LOD_INTERFACE::kernel

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {

namespace operation {

inline void check_topk_avg_options(std::span<const std::int64_t> topks, std::int64_t channel_num, const char* what) {
  if (channel_num < 1) {
    throw OutOfRange(detail::text({what, ": channel_num ", channel_num, ", expected 1 or more"}));
  }
  for (const std::int64_t k : topks) {
    if (k < 1) throw OutOfRange(detail::text({what, ": the mean of ", k, " numbers, expected 1 or more"}));
  }
}

/// The row size of the result. Throws ShapeMismatch if it exceeds 64 bits.
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

template <>
struct Declared<op::sequence_topk_avg_pooling> : Takes<Tensor, LoD, LoD, IdList, std::int64_t>,
                                                 Launches<kernel::SequenceTopKAvgPooling> {
  static constexpr const char* name = "sequence_topk_avg_pooling";
  using Gradient = op::sequence_topk_avg_pooling_grad;
  template <Executor E, class T>
  static void run(const E& executor, const Input<E, T>& x, const LoD& row_lod, const LoD& column_lod,
                  std::span<const std::int64_t> topks, std::int64_t channel_num, const To<E, T>& y) {
    const auto matrices = check_topk_avg_pooling(executor, x, row_lod, column_lod, topks, channel_num, name);
    const std::int64_t means = mean_count(topks, channel_num, name);
    const auto out = prepare(executor, name, y, SameLevels{row_lod.view()}, Shape{means}, {{"x", x}, {"topks", topks}});
    launch(kernel::SequenceTopKAvgPooling(), executor, x.data(), matrices, segments(executor, x, -1), topks,
           out.data());
  }
};

template <>
struct Declared<op::sequence_topk_avg_pooling_grad> : Takes<Tensor, Tensor, LoD, LoD, IdList, std::int64_t>,
                                                      Launches<kernel::SequenceTopKAvgPoolingGrad> {
  static constexpr const char* name = "sequence_topk_avg_pooling_grad";
  template <Executor E, class T>
  static void run(const E& executor, const Input<E, T>& dy, const Input<E, T>& x, const LoD& row_lod,
                  const LoD& column_lod, std::span<const std::int64_t> topks, std::int64_t channel_num,
                  const To<E, T>& dx) {
    const auto matrices = check_topk_avg_pooling(executor, x, row_lod, column_lod, topks, channel_num, name);
    check_row_count(dy.rows(), row_lod.rows(), {name, "dy"});
    check_row_shape(dy.row_shape(), Shape{mean_count(topks, channel_num, name)}, {name, "dy"});
    const auto out = prepare(executor, {name, "dx"}, dx, SameLevels{x.lod_view()}, x.row_shape(),
                             {{"dy", dy}, {"x", x}, {"topks", topks}});
    launch(kernel::SequenceTopKAvgPoolingGrad(), executor, dy.data(), x.data(), matrices, segments(executor, x, -1),
           topks, out.data());
  }
};

}  // namespace operation

/// x is a batch of matrices that compare two sequences. Sequence i of its last level consists of channel_num matrices,
/// one after the other, with a row for each row of sequence i of `row_lod` and a column for each row of sequence i of
/// `column_lod` (at their last levels). For each row of `row_lod`, and for each channel and each k, the result has the
/// mean of the greatest topks[k] numbers of that row: rows of channel_num * topks.size() elements, LoD: row_lod.
/// Semantics: PaddlePaddle's sequence_topk_avg_pooling, with any number of levels.
///
/// If there are fewer columns than topks[k], the sum of all is still divided by topks[k]; if there are no columns, the
/// result is 0. The greatest numbers are those of `sequence_topk`. The output must not overlap x. Throws InvalidLoD if
/// x or a LoD has no level, OutOfRange for a number in `topks` or a channel_num under 1, ShapeMismatch if the sizes do
/// not fit.
inline constexpr operation::Call<op::sequence_topk_avg_pooling> sequence_topk_avg_pooling{};
inline constexpr operation::CallInto<op::sequence_topk_avg_pooling> sequence_topk_avg_pooling_into{};

/// The gradient of `sequence_topk_avg_pooling` with the same arguments: a number that is part of a mean of topks[k]
/// numbers gets dy / topks[k] from it. LoD and row shape as x; the levels of dy are ignored. `dx` must overlap neither
/// dy nor x. Throws as `sequence_topk_avg_pooling`, and ShapeMismatch unless dy has the rows of its result.
inline constexpr operation::Call<op::sequence_topk_avg_pooling_grad> sequence_topk_avg_pooling_grad{};
inline constexpr operation::CallInto<op::sequence_topk_avg_pooling_grad> sequence_topk_avg_pooling_grad_into{};

/// The result of `sequence_topk_avg_pooling`, described: see <lod/infer.hpp>.
inline LoDTensorDesc infer_sequence_topk_avg_pooling(const LoDTensorDesc& x, const LoDTensorDesc& row_lod,
                                                     const LoDTensorDesc& column_lod, const operation::IdList& topks,
                                                     std::int64_t channel_num) {
  const char* const what = "sequence_topk_avg_pooling";
  const infer::Batch matrices = infer::batch_for<op::sequence_topk_avg_pooling>(x, what);
  infer::Batch y(row_lod, what);
  matrices.check_has_level(what);
  y.check_has_level(what);
  infer::Batch(column_lod, what).check_has_level(what);
  matrices.check_scalar_rows(what, "one number a row");
  operation::check_topk_avg_options(topks, channel_num, what);
  y.type = matrices.type;
  y.row_shape = {infer::product({channel_num, static_cast<std::int64_t>(topks.size())}, what)};
  return y;
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET
