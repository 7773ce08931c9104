// SPDX-License-Identifier: Apache-2.0
/// @file
/// Batches in which most sequences are empty: the others are gathered before they are pooled.
#pragma once

#include <lod/core/target.hpp>
#include <lod/kernels/cpu/intrinsics.hpp>

#include <algorithm>
#include <bit>
#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu {

/// The nonempty sequences of a run. An empty one repeats an offset: without the repetitions, the offsets are those of
/// the nonempty ones, in order.
class NonemptySequences {
 public:
  /// The greatest number of sequences in a run.
  static constexpr std::int64_t most = 256;
  /// The number of empty sequences after the last one, for readers that take several at a time.
  static constexpr std::int64_t slack = 16;

  /// For sequences [0, count) of the offsets; count <= `most`.
  NonemptySequences(const std::int64_t* offsets, std::int64_t count) noexcept : count_(count) {
    std::int64_t i = 0;
#ifdef __AVX512F__
    const __m512i lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    for (; i + 16 <= count; i += 16) {
      const __m512i low = _mm512_loadu_si512(offsets + i), high = _mm512_loadu_si512(offsets + i + 8);
      const unsigned in_low = _mm512_cmpneq_epi64_mask(low, _mm512_loadu_si512(offsets + i + 1));
      const unsigned in_high = _mm512_cmpneq_epi64_mask(high, _mm512_loadu_si512(offsets + i + 9));
      const unsigned all = in_low | in_high << 8;
      const __m512i numbers = _mm512_add_epi32(lanes, _mm512_set1_epi32(static_cast<std::int32_t>(i)));
      _mm512_storeu_si512(places_ + size_, _mm512_maskz_compress_epi32(static_cast<__mmask16>(all), numbers));
      _mm512_storeu_si512(offsets_ + size_, _mm512_maskz_compress_epi64(static_cast<__mmask8>(in_low), low));
      size_ += std::popcount(in_low);
      _mm512_storeu_si512(offsets_ + size_, _mm512_maskz_compress_epi64(static_cast<__mmask8>(in_high), high));
      size_ += std::popcount(in_high);
    }
#endif
    for (; i < count; ++i) {  // written whether or not it is one: that is random, so no branch should depend on it
      places_[size_] = static_cast<std::int32_t>(i);
      offsets_[size_] = offsets[i];
      size_ += offsets[i] != offsets[i + 1] ? 1 : 0;
    }
    std::fill_n(offsets_ + size_, slack + 1, offsets[count]);
  }

  std::int64_t size() const noexcept { return size_; }
  /// size() + 1 + `slack` numbers.
  const std::int64_t* offsets() const noexcept { return offsets_; }
  /// The index in the run of the k-th of them.
  std::int64_t place(std::int64_t k) const noexcept { return places_[k]; }

  /// y[place(k)] = pooled[k]; `pad_value` for the empty ones.
  template <class T>
  void spread(const T* pooled, T pad_value, T* y) const noexcept {
    std::fill_n(y, count_, pad_value);
    for (std::int64_t k = 0; k < size_; ++k) y[places_[k]] = pooled[k];
  }

 private:
  std::int64_t count_;
  std::int64_t size_ = 0;
  std::int64_t offsets_[most + 1 + slack];
  std::int32_t places_[most + slack];
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu
