// SPDX-License-Identifier: Apache-2.0
/// @file
/// Row-sparse results on a GPU, which have places for as many rows as there may be.
#pragma once

#include <lod/executor.hpp>
#include <lod/selected_rows.hpp>
#include <lod/shape.hpp>
#include <lod/target.hpp>

#include <cstdint>

namespace lod::inline LOD_TARGET {
namespace operation {

/// Gives `out` places for `count` rows, whose ids are to be written where the result points: -1 for a place that names
/// no row.
template <Executor E, class T>
std::int64_t* make_places(const E& executor, SelectedRows<T, typename E::device>& out, std::int64_t count,
                          std::int64_t height, const Shape& row_shape) {
  if (!out.value().resource()) out = SelectedRows<T, typename E::device>(executor.resource());
  out.resize(count, height, row_shape);
  return out.rows().data();
}

}  // namespace operation
}  // namespace lod::inline LOD_TARGET
