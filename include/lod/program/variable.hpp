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
#include <lod/ops/infer.hpp>
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

/// `levels` levels without sequences, for a description, which does not say where sequences end.
LOD_TAGGED inline LoD levels_without_sequences(int levels, const char* what) {
  if (levels < 0 || levels > max_levels) {
    throw ShapeMismatch(detail::text({what, ": lod_level ", levels, ", expected 0 to ", max_levels}));
  }
  return LoD::from_offsets(std::vector<std::vector<std::int64_t>>(static_cast<std::size_t>(levels), {0}));
}

/// Zeros of the described shape. Unknown dimensions are taken as 0, so that there are no elements.
LOD_TAGGED inline AnyLoDTensor tensor_as_described(LoDTensorDesc desc, const char* what,
                                                   std::pmr::memory_resource* resource) {
  if (desc.tensor.dims.empty()) desc.tensor.dims = {1};  // a scalar is one row
  infer::Batch batch(desc, what);
  bool is_known = batch.rows != infer::unknown;
  for (std::int64_t& dim : batch.row_shape) {
    is_known = is_known && dim != infer::unknown;
    if (dim == infer::unknown) dim = 0;
  }
  const std::int64_t rows = is_known && batch.levels == 0 ? batch.rows : 0;
  LoD lod = levels_without_sequences(batch.levels, what);
  AnyLoDTensor tensor;
  try {
    tensor = AnyLoDTensor(batch.type, std::move(lod), Shape(batch.row_shape), uninitialized, rows, resource);
  } catch (const ShapeMismatch& error) {
    throw ShapeMismatch(readable(text({what, ": ", error.what()})));
  } catch (const std::invalid_argument& error) {
    throw std::invalid_argument(text({what, ": ", error.what()}));
  }
  const auto bytes = tensor.mutable_bytes();
  if (!bytes.empty()) std::memset(bytes.data(), 0, bytes.size());
  return tensor;
}

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

  LOD_TAGGED Variable(const Variable&) = default;
  LOD_TAGGED Variable(Variable&&) noexcept = default;
  /// Keeps its name.
  LOD_TAGGED Variable& operator=(const Variable& other) { return *this = Variable(other); }
  LOD_TAGGED Variable& operator=(Variable&& other) noexcept {
    if (this != &other) {  // some of the contents would be empty afterwards
      type_ = other.type_;
      contents_ = std::move(other.contents_);
    }
    return *this;
  }
  LOD_TAGGED ~Variable() = default;

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
  LOD_TAGGED static Variable create(const VarDesc& desc, std::pmr::memory_resource* resource = Cpu::default_resource());

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
                   std::string, std::vector<std::string>, Vocabulary, std::any, bool, std::int16_t, std::int32_t,
                   std::int64_t, float16, bfloat16, float, double, std::uint8_t, std::int8_t, std::uint32_t,
                   std::uint64_t, detail::OnDevice>;

  template <class X>
  LOD_TAGGED const X* find() const noexcept {
    if constexpr (detail::is_on_device<X>) {
      const auto* const there = std::get_if<detail::OnDevice>(&contents_);
      return there ? std::any_cast<X>(&there->contents) : nullptr;
    } else {
      return std::get_if<X>(&contents_);
    }
  }

  LOD_TAGGED static Contents nothing(VarType::Type type, const std::string& name);
  LOD_TAGGED [[noreturn, gnu::cold, gnu::noinline]] void throw_other(const char* expected) const {
    const char* const found = std::visit([]<class X>(const X&) { return detail::ContentsOf<X>::name; }, contents_);
    throw ShapeMismatch(detail::text(
        {"variable '", name_, "': expected ", expected, ", found ", found, " (type ", to_string(type_), ")"}));
  }

  std::string name_;
  VarType::Type type_;
  Contents contents_;
};

inline Variable::Contents Variable::nothing(VarType::Type type, const std::string& name) {
  switch (type) {
    case VarType::LOD_TENSOR:
      return AnyLoDTensor();
    case VarType::SELECTED_ROWS:
      return AnySelectedRows();
    case VarType::LOD_TENSOR_ARRAY:
    case VarType::FEED_MINIBATCH:
    case VarType::FETCH_LIST:
    case VarType::FEED_LIST:
      return std::vector<AnyLoDTensor>();
    case VarType::LOD_RANK_TABLE:
      return RankTable();
    case VarType::STEP_SCOPES:
      return std::vector<Scope*>();
    case VarType::PLACE_LIST:
      return std::vector<Place>();
    case VarType::READER:
      return std::shared_ptr<Reader>(std::make_shared<EmptyReader>());
    case VarType::TUPLE:
      return std::vector<Variable>();
    case VarType::STRING:
    case VarType::PSTRING:
      return std::string();
    case VarType::STRINGS:
      return std::vector<std::string>();
    case VarType::VOCAB:
      return Vocabulary();
    case VarType::BOOL:
      return false;
    case VarType::INT16:
      return std::int16_t{0};
    case VarType::INT32:
      return std::int32_t{0};
    case VarType::INT64:
      return std::int64_t{0};
    case VarType::FP16:
      return float16();
    case VarType::BF16:
      return bfloat16();
    case VarType::FP32:
      return 0.0f;
    case VarType::FP64:
      return 0.0;
    case VarType::UINT8:
      return std::uint8_t{0};
    case VarType::INT8:
      return std::int8_t{0};
    case VarType::UINT32:
      return std::uint32_t{0};
    case VarType::SIZE_T:
    case VarType::UINT64:
      return std::uint64_t{0};
    case VarType::CHANNEL:
      return std::shared_ptr<Channel>();
    case VarType::RAW:
    case VarType::SPARSE_COO:
    case VarType::SPARSE_CSR:
    case VarType::COMPLEX64:
    case VarType::COMPLEX128:
    case VarType::FP8_E4M3FN:
    case VarType::FP8_E5M2:
      return std::any();
  }
  throw std::invalid_argument(detail::readable(
      detail::text({"variable '", name, "': ", static_cast<std::int32_t>(type), " is no VarType::Type"})));
}

inline Variable Variable::create(const VarDesc& desc, std::pmr::memory_resource* resource) {
  Variable variable(desc.type.type, desc.name);
  const std::string what = detail::text({"variable '", desc.name, "'"});
  if (desc.type.type == VarType::LOD_TENSOR && desc.type.lod_tensor) {
    variable.get<AnyLoDTensor>() = detail::tensor_as_described(*desc.type.lod_tensor, what.c_str(), resource);
  } else if (desc.type.type == VarType::SELECTED_ROWS && desc.type.selected_rows) {
    const TensorDesc& dense = *desc.type.selected_rows;
    TensorDesc value{dense.data_type, dense.dims};
    std::int64_t height = 0;
    if (dense.dims.empty()) {
      value.dims = {0};  // of no height: row-sparse values are not a scalar
    } else {
      infer::check_dims(dense.dims, what.c_str());
      if (dense.dims.front() != infer::unknown) height = dense.dims.front();
      value.dims.front() = 0;
    }
    variable.get<AnySelectedRows>() =
        AnySelectedRows({}, height, detail::tensor_as_described({std::move(value)}, what.c_str(), resource));
  } else if (desc.type.type == VarType::READER && desc.type.reader) {
    variable.get<std::shared_ptr<Reader>>() = std::make_shared<EmptyReader>(*desc.type.reader);
  } else if (desc.type.type == VarType::TUPLE && desc.type.tuple) {
    auto& elements = variable.get<std::vector<Variable>>();
    for (const VarType::Type type : desc.type.tuple->element_type) {
      elements.emplace_back(type, detail::text({desc.name, "[", elements.size(), "]"}));
    }
  }
  return variable;
}

namespace detail {

/// What the tensors of an array have in common; nothing if there are none, or if they differ in data type or rank.
LOD_TAGGED inline std::optional<LoDTensorArrayDesc> describe_elements(const std::vector<AnyLoDTensor>& array) {
  if (array.empty()) return std::nullopt;
  const LoDTensorDesc first = describe(array.front());
  LoDTensorArrayDesc common{first.tensor, first.lod_level};
  for (const AnyLoDTensor& element : array) {
    const LoDTensorDesc desc = describe(element);
    if (desc.tensor.data_type != common.tensor.data_type || desc.tensor.dims.size() != common.tensor.dims.size()) {
      return std::nullopt;
    }
    for (std::size_t dim = 0; dim < desc.tensor.dims.size(); ++dim) {
      if (desc.tensor.dims[dim] != common.tensor.dims[dim]) common.tensor.dims[dim] = infer::unknown;
    }
    if (desc.lod_level != common.lod_level) common.lod_level = -1;
  }
  return common;
}

}  // namespace detail

/// The type of a variable, and what is known of its present value: for tensors what `describe` returns for them; for
/// the tensors of an array what they have in common, with -1 where they differ (no details for an array without
/// tensors, nor for one whose tensors differ in data type or rank). The other lists have no details.
template <std::same_as<Variable> V>  // not of what a variable can be made from
LOD_TAGGED VarType describe(const V& variable) {
  VarType type{.type = variable.type()};
  if (variable.type() == VarType::LOD_TENSOR) {
    type.lod_tensor = describe(variable.template get<AnyLoDTensor>());
  } else if (variable.type() == VarType::SELECTED_ROWS) {
    type.selected_rows = describe(variable.template get<AnySelectedRows>());
  } else if (variable.type() == VarType::LOD_TENSOR_ARRAY) {
    type.tensor_array = detail::describe_elements(variable.template get<std::vector<AnyLoDTensor>>());
  } else if (variable.type() == VarType::READER) {
    if (const auto& reader = variable.template get<std::shared_ptr<Reader>>()) type.reader = reader->desc();
  } else if (variable.type() == VarType::TUPLE) {
    type.tuple.emplace();
    for (const Variable& element : variable.template get<std::vector<Variable>>()) {
      type.tuple->element_type.push_back(element.type());
    }
  }
  return type;
}
/// The same as a variable of that name. Whether it is persistable, a parameter, ... is known only to its description.
LOD_TAGGED inline VarDesc describe(std::string name, const Variable& variable) {
  return {.name = std::move(name), .type = describe(variable)};
}

}  // namespace lod::inline LOD_INTERFACE
