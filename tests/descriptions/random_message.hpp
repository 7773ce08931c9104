// SPDX-License-Identifier: Apache-2.0
/// @file
/// Random messages of any schema, as structs of ours and as messages of libprotobuf.
#pragma once

#include "support/random_lod.hpp"
#include <lod/proto.hpp>
#include <lod/proto/program.hpp>
#include <lod/proto/program_part.hpp>
#include <lod/proto/revisions.hpp>

#include <doctest/doctest.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <google/protobuf/stubs/logging.h>
#include <google/protobuf/unknown_field_set.h>
#include <program_desc.pb.h>
#include <program_part.pb.h>
#include <var_desc.pb.h>
#include <var_desc_r1.pb.h>
#include <var_desc_r2.pb.h>
#include <var_desc_r3.pb.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace lod_test {

namespace codec = lod::proto::detail;

/// A struct of ours, and what protoc makes of the same schema.
template <class Ours, class Theirs>
struct Schema {
  using Struct = Ours;
  using Generated = Theirs;
};

/// Calls body(Schema<...>()) for the VarDesc of the newest revision and of the three older ones, and for programs.
template <class Body>
void for_each_schema(const Body& body) {
  const auto call = [&](const char* schema, auto types) {
    CAPTURE(schema);
    body(types);
  };
  call("newest", Schema<lod::VarDesc, lod::schema::VarDesc>());
  call("r1", Schema<lod::proto::r1::VarDesc, lod::schema::r1::VarDesc>());
  call("r2", Schema<lod::proto::r2::VarDesc, lod::schema::r2::VarDesc>());
  call("r3", Schema<lod::proto::r3::VarDesc, lod::schema::r3::VarDesc>());
  call("ProgramDesc", Schema<lod::ProgramDesc, lod::schema::ProgramDesc>());
  call("OpProto", Schema<lod::OpProto, lod::schema::OpProto>());
  call("ProgramPart", Schema<lod::ProgramPart, lod::schema::ProgramPart>());
}

// ---- Random values ----

/// Often one of the numbers where something changes on the wire, in C++ or in a description.
template <class T>
T random_integer(Engine& engine) {
  constexpr std::int64_t notable[] = {0,
                                      1,
                                      -1,
                                      127,
                                      128,
                                      16383,
                                      16384,
                                      std::numeric_limits<std::int32_t>::max(),
                                      std::numeric_limits<std::int32_t>::min(),
                                      std::numeric_limits<std::int64_t>::max(),
                                      std::numeric_limits<std::int64_t>::min()};
  if (random_number(engine, 0, 1) == 0) return static_cast<T>(notable[engine() % std::size(notable)]);
  return static_cast<T>(engine() >> engine() % 64);
}

/// Any but NaN, which is not equal to itself: infinities, zeros and subnormals among them.
template <class T>
T random_real(Engine& engine) {
  constexpr T notable[] = {T(0), -T(0), T(1), std::numeric_limits<T>::infinity(), std::numeric_limits<T>::denorm_min()};
  if (random_number(engine, 0, 3) == 0) return notable[engine() % std::size(notable)];
  return static_cast<T>(std::ldexp(static_cast<double>(engine()), static_cast<int>(random_number(engine, -1100, 900))));
}

/// Any bytes; sometimes so many that the length takes two.
inline std::string random_string(Engine& engine) {
  std::string bytes(static_cast<std::size_t>(random_number(engine, 0, 9) == 0 ? random_number(engine, 120, 300)
                                                                              : random_number(engine, 0, 12)),
                    '\0');
  for (char& byte : bytes) byte = static_cast<char>(engine());
  return bytes;
}

template <class E>
E random_enumerator(Engine& engine) {
  for (;;) {
    const auto number = static_cast<std::int32_t>(random_number(engine, 0, 40));
    if (lod::proto::EnumSchema<E>::contains(number)) return static_cast<E>(number);
  }
}

/// Fields with numbers from `first` on, of all wire types.
inline void add_unknown_fields(Engine& engine, int first, int depth, google::protobuf::UnknownFieldSet& fields) {
  for (std::int64_t count = random_number(engine, 1, 4); count > 0; --count) {
    constexpr int greatest = (1 << 29) - 1;
    const int number = random_number(engine, 0, 9) == 0 ? greatest : first + static_cast<int>(engine() % 30);
    switch (random_number(engine, 0, depth < 4 ? 4 : 3)) {
      case 0:
        fields.AddVarint(number, static_cast<std::uint64_t>(random_integer<std::int64_t>(engine)));
        break;
      case 1:
        fields.AddFixed32(number, static_cast<std::uint32_t>(engine()));
        break;
      case 2:
        fields.AddFixed64(number, engine());
        break;
      case 3:
        fields.AddLengthDelimited(number, random_string(engine));
        break;
      case 4: {
        google::protobuf::UnknownFieldSet& group = *fields.AddGroup(number);
        if (random_number(engine, 0, 3) > 0) add_unknown_fields(engine, 1, depth + 1, group);
        break;
      }
    }
  }
}
/// The same as bytes, with numbers that M does not know.
template <class M>
std::string random_unknown_fields(Engine& engine) {
  google::protobuf::UnknownFieldSet fields;
  add_unknown_fields(engine, static_cast<int>(codec::FieldOf<M, codec::field_count<M> - 1>::number) + 1, 0, fields);
  std::string bytes;
  fields.SerializeToString(&bytes);
  return bytes;
}

template <class T>
T random_value(Engine& engine) {
  if constexpr (std::is_same_v<T, bool>) {
    return random_number(engine, 0, 1) == 1;
  } else if constexpr (std::is_integral_v<T>) {
    return random_integer<T>(engine);
  } else if constexpr (std::is_floating_point_v<T>) {
    return random_real<T>(engine);
  } else if constexpr (std::is_enum_v<T>) {
    return random_enumerator<T>(engine);
  } else if constexpr (std::is_same_v<T, std::string>) {
    return random_string(engine);
  } else {
    T message;
    codec::for_each_field<T>([&](auto index) {
      using F = codec::FieldOf<T, index>;
      using Element = typename F::Element;
      auto& value = message.*F::member;
      if constexpr (F::rule == codec::Rule::REPEATED) {
        const bool is_long = !lod::proto::Message<Element> && random_number(engine, 0, 19) == 0;
        const std::int64_t count = is_long ? random_number(engine, 100, 200) : random_number(engine, 0, 3);
        for (std::int64_t i = 0; i < count; ++i) value.push_back(random_value<Element>(engine));
      } else if (F::rule == codec::Rule::REQUIRED || random_number(engine, 0, 1) == 1) {
        value = random_value<Element>(engine);
      }
    });
    if (random_number(engine, 0, 4) == 0) message.unknown_fields = random_unknown_fields<T>(engine);
    return message;
  }
}

// ---- The same in libprotobuf ----

/// Sets in `to` what is set in `from`, field by field, by libprotobuf's reflection.
template <lod::proto::Message M>
void copy(const M& from, google::protobuf::Message& to) {
  const google::protobuf::Reflection& reflection = *to.GetReflection();
  codec::for_each_field<M>([&](auto index) {
    using F = codec::FieldOf<M, index>;
    using T = typename F::Element;
    const google::protobuf::FieldDescriptor* field = to.GetDescriptor()->FindFieldByNumber(static_cast<int>(F::number));
    const auto set = [&](const T& value) {
      constexpr bool is_repeated = F::rule == codec::Rule::REPEATED;
      if constexpr (lod::proto::Message<T>) {
        copy(value, is_repeated ? *reflection.AddMessage(&to, field) : *reflection.MutableMessage(&to, field));
      } else if constexpr (std::is_same_v<T, bool>) {
        is_repeated ? reflection.AddBool(&to, field, value) : reflection.SetBool(&to, field, value);
      } else if constexpr (std::is_same_v<T, std::int32_t>) {
        is_repeated ? reflection.AddInt32(&to, field, value) : reflection.SetInt32(&to, field, value);
      } else if constexpr (std::is_same_v<T, std::int64_t>) {
        is_repeated ? reflection.AddInt64(&to, field, value) : reflection.SetInt64(&to, field, value);
      } else if constexpr (std::is_same_v<T, std::uint64_t>) {
        is_repeated ? reflection.AddUInt64(&to, field, value) : reflection.SetUInt64(&to, field, value);
      } else if constexpr (std::is_same_v<T, float>) {
        is_repeated ? reflection.AddFloat(&to, field, value) : reflection.SetFloat(&to, field, value);
      } else if constexpr (std::is_same_v<T, double>) {
        is_repeated ? reflection.AddDouble(&to, field, value) : reflection.SetDouble(&to, field, value);
      } else if constexpr (std::is_same_v<T, std::string>) {
        is_repeated ? reflection.AddString(&to, field, value) : reflection.SetString(&to, field, value);
      } else {
        const int number = static_cast<int>(value);
        is_repeated ? reflection.AddEnumValue(&to, field, number) : reflection.SetEnumValue(&to, field, number);
      }
    };
    const auto& value = from.*F::member;
    if constexpr (F::rule == codec::Rule::REPEATED) {
      for (const T& element : value) set(element);
    } else if constexpr (F::rule == codec::Rule::OPTIONAL) {
      if (value.has_value()) set(value.value());
    } else {
      set(value);
    }
  });
  reflection.MutableUnknownFields(&to)->ParseFromString(from.unknown_fields);
}

/// Calls body(schema, engine, message) for `count` random messages of each schema. Debug builds of protoc's code
/// report strings that are not UTF-8, which proto2 allows: that is kept quiet.
template <class Body>
void for_each_random_message(int count, const Body& body) {
  const google::protobuf::LogSilencer quiet;
  for_each_schema([&](auto schema) {
    for (int i = 0; i < count; ++i) {
      INFO("LOD_TEST_SEED=", first_seed(), ": message ", i);
      Engine engine(first_seed() + static_cast<std::uint64_t>(i));
      body(schema, engine, random_value<typename decltype(schema)::Struct>(engine));
    }
  });
}

/// For texts of failures.
inline std::string hex(std::string_view bytes) {
  constexpr const char* digits = "0123456789abcdef";
  std::string out;
  for (const char byte : bytes) {
    const auto number = static_cast<unsigned char>(byte);
    out += {digits[number >> 4], digits[number & 15], ' '};
  }
  return out;
}

}  // namespace lod_test
