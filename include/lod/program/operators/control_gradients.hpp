// SPDX-License-Identifier: Apache-2.0
/// @file
/// The gradients of operators that run blocks: while_grad and conditional_block_grad. Each runs the gradient block of a
/// block, in the scopes that the steps of that block have left.
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

/// The gradient block, once for each scope that a step of the forward block has left. Copies share their state.
class GradientBlocks {
 public:
  /// The gradients of `variables` are the block's own even if it does not describe them; otherwise a name that also
  /// occurs in the blocks around it would mean theirs.
  GradientBlocks(const OperatorArguments& op, std::span<const std::string> variables)
      : around_(&op.block()),
        block_(op.desc().attr<std::int32_t>("sub_block")),
        steps_(std::make_shared<std::vector<Step>>()) {
    for (const std::string& name : variables) names_.push_back(gradient_name(name));
  }

  /// Prepares the block for each of the scopes, in which the forward block ran, and empties its arrays. Types of new
  /// variables are those of the variables around them with the same names.
  void begin(const std::vector<Scope*>& scopes) {
    if (steps_->size() < scopes.size()) steps_->resize(scopes.size());
    for (std::size_t i = 0; i < scopes.size(); ++i) {
      Step& step = (*steps_)[i];
      if (step.scope != scopes[i]) {
        for (const std::string& name : names_) {
          if (scopes[i]->find_local(name) || around_->program().block(block_).find_var(name)) continue;
          const Variable* const outer = scopes[i]->find(name);
          scopes[i]->var(name) = Variable(outer ? outer->type() : VarType::LOD_TENSOR);
        }
        step = {scopes[i], around_->prepare_in(block_, *scopes[i])};
      }
      step.block->begin();
    }
  }
  /// The block for scope i.
  BlockToRun& operator[](std::size_t i) const {
    LOD_ASSERT(i < steps_->size());
    return *(*steps_)[i].block;
  }
  /// Runs it.
  void run(std::size_t i) const {
    around_->count_step();
    (*this)[i].run();
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
/// Sets a gradient to zeros in the structure of its variable; for an array to an empty one, for row-sparse values to
/// none.
inline void set_zeros(Variable& gradient, const Variable& like, std::pmr::memory_resource* resource) {
  if (gradient.holds<AnyLoDTensor>() && like.holds<AnyLoDTensor>()) {
    const auto& x = like.get<AnyLoDTensor>();
    auto& zeros = gradient.get<AnyLoDTensor>();
    zeros = zeros.resized(x.data_type(), x.lod(), x.row_shape(), x.rows(), resource);
    std::fill_n(zeros.mutable_bytes().data(), x.bytes().size(), std::byte{0});
  } else if (gradient.holds<AnySelectedRows>() && like.holds<AnyLoDTensor>()) {
    const auto& x = like.get<AnyLoDTensor>();
    gradient.get<AnySelectedRows>() =
        AnySelectedRows({}, x.rows(), AnyLoDTensor(x.data_type(), LoD(), x.row_shape(), uninitialized, 0, resource));
  } else {
    gradient = Variable(gradient.type());
  }
}

/// Adds gradients up by the operator `sum`, and keeps the memory for that. Copies share their state.
template <class E>
class GradientAdder {
 public:
  explicit GradientAdder(const E& executor) : state_(std::make_shared<State>(executor)) {}

  void operator()(Variable& total, const Variable& part) {
    state_->total = std::move(total);
    state_->part = part;
    try {
      state_->sum(state_->call);
    } catch (...) {
      total = std::move(state_->total);
      throw;
    }
    total = std::move(state_->total);
    if (state_->part.template holds<std::vector<AnyLoDTensor>>()) {
      state_->part.template get<std::vector<AnyLoDTensor>>().clear();  // its memory is kept
    } else {
      state_->part = Variable();
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

  std::shared_ptr<State> state_;
};

/// while_grad: X..., Out..., Out@GRAD..., StepScopes -> X@GRAD...; sub_block, original_output_grad: runs the gradient
/// block of the loop's block for each step, the last first. `original_output_grad` are the names of Out@GRAD in that
/// block. The gradient of an input that the loop changes is passed from step to step; those of other inputs are added
/// up, and are zeros if there was no step.
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
    blocks.begin(steps);
    for (std::size_t step = steps.size(); step-- > 0;) {
      BlockToRun& block = blocks[step];
      block.begin_step(static_cast<std::int64_t>(step));
      for (std::size_t i = 0; i < inner_dy.size(); ++i) {
        if (inner_dy[i].empty() || inner_dy[i] == empty_variable_name) continue;
        copy_gradient(call.variable(dy, i), block.scope().at(inner_dy[i]), resource);
      }
      blocks.run(step);
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
/// runs the gradient block of the branch, if the branch has run; otherwise, and for inputs that the branch does not
/// depend on, gradients are zeros. The gradient of the condition is not written. Gradients of what the branch writes
/// are variables outside the block, which it changes there.
template <Executor E>
RunOperator<E> conditional_block_gradient(const OperatorArguments& op) {
  const Slot x = op.inputs("Input"), dx = op.outputs("Input@GRAD"), scopes = op.input("Scope");
  const auto x_names = op.desc().input("Input"), dx_names = op.desc().output("Input@GRAD");
  if (!dx_names.empty() && dx_names.size() != x_names.size()) {
    op.refuse({"as many gradients as inputs are expected"});
  }
  struct Wanted {
    std::size_t place;
    std::string inner;
    bool is_computed;
  };
  const auto& ops = op.block().program().block(op.desc().attr<std::int32_t>("sub_block")).ops;
  std::vector<Wanted> wanted;
  std::vector<std::string> variables;
  for (std::size_t i = 0; i < dx_names.size(); ++i) {
    if (dx_names[i].empty() || dx_names[i] == empty_variable_name) continue;
    std::string inner = gradient_name(x_names[i]);
    const bool is_computed = std::any_of(ops.begin(), ops.end(), [&](const OpDesc& one) {
      return std::any_of(one.outputs.begin(), one.outputs.end(), [&](const OpDesc::Var& var) {
        return std::find(var.arguments.begin(), var.arguments.end(), inner) != var.arguments.end();
      });
    });
    wanted.push_back({i, std::move(inner), is_computed});
    variables.push_back(x_names[i]);
  }
  return [=, blocks = GradientBlocks(op, variables)](OperatorCall<E>& call) mutable {
    const auto& steps = call.variable(scopes).template get<std::vector<Scope*>>();
    blocks.begin(steps);
    if (!steps.empty()) blocks.run(0);
    for (const Wanted& one : wanted) {
      Variable& gradient = call.variable(dx, one.place);
      if (one.is_computed && !steps.empty()) {
        copy_gradient(blocks[0].scope().at(one.inner), gradient, call.executor().resource());
      } else {
        set_zeros(gradient, call.variable(x, one.place), call.executor().resource());
      }
    }
  };
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs
