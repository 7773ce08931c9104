// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup core
/// Views of LoD tensors: a whole tensor, a range of its sequences, the slice of a branch, one sequence. None of them
/// allocates or copies.
#pragma once

#include <lod/core/device.hpp>
#include <lod/core/error.hpp>
#include <lod/core/lifetime.hpp>
#include <lod/core/lod_index.hpp>
#include <lod/core/shape.hpp>
#include <lod/core/target.hpp>

#include <algorithm>
#include <compare>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <span>
#include <type_traits>
#include <vector>

namespace lod::inline LOD_INTERFACE {

template <class T, class Device>
class LoDTensorView;

/// Iterates over the sequences of the outermost level (the rows if there is no level). A random access iterator whose
/// elements are views, created on access.
template <class T, class Device>
class SequenceIterator {
 public:
  /// @{
  /// As for any iterator.
  using iterator_concept = std::random_access_iterator_tag;
  using iterator_category = std::input_iterator_tag;
  using value_type = LoDTensorView<T, Device>;
  using reference = value_type;
  using difference_type = std::ptrdiff_t;
  /// @}
  /// The result of `->`: holds the element, which exists nowhere else.
  struct Pointer {
    value_type element;                                                            ///< the element
    LOD_TAGGED const value_type* operator->() const noexcept { return &element; }  ///< its members
  };
  using pointer = Pointer;  ///< as for any iterator

  LOD_TAGGED SequenceIterator() = default;
  /// Points to `sequences.element(position)`.
  LOD_TAGGED SequenceIterator(const value_type& sequences, difference_type position) noexcept
      : sequences_(sequences), position_(position) {}
  /// An iterator to mutable values converts to one to const values.
  template <std::same_as<std::remove_const_t<T>> U>
  LOD_TAGGED SequenceIterator(const SequenceIterator<U, Device>& other) noexcept
      : sequences_(other.sequences_), position_(other.position_) {}

  /// @{
  /// As for any random access iterator.
  LOD_TAGGED reference operator*() const { return sequences_.element(position_); }
  LOD_TAGGED Pointer operator->() const { return {**this}; }
  LOD_TAGGED reference operator[](difference_type distance) const { return sequences_.element(position_ + distance); }

  LOD_TAGGED SequenceIterator& operator+=(difference_type distance) noexcept {
    position_ += distance;
    return *this;
  }
  LOD_TAGGED SequenceIterator& operator-=(difference_type distance) noexcept { return *this += -distance; }
  LOD_TAGGED SequenceIterator& operator++() noexcept { return *this += 1; }
  LOD_TAGGED SequenceIterator& operator--() noexcept { return *this -= 1; }
  LOD_TAGGED SequenceIterator operator++(int) noexcept {
    SequenceIterator before = *this;
    ++*this;
    return before;
  }
  LOD_TAGGED SequenceIterator operator--(int) noexcept {
    SequenceIterator before = *this;
    --*this;
    return before;
  }
  LOD_TAGGED friend SequenceIterator operator+(SequenceIterator it, difference_type distance) noexcept {
    return it += distance;
  }
  LOD_TAGGED friend SequenceIterator operator+(difference_type distance, SequenceIterator it) noexcept {
    return it += distance;
  }
  LOD_TAGGED friend SequenceIterator operator-(SequenceIterator it, difference_type distance) noexcept {
    return it -= distance;
  }
  LOD_TAGGED friend difference_type operator-(const SequenceIterator& a, const SequenceIterator& b) noexcept {
    return a.position_ - b.position_;
  }
  LOD_TAGGED friend bool operator==(const SequenceIterator& a, const SequenceIterator& b) noexcept {
    return a.position_ == b.position_;
  }
  LOD_TAGGED friend std::strong_ordering operator<=>(const SequenceIterator& a, const SequenceIterator& b) noexcept {
    return a.position_ <=> b.position_;
  }
  /// @}

 private:
  template <class, class>
  friend class SequenceIterator;

  value_type sequences_;
  difference_type position_ = 0;
};

/// Rows and the levels above them, borrowed from a tensor: valid as long as the tensor's memory is, even if the tensor
/// object has been moved. Trivially copyable; constness is that of T, as with a span.
template <class T, class Device = Cpu>
class LoDTensorView {
 public:
  /// @{
  /// The element, value and device types.
  using element_type = T;
  using value_type = std::remove_const_t<T>;
  using device = Device;
  using iterator = SequenceIterator<T, Device>;
  /// @}

  /// No rows, no levels.
  LOD_TAGGED LoDTensorView() = default;
  /// `first_element` is row lod.first_row(); `row_shape` must outlive the view.
  LOD_TAGGED LoDTensorView(T* first_element, const LoDView& lod, const Shape* row_shape, std::int64_t row_size) noexcept
      : data_(first_element), lod_(lod), row_shape_(row_shape), row_size_(row_size) {}
  /// A view of mutable values converts to one of const values.
  template <std::same_as<value_type> U>
  LOD_TAGGED LoDTensorView(const LoDTensorView<U, Device>& view) noexcept
      : LoDTensorView(view.data(), view.lod_view(), &view.row_shape(), view.row_size()) {}
  /// @{
  /// Assigning to a variable makes it refer to something else; no values are copied. Assigning to something that is not
  /// a variable, as in x[1] = x[0], does not compile: `copy_into` copies values.
  LOD_TAGGED LoDTensorView(const LoDTensorView&) = default;
  LOD_TAGGED LoDTensorView& operator=(const LoDTensorView&) & = default;
  void operator=(const LoDTensorView&) && = delete;
  LOD_TAGGED ~LoDTensorView() = default;
  /// @}

  /// The number of levels.
  LOD_TAGGED int levels() const noexcept { return lod_.levels(); }
  /// The levels as a part of the whole tensor's.
  LOD_TAGGED const LoDView& lod_view() const noexcept { return lod_; }
  /// The LoD, rebased to begin at 0. Shared if the view is a whole tensor, otherwise copied: O(sequences).
  LOD_TAGGED LoD lod() const { return lod_.lod(); }
  /// Row numbers of the whole tensor at every level, as slices are drawn on paper.
  LOD_TAGGED std::vector<std::vector<std::int64_t>> absolute_lod() const { return lod_.absolute_lod(); }

  /// The number of rows.
  LOD_TAGGED std::int64_t rows() const noexcept { return lod_.rows(); }
  /// The number of the first row in the whole tensor.
  LOD_TAGGED std::int64_t first_row() const noexcept { return lod_.first_row(); }
  /// {rows, row shape...}.
  LOD_TAGGED Shape shape() const { return Shape(rows(), row_shape()); }
  /// The dimensions of a row; none for scalar rows.
  LOD_TAGGED const Shape& row_shape() const noexcept { return *row_shape_; }
  /// Elements in a row: the product of the row shape, 1 for scalar rows.
  LOD_TAGGED std::int64_t row_size() const noexcept { return row_size_; }
  /// The first element of the first row.
  LOD_TAGGED T* data() const noexcept { return data_; }
  /// All elements: rows() * row_size() of them.
  LOD_TAGGED std::span<T> values() const noexcept { return {data_, static_cast<std::size_t>(rows() * row_size_)}; }
  /// Row i, counted from the first of the view. Throws OutOfRange.
  LOD_TAGGED std::span<T> row(std::int64_t i) const {
    if (i < 0 || i >= rows()) {
      throw OutOfRange(detail::text({"row ", i, " of ", rows(), " rows"}));
    }
    return {data_ + i * row_size_, static_cast<std::size_t>(row_size_)};
  }

  /// Writes `value` to all elements.
  LOD_TAGGED void fill(const value_type& value) const requires(std::same_as<Device, Cpu> && !std::is_const_v<T>) {
    std::fill_n(data_, rows() * row_size_, value);
  }
  /// Copies the values to another view of as many rows of the same shape, whatever the levels of both. Views may
  /// overlap. Throws ShapeMismatch.
  LOD_TAGGED void copy_into(const LoDTensorView<value_type, Device>& to) const requires(std::same_as<Device, Cpu>) {
    if (to.rows() != rows() || to.row_shape() != row_shape()) {
      throw ShapeMismatch(detail::text({"copy_into: the values have the shape ", to_string(shape()),
                                        ", those that are to be overwritten ", to_string(to.shape())}));
    }
    if (!values().empty()) std::memmove(to.data(), data_, values().size_bytes());
  }

  /// The number of sequences of the outermost level; of rows if there is no level, since each row is then an element.
  LOD_TAGGED std::int64_t size() const noexcept { return lod_.size(); }
  /// The number of sequences of a level; a negative one counts from the innermost. Throws OutOfRange.
  LOD_TAGGED std::int64_t size(int level) const { return lod_.size(level); }
  /// The slice of branch <i, j, ...>: a single sequence, kept as the outermost level. Throws OutOfRange. A few
  /// nanoseconds.
  LOD_TAGGED [[gnu::always_inline]] LoDTensorView slice(std::initializer_list<std::int64_t> branch) const {
    return part(lod_.slice(std::span<const std::int64_t>{branch.begin(), branch.size()}));
  }
  LOD_TAGGED [[gnu::always_inline]] LoDTensorView slice(std::span<const std::int64_t> branch) const {
    return part(lod_.slice(branch));
  }
  /// Sequences [begin, end) of the outermost level, with the same levels. Throws OutOfRange.
  LOD_TAGGED LoDTensorView between(std::int64_t begin, std::int64_t end) const {
    return part(lod_.between(begin, end));
  }
  /// `between` by its former name.
  LOD_TAGGED [[deprecated("a range of sequences is between(begin, end), a branch slice({i, ...})")]] LoDTensorView
  slice(std::int64_t begin, std::int64_t end) const {
    return between(begin, end);
  }
  /// Sequence i as an element: its contents, with one level fewer. Throws OutOfRange.
  LOD_TAGGED LoDTensorView operator[](std::int64_t i) const { return part(lod_[i]); }
  /// operator[] unchecked; 0 <= i < size().
  LOD_TAGGED LoDTensorView element(std::int64_t i) const {
    LOD_ASSERT(i >= 0 && i < size());
    return part(lod_.element(i));
  }
  /// @{
  /// Iterates over the sequences of the outermost level, each as returned by `operator[]`.
  LOD_TAGGED iterator begin() const noexcept { return iterator(*this, 0); }
  LOD_TAGGED iterator end() const noexcept { return iterator(*this, static_cast<std::ptrdiff_t>(size())); }
  /// @}

  /// The same rows under other levels, which `levels` must keep alive. Throws ShapeMismatch unless it is for as many
  /// rows; a LoD without levels fits any number.
  LOD_TAGGED [[nodiscard]] LoDTensorView with_lod(const LoD& levels LOD_LIFETIMEBOUND) const;

  /// Itself, read-only: the form in which operations take it.
  LOD_TAGGED LoDTensorView<const value_type, Device> view() const noexcept { return *this; }

 private:
  LOD_TAGGED LoDTensorView part(const LoDView& lod) const noexcept {
    return {data_ + (lod.first_row() - lod_.first_row()) * row_size_, lod, row_shape_, row_size_};
  }

  static constexpr Shape scalar_row{};

  T* data_ = nullptr;
  LoDView lod_;
  const Shape* row_shape_ = &scalar_row;
  std::int64_t row_size_ = 1;
};

namespace detail {

/// Throws ShapeMismatch unless `lod` is for `rows` rows; one without levels fits any number.
LOD_TAGGED inline void check_rows(const LoD& lod, std::int64_t rows) {
  if (lod.levels() > 0 && lod.rows() != rows) {
    throw ShapeMismatch(detail::text({"the LoD is for ", lod.rows(), " rows, but there are ", rows}));
  }
}

}  // namespace detail

template <class T, class Device>
LOD_TAGGED LoDTensorView<T, Device> LoDTensorView<T, Device>::with_lod(const LoD& levels LOD_LIFETIMEBOUND) const {
  detail::check_rows(levels, rows());
  return {data_, levels.levels() > 0 ? levels.view() : LoDView::plain(0, rows()), row_shape_, row_size_};
}

}  // namespace lod::inline LOD_INTERFACE

/// @cond
// Iterators of a view refer to the tensor, so they outlive the view: algorithms on `x[i]` return iterators, and the
// view adaptors accept it as it is.
template <class T, class Device>
inline constexpr bool std::ranges::enable_borrowed_range<lod::LoDTensorView<T, Device>> = true;
template <class T, class Device>
inline constexpr bool std::ranges::enable_view<lod::LoDTensorView<T, Device>> = true;
/// @endcond

namespace lod::inline LOD_INTERFACE {

/// What every operation takes: a tensor, a view, a slice. Anything with a view of its values and levels.
template <class X>
concept LoDTensorLike = requires(const X& x) {
  typename X::value_type;
  typename X::device;
  { x.view() } -> std::same_as<LoDTensorView<const typename X::value_type, typename X::device>>;
};

}  // namespace lod::inline LOD_INTERFACE
