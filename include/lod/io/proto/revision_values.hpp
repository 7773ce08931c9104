// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup descriptions
/// The values that descriptions of the first revision hold, as variables.
///
///     lod::Variable x = lod::proto::to_variable(lod::decode<lod::proto::r1::VarDesc>(bytes));
///     x.get<lod::AnyLoDTensor>();
#pragma once

#include <lod/core/any_tensor.hpp>
#include <lod/core/data_type.hpp>
#include <lod/core/error.hpp>
#include <lod/core/lod_tensor.hpp>
#include <lod/core/shape.hpp>
#include <lod/core/target.hpp>
#include <lod/io/proto/revisions.hpp>
#include <lod/program/variable.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace lod::inline LOD_INTERFACE::proto {

/// The variable that is described, with its name and the value in the description:
///
/// | type | holds |
/// |---|---|
/// | INT, FLOAT | an `std::int32_t`, a `float`; 0 if there is none |
/// | STRING, STRINGS | the string; a list of them |
/// | INTS, FLOATS | a tensor of rank 1 |
/// | LOD_TENSOR | a tensor of the described dimensions, of which the first may be -1: as many rows as there are values
/// for |
///
/// A tensor without values is as Variable::create makes it, zeros, and so are FP16 ones, for which there is no field.
/// Values of other types than the variable's are passed over; what else to_newest reports is not here either. Throws
/// ShapeMismatch if there are fewer or more values than the dimensions say, or values under levels, whose lengths
/// nothing tells; OutOfRange for an INT16 that is none; std::invalid_argument for an enum value that does not exist.
LOD_TAGGED Variable to_variable(const r1::VarDesc& old);

namespace detail {

template <class T, class Values>
LOD_TAGGED AnyLoDTensor tensor_with_values(const std::string& name, const r1::LoDTensorDesc& desc,
                                           const Values& values) {
  const std::string what = text({"'", name, "': value.lod_tensor"});
  if (desc.lod_level > 0) {
    throw ShapeMismatch(
        text({what, ": values under ", desc.lod_level.value(), " levels, expected none: lengths are not told"}));
  }
  std::vector<std::int64_t> dims(desc.dims.begin(), desc.dims.end());
  if (dims.empty()) dims = {1};
  const Shape row(std::vector<std::int64_t>(dims.begin() + 1, dims.end()));
  const auto count = static_cast<std::int64_t>(values.size());
  if (dims[0] == -1) dims[0] = row.elements() > 0 ? count / row.elements() : 0;
  const Shape shape(dims);
  if (shape.elements() != count) {
    throw ShapeMismatch(text({what, ": ", count, " values, expected ", shape.elements(), " for ", to_string(shape)}));
  }
  LoDTensor<T> tensor(shape);
  std::transform(values.begin(), values.end(), tensor.values().begin(), [&](auto value) {
    const T converted = static_cast<T>(value);
    if constexpr (data_type_v<T> == DataType::INT16) {  // the one whose field is of a wider type
      if (converted != value) throw OutOfRange(text({what, ": ", value, " is no INT16"}));
    }
    return converted;
  });
  return tensor;
}

LOD_TAGGED inline Variable tensor_variable(const r1::VarDesc& old) {
  const r1::LoDTensorDesc& desc = *old.value.lod_tensor;
  const auto filled = [&]<class T>(T, const auto& values) {
    if (values.empty()) return Variable::create(to_newest(old).description);
    return Variable(tensor_with_values<T>(old.name, desc, values), old.name);
  };
  switch (desc.element_type) {
    case r1::LoDTensorDesc::INT16:
      return filled(std::int16_t{}, desc.int16_val);
    case r1::LoDTensorDesc::INT32:
      return filled(std::int32_t{}, desc.int32_val);
    case r1::LoDTensorDesc::INT64:
      return filled(std::int64_t{}, desc.int64_val);
    case r1::LoDTensorDesc::FP32:
      return filled(float{}, desc.float_val);
    case r1::LoDTensorDesc::DOUBLE:
      return filled(double{}, desc.double_val);
    case r1::LoDTensorDesc::BOOL:
      return filled(bool{}, desc.bool_val);
    default:
      return Variable::create(to_newest(old).description);
  }
}

}  // namespace detail

LOD_TAGGED inline Variable to_variable(const r1::VarDesc& old) {
  const r1::Value& value = old.value;
  const auto list = [&]<class T>(const std::vector<T>& numbers) {
    LoDTensor<T> tensor({static_cast<std::int64_t>(numbers.size())});
    std::copy(numbers.begin(), numbers.end(), tensor.values().begin());
    return Variable(std::move(tensor), old.name);
  };
  switch (old.type) {
    case r1::VarDesc::INT:
      return Variable(value.i.value_or(0), old.name);
    case r1::VarDesc::FLOAT:
      return Variable(value.f.value_or(0), old.name);
    case r1::VarDesc::STRING:
      return Variable(value.s.value_or(""), old.name);
    case r1::VarDesc::INTS:
      return list(value.ints);
    case r1::VarDesc::FLOATS:
      return list(value.floats);
    case r1::VarDesc::STRINGS:
      return Variable(value.strings, old.name);
    default:
      return value.lod_tensor ? detail::tensor_variable(old) : Variable::create(to_newest(old).description);
  }
}

}  // namespace lod::inline LOD_INTERFACE::proto
