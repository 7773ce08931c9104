// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup descriptions
/// What an operator is prepared from: the slots of its variables, and its attributes, as its OpDesc gives them.
#pragma once

#include <lod/core/data_type.hpp>
#include <lod/core/error.hpp>
#include <lod/core/scalar.hpp>
#include <lod/core/target.hpp>
#include <lod/program/data_flow.hpp>
#include <lod/program/program.hpp>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lod::inline LOD_INTERFACE {

class BlockToRun;

/// The arguments of one parameter of an operator, as a range of indices into the variables of its OperatorCall.
struct Slot {
  std::size_t first = 0;
  std::size_t size = 0;

  /// Whether there are any.
  LOD_TAGGED explicit operator bool() const noexcept { return size > 0; }
};

/// The variables and attributes that a description gives an operator. Members throw InvalidProgram for what does not
/// fit; the message names the operator, the parameter or attribute, and what was expected.
class OperatorArguments {
 public:
  /// `op` must outlive this object. `block` is the block that the operator is in; null if it is not prepared for a
  /// program.
  LOD_TAGGED explicit OperatorArguments(const OpDesc& op, BlockToRun* block = nullptr) noexcept
      : op_(&op), block_(block) {}

  /// The description itself.
  LOD_TAGGED const OpDesc& desc() const noexcept { return *op_; }
  /// The block that the operator is in, for operators that own blocks themselves or wait for other threads: see
  /// <lod/program/block_to_run.hpp>. Throws InvalidProgram if the operator is not prepared for a program.
  LOD_TAGGED BlockToRun& block() const {
    if (!block_) refuse({"it needs the block that it is in, expected to be one of a program that runs"});
    return *block_;
  }

  /// @{
  /// The variable that is the argument of a parameter, which must have exactly one. Empty names and `@EMPTY@` do not
  /// count.
  LOD_TAGGED Slot input(std::string_view parameter) const { return only_one(inputs(parameter), "input", parameter); }
  LOD_TAGGED Slot output(std::string_view parameter) const { return only_one(outputs(parameter), "output", parameter); }
  /// @}
  /// @{
  /// The same for a parameter that may have no argument: the slot is then empty.
  LOD_TAGGED Slot optional_input(std::string_view parameter) const {
    const Slot all = inputs(parameter);
    return all ? only_one(all, "input", parameter) : all;
  }
  LOD_TAGGED Slot optional_output(std::string_view parameter) const {
    const Slot all = outputs(parameter);
    return all ? only_one(all, "output", parameter) : all;
  }
  /// @}
  /// @{
  /// All arguments of a parameter; none if all of them are empty.
  LOD_TAGGED Slot inputs(std::string_view parameter) const noexcept { return find(op_->inputs, parameter, 0); }
  LOD_TAGGED Slot outputs(std::string_view parameter) const noexcept {
    return find(op_->outputs, parameter, arguments_of(op_->inputs));
  }
  /// @}
  /// Throws if a parameter has an argument: for inputs that an operator does not support.
  LOD_TAGGED void expect_no_input(std::string_view parameter) const {
    if (inputs(parameter)) refuse({"input '", std::string(parameter), "' is not supported, expected none"});
  }

  /// The value of an attribute; `otherwise` if there is none. Types as for OpDesc::attr.
  template <detail::AttrValue T>
  LOD_TAGGED T attr(std::string_view name, T otherwise) const {
    return op_->find_attr(name) ? op_->attr<T>(name) : std::move(otherwise);
  }
  /// The same for a string.
  LOD_TAGGED std::string attr(std::string_view name, const char* otherwise) const {
    return attr<std::string>(name, otherwise);
  }
  /// The data type whose number is the value of an attribute; `otherwise` if there is no such attribute.
  LOD_TAGGED DataType data_type(std::string_view name, DataType otherwise) const {
    const auto type = static_cast<DataType>(attr(name, static_cast<std::int32_t>(otherwise)));
    if (!is_pod(type)) refuse_attr(name, "the number of a data type");
    return type;
  }
  /// Throws unless the attribute has this value or is absent: for options that an operator does not support.
  LOD_TAGGED void expect_attr(std::string_view name, bool value) const {
    if (attr(name, value) != value) refuse_attr(name, value ? "true" : "false");
  }
  LOD_TAGGED void expect_attr(std::string_view name, const char* value) const {
    if (attr(name, value) != value) refuse_attr(name, value);
  }
  LOD_TAGGED void expect_attr(std::string_view name, std::int32_t value) const {
    if (attr(name, value) != value) refuse_attr(name, std::to_string(value));
  }
  LOD_TAGGED void expect_attr(std::string_view name, float value) const {
    if (attr(name, value) != value) refuse_attr(name, to_string(Scalar(value)));
  }

  /// Throws InvalidProgram with this text, after the operator's type.
  LOD_TAGGED [[noreturn, gnu::cold, gnu::noinline]] void refuse(std::initializer_list<detail::Piece> words) const {
    throw InvalidProgram(detail::text({"operator '", op_->type, "': ", detail::text(words)}));
  }
  /// The same, for an attribute whose value is not supported.
  LOD_TAGGED [[noreturn, gnu::cold, gnu::noinline]] void refuse_attr(std::string_view name,
                                                                     const std::string& expected) const {
    refuse({"attribute '", std::string(name), "' has a value that is not supported, expected ", expected});
  }

 private:
  LOD_TAGGED static std::size_t arguments_of(const std::vector<OpDesc::Var>& vars) noexcept {
    std::size_t count = 0;
    for (const OpDesc::Var& var : vars) count += var.arguments.size();
    return count;
  }
  LOD_TAGGED static Slot find(const std::vector<OpDesc::Var>& vars, std::string_view parameter,
                              std::size_t first) noexcept {
    for (const OpDesc::Var& var : vars) {
      if (var.parameter == parameter) {
        for (const std::string& name : var.arguments) {
          if (!name.empty() && name != empty_variable_name) return {first, var.arguments.size()};
        }
        return {};
      }
      first += var.arguments.size();
    }
    return {};
  }
  LOD_TAGGED Slot only_one(const Slot& all, const char* kind, std::string_view parameter) const {
    if (all.size != 1) {
      refuse({kind, " '", std::string(parameter), "' has ", all.size, " arguments, expected one"});
    }
    return all;
  }

  const OpDesc* op_;
  BlockToRun* block_;
};

}  // namespace lod::inline LOD_INTERFACE
