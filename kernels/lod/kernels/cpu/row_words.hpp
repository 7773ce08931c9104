// SPDX-License-Identifier: Apache-2.0
/// @file
/// Rows of a few numbers as 32-bit words, which are permuted within vectors by places that are computed at run time:
/// one kernel for rows of every size and type.
#pragma once

#include <lod/core/target.hpp>
#include <lod/kernels/cpu/intrinsics.hpp>
#include <lod/kernels/cpu/vector.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#ifdef __AVX2__
#  define LOD_MOVES_WORDS 1
#else
#  define LOD_MOVES_WORDS 0
#endif

#if LOD_MOVES_WORDS
namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu {

/// A vector of words, as floats: numbers that are only loaded, permuted and stored keep their bits.
using Words = Vector<float>;
inline constexpr std::int64_t word_lanes = lanes<float>;
/// Where each word of a result comes from.
using WordPlaces = xsimd::batch<std::int32_t>;

/// result[i] = a[places[i]].
[[gnu::always_inline]] inline Words moved(const Words& a, const WordPlaces& places) noexcept {
#  ifdef __AVX512F__
  return _mm512_permutexvar_ps(places, a);
#  else
  return _mm256_permutevar8x32_ps(a, places);
#  endif
}
/// The same from a and b, whose words continue the count of those of a.
[[gnu::always_inline]] inline Words moved(const Words& a, const Words& b, const WordPlaces& places) noexcept {
#  ifdef __AVX512F__
  return _mm512_permutex2var_ps(a, places, b);
#  else
  const __m256 of_b = _mm256_castsi256_ps(_mm256_slli_epi32(places, 28));  // 8 to 15: the highest bit
  return _mm256_blendv_ps(moved(a, places), moved(b, places), of_b);
#  endif
}

/// Rows of at most `few_words` words are processed `short_rows` at a time, so that no branch depends on the length of a
/// short sequence.
inline constexpr std::int64_t short_rows = 32;
inline constexpr std::int64_t few_words = 4;

/// The words [first, end) of a vector, from x + first on, with zeros before and after them; x need not point into the
/// array.
[[gnu::always_inline]] inline Words load_part(const float* x, std::int64_t first, std::int64_t end) noexcept {
  if (first == 0 && end == word_lanes) return load(x);
#  ifdef __AVX512F__
  return _mm512_maskz_loadu_ps(static_cast<__mmask16>(first_bits<float>(end) & ~first_bits<float>(first)), x);
#  else
  return load(x, end, 0);
#  endif
}
/// The words [first, end) of a vector to y + first; y need not point into the array.
[[gnu::always_inline]] inline void store_part(float* y, const Words& vector, std::int64_t first,
                                              std::int64_t end) noexcept {
  if (first == 0 && end == word_lanes) return store<float>(y, vector);
#  ifdef __AVX512F__
  const auto mask = static_cast<__mmask16>(first_bits<float>(end) & ~first_bits<float>(first));
  _mm512_mask_storeu_ps(y, mask, vector);
#  else
  alignas(Words) float numbers[word_lanes];
  vector.store_aligned(numbers);
  std::memcpy(y, numbers, static_cast<std::size_t>(4 * end));
#  endif
}

/// Copies of a row, one after the other, in whole vectors.
class RepeatedRow {
 public:
  /// The words that a row may have, at least one.
  static constexpr std::int64_t most = 2 * word_lanes;

  explicit RepeatedRow(std::int64_t row_words) noexcept
      : row_words_(row_words), period_(row_words * (row_words <= few_words ? short_rows : word_lanes)) {
    const auto columns = static_cast<std::int32_t>(row_words);
    for (std::int32_t i = 0, column = 0; i < word_lanes; ++i) {
      places_[i] = column;
      before_[i] = column == 0 ? 0 : columns - column;
      column = column + 1 == columns ? 0 : column + 1;
    }
    const WordPlaces all(columns), step(static_cast<std::int32_t>(word_lanes) % columns);
    WordPlaces place = WordPlaces::load_unaligned(places_);
    for (std::int64_t i = word_lanes; i < word_lanes + period_ + row_words; i += word_lanes) {
      place += step;
      place = xsimd::select(place < all, place, place - all);
      place.store_unaligned(places_ + i);
    }
  }

  struct Row {
    Words low, high;
  };
  Row read(const void* row) const noexcept {
    const auto* const x = static_cast<const float*>(row);
    const std::int64_t first = std::min(row_words_, word_lanes);
    return {load(x, first, 0), load(x + first, row_words_ - first, 0)};
  }

  /// Calls body(at, first, end, vector) for the vectors of `copies` copies that go to y: words [first, end) of a vector
  /// go to y + at + first on. There is room for `room` rows: what is written after the copies is overwritten later.
  template <class Body>
  [[gnu::always_inline]] void for_each_vector(const Row& row, std::int64_t copies, std::int64_t room, const void* y,
                                              const Body& body) const noexcept {
    // Where parts of vectors are stored as fast as whole ones, the latter begin with a cache line.
    const std::int64_t skipped =
        masked<float> ? static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(y) % (4 * word_lanes) / 4) : 0;
    const std::int32_t* const places = places_ + before_[skipped];
    const auto vector = [&](std::int64_t i) __attribute__((always_inline)) {
      return moved(row.low, row.high, WordPlaces::load_unaligned(places + i));
    };
    const std::int64_t all = copies * row_words_, writable = room * row_words_;
    std::int64_t at = word_lanes - skipped;
    if (at > writable) return body(-skipped, skipped, skipped + all, vector(0));
    body(-skipped, skipped, word_lanes, vector(0));
    for (; at < all && at + period_ <= writable; at += period_) {
      const std::int64_t end = row_words_ <= few_words ? period_ : std::min(period_, all - at);
      for (std::int64_t i = 0; i < end; i += word_lanes) body(at + i, 0, word_lanes, vector(word_lanes + i));
    }
    for (std::int64_t i = word_lanes; at < all; at += word_lanes, i += word_lanes) {
      body(at, 0, writable - at < word_lanes ? std::min(all - at, word_lanes) : word_lanes, vector(i));
    }
  }

 private:
  std::int64_t row_words_;
  std::int64_t period_;
  std::int32_t before_[word_lanes];  ///< the column of the word that is i words before a row
  std::int32_t places_[static_cast<std::size_t>(2 * word_lanes + most * word_lanes + most)];
};

/// Rows in reverse order, as many at a time as a vector holds.
class ReversedRows {
 public:
  /// The words that a row may have.
  static constexpr std::int64_t most = word_lanes;

  explicit ReversedRows(std::int64_t row_words) noexcept
      : row_words_(row_words),
        at_a_time_(word_lanes / row_words),
        short_step_((short_rows + at_a_time_ - 1) / at_a_time_ * at_a_time_) {
    alignas(64) std::int32_t places[word_lanes] = {};
    std::int32_t* place = places;
    for (std::int64_t first = (at_a_time_ - 1) * row_words; first >= 0; first -= row_words) {
      for (std::int64_t i = 0; i < row_words; ++i) *place++ = static_cast<std::int32_t>(first + i);
    }
    places_ = WordPlaces::load_aligned(places);
  }

  /// Row k of y = row (last - k) of x, for k in [0, count). x has `rows` rows; from y on, `room` rows may be written:
  /// those after the first `count` are overwritten later.
  void operator()(const float* x, std::int64_t rows, std::int64_t last, std::int64_t count, float* y,
                  std::int64_t room) const noexcept {
    const float* const end = x + (last + 1) * row_words_;
    const std::int64_t more =
        at_a_time_ * row_words_ < word_lanes ? 1 : 0;  // rows that a vector touches beyond its own
    const std::int64_t most_rows = std::min(last + 1, room - more);
    std::int64_t row = 0;
    const auto copy_one = [&] { copy(end - (row + 1) * row_words_, row_words_, y + row * row_words_), ++row; };
    const auto copy_some = [&](std::int64_t step) {
      for (; row < count && row + step <= most_rows; row += step) {
        for (std::int64_t k = row + at_a_time_; k <= row + step; k += at_a_time_) {
          store<float>(y + (k - at_a_time_) * row_words_, moved(load(end - k * row_words_), places_));
        }
      }
    };
    if (count > 0 && last + more >= rows) copy_one();
    if (row_words_ <= few_words) copy_some(short_step_);
    copy_some(at_a_time_);
    while (row < count) copy_one();
  }

 private:
  std::int64_t row_words_;
  std::int64_t at_a_time_;
  std::int64_t short_step_;  // `short_rows`, a multiple of it
  WordPlaces places_;
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu
#endif
