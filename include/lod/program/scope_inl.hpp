// SPDX-License-Identifier: Apache-2.0
/// @file
/// The body of `create_variables`.
#pragma once

#include <lod/core/desc.hpp>
#include <lod/core/error.hpp>
#include <lod/core/target.hpp>
#include <lod/program/program.hpp>
#include <lod/program/scope.hpp>
#include <lod/program/variable.hpp>

namespace lod::inline LOD_INTERFACE {

LOD_PROGRAMS_INLINE void create_variables(Scope& scope, const BlockDesc& block, std::pmr::memory_resource* resource) {
  Scope& root = scope.root();
  Scope::Variables local, persistable;
  for (const VarDesc& desc : block.vars) {
    Scope& home = desc.persistable ? root : scope;
    Scope::Variables& fresh = &home == &scope ? local : persistable;
    const Variable* known = home.find_local(desc.name);
    if (const auto found = fresh.find(desc.name); !known && found != fresh.end()) known = &found->second;
    if (!known) {
      fresh.emplace(desc.name, Variable::create(desc, resource));
    } else if (known->type() != desc.type.type) {
      throw ShapeMismatch(detail::text({"variable '", desc.name, "': expected type ", to_string(desc.type.type),
                                        ", found ", to_string(known->type())}));
    }
  }
  scope.variables_.merge(local);
  root.variables_.merge(persistable);
}

}  // namespace lod::inline LOD_INTERFACE
