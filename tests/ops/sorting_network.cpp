// SPDX-License-Identifier: Apache-2.0
// Networks of comparisons, and transposed blocks of numbers: what short sequences are sorted by.
#include "support/grain.hpp"
#include "support/random_batch.hpp"
#include <lod/kernels/cpu/sorting_network.hpp>
#include <lod/kernels/cpu/transpose.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace {

/// Of zeros and ones.
struct BitOrder {
  static std::uint64_t lesser(std::uint64_t a, std::uint64_t b) { return a & b; }
  static std::uint64_t greater(std::uint64_t a, std::uint64_t b) { return a | b; }
};

/// 64 sequences of zeros and ones at a time: a network that sorts all there are sorts everything.
template <std::size_t size>
bool leaves_ones_behind(std::uint64_t (&numbers)[size]) {
  std::uint64_t few[size];
  std::copy_n(numbers, size, few);
  lod::kernel::cpu::sort_by_network<size>(numbers, BitOrder());
  lod::kernel::cpu::sort_by_network<size, 3>(few, BitOrder());
  std::uint64_t descending = 0;
  for (std::size_t i = 1; i < size; ++i) descending |= numbers[i - 1] & ~numbers[i];
  return descending == 0 && std::equal(few, few + std::min<std::size_t>(size, 3), numbers);
}

/// All sequences of up to 24 numbers.
template <std::size_t size>
bool sorts_everything() {
  // The first six numbers of 64 sequences that differ there.
  constexpr std::uint64_t first[] = {0xAAAAAAAAAAAAAAAA, 0xCCCCCCCCCCCCCCCC, 0xF0F0F0F0F0F0F0F0,
                                     0xFF00FF00FF00FF00, 0xFFFF0000FFFF0000, 0xFFFFFFFF00000000};
  constexpr std::size_t fixed = std::min<std::size_t>(size, 6);
  for (std::uint32_t rest = 0; rest < std::uint32_t{1} << (size - fixed); ++rest) {
    std::uint64_t numbers[size];
    std::copy_n(first, fixed, numbers);
    for (std::size_t i = fixed; i < size; ++i) numbers[i] = (rest >> (i - fixed) & 1) != 0 ? ~std::uint64_t{0} : 0;
    if (!leaves_ones_behind(numbers)) return false;
  }
  return true;
}

/// Two ascending sequences of zeros and ones, with every number of ones in each of them; where all is slow, of the
/// second long one with every seventh number, of which each meets some of the first.
template <std::size_t size, std::size_t others = size>
bool merges_everything() {
  const std::size_t step = lod_test::slow && size > 32 ? 7 : 1;
  for (std::size_t a = 0; a <= size; ++a) {
    for (std::size_t b = a % step; b <= others; b += step) {
      std::uint64_t numbers[size + others], lesser[size + others];
      for (std::size_t i = 0; i < size + others; ++i) numbers[i] = (i < size ? i < a : i < size + b) ? 0 : 1;
      std::copy_n(numbers, size + others, lesser);
      lod::kernel::cpu::merge_ascending<false>(numbers, size, numbers + size, others, BitOrder());
      lod::kernel::cpu::merge_ascending<true>(lesser, size, lesser + size, others, BitOrder());
      for (std::size_t i = 0; i < size + others; ++i) {
        if (numbers[i] != (i < a + b ? 0 : 1)) return false;
      }
      if (!std::equal(lesser, lesser + size, numbers)) return false;
    }
  }
  return true;
}

template <class Number, std::size_t size>
bool transposes() {
  typedef Number Row __attribute__((vector_size(size * sizeof(Number))));
  Row rows[size];
  for (std::size_t i = 0; i < size; ++i) {
    for (std::size_t k = 0; k < size; ++k) rows[i][k] = static_cast<Number>(100 * i + k);
  }
  lod::kernel::cpu::transpose(rows);
  bool result = true;
  for (std::size_t i = 0; i < size; ++i) {
    for (std::size_t k = 0; k < size; ++k) result = result && rows[i][k] == static_cast<Number>(100 * k + i);
  }
  return result;
}

}  // namespace

TEST_CASE("sorting network: sorts all sequences of zeros and ones") {
  CHECK(sorts_everything<2>());
  CHECK(sorts_everything<3>());
  CHECK(sorts_everything<8>());
  CHECK(sorts_everything<11>());
  CHECK(sorts_everything<16>());
  if (!lod_test::slow) CHECK(sorts_everything<24>());
  // Too many of 32 to try all.
  lod_test::Engine engine(3);
  bool sorts = true;
  for (int i = 0; i < (lod_test::slow ? 4000 : 100000); ++i) {
    std::uint64_t numbers[32];
    // Sequences with few ones, with many, and with as many as zeros.
    for (std::uint64_t& number : numbers) {
      number = engine();
      for (int k = 0; k < i % 4; ++k) number = i % 8 < 4 ? number & engine() : number | engine();
    }
    sorts = sorts && leaves_ones_behind(numbers);
  }
  CHECK(sorts);
}

TEST_CASE("merge_ascending: merges all sequences of zeros and ones") {
  CHECK(merges_everything<1>());
  CHECK(merges_everything<2>());
  CHECK(merges_everything<8>());
  CHECK(merges_everything<32>());
  CHECK(merges_everything<128>());
  CHECK(merges_everything<128, 32>());
  CHECK(merges_everything<128, 96>());
}

TEST_CASE("transpose: row i becomes column i") {
  CHECK(transposes<double, 2>());
  CHECK(transposes<float, 4>());
  CHECK(transposes<std::int64_t, 8>());
  CHECK(transposes<float, 8>());
  CHECK(transposes<float, 16>());
}
