// SPDX-License-Identifier: Apache-2.0
/// @file
/// How values of Python's become arguments of operations, and their results values of Python's.
#pragma once

#include "aggregates.hpp"
#include "tensor.hpp"

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace lod_python {

/// Tensors by index, of any element type.
struct TensorArray {
  std::vector<Tensor> elements;
  lod::AnyLoDTensor like;  // see lod::TensorArray
};

/// The values of a call: of the arguments of an operation, then of its options, in their order. A value that was left
/// out is null. It keeps alive what the arguments in C++ borrow.
class Values {
 public:
  explicit Values(std::vector<pybind11::object> values) : values_(std::move(values)) {}

  /// One after the other.
  const pybind11::object& next() { return values_[next_++]; }
  /// The place of the one that was asked for last; none before one was, and once all are arguments.
  std::size_t place() const noexcept { return next_ - 1; }
  void finish() noexcept { next_ = 0; }
  const pybind11::object& operator[](std::size_t i) const { return values_[i]; }
  /// f(value) in place of each that is given.
  template <class F>
  void replace(const F& f) {
    for (pybind11::object& value : values_) value = value ? f(value) : value;
  }
  /// The type of the elements of one of them, which is a tensor, row-sparse, or several of these; it is made a tensor,
  /// or a list of them. TypeError for others, ValueError for none.
  lod::DataType type_of(std::size_t place, const std::string& hint);

  /// A LoDTensor as it is; nested lists, and whatever has a buffer, DLPack or Arrow, on its memory where that is
  /// possible. TypeError for others.
  const Tensor& tensor(pybind11::handle value);
  /// The same with elements of a type. TypeError for others.
  const Tensor& tensor(pybind11::handle value, lod::DataType type);
  /// The same with elements of INT64 or INT32. TypeError for others.
  const Tensor& ids(pybind11::handle value);
  /// A tensor as it is that is not read-only. ValueError for others.
  const Tensor& writable(pybind11::handle value, lod::DataType type);
  /// SelectedRows. TypeError for others.
  const lod::AnySelectedRows& rows(pybind11::handle value, lod::DataType type);
  /// The numbers of a sequence, or of a tensor.
  std::span<const std::int64_t> numbers(pybind11::handle value);
  /// The levels of a LoDTensor, or lists of offsets.
  const lod::LoD& lod(pybind11::handle value);
  /// The levels of a LoDTensor, lists of offsets, or a number of rows.
  lod::BatchLevels levels(pybind11::handle value);

  /// The values of a named tuple.
  std::vector<pybind11::object> members(pybind11::handle value, const Aggregate& of);

 private:
  std::vector<pybind11::object> values_;
  std::size_t next_ = 0;
  std::deque<Tensor> tensors_;
  std::deque<std::vector<std::int64_t>> numbers_;
  std::deque<lod::LoD> lods_;
};

/// A number of Python's.
lod::Scalar to_scalar(pybind11::handle value);
/// An object with a buffer, DLPack or Arrow, or nested lists, as a tensor. TypeError for others.
Tensor to_tensor(pybind11::handle value);
/// Makes the class of a named tuple, if there is none of the name yet, whose members have these types in stubs.
void named_tuple(const Aggregate& of, const std::vector<std::string>& hints);
/// An object of that class.
pybind11::object to_named_tuple(const Aggregate& of, const pybind11::tuple& values);
/// "a, b" as a and b.
std::vector<std::string> split_names(std::string_view names);
/// A value as Python writes it.
std::string to_text(pybind11::handle value);

// ---- From Python ----

/// How a parameter of an operation is made of a value: from(values, value). `hint` is its type in stubs.
template <class X>
struct As;

template <class T>
struct As<lod::LoDTensorView<const T>> {
  static constexpr const char* hint = "TensorLike";
  static lod::LoDTensorView<const T> from(Values& values, pybind11::handle value) {
    if (value.is_none()) return {};
    return view_of(values.tensor(value, lod::data_type_v<T>));
  }
  static lod::LoDTensorView<const T> view_of(const Tensor& x) {
    return {reinterpret_cast<const T*>(x.bytes().data()), x.part(), &x.whole().row_shape(), x.whole().row_size()};
  }
};
template <>
struct As<lod::operation::Ids::Given<lod::Cpu>> {
  static constexpr const char* hint = "TensorLike";
  static lod::operation::Ids::Given<lod::Cpu> from(Values& values, pybind11::handle value) {
    const Tensor& ids = values.ids(value);
    if (ids.data_type() == lod::DataType::INT32) return As<lod::LoDTensorView<const std::int32_t>>::view_of(ids);
    return As<lod::LoDTensorView<const std::int64_t>>::view_of(ids);
  }
};
/// What is changed in place.
template <class T>
  requires(!std::is_const_v<T>)
struct As<lod::LoDTensorView<T>> {
  static constexpr const char* hint = "WritableTensor";
  static lod::LoDTensorView<T> from(Values& values, pybind11::handle value) {
    const auto view = As<lod::LoDTensorView<const T>>::view_of(values.writable(value, lod::data_type_v<T>));
    return {const_cast<T*>(view.data()), view.lod_view(), &view.row_shape(), view.row_size()};
  }
};
template <class T>
struct As<lod::OptionalTensor<T>> {
  static constexpr const char* hint = "Optional[TensorLike]";
  static lod::OptionalTensor<T> from(Values& values, pybind11::handle value) {
    if (value.is_none()) return nullptr;
    return As<lod::LoDTensorView<const T>>::from(values, value);
  }
};
template <class T>
struct As<lod::LoDTensor<T>> {
  static constexpr const char* hint = "Optional[TensorLike]";
  static lod::LoDTensor<T> from(Values& values, pybind11::handle value) {
    if (value.is_none()) return {};
    return values.tensor(value, lod::data_type_v<T>).tensor().template take<T>();
  }
};
template <class T>
struct As<lod::SelectedRows<T>> {
  static constexpr const char* hint = "SelectedRows";
  static lod::SelectedRows<T> from(Values& values, pybind11::handle value) {
    return lod::AnySelectedRows(values.rows(value, lod::data_type_v<T>)).template take<T>();
  }
};
/// The gradient for an optimizer, and what else may be either.
template <class T>
using DenseOrSparse = std::variant<lod::LoDTensorView<const T>, lod::SelectedRows<T>>;
template <class T>
struct As<DenseOrSparse<T>> {
  static constexpr const char* hint = "Union[TensorLike, SelectedRows]";
  static DenseOrSparse<T> from(Values& values, pybind11::handle value) {
    if (pybind11::isinstance<lod::AnySelectedRows>(value)) return As<lod::SelectedRows<T>>::from(values, value);
    return As<lod::LoDTensorView<const T>>::from(values, value);
  }
};
template <class T>
struct As<lod::TimeMajor<T>> {
  static constexpr const char* hint = "TensorLike";
  static lod::TimeMajor<T> from(Values& values, pybind11::handle value) {
    return lod::TimeMajor<T>(As<lod::LoDTensor<T>>::from(values, value));
  }
};
template <class T>
struct As<lod::TensorArray<T>> {
  static constexpr const char* hint = "Union[TensorArray, Sequence[TensorLike]]";
  static lod::TensorArray<T> from(Values& values, pybind11::handle value) {
    std::vector<lod::LoDTensor<T>> elements;
    for (const pybind11::handle element : value) {
      elements.push_back(As<lod::LoDTensor<T>>::from(values, element));
    }
    lod::TensorArray<T> array(std::move(elements));
    if (pybind11::isinstance<TensorArray>(value)) {
      lod::AnyLoDTensor like = value.cast<const TensorArray&>().like;
      if (like.holds<T>()) array.like() = std::move(like).template take<T>();
    }
    return array;
  }
};
template <class X>
struct As<std::vector<X>> {
  static constexpr const char* hint = std::same_as<X, lod::LoD> || std::same_as<X, lod::BatchLevels>
                                          ? "Sequence[LevelsLike]"
                                      : As<X>::hint[0] == 'S' ? "Sequence[SelectedRows]"
                                                              : "Sequence[TensorLike]";
  static std::vector<X> from(Values& values, pybind11::handle value) {
    std::vector<X> several;
    for (const pybind11::handle one : value) several.push_back(As<X>::from(values, one));
    return several;
  }
};
template <class X>
  requires is_aggregate_of_operations<X>
struct As<std::vector<X>> {
  static inline const std::string hint = "Sequence[" + std::string(As<X>::hint) + "]";
  static std::vector<X> from(Values& values, pybind11::handle value) {
    std::vector<X> several;
    for (const pybind11::handle one : value) several.push_back(As<X>::from(values, one));
    return several;
  }
};
template <>
struct As<lod::operation::ImageShapes> {
  static constexpr const char* hint = "TensorLike";
  static lod::operation::ImageShapes from(Values& values, pybind11::handle value) {
    const Tensor& x = values.tensor(value);
    return lod::LoDTensorView<const char>(nullptr, x.part(), &x.whole().row_shape(), x.whole().row_size());
  }
};
template <>
struct As<lod::LoD> {
  static constexpr const char* hint = "LevelsLike";
  static lod::LoD from(Values& values, pybind11::handle value) { return values.lod(value); }
};
template <>
struct As<lod::BatchLevels> {
  static constexpr const char* hint = "Union[LevelsLike, int]";
  static lod::BatchLevels from(Values& values, pybind11::handle value) { return values.levels(value); }
};
template <>
struct As<lod::operation::IdList> {
  static constexpr const char* hint = "NumbersLike";
  static lod::operation::IdList from(Values& values, pybind11::handle value) { return values.numbers(value); }
};
template <>
struct As<std::span<const std::int64_t>> : As<lod::operation::IdList> {};
template <>
struct As<lod::operation::MaskList> {
  static constexpr const char* hint = "NumbersLike";
  /// The list refers to the span.
  struct Mask {
    std::span<const std::int64_t> numbers;
    operator lod::operation::MaskList() const { return numbers; }
  };
  static Mask from(Values& values, pybind11::handle value) { return {values.numbers(value)}; }
};
template <>
struct As<lod::Shape> {
  static constexpr const char* hint = "Sequence[int]";
  static lod::Shape from(Values& values, pybind11::handle value) { return lod::Shape(values.numbers(value)); }
};
template <std::size_t count>
struct As<std::array<std::int64_t, count>> {
  static constexpr const char* hint = "Sequence[int]";
  static std::array<std::int64_t, count> from(Values& values, pybind11::handle value) {
    const auto numbers = values.numbers(value);
    if (numbers.size() != count) throw pybind11::value_error("expected " + std::to_string(count) + " numbers");
    std::array<std::int64_t, count> array;
    std::copy(numbers.begin(), numbers.end(), array.begin());
    return array;
  }
};
template <>
struct As<lod::Scalar> {
  static constexpr const char* hint = "Union[int, float]";
  static lod::Scalar from(Values&, pybind11::handle value) { return to_scalar(value); }
};
template <>
struct As<lod::RankTable> {
  static constexpr const char* hint = "RankTable";
  static const lod::RankTable& from(Values&, pybind11::handle value) { return value.cast<const lod::RankTable&>(); }
};
template <class X>
struct As<std::optional<X>> {
  static constexpr const char* hint = "Optional[WritableTensor]";
  static std::optional<X> from(Values& values, pybind11::handle value) {
    if (value.is_none()) return std::nullopt;
    return As<X>::from(values, value);
  }
};
template <class T>
struct As<std::type_identity<T>> {
  static constexpr const char* hint = "TypeLike";
  static std::type_identity<T> from(Values&, pybind11::handle) { return {}; }
};

/// A tensor with the object of Python's that it is a view of.
template <class T>
struct Shared {
  const Tensor& tensor;
  lod::LoDTensorView<const T> view() const { return As<lod::LoDTensorView<const T>>::view_of(tensor); }
};
template <class T>
struct As<Shared<T>> {
  static constexpr const char* hint = "TensorLike";
  static Shared<T> from(Values& values, pybind11::handle value) { return {values.tensor(value, lod::data_type_v<T>)}; }
};

/// A function of Python's, for threads that do not have its lock.
class Function {
 public:
  explicit Function(pybind11::function f) : f_(std::move(f)) {}

  template <class... Arguments>
  void operator()(const Arguments&... arguments) const {
    const pybind11::gil_scoped_acquire lock;
    f_(arguments...);
  }
  /// The tensor that it gives for one.
  template <class T>
  lod::LoDTensor<T> tensor(const Tensor& x) const {
    const pybind11::gil_scoped_acquire lock;
    Values values({});
    return As<lod::LoDTensor<T>>::from(values, f_(x));
  }
  /// The two tensors that it gives for copies of views.
  template <class T, class... Views>
  auto two(const lod::LoDTensorView<T>& x, const Views&... more) const {
    const pybind11::gil_scoped_acquire lock;
    using Copy = lod::LoDTensor<std::remove_const_t<T>>;
    Values values({});
    const pybind11::object given = f_(Tensor(Copy(x)), Tensor(Copy(more))...);
    const auto results = given.cast<std::pair<pybind11::object, pybind11::object>>();
    return std::pair(As<Copy>::from(values, results.first), As<Copy>::from(values, results.second));
  }

 private:
  pybind11::function f_;
};
template <>
struct As<Function> {
  static constexpr const char* hint = "Callable[..., Any]";
  static Function from(Values&, pybind11::handle value) { return Function(value.cast<pybind11::function>()); }
};
/// The name of an enumeration.
template <class X>
inline constexpr const char* enum_name = nullptr;
template <>
inline constexpr const char* enum_name<lod::ChunkScheme> = "ChunkScheme";
template <>
inline constexpr const char* enum_name<lod::PoolType> = "PoolType";
template <>
inline constexpr const char* enum_name<lod::Reduction> = "Reduction";
template <>
inline constexpr const char* enum_name<lod::RowIndex> = "RowIndex";
template <>
inline constexpr const char* enum_name<lod::ScatterOp> = "ScatterOp";
template <>
inline constexpr const char* enum_name<lod::Side> = "Side";
template <>
inline constexpr const char* enum_name<lod::Sparse> = "Sparse";
template <class X>
  requires std::is_enum_v<X>
struct As<X> {
  static constexpr const char* hint = enum_name<X>;
  static X from(Values&, pybind11::handle value) { return value.cast<X>(); }
};
template <class X>
  requires std::is_arithmetic_v<X>
struct As<X> {
  static constexpr const char* hint = std::same_as<X, bool> ? "bool" : std::integral<X> ? "int" : "float";
  static X from(Values&, pybind11::handle value) { return value.cast<X>(); }
};
template <class X>
  requires is_aggregate_of_operations<X>
struct As<X> {
  static constexpr std::string_view hint = reflection::name_of_class<X>();
  static X from(Values& values, pybind11::handle value) {
    X made;
    if (value.is_none()) return made;
    const auto members = values.members(value, aggregate<X>());
    std::size_t i = 0;
    decompose(made, [&](auto&... member) {
      ((member = As<std::remove_reference_t<decltype(member)>>::from(values, members[i++])), ...);
    });
    return made;
  }
};

// ---- To Python ----

template <class T>
pybind11::object to_python(lod::LoDTensor<T>&& x) {
  return pybind11::cast(Tensor(std::move(x)));
}
template <class T>
pybind11::object to_python(lod::SelectedRows<T>&& x) {
  return pybind11::cast(lod::AnySelectedRows(std::move(x)));
}
template <class T>
pybind11::object to_python(lod::TimeMajor<T>&& x) {
  return to_python(std::move(x.values()));
}
template <class T>
pybind11::object to_python(lod::TensorArray<T>&& x) {
  TensorArray array{{}, std::move(x.like())};
  for (lod::LoDTensor<T>& element : x) array.elements.emplace_back(std::move(element));
  return pybind11::cast(std::move(array));
}
template <class... Xs>
pybind11::object to_python(std::variant<Xs...>&& one_of) {
  return std::visit([](auto& x) { return to_python(std::move(x)); }, one_of);
}
template <class X>
  requires is_aggregate_of_operations<X> pybind11::object to_python(X&& x);
template <class X>
pybind11::object to_python(std::vector<X>&& several) {
  pybind11::list list;
  for (X& one : several) list.append(to_python(std::move(one)));
  return list;
}
inline pybind11::object to_python(lod::RankTable&& table) { return pybind11::cast(std::move(table)); }
template <class X>
  requires std::is_arithmetic_v<X> pybind11::object to_python(X&& x) { return pybind11::cast(x); }
template <class X>
  requires is_aggregate_of_operations<X> pybind11::object to_python(X&& x) {
    return decompose(x, [](auto&... member) {
      return to_named_tuple(aggregate<X>(), pybind11::make_tuple(to_python(std::move(member))...));
    });
  }

/// The types of results in stubs. Makes the classes of named tuples, whose members are described as well.
template <class X>
struct ResultHint {
  static std::string text() {
    if constexpr (is_aggregate_of_operations<X>) {
      X made;
      decompose(made, [](auto&... member) {
        named_tuple(aggregate<X>(), {ResultHint<std::remove_reference_t<decltype(member)>>::text()...});
      });
      return std::string(aggregate<X>().name);
    } else if constexpr (std::same_as<X, bool>) {
      return "bool";
    } else if constexpr (std::is_arithmetic_v<X>) {
      return std::is_integral_v<X> ? "int" : "float";
    } else {
      return std::is_void_v<X> ? "None" : "LoDTensor";
    }
  }
};
template <>
struct ResultHint<lod::RankTable> {
  static std::string text() { return "RankTable"; }
};
template <class T>
struct ResultHint<lod::SelectedRows<T>> {
  static std::string text() { return "SelectedRows"; }
};
template <class T>
struct ResultHint<lod::TensorArray<T>> {
  static std::string text() { return "TensorArray"; }
};
template <class X>
struct ResultHint<std::vector<X>> {
  static std::string text() { return "list[" + ResultHint<X>::text() + "]"; }
};
template <class... Xs>
struct ResultHint<std::variant<Xs...>> {
  static std::string text() { return "Any"; }
};

}  // namespace lod_python
