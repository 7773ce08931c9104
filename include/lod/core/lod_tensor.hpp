// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup core
/// The LoD tensor: rows in one contiguous block, and the LoD that cuts them into nested sequences.
#pragma once

#include <lod/core/buffer.hpp>
#include <lod/core/device.hpp>
#include <lod/core/error.hpp>
#include <lod/core/lifetime.hpp>
#include <lod/core/lod_index.hpp>
#include <lod/core/lod_view.hpp>
#include <lod/core/reference.hpp>
#include <lod/core/shape.hpp>
#include <lod/core/target.hpp>

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace lod::inline LOD_INTERFACE {

template <class Device>
class BasicAnyLoDTensor;

namespace detail {

/// A row shape that views point to, wherever the tensor object is moved.
struct RowShape final : Shared {
  LOD_TAGGED explicit RowShape(const Shape& dims) : Shared(&RowShape::destroy), shape(dims) {}
  LOD_TAGGED ~RowShape() = default;
  LOD_TAGGED static void destroy(const Shared* shared) noexcept { delete static_cast<const RowShape*>(shared); }
  Shape shape;
};

/// The element type of a list that must be empty: it cannot be constructed.
struct NoDimension {
  NoDimension(const NoDimension&) = delete;
};

template <class Sequence>
concept NestedSequence = requires(const Sequence& sequence) {
  sequence.begin();
  sequence.end();
  sequence.size();
};

template <class Element>
struct NestedRow {  // scalar rows
  LOD_TAGGED static Shape shape() { return {}; }
  template <class T>
  LOD_TAGGED static void copy(const Element& from, T* to) {
    *to = static_cast<T>(from);
  }
};
template <class Element, std::size_t N>
struct NestedRow<std::array<Element, N>> {  // rows of N elements
  LOD_TAGGED static Shape shape() { return Shape(static_cast<std::int64_t>(N), NestedRow<Element>::shape()); }
  template <class T>
  LOD_TAGGED static void copy(const std::array<Element, N>& from, T* to) {
    const std::int64_t stride = NestedRow<Element>::shape().elements();
    for (const Element& element : from) {
      NestedRow<Element>::copy(element, to);
      to += stride;
    }
  }
};
template <class X>
inline constexpr bool is_array = false;
template <class Element, std::size_t N>
inline constexpr bool is_array<std::array<Element, N>> = true;

/// The levels of nesting in a type: 1 for a flat sequence of rows.
template <class X>
LOD_TAGGED constexpr int nesting() {
  if constexpr (NestedSequence<X> && !is_array<X>) {
    return 1 + nesting<typename X::value_type>();
  } else {
    return 0;
  }
}
template <class X>
struct InnermostOf {
  using type = X;
};
template <class X>
  requires(NestedSequence<X> && !is_array<X>)
struct InnermostOf<X> : InnermostOf<typename X::value_type> {};

template <class X, class Lengths>
LOD_TAGGED void collect_lengths(const X& nested, Lengths& lengths, std::size_t depth) {
  if constexpr (nesting<X>() > 1) {
    for (const auto& sequence : nested) {
      lengths[depth].push_back(static_cast<std::int64_t>(sequence.size()));
      collect_lengths(sequence, lengths, depth + 1);
    }
  }
}
template <class X, class T>
LOD_TAGGED void collect_rows(const X& nested, std::int64_t stride, T*& out) {
  for (const auto& inner : nested) {
    if constexpr (nesting<X>() > 1) {
      collect_rows(inner, stride, out);
    } else {
      NestedRow<typename InnermostOf<X>::type>::copy(inner, out);
      out += stride;
    }
  }
}

}  // namespace detail

/// `rows()` rows of a common row shape, and a LoD of any number of levels over them. A tensor without levels is a plain
/// tensor: a model parameter, a batch of images.
///
/// Copied and moved as a value: a copy has its own elements, from the default memory resource (from the target's own,
/// in an assignment); a move never copies, and takes its memory resource along. Constness is deep: a const tensor gives
/// views of const values. The values of a new tensor are zero. T is any trivially copyable type; a tensor of const T is
/// always read-only (for example on a mapped file).
///
/// Errors: whatever throws leaves the tensor unchanged.
///
/// On a device with streams, all of this is enqueued in the stream of the tensor's memory resource, that of an
/// executor: such a tensor is constructed with `executor.resource()`, and copies use that of their source. `data()`,
/// `values()` and `row()` are addresses in the device's memory.
template <class T, class Device = Cpu>
class LoDTensor {
  using Memory = detail::MemoryOf<Device>;

 public:
  /// @{
  /// The element, value and device types, and those derived from them.
  using element_type = T;
  using value_type = std::remove_const_t<T>;
  using device = Device;
  using Resource = typename Device::memory_resource;
  using View = LoDTensorView<T, Device>;
  using ConstView = LoDTensorView<const value_type, Device>;
  using iterator = SequenceIterator<T, Device>;
  using const_iterator = SequenceIterator<const value_type, Device>;
  /// @}

  /// No rows, no levels, scalar rows.
  LOD_TAGGED LoDTensor() noexcept : LoDTensor(Memory::initial_resource()) {}
  /// The same, with `resource` for memory that it needs later. This constructor and the next are templates so that a
  /// shape written as {0} is not taken for a null pointer.
  template <std::derived_from<Resource> Given>
  LOD_TAGGED explicit LoDTensor(Given* resource) noexcept : values_(resource) {}

  /// One row of `row_shape` for each row of `lod`, all zero; no rows if the LoD has no levels. Throws ShapeMismatch if
  /// the elements exceed 64 bits or the address space, and what the memory resource throws.
  LOD_TAGGED LoDTensor(LoD lod, const Shape& row_shape, Resource* resource = Device::default_resource())
      : LoDTensor(std::move(lod), row_shape, uninitialized, resource) {
    values_.set_zero();
  }
  /// The same with uninitialised values.
  LOD_TAGGED LoDTensor(LoD lod, const Shape& row_shape, uninitialized_t,
                       Resource* resource = Device::default_resource())
      : LoDTensor(lod, lod.rows(), row_shape, resource) {}

  /// A plain tensor: {rows, row shape...}, all zero. A shape without dimensions is one scalar row.
  LOD_TAGGED explicit LoDTensor(const Shape& shape) : LoDTensor(shape, Device::default_resource()) {}
  template <std::derived_from<Resource> Given>
  LOD_TAGGED LoDTensor(const Shape& shape, Given* resource) : LoDTensor(shape, uninitialized, resource) {
    values_.set_zero();
  }
  LOD_TAGGED LoDTensor(const Shape& shape, uninitialized_t, Resource* resource = Device::default_resource())
      : LoDTensor(LoD(), shape.empty() ? 1 : shape.front(), shape.without_first(), resource) {}
  /// The same for the shape {}, which could otherwise be read as a default-constructed tensor to copy.
  LOD_TAGGED explicit LoDTensor(std::initializer_list<detail::NoDimension>) : LoDTensor(Shape()) {}

  /// The given values, row by row. Throws ShapeMismatch unless there are lod.rows() rows of them (a whole number of
  /// rows, for a LoD without levels).
  LOD_TAGGED static LoDTensor from_values(LoD lod, const Shape& row_shape,
                                          std::span<const value_type> values) requires(std::same_as<Device, Cpu>) {
    const std::int64_t rows = rows_of(lod, row_shape, static_cast<std::int64_t>(values.size()));
    LoDTensor tensor(std::move(lod), rows, row_shape, Device::default_resource());
    tensor.values_.assign(values.data());
    return tensor;
  }
  LOD_TAGGED static LoDTensor from_values(
      LoD lod, const Shape& row_shape, std::initializer_list<value_type> values) requires(std::same_as<Device, Cpu>) {
    return from_values(std::move(lod), row_shape, std::span<const value_type>(values.begin(), values.size()));
  }

  /// From nested C++ sequences (for example vectors of vectors): n-fold nesting gives n-1 levels; the innermost
  /// elements are scalar rows, or rows of the shape {N} if they are std::array of N.
  template <class Nested>
  LOD_TAGGED static LoDTensor from_nested(const Nested& nested) requires(detail::nesting<Nested>() > 0 &&
                                                                         std::same_as<Device, Cpu>) {
    constexpr int levels = detail::nesting<Nested>() - 1;
    static_assert(levels <= max_levels, "a LoD has max_levels levels at most");
    const Shape row_shape = detail::NestedRow<typename detail::InnermostOf<Nested>::type>::shape();
    LoDTensor tensor;
    if constexpr (levels == 0) {
      tensor = LoDTensor(Shape(static_cast<std::int64_t>(nested.size()), row_shape), uninitialized);
    } else {
      std::vector<std::vector<std::int64_t>> lengths(static_cast<std::size_t>(levels));
      detail::collect_lengths(nested, lengths, 0);
      tensor = LoDTensor(LoD::from_lengths(lengths), row_shape, uninitialized);
    }
    auto* out = const_cast<value_type*>(tensor.data());
    detail::collect_rows(nested, tensor.row_size_, out);
    return tensor;
  }

  /// Uses the user's memory, row-major, without a copy: what is written to one is seen in the other. The memory must
  /// outlive the tensor and its views; with an `owner` (a shared pointer, a mapping) the tensor keeps that alive
  /// instead. Throws ShapeMismatch as `from_values` does.
  LOD_TAGGED static LoDTensor wrap(std::span<T> values, LoD lod, const Shape& row_shape,
                                   Resource* resource = Device::default_resource()) {
    return wrap(Buffer<T, Device>::wrap(values, resource), std::move(lod), row_shape);
  }
  template <class Owner>
    requires(!std::convertible_to<Owner, Resource*>)
  LOD_TAGGED static LoDTensor wrap(std::span<T> values, LoD lod, const Shape& row_shape, Owner owner,
                                   Resource* resource = Device::default_resource()) {
    return wrap(Buffer<T, Device>::wrap(values, std::move(owner), resource), std::move(lod), row_shape);
  }

  /// A copy of the values, from the default memory resource; the LoD is shared.
  LOD_TAGGED LoDTensor(const LoDTensor& other)
      : LoDTensor(other.lod_, other.rows_, other.row_shape_, other.row_size_,
                  Buffer<T, Device>(other.rows_ * other.row_size_, Memory::resource_of_copies(other.resource()))) {
    values_.assign(other.data());
  }
  /// Keeps its own memory resource.
  LOD_TAGGED LoDTensor& operator=(const LoDTensor& other) {
    if (this != &other) *this = copy_of(other.view(), resource() ? resource() : other.resource());
    return *this;
  }
  /// The source is left with no rows and no levels.
  LOD_TAGGED LoDTensor(LoDTensor&& other) noexcept
      : lod_(std::exchange(other.lod_, LoD())),
        row_shape_(std::move(other.row_shape_)),
        rows_(std::exchange(other.rows_, 0)),
        row_size_(std::exchange(other.row_size_, 1)),
        values_(std::move(other.values_)) {}
  /// Takes over the memory and the memory resource.
  LOD_TAGGED LoDTensor& operator=(LoDTensor&& other) noexcept {
    LoDTensor taken(std::move(other));
    std::swap(lod_, taken.lod_);
    std::swap(row_shape_, taken.row_shape_);
    std::swap(rows_, taken.rows_);
    std::swap(row_size_, taken.row_size_);
    std::swap(values_, taken.values_);
    return *this;
  }
  LOD_TAGGED ~LoDTensor() = default;

  /// A copy, with its own memory, of a view's contents: the way to keep a slice.
  LOD_TAGGED explicit LoDTensor(const ConstView& from) requires(std::same_as<Device, Cpu> && !std::is_const_v<T>)
      : LoDTensor(copy_of(from)) {}
  /// The same, from a memory resource.
  LOD_TAGGED static LoDTensor copy_of(const ConstView& from, Resource* resource = Device::default_resource()) {
    LoDTensor tensor(from.lod(), from.rows(), from.row_shape(), resource);
    tensor.values_.assign(from.data());
    return tensor;
  }

  /// @{
  /// The index and the shape, as for a LoDTensorView.
  LOD_TAGGED const LoD& lod() const noexcept LOD_LIFETIMEBOUND { return lod_; }
  LOD_TAGGED int levels() const noexcept { return lod_.levels(); }
  LOD_TAGGED std::vector<std::vector<std::int64_t>> absolute_lod() const { return view().absolute_lod(); }
  LOD_TAGGED std::int64_t rows() const noexcept { return rows_; }
  LOD_TAGGED std::int64_t first_row() const noexcept { return 0; }
  LOD_TAGGED Shape shape() const { return Shape(rows_, row_shape()); }
  LOD_TAGGED const Shape& row_shape() const noexcept LOD_LIFETIMEBOUND {
    return row_shape_ ? row_shape_->shape : scalar_row;
  }
  LOD_TAGGED std::int64_t row_size() const noexcept { return row_size_; }
  /// @}

  /// @{
  /// The values, as for a LoDTensorView.
  LOD_TAGGED T* data() noexcept LOD_LIFETIMEBOUND { return values_.data(); }
  LOD_TAGGED const T* data() const noexcept LOD_LIFETIMEBOUND { return values_.data(); }
  LOD_TAGGED std::span<T> values() noexcept LOD_LIFETIMEBOUND { return view().values(); }
  LOD_TAGGED std::span<const T> values() const noexcept LOD_LIFETIMEBOUND { return view().values(); }
  LOD_TAGGED std::span<T> row(std::int64_t i) LOD_LIFETIMEBOUND { return view().row(i); }
  LOD_TAGGED std::span<const T> row(std::int64_t i) const LOD_LIFETIMEBOUND { return view().row(i); }
  /// @}
  /// @{
  /// All values at a time, as for a LoDTensorView.
  LOD_TAGGED void fill(const value_type& value) requires(std::same_as<Device, Cpu> && !std::is_const_v<T>) {
    view().fill(value);
  }
  LOD_TAGGED void copy_into(const LoDTensorView<value_type, Device>& to) const requires(std::same_as<Device, Cpu>) {
    view().copy_into(to);
  }
  /// @}
  /// Where later allocations come from.
  LOD_TAGGED Resource* resource() const noexcept { return values_.resource(); }

  /// @{
  /// The sequences, as views, as for a LoDTensorView.
  LOD_TAGGED std::int64_t size() const noexcept { return levels() > 0 ? view().size() : rows_; }
  LOD_TAGGED std::int64_t size(int level) const { return lod_.size(level); }
  LOD_TAGGED View view() noexcept LOD_LIFETIMEBOUND { return {data(), lod_view(), &row_shape(), row_size_}; }
  LOD_TAGGED ConstView view() const noexcept LOD_LIFETIMEBOUND { return {data(), lod_view(), &row_shape(), row_size_}; }
  LOD_TAGGED LoDView lod_view() const noexcept LOD_LIFETIMEBOUND {
    return levels() > 0 ? lod_.view() : LoDView::plain(0, rows_);
  }
  LOD_TAGGED [[gnu::always_inline]] View slice(std::initializer_list<std::int64_t> branch) LOD_LIFETIMEBOUND {
    return view().slice(branch);
  }
  LOD_TAGGED [[gnu::always_inline]] ConstView slice(std::initializer_list<std::int64_t> branch) const
      LOD_LIFETIMEBOUND {
    return view().slice(branch);
  }
  LOD_TAGGED View slice(std::span<const std::int64_t> branch) LOD_LIFETIMEBOUND { return view().slice(branch); }
  LOD_TAGGED ConstView slice(std::span<const std::int64_t> branch) const LOD_LIFETIMEBOUND {
    return view().slice(branch);
  }
  LOD_TAGGED View between(std::int64_t begin, std::int64_t end) LOD_LIFETIMEBOUND { return view().between(begin, end); }
  LOD_TAGGED ConstView between(std::int64_t begin, std::int64_t end) const LOD_LIFETIMEBOUND {
    return view().between(begin, end);
  }
  LOD_TAGGED [[deprecated("a range of sequences is between(begin, end), a branch slice({i, ...})")]] View slice(
      std::int64_t begin, std::int64_t end) LOD_LIFETIMEBOUND {
    return between(begin, end);
  }
  LOD_TAGGED [[deprecated("a range of sequences is between(begin, end), a branch slice({i, ...})")]] ConstView slice(
      std::int64_t begin, std::int64_t end) const LOD_LIFETIMEBOUND {
    return between(begin, end);
  }
  LOD_TAGGED View operator[](std::int64_t i) LOD_LIFETIMEBOUND { return view()[i]; }
  LOD_TAGGED ConstView operator[](std::int64_t i) const LOD_LIFETIMEBOUND { return view()[i]; }
  LOD_TAGGED iterator begin() noexcept LOD_LIFETIMEBOUND { return view().begin(); }
  LOD_TAGGED iterator end() noexcept LOD_LIFETIMEBOUND { return view().end(); }
  LOD_TAGGED const_iterator begin() const noexcept LOD_LIFETIMEBOUND { return view().begin(); }
  LOD_TAGGED const_iterator end() const noexcept LOD_LIFETIMEBOUND { return view().end(); }
  LOD_TAGGED const_iterator cbegin() const noexcept LOD_LIFETIMEBOUND { return begin(); }
  LOD_TAGGED const_iterator cend() const noexcept LOD_LIFETIMEBOUND { return end(); }
  LOD_TAGGED operator View() noexcept LOD_LIFETIMEBOUND requires(!std::is_const_v<T>) { return view(); }
  LOD_TAGGED operator ConstView() const noexcept LOD_LIFETIMEBOUND { return view(); }
  /// @}

  /// The same values under another LoD. They are not copied: both tensors share the memory and keep it alive, and what
  /// is written through one is seen in the other; from a const tensor the result is read-only. A temporary gives its
  /// memory away. Throws ShapeMismatch unless `lod` is for as many rows; one without levels fits any number.
  LOD_TAGGED [[nodiscard]] LoDTensor with_lod(LoD lod) & {
    return LoDTensor(checked(std::move(lod)), rows_, row_shape_, row_size_, values_);
  }
  LOD_TAGGED [[nodiscard]] LoDTensor<const value_type, Device> with_lod(LoD lod) const& {
    return LoDTensor<const value_type, Device>(checked(std::move(lod)), rows_, row_shape_, row_size_,
                                               values_.as_const());
  }
  LOD_TAGGED [[nodiscard]] LoDTensor with_lod(LoD lod) && {
    lod_ = checked(std::move(lod));
    return std::move(*this);
  }

  /// Changes the LoD and the row shape; the values are unspecified afterwards. Memory is reused if it suffices and is
  /// not shared: a tensor that is used for batches of similar size soon stops allocating. `rows` is used only for a LoD
  /// without levels. Throws ShapeMismatch if wrapped memory is too small, or sizes overflow.
  LOD_TAGGED void resize(LoD lod, const Shape& row_shape, std::int64_t rows = 0) {
    *this = resized(std::move(lod), row_shape, rows, resource());
  }
  /// What `resize` would turn this tensor into. This one stays unchanged until the result is assigned to it, so
  /// whatever can fail has been done before anything changes. Uses the same memory if `resize` would reuse it; new
  /// memory comes from `resource`.
  LOD_TAGGED [[nodiscard]] LoDTensor resized(LoD lod, const Shape& row_shape, std::int64_t rows,
                                             Resource* resource) const {
    if (lod.levels() > 0) rows = lod.rows();
    const std::int64_t elements = Shape(rows, row_shape).elements();
    RowShape shape = row_shape == this->row_shape() ? row_shape_ : share(row_shape);
    return LoDTensor(std::move(lod), rows, std::move(shape), row_shape.elements(), values_.resized(elements, resource));
  }
  /// The number of elements for which there is memory.
  LOD_TAGGED std::int64_t capacity() const noexcept { return values_.capacity(); }

 private:
  template <class, class>
  friend class LoDTensor;
  template <class>
  friend class BasicAnyLoDTensor;
  using RowShape = detail::Reference<const detail::RowShape>;

  static constexpr Shape scalar_row{};
  LOD_TAGGED static RowShape share(const Shape& shape) {
    return shape.empty() ? RowShape() : RowShape::adopt(new detail::RowShape(shape));
  }

  LOD_TAGGED LoDTensor(LoD lod, std::int64_t rows, RowShape row_shape, std::int64_t row_size,
                       Buffer<T, Device> values) noexcept
      : lod_(std::move(lod)),
        row_shape_(std::move(row_shape)),
        rows_(rows),
        row_size_(row_size),
        values_(std::move(values)) {}
  LOD_TAGGED LoDTensor(LoD lod, std::int64_t rows, const Shape& row_shape, Resource* resource)
      : LoDTensor(std::move(lod), rows, share(row_shape), row_shape.elements(),
                  Buffer<T, Device>(Shape(rows, row_shape).elements(), resource)) {}

  LOD_TAGGED static std::int64_t rows_of(const LoD& lod, const Shape& row_shape, std::int64_t count) {
    const std::int64_t row_size = row_shape.elements();
    const std::int64_t rows = lod.levels() > 0 ? lod.rows() : row_size > 0 ? count / row_size : 0;
    if (Shape(rows, row_shape).elements() != count) {
      throw ShapeMismatch(
          detail::text({count, " values given, expected ", rows, " rows of shape ", to_string(row_shape)}));
    }
    return rows;
  }
  LOD_TAGGED static LoDTensor wrap(Buffer<T, Device> values, LoD lod, const Shape& row_shape) {
    const std::int64_t rows = rows_of(lod, row_shape, values.size());
    return LoDTensor(std::move(lod), rows, share(row_shape), row_shape.elements(), std::move(values));
  }
  LOD_TAGGED LoD checked(LoD lod) const {
    detail::check_rows(lod, rows_);
    return lod;
  }
  LoD lod_;
  RowShape row_shape_;
  std::int64_t rows_ = 0;
  std::int64_t row_size_ = 1;
  Buffer<T, Device> values_;
};

namespace detail {

/// A tensor of `rows` rows in the memory at `data`, which `owner` keeps alive (it is not kept if there are no
/// elements). Unlike `wrap`, it knows the number of rows even if rows have no elements. Throws ShapeMismatch if `lod`
/// is for another number of rows, std::invalid_argument if the memory is not aligned for an element.
template <class T, class Device, class Owner>
LOD_TAGGED LoDTensor<T, Device> wrap_rows(T* data, std::int64_t rows, LoD lod, const Shape& row_shape, Owner owner,
                                          typename Device::memory_resource* resource) {
  check_rows(lod, rows);
  const std::int64_t elements = Shape(rows, row_shape).elements();
  if (elements > 0) {
    if (reinterpret_cast<std::uintptr_t>(data) % alignof(T) != 0) {
      throw std::invalid_argument(
          text({"LoDTensor: memory at no multiple of the ", alignof(T), " bytes of its elements"}));
    }
    return LoDTensor<T, Device>::wrap({data, static_cast<std::size_t>(elements)}, std::move(lod), row_shape,
                                      std::move(owner), resource);
  }
  LoDTensor<T, Device> tensor(resource);
  tensor.resize(std::move(lod), row_shape, rows);
  return tensor;
}

}  // namespace detail

}  // namespace lod::inline LOD_INTERFACE
