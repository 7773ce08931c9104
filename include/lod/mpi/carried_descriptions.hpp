// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup ranks
/// Descriptions between ranks, as their bytes of protobuf: TensorDesc, VarDesc, OpDesc, ProgramDesc, a ProgramPart, and
/// whatever else `encode` takes; and lists of them, in a std::vector.
///
///     const auto program = lod::mpi::broadcast(ranks, 0, mine);   // rank 0's, a ProgramDesc
///     const auto vars = lod::mpi::all_gather(ranks, var);         // std::vector<VarDesc>: one of each rank
///
/// What `encode` refuses, such as the value of an enum that does not exist, is an error of the rank that sends it. A
/// description may be received as a list, which then has one, and a list of one as a description.
#pragma once

#include <lod/core/target.hpp>
#include <lod/io/proto/desc.hpp>
#include <lod/io/proto/message.hpp>
#include <lod/io/proto/program.hpp>
#include <lod/io/proto/program_part.hpp>
#include <lod/mpi/carried.hpp>

#include <string>
#include <string_view>

namespace lod::inline LOD_INTERFACE::between_ranks::inline LOD_TARGET {

template <proto::Message D>
struct Described<D> {
  static constexpr const char* name = proto::Schema<D>::name;
  static void encode(const D& description, std::string& to) { lod::encode(description, to); }
  static D decode(std::string_view bytes) { return lod::decode<D>(bytes); }
};

}  // namespace lod::inline LOD_INTERFACE::between_ranks::inline LOD_TARGET
