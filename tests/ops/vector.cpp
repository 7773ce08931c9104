// SPDX-License-Identifier: Apache-2.0
// What the CPU's kernels read and write by vectors, against numbers that are converted one by one.
#include <lod/lod.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

using lod::bfloat16;
using lod::float16;
namespace cpu = lod::kernel::cpu;

namespace {

template <class T>
using Lanes = std::array<lod::kernel::Accumulator<T>, static_cast<std::size_t>(cpu::lanes<T>)>;

template <class T>
Lanes<T> numbers(const cpu::Vector<T>& vector) {
  Lanes<T> all;
  vector.store_unaligned(all.data());
  return all;
}

std::uint32_t bits(float number) { return std::bit_cast<std::uint32_t>(number); }

/// How many floats, of some on both sides of each 16-bit number and of each middle between two, a whole vector rounds
/// to other bits than the conversion of one does.
template <class T>
int rounded_otherwise() {
  constexpr auto lanes = static_cast<std::size_t>(cpu::lanes<T>);
  int others = 0;
  std::vector<float> floats;
  for (std::uint32_t half = 0; half < 0x10000; ++half) {
    const float number = T::from_bits(static_cast<std::uint16_t>(half));
    const float next = T::from_bits(static_cast<std::uint16_t>(half + 1));
    // The middle, as bits, is one of floats also between the greatest number and infinity.
    const std::uint32_t low = bits(number), middle = low + (bits(next) - low) / 2;
    for (std::uint32_t near : {low, middle}) {
      for (std::uint32_t i = near - 2; i != near + 3; ++i) floats.push_back(std::bit_cast<float>(i));
    }
  }
  floats.resize(floats.size() / lanes * lanes);
  for (std::size_t i = 0; i < floats.size(); i += lanes) {
    T rounded[lanes];
    cpu::store<T>(rounded, cpu::load(&floats[i]));
    for (std::size_t k = 0; k < lanes; ++k) others += rounded[k].bits() != T(floats[i + k]).bits();
  }
  return others;
}

}  // namespace

TEST_CASE_TEMPLATE("Vectors: every 16-bit number becomes the float that it is", T, float16, bfloat16) {
  constexpr auto lanes = static_cast<std::size_t>(cpu::lanes<T>);
  int others = 0;
  for (std::uint32_t first = 0; first < 0x10000; first += lanes) {
    T halves[lanes];
    for (std::size_t k = 0; k < lanes; ++k) halves[k] = T::from_bits(static_cast<std::uint16_t>(first + k));
    const Lanes<T> floats = numbers<T>(cpu::load(halves));
    for (std::size_t k = 0; k < lanes; ++k) others += bits(floats[k]) != bits(static_cast<float>(halves[k]));
  }
  CHECK(others == 0);
}

TEST_CASE_TEMPLATE("Vectors: floats are rounded to 16 bits as they are one by one", T, float16, bfloat16) {
  CHECK(rounded_otherwise<T>() == 0);
}

TEST_CASE_TEMPLATE("Vectors: a part of one is read and written, and nothing behind it", T, float16, bfloat16, float,
                   double, std::int8_t, std::int32_t, std::int64_t) {
  using A = lod::kernel::Accumulator<T>;
  constexpr auto lanes = cpu::lanes<T>;
  for (std::int64_t count = 0; count < lanes; ++count) {
    CAPTURE(count);
    // An array of its own, so that sanitizers see what is read after it.
    std::vector<T> x(static_cast<std::size_t>(count));
    for (std::int64_t i = 0; i < count; ++i) x[static_cast<std::size_t>(i)] = static_cast<T>(i + 1);
    Lanes<T> expected;
    for (std::int64_t i = 0; i < lanes; ++i)
      expected[static_cast<std::size_t>(i)] = static_cast<A>(i < count ? i + 1 : 7);
    const cpu::Vector<T> vector = cpu::load(x.data(), count, static_cast<A>(7));
    CHECK(numbers<T>(vector) == expected);
    CHECK(numbers<T>(cpu::load_first(x.data(), count, static_cast<A>(7), count)) == expected);

    std::vector<T> y(static_cast<std::size_t>(count), T{});
    cpu::store(y.data(), vector, count);
    CHECK(std::ranges::equal(y, x));
    std::array<T, static_cast<std::size_t>(lanes)> guarded;
    guarded.fill(static_cast<T>(9));
    cpu::store(guarded.data(), vector, count);
    for (std::int64_t i = 0; i < lanes; ++i) {
      CHECK(guarded[static_cast<std::size_t>(i)] == static_cast<T>(i < count ? i + 1 : 9));
    }
  }
}

#if LOD_MOVES_WORDS
TEST_CASE("Vectors: rows of any number of words are repeated and reversed, and nothing is written after their room") {
  const auto number = [](std::int64_t i) { return static_cast<float>(i + 1); };
  std::vector<float> x(40 * 32);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = number(static_cast<std::int64_t>(i));
  for (std::int64_t size = 1; size <= cpu::RepeatedRow::most; ++size) {
    const cpu::RepeatedRow repeated(size);
    for (std::int64_t rows = 1; rows <= 40; ++rows) {
      for (const std::int64_t room : {rows, rows + 1, rows + 40}) {
        // At any place within a cache line; an array that ends with the room, so that sanitizers see what comes after.
        const std::int64_t first = (size + 3 * rows) % 17;
        std::vector<float> y(static_cast<std::size_t>(first + room * size), -1.F);
        const auto write = [to = y.data() + first](std::int64_t at, std::int64_t begin, std::int64_t end,
                                                   const cpu::Words& some) {
          cpu::store_part(to + at, some, begin, end);
        };
        const std::vector<float> row(x.begin(), x.begin() + size);
        repeated.for_each_vector(repeated.read(row.data()), rows, room, y.data() + first, write);
        std::int64_t others = std::count(y.begin(), y.begin() + first, -1.F) - first;
        for (std::int64_t i = 0; i < rows * size; ++i)
          others += y[static_cast<std::size_t>(first + i)] != number(i % size);
        INFO(rows, " rows of ", size, " words, room for ", room);
        CHECK(others == 0);
        if (size > cpu::ReversedRows::most) continue;
        // All rows but the last `after` ones.
        const std::int64_t after = room % 3, all = rows + after;
        const std::vector<float> source(x.begin(), x.begin() + all * size);
        cpu::ReversedRows{size}(source.data(), all, rows - 1, rows, y.data() + first, room);
        for (std::int64_t i = 0; i < rows * size; ++i) {
          const std::int64_t from = (rows - 1 - i / size) * size + i % size;
          others += y[static_cast<std::size_t>(first + i)] != number(from);
        }
        CHECK(others == 0);
      }
    }
  }
}
#endif
