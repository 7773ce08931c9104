// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tensors as JSON.
#include "contents.hpp"
#include <lod/error.hpp>
#include <lod/io/json.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace lodinfo {

namespace {

/// Keeps the error that came the furthest: it is about what was meant, and the others are about what was not.
class Attempts {
 public:
  template <class Read>
  std::optional<lod::AnyLoDTensor> attempt(const Read& read) {
    try {
      return read();
    } catch (const lod::ParseError& error) {
      if (!furthest_ || error.position() > furthest_->position()) furthest_ = error;
    }
    return {};
  }
  [[noreturn]] void fail() const { throw *furthest_; }

 private:
  std::optional<lod::ParseError> furthest_;
};

/// Nested lists do not say what they are: they are given as few levels as they allow, and the first type that has all
/// of the numbers.
lod::AnyLoDTensor read_nested(std::string_view text) {
  const std::size_t depth = text.find_first_not_of(" \t\r\n[");
  const std::size_t most_lists = 32;  // more than any tensor is likely to have
  const auto lists = static_cast<int>(std::min(most_lists, depth == std::string_view::npos ? most_lists : depth));
  Attempts attempts;
  for (int levels = 0; levels < lists; ++levels) {
    if (auto x = attempts.attempt([&] { return lod::from_json<std::int64_t>(text, levels); })) return *x;
    if (auto x = attempts.attempt([&] { return lod::from_json<double>(text, levels); })) return *x;
    if (auto x = attempts.attempt([&] { return lod::from_json<bool>(text, levels); })) return *x;
  }
  attempts.fail();
}

}  // namespace

Opened open_json(const std::string& path) {
  const std::string text = read_bytes(path);
  const bool is_object = text[text.find_first_not_of(" \t\r\n")] == '{';
  auto contents = std::make_unique<Loaded>(is_object ? "JSON, a tensor as an object" : "JSON, nested lists");
  contents->add(name_from(path), is_object ? lod::from_json(text) : read_nested(text));
  return contents;
}

}  // namespace lodinfo
