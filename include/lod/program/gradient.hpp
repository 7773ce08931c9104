// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup descriptions
/// How operators describe their gradients: by the operators that compute the gradients of their inputs from those of
/// their outputs. `append_backward` (<lod/program/backward.hpp>) assembles these operators and appends them to a
/// program.
///
///     lod::operators().add("cube", {.prepare = cube, .gradient = lod::gradient<"X, Out@GRAD -> X@GRAD">});
///     lod::operators().add("cube_grad", {.prepare = cube_grad});
#pragma once

#include <lod/core/target.hpp>
#include <lod/program/data_flow.hpp>
#include <lod/program/program.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lod::inline LOD_INTERFACE {

/// The name of a variable's gradient.
LOD_TAGGED inline std::string gradient_name(std::string_view variable) {
  return std::string(variable).append(gradient_suffix);
}

/// An attribute, whose type follows from that of its value.
LOD_TAGGED inline OpDesc::Attr make_attr(std::string_view name, std::int32_t value) {
  return {.name = std::string(name), .type = AttrType::INT, .i = value};
}
LOD_TAGGED inline OpDesc::Attr make_attr(std::string_view name, bool value) {
  return {.name = std::string(name), .type = AttrType::BOOLEAN, .b = value};
}
LOD_TAGGED inline OpDesc::Attr make_attr(std::string_view name, float value) {
  return {.name = std::string(name), .type = AttrType::FLOAT, .f = value};
}
LOD_TAGGED inline OpDesc::Attr make_attr(std::string_view name, std::vector<float> value) {
  return {.name = std::string(name), .type = AttrType::FLOATS, .floats = std::move(value)};
}
LOD_TAGGED inline OpDesc::Attr make_attr(std::string_view name, std::string value) {
  return {.name = std::string(name), .type = AttrType::STRING, .s = std::move(value)};
}
LOD_TAGGED inline OpDesc::Attr make_attr(std::string_view name, std::vector<std::string> value) {
  return {.name = std::string(name), .type = AttrType::STRINGS, .strings = std::move(value)};
}
LOD_TAGGED inline OpDesc::Attr make_attr(std::string_view name, std::vector<std::int64_t> value) {
  return {.name = std::string(name), .type = AttrType::LONGS, .longs = std::move(value)};
}
/// Sets an attribute of an operator; replaces one of the same name.
LOD_TAGGED inline void set_attr(OpDesc& op, OpDesc::Attr attr) {
  const auto found =
      std::find_if(op.attrs.begin(), op.attrs.end(), [&](const OpDesc::Attr& one) { return one.name == attr.name; });
  if (found == op.attrs.end()) {
    op.attrs.push_back(std::move(attr));
  } else {
    *found = std::move(attr);
  }
}

/// What an operator's gradient is described from: the operator, and the inputs that need no gradient.
class GradientArguments {
 public:
  /// A set of names of variables.
  using Names = std::set<std::string, std::less<>>;

  /// `without_gradient` are the variables that need no gradient. Both arguments must outlive this object.
  LOD_TAGGED GradientArguments(const OpDesc& op, const Names& without_gradient) noexcept
      : op_(&op), without_gradient_(&without_gradient) {}

  /// The operator.
  LOD_TAGGED const OpDesc& desc() const noexcept { return *op_; }

  /// The names of the gradients of an input's arguments, `@EMPTY@` for each that needs none. If there is only one
  /// argument and it needs none, the list is empty, as in PaddlePaddle.
  LOD_TAGGED std::vector<std::string> input_gradients(std::string_view parameter) const {
    std::vector<std::string> names = gradients(op_->input(parameter), *without_gradient_);
    if (names.size() == 1 && names.front() == empty_variable_name) names.clear();
    return names;
  }
  /// The names of the gradients of an output's arguments. All of them exist when the gradient runs: those of outputs
  /// that the loss does not depend on are zeros.
  LOD_TAGGED std::vector<std::string> output_gradients(std::string_view parameter) const {
    return gradients(op_->output(parameter), {});
  }

  /// The gradient operator with a signature such as `"X, Out@GRAD -> X@GRAD"`. Before the arrow are its inputs: inputs
  /// and outputs of the operator, and gradients of its outputs. After the arrow are its outputs: gradients of the
  /// operator's inputs. `name=parameter` gives a parameter another name in the gradient operator. The type is that of
  /// the operator followed by `_grad`, unless the signature begins with a type and a colon. Attributes are the
  /// operator's.
  LOD_TAGGED OpDesc describe(std::string_view signature) const {
    OpDesc made{.type = op_->type + "_grad", .attrs = op_->attrs};
    if (const std::size_t colon = signature.find(':'); colon != std::string_view::npos) {
      made.type = signature.substr(0, colon);
      signature.remove_prefix(colon + 1);
    }
    const std::size_t arrow = signature.find("->");
    for_each_word(signature.substr(0, arrow), [&](std::string_view name, std::string_view parameter) {
      made.inputs.push_back({std::string(name), arguments(parameter)});
    });
    for_each_word(signature.substr(arrow + 2), [&](std::string_view name, std::string_view parameter) {
      parameter.remove_suffix(gradient_suffix.size());
      made.outputs.push_back({std::string(name), input_gradients(parameter)});
    });
    return made;
  }

 private:
  LOD_TAGGED static std::vector<std::string> gradients(std::span<const std::string> variables, const Names& without) {
    std::vector<std::string> names;
    for (const std::string& name : variables) {
      const bool is_wanted = !name.empty() && name != empty_variable_name && !without.contains(name);
      names.push_back(is_wanted ? gradient_name(name) : std::string(empty_variable_name));
    }
    return names;
  }
  LOD_TAGGED std::vector<std::string> arguments(std::string_view parameter) const {
    if (parameter.ends_with(gradient_suffix)) {
      parameter.remove_suffix(gradient_suffix.size());
      return output_gradients(parameter);
    }
    const auto is_it = [&](const OpDesc::Var& var) { return var.parameter == parameter; };
    const bool is_input = std::any_of(op_->inputs.begin(), op_->inputs.end(), is_it);
    const auto found = is_input ? op_->input(parameter) : op_->output(parameter);
    return {found.begin(), found.end()};
  }
  /// Calls f(name, parameter) for each word, `parameter` or `name=parameter`, of a list.
  template <class F>
  LOD_TAGGED static void for_each_word(std::string_view list, const F& f) {
    constexpr std::string_view between = ", ";
    while (true) {
      list.remove_prefix(std::min(list.find_first_not_of(between), list.size()));
      if (list.empty()) return;
      const std::string_view word = list.substr(0, list.find_first_of(between));
      const std::size_t equals = word.find('=');
      f(word.substr(0, equals), equals == std::string_view::npos ? word : word.substr(equals + 1));
      list.remove_prefix(word.size());
    }
  }

  const OpDesc* op_;
  const Names* without_gradient_;
};

/// How an operator describes its gradient: returns the operators that compute it, in order.
using DescribeGradient = std::vector<OpDesc>(const GradientArguments&);

namespace detail {

/// A signature (see GradientArguments::describe) as a template argument.
template <std::size_t size>
struct GradientSignature {
  char text[size]{};

  // NOLINTNEXTLINE(google-explicit-constructor): a literal stands for it
  LOD_TAGGED consteval GradientSignature(const char (&literal)[size]) {
    std::copy_n(literal, size, text);
    const std::string_view all(literal);
    if (all.find(" -> ") == std::string_view::npos || !all.ends_with(gradient_suffix))
      throw "expected \"X, Out@GRAD -> X@GRAD\"";
  }
};

}  // namespace detail

/// Describes a gradient of one operator with this signature: see GradientArguments::describe.
template <detail::GradientSignature signature>
LOD_TAGGED std::vector<OpDesc> gradient(const GradientArguments& op) {
  return {op.describe(signature.text)};
}

}  // namespace lod::inline LOD_INTERFACE
