// SPDX-License-Identifier: Apache-2.0
/// @file
/// A small causal transformer over documents of any lengths: rows are characters, and no row is padding.
#pragma once

#include "../training/random.hpp"
#include <lod/lod.hpp>

#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

struct Sizes {
  std::int64_t characters;
  std::int64_t width = 128;  ///< numbers a row
  std::int64_t heads = 4;
  std::int64_t hidden = 384;  ///< numbers a row between the two products that follow attention
  int layers = 2;
};

/// A parameter, its gradient, and what Adam remembers of it.
template <class T>
struct Parameter {
  std::string name;
  lod::LoDTensor<T> value, gradient, mean, squares;

  Parameter(std::string called, const lod::Shape& shape, double limit, Random& random)
      : name(std::move(called)), value(shape), gradient(shape), mean(shape), squares(shape) {
    for (T& number : value.values()) number = static_cast<T>(random.symmetric(limit));
  }
  /// A factor for each number of a row, 1 at first.
  Parameter(std::string called, std::int64_t size)
      : name(std::move(called)), value({1, size}), gradient({1, size}), mean({1, size}), squares({1, size}) {
    value.fill(T(1));
  }
};

/// Negative numbers become 0, others their squares.
struct SquaredReLU {
  std::int64_t size;
  template <class T>
  void operator()(const T* x, T* y) const {
    for (std::int64_t i = 0; i < size; ++i) y[i] = x[i] > 0 ? x[i] * x[i] : T(0);
  }
};
/// Its derivative.
struct SquaredReLUSlope {
  std::int64_t size;
  template <class T>
  void operator()(const T* x, T* y) const {
    for (std::int64_t i = 0; i < size; ++i) y[i] = x[i] > 0 ? 2 * x[i] : T(0);
  }
};

template <class T>
class Transformer {
 public:
  using Tensor = lod::LoDTensor<T>;
  using Ids = lod::LoDTensor<std::int64_t>;

  Transformer(const Sizes& sizes, Random& random)
      : sizes_(sizes),
        characters_(matrix("characters", sizes.characters, sizes.width, random, 1)),
        last_scale_("last_scale", sizes.width),
        output_(matrix("output", sizes.width, sizes.characters, random)) {
    for (int i = 0; i < sizes.layers; ++i) layers_.emplace_back("layer" + std::to_string(i) + ".", sizes, random);
  }

  /// A row for each character: the scores of the characters that may follow it. What `loss` needs again is kept.
  const Tensor& scores(const lod::CpuExecutor& executor, const Ids& ids) {
    lod::embedding_into(executor, characters_.value, ids, first_);
    const Tensor* x = &first_;
    for (Layer& layer : layers_) x = &layer.forward(executor, sizes_, *x);
    lod::rms_norm_into(executor, *x, {.scale = last_scale_.value}, normal_);
    lod::linear_into(executor, normal_, output_.value, scores_);
    return scores_;
  }

  /// The mean loss of the characters that follow, of which `ignored` do not count; sets the gradients of the
  /// parameters.
  static constexpr std::int64_t ignored = -100;
  double loss(const lod::CpuExecutor& executor, const Ids& ids, const Ids& following) {
    scores(executor, ids);
    const lod::CrossEntropyOptions options{.ignore_index = ignored, .reduction = lod::Reduction::ROWS};
    const Tensor mean = lod::cross_entropy(executor, scores_, following, options);
    Tensor one({1});
    one.fill(T(1));
    lod::cross_entropy_grad_into(executor, one, scores_, following, options, dscores_);
    lod::linear_grad_into(executor, dscores_, normal_, output_.value, dnormal_, output_.gradient, dbias_);
    const Tensor& last = layers_.empty() ? first_ : layers_.back().y;
    lod::rms_norm_grad_into(executor, dnormal_, last, {.scale = last_scale_.value}, dx_, last_scale_.gradient);
    const Tensor* dx = &dx_;
    for (std::size_t i = layers_.size(); i-- > 0;) {
      dx = &layers_[i].backward(executor, sizes_, i == 0 ? first_ : layers_[i - 1].y, *dx);
    }
    characters_.gradient = lod::to_dense(executor, lod::embedding_grad(executor, *dx, ids, sizes_.characters));
    return static_cast<double>(mean.values()[0]);
  }
  /// The same without gradients.
  double loss_alone(const lod::CpuExecutor& executor, const Ids& ids, const Ids& following) {
    return static_cast<double>(lod::cross_entropy(executor, scores(executor, ids), following,
                                                  {.ignore_index = ignored, .reduction = lod::Reduction::ROWS})
                                   .values()[0]);
  }

  std::vector<Parameter<T>*> parameters() {
    std::vector<Parameter<T>*> all = {&characters_};
    for (Layer& layer : layers_) {
      for (Parameter<T>* parameter : layer.parameters()) all.push_back(parameter);
    }
    all.push_back(&last_scale_);
    all.push_back(&output_);
    return all;
  }
  /// Update number `step`, from 1 on.
  void update(const lod::CpuExecutor& executor, double learning_rate, std::int64_t step) {
    for (Parameter<T>* p : parameters()) {
      lod::adam(executor, p->value, p->mean, p->squares, p->gradient,
                {.learning_rate = learning_rate, .beta2 = 0.99, .step = step});
    }
  }

 private:
  static Parameter<T> matrix(const std::string& name, std::int64_t rows, std::int64_t columns, Random& random,
                             double gain = 0) {
    return {name, {rows, columns}, gain > 0 ? gain : std::sqrt(3.0 / static_cast<double>(rows)), random};
  }

  /// x + attention of x, plus products of that. Both begin with a norm.
  struct Layer {
    Layer(const std::string& name, const Sizes& sizes, Random& random)
        : first_scale(name + "first_scale", sizes.width),
          query(matrix(name + "query", sizes.width, sizes.width, random)),
          key(matrix(name + "key", sizes.width, sizes.width, random)),
          value(matrix(name + "value", sizes.width, sizes.width, random)),
          mixed(matrix(name + "mixed", sizes.width, sizes.width, random)),
          second_scale(name + "second_scale", sizes.width),
          wide(matrix(name + "wide", sizes.width, sizes.hidden, random)),
          narrow(matrix(name + "narrow", sizes.hidden, sizes.width, random)) {}

    const Tensor& forward(const lod::CpuExecutor& executor, const Sizes& sizes, const Tensor& x) {
      lod::rms_norm_into(executor, x, {.scale = first_scale.value}, normal);
      lod::linear_into(executor, normal, query.value, q);
      lod::linear_into(executor, normal, key.value, k);
      lod::linear_into(executor, normal, value.value, v);
      lod::rotary_embedding_into(executor, q, {.heads = sizes.heads}, q);
      lod::rotary_embedding_into(executor, k, {.heads = sizes.heads}, k);
      lod::sequence_attention_into(executor, q, k, v, attention(sizes), seen, logsumexp);
      lod::linear_into(executor, seen, mixed.value, between);
      lod::add_into(executor, x, between, between);
      lod::rms_norm_into(executor, between, {.scale = second_scale.value}, second_normal);
      lod::linear_into(executor, second_normal, wide.value, hidden);
      lod::map_rows_into(executor, hidden, {sizes.hidden}, SquaredReLU{sizes.hidden}, active);
      lod::linear_into(executor, active, narrow.value, y);
      lod::add_into(executor, between, y, y);
      return y;
    }
    const Tensor& backward(const lod::CpuExecutor& executor, const Sizes& sizes, const Tensor& x, const Tensor& dy) {
      lod::linear_grad_into(executor, dy, active, narrow.value, dactive, narrow.gradient, dbias);
      lod::map_rows_into(executor, hidden, {sizes.hidden}, SquaredReLUSlope{sizes.hidden}, active);
      lod::mul_into(executor, dactive, active, dactive);
      lod::linear_grad_into(executor, dactive, second_normal, wide.value, dnormal, wide.gradient, dbias);
      lod::rms_norm_grad_into(executor, dnormal, between, {.scale = second_scale.value}, dbetween,
                              second_scale.gradient);
      lod::add_into(executor, dbetween, dy, dbetween);
      lod::linear_grad_into(executor, dbetween, seen, mixed.value, dseen, mixed.gradient, dbias);
      lod::sequence_attention_grad_into(executor, dseen, q, k, v, seen, logsumexp, attention(sizes), dq, dk, dv);
      lod::rotary_embedding_grad_into(executor, dq, {.heads = sizes.heads}, dq);
      lod::rotary_embedding_grad_into(executor, dk, {.heads = sizes.heads}, dk);
      lod::linear_grad_into(executor, dq, normal, query.value, dnormal, query.gradient, dbias);
      lod::linear_grad_into(executor, dk, normal, key.value, dseen, key.gradient, dbias);
      lod::add_into(executor, dnormal, dseen, dnormal);
      lod::linear_grad_into(executor, dv, normal, value.value, dseen, value.gradient, dbias);
      lod::add_into(executor, dnormal, dseen, dnormal);
      lod::rms_norm_grad_into(executor, dnormal, x, {.scale = first_scale.value}, dx, first_scale.gradient);
      lod::add_into(executor, dx, dbetween, dx);
      return dx;
    }
    static lod::AttentionOptions<T> attention(const Sizes& sizes) { return {.heads = sizes.heads, .causal = true}; }
    std::vector<Parameter<T>*> parameters() {
      return {&first_scale, &query, &key, &value, &mixed, &second_scale, &wide, &narrow};
    }

    Parameter<T> first_scale, query, key, value, mixed, second_scale, wide, narrow;
    Tensor normal, q, k, v, seen, between, second_normal, hidden, active, y;
    lod::LoDTensor<T> logsumexp;
    Tensor dactive, dnormal, dbetween, dseen, dq, dk, dv, dx, dbias;
  };

  Sizes sizes_;
  Parameter<T> characters_;
  std::vector<Layer> layers_;
  Parameter<T> last_scale_, output_;
  Tensor first_, normal_, scores_, dscores_, dnormal_, dx_, dbias_;
};
