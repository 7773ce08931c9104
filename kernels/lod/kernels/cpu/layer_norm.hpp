// SPDX-License-Identifier: Apache-2.0
/// @file
/// Normalisation of rows on the CPU. A group of rows, as many as a vector has lanes, is summed row by row; then their
/// sums are finished side by side, since roots and quotients take as long for one row as for a vector of them.
#pragma once

#include <lod/core/version.hpp>
#include <lod/kernels/cpu/large_output.hpp>
#include <lod/kernels/cpu/launch.hpp>
#include <lod/kernels/cpu/moments.hpp>
#include <lod/kernels/cpu/parallel.hpp>
#include <lod/kernels/cpu/row_lanes.hpp>
#include <lod/kernels/cpu/row_sum.hpp>
#include <lod/kernels/cpu/score_row.hpp>
#include <lod/kernels/cpu/vector.hpp>
#include <lod/kernels/row_statistics.hpp>
#include <lod/ops/layer_norm.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu {

/// A row's numbers, normalised.
template <class A, bool centred>
class Normalise {
 public:
  using V = xsimd::batch<A>;

  explicit Normalise(const RowStatistics<A>& row) noexcept
      : scale_(row.scale), minus_center_(-row.center), factor_(row.factor), shift_(row.shift) {}
  [[gnu::always_inline]] V operator()(const V& x) const {
    if constexpr (centred) return multiply_add(multiply_add(x, scale_, minus_center_), factor_, shift_);
    return x * scale_ * factor_;
  }

 private:
  V scale_, minus_center_, factor_, shift_;
};

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

  /// Of at most `most_rows` rows, which are not empty. Not inlined: one copy serves rows with and without a scale.
  [[gnu::noinline]] void find(const T* x, std::int64_t rows) {
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

  RowStatistics<A> of_row(std::int64_t row) const noexcept {
    return {scale[row], center[row], factor[row], shift[row]};
  }

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

/// Whether rows are written past the caches: each is a number of whole vectors, which begin where vectors can.
template <class T>
bool rows_go_past_caches(const T* y, std::int64_t rows, std::int64_t row_size) noexcept {
  return std::same_as<T, Accumulator<T>> && LargeOutput(lod::detail::bytes_of<T>(rows, row_size)).past_caches() &&
         row_size % lanes<T> == 0 && reinterpret_cast<std::uintptr_t>(y) % 64 == 0;
}

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
    const bool past_caches = cpu::rows_go_past_caches(y, rows, row_size);
    const std::int64_t step = Group::rows_at_a_time(row_size);
    cpu::parallel_ranges(executor, rows, lod::detail::saturated_product(2, bytes),
                         [&](std::int64_t begin, std::int64_t end) {
                           Group group(row_size, epsilon);
                           for (std::int64_t row = begin; row < end; row += step) {
                             const std::int64_t some = std::min(end - row, step);
                             group.find(x + row * row_size, some);
                             for (std::int64_t k = 0; k < some; ++k) {
                               const std::int64_t at = (row + k) * row_size;
                               write<with_scale, with_bias, T>(cpu::Normalise<Accumulator<T>, centred>(group.of_row(k)),
                                                               x + at, row_size, scale, bias, past_caches, y + at);
                             }
                           }
                         });
  }
  template <bool with_scale, bool with_bias, class T, bool centred>
  [[gnu::always_inline]] static void write(const cpu::Normalise<Accumulator<T>, centred> normalise, const T* x,
                                           std::int64_t row_size, const T* scale, const T* bias, bool past_caches,
                                           T* y) {
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

/// The gradients of rows: dx is written while terms of the sums over rows are added up, in the order of sum_tree.hpp.
/// The terms of a row are those of dscale, followed by those of dbias if rows are `centred`.
template <class T, bool centred, bool with_scale>
struct NormGradients {
  using A = Accumulator<T>;
  using V = Vector<T>;
  using Group = RowGroup<T, centred>;

  const T* dy;
  const T* x;
  std::int64_t row_size;
  const T* scale;
  double epsilon;
  T* dx;
  bool past_caches;
  A* block;  ///< scratch of a thread, for `scratch(row_size)` numbers

  static std::int64_t term_size(std::int64_t row_size) noexcept { return centred ? 2 * row_size : row_size; }
  static std::int64_t scratch(std::int64_t row_size) noexcept {
    return term_size(row_size) <= narrow_row_size ? computed_scratch(term_size(row_size)) : 0;
  }

  /// Sums the terms of at most a leaf of rows.
  void sum(std::int64_t first, std::int64_t count, A* to) const {
    const std::int64_t size = term_size(row_size);
    const bool narrow = size <= narrow_row_size;
    if (!narrow) fill(to, size, empty_sum<A>());
    Group group(row_size, epsilon);
    OfRow found[static_cast<std::size_t>(most_rows)];
    const std::int64_t step = std::clamp<std::int64_t>(Group::rows_at_a_time(2 * row_size) / 4 * 4, 4, most_rows);
    for (std::int64_t row = 0; row < count; row += step) {
      const std::int64_t rows = std::min(count - row, step), at = (first + row) * row_size;
      for (std::int64_t k = 0; k < rows; k += Group::most_rows) {
        find(group, std::min(rows - k, Group::most_rows), at + k * row_size, found + k);
      }
      std::int64_t k = 0;
      if (narrow) {
        for (; k < rows; ++k) differentiate<1, true>(found + k, at + k * row_size, block + (row + k) * size);
      } else {
        for (; k + 4 <= rows; k += 4) differentiate<4, false>(found + k, at + k * row_size, to);
        for (; k < rows; ++k) differentiate<1, false>(found + k, at + k * row_size, to);
      }
      for (k = 0; k < rows; ++k) {
        if (found[k].statistics.is_extreme()) [[unlikely]]
          write_extreme_row(found[k], at + k * row_size);
      }
    }
    if (narrow) sum_stored_leaf<A>(ContiguousRows<A>{block, size, computed_scratch(size)}, 0, count, size, to);
  }

 private:
  static constexpr std::int64_t most_rows = std::max<std::int64_t>(Group::most_rows, 4);
  /// What is known of a row: its statistics, the mean of the gradients of its normalised numbers, and that of their
  /// products with these numbers.
  struct OfRow {
    RowStatistics<A> statistics;
    A mean, weighed;
  };
  [[gnu::always_inline]] void find(Group& group, std::int64_t rows, std::int64_t at, OfRow* found) const {
    group.find(x + at, rows);
    for (std::int64_t row = 0; row < rows; ++row) {
      const T *const d = dy + at + row * row_size, *const from = x + at + row * row_size;
      const Normalise<A, centred> normalise(group.of_row(row));
      const T* const scales = scale;
      const auto add = [=](std::int64_t i, auto some, V& plain, V& weighed) __attribute__((always_inline)) {
        V gradient = Group::load_some(d + i, some);
        if constexpr (with_scale) gradient = MomentsArithmetic().product(gradient, Group::load_some(scales + i, some));
        plain += gradient;
        weighed = multiply_add(gradient, normalise(Group::load_some(from + i, some)), weighed);
      };
      sum_row<T, 2>(row_size, add, {group.first(row), group.second(row)});
    }
    const V size(static_cast<A>(row_size));
    alignas(64) A means[static_cast<std::size_t>(lanes<T>)];
    alignas(64) A weighed[static_cast<std::size_t>(lanes<T>)];
    store<A>(means, group.sums_of_first(rows) / size);
    store<A>(weighed, group.sums_of_second(rows) / size);
    for (std::int64_t row = 0; row < rows; ++row) found[row] = {group.of_row(row), means[row], weighed[row]};
  }

  /// Writes dx of a row again, whose factor is out of range.
  [[gnu::noinline]] void write_extreme_row(const OfRow& row, std::int64_t at) const {
    for (std::int64_t i = 0; i < row_size; ++i) {
      A part = static_cast<A>(dy[at + i]);
      if constexpr (with_scale) part = MomentsArithmetic().product(part, static_cast<A>(scale[i]));
      if constexpr (centred) part -= row.mean;
      const A normal = row.statistics.normalised(static_cast<A>(x[at + i]));
      dx[at + i] = static_cast<T>(row.statistics.gradient(fused(-normal, row.weighed, part)));
    }
  }

  /// What a row's vectors are computed with.
  struct Constants {
    explicit Constants(const OfRow& row) noexcept
        : normalise(row.statistics), mean(row.mean), weighed(row.weighed), factor(row.statistics.of_gradient()) {}
    Normalise<A, centred> normalise;
    V mean, weighed, factor;
  };
  /// Writes dx of consecutive rows from `at` on, and their terms, or adds these to the sums.
  template <std::size_t rows, bool writes_terms>
  [[gnu::always_inline]] void differentiate(const OfRow* found, std::int64_t at, A* to) const {
    if constexpr (rows == 4) {
      const Constants by[] = {Constants(found[0]), Constants(found[1]), Constants(found[2]), Constants(found[3])};
      for_each_vector<writes_terms>(by, at, to);
    } else {
      const Constants by[] = {Constants(found[0])};
      for_each_vector<writes_terms>(by, at, to);
    }
  }
  template <bool writes_terms, std::size_t rows>
  [[gnu::always_inline]] void for_each_vector(const Constants (&by)[rows], std::int64_t at, A* to) const {
    // Copies, which what is written does not change.
    const T *const from = x + at, *const from_dy = dy + at, *const scales = scale;
    T* const write_to = dx + at;
    const std::int64_t size = row_size;
    const bool straight = past_caches;
    const auto pass = [ =, &by ](std::int64_t i, auto some) __attribute__((always_inline)) {
      V terms[rows], gradients[rows];
#pragma GCC unroll 4
      for (std::size_t row = 0; row < rows; ++row) {
        const std::int64_t place = static_cast<std::int64_t>(row) * size + i;
        const V gradient = Group::load_some(from_dy + place, some);
        const V normal = by[row].normalise(Group::load_some(from + place, some));
        V part = gradient;
        if constexpr (with_scale) part = MomentsArithmetic().product(gradient, Group::load_some(scales + i, some));
        if constexpr (centred) part -= by[row].mean;
        const V result = multiply_add(-normal, by[row].weighed, part) * by[row].factor;
        if (straight) {
          // The hardware does not read ahead of all rows of so many tensors.
          __builtin_prefetch(from + place + static_cast<std::int64_t>(rows) * size);
          __builtin_prefetch(from_dy + place + static_cast<std::int64_t>(rows) * size);
          if constexpr (std::same_as<T, A>) write_vector<T>(write_to + place, result);
        } else {
          store_first<T>(write_to + place, result, some, 0);
        }
        terms[row] = MomentsArithmetic().product(gradient, normal);
        gradients[row] = gradient;
      }
      put<writes_terms>(to + i, terms, some);
      if constexpr (centred) put<writes_terms>(to + size + i, gradients, some);
    };
    std::int64_t i = 0;
    for (; i + lanes<T> <= size; i += lanes<T>) pass(i, std::integral_constant<std::int64_t, lanes<T>>());
    if (i < size) pass(i, size - i);
  }
  template <bool writes_terms, std::size_t rows, class Some>
  [[gnu::always_inline]] static void put(A* to, const V (&terms)[rows], Some some) {
    V sum = terms[0];
    if constexpr (rows == 4) sum = (terms[0] + terms[1]) + (terms[2] + terms[3]);
    if constexpr (!writes_terms) sum = load_vector<A>(to, some) + sum;
    store_first<A>(to, sum, some, 0);
  }
};

template <>
struct Kernel<RowNormGrad> {
  template <class T>
  static void run(const CpuExecutor& executor, const T* dy, const T* x, std::int64_t rows, std::int64_t row_size,
                  const T* scale, double epsilon, bool centred, T* dx, T* dscale, T* dbias) {
    if (row_size == 0) return;
    cpu::with_scale_and_bias(scale != nullptr, centred, [&](auto with_scale, auto with_bias) {
      using Gradients = cpu::NormGradients<T, with_bias, with_scale>;
      using A = Accumulator<T>;
      const std::int64_t term_size = Gradients::term_size(row_size);
      const bool past_caches = cpu::rows_go_past_caches(dx, rows, row_size);
      const cpu::ThreadScratch<A> blocks(executor, Gradients::scratch(row_size));
      const Workspace::Loan<A> sums(executor.workspace(), term_size);
      const auto rows_of = [&](int thread) {
        return Gradients{dy, x, row_size, scale, epsilon, dx, past_caches, blocks(thread)};
      };
      cpu::sum_rows<A>(executor, rows_of, rows, term_size,
                       lod::detail::bytes_of<T>(rows, lod::detail::saturated_product(3, row_size)), sums.data());
      cpu::convert(sums.data(), row_size, dscale);
      if constexpr (with_bias) cpu::convert(sums.data() + row_size, row_size, dbias);
    });
  }
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu
