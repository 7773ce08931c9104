// SPDX-License-Identifier: Apache-2.0
/// @file
/// The body of `append_backward`.
#pragma once

#include <lod/core/desc.hpp>
#include <lod/core/error.hpp>
#include <lod/core/executor.hpp>
#include <lod/core/target.hpp>
#include <lod/program/backward.hpp>
#include <lod/program/data_flow.hpp>
#include <lod/program/gradient.hpp>
#include <lod/program/gradient_path.hpp>
#include <lod/program/gradient_sums.hpp>
#include <lod/program/gradient_variables.hpp>
#include <lod/program/operator.hpp>
#include <lod/program/place_of.hpp>
#include <lod/program/program.hpp>

namespace lod::inline LOD_INTERFACE::detail::inline LOD_TARGET {

/// See `append_backward`. Works on a copy of the program. A template, so that only programs that ask for gradients
/// compile it.
template <class E>
class Backward {
 public:
  using Names = GradientArguments::Names;

  Backward(ProgramDesc program, std::string_view loss, const BackwardOptions& options,
           typename GradientPath<E>::Find find)
      : program_(std::move(program)),
        loss_(loss),
        parameters_(find_parameters(options)),
        path_(program_, loss_, parameters_, Names(options.constants.begin(), options.constants.end()), find) {
    complete(0);
    describe();
  }

  /// Moves the program into the argument; returns the parameters with their gradients.
  std::vector<ParameterGradient> take(ProgramDesc& program) && {
    program = std::move(program_);
    return std::move(pairs_);
  }

 private:
  BlockDesc& block(std::int32_t idx) { return program_.blocks[static_cast<std::size_t>(idx)]; }

  std::vector<std::string> find_parameters(const BackwardOptions& options) {
    DataFlow(program_).of(block(0));  // throws unless blocks are properly nested
    if (!block(0).find_var(loss_)) throw InvalidProgram(text({"loss '", loss_, "': block 0 has no such variable"}));
    if (block(0).find_var(gradient_name(loss_))) {
      throw InvalidProgram(text({"loss '", loss_, "': its gradient is there already, expected a program without one"}));
    }
    for (const std::string& name : options.parameters) {
      if (!block(0).find_var(name))
        throw InvalidProgram(text({"parameter '", name, "': block 0 has no such variable"}));
    }
    std::vector<std::string> found = options.parameters;
    for (const VarDesc& one : block(0).vars) {
      const bool is_constant = one.stop_gradient || std::ranges::count(options.constants, one.name) > 0;
      if (options.parameters.empty() && one.is_parameter && !is_constant) found.push_back(one.name);
    }
    return found;
  }

  /// Makes the variables of enclosing blocks that a block reads and writes arguments of the operator that owns it,
  /// since gradients pass through arguments only.
  void complete(std::int32_t idx) {
    for (OpDesc& op : block(idx).ops) {
      const ControlFlow flow = control_flow_of(op);
      if (flow == ControlFlow::NONE) continue;
      const std::int32_t inner = sub_block_of(op);
      complete(inner);
      const bool is_loop = flow == ControlFlow::LOOP;
      const char* const reads = is_loop ? "X" : flow == ControlFlow::BRANCH ? "Input" : "parameters";
      const auto add = [&](std::vector<OpDesc::Var>& vars, const char* parameter, const std::string& name) {
        if (path_.find(inner, name).first == inner || !path_.is_wanted(inner, name)) return;
        auto found = std::ranges::find(vars, parameter, &OpDesc::Var::parameter);
        if (found == vars.end()) found = vars.insert(vars.end(), {parameter, {}});
        if (std::ranges::count(found->arguments, name) == 0) found->arguments.push_back(name);
      };
      for (const OpDesc& one : block(inner).ops) {
        for_each_argument(one.inputs, [&](const std::string& name) { add(op.inputs, reads, name); });
        for_each_argument(one.outputs, [&](const std::string& name) {
          if (is_loop) add(op.inputs, reads, name);
          if (flow != ControlFlow::RECURRENCE) add(op.outputs, "Out", name);
        });
      }
    }
  }

  /// Describes all gradients.
  void describe() {
    const TensorDesc* const tensor = described_tensor(*block(0).find_var(loss_));
    std::int64_t count = 1;
    if (tensor) {
      for (const std::int64_t dim : tensor->dims) count = dim == 1 ? count : dim;
    }
    if (count != 1) {
      throw InvalidProgram(
          text({"loss '", loss_, "': a dimension of ", count, ", expected one number, as `mean` gives it"}));
    }
    OpDesc begin{.outputs = {{"Out", {gradient_name(loss_)}}}, .type = "fill_constant"};
    begin.attrs = {make_attr("shape", tensor ? tensor->dims : std::vector<std::int64_t>{1}), make_attr("value", 1.0f),
                   make_attr("str_value", std::string("1.0")),
                   make_attr("dtype", static_cast<std::int32_t>(tensor ? tensor->data_type : DataType::FP32))};
    GradientSums<> sums(0);
    sums.add(std::move(begin));
    describe_block(0, 0, sums);
    if (!has_gradients_) {
      throw InvalidProgram(
          text({"loss '", loss_, "': it depends on no parameter by operators that have gradients, expected ",
                parameters_.empty() ? "variables with is_parameter, or parameters in the options" : "it to"}));
    }
    std::vector<OpDesc> ops = std::move(sums).take();
    const Names changed = changed_gradients(ops);
    std::map<std::string, std::string, std::less<>> parameter_of;
    for (const std::string& name : parameters_) {
      std::string gradient = gradient_name(name);
      if (!changed.contains(gradient)) continue;
      parameter_of.emplace(gradient, name);
      pairs_.push_back({name, std::move(gradient)});
    }
    for (OpDesc& op : ops) {
      std::vector<std::string> roles;
      for_each_argument(op.outputs, [&](const std::string& name) {
        const auto found = parameter_of.find(name);
        if (found != parameter_of.end()) roles.insert(roles.end(), {found->second, name});
      });
      set_attr(op, make_attr("op_role_var", std::move(roles)));
    }
    const auto computes_loss = [&](const OpDesc& op) { return has_argument(op.outputs, loss_); };
    const auto last = std::find_if(block(0).ops.rbegin(), block(0).ops.rend(), computes_loss);
    if (last != block(0).ops.rend()) set_attr(*last, make_attr("op_role", OpRole::FORWARD | OpRole::LOSS));
    append(0, 0, std::move(ops));
    set_attr(*std::ranges::find_if(block(0).ops,
                                   [&](const OpDesc& op) { return has_argument(op.outputs, gradient_name(loss_)); }),
             make_attr("op_role", OpRole::BACKWARD | OpRole::LOSS));
  }

  /// Describes the gradients of a block's operators, the last first, for block `target`.
  void describe_block(std::int32_t idx, std::int32_t target, GradientSums<>& sums) {
    for (std::size_t i = block(idx).ops.size(); i-- > 0;) {
      const OpDesc op = block(idx).ops[i];
      const bool is_on_path = path_.is_on_path(idx, i);
      if (is_on_path) {
        switch (control_flow_of(op)) {
          case ControlFlow::LOOP:
            describe_loop(idx, op, target, sums);
            break;
          case ControlFlow::BRANCH:
            describe_branch(idx, op, target, sums);
            break;
          case ControlFlow::RECURRENCE:
            describe_recurrence(idx, op, target, sums);
            break;
          case ControlFlow::NONE:
            describe_operator(idx, i, op, sums);
            break;
        }
      }
      if (control_flow_of(op) == ControlFlow::LOOP || control_flow_of(op) == ControlFlow::BRANCH) continue;
      // From here on, gradients are those of the values that its outputs had before.
      for_each_argument(op.outputs, [&](const std::string& name) {
        if (has_argument(op.inputs, name) || !path_.is_wanted(idx, name)) return;
        if (op.type == "write_to_array") {
          if (!path_.is_written_in_order(idx, name)) clear_element(op, sums);
        } else {
          sums.forget(gradient_name(name));
        }
      });
    }
  }

  void describe_operator(std::int32_t idx, std::size_t i, const OpDesc& op, GradientSums<>& sums) {
    if (is_counter(op)) {
      const OpDesc::Attr* const step = op.find_attr("step");
      sums.add({.inputs = op.inputs,
                .outputs = op.outputs,
                .type = op.type,
                .attrs = {make_attr("step", step ? -step->f.value_or(1.0f) : -1.0f)}});
      return;
    }
    // The loss does not depend on this value of its outputs.
    if (!any_argument(op.outputs, [&](const std::string& name) { return sums.has(gradient_name(name)); })) return;
    has_gradients_ = true;
    Names constants;
    for_each_argument(op.inputs, [&](const std::string& name) {
      if (!path_.varies(idx, name)) constants.insert(name);
    });
    std::vector<OpDesc> made = path_.gradient(op.type)(GradientArguments(op, constants));
    for (OpDesc& one : made) {
      if (!any_argument(one.outputs, [](const std::string&) { return true; })) continue;
      for (const OpDesc::Var& input : one.inputs) {
        for (const std::string& name : input.arguments) {
          const bool is_read = has_argument(op.inputs, name), is_written = has_argument(op.outputs, name);
          if (is_no_variable(name) || needs_shapes_only(one.type) || (!is_read && !is_written)) continue;
          // State that an operator keeps from batch to batch has no gradient: that of batch_norm takes what is new.
          const bool is_new = std::ranges::count(op.output(input.parameter), name) > 0 &&
                              !has_argument(one.outputs, gradient_name(name));
          if (is_read && is_written && (is_new || !path_.varies(idx, name))) continue;
          if (path_.keeps_value(idx, i, name, is_read)) continue;
          throw InvalidProgram(text({place_of(op, idx, i), ": its gradient needs a value of variable '", name,
                                     "' that an operator has overwritten, expected one written once where "
                                     "gradients are wanted"}));
        }
      }
      for_each_argument(op.outputs, [&](const std::string& name) {
        if (has_argument(one.inputs, gradient_name(name))) need(idx, name, sums);
      });
      sums.add(std::move(one));
    }
  }
  /// Adds zeros for the gradient of an output that the loss does not depend on, since an operator reads it. Not for an
  /// array, whose gradient may have no elements.
  void need(std::int32_t idx, const std::string& variable, GradientSums<>& sums) {
    if (!sums.has(gradient_name(variable)) && !path_.is_array(idx, variable)) sums.add(zeros_like(variable));
  }

  /// Sets the gradient of an array's element to zeros once the gradient of what was written there has been taken, since
  /// nothing depends on the element's earlier value.
  static void clear_element(const OpDesc& op, GradientSums<>& sums) {
    const std::string array = gradient_name(op.output("Out").front()), &x = op.input("X").front();
    if (!sums.has(array)) return;
    OpDesc none = zeros_like(x);
    none.outputs[0].arguments[0] += "@NONE";
    const std::vector<std::string> value = none.outputs[0].arguments;
    sums.add_change(std::move(none));
    const auto i = op.input("I");
    sums.add_change({.inputs = {{"X", value}, {"I", {i.begin(), i.end()}}},
                     .outputs = {{"Out", {array}}},
                     .type = "write_to_array"});
  }

  /// Adds a block for the gradient of block `forward`, inside block `target`.
  std::int32_t add_block(std::int32_t target, std::int32_t forward) {
    BlockDesc made{.idx = static_cast<std::int32_t>(program_.blocks.size()), .parent_idx = target};
    made.forward_block_idx = forward;
    program_.blocks.push_back(std::move(made));
    return program_.blocks.back().idx;
  }
  /// The gradient of an operator that owns a block: it has the operator's inputs and outputs as inputs.
  static OpDesc gradient_of(const OpDesc& op, std::int32_t gradient_block) {
    OpDesc made{.inputs = op.inputs, .type = op.type + "_grad", .attrs = op.attrs};
    made.inputs.insert(made.inputs.end(), op.outputs.begin(), op.outputs.end());
    set_attr(made, {.name = "sub_block", .type = AttrType::BLOCK, .block_idx = gradient_block});
    return made;
  }
  static void expect_scopes(const OpDesc& op, std::string_view parameter, std::string_view without, bool value) {
    if (op.output(parameter).empty()) {
      throw InvalidProgram(text({"operator '", op.type, "': no output '", std::string(parameter),
                                 "', expected one, in which its gradient finds the steps"}));
    }
    const OpDesc::Attr* const attr = op.find_attr(without);
    if (attr && attr->b.value_or(!value) == value) {
      throw InvalidProgram(text({"operator '", op.type, "': attribute '", std::string(without), "' is ",
                                 value ? "true" : "false", ", expected otherwise where gradients are wanted"}));
    }
  }

  /// while: the gradients of variables that the loop changes are passed from step to step; those of other variables are
  /// added up.
  void describe_loop(std::int32_t idx, const OpDesc& op, std::int32_t target, GradientSums<>& sums) {
    expect_scopes(op, "StepScopes", "is_test", true);
    const std::int32_t forward = sub_block_of(op), made = add_block(target, forward);
    GradientSums<> inner(forward);
    std::vector<std::string> changed;
    // Gradients of arrays are passed on, too: each step computes those of other elements.
    const auto begin = [&](const std::string& name) {
      if (!path_.is_wanted(idx, name) || std::ranges::count(changed, name) > 0) return;
      need(idx, name, sums);
      inner.keep(gradient_name(name));
      changed.push_back(name);
    };
    for (const std::string& name : op.output("Out")) begin(name);
    for (const std::string& name : op.input("X")) {
      if (path_.is_array(idx, name)) begin(name);
    }
    describe_block(forward, made, inner);
    for (const std::string& name : changed) {
      if (!inner.has(gradient_name(name)) && !path_.is_array(idx, name)) inner.add(zeros_like(name));
    }
    std::vector<OpDesc> ops = std::move(inner).take();
    std::vector<std::string> within;
    const Names written = changed_gradients(ops);
    for (const std::string& name : changed) {
      const bool is_read =
          std::ranges::any_of(ops, [&](const OpDesc& one) { return has_argument(one.inputs, gradient_name(name)); });
      if (is_read || written.contains(gradient_name(name))) within.push_back(gradient_name(name));
    }
    OpDesc gradient = gradient_of(op, made);
    gradient.inputs.push_back({"Out@GRAD", within});
    gradient.outputs = {{"X@GRAD", gradients_where(op.input("X"), [&](const std::string& name) {
                           return path_.is_wanted(idx, name) && written.contains(gradient_name(name));
                         })}};
    set_attr(gradient, make_attr("original_output_grad", std::move(within)));
    append(made, forward, std::move(ops));
    sums.add(std::move(gradient));
  }

  /// conditional_block: its gradient changes the gradients of what the branch writes in place, so that they stay as
  /// they are where the branch is not taken.
  void describe_branch(std::int32_t idx, const OpDesc& op, std::int32_t target, GradientSums<>& sums) {
    expect_scopes(op, "Scope", {}, true);
    const std::int32_t forward = sub_block_of(op), made = add_block(target, forward);
    GradientSums<> inner(forward);
    const auto is_written = [&](const std::string& name) {
      return path_.is_wanted(idx, name) && std::ranges::count(op.output("Out"), name) > 0;
    };
    Names outside;
    for (const std::string& name : op.output("Out")) {
      if (!is_written(name)) continue;
      need(idx, name, sums);
      inner.keep(gradient_name(name));
      outside.insert(gradient_name(name));
    }
    describe_block(forward, made, inner);
    for (const std::string& name : op.output("Out")) {
      if (!is_written(name) || path_.is_array(idx, name) || inner.has(gradient_name(name))) continue;
      if (path_.has_earlier_value(forward, name)) inner.add(zeros_like(name));
    }
    std::vector<OpDesc> ops = std::move(inner).take();
    OpDesc gradient = gradient_of(op, made);
    gradient.inputs.push_back({"Out@GRAD", gradients_where(op.output("Out"), is_written)});
    const Names written = changed_gradients(ops);
    gradient.outputs = {{"Input@GRAD", gradients_where(op.input("Input"), [&](const std::string& name) {
                           return path_.is_wanted(idx, name) && !is_written(name) &&
                                  written.contains(gradient_name(name));
                         })}};
    append(made, forward, std::move(ops), outside);
    sums.add(std::move(gradient));
    for (const std::string& name : outside) sums.keep(name);
  }

  /// recurrent: the gradients of states are passed from step to step, those of inputs are rows, those of parameters are
  /// added up.
  void describe_recurrence(std::int32_t idx, const OpDesc& op, std::int32_t target, GradientSums<>& sums) {
    expect_scopes(op, "step_scopes", "is_train", false);
    const std::int32_t forward = sub_block_of(op), made = add_block(target, forward);
    const PassedVariables passed(op);
    GradientSums<> inner(forward);
    for (const auto& [outer, name] : passed.outputs) {
      if (!path_.is_wanted(idx, outer)) continue;
      need(idx, outer, sums);
      inner.keep(gradient_name(name));
    }
    for (const auto& [first, after] : passed.states) {
      if (path_.is_wanted(forward, after)) inner.keep(gradient_name(after));
    }
    describe_block(forward, made, inner);
    // As in PaddlePaddle, all inputs and states have gradients.
    for (const auto& [outer, name] : passed.inputs) {
      if (!inner.has(gradient_name(name))) inner.add(zeros_like(name));
    }
    for (const auto& [first, after] : passed.states) {
      if (!inner.has(gradient_name(first.inner))) inner.add(zeros_like(first.inner));
    }
    std::vector<OpDesc> ops = std::move(inner).take();
    for (const auto& [first, after] : passed.states) {
      if (path_.is_wanted(forward, after) && std::ranges::count(op.output("outputs"), after) == 0) {
        begin_state(ops, after, forward);
      }
    }
    OpDesc gradient = gradient_of(op, made);
    gradient.inputs.push_back({"step_scopes@GRAD", {op.output("step_scopes").front()}});
    gradient.inputs.push_back({"outputs@GRAD", gradients_where(op.output("outputs"), [&](const std::string& name) {
                                 return path_.is_wanted(idx, name);
                               })});
    const auto any = [](const std::string&) { return true; };
    const Names written = changed_gradients(ops);
    std::vector<std::string> of_states = gradients_where(
        op.input("initial_states"), [&](const std::string& name) { return path_.is_wanted(idx, name); });
    gradient.outputs = {{"inputs@GRAD", gradients_where(op.input("inputs"), any)},
                        {"initial_states@GRAD", gradients_where(op.input("initial_states"), any)},
                        {"parameters@GRAD", gradients_where(op.input("parameters"), [&](const std::string& name) {
                           return written.contains(gradient_name(name));
                         })}};
    append(made, forward, std::move(ops));
    sums.add(std::move(gradient));
  }
  /// The gradient of a state comes from the following step, under a name that nothing in the block writes and that has
  /// no value in the last step: there it is zeros.
  static void begin_state(std::vector<OpDesc>& ops, const std::string& state, std::int32_t forward) {
    const std::string passed = gradient_name(state), start = text({passed, "@RENAME@block", forward, "@start"});
    const std::string inner = text({passed, "@RENAME@block", forward, "@state"});
    for (OpDesc& op : ops) {
      for (auto* vars : {&op.inputs, &op.outputs}) {
        for_each_argument(*vars, [&](std::string& name) {
          if (name == passed) name = inner;
        });
      }
    }
    OpDesc none = zeros_like(state);
    none.outputs[0].arguments[0] = start;
    ops.insert(ops.begin(),
               {none, OpDesc{.inputs = {{"X", {start, passed}}}, .outputs = {{"Out", {inner}}}, .type = "sum"}});
  }

  /// Appends operators to a block, and describes the gradients in their arguments, apart from those that are `outside`.
  void append(std::int32_t target, std::int32_t forward, std::vector<OpDesc> ops, const Names& outside = {}) {
    for (OpDesc& op : ops) set_attr(op, make_attr("op_role", OpRole::BACKWARD));
    for (std::size_t i = 0; i < ops.size(); ++i) {
      if (ops[i].type != "select_output") continue;
      // It writes only one of its outputs; the others must be zeros. Variables that a branch writes get no zeros.
      const std::vector<OpDesc::Var> outputs = ops[i].outputs;
      for_each_argument(outputs, [&](const std::string& name) {
        const std::string variable(variable_of(name));
        if (path_.is_of_branch(forward, variable)) return;
        OpDesc none = zeros_like(variable);
        none.outputs[0].arguments[0] = name;
        ops.insert(ops.begin() + static_cast<std::ptrdiff_t>(i++), std::move(none));
      });
    }
    variables_.append(program_, target, forward, std::move(ops), outside);
  }

  ProgramDesc program_;
  std::string loss_;
  std::vector<std::string> parameters_;
  GradientPath<E> path_;
  bool has_gradients_ = false;
  std::vector<ParameterGradient> pairs_;
  GradientVariables<> variables_;
};

}  // namespace lod::inline LOD_INTERFACE::detail::inline LOD_TARGET

namespace lod::inline LOD_INTERFACE::detail {

template <class E>
std::vector<ParameterGradient> append_backward(ProgramDesc& program, std::string_view loss,
                                               const BackwardOptions& options) {
  return Backward<E>(program, loss, options, find_operator<E>).take(program);
}

}  // namespace lod::inline LOD_INTERFACE::detail
