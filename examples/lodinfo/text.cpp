// SPDX-License-Identifier: Apache-2.0
#include "text.hpp"

#include <cstddef>
#include <cstdio>

namespace lodinfo {

Letter first_letter(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const Letter none{std::nullopt, text.substr(0, 1)};
  if (byte(0) < 0x80) return {byte(0), text.substr(0, 1)};
  const std::size_t size = byte(0) >= 0xf0 ? 4 : byte(0) >= 0xe0 ? 3 : 2;
  constexpr char32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
  if (byte(0) < 0xc0 || byte(0) > 0xf7 || text.size() < size) return none;
  char32_t character = byte(0) & (0x7fU >> size);
  for (std::size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xc0U) != 0x80U) return none;
    character = character << 6 | (byte(i) & 0x3fU);
  }
  const bool is_surrogate = character >= 0xd800 && character < 0xe000;
  if (character < least[size] || is_surrogate || character > 0x10ffff) return none;
  return {character, text.substr(0, size)};
}

namespace {

bool is_printable(char32_t character) {
  const auto within = [&](char32_t first, char32_t last) { return character >= first && character <= last; };
  const bool is_control = character < 0x20 || within(0x7f, 0x9f) || within(0x2028, 0x2029);
  const bool turns_text = character == 0x61c || within(0x200b, 0x200f) || within(0x202a, 0x202e) ||
                          within(0x2060, 0x206f) || character == 0xfeff;
  return !is_control && !turns_text;
}

std::string hexadecimal(const char* format, std::uint32_t number) {
  char text[16];
  std::snprintf(text, sizeof(text), format, static_cast<unsigned>(number));
  return text;
}

template <class EachLetter>
std::string transformed(std::string_view text, const EachLetter& each) {
  std::string result;
  while (!text.empty()) {
    const Letter letter = first_letter(text);
    result += each(letter);
    text.remove_prefix(letter.bytes.size());
  }
  return result;
}

std::uint32_t only_byte(const Letter& letter) { return static_cast<unsigned char>(letter.bytes[0]); }

}  // namespace

std::string printable(std::string_view text) {
  return transformed(text, [](const Letter& letter) {
    if (letter.character && is_printable(*letter.character)) return std::string(letter.bytes);
    if (letter.bytes.size() == 1) return hexadecimal("\\x%02x", only_byte(letter));
    return hexadecimal("\\u{%x}", *letter.character);
  });
}

std::int64_t columns_of(std::string_view printable_text) {
  std::int64_t columns = 0;
  for (const char byte : printable_text) columns += (static_cast<unsigned char>(byte) & 0xc0U) != 0x80U;
  return columns;
}

std::string shortened(const std::string& printable_text, std::int64_t columns) {
  if (columns_of(printable_text) <= columns) return printable_text;
  std::string result;
  std::string_view rest = printable_text;
  for (std::int64_t column = 0; column + 3 < columns; ++column) {
    const Letter letter = first_letter(rest);
    result += letter.bytes;
    rest.remove_prefix(letter.bytes.size());
  }
  return result + "...";
}

std::string json_string(std::string_view text) {
  const std::string inside = transformed(text, [](const Letter& letter) -> std::string {
    if (!letter.character) return hexadecimal("\\udc%02x", only_byte(letter));
    const char32_t character = *letter.character;
    if (character == '"' || character == '\\') return {'\\', static_cast<char>(character)};
    if (character >= 0x20 && character < 0x7f) return {static_cast<char>(character)};
    if (character < 0x10000) return hexadecimal("\\u%04x", character);
    return hexadecimal("\\u%04x", 0xd7c0 + (character >> 10)) + hexadecimal("\\u%04x", 0xdc00 + (character & 0x3ff));
  });
  return '"' + inside + '"';
}

std::string human_bytes(std::uint64_t bytes) {
  constexpr const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  auto number = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; number >= 1023.95; number /= 1024) ++unit;
  char text[32];
  std::snprintf(text, sizeof(text), unit == 0 ? "%.0f %s" : "%.1f %s", number, units[unit]);
  return text;
}

std::string with_plural(std::int64_t count, const std::string& thing) {
  return std::to_string(count) + ' ' + thing + (count == 1 ? "" : "s");
}

std::string range_text(std::int64_t first, std::int64_t count) {
  if (count == 0) return "none";
  std::string text = std::to_string(first);
  if (count > 1) text += '-' + std::to_string(first + (count - 1));
  return text;
}

std::string joined(std::span<const std::int64_t> numbers) {
  return joined(numbers, [](std::int64_t number) { return std::to_string(number); });
}

std::string dims_text(std::span<const std::int64_t> dims) {
  return '{' + joined(dims, [](std::int64_t dim) { return dim < 0 ? "?" : std::to_string(dim); }) + '}';
}

}  // namespace lodinfo
