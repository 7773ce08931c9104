// SPDX-License-Identifier: Apache-2.0
/// @file
/// Operators that run blocks, and those that choose between variables: while, conditional_block, select_input,
/// select_output; is_empty and print.
#pragma once

#include <lod/core/any_tensor.hpp>
#include <lod/core/data_type.hpp>
#include <lod/core/error.hpp>
#include <lod/core/executor.hpp>
#include <lod/core/lod_index.hpp>
#include <lod/core/shape.hpp>
#include <lod/core/target.hpp>
#include <lod/program/block_to_run.hpp>
#include <lod/program/operator.hpp>
#include <lod/program/operators/shapes.hpp>
#include <lod/program/scope.hpp>
#include <lod/program/variable.hpp>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory_resource>
#include <string>
#include <vector>

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs {

/// Makes an output a copy of a tensor, with its levels.
template <class E>
void copy_tensor(const OperatorCall<E>& call, const AnyLoDTensor& from, const Slot& out, std::size_t i = 0) {
  auto y = call.output_bytes(out, from.data_type(), from.lod(), from.row_shape(), from.rows(), i);
  std::copy_n(from.bytes().data(), from.bytes().size(), y.data());
}
/// The number in a tensor of one INT32 or INT64.
template <class E>
std::int64_t only_id(const OperatorCall<E>& call, const Slot& x) {
  std::int64_t id = 0;
  call.with_id(x, [&](auto element) { id = only_number<typename decltype(element)::type>(call, x); });
  return id;
}
/// The scopes in a variable of type STEP_SCOPES; null if there is none.
template <class E>
std::vector<Scope*>* step_scopes(const OperatorCall<E>& call, const Slot& scopes) {
  return scopes ? &call.variable(scopes).template get<std::vector<Scope*>>() : nullptr;
}

/// The inputs X of a `while` whose values before each step its gradient needs: those that the block overwrites. What an
/// operator changes in place, as `increment` does, its gradient changes back.
inline std::vector<std::size_t> inputs_to_keep(const OpDesc& op, const ProgramDesc& program, std::int32_t block) {
  std::vector<std::size_t> kept;
  const auto names = op.input("X");
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto has = [&](const std::vector<OpDesc::Var>& vars) {
      return std::any_of(vars.begin(), vars.end(), [&](const OpDesc::Var& var) {
        return std::find(var.arguments.begin(), var.arguments.end(), names[i]) != var.arguments.end();
      });
    };
    bool is_written = false, is_changed_in_place = false;
    for (const OpDesc& inner : program.block(block).ops) {
      is_written = is_written || has(inner.outputs);
      is_changed_in_place = is_changed_in_place || (has(inner.outputs) && has(inner.inputs));
    }
    if (is_written && !is_changed_in_place) kept.push_back(i);
  }
  return kept;
}

/// while: X..., Condition -> Out..., StepScopes?; sub_block, is_test = false: runs the block as long as Condition, one
/// BOOL, is true. Names in the block mean the variables around it, except for variables of its own.
///
/// If a gradient will read StepScopes, and unless `is_test`, the variables of all steps are kept, each step's in a
/// scope of its own, with the tensors around it as they were before the step. Otherwise there is one scope, so that
/// memory does not grow with the steps.
template <Executor E>
RunOperator<E> while_loop(const OperatorArguments& op) {
  const Slot x = op.inputs("X"), condition = op.input("Condition"), scopes = op.optional_output("StepScopes");
  const bool keeps_steps = scopes && !op.attr("is_test", false) &&
                           reads_variable(op.block().program(), op.desc().output("StepScopes").front());
  std::vector<std::size_t> kept_inputs;
  if (keeps_steps) {
    kept_inputs = inputs_to_keep(op.desc(), op.block().program(), op.desc().attr<std::int32_t>("sub_block"));
  }
  return [=, body = StepBlocks(op, "sub_block")](OperatorCall<E>& call) mutable {
    std::vector<Scope*>* const kept = step_scopes(call, scopes);
    if (kept) kept->clear();
    for (std::size_t step = 0; only_number<bool>(call, condition); ++step) {
      if (keeps_steps) {
        body.prepare(step);
        Scope& scope = body[step].scope();
        for (const std::size_t i : kept_inputs) {
          const Variable& input = call.variable(x, i);
          if (!input.holds<AnyLoDTensor>()) continue;
          copy_value(input.get<AnyLoDTensor>(), scope.var(input.name()).template get<AnyLoDTensor>(),
                     call.executor().resource());
        }
      }
      body.run_step(keeps_steps ? step : 0, static_cast<std::int64_t>(step));
      if (keeps_steps) kept->push_back(&body[step].scope());
    }
  };
}

/// conditional_block and conditional_block_infer: Cond..., Input... -> Out..., Scope?; sub_block,
/// is_scalar_condition = false: runs the block once if Cond, one BOOL, is true, or, if it is not a scalar condition, if
/// all tensors of Input have elements. Otherwise the outputs stay unchanged.
template <Executor E>
RunOperator<E> conditional_block(const OperatorArguments& op) {
  const bool is_scalar = op.attr("is_scalar_condition", false);
  const Slot condition = is_scalar ? op.input("Cond") : op.inputs("Input"), scopes = op.optional_output("Scope");
  return [=, body = StepBlocks(op, "sub_block")](OperatorCall<E>& call) mutable {
    std::vector<Scope*>* const kept = step_scopes(call, scopes);
    if (kept) kept->clear();
    bool runs = true;
    if (is_scalar) {
      runs = only_number<bool>(call, condition);
    } else {
      for (std::size_t i = 0; i < condition.size; ++i) runs = runs && !call.tensor(condition, i).bytes().empty();
    }
    if (!runs) return;
    body.run_step(0);
    if (kept) kept->push_back(&body[0].scope());
  };
}

/// The number of the variable that a Mask, one INT32 or INT64, chooses.
template <class E>
std::size_t chosen_of(const OperatorCall<E>& call, const Slot& mask, std::size_t count) {
  const std::int64_t chosen = only_id(call, mask);
  if (chosen < 0 || chosen >= static_cast<std::int64_t>(count)) {
    throw OutOfRange(
        detail::text({call.name(mask), " is ", chosen, ", expected less than ", count, ", and not less than 0"}));
  }
  return static_cast<std::size_t>(chosen);
}
/// Copies what a variable holds, a tensor or an array, to an output.
template <class E>
void copy_variable(const OperatorCall<E>& call, const Slot& from, std::size_t i, const Slot& to, std::size_t k) {
  const Variable& source = call.variable(from, i);
  if (source.holds<AnyLoDTensor>()) {
    copy_tensor(call, source.get<AnyLoDTensor>(), to, k);
  } else {
    call.variable(to, k).template get<std::vector<AnyLoDTensor>>() = source.get<std::vector<AnyLoDTensor>>();
  }
}
/// select_input: X..., Mask -> Out: a copy of the X whose number Mask is, a tensor or an array.
template <Executor E>
RunOperator<E> select_input(const OperatorArguments& op) {
  const Slot x = op.inputs("X"), mask = op.input("Mask"), out = op.output("Out");
  return [=](OperatorCall<E>& call) { copy_variable(call, x, chosen_of(call, mask, x.size), out, 0); };
}
/// select_output: X, Mask -> Out...: X is copied to the Out whose number Mask is; the others stay unchanged.
template <Executor E>
RunOperator<E> select_output(const OperatorArguments& op) {
  const Slot x = op.input("X"), mask = op.input("Mask"), out = op.outputs("Out");
  return [=](OperatorCall<E>& call) { copy_variable(call, x, 0, out, chosen_of(call, mask, out.size)); };
}

/// is_empty: X -> Out: one BOOL, whether X has no elements.
template <Executor E>
RunOperator<E> is_empty(const OperatorArguments& op) {
  const Slot x = op.input("X"), out = op.output("Out");
  return [=](OperatorCall<E>& call) {
    const bool found = call.tensor(x).bytes().empty();
    *call.output_bytes(out, DataType::BOOL, LoD(), {}, 1).template elements<bool>() = found;
  };
}

/// A number as by printf's %g, whatever the locale.
inline std::string short_number(double number) {
  char text[64];
  return {text, std::to_chars(text, text + sizeof text, number, std::chars_format::general, 6).ptr};
}
/// Writes the text of the operator `print`: that of PaddlePaddle without place and layout, which are always the same.
struct TensorPrinter {
  std::string message;
  std::int64_t most;
  bool name, type, shape, lod;

  explicit TensorPrinter(const OperatorArguments& op)
      : message(op.attr("message", "")),
        most(op.attr("summarize", 20)),
        name(op.attr("print_tensor_name", true)),
        type(op.attr("print_tensor_type", true)),
        shape(op.attr("print_tensor_shape", true)),
        lod(op.attr("print_tensor_lod", true)) {}

  std::string operator()(const std::string& variable, const AnyLoDTensor& x) const {
    std::string all = name ? "Variable: " + variable + "\n" : "";
    if (!message.empty()) all += "  - message: " + message + "\n";
    if (lod) {
      all += "  - lod: {";
      for (int level = 0; level < x.levels(); ++level) {
        const char* before = "{";
        for (const std::int64_t offset : x.lod().offsets(level)) {
          all += before + std::to_string(offset);
          before = ", ";
        }
        all += "}";
      }
      all += "}\n";
    }
    if (shape) all += "  - shape: " + to_string(x.shape()) + "\n";
    if (type) all += std::string("  - dtype: ") + to_string(x.data_type()) + "\n";
    all += "  - data: [";
    x.visit([&](const auto& view) {
      const auto values = view.values();
      std::size_t count = values.size();
      if (most >= 0) count = std::min(count, static_cast<std::size_t>(most));
      for (std::size_t i = 0; i < count; ++i) {
        const auto value = values[i];
        all += i == 0 ? "" : " ";
        if constexpr (requires { static_cast<double>(value); }) {
          all += short_number(static_cast<double>(value));
        } else {  // a complex number
          all += "(" + short_number(value.real()) + "," + short_number(value.imag()) + ")";
        }
      }
    });
    return all + "]\n";
  }
};
/// print: In -> Out; first_n = -1, message = "", summarize = 20, print_phase = "BOTH", is_forward = true, ...: writes
/// In to standard output, the first `first_n` times, at most `summarize` of its numbers (all if that is -1), and makes
/// Out a copy.
template <Executor E>
RunOperator<E> print(const OperatorArguments& op) {
  const Slot x = op.input("In"), out = op.output("Out");
  const std::int32_t times = op.attr("first_n", -1);
  const std::string phase = op.attr("print_phase", "BOTH");
  const bool prints = op.attr("is_forward", true) ? phase != "BACKWARD" : phase != "FORWARD";
  return [=, printer = TensorPrinter(op), printed = std::int64_t{0}](OperatorCall<E>& call) mutable {
    copy_tensor(call, call.tensor(x), out);
    if (!prints || (times > 0 && printed >= times)) return;
    ++printed;
    std::fputs(printer(call.variable(x).name(), call.tensor(x)).c_str(), stdout);
  };
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs
