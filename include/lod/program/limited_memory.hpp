// SPDX-License-Identifier: Apache-2.0
/// @file
/// A memory resource with a limit on the bytes in use at a time: RunLimits::bytes.
#pragma once

#include <lod/core/error.hpp>
#include <lod/core/target.hpp>
#include <lod/program/run.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <memory_resource>

namespace lod::inline LOD_INTERFACE::detail {

/// Memory from another resource, up to a limit; beyond that, throws LimitExceeded. Tensors may outlive its owner: it is
/// destroyed when the owner is gone and all of its memory has been returned. So a tensor that holds no memory must not
/// keep a pointer to it.
class LimitedMemory final : public std::pmr::memory_resource {
 public:
  /// Gives up the owner's share.
  struct Release {
    LOD_TAGGED void operator()(LimitedMemory* memory) const noexcept { memory->drop(); }
  };
  using Owner = std::unique_ptr<LimitedMemory, Release>;

  LOD_TAGGED static Owner make(std::int64_t limit, std::pmr::memory_resource* from) {
    return Owner(new LimitedMemory(limit, from));
  }
  LimitedMemory(const LimitedMemory&) = delete;
  LimitedMemory& operator=(const LimitedMemory&) = delete;

 private:
  LOD_TAGGED LimitedMemory(std::int64_t limit, std::pmr::memory_resource* from) noexcept : limit_(limit), from_(from) {}
  LOD_TAGGED ~LimitedMemory() override = default;

  LOD_TAGGED void* do_allocate(std::size_t bytes, std::size_t alignment) override {
    const auto wanted = static_cast<std::int64_t>(bytes);
    std::int64_t used = used_.load(std::memory_order_relaxed);
    do {
      if (wanted < 0 || wanted > limit_ - used) {
        throw LimitExceeded(text({"it has ", used, " bytes of memory and needs ", bytes,
                                  " more, expected no more than ", limit_, " in all"}));
      }
    } while (!used_.compare_exchange_weak(used, used + wanted, std::memory_order_relaxed));
    try {
      void* const memory = from_->allocate(bytes, alignment);
      ++users_;
      return memory;
    } catch (...) {
      used_ -= wanted;
      throw;
    }
  }
  LOD_TAGGED void do_deallocate(void* memory, std::size_t bytes, std::size_t alignment) override {
    from_->deallocate(memory, bytes, alignment);
    used_ -= static_cast<std::int64_t>(bytes);
    drop();
  }
  LOD_TAGGED bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override { return this == &other; }

  LOD_TAGGED void drop() noexcept {
    if (--users_ == 0) delete this;
  }

  std::int64_t limit_;
  std::pmr::memory_resource* from_;
  std::atomic<std::int64_t> used_ = 0;
  std::atomic<std::int64_t> users_ = 1;  // the owner, and the blocks of memory that are in use
};

}  // namespace lod::inline LOD_INTERFACE::detail
