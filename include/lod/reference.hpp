// SPDX-License-Identifier: Apache-2.0
/// @file
/// Shared ownership with the count inside the block. The standard's shared pointer would do, at the price of a second
/// allocation for each tensor and of a third of the time that it takes to include this library's core.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

namespace lod::detail {

/// A block that several `Reference`s own. The last one calls `destroy`, which frees the block by the means it was made.
struct Shared {
  using Destroy = void (*)(const Shared*) noexcept;
  explicit Shared(Destroy destroy_block) noexcept : destroy(destroy_block) {}
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;

  mutable std::atomic<std::int64_t> references{1};
  Destroy destroy;

 protected:
  ~Shared() = default;
};

/// Owns one count of a block derived from `Shared`; may be empty. Copies may be made and dropped from any thread.
template <class Block>
class Reference {
 public:
  Reference() = default;
  /// Takes over the count that `block` was made with.
  static Reference adopt(Block* block) noexcept { return Reference(block); }
  /// Adds a count to a block that somebody else owns.
  static Reference share(Block* block) noexcept {
    if (block) block->references.fetch_add(1, std::memory_order_relaxed);
    return Reference(block);
  }

  Reference(const Reference& other) noexcept : Reference(share(other.block_)) {}
  Reference(Reference&& other) noexcept : block_(std::exchange(other.block_, nullptr)) {}
  Reference& operator=(Reference other) noexcept {
    std::swap(block_, other.block_);
    return *this;
  }
  ~Reference() {
    if (block_ && block_->references.fetch_sub(1, std::memory_order_acq_rel) == 1) block_->destroy(block_);
  }

  Block* get() const noexcept { return block_; }
  Block* operator->() const noexcept { return block_; }
  Block& operator*() const noexcept { return *block_; }
  explicit operator bool() const noexcept { return block_ != nullptr; }
  /// True where no other Reference owns the block.
  bool unique() const noexcept { return block_ && block_->references.load(std::memory_order_acquire) == 1; }

 private:
  explicit Reference(Block* block) noexcept : block_(block) {}
  Block* block_ = nullptr;
};

}  // namespace lod::detail
