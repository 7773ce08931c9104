// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup restructuring
/// Expansion: sequences, or single rows, repeated as often as a LoD says.
#pragma once

#include <lod/error.hpp>
#include <lod/infer.hpp>
#include <lod/kernel.hpp>
#include <lod/lod_index.hpp>
#include <lod/ops/run_copy.hpp>
#include <lod/ops/sequence_pool.hpp>
#include <lod/output.hpp>
#include <lod/supports.hpp>
#include <lod/target.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace lod::inline LOD_INTERFACE::op {
struct sequence_expand : elements::Arithmetic {};
struct sequence_expand_grad : elements::Arithmetic {};
struct sequence_expand_as : elements::Arithmetic {};
struct sequence_expand_as_grad : elements::Arithmetic {};
}  // namespace lod::inline LOD_INTERFACE::op

namespace lod::inline LOD_INTERFACE {

/// The options of `sequence_expand`.
struct ExpandOptions {
  int ref_level = -1;  ///< the level of y_lod whose lengths count; by default the last
};

}  // namespace lod::inline LOD_INTERFACE

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {

namespace kernel {
/// run(executor, dy, blocks, sequences, row_size, dx): in dx, the rows of sequence i are the sum of those of its
/// copies, which are contiguous in sequence i of `blocks` in dy.
template <class Executor>
struct SequenceExpandGrad : Missing<Executor> {};
}  // namespace kernel

namespace operation {

/// The sequences of a level of a LoD, counted in sequences of the next level or in rows.
inline kernel::Segments lengths_of(const LoD& lod, int level) {
  return {lod.offsets(level).data(), lod.size(level), lod.max_length(level)};
}

/// Throws ShapeMismatch unless there is one number of repeats for each element of the batch.
inline void check_repeats(std::int64_t elements, const LoD& y_lod, int level, const char* what) {
  if (elements != y_lod.size(level)) {
    throw ShapeMismatch(detail::text({what, ": x has ", elements, " sequences (rows, where it has no level), expected ",
                                      y_lod.size(level), ", as many as level ", level, " of y_lod"}));
  }
}

}  // namespace operation

/// Sequence i of the outermost level of x, as a block with everything below it, n_i times; row i if x has no level. n_i
/// is the length of sequence i of level `ref_level` of `y_lod`; n_i = 0 drops the sequence. As many levels as x, row
/// shape as x. Semantics: PaddlePaddle's sequence_expand, with any number of levels.
///
/// `y` must not overlap x. Throws ShapeMismatch unless x has one sequence (row) for each of `ref_level`, OutOfRange for
/// the level.
template <Executor E, LoDTensorLike X, class Y>
void sequence_expand_into(const E& executor, const X& x, const LoD& y_lod, const ExpandOptions& options, Y&& y) {
  detail::check_elements<op::sequence_expand, value_type_t<X>>();
  const auto view = x.view();
  const int level = detail::resolve_level(options.ref_level, y_lod.levels(), "sequence_expand");
  operation::check_repeats(view.size(), y_lod, level, "sequence_expand");
  const kernel::Segments repeats = operation::lengths_of(y_lod, level);
  if (view.levels() == 0) {
    const auto out = operation::prepare<value_type_t<X>>(
        executor, "sequence_expand", y, operation::PlainRows{repeats.rows()}, view.row_shape(), {{"x", view}});
    kernel::SequencePoolGrad<E>::run(executor, view.data(), operation::on_device(executor, y_lod.view(), repeats),
                                     view.row_size(), PoolType::SUM, out.data());
    return;
  }
  const std::span views(&view, 1);
  operation::Runs runs(executor.workspace(), views, 0, repeats.rows());
  for (std::int64_t i = 0; i < repeats.size; ++i) {
    for (std::int64_t count = repeats.length(i); count > 0; --count) runs.add(0, i, i + 1);
  }
  operation::NewLevels levels(executor.workspace(), view.levels(), runs.sequences("sequence_expand"));
  runs.descend(levels);
  const auto out =
      operation::prepare<value_type_t<X>>(executor, "sequence_expand", y, levels, view.row_shape(), {{"x", view}});
  runs.copy(executor, views, view.row_size(), out.data());
}
template <Executor E, LoDTensorLike X, class Y>
void sequence_expand_into(const E& executor, const X& x, const LoD& y_lod, Y&& y) {
  sequence_expand_into(executor, x, y_lod, ExpandOptions{}, y);
}
template <Executor E, LoDTensorLike X>
[[nodiscard]] LoDTensor<value_type_t<X>, device_t<X>> sequence_expand(const E& executor, const X& x, const LoD& y_lod,
                                                                      const ExpandOptions& options = {}) {
  LoDTensor<value_type_t<X>, device_t<X>> y(executor.resource());
  sequence_expand_into(executor, x, y_lod, options, y);
  return y;
}
template <LoDTensorLike X>
[[nodiscard]] auto sequence_expand(const X& x, const LoD& y_lod, const ExpandOptions& options = {}) {
  return sequence_expand(default_executor<device_t<X>>(), x, y_lod, options);
}

/// The gradient of `sequence_expand`: in dx, the rows of a sequence (the row) are the sum of those of its copies in dy;
/// 0 if it was dropped. dx has the levels of `x_lod`, which is that of x: one without a level stands for rows. Sums as
/// in `sequence_pool`: the bits depend neither on threads nor on the rest of the batch.
///
/// The levels of dy are ignored. `dx` must not overlap dy. Throws ShapeMismatch unless x_lod and y_lod fit each other
/// as in `sequence_expand` and dy has the rows of its result; OutOfRange for the level.
template <Executor E, LoDTensorLike DY, class DX>
void sequence_expand_grad_into(const E& executor, const DY& dy, const LoD& x_lod, const LoD& y_lod,
                               const ExpandOptions& options, DX&& dx) {
  detail::check_elements<op::sequence_expand_grad, value_type_t<DY>>();
  using T = value_type_t<DY>;
  const auto view = dy.view();
  const int level = detail::resolve_level(options.ref_level, y_lod.levels(), "sequence_expand_grad");
  const kernel::Segments repeats = operation::lengths_of(y_lod, level);
  if (x_lod.levels() == 0) {
    operation::check_row_count(view.rows(), repeats.rows(), "sequence_expand_grad: dy");
    const auto out = operation::prepare<T>(executor, {"sequence_expand_grad", "dx"}, dx,
                                           operation::PlainRows{repeats.size}, view.row_shape(), {{"dy", view}});
    kernel::SequencePool<E>::run(executor, view.data(), operation::on_device(executor, y_lod.view(), repeats),
                                 view.row_size(), PoolType::SUM, T{}, out.data());
    return;
  }
  operation::check_repeats(x_lod.size(0), y_lod, level, "sequence_expand_grad");
  const LoDView sequences = x_lod.view();
  const auto rows = sequences.absolute_offsets(0);
  const operation::Array<E, std::int64_t> blocks(executor, repeats.size + 1);
  blocks[0] = 0;
  std::int64_t longest = 0;
  for (std::int64_t i = 0; i < repeats.size; ++i) {
    std::int64_t block = rows[static_cast<std::size_t>(i) + 1] - rows[static_cast<std::size_t>(i)];
    if (__builtin_mul_overflow(block, repeats.length(i), &block) ||
        __builtin_add_overflow(blocks[i], block, &blocks[i + 1])) {
      throw ShapeMismatch("sequence_expand_grad: the expanded sequences have more rows than 64 bits count");
    }
    if (block > longest) longest = block;
  }
  operation::check_row_count(view.rows(), blocks[repeats.size], "sequence_expand_grad: dy");
  const auto out = operation::prepare<T>(executor, {"sequence_expand_grad", "dx"}, dx, operation::SameLevels{sequences},
                                         view.row_shape(), {{"dy", view}});
  kernel::SequenceExpandGrad<E>::run(executor, view.data(), operation::segments(blocks, repeats.size, longest),
                                     operation::segments(executor, out, 0), view.row_size(), out.data());
}
template <Executor E, LoDTensorLike DY, class DX>
void sequence_expand_grad_into(const E& executor, const DY& dy, const LoD& x_lod, const LoD& y_lod, DX&& dx) {
  sequence_expand_grad_into(executor, dy, x_lod, y_lod, ExpandOptions{}, dx);
}
template <Executor E, LoDTensorLike DY>
[[nodiscard]] LoDTensor<value_type_t<DY>, device_t<DY>> sequence_expand_grad(const E& executor, const DY& dy,
                                                                             const LoD& x_lod, const LoD& y_lod,
                                                                             const ExpandOptions& options = {}) {
  LoDTensor<value_type_t<DY>, device_t<DY>> dx(executor.resource());
  sequence_expand_grad_into(executor, dy, x_lod, y_lod, options, dx);
  return dx;
}
template <LoDTensorLike DY>
[[nodiscard]] auto sequence_expand_grad(const DY& dy, const LoD& x_lod, const LoD& y_lod,
                                        const ExpandOptions& options = {}) {
  return sequence_expand_grad(default_executor<device_t<DY>>(), dy, x_lod, y_lod, options);
}

/// Row i of x for each row of sequence i of the last level of `y_lod`; an empty sequence drops its row. Row shape as x;
/// LoD: y_lod; the levels of x are ignored. Semantics: PaddlePaddle's sequence_expand_as, with any number of levels.
///
/// `y` must not overlap x. Throws InvalidLoD if y_lod has no level, ShapeMismatch unless x has one row for each
/// sequence of its last one.
template <Executor E, LoDTensorLike X, class Y>
void sequence_expand_as_into(const E& executor, const X& x, const LoD& y_lod, Y&& y) {
  detail::check_elements<op::sequence_expand_as, value_type_t<X>>();
  const auto view = x.view();
  operation::check_has_level(y_lod, "sequence_expand_as: y_lod");
  operation::check_row_count(view.rows(), y_lod.size(-1), "sequence_expand_as: x");
  const LoDView sequences = y_lod.view();
  const auto out = operation::prepare<value_type_t<X>>(
      executor, "sequence_expand_as", y, operation::SameLevels{sequences}, view.row_shape(), {{"x", view}});
  kernel::SequencePoolGrad<E>::run(executor, view.data(), operation::segments(executor, out, -1), view.row_size(),
                                   PoolType::SUM, out.data());
}
template <Executor E, LoDTensorLike X>
[[nodiscard]] LoDTensor<value_type_t<X>, device_t<X>> sequence_expand_as(const E& executor, const X& x,
                                                                         const LoD& y_lod) {
  LoDTensor<value_type_t<X>, device_t<X>> y(executor.resource());
  sequence_expand_as_into(executor, x, y_lod, y);
  return y;
}
template <LoDTensorLike X>
[[nodiscard]] auto sequence_expand_as(const X& x, const LoD& y_lod) {
  return sequence_expand_as(default_executor<device_t<X>>(), x, y_lod);
}

/// The gradient of `sequence_expand_as`: row i of dx is the sum of the rows of sequence i in dy, 0 for an empty one, as
/// `sequence_pool` with SUM computes it. LoD: the levels of `y_lod` above the last. The levels of dy are ignored. `dx`
/// must not overlap dy. Throws InvalidLoD if y_lod has no level, ShapeMismatch unless dy has its rows.
template <Executor E, LoDTensorLike DY, class DX>
void sequence_expand_as_grad_into(const E& executor, const DY& dy, const LoD& y_lod, DX&& dx) {
  detail::check_elements<op::sequence_expand_as_grad, value_type_t<DY>>();
  using T = value_type_t<DY>;
  operation::check_has_level(y_lod, "sequence_expand_as_grad: y_lod");
  const auto view = dy.view();
  operation::check_row_count(view.rows(), y_lod.rows(), "sequence_expand_as_grad: dy");
  const int last = y_lod.levels() - 1;
  const auto out = operation::prepare<T>(executor, {"sequence_expand_as_grad", "dx"}, dx,
                                         operation::LevelsAbove{y_lod.view(), last}, view.row_shape(), {{"dy", view}});
  kernel::SequencePool<E>::run(executor, view.data(), operation::segments(executor, y_lod.view(), last),
                               view.row_size(), PoolType::SUM, T{}, out.data());
}
template <Executor E, LoDTensorLike DY>
[[nodiscard]] LoDTensor<value_type_t<DY>, device_t<DY>> sequence_expand_as_grad(const E& executor, const DY& dy,
                                                                                const LoD& y_lod) {
  LoDTensor<value_type_t<DY>, device_t<DY>> dx(executor.resource());
  sequence_expand_as_grad_into(executor, dy, y_lod, dx);
  return dx;
}
template <LoDTensorLike DY>
[[nodiscard]] auto sequence_expand_as_grad(const DY& dy, const LoD& y_lod) {
  return sequence_expand_as_grad(default_executor<device_t<DY>>(), dy, y_lod);
}

/// The results of `sequence_expand` and `sequence_expand_as`, described: see <lod/infer.hpp>. `y_lod` describes a
/// tensor that has the LoD.
inline LoDTensorDesc infer_sequence_expand(const LoDTensorDesc& x, const LoDTensorDesc& y_lod,
                                           const ExpandOptions& options = {}) {
  infer::Batch y = infer::batch_for<op::sequence_expand>(x, "sequence_expand");
  const infer::Batch repeats(y_lod, "sequence_expand: y_lod");
  const int level = detail::resolve_level(options.ref_level, repeats.levels, "sequence_expand");
  // The lengths of the last level add up to its rows.
  y.rows = y.levels == 0 && level + 1 == repeats.levels ? repeats.rows : infer::unknown;
  return y;
}
inline LoDTensorDesc infer_sequence_expand_as(const LoDTensorDesc& x, const LoDTensorDesc& y_lod) {
  infer::Batch y = infer::batch_for<op::sequence_expand_as>(x, "sequence_expand_as");
  const infer::Batch sequences(y_lod, "sequence_expand_as: y_lod");
  sequences.check_has_level("sequence_expand_as: y_lod");
  y.rows = sequences.rows;
  y.levels = sequences.levels;
  return y;
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET
