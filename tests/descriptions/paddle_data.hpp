// SPDX-License-Identifier: Apache-2.0
/// @file
/// The files that PaddlePaddle wrote, and bytes of the same kind made by hand.
#pragma once

#include "support/temporary_folder.hpp"

#include <string>

namespace lod_test {

/// Where a file or folder of tests/data/paddle is.
inline std::string paddle_path(const std::string& name) { return LOD_TEST_DATA "/paddle/" + name; }
/// Its bytes.
inline std::string paddle_bytes(const std::string& name) { return read_bytes(paddle_path(name)); }

/// The bytes of numbers as memory has them, one after the other: raw(std::uint32_t{0}, 1.5f).
template <class... Numbers>
std::string raw(Numbers... numbers) {
  std::string bytes;
  (bytes.append(reinterpret_cast<const char*>(&numbers), sizeof(numbers)), ...);
  return bytes;
}

}  // namespace lod_test
