// SPDX-License-Identifier: Apache-2.0
/// @file
/// The operator `recurrent`: a block that runs once for each row of its inputs, with states from row to row.
#pragma once

#include <lod/core/any_tensor.hpp>
#include <lod/core/error.hpp>
#include <lod/core/executor.hpp>
#include <lod/core/lod_index.hpp>
#include <lod/core/shape.hpp>
#include <lod/core/target.hpp>
#include <lod/program/block_to_run.hpp>
#include <lod/program/operator.hpp>
#include <lod/program/operators/control.hpp>
#include <lod/program/program.hpp>
#include <lod/program/scope.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs {

/// The tensor of that name in a step.
inline AnyLoDTensor& tensor_in(BlockToRun& step, const std::string& name) {
  return step.scope().at(name).get<AnyLoDTensor>();
}
/// Copies row `t` of a tensor: its shape is the row shape.
inline void copy_row_out(const AnyLoDTensor& from, std::int64_t t, AnyLoDTensor& to,
                         std::pmr::memory_resource* resource) {
  const Shape& shape = from.row_shape();
  to = to.resized(from.data_type(), LoD(), shape.without_first(), shape.empty() ? 1 : shape.front(), resource);
  const std::size_t bytes = to.bytes().size();
  std::copy_n(from.bytes().data() + static_cast<std::size_t>(t) * bytes, bytes, to.mutable_bytes().data());
}

/// recurrent: inputs..., initial_states..., parameters... -> outputs..., step_scopes?; sub_block, ex_states, states,
/// has_states = true, reverse = false, is_train = true. For each row of the inputs, which have as many rows, the block
/// runs once: there, the names of inputs and of outputs stand for a row of them, which the block must describe.
/// `ex_states` are the states before a step, those of the first step the initial ones, and `states` those after it.
/// With `reverse` the last row is the first. All steps are kept if a gradient will read step_scopes.
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
  if (op.attr("has_states", true)) {
    before = op.attr("ex_states", before);
    after = op.attr("states", after);
  }
  if (before.size() != after.size() || before.size() != initial.size) {
    op.refuse_attr("states", detail::text({initial.size, " names, as many as initial states, and so many ex_states"}));
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
        const std::size_t bytes = row.bytes().size();
        if (row.data_type() != all.data_type() || row.shape() != all.row_shape()) {
          throw ShapeMismatch(detail::text({call.name(outputs, k), ": step ", i, " gives ", to_string(row.shape()),
                                            ", expected ", to_string(all.row_shape()), " as the first does"}));
        }
        std::copy_n(row.bytes().data(), bytes, all.mutable_bytes().data() + static_cast<std::size_t>(t) * bytes);
      }
    }
    for (std::size_t k = 0; rows == 0 && k < output_names.size(); ++k) {
      AnyLoDTensor& all = call.variable(outputs, k).template get<AnyLoDTensor>();
      all = all.resized(all.data_type(), LoD(), all.row_shape(), 0, resource);
    }
  };
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs
