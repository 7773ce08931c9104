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
#include <lod/ops/kernel.hpp>
#include <lod/ops/new_offsets.hpp>
#include <lod/program/operator.hpp>
#include <lod/program/operators/shapes.hpp>
#include <lod/program/operators/wide.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <type_traits>

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
        in_wide_range<T>([&]<class W>(W) {
          W average = 0, variance = 0;
          for (std::int64_t k = 0; k < size; ++k) average += static_cast<W>(row[k]);
          average /= static_cast<W>(size);
          for (std::int64_t k = 0; k < size; ++k) {
            const W distance = static_cast<W>(row[k]) - average;
            variance += distance * distance;
          }
          variance /= static_cast<W>(size);
          if (!is_in_range<T>(variance + epsilon)) return false;
          moments[i] = static_cast<T>(average);
          moments[rows + i] = static_cast<T>(variance);
          const W slope = 1 / std::sqrt(variance + epsilon);
          for (std::int64_t k = 0; k < size; ++k) {
            const T normal = static_cast<T>((static_cast<W>(row[k]) - average) * slope);
            to[i * size + k] = normal * (a ? a[k] : T{1}) + (b ? b[k] : T{0});
          }
          return true;
        });
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
/// Only the shape of Bias is used.
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
      // Calls f(i, k, the normalised number, dy) for each number of row i.
      const auto for_row = [&](std::int64_t i, const auto& f) {
        const T* const row = values + i * size;
        const double spread = static_cast<double>(variances[i]) + epsilon;
        Normaliser by = {static_cast<double>(means[i]), 1 / std::sqrt(spread)};
        if (!has_room_for<T>(spread)) {
          by = normaliser_of<T>(size, epsilon, [&](const auto& add) { std::for_each(row, row + size, add); });
        }
        for (std::int64_t k = 0; k < size; ++k) {
          f(k, (static_cast<double>(row[k]) - by.center) * by.inverse, static_cast<double>(given[i * size + k]));
        }
        return by.inverse;
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

/// The channels of X, by the attributes of batch_norm.
struct Channels {
  Slot x, factor, bias;
  bool is_last;    ///< whether the channels are the last dimension, not the second
  bool is_global;  ///< whether they are normalised by Mean and Variance, not by their own
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
};

/// Channels that are summed together, 16 numbers side by side: a single channel or, if channels are the last dimension,
/// several.
class ChannelBlock {
 public:
  static constexpr std::int64_t lanes = 16;
  template <class W>
  using Lanes = std::array<W, static_cast<std::size_t>(lanes)>;

  /// The number of blocks of channels in X.
  static std::int64_t count(const Around& x) noexcept { return x.after > 1 ? x.along : (x.along + lanes - 1) / lanes; }
  ChannelBlock(const Around& x, std::int64_t i) noexcept
      : x_(x),
        is_one_(x.after > 1),
        first_(is_one_ ? i : i * lanes),
        channels_(is_one_ ? 1 : std::min(lanes, x.along - first_)) {
    if (x.after == 0) x_.before = 0;
  }

  /// f(channel) for each lane's channel; unused lanes have the last channel's.
  template <class F>
  auto of_channels(const F& f) const {
    Lanes<std::invoke_result_t<F, std::int64_t>> found;
    for (std::size_t lane = 0; lane < found.size(); ++lane) {
      found[lane] = f(first_ + (is_one_ ? 0 : std::min(static_cast<std::int64_t>(lane), channels_ - 1)));
    }
    return found;
  }
  /// Writes a number of each channel to its place in `numbers`.
  template <class W, class N>
  void write(const Lanes<W>& found, N* numbers) const noexcept {
    std::copy_n(found.begin(), channels_, numbers + first_);
  }
  /// Calls f(place, lane) for all numbers.
  template <class F>
  void for_each(const F& f) const {
    const std::int64_t run = is_one_ ? x_.after : channels_;
    for (std::int64_t i = 0; i < x_.before; ++i) {
      std::int64_t place = (i * x_.along + first_) * x_.after;
      const std::int64_t end = place + run;
      for (; place + lanes <= end; place += lanes) {
        for (std::size_t lane = 0; lane < lanes; ++lane) f(place + static_cast<std::int64_t>(lane), lane);
      }
      for (std::size_t lane = 0; place < end; ++place, ++lane) f(place, lane);
    }
  }
  /// The sum of f(place, lane) over each channel, in each of its lanes.
  template <class F>
  auto sums(const F& f) const {
    using W = std::invoke_result_t<F, std::int64_t, std::size_t>;
    Lanes<W> totals{};
    for_each([&](std::int64_t place, std::size_t lane) { totals[lane] += f(place, lane); });
    if (is_one_) totals.fill(std::accumulate(totals.begin(), totals.end(), W{}));
    return totals;
  }

 private:
  Around x_;
  bool is_one_;
  std::int64_t first_;
  std::int64_t channels_;
};
/// Calls f(ChannelBlock) for all blocks of X, on all threads.
template <class T, class E, class F>
void for_each_channel_block(const E& executor, const Around& x, const F& f) {
  const std::int64_t bytes = x.before * x.along * x.after * static_cast<std::int64_t>(sizeof(T));
  launch(kernel::ForEachRange(), executor, ChannelBlock::count(x), bytes,
         [&](std::int64_t, std::int64_t begin, std::int64_t end) {
           for (std::int64_t i = begin; i < end; ++i) f(ChannelBlock(x, i));
         });
}

/// batch_norm: X, Scale, Bias, Mean, Variance -> Y, MeanOut, VarianceOut, SavedMean, SavedVariance; epsilon = 1e-5,
/// momentum = 0.9, data_layout = "NCHW", is_test = false, use_global_stats = false. In training, channels are
/// normalised by their own mean and variance. These are written to SavedMean and, as 1 / sqrt(variance + epsilon), to
/// SavedVariance, and the running MeanOut and VarianceOut are updated with them, mostly in place. Otherwise channels
/// are normalised by Mean and Variance, and only Y is written.
template <Executor E>
RunOperator<E> batch_norm(const OperatorArguments& op) {
  const Channels channels(op);
  const Slot statistics[] = {op.input("Mean"), op.input("Variance")}, out = op.output("Y");
  const bool is_trained = !channels.is_global;
  const auto output = [&](const char* name) { return is_trained ? op.output(name) : Slot(); };
  const Slot moved[] = {output("MeanOut"), output("VarianceOut")};
  const std::array saved{output("SavedMean"), output("SavedVariance")};
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
      const Workspace::Loan<Wide<T>> means(call.executor().workspace(), is_trained ? count : 0);
      const Workspace::Loan<Wide<T>> variances(call.executor().workspace(), is_trained ? count : 0);
      auto y = call.output_bytes(out, from.data_type(), from.lod(), from.row_shape(), from.rows());
      T* const to = y.template elements<T>();
      const auto size = static_cast<double>(std::max<std::int64_t>(around.lines(), 1));
      for_each_channel_block<T>(call.executor(), around, [&](const ChannelBlock& block) {
        in_wide_range<T>([&]<class W>(W) {
          const auto given_to = [&](const T* numbers) {
            return block.of_channels([=](std::int64_t k) { return static_cast<W>(numbers[k]); });
          };
          auto mean = given_to(given[0]), variance = given_to(given[1]);
          if (is_trained) {
            mean = block.sums([&](std::int64_t i, std::size_t) { return static_cast<W>(values[i]); });
            for (W& one : mean) one /= static_cast<W>(size);
            variance = block.sums([&](std::int64_t i, std::size_t lane) {
              const W distance = static_cast<W>(values[i]) - mean[lane];
              return distance * distance;
            });
            for (W& one : variance) one /= static_cast<W>(size);
          }
          for (const W& one : variance) {
            if (!is_in_range<T>(one + channels.epsilon)) return false;
          }
          if (is_trained) {
            block.write(mean, means.data());
            block.write(variance, variances.data());
          }
          auto slope = given_to(slopes), offset = given_to(offsets);
          for (std::size_t lane = 0; lane < slope.size(); ++lane) {
            slope[lane] /= std::sqrt(variance[lane] + channels.epsilon);
            offset[lane] -= mean[lane] * slope[lane];
          }
          block.for_each([&](std::int64_t i, std::size_t lane) {
            to[i] = static_cast<T>(static_cast<W>(values[i]) * slope[lane] + offset[lane]);
          });
          return true;
        });
      });
      if (!is_trained) return;
      std::array<T*, 2> own = {};
      with_outputs<T>(call, saved, LoD(), {}, count, own, [&] {
        Changed<T, E> moving[] = {{call, statistics[0], moved[0]}, {call, statistics[1], moved[1]}};
        for (std::int64_t k = 0; k < count; ++k) {
          own[0][k] = static_cast<T>(means[k]);
          own[1][k] = static_cast<T>(1 / std::sqrt(variances[k] + channels.epsilon));
          for (std::size_t which = 0; which < 2; ++which) {
            T& mean = moving[which].data()[k];
            const Wide<T> now = which == 0 ? means[k] : variances[k];
            mean = static_cast<T>(static_cast<Wide<T>>(mean) * momentum + now * (1 - momentum));
          }
        }
      });
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
      // The mean of a channel, and 1 / sqrt(its variance + epsilon).
      const auto mean_of = [=](std::int64_t k) { return static_cast<double>(means[k]); };
      const auto inverse_of = [=, is_global = channels.is_global, epsilon = channels.epsilon](std::int64_t k) {
        const auto spread = static_cast<double>(spreads[k]);
        return is_global ? 1 / std::sqrt(spread + epsilon) : spread;
      };
      for_each_channel_block<T>(call.executor(), around, [&](const ChannelBlock& block) {
        const auto center = block.of_channels(mean_of), inverse = block.of_channels(inverse_of);
        block.write(block.sums([&](std::int64_t i, std::size_t) { return static_cast<double>(given[i]); }),
                    totals.data());
        block.write(block.sums([&](std::int64_t i, std::size_t lane) {
          return static_cast<double>(given[i]) * ((static_cast<double>(values[i]) - center[lane]) * inverse[lane]);
        }),
                    along.data());
      });
      const auto write = [&](const Slot& slot, const Slot& like, const double* numbers) {
        if (!slot) return;
        write_sums<T>(call, slot, call.tensor(like), [&](double* sums) { std::copy_n(numbers, count, sums); });
      };
      write(dfactor, channels.factor, along.data());
      write(dbias, channels.bias, totals.data());
      if (!dx) return;
      auto out = call.output_bytes(dx, from.data_type(), from.lod(), from.row_shape(), from.rows());
      T* const to = out.template elements<T>();
      const double share = channels.is_global ? 0 : 1 / static_cast<double>(std::max<std::int64_t>(around.lines(), 1));
      for_each_channel_block<T>(call.executor(), around, [&](const ChannelBlock& block) {
        const auto center = block.of_channels(mean_of), inverse = block.of_channels(inverse_of);
        const auto slope =
            block.of_channels([&](std::int64_t k) { return static_cast<double>(slopes[k]) * inverse_of(k); });
        const auto back = block.of_channels([&](std::int64_t k) { return totals[k] * share; });
        const auto turn = block.of_channels([&](std::int64_t k) { return along[k] * share; });
        block.for_each([&](std::int64_t i, std::size_t lane) {
          const double normal = (static_cast<double>(values[i]) - center[lane]) * inverse[lane];
          to[i] = static_cast<T>(slope[lane] * (static_cast<double>(given[i]) - back[lane] - normal * turn[lane]));
        });
      });
    });
  };
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs
