// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup core
/// The sizes of the dimensions of a tensor, or of one row.
#pragma once

#include <lod/core/error.hpp>
#include <lod/core/lifetime.hpp>
#include <lod/core/target.hpp>

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

namespace lod::inline LOD_INTERFACE {

/// Dimensions, none negative, at most `max_rank` of them; their product fits 64 bits. A value of fixed size, so that a
/// tensor's shape costs no allocation. Compares equal to an initializer list or a vector of the same numbers.
class Shape {
 public:
  static constexpr std::size_t max_rank = 8;

  LOD_TAGGED constexpr Shape() = default;
  /// Throws ShapeMismatch for a negative dimension, for more than `max_rank` of them, and if the product of the nonzero
  /// dimensions exceeds 64 bits.
  LOD_TAGGED Shape(std::initializer_list<std::int64_t> dims)
      : Shape(std::span<const std::int64_t>{dims.begin(), dims.size()}) {}
  LOD_TAGGED Shape(const std::vector<std::int64_t>& dims)
      : Shape(std::span<const std::int64_t>{dims.data(), dims.size()}) {}
  LOD_TAGGED Shape(std::span<const std::int64_t> dims) {
    for (std::int64_t dim : dims) push_back(dim);
  }
  /// `first` followed by the dimensions of `rest`: the shape of `first` rows.
  LOD_TAGGED Shape(std::int64_t first, const Shape& rest) : Shape() {
    push_back(first);
    for (std::int64_t dim : rest) push_back(dim);
  }

  /// The rank: how many dimensions there are.
  LOD_TAGGED constexpr std::size_t size() const noexcept { return rank_; }
  /// @{
  /// The dimensions, with the interface of a standard container.
  LOD_TAGGED constexpr bool empty() const noexcept { return rank_ == 0; }
  LOD_TAGGED constexpr std::int64_t operator[](std::size_t dim) const noexcept { return dims_[dim]; }
  LOD_TAGGED constexpr const std::int64_t* begin() const& noexcept LOD_LIFETIMEBOUND { return dims_; }
  LOD_TAGGED constexpr const std::int64_t* end() const& noexcept LOD_LIFETIMEBOUND { return dims_ + rank_; }
  LOD_TAGGED constexpr const std::int64_t* data() const noexcept LOD_LIFETIMEBOUND { return dims_; }
  LOD_TAGGED constexpr std::int64_t front() const noexcept { return dims_[0]; }
  LOD_TAGGED constexpr std::int64_t back() const noexcept { return dims_[rank_ - 1]; }
  /// @}
  /// @{
  /// A tensor creates its shape on request: `x.shape().begin()` and `x.shape().end()` would belong to two objects.
  constexpr const std::int64_t* begin() const&& = delete;
  constexpr const std::int64_t* end() const&& = delete;
  /// @}

  /// The product of the dimensions: 1 for a scalar's shape, which has none.
  LOD_TAGGED constexpr std::int64_t elements() const noexcept {
    std::int64_t product = 1;
    for (std::size_t dim = 0; dim < rank_; ++dim) product *= dims_[dim];
    return product;
  }
  /// All dimensions except the first `count`.
  LOD_TAGGED Shape without_first(std::size_t count = 1) const {
    const std::size_t dropped = count < size() ? count : size();
    return Shape(std::span<const std::int64_t>{begin() + dropped, size() - dropped});
  }

  /// These dimensions, then those of `rest`.
  LOD_TAGGED Shape followed_by(const Shape& rest) const {
    Shape all = *this;
    for (std::int64_t dim : rest) all.push_back(dim);
    return all;
  }

  LOD_TAGGED friend constexpr bool operator==(const Shape& a, const Shape& b) noexcept {
    return a.equals(b.begin(), b.size());
  }
  // Not through a Shape: invalid dimensions compare unequal and throw nothing.
  LOD_TAGGED friend constexpr bool operator==(const Shape& a, std::initializer_list<std::int64_t> dims) noexcept {
    return a.equals(dims.begin(), dims.size());
  }
  LOD_TAGGED friend constexpr bool operator==(const Shape& a, const std::vector<std::int64_t>& dims) noexcept {
    return a.equals(dims.data(), dims.size());
  }

 private:
  LOD_TAGGED constexpr bool equals(const std::int64_t* dims, std::size_t count) const noexcept {
    if (count != rank_) return false;
    for (std::size_t dim = 0; dim < count; ++dim) {
      if (dims[dim] != dims_[dim]) return false;
    }
    return true;
  }
  LOD_TAGGED void push_back(std::int64_t dim) {
    if (rank_ == max_rank) {
      throw ShapeMismatch(detail::text({"shape: more than ", max_rank, " dimensions"}));
    }
    if (dim < 0) {
      throw ShapeMismatch(detail::text({"shape: dimension ", rank_, " is ", dim, ", expected 0 or more"}));
    }
    std::int64_t product = 1;
    for (std::int64_t known : *this) {
      if (known != 0) product *= known;
    }
    if (dim != 0 && __builtin_mul_overflow(product, dim, &product)) {
      throw ShapeMismatch(
          detail::text({"shape: the product of the dimensions up to ", dim, " at place ", rank_, " exceeds 64 bits"}));
    }
    dims_[rank_++] = dim;
  }

  std::int64_t dims_[max_rank] = {};
  std::size_t rank_ = 0;
};

/// "{15, 640, 480}".
LOD_TAGGED inline std::string to_string(const Shape& shape) {
  std::string text = "{";
  for (std::int64_t dim : shape) {
    if (text.size() > 1) text += ", ";
    text += std::to_string(dim);
  }
  return text += "}";
}

}  // namespace lod::inline LOD_INTERFACE
