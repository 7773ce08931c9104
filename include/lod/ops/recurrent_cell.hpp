// SPDX-License-Identifier: Apache-2.0
/// @file
/// What lstm_cell.hpp and gru_cell.hpp have in common: the contributions of the input's rows to the gates, and
/// gradients that are added up from step to step.
#pragma once

#include <lod/core/error.hpp>
#include <lod/core/lod_tensor.hpp>
#include <lod/core/target.hpp>
#include <lod/ops/arithmetic.hpp>
#include <lod/ops/declaration.hpp>
#include <lod/ops/kernel.hpp>
#include <lod/ops/matrix_product.hpp>
#include <lod/ops/output.hpp>
#include <lod/ops/rearrange.hpp>
#include <lod/ops/recurrent.hpp>
#include <lod/ops/row_groups.hpp>
#include <lod/ops/run_copy.hpp>

#include <cstdint>

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {

namespace operation {

/// Throws ShapeMismatch unless there are `rows` rows of `columns` numbers.
template <class View>
void check_matrix(const View& found, std::int64_t rows, std::int64_t columns, const Subject& what) {
  check_row_count(found.rows(), rows, what);
  check_row_shape(found.row_shape(), {columns}, what);
}

/// Whether the rows of x are multiplied by weights; without weights, they are already products of `columns` numbers.
template <class X, class Weights>
bool is_projected(const X& x, const Weights& input, std::int64_t columns) {
  return input.rows() > 0 || x.row_size() != columns;
}
/// The contributions of the rows of x to the gates: x W + bias, or x + bias without weights.
template <Executor E, class T>
void cell_gates(const E& executor, const Input<E, T>& x, const LoDTensor<T, typename E::device>& input,
                const LoDTensor<T, typename E::device>& bias, std::int64_t columns, T* gates) {
  if (is_projected(x, input, columns)) {
    project_rows(executor, x.rows(), x.data(), x.row_size(), input.data(), given(bias), columns, gates);
  } else if (given(bias)) {
    repeat_row(executor, bias.data(), columns, x.rows(), gates);
    launch(kernel::Combine(), executor, kernel::Add(), gates, x.data(), x.rows() * columns, gates);
  } else {
    copy_rows(executor, x, gates);
  }
}
/// The gradients with respect to the weights and x; without weights dx is `dgates` itself.
template <Executor E, class T>
void cell_gates_grad(const E& executor, const Input<E, T>& x, const LoDTensor<T, typename E::device>& input,
                     const T* dgates, std::int64_t columns, bool adds, T* dinput, T* dx) {
  const std::int64_t rows = x.rows(), d = x.row_size();
  matrix_product<E, T>(executor, true, false, d, columns, rows, 1, x.data(), d, dgates, columns, adds ? 1 : 0, dinput,
                       columns);
  matrix_product<E, T>(executor, false, true, rows, d, columns, 1, dgates, columns, input.data(), columns, 0, dx, d);
}
/// The gradient with respect to the first `count` columns of U, which multiplies `states` (there may be none). Rows of
/// U and of `dproducts` have `columns` numbers.
template <Executor E, class T>
void recurrent_grad(const E& executor, const Input<E, T>& states, std::int64_t size, std::int64_t count,
                    const T* dproducts, std::int64_t columns, bool adds, T* drecurrent) {
  matrix_product<E, T>(executor, true, false, size, count, states.rows(), 1, states.data(), size, dproducts, columns,
                       adds ? 1 : 0, drecurrent, columns);
}

/// Prepares a gradient with respect to weights; if it is to be added to, it must already have their shape.
template <Executor E, class T, class Device>
Output<T, Device> prepare_sum(const E& executor, const OutputName& name, LoDTensor<T, Device>& dweights,
                              const LoDTensor<T, Device>& weights, bool adds) {
  if (adds && dweights.shape() != weights.shape()) {
    throw ShapeMismatch(detail::text({name.text(), ": shape ", to_string(dweights.shape()), ", expected ",
                                      to_string(weights.shape()), ", that of the weights, to add to"}));
  }
  return prepare_like(executor, name, dweights, weights);
}
/// The sums of columns [first, first + count) of rows of `columns` numbers; added to the output if `adds`.
template <Executor E, class T>
void sum_some_columns(const E& executor, const T* x, std::int64_t rows, std::int64_t columns, std::int64_t first,
                      std::int64_t count, bool adds, T* sums) {
  if (!adds && count == columns) return sum_columns(executor, x, rows, columns, sums);
  const kernel::Scratch<E, T> all(executor, columns);
  sum_columns(executor, x, rows, columns, all.data());
  const T* const some = all.data() + first;
  if (adds) {
    launch(kernel::Combine(), executor, kernel::Add(), sums, some, count, sums);
  } else {
    launch(kernel::CopyValues(), executor, some, count, sums);
  }
}

/// Copies the gradients with respect to states; zeros if there are no states.
template <Executor E, class T>
void copy_states(const E& executor, const Input<E, T>& states, std::int64_t count, T* to) {
  if (given(states)) return copy_rows(executor, states, to);
  launch(kernel::SetZero(), executor, to, count);
}

}  // namespace operation
}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET
