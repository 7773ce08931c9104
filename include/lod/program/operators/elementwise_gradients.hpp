// SPDX-License-Identifier: Apache-2.0
/// @file
/// Gradients of operators on pairs of elements: elementwise_add_grad and the like.
#pragma once

#include <lod/core/any_tensor.hpp>
#include <lod/core/executor.hpp>
#include <lod/core/shape.hpp>
#include <lod/core/target.hpp>
#include <lod/ops/for_each_place.hpp>
#include <lod/ops/matrix_product.hpp>
#include <lod/ops/staging.hpp>
#include <lod/program/operator.hpp>
#include <lod/program/operators/elementwise.hpp>
#include <lod/program/operators/shapes.hpp>

#include <cmath>
#include <concepts>
#include <cstdint>
#include <functional>

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs {

// The gradients with respect to x and y, from the gradient g with respect to f(x, y). If x and y are equal, the minimum
// and the maximum are y, as in PaddlePaddle.

struct GradientOfAdd {
  template <class T>
  LOD_HOST_DEVICE static T to_x(T, T, T g) {
    return g;
  }
  template <class T>
  LOD_HOST_DEVICE static T to_y(T, T, T g) {
    return g;
  }
};
struct GradientOfSubtract : GradientOfAdd {
  template <class T>
  LOD_HOST_DEVICE static T to_y(T, T, T g) {
    return -g;
  }
};
struct GradientOfMultiply {
  template <class T>
  LOD_HOST_DEVICE static T to_x(T, T y, T g) {
    return g * y;
  }
  template <class T>
  LOD_HOST_DEVICE static T to_y(T x, T, T g) {
    return g * x;
  }
};
struct GradientOfDivide {
  template <class T>
  LOD_HOST_DEVICE static T to_x(T, T y, T g) {
    return g / y;
  }
  template <class T>
  LOD_HOST_DEVICE static T to_y(T x, T y, T g) {
    return -g * (x / y) / y;
  }
};
struct GradientOfMaximum {
  template <class T>
  LOD_HOST_DEVICE static T to_x(T x, T y, T g) {
    return x > y ? g : T{0};
  }
  template <class T>
  LOD_HOST_DEVICE static T to_y(T x, T y, T g) {
    return x > y ? T{0} : g;
  }
};
struct GradientOfMinimum {
  template <class T>
  LOD_HOST_DEVICE static T to_x(T x, T y, T g) {
    return x < y ? g : T{0};
  }
  template <class T>
  LOD_HOST_DEVICE static T to_y(T x, T y, T g) {
    return x < y ? T{0} : g;
  }
};
struct GradientOfPower {
  template <class T>
  LOD_HOST_DEVICE static T to_x(T x, T y, T g) {
    return g * y * std::pow(x, y - 1);
  }
  template <class T>
  LOD_HOST_DEVICE static T to_y(T x, T y, T g) {
    return g * std::log(x) * std::pow(x, y);
  }
};

/// The gradient of each number of x, or of y, on other devices than the CPU: the sum over its repetitions.
template <class F, class T>
struct GradientsOfPlaces {
  Broadcast::PairsOfPlaces places;
  bool is_of_y;
  const T* x;
  const T* y;
  const T* g;
  T* to;
  std::int64_t terms;
  LOD_HOST_DEVICE void operator()(std::int64_t at) const {
    double sum = 0;
    for (std::int64_t k = 0; k < terms; ++k) {
      const std::int64_t element = places.element(is_of_y ? 1 : 0, at, k);
      const auto [i, j] = places(element);
      sum += static_cast<double>(is_of_y ? F::to_y(x[i], y[j], g[element]) : F::to_x(x[i], y[j], g[element]));
    }
    to[at] = static_cast<T>(sum);
  }
};

/// elementwise_add_grad and the like: X, Y, Out@GRAD -> X@GRAD?, Y@GRAD?; axis = -1. Levels as X and Y. The gradient of
/// a repeated element is the sum over its repetitions.
template <class F, Executor E>
RunOperator<E> elementwise_grad(const OperatorArguments& op) {
  const Slot x = op.input("X"), y = op.input("Y"), dz = op.input("Out@GRAD");
  const Slot dx = op.optional_output("X@GRAD"), dy = op.optional_output("Y@GRAD");
  const std::int32_t axis = op.attr("axis", -1);
  return [=](OperatorCall<E>& call) {
    const auto a = call.tensor(x), b = call.tensor(y);
    const Broadcast both(a.shape(), b.shape(), axis);
    call.with_floating(x, [&](auto element) {
      using T = typename decltype(element)::type;
      const T *const left = call.template view<T>(x).data(), *const right = call.template view<T>(y).data();
      const T* const given = numbers_of<T>(call, dz, both.shape());
      const auto write = [&](const Slot& slot, const auto& like, const auto& term) {
        if (!slot) return;
        if constexpr (!operation::on_cpu<E>) {
          auto out = call.output_bytes(slot, like.data_type(), like.lod(), like.row_shape(), like.rows());
          T* const to = out.template elements<T>();
          const std::int64_t count = like.rows() * like.row_size();
          if (std::same_as<F, GradientOfAdd> && &slot == &dy && both.repeats_row_of_y() && both.shape() == a.shape()) {
            return operation::sum_columns(call.executor(), given, a.rows(), a.row_size(), to);
          }
          const GradientsOfPlaces<F, T> sums{
              typename Broadcast::PairsOfPlaces(both),        &slot == &dy, left, right, given, to,
              count > 0 ? both.shape().elements() / count : 0};
          operation::for_each_place(call.executor(), count, sums);
        } else if (like.shape() == both.shape()) {
          auto out = call.output_bytes(slot, like.data_type(), like.lod(), like.row_shape(), like.rows());
          both.for_each_number([&](T p, T q, std::int64_t k) { return term(p, q, given[k]); }, left, right,
                               out.template elements<T>());
        } else {
          write_sums<T>(call, slot, like, [&](double* sums) {
            both.for_each_run([&](std::int64_t i, std::int64_t j, std::int64_t k, std::int64_t count, bool moves_x,
                                  bool moves_y) {
              const auto number = [&](std::int64_t n) {
                return static_cast<double>(term(left[moves_x ? i + n : i], right[moves_y ? j + n : j], given[k + n]));
              };
              double* const to = sums + (&slot == &dx ? i : j);
              if (&slot == &dx ? moves_x : moves_y) {
                for (std::int64_t n = 0; n < count; ++n) to[n] += number(n);
              } else {
                *to = folded(*to, 0.0, std::plus<>(), count, number);
              }
            });
          });
        }
      };
      write(dx, a, F::template to_x<T>);
      write(dy, b, F::template to_y<T>);
    });
  };
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs
