// SPDX-License-Identifier: Apache-2.0
/// @file
/// Losses of single numbers, for ranking and regression: hinge_loss, huber_loss, log_loss, margin_rank_loss,
/// modified_huber_loss, rank_loss, teacher_student_sigmoid_loss, and their gradients.
#pragma once

#include <lod/core/any_tensor.hpp>
#include <lod/core/executor.hpp>
#include <lod/core/target.hpp>
#include <lod/program/operator.hpp>
#include <lod/program/operators/shapes.hpp>
#include <lod/program/operators/unary.hpp>

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs {

// Each has its parameters, and computes a number of every output from a number of every input.

/// hinge_loss: Logits, Labels (0 or 1) -> Loss.
struct HingeLoss {
  static constexpr std::array inputs{"Logits", "Labels"};
  static constexpr std::array outputs{"Loss"};
  template <class T>
  void operator()(const T* x, T* y) const {
    y[0] = Relu()(1 - (2 * x[1] - 1) * x[0]);
  }
};
struct HingeLossGrad {
  static constexpr std::array inputs{"Logits", "Labels", "Loss@GRAD"};
  static constexpr std::array outputs{"Logits@GRAD"};
  template <class T>
  void operator()(const T* x, T* y) const {
    const T sign = 2 * x[1] - 1;
    y[0] = sign * x[0] < 1 ? -sign * x[2] : 0;
  }
};

/// huber_loss: X, Y -> Out, Residual, which is Y - X; delta: beyond it the loss is linear.
struct HuberLoss {
  static constexpr std::array inputs{"X", "Y"};
  static constexpr std::array outputs{"Out", "Residual"};
  float delta;
  explicit HuberLoss(const OperatorArguments& op) : delta(op.desc().attr<float>("delta")) {}
  template <class T>
  void operator()(const T* x, T* y) const {
    const T residual = x[1] - x[0], size = std::abs(residual);
    y[0] = size <= delta ? residual * residual / 2 : delta * (size - T{delta} / 2);
    y[1] = residual;
  }
};
struct HuberLossGrad {
  static constexpr std::array inputs{"Residual", "Out@GRAD"};
  static constexpr std::array outputs{"X@GRAD", "Y@GRAD"};
  float delta;
  explicit HuberLossGrad(const OperatorArguments& op) : delta(op.desc().attr<float>("delta")) {}
  template <class T>
  void operator()(const T* x, T* y) const {
    y[1] = between(x[0], T{-delta}, T{delta}) * x[1];
    y[0] = -y[1];
  }
};

/// log_loss: Predicted (probabilities), Labels (0 or 1) -> Loss; epsilon is added to probabilities.
struct LogLoss {
  static constexpr std::array inputs{"Predicted", "Labels"};
  static constexpr std::array outputs{"Loss"};
  float epsilon;
  explicit LogLoss(const OperatorArguments& op) : epsilon(op.desc().attr<float>("epsilon")) {}
  template <class T>
  void operator()(const T* x, T* y) const {
    y[0] = -x[1] * std::log(x[0] + epsilon) - (1 - x[1]) * std::log(1 - x[0] + epsilon);
  }
};
struct LogLossGrad {
  static constexpr std::array inputs{"Predicted", "Labels", "Loss@GRAD"};
  static constexpr std::array outputs{"Predicted@GRAD"};
  float epsilon;
  explicit LogLossGrad(const OperatorArguments& op) : epsilon(op.desc().attr<float>("epsilon")) {}
  template <class T>
  void operator()(const T* x, T* y) const {
    y[0] = x[2] * ((1 - x[1]) / (1 - x[0] + epsilon) - x[1] / (x[0] + epsilon));
  }
};

/// margin_rank_loss: X1, X2, Label (1 where X1 should be greater, -1 where X2 should) -> Out, Activated (1 where Out is
/// greater than 0); margin = 0. As in PaddlePaddle up to 2.3.
struct MarginRankLoss {
  static constexpr std::array inputs{"X1", "X2", "Label"};
  static constexpr std::array outputs{"Out", "Activated"};
  float margin;
  explicit MarginRankLoss(const OperatorArguments& op) : margin(op.attr("margin", 0.0f)) {}
  template <class T>
  void operator()(const T* x, T* y) const {
    y[0] = Relu()(margin - x[2] * (x[0] - x[1]));
    y[1] = y[0] > 0;
  }
};
struct MarginRankLossGrad {
  static constexpr std::array inputs{"Label", "Activated", "Out@GRAD"};
  static constexpr std::array outputs{"X1@GRAD", "X2@GRAD"};
  template <class T>
  void operator()(const T* x, T* y) const {
    y[1] = x[0] * x[1] * x[2];
    y[0] = -y[1];
  }
};

/// modified_huber_loss: X, Y (0 or 1) -> Out, IntermediateVal: X, negated where Y is 0. The loss is linear below -1.
struct ModifiedHuberLoss {
  static constexpr std::array inputs{"X", "Y"};
  static constexpr std::array outputs{"Out", "IntermediateVal"};
  template <class T>
  void operator()(const T* x, T* y) const {
    y[1] = (2 * x[1] - 1) * x[0];
    y[0] = y[1] < -1 ? -4 * y[1] : Square()(Relu()(1 - y[1]));
  }
};
struct ModifiedHuberLossGrad {
  static constexpr std::array inputs{"Y", "IntermediateVal", "Out@GRAD"};
  static constexpr std::array outputs{"X@GRAD"};
  template <class T>
  void operator()(const T* x, T* y) const {
    y[0] = (2 * x[0] - 1) * x[2] * (x[1] < -1 ? -4 : -2 * Relu()(1 - x[1]));
  }
};

/// rank_loss: Label, the probability that Left should be greater, Left, Right -> Out.
struct RankLoss {
  static constexpr std::array inputs{"Label", "Left", "Right"};
  static constexpr std::array outputs{"Out"};
  template <class T>
  void operator()(const T* x, T* y) const {
    const T difference = x[1] - x[2];
    y[0] = -LogSigmoid()(-difference) - x[0] * difference;
  }
};
struct RankLossGrad {
  static constexpr std::array inputs{"Label", "Left", "Right", "Out@GRAD"};
  static constexpr std::array outputs{"Left@GRAD", "Right@GRAD"};
  template <class T>
  void operator()(const T* x, T* y) const {
    y[0] = x[3] * (Sigmoid()(x[1] - x[2]) - x[0]);
    y[1] = -y[0];
  }
};

/// teacher_student_sigmoid_loss: X, Label -> Y: the sum of the sigmoid cross entropies of a click and of a teacher's
/// score z. Label: -2 neither; -1 a click without a score; z, from 0 to 1, without a click; 1 + z with one.
struct TeacherStudentLoss {
  static constexpr std::array inputs{"X", "Label"};
  static constexpr std::array outputs{"Y"};
  template <class T>
  void operator()(const T* x, T* y) const {
    const T none = -LogSigmoid()(-x[0]);  // the loss for target 0; for target t it is less by x * t
    if (x[1] < 0) {
      y[0] = x[1] < -1 ? none : none - x[0];
    } else {
      y[0] = 2 * none - x[0] * x[1];
    }
  }
};
/// The gradient is 0 beyond soft_max_lower_bound = -15 and soft_max_up_bound = 15.
struct TeacherStudentLossGrad {
  static constexpr std::array inputs{"X", "Label", "Y@GRAD"};
  static constexpr std::array outputs{"X@GRAD"};
  float least, greatest;
  explicit TeacherStudentLossGrad(const OperatorArguments& op)
      : least(op.attr("soft_max_lower_bound", -15.0f)), greatest(op.attr("soft_max_up_bound", 15.0f)) {}
  template <class T>
  void operator()(const T* x, T* y) const {
    const T probability = Sigmoid()(x[0]);
    const T slope = x[1] < -1 ? probability : x[1] < 0 ? probability - 1 : 2 * probability - x[1];
    y[0] = x[0] > least && x[0] < greatest ? slope * x[2] : 0;
  }
};

/// An operator that computes one of these losses, on the CPU. All inputs have the shape of the first one; outputs have
/// its shape and levels. An output may be left out.
template <class F, Executor E>
RunOperator<E> loss_of_numbers(const OperatorArguments& op) {
  constexpr std::size_t input_count = F::inputs.size(), output_count = F::outputs.size();
  std::array<Slot, input_count> inputs;
  std::array<Slot, output_count> outputs;
  for (std::size_t k = 0; k < input_count; ++k) inputs[k] = op.input(F::inputs[k]);
  for (std::size_t k = 0; k < output_count; ++k) outputs[k] = op.optional_output(F::outputs[k]);
  return [=, f = made_for<F>(op)](OperatorCall<E>& call) {
    call.with_floating(inputs[0], [&](auto element) {
      using T = typename decltype(element)::type;
      const auto& like = call.tensor(inputs[0]);
      const T* from[input_count];
      for (std::size_t k = 0; k < input_count; ++k) from[k] = numbers_of<T>(call, inputs[k], like.shape());
      const std::int64_t count = like.rows() * like.row_size();
      std::array<T*, output_count> to = {};
      with_outputs<T>(call, outputs, like, to, [&] {
        for (std::int64_t i = 0; i < count; ++i) {
          T x[input_count], y[output_count];
          for (std::size_t k = 0; k < input_count; ++k) x[k] = from[k][i];
          f(x, y);
          for (std::size_t k = 0; k < output_count; ++k) {
            if (to[k]) to[k][i] = y[k];
          }
        }
      });
    });
  };
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs
