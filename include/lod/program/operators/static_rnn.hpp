// SPDX-License-Identifier: Apache-2.0
/// @file
/// The operator `recurrent`, a block that runs once for each row of its inputs, with states from row to row; its
/// gradient.
#pragma once

#include <lod/core/any_tensor.hpp>
#include <lod/core/error.hpp>
#include <lod/core/executor.hpp>
#include <lod/core/lod_index.hpp>
#include <lod/core/shape.hpp>
#include <lod/core/target.hpp>
#include <lod/program/block_to_run.hpp>
#include <lod/program/gradient.hpp>
#include <lod/program/operator.hpp>
#include <lod/program/operators/control.hpp>
#include <lod/program/operators/control_gradients.hpp>
#include <lod/program/program.hpp>
#include <lod/program/scope.hpp>
#include <lod/program/variable.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs {

/// The tensor named `name` in a step.
inline AnyLoDTensor& tensor_in(BlockToRun& step, const std::string& name) {
  return step.scope().at(name).get<AnyLoDTensor>();
}
/// Copies row `t` of a tensor to a tensor of the row shape.
inline void copy_row_out(const AnyLoDTensor& from, std::int64_t t, AnyLoDTensor& to,
                         std::pmr::memory_resource* resource) {
  const Shape& shape = from.row_shape();
  to = to.resized(from.data_type(), LoD(), shape.without_first(), shape.empty() ? 1 : shape.front(), resource);
  const std::size_t bytes = to.bytes().size();
  std::copy_n(from.bytes().data() + static_cast<std::size_t>(t) * bytes, bytes, to.mutable_bytes().data());
}

/// Copies a tensor to row `t` of an output. Throws ShapeMismatch unless it has the output's row shape.
template <class E>
void copy_row_in(const OperatorCall<E>& call, const AnyLoDTensor& row, std::int64_t t, const Slot& out, std::size_t i) {
  AnyLoDTensor& all = call.variable(out, i).template get<AnyLoDTensor>();
  if (row.data_type() != all.data_type() || row.shape() != all.row_shape()) {
    throw ShapeMismatch(detail::text({call.name(out, i), ": row ", t, " is of shape ", to_string(row.shape()),
                                      ", expected ", to_string(all.row_shape()), " as the first one"}));
  }
  const std::size_t bytes = row.bytes().size();
  std::copy_n(row.bytes().data(), bytes, all.mutable_bytes().data() + static_cast<std::size_t>(t) * bytes);
}
/// recurrent: inputs..., initial_states..., parameters... -> outputs..., step_scopes?; sub_block, ex_states, states,
/// has_states = false, reverse = false, is_train = true. The block runs once for each row of the inputs, which all have
/// the same number of rows. In the block, the names of inputs and outputs mean one row of them, which the block must
/// describe. `ex_states` are the states before a step, at the first step the initial ones, and `states` those after it.
/// With `reverse` the last row comes first. All steps are kept if a gradient will read step_scopes.
template <Executor E>
RunOperator<E> static_rnn(const OperatorArguments& op) {
  const Slot inputs = op.inputs("inputs"), initial = op.inputs("initial_states"), outputs = op.outputs("outputs");
  const Slot scopes = op.optional_output("step_scopes");
  if (!inputs) op.refuse({"input 'inputs' has no argument, expected one or more"});
  const auto names_of = [](std::span<const std::string> names) {
    return std::vector<std::string>(names.begin(), names.end());
  };
  const auto input_names = names_of(op.desc().input("inputs")), output_names = names_of(op.desc().output("outputs"));
  std::vector<std::string> before, after;
  if (op.attr("has_states", false)) {
    before = op.attr("ex_states", before);
    after = op.attr("states", after);
  }
  if (before.size() != after.size() || before.size() != initial.size) {
    op.refuse_attr("states", detail::text({initial.size, " names, as many as initial states, and so many ex_states, ",
                                           "with has_states"}));
  }
  const BlockDesc& block = op.block().program().block(op.desc().attr<std::int32_t>("sub_block"));
  for (const auto* names : {&input_names, &output_names, &std::as_const(before)}) {
    for (const std::string& name : *names) {
      if (!block.find_var(name)) {
        op.refuse(
            {"variable '", name, "', a row of an argument, or a state: expected to be described in block ", block.idx});
      }
    }
  }
  const bool is_reversed = op.attr("reverse", false);
  const bool keeps_steps = scopes && op.attr("is_train", true) &&
                           reads_variable(op.block().program(), op.desc().output("step_scopes").front());
  return [=, body = StepBlocks(op, "sub_block")](OperatorCall<E>& call) mutable {
    std::pmr::memory_resource* const resource = call.executor().resource();
    std::vector<Scope*>* const kept = step_scopes(call, scopes);
    if (kept) kept->clear();
    const std::int64_t rows = call.tensor(inputs).rows();
    for (std::size_t i = 1; i < inputs.size; ++i) {
      if (call.tensor(inputs, i).rows() != rows) {
        throw ShapeMismatch(detail::text({call.name(inputs, i), ": ", call.tensor(inputs, i).rows(), " rows, expected ",
                                          rows, " as the first input has"}));
      }
    }
    for (std::int64_t i = 0; i < rows; ++i) {
      const std::size_t number = keeps_steps ? static_cast<std::size_t>(i) : 0;
      const std::int64_t t = is_reversed ? rows - 1 - i : i;
      body.prepare(number);
      BlockToRun& step = body[number];
      for (std::size_t k = 0; k < input_names.size(); ++k) {
        copy_row_out(call.tensor(inputs, k), t, tensor_in(step, input_names[k]), resource);
      }
      for (std::size_t k = 0; k < before.size(); ++k) {
        const AnyLoDTensor& state =
            i == 0 ? call.tensor(initial, k) : tensor_in(body[keeps_steps ? number - 1 : 0], after[k]);
        copy_value(state, tensor_in(step, before[k]), resource);
      }
      body.run_step(number, i);
      if (keeps_steps) kept->push_back(&step.scope());
      for (std::size_t k = 0; k < output_names.size(); ++k) {
        const AnyLoDTensor& row = tensor_in(step, output_names[k]);
        AnyLoDTensor& all = call.variable(outputs, k).template get<AnyLoDTensor>();
        if (i == 0) all = all.resized(row.data_type(), LoD(), row.shape(), rows, resource);
        copy_row_in(call, row, t, outputs, k);
      }
    }
    for (std::size_t k = 0; rows == 0 && k < output_names.size(); ++k) {
      AnyLoDTensor& all = call.variable(outputs, k).template get<AnyLoDTensor>();
      all = all.resized(all.data_type(), LoD(), all.row_shape(), 0, resource);
    }
  };
}

/// recurrent_grad: inputs..., initial_states..., parameters..., outputs..., outputs@GRAD..., step_scopes ->
/// inputs@GRAD..., initial_states@GRAD..., parameters@GRAD...; the attributes of recurrent: runs the gradient block of
/// its block for each step, the last first. In the block, the names outputs@GRAD mean one row of them, zeros if no
/// operator has computed them. The gradients of states come from the step after it, and are zeros at the last step. The
/// block computes one row of inputs@GRAD, and the gradients of ex_states. Gradients of parameters are added up. Without
/// steps all gradients are zeros.
template <Executor E>
RunOperator<E> static_rnn_gradient(const OperatorArguments& op) {
  const auto names_of = [](std::span<const std::string> names) {
    return std::vector<std::string>(names.begin(), names.end());
  };
  std::vector<std::string> before, after;
  if (op.attr("has_states", false)) {
    before = op.attr("ex_states", before);
    after = op.attr("states", after);
  }
  const auto given = names_of(op.desc().input("outputs@GRAD")), y_names = names_of(op.desc().input("outputs"));
  if (given.size() != y_names.size()) op.refuse({"as many gradients as outputs are expected"});
  // Inputs, initial states and parameters, with the names that the block has for them.
  struct Part {
    Slot x, dx;
    std::vector<std::string> names;
  };
  Part inputs{op.inputs("inputs"), op.outputs("inputs@GRAD"), names_of(op.desc().input("inputs"))};
  Part initial{op.inputs("initial_states"), op.outputs("initial_states@GRAD"), before};
  Part parameters{op.inputs("parameters"), op.outputs("parameters@GRAD"), names_of(op.desc().input("parameters"))};
  if (before.size() != after.size() || before.size() != initial.x.size) {
    op.refuse_attr("states", "names, as many as initial states, and so many ex_states");
  }
  std::vector<std::string> variables = after;
  for (Part* const part : {&inputs, &initial, &parameters}) {
    if (part->dx && part->dx.size != part->x.size) op.refuse({"as many gradients as inputs are expected"});
    variables.insert(variables.end(), part->names.begin(), part->names.end());
    for (std::string& name : part->names) name = gradient_name(name);
  }
  for (std::string& name : after) name = gradient_name(name);
  for (const std::string& name : given) {
    if (name.ends_with(gradient_suffix)) variables.push_back(name.substr(0, name.size() - gradient_suffix.size()));
  }
  const bool is_reversed = op.attr("reverse", false);
  const Slot dy = op.inputs("outputs@GRAD"), scopes = op.input("step_scopes");
  return [=, states = op.attr("states", std::vector<std::string>()), blocks = GradientBlocks(op, variables),
          adders = std::vector<GradientAdder<E>>()](OperatorCall<E>& call) mutable {
    const auto& steps = call.variable(scopes).template get<std::vector<Scope*>>();
    std::pmr::memory_resource* const resource = call.executor().resource();
    while (adders.size() < after.size() + parameters.names.size()) adders.emplace_back(call.executor());
    const auto rows = static_cast<std::int64_t>(steps.size());
    const auto is_computed = [&](std::size_t k) { return call.has(dy, k) && !call.tensor(dy, k).bytes().empty(); };
    for (std::size_t k = 0; k < dy.size; ++k) {
      if (is_computed(k) && call.tensor(dy, k).rows() != rows) {
        throw ShapeMismatch(detail::text(
            {call.name(dy, k), ": ", call.tensor(dy, k).rows(), " rows, expected ", rows, ", one for each step"}));
      }
    }
    BlockToRun* later = nullptr;  // the step that ran before
    blocks.begin(steps);
    for (std::size_t step = steps.size(); step-- > 0;) {
      const bool is_last = !later;
      const auto number = static_cast<std::int64_t>(step);
      const std::int64_t t = is_reversed ? rows - 1 - number : number;
      BlockToRun& block = blocks[step];
      for (std::size_t k = 0; k < dy.size; ++k) {
        if (is_computed(k)) {
          copy_row_out(call.tensor(dy, k), t, tensor_in(block, given[k]), resource);
        } else if (call.has(dy, k)) {
          set_zeros(block.scope().at(given[k]), block.scope().at(y_names[k]), resource);
        }
      }
      for (std::size_t k = 0; k < after.size(); ++k) {
        Variable& state = block.scope().at(after[k]);
        const Variable* const passed = is_last ? nullptr : &later->scope().at(initial.names[k]);
        const bool is_there = passed && !passed->template get<AnyLoDTensor>().bytes().empty();
        if (std::find(given.begin(), given.end(), after[k]) != given.end()) {
          if (is_there) adders[k](state, *passed);
        } else if (is_there) {
          copy_gradient(*passed, state, resource);
        } else {
          set_zeros(state, block.scope().at(states[k]), resource);
        }
      }
      blocks.run(step);
      for (std::size_t k = 0; k < inputs.dx.size; ++k) {
        if (!call.has(inputs.dx, k)) continue;
        const AnyLoDTensor& row = tensor_in(block, inputs.names[k]);
        AnyLoDTensor& all = call.variable(inputs.dx, k).template get<AnyLoDTensor>();
        if (is_last) all = all.resized(row.data_type(), LoD(), row.shape(), rows, resource);
        copy_row_in(call, row, t, inputs.dx, k);
      }
      for (std::size_t k = 0; k < parameters.dx.size; ++k) {
        if (!call.has(parameters.dx, k)) continue;
        Variable& total = call.variable(parameters.dx, k);
        const Variable& term = block.scope().at(parameters.names[k]);
        if (is_last) {
          copy_gradient(term, total, resource);
        } else {
          adders[after.size() + k](total, term);
        }
      }
      later = &block;
    }
    for (std::size_t k = 0; later && k < initial.dx.size; ++k) {
      if (call.has(initial.dx, k)) {
        copy_gradient(later->scope().at(initial.names[k]), call.variable(initial.dx, k), resource);
      }
    }
    if (later) return;
    for (const Part* const part : {&inputs, &initial, &parameters}) {
      for (std::size_t k = 0; k < part->dx.size; ++k) {
        if (call.has(part->dx, k)) set_zeros(call.variable(part->dx, k), call.variable(part->x, k), resource);
      }
    }
  };
}

/// rnn_memory_helper_grad: X, Out, Out@GRAD -> X@GRAD: a copy of Out@GRAD, zeros like X if that has no elements.
template <Executor E>
RunOperator<E> rnn_memory_helper_grad(const OperatorArguments& op) {
  const Slot x = op.input("X"), dy = op.optional_input("Out@GRAD"), dx = op.output("X@GRAD");
  return [=](OperatorCall<E>& call) {
    if (dy && !call.tensor(dy).bytes().empty()) return copy_tensor(call, call.tensor(dy), dx);
    set_zeros(call.variable(dx), call.variable(x), call.executor().resource());
  };
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs
