// SPDX-License-Identifier: Apache-2.0
/// @file
/// Normalisation of rows on the CPU. A group of rows, as many as a vector has lanes, is summed row by row; then their
/// sums are finished side by side, since roots and quotients take as long for one row as for a vector of them.
#pragma once

#include <lod/core/version.hpp>
#include <lod/kernels/cpu/half_vector.hpp>
#include <lod/kernels/cpu/large_output.hpp>
#include <lod/kernels/cpu/launch.hpp>
#include <lod/kernels/cpu/parallel.hpp>
#include <lod/kernels/cpu/row_sum.hpp>
#include <lod/kernels/cpu/score_row.hpp>
#include <lod/kernels/cpu/transpose.hpp>
#include <lod/kernels/cpu/vector.hpp>
#include <lod/kernels/row_statistics.hpp>
#include <lod/ops/layer_norm.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu {

/// The compiler's own vectors.
template <class A>
struct OwnVector {
  typedef float type __attribute__((vector_size(sizeof(xsimd::batch<float>))));
};
template <>
struct OwnVector<double> {
  typedef double type __attribute__((vector_size(sizeof(xsimd::batch<double>))));
};

/// The sums of the lanes of each of `size` rows in memory, as `sum_of_lanes` adds them.
template <class A>
[[gnu::always_inline]] inline xsimd::batch<A> sums_of_lanes(const A* lanes_of_rows) {
  constexpr std::size_t size = xsimd::batch<A>::size;
  typename OwnVector<A>::type rows[size];
#pragma GCC unroll 16
  for (std::size_t row = 0; row < size; ++row) std::memcpy(&rows[row], lanes_of_rows + row * size, sizeof rows[0]);
  transpose(rows);
#pragma GCC unroll 16
  for (std::size_t half = size / 2; half > 0; half /= 2) {
#pragma GCC unroll 16
    for (std::size_t lane = 0; lane < half; ++lane) rows[lane] += rows[half + lane];
  }
  return __builtin_bit_cast(xsimd::batch<A>, rows[0]);
}

/// `row_lanes` sums in vectors.
template <class A>
struct LaneSums {
  static constexpr std::size_t vectors = static_cast<std::size_t>(row_lanes) / xsimd::batch<A>::size;
  xsimd::batch<A> of[vectors];

  [[gnu::always_inline]] void clear() {
#pragma GCC unroll 16
    for (std::size_t v = 0; v < vectors; ++v) of[v] = xsimd::batch<A>(A{});
  }
  [[gnu::always_inline]] void add(const LaneSums& more) {
#pragma GCC unroll 16
    for (std::size_t v = 0; v < vectors; ++v) of[v] += more.of[v];
  }
  /// As many sums as a vector has, of which those at a distance of `xsimd::batch<A>::size` are joined.
  [[gnu::always_inline]] xsimd::batch<A> joined() {
#pragma GCC unroll 16
    for (std::size_t half = vectors / 2; half > 0; half /= 2) {
#pragma GCC unroll 16
      for (std::size_t v = 0; v < half; ++v) of[v] += of[half + v];
    }
    return of[0];
  }
};

/// Sums over the numbers of a row: add(i, some, sum...) adds to each vector of sums the terms of the `some` numbers
/// from i on, and nothing to the lanes after these; `some` is a constant for whole vectors.
template <class T, std::size_t count, class Add>
[[gnu::always_inline]] inline void sum_part(std::int64_t begin, std::int64_t end, const Add& add,
                                            LaneSums<Accumulator<T>> (&sums)[count]) {
  constexpr std::size_t vectors = LaneSums<Accumulator<T>>::vectors;
  const auto call = [&](std::int64_t i, auto some, std::size_t v) __attribute__((always_inline)) {
    if constexpr (count == 1) {
      add(i, some, sums[0].of[v]);
    } else {
      add(i, some, sums[0].of[v], sums[1].of[v]);
    }
  };
#pragma GCC unroll 2
  for (std::size_t n = 0; n < count; ++n) sums[n].clear();
  std::int64_t i = begin;
  for (; i + row_lanes <= end; i += row_lanes) {
#pragma GCC unroll 16
    for (std::size_t v = 0; v < vectors; ++v) {
      call(i + static_cast<std::int64_t>(v) * lanes<T>, std::integral_constant<std::int64_t, lanes<T>>(), v);
    }
  }
  if (i == end) return;
#pragma GCC unroll 16
  for (std::size_t v = 0; v < vectors; ++v) {
    const std::int64_t at = i + static_cast<std::int64_t>(v) * lanes<T>;
    if (at < end) call(at, std::min(end - at, lanes<T>), v);
  }
}
/// The same over whole rows. Sum n of the row goes to to[n], lane by lane.
template <class T, std::size_t count, class Add>
[[gnu::always_inline]] inline void sum_row(std::int64_t row_size, const Add& add, Accumulator<T>* const (&to)[count]) {
  LaneSums<Accumulator<T>> sums[count];
  if (row_size < row_part) {
    sum_part<T, count>(0, row_size, add, sums);
  } else {
    LaneSums<Accumulator<T>> totals[count];
    for (std::size_t n = 0; n < count; ++n) totals[n].clear();
    std::int64_t begin = 0;
    for (; begin + row_part <= row_size; begin += row_part) {
      sum_part<T, count>(begin, begin + row_part, add, sums);
      for (std::size_t n = 0; n < count; ++n) totals[n].add(sums[n]);
    }
    sum_part<T, count>(begin, row_size, add, sums);
    for (std::size_t n = 0; n < count; ++n) sums[n].add(totals[n]);
  }
#pragma GCC unroll 2
  for (std::size_t n = 0; n < count; ++n) sums[n].joined().store_aligned(to[n]);
}

/// The statistics of a group of rows, one to a lane.
template <class T, bool centred>
class RowGroup {
 public:
  using A = Accumulator<T>;
  using V = Vector<T>;
  static constexpr std::int64_t most_rows = lanes<T>;

  /// So many rows of a batch stay in the first-level cache from one pass to the next.
  static std::int64_t rows_at_a_time(std::int64_t row_size) noexcept {
    constexpr auto bytes = static_cast<std::int64_t>(16384 / sizeof(T));
    return std::clamp<std::int64_t>(bytes / std::max<std::int64_t>(row_size, 1), 1, most_rows);
  }

  RowGroup(std::int64_t row_size, double epsilon) noexcept : row_size_(row_size), epsilon_(epsilon) {}

  /// Of at most `most_rows` rows, which are not empty.
  [[gnu::always_inline]] void find(const T* x, std::int64_t rows) {
    const V size(static_cast<A>(row_size_));
    V rest(A{}), from_mean(A{});
    if constexpr (centred) {
      for (std::int64_t row = 0; row < rows; ++row) {
        center[row] = first_center<A>(numbers_of(x + row * row_size_), row_size_);
        sum_distances(x, row);
      }
      clear_after(rows, first_);
      clear_after(rows, second_);
      const V distances = sums_of_lanes(first_), squares = sums_of_lanes(second_);
      rest = distances / size;
      from_mean = multiply_add(-distances, rest, squares);
      if (xsimd::any(V(A{4}) * from_mean < squares)) [[unlikely]] {
        find_again(x, rows, squares, rest, from_mean);
      }
    } else {
      for (std::int64_t row = 0; row < rows; ++row) {
        const T* const from = x + row * row_size_;
        const auto add = [&](std::int64_t i, auto some, V& square) __attribute__((always_inline)) {
          const V number = load_some(from + i, some);
          square = multiply_add(number, number, square);
        };
        sum_row<T, 1>(row_size_, add, {second_ + row * lanes<T>});
      }
      clear_after(rows, second_);
      from_mean = sums_of_lanes(second_);
      store<A>(center, V(A{}));
    }
    const V variance = xsimd::select(from_mean < V(A{}), V(A{}), from_mean) / size + V(static_cast<A>(epsilon_));
    const V by = V(A{1}) / xsimd::sqrt(variance);
    store<A>(scale, V(A{1}));
    store<A>(factor, by);
    store<A>(shift, -(rest * by));
    const auto is_useful = (variance >= V(least_variance<A>)) & (variance <= V(std::numeric_limits<A>::max()));
    if (xsimd::all(is_useful)) return;
    store<A>(first_, variance);
    for (std::int64_t row = 0; row < rows; ++row) {
      if (is_variance(first_[row])) continue;
      const T* const from = x + row * row_size_;
      const RowStatistics<A> found = careful_statistics<A>(numbers_of(from), row_size_, epsilon_, centred);
      scale[row] = found.scale;
      center[row] = found.center;
      factor[row] = found.factor;
      shift[row] = found.shift;
    }
  }

  /// A row's numbers, normalised.
  class Normalise {
   public:
    Normalise(const RowGroup& group, std::int64_t row) noexcept
        : scale_(group.scale[row]),
          minus_center_(-group.center[row]),
          factor_(group.factor[row]),
          shift_(group.shift[row]) {}
    [[gnu::always_inline]] V operator()(const V& x) const {
      if constexpr (centred) return multiply_add(multiply_add(x, scale_, minus_center_), factor_, shift_);
      return x * scale_ * factor_;
    }

   private:
    V scale_, minus_center_, factor_, shift_;
  };
  Normalise normalise(std::int64_t row) const noexcept { return Normalise(*this, row); }

  /// Numbers of an array; zeros after them.
  template <class Some>
  [[gnu::always_inline]] static V load_some(const T* x, Some some) {
    if constexpr (std::same_as<Some, std::int64_t>) {
      return load_vector(x, some);
    } else {
      return load(x);
    }
  }

  /// The sums of the lanes of two vectors for each row, which rows that are not there must not leave undefined.
  A* first(std::int64_t row) noexcept { return first_ + row * lanes<T>; }
  A* second(std::int64_t row) noexcept { return second_ + row * lanes<T>; }
  V sums_of_first(std::int64_t rows) noexcept {
    clear_after(rows, first_);
    return sums_of_lanes(first_);
  }
  V sums_of_second(std::int64_t rows) noexcept {
    clear_after(rows, second_);
    return sums_of_lanes(second_);
  }

  alignas(64) A scale[static_cast<std::size_t>(most_rows)];
  alignas(64) A center[static_cast<std::size_t>(most_rows)];
  alignas(64) A factor[static_cast<std::size_t>(most_rows)];
  alignas(64) A shift[static_cast<std::size_t>(most_rows)];

 private:
  static auto numbers_of(const T* row) noexcept {
    return [row](std::int64_t i) { return static_cast<A>(row[i]); };
  }
  /// The distances of a row's numbers from its center, and their squares, lane by lane.
  [[gnu::always_inline]] void sum_distances(const T* x, std::int64_t row) noexcept {
    const T* const from = x + row * row_size_;
    const V middle(center[row]);
    const auto add = [&](std::int64_t i, auto some, V& sum, V& square) __attribute__((always_inline)) {
      V distance = load_some(from + i, some) - middle;
      if constexpr (std::same_as<decltype(some), std::int64_t>) {
        distance = xsimd::select(first_lanes<T>(some), distance, V(A{}));
      }
      sum += distance;
      square = multiply_add(distance, distance, square);
    };
    sum_row<T, 2>(row_size_, add, {first(row), second(row)});
  }
  /// The same once more for rows where that is needed, from the mean.
  [[gnu::noinline]] void find_again(const T* x, std::int64_t rows, const V& old_squares, V& rest, V& from_mean) {
    alignas(64) A squares[static_cast<std::size_t>(most_rows)];
    alignas(64) A rests[static_cast<std::size_t>(most_rows)];
    alignas(64) A found[static_cast<std::size_t>(most_rows)];
    store<A>(squares, old_squares);
    store<A>(rests, rest);
    store<A>(found, from_mean);
    for (std::int64_t row = 0; row < rows; ++row) {
      if (!cancels(found[row], squares[row])) continue;
      center[row] += rests[row];
      sum_distances(x, row);
      const A distances = sum_of_lanes(load(first(row)));
      rests[row] = distances / static_cast<A>(row_size_);
      found[row] = fused(-distances, rests[row], sum_of_lanes(load(second(row))));
    }
    rest = load(static_cast<const A*>(rests));
    from_mean = load(static_cast<const A*>(found));
  }
  static void clear_after(std::int64_t rows, A* lanes_of_rows) noexcept {
    for (std::int64_t row = rows; row < most_rows; ++row) store<A>(lanes_of_rows + row * lanes<T>, V(A{1}));
  }

  std::int64_t row_size_;
  double epsilon_;
  alignas(64) A first_[static_cast<std::size_t>(most_rows * most_rows)];
  alignas(64) A second_[static_cast<std::size_t>(most_rows * most_rows)];
};

/// Calls f(with_scale, with_bias), whose arguments are constants.
template <class F>
void with_scale_and_bias(bool scale, bool bias, const F& f) {
  if (scale && bias) return f(std::true_type(), std::true_type());
  if (scale) return f(std::true_type(), std::false_type());
  if (bias) return f(std::false_type(), std::true_type());
  f(std::false_type(), std::false_type());
}

template <>
struct Kernel<RowNorm> {
  template <class T>
  static void run(const CpuExecutor& executor, const T* x, std::int64_t rows, std::int64_t row_size, const T* scale,
                  const T* bias, double epsilon, bool centred, T* y) {
    if (row_size == 0) return;
    with_scale_and_bias(scale != nullptr, bias != nullptr, [&](auto with_scale, auto with_bias) {
      if (centred) {
        normalise<true, with_scale, with_bias>(executor, x, rows, row_size, scale, bias, epsilon, y);
      } else {
        normalise<false, with_scale, with_bias>(executor, x, rows, row_size, scale, bias, epsilon, y);
      }
    });
  }

 private:
  template <bool centred, bool with_scale, bool with_bias, class T>
  static void normalise(const CpuExecutor& executor, const T* x, std::int64_t rows, std::int64_t row_size,
                        const T* scale, const T* bias, double epsilon, T* y) {
    using Group = cpu::RowGroup<T, centred>;
    const std::int64_t bytes = lod::detail::bytes_of<T>(rows, row_size);
    const bool past_caches = std::same_as<T, Accumulator<T>> && cpu::LargeOutput(bytes).past_caches() &&
                             row_size % cpu::lanes<T> == 0 && reinterpret_cast<std::uintptr_t>(y) % 64 == 0;
    const std::int64_t step = Group::rows_at_a_time(row_size);
    cpu::parallel_ranges(
        executor, rows, lod::detail::saturated_product(2, bytes), [&](std::int64_t begin, std::int64_t end) {
          Group group(row_size, epsilon);
          for (std::int64_t row = begin; row < end; row += step) {
            const std::int64_t some = std::min(end - row, step);
            group.find(x + row * row_size, some);
            for (std::int64_t k = 0; k < some; ++k) {
              const std::int64_t at = (row + k) * row_size;
              write<with_scale, with_bias>(group.normalise(k), x + at, row_size, scale, bias, past_caches, y + at);
            }
          }
        });
  }
  template <bool with_scale, bool with_bias, class T, class Normalise>
  [[gnu::always_inline]] static void write(const Normalise& normalise, const T* x, std::int64_t row_size,
                                           const T* scale, const T* bias, bool past_caches, T* y) {
    const auto of = [&](const cpu::Vector<T>& number, std::int64_t i, auto read) __attribute__((always_inline)) {
      const cpu::Vector<T> normal = normalise(number);
      if constexpr (with_scale && with_bias) return cpu::multiply_add(normal, read(scale + i), read(bias + i));
      if constexpr (with_scale) return normal * read(scale + i);
      if constexpr (with_bias) return normal + read(bias + i);
      return normal;
    };
    const auto whole = [](const T* from) __attribute__((always_inline)) { return cpu::load(from); };
    std::int64_t i = 0;
    if (past_caches) {
      for (; i + cpu::lanes<T> <= row_size; i += cpu::lanes<T>) {
        if constexpr (std::same_as<T, Accumulator<T>>) cpu::write_vector<T>(y + i, of(cpu::load(x + i), i, whole));
      }
    } else {
      for (; i + cpu::lanes<T> <= row_size; i += cpu::lanes<T>) cpu::store<T>(y + i, of(cpu::load(x + i), i, whole));
    }
    if (i == row_size) return;
    const std::int64_t some = row_size - i;
    const auto part = [some](const T* from) { return cpu::load_vector(from, some); };
    cpu::store<T>(y + i, of(part(x + i), i, part), some);
  }
};

template <>
struct Kernel<RowNormGrad> {
  template <class T>
  static void run(const CpuExecutor& executor, const T* dy, const T* x, std::int64_t rows, std::int64_t row_size,
                  const T* scale, double epsilon, bool centred, T* dx, T* dscale, T* dbias) {
    if (row_size == 0) return;
    if (centred && scale) return work<true, true>(executor, dy, x, rows, row_size, scale, epsilon, dx, dscale, dbias);
    if (centred) return work<true, false>(executor, dy, x, rows, row_size, scale, epsilon, dx, dscale, dbias);
    if (scale) return work<false, true>(executor, dy, x, rows, row_size, scale, epsilon, dx, dscale, dbias);
    work<false, false>(executor, dy, x, rows, row_size, scale, epsilon, dx, dscale, dbias);
  }

 private:
  /// dx is written while the terms of the sums over rows are computed: once for each row.
  template <bool centred, bool with_scale, class T>
  static void work(const CpuExecutor& executor, const T* dy, const T* x, std::int64_t rows, std::int64_t row_size,
                   const T* scale, double epsilon, T* dx, T* dscale, T* dbias) {
    using A = Accumulator<T>;
    const std::int64_t term_size = centred ? 2 * row_size : row_size;
    const cpu::ThreadScratch<A> blocks(executor, cpu::computed_scratch(term_size));
    const Workspace::Loan<A> sums(executor.workspace(), term_size);
    const auto compute = [=](std::int64_t first, std::int64_t count, A* terms) {
      using Group = cpu::RowGroup<T, centred>;
      const std::int64_t step = Group::rows_at_a_time(2 * row_size);
      Group group(row_size, epsilon);
      for (std::int64_t row = 0; row < count; row += step) {
        const std::int64_t at = (first + row) * row_size;
        differentiate<centred, with_scale>(group, std::min(count - row, step), dy + at, x + at, row_size, scale,
                                           dx + at, terms + row * term_size);
      }
    };
    const auto rows_of = [&](int thread) { return cpu::ComputedRows{compute, blocks(thread)}; };
    cpu::sum_rows<A>(executor, rows_of, rows, term_size,
                     lod::detail::bytes_of<T>(rows, lod::detail::saturated_product(5, row_size)), sums.data());
    cpu::convert(sums.data(), row_size, dscale);
    if constexpr (centred) cpu::convert(sums.data() + row_size, row_size, dbias);
  }

  template <bool centred, bool with_scale, class T>
  [[gnu::always_inline]] static void differentiate(cpu::RowGroup<T, centred>& group, std::int64_t rows, const T* dy,
                                                   const T* x, std::int64_t row_size, const T* scale, T* dx,
                                                   Accumulator<T>* terms) {
    using A = Accumulator<T>;
    using V = cpu::Vector<T>;
    using Group = cpu::RowGroup<T, centred>;
    group.find(x, rows);
    for (std::int64_t row = 0; row < rows; ++row) {
      const T *const d = dy + row * row_size, *const from = x + row * row_size;
      const auto normalise = group.normalise(row);
      const auto add = [&](std::int64_t i, auto some, V& plain, V& weighed) __attribute__((always_inline)) {
        const V gradient = Group::load_some(d + i, some);
        V normal = normalise(Group::load_some(from + i, some));
        if constexpr (with_scale) {
          const V by = Group::load_some(scale + i, some);
          plain = cpu::multiply_add(gradient, by, plain);
          normal *= by;
        } else {
          plain += gradient;
        }
        weighed = cpu::multiply_add(gradient, normal, weighed);
      };
      cpu::sum_row<T, 2>(row_size, add, {group.first(row), group.second(row)});
    }
    const V size(static_cast<A>(row_size));
    alignas(64) A means[static_cast<std::size_t>(cpu::lanes<T>)];
    alignas(64) A weighed_means[static_cast<std::size_t>(cpu::lanes<T>)];
    cpu::store<A>(means, group.sums_of_first(rows) / size);
    cpu::store<A>(weighed_means, group.sums_of_second(rows) / size);
    for (std::int64_t row = 0; row < rows; ++row) {
      const T *const d = dy + row * row_size, *const from = x + row * row_size;
      A* const term = terms + row * (centred ? 2 : 1) * row_size;
      const auto normalise = group.normalise(row);
      const V mean(means[row]), weighed(weighed_means[row]), factor(group.factor[row] * group.scale[row]);
      for (std::int64_t i = 0; i < row_size; i += cpu::lanes<T>) {
        const std::int64_t some = std::min(row_size - i, cpu::lanes<T>);
        const V gradient = cpu::load_vector(d + i, some), normal = normalise(cpu::load_vector(from + i, some));
        V part = gradient;
        if constexpr (with_scale && centred)
          part = cpu::multiply_add(gradient, cpu::load_vector(scale + i, some), -mean);
        if constexpr (with_scale && !centred) part = gradient * cpu::load_vector(scale + i, some);
        if constexpr (!with_scale && centred) part = gradient - mean;
        cpu::store_first<T>(dx + row * row_size + i, cpu::multiply_add(-normal, weighed, part) * factor, some, 0);
        cpu::store_first<A>(term + i, gradient * normal, some, 0);
        if constexpr (centred) cpu::store_first<A>(term + row_size + i, gradient, some, 0);
      }
    }
  }
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu
