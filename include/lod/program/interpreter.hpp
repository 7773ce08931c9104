// SPDX-License-Identifier: Apache-2.0
/// @file
/// The implementation of PreparedProgram: its prepared blocks, what is fed to it and what it returns.
#pragma once

#include <lod/core/any_tensor.hpp>
#include <lod/core/desc.hpp>
#include <lod/core/error.hpp>
#include <lod/core/floating_point_control.hpp>
#include <lod/core/shape.hpp>
#include <lod/core/target.hpp>
#include <lod/ops/staging.hpp>
#include <lod/program/check_described.hpp>
#include <lod/program/check_program.hpp>
#include <lod/program/data_flow.hpp>
#include <lod/program/device_values.hpp>
#include <lod/program/limited_memory.hpp>
#include <lod/program/operator.hpp>
#include <lod/program/prepared_block.hpp>
#include <lod/program/program.hpp>
#include <lod/program/run.hpp>
#include <lod/program/scope.hpp>
#include <lod/program/variable.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {

/// See PreparedProgram.
template <Executor E>
class Interpreter final : public detail::ProgramToRun {
 public:
  /// On a device other than the CPU, `find_on_cpu` finds the operators that run on the CPU nevertheless.
  Interpreter(const E& executor, const ProgramDesc& program, Scope& scope, const std::vector<std::string>& fetch,
              const RunLimits& limits, bool keep_values, detail::FindOperator<CpuExecutor>* find_on_cpu = nullptr)
      : program_(program.blocks.size() > 1 ? std::optional(program) : std::nullopt),
        local_(scope),
        flow_(program_ ? *program_ : program),
        running_{
            limited(executor, limits, memory_), program_ ? &*program_ : &program, &flow_, &scope, limits, find_on_cpu} {
    const ProgramDesc& whole = *running_.program;
    const BlockDesc& block = whole.block(0);
    static_cast<void>(flow_.of(block));  // throws for a block that contains itself
    // Operators that exist for the CPU only are refused, or run there: this is decided when their block is prepared.
    detail::check_types(whole, [find_on_cpu](const std::string& type) {
      return operators<E>().find(type) || (find_on_cpu && find_on_cpu(type));
    });
    auto needs = detail::find_needs(flow_, whole, scope);
    root_.emplace(running_, block, *local_);
    if (!keep_values) share_memory(fetch);
    find_persistable(whole, scope.root());
    find_results(fetch, block, *local_);
    find_feeds(std::move(needs), block, *local_);
  }
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;
  ~Interpreter() override {
    for (Variable* const variable : persistable_) let_go_of(*variable);
  }

  const std::vector<AnyLoDTensor>& run(const Feed& feed, Trace* trace) override {
    if constexpr (operation::on_cpu<E>) {
      for (AnyLoDTensor& result : results_) result = AnyLoDTensor();
    }
    check_feed(feed);
    running_.steps = 0;
    running_.waiting_time_left = running_.limits.wait;
    running_.trace = trace;
    running_.callers_control = detail::FloatingPointControl::read();
    try {
      root_->begin();
      for (const auto& [name, value] : feed) set(*feeds_.find(name)->second.variable, value);
      root_->run();
    } catch (...) {
      let_go(feed);
      throw;
    }
    for (std::size_t k = 0; k < results_.size(); ++k) {
      fetch(*fetched_[k], results_[k]);
      if (memory_ || root_->is_shared(results_[k].resource())) detail::let_go_of_resource(results_[k]);
    }
    let_go(feed);
    return results_;
  }

 private:
  struct Fed {
    Variable* variable;
    std::optional<LoDTensorDesc> desc;
    std::string needed_by;  // the place of an operator that needs it; empty if none does
  };
  /// A new scope inside another one, which drops it when this object is destroyed.
  class Local {
   public:
    explicit Local(Scope& outer) : outer_(outer), scope_(outer.new_scope()) {}
    Local(const Local&) = delete;
    Local& operator=(const Local&) = delete;
    // NOLINTNEXTLINE(bugprone-exception-escape): only for a scope that is not inside
    ~Local() { outer_.drop(scope_); }
    Scope& operator*() const noexcept { return scope_; }

   private:
    Scope& outer_;
    Scope& scope_;
  };

  /// The executor; with a limit of bytes, one whose memory has that limit.
  static E limited(const E& executor, const RunLimits& limits, detail::LimitedMemory::Owner& memory) {
    if (limits.bytes == RunLimits().bytes) return executor;
    if constexpr (std::same_as<E, CpuExecutor>) {
      memory = detail::LimitedMemory::make(limits.bytes, executor.resource());
      return E(executor.threads(), memory.get());
    } else {
      throw std::invalid_argument("RunLimits: a limit of bytes needs a CpuExecutor");
    }
  }
  /// Lets the temporaries of the program's own block share memory, except for those that are used from outside: by the
  /// caller, by an operator that owns blocks, or by one in an inner block. An output that is also an input of its
  /// operator is left out as well: it alternates between two tensors anyway.
  void share_memory(const std::vector<std::string>& fetch) {
    if constexpr (std::same_as<E, CpuExecutor>) {
      detail::NameSet kept(fetch.begin(), fetch.end());
      for (const BlockDesc& block : running_.program->blocks) {
        for (const OpDesc& op : block.ops) {
          if (block.idx != 0 || owns_blocks(op)) detail::Lifetimes::add_names(op, kept);
          detail::Lifetimes::add_names_of_both(op, kept);
        }
      }
      const detail::Lifetimes lifetimes(*running_.program, {.keep = {kept.begin(), kept.end()}});
      root_->share_memory(running_.program->block(0), lifetimes.entries());
    }
  }
  // NOLINTNEXTLINE(bugprone-exception-escape): `get` throws only for what it does not hold
  static void let_go_of(Variable& variable) noexcept {
    if (variable.holds<AnyLoDTensor>()) {
      detail::let_go_of_resource(variable.get<AnyLoDTensor>());
    } else if (variable.holds<std::vector<AnyLoDTensor>>()) {
      for (AnyLoDTensor& one : variable.get<std::vector<AnyLoDTensor>>()) detail::let_go_of_resource(one);
    } else if (variable.holds<AnySelectedRows>() && variable.get<AnySelectedRows>().value().bytes().empty()) {
      variable.get<AnySelectedRows>() = AnySelectedRows();
    }
  }
  void find_persistable(const ProgramDesc& program, Scope& root) {
    for (const BlockDesc& block : program.blocks) {
      for (const VarDesc& var : block.vars) {
        if (!var.persistable) continue;
        if (Variable* const found = root.find_local(var.name)) persistable_.push_back(found);
      }
    }
  }

  void find_results(const std::vector<std::string>& names, const BlockDesc& block, Scope& local) {
    std::map<std::int32_t, std::string> fetched;
    for (const OpDesc& op : block.ops) {
      if (op.type == "fetch") fetched.emplace(column_of(op), detail::only_argument(op, op.inputs));
    }
    const auto add_result = [&](const std::string& name) {
      Variable* const variable = local.find(name);
      if (!variable) {
        throw InvalidProgram(detail::text({"fetch '", name, "': expected a variable of the program or of the scope"}));
      }
      if (variable->type() != VarType::LOD_TENSOR) static_cast<void>(variable->get<AnyLoDTensor>());  // throws
      fetched_.push_back(variable);
    };
    if (names.empty()) {
      for (const auto& one : fetched) add_result(one.second);
    } else {
      for (const std::string& name : names) add_result(name);
    }
    results_.resize(fetched_.size());
  }
  void find_feeds(std::map<std::string, std::string> needs, const BlockDesc& block, Scope& local) {
    const detail::NameMap<const VarDesc*> described = detail::described_variables(block);
    for (const std::string& name : local.local_names()) {
      Variable& variable = local.var(name);
      if (variable.type() != VarType::LOD_TENSOR) continue;
      Fed fed{&variable, {}, {}};
      if (const auto found = described.find(name); found != described.end()) fed.desc = found->second->type.lod_tensor;
      feeds_.emplace(name, std::move(fed));
    }
    for (auto& [name, place] : needs) {
      const auto found = feeds_.find(name);
      if (found == feeds_.end()) {
        throw InvalidProgram(
            detail::text({place, ": variable '", name, "' is not a tensor of this run, which could be fed"}));
      }
      found->second.needed_by = std::move(place);
    }
  }

  static std::int32_t column_of(const OpDesc& op) { return op.find_attr("col") ? op.attr<std::int32_t>("col") : 0; }

  void check_feed(const Feed& feed) const {
    for (const auto& [name, value] : feed) {
      const auto found = feeds_.find(name);
      if (found == feeds_.end()) {
        throw InvalidProgram(
            detail::text({"feed '", name, "': expected the name of a tensor of the program that is not persistable"}));
      }
      if (found->second.desc) {
        detail::check_described(value, *found->second.desc, [&name = name] {
          return detail::text({"feed '", name, "'"});
        });
      }
    }
    for (const auto& [name, fed] : feeds_) {
      const std::string& needed_by = fed.needed_by;
      if (!needed_by.empty() && !feed.contains(name)) {
        throw InvalidProgram(detail::text({"feed: '", name, "' is missing, which ", needed_by, " needs"}));
      }
    }
  }
  /// Sets a variable to what is fed, and gets what is fetched: by sharing memory, or by a copy to or from the device.
  void set(Variable& variable, const AnyLoDTensor& value) const {
    if constexpr (!operation::on_cpu<E>) {
      using Any = detail::AnyOn<E>;
      if (variable.holds<Any>()) return detail::upload(running_.executor, value, variable.get<Any>());
    }
    variable.get<AnyLoDTensor>() = value;
  }
  void fetch(const Variable& variable, AnyLoDTensor& result) const {
    if constexpr (!operation::on_cpu<E>) {
      using Any = detail::AnyOn<E>;
      if (variable.holds<Any>()) return detail::download(running_.executor, variable.get<Any>(), result);
    }
    result = variable.get<AnyLoDTensor>();
  }
  /// Releases the tensors that were fed: their memory is the caller's alone again.
  // NOLINTNEXTLINE(bugprone-exception-escape): `get` throws only for what it does not hold
  void let_go(const Feed& feed) noexcept {
    for (const auto& one : feed) {
      Variable& variable = *feeds_.find(one.first)->second.variable;
      if (variable.holds<AnyLoDTensor>()) variable.get<AnyLoDTensor>() = AnyLoDTensor();
    }
  }

  detail::LimitedMemory::Owner memory_;       // null without a limit
  const std::optional<ProgramDesc> program_;  // for steps of inner blocks that are prepared when a loop takes them
  Local local_;
  DataFlow flow_;
  RunningProgram<E> running_;
  std::optional<PreparedBlock<E>> root_;
  std::map<std::string, Fed> feeds_;
  std::vector<Variable*> fetched_;
  std::vector<AnyLoDTensor> results_;
  std::vector<Variable*> persistable_;
};

namespace operators_of_programs {

template <class E>
std::unique_ptr<detail::ProgramToRun> prepare(const E& executor, const ProgramDesc& program, Scope& scope,
                                              const std::vector<std::string>& fetch, const RunLimits& limits,
                                              bool keep_values) {
  detail::FindOperator<CpuExecutor>* find_on_cpu = nullptr;
  if constexpr (!operation::on_cpu<E>) find_on_cpu = detail::find_operator<CpuExecutor>;
  return std::make_unique<Interpreter<E>>(executor, program, scope, fetch, limits, keep_values, find_on_cpu);
}

}  // namespace operators_of_programs

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET
