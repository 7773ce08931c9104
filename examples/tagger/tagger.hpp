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
#include <tuple>
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
    const double limit = 1 / std::sqrt(static_cast<double>(sizes.hidden));
    for (lod::LstmWeights<T>* direction : {&layers_[0].forward, &layers_[0].backward}) {
      direction->input = weights({sizes.width, 4 * sizes.hidden}, limit, random);
      direction->recurrent = weights({sizes.hidden, 4 * sizes.hidden}, limit, random);
      direction->bias = Tensor({4 * sizes.hidden});
    }
    output_ = weights({2 * sizes.hidden, sizes.tags}, limit, random);
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
    lod::linear_grad_into(executor, demission_, states_of_words_.hidden, output_, dhidden_, doutput_, dbias_);
    gradient_ = lod::stacked_lstm_grad(executor, dhidden_, vectors_, layers_, states_of_words_.trace);
    word_gradient_ = lod::embedding_grad(executor, gradient_.x, words, words_.rows());
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
    lod::LstmLayer<T>& gradients = gradient_.layers[0];
    for (const auto& [name, weights, dweights] : {std::tuple("forward.", &layers_[0].forward, &gradients.forward),
                                                  {"backward.", &layers_[0].backward, &gradients.backward}}) {
      all.push_back({name + std::string("input"), &weights->input, &dweights->input});
      all.push_back({name + std::string("recurrent"), &weights->recurrent, &dweights->recurrent});
      all.push_back({name + std::string("bias"), &weights->bias, &dweights->bias});
    }
    all.push_back({"output", &output_, &doutput_});
    all.push_back({"bias", &bias_, &dbias_});
    all.push_back({"transition", &transition_, &dtransition_});
    return all;
  }
  Tensor& words() { return words_; }
  Tensor word_gradient(const lod::CpuExecutor& executor) const { return lod::to_dense(executor, word_gradient_); }

 private:
  static Tensor weights(const lod::Shape& shape, double limit, Random& random) {
    Tensor all(shape);
    for (T& number : all.values()) number = static_cast<T>(random.symmetric(limit));
    return all;
  }
  const Tensor& emission(const lod::CpuExecutor& executor, const Ids& words) {
    lod::embedding_into(executor, words_, words, vectors_);
    lod::stacked_lstm_into(executor, vectors_, layers_, states_of_words_.hidden, states_of_words_.last_hidden,
                           states_of_words_.last_cell, states_of_words_.trace);
    lod::linear_into(executor, states_of_words_.hidden, output_, {.bias = bias_}, emission_);
    return emission_;
  }

  lod::LstmLayers<T> layers_ = std::vector<lod::LstmLayer<T>>(1);  ///< one, in both directions
  Tensor words_, word_mean_, word_squares_, output_, bias_, transition_;
  lod::StackedLstm<T> states_of_words_;
  lod::StackedLstmGrad<T> gradient_{{}, std::vector<lod::LstmLayer<T>>(1), {}, {}};
  lod::SelectedRows<T> word_gradient_;
  Tensor vectors_, emission_, demission_, dhidden_, doutput_, dbias_, dtransition_;
  struct States {
    Tensor mean, squares;
  };
  std::vector<States> states_;  ///< Adam's, as `parameters` lists them
};
