// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup files
/// How the buffers of a variable become tensors: on the file, in part, or loaded. The implementation of lod::File.
#pragma once

#include <lod/core/any_tensor.hpp>
#include <lod/core/buffer.hpp>
#include <lod/core/data_type.hpp>
#include <lod/core/desc.hpp>
#include <lod/core/device.hpp>
#include <lod/core/error.hpp>
#include <lod/core/lod_index.hpp>
#include <lod/core/reference.hpp>
#include <lod/core/shape.hpp>
#include <lod/core/target.hpp>
#include <lod/io/file_format.hpp>
#include <lod/io/file_index.hpp>
#include <lod/io/populated_memory.hpp>
#include <lod/io/stored_values.hpp>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory_resource>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lod::inline LOD_INTERFACE::detail::inline LOD_TARGET {

/// One variable of an open file.
class VariableReader {
 public:
  /// Throws OutOfRange if there is none of this name, ShapeMismatch if it is of another kind.
  VariableReader(Reference<const FileIndex> file, std::string_view name, VarType::Type kind)
      : file_(std::move(file)), variable_(file_->contents().variable(name)) {
    const VarType::Type found = variable_.description.type.type;
    if (found != kind) {
      throw ShapeMismatch(text({place(), ": type: expected ", to_string(kind), ", found ", to_string(found)}));
    }
  }
  /// Throws ShapeMismatch unless the elements are of type T.
  template <class T>
  void check_elements() const {
    if (!is_element_type<T>(data_type())) check_element_type<T>(data_type(), place().c_str());
  }

  /// Calls make(i) for each tensor i of an array.
  template <class Make>
  auto each(const Make& make) const {
    std::vector<decltype(make(std::size_t{0}))> all;
    all.reserve(variable_.tensors.size());
    for (std::size_t i = 0; i < variable_.tensors.size(); ++i) all.push_back(make(i));
    return all;
  }
  /// Tensor i, in place in the file.
  AnyLoDTensor on_file(std::size_t i = 0) const;
  /// Tensor i in memory of its own, its checksums verified.
  AnyLoDTensor load(std::size_t i, std::pmr::memory_resource* resource) const;

  /// A slice of tensor 0, whose values stay in the file. Throws OutOfRange.
  AnyLoDTensor slice(std::span<const std::int64_t> branch) const;
  AnyLoDTensor between(std::int64_t begin, std::int64_t end) const;

  /// The ids of SELECTED_ROWS, copied; or loaded, with the checksum verified.
  std::vector<std::int64_t> row_ids_on_file() const {
    const Numbers ids = numbers_on_file(*variable_.row_ids);
    return checked_row_ids({ids.begin(), ids.end()});
  }
  std::vector<std::int64_t> load_row_ids() const {
    std::vector<std::int64_t> ids(variable_.row_ids->size / sizeof(std::int64_t));
    read(*variable_.row_ids, {.is_row_ids = true}, std::as_writable_bytes(std::span(ids)));
    return checked_row_ids(std::move(ids));
  }
  std::int64_t height() const { return variable_.description.type.selected_rows->dims[0]; }

 private:
  using Numbers = std::span<const std::int64_t>;

  std::string place() const { return file_->contents().place(variable_.description.name); }
  [[noreturn]] void fail(std::initializer_list<Piece> what, std::uint64_t position) const {
    file_->contents().fail(variable_.description.name, what, position);
  }
  /// Throws for offset number `position` of a level.
  [[noreturn]] void fail_offset(std::size_t i, std::size_t level, std::size_t position,
                                std::initializer_list<Piece> what) const {
    const std::string name = BufferName{.tensor = i, .level = level}.text();
    fail({name, ": position ", position, ": ", text(what)}, offset_byte(i, level, position));
  }
  std::uint64_t offset_byte(std::size_t i, std::size_t level, std::size_t position) const {
    return tensor(i).offsets[level].begin + position * sizeof(std::int64_t);
  }

  const proto::file::Tensor& tensor(std::size_t i) const { return variable_.tensors[i]; }
  DataType data_type() const noexcept { return tensor_desc(variable_.description.type)->data_type; }
  Shape row_shape(std::size_t i) const { return Shape(tensor(i).dims).without_first(); }
  std::int64_t rows(std::size_t i) const { return tensor(i).dims[0]; }
  /// The size of what the offsets of a level index: the sequences of the next level, or rows.
  std::int64_t size_below(std::size_t i, std::size_t level) const {
    return level + 1 < tensor(i).offsets.size() ? sequences(i, level + 1) : rows(i);
  }
  std::int64_t sequences(std::size_t i, std::size_t level) const {
    return static_cast<std::int64_t>(tensor(i).offsets[level].size / sizeof(std::int64_t)) - 1;
  }

  Numbers numbers_on_file(const proto::file::Buffer& buffer) const noexcept {
    const auto bytes = file_->bytes(buffer);
    return {reinterpret_cast<const std::int64_t*>(bytes.data()), bytes.size() / sizeof(std::int64_t)};
  }
  void read(const proto::file::Buffer& buffer, const BufferName& name, std::span<std::byte> to) const {
    file_->read(variable_.description.name, buffer, name, [&](std::size_t done) { return to.data() + done; });
  }

  template <class Make, class NumbersOf>
  LoD checked_lod(std::size_t i, const Make& make, const NumbersOf& numbers_of) const;
  template <class NumbersOf>
  std::uint64_t wrong_offset(std::size_t i, const NumbersOf& numbers_of) const;
  std::vector<std::int64_t> checked_row_ids(std::vector<std::int64_t> ids) const;
  void check_bools(std::size_t i, std::span<const std::byte> values, std::uint64_t position) const;
  AnyLoDTensor rows_on_file(std::size_t i, LoD lod, std::int64_t first_row, std::int64_t rows) const;
  AnyLoDTensor part_on_file(std::size_t level, std::int64_t begin, std::int64_t end) const;

  Reference<const FileIndex> file_;
  proto::file::Variable variable_;
};

// ---- Checking the contents of buffers ----

/// The LoD that make() makes of tensor i's offsets, which are numbers_of(level).
template <class Make, class NumbersOf>
LoD VariableReader::checked_lod(std::size_t i, const Make& make, const NumbersOf& numbers_of) const {
  try {
    LoD lod = make();
    check_rows(lod, rows(i));
    return lod;
  } catch (const std::invalid_argument& error) {
    fail({"tensors[", i, "]: ", error.what()}, wrong_offset(i, numbers_of));
  }
}

/// The position in the file of the first wrong offset.
template <class NumbersOf>
std::uint64_t VariableReader::wrong_offset(std::size_t i, const NumbersOf& numbers_of) const {
  for (std::size_t level = 0; level < tensor(i).offsets.size(); ++level) {
    const auto& numbers = numbers_of(level);
    if (numbers[0] != 0) return offset_byte(i, level, 0);
    for (std::size_t position = 1; position < numbers.size(); ++position) {
      if (numbers[position] < numbers[position - 1]) return offset_byte(i, level, position);
    }
    if (numbers.back() != size_below(i, level)) return offset_byte(i, level, numbers.size() - 1);
  }
  return tensor(i).values.begin;
}

inline std::vector<std::int64_t> VariableReader::checked_row_ids(std::vector<std::int64_t> ids) const {
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 || ids[i] >= height()) {
      fail({"row_ids: id ", ids[i], " at position ", i, ", expected 0 to ", height() - 1},
           variable_.row_ids->begin + i * sizeof(std::int64_t));
    }
  }
  return ids;
}

/// A bool is a byte of 0 or 1 and nothing else. `position` is that of the first byte in the file.
inline void VariableReader::check_bools(std::size_t i, std::span<const std::byte> values,
                                        std::uint64_t position) const {
  if (data_type() != DataType::BOOL) return;
  const std::size_t wrong = find_wrong_bool(values);
  if (wrong == values.size()) return;
  const std::string name = BufferName{.tensor = i}.text();
  fail({name, ": ", std::to_integer<int>(values[wrong]), " is no bool, expected 0 or 1"}, position + wrong);
}

// ---- On the file ----

inline AnyLoDTensor VariableReader::on_file(std::size_t i) const {
  std::vector<Numbers> offsets;
  for (const proto::file::Buffer& level : tensor(i).offsets) offsets.push_back(numbers_on_file(level));
  LoD lod = checked_lod(
      i, [&] { return LoD::wrap(offsets, file_); }, [&](std::size_t level) { return offsets[level]; });
  return rows_on_file(i, std::move(lod), 0, rows(i));
}

inline AnyLoDTensor VariableReader::rows_on_file(std::size_t i, LoD lod, std::int64_t first_row,
                                                 std::int64_t rows) const {
  const proto::file::Buffer& values = tensor(i).values;
  const Shape row = row_shape(i);
  const std::size_t row_bytes = static_cast<std::size_t>(row.elements()) * size_of(data_type());
  const std::size_t begin = static_cast<std::size_t>(first_row) * row_bytes;
  const auto bytes = file_->bytes(values).subspan(begin, static_cast<std::size_t>(rows) * row_bytes);
  check_bools(i, bytes, values.begin + begin);
  return AnyLoDTensor::wrap(data_type(), bytes, std::move(lod), row, file_, rows);
}

inline AnyLoDTensor VariableReader::slice(std::span<const std::int64_t> branch) const {
  if (branch.empty()) return on_file();
  const std::size_t levels = tensor(0).offsets.size();
  const auto throw_branch = [&](std::size_t depth, std::int64_t found) {
    throw OutOfRange(text({place(), ": ", wrong_branch(branch, depth, found, static_cast<int>(levels))}));
  };
  if (branch.size() > levels) throw_branch(branch.size(), 0);
  std::int64_t begin = 0, end = sequences(0, 0);
  for (std::size_t level = 0; level < branch.size(); ++level) {
    if (branch[level] < 0 || branch[level] >= end - begin) throw_branch(level, end - begin);
    begin += branch[level];
    if (level + 1 == branch.size()) break;
    const Numbers numbers = numbers_on_file(tensor(0).offsets[level]);
    const auto position = static_cast<std::size_t>(begin);
    begin = numbers[position];
    end = numbers[position + 1];
    if (begin < 0 || end < begin || end > size_below(0, level)) {
      fail_offset(0, level, position, {"offsets ", begin, " and ", end, " of ", size_below(0, level)});
    }
  }
  return part_on_file(branch.size() - 1, begin, begin + 1);
}

inline AnyLoDTensor VariableReader::between(std::int64_t begin, std::int64_t end) const {
  const bool has_levels = !tensor(0).offsets.empty();
  const std::int64_t size = has_levels ? sequences(0, 0) : rows(0);
  if (begin < 0 || end < begin || end > size) {
    throw OutOfRange(
        text({place(), ": slice [", begin, ", ", end, ") of ", size, has_levels ? " sequences" : " rows"}));
  }
  return part_on_file(0, begin, end);
}

/// Sequences [begin, end) of a level with everything below them; rows if there is no level.
inline AnyLoDTensor VariableReader::part_on_file(std::size_t level, std::int64_t begin, std::int64_t end) const {
  std::vector<std::vector<std::int64_t>> rebased;
  for (; level < tensor(0).offsets.size(); ++level) {
    const auto first = static_cast<std::size_t>(begin);
    const Numbers numbers =
        numbers_on_file(tensor(0).offsets[level]).subspan(first, static_cast<std::size_t>(end - begin) + 1);
    begin = end = numbers[0];
    auto& offsets = rebased.emplace_back();
    offsets.reserve(numbers.size());
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      if (numbers[i] < 0 || numbers[i] < end || numbers[i] > size_below(0, level)) {
        fail_offset(0, level, first + i, {"offset ", numbers[i], " follows ", end, " of ", size_below(0, level)});
      }
      end = numbers[i];
      offsets.push_back(end - begin);
    }
  }
  return rows_on_file(0, LoD::from_offsets(rebased), begin, end - begin);
}

// ---- In memory ----

inline AnyLoDTensor VariableReader::load(std::size_t i, std::pmr::memory_resource* resource) const {
  const proto::file::Tensor& stored = tensor(i);
  // In the LoD's own memory, not in that of an owner: what a plugin has loaded outlives it (see Shared).
  std::vector<std::int64_t> sizes(stored.offsets.size());
  for (std::size_t level = 0; level < sizes.size(); ++level) sizes[level] = sequences(i, level);
  const auto read_level = [&](std::size_t level, std::span<std::int64_t> numbers) {
    read(stored.offsets[level], {.tensor = i, .level = level}, std::as_writable_bytes(numbers));
  };
  LoD lod = checked_lod(
      i,
      [&] {
        return LoD::from_filled_offsets(sizes, [&](int level, std::span<std::int64_t> numbers) {
          read_level(static_cast<std::size_t>(level), numbers);
        });
      },
      [&](std::size_t level) {
        std::vector<std::int64_t> numbers(static_cast<std::size_t>(sizes[level]) + 1);
        read_level(level, numbers);
        return numbers;
      });
  AnyLoDTensor loaded(data_type(), std::move(lod), row_shape(i), uninitialized, rows(i), resource);
  {
    const PopulatedMemory populated(loaded.mutable_bytes());
    read(stored.values, {.tensor = i}, loaded.mutable_bytes());
  }
  check_bools(i, loaded.bytes(), stored.values.begin);
  return loaded;
}

}  // namespace lod::inline LOD_INTERFACE::detail::inline LOD_TARGET
