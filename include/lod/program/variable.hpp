// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup descriptions
/// The variable: what a VarDesc describes, at run time. It has a name, and holds a tensor, row-sparse values, a list of
/// tensors, ...: one value of the kind that its type says.
#pragma once

#include <lod/core/any_tensor.hpp>
#include <lod/core/data_type.hpp>
#include <lod/core/desc.hpp>
#include <lod/core/device.hpp>
#include <lod/core/error.hpp>
#include <lod/core/lod_index.hpp>
#include <lod/core/lod_tensor.hpp>
#include <lod/core/rank_table.hpp>
#include <lod/core/selected_rows.hpp>
#include <lod/core/shape.hpp>
#include <lod/core/target.hpp>
#include <lod/program/reader.hpp>

#include <any>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

namespace lod::inline LOD_INTERFACE {

class Channel;
class Scope;
class Variable;

namespace detail {
/// See `describe`.
LOD_PROGRAMS VarType type_of(const Variable& variable);
}  // namespace detail

/// A place where operators work: an element of a PLACE_LIST.
struct Place {
  /// The memory that belongs to it.
  enum Type : std::int32_t { CPU = 0, CUDA = 1 };
  Type type = CPU;
  std::int32_t device = 0;  ///< its index in the machine; 0 for CPU

  LOD_TAGGED bool operator==(const Place&) const = default;
};

/// The numbers of words: the contents of a VOCAB.
using Vocabulary = std::unordered_map<std::string, std::int32_t>;

namespace detail {

/// The name of X in error messages, and the type of a variable that is made from an X; empty for an X that no variable
/// holds.
template <class X>
struct ContentsOf {};
template <VarType::Type Type>
struct ContentsOfType {
  static constexpr VarType::Type type = Type;
};
template <>
struct ContentsOf<AnyLoDTensor> : ContentsOfType<VarType::LOD_TENSOR> {
  static constexpr const char* name = "AnyLoDTensor";
};
template <class Device>
struct ContentsOf<BasicAnyLoDTensor<Device>> : ContentsOfType<VarType::LOD_TENSOR> {
  static constexpr const char* name = "a tensor in the memory of a device";
};
template <class T>
struct ContentsOf<SelectedRows<T, Cuda>> : ContentsOfType<VarType::SELECTED_ROWS> {
  static constexpr const char* name = "row-sparse values in the memory of a device";
};
/// Contents in the memory of a device other than the CPU, whose types need headers of their own.
struct OnDevice {
  std::any contents;
};
template <>
struct ContentsOf<OnDevice> {
  static constexpr const char* name = "what is in the memory of a device";
};
template <class X>
inline constexpr bool is_on_device = false;
template <class Device>
inline constexpr bool is_on_device<BasicAnyLoDTensor<Device>> = !std::same_as<Device, Cpu>;
template <class T>
inline constexpr bool is_on_device<SelectedRows<T, Cuda>> = true;
template <>
struct ContentsOf<AnySelectedRows> : ContentsOfType<VarType::SELECTED_ROWS> {
  static constexpr const char* name = "AnySelectedRows";
};
template <>
struct ContentsOf<std::vector<AnyLoDTensor>> : ContentsOfType<VarType::LOD_TENSOR_ARRAY> {
  static constexpr const char* name = "std::vector<AnyLoDTensor>";
};
template <>
struct ContentsOf<RankTable> : ContentsOfType<VarType::LOD_RANK_TABLE> {
  static constexpr const char* name = "RankTable";
};
template <>
struct ContentsOf<std::vector<Scope*>> : ContentsOfType<VarType::STEP_SCOPES> {
  static constexpr const char* name = "std::vector<Scope*>";
};
template <>
struct ContentsOf<std::vector<Place>> : ContentsOfType<VarType::PLACE_LIST> {
  static constexpr const char* name = "std::vector<Place>";
};
template <>
struct ContentsOf<std::shared_ptr<Reader>> : ContentsOfType<VarType::READER> {
  static constexpr const char* name = "std::shared_ptr<Reader>";
};
template <>
struct ContentsOf<std::shared_ptr<Channel>> : ContentsOfType<VarType::CHANNEL> {
  static constexpr const char* name = "std::shared_ptr<Channel>";
};
template <>
struct ContentsOf<std::vector<Variable>> : ContentsOfType<VarType::TUPLE> {
  static constexpr const char* name = "std::vector<Variable>";
};
template <>
struct ContentsOf<std::string> : ContentsOfType<VarType::STRING> {
  static constexpr const char* name = "std::string";
};
template <>
struct ContentsOf<std::vector<std::string>> : ContentsOfType<VarType::STRINGS> {
  static constexpr const char* name = "std::vector<std::string>";
};
template <>
struct ContentsOf<Vocabulary> : ContentsOfType<VarType::VOCAB> {
  static constexpr const char* name = "Vocabulary";
};
template <>
struct ContentsOf<std::any> : ContentsOfType<VarType::RAW> {
  static constexpr const char* name = "std::any";
};

/// A number, whose type is also a data type.
template <class X>
struct ContentsOfNumber : ContentsOfType<static_cast<VarType::Type>(data_type_v<X>)> {
  static constexpr const char* name = to_string(data_type_v<X>);
};
template <>
struct ContentsOf<bool> : ContentsOfNumber<bool> {};
template <>
struct ContentsOf<std::int8_t> : ContentsOfNumber<std::int8_t> {};
template <>
struct ContentsOf<std::int16_t> : ContentsOfNumber<std::int16_t> {};
template <>
struct ContentsOf<std::int32_t> : ContentsOfNumber<std::int32_t> {};
template <>
struct ContentsOf<std::int64_t> : ContentsOfNumber<std::int64_t> {};
template <>
struct ContentsOf<std::uint8_t> : ContentsOfNumber<std::uint8_t> {};
template <>
struct ContentsOf<std::uint32_t> : ContentsOfNumber<std::uint32_t> {};
template <>
struct ContentsOf<std::uint64_t> : ContentsOfNumber<std::uint64_t> {};
template <>
struct ContentsOf<float16> : ContentsOfNumber<float16> {};
template <>
struct ContentsOf<bfloat16> : ContentsOfNumber<bfloat16> {};
template <>
struct ContentsOf<float> : ContentsOfNumber<float> {};
template <>
struct ContentsOf<double> : ContentsOfNumber<double> {};

/// A number of any of these types: apart from the other contents of a variable, since it is copied as bytes.
using Number = std::variant<bool, std::int16_t, std::int32_t, std::int64_t, float16, bfloat16, float, double,
                            std::uint8_t, std::int8_t, std::uint32_t, std::uint64_t>;
static_assert(std::is_trivially_copyable_v<Number>);

}  // namespace detail

/// The possible contents of a variable:
///
/// | X | types of variables |
/// |---|---|
/// | `AnyLoDTensor` | LOD_TENSOR |
/// | `BasicAnyLoDTensor<Cuda>` | LOD_TENSOR, where a program runs on a GPU |
/// | `AnySelectedRows` | SELECTED_ROWS |
/// | `SelectedRows<T, Cuda>` | SELECTED_ROWS, there |
/// | `std::vector<AnyLoDTensor>` | LOD_TENSOR_ARRAY, FEED_MINIBATCH, FETCH_LIST, FEED_LIST |
/// | `RankTable` | LOD_RANK_TABLE |
/// | `std::vector<Scope*>` | STEP_SCOPES: children of a scope, which owns them |
/// | `std::vector<Place>` | PLACE_LIST |
/// | `std::shared_ptr<Reader>` | READER |
/// | `std::shared_ptr<Channel>` | CHANNEL: none, before it is given one; see <lod/program/channel.hpp> |
/// | `std::vector<Variable>` | TUPLE |
/// | `std::string` | STRING, PSTRING |
/// | `std::vector<std::string>` | STRINGS |
/// | `Vocabulary` | VOCAB |
/// | a number: `bool`, `std::int32_t`, `float`, ... | the data type of that name; for SIZE_T `std::uint64_t` |
/// | `std::any` | RAW, SPARSE_COO, SPARSE_CSR, COMPLEX64, COMPLEX128, FP8_E4M3FN, FP8_E5M2 |
template <class X>
concept VariableContents = requires {
  detail::ContentsOf<X>::type;
};

/// A name, a type, and one value of the kind that the type says (see VariableContents).
///
/// Copies share the memory of tensors, as AnyLoDTensor does. An assignment takes over type and value, and keeps the
/// name, which belongs to the variable: a scope finds it by its name. Semantics: PaddlePaddle's Variable, except that
/// that one has no type until a value of some type is first requested.
class Variable {
 public:
  /// A LOD_TENSOR without a name and without rows.
  LOD_TAGGED Variable() : Variable(VarType::LOD_TENSOR) {}
  /// A variable of this type, empty: tensors without rows, empty lists, the number 0. Throws std::invalid_argument for
  /// a value that is not a type, which only a cast can produce.
  LOD_TAGGED explicit Variable(VarType::Type type, std::string name = {})
      : name_(std::move(name)), type_(type), contents_(nothing(type, name_)) {}
  /// Holds `contents`; its type is the first one for them in the table of VariableContents.
  template <VariableContents X>
  LOD_TAGGED Variable(X contents, std::string name = {})
      : Variable(detail::ContentsOf<X>::type, std::move(contents), std::move(name)) {}
  /// Holds a tensor or row-sparse values of known element type.
  template <class T>
  LOD_TAGGED Variable(LoDTensor<T, Cpu> tensor, std::string name = {})
      : Variable(AnyLoDTensor(std::move(tensor)), std::move(name)) {}
  template <class T>
  LOD_TAGGED Variable(SelectedRows<T, Cpu> rows, std::string name = {})
      : Variable(AnySelectedRows(std::move(rows)), std::move(name)) {}
  /// Holds `contents`, with another type. Throws ShapeMismatch if that type does not hold an X.
  template <VariableContents X>
  LOD_TAGGED Variable(VarType::Type type, X contents, std::string name = {}) : Variable(type, std::move(name)) {
    if constexpr (detail::is_on_device<X>) {
      if (type != detail::ContentsOf<X>::type) static_cast<void>(get<X>());  // throws
      contents_ = detail::OnDevice{std::move(contents)};
    } else {
      get<X>() = std::move(contents);
    }
  }

  /// @{
  /// With its name; tensors share their memory, or move.
  LOD_PROGRAMS Variable(const Variable&);
  LOD_PROGRAMS Variable(Variable&&) noexcept;
  /// @}
  /// Keeps its name.
  LOD_TAGGED Variable& operator=(const Variable& other) { return *this = Variable(other); }
  LOD_PROGRAMS Variable& operator=(Variable&& other) noexcept;
  LOD_PROGRAMS ~Variable();

  /// An empty variable with the described name and type.
  ///
  /// A tensor has the described data type and row shape. A shape without -1 and without levels is created in full, as
  /// zeros (a scalar, without dimensions, as one row); otherwise there are no rows, with a 0 in the row shape for each
  /// -1, and no sequences at any level. Row-sparse values have the described height, and no rows. A reader has no
  /// steps, but the described tensors; a tuple has variables of the described types.
  ///
  /// Memory of tensors comes from `resource`: for descriptions from strangers, pass one with a limit. Throws what that
  /// throws; ShapeMismatch for a description of no tensor (a dimension or a lod_level below the minimum, more
  /// dimensions than a Shape has, more than `max_levels` levels, more values than memory can hold);
  /// std::invalid_argument as the constructor.
  LOD_PROGRAMS static Variable create(const VarDesc& desc,
                                      std::pmr::memory_resource* resource = Cpu::default_resource());

  /// Its name.
  LOD_TAGGED const std::string& name() const noexcept { return name_; }
  /// Its type.
  LOD_TAGGED VarType::Type type() const noexcept { return type_; }

  /// Whether it holds an X. An X that no variable can hold is a compile error.
  template <VariableContents X>
  LOD_TAGGED bool holds() const noexcept {
    return find<X>() != nullptr;
  }
  /// @{
  /// Its contents. Throws ShapeMismatch if they are not an X: the text names the variable, what was expected and what
  /// was found.
  template <VariableContents X>
  LOD_TAGGED X& get() {
    return const_cast<X&>(std::as_const(*this).get<X>());
  }
  template <VariableContents X>
  LOD_TAGGED const X& get() const {
    if (const X* held = find<X>()) return *held;
    throw_other(detail::ContentsOf<X>::name);
  }
  /// @}

 private:
  using Contents =
      std::variant<AnyLoDTensor, AnySelectedRows, std::vector<AnyLoDTensor>, RankTable, std::vector<Scope*>,
                   std::vector<Place>, std::shared_ptr<Reader>, std::shared_ptr<Channel>, std::vector<Variable>,
                   std::string, std::vector<std::string>, Vocabulary, std::any, detail::OnDevice, detail::Number>;

  template <class X>
  LOD_TAGGED const X* find() const noexcept {
    if constexpr (detail::is_on_device<X>) {
      const auto* const there = std::get_if<detail::OnDevice>(&contents_);
      return there ? std::any_cast<X>(&there->contents) : nullptr;
    } else if constexpr (std::is_constructible_v<detail::Number, std::in_place_type_t<X>>) {
      const auto* const number = std::get_if<detail::Number>(&contents_);
      return number ? std::get_if<X>(number) : nullptr;
    } else {
      return std::get_if<X>(&contents_);
    }
  }

  LOD_PROGRAMS static Contents nothing(VarType::Type type, const std::string& name);
  LOD_PROGRAMS [[noreturn, gnu::cold]] void throw_other(const char* expected) const;

  std::string name_;
  VarType::Type type_;
  Contents contents_;
};

/// The type of a variable, and what is known of its present value: for tensors what `describe` returns for them; for
/// the tensors of an array what they have in common, with -1 where they differ (no details for an array without
/// tensors, nor for one whose tensors differ in data type or rank). The other lists have no details.
template <std::same_as<Variable> V>  // not of what a variable can be made from
LOD_TAGGED VarType describe(const V& variable) {
  return detail::type_of(variable);
}
/// The same as a variable of that name. Whether it is persistable, a parameter, ... is known only to its description.
LOD_TAGGED inline VarDesc describe(std::string name, const Variable& variable) {
  return {.name = std::move(name), .type = describe(variable)};
}

}  // namespace lod::inline LOD_INTERFACE

#ifndef LOD_PROGRAMS_ARE_COMPILED
#  include <lod/program/variable_inl.hpp>
#endif
