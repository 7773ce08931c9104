// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup descriptions
/// How a struct declares which fields of a message its members are: the input of the codec in message.hpp.
#pragma once

#include <lod/core/desc.hpp>
#include <lod/core/target.hpp>
#include <lod/io/proto/wire.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace lod::inline LOD_INTERFACE::proto {

/// Whether the elements of a repeated field share one tag and one length.
enum class Packed : bool { NO, YES };

/// A field of a message: its number, the struct's member that holds it, and its name. The rule and the type follow from
/// the member: T is required, std::optional<T> and Defaulted<T> are optional, std::vector<T> is repeated; T is bool,
/// std::int32_t, std::int64_t, std::uint64_t, float, double, std::string, an enum with an EnumSchema, a struct with a
/// Schema, or std::string_view for bytes that are left as they are in the input.
template <std::uint32_t Number, auto Member, Packed packed = Packed::NO>
struct Field {
  const char* name;
};

/// The fields of a message, for the codec: specialise it with `name` and `fields`, a tuple of Field in the order of
/// their numbers. The struct also has a member `std::string unknown_fields`.
template <class M>
struct Schema;

/// The values of an enum: specialise it with `name` and `contains(std::int32_t)`.
template <class E>
struct EnumSchema;

/// A struct that has a Schema.
template <class M>
concept Message = requires {
  Schema<M>::fields;
};

namespace detail {

// What the type of a member implies.

enum class Rule { REQUIRED, OPTIONAL, REPEATED };

template <class Value>
struct MemberTraits {
  using Element = Value;
  static constexpr Rule rule = Rule::REQUIRED;
};
template <class T>
struct MemberTraits<std::optional<T>> {
  using Element = T;
  static constexpr Rule rule = Rule::OPTIONAL;
};
template <class T, T otherwise>
struct MemberTraits<Defaulted<T, otherwise>> {
  using Element = T;
  static constexpr Rule rule = Rule::OPTIONAL;
};
template <class T>
struct MemberTraits<std::vector<T>> {
  using Element = T;
  static constexpr Rule rule = Rule::REPEATED;
};

template <class Member>
struct MemberValue;
template <class M, class Value>
struct MemberValue<Value M::*> {
  using type = Value;
};

/// Everything that a Field implies.
template <class F>
struct FieldTraits;
template <std::uint32_t Number, auto Member, Packed packed>
struct FieldTraits<Field<Number, Member, packed>> : MemberTraits<typename MemberValue<decltype(Member)>::type> {
  static constexpr std::uint32_t number = Number;
  static constexpr auto member = Member;
  static constexpr bool is_packed = packed == Packed::YES;
};

template <class M>
inline constexpr std::size_t field_count = std::tuple_size_v<std::remove_cvref_t<decltype(Schema<M>::fields)>>;
template <class M, std::size_t I>
using FieldOf = FieldTraits<std::remove_cvref_t<decltype(std::get<I>(Schema<M>::fields))>>;
template <class M, std::size_t I>
LOD_TAGGED constexpr const char* field_name() {
  return std::get<I>(Schema<M>::fields).name;
}

/// Calls f with the index of each field, as a constant, in the order of the fields.
template <class M, class F>
LOD_TAGGED constexpr void for_each_field(F f) {
  [&]<std::size_t... I>(std::index_sequence<I...>) { (f(std::integral_constant<std::size_t, I>()), ...); }
  (std::make_index_sequence<field_count<M>>());
}

template <class T>
LOD_TAGGED constexpr WireType wire_type() {
  if constexpr (std::is_same_v<T, float>) {
    return WireType::FIXED32;
  } else if constexpr (std::is_same_v<T, double>) {
    return WireType::FIXED64;
  } else if constexpr (std::is_integral_v<T> || std::is_enum_v<T>) {
    return WireType::VARINT;
  } else {
    return WireType::LENGTH;
  }
}

/// The tag of a field as it is written.
template <class F>
inline constexpr std::uint32_t tag_of = make_tag(F::number,
                                                 F::is_packed ? WireType::LENGTH : wire_type<typename F::Element>());

/// Whether the values of a field may either share one tag or have one each, however it is declared: repeated numbers.
template <class F>
inline constexpr bool may_be_packed = F::rule == Rule::REPEATED&& wire_type<typename F::Element>() != WireType::LENGTH;

/// Whether a tag is that of a field with the other kind of packing.
template <class F>
LOD_TAGGED constexpr bool is_otherwise_packed(std::uint32_t tag) noexcept {
  constexpr WireType other = F::is_packed ? wire_type<typename F::Element>() : WireType::LENGTH;
  return may_be_packed<F> && tag == make_tag(F::number, other);
}
/// Whether a decoder accepts what follows a tag for the field.
template <class F>
LOD_TAGGED constexpr bool is_of_field(std::uint32_t tag) noexcept {
  return tag == tag_of<F> || is_otherwise_packed<F>(tag);
}

}  // namespace detail
}  // namespace lod::inline LOD_INTERFACE::proto
