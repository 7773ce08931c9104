// SPDX-License-Identifier: Apache-2.0
/// @file
/// The gradients of operators that run blocks: while_grad and conditional_block_grad. Each runs the block that computes
/// the gradient of a block, in the scopes that the steps of that block have left.
#pragma once

#include <lod/core/any_tensor.hpp>
#include <lod/core/error.hpp>
#include <lod/core/executor.hpp>
#include <lod/core/target.hpp>
#include <lod/program/block_to_run.hpp>
#include <lod/program/data_flow.hpp>
#include <lod/program/gradient.hpp>
#include <lod/program/operator.hpp>
#include <lod/program/operators/control.hpp>
#include <lod/program/program.hpp>
#include <lod/program/scope.hpp>
#include <lod/program/variable.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <memory_resource>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs {

/// The block of a gradient, once for each scope that a step of the forward block has left. Copies are the same.
class GradientBlocks {
 public:
  /// The gradients of `variables` are the block's own, even if it doesn't describe them: a name that it shares with the
  /// blocks around it would otherwise stand for theirs.
  GradientBlocks(const OperatorArguments& op, std::span<const std::string> variables)
      : around_(&op.block()),
        block_(op.desc().attr<std::int32_t>("sub_block")),
        steps_(std::make_shared<std::vector<Step>>()) {
    for (const std::string& name : variables) names_.push_back(gradient_name(name));
  }

  /// Empties the arrays of step i, whose forward block ran in `scope`, and returns it. Types of new variables are those
  /// of the variables around it with the same names.
  BlockToRun& begin(std::size_t i, Scope& scope) {
    around_->count_step();
    if (steps_->size() <= i) steps_->resize(i + 1);
    Step& step = (*steps_)[i];
    if (step.scope != &scope) {
      for (const std::string& name : names_) {
        if (scope.find_local(name)) continue;
        const Variable* const outer = scope.find(name);
        scope.var(name) = Variable(outer ? outer->type() : VarType::LOD_TENSOR);
      }
      step = {&scope, around_->prepare(block_, scope)};
    }
    step.block->begin();
    return *step.block;
  }

 private:
  struct Step {
    Scope* scope = nullptr;
    std::unique_ptr<BlockToRun> block = {};
  };
  BlockToRun* around_;
  std::int32_t block_;
  std::vector<std::string> names_;
  std::shared_ptr<std::vector<Step>> steps_;
};

/// Copies what a variable holds. Tensors of arrays, and row-sparse values, are shared.
inline void copy_gradient(const Variable& from, Variable& to, std::pmr::memory_resource* resource) {
  if (from.holds<AnyLoDTensor>() && to.holds<AnyLoDTensor>()) {
    copy_value(from.get<AnyLoDTensor>(), to.get<AnyLoDTensor>(), resource);
  } else {
    to = from;
  }
}
/// Makes a gradient zeros like the variable whose gradient it is; an array, or row-sparse values, empty.
inline void set_zeros(Variable& gradient, const Variable& like, std::pmr::memory_resource* resource) {
  if (!gradient.holds<AnyLoDTensor>() || !like.holds<AnyLoDTensor>()) {
    gradient = Variable(gradient.type());
    return;
  }
  const auto& x = like.get<AnyLoDTensor>();
  auto& zeros = gradient.get<AnyLoDTensor>();
  zeros = zeros.resized(x.data_type(), x.lod(), x.row_shape(), x.rows(), resource);
  std::fill_n(zeros.mutable_bytes().data(), x.bytes().size(), std::byte{0});
}

/// Adds gradients up, by the operator `sum`: those of tensors, of row-sparse values, and of arrays element by element,
/// in which one may be missing. It keeps the memory that this takes. Copies are the same.
template <class E>
class GradientAdder {
 public:
  explicit GradientAdder(const E& executor) : state_(std::make_shared<State>(executor)) {}

  void operator()(Variable& total, const Variable& part) {
    if (!total.holds<std::vector<AnyLoDTensor>>()) {
      add(total, part);
      return;
    }
    auto& totals = total.get<std::vector<AnyLoDTensor>>();
    const auto& parts = part.get<std::vector<AnyLoDTensor>>();
    if (totals.size() < parts.size()) totals.resize(parts.size());
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (parts[i].bytes().empty()) continue;
      Variable one(totals[i]);
      if (!totals[i].bytes().empty()) add(one, Variable(parts[i]));
      totals[i] = totals[i].bytes().empty() ? parts[i] : one.get<AnyLoDTensor>();
    }
  }

 private:
  struct State {
    explicit State(const E& executor)
        : op{.inputs = {{"X", {"total", "part"}}}, .outputs = {{"Out", {"total"}}}, .type = "sum"},
          sum(operators<E>().find(op.type)->prepare(OperatorArguments(op))),
          call(executor, {&total, &part, &total}) {}
    OpDesc op;
    Variable total, part;
    RunOperator<E> sum;
    OperatorCall<E> call;
  };
  void add(Variable& total, const Variable& part) {
    state_->total = std::move(total);
    state_->part = part;
    try {
      state_->sum(state_->call);
    } catch (...) {
      total = std::move(state_->total);
      throw;
    }
    total = std::move(state_->total);
    state_->part = Variable();
  }

  std::shared_ptr<State> state_;
};

/// while_grad: X..., Out..., Out@GRAD..., StepScopes -> X@GRAD...; sub_block, original_output_grad: runs the block that
/// computes the gradient of the loop's for each step, the last first. `original_output_grad` are the names that
/// Out@GRAD have there. The gradient of an input that the loop changes goes on from step to step; those of others are
/// added up, and are zeros if there was no step.
template <Executor E>
RunOperator<E> while_gradient(const OperatorArguments& op) {
  const Slot x = op.inputs("X"), dx = op.outputs("X@GRAD"), dy = op.inputs("Out@GRAD"), scopes = op.input("StepScopes");
  const auto x_names = op.desc().input("X"), dx_names = op.desc().output("X@GRAD");
  const auto dy_names = op.desc().input("Out@GRAD");
  if (dx_names.size() != x_names.size()) op.refuse({"as many gradients as inputs are expected"});
  const auto inner_dy = op.attr("original_output_grad", std::vector<std::string>(dy_names.begin(), dy_names.end()));
  if (inner_dy.size() != dy_names.size()) op.refuse_attr("original_output_grad", "a name for each of Out@GRAD");
  struct Wanted {
    std::size_t place;
    std::string inner;
    bool is_carried;
  };
  std::vector<Wanted> wanted;
  std::vector<std::string> variables;
  for (std::size_t i = 0; i < x_names.size(); ++i) {
    if (dx_names[i].empty() || dx_names[i] == empty_variable_name) continue;
    const bool is_carried = std::find(dy_names.begin(), dy_names.end(), dx_names[i]) != dy_names.end();
    wanted.push_back({i, gradient_name(x_names[i]), is_carried});
    variables.push_back(x_names[i]);
  }
  for (const std::string& name : inner_dy) {
    if (name.ends_with(gradient_suffix)) variables.push_back(name.substr(0, name.size() - gradient_suffix.size()));
  }
  return [=, blocks = GradientBlocks(op, variables),
          adders = std::vector<GradientAdder<E>>()](OperatorCall<E>& call) mutable {
    const auto& steps = call.variable(scopes).template get<std::vector<Scope*>>();
    std::pmr::memory_resource* const resource = call.executor().resource();
    while (adders.size() < wanted.size()) adders.emplace_back(call.executor());
    for (std::size_t step = steps.size(); step-- > 0;) {
      BlockToRun& block = blocks.begin(step, *steps[step]);
      block.begin_step(static_cast<std::int64_t>(step));
      for (std::size_t i = 0; i < inner_dy.size(); ++i) {
        if (inner_dy[i].empty() || inner_dy[i] == empty_variable_name) continue;
        copy_gradient(call.variable(dy, i), block.scope().at(inner_dy[i]), resource);
      }
      block.run();
      for (std::size_t i = 0; i < wanted.size(); ++i) {
        const Wanted& one = wanted[i];
        const Variable& inner = block.scope().at(one.inner);
        if (one.is_carried || step + 1 == steps.size()) {
          copy_gradient(inner, call.variable(dx, one.place), resource);
        } else {
          adders[i](call.variable(dx, one.place), inner);
        }
      }
    }
    if (!steps.empty()) return;
    for (const Wanted& one : wanted) {
      if (!one.is_carried) set_zeros(call.variable(dx, one.place), call.variable(x, one.place), resource);
    }
  };
}

/// conditional_block_grad: Cond..., Input..., Out..., Out@GRAD..., Scope -> Cond@GRAD..., Input@GRAD...; sub_block:
/// runs the block that computes the gradient of the branch's, if that has run; otherwise, and for inputs that it
/// doesn't depend on, gradients are zeros. That of the condition is not written.
template <Executor E>
RunOperator<E> conditional_block_gradient(const OperatorArguments& op) {
  const Slot x = op.inputs("Input"), dx = op.outputs("Input@GRAD"), scopes = op.input("Scope");
  const auto x_names = op.desc().input("Input"), dx_names = op.desc().output("Input@GRAD");
  if (!dx_names.empty() && dx_names.size() != x_names.size()) {
    op.refuse({"as many gradients as inputs are expected"});
  }
  std::vector<std::size_t> wanted;
  for (std::size_t i = 0; i < dx_names.size(); ++i) {
    if (!dx_names[i].empty() && dx_names[i] != empty_variable_name) wanted.push_back(i);
  }
  std::vector<std::string> inner(x_names.begin(), x_names.end());
  return [=, blocks = GradientBlocks(op, inner)](OperatorCall<E>& call) mutable {
    const auto& steps = call.variable(scopes).template get<std::vector<Scope*>>();
    std::pmr::memory_resource* const resource = call.executor().resource();
    BlockToRun* const block = steps.empty() ? nullptr : &blocks.begin(0, *steps.front());
    if (block) {
      for (const std::string& name : inner) set_zeros(block->scope().at(gradient_name(name)), Variable(), resource);
      block->run();
    }
    for (const std::size_t i : wanted) {
      const Variable* const found = block ? &block->scope().at(gradient_name(inner[i])) : nullptr;
      const bool is_there = found && (!found->holds<AnyLoDTensor>() || !found->get<AnyLoDTensor>().bytes().empty());
      if (is_there) {
        copy_gradient(*found, call.variable(dx, i), resource);
      } else {
        set_zeros(call.variable(dx, i), call.variable(x, i), resource);
      }
    }
  };
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs
