// SPDX-License-Identifier: Apache-2.0
/// @file
/// Programs as bytes of protobuf, and back, compiled apart: in the library lodtensor::cpu, or in
/// kernels/instantiate/proto.cpp alone.
#pragma once

#include <lod/core/target.hpp>
#include <lod/io/proto/program.hpp>

#include <string>
#include <string_view>

namespace lod::inline LOD_INTERFACE {

namespace compiled {

/// @{
/// See `encode` and `decode`.
void encode(const ProgramDesc& program, std::string& out);
ProgramDesc decode(std::string_view bytes);
void decode(std::string_view bytes, ProgramDesc& program);
/// @}

}  // namespace compiled

/// @{
/// As for other messages.
template <>
LOD_TAGGED inline void encode(const ProgramDesc& message, std::string& out) {
  compiled::encode(message, out);
}
template <>
LOD_TAGGED inline ProgramDesc decode(std::string_view bytes) {
  return compiled::decode(bytes);
}
template <>
LOD_TAGGED inline void decode(std::string_view bytes, ProgramDesc& message) {
  compiled::decode(bytes, message);
}
/// @}

}  // namespace lod::inline LOD_INTERFACE
