// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup restructuring
/// Expansion: sequences, or single rows, repeated as often as a LoD says.
#pragma once

#include <lod/core/error.hpp>
#include <lod/core/lod_index.hpp>
#include <lod/ops/declaration.hpp>
#include <lod/ops/infer.hpp>
#include <lod/ops/run_copy.hpp>
#include <lod/ops/sequence_pool.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace lod::inline LOD_INTERFACE::op {
struct sequence_expand : elements::Arithmetic {
  static constexpr Text text{
      "x, y_lod", "Repeats each outermost sequence, or row, as often as the same sequence of y_lod is long."};
};
struct sequence_expand_grad : elements::Arithmetic {
  static constexpr Text text{"dy, x_lod, y_lod", "The gradient of `sequence_expand`: sums over copies."};
};
struct sequence_expand_as : elements::Arithmetic {
  static constexpr Text text{"x, y_lod", "Row i of x for each row of sequence i of the last level of y_lod."};
};
struct sequence_expand_as_grad : elements::Arithmetic {
  static constexpr Text text{"dy, y_lod", "The gradient of `sequence_expand_as`: sums over sequences."};
};
}  // namespace lod::inline LOD_INTERFACE::op

namespace lod::inline LOD_INTERFACE {

/// The options of `sequence_expand`.
struct ExpandOptions {
  int ref_level = -1;  ///< the level of y_lod whose lengths are the numbers of repeats; by default the last
};

}  // namespace lod::inline LOD_INTERFACE

namespace lod::inline LOD_INTERFACE::kernel {
/// run(executor, dy, blocks, sequences, row_size, dx): the rows of sequence i in dx are the sums of the rows of its
/// copies, which are contiguous in sequence i of `blocks` in dy.
struct SequenceExpandGrad {};
}  // namespace lod::inline LOD_INTERFACE::kernel

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {

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

template <>
struct Declared<op::sequence_expand> : Takes<Tensor, LoD>, With<ExpandOptions> {
  static constexpr const char* name = "sequence_expand";
  using Gradient = op::sequence_expand_grad;
  template <Executor E, class T>
  static void run(const E& executor, const Input<E, T>& x, const LoD& y_lod, const ExpandOptions& options,
                  const To<E, T>& y) {
    const int level = detail::resolve_level(options.ref_level, y_lod.levels(), name);
    check_repeats(x.size(), y_lod, level, name);
    const kernel::Segments repeats = lengths_of(y_lod, level);
    if (x.levels() == 0) {
      const auto out = prepare(executor, name, y, PlainRows{repeats.rows()}, x.row_shape(), {{"x", x}});
      launch(kernel::SequencePoolGrad(), executor, x.data(), on_device(executor, y_lod.view(), repeats), x.row_size(),
             PoolType::SUM, out.data());
      return;
    }
    const std::span views(&x, 1);
    Runs runs(executor.workspace(), views, 0, repeats.rows());
    for (std::int64_t i = 0; i < repeats.size; ++i) {
      for (std::int64_t count = repeats.length(i); count > 0; --count) runs.add(0, i, i + 1);
    }
    NewLevels levels(executor.workspace(), x.levels(), runs.sequences(name));
    runs.descend(levels);
    const auto out = prepare(executor, name, y, levels, x.row_shape(), {{"x", x}});
    runs.copy(executor, views, x.row_size(), out.data());
  }
};

template <>
struct Declared<op::sequence_expand_grad>
    : Takes<Tensor, LoD, LoD>, With<ExpandOptions>, Launches<kernel::SequenceExpandGrad> {
  static constexpr const char* name = "sequence_expand_grad";
  template <Executor E, class T>
  static void run(const E& executor, const Input<E, T>& dy, const LoD& x_lod, const LoD& y_lod,
                  const ExpandOptions& options, const To<E, T>& dx) {
    const int level = detail::resolve_level(options.ref_level, y_lod.levels(), name);
    const kernel::Segments repeats = lengths_of(y_lod, level);
    if (x_lod.levels() == 0) {
      check_row_count(dy.rows(), repeats.rows(), {name, "dy"});
      const auto out = prepare(executor, {name, "dx"}, dx, PlainRows{repeats.size}, dy.row_shape(), {{"dy", dy}});
      launch(kernel::SequencePool(), executor, dy.data(), on_device(executor, y_lod.view(), repeats), dy.row_size(),
             PoolType::SUM, T{}, out.data());
      return;
    }
    check_repeats(x_lod.size(0), y_lod, level, name);
    const LoDView sequences = x_lod.view();
    const auto rows = sequences.absolute_offsets(0);
    const Array<E, std::int64_t> blocks(executor, repeats.size + 1);
    blocks[0] = 0;
    std::int64_t longest = 0;
    for (std::int64_t i = 0; i < repeats.size; ++i) {
      std::int64_t block = rows[static_cast<std::size_t>(i) + 1] - rows[static_cast<std::size_t>(i)];
      if (__builtin_mul_overflow(block, repeats.length(i), &block) ||
          __builtin_add_overflow(blocks[i], block, &blocks[i + 1])) {
        throw ShapeMismatch(detail::text({name, ": the expanded sequences have more rows than 64 bits count"}));
      }
      if (block > longest) longest = block;
    }
    check_row_count(dy.rows(), blocks[repeats.size], {name, "dy"});
    const auto out = prepare(executor, {name, "dx"}, dx, SameLevels{sequences}, dy.row_shape(), {{"dy", dy}});
    launch(kernel::SequenceExpandGrad(), executor, dy.data(), segments(blocks, repeats.size, longest),
           segments(executor, out, 0), dy.row_size(), out.data());
  }
};

template <>
struct Declared<op::sequence_expand_as> : Takes<Tensor, LoD> {
  static constexpr const char* name = "sequence_expand_as";
  using Gradient = op::sequence_expand_as_grad;
  template <Executor E, class T>
  static void run(const E& executor, const Input<E, T>& x, const LoD& y_lod, const To<E, T>& y) {
    check_has_level(y_lod, {name, "y_lod"});
    check_row_count(x.rows(), y_lod.size(-1), {name, "x"});
    const LoDView sequences = y_lod.view();
    const auto out = prepare(executor, name, y, SameLevels{sequences}, x.row_shape(), {{"x", x}});
    launch(kernel::SequencePoolGrad(), executor, x.data(), segments(executor, out, -1), x.row_size(), PoolType::SUM,
           out.data());
  }
};

template <>
struct Declared<op::sequence_expand_as_grad> : Takes<Tensor, LoD> {
  static constexpr const char* name = "sequence_expand_as_grad";
  template <Executor E, class T>
  static void run(const E& executor, const Input<E, T>& dy, const LoD& y_lod, const To<E, T>& dx) {
    check_has_level(y_lod, {name, "y_lod"});
    check_row_count(dy.rows(), y_lod.rows(), {name, "dy"});
    const int last = y_lod.levels() - 1;
    const auto out = prepare(executor, {name, "dx"}, dx, LevelsAbove{y_lod.view(), last}, dy.row_shape(), {{"dy", dy}});
    launch(kernel::SequencePool(), executor, dy.data(), segments(executor, y_lod.view(), last), dy.row_size(),
           PoolType::SUM, T{}, out.data());
  }
};

}  // namespace operation

/// Repeats sequence i of the outermost level of x, as a block with everything below it, n_i times; row i if x has no
/// level. n_i is the length of sequence i of level `ref_level` of `y_lod`; n_i = 0 drops the sequence. As many levels
/// as x, row shape as x. Semantics: PaddlePaddle's sequence_expand, with any number of levels.
///
/// `y` must not overlap x. Throws ShapeMismatch unless x has one sequence (row) for each sequence of `ref_level`,
/// OutOfRange for the level.
inline constexpr operation::Call<op::sequence_expand> sequence_expand{};
inline constexpr operation::CallInto<op::sequence_expand> sequence_expand_into{};

/// The gradient of `sequence_expand`: the rows of a sequence (the row) in dx are the sums of the rows of its copies in
/// dy; 0 if it was dropped. dx has the levels of `x_lod`, the LoD of x; without levels, rows were repeated. Sums as in
/// `sequence_pool`: the bits depend neither on threads nor on the rest of the batch.
///
/// The levels of dy are ignored. `dx` must not overlap dy. Throws ShapeMismatch unless x_lod and y_lod fit each other
/// as in `sequence_expand` and dy has the rows of its result; OutOfRange for the level.
inline constexpr operation::Call<op::sequence_expand_grad> sequence_expand_grad{};
inline constexpr operation::CallInto<op::sequence_expand_grad> sequence_expand_grad_into{};

/// Repeats row i of x for each row of sequence i of the last level of `y_lod`; an empty sequence drops its row. Row
/// shape as x; LoD: y_lod; the levels of x are ignored. Semantics: PaddlePaddle's sequence_expand_as, with any number
/// of levels.
///
/// `y` must not overlap x. Throws InvalidLoD if y_lod has no level, ShapeMismatch unless x has one row for each
/// sequence of its last level.
inline constexpr operation::Call<op::sequence_expand_as> sequence_expand_as{};
inline constexpr operation::CallInto<op::sequence_expand_as> sequence_expand_as_into{};

/// The gradient of `sequence_expand_as`: row i of dx is the sum of the rows of sequence i in dy, 0 for an empty one, as
/// `sequence_pool` with SUM computes it. LoD: the levels of `y_lod` above the last. The levels of dy are ignored. `dx`
/// must not overlap dy. Throws InvalidLoD if y_lod has no level, ShapeMismatch unless dy has as many rows as y_lod.
inline constexpr operation::Call<op::sequence_expand_as_grad> sequence_expand_as_grad{};
inline constexpr operation::CallInto<op::sequence_expand_as_grad> sequence_expand_as_grad_into{};

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
