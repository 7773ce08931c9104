// SPDX-License-Identifier: Apache-2.0
/// @file
/// The different sequences of a batch over Thrust: a number for each, made of its bits, and a sort of the numbers.
#pragma once

#include <lod/kernels/thrust/bulk.hpp>
#include <lod/kernels/thrust/row_sum.hpp>
#include <lod/ops/unique_sequences.hpp>
#include <lod/staging.hpp>
#include <lod/thrust_executor.hpp>

#include <cstdint>
#include <cstring>

namespace lod::inline LOD_TARGET {
namespace kernel {

namespace bulk {

/// A number made of two: different ones for different pairs, but for accidents. The last steps are those of SplitMix64.
LOD_HOST_DEVICE inline std::uint64_t mixed(std::uint64_t known, std::uint64_t word) noexcept {
  std::uint64_t number = (known ^ word) + 0x9e3779b97f4a7c15;
  number = (number ^ (number >> 30)) * 0xbf58476d1ce4e5b9;
  number = (number ^ (number >> 27)) * 0x94d049bb133111eb;
  return number ^ (number >> 31);
}

/// Eight of `count` bytes, from `at` on; zeros behind the last.
LOD_HOST_DEVICE inline std::uint64_t word_of(const unsigned char* bytes, std::int64_t at, std::int64_t count) noexcept {
  std::uint64_t word = 0;
  if (at + 8 <= count) {
    std::memcpy(&word, bytes + at, 8);
  } else {
    for (std::int64_t i = 0; at + i < count; ++i) word |= static_cast<std::uint64_t>(bytes[at + i]) << (8 * i);
  }
  return word;
}

LOD_HOST_DEVICE inline std::uint64_t number_of(const unsigned char* bytes, std::int64_t count) noexcept {
  std::uint64_t number = 0;
  for (std::int64_t at = 0; at < count; at += 8) number = mixed(number, word_of(bytes, at, count));
  return number;
}

LOD_HOST_DEVICE inline bool same_bytes(const unsigned char* a, const unsigned char* b, std::int64_t count) noexcept {
  for (std::int64_t at = 0; at < count; at += 8) {
    if (word_of(a, at, count) != word_of(b, at, count)) return false;
  }
  return true;
}

struct UniqueSequences {
  template <class E, class T, class SameLevels>
  static std::int64_t run(const E& executor, const T* x, const Segments& sequences, const std::int64_t* children,
                          std::int64_t row_size, const SameLevels& same_levels, std::int64_t* first,
                          std::int64_t* index) {
    const std::int64_t size = sequences.size, row_bytes = row_size * static_cast<std::int64_t>(sizeof(T));
    const Scratch<E, std::int64_t> twins(executor, size), next(executor, size);
    find_twins(executor, reinterpret_cast<const unsigned char*>(x), sequences, children, row_bytes, twins.data(),
               next.data());
    // Levels are compared here, as the host alone can do. Of those with the same rows but different levels, each leads
    // to the next.
    std::int64_t different = 0;
    for (std::int64_t i = 0; i < size; ++i) {
      next[i] = -1;
      std::int64_t other = twins[i];
      while (other != i && !same_levels(other, i)) {
        if (next[other] < 0) next[other] = i;
        other = next[other];
      }
      if (other == i) {
        first[different] = i;
        index[i] = different++;
      } else {
        index[i] = index[other];
      }
    }
    return different;
  }

  /// twins[i] = the first sequence that has the rows of sequence i and as many children. `left` is scratch for a number
  /// for each sequence. A function of its own: nvcc allows no bodies in one whose template arguments are lambdas of a
  /// caller.
  template <class E>
  static void find_twins(const E& executor, const unsigned char* bytes, const Segments& sequences,
                         const std::int64_t* children, std::int64_t row_bytes, std::int64_t* twins,
                         std::int64_t* left) {
    const std::int64_t size = sequences.size, rows = sequences.rows();
    const Scratch<E, std::uint64_t> number_loan(executor, size), key_loan(executor, size);
    const Scratch<E, bool> unlike_loan(executor, size);
    std::uint64_t* const numbers = number_loan.data();
    std::uint64_t* const keys = key_loan.data();
    bool* const unlike = unlike_loan.data();

    // The sum of a number for each row, which knows its place: rows may be added in any order.
    sum_sequences<std::int64_t>(
        executor, sequences, rows, 1,
        [=] LOD_HOST_DEVICE(std::int64_t i, std::int64_t row, std::int64_t) {
          const std::uint64_t number = number_of(bytes + (sequences.begin(i) + row) * row_bytes, row_bytes);
          return static_cast<std::int64_t>(mixed(number, static_cast<std::uint64_t>(row)));
        },
        [=] LOD_HOST_DEVICE(std::int64_t i, std::int64_t, std::int64_t sum) {
          const auto length = static_cast<std::uint64_t>(sequences.length(i));
          const auto held = static_cast<std::uint64_t>(children[i + 1] - children[i]);
          numbers[i] = mixed(mixed(static_cast<std::uint64_t>(sum), length), held);
          left[i] = i;
        });
    // Once, but for accidents: then those that are unlike the first of their number are compared among themselves.
    // `left` has the sequences whose twin is not known, in order.
    for (std::int64_t count = size; count > 0;) {
      for_each(executor, count, [=] LOD_HOST_DEVICE(std::int64_t k) { keys[k] = numbers[left[k]]; });
      System<E>(executor).sort_by_key(keys, count, left);
      for_each(executor, count, [=] LOD_HOST_DEVICE(std::int64_t k) {
        std::int64_t low = 0, high = k;  // the first with this number
        while (low < high) {
          const std::int64_t middle = low + (high - low) / 2;
          if (keys[middle] < keys[k]) {
            low = middle + 1;
          } else {
            high = middle;
          }
        }
        twins[left[k]] = left[low];
      });
      sum_sequences<std::int64_t>(
          executor, sequences, rows, 1,
          [=] LOD_HOST_DEVICE(std::int64_t i, std::int64_t row, std::int64_t) -> std::int64_t {
            const std::int64_t twin = twins[i];
            if (twin == i || sequences.length(twin) != sequences.length(i)) return 0;
            return same_bytes(bytes + (sequences.begin(i) + row) * row_bytes,
                              bytes + (sequences.begin(twin) + row) * row_bytes, row_bytes)
                       ? 0
                       : 1;
          },
          [=] LOD_HOST_DEVICE(std::int64_t i, std::int64_t, std::int64_t differences) {
            unlike[i] = differences > 0 || sequences.length(twins[i]) != sequences.length(i);
          });
      count = System<E>(executor).positions(unlike, size, left);
    }
  }
};

}  // namespace bulk

template <class Policy>
struct UniqueSequences<ThrustExecutor<Policy>> : bulk::UniqueSequences {};

}  // namespace kernel
}  // namespace lod::inline LOD_TARGET
