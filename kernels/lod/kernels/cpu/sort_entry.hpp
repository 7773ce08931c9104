// SPDX-License-Identifier: Apache-2.0
/// @file
/// The entries that sorting on the CPU orders in place of rows: integer keys that order as the numbers do, each with
/// the position of its row.
#pragma once

#include <lod/core/target.hpp>
#include <lod/kernels/sort_key.hpp>
#include <lod/ops/kernel.hpp>

#include <cstdint>
#include <type_traits>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu {

/// A 32-bit key and a row number below 2^32 in one integer.
class NarrowEntry {
 public:
  static constexpr int key_bits = 32;
  NarrowEntry() = default;
  NarrowEntry(std::int64_t key, std::int64_t row) noexcept : number_(key * (std::int64_t{1} << 32) + row) {}
  std::int64_t row() const noexcept { return number_ & 0xffffffff; }
  std::uint64_t unsigned_key() const noexcept { return (static_cast<std::uint64_t>(number_) >> 32) ^ 0x80000000u; }
  friend bool operator<(NarrowEntry a, NarrowEntry b) noexcept { return a.number_ < b.number_; }

 private:
  std::int64_t number_;
};
class WideEntry {
 public:
  static constexpr int key_bits = 64;
  WideEntry() = default;
  WideEntry(std::int64_t key, std::int64_t row) noexcept : key_(key), row_(row) {}
  std::int64_t row() const noexcept { return row_; }
  std::uint64_t unsigned_key() const noexcept { return static_cast<std::uint64_t>(key_) ^ (std::uint64_t{1} << 63); }
  friend bool operator<(const WideEntry& a, const WideEntry& b) noexcept {
    return (a.key_ < b.key_) | ((a.key_ == b.key_) & (a.row_ < b.row_));
  }

 private:
  std::int64_t key_;
  std::int64_t row_;
};

/// Calls body(std::type_identity<Entry>()) with the entries for these sequences.
template <class T, class Body>
void with_entries(const Segments& sequences, const Body& body) {
  if constexpr (has_narrow_key<T>) {
    if (sequences.max_rows <= std::int64_t{0xffffffff}) {
      body(std::type_identity<NarrowEntry>());
      return;
    }
  }
  body(std::type_identity<WideEntry>());
}

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu
