// SPDX-License-Identifier: Apache-2.0
/// @file
/// The operators softmax and log_softmax, and their gradients.
#pragma once

#include <lod/core/any_tensor.hpp>
#include <lod/core/executor.hpp>
#include <lod/core/target.hpp>
#include <lod/ops/for_each_place.hpp>
#include <lod/ops/kernel.hpp>
#include <lod/program/operator.hpp>
#include <lod/program/operators/elementary.hpp>
#include <lod/program/operators/shapes.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs {

// A constant, because device code cannot call the functions of numeric_limits.
template <class T>
inline constexpr T less_than_all = -std::numeric_limits<T>::infinity();

/// y[k step] = f(x[k step]) for `count` numbers; y may be x.
template <bool adjacent, class T, class F>
LOD_HOST_DEVICE void map_line(const T* x, std::int64_t count, std::int64_t step, T* y, const F& f) {
#ifndef __CUDA_ARCH__
  if constexpr (adjacent) return operation::compute_numbers(f, count, y, x);
#endif
  for (std::int64_t k = 0; k < count; ++k) y[k * step] = f(x[k * step]);
}

/// The softmax of `count` numbers that are `apart` places apart, or its logarithm. The greatest is subtracted first.
/// Maxima and sums are kept for eight numbers side by side, so that compilers can vectorize, above all if they know
/// that the numbers are `adjacent`, 1 apart.
template <bool is_log, bool adjacent, class T>
LOD_HOST_DEVICE void softmax_of(const T* x, std::int64_t count, std::int64_t apart, T* y) {
  const std::int64_t step = adjacent ? 1 : apart;
  constexpr std::int64_t side_by_side = 8;
  const std::int64_t whole = count - count % side_by_side;
  T greatest[side_by_side];
  for (T& each : greatest) each = less_than_all<T>;
  const auto raise = [](T& most, T number) { most = number > most ? number : most; };
  for (std::int64_t k = 0; k < whole; k += side_by_side) {
    for (std::int64_t j = 0; j < side_by_side; ++j) raise(greatest[j], x[(k + j) * step]);
  }
  for (std::int64_t k = whole; k < count; ++k) raise(greatest[0], x[k * step]);
  for (std::int64_t j = 1; j < side_by_side; ++j) raise(greatest[0], greatest[j]);
  const T most = greatest[0];
  map_line<adjacent>(x, count, step, y, [=](T number) { return exponential(number - most); });
  double totals[side_by_side] = {};
  for (std::int64_t k = 0; k < whole; k += side_by_side) {
    for (std::int64_t j = 0; j < side_by_side; ++j) totals[j] += static_cast<double>(y[(k + j) * step]);
  }
  for (std::int64_t k = whole; k < count; ++k) totals[0] += static_cast<double>(y[k * step]);
  for (std::int64_t j = 1; j < side_by_side; ++j) totals[0] += totals[j];
  if constexpr (is_log) {
    const T log = static_cast<T>(std::log(totals[0]));
    map_line<adjacent>(x, count, step, y, [=](T number) { return number - most - log; });
  } else {
    map_line<adjacent>(y, count, step, y,
                       [total = totals[0]](T number) { return static_cast<T>(static_cast<double>(number) / total); });
  }
}

/// The same for all lines along an axis, and its gradient.
template <bool is_log, class T>
struct SoftmaxAlong {
  Around around;
  const T* x;
  T* y;
  LOD_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t first = around.first(i);
    if (around.after == 1) {
      softmax_of<is_log, true>(x + first, around.along, 1, y + first);
    } else {
      softmax_of<is_log, false>(x + first, around.along, around.after, y + first);
    }
  }
};
template <bool is_log, class T>
struct SoftmaxGradAlong {
  Around around;
  const T* y;
  const T* dy;
  T* dx;
  LOD_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t first = around.first(i), last = first + around.along * around.after;
    double total = 0;
    for (std::int64_t k = first; k < last; k += around.after) {
      total += static_cast<double>(is_log ? dy[k] : dy[k] * y[k]);
    }
    for (std::int64_t k = first; k < last; k += around.after) {
      dx[k] = is_log ? dy[k] - std::exp(y[k]) * static_cast<T>(total) : y[k] * (dy[k] - static_cast<T>(total));
    }
  }
};

/// softmax and log_softmax: X -> Out; axis = -1.
template <Executor E, bool is_log>
RunOperator<E> softmax(const OperatorArguments& op) {
  const Slot x = op.input("X"), out = op.output("Out");
  const std::int32_t axis = op.attr("axis", -1);
  return [=](OperatorCall<E>& call) {
    const auto& from = call.tensor(x);
    const Around around(from.shape(), axis_of(axis, from.shape().size()));
    call.with_floating(x, [&](auto element) {
      using T = typename decltype(element)::type;
      const T* const values = call.template view<T>(x).data();
      auto y = call.output_bytes(out, from.data_type(), from.lod(), from.row_shape(), from.rows());
      const std::int64_t rows = around.lines();
      const SoftmaxAlong<is_log, T> one{around, values, y.template elements<T>()};
      if constexpr (operation::on_cpu<E>) {
        const std::size_t bytes = 2 * sizeof(T) * static_cast<std::size_t>(around.along);
        operation::for_each_part(call.executor(), rows, bytes, [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t i = begin; i < end; ++i) one(i);
        });
      } else {
        operation::for_each_place(call.executor(), rows, one);
      }
    });
  };
}

/// softmax_grad and log_softmax_grad: Out, Out@GRAD -> X@GRAD; axis = -1.
template <Executor E, bool is_log>
RunOperator<E> softmax_grad(const OperatorArguments& op) {
  const Slot y = op.input("Out"), dy = op.input("Out@GRAD"), dx = op.output("X@GRAD");
  const std::int32_t axis = op.attr("axis", -1);
  return [=](OperatorCall<E>& call) {
    const auto& from = call.tensor(y);
    const Around around(from.shape(), axis_of(axis, from.shape().size()));
    call.with_floating(y, [&](auto element) {
      using T = typename decltype(element)::type;
      const T *const values = call.template view<T>(y).data(), *const given = numbers_of<T>(call, dy, from.shape());
      auto out = call.output_bytes(dx, from.data_type(), from.lod(), from.row_shape(), from.rows());
      operation::for_each_place(call.executor(), around.lines(),
                                SoftmaxGradAlong<is_log, T>{around, values, given, out.template elements<T>()});
    });
  };
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs
