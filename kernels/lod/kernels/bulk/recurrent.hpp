// SPDX-License-Identifier: Apache-2.0
/// @file
/// The steps of recurrent units in bulk, except for their matrix products, and matrix transposition.
#pragma once

#include <lod/core/version.hpp>
#include <lod/kernels/bulk/bulk.hpp>
#include <lod/kernels/bulk/divisor.hpp>
#include <lod/ops/recurrent.hpp>

#include <cmath>
#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk {

/// One number.
template <class T>
struct StateLane {
  using A = Accumulator<T>;

  LOD_HOST_DEVICE A load(const T* x, std::int64_t at = 0) const { return x ? static_cast<A>(x[at]) : A{}; }
  LOD_HOST_DEVICE void store(T* y, A number) const { *y = static_cast<T>(number); }
  LOD_HOST_DEVICE static constexpr A one() { return A{1}; }
  /// 1 / (1 + e^-x): 0 where the exponential overflows and 1 where it underflows.
  LOD_HOST_DEVICE static A sigmoid(A x) { return A{1} / (A{1} + std::exp(-x)); }
  LOD_HOST_DEVICE static A hyperbolic_tangent(A x) { return std::tanh(x); }
  LOD_HOST_DEVICE static A if_positive(A condition, A x) { return condition > A{} ? x : A{}; }
  LOD_HOST_DEVICE static A within(A x, A limit) { return x > limit ? limit : x < -limit ? -limit : x; }
  LOD_HOST_DEVICE static A if_within(A x, A limit, A y) { return x > -limit && x < limit ? y : A{}; }
};

template <>
struct Kernel<StepStates> {
  template <class E, class Step>
  static void run(const E& executor, std::int64_t rows, const Step& step) {
    using T = typename Step::value_type;
    for_each(executor, rows * step.size,
             [=] LOD_HOST_DEVICE(std::int64_t at) { step(StateLane<T>{}, at / step.size, at % step.size); });
  }
};

template <>
struct Kernel<TransposeMatrix> {
  /// In squares of elements, which neighbouring threads share, so that whole sectors of memory are read and written.
  /// Threads that follow a row of y would read one element of each sector.
  static constexpr std::int64_t side = 8;

  template <class E, class T>
  static void run(const E& executor, const T* x, std::int64_t rows, std::int64_t columns, T* y) {
    const std::int64_t squares_across = (columns + side - 1) / side, squares_down = (rows + side - 1) / side;
    const std::int64_t squares = squares_across * squares_down;
    const LongDivisor across(greatest<std::int64_t>(squares_across, 1), squares);
    for_each(executor, squares * side * side, [=] LOD_HOST_DEVICE(std::int64_t at) {
      const std::int64_t square = at / (side * side), down = across.quotient(square);
      const std::int64_t i = down * side + at / side % side;
      const std::int64_t j = across.remainder(square, down) * side + at % side;
      if (i < rows && j < columns) y[j * rows + i] = x[i * columns + j];
    });
  }
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk
