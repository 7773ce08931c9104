// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup restructuring
/// Masks: which places of padded sequences are not padding.
#pragma once

#include <lod/core/error.hpp>
#include <lod/core/shape.hpp>
#include <lod/ops/argument_list.hpp>
#include <lod/ops/declaration.hpp>
#include <lod/ops/infer.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <type_traits>

namespace lod::inline LOD_INTERFACE::op {
struct sequence_mask : elements::Arithmetic {
  static constexpr Text text{"lengths, dtype", "For each length that many ones, followed by zeros."};
};
}  // namespace lod::inline LOD_INTERFACE::op

namespace lod::inline LOD_INTERFACE {

/// The options of `sequence_mask`.
struct MaskOptions {
  std::int64_t max_length = -1;  ///< the number of places for each length; -1: the greatest length
};

}  // namespace lod::inline LOD_INTERFACE

namespace lod::inline LOD_INTERFACE::kernel {
/// run(executor, lengths, count, max_length, y): y[i * max_length + place] is 1 where place < lengths[i], else 0.
struct SequenceMask {};
}  // namespace lod::inline LOD_INTERFACE::kernel

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {

namespace operation {

template <>
struct Declared<op::sequence_mask> : Launches<kernel::SequenceMask> {};

inline void check_mask_length(const MaskOptions& options) {
  if (options.max_length < -1) {
    throw OutOfRange(detail::text({"sequence_mask: max_length ", options.max_length, ", expected -1 or more"}));
  }
}

/// The number of places for each length. Throws OutOfRange for a negative length, and for a `max_length` under -1.
inline std::int64_t mask_length(std::span<const std::int64_t> lengths, const MaskOptions& options) {
  check_mask_length(options);
  std::int64_t greatest = 0;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    if (lengths[i] < 0) {
      throw OutOfRange(detail::text({"sequence_mask: length ", i, " is ", lengths[i], ", expected 0 or more"}));
    }
    greatest = std::max(greatest, lengths[i]);
  }
  return options.max_length >= 0 ? options.max_length : greatest;
}

}  // namespace operation

/// For each length that many ones, followed by zeros: y[..., place] = place < lengths[...]. The result has the levels
/// of the lengths, and their shape with one more dimension, max_length. With the lengths of `sequence_pad` its shape is
/// {sequences, padded length}. A length that exceeds max_length gives only ones. Semantics: PaddlePaddle's
/// sequence_mask.
///
/// The lengths are int64: a range, a list in braces or a tensor of any shape. `y` must not overlap them. The elements,
/// bool or numbers, have the type of y or, by value, the type U. Throws OutOfRange for a negative length, and for a
/// max_length under -1.
template <Executor E, operation::ArgumentList Lengths = std::initializer_list<std::int64_t>, class Y>
void sequence_mask_into(const E& executor, const Lengths& lengths, const MaskOptions& options, Y&& y) {
  detail::check_elements<op::sequence_mask, value_type_t<std::remove_cvref_t<Y>>>();
  const auto numbers = operation::ids_of(lengths);
  const std::int64_t places = operation::mask_length(numbers, options);
  const auto out = [&] {
    if constexpr (LoDTensorLike<Lengths>) {
      const auto view = lengths.view();
      Shape row_shape{places};
      for (std::size_t dim = view.row_shape().size(); dim-- > 0;) row_shape = Shape(view.row_shape()[dim], row_shape);
      return operation::prepare(executor, "sequence_mask", y, operation::SameLevels{view.lod_view()}, row_shape,
                                {{"the lengths", numbers}});
    } else {
      return operation::prepare(executor, "sequence_mask", y,
                                operation::PlainRows{static_cast<std::int64_t>(numbers.size())}, Shape{places},
                                {{"the lengths", numbers}});
    }
  }();
  const auto count = static_cast<std::int64_t>(numbers.size());
  const operation::OnDevice<E, std::int64_t> there(executor, numbers);
  launch(kernel::SequenceMask(), executor, there.data(), count, places, out.data());
}
template <Executor E, operation::ArgumentList Lengths = std::initializer_list<std::int64_t>, class Y>
void sequence_mask_into(const E& executor, const Lengths& lengths, Y&& y) {
  sequence_mask_into(executor, lengths, MaskOptions{}, y);
}
template <class U = std::int64_t, Executor E, operation::ArgumentList Lengths = std::initializer_list<std::int64_t>>
[[nodiscard]] LoDTensor<U, typename E::device> sequence_mask(const E& executor, const Lengths& lengths,
                                                             const MaskOptions& options = {}) {
  LoDTensor<U, typename E::device> y(executor.resource());
  sequence_mask_into(executor, lengths, options, y);
  return y;
}
template <class U = std::int64_t, operation::ArgumentList Lengths = std::initializer_list<std::int64_t>>
[[nodiscard]] auto sequence_mask(const Lengths& lengths, const MaskOptions& options = {}) {
  if constexpr (LoDTensorLike<Lengths>) {
    return sequence_mask<U>(default_executor<device_t<Lengths>>(), lengths, options);
  } else {
    return sequence_mask<U>(default_executor<Cpu>(), lengths, options);
  }
}

/// The result of `sequence_mask` with elements of type `type`, described: see <lod/infer.hpp>.
inline LoDTensorDesc infer_sequence_mask(const LoDTensorDesc& lengths, DataType type = DataType::INT64,
                                         const MaskOptions& options = {}) {
  infer::Batch y(lengths, "sequence_mask");
  infer::check_type(y.type, DataType::INT64, "sequence_mask: lengths");
  infer::check_elements<op::sequence_mask>(type, "sequence_mask");
  operation::check_mask_length(options);
  y.type = type;
  y.row_shape.push_back(options.max_length);  // -1 is unknown here too
  return y;
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET
