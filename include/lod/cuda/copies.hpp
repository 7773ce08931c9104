// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup core
/// Copies of tensors between the memories of the CPU and of a GPU.
#pragma once

#include <lod/core/lod_tensor.hpp>
#include <lod/core/lod_view.hpp>
#include <lod/core/selected_rows.hpp>
#include <lod/core/target.hpp>
#include <lod/cuda/executor.hpp>
#include <lod/cuda/selected_rows.hpp>
#include <lod/cuda/stream.hpp>
#include <lod/ops/output.hpp>
#include <lod/ops/staging.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {

/// A copy of x in the memory of another device, with the same LoD. To the GPU: enqueued; x may change as soon as this
/// has returned; the LoD is copied along unless it is there already. From the GPU: waits for everything that is
/// enqueued. y gets the levels and the row shape of x, as the output of an operation does. Throws CudaError,
/// ShapeMismatch for a view that does not match x, and, from the GPU, what `CudaExecutor::synchronize` throws.
template <LoDTensorLike X, class Y>
void to_into(const CudaExecutor& executor, const X& x, Y&& y) {
  const auto view = x.view();
  using From = typename X::device;
  using To = typename std::remove_cvref_t<Y>::device;
  static_assert(std::same_as<From, Cuda> || std::same_as<To, Cuda>, "to: a copy to or from a GPU");
  const operation::SameLevels levels{view.lod_view()};
  const auto out = [&] {
    if constexpr (std::same_as<To, Cuda>) {
      return operation::prepare(executor, "to", y, levels, view.row_shape(), {{"x", view}});
    } else {
      return operation::fit("to", y, levels, view.row_shape(), Cpu::default_resource());
    }
  }();
  const std::size_t bytes = view.values().size_bytes();
  if constexpr (std::same_as<To, Cuda>) {
    if (view.levels() > 0) static_cast<void>(operation::segments(executor, out, -1));
  }
  if (bytes == 0) return;
  if constexpr (std::same_as<From, To>) {
    executor.resource()->copy(out.data(), view.data(), bytes);
  } else if constexpr (std::same_as<To, Cuda>) {
    executor.resource()->upload(out.data(), view.data(), bytes);
  } else {
    executor.resource()->download(out.data(), view.data(), bytes);
    executor.rethrow_faults();
  }
}
/// The same, as a new tensor: `to<Cuda>(executor, x)`, `to<Cpu>(executor, gx)`.
template <class Device, LoDTensorLike X>
LoDTensor<typename X::value_type, Device> to(const CudaExecutor& executor, const X& x) {
  LoDTensor<typename X::value_type, Device> y;
  to_into(executor, x, y);
  return y;
}

/// The same for row-sparse tensors. From the GPU, only the places that name a row are returned, in order. Also throws
/// OutOfRange if an id exceeds the height, and ShapeMismatch if there are more or fewer ids than rows of values.
template <class Device, class T>
  requires(std::same_as<Device, Cuda>)
SelectedRows<T, Cuda> to(const CudaExecutor& executor, const SelectedRows<T, Cpu>& g) {
  detail::check_value_rows(g, "to");
  const auto count = static_cast<std::int64_t>(g.rows().size());
  SelectedRows<T, Cuda> y(executor.resource());
  y.resize(count, g.height(), g.row_shape());
  if (count > 0) {
    executor.resource()->upload(y.rows().data(), g.rows().data(),
                                static_cast<std::size_t>(count) * sizeof(std::int64_t));
  }
  to_into(executor, g.value(), y.value());
  return y;
}
template <class Device, class T>
  requires(std::same_as<Device, Cpu>)
SelectedRows<T, Cpu> to(const CudaExecutor& executor, const SelectedRows<T, Cuda>& g) {
  detail::check_value_rows(g, "to");
  const LoDTensor<std::int64_t> ids = to<Cpu>(executor, g.rows());
  std::vector<std::int64_t> rows;
  std::int64_t places = 0;  // up to the last that names a row: those after it stay where they are
  for (std::int64_t i = 0; i < ids.rows(); ++i) {
    if (ids.data()[i] < 0) continue;
    rows.push_back(ids.data()[i]);
    places = i + 1;
  }
  const LoDTensor<T> values = to<Cpu>(executor, g.value().between(0, places));
  SelectedRows<T, Cpu> y(std::move(rows), g.height(), g.row_shape(), uninitialized);
  std::int64_t next = 0;
  for (std::int64_t i = 0; i < places; ++i) {
    if (ids.data()[i] < 0) continue;
    const auto row = values.row(i);
    std::copy(row.begin(), row.end(), y.value().row(next++).begin());
  }
  return y;
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET
