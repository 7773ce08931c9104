// SPDX-License-Identifier: Apache-2.0
/// @file
/// How much memory a reader holds while it reads.
#pragma once

#include <cstddef>

namespace lod_fuzz {

/// The bytes that operator new has given and operator delete has not got back, and the most that these ever were.
struct Memory {
  std::size_t now = 0;
  std::size_t most = 0;
};
inline Memory memory;

/// The most bytes that are held at a time, beyond those that were held when this was made.
class PeakMemory {
 public:
  PeakMemory() noexcept : before_(memory.now) { memory.most = memory.now; }
  std::size_t bytes() const noexcept { return memory.most - before_; }

 private:
  std::size_t before_;
};

}  // namespace lod_fuzz
