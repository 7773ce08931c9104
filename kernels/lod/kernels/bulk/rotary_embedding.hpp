// SPDX-License-Identifier: Apache-2.0
/// @file
/// Rotary embedding in bulk: a body turns one pair of each head of a row.
#pragma once

#include <lod/core/version.hpp>
#include <lod/kernels/bulk/bulk.hpp>
#include <lod/kernels/row_statistics.hpp>
#include <lod/ops/rotary_embedding.hpp>

#include <cmath>
#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk {

/// Turns pair i of each head of a row.
template <class T>
struct TurnPair {
  using A = Accumulator<T>;

  const T* x;
  Turns turns;
  T* y;

  LOD_HOST_DEVICE void operator()(std::int64_t row, std::int64_t i, std::int64_t position) const {
    const double angle = static_cast<double>(position) * turns.frequencies[i];
    const A cosine = static_cast<A>(std::cos(angle)), sine = static_cast<A>(std::sin(turns.back ? -angle : angle));
    const std::int64_t size = 2 * turns.pairs, second = turns.interleaved ? 1 : turns.pairs;
    std::int64_t at = row * turns.heads * size + (turns.interleaved ? 2 * i : i);
    for (std::int64_t head = 0; head < turns.heads; ++head, at += size) {
      const A a = static_cast<A>(x[at]), b = static_cast<A>(x[at + second]);
      y[at] = static_cast<T>(fused(a, cosine, -(b * sine)));
      y[at + second] = static_cast<T>(fused(b, cosine, a * sine));
    }
  }
};

template <>
struct Kernel<RotaryEmbedding> {
  template <class E, class T>
  static void run(const E& executor, const T* x, std::int64_t rows, const Segments& sequences,
                  const std::int64_t* positions, const Turns& turns, T* y) {
    const TurnPair<T> turn{x, turns, y};
    if (positions) {
      for_each_element(executor, rows, turns.pairs,
                       [=] LOD_HOST_DEVICE(std::int64_t row, std::int64_t i) { turn(row, i, positions[row]); });
      return;
    }
    const auto turn_in_sequence = [=] LOD_HOST_DEVICE(std::int64_t sequence, std::int64_t row, std::int64_t i) {
      turn(row, i, row - sequences.begin(sequence));
    };
    for_each_in_sequences(executor, sequences, turns.pairs, turn_in_sequence);
  }
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk
