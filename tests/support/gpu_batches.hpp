// SPDX-License-Identifier: Apache-2.0
/// @file
/// Random batches for calls on a GPU.
#pragma once

#include "catalogue/case.hpp"
#include "support/grain.hpp"
#include "support/random_batch.hpp"
#include "support/random_lod.hpp"
#include <lod/lod_tensor.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>

namespace lod_test {

inline constexpr std::int64_t gpu_row_sizes[] = {1, 3, 8, 17, 64};

/// body(draws) for random LoDs of one to three levels, with empty sequences at each of them, with nothing else and
/// without any; and for one giant among short sequences. Row sizes, and lengths of lists of ids, take turns, so that
/// each is there with each.
template <class Body>
void for_each_gpu_batch(const Body& body) {
  constexpr std::int64_t listed[] = {0, 1, 40, slow ? 3 : 2000};
  std::size_t turn = 0;
  const auto call = [&](Engine& engine, const lod::LoD& whole, std::int64_t row_size) {
    const std::int64_t rows = listed[turn++ % 4];
    INFO("row size ", row_size, ", ", rows, " listed rows");
    body(Draws(engine, whole, row_size, rows).middle());
  };
  for_each_random_lod(slow ? 2 : 5, 1, 3, [&](Engine& engine, const Lengths& lengths) {
    call(engine, lod::LoD::from_lengths(lengths), gpu_row_sizes[turn % 5]);
  });
  for (const std::int64_t row_size : gpu_row_sizes) {
    if (slow && row_size != 3) continue;
    INFO("a giant");
    Engine engine(first_seed() + 100);
    const lod::LoD sentences = giant_among_short(engine, 200, slow ? 700 : 3000);
    call(engine, lod::LoD::from_lengths({{1, 60, 0, 137, 2}, sentences.lengths(0)}), row_size);
  }
}

}  // namespace lod_test
