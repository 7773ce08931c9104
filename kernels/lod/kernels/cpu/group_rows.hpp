// SPDX-License-Identifier: Apache-2.0
/// @file
/// Sorts ids into groups of equal ones on the CPU: a stable radix sort, least significant digit first, by all threads.
/// The result depends only on the ids, not on the number of threads.
#pragma once

#include <lod/core/executor.hpp>
#include <lod/core/target.hpp>
#include <lod/kernels/cpu/launch.hpp>
#include <lod/kernels/cpu/parallel.hpp>
#include <lod/ops/merge_rows.hpp>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>
#include <utility>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu {

/// An id and its position in one number: half the memory to go through in each pass.
struct PackedEntries {
  using Entry = std::uint64_t;
  int position_bits;

  Entry entry(std::int64_t id, std::int64_t position) const noexcept {
    return static_cast<Entry>(id) << position_bits | static_cast<Entry>(position);
  }
  std::int64_t id(Entry entry) const noexcept { return static_cast<std::int64_t>(entry >> position_bits); }
  std::int64_t position(Entry entry) const noexcept {
    return static_cast<std::int64_t>(entry & ((Entry{1} << position_bits) - 1));
  }
};

/// The two as separate numbers, where one number cannot hold both.
struct WideEntries {
  struct Entry {
    std::int64_t id;
    std::int64_t position;
  };

  Entry entry(std::int64_t id, std::int64_t position) const noexcept { return {id, position}; }
  std::int64_t id(const Entry& entry) const noexcept { return entry.id; }
  std::int64_t position(const Entry& entry) const noexcept { return entry.position; }
};

/// The bits that occur in any id, and those by which ids must be sorted: where they differ, or none if they ascend, or
/// if each is less than the one before it, so that they are `reversed`.
struct IdBits {
  std::uint64_t used = 0;
  std::uint64_t unsorted = 0;
  bool reversed = false;
};
inline IdBits bits_of(const CpuExecutor& executor, const std::int64_t* ids, std::int64_t count) {
  std::atomic<std::uint64_t> used = 0, differing = 0, descents = 0, others = 0;
  const std::int64_t bytes = count * static_cast<std::int64_t>(sizeof(std::int64_t));
  parallel_ranges(executor, count, bytes, [&](std::int64_t begin, std::int64_t end) {
    const std::int64_t first = ids[0];
    std::int64_t any = 0, other = 0, down = 0, not_down = 0;
    for (std::int64_t i = begin; i < end; ++i) {
      // Cannot overflow, since ids are not negative: its sign says whether they descend.
      const std::int64_t step = ids[i] - ids[std::max<std::int64_t>(i - 1, 0)];
      any |= ids[i];
      other |= ids[i] ^ first;
      down |= step;
      not_down |= i == 0 ? 0 : ~step;
    }
    used.fetch_or(static_cast<std::uint64_t>(any), std::memory_order_relaxed);
    differing.fetch_or(static_cast<std::uint64_t>(other), std::memory_order_relaxed);
    descents.fetch_or(static_cast<std::uint64_t>(down) >> 63, std::memory_order_relaxed);
    others.fetch_or(static_cast<std::uint64_t>(not_down) >> 63, std::memory_order_relaxed);
  });
  const bool ascend = descents.load(std::memory_order_relaxed) == 0;
  const bool reversed = !ascend && others.load(std::memory_order_relaxed) == 0;
  return {used.load(std::memory_order_relaxed), ascend || reversed ? 0 : differing.load(std::memory_order_relaxed),
          reversed};
}

/// Sorts a list of ids. Each thread takes a part of the list and counts the digits in it; the counts of all parts say
/// where the entries of a part go.
template <class Entries>
class RowSort {
  using Entry = typename Entries::Entry;

 public:
  RowSort(const CpuExecutor& executor, const Entries& entries, std::int64_t count)
      : executor_(executor),
        entries_(entries),
        count_(count),
        bytes_(2 * count * static_cast<std::int64_t>(sizeof(Entry))),
        // One part for each thread: entries of neighbouring parts go to the same cache lines, for which threads would
        // compete. Two threads take two thirds of the time that they take with eight parts each.
        parts_(std::min({pieces(executor, bytes_), count, std::int64_t{executor.threads()}})),
        // No more counters than entries: short lists have short digits.
        most_digit_bits_(std::clamp(static_cast<int>(std::bit_width(static_cast<std::uint64_t>(count))), 4, 11)),
        first_(executor.workspace(), count),
        second_(executor.workspace(), count),
        places_(executor.workspace(), parts_ << most_digit_bits_) {}

  /// See GroupRows. `id_bits` are those of the ids.
  std::int64_t group(const std::int64_t* ids, const IdBits& id_bits, std::int64_t* order, std::int64_t* unique,
                     std::int64_t* groups) {
    const Entries entries = entries_;
    const auto listed = [=](std::int64_t i) { return entries.entry(ids[i], i); };
    if (id_bits.reversed) {
      const auto from_the_end = [listed, last = count_ - 1](std::int64_t i) { return listed(last - i); };
      return write_groups(from_the_end, order, unique, groups);
    }
    const std::uint64_t unsorted = id_bits.unsorted;
    if (unsorted == 0) return write_groups(listed, order, unique, groups);
    // Digits of equal width: two of 11 bits and one of 1 would take as long as three of 8, apart from their counts.
    const int lowest = std::countr_zero(unsorted), bits = static_cast<int>(std::bit_width(unsorted)) - lowest;
    const int passes = (bits + most_digit_bits_ - 1) / most_digit_bits_;
    const int digit_bits = (bits + passes - 1) / passes;
    const std::uint64_t digits = (std::uint64_t{1} << digit_bits) - 1;
    Entry* from = nullptr;
    Entry* to = first_.data();
    for (int pass = 0; pass < passes; ++pass) {
      const int shift = lowest + pass * digit_bits;
      if ((unsorted >> shift & digits) == 0) continue;
      const auto digit = [=](const Entry& entry) {
        return static_cast<std::int64_t>(static_cast<std::uint64_t>(entries.id(entry)) >> shift & digits);
      };
      if (from == nullptr) {
        sort_by(digit, digit_bits, listed, to);
        from = second_.data();
      } else {
        sort_by(digit, digit_bits, at(from), to);
      }
      std::swap(from, to);
    }
    return write_groups(at(from), order, unique, groups);
  }

 private:
  static auto at(const Entry* entries) noexcept {
    return [entries](std::int64_t i) { return entries[i]; };
  }
  std::int64_t cut(std::int64_t part) const noexcept {
    return count_ / parts_ * part + std::min(part, count_ % parts_);
  }

  /// One pass: the entries from(i) by one digit.
  template <class Digit, class From>
  void sort_by(const Digit& digit, int digit_bits, const From& from, Entry* to) {
    const std::int64_t digits = std::int64_t{1} << digit_bits;
    parallel_for(executor_, parts_, bytes_, [&](std::int64_t part) {
      std::int64_t* const places = places_.data() + part * digits;
      std::fill_n(places, digits, 0);
      const From entry = from;
      const Digit digit_of = digit;
      for (std::int64_t i = cut(part), end = cut(part + 1); i < end; ++i) ++places[digit_of(entry(i))];
    });
    std::int64_t before = 0;
    for (std::int64_t d = 0; d < digits; ++d) {
      for (std::int64_t part = 0; part < parts_; ++part) before += std::exchange(places_[part * digits + d], before);
    }
    parallel_for(executor_, parts_, bytes_, [&](std::int64_t part) {
      std::int64_t* const places = places_.data() + part * digits;
      Entry* const sorted = to;
      const From entry = from;
      const Digit digit_of = digit;
      for (std::int64_t i = cut(part), end = cut(part + 1); i < end; ++i) {
        const Entry moved = entry(i);
        sorted[places[digit_of(moved)]++] = moved;
      }
    });
  }

  /// The groups of the sorted entries from(i).
  template <class From>
  std::int64_t write_groups(const From& from, std::int64_t* order, std::int64_t* unique, std::int64_t* groups) {
    std::int64_t* const before = places_.data();  // for each part, the groups that begin in the parts before it
    const Entries entries = entries_;
    const auto begins = [=](std::int64_t i) { return i == 0 || entries.id(from(i)) != entries.id(from(i - 1)); };
    if (parts_ > 1) {
      parallel_for(executor_, parts_, bytes_, [&](std::int64_t part) {
        std::int64_t begun = 0;
        for (std::int64_t i = cut(part), end = cut(part + 1); i < end; ++i) begun += begins(i) ? 1 : 0;
        before[part] = begun;
      });
    }
    std::int64_t size = 0;
    for (std::int64_t part = 0; part < parts_; ++part) size += std::exchange(before[part], size);
    parallel_for(executor_, parts_, bytes_, [&](std::int64_t part) {
      const From entry = from;
      const std::int64_t end = cut(part + 1);
      std::int64_t group = before[part] - 1, i = cut(part);
      // Entries of a group that began in an earlier part.
      for (; i < end && !begins(i); ++i) order[i] = entries.position(entry(i));
      // Written again for each member of a group: where groups begin is random, so no branch may depend on it.
      std::int64_t start = i, last = -1;
      for (; i < end; ++i) {
        const Entry here = entry(i);
        const std::int64_t id = entries.id(here), begun = id != last ? -1 : 0;
        last = id;
        group -= begun;
        start += (i - start) & begun;
        order[i] = entries.position(here);
        unique[group] = id;
        groups[group] = start;
      }
      if (part == parts_ - 1) size = group + 1;
    });
    groups[size] = count_;
    return size;
  }

  const CpuExecutor& executor_;
  Entries entries_;
  std::int64_t count_;
  std::int64_t bytes_;  // that a pass processes
  std::int64_t parts_;
  int most_digit_bits_;
  Workspace::Loan<Entry> first_, second_;
  Workspace::Loan<std::int64_t> places_;  // for each part and digit, where its next entry goes
};

template <>
struct Kernel<GroupRows> {
  static std::int64_t run(const CpuExecutor& executor, const std::int64_t* ids, std::int64_t count, std::int64_t,
                          std::int64_t* order, std::int64_t* unique, std::int64_t* groups) {
    groups[0] = 0;
    if (count == 0) return 0;
    const cpu::IdBits bits = cpu::bits_of(executor, ids, count);
    const auto position_bits = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(count - 1)));
    if (static_cast<int>(std::bit_width(bits.used)) + position_bits <= 64) {
      return cpu::RowSort(executor, cpu::PackedEntries{position_bits}, count).group(ids, bits, order, unique, groups);
    }
    return cpu::RowSort(executor, cpu::WideEntries{}, count).group(ids, bits, order, unique, groups);
  }
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu
