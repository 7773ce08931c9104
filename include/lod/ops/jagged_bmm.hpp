// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup row_preserving
/// Products of matrices, one for each sequence: the rows of the sequence times a matrix, and the rows of two batches
/// times each other.
#pragma once

#include <lod/core/error.hpp>
#include <lod/core/lod_view.hpp>
#include <lod/core/shape.hpp>
#include <lod/core/target.hpp>
#include <lod/ops/declaration.hpp>
#include <lod/ops/infer.hpp>
#include <lod/ops/kernel.hpp>
#include <lod/ops/output.hpp>
#include <lod/ops/staging.hpp>
#include <lod/ops/supports.hpp>

#include <concepts>
#include <cstdint>

namespace lod::inline LOD_INTERFACE::op {
struct jagged_dense_bmm : elements::Floating {
  static constexpr Text text{"x, dense", "The rows of each sequence of x times the sequence's matrix, a row of dense."};
};
struct jagged_dense_bmm_grad : elements::Floating {
  static constexpr Text text{"dy, x, dense", "The gradients of `jagged_dense_bmm` with respect to x and dense."};
};
struct jagged_jagged_bmm : elements::Floating {
  static constexpr Text text{"x, y", "The rows of each sequence of x, transposed, times those of y: a matrix each."};
};
struct jagged_jagged_bmm_grad : elements::Floating {
  static constexpr Text text{"dz, x, y", "The gradients of `jagged_jagged_bmm` with respect to x and y."};
};
}  // namespace lod::inline LOD_INTERFACE::op

namespace lod::inline LOD_INTERFACE {

/// The options of `jagged_dense_bmm` and `jagged_jagged_bmm`, and of their gradients.
struct JaggedBmmOptions {
  int level = -1;  ///< the level whose sequences have a matrix each; by default the last
};

/// The result of `jagged_dense_bmm_grad`.
template <class T, class Device>
struct JaggedDenseBmmGrad {
  LoDTensor<T, Device> dx;
  LoDTensor<T, Device> ddense;
};

/// The result of `jagged_jagged_bmm_grad`.
template <class T, class Device>
struct JaggedJaggedBmmGrad {
  LoDTensor<T, Device> dx;
  LoDTensor<T, Device> dy;
};

}  // namespace lod::inline LOD_INTERFACE

namespace lod::inline LOD_INTERFACE::kernel {
/// run(executor, x, sequences, terms, matrices, matrix_of, transposed, columns, y): rows of y, of `columns` numbers,
/// are rows of x, of `terms` numbers, times the matrix of their sequence. Matrices of terms x columns numbers follow
/// each other, or with `transposed` of columns x terms; matrix_of[i] is the number of that of sequence i, and where it
/// is negative, which only a GPU's may be, rows of y are 0. Without matrix_of, which may be null, it is i.
struct JaggedDenseProduct {};
/// run(executor, x, y, sequences, rows, height, width, z): z[i], height x width numbers, is the sum over the rows of
/// sequence i of a row of x, of `height` numbers, as a column times a row of y, of `width` numbers. The rows of a
/// sequence follow each other; or they are rows[k] for those k, where `rows` is not null.
struct JaggedJaggedProduct {};
}  // namespace lod::inline LOD_INTERFACE::kernel

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {

namespace operation {

/// The row shape of products with matrices, of which each row of an argument is one: {terms, that row shape...}. Throws
/// ShapeMismatch if they have another number of rows.
inline Shape row_shape_of_products(const Shape& matrix, std::int64_t terms, const Subject& what) {
  if (matrix.empty() || matrix[0] != terms) {
    throw ShapeMismatch(detail::text({what.text(), ": rows of shape ", to_string(matrix), ", expected matrices {",
                                      terms, ", ...}, with a row for each number of a row of x"}));
  }
  return matrix.without_first();
}

/// The shape of a matrix that has a row for each number of a row of x, of the shape of a row of y. Throws ShapeMismatch
/// if that is not a valid shape.
inline Shape shape_of_products(std::int64_t terms, const Shape& row, const char* what) {
  try {
    return Shape{terms}.followed_by(row);
  } catch (const ShapeMismatch& error) {
    throw ShapeMismatch(detail::text(
        {what, ": rows of x of ", terms, " numbers, rows of y of shape ", to_string(row), ": ", error.what()}));
  }
}

/// Throws ShapeMismatch unless there is a matrix for each sequence.
inline void check_matrix_count(std::int64_t found, std::int64_t sequences, const Subject& what) {
  check_row_count(found, sequences, what, ", one for each sequence");
}

template <>
struct Declared<op::jagged_dense_bmm>
    : Takes<Tensor, Tensor>, With<JaggedBmmOptions>, Launches<kernel::JaggedDenseProduct> {
  static constexpr const char* name = "jagged_dense_bmm";
  using Gradient = op::jagged_dense_bmm_grad;
  template <Executor E, class T>
  static void run(const E& executor, const Input<E, T>& x, const Input<E, T>& dense, const JaggedBmmOptions& options,
                  const To<E, T>& y) {
    check_has_level(x, name);
    const int level = detail::resolve_level(options.level, x.levels(), name);
    check_matrix_count(dense.rows(), x.lod_view().size(level), {name, "dense"});
    const Shape row_shape = row_shape_of_products(dense.row_shape(), x.row_size(), {name, "dense"});
    const auto out = prepare(executor, name, y, SameLevels{x.lod_view()}, row_shape, {{"x", x}, {"dense", dense}});
    launch(kernel::JaggedDenseProduct(), executor, x.data(), segments(executor, x, level), x.row_size(), dense.data(),
           static_cast<const std::int64_t*>(nullptr), false, out.row_size(), out.data());
  }
};

template <>
struct Declared<op::jagged_dense_bmm_grad>
    : Takes<Tensor, Tensor, Tensor>, With<JaggedBmmOptions>, GivesAll<JaggedDenseBmmGrad, Tensor, Tensor> {
  static constexpr const char* name = "jagged_dense_bmm_grad";
  template <Executor E, class T>
  static void run(const E& executor, const Input<E, T>& dy, const Input<E, T>& x, const Input<E, T>& dense,
                  const JaggedBmmOptions& options, const To<E, T>& dx, const To<E, T>& ddense) {
    check_has_level(x, {name, "x"});
    const int level = detail::resolve_level(options.level, x.levels(), name);
    check_matrix_count(dense.rows(), x.lod_view().size(level), {name, "dense"});
    check_row_count(dy.rows(), x.rows(), {name, "dy"});
    check_row_shape(dy.row_shape(), row_shape_of_products(dense.row_shape(), x.row_size(), {name, "dense"}),
                    {name, "dy"});
    const kernel::Segments sequences = segments(executor, x, level);
    const OtherMemory by_y("dy", dy), by_x("x", x), by_dense("dense", dense);
    const auto out =
        prepare(executor, {name, "dx"}, dx, SameLevels{x.lod_view()}, x.row_shape(), {by_y, by_x, by_dense});
    const auto out_dense = prepare(executor, {name, "ddense"}, ddense, SameLevels{dense.lod_view()}, dense.row_shape(),
                                   {by_y, by_x, by_dense, {"dx", dx}});
    const std::int64_t* const in_order = nullptr;
    const auto sum = [&](const kernel::Segments& of) {
      launch(kernel::JaggedJaggedProduct(), executor, x.data(), dy.data(), of, in_order, x.row_size(), dy.row_size(),
             out_dense.data());
    };
    if constexpr (std::derived_from<E, CpuExecutor>) sum(sequences.none());  // takes memory before anything is written
    launch(kernel::JaggedDenseProduct(), executor, dy.data(), sequences, dy.row_size(), dense.data(), in_order, true,
           x.row_size(), out.data());
    sum(sequences);
  }
};

}  // namespace operation

/// y[r] = x[r] * dense[i] for each row r of each sequence i of `level`: a row vector of K numbers times a matrix. Rows
/// of x may have any shape, of K numbers; dense has a row of shape {K, row shape of y...} for each sequence, as
/// `jagged_jagged_bmm` gives them, and its levels do not matter. LoD as x: an empty sequence stays empty, whatever its
/// matrix.
///
/// Sums of K products, float16 and bfloat16 as float, rounded once; on the CPU, and over Thrust, the bits of a row are
/// those that `linear` gives for that row and matrix. One pass over x and over the matrices, which short sequences read
/// where they are: 2 K N operations a row of N numbers. On a GPU one kernel, without cuBLAS. The output must not
/// overlap the arguments. Throws InvalidLoD if x has no level, OutOfRange for the level, ShapeMismatch if dense does
/// not fit.
inline constexpr operation::Call<op::jagged_dense_bmm> jagged_dense_bmm{};
inline constexpr operation::CallInto<op::jagged_dense_bmm> jagged_dense_bmm_into{};

/// The gradients of `jagged_dense_bmm` with the same options: dx with the levels and the row shape of x, ddense with
/// those of dense. The matrix of an empty sequence has gradient 0. The levels of dy are ignored.
///
/// Sums over rows consist of fixed parts: the bits do not depend on threads or on other sequences, and the error does
/// not grow with the number of rows. The outputs must not overlap the arguments. Throws as `jagged_dense_bmm`, and
/// ShapeMismatch unless dy has the shape of its result.
inline constexpr operation::Call<op::jagged_dense_bmm_grad> jagged_dense_bmm_grad{};
inline constexpr operation::CallInto<op::jagged_dense_bmm_grad> jagged_dense_bmm_grad_into{};

namespace operation {

template <>
struct Declared<op::jagged_jagged_bmm>
    : Takes<Tensor, Tensor>, With<JaggedBmmOptions>, Launches<kernel::JaggedJaggedProduct> {
  static constexpr const char* name = "jagged_jagged_bmm";
  using Gradient = op::jagged_jagged_bmm_grad;
  /// The level. Throws unless both batches have the same levels.
  template <class X, class Y>
  static int check(const X& x, const Y& y, const JaggedBmmOptions& options, const char* what) {
    check_has_level(x, {what, "x"});
    const int level = detail::resolve_level(options.level, x.levels(), what);
    if (x.lod_view() == y.lod_view()) return level;
    throw ShapeMismatch(detail::text({what, ": y: ", y.rows(), " rows with ", y.levels(),
                                      " levels, expected the levels of x, which has ", x.rows(), " rows with ",
                                      x.levels(), " levels"}));
  }
  template <Executor E, class T>
  static void run(const E& executor, const Input<E, T>& x, const Input<E, T>& y, const JaggedBmmOptions& options,
                  const To<E, T>& z) {
    const int level = check(x, y, options, name);
    const auto out = prepare(executor, name, z, LevelsAbove{x.lod_view(), level},
                             shape_of_products(x.row_size(), y.row_shape(), name), {{"x", x}, {"y", y}});
    launch(kernel::JaggedJaggedProduct(), executor, x.data(), y.data(), segments(executor, x, level),
           static_cast<const std::int64_t*>(nullptr), x.row_size(), y.row_size(), out.data());
  }
};

template <>
struct Declared<op::jagged_jagged_bmm_grad>
    : Takes<Tensor, Tensor, Tensor>, With<JaggedBmmOptions>, GivesAll<JaggedJaggedBmmGrad, Tensor, Tensor> {
  static constexpr const char* name = "jagged_jagged_bmm_grad";
  template <Executor E, class T>
  static void run(const E& executor, const Input<E, T>& dz, const Input<E, T>& x, const Input<E, T>& y,
                  const JaggedBmmOptions& options, const To<E, T>& dx, const To<E, T>& dy) {
    const int level = Declared<op::jagged_jagged_bmm>::check(x, y, options, name);
    check_matrix_count(dz.rows(), x.lod_view().size(level), {name, "dz"});
    check_row_shape(dz.row_shape(), shape_of_products(x.row_size(), y.row_shape(), name), {name, "dz"});
    const kernel::Segments sequences = segments(executor, x, level);
    const OtherMemory by_z("dz", dz), by_x("x", x), by_y("y", y);
    const SameLevels levels{x.lod_view()};
    const auto to_x = prepare(executor, {name, "dx"}, dx, levels, x.row_shape(), {by_z, by_x, by_y});
    const auto to_y = prepare(executor, {name, "dy"}, dy, levels, y.row_shape(), {by_z, by_x, by_y, {"dx", dx}});
    const std::int64_t* const by_sequence = nullptr;
    const auto second = [&](const kernel::Segments& of) {
      launch(kernel::JaggedDenseProduct(), executor, x.data(), of, x.row_size(), dz.data(), by_sequence, false,
             y.row_size(), to_y.data());
    };
    // Takes scratch memory before anything is written.
    if constexpr (std::derived_from<E, CpuExecutor>) second(sequences.none());
    launch(kernel::JaggedDenseProduct(), executor, y.data(), sequences, y.row_size(), dz.data(), by_sequence, true,
           x.row_size(), to_x.data());
    second(sequences);
  }
};

}  // namespace operation

/// z[i] = transpose(x_i) * y_i for each sequence i of `level`, where x_i and y_i are its rows as matrices of n_i rows:
/// a matrix {K, N}, the sum over the rows r of x[r][k] * y[r][n]. x and y have the same levels; their rows, of K and of
/// N numbers, may have any shape. One row for each sequence, of shape {K, row shape of y...}; LoD: the levels of x
/// above `level`. An empty sequence gives a row of 0.
///
/// Sums over rows consist of fixed parts of 256 rows, added with compensation, float16 and bfloat16 as float, rounded
/// once: the bits depend neither on threads nor on other sequences, and the error does not grow with the length. One
/// pass over x and y; 2 K N operations a row. On a GPU one kernel, or two with a giant in the batch. The output must
/// not overlap the arguments. Throws InvalidLoD if x has no level, OutOfRange for the level, ShapeMismatch if the
/// levels of y are others, and if K * N exceeds 64 bits.
inline constexpr operation::Call<op::jagged_jagged_bmm> jagged_jagged_bmm{};
inline constexpr operation::CallInto<op::jagged_jagged_bmm> jagged_jagged_bmm_into{};

/// The gradients of `jagged_jagged_bmm` with the same options: dx[r] = y[r] * transpose(dz[i]) and dy[r] = x[r] * dz[i]
/// for the rows r of sequence i, with the levels and the row shapes of x and y. The levels of dz are ignored; that of
/// an empty sequence is dropped. The outputs must not overlap the arguments. Throws as `jagged_jagged_bmm`, and
/// ShapeMismatch unless dz has the shape of its result.
inline constexpr operation::Call<op::jagged_jagged_bmm_grad> jagged_jagged_bmm_grad{};
inline constexpr operation::CallInto<op::jagged_jagged_bmm_grad> jagged_jagged_bmm_grad_into{};

namespace operation {

/// The row shape of products with described matrices. Throws ShapeMismatch unless these may have `terms` rows.
inline infer::Dims infer_products(const infer::Dims& matrix, std::int64_t terms, const char* what) {
  if (matrix.empty() || !infer::agree(matrix[0], terms)) {
    throw ShapeMismatch(detail::text({what, ": rows of shape ", infer::to_string(matrix), ", expected matrices {",
                                      terms, ", ...}, with a row for each number of a row of x"}));
  }
  return {matrix.begin() + 1, matrix.end()};
}

}  // namespace operation

/// The result of `jagged_dense_bmm`, described: see <lod/infer.hpp>.
inline LoDTensorDesc infer_jagged_dense_bmm(const LoDTensorDesc& x, const LoDTensorDesc& dense,
                                            const JaggedBmmOptions& options = {}) {
  infer::Batch y = infer::batch_for<op::jagged_dense_bmm>(x, "jagged_dense_bmm");
  const infer::Batch matrices(dense, "jagged_dense_bmm: dense");
  infer::check_type(matrices.type, y.type, "jagged_dense_bmm: dense");
  if (y.level(options.level, "jagged_dense_bmm") == 0) {
    infer::check_row_count(matrices.rows, y.size(), "jagged_dense_bmm: dense");
  }
  y.row_shape =
      operation::infer_products(matrices.row_shape, y.row_size("jagged_dense_bmm"), "jagged_dense_bmm: dense");
  return y;
}
/// The result of `jagged_jagged_bmm`, described.
inline LoDTensorDesc infer_jagged_jagged_bmm(const LoDTensorDesc& x, const LoDTensorDesc& y,
                                             const JaggedBmmOptions& options = {}) {
  constexpr const char* what = "jagged_jagged_bmm: y";
  const infer::Batch left = infer::batch_for<op::jagged_jagged_bmm>(x, "jagged_jagged_bmm: x"), right(y, what);
  infer::check_type(right.type, left.type, what);
  infer::Batch z = left.pooled(options.level, "jagged_jagged_bmm: x");
  infer::check_row_count(right.rows, left.rows, what);
  if (right.levels != left.levels) {
    throw ShapeMismatch(detail::text({what, ": ", right.levels, " levels, expected those of x, ", left.levels}));
  }
  z.row_shape = {left.row_size("jagged_jagged_bmm: x")};
  z.row_shape.insert(z.row_shape.end(), right.row_shape.begin(), right.row_shape.end());
  return z;
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET
