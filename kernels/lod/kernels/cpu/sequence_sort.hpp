// SPDX-License-Identifier: Apache-2.0
/// @file
/// Sorting the rows of sequences on the CPU.
///
/// Sequences of up to some hundred rows go through a sorting network, many side by side (short_sort.hpp). Where few of
/// them are adjacent, in longer ones, where equal numbers can differ in their bits, and where an index is requested but
/// a key and a row number do not fit 64 bits, each row becomes an entry: an integer key that orders as the numbers do,
/// and the row's position in its sequence. No two entries are equal, so every sorting algorithm gives the same result:
/// few rows are sorted by counting ranks, longer sequences by radix, and those that threads share are merged from
/// sorted parts.
#pragma once

#include <lod/core/version.hpp>
#include <lod/kernels/cpu/large_output.hpp>
#include <lod/kernels/cpu/launch.hpp>
#include <lod/kernels/cpu/parallel.hpp>
#include <lod/kernels/cpu/short_sort.hpp>
#include <lod/kernels/cpu/sort_entry.hpp>
#include <lod/kernels/cpu/vector.hpp>
#include <lod/kernels/partition_point.hpp>
#include <lod/ops/sequence_sort.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <utility>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu {

/// Sorts entries whose rows ascend, using `scratch` of the same size. Returns the one of the two that holds the result.
template <int digit_bits, class Entry>
Entry* radix_sort(Entry* entries, Entry* scratch, std::int64_t count) noexcept {
  constexpr std::size_t digits = std::size_t{1} << digit_bits;
  for (int shift = 0; shift < Entry::key_bits; shift += digit_bits) {
    const auto digit = [shift](const Entry& entry) {
      return static_cast<std::size_t>(entry.unsigned_key() >> shift) & (digits - 1);
    };
    std::array<std::int64_t, digits> places{};
    for (std::int64_t i = 0; i < count; ++i) ++places[digit(entries[i])];
    if (places[digit(entries[0])] == count) continue;  // all digits are the same, as the upper ones of small integers
    std::int64_t before = 0;
    for (std::int64_t& place : places) before += std::exchange(place, before);
    for (std::int64_t i = 0; i < count; ++i) scratch[places[digit(entries[i])]++] = entries[i];
    std::swap(entries, scratch);
  }
  return entries;
}

/// Up to so many entries are sorted quickest by counting how many are less than each: nothing for the branch predictor
/// to guess, and vectors compare several at a time, if they have enough lanes.
inline constexpr auto order_lanes = static_cast<std::int64_t>(xsimd::batch<std::int64_t>::size);
inline constexpr bool counts_by_vectors = order_lanes >= 4;
template <class Entry>
inline constexpr std::int64_t counted_rows = counts_by_vectors
                                                 ? std::min<std::int64_t>(127, (Entry::has_whole_order ? 32 : 16) *
                                                                                   order_lanes)
                                                 : 32;
/// From so many rows on, radix sort is quicker than comparing; from so many on with long digits, in fewer passes.
inline constexpr std::int64_t radix_rows = 128;
inline constexpr std::int64_t long_digit_rows = 8192;

/// count + 1 in the lanes where `condition` holds.
inline xsimd::batch<std::int64_t> count_where(const xsimd::batch<std::int64_t>::batch_bool_type& condition,
                                              const xsimd::batch<std::int64_t>& count) noexcept {
#ifdef __AVX512F__
  return xsimd::select(condition, count + xsimd::batch<std::int64_t>(1), count);
#else  // a lane that is true is -1
  return count - __builtin_bit_cast(xsimd::batch<std::int64_t>, condition);
#endif
}
/// ranks[i] = how many of `count` numbers are less than number i, or equal to it and before it, for the numbers of so
/// many vectors from `first` on. If no two are equal (`distinct`), one comparison is enough.
template <std::size_t vectors, bool distinct>
inline void count_less(const std::int64_t* numbers, std::int64_t count, std::int64_t first,
                       std::int64_t* ranks) noexcept {
  using V = xsimd::batch<std::int64_t>;
  alignas(64) static constexpr std::int64_t places[] = {0, 1, 2, 3, 4, 5, 6, 7};
  V mine[vectors], place[vectors], rank[vectors];
  for (std::size_t v = 0; v < vectors; ++v) {
    const std::int64_t begin = first + static_cast<std::int64_t>(v) * order_lanes;
    mine[v] = V::load_unaligned(numbers + begin);
    place[v] = V::load_aligned(places) + V(begin);
    rank[v] = V(0);
  }
  for (std::int64_t i = 0; i < count; ++i) {
    const V number(numbers[i]);
    for (std::size_t v = 0; v < vectors; ++v) {
      auto before = number < mine[v];
      if constexpr (!distinct) before = before | ((number == mine[v]) & (V(i) < place[v]));
      rank[v] = count_where(before, rank[v]);
    }
  }
  for (std::size_t v = 0; v < vectors; ++v) {
    rank[v].store_unaligned(ranks + first + static_cast<std::int64_t>(v) * order_lanes);
  }
}

/// scratch[rank] = entry, for entries whose rows ascend.
template <class Entry>
void sort_by_ranks(const Entry* entries, Entry* scratch, std::int64_t count) noexcept {
  if constexpr (counts_by_vectors) {
    constexpr std::int64_t lanes = order_lanes, room = counted_rows<Entry> + 4 * lanes;
    constexpr bool distinct = Entry::has_whole_order;
    alignas(64) std::int64_t numbers[static_cast<std::size_t>(room)], ranks[static_cast<std::size_t>(room)];
    for (std::int64_t i = 0; i < count; ++i) numbers[i] = entries[i].order();
    // Few numbers are padded with the greatest possible one, so that the number of steps is fixed.
    constexpr std::int64_t few = 8;
    if (count <= few) {
      std::fill_n(numbers + count, few, std::numeric_limits<std::int64_t>::max());
      count_less<few / lanes, distinct>(numbers, few, 0, ranks);
    } else {
      for (std::int64_t first = 0; first < count; first += 4 * lanes) {
        count_less<4, distinct>(numbers, count, first, ranks);
      }
    }
    for (std::int64_t i = 0; i < count; ++i) scratch[ranks[i]] = entries[i];
  } else {
    for (std::int64_t i = 0; i < count; ++i) {
      std::int64_t rank = 0;
      for (std::int64_t k = 0; k < count; ++k) rank += entries[k] < entries[i];
      scratch[rank] = entries[i];
    }
  }
}

/// Sorts entries whose rows ascend. Returns the array with the result: `entries`, or `scratch` of the same size.
template <class Entry>
Entry* sort_entries(Entry* entries, Entry* scratch, std::int64_t count) noexcept {
  if (count <= counted_rows<Entry>) {
    sort_by_ranks(entries, scratch, count);
    return scratch;
  }
  if (count >= long_digit_rows) return radix_sort<11>(entries, scratch, count);
  if (count >= radix_rows) return radix_sort<8>(entries, scratch, count);
  std::sort(entries, entries + count);
  return entries;
}

/// How many entries of the first of two ascending arrays are among the least `count` of both.
template <class Entry>
std::int64_t merge_split(const Entry* a, std::int64_t a_size, const Entry* b, std::int64_t b_size,
                         std::int64_t count) noexcept {
  return partition_point(std::max<std::int64_t>(count - b_size, 0), std::min(count, a_size),
                         [&](std::int64_t i) { return a[i] < b[count - 1 - i]; });
}

/// As `sort_entries`, but by all threads.
template <class Entry>
Entry* sort_entries(const CpuExecutor& executor, Entry* entries, Entry* scratch, std::int64_t count) {
  const std::int64_t bytes = 2 * count * static_cast<std::int64_t>(sizeof(Entry));
  const auto parts = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(max_threads(executor))));
  std::int64_t width = (count + parts - 1) / parts;
  parallel_for(executor, parts, bytes, [&](std::int64_t part) {
    const std::int64_t begin = std::min(part * width, count), size = std::min(width, count - begin);
    const Entry* const sorted = sort_entries(entries + begin, scratch + begin, size);
    if (sorted != entries + begin) copy(sorted, size, entries + begin);
  });
  for (; width < count; width *= 2) {
    parallel_ranges(executor, count, bytes, [&](std::int64_t begin, std::int64_t end) {
      while (begin < end) {
        const std::int64_t first = begin / (2 * width) * (2 * width);
        const std::int64_t middle = std::min(first + width, count), last = std::min(first + 2 * width, count);
        const std::int64_t stop = std::min(last, end);
        const auto split = [&](std::int64_t place) {
          return merge_split(entries + first, middle - first, entries + middle, last - middle, place - first);
        };
        const std::int64_t from = split(begin), to = split(stop);
        std::merge(entries + first + from, entries + first + to, entries + middle + (begin - first - from),
                   entries + middle + (stop - first - to), scratch + begin);
        begin = stop;
      }
    });
    std::swap(entries, scratch);
  }
  return entries;
}

/// Up to so many entries are all sorted to select from them.
inline constexpr std::int64_t selected_rows = 32;
/// Keeps the least `count` of the entries entry(i) for i in [0, size), in ascending order, at the start of `kept`,
/// which has room for `selection_size(count)`. Returns how many there are.
constexpr std::int64_t selection_size(std::int64_t count) noexcept { return 2 * count + 2 * selected_rows; }
template <class Entry, class EntryOf>
std::int64_t select_entries(const EntryOf& entry, std::int64_t size, std::int64_t count, Entry* kept) noexcept {
  if (count == 0) return 0;
  if (size <= selected_rows) {
    for (std::int64_t i = 0; i < size; ++i) kept[i] = entry(i);
    const Entry* const sorted = sort_entries(kept, kept + size, size);
    const std::int64_t result = std::min(size, count);
    std::copy(sorted, sorted + result, kept);
    return result;
  }
  const std::int64_t capacity = selection_size(count);
  std::int64_t used = 0;
  const auto select = [&] { std::nth_element(kept, kept + count - 1, kept + used); };
  Entry greatest{};  // of the kept ones, once there are enough of them
  bool is_full = false;
  for (std::int64_t i = 0; i < size; ++i) {
    const Entry candidate = entry(i);
    if (is_full && !(candidate < greatest)) continue;
    kept[used++] = candidate;
    if (used == capacity) {
      select();
      used = count;
      greatest = kept[count - 1];
      is_full = true;
    }
  }
  if (used > count) select();
  const std::int64_t result = std::min(used, count);
  std::sort(kept, kept + result);
  return result;
}

/// Writes the rows of sorted entries of a sequence that begins with row `first`. y and index may be null.
template <class Entry, class T>
void write_sorted(const Entry* entries, std::int64_t count, const T* x, std::int64_t first, T* y,
                  std::int64_t* index) noexcept {
  if (y && index) {
    for (std::int64_t i = 0; i < count; ++i) {
      index[i] = first + entries[i].row();
      y[i] = x[index[i]];
    }
  } else if (y) {
    for (std::int64_t i = 0; i < count; ++i) y[i] = x[first + entries[i].row()];
  } else if (index) {
    for (std::int64_t i = 0; i < count; ++i) index[i] = first + entries[i].row();
  }
}

template <>
struct Kernel<SequenceSort> {
  template <class T>
  static void run(const CpuExecutor& executor, const T* x, const Segments& sequences, bool descending, T* y,
                  std::int64_t* index) {
    cpu::with_entries<T>(sequences, [&]<class Entry>(std::type_identity<Entry>) {
      sort<Entry>(executor, x, sequences, descending, y, index);
    });
  }

 private:
  template <class Entry, class T>
  static void sort(const CpuExecutor& executor, const T* x, const Segments& sequences, bool descending, T* y,
                   std::int64_t* index) {
    const auto row_bytes = static_cast<std::int64_t>(8 * sizeof(Entry));  // read and written several times
    // If a tile cannot be sorted as one, its sequences are left to one thread, however short a piece of work is.
    const std::int64_t step = std::min(
        sequences.max_rows, std::max(cpu::tile_rows, cpu::longest_alone(executor, sequences, row_bytes, grain)));
    const cpu::ThreadScratch<Entry> scratch(executor, 2 * step);
    cpu::LongSequences long_ones(executor, sequences, step);
    const Workspace::Loan<Entry> memory(executor.workspace(), 2 * long_ones.longest());
    const cpu::LargeOutput output(sequences.rows() * static_cast<std::int64_t>(index ? sizeof(*index) : sizeof(T)));
    cpu::parallel_sequences(executor, sequences, row_bytes, [&](std::int64_t begin, std::int64_t end, int thread) {
      Entry* const entries = scratch(thread);
      const auto sort_one = [=](std::int64_t i, T* to, std::int64_t* places) {
        const std::int64_t first = sequences.begin(i), rows = sequences.length(i);
        for (std::int64_t row = 0; row < rows; ++row) {
          entries[row] = Entry(cpu::sort_key(x[first + row], descending), row);
        }
        cpu::write_sorted(cpu::sort_entries(entries, entries + step, rows), rows, x, first, to, places);
      };
      for (std::int64_t i = begin; i < end; ++i) {
        if (sequences.length(i) <= cpu::tile_rows) {
          if constexpr (cpu::sorts_tiles<T>) {
            if (!index) {
              const auto to_y = [&](std::int64_t one, T* to) { sort_one(one, to, nullptr); };
              i = cpu::sort_tiles(x, sequences, i, end, descending, output, y, to_y);
            }
          }
          if constexpr (cpu::has_narrow_key<T>) {
            const std::int64_t first = sequences.begin(i);
            if (index || !cpu::sorts_tiles<T>) {
              i = cpu::sort_tiles_of_entries<cpu::tile_rows>(x, sequences, i, end, descending, cpu::tile_rows, output,
                                                             y ? y + first : nullptr, index ? index + first : nullptr);
            }
          }
          if (i == end) break;
        }
        if (long_ones.note(i, sequences.length(i))) continue;
        sort_one(i, y ? y + sequences.begin(i) : nullptr, index ? index + sequences.begin(i) : nullptr);
      }
    });
    long_ones.for_each([&](std::int64_t i) {
      const std::int64_t first = sequences.begin(i), rows = sequences.length(i);
      Entry* const entries = memory.data();
      cpu::parallel_ranges(executor, rows, rows * row_bytes, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin; row < end; ++row) {
          entries[row] = Entry(cpu::sort_key(x[first + row], descending), row);
        }
      });
      const Entry* const sorted = cpu::sort_entries(executor, entries, entries + rows, rows);
      cpu::parallel_ranges(executor, rows, rows * row_bytes, [&](std::int64_t begin, std::int64_t end) {
        cpu::write_sorted(sorted + begin, end - begin, x, first, y ? y + first + begin : nullptr,
                          index ? index + first + begin : nullptr);
      });
    });
  }
};

template <>
struct Kernel<SequenceTopK> {
  template <class T>
  static void run(const CpuExecutor& executor, const T* x, const Segments& sequences, const Segments& parts, T* y,
                  std::int64_t* index) {
    cpu::with_entries<T>(sequences, [&]<class Entry>(std::type_identity<Entry>) {
      select<Entry>(executor, x, sequences, parts, y, index);
    });
  }

 private:
  template <class Entry, class T>
  static void select(const CpuExecutor& executor, const T* x, const Segments& sequences, const Segments& parts, T* y,
                     std::int64_t* index) {
    constexpr std::int64_t chunk = grain;
    const auto row_bytes = static_cast<std::int64_t>(sizeof(T));
    cpu::LongSequences long_ones(executor, sequences, cpu::longest_alone(executor, sequences, row_bytes, chunk));
    const cpu::ThreadScratch<Entry> scratch(executor, cpu::selection_size(parts.max_rows));
    const std::int64_t most_chunks = (long_ones.longest() + chunk - 1) / chunk;
    const Workspace::Loan<Entry> best(executor.workspace(), most_chunks * std::min(parts.max_rows, chunk / 8));
    const Workspace::Loan<std::int64_t> counts(executor.workspace(), most_chunks);
    const auto entry_of = [x](std::int64_t first, std::int64_t row) {
      return Entry(cpu::sort_key(x[first + row], true), row);
    };
    const cpu::LargeOutput output(parts.rows() * static_cast<std::int64_t>(sizeof(*index)));
    cpu::parallel_sequences(executor, sequences, row_bytes, [&](std::int64_t begin, std::int64_t end, int thread) {
      for (std::int64_t i = begin; i < end; ++i) {
        if constexpr (cpu::has_narrow_key<T>) {
          if (sequences.length(i) <= cpu::tile_rows) {
            const std::int64_t k = parts.max_rows, at = parts.begin(i);
            // The first few take less work.
            i = k <= 8 ? cpu::sort_tiles_of_entries<8>(x, sequences, i, end, true, k, output, y + at, index + at)
                       : cpu::sort_tiles_of_entries<cpu::tile_rows>(x, sequences, i, end, true, k, output, y + at,
                                                                    index + at);
            if (i == end) break;
          }
        }
        if (parts.length(i) <= chunk / 8 && long_ones.note(i, sequences.length(i))) continue;
        const std::int64_t first = sequences.begin(i), at = parts.begin(i);
        const std::int64_t count = cpu::select_entries([&](std::int64_t row) { return entry_of(first, row); },
                                                       sequences.length(i), parts.length(i), scratch(thread));
        cpu::write_sorted(scratch(thread), count, x, first, y + at, index + at);
      }
    });
    long_ones.for_each([&](std::int64_t i) {
      // The greatest of each chunk, then the greatest of those.
      const std::int64_t first = sequences.begin(i), rows = sequences.length(i), k = parts.length(i),
                         at = parts.begin(i);
      const std::int64_t chunks = (rows + chunk - 1) / chunk;
      cpu::parallel_for(executor, chunks, rows * row_bytes, [&](std::int64_t part, int thread) {
        const std::int64_t begin = part * chunk;
        counts[part] = cpu::select_entries([&](std::int64_t row) { return entry_of(first, begin + row); },
                                           std::min(chunk, rows - begin), k, scratch(thread));
        cpu::copy(scratch(thread), counts[part], best.data() + part * k);
      });
      std::int64_t candidates = 0;
      for (std::int64_t part = 0; part < chunks; ++part) {
        for (std::int64_t n = 0; n < counts[part]; ++n) best[candidates++] = best[part * k + n];
      }
      const std::int64_t count =
          cpu::select_entries([&](std::int64_t n) { return best[n]; }, candidates, k, scratch(0));
      cpu::write_sorted(scratch(0), count, x, first, y + at, index + at);
    });
  }
};

template <>
struct Kernel<SequenceSortGrad> {
  template <class T>
  static void run(const CpuExecutor& executor, const T* dy, const std::int64_t* index, const Segments& parts,
                  const Segments& sequences, T* dx) {
    const auto row_bytes = static_cast<std::int64_t>(2 * sizeof(T) + sizeof(std::int64_t));
    cpu::parallel_sequences(executor, sequences, row_bytes, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        cpu::fill(dx + sequences.begin(i), sequences.length(i), T{});
        for (std::int64_t k = parts.begin(i); k < parts.begin(i + 1); ++k) dx[index[k]] = dy[k];
      }
    });
  }
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu
