// SPDX-License-Identifier: Apache-2.0
/// @file
/// Dense arrays as DLPack describes them: their element types and shapes, and their elements with any strides.
#pragma once

#include <lod/core/buffer.hpp>
#include <lod/core/data_type.hpp>
#include <lod/core/error.hpp>
#include <lod/core/shape.hpp>
#include <lod/core/target.hpp>

#include <dlpack/dlpack.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <stdexcept>
#include <vector>

namespace lod::inline LOD_INTERFACE::detail::inline LOD_TARGET {

/// Type codes of DLPack by their numbers, since older headers lack the names of the last three.
enum class DLPackCode : std::uint8_t {
  INT = 0,
  UINT = 1,
  FLOAT = 2,
  BFLOAT = 4,
  COMPLEX = 5,
  BOOL = 6,
  FLOAT8_E4M3FN = 10,
  FLOAT8_E5M2 = 12,
};

constexpr DLPackCode dlpack_code(DataType type) noexcept {
  switch (type) {
    case DataType::BOOL:
      return DLPackCode::BOOL;
    case DataType::INT8:
    case DataType::INT16:
    case DataType::INT32:
    case DataType::INT64:
      return DLPackCode::INT;
    case DataType::UINT8:
    case DataType::UINT32:
    case DataType::UINT64:
    case DataType::SIZE_T:
      return DLPackCode::UINT;
    case DataType::FP16:
    case DataType::FP32:
    case DataType::FP64:
      return DLPackCode::FLOAT;
    case DataType::BF16:
      return DLPackCode::BFLOAT;
    case DataType::COMPLEX64:
    case DataType::COMPLEX128:
      return DLPackCode::COMPLEX;
    case DataType::FP8_E4M3FN:
      return DLPackCode::FLOAT8_E4M3FN;
    case DataType::FP8_E5M2:
      return DLPackCode::FLOAT8_E5M2;
  }
  return DLPackCode::INT;
}

constexpr DLDataType dlpack_type(DataType type) noexcept {
  return {static_cast<std::uint8_t>(dlpack_code(type)), static_cast<std::uint8_t>(8 * size_of(type)), 1};
}

/// Throws std::invalid_argument for elements that have no DataType. `what`, here and below, begins the text of errors:
/// the public function that was called.
inline DataType data_type_of(const DLDataType& type, const char* what) {
  using enum DataType;
  for (const DataType known : {BOOL, INT8, INT16, INT32, INT64, UINT8, UINT32, UINT64, FP16, BF16, FP32, FP64,
                               COMPLEX64, COMPLEX128, FP8_E4M3FN, FP8_E5M2}) {
    const DLDataType same = dlpack_type(known);
    if (type.code == same.code && type.bits == same.bits && type.lanes == 1) return known;
  }
  throw std::invalid_argument(text({what, ": elements of type code ", type.code, " with ", type.bits, " bits and ",
                                    type.lanes, " lanes, for which there is no DataType"}));
}

/// A dense row-major array described by another library.
struct DLPackArray {
  DataType type;
  Shape shape;
  void* data;  // null if there are no elements

  /// A number without dimensions is one scalar row, as for LoDTensor.
  std::int64_t rows() const noexcept { return shape.empty() ? 1 : shape.front(); }
};

/// Throws ShapeMismatch unless the elements are contiguous and row-major.
inline void check_strides(const DLTensor& tensor, const Shape& shape, const char* what) {
  if (!tensor.strides || shape.elements() == 0) return;
  std::int64_t expected = 1;
  for (std::size_t dim = shape.size(); dim-- > 0;) {
    // The stride of a dimension of size 1 is never used, and libraries write what they like there.
    if (shape[dim] != 1 && tensor.strides[dim] != expected) {
      throw ShapeMismatch(
          text({what, ": the stride of dimension ", dim, " is ", tensor.strides[dim], ", expected ", expected,
                " for a compact row-major array of shape ", to_string(shape), "; copy_dlpack takes others"}));
    }
    expected *= shape[dim];
  }
}

/// The contents of the struct, except its strides. Throws as `from_dlpack` does; the caller must check the device.
inline DLPackArray read_dlpack_with_any_strides(const DLTensor& tensor, const char* what) {
  if (tensor.ndim < 0 || (tensor.ndim > 0 && !tensor.shape)) {
    throw std::invalid_argument(
        text({what, ": ", tensor.ndim, " dimensions", tensor.ndim < 0 ? "" : ", but no shape"}));
  }
  DLPackArray array{data_type_of(tensor.dtype, what), {}, nullptr};
  const std::size_t bytes = with_name(what, [&] {
    if (tensor.ndim > 0) {
      array.shape = Shape(std::span<const std::int64_t>{tensor.shape, static_cast<std::size_t>(tensor.ndim)});
    }
    return checked_bytes(array.shape.elements(), size_of(array.type));
  });
  if (bytes == 0) return array;
  if (!tensor.data) {
    throw std::invalid_argument(text({what, ": no data for an array of shape ", to_string(array.shape)}));
  }
  // As a number: pointer arithmetic must not leave its array.
  array.data = reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(tensor.data) + tensor.byte_offset);
  return array;
}
/// The same for a compact row-major array; throws ShapeMismatch for others.
inline DLPackArray read_dlpack(const DLTensor& tensor, const char* what) {
  const DLPackArray array = read_dlpack_with_any_strides(tensor, what);
  check_strides(tensor, array.shape, what);
  return array;
}

/// A dimension along which elements are copied: their number, and the distance between them in bytes.
struct DLPackSteps {
  std::int64_t count;
  std::int64_t bytes;
};

/// The dimensions along which the elements of an array are visited in row-major order, as few as possible: without
/// those of size 1, and merging those that are stepped through alike. Throws ShapeMismatch if an element would lie
/// outside the address space.
inline std::vector<DLPackSteps> dlpack_steps(const DLTensor& tensor, const DLPackArray& array) {
  std::vector<DLPackSteps> steps;
  const auto element = static_cast<std::int64_t>(size_of(array.type));
  std::int64_t compact = 1;  // the stride of a compact array
  std::int64_t below = 0, above = element;
  const auto fail = [&](std::size_t dim) {
    throw ShapeMismatch(text({"copy_dlpack: the stride of dimension ", dim, " is ", tensor.strides[dim],
                              ", which leads out of all memory in an array of shape ", to_string(array.shape)}));
  };
  for (std::size_t dim = array.shape.size(); dim-- > 0; compact *= array.shape[dim]) {
    const std::int64_t count = array.shape[dim];
    if (count == 1) continue;
    std::int64_t bytes = 0, way = 0;
    std::int64_t& end = tensor.strides && tensor.strides[dim] < 0 ? below : above;
    if (__builtin_mul_overflow(tensor.strides ? tensor.strides[dim] : compact, element, &bytes) ||
        __builtin_mul_overflow(count - 1, bytes, &way) || __builtin_add_overflow(end, way, &end)) {
      fail(dim);
    }
    const auto begin = reinterpret_cast<std::uintptr_t>(array.data);
    if (begin + static_cast<std::uintptr_t>(below) > begin || begin + static_cast<std::uintptr_t>(above) < begin) {
      fail(dim);
    }
    if (!steps.empty() && steps.back().count * steps.back().bytes == bytes) {
      steps.back().count *= count;
    } else {
      steps.push_back({count, bytes});
    }
  }
  return {steps.rbegin(), steps.rend()};
}

/// Copies elements of `Size` bytes along these dimensions, the last one fastest, to contiguous memory. Returns the end
/// of what it wrote.
template <std::size_t Size>
std::byte* copy_steps(const std::byte* from, std::byte* to, std::span<const DLPackSteps> steps) noexcept {
  if (steps.empty()) {
    std::memcpy(to, from, Size);
    return to + Size;
  }
  const DLPackSteps outer = steps.front();
  if (steps.size() == 1 && outer.bytes == static_cast<std::int64_t>(Size)) {
    std::memcpy(to, from, static_cast<std::size_t>(outer.count) * Size);
    return to + outer.count * outer.bytes;
  }
  const auto begin = reinterpret_cast<std::uintptr_t>(from);
  for (std::int64_t i = 0; i < outer.count; ++i) {
    // As a number: a step before the first element or after the last is computed, though never used.
    const auto* const at = reinterpret_cast<const std::byte*>(begin + static_cast<std::uintptr_t>(i * outer.bytes));
    if (steps.size() == 1) {
      std::memcpy(to, at, Size);
      to += Size;
    } else {
      to = copy_steps<Size>(at, to, steps.subspan(1));
    }
  }
  return to;
}
inline void copy_steps(std::size_t size, const std::byte* from, std::byte* to, std::span<const DLPackSteps> steps) {
  switch (size) {
    case 1:
      copy_steps<1>(from, to, steps);
      break;
    case 2:
      copy_steps<2>(from, to, steps);
      break;
    case 4:
      copy_steps<4>(from, to, steps);
      break;
    case 8:
      copy_steps<8>(from, to, steps);
      break;
    default:
      copy_steps<16>(from, to, steps);
  }
}

}  // namespace lod::inline LOD_INTERFACE::detail::inline LOD_TARGET
