// SPDX-License-Identifier: Apache-2.0
/// @file
/// A tagger of words: an LSTM in each direction, and a conditional random field over what both say of a word. All
/// sentences of a batch go through it together, and none is padded.
#pragma once

#include "../training/random.hpp"
#include <lod/lod.hpp>

#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

struct Sizes {
  std::int64_t words;
  std::int64_t tags;
  std::int64_t width = 48;   ///< numbers of a word's vector
  std::int64_t hidden = 64;  ///< numbers of a state of each LSTM
};

template <class T>
class Tagger {
 public:
  using Tensor = lod::LoDTensor<T>;
  using Ids = lod::LoDTensor<std::int64_t>;

  Tagger(const Sizes& sizes, Random& random)
      : words_(weights({sizes.words, sizes.width}, 0.5, random)),
        word_mean_(words_.shape()),
        word_squares_(words_.shape()) {
    for (Direction& direction : directions_) {
      const double limit = 1 / std::sqrt(static_cast<double>(sizes.hidden));
      direction.lstm.input = weights({sizes.width, 4 * sizes.hidden}, limit, random);
      direction.lstm.recurrent = weights({sizes.hidden, 4 * sizes.hidden}, limit, random);
      direction.lstm.bias = Tensor({4 * sizes.hidden});
      direction.output = weights({sizes.hidden, sizes.tags}, limit, random);
    }
    directions_[1].reverse = true;
    bias_ = Tensor({1, sizes.tags});
    transition_ = Tensor({sizes.tags + 2, sizes.tags});
    for (const auto& [name, parameter, gradient] : parameters()) {
      states_.push_back({Tensor(parameter->shape()), Tensor(parameter->shape())});
    }
  }

  /// The best tag of each word: those that go together best.
  Ids tags(const lod::CpuExecutor& executor, const Ids& words) {
    return lod::crf_decoding(executor, emission(executor, words), transition_);
  }
  /// The mean over sentences of the negative log-likelihood of their tags.
  double loss(const lod::CpuExecutor& executor, const Ids& words, const Ids& labels) {
    const Tensor likelihoods = lod::linear_chain_crf(executor, emission(executor, words), transition_, labels);
    double sum = 0;
    for (const T likelihood : likelihoods.values()) sum -= static_cast<double>(likelihood);
    return sum / static_cast<double>(std::max<std::int64_t>(words.size(), 1));
  }
  /// The same, with the gradients of all parameters.
  double learn(const lod::CpuExecutor& executor, const Ids& words, const Ids& labels) {
    const double result = loss(executor, words, labels);
    Tensor dlikelihoods({words.size()});
    dlikelihoods.fill(static_cast<T>(-1.0 / static_cast<double>(std::max<std::int64_t>(words.size(), 1))));
    lod::linear_chain_crf_grad_into(executor, dlikelihoods, emission_, transition_, labels, demission_, dtransition_);
    for (Direction& d : directions_) {
      lod::linear_grad_into(executor, demission_, d.result.hidden, d.output, d.dhidden, d.doutput, dbias_);
      d.gradient = lod::lstm_grad(executor, d.dhidden, vectors_, d.lstm, d.result.trace);
    }
    lod::add_into(executor, directions_[0].gradient.x, directions_[1].gradient.x, dvectors_);
    word_gradient_ = lod::embedding_grad(executor, dvectors_, words, words_.rows());
    return result;
  }
  /// Update number `step`, from 1 on: of the words' vectors only those of words that were there.
  void update(const lod::CpuExecutor& executor, double learning_rate, std::int64_t step) {
    const lod::AdamOptions options{.learning_rate = learning_rate, .step = step};
    lod::AdamOptions of_words = options;
    of_words.mode = lod::Sparse::LAZY;
    lod::adam(executor, words_, word_mean_, word_squares_, word_gradient_, of_words);
    std::size_t i = 0;
    for (const auto& [name, parameter, gradient] : parameters()) {
      lod::adam(executor, *parameter, states_[i].mean, states_[i].squares, *gradient, options);
      ++i;
    }
  }

  struct Parameter {
    std::string name;
    Tensor* value;
    const Tensor* gradient;
  };
  /// All but the words' vectors.
  std::vector<Parameter> parameters() {
    std::vector<Parameter> all;
    for (Direction& d : directions_) {
      const std::string name = d.reverse ? "backward." : "forward.";
      all.push_back({name + "input", &d.lstm.input, &d.gradient.weights.input});
      all.push_back({name + "recurrent", &d.lstm.recurrent, &d.gradient.weights.recurrent});
      all.push_back({name + "bias", &d.lstm.bias, &d.gradient.weights.bias});
      all.push_back({name + "output", &d.output, &d.doutput});
    }
    all.push_back({"bias", &bias_, &dbias_});
    all.push_back({"transition", &transition_, &dtransition_});
    return all;
  }
  Tensor& words() { return words_; }
  Tensor word_gradient(const lod::CpuExecutor& executor) const { return lod::to_dense(executor, word_gradient_); }

 private:
  /// An LSTM, and what its states say of the tags.
  struct Direction {
    bool reverse = false;
    lod::LstmWeights<T> lstm;
    Tensor output;
    lod::Lstm<T> result;
    lod::LstmGrad<T> gradient;
    Tensor doutput, dhidden;
  };

  static Tensor weights(const lod::Shape& shape, double limit, Random& random) {
    Tensor all(shape);
    for (T& number : all.values()) number = static_cast<T>(random.symmetric(limit));
    return all;
  }
  const Tensor& emission(const lod::CpuExecutor& executor, const Ids& words) {
    lod::embedding_into(executor, words_, words, vectors_);
    Tensor parts[2];
    for (int i = 0; i < 2; ++i) {
      Direction& d = directions_[i];
      d.result = lod::lstm(executor, vectors_, d.lstm, {.reverse = d.reverse});
      lod::linear_into(executor, d.result.hidden, d.output, parts[i]);
    }
    lod::add_into(executor, parts[0], parts[1], parts[0]);
    lod::add_into(executor, parts[0], bias_, emission_);
    return emission_;
  }

  Direction directions_[2];
  Tensor words_, word_mean_, word_squares_, bias_, transition_;
  lod::SelectedRows<T> word_gradient_;
  Tensor vectors_, emission_, demission_, dvectors_, dbias_, dtransition_;
  struct States {
    Tensor mean, squares;
  };
  std::vector<States> states_;  ///< Adam's, as `parameters` lists them
};
