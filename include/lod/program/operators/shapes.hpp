// SPDX-License-Identifier: Apache-2.0
/// @file
/// What operators on dense tensors share: axes, parts of shapes, and tensors under another shape.
#pragma once

#include <lod/core/error.hpp>
#include <lod/core/lod_index.hpp>
#include <lod/core/lod_view.hpp>
#include <lod/core/shape.hpp>
#include <lod/core/target.hpp>
#include <lod/program/operator.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs {

/// The dimensions [begin, end) of a shape.
inline Shape part(const Shape& shape, std::size_t begin, std::size_t end) {
  return Shape(std::span<const std::int64_t>(shape.data() + begin, end - begin));
}
/// An axis of a shape of that rank; negative ones count from the end. `beyond` is 1 where the end itself is one.
inline std::size_t axis_of(std::int64_t axis, std::size_t rank, std::int64_t beyond = 0) {
  const std::int64_t size = static_cast<std::int64_t>(rank) + beyond, counted = axis < 0 ? axis + size : axis;
  if (counted < 0 || counted >= size) {
    throw OutOfRange(detail::text({"axis ", axis, ", expected ", -size, " to ", size - 1}));
  }
  return static_cast<std::size_t>(counted);
}

/// A shape around an axis: elements before it, along it, and after it.
struct Around {
  std::int64_t before;
  std::int64_t along;
  std::int64_t after;

  Around(const Shape& shape, std::size_t axis)
      : before(part(shape, 0, axis).elements()),
        along(shape[axis]),
        after(part(shape, axis + 1, shape.size()).elements()) {}
};

/// The same numbers as rows of another shape, without levels. `row_shape` must outlive the view.
template <class T>
LoDTensorView<const T, Cpu> with_rows(const LoDTensorView<const T, Cpu>& x, std::int64_t rows, const Shape& row_shape) {
  return {x.data(), LoDView::plain(0, rows), &row_shape, row_shape.elements()};
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs
