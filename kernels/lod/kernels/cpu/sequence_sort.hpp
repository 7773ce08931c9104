// SPDX-License-Identifier: Apache-2.0
/// @file
/// Sorting the rows of sequences on the CPU.
///
/// Sequences of up to some hundred rows go through a sorting network, many side by side (short_sort.hpp), where lengths
/// differ each with others of about its own (tile_order.hpp). Longer ones, and those with few similar ones near them,
/// are sorted alone, also by vectors (row_order.hpp). If keys and row numbers do not fit these, each row becomes an
/// entry: an integer key that orders as the numbers do, and the row's position in its sequence. No two entries are
/// equal, so every sorting algorithm gives the same result: they are sorted by radix, and those that threads share are
/// merged from sorted parts.
#pragma once

#include <lod/core/version.hpp>
#include <lod/kernels/cpu/large_output.hpp>
#include <lod/kernels/cpu/launch.hpp>
#include <lod/kernels/cpu/parallel.hpp>
#include <lod/kernels/cpu/row_order.hpp>
#include <lod/kernels/cpu/short_row_sort.hpp>
#include <lod/kernels/cpu/short_sort.hpp>
#include <lod/kernels/cpu/sort_entry.hpp>
#include <lod/kernels/cpu/vector.hpp>
#include <lod/kernels/partition_point.hpp>
#include <lod/ops/sequence_sort.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu {

/// From this size on, entries with keys of 32 bits are sorted faster by radix than by vectors.
inline constexpr std::int64_t radix_rows = 16384;

/// Sorts entries whose rows ascend, using `scratch` of the same size. Returns the one of the two that holds the result.
template <class Entry>
Entry* radix_sort(Entry* entries, Entry* scratch, std::int64_t count) noexcept {
  if (count == 0) return entries;
  constexpr int digit_bits = 11;
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

/// How many entries of the first of two ascending arrays are among the least `count` of both.
template <class Entry>
std::int64_t merge_split(const Entry* a, std::int64_t a_size, const Entry* b, std::int64_t b_size,
                         std::int64_t count) noexcept {
  return partition_point(std::max<std::int64_t>(count - b_size, 0), std::min(count, a_size),
                         [&](std::int64_t i) { return a[i] < b[count - 1 - i]; });
}

/// As `radix_sort`, but by all threads.
template <class Entry>
Entry* radix_sort(const CpuExecutor& executor, Entry* entries, Entry* scratch, std::int64_t count) {
  const std::int64_t bytes = 2 * count * static_cast<std::int64_t>(sizeof(Entry));
  const auto parts = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(max_threads(executor))));
  std::int64_t width = (count + parts - 1) / parts;
  parallel_for(executor, parts, bytes, [&](std::int64_t part) {
    const std::int64_t begin = std::min(part * width, count), size = std::min(width, count - begin);
    const Entry* const sorted = radix_sort(entries + begin, scratch + begin, size);
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
    using Rows = std::conditional_t<has_narrow_key<T>, cpu::NarrowRows<double>, cpu::WideRows<double>>;
    // The most rows that vectors put in order.
    constexpr std::int64_t most = has_narrow_key<T> ? cpu::radix_rows : Rows::most;
    const auto row_bytes = static_cast<std::int64_t>(8 * sizeof(Entry));  // read and written several times
    const bool sorts_numbers = cpu::sorts_tiles<T> && !index;
    const std::int64_t step = std::min(sequences.max_rows, cpu::longest_alone(executor, sequences, row_bytes, grain));
    constexpr auto entry_words = static_cast<std::int64_t>(sizeof(Entry) / 8);
    const cpu::ThreadScratch<std::int64_t> scratch(
        executor, sorts_numbers ? cpu::sort_numbers_words<T>(step)
                                : std::max(Rows::words(std::min(step, most)),
                                           step > most ? lod::detail::saturated_product(2 * entry_words, step) : 0));
    cpu::LongSequences long_ones(executor, sequences, step);
    const Workspace::Loan<Entry> memory(executor.workspace(), 2 * long_ones.longest());
    const cpu::LargeOutput output(sequences.rows() * static_cast<std::int64_t>(index ? sizeof(*index) : sizeof(T)));
    const auto sort_one = [&](std::int64_t i, std::int64_t* words) {
      const std::int64_t first = sequences.begin(i), rows = sequences.length(i);
      T* const to = y ? y + first : nullptr;
      std::int64_t* const places = index ? index + first : nullptr;
      if constexpr (cpu::sorts_tiles<T>) {
        if (!index) return cpu::sort_numbers(x + first, rows, descending, words, to);
      }
      if (rows <= most) {
        const Rows order(words, rows);
        order.sort_all(x + first, rows, descending, 0);
        cpu::write_rows([&](std::int64_t k) { return order.row(k); }, rows, x, first, to, places);
      } else {
        auto* const entries = reinterpret_cast<Entry*>(words);
        for (std::int64_t row = 0; row < rows; ++row) {
          entries[row] = Entry(sort_key(x[first + row], descending), row);
        }
        const Entry* const sorted = cpu::radix_sort(entries, entries + rows, rows);
        cpu::write_rows([&](std::int64_t k) { return sorted[k].row(); }, rows, x, first, to, places);
      }
    };
    cpu::parallel_sequences(executor, sequences, row_bytes, [&](std::int64_t begin, std::int64_t end, int thread) {
      const auto one = [&](std::int64_t i) {
        if (!long_ones.note(i, sequences.length(i))) sort_one(i, scratch(thread));
      };
      if constexpr (cpu::sorts_tiles<T>) {
        if (!index) return cpu::sort_short(x, sequences, begin, end, descending, output, y, one);
      }
      cpu::sort_short_rows<cpu::tile_rows>(x, sequences, begin, end, descending, cpu::tile_rows, output, sequences, y,
                                           index, one);
    });
    long_ones.for_each([&](std::int64_t i) {
      const std::int64_t first = sequences.begin(i), rows = sequences.length(i);
      Entry* const entries = memory.data();
      cpu::parallel_ranges(executor, rows, rows * row_bytes, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin; row < end; ++row) {
          entries[row] = Entry(sort_key(x[first + row], descending), row);
        }
      });
      const Entry* const sorted = cpu::radix_sort(executor, entries, entries + rows, rows);
      cpu::parallel_ranges(executor, rows, rows * row_bytes, [&](std::int64_t begin, std::int64_t end) {
        cpu::write_rows([&](std::int64_t k) { return sorted[begin + k].row(); }, end - begin, x, first,
                        y ? y + first + begin : nullptr, index ? index + first + begin : nullptr);
      });
    });
  }
};

template <>
struct Kernel<SequenceTopK> {
  template <class T>
  static void run(const CpuExecutor& executor, const T* x, const Segments& sequences, const Segments& parts, T* y,
                  std::int64_t* index) {
    cpu::with_rows<T>(sequences, [&]<class Rows>(std::type_identity<Rows>) {
      select<Rows>(executor, x, sequences, parts, y, index);
    });
  }

 private:
  template <class Rows, class T>
  static void select(const CpuExecutor& executor, const T* x, const Segments& sequences, const Segments& parts, T* y,
                     std::int64_t* index) {
    constexpr std::int64_t chunk = grain;
    const auto row_bytes = static_cast<std::int64_t>(sizeof(T));
    cpu::LongSequences long_ones(executor, sequences, cpu::longest_alone(executor, sequences, row_bytes, chunk));
    const std::int64_t room = std::min(cpu::selection_rows(parts.max_rows), sequences.max_rows);
    const cpu::ThreadScratch<std::int64_t> scratch(executor, Rows::words(room));
    const std::int64_t most_chunks = (long_ones.longest() + chunk - 1) / chunk;
    const std::int64_t most_candidates = most_chunks * std::min(parts.max_rows, chunk / 8);
    const Workspace::Loan<std::int64_t> best(executor.workspace(), most_candidates);
    const Workspace::Loan<T> numbers(executor.workspace(), most_candidates);
    const Workspace::Loan<std::int64_t> counts(executor.workspace(), most_chunks);
    const cpu::LargeOutput output(parts.rows() * static_cast<std::int64_t>(sizeof(*index)));
    cpu::parallel_sequences(executor, sequences, row_bytes, [&](std::int64_t begin, std::int64_t end, int thread) {
      const Rows order(scratch(thread), room);
      const std::int64_t k = parts.max_rows;
      const auto one = [&](std::int64_t i) {
        if (parts.length(i) <= chunk / 8 && long_ones.note(i, sequences.length(i))) return;
        const std::int64_t first = sequences.begin(i), at = parts.begin(i);
        const std::int64_t count = cpu::select_rows(x + first, sequences.length(i), parts.length(i), order);
        cpu::write_rows([&](std::int64_t n) { return order.row(n); }, count, x, first, y + at, index + at);
      };
      const auto sort = [&]<std::size_t kept>() {
        cpu::sort_short_rows<kept>(x, sequences, begin, end, true, k, output, parts, y, index, one);
      };
      if (k <= 8) {  // the first few take less work
        sort.template operator()<8>();
      } else {
        sort.template operator()<cpu::tile_rows>();
      }
    });
    long_ones.for_each([&](std::int64_t i) {
      // The greatest of each chunk, then the greatest of those.
      const std::int64_t first = sequences.begin(i), rows = sequences.length(i), k = parts.length(i),
                         at = parts.begin(i);
      const std::int64_t chunks = (rows + chunk - 1) / chunk;
      cpu::parallel_for(executor, chunks, rows * row_bytes, [&](std::int64_t part, int thread) {
        const Rows order(scratch(thread), room);
        const std::int64_t begin = part * chunk;
        counts[part] = cpu::select_rows(x + first + begin, std::min(chunk, rows - begin), k, order);
        for (std::int64_t n = 0; n < counts[part]; ++n) best[part * k + n] = begin + order.row(n);
      });
      std::int64_t candidates = 0;
      for (std::int64_t part = 0; part < chunks; ++part) {
        for (std::int64_t n = 0; n < counts[part]; ++n) {
          best[candidates] = best[part * k + n];
          numbers[candidates] = x[first + best[candidates]];
          ++candidates;
        }
      }
      // Of equal numbers the rows ascend, from candidate to candidate.
      const Rows order(scratch(0), room);
      const std::int64_t count = cpu::select_rows(numbers.data(), candidates, k, order);
      cpu::write_rows([&](std::int64_t n) { return best[order.row(n)]; }, count, x, first, y + at, index + at);
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
