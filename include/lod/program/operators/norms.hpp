// SPDX-License-Identifier: Apache-2.0
/// @file
/// Operators that normalise: layer_norm, batch_norm.
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

/// batch_norm, in programs that are not trained: X, Scale, Bias, Mean, Variance -> Y; epsilon = 1e-5,
/// data_layout = "NCHW". Its other outputs are not written.
template <Executor E>
RunOperator<E> batch_norm(const OperatorArguments& op) {
  if (!op.attr("is_test", false) && !op.attr("use_global_stats", false)) {
    op.refuse_attr("is_test", "true: batch_norm in training is not there yet");
  }
  op.expect_attr("trainable_statistics", false);
  const std::string layout = op.attr("data_layout", "NCHW");
  if (layout != "NCHW" && layout != "NHWC") op.refuse_attr("data_layout", "NCHW or NHWC");
  const Slot x = op.input("X"), out = op.output("Y");
  const Slot statistics[] = {op.input("Scale"), op.input("Bias"), op.input("Mean"), op.input("Variance")};
  const auto epsilon = static_cast<double>(op.attr("epsilon", 1e-5f));
  return [=, channels_last = layout == "NHWC"](OperatorCall<E>& call) {
    const AnyLoDTensor& from = call.tensor(x);
    const Shape shape = from.shape();
    const std::size_t axis = channels_last ? shape.size() - 1 : 1;
    if (shape.size() < 2) {
      throw ShapeMismatch(detail::text({call.name(x), " of shape ", to_string(shape), ", expected channels"}));
    }
    const Around around(shape, axis);
    call.with_floating(x, [&](auto element) {
      using T = typename decltype(element)::type;
      const T* given[4];
      for (std::size_t i = 0; i < 4; ++i) {
        const auto found = call.template view<T>(statistics[i]);
        if (found.rows() * found.row_size() != around.along) {
          throw ShapeMismatch(detail::text({call.name(statistics[i]), " of shape ", to_string(found.shape()),
                                            ", expected ", around.along, " numbers, one for each channel"}));
        }
        given[i] = found.data();
      }
      const T* const values = call.template view<T>(x).data();
      auto y = call.output_bytes(out, from.data_type(), from.lod(), from.row_shape(), from.rows());
      T* const to = y.template elements<T>();
      for (std::int64_t i = 0; i < around.before; ++i) {
        for (std::int64_t k = 0; k < around.along; ++k) {
          const double slope = static_cast<double>(given[0][k]) / std::sqrt(static_cast<double>(given[3][k]) + epsilon);
          const double offset = static_cast<double>(given[1][k]) - static_cast<double>(given[2][k]) * slope;
          const std::int64_t first = (i * around.along + k) * around.after;
          std::transform(values + first, values + first + around.after, to + first,
                         [=](T v) { return static_cast<T>(static_cast<double>(v) * slope + offset); });
        }
      }
    });
  };
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs
