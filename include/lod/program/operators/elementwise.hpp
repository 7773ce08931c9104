// SPDX-License-Identifier: Apache-2.0
/// @file
/// Operators on pairs of elements: elementwise_add and the like, comparisons, and logic.
#pragma once

#include <lod/core/any_tensor.hpp>
#include <lod/core/error.hpp>
#include <lod/core/executor.hpp>
#include <lod/core/lod_view.hpp>
#include <lod/core/scalar.hpp>
#include <lod/core/shape.hpp>
#include <lod/core/target.hpp>
#include <lod/ops/elementwise.hpp>
#include <lod/ops/for_each_place.hpp>
#include <lod/ops/staging.hpp>
#include <lod/program/operator.hpp>
#include <lod/program/operators/formula.hpp>
#include <lod/program/operators/shapes.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs {

/// Broadcasts two shapes to one: the dimensions of the shorter are aligned with those of the longer from `axis` on, and
/// dimensions of 1 are repeated.
class Broadcast {
 public:
  /// With `axis` -1 both shapes end together. Throws ShapeMismatch for shapes that do not fit.
  Broadcast(const Shape& x, const Shape& y, std::int64_t axis) {
    const Shape& longer = x.size() >= y.size() ? x : y;
    const Shape& other = x.size() >= y.size() ? y : x;
    const std::size_t rank = longer.size();
    const std::size_t first = axis == -1 ? rank - other.size() : axis_of(axis, rank, 1);
    // Dimensions of 1 at the end need no counterpart.
    std::size_t shorter = other.size();
    while (shorter > 0 && first + shorter > rank && other[shorter - 1] == 1) --shorter;
    if (first + shorter > rank) throw_mismatch(x, y, axis);
    std::array<std::int64_t, Shape::max_rank> dims[2] = {};
    for (std::size_t dim = 0; dim < rank; ++dim) {
      dims[0][dim] = longer[dim];
      dims[1][dim] = dim >= first && dim < first + shorter ? other[dim - first] : 1;
    }
    if (&longer == &y) std::swap(dims[0], dims[1]);
    std::array<std::int64_t, Shape::max_rank> all = {};
    std::array<std::int64_t, Shape::max_rank> apart[2] = {};
    std::int64_t strides[2] = {1, 1};
    for (std::size_t dim = rank; dim-- > 0;) {
      if (dims[0][dim] != dims[1][dim] && dims[0][dim] != 1 && dims[1][dim] != 1) throw_mismatch(x, y, axis);
      all[dim] = dims[0][dim] == 1 ? dims[1][dim] : dims[0][dim];
      for (std::size_t which = 0; which < 2; ++which) {
        apart[which][dim] = dims[which][dim] == 1 ? 0 : strides[which];
        strides[which] *= dims[which][dim];
      }
    }
    shape_ = Shape(std::span<const std::int64_t>(all.data(), rank));
    repeats_row_of_y_ =
        rank > 0 && apart[1][0] == 0 && std::equal(apart[0].begin() + 1, apart[0].end(), apart[1].begin() + 1);
    if (std::find(shape_.begin(), shape_.end(), 0) != shape_.end()) return;
    for (std::size_t dim = 0; dim < rank; ++dim) {
      if (all[dim] == 1) continue;
      const bool joins = rank_ > 0 && strides_[0][rank_ - 1] == all[dim] * apart[0][dim] &&
                         strides_[1][rank_ - 1] == all[dim] * apart[1][dim];
      if (!joins) dims_[rank_++] = 1;
      dims_[rank_ - 1] *= all[dim];
      for (std::size_t which = 0; which < 2; ++which) strides_[which][rank_ - 1] = apart[which][dim];
    }
  }

  /// The common shape.
  const Shape& shape() const noexcept { return shape_; }
  /// Whether x has the common shape and y is one row for all of its rows.
  bool repeats_row_of_y() const noexcept { return repeats_row_of_y_; }

  /// Calls f(i, j, k, count, moves_x, moves_y) for runs of elements, in their order: the places in x and y of the first
  /// of `count` elements, its place among all, and whether the places in x, or y, move with each element.
  template <class F>
  void for_each_run(const F& f) const {
    if (std::find(shape_.begin(), shape_.end(), 0) != shape_.end()) return;
    if (rank_ == 0) return f(0, 0, 0, 1, true, true);
    const std::size_t last = rank_ - 1;
    const bool moves[2] = {strides_[0][last] != 0, strides_[1][last] != 0};
    std::array<std::int64_t, Shape::max_rank> at{};
    std::int64_t firsts[2] = {0, 0};
    for (std::int64_t place = 0;; place += dims_[last]) {
      f(firsts[0], firsts[1], place, dims_[last], moves[0], moves[1]);
      std::size_t dim = last;
      do {
        if (dim-- == 0) return;
        for (std::size_t which = 0; which < 2; ++which) firsts[which] += strides_[which][dim];
        if (++at[dim] < dims_[dim]) break;
        for (std::size_t which = 0; which < 2; ++which) firsts[which] -= dims_[dim] * strides_[which][dim];
        at[dim] = 0;
      } while (true);
    }
  }
  /// Calls f(i, j) with the places in x and y of each element, in the order of the elements.
  template <class F>
  void for_each_pair(const F& f) const {
    for_each_run([&](std::int64_t i, std::int64_t j, std::int64_t, std::int64_t count, bool moves_x, bool moves_y) {
      for (std::int64_t n = 0; n < count; ++n) f(moves_x ? i + n : i, moves_y ? j + n : j);
    });
  }
  /// to[k] = f(a, b, k) for each element k, with its numbers in x and y.
  template <class F, class T, class U>
  void for_each_number(const F& f, const T* x, const T* y, U* to) const {
    for_each_run([&](std::int64_t i, std::int64_t j, std::int64_t k, std::int64_t count, bool moves_x, bool moves_y) {
      const std::int64_t end = k + count;
      if (moves_x && moves_y) {
        for (; k < end; ++k) to[k] = f(x[i++], y[j++], k);
      } else if (moves_x) {
        for (const T b = y[j]; k < end; ++k) to[k] = f(x[i++], b, k);
      } else {
        for (const T a = x[i]; k < end; ++k) to[k] = f(a, y[j++], k);
      }
    });
  }
  /// z = f(x, y).
  template <Executor E, class F, class T, class U>
  void combine(const E& executor, const F& f, const T* x, const T* y, U* z) const {
    if constexpr (operation::on_cpu<E>) {
      for_each_number([&](T a, T b, std::int64_t) { return f(a, b); }, x, y, z);
    } else {
      operation::for_each_place(executor, shape_.elements(), Combined<F, T, U>{PairsOfPlaces(*this), f, x, y, z});
    }
  }

  /// The places of elements, for kernels: plain numbers.
  struct PairsOfPlaces {
    int rank;
    std::int64_t dims[Shape::max_rank] = {};
    std::int64_t steps[2][Shape::max_rank] = {};

    explicit PairsOfPlaces(const Broadcast& of) noexcept : rank(static_cast<int>(of.rank_)) {
      std::copy_n(of.dims_.begin(), rank, dims);
      for (std::size_t which = 0; which < 2; ++which) std::copy_n(of.strides_[which].begin(), rank, steps[which]);
    }
    /// The places in x and y of element `at` of their combination.
    struct Pair {
      std::int64_t i, j;
    };
    LOD_HOST_DEVICE Pair operator()(std::int64_t at) const noexcept {
      Pair pair{0, 0};
      for (int dim = rank; dim-- > 0; at /= dims[dim]) {
        pair.i += at % dims[dim] * steps[0][dim];
        pair.j += at % dims[dim] * steps[1][dim];
      }
      return pair;
    }
    /// The place of the k-th element of the combination that uses element `at` of x (`which` 0) or of y (`which` 1).
    LOD_HOST_DEVICE std::int64_t element(int which, std::int64_t at, std::int64_t k) const noexcept {
      std::int64_t place = 0, stride = 1;
      for (int dim = rank; dim-- > 0; stride *= dims[dim]) {
        std::int64_t& left = steps[which][dim] == 0 ? k : at;
        place += left % dims[dim] * stride;
        left /= dims[dim];
      }
      return place;
    }
  };

  /// f of two numbers at their places.
  template <class F, class T, class U>
  struct Combined {
    PairsOfPlaces places;
    F f;
    const T* x;
    const T* y;
    U* z;
    LOD_HOST_DEVICE void operator()(std::int64_t at) const {
      const auto [i, j] = places(at);
      z[at] = f(x[i], y[j]);
    }
  };

 private:
  [[noreturn, gnu::cold, gnu::noinline]] static void throw_mismatch(const Shape& x, const Shape& y, std::int64_t axis) {
    throw ShapeMismatch(detail::text({"shapes ", to_string(x), " and ", to_string(y), " with axis ", axis,
                                      ", expected dimensions that are equal or 1"}));
  }

  Shape shape_;
  bool repeats_row_of_y_ = false;
  // Neighbouring dimensions that x and y both repeat, or both have next to each other, are one here; those of 1 are
  // none.
  std::size_t rank_ = 0;
  std::array<std::int64_t, Shape::max_rank> dims_{};
  std::array<std::int64_t, Shape::max_rank> strides_[2]{};
};

// The functions of two numbers that the operators compute, with the library's own operation for the usual shapes, if it
// has one.

struct Adds {
  static constexpr const auto& into = add_into;
  template <class T>
  LOD_HOST_DEVICE T operator()(T a, T b) const {
    return kernel::Add()(a, b);
  }
};
struct Subtracts {
  static constexpr const auto& into = sub_into;
  template <class T>
  LOD_HOST_DEVICE T operator()(T a, T b) const {
    return kernel::Subtract()(a, b);
  }
};
struct Multiplies {
  static constexpr const auto& into = mul_into;
  template <class T>
  LOD_HOST_DEVICE T operator()(T a, T b) const {
    return kernel::Multiply()(a, b);
  }
};
/// On the CPU only: no other device computes quotients of integers.
template <std::integral T>
void check_divisor(T divisor) {
  if (divisor == 0) throw OutOfRange("Y: a divisor is 0");
}
struct Divides {
  static constexpr const auto& into = div_into;
  template <class T>
  LOD_HOST_DEVICE T operator()(T a, T b) const {
    if constexpr (std::integral<T>) check_divisor(b);
    return kernel::Divide()(a, b);
  }
};
// NaN, if either is.
LOD_FORMULA_OF_TWO(Maximum, T, a, b, a < b || b != b ? b : a);
LOD_FORMULA_OF_TWO(Minimum, T, a, b, b < a || b != b ? b : a);
LOD_FORMULA_OF_TWO(Power, T, a, b, Scalar(std::pow(a, b)).to<T>());
/// The remainder, with the sign of the divisor.
struct Remainder {
  template <class T>
  LOD_HOST_DEVICE T operator()(T a, T b) const {
    T rest;
    if constexpr (std::integral<T>) {
      check_divisor(b);
      if (b == -1) return 0;  // the least number divided by -1 would overflow
      rest = static_cast<T>(a % b);
    } else {
      rest = std::fmod(a, b);
    }
    return rest != 0 && (rest < 0) != (b < 0) ? static_cast<T>(rest + b) : rest;
  }
};
/// The quotient, rounded down.
struct FloorQuotient {
  template <class T>
  LOD_HOST_DEVICE T operator()(T a, T b) const {
    if constexpr (std::integral<T>) {
      check_divisor(b);
      const T quotient = kernel::Divide()(a, b);
      return b != -1 && a % b != 0 && (a < 0) != (b < 0) ? static_cast<T>(quotient - 1) : quotient;
    } else {
      return std::floor(a / b);
    }
  }
};

/// Whether the library has an operation that computes F.
template <class F>
concept HasOperation = requires {
  F::into;
};

/// elementwise_*: X, Y -> Out; axis = -1. The result has the levels of X.
template <class F, Executor E>
RunOperator<E> elementwise(const OperatorArguments& op) {
  const Slot x = op.input("X"), y = op.input("Y"), out = op.output("Out");
  const std::int32_t axis = op.attr("axis", -1);
  return [=](OperatorCall<E>& call) {
    const auto &a = call.tensor(x), &b = call.tensor(y);
    const Shape left = a.shape(), right = b.shape();
    const auto combine = [&](auto element) {
      using T = typename decltype(element)::type;
      const auto left_view = call.template view<T>(x), right_view = call.template view<T>(y);
      const Broadcast both(left, right, axis);
      if constexpr (HasOperation<F>) {
        const Shape& row = a.row_shape();
        const bool is_same = left == right;
        if (is_same || (both.shape() == left && both.repeats_row_of_y())) {
          const LoDTensorView<const T, typename E::device> other(
              right_view.data(), is_same ? left_view.lod_view() : LoDView::plain(0, 1), &row, a.row_size());
          auto sum = call.template output<T>(out);
          F::into(call.executor(), left_view, other, *sum);
          return;
        }
      }
      auto z = call.output_bytes(out, a.data_type(), both.shape(), a);
      both.combine(call.executor(), F(), left_view.data(), right_view.data(), z.template elements<T>());
    };
    // The CPU checks divisors of integers.
    if constexpr (operation::on_cpu<E> || !std::same_as<F, Divides>) {
      call.with_number(x, combine);
    } else {
      call.with_floating(x, combine);
    }
  };
}

/// Comparisons of two numbers: Out is bool.
LOD_FORMULA_OF_TWO(Less, bool, a, b, a < b);
LOD_FORMULA_OF_TWO(LessEqual, bool, a, b, a <= b);
LOD_FORMULA_OF_TWO(Greater, bool, a, b, a > b);
LOD_FORMULA_OF_TWO(GreaterEqual, bool, a, b, a >= b);
LOD_FORMULA_OF_TWO(Equal, bool, a, b, a == b);
LOD_FORMULA_OF_TWO(NotEqual, bool, a, b, a != b);
struct And {
  bool operator()(bool a, bool b) const { return a && b; }
};
struct Or {
  bool operator()(bool a, bool b) const { return a || b; }
};
struct ExclusiveOr {
  bool operator()(bool a, bool b) const { return a != b; }
};

/// less_than and the like: X, Y -> Out; axis = -1. logical_and and the like: the same on bool.
template <class F, Executor E, bool is_logic = false>
RunOperator<E> comparison(const OperatorArguments& op) {
  const Slot x = op.input("X"), y = op.input("Y"), out = op.output("Out");
  const std::int32_t axis = op.attr("axis", -1);
  return [=](OperatorCall<E>& call) {
    const auto& a = call.tensor(x);
    const Broadcast both(a.shape(), call.tensor(y).shape(), axis);
    const auto compare = [&](auto element) {
      using T = typename decltype(element)::type;
      const T *const left = call.template view<T>(x).data(), *const right = call.template view<T>(y).data();
      auto z = call.output_bytes(out, DataType::BOOL, both.shape(), a);
      both.combine(call.executor(), F(), left, right, z.template elements<bool>());
    };
    if constexpr (is_logic) {
      compare(detail::ElementType<bool>());
    } else {
      call.with_number(x, compare);
    }
  };
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs
