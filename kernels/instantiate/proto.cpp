// SPDX-License-Identifier: Apache-2.0
/// @file
/// Programs as bytes of protobuf, and back, and PaddlePaddle's models from files: in the library lodtensor::cpu, and
/// where operators are compiled apart. Files that link it have LOD_PROTO_LIBRARY defined.
#ifndef LOD_PROTO_LIBRARY
#  define LOD_PROTO_LIBRARY
#endif
#include <lod/io/paddle.hpp>
#include <lod/io/proto/message.hpp>
#include <lod/io/proto/program.hpp>

#include <string>
#include <string_view>

namespace lod::inline LOD_INTERFACE::compiled {

void encode(const ProgramDesc& program, std::string& out) { proto::detail::append_message(program, out); }
ProgramDesc decode(std::string_view bytes) { return proto::detail::message_in<ProgramDesc>(bytes); }
void decode(std::string_view bytes, ProgramDesc& program) { proto::detail::replace_message(bytes, program); }

}  // namespace lod::inline LOD_INTERFACE::compiled

namespace lod::inline LOD_INTERFACE::paddle::compiled {

Model load_model(const std::string& program_path, const std::string& parameters_path) {
  return detail::load_model(program_path, parameters_path);
}

}  // namespace lod::inline LOD_INTERFACE::paddle::compiled
