// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup descriptions
/// The scope: the variables of a block by name, while a program runs. Scopes are nested as blocks are, so that each
/// step of a loop has variables of its own, and all steps find those of the enclosing scopes.
///
///     lod::Scope scope;
///     lod::create_variables(scope, program.block(0));
///     scope.at("x") = lod::LoDTensor<float>(index, {13});
///     for (const lod::OpDesc& op : program.block(0).ops) run(op, scope);
///     use(scope.at("y").get<lod::AnyLoDTensor>().view<float>());
#pragma once

#include <lod/core/desc.hpp>
#include <lod/core/device.hpp>
#include <lod/core/error.hpp>
#include <lod/core/target.hpp>
#include <lod/program/program.hpp>
#include <lod/program/variable.hpp>

#include <list>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lod::inline LOD_INTERFACE {

class Scope;
LOD_PROGRAMS void create_variables(Scope& scope, const BlockDesc& block, std::pmr::memory_resource* resource);

/// Variables by name, an enclosing scope, and inner scopes. Looks for a name in itself, then outwards; creates only in
/// itself, where a new variable hides those of the same name further out.
///
/// A variable stays at one address until it is erased or its scope is destroyed. A scope owns its inner scopes: they
/// are destroyed when it is (before its own variables), or when it drops them. It is neither copied nor moved.
///
/// Threads: there is no lock. Any number of threads may call members that change nothing (`find`, `at`, `names`,
/// `parent`, ...) at a time, and use different variables. While a thread changes a scope (`var` with a new name,
/// `erase`, `new_scope`, `drop`, `drop_all`, `create_variables`), no other may use that scope or one inside it; sibling
/// scopes are not affected. So create the scopes of parallel steps first; then each thread may fill its own.
///
/// Semantics: PaddlePaddle's Scope.
class Scope {
 public:
  /// An outermost scope, without variables.
  LOD_TAGGED Scope() = default;
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;
  LOD_TAGGED ~Scope() {
    // In the order of their creation, each after what was inside it; without recursion, however deeply they are nested.
    while (!children_.empty()) {
      Scope& first = children_.front();
      if (first.children_.empty()) {
        children_.pop_front();
      } else {
        children_.splice(children_.begin(), first.children_);
      }
    }
  }

  /// @{
  /// The enclosing scope; null for an outermost one.
  LOD_TAGGED Scope* parent() noexcept { return parent_; }
  LOD_TAGGED const Scope* parent() const noexcept { return parent_; }
  /// @}
  /// @{
  /// The outermost enclosing scope; itself if it has no parent. O(depth).
  LOD_TAGGED Scope& root() noexcept { return const_cast<Scope&>(std::as_const(*this).root()); }
  LOD_TAGGED const Scope& root() const noexcept {
    const Scope* scope = this;
    while (scope->parent_) scope = scope->parent_;
    return *scope;
  }
  /// @}

  /// The variable of that name in this scope itself. If there is none it is created, as an empty LOD_TENSOR, even if
  /// there is one further out. O(log variables).
  LOD_TAGGED Variable& var(std::string_view name) {
    if (Variable* found = find_local(name)) return *found;
    std::string owned(name);
    Variable variable(VarType::LOD_TENSOR, owned);
    return variables_.emplace(std::move(owned), std::move(variable)).first->second;
  }
  /// @{
  /// The variable of that name in this scope or the nearest enclosing one that has it; null if none has. O(depth log
  /// variables).
  LOD_TAGGED Variable* find(std::string_view name) noexcept {
    return const_cast<Variable*>(std::as_const(*this).find(name));
  }
  LOD_TAGGED const Variable* find(std::string_view name) const noexcept {
    for (const Scope* scope = this; scope; scope = scope->parent_) {
      if (const Variable* found = scope->find_local(name)) return found;
    }
    return nullptr;
  }
  /// @}
  /// @{
  /// The variable of that name in this scope itself; null if it has none.
  LOD_TAGGED Variable* find_local(std::string_view name) noexcept {
    return const_cast<Variable*>(std::as_const(*this).find_local(name));
  }
  LOD_TAGGED const Variable* find_local(std::string_view name) const noexcept {
    const auto found = variables_.find(name);
    return found == variables_.end() ? nullptr : &found->second;
  }
  /// @}
  /// @{
  /// As `find`, but throws OutOfRange if no scope has the variable.
  LOD_TAGGED Variable& at(std::string_view name) { return const_cast<Variable&>(std::as_const(*this).at(name)); }
  LOD_TAGGED const Variable& at(std::string_view name) const {
    if (const Variable* found = find(name)) return *found;
    int around = 0;
    for (const Scope* scope = parent_; scope; scope = scope->parent_) ++around;
    throw OutOfRange(
        detail::text({"no variable '", std::string(name), "' in the scope, nor in the ", around, " around it"}));
  }
  /// @}

  /// The names of the variables of this scope itself, ascending.
  LOD_TAGGED std::vector<std::string> local_names() const {
    std::vector<std::string> names;
    names.reserve(variables_.size());
    for (const auto& entry : variables_) names.push_back(entry.first);
    return names;
  }
  /// Destroys the variable of that name in this scope itself. Returns whether there was one.
  LOD_TAGGED bool erase(std::string_view name) {
    const auto found = variables_.find(name);
    if (found == variables_.end()) return false;
    variables_.erase(found);
    return true;
  }

  /// A new scope inside this one, which owns it.
  LOD_TAGGED Scope& new_scope() {
    Scope& child = children_.emplace_back();
    child.parent_ = this;
    return child;
  }
  /// The inner scopes, in the order of creation: the contents of a STEP_SCOPES.
  LOD_TAGGED std::vector<Scope*> children() {
    std::vector<Scope*> all;
    for (Scope& child : children_) all.push_back(&child);
    return all;
  }
  /// Destroys an inner scope with all its contents. Throws OutOfRange for a scope that is not a child of this one.
  /// O(children).
  LOD_TAGGED void drop(Scope& child) {
    for (auto found = children_.begin(); found != children_.end(); ++found) {
      if (&*found == &child) {
        children_.erase(found);
        return;
      }
    }
    throw OutOfRange("Scope: the scope to drop is not inside this one, or not directly");
  }
  /// Destroys all inner scopes.
  LOD_TAGGED void drop_all() noexcept { children_.clear(); }

 private:
  friend void create_variables(Scope& scope, const BlockDesc& block, std::pmr::memory_resource* resource);
  using Variables = std::map<std::string, Variable, std::less<>>;

  Scope* parent_ = nullptr;
  Variables variables_;
  std::list<Scope> children_;
};

/// Creates the variables of a block, each as `Variable::create` does: persistable ones in the outermost scope, where
/// they outlive the run, the others in `scope` itself. Existing ones keep their values: so the parameters of an earlier
/// run, or of a file, are kept.
///
/// Throws ShapeMismatch for a variable that already exists with another type, and what `Variable::create` throws; then
/// no variable has been created. Memory of tensors comes from `resource`. Semantics: PaddlePaddle's
/// Executor::CreateVariables.
LOD_PROGRAMS void create_variables(Scope& scope, const BlockDesc& block,
                                   std::pmr::memory_resource* resource = Cpu::default_resource());

}  // namespace lod::inline LOD_INTERFACE

// What the bodies use; and the bodies.
#ifndef LOD_PROGRAMS_ARE_COMPILED
#  include <memory_resource>
#endif
#ifndef LOD_PROGRAMS_ARE_COMPILED
#  include <lod/program/scope_inl.hpp>
#endif
