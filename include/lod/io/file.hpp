// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup files
/// The library's own files: named tensors of any kind, used where they lie or loaded.
///
///     lod::save("batch.lod", {{"words", words}, {"labels", labels}});
///
///     const lod::File file = lod::File::open("batch.lod");         // reads what the file says of itself
///     const auto words = file.tensor<float>("words");              // stands on the file: nothing is copied
///     const auto third = file.slice<float>("words", {2});          // touches what belongs to that sequence only
///     auto labels = file.load<lod::LoDTensor<int>>("labels");      // in memory of its own, checksums verified
///
/// What is checked, and when. In `open`: what the file says of itself has the right checksum, and all buffers lie in
/// the file, aligned, one after the other, and are as large as their shapes say. When a tensor is made: its offsets,
/// its ids and its bools, on which code relies; of a slice, those that it touches. The checksums of buffers: when they
/// are loaded, and in `verify`. What is wrong is a ParseError that names the file, the variable and the byte.
///
/// A file that is open must not be written to or made shorter: tensors on it would see other values, or the program
/// would get a SIGBUS. To replace it is no problem: what is open stays what it was. FileWriter replaces.
///
/// <lod/io/file_writer.hpp>, which this header brings, has what writes; file_format.hpp has the layout.
#pragma once

#include <lod/any_tensor.hpp>
#include <lod/data_type.hpp>
#include <lod/desc.hpp>
#include <lod/device.hpp>
#include <lod/error.hpp>
#include <lod/io/file_format.hpp>
#include <lod/io/file_index.hpp>
#include <lod/io/file_reader.hpp>
#include <lod/io/file_writer.hpp>
#include <lod/lod_tensor.hpp>
#include <lod/reference.hpp>
#include <lod/selected_rows.hpp>
#include <lod/target.hpp>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory_resource>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lod::inline LOD_TARGET {

/// An open file. Copies share it; so do tensors on it, which keep it open for as long as they live. All functions may
/// be called from any number of threads.
///
/// Those that take a name throw OutOfRange where there is no such variable, and list the names that there are;
/// ShapeMismatch where it is of another kind, or of another element type, than the one asked for; ParseError for bytes
/// that are not what they should be. What they return has the shape, the levels and the values that were written.
class File {
 public:
  /// Maps the file, reads and checks what it says of itself: time and memory go with the number of variables, not with
  /// their sizes. Throws std::system_error where it cannot be opened, ParseError where it is no such file.
  static File open(std::string path) { return File(detail::FileIndex::open(std::move(path))); }

  /// The names of the variables, in the order in which they were written.
  std::vector<std::string> names() const { return file_->contents().names(); }
  /// Whether there is a variable of this name.
  bool contains(std::string_view name) const noexcept { return file_->contents().contains(name); }
  /// What is known of a variable without its values: kind, element type, shape, number of levels, and what else its
  /// writer said of it. Of an array: what its tensors have in common, -1 where they differ, and no dimension where they
  /// are of different ranks.
  VarDesc describe(std::string_view name) const { return file_->contents().variable(name).description; }

  /// @{
  /// A tensor that stands on the file, read-only. Its values begin at a multiple of `alignment`; they are not read
  /// before they are touched. O(sequences), and for bools O(elements), to check them.
  template <class T>
  LoDTensor<const T> tensor(std::string_view name) const {
    return typed<T>(name, VarType::LOD_TENSOR).on_file().template as<T>();
  }
  AnyLoDTensor any_tensor(std::string_view name) const { return any(name, VarType::LOD_TENSOR).on_file(); }
  /// @}

  /// @{
  /// The slice of a branch <i, j, ...> of a tensor: its one sequence, which stays as the outermost level. Or, between
  /// `begin` and `end`, sequences [begin, end) of the outermost level (rows where there is none): a mini-batch. As
  /// LoDTensor::slice and LoDTensor::between give them, but as tensors: their values stand on the file, their offsets
  /// are counted from their own start.
  ///
  /// Only what leads to the slice and what belongs to it is read and checked: O(sequences of the slice), however large
  /// the tensor is. Throws OutOfRange too for a branch or a range that leaves the tensor.
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
  /// Row-sparse values, to be read: the value stands on the file, the ids are copied. Operations take SelectedRows of
  /// T, not of const T: `load` gives them.
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

  /// A variable in memory of its own, whose values come from `resource`; its checksums are verified on the way. One
  /// pass, while a second thread has the system find the pages of values from 16 MiB on. X is LoDTensor<T> or
  /// AnyLoDTensor, SelectedRows<T> or AnySelectedRows, std::vector<LoDTensor<T>> or std::vector<AnyLoDTensor>.
  template <class X>
  X load(std::string_view name, std::pmr::memory_resource* resource = Cpu::default_resource()) const {
    return load_as(detail::ElementType<X>(), name, resource);
  }

  /// @{
  /// Reads one variable, or all of them, and throws ParseError for the first buffer whose checksum is not the one that
  /// its writer noted. Damage shows so; what a writer meant to be there passes, also where no tensor can be made of it.
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
  // The loaders, by what they give.
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

}  // namespace lod::inline LOD_TARGET
