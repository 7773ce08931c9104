// SPDX-License-Identifier: Apache-2.0
/// @file
/// The memory of a LoD: its levels and their numbers, in one allocation shared by its copies.
#pragma once

#include <lod/core/huge_pages.hpp>
#include <lod/core/reference.hpp>
#include <lod/core/target.hpp>

#include <cstddef>
#include <cstdint>
#include <new>
#include <span>
#include <utility>

namespace lod::inline LOD_INTERFACE::detail {

/// One level of a LoD. Pointers lead into the block that holds the level.
struct Level {
  LOD_TAGGED Level() = default;
  std::int64_t* offsets = nullptr;   ///< size + 1 numbers, in sequences of the next level (rows for the last)
  std::int64_t* absolute = nullptr;  ///< size + 1 numbers, in rows; the offsets themselves for the last level
  std::int64_t size = 0;             ///< sequences
  std::int64_t max_rows = 0;         ///< rows of the longest sequence
};

/// What copies of a LoD share: head, levels and numbers in one allocation, except offsets in the user's memory. It
/// never changes once built, apart from the copies that devices make.
struct LoDBlock final : Shared {
  /// The numbers in the memory of another device, made by its executors when they first meet the LoD. Goes with it.
  /// `kind` is an address that stands for the class which derives from this: copies of several back ends may be here.
  struct DeviceCopy {
    LOD_TAGGED DeviceCopy(const char* the_kind, void (*destroy)(DeviceCopy*) noexcept) noexcept
        : kind(the_kind), destroy_(destroy) {}
    const char* const kind;
    DeviceCopy* next = nullptr;

   private:
    friend LoDBlock;
    void (*destroy_)(DeviceCopy*) noexcept;
  };

  LOD_TAGGED explicit LoDBlock(int count) noexcept : Shared(&LoDBlock::destroy), levels(count) {}
  LOD_TAGGED static void destroy(const Shared* shared) noexcept {
    static_cast<const LoDBlock*>(shared)->~LoDBlock();
    ::operator delete(const_cast<Shared*>(shared));
  }
  LOD_TAGGED ~LoDBlock() {
    if (group_ && group_->give_up()) Group::destroy(group_);
    while (copies_) {
      DeviceCopy* const copy = copies_;
      copies_ = copy->next;
      copy->destroy_(copy);
    }
  }
  LOD_TAGGED const Level& operator[](int level) const noexcept {
    return reinterpret_cast<const Level*>(this + 1)[level];
  }
  LOD_TAGGED Level& operator[](int level) noexcept { return reinterpret_cast<Level*>(this + 1)[level]; }

  /// A block for `count` levels, size(level) sequences each, whose numbers are not yet written. With an `owner`, the
  /// offsets are in memory that it keeps alive, and the caller sets their addresses.
  template <class Size>
  LOD_TAGGED static Reference<LoDBlock> allocate(int count, const Size& size, Reference<const Shared> owner = {}) {
    const bool own_offsets = !owner;
    std::size_t numbers = 0;
    for (int level = 0; level < count; ++level) {
      const auto count_of_level = static_cast<std::size_t>(size(level)) + 1;
      if (own_offsets) numbers += count_of_level;
      if (level + 1 < count) numbers += count_of_level;
    }
    const std::size_t heads = static_cast<std::size_t>(count) * sizeof(Level);
    const std::size_t bytes = sizeof(LoDBlock) + heads + numbers * sizeof(std::int64_t);
    void* memory = ::operator new(bytes);
    advise_huge_pages(memory, bytes);
    auto* block = ::new (memory) LoDBlock(count);
    block->owner_ = std::move(owner);
    auto* next = reinterpret_cast<std::int64_t*>(reinterpret_cast<Level*>(block + 1) + count);
    for (int level = 0; level < count; ++level) {
      Level& entry = *::new (&(*block)[level]) Level;
      entry.size = size(level);
      if (own_offsets) {
        entry.offsets = entry.absolute = next;
        next += entry.size + 1;
      }
      if (level + 1 < count) {
        entry.absolute = next;
        next += entry.size + 1;
      }
    }
    return Reference<LoDBlock>::adopt(block);
  }

  /// Fills in what follows from the offsets, which must be valid.
  LOD_TAGGED void derive() noexcept {
    for (int level = levels - 1; level >= 0; --level) {
      Level& entry = (*this)[level];
      if (level + 1 < levels) {
        const std::int64_t* below = (*this)[level + 1].absolute;
        for (std::int64_t i = 0; i <= entry.size; ++i) entry.absolute[i] = below[entry.offsets[i]];
      }
      entry.max_rows = 0;
      for (std::int64_t i = 0; i < entry.size; ++i) {
        const std::int64_t rows = entry.absolute[i + 1] - entry.absolute[i];
        if (rows > entry.max_rows) entry.max_rows = rows;
      }
    }
  }

  /// Calls f(numbers) for the offsets of level 0, its absolute offsets, those of level 1, and so on; for the last level
  /// the two are the same. What is contiguous in memory is passed as one piece.
  template <class F>
  LOD_TAGGED void for_each_piece(const F& f) const {
    const std::int64_t* begin = (*this)[0].offsets;
    const std::int64_t* end = begin;
    const auto add = [&](const std::int64_t* numbers, std::int64_t count) {
      if (numbers != end) {
        f(std::span<const std::int64_t>{begin, end});
        begin = numbers;
      }
      end = numbers + count;
    };
    for (int level = 0; level < levels; ++level) {
      const Level& entry = (*this)[level];
      add(entry.offsets, entry.size + 1);
      if (level + 1 < levels) add(entry.absolute, entry.size + 1);
    }
    f(std::span<const std::int64_t>{begin, end});
  }
  /// How many numbers that is.
  LOD_TAGGED std::size_t number_count() const noexcept {
    std::size_t count = 0;
    for_each_piece([&](std::span<const std::int64_t> numbers) { count += numbers.size(); });
    return count;
  }
  /// The index of one of these numbers among them.
  LOD_TAGGED std::ptrdiff_t position_of(const std::int64_t* number) const noexcept {
    const auto address = reinterpret_cast<std::uintptr_t>(number);
    std::ptrdiff_t position = 0, before = 0;
    for_each_piece([&](std::span<const std::int64_t> numbers) {
      const auto first = reinterpret_cast<std::uintptr_t>(numbers.data());
      if (address >= first && address - first < numbers.size_bytes()) position = before + (number - numbers.data());
      before += static_cast<std::ptrdiff_t>(numbers.size());
    });
    return position;
  }
  /// The copies, newest first; null if there are none.
  LOD_TAGGED DeviceCopy* copies() const noexcept { return __atomic_load_n(&copies_, __ATOMIC_ACQUIRE); }
  /// Takes over a copy. If two are added for the same device at the same time, both stay.
  LOD_TAGGED void add(DeviceCopy* copy) const noexcept {
    copy->next = copies();
    while (!__atomic_compare_exchange_n(&copies_, &copy->next, copy, false, __ATOMIC_RELEASE, __ATOMIC_ACQUIRE)) {
    }
  }

  /// Whether both were found to have the same numbers: `remember_equal` was called for them, directly or by way of
  /// others. If not, they may be the same all the same.
  LOD_TAGGED static bool are_known_equal(const LoDBlock& a, const LoDBlock& b) noexcept {
    const Group* const group = __atomic_load_n(&a.group_, __ATOMIC_ACQUIRE);
    return group && group == __atomic_load_n(&b.group_, __ATOMIC_ACQUIRE);
  }
  /// For blocks with the same numbers, so many that they had better not be compared in each call: both join one group.
  /// A block stays in its first group. Without memory for a group, nothing is remembered.
  LOD_TAGGED static void remember_equal(const LoDBlock& a, const LoDBlock& b) noexcept {
    const Group* group = __atomic_load_n(&a.group_, __ATOMIC_ACQUIRE);
    if (!group) group = __atomic_load_n(&b.group_, __ATOMIC_ACQUIRE);
    const auto kept =
        group ? Reference<const Group>::share(group) : Reference<const Group>::adopt(new (std::nothrow) Group);
    if (!kept) return;
    a.join(*kept);
    b.join(*kept);
  }

  int levels;

 private:
  struct Group final : Shared {
    LOD_TAGGED Group() noexcept : Shared(&Group::destroy) {}
    LOD_TAGGED ~Group() = default;
    LOD_TAGGED static void destroy(const Shared* shared) noexcept { delete static_cast<const Group*>(shared); }
  };
  LOD_TAGGED void join(const Group& group) const noexcept {
    const Group* none = nullptr;
    if (__atomic_compare_exchange_n(&group_, &none, &group, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED)) group.acquire();
  }

  mutable DeviceCopy* copies_ = nullptr;
  mutable const Group* group_ = nullptr;  // of blocks with the same numbers; once set, it stays
  Reference<const Shared> owner_;
};
static_assert(alignof(LoDBlock) == alignof(Level) && alignof(Level) == alignof(std::int64_t));

}  // namespace lod::inline LOD_INTERFACE::detail
