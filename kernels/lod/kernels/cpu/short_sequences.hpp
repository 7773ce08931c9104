// SPDX-License-Identifier: Apache-2.0
/// @file
/// Eight or sixteen short sequences of scalar rows at a time. The length of a sequence of a few numbers is mispredicted
/// too often, so nothing here branches on it: each is read as 32 numbers, those after its end are masked, and all are
/// folded at once by a tree of shuffles. xsimd 8.1 has neither masks nor such shuffles: this is written for AVX-512 and
/// for AVX2, and elsewhere sequences are processed one by one.
#pragma once

#include <lod/core/target.hpp>
#include <lod/kernels/cpu/intrinsics.hpp>
#include <lod/kernels/sum_tree.hpp>
#include <lod/ops/kernel.hpp>
#include <lod/ops/sequence_pool.hpp>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VL__) && defined(__AVX512DQ__)
#  define LOD_SHORT_SEQUENCES_BY_AVX512 1
#else
#  define LOD_SHORT_SEQUENCES_BY_AVX512 0
#endif

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu {

/// The sequences that are pooled at once.
inline constexpr std::int64_t short_sequences = LOD_SHORT_SEQUENCES_BY_AVX512 ? 16 : 8;
/// One bit for each of them.
inline constexpr unsigned all_short_sequences = (1U << short_sequences) - 1;

/// Numbers by their offsets in a tensor of which x may be a slice: row 0 may be outside of its memory, and so may
/// numbers that are read under a mask. Neither is in an array, so addresses are computed as integers.
class NumbersByOffset {
 public:
  /// x is the number with the offset `first`.
  NumbersByOffset(const float* x, std::int64_t first) noexcept
      : origin_(reinterpret_cast<std::uintptr_t>(x) - sizeof(float) * static_cast<std::uintptr_t>(first)) {}
  const float* operator+(std::int64_t offset) const noexcept {
    return reinterpret_cast<const float*>(origin_ + sizeof(float) * static_cast<std::uintptr_t>(offset));
  }

 private:
  std::uintptr_t origin_;
};

/// Pools short sequences of T; not `available` for types and processors without such code.
template <class T>
struct ShortSequences {
  static constexpr bool available = false;
};

#if LOD_SHORT_SEQUENCES_BY_AVX512
// For the functions, see the class for AVX2, where they are described.
template <>
class ShortSequences<float> {
  static constexpr std::int64_t reach = 32;

 public:
  static constexpr bool available = true;

  /// Masked numbers are not read, so it does not matter how far numbers are readable.
  ShortSequences(const float* x, const Segments& sequences, std::int64_t) noexcept
      : x_(x, sequences.first), offsets_(sequences.offsets) {}

  const std::int64_t* offsets() const noexcept { return offsets_; }
  ShortSequences at(const std::int64_t* offsets) const noexcept {
    ShortSequences others = *this;
    others.offsets_ = offsets;
    return others;
  }
  bool nearly_all_empty(std::int64_t i) const noexcept { return std::popcount(Lengths(offsets_ + i).empty) >= 12; }

  unsigned pool_sums(std::int64_t i, PoolType type, float pad_value, float* y) const noexcept {
    const Lengths lengths(offsets_ + i);
    if (!lengths.worthwhile()) return all_short_sequences;
    Sums rule;
    __m512 sums = reduce(i, lengths, rule);
    constexpr int infinite_or_nan = 0x99;
    const unsigned unusual = _mm512_fpclass_ps_mask(sums, infinite_or_nan);
    if (type != PoolType::SUM) {
      const __m512 numbers = _mm512_cvtepi32_ps(lengths.numbers);
      sums = _mm512_div_ps(sums, type == PoolType::AVERAGE ? numbers : _mm512_sqrt_ps(numbers));
    }
    store(y, sums, lengths, pad_value);
    return lengths.longer | unusual;
  }

  unsigned pool_greatest(std::int64_t i, float* y) const noexcept {
    const Lengths lengths(offsets_ + i);
    if (!lengths.worthwhile()) return all_short_sequences;
    Extremes<false> rule;
    _mm512_storeu_ps(y, reduce(i, lengths, rule));
    return lengths.longer;
  }

  template <bool minimum>
  unsigned pool_extremes(std::int64_t i, float pad_value, float* y) const noexcept {
    const Lengths lengths(offsets_ + i);
    if (!lengths.worthwhile()) return all_short_sequences;
    Extremes<minimum> rule;
    const __m512 best = reduce(i, lengths, rule);
    store(y, best, lengths, pad_value);
    if ((rule.negative_zeros | rule.unordered) != 0) [[unlikely]]
      take_strange(i, lengths, rule.unordered != 0, y);
    return lengths.longer;
  }

  void find_rows(std::int64_t i, const float* numbers, std::int64_t origin, std::int64_t* rows) const noexcept {
    const Lengths lengths(offsets_ + i);
    alignas(64) std::uint32_t masks[short_sequences];
    _mm512_store_si512(masks, lengths.masks());
    for (std::int64_t k = 0; k < short_sequences; ++k) {
      const unsigned all = equal(i + k, masks[k], numbers[k]);
      rows[k] = all == 0 ? -1 : offsets_[i + k] - origin + std::countr_zero(all);
    }
    const __m512 all = _mm512_loadu_ps(numbers);
    for (unsigned nans = _mm512_cmp_ps_mask(all, all, _CMP_UNORD_Q); nans != 0; nans &= nans - 1) {
      const int k = std::countr_zero(nans);
      const unsigned found = equal<_CMP_UNORD_Q>(i + k, masks[k], 0);
      if (found != 0) rows[k] = offsets_[i + k] - origin + std::countr_zero(found);
    }
  }

 private:
  /// The lengths of sixteen sequences. For a long one, only the fact that it is long is meaningful.
  struct Lengths {
    explicit Lengths(const std::int64_t* offsets) noexcept {
      const __m512i low = _mm512_sub_epi64(_mm512_loadu_si512(offsets + 1), _mm512_loadu_si512(offsets));
      const __m512i high = _mm512_sub_epi64(_mm512_loadu_si512(offsets + 9), _mm512_loadu_si512(offsets + 8));
      numbers = _mm512_inserti64x4(_mm512_castsi256_si512(_mm512_cvtepi64_epi32(low)), _mm512_cvtepi64_epi32(high), 1);
      const __m512i most = _mm512_set1_epi64(reach);
      longer = _mm512_cmpgt_epi64_mask(low, most) | static_cast<unsigned>(_mm512_cmpgt_epi64_mask(high, most)) << 8;
      empty = _mm512_testn_epi64_mask(low, low) | static_cast<unsigned>(_mm512_testn_epi64_mask(high, high)) << 8;
    }
    bool worthwhile() const noexcept { return std::popcount(longer) <= 4; }
    /// The sequences that are short but longer than a vector.
    unsigned beyond_a_vector() const noexcept {
      return _mm512_cmpgt_epi32_mask(numbers, _mm512_set1_epi32(16)) & ~longer;
    }
    /// For each sequence, as many low bits as it has numbers.
    __m512i masks() const noexcept {
      const __m512i one = _mm512_set1_epi32(1);
      return _mm512_sub_epi32(_mm512_sllv_epi32(one, numbers), one);
    }

    __m512i numbers;
    unsigned longer;  ///< one bit for each long sequence
    unsigned empty;   ///< one bit for each empty sequence
  };

  /// A bit for each number of sequence i, those of `mask`, that is equal to `number`; by another `comparison`, a NaN.
  template <int comparison = _CMP_EQ_OQ>
  unsigned equal(std::int64_t i, std::uint32_t mask, float number) const noexcept {
    const auto low = static_cast<__mmask16>(mask), high = static_cast<__mmask16>(mask >> 16);
    const __m512 first = _mm512_maskz_loadu_ps(low, x_ + offsets_[i]);
    const __m512 second = _mm512_maskz_loadu_ps(high, x_ + (offsets_[i] + 16));
    const unsigned more = _mm512_mask_cmp_ps_mask(high, second, _mm512_set1_ps(number), comparison);
    return _mm512_mask_cmp_ps_mask(low, first, _mm512_set1_ps(number), comparison) | more << 16;
  }
  [[gnu::noinline]] void take_strange(std::int64_t i, const Lengths& lengths, bool nans, float* y) const noexcept {
    alignas(64) std::uint32_t masks[short_sequences];
    _mm512_store_si512(masks, lengths.masks());
    for (std::int64_t k = 0; k < short_sequences; ++k) {
      unsigned all = nans ? equal<_CMP_UNORD_Q>(i + k, masks[k], 0) : 0;
      if (all == 0 && y[k] == 0) all = equal(i + k, masks[k], 0);
      if (all != 0) y[k] = (x_ + offsets_[i + k])[std::countr_zero(all)];
    }
  }

  static void store(float* y, __m512 results, const Lengths& lengths, float pad_value) noexcept {
    _mm512_storeu_ps(y,
                     _mm512_mask_blend_ps(static_cast<__mmask16>(lengths.empty), results, _mm512_set1_ps(pad_value)));
  }

  struct Sums {
    static __m512 join(__m512 a, __m512 b) noexcept { return _mm512_add_ps(a, b); }
    static __m512 read(const float* x, std::uint32_t mask) noexcept {
      return _mm512_mask_loadu_ps(_mm512_set1_ps(empty_sum<float>()), static_cast<__mmask16>(mask), x);
    }
  };
  template <bool minimum>
  struct Extremes {
    static __m512 join(__m512 a, __m512 b) noexcept { return minimum ? _mm512_min_ps(a, b) : _mm512_max_ps(a, b); }
    [[gnu::always_inline]] __m512 read(const float* x, std::uint32_t mask) noexcept {
      const __m512 numbers = _mm512_mask_loadu_ps(_mm512_set1_ps(last), static_cast<__mmask16>(mask), x);
      unordered = unordered | _mm512_cmp_ps_mask(numbers, numbers, _CMP_UNORD_Q);
      constexpr int negative_zero = 0x04;
      negative_zeros = negative_zeros | _mm512_fpclass_ps_mask(numbers, negative_zero);
      return numbers;
    }
    static constexpr float last =
        minimum ? std::numeric_limits<float>::infinity() : -std::numeric_limits<float>::infinity();
    unsigned unordered = 0;       ///< where a NaN has been seen
    unsigned negative_zeros = 0;  ///< likewise
  };

  /// Where sequence i + k begins. Prefetches what is read after the next ones: the hardware does not recognize such
  /// short runs as a stream.
  const float* start(std::int64_t i, std::int64_t k) const noexcept {
    const float* const x = x_ + offsets_[i + k];
    _mm_prefetch(reinterpret_cast<const char*>(NumbersByOffset(x, 0) + 2048), _MM_HINT_T0);
    return x;
  }

  /// Lane k of the result joins the numbers of sequence i + k.
  template <class Rule>
  __m512 reduce(std::int64_t i, const Lengths& lengths, Rule& given) const noexcept {
    Rule rule = given;  // in registers
    alignas(64) std::uint32_t masks[short_sequences];
    _mm512_store_si512(masks, lengths.masks());
    __m512 parts[short_sequences];
#  pragma GCC unroll 16
    for (std::int64_t k = 0; k < short_sequences; ++k) parts[k] = rule.read(start(i, k), masks[k]);
    const auto read_rest = [&](std::int64_t k) {
      parts[k] = rule.join(parts[k], rule.read(x_ + (offsets_[i + k] + 16), masks[k] >> 16));
    };
    if (const unsigned beyond = lengths.beyond_a_vector(); std::popcount(beyond) <= 3) {
      for (unsigned left = beyond; left != 0; left &= left - 1) read_rest(std::countr_zero(left));
    } else {
      for (std::int64_t k = 0; k < short_sequences; ++k) read_rest(k);
    }
    given = rule;
    return fold(parts, rule);
  }
  /// Joins the lanes of each of sixteen parts by the tree of sum_tree.hpp: lane k of the result is that of part k.
  template <class Rule>
  static __m512 fold(const __m512* parts, const Rule&) noexcept {
    __m512 eights[8], fours[4], twos[2];  // of parts k and k + 8; of four parts; of eight
#  pragma GCC unroll 16
    for (int k = 0; k < 8; ++k) {
      eights[k] = Rule::join(_mm512_shuffle_f32x4(parts[k], parts[k + 8], 0x44),
                             _mm512_shuffle_f32x4(parts[k], parts[k + 8], 0xEE));
    }
#  pragma GCC unroll 16
    for (int k = 0; k < 4; ++k) {
      fours[k] = Rule::join(_mm512_shuffle_f32x4(eights[k], eights[k + 4], 0x88),
                            _mm512_shuffle_f32x4(eights[k], eights[k + 4], 0xDD));
    }
#  pragma GCC unroll 16
    for (int k = 0; k < 2; ++k) {
      const __m512d a = _mm512_castps_pd(fours[k]), b = _mm512_castps_pd(fours[k + 2]);
      twos[k] = Rule::join(_mm512_castpd_ps(_mm512_unpacklo_pd(a, b)), _mm512_castpd_ps(_mm512_unpackhi_pd(a, b)));
    }
    const __m512 mixed =
        Rule::join(_mm512_shuffle_ps(twos[0], twos[1], 0x88), _mm512_shuffle_ps(twos[0], twos[1], 0xDD));
    const __m512i order = _mm512_setr_epi32(0, 2, 1, 3, 8, 10, 9, 11, 4, 6, 5, 7, 12, 14, 13, 15);
    return _mm512_permutexvar_ps(order, mixed);
  }

  NumbersByOffset x_;
  const std::int64_t* offsets_;
};
#elif defined(__AVX2__)
template <>
class ShortSequences<float> {
  /// The numbers that are read of each sequence: longer ones are not short.
  static constexpr std::int64_t reach = 32;

 public:
  static constexpr bool available = true;

  /// `readable` numbers may be read from x on.
  ShortSequences(const float* x, const Segments& sequences, std::int64_t readable) noexcept
      : x_(x, sequences.first), offsets_(sequences.offsets), last_(sequences.first + readable - reach) {}

  const std::int64_t* offsets() const noexcept { return offsets_; }
  /// Other sequences of the same numbers.
  ShortSequences at(const std::int64_t* offsets) const noexcept {
    ShortSequences others = *this;
    others.offsets_ = offsets;
    return others;
  }
  /// Whether at least three quarters of the sequences from i on, as many as are pooled at once, are empty.
  bool nearly_all_empty(std::int64_t i) const noexcept { return std::popcount(Lengths(offsets_ + i).not_empty) <= 2; }

  /// y[k] = the sum of sequence i + k by the tree of sum_tree.hpp, divided as `type` says, or `pad_value` for an empty
  /// one. Returns a bit for each sequence that it leaves undone: long ones, and those whose sums are not finite.
  unsigned pool_sums(std::int64_t i, PoolType type, float pad_value, float* y) const noexcept {
    const Lengths lengths(offsets_ + i);
    if (!worthwhile(i, lengths)) return all_short_sequences;
    Sums rule;
    __m256 sums = reduce(i, lengths, rule);
    const __m256 zeros = _mm256_sub_ps(sums, sums);  // NaN where a sum is not finite
    const auto unusual = static_cast<unsigned>(_mm256_movemask_ps(_mm256_cmp_ps(zeros, zeros, _CMP_UNORD_Q)));
    if (type != PoolType::SUM) {
      const __m256 numbers = _mm256_cvtepi32_ps(lengths.numbers);
      sums = _mm256_div_ps(sums, type == PoolType::AVERAGE ? numbers : _mm256_sqrt_ps(numbers));
    }
    store(y, sums, lengths, pad_value);
    return lengths.longer | unusual;
  }

  /// y[k] = the greatest number of sequence i + k, a zero with either sign if that is 0; -inf for an empty sequence,
  /// unspecified for one with a NaN. Returns a bit for each sequence that it leaves undone.
  unsigned pool_greatest(std::int64_t i, float* y) const noexcept {
    const Lengths lengths(offsets_ + i);
    if (!worthwhile(i, lengths)) return all_short_sequences;
    Greatest rule;
    _mm256_storeu_ps(y, reduce(i, lengths, rule));
    return lengths.longer;
  }

  /// y[k] = the greatest (least) number of sequence i + k, or `pad_value`. Returns the sequences that it leaves undone:
  /// the long ones. A zero has the sign of the first one; the first NaN is both greater and less than everything.
  template <bool minimum>
  unsigned pool_extremes(std::int64_t i, float pad_value, float* y) const noexcept {
    const Lengths lengths(offsets_ + i);
    if (!worthwhile(i, lengths)) return all_short_sequences;
    Extremes<minimum> rule;
    const __m256 best = reduce(i, lengths, rule);
    store(y, best, lengths, pad_value);
    const __m256 strange = _mm256_or_ps(rule.unordered, _mm256_castsi256_ps(rule.negative_zeros));
    if (_mm256_movemask_ps(strange) != 0) [[unlikely]]
      take_strange(i, lengths, _mm256_movemask_ps(rule.unordered) != 0, y);
    return lengths.longer;
  }

  /// rows[k] = the first row of sequence i + k that holds numbers[k], where row 0 is at offset `origin`; -1 if none
  /// does. For sequences that `pool_extremes` has not left undone.
  void find_rows(std::int64_t i, const float* numbers, std::int64_t origin, std::int64_t* rows) const noexcept {
    const Lengths lengths(offsets_ + i);
    if (!worthwhile(i, lengths)) return;
    alignas(32) std::int32_t count[short_sequences];
    _mm256_store_si256(reinterpret_cast<__m256i*>(count), lengths.numbers);
    for (std::int64_t k = 0; k < short_sequences; ++k) {
      const unsigned all = equal(Masked(x_, offsets_[i + k], count[k]), numbers[k]);
      rows[k] = all == 0 ? -1 : offsets_[i + k] - origin + std::countr_zero(all);
    }
    const __m256 all = _mm256_loadu_ps(numbers);
    auto nans = static_cast<unsigned>(_mm256_movemask_ps(_mm256_cmp_ps(all, all, _CMP_UNORD_Q)));
    for (; nans != 0; nans &= nans - 1) {
      const int k = std::countr_zero(nans);
      const unsigned found = equal<_CMP_UNORD_Q>(Masked(x_, offsets_[i + k], count[k]), 0);
      if (found != 0) rows[k] = offsets_[i + k] - origin + std::countr_zero(found);
    }
  }

 private:
  /// The lengths of eight sequences. For a long one, only that it is long is meaningful: the number may have lost bits.
  struct Lengths {
    explicit Lengths(const std::int64_t* offsets) noexcept {
      const __m256i low = _mm256_sub_epi64(load(offsets + 1), load(offsets));
      const __m256i high = _mm256_sub_epi64(load(offsets + 5), load(offsets + 4));
      numbers = in_order(low, high);
      const __m256i most = _mm256_set1_epi64x(reach), none = _mm256_setzero_si256();
      longer = bits(in_order(_mm256_cmpgt_epi64(low, most), _mm256_cmpgt_epi64(high, most)));
      empty = _mm256_cmpeq_epi32(numbers, none);
      not_empty = bits(empty) ^ all_short_sequences;
    }
    bool within_a_vector() const noexcept {
      const __m256i beyond = _mm256_cmpgt_epi32(numbers, _mm256_set1_epi32(8));
      return _mm256_testz_si256(beyond, beyond) != 0;
    }

    __m256i numbers;
    __m256i empty;
    unsigned longer;     ///< one bit for each long sequence
    unsigned not_empty;  ///< one bit for each nonempty sequence

   private:
    static __m256i load(const std::int64_t* x) noexcept {
      return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x));
    }
    /// The low halves of eight 64-bit numbers.
    static __m256i in_order(__m256i low, __m256i high) noexcept {
      const __m256 halves = _mm256_shuffle_ps(_mm256_castsi256_ps(low), _mm256_castsi256_ps(high), 0x88);
      return _mm256_permute4x64_epi64(_mm256_castps_si256(halves), 0xD8);
    }
    static unsigned bits(__m256i truths) noexcept {
      return static_cast<unsigned>(_mm256_movemask_ps(_mm256_castsi256_ps(truths)));
    }
  };

  /// Whether few of sequences i to i + 7 are long, and `reach` numbers may be read from the start of each.
  bool worthwhile(std::int64_t i, const Lengths& lengths) const noexcept {
    return std::popcount(lengths.longer) <= 2 && offsets_[i + short_sequences - 1] <= last_;
  }

  static void store(float* y, __m256 results, const Lengths& lengths, float pad_value) noexcept {
    _mm256_storeu_ps(y, _mm256_blendv_ps(results, _mm256_set1_ps(pad_value), _mm256_castsi256_ps(lengths.empty)));
  }

  /// A sequence as four vectors.
  struct Masked {
    Masked(const NumbersByOffset& numbers, std::int64_t offset, std::int32_t length) noexcept
        : x(numbers + offset), count(_mm256_set1_epi32(length)) {
      // Prefetches what is read after the next ones: the hardware does not recognize such short runs as a stream.
      _mm_prefetch(reinterpret_cast<const char*>(numbers + (offset + 2048)), _MM_HINT_T0);
    }
    __m256 load(int vector) const noexcept { return _mm256_loadu_ps(x + std::ptrdiff_t{8} * vector); }
    __m256 mask(int vector) const noexcept {
      const __m256i places = _mm256_add_epi32(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), _mm256_set1_epi32(8 * vector));
      return _mm256_castsi256_ps(_mm256_cmpgt_epi32(count, places));
    }
    const float* x;
    __m256i count;
  };

  /// A bit for each number of a sequence that is equal to `number`; by another `comparison`, a NaN.
  template <int comparison = _CMP_EQ_OQ>
  static unsigned equal(const Masked& from, float number) noexcept {
    const __m256 numbers = _mm256_set1_ps(number);
    unsigned all = 0;
    for (int vector = 0; vector < 4; ++vector) {
      const __m256 here = _mm256_and_ps(_mm256_cmp_ps(from.load(vector), numbers, comparison), from.mask(vector));
      all |= static_cast<unsigned>(_mm256_movemask_ps(here)) << (8 * vector);
    }
    return all;
  }
  /// y[k] = the first NaN of sequence i + k, if there is one, else the first zero, if y[k] is zero.
  [[gnu::noinline]] void take_strange(std::int64_t i, const Lengths& lengths, bool nans, float* y) const noexcept {
    alignas(32) std::int32_t count[short_sequences];
    _mm256_store_si256(reinterpret_cast<__m256i*>(count), lengths.numbers);
    for (std::int64_t k = 0; k < short_sequences; ++k) {
      const Masked some(x_, offsets_[i + k], count[k]);
      unsigned all = nans ? equal<_CMP_UNORD_Q>(some, 0) : 0;
      if (all == 0 && y[k] == 0) all = equal(some, 0);
      if (all != 0) y[k] = (x_ + offsets_[i + k])[std::countr_zero(all)];
    }
  }

  /// How numbers are joined, and what replaces those after the end.
  struct Sums {
    static __m256 join(__m256 a, __m256 b) noexcept { return _mm256_add_ps(a, b); }
    static __m256 read(const Masked& from, int vector) noexcept {
      return _mm256_blendv_ps(_mm256_set1_ps(empty_sum<float>()), from.load(vector), from.mask(vector));
    }
  };
  template <bool minimum>
  struct Extremes {
    static __m256 join(__m256 a, __m256 b) noexcept { return minimum ? _mm256_min_ps(a, b) : _mm256_max_ps(a, b); }
    __m256 read(const Masked& from, int vector) noexcept {
      constexpr float infinity = std::numeric_limits<float>::infinity();
      const __m256 last = _mm256_set1_ps(minimum ? infinity : -infinity);
      const __m256 numbers = _mm256_blendv_ps(last, from.load(vector), from.mask(vector));
      unordered = _mm256_or_ps(unordered, _mm256_cmp_ps(numbers, numbers, _CMP_UNORD_Q));
      const __m256i negative_zero = _mm256_castps_si256(_mm256_set1_ps(-0.f));
      negative_zeros = _mm256_or_si256(negative_zeros, _mm256_cmpeq_epi32(_mm256_castps_si256(numbers), negative_zero));
      return numbers;
    }
    __m256 unordered = _mm256_setzero_ps();           ///< where a NaN has been seen
    __m256i negative_zeros = _mm256_setzero_si256();  ///< likewise
  };

  struct Greatest {
    static __m256 join(__m256 a, __m256 b) noexcept { return _mm256_max_ps(a, b); }
    static __m256 read(const Masked& from, int vector) noexcept {
      const __m256 least = _mm256_set1_ps(-std::numeric_limits<float>::infinity());
      return _mm256_blendv_ps(least, from.load(vector), from.mask(vector));
    }
  };

  /// Lane k of the result joins the numbers of sequence i + k.
  template <class Rule>
  __m256 reduce(std::int64_t i, const Lengths& lengths, Rule& rule) const noexcept {
    alignas(32) std::int32_t count[short_sequences];
    _mm256_store_si256(reinterpret_cast<__m256i*>(count), lengths.numbers);
    const auto at = [&](std::int64_t k) { return Masked(x_, offsets_[i + k], count[k]); };
    const auto read = [&rule](const Masked& from) {
      const __m256 even = rule.join(rule.read(from, 0), rule.read(from, 2));
      return rule.join(even, rule.join(rule.read(from, 1), rule.read(from, 3)));
    };
    __m256 parts[short_sequences];
    if (lengths.within_a_vector()) {
#  pragma GCC unroll 16
      for (std::int64_t k = 0; k < short_sequences; ++k) parts[k] = rule.read(at(k), 0);
    } else {
#  pragma GCC unroll 16
      for (std::int64_t k = 0; k < short_sequences; ++k) parts[k] = read(at(k));
    }
    return fold(parts, rule);
  }

  /// Lane k of the result is part k with lane j joined with lane j + 4, then with j + 2, then with j + 1.
  template <class Rule>
  static __m256 fold(const __m256* parts, const Rule&) noexcept {
    __m256 fours[4], twos[2];  // four lanes each of parts k and k + 4; two lanes each of four parts
#  pragma GCC unroll 16
    for (int k = 0; k < 4; ++k) {
      fours[k] = Rule::join(_mm256_permute2f128_ps(parts[k], parts[k + 4], 0x20),
                            _mm256_permute2f128_ps(parts[k], parts[k + 4], 0x31));
    }
#  pragma GCC unroll 16
    for (std::size_t k = 0; k < 2; ++k) {
      const __m256d a = _mm256_castps_pd(fours[2 * k]), b = _mm256_castps_pd(fours[2 * k + 1]);
      twos[k] = Rule::join(_mm256_castpd_ps(_mm256_unpacklo_pd(a, b)), _mm256_castpd_ps(_mm256_unpackhi_pd(a, b)));
    }
    return Rule::join(_mm256_shuffle_ps(twos[0], twos[1], 0x88), _mm256_shuffle_ps(twos[0], twos[1], 0xDD));
  }

  NumbersByOffset x_;
  const std::int64_t* offsets_;
  std::int64_t last_;  // the last offset from which `reach` numbers may be read
};
#endif
#undef LOD_SHORT_SEQUENCES_BY_AVX512

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu
