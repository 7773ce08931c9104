// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup files
/// The layout of the library's own files, byte by byte. All numbers are little-endian.
///
///     where             bytes  what
///     0                 64     preamble:
///                                0   8   magic: 89 4c 4f 44 0d 0a 1a 0a
///                                8   4   version of the format: 1
///                                12  52  zeros
///     64                       buffers, each at a multiple of 64, with zeros before it where it would not begin there
///     end - 24 - size   size   footer: a message Footer of proto/file.proto
///     end - 24          24     trailer:
///                                0   8   size of the footer
///                                8   8   checksum of the preamble, the footer, and the 8 bytes of its size, in this
///                                        order
///                                16  8   magic, as in the preamble
///
/// A checksum is the 64-bit XXH3 hash of the bytes, without a seed. The footer says where each buffer is, how large it
/// is, and its checksum. It is at the end because only then all of this is known: a file of any size is written in one
/// pass, and a reader finds everything from the last 24 bytes on.
///
/// The buffers of a variable, in this order: for selected rows the ids; then for each tensor the offsets of each level,
/// outermost first, and the values. Offsets and ids are int64, values are row-major, and a bool is a byte, 0 or 1. Each
/// level is the offsets buffer of a large list in Apache Arrow's columnar format; its child is the next level, or the
/// values. Buffers do not overlap, and follow each other in the order in which the footer lists them.
///
/// Later versions keep the first 12 bytes and the last 8 in place. A reader rejects versions that it does not know;
/// additions that it may ignore become new fields of the footer, which older readers skip, without a new version.
#pragma once

#include <lod/core/buffer.hpp>
#include <lod/core/data_type.hpp>
#include <lod/core/desc.hpp>
#include <lod/core/error.hpp>
#include <lod/core/lod_index.hpp>
#include <lod/core/shape.hpp>
#include <lod/core/target.hpp>
#include <lod/io/checksum.hpp>
#include <lod/io/proto/desc.hpp>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

/// The messages of proto/file.proto, as structs with the same names.
namespace lod::inline LOD_INTERFACE::proto::file::inline LOD_TARGET {

/// A range of bytes of the file.
struct Buffer {
  std::uint64_t begin = 0;
  std::uint64_t size = 0;
  std::uint64_t checksum = 0;
  std::string unknown_fields = {};

  bool operator==(const Buffer&) const = default;
};

/// A tensor: its rows and row shape, and where its levels and values are.
struct Tensor {
  std::vector<std::int64_t> dims = {};
  std::vector<Buffer> offsets = {};
  Buffer values = {};
  std::string unknown_fields = {};

  bool operator==(const Tensor&) const = default;
};

/// A variable: one tensor, or those of an array.
struct Variable {
  VarDesc description = {};
  std::vector<Tensor> tensors = {};
  std::optional<Buffer> row_ids = {};
  std::string unknown_fields = {};

  bool operator==(const Variable&) const = default;
};

/// All variables. Each is left as the encoded bytes of a Variable, in memory of the caller's: a reader decodes one
/// at a time and stops at the first malformed one, before it has taken much more memory than the footer has bytes.
struct Footer {
  std::vector<std::string_view> variables = {};
  std::string unknown_fields = {};
};

}  // namespace lod::inline LOD_INTERFACE::proto::file::inline LOD_TARGET

namespace lod::inline LOD_INTERFACE::proto {

template <>
struct Schema<file::Buffer> {
  static constexpr const char* name = "Buffer";
  static constexpr std::tuple fields{
      Field<1, &file::Buffer::begin>{"begin"},
      Field<2, &file::Buffer::size>{"size"},
      Field<3, &file::Buffer::checksum>{"checksum"},
  };
};
template <>
struct Schema<file::Tensor> {
  static constexpr const char* name = "Tensor";
  static constexpr std::tuple fields{
      Field<1, &file::Tensor::dims, Packed::YES>{"dims"},
      Field<2, &file::Tensor::offsets>{"offsets"},
      Field<3, &file::Tensor::values>{"values"},
  };
};
template <>
struct Schema<file::Variable> {
  static constexpr const char* name = "Variable";
  static constexpr std::tuple fields{
      Field<1, &file::Variable::description>{"description"},
      Field<2, &file::Variable::tensors>{"tensors"},
      Field<3, &file::Variable::row_ids>{"row_ids"},
  };
};
template <>
struct Schema<file::Footer> {
  static constexpr const char* name = "Footer";
  static constexpr std::tuple fields{Field<1, &file::Footer::variables>{"variables"}};
};

}  // namespace lod::inline LOD_INTERFACE::proto

namespace lod::inline LOD_INTERFACE::detail::inline LOD_TARGET {

static_assert(std::endian::native == std::endian::little, "files are used where they lie: as little-endian numbers");

struct FilePreamble {
  unsigned char magic[8] = {0x89, 'L', 'O', 'D', '\r', '\n', 0x1a, '\n'};
  std::uint32_t version = 1;
  unsigned char zeros[52] = {};
};
static_assert(sizeof(FilePreamble) == 64);

struct FileTrailer {
  std::uint64_t footer_size = 0;
  std::uint64_t checksum = 0;
  unsigned char magic[8] = {0x89, 'L', 'O', 'D', '\r', '\n', 0x1a, '\n'};
};
static_assert(sizeof(FileTrailer) == 24);

/// Every buffer begins at a multiple of this.
inline constexpr std::size_t file_alignment = 64;
static_assert(file_alignment % alignment == 0, "values are used where they lie");

/// Buffers are hashed and copied in parts of this many bytes, which stay in the cache in between.
inline constexpr std::size_t file_chunk = std::size_t{256} << 10;

/// The name of a buffer in error texts: "tensors[0].offsets[1]".
struct BufferName {
  static constexpr std::size_t values = ~std::size_t{0};

  bool is_row_ids = false;
  std::size_t tensor = 0;
  std::size_t level = values;

  std::string text() const {
    if (is_row_ids) return "row_ids";
    if (level == values) return detail::text({"tensors[", tensor, "].values"});
    return detail::text({"tensors[", tensor, "].offsets[", level, "]"});
  }
};

/// Calls f(buffer, its BufferName) for each buffer of a variable, in their order in the file.
template <class Variable, class F>
void for_each_buffer(Variable& variable, const F& f) {
  if (variable.row_ids) f(*variable.row_ids, BufferName{.is_row_ids = true});
  for (std::size_t i = 0; i < variable.tensors.size(); ++i) {
    auto& tensor = variable.tensors[i];
    for (std::size_t level = 0; level < tensor.offsets.size(); ++level) {
      f(tensor.offsets[level], BufferName{.tensor = i, .level = level});
    }
    f(tensor.values, BufferName{.tensor = i});
  }
}

/// The part of a description that is about tensors; null if there is none, or if it describes a kind of variable that
/// files do not hold. Type is VarType, const or not.
template <class Type>
auto tensor_desc(Type& type) noexcept -> decltype(&type.lod_tensor->tensor) {
  if (type.type == VarType::LOD_TENSOR && type.lod_tensor) return &type.lod_tensor->tensor;
  if (type.type == VarType::LOD_TENSOR_ARRAY && type.tensor_array) return &type.tensor_array->tensor;
  if (type.type == VarType::SELECTED_ROWS && type.selected_rows) return &*type.selected_rows;
  return nullptr;
}
/// The number of levels that the description states; -1 if the tensors differ.
inline std::int32_t described_levels(const VarType& type) noexcept {
  if (type.type == VarType::LOD_TENSOR && type.lod_tensor) return type.lod_tensor->lod_level;
  if (type.type == VarType::LOD_TENSOR_ARRAY && type.tensor_array) return type.tensor_array->lod_level;
  return 0;
}

/// What is wrong with one tensor of a variable, in words; empty if it is as described.
inline std::string inconsistency(const proto::file::Tensor& tensor, const VarType& type) {
  if (tensor.dims.empty()) return "dims: none, expected the number of rows at least";
  LoDTensorDesc expected{*tensor_desc(type), described_levels(type)};
  const DataType data_type = expected.tensor.data_type;
  std::vector<std::int64_t>& dims = expected.tensor.dims;
  if (type.type == VarType::SELECTED_ROWS && !dims.empty()) dims[0] = tensor.dims[0];  // the description has the height
  if (type.type == VarType::LOD_TENSOR_ARRAY && dims.empty()) dims = tensor.dims;      // nothing in common
  if (dims.empty()) return text({"rank: expected 0, found ", tensor.dims.size()});  // not even a scalar: that has rows
  if (tensor.offsets.size() > std::size_t{max_levels}) {
    return text({"offsets: ", tensor.offsets.size(), " levels, expected ", max_levels, " at most"});
  }
  const LoDTensorDesc found{{data_type, tensor.dims}, static_cast<std::int32_t>(tensor.offsets.size())};
  std::string difference = mismatch(found, expected);
  if (!difference.empty()) return difference;

  for (std::size_t level = 0; level < tensor.offsets.size(); ++level) {
    const std::uint64_t size = tensor.offsets[level].size;
    if (size == 0 || size % sizeof(std::int64_t) != 0) {
      return text({"offsets[", level, "]: ", size, " bytes, expected 8 for each offset, and one offset at least"});
    }
  }
  try {
    const Shape shape = tensor.dims;
    const std::size_t size = checked_bytes(shape.elements(), size_of(data_type));
    if (tensor.values.size == size) return {};
    return text({"values: ", tensor.values.size, " bytes, expected ", size, " for the shape ", to_string(shape), " of ",
                 to_string(data_type)});
  } catch (const ShapeMismatch& error) {
    return error.what();
  }
}

/// What is wrong with a variable, apart from the contents of its buffers, in words; empty if nothing is.
inline std::string inconsistency(const proto::file::Variable& variable) {
  const VarType& type = variable.description.type;
  const TensorDesc* const described = tensor_desc(type);
  if (!described) return text({"type ", to_string(type.type), ", without a description of tensors"});

  const bool is_array = type.type == VarType::LOD_TENSOR_ARRAY, is_rows = type.type == VarType::SELECTED_ROWS;
  if (!is_array && variable.tensors.size() != 1) return text({variable.tensors.size(), " tensors, expected 1"});
  for (std::size_t i = 0; i < variable.tensors.size(); ++i) {
    const std::string wrong = inconsistency(variable.tensors[i], type);
    if (!wrong.empty()) return text({"tensors[", i, "]: ", wrong});
  }
  if (variable.row_ids.has_value() != is_rows) {
    return is_rows ? "row_ids: missing" : text({"row_ids: expected none for ", to_string(type.type)});
  }
  if (is_rows) {
    const std::int64_t height = described->dims[0], rows = variable.tensors[0].dims[0];
    const std::uint64_t size = variable.row_ids->size;
    if (height < 0) return text({"height ", height, ", expected 0 or more"});
    if (size % sizeof(std::int64_t) != 0 || size / sizeof(std::int64_t) != static_cast<std::uint64_t>(rows)) {
      return text({"row_ids: ", size, " bytes, expected 8 for each of ", rows, " rows"});
    }
  }
  if (is_array) return {};
  // A dimension left open matches any; only the number of rows of an array's tensors cannot be stated.
  if (described_levels(type) < 0) return text({"lod_level ", described_levels(type), ", expected 0 or more"});
  for (std::size_t dim = 0; dim < described->dims.size(); ++dim) {
    if (described->dims[dim] < 0) return text({"dim ", dim, " is ", described->dims[dim], ", expected 0 or more"});
  }
  return {};
}

}  // namespace lod::inline LOD_INTERFACE::detail::inline LOD_TARGET

namespace lod::inline LOD_INTERFACE::detail::inline LOD_TARGET {

/// The trailer's checksum.
inline std::uint64_t footer_checksum(const FilePreamble& preamble, std::string_view footer) noexcept {
  const std::uint64_t size = footer.size();
  Checksum checksum;
  checksum.add(&preamble, sizeof(preamble));
  checksum.add(footer.data(), footer.size());
  checksum.add(&size, sizeof(size));
  return checksum.value();
}

}  // namespace lod::inline LOD_INTERFACE::detail::inline LOD_TARGET
