// SPDX-License-Identifier: Apache-2.0
/// @file
/// Operators that normalise: layer_norm, batch_norm, and their gradients.
#pragma once

#include <lod/core/any_tensor.hpp>
#include <lod/core/data_type.hpp>
#include <lod/core/error.hpp>
#include <lod/core/executor.hpp>
#include <lod/core/shape.hpp>
#include <lod/core/target.hpp>
#include <lod/program/operator.hpp>
#include <lod/program/operators/shapes.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs {

/// layer_norm: X, Scale?, Bias? -> Y, Mean?, Variance?; epsilon = 1e-5, begin_norm_axis = 1.
template <Executor E>
RunOperator<E> layer_norm(const OperatorArguments& op) {
  const Slot x = op.input("X"), factor = op.optional_input("Scale"), bias = op.optional_input("Bias");
  const Slot out = op.output("Y"), means = op.optional_output("Mean"), variances = op.optional_output("Variance");
  const auto epsilon = static_cast<double>(op.attr("epsilon", 1e-5f));
  const std::int32_t axis = op.attr("begin_norm_axis", 1);
  if (axis < 1) op.refuse_attr("begin_norm_axis", "1 or more");
  return [=](OperatorCall<E>& call) {
    const AnyLoDTensor& from = call.tensor(x);
    const Shape shape = from.shape();
    const std::size_t first = axis_of(axis, shape.size());
    const std::int64_t rows = part(shape, 0, first).elements(), size = part(shape, first, shape.size()).elements();
    call.with_floating(x, [&](auto element) {
      using T = typename decltype(element)::type;
      const auto numbers = [&](const Slot& slot) -> const T* {
        if (!slot) return nullptr;
        const auto found = call.template view<T>(slot);
        if (found.rows() * found.row_size() != size) {
          throw ShapeMismatch(
              detail::text({call.name(slot), " of shape ", to_string(found.shape()), ", expected ", size, " numbers"}));
        }
        return found.data();
      };
      const T *const values = call.template view<T>(x).data(), *const a = numbers(factor), *const b = numbers(bias);
      const Workspace::Loan<T> moments(call.executor().workspace(), 2 * rows);
      auto y = call.output_bytes(out, from.data_type(), from.lod(), from.row_shape(), from.rows());
      T* const to = y.template elements<T>();
      for (std::int64_t i = 0; i < rows; ++i) {
        const T* const row = values + i * size;
        double average = 0, variance = 0;
        for (std::int64_t k = 0; k < size; ++k) average += static_cast<double>(row[k]);
        average /= static_cast<double>(size);
        for (std::int64_t k = 0; k < size; ++k) {
          const double distance = static_cast<double>(row[k]) - average;
          variance += distance * distance;
        }
        variance /= static_cast<double>(size);
        moments[i] = static_cast<T>(average);
        moments[rows + i] = static_cast<T>(variance);
        const double slope = 1 / std::sqrt(variance + epsilon);
        for (std::int64_t k = 0; k < size; ++k) {
          const T normal = static_cast<T>((static_cast<double>(row[k]) - average) * slope);
          to[i * size + k] = normal * (a ? a[k] : T{1}) + (b ? b[k] : T{0});
        }
      }
      const auto write = [&](const Slot& slot, const T* numbers_of_rows) {
        if (!slot) return;
        auto moment = call.output_bytes(slot, from.data_type(), part(shape, 0, first), AnyLoDTensor());
        std::copy_n(numbers_of_rows, rows, moment.template elements<T>());
      };
      write(means, moments.data());
      write(variances, moments.data() + rows);
    });
  };
}

/// layer_norm_grad: X, Scale?, Mean, Variance, Y@GRAD -> X@GRAD?, Scale@GRAD?, Bias@GRAD?; attributes as `layer_norm`.
/// Bias is there for its shape.
template <Executor E>
RunOperator<E> layer_norm_grad(const OperatorArguments& op) {
  const Slot x = op.input("X"), factor = op.optional_input("Scale"), bias = op.optional_input("Bias");
  const Slot mean = op.input("Mean"), variance = op.input("Variance"), dy = op.input("Y@GRAD");
  const Slot dx = op.optional_output("X@GRAD"), dfactor = op.optional_output("Scale@GRAD");
  const Slot dbias = op.optional_output("Bias@GRAD");
  if ((dfactor && !factor) || (dbias && !bias)) op.refuse({"expected Scale and Bias for their gradients"});
  const auto epsilon = static_cast<double>(op.attr("epsilon", 1e-5f));
  const std::int32_t axis = op.attr("begin_norm_axis", 1);
  if (axis < 1) op.refuse_attr("begin_norm_axis", "1 or more");
  return [=](OperatorCall<E>& call) {
    const AnyLoDTensor from = call.tensor(x);
    const Shape shape = from.shape();
    const std::size_t first = axis_of(axis, shape.size());
    const std::int64_t rows = part(shape, 0, first).elements(), size = part(shape, first, shape.size()).elements();
    call.with_floating(x, [&](auto element) {
      using T = typename decltype(element)::type;
      const T *const values = call.template view<T>(x).data(), *const given = numbers_of<T>(call, dy, shape);
      const T* const slopes = factor ? some_numbers<T>(call, factor, size) : nullptr;
      const T *const means = some_numbers<T>(call, mean, rows), *const variances =
                                                                    some_numbers<T>(call, variance, rows);
      if (bias) static_cast<void>(some_numbers<T>(call, bias, size));
      // Calls f(i, k, the normal number, dy) for each number of row i.
      const auto for_row = [&](std::int64_t i, const auto& f) {
        const double inverse = 1 / std::sqrt(static_cast<double>(variances[i]) + epsilon);
        for (std::int64_t k = 0; k < size; ++k) {
          const double distance = static_cast<double>(values[i * size + k]) - static_cast<double>(means[i]);
          f(k, distance * inverse, static_cast<double>(given[i * size + k]));
        }
        return inverse;
      };
      if (dfactor) {
        write_sums<T>(call, dfactor, call.tensor(factor), [&](double* sums) {
          for (std::int64_t i = 0; i < rows; ++i) {
            for_row(i, [&](std::int64_t k, double normal, double g) { sums[k] += g * normal; });
          }
        });
      }
      if (dbias) {
        write_sums<T>(call, dbias, call.tensor(bias), [&](double* sums) {
          for (std::int64_t i = 0; i < rows * size; ++i) sums[i % size] += static_cast<double>(given[i]);
        });
      }
      if (!dx) return;
      auto out = call.output_bytes(dx, from.data_type(), from.lod(), from.row_shape(), from.rows());
      T* to = out.template elements<T>();
      for (std::int64_t i = 0; i < rows; ++i) {
        double total = 0, along = 0;
        const auto slope = [&](std::int64_t k) { return slopes ? static_cast<double>(slopes[k]) : 1.0; };
        const double inverse = for_row(i, [&](std::int64_t k, double normal, double g) {
          total += g * slope(k);
          along += g * slope(k) * normal;
        });
        total /= static_cast<double>(size);
        along /= static_cast<double>(size);
        for_row(i, [&](std::int64_t k, double normal, double g) {
          *to++ = static_cast<T>(inverse * (g * slope(k) - total - normal * along));
        });
      }
    });
  };
}

/// The numbers of each channel of X, and what batch_norm is told about them.
struct Channels {
  Slot x, factor, bias;
  bool is_last;    ///< the channels are the last dimension, not the second
  bool is_global;  ///< they are normalised by Mean and Variance, not by their own
  double epsilon;

  explicit Channels(const OperatorArguments& op)
      : x(op.input("X")),
        factor(op.input("Scale")),
        bias(op.input("Bias")),
        is_last(op.attr("data_layout", "NCHW") == "NHWC"),
        is_global(op.attr("is_test", false) || op.attr("use_global_stats", false)),
        epsilon(static_cast<double>(op.attr("epsilon", 1e-5f))) {
    op.expect_attr("trainable_statistics", false);
    op.expect_no_input("MomentumTensor");
    const std::string layout = op.attr("data_layout", "NCHW");
    if (layout != "NCHW" && layout != "NHWC") op.refuse_attr("data_layout", "NCHW or NHWC");
  }

  /// X as blocks of channels.
  template <class E>
  Around around(const OperatorCall<E>& call) const {
    const Shape shape = call.tensor(x).shape();
    if (shape.size() < 2) {
      throw ShapeMismatch(detail::text({call.name(x), " of shape ", to_string(shape), ", expected channels"}));
    }
    return Around(shape, is_last ? shape.size() - 1 : 1);
  }
  /// Calls f(i) with the place of each number of channel k.
  template <class F>
  static void for_each(const Around& around, std::int64_t k, const F& f) {
    for (std::int64_t i = 0; i < around.before; ++i) {
      const std::int64_t first = (i * around.along + k) * around.after;
      for (std::int64_t j = first; j < first + around.after; ++j) f(j);
    }
  }
};

/// batch_norm: X, Scale, Bias, Mean, Variance -> Y, MeanOut, VarianceOut, SavedMean, SavedVariance; epsilon = 1e-5,
/// momentum = 0.9, data_layout = "NCHW", is_test = false, use_global_stats = false. In training channels are normalised
/// by their own mean and variance, which SavedMean and, as 1 / sqrt(variance + epsilon), SavedVariance are, and which
/// MeanOut and VarianceOut move towards, mostly in place; otherwise by Mean and Variance, and only Y is written.
template <Executor E>
RunOperator<E> batch_norm(const OperatorArguments& op) {
  const Channels channels(op);
  const Slot statistics[] = {op.input("Mean"), op.input("Variance")}, out = op.output("Y");
  const bool is_trained = !channels.is_global;
  const auto output = [&](const char* name) { return is_trained ? op.output(name) : Slot(); };
  const Slot moved[] = {output("MeanOut"), output("VarianceOut")};
  const Slot saved[] = {output("SavedMean"), output("SavedVariance")};
  const auto momentum = static_cast<double>(op.attr("momentum", 0.9f));
  return [=](OperatorCall<E>& call) {
    const AnyLoDTensor& from = call.tensor(channels.x);
    const Around around = channels.around(call);
    const std::int64_t count = around.along;
    call.with_floating(channels.x, [&](auto element) {
      using T = typename decltype(element)::type;
      const T* const values = call.template view<T>(channels.x).data();
      const T* const slopes = some_numbers<T>(call, channels.factor, count);
      const T* const offsets = some_numbers<T>(call, channels.bias, count);
      const T* const given[] = {some_numbers<T>(call, statistics[0], count),
                                some_numbers<T>(call, statistics[1], count)};
      const Workspace::Loan<double> means(call.executor().workspace(), count);
      const Workspace::Loan<double> variances(call.executor().workspace(), count);
      for (std::int64_t k = 0; k < count; ++k) {
        auto mean = static_cast<double>(given[0][k]), variance = static_cast<double>(given[1][k]);
        if (is_trained) {
          const auto size = static_cast<double>(around.before * around.after);
          mean = variance = 0;
          Channels::for_each(around, k, [&](std::int64_t i) { mean += static_cast<double>(values[i]); });
          mean = size > 0 ? mean / size : 0;
          Channels::for_each(around, k, [&](std::int64_t i) {
            const double distance = static_cast<double>(values[i]) - mean;
            variance += distance * distance;
          });
          variance = size > 0 ? variance / size : 0;
        }
        means[k] = mean;
        variances[k] = variance;
      }
      auto y = call.output_bytes(out, from.data_type(), from.lod(), from.row_shape(), from.rows());
      T* const to = y.template elements<T>();
      for (std::int64_t k = 0; k < count; ++k) {
        const double slope = static_cast<double>(slopes[k]) / std::sqrt(variances[k] + channels.epsilon);
        const double offset = static_cast<double>(offsets[k]) - means[k] * slope;
        Channels::for_each(around, k, [&](std::int64_t i) {
          to[i] = static_cast<T>(static_cast<double>(values[i]) * slope + offset);
        });
      }
      for (std::size_t which = 0; is_trained && which < 2; ++which) {
        auto kept = call.output_bytes(saved[which], from.data_type(), LoD(), {}, count);
        T* const own = kept.template elements<T>();
        T* const moving = changed<T>(call, statistics[which], moved[which]).data();
        for (std::int64_t k = 0; k < count; ++k) {
          const double now = which == 0 ? means[k] : variances[k];
          own[k] = static_cast<T>(which == 0 ? now : 1 / std::sqrt(now + channels.epsilon));
          moving[k] = static_cast<T>(static_cast<double>(moving[k]) * momentum + now * (1 - momentum));
        }
      }
    });
  };
}
/// batch_norm_grad: X, Scale, Bias, SavedMean, SavedVariance, MeanOut, VarianceOut, Y@GRAD -> X@GRAD?, Scale@GRAD?,
/// Bias@GRAD?; attributes as `batch_norm`.
template <Executor E>
RunOperator<E> batch_norm_grad(const OperatorArguments& op) {
  const Channels channels(op);
  const Slot mean = op.input(channels.is_global ? "MeanOut" : "SavedMean"), dy = op.input("Y@GRAD");
  const Slot variance = op.input(channels.is_global ? "VarianceOut" : "SavedVariance");
  const Slot dx = op.optional_output("X@GRAD"), dfactor = op.optional_output("Scale@GRAD");
  const Slot dbias = op.optional_output("Bias@GRAD");
  return [=](OperatorCall<E>& call) {
    const AnyLoDTensor from = call.tensor(channels.x);
    const Around around = channels.around(call);
    const std::int64_t count = around.along;
    call.with_floating(channels.x, [&](auto element) {
      using T = typename decltype(element)::type;
      const T* const values = call.template view<T>(channels.x).data();
      const T* const given = numbers_of<T>(call, dy, from.shape());
      const T* const slopes = some_numbers<T>(call, channels.factor, count);
      const T *const means = some_numbers<T>(call, mean, count), *const spreads =
                                                                     some_numbers<T>(call, variance, count);
      const Workspace::Loan<double> totals(call.executor().workspace(), count);
      const Workspace::Loan<double> along(call.executor().workspace(), count);
      const auto inverse = [&](std::int64_t k) {
        const auto spread = static_cast<double>(spreads[k]);
        return channels.is_global ? 1 / std::sqrt(spread + channels.epsilon) : spread;
      };
      const auto normal = [&](std::int64_t i, std::int64_t k) {
        return (static_cast<double>(values[i]) - static_cast<double>(means[k])) * inverse(k);
      };
      for (std::int64_t k = 0; k < count; ++k) {
        double total = 0, product = 0;
        Channels::for_each(around, k, [&](std::int64_t i) {
          total += static_cast<double>(given[i]);
          product += static_cast<double>(given[i]) * normal(i, k);
        });
        totals[k] = total;
        along[k] = product;
      }
      const auto write = [&](const Slot& slot, const Slot& like, const double* numbers) {
        if (!slot) return;
        write_sums<T>(call, slot, call.tensor(like), [&](double* sums) { std::copy_n(numbers, count, sums); });
      };
      write(dfactor, channels.factor, along.data());
      write(dbias, channels.bias, totals.data());
      if (!dx) return;
      auto out = call.output_bytes(dx, from.data_type(), from.lod(), from.row_shape(), from.rows());
      T* const to = out.template elements<T>();
      const double size = channels.is_global ? 0 : static_cast<double>(around.before * around.after);
      for (std::int64_t k = 0; k < count; ++k) {
        const double slope = static_cast<double>(slopes[k]) * inverse(k);
        const double back = size > 0 ? totals[k] / size : 0, turn = size > 0 ? along[k] / size : 0;
        Channels::for_each(around, k, [&](std::int64_t i) {
          to[i] = static_cast<T>(slope * (static_cast<double>(given[i]) - back - normal(i, k) * turn));
        });
      }
    });
  };
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs
