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

#include <lod/core/any_tensor.hpp>
#include <lod/core/data_type.hpp>
#include <lod/core/device.hpp>
#include <lod/core/error.hpp>
#include <lod/core/lod_index.hpp>
#include <lod/core/lod_tensor.hpp>
#include <lod/core/lod_view.hpp>
#include <lod/core/shape.hpp>
#include <lod/core/target.hpp>
#include <lod/io/atomic_file.hpp>
#include <lod/io/input.hpp>
#include <lod/io/npy_header.hpp>
#include <lod/io/stored_values.hpp>
#include <lod/io/system_file.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace lod::inline LOD_INTERFACE {

namespace detail::inline LOD_TARGET {

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

}  // namespace detail::inline LOD_TARGET

/// The bytes of an `.npy`, identical to those NumPy writes for a row-major array of these values: of a tensor, a view
/// or a slice in CPU memory, or an AnyLoDTensor. Throws std::invalid_argument for a tensor with levels, for an element
/// type that NumPy does not have, and for a bool that is neither 0 nor 1.
template <detail::Plain X>
LOD_TAGGED std::string encode_npy(const X& x) {
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
LOD_TAGGED void save_npy(const std::string& path, const X& x) {
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
LOD_TAGGED inline AnyLoDTensor decode_npy(std::string_view bytes) {
  detail::Input input(bytes);
  return detail::read_only_npy(input);
}
/// The same. Throws ShapeMismatch unless the elements are of type T.
template <class T>
LOD_TAGGED LoDTensor<T> decode_npy(std::string_view bytes) {
  return decode_npy(bytes).take<T>();
}

/// The array at the beginning of `bytes`, which is removed from them: for several in a row, as `numpy.save` writes them
/// when it is called repeatedly for one open file. Throws ParseError as `decode_npy` does, also for no bytes, but not
/// for what follows the values; the typed form throws ShapeMismatch. `bytes` are then unchanged.
LOD_TAGGED inline AnyLoDTensor decode_next_npy(std::string_view& bytes) {
  detail::Input input(bytes);
  AnyLoDTensor x = detail::read_npy(input);
  bytes.remove_prefix(input.position());
  return x;
}
template <class T>
LOD_TAGGED LoDTensor<T> decode_next_npy(std::string_view& bytes) {
  std::string_view rest = bytes;
  LoDTensor<T> x = decode_next_npy(rest).take<T>();
  bytes = rest;
  return x;
}

/// All arrays of a file that has several in a row; most files have one. Throws as `load_npy`, also if there is none;
/// the position of an error is counted from the beginning of the file.
LOD_TAGGED inline std::vector<AnyLoDTensor> load_npy_arrays(const std::string& path) {
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
LOD_TAGGED inline AnyLoDTensor load_npy(const std::string& path) {
  return detail::read_at(path, [&] {
    detail::Input input = detail::Input::open(path);
    return detail::read_only_npy(input);
  });
}
/// The same. Throws ShapeMismatch unless the elements are of type T.
template <class T>
LOD_TAGGED LoDTensor<T> load_npy(const std::string& path) {
  AnyLoDTensor x = load_npy(path);
  detail::check_element_type<T>(x.data_type(), detail::text({"'", path, "'"}).c_str());
  return std::move(x).take<T>();
}

}  // namespace lod::inline LOD_INTERFACE
