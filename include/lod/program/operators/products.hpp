// SPDX-License-Identifier: Apache-2.0
/// @file
/// Operators that are products of matrices: mul, matmul, matmul_v2, fc.
#pragma once

#include <lod/core/any_tensor.hpp>
#include <lod/core/error.hpp>
#include <lod/core/executor.hpp>
#include <lod/core/shape.hpp>
#include <lod/core/target.hpp>
#include <lod/ops/for_each_place.hpp>
#include <lod/ops/matrix_product.hpp>
#include <lod/ops/recurrent.hpp>
#include <lod/program/operator.hpp>
#include <lod/program/operators/elementwise.hpp>
#include <lod/program/operators/shapes.hpp>
#include <lod/program/operators/unary.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs {

/// The library's own products of matrices, for all executors; `multiply` is `operation::matrix_product`. The operators
/// below take another class with this function in its place.
struct OwnProducts {
  template <Executor E, class T>
  static void multiply(const E& executor, bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n,
                       std::int64_t k, double alpha, const T* a, std::int64_t lda, const T* b, std::int64_t ldb,
                       double beta, T* c, std::int64_t ldc) {
    operation::matrix_product<E, T>(executor, transpose_a, transpose_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
  }
};

/// The factors X and Y of a product as matrices: a given number of their first dimensions are the rows.
struct FlattenedProduct {
  Shape rows;              ///< of X
  Shape columns;           ///< of Y
  std::int64_t inner = 0;  ///< the columns of X, the rows of Y

  template <class E>
  FlattenedProduct(const OperatorCall<E>& call, const Slot& x, const Slot& y, std::int32_t x_rows,
                   std::int32_t y_rows) {
    const Shape left = call.tensor(x).shape(), right = call.tensor(y).shape();
    const auto m = static_cast<std::size_t>(x_rows), k = static_cast<std::size_t>(y_rows);
    const bool has_columns = left.size() > m && right.size() > k;
    inner = has_columns ? part(left, m, left.size()).elements() : -1;
    if (!has_columns || inner != part(right, 0, k).elements()) {
      throw ShapeMismatch(detail::text({call.name(x), " of shape ", to_string(left), " with ", x_rows,
                                        " dimensions of rows, ", call.name(y), " of shape ", to_string(right), " with ",
                                        y_rows, ": expected as many columns of the first as rows of the second"}));
    }
    rows = part(left, 0, m);
    columns = part(right, k, right.size());
  }
};

/// Out = X Y (+ bias), where a given number of first dimensions of X and of Y are the rows of a matrix. Out has the
/// levels of X.
template <Executor E, class Products = OwnProducts>
RunOperator<E> flattened_product(const OperatorArguments& op, const Slot& x, const Slot& y, const Slot& bias,
                                 std::int32_t x_rows, std::int32_t y_rows, bool is_rectified) {
  const Slot out = op.output("Out");
  return [=](OperatorCall<E>& call) {
    const auto& a = call.tensor(x);
    const FlattenedProduct sizes(call, x, y, x_rows, y_rows);
    const std::int64_t inner = sizes.inner;
    const Shape &rows = sizes.rows, &columns = sizes.columns;
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
      Products::template multiply<E, T>(call.executor(), false, false, rows.elements(), n, inner, 1, left_numbers,
                                        inner, right_numbers, n, added ? 1 : 0, to, n);
      if (is_rectified) operation::map_numbers(call.executor(), to, rows.elements() * n, to, Relu());
    });
  };
}
/// The number of first dimensions that are rows.
inline std::int32_t dimensions_of_rows(const OperatorArguments& op, std::string_view name) {
  const std::int32_t count = op.attr(name, 1);
  if (count < 1) op.refuse_attr(name, "1 or more");
  return count;
}

/// mul: X, Y -> Out; x_num_col_dims = 1, y_num_col_dims = 1.
template <Executor E, class Products = OwnProducts>
RunOperator<E> mul(const OperatorArguments& op) {
  return flattened_product<E, Products>(op, op.input("X"), op.input("Y"), Slot(),
                                        dimensions_of_rows(op, "x_num_col_dims"),
                                        dimensions_of_rows(op, "y_num_col_dims"), false);
}

/// fc: Input, W, Bias? -> Out; in_num_col_dims = 1, activation_type = "" or "relu".
template <Executor E, class Products = OwnProducts>
RunOperator<E> fc(const OperatorArguments& op) {
  op.expect_attr("padding_weights", false);
  const std::string activation = op.attr("activation_type", "");
  if (!activation.empty() && activation != "relu") op.refuse_attr("activation_type", "\"\" or \"relu\"");
  return flattened_product<E, Products>(op, op.input("Input"), op.input("W"), op.optional_input("Bias"),
                                        dimensions_of_rows(op, "in_num_col_dims"), 1, !activation.empty());
}

/// mul_grad: X, Y, Out@GRAD -> X@GRAD?, Y@GRAD?; attributes as `mul`.
template <Executor E, class Products = OwnProducts>
RunOperator<E> mul_grad(const OperatorArguments& op) {
  const Slot x = op.input("X"), y = op.input("Y"), dz = op.input("Out@GRAD");
  const Slot dx = op.optional_output("X@GRAD"), dy = op.optional_output("Y@GRAD");
  const std::int32_t x_rows = dimensions_of_rows(op, "x_num_col_dims"),
                     y_rows = dimensions_of_rows(op, "y_num_col_dims");
  return [=](OperatorCall<E>& call) {
    const auto a = call.tensor(x), b = call.tensor(y);
    const FlattenedProduct sizes(call, x, y, x_rows, y_rows);
    const std::int64_t m = sizes.rows.elements(), n = sizes.columns.elements(), k = sizes.inner;
    call.with_floating(x, [&](auto element) {
      using T = typename decltype(element)::type;
      const T *const left = call.template view<T>(x).data(), *const right = call.template view<T>(y).data();
      const T* const given = numbers_of<T>(call, dz, sizes.rows.followed_by(sizes.columns));
      if (dx) {
        auto out = call.output_bytes(dx, a.data_type(), a.lod(), a.row_shape(), a.rows());
        Products::template multiply<E, T>(call.executor(), false, true, m, k, n, 1, given, n, right, n, 0,
                                          out.template elements<T>(), k);
      }
      if (dy) {
        auto out = call.output_bytes(dy, b.data_type(), b.lod(), b.row_shape(), b.rows());
        Products::template multiply<E, T>(call.executor(), true, false, k, n, m, 1, left, k, given, n, 0,
                                          out.template elements<T>(), n);
      }
    });
  };
}

/// Products of the matrices in the last two dimensions; the dimensions before them are broadcast. A vector on the left
/// is a row, one on the right a column; the result has no dimension for it.
class BatchedProduct {
 public:
  std::int64_t m;  ///< rows of the products
  std::int64_t k;  ///< terms of their sums
  std::int64_t n;  ///< columns
  std::int64_t left_columns;
  std::int64_t right_columns;
  Shape shape;  ///< of the result

  template <class E>
  BatchedProduct(const OperatorCall<E>& call, const Slot& x, const Slot& y, bool transpose_x, bool transpose_y)
      : BatchedProduct(matrices(call.tensor(x).shape(), true, transpose_x),
                       matrices(call.tensor(y).shape(), false, transpose_y), transpose_x, transpose_y) {
    if (call.tensor(x).shape().size() > 1) shape = shape.followed_by({m});
    if (call.tensor(y).shape().size() > 1) shape = shape.followed_by({n});
    if (!fits_) {
      throw ShapeMismatch(detail::text({call.name(x), " of shape ", to_string(call.tensor(x).shape()), ", ",
                                        call.name(y), " of shape ", to_string(call.tensor(y).shape()),
                                        ": expected as many columns of the first as rows of the second"}));
    }
  }

  /// Calls f(i, j, k) for each product, with the places of its matrices' first numbers in X, Y and the result.
  template <class F>
  void for_each(const F& f) const {
    if (m == 0 || n == 0) return;  // however many matrices without numbers there are
    std::int64_t place = 0;
    batch_.for_each_pair([&](std::int64_t i, std::int64_t j) {
      f(i * m * k, j * k * n, place);
      place += m * n;
    });
  }

 private:
  static Shape matrices(const Shape& given, bool is_left, bool is_transposed) {
    if (given.size() != 1) return given;
    return is_left != is_transposed ? Shape(1, given) : given.followed_by({1});
  }
  BatchedProduct(const Shape& left, const Shape& right, bool transpose_x, bool transpose_y)
      : m(transpose_x ? left.back() : left[left.size() - 2]),
        k(transpose_x ? left[left.size() - 2] : left.back()),
        n(transpose_y ? right[right.size() - 2] : right.back()),
        left_columns(left.back()),
        right_columns(right.back()),
        batch_(part(left, 0, left.size() - 2), part(right, 0, right.size() - 2), -1),
        fits_(k == (transpose_y ? right.back() : right[right.size() - 2])) {
    shape = batch_.shape();
  }

  Broadcast batch_;
  bool fits_;
};

template <Executor E, class Products = OwnProducts>
RunOperator<E> batched_product(const OperatorArguments& op, bool transpose_x, bool transpose_y, float alpha) {
  const Slot x = op.input("X"), y = op.input("Y"), out = op.output("Out");
  return [=](OperatorCall<E>& call) {
    const auto& a = call.tensor(x);
    const BatchedProduct sizes(call, x, y, transpose_x, transpose_y);
    call.with_floating(x, [&](auto element) {
      using T = typename decltype(element)::type;
      const T *const from = call.template view<T>(x).data(), *const by = call.template view<T>(y).data();
      auto product = call.output_bytes(out, a.data_type(), sizes.shape, a);
      T* const to = product.template elements<T>();
      sizes.for_each([&](std::int64_t i, std::int64_t j, std::int64_t place) {
        Products::template multiply<E, T>(call.executor(), transpose_x, transpose_y, sizes.m, sizes.n, sizes.k,
                                          static_cast<double>(alpha), from + i, sizes.left_columns, by + j,
                                          sizes.right_columns, 0, to + place, sizes.n);
      });
    });
  };
}
/// The gradients of batched products: X, Y, Out@GRAD -> X@GRAD?, Y@GRAD?
template <Executor E, class Products = OwnProducts>
RunOperator<E> batched_product_grad(const OperatorArguments& op, bool transpose_x, bool transpose_y, float alpha) {
  const Slot x = op.input("X"), y = op.input("Y"), dz = op.input("Out@GRAD");
  const Slot dx = op.optional_output("X@GRAD"), dy = op.optional_output("Y@GRAD");
  return [=, factor = static_cast<double>(alpha)](OperatorCall<E>& call) {
    const auto a = call.tensor(x), b = call.tensor(y);
    const BatchedProduct sizes(call, x, y, transpose_x, transpose_y);
    const std::int64_t m = sizes.m, k = sizes.k, n = sizes.n;
    const std::int64_t x_step = sizes.left_columns, y_step = sizes.right_columns;
    call.with_floating(x, [&](auto element) {
      using T = typename decltype(element)::type;
      const T *const left = call.template view<T>(x).data(), *const right = call.template view<T>(y).data();
      const T* const given = numbers_of<T>(call, dz, sizes.shape);
      // Sums, since a matrix may be repeated.
      const auto write = [&](const Slot& slot, const auto& like, const auto& add) {
        if (!slot) return;
        auto out = call.output_bytes(slot, like.data_type(), like.lod(), like.row_shape(), like.rows());
        T* const to = out.template elements<T>();
        operation::repeat_number(call.executor(), T{0}, like.rows() * like.row_size(), to);
        sizes.for_each([&](std::int64_t i, std::int64_t j, std::int64_t place) {
          add(left + i, right + j, given + place, to + (&slot == &dx ? i : j));
        });
      };
      const auto product = [&](bool transpose_a, bool transpose_b, std::int64_t rows, std::int64_t columns,
                               std::int64_t terms, const T* p, std::int64_t p_step, const T* q, std::int64_t q_step,
                               T* to) {
        Products::template multiply<E, T>(call.executor(), transpose_a, transpose_b, rows, columns, terms, factor, p,
                                          p_step, q, q_step, 1, to, columns);
      };
      write(dx, a, [&](const T*, const T* q, const T* g, T* to) {
        transpose_x ? product(transpose_y, true, k, m, n, q, y_step, g, n, to)
                    : product(false, !transpose_y, m, k, n, g, n, q, y_step, to);
      });
      write(dy, b, [&](const T* p, const T*, const T* g, T* to) {
        transpose_y ? product(true, transpose_x, n, k, m, g, n, p, x_step, to)
                    : product(!transpose_x, false, k, n, m, p, x_step, g, n, to);
      });
    });
  };
}

/// matmul: X, Y -> Out; transpose_X = false, transpose_Y = false, alpha = 1; and matmul_grad.
template <Executor E, bool is_gradient = false, class Products = OwnProducts>
RunOperator<E> matmul(const OperatorArguments& op) {
  op.expect_attr("head_number", 1);
  constexpr auto* product = is_gradient ? batched_product_grad<E, Products> : batched_product<E, Products>;
  return product(op, op.attr("transpose_X", false), op.attr("transpose_Y", false), op.attr("alpha", 1.0f));
}
/// matmul_v2: X, Y -> Out; trans_x = false, trans_y = false; and matmul_v2_grad.
template <Executor E, bool is_gradient = false, class Products = OwnProducts>
RunOperator<E> matmul_v2(const OperatorArguments& op) {
  constexpr auto* product = is_gradient ? batched_product_grad<E, Products> : batched_product<E, Products>;
  return product(op, op.attr("trans_x", false), op.attr("trans_y", false), 1.0f);
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs
