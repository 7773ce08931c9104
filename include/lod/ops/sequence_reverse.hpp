// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup row_preserving
/// Reversal: the rows of each sequence, or its sub-sequences, from the last to the first.
#pragma once

#include <lod/ops/declaration.hpp>
#include <lod/ops/infer.hpp>
#include <lod/ops/run_copy.hpp>

#include <cstdint>
#include <span>

namespace lod::inline LOD_INTERFACE::op {
struct sequence_reverse : elements::Any {
  static constexpr Text text{"x", "The contents of each sequence, in reverse order."};
};
struct sequence_reverse_grad : elements::Any {
  static constexpr Text text{"dy", "The gradient of `sequence_reverse`: dy in reverse."};
};
}  // namespace lod::inline LOD_INTERFACE::op

namespace lod::inline LOD_INTERFACE {

/// The options of `sequence_reverse`.
struct ReverseOptions {
  int level = -1;  ///< the level whose sequences are reversed; by default the last
};

}  // namespace lod::inline LOD_INTERFACE

namespace lod::inline LOD_INTERFACE::kernel {
struct SequenceReverse {};
}  // namespace lod::inline LOD_INTERFACE::kernel

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {

namespace operation {

template <class Op>
struct Reversal : Takes<Tensor>, With<ReverseOptions>, Launches<kernel::SequenceReverse> {
  template <Executor E, class T>
  static void run(const E& executor, const Input<E, T>& x, const ReverseOptions& options, const To<E, T>& y) {
    const char* const name = Declared<Op>::name;
    check_has_level(x, name);
    const int level = detail::resolve_level(options.level, x.levels(), name);
    const LoDView lod = x.lod_view();
    if (level + 1 == lod.levels()) {
      const auto out = prepare(executor, name, y, SameLevels{lod}, x.row_shape(), {{"x", x}});
      launch(kernel::SequenceReverse(), executor, x.data(), segments(executor, x, level), x.row_size(), out.data());
      return;
    }
    const std::span views(&x, 1);
    Runs runs(executor.workspace(), views, level + 1, lod.size(level + 1));
    const auto children = lod.offsets(level);
    for (std::size_t i = 0; i + 1 < children.size(); ++i) {
      for (std::int64_t child = children[i + 1]; child-- > children[i];) {
        runs.add(0, child - children[0], child - children[0] + 1);
      }
    }
    NewLevels levels(executor.workspace(), lod, level + 1, lod.levels() - level - 1, runs.sequences(name));
    runs.descend(levels);
    const auto out = prepare(executor, name, y, levels, x.row_shape(), {{"x", x}});
    runs.copy(executor, views, x.row_size(), out.data());
  }
};

template <>
struct Declared<op::sequence_reverse> : Reversal<op::sequence_reverse> {
  static constexpr const char* name = "sequence_reverse";
  using Gradient = op::sequence_reverse_grad;
};
template <>
struct Declared<op::sequence_reverse_grad> : Reversal<op::sequence_reverse_grad> {
  static constexpr const char* name = "sequence_reverse_grad";
};

}  // namespace operation

/// The contents of each sequence of `level`, in reverse order. At the last level these are rows, and the LoD is that of
/// x. At a level above, they are sequences of the next level, each kept whole with its rows in order, so the levels
/// below `level` are permuted as well. Row shape as x. Empty sequences are treated like others. Semantics:
/// PaddlePaddle's sequence_reverse, with any level.
///
/// `y` must not overlap x. Throws InvalidLoD if x has no level, OutOfRange for the level.
inline constexpr operation::Call<op::sequence_reverse> sequence_reverse{};
inline constexpr operation::CallInto<op::sequence_reverse> sequence_reverse_into{};

/// The gradient of `sequence_reverse`: the reversal of dy, which has the levels of the result. Otherwise as
/// `sequence_reverse`.
inline constexpr operation::Call<op::sequence_reverse_grad> sequence_reverse_grad{};
inline constexpr operation::CallInto<op::sequence_reverse_grad> sequence_reverse_grad_into{};

/// The result of `sequence_reverse`, described: see <lod/infer.hpp>.
inline LoDTensorDesc infer_sequence_reverse(const LoDTensorDesc& x, const ReverseOptions& options = {}) {
  const infer::Batch y(x, "sequence_reverse");
  y.level(options.level, "sequence_reverse");
  return y;
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET
