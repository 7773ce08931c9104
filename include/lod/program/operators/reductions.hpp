// SPDX-License-Identifier: Apache-2.0
/// @file
/// Operators that reduce tensors, or work along an axis: sum, mean, reduce_*, softmax, log_softmax, top_k, arg_max,
/// losses, accuracy.
#pragma once

#include <lod/core/any_tensor.hpp>
#include <lod/core/data_type.hpp>
#include <lod/core/error.hpp>
#include <lod/core/executor.hpp>
#include <lod/core/shape.hpp>
#include <lod/core/target.hpp>
#include <lod/ops/arithmetic.hpp>
#include <lod/program/operator.hpp>
#include <lod/program/operators/shapes.hpp>

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

/// What sums of elements of type T are computed in.
template <class T>
using SumOf = std::conditional_t<std::integral<T>, std::int64_t, double>;

/// sum: X... -> Out: dense tensors of one shape, element by element.
template <Executor E>
RunOperator<E> sum(const OperatorArguments& op) {
  const Slot x = op.inputs("X"), out = op.output("Out");
  if (!x) op.refuse({"input 'X' has no argument, expected one or more"});
  return [=](OperatorCall<E>& call) {
    const AnyLoDTensor& first = call.tensor(x);
    for (std::size_t i = 1; i < x.size; ++i) {
      if (call.tensor(x, i).shape() != first.shape()) {
        throw ShapeMismatch(detail::text({call.name(x, i), " of shape ", to_string(call.tensor(x, i).shape()),
                                          ", expected ", to_string(first.shape())}));
      }
    }
    call.with_number(x, [&](auto element) {
      using T = typename decltype(element)::type;
      for (std::size_t i = 1; i < x.size; ++i) static_cast<void>(call.template view<T>(x, i));
      const std::int64_t count = first.rows() * first.row_size();
      auto total = call.output_bytes(out, first.data_type(), first.lod(), first.row_shape(), first.rows());
      T* const to = total.template elements<T>();
      std::copy_n(call.template view<T>(x).data(), count, to);
      for (std::size_t i = 1; i < x.size; ++i) {
        const T* const from = call.template view<T>(x, i).data();
        std::transform(to, to + count, from, to, kernel::Add());
      }
    });
  };
}

// Reductions: what they begin with, how they go on, and what they make of the end and the number of elements.

struct Summing {
  template <class T>
  static SumOf<T> begin() {
    return 0;
  }
  template <class A>
  static A add(A a, A b) {
    return kernel::Add()(a, b);
  }
  template <class A>
  static A end(A a, std::int64_t) {
    return a;
  }
};
/// The mean of no numbers is NaN, as PaddlePaddle's; that of no integers is 0.
struct Averaging : Summing {
  template <class A>
  static A end(A a, std::int64_t count) {
    return std::integral<A> && count == 0 ? A{} : a / static_cast<A>(count);
  }
};
struct Multiplying : Summing {
  template <class T>
  static SumOf<T> begin() {
    return 1;
  }
  template <class A>
  static A add(A a, A b) {
    return kernel::Multiply()(a, b);
  }
};
struct FindingGreatest : Summing {
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
struct FindingLeast : Summing {
  template <class T>
  static T begin() {
    return std::numeric_limits<T>::has_infinity ? std::numeric_limits<T>::infinity() : std::numeric_limits<T>::max();
  }
  template <class A>
  static A add(A a, A b) {
    return b < a || b != b ? b : a;
  }
};
struct FindingAll : Summing {
  template <class T>
  static bool begin() {
    return true;
  }
  static bool add(bool a, bool b) { return a && b; }
};
struct FindingAny : Summing {
  template <class T>
  static bool begin() {
    return false;
  }
  static bool add(bool a, bool b) { return a || b; }
};

/// Reduces the axes that are marked.
template <class F, class T, class E>
void reduce(const OperatorCall<E>& call, const Slot& x, const Slot& out,
            const std::array<bool, Shape::max_rank>& is_reduced, bool keeps_dims) {
  const AnyLoDTensor& from = call.tensor(x);
  const Shape shape = from.shape();
  const std::size_t rank = shape.size();
  std::array<std::int64_t, Shape::max_rank> kept{}, strides{};
  std::size_t kept_rank = 0;
  std::int64_t results = 1, each = 1;
  for (std::size_t dim = rank; dim-- > 0;) {
    strides[dim] = is_reduced[dim] ? 0 : results;
    (is_reduced[dim] ? each : results) *= shape[dim];
  }
  for (std::size_t dim = 0; dim < rank; ++dim) {
    if (!is_reduced[dim] || keeps_dims) kept[kept_rank++] = is_reduced[dim] ? 1 : shape[dim];
  }
  using A = decltype(F::template begin<T>());
  const T* const values = call.template view<T>(x).data();
  const Workspace::Loan<A> all(call.executor().workspace(), results);
  auto y = call.output_bytes(out, from.data_type(), Shape(std::span<const std::int64_t>(kept.data(), kept_rank)),
                             rank > 0 && is_reduced[0] ? AnyLoDTensor() : from);
  std::fill_n(all.data(), results, F::template begin<T>());
  if (each > 0 && results > 0) {
    const std::size_t last = rank - 1;
    const std::int64_t inner = shape[last], step = strides[last];
    std::array<std::int64_t, Shape::max_rank> at{};
    for (std::int64_t done = 0; done < results * each; done += inner) {
      std::int64_t place = 0;
      for (std::size_t dim = 0; dim < last; ++dim) place += at[dim] * strides[dim];
      for (std::int64_t i = 0; i < inner; ++i) {
        A& result = all[place + i * step];
        result = F::add(result, static_cast<A>(values[done + i]));
      }
      for (std::size_t dim = last; dim-- > 0;) {
        if (++at[dim] < shape[dim]) break;
        at[dim] = 0;
      }
    }
  }
  T* const to = y.template elements<T>();
  for (std::int64_t i = 0; i < results; ++i) to[i] = static_cast<T>(F::end(all[i], each));
}

/// mean: X -> Out: of all elements, one number.
template <Executor E>
RunOperator<E> mean(const OperatorArguments& op) {
  const Slot x = op.input("X"), out = op.output("Out");
  return [=](OperatorCall<E>& call) {
    call.with_floating(x, [&](auto element) {
      std::array<bool, Shape::max_rank> all;
      all.fill(true);
      reduce<Averaging, typename decltype(element)::type>(call, x, out, all, false);
    });
  };
}

/// reduce_*: X -> Out; dim = {0}, keep_dim = false, reduce_all = false. Levels stay unless axis 0 is reduced. A result
/// without dimensions is one number. reduce_all and reduce_any take bool.
template <class F, Executor E>
RunOperator<E> reduction(const OperatorArguments& op) {
  const Slot x = op.input("X"), out = op.output("Out");
  const bool keeps_dims = op.attr("keep_dim", false);
  if (op.attr("out_dtype", -1) != -1) op.refuse_attr("out_dtype", "-1, which is the type of X");
  const bool is_all = op.attr("reduce_all", false);
  return [=, axes = op.attr("dim", std::vector<std::int64_t>{0})](OperatorCall<E>& call) {
    const std::size_t rank = call.tensor(x).shape().size();
    std::array<bool, Shape::max_rank> is_reduced{};
    if (is_all || axes.empty()) is_reduced.fill(true);
    for (std::size_t i = 0; !is_all && i < axes.size(); ++i) is_reduced[axis_of(axes[i], rank)] = true;
    if constexpr (std::same_as<F, FindingAll> || std::same_as<F, FindingAny>) {
      reduce<F, bool>(call, x, out, is_reduced, keeps_dims);
    } else {
      call.with_number(
          x, [&](auto element) { reduce<F, typename decltype(element)::type>(call, x, out, is_reduced, keeps_dims); });
    }
  };
}

/// The softmax of `count` numbers that are `step` apart, or its logarithm. The greatest is subtracted first.
template <bool is_log, class T>
void softmax_of(const T* x, std::int64_t count, std::int64_t step, T* y) {
  T greatest = -std::numeric_limits<T>::infinity();
  for (std::int64_t k = 0; k < count; ++k) greatest = std::max(greatest, x[k * step]);
  double total = 0;
  for (std::int64_t k = 0; k < count; ++k) {
    const T exponential = std::exp(x[k * step] - greatest);
    total += static_cast<double>(exponential);
    if constexpr (!is_log) y[k * step] = exponential;
  }
  for (std::int64_t k = 0; k < count; ++k) {
    if constexpr (is_log) {
      y[k * step] = x[k * step] - greatest - static_cast<T>(std::log(total));
    } else {
      y[k * step] = static_cast<T>(static_cast<double>(y[k * step]) / total);
    }
  }
}

/// softmax and log_softmax: X -> Out; axis = -1.
template <Executor E, bool is_log>
RunOperator<E> softmax(const OperatorArguments& op) {
  const Slot x = op.input("X"), out = op.output("Out");
  const std::int32_t axis = op.attr("axis", -1);
  return [=](OperatorCall<E>& call) {
    const AnyLoDTensor& from = call.tensor(x);
    const Around around(from.shape(), axis_of(axis, from.shape().size()));
    call.with_floating(x, [&](auto element) {
      using T = typename decltype(element)::type;
      const T* const values = call.template view<T>(x).data();
      auto y = call.output_bytes(out, from.data_type(), from.lod(), from.row_shape(), from.rows());
      T* const to = y.template elements<T>();
      for (std::int64_t i = 0; i < around.before; ++i) {
        for (std::int64_t j = 0; j < around.after; ++j) {
          const std::int64_t first = i * around.along * around.after + j;
          softmax_of<is_log>(values + first, around.along, around.after, to + first);
        }
      }
    });
  };
}

/// The class of each row among `rows` labels, in a column or not.
template <class E>
const std::int64_t* labels_of(const OperatorCall<E>& call, const Slot& slot, std::int64_t rows, std::int64_t classes,
                              std::int64_t ignored) {
  const auto labels = call.template view<std::int64_t>(slot).values();
  if (static_cast<std::int64_t>(labels.size()) != rows) {
    throw ShapeMismatch(
        detail::text({call.name(slot), ": ", labels.size(), " labels, expected ", rows, ", one for each row"}));
  }
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] != ignored && (labels[i] < 0 || labels[i] >= classes)) {
      throw OutOfRange(
          detail::text({call.name(slot), ": label ", labels[i], " at row ", i, ", expected 0 to ", classes - 1}));
    }
  }
  return labels.data();
}
/// The sum of the numbers of `soft` times those of f(i), or the number f(label); 0 for the ignored label.
template <class T, class F>
T cross_entropy_of(const F& log_probability, std::int64_t classes, const T* soft, const std::int64_t* label,
                   std::int64_t ignored) {
  if (!soft) return *label == ignored ? T{0} : -log_probability(*label);
  double total = 0;
  for (std::int64_t k = 0; k < classes; ++k) total -= static_cast<double>(soft[k] * log_probability(k));
  return static_cast<T>(total);
}

/// cross_entropy: X, Label -> Y; soft_label = false, ignore_index = -100. X are probabilities, along the last axis.
/// cross_entropy2 is that without soft labels; its outputs for the gradient are not written.
template <Executor E>
RunOperator<E> cross_entropy(const OperatorArguments& op) {
  const Slot x = op.input("X"), label = op.input("Label"), out = op.output("Y");
  const bool is_soft = op.attr("soft_label", false);
  const std::int32_t ignored = op.attr("ignore_index", -100);
  return [=](OperatorCall<E>& call) {
    const AnyLoDTensor& from = call.tensor(x);
    const Shape shape = from.shape();
    const Around around(shape, axis_of(-1, shape.size()));
    call.with_floating(x, [&](auto element) {
      using T = typename decltype(element)::type;
      const T* const values = call.template view<T>(x).data();
      const T* const soft = is_soft ? numbers_of<T>(call, label, shape) : nullptr;
      const std::int64_t* const labels =
          is_soft ? nullptr : labels_of(call, label, around.before, around.along, ignored);
      auto y = call.output_bytes(out, from.data_type(), part(shape, 0, shape.size() - 1).followed_by({1}), from);
      T* const to = y.template elements<T>();
      for (std::int64_t i = 0; i < around.before; ++i) {
        const T* const row = values + i * around.along;
        // As in PaddlePaddle, a probability of 0 costs 1e20, not infinitely much.
        const auto log_probability = [&](std::int64_t k) { return std::max(std::log(row[k]), static_cast<T>(-1e20)); };
        to[i] = cross_entropy_of<T>(log_probability, around.along, soft ? soft + i * around.along : nullptr,
                                    labels ? labels + i : nullptr, ignored);
      }
    });
  };
}

/// softmax_with_cross_entropy: Logits, Label -> Softmax, Loss; soft_label = false, ignore_index = -100, axis = -1.
template <Executor E>
RunOperator<E> softmax_with_cross_entropy(const OperatorArguments& op) {
  op.expect_attr("use_softmax", true);
  const Slot x = op.input("Logits"), label = op.input("Label");
  const Slot out = op.output("Softmax"), loss = op.output("Loss");
  const bool is_soft = op.attr("soft_label", false);
  const std::int32_t ignored = op.attr("ignore_index", -100), axis = op.attr("axis", -1);
  return [=](OperatorCall<E>& call) {
    const AnyLoDTensor& from = call.tensor(x);
    const Shape shape = from.shape();
    const std::size_t last = axis_of(axis, shape.size());
    if (last + 1 != shape.size()) throw OutOfRange(detail::text({"axis ", axis, ", expected the last"}));
    const Around around(shape, last);
    call.with_floating(x, [&](auto element) {
      using T = typename decltype(element)::type;
      const T* const values = call.template view<T>(x).data();
      const T* const soft = is_soft ? numbers_of<T>(call, label, shape) : nullptr;
      const std::int64_t* const labels =
          is_soft ? nullptr : labels_of(call, label, around.before, around.along, ignored);
      auto losses = call.output_bytes(loss, from.data_type(), part(shape, 0, last).followed_by({1}), from);
      auto y = call.output_bytes(out, from.data_type(), from.lod(), from.row_shape(), from.rows());
      T *const to = y.template elements<T>(), *const each = losses.template elements<T>();
      for (std::int64_t i = 0; i < around.before; ++i) {
        T* const row = to + i * around.along;
        softmax_of<true>(values + i * around.along, around.along, 1, row);
        each[i] = cross_entropy_of<T>([&](std::int64_t k) { return row[k]; }, around.along,
                                      soft ? soft + i * around.along : nullptr, labels ? labels + i : nullptr, ignored);
        std::transform(row, row + around.along, row, [](T v) { return std::exp(v); });
      }
    });
  };
}

/// top_k: X -> Out, Indices; k = 1: the greatest along the last axis, of equal ones the first. top_k_v2: axis = -1,
/// which must be the last, largest = true, sorted = true.
template <Executor E>
RunOperator<E> top_k(const OperatorArguments& op) {
  op.expect_no_input("K");
  op.expect_attr("largest", true);
  const Slot x = op.input("X"), out = op.output("Out"), indices = op.output("Indices");
  const std::int32_t k = op.attr("k", 1), axis = op.attr("axis", -1);
  if (k < 1) op.refuse_attr("k", "1 or more");
  return [=](OperatorCall<E>& call) {
    const AnyLoDTensor& from = call.tensor(x);
    const Shape shape = from.shape();
    const std::size_t last = axis_of(axis, shape.size());
    const Around around(shape, last);
    if (last + 1 != shape.size()) throw OutOfRange(detail::text({"axis ", axis, ", expected the last"}));
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
        std::partial_sort(
            order.data(), order.data() + k, order.data() + around.along,
            [row](std::int64_t a, std::int64_t b) { return row[a] > row[b] || (row[a] == row[b] && a < b); });
        for (std::int64_t j = 0; j < k; ++j) {
          chosen[i * k + j] = order[j];
          to[i * k + j] = row[order[j]];
        }
      }
    });
  };
}

/// arg_max and arg_min: X -> Out; axis, keepdims = false, flatten = false, dtype = INT64: the first of equal ones.
template <Executor E, bool is_max>
RunOperator<E> arg_extreme(const OperatorArguments& op) {
  const Slot x = op.input("X"), out = op.output("Out");
  const std::int64_t axis = op.attr("axis", std::int64_t{-1});
  const bool keeps_dims = op.attr("keepdims", false), is_flat = op.attr("flatten", false);
  const std::int32_t number = op.attr("dtype", -1);  // -1 is INT64
  const DataType type = number == -1 ? DataType::INT64 : op.data_type("dtype", DataType::INT64);
  if (type != DataType::INT64 && type != DataType::INT32) op.refuse_attr("dtype", "INT64 or INT32");
  return [=](OperatorCall<E>& call) {
    const AnyLoDTensor& from = call.tensor(x);
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
      for (std::int64_t i = 0; i < around.before; ++i) {
        for (std::int64_t j = 0; j < around.after; ++j) {
          const T* const first = values + i * around.along * around.after + j;
          std::int64_t best = 0;
          for (std::int64_t k = 1; k < around.along; ++k) {
            const T found = first[k * around.after], known = first[best * around.after];
            if (is_max ? known < found : found < known) best = k;
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

/// accuracy: Out (not read), Indices, Label -> Accuracy, Correct, Total: rows among whose indices is their label.
template <Executor E>
RunOperator<E> accuracy(const OperatorArguments& op) {
  const Slot indices = op.input("Indices"), label = op.input("Label");
  const Slot out = op.output("Accuracy"), correct = op.output("Correct"), total = op.output("Total");
  return [=](OperatorCall<E>& call) {
    const auto chosen = call.template view<std::int64_t>(indices);
    const auto labels = call.template view<std::int64_t>(label).values();
    const std::int64_t rows = chosen.rows();
    if (static_cast<std::int64_t>(labels.size()) != rows) {
      throw ShapeMismatch(detail::text({call.name(label), ": ", labels.size(), " labels, expected ", rows}));
    }
    std::int32_t right = 0;
    for (std::int64_t i = 0; i < rows; ++i) {
      const auto row = chosen.row(i);
      right += std::find(row.begin(), row.end(), labels[static_cast<std::size_t>(i)]) != row.end();
    }
    *call.output_bytes(out, DataType::FP32, LoD(), {}, 1).template elements<float>() =
        rows > 0 ? static_cast<float>(right) / static_cast<float>(rows) : 0.0f;
    *call.output_bytes(correct, DataType::INT32, LoD(), {}, 1).template elements<std::int32_t>() = right;
    *call.output_bytes(total, DataType::INT32, LoD(), {}, 1).template elements<std::int32_t>() =
        static_cast<std::int32_t>(rows);
  };
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs
