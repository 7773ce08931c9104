// SPDX-License-Identifier: Apache-2.0
/// @file
/// Bytes from outside that are not as they should be: cut off, changed, random. A reader may refuse them; it must not
/// do anything else than that or give a tensor, nor take much memory.
#pragma once

#include "support/grain.hpp"
#include "support/random_lod.hpp"
#include <lod/error.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <new>
#include <string>
#include <string_view>
#include <vector>

namespace lod_test {

/// The default memory resource while it lives: gives no block of more than `limit` bytes.
class MemoryLimit final : public std::pmr::memory_resource {
 public:
  explicit MemoryLimit(std::size_t limit) : limit_(limit), before_(std::pmr::set_default_resource(this)) {}
  ~MemoryLimit() override { std::pmr::set_default_resource(before_); }

 private:
  void* do_allocate(std::size_t bytes, std::size_t alignment) override {
    if (bytes > limit_) throw std::bad_alloc();
    return before_->allocate(bytes, alignment);
  }
  void do_deallocate(void* memory, std::size_t bytes, std::size_t alignment) override {
    before_->deallocate(memory, bytes, alignment);
  }
  bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override { return this == &other; }

  std::size_t limit_;
  std::pmr::memory_resource* before_;
};

/// Calls read(bytes) with the bytes in a block of just their size, so that a sanitizer sees who reads beyond it.
/// Whether they were read; throws what is no ParseError.
template <class Read>
bool reads(std::string_view bytes, const Read& read) {
  const std::vector<char> exact(bytes.begin(), bytes.end());
  try {
    read(std::string_view(exact.data(), exact.size()));
    return true;
  } catch (const lod::ParseError&) {
    return false;
  }
}

/// Reads each beginning of the bytes, all but the whole, which must be refused.
template <class Read>
void refuses_every_truncation(const std::string& bytes, const Read& read) {
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    CAPTURE(size);
    REQUIRE(!reads(std::string_view(bytes).substr(0, size), read));
  }
}

/// Reads the bytes with each bit turned in its turn, where all is slow with every seventh: each bit of a byte, in one
/// byte of seven. What is not refused is checked by `read` itself.
template <class Read>
void survives_every_bit_flip(std::string bytes, const Read& read) {
  for (std::size_t bit = 0; bit < 8 * bytes.size(); bit += slow ? 7 : 1) {
    CAPTURE(bit);
    const auto mask = static_cast<char>(1 << bit % 8);
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ mask);
    reads(bytes, read);
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ mask);
  }
}

/// Reads the bytes with a few of them replaced, left out or repeated, `count` times.
template <class Read>
void survives_random_changes(const std::string& bytes, int count, const Read& read) {
  INFO("LOD_TEST_SEED=", first_seed());
  Engine engine(first_seed());
  for (int i = 0; i < count; ++i) {
    std::string changed = bytes;
    for (std::int64_t change = random_number(engine, 1, 4); change > 0 && !changed.empty(); --change) {
      const auto last = static_cast<std::int64_t>(changed.size()) - 1;
      const auto begin = static_cast<std::size_t>(random_number(engine, 0, last));
      const auto size = static_cast<std::size_t>(random_number(engine, 1, 8));
      switch (random_number(engine, 0, 3)) {
        case 0:
          changed[begin] = static_cast<char>(random_number(engine, 0, 255));
          break;
        case 1:
          changed[begin] = changed[static_cast<std::size_t>(random_number(engine, 0, last))];
          break;
        case 2:
          changed.erase(begin, size);
          break;
        default:
          changed.insert(begin, changed.substr(begin, size));
      }
    }
    CAPTURE(i);
    reads(changed, read);
  }
}

/// Reads `count` strings of random bytes of no special kind.
template <class Read>
void survives_noise(int count, const Read& read) {
  INFO("LOD_TEST_SEED=", first_seed());
  Engine engine(first_seed());
  for (int i = 0; i < count; ++i) {
    std::string noise(static_cast<std::size_t>(random_number(engine, 0, 200)), '\0');
    for (char& byte : noise) byte = static_cast<char>(random_number(engine, 0, 255));
    CAPTURE(i);
    reads(noise, read);
  }
}

}  // namespace lod_test
