// SPDX-License-Identifier: Apache-2.0
#include "report.hpp"

#include <lod/error.hpp>

#include <cstddef>
#include <exception>
#include <span>
#include <utility>

namespace lodinfo {

namespace {

std::uint64_t bytes_of(const lod::AnyLoDTensor& x) { return x.bytes().size(); }

/// The bytes of a tensor of these dimensions, if all of them are known.
std::optional<std::uint64_t> bytes_of(const lod::TensorDesc& desc) {
  std::uint64_t bytes = lod::size_of(desc.data_type);
  for (const std::int64_t dim : desc.dims) {
    if (dim < 0 || __builtin_mul_overflow(bytes, static_cast<std::uint64_t>(dim), &bytes)) return {};
  }
  return bytes;
}

}  // namespace

const lod::TensorDesc* tensor_of(const lod::VarDesc& desc) {
  if (desc.type.lod_tensor) return &desc.type.lod_tensor->tensor;
  if (desc.type.selected_rows) return &*desc.type.selected_rows;
  if (desc.type.tensor_array) return &desc.type.tensor_array->tensor;
  return nullptr;
}

std::int32_t levels_of(const lod::VarDesc& desc) {
  if (desc.type.lod_tensor) return desc.type.lod_tensor->lod_level;
  if (desc.type.tensor_array) return desc.type.tensor_array->lod_level;
  return 0;
}

Row described(const lod::VarDesc& desc) {
  const lod::TensorDesc* const tensor = tensor_of(desc);
  Row row{desc};
  if (tensor && desc.type.type == lod::VarType::LOD_TENSOR) row.bytes = bytes_of(*tensor);
  return row;
}

Row described(const lod::VarDesc& desc, const Value& value) {
  Row row = described(desc);
  if (const auto* const tensor = std::get_if<lod::AnyLoDTensor>(&value)) {
    for (int level = 0; level < tensor->levels(); ++level) row.sequences.push_back(tensor->lod().size(level));
    row.bytes = bytes_of(*tensor);
  } else if (const auto* const selected = std::get_if<lod::AnySelectedRows>(&value)) {
    row.parts = static_cast<std::int64_t>(selected->rows().size());
    row.bytes = bytes_of(selected->value());
  } else if (const auto* const array = std::get_if<std::vector<lod::AnyLoDTensor>>(&value)) {
    row.parts = static_cast<std::int64_t>(array->size());
    row.bytes = 0;
    for (const lod::AnyLoDTensor& x : *array) *row.bytes += bytes_of(x);
  }
  return row;
}

Row examine(const Contents& contents, const lod::VarDesc& desc, bool verify) {
  // The description of a plain tensor says all. Programs hold descriptions, and their values are in other files.
  const bool is_plain = desc.type.type == lod::VarType::LOD_TENSOR && tensor_of(desc) && levels_of(desc) == 0;
  try {
    if (verify) contents.verify(desc.name);
    return is_plain || contents.program() ? described(desc) : described(desc, contents.value(desc.name));
  } catch (const std::exception& error) {
    Row row = described(desc);
    row.error = error.what();
    return row;
  }
}

lod::LoD placed(const lod::LoD& slice, std::int64_t first_row) {
  std::vector<std::vector<std::int64_t>> lengths = slice.lengths();
  for (std::vector<std::int64_t>& level : lengths)
    level.insert(level.begin(), &level == &lengths.back() ? first_row : 1);
  return lod::LoD::from_lengths(lengths);
}

}  // namespace lodinfo
