// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup descriptions
/// The bytes in which PaddlePaddle saves a tensor or selected rows; <lod/io/paddle.hpp> reads and writes its files.
///
/// Numbers are little-endian. Nothing in the bytes identifies them: neither a magic number at their beginning nor a
/// checksum.
///
/// | a tensor | |
/// |---|---|
/// | u32 | version, 0 |
/// | u64 | number of levels |
/// | for each level: u64, u64... | its size in bytes, its offsets |
/// | u32 | version, 0 |
/// | i32 | size of the description |
/// | | a TensorDesc |
/// | | the values, row-major |
///
/// | selected rows | |
/// |---|---|
/// | u32 | version, 0 |
/// | u64, i64... | number of ids, the ids |
/// | i64 | height |
/// | u32 | version, 0 |
/// | i32 | size of the description |
/// | | a TensorDesc of the value: dim 0 is the number of ids |
/// | | the values, row-major |
///
/// Older versions wrote the same parts in other orders, under the same version number. From October to December 2017
/// the levels of a tensor were its last part, with one version word for all; from December 2017 to February 2018 the
/// value of selected rows was a whole tensor. Readers accept all of these and tell them apart by the fifth byte after a
/// version word. It is either the first byte of a TensorDesc, a tag, which is never 0, or a byte of the upper half of
/// the number of levels, which is always 0.
#pragma once

#include <lod/core/any_tensor.hpp>
#include <lod/core/desc.hpp>
#include <lod/core/error.hpp>
#include <lod/core/lod_index.hpp>
#include <lod/core/lod_tensor.hpp>
#include <lod/core/lod_view.hpp>
#include <lod/core/selected_rows.hpp>
#include <lod/core/shape.hpp>
#include <lod/core/target.hpp>
#include <lod/io/atomic_file.hpp>
#include <lod/io/input.hpp>
#include <lod/io/proto/desc.hpp>
#include <lod/io/stored_values.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lod::inline LOD_INTERFACE::paddle {

/// The orders of the parts of a tensor's bytes.
enum class Layout {
  CURRENT,  ///< since December 2017
  OF_2017,  ///< October to December 2017: the levels come last
};

}  // namespace lod::inline LOD_INTERFACE::paddle

namespace lod::inline LOD_INTERFACE::paddle::detail::inline LOD_TARGET {

using lod::detail::AtomicFile;
using lod::detail::Input;
using lod::detail::mismatch;
using lod::detail::text;

// ---- Reading: each function consumes its part of the input, and throws ParseError ----

inline void read_version(Input& in) {
  const auto version = in.number<std::uint32_t>("version");
  if (version != 0) in.fail({"version ", version, ", expected 0"}, sizeof(version));
}

/// Whether a description comes next, after a version word; otherwise the number of levels does.
inline bool description_is_next(Input& in) {
  constexpr std::size_t decisive = 5;
  return in.left() >= decisive && in.peek(decisive).back() != '\0';
}

inline LoD read_lod(Input& in) {
  const std::size_t begin = in.position();
  const auto levels = in.number<std::uint64_t>("number of levels");
  constexpr std::size_t least = 2 * sizeof(std::uint64_t);  // a size and one offset
  if (levels > in.left() / least) {
    in.fail({"number of levels: ", levels, ", but ", in.left(), " bytes are left"}, sizeof(levels));
  }
  if (levels > std::uint64_t{max_levels}) {
    in.fail({"number of levels: ", levels, ", expected ", max_levels, " at most"}, sizeof(levels));
  }
  if (levels == 0) return LoD();
  std::vector<std::vector<std::int64_t>> offsets(static_cast<std::size_t>(levels));
  std::vector<std::span<const std::int64_t>> spans;
  for (std::vector<std::int64_t>& level : offsets) {
    const auto size = in.number<std::uint64_t>("size of a level");
    if (size == 0 || size % sizeof(std::int64_t) != 0) {
      in.fail({"size of level ", spans.size(), ": ", size, " bytes, expected one or more numbers of 8"}, sizeof(size));
    }
    in.expect(size, "offsets of a level");
    level.resize(static_cast<std::size_t>(size) / sizeof(std::int64_t));
    in.read(level.data(), static_cast<std::size_t>(size));
    spans.emplace_back(level);
  }
  try {
    return LoD::from_offsets(spans);  // not wrapped: what a plugin has loaded outlives it, which an owner would not
  } catch (const InvalidLoD& error) {
    throw ParseError(error.what(), begin);
  }
}

/// The element type and the dimensions of the values that follow.
struct ValueDesc {
  DataType type;
  Shape shape;

  /// One scalar row if there is no dimension.
  std::int64_t rows() const noexcept { return shape.empty() ? 1 : shape.front(); }
};

/// Also throws if the description is not as `expected`, unless that is null.
inline ValueDesc read_description(Input& in, const TensorDesc* expected) {
  const auto size = in.number<std::int32_t>("size of the description");
  if (size < 0) in.fail({"size of the description: ", size, ", expected 0 or more"}, sizeof(size));
  const auto bytes = static_cast<std::size_t>(size);
  in.expect(bytes, "description");
  const std::size_t begin = in.position();
  try {
    const auto desc = decode<TensorDesc>(in.take(bytes));
    const std::string difference = expected ? mismatch(desc, *expected) : "";
    if (!difference.empty()) throw ParseError(difference, 0);
    return {desc.data_type, desc.dims};
  } catch (const ShapeMismatch& error) {
    throw ParseError(text({"description: ", error.what()}), begin);
  } catch (const ParseError& error) {
    throw error.inside("description", begin);
  }
}

inline void check_lod(const Input& in, const LoD& lod, const ValueDesc& desc) {
  if (lod.levels() == 0 || lod.rows() == desc.rows()) return;
  in.fail({"LoD: of ", lod.rows(), " rows, but dim 0 of the description is ", desc.rows()});
}

inline AnyLoDTensor read_values(Input& in, const ValueDesc& desc, LoD lod) {
  std::uint64_t bytes = 0;
  if (__builtin_mul_overflow(static_cast<std::uint64_t>(desc.shape.elements()), size_of(desc.type), &bytes)) {
    bytes = std::numeric_limits<std::uint64_t>::max();
  }
  in.expect(bytes, "values");
  AnyLoDTensor tensor(desc.type, std::move(lod), desc.shape.without_first(), uninitialized, desc.rows());
  const std::span<std::byte> values = tensor.mutable_bytes();
  in.read(values.data(), values.size());
  if (desc.type == DataType::BOOL) {  // in C++ no other value is a bool
    const std::size_t wrong = lod::detail::find_wrong_bool(values);
    if (wrong < values.size()) {
      const auto value = std::to_integer<unsigned>(values[wrong]);
      in.fail({"values: ", value, " is no BOOL, expected 0 or 1"}, values.size() - wrong);
    }
  }
  return tensor;
}

inline AnyLoDTensor read_tensor(Input& in, const TensorDesc* expected = nullptr) {
  read_version(in);
  if (description_is_next(in)) {
    const ValueDesc desc = read_description(in, expected);
    const AnyLoDTensor plain = read_values(in, desc, LoD());
    LoD lod = read_lod(in);
    check_lod(in, lod, desc);
    return plain.with_lod(std::move(lod));
  }
  LoD lod = read_lod(in);
  read_version(in);
  const ValueDesc desc = read_description(in, expected);
  check_lod(in, lod, desc);
  return read_values(in, desc, std::move(lod));
}

/// The beginning of selected rows, and where each number is.
struct RowIds {
  std::size_t count_at = 0;
  std::size_t ids_at = 0;
  std::size_t height_at = 0;
  std::vector<std::int64_t> ids = {};
  std::int64_t height = 0;

  /// The position of the number that AnySelectedRows rejects with `rows` rows of values; the end of the ids if there is
  /// none.
  std::size_t wrong_at(std::int64_t rows) const {
    if (rows != static_cast<std::int64_t>(ids.size())) return count_at;
    if (height < 0) return height_at;
    const auto is_outside = [this](std::int64_t id) { return id < 0 || id >= height; };
    const auto wrong = std::find_if(ids.begin(), ids.end(), is_outside);
    return ids_at + static_cast<std::size_t>(wrong - ids.begin()) * sizeof(std::int64_t);
  }
};

inline RowIds read_row_ids(Input& in) {
  RowIds rows{.count_at = in.position()};
  const auto count = in.number<std::uint64_t>("number of ids");
  if (count > in.left() / sizeof(std::int64_t)) {
    in.fail({"number of ids: ", count, ", but ", in.left(), " bytes are left"}, sizeof(count));
  }
  rows.ids_at = in.position();
  rows.ids.resize(static_cast<std::size_t>(count));
  in.read(rows.ids.data(), rows.ids.size() * sizeof(std::int64_t));
  rows.height_at = in.position();
  rows.height = in.number<std::int64_t>("height");
  return rows;
}

inline AnySelectedRows read_selected_rows(Input& in) {
  read_version(in);
  RowIds rows = read_row_ids(in);
  read_version(in);
  if (!description_is_next(in)) {
    const LoD lod = read_lod(in);
    if (lod.levels() > 0) in.fail({"number of levels: ", lod.levels(), ", expected 0 for selected rows"});
    read_version(in);
  }
  AnyLoDTensor value = read_values(in, read_description(in, nullptr), LoD());
  const std::size_t wrong_at = rows.wrong_at(value.rows());
  try {
    return AnySelectedRows(std::move(rows.ids), rows.height, std::move(value));
  } catch (const std::logic_error& error) {  // OutOfRange for an id, ShapeMismatch for numbers that do not agree
    throw ParseError(error.what(), wrong_at);
  }
}

/// Reads all of `in` by `read(in)`. Throws ParseError if bytes are left over.
template <class Read>
auto read_all(Input& in, const Read& read) {
  auto result = read(in);
  if (in.left() > 0) in.fail({in.left(), " bytes are left, expected the end"});
  return result;
}

// ---- Writing ----

/// The bytes of a stream: in two strings, and in the memory of the values.
struct Stream {
  std::string before;
  std::span<const std::byte> values;
  std::string after;

  /// Appends them to `out`, which is unchanged if this throws.
  void append_to(std::string& out) const {
    const std::size_t size = out.size() + before.size() + values.size() + after.size();
    if (size > out.capacity()) out.reserve(std::max(size, 2 * out.capacity()));
    out.append(before);
    if (!values.empty()) out.append(reinterpret_cast<const char*>(values.data()), values.size());
    out.append(after);
  }
  void write_to(AtomicFile& file) const {
    file.write(before.data(), before.size());
    file.write(values.data(), values.size());
    file.write(after.data(), after.size());
  }
};

template <class T>
void append_number(std::string& out, T number) {
  out.append(reinterpret_cast<const char*>(&number), sizeof(number));
}
inline constexpr std::uint32_t stream_version = 0;

inline void append_lod(std::string& out, const LoDView& lod) {
  append_number(out, static_cast<std::uint64_t>(lod.levels()));
  for (int level = 0; level < lod.levels(); ++level) {
    const std::span<const std::int64_t> offsets = lod.offsets(level);
    append_number(out, std::uint64_t{offsets.size_bytes()});
    for (const std::int64_t offset : offsets) append_number(out, offset - offsets[0]);
  }
}

inline void append_description(std::string& out, DataType type, const Shape& shape) {
  const std::string desc = encode(TensorDesc{type, {shape.begin(), shape.end()}});
  append_number(out, stream_version);
  append_number(out, static_cast<std::int32_t>(desc.size()));
  out += desc;
}

inline Stream stream_of(DataType type, const LoDView& lod, const Shape& shape, std::span<const std::byte> values,
                        Layout layout) {
  lod::detail::check_stored_values(type, values, "encode_tensor");
  Stream stream{.before = {}, .values = values, .after = {}};
  if (layout == Layout::OF_2017) {
    append_description(stream.before, type, shape);
    append_lod(stream.after, lod);
  } else {
    append_number(stream.before, stream_version);
    append_lod(stream.before, lod);
    append_description(stream.before, type, shape);
  }
  return stream;
}
inline Stream stream_of(const AnyLoDTensor& x, Layout layout) {
  return stream_of(x.data_type(), x.lod().view(), x.shape(), x.bytes(), layout);
}
template <class T>
Stream stream_of(const LoDTensorView<T, Cpu>& x, Layout layout) {
  return stream_of(data_type_v<T>, x.lod_view(), x.shape(), std::as_bytes(x.values()), layout);
}
template <class T>
Stream stream_of(const LoDTensor<T, Cpu>& x, Layout layout) {
  return stream_of(x.view(), layout);
}

inline Stream stream_of(std::span<const std::int64_t> ids, std::int64_t height, DataType type, const Shape& shape,
                        std::span<const std::byte> values) {
  lod::detail::check_stored_values(type, values, "encode_selected_rows");
  Stream stream{.before = {}, .values = values, .after = {}};
  append_number(stream.before, stream_version);
  append_number(stream.before, std::uint64_t{ids.size()});
  for (const std::int64_t id : ids) append_number(stream.before, id);
  append_number(stream.before, height);
  append_description(stream.before, type, shape);
  return stream;
}
inline Stream stream_of(const AnySelectedRows& x) {
  lod::detail::check_stored_rows(x, "SelectedRows");
  return stream_of(x.rows(), x.height(), x.value().data_type(), x.value().shape(), x.value().bytes());
}
template <class T>
Stream stream_of(const SelectedRows<T, Cpu>& x) {
  lod::detail::check_stored_rows(x, "SelectedRows");
  return stream_of(x.rows(), x.height(), data_type_v<T>, x.value().shape(), std::as_bytes(x.value().values()));
}

/// What can be encoded as a tensor: AnyLoDTensor, LoDTensor, its views and slices.
template <class X>
concept Tensor = requires(const X& x) {
  stream_of(x, Layout::CURRENT);
};
/// What can be encoded as selected rows: AnySelectedRows, SelectedRows.
template <class X>
concept Rows = requires(const X& x) {
  stream_of(x);
};

}  // namespace lod::inline LOD_INTERFACE::paddle::detail::inline LOD_TARGET

namespace lod::inline LOD_INTERFACE::paddle {

/// @{
/// The tensor at the beginning of `bytes`, in either layout, which is removed from them. A tensor without dimensions
/// has one scalar row, as everywhere in this library, and has shape {1} when it is written again.
///
/// Throws ParseError, and leaves `bytes` unchanged, if they end too early; for a version that is not 0, a LoD that is
/// invalid or has another number of rows, an invalid description, a negative dimension, more than Shape::max_rank
/// dimensions, and a BOOL that is neither 0 nor 1. The typed form throws ShapeMismatch for another element type. No
/// memory is taken for more values than there are bytes; they are copied once.
LOD_TAGGED inline AnyLoDTensor decode_tensor(std::string_view& bytes) {
  detail::Input in(bytes);
  AnyLoDTensor tensor = detail::read_tensor(in);
  bytes.remove_prefix(in.position());
  return tensor;
}
template <class T>
LOD_TAGGED LoDTensor<T> decode_tensor(std::string_view& bytes) {
  std::string_view rest = bytes;
  LoDTensor<T> tensor = decode_tensor(rest).take<T>();
  bytes = rest;
  return tensor;
}
/// @}

/// @{
/// The selected rows at the beginning of `bytes`, in any layout, which are removed from them. Throws as `decode_tensor`
/// does, also if the numbers of ids and rows differ, for ids outside the height, and if the value has a level.
LOD_TAGGED inline AnySelectedRows decode_selected_rows(std::string_view& bytes) {
  detail::Input in(bytes);
  AnySelectedRows rows = detail::read_selected_rows(in);
  bytes.remove_prefix(in.position());
  return rows;
}
template <class T>
LOD_TAGGED SelectedRows<T> decode_selected_rows(std::string_view& bytes) {
  std::string_view rest = bytes;
  SelectedRows<T> rows = decode_selected_rows(rest).take<T>();
  bytes = rest;
  return rows;
}
/// @}

/// @{
/// Appends the bytes of a tensor, or returns them: of an AnyLoDTensor, a LoDTensor or a view; a slice is written as a
/// copy of it would be. PaddlePaddle since December 2017 reads CURRENT only. Throws std::invalid_argument for a bool
/// that is neither 0 nor 1; `out` is then unchanged.
template <detail::Tensor X>
LOD_TAGGED void encode_tensor(const X& x, std::string& out, Layout layout = Layout::CURRENT) {
  detail::stream_of(x, layout).append_to(out);
}
template <detail::Tensor X>
LOD_TAGGED std::string encode_tensor(const X& x, Layout layout = Layout::CURRENT) {
  std::string out;
  encode_tensor(x, out, layout);
  return out;
}
/// @}

/// @{
/// Appends the bytes of selected rows, or returns them, in the layout used since February 2018: of AnySelectedRows or
/// SelectedRows. Throws ShapeMismatch unless there are as many rows of values as ids, and for values with a level,
/// std::invalid_argument for a bool that is neither 0 nor 1; `out` is then unchanged.
template <detail::Rows X>
LOD_TAGGED void encode_selected_rows(const X& x, std::string& out) {
  detail::stream_of(x).append_to(out);
}
template <detail::Rows X>
LOD_TAGGED std::string encode_selected_rows(const X& x) {
  std::string out;
  encode_selected_rows(x, out);
  return out;
}
/// @}

}  // namespace lod::inline LOD_INTERFACE::paddle
