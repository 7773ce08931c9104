// SPDX-License-Identifier: Apache-2.0
/// @file
/// Operators that are products of matrices: mul.
#pragma once

#include <lod/core/error.hpp>
#include <lod/core/executor.hpp>
#include <lod/core/shape.hpp>
#include <lod/core/target.hpp>
#include <lod/ops/matrix_product.hpp>
#include <lod/program/operator.hpp>
#include <lod/program/operators/shapes.hpp>

#include <cstddef>
#include <cstdint>

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs {

/// mul: X, Y -> Out; x_num_col_dims = 1, y_num_col_dims = 1: how many dimensions of each are the rows of a matrix.
template <Executor E>
RunOperator<E> mul(const OperatorArguments& op) {
  const Slot x = op.input("X"), y = op.input("Y"), out = op.output("Out");
  const std::int32_t x_rows = op.attr("x_num_col_dims", 1), y_rows = op.attr("y_num_col_dims", 1);
  if (x_rows < 1) op.refuse_attr("x_num_col_dims", "1 or more");
  if (y_rows < 1) op.refuse_attr("y_num_col_dims", "1 or more");
  return [=](OperatorCall<E>& call) {
    const AnyLoDTensor &a = call.tensor(x), &b = call.tensor(y);
    const Shape left = a.shape(), right = b.shape();
    const auto m = static_cast<std::size_t>(x_rows), k = static_cast<std::size_t>(y_rows);
    const bool has_columns = left.size() > m && right.size() > k;
    const std::int64_t inner = has_columns ? part(left, m, left.size()).elements() : -1;
    if (!has_columns || inner != part(right, 0, k).elements()) {
      throw ShapeMismatch(detail::text({call.name(x), " of shape ", to_string(left), " with ", x_rows,
                                        " dimensions of rows, ", call.name(y), " of shape ", to_string(right), " with ",
                                        y_rows, ": expected as many columns of the first as rows of the second"}));
    }
    const Shape rows = part(left, 0, m), columns = part(right, k, right.size());
    call.with_floating(x, [&](auto element) {
      using T = typename decltype(element)::type;
      const T* const left_numbers = call.template view<T>(x).data();
      const T* const right_numbers = call.template view<T>(y).data();
      auto product = call.output_bytes(out, a.data_type(), rows.followed_by(columns), a);
      const std::int64_t n = columns.elements();
      operation::matrix_product<E, T>(call.executor(), false, false, rows.elements(), n, inner, 1, left_numbers, inner,
                                      right_numbers, n, 0, product.template elements<T>(), n);
    });
  };
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs
