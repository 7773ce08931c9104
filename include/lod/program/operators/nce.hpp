// SPDX-License-Identifier: Apache-2.0
/// @file
/// Noise-contrastive estimation, the loss of layers with very many classes: nce, and its gradient. It computes outputs
/// only for a row's own classes and for a few others that are drawn at random.
#pragma once

#include <lod/core/any_tensor.hpp>
#include <lod/core/data_type.hpp>
#include <lod/core/error.hpp>
#include <lod/core/executor.hpp>
#include <lod/core/lod_index.hpp>
#include <lod/core/lod_view.hpp>
#include <lod/core/philox.hpp>
#include <lod/core/shape.hpp>
#include <lod/core/target.hpp>
#include <lod/ops/embedding.hpp>
#include <lod/program/operator.hpp>
#include <lod/program/operators/losses.hpp>
#include <lod/program/operators/random.hpp>
#include <lod/program/operators/row_sparse.hpp>
#include <lod/program/operators/shapes.hpp>
#include <lod/program/operators/unary.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <type_traits>
#include <vector>

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs {

/// The classes that nce draws, and how probable they are.
class Noise {
 public:
  enum Kind : std::int32_t { uniform, log_uniform, custom };

  Kind kind;
  std::int64_t classes;
  std::int64_t negatives;  ///< classes that are drawn for each row
  // For a custom distribution: the probability of each class, and its alias table: the class that is drawn instead, and
  // how often the class itself stays.
  const float* probabilities = nullptr;
  const std::int32_t* aliases = nullptr;
  const float* stays = nullptr;

  /// Draws a class by two numbers of a stream.
  std::int64_t draw(const detail::Philox& random, std::uint64_t place) const {
    const double number = random.uniform(2 * place), all = static_cast<double>(classes);
    const double drawn = kind == log_uniform ? std::exp(number * std::log(all)) - 1 : number * all;
    const std::int64_t chosen = std::clamp<std::int64_t>(static_cast<std::int64_t>(drawn), 0, classes - 1);
    const bool is_other = kind == custom && random.uniform(2 * place + 1) >= static_cast<double>(stays[chosen]);
    return is_other ? aliases[chosen] : chosen;
  }
  /// The expected number of times that a class is drawn for a row.
  double expected(std::int64_t one) const {
    const auto all = static_cast<double>(classes), at = static_cast<double>(one);
    const double probability = kind == custom                       ? static_cast<double>(probabilities[one])
                               : kind == log_uniform && classes > 1 ? std::log((at + 2) / (at + 1)) / std::log(all)
                                                                    : 1 / all;
    return probability * static_cast<double>(negatives);
  }
};

/// The checked rows and parameters.
template <class T>
struct NoiseContrast {
  Shape samples;               ///< the shape of SampleLabels: for each row its own classes, then those that are drawn
  std::int64_t own;            ///< the number of a row's own classes
  std::int64_t size;           ///< of a row, and of the weights of a class
  const std::int64_t* labels;  ///< the rows' own classes
  const T* x;
  const T* weights;
  const T* bias;         ///< null if there is none
  const T* row_weights;  ///< null if all are 1

  std::int64_t rows() const noexcept { return samples[0]; }
  /// The derivative of a sample's cost with respect to the output of the class, from the sigmoid of that output.
  double slope(std::int64_t row, bool is_own, double sigmoid, double expected) const noexcept {
    const double slope = is_own ? expected * (sigmoid - 1) : sigmoid * (1 - sigmoid);
    return (row_weights ? static_cast<double>(row_weights[row]) : 1) * slope / (sigmoid + expected);
  }
};

/// The arguments of nce and nce_grad: Input, Label, Weight, Bias?, SampleWeight?, CustomDistProbs?, CustomDistAlias?,
/// CustomDistAliasProbs?; num_total_classes, num_neg_samples = 10; sampler = 0: uniform, 1: log-uniform, for classes in
/// the order of their frequency, 2: by the three tables.
class NoiseContrastArguments {
 public:
  explicit NoiseContrastArguments(const OperatorArguments& op)
      : x_(op.input("Input")),
        label_(op.input("Label")),
        weight_(op.input("Weight")),
        bias_(op.optional_input("Bias")),
        row_weight_(op.optional_input("SampleWeight")),
        noise_{static_cast<Noise::Kind>(op.attr("sampler", 0)), op.attr("num_total_classes", 0),
               op.attr("num_neg_samples", 10)} {
    if (noise_.classes < 1) op.refuse_attr("num_total_classes", "1 or more");
    if (noise_.negatives < 0) op.refuse_attr("num_neg_samples", "0 or more");
    if (noise_.kind < Noise::uniform || noise_.kind > Noise::custom) op.refuse_attr("sampler", "0, 1 or 2");
    if (noise_.kind != Noise::custom) return;
    probabilities_ = op.input("CustomDistProbs");
    aliases_ = op.input("CustomDistAlias");
    stays_ = op.input("CustomDistAliasProbs");
  }

  Slot x() const noexcept { return x_; }
  Slot weight() const noexcept { return weight_; }
  Slot bias() const noexcept { return bias_; }

  template <class E>
  Noise noise(const OperatorCall<E>& call) const {
    Noise made = noise_;
    if (made.kind != Noise::custom) return made;
    made.probabilities = some_numbers<float>(call, probabilities_, made.classes);
    made.aliases = some_numbers<std::int32_t>(call, aliases_, made.classes);
    made.stays = some_numbers<float>(call, stays_, made.classes);
    for (std::int64_t i = 0; i < made.classes; ++i) {
      // If the class always stays, its alias may be any number.
      if (made.stays[i] < 1 && (made.aliases[i] < 0 || made.aliases[i] >= made.classes)) {
        throw OutOfRange(detail::text({call.name(aliases_), ": class ", static_cast<std::int64_t>(made.aliases[i]),
                                       " at ", i, ", expected 0 to ", made.classes - 1}));
      }
    }
    return made;
  }
  template <class T, class E>
  NoiseContrast<T> read(const OperatorCall<E>& call) const {
    const auto x = call.template view<T>(x_);
    const AnyLoDTensor& labels = call.tensor(label_);
    const std::int64_t rows = x.rows(), own = labels.row_size();
    if (x.shape().size() != 2 || labels.shape().size() > 2 || labels.rows() != rows) {
      throw ShapeMismatch(
          detail::text({call.name(x_), " of shape ", to_string(x.shape()), ", ", call.name(label_), " of shape ",
                        to_string(labels.shape()), ": expected a matrix, and classes for each of its rows"}));
    }
    return {.samples = Shape{rows, own + noise_.negatives},
            .own = own,
            .size = x.row_size(),
            .labels = labels_of(call, label_, rows * own, noise_.classes),
            .x = x.data(),
            .weights = numbers_of<T>(call, weight_, {noise_.classes, x.row_size()}),
            .bias = bias_ ? some_numbers<T>(call, bias_, noise_.classes) : nullptr,
            .row_weights = row_weight_ ? some_numbers<T>(call, row_weight_, rows) : nullptr};
  }

 private:
  Slot x_;
  Slot label_;
  Slot weight_;
  Slot bias_;
  Slot row_weight_;
  Noise noise_;
  Slot probabilities_;
  Slot aliases_;
  Slot stays_;
};

/// nce: the inputs of NoiseContrastArguments -> Cost, SampleLogits?, SampleLabels?; seed = 0: see RandomStreams;
/// custom_neg_classes: classes that are used for each row instead of drawing some. SampleLabels are the classes of each
/// row, its own first; SampleLogits are the sigmoids of their outputs.
template <Executor E>
RunOperator<E> nce(const OperatorArguments& op) {
  op.expect_attr("remote_prefetch", false);
  const NoiseContrastArguments arguments(op);
  const Slot cost = op.output("Cost"), logits = op.optional_output("SampleLogits"),
             classes = op.optional_output("SampleLabels");
  const auto fixed = op.attr("custom_neg_classes", std::vector<std::int64_t>());
  const std::int64_t negatives = op.attr("num_neg_samples", 10), all = op.attr("num_total_classes", 0);
  const bool is_fixed = !fixed.empty();
  for (const std::int64_t one : fixed) {
    if (static_cast<std::int64_t>(fixed.size()) != negatives || one < 0 || one >= all) {
      op.refuse_attr("custom_neg_classes", detail::text({negatives, " numbers of classes under ", all}));
    }
  }
  return [=, streams = RandomStreams(op, "Cost")](OperatorCall<E>& call) mutable {
    const Noise noise = arguments.noise(call);
    call.with_floating(arguments.x(), [&](auto element) {
      using T = typename decltype(element)::type;
      const auto of = arguments.template read<T>(call);
      const std::int64_t samples = of.samples[1], count = of.samples.elements();
      const Workspace::Loan<std::int64_t> chosen(call.executor().workspace(), count);
      const Workspace::Loan<T> sigmoids(call.executor().workspace(), count),
          costs(call.executor().workspace(), of.rows());
      const detail::Philox random = streams.next();
      for (std::int64_t row = 0; row < of.rows(); ++row) {
        double total = 0;
        for (std::int64_t k = 0; k < samples; ++k) {
          const std::int64_t at = row * samples + k;
          const bool is_own = k < of.own;
          const std::int64_t one = is_own     ? of.labels[row * of.own + k]
                                   : is_fixed ? fixed[static_cast<std::size_t>(k - of.own)]
                                              : noise.draw(random, static_cast<std::uint64_t>(at));
          const T *const x = of.x + row * of.size, *const weights = of.weights + one * of.size;
          const double made = std::inner_product(x, x + of.size, weights, of.bias ? double{of.bias[one]} : 0.0);
          const double sigmoid = Sigmoid()(made), expected = noise.expected(one);
          total -= std::log((is_own ? sigmoid : expected) / (sigmoid + expected));
          chosen[at] = one;
          sigmoids[at] = static_cast<T>(sigmoid);
        }
        costs[row] = static_cast<T>(of.row_weights ? double{of.row_weights[row]} * total : total);
      }
      const auto write = [&](const Slot& slot, const auto& from, std::int64_t columns) {
        using Number = std::remove_reference_t<decltype(from[0])>;
        if (!slot) return;
        auto y = call.output_bytes(slot, data_type_v<Number>, LoD(), {columns}, of.rows());
        std::copy_n(from.data(), of.rows() * columns, y.template elements<Number>());
      };
      write(logits, sigmoids, samples);
      write(classes, chosen, samples);
      write(cost, costs, 1);
    });
  };
}

/// nce_grad: the inputs of NoiseContrastArguments, SampleLogits, SampleLabels, Cost@GRAD -> Input@GRAD?, Weight@GRAD?,
/// Bias@GRAD?; is_sparse = false: whether Weight@GRAD is row-sparse, with a row for each sample.
template <Executor E>
RunOperator<E> nce_grad(const OperatorArguments& op) {
  op.expect_attr("remote_prefetch", false);
  const NoiseContrastArguments arguments(op);
  const Slot logits = op.input("SampleLogits"), classes = op.input("SampleLabels"), dy = op.input("Cost@GRAD");
  const Slot dx = op.optional_output("Input@GRAD"), dweight = op.optional_output("Weight@GRAD"),
             dbias = op.optional_output("Bias@GRAD");
  const bool is_sparse = op.attr("is_sparse", false);
  return [=](OperatorCall<E>& call) {
    const Noise noise = arguments.noise(call);
    const AnyLoDTensor rows = call.tensor(arguments.x()), weights = call.tensor(arguments.weight());
    call.with_floating(arguments.x(), [&](auto element) {
      using T = typename decltype(element)::type;
      const auto of = arguments.template read<T>(call);
      const std::int64_t samples = of.samples[1], count = of.samples.elements(), size = of.size;
      const T* const sigmoids = numbers_of<T>(call, logits, of.samples);
      const std::int64_t* const chosen = labels_of(call, classes, count, noise.classes);
      const T* const given = some_numbers<T>(call, dy, of.rows());
      Workspace& workspace = call.executor().workspace();
      const Workspace::Loan<T> slopes(workspace, count);
      for (std::int64_t at = 0; at < count; ++at) {
        const std::int64_t row = at / samples;
        slopes[at] = given[row] * static_cast<T>(of.slope(row, at % samples < of.own, double{sigmoids[at]},
                                                          noise.expected(chosen[at])));
      }
      // Adds a multiple of one row to another.
      const auto add = [size](T slope, const T* from, T* to) {
        std::transform(from, from + size, to, to, [slope](T v, T sum) { return sum + slope * v; });
      };
      if (dweight && is_sparse) {
        const Shape row_shape{size};
        const Workspace::Loan<T> values(workspace, Shape{count, size}.elements());
        std::fill_n(values.data(), count * size, T{0});
        for (std::int64_t at = 0; at < count; ++at)
          add(slopes[at], of.x + at / samples * size, values.data() + at * size);
        const Shape scalar;
        OutputRows<T> to(call.variable(dweight), call.executor().resource());
        embedding_grad_into(
            call.executor(), LoDTensorView<const T>(values.data(), LoDView::plain(0, count), &row_shape, size),
            LoDTensorView<const std::int64_t>(chosen, LoDView::plain(0, count), &scalar, 1), noise.classes, *to);
      } else if (dweight) {
        write_added<T>(call, dweight, weights, [&](T* to) {
          for (std::int64_t at = 0; at < count; ++at)
            add(slopes[at], of.x + at / samples * size, to + chosen[at] * size);
        });
      }
      if (dbias) {
        write_added<T>(call, dbias, AnyLoDTensor(call.tensor(arguments.bias())), [&](T* to) {
          for (std::int64_t at = 0; at < count; ++at) to[chosen[at]] += slopes[at];
        });
      }
      if (dx) {
        write_added<T>(call, dx, rows, [&](T* to) {
          for (std::int64_t at = 0; at < count; ++at)
            add(slopes[at], of.weights + chosen[at] * size, to + at / samples * size);
        });
      }
    });
  };
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs
