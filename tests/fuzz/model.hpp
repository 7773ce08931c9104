// SPDX-License-Identifier: Apache-2.0
/// @file
/// A program and the file that holds all its parameters, as the input of a target: four bytes say how long the program
/// is.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace lod_fuzz {

struct EncodedModel {
  std::string_view program = {};
  std::string_view parameters = {};
};

inline std::string joined(std::string_view program, std::string_view parameters) {
  const auto size = static_cast<std::uint32_t>(program.size());
  std::string bytes(reinterpret_cast<const char*>(&size), sizeof(size));
  return bytes.append(program).append(parameters);
}

/// The two of any bytes: nothing where they are too few.
inline EncodedModel parted(std::string_view bytes) noexcept {
  std::uint32_t size = 0;
  if (bytes.size() < sizeof(size)) return {};
  std::memcpy(&size, bytes.data(), sizeof(size));
  bytes.remove_prefix(sizeof(size));
  const std::size_t end = std::min<std::size_t>(size, bytes.size());
  return {bytes.substr(0, end), bytes.substr(end)};
}

}  // namespace lod_fuzz
