// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup restructuring
/// Edit distance: the difference between two sequences of ids.
#pragma once

#include <lod/core/error.hpp>
#include <lod/core/shape.hpp>
#include <lod/core/target.hpp>
#include <lod/ops/declaration.hpp>
#include <lod/ops/infer.hpp>
#include <lod/ops/kernel.hpp>
#include <lod/ops/output.hpp>
#include <lod/ops/supports.hpp>

#include <cstdint>

namespace lod::inline LOD_INTERFACE::op {
struct edit_distance : elements::Id {
  static constexpr Text text{
      "a, b",
      "The Levenshtein distance from each sequence of a to that of b, divided by the length of b's if `normalized`."};
};
}  // namespace lod::inline LOD_INTERFACE::op

namespace lod::inline LOD_INTERFACE {

/// The options of `edit_distance`.
struct EditDistanceOptions {
  bool normalized = false;  ///< whether to divide by the length of the sequence of b
  int level = -1;           ///< the level whose sequences are compared; by default the last
};

}  // namespace lod::inline LOD_INTERFACE

namespace lod::inline LOD_INTERFACE::kernel {
/// run(executor, a, a_sequences, b, b_sequences, normalized, y)
struct EditDistance {};
/// The result for `edits` edits, where the sequence of b has `length` rows.
LOD_TAGGED LOD_HOST_DEVICE inline float edit_distance_of(std::int64_t edits, std::int64_t length,
                                                         bool normalized) noexcept {
  if (!normalized) return static_cast<float>(edits);
  if (length == 0) return edits == 0 ? 0.F : 1.F;
  return static_cast<float>(static_cast<double>(edits) / static_cast<double>(length));
}
}  // namespace lod::inline LOD_INTERFACE::kernel

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {

namespace operation {

template <>
struct Declared<op::edit_distance>
    : Takes<Tensor, Tensor>, With<EditDistanceOptions>, Gives<TensorOf<float>>, Launches<kernel::EditDistance> {
  static constexpr const char* name = "edit_distance";
  template <Executor E, class T>
  static void run(const E& executor, const Input<E, T>& a, const Input<E, T>& b, const EditDistanceOptions& options,
                  const To<E, float>& y) {
    check_has_level(a, {name, "a"});
    check_has_level(b, {name, "b"});
    const int level = detail::resolve_level(options.level, a.levels(), name);
    const kernel::Segments sequences = segments(executor, a, level);
    const kernel::Segments others = segments(executor, b, detail::resolve_level(options.level, b.levels(), name));
    if (a.row_size() != 1 || b.row_size() != 1) {
      throw ShapeMismatch(detail::text({name, ": rows of shape ", to_string(a.row_shape()), " and ",
                                        to_string(b.row_shape()), ", expected one id a row"}));
    }
    if (others.size != sequences.size) {
      throw ShapeMismatch(
          detail::text({name, ": b has ", others.size, " sequences, expected ", sequences.size, " as a"}));
    }
    const auto out = prepare(executor, name, y, LevelsAbove{a.lod_view(), level}, Shape(), {{"a", a}, {"b", b}});
    launch(kernel::EditDistance(), executor, a.data(), sequences, b.data(), others, options.normalized, out.data());
  }
};

}  // namespace operation

/// For each sequence of `level` the Levenshtein distance from a to b: how many rows must be inserted, removed or
/// replaced to turn one into the other. Scalar rows of float; LoD: the levels of a above `level`. With `normalized`,
/// divided by the length of the sequence of b; if that is empty, the result is 0 if both are and 1 otherwise.
/// Semantics: PaddlePaddle's edit_distance, with the hypotheses as a and the references as b.
///
/// Rows are integers of size 1. Time: the product of the two lengths, without their common prefix and suffix, divided
/// by 64: each step computes 64 entries of the table. The output must overlap neither argument. Throws InvalidLoD if a
/// or b has no level, OutOfRange for the level, ShapeMismatch for different numbers of sequences and for any other row
/// size.
inline constexpr operation::Call<op::edit_distance> edit_distance{};
inline constexpr operation::CallInto<op::edit_distance> edit_distance_into{};

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
