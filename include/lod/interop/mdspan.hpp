// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup core
/// The doorway to mdspan: the rows of tensors and slices as a multidimensional span.
///
/// Which mdspan is used depends on what the compiler has, in this order: `std::mdspan` (C++23), that of the Kokkos
/// project's header-only library if its headers are found (`<mdspan/mdspan.hpp>`, or `<experimental/mdspan>` of its
/// older versions), and a class of this library with the same interface. With each of the three you can use `extent`,
/// `rank`, `size`, `empty`, `stride`, `data_handle`, and access an element by `a[std::array{i, j}]`. `a(i, j)` works
/// except with `std::mdspan`, `a[i, j]` if the compiler supports C++23.
#pragma once

#include <lod/core/device.hpp>
#include <lod/core/error.hpp>
#include <lod/core/lod_tensor.hpp>
#include <lod/core/lod_view.hpp>
#include <lod/core/shape.hpp>
#include <lod/core/target.hpp>

#if __has_include(<mdspan>)
#  include <mdspan>
#endif
#if defined(__cpp_lib_mdspan)
#  define LOD_DETAIL_MDSPAN_NAMESPACE std
#elif __has_include(<mdspan/mdspan.hpp>)
#  include <mdspan/mdspan.hpp>
#  define LOD_DETAIL_MDSPAN_NAMESPACE MDSPAN_IMPL_STANDARD_NAMESPACE
#elif __has_include(<experimental/mdspan>)
#  include <experimental/mdspan>
#  define LOD_DETAIL_MDSPAN_NAMESPACE std::experimental
#endif

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace lod::inline LOD_INTERFACE {

#ifdef LOD_DETAIL_MDSPAN_NAMESPACE

/// The result of `as_mdspan`: `Rank` run-time extents, row-major.
template <class T, std::size_t Rank>
using Mdspan = LOD_DETAIL_MDSPAN_NAMESPACE::mdspan<T, LOD_DETAIL_MDSPAN_NAMESPACE::dextents<std::int64_t, Rank>>;
#  undef LOD_DETAIL_MDSPAN_NAMESPACE

#else

/// The result of `as_mdspan` if there is no other mdspan: `Rank` run-time extents, row-major. Borrowed and cheap to
/// copy; constness is that of T. The names are those of std::mdspan.
template <class T, std::size_t Rank>
class Mdspan {
 public:
  /// @{
  /// The element, value and index types.
  using element_type = T;
  using value_type = std::remove_cv_t<T>;
  using index_type = std::int64_t;
  using size_type = std::uint64_t;
  using rank_type = std::size_t;
  using data_handle_type = T*;
  using reference = T&;
  /// @}

  /// No elements.
  LOD_TAGGED constexpr Mdspan() noexcept = default;
  /// Refers to the memory at `data`, which has as many elements as the product of the extents.
  LOD_TAGGED constexpr Mdspan(T* data, const std::array<std::int64_t, Rank>& extents) noexcept
      : data_(data), extents_(extents) {}
  /// A span of mutable elements converts to one of const elements.
  template <std::same_as<value_type> U>
    requires(!std::same_as<U, T>)
  LOD_TAGGED constexpr Mdspan(const Mdspan<U, Rank>& other) noexcept : data_(other.data_handle()) {
    for (std::size_t dim = 0; dim < Rank; ++dim) extents_[dim] = other.extent(dim);
  }

  /// The number of dimensions.
  LOD_TAGGED static constexpr rank_type rank() noexcept { return Rank; }
  /// The size of a dimension. `dim` < Rank.
  LOD_TAGGED constexpr index_type extent(rank_type dim) const noexcept { return extents_[dim]; }
  /// The distance in elements to the next index of a dimension. `dim` < Rank.
  LOD_TAGGED constexpr index_type stride(rank_type dim) const noexcept {
    index_type product = 1;
    for (std::size_t inner = dim + 1; inner < Rank; ++inner) product *= extents_[inner];
    return product;
  }
  /// The number of elements.
  LOD_TAGGED constexpr size_type size() const noexcept {
    size_type product = 1;
    for (const index_type extent : extents_) product *= static_cast<size_type>(extent);
    return product;
  }
  /// Whether there are no elements.
  LOD_TAGGED constexpr bool empty() const noexcept { return size() == 0; }
  /// The first element.
  LOD_TAGGED constexpr data_handle_type data_handle() const noexcept { return data_; }

  /// @{
  /// The element with these indices, each at least 0 and below the extent of its dimension.
  template <std::convertible_to<index_type> Index>
  LOD_TAGGED constexpr reference operator[](const std::array<Index, Rank>& indices) const {
    index_type offset = 0;
    for (std::size_t dim = 0; dim < Rank; ++dim) {
      const auto index = static_cast<index_type>(indices[dim]);
      LOD_ASSERT(index >= 0 && index < extents_[dim]);
      offset = offset * extents_[dim] + index;
    }
    return data_[offset];
  }
  template <std::convertible_to<index_type>... Index>
    requires(sizeof...(Index) == Rank)
  LOD_TAGGED constexpr reference operator()(Index... index) const {
    return (*this)[std::array<index_type, Rank>{static_cast<index_type>(index)...}];
  }
#  ifdef __cpp_multidimensional_subscript
  template <std::convertible_to<index_type>... Index>
    requires(sizeof...(Index) == Rank)
  constexpr reference operator[](Index... index) const {
    return (*this)[std::array<index_type, Rank>{static_cast<index_type>(index)...}];
  }
#  endif
  /// @}

 private:
  T* data_ = nullptr;
  std::array<std::int64_t, Rank> extents_{};
};

#endif

/// The rows of x as a multidimensional span {rows, row shape...}: it refers to the values of x, row-major, without a
/// copy. It can write to them, unless they are const, and is valid as long as a view of them is. `Rank` is the number
/// of dimensions, or 2 for any row shape: then {rows, row_size}, the matrix for products. Throws ShapeMismatch for any
/// other rank. Tensors without rows give spans without elements.
template <std::size_t Rank, class T>
LOD_TAGGED Mdspan<T, Rank> as_mdspan(const LoDTensorView<T, Cpu>& x) {
  const std::size_t rank = 1 + x.row_shape().size();
  if (Rank != rank && Rank != 2) {
    throw ShapeMismatch(detail::text({"as_mdspan: rank ", Rank, " for rows of shape ", to_string(x.row_shape()),
                                      ", expected ", rank, ", or 2 for {rows, row size}"}));
  }
  std::array<std::int64_t, Rank> dims{x.rows()};
  for (std::size_t dim = 1; dim < Rank; ++dim) dims[dim] = Rank == rank ? x.row_shape()[dim - 1] : x.row_size();
  return Mdspan<T, Rank>(x.data(), dims);
}
template <std::size_t Rank, class T>
LOD_TAGGED Mdspan<T, Rank> as_mdspan(LoDTensor<T, Cpu>& x) {
  return as_mdspan<Rank>(x.view());
}
template <std::size_t Rank, class T>
LOD_TAGGED Mdspan<const T, Rank> as_mdspan(const LoDTensor<T, Cpu>& x) {
  return as_mdspan<Rank>(x.view());
}
/// Not for a temporary tensor, whose values are gone when the span is used.
template <std::size_t Rank, class T>
Mdspan<const T, Rank> as_mdspan(const LoDTensor<T, Cpu>&& x) = delete;

}  // namespace lod::inline LOD_INTERFACE
