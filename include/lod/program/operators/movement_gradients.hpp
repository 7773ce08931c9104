// SPDX-License-Identifier: Apache-2.0
/// @file
/// Gradients of operators that move elements: they move them back, and add up those that came from the same element.
#pragma once

#include <lod/core/any_tensor.hpp>
#include <lod/core/data_type.hpp>
#include <lod/core/error.hpp>
#include <lod/core/executor.hpp>
#include <lod/core/shape.hpp>
#include <lod/core/target.hpp>
#include <lod/program/operator.hpp>
#include <lod/program/operators/movement.hpp>
#include <lod/program/operators/shapes.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs {

/// reshape2_grad, squeeze2_grad and the like: XShape, Out@GRAD -> X@GRAD: the same numbers under the shape of X.
/// reshape_grad has X itself.
template <Executor E, bool has_x>
RunOperator<E> reshape_grad(const OperatorArguments& op) {
  const Slot x = op.input(has_x ? "X" : "XShape"), dy = op.input("Out@GRAD"), dx = op.output("X@GRAD");
  return [=](OperatorCall<E>& call) {
    const AnyLoDTensor& from = call.tensor(dy);
    const Shape shape = has_x ? call.tensor(x).shape() : call.tensor(x).row_shape();
    if (shape.elements() != from.rows() * from.row_size()) {
      throw ShapeMismatch(detail::text({call.name(dy), " of shape ", to_string(from.shape()), ", expected the ",
                                        shape.elements(), " elements of ", to_string(shape)}));
    }
    auto out = call.output_bytes(dx, from.data_type(), shape, has_x ? call.tensor(x) : from);
    copy_blocks(from.bytes().data(), {}, out.data(), {}, static_cast<std::int64_t>(from.bytes().size()), 1);
  };
}

/// slice_grad: Input, Out@GRAD -> Input@GRAD: zeros outside of the part; attributes as `slice`.
template <Executor E>
RunOperator<E> slice_grad(const OperatorArguments& op) {
  const Slot x = op.input("Input"), dy = op.input("Out@GRAD"), dx = op.output("Input@GRAD");
  return [=, axes = SlicedAxes(op)](OperatorCall<E>& call) {
    const AnyLoDTensor &whole = call.tensor(x), &from = call.tensor(dy);
    const auto cut = axes.of(call, x);
    if (from.rows() * from.row_size() != cut.lengths.elements() || from.data_type() != whole.data_type()) {
      throw ShapeMismatch(
          detail::text({call.name(dy), ": ", to_string(from.data_type()), " of shape ", to_string(from.shape()),
                        ", expected ", to_string(whole.data_type()), " of shape ", to_string(cut.result)}));
    }
    const auto size = static_cast<std::int64_t>(size_of(from.data_type()));
    auto out = call.output_bytes(dx, whole.data_type(), whole.lod(), whole.row_shape(), whole.rows());
    std::fill_n(out.data(), whole.bytes().size(), std::byte{0});
    std::int64_t at = 0;
    cut.for_each_run(whole.shape(), [&](std::int64_t place, std::int64_t count) {
      copy_blocks(from.bytes().data(), {.first = at}, out.data(), {.first = place * size}, count * size, 1);
      at += count * size;
    });
  };
}

/// gather_grad and index_select_grad: X, Index, Out@GRAD -> X@GRAD; axis = 0, or dim: sums for parts that were taken
/// several times.
template <Executor E, bool is_select>
RunOperator<E> gather_grad(const OperatorArguments& op) {
  op.expect_no_input("Axis");
  const Slot x = op.input("X"), index = op.input("Index"), dy = op.input("Out@GRAD"), dx = op.output("X@GRAD");
  const std::int32_t axis = op.attr(is_select ? "dim" : "axis", 0);
  return [=](OperatorCall<E>& call) {
    const AnyLoDTensor& whole = call.tensor(x);
    const Shape shape = whole.shape();
    const Around around(shape, axis_of(axis, shape.size()));
    call.with_id(index, [&](auto id) {
      const auto parts = row_numbers<typename decltype(id)::type>(call, index, around.along);
      call.with_floating(x, [&](auto element) {
        using T = typename decltype(element)::type;
        const T* given =
            some_numbers<T>(call, dy, around.before * static_cast<std::int64_t>(parts.size()) * around.after);
        write_sums<T>(call, dx, whole, [&](double* sums) {
          for (std::int64_t i = 0; i < around.parts(); ++i) {
            for (const auto place : parts) {
              double* const to = sums + (i * around.along + place) * around.after;
              for (std::int64_t k = 0; k < around.after; ++k) to[k] += static_cast<double>(*given++);
            }
          }
        });
      });
    });
  };
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs
