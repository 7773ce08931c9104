// SPDX-License-Identifier: Apache-2.0
/// @file
/// What operators that work across ranks have in common: the object in a variable through which those of one program
/// reach what they share.
#pragma once

#include <lod/core/desc.hpp>
#include <lod/core/executor.hpp>
#include <lod/core/target.hpp>
#include <lod/program/operator.hpp>
#include <lod/program/program.hpp>
#include <lod/program/scope.hpp>
#include <lod/program/variable.hpp>

#include <any>
#include <atomic>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

namespace lod::inline LOD_INTERFACE::between_ranks {

/// Numbers the variables that hold such objects: a scope may serve several programs.
inline std::atomic<std::uint64_t> programs_on_ranks = 0;

}  // namespace lod::inline LOD_INTERFACE::between_ranks

namespace lod::inline LOD_INTERFACE::between_ranks::inline LOD_TARGET {

/// An object in a variable of a scope's root, for as long as this lives.
template <class Of>
class InScope {
 public:
  /// `kind` begins the variable's name.
  InScope(Scope& scope, const char* kind, std::shared_ptr<Of> object)
      : scope_(scope.root()), name_(detail::text({"@", kind, "@", programs_on_ranks++})), object_(std::move(object)) {
    scope_.var(name_) = Variable(VarType::RAW, std::any(object_), name_);
  }
  InScope(const InScope&) = delete;
  InScope& operator=(const InScope&) = delete;
  ~InScope() { scope_.erase(name_); }

  /// The name of the variable.
  const std::string& name() const noexcept { return name_; }
  /// Describes the variable in a block whose operators have it as an argument.
  void describe(BlockDesc& block) const {
    VarDesc& described = block.vars.emplace_back(VarDesc::of_type(name_, VarType::RAW));
    described.persistable = true;
  }
  Of& operator*() const noexcept { return *object_; }
  Of* operator->() const noexcept { return object_.get(); }

  /// The object in a variable.
  static Of& of(const Variable& variable) { return **std::any_cast<std::shared_ptr<Of>>(&variable.get<std::any>()); }

 private:
  Scope& scope_;
  std::string name_;
  std::shared_ptr<Of> object_;
};

/// Adds an operator to lod::operators(), unless it is there.
template <Executor E>
void add_operator_once(const char* type, Operator<E> op) {
  if (operators<E>().find(type)) return;
  try {
    operators<E>().add(type, std::move(op));
  } catch (const std::invalid_argument&) {  // another thread was faster
  }
}

}  // namespace lod::inline LOD_INTERFACE::between_ranks::inline LOD_TARGET
