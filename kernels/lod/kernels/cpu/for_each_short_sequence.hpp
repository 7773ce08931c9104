// SPDX-License-Identifier: Apache-2.0
/// @file
/// A loop over many short sequences, several of which are pooled at once.
#pragma once

#include <lod/core/target.hpp>
#include <lod/kernels/cpu/nonempty_sequences.hpp>
#include <lod/kernels/cpu/short_sequences.hpp>

#include <algorithm>
#include <bit>
#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu {

/// Calls some(i), which pools what it can of the `short_sequences` sequences from i on and returns a bit for each of
/// the others; then one(i) for these others, and for the last sequences. `some` may be a `PooledShortSequences`, and
/// one of two that are `TriedInTurn`. If it is some(i, count), it pools the last sequences too, of which there are
/// fewer.
template <class Some, class One>
inline void for_each_short_sequence(std::int64_t begin, std::int64_t end, const Some& some, const One& one) {
  const auto each = [&](std::int64_t i, unsigned others) {
    for (; others != 0; others &= others - 1) one(i + std::countr_zero(others));
  };
  std::int64_t i = begin;
  if constexpr (requires { some(i, end); }) {
    for (; i < end; i += short_sequences) {
      const std::int64_t count = std::min<std::int64_t>(short_sequences, end - i);
      each(i, some(i, count) & ((1U << count) - 1));
    }
  } else {
    while (i + short_sequences <= end) {
      const std::int64_t stop = std::min(i + NonemptySequences::most, end);
      if constexpr (requires { some.pool_nonempty(i, stop, one); }) {
        if (some.looks_nearly_empty(i, stop)) {
          some.pool_nonempty(i, stop, one);
          i = stop;
          continue;
        }
      }
      for (; i + short_sequences <= stop; i += short_sequences) each(i, some(i));
    }
    for (; i < end; ++i) one(i);
  }
}

/// An argument of `for_each_short_sequence`: computes y[i] for each sequence by pool(sequences, i, y + i), where `pool`
/// is a function of `ShortSequences`. If most sequences are empty, only the others are pooled.
template <class T, class Pool>
class PooledShortSequences {
 public:
  PooledShortSequences(const ShortSequences<T>& sequences, const Pool& pool, T pad_value, T* y) noexcept
      : sequences_(sequences), pool_(pool), pad_value_(pad_value), y_(y) {}

  unsigned operator()(std::int64_t i) const noexcept { return pool_(sequences_, i, y_ + i); }

  /// Whether skipping empty sequences seems to pay for sequences [begin, end).
  bool looks_nearly_empty(std::int64_t begin, std::int64_t end) const noexcept {
    const std::int64_t* const offsets = sequences_.offsets();
    return offsets[end] - offsets[begin] <= 8 * (end - begin) && sequences_.nearly_all_empty(begin);
  }
  /// Pools sequences [begin, end), at most `NonemptySequences::most`; calls one(i) for those that `pool` leaves undone.
  template <class One>
  void pool_nonempty(std::int64_t begin, std::int64_t end, const One& one) const {
    const NonemptySequences some(sequences_.offsets() + begin, end - begin);
    const ShortSequences<T> gathered = sequences_.at(some.offsets());
    T pooled[NonemptySequences::most + NonemptySequences::slack];
    std::uint32_t others[NonemptySequences::most / short_sequences];
    for (std::int64_t k = 0; k < some.size(); k += short_sequences) {
      others[k / short_sequences] = pool_(gathered, k, pooled + k);
    }
    some.spread(pooled, pad_value_, y_ + begin);
    for (std::int64_t k = 0; k < some.size(); k += short_sequences) {
      for (unsigned left = others[k / short_sequences]; left != 0; left &= left - 1) {
        const std::int64_t other = k + std::countr_zero(left);
        if (other < some.size()) one(begin + some.place(other));
      }
    }
  }

 private:
  ShortSequences<T> sequences_;
  Pool pool_;
  T pad_value_;
  T* y_;
};

/// An argument of `for_each_short_sequence`: calls the first of two functions and, if that leaves all sequences undone,
/// as it does if one of them is long or has unusual numbers, the second.
template <class First, class Second>
class TriedInTurn : public First {
 public:
  TriedInTurn(const First& first, const Second& second) noexcept : First(first), second_(second) {}

  unsigned operator()(std::int64_t i) const noexcept {
    const unsigned others = First::operator()(i);
    if (others != all_short_sequences) return others;
    if constexpr (requires { second_(i, i); }) {
      return second_(i, short_sequences);
    } else {
      return second_(i);
    }
  }

 private:
  Second second_;
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu
