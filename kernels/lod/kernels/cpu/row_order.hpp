// SPDX-License-Identifier: Apache-2.0
/// @file
/// Putting the rows of one sequence in order by vectors: all of them, or the greatest.
#pragma once

#include <lod/core/sizes.hpp>
#include <lod/core/target.hpp>
#include <lod/kernels/cpu/short_row_sort.hpp>
#include <lod/kernels/cpu/short_sort.hpp>
#include <lod/kernels/cpu/sort_entry.hpp>
#include <lod/kernels/cpu/vector.hpp>
#include <lod/kernels/cpu/vector_sort.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu {

/// As `load_vector`, as numbers of any type A, of which `count` may be anything: others than the accumulators of T are
/// converted one by one.
template <class A, class T>
inline xsimd::batch<A> load_numbers(const T* x, std::int64_t count, A fill) {
  constexpr auto all = static_cast<std::int64_t>(xsimd::batch<A>::size);
  if constexpr (std::same_as<A, Accumulator<T>>) {
    return load_vector(x, std::min(count, all), fill);
  } else {
    alignas(64) A numbers[static_cast<std::size_t>(all)];
    if (count >= all) {
      for (std::int64_t i = 0; i < all; ++i) numbers[i] = static_cast<A>(x[i]);
    } else {
      for (std::int64_t i = 0; i < all; ++i) numbers[i] = i < count ? static_cast<A>(x[i]) : fill;
    }
    return xsimd::batch<A>::load_aligned(numbers);
  }
}

/// How many words of 64 bits `sort_numbers` needs for `count` numbers.
template <class T>
constexpr std::int64_t sort_numbers_words(std::int64_t count) noexcept {
  using Sort = VectorSort<SortNumber<T>>;
  return 2 * Sort::room(count) * static_cast<std::int64_t>(sizeof(SortNumber<T>)) / 8;
}
/// Sorts `count` numbers, at least one, from x to y.
template <class T>
void sort_numbers(const T* x, std::int64_t count, bool descending, std::int64_t* words, T* y) noexcept {
  using A = SortNumber<T>;
  using V = xsimd::batch<A>;
  using Sort = VectorSort<A>;
  const TurnedNumbers<T, A> turned(descending);
  const std::int64_t room = Sort::room(count);
  A* const keys = reinterpret_cast<A*>(words);
  const A last = turned.last().get(0);
  StrangeNumbers<A> strange;
  for (std::int64_t i = 0; i < room; i += sort_lanes<T>) {
    V numbers = load_numbers(x + std::min(i, count), count - i, last);
    if constexpr (std::floating_point<A>) {
      strange.look_at(numbers);
      numbers = xsimd::select(numbers == numbers, numbers, turned.last());
    }
    turned(numbers).store_unaligned(keys + i);
  }
  Sort::sort(keys, keys + room, room);
  for (std::int64_t i = 0; i < count; i += sort_lanes<T>) {
    store_numbers<T>(y + i, turned(V::load_unaligned(keys + i)), std::min(sort_lanes<T>, count - i));
  }
  if constexpr (std::floating_point<A>) {
    if (strange.any()) restore_strange(x, count, descending, y);
  }
}

/// Rows in order by keys of 32 bits, of which at most `most` fit. Entry is double; files that put nothing in order do
/// not compile how, since this is a template.
template <class Entry>
class NarrowRows {
  using Sort = VectorSort<Entry>;

 public:
  static constexpr std::int64_t most = RowEntryLayout::places;
  /// How many words of 64 bits `count` rows need.
  static constexpr std::int64_t words(std::int64_t count) noexcept { return 2 * Sort::room(count); }

  /// `memory` has `words(count)` words.
  NarrowRows(std::int64_t* memory, std::int64_t count) noexcept
      : entries_(reinterpret_cast<Entry*>(memory)), scratch_(entries_ + Sort::room(count)) {}

  std::int64_t row(std::int64_t i) const noexcept { return RowEntryLayout::place(entries_[i]); }
  /// Sorts rows 0 to count - 1 of x. The keys of the first `kept` are sorted again.
  template <class T>
  void sort_all(const T* x, std::int64_t count, bool descending, std::int64_t /* kept */) const noexcept {
    make_entries(x, count, count, descending, 0, entries_);
    sort(count);
  }
  /// Places a row and its key after those before it, until all are sorted again.
  void set(std::int64_t i, std::int64_t key, std::int64_t row) const noexcept {
    entries_[i] = RowEntryLayout::entry(key, row);
  }
  /// Sorts the first `count` again, of which the first `kept` are needed.
  void sort_again(std::int64_t count, std::int64_t /* kept */) const noexcept { sort(count); }

 private:
  void sort(std::int64_t count) const noexcept {
    const std::int64_t room = Sort::room(count);
    std::fill(entries_ + count, entries_ + room, std::numeric_limits<Entry>::infinity());
    Sort::sort(entries_, scratch_, room);
  }
  Entry* entries_;
  Entry* scratch_;
};

/// The same by keys of 64 bits: by their lower halves first, which those that differ in 32 bits do not need.
template <class Entry>
class WideRows {
  using Sort = VectorSort<Entry>;

 public:
  static constexpr std::int64_t most = RowEntryLayout::places;
  static constexpr std::int64_t words(std::int64_t count) noexcept { return 2 * Sort::room(count) + 3 * count; }

  WideRows(std::int64_t* memory, std::int64_t count) noexcept
      : entries_(reinterpret_cast<Entry*>(memory)),
        scratch_(entries_ + Sort::room(count)),
        keys_(memory + 2 * Sort::room(count)),
        rows_(keys_ + count),
        places_(rows_ + count) {}

  std::int64_t row(std::int64_t i) const noexcept { return rows_[i]; }
  template <class T>
  void sort_all(const T* x, std::int64_t count, bool descending, std::int64_t kept) const noexcept {
    make_keys(x, count, descending, keys_);
    sort(count);
    std::copy(places_, places_ + count, rows_);
    rearrange(keys_, kept);
  }
  void set(std::int64_t i, std::int64_t key, std::int64_t row) const noexcept {
    keys_[i] = key;
    rows_[i] = row;
  }
  void sort_again(std::int64_t count, std::int64_t kept) const noexcept {
    sort(count);
    rearrange(rows_, kept);
    rearrange(keys_, kept);
  }

 private:
  /// Sets places_[i] to the place of the i-th key in order.
  void sort(std::int64_t count) const noexcept {
    if (count > most) {
      for (std::int64_t i = 0; i < count; ++i) places_[i] = i;
      std::sort(places_, places_ + count, [this](std::int64_t a, std::int64_t b) {
        return keys_[a] < keys_[b] || (keys_[a] == keys_[b] && a < b);
      });
      return;
    }
    std::int64_t least = keys_[0], greatest = keys_[0];
    for (std::int64_t i = 0; i < count; ++i) {
      least = std::min(least, keys_[i]);
      greatest = std::max(greatest, keys_[i]);
    }
    const auto above = [=, this](std::int64_t place) {
      return static_cast<std::uint64_t>(keys_[place]) - static_cast<std::uint64_t>(least);
    };
    sort_half(count, [&](std::int64_t i) { return above(i) & 0xffffffff; });
    for (std::int64_t i = 0; i < count; ++i) places_[i] = RowEntryLayout::place(entries_[i]);
    if (static_cast<std::uint64_t>(greatest) - static_cast<std::uint64_t>(least) <= 0xffffffff) return;
    sort_half(count, [&](std::int64_t i) { return above(places_[i]) >> 32; });
    auto* const sorted = reinterpret_cast<std::int64_t*>(scratch_);
    for (std::int64_t i = 0; i < count; ++i) sorted[i] = places_[RowEntryLayout::place(entries_[i])];
    std::copy(sorted, sorted + count, places_);
  }
  /// Sets entries_[i] to the i-th entry in the order of half(0) to half(count - 1), of 32 bits each.
  template <class Half>
  void sort_half(std::int64_t count, const Half& half) const noexcept {
    constexpr std::int64_t sign = std::int64_t{1} << 31;
    for (std::int64_t i = 0; i < count; ++i) {
      entries_[i] = RowEntryLayout::entry(static_cast<std::int64_t>(half(i)) - sign, i);
    }
    const std::int64_t room = Sort::room(count);
    std::fill(entries_ + count, entries_ + room, std::numeric_limits<Entry>::infinity());
    Sort::sort(entries_, scratch_, room);
  }
  /// Puts the first `kept` of these numbers in order.
  void rearrange(std::int64_t* numbers, std::int64_t kept) const noexcept {
    auto* const some = reinterpret_cast<std::int64_t*>(scratch_);
    for (std::int64_t i = 0; i < kept; ++i) some[i] = numbers[places_[i]];
    std::copy(some, some + kept, numbers);
  }
  Entry* entries_;
  Entry* scratch_;
  std::int64_t* keys_;
  std::int64_t* rows_;
  std::int64_t* places_;
};

/// Calls body(std::type_identity<Rows>()) with the rows for these sequences.
template <class T, class Body>
void with_rows(const Segments& sequences, const Body& body) {
  if constexpr (has_narrow_key<T>) {
    if (sequences.max_rows <= NarrowRows<double>::most) return body(std::type_identity<NarrowRows<double>>());
  }
  body(std::type_identity<WideRows<double>>());
}

/// How many rows there must be room for to select the greatest `k`.
constexpr std::int64_t selection_rows(std::int64_t k) noexcept {
  return std::max<std::int64_t>(
      256, std::min<std::int64_t>(lod::detail::saturated_product(8, k),
                                  lod::detail::saturated_sum(lod::detail::saturated_product(2, k), 4096)));
}
/// Sorts the greatest `k` of rows 0 to count - 1 of x, or all if there are fewer, the greatest first, into `rows`,
/// which must have room for `selection_rows(k)`, or for `count` if that is less. Returns how many there are.
template <class Rows, class T>
std::int64_t select_rows(const T* x, std::int64_t count, std::int64_t k, const Rows& rows) noexcept {
  if (k == 0 || count == 0) return 0;
  const std::int64_t capacity = std::min(count, selection_rows(k));
  std::int64_t used = std::min(capacity, k);
  rows.sort_all(x, capacity, true, used);
  if (capacity == count) return used;
  // A further row is kept if it comes before the last one kept; not if it is equal, since its row is later.
  const TurnedNumbers<T> turned(true);
  std::int64_t last_key = 0;
  Vector<T> last;
  bool is_nan = false;
  const auto keep = [&] {
    const T number = x[rows.row(k - 1)];
    const auto wide = static_cast<Accumulator<T>>(number);
    last_key = sort_key(number, true);
    last = turned(Vector<T>(wide));
    is_nan = wide != wide;
    used = k;
  };
  keep();
  for (std::int64_t i = capacity; i < count; i += lanes<T>) {
    const std::int64_t some = std::min(lanes<T>, count - i);
    if (some == lanes<T> && !is_nan && !xsimd::any(turned(load(x + i)) < last)) continue;
    for (std::int64_t row = i; row < i + some; ++row) {
      const std::int64_t key = sort_key(x[row], true);
      if (key >= last_key) continue;
      rows.set(used++, key, row);
      if (used == capacity) {
        rows.sort_again(used, k);
        keep();
      }
    }
  }
  if (used > k) rows.sort_again(used, k);
  return k;
}

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu
