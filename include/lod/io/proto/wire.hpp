// SPDX-License-Identifier: Apache-2.0
/// @file
/// The wire format below the messages: tags, numbers and lengths, on protozero's varints, with the position of every
/// error; and fields that have no name here, which are kept.
#pragma once

#include <lod/core/error.hpp>
#include <lod/core/target.hpp>

#include <protozero/byteswap.hpp>
#include <protozero/config.hpp>
#include <protozero/exception.hpp>
#include <protozero/varint.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <string>
#include <string_view>

namespace lod::inline LOD_INTERFACE::proto::detail::inline LOD_TARGET {

using lod::detail::Piece;
using lod::detail::text;

/// How a value is stored: the low three bits of its tag. 6 and 7 do not exist.
enum class WireType : std::uint32_t {
  VARINT = 0,
  FIXED64 = 1,
  LENGTH = 2,
  GROUP_BEGIN = 3,
  GROUP_END = 4,
  FIXED32 = 5,
};

constexpr std::uint32_t make_tag(std::uint32_t number, WireType type) noexcept {
  return number << 3 | static_cast<std::uint32_t>(type);
}
constexpr std::uint32_t number_of(std::uint32_t tag) noexcept { return tag >> 3; }
constexpr WireType type_of(std::uint32_t tag) noexcept { return static_cast<WireType>(tag & 7u); }

/// How deeply messages and groups may be nested, the outermost not counted. The limit of libprotobuf.
inline constexpr int max_depth = 100;

/// The size of the longest message in bytes. The limit of libprotobuf.
inline constexpr std::size_t max_size = 0x7fffffff;

/// A float or a double as the wire has it, little-endian, or back.
template <class T>
void to_little_endian([[maybe_unused]] T& value) noexcept {
#if PROTOZERO_BYTE_ORDER != PROTOZERO_LITTLE_ENDIAN
  protozero::byteswap_inplace(&value);
#endif
}

inline void append_varint(std::string& out, std::uint64_t value) {
  char bytes[protozero::max_varint_length];
  out.append(bytes, static_cast<std::size_t>(protozero::add_varint_to_buffer(bytes, value)));
}

/// Where in the input a message is: the names of the fields that lead to it, innermost first. The outermost is named by
/// its type, and knows the first byte. Lives on the stack of the reading functions, so that it costs nothing until
/// there is an error.
struct Place {
  const Place* outer;
  const char* name;
  const char* begin;

  Place(const char* type, const char* first_byte) noexcept : outer(nullptr), name(type), begin(first_byte) {}
  Place(const Place& message, const char* field) noexcept : outer(&message), name(field), begin(message.begin) {}
};

/// Throws a ParseError about the byte at `at`, the first wrong one; `field` is null if it belongs to no named field.
[[noreturn, gnu::cold, gnu::noinline]] inline void fail(const char* at, const Place& message, const char* field,
                                                        std::initializer_list<Piece> words) {
  std::string names = field ? field : "";
  for (const Place* place = &message; place; place = place->outer) {
    names = names.empty() ? place->name : text({place->name, ".", names});
  }
  throw ParseError(text({names, ": ", text(words)}), static_cast<std::size_t>(at - message.begin));
}

// The errors of the hot paths. Out of line, or else nothing around them would be inlined.
[[noreturn, gnu::cold, gnu::noinline]] inline void fail_tag(const char* at, const Place& message) {
  fail(at, message, nullptr, {"a tag of more than 32 bits"});
}
[[noreturn, gnu::cold, gnu::noinline]] inline void fail_length(const char* at, const Place& message, const char* field,
                                                               std::uint64_t size, std::size_t left) {
  if (size <= left) fail(at, message, field, {"a length of more than 32 bits"});
  fail(at, message, field, {size, " bytes expected, ", left, " are left"});
}
[[noreturn, gnu::cold, gnu::noinline]] inline void fail_enum(const char* at, const Place& message, const char* field,
                                                             std::int32_t number, const char* name) {
  fail(at, message, field, {number, " is no ", name});
}
[[noreturn, gnu::cold, gnu::noinline]] inline void fail_missing(const char* at, const Place& message,
                                                                const char* field) {
  fail(at, message, field, {"required, but missing"});
}

// The functions below read at `at`, before `end`. They take the position and return the next one by value: that keeps
// it in a register, where decoding is twice as fast as with a position in memory. Without `checked` they trust the
// bytes, which have been read before.

template <class T>
struct ReadResult {
  T value;
  const char* next;
};

[[gnu::noinline]] inline ReadResult<std::uint64_t> read_long_varint(const char* at, const char* end,
                                                                    const Place& message, const char* field) {
  const char* next = at;
  try {
    const std::uint64_t value = protozero::decode_varint(&next, end);
    return {value, next};
  } catch (const protozero::varint_too_long_exception&) {
    fail(at, message, field, {"a number of more than 10 bytes"});
  } catch (const protozero::end_of_buffer_exception&) {
    fail(at, message, field, {"the bytes end inside a number"});
  }
}

template <bool checked = true>
inline ReadResult<std::uint64_t> read_varint(const char* at, const char* end, const Place& message, const char* field) {
  if ((!checked || at != end) && static_cast<unsigned char>(*at) < 0x80)
    return {static_cast<unsigned char>(*at), at + 1};
  if ((!checked || end - at >= 2) && static_cast<unsigned char>(at[1]) < 0x80)
    return {(static_cast<unsigned char>(*at) & 0x7fu) | static_cast<std::uint64_t>(at[1]) << 7, at + 2};
  return read_long_varint(at, end, message, field);
}

/// A tag of at most 32 bits, in at most 5 bytes; its number may be 0, and its wire type one that does not exist.
template <bool checked = true>
inline ReadResult<std::uint32_t> read_tag(const char* at, const char* end, const Place& message) {
  const auto [value, next] = read_varint<checked>(at, end, message, nullptr);
  if (checked && (next - at > 5 || value > 0xffffffff)) fail_tag(at, message);
  return {static_cast<std::uint32_t>(value), next};
}

/// `size` bytes.
inline ReadResult<std::string_view> read_bytes(const char* at, const char* end, const Place& message, const char* field,
                                               std::size_t size) {
  const auto left = static_cast<std::size_t>(end - at);
  if (size > left) fail_length(at, message, field, size, left);
  return {{at, size}, at + size};
}

/// A length, in at most 5 bytes, and as many bytes.
template <bool checked = true>
inline ReadResult<std::string_view> read_bytes(const char* at, const char* end, const Place& message,
                                               const char* field) {
  const auto [size, next] = read_varint<checked>(at, end, message, field);
  const auto left = static_cast<std::size_t>(end - next);
  if (checked && (size > left || next - at > 5)) fail_length(at, message, field, size, left);
  return {{next, static_cast<std::size_t>(size)}, next + size};
}

/// A float or a double.
template <class T>
ReadResult<T> read_fixed(const char* at, const char* end, const Place& message, const char* field) {
  const auto [bytes, next] = read_bytes(at, end, message, field, sizeof(T));
  T value;
  std::memcpy(&value, bytes.data(), sizeof(T));
  to_little_endian(value);
  return {value, next};
}

/// Reads the value after the tag at `tag_at`, of a field that has no name here. Unless `kept` is null, tag and value
/// are appended to it, with numbers in their shortest form, as by libprotobuf. Returns where the value ends.
inline const char* read_unknown(std::uint32_t tag, const char* tag_at, const char* at, const char* end,
                                const Place& message, std::string* kept, int depth) {
  const auto keep = [kept](std::string_view value) {
    if (kept) kept->append(value);
    return value.data() + value.size();
  };
  const auto keep_varint = [kept](std::uint64_t value) {
    if (kept) append_varint(*kept, value);
  };
  if (number_of(tag) == 0) fail(tag_at, message, nullptr, {"field number 0, expected 1 or more"});
  keep_varint(tag);
  switch (type_of(tag)) {
    case WireType::VARINT: {
      const auto [value, next] = read_varint(at, end, message, nullptr);
      keep_varint(value);
      return next;
    }
    case WireType::FIXED32:
      return keep(read_bytes(at, end, message, nullptr, 4).value);
    case WireType::FIXED64:
      return keep(read_bytes(at, end, message, nullptr, 8).value);
    case WireType::LENGTH: {
      const std::string_view value = read_bytes(at, end, message, nullptr).value;
      keep_varint(value.size());
      return keep(value);
    }
    case WireType::GROUP_BEGIN:
      if (depth == max_depth) fail(tag_at, message, nullptr, {"messages and groups more than ", max_depth, " deep"});
      for (;;) {
        if (at == end) fail(at, message, nullptr, {"the bytes end inside group ", number_of(tag)});
        const auto [inner, next] = read_tag(at, end, message);
        if (inner == make_tag(number_of(tag), WireType::GROUP_END)) {
          keep_varint(inner);
          return next;
        }
        at = read_unknown(inner, at, next, end, message, kept, depth + 1);
      }
    case WireType::GROUP_END:
      fail(tag_at, message, nullptr, {"group ", number_of(tag), " ends, but did not begin"});
  }
  fail(tag_at, message, nullptr, {"wire type ", tag & 7u, ", expected 0 to 5"});
}

inline const char* read_unknown(std::uint32_t tag, const char* tag_at, const char* at, const char* end,
                                const Place& message, std::string* kept) {
  int depth = 0;
  for (const Place* place = message.outer; place; place = place->outer) ++depth;
  return read_unknown(tag, tag_at, at, end, message, kept, depth);
}

}  // namespace lod::inline LOD_INTERFACE::proto::detail::inline LOD_TARGET
