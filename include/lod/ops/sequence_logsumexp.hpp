// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup reductions
/// The logarithm of the sum of exponentials over the rows of each sequence.
#pragma once

#include <lod/ops/declaration.hpp>
#include <lod/ops/infer.hpp>
#include <lod/ops/sequence_softmax.hpp>

namespace lod::inline LOD_INTERFACE::op {
struct sequence_logsumexp : elements::Floating {
  static constexpr Text text{"x", "log(sum(exp(x))) over each sequence, column by column."};
};
struct sequence_logsumexp_grad : elements::Floating {
  static constexpr Text text{"dy, x"};
};
}  // namespace lod::inline LOD_INTERFACE::op

namespace lod::inline LOD_INTERFACE {

/// The options of `sequence_logsumexp`.
struct LogsumexpOptions {
  int level = -1;  ///< the level whose sequences are summed over; by default the last
};

}  // namespace lod::inline LOD_INTERFACE

namespace lod::inline LOD_INTERFACE::kernel {
/// run(executor, x, sequences, row_size, y)
struct SequenceLogsumexp {};
/// run(executor, factors, sequences, row_size, y): the rows of sequence i of y times row i of the factors.
struct ScaleSequences {};
}  // namespace lod::inline LOD_INTERFACE::kernel

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {

namespace operation {

template <>
struct Declared<op::sequence_logsumexp> : Takes<Tensor>, With<LogsumexpOptions>, Launches<kernel::SequenceLogsumexp> {
  static constexpr const char* name = "sequence_logsumexp";
  using Gradient = op::sequence_logsumexp_grad;
  template <Executor E, class T>
  static void run(const E& executor, const Input<E, T>& x, const LogsumexpOptions& options, const To<E, T>& y) {
    check_has_level(x, name);
    const int level = detail::resolve_level(options.level, x.levels(), name);
    const auto out = prepare(executor, name, y, LevelsAbove{x.lod_view(), level}, x.row_shape(), {{"x", x}});
    launch(kernel::SequenceLogsumexp(), executor, x.data(), segments(executor, x, level), x.row_size(), out.data());
  }
};

template <>
struct Declared<op::sequence_logsumexp_grad>
    : Takes<Tensor, Tensor>, With<LogsumexpOptions>, Launches<kernel::ScaleSequences> {
  static constexpr const char* name = "sequence_logsumexp_grad";
  template <Executor E, class T>
  static void run(const E& executor, const Input<E, T>& dy, const Input<E, T>& x, const LogsumexpOptions& options,
                  const To<E, T>& dx) {
    check_has_level(x, {name, "x"});
    const int level = detail::resolve_level(options.level, x.levels(), name);
    const kernel::Segments sequences = segments(executor, x, level);
    check_row_count(dy.rows(), sequences.size, {name, "dy"});
    check_row_shape(dy.row_shape(), x.row_shape(), {name, "dy"});
    const auto out =
        prepare(executor, {name, "dx"}, dx, SameLevels{x.lod_view()}, x.row_shape(), {{"dy", dy}, in_place("x", x)});
    launch(kernel::SequenceSoftmax(), executor, x.data(), sequences, x.row_size(), false, out.data());
    launch(kernel::ScaleSequences(), executor, dy.data(), sequences, x.row_size(), out.data());
  }
};

}  // namespace operation

/// log(sum(exp(x))) over all rows of each sequence of `level`, column by column: one row for each sequence. Row shape
/// as x; LoD: the levels of x above `level`. This is a smooth maximum, whose gradient is the softmax.
///
/// The greatest number of the column is subtracted first, so nothing overflows. An empty sequence gives -inf, as does a
/// column of nothing but -inf; +inf gives +inf, NaN propagates. Subnormal numbers may count as 0. Each sum has a fixed
/// order: the bits depend neither on threads nor on the rest of the batch. x is read twice. The output must not overlap
/// x. Throws InvalidLoD if x has no level, OutOfRange for the level.
inline constexpr operation::Call<op::sequence_logsumexp> sequence_logsumexp{};
inline constexpr operation::CallInto<op::sequence_logsumexp> sequence_logsumexp_into{};

/// The gradient of `sequence_logsumexp`: the softmax of x over each sequence of `level`, times the row of dy for that
/// sequence. Levels and row shape as x; the levels of dy are ignored. A column of nothing but -inf has the
/// gradient 0. `dx` may be x's own tensor, but must not overlap x otherwise. Throws as `sequence_logsumexp`, and
/// ShapeMismatch unless dy has one row, of the row shape of x, for each sequence.
inline constexpr operation::Call<op::sequence_logsumexp_grad> sequence_logsumexp_grad{};
inline constexpr operation::CallInto<op::sequence_logsumexp_grad> sequence_logsumexp_grad_into{};

/// The result of `sequence_logsumexp`, described: see <lod/infer.hpp>.
inline LoDTensorDesc infer_sequence_logsumexp(const LoDTensorDesc& x, const LogsumexpOptions& options = {}) {
  return infer::batch_for<op::sequence_logsumexp>(x, "sequence_logsumexp").pooled(options.level, "sequence_logsumexp");
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET
