// SPDX-License-Identifier: Apache-2.0
/// @file
/// Losses of rows, which are distributions or scores, and smoothing of labels: bpr_loss, kldiv_loss, label_smooth,
/// smooth_l1_loss, and their gradients.
#pragma once

#include <lod/core/any_tensor.hpp>
#include <lod/core/executor.hpp>
#include <lod/core/shape.hpp>
#include <lod/core/target.hpp>
#include <lod/program/operator.hpp>
#include <lod/program/operators/losses.hpp>
#include <lod/program/operators/shapes.hpp>
#include <lod/program/operators/unary.hpp>

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs {

/// bpr_loss: X, scores, Label -> Y: for each row the mean of -log sigmoid(score of the label - another score) over all
/// others; NaN if there is no other.
template <Executor E>
RunOperator<E> bpr_loss(const OperatorArguments& op) {
  const Slot x = op.input("X"), label = op.input("Label"), out = op.output("Y");
  return [=](OperatorCall<E>& call) {
    const AnyLoDTensor& from = call.tensor(x);
    const Shape shape = from.shape();
    const Around around(shape, axis_of(-1, shape.size()));
    call.with_floating(x, [&](auto element) {
      using T = typename decltype(element)::type;
      const T* row = call.template view<T>(x).data();
      const std::int64_t* const labels = labels_of(call, label, around.before, around.along);
      auto y = call.output_bytes(out, from.data_type(), part(shape, 0, shape.size() - 1).followed_by({1}), from);
      T* const to = y.template elements<T>();
      for (std::int64_t i = 0; i < around.before; ++i, row += around.along) {
        const std::int64_t own = labels[i];
        double total = 0;
        for (std::int64_t k = 0; k < around.along; ++k) {
          if (k != own) total -= static_cast<double>(LogSigmoid()(row[own] - row[k]));
        }
        to[i] = static_cast<T>(total / static_cast<double>(around.along - 1));
      }
    });
  };
}
/// bpr_loss_grad: X, Label, Y@GRAD -> X@GRAD.
template <Executor E>
RunOperator<E> bpr_loss_grad(const OperatorArguments& op) {
  const Slot x = op.input("X"), label = op.input("Label"), dy = op.input("Y@GRAD"), dx = op.output("X@GRAD");
  return [=](OperatorCall<E>& call) {
    const AnyLoDTensor& from = call.tensor(x);
    const Shape shape = from.shape();
    const Around around(shape, axis_of(-1, shape.size()));
    call.with_floating(x, [&](auto element) {
      using T = typename decltype(element)::type;
      const T* row = call.template view<T>(x).data();
      const T* const given = some_numbers<T>(call, dy, around.before);
      const std::int64_t* const labels = labels_of(call, label, around.before, around.along);
      auto out = call.output_bytes(dx, from.data_type(), from.lod(), from.row_shape(), from.rows());
      T* to = out.template elements<T>();
      for (std::int64_t i = 0; i < around.before; ++i, row += around.along, to += around.along) {
        const std::int64_t own = labels[i];
        const T factor = given[i] / static_cast<T>(around.along - 1);
        double total = 0;
        for (std::int64_t k = 0; k < around.along; ++k) {
          if (k == own) continue;
          to[k] = factor * Sigmoid()(row[k] - row[own]);
          total -= static_cast<double>(to[k]);
        }
        to[own] = static_cast<T>(total);
      }
    });
  };
}

/// The arguments of smooth_l1_loss; sigma = 1.
struct SmoothL1Loss {
  Slot inside, outside;
  double square;

  explicit SmoothL1Loss(const OperatorArguments& op)
      : inside(op.optional_input("InsideWeight")), outside(op.optional_input("OutsideWeight")) {
    const auto sigma = static_cast<double>(op.attr("sigma", 1.0F));
    square = sigma * sigma;
    if (!(square > 0)) op.refuse_attr("sigma", "other than 0");
  }
  /// Calls f(the weight of a difference, the weight of its loss) with two functions of places.
  template <class T, class E, class F>
  void with_weights(const OperatorCall<E>& call, const Shape& shape, const F& f) const {
    const T* const of_differences = inside ? numbers_of<T>(call, inside, shape) : nullptr;
    const T* const of_losses = outside ? numbers_of<T>(call, outside, shape) : nullptr;
    const auto weight = [](const T* numbers) { return [=](std::int64_t at) { return numbers ? numbers[at] : T{1}; }; };
    f(weight(of_differences), weight(of_losses));
  }
};
/// smooth_l1_loss: X, Y, InsideWeight?, OutsideWeight? -> Diff, (X - Y) InsideWeight; Out, for each row the sum of the
/// losses times OutsideWeight. A loss is linear where Diff is beyond 1 / sigma^2, quadratic elsewhere.
template <Executor E>
RunOperator<E> smooth_l1_loss(const OperatorArguments& op) {
  const Slot x = op.input("X"), y = op.input("Y"), difference = op.output("Diff"), out = op.output("Out");
  return [=, in = SmoothL1Loss(op)](OperatorCall<E>& call) {
    const AnyLoDTensor& from = call.tensor(x);
    call.with_floating(x, [&](auto element) {
      using T = typename decltype(element)::type;
      const T* const values = call.template view<T>(x).data();
      const T* const others = numbers_of<T>(call, y, from.shape());
      in.template with_weights<T>(call, from.shape(), [&](const auto& inside, const auto& outside) {
        auto differences = call.output_bytes(difference, from.data_type(), from.lod(), from.row_shape(), from.rows());
        auto losses = call.output_bytes(out, from.data_type(), from.lod(), {1}, from.rows());
        T *const d = differences.template elements<T>(), *const to = losses.template elements<T>();
        const std::int64_t size = from.row_size();
        for (std::int64_t i = 0; i < from.rows(); ++i) {
          double total = 0;
          for (std::int64_t at = i * size; at < (i + 1) * size; ++at) {
            d[at] = (values[at] - others[at]) * inside(at);
            const auto far = static_cast<double>(std::abs(d[at]));
            const double loss = far < 1 / in.square ? in.square * far * far / 2 : far - 1 / in.square / 2;
            total += loss * static_cast<double>(outside(at));
          }
          to[i] = static_cast<T>(total);
        }
      });
    });
  };
}
/// smooth_l1_loss_grad: Diff, InsideWeight?, OutsideWeight?, Out@GRAD -> X@GRAD?, Y@GRAD?.
template <Executor E>
RunOperator<E> smooth_l1_loss_grad(const OperatorArguments& op) {
  const Slot difference = op.input("Diff"), dy = op.input("Out@GRAD");
  const std::array outputs{op.optional_output("X@GRAD"), op.optional_output("Y@GRAD")};
  return [=, in = SmoothL1Loss(op)](OperatorCall<E>& call) {
    const AnyLoDTensor from = call.tensor(difference);
    call.with_floating(difference, [&](auto element) {
      using T = typename decltype(element)::type;
      const T* const d = call.template view<T>(difference).data();
      const T* const given = some_numbers<T>(call, dy, from.rows());
      in.template with_weights<T>(call, from.shape(), [&](const auto& inside, const auto& outside) {
        std::array<T*, 2> to = {};
        with_outputs<T>(call, outputs, from, to, [&] {
          const std::int64_t size = from.row_size(), count = from.rows() * size;
          const auto square = static_cast<T>(in.square);
          for (std::int64_t at = 0; at < count; ++at) {
            const T slope = std::abs(d[at]) < 1 / square ? square * d[at] : d[at] < 0 ? T{-1} : T{1};
            const T found = given[at / size] * outside(at) * inside(at) * slope;
            if (to[0]) to[0][at] = found;
            if (to[1]) to[1][at] = -found;
          }
        });
      });
    });
  };
}

/// The attribute `reduction` of kldiv_loss, "mean" by default: what its sum is divided by.
class Reduction {
 public:
  explicit Reduction(const OperatorArguments& op) : name_(op.attr("reduction", "mean")) {
    if (name_ != "none" && name_ != "sum" && name_ != "mean" && name_ != "batchmean") {
      op.refuse_attr("reduction", "none, sum, mean or batchmean");
    }
  }
  /// Whether there is a loss for each number instead of a sum.
  bool is_none() const noexcept { return name_ == "none"; }
  /// The divisor, for a tensor.
  std::int64_t divisor(const AnyLoDTensor& x) const {
    return name_ == "mean" ? x.rows() * x.row_size() : name_ == "batchmean" ? x.rows() : 1;
  }

 private:
  std::string name_;
};
/// kldiv_loss: X, logarithms of probabilities, Target, probabilities -> Loss: target * (log target - x), 0 where the
/// target is not above 0; summed as Reduction says.
template <Executor E>
RunOperator<E> kldiv_loss(const OperatorArguments& op) {
  const Slot x = op.input("X"), target = op.input("Target"), out = op.output("Loss");
  return [=, reduction = Reduction(op)](OperatorCall<E>& call) {
    const AnyLoDTensor& from = call.tensor(x);
    call.with_floating(x, [&](auto element) {
      using T = typename decltype(element)::type;
      const T *const values = call.template view<T>(x).data(), *const targets =
                                                                   numbers_of<T>(call, target, from.shape());
      const auto loss = [=](std::int64_t i) {
        return targets[i] <= 0 ? T{0} : targets[i] * (std::log(targets[i]) - values[i]);
      };
      const std::int64_t count = from.rows() * from.row_size();
      if (reduction.is_none()) {
        auto y = call.output_bytes(out, from.data_type(), from.lod(), from.row_shape(), from.rows());
        for (std::int64_t i = 0; i < count; ++i) y.template elements<T>()[i] = loss(i);
        return;
      }
      double total = 0;
      for (std::int64_t i = 0; i < count; ++i) total += static_cast<double>(loss(i));
      *call.output_bytes(out, from.data_type(), LoD(), {}, 1).template elements<T>() =
          static_cast<T>(total / static_cast<double>(reduction.divisor(from)));
    });
  };
}
/// kldiv_loss_grad: X, Target, Loss@GRAD -> X@GRAD; reduction = "mean".
template <Executor E>
RunOperator<E> kldiv_loss_grad(const OperatorArguments& op) {
  const Slot x = op.input("X"), target = op.input("Target"), dy = op.input("Loss@GRAD"), dx = op.output("X@GRAD");
  return [=, reduction = Reduction(op)](OperatorCall<E>& call) {
    const AnyLoDTensor& from = call.tensor(x);
    const std::int64_t count = from.rows() * from.row_size();
    call.with_floating(x, [&](auto element) {
      using T = typename decltype(element)::type;
      const T* const targets = numbers_of<T>(call, target, from.shape());
      const T* const given = some_numbers<T>(call, dy, reduction.is_none() ? count : 1);
      const auto divisor = static_cast<T>(reduction.divisor(from));
      auto out = call.output_bytes(dx, from.data_type(), from.lod(), from.row_shape(), from.rows());
      for (std::int64_t i = 0; i < count; ++i) {
        const T each = given[reduction.is_none() ? i : 0] / divisor;
        out.template elements<T>()[i] = targets[i] <= 0 ? T{0} : -targets[i] * each;
      }
    });
  };
}

/// label_smooth: X (probabilities), PriorDist? (one row of them) -> Out: (1 - epsilon) * X + epsilon * PriorDist;
/// epsilon = 0. Without PriorDist, all classes have the same prior.
template <Executor E>
RunOperator<E> label_smooth(const OperatorArguments& op) {
  const Slot x = op.input("X"), prior = op.optional_input("PriorDist"), out = op.output("Out");
  const float epsilon = op.attr("epsilon", 0.0f);
  return [=](OperatorCall<E>& call) {
    const AnyLoDTensor& from = call.tensor(x);
    const std::int64_t count = from.rows() * from.row_size();
    const std::int64_t classes = from.shape()[axis_of(-1, from.shape().size())];
    call.with_floating(x, [&](auto element) {
      using T = typename decltype(element)::type;
      const T* const values = call.template view<T>(x).data();
      const T* const priors = prior ? some_numbers<T>(call, prior, classes) : nullptr;
      const T equal = epsilon / static_cast<T>(classes);
      auto y = call.output_bytes(out, from.data_type(), from.lod(), from.row_shape(), from.rows());
      for (std::int64_t i = 0; i < count; ++i) {
        y.template elements<T>()[i] = (1 - epsilon) * values[i] + (priors ? epsilon * priors[i % classes] : equal);
      }
    });
  };
}
/// label_smooth_grad: Out@GRAD -> X@GRAD; epsilon = 0.
template <Executor E>
RunOperator<E> label_smooth_grad(const OperatorArguments& op) {
  const Slot dy = op.input("Out@GRAD"), dx = op.output("X@GRAD");
  const float epsilon = op.attr("epsilon", 0.0f);
  return [=](OperatorCall<E>& call) {
    call.with_floating(dy, [&](auto element) {
      using T = typename decltype(element)::type;
      map_elements<T, T>(call, dy, dx, [=](T v) { return (1 - epsilon) * v; });
    });
  };
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs
