// SPDX-License-Identifier: Apache-2.0
/// @file
/// Losses, and measures of predictions: cross_entropy, softmax_with_cross_entropy, accuracy and the like.
#pragma once

#include <lod/core/any_tensor.hpp>
#include <lod/core/data_type.hpp>
#include <lod/core/error.hpp>
#include <lod/core/executor.hpp>
#include <lod/core/lod_index.hpp>
#include <lod/core/shape.hpp>
#include <lod/core/target.hpp>
#include <lod/ops/cross_entropy.hpp>
#include <lod/ops/for_each_place.hpp>
#include <lod/ops/staging.hpp>
#include <lod/program/operator.hpp>
#include <lod/program/operators/elementary.hpp>
#include <lod/program/operators/reductions.hpp>
#include <lod/program/operators/shapes.hpp>
#include <lod/program/operators/softmax.hpp>
#include <lod/program/operators/unary.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs {

/// The labels of `rows` rows, in a column or not. Throws OutOfRange for a label that is not a class, unless it is the
/// ignored one.
template <class E>
const std::int64_t* labels_of(const OperatorCall<E>& call, const Slot& slot, std::int64_t rows, std::int64_t classes,
                              std::optional<std::int64_t> ignored = {}) {
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
/// The same for kernels on any device, where errors are thrown later: -1 for a label that is not a class, or ignored.
template <class E>
class LabelsOf {
 public:
  /// No labels, for soft targets.
  LabelsOf() = default;
  LabelsOf(const OperatorCall<E>& call, const Slot& slot, std::int64_t rows, std::int64_t classes,
           std::int64_t ignored) {
    if constexpr (operation::on_cpu<E>) {
      labels_ = labels_of(call, slot, rows, classes, ignored);
    } else {
      const std::int64_t* const given = some_numbers<std::int64_t>(call, slot, rows);
      checked_.emplace(call.executor(), std::span(given, static_cast<std::size_t>(rows)), classes, ignored,
                       "a label of a loss");
      labels_ = checked_->data();
    }
  }
  const std::int64_t* data() const noexcept { return labels_; }

 private:
  const std::int64_t* labels_ = nullptr;
  std::optional<operation::CheckedLabels<E>> checked_;
};
/// The targets of rows: a label each, or soft targets.
template <class T>
struct Targets {
  const T* soft;
  const std::int64_t* labels;
  std::int64_t ignored;
  std::int64_t classes;

  LOD_HOST_DEVICE bool counts(std::int64_t row) const noexcept {
    return soft != nullptr || (labels[row] != ignored && labels[row] >= 0);
  }
  /// The target probability of class k.
  LOD_HOST_DEVICE T of(std::int64_t row, std::int64_t k) const noexcept {
    if (soft != nullptr) return soft[row * classes + k];
    return static_cast<T>(labels[row] == k && counts(row));
  }
  /// The loss of a row, where log_probability(k) is the logarithm of the probability of class k.
  template <class F>
  LOD_HOST_DEVICE T cost(std::int64_t row, const F& log_probability) const {
    if (soft == nullptr) return counts(row) ? -log_probability(labels[row]) : T{0};
    double total = 0;
    for (std::int64_t k = 0; k < classes; ++k) {
      total -= static_cast<double>(soft[row * classes + k] * log_probability(k));
    }
    return static_cast<T>(total);
  }
};
/// The logarithms of probabilities. As in PaddlePaddle, the loss of a probability of 0 is 1e20, not infinite.
template <class T>
struct LogProbabilities {
  const T* row;
  LOD_HOST_DEVICE T operator()(std::int64_t k) const {
    const T log = std::log(row[k]), least = static_cast<T>(-1e20);
    return log < least ? least : log;
  }
};
template <class T>
struct CrossEntropyOfRow {
  Targets<T> targets;
  const T* x;
  T* y;
  T* match;  ///< null if it is not wanted
  LOD_HOST_DEVICE void operator()(std::int64_t i) const {
    const T* const row = x + i * targets.classes;
    if (match != nullptr) match[i] = targets.counts(i) ? row[targets.labels[i]] : T{1};
    y[i] = targets.cost(i, LogProbabilities<T>{row});
  }
};
template <class T>
struct CrossEntropyGradOfNumber {
  Targets<T> targets;
  const T* x;
  const T* dy;
  T* dx;
  LOD_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t row = i / targets.classes;
    const T wanted = targets.of(row, i % targets.classes);
    dx[i] = wanted == 0 ? T{0} : -dy[row] * wanted / x[i];
  }
};
template <class T>
struct SoftmaxWithCrossEntropyOfRow {
  struct Row {
    const T* row;
    LOD_HOST_DEVICE T operator()(std::int64_t k) const { return row[k]; }
  };
  Targets<T> targets;
  const T* x;
  T* softmax;
  T* losses;
  LOD_HOST_DEVICE void operator()(std::int64_t i) const {
    T* const row = softmax + i * targets.classes;
    softmax_of<true, true>(x + i * targets.classes, targets.classes, 1, row);
    losses[i] = targets.cost(i, Row{row});
    for (std::int64_t k = 0; k < targets.classes; ++k) row[k] = exponential(row[k]);
  }
};
template <class T>
struct SoftmaxWithCrossEntropyGradOfNumber {
  Targets<T> targets;
  const T* softmax;
  const T* dy;
  T* dx;
  LOD_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t row = i / targets.classes;
    dx[i] = targets.counts(row) ? dy[row] * (softmax[i] - targets.of(row, i % targets.classes)) : T{0};
  }
};

/// cross_entropy: X, Label -> Y; soft_label = false, ignore_index = -100. X are probabilities along the last axis.
/// cross_entropy2 is the same without soft labels; for its gradient it writes MatchX, the probability of each label, or
/// 1 for the ignored one, and XShape.
template <Executor E>
RunOperator<E> cross_entropy(const OperatorArguments& op) {
  const Slot x = op.input("X"), label = op.input("Label"), out = op.output("Y");
  const Slot match = op.optional_output("MatchX"), x_shape = op.optional_output("XShape");
  const bool is_soft = op.attr("soft_label", false);
  const std::int32_t ignored = op.attr("ignore_index", -100);
  return [=](OperatorCall<E>& call) {
    const auto& from = call.tensor(x);
    const Shape shape = from.shape();
    const Around around(shape, axis_of(-1, shape.size()));
    call.with_floating(x, [&](auto element) {
      using T = typename decltype(element)::type;
      const T* const values = call.template view<T>(x).data();
      const T* const soft = is_soft ? numbers_of<T>(call, label, shape) : nullptr;
      const auto labels = is_soft ? LabelsOf<E>() : LabelsOf<E>(call, label, around.before, around.along, ignored);
      const Shape column = part(shape, 0, shape.size() - 1).followed_by({1});
      const auto write = [&](T* matches) {
        write_shape(call, x_shape, from);
        auto y = call.output_bytes(out, from.data_type(), column, from);
        const Targets<T> targets{soft, labels.data(), ignored, around.along};
        operation::for_each_place(call.executor(), around.before,
                                  CrossEntropyOfRow<T>{targets, values, y.template elements<T>(), matches});
      };
      if (!match || is_soft) return write(nullptr);
      auto matches = call.output_bytes(match, from.data_type(), column, from);
      write(matches.template elements<T>());
    });
  };
}

/// cross_entropy_grad: X, Label, Y@GRAD -> X@GRAD; attributes as `cross_entropy`.
template <Executor E>
RunOperator<E> cross_entropy_grad(const OperatorArguments& op) {
  const Slot x = op.input("X"), label = op.input("Label"), dy = op.input("Y@GRAD"), dx = op.output("X@GRAD");
  const bool is_soft = op.attr("soft_label", false);
  const std::int32_t ignored = op.attr("ignore_index", -100);
  return [=](OperatorCall<E>& call) {
    const auto& from = call.tensor(x);
    const Shape shape = from.shape();
    const Around around(shape, axis_of(-1, shape.size()));
    call.with_floating(x, [&](auto element) {
      using T = typename decltype(element)::type;
      const T* const values = call.template view<T>(x).data();
      const T* const given = some_numbers<T>(call, dy, around.before);
      const T* const soft = is_soft ? numbers_of<T>(call, label, shape) : nullptr;
      const auto labels = is_soft ? LabelsOf<E>() : LabelsOf<E>(call, label, around.before, around.along, ignored);
      auto out = call.output_bytes(dx, from.data_type(), from.lod(), from.row_shape(), from.rows());
      const Targets<T> targets{soft, labels.data(), ignored, around.along};
      operation::for_each_place(call.executor(), around.before * around.along,
                                CrossEntropyGradOfNumber<T>{targets, values, given, out.template elements<T>()});
    });
  };
}
/// cross_entropy_grad2: Label, MatchX, XShape, Y@GRAD -> X@GRAD; ignore_index = -100.
template <Executor E>
RunOperator<E> cross_entropy_grad2(const OperatorArguments& op) {
  const Slot label = op.input("Label"), match = op.input("MatchX"), x_shape = op.input("XShape");
  const Slot dy = op.input("Y@GRAD"), dx = op.output("X@GRAD");
  const std::int32_t ignored = op.attr("ignore_index", -100);
  return [=](OperatorCall<E>& call) {
    const Shape shape = call.tensor(x_shape).row_shape();
    const Around around(shape, axis_of(-1, shape.size()));
    call.with_floating(dy, [&](auto element) {
      using T = typename decltype(element)::type;
      const T* const given = some_numbers<T>(call, dy, around.before);
      const T* const matches = some_numbers<T>(call, match, around.before);
      const auto* const labels = labels_of(call, label, around.before, around.along, ignored);
      auto out = call.output_bytes(dx, data_type_v<T>, shape, call.tensor(dy));
      T* const to = out.template elements<T>();
      std::fill_n(to, shape.elements(), T{0});
      for (std::int64_t i = 0; i < around.before; ++i) {
        if (labels[i] != ignored) to[i * around.along + labels[i]] = -given[i] / matches[i];
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
    const auto& from = call.tensor(x);
    const Shape shape = from.shape();
    const std::size_t last = last_axis(axis, shape.size());
    const Around around(shape, last);
    call.with_floating(x, [&](auto element) {
      using T = typename decltype(element)::type;
      const T* const values = call.template view<T>(x).data();
      const T* const soft = is_soft ? numbers_of<T>(call, label, shape) : nullptr;
      const auto labels = is_soft ? LabelsOf<E>() : LabelsOf<E>(call, label, around.before, around.along, ignored);
      auto losses = call.output_bytes(loss, from.data_type(), part(shape, 0, last).followed_by({1}), from);
      auto y = call.output_bytes(out, from.data_type(), from.lod(), from.row_shape(), from.rows());
      const Targets<T> targets{soft, labels.data(), ignored, around.along};
      operation::for_each_place(
          call.executor(), around.before,
          SoftmaxWithCrossEntropyOfRow<T>{targets, values, y.template elements<T>(), losses.template elements<T>()});
    });
  };
}

/// softmax_with_cross_entropy_grad: Label, Softmax, Loss@GRAD -> Logits@GRAD; attributes as there. As in PaddlePaddle,
/// soft labels are assumed to have the sum 1.
template <Executor E>
RunOperator<E> softmax_with_cross_entropy_grad(const OperatorArguments& op) {
  op.expect_attr("use_softmax", true);
  const Slot label = op.input("Label"), y = op.input("Softmax");
  const Slot dy = op.input("Loss@GRAD"), dx = op.output("Logits@GRAD");
  const bool is_soft = op.attr("soft_label", false);
  const std::int32_t ignored = op.attr("ignore_index", -100), axis = op.attr("axis", -1);
  return [=](OperatorCall<E>& call) {
    const auto& from = call.tensor(y);
    const Shape shape = from.shape();
    const std::size_t last = last_axis(axis, shape.size());
    const Around around(shape, last);
    call.with_floating(y, [&](auto element) {
      using T = typename decltype(element)::type;
      const T* const values = call.template view<T>(y).data();
      const T* const given = some_numbers<T>(call, dy, around.before);
      const T* const soft = is_soft ? numbers_of<T>(call, label, shape) : nullptr;
      const auto labels = is_soft ? LabelsOf<E>() : LabelsOf<E>(call, label, around.before, around.along, ignored);
      auto out = call.output_bytes(dx, from.data_type(), from.lod(), from.row_shape(), from.rows());
      const Targets<T> targets{soft, labels.data(), ignored, around.along};
      operation::for_each_place(
          call.executor(), around.before * around.along,
          SoftmaxWithCrossEntropyGradOfNumber<T>{targets, values, given, out.template elements<T>()});
    });
  };
}

/// sigmoid_cross_entropy_with_logits: X, Label -> Out; ignore_index = -100: numbers with that label have the loss 0;
/// normalize = false: whether the result is divided by the number of the others. Its gradient: X, Label, Out@GRAD ->
/// X@GRAD.
template <Executor E, bool is_gradient = false>
RunOperator<E> sigmoid_cross_entropy_with_logits(const OperatorArguments& op) {
  op.expect_no_input("pos_weight");
  const Slot x = op.input("X"), label = op.input("Label"), dy = is_gradient ? op.input("Out@GRAD") : x;
  const Slot result = op.output(is_gradient ? "X@GRAD" : "Out");
  const std::int32_t ignored = op.attr("ignore_index", -100);
  const bool is_normal = op.attr("normalize", false);
  return [=](OperatorCall<E>& call) {
    call.with_floating(x, [&](auto element) {
      using T = typename decltype(element)::type;
      const auto& from = call.tensor(x);
      const auto values = call.template view<T>(x).values();
      const T *const labels = numbers_of<T>(call, label, from.shape()), *const given =
                                                                            numbers_of<T>(call, dy, from.shape());
      const T none = static_cast<T>(ignored);
      const auto counted =
          static_cast<T>(std::count_if(labels, labels + values.size(), [=](T v) { return v != none; }));
      const T divisor = is_normal ? std::max(counted, static_cast<T>(1e-5)) : T{1};
      auto out = call.output_bytes(result, from.data_type(), from.lod(), from.row_shape(), from.rows());
      T* const to = out.template elements<T>();
      for (std::size_t i = 0; i < values.size(); ++i) {
        const T v = values[i];
        const T cost = is_gradient ? given[i] * (Sigmoid()(v) - labels[i]) : -labels[i] * v - LogSigmoid()(-v);
        to[i] = labels[i] == none ? T{0} : cost / divisor;
      }
    });
  };
}

/// accuracy: Out (not read), Indices, Label -> Accuracy, Correct, Total: counts rows whose indices include their label.
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
