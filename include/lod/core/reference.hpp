// SPDX-License-Identifier: Apache-2.0
/// @file
/// Shared ownership with the count inside the block. The standard's shared pointer would cost a second allocation for
/// each tensor and a third of the time that it takes to include this library's core. To save that time the count is not
/// a std::atomic either, but a number with the compiler's atomic operations.
#pragma once

#include <lod/core/target.hpp>

#include <concepts>
#include <cstdint>
#include <utility>

namespace lod::inline LOD_INTERFACE::detail {

/// A block that several `Reference`s own. The last one calls `destroy`, which frees the block: by the function for the
/// block's type if the reference knows the type, otherwise by the function that the block was made with.
///
/// The difference matters when a shared library is unloaded: the function that a block was made with belongs to the
/// library that made it, the one for a type to the caller. So objects of this library's types that a plugin has made
/// outlive the plugin; owners of users' types (OwnerBlock), and exported Arrow arrays, do not.
struct Shared {
  using Destroy = void (*)(const Shared*) noexcept;
  LOD_TAGGED explicit Shared(Destroy destroy) noexcept : destroy_(destroy) {}
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;

  LOD_TAGGED void acquire() const noexcept { __atomic_fetch_add(&references_, 1, __ATOMIC_RELAXED); }
  /// Drops a count. Returns whether it was the last one: then the block must be destroyed.
  LOD_TAGGED bool give_up() const noexcept { return __atomic_sub_fetch(&references_, 1, __ATOMIC_ACQ_REL) == 0; }
  /// Frees the block by the function that it was made with.
  LOD_TAGGED void destroy_as_made() const noexcept { destroy_(this); }
  /// True if nobody else holds a count.
  LOD_TAGGED bool unique() const noexcept { return __atomic_load_n(&references_, __ATOMIC_ACQUIRE) == 1; }

 protected:
  LOD_TAGGED ~Shared() = default;

 private:
  mutable std::int64_t references_ = 1;
  Destroy destroy_;
};

/// Keeps a user's object alive: a shared pointer, a mapped file, ...
template <class Owner, std::derived_from<Shared> Base = Shared>
struct OwnerBlock final : Base {
  LOD_TAGGED explicit OwnerBlock(Owner&& kept)
      : Base([](const Shared* shared) noexcept { delete static_cast<const OwnerBlock*>(shared); }),
        owner(std::move(kept)) {}
  LOD_TAGGED ~OwnerBlock() = default;
  Owner owner;
};

/// Owns one count of a block derived from `Shared`; may be empty. Copies may be made and dropped from any thread.
template <class Block>
class Reference {
 public:
  LOD_TAGGED Reference() = default;
  /// Takes over the count that `block` was made with.
  LOD_TAGGED static Reference adopt(Block* block) noexcept { return Reference(block); }
  /// Adds a count to a block that somebody else owns.
  LOD_TAGGED static Reference share(Block* block) noexcept {
    if (block) block->acquire();
    return Reference(block);
  }

  LOD_TAGGED Reference(const Reference& other) noexcept : Reference(share(other.block_)) {}
  LOD_TAGGED Reference(Reference&& other) noexcept : block_(other.block_) { other.block_ = nullptr; }
  LOD_TAGGED Reference& operator=(Reference other) noexcept {
    Block* const mine = block_;
    block_ = other.block_;
    other.block_ = mine;
    return *this;
  }
  LOD_TAGGED ~Reference() {
    if (!block_ || !block_->give_up()) return;
    if constexpr (requires { Block::destroy(block_); }) {
      Block::destroy(block_);
    } else {
      block_->destroy_as_made();
    }
  }

  LOD_TAGGED Block* get() const noexcept { return block_; }
  LOD_TAGGED Block* operator->() const noexcept { return block_; }
  LOD_TAGGED Block& operator*() const noexcept { return *block_; }
  LOD_TAGGED explicit operator bool() const noexcept { return block_ != nullptr; }
  /// True if no other Reference owns the block.
  LOD_TAGGED bool unique() const noexcept { return block_ && block_->unique(); }

 private:
  LOD_TAGGED explicit Reference(Block* block) noexcept : block_(block) {}
  Block* block_ = nullptr;
};

}  // namespace lod::inline LOD_INTERFACE::detail
