// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup files
/// Small tensors as JSON text, readable by people and every language: as nested lists, or as an object that keeps
/// everything.
///
/// Numbers are exact: integers have all their digits, floating-point numbers the fewest digits that give the same
/// number back. JSON has no NaN and no infinities: they are the strings "NaN", "Infinity" and "-Infinity" (as in
/// protobuf; all NaNs are alike). A bool is true or false, a complex number a list of its real and its imaginary part.
#pragma once

#include <lod/core/any_tensor.hpp>
#include <lod/core/data_type.hpp>
#include <lod/core/device.hpp>
#include <lod/core/error.hpp>
#include <lod/core/floating_point_control.hpp>
#include <lod/core/lod_index.hpp>
#include <lod/core/lod_tensor.hpp>
#include <lod/core/lod_view.hpp>
#include <lod/core/shape.hpp>
#include <lod/core/sizes.hpp>
#include <lod/core/target.hpp>
#include <lod/io/json_reader.hpp>
#include <lod/io/stored_values.hpp>

#include <algorithm>
#include <charconv>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

namespace lod::inline LOD_INTERFACE {

/// The forms of a tensor in JSON, for example 3 rows of 2 numbers under one level.
enum class JsonForm {
  /// `[[[1,2]],[],[[3,4],[5,6]]]`: lists nested as deep as there are levels, containing the rows, which are lists
  /// nested as deep as the row shape. Does not tell the element type, nor the row shape if there is no row, nor its
  /// dimensions after a 0: rows of shape {2, 0, 3} are `[[],[]]`, which is read as {2, 0}.
  NESTED,
  /// `{"data_type":"FP32","lod":[[0,1,1,3]],"shape":[3,2],"values":[1,2,3,4,5,6]}`: the offsets of each level, rows and
  /// row shape, and the values in one list. The complete tensor.
  OBJECT,
};

namespace detail::inline LOD_TARGET {

/// The most empty lists that nested JSON is written with.
inline constexpr std::int64_t most_empty_lists = std::int64_t{1} << 24;

/// Appends values, and lists of them, to a text.
class JsonWriter {
 public:
  template <class T>
  void number(T value) {
    if constexpr (std::is_same_v<T, bool>) {
      text_ += value ? "true" : "false";
    } else if constexpr (requires { value.imag(); }) {
      const typename T::value_type parts[] = {value.real(), value.imag()};
      list(2, [&](std::int64_t i) { number(parts[i]); });
    } else if constexpr (!std::is_arithmetic_v<T>) {
      number(static_cast<float>(value));  // a 16-bit float, which a float holds exactly
    } else {
      if constexpr (std::is_floating_point_v<T>) {
        if (is_nan(value)) return void(text_ += "\"NaN\"");
        if (is_infinite(value)) return void(text_ += value > 0 ? "\"Infinity\"" : "\"-Infinity\"");
      }
      char digits[32];
      const auto [end, error] = std::to_chars(digits, digits + sizeof(digits), value);
      LOD_ASSERT(error == std::errc());
      text_.append(digits, end);
    }
  }
  /// item(i) writes the i-th of `count` items.
  template <class Item>
  void list(std::int64_t count, const Item& item) {
    text_ += '[';
    for (std::int64_t i = 0; i < count; ++i) {
      if (i > 0) text_ += ',';
      item(i);
    }
    text_ += ']';
  }
  template <class Numbers>
  void numbers(const Numbers& numbers) {
    list(static_cast<std::int64_t>(numbers.size()), [&](std::int64_t i) { number(numbers.begin()[i]); });
  }

  template <class T>
  void nested(const LoDTensorView<const T, Cpu>& x) {
    if (x.row_size() == 0) check_empty_lists(x);
    sequences(x);
  }
  template <class T>
  void object(const LoDTensorView<const T, Cpu>& x) {
    const LoD lod = x.lod();
    text_ += text({"{\"data_type\":\"", to_string(data_type_v<T>), "\",\"lod\":"});
    list(lod.levels(), [&](std::int64_t level) { numbers(lod.offsets(static_cast<int>(level))); });
    text_ += ",\"shape\":";
    numbers(x.shape());
    text_ += ",\"values\":";
    numbers(x.values());
    text_ += '}';
  }

  std::string take() noexcept { return std::move(text_); }

 private:
  /// Rows without elements take no memory, but an empty list takes a character or two.
  template <class T>
  static void check_empty_lists(const LoDTensorView<const T, Cpu>& x) {
    std::int64_t lists = x.rows();
    for (const std::int64_t dim : x.row_shape()) {
      if (dim == 0) break;
      lists = saturated_product(lists, dim);
    }
    if (lists > most_empty_lists) {
      throw ShapeMismatch(text({"to_json: ", lists, " lists without elements, expected ", most_empty_lists,
                                " at most in nested form; the object form takes any number"}));
    }
  }
  template <class T>
  void sequences(const LoDTensorView<const T, Cpu>& x) {
    list(x.size(), [&](std::int64_t i) {
      if (x.levels() > 0) {
        sequences(x.element(i));
      } else {
        row(x.data() + i * x.row_size(), x.row_shape());
      }
    });
  }
  template <class T>
  void row(const T* values, const Shape& shape) {
    if (shape.empty()) return number(*values);
    const Shape part = shape.without_first();
    list(shape.front(), [&](std::int64_t i) { row(values + i * part.elements(), part); });
  }

  std::string text_;
};

/// Reads nested lists: `levels` nested lists of sequences, containing the rows, which are lists of one shape.
template <class T>
class NestedJsonReader {
 public:
  NestedJsonReader(std::string_view text, int levels)
      : json_(text), levels_(static_cast<std::size_t>(levels)), lengths_(levels_) {}

  LoDTensor<T> read() {
    const std::int64_t rows = sequences(0);
    json_.expect_end();
    const Shape row_shape(std::span<const std::int64_t>(dims_, rank_.value_or(0)));
    LoDTensor<T> tensor = levels_ > 0 ? LoDTensor<T>(LoD::from_lengths(lengths_), row_shape, uninitialized)
                                      : LoDTensor<T>(Shape(rows, row_shape), uninitialized);
    if (!values_.empty()) std::memcpy(tensor.data(), values_.data(), values_.size());
    return tensor;
  }

 private:
  /// A list of the sequences of a level; at the last level, of rows.
  std::int64_t sequences(std::size_t level) {
    return json_.list([&] {
      if (level == levels_) {
        row(0);
      } else {
        const std::int64_t length = sequences(level + 1);
        lengths_[level].push_back(length);
      }
    });
  }
  /// A row, or the part of it that is `depth` lists below. The first one determines the shape that all have.
  void row(std::size_t depth) {
    if (!json_.is_list<T>()) {
      if (rank_.value_or(depth) != depth) json_.fail({"a number, expected a list of ", dims_[depth]});
      rank_ = depth;
      const T value = json_.value<T>();
      const char* const bytes = reinterpret_cast<const char*>(&value);
      values_.append(bytes, sizeof(T));
      return;
    }
    const std::size_t begin = json_.position();
    if (depth >= rank_.value_or(depth + 1)) json_.fail({"a list, expected a number"});
    if (depth + 1 == Shape::max_rank) json_.fail({"more than ", Shape::max_rank, " dimensions"});
    const std::int64_t length = json_.list([&] { row(depth + 1); });
    if (length == 0 && !rank_) rank_ = depth + 1;
    if (dims_[depth] < 0) dims_[depth] = length;
    if (dims_[depth] != length) {
      json_.fail_at(begin, {"a list of ", length, ", expected ", dims_[depth], " as before: rows have one shape"});
    }
  }

  JsonReader json_;
  std::size_t levels_;
  std::vector<std::vector<std::int64_t>> lengths_;
  std::optional<std::size_t> rank_;  // of a row, once one has been read
  std::int64_t dims_[Shape::max_rank] = {-1, -1, -1, -1, -1, -1, -1, -1};
  std::string values_;
};

/// Reads the object form. The values are parsed last, wherever they are: only then their type and number are known.
class JsonObjectReader {
 public:
  explicit JsonObjectReader(std::string_view text) noexcept : json_(text) {}

  AnyLoDTensor read() {
    json_.expect('{');
    if (!json_.skip('}')) {
      do {
        read_member();
      } while (json_.skip(','));
      if (!json_.skip('}')) json_.fail({"',' or '}' expected"});
    }
    json_.expect_end();
    check_members();
    const AnyLoDTensor tensor = read_values();
    try {
      return tensor.with_lod(lod_.value_or(LoD()));
    } catch (const ShapeMismatch& mismatch) {
      json_.fail_at(lod_at_, {mismatch.what()});
    }
  }

 private:
  /// Lists all missing members, so that people who write such a text by hand see them all at once.
  void check_members() const {
    std::string missing;
    const auto note = [&](bool is_there, const char* name) {
      if (!is_there) missing += text({missing.empty() ? "no \"" : ", no \"", name, "\""});
    };
    note(data_type_.has_value(), "data_type");
    note(shape_.has_value(), "shape");
    note(values_at_.has_value(), "values");
    if (!missing.empty()) json_.fail({missing});
  }
  void read_member() {
    json_.peek();
    const std::size_t begin = json_.position();
    const std::string_view key = json_.name();
    json_.expect(':');
    json_.peek();
    const std::size_t value = json_.position();
    if (key == "data_type" && !data_type_) {
      data_type_ = read_data_type();
    } else if (key == "lod" && !lod_) {
      lod_at_ = value;
      lod_ = read_lod();
    } else if (key == "shape" && !shape_) {
      shape_ = read_shape();
    } else if (key == "values" && !values_at_) {
      json_.skip_list();
      values_at_ = value;
      values_end_ = json_.position();
    } else {
      json_.fail_at(begin, {"\"data_type\", \"lod\", \"shape\" and \"values\" expected, each once"});
    }
  }
  DataType read_data_type() {
    const std::size_t begin = json_.position();
    const std::string_view name = json_.name();
    for (std::int32_t number = 0; number <= static_cast<std::int32_t>(DataType::UINT64); ++number) {
      const auto type = static_cast<DataType>(number);
      const bool has_values = type != DataType::FP8_E4M3FN && type != DataType::FP8_E5M2;
      if (is_pod(type) && has_values && name == to_string(type)) return type;
    }
    json_.fail_at(begin, {"the name of a DataType expected, one with a C++ type"});
  }
  std::vector<std::int64_t> read_integers() {
    std::vector<std::int64_t> numbers;
    json_.list([&] { numbers.push_back(json_.value<std::int64_t>()); });
    return numbers;
  }
  LoD read_lod() {
    std::vector<std::vector<std::int64_t>> offsets;
    json_.list([&] {
      if (offsets.size() == std::size_t{max_levels}) json_.fail({"more than ", max_levels, " levels"});
      offsets.push_back(read_integers());
    });
    try {
      return LoD::from_offsets(offsets);
    } catch (const InvalidLoD& invalid) {
      json_.fail_at(lod_at_, {invalid.what()});
    }
  }
  Shape read_shape() {
    const std::size_t begin = json_.position();
    const std::vector<std::int64_t> dims = read_integers();
    if (dims.empty()) json_.fail_at(begin, {"a shape without the number of rows"});
    try {
      return Shape(dims);
    } catch (const ShapeMismatch& mismatch) {
      json_.fail_at(begin, {mismatch.what()});
    }
  }
  AnyLoDTensor read_values() {
    const auto elements = static_cast<std::uint64_t>(shape_->elements());
    // A value and its separator take at least two characters.
    if (elements > (values_end_ - *values_at_) / 2) {
      json_.fail_at(*values_at_, {"fewer values than the ", elements, " of the shape"});
    }
    AnyLoDTensor tensor(*data_type_, LoD(), shape_->without_first(), uninitialized, shape_->front());
    json_.go_to(*values_at_);
    with_element_type(*data_type_, [&](auto element) {
      using T = typename decltype(element)::type;
      T* const values = reinterpret_cast<T*>(tensor.mutable_bytes().data());
      std::uint64_t count = 0;
      json_.list([&] {
        if (count == elements) json_.fail({"more values than the ", elements, " of the shape"});
        values[count++] = json_.template value<T>();
      });
      if (count < elements) json_.fail({count, " values, expected the ", elements, " of the shape"});
    });
    return tensor;
  }

  JsonReader json_;
  std::optional<DataType> data_type_;
  std::optional<LoD> lod_;
  std::optional<Shape> shape_;
  std::optional<std::size_t> values_at_;
  std::size_t lod_at_ = 0, values_end_ = 0;
};

}  // namespace detail::inline LOD_TARGET

/// A tensor, a view or a slice as JSON, without spaces:
///
///     lod::to_json(x);                         // [[[1,2],[3]],[[4,5,6]]]
///     lod::to_json(x, lod::JsonForm::OBJECT);  // {"data_type":"INT32","lod":[[0,2,3],[0,2,3,6]],
///                                              //  "shape":[6],"values":[1,2,3,4,5,6]}
///
/// An empty sequence is `[]`, and so is an empty batch. The offsets of a slice are counted from its start. O(elements).
/// Throws ShapeMismatch for the nested form of more than 2^24 rows (and lists in them) without elements.
template <LoDTensorLike X>
  requires(std::same_as<typename X::device, Cpu>)
LOD_TAGGED std::string to_json(const X& x, JsonForm form = JsonForm::NESTED) {
  const detail::FloatingPointControl standard;  // otherwise a subnormal number might be written as 0
  detail::JsonWriter writer;
  if (form == JsonForm::OBJECT) {
    writer.object(x.view());
  } else {
    writer.nested(x.view());
  }
  return writer.take();
}
/// The same for elements of any type. SIZE_T is UINT64 under another name. Throws std::invalid_argument for FP8_E4M3FN
/// and FP8_E5M2, whose numbers C++ cannot read, and for a bool that is neither 0 nor 1.
LOD_TAGGED inline std::string to_json(const AnyLoDTensor& x, JsonForm form = JsonForm::NESTED) {
  detail::check_stored_values(x.data_type(), x.bytes(), "to_json");
  return x.visit([&](const auto& view) { return to_json(view, form); });
}

/// The tensor in nested lists: `levels` nested lists of sequences, containing the rows. Sequences may have any length.
/// All rows have the shape of the first one; without rows, the row shape is that of scalars. Without levels the lists
/// are those of a plain tensor. Throws ParseError if the lists do not fit this, if the text is not JSON, for a number
/// beyond the range of T, for an integer that is not written as one, and for any other kind of value than T needs;
/// OutOfRange for levels that are negative or more than `max_levels`.
///
/// Nonzero numbers too small for a floating-point type become 0. 16-bit numbers are rounded via double.
template <class T>
LOD_TAGGED LoDTensor<T> from_json(std::string_view text, int levels) {
  if (levels < 0 || levels > max_levels) {
    throw OutOfRange(detail::text({"from_json: ", levels, " levels, expected 0 to ", max_levels}));
  }
  const detail::FloatingPointControl standard;
  return detail::NestedJsonReader<T>(text, levels).read();
}

/// The tensor in the object form: its members in any order, each once; without `lod` it has no level. Values are read
/// as above. Throws ParseError, also if offsets, shape and values do not agree.
LOD_TAGGED inline AnyLoDTensor from_json(std::string_view text) {
  const detail::FloatingPointControl standard;
  return detail::JsonObjectReader(text).read();
}
/// The same. Throws ShapeMismatch unless the elements are of type T.
template <class T>
LOD_TAGGED LoDTensor<T> from_json(std::string_view text) {
  return from_json(text).take<T>();
}

}  // namespace lod::inline LOD_INTERFACE
