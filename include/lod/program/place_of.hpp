// SPDX-License-Identifier: Apache-2.0
/// @file
/// Where an operator is in a program, as error messages say it.
#pragma once

#include <lod/core/error.hpp>
#include <lod/core/target.hpp>
#include <lod/program/data_flow.hpp>
#include <lod/program/program.hpp>

#include <cstddef>
#include <cstdint>
#include <string>

namespace lod::inline LOD_INTERFACE::detail::inline LOD_TARGET {

/// "block 1, operator 3 'mul'".
inline std::string place_of(const OpDesc& op, std::int32_t block, std::size_t i) {
  return text({"block ", block, ", operator ", i, " '", op.type, "'"});
}

/// "block 1, operator 3 'mul' (X: 'a', Y: 'b'; Out: 'c')". For an operator that owns blocks the variables are left out:
/// they are many and say little.
inline std::string place_with_variables(const OpDesc& op, std::int32_t block, std::size_t i) {
  std::string place = place_of(op, block, i);
  if (owns_blocks(op)) return place;
  const char* before = " (";
  for (const auto* vars : {&op.inputs, &op.outputs}) {
    for (const OpDesc::Var& var : *vars) {
      for (const std::string& name : var.arguments) {
        if (name.empty() || name == empty_variable_name) continue;
        place += text({before, var.parameter, ": '", name, "'"});
        before = ", ";
      }
    }
    before = before[0] == ' ' ? " (" : "; ";
  }
  return before[0] == ' ' ? place : place + ")";
}

}  // namespace lod::inline LOD_INTERFACE::detail::inline LOD_TARGET
