// SPDX-License-Identifier: Apache-2.0
/// @file
/// Row-sparse outputs. On a GPU they have places for the greatest possible number of rows.
#pragma once

#include <lod/core/error.hpp>
#include <lod/core/executor.hpp>
#include <lod/core/selected_rows.hpp>
#include <lod/core/shape.hpp>
#include <lod/core/target.hpp>
#include <lod/ops/output.hpp>
#include <lod/ops/staging.hpp>

#include <cstdint>
#include <exception>
#include <initializer_list>
#include <optional>
#include <span>
#include <utility>

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {
namespace operation {

/// A row-sparse tensor that an operation writes, as `Output` is for a tensor: it takes over its ids, its height and new
/// memory at the destruction of this object, and is unchanged if an exception ends the operation.
template <Executor E, class T>
class RowsOutput {
 public:
  using Sparse = SelectedRows<T, typename E::device>;

  /// Places for `count` rows, whose ids must be written to `ids()`: -1 for a place that names no row.
  RowsOutput(const E& executor, const OutputName& name, Sparse& out, std::int64_t count, std::int64_t height,
             const Shape& row_shape, std::initializer_list<OtherMemory> others)
      : out_(&out), count_(count), height_(height), row_shape_(row_shape), exceptions_(std::uncaught_exceptions()) {
    detail::check_height(height, name.operation);
    static_cast<void>(
        ids_.emplace(prepare<std::int64_t>(executor, name, out.rows(), PlainRows{count}, Shape(), others)));
    static_cast<void>(values_.emplace(prepare<T>(executor, name, out.value(), PlainRows{count}, row_shape, others)));
  }
  RowsOutput(RowsOutput&& other) noexcept
      : out_(std::exchange(other.out_, nullptr)),
        count_(other.count_),
        height_(other.height_),
        row_shape_(other.row_shape_),
        exceptions_(other.exceptions_),
        ids_(std::move(other.ids_)),
        values_(std::move(other.values_)) {}
  RowsOutput& operator=(RowsOutput&&) = delete;
  ~RowsOutput() {
    values_.reset();
    ids_.reset();
    // Its tensors have these sizes by now, so this cannot fail.
    if (out_ && std::uncaught_exceptions() == exceptions_) out_->resize(count_, height_, row_shape_);
  }

  std::int64_t* ids() const noexcept { return ids_->data(); }
  /// The values.
  T* data() const noexcept { return values_->data(); }

 private:
  Sparse* out_;
  std::int64_t count_;
  std::int64_t height_;
  Shape row_shape_;
  int exceptions_;
  std::optional<Output<std::int64_t, typename E::device>> ids_;
  std::optional<Output<T, typename E::device>> values_;
};
template <Executor E, class T>
  requires(on_cpu<E>)
class RowsOutput<E, T> {
 public:
  /// Rows of these ids, which are borrowed until the end of this object; they may be the present ids of `out`.
  RowsOutput(const E&, const OutputName& name, SelectedRows<T>& out, std::span<const std::int64_t> ids,
             std::int64_t height, const Shape& row_shape, std::initializer_list<OtherMemory> others)
      : resized_(resized(name, out, ids, height, row_shape, others)), exceptions_(std::uncaught_exceptions()) {}
  RowsOutput(RowsOutput&&) noexcept = default;
  RowsOutput& operator=(RowsOutput&&) = delete;
  ~RowsOutput() {
    if (std::uncaught_exceptions() == exceptions_) resized_.commit();
  }

  /// The values.
  T* data() noexcept { return resized_.value().data(); }

 private:
  using Resized = typename SelectedRows<T>::Resized;

  static Resized resized(const OutputName& name, SelectedRows<T>& out, std::span<const std::int64_t> ids,
                         std::int64_t height, const Shape& row_shape, std::initializer_list<OtherMemory> others) {
    check_apart(name, out.value(), others);
    try {
      return Resized(out, ids, height, row_shape);
    } catch (const ShapeMismatch& error) {
      throw ShapeMismatch(detail::text({name.text(), ": ", error.what()}));
    }
  }

  Resized resized_;
  int exceptions_;
};

}  // namespace operation
}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET
