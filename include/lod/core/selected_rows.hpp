// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup core
/// Row-sparse tensors: the few nonzero rows of a tall matrix, such as gradients of embeddings.
#pragma once

#include <lod/core/device.hpp>
#include <lod/core/error.hpp>
#include <lod/core/lifetime.hpp>
#include <lod/core/lod_tensor.hpp>
#include <lod/core/shape.hpp>
#include <lod/core/target.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace lod::inline LOD_INTERFACE {

namespace detail {

/// Whether every id is in [least, height); `least` is 0 or -1.
LOD_TAGGED inline bool are_row_ids(std::span<const std::int64_t> rows, std::int64_t height, std::int64_t least) {
  // Without a branch for each: the top bit is set if an id is negative or beyond the last. Some at a time, since -O2
  // makes vectors only of loops whose number of turns is known.
  const auto last = static_cast<std::uint64_t>(height) - 1;
  const auto wrong_bit = [=](std::int64_t row) {
    const auto id = static_cast<std::uint64_t>(row);
    return (id - static_cast<std::uint64_t>(least)) | (last - id);
  };
  constexpr std::size_t some = 64;
  std::uint64_t wrong = 0;
  std::size_t begin = 0;
  if (rows.size() >= some) {
    std::uint64_t of_some[some] = {};
    for (; begin + some <= rows.size(); begin += some) {
      for (std::size_t i = 0; i < some; ++i) of_some[i] |= wrong_bit(rows[begin + i]);
    }
    for (const std::uint64_t one : of_some) wrong |= one;
  }
  for (; begin < rows.size(); ++begin) wrong |= wrong_bit(rows[begin]);
  return wrong >> 63 == 0;
}
/// Throws OutOfRange unless every id is in [least, height); `least` is 0 or -1. `what` begins the text.
LOD_TAGGED inline void check_row_ids(std::span<const std::int64_t> rows, std::int64_t height, const char* what,
                                     std::int64_t least = 0) {
  if (are_row_ids(rows, height, least)) return;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i] < least || rows[i] >= height) {
      const std::string found = text({what, ": id ", rows[i], " at position ", i});
      if (height <= 0) throw OutOfRange(found + ", but there are no rows");
      throw OutOfRange(text({found, ", expected ", least, " to ", height - 1}));
    }
  }
}

/// Throws ShapeMismatch for a negative height. `what` begins the text.
LOD_TAGGED inline void check_height(std::int64_t height, const char* what) {
  if (height < 0) throw ShapeMismatch(text({what, ": height ", height, ", expected 0 or more"}));
}
/// Throws ShapeMismatch unless there are as many rows of values as ids. `what` begins the text.
LOD_TAGGED inline void check_value_rows(std::int64_t ids, std::int64_t rows, const char* what) {
  if (ids != rows) throw ShapeMismatch(text({what, ": ", ids, " ids, but ", rows, " rows of values"}));
}
/// The same for row-sparse tensors, whose values can be replaced.
template <class Sparse>
LOD_TAGGED void check_value_rows(const Sparse& g, const char* what) {
  if constexpr (std::same_as<typename Sparse::device, Cpu>) {
    check_value_rows(static_cast<std::int64_t>(g.rows().size()), g.value().rows(), what);
  } else {
    check_value_rows(g.rows().rows() * g.rows().row_size(), g.value().rows(), what);
  }
}

}  // namespace detail

class AnySelectedRows;

/// Represents a dense tensor of `height()` rows in which all rows are zero except those listed. Its row `rows()[i]` has
/// the values of row i of `value()`. Ids may repeat, in any order: repeated ones add up. Copied and moved as a value;
/// constness is deep.
template <class T, class Device = Cpu>
class SelectedRows;

/// Rows in CPU memory.
template <class T>
class SelectedRows<T, Cpu> {
 public:
  /// @{
  /// The element and device types.
  using value_type = T;
  using device = Cpu;
  /// @}

  /// No rows, height 0. Memory for later values comes from `resource`.
  LOD_TAGGED explicit SelectedRows(std::pmr::memory_resource* resource) noexcept : value_(resource) {}
  LOD_TAGGED SelectedRows() noexcept : SelectedRows(Cpu::default_resource()) {}

  /// Zero values for the listed rows. Throws OutOfRange for an id outside [0, height), ShapeMismatch for a negative
  /// height and if sizes overflow.
  LOD_TAGGED SelectedRows(std::vector<std::int64_t> rows, std::int64_t height, const Shape& row_shape,
                          std::pmr::memory_resource* resource = Cpu::default_resource())
      : SelectedRows(std::move(rows), height, row_shape, uninitialized, resource) {
    std::fill_n(value_.data(), value_.values().size(), T{});
  }
  /// The same with uninitialised values.
  LOD_TAGGED SelectedRows(std::vector<std::int64_t> rows, std::int64_t height, const Shape& row_shape, uninitialized_t,
                          std::pmr::memory_resource* resource = Cpu::default_resource())
      : value_(Shape(static_cast<std::int64_t>(rows.size()), row_shape), uninitialized, resource) {
    check(rows, height);
    rows_ = std::move(rows);
    height_ = height;
  }
  /// Takes the values as they are: row i belongs to rows[i]. Throws ShapeMismatch if the numbers of ids and rows
  /// differ, and as above.
  template <std::same_as<LoDTensor<T, Cpu>> Value>
  LOD_TAGGED SelectedRows(std::vector<std::int64_t> rows, std::int64_t height, Value value) {
    detail::check_value_rows(static_cast<std::int64_t>(rows.size()), value.rows(), "SelectedRows");
    check(rows, height);
    rows_ = std::move(rows);
    height_ = height;
    value_ = std::move(value).with_lod(LoD());
  }

  LOD_TAGGED SelectedRows(const SelectedRows&) = default;
  LOD_TAGGED SelectedRows(SelectedRows&&) noexcept = default;
  /// A move to itself changes nothing.
  LOD_TAGGED SelectedRows& operator=(SelectedRows&& other) noexcept {
    if (this != &other) {  // a vector that is moved to itself is empty afterwards
      rows_ = std::move(other.rows_);
      height_ = other.height_;
      value_ = std::move(other.value_);
    }
    return *this;
  }
  /// Keeps its own memory resource. If it throws, this is unchanged.
  LOD_TAGGED SelectedRows& operator=(const SelectedRows& other) {
    std::vector<std::int64_t> rows = other.rows_;
    value_ = other.value_;
    rows_ = std::move(rows);
    height_ = other.height_;
    return *this;
  }
  LOD_TAGGED ~SelectedRows() = default;

  /// The ids, one for each row of the value.
  LOD_TAGGED const std::vector<std::int64_t>& rows() const noexcept LOD_LIFETIMEBOUND { return rows_; }
  /// The number of rows of the dense tensor that this represents.
  LOD_TAGGED std::int64_t height() const noexcept { return height_; }
  /// The values of the rows: a tensor without levels, {rows().size(), row shape...}. A tensor that is assigned to it
  /// must also have a row for each id, otherwise functions that take these rows throw ShapeMismatch.
  LOD_TAGGED LoDTensor<T, Cpu>& value() noexcept LOD_LIFETIMEBOUND { return value_; }
  LOD_TAGGED const LoDTensor<T, Cpu>& value() const noexcept LOD_LIFETIMEBOUND { return value_; }
  /// The dimensions of a row.
  LOD_TAGGED const Shape& row_shape() const noexcept LOD_LIFETIMEBOUND { return value_.row_shape(); }
  /// The number of elements in a row: the product of the row shape.
  LOD_TAGGED std::int64_t row_size() const noexcept { return value_.row_size(); }
  /// {height, row shape...}: the shape of the dense tensor. Throws ShapeMismatch if that has more elements than 64 bits
  /// can count.
  LOD_TAGGED Shape dense_shape() const { return Shape(height_, value_.row_shape()); }

  /// The first position of id `row` in `rows()`, or -1. O(rows).
  LOD_TAGGED std::int64_t find(std::int64_t row) const noexcept {
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      if (rows_[i] == row) return static_cast<std::int64_t>(i);
    }
    return -1;
  }
  /// Whether id `row` is listed. O(rows).
  LOD_TAGGED bool contains(std::int64_t row) const noexcept { return find(row) >= 0; }
  /// As `find`, but throws OutOfRange if the id is not listed.
  LOD_TAGGED std::int64_t index_of(std::int64_t row) const {
    const std::int64_t position = find(row);
    if (position < 0) throw OutOfRange(detail::text({"SelectedRows: id ", row, " is not among the rows listed"}));
    return position;
  }

  /// Changes the ids, which are copied, the height and the row shape; the values are unspecified afterwards. Reuses
  /// memory as LoDTensor::resize does. Throws as the constructors do.
  LOD_TAGGED void resize(std::span<const std::int64_t> rows, std::int64_t height, const Shape& row_shape) {
    Resized(*this, rows, height, row_shape).commit();
  }
  /// `resize` in two steps: everything that may throw is done on construction, the rest by `commit`, until which the
  /// row-sparse tensor is unchanged. The ids, which may be its own, are borrowed until then.
  class Resized {
   public:
    /// Throws as `resize` does; then the row-sparse tensor is unchanged.
    LOD_TAGGED Resized(SelectedRows& of, std::span<const std::int64_t> rows, std::int64_t height,
                       const Shape& row_shape)
        : of_(&of),
          rows_(checked(rows, height)),
          height_(height),
          value_(of.value_.resized(LoD(), row_shape, static_cast<std::int64_t>(rows.size()), of.value_.resource())) {
      if (rows.size() > of.rows_.capacity()) more_.assign(rows.begin(), rows.end());
    }
    /// The source commits nothing.
    LOD_TAGGED Resized(Resized&& other) noexcept
        : of_(std::exchange(other.of_, nullptr)),
          rows_(other.rows_),
          height_(other.height_),
          value_(std::move(other.value_)),
          more_(std::move(other.more_)) {}
    Resized& operator=(Resized&&) = delete;
    LOD_TAGGED ~Resized() = default;

    /// The future values: may be written before or after `commit`.
    LOD_TAGGED LoDTensor<T, Cpu>& value() noexcept LOD_LIFETIMEBOUND { return value_; }
    /// Changes the row-sparse tensor as requested. To be called once.
    LOD_TAGGED void commit() noexcept {
      if (!of_) return;  // moved from
      std::vector<std::int64_t>& rows = of_->rows_;
      if (rows_.size() > rows.capacity()) {
        rows.swap(more_);
      } else {
        if (rows_.size() > rows.size()) rows.resize(rows_.size());
        // They may overlap.
        if (!rows_.empty()) std::memmove(rows.data(), rows_.data(), rows_.size_bytes());
        rows.resize(rows_.size());
      }
      of_->height_ = height_;
      of_->value_ = std::move(value_);
    }

   private:
    SelectedRows* of_;
    std::span<const std::int64_t> rows_;
    std::int64_t height_;
    LoDTensor<T, Cpu> value_;
    std::vector<std::int64_t> more_;  // where the memory for ids does not suffice
  };

 private:
  friend AnySelectedRows;

  LOD_TAGGED static std::span<const std::int64_t> checked(std::span<const std::int64_t> rows, std::int64_t height) {
    check(rows, height);
    return rows;
  }
  LOD_TAGGED static void check(std::span<const std::int64_t> rows, std::int64_t height) {
    detail::check_height(height, "SelectedRows");
    detail::check_row_ids(rows, height, "SelectedRows");
  }

  std::vector<std::int64_t> rows_;
  std::int64_t height_ = 0;
  LoDTensor<T, Cpu> value_;
};

}  // namespace lod::inline LOD_INTERFACE
