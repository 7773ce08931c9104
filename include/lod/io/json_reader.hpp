// SPDX-License-Identifier: Apache-2.0
/// @file
/// JSON read from front to back, as far as tensors need it. The basis of <lod/io/json.hpp>.
///
/// Tensors need so little of JSON that no library is used: each number is read in its own type, which rounds a float
/// once instead of via double, and every error has its byte position.
#pragma once

#include <lod/core/data_type.hpp>
#include <lod/core/error.hpp>
#include <lod/core/target.hpp>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>

#ifndef __cpp_lib_to_chars
#  include <cmath>
#  include <locale>
#  include <sstream>
#endif

namespace lod::inline LOD_INTERFACE::detail::inline LOD_TARGET {

/// Whether a JSON number is below 1 in magnitude.
inline bool is_below_one(std::string_view number) noexcept {
  const std::size_t end = std::min(number.find_first_of("eE"), number.size());
  const std::string_view digits = number.substr(0, end);
  const std::size_t first = digits.find_first_of("123456789"), point = std::min(digits.find('.'), digits.size());
  if (first == std::string_view::npos) return true;
  std::string_view exponent = number.substr(std::min(end + 1, number.size()));
  if (exponent.starts_with('+')) exponent.remove_prefix(1);
  std::int64_t power = 0;
  const auto error = std::from_chars(exponent.data(), exponent.data() + exponent.size(), power).ec;
  if (error == std::errc::result_out_of_range) return exponent.starts_with('-');
  // The first digit is worth 10^(places + power). No text is long enough for `places` to be the minimum of its type.
  const auto places = static_cast<std::int64_t>(first < point ? point - first - 1 : point - first);
  return power < -places;
}

/// Reads JSON from front to back, as far as tensors need it: numbers, lists of known depth, and names without
/// characters that would need escaping.
class JsonReader {
 public:
  explicit JsonReader(std::string_view text) noexcept : text_(text) {}

  std::size_t position() const noexcept { return at_; }
  void go_to(std::size_t position) noexcept { at_ = position; }
  [[noreturn, gnu::cold, gnu::noinline]] void fail_at(std::size_t position, std::initializer_list<Piece> what) const {
    throw ParseError(text({"json: ", detail::text(what)}), position);
  }
  [[noreturn, gnu::cold, gnu::noinline]] void fail(std::initializer_list<Piece> what) const { fail_at(at_, what); }

  /// The next character that is not a space; 0 at the end.
  char peek() noexcept {
    while (at_ < text_.size() && is_space(text_[at_])) ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool skip(char letter) noexcept {
    if (peek() != letter || at_ == text_.size()) return false;
    ++at_;
    return true;
  }
  void expect(char letter) {
    if (!skip(letter)) fail({"'", std::string(1, letter), "' expected"});
  }
  void expect_end() {
    peek();
    if (at_ < text_.size()) fail({"something after the tensor"});
  }
  /// Calls item() for each item of a list and returns their number.
  template <class Item>
  std::int64_t list(const Item& item) {
    expect('[');
    if (skip(']')) return 0;
    std::int64_t count = 0;
    do {
      item();
      ++count;
    } while (skip(','));
    if (!skip(']')) fail({"',' or ']' expected"});
    return count;
  }
  /// Skips a list without examining its items.
  void skip_list() {
    expect('[');
    for (std::size_t open = 1; open > 0;) {
      at_ = std::min(text_.find_first_of("[]\"", at_), text_.size());
      if (at_ == text_.size()) fail({"a list without its end"});
      if (text_[at_] == '"') {
        name();
        continue;
      }
      open += text_[at_++] == '[' ? std::size_t{1} : ~std::size_t{0};
    }
  }
  /// A quoted string.
  std::string_view name() {
    if (!skip('"')) fail({"a text in quotes expected"});
    const std::size_t begin = at_;
    at_ = std::min(text_.find_first_of("\"\\", begin), text_.size());
    if (at_ == text_.size()) fail({"a text without its second quote"});
    if (text_[at_] == '\\') fail({"an escaped letter, which no name here has"});
    return text_.substr(begin, at_++ - begin);
  }

  /// A value of a tensor.
  template <class T>
  T value() {
    if constexpr (std::is_same_v<T, bool>) {
      const bool is_true = peek() == 't';
      const std::string_view word = is_true ? "true" : "false";
      if (!text_.substr(at_).starts_with(word)) fail({"true or false expected"});
      at_ += word.size();
      return is_true;
    } else if constexpr (std::is_integral_v<T>) {
      return integer<T>();
    } else if constexpr (requires(const T& number) { number.imag(); }) {
      using Part = typename T::value_type;
      expect('[');
      const Part real = value<Part>();
      expect(',');
      const Part imaginary = value<Part>();
      expect(']');
      return T(real, imaginary);
    } else {
      return floating<T>();
    }
  }
  /// Whether the next value is a list (and not a complex number).
  template <class T>
  bool is_list() noexcept {
    if (peek() != '[') return false;
    if constexpr (requires(const T& number) { number.imag(); }) {
      const std::size_t begin = at_++;
      const char inner = peek();
      at_ = begin;
      return inner == '[' || inner == ']';
    }
    return true;
  }

 private:
  static bool is_space(char letter) noexcept {
    return letter == ' ' || letter == '\n' || letter == '\t' || letter == '\r';
  }
  std::size_t digits(std::size_t end) const {
    const std::size_t begin = end;
    while (end < text_.size() && text_[end] >= '0' && text_[end] <= '9') ++end;
    if (end == begin) fail_at(end, {"a digit expected"});
    return end;
  }
  bool is(std::size_t position, std::string_view letters) const noexcept {
    return position < text_.size() && letters.find(text_[position]) != std::string_view::npos;
  }
  /// A number by JSON's grammar, which is stricter than that of std::from_chars.
  std::string_view number() {
    peek();
    std::size_t end = at_;
    if (is(end, "-")) ++end;
    end = is(end, "0") ? end + 1 : digits(end);
    if (is(end, ".")) end = digits(end + 1);
    if (is(end, "eE")) end = digits(is(end + 1, "+-") ? end + 2 : end + 1);
    const std::string_view token = text_.substr(at_, end - at_);
    at_ = end;
    return token;
  }
  template <class T>
  [[noreturn]] void fail_range(std::string_view token) const {
    fail_at(at_ - token.size(), {"a number beyond the range of ", to_string(data_type_v<T>)});
  }
  template <class T>
  T integer() {
    const std::string_view token = number();
    T value{};
    const auto [end, error] = std::from_chars(token.data(), token.data() + token.size(), value);
    if (error != std::errc()) fail_range<T>(token);  // or a sign where T has none
    if (end != token.data() + token.size()) fail_at(at_ - token.size(), {"an integer expected"});
    return value;
  }
  template <class T>
  T floating() {
    if (peek() == '"') return special<T>();
    const std::string_view token = number();
    // A 16-bit float via double: double holds each of its values, and this rounds any others.
    using Exact = std::conditional_t<std::is_same_v<T, float>, float, double>;
    Exact exact = 0;
    if (!find_nearest(token, exact)) {
      if (!is_below_one(token)) fail_range<T>(token);
      exact = token.starts_with('-') ? Exact{-0.0} : Exact{0};
    }
    const auto value = static_cast<T>(exact);
    if constexpr (Half<T>) {
      if (is_infinite(static_cast<float>(value))) fail_range<T>(token);
    }
    return value;
  }
  /// Whether a number by JSON's grammar is in the range of T; stores the nearest T.
  template <class T>
  static bool find_nearest(std::string_view token, T& value) {
#ifdef __cpp_lib_to_chars
    return std::from_chars(token.data(), token.data() + token.size(), value).ec == std::errc();
#else  // libc++ before 20. Streams fail on subnormal numbers, but read them.
    std::istringstream text{std::string(token)};
    text.imbue(std::locale::classic());
    return (text >> value) || (!is_infinite(value) && value != 0);
#endif
  }
  template <class T>
  T special() {
    const std::size_t begin = at_;
    const std::string_view word = name();
    if (word == "NaN") return std::numeric_limits<T>::quiet_NaN();
    if (word == "Infinity") return std::numeric_limits<T>::infinity();
    if (word == "-Infinity") return -std::numeric_limits<T>::infinity();
    fail_at(begin, {"a number, \"NaN\", \"Infinity\" or \"-Infinity\" expected"});
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace lod::inline LOD_INTERFACE::detail::inline LOD_TARGET
