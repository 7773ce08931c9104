// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup restructuring
/// Edit distance: the difference between two sequences of ids.
#pragma once

#include <lod/error.hpp>
#include <lod/infer.hpp>
#include <lod/kernel.hpp>
#include <lod/output.hpp>
#include <lod/shape.hpp>
#include <lod/supports.hpp>
#include <lod/target.hpp>

#include <concepts>
#include <cstdint>

namespace lod::inline LOD_INTERFACE::op {
struct edit_distance : elements::Id {};
}  // namespace lod::inline LOD_INTERFACE::op

namespace lod::inline LOD_INTERFACE {

/// The options of `edit_distance`.
struct EditDistanceOptions {
  bool normalized = false;  ///< divided by the length of the sequence of b
  int level = -1;           ///< the level whose sequences are compared; by default the last
};

}  // namespace lod::inline LOD_INTERFACE

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {

namespace kernel {
/// run(executor, a, a_sequences, b, b_sequences, normalized, y)
template <class Executor>
struct EditDistance : Missing<Executor> {};
/// The result for `edits` edits and a sequence of so many rows of b.
LOD_HOST_DEVICE inline float edit_distance_of(std::int64_t edits, std::int64_t length, bool normalized) noexcept {
  if (!normalized) return static_cast<float>(edits);
  if (length == 0) return edits == 0 ? 0.F : 1.F;
  return static_cast<float>(static_cast<double>(edits) / static_cast<double>(length));
}
}  // namespace kernel

/// For each sequence of `level` the Levenshtein distance from a to b: how many rows must be inserted, removed or
/// replaced to turn one into the other. Scalar rows of float; LoD: the levels of a above `level`. With `normalized`,
/// divided by the length of the sequence of b; if that is empty, the result is 0 if both are and 1 otherwise.
/// Semantics: PaddlePaddle's edit_distance, with the hypotheses as a and the references as b.
///
/// Rows are integers of size 1. Time: the product of the two lengths, without their common prefix and suffix, in steps
/// of 64 numbers of the table. The output must overlap neither argument. Throws InvalidLoD if a or b has no level,
/// OutOfRange for the level, ShapeMismatch for different numbers of sequences and for another row size.
template <Executor E, LoDTensorLike A, LoDTensorLike B, class Y>
void edit_distance_into(const E& executor, const A& a, const B& b, const EditDistanceOptions& options, Y&& y) {
  detail::check_elements<op::edit_distance, value_type_t<A>>();
  static_assert(std::same_as<value_type_t<A>, value_type_t<B>>, "edit_distance: a and b must have one element type");
  const auto from = a.view();
  const auto to = b.view();
  operation::check_has_level(from, "edit_distance: a");
  operation::check_has_level(to, "edit_distance: b");
  const int level = detail::resolve_level(options.level, from.levels(), "edit_distance");
  const kernel::Segments sequences = operation::segments(executor, from, level);
  const kernel::Segments others =
      operation::segments(executor, to, detail::resolve_level(options.level, to.levels(), "edit_distance"));
  if (from.row_size() != 1 || to.row_size() != 1) {
    throw ShapeMismatch(detail::text({"edit_distance: rows of shape ", to_string(from.row_shape()), " and ",
                                      to_string(to.row_shape()), ", expected one id a row"}));
  }
  if (others.size != sequences.size) {
    throw ShapeMismatch(
        detail::text({"edit_distance: b has ", others.size, " sequences, expected ", sequences.size, " as a"}));
  }
  const auto out = operation::prepare<float>(
      executor, "edit_distance", y, operation::LevelsAbove{from.lod_view(), level}, Shape(), {{"a", from}, {"b", to}});
  kernel::EditDistance<E>::run(executor, from.data(), sequences, to.data(), others, options.normalized, out.data());
}
template <Executor E, LoDTensorLike A, LoDTensorLike B, class Y>
void edit_distance_into(const E& executor, const A& a, const B& b, Y&& y) {
  edit_distance_into(executor, a, b, EditDistanceOptions{}, y);
}
template <Executor E, LoDTensorLike A, LoDTensorLike B>
[[nodiscard]] LoDTensor<float, device_t<A>> edit_distance(const E& executor, const A& a, const B& b,
                                                          const EditDistanceOptions& options = {}) {
  LoDTensor<float, device_t<A>> y(executor.resource());
  edit_distance_into(executor, a, b, options, y);
  return y;
}
template <LoDTensorLike A, LoDTensorLike B>
[[nodiscard]] auto edit_distance(const A& a, const B& b, const EditDistanceOptions& options = {}) {
  return edit_distance(default_executor<device_t<A>>(), a, b, options);
}

/// The result of `edit_distance`, described: see <lod/infer.hpp>.
inline LoDTensorDesc infer_edit_distance(const LoDTensorDesc& a, const LoDTensorDesc& b,
                                         const EditDistanceOptions& options = {}) {
  const infer::Batch from = infer::batch_for<op::edit_distance>(a, "edit_distance: a");
  const infer::Batch to(b, "edit_distance: b");
  infer::check_type(to.type, from.type, "edit_distance: b");
  to.level(options.level, "edit_distance: b");
  infer::Batch y = from.pooled(options.level, "edit_distance: a");
  from.check_scalar_rows("edit_distance: a", "one id a row");
  to.check_scalar_rows("edit_distance: b", "one id a row");
  y.type = DataType::FP32;
  y.row_shape.clear();
  return y;
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET
