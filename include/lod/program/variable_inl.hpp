// SPDX-License-Identifier: Apache-2.0
/// @file
/// The longer bodies of variable.hpp.
#pragma once

#include <lod/core/any_tensor.hpp>
#include <lod/core/data_type.hpp>
#include <lod/core/desc.hpp>
#include <lod/core/error.hpp>
#include <lod/core/lod_index.hpp>
#include <lod/core/rank_table.hpp>
#include <lod/core/selected_rows.hpp>
#include <lod/core/shape.hpp>
#include <lod/core/target.hpp>
#include <lod/ops/infer.hpp>
#include <lod/program/reader.hpp>
#include <lod/program/variable.hpp>

namespace lod::inline LOD_INTERFACE {

namespace detail::inline LOD_TARGET {

/// `levels` levels without sequences, for a description, which does not say where sequences end.
inline LoD levels_without_sequences(int levels, const char* what) {
  if (levels < 0 || levels > max_levels) {
    throw ShapeMismatch(text({what, ": lod_level ", levels, ", expected 0 to ", max_levels}));
  }
  return LoD::from_offsets(std::vector<std::vector<std::int64_t>>(static_cast<std::size_t>(levels), {0}));
}

/// Zeros of the described shape. Unknown dimensions are taken as 0, so that there are no elements.
inline AnyLoDTensor tensor_as_described(LoDTensorDesc desc, const char* what, std::pmr::memory_resource* resource) {
  if (desc.tensor.dims.empty()) desc.tensor.dims = {1};  // a scalar is one row
  infer::Batch batch(desc, what);
  bool is_known = batch.rows != infer::unknown;
  for (std::int64_t& dim : batch.row_shape) {
    is_known = is_known && dim != infer::unknown;
    if (dim == infer::unknown) dim = 0;
  }
  const std::int64_t rows = is_known && batch.levels == 0 ? batch.rows : 0;
  LoD lod = levels_without_sequences(batch.levels, what);
  AnyLoDTensor tensor;
  try {
    tensor = AnyLoDTensor(batch.type, std::move(lod), Shape(batch.row_shape), uninitialized, rows, resource);
  } catch (const ShapeMismatch& error) {
    throw ShapeMismatch(text({what, ": ", error.what()}));
  } catch (const std::invalid_argument& error) {
    throw std::invalid_argument(readable(text({what, ": ", error.what()})));
  }
  const auto bytes = tensor.mutable_bytes();
  if (!bytes.empty()) std::memset(bytes.data(), 0, bytes.size());
  return tensor;
}

/// What the tensors of an array have in common; nothing if there are none, or if they differ in data type or rank.
inline std::optional<LoDTensorArrayDesc> describe_elements(const std::vector<AnyLoDTensor>& array) {
  if (array.empty()) return std::nullopt;
  const LoDTensorDesc first = describe(array.front());
  LoDTensorArrayDesc common{first.tensor, first.lod_level};
  for (const AnyLoDTensor& element : array) {
    const LoDTensorDesc desc = describe(element);
    if (desc.tensor.data_type != common.tensor.data_type || desc.tensor.dims.size() != common.tensor.dims.size()) {
      return std::nullopt;
    }
    for (std::size_t dim = 0; dim < desc.tensor.dims.size(); ++dim) {
      if (desc.tensor.dims[dim] != common.tensor.dims[dim]) common.tensor.dims[dim] = infer::unknown;
    }
    if (desc.lod_level != common.lod_level) common.lod_level = -1;
  }
  return common;
}

/// The names of what the alternatives of a variant are in error messages.
struct NameOfContents {
  template <class X>
  const char* operator()(const X&) const {
    return ContentsOf<X>::name;
  }
  const char* operator()(const Number& number) const { return std::visit(*this, number); }
};

}  // namespace detail::inline LOD_TARGET

LOD_PROGRAMS_INLINE Variable::Variable(const Variable&) = default;
LOD_PROGRAMS_INLINE Variable::Variable(Variable&&) noexcept = default;
LOD_PROGRAMS_INLINE Variable& Variable::operator=(Variable&& other) noexcept {
  Contents taken = std::move(other.contents_);  // `other` may be this variable, or an element of its contents
  type_ = other.type_;
  contents_ = std::move(taken);
  return *this;
}
LOD_PROGRAMS_INLINE Variable::~Variable() = default;

LOD_PROGRAMS_INLINE void Variable::throw_other(const char* expected) const {
  const char* const found = std::visit(detail::NameOfContents(), contents_);
  throw ShapeMismatch(detail::text(
      {"variable '", name_, "': expected ", expected, ", found ", found, " (type ", to_string(type_), ")"}));
}

LOD_PROGRAMS_INLINE Variable::Contents Variable::nothing(VarType::Type type, const std::string& name) {
  switch (type) {
    case VarType::LOD_TENSOR:
      return AnyLoDTensor();
    case VarType::SELECTED_ROWS:
      return AnySelectedRows();
    case VarType::LOD_TENSOR_ARRAY:
    case VarType::FEED_MINIBATCH:
    case VarType::FETCH_LIST:
    case VarType::FEED_LIST:
      return std::vector<AnyLoDTensor>();
    case VarType::LOD_RANK_TABLE:
      return RankTable();
    case VarType::STEP_SCOPES:
      return std::vector<Scope*>();
    case VarType::PLACE_LIST:
      return std::vector<Place>();
    case VarType::READER:
      return std::shared_ptr<Reader>(std::make_shared<EmptyReader>());
    case VarType::TUPLE:
      return std::vector<Variable>();
    case VarType::STRING:
    case VarType::PSTRING:
      return std::string();
    case VarType::STRINGS:
      return std::vector<std::string>();
    case VarType::VOCAB:
      return Vocabulary();
    case VarType::BOOL:
      return detail::Number(false);
    case VarType::INT16:
      return detail::Number(std::int16_t{0});
    case VarType::INT32:
      return detail::Number(std::int32_t{0});
    case VarType::INT64:
      return detail::Number(std::int64_t{0});
    case VarType::FP16:
      return detail::Number(float16());
    case VarType::BF16:
      return detail::Number(bfloat16());
    case VarType::FP32:
      return detail::Number(0.0f);
    case VarType::FP64:
      return detail::Number(0.0);
    case VarType::UINT8:
      return detail::Number(std::uint8_t{0});
    case VarType::INT8:
      return detail::Number(std::int8_t{0});
    case VarType::UINT32:
      return detail::Number(std::uint32_t{0});
    case VarType::SIZE_T:
    case VarType::UINT64:
      return detail::Number(std::uint64_t{0});
    case VarType::CHANNEL:
      return std::shared_ptr<Channel>();
    case VarType::RAW:
    case VarType::SPARSE_COO:
    case VarType::SPARSE_CSR:
    case VarType::COMPLEX64:
    case VarType::COMPLEX128:
    case VarType::FP8_E4M3FN:
    case VarType::FP8_E5M2:
      return std::any();
  }
  throw std::invalid_argument(detail::readable(
      detail::text({"variable '", name, "': ", static_cast<std::int32_t>(type), " is no VarType::Type"})));
}

LOD_PROGRAMS_INLINE Variable Variable::create(const VarDesc& desc, std::pmr::memory_resource* resource) {
  Variable variable(desc.type.type, desc.name);
  const std::string what = detail::text({"variable '", desc.name, "'"});
  if (desc.type.type == VarType::LOD_TENSOR && desc.type.lod_tensor) {
    variable.get<AnyLoDTensor>() = detail::tensor_as_described(*desc.type.lod_tensor, what.c_str(), resource);
  } else if (desc.type.type == VarType::SELECTED_ROWS && desc.type.selected_rows) {
    const TensorDesc& dense = *desc.type.selected_rows;
    TensorDesc value{dense.data_type, dense.dims};
    std::int64_t height = 0;
    if (dense.dims.empty()) {
      value.dims = {0};  // of no height: row-sparse values are not a scalar
    } else {
      infer::check_dims(dense.dims, what.c_str());
      if (dense.dims.front() != infer::unknown) height = dense.dims.front();
      value.dims.front() = 0;
    }
    variable.get<AnySelectedRows>() =
        AnySelectedRows({}, height, detail::tensor_as_described({std::move(value)}, what.c_str(), resource));
  } else if (desc.type.type == VarType::READER && desc.type.reader) {
    variable.get<std::shared_ptr<Reader>>() = std::make_shared<EmptyReader>(*desc.type.reader);
  } else if (desc.type.type == VarType::TUPLE && desc.type.tuple) {
    auto& elements = variable.get<std::vector<Variable>>();
    for (const VarType::Type type : desc.type.tuple->element_type) {
      elements.emplace_back(type, detail::text({desc.name, "[", elements.size(), "]"}));
    }
  }
  return variable;
}

namespace detail {

LOD_PROGRAMS_INLINE VarType type_of(const Variable& variable) {
  VarType type{.type = variable.type()};
  if (variable.type() == VarType::LOD_TENSOR) {
    type.lod_tensor = lod::describe(variable.get<AnyLoDTensor>());
  } else if (variable.type() == VarType::SELECTED_ROWS) {
    type.selected_rows = lod::describe(variable.get<AnySelectedRows>());
  } else if (variable.type() == VarType::LOD_TENSOR_ARRAY) {
    type.tensor_array = describe_elements(variable.get<std::vector<AnyLoDTensor>>());
  } else if (variable.type() == VarType::READER) {
    if (const auto& reader = variable.get<std::shared_ptr<Reader>>()) type.reader = reader->desc();
  } else if (variable.type() == VarType::TUPLE) {
    type.tuple.emplace();
    for (const Variable& element : variable.get<std::vector<Variable>>()) {
      type.tuple->element_type.push_back(element.type());
    }
  }
  return type;
}

}  // namespace detail

}  // namespace lod::inline LOD_INTERFACE
