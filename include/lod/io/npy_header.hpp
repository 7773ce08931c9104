// SPDX-License-Identifier: Apache-2.0
/// @file
/// What precedes the values in an `.npy`: the magic, the version, and a Python dictionary with dtype, order and
/// shape.
#pragma once

#include <lod/core/data_type.hpp>
#include <lod/core/error.hpp>
#include <lod/core/shape.hpp>
#include <lod/core/target.hpp>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace lod::inline LOD_INTERFACE::detail::inline LOD_TARGET {

struct NpyType {
  std::string_view name;  // without the byte-order character
  DataType data_type;
};
/// The first name of a type is the one that is written; the first type of a name is the one that is read.
inline constexpr NpyType npy_types[] = {
    {"b1", DataType::BOOL},   {"?", DataType::BOOL},       {"i1", DataType::INT8},        {"i2", DataType::INT16},
    {"i4", DataType::INT32},  {"i8", DataType::INT64},     {"u1", DataType::UINT8},       {"u4", DataType::UINT32},
    {"u8", DataType::UINT64}, {"u8", DataType::SIZE_T},    {"f2", DataType::FP16},        {"f4", DataType::FP32},
    {"f8", DataType::FP64},   {"c8", DataType::COMPLEX64}, {"c16", DataType::COMPLEX128},
};

inline constexpr std::string_view npy_magic = "\x93NUMPY";

/// Everything before the values, byte for byte as NumPy writes it: version 1.0, row-major, room for the first dimension
/// to grow to 21 digits, and padded with spaces so that the values begin at a multiple of 64. Throws
/// std::invalid_argument for a type that NumPy does not have, with a text that begins with `place`.
inline std::string npy_header(DataType data_type, const Shape& shape, const std::string& place = "npy") {
  const auto* const type = std::find_if(std::begin(npy_types), std::end(npy_types),
                                        [&](const NpyType& known) { return known.data_type == data_type; });
  if (type == std::end(npy_types)) {
    throw std::invalid_argument(text({place, ": NumPy has no dtype for ", to_string(data_type)}));
  }
  const bool is_little = std::endian::native == std::endian::little;
  const char* const order = size_of(data_type) == 1 ? "|" : is_little ? "<" : ">";
  std::string dims;
  for (const std::int64_t dim : shape) dims += text({dims.empty() ? "" : " ", dim, ","});
  if (shape.size() > 1) dims.pop_back();  // as Python writes tuples: (3,) but (3, 4)
  std::string dictionary =
      text({"{'descr': '", order, std::string(type->name), "', 'fortran_order': False, 'shape': (", dims, "), }"});

  constexpr std::size_t alignment = 64, digits_of_growth = 21, prefix = 10;
  if (!shape.empty()) dictionary.append(digits_of_growth - std::to_string(shape.front()).size(), ' ');
  dictionary.append(alignment - (prefix + dictionary.size() + 1) % alignment, ' ');
  dictionary += '\n';
  std::string header(npy_magic);
  header += {'\1', '\0', static_cast<char>(dictionary.size() & 0xff), static_cast<char>(dictionary.size() >> 8)};
  return header + dictionary;
}

/// The header before the values.
struct NpyHeader {
  DataType data_type = DataType::FP32;
  bool swapped = false;        // numbers are in the byte order opposite to this machine's
  bool fortran_order = false;  // the first dimension varies fastest
  Shape shape = {};
};

/// Reads the dictionary of a header, a Python literal with three keys. `Bytes` is the source it was taken from as a
/// whole: as with Input, errors give a position counted back from the source's own.
template <class Bytes>
class NpyDictionary {
 public:
  NpyDictionary(const Bytes& bytes, std::string_view dictionary) noexcept : bytes_(bytes), rest_(dictionary) {}

  NpyHeader read() {
    NpyHeader header;
    bool has_descr = false, has_order = false, has_shape = false;
    expect('{');
    bool more = true;
    while (!skip('}')) {
      if (!more) fail("',' or '}' expected");
      const std::size_t ago = rest_.size();
      const std::string_view key = quoted();
      expect(':');
      bool* const seen = key == "descr"           ? &has_descr
                         : key == "fortran_order" ? &has_order
                         : key == "shape"         ? &has_shape
                                                  : nullptr;
      if (!seen) bytes_.fail({"npy: key '", excerpt(key), "', expected 'descr', 'fortran_order' and 'shape'"}, ago);
      if (*seen) bytes_.fail({"npy: key '", excerpt(key), "' twice"}, ago);
      *seen = true;
      if (seen == &has_descr) read_dtype(header);
      if (seen == &has_order) header.fortran_order = read_bool();
      if (seen == &has_shape) header.shape = read_shape();
      more = skip(',');
    }
    skip_spaces();
    if (!rest_.empty()) fail("something after the dictionary");
    if (!has_descr || !has_order || !has_shape) {
      fail(has_descr ? has_order ? "no 'shape'" : "no 'fortran_order'" : "no 'descr'");
    }
    return header;
  }

 private:
  [[noreturn, gnu::cold, gnu::noinline]] void fail(const char* what) const {
    bytes_.fail({"npy: ", what}, rest_.size());
  }
  void skip_spaces() noexcept { rest_.remove_prefix(std::min(rest_.find_first_not_of(" \t\r\n"), rest_.size())); }
  bool skip(char expected) noexcept {
    skip_spaces();
    if (!rest_.starts_with(expected)) return false;
    rest_.remove_prefix(1);
    return true;
  }
  void expect(char expected) {
    if (!skip(expected)) bytes_.fail({"npy: '", std::string(1, expected), "' expected"}, rest_.size());
  }
  /// As much of an outside text as an error may repeat.
  static std::string excerpt(std::string_view text) {
    constexpr std::size_t longest = 40;
    std::string shown(text.substr(0, longest));
    for (char& letter : shown) {
      if (letter < ' ' || letter > '~') letter = '?';
    }
    return text.size() > longest ? shown + "..." : shown;
  }

  /// The text between quotes, as written: the expected words contain nothing that needs escaping. Python 2 puts a u
  /// before Unicode strings.
  std::string_view quoted() {
    skip_spaces();
    const char* const prefixed[] = {"u'", "u\"", "U'", "U\""};
    if (std::any_of(std::begin(prefixed), std::end(prefixed), [&](auto begin) { return rest_.starts_with(begin); })) {
      rest_.remove_prefix(1);
    }
    const char quote = rest_.empty() ? '\0' : rest_.front();
    if (quote != '\'' && quote != '"') fail("a text in quotes expected");
    const std::size_t end = rest_.find(quote, 1);
    if (end == std::string_view::npos) fail("a text without its second quote");
    const std::string_view between = rest_.substr(1, end - 1);
    rest_.remove_prefix(end + 1);
    return between;
  }
  void read_dtype(NpyHeader& header) {
    skip_spaces();
    const std::size_t ago = rest_.size();
    if (rest_.starts_with('[') || rest_.starts_with('(')) {
      bytes_.fail({"npy: dtype ", excerpt(rest_), ": elements with fields cannot be read"}, ago);
    }
    const std::string_view dtype = quoted();
    const bool has_order = dtype.find_first_of("<>=|") == 0;
    const auto* const type = std::find_if(std::begin(npy_types), std::end(npy_types), [&](const NpyType& known) {
      return known.name == dtype.substr(has_order ? 1 : 0);
    });
    if (type == std::end(npy_types)) {
      bytes_.fail({"npy: dtype '", excerpt(dtype), "': elements of this type cannot be read"}, ago);
    }
    header.data_type = type->data_type;
    header.swapped = dtype.starts_with(std::endian::native == std::endian::little ? '>' : '<');
  }
  bool read_bool() {
    skip_spaces();
    const bool value = rest_.starts_with("True");
    if (!value && !rest_.starts_with("False")) fail("True or False expected");
    rest_.remove_prefix(value ? 4 : 5);
    return value;
  }
  Shape read_shape() {
    skip_spaces();
    const std::size_t ago = rest_.size();
    std::vector<std::int64_t> dims;
    expect('(');
    bool more = true;
    while (!skip(')')) {
      if (!more) fail("',' or ')' expected");
      dims.push_back(read_dim());
      more = skip(',');
    }
    if (dims.size() == 1 && !more) bytes_.fail({"npy: a shape that is a number, not a tuple"}, ago);
    try {
      return Shape(dims);
    } catch (const ShapeMismatch& mismatch) {
      bytes_.fail({"npy: ", mismatch.what()}, ago);
    }
  }
  std::int64_t read_dim() {
    skip_spaces();
    std::int64_t dim = 0;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), dim);
    if (error == std::errc::result_out_of_range) fail("a dimension of more than 64 bits");
    if (error != std::errc() || dim < 0) fail("a dimension expected: a number from 0 on");
    rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
    if (rest_.starts_with('L')) rest_.remove_prefix(1);  // a Python 2 long
    return dim;
  }

  const Bytes& bytes_;
  std::string_view rest_;
};

template <class Bytes>
NpyHeader read_npy_header(Bytes& bytes) {
  bytes.expect(8, "npy: the magic and the version");
  const std::string_view begin = bytes.take(8);
  if (!begin.starts_with(npy_magic)) bytes.fail({"npy: no .npy, which begins with the byte 93 and NUMPY"}, 8);
  const auto major = static_cast<unsigned char>(begin[6]), minor = static_cast<unsigned char>(begin[7]);
  if (major < 1 || major > 3 || minor != 0) {
    bytes.fail({"npy: version ", major, ".", minor, ", expected 1.0, 2.0 or 3.0"}, 2);
  }
  const std::size_t length_size = major == 1 ? 2 : 4;
  bytes.expect(length_size, "npy: the size of the dictionary");
  std::uint32_t length = 0;
  const std::string_view digits = bytes.take(length_size);
  for (std::size_t i = 0; i < length_size; ++i) {
    length |= std::uint32_t{static_cast<unsigned char>(digits[i])} << (8 * i);
  }
  // Only many fields need more, and those cannot be read anyway.
  constexpr std::uint32_t longest = 0xffff;
  if (length > longest) {
    bytes.fail({"npy: a dictionary of ", length, " bytes, expected ", longest, " at most"}, length_size);
  }
  bytes.expect(length, "npy: the dictionary");
  const std::string_view dictionary = bytes.take(length);
  return NpyDictionary<Bytes>(bytes, dictionary).read();
}

}  // namespace lod::inline LOD_INTERFACE::detail::inline LOD_TARGET
