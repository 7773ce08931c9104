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

/// sin(angle) and cos(angle), for angles of any size. On GPUs without the many instructions, and the local memory, of
/// which reducing an angle of any size would consist: multiples of pi are taken out first, in two parts.
LOD_HOST_DEVICE inline void sine_and_cosine(double angle, double& sine, double& cosine) {
#ifdef __CUDA_ARCH__
  constexpr double pi = 0x1.921fb54442d18p+1, rest_of_pi = 0x1.1a62633145c07p-53, inverse = 0x1.45f306dc9c883p-2;
  const double half_turns = ::rint(angle * inverse);
  const double rest = ::fma(-half_turns, rest_of_pi, ::fma(-half_turns, pi, angle));
  ::sincospi(rest * inverse, &sine, &cosine);
  if (::fma(-2.0, ::rint(half_turns * 0.5), half_turns) != 0) sine = -sine, cosine = -cosine;
#else
  sine = std::sin(angle);
  cosine = std::cos(angle);
#endif
}

/// Turns pair i of each head of a row.
template <class T>
struct TurnPair {
  using A = Accumulator<T>;

  const T* x;
  Turns turns;
  T* y;

  LOD_HOST_DEVICE void operator()(std::int64_t row, std::int64_t i, std::int64_t position) const {
    double exact_sine, exact_cosine;
    sine_and_cosine(static_cast<double>(position) * turns.frequencies[i], exact_sine, exact_cosine);
    const A cosine = static_cast<A>(exact_cosine), sine = static_cast<A>(turns.back ? -exact_sine : exact_sine);
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
