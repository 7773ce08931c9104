// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup descriptions
/// Gradients of programs.
///
///     for (const auto& [parameter, gradient] : lod::append_backward(program, "loss")) ...
#pragma once

#include <lod/core/desc.hpp>
#include <lod/core/error.hpp>
#include <lod/core/executor.hpp>
#include <lod/core/target.hpp>
#include <lod/program/data_flow.hpp>
#include <lod/program/gradient.hpp>
#include <lod/program/operator.hpp>
#include <lod/program/program.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lod::inline LOD_INTERFACE {

/// The options of `append_backward`.
struct BackwardOptions {
  /// The variables whose gradients are wanted; if empty, those with `is_parameter` and without `stop_gradient`.
  std::vector<std::string> parameters = {};
  /// Variables that are taken for constants, besides those with `stop_gradient`.
  std::vector<std::string> constants = {};
};

/// A parameter of a program and the variable that holds its gradient.
struct ParameterGradient {
  std::string parameter;
  std::string gradient;

  LOD_TAGGED bool operator==(const ParameterGradient&) const = default;
};

/// What the attribute `op_role` of operators says: these can be combined.
struct OpRole {
  static constexpr std::int32_t FORWARD = 0;
  static constexpr std::int32_t BACKWARD = 1;
  static constexpr std::int32_t OPTIMIZE = 2;
  static constexpr std::int32_t LOSS = 256;
};

}  // namespace lod::inline LOD_INTERFACE

namespace lod::inline LOD_INTERFACE::detail::inline LOD_TARGET {

inline bool is_no_variable(std::string_view name) { return name.empty() || name == empty_variable_name; }

/// Calls f(name) for the argument of each parameter, empty ones left out: f may change it if `vars` are not const.
template <class Vars, class F>
void for_each_argument(Vars& vars, const F& f) {
  for (auto& var : vars) {
    for (auto& name : var.arguments) {
      if (!is_no_variable(name)) f(name);
    }
  }
}

/// Whether f(name) holds for an argument of one of the parameters.
template <class F>
bool any_argument(const std::vector<OpDesc::Var>& vars, const F& f) {
  bool found = false;
  for_each_argument(vars, [&](const std::string& name) { found = found || f(name); });
  return found;
}

/// The data type and the shape that are described for a tensor, or for row-sparse values; null for other variables.
inline const TensorDesc* described_tensor(const VarDesc& var) {
  if (var.type.lod_tensor) return &var.type.lod_tensor->tensor;
  return var.type.selected_rows ? &*var.type.selected_rows : nullptr;
}

/// Sums of gradients that several operators write: each writes to a name of its own, and `sum` adds them up before the
/// first operator that reads the sum.
class GradientSums {
 public:
  /// Adds an operator that computes gradients, and first the sums that it needs.
  void add(OpDesc op) {
    for_each_argument(op.inputs, [&](const std::string& name) { finish(name); });
    const std::size_t place = ops_.size();
    for (std::size_t i = 0; i < op.outputs.size(); ++i) {
      for (std::size_t k = 0; k < op.outputs[i].arguments.size(); ++k) {
        std::string& name = op.outputs[i].arguments[k];
        if (is_no_variable(name)) continue;
        std::vector<Place>& writers = writers_of(name);
        if (!writers.empty()) {
          if (writers.size() == 1) {
            std::string& first = argument(writers[0], op, place);
            first = renamed(name, 0);
          }
          const std::string total = name;
          name = renamed(total, writers.size());
        }
        writers.push_back({place, i, k});
      }
    }
    ops_.push_back(std::move(op));
  }
  /// Whether an operator writes a gradient of that name.
  bool has(const std::string& name) const { return writers_.contains(name); }
  /// All operators, with the sums that nothing reads at the end.
  std::vector<OpDesc> take() && {
    for (const std::string& name : order_) finish(name);
    return std::move(ops_);
  }

 private:
  /// An argument of an operator: which one.
  struct Place {
    std::size_t op, output, argument;
  };

  static std::string renamed(const std::string& name, std::size_t i) {
    return detail::text({name, "@RENAME@block0@", i});
  }
  std::vector<Place>& writers_of(const std::string& name) {
    const auto [found, is_new] = writers_.try_emplace(name);
    if (is_new) order_.push_back(name);
    return found->second;
  }
  std::string& argument(const Place& place, OpDesc& added, std::size_t place_of_added) {
    OpDesc& op = place.op == place_of_added ? added : ops_[place.op];
    return op.outputs[place.output].arguments[place.argument];
  }
  void finish(const std::string& name) {
    const auto found = writers_.find(name);
    if (found == writers_.end() || found->second.size() < 2) return;
    OpDesc sum{.inputs = {{"X", {}}}, .outputs = {{"Out", {name}}}, .type = "sum"};
    for (std::size_t i = 0; i < found->second.size(); ++i) sum.inputs[0].arguments.push_back(renamed(name, i));
    found->second = {{ops_.size(), 0, 0}};
    ops_.push_back(std::move(sum));
  }

  std::vector<OpDesc> ops_;
  std::map<std::string, std::vector<Place>, std::less<>> writers_;
  std::vector<std::string> order_;  // names in the order of their first writers
};

/// See `append_backward`.
class Backward {
 public:
  using Names = GradientArguments::Names;
  /// Where types of operators come from: given from outside, so that only programs that ask for gradients compile them.
  using Find = std::optional<Operator<>> (*)(std::string_view type);

  Backward(ProgramDesc& program, std::string_view loss, const BackwardOptions& options, Find find)
      : block_(program.block(0)), loss_(loss), find_(find) {
    if (!block_.find_var(loss_))
      throw InvalidProgram(detail::readable(detail::text({"loss '", loss_, "': block 0 has no such variable"})));
    if (block_.find_var(gradient_name(loss_))) {
      throw InvalidProgram(detail::readable(
          detail::text({"loss '", loss_, "': its gradient is there already, expected a program without one"})));
    }
    constants_.insert(options.constants.begin(), options.constants.end());
    for (const VarDesc& one : block_.vars) {
      if (one.stop_gradient) constants_.insert(one.name);
      if (options.parameters.empty() && one.is_parameter && !constants_.contains(one.name)) {
        parameters_.push_back(one.name);
      }
    }
    for (const std::string& name : options.parameters) {
      if (!block_.find_var(name)) {
        throw InvalidProgram(detail::readable(detail::text({"parameter '", name, "': block 0 has no such variable"})));
      }
      constants_.erase(name);
      parameters_.push_back(name);
    }
    find_path();
    describe();
  }

  /// Writes what was found to the program.
  std::vector<ParameterGradient> append() && {
    std::vector<ParameterGradient> pairs;
    for (const std::string& name : parameters_) {
      if (gradients_.has(gradient_name(name))) pairs.push_back({name, gradient_name(name)});
    }
    std::vector<OpDesc> ops = std::move(gradients_).take();
    std::vector<VarDesc> vars;
    std::set<std::string, std::less<>> described;
    for (const VarDesc& var : block_.vars) described.insert(var.name);
    std::set<std::string, std::less<>> row_sparse;
    for (OpDesc& op : ops) {
      const bool is_first = &op == &ops.front();
      set_attr(op, make_attr("op_role", is_first ? OpRole::BACKWARD | OpRole::LOSS : OpRole::BACKWARD));
      set_attr(op, make_attr("op_role_var", roles(op, pairs)));
      const bool keeps_rows = op.type == "sum" && !any_argument(op.inputs, [&](const std::string& name) {
                                return !row_sparse.contains(name);
                              });
      for_each_argument(op.outputs, [&](const std::string& name) {
        const VarDesc* const var = block_.find_var(variable_of(name));
        const bool is_sparse = keeps_rows || (var && var->is_parameter && is_sparse_gradient(op));
        if (is_sparse) row_sparse.insert(name);
        if (described.insert(name).second) vars.push_back(described_as(name, var, is_sparse));
      });
    }
    if (loss_op_) set_attr(block_.ops[*loss_op_], make_attr("op_role", OpRole::FORWARD | OpRole::LOSS));
    std::move(vars.begin(), vars.end(), std::back_inserter(block_.vars));
    std::move(ops.begin(), ops.end(), std::back_inserter(block_.ops));
    return pairs;
  }

 private:
  static std::string_view variable_of(std::string_view gradient) {
    return gradient.substr(0, gradient.find(gradient_suffix));
  }
  /// The attributes' way to say that a gradient of a table lists rows.
  static bool is_sparse_gradient(const OpDesc& op) {
    const OpDesc::Attr* const attr = op.find_attr("is_sparse");
    return attr && attr->b.value_or(false);
  }
  static VarDesc described_as(const std::string& name, const VarDesc* var, bool is_sparse) {
    VarDesc made{.name = name, .type = {.type = VarType::LOD_TENSOR}};
    if (!var) return made;
    made.type = var->type;
    if (const TensorDesc* const tensor = described_tensor(*var); is_sparse && tensor) {
      made = VarDesc::selected_rows(name, *tensor);
    }
    return made;
  }
  static std::vector<std::string> roles(const OpDesc& op, const std::vector<ParameterGradient>& pairs) {
    std::vector<std::string> names;
    for_each_argument(op.outputs, [&](const std::string& name) {
      for (const ParameterGradient& pair : pairs) {
        if (pair.gradient == name) names.insert(names.end(), {pair.parameter, pair.gradient});
      }
    });
    return names;
  }

  /// Operators between parameters and the loss, and the variables that need gradients.
  void find_path() {
    std::vector<std::optional<Operator<>>> types;
    Names varying(parameters_.begin(), parameters_.end());
    std::map<std::string, std::size_t, std::less<>> writers;
    std::vector<bool> depends(block_.ops.size());
    for (std::size_t i = 0; i < block_.ops.size(); ++i) {
      const OpDesc& op = block_.ops[i];
      types.push_back(find_(op.type));
      depends[i] = types[i] && types[i]->gradient &&
                   any_argument(op.inputs, [&](const std::string& name) { return varying.contains(name); });
      for_each_argument(op.outputs, [&](const std::string& name) {
        if (name == loss_) loss_op_ = i;
        if (!depends[i] || constants_.contains(name)) return;
        varying.insert(name);
      });
    }
    Names wanted{loss_};
    for (std::size_t i = block_.ops.size(); i-- > 0;) {
      const OpDesc& op = block_.ops[i];
      const bool is_on_path =
          depends[i] && any_argument(op.outputs, [&](const std::string& name) { return wanted.contains(name); });
      if (!is_on_path) continue;
      check_written_once(op, i, wanted, writers);
      path_.emplace_back(i, std::move(*types[i]));
      for_each_argument(op.inputs, [&](const std::string& name) {
        if (varying.contains(name)) wanted.insert(name);
      });
    }
    for (const OpDesc& op : block_.ops) {
      for_each_argument(op.inputs, [&](const std::string& name) {
        if (!varying.contains(name)) constants_.insert(name);
      });
    }
    if (path_.empty()) {
      throw InvalidProgram(detail::readable(
          detail::text({"loss '", loss_, "': it depends on no parameter by operators that have gradients, expected ",
                        parameters_.empty() ? "variables with is_parameter, or parameters in the options" : "it to"})));
    }
  }
  /// A gradient has one name for all values that its variable has had: so there may be only one.
  void check_written_once(const OpDesc& op, std::size_t i, const Names& wanted,
                          std::map<std::string, std::size_t, std::less<>>& writers) const {
    for_each_argument(op.outputs, [&](const std::string& name) {
      const VarDesc* const var = block_.find_var(name);
      if (!wanted.contains(name) || (var && var->type.type == VarType::LOD_TENSOR_ARRAY)) return;
      const auto [found, is_first] = writers.emplace(name, i);
      const bool is_read = any_argument(op.inputs, [&](const std::string& other) { return other == name; });
      if (is_first && !is_read) return;
      throw InvalidProgram(detail::readable(
          detail::text({"block 0, operator ", i, " '", op.type, "': writes variable '", name,
                        is_read ? "', which it reads" : detail::text({"', as does operator ", found->second}),
                        ", expected variables that are written once where gradients are wanted"})));
    });
  }

  /// Describes the gradients of the operators on the path, the last first.
  void describe() {
    const VarDesc& loss = *block_.find_var(loss_);
    const TensorDesc* const tensor = described_tensor(loss);
    std::int64_t count = 1;
    if (tensor) {
      for (const std::int64_t dim : tensor->dims) count = dim == 1 ? count : dim;
    }
    if (count != 1) {
      throw InvalidProgram(detail::readable(
          detail::text({"loss '", loss_, "': a dimension of ", count, ", expected one number, as `mean` gives it"})));
    }
    OpDesc begin{.outputs = {{"Out", {gradient_name(loss_)}}}, .type = "fill_constant"};
    begin.attrs = {make_attr("shape", tensor ? tensor->dims : std::vector<std::int64_t>{1}), make_attr("value", 1.0f),
                   make_attr("str_value", std::string("1.0")),
                   make_attr("dtype", static_cast<std::int32_t>(tensor ? tensor->data_type : DataType::FP32))};
    gradients_.add(std::move(begin));
    for (const auto& [place, type] : path_) {
      const OpDesc& op = block_.ops[place];
      for (OpDesc& one : type.gradient(GradientArguments(op, constants_))) {
        if (!any_argument(one.outputs, [](const std::string&) { return true; })) continue;
        for_each_argument(op.outputs, [&](const std::string& name) { add_zeros(name, one); });
        gradients_.add(std::move(one));
      }
    }
  }
  /// The gradient of an output that the loss doesn't depend on, where an operator reads it.
  void add_zeros(const std::string& variable, const OpDesc& reader) {
    const std::string name = gradient_name(variable);
    const auto is_it = [&](const std::string& one) { return one == name; };
    if (gradients_.has(name) || !any_argument(reader.inputs, is_it)) return;
    gradients_.add({.inputs = {{"X", {variable}}},
                    .outputs = {{"Out", {name}}},
                    .type = "fill_any_like",
                    .attrs = {make_attr("value", 0.0f), make_attr("dtype", -1)}});
  }

  BlockDesc& block_;
  std::string loss_;
  Find find_;
  Names constants_;
  std::vector<std::string> parameters_;
  std::optional<std::size_t> loss_op_;
  std::vector<std::pair<std::size_t, Operator<>>> path_;  // operators, the last first
  GradientSums gradients_;
};

}  // namespace lod::inline LOD_INTERFACE::detail::inline LOD_TARGET

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {

/// Adds to block 0 of a program the operators that compute the gradients of a loss by its parameters, and their
/// variables. Returns the parameters that the loss depends on, in the order of their variables (or of the options),
/// each with the variable of its gradient.
///
/// The gradient of x is `x@GRAD`, with the type and shape that x is described with; that of a parameter that only rows
/// of are used (`is_sparse`) is SELECTED_ROWS. Where x is used several times, the parts are `x@GRAD@RENAME@block0@0`,
/// ..., and `sum` adds them up. An argument that needs none is `@EMPTY@`. The gradient of the loss, which has one
/// element, is 1. Operators without a gradient, as for comparisons, make constants. Attributes `op_role` and
/// `op_role_var` are as in PaddlePaddle, which runs these programs.
///
/// Throws InvalidProgram, and leaves the program as it was: if there is no such variable, or if it has a gradient
/// already; if it depends on no parameter; if a variable on the way is written twice, or in place; and what an
/// operator's `gradient` throws. Inner blocks are not entered: `while` and its kin make constants unless there is a
/// gradient for them. O(operators * variables). Semantics: PaddlePaddle's append_backward.
template <std::same_as<CpuExecutor> E = CpuExecutor>
std::vector<ParameterGradient> append_backward(ProgramDesc& program, std::string_view loss,
                                               const BackwardOptions& options = {}) {
  return detail::Backward(program, loss, options, [](std::string_view type) { return operators<E>().find(type); })
      .append();
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET
