// SPDX-License-Identifier: Apache-2.0
/// @file
/// Text that is safe to print, whatever a file says, and numbers as text.
#pragma once

#include <lod/data_type.hpp>

#include <charconv>
#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

namespace lodinfo {

/// A character and its bytes; of what is no UTF-8, one byte.
struct Letter {
  std::optional<char32_t> character;
  std::string_view bytes;
};

/// The first letter of a text that is not empty.
Letter first_letter(std::string_view text);

/// As it is, but for what would do something to a terminal: control characters, those that turn the direction of text,
/// and bytes that are no UTF-8. They become \x1b, \u{202e}.
std::string printable(std::string_view text);

/// As many columns as `printable(text)` takes: its characters, none of which is taken to be a wide one.
std::int64_t columns_of(std::string_view printable_text);

/// Its first characters, with "..." as the last three where it has more than `columns`.
std::string shortened(const std::string& printable_text, std::int64_t columns);

/// In quotes, as JSON, all in ASCII. A byte that is no UTF-8 becomes a lone surrogate, which Python's os.fsencode turns
/// back into that byte.
std::string json_string(std::string_view text);

/// "1.2 KiB".
std::string human_bytes(std::uint64_t bytes);

/// "1 row", "2 rows".
std::string with_plural(std::int64_t count, const std::string& thing);

/// "3-5", "3" or "none".
std::string range_text(std::int64_t first, std::int64_t count);

/// "15, ?, 480", where text(number) gives the text of each number.
template <class Text>
std::string joined(std::span<const std::int64_t> numbers, const Text& text) {
  std::string all;
  for (const std::int64_t number : numbers) {
    if (!all.empty()) all += ", ";
    all += text(number);
  }
  return all;
}
std::string joined(std::span<const std::int64_t> numbers);

/// "{15, ?, 480}": what is not known is a question mark.
std::string dims_text(std::span<const std::int64_t> dims);

/// A number with all its digits; or, in floating point, with at most `digits` of them. NaN, Infinity, -Infinity.
template <class T>
std::string number_text(T value, int digits = 0) {
  if constexpr (requires { value.imag(); }) {
    return '(' + number_text(value.real(), digits) + ", " + number_text(value.imag(), digits) + ')';
  } else if constexpr (std::is_same_v<T, lod::float16> || std::is_same_v<T, lod::bfloat16>) {
    return number_text(static_cast<float>(value), digits);
  } else if constexpr (std::is_same_v<T, bool>) {
    return value ? "1" : "0";
  } else {
    char text[64];
    std::to_chars_result result{};
    if constexpr (std::is_floating_point_v<T>) {
      if (std::isnan(value)) return "NaN";
      if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
      result = digits > 0 ? std::to_chars(text, text + sizeof(text), value, std::chars_format::general, digits)
                          : std::to_chars(text, text + sizeof(text), value);
    } else {
      result = std::to_chars(text, text + sizeof(text), value);
    }
    return std::string(text, result.ptr);
  }
}

}  // namespace lodinfo
