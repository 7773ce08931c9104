// SPDX-License-Identifier: Apache-2.0
/// @file
/// operation_calls, for the files that instantiate it.
#pragma once

#include "operation_calls.hpp"
#include "operation_forms.hpp"
#include "operation_values.hpp"

#include <complex>
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

/// Whether the elements of an argument are of the same type in all calls.
template <class Kind>
inline constexpr bool has_own_elements = false;
template <class U>
inline constexpr bool has_own_elements<lod::operation::TensorOf<U>> = true;
template <>
inline constexpr bool has_own_elements<lod::operation::Ids> = true;
template <class Kind>
inline constexpr bool has_own_elements<Several<Kind>> = has_own_elements<Kind>;
template <>
inline constexpr bool has_own_elements<lod::BatchLevels> = true;  // there are none

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
                        place_of_type(),
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
  /// The first argument whose elements may be of any type; the number of arguments, if there is none.
  static constexpr std::size_t place_of_type() {
    std::size_t place = 0;
    static_cast<void>(((has_own_elements<Kinds> && ++place > 0) && ...));
    return place;
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

/// The operations of which one call, on rows of bytes, is there for elements of all types that have none of their own.
using OfBytes = lod::operation::List<
    lod::op::array_to_lod_tensor, lod::op::array_to_lod_tensor_grad, lod::op::concat, lod::op::concat_grad,
    lod::op::embedding, lod::op::filter, lod::op::filter_grad, lod::op::filter_rows, lod::op::filter_rows_grad,
    lod::op::flatten, lod::op::flatten_grad, lod::op::from_dense, lod::op::from_time_major,
    lod::op::from_time_major_grad, lod::op::insert_level, lod::op::insert_level_grad, lod::op::lod_append,
    lod::op::lod_append_grad, lod::op::lod_reset, lod::op::lod_reset_grad, lod::op::lod_tensor_to_array,
    lod::op::lod_tensor_to_array_grad, lod::op::merge_lod_tensor, lod::op::merge_lod_tensor_grad, lod::op::remove_empty,
    lod::op::remove_empty_grad, lod::op::remove_level, lod::op::remove_level_grad, lod::op::reorder_lod_tensor_by_rank,
    lod::op::reorder_lod_tensor_by_rank_grad, lod::op::select, lod::op::sequence_concat, lod::op::sequence_concat_grad,
    lod::op::sequence_expand, lod::op::sequence_expand_as, lod::op::sequence_first_step, lod::op::sequence_last_step,
    lod::op::sequence_pad, lod::op::sequence_pad_grad, lod::op::sequence_reverse, lod::op::sequence_reverse_grad,
    lod::op::sequence_slice, lod::op::sequence_slice_grad, lod::op::sequence_unpad, lod::op::sequence_unpad_grad,
    lod::op::shrink_rnn_memory, lod::op::shrink_rnn_memory_grad, lod::op::split, lod::op::split_at, lod::op::split_grad,
    lod::op::split_lod_tensor, lod::op::split_lod_tensor_grad, lod::op::split_selected_rows,
    lod::op::split_selected_rows_grad, lod::op::to_time_major, lod::op::to_time_major_grad, lod::op::transpose_levels,
    lod::op::transpose_levels_grad, lod::op::unique_sequences, lod::op::unique_sequences_and_wait>;
template <class Op, class... Ops>
constexpr bool is_one_of(lod::operation::List<Ops...>) {
  return (std::same_as<Op, Ops> || ...);
}

/// Calls of the operations for which `is_chosen<Op>()`, for elements of type T.
template <class T, class Chosen>
OperationCalls calls_of(Chosen is_chosen) {
  OperationCalls calls;
  std::size_t place = 0;
  lod::operation::for_each_operation(lod::AllOperations(), [&]<class Op>() {
    OperationCall& call = calls[place++];
    if constexpr (is_chosen.template operator()<Op>()) {
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
  return calls_of<T>([]<class Op>() { return Op::template includes<T>; });
}
template <class T>
OperationCalls operation_calls_but_moves() {
  // Of the operations of bytes, some take values for padding, and then only elements of some types.
  return calls_of<T>([]<class Op>() {
    return Op::template includes<T> && !(Op::template includes<std::complex<float>> && is_one_of<Op>(OfBytes()));
  });
}

}  // namespace lod_python
