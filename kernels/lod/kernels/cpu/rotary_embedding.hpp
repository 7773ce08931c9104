// SPDX-License-Identifier: Apache-2.0
/// @file
/// Rotary embedding on the CPU. Cosines and sines are what takes time, and rows need them at positions that follow each
/// other. So a position is split into a multiple of `near_positions` and the rest: those of the rests are in a table,
/// those of a multiple are computed when a row has another one than the row before, and a row's are products of both.
/// Where many sequences begin with the same positions, those of their first rows are kept.
#pragma once

#include <lod/core/version.hpp>
#include <lod/kernels/cpu/half_vector.hpp>
#include <lod/kernels/cpu/large_output.hpp>
#include <lod/kernels/cpu/launch.hpp>
#include <lod/kernels/cpu/parallel.hpp>
#include <lod/kernels/cpu/rows.hpp>
#include <lod/kernels/cpu/shuffle.hpp>
#include <lod/kernels/cpu/vector.hpp>
#include <lod/ops/rotary_embedding.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu {

/// Positions less than this have their cosines and sines in a table.
inline constexpr std::int64_t near_positions = 32;

/// Writes cos(factor * frequency) and sin(factor * frequency) of each of `count` frequencies.
inline void cosines_and_sines(const double* frequencies, std::int64_t count, double factor, double* cosines,
                              double* sines) {
  for (std::int64_t i = 0; i < count; i += lanes<double>) {
    const std::int64_t some = std::min(count - i, lanes<double>);
    const auto [sine, cosine] = xsimd::sincos(load_vector(frequencies + i, some) * Vector<double>(factor));
    store_first<double>(cosines + i, cosine, some, 0);
    store_first<double>(sines + i, sine, some, 0);
  }
}

/// The cosines and sines of all pairs at the positions of the table.
class NearTurns {
 public:
  NearTurns(const CpuExecutor& executor, const Turns& turns, std::int64_t positions)
      : pairs_(turns.pairs),
        numbers_(executor.workspace(),
                 lod::detail::saturated_product(2 * std::min(positions, near_positions), turns.pairs)) {
    for (std::int64_t position = 0; position < std::min(positions, near_positions); ++position) {
      double* const to = numbers_.data() + 2 * position * pairs_;
      cosines_and_sines(turns.frequencies, pairs_, static_cast<double>(position), to, to + pairs_);
    }
  }
  /// The cosines at a position, followed by the sines.
  const double* at(std::int64_t position) const noexcept { return numbers_.data() + 2 * position * pairs_; }

 private:
  std::int64_t pairs_;
  Workspace::Loan<double> numbers_;
};

/// How many cosines a row needs, and how many sines: one for each pair; if pairs are interleaved one for each number,
/// and the sines have the sign of their term.
inline std::int64_t turns_of_head(const Turns& turns) noexcept {
  return turns.interleaved ? 2 * turns.pairs : turns.pairs;
}

/// Works out the cosines and sines that a row is turned by. `far` is scratch for two numbers a pair.
template <class A>
class TurnsOfRow {
 public:
  TurnsOfRow(const NearTurns& near, const Turns& turns, double* far) noexcept
      : near_(near), turns_(turns), far_(far), count_(turns_of_head(turns)) {}

  /// Writes the cosines of a position, followed by the sines.
  void write(std::int64_t position, A* to) {
    constexpr std::int64_t bits = 5;
    static_assert(std::int64_t{1} << bits == near_positions);
    // A negative position is turned back by its distance from 0: the sine of a small angle would lose digits as the
    // difference of two large ones.
    const bool is_negative = position < 0;
    const auto own = static_cast<std::uint64_t>(position), distance = is_negative ? 0 - own : own;
    const auto multiple = static_cast<std::int64_t>(distance >> bits),
               rest = static_cast<std::int64_t>(distance & (near_positions - 1)), pairs = turns_.pairs;
    if (multiple != multiple_ || !has_multiple_) {
      cosines_and_sines(turns_.frequencies, pairs, static_cast<double>(multiple) * near_positions, far_, far_ + pairs);
      multiple_ = multiple;
      has_multiple_ = true;
    }
    const double* const near = near_.at(rest);
    const Vector<double> sign(turns_.back != is_negative ? -1.0 : 1.0);
    if (pairs < lanes<double>) return put(near, 0, pairs, sign, to);
    for (std::int64_t i = 0; i + lanes<double> <= pairs; i += lanes<double>) put(near, i, lanes<double>, sign, to);
    // The last vector may begin before the others end: what is written twice is the same.
    if (pairs % lanes<double> != 0) put(near, pairs - lanes<double>, lanes<double>, sign, to);
  }

 private:
  [[gnu::always_inline]] void put(const double* near, std::int64_t i, std::int64_t some, const Vector<double>& sign,
                                  A* to) const {
    A* const to_sines = to + count_;
    const std::int64_t pairs = turns_.pairs;
    const Vector<double> near_cosine = load_vector(near + i, some), near_sine = load_vector(near + pairs + i, some);
    const Vector<double> far_cosine = load_vector(far_ + i, some), far_sine = load_vector(far_ + pairs + i, some);
    const Vector<double> cosine = multiply_add(near_cosine, far_cosine, -(near_sine * far_sine));
    const Vector<double> sine = multiply_add(near_sine, far_cosine, near_cosine * far_sine) * sign;
    alignas(64) double cosines[static_cast<std::size_t>(lanes<double>)];
    alignas(64) double sines[static_cast<std::size_t>(lanes<double>)];
    cosine.store_aligned(cosines);
    sine.store_aligned(sines);
    if (turns_.interleaved) {
      for (std::int64_t k = 0; k < some; ++k) {
        to[2 * (i + k)] = to[2 * (i + k) + 1] = static_cast<A>(cosines[k]);
        to_sines[2 * (i + k)] = -static_cast<A>(sines[k]);
        to_sines[2 * (i + k) + 1] = static_cast<A>(sines[k]);
      }
    } else {
      for (std::int64_t k = 0; k < some; ++k) to[i + k] = static_cast<A>(cosines[k]);
      for (std::int64_t k = 0; k < some; ++k) to_sines[i + k] = static_cast<A>(sines[k]);
    }
  }

  const NearTurns& near_;
  Turns turns_;
  double* far_;
  std::int64_t count_;
  std::int64_t multiple_ = 0;
  bool has_multiple_ = false;
};

/// The cosines and sines of the first positions of sequences, as `TurnsOfRow` writes them.
template <class A>
class KeptTurns {
 public:
  KeptTurns(const CpuExecutor& executor, const NearTurns& near, const Turns& turns, const Segments& sequences)
      : size_(2 * turns_of_head(turns)),
        positions_(worth_keeping(sequences, size_)),
        numbers_(executor.workspace(), positions_ * size_),
        far_(executor.workspace(), positions_ > 0 ? 2 * turns.pairs : 0) {
    TurnsOfRow<A> of_row(near, turns, far_.data());
    for (std::int64_t position = 0; position < positions_; ++position) {
      of_row.write(position, numbers_.data() + position * size_);
    }
  }
  bool has(std::int64_t position) const noexcept { return position < positions_; }
  const A* at(std::int64_t position) const noexcept { return numbers_.data() + position * size_; }

 private:
  /// What stays in a cache, unless most positions occur once.
  static std::int64_t worth_keeping(const Segments& sequences, std::int64_t size) noexcept {
    constexpr auto most = static_cast<std::int64_t>(131072 / sizeof(A));
    const std::int64_t positions = std::min(sequences.max_rows, most / size);
    return sequences.rows() / 2 >= positions ? positions : 0;
  }

  std::int64_t size_;
  std::int64_t positions_;
  Workspace::Loan<A> numbers_;
  Workspace::Loan<double> far_;
};

/// Each number in the place of its neighbour: those of a pair change places.
template <class A>
[[gnu::always_inline]] inline xsimd::batch<A> swap_neighbours(const xsimd::batch<A>& numbers) {
  const auto place = [](std::size_t i) { return i ^ 1; };
  if constexpr (std::same_as<A, float>) {
    const auto own = __builtin_bit_cast(HalfVector::Floats, numbers);
    HalfVector::Floats swapped;
    shuffle(own, own, place, swapped);
    return __builtin_bit_cast(xsimd::batch<A>, swapped);
  } else {
    typedef double Doubles __attribute__((vector_size(sizeof(xsimd::batch<double>))));
    const auto own = __builtin_bit_cast(Doubles, numbers);
    Doubles swapped;
    shuffle(own, own, place, swapped);
    return __builtin_bit_cast(xsimd::batch<A>, swapped);
  }
}

template <>
struct Kernel<RotaryEmbedding> {
  template <class T>
  static void run(const CpuExecutor& executor, const T* x, std::int64_t rows, const Segments& sequences,
                  const std::int64_t* positions, const Turns& turns, T* y) {
    using A = Accumulator<T>;
    const std::int64_t row_size = 2 * turns.pairs * turns.heads,
                       result_bytes = lod::detail::bytes_of<T>(rows, row_size);
    const cpu::NearTurns near(executor, turns, positions ? cpu::near_positions : sequences.max_rows);
    const cpu::KeptTurns<A> kept(executor, near, turns, sequences);
    const std::int64_t unit = cpu::turns_of_head(turns);
    const cpu::ThreadScratch<double> far(executor, 2 * turns.pairs);
    const cpu::ThreadScratch<A> numbers(executor, 2 * unit);
    const bool past_caches = std::same_as<T, A> && cpu::LargeOutput(result_bytes).past_caches() &&
                             unit % cpu::lanes<T> == 0 && reinterpret_cast<std::uintptr_t>(y) % 64 == 0;
    const std::int64_t bytes = lod::detail::saturated_product(2, result_bytes);
    cpu::parallel_ranges(executor, rows, bytes, [&](std::int64_t begin, std::int64_t end, int thread) {
      cpu::TurnsOfRow<A> of_row(near, turns, far(thread));
      A* const own = numbers(thread);
      const auto turn = [&](std::int64_t row, std::int64_t position) {
        const bool is_kept = !positions && kept.has(position);
        if (!is_kept) of_row.write(position, own);
        const A* const cosines = is_kept ? kept.at(position) : own;
        turn_row(cosines, cosines + unit, turns, past_caches, x + row * row_size, y + row * row_size);
      };
      if (positions) {
        for (std::int64_t row = begin; row < end; ++row) turn(row, positions[row]);
        return;
      }
      for (std::int64_t i = cpu::sequence_of(sequences, begin), row = begin; row < end; ++i) {
        const std::int64_t first = sequences.begin(i), stop = std::min(sequences.begin(i + 1), end);
        for (; row < stop; ++row) turn(row, row - first);
      }
    });
  }

 private:
  template <class T>
  static void turn_row(const Accumulator<T>* cosines, const Accumulator<T>* sines, const Turns& turns, bool past_caches,
                       const T* x, T* y) {
    const auto put = [&](T * to, const cpu::Vector<T>& numbers, std::int64_t some) __attribute__((always_inline)) {
      if constexpr (std::same_as<T, Accumulator<T>>) {
        if (past_caches) return cpu::write_vector<T>(to, numbers);
      }
      cpu::store_first<T>(to, numbers, some, 0);
    };
    const std::int64_t pairs = turns.pairs, size = 2 * pairs;
    for (std::int64_t head = 0; head < turns.heads; ++head, x += size, y += size) {
      if (turns.interleaved) {
        for (std::int64_t i = 0; i < size; i += cpu::lanes<T>) {
          const std::int64_t some = std::min(size - i, cpu::lanes<T>);
          const cpu::Vector<T> number = cpu::load_vector(x + i, some);
          const cpu::Vector<T> other = cpu::swap_neighbours(number) * cpu::load_vector(sines + i, some);
          put(y + i, cpu::multiply_add(number, cpu::load_vector(cosines + i, some), other), some);
        }
      } else {
        for (std::int64_t i = 0; i < pairs; i += cpu::lanes<T>) {
          const std::int64_t some = std::min(pairs - i, cpu::lanes<T>);
          const cpu::Vector<T> a = cpu::load_vector(x + i, some), b = cpu::load_vector(x + pairs + i, some);
          const cpu::Vector<T> cosine = cpu::load_vector(cosines + i, some);
          const cpu::Vector<T> sine = cpu::load_vector(sines + i, some);
          put(y + i, cpu::multiply_add(a, cosine, -(b * sine)), some);
          put(y + pairs + i, cpu::multiply_add(b, cosine, a * sine), some);
        }
      }
    }
  }
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu
