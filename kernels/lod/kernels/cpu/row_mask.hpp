// SPDX-License-Identifier: Apache-2.0
/// @file
/// Rows of one id as the bits of a word: which of 64 rows are equal to something, and compaction of the rows that a
/// word selects. xsimd 8.1 neither turns comparisons into bits nor shuffles by them: this is written for AVX-512 and
/// AVX2 where available, and otherwise with the compiler's own vectors or plain loops.
#pragma once

#include <lod/core/target.hpp>
#include <lod/kernels/cpu/intrinsics.hpp>
#include <lod/kernels/cpu/line_writer.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu {

/// The rows of a word.
inline constexpr std::int64_t mask_rows = 64;

/// The bits of `count` < 64 rows.
inline std::uint64_t first_rows(std::uint64_t count) noexcept { return (std::uint64_t{1} << count) - 1; }

/// Bit k is is_set(k) for the first `count` rows; the others are 0.
template <class IsSet>
inline std::uint64_t row_mask(std::int64_t count, const IsSet& is_set) noexcept {
  std::uint64_t mask = 0;
  for (std::int64_t k = 0; k < count; ++k) mask |= static_cast<std::uint64_t>(is_set(k)) << k;
  return mask;
}

#ifdef __AVX2__
/// Ids of `size` bytes, compared in vectors of 32 bytes.
template <std::size_t size>
struct IdVectors {
  static constexpr std::int64_t ids = 32 / static_cast<std::int64_t>(size);

  static __m256i load(const void* x) noexcept { return _mm256_loadu_si256(static_cast<const __m256i*>(x)); }
  /// One id in all lanes.
  template <class T>
  static __m256i all(T id) noexcept {
    if constexpr (size == 1) return _mm256_set1_epi8(static_cast<char>(id));
    if constexpr (size == 2) return _mm256_set1_epi16(static_cast<short>(id));
    if constexpr (size == 4) return _mm256_set1_epi32(static_cast<int>(id));
    if constexpr (size == 8) return _mm256_set1_epi64x(static_cast<long long>(id));
  }
  static __m256i equal(__m256i a, __m256i b) noexcept {
    if constexpr (size == 1) return _mm256_cmpeq_epi8(a, b);
    if constexpr (size == 2) return _mm256_cmpeq_epi16(a, b);
    if constexpr (size == 4) return _mm256_cmpeq_epi32(a, b);
    if constexpr (size == 8) return _mm256_cmpeq_epi64(a, b);
  }
  /// The bits of `rows` rows, which fill whole vectors; lanes(k) returns those of the vector that begins with row k,
  /// all ones or all zeros.
  template <std::int64_t rows = mask_rows, class Lanes>
  static std::uint64_t mask(const Lanes& lanes) noexcept {
    std::uint64_t result = 0;
    if constexpr (size == 2) {
      for (std::int64_t k = 0; k < rows; k += 2 * ids) {
        const __m256i bytes = _mm256_permute4x64_epi64(_mm256_packs_epi16(lanes(k), lanes(k + ids)), 0xD8);
        result |= std::uint64_t{static_cast<std::uint32_t>(_mm256_movemask_epi8(bytes))} << k;
      }
    } else {
#  ifdef __CUDACC__  // it passes the pragma on, but warns that it does not know it
#    pragma nv_diagnostic push
#    pragma nv_diag_suppress 1675
#  endif
#  pragma GCC unroll 16
      for (std::int64_t k = 0; k < rows; k += ids) result |= std::uint64_t{bits(lanes(k))} << k;
#  ifdef __CUDACC__
#    pragma nv_diagnostic pop
#  endif
    }
    return result;
  }

 private:
  static std::uint32_t bits(__m256i lanes) noexcept {
    if constexpr (size == 1) return static_cast<std::uint32_t>(_mm256_movemask_epi8(lanes));
    if constexpr (size == 4) return static_cast<std::uint32_t>(_mm256_movemask_ps(_mm256_castsi256_ps(lanes)));
    if constexpr (size == 8) return static_cast<std::uint32_t>(_mm256_movemask_pd(_mm256_castsi256_pd(lanes)));
  }
};
#endif

#ifdef __AVX2__
/// Which of 64 rows equal one of `count` tokens, which stay in registers.
template <std::size_t count, class T>
inline std::uint64_t rows_equal(const T* x, const T* tokens) noexcept {
  using Ids = IdVectors<sizeof(T)>;
  __m256i all[count];
  for (std::size_t i = 0; i < count; ++i) all[i] = Ids::all(tokens[i]);
  return Ids::mask([x, &all](std::int64_t k) {
    const __m256i rows = Ids::load(x + k);
    __m256i found = Ids::equal(rows, all[0]);
    for (std::size_t i = 1; i < count; ++i) found = _mm256_or_si256(found, Ids::equal(rows, all[i]));
    return found;
  });
}
#endif

#ifdef __AVX512BW__
/// A bit for each id of a vector of 64 bytes that equals `id`.
template <class T>
inline std::uint64_t ids_equal(const T* x, T id) noexcept {
  const __m512i ids = _mm512_loadu_si512(x);
  if constexpr (sizeof(T) == 1) return _mm512_cmpeq_epi8_mask(ids, _mm512_set1_epi8(static_cast<char>(id)));
  if constexpr (sizeof(T) == 2) return _mm512_cmpeq_epi16_mask(ids, _mm512_set1_epi16(static_cast<short>(id)));
  if constexpr (sizeof(T) == 4) return _mm512_cmpeq_epi32_mask(ids, _mm512_set1_epi32(static_cast<int>(id)));
  if constexpr (sizeof(T) == 8) return _mm512_cmpeq_epi64_mask(ids, _mm512_set1_epi64(static_cast<long long>(id)));
}
#elif !defined(__AVX2__)
/// Ids of `size` bytes, compared in vectors of 16 bytes: each bit of a lane is for a row of a block.
template <std::size_t size>
struct IdWords {
  using Word = std::conditional_t<
      size == 8, std::uint64_t,
      std::conditional_t<size == 4, std::uint32_t, std::conditional_t<size == 2, std::uint16_t, std::uint8_t>>>;
  typedef Word Lanes __attribute__((vector_size(16)));
  static constexpr std::int64_t lanes = 16 / static_cast<std::int64_t>(size),
                                bits = 8 * static_cast<std::int64_t>(size);
  /// The rows that are compared at a time: those of a word, or more where a vector has more lanes.
  static constexpr std::int64_t block = std::max(lanes, bits);

  /// Which rows of a block, at most `rows`, equal the id.
  template <std::int64_t rows>
  static std::uint64_t equal(const void* x, Word id) noexcept {
    const Lanes all = Lanes{} + id;
    Lanes found = {};
    for (std::int64_t k = 0; k < std::min(rows, block); k += lanes) {
      Lanes ids, own;
      std::memcpy(&ids, static_cast<const Word*>(x) + k, sizeof ids);
      std::memcpy(&own, own_bits.data() + k, sizeof own);
      found |= __builtin_bit_cast(Lanes, ids == all) & own;
    }
    const auto halves = __builtin_bit_cast(std::array<std::uint64_t, 2>, found);
    if constexpr (block > bits) return joined(halves[0]) | joined(halves[1]) << bits;
    return joined(halves[0] | halves[1]);
  }

 private:
  /// For each row of a block, its bit in its word.
  static constexpr auto own_bits = [] {
    std::array<Word, static_cast<std::size_t>(block)> result{};
    for (std::int64_t k = 0; k < block; ++k)
      result[static_cast<std::size_t>(k)] = static_cast<Word>(Word{1} << k % bits);
    return result;
  }();

  /// The bits of all words combined in this one.
  static std::uint64_t joined(std::uint64_t words) noexcept {
    for (int shift = 32; shift >= bits; shift /= 2) words |= words >> shift;
    return static_cast<Word>(words);
  }
};
#endif

/// Which of `rows` rows, at most 64, equal the id. They fill whole vectors of 64 bytes.
template <std::int64_t rows, class T>
inline std::uint64_t rows_equal(const T* x, T id) noexcept {
  static_assert(rows * sizeof(T) % 64 == 0);
#if defined(__AVX512BW__)
  std::uint64_t found = 0;
  constexpr std::int64_t ids = 64 / static_cast<std::int64_t>(sizeof(T));
  for (std::int64_t k = 0; k < rows; k += ids) found |= ids_equal(x + k, id) << k;
  return found;
#elif defined(__AVX2__)
  using Ids = IdVectors<sizeof(T)>;
  const __m256i all = Ids::all(id);
  return Ids::template mask<rows>([x, all](std::int64_t k) { return Ids::equal(Ids::load(x + k), all); });
#else
  using Ids = IdWords<sizeof(T)>;
  std::uint64_t found = 0;
  for (std::int64_t k = 0; k < rows; k += Ids::block) {
    found |= Ids::template equal<rows>(x + k, static_cast<typename Ids::Word>(id)) << k;
  }
  return found;
#endif
}

/// Which of `count` <= 64 rows equal one of the tokens. The time grows with the number of tokens.
template <class T>
inline std::uint64_t rows_equal(const T* x, std::int64_t count, std::span<const T> tokens) noexcept {
#ifdef __AVX2__
  if (count == mask_rows) {
    std::uint64_t found = 0;
    for (; tokens.size() > 4; tokens = tokens.subspan(4)) found |= rows_equal<4>(x, tokens.data());
    switch (tokens.size()) {
      case 1:
        return found | rows_equal<1>(x, tokens.data());
      case 2:
        return found | rows_equal<2>(x, tokens.data());
      case 3:
        return found | rows_equal<3>(x, tokens.data());
      case 4:
        return found | rows_equal<4>(x, tokens.data());
      default:
        return found;
    }
  }
#else
  if (count == mask_rows) {
    std::uint64_t found = 0;
    for (const T token : tokens) found |= rows_equal<mask_rows>(x, token);
    return found;
  }
#endif
  return row_mask(count, [x, tokens](std::int64_t k) {
    bool found = false;
    for (const T token : tokens) found |= x[k] == token;
    return found;
  });
}

/// Which of `count` <= 64 rows equal the row before them; the first one must have a row before it too.
template <class T>
inline std::uint64_t rows_repeated(const T* x, std::int64_t count) noexcept {
#ifdef __AVX2__
  if (count == mask_rows) {
    using Ids = IdVectors<sizeof(T)>;
    return Ids::mask([x](std::int64_t k) { return Ids::equal(Ids::load(x + k), Ids::load(x + k - 1)); });
  }
#endif
  return row_mask(count, [x](std::int64_t k) { return x[k] == x[k - 1]; });
}

#ifdef __AVX2__
/// For each mask of a vector, the words of 4 bytes from which its selected lanes of `size` bytes are gathered.
template <std::size_t size>
inline constexpr auto packed_lanes = [] {
  constexpr std::size_t lanes = 32 / size, words = size / 4;
  std::array<std::array<std::uint8_t, 8>, std::size_t{1} << lanes> table{};
  for (std::size_t mask = 0; mask < table.size(); ++mask) {
    std::size_t to = 0;
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      for (std::size_t word = 0; (mask >> lane & 1) != 0 && word < words; ++word) {
        table[mask][to++] = static_cast<std::uint8_t>(lane * words + word);
      }
    }
  }
  return table;
}();
#endif

/// The room for the rows of a word and for what `pack_rows` writes after them.
template <class T>
inline constexpr std::int64_t pack_room = mask_rows + 32 / static_cast<std::int64_t>(sizeof(T));
/// Writes the rows of a word that the mask selects, one after the other, to y, which has room for `pack_room<T>` rows.
template <class T>
inline void pack_rows(const T* x, std::uint64_t mask, T* y) noexcept {
  if (mask == ~std::uint64_t{0}) {
    copy_blocks<mask_rows * sizeof(T)>(x, y);
    return;
  }
#ifdef __AVX2__
  if constexpr (sizeof(T) >= 4) {
    constexpr std::int64_t lanes = 32 / static_cast<std::int64_t>(sizeof(T));
    constexpr auto& table = packed_lanes<sizeof(T)>;
    // The last vector may reach beyond the rows: there are as many rows as bits up to the last one set.
    const std::int64_t whole = (mask_rows - std::countl_zero(mask)) / lanes * lanes;
    std::int64_t k = 0;
    for (; k < whole; k += lanes) {
      const std::size_t some = mask >> k & (table.size() - 1);
      const __m256i words = _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(table[some].data())));
      const __m256i rows = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x + k));
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(y), _mm256_permutevar8x32_epi32(rows, words));
      y += std::popcount(some);
    }
    mask = k < mask_rows ? mask >> k << k : 0;
  }
#endif
  for (; mask != 0; mask &= mask - 1) *y++ = x[std::countr_zero(mask)];
}

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu
