// SPDX-License-Identifier: Apache-2.0
/// @file
/// Pictures: the lengths of sequences, and programs.
#pragma once

#include <lod/lod_index.hpp>
#include <lod/program.hpp>

#include <ostream>
#include <string>

namespace lodinfo {

/// A histogram of the lengths at each level, as SVG. There must be a level.
void write_svg(std::ostream& out, const std::string& name, const lod::LoDView& part);

/// Operators, variables, and which of them read and write which, in the language of graphviz's dot. Each block is a
/// cluster; a variable that a block does not declare is that of a block around it.
void write_dot(std::ostream& out, const lod::ProgramDesc& program);

}  // namespace lodinfo
