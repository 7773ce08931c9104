// SPDX-License-Identifier: Apache-2.0
/// @file
/// prelu, the leaky rectifier whose slope is learnt, and its gradient.
#pragma once

#include <lod/core/any_tensor.hpp>
#include <lod/core/error.hpp>
#include <lod/core/executor.hpp>
#include <lod/core/shape.hpp>
#include <lod/core/target.hpp>
#include <lod/program/operator.hpp>
#include <lod/program/operators/shapes.hpp>

#include <cstddef>
#include <cstdint>
#include <string>

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs {

/// Which slope a number has: mode = "all": one for all; "channel": one for each channel, along axis 1, or along the
/// last axis with data_format = "NHWC"; "element": one for each number of a row.
class LearntSlopes {
 public:
  explicit LearntSlopes(const OperatorArguments& op)
      : x_(op.input("X")),
        alpha_(op.input("Alpha")),
        mode_(op.attr("mode", "all")),
        is_last_(op.attr("data_format", "NCHW") == "NHWC") {
    if (mode_ != "all" && mode_ != "channel" && mode_ != "element") op.refuse_attr("mode", "all, channel or element");
  }
  Slot x() const noexcept { return x_; }
  Slot alpha() const noexcept { return alpha_; }

  /// The slopes of a tensor, and which of them each number has.
  template <class T>
  struct Of {
    const T* slopes;
    std::int64_t count, step;
    std::int64_t place(std::int64_t i) const noexcept { return i / step % count; }
  };
  template <class T, class E>
  Of<T> of(const OperatorCall<E>& call) const {
    const Shape shape = call.tensor(x_).shape();
    std::int64_t count = 1, step = 1;
    if (mode_ == "element") count = part(shape, 1, shape.size()).elements();
    if (mode_ == "channel") {
      const Around around(shape, axis_of(is_last_ ? -1 : 1, shape.size()));
      count = around.along;
      step = around.after;
    }
    return {some_numbers<T>(call, alpha_, count), count, step};
  }

 private:
  Slot x_, alpha_;
  std::string mode_;
  bool is_last_;
};

/// prelu: X, Alpha -> Out: negative numbers times their slopes; attributes as LearntSlopes.
template <Executor E>
RunOperator<E> prelu(const OperatorArguments& op) {
  const Slot out = op.output("Out");
  return [=, in = LearntSlopes(op)](OperatorCall<E>& call) {
    const AnyLoDTensor& from = call.tensor(in.x());
    call.with_floating(in.x(), [&](auto element) {
      using T = typename decltype(element)::type;
      const T* const x = call.template view<T>(in.x()).data();
      const auto of = in.template of<T>(call);
      auto y = call.output_bytes(out, from.data_type(), from.lod(), from.row_shape(), from.rows());
      for (std::int64_t i = 0; i < from.rows() * from.row_size(); ++i) {
        y.template elements<T>()[i] = x[i] > 0 ? x[i] : of.slopes[of.place(i)] * x[i];
      }
    });
  };
}
/// prelu_grad: X, Alpha, Out@GRAD -> X@GRAD?, Alpha@GRAD?
template <Executor E>
RunOperator<E> prelu_grad(const OperatorArguments& op) {
  const Slot dy = op.input("Out@GRAD");
  const Slot dx = op.optional_output("X@GRAD"), dalpha = op.optional_output("Alpha@GRAD");
  return [=, in = LearntSlopes(op)](OperatorCall<E>& call) {
    const AnyLoDTensor from = call.tensor(in.x()), slopes = call.tensor(in.alpha());
    const std::int64_t count = from.rows() * from.row_size();
    call.with_floating(in.x(), [&](auto element) {
      using T = typename decltype(element)::type;
      const T *const x = call.template view<T>(in.x()).data(), *const given = numbers_of<T>(call, dy, from.shape());
      const auto of = in.template of<T>(call);
      if (dalpha) {
        write_sums<T>(call, dalpha, slopes, [&](double* sums) {
          for (std::int64_t i = 0; i < count; ++i) {
            if (!(x[i] > 0)) sums[of.place(i)] += static_cast<double>(x[i]) * static_cast<double>(given[i]);
          }
        });
      }
      if (!dx) return;
      auto out = call.output_bytes(dx, from.data_type(), from.lod(), from.row_shape(), from.rows());
      for (std::int64_t i = 0; i < count; ++i) {
        out.template elements<T>()[i] = x[i] > 0 ? given[i] : of.slopes[of.place(i)] * given[i];
      }
    });
  };
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs
