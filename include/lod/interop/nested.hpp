// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup core
/// Tensors and slices as nested containers of the standard library: the inverse of LoDTensor::from_nested.
#pragma once

#include <lod/core/device.hpp>
#include <lod/core/error.hpp>
#include <lod/core/lod_tensor.hpp>
#include <lod/core/lod_view.hpp>
#include <lod/core/shape.hpp>
#include <lod/core/sizes.hpp>
#include <lod/core/target.hpp>

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

namespace lod::inline LOD_INTERFACE {

namespace detail::inline LOD_TARGET {

/// The row that begins at `from`: a number, or a std::array of any depth.
template <class Element, class T>
Element nested_row(const T* from) {
  if constexpr (is_array<Element>) {
    Element row{};
    const std::int64_t stride = NestedRow<typename Element::value_type>::shape().elements();
    for (auto& part : row) {
      part = nested_row<typename Element::value_type>(from);
      from += stride;
    }
    return row;
  } else {
    return static_cast<Element>(*from);
  }
}

template <class Nested, class T>
Nested nest(const LoDTensorView<const T, Cpu>& x) {
  Nested sequences;
  if constexpr (requires { sequences.reserve(std::size_t{0}); }) {
    sequences.reserve(checked_count<typename Nested::value_type>(x.size(), "to_nested"));
  }
  for (std::int64_t i = 0; i < x.size(); ++i) {
    if constexpr (nesting<Nested>() > 1) {
      sequences.push_back(nest<typename Nested::value_type>(x.element(i)));
    } else {
      sequences.push_back(nested_row<typename Nested::value_type>(x.data() + i * x.row_size()));
    }
  }
  return sequences;
}

}  // namespace detail::inline LOD_TARGET

/// The values of a tensor, a view or a slice in containers nested like its levels, for example
///
///     lod::to_nested<std::vector<std::vector<std::vector<int>>>>(x)   // two levels, scalar rows
///     lod::to_nested<std::vector<std::array<float, 8>>>(x[2][0])      // no level, rows of the shape {8}
///
/// `Nested` is the argument type of LoDTensor::from_nested: n nested containers with push_back for n-1 levels, and
/// innermost a number for scalar rows, or a std::array (of std::arrays) for rows of its shape. Numbers are converted by
/// static_cast, as in from_nested. An empty sequence is an empty container; so is a batch without sequences.
///
/// Throws ShapeMismatch unless the levels and the row shape are those of `Nested`. One allocation for each sequence of
/// each level.
template <class Nested, LoDTensorLike X>
  requires(detail::nesting<Nested>() > 0 && std::is_same_v<typename X::device, Cpu>)
LOD_TAGGED Nested to_nested(const X& x) {
  constexpr int levels = detail::nesting<Nested>() - 1;
  const auto view = x.view();
  if (view.levels() != levels) {
    throw ShapeMismatch(detail::text({"to_nested: containers for ", levels, " levels, but there are ", view.levels()}));
  }
  const Shape row_shape = detail::NestedRow<typename detail::InnermostOf<Nested>::type>::shape();
  if (view.row_shape() != row_shape) {
    throw ShapeMismatch(detail::text({"to_nested: containers for rows of shape ", to_string(row_shape),
                                      ", but they have ", to_string(view.row_shape())}));
  }
  return detail::nest<Nested>(view);
}

}  // namespace lod::inline LOD_INTERFACE
