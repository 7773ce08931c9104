// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup restructuring
/// Positions: for each row its place in its sequence.
#pragma once

#include <lod/core/error.hpp>
#include <lod/core/executor.hpp>
#include <lod/core/shape.hpp>
#include <lod/ops/batch_levels.hpp>
#include <lod/ops/declaration.hpp>
#include <lod/ops/infer.hpp>
#include <lod/ops/staging.hpp>

#include <cstdint>
#include <type_traits>

namespace lod::inline LOD_INTERFACE::op {
struct sequence_positions : elements::Id {
  static constexpr Text text{"lod", "For each row of a batch its place in its sequence: 0, 1, 2, ..."};
};
}  // namespace lod::inline LOD_INTERFACE::op

namespace lod::inline LOD_INTERFACE {

/// The options of `sequence_positions`.
struct PositionOptions {
  int level = -1;  ///< the level whose sequences are counted through; by default the last
};

}  // namespace lod::inline LOD_INTERFACE

namespace lod::inline LOD_INTERFACE::kernel {
/// run(executor, sequences, y): the place of each row in its sequence.
struct SequencePositions {};
}  // namespace lod::inline LOD_INTERFACE::kernel

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {

namespace operation {

template <>
struct Declared<op::sequence_positions> : LaunchesOnIds<kernel::SequencePositions> {};

}  // namespace operation

/// For each row of a batch with these levels its place in its sequence of `level`: 0, 1, 2, ..., counted anew in each
/// sequence. Scalar rows of int64, LoD as given: that of a batch, or of a part of one. Empty sequences have no rows.
/// By such positions networks tell the rows of a sequence apart: see `embedding`, `rotary_embedding`.
///
/// One pass over the result. Without an executor, it is in the memory of `Device`: `sequence_positions<Cuda>(lod)`.
/// Throws InvalidLoD if there is no level, OutOfRange for the level.
template <Executor E, class Y>
void sequence_positions_into(const E& executor, const BatchLevels& lod, const PositionOptions& options, Y&& y) {
  static_assert(std::is_same_v<value_type_t<std::remove_cvref_t<Y>>, std::int64_t>, "positions are int64");
  const LoDView& levels = lod.view();
  if (levels.levels() == 0) operation::throw_no_level("sequence_positions");
  const int level = detail::resolve_level(options.level, levels.levels(), "sequence_positions");
  const auto out = operation::prepare(executor, "sequence_positions", y, operation::SameLevels{levels}, Shape(), {});
  launch(kernel::SequencePositions(), executor, operation::segments(executor, levels, level), out.data());
}
template <Executor E, class Y>
void sequence_positions_into(const E& executor, const BatchLevels& lod, Y&& y) {
  sequence_positions_into(executor, lod, PositionOptions{}, y);
}
template <Executor E>
[[nodiscard]] LoDTensor<std::int64_t, typename E::device> sequence_positions(const E& executor, const BatchLevels& lod,
                                                                             const PositionOptions& options = {}) {
  LoDTensor<std::int64_t, typename E::device> y(executor.resource());
  sequence_positions_into(executor, lod, options, y);
  return y;
}
template <class Device = Cpu>
[[nodiscard]] LoDTensor<std::int64_t, Device> sequence_positions(const BatchLevels& lod,
                                                                 const PositionOptions& options = {}) {
  return sequence_positions(default_executor<Device>(), lod, options);
}

/// The result of `sequence_positions`, described: see <lod/infer.hpp>.
inline LoDTensorDesc infer_sequence_positions(const LoDTensorDesc& lod, const PositionOptions& options = {}) {
  infer::Batch y(lod, "sequence_positions");
  y.level(options.level, "sequence_positions");
  y.type = DataType::INT64;
  y.row_shape.clear();
  return y;
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET
