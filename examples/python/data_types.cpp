// SPDX-License-Identifier: Apache-2.0
#include "data_types.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

namespace py = pybind11;

namespace lod_python {

namespace {

using enum lod::DataType;

struct Names {
  lod::DataType type;
  const char* numpy;
  const char* buffer;
  /// What the codes of the buffer protocol are that stand for such numbers, of one size or another.
  std::string_view codes;
};

constexpr bool long_is_64_bits = std::is_same_v<std::int64_t, long>;
constexpr std::string_view signed_codes = "bhilqn", unsigned_codes = "BHILQN", floating_codes = "efd";

constexpr std::array<Names, 14> names{{
    {BOOL, "bool", "?", "?"},
    {INT8, "int8", "b", signed_codes},
    {INT16, "int16", "h", signed_codes},
    {INT32, "int32", "i", signed_codes},
    {INT64, "int64", long_is_64_bits ? "l" : "q", signed_codes},
    {UINT8, "uint8", "B", unsigned_codes},
    {UINT32, "uint32", "I", unsigned_codes},
    {UINT64, "uint64", long_is_64_bits ? "L" : "Q", unsigned_codes},
    {SIZE_T, "uint64", long_is_64_bits ? "L" : "Q", ""},
    {FP16, "float16", "e", floating_codes},
    {FP32, "float32", "f", floating_codes},
    {FP64, "float64", "d", floating_codes},
    {COMPLEX64, "complex64", "Zf", ""},
    {COMPLEX128, "complex128", "Zd", ""},
}};

const Names* names_of(lod::DataType type) noexcept {
  const auto* const found = std::ranges::find(names, type, &Names::type);
  return found == names.end() ? nullptr : found;
}

}  // namespace

const char* buffer_format(lod::DataType type) noexcept {
  const Names* const found = names_of(type);
  return found ? found->buffer : nullptr;
}

lod::DataType data_type_of_buffer(const Py_buffer& buffer) {
  const std::string_view given = buffer.format ? buffer.format : "B";
  std::string_view code = given;
  constexpr char native = std::endian::native == std::endian::little ? '<' : '>';
  if (!code.empty() && (code[0] == '@' || code[0] == '=' || code[0] == native)) code.remove_prefix(1);
  for (const Names& known : names) {
    const bool same_kind =
        code.size() == 1 ? known.codes.find(code[0]) != std::string_view::npos : code == known.buffer;
    if (same_kind && lod::size_of(known.type) == static_cast<std::size_t>(buffer.itemsize)) return known.type;
  }
  throw py::type_error("items of the format '" + std::string(given) + "', for which there is no DataType");
}

lod::DataType to_data_type(py::handle type) {
  if (py::isinstance<lod::DataType>(type)) return type.cast<lod::DataType>();
  const auto name = py::module_::import("numpy").attr("dtype")(type).attr("name").cast<std::string>();
  for (const Names& known : names) {
    if (name == known.numpy) return known.type;
  }
  throw py::type_error("there is no DataType for the dtype " + name);
}

py::object to_dtype(lod::DataType type) {
  const Names* const found = names_of(type);
  if (!found) throw py::type_error(std::string("NumPy has no dtype for ") + lod::to_string(type));
  return py::module_::import("numpy").attr("dtype")(found->numpy);
}

void bind_data_types(py::module_& module) {
  py::enum_<lod::DataType> type(module, "DataType", "The types of the elements of a tensor.");
  for (const lod::DataType known : {BOOL, INT16, INT32, INT64, FP16, FP32, FP64, SIZE_T, UINT8, INT8, BF16, COMPLEX64,
                                    COMPLEX128, FP8_E4M3FN, FP8_E5M2, UINT32, UINT64}) {
    type.value(lod::to_string(known), known);
  }
  type.export_values();
  type.def_property_readonly("dtype", &to_dtype, "The same as NumPy names it.");
}

}  // namespace lod_python
