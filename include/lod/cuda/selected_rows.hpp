// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup core
/// Row-sparse tensors on NVIDIA GPUs.
#pragma once

#include <lod/cuda/stream.hpp>
#include <lod/error.hpp>
#include <lod/lod_tensor.hpp>
#include <lod/selected_rows.hpp>
#include <lod/shape.hpp>

#include <cstdint>
#include <utility>

namespace lod {

/// As on the CPU, with the ids on the GPU, in places for as many rows as there may be: the CPU, which does not wait for
/// what kernels find, does not know how many of them name a row. A place whose id is negative names none, and its
/// values do not count. `to<Cpu>` gives the rows that are named.
template <class T>
class SelectedRows<T, Cuda> {
 public:
  /// @{
  /// The types that belong to it.
  using value_type = T;
  using device = Cuda;
  /// @}

  /// No place, of height 0. One that is made without a resource gets that of the operation that writes to it.
  SelectedRows() noexcept = default;
  /// The same; memory for what comes later is from `resource`, an executor's.
  explicit SelectedRows(CudaStream* resource) noexcept : rows_(resource), value_(resource) {}
  /// Takes ids and values as they are: row i of the value belongs to rows[i]. Nobody waits to look at the ids: each
  /// must be negative or less than `height`. Throws ShapeMismatch where their numbers differ, where the ids are no
  /// column of numbers, and for a negative height.
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
  /// Keeps its own memory resources. What throws leaves this as it was.
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
  /// The ids, one for each row of the value, on the GPU: negative ones name no row. Where there are not as many as rows
  /// of the value, whatever takes the rows throws ShapeMismatch.
  LoDTensor<std::int64_t, Cuda>& rows() noexcept { return rows_; }
  const LoDTensor<std::int64_t, Cuda>& rows() const noexcept { return rows_; }
  /// @}
  /// The number of rows of the dense tensor that this stands for.
  std::int64_t height() const noexcept { return height_; }
  /// @{
  /// The rows' values: a tensor with no level, {places, row shape...}.
  LoDTensor<T, Cuda>& value() noexcept { return value_; }
  const LoDTensor<T, Cuda>& value() const noexcept { return value_; }
  /// @}
  /// The dimensions of a row.
  const Shape& row_shape() const noexcept { return value_.row_shape(); }
  /// Elements in a row: the product of the row shape.
  std::int64_t row_size() const noexcept { return value_.row_size(); }
  /// {height, row shape...}: the shape of the dense tensor.
  Shape dense_shape() const { return Shape(height_, value_.row_shape()); }

  /// Takes `places` rows, another height and row shape; ids and values are unspecified afterwards. Reuses memory as
  /// LoDTensor::resize does, and throws as that.
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

}  // namespace lod
