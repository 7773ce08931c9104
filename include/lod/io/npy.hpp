// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup files
/// NumPy's file of one array, `.npy`, which `numpy.save` writes and `numpy.load` reads.
///
/// A plain tensor is an array of the same shape; scalar rows are an array of one dimension. An array without dimensions
/// is read as one scalar row. An `.npy` has no room for levels: <lod/io/npz.hpp> keeps them.
///
/// | DataType | dtype | DataType | dtype | DataType | dtype |
/// |---|---|---|---|---|---|
/// | BOOL | `b1`, `?` | INT64 | `i8` | FP16 | `f2` |
/// | INT8 | `i1` | UINT8 | `u1` | FP32 | `f4` |
/// | INT16 | `i2` | UINT32 | `u4` | FP64 | `f8` |
/// | INT32 | `i4` | UINT64, SIZE_T | `u8` | COMPLEX64, COMPLEX128 | `c8`, `c16` |
///
/// Other dtypes (pickled objects, fields, text, dates, `u2`) are rejected by name. BF16 and the FP8 types cannot be
/// written: NumPy has no dtype for them.
#pragma once

#include <lod/any_tensor.hpp>
#include <lod/data_type.hpp>
#include <lod/device.hpp>
#include <lod/error.hpp>
#include <lod/io/atomic_file.hpp>
#include <lod/io/input.hpp>
#include <lod/io/stored_values.hpp>
#include <lod/io/system_file.hpp>
#include <lod/lod_index.hpp>
#include <lod/lod_tensor.hpp>
#include <lod/lod_view.hpp>
#include <lod/shape.hpp>

#include <algorithm>
#include <bit>
#include <charconv>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace lod {

namespace detail {

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

/// The values of a tensor as bytes, borrowed, and what is needed to write them.
struct PlainValues {
  DataType data_type;
  Shape shape;
  std::span<const std::byte> bytes;
};
inline PlainValues plain_values(const AnyLoDTensor& x) { return {x.data_type(), x.shape(), x.bytes()}; }
template <LoDTensorLike X>
  requires(std::same_as<typename X::device, Cpu>)
PlainValues plain_values(const X& x) {
  const auto view = x.view();
  return {data_type_v<typename X::value_type>, view.shape(), std::as_bytes(view.values())};
}

/// Everything before the values, byte for byte as NumPy writes it: version 1.0, row-major, room for the first dimension
/// to grow to 21 digits, and padded with spaces so that the values begin at a multiple of 64. Throws
/// std::invalid_argument for a type that NumPy does not have.
inline std::string npy_header(DataType data_type, const Shape& shape) {
  const auto* const type = std::find_if(std::begin(npy_types), std::end(npy_types),
                                        [&](const NpyType& known) { return known.data_type == data_type; });
  if (type == std::end(npy_types)) {
    throw std::invalid_argument(text({"npy: NumPy has no dtype for ", to_string(data_type)}));
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

/// The values of a tensor for an .npy. Throws std::invalid_argument for a tensor with levels, and for a bool that is
/// neither 0 nor 1.
template <class X>
PlainValues values_for_npy(const X& x) {
  if (x.levels() > 0) {
    throw std::invalid_argument(
        text({"npy: a tensor with ", x.levels(), " levels; an .npz keeps them, with_lod(LoD()) drops them"}));
  }
  PlainValues values = plain_values(x);
  check_stored_values(values.data_type, values.bytes, "npy");
  return values;
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

/// The values, in memory that allocate() returns once it is certain that there are as many.
template <class Allocate>
AnyLoDTensor read_npy_values(Input& bytes, std::uint64_t size, const Allocate& allocate) {
  bytes.expect(size, "npy: the values");
  AnyLoDTensor values = allocate();
  bytes.read(values.mutable_bytes().data(), static_cast<std::size_t>(size));
  return values;
}

/// Reverses the bytes of every number.
template <class Word>
void swap_byte_order(std::span<std::byte> bytes) noexcept {
  for (std::size_t at = 0; at < bytes.size(); at += sizeof(Word)) {
    Word word;
    std::memcpy(&word, bytes.data() + at, sizeof(Word));
    if constexpr (sizeof(Word) == 2) word = __builtin_bswap16(word);
    if constexpr (sizeof(Word) == 4) word = __builtin_bswap32(word);
    if constexpr (sizeof(Word) == 8) word = __builtin_bswap64(word);
    std::memcpy(bytes.data() + at, &word, sizeof(Word));
  }
}
inline void swap_byte_order(DataType data_type, std::span<std::byte> bytes) noexcept {
  const bool is_complex = data_type == DataType::COMPLEX64 || data_type == DataType::COMPLEX128;
  switch (is_complex ? size_of(data_type) / 2 : size_of(data_type)) {
    case 2:
      return swap_byte_order<std::uint16_t>(bytes);
    case 4:
      return swap_byte_order<std::uint32_t>(bytes);
    case 8:
      return swap_byte_order<std::uint64_t>(bytes);
    default:
      return;
  }
}

/// Copies elements of `Size` bytes whose first dimension varies fastest so that the last one does. At least two
/// dimensions, none of them 0.
template <std::size_t Size>
void copy_from_fortran_order(const std::byte* from, std::byte* to, const Shape& shape) noexcept {
  // For each index of the dimensions in between, a matrix is transposed: in squares, so that neither the reads nor the
  // writes touch more cache lines than the cache holds.
  constexpr std::int64_t side = 32;
  const std::int64_t first = shape.front(), last = shape.back();
  const std::int64_t first_stride = shape.elements() / first, last_stride = shape.elements() / last;
  for (std::int64_t between = 0; between < last_stride / first; ++between) {
    const std::byte* const source = from + between * first * static_cast<std::int64_t>(Size);
    std::int64_t offset = 0, stride = first_stride, rest = between;
    for (std::size_t dim = 1; dim + 1 < shape.size(); ++dim) {
      stride /= shape[dim];
      offset += rest % shape[dim] * stride;
      rest /= shape[dim];
    }
    std::byte* const target = to + offset * static_cast<std::int64_t>(Size);
    for (std::int64_t i = 0; i < first; i += side) {
      for (std::int64_t j = 0; j < last; j += side) {
        for (std::int64_t row = i; row < std::min(first, i + side); ++row) {
          for (std::int64_t column = j; column < std::min(last, j + side); ++column) {
            std::memcpy(target + (row * first_stride + column) * static_cast<std::int64_t>(Size),
                        source + (row + column * last_stride) * static_cast<std::int64_t>(Size), Size);
          }
        }
      }
    }
  }
}
inline void copy_from_fortran_order(std::size_t size, const std::byte* from, std::byte* to, const Shape& shape) {
  if (shape.elements() == 0) return;
  switch (size) {
    case 1:
      return copy_from_fortran_order<1>(from, to, shape);
    case 2:
      return copy_from_fortran_order<2>(from, to, shape);
    case 4:
      return copy_from_fortran_order<4>(from, to, shape);
    case 8:
      return copy_from_fortran_order<8>(from, to, shape);
    default:
      return copy_from_fortran_order<16>(from, to, shape);
  }
}

/// Reads the next array.
template <class Bytes>
AnyLoDTensor read_npy(Bytes& bytes) {
  const NpyHeader header = read_npy_header(bytes);
  const std::size_t element_size = size_of(header.data_type);
  std::uint64_t size = 0;
  if (__builtin_mul_overflow(static_cast<std::uint64_t>(header.shape.elements()), element_size, &size)) {
    size = std::numeric_limits<std::uint64_t>::max();  // more than there can be
  }
  const auto allocate = [&] {
    const std::int64_t rows = header.shape.empty() ? 1 : header.shape.front();
    return AnyLoDTensor(header.data_type, LoD(), header.shape.without_first(), uninitialized, rows);
  };
  AnyLoDTensor values = read_npy_values(bytes, size, allocate);
  if (header.data_type == DataType::BOOL) {
    const std::size_t wrong = find_wrong_bool(values.bytes());
    if (wrong < values.bytes().size()) {
      const auto number = std::to_integer<unsigned>(values.bytes()[wrong]);
      bytes.fail({"npy: a bool that is ", number, ", expected 0 or 1"}, values.bytes().size() - wrong);
    }
  }
  if (header.swapped) swap_byte_order(header.data_type, values.mutable_bytes());
  if (!header.fortran_order || header.shape.size() < 2) return values;
  AnyLoDTensor transposed = allocate();
  copy_from_fortran_order(element_size, values.bytes().data(), transposed.mutable_bytes().data(), header.shape);
  return transposed;
}

/// Reads the only array. Throws ParseError if anything follows it.
inline AnyLoDTensor read_only_npy(Input& bytes) {
  AnyLoDTensor values = read_npy(bytes);
  const std::size_t left = bytes.left();
  if (left >= npy_magic.size() && bytes.peek(npy_magic.size()) == npy_magic) {
    bytes.fail({"npy: another array after this one, ", left,
                " bytes in all; decode_next_npy and load_npy_arrays read one after the other"});
  }
  if (left > 0) bytes.fail({"npy: ", left, " bytes after the values"});
  return values;
}

template <class X>
concept Plain = requires(const X& x) {
  plain_values(x);
};

}  // namespace detail

/// The bytes of an `.npy`, identical to those NumPy writes for a row-major array of these values: of a tensor, a view
/// or a slice in CPU memory, or an AnyLoDTensor. Throws std::invalid_argument for a tensor with levels, for an element
/// type that NumPy does not have, and for a bool that is neither 0 nor 1.
template <detail::Plain X>
std::string encode_npy(const X& x) {
  const detail::PlainValues values = detail::values_for_npy(x);
  std::string bytes = detail::npy_header(values.data_type, values.shape);
  if (!values.bytes.empty()) {
    bytes.append(reinterpret_cast<const char*>(values.bytes.data()), values.bytes.size());
  }
  return bytes;
}

/// Writes them to a file, which replaces the one at `path` once all of it is on the disk, as FileWriter of
/// <lod/io/file_writer.hpp> does: its access is kept, a symbolic link is replaced. Throws as above, and
/// std::system_error; the old file is then unchanged. Takes no memory for the values.
template <detail::Plain X>
void save_npy(const std::string& path, const X& x) {
  const detail::PlainValues values = detail::values_for_npy(x);
  const std::string header = detail::npy_header(values.data_type, values.shape);
  detail::AtomicFile file(path);
  file.write(header.data(), header.size());
  file.write(values.bytes.data(), values.bytes.size());
  file.commit();
}

/// The array in the bytes of an `.npy` of version 1.0, 2.0 or 3.0, as a plain tensor, row-major and in this machine's
/// byte order. An array in Fortran order has the same shape and elements as in NumPy; this takes one more copy. Throws
/// ParseError: for anything but an `.npy`, for a dtype without a DataType, for more than Shape::max_rank dimensions,
/// for a bool that is neither 0 nor 1, and unless the values end where the bytes do (`decode_next_npy` reads several
/// arrays). Memory is taken only once the values are known to be there.
inline AnyLoDTensor decode_npy(std::string_view bytes) {
  detail::Input input(bytes);
  return detail::read_only_npy(input);
}
/// The same. Throws ShapeMismatch unless the elements are of type T.
template <class T>
LoDTensor<T> decode_npy(std::string_view bytes) {
  return decode_npy(bytes).take<T>();
}

/// The array at the beginning of `bytes`, which is removed from them: for several in a row, as `numpy.save` writes them
/// when it is called repeatedly for one open file. Throws ParseError as `decode_npy` does, also for no bytes, but not
/// for what follows the values; the typed form throws ShapeMismatch. `bytes` are then unchanged.
inline AnyLoDTensor decode_next_npy(std::string_view& bytes) {
  detail::Input input(bytes);
  AnyLoDTensor x = detail::read_npy(input);
  bytes.remove_prefix(input.position());
  return x;
}
template <class T>
LoDTensor<T> decode_next_npy(std::string_view& bytes) {
  std::string_view rest = bytes;
  LoDTensor<T> x = decode_next_npy(rest).take<T>();
  bytes = rest;
  return x;
}

/// All arrays of a file that has several in a row; most files have one. Throws as `load_npy`, also if there is none;
/// the position of an error is counted from the beginning of the file.
inline std::vector<AnyLoDTensor> load_npy_arrays(const std::string& path) {
  return detail::read_at(path, [&] {
    detail::Input input = detail::Input::open(path);
    std::vector<AnyLoDTensor> arrays;
    do {
      arrays.push_back(detail::read_npy(input));
    } while (input.left() > 0);
    return arrays;
  });
}

/// The array in a file. Throws as `decode_npy`, and std::system_error if the file cannot be read. Errors name the file.
inline AnyLoDTensor load_npy(const std::string& path) {
  return detail::read_at(path, [&] {
    detail::Input input = detail::Input::open(path);
    return detail::read_only_npy(input);
  });
}
/// The same. Throws ShapeMismatch unless the elements are of type T.
template <class T>
LoDTensor<T> load_npy(const std::string& path) {
  AnyLoDTensor x = load_npy(path);
  detail::check_element_type<T>(x.data_type(), detail::text({"'", path, "'"}).c_str());
  return std::move(x).take<T>();
}

}  // namespace lod
