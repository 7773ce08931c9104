// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup descriptions
/// The wire format of programs: encode and decode of <lod/proto.hpp> for <lod/program.hpp>.
///
///     auto program = lod::decode<lod::ProgramDesc>(bytes);
///     std::string same = lod::encode(program);
///
/// The code for this is large. It is compiled with the including file, unless it comes from the library lodtensor::cpu,
/// or from kernels/instantiate/proto.cpp, compiled once, and LOD_PROTO_LIBRARY is defined, as these targets do.
#pragma once

#include <lod/core/target.hpp>
#include <lod/io/proto/desc.hpp>
#include <lod/io/proto/message.hpp>
#include <lod/program/program.hpp>

#include <cstdint>
#include <tuple>

namespace lod::inline LOD_INTERFACE::proto {

template <>
struct EnumSchema<ScalarDesc::Type> {
  static constexpr const char* name = "Scalar::Type";
  LOD_TAGGED static constexpr bool contains(std::int32_t number) noexcept {
    return number >= ScalarDesc::BOOLEAN && number <= ScalarDesc::COMPLEX128;
  }
};
template <>
struct EnumSchema<CompatibleInfo::Type> {
  static constexpr const char* name = "CompatibleInfo::Type";
  LOD_TAGGED static constexpr bool contains(std::int32_t number) noexcept {
    return number >= CompatibleInfo::COMPATIBLE && number <= CompatibleInfo::PRECISION_CHANGE;
  }
};

template <>
struct Schema<ComplexDesc> {
  static constexpr const char* name = "Complex";
  static constexpr std::tuple fields{
      Field<1, &ComplexDesc::r>{"r"},
      Field<2, &ComplexDesc::i>{"i"},
  };
};
template <>
struct Schema<ScalarDesc> {
  static constexpr const char* name = "Scalar";
  static constexpr std::tuple fields{
      Field<1, &ScalarDesc::type>{"type"}, Field<2, &ScalarDesc::b>{"b"}, Field<3, &ScalarDesc::i>{"i"},
      Field<4, &ScalarDesc::r>{"r"},       Field<5, &ScalarDesc::c>{"c"},
  };
};
template <>
struct Schema<OpDesc::Var> {
  static constexpr const char* name = "Var";
  static constexpr std::tuple fields{
      Field<1, &OpDesc::Var::parameter>{"parameter"},
      Field<2, &OpDesc::Var::arguments>{"arguments"},
  };
};
template <>
struct Schema<OpDesc::Attr> {
  static constexpr const char* name = "Attr";
  static constexpr std::tuple fields{
      Field<1, &OpDesc::Attr::name>{"name"},
      Field<2, &OpDesc::Attr::type>{"type"},
      Field<3, &OpDesc::Attr::i>{"i"},
      Field<4, &OpDesc::Attr::f>{"f"},
      Field<5, &OpDesc::Attr::s>{"s"},
      Field<6, &OpDesc::Attr::ints>{"ints"},
      Field<7, &OpDesc::Attr::floats>{"floats"},
      Field<8, &OpDesc::Attr::strings>{"strings"},
      Field<10, &OpDesc::Attr::b>{"b"},
      Field<11, &OpDesc::Attr::bools>{"bools"},
      Field<12, &OpDesc::Attr::block_idx>{"block_idx"},
      Field<13, &OpDesc::Attr::l>{"l"},
      Field<14, &OpDesc::Attr::blocks_idx>{"blocks_idx"},
      Field<15, &OpDesc::Attr::longs>{"longs"},
      Field<16, &OpDesc::Attr::float64s>{"float64s"},
      Field<17, &OpDesc::Attr::var_name>{"var_name"},
      Field<18, &OpDesc::Attr::vars_name>{"vars_name"},
      Field<19, &OpDesc::Attr::float64>{"float64"},
      Field<20, &OpDesc::Attr::scalar>{"scalar"},
      Field<21, &OpDesc::Attr::scalars>{"scalars"},
  };
};
template <>
struct Schema<OpDesc> {
  static constexpr const char* name = "OpDesc";
  static constexpr std::tuple fields{
      Field<1, &OpDesc::inputs>{"inputs"}, Field<2, &OpDesc::outputs>{"outputs"},     Field<3, &OpDesc::type>{"type"},
      Field<4, &OpDesc::attrs>{"attrs"},   Field<5, &OpDesc::is_target>{"is_target"},
  };
};
template <>
struct Schema<BlockDesc> {
  static constexpr const char* name = "BlockDesc";
  static constexpr std::tuple fields{
      Field<1, &BlockDesc::idx>{"idx"},
      Field<2, &BlockDesc::parent_idx>{"parent_idx"},
      Field<3, &BlockDesc::vars>{"vars"},
      Field<4, &BlockDesc::ops>{"ops"},
      Field<5, &BlockDesc::forward_block_idx>{"forward_block_idx"},
  };
};
template <>
struct Schema<Version> {
  static constexpr const char* name = "Version";
  static constexpr std::tuple fields{Field<1, &Version::version>{"version"}};
};
template <>
struct Schema<OpVersion> {
  static constexpr const char* name = "OpVersion";
  static constexpr std::tuple fields{Field<1, &OpVersion::version>{"version"}};
};
template <>
struct Schema<OpVersionPair> {
  static constexpr const char* name = "OpVersionPair";
  static constexpr std::tuple fields{
      Field<1, &OpVersionPair::op_name>{"op_name"},
      Field<2, &OpVersionPair::op_version>{"op_version"},
  };
};
template <>
struct Schema<OpVersionMap> {
  static constexpr const char* name = "OpVersionMap";
  static constexpr std::tuple fields{Field<1, &OpVersionMap::pair>{"pair"}};
};
template <>
struct Schema<CompatibleInfo> {
  static constexpr const char* name = "CompatibleInfo";
  static constexpr std::tuple fields{
      Field<1, &CompatibleInfo::version>{"version"},
      Field<2, &CompatibleInfo::type>{"type"},
  };
};
template <>
struct Schema<OpCompatiblePair> {
  static constexpr const char* name = "OpCompatiblePair";
  static constexpr std::tuple fields{
      Field<1, &OpCompatiblePair::op_name>{"op_name"},
      Field<2, &OpCompatiblePair::compatible_info>{"compatible_info"},
  };
};
template <>
struct Schema<OpCompatibleMap> {
  static constexpr const char* name = "OpCompatibleMap";
  static constexpr std::tuple fields{
      Field<1, &OpCompatibleMap::pair>{"pair"},
      Field<2, &OpCompatibleMap::default_required_version>{"default_required_version"},
  };
};
template <>
struct Schema<ProgramDesc> {
  static constexpr const char* name = "ProgramDesc";
  static constexpr std::tuple fields{
      Field<1, &ProgramDesc::blocks>{"blocks"},
      Field<2, &ProgramDesc::old_version>{"old_version"},
      Field<3, &ProgramDesc::op_compatible_map>{"op_compatible_map"},
      Field<4, &ProgramDesc::version>{"version"},
      Field<5, &ProgramDesc::op_version_map>{"op_version_map"},
  };
};
template <>
struct Schema<OpProto::Var> {
  static constexpr const char* name = "Var";
  static constexpr std::tuple fields{
      Field<1, &OpProto::Var::name>{"name"},
      Field<2, &OpProto::Var::comment>{"comment"},
      Field<3, &OpProto::Var::duplicable>{"duplicable"},
      Field<4, &OpProto::Var::intermediate>{"intermediate"},
      Field<5, &OpProto::Var::dispensable>{"dispensable"},
      Field<6, &OpProto::Var::extra>{"extra"},
      Field<7, &OpProto::Var::quant>{"quant"},
  };
};
template <>
struct Schema<OpProto::Attr> {
  static constexpr const char* name = "Attr";
  static constexpr std::tuple fields{
      Field<1, &OpProto::Attr::name>{"name"},
      Field<2, &OpProto::Attr::type>{"type"},
      Field<3, &OpProto::Attr::comment>{"comment"},
      Field<4, &OpProto::Attr::generated>{"generated"},
      Field<5, &OpProto::Attr::extra>{"extra"},
      Field<6, &OpProto::Attr::quant>{"quant"},
      Field<7, &OpProto::Attr::support_tensor>{"support_tensor"},
  };
};
template <>
struct Schema<OpProto> {
  static constexpr const char* name = "OpProto";
  static constexpr std::tuple fields{
      Field<1, &OpProto::type>{"type"},       Field<2, &OpProto::inputs>{"inputs"},
      Field<3, &OpProto::outputs>{"outputs"}, Field<4, &OpProto::attrs>{"attrs"},
      Field<5, &OpProto::comment>{"comment"},
  };
};

}  // namespace lod::inline LOD_INTERFACE::proto

#ifdef LOD_PROTO_LIBRARY
#  include <lod/io/proto/compiled.hpp>
#endif
