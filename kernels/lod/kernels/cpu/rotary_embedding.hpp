// SPDX-License-Identifier: Apache-2.0
/// @file
/// Rotary embedding on the CPU. Cosines and sines are what takes time, and rows need them at positions that follow each
/// other. So a position is split into a multiple of `near_positions` and the rest: those of the rests are in a table,
/// those of a multiple are computed when a row has another one than the row before, and a row's are products of both.
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

/// The cosines and sines that a row is turned by. `far` is scratch for two numbers a pair, `numbers` for four.
template <class A>
class TurnsOfRow {
 public:
  TurnsOfRow(const NearTurns& near, const Turns& turns, double* far, A* numbers) noexcept
      : near_(near), turns_(turns), far_(far), cosines_(numbers), sines_(numbers + 2 * turns.pairs) {}

  void move_to(std::int64_t position) {
    constexpr std::int64_t bits = 5;
    static_assert(std::int64_t{1} << bits == near_positions);
    const std::int64_t multiple = position >> bits, rest = position & (near_positions - 1), pairs = turns_.pairs;
    if (multiple != multiple_ || !has_multiple_) {
      cosines_and_sines(turns_.frequencies, pairs, static_cast<double>(multiple) * near_positions, far_, far_ + pairs);
      multiple_ = multiple;
      has_multiple_ = true;
    }
    const double* const near = near_.at(rest);
    const Vector<double> sign(turns_.back ? -1.0 : 1.0);
    // The last vectors may begin where those before them did not end: what is written twice is the same.
    if (pairs < lanes<double>) {
      put(near, 0, pairs, sign);
    } else {
      for (std::int64_t i = 0; i + lanes<double> <= pairs; i += lanes<double>) put(near, i, lanes<double>, sign);
      put(near, pairs - lanes<double>, lanes<double>, sign);
    }
  }

  /// One for each pair; if pairs are interleaved one for each number, the sines with the sign of their term.
  const A* cosines() const noexcept { return cosines_; }
  const A* sines() const noexcept { return sines_; }

 private:
  [[gnu::always_inline]] void put(const double* near, std::int64_t i, std::int64_t some, const Vector<double>& sign) {
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
        cosines_[2 * (i + k)] = cosines_[2 * (i + k) + 1] = static_cast<A>(cosines[k]);
        sines_[2 * (i + k)] = -static_cast<A>(sines[k]);
        sines_[2 * (i + k) + 1] = static_cast<A>(sines[k]);
      }
    } else {
      for (std::int64_t k = 0; k < some; ++k) cosines_[i + k] = static_cast<A>(cosines[k]);
      for (std::int64_t k = 0; k < some; ++k) sines_[i + k] = static_cast<A>(sines[k]);
    }
  }

  const NearTurns& near_;
  Turns turns_;
  double* far_;
  A* cosines_;
  A* sines_;
  std::int64_t multiple_ = 0;
  bool has_multiple_ = false;
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
    const cpu::ThreadScratch<double> far(executor, 2 * turns.pairs);
    const cpu::ThreadScratch<A> numbers(executor, 4 * turns.pairs);
    const std::int64_t unit = turns.interleaved ? 2 * turns.pairs : turns.pairs;
    const bool past_caches = std::same_as<T, A> && cpu::LargeOutput(result_bytes).past_caches() &&
                             unit % cpu::lanes<T> == 0 && reinterpret_cast<std::uintptr_t>(y) % 64 == 0;
    const std::int64_t bytes = lod::detail::saturated_product(2, result_bytes);
    cpu::parallel_ranges(executor, rows, bytes, [&](std::int64_t begin, std::int64_t end, int thread) {
      cpu::TurnsOfRow<A> turns_of_row(near, turns, far(thread), numbers(thread));
      const auto turn = [&](std::int64_t row, std::int64_t position) {
        turns_of_row.move_to(position);
        turn_row(turns_of_row, turns, past_caches, x + row * row_size, y + row * row_size);
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
  static void turn_row(const cpu::TurnsOfRow<Accumulator<T>>& by, const Turns& turns, bool past_caches, const T* x,
                       T* y) {
    const auto put = [past_caches](T * to, const cpu::Vector<T>& numbers, std::int64_t some)
        __attribute__((always_inline)) {
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
          const cpu::Vector<T> other = cpu::swap_neighbours(number) * cpu::load_vector(by.sines() + i, some);
          put(y + i, cpu::multiply_add(number, cpu::load_vector(by.cosines() + i, some), other), some);
        }
      } else {
        for (std::int64_t i = 0; i < pairs; i += cpu::lanes<T>) {
          const std::int64_t some = std::min(pairs - i, cpu::lanes<T>);
          const cpu::Vector<T> a = cpu::load_vector(x + i, some), b = cpu::load_vector(x + pairs + i, some);
          const cpu::Vector<T> cosine = cpu::load_vector(by.cosines() + i, some);
          const cpu::Vector<T> sine = cpu::load_vector(by.sines() + i, some);
          put(y + i, cpu::multiply_add(a, cosine, -(b * sine)), some);
          put(y + pairs + i, cpu::multiply_add(b, cosine, a * sine), some);
        }
      }
    }
  }
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu
