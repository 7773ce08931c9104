// SPDX-License-Identifier: Apache-2.0
/// @file
/// Text and numbers as JSON has them.
#pragma once

#include <cmath>
#include <sstream>
#include <string>
#include <string_view>

namespace benchmarks {

inline std::string quoted(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    if (static_cast<unsigned char>(c) >= 0x20) result += c;
  }
  return result + '"';
}
/// What is not finite becomes null.
inline std::string number(double value) {
  std::ostringstream text;
  text.precision(12);
  text << value;
  return std::isfinite(value) ? text.str() : "null";
}

}  // namespace benchmarks
