// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup descriptions
/// Encoder and decoder for any struct whose fields are listed in a Schema, by the rules of proto2.
#pragma once

#include <lod/core/target.hpp>
#include <lod/io/proto/schema.hpp>
#include <lod/io/proto/wire.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

namespace lod::inline LOD_INTERFACE::proto {
namespace detail {

// ---- Encoding: the sizes from front to back, then the bytes from back to front, so that each length is known when it
// is written ----

/// Negative numbers take 10 bytes: they are extended to 64 bits, whatever their type.
template <class T>
LOD_TAGGED std::uint64_t to_varint(T value) noexcept {
  return static_cast<std::uint64_t>(static_cast<std::int64_t>(value));
}

/// Throws std::invalid_argument for a value that its enum does not have.
template <class E>
LOD_TAGGED void check_enum(E value, const char* message, const char* field) {
  const auto number = static_cast<std::int32_t>(value);
  if (!EnumSchema<E>::contains(number)) {
    throw std::invalid_argument(text({message, ".", field, ": ", number, " is no ", EnumSchema<E>::name}));
  }
}

/// Throws std::invalid_argument unless the bytes could have been kept in `unknown_fields` by a decoder: whole fields,
/// and none that M has a name for. Otherwise a reader would reject them, or take them for something else.
template <Message M>
LOD_TAGGED [[gnu::cold, gnu::noinline]] void check_unknown_fields(std::string_view fields, int depth) {
  const auto refuse = [](const char* why) {
    throw std::invalid_argument(text({Schema<M>::name, ".unknown_fields: ", why}));
  };
  const char* at = fields.data();
  const char* const end = at + fields.size();
  try {
    const Place place(Schema<M>::name, at);
    while (at != end) {
      const char* const tag_at = at;
      const auto [tag, value_at] = read_tag(at, end, place);
      for_each_field<M>([&, tag = tag](auto index) {
        if (is_of_field<FieldOf<M, index>>(tag))
          refuse(text({"field '", field_name<M, index>(), "' is known"}).c_str());
      });
      at = read_unknown(tag, tag_at, value_at, end, place, nullptr, depth);
    }
  } catch (const ParseError& error) {
    refuse(error.what());
  }
}

template <class T>
LOD_TAGGED std::size_t size_of_value(const T& value, const char* message, const char* field, int depth);

/// The size of a message at nesting depth `depth`.
template <Message M>
LOD_TAGGED std::size_t size_of_message(const M& message, int depth = 0) {
  if (!message.unknown_fields.empty()) check_unknown_fields<M>(message.unknown_fields, depth);
  std::size_t total = message.unknown_fields.size();
  for_each_field<M>([&](auto index) {
    using F = FieldOf<M, index>;
    using T = typename F::Element;
    constexpr const char* name = field_name<M, index>();
    const auto tag_size = static_cast<std::size_t>(protozero::length_of_varint(tag_of<F>));
    const auto& value = message.*F::member;
    const auto add = [&](const T& element) { total += size_of_value(element, Schema<M>::name, name, depth); };
    if constexpr (F::rule == Rule::REQUIRED) {
      total += tag_size;
      add(value);
    } else if constexpr (F::rule == Rule::OPTIONAL) {
      if (!value.has_value()) return;
      total += tag_size;
      add(value.value());
    } else if constexpr (F::is_packed) {
      if (value.empty()) return;
      const std::size_t before = total;
      for (const auto& element : value) add(element);
      total += tag_size + static_cast<std::size_t>(protozero::length_of_varint(total - before));
    } else {
      total += value.size() * tag_size;
      for (const auto& element : value) add(element);
    }
  });
  return total;
}

/// The size of a value including its length, if it has one.
template <class T>
LOD_TAGGED std::size_t size_of_value(const T& value, [[maybe_unused]] const char* message,
                                     [[maybe_unused]] const char* field, [[maybe_unused]] int depth) {
  if constexpr (wire_type<T>() == WireType::FIXED32 || wire_type<T>() == WireType::FIXED64) {
    return sizeof(T);
  } else if constexpr (wire_type<T>() == WireType::VARINT) {
    if constexpr (std::is_enum_v<T>) check_enum(value, message, field);
    return static_cast<std::size_t>(protozero::length_of_varint(to_varint(value)));
  } else {
    std::size_t size;
    if constexpr (Message<T>) {
      size = size_of_message(value, depth + 1);
    } else {
      size = value.size();
    }
    return size + static_cast<std::size_t>(protozero::length_of_varint(size));
  }
}

/// Writes the number so that it ends at `end`, and returns where it begins.
LOD_TAGGED inline char* put_varint(std::uint64_t value, char* end) noexcept {
  char* const begin = end - protozero::length_of_varint(value);
  protozero::add_varint_to_buffer(begin, value);
  return begin;
}
LOD_TAGGED inline char* put_bytes(const void* bytes, std::size_t size, char* end) noexcept {
  std::memcpy(end - size, bytes, size);
  return end - size;
}

template <Message M>
LOD_TAGGED char* put_message(const M& message, char* end) noexcept;

template <class T>
LOD_TAGGED char* put_value(const T& value, char* end) noexcept {
  if constexpr (wire_type<T>() == WireType::FIXED32 || wire_type<T>() == WireType::FIXED64) {
    T bytes = value;
    to_little_endian(bytes);
    return put_bytes(&bytes, sizeof(bytes), end);
  } else if constexpr (wire_type<T>() == WireType::VARINT) {
    return put_varint(to_varint(value), end);
  } else {
    char* begin;
    if constexpr (Message<T>) {
      begin = put_message(value, end);
    } else {
      begin = put_bytes(value.data(), value.size(), end);
    }
    return put_varint(static_cast<std::uint64_t>(end - begin), begin);
  }
}

template <Message M>
// NOLINTNEXTLINE(bugprone-exception-escape): only values that are there are asked for
LOD_TAGGED char* put_message(const M& message, char* end) noexcept {
  end = put_bytes(message.unknown_fields.data(), message.unknown_fields.size(), end);
  for_each_field<M>([&](auto from_the_back) {
    constexpr std::size_t index = field_count<M> - 1 - from_the_back;
    using F = FieldOf<M, index>;
    using T = typename F::Element;
    const auto& value = message.*F::member;
    const auto put = [&](const T& element) { end = put_varint(tag_of<F>, put_value(element, end)); };
    if constexpr (F::rule == Rule::REQUIRED) {
      put(value);
    } else if constexpr (F::rule == Rule::OPTIONAL) {
      if (value.has_value()) put(value.value());
    } else if constexpr (F::is_packed) {
      if (value.empty()) return;
      char* const packed_end = end;
      for (auto element = value.rbegin(); element != value.rend(); ++element) end = put_value<T>(*element, end);
      end = put_varint(static_cast<std::uint64_t>(packed_end - end), end);
      end = put_varint(tag_of<F>, end);
    } else {
      for (auto element = value.rbegin(); element != value.rend(); ++element) put(*element);
    }
  });
  return end;
}

// ---- Decoding ----

/// Which fields of a message, and of the messages in its singular fields, were seen. A field may occur more than once,
/// its parts being merged, so that only at the very end it is known what is missing.
template <Message M>
struct Seen;

struct NothingSeen {};

template <class F>
struct SeenInField {
  using type = NothingSeen;
};
template <class F>
  requires(Message<typename F::Element>&& F::rule != Rule::REPEATED)
struct SeenInField<F> {
  using type = Seen<typename F::Element>;
};

template <class M, class Indices = std::make_index_sequence<field_count<M>>>
struct SeenInFields;
template <class M, std::size_t... I>
struct SeenInFields<M, std::index_sequence<I...>> {
  using type = std::tuple<typename SeenInField<FieldOf<M, I>>::type...>;
};

template <Message M>
struct Seen {
  static_assert(field_count<M> <= 32);
  std::uint32_t fields = 0;
  bool is_complete = true;  // false: something required is missing, or was missing and came later
  const char* end;          // of the message, where it was seen last
  typename SeenInFields<M>::type inner;

  LOD_TAGGED Seen() noexcept {}  // NOLINT(modernize-use-equals-default): otherwise all of it would be set to zero first
};

/// Throws unless every required field was seen, in this message and in those in its singular fields. Called if one was
/// not, or came late.
template <Message M>
LOD_TAGGED [[gnu::cold, gnu::noinline]] void check_required(const Seen<M>& seen, const Place& place) {
  for_each_field<M>([&](auto index) {
    using F = FieldOf<M, index>;
    constexpr const char* name = field_name<M, index>();
    const bool is_seen = (seen.fields & 1u << index) != 0;
    if constexpr (F::rule == Rule::REQUIRED) {
      if (!is_seen) fail_missing(seen.end, place, name);
    }
    if constexpr (Message<typename F::Element> && F::rule != Rule::REPEATED) {
      if (is_seen) check_required(std::get<index>(seen.inner), Place(place, name));
    }
  });
}

/// Clears a struct that is to be decoded into, and keeps its memory. Singular messages are left to `merge`, which
/// clears those that occur and drops the others.
template <Message M>
LOD_TAGGED void clear(M& message) {
  for_each_field<M>([&](auto index) {
    using F = FieldOf<M, index>;
    auto& value = message.*F::member;
    if constexpr (F::rule == Rule::REPEATED) {
      value.clear();
    } else if constexpr (F::rule == Rule::OPTIONAL && !Message<typename F::Element>) {
      value.reset();
    }
  });
  message.unknown_fields.clear();
}

/// How often bytes are read. If something throws, the struct must be left as it was: where there is something to lose,
/// a first pass finds errors, and a second one stores what is then known to be correct.
enum class Pass { FIRST, SECOND, ONLY };
LOD_TAGGED constexpr bool is_checked(Pass pass) noexcept { return pass != Pass::SECOND; }
LOD_TAGGED constexpr bool is_stored(Pass pass) noexcept { return pass != Pass::FIRST; }

/// A value that is not a message; for a string, its bytes. Numbers that do not fit T lose their upper bits, as the
/// format requires.
template <class T, bool checked>
LOD_TAGGED auto read_value(const char* at, const char* end, const Place& place, const char* field) {
  if constexpr (wire_type<T>() == WireType::LENGTH) {
    return read_bytes<checked>(at, end, place, field);
  } else if constexpr (wire_type<T>() != WireType::VARINT) {
    return read_fixed<T>(at, end, place, field);
  } else {
    const auto [number, next] = read_varint<checked>(at, end, place, field);
    if constexpr (std::is_enum_v<T>) {
      const auto value = static_cast<std::int32_t>(number);
      if (checked && !EnumSchema<T>::contains(value)) fail_enum(at, place, field, value, EnumSchema<T>::name);
      return ReadResult<T>{static_cast<T>(value), next};
    } else {
      return ReadResult<T>{static_cast<T>(number), next};
    }
  }
}

/// Reads one message and merges it into `out`: a value replaces an earlier one, repeated ones are appended, messages
/// are merged. In the first of two passes `out` is null, and only errors come of it.
template <Pass pass, Message M>
class MessageReader {
  static constexpr bool checked = is_checked(pass), stored = is_stored(pass);

 public:
  LOD_TAGGED MessageReader(M* out, Seen<M>& seen, const Place& place) noexcept
      : out_(out), seen_(seen), place_(place) {}

  /// The message occupies [at, end).
  LOD_TAGGED void read(const char* at, const char* end) {
    read_fields(at, end, std::make_index_sequence<field_count<M>>());
    seen_.end = end;
  }

 private:
  template <std::size_t... I>
  LOD_TAGGED void read_fields(const char* at, const char* end, std::index_sequence<I...>) {
    std::uint32_t fields = seen_.fields;
    while (at != end) {
      const char* const tag_at = at;
      const auto [tag, value_at] = read_tag<checked>(at, end, place_);
      const bool is_read = ((tag == tag_of<FieldOf<M, I>> &&
                             (at = field<I>(value_at, end, (fields & 1u << I) == 0), fields |= 1u << I)) ||
                            ...);
      if (is_read) continue;
      const bool is_known = ((is_otherwise_packed<FieldOf<M, I>>(tag) &&
                              (at = otherwise_packed<I>(tag, value_at, end), fields |= 1u << I)) ||
                             ...);
      if (!is_known) at = read_unknown(tag, tag_at, value_at, end, place_, stored ? &out_->unknown_fields : nullptr);
    }
    constexpr std::uint32_t required = ((std::uint32_t{FieldOf<M, I>::rule == Rule::REQUIRED} << I) | ... | 0u);
    if (checked && (fields & required) != required) seen_.is_complete = false;
    seen_.fields = fields;
    if constexpr (stored) (drop_unless_seen<I>(fields), ...);
  }

  /// Reads what follows the tag of field I; returns where it ends.
  template <std::size_t I>
  LOD_TAGGED const char* field(const char* at, const char* end, [[maybe_unused]] bool is_first) {
    using F = FieldOf<M, I>;
    if constexpr (F::is_packed) {
      return packed<I>(at, end);
    } else if constexpr (!Message<typename F::Element>) {
      return value<I>(at, end);
    } else {
      return message<I>(at, end, is_first);
    }
  }

  /// Reads what follows a tag of field I with the other kind of packing.
  template <std::size_t I>
  LOD_TAGGED const char* otherwise_packed([[maybe_unused]] std::uint32_t tag, const char* at,
                                          [[maybe_unused]] const char* end) {
    using F = FieldOf<M, I>;
    if constexpr (may_be_packed<F>) return type_of(tag) == WireType::LENGTH ? packed<I>(at, end) : value<I>(at, end);
    return at;
  }

  template <std::size_t I>
  LOD_TAGGED const char* packed(const char* at, const char* end) {
    using F = FieldOf<M, I>;
    const auto [bytes, next] = read_bytes<checked>(at, end, place_, field_name<M, I>());
    if constexpr (stored && wire_type<typename F::Element>() != WireType::VARINT) {
      // These may be the values of a tensor. For a second part nothing is reserved: many small parts would each move
      // everything before them.
      auto& values = out_->*F::member;
      if (values.empty()) values.reserve(bytes.size() / sizeof(typename F::Element));
    }
    for (at = bytes.data(); at != next;) at = value<I>(at, next);
    return next;
  }

  template <std::size_t I>
  LOD_TAGGED const char* value(const char* at, const char* end) {
    using F = FieldOf<M, I>;
    const auto [read, next] = read_value<typename F::Element, checked>(at, end, place_, field_name<M, I>());
    if constexpr (stored && F::rule == Rule::REPEATED) {
      auto& values = out_->*F::member;
      if (values.capacity() == 0) values.reserve(4);  // most often a shape: one allocation instead of three
      values.emplace_back(read);
    } else if constexpr (stored) {
      out_->*F::member = read;
    }
    return next;
  }

  template <std::size_t I>
  LOD_TAGGED const char* message(const char* at, const char* end, [[maybe_unused]] bool is_first) {
    using F = FieldOf<M, I>;
    using Inner = typename F::Element;
    const auto [bytes, next] = read_bytes<checked>(at, end, place_, field_name<M, I>());
    const Place place(place_, field_name<M, I>());
    Inner* inner = nullptr;
    if constexpr (F::rule == Rule::REPEATED) {
      if constexpr (stored) inner = &(out_->*F::member).emplace_back();
      Seen<Inner> seen;
      MessageReader<pass, Inner>(inner, seen, place).read(bytes.data(), next);
      if (!seen.is_complete) check_required(seen, place);
    } else {
      if constexpr (stored) {
        inner = existing(out_->*F::member);
        if (is_first) clear(*inner);
      }
      Seen<Inner>& seen = std::get<I>(seen_.inner);
      MessageReader<pass, Inner>(inner, seen, place).read(bytes.data(), next);
      if (!seen.is_complete) seen_.is_complete = false;
    }
    return next;
  }

  template <class Inner>
  LOD_TAGGED static Inner* existing(Inner& message) {
    return &message;
  }
  template <class Inner>
  LOD_TAGGED static Inner* existing(std::optional<Inner>& message) {
    return message ? &*message : &message.emplace();
  }

  /// Drops the message that field I held before, unless it occurred again.
  template <std::size_t I>
  LOD_TAGGED void drop_unless_seen([[maybe_unused]] std::uint32_t fields) {
    using F = FieldOf<M, I>;
    if constexpr (F::rule == Rule::OPTIONAL && Message<typename F::Element>) {
      if ((fields & 1u << I) == 0) (out_->*F::member).reset();
    }
  }

  M* out_;
  Seen<M>& seen_;
  const Place& place_;
};

template <Pass pass, Message M>
LOD_TAGGED void read_message(std::string_view bytes, M* out) {
  const Place place(Schema<M>::name, bytes.data());
  if (is_checked(pass) && bytes.size() > max_size) {
    fail(bytes.data(), place, nullptr, {bytes.size(), " bytes, expected ", max_size, " at most"});
  }
  Seen<M> seen;
  MessageReader<pass, M>(out, seen, place).read(bytes.data(), bytes.data() + bytes.size());
  if (!seen.is_complete) check_required(seen, place);
}

/// @{
/// What `encode` and `decode` are where they do not come from a library.
template <Message M>
LOD_TAGGED void append_message(const M& message, std::string& out) {
  const std::size_t size = size_of_message(message);
  if (size > max_size) {
    throw std::length_error(text({Schema<M>::name, ": ", size, " bytes, expected ", max_size, " at most"}));
  }
  out.resize(out.size() + size);
  put_message(message, out.data() + out.size());
}
template <Message M>
LOD_TAGGED M message_in(std::string_view bytes) {
  M message;
  read_message<Pass::ONLY>(bytes, &message);
  return message;
}
template <Message M>
LOD_TAGGED void replace_message(std::string_view bytes, M& message) {
  read_message<Pass::FIRST, M>(bytes, nullptr);
  clear(message);
  read_message<Pass::SECOND>(bytes, &message);
}
/// @}

}  // namespace detail
}  // namespace lod::inline LOD_INTERFACE::proto

namespace lod::inline LOD_INTERFACE {

/// Appends the bytes of a message to `out`, which is unchanged if this throws: std::invalid_argument for an enum value
/// that does not exist (for example a kind of variable as the element type of a tensor, which only a cast can produce),
/// and for `unknown_fields` that no decoder produces (bytes that are not whole fields, a field that has a name);
/// std::length_error for more than 2 GiB. At most one allocation.
template <proto::Message M>
LOD_TAGGED void encode(const M& message, std::string& out) {
  proto::detail::append_message(message, out);
}

/// The bytes of a message, identical to those of protoc's C++ code: fields by number, an optional field if it is set
/// (even to its default), unknown fields last. Throws as above.
template <proto::Message M>
LOD_TAGGED std::string encode(const M& message) {
  std::string out;
  encode(message, out);
  return out;
}

/// The message in `bytes`, as protoc's C++ code reads it. A field that has a name here but another wire type is kept
/// with the unknown ones and written again: its type was another for whoever wrote it. Repeated numbers may be packed
/// or not, however they are declared.
///
/// Throws ParseError for anything but a message, and if a required field is missing. Stricter than protoc's code in two
/// respects: an enum value that does not exist and a tag of more than 32 bits are errors too.
template <proto::Message M>
LOD_TAGGED M decode(std::string_view bytes) {
  return proto::detail::message_in<M>(bytes);
}

/// Replaces `message` by the one in `bytes` and reuses its memory. Throws ParseError and then leaves `message` as it
/// was; for that, the bytes are read twice, and checked the first time. They must not be part of `message`, nor change
/// meanwhile. If memory runs out, `message` is a part of the new one; the call can be repeated.
template <proto::Message M>
LOD_TAGGED void decode(std::string_view bytes, M& message) {
  proto::detail::replace_message(bytes, message);
}

}  // namespace lod::inline LOD_INTERFACE
