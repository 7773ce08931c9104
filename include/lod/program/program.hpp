// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup descriptions
/// Programs: blocks of variables and of operators on them, the form in which PaddlePaddle stores its models. Plain
/// structs with the fields and names of its framework.proto; <lod/proto/program.hpp> turns them into bytes and back,
/// and <lod/io/paddle.hpp> reads and writes the files.
///
///     const auto program = lod::paddle::load_program("custom_gap.pdmodel");
///     for (const lod::OpDesc& op : program.block(0).ops) {
///       if (op.type == "conv2d") use(op.input("Filter"), op.attr<std::vector<std::int32_t>>("strides"));
///     }
///
/// As in <lod/desc.hpp>, each struct keeps the fields that it has no name for in `unknown_fields`, and == compares the
/// contents of the structs.
#pragma once

#include <lod/core/desc.hpp>
#include <lod/core/error.hpp>
#include <lod/core/target.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace lod::inline LOD_INTERFACE {

/// A program that is inconsistent, or lacks what was requested. The text names the place: the block, the operator, the
/// attribute, the variable.
class InvalidProgram : public std::invalid_argument {
 public:
  /// What is wrong, in words; a very long text loses its middle.
  LOD_TAGGED explicit InvalidProgram(const std::string& what) : std::invalid_argument(detail::readable(what)) {}
};

/// A complex number, the value of a ScalarDesc.
struct ComplexDesc {
  double r = 0;
  double i = 0;
  std::string unknown_fields = {};

  LOD_TAGGED bool operator==(const ComplexDesc&) const = default;
};

/// A number that includes its type: the value is in the field of that type.
struct ScalarDesc {
  /// The types.
  enum Type : std::int32_t {
    BOOLEAN = 1,
    LONG = 2,
    FLOAT64 = 3,
    COMPLEX128 = 4,
  };

  Type type = FLOAT64;
  std::optional<bool> b = {};
  std::optional<std::int64_t> i = {};
  std::optional<double> r = {};
  std::optional<ComplexDesc> c = {};
  std::string unknown_fields = {};

  LOD_TAGGED bool operator==(const ScalarDesc&) const = default;
};

namespace detail {

template <class T>
inline constexpr bool is_number_or_string =
    std::is_same_v<T, bool> || std::is_same_v<T, std::int32_t> || std::is_same_v<T, std::int64_t> ||
    std::is_same_v<T, float> || std::is_same_v<T, double> || std::is_same_v<T, std::string> ||
    std::is_same_v<T, ScalarDesc>;
template <class T>
inline constexpr bool is_attr_value = is_number_or_string<T>;
template <class T>
inline constexpr bool is_attr_value<std::vector<T>> = is_number_or_string<T>;

/// A type as which an attribute's value can be read.
template <class T>
concept AttrValue = is_attr_value<T>;

}  // namespace detail

/// An operator: its type ("conv2d"), the variables that it reads and writes, and its attributes.
struct OpDesc {
  /// A parameter of the operator ("Filter"), and the names of the variables that are its arguments.
  struct Var {
    std::string parameter = {};
    std::vector<std::string> arguments = {};
    std::string unknown_fields = {};

    LOD_TAGGED bool operator==(const Var&) const = default;
  };

  /// A named value, in the field of its type. Blocks are given by their indices in the program.
  struct Attr {
    std::string name = {};
    AttrType type = AttrType::INT;
    std::optional<std::int32_t> i = {};
    std::optional<float> f = {};
    std::optional<std::string> s = {};
    std::vector<std::int32_t> ints = {};
    std::vector<float> floats = {};
    std::vector<std::string> strings = {};
    std::optional<bool> b = {};
    std::vector<bool> bools = {};
    std::optional<std::int32_t> block_idx = {};
    std::optional<std::int64_t> l = {};
    std::vector<std::int32_t> blocks_idx = {};
    std::vector<std::int64_t> longs = {};
    std::vector<double> float64s = {};
    std::optional<std::string> var_name = {};
    std::vector<std::string> vars_name = {};
    std::optional<double> float64 = {};
    std::optional<ScalarDesc> scalar = {};
    std::vector<ScalarDesc> scalars = {};
    std::string unknown_fields = {};

    LOD_TAGGED bool operator==(const Attr&) const = default;
  };

  std::vector<Var> inputs = {};
  std::vector<Var> outputs = {};
  std::string type = {};
  std::vector<Attr> attrs = {};
  Defaulted<bool> is_target = {};
  std::string unknown_fields = {};

  /// @{
  /// The names of the variables that are the arguments of a parameter; none if the operator has no such parameter.
  LOD_TAGGED std::span<const std::string> input(std::string_view parameter) const noexcept {
    return arguments_of(inputs, parameter);
  }
  LOD_TAGGED std::span<const std::string> output(std::string_view parameter) const noexcept {
    return arguments_of(outputs, parameter);
  }
  /// @}

  /// The attribute of that name, the first if there are several; null if there is none. O(attributes).
  LOD_TAGGED const Attr* find_attr(std::string_view name) const noexcept {
    for (const Attr& attr : attrs) {
      if (attr.name == name) return &attr;
    }
    return nullptr;
  }
  /// The value of the attribute of that name: `op.attr<std::int64_t>("axis")`. Throws InvalidProgram, which names
  /// operator and attribute, if there is none, if it has another type, and if its value is missing.
  ///
  /// | T | from an attribute of type |
  /// |---|---|
  /// | bool | BOOLEAN |
  /// | std::int32_t | INT, BLOCK |
  /// | std::int64_t | LONG, INT, BLOCK |
  /// | float | FLOAT |
  /// | double | FLOAT64, FLOAT |
  /// | std::string | STRING, VAR |
  /// | ScalarDesc | SCALAR |
  /// | std::vector of one of these | the plural of these types |
  template <detail::AttrValue T>
  LOD_TAGGED T attr(std::string_view name) const;

  LOD_TAGGED bool operator==(const OpDesc&) const = default;

 private:
  LOD_TAGGED static std::span<const std::string> arguments_of(const std::vector<Var>& vars,
                                                              std::string_view parameter) noexcept {
    for (const Var& var : vars) {
      if (var.parameter == parameter) return var.arguments;
    }
    return {};
  }
};

/// A block: variables, and operators that run in order. Operators of an inner block also see the variables of the
/// enclosing block, and of the block whose gradient it computes (see ProgramDesc::find_var).
struct BlockDesc {
  std::int32_t idx = 0;          ///< its index in the program
  std::int32_t parent_idx = -1;  ///< that of the enclosing block; -1 for the root, which is block 0
  std::vector<VarDesc> vars = {};
  std::vector<OpDesc> ops = {};
  Defaulted<std::int32_t, -1> forward_block_idx = {};  ///< that of the block whose gradient this one computes, or -1
  std::string unknown_fields = {};

  /// The variable of that name in this block, not in the enclosing ones; null if there is none. O(variables).
  LOD_TAGGED const VarDesc* find_var(std::string_view name) const noexcept {
    for (const VarDesc& var : vars) {
      if (var.name == name) return &var;
    }
    return nullptr;
  }

  LOD_TAGGED bool operator==(const BlockDesc&) const = default;
};

/// The version of PaddlePaddle that wrote a program: 1000000 major + 1000 minor + patch. A missing one reads as 0,
/// which builds between two releases also write.
struct Version {
  Defaulted<std::int64_t> version = {};
  std::string unknown_fields = {};

  LOD_TAGGED bool operator==(const Version&) const = default;
};

/// The version of the definition of an operator.
struct OpVersion {
  std::int32_t version = 0;
  std::string unknown_fields = {};

  LOD_TAGGED bool operator==(const OpVersion&) const = default;
};

/// An operator's type and its version.
struct OpVersionPair {
  std::string op_name = {};
  OpVersion op_version = {};
  std::string unknown_fields = {};

  LOD_TAGGED bool operator==(const OpVersionPair&) const = default;
};

/// The versions of operators, in programs since October 2020.
struct OpVersionMap {
  std::vector<OpVersionPair> pair = {};
  std::string unknown_fields = {};

  LOD_TAGGED bool operator==(const OpVersionMap&) const = default;
};

/// The version ("1.6.0") since which an operator has its present form, and what that means for older programs.
struct CompatibleInfo {
  /// What it means.
  enum Type : std::int32_t {
    COMPATIBLE = 0,
    DEFINITELY_NOT = 1,
    POSSIBLE = 2,
    BUG_FIX = 3,
    PRECISION_CHANGE = 4,
  };

  std::string version = {};
  Type type = COMPATIBLE;
  std::string unknown_fields = {};

  LOD_TAGGED bool operator==(const CompatibleInfo&) const = default;
};

/// An operator's type and what it is compatible with.
struct OpCompatiblePair {
  std::string op_name = {};
  CompatibleInfo compatible_info = {};
  std::string unknown_fields = {};

  LOD_TAGGED bool operator==(const OpCompatiblePair&) const = default;
};

/// What operators are compatible with, in programs of September 2019 to October 2020.
struct OpCompatibleMap {
  std::vector<OpCompatiblePair> pair = {};
  std::optional<std::string> default_required_version = {};
  std::string unknown_fields = {};

  LOD_TAGGED bool operator==(const OpCompatibleMap&) const = default;
};

/// A program. Its root is block 0.
///
/// The numbers 2 and 3 are reserved in today's framework.proto. They have names here, those of the messages that they
/// once stood for, because unknown fields are written last: only this way is an old program written as it was read.
struct ProgramDesc {
  std::vector<BlockDesc> blocks = {};
  std::optional<Version> old_version = {};  ///< field 2: in programs of August 2018 to September 2019
  std::optional<OpCompatibleMap> op_compatible_map = {};
  std::optional<Version> version = {};
  std::optional<OpVersionMap> op_version_map = {};
  std::string unknown_fields = {};

  /// @{
  /// Block `i`. Throws OutOfRange.
  LOD_TAGGED const BlockDesc& block(std::int32_t i) const {
    if (i < 0 || static_cast<std::size_t>(i) >= blocks.size()) {
      throw OutOfRange(detail::text({"block ", i, " of a program with ", blocks.size(), " blocks"}));
    }
    return blocks[static_cast<std::size_t>(i)];
  }
  LOD_TAGGED BlockDesc& block(std::int32_t i) { return const_cast<BlockDesc&>(std::as_const(*this).block(i)); }
  /// @}

  /// The variable that an operator of block `from` refers to by that name: of this block; otherwise of the block whose
  /// gradient it computes, or of the enclosing one; otherwise of those that these lead to in the same way, the nearest
  /// first. Null if none has one. Throws OutOfRange for a block that does not exist, InvalidProgram for one that does
  /// not come after its enclosing block. O(blocks + variables). Semantics: PaddlePaddle's BlockDesc::FindVarRecursive.
  LOD_TAGGED const VarDesc* find_var(std::string_view name, std::int32_t from = 0) const;

  LOD_TAGGED bool operator==(const ProgramDesc&) const = default;
};

/// The definition of an operator: the parameters and attributes of its type. PaddlePaddle creates these at run time; no
/// model file has them.
struct OpProto {
  /// A parameter.
  struct Var {
    std::string name = {};
    std::string comment = {};
    Defaulted<bool> duplicable = {};    ///< whether it may have several arguments
    Defaulted<bool> intermediate = {};  ///< whether only the gradient reads it
    Defaulted<bool> dispensable = {};   ///< whether it may have none
    Defaulted<bool> extra = {};
    Defaulted<bool> quant = {};
    std::string unknown_fields = {};

    LOD_TAGGED bool operator==(const Var&) const = default;
  };

  /// An attribute.
  struct Attr {
    std::string name = {};
    AttrType type = AttrType::INT;
    std::string comment = {};
    Defaulted<bool> generated = {};  ///< whether it is set by the framework, not by users
    Defaulted<bool> extra = {};
    Defaulted<bool> quant = {};
    Defaulted<bool> support_tensor = {};
    std::string unknown_fields = {};

    LOD_TAGGED bool operator==(const Attr&) const = default;
  };

  std::string type = {};
  std::vector<Var> inputs = {};
  std::vector<Var> outputs = {};
  std::vector<Attr> attrs = {};
  std::string comment = {};
  std::string unknown_fields = {};

  LOD_TAGGED bool operator==(const OpProto&) const = default;
};

/// Throws InvalidProgram, naming the place, unless the program is consistent:
/// - there is a block, and each block's `idx` is its index;
/// - the root has no enclosing block, and every other block comes after its enclosing one;
/// - blocks that attributes and `forward_block_idx` refer to exist;
/// - no two variables of a block have the same name.
///
/// It does not check what the operators mean. O(variables + attributes). `decode` does not call it.
LOD_TAGGED void validate(const ProgramDesc& program);

}  // namespace lod::inline LOD_INTERFACE

#include <lod/program/program_inl.hpp>
