// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup files
/// Writing the library's own files: named tensors, all at once or not at all.
///
///     lod::save("batch.lod", {{"words", words}, {"labels", labels}});
///
///     lod::FileWriter writer("model.lod");
///     for (const auto& [name, parameter] : parameters) writer.add(name, parameter);
///     writer.commit();
///
/// <lod/io/file.hpp> reads them; file_format.hpp documents the layout.
#pragma once

#include <lod/core/any_tensor.hpp>
#include <lod/core/buffer.hpp>
#include <lod/core/desc.hpp>
#include <lod/core/error.hpp>
#include <lod/core/lod_index.hpp>
#include <lod/core/lod_view.hpp>
#include <lod/core/selected_rows.hpp>
#include <lod/core/shape.hpp>
#include <lod/core/target.hpp>
#include <lod/io/atomic_file.hpp>
#include <lod/io/checksum.hpp>
#include <lod/io/file_format.hpp>
#include <lod/io/file_index.hpp>
#include <lod/io/proto/desc.hpp>
#include <lod/io/stored_values.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace lod::inline LOD_INTERFACE {

namespace detail::inline LOD_TARGET {

/// A borrowed tensor, in the form in which files take it.
struct TensorToStore {
  DataType data_type = DataType::FP32;
  Shape shape = {};
  LoD lod = {};
  std::span<const std::byte> values = {};
};
inline TensorToStore tensor_to_store(const AnyLoDTensor& x) { return {x.data_type(), x.shape(), x.lod(), x.bytes()}; }
template <class X>
concept TensorInMemory = LoDTensorLike<X> && std::same_as<typename X::device, Cpu>;
template <TensorInMemory X>
TensorToStore tensor_to_store(const X& x) {
  const auto view = x.view();
  return {data_type_v<typename X::value_type>, view.shape(), view.lod(), std::as_bytes(view.values())};
}

/// A borrowed value of any kind, in the form in which files take it.
struct ValueToStore {
  VarType type = {};
  std::vector<TensorToStore> tensors = {};
  std::span<const std::int64_t> row_ids = {};
};

inline TensorDesc describe_stored(const TensorToStore& tensor) {
  return {tensor.data_type, {tensor.shape.begin(), tensor.shape.end()}};
}

template <class X>
concept StorableTensor = requires(const X& x) {
  tensor_to_store(x);
};
template <class X>
concept StorableRows = requires(const X& x) {
  x.height();
  { x.rows() } -> std::convertible_to<std::span<const std::int64_t>>;
  tensor_to_store(x.value());
};
/// A range of tensors: a vector, a TensorArray.
template <class X>
concept StorableArray = !StorableTensor<X> && requires(const X& x) {
  x.begin() != x.end();
  tensor_to_store(*x.begin());
};

template <StorableTensor X>
ValueToStore value_to_store(const X& x) {
  TensorToStore tensor = tensor_to_store(x);
  VarType type{.type = VarType::LOD_TENSOR,
               .lod_tensor = LoDTensorDesc{describe_stored(tensor), static_cast<std::int32_t>(tensor.lod.levels())}};
  return {std::move(type), {std::move(tensor)}};
}
template <StorableRows X>
ValueToStore value_to_store(const X& x) {
  check_value_rows(static_cast<std::int64_t>(x.rows().size()), x.value().rows(), "FileWriter");
  TensorToStore tensor = tensor_to_store(x.value());
  VarType type{.type = VarType::SELECTED_ROWS, .selected_rows = describe_stored(tensor)};
  type.selected_rows->dims[0] = x.height();
  return {std::move(type), {std::move(tensor)}, x.rows()};
}

/// What the tensors have in common. Throws ShapeMismatch if they do not even share a data type.
inline LoDTensorArrayDesc describe_stored(std::span<const TensorToStore> tensors) {
  LoDTensorArrayDesc common{.lod_level = 0};
  if (tensors.empty()) return common;
  common = {describe_stored(tensors[0]), static_cast<std::int32_t>(tensors[0].lod.levels())};
  for (std::size_t i = 1; i < tensors.size(); ++i) {
    const TensorToStore& tensor = tensors[i];
    if (tensor.data_type != tensors[0].data_type) {
      throw ShapeMismatch(text({"tensors of an array: number ", i, " is of ", to_string(tensor.data_type),
                                ", number 0 of ", to_string(tensors[0].data_type)}));
    }
    if (tensor.lod.levels() != tensors[0].lod.levels()) common.lod_level = -1;
    if (tensor.shape.size() != tensors[0].shape.size()) common.tensor.dims.clear();
    for (std::size_t dim = 0; dim < common.tensor.dims.size(); ++dim) {
      if (tensor.shape[dim] != tensors[0].shape[dim]) common.tensor.dims[dim] = -1;
    }
  }
  return common;
}

template <StorableArray X>
ValueToStore value_to_store(const X& x) {
  ValueToStore value;
  for (const auto& tensor : x) value.tensors.push_back(tensor_to_store(tensor));
  value.type = {.type = VarType::LOD_TENSOR_ARRAY, .tensor_array = describe_stored(std::span(value.tensors))};
  using Tensor = std::remove_cvref_t<decltype(*x.begin())>;
  if constexpr (requires { typename Tensor::value_type; }) {
    value.type.tensor_array->tensor.data_type = data_type_v<typename Tensor::value_type>;
  }
  return value;
}

}  // namespace detail::inline LOD_TARGET

/// What a file can hold: a LoDTensor of any levels, row shape and element type, a view or a slice of one, an
/// AnyLoDTensor; a SelectedRows, an AnySelectedRows; an array of tensors of one element type (a std::vector of them, a
/// TensorArray). In CPU memory.
template <class X>
concept Storable = requires(const X& x) {
  detail::value_to_store(x);
};

/// The options of `FileWriter` and `save`.
struct SaveOptions {
  /// Whether `commit()` returns only when everything is on the disk. If not, it returns as `cp` does, when the system
  /// has the bytes: sooner, and good enough for data that can be recomputed. Whoever opens the file still finds either
  /// all of it or what was there before, whenever the program stops; but if the machine stops soon after, the file may
  /// be neither, which `File` detects as it does any damage.
  bool wait_for_disk = true;
};

}  // namespace lod::inline LOD_INTERFACE

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {

/// Writes a file of named variables. Added values go to the disk at once, to a file beside `path` that takes its name
/// in `commit()`; the folder is the one that `path` leads to when this object is made. So whoever opens `path` finds
/// either all of it or what was there before, whenever the program, the system or the machine stops; SaveOptions can
/// waive the last.
///
/// A replaced file passes on its owner, group, permissions and access control list, as far as the system allows;
/// otherwise fewer people may use the new file, never more. A symbolic link at `path` is replaced, not followed; the
/// access is that of the file it pointed to, and a dangling link is replaced too. Anything other than a regular file (a
/// folder, a pipe, a device), or a link to it, is a std::system_error. Other attributes of the file are not kept.
///
/// Takes no memory for values, however large they are: only a small constant, and memory for the names and the footer's
/// entries.
class FileWriter {
 public:
  /// Writes to a new file in the folder of `path`, which must exist. Throws std::system_error.
  explicit FileWriter(std::string path, const SaveOptions& options = {})
      : file_(std::move(path), options.wait_for_disk) {
    staged_.reserve(detail::file_chunk);
    const detail::FilePreamble preamble;
    put(&preamble, sizeof(preamble));
  }
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;
  /// Removes the file unless it was committed.
  ~FileWriter() = default;

  /// Writes x under a name: its values, its levels (for a slice, its own levels, counted from its start), its shape and
  /// element type. What a reader would reject is rejected before anything is written: throws std::invalid_argument if
  /// there is a variable of this name already and for a bool that is neither 0 nor 1, ShapeMismatch for an array of
  /// several element types and for row-sparse values with a level or with another number of rows than ids. Throws
  /// std::system_error if the disk does not take it (mostly because it is full); after that nothing can be added or
  /// committed any more. If memory runs out, nothing was added, and the call can be repeated. One pass over the values,
  /// and one system call for each 256 KiB; the data is on its way to the disk before `commit()` waits for it.
  template <Storable X>
  void add(std::string name, const X& x) {
    VarDesc description;
    description.name = std::move(name);
    const detail::ValueToStore value = detail::value_to_store(x);
    description.type = value.type;
    add_value(std::move(description), value);
  }
  /// The same, with a description that says more than the value does: whether the variable is persistable, attributes.
  /// Dimensions that it leaves open (-1; for an array also by listing none) become those of x. Throws ShapeMismatch
  /// unless x is as described (see `lod::check`), std::invalid_argument for what `encode` of <lod/proto.hpp> rejects in
  /// the description (an enum value that does not exist), and as above.
  template <Storable X>
  void add(VarDesc description, const X& x) {
    const detail::ValueToStore value = detail::value_to_store(x);
    complete(description, value);
    add_value(std::move(description), value);
  }
  /// Writes a variable whose bytes are nowhere as a whole, for example since several processes have them: a tensor
  /// without levels, or row-sparse values, of `rows` rows. `description` has all dimensions. Calls write(put) for each
  /// buffer: the ids, where there are any, then the values. write calls put(bytes), with a std::span<const std::byte>,
  /// until it has put the whole buffer. Throws std::invalid_argument and ShapeMismatch as above before anything is
  /// written, std::logic_error if a buffer gets too few or too many bytes, and what write throws; after the last two
  /// nothing can be added or committed any more. Bools that are not 0 or 1, and ids that are not less than the height,
  /// are not noticed here: readers reject them.
  template <class Write>
  void add_in_pieces(VarDesc description, std::int64_t rows, const Write& write);

  /// Puts the file in its place once all its bytes are on the disk (see SaveOptions). Nothing can be added afterwards.
  /// Throws std::system_error; the file that was there is then still there. Once the new one is in its place nothing is
  /// thrown, even if the folder cannot be synchronised. Throws std::length_error if the footer would take more than 2
  /// GiB. If memory for the footer runs out, the call can be repeated.
  void commit();

 private:
  void check_open() const {
    if (!open_) throw std::logic_error("FileWriter: it was committed, or writing has failed");
  }
  static std::string place_of(const proto::file::Variable& variable) {
    return detail::text({"FileWriter: '", variable.description.name, "'"});
  }
  void check_addable(const proto::file::Variable& variable) const;
  static void complete(VarDesc& description, const detail::ValueToStore& value);
  void add_value(VarDesc description, const detail::ValueToStore& value);
  template <class Write>
  void add_variable(proto::file::Variable variable, const Write& write);
  template <class Write>
  proto::file::Buffer put_buffer(std::uint64_t size, const Write& write);
  /// Appends bytes: a large piece by a system call, small ones together.
  void put(const void* bytes, std::size_t size) {
    if (staged_.size() + size > detail::file_chunk) flush();
    if (size < detail::file_chunk) {
      staged_.append(static_cast<const char*>(bytes), size);
    } else {
      file_.write(bytes, size);
    }
    end_ += size;
  }
  void put_padding() {
    constexpr char zeros[detail::file_alignment] = {};
    put(zeros, (detail::file_alignment - end_ % detail::file_alignment) % detail::file_alignment);
  }
  void flush() {
    file_.write(staged_.data(), staged_.size());
    staged_.clear();
  }

  detail::AtomicFile file_;
  std::string staged_;  // small pieces, until they are worth a system call
  std::uint64_t end_ = 0;
  std::set<std::string> names_;
  std::vector<std::string> variables_;  // each an encoded proto::file::Variable
  bool open_ = true;
};

/// A name and a value that is borrowed for the duration of `save`.
class NamedValue {
 public:
  /// A value that a file can hold.
  template <Storable X>
  NamedValue(std::string name, const X& value)
      : name_(std::move(name)), value_(&value), add_to_([](FileWriter& writer, const NamedValue& named) {
          writer.add(named.name_, *static_cast<const X*>(named.value_));
        }) {}
  /// Adds the value to a file.
  void add_to(FileWriter& writer) const { add_to_(writer, *this); }

 private:
  std::string name_;
  const void* value_;
  void (*add_to_)(FileWriter&, const NamedValue&);
};

/// Writes a file of these variables: `lod::save(path, {{"x", x}, {"g", g}})`. Whatever is at `path` already is treated
/// as by FileWriter. If this throws, as FileWriter does, the file that was there is still there.
inline void save(std::string path, std::initializer_list<NamedValue> variables, const SaveOptions& options = {}) {
  FileWriter writer(std::move(path), options);
  for (const NamedValue& variable : variables) variable.add_to(writer);
  writer.commit();
}

/// Throws ShapeMismatch unless the value is as described, and fills in what the description leaves open.
inline void FileWriter::complete(VarDesc& description, const detail::ValueToStore& value) {
  VarType& type = description.type;
  const VarType& found = value.type;
  std::string difference;
  TensorDesc* const described = detail::tensor_desc(type);
  if (type.type != found.type) {
    difference = detail::text({"type: expected ", to_string(type.type), ", found ", to_string(found.type)});
  } else if (described && !value.tensors.empty()) {  // an array without tensors matches any description
    const LoDTensorDesc stored{*detail::tensor_desc(found), detail::described_levels(found)};
    LoDTensorDesc expected{*described, detail::described_levels(type)};
    // A description of an array has no dimensions if its tensors have none in common: it leaves them open.
    if (found.tensor_array && expected.tensor.dims.empty()) expected.tensor.dims = stored.tensor.dims;
    difference = detail::mismatch(stored, expected);
  }
  if (!difference.empty()) throw ShapeMismatch(detail::text({"'", description.name, "': ", difference}));

  if (!described) {
    if (found.lod_tensor) type.lod_tensor = found.lod_tensor;
    if (found.selected_rows) type.selected_rows = found.selected_rows;
    if (found.tensor_array) type.tensor_array = found.tensor_array;
  } else if (!value.tensors.empty()) {
    described->dims = detail::tensor_desc(found)->dims;
    if (found.lod_tensor) type.lod_tensor->lod_level = found.lod_tensor->lod_level;
    if (found.tensor_array) type.tensor_array->lod_level = found.tensor_array->lod_level;
  }
}

inline void FileWriter::add_value(VarDesc description, const detail::ValueToStore& value) {
  proto::file::Variable variable{.description = std::move(description)};
  std::vector<std::span<const std::byte>> buffers;  // as for_each_buffer names them
  const auto list_buffer = [&](std::span<const std::byte> bytes) {
    buffers.push_back(bytes);
    return proto::file::Buffer{.size = bytes.size()};
  };
  if (variable.description.type.type == VarType::SELECTED_ROWS) {
    variable.row_ids = list_buffer(std::as_bytes(value.row_ids));
  }
  variable.tensors.reserve(value.tensors.size());
  for (const detail::TensorToStore& tensor : value.tensors) {
    proto::file::Tensor& stored = variable.tensors.emplace_back();
    stored.dims.assign(tensor.shape.begin(), tensor.shape.end());
    for (int level = 0; level < tensor.lod.levels(); ++level) {
      stored.offsets.push_back(list_buffer(std::as_bytes(tensor.lod.offsets(level))));
    }
    stored.values = list_buffer(tensor.values);
  }
  check_addable(variable);
  for (const detail::TensorToStore& tensor : value.tensors) {
    detail::check_stored_values(tensor.data_type, tensor.values, place_of(variable).c_str());
  }
  std::size_t next = 0;
  add_variable(std::move(variable), [&](const auto& put) { put(buffers[next++]); });
}

template <class Write>
void FileWriter::add_in_pieces(VarDesc description, std::int64_t rows, const Write& write) {
  proto::file::Variable variable{.description = std::move(description)};
  const bool is_rows = variable.description.type.type == VarType::SELECTED_ROWS;
  if (is_rows) variable.row_ids = proto::file::Buffer{.size = detail::checked_bytes(rows, sizeof(std::int64_t))};
  if (const TensorDesc* const described = detail::tensor_desc(variable.description.type)) {
    proto::file::Tensor& stored = variable.tensors.emplace_back();
    stored.dims = described->dims;
    if (!stored.dims.empty()) stored.dims[0] = rows;
    stored.values.size = detail::checked_bytes(Shape(stored.dims).elements(), size_of(described->data_type));
  }
  check_addable(variable);
  add_variable(std::move(variable), write);
}

/// Throws if a variable of this name cannot be added, or if a reader would reject it; its buffers have their sizes but
/// no place yet.
inline void FileWriter::check_addable(const proto::file::Variable& variable) const {
  check_open();
  if (names_.contains(variable.description.name)) {
    throw std::invalid_argument(
        detail::readable(detail::text({"FileWriter: there is a variable '", variable.description.name, "' already"})));
  }
  const std::string wrong = detail::inconsistency(variable);
  if (!wrong.empty()) throw ShapeMismatch(detail::text({place_of(variable), ": ", wrong}));
}

/// Writes a variable, whose buffers have their sizes; write(put) is called for each of them.
template <class Write>
void FileWriter::add_variable(proto::file::Variable variable, const Write& write) {
  // All memory first, so that the call can be repeated if it runs out: for the record at its maximum length.
  std::vector<std::uint64_t> sizes;
  detail::for_each_buffer(variable, [&](proto::file::Buffer& buffer, const detail::BufferName&) {
    sizes.push_back(buffer.size);
    buffer.begin = buffer.checksum = std::numeric_limits<std::uint64_t>::max();
  });
  std::string record = encode(variable);  // throws for what cannot be encoded
  if (variables_.size() == variables_.capacity()) variables_.reserve(2 * variables_.size() + 1);
  names_.insert(variable.description.name);

  open_ = false;  // for good, if this throws from here on: how much was written is then unknown
  std::size_t next = 0;
  detail::for_each_buffer(variable, [&](proto::file::Buffer& buffer, const detail::BufferName&) {
    buffer = put_buffer(sizes[next++], write);
  });
  record.clear();
  encode(variable, record);
  variables_.push_back(std::move(record));
  open_ = true;
}

/// Appends a buffer of `size` bytes, which write(put) gives, after the zeros that align it.
template <class Write>
proto::file::Buffer FileWriter::put_buffer(std::uint64_t size, const Write& write) {
  put_padding();
  proto::file::Buffer buffer{.begin = end_, .size = size};
  detail::Checksum checksum;
  write([&](std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const auto chunk = bytes.first(std::min(bytes.size(), detail::file_chunk));
      checksum.add(chunk.data(), chunk.size());
      put(chunk.data(), chunk.size());
      bytes = bytes.subspan(chunk.size());
    }
  });
  if (end_ - buffer.begin != size) {
    throw std::logic_error(detail::text({"FileWriter: a buffer of ", end_ - buffer.begin, " bytes, expected ", size}));
  }
  buffer.checksum = checksum.value();
  return buffer;
}

inline void FileWriter::commit() {
  check_open();
  open_ = false;
  put_padding();
  open_ = true;  // if memory for the footer runs out, the call can be repeated
  const proto::file::Footer contents{.variables = {variables_.begin(), variables_.end()}};
  const std::string footer = encode(contents);
  const detail::FileContents checked(file_.path(), footer, end_);  // a file that nobody can open never replaces another
  open_ = false;
  put(footer.data(), footer.size());
  const detail::FileTrailer trailer{footer.size(), detail::footer_checksum(detail::FilePreamble(), footer)};
  put(&trailer, sizeof(trailer));
  flush();
  file_.commit();
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET
