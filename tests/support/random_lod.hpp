// SPDX-License-Identifier: Apache-2.0
/// @file
/// Random LoDs of every depth, from a seed that failing tests print.
#pragma once

#include "support/random_batch.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <numeric>
#include <vector>

namespace lod_test {

using Lengths = std::vector<std::vector<std::int64_t>>;

/// The seed of the random LoDs: that in the environment variable LOD_TEST_SEED, else always the same.
inline std::uint64_t first_seed() {
  const char* given = std::getenv("LOD_TEST_SEED");
  return given ? std::strtoull(given, nullptr, 10) : 20171023;
}

/// Scalar rows 0, 1, 2, ...: as many as the lengths say, or `plain_rows` under no level.
inline lod::LoDTensor<std::int64_t> counted_rows(const Lengths& lengths, std::int64_t plain_rows = 0) {
  lod::LoDTensor<std::int64_t> x = lengths.empty() ? lod::LoDTensor<std::int64_t>({plain_rows})
                                                   : lod::LoDTensor<std::int64_t>(lod::LoD::from_lengths(lengths), {});
  std::iota(x.values().begin(), x.values().end(), 0);
  return x;
}

/// What a random LoD is like.
struct RandomLoD {
  int levels = 2;
  std::int64_t sequences = 6;       ///< at most so many of level 0, perhaps none
  std::int64_t length = 4;          ///< the longest sequence of any level
  std::int64_t empty_percent = 25;  ///< how many of the sequences are empty
  std::int64_t giant = 0;           ///< the length of one sequence of the last level, if there is any; 0: as the others

  Lengths lengths(Engine& engine) const {
    Lengths all;
    std::int64_t size = random_number(engine, 0, sequences);
    for (int level = 0; level < levels; ++level) {
      auto& lengths = all.emplace_back();
      std::int64_t below = 0;
      for (std::int64_t i = 0; i < size; ++i) {
        lengths.push_back(random_number(engine, 1, 100) <= empty_percent ? 0 : random_number(engine, 1, length));
        below += lengths.back();
      }
      size = below;
    }
    if (giant > 0 && levels > 0 && !all.back().empty()) {
      const auto last = static_cast<std::int64_t>(all.back().size()) - 1;
      all.back()[static_cast<std::size_t>(random_number(engine, 0, last))] = giant;
    }
    return all;
  }
};

/// Calls body(engine, lengths) for `count` random LoDs of every depth from `min_levels` to `max_levels`, among them
/// such without empty sequences, with nearly only those, with nothing else, with a giant, and without any sequence. A
/// check that fails prints the seed.
template <class Body>
void for_each_random_lod(int count, int min_levels, int max_levels, const Body& body) {
  constexpr std::int64_t empty_percent[] = {25, 0, 100, 80};
  for (int levels = min_levels; levels <= max_levels; ++levels) {
    for (int i = 0; i < count; ++i) {
      INFO("LOD_TEST_SEED=", first_seed(), ": sample ", i, " of depth ", levels);
      Engine engine(first_seed() + static_cast<std::uint64_t>(i));
      const RandomLoD kind{.levels = levels, .empty_percent = empty_percent[i % 4], .giant = i % 8 == 4 ? 300 : 0};
      body(engine, kind.lengths(engine));
    }
  }
}

}  // namespace lod_test
