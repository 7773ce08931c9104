// SPDX-License-Identifier: Apache-2.0
/// @file
/// The two loops of all optimizers on the CPU: over dense tensors, and over the rows of row-sparse gradients.
#pragma once

#include <lod/kernels/careful_update.hpp>
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
#include <tuple>
#include <utility>

namespace lod::inline LOD_TARGET {
namespace kernel {

namespace cpu {

template <class S, std::size_t n>
inline std::array<S*, n> advance(std::array<S*, n> states, std::int64_t distance) noexcept {
  for (S*& state : states) state += distance;
  return states;
}

/// Whether each of some numbers is finite once it is rounded to an X.
template <class X>
[[gnu::always_inline]] inline auto stay_finite(const Vector<X>& numbers) {
  return xsimd::abs(numbers) <= Vector<X>(static_cast<Accumulator<X>>(greatest_rounded<X>));
}

/// Parameter and states, at addresses of their own, are what the rule made of the vectors p, s, g: of the first `count`
/// numbers, those that the rule made infinite or NaN out of finite ones are computed again.
template <class Rule, class T, class S, std::size_t n>
[[gnu::noinline]] void update_carefully(const Rule& rule, const T* parameter, const std::array<S*, n>& states,
                                        const Vector<T>& gradient, std::int64_t count, Vector<T>& p,
                                        std::array<Vector<T>, n>& s) noexcept {
  using A = Accumulator<T>;
  alignas(64) A gradients[Vector<T>::size], parameters[Vector<T>::size], all[n > 0 ? n : 1][Vector<T>::size];
  gradient.store_aligned(gradients);
  p.store_aligned(parameters);
  for (std::size_t k = 0; k < n; ++k) s[k].store_aligned(all[k]);
  for (std::int64_t i = 0; i < count; ++i) {
    bool good = std::fabs(parameters[i]) <= static_cast<A>(greatest_rounded<T>);
    for (std::size_t k = 0; k < n; ++k) good = good && std::fabs(all[k][i]) <= static_cast<A>(greatest_rounded<S>);
    if (good) continue;
    UpdatedNumbers<A, n> numbers = {static_cast<A>(parameter[i]), {}, gradients[i]};
    for (std::size_t k = 0; k < n; ++k) numbers.states[k] = static_cast<A>(states[k][i]);
    if (!kernel::update_carefully<T, S>(rule, numbers, std::make_index_sequence<n>())) continue;
    parameters[i] = numbers.parameter;
    for (std::size_t k = 0; k < n; ++k) all[k][i] = numbers.states[k];
  }
  p = Vector<T>::load_aligned(parameters);
  for (std::size_t k = 0; k < n; ++k) s[k] = Vector<T>::load_aligned(all[k]);
}

/// The rule for `count` numbers. Where the gradient G is a sum, it is rounded to T first.
template <class Rule, class T, class S, std::size_t n, class G>
inline void update(const Rule& given, T* parameter, const std::array<S*, n>& states, const G* gradient,
                   std::int64_t count) noexcept {
  const Rule rule = given;  // its constants stay in registers: nothing that is written can be they
  for (std::int64_t i = 0; i < count; i += lanes<T>) {
    const std::int64_t left = count - i;
    const auto read = [&]<class X>(const X* x) {
      return left < lanes<T> ? load<X>(x + i, left, Accumulator<X>{}) : load<X>(x + i);
    };
    const auto write = [&]<class X>(X* x, const Vector<X>& numbers) {
      left < lanes<T> ? store<X>(x + i, numbers, left) : store<X>(x + i, numbers);
    };
    Vector<T> p = read(parameter);
    std::array<Vector<T>, n> s;
    std::transform(states.begin(), states.end(), s.begin(), read);
    Vector<T> g = read(gradient);
    if constexpr (!std::same_as<G, T>) {
      T rounded[Vector<T>::size];
      store<T>(rounded, g);
      g = load<T>(rounded);
    }
    if constexpr (calls_with_vectors) {
      std::apply([&](auto&... state) { rule(p, state..., g); }, s);
      auto good = stay_finite<T>(p);
      for (const Vector<T>& numbers : s) good = good & stay_finite<S>(numbers);
      if (!xsimd::all(good)) [[unlikely]] {
        update_carefully(rule, parameter + i, advance(states, i), g, std::min(left, lanes<T>), p, s);
      }
    }
    write(parameter, p);
    auto state = states.begin();
    for (const Vector<T>& numbers : s) write(*state++, numbers);
  }
}

}  // namespace cpu

template <>
struct Update<InlineCpu> {
  template <class Rule, class T, class S, std::size_t n>
  static void run(const CpuExecutor& executor, const Rule& rule, T* parameter, const std::array<S*, n>& states,
                  const T* gradient, std::int64_t count) {
    const std::int64_t bytes = count * static_cast<std::int64_t>(3 * sizeof(T) + 2 * n * sizeof(S));
    cpu::parallel_ranges(executor, count, bytes, [&](std::int64_t begin, std::int64_t end) {
      cpu::update(rule, parameter + begin, cpu::advance(states, begin), gradient + begin, end - begin);
    });
  }
};

template <>
struct UpdateRows<InlineCpu> {
  template <class Rule, class T, class S, std::size_t n>
  static void run(const CpuExecutor& executor, const Rule& rule, T* parameter, const std::array<S*, n>& states,
                  const NumberedRows<T>& rows, const std::int64_t* order, const Segments& groups,
                  const std::int64_t* to, std::int64_t height, std::int64_t row_size, bool listed_only) {
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

    // The rows between, whole runs of them at a time, with a gradient of zeros: the same code, hence the same bits.
    constexpr std::int64_t block = 1024;
    const Workspace::Loan<T> zeros(executor.workspace(), block);
    cpu::fill(zeros.data(), block, T{});
    const std::int64_t row_bytes = row_size * static_cast<std::int64_t>(2 * sizeof(T) + 2 * n * sizeof(S));
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

}  // namespace kernel
}  // namespace lod::inline LOD_TARGET
