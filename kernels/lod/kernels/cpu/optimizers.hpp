// SPDX-License-Identifier: Apache-2.0
/// @file
/// The two loops of all optimizers on the CPU: over dense tensors, and over the rows of row-sparse gradients.
#pragma once

#include <lod/core/sizes.hpp>
#include <lod/core/version.hpp>
#include <lod/kernels/careful_update.hpp>
#include <lod/kernels/cpu/launch.hpp>
#include <lod/kernels/cpu/merge_rows.hpp>
#include <lod/kernels/cpu/parallel.hpp>
#include <lod/kernels/cpu/vector.hpp>
#include <lod/ops/optimizers.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <tuple>
#include <type_traits>
#include <utility>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu {

template <class S, std::size_t n>
inline std::array<S*, n> advance(std::array<S*, n> states, std::int64_t distance) noexcept {
  for (S*& state : states) state += distance;
  return states;
}

/// `total` + `numbers`, finite only if all numbers are finite once they are rounded to X: anything added to an infinity
/// or a NaN leaves it infinite or NaN. A sum of finite numbers that overflows only costs a closer look.
template <class X>
[[gnu::always_inline]] inline Vector<X> finite_sum(const Vector<X>& total, const Vector<X>& numbers) {
  if constexpr (std::same_as<X, Accumulator<X>>) {
    return total + numbers;
  } else if constexpr (std::same_as<X, lod::bfloat16>) {
    // Increased by the most that rounding may add: the range of bfloat16 is nearly that of float.
    return multiply_add(numbers, Vector<X>(1.00390625F), total);
  } else {
    const auto stays = xsimd::abs(numbers) <= Vector<X>(static_cast<float>(greatest_rounded<X>));
    return xsimd::select(stays, total, Vector<X>(std::numeric_limits<float>::infinity()));
  }
}
/// Whether all numbers in vectors of a parameter, and of its states, are finite once they are rounded to T and to S.
template <class T, class S, std::size_t n, std::size_t vectors>
[[gnu::always_inline]] inline bool stay_finite(const Vector<T> (&parameter)[vectors],
                                               const std::array<Vector<T>, n> (&states)[vectors]) {
  Vector<T> sum(empty_sum<Accumulator<T>>());
  for (const Vector<T>& numbers : parameter) sum = finite_sum<T>(sum, numbers);
#pragma GCC unroll 16
  for (std::size_t v = 0; v < vectors; ++v) {
    for (const Vector<T>& state : states[v]) sum = finite_sum<S>(sum, state);
  }
  return all_finite(sum);
}

/// Whether the rule divides by the root of squares some of which have lost digits, as `loses_digits` says.
template <class Rule, class T, std::size_t n>
[[gnu::always_inline]] inline bool some_lose_digits(const std::array<Vector<T>, n>& states, const Vector<T>& gradient) {
  using A = Accumulator<T>;
  return xsimd::any((states[Rule::of_squares] < Vector<T>(least_normal<A>)) & (gradient != Vector<T>(A{})));
}

/// The result of the rule for a vector: stored to memory only where single numbers are examined.
template <class A, std::size_t n>
struct UpdatedVectors {
  alignas(64) A gradient[xsimd::batch<A>::size], parameter[xsimd::batch<A>::size];
  alignas(64) A states[n > 0 ? n : 1][xsimd::batch<A>::size];
};
/// Recomputes those of the first `count` numbers that the rule turned from finite to infinite or NaN, or whose squares
/// have lost digits. `parameter` and `states` point to the numbers from before the update.
template <class Rule, class T, class S, std::size_t n>
void update_carefully(const Rule& rule, const T* parameter, const std::array<S*, n>& states, std::int64_t count,
                      UpdatedVectors<Accumulator<T>, n>& updated) noexcept {
  using A = Accumulator<T>;
  for (std::int64_t i = 0; i < count; ++i) {
    bool good = std::fabs(updated.parameter[i]) <= static_cast<A>(greatest_rounded<T>);
    for (std::size_t k = 0; k < n; ++k) {
      good = good && std::fabs(updated.states[k][i]) <= static_cast<A>(greatest_rounded<S>);
    }
    UpdatedNumbers<A, n> numbers = {updated.parameter[i], {}, updated.gradient[i]};
    for (std::size_t k = 0; k < n; ++k) numbers.states[k] = updated.states[k][i];
    if (good && !loses_digits(rule, numbers)) continue;
    numbers.parameter = static_cast<A>(parameter[i]);
    for (std::size_t k = 0; k < n; ++k) numbers.states[k] = static_cast<A>(states[k][i]);
    if (!kernel::update_carefully<T, S>(rule, numbers, std::make_index_sequence<n>())) continue;
    updated.parameter[i] = numbers.parameter;
    for (std::size_t k = 0; k < n; ++k) updated.states[k][i] = numbers.states[k];
  }
}

template <class Rule, class T, class S, std::size_t n, class G>
[[gnu::noinline]] void update_carefully_from(const Rule& rule, T* parameter, const std::array<S*, n>& states,
                                             const G* gradient, std::int64_t count) noexcept;

/// Applies the rule to `count` numbers. Where the gradient type G is that of a sum, it is rounded to T first. Unless
/// `careful`, the rest is left to a separate function as soon as a number does not stay finite: if that call returned
/// here, the constants of the rule could not stay in registers.
template <bool careful = false, class Rule, class T, class S, std::size_t n, class G>
inline void update(const Rule& given, T* parameter, const std::array<S*, n>& states, const G* gradient,
                   std::int64_t count) noexcept {
  const Rule rule = given;  // a copy, whose constants stay in registers: no store can alias them
  constexpr bool has_squares = requires { Rule::of_squares; };
  [[maybe_unused]] bool needs_digits = false;
  if constexpr (has_squares) needs_digits = rule.template needs_digits<Accumulator<T>>();
  const auto update_some = [&]<std::size_t vectors>(std::integral_constant<std::size_t, vectors>, std::int64_t i) {
    const std::int64_t left = count - i;
    const auto read = [&]<class X>(const X* x, std::size_t v) {
      return vectors == 1 && left < lanes<T> ? load<X>(x + i, left, Accumulator<X>{})
                                             : load<X>(x + i + v * Vector<T>::size);
    };
    const auto write = [&]<class X>(X* x, std::size_t v, const Vector<X>& numbers) {
      vectors == 1 && left < lanes<T> ? store<X>(x + i, numbers, left) : store<X>(x + i + v * Vector<T>::size, numbers);
    };
    Vector<T> p[vectors], g;
    std::array<Vector<T>, n> s[vectors];
    [[maybe_unused]] bool good = true;
#pragma GCC unroll 16
    for (std::size_t v = 0; v < vectors; ++v) {
      p[v] = read(parameter, v);
      std::transform(states.begin(), states.end(), s[v].begin(), [&](const S* state) { return read(state, v); });
      g = read(gradient, v);
      if constexpr (!std::same_as<G, T>) {
        T rounded[Vector<T>::size];
        store<T>(rounded, g);
        g = load<T>(rounded);
      }
      if constexpr (calls_with_vectors) {
        std::apply([&](auto&... state) { rule(p[v], state..., g); }, s[v]);
        if constexpr (has_squares) good = good && !(needs_digits && some_lose_digits<Rule, T>(s[v], g));
      }
    }
    if constexpr (calls_with_vectors) {
      if (!good || !stay_finite<T, S>(p, s)) [[unlikely]] {
        if constexpr (!careful) return false;
        UpdatedVectors<Accumulator<T>, n> updated;
        g.store_aligned(updated.gradient);
        p[0].store_aligned(updated.parameter);
        for (std::size_t k = 0; const Vector<T>& state : s[0]) state.store_aligned(updated.states[k++]);
        update_carefully(rule, parameter + i, advance(states, i), std::min(left, lanes<T>), updated);
        p[0] = Vector<T>::load_aligned(updated.parameter);
        for (std::size_t k = 0; Vector<T> & state : s[0]) state = Vector<T>::load_aligned(updated.states[k++]);
      }
    }
#pragma GCC unroll 16
    for (std::size_t v = 0; v < vectors; ++v) {
      write(parameter, v, p[v]);
      auto state = states.begin();
      for (const Vector<T>& numbers : s[v]) write(*state++, v, numbers);
    }
    return true;
  };
  std::int64_t i = 0;
  bool good = true;
  // Types that are converted to float and back are checked four vectors at a time.
  if constexpr (!careful && lod::detail::Half<T> && std::same_as<G, T>) {
    constexpr std::int64_t some = 4 * lanes<T>;
    while (good && i + some <= count) {
      good = update_some(std::integral_constant<std::size_t, 4>(), i);
      if (good) i += some;
    }
  }
  while (good && i < count) {
    good = update_some(std::integral_constant<std::size_t, 1>(), i);
    if (good) i += lanes<T>;
  }
  if constexpr (!careful) {
    if (!good) update_carefully_from(given, parameter + i, advance(states, i), gradient + i, count - i);
  }
}
template <class Rule, class T, class S, std::size_t n, class G>
void update_carefully_from(const Rule& rule, T* parameter, const std::array<S*, n>& states, const G* gradient,
                           std::int64_t count) noexcept {
  update<true>(rule, parameter, states, gradient, count);
}

template <>
struct Kernel<Update> {
  template <class Rule, class T, class S>
  static void run(const CpuExecutor& executor, const Rule& rule, T* parameter,
                  const std::array<S*, Rule::states>& states, const T* gradient, std::int64_t count) {
    const std::int64_t bytes =
        lod::detail::saturated_product(count, static_cast<std::int64_t>(3 * sizeof(T) + 2 * Rule::states * sizeof(S)));
    cpu::parallel_ranges(executor, count, bytes, [&](std::int64_t begin, std::int64_t end) {
      cpu::update(rule, parameter + begin, cpu::advance(states, begin), gradient + begin, end - begin);
    });
  }
};

template <>
struct Kernel<UpdateRows> {
  template <class Rule, class T, class S>
  static void run(const CpuExecutor& executor, const Rule& rule, T* parameter,
                  const std::array<S*, Rule::states>& states, const NumberedRows<T>& rows, const std::int64_t* order,
                  const Segments& groups, const std::int64_t* to, std::int64_t height, std::int64_t row_size,
                  bool listed_only) {
    if (height == 0 || row_size == 0) return;
    constexpr std::int64_t block = 1024;
    const Workspace::Loan<T> zeros(executor.workspace(), listed_only ? 0 : block);  // before anything is updated
    cpu::for_each_group_sum(executor, rows, order, groups, row_size,
                            [&](std::int64_t group, const Accumulator<T>* sums) {
                              if (group + cpu::prefetch_distance < groups.size) {
                                const std::int64_t next = to[group + cpu::prefetch_distance] * row_size;
                                cpu::prefetch(parameter + next, row_size);
                                for (const S* state : states) cpu::prefetch(state + next, row_size);
                              }
                              const std::int64_t first = to[group] * row_size;
                              cpu::update(rule, parameter + first, cpu::advance(states, first), sums, row_size);
                            });
    if (listed_only) return;

    // The rows that are not listed, whole runs at a time, with a gradient of zeros: the same code, hence the same bits.
    cpu::fill(zeros.data(), block, T{});
    const std::int64_t row_bytes = row_size * static_cast<std::int64_t>(2 * sizeof(T) + 2 * Rule::states * sizeof(S));
    cpu::parallel_ranges(executor, height, height * row_bytes, [&](std::int64_t begin, std::int64_t end) {
      const std::int64_t* const last = to + groups.size;
      const std::int64_t* listed = std::lower_bound(to, last, begin);
      for (std::int64_t row = begin; row < end;) {
        const bool found = listed != last && *listed < end;
        const std::int64_t stop = found ? *listed : end;
        for (std::int64_t i = row * row_size; i < stop * row_size; i += block) {
          const std::int64_t count = std::min(stop * row_size - i, block);
          cpu::update(rule, parameter + i, cpu::advance(states, i), zeros.data(), count);
        }
        row = stop + 1;
        listed += found ? 1 : 0;
      }
    });
  }
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu
