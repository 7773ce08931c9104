// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup core
/// The element types of a tensor: their names on the wire (DataType), and the corresponding C++ types.
///
/// Everything includes this header, so it avoids `<complex>`.
#pragma once

#include <lod/core/float16.hpp>
#include <lod/core/target.hpp>

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace lod::inline LOD_INTERFACE {

/// The element types of tensors, with the numbers that PaddlePaddle's framework.proto gives them. The gaps are kinds of
/// variables (VarType in <lod/desc.hpp>): a DataType is always plain old data.
enum class DataType : std::int32_t {
  BOOL = 0,
  INT16 = 1,
  INT32 = 2,
  INT64 = 3,
  FP16 = 4,
  FP32 = 5,
  FP64 = 6,
  SIZE_T = 19,
  UINT8 = 20,
  INT8 = 21,
  BF16 = 22,
  COMPLEX64 = 23,
  COMPLEX128 = 24,
  FP8_E4M3FN = 32,
  FP8_E5M2 = 33,
  UINT32 = 37,
  UINT64 = 38,
};

/// The bytes of one element; 0 for a value that is not a DataType, which only a cast can produce.
LOD_TAGGED constexpr std::size_t size_of(DataType type) noexcept {
  switch (type) {
    case DataType::BOOL:
    case DataType::UINT8:
    case DataType::INT8:
    case DataType::FP8_E4M3FN:
    case DataType::FP8_E5M2:
      return 1;
    case DataType::INT16:
    case DataType::FP16:
    case DataType::BF16:
      return 2;
    case DataType::INT32:
    case DataType::FP32:
    case DataType::UINT32:
      return 4;
    case DataType::INT64:
    case DataType::FP64:
    case DataType::SIZE_T:
    case DataType::COMPLEX64:
    case DataType::UINT64:
      return 8;
    case DataType::COMPLEX128:
      return 16;
  }
  return 0;
}

/// The name of the enumerator, "FP32"; "?" for a value that is not a DataType, which only a cast can produce.
LOD_TAGGED constexpr const char* to_string(DataType type) noexcept {
  switch (type) {
    case DataType::BOOL:
      return "BOOL";
    case DataType::INT16:
      return "INT16";
    case DataType::INT32:
      return "INT32";
    case DataType::INT64:
      return "INT64";
    case DataType::FP16:
      return "FP16";
    case DataType::FP32:
      return "FP32";
    case DataType::FP64:
      return "FP64";
    case DataType::SIZE_T:
      return "SIZE_T";
    case DataType::UINT8:
      return "UINT8";
    case DataType::INT8:
      return "INT8";
    case DataType::BF16:
      return "BF16";
    case DataType::COMPLEX64:
      return "COMPLEX64";
    case DataType::COMPLEX128:
      return "COMPLEX128";
    case DataType::FP8_E4M3FN:
      return "FP8_E4M3FN";
    case DataType::FP8_E5M2:
      return "FP8_E5M2";
    case DataType::UINT32:
      return "UINT32";
    case DataType::UINT64:
      return "UINT64";
  }
  return "?";
}

/// Whether a number names a DataType. False for the gaps, which name kinds of variables such as LOD_TENSOR.
LOD_TAGGED constexpr bool is_pod(std::int32_t number) noexcept { return size_of(static_cast<DataType>(number)) != 0; }
LOD_TAGGED constexpr bool is_pod(DataType type) noexcept { return size_of(type) != 0; }

/// The DataType of elements of type T, in a member `value`, which is missing if there is none. Specialise it for a type
/// of your own that has the layout of one of them.
template <class T>
struct DataTypeOf {};

namespace detail {
template <DataType Type>
struct DataTypeConstant {
  static constexpr DataType value = Type;
};

/// The integers that have a DataType: by signedness and size, so that both long and long long count. Not the character
/// types, nor unsigned 16-bit integers: the wire format has no name for those.
template <class T>
concept TensorInteger = std::is_integral_v<T> && !std::is_same_v<T, bool> && !std::is_same_v<T, char> &&
                        !std::is_same_v<T, wchar_t> && !std::is_same_v<T, char8_t> && !std::is_same_v<T, char16_t> &&
                        !std::is_same_v<T, char32_t> && !std::is_const_v<T> && !std::is_volatile_v<T>;

/// std::complex, and anything else with its layout and accessors (thrust::complex), without including any of them.
template <class T, class Part>
concept TensorComplex = requires(const T& number) {
  requires std::is_same_v<typename T::value_type, Part>;
  requires sizeof(T) == 2 * sizeof(Part);
  number.real();
  number.imag();
};
}  // namespace detail

template <>
struct DataTypeOf<bool> : detail::DataTypeConstant<DataType::BOOL> {};
template <>
struct DataTypeOf<float16> : detail::DataTypeConstant<DataType::FP16> {};
template <>
struct DataTypeOf<bfloat16> : detail::DataTypeConstant<DataType::BF16> {};
template <>
struct DataTypeOf<float> : detail::DataTypeConstant<DataType::FP32> {};
template <>
struct DataTypeOf<double> : detail::DataTypeConstant<DataType::FP64> {};
template <detail::TensorInteger T>
  requires(std::is_signed_v<T> && sizeof(T) == 1)
struct DataTypeOf<T> : detail::DataTypeConstant<DataType::INT8> {};
template <detail::TensorInteger T>
  requires(std::is_signed_v<T> && sizeof(T) == 2)
struct DataTypeOf<T> : detail::DataTypeConstant<DataType::INT16> {};
template <detail::TensorInteger T>
  requires(std::is_signed_v<T> && sizeof(T) == 4)
struct DataTypeOf<T> : detail::DataTypeConstant<DataType::INT32> {};
template <detail::TensorInteger T>
  requires(std::is_signed_v<T> && sizeof(T) == 8)
struct DataTypeOf<T> : detail::DataTypeConstant<DataType::INT64> {};
template <detail::TensorInteger T>
  requires(std::is_unsigned_v<T> && sizeof(T) == 1)
struct DataTypeOf<T> : detail::DataTypeConstant<DataType::UINT8> {};
template <detail::TensorInteger T>
  requires(std::is_unsigned_v<T> && sizeof(T) == 4)
struct DataTypeOf<T> : detail::DataTypeConstant<DataType::UINT32> {};
template <detail::TensorInteger T>
  requires(std::is_unsigned_v<T> && sizeof(T) == 8)
struct DataTypeOf<T> : detail::DataTypeConstant<DataType::UINT64> {};
template <class T>
  requires detail::TensorComplex<T, float>
struct DataTypeOf<T> : detail::DataTypeConstant<DataType::COMPLEX64> {
};
template <class T>
  requires detail::TensorComplex<T, double>
struct DataTypeOf<T> : detail::DataTypeConstant<DataType::COMPLEX128> {
};

/// Whether elements of type T, const or not, have a DataType.
template <class T>
inline constexpr bool has_data_type_v = requires {
  DataTypeOf<std::remove_cv_t<T>>::value;
};

namespace detail {
template <class T>
LOD_TAGGED constexpr DataType checked_data_type() noexcept {
  static_assert(has_data_type_v<T>,
                "lod::data_type_v: this type has no DataType; there are bool, the signed integers of 8 to 64 bits, the "
                "unsigned integers of 8, 32 and 64 bits, lod::float16, lod::bfloat16, float, double, "
                "std::complex<float> and std::complex<double>");
  return DataTypeOf<std::remove_cv_t<T>>::value;
}
}  // namespace detail

/// The DataType of elements of type T, const or not. A type that has none is a compile error that lists those that do.
template <class T>
inline constexpr DataType data_type_v = detail::checked_data_type<T>();

}  // namespace lod::inline LOD_INTERFACE
