// SPDX-License-Identifier: Apache-2.0
/// @file
/// A memory resource that counts.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory_resource>
#include <new>

namespace lod_test {

class CountingResource : public std::pmr::memory_resource {
 public:
  int allocations = 0;
  int live = 0;
  std::size_t bytes = 0;       ///< in use
  std::size_t most_bytes = 0;  ///< that were in use at a time
  /// From this allocation on, counted from 0, none succeeds; -1: all do.
  int fail_from = -1;

 private:
  void* do_allocate(std::size_t size, std::size_t alignment) override {
    if (fail_from >= 0 && allocations >= fail_from) throw std::bad_alloc();
    ++allocations;
    ++live;
    bytes += size;
    most_bytes = std::max(most_bytes, bytes);
    return std::pmr::new_delete_resource()->allocate(size, alignment);
  }
  void do_deallocate(void* memory, std::size_t size, std::size_t alignment) override {
    --live;
    bytes -= size;
    std::pmr::new_delete_resource()->deallocate(memory, size, alignment);
  }
  bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override { return this == &other; }
};

}  // namespace lod_test
