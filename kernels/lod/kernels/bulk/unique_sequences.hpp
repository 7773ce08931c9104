// SPDX-License-Identifier: Apache-2.0
/// @file
/// The distinct sequences of a batch in bulk: a hash of each one's bits, and a sort of the hashes.
#pragma once

#include <lod/core/keyed_hash.hpp>
#include <lod/core/version.hpp>
#include <lod/kernels/bulk/bulk.hpp>
#include <lod/kernels/bulk/row_sum.hpp>
#include <lod/kernels/partition_point.hpp>
#include <lod/ops/staging.hpp>
#include <lod/ops/unique_sequences.hpp>

#include <cstdint>
#include <cstring>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk {

/// Eight bytes of `count`, from `at` on, with zeros after the last.
LOD_HOST_DEVICE inline std::uint64_t word_of(const unsigned char* bytes, std::int64_t at, std::int64_t count) noexcept {
  std::uint64_t word = 0;
  if (at + 8 <= count) {
    std::memcpy(&word, bytes + at, 8);
  } else {
    for (std::int64_t i = 0; at + i < count; ++i) word |= static_cast<std::uint64_t>(bytes[at + i]) << (8 * i);
  }
  return word;
}

LOD_HOST_DEVICE inline bool same_bytes(const unsigned char* a, const unsigned char* b, std::int64_t count) noexcept {
  for (std::int64_t at = 0; at < count; at += 8) {
    if (word_of(a, at, count) != word_of(b, at, count)) return false;
  }
  return true;
}

template <>
struct Kernel<NumberSequences> {
  template <class E, class T>
  static void run(const E& executor, const T* x, const Segments& sequences, const std::int64_t* splits,
                  std::uint64_t start, std::uint64_t factor, std::int64_t row_size, std::int64_t* numbers,
                  std::int64_t* left) {
    const auto* const bytes = reinterpret_cast<const unsigned char*>(x);
    const std::int64_t row_bytes = lod::detail::bytes_of<T>(row_size);
    const detail::HashKey key{start, factor};
    const auto finish = [=] LOD_HOST_DEVICE(std::int64_t i, std::int64_t, std::int64_t sum) {
      const std::uint64_t rows = key.mix(static_cast<std::uint64_t>(splits[i]), static_cast<std::uint64_t>(sum));
      numbers[i] = static_cast<std::int64_t>(key.mix(rows, static_cast<std::uint64_t>(sequences.length(i))));
      left[i] = i;
    };
    if (row_size == 0) {  // only their lengths differ
      return for_each(executor, sequences.size, [=] LOD_HOST_DEVICE(std::int64_t i) { finish(i, 0, 0); });
    }
    // The sum of a hash of each row, which includes the row's position: rows may be added in any order.
    sum_sequences<std::int64_t>(
        executor, sequences, 1,
        [=] LOD_HOST_DEVICE(std::int64_t i, std::int64_t row, std::int64_t) {
          const unsigned char* const from = bytes + (sequences.begin(i) + row) * row_bytes;
          std::uint64_t number = key.mix(key.start, static_cast<std::uint64_t>(row));
          for (std::int64_t at = 0; at < row_bytes; at += 8) number = key.mix(number, word_of(from, at, row_bytes));
          // Mixed once more, so that the sum of the hashes reveals nothing about the products that they end with.
          return static_cast<std::int64_t>(key.mix(number, key.start));
        },
        finish);
  }
};

struct ReadNumber {
  const std::int64_t* numbers;
  LOD_HOST_DEVICE std::int64_t operator()(std::int64_t i) const { return numbers[i]; }
};

template <>
struct Kernel<FindTwins> {
  template <class E, class T>
  static void run(const E& executor, const T* x, const Segments& sequences, std::int64_t row_size,
                  const std::int64_t* numbers, std::int64_t count, std::int64_t* left, std::int64_t* twins) {
    const auto* const bytes = reinterpret_cast<const unsigned char*>(x);
    const std::int64_t size = sequences.size, row_bytes = lod::detail::bytes_of<T>(row_size);
    const Scratch<E, std::int64_t> key_loan(executor, count), unlike_loan(executor, size);
    std::int64_t* const keys = key_loan.data();
    std::int64_t* const unlike = unlike_loan.data();
    for_each(executor, count, [=] LOD_HOST_DEVICE(std::int64_t k) { keys[k] = numbers[left[k]]; });
    System<E>(executor).sort_by_key(keys, count, left);
    for_each(executor, count, [=] LOD_HOST_DEVICE(std::int64_t k) {
      const std::int64_t key = keys[k];
      twins[left[k]] = left[partition_point<std::int64_t>(0, k, [=](std::int64_t i) { return keys[i] < key; })];
    });
    const auto finish = [=] LOD_HOST_DEVICE(std::int64_t i, std::int64_t, std::int64_t differences) {
      unlike[i] = differences > 0 || sequences.length(twins[i]) != sequences.length(i) ? 1 : 0;
    };
    if (row_size == 0) {
      for_each(executor, size, [=] LOD_HOST_DEVICE(std::int64_t i) { finish(i, 0, 0); });
    } else {
      sum_sequences<std::int64_t>(
          executor, sequences, 1,
          [=] LOD_HOST_DEVICE(std::int64_t i, std::int64_t row, std::int64_t) -> std::int64_t {
            const std::int64_t twin = twins[i];
            if (twin == i || sequences.length(twin) != sequences.length(i)) return 0;
            return same_bytes(bytes + (sequences.begin(i) + row) * row_bytes,
                              bytes + (sequences.begin(twin) + row) * row_bytes, row_bytes)
                       ? 0
                       : 1;
          },
          finish);
    }
    System<E>(executor).scan(size, ReadNumber{unlike}, [=] LOD_HOST_DEVICE(std::int64_t i, std::int64_t sum) {
      if (unlike[i] == 1) left[sum - 1] = i;
      if (i == size - 1) twins[size] = sum;
    });
  }
};

template <>
struct Kernel<UniqueSequences> {
  template <class E, class... A>
  static std::int64_t run(const E& executor, const A&... arguments) {
    return operation::unique_by_twins(executor, arguments...);
  }
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk
