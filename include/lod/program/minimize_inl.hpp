// SPDX-License-Identifier: Apache-2.0
/// @file
/// Updates of parameters: most of `minimize`.
#pragma once

#include <lod/core/data_type.hpp>
#include <lod/core/desc.hpp>
#include <lod/core/error.hpp>
#include <lod/core/scalar.hpp>
#include <lod/core/target.hpp>
#include <lod/program/backward.hpp>
#include <lod/program/gradient.hpp>
#include <lod/program/minimize.hpp>
#include <lod/program/program.hpp>

namespace lod::inline LOD_INTERFACE::detail::inline LOD_TARGET {

/// A state that an optimizer keeps for each parameter.
struct OptimizerState {
  const char* input;   ///< the parameters of the operator
  const char* output;  ///< null if the operator does not write it: after each step it is multiplied by its first value
  const char* name;    ///< the suffix of the variable's name, after that of the parameter
  float initial = 0;
  bool is_number = false;  ///< whether it is a single number, not one for each element
};
/// An optimizer's operator.
struct OptimizerDesc {
  std::string type;
  std::vector<OpDesc::Attr> attrs = {};
  std::vector<OptimizerState> states = {};
  bool is_dense = false;  ///< whether it takes dense gradients only
};

inline OptimizerDesc describe_optimizer(const SGD&) { return {"sgd"}; }
inline OptimizerDesc describe_optimizer(const Momentum& of) {
  return {"momentum",
          {make_attr("mu", of.momentum), make_attr("use_nesterov", of.use_nesterov)},
          {{"Velocity", "VelocityOut", "velocity"}}};
}
inline OptimizerDesc describe_optimizer(const Adagrad& of) {
  return {
      "adagrad", {make_attr("epsilon", of.epsilon)}, {{"Moment", "MomentOut", "moment", of.initial_accumulator_value}}};
}
inline OptimizerDesc describe_optimizer(const RMSProp& of) {
  OptimizerDesc made{"rmsprop",
                     {make_attr("decay", of.rho), make_attr("epsilon", of.epsilon), make_attr("momentum", of.momentum),
                      make_attr("centered", of.centered)},
                     {{"Moment", "MomentOut", "momentum"},
                      {"MeanSquare", "MeanSquareOut", "mean_square"},
                      {"MeanGrad", "MeanGradOut", "mean_grad"}}};
  return made;
}
inline OptimizerDesc describe_optimizer(const Adam& of) {
  return {"adam",
          {make_attr("beta1", of.beta1), make_attr("beta2", of.beta2), make_attr("epsilon", of.epsilon),
           make_attr("lazy_mode", of.lazy_mode)},
          {{"Moment1", "Moment1Out", "moment1"},
           {"Moment2", "Moment2Out", "moment2"},
           {"Beta1Pow", "Beta1PowOut", "beta1_pow_acc", of.beta1, true},
           {"Beta2Pow", "Beta2PowOut", "beta2_pow_acc", of.beta2, true}}};
}
inline OptimizerDesc describe_optimizer(const Ftrl& of) {
  return {"ftrl",
          {make_attr("l1", of.l1), make_attr("l2", of.l2), make_attr("lr_power", of.lr_power)},
          {{"SquaredAccumulator", "SquaredAccumOut", "squared"}, {"LinearAccumulator", "LinearAccumOut", "linear"}}};
}

inline OptimizerDesc describe_optimizer(const DecayedAdagrad& of) {
  return {"decayed_adagrad",
          {make_attr("decay", of.decay), make_attr("epsilon", of.epsilon)},
          {{"Moment", "MomentOut", "moment"}},
          true};
}
inline OptimizerDesc describe_optimizer(const Adadelta& of) {
  return {"adadelta",
          {make_attr("epsilon", of.epsilon), make_attr("rho", of.rho)},
          {{"AvgSquaredGrad", "AvgSquaredGradOut", "avg_squared_grad"},
           {"AvgSquaredUpdate", "AvgSquaredUpdateOut", "avg_squared_update"}},
          true};
}
inline OptimizerDesc describe_optimizer(const Adamax& of) {
  return {"adamax",
          {make_attr("beta1", of.beta1), make_attr("beta2", of.beta2), make_attr("epsilon", of.epsilon)},
          {{"Moment", "MomentOut", "moment"},
           {"InfNorm", "InfNormOut", "inf_norm"},
           {"Beta1Pow", nullptr, "beta1_pow_acc", of.beta1, true}},
          true};
}
inline OptimizerDesc describe_optimizer(const Lamb& of) {
  return {"lamb",
          {make_attr("beta1", of.beta1), make_attr("beta2", of.beta2), make_attr("epsilon", of.epsilon),
           make_attr("weight_decay", of.lamb_weight_decay)},
          {{"Moment1", "Moment1Out", "moment1"},
           {"Moment2", "Moment2Out", "moment2"},
           {"Beta1Pow", "Beta1PowOut", "beta1_pow_acc", of.beta1, true},
           {"Beta2Pow", "Beta2PowOut", "beta2_pow_acc", of.beta2, true}},
          true};
}
inline OptimizerDesc describe_optimizer(const LarsMomentum& of) {
  return {"lars_momentum",
          {make_attr("mu", of.momentum), make_attr("lars_coeff", of.lars_coeff),
           make_attr("lars_weight_decay", std::vector<float>{of.lars_weight_decay}), make_attr("epsilon", of.epsilon)},
          {{"Velocity", "VelocityOut", "velocity"}},
          true};
}

/// See `minimize`. Works on copies of the programs.
class Minimizer {
 public:
  /// `program` has the operators of `append_backward`, which has returned `pairs`.
  Minimizer(ProgramDesc program, std::vector<ParameterGradient> pairs, ProgramDesc startup,
            const MinimizeOptions& options)
      : program_(std::move(program)), startup_(std::move(startup)), options_(options), pairs_(std::move(pairs)) {
    if (startup_.blocks.empty()) startup_.blocks.emplace_back();
    // PaddlePaddle's order.
    std::sort(pairs_.begin(), pairs_.end(),
              [](const ParameterGradient& a, const ParameterGradient& b) { return a.parameter < b.parameter; });
    std::visit([this](const auto& clip) { clip_by(clip); }, options.grad_clip);
  }

  void update(const Optimizer& optimizer) {
    OptimizerDesc of = std::visit([](const auto& one) { return describe_optimizer(one); }, optimizer);
    const auto* const l2 = std::get_if<L2Decay>(&options_.weight_decay);
    if (l2 && of.type == "momentum") {  // its operator adds the decay itself
      of.attrs.push_back(make_attr("regularization_method", std::string("l2_decay")));
      of.attrs.push_back(make_attr("regularization_coeff", l2->coeff));
    } else {
      std::visit([this](const auto& decay) { regularize(decay); }, options_.weight_decay);
    }
    const std::string rate = unique("learning_rate");
    add_persistable(rate, DataType::FP32, {1},
                    std::visit([](const auto& one) { return one.learning_rate; }, optimizer));
    for (const ParameterGradient& pair : pairs_) {
      const TensorDesc parameter = described(pair.parameter);
      if (of.is_dense && is_row_sparse(pair.gradient)) {
        throw InvalidProgram(detail::text({"parameter '", pair.parameter, "': a row-sparse gradient, ",
                                           "expected a dense one for the operator '", of.type, "'"}));
      }
      OpDesc op{.inputs = {{"Param", {pair.parameter}}, {"Grad", {pair.gradient}}, {"LearningRate", {rate}}},
                .outputs = {{"ParamOut", {pair.parameter}}},
                .type = of.type,
                .attrs = of.attrs};
      std::vector<std::pair<std::string, float>> after;
      for (const OptimizerState& state : of.states) {
        const std::string name = unique(detail::text({pair.parameter, "_", state.name}));
        add_persistable(name, parameter.data_type, state.is_number ? std::vector<std::int64_t>{1} : parameter.dims,
                        state.initial);
        op.inputs.push_back({state.input, {name}});
        if (state.output) op.outputs.push_back({state.output, {name}});
        if (!state.output) after.emplace_back(name, state.initial);
      }
      add(std::move(op), pair);
      for (const auto& [name, factor] : after) {
        add({.inputs = {{"X", {name}}},
             .outputs = {{"Out", {name}}},
             .type = "scale",
             .attrs = {make_attr("scale", factor)}},
            pair);
      }
    }
  }

  /// Moves the results into the arguments; returns the parameters with their gradients.
  std::vector<ParameterGradient> take(ProgramDesc& program, ProgramDesc& startup) && {
    program = std::move(program_);
    startup = std::move(startup_);
    return std::move(pairs_);
  }

 private:
  BlockDesc& block() { return program_.blocks.front(); }

  /// `prefix` with the first number that makes it a new name, and `suffix`.
  std::string unique(const std::string& prefix, const char* suffix = "") {
    for (std::int64_t number = 0;; ++number) {
      std::string name = detail::text({prefix, "_", number, suffix});
      if (!block().find_var(name) && !startup_.blocks.front().find_var(name)) return name;
    }
  }
  /// A parameter's type and shape.
  TensorDesc described(const std::string& parameter) {
    const VarDesc* const var = block().find_var(parameter);
    const TensorDesc* const tensor = var ? described_tensor(*var) : nullptr;
    const bool is_known =
        tensor && std::all_of(tensor->dims.begin(), tensor->dims.end(), [](std::int64_t dim) { return dim >= 0; });
    if (!is_known) {
      throw InvalidProgram(
          detail::text({"parameter '", parameter, "': expected a description with its type and shape"}));
    }
    return *tensor;
  }
  bool is_row_sparse(const std::string& name) {
    const VarDesc* const var = block().find_var(name);
    return var && var->type.type == VarType::SELECTED_ROWS;
  }

  /// Appends an operator that serves the update of a parameter.
  void add(OpDesc op, const ParameterGradient& pair) {
    op.attrs.push_back(make_attr("op_role", OpRole::OPTIMIZE));
    op.attrs.push_back(make_attr("op_role_var", std::vector<std::string>{pair.parameter, pair.gradient}));
    block().ops.push_back(std::move(op));
  }
  /// The same for an operator with one input and one output, which is a new variable described as `like`; returns its
  /// name.
  std::string add(const char* type, const ParameterGradient& pair, const std::string& x, VarDesc like,
                  std::vector<OpDesc::Attr> attrs = {}) {
    like.name = unique(type, ".tmp_0");
    like.persistable = {};
    like.is_parameter = {};
    std::string name = like.name;
    block().vars.push_back(std::move(like));
    add({.inputs = {{"X", {x}}}, .outputs = {{"Out", {name}}}, .type = type, .attrs = std::move(attrs)}, pair);
    return name;
  }
  VarDesc like(const std::string& name) { return *block().find_var(name); }
  static VarDesc number_of(DataType type) { return VarDesc::lod_tensor({}, {type, {1}}); }

  /// A variable that keeps its value, filled by the startup program.
  void add_persistable(const std::string& name, DataType type, const std::vector<std::int64_t>& dims, float value) {
    VarDesc var = VarDesc::lod_tensor(name, {type, dims});
    var.persistable = true;
    var.stop_gradient = true;
    block().vars.push_back(var);
    startup_.blocks.front().vars.push_back(std::move(var));
    startup_.blocks.front().ops.push_back(fill_constant(name, type, dims, value));
  }
  static OpDesc fill_constant(const std::string& name, DataType type, const std::vector<std::int64_t>& dims,
                              float value) {
    return {.outputs = {{"Out", {name}}},
            .type = "fill_constant",
            .attrs = {make_attr("shape", dims), make_attr("dtype", static_cast<std::int32_t>(type)),
                      make_attr("value", value), make_attr("str_value", to_string(Scalar(value)))}};
  }

  void clip_by(std::monostate) {}
  void clip_by(const ClipGradByValue& clip) {
    for (ParameterGradient& pair : pairs_) {
      pair.gradient = add("clip", pair, pair.gradient, like(pair.gradient),
                          {make_attr("min", clip.min.value_or(-clip.max)), make_attr("max", clip.max)});
    }
  }
  void clip_by(const ClipGradByNorm& clip) {
    for (ParameterGradient& pair : pairs_) {
      pair.gradient =
          add("clip_by_norm", pair, pair.gradient, like(pair.gradient), {make_attr("max_norm", clip.clip_norm)});
    }
  }
  void clip_by(const ClipGradByGlobalNorm& clip) {
    OpDesc sum{.inputs = {{"X", {}}}, .outputs = {{"Out", {}}}, .type = "sum"};
    for (const ParameterGradient& pair : pairs_) {
      std::string gradient = pair.gradient;
      if (is_row_sparse(gradient)) {
        gradient = add("merge_selected_rows", pair, gradient, like(gradient));
        gradient = add("get_tensor_from_selected_rows", pair, gradient, like(pair.parameter));
      }
      sum.inputs[0].arguments.push_back(
          add("squared_l2_norm", pair, gradient, number_of(described(pair.parameter).data_type)));
    }
    const ParameterGradient& last = pairs_.back();
    const VarDesc number = number_of(described(last.parameter).data_type);
    // norm / max(norm, length), by which all are multiplied.
    const std::string norm = new_number("fill_constant", number), total = new_number("sum", number);
    sum.outputs[0].arguments = {total};
    add(std::move(sum), last);
    const std::string length = add("sqrt", last, total, number);
    add(fill_constant(norm, number.type.lod_tensor->tensor.data_type, {1}, clip.clip_norm), last);
    const std::string greater = new_number("elementwise_max", number), factor = new_number("elementwise_div", number);
    add(pairwise("elementwise_max", norm, length, greater), last);
    add(pairwise("elementwise_div", norm, greater, factor), last);
    for (const ParameterGradient& pair : pairs_) {
      add(pairwise("elementwise_mul", pair.gradient, factor, pair.gradient), pair);
    }
  }
  std::string new_number(const char* type, VarDesc var) {
    var.name = unique(type, ".tmp_0");
    block().vars.push_back(var);
    return var.name;
  }
  static OpDesc pairwise(const char* type, const std::string& x, const std::string& y, const std::string& out) {
    return {.inputs = {{"X", {x}}, {"Y", {y}}}, .outputs = {{"Out", {out}}}, .type = type};
  }

  void regularize(std::monostate) {}
  void regularize(const L1Decay& decay) {
    for (ParameterGradient& pair : pairs_) {
      add_decay(pair, add("sign", pair, pair.parameter, like(pair.parameter)), decay.coeff);
    }
  }
  void regularize(const L2Decay& decay) {
    for (ParameterGradient& pair : pairs_) add_decay(pair, pair.parameter, decay.coeff);
  }
  void add_decay(ParameterGradient& pair, const std::string& of, float coeff) {
    const std::string decay = add("scale", pair, of, like(pair.parameter), {make_attr("scale", coeff)});
    std::string total = pair.gradient;
    if (is_row_sparse(total)) {  // the sum is dense
      VarDesc var = like(decay);
      total += "@NEWGRAD@";
      var.name = total;
      block().vars.push_back(std::move(var));
    }
    OpDesc sum{.inputs = {{"X", {pair.gradient, decay}}}, .outputs = {{"Out", {total}}}, .type = "sum"};
    add(std::move(sum), pair);
    pair.gradient = total;
  }

  ProgramDesc program_;
  ProgramDesc startup_;
  MinimizeOptions options_;
  std::vector<ParameterGradient> pairs_;
};

}  // namespace lod::inline LOD_INTERFACE::detail::inline LOD_TARGET

namespace lod::inline LOD_INTERFACE::detail {

LOD_PROGRAMS_INLINE std::vector<ParameterGradient> add_updates(ProgramDesc& program, ProgramDesc& startup,
                                                               ProgramDesc with_gradients,
                                                               std::vector<ParameterGradient> pairs,
                                                               const Optimizer& optimizer,
                                                               const MinimizeOptions& options) {
  Minimizer made(std::move(with_gradients), std::move(pairs), startup, options);
  made.update(optimizer);
  return std::move(made).take(program, startup);
}

}  // namespace lod::inline LOD_INTERFACE::detail
