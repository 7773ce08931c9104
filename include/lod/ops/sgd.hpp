// SPDX-License-Identifier: Apache-2.0
/// @file
/// Stochastic gradient descent.
#pragma once

#include <lod/kernel.hpp>
#include <lod/ops/merge_rows.hpp>
#include <lod/output.hpp>
#include <lod/selected_rows.hpp>
#include <lod/target.hpp>

#include <array>
#include <concepts>

namespace lod::inline LOD_TARGET {

namespace kernel {
/// parameter[i] -= learning_rate * gradient[i] for i in [0, count).
template <class Executor>
struct Sgd : Missing<Executor> {};
/// parameter[to[g]] -= learning_rate * the sum of the rows of group g.
template <class Executor>
struct SgdRows : Missing<Executor> {};
}  // namespace kernel

/// parameter -= learning_rate * gradient, in place. float16 and bfloat16 are computed as float. Throws ShapeMismatch
/// unless both have the same shape.
template <Executor E, LoDTensorLike Gradient>
void sgd(const E& executor, LoDTensor<value_type_t<Gradient>, device_t<Gradient>>& parameter, const Gradient& gradient,
         double learning_rate) {
  const auto view = gradient.view();
  operation::check_row_shape(view.row_shape(), parameter.row_shape(), "sgd: gradient");
  operation::check_row_count(view.rows(), parameter.rows(), "sgd: gradient");
  kernel::Sgd<E>::run(executor, parameter.data(), view.data(), view.rows() * view.row_size(), learning_rate);
}
template <LoDTensorLike Gradient>
void sgd(LoDTensor<value_type_t<Gradient>, device_t<Gradient>>& parameter, const Gradient& gradient,
         double learning_rate) {
  sgd(default_executor<device_t<Gradient>>(), parameter, gradient, learning_rate);
}

/// The same for a row-sparse gradient: only the rows listed are read and written, in one pass and without a merged
/// copy of the gradient; repeated rows are added up first, as `merge_add` does. What is not listed has a zero gradient
/// and stays, so this equals the dense update. Throws ShapeMismatch unless height and row shape are the parameter's.
template <Executor E, class T>
void sgd(const E& executor, LoDTensor<T, typename E::device>& parameter,
         const SelectedRows<T, typename E::device>& gradient, double learning_rate) {
  operation::check_row_shape(gradient.row_shape(), parameter.row_shape(), "sgd: gradient");
  if (gradient.height() != parameter.rows()) {
    throw ShapeMismatch(
        detail::text({"sgd: a gradient of height ", gradient.height(), ", expected ", parameter.rows()}));
  }
  const std::array sources{&gradient};
  const operation::RowGroups<E, T> groups(executor, sources);
  kernel::SgdRows<E>::run(executor, parameter.data(), groups.rows(), groups.order(), groups.groups(),
                          groups.ids().data(), gradient.row_size(), learning_rate);
}
template <class T, class Device>
void sgd(LoDTensor<T, Device>& parameter, const SelectedRows<T, Device>& gradient, double learning_rate) {
  sgd(default_executor<Device>(), parameter, gradient, learning_rate);
}

}  // namespace lod::inline LOD_TARGET
