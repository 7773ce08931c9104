// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup restructuring
/// Padding: sequences as one dense block, and back.
#pragma once

#include <lod/core/error.hpp>
#include <lod/core/lod_index.hpp>
#include <lod/core/scalar.hpp>
#include <lod/core/shape.hpp>
#include <lod/ops/argument_list.hpp>
#include <lod/ops/declaration.hpp>
#include <lod/ops/infer.hpp>
#include <lod/ops/new_offsets.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace lod::inline LOD_INTERFACE::op {
struct sequence_pad : elements::Arithmetic {
  static constexpr Text text{
      "x", "(sequences, longest length, dimensions of a row...), padded with `pad_value`, and the lengths."};
};
struct sequence_pad_grad : elements::Any {
  static constexpr Text text{"dy, lod", "The gradient of `sequence_pad`, with its options."};
};
struct sequence_unpad : elements::Any {
  static constexpr Text text{"dense, lengths", "`sequence_pad` undone."};
};
struct sequence_unpad_grad : elements::Any {
  static constexpr Text text{"dy, lengths, padded_length"};
};
}  // namespace lod::inline LOD_INTERFACE::op

namespace lod::inline LOD_INTERFACE {

/// The side on which a short sequence is padded, and a long one is cut off.
enum class Side {
  LEFT,  ///< before its rows
  RIGHT  ///< after them
};

/// The options of `sequence_pad`.
struct PadOptions {
  Scalar pad_value = 0;             ///< every element of the padding
  std::int64_t padded_length = -1;  ///< rows of each padded sequence; -1: as many as the longest one has
  Side side = Side::RIGHT;
  bool truncate = false;  ///< whether longer sequences lose rows on `side` instead of throwing
  int level = 0;          ///< the level whose sequences are padded; by default the first
};

/// The options of `sequence_unpad`.
struct UnpadOptions {
  Side side = Side::RIGHT;  ///< where the padding is
};

/// The result of `sequence_pad`.
template <class T, class Device>
struct Padded {
  LoDTensor<T, Device> dense;               ///< {sequences, padded length, row shape...}, no level
  LoDTensor<std::int64_t, Device> lengths;  ///< {sequences}: how many rows of each are not padding
};

/// The result of `sequence_pad`, described.
struct PaddedDesc {
  LoDTensorDesc dense;
  LoDTensorDesc lengths;
};

}  // namespace lod::inline LOD_INTERFACE

namespace lod::inline LOD_INTERFACE::kernel {
/// run(executor, x, sequences, row_size, padded_length, side, pad_value, dense, lengths)
struct SequencePad {};
/// run(executor, dense, padded_length, side, sequences, row_size, x): a sequence longer than padded_length has zeros
/// where rows were cut off.
struct SequenceUnpad {};
}  // namespace lod::inline LOD_INTERFACE::kernel

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {

namespace operation {

/// Throws OutOfRange for a number that is not a Side.
inline void check_side(Side side, const char* what) {
  if (side != Side::RIGHT && side != Side::LEFT) {
    throw OutOfRange(detail::text({what, ": Side ", static_cast<int>(side), ", expected RIGHT or LEFT"}));
  }
}

/// The same, and for a padded length under -1.
inline void check_padding(const PadOptions& options, const char* what) {
  check_side(options.side, what);
  if (options.padded_length < -1) {
    throw OutOfRange(detail::text({what, ": padded_length ", options.padded_length, ", expected -1 or more"}));
  }
}

/// The length to which the sequences are padded. Throws unless they fit, or are to be truncated.
inline std::int64_t padded_length(const LoDView& x, const kernel::Segments& sequences, const PadOptions& options,
                                  const char* what) {
  check_padding(options, what);
  if (options.padded_length >= sequences.max_rows) return options.padded_length;
  if (options.padded_length < 0 && x.is_whole()) return sequences.max_rows;  // exact, as no part's is
  std::int64_t longest = 0;
  for (std::int64_t i = 0; i < sequences.size; ++i) {
    const std::int64_t length = sequences.length(i);
    if (options.padded_length >= 0 && length > options.padded_length && !options.truncate) {
      throw ShapeMismatch(
          detail::text({what, ": sequence ", i, " has ", length, " rows, expected at most padded_length, ",
                        options.padded_length, " (or .truncate = true)"}));
    }
    if (length > longest) longest = length;
  }
  return options.padded_length >= 0 ? options.padded_length : longest;
}

/// {length, row shape...}. Throws ShapeMismatch if that is not a valid shape.
inline Shape padded_shape(std::int64_t length, const Shape& row_shape, const char* what) {
  try {
    return Shape(length, row_shape);
  } catch (const ShapeMismatch& error) {
    throw ShapeMismatch(
        detail::text({what, ": ", length, " rows of shape ", to_string(row_shape), ": ", error.what()}));
  }
}

/// Throws ShapeMismatch unless a row is a padded sequence: {padded length, row shape...}.
inline void check_dense(const Shape& row_shape, const Subject& what) {
  if (row_shape.empty()) {
    throw ShapeMismatch(
        detail::text({what.text(), ": scalar rows, expected the shape {sequences, length, row shape...}"}));
  }
}

/// Throws ShapeMismatch unless there are `size` lengths, OutOfRange for one that is not from 0 to `max_length`.
template <Executor E>
void check_lengths(const E& executor, std::span<const std::int64_t> lengths, std::int64_t size, std::int64_t max_length,
                   const char* what) {
  if (static_cast<std::int64_t>(lengths.size()) != size) {
    throw ShapeMismatch(detail::text({what, ": ", lengths.size(), " lengths, expected ", size}));
  }
  const std::int64_t* const given = lengths.data();
  const auto fits = [=](std::int64_t i) { return (given[i] >= 0) & (given[i] <= max_length); };
  if (all_hold(executor, size, fits)) return;
  for (std::int64_t i = 0; i < size; ++i) {
    if (fits(i)) continue;
    throw OutOfRange(detail::text({what, ": length ", i, " is ", given[i], ", expected 0 to ", max_length}));
  }
}

template <>
struct Declared<op::sequence_pad>
    : Takes<Tensor>, With<PadOptions>, GivesAll<Padded, Tensor, TensorOf<std::int64_t>>, Launches<kernel::SequencePad> {
  static constexpr const char* name = "sequence_pad";
  using Gradient = op::sequence_pad_grad;
  template <Executor E, class T>
  static void run(const E& executor, const Input<E, T>& x, const PadOptions& options, const To<E, T>& dense,
                  const To<E, std::int64_t>& lengths) {
    check_has_level(x, name);
    const int level = detail::resolve_level(options.level, x.levels(), name);
    const kernel::Segments sequences = segments(x.lod_view(), level);
    const std::int64_t length = padded_length(x.lod_view(), sequences, options, name);
    const T pad_value = detail::checked<T>(options.pad_value, name, "pad_value");
    const PlainRows rows{sequences.size};
    const Shape row_shape = padded_shape(length, x.row_shape(), name);
    const auto out = prepare(executor, {name, "dense"}, dense, rows, row_shape, {{"x", x}});
    const auto out_lengths = prepare(executor, {name, "lengths"}, lengths, rows, Shape(), {{"x", x}, {"dense", dense}});
    launch(kernel::SequencePad(), executor, x.data(), on_device(executor, x.lod_view(), sequences), x.row_size(),
           length, options.side, pad_value, out.data(), out_lengths.data());
  }
};

template <>
struct Declared<op::sequence_pad_grad> : Takes<Tensor, LoD>, With<PadOptions> {
  static constexpr const char* name = "sequence_pad_grad";
  template <Executor E, class T>
  static void run(const E& executor, const Input<E, T>& dy, const LoD& lod, const PadOptions& options,
                  const To<E, T>& dx) {
    check_has_level(lod, {name, "lod"});
    const int level = detail::resolve_level(options.level, lod.levels(), name);
    const LoDView levels = lod.view();
    const kernel::Segments sequences = segments(levels, level);
    const std::int64_t length = padded_length(levels, sequences, options, name);
    check_row_count(dy.rows(), sequences.size, {name, "dy"});
    check_dense(dy.row_shape(), {name, "dy"});
    const Shape row_shape = dy.row_shape().without_first();
    check_row_shape(dy.row_shape(), Shape(length, row_shape), {name, "dy"});
    const auto out = prepare(executor, {name, "dx"}, dx, SameLevels{levels}, row_shape, {{"dy", dy}});
    launch(kernel::SequenceUnpad(), executor, dy.data(), length, options.side, on_device(executor, levels, sequences),
           row_shape.elements(), out.data());
  }
};

template <>
struct Declared<op::sequence_unpad> : Takes<Tensor, IdList>, With<UnpadOptions>, Launches<kernel::SequenceUnpad> {
  static constexpr const char* name = "sequence_unpad";
  using Gradient = op::sequence_unpad_grad;
  template <Executor E, class T>
  static void run(const E& executor, const Input<E, T>& dense, const IdList& lengths, const UnpadOptions& options,
                  const To<E, T>& y) {
    check_side(options.side, name);
    check_dense(dense.row_shape(), {name, "dense"});
    const std::int64_t length = dense.row_shape().front();
    const Shape row_shape = dense.row_shape().without_first();
    const auto length_of = [of = lengths.data()](std::int64_t i) { return of[i]; };
    const LevelOfLengths levels(executor, name, std::ssize(lengths), length_of);
    // The lengths of an output that has them already are those of a LoD, whose longest is known.
    const LoDView before = levels_before(y);
    if (std::ssize(lengths) != dense.rows() || !levels.is(before) || before.max_rows(0) > length) {
      check_lengths(executor, lengths, dense.rows(), length, name);
    }
    const auto out = prepare(executor, name, y, levels, row_shape, {{"dense", dense}, {"the lengths", lengths}});
    launch(kernel::SequenceUnpad(), executor, dense.data(), length, options.side, segments(executor, out, 0),
           row_shape.elements(), out.data());
  }
};

template <>
struct Declared<op::sequence_unpad_grad> : Takes<Tensor, IdList, std::int64_t>, With<UnpadOptions> {
  static constexpr const char* name = "sequence_unpad_grad";
  template <Executor E, class T>
  static void run(const E& executor, const Input<E, T>& dy, const IdList& lengths, std::int64_t padded_length,
                  const UnpadOptions& options, const To<E, T>& ddense) {
    const auto size = static_cast<std::int64_t>(lengths.size());
    check_side(options.side, name);
    if (padded_length < 0) {
      throw OutOfRange(detail::text({name, ": padded_length ", padded_length, ", expected 0 or more"}));
    }
    const Shape row_shape = padded_shape(padded_length, dy.row_shape(), name);
    check_lengths(executor, lengths, size, padded_length, name);
    const NewOffsets<E> offsets(executor, name, size,
                                [&](std::int64_t i) { return lengths[static_cast<std::size_t>(i)]; });
    check_row_count(dy.rows(), offsets.rows(), {name, "dy"});
    const auto out =
        prepare(executor, {name, "ddense"}, ddense, PlainRows{size}, row_shape, {{"dy", dy}, {"the lengths", lengths}});
    launch(kernel::SequencePad(), executor, dy.data(), offsets.segments(), dy.row_size(), padded_length, options.side,
           T{}, out.data(), static_cast<std::int64_t*>(nullptr));
  }
};

}  // namespace operation

/// Every sequence of `level`, with all its rows, as one row of a dense block: {sequences, padded length, row shape...}.
/// Missing rows are `pad_value`, after the sequence's rows (Side::RIGHT) or before them (Side::LEFT). `lengths` has the
/// number of rows of each sequence. No level remains. Semantics: PaddlePaddle's sequence_pad, with any level.
///
/// The padded length is that of the longest sequence, or `padded_length`. A sequence that is longer throws; with
/// `truncate` it loses rows on `side`, and `lengths` counts those that it keeps. An empty sequence is all padding; if
/// all are empty the padded length is 0.
///
/// The outputs must not overlap x. Throws InvalidLoD if x has no level, OutOfRange for the level, a padded length under
/// -1, a number that is not a Side and a `pad_value` that the elements cannot hold, ShapeMismatch if a sequence is too
/// long.
inline constexpr operation::Call<op::sequence_pad> sequence_pad{};
inline constexpr operation::CallInto<op::sequence_pad> sequence_pad_into{};

/// The gradient of `sequence_pad` with the same options, for the sequences of `lod`, which is that of x: dx has the
/// rows and levels of `lod`. A row of x has the gradient of its position in the block, or 0 if it was cut off; the
/// gradient of the padding is dropped. `dx` must not overlap dy. Throws as `sequence_pad`, and ShapeMismatch unless dy
/// has the shape of its result.
inline constexpr operation::Call<op::sequence_pad_grad> sequence_pad_grad{};
inline constexpr operation::CallInto<op::sequence_pad_grad> sequence_pad_grad_into{};

/// The inverse of `sequence_pad`: sequence i consists of the `lengths[i]` rows of row i of `dense`, {sequences, padded
/// length, row shape...}, that are not padding. The result has one level; the levels of `dense` are ignored. Semantics:
/// PaddlePaddle's sequence_unpad.
///
/// `lengths` are int64: a range, a list in braces or a tensor. `y` must not overlap dense. Throws ShapeMismatch for
/// scalar rows and unless there is one length for each row, OutOfRange for a length that is negative or exceeds the
/// padded one, and for a number that is not a Side.
inline constexpr operation::Call<op::sequence_unpad> sequence_unpad{};
inline constexpr operation::CallInto<op::sequence_unpad> sequence_unpad_into{};

/// The gradient of `sequence_unpad`: {sequences, padded_length, row shape...} like `dense`, with the rows of dy at
/// their positions and 0 at those of the padding. The levels of dy are ignored. The output must not overlap dy. Throws
/// ShapeMismatch unless dy has as many rows as the lengths add up to, OutOfRange for a length that is not from 0 to
/// `padded_length`.
inline constexpr operation::Call<op::sequence_unpad_grad> sequence_unpad_grad{};
inline constexpr operation::CallInto<op::sequence_unpad_grad> sequence_unpad_grad_into{};

/// The results of `sequence_pad` and `sequence_unpad`, described: see <lod/infer.hpp>.
inline PaddedDesc infer_sequence_pad(const LoDTensorDesc& x, const PadOptions& options = {}) {
  infer::Batch y = infer::batch_for<op::sequence_pad>(x, "sequence_pad").pooled(options.level, "sequence_pad");
  operation::check_padding(options, "sequence_pad");
  y.row_shape.insert(y.row_shape.begin(), options.padded_length);  // -1 is unknown here too
  y.levels = 0;
  return {y, infer::Batch(DataType::INT64, y.rows, {}, 0)};
}
inline LoDTensorDesc infer_sequence_unpad(const LoDTensorDesc& dense, const LoDTensorDesc& lengths,
                                          const UnpadOptions& options = {}) {
  operation::check_side(options.side, "sequence_unpad");
  infer::Batch y(dense, "sequence_unpad: dense");
  if (y.row_shape.empty()) {
    throw ShapeMismatch("sequence_unpad: dense: scalar rows, expected the shape {sequences, length, row shape...}");
  }
  const std::int64_t count = infer::count_of_ids(lengths, "sequence_unpad: lengths");
  if (!infer::agree(count, y.rows)) {
    throw ShapeMismatch(detail::text({"sequence_unpad: ", count, " lengths, expected ", y.rows}));
  }
  y.row_shape.erase(y.row_shape.begin());
  y.rows = infer::unknown;
  y.levels = 1;
  return y;
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET
