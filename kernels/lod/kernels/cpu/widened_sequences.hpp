// SPDX-License-Identifier: Apache-2.0
/// @file
/// Short sequences of scalar rows of 8 and 16 bits are pooled as floats, many at a time: a float holds each of their
/// numbers, and the sum of as many integers as a short sequence has.
#pragma once

#include <lod/core/target.hpp>
#include <lod/kernels/cpu/short_sequences.hpp>
#include <lod/kernels/cpu/vector.hpp>
#include <lod/ops/kernel.hpp>

#include <concepts>
#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu {

/// For `for_each_short_sequence`: calls pool(floats, i, pooled), a function of `Floats`, for the sequences from i
/// on. Where their rows are too many, all of them are left to be pooled one by one.
template <class T, class Pool, class Floats = ShortSequences<float>>
class WidenedShortSequences {
  static constexpr std::int64_t reach = 32, most = short_sequences * reach;

 public:
  WidenedShortSequences(const T* x, const Segments& sequences, T pad_value, const Pool& pool, T* y) noexcept
      : x_(x), sequences_(sequences), pad_value_(pad_value), pool_(pool), y_(y) {}

  unsigned operator()(std::int64_t i) const noexcept {
    Segments sequences = sequences_;
    const std::int64_t begin = sequences.begin(i), count = sequences.begin(i + short_sequences) - begin;
    if (count > most) return all_short_sequences;
    alignas(64) float numbers[most + reach];
    convert(x_ + begin, count, numbers);
    fill(numbers + count, reach, 0.F);  // which may be read, and does not count
    sequences.first = sequences.offsets[i];
    alignas(64) float pooled[short_sequences];
    unsigned others = pool_(Floats(numbers, sequences, count + reach), i, pooled);
    if (others == all_short_sequences) return others;
    // A NaN that is converted to float and back may have other bits.
    for (std::int64_t k = 0; k < short_sequences; ++k) others |= static_cast<unsigned>(pooled[k] != pooled[k]) << k;
    T* const y = y_ + i;
    convert(pooled, short_sequences, y, [](const auto& number) {
      if constexpr (std::integral<T>) {
        return static_cast<std::int32_t>(number);  // wraps around when it becomes a T
      } else {
        return number;
      }
    });
    for (std::int64_t k = 0; k < short_sequences; ++k) y[k] = sequences.length(i + k) == 0 ? pad_value_ : y[k];
    return others;
  }

 private:
  const T* x_;
  Segments sequences_;
  T pad_value_;
  Pool pool_;
  T* y_;
};

/// Whether T has such code.
template <class T>
inline constexpr bool widens_short_sequences = sizeof(T) <= 2 && ShortSequences<float>::available;

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu
