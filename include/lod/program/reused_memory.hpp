// SPDX-License-Identifier: Apache-2.0
/// @file
/// Memory that the temporaries of a program share in turn: what one gives back, the next one gets.
#pragma once

#include <lod/core/target.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <memory_resource>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

namespace lod::inline LOD_INTERFACE::detail {

/// Memory from another resource, kept from run to run; at the end of a run, blocks that the run did not use go back to
/// that resource. A run that asks for the same sizes in the same order as the run before gets the same memory, and
/// takes nothing from the other resource.
///
/// Tensors may outlive its owner: it is destroyed when the owner is gone and all memory in use has been returned. So a
/// tensor that holds no memory must not keep a pointer to it.
class ReusedMemory final : public std::pmr::memory_resource {
 public:
  /// Gives up the owner's share.
  struct Release {
    LOD_TAGGED void operator()(ReusedMemory* memory) const noexcept { memory->close(); }
  };
  using Owner = std::unique_ptr<ReusedMemory, Release>;

  LOD_TAGGED static Owner make(std::pmr::memory_resource* from) { return Owner(new ReusedMemory(from)); }
  ReusedMemory(const ReusedMemory&) = delete;
  ReusedMemory& operator=(const ReusedMemory&) = delete;

  /// To be called when a run begins.
  LOD_TAGGED void begin_run() {
    const std::lock_guard lock(mutex_);
    next_ = 0;
    for (Block& block : blocks_) block.is_new = !block.is_free;
  }
  /// To be called when it has ended: memory that it did not use goes back.
  LOD_TAGGED void end_run() noexcept {
    const std::lock_guard lock(mutex_);
    for (Block& block : blocks_) {
      if (block.is_free && !block.is_new) give_back(block);
    }
  }

 private:
  struct Block {
    void* memory;  // null: given back
    std::size_t bytes, alignment;
    bool is_free;
    bool is_new;  // asked for in this run
  };
  struct Request {
    std::size_t bytes, block;
  };
  static constexpr std::size_t none = std::numeric_limits<std::size_t>::max();

  LOD_TAGGED explicit ReusedMemory(std::pmr::memory_resource* from) noexcept : from_(from) {}
  LOD_TAGGED ~ReusedMemory() override = default;

  LOD_TAGGED void* do_allocate(std::size_t bytes, std::size_t alignment) override {
    const std::lock_guard lock(mutex_);
    const bool is_known = next_ < requests_.size();
    std::size_t found = is_known && requests_[next_].bytes == bytes ? requests_[next_].block : none;
    if (found == none || !fits(blocks_[found], bytes, alignment)) found = find_best(bytes, alignment);
    if (!is_known) requests_.push_back({bytes, found});
    if (found == none) found = add_block(bytes, alignment);
    requests_[next_++] = {bytes, found};
    Block& block = blocks_[found];
    block.is_free = false;
    block.is_new = true;
    ++used_;
    return block.memory;
  }
  LOD_TAGGED void do_deallocate(void* memory, std::size_t, std::size_t) override {
    bool is_last = false;
    {
      const std::lock_guard lock(mutex_);
      Block& block = blocks_[by_address_.find(memory)->second];
      block.is_free = true;
      if (is_closed_) give_back(block);
      is_last = --used_ == 0 && is_closed_;
    }
    if (is_last) delete this;
  }
  LOD_TAGGED bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override { return this == &other; }

  LOD_TAGGED static bool fits(const Block& block, std::size_t bytes, std::size_t alignment) noexcept {
    return block.memory && block.is_free && block.bytes >= bytes && block.alignment >= alignment;
  }
  /// The smallest free block that suffices, unless it is more than twice as large; `none` if there is no such block.
  LOD_TAGGED std::size_t find_best(std::size_t bytes, std::size_t alignment) const noexcept {
    std::size_t best = none;
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      if (!fits(blocks_[i], bytes, alignment) || blocks_[i].bytes / 2 > bytes) continue;
      if (best == none || blocks_[i].bytes < blocks_[best].bytes) best = i;
    }
    return best;
  }
  /// Adds a block, after giving back those that earlier runs, with other shapes, have left unused.
  LOD_TAGGED std::size_t add_block(std::size_t bytes, std::size_t alignment) {
    std::size_t at = none;
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      if (blocks_[i].is_free && !blocks_[i].is_new) give_back(blocks_[i]);
      if (!blocks_[i].memory) at = i;
    }
    if (at == none) {
      at = blocks_.size();
      blocks_.push_back({nullptr, 0, 0, true, false});
    }
    void* memory = nullptr;
    try {
      memory = from_->allocate(bytes, alignment);
    } catch (...) {  // the free blocks may make room for it
      for (Block& block : blocks_) {
        if (block.is_free) give_back(block);
      }
      memory = from_->allocate(bytes, alignment);
    }
    try {
      by_address_.emplace(memory, at);
    } catch (...) {
      from_->deallocate(memory, bytes, alignment);
      throw;
    }
    blocks_[at] = {memory, bytes, alignment, true, false};
    return at;
  }
  LOD_TAGGED void give_back(Block& block) noexcept {
    if (!block.memory) return;
    by_address_.erase(block.memory);
    from_->deallocate(std::exchange(block.memory, nullptr), block.bytes, block.alignment);
  }
  LOD_TAGGED void close() noexcept {
    bool is_last = false;
    {
      const std::lock_guard lock(mutex_);
      is_closed_ = true;
      for (Block& block : blocks_) {
        if (block.is_free) give_back(block);
      }
      is_last = used_ == 0;
    }
    if (is_last) delete this;
  }

  std::pmr::memory_resource* from_;
  std::mutex mutex_;
  std::vector<Block> blocks_;
  std::vector<Request> requests_;  // of the last run, then of this one
  std::size_t next_ = 0;           // of the requests of this run
  std::unordered_map<const void*, std::size_t> by_address_;
  std::int64_t used_ = 0;
  bool is_closed_ = false;
};

}  // namespace lod::inline LOD_INTERFACE::detail
