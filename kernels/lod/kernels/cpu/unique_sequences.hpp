// SPDX-License-Identifier: Apache-2.0
/// @file
/// The distinct sequences of a batch on the CPU: a hash of each one's bits, and a table of those met so far.
#pragma once

#include <lod/core/keyed_hash.hpp>
#include <lod/core/version.hpp>
#include <lod/kernels/cpu/launch.hpp>
#include <lod/kernels/cpu/parallel.hpp>
#include <lod/ops/staging.hpp>
#include <lod/ops/unique_sequences.hpp>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu {

template <>
struct Kernel<UniqueSequences> {
  template <class T, class SameLevels>
  static std::int64_t run(const CpuExecutor& executor, const T* x, const Segments& sequences,
                          const operation::Array<CpuExecutor, std::int64_t>& splits, const detail::HashKey& key,
                          std::int64_t row_size, const SameLevels& same_levels, std::int64_t* first,
                          std::int64_t* index) {
    const std::int64_t row_bytes = lod::detail::bytes_of<T>(row_size);
    const auto bytes = [&](std::int64_t i) {
      return reinterpret_cast<const std::byte*>(x) + sequences.begin(i) * row_bytes;
    };
    const auto size = [&](std::int64_t i) { return static_cast<std::size_t>(sequences.length(i) * row_bytes); };
    const Workspace::Loan<std::uint64_t> numbers(executor.workspace(), sequences.size);
    cpu::parallel_sequences(executor, sequences, row_bytes, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        numbers[i] = key.of(bytes(i), size(i), static_cast<std::uint64_t>(splits[i]));
      }
    });
    // At least half of the table's slots stay free.
    const auto places = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(2 * sequences.size + 1)));
    const Workspace::Loan<std::int64_t> table(executor.workspace(), places);
    std::fill_n(table.data(), places, std::int64_t{-1});
    std::int64_t different = 0;
    for (std::int64_t i = 0; i < sequences.size; ++i) {
      auto place = static_cast<std::int64_t>(numbers[i] & static_cast<std::uint64_t>(places - 1));
      for (;; place = (place + 1) & (places - 1)) {
        if (table[place] < 0) {
          table[place] = different;
          first[different] = i;
          index[i] = different++;
          break;
        }
        const std::int64_t other = first[table[place]];
        if (numbers[other] == numbers[i] && size(other) == size(i) &&
            (size(i) == 0 || std::memcmp(bytes(other), bytes(i), size(i)) == 0) && same_levels(other, i)) {
          index[i] = table[place];
          break;
        }
      }
    }
    return different;
  }
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu
