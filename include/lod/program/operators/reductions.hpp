// SPDX-License-Identifier: Apache-2.0
/// @file
/// Operators that reduce tensors, or work along an axis: mean, reduce_*, top_k, arg_max, and their gradients.
#pragma once

#include <lod/core/any_tensor.hpp>
#include <lod/core/data_type.hpp>
#include <lod/core/error.hpp>
#include <lod/core/executor.hpp>
#include <lod/core/shape.hpp>
#include <lod/core/target.hpp>
#include <lod/ops/arithmetic.hpp>
#include <lod/ops/for_each_place.hpp>
#include <lod/ops/kernel.hpp>
#include <lod/ops/sequence_pool.hpp>
#include <lod/ops/staging.hpp>
#include <lod/program/operator.hpp>
#include <lod/program/operators/elementwise.hpp>
#include <lod/program/operators/shapes.hpp>
#include <lod/program/operators/wide.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs {

/// The type in which sums of elements of type T are computed.
template <class T>
using SumOf = std::conditional_t<std::integral<T>, std::int64_t, double>;

// Reductions: the initial value, how an element is added, and the result from the final value and the number of
// elements.

struct Reducing {
  static constexpr bool may_overflow = false;  ///< whether an infinite result is worked out in a wider range
  template <class A>
  static A end(A a, std::int64_t) {
    return a;
  }
};
/// Sums begin with the zero that changes nothing, so that a sum of -0 is -0; the sum of no numbers is 0.
struct Summing {
  static constexpr bool may_overflow = true;
  template <class T>
  static SumOf<T> begin() {
    return std::integral<T> ? SumOf<T>{0} : -SumOf<T>{0};
  }
  template <class A>
  static A add(A a, A b) {
    return kernel::Add()(a, b);
  }
  template <class A>
  static A end(A a, std::int64_t count) {
    return count > 0 ? a : A{0};
  }
};
/// The mean of no numbers is NaN, as in PaddlePaddle; of no integers it is 0. That of integers is the exact sum,
/// divided and truncated.
struct Averaging {
  static constexpr bool may_overflow = true;
  template <class T>
  static std::conditional_t<std::integral<T>, WideSum, double> begin() {
    if constexpr (std::integral<T>) return 0;
    return -0.0;
  }
  template <class A>
  static A add(A a, A b) {
    return a + b;
  }
  template <class A>
  static A end(A a, std::int64_t count) {
    return !std::floating_point<A> && count == 0 ? A{} : a / static_cast<A>(count);
  }
};
struct Multiplying : Reducing {
  static constexpr bool may_overflow = true;
  template <class T>
  static SumOf<T> begin() {
    return 1;
  }
  template <class A>
  static A add(A a, A b) {
    return kernel::Multiply()(a, b);
  }
};
struct FindingGreatest : Reducing {
  template <class T>
  static T begin() {
    return std::numeric_limits<T>::has_infinity ? -std::numeric_limits<T>::infinity()
                                                : std::numeric_limits<T>::lowest();
  }
  template <class A>
  static A add(A a, A b) {
    return a < b || b != b ? b : a;
  }
};
struct FindingLeast : Reducing {
  template <class T>
  static T begin() {
    return std::numeric_limits<T>::has_infinity ? std::numeric_limits<T>::infinity() : std::numeric_limits<T>::max();
  }
  template <class A>
  static A add(A a, A b) {
    return b < a || b != b ? b : a;
  }
};
struct FindingAll : Reducing {
  template <class T>
  static bool begin() {
    return true;
  }
  static bool add(bool a, bool b) { return a && b; }
};
struct FindingAny : Reducing {
  template <class T>
  static bool begin() {
    return false;
  }
  static bool add(bool a, bool b) { return a || b; }
};

/// A tensor of which some axes are reduced: its results, and the result that each element belongs to.
class ReducedAxes {
 public:
  Shape shape;               ///< of the results
  std::int64_t results = 1;  ///< how many there are
  std::int64_t each = 1;     ///< the elements of each

  /// `axes` as in `reduction`; all of them if there are none.
  ReducedAxes(const Shape& from, const std::vector<std::int64_t>& axes, bool keeps_dims)
      : ReducedAxes(from, IsReduced(from, axes), keeps_dims) {}

  /// Whether rows stay rows.
  bool keeps_rows() const noexcept { return keeps_rows_; }
  /// Calls f(element, result, count, moves) for runs of elements, in their order: the places of the first of `count`
  /// elements and of its result, which is that of the whole run unless it moves with each element.
  template <class F>
  void for_each_run(const F& f) const {
    repeated_.for_each_run([&](std::int64_t element, std::int64_t result, std::int64_t, std::int64_t count, bool,
                               bool moves) { f(element, result, count, moves); });
  }

 private:
  /// Which dimensions are reduced.
  struct IsReduced : std::array<bool, Shape::max_rank> {
    IsReduced(const Shape& from, const std::vector<std::int64_t>& axes) {
      fill(axes.empty());
      for (const std::int64_t axis : axes) (*this)[axis_of(axis, from.size())] = true;
    }
    /// The shape with dimensions of 1 in the place of the reduced ones, or without these.
    Shape results(const Shape& from, bool keeps_dims) const {
      Shape left;
      for (std::size_t dim = 0; dim < from.size(); ++dim) {
        if (!(*this)[dim] || keeps_dims) left = left.followed_by({(*this)[dim] ? 1 : from[dim]});
      }
      return left;
    }
  };
  ReducedAxes(const Shape& from, const IsReduced& is_reduced, bool keeps_dims)
      : shape(is_reduced.results(from, keeps_dims)),
        keeps_rows_(!from.empty() && !is_reduced[0]),
        repeated_(from, is_reduced.results(from, true), -1) {
    for (std::size_t dim = 0; dim < from.size(); ++dim) (is_reduced[dim] ? each : results) *= from[dim];
  }

  bool keeps_rows_;
  Broadcast repeated_;  ///< the results, to the shape of the elements
};

/// Reduces numbers to `all`, without the end.
template <class F, class T, class A>
void reduce(const T* values, const ReducedAxes& axes, A* all) {
  const auto nothing = static_cast<A>(F::template begin<T>());
  std::fill_n(all, axes.results, nothing);
  axes.for_each_run([&](std::int64_t element, std::int64_t result, std::int64_t count, bool moves) {
    const T* const run = values + element;
    A* const to = all + result;
    if (moves) {
      for (std::int64_t n = 0; n < count; ++n) to[n] = F::add(to[n], static_cast<A>(run[n]));
    } else {
      *to = folded(
          *to, nothing, [](A a, A b) { return F::add(a, b); }, count,
          [run](std::int64_t n) { return static_cast<A>(run[n]); });
    }
  });
}
template <class F, class T, class E>
void reduce(const OperatorCall<E>& call, const Slot& x, const Slot& out, const ReducedAxes& axes) {
  const auto& from = call.tensor(x);
  using A = decltype(F::template begin<T>());
  const T* const values = call.template view<T>(x).data();
  const Workspace::Loan<A> all(call.executor().workspace(), axes.results);
  auto y = call.output_bytes(out, from.data_type(), axes.shape, axes.keeps_rows() ? from : AnyLoDTensor());
  const auto write = [&](const auto* results) {
    T* const to = y.template elements<T>();
    for (std::int64_t i = 0; i < axes.results; ++i) to[i] = static_cast<T>(F::end(results[i], axes.each));
  };
  reduce<F>(values, axes, all.data());
  if constexpr (F::may_overflow && std::floating_point<A>) {
    if (!std::all_of(all.data(), all.data() + axes.results, [](A a) { return std::isfinite(a); })) {
      const Workspace::Loan<long double> wide(call.executor().workspace(), axes.results);
      reduce<F>(values, axes, wide.data());
      return write(wide.data());
    }
  }
  write(all.data());
}

/// mean: X -> Out: of all elements, one number.
template <Executor E>
RunOperator<E> mean(const OperatorArguments& op) {
  const Slot x = op.input("X"), out = op.output("Out");
  return [=](OperatorCall<E>& call) {
    call.with_floating(x, [&](auto element) {
      using T = typename decltype(element)::type;
      const ReducedAxes all(call.tensor(x).shape(), {}, false);
      if constexpr (operation::on_cpu<E>) {
        reduce<Averaging, T>(call, x, out, all);
      } else {
        const auto from = call.template view<T>(x);
        auto y = call.output_bytes(out, data_type_v<T>, LoD(), {}, 1);
        const operation::WholeBatch<E> batch(call.executor(), all.each);
        launch(kernel::SequencePool(), call.executor(), from.data(), batch.segments(), std::int64_t{1},
               PoolType::AVERAGE, T{}, y.template elements<T>());
      }
    });
  };
}

/// The axes that a reduction is over: dim = {0}, reduce_all = false. None are all of them.
inline std::vector<std::int64_t> axes_of_reduction(const OperatorArguments& op) {
  return op.attr("reduce_all", false) ? std::vector<std::int64_t>() : op.attr("dim", std::vector<std::int64_t>{0});
}

/// reduce_*: X -> Out; dim = {0}, keep_dim = false, reduce_all = false. Levels stay unless axis 0 is reduced. A result
/// without dimensions is one number. reduce_all and reduce_any take bool.
template <class F, Executor E>
RunOperator<E> reduction(const OperatorArguments& op) {
  const Slot x = op.input("X"), out = op.output("Out");
  const bool keeps_dims = op.attr("keep_dim", false);
  if (op.attr("out_dtype", -1) != -1) op.refuse_attr("out_dtype", "-1, which is the type of X");
  return [=, dims = axes_of_reduction(op)](OperatorCall<E>& call) {
    const ReducedAxes axes(call.tensor(x).shape(), dims, keeps_dims);
    if constexpr (std::same_as<F, FindingAll> || std::same_as<F, FindingAny>) {
      reduce<F, bool>(call, x, out, axes);
    } else {
      call.with_number(x, [&](auto element) { reduce<F, typename decltype(element)::type>(call, x, out, axes); });
    }
  };
}

// The gradient with respect to x, from the gradient g of a reduction of `count` elements to y.

struct GradientOfSum {
  template <class T>
  static T to_x(T, T, T g, std::int64_t) {
    return g;
  }
};
struct GradientOfMean {
  template <class T>
  static T to_x(T, T, T g, std::int64_t count) {
    return g / static_cast<T>(count);
  }
};
struct GradientOfProduct {
  template <class T>
  static T to_x(T x, T y, T g, std::int64_t) {
    return g * y / x;
  }
};
/// The gradient of a maximum or minimum.
struct GradientOfExtreme {
  template <class T>
  static T to_x(T x, T y, T g, std::int64_t) {
    return x == y ? g : T{0};
  }
};

/// reduce_sum_grad and the like: X, Out? (for products, maxima and minima), Out@GRAD -> X@GRAD; attributes as
/// `reduction`. mean_grad: the same over all axes.
template <class F, Executor E, bool is_mean = false>
RunOperator<E> reduction_grad(const OperatorArguments& op) {
  constexpr bool reads_result = std::same_as<F, GradientOfProduct> || std::same_as<F, GradientOfExtreme>;
  const Slot x = op.input("X"), dy = op.input("Out@GRAD"), dx = op.output("X@GRAD");
  const Slot y = reads_result ? op.input("Out") : dy;
  const auto dims = is_mean ? std::vector<std::int64_t>() : axes_of_reduction(op);
  return [=](OperatorCall<E>& call) {
    call.with_floating(x, [&](auto element) {
      using T = typename decltype(element)::type;
      const auto& from = call.tensor(x);
      const ReducedAxes axes(from.shape(), dims, false);
      const T* const values = call.template view<T>(x).data();
      const T* const given = some_numbers<T>(call, dy, axes.results);
      const T* const results = some_numbers<T>(call, y, axes.results);
      auto out = call.output_bytes(dx, from.data_type(), from.lod(), from.row_shape(), from.rows());
      T* const to = out.template elements<T>();
      if constexpr (operation::on_cpu<E>) {
        axes.for_each_run([&](std::int64_t first, std::int64_t result, std::int64_t count, bool moves) {
          for (std::int64_t n = 0; n < count; ++n) {
            const std::int64_t i = first + n, k = moves ? result + n : result;
            to[i] = F::to_x(values[i], results[k], given[k], axes.each);
          }
        });
      } else {
        static_assert(is_mean, "elsewhere than on the CPU, of all elements alone");
        const operation::WholeBatch<E> batch(call.executor(), axes.each);
        launch(kernel::SequencePoolGrad(), call.executor(), given, batch.segments(), std::int64_t{1}, PoolType::AVERAGE,
               to);
      }
    });
  };
}

/// top_k: X -> Out, Indices; k = 1: the greatest numbers along the last axis, the first of equal ones. NaN is greater
/// than all others. top_k_v2: axis = -1, which must be the last, largest = true, sorted = true.
template <Executor E>
RunOperator<E> top_k(const OperatorArguments& op) {
  op.expect_no_input("K");
  op.expect_attr("largest", true);
  const Slot x = op.input("X"), out = op.output("Out"), indices = op.output("Indices");
  const std::int32_t k = op.attr("k", 1), axis = op.attr("axis", -1);
  if (k < 1) op.refuse_attr("k", "1 or more");
  return [=](OperatorCall<E>& call) {
    const auto& from = call.tensor(x);
    const Shape shape = from.shape();
    const std::size_t last = last_axis(axis, shape.size());
    const Around around(shape, last);
    if (k > around.along) {
      throw ShapeMismatch(detail::text(
          {call.name(x), " of shape ", to_string(shape), ", expected ", k, " numbers or more along the last axis"}));
    }
    call.with_number(x, [&](auto element) {
      using T = typename decltype(element)::type;
      const T* const values = call.template view<T>(x).data();
      const Workspace::Loan<std::int64_t> order(call.executor().workspace(), around.along);
      const Shape row_shape = part(shape, 0, last).followed_by({k});
      auto y = call.output_bytes(out, from.data_type(), row_shape, from);
      auto places = call.output_bytes(indices, DataType::INT64, row_shape, from);
      T* const to = y.template elements<T>();
      auto* const chosen = places.template elements<std::int64_t>();
      for (std::int64_t i = 0; i < around.before; ++i) {
        const T* const row = values + i * around.along;
        std::iota(order.data(), order.data() + around.along, std::int64_t{0});
        std::partial_sort(order.data(), order.data() + k, order.data() + around.along,
                          [row](std::int64_t a, std::int64_t b) {
                            return comes_before(row[b], row[a]) || (!comes_before(row[a], row[b]) && a < b);
                          });
        for (std::int64_t j = 0; j < k; ++j) {
          chosen[i * k + j] = order[j];
          to[i * k + j] = row[order[j]];
        }
      }
    });
  };
}

/// arg_max and arg_min: X -> Out; axis, keepdims = false, flatten = false, dtype = INT64: the first of equal ones, or
/// the first NaN if there is one, as reduce_max and reduce_min give it.
template <Executor E, bool is_max>
RunOperator<E> arg_extreme(const OperatorArguments& op) {
  const Slot x = op.input("X"), out = op.output("Out");
  const std::int64_t axis = op.attr("axis", std::int64_t{-1});
  const bool keeps_dims = op.attr("keepdims", false), is_flat = op.attr("flatten", false);
  const std::int32_t number = op.attr("dtype", -1);  // -1 is INT64
  const DataType type = number == -1 ? DataType::INT64 : op.data_type("dtype", DataType::INT64);
  if (type != DataType::INT64 && type != DataType::INT32) op.refuse_attr("dtype", "INT64 or INT32");
  return [=](OperatorCall<E>& call) {
    const auto& from = call.tensor(x);
    const Shape whole = from.shape(), shape = is_flat ? Shape{whole.elements()} : whole;
    const std::size_t along = axis_of(is_flat ? 0 : axis, shape.size());
    const Around around(shape, along);
    if (around.along == 0)
      throw ShapeMismatch(detail::text({call.name(x), ": nothing to choose from along axis ", axis}));
    Shape result = part(shape, 0, along);
    if (keeps_dims && is_flat) {
      for (std::size_t dim = 0; dim < whole.size(); ++dim) result = result.followed_by({1});
    } else if (keeps_dims) {
      result = result.followed_by({1});
    }
    result = result.followed_by(part(shape, along + 1, shape.size()));
    call.with_number(x, [&](auto element) {
      using T = typename decltype(element)::type;
      const T* const values = call.template view<T>(x).data();
      auto y = call.output_bytes(out, type, result, along == 0 ? AnyLoDTensor() : from);
      for (std::int64_t i = 0; i < around.parts(); ++i) {
        for (std::int64_t j = 0; j < around.after; ++j) {
          const T* const first = values + i * around.along * around.after + j;
          std::int64_t best = 0;
          for (std::int64_t k = 1; k < around.along; ++k) {
            const T found = first[k * around.after], known = first[best * around.after];
            if ((is_max ? known < found : found < known) || (found != found && known == known)) best = k;
          }
          const std::int64_t place = i * around.after + j;
          if (type == DataType::INT64) {
            y.template elements<std::int64_t>()[place] = best;
          } else {
            y.template elements<std::int32_t>()[place] = static_cast<std::int32_t>(best);
          }
        }
      }
    });
  };
}

/// top_k_grad and top_k_v2_grad: X, Indices, Out@GRAD -> X@GRAD.
template <Executor E>
RunOperator<E> top_k_grad(const OperatorArguments& op) {
  const Slot x = op.input("X"), indices = op.input("Indices"), dy = op.input("Out@GRAD"), dx = op.output("X@GRAD");
  const std::int32_t axis = op.attr("axis", -1);
  return [=](OperatorCall<E>& call) {
    const auto& from = call.tensor(x);
    const Shape shape = from.shape();
    const std::size_t last = last_axis(axis, shape.size());
    const Around around(shape, last);
    call.with_floating(dy, [&](auto element) {
      using T = typename decltype(element)::type;
      const Shape chosen_shape = call.tensor(dy).shape();
      const T* const given = call.template view<T>(dy).data();
      const auto* const chosen = numbers_of<std::int64_t>(call, indices, chosen_shape);
      const std::int64_t count = chosen_shape.elements();
      const std::int64_t k = around.before > 0 ? count / around.before : 0;
      if (part(chosen_shape, 0, chosen_shape.size() - 1) != part(shape, 0, last)) {
        throw ShapeMismatch(detail::text(
            {call.name(dy), " of shape ", to_string(chosen_shape), ", expected rows of ", to_string(shape)}));
      }
      for (std::int64_t i = 0; i < count; ++i) {
        if (chosen[i] < 0 || chosen[i] >= around.along) {
          throw OutOfRange(
              detail::text({call.name(indices), ": ", chosen[i], " at ", i, ", expected 0 to ", around.along - 1}));
        }
      }
      auto out = call.output_bytes(dx, from.data_type(), from.lod(), from.row_shape(), from.rows());
      T* const to = out.template elements<T>();
      std::fill_n(to, from.rows() * from.row_size(), T{0});
      for (std::int64_t i = 0; i < count; ++i) to[i / k * around.along + chosen[i]] += given[i];
    });
  };
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs
