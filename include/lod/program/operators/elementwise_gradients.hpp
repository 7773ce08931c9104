// SPDX-License-Identifier: Apache-2.0
/// @file
/// Gradients of operators on pairs of elements: elementwise_add_grad and its kin.
#pragma once

#include <lod/core/any_tensor.hpp>
#include <lod/core/executor.hpp>
#include <lod/core/shape.hpp>
#include <lod/core/target.hpp>
#include <lod/program/operator.hpp>
#include <lod/program/operators/elementwise.hpp>
#include <lod/program/operators/shapes.hpp>

#include <cmath>
#include <cstdint>

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs {

// What goes to x and to y of the gradient g of f(x, y). Of equal numbers, the least and the greatest is y, as in
// PaddlePaddle.

struct GradientOfAdd {
  template <class T>
  static T to_x(T, T, T g) {
    return g;
  }
  template <class T>
  static T to_y(T, T, T g) {
    return g;
  }
};
struct GradientOfSubtract : GradientOfAdd {
  template <class T>
  static T to_y(T, T, T g) {
    return -g;
  }
};
struct GradientOfMultiply {
  template <class T>
  static T to_x(T, T y, T g) {
    return g * y;
  }
  template <class T>
  static T to_y(T x, T, T g) {
    return g * x;
  }
};
struct GradientOfDivide {
  template <class T>
  static T to_x(T, T y, T g) {
    return g / y;
  }
  template <class T>
  static T to_y(T x, T y, T g) {
    return -g * (x / y) / y;
  }
};
struct GradientOfMaximum {
  template <class T>
  static T to_x(T x, T y, T g) {
    return x > y ? g : T{0};
  }
  template <class T>
  static T to_y(T x, T y, T g) {
    return x > y ? T{0} : g;
  }
};
struct GradientOfMinimum {
  template <class T>
  static T to_x(T x, T y, T g) {
    return x < y ? g : T{0};
  }
  template <class T>
  static T to_y(T x, T y, T g) {
    return x < y ? T{0} : g;
  }
};
struct GradientOfPower {
  template <class T>
  static T to_x(T x, T y, T g) {
    return g * y * std::pow(x, y - 1);
  }
  template <class T>
  static T to_y(T x, T y, T g) {
    return g * std::log(x) * std::pow(x, y);
  }
};

/// elementwise_add_grad and its kin: X, Y, Out@GRAD -> X@GRAD?, Y@GRAD?; axis = -1: with the levels of X and Y.
/// Elements that were repeated have the sum over where they were.
template <class F, Executor E>
RunOperator<E> elementwise_grad(const OperatorArguments& op) {
  const Slot x = op.input("X"), y = op.input("Y"), dz = op.input("Out@GRAD");
  const Slot dx = op.optional_output("X@GRAD"), dy = op.optional_output("Y@GRAD");
  const std::int32_t axis = op.attr("axis", -1);
  return [=](OperatorCall<E>& call) {
    const AnyLoDTensor a = call.tensor(x), b = call.tensor(y);
    const Broadcast both(a.shape(), b.shape(), axis);
    call.with_floating(x, [&](auto element) {
      using T = typename decltype(element)::type;
      const T *const left = call.template view<T>(x).data(), *const right = call.template view<T>(y).data();
      const T* const given = numbers_of<T>(call, dz, both.shape());
      const auto write = [&](const Slot& slot, const AnyLoDTensor& like, const auto& term, const auto& place) {
        if (!slot) return;
        if (like.shape() == both.shape()) {
          auto out = call.output_bytes(slot, like.data_type(), like.lod(), like.row_shape(), like.rows());
          T* to = out.template elements<T>();
          const T* g = given;
          both.for_each_pair([&](std::int64_t i, std::int64_t j) { *to++ = term(left[i], right[j], *g++); });
        } else {
          write_sums<T>(call, slot, like, [&](double* sums) {
            const T* g = given;
            both.for_each_pair([&](std::int64_t i, std::int64_t j) {
              sums[place(i, j)] += static_cast<double>(term(left[i], right[j], *g++));
            });
          });
        }
      };
      write(dx, a, F::template to_x<T>, [](std::int64_t i, std::int64_t) { return i; });
      write(dy, b, F::template to_y<T>, [](std::int64_t, std::int64_t j) { return j; });
    });
  };
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs
