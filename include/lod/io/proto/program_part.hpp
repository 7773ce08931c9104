// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup descriptions
/// The wire format of a worker's part of a program, with what it sends and receives: encode and decode of
/// <lod/proto.hpp> for <lod/program_partition.hpp>.
///
///     const std::string bytes = lod::encode(lod::split(program, assignment, workers)[1]);
///     const auto part = lod::decode<lod::ProgramPart>(bytes);   // on worker 1
///
/// The messages are those of proto/program_part.proto. What was decoded may not be a valid program: PreparedProgram and
/// `join` check that.
#pragma once

#include <lod/core/target.hpp>
#include <lod/io/proto/message.hpp>
#include <lod/io/proto/program.hpp>
#include <lod/program/program_partition.hpp>

#include <tuple>

namespace lod::inline LOD_INTERFACE::proto {

template <>
struct Schema<Transfer> {
  static constexpr const char* name = "Transfer";
  static constexpr std::tuple fields{
      Field<1, &Transfer::variable>{"variable"}, Field<2, &Transfer::from>{"from"},     Field<3, &Transfer::to>{"to"},
      Field<4, &Transfer::after>{"after"},       Field<5, &Transfer::before>{"before"},
  };
};
template <>
struct Schema<ProgramPart> {
  static constexpr const char* name = "ProgramPart";
  static constexpr std::tuple fields{
      Field<1, &ProgramPart::program>{"program"},           Field<2, &ProgramPart::sends>{"sends"},
      Field<3, &ProgramPart::receives>{"receives"},         Field<4, &ProgramPart::ops, Packed::YES>{"ops"},
      Field<5, &ProgramPart::vars, Packed::YES>{"vars"},    Field<6, &ProgramPart::blocks, Packed::YES>{"blocks"},
      Field<7, &ProgramPart::whole_ops>{"whole_ops"},       Field<8, &ProgramPart::whole_vars>{"whole_vars"},
      Field<9, &ProgramPart::whole_blocks>{"whole_blocks"},
  };
};

}  // namespace lod::inline LOD_INTERFACE::proto
