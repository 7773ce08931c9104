// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup descriptions
/// The three older revisions of the descriptions: r1, r2 and r3, each as plain structs with the names of its document,
/// and their conversion to the newest (<lod/desc.hpp>).
///
/// encode and decode of <lod/proto.hpp> handle them like the newest:
///
///     const auto old = lod::decode<lod::proto::r2::VarDesc>(bytes);
///     const lod::proto::Converted x = lod::proto::to_newest(old);
///     for (const std::string& sentence : x.not_kept) warn(sentence);
///     use(x.description);
///
/// The bytes do not say of which revision they are, and some are valid messages in two of them: the reader of a file
/// must know who wrote it. The wrong revision is usually, but not always, a ParseError.
///
/// The schemas are proto/var_desc_r1.proto to var_desc_r3.proto; they name the mistakes in the documents that had to be
/// corrected. As in <lod/desc.hpp>, a field is Defaulted if its document gives it a default of zero, and each struct
/// keeps the fields that it has no name for.
#pragma once

#include <lod/core/desc.hpp>
#include <lod/core/target.hpp>
#include <lod/io/proto/desc.hpp>
#include <lod/io/proto/message.hpp>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace lod::inline LOD_INTERFACE::proto {

// ---- The first revision: a description also holds the value ----

namespace r1 {

/// A tensor, with all its elements if they are known.
struct LoDTensorDesc {
  /// The element types.
  enum Type : std::int32_t {
    INT16 = 1,
    INT32 = 2,
    INT64 = 3,
    FP16 = 4,
    FP32 = 5,
    DOUBLE = 6,
    BOOL = 7,
  };

  Type element_type = FP32;
  std::vector<std::int32_t> dims = {};
  Defaulted<std::int32_t> lod_level = {};
  // The elements, in the field of their type; there is none for FP16. They are packed on the wire.
  std::vector<std::int32_t> int16_val = {};
  std::vector<std::int32_t> int32_val = {};
  std::vector<std::int64_t> int64_val = {};
  std::vector<float> float_val = {};
  std::vector<double> double_val = {};
  std::vector<bool> bool_val = {};
  std::string unknown_fields = {};

  LOD_TAGGED bool operator==(const LoDTensorDesc&) const = default;
};

/// The value of a variable, in the field of its type.
struct Value {
  std::optional<std::int32_t> i = {};
  std::optional<float> f = {};
  std::optional<std::string> s = {};
  std::vector<std::int32_t> ints = {};
  std::vector<float> floats = {};
  std::vector<std::string> strings = {};
  std::optional<LoDTensorDesc> lod_tensor = {};
  std::string unknown_fields = {};

  LOD_TAGGED bool operator==(const Value&) const = default;
};

/// A variable: a scalar, a string, a list of either, or a tensor.
struct VarDesc {
  /// The kinds of variables.
  enum Type : std::int32_t {
    INT = 0,
    FLOAT = 1,
    STRING = 2,
    INTS = 3,
    FLOATS = 4,
    STRINGS = 5,
    LOD_TENSOR = 6,
  };
  /// Its value.
  using Value = r1::Value;

  std::string name = {};
  Type type = LOD_TENSOR;
  Value value = {};
  std::string unknown_fields = {};

  LOD_TAGGED bool operator==(const VarDesc&) const = default;
};

}  // namespace r1

// ---- The second revision: every variable is a tensor, and its values are elsewhere ----

namespace r2 {

/// The element types.
enum class DataType : std::int32_t {
  BOOL = 0,
  INT16 = 1,
  INT32 = 2,
  INT64 = 3,
  FP16 = 4,
  FP32 = 5,
  FP64 = 6,
};

/// A tensor and the number of its levels.
struct LoDTensorDesc {
  DataType data_type = DataType::FP32;
  std::vector<std::int32_t> dims = {};
  Defaulted<std::int32_t> lod_level = {};
  std::string unknown_fields = {};

  LOD_TAGGED bool operator==(const LoDTensorDesc&) const = default;
};

/// A variable.
struct VarDesc {
  std::string name = {};
  std::optional<LoDTensorDesc> lod_tensor = {};
  std::string unknown_fields = {};

  LOD_TAGGED bool operator==(const VarDesc&) const = default;
};

}  // namespace r2

// ---- The third revision: a variable is a tensor or selected rows ----

namespace r3 {

using r2::DataType;

/// The element type and the dimensions of a tensor.
struct TensorDesc {
  DataType data_type = DataType::FP32;
  std::vector<std::int64_t> dims = {};
  std::string unknown_fields = {};

  LOD_TAGGED bool operator==(const TensorDesc&) const = default;
};

/// A tensor and the number of its levels.
struct LoDTensorDesc {
  TensorDesc tensor = {};
  std::optional<std::int32_t> lod_level = {};
  std::string unknown_fields = {};

  LOD_TAGGED bool operator==(const LoDTensorDesc&) const = default;
};

/// A variable.
struct VarDesc {
  /// The kinds of variables.
  enum VarType : std::int32_t {
    LOD_TENSOR = 0,
    SELECTED_ROWS = 1,
  };

  std::string name = {};
  VarType type = LOD_TENSOR;
  std::optional<LoDTensorDesc> lod_desc = {};
  std::optional<TensorDesc> selected_rows_desc = {};
  Defaulted<bool> persistable = {};
  std::string unknown_fields = {};

  LOD_TAGGED bool operator==(const VarDesc&) const = default;
};

}  // namespace r3

// ---- To the newest revision ----

/// A description of an older revision, converted to the newest.
struct Converted {
  VarDesc description = {};
  /// A sentence for each thing that the newest revision cannot express; empty if nothing was lost.
  std::vector<std::string> not_kept = {};
};

/// The same variable in the newest revision, without its value, which descriptions no longer hold: to_variable has that
/// (<lod/io/proto/revision_values.hpp>). INT, FLOAT, STRING
/// and STRINGS become the kinds INT32, FP32, STRING and STRINGS; INTS and FLOATS, a tensor of rank 1.
///
/// Not kept, and reported: values, fields of the value, that a variable is a list rather than a tensor, unknown fields
/// (their numbers mean something else in the newest revision). Throws std::invalid_argument for an enum value that does
/// not exist.
LOD_TAGGED Converted to_newest(const r1::VarDesc& old);

/// The same variable in the newest revision: of type LOD_TENSOR, as all were. Not kept, and reported: unknown fields.
/// Throws as above.
LOD_TAGGED Converted to_newest(const r2::VarDesc& old);

/// The same variable in the newest revision. Not kept, and reported: unknown fields of the variable itself. Those of a
/// TensorDesc or a LoDTensorDesc are kept, since both have the same fields in the newest. Throws as above.
LOD_TAGGED Converted to_newest(const r3::VarDesc& old);

// ---- The fields, for the codec ----

template <>
struct EnumSchema<r1::LoDTensorDesc::Type> {
  static constexpr const char* name = "LoDTensorDesc::Type";
  LOD_TAGGED static constexpr bool contains(std::int32_t number) noexcept {
    return number >= r1::LoDTensorDesc::INT16 && number <= r1::LoDTensorDesc::BOOL;
  }
};
template <>
struct EnumSchema<r1::VarDesc::Type> {
  static constexpr const char* name = "VarDesc::Type";
  LOD_TAGGED static constexpr bool contains(std::int32_t number) noexcept {
    return number >= r1::VarDesc::INT && number <= r1::VarDesc::LOD_TENSOR;
  }
};
template <>
struct EnumSchema<r2::DataType> {
  static constexpr const char* name = "DataType";
  LOD_TAGGED static constexpr bool contains(std::int32_t number) noexcept {
    return number >= 0 && number <= static_cast<std::int32_t>(r2::DataType::FP64);
  }
};
template <>
struct EnumSchema<r3::VarDesc::VarType> {
  static constexpr const char* name = "VarDesc::VarType";
  LOD_TAGGED static constexpr bool contains(std::int32_t number) noexcept {
    return number >= r3::VarDesc::LOD_TENSOR && number <= r3::VarDesc::SELECTED_ROWS;
  }
};

template <>
struct Schema<r1::LoDTensorDesc> {
  static constexpr const char* name = "LoDTensorDesc";
  static constexpr std::tuple fields{
      Field<1, &r1::LoDTensorDesc::element_type>{"element_type"},
      Field<2, &r1::LoDTensorDesc::dims>{"dims"},
      Field<3, &r1::LoDTensorDesc::lod_level>{"lod_level"},
      Field<4, &r1::LoDTensorDesc::int16_val, Packed::YES>{"int16_val"},
      Field<5, &r1::LoDTensorDesc::int32_val, Packed::YES>{"int32_val"},
      Field<6, &r1::LoDTensorDesc::int64_val, Packed::YES>{"int64_val"},
      Field<7, &r1::LoDTensorDesc::float_val, Packed::YES>{"float_val"},
      Field<8, &r1::LoDTensorDesc::double_val, Packed::YES>{"double_val"},
      Field<9, &r1::LoDTensorDesc::bool_val, Packed::YES>{"bool_val"},
  };
};
template <>
struct Schema<r1::Value> {
  static constexpr const char* name = "Value";
  static constexpr std::tuple fields{
      Field<1, &r1::Value::i>{"i"},
      Field<2, &r1::Value::f>{"f"},
      Field<3, &r1::Value::s>{"s"},
      Field<4, &r1::Value::ints>{"ints"},
      Field<5, &r1::Value::floats>{"floats"},
      Field<6, &r1::Value::strings>{"strings"},
      Field<7, &r1::Value::lod_tensor>{"lod_tensor"},
  };
};
template <>
struct Schema<r1::VarDesc> {
  static constexpr const char* name = "VarDesc";
  static constexpr std::tuple fields{
      Field<1, &r1::VarDesc::name>{"name"},
      Field<2, &r1::VarDesc::type>{"type"},
      Field<3, &r1::VarDesc::value>{"value"},
  };
};

template <>
struct Schema<r2::LoDTensorDesc> {
  static constexpr const char* name = "LoDTensorDesc";
  static constexpr std::tuple fields{
      Field<1, &r2::LoDTensorDesc::data_type>{"data_type"},
      Field<2, &r2::LoDTensorDesc::dims>{"dims"},
      Field<3, &r2::LoDTensorDesc::lod_level>{"lod_level"},
  };
};
template <>
struct Schema<r2::VarDesc> {
  static constexpr const char* name = "VarDesc";
  static constexpr std::tuple fields{
      Field<1, &r2::VarDesc::name>{"name"},
      Field<2, &r2::VarDesc::lod_tensor>{"lod_tensor"},
  };
};

template <>
struct Schema<r3::TensorDesc> {
  static constexpr const char* name = "TensorDesc";
  static constexpr std::tuple fields{
      Field<1, &r3::TensorDesc::data_type>{"data_type"},
      Field<2, &r3::TensorDesc::dims>{"dims"},
  };
};
template <>
struct Schema<r3::LoDTensorDesc> {
  static constexpr const char* name = "LoDTensorDesc";
  static constexpr std::tuple fields{
      Field<1, &r3::LoDTensorDesc::tensor>{"tensor"},
      Field<2, &r3::LoDTensorDesc::lod_level>{"lod_level"},
  };
};
template <>
struct Schema<r3::VarDesc> {
  static constexpr const char* name = "VarDesc";
  static constexpr std::tuple fields{
      Field<1, &r3::VarDesc::name>{"name"},
      Field<2, &r3::VarDesc::type>{"type"},
      Field<3, &r3::VarDesc::lod_desc>{"lod_desc"},
      Field<4, &r3::VarDesc::selected_rows_desc>{"selected_rows_desc"},
      Field<5, &r3::VarDesc::persistable>{"persistable"},
  };
};

// ---- Conversion to the newest ----

namespace detail {

/// Collects what is not kept of a variable.
class Losses {
 public:
  LOD_TAGGED Losses(const std::string& variable, std::vector<std::string>& sentences)
      : variable_(variable), sentences_(sentences) {}

  LOD_TAGGED void add(const char* where, std::initializer_list<Piece> what) {
    sentences_.push_back(text({"'", variable_, "': ", where, ": ", text(what)}));
  }
  LOD_TAGGED void add_values(const char* field, std::size_t count) {
    if (count == 0) return;
    add(field, {count, count == 1 ? " value is" : " values are", " not kept: descriptions hold none any more"});
  }
  LOD_TAGGED void add_unknown_fields(const char* message, const std::string& fields) {
    if (fields.empty()) return;
    add(message, {fields.size(), " bytes of unknown fields are not kept: their numbers may have another meaning now"});
  }

 private:
  const std::string& variable_;
  std::vector<std::string>& sentences_;
};

// The numbers of the data types are those of the newest, except BOOL, which was 7 at first.
LOD_TAGGED inline DataType newest(r1::LoDTensorDesc::Type type) {
  check_enum(type, "LoDTensorDesc", "element_type");
  return type == r1::LoDTensorDesc::BOOL ? DataType::BOOL : static_cast<DataType>(type);
}
LOD_TAGGED inline DataType newest(r2::DataType type, const char* message) {
  check_enum(type, message, "data_type");
  return static_cast<DataType>(type);
}

LOD_TAGGED inline LoDTensorDesc newest(const r1::LoDTensorDesc& old, Losses& losses) {
  losses.add_values("value.lod_tensor.int16_val", old.int16_val.size());
  losses.add_values("value.lod_tensor.int32_val", old.int32_val.size());
  losses.add_values("value.lod_tensor.int64_val", old.int64_val.size());
  losses.add_values("value.lod_tensor.float_val", old.float_val.size());
  losses.add_values("value.lod_tensor.double_val", old.double_val.size());
  losses.add_values("value.lod_tensor.bool_val", old.bool_val.size());
  losses.add_unknown_fields("value.lod_tensor", old.unknown_fields);
  return {{newest(old.element_type), {old.dims.begin(), old.dims.end()}}, old.lod_level};
}

LOD_TAGGED inline LoDTensorDesc newest(const r2::LoDTensorDesc& old, Losses& losses) {
  losses.add_unknown_fields("lod_tensor", old.unknown_fields);
  return {{newest(old.data_type, "LoDTensorDesc"), {old.dims.begin(), old.dims.end()}}, old.lod_level};
}

LOD_TAGGED inline TensorDesc newest(const r3::TensorDesc& old) {
  return {newest(old.data_type, "TensorDesc"), old.dims, old.unknown_fields};
}
LOD_TAGGED inline LoDTensorDesc newest(const r3::LoDTensorDesc& old) {
  LoDTensorDesc desc{newest(old.tensor), {}, old.unknown_fields};
  if (old.lod_level) desc.lod_level = *old.lod_level;
  return desc;
}

}  // namespace detail

LOD_TAGGED inline Converted to_newest(const r1::VarDesc& old) {
  Converted converted{.description = {.name = old.name}};
  detail::Losses losses(old.name, converted.not_kept);
  VarType& type = converted.description.type;
  const r1::Value& value = old.value;

  const auto describe_list = [&](DataType element, std::size_t count) {
    type.type = VarType::LOD_TENSOR;
    type.lod_tensor = LoDTensorDesc{{element, {static_cast<std::int64_t>(count)}}};
    losses.add("type", {"that it is a list is not kept: there are none any more, so it is described as a tensor"});
  };
  detail::check_enum(old.type, "VarDesc", "type");
  switch (old.type) {
    case r1::VarDesc::INT:
      type.type = VarType::INT32;
      break;
    case r1::VarDesc::FLOAT:
      type.type = VarType::FP32;
      break;
    case r1::VarDesc::STRING:
      type.type = VarType::STRING;
      break;
    case r1::VarDesc::INTS:
      describe_list(DataType::INT32, value.ints.size());
      break;
    case r1::VarDesc::FLOATS:
      describe_list(DataType::FP32, value.floats.size());
      break;
    case r1::VarDesc::STRINGS:
      type.type = VarType::STRINGS;
      break;
    case r1::VarDesc::LOD_TENSOR:
      type.type = VarType::LOD_TENSOR;
      if (value.lod_tensor) type.lod_tensor = detail::newest(*value.lod_tensor, losses);
      break;
  }
  if (value.lod_tensor && old.type != r1::VarDesc::LOD_TENSOR) {
    losses.add("value.lod_tensor", {"the tensor is not kept: the variable is of another type"});
  }
  losses.add_values("value.i", value.i.has_value());
  losses.add_values("value.f", value.f.has_value());
  losses.add_values("value.s", value.s.has_value());
  losses.add_values("value.ints", value.ints.size());
  losses.add_values("value.floats", value.floats.size());
  losses.add_values("value.strings", value.strings.size());
  losses.add_unknown_fields("value", value.unknown_fields);
  losses.add_unknown_fields("VarDesc", old.unknown_fields);
  return converted;
}

LOD_TAGGED inline Converted to_newest(const r2::VarDesc& old) {
  Converted converted{.description = VarDesc::of_type(old.name, VarType::LOD_TENSOR)};
  detail::Losses losses(old.name, converted.not_kept);
  if (old.lod_tensor) converted.description.type.lod_tensor = detail::newest(*old.lod_tensor, losses);
  losses.add_unknown_fields("VarDesc", old.unknown_fields);
  return converted;
}

LOD_TAGGED inline Converted to_newest(const r3::VarDesc& old) {
  detail::check_enum(old.type, "VarDesc", "type");
  const bool is_rows = old.type == r3::VarDesc::SELECTED_ROWS;
  Converted converted{.description =
                          VarDesc::of_type(old.name, is_rows ? VarType::SELECTED_ROWS : VarType::LOD_TENSOR)};
  // Both, whichever the type selects: the newest revision has a field for each too.
  VarType& type = converted.description.type;
  if (old.lod_desc) type.lod_tensor = detail::newest(*old.lod_desc);
  if (old.selected_rows_desc) type.selected_rows = detail::newest(*old.selected_rows_desc);
  converted.description.persistable = old.persistable;
  detail::Losses(old.name, converted.not_kept).add_unknown_fields("VarDesc", old.unknown_fields);
  return converted;
}

}  // namespace lod::inline LOD_INTERFACE::proto
