// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup descriptions
/// Rules that describe the outputs of an operator before it runs, from the descriptions of its inputs. The library's
/// operators have such rules; for an operator of the user's it is the member `infer` of lod::Operator:
///
///     lod::operators().add("plus", {.prepare = ..., .infer = [](lod::InferShapeContext& op) {
///       op.set_output("Out", op.input("X"));
///     }});
#pragma once

#include <lod/core/desc.hpp>
#include <lod/core/error.hpp>
#include <lod/core/target.hpp>
#include <lod/program/data_flow.hpp>
#include <lod/program/program.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lod::inline LOD_INTERFACE {

namespace detail {

/// Thrown by InferShapeContext for a variable of which nothing is known, and caught by the caller of the rule.
struct NotDescribed {};

}  // namespace detail

/// The variables of one operator as descriptions, for a rule that describes its outputs. A dimension of -1 is unknown,
/// as is one that depends on values. A scalar has no dimensions.
///
/// What a rule throws is rethrown as an InvalidProgram that names the operator's place. Outputs change only once the
/// rule has returned.
class InferShapeContext {
 public:
  /// `inputs` are the descriptions of all arguments of the inputs, in order, null where nothing is known. They and `op`
  /// must outlive this object.
  LOD_TAGGED InferShapeContext(const OpDesc& op, std::vector<const VarType*> inputs)
      : op_(&op), inputs_(std::move(inputs)) {}

  /// The operator, with its attributes.
  LOD_TAGGED const OpDesc& desc() const noexcept { return *op_; }
  /// The value of an attribute; `otherwise` if there is none. Types as for OpDesc::attr.
  template <detail::AttrValue T>
  LOD_TAGGED T attr(std::string_view name, T otherwise) const {
    return op_->find_attr(name) ? op_->attr<T>(name) : std::move(otherwise);
  }
  /// The data type whose number is the value of an attribute; `otherwise` if there is no such attribute. Throws
  /// InvalidProgram for a number that is not one of a data type.
  LOD_TAGGED DataType data_type(std::string_view name, DataType otherwise) const {
    const auto type = static_cast<DataType>(attr(name, static_cast<std::int32_t>(otherwise)));
    if (!is_pod(type)) {
      throw InvalidProgram(detail::text({"attribute '", std::string(name), "', expected the number of a data type"}));
    }
    return type;
  }

  /// How many arguments an input has. Empty names and `@EMPTY@` count, unless all arguments are such.
  LOD_TAGGED std::size_t inputs(std::string_view parameter) const noexcept {
    const auto arguments = op_->input(parameter);
    return std::all_of(arguments.begin(), arguments.end(), is_empty) ? 0 : arguments.size();
  }
  /// The description of an argument of an input: of the tensor itself, of the dense tensor that a SELECTED_ROWS stands
  /// for, or of the elements of a LOD_TENSOR_ARRAY. Throws InvalidProgram if there is no such argument. If nothing is
  /// known of it, this call ends the rule (by an exception), and the outputs stay as they are described.
  LOD_TAGGED LoDTensorDesc input(std::string_view parameter, std::size_t i = 0) const {
    const VarType& found = variable(parameter, i);
    if (found.type == VarType::SELECTED_ROWS && found.selected_rows) return {*found.selected_rows};
    if (found.type == VarType::LOD_TENSOR_ARRAY && found.tensor_array) {
      return {found.tensor_array->tensor, found.tensor_array->lod_level.value()};
    }
    if (found.type != VarType::LOD_TENSOR || !found.lod_tensor) throw detail::NotDescribed();
    return {found.lod_tensor->tensor, found.lod_tensor->lod_level.value()};
  }
  /// The type of the variable. Throws, and ends the rule, as `input` does.
  LOD_TAGGED VarType::Type input_type(std::string_view parameter, std::size_t i = 0) const {
    return variable(parameter, i).type;
  }

  /// The description of a READER among the arguments of an input. Throws, and ends the rule, as `input` does.
  LOD_TAGGED const ReaderDesc& reader(std::string_view parameter, std::size_t i = 0) const {
    const VarType& found = variable(parameter, i);
    if (found.type != VarType::READER || !found.reader) throw detail::NotDescribed();
    return *found.reader;
  }

  /// How many arguments an output has.
  LOD_TAGGED std::size_t outputs(std::string_view parameter) const noexcept { return op_->output(parameter).size(); }
  /// @{
  /// Describes an output: a tensor, or one of the other kinds that `input` describes; or a variable of a kind that has
  /// no description. Does nothing if there is no such argument: many outputs are optional.
  LOD_TAGGED void set_output(std::string_view parameter, LoDTensorDesc desc, std::size_t i = 0,
                             VarType::Type kind = VarType::LOD_TENSOR) {
    const auto arguments = op_->output(parameter);
    if (i >= arguments.size() || is_empty(arguments[i])) return;
    VarType type{.type = kind};
    if (kind == VarType::SELECTED_ROWS) {
      type.selected_rows = std::move(desc.tensor);
    } else if (kind == VarType::LOD_TENSOR_ARRAY) {
      type.tensor_array = LoDTensorArrayDesc{std::move(desc.tensor), desc.lod_level};
    } else if (kind == VarType::LOD_TENSOR) {
      type.lod_tensor = std::move(desc);
    }
    results_.emplace_back(arguments[i], std::move(type));
  }
  LOD_TAGGED void set_output(std::string_view parameter, VarType::Type kind) { set_output(parameter, {}, 0, kind); }
  /// @}

  /// The outputs that have been described, by name.
  LOD_TAGGED std::vector<std::pair<std::string_view, VarType>>& results() noexcept { return results_; }

 private:
  LOD_TAGGED static bool is_empty(const std::string& name) noexcept {
    return name.empty() || name == empty_variable_name;
  }
  LOD_TAGGED const VarType& variable(std::string_view parameter, std::size_t i) const {
    std::size_t first = 0;
    for (const OpDesc::Var& var : op_->inputs) {
      if (var.parameter == parameter && i < var.arguments.size() && !is_empty(var.arguments[i])) {
        if (!inputs_[first + i]) throw detail::NotDescribed();
        return *inputs_[first + i];
      }
      first += var.arguments.size();
    }
    throw InvalidProgram(detail::text({"input '", std::string(parameter), "' has no argument ", i}));
  }

  const OpDesc* op_;
  std::vector<const VarType*> inputs_;
  std::vector<std::pair<std::string_view, VarType>> results_;
};

/// A rule: reads the descriptions of an operator's inputs, and describes its outputs.
using InferShape = std::function<void(InferShapeContext&)>;

}  // namespace lod::inline LOD_INTERFACE

#if defined(LOD_CPU_LIBRARY) || defined(LOD_OPERATORS_LIBRARY)
namespace lod::inline LOD_INTERFACE::compiled {
InferShape inference_of(std::string_view type);
}  // namespace lod::inline LOD_INTERFACE::compiled
#endif

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs {

/// The rule of an operator that comes with the library, compiled here or in the compiled library; null if there is
/// none.
#if defined(LOD_CPU_LIBRARY) || defined(LOD_OPERATORS_LIBRARY)
inline InferShape inference_of(std::string_view type) { return compiled::inference_of(type); }
#else
InferShape inference_of(std::string_view type);
#endif

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs
