// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup core
/// Row-sparse tensors on NVIDIA GPUs.
#pragma once

#include <lod/core/error.hpp>
#include <lod/core/lod_tensor.hpp>
#include <lod/core/selected_rows.hpp>
#include <lod/core/shape.hpp>
#include <lod/core/version.hpp>
#include <lod/cuda/stream.hpp>

#include <cstdint>
#include <utility>

namespace lod::inline LOD_INTERFACE {

/// As on the CPU, with the ids on the GPU. Since the CPU does not wait for kernels to count the rows, there are places
/// for as many as there may be. A place with a negative id names no row, and its values are ignored. `to<Cpu>` returns
/// only the rows that are named.
template <class T>
class SelectedRows<T, Cuda> {
 public:
  /// @{
  /// The element and device types.
  using value_type = T;
  using device = Cuda;
  /// @}

  /// No places, height 0. If made without a resource, it gets that of the operation that writes to it.
  SelectedRows() noexcept = default;
  /// The same; later memory comes from `resource`, an executor's.
  explicit SelectedRows(CudaStream* resource) noexcept : rows_(resource), value_(resource) {}
  /// Takes ids and values as they are: row i of the value belongs to rows[i]. The ids are not checked, which would mean
  /// waiting: each must be negative or less than `height`. Throws ShapeMismatch if the numbers of ids and rows differ,
  /// if the ids are not a column of numbers, and for a negative height.
  SelectedRows(LoDTensor<std::int64_t, Cuda> rows, std::int64_t height, LoDTensor<T, Cuda> value) : height_(height) {
    detail::check_height(height, "SelectedRows");
    if (rows.row_size() != 1 || rows.rows() != value.rows()) {
      throw ShapeMismatch(detail::text(
          {"SelectedRows: ids of shape ", to_string(rows.shape()), ", but ", value.rows(), " rows of values"}));
    }
    rows_ = std::move(rows).with_lod(LoD());
    value_ = std::move(value).with_lod(LoD());
  }

  SelectedRows(const SelectedRows&) = default;
  SelectedRows(SelectedRows&&) noexcept = default;
  SelectedRows& operator=(SelectedRows&&) noexcept = default;
  /// Keeps its own memory resources. If it throws, this is unchanged.
  SelectedRows& operator=(const SelectedRows& other) {
    LoDTensor<std::int64_t, Cuda> rows(rows_.resource());
    rows = other.rows_;
    value_ = other.value_;
    rows_ = std::move(rows);
    height_ = other.height_;
    return *this;
  }
  ~SelectedRows() = default;

  /// @{
  /// The ids, one for each row of the value, on the GPU: negative ones name no row. If there are not as many ids as
  /// rows of the value, functions that take the rows throw ShapeMismatch.
  LoDTensor<std::int64_t, Cuda>& rows() noexcept { return rows_; }
  const LoDTensor<std::int64_t, Cuda>& rows() const noexcept { return rows_; }
  /// @}
  /// The number of rows of the dense tensor that this represents.
  std::int64_t height() const noexcept { return height_; }
  /// @{
  /// The values of the rows: a tensor without levels, {places, row shape...}.
  LoDTensor<T, Cuda>& value() noexcept { return value_; }
  const LoDTensor<T, Cuda>& value() const noexcept { return value_; }
  /// @}
  /// The dimensions of a row.
  const Shape& row_shape() const noexcept { return value_.row_shape(); }
  /// The number of elements in a row: the product of the row shape.
  std::int64_t row_size() const noexcept { return value_.row_size(); }
  /// {height, row shape...}: the shape of the dense tensor.
  Shape dense_shape() const { return Shape(height_, value_.row_shape()); }

  /// Resizes to `places` rows, another height and row shape; ids and values are unspecified afterwards. Reuses memory
  /// and throws as LoDTensor::resize does.
  void resize(std::int64_t places, std::int64_t height, const Shape& row_shape) {
    detail::check_height(height, "SelectedRows");
    if (rows_.rows() != places) rows_.resize(LoD(), Shape(), places);
    if (value_.rows() != places || value_.row_shape() != row_shape) value_.resize(LoD(), row_shape, places);
    height_ = height;
  }

 private:
  LoDTensor<std::int64_t, Cuda> rows_;
  std::int64_t height_ = 0;
  LoDTensor<T, Cuda> value_;
};

}  // namespace lod::inline LOD_INTERFACE
