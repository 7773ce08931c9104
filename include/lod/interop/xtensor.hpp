// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup core
/// The doorway to xtensor: its expressions over the rows of tensors and slices, and tensors made from its expressions.
#pragma once

#include <lod/core/device.hpp>
#include <lod/core/error.hpp>
#include <lod/core/lod_index.hpp>
#include <lod/core/lod_tensor.hpp>
#include <lod/core/lod_view.hpp>
#include <lod/core/shape.hpp>
#include <lod/core/target.hpp>

#if __has_include(<xtensor/containers/xadapt.hpp>)  // from 0.26 on
#  include <xtensor/containers/xadapt.hpp>
#  include <xtensor/core/xnoalias.hpp>
#  include <xtensor/core/xoperation.hpp>
#else
#  include <xtensor/xadapt.hpp>
#  include <xtensor/xnoalias.hpp>
#  include <xtensor/xoperation.hpp>
#endif

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

namespace lod::inline LOD_INTERFACE {

namespace detail::inline LOD_TARGET {

/// A new tensor of `shape`, whose dimension 0 is the rows of `lod`, with the values of the expression.
template <class T, class E>
LoDTensor<T> evaluate(LoD lod, const E& expression, const Shape& shape) {
  LoDTensor<T> tensor;
  tensor.resize(std::move(lod), shape.without_first(), shape.empty() ? 1 : shape.front());
  // Assigned, never xt::eval'ed: xtensor 0.24 crashes on that for reducers of dynamic rank.
  const std::vector<std::size_t> dims(expression.shape().begin(), expression.shape().end());
  auto values = xt::adapt<xt::layout_type::row_major>(tensor.data(), tensor.values().size(), xt::no_ownership(), dims);
  if constexpr (std::is_same_v<typename E::value_type, T>) {
    xt::noalias(values) = expression;
  } else {
    xt::noalias(values) = xt::cast<T>(expression);
  }
  return tensor;
}

template <class E>
Shape shape_of(const E& expression) {
  std::vector<std::int64_t> dims;
  for (const auto dim : expression.shape()) dims.push_back(static_cast<std::int64_t>(dim));
  return dims;
}

}  // namespace detail::inline LOD_TARGET

/// The rows of x as an xtensor expression {rows, row shape...}: a container that refers to the values of x, row-major,
/// without a copy. It can write to them, unless they are const, and is valid as long as a view of them is. `Rank` is
/// the number of dimensions, or 2 for any row shape: then {rows, row_size}, the matrix for products. Throws
/// ShapeMismatch for any other rank. Tensors without rows give expressions without elements.
template <std::size_t Rank, class T>
LOD_TAGGED auto as_xtensor(const LoDTensorView<T, Cpu>& x) {
  const std::size_t rank = 1 + x.row_shape().size();
  if (Rank != rank && Rank != 2) {
    throw ShapeMismatch(detail::text({"as_xtensor: rank ", Rank, " for rows of shape ", to_string(x.row_shape()),
                                      ", expected ", rank, ", or 2 for {rows, row size}"}));
  }
  std::array<std::size_t, Rank> dims{static_cast<std::size_t>(x.rows())};
  for (std::size_t dim = 1; dim < Rank; ++dim) {
    dims[dim] = static_cast<std::size_t>(Rank == rank ? x.row_shape()[dim - 1] : x.row_size());
  }
  return xt::adapt<xt::layout_type::row_major>(x.data(), x.values().size(), xt::no_ownership(), dims);
}
template <std::size_t Rank, class T>
LOD_TAGGED auto as_xtensor(LoDTensor<T, Cpu>& x) {
  return as_xtensor<Rank>(x.view());
}
template <std::size_t Rank, class T>
LOD_TAGGED auto as_xtensor(const LoDTensor<T, Cpu>& x) {
  return as_xtensor<Rank>(x.view());
}
/// Not for a temporary tensor, whose values are gone when the expression is used.
template <std::size_t Rank, class T>
auto as_xtensor(const LoDTensor<T, Cpu>&& x) = delete;

/// A tensor with the values of an xtensor expression of any rank, converted to T: dimension 0 is the rows of `lod`, the
/// others are the row shape. Throws ShapeMismatch unless there are as many rows; if `lod` has no levels, any number
/// will do.
template <class T, class E>
LOD_TAGGED LoDTensor<T> from_xtensor(LoD lod, const xt::xexpression<E>& expression) {
  const Shape shape = detail::shape_of(expression.derived_cast());
  if (lod.levels() > 0 && (shape.empty() || shape.front() != lod.rows())) {
    throw ShapeMismatch(detail::text(
        {"from_xtensor: an expression of shape ", to_string(shape), ", but the LoD is for ", lod.rows(), " rows"}));
  }
  return detail::evaluate<T>(std::move(lod), expression.derived_cast(), shape);
}
/// The same without a level: a plain tensor of the expression's shape, one scalar row for rank 0.
template <class T, class E>
LOD_TAGGED LoDTensor<T> from_xtensor(const xt::xexpression<E>& expression) {
  return from_xtensor<T>(LoD(), expression);
}

}  // namespace lod::inline LOD_INTERFACE
