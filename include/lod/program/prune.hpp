// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup descriptions
/// Cuts a program down to the part that computes some variables: the prediction of a program that trains, or one layer
/// of a network.
///
///     const lod::ProgramDesc part = lod::prune(program, {"scores"});
#pragma once

#include <lod/core/target.hpp>
#include <lod/program/program.hpp>

#include <string>
#include <vector>

namespace lod::inline LOD_INTERFACE {

/// The part of a program that computes the targets, which are variables of block 0: the operators of block 0 that they
/// need, in their order, the blocks that these own, as a whole, and the variables that are used by any of them. Blocks
/// are renumbered. Operators `feed` that bring in what is needed and operators `fetch` that take out a target stay;
/// their columns are renumbered. An operator is needed if what it writes is a target or is read later on by a needed
/// operator; other effects, such as printing, and `is_target` do not count.
///
/// Throws InvalidProgram as DataFlow does, and for a target that is neither described in block 0 nor written there.
/// O(size of the program).
LOD_PROGRAMS ProgramDesc prune(const ProgramDesc& program, const std::vector<std::string>& targets);

}  // namespace lod::inline LOD_INTERFACE

// What the bodies use; and the bodies.
#ifndef LOD_PROGRAMS_ARE_COMPILED
#  include <algorithm>
#  include <cstddef>
#  include <cstdint>
#  include <set>
#  include <string_view>
#  include <utility>
#endif
#ifndef LOD_PROGRAMS_ARE_COMPILED
#  include <lod/program/prune_inl.hpp>
#endif
