// SPDX-License-Identifier: Apache-2.0
/// @file
/// operation_calls, for the files that instantiate it.
#pragma once

#include "operation_calls.hpp"
#include "operation_forms.hpp"
#include "operation_values.hpp"

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace lod_python {

/// What an operation's parameter of a kind is made as, where elements have type T.
template <class Kind, class T>
struct ParameterOf {
  template <class X>
  static std::type_identity<X> plain(std::type_identity<X>);
  template <class U>
  static std::type_identity<lod::LoDTensorView<const U>> plain(
      std::type_identity<lod::operation::TensorArgument<U, lod::Cpu>>);
  using type = typename decltype(plain(
      std::type_identity<typename lod::operation::ArgumentOf<Kind, T, lod::Cpu>::type>()))::type;
};
template <class Kind, class T>
struct ParameterOf<Several<Kind>, T> {
  using type = std::vector<typename ParameterOf<Kind, T>::type>;
};
template <class Kind, class T>
using From = As<typename ParameterOf<Kind, T>::type>;

template <class Options>
inline constexpr bool has_members = !std::same_as<Options, lod::operation::NoOptions>;

/// Form<Op>::run, with options where there are some.
template <class Op, class Options>
auto run(const Options& options, const auto&... arguments) {
  const auto& executor = lod::default_executor<lod::Cpu>();
  if constexpr (has_members<Options>) {
    return Form<Op>::run(executor, arguments..., options);
  } else {
    return Form<Op>::run(executor, arguments...);
  }
}

template <class Op, class T, class Arguments>
struct Caller;
template <class Op, class T, class... Kinds>
struct Caller<Op, T, Takes<Kinds...>> {
  using Options = typename Form<Op>::template Options<T>;
  using Result = decltype(run<Op>(std::declval<const Options&>(),
                                  From<Kinds, T>::from(std::declval<Values&>(), pybind11::handle())...));

  static pybind11::object call(Values& values) {
    // In braces, one is made after the other.
    const std::tuple<decltype(From<Kinds, T>::from(values, values.next()))...> arguments{
        From<Kinds, T>::from(values, values.next())...};
    Options options{};
    if constexpr (has_members<Options>) {
      const auto set = [&](auto& member) {
        const pybind11::object& given = values.next();
        if (given) member = As<std::remove_reference_t<decltype(member)>>::from(values, given);
      };
      decompose(options, [&](auto&... members) { (set(members), ...); });
    }
    values.finish();
    const auto compute = [&] {
      const pybind11::gil_scoped_release unlocked;
      return std::apply([&](const auto&... each) { return run<Op>(options, each...); }, arguments);
    };
    if constexpr (std::is_void_v<Result>) {
      compute();
      return pybind11::none();
    } else {
      return to_python(compute());
    }
  }

  static Signature describe() {
    const std::string name(lod::operation::name_of<Op>);
    const std::vector<std::string> names = split_names(Op::text.arguments);
    if (names.size() != sizeof...(Kinds)) throw std::logic_error("the names of the arguments of " + name);
    std::size_t i = 0;
    Signature signature{name,
                        summary(name),
                        {Parameter{names[i++], std::string(From<Kinds, T>::hint), initial_argument<Kinds>()}...},
                        {},
                        ResultHint<Result>::text()};
    if constexpr (has_members<Options>) {
      const Options options{};
      decompose(options, [&](const auto&... members) {
        std::size_t j = 0;
        (signature.options.push_back({std::string(aggregate<Options>().members[j++]),
                                      As<std::remove_cvref_t<decltype(members)>>::hint, initial(members)}),
         ...);
      });
    }
    return signature;
  }
  /// What the operation does, in a sentence.
  static std::string summary(const std::string& name) {
    return Op::text.summary ? Op::text.summary : "The gradient of `" + name.substr(0, name.rfind("_grad")) + "`.";
  }
  /// The value of an argument that is not given; empty where one has to be.
  template <class Kind>
  static std::string initial_argument() {
    if constexpr (requires { Kind::initial; }) {
      return Kind::initial;
    } else {
      return "";
    }
  }
  /// The value of a member that is not given, as Python writes it.
  template <class X>
  static std::string initial(const X& member) {
    if constexpr (std::is_arithmetic_v<X> || std::is_enum_v<X>) {
      return to_text(pybind11::cast(member));
    } else if constexpr (std::same_as<X, lod::Scalar>) {
      return to_text(pybind11::cast(member.template to<double>()));
    } else if constexpr (requires { std::tuple_size<X>::value; }) {
      return to_text(pybind11::tuple(pybind11::cast(member)));
    } else {
      return "None";
    }
  }
};

/// The place of an operation in the list of all.
template <class Op, class... Ops>
constexpr std::size_t place_of(lod::operation::List<Ops...>) {
  std::size_t place = 0;
  static_cast<void>(((std::same_as<Op, Ops> || (++place, false)) || ...));
  return place;
}

/// Calls of those operations of a list that take elements of type T.
template <class T, class... Ops>
OperationCalls calls_of(lod::operation::List<Ops...> list) {
  OperationCalls calls;
  lod::operation::for_each_operation(list, [&]<class Op>() {
    if constexpr (Op::template includes<T>) {
      OperationCall& call = calls[place_of<Op>(lod::AllOperations())];
      using OpCaller = Caller<Op, T, typename Form<Op>::Arguments>;
      call.call = &OpCaller::call;
      constexpr bool is_described_here =
          std::same_as<T, float> || (std::same_as<T, std::int64_t> && !Op::template includes<float>);
      if constexpr (is_described_here) call.describe = &OpCaller::describe;
    }
  });
  return calls;
}
template <class T>
OperationCalls operation_calls() {
  return calls_of<T>(lod::AllOperations());
}

}  // namespace lod_python
