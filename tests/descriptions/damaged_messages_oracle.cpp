// SPDX-License-Identifier: Apache-2.0
// Damaged messages: what the decoder accepts and what comes of it, against libprotobuf.
#include "random_message.hpp"
#include "support/grain.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

using namespace lod_test;

namespace {

template <class M>
struct Decoded {
  std::optional<M> message = {};
  std::string error = {};
  std::size_t position = 0;
};
template <class M>
Decoded<M> try_decode(std::string_view bytes) {
  try {
    return {.message = lod::decode<M>(bytes)};
  } catch (const lod::ParseError& error) {
    return {.error = error.what(), .position = error.position()};
  }
}

/// One change of the kinds that transport and programs make: a byte, a bit, bytes lost, doubled, inserted, cut off.
void damage(Engine& engine, std::string& bytes) {
  const auto at = [&] { return static_cast<std::size_t>(engine() % bytes.size()); };
  if (bytes.empty()) bytes += static_cast<char>(engine());
  switch (random_number(engine, 0, 8)) {
    case 0:
      bytes[at()] = static_cast<char>(engine());
      break;
    case 1: {
      char& byte = bytes[at()];
      byte = static_cast<char>(byte ^ 1 << engine() % 8);
      break;
    }
    case 2:
      bytes.erase(at(), engine() % 4);
      break;
    case 3: {
      const std::string part = bytes.substr(at(), engine() % 16);
      bytes.insert(at(), part);
      break;
    }
    case 4:
      bytes.insert(at(), 1, static_cast<char>(engine()));
      break;
    case 5:
      bytes.resize(at());
      break;
    case 6: {  // the same value in another length
      const std::size_t i = at();
      if (static_cast<unsigned char>(bytes[i]) < 0x80) {
        bytes[i] = static_cast<char>(bytes[i] | 0x80);
        bytes.insert(i + 1, 1, '\0');
      }
      break;
    }
    case 7: {  // a field as another revision may have it: a tag with another wire type, perhaps
      char& byte = bytes[at()];
      byte = static_cast<char>((byte & ~7) | static_cast<char>(engine() % 6));
      break;
    }
    case 8: {  // what may be the number of an enum's value
      constexpr char tag_of_enums = 0x08;
      const std::size_t tag = bytes.find(tag_of_enums, at());
      if (tag < bytes.size() - 1) bytes[tag + 1] = static_cast<char>(engine() % 128);
      break;
    }
  }
}

}  // namespace

TEST_CASE("decode: of each beginning of a message, accepts what libprotobuf accepts") {
  std::size_t accepted = 0, refused = 0;
  for_each_random_message(100, [&](auto schema, Engine&, const auto& message) {
    using M = typename decltype(schema)::Struct;
    const std::string whole = lod::encode(message);
    if (whole.size() > 300) return;  // the time goes with the square
    for (std::size_t size = 0; size <= whole.size(); ++size) {
      // A copy of its own, so that the sanitizers see a read beyond its end.
      const std::vector<char> copied(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
      const std::string_view bytes(copied.data(), size);
      const Decoded<M> ours = try_decode<M>(bytes);
      typename decltype(schema)::Generated theirs;
      const bool is_valid =
          theirs.ParsePartialFromArray(bytes.data(), static_cast<int>(size)) && theirs.IsInitialized();
      if (ours.message.has_value() != is_valid || ours.position > size) {
        FAIL("of ", hex(whole), " the first ", size, " bytes: ", is_valid ? "valid, " : "not valid, ", ours.error);
      }
      if (is_valid) REQUIRE(lod::encode(*ours.message) == theirs.SerializeAsString());
      ++(is_valid ? accepted : refused);
    }
  });
  // How many there are of either kind depends on the seed; the comparison is worth something if there are both.
  CHECK(accepted > 100);
  CHECK(refused > 1000);
}

TEST_CASE("decode: of damaged messages, accepts none that libprotobuf refuses, and reads what it reads") {
  std::size_t accepted = 0, refused = 0, stricter = 0;
  // What the fuzzers try under the same sanitizers, too.
  const std::size_t messages = slow ? 60 : 300;
  for_each_random_message(static_cast<int>(messages), [&](auto schema, Engine& engine, const auto& message) {
    using M = typename decltype(schema)::Struct;
    const std::string whole = lod::encode(message);
    M untouched = message;
    for (int i = 0; i < 40; ++i) {
      std::string bytes = whole;
      for (std::int64_t count = random_number(engine, 1, 3); count > 0; --count) damage(engine, bytes);
      INFO("bytes: ", hex(bytes));
      const Decoded<M> ours = try_decode<M>(bytes);
      typename decltype(schema)::Generated theirs;
      const bool is_valid = theirs.ParsePartialFromString(bytes) && theirs.IsInitialized();

      if (ours.message) {
        REQUIRE(is_valid);
        const std::string again = lod::encode(*ours.message);
        REQUIRE(again == theirs.SerializeAsString());
        REQUIRE(lod::encode(lod::decode<M>(again)) == again);
        ++accepted;
        continue;
      }
      INFO("error: ", ours.error);
      REQUIRE(ours.position <= bytes.size());
      REQUIRE(ours.error.ends_with(" (at byte " + std::to_string(ours.position) + ")"));
      REQUIRE_THROWS_AS(lod::decode(bytes, untouched), lod::ParseError);
      REQUIRE(untouched == message);
      if (is_valid) {  // what proto/var_desc.proto says that this library alone refuses
        const bool is_told = ours.error.find(" is no ") != std::string::npos ||
                             ours.error.find(": a tag of more than 32 bits") != std::string::npos;
        REQUIRE(is_told);
        ++stricter;
      } else {
        ++refused;
      }
    }
  });
  CHECK(accepted > 10 * messages / 3);
  CHECK(refused > 100 * messages / 3);
  CHECK(stricter > messages / 3);
}

TEST_CASE("decode: groups may lie as deep as libprotobuf lets them, also inside messages") {
  for (int messages = 0; messages <= 3; ++messages) {  // type, lod_tensor, tensor
    for (std::size_t groups = 90; groups <= 110; ++groups) {
      CAPTURE(messages);
      CAPTURE(groups);
      const std::string nested = std::string(groups, '\x7b') + std::string(groups, '\x7c');
      lod::VarDesc v = lod::VarDesc::lod_tensor("x", {lod::DataType::FP32, {-1}});
      std::string* const unknown_fields[] = {&v.unknown_fields, &v.type.unknown_fields,
                                             &v.type.lod_tensor->unknown_fields,
                                             &v.type.lod_tensor->tensor.unknown_fields};
      // encode refuses what lies too deep: text of the same length is written in the place of the groups.
      const std::size_t size = nested.size() - 3;
      const std::string written = {'\x7a', static_cast<char>(0x80 | (size & 0x7f)), static_cast<char>(size >> 7)};
      *unknown_fields[messages] = written + std::string(size, '-');
      std::string bytes = lod::encode(v);
      bytes.replace(bytes.find(*unknown_fields[messages]), nested.size(), nested);
      const bool is_valid = lod::schema::VarDesc().ParsePartialFromString(bytes);
      *unknown_fields[messages] = nested;
      if (!is_valid) CHECK_THROWS_AS(lod::encode(v), std::invalid_argument);
      CHECK(is_valid == (static_cast<int>(groups) + messages <= 100));
      CHECK(try_decode<lod::VarDesc>(bytes).message.has_value() == is_valid);
    }
  }
}
