// SPDX-License-Identifier: Apache-2.0
/// @file
/// Operators that are products of matrices: mul, matmul, matmul_v2, fc.
#pragma once

#include <lod/core/any_tensor.hpp>
#include <lod/core/error.hpp>
#include <lod/core/executor.hpp>
#include <lod/core/shape.hpp>
#include <lod/core/target.hpp>
#include <lod/ops/matrix_product.hpp>
#include <lod/ops/recurrent.hpp>
#include <lod/program/operator.hpp>
#include <lod/program/operators/elementwise.hpp>
#include <lod/program/operators/shapes.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs {

/// Out = X Y (+ bias), where the first dimensions of X and of Y, as many as given, are the rows of a matrix. Out has
/// the levels of X.
template <Executor E>
RunOperator<E> flattened_product(const OperatorArguments& op, const Slot& x, const Slot& y, const Slot& bias,
                                 std::int32_t x_rows, std::int32_t y_rows, bool is_rectified) {
  const Slot out = op.output("Out");
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
      const std::int64_t n = columns.elements();
      const T* const added = bias ? call.template view<T>(bias).data() : nullptr;
      if (bias && call.tensor(bias).rows() * call.tensor(bias).row_size() != n) {
        throw ShapeMismatch(detail::text(
            {call.name(bias), " of shape ", to_string(call.tensor(bias).shape()), ", expected ", n, " numbers"}));
      }
      auto product = call.output_bytes(out, a.data_type(), rows.followed_by(columns), a);
      T* const to = product.template elements<T>();
      if (added) operation::repeat_row(call.executor(), added, n, rows.elements(), to);
      operation::matrix_product<E, T>(call.executor(), false, false, rows.elements(), n, inner, 1, left_numbers, inner,
                                      right_numbers, n, added ? 1 : 0, to, n);
      if (is_rectified) std::transform(to, to + rows.elements() * n, to, [](T v) { return v < 0 ? T{0} : v; });
    });
  };
}
/// How many dimensions are rows.
inline std::int32_t dimensions_of_rows(const OperatorArguments& op, std::string_view name) {
  const std::int32_t count = op.attr(name, 1);
  if (count < 1) op.refuse_attr(name, "1 or more");
  return count;
}

/// mul: X, Y -> Out; x_num_col_dims = 1, y_num_col_dims = 1.
template <Executor E>
RunOperator<E> mul(const OperatorArguments& op) {
  return flattened_product<E>(op, op.input("X"), op.input("Y"), Slot(), dimensions_of_rows(op, "x_num_col_dims"),
                              dimensions_of_rows(op, "y_num_col_dims"), false);
}

/// fc: Input, W, Bias? -> Out; in_num_col_dims = 1, activation_type = "" or "relu".
template <Executor E>
RunOperator<E> fc(const OperatorArguments& op) {
  op.expect_attr("padding_weights", false);
  const std::string activation = op.attr("activation_type", "");
  if (!activation.empty() && activation != "relu") op.refuse_attr("activation_type", "\"\" or \"relu\"");
  return flattened_product<E>(op, op.input("Input"), op.input("W"), op.optional_input("Bias"),
                              dimensions_of_rows(op, "in_num_col_dims"), 1, !activation.empty());
}

/// Products of the matrices in the last two dimensions; those before are broadcast. A vector on the left is a row, one
/// on the right a column, of which the result has no dimension.
template <Executor E>
RunOperator<E> batched_product(const OperatorArguments& op, bool transpose_x, bool transpose_y, float alpha) {
  const Slot x = op.input("X"), y = op.input("Y"), out = op.output("Out");
  return [=](OperatorCall<E>& call) {
    const AnyLoDTensor& a = call.tensor(x);
    Shape left = a.shape(), right = call.tensor(y).shape();
    const bool is_row = left.size() == 1, is_column = right.size() == 1;
    if (is_row) left = transpose_x ? left.followed_by({1}) : Shape(1, left);
    if (is_column) right = transpose_y ? Shape(1, right) : right.followed_by({1});
    const Shape left_batch = part(left, 0, left.size() - 2), right_batch = part(right, 0, right.size() - 2);
    const std::int64_t left_rows = left[left.size() - 2], left_columns = left.back();
    const std::int64_t right_rows = right[right.size() - 2], right_columns = right.back();
    const std::int64_t m = transpose_x ? left_columns : left_rows, k = transpose_x ? left_rows : left_columns;
    const std::int64_t n = transpose_y ? right_rows : right_columns;
    if (k != (transpose_y ? right_columns : right_rows)) {
      throw ShapeMismatch(detail::text({call.name(x), " of shape ", to_string(a.shape()), ", ", call.name(y),
                                        " of shape ", to_string(call.tensor(y).shape()),
                                        ": expected as many columns of the first as rows of the second"}));
    }
    const Broadcast batch(left_batch, right_batch, -1);
    Shape shape = batch.shape();
    if (!is_row) shape = shape.followed_by({m});
    if (!is_column) shape = shape.followed_by({n});
    call.with_floating(x, [&](auto element) {
      using T = typename decltype(element)::type;
      const T *const from = call.template view<T>(x).data(), *const by = call.template view<T>(y).data();
      auto product = call.output_bytes(out, a.data_type(), shape, a);
      T* to = product.template elements<T>();
      batch.for_each_pair([&](std::int64_t i, std::int64_t j) {
        operation::matrix_product<E, T>(call.executor(), transpose_x, transpose_y, m, n, k, static_cast<double>(alpha),
                                        from + i * left_rows * left_columns, left_columns,
                                        by + j * right_rows * right_columns, right_columns, 0, to, n);
        to += m * n;
      });
    });
  };
}

/// matmul: X, Y -> Out; transpose_X = false, transpose_Y = false, alpha = 1.
template <Executor E>
RunOperator<E> matmul(const OperatorArguments& op) {
  op.expect_attr("head_number", 1);
  return batched_product<E>(op, op.attr("transpose_X", false), op.attr("transpose_Y", false), op.attr("alpha", 1.0f));
}
/// matmul_v2: X, Y -> Out; trans_x = false, trans_y = false.
template <Executor E>
RunOperator<E> matmul_v2(const OperatorArguments& op) {
  return batched_product<E>(op, op.attr("trans_x", false), op.attr("trans_y", false), 1.0f);
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs
