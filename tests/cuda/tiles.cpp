// SPDX-License-Identifier: Apache-2.0
/// @file
/// What the bodies of GPU kernels share: how the sequence of a row is found, and how rows are moved.
#include "support/random_batch.hpp"
#include <lod/kernels/bulk/pieces.hpp>
#include <lod/kernels/cuda/tile.hpp>
#include <lod/lod_index.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

using namespace lod_test;
namespace bulk = lod::kernel::bulk;

namespace {

/// Those of a level with sequences of the lengths.
class Sequences {
 public:
  explicit Sequences(const std::vector<std::int64_t>& lengths) : offsets_{7} {  // as those of a slice
    for (const std::int64_t length : lengths) offsets_.push_back(offsets_.back() + length);
  }
  lod::kernel::Segments segments() const {
    return {offsets_.data(), static_cast<std::int64_t>(offsets_.size()) - 1, offsets_.back()};
  }

 private:
  std::vector<std::int64_t> offsets_;
};

}  // namespace

TEST_CASE("the sequence of a row: by halves, and by many that vote") {
  Engine engine(41);
  for (int round = 0; round < 60; ++round) {
    std::vector<std::int64_t> lengths;
    const std::int64_t size = random_number(engine, 0, 150);
    for (std::int64_t i = 0; i < size; ++i) {
      lengths.push_back(random_number(engine, 0, 2) == 0 ? random_number(engine, 1, 9) : 0);
    }
    const Sequences sequences(lengths);
    const lod::kernel::Segments all = sequences.segments();
    std::int64_t row = 0;
    for (std::int64_t i = 0; i < size; ++i) {
      for (const std::int64_t end = row + lengths[static_cast<std::size_t>(i)]; row < end; ++row) {
        REQUIRE(bulk::sequence_of(all, row) == i);
        for (const int voters : {1, 2, 3, 32}) {
          const auto vote = [&](const auto& holds) {
            int votes = 0;
            for (int voter = 0; voter < voters; ++voter) votes += holds(voter) ? 1 : 0;
            return votes;
          };
          REQUIRE(bulk::sequence_by_votes(all, row, voters, vote) == i);
        }
      }
    }
    REQUIRE(bulk::sequence_of(all, row) == size);
  }
}

TEST_CASE("the sequence of a row: by marks, in parts of a level too") {
  Engine engine(42);
  for (int round = 0; round < 40; ++round) {
    std::vector<std::int64_t> offsets = {0};
    const std::int64_t size = random_number(engine, 0, 300);
    for (std::int64_t i = 0; i < size; ++i) {
      const bool is_long = random_number(engine, 0, 20) == 0, is_empty = random_number(engine, 0, 2) == 0;
      offsets.push_back(offsets.back() + (is_long ? 256 * random_number(engine, 1, 5) + random_number(engine, -1, 1)
                                                  : (is_empty ? 0 : random_number(engine, 1, 9))));
    }
    std::vector<std::int64_t> marks;
    lod::detail::RowMarks::for_each(offsets.data(), size, [&](std::int64_t mark) { marks.push_back(mark); });
    REQUIRE(static_cast<std::int64_t>(marks.size()) == lod::detail::RowMarks::count(offsets.back()));
    for (int part = 0; part < 4; ++part) {
      const std::int64_t begin = part == 0 ? 0 : random_number(engine, 0, size);
      const std::int64_t end = part == 0 ? size : random_number(engine, begin, size);
      const std::int64_t* const from = offsets.data() + begin;
      const lod::kernel::Segments unmarked(from, end - begin, offsets.back());
      const lod::kernel::Segments marked = unmarked.at(from, {marks.data(), begin});
      bool same = true;
      for (std::int64_t row = 0; row <= unmarked.rows(); ++row) {
        same = same && bulk::sequence_of(marked, row) == bulk::sequence_of(unmarked, row);
      }
      REQUIRE(same);
      for (const std::int64_t row_size : {1, 3}) {
        std::int64_t called = 0;
        for (std::int64_t first = 0; first < marked.rows(); first += 64) {
          const bulk::Tile tile(marked, bulk::Divisor(static_cast<std::uint32_t>(row_size)), first, 64);
          REQUIRE(!tile.is_unmarked());
          // Without marks, between those of the ends.
          const bulk::Tile plain(unmarked, bulk::Divisor(static_cast<std::uint32_t>(row_size)), first, 64);
          const bulk::SequenceRange ends{bulk::sequence_of(unmarked, plain.first_row()),
                                         bulk::sequence_of(unmarked, plain.last_row())};
          const std::uint32_t threads = round % 3 == 0 ? 1 : round % 3 == 1 ? 10 : 256;
          std::int64_t found[64] = {}, found_between[64] = {};
          for (std::uint32_t thread = 0; thread < threads; ++thread) {
            tile.find_sequences(thread, threads, {}, found);
            plain.find_sequences(thread, threads, ends, found_between);
          }
          for (std::uint32_t at = 0; at < tile.elements(); ++at) {
            tile.call(at, found, [&](std::int64_t i, std::int64_t row, std::int64_t column) {
              same = same && i == bulk::sequence_of(unmarked, row) && row * row_size + column == called++;
            });
            plain.call(at, found_between, [&](std::int64_t i, std::int64_t row, std::int64_t) {
              same = same && i == bulk::sequence_of(unmarked, row);
            });
          }
        }
        REQUIRE(same);
        REQUIRE(called == marked.rows() * row_size);
      }
    }
  }
}

TEST_CASE("a divisor gives the quotients and remainders of a division") {
  Engine engine(43);
  constexpr std::int64_t most = 0x7fffffff;
  std::vector<std::int64_t> divisors = {1, 2, 3, 5, 7, 16, 64, 641, 65535, 65536, 65537, most / 2, most - 1, most};
  for (int i = 0; i < 200; ++i) divisors.push_back(random_number(engine, 1, most >> (i % 31)));
  bool same = true;
  for (const std::int64_t divisor : divisors) {
    std::vector<std::int64_t> numbers = {0, 1, divisor - 1, divisor, most - 1, most, most / divisor * divisor};
    numbers.push_back(numbers.back() - 1);
    for (int i = 0; i < 200; ++i) {
      const std::int64_t multiple = random_number(engine, 0, most / divisor) * divisor;
      numbers.insert(numbers.end(), {multiple, multiple + divisor / 2, multiple + divisor - 1, multiple - 1});
    }
    const bulk::Divisor by(static_cast<std::uint32_t>(divisor));
    for (const std::int64_t number : numbers) {
      if (number < 0 || number > most) continue;
      const std::uint32_t quotient = by.quotient(static_cast<std::uint32_t>(number));
      same = same && quotient == number / divisor &&
             by.remainder(static_cast<std::uint32_t>(number), quotient) == number % divisor;
    }
  }
  CHECK(same);
}

TEST_CASE("elements are gone through in blocks, each of them once, however few fit a block") {
  for (const std::int64_t rows : {1, 2, 7}) {
    for (const std::int64_t row_size : {1, 3, 10}) {
      for (const std::int64_t most : {1, 2, 3, 4, 9, 10, 25, 1000}) {
        CAPTURE(rows);
        CAPTURE(row_size);
        CAPTURE(most);
        std::vector<int> calls(static_cast<std::size_t>(rows * row_size));
        std::int64_t blocks = 0;
        bulk::for_each_block(rows, row_size, most, [&](const bulk::ElementBlock& block) {
          ++blocks;
          REQUIRE(block.count <= most);
          for (std::uint32_t at = 0; at < block.count; ++at) {
            block.call(at, [&](std::int64_t row, std::int64_t column) {
              REQUIRE(column < row_size);
              ++calls[static_cast<std::size_t>(row * row_size + column)];
            });
          }
        });
        CHECK(calls == std::vector<int>(calls.size(), 1));
        if (rows * row_size <= most) CHECK(blocks == 1);
      }
    }
  }
}

TEST_CASE("rows are moved by pieces of 16 bytes, or by numbers where they are not aligned") {
  alignas(16) float from[20], to[20];
  for (int i = 0; i < 20; ++i) from[i] = static_cast<float>(i);
  for (const std::int64_t row_size : {1, 3, 4, 8}) {
    for (const int source : {0, 1, 4}) {
      for (const int target : {0, 2, 4}) {
        CAPTURE(row_size);
        CAPTURE(source);
        CAPTURE(target);
        for (float& number : to) number = -1;
        const bulk::Pieces<float> pieces(to + target, row_size);
        CHECK(pieces.in_row() == (row_size % 4 == 0 && target % 4 == 0 ? row_size / 4 : row_size));
        for (std::int64_t piece = 0; piece < pieces.in_row(); ++piece) pieces.copy(to + target, from + source, piece);
        for (int i = 0; i < 20; ++i) {
          const bool moved = i >= target && i < target + row_size;
          CHECK(to[i] == (moved ? static_cast<float>(i - target + source) : -1));
        }
        for (std::int64_t piece = 0; piece < pieces.in_row(); ++piece)
          pieces.fill(to + target + piece * pieces.width(), 5);
        for (int i = 0; i < 20; ++i) CHECK(to[i] == (i >= target && i < target + row_size ? 5 : -1));
      }
    }
  }
}
