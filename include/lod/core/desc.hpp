// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup descriptions
/// Descriptions: what is known of a variable without its values. Plain structs with the fields and names of
/// PaddlePaddle's framework.proto; <lod/proto.hpp> turns them into bytes and back.
///
/// Each struct ends with `unknown_fields`: the fields, in the wire format, that a decoder found but that this version
/// does not know, or that have an unexpected wire type. They are written back after the others, so that a file from a
/// newer writer survives a round trip.
#pragma once

#include <lod/core/data_type.hpp>
#include <lod/core/error.hpp>
#include <lod/core/target.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace lod::inline LOD_INTERFACE {

/// An optional field with a default, zero unless one is given: reads and compares as a plain T (`if (v.persistable)`),
/// and remembers whether it was set, because an explicit default is written to the wire and an absent one is not.
template <class T, T otherwise = T{}>
class Defaulted {
 public:
  /// Absent: reads as the default.
  LOD_TAGGED constexpr Defaulted() = default;
  /// Set, even if `value` is the default.
  LOD_TAGGED constexpr Defaulted(T value) noexcept : value_(value), has_value_(true) {}
  /// The default if absent.
  LOD_TAGGED constexpr operator T() const noexcept { return value_; }

  /// The default if absent.
  LOD_TAGGED constexpr T value() const noexcept { return value_; }
  /// Whether it was set.
  LOD_TAGGED constexpr bool has_value() const noexcept { return has_value_; }
  /// Makes it absent.
  LOD_TAGGED constexpr void reset() noexcept { *this = Defaulted(); }

 private:
  T value_ = otherwise;
  bool has_value_ = false;
};

// In the structs below, == compares the meaning: an absent field with a default equals one that is set to it.

/// The element type and the dimensions of a tensor; -1 stands for an unknown dimension.
///
/// Without dimensions it is a scalar, which is one row here: the same as {1} for `matches`, `check` and
/// `Variable::create`. But programs also use this form where PaddlePaddle has no rule for the shape, and the two cannot
/// be told apart: `plan_memory` treats the size as unknown, and the functions `infer_...` reject it.
struct TensorDesc {
  DataType data_type = DataType::FP32;
  std::vector<std::int64_t> dims = {};
  std::string unknown_fields = {};

  LOD_TAGGED bool operator==(const TensorDesc&) const = default;
};

/// A tensor and the number of its levels.
struct LoDTensorDesc {
  TensorDesc tensor = {};
  Defaulted<std::int32_t> lod_level = {};
  std::string unknown_fields = {};

  LOD_TAGGED bool operator==(const LoDTensorDesc&) const = default;
};

/// What the tensors of an array have in common.
struct LoDTensorArrayDesc {
  TensorDesc tensor = {};
  Defaulted<std::int32_t> lod_level = {};
  std::string unknown_fields = {};

  LOD_TAGGED bool operator==(const LoDTensorArrayDesc&) const = default;
};

/// The tensors that a reader delivers at each step.
struct ReaderDesc {
  std::vector<LoDTensorDesc> lod_tensor = {};
  std::string unknown_fields = {};

  LOD_TAGGED bool operator==(const ReaderDesc&) const = default;
};

/// The kind of a variable and, in the field of that kind, what is known of its contents.
struct VarType {
  /// All kinds: the plain old data types, with the numbers of DataType, and those that may have a description below.
  enum Type : std::int32_t {
    BOOL = 0,
    INT16 = 1,
    INT32 = 2,
    INT64 = 3,
    FP16 = 4,
    FP32 = 5,
    FP64 = 6,
    LOD_TENSOR = 7,
    SELECTED_ROWS = 8,
    FEED_MINIBATCH = 9,
    FETCH_LIST = 10,
    STEP_SCOPES = 11,
    LOD_RANK_TABLE = 12,
    LOD_TENSOR_ARRAY = 13,
    PLACE_LIST = 14,
    READER = 15,
    CHANNEL = 16,
    RAW = 17,
    TUPLE = 18,
    SIZE_T = 19,
    UINT8 = 20,
    INT8 = 21,
    BF16 = 22,
    COMPLEX64 = 23,
    COMPLEX128 = 24,
    STRING = 25,
    STRINGS = 26,
    VOCAB = 27,
    FEED_LIST = 28,
    PSTRING = 29,
    SPARSE_COO = 30,
    SPARSE_CSR = 31,
    FP8_E4M3FN = 32,
    FP8_E5M2 = 33,
    UINT32 = 37,
    UINT64 = 38,
  };

  /// The kinds of the elements of a tuple. (No initialisers here: with any, clang does not consider the class
  /// constructible inside the enclosing class.)
  struct Tuple {
    std::vector<Type> element_type;
    std::string unknown_fields;

    LOD_TAGGED Tuple() = default;
    /// A tuple of these elements.
    LOD_TAGGED Tuple(std::vector<Type> types) : element_type(std::move(types)) {}
    LOD_TAGGED bool operator==(const Tuple&) const = default;
  };

  Type type = LOD_TENSOR;
  std::optional<TensorDesc> selected_rows = {};
  std::optional<LoDTensorDesc> lod_tensor = {};
  std::optional<LoDTensorArrayDesc> tensor_array = {};
  std::optional<ReaderDesc> reader = {};
  std::optional<Tuple> tuple = {};
  std::optional<TensorDesc> string = {};
  std::optional<TensorDesc> strings = {};
  std::optional<TensorDesc> vocab = {};
  std::optional<TensorDesc> sparse_coo = {};
  std::optional<TensorDesc> sparse_csr = {};
  std::string unknown_fields = {};

  LOD_TAGGED bool operator==(const VarType&) const = default;
};

/// The name of the enumerator, "LOD_TENSOR"; "?" for a value that only a cast can produce.
LOD_TAGGED constexpr const char* to_string(VarType::Type type) noexcept {
  if (is_pod(type)) return to_string(static_cast<DataType>(type));
  switch (type) {
    case VarType::LOD_TENSOR:
      return "LOD_TENSOR";
    case VarType::SELECTED_ROWS:
      return "SELECTED_ROWS";
    case VarType::FEED_MINIBATCH:
      return "FEED_MINIBATCH";
    case VarType::FETCH_LIST:
      return "FETCH_LIST";
    case VarType::STEP_SCOPES:
      return "STEP_SCOPES";
    case VarType::LOD_RANK_TABLE:
      return "LOD_RANK_TABLE";
    case VarType::LOD_TENSOR_ARRAY:
      return "LOD_TENSOR_ARRAY";
    case VarType::PLACE_LIST:
      return "PLACE_LIST";
    case VarType::READER:
      return "READER";
    case VarType::CHANNEL:
      return "CHANNEL";
    case VarType::RAW:
      return "RAW";
    case VarType::TUPLE:
      return "TUPLE";
    case VarType::STRING:
      return "STRING";
    case VarType::STRINGS:
      return "STRINGS";
    case VarType::VOCAB:
      return "VOCAB";
    case VarType::FEED_LIST:
      return "FEED_LIST";
    case VarType::PSTRING:
      return "PSTRING";
    case VarType::SPARSE_COO:
      return "SPARSE_COO";
    case VarType::SPARSE_CSR:
      return "SPARSE_CSR";
    default:
      return "?";
  }
}

/// The kinds of the value of an attribute.
enum class AttrType : std::int32_t {
  INT = 0,
  FLOAT = 1,
  STRING = 2,
  INTS = 3,
  FLOATS = 4,
  STRINGS = 5,
  BOOLEAN = 6,
  BOOLEANS = 7,
  BLOCK = 8,
  LONG = 9,
  BLOCKS = 10,
  LONGS = 11,
  FLOAT64S = 12,
  VAR = 13,
  VARS = 14,
  FLOAT64 = 15,
  SCALAR = 16,
  SCALARS = 17,
};

/// The name of the enumerator, "INTS"; "?" for a value that only a cast can produce.
LOD_TAGGED constexpr const char* to_string(AttrType type) noexcept {
  switch (type) {
    case AttrType::INT:
      return "INT";
    case AttrType::FLOAT:
      return "FLOAT";
    case AttrType::STRING:
      return "STRING";
    case AttrType::INTS:
      return "INTS";
    case AttrType::FLOATS:
      return "FLOATS";
    case AttrType::STRINGS:
      return "STRINGS";
    case AttrType::BOOLEAN:
      return "BOOLEAN";
    case AttrType::BOOLEANS:
      return "BOOLEANS";
    case AttrType::BLOCK:
      return "BLOCK";
    case AttrType::LONG:
      return "LONG";
    case AttrType::BLOCKS:
      return "BLOCKS";
    case AttrType::LONGS:
      return "LONGS";
    case AttrType::FLOAT64S:
      return "FLOAT64S";
    case AttrType::VAR:
      return "VAR";
    case AttrType::VARS:
      return "VARS";
    case AttrType::FLOAT64:
      return "FLOAT64";
    case AttrType::SCALAR:
      return "SCALAR";
    case AttrType::SCALARS:
      return "SCALARS";
  }
  return "?";
}

/// A variable: its name, its kind, and whether it outlives a step.
struct VarDesc {
  /// A named value that is attached to a variable.
  struct Attr {
    std::string name = {};
    AttrType type = AttrType::INT;
    std::optional<std::int32_t> i = {};
    std::optional<std::string> s = {};
    std::vector<std::int32_t> ints = {};
    std::string unknown_fields = {};

    LOD_TAGGED bool operator==(const Attr&) const = default;
  };

  std::string name = {};
  VarType type = {};
  Defaulted<bool> persistable = {};
  Defaulted<bool> need_check_feed = {};
  Defaulted<bool> is_parameter = {};
  Defaulted<bool> stop_gradient = {};
  std::vector<Attr> attrs = {};
  std::string unknown_fields = {};

  /// A variable of type LOD_TENSOR. Without `lod_level` that field is absent, which reads as 0.
  LOD_TAGGED static VarDesc lod_tensor(std::string name, TensorDesc tensor, Defaulted<std::int32_t> lod_level = {}) {
    return {.name = std::move(name),
            .type = {.type = VarType::LOD_TENSOR, .lod_tensor = LoDTensorDesc{std::move(tensor), lod_level}}};
  }
  /// A variable of type SELECTED_ROWS; dim 0 of `tensor` is the height.
  LOD_TAGGED static VarDesc selected_rows(std::string name, TensorDesc tensor) {
    return {.name = std::move(name), .type = {.type = VarType::SELECTED_ROWS, .selected_rows = std::move(tensor)}};
  }
  /// A variable of type LOD_TENSOR_ARRAY.
  LOD_TAGGED static VarDesc lod_tensor_array(std::string name, TensorDesc tensor,
                                             Defaulted<std::int32_t> lod_level = {}) {
    return {
        .name = std::move(name),
        .type = {.type = VarType::LOD_TENSOR_ARRAY, .tensor_array = LoDTensorArrayDesc{std::move(tensor), lod_level}}};
  }
  /// A variable of type READER.
  LOD_TAGGED static VarDesc reader(std::string name, std::vector<LoDTensorDesc> tensors) {
    return {.name = std::move(name), .type = {.type = VarType::READER, .reader = ReaderDesc{std::move(tensors)}}};
  }
  /// A variable of a type that has no description of its own: FEED_MINIBATCH, FETCH_LIST, RAW, ...
  LOD_TAGGED static VarDesc of_type(std::string name, VarType::Type type) {
    return {.name = std::move(name), .type = {.type = type}};
  }

  LOD_TAGGED bool operator==(const VarDesc&) const = default;
};

namespace detail {

/// A tensor with row numbers and a height: lod::SelectedRows.
template <class X>
concept DescribableRows = requires(const X& x) {
  x.rows();
  x.height();
  x.value().shape();
  typename std::remove_cvref_t<decltype(x.value())>::value_type;
};

/// A tensor, a view, a slice: anything with an element type, a shape and levels.
template <class X>
concept DescribableTensor = !DescribableRows<X> && requires(const X& x) {
  typename X::value_type;
  x.levels();
  x.shape().size();
  x.shape()[0];
};

template <class X>
LOD_TAGGED TensorDesc describe_values(const X& x) {
  const auto& shape = x.shape();
  TensorDesc desc{data_type_v<typename X::value_type>};
  desc.dims.reserve(shape.size());
  for (std::size_t dim = 0; dim < shape.size(); ++dim) desc.dims.push_back(static_cast<std::int64_t>(shape[dim]));
  return desc;
}

}  // namespace detail

/// The description of a live tensor: its element type, its shape, and its number of levels (0 for a plain tensor). An
/// element type that has no DataType is a compile error.
template <detail::DescribableTensor X>
LOD_TAGGED LoDTensorDesc describe(const X& x) {
  return {detail::describe_values(x), static_cast<std::int32_t>(x.levels())};
}
/// The description of row-sparse values: that of the dense tensor that they represent, whose dim 0 is the height.
template <detail::DescribableRows X>
LOD_TAGGED TensorDesc describe(const X& x) {
  TensorDesc desc = detail::describe_values(x.value());
  desc.dims.at(0) = static_cast<std::int64_t>(x.height());
  return desc;
}
/// The same as a variable of type LOD_TENSOR.
template <detail::DescribableTensor X>
LOD_TAGGED VarDesc describe(std::string name, const X& x) {
  LoDTensorDesc desc = describe(x);
  return VarDesc::lod_tensor(std::move(name), std::move(desc.tensor), desc.lod_level);
}
/// The same as a variable of type SELECTED_ROWS.
template <detail::DescribableRows X>
LOD_TAGGED VarDesc describe(std::string name, const X& x) {
  return VarDesc::selected_rows(std::move(name), describe(x));
}

namespace detail {

/// The first difference, in words; empty if there is none.
LOD_TAGGED inline std::string mismatch(const TensorDesc& found, const TensorDesc& expected) {
  if (found.data_type != expected.data_type) {
    return text({"data type: expected ", to_string(expected.data_type), ", found ", to_string(found.data_type)});
  }
  if (expected.dims.empty() && found.dims == std::vector<std::int64_t>{1}) return {};  // a scalar is one row
  if (found.dims.size() != expected.dims.size()) {
    return text({"rank: expected ", expected.dims.size(), ", found ", found.dims.size()});
  }
  for (std::size_t dim = 0; dim < found.dims.size(); ++dim) {
    if (expected.dims[dim] != -1 && expected.dims[dim] != found.dims[dim]) {
      return text({"dim ", dim, ": expected ", expected.dims[dim], ", found ", found.dims[dim]});
    }
  }
  return {};
}

LOD_TAGGED inline std::string mismatch(const LoDTensorDesc& found, const LoDTensorDesc& expected) {
  std::string difference = mismatch(found.tensor, expected.tensor);
  if (difference.empty() && expected.lod_level != -1 && expected.lod_level != found.lod_level) {
    difference = text({"lod_level: expected ", expected.lod_level.value(), ", found ", found.lod_level.value()});
  }
  return difference;
}

LOD_TAGGED inline std::string mismatch(const LoDTensorDesc& found, const TensorDesc& expected) {
  return mismatch(found.tensor, expected);
}

template <class Found>
LOD_TAGGED std::string mismatch(const Found& found, const VarDesc& expected) {
  constexpr bool is_rows = std::is_same_v<Found, TensorDesc>;
  constexpr VarType::Type type = is_rows ? VarType::SELECTED_ROWS : VarType::LOD_TENSOR;
  std::string difference;
  if (expected.type.type != type) {
    difference = text({"type: expected ", to_string(expected.type.type), ", found ", to_string(type)});
  } else if constexpr (is_rows) {
    if (expected.type.selected_rows) difference = mismatch(found, *expected.type.selected_rows);
  } else {
    if (expected.type.lod_tensor) difference = mismatch(found, *expected.type.lod_tensor);
  }
  return difference.empty() ? difference : text({"'", expected.name, "': ", difference});
}

}  // namespace detail

/// Whether x is as described. A dimension of -1 in the description matches anything; a description without dimensions
/// matches one scalar row. A TensorDesc says nothing about levels, and a VarDesc whose type has no details describes
/// all variables of its type.
template <class X, class Desc>
  requires requires(const X& x, const Desc& desc) { detail::mismatch(describe(x), desc); }
LOD_TAGGED bool matches(const X& x, const Desc& expected) { return detail::mismatch(describe(x), expected).empty(); }

/// Throws ShapeMismatch unless x is as described (see `matches`). The text names the first difference in type, data
/// type, rank, dim or lod_level, and what was expected and found.
template <class X, class Desc>
  requires requires(const X& x, const Desc& desc) { detail::mismatch(describe(x), desc); }
LOD_TAGGED void check(const X& x, const Desc& expected) {
  const std::string difference = detail::mismatch(describe(x), expected);
  if (!difference.empty()) throw ShapeMismatch(difference);
}

}  // namespace lod::inline LOD_INTERFACE
