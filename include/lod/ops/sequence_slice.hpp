// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup restructuring
/// Slicing inside sequences: a part of each one's contents.
#pragma once

#include <lod/core/error.hpp>
#include <lod/core/lod_index.hpp>
#include <lod/ops/argument_list.hpp>
#include <lod/ops/declaration.hpp>
#include <lod/ops/infer.hpp>
#include <lod/ops/run_copy.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace lod::inline LOD_INTERFACE::op {
struct sequence_slice : elements::Any {
  static constexpr Text text{"x, offset, length",
                             "A part of each outermost sequence: `length` items from item `offset` on."};
};
struct sequence_slice_grad : elements::Any {
  static constexpr Text text{"dy, lod, offset, length"};
};
}  // namespace lod::inline LOD_INTERFACE::op

namespace lod::inline LOD_INTERFACE::kernel {
/// run(executor, dy, parts, first_rows, sequences, row_size, dx): copies the rows of part i of dy to sequence i of dx,
/// from its row first_rows[i] on; the other rows become zero.
struct SequenceSliceGrad {};
}  // namespace lod::inline LOD_INTERFACE::kernel

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {

namespace operation {

/// Throws unless there is an offset and a length for each sequence of the outermost level, and the sequence contains
/// that part.
template <Executor E>
void check_slices(const E& executor, const LoDView& lod, std::span<const std::int64_t> offset,
                  std::span<const std::int64_t> length, const char* what) {
  const auto size = static_cast<std::size_t>(lod.size());
  if (offset.size() != size || length.size() != size) {
    throw ShapeMismatch(detail::text({what, ": ", offset.size(), " offsets and ", length.size(), " lengths, expected ",
                                      size, " of each, one for each sequence"}));
  }
  const std::int64_t *const children = lod.offsets(0).data(), *const begins = offset.data(),
                            *const counts = length.data();
  const auto is_part = [=](std::int64_t i) {
    const std::int64_t count = children[i + 1] - children[i];
    return (begins[i] >= 0) & (counts[i] >= 0) & (begins[i] <= count) &
           (counts[i] <= count - std::max<std::int64_t>(begins[i], 0));
  };
  if (all_hold(executor, lod.size(), is_part)) return;
  for (std::int64_t i = 0; i < lod.size(); ++i) {
    if (is_part(i)) continue;
    throw OutOfRange(detail::text({what, ": sequence ", i, " of length ", children[i + 1] - children[i], ", offset ",
                                   begins[i], ", length ", counts[i], ": expected a part of it"}));
  }
}

template <>
struct Declared<op::sequence_slice> : Takes<Tensor, IdList, IdList> {
  static constexpr const char* name = "sequence_slice";
  using Gradient = op::sequence_slice_grad;
  template <Executor E, class T>
  static void run(const E& executor, const Input<E, T>& x, const IdList& offset, const IdList& length,
                  const To<E, T>& y) {
    check_has_level(x, name);
    const LoDView lod = x.lod_view();
    check_slices(executor, lod, offset, length, name);
    const auto children = lod.offsets(0);
    if (lod.levels() == 1) {
      const auto run_of = [&](std::int64_t i) {
        const auto at = static_cast<std::size_t>(i);
        const std::int64_t row = children[at] - children[0] + offset[at];
        return RowRun<T>{x.data() + row * x.row_size(), length[at]};
      };
      return copy_row_runs_into(executor, name, x, lod.size(), run_of, y, {{"x", x}});
    }
    const std::span views(&x, 1);
    Runs runs(executor.workspace(), views, 1, lod.size());
    for (std::size_t i = 0; i < length.size(); ++i) {
      const std::int64_t begin = children[i] - children[0] + offset[i];
      runs.add(0, begin, begin + length[i]);
    }
    NewLevels levels(executor.workspace(), lod.levels(), lod.size() + runs.sequences(name));
    const auto offsets = levels.add(lod.size());
    for (std::size_t i = 0; i < length.size(); ++i) offsets[i + 1] = offsets[i] + length[i];
    runs.descend(levels);
    const auto out = prepare(executor, name, y, levels, x.row_shape(), {{"x", x}});
    runs.copy(executor, views, x.row_size(), out.data());
  }
};

template <>
struct Declared<op::sequence_slice_grad> : Takes<Tensor, LoD, IdList, IdList>, Launches<kernel::SequenceSliceGrad> {
  static constexpr const char* name = "sequence_slice_grad";
  template <Executor E, class T>
  static void run(const E& executor, const Input<E, T>& dy, const LoD& lod, const IdList& offset, const IdList& length,
                  const To<E, T>& dx) {
    check_has_level(lod, {name, "lod"});
    const LoDView levels = lod.view();
    check_slices(executor, levels, offset, length, name);
    // With any number of levels, the part of a sequence that is kept consists of contiguous rows.
    const auto children = levels.offsets(0), rows = levels.absolute_offsets(0);
    const auto row_of = [&](std::int64_t child) {
      return levels.levels() == 1 ? child : levels.absolute_offsets(1)[static_cast<std::size_t>(child)];
    };
    const std::int64_t size = lod.size(0);
    const Array<E, std::int64_t> parts(executor, size + 1), first_rows(executor, size);
    std::int64_t longest = 0;
    parts[0] = 0;
    for (std::int64_t i = 0; i < size; ++i) {
      const auto at = static_cast<std::size_t>(i);
      const std::int64_t begin = row_of(children[at] + offset[at]),
                         end = row_of(children[at] + offset[at] + length[at]);
      first_rows[i] = begin - rows[at];
      parts[i + 1] = parts[i] + (end - begin);
      longest = std::max(longest, end - begin);
    }
    check_row_count(dy.rows(), parts[size], {name, "dy"});
    const auto out = prepare(executor, {name, "dx"}, dx, SameLevels{levels}, dy.row_shape(), {{"dy", dy}});
    launch(kernel::SequenceSliceGrad(), executor, dy.data(), segments(parts, size, longest), first_rows.on_device(),
           segments(executor, out, 0), dy.row_size(), out.data());
  }
};

}  // namespace operation

/// Keeps, of sequence i of the outermost level, `length[i]` items from item `offset[i]` on. Items are sequences of the
/// next level, each kept whole, or rows if there is only one level. As many levels as x, row shape as x. A length of 0
/// leaves an empty sequence. Semantics: PaddlePaddle's sequence_slice, with any number of levels.
///
/// Offsets and lengths are int64: a range, a list in braces or a tensor. `y` must not overlap x. Throws InvalidLoD if x
/// has no level, ShapeMismatch unless there are as many offsets and lengths as sequences, OutOfRange for a part outside
/// its sequence.
inline constexpr operation::Call<op::sequence_slice> sequence_slice{};
inline constexpr operation::CallInto<op::sequence_slice> sequence_slice_into{};

/// The gradient of `sequence_slice` with the same offsets and lengths, for an x with the levels of `lod`: dy in the
/// rows that were kept, 0 in the others. The levels of dy are ignored. `dx` must not overlap dy. Throws as
/// `sequence_slice`, and ShapeMismatch unless dy has the rows of its result.
inline constexpr operation::Call<op::sequence_slice_grad> sequence_slice_grad{};
inline constexpr operation::CallInto<op::sequence_slice_grad> sequence_slice_grad_into{};

/// The result of `sequence_slice`, described: see <lod/infer.hpp>.
inline LoDTensorDesc infer_sequence_slice(const LoDTensorDesc& x) {
  infer::Batch y(x, "sequence_slice");
  y.check_has_level("sequence_slice");
  y.rows = infer::unknown;
  return y;
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET
