// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup descriptions
/// The wire format of the descriptions: encode and decode.
#pragma once

#include <lod/core/desc.hpp>
#include <lod/core/target.hpp>
#include <lod/io/proto/message.hpp>

#include <cstdint>
#include <tuple>

namespace lod::inline LOD_INTERFACE::proto {

template <>
struct EnumSchema<DataType> {
  static constexpr const char* name = "DataType";
  LOD_TAGGED static constexpr bool contains(std::int32_t number) noexcept { return is_pod(number); }
};
template <>
struct EnumSchema<VarType::Type> {
  static constexpr const char* name = "VarType::Type";
  LOD_TAGGED static constexpr bool contains(std::int32_t number) noexcept {
    return (number >= 0 && number <= VarType::SPARSE_CSR) || is_pod(number);
  }
};
template <>
struct EnumSchema<AttrType> {
  static constexpr const char* name = "AttrType";
  LOD_TAGGED static constexpr bool contains(std::int32_t number) noexcept {
    return number >= 0 && number <= static_cast<std::int32_t>(AttrType::SCALARS);
  }
};

template <>
struct Schema<TensorDesc> {
  static constexpr const char* name = "TensorDesc";
  static constexpr std::tuple fields{
      Field<1, &TensorDesc::data_type>{"data_type"},
      Field<2, &TensorDesc::dims>{"dims"},
  };
};
template <>
struct Schema<LoDTensorDesc> {
  static constexpr const char* name = "LoDTensorDesc";
  static constexpr std::tuple fields{
      Field<1, &LoDTensorDesc::tensor>{"tensor"},
      Field<2, &LoDTensorDesc::lod_level>{"lod_level"},
  };
};
template <>
struct Schema<LoDTensorArrayDesc> {
  static constexpr const char* name = "LoDTensorArrayDesc";
  static constexpr std::tuple fields{
      Field<1, &LoDTensorArrayDesc::tensor>{"tensor"},
      Field<2, &LoDTensorArrayDesc::lod_level>{"lod_level"},
  };
};
template <>
struct Schema<ReaderDesc> {
  static constexpr const char* name = "ReaderDesc";
  static constexpr std::tuple fields{Field<1, &ReaderDesc::lod_tensor>{"lod_tensor"}};
};
template <>
struct Schema<VarType::Tuple> {
  static constexpr const char* name = "Tuple";
  static constexpr std::tuple fields{Field<1, &VarType::Tuple::element_type>{"element_type"}};
};
template <>
struct Schema<VarType> {
  static constexpr const char* name = "VarType";
  static constexpr std::tuple fields{
      Field<1, &VarType::type>{"type"},
      Field<2, &VarType::selected_rows>{"selected_rows"},
      Field<3, &VarType::lod_tensor>{"lod_tensor"},
      Field<4, &VarType::tensor_array>{"tensor_array"},
      Field<5, &VarType::reader>{"reader"},
      Field<7, &VarType::tuple>{"tuple"},
      Field<8, &VarType::string>{"string"},
      Field<9, &VarType::strings>{"strings"},
      Field<10, &VarType::vocab>{"vocab"},
      Field<11, &VarType::sparse_coo>{"sparse_coo"},
      Field<12, &VarType::sparse_csr>{"sparse_csr"},
  };
};
template <>
struct Schema<VarDesc::Attr> {
  static constexpr const char* name = "Attr";
  static constexpr std::tuple fields{
      Field<1, &VarDesc::Attr::name>{"name"}, Field<2, &VarDesc::Attr::type>{"type"}, Field<3, &VarDesc::Attr::i>{"i"},
      Field<4, &VarDesc::Attr::s>{"s"},       Field<5, &VarDesc::Attr::ints>{"ints"},
  };
};
template <>
struct Schema<VarDesc> {
  static constexpr const char* name = "VarDesc";
  static constexpr std::tuple fields{
      Field<1, &VarDesc::name>{"name"},
      Field<2, &VarDesc::type>{"type"},
      Field<3, &VarDesc::persistable>{"persistable"},
      Field<4, &VarDesc::need_check_feed>{"need_check_feed"},
      Field<5, &VarDesc::is_parameter>{"is_parameter"},
      Field<6, &VarDesc::stop_gradient>{"stop_gradient"},
      Field<7, &VarDesc::attrs>{"attrs"},
  };
};

}  // namespace lod::inline LOD_INTERFACE::proto
