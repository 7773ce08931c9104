// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup core
/// Reads an Arrow array as a LoD and rows: checks its structs and finds the memory that they point to.
#pragma once

#include <lod/core/buffer.hpp>
#include <lod/core/data_type.hpp>
#include <lod/core/error.hpp>
#include <lod/core/lod_index.hpp>
#include <lod/core/shape.hpp>
#include <lod/core/target.hpp>
#include <lod/interop/arrow/abi.hpp>
#include <lod/interop/arrow/schema.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace lod::inline LOD_INTERFACE::detail::inline LOD_TARGET {

/// The role of a schema's field in a tensor.
struct ArrowField {
  enum Kind { LIST, LARGE_LIST, FIXED_SIZE_LIST, ELEMENTS };
  Kind kind;
  std::int64_t list_size = 0;  // of a FIXED_SIZE_LIST
};

/// Throws std::invalid_argument for list types that a LoD cannot express; any other format is that of elements.
inline ArrowField read_field(std::string_view format) {
  if (format == "+l") return {ArrowField::LIST};
  if (format == "+L") return {ArrowField::LARGE_LIST};
  if (format.starts_with("+w:") && format.size() > 3) {
    std::int64_t size = 0;
    bool is_number = true;
    for (const char digit : format.substr(3)) {
      is_number = is_number && digit >= '0' && digit <= '9' && !__builtin_mul_overflow(size, 10, &size) &&
                  !__builtin_add_overflow(size, digit - '0', &size);
    }
    if (is_number) return {ArrowField::FIXED_SIZE_LIST, size};
  }
  if (format.empty() || format[0] == '+') {
    throw std::invalid_argument(
        readable(text({"from_arrow: the format '", std::string(format),
                       "', expected a list, a large list or a list of fixed size (+l, +L, +w:N)"})));
  }
  return {ArrowField::ELEMENTS};
}

/// @{
/// Throw std::invalid_argument for a struct that is released, that is dictionary-encoded, or that has another number of
/// children than expected.
template <class Struct>
void check_struct(const Struct& found, const char* what, const std::string& where) {
  const char* const wrong = !found.release     ? " that is released"
                            : found.dictionary ? " that is dictionary-encoded: decode it first"
                                               : nullptr;
  if (wrong) throw std::invalid_argument(text({"from_arrow: ", where, ": ", what, wrong}));
}
template <class Struct>
void check_children(const Struct& found, std::int64_t expected, const char* what, const std::string& where) {
  const bool missing = expected > 0 && (!found.children || !found.children[0]);
  if (found.n_children != expected || missing) {
    throw std::invalid_argument(text({"from_arrow: ", where, ": ", what, " with ", missing ? 0 : found.n_children,
                                      " children, expected ", expected}));
  }
}

/// @}

/// Throws for lengths beyond 64 bits and for another number of buffers than expected.
inline void check_array(const ArrowArray& array, std::int64_t buffers, const std::string& where) {
  std::int64_t end = 0;
  if (array.length < 0 || array.offset < 0 || __builtin_add_overflow(array.offset, array.length, &end)) {
    throw ShapeMismatch(text({"from_arrow: ", where, ": offset ", array.offset, " and length ", array.length}));
  }
  const std::int64_t count = array.buffers ? array.n_buffers : 0;
  if (count != buffers) {
    throw std::invalid_argument(text({"from_arrow: ", where, ": ", count, " buffers, expected ", buffers}));
  }
}

/// Items [begin, begin + count) of an array, counted from the start of its buffers.
struct ArrowPart {
  const ArrowArray* array;
  std::int64_t begin;
  std::int64_t count;
};

/// An array interpreted as a tensor. The pointers lead to the array's memory, except those into `own`.
struct ArrowContents {
  std::vector<std::span<const std::int64_t>> levels;  // the offsets, from 0 on
  std::vector<std::vector<std::int64_t>> own;         // those that had to be rewritten
  Shape row_shape;
  std::int64_t rows = 0;
  DataType type = DataType::FP32;
  bool bits = false;                  // booleans of one bit each
  const std::byte* buffer = nullptr;  // what holds the elements
  std::int64_t first = 0;             // the index of the first of them there
  std::int64_t elements = 0;

  /// The elements, unless they are bits.
  std::span<const std::byte> bytes() const noexcept {
    if (elements == 0) return {};
    const std::size_t size = size_of(type);
    return {buffer + static_cast<std::size_t>(first) * size, static_cast<std::size_t>(elements) * size};
  }
};

/// The deepest nesting that is read: a list for each level and each dimension of a row. It also stops at an ArrowSchema
/// that is its own child.
inline constexpr std::size_t deepest_arrow = std::size_t{max_levels} + Shape::max_rank;

/// Memory says where the buffers are: `fetch(address, bytes)` brings bytes to where the CPU can read them, and
/// `in_place` says whether that is their own address.
template <class Memory>
class ArrowReader {
 public:
  explicit ArrowReader(Memory& memory) : memory_(memory) {}

  /// Throws as `from_arrow` does. `expected` is the requested element type, used if the storage fits it.
  ArrowContents read(const ArrowArray& array, const ArrowSchema& schema, std::optional<DataType> expected) {
    const std::vector<ArrowField> fields = check_schema(schema, expected);
    check_arrays(array, fields);
    ArrowPart part{&array, array.offset, array.length};
    std::vector<std::int64_t> dims;
    std::size_t depth = 0;
    for (; depth + 1 < fields.size(); ++depth) {
      check_valid(part, depth);
      if (depth == levels_) found_.rows = part.count;
      if (depth >= levels_) dims.push_back(fields[depth].list_size);
      part = enter(part, fields[depth], depth);
    }
    check_valid(part, depth);
    if (depth == levels_) found_.rows = part.count;
    found_.row_shape = Shape(dims);
    read_elements(part);
    write_fixed();
    return std::move(found_);
  }

 private:
  std::string place(std::size_t depth) const {
    if (depth < levels_) return text({"level ", depth});
    return depth + 1 < depth_ ? text({"dimension ", depth - levels_, " of the rows"}) : "the elements";
  }

  /// Returns the fields from the outside in, and the element type.
  std::vector<ArrowField> check_schema(const ArrowSchema& schema, std::optional<DataType> expected) {
    std::vector<ArrowField> fields;
    for (const ArrowSchema* field = &schema;; field = field->children[0]) {
      if (fields.size() > deepest_arrow) {
        throw std::invalid_argument(text({"from_arrow: more than ", deepest_arrow, " lists within one another"}));
      }
      const std::string where = text({"field ", fields.size()});
      check_struct(*field, "a schema", where);
      fields.push_back(read_field(field->format ? field->format : ""));
      const bool inner = fields.back().kind == ArrowField::ELEMENTS;
      check_children(*field, inner ? 0 : 1, "a schema", where);
      if (inner) {
        found_.bits = std::string_view(field->format) == "b";
        found_.type =
            found_.bits ? DataType::BOOL : element_type(field->format, extension_name(field->metadata), expected);
        break;
      }
      if (fields.back().kind != ArrowField::FIXED_SIZE_LIST) levels_ = fields.size();
    }
    check_level_count(levels_, "from_arrow");
    depth_ = fields.size();
    return fields;
  }

  /// Checks the structs, not yet the contents of their buffers.
  void check_arrays(const ArrowArray& array, const std::vector<ArrowField>& fields) const {
    const ArrowArray* level = &array;
    for (std::size_t depth = 0; depth < fields.size(); ++depth) {
      const bool inner = depth + 1 == fields.size();
      check_struct(*level, "an array", place(depth));
      check_children(*level, inner ? 0 : 1, "an array", place(depth));
      check_array(*level, fields[depth].kind == ArrowField::FIXED_SIZE_LIST ? 1 : 2, place(depth));
      if (!inner) level = level->children[0];
    }
  }

  /// Throws InvalidLoD for a null sequence, std::invalid_argument for any other null item.
  void check_valid(const ArrowPart& part, std::size_t depth) {
    if (part.array->null_count == 0 || part.count == 0) return;
    const auto* validity = static_cast<const std::byte*>(part.array->buffers[0]);
    if (!validity) {
      if (part.array->null_count < 0) return;
      throw std::invalid_argument(text(
          {"from_arrow: ", place(depth), ": ", part.array->null_count, " items are null, but nothing says which"}));
    }
    const std::int64_t first_byte = part.begin / 8, first_bit = part.begin % 8;
    const std::byte* bytes =
        memory_.fetch(validity + first_byte, (static_cast<std::size_t>(first_bit + part.count) + 7) / 8);
    for (std::int64_t i = 0; i < part.count; ++i) {
      const std::int64_t bit = first_bit + i;
      if (bit % 8 == 0 && i + 8 <= part.count && bytes[bit / 8] == std::byte{0xFF}) {
        i += 7;
      } else if ((bytes[bit / 8] >> (bit % 8) & std::byte{1}) == std::byte{0}) {
        const std::string null = text({"from_arrow: ", place(depth), ", position ", i, ": null"});
        if (depth < levels_) throw InvalidLoD(null + ", expected a sequence, which may be empty");
        throw std::invalid_argument(null + ", expected a value");
      }
    }
  }

  /// The items of the lists in `part`, which become a level or a dimension.
  ArrowPart enter(const ArrowPart& part, const ArrowField& field, std::size_t depth) {
    switch (field.kind) {
      case ArrowField::LIST:
        return enter_list<std::int32_t>(part, depth);
      case ArrowField::LARGE_LIST:
        return enter_list<std::int64_t>(part, depth);
      default:
        return enter_fixed(part, field.list_size, depth);
    }
  }

  template <class Number>
  ArrowPart enter_list(const ArrowPart& part, std::size_t depth) {
    const ArrowArray& child = *part.array->children[0];
    // An array without items may have no offsets at all, whatever its offset into the buffer is.
    if (part.count == 0) {
      found_.levels.emplace_back(found_.own.emplace_back(1));
      return {&child, child.offset, 0};
    }
    const auto* const buffer = static_cast<const std::byte*>(part.array->buffers[1]);
    const auto size = static_cast<std::int64_t>(sizeof(Number));
    static_cast<void>(checked_bytes(part.begin + part.count, sizeof(Number)));
    if (!buffer) throw std::invalid_argument(text({"from_arrow: ", place(depth), ": no offsets"}));
    if (reinterpret_cast<std::uintptr_t>(buffer) % alignof(Number) != 0) {
      throw std::invalid_argument(
          text({"from_arrow: ", place(depth), ": offsets at no multiple of the ", size, " bytes that they need"}));
    }
    const auto* const offsets = reinterpret_cast<const Number*>(
        memory_.fetch(buffer + part.begin * size, (static_cast<std::size_t>(part.count) + 1) * sizeof(Number)));
    const std::int64_t first = offsets[0], last = offsets[part.count];
    if (first < 0 || last < first || last > child.length) {
      throw InvalidLoD(text(
          {"from_arrow: ", place(depth), ": offsets from ", first, " to ", last, " into ", child.length, " items"}));
    }
    const auto count = static_cast<std::size_t>(part.count) + 1;
    if constexpr (std::same_as<Number, std::int64_t> && Memory::in_place) {
      if (first == 0) {
        found_.levels.emplace_back(offsets, count);
        return {&child, child.offset, last};
      }
    }
    auto& own = found_.own.emplace_back(count);
    for (std::size_t i = 0; i < count; ++i) {
      // The values in between may still be anything; the LoD is checked when it is made.
      if (__builtin_sub_overflow(std::int64_t{offsets[i]}, first, &own[i])) own[i] = -1;
    }
    found_.levels.emplace_back(own);
    return {&child, child.offset + first, last - first};
  }

  ArrowPart enter_fixed(const ArrowPart& part, std::int64_t list_size, std::size_t depth) {
    const ArrowArray& child = *part.array->children[0];
    std::int64_t begin = 0, count = 0, end = 0;
    if (part.count > 0 && (__builtin_mul_overflow(part.begin, list_size, &begin) ||
                           __builtin_mul_overflow(part.count, list_size, &count) ||
                           __builtin_add_overflow(begin, count, &end) || end > child.length)) {
      throw ShapeMismatch(text({"from_arrow: ", place(depth), ": ", part.count, " lists of ", list_size,
                                " items after ", part.begin, " others, but there are ", child.length, " items"}));
    }
    if (depth < levels_) {  // above lists of any size, fixed-size lists are a level like those
      if (part.count > 0 && list_size == 0) {
        throw std::invalid_argument(
            text({"from_arrow: ", place(depth), ": ", part.count, " lists of the fixed size 0 above other lists"}));
      }
      unwritten_.push_back({found_.levels.size(), part.count, list_size});
      found_.levels.emplace_back();
    }
    return {&child, child.offset + begin, count};
  }

  /// The offsets of fixed-size lists. Written last, once the lists below have shown offsets of their own for each item:
  /// memory is taken for what exists, not for what a length claims.
  void write_fixed() {
    for (const FixedLevel& level : unwritten_) {
      auto& own = found_.own.emplace_back(static_cast<std::size_t>(level.count) + 1);
      for (std::size_t i = 1; i < own.size(); ++i) own[i] = own[i - 1] + level.list_size;
      found_.levels[level.depth] = own;
    }
  }

  void read_elements(const ArrowPart& part) {
    found_.buffer = static_cast<const std::byte*>(part.array->buffers[1]);
    found_.first = part.begin;
    found_.elements = part.count;
    static_cast<void>(checked_bytes(part.begin + part.count, size_of(found_.type)));
    if (part.count > 0 && !found_.buffer) {
      throw std::invalid_argument(text({"from_arrow: no values for ", part.count, " elements"}));
    }
  }

  static DataType element_type(std::string_view format, std::string_view extension, std::optional<DataType> expected) {
    using enum DataType;
    if (expected && arrow_storage(*expected).format && format == arrow_storage(*expected).format) return *expected;
    for (const DataType known : {BOOL, BF16, INT8, INT16, INT32, INT64, UINT8, UINT32, UINT64, FP16, FP32, FP64}) {
      const ArrowStorage storage = arrow_storage(known);
      if (format == storage.format && (!storage.extension || extension == storage.extension)) return known;
    }
    throw std::invalid_argument(
        text({"from_arrow: elements of the format '", std::string(format), "', for which there is no DataType"}));
  }

  /// A level of fixed-size lists, which has no offsets yet.
  struct FixedLevel {
    std::size_t depth;
    std::int64_t count;
    std::int64_t list_size;
  };

  Memory& memory_;
  ArrowContents found_;
  std::vector<FixedLevel> unwritten_;
  std::size_t levels_ = 0;
  std::size_t depth_ = 0;
};

}  // namespace lod::inline LOD_INTERFACE::detail::inline LOD_TARGET
