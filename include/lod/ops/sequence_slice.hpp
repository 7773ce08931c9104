// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup restructuring
/// Slicing inside sequences: a part of each one's contents.
#pragma once

#include <lod/error.hpp>
#include <lod/infer.hpp>
#include <lod/kernel.hpp>
#include <lod/lod_index.hpp>
#include <lod/ops/argument_list.hpp>
#include <lod/ops/run_copy.hpp>
#include <lod/output.hpp>
#include <lod/supports.hpp>
#include <lod/target.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>

namespace lod::inline LOD_INTERFACE::op {
struct sequence_slice : elements::Any {};
struct sequence_slice_grad : elements::Any {};
}  // namespace lod::inline LOD_INTERFACE::op

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {

namespace kernel {
/// run(executor, dy, parts, first_rows, sequences, row_size, dx): copies the rows of part i in dy to sequence i in dx
/// from first_rows[i] on, counted from its start; its other rows become zero.
template <class Executor>
struct SequenceSliceGrad : Missing<Executor> {};
}  // namespace kernel

namespace operation {

/// Throws unless there is an offset and a length for each sequence of the outermost level, which contains that part.
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

}  // namespace operation

/// For sequence i of the outermost level, `length[i]` items of its contents from `offset[i]` on: sequences of the next
/// level, each kept whole, or rows if there is one level. As many levels as x, row shape as x. A length of 0 leaves an
/// empty sequence. Semantics: PaddlePaddle's sequence_slice, with any number of levels.
///
/// Offsets and lengths are int64: a range, a list in braces or a tensor. `y` must not overlap x. Throws InvalidLoD if x
/// has no level, ShapeMismatch for another number of offsets or lengths than there are sequences, OutOfRange for a part
/// outside its sequence.
template <Executor E, LoDTensorLike X, operation::ArgumentList Offset = std::initializer_list<std::int64_t>,
          operation::ArgumentList Length = std::initializer_list<std::int64_t>, class Y>
void sequence_slice_into(const E& executor, const X& x, const Offset& offset, const Length& length, Y&& y) {
  const auto view = x.view();
  operation::check_has_level(view, "sequence_slice");
  const LoDView lod = view.lod_view();
  const auto first = operation::ids_of(offset), counts = operation::ids_of(length);
  operation::check_slices(executor, lod, first, counts, "sequence_slice");
  const auto children = lod.offsets(0);
  if (lod.levels() == 1) {
    const auto run_of = [&](std::int64_t i) {
      const auto at = static_cast<std::size_t>(i);
      const std::int64_t row = children[at] - children[0] + first[at];
      return operation::RowRun<value_type_t<X>>{view.data() + row * view.row_size(), counts[at]};
    };
    return operation::copy_row_runs_into(executor, "sequence_slice", view, lod.size(), run_of, y, {{"x", view}});
  }
  const std::span views(&view, 1);
  operation::Runs runs(executor.workspace(), views, 1, lod.size());
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const std::int64_t begin = children[i] - children[0] + first[i];
    runs.add(0, begin, begin + counts[i]);
  }
  operation::NewLevels levels(executor.workspace(), lod.levels(), lod.size() + runs.sequences("sequence_slice"));
  const auto offsets = levels.add(lod.size());
  for (std::size_t i = 0; i < counts.size(); ++i) offsets[i + 1] = offsets[i] + counts[i];
  runs.descend(levels);
  const auto out =
      operation::prepare<value_type_t<X>>(executor, "sequence_slice", y, levels, view.row_shape(), {{"x", view}});
  runs.copy(executor, views, view.row_size(), out.data());
}
template <Executor E, LoDTensorLike X, operation::ArgumentList Offset = std::initializer_list<std::int64_t>,
          operation::ArgumentList Length = std::initializer_list<std::int64_t>>
[[nodiscard]] LoDTensor<value_type_t<X>, device_t<X>> sequence_slice(const E& executor, const X& x,
                                                                     const Offset& offset, const Length& length) {
  LoDTensor<value_type_t<X>, device_t<X>> y(executor.resource());
  sequence_slice_into(executor, x, offset, length, y);
  return y;
}
template <LoDTensorLike X, operation::ArgumentList Offset = std::initializer_list<std::int64_t>,
          operation::ArgumentList Length = std::initializer_list<std::int64_t>>
[[nodiscard]] auto sequence_slice(const X& x, const Offset& offset, const Length& length) {
  return sequence_slice(default_executor<device_t<X>>(), x, offset, length);
}

/// The gradient of `sequence_slice` with the same offsets and lengths, for an x with the levels of `lod`: the rows that
/// were kept have those of dy, the others 0. The levels of dy are ignored. `dx` must not overlap dy. Throws as
/// `sequence_slice`, and ShapeMismatch unless dy has the rows of its result.
template <Executor E, LoDTensorLike DY, operation::ArgumentList Offset = std::initializer_list<std::int64_t>,
          operation::ArgumentList Length = std::initializer_list<std::int64_t>, class DX>
void sequence_slice_grad_into(const E& executor, const DY& dy, const LoD& lod, const Offset& offset,
                              const Length& length, DX&& dx) {
  const auto view = dy.view();
  operation::check_has_level(lod, "sequence_slice_grad: lod");
  const LoDView levels = lod.view();
  const auto first = operation::ids_of(offset), counts = operation::ids_of(length);
  operation::check_slices(executor, levels, first, counts, "sequence_slice_grad");
  // The kept part of a sequence is contiguous rows, at any number of levels.
  const auto children = levels.offsets(0), rows = levels.absolute_offsets(0);
  const auto row_of = [&](std::int64_t child) {
    return levels.levels() == 1 ? child : levels.absolute_offsets(1)[static_cast<std::size_t>(child)];
  };
  const std::int64_t size = lod.size(0);
  const operation::Array<E, std::int64_t> parts(executor, size + 1), first_rows(executor, size);
  std::int64_t longest = 0;
  parts[0] = 0;
  for (std::int64_t i = 0; i < size; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const std::int64_t begin = row_of(children[at] + first[at]), end = row_of(children[at] + first[at] + counts[at]);
    first_rows[i] = begin - rows[at];
    parts[i + 1] = parts[i] + (end - begin);
    longest = std::max(longest, end - begin);
  }
  operation::check_row_count(view.rows(), parts[size], "sequence_slice_grad: dy");
  const auto out = operation::prepare<value_type_t<DY>>(
      executor, {"sequence_slice_grad", "dx"}, dx, operation::SameLevels{levels}, view.row_shape(), {{"dy", view}});
  kernel::SequenceSliceGrad<E>::run(executor, view.data(), operation::segments(parts, size, longest),
                                    first_rows.on_device(), operation::segments(executor, out, 0), view.row_size(),
                                    out.data());
}
template <Executor E, LoDTensorLike DY, operation::ArgumentList Offset = std::initializer_list<std::int64_t>,
          operation::ArgumentList Length = std::initializer_list<std::int64_t>>
[[nodiscard]] LoDTensor<value_type_t<DY>, device_t<DY>> sequence_slice_grad(const E& executor, const DY& dy,
                                                                            const LoD& lod, const Offset& offset,
                                                                            const Length& length) {
  LoDTensor<value_type_t<DY>, device_t<DY>> dx(executor.resource());
  sequence_slice_grad_into(executor, dy, lod, offset, length, dx);
  return dx;
}
template <LoDTensorLike DY, operation::ArgumentList Offset = std::initializer_list<std::int64_t>,
          operation::ArgumentList Length = std::initializer_list<std::int64_t>>
[[nodiscard]] auto sequence_slice_grad(const DY& dy, const LoD& lod, const Offset& offset, const Length& length) {
  return sequence_slice_grad(default_executor<device_t<DY>>(), dy, lod, offset, length);
}

/// The result of `sequence_slice`, described: see <lod/infer.hpp>.
inline LoDTensorDesc infer_sequence_slice(const LoDTensorDesc& x) {
  infer::Batch y(x, "sequence_slice");
  y.check_has_level("sequence_slice");
  y.rows = infer::unknown;
  return y;
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET
