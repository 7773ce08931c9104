// SPDX-License-Identifier: Apache-2.0
// The wire format against libprotobuf and the code that protoc makes of the schemas: schemas and valid messages.
#include "random_message.hpp"
#include "support/grain.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>

using namespace lod_test;
using google::protobuf::Descriptor;
using google::protobuf::EnumDescriptor;
using google::protobuf::FieldDescriptor;

namespace {

// ---- Schemas ----

template <class T>
FieldDescriptor::Type type_in_schema() {
  if constexpr (std::is_same_v<T, bool>) return FieldDescriptor::TYPE_BOOL;
  if constexpr (std::is_same_v<T, std::int32_t>) return FieldDescriptor::TYPE_INT32;
  if constexpr (std::is_same_v<T, std::int64_t>) return FieldDescriptor::TYPE_INT64;
  if constexpr (std::is_same_v<T, float>) return FieldDescriptor::TYPE_FLOAT;
  if constexpr (std::is_same_v<T, double>) return FieldDescriptor::TYPE_DOUBLE;
  if constexpr (std::is_same_v<T, std::string>) return FieldDescriptor::TYPE_STRING;
  if constexpr (std::is_enum_v<T>) return FieldDescriptor::TYPE_ENUM;
  return FieldDescriptor::TYPE_MESSAGE;
}

template <class Member>
constexpr bool is_defaulted = false;
template <class T, T otherwise>
constexpr bool is_defaulted<lod::Defaulted<T, otherwise>> = true;

/// The default of a field; an absent Defaulted reads as it.
template <class T>
T default_in_schema(const FieldDescriptor& field) {
  if constexpr (std::is_same_v<T, bool>) {
    return field.default_value_bool();
  } else if constexpr (std::is_same_v<T, std::int32_t>) {
    return field.default_value_int32();
  } else {
    return field.default_value_int64();
  }
}

template <class E>
void check_enum(const EnumDescriptor& in_schema) {
  for (std::int32_t number = -10; number < 1000; ++number) {
    CAPTURE(number);
    const auto* value = in_schema.FindValueByNumber(number);
    if constexpr (std::is_same_v<E, lod::DataType>) {
      // The schema cannot say that only the plain old data among the kinds of variables are element types.
      if (lod::proto::EnumSchema<E>::contains(number)) {
        REQUIRE(value);
        CHECK(value->name() == lod::to_string(static_cast<lod::DataType>(number)));
      }
    } else {
      CHECK(lod::proto::EnumSchema<E>::contains(number) == (value != nullptr));
    }
    if constexpr (std::is_same_v<E, lod::VarType::Type> || std::is_same_v<E, lod::AttrType>) {
      CHECK(lod::to_string(static_cast<E>(number)) == (value ? value->name() : "?"));
    }
  }
}

template <class M>
void check_schema(const Descriptor& in_schema) {
  CAPTURE(in_schema.full_name());
  CHECK(lod::proto::Schema<M>::name == in_schema.name());
  CHECK(codec::field_count<M> == static_cast<std::size_t>(in_schema.field_count()));
  std::uint32_t previous = 0;
  codec::for_each_field<M>([&](auto index) {
    using F = codec::FieldOf<M, index>;
    using T = typename F::Element;
    using Member = std::remove_cvref_t<decltype(std::declval<M>().*F::member)>;
    const std::string name = codec::field_name<M, index>();
    CAPTURE(name);
    CHECK(F::number > previous);
    previous = F::number;
    const FieldDescriptor* field = in_schema.FindFieldByNumber(static_cast<int>(F::number));
    REQUIRE(field);
    CHECK(field->name() == name);
    CHECK(field->is_required() == (F::rule == codec::Rule::REQUIRED));
    CHECK(field->is_repeated() == (F::rule == codec::Rule::REPEATED));
    CHECK(field->is_packed() == F::is_packed);
    CHECK(field->has_default_value() == is_defaulted<Member>);
    if constexpr (is_defaulted<Member>) CHECK(default_in_schema<T>(*field) == Member().value());
    CHECK(field->type() == type_in_schema<T>());
    if constexpr (lod::proto::Message<T>) {
      check_schema<T>(*field->message_type());
    } else if constexpr (std::is_enum_v<T>) {
      check_enum<T>(*field->enum_type());
    }
  });
}

}  // namespace

TEST_CASE("Schema: the structs have the fields, rules, types, defaults and enumerators of the .proto files") {
  for_each_schema([](auto schema) {
    using Types = decltype(schema);
    check_schema<typename Types::Struct>(*Types::Generated::descriptor());
  });
}

TEST_CASE("encode, decode: the same bytes and the same messages as libprotobuf's, both ways") {
  const int count = slow ? 600 : 3000;  // for each schema
  int with_unknown_fields = 0;
  for_each_random_message(count, [&](auto schema, Engine& engine, const auto& message) {
    using M = typename decltype(schema)::Struct;
    typename decltype(schema)::Generated theirs;
    copy(message, theirs);
    const std::string expected = theirs.SerializeAsString();
    INFO("bytes: ", hex(expected));

    const std::string bytes = lod::encode(message);
    REQUIRE(bytes == expected);
    const M decoded = lod::decode<M>(expected);
    REQUIRE(decoded == message);
    REQUIRE(lod::encode(decoded) == expected);  // == does not see whether a default was set; the bytes do

    M reused = random_value<M>(engine);
    lod::decode(expected, reused);
    REQUIRE(reused == message);
    REQUIRE(lod::encode(reused) == expected);

    typename decltype(schema)::Generated parsed;
    REQUIRE(parsed.ParseFromString(bytes));
    REQUIRE(parsed.SerializeAsString() == expected);
    with_unknown_fields += !message.unknown_fields.empty();
  });
  CHECK(with_unknown_fields > count / 3);
}
