// SPDX-License-Identifier: Apache-2.0
/// @file
/// Goes over many short sequences, as many at a time as are pooled at once.
#pragma once

#include <lod/core/target.hpp>
#include <lod/kernels/cpu/nonempty_sequences.hpp>
#include <lod/kernels/cpu/short_sequences.hpp>

#include <algorithm>
#include <bit>
#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu {

/// Calls some(i), which pools those it can of the `short_sequences` sequences from i on and returns a bit for each of
/// the others; then one(i) for those, and for the last ones. `some` may be a `PooledShortSequences`, and one of two
/// that are `TriedInTurn`.
template <class Some, class One>
inline void for_each_short_sequence(std::int64_t begin, std::int64_t end, const Some& some, const One& one) {
  std::int64_t i = begin;
  while (i + short_sequences <= end) {
    const std::int64_t stop = std::min(i + NonemptySequences::most, end);
    if constexpr (requires { some.pool_nonempty(i, stop, one); }) {
      if (some.looks_nearly_empty(i, stop)) {
        some.pool_nonempty(i, stop, one);
        i = stop;
        continue;
      }
    }
    for (; i + short_sequences <= stop; i += short_sequences) {
      for (unsigned others = some(i); others != 0; others &= others - 1) one(i + std::countr_zero(others));
    }
  }
  for (; i < end; ++i) one(i);
}

/// An argument of `for_each_short_sequence`: computes y[i] for each sequence by pool(sequences, i, y + i), where `pool`
/// is a function of `ShortSequences`. Where most sequences are empty, only the others are pooled.
template <class T, class Pool>
class PooledShortSequences {
 public:
  PooledShortSequences(const ShortSequences<T>& sequences, const Pool& pool, T pad_value, T* y) noexcept
      : sequences_(sequences), pool_(pool), pad_value_(pad_value), y_(y) {}

  unsigned operator()(std::int64_t i) const noexcept { return pool_(sequences_, i, y_ + i); }

  /// Whether that seems to pay for sequences [begin, end).
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

/// An argument of `for_each_short_sequence`: the first of two; where that leaves all sequences undone, for one that is
/// long or unusual concerns its neighbours, the second.
template <class First, class Second>
class TriedInTurn : public First {
 public:
  TriedInTurn(const First& first, const Second& second) noexcept : First(first), second_(second) {}

  unsigned operator()(std::int64_t i) const noexcept {
    const unsigned others = First::operator()(i);
    return others == all_short_sequences ? second_(i) : others;
  }

 private:
  Second second_;
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu
