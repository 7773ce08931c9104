// SPDX-License-Identifier: Apache-2.0
/// @file
/// Operators that normalise images by groups of their channels: group_norm, instance_norm, lrn, and their gradients.
#pragma once

#include <lod/core/any_tensor.hpp>
#include <lod/core/error.hpp>
#include <lod/core/executor.hpp>
#include <lod/core/shape.hpp>
#include <lod/core/sizes.hpp>
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
#include <string>

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs {

/// The groups of channels that group_norm normalises together, each of one image; for instance_norm the channels.
struct NormalisedGroups {
  std::int64_t images, groups, channels;  ///< channels of a group
  std::int64_t pixels;                    ///< of an image
  std::int64_t pixel, channel;            ///< from one pixel or channel to the next

  /// The numbers of a group.
  std::int64_t size() const noexcept { return channels * pixels; }
  /// The groups of all images, saturated: there may be any number of them without numbers.
  std::int64_t count() const noexcept { return detail::saturated_product(images, groups); }
  /// Calls f(place, channel of the image) for the numbers of group i of images * groups.
  template <class F>
  void for_each(std::int64_t i, const F& f) const {
    const std::int64_t begin = i % groups * channels, first = i / groups * groups * size() + begin * channel;
    // In the order of memory.
    if (pixel == 1) {
      for (std::int64_t k = 0; k < channels; ++k) {
        for (std::int64_t p = 0; p < pixels; ++p) f(first + k * channel + p, begin + k);
      }
    } else {
      for (std::int64_t p = 0; p < pixels; ++p) {
        for (std::int64_t k = 0; k < channels; ++k) f(first + p * pixel + k, begin + k);
      }
    }
  }
  /// Calls f(i) for all groups, on all threads.
  template <class E, class F>
  void for_each_group(const E& executor, std::int64_t bytes_of_number, const F& f) const {
    launch(kernel::ForEachRange(), executor, count(), detail::saturated_product(count(), size(), bytes_of_number),
           [&](std::int64_t, std::int64_t begin, std::int64_t end) {
             for (std::int64_t i = begin; i < end; ++i) f(i);
           });
  }
};

/// The arguments of group_norm, or of instance_norm, and of their gradients.
template <bool by_instance>
struct GroupNormArguments {
  static constexpr const char* mean = by_instance ? "SavedMean" : "Mean";
  static constexpr const char* variance = by_instance ? "SavedVariance" : "Variance";

  Slot x, factor, bias;
  std::int32_t groups;
  bool is_last;  ///< whether channels are the last dimension
  double epsilon;

  explicit GroupNormArguments(const OperatorArguments& op, const char* images = "X")
      : x(op.input(images)),
        factor(op.optional_input("Scale")),
        bias(op.optional_input("Bias")),
        groups(by_instance ? 1 : op.attr("groups", 1)),
        is_last(!by_instance && op.attr("data_layout", "NCHW") == "NHWC"),
        epsilon(static_cast<double>(op.attr("epsilon", 1e-5f))) {
    const std::string layout = op.attr("data_layout", "NCHW");
    if (layout != "NCHW" && layout != "NHWC") op.refuse_attr("data_layout", "NCHW or NHWC");
    if (groups < 1) op.refuse_attr("groups", "1 or more");
  }
  template <class E>
  NormalisedGroups of(const OperatorCall<E>& call) const {
    const Shape shape = call.tensor(x).shape();
    const std::int64_t channels = shape.size() < 2 ? 0 : is_last ? shape[shape.size() - 1] : shape[1];
    if (shape.size() < 2 || channels % groups != 0) {
      throw ShapeMismatch(detail::text({call.name(x), " of shape ", to_string(shape),
                                        ", expected images with a multiple of ", groups, " channels"}));
    }
    const std::int64_t parts = by_instance ? channels : groups;
    const std::int64_t pixels =
        is_last ? part(shape, 1, shape.size() - 1).elements() : part(shape, 2, shape.size()).elements();
    return {shape[0], parts, by_instance ? 1 : channels / parts, pixels, is_last ? channels : 1, is_last ? 1 : pixels};
  }
  /// The numbers of the channels in a tensor; null if there is none.
  template <class T, class E>
  static const T* of_channels(const OperatorCall<E>& call, const Slot& slot, const NormalisedGroups& in) {
    return slot ? some_numbers<T>(call, slot, in.groups * in.channels) : nullptr;
  }
  /// 1 / sqrt(variance + epsilon), which is what instance_norm keeps as its variance.
  double inverse(double kept) const { return by_instance ? kept : 1 / std::sqrt(kept + epsilon); }
};

/// group_norm: X, Scale?, Bias? -> Y, Mean?, Variance?; groups = 1, epsilon = 1e-5, data_layout = "NCHW".
/// instance_norm: X, Scale?, Bias? -> Y, SavedMean?, SavedVariance?; epsilon = 1e-5: each channel is a group, and
/// SavedVariance is 1 / sqrt(variance + epsilon). A group without numbers has mean 0 and variance 0.
template <Executor E, bool by_instance>
RunOperator<E> group_norm(const OperatorArguments& op) {
  using Arguments = GroupNormArguments<by_instance>;
  const Slot out = op.output("Y");
  const std::array moments{op.optional_output(Arguments::mean), op.optional_output(Arguments::variance)};
  return [=, in = Arguments(op)](OperatorCall<E>& call) {
    const AnyLoDTensor& from = call.tensor(in.x);
    const NormalisedGroups of = in.of(call);
    call.with_floating(in.x, [&](auto element) {
      using T = typename decltype(element)::type;
      const T* const values = call.template view<T>(in.x).data();
      const T *const a = in.template of_channels<T>(call, in.factor, of), *const b = in.template of_channels<T>(
                                                                              call, in.bias, of);
      const std::int64_t count = of.count();
      auto y = call.output_bytes(out, from.data_type(), from.lod(), from.row_shape(), from.rows());
      T* const to = y.template elements<T>();
      const auto write = [&](T* means, T* variances) {
        if (of.size() == 0 && !means && !variances) return;
        of.for_each_group(call.executor(), sizeof(T), [&](std::int64_t i) {
          in_wide_range<T>([&]<class W>(W) {
            const auto size = static_cast<W>(std::max<std::int64_t>(of.size(), 1));
            W mean = 0, variance = 0;
            of.for_each(i, [&](std::int64_t at, std::int64_t) { mean += static_cast<W>(values[at]); });
            mean /= size;
            of.for_each(i, [&](std::int64_t at, std::int64_t) {
              const W distance = static_cast<W>(values[at]) - mean;
              variance += distance * distance;
            });
            variance /= size;
            if (!is_in_range<T>(variance + in.epsilon)) return false;
            const W slope = 1 / std::sqrt(variance + in.epsilon);
            if (means) means[i] = static_cast<T>(mean);
            if (variances) variances[i] = static_cast<T>(by_instance ? slope : variance);
            of.for_each(i, [&](std::int64_t at, std::int64_t k) {
              const T normal = static_cast<T>((static_cast<W>(values[at]) - mean) * slope);
              to[at] = normal * (a ? a[k] : T{1}) + (b ? b[k] : T{0});
            });
            return true;
          });
        });
      };
      std::array<T*, 2> kept = {};
      with_outputs<T>(call, moments, LoD(), by_instance ? Shape() : Shape{of.groups}, by_instance ? count : of.images,
                      kept, [&] { write(kept[0], kept[1]); });
    });
  };
}

/// group_norm_grad: X?, Scale?, Bias?, Mean?, Variance, Y?, Y@GRAD -> X@GRAD?, Scale@GRAD?, Bias@GRAD?; the attributes
/// of group_norm. Without X and Mean, as in PaddlePaddle 1, Y takes their place, and must not have a Scale of 0.
/// instance_norm_grad: X, Scale?, SavedMean, SavedVariance, Y@GRAD -> the same.
template <Executor E, bool by_instance>
RunOperator<E> group_norm_grad(const OperatorArguments& op) {
  using Arguments = GroupNormArguments<by_instance>;
  const Slot mean = op.optional_input(Arguments::mean), variance = op.input(Arguments::variance);
  const bool has_x = op.inputs("X") && mean;
  const Slot dy = op.input("Y@GRAD"), dx = op.optional_output("X@GRAD");
  const Slot dfactor = op.optional_output("Scale@GRAD"), dbias = op.optional_output("Bias@GRAD");
  return [=, in = Arguments(op, has_x ? "X" : "Y")](OperatorCall<E>& call) {
    const AnyLoDTensor from = call.tensor(in.x);
    const NormalisedGroups of = in.of(call);
    call.with_floating(in.x, [&](auto element) {
      using T = typename decltype(element)::type;
      const std::int64_t count = of.count();
      const T *const values = call.template view<T>(in.x).data(), *const given = numbers_of<T>(call, dy, from.shape());
      const T *const a = in.template of_channels<T>(call, in.factor, of), *const b = in.template of_channels<T>(
                                                                              call, in.bias, of);
      const T* const means = has_x ? some_numbers<T>(call, mean, count) : nullptr;
      const T* const variances = some_numbers<T>(call, variance, count);
      const auto slope = [=](std::int64_t k) { return a ? static_cast<double>(a[k]) : 1.0; };
      // Calls f(place, channel, the normalised number, dy) for each number of group i.
      const auto for_group = [&](std::int64_t i, const auto& f) {
        const auto kept = static_cast<double>(variances[i]);
        Normaliser by = {means ? static_cast<double>(means[i]) : 0, in.inverse(kept)};
        if (means && !has_room_for<T>(by_instance ? kept : kept + in.epsilon)) {
          by = normaliser_of<T>(of.size(), in.epsilon, [&](const auto& add) {
            of.for_each(i, [&](std::int64_t at, std::int64_t) { add(values[at]); });
          });
        }
        of.for_each(i, [&](std::int64_t at, std::int64_t k) {
          const auto value = static_cast<double>(values[at]);
          const double normal =
              means ? (value - by.center) * by.inverse : (value - (b ? static_cast<double>(b[k]) : 0.0)) / slope(k);
          f(at, k, normal, static_cast<double>(given[at]));
        });
        return by.inverse;
      };
      const Shape shape{of.groups * of.channels};
      const auto write = [&](const Slot& slot, const auto& term) {
        if (!slot) return;
        const Workspace::Loan<double> sums(call.executor().workspace(), of.groups * of.channels);
        std::fill_n(sums.data(), of.groups * of.channels, 0.0);
        for (std::int64_t i = 0; i < count && of.size() > 0; ++i) {
          for_group(i, [&](std::int64_t, std::int64_t k, double normal, double g) { sums[k] += term(normal, g); });
        }
        auto y = call.output_bytes(slot, from.data_type(), shape, AnyLoDTensor());
        std::transform(sums.data(), sums.data() + of.groups * of.channels, y.template elements<T>(),
                       [](double v) { return static_cast<T>(v); });
      };
      write(dfactor, [](double normal, double g) { return g * normal; });
      write(dbias, [](double, double g) { return g; });
      if (!dx) return;
      auto out = call.output_bytes(dx, from.data_type(), from.lod(), from.row_shape(), from.rows());
      T* const to = out.template elements<T>();
      if (of.size() == 0) return;
      of.for_each_group(call.executor(), sizeof(T), [&](std::int64_t i) {
        double total = 0, along = 0;
        const double inverse = for_group(i, [&](std::int64_t, std::int64_t k, double normal, double g) {
          total += g * slope(k);
          along += g * slope(k) * normal;
        });
        total /= static_cast<double>(of.size());
        along /= static_cast<double>(of.size());
        for_group(i, [&](std::int64_t at, std::int64_t k, double normal, double g) {
          to[at] = static_cast<T>(inverse * (g * slope(k) - total - normal * along));
        });
      });
    });
  };
}

/// The attributes of lrn: n = 5 (odd), k = 2, alpha = 1e-4, beta = 0.75, data_format = "NCHW".
struct LocalResponse {
  Slot x;
  std::int64_t reach;  ///< how far the channels go in a sum, on either side
  double k, alpha, beta;
  bool is_last;

  explicit LocalResponse(const OperatorArguments& op)
      : x(op.input("X")),
        k(static_cast<double>(op.attr("k", 2.0F))),
        alpha(static_cast<double>(op.attr("alpha", 1e-4F))),
        beta(static_cast<double>(op.attr("beta", 0.75F))),
        is_last(op.attr("data_format", "NCHW") == "NHWC") {
    const std::int32_t n = op.attr("n", 5);
    if (n < 1 || n % 2 == 0) op.refuse_attr("n", "an odd number");
    reach = n / 2;
    const std::string layout = op.attr("data_format", "AnyLayout");
    if (layout != "NCHW" && layout != "NHWC" && layout != "AnyLayout") op.refuse_attr("data_format", "NCHW or NHWC");
  }
  template <class E>
  Around around(const OperatorCall<E>& call) const {
    const Shape shape = call.tensor(x).shape();
    if (shape.size() != 4) {
      throw ShapeMismatch(detail::text({call.name(x), " of shape ", to_string(shape), ", expected 4 dimensions"}));
    }
    return Around(shape, is_last ? 3 : 1);
  }
  /// Calls f(place, sum) for each number of line i along the channels, with the sum of term(place) over the channels
  /// around it.
  template <class W = double, class Term, class F>
  void for_line(const Around& in, std::int64_t i, const Term& term, const F& f) const {
    const std::int64_t first = in.first(i);
    for (std::int64_t c = 0; c < in.along; ++c) {
      const std::int64_t end = std::min(in.along, c + reach + 1);
      W sum = 0;
      for (std::int64_t other = std::max<std::int64_t>(c - reach, 0); other < end; ++other) {
        sum += term(first + other * in.after);
      }
      f(first + c * in.after, sum);
    }
  }
  /// Calls f(line) for all lines, on all threads.
  template <class E, class F>
  void for_each_line(const E& executor, const Around& in, std::int64_t bytes_of_number, const F& f) const {
    const std::int64_t lines = in.lines();
    launch(kernel::ForEachRange(), executor, lines, lines * in.along * bytes_of_number,
           [&](std::int64_t, std::int64_t begin, std::int64_t end) {
             for (std::int64_t i = begin; i < end; ++i) f(i);
           });
  }
};

/// lrn: X -> Out, MidOut?: each number times s^-beta, where s, which MidOut keeps, is k plus alpha times the sum of the
/// squares in the n channels around it. Attributes as LocalResponse.
template <Executor E>
RunOperator<E> lrn(const OperatorArguments& op) {
  const std::array outputs{op.output("Out"), op.optional_output("MidOut")};
  return [=, in = LocalResponse(op)](OperatorCall<E>& call) {
    const AnyLoDTensor& from = call.tensor(in.x);
    const Around around = in.around(call);
    call.with_floating(in.x, [&](auto element) {
      using T = typename decltype(element)::type;
      const T* const values = call.template view<T>(in.x).data();
      std::array<T*, 2> to = {};
      with_outputs<T>(call, outputs, from, to, [&] {
        in.for_each_line(call.executor(), around, sizeof(T), [&](std::int64_t line) {
          in_wide_range<T>([&]<class W>(W) {
            const auto squared = [=](std::int64_t at) {
              return static_cast<W>(values[at]) * static_cast<W>(values[at]);
            };
            bool good = true;
            in.template for_line<W>(around, line, squared, [&](std::int64_t at, W sum) {
              const W scale = static_cast<W>(in.k) + static_cast<W>(in.alpha) * sum;
              good = good && is_in_range<T>(scale);
              to[0][at] = static_cast<T>(static_cast<W>(values[at]) * std::pow(scale, static_cast<W>(-in.beta)));
              if (to[1]) to[1][at] = static_cast<T>(scale);
            });
            return good;
          });
        });
      });
    });
  };
}
/// lrn_grad: X, Out, MidOut, Out@GRAD -> X@GRAD; attributes as LocalResponse.
template <Executor E>
RunOperator<E> lrn_grad(const OperatorArguments& op) {
  const Slot y = op.input("Out"), middle = op.input("MidOut"), dy = op.input("Out@GRAD"), dx = op.output("X@GRAD");
  return [=, in = LocalResponse(op)](OperatorCall<E>& call) {
    const AnyLoDTensor from = call.tensor(in.x);
    const Around around = in.around(call);
    call.with_floating(in.x, [&](auto element) {
      using T = typename decltype(element)::type;
      const T* const values = call.template view<T>(in.x).data();
      const T *const results = numbers_of<T>(call, y, from.shape()), *const scales =
                                                                         numbers_of<T>(call, middle, from.shape());
      const T* const given = numbers_of<T>(call, dy, from.shape());
      auto out = call.output_bytes(dx, from.data_type(), from.lod(), from.row_shape(), from.rows());
      T* const to = out.template elements<T>();
      const auto part_of_sum = [=](std::int64_t at) {
        return static_cast<double>(given[at]) * static_cast<double>(results[at]) / static_cast<double>(scales[at]);
      };
      in.for_each_line(call.executor(), around, sizeof(T), [&](std::int64_t line) {
        in.for_line(around, line, part_of_sum, [&](std::int64_t at, double sum) {
          to[at] = static_cast<T>(static_cast<double>(given[at]) * std::pow(static_cast<double>(scales[at]), -in.beta) -
                                  2 * in.alpha * in.beta * static_cast<double>(values[at]) * sum);
        });
      });
    });
  };
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs
