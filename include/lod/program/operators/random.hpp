// SPDX-License-Identifier: Apache-2.0
/// @file
/// Operators that draw random numbers: uniform_random, gaussian_random, truncated_gaussian_random, dropout. The numbers
/// depend only on the operator's attribute `seed` or, if that is 0, on the name of its output and the number of its
/// runs. They are the same on every machine and with any number of threads, but not those that PaddlePaddle draws.
#pragma once

#include <lod/core/any_tensor.hpp>
#include <lod/core/data_type.hpp>
#include <lod/core/executor.hpp>
#include <lod/core/philox.hpp>
#include <lod/core/shape.hpp>
#include <lod/core/target.hpp>
#include <lod/program/operator.hpp>
#include <lod/program/operators/filling.hpp>
#include <lod/program/operators/shapes.hpp>
#include <lod/program/operators/unary.hpp>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs {

/// The random numbers of an operator, run by run.
class RandomStreams {
 public:
  /// For an output with the parameter name `output`.
  RandomStreams(const OperatorArguments& op, const char* output)
      : seed_(static_cast<std::uint32_t>(op.attr("seed", 0))),
        key_(seed_ != 0 ? seed_ : detail::Philox::key_of(op.desc().output(output).front())) {}

  /// The numbers of the next run.
  detail::Philox next() noexcept { return detail::Philox(key_, seed_ != 0 ? 0 : runs_++); }

 private:
  std::uint32_t seed_;
  std::uint64_t key_;
  std::uint64_t runs_ = 0;
};

/// Distributions: each has a function that returns the number at a place of a stream.

/// min = -1, max = 1.
struct Uniform {
  double least, greatest;
  explicit Uniform(const OperatorArguments& op)
      : least(static_cast<double>(op.attr("min", -1.0f))), greatest(static_cast<double>(op.attr("max", 1.0f))) {
    op.expect_attr("diag_num", 0);
  }
  double operator()(const detail::Philox& random, std::uint64_t place) const {
    return least + (greatest - least) * random.uniform(place);
  }
};
/// mean = 0, std = 1; if truncated, within two standard deviations of the mean.
template <bool is_truncated>
struct Gaussian {
  double mean, deviation;
  explicit Gaussian(const OperatorArguments& op)
      : mean(static_cast<double>(op.attr("mean", 0.0f))), deviation(static_cast<double>(op.attr("std", 1.0f))) {}
  double operator()(const detail::Philox& random, std::uint64_t place) const {
    return mean + deviation * (is_truncated ? random.normal(place, 2) : random.normal(place));
  }
};

/// Fills an output of this shape with numbers of a distribution.
template <class E, class Distribution>
void draw_numbers(const OperatorCall<E>& call, const Slot& out, DataType type, const Shape& dims,
                  const Distribution& draw, const detail::Philox& random) {
  const auto fill_with = [&](auto element) {
    using T = typename decltype(element)::type;
    auto y = call.output_bytes(out, type, dims, AnyLoDTensor());
    T* const to = y.template elements<T>();
    for (std::int64_t i = 0; i < dims.elements(); ++i) {
      to[i] = static_cast<T>(draw(random, static_cast<std::uint64_t>(i)));
    }
  };
  type == DataType::FP32 ? fill_with(detail::ElementType<float>()) : fill_with(detail::ElementType<double>());
}

/// uniform_random, gaussian_random and truncated_gaussian_random: -> Out; shape, dtype = FP32 or FP64, seed = 0.
template <class Distribution, Executor E>
RunOperator<E> random_numbers(const OperatorArguments& op) {
  op.expect_no_input("ShapeTensor");
  op.expect_no_input("ShapeTensorList");
  const Slot out = op.output("Out");
  const Shape dims(op.attr("shape", std::vector<std::int64_t>()));
  const DataType type = op.data_type("dtype", DataType::FP32);
  if (type != DataType::FP32 && type != DataType::FP64) op.refuse_attr("dtype", "FP32 or FP64");
  return [=, draw = Distribution(op), streams = RandomStreams(op, "Out")](OperatorCall<E>& call) mutable {
    draw_numbers(call, out, type, dims, draw, streams.next());
  };
}

/// uniform_random_batch_size_like and gaussian_random_batch_size_like: Input -> Out; as uniform_random and
/// gaussian_random, with a dimension of Input's, as in fill_constant_batch_size_like.
template <class Distribution, Executor E>
RunOperator<E> random_numbers_like(const OperatorArguments& op) {
  const Slot out = op.output("Out");
  const DataType type = op.data_type("dtype", DataType::FP32);
  if (type != DataType::FP32 && type != DataType::FP64) op.refuse_attr("dtype", "FP32 or FP64");
  return [=, draw = Distribution(op), like = BatchSizeLike(op), streams = RandomStreams(op, "Out")](
             OperatorCall<E>& call) mutable { draw_numbers(call, out, type, like.shape(call), draw, streams.next()); };
}

/// sampling_id: X, rows of probabilities -> Out: a class for each row, INT64; seed = 0, min = 0, max = 1: the range of
/// the random numbers by which classes are drawn.
template <Executor E>
RunOperator<E> sampling_id(const OperatorArguments& op) {
  const Slot x = op.input("X"), out = op.output("Out");
  const auto least = static_cast<double>(op.attr("min", 0.0f)), greatest = static_cast<double>(op.attr("max", 1.0f));
  return [=, streams = RandomStreams(op, "Out")](OperatorCall<E>& call) mutable {
    const AnyLoDTensor& from = call.tensor(x);
    const std::int64_t classes = from.row_size();
    if (classes == 0) throw ShapeMismatch(detail::text({call.name(x), " without classes, expected one or more"}));
    call.with_floating(x, [&](auto element) {
      using T = typename decltype(element)::type;
      const T* row = call.template view<T>(x).data();
      auto chosen = call.output_bytes(out, DataType::INT64, LoD(), {}, from.rows());
      const detail::Philox random = streams.next();
      for (std::int64_t i = 0; i < from.rows(); ++i, row += classes) {
        double left = least + (greatest - least) * random.uniform(static_cast<std::uint64_t>(i));
        std::int64_t k = 0;
        while (k + 1 < classes && (left -= static_cast<double>(row[k])) >= 0) ++k;
        chosen.template elements<std::int64_t>()[i] = k;
      }
    });
  };
}

/// The scaling of dropout, of the numbers that are kept and, outside training, of all: dropout_prob = 0.5, is_test =
/// false, dropout_implementation = "downgrade_in_infer" or "upscale_in_train", which scales in training.
struct Dropout {
  float probability;
  bool is_test, is_upscaled;

  explicit Dropout(const OperatorArguments& op)
      : probability(op.attr("dropout_prob", 0.5f)),
        is_test(op.attr("is_test", false)),
        is_upscaled(op.attr("dropout_implementation", "downgrade_in_infer") == "upscale_in_train") {
    if (!(probability >= 0 && probability <= 1)) op.refuse_attr("dropout_prob", "0 to 1");
  }
  /// The factor of numbers that are kept.
  float factor() const {
    if (is_test) return is_upscaled ? 1 : 1 - probability;
    return !is_upscaled ? 1 : probability < 1 ? 1 / (1 - probability) : 0;
  }
};

/// dropout: X -> Out, Mask: 1 (UINT8) for each number that is kept, 0 for each that is dropped; attributes as Dropout.
/// Outside training, Mask is not written.
template <Executor E>
RunOperator<E> dropout(const OperatorArguments& op) {
  op.expect_no_input("Seed");
  const Dropout how(op);
  const Slot x = op.input("X"), out = op.output("Out"), mask = how.is_test ? Slot() : op.output("Mask");
  return [=, streams = RandomStreams(op, how.is_test ? "Out" : "Mask")](OperatorCall<E>& call) mutable {
    call.with_floating(x, [&](auto element) {
      using T = typename decltype(element)::type;
      const T factor{how.factor()};
      if (how.is_test) return map_elements<T, T>(call, x, out, [=](T v) { return v * factor; });
      const AnyLoDTensor& from = call.tensor(x);
      const auto values = call.template view<T>(x).values();
      auto stays = call.output_bytes(mask, DataType::UINT8, from.lod(), from.row_shape(), from.rows());
      auto y = call.output_bytes(out, from.data_type(), from.lod(), from.row_shape(), from.rows());
      auto* const kept = stays.template elements<std::uint8_t>();
      T* const to = y.template elements<T>();
      const detail::Philox random = streams.next();
      for (std::size_t i = 0; i < values.size(); ++i) {
        kept[i] = random.uniform(i) >= static_cast<double>(how.probability);
        to[i] = kept[i] ? values[i] * factor : T{0};
      }
    });
  };
}
/// dropout_grad: Mask, Out@GRAD -> X@GRAD; attributes as `dropout`. Outside training there is no Mask.
template <Executor E>
RunOperator<E> dropout_grad(const OperatorArguments& op) {
  const Dropout how(op);
  const Slot dy = op.input("Out@GRAD"), dx = op.output("X@GRAD"), mask = how.is_test ? Slot() : op.input("Mask");
  return [=](OperatorCall<E>& call) {
    call.with_floating(dy, [&](auto element) {
      using T = typename decltype(element)::type;
      const T factor{how.factor()};
      const std::uint8_t* kept = mask ? numbers_of<std::uint8_t>(call, mask, call.tensor(dy).shape()) : nullptr;
      map_elements<T, T>(call, dy, dx, [&](T v) {
        const bool is_kept = !kept || *kept != 0;
        if (kept) ++kept;
        return is_kept ? v * factor : T{0};
      });
    });
  };
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs
