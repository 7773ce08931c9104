// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup files
/// The library's own files: named tensors of any kind, used in place or loaded.
///
///     lod::save("batch.lod", {{"words", words}, {"labels", labels}});
///
///     const lod::File file = lod::File::open("batch.lod");         // reads the file's footer
///     const auto words = file.tensor<float>("words");              // on the mapped file: nothing is copied
///     const auto third = file.slice<float>("words", {2});          // touches only what belongs to that sequence
///     auto labels = file.load<lod::LoDTensor<int>>("labels");      // in memory of its own, checksums verified
///
/// What is checked, and when. In `open`: the checksum of the footer, and that all buffers lie in the file, aligned, one
/// after the other, and are as large as their shapes say. When a tensor is made: its offsets, its ids and its bools, on
/// which code relies; for a slice, only those that it touches. The checksums of buffers: when they are loaded, and in
/// `verify`. Any fault throws a ParseError that names the file, the variable and the byte.
///
/// An open file must not be written to or truncated: tensors on it would see other values, or the program would get a
/// SIGBUS. Replacing it is no problem: what is open stays what it was. FileWriter replaces files.
///
/// This header includes <lod/io/file_writer.hpp>, which writes files; file_format.hpp documents the layout.
#pragma once

#include <lod/core/any_tensor.hpp>
#include <lod/core/data_type.hpp>
#include <lod/core/desc.hpp>
#include <lod/core/device.hpp>
#include <lod/core/error.hpp>
#include <lod/core/lod_tensor.hpp>
#include <lod/core/reference.hpp>
#include <lod/core/selected_rows.hpp>
#include <lod/core/target.hpp>
#include <lod/io/file_format.hpp>
#include <lod/io/file_index.hpp>
#include <lod/io/file_reader.hpp>
#include <lod/io/file_writer.hpp>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory_resource>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {

/// An open file. Copies share it; so do tensors on it, which keep it open as long as they live. All functions may be
/// called from any number of threads.
///
/// Functions that take a name throw OutOfRange if there is no such variable, and list the existing names; ShapeMismatch
/// if it is of another kind or element type than requested; ParseError for malformed bytes. What they return has the
/// shape, the levels and the values that were written.
class File {
 public:
  /// Maps the file, reads and checks its footer: time and memory grow with the number of variables, not with their
  /// sizes. Throws std::system_error if it cannot be opened, ParseError if it is not such a file.
  static File open(std::string path) { return File(detail::FileIndex::open(std::move(path))); }

  // No moves: a moved-from file is still open.
  File(const File&) noexcept = default;
  File& operator=(const File&) noexcept = default;
  ~File() = default;

  /// The names of the variables, in the order in which they were written.
  std::vector<std::string> names() const { return file_->contents().names(); }
  /// Whether there is a variable of this name.
  bool contains(std::string_view name) const noexcept { return file_->contents().contains(name); }
  /// The description of a variable without its values: kind, element type, shape, number of levels, and whatever else
  /// its writer stated. For an array: what its tensors have in common, with -1 where they differ, and no dimensions if
  /// their ranks differ.
  VarDesc describe(std::string_view name) const { return file_->contents().variable(name).description; }

  /// @{
  /// A read-only tensor on the file. Its values begin at a multiple of `alignment`; they are not read before they are
  /// used. O(sequences), for bools O(elements), to check them.
  template <class T>
  LoDTensor<const T> tensor(std::string_view name) const {
    return typed<T>(name, VarType::LOD_TENSOR).on_file().template as<T>();
  }
  AnyLoDTensor any_tensor(std::string_view name) const { return any(name, VarType::LOD_TENSOR).on_file(); }
  /// @}

  /// @{
  /// The slice of a branch <i, j, ...> of a tensor: its one sequence, which stays as the outermost level. Or, between
  /// `begin` and `end`, sequences [begin, end) of the outermost level (rows where there is none): a mini-batch. As
  /// LoDTensor::slice and LoDTensor::between give them, but as tensors: their values lie in the file, their offsets
  /// are counted from their own start.
  ///
  /// Only what leads to the slice and what belongs to it is read and checked: O(sequences of the slice), however large
  /// the tensor is. Also throws OutOfRange for a branch or a range outside the tensor.
  template <class T>
  LoDTensor<const T> slice(std::string_view name, std::initializer_list<std::int64_t> branch) const {
    return slice<T>(name, std::span(branch.begin(), branch.size()));
  }
  template <class T>
  LoDTensor<const T> slice(std::string_view name, std::span<const std::int64_t> branch) const {
    return typed<T>(name, VarType::LOD_TENSOR).slice(branch).template as<T>();
  }
  template <class T>
  LoDTensor<const T> between(std::string_view name, std::int64_t begin, std::int64_t end) const {
    return typed<T>(name, VarType::LOD_TENSOR).between(begin, end).template as<T>();
  }
  AnyLoDTensor any_slice(std::string_view name, std::initializer_list<std::int64_t> branch) const {
    return any_slice(name, std::span(branch.begin(), branch.size()));
  }
  AnyLoDTensor any_slice(std::string_view name, std::span<const std::int64_t> branch) const {
    return any(name, VarType::LOD_TENSOR).slice(branch);
  }
  AnyLoDTensor any_between(std::string_view name, std::int64_t begin, std::int64_t end) const {
    return any(name, VarType::LOD_TENSOR).between(begin, end);
  }
  template <class T>
  [[deprecated("a range of sequences is between(name, begin, end), a branch slice(name, {i, ...})")]] LoDTensor<const T>
  slice(std::string_view name, std::int64_t begin, std::int64_t end) const {
    return between<T>(name, begin, end);
  }
  [[deprecated(
      "a range of sequences is any_between(name, begin, end), a branch any_slice(name, {i, ...})")]] AnyLoDTensor
  any_slice(std::string_view name, std::int64_t begin, std::int64_t end) const {
    return any_between(name, begin, end);
  }
  /// @}

  /// @{
  /// Row-sparse values, read-only: the value is on the file, the ids are copied. Operations take SelectedRows of T, not
  /// of const T: use `load` for these.
  template <class T>
  SelectedRows<const T> selected_rows(std::string_view name) const {
    const auto found = typed<T>(name, VarType::SELECTED_ROWS);
    return SelectedRows<const T>(found.row_ids_on_file(), found.height(), found.on_file().template as<T>());
  }
  AnySelectedRows any_selected_rows(std::string_view name) const {
    const auto found = any(name, VarType::SELECTED_ROWS);
    return AnySelectedRows(found.row_ids_on_file(), found.height(), found.on_file());
  }
  /// @}

  /// @{
  /// The tensors of an array, each on the file.
  template <class T>
  std::vector<LoDTensor<const T>> tensor_array(std::string_view name) const {
    const auto found = typed<T>(name, VarType::LOD_TENSOR_ARRAY);
    return found.each([&](std::size_t i) { return found.on_file(i).template as<T>(); });
  }
  std::vector<AnyLoDTensor> any_tensor_array(std::string_view name) const {
    const auto found = any(name, VarType::LOD_TENSOR_ARRAY);
    return found.each([&](std::size_t i) { return found.on_file(i); });
  }
  /// @}

  /// A variable in memory of its own, whose values are allocated from `resource`; its checksums are verified on the
  /// way. One pass; from 16 MiB of values on a second thread populates the pages meanwhile. X is LoDTensor<T> or
  /// AnyLoDTensor, SelectedRows<T> or AnySelectedRows, std::vector<LoDTensor<T>> or std::vector<AnyLoDTensor>.
  template <class X>
  X load(std::string_view name, std::pmr::memory_resource* resource = Cpu::default_resource()) const {
    return load_as(detail::ElementType<X>(), name, resource);
  }

  /// @{
  /// Reads one variable, or all of them, and throws ParseError for the first buffer whose checksum differs from the one
  /// its writer stored. This detects damage. Contents that a writer stored deliberately pass, even if no tensor can
  /// have them.
  void verify(std::string_view name) const {
    const proto::file::Variable variable = file_->contents().variable(name);
    std::vector<std::byte> part(detail::file_chunk);
    detail::for_each_buffer(variable, [&](const proto::file::Buffer& buffer, const detail::BufferName& which) {
      file_->read(variable.description.name, buffer, which, [&](std::size_t) { return part.data(); });
    });
  }
  void verify() const {
    for (const std::string& name : names()) verify(name);
  }
  /// @}

 private:
  using Reader = detail::VariableReader;

  explicit File(detail::Reference<const detail::FileIndex> file) noexcept : file_(std::move(file)) {}

  Reader any(std::string_view name, VarType::Type kind) const { return Reader(file_, name, kind); }
  template <class T>
  Reader typed(std::string_view name, VarType::Type kind) const {
    Reader reader(file_, name, kind);
    reader.check_elements<T>();
    return reader;
  }
  // The loaders, by what they return.
  using Resource = std::pmr::memory_resource;
  template <class T>
  LoDTensor<T> load_as(detail::ElementType<LoDTensor<T>>, std::string_view name, Resource* resource) const {
    return typed<T>(name, VarType::LOD_TENSOR).load(0, resource).template take<T>();
  }
  AnyLoDTensor load_as(detail::ElementType<AnyLoDTensor>, std::string_view name, Resource* resource) const {
    return any(name, VarType::LOD_TENSOR).load(0, resource);
  }
  template <class T>
  SelectedRows<T> load_as(detail::ElementType<SelectedRows<T>>, std::string_view name, Resource* resource) const {
    const Reader found = typed<T>(name, VarType::SELECTED_ROWS);
    return SelectedRows<T>(found.load_row_ids(), found.height(), found.load(0, resource).template take<T>());
  }
  AnySelectedRows load_as(detail::ElementType<AnySelectedRows>, std::string_view name, Resource* resource) const {
    const Reader found = any(name, VarType::SELECTED_ROWS);
    return AnySelectedRows(found.load_row_ids(), found.height(), found.load(0, resource));
  }
  template <class T>
  std::vector<LoDTensor<T>> load_as(detail::ElementType<std::vector<LoDTensor<T>>>, std::string_view name,
                                    Resource* resource) const {
    const Reader found = typed<T>(name, VarType::LOD_TENSOR_ARRAY);
    return found.each([&](std::size_t i) { return found.load(i, resource).template take<T>(); });
  }
  std::vector<AnyLoDTensor> load_as(detail::ElementType<std::vector<AnyLoDTensor>>, std::string_view name,
                                    Resource* resource) const {
    const Reader found = any(name, VarType::LOD_TENSOR_ARRAY);
    return found.each([&](std::size_t i) { return found.load(i, resource); });
  }

  detail::Reference<const detail::FileIndex> file_;
};

/// One variable of a file in memory of its own: File::open(path).load<X>(name, resource).
///
///     auto x = lod::load<lod::LoDTensor<float>>("batch.lod", "words");
template <class X>
X load(std::string path, std::string_view name, std::pmr::memory_resource* resource = Cpu::default_resource()) {
  return File::open(std::move(path)).load<X>(name, resource);
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET
