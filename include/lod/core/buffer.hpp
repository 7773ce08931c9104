// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup core
/// The memory of tensors: aligned, from a memory resource or the user's own, with shared ownership.
#pragma once

#include <lod/core/device.hpp>
#include <lod/core/error.hpp>
#include <lod/core/kept_memory.hpp>
#include <lod/core/reference.hpp>
#include <lod/core/target.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <new>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

namespace lod::inline LOD_INTERFACE {

namespace detail {

/// Keeps the memory of a buffer alive.
struct MemoryBlock : Shared {
  LOD_TAGGED explicit MemoryBlock(Destroy as_made, bool of_resource = false) noexcept
      : Shared(as_made), of_resource_(of_resource) {}
  LOD_TAGGED static void destroy(const MemoryBlock* block) noexcept;

 private:
  bool of_resource_;
};

/// The head of a block from a memory resource; the values follow it at the next multiple of `alignment`.
struct ResourceBlock final : MemoryBlock {
  LOD_TAGGED ResourceBlock(std::pmr::memory_resource* from, std::size_t bytes)
      : MemoryBlock(&ResourceBlock::destroy, true), resource(from), size(bytes) {}
  LOD_TAGGED static void destroy(const Shared* shared) noexcept {
    const auto* block = static_cast<const ResourceBlock*>(shared);
    std::pmr::memory_resource* owner = block->resource;
    const std::size_t total = block->size;
    block->~ResourceBlock();
    void* const memory = const_cast<ResourceBlock*>(block);
    if (owner == std::pmr::new_delete_resource()) {
      kept_memory.give_back(memory, total);
    } else {
      owner->deallocate(memory, total, alignment);
    }
  }
  std::pmr::memory_resource* resource;
  std::size_t size;
};
static_assert(sizeof(ResourceBlock) <= alignment);

inline void MemoryBlock::destroy(const MemoryBlock* block) noexcept {
  if (block->of_resource_) {
    ResourceBlock::destroy(block);
  } else {
    block->destroy_as_made();
  }
}

/// The memory functions of a device, which each device specialises. `allocate` throws what the resource throws.
template <class Device>
struct MemoryOf;

template <>
struct MemoryOf<Cpu> {
  using Resource = Cpu::memory_resource;
  struct Allocation {
    Reference<const MemoryBlock> block;
    void* values;
    LOD_TAGGED ~Allocation() = default;
  };
  /// For buffers made without a resource.
  LOD_TAGGED static Resource* initial_resource() noexcept { return Cpu::default_resource(); }
  /// For copies of values whose source has a given resource.
  LOD_TAGGED static Resource* resource_of_copies(Resource*) noexcept { return Cpu::default_resource(); }
  LOD_TAGGED static Allocation allocate(std::size_t bytes, Resource* resource) {
    bytes += alignment;  // for the head of the block
    // Other resources keep what they like, and may advise on their own memory.
    const bool is_standard = resource == std::pmr::new_delete_resource();
    void* const memory = is_standard ? kept_memory.allocate(bytes) : resource->allocate(bytes, alignment);
    auto block = Reference<const MemoryBlock>::adopt(::new (memory) ResourceBlock(resource, bytes));
    return {std::move(block), static_cast<std::byte*>(memory) + alignment};
  }
  /// Whether scratch memory may be lent again once an operation has returned.
  LOD_TAGGED static bool reusable(Resource*) noexcept { return true; }
  LOD_TAGGED static void copy(Resource*, void* to, const void* from, std::size_t bytes) noexcept {
    std::memcpy(to, from, bytes);
  }
  LOD_TAGGED static void set_zero(Resource*, void* to, std::size_t bytes) noexcept { std::memset(to, 0, bytes); }
};

/// The bytes of `count` values of `size` bytes each. Throws ShapeMismatch if they exceed the address space.
LOD_TAGGED inline std::size_t checked_bytes(std::int64_t count, std::size_t size) {
  std::size_t bytes = 0;
  if (count < 0 || __builtin_mul_overflow(static_cast<std::size_t>(count), size, &bytes) ||
      bytes > static_cast<std::size_t>(std::numeric_limits<std::ptrdiff_t>::max()) - 2 * alignment) {
    throw ShapeMismatch(detail::text({count, " values of ", size, " bytes are more than memory can hold"}));
  }
  return bytes;
}

}  // namespace detail

/// `size()` values of a trivially copyable T in one block of a device's memory. Copying a Buffer shares the block, like
/// copying a pointer; copying a tensor copies values. The last owner frees the memory.
template <class T, class Device = Cpu>
class Buffer {
  static_assert(std::is_trivially_copyable_v<T>, "a tensor holds plain values: T must be trivially copyable");
  static_assert(alignof(T) <= alignment, "values begin at multiples of 64 bytes: T must not need more");
  using Memory = detail::MemoryOf<Device>;

 public:
  /// T without const.
  using value_type = std::remove_const_t<T>;
  /// The source of memory.
  using Resource = typename Device::memory_resource;

  /// No memory yet; what is allocated later comes from `resource`.
  LOD_TAGGED explicit Buffer(Resource* resource = Memory::initial_resource()) noexcept : resource_(resource) {}

  /// `size` uninitialised values from `resource`, at a multiple of `alignment`. Throws ShapeMismatch if their bytes
  /// exceed the address space, and what the resource throws.
  LOD_TAGGED Buffer(std::int64_t size, Resource* resource) : resource_(resource) {
    if (size == 0) return;
    auto allocation = Memory::allocate(detail::checked_bytes(size, sizeof(T)), resource);
    block_ = std::move(allocation.block);
    data_ = static_cast<value_type*>(allocation.values);
    size_ = capacity_ = size;
  }

  /// Uses memory of the user's, which must outlive this buffer and all that share it.
  LOD_TAGGED static Buffer wrap(std::span<T> values, Resource* resource = Memory::initial_resource()) noexcept {
    Buffer buffer(resource);
    buffer.data_ = const_cast<value_type*>(values.data());
    buffer.size_ = buffer.capacity_ = static_cast<std::int64_t>(values.size());
    buffer.wrapped_ = true;
    return buffer;
  }
  /// The same, and keeps `owner` (a shared pointer, a mapped file, ...) until the last sharer of the memory is gone.
  template <class Owner>
    requires(!std::convertible_to<Owner, Resource*>)
  LOD_TAGGED static Buffer wrap(std::span<T> values, Owner owner, Resource* resource = Memory::initial_resource()) {
    Buffer buffer = wrap(values, resource);
    buffer.block_ = detail::Reference<const detail::MemoryBlock>::adopt(
        new detail::OwnerBlock<std::remove_const_t<Owner>, detail::MemoryBlock>(std::move(owner)));
    return buffer;
  }

  LOD_TAGGED Buffer(const Buffer&) noexcept = default;
  LOD_TAGGED Buffer& operator=(const Buffer&) noexcept = default;
  /// The source is left empty.
  LOD_TAGGED Buffer(Buffer&& other) noexcept
      : block_(std::move(other.block_)),
        resource_(other.resource_),
        data_(std::exchange(other.data_, nullptr)),
        size_(std::exchange(other.size_, 0)),
        capacity_(std::exchange(other.capacity_, 0)),
        wrapped_(std::exchange(other.wrapped_, false)) {}
  /// The source is left empty; this takes over its resource too.
  LOD_TAGGED Buffer& operator=(Buffer&& other) noexcept {
    Buffer taken(std::move(other));
    std::swap(block_, taken.block_);
    std::swap(resource_, taken.resource_);
    std::swap(data_, taken.data_);
    std::swap(size_, taken.size_);
    std::swap(capacity_, taken.capacity_);
    std::swap(wrapped_, taken.wrapped_);
    return *this;
  }
  LOD_TAGGED ~Buffer() = default;

  /// The first value.
  LOD_TAGGED T* data() const noexcept { return data_; }
  /// The number of values.
  LOD_TAGGED std::int64_t size() const noexcept { return size_; }
  /// The number of values for which there is memory.
  LOD_TAGGED std::int64_t capacity() const noexcept { return capacity_; }
  /// Where later allocations come from.
  LOD_TAGGED Resource* resource() const noexcept { return resource_; }
  /// What keeps the memory alive; null if nothing does.
  LOD_TAGGED const detail::MemoryBlock* block() const noexcept { return block_.get(); }
  /// True for the user's memory.
  LOD_TAGGED bool wrapped() const noexcept { return wrapped_; }

  /// The same memory seen as read-only values.
  LOD_TAGGED Buffer<const value_type, Device> as_const() const noexcept {
    return Buffer(*this).template as<const value_type>();
  }

  /// The same memory seen as values of another type; this buffer is left empty. The memory must hold a whole number of
  /// them, at a multiple of their alignment.
  template <class U>
  LOD_TAGGED Buffer<U, Device> as() && noexcept {
    LOD_ASSERT(bytes() % sizeof(U) == 0 && reinterpret_cast<std::uintptr_t>(data_) % alignof(U) == 0);
    Buffer<U, Device> buffer(resource_);
    buffer.block_ = std::move(block_);
    buffer.data_ = reinterpret_cast<std::remove_const_t<U>*>(std::exchange(data_, nullptr));
    buffer.size_ = static_cast<std::int64_t>(bytes() / sizeof(U));
    buffer.capacity_ = static_cast<std::int64_t>(static_cast<std::size_t>(capacity_) * sizeof(T) / sizeof(U));
    buffer.wrapped_ = std::exchange(wrapped_, false);
    size_ = capacity_ = 0;
    return buffer;
  }

  /// @{
  /// Sets all values: to zero, or to the `size()` values at `from`, in memory of the same device.
  LOD_TAGGED void set_zero() noexcept(std::same_as<Device, Cpu>) {
    if (size_ > 0) Memory::set_zero(resource_, data_, bytes());
  }
  LOD_TAGGED void assign(const value_type* from) noexcept(std::same_as<Device, Cpu>) {
    if (size_ > 0) Memory::copy(resource_, data_, from, bytes());
  }
  /// @}

  /// Makes room for `size` values, whose contents are unspecified. Reuses the memory if it suffices and is not shared;
  /// otherwise allocates from `resource()`, before anything is changed, so that a failure changes nothing. A wrapped
  /// buffer never leaves the user's memory: if that is too small, throws ShapeMismatch.
  LOD_TAGGED void resize(std::int64_t size) { *this = resized(size, resource_); }
  /// What `resize` would turn this buffer into, in the same memory or in new memory from `resource`. This buffer stays
  /// unchanged.
  LOD_TAGGED Buffer resized(std::int64_t size, Resource* resource) const {
    if (size <= capacity_ && (wrapped_ || block_.unique())) {
      Buffer same = *this;
      same.size_ = size;
      return same;
    }
    if (wrapped_) {
      throw ShapeMismatch(detail::text({"the wrapped memory holds ", capacity_, " values, expected ", size}));
    }
    return Buffer(size, resource);
  }

 private:
  template <class, class>
  friend class Buffer;

  LOD_TAGGED std::size_t bytes() const noexcept { return static_cast<std::size_t>(size_) * sizeof(T); }

  detail::Reference<const detail::MemoryBlock> block_;
  Resource* resource_ = nullptr;
  value_type* data_ = nullptr;
  std::int64_t size_ = 0;
  std::int64_t capacity_ = 0;
  bool wrapped_ = false;
};

}  // namespace lod::inline LOD_INTERFACE
