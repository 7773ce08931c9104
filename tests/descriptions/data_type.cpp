// SPDX-License-Identifier: Apache-2.0
#include <lod/desc.hpp>

#include <doctest/doctest.h>

#include <complex>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>

using lod::data_type_v;
using lod::DataType;
using lod::has_data_type_v;
using lod::VarType;

namespace {

struct Row {
  DataType type;
  std::int32_t number;
  std::size_t size;
  const char* name;
};

constexpr Row table[] = {{DataType::BOOL, 0, 1, "BOOL"},
                         {DataType::INT16, 1, 2, "INT16"},
                         {DataType::INT32, 2, 4, "INT32"},
                         {DataType::INT64, 3, 8, "INT64"},
                         {DataType::FP16, 4, 2, "FP16"},
                         {DataType::FP32, 5, 4, "FP32"},
                         {DataType::FP64, 6, 8, "FP64"},
                         {DataType::SIZE_T, 19, 8, "SIZE_T"},
                         {DataType::UINT8, 20, 1, "UINT8"},
                         {DataType::INT8, 21, 1, "INT8"},
                         {DataType::BF16, 22, 2, "BF16"},
                         {DataType::COMPLEX64, 23, 8, "COMPLEX64"},
                         {DataType::COMPLEX128, 24, 16, "COMPLEX128"},
                         {DataType::FP8_E4M3FN, 32, 1, "FP8_E4M3FN"},
                         {DataType::FP8_E5M2, 33, 1, "FP8_E5M2"},
                         {DataType::UINT32, 37, 4, "UINT32"},
                         {DataType::UINT64, 38, 8, "UINT64"}};

/// A 4-byte type of a user's own, with the layout of float.
struct Celsius {
  float degrees;
};

enum Color { RED };

template <class T, DataType expected>
constexpr bool has_type() {
  static_assert(data_type_v<T> == expected);
  static_assert(data_type_v<const T> == expected);
  static_assert(has_data_type_v<T> && has_data_type_v<const T>);
  static_assert(lod::size_of(expected) == sizeof(T));
  return true;
}

}  // namespace

template <>
struct lod::DataTypeOf<Celsius> {
  static constexpr DataType value = DataType::FP32;
};

TEST_CASE("DataType: numbers, sizes and names of all, and of nothing else") {
  std::size_t found = 0;
  for (std::int32_t number = -100; number <= 1000; ++number) {
    CAPTURE(number);
    const auto type = static_cast<DataType>(number);
    const Row* row = nullptr;
    for (const Row& candidate : table) {
      if (candidate.number == number) row = &candidate;
    }
    CHECK(lod::is_pod(number) == (row != nullptr));
    CHECK(lod::is_pod(type) == (row != nullptr));
    CHECK(lod::size_of(type) == (row ? row->size : 0));
    CHECK(lod::to_string(type) == std::string(row ? row->name : "?"));
    if (row) {
      ++found;
      CHECK(row->type == type);
      CHECK(lod::to_string(static_cast<VarType::Type>(number)) == std::string(row->name));
    }
  }
  CHECK(found == std::size(table));
}

TEST_CASE("data_type_v: of the C++ types") {
  CHECK(has_type<bool, DataType::BOOL>());
  CHECK(has_type<std::int8_t, DataType::INT8>());
  CHECK(has_type<std::int16_t, DataType::INT16>());
  CHECK(has_type<std::int32_t, DataType::INT32>());
  CHECK(has_type<std::int64_t, DataType::INT64>());
  CHECK(has_type<std::uint8_t, DataType::UINT8>());
  CHECK(has_type<std::uint32_t, DataType::UINT32>());
  CHECK(has_type<std::uint64_t, DataType::UINT64>());
  CHECK(has_type<std::size_t, DataType::UINT64>());
  CHECK(has_type<lod::float16, DataType::FP16>());
  CHECK(has_type<lod::bfloat16, DataType::BF16>());
  CHECK(has_type<float, DataType::FP32>());
  CHECK(has_type<double, DataType::FP64>());
  CHECK(has_type<std::complex<float>, DataType::COMPLEX64>());
  CHECK(has_type<std::complex<double>, DataType::COMPLEX128>());
  // Those that are another type of the same size.
  CHECK(has_type<long long, DataType::INT64>());
  CHECK(has_type<unsigned long long, DataType::UINT64>());
  CHECK(has_type<Celsius, DataType::FP32>());
}

TEST_CASE("data_type_v: types that have none") {
  CHECK(!has_data_type_v<char>);
  CHECK(!has_data_type_v<wchar_t>);
  CHECK(!has_data_type_v<char8_t>);
  CHECK(!has_data_type_v<char16_t>);
  CHECK(!has_data_type_v<char32_t>);
  CHECK(!has_data_type_v<std::uint16_t>);
  CHECK(!has_data_type_v<long double>);
  CHECK(!has_data_type_v<std::complex<long double>>);
  CHECK(!has_data_type_v<std::string>);
  CHECK(!has_data_type_v<void*>);
  CHECK(!has_data_type_v<Color>);
  CHECK(!has_data_type_v<float&>);
  CHECK(!has_data_type_v<void>);
}

TEST_CASE("DataType: no kind of a variable becomes one without a cast") {
  CHECK(!std::is_convertible_v<VarType::Type, DataType>);
  CHECK(!std::is_convertible_v<std::int32_t, DataType>);
  CHECK(!std::is_assignable_v<DataType&, VarType::Type>);
  CHECK(!lod::is_pod(VarType::LOD_TENSOR));
  CHECK(!lod::is_pod(VarType::STRING));
  CHECK(lod::is_pod(VarType::UINT8));
}
