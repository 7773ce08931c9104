// SPDX-License-Identifier: Apache-2.0
/// @file
/// Something that memory is kept alive by, and that counts.
#pragma once

#include <utility>

namespace lod_test {

/// Adds one to a counter when it goes; what it has been moved from adds nothing.
class CountedOwner {
 public:
  explicit CountedOwner(int& gone) noexcept : gone_(&gone) {}
  CountedOwner(CountedOwner&& other) noexcept : gone_(std::exchange(other.gone_, nullptr)) {}
  CountedOwner& operator=(CountedOwner&&) = delete;
  ~CountedOwner() {
    if (gone_) ++*gone_;
  }

 private:
  int* gone_;
};

}  // namespace lod_test
