// SPDX-License-Identifier: Apache-2.0
/// @file
/// What PreparedProgram is made of: the operators of a program, prepared, and its variables.
#pragma once

#include <lod/core/any_tensor.hpp>
#include <lod/core/desc.hpp>
#include <lod/core/error.hpp>
#include <lod/core/shape.hpp>
#include <lod/core/target.hpp>
#include <lod/program/data_flow.hpp>
#include <lod/program/operator.hpp>
#include <lod/program/program.hpp>
#include <lod/program/run.hpp>
#include <lod/program/scope.hpp>
#include <lod/program/variable.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {

/// See PreparedProgram.
template <Executor E>
class Interpreter final : public detail::ProgramToRun {
 public:
  Interpreter(const E& executor, const ProgramDesc& program, Scope& scope, const std::vector<std::string>& fetch)
      : executor_(executor), scope_(scope), local_(scope) {
    validate(program);
    const BlockDesc& block = program.block(0);
    const auto types = operators_of(block);
    check_initialised(block);
    create_variables(*local_, block, executor.resource());
    std::map<std::int32_t, std::string> fetched;
    for (std::size_t i = 0; i < block.ops.size(); ++i) {
      const OpDesc& op = block.ops[i];
      if (op.type == "fetch") {
        fetched.emplace(column_of(op), only_argument(op, op.inputs));
      } else if (op.type != "feed") {
        add_step(*types[i], op, i, *local_);
      }
    }
    find_results(fetch, fetched, *local_);
    find_feeds(block, *local_);
  }
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;
  ~Interpreter() override = default;

  const std::vector<AnyLoDTensor>& run(const Feed& feed) override {
    for (AnyLoDTensor& result : results_) result = AnyLoDTensor();
    check_feed(feed);
    for (const auto& [name, value] : feed) feeds_.find(name)->second.variable->template get<AnyLoDTensor>() = value;
    std::size_t i = 0;
    try {
      for (; i < steps_.size(); ++i) steps_[i].run(steps_[i].call);
    } catch (...) {
      let_go(feed);
      throw_at(i);
    }
    for (std::size_t k = 0; k < results_.size(); ++k) results_[k] = fetched_[k]->template get<AnyLoDTensor>();
    let_go(feed);
    return results_;
  }

 private:
  /// A prepared operator.
  struct Step {
    RunOperator<E> run;
    OperatorCall<E> call;
    std::string place;                  // for errors
    std::vector<std::string> persists;  // persistable variables that it writes
  };
  struct Fed {
    Variable* variable;
    std::optional<LoDTensorDesc> desc;
    std::string needed_by;  // empty: not needed
  };
  /// A scope inside another, which is dropped with this.
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

  static std::string place_of(const OpDesc& op, std::size_t i) {
    return detail::text({"block 0, operator ", i, " '", op.type, "'"});
  }
  static bool is_empty(std::string_view name) noexcept { return name.empty() || name == empty_variable_name; }
  template <class F>
  static void for_each_name(const std::vector<OpDesc::Var>& vars, const F& f) {
    for (const OpDesc::Var& var : vars) {
      for (const std::string& name : var.arguments) {
        if (!is_empty(name)) f(name);
      }
    }
  }

  /// The operators of a block, nothing for `feed` and `fetch`.
  static std::vector<std::optional<Operator<E>>> operators_of(const BlockDesc& block) {
    std::vector<std::optional<Operator<E>>> found(block.ops.size());
    std::string unknown;
    for (std::size_t i = 0; i < block.ops.size(); ++i) {
      const std::string& type = block.ops[i].type;
      if (type == "feed" || type == "fetch") continue;
      found[i] = operators<E>().find(type);
      if (!found[i]) {
        unknown += detail::text({unknown.empty() ? "" : ", ", "'", type, "' (block 0, operator ", i, ")"});
      }
    }
    if (!unknown.empty()) {
      throw InvalidProgram(detail::readable(
          detail::text({"no operators of the types ", unknown, ": expected those of lod::operators().types()"})));
    }
    return found;
  }

  /// Which variables are read before an operator writes them: notes those that must be fed.
  void check_initialised(const BlockDesc& block) {
    std::set<std::string_view> written;
    for (std::size_t i = 0; i < block.ops.size(); ++i) {
      const OpDesc& op = block.ops[i];
      if (op.type == "feed") {
        const std::string& name = only_argument(op, op.outputs);
        needs_.emplace(name, place_of(op, i));
        written.insert(name);
        continue;
      }
      for_each_name(op.inputs, [&](const std::string& name) {
        if (written.contains(name)) return;
        const VarDesc* const var = block.find_var(name);
        if (var && !var->persistable) {
          if (var->type.type == VarType::LOD_TENSOR) needs_.emplace(name, place_of(op, i));
        } else if (!scope_.find(name)) {
          throw InvalidProgram(detail::readable(
              detail::text({place_of(op, i), ": variable '", name, "' has no value, expected one in the scope ",
                            var ? "since it is persistable" : "since the block has no such variable"})));
        }
      });
      for_each_name(op.outputs, [&](const std::string& name) { written.insert(name); });
    }
  }

  void add_step(const Operator<E>& type, const OpDesc& op, std::size_t i, Scope& local) {
    std::string place = place_of(op, i);
    RunOperator<E> run;
    try {
      run = type.prepare(OperatorArguments(op));
    } catch (const InvalidProgram& error) {
      throw InvalidProgram(detail::readable(detail::text({"block 0, operator ", i, ": ", error.what()})));
    }
    std::vector<Variable*> variables;
    std::vector<std::string> persists;
    const char* before = " (";
    const auto add_all = [&](const std::vector<OpDesc::Var>& vars, bool is_output) {
      for (const OpDesc::Var& var : vars) {
        for (const std::string& name : var.arguments) {
          Variable* variable = nullptr;
          if (!is_empty(name)) {
            variable = local.find(name);
            if (!variable) variable = &local.var(name);
            if (is_output && local.find_local(name) != variable) persists.push_back(name);
            place += detail::text({before, var.parameter, ": '", name, "'"});
            before = ", ";
          }
          variables.push_back(variable);
        }
      }
      if (!is_output) before = before[0] == ' ' ? " (" : "; ";
    };
    add_all(op.inputs, false);
    add_all(op.outputs, true);
    if (before[0] == ',') place += ")";
    steps_.push_back(
        {std::move(run), OperatorCall<E>(executor_, std::move(variables)), std::move(place), std::move(persists)});
  }

  void find_results(const std::vector<std::string>& names, const std::map<std::int32_t, std::string>& fetched,
                    Scope& local) {
    const auto add_result = [&](const std::string& name) {
      Variable* const variable = local.find(name);
      if (!variable) {
        throw InvalidProgram(
            detail::readable(detail::text({"fetch '", name, "': expected a variable of the program or of the scope"})));
      }
      static_cast<void>(variable->template get<AnyLoDTensor>());  // throws unless it is one
      fetched_.push_back(variable);
    };
    if (names.empty()) {
      for (const auto& one : fetched) add_result(one.second);
    } else {
      for (const std::string& name : names) add_result(name);
    }
    results_.resize(fetched_.size());
  }
  void find_feeds(const BlockDesc& block, Scope& local) {
    for (const std::string& name : local.local_names()) {
      Variable& variable = local.var(name);
      if (variable.type() != VarType::LOD_TENSOR) continue;
      Fed fed{&variable, {}, {}};
      if (const VarDesc* const var = block.find_var(name)) fed.desc = var->type.lod_tensor;
      feeds_.emplace(name, std::move(fed));
    }
    for (auto& [name, place] : needs_) {
      const auto found = feeds_.find(name);
      if (found == feeds_.end()) {
        throw InvalidProgram(detail::readable(
            detail::text({place, ": variable '", name, "' is not a tensor of this run, which could be fed"})));
      }
      found->second.needed_by = std::move(place);
    }
    needs_.clear();
  }

  static const std::string& only_argument(const OpDesc& op, const std::vector<OpDesc::Var>& vars) {
    const std::string* found = nullptr;
    std::size_t count = 0;
    for (const OpDesc::Var& var : vars) {
      for (const std::string& name : var.arguments) {
        found = &name;
        ++count;
      }
    }
    if (count != 1) {
      throw InvalidProgram(detail::text({"operator '", op.type, "': ", count, " variables, expected one"}));
    }
    return *found;
  }
  static std::int32_t column_of(const OpDesc& op) { return op.find_attr("col") ? op.attr<std::int32_t>("col") : 0; }

  void check_feed(const Feed& feed) const {
    for (const auto& [name, value] : feed) {
      const auto found = feeds_.find(name);
      if (found == feeds_.end()) {
        throw InvalidProgram(detail::readable(
            detail::text({"feed '", name, "': expected the name of a tensor of the program that is not persistable"})));
      }
      if (found->second.desc) check_described(name, value, *found->second.desc);
    }
    for (const auto& [name, fed] : feeds_) {
      if (!fed.needed_by.empty() && !feed.contains(name)) {
        throw InvalidProgram(
            detail::readable(detail::text({"feed: '", name, "' is missing, which ", fed.needed_by, " needs"})));
      }
    }
  }
  static void check_described(const std::string& name, const AnyLoDTensor& value, const LoDTensorDesc& desc) {
    const std::vector<std::int64_t>& dims = desc.tensor.dims;
    const Shape shape = value.shape();
    bool fits = value.data_type() == desc.tensor.data_type;
    for (std::size_t dim = 0; dim < std::max(shape.size(), dims.size()); ++dim) {
      const std::int64_t found = dim < shape.size() ? shape[dim] : 1, expected = dim < dims.size() ? dims[dim] : 1;
      fits = fits && (found == expected || expected == -1);
    }
    if (dims.empty()) fits = value.data_type() == desc.tensor.data_type;
    if (!fits) {
      std::string expected;
      for (const std::int64_t dim : dims) expected += detail::text({expected.empty() ? "" : ", ", dim});
      throw ShapeMismatch(
          detail::text({"feed '", name, "': ", to_string(value.data_type()), " of shape ", to_string(shape),
                        ", expected ", to_string(desc.tensor.data_type), " of shape {", expected, "}"}));
    }
  }
  /// What was fed is the caller's again.
  void let_go(const Feed& feed) noexcept {
    for (const auto& one : feed) {
      feeds_.find(one.first)->second.variable->template get<AnyLoDTensor>() = AnyLoDTensor();
    }
  }

  /// Throws the exception that operator `failed` threw, with its place.
  [[noreturn, gnu::cold, gnu::noinline]] void throw_at(std::size_t failed) const {
    std::set<std::string> changed;
    for (std::size_t i = 0; i < failed; ++i) changed.insert(steps_[i].persists.begin(), steps_[i].persists.end());
    std::string place = steps_[failed].place;
    if (!changed.empty()) {
      place += ", after persistable variables were changed:";
      for (const std::string& name : changed) place += detail::text({" '", name, "'"});
    }
    try {
      throw;
    } catch (const InvalidProgram& error) {
      throw InvalidProgram(detail::readable(detail::text({place, ": ", error.what()})));
    } catch (...) {
      detail::with_name(place.c_str(), [] { throw; });
    }
    throw std::logic_error("unreachable");
  }

  const E executor_;
  Scope& scope_;
  Local local_;
  std::vector<Step> steps_;
  std::map<std::string, std::string> needs_;  // while it is prepared: variables to feed, and who needs them
  std::map<std::string, Fed> feeds_;
  std::vector<Variable*> fetched_;
  std::vector<AnyLoDTensor> results_;
};

namespace operators_of_programs {

template <class E>
std::unique_ptr<detail::ProgramToRun> prepare(const E& executor, const ProgramDesc& program, Scope& scope,
                                              const std::vector<std::string>& fetch) {
  return std::make_unique<Interpreter<E>>(executor, program, scope, fetch);
}

}  // namespace operators_of_programs

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET
