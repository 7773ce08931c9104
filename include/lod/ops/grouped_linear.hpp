// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup row_preserving
/// Linear layers of which each sequence chooses one, as experts and adapters are: each row times the matrix of its
/// sequence's group.
#pragma once

#include <lod/core/error.hpp>
#include <lod/core/target.hpp>
#include <lod/ops/checked_ids.hpp>
#include <lod/ops/declaration.hpp>
#include <lod/ops/infer.hpp>
#include <lod/ops/jagged_bmm.hpp>
#include <lod/ops/kernel.hpp>
#include <lod/ops/output.hpp>
#include <lod/ops/staging.hpp>
#include <lod/ops/supports.hpp>

#include <algorithm>
#include <concepts>
#include <cstdint>

namespace lod::inline LOD_INTERFACE::op {
struct grouped_linear : elements::Floating {
  static constexpr Text text{"x, weights, group_of",
                             "The rows of each sequence of x times the matrix of its group, a row of weights."};
};
struct grouped_linear_grad : elements::Floating {
  static constexpr Text text{"dy, x, weights, group_of",
                             "The gradients of `grouped_linear` with respect to x and weights."};
};
}  // namespace lod::inline LOD_INTERFACE::op

namespace lod::inline LOD_INTERFACE {

/// The options of `grouped_linear` and its gradient.
struct GroupedLinearOptions {
  int level = -1;  ///< the level whose sequences have a group each; by default the last
};

/// The result of `grouped_linear_grad`.
template <class T, class Device>
struct GroupedLinearGrad {
  LoDTensor<T, Device> dx;
  LoDTensor<T, Device> dweights;
};

}  // namespace lod::inline LOD_INTERFACE

namespace lod::inline LOD_INTERFACE::kernel {
/// run(executor, sequences, group_of, groups, offsets, rows): lists the rows of the sequences by groups, in their order
/// within each: those of group g are rows[offsets[g]], ..., rows[offsets[g + 1] - 1], counted from the first row of the
/// first sequence. On a GPU, rows of sequences whose group is negative follow those of all groups.
struct RowsByGroup {};
}  // namespace lod::inline LOD_INTERFACE::kernel

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {

namespace operation {

template <>
struct Declared<op::grouped_linear> : Takes<Tensor, Tensor, Ids>, With<GroupedLinearOptions> {
  static constexpr const char* name = "grouped_linear";
  using Gradient = op::grouped_linear_grad;
  /// Throws ShapeMismatch unless there is a number for each sequence.
  template <class Groups>
  static void check_groups(const Groups& group_of, std::int64_t sequences, const char* what) {
    check_row_count(group_of.rows(), sequences, {what, "group_of"}, ", one for each sequence");
    if (group_of.row_size() != 1) {
      throw ShapeMismatch(detail::text({what, ": group_of: rows of shape ", to_string(group_of.row_shape()),
                                        ", expected one number for each sequence"}));
    }
  }
  template <Executor E, class T>
  static void run(const E& executor, const Input<E, T>& x, const Input<E, T>& weights, const IdsInput<E>& group_of,
                  const GroupedLinearOptions& options, const To<E, T>& y) {
    check_has_level(x, name);
    const int level = detail::resolve_level(options.level, x.levels(), name);
    check_groups(group_of, x.lod_view().size(level), name);
    const Shape row_shape = row_shape_of_products(weights.row_shape(), x.row_size(), {name, "weights"});
    const CheckedIds<E> checked(executor, group_of, weights.rows(), name);
    const auto out = prepare(executor, name, y, SameLevels{x.lod_view()}, row_shape,
                             {{"x", x}, {"weights", weights}, {"group_of", group_of}});
    launch(kernel::JaggedDenseProduct(), executor, x.data(), segments(executor, x, level), x.row_size(), weights.data(),
           checked.data(), false, out.row_size(), out.data());
  }
};

template <>
struct Declared<op::grouped_linear_grad> : Takes<Tensor, Tensor, Tensor, Ids>,
                                           With<GroupedLinearOptions>,
                                           GivesAll<GroupedLinearGrad, Tensor, Tensor>,
                                           LaunchesOnIds<kernel::RowsByGroup> {
  static constexpr const char* name = "grouped_linear_grad";
  template <Executor E, class T>
  static void run(const E& executor, const Input<E, T>& dy, const Input<E, T>& x, const Input<E, T>& weights,
                  const IdsInput<E>& group_of, const GroupedLinearOptions& options, const To<E, T>& dx,
                  const To<E, T>& dweights) {
    check_has_level(x, {name, "x"});
    const int level = detail::resolve_level(options.level, x.levels(), name);
    Declared<op::grouped_linear>::check_groups(group_of, x.lod_view().size(level), name);
    check_row_count(dy.rows(), x.rows(), {name, "dy"});
    check_row_shape(dy.row_shape(), row_shape_of_products(weights.row_shape(), x.row_size(), {name, "weights"}),
                    {name, "dy"});
    const std::int64_t groups = weights.rows();
    const CheckedIds<E> checked(executor, group_of, groups, name);
    const kernel::Segments sequences = segments(executor, x, level);
    const OtherMemory by_y("dy", dy), by_x("x", x), by_weights("weights", weights), by_groups("group_of", group_of);
    const auto out = prepare(executor, {name, "dx"}, dx, SameLevels{x.lod_view()}, x.row_shape(),
                             {by_y, by_x, by_weights, by_groups});
    const auto out_weights = prepare(executor, {name, "dweights"}, dweights, PlainRows{groups}, weights.row_shape(),
                                     {by_y, by_x, by_weights, by_groups, {"dx", dx}});
    // There may be any number of rows without elements, too many to list; their sums have no numbers either.
    const bool any = weights.row_size() > 0;
    const kernel::Scratch<E, std::int64_t> offsets(executor, any ? detail::saturated_sum(groups, 1) : 0);
    const kernel::Scratch<E, std::int64_t> rows(executor, any ? x.rows() : 0);
    const auto sum = [&](const kernel::Segments& of) {
      launch(kernel::JaggedJaggedProduct(), executor, x.data(), dy.data(), of,
             static_cast<const std::int64_t*>(rows.data()), x.row_size(), dy.row_size(), out_weights.data());
    };
    kernel::Segments by_group;
    if (any) {
      launch(kernel::RowsByGroup(), executor, sequences, checked.data(), groups, offsets.data(), rows.data());
      by_group = kernel::Segments(offsets.data(), groups, x.rows(), 0, x.rows());
      if constexpr (std::derived_from<E, CpuExecutor>) {
        by_group.max_rows = 0;
        for (std::int64_t g = 0; g < groups; ++g) by_group.max_rows = std::max(by_group.max_rows, by_group.length(g));
        sum(by_group.none());  // takes memory before anything is written
      }
    }
    launch(kernel::JaggedDenseProduct(), executor, dy.data(), sequences, dy.row_size(), weights.data(), checked.data(),
           true, x.row_size(), out.data());
    if (any) sum(by_group);
  }
};

}  // namespace operation

/// y[r] = x[r] * weights[group_of[i]] for each row r of each sequence i of `level`: a row vector of K numbers times a
/// matrix. Rows of x may have any shape, of K numbers; weights has a row of shape {K, row shape of y...} for each
/// group, and group_of the number of a group for each sequence, also for empty ones; the levels of both do not matter.
/// LoD as x.
///
/// Sums of K products, float16 and bfloat16 as float, rounded once; on the CPU, and over Thrust, the bits of a row are
/// those that `linear` gives for that row and matrix. One pass over x, which is not sorted: 2 K N operations a row of N
/// numbers; sequences that follow each other and have one group are one product on the CPU. The output must not overlap
/// the arguments. Throws InvalidLoD if x has no level, OutOfRange for the level, ShapeMismatch if weights or group_of
/// do not fit, and OutOfRange for a group outside [0, weights.rows()), with nothing changed; on a GPU rows of such a
/// sequence are 0, and the next call that waits for the executor throws.
inline constexpr operation::Call<op::grouped_linear> grouped_linear{};
inline constexpr operation::CallInto<op::grouped_linear> grouped_linear_into{};

/// The gradients of `grouped_linear` with the same options: dx with the levels and the row shape of x; dweights, shape
/// as the weights, without levels, for each group the sum over all rows of its sequences. A group without rows has
/// gradient 0. The levels of dy are ignored.
///
/// Sums over the rows of a group, in their order in the batch, consist of fixed parts of 256 rows: the bits depend
/// neither on threads nor on other groups, and the error does not grow with the number of rows. Needs 8 bytes a row for
/// a list of the groups' rows, on a GPU 32 and a sort. The outputs must not overlap the arguments. Throws as
/// `grouped_linear`, and ShapeMismatch unless dy has the shape of its result; on a GPU rows of a sequence whose group
/// is outside get dx 0, and are left out of the sums.
inline constexpr operation::Call<op::grouped_linear_grad> grouped_linear_grad{};
inline constexpr operation::CallInto<op::grouped_linear_grad> grouped_linear_grad_into{};

/// The result of `grouped_linear`, described: see <lod/infer.hpp>.
inline LoDTensorDesc infer_grouped_linear(const LoDTensorDesc& x, const LoDTensorDesc& weights,
                                          const LoDTensorDesc& group_of, const GroupedLinearOptions& options = {}) {
  infer::Batch y = infer::batch_for<op::grouped_linear>(x, "grouped_linear");
  const infer::Batch matrices(weights, "grouped_linear: weights"), groups(group_of, "grouped_linear: group_of");
  infer::check_type(matrices.type, y.type, "grouped_linear: weights");
  infer::check_ids(groups.type, "grouped_linear: group_of");
  y.level(options.level, "grouped_linear");
  groups.check_scalar_rows("grouped_linear: group_of", "one number for each sequence");
  y.row_shape = operation::infer_products(matrices.row_shape, y.row_size("grouped_linear"), "grouped_linear: weights");
  return y;
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET
