// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup core
/// Tensors whose element type is known only at run time: the contents of a file, a variable or another library.
///
/// Operations take typed tensors; `view<T>()`, `as<T>()`, `take<T>()` and `visit` lead to them without a copy.
#pragma once

#include <lod/core/data_type.hpp>
#include <lod/core/desc.hpp>
#include <lod/core/device.hpp>
#include <lod/core/error.hpp>
#include <lod/core/lifetime.hpp>
#include <lod/core/lod_index.hpp>
#include <lod/core/lod_tensor.hpp>
#include <lod/core/selected_rows.hpp>
#include <lod/core/shape.hpp>
#include <lod/core/target.hpp>

#include <complex>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace lod::inline LOD_INTERFACE {

template <class Device>
class BasicAnyLoDTensor;
/// In CPU memory.
using AnyLoDTensor = BasicAnyLoDTensor<Cpu>;

namespace detail {

/// A type, as an argument.
template <class T>
struct ElementType {
  using type = T;
};

/// Calls f(ElementType<T>{}) with the C++ type T of elements of `type`. Throws std::invalid_argument for the 8-bit
/// floating-point types, for which C++ has none, and for a value that names no DataType.
template <class F>
LOD_TAGGED decltype(auto) with_element_type(DataType type, F&& f) {
  switch (type) {
    case DataType::BOOL:
      return f(ElementType<bool>{});
    case DataType::INT8:
      return f(ElementType<std::int8_t>{});
    case DataType::INT16:
      return f(ElementType<std::int16_t>{});
    case DataType::INT32:
      return f(ElementType<std::int32_t>{});
    case DataType::INT64:
      return f(ElementType<std::int64_t>{});
    case DataType::UINT8:
      return f(ElementType<std::uint8_t>{});
    case DataType::UINT32:
      return f(ElementType<std::uint32_t>{});
    case DataType::UINT64:
    case DataType::SIZE_T:
      return f(ElementType<std::uint64_t>{});
    case DataType::FP16:
      return f(ElementType<float16>{});
    case DataType::BF16:
      return f(ElementType<bfloat16>{});
    case DataType::FP32:
      return f(ElementType<float>{});
    case DataType::FP64:
      return f(ElementType<double>{});
    case DataType::COMPLEX64:
      return f(ElementType<std::complex<float>>{});
    case DataType::COMPLEX128:
      return f(ElementType<std::complex<double>>{});
    case DataType::FP8_E4M3FN:
    case DataType::FP8_E5M2:
      break;
  }
  throw std::invalid_argument(text({"no C++ type stands for elements of type ", to_string(type)}));
}

/// Whether elements of type T are elements of `type`. SIZE_T is the 64-bit unsigned integer under another name.
template <class T>
LOD_TAGGED constexpr bool is_element_type(DataType type) noexcept {
  constexpr DataType mine = data_type_v<T>;
  return type == mine || (mine == DataType::UINT64 && type == DataType::SIZE_T);
}

template <class T>
LOD_TAGGED void check_element_type(DataType type, const char* what) {
  if (is_element_type<T>(type)) return;
  throw ShapeMismatch(text({what, ": data type: expected ", to_string(data_type_v<T>), ", found ", to_string(type)}));
}

/// Frees the memory of a tensor's values and returns a tensor of the same type and row shape without rows. `x` keeps
/// everything else, so that `resized` needs to allocate only the values; until then it must not be read.
template <class Device>
LOD_TAGGED BasicAnyLoDTensor<Device> give_up_memory(BasicAnyLoDTensor<Device>& x) noexcept;

}  // namespace detail

/// Rows of any element type under a LoD, in the memory of a device; AnyLoDTensor is the one in CPU memory. Everything
/// but the element type works as in a LoDTensor. Copies share the values, as with a Buffer: a copy costs no more than a
/// few counters. The values are read-only if the memory is (a mapped file, a tensor of const elements).
template <class Device>
class BasicAnyLoDTensor {
  using Resource = typename Device::memory_resource;

 public:
  /// The device whose memory holds the values.
  using device = Device;

  /// No rows and no levels, of type FP32.
  LOD_TAGGED BasicAnyLoDTensor() noexcept = default;

  /// Takes over a tensor: its memory moves, nothing is copied.
  template <class T>
  LOD_TAGGED BasicAnyLoDTensor(LoDTensor<T, Device> tensor) noexcept
      : data_type_(data_type_v<T>), read_only_(std::is_const_v<T>) {
    lod_ = std::move(tensor.lod_);
    row_shape_ = std::move(tensor.row_shape_);
    rows_ = std::exchange(tensor.rows_, 0);
    row_size_ = std::exchange(tensor.row_size_, 1);
    bytes_ = std::move(tensor.values_).template as<std::byte>();
  }

  /// One row of `row_shape` for each row of `lod`, or `rows` of them if it has no level. The values are uninitialised.
  /// Throws ShapeMismatch if their bytes exceed the address space, std::invalid_argument for a value that names no
  /// DataType, and what the memory resource throws.
  LOD_TAGGED BasicAnyLoDTensor(DataType type, LoD lod, const Shape& row_shape, uninitialized_t, std::int64_t rows = 0,
                               Resource* resource = Device::default_resource())
      : BasicAnyLoDTensor(type, std::move(lod), row_shape, rows) {
    bytes_ = Buffer<std::byte, Device>(byte_count(), resource);
  }

  /// Uses the user's memory, read-only, and keeps it alive by keeping `owner`. Throws ShapeMismatch unless `bytes` are
  /// as many as the rows need, std::invalid_argument if the memory is not aligned for an element.
  template <class Owner>
  LOD_TAGGED static BasicAnyLoDTensor wrap(DataType type, std::span<const std::byte> bytes, LoD lod,
                                           const Shape& row_shape, Owner owner, std::int64_t rows = 0) {
    BasicAnyLoDTensor tensor(type, std::move(lod), row_shape, rows);
    if (static_cast<std::int64_t>(bytes.size()) != tensor.byte_count()) {
      throw ShapeMismatch(
          detail::text({"AnyLoDTensor: ", bytes.size(), " bytes given, expected the ", tensor.byte_count(),
                        " of the shape ", to_string(tensor.shape()), " of ", to_string(type)}));
    }
    if (reinterpret_cast<std::uintptr_t>(bytes.data()) % alignment_of(type) != 0) {
      throw std::invalid_argument(detail::text({"AnyLoDTensor: memory at no multiple of the ", alignment_of(type),
                                                " bytes that ", to_string(type), " needs"}));
    }
    // Read-only from here on: the tensor gives access to the bytes through const references only.
    const std::span<std::byte> writable{const_cast<std::byte*>(bytes.data()), bytes.size()};
    tensor.bytes_ = Buffer<std::byte, Device>::wrap(writable, std::move(owner));
    tensor.read_only_ = true;
    return tensor;
  }

  /// The type of the elements.
  LOD_TAGGED DataType data_type() const noexcept { return data_type_; }
  /// Whether the elements are of type T. Both UINT64 and SIZE_T are std::uint64_t.
  template <class T>
  LOD_TAGGED bool holds() const noexcept {
    return detail::is_element_type<T>(data_type_);
  }
  /// @{
  /// The index and the shape, as for a LoDTensor.
  LOD_TAGGED const LoD& lod() const noexcept LOD_LIFETIMEBOUND { return lod_; }
  LOD_TAGGED int levels() const noexcept { return lod_.levels(); }
  LOD_TAGGED std::int64_t rows() const noexcept { return rows_; }
  LOD_TAGGED Shape shape() const { return Shape(rows_, row_shape()); }
  LOD_TAGGED const Shape& row_shape() const noexcept LOD_LIFETIMEBOUND {
    return row_shape_ ? row_shape_->shape : scalar_row;
  }
  LOD_TAGGED std::int64_t row_size() const noexcept { return row_size_; }
  /// @}

  /// All values, row-major, as bytes.
  LOD_TAGGED std::span<const std::byte> bytes() const noexcept LOD_LIFETIMEBOUND {
    return {bytes_.data(), static_cast<std::size_t>(bytes_.size())};
  }
  /// The same, writable. Throws std::logic_error if the memory is read-only.
  LOD_TAGGED std::span<std::byte> mutable_bytes() LOD_LIFETIMEBOUND {
    if (read_only_) throw std::logic_error("AnyLoDTensor: the values are read-only; copy<T>() gives some to write to");
    return {bytes_.data(), static_cast<std::size_t>(bytes_.size())};
  }
  /// Whether the memory is read-only.
  LOD_TAGGED bool read_only() const noexcept { return read_only_; }
  /// Whether the memory is shared: with other tensors, which would see what is written to it, or with the user.
  LOD_TAGGED bool shares_memory() const noexcept {
    return bytes_.wrapped() || (bytes_.block() && !bytes_.block()->unique());
  }
  /// Where its memory comes from, or will come from if it has none yet.
  LOD_TAGGED Resource* resource() const noexcept { return bytes_.resource(); }

  /// The values and levels, borrowed: valid as long as this object and any owner of the memory exist. Throws
  /// ShapeMismatch unless the elements are of type T.
  template <class T>
  LOD_TAGGED LoDTensorView<const T, Device> view() const LOD_LIFETIMEBOUND {
    detail::check_element_type<T>(data_type_, "AnyLoDTensor");
    return unchecked_view<T>();
  }
  /// A tensor on the same memory, which it keeps alive. Throws ShapeMismatch unless the elements are of type T.
  template <class T>
  LOD_TAGGED LoDTensor<const T, Device> as() const {
    detail::check_element_type<T>(data_type_, "AnyLoDTensor");
    return LoDTensor<const T, Device>(lod_, rows_, row_shape_, row_size_,
                                      Buffer<std::byte, Device>(bytes_).template as<const T>());
  }
  /// A tensor with values of its own. Throws ShapeMismatch unless the elements are of type T.
  template <class T>
  LOD_TAGGED LoDTensor<T, Device> copy() const {
    const auto from = view<T>();
    Resource* const resource = detail::MemoryOf<Device>::resource_of_copies(bytes_.resource());
    LoDTensor<T, Device> to(lod_, rows_, row_shape_, row_size_, Buffer<T, Device>(rows_ * row_size_, resource));
    to.values_.assign(from.data());
    return to;
  }
  /// The memory itself, as a tensor; a copy of it if it is read-only. Remaining copies of this object share it, and see
  /// what is written. Throws ShapeMismatch, and leaves this unchanged, unless the elements are of type T.
  template <class T>
  LOD_TAGGED LoDTensor<T, Device> take() && {
    detail::check_element_type<T>(data_type_, "AnyLoDTensor");
    if (read_only_) return copy<T>();
    BasicAnyLoDTensor taken(std::move(*this));
    return LoDTensor<T, Device>(std::move(taken.lod_), taken.rows_, std::move(taken.row_shape_), taken.row_size_,
                                std::move(taken.bytes_).template as<T>());
  }

  /// The same values, shared, under another LoD. Throws ShapeMismatch unless `lod` is for as many rows; one without a
  /// level fits any number.
  LOD_TAGGED BasicAnyLoDTensor with_lod(LoD lod) const {
    detail::check_rows(lod, rows_);
    BasicAnyLoDTensor other = *this;
    other.lod_ = std::move(lod);
    return other;
  }

  /// A tensor of another structure, whose values are unspecified: in this one's memory if that suffices and is not
  /// shared, otherwise in new memory from `resource`. This tensor stays unchanged until the result is assigned to it,
  /// so whatever can fail has been done before anything changes. `rows` counts only for a LoD without levels. Throws
  /// what the constructor throws.
  LOD_TAGGED [[nodiscard]] BasicAnyLoDTensor resized(DataType type, LoD lod, const Shape& row_shape, std::int64_t rows,
                                                     Resource* resource) const {
    if (read_only_ || shares_memory()) {
      return BasicAnyLoDTensor(type, std::move(lod), row_shape, uninitialized, rows, resource);
    }
    BasicAnyLoDTensor other(type, std::move(lod), row_shape, rows, row_shape_);
    other.bytes_ = bytes_.resized(other.byte_count(), resource);
    return other;
  }

  /// Calls f(view) with the view that `view<T>()` returns for the type T of the elements. Throws std::invalid_argument
  /// if C++ has no such T: FP8_E4M3FN, FP8_E5M2.
  template <class F>
  LOD_TAGGED decltype(auto) visit(F&& f) const {
    return detail::with_element_type(data_type_, [&](auto element) -> decltype(auto) {
      return f(unchecked_view<typename decltype(element)::type>());
    });
  }

  LOD_TAGGED BasicAnyLoDTensor(const BasicAnyLoDTensor&) noexcept = default;
  LOD_TAGGED BasicAnyLoDTensor& operator=(const BasicAnyLoDTensor&) noexcept = default;
  /// The source is left with no rows and no levels.
  LOD_TAGGED BasicAnyLoDTensor(BasicAnyLoDTensor&& other) noexcept
      : data_type_(other.data_type_),
        read_only_(std::exchange(other.read_only_, false)),
        lod_(std::exchange(other.lod_, LoD())),
        row_shape_(std::move(other.row_shape_)),
        rows_(std::exchange(other.rows_, 0)),
        row_size_(std::exchange(other.row_size_, 1)),
        bytes_(std::move(other.bytes_)) {}
  /// Likewise.
  LOD_TAGGED BasicAnyLoDTensor& operator=(BasicAnyLoDTensor&& other) noexcept {
    BasicAnyLoDTensor taken(std::move(other));
    std::swap(data_type_, taken.data_type_);
    std::swap(read_only_, taken.read_only_);
    std::swap(lod_, taken.lod_);
    std::swap(row_shape_, taken.row_shape_);
    std::swap(rows_, taken.rows_);
    std::swap(row_size_, taken.row_size_);
    std::swap(bytes_, taken.bytes_);
    return *this;
  }
  LOD_TAGGED ~BasicAnyLoDTensor() = default;

 private:
  friend BasicAnyLoDTensor detail::give_up_memory<Device>(BasicAnyLoDTensor& x) noexcept;

  using RowShape = detail::Reference<const detail::RowShape>;
  static constexpr Shape scalar_row{};

  /// Everything but the values. Shares `known`, if that is the same row shape.
  LOD_TAGGED BasicAnyLoDTensor(DataType type, LoD lod, const Shape& row_shape, std::int64_t rows, RowShape known = {})
      : data_type_(type), rows_(lod.levels() > 0 ? lod.rows() : rows), row_size_(row_shape.elements()) {
    if (!is_pod(type)) {
      throw std::invalid_argument(detail::text({"AnyLoDTensor: ", static_cast<std::int32_t>(type), " is no DataType"}));
    }
    if (!row_shape.empty()) {
      row_shape_ =
          known && known->shape == row_shape ? std::move(known) : RowShape::adopt(new detail::RowShape(row_shape));
    }
    // The number of elements fits 64 bits, or the shape throws; the number of bytes is checked here.
    detail::checked_bytes(Shape(rows_, row_shape).elements(), size_of(type));
    lod_ = std::move(lod);
  }
  LOD_TAGGED std::int64_t byte_count() const noexcept {
    return rows_ * row_size_ * static_cast<std::int64_t>(size_of(data_type_));
  }
  LOD_TAGGED static std::size_t alignment_of(DataType type) noexcept {
    const bool is_complex = type == DataType::COMPLEX64 || type == DataType::COMPLEX128;
    return is_complex ? size_of(type) / 2 : size_of(type);
  }
  template <class T>
  LOD_TAGGED LoDTensorView<const T, Device> unchecked_view() const noexcept {
    return {reinterpret_cast<const T*>(bytes_.data()), levels() > 0 ? lod_.view() : LoDView::plain(0, rows_),
            &row_shape(), row_size_};
  }

  DataType data_type_ = DataType::FP32;
  bool read_only_ = false;
  LoD lod_;
  RowShape row_shape_;
  std::int64_t rows_ = 0;
  std::int64_t row_size_ = 1;
  Buffer<std::byte, Device> bytes_;
};

namespace detail {

template <class Device>
LOD_TAGGED BasicAnyLoDTensor<Device> give_up_memory(BasicAnyLoDTensor<Device>& x) noexcept {
  x.bytes_ = Buffer<std::byte, Device>(x.bytes_.resource());
  x.read_only_ = false;
  BasicAnyLoDTensor<Device> without_rows;
  without_rows.data_type_ = x.data_type_;
  without_rows.row_shape_ = x.row_shape_;
  without_rows.row_size_ = x.row_size_;
  return without_rows;
}

}  // namespace detail

/// Row-sparse values of any element type. Everything but the element type works as in SelectedRows. Copies share the
/// values, as with an AnyLoDTensor; the ids are copied.
class AnySelectedRows {
 public:
  /// No rows, height 0.
  LOD_TAGGED AnySelectedRows() = default;
  LOD_TAGGED AnySelectedRows(const AnySelectedRows&) = default;
  LOD_TAGGED AnySelectedRows(AnySelectedRows&&) noexcept = default;
  LOD_TAGGED AnySelectedRows& operator=(const AnySelectedRows&) = default;
  /// A move to itself changes nothing.
  LOD_TAGGED AnySelectedRows& operator=(AnySelectedRows&& other) noexcept {
    if (this != &other) {  // a vector that is moved to itself is empty afterwards
      rows_ = std::move(other.rows_);
      height_ = other.height_;
      value_ = std::move(other.value_);
    }
    return *this;
  }
  LOD_TAGGED ~AnySelectedRows() = default;

  /// Takes over row-sparse values; nothing is copied. Throws ShapeMismatch if the numbers of ids and rows differ.
  /// Levels of the value are dropped.
  template <class T>
  LOD_TAGGED AnySelectedRows(SelectedRows<T, Cpu> x) {
    detail::check_value_rows(x, "AnySelectedRows");
    rows_ = std::move(x.rows_);
    height_ = x.height();
    value_ = std::move(x.value()).with_lod(LoD());
  }

  /// Row i of `value` belongs to id rows[i]. Throws OutOfRange for an id outside [0, height), ShapeMismatch for a
  /// negative height and if the numbers of ids and rows differ. Levels of `value` are dropped.
  // NOLINTNEXTLINE(performance-unnecessary-value-param): a temporary gives its memory away
  LOD_TAGGED AnySelectedRows(std::vector<std::int64_t> rows, std::int64_t height, AnyLoDTensor value) {
    detail::check_value_rows(static_cast<std::int64_t>(rows.size()), value.rows(), "AnySelectedRows");
    detail::check_height(height, "AnySelectedRows");
    detail::check_row_ids(rows, height, "AnySelectedRows");
    rows_ = std::move(rows);
    height_ = height;
    value_ = value.with_lod(LoD());
  }

  /// The ids, one for each row of the value.
  LOD_TAGGED const std::vector<std::int64_t>& rows() const noexcept LOD_LIFETIMEBOUND { return rows_; }
  /// The number of rows of the dense tensor that this represents.
  LOD_TAGGED std::int64_t height() const noexcept { return height_; }
  /// The values of the rows: a tensor without levels.
  LOD_TAGGED const AnyLoDTensor& value() const noexcept LOD_LIFETIMEBOUND { return value_; }
  /// {height, row shape...}: the shape of the dense tensor. Throws ShapeMismatch if that has more elements than 64 bits
  /// can count.
  LOD_TAGGED Shape dense_shape() const { return Shape(height_, value_.row_shape()); }

  /// SelectedRows with values of their own. Throws ShapeMismatch unless the elements are of type T.
  template <class T>
  LOD_TAGGED SelectedRows<T, Cpu> copy() const {
    return SelectedRows<T, Cpu>(rows_, height_, value_.copy<T>());
  }
  /// The memory itself, as SelectedRows; a copy of it if it is read-only. Throws ShapeMismatch, and leaves this
  /// unchanged, unless the elements are of type T.
  template <class T>
  LOD_TAGGED SelectedRows<T, Cpu> take() && {
    auto value = std::move(value_).take<T>();
    return SelectedRows<T, Cpu>(std::exchange(rows_, {}), std::exchange(height_, 0), std::move(value));
  }

 private:
  std::vector<std::int64_t> rows_;
  std::int64_t height_ = 0;
  AnyLoDTensor value_;
};

/// The description of its contents, as for a LoDTensor.
LOD_TAGGED inline LoDTensorDesc describe(const AnyLoDTensor& x) {
  const Shape shape = x.shape();
  return {{x.data_type(), std::vector<std::int64_t>(shape.begin(), shape.end())}, x.levels()};
}
/// The description of its contents, as for SelectedRows. The height may be arbitrary, even that of a dense tensor that
/// no memory could hold.
LOD_TAGGED inline TensorDesc describe(const AnySelectedRows& x) {
  const Shape row_shape = x.value().row_shape();
  TensorDesc desc{x.value().data_type(), {x.height()}};
  desc.dims.insert(desc.dims.end(), row_shape.begin(), row_shape.end());
  return desc;
}
/// The same as a variable of type LOD_TENSOR.
LOD_TAGGED inline VarDesc describe(std::string name, const AnyLoDTensor& x) {
  LoDTensorDesc desc = describe(x);
  return VarDesc::lod_tensor(std::move(name), std::move(desc.tensor), desc.lod_level);
}
/// The same as a variable of type SELECTED_ROWS.
LOD_TAGGED inline VarDesc describe(std::string name, const AnySelectedRows& x) {
  return VarDesc::selected_rows(std::move(name), describe(x));
}

}  // namespace lod::inline LOD_INTERFACE
