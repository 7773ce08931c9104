// SPDX-License-Identifier: Apache-2.0
/// @file
/// The aggregates that operations take and give, options, weights and results: their names and those of their members,
/// as the compiler knows them.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace lod_python {

/// What Python knows of an aggregate.
struct Aggregate {
  std::string_view name;                  ///< of its named tuple; options have none
  std::vector<std::string_view> members;  ///< their names, in their order
};

/// Arrays are none: Python has tuples for them.
template <class X>
inline constexpr bool is_aggregate_of_operations = std::is_class_v<X>&& std::is_aggregate_v<X> && !requires {
  std::tuple_size<X>::value;
};

namespace reflection {

/// Converts to the type of any member.
struct AnyMember {
  template <class X>
  operator X() const;
};
template <class X, class... Members>
consteval std::size_t count_members() {
  if constexpr (requires { X{std::declval<Members>()..., AnyMember()}; }) {
    return count_members<X, Members..., AnyMember>();
  } else {
    return sizeof...(Members);
  }
}

#ifdef __clang__
#  pragma clang diagnostic push
#  pragma clang diagnostic ignored "-Wundefined-var-template"
#endif
template <class X>
struct Holder {
  X value;
};
/// An X that is nowhere: the addresses of its members are constants, which carry their names.
template <class X>
extern const Holder<X> nowhere;
template <class X>
struct Address {
  const X* address;
};
template <class X>
Address(const X*) -> Address<X>;

/// The last identifier in what the compiler calls the argument.
template <auto member>
consteval std::string_view name_of_member() {
  constexpr std::string_view letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789";
  // "... member = Address<bool>{(& ...::value.lod::v1::MeanVarOptions::unbiased)}; ..." by g++,
  // "... member = Address<bool>{&nowhere.value.unbiased}]" by clang.
  std::string_view text = __PRETTY_FUNCTION__;
  text = text.substr(0, text.find('}'));
  text = text.substr(0, text.find_last_of(letters) + 1);
  return text.substr(text.find_last_not_of(letters) + 1);
}
template <class X>
consteval std::string_view name_of_class() {
  std::string_view text = __PRETTY_FUNCTION__;  // "... X = lod::v1::MeanVar<float, ..." or "... X = lod::Branches..."
  text = text.substr(text.find("X = "));
  text = text.substr(0, text.find_first_of("<;]"));
  return text.substr(text.rfind(':') + 1);
}

}  // namespace reflection

/// f(members...), by reference.
template <class X, class F>
constexpr decltype(auto) decompose(X& of, const F& f) {
  constexpr std::size_t count = reflection::count_members<std::remove_const_t<X>>();
  if constexpr (count == 1) {
    auto& [a] = of;
    return f(a);
  } else if constexpr (count == 2) {
    auto& [a, b] = of;
    return f(a, b);
  } else if constexpr (count == 3) {
    auto& [a, b, c] = of;
    return f(a, b, c);
  } else if constexpr (count == 4) {
    auto& [a, b, c, d] = of;
    return f(a, b, c, d);
  } else if constexpr (count == 5) {
    auto& [a, b, c, d, e] = of;
    return f(a, b, c, d, e);
  } else if constexpr (count == 6) {
    auto& [a, b, c, d, e, g] = of;
    return f(a, b, c, d, e, g);
  } else if constexpr (count == 7) {
    auto& [a, b, c, d, e, g, h] = of;
    return f(a, b, c, d, e, g, h);
  } else if constexpr (count == 8) {
    auto& [a, b, c, d, e, g, h, i] = of;
    return f(a, b, c, d, e, g, h, i);
  } else if constexpr (count == 9) {
    auto& [a, b, c, d, e, g, h, i, j] = of;
    return f(a, b, c, d, e, g, h, i, j);
  } else {
    static_assert(count == 10);
    auto& [a, b, c, d, e, g, h, i, j, k] = of;
    return f(a, b, c, d, e, g, h, i, j, k);
  }
}

namespace reflection {

// Only compilers evaluate these: no code has the address of what is nowhere.
template <class X>
consteval auto addresses_of_members() {
  return decompose(nowhere<X>.value, [](const auto&... members) { return std::tuple(Address{&members}...); });
}
template <class X, std::size_t... i>
consteval auto names_of_members(std::index_sequence<i...>) {
  return std::array{name_of_member<std::get<i>(addresses_of_members<X>())>()...};
}

}  // namespace reflection

/// That of X.
template <class X>
const Aggregate& aggregate() {
  static constexpr auto names =
      reflection::names_of_members<X>(std::make_index_sequence<reflection::count_members<X>()>());
  static const Aggregate known{reflection::name_of_class<X>(), {names.begin(), names.end()}};
  return known;
}
#ifdef __clang__
#  pragma clang diagnostic pop
#endif

}  // namespace lod_python
