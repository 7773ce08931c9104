// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup reductions
/// The mean and the variance of the rows of each sequence.
#pragma once

#include <lod/ops/declaration.hpp>
#include <lod/ops/infer.hpp>

namespace lod::inline LOD_INTERFACE::op {
struct sequence_mean_var : elements::Floating {
  static constexpr Text text{"x", "The mean and the variance of each sequence, column by column."};
};
struct sequence_mean_var_grad : elements::Floating {
  static constexpr Text text{"dmean, dvariance, x"};
};
}  // namespace lod::inline LOD_INTERFACE::op

namespace lod::inline LOD_INTERFACE {

/// The options of `sequence_mean_var` and of its gradient.
struct MeanVarOptions {
  int level = -1;         ///< the level whose sequences are described; by default the last
  bool unbiased = false;  ///< whether the squares are divided by n - 1 instead of n
};

/// The results of `sequence_mean_var`: one row each for each sequence.
template <class T, class Device>
struct MeanVar {
  LoDTensor<T, Device> mean;      ///< sum(x) / n
  LoDTensor<T, Device> variance;  ///< sum((x - mean)^2) / n, or / (n - 1)
};

/// The results of `sequence_mean_var`, described.
struct MeanVarDesc {
  LoDTensorDesc mean;
  LoDTensorDesc variance;
};

}  // namespace lod::inline LOD_INTERFACE

namespace lod::inline LOD_INTERFACE::kernel {
/// run(executor, x, sequences, row_size, unbiased, mean, variance)
struct SequenceMeanVar {};
/// run(executor, dmean, dvariance, x, sequences, row_size, unbiased, dx); dx may be x.
struct SequenceMeanVarGrad {};
}  // namespace lod::inline LOD_INTERFACE::kernel

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {

namespace operation {

template <>
struct Declared<op::sequence_mean_var>
    : Takes<Tensor>, With<MeanVarOptions>, GivesAll<MeanVar, Tensor, Tensor>, Launches<kernel::SequenceMeanVar> {
  static constexpr const char* name = "sequence_mean_var";
  using Gradient = op::sequence_mean_var_grad;
  template <Executor E, class T>
  static void run(const E& executor, const Input<E, T>& x, const MeanVarOptions& options, const To<E, T>& mean,
                  const To<E, T>& variance) {
    check_has_level(x, name);
    const int level = detail::resolve_level(options.level, x.levels(), name);
    const LevelsAbove above{x.lod_view(), level};
    const auto to_mean = prepare(executor, {name, "mean"}, mean, above, x.row_shape(), {{"x", x}});
    const auto to_variance =
        prepare(executor, {name, "variance"}, variance, above, x.row_shape(), {{"x", x}, {"mean", mean}});
    launch(kernel::SequenceMeanVar(), executor, x.data(), segments(executor, x, level), x.row_size(), options.unbiased,
           to_mean.data(), to_variance.data());
  }
};

template <>
struct Declared<op::sequence_mean_var_grad>
    : Takes<Tensor, Tensor, Tensor>, With<MeanVarOptions>, Launches<kernel::SequenceMeanVarGrad> {
  static constexpr const char* name = "sequence_mean_var_grad";
  template <Executor E, class T>
  static void run(const E& executor, const Input<E, T>& dmean, const Input<E, T>& dvariance, const Input<E, T>& x,
                  const MeanVarOptions& options, const To<E, T>& dx) {
    check_has_level(x, {name, "x"});
    const int level = detail::resolve_level(options.level, x.levels(), name);
    const kernel::Segments sequences = segments(executor, x, level);
    check_row_count(dmean.rows(), sequences.size, {name, "dmean"});
    check_row_shape(dmean.row_shape(), x.row_shape(), {name, "dmean"});
    check_row_count(dvariance.rows(), sequences.size, {name, "dvariance"});
    check_row_shape(dvariance.row_shape(), x.row_shape(), {name, "dvariance"});
    const auto out = prepare(executor, {name, "dx"}, dx, SameLevels{x.lod_view()}, x.row_shape(),
                             {{"dmean", dmean}, {"dvariance", dvariance}, in_place("x", x)});
    launch(kernel::SequenceMeanVarGrad(), executor, dmean.data(), dvariance.data(), x.data(), sequences, x.row_size(),
           options.unbiased, out.data());
  }
};

}  // namespace operation

/// The mean and the variance of all rows of each sequence of `level`, in one row each. Column by column,
/// mean = sum(x) / n and variance = sum((x - mean)^2) / n, or / (n - 1) if `unbiased`. Row shape as x; LoD: the levels
/// of x above `level`.
///
/// x is read once, and nothing cancels: distances from one of the rows are summed, and parts of a sequence are joined
/// by their means and squares, in the fixed order of `sequence_pool`. So a variance is never negative, is exactly 0 if
/// all rows are equal, and is as exact with an offset common to all rows as without; the bits depend neither on threads
/// nor on the rest of the batch. float16 and bfloat16 are computed as float. A mean of finite numbers is always finite,
/// and so is a variance that a T can hold. An empty sequence has mean and variance 0. A single row has variance 0, or
/// NaN if `unbiased`, as in NumPy and PyTorch. An infinite number makes the mean infinite, or NaN among infinities of
/// both signs, and the variance NaN; NaN propagates to both. The outputs must not overlap x. Throws InvalidLoD if x has
/// no level, OutOfRange for the level.
inline constexpr operation::Call<op::sequence_mean_var> sequence_mean_var{};
inline constexpr operation::CallInto<op::sequence_mean_var> sequence_mean_var_into{};

/// The gradient of `sequence_mean_var`: dx = dmean / n + dvariance * 2 / n * (x - mean), with n - 1 in the second
/// quotient if `unbiased`; dmean and dvariance are the rows for the sequence. The means are computed again, with more
/// digits than a T has. Levels and row shape as x; the levels of dmean and dvariance are ignored. A single row gets NaN
/// if `unbiased`, as in PyTorch, since it has no such variance. `dx` may be x's own tensor, but must not overlap x
/// otherwise. Throws as `sequence_mean_var`, and ShapeMismatch unless dmean and dvariance have one row, of the row
/// shape of x, for each sequence.
inline constexpr operation::Call<op::sequence_mean_var_grad> sequence_mean_var_grad{};
inline constexpr operation::CallInto<op::sequence_mean_var_grad> sequence_mean_var_grad_into{};

/// The results of `sequence_mean_var`, described: see <lod/infer.hpp>.
inline MeanVarDesc infer_sequence_mean_var(const LoDTensorDesc& x, const MeanVarOptions& options = {}) {
  const infer::Batch pooled =
      infer::batch_for<op::sequence_mean_var>(x, "sequence_mean_var").pooled(options.level, "sequence_mean_var");
  return {pooled, pooled};
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET
