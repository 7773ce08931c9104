// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup row_preserving
/// A user's function for each row, on every executor.
#pragma once

#include <lod/core/shape.hpp>
#include <lod/core/target.hpp>
#include <lod/ops/kernel.hpp>
#include <lod/ops/output.hpp>

#include <concepts>
#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel {
/// run(executor, rows, body): calls body(row) for each row, in any order.
struct MapRows {
  static constexpr bool in_headers_only = true;  ///< it calls a function of the caller's
  static constexpr bool calls_on_device = true;  ///< by the threads that compute, so on a GPU by its own
};
}  // namespace lod::inline LOD_INTERFACE::kernel

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {

namespace operation {

template <class F, class T, class U>
struct MappedRows {
  F f;
  const T* x;
  U* y;
  std::int64_t row_size;
  std::int64_t new_row_size;
  LOD_HOST_DEVICE void operator()(std::int64_t row) const { f(x + row * row_size, y + row * new_row_size); }
  /// What is read and written for a row.
  std::int64_t bytes() const noexcept {
    return detail::bytes_of<T>(1, row_size) + detail::bytes_of<U>(1, new_row_size);
  }
};

}  // namespace operation

/// y[row] = f(x[row]), with rows of shape `row_shape` of numbers of type U; LoD as x, which may have no level. For each
/// row f(from, to) is called once: `from` is the address of its first number, `to` that of the first number of the new
/// row, of which f must write all. Several threads call f at a time, in any order. If f throws on a CpuExecutor, an
/// exception is passed on, and y has its new shape and any numbers; on other executors it must not throw.
///
///     const auto lengths = lod::map_rows<float>(x, {}, [size = x.row_size()](const float* from, float* to) {
///       *to = std::sqrt(std::inner_product(from, from + size, from, 0.F));
///     });
///
/// On GPUs the call is compiled by nvcc, with <lod/cuda.cuh>; f is then a lambda for both sides, as
/// `[=] __host__ __device__ (const float* from, float* to) {...}`, of plain values and addresses of the GPU's memory,
/// and a thread has a row. One pass, one kernel. `y` may be x's own tensor if neither the type nor the row shape
/// changes, and f reads what it needs of a row before it writes; it must not overlap x otherwise.
template <Executor E, LoDTensorLike X, class F, class Y>
void map_rows_into(const E& executor, const X& x, const Shape& row_shape, F f, Y&& y) {
  using T = value_type_t<X>;
  using U = value_type_t<std::remove_cvref_t<Y>>;
  static_assert(std::invocable<const F&, const T*, U*>, "map_rows: f(from, to) takes addresses of numbers of two rows");
  const auto view = x.view();
  const bool is_same_row = std::same_as<T, U> && row_shape == x.row_shape();
  const auto out = operation::prepare<U>(executor, "map_rows", y, operation::SameLevels{view.lod_view()}, row_shape,
                                         {operation::in_place("x", view, is_same_row)});
  const operation::MappedRows<F, T, U> map{f, view.data(), out.data(), view.row_size(), row_shape.elements()};
  launch(kernel::MapRows(), executor, view.rows(), map);
}
template <class U, Executor E, LoDTensorLike X, class F>
[[nodiscard]] LoDTensor<U, device_t<X>> map_rows(const E& executor, const X& x, const Shape& row_shape, F f) {
  LoDTensor<U, device_t<X>> y(executor.resource());
  map_rows_into(executor, x, row_shape, f, y);
  return y;
}
template <class U, LoDTensorLike X, class F>
[[nodiscard]] LoDTensor<U, device_t<X>> map_rows(const X& x, const Shape& row_shape, F f) {
  return map_rows<U>(default_executor<device_t<X>>(), x, row_shape, f);
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET
