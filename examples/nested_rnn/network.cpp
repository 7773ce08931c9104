// SPDX-License-Identifier: Apache-2.0
#include "network.hpp"

#include "blas.hpp"
#include <lod/xtensor.hpp>

#if __has_include(<xtensor/core/xmath.hpp>)  // from xtensor 0.26 on
#  include <xtensor/core/xmath.hpp>
#else
#  include <xtensor/xmath.hpp>
#endif

#include <algorithm>
#include <cmath>
#include <utility>

/// Uniform in +-sqrt(3 / rows), so that a product with it keeps the variance of its rows.
template <class T>
static lod::LoDTensor<T> random_weights(std::int64_t rows, std::int64_t columns, Random& random) {
  lod::LoDTensor<T> weights({rows, columns});
  const double limit = std::sqrt(3.0 / static_cast<double>(rows));
  for (T& weight : weights.values()) weight = static_cast<T>(random.symmetric(limit));
  return weights;
}

template <class T>
static lod::GruWeights<T> random_reader(std::int64_t inputs, std::int64_t hidden, Random& random) {
  return {random_weights<T>(inputs, 3 * hidden, random), random_weights<T>(hidden, 3 * hidden, random),
          lod::LoDTensor<T>({3 * hidden}), lod::LoDTensor<T>({hidden})};
}

template <class T>
Network<T>::Network(const NetworkSizes& sizes, Random& random)
    : word_vectors({sizes.words, sizes.embedding}),
      word_gradient({}, sizes.words, {sizes.embedding}),
      dense{random_reader<T>(sizes.embedding, sizes.hidden, random),
            random_reader<T>(sizes.hidden, sizes.hidden, random),
            random_weights<T>(sizes.hidden, sizes.documents, random), lod::LoDTensor<T>({1, sizes.documents})},
      dense_gradient(dense) {
  for (T& weight : word_vectors.values()) weight = static_cast<T>(random.symmetric(0.5));
}

template <class T>
lod::LoDTensor<T> Network<T>::score(const lod::LoDTensor<T>& sections) const {
  lod::LoDTensor<T> scores({sections.rows(), dense.output.row_size()});
  multiply(sections, dense.output, scores);
  lod::as_xtensor<2>(scores) += lod::as_xtensor<2>(dense.output_bias);
  return scores;
}

template <class T>
lod::LoDTensor<T> Network<T>::forward(const lod::CpuExecutor& executor,
                                      const lod::LoDTensorView<const std::int64_t>& words, Trace& trace) const {
  trace.words = lod::LoDTensor<std::int64_t>::copy_of(words);
  trace.vectors = lod::embedding(executor, word_vectors, words);
  // A sentence is what the reader knew on average, word by word. Each pooling takes one level away.
  auto by_word = lod::gru(executor, trace.vectors, dense.words);
  trace.sentences = lod::sequence_pool(executor, by_word.hidden, lod::PoolType::AVERAGE);
  auto by_sentence = lod::gru(executor, trace.sentences, dense.sentences);
  trace.sections = lod::sequence_pool(executor, by_sentence.hidden, lod::PoolType::AVERAGE);
  trace.word_reader = std::move(by_word.trace);
  trace.sentence_reader = std::move(by_sentence.trace);
  return score(trace.sections);
}

template <class T>
void Network<T>::backward(const lod::CpuExecutor& executor, const lod::LoDTensor<T>& dscores, const Trace& trace) {
  multiply(trace.sections, dscores, dense_gradient.output, {.transpose_a = true});
  lod::as_xtensor<2>(dense_gradient.output_bias) = xt::sum(lod::as_xtensor<2>(dscores), {0}, xt::keep_dims);
  lod::LoDTensor<T> dsections(trace.sections.shape());
  multiply(dscores, dense.output, dsections, {.transpose_b = true});
  auto by_sentence = lod::gru_grad(
      executor, lod::sequence_pool_grad(executor, dsections, trace.sentences.lod(), lod::PoolType::AVERAGE),
      trace.sentences, dense.sentences, trace.sentence_reader);
  auto by_word = lod::gru_grad(
      executor, lod::sequence_pool_grad(executor, by_sentence.x, trace.vectors.lod(), lod::PoolType::AVERAGE),
      trace.vectors, dense.words, trace.word_reader);
  dense_gradient.sentences = std::move(by_sentence.weights);
  dense_gradient.words = std::move(by_word.weights);
  word_gradient = lod::merge_add(executor, lod::embedding_grad(executor, by_word.x, trace.words, word_vectors.rows()));
}

template <class T>
void Network<T>::descend(const lod::CpuExecutor& executor, double learning_rate, double longest) {
  double square = 0;
  const auto add = [&](std::span<const T> gradient) {
    for (T value : gradient) square += static_cast<double>(value) * static_cast<double>(value);
  };
  add(std::as_const(word_gradient).value().values());
  const auto parameters = dense.by_name(), gradients = dense_gradient.by_name();
  for (const auto& [name, gradient] : gradients) add(std::as_const(*gradient).values());
  const double length = std::sqrt(square);
  const double rate = length > longest ? learning_rate * longest / length : learning_rate;
  lod::sgd(executor, word_vectors, word_gradient, rate);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    lod::sgd(executor, *parameters[i].second, *gradients[i].second, rate);
  }
}

template <class T>
lod::LoDTensor<T> Network<T>::forward_padded(const lod::CpuExecutor& executor,
                                             const lod::LoDTensorView<const std::int64_t>& words,
                                             std::int64_t& rows) const {
  // The average of the states of each block but those of the padding.
  const auto average = [&](const lod::LoDTensor<T>& states, const lod::LoDTensor<std::int64_t>& lengths) {
    const auto blocks =
        lod::LoDTensor<T>::from_values({}, {states.rows() / lengths.rows(), states.row_size()}, states.values());
    return lod::sequence_pool(executor, lod::sequence_unpad(executor, blocks, lengths), lod::PoolType::AVERAGE);
  };
  // The blocks of a padded tensor as sequences that all have the greatest length.
  const auto blocks = [](std::int64_t count, std::int64_t longest) {
    return lod::LoD::from_lengths({std::vector<std::int64_t>(static_cast<std::size_t>(count), longest)});
  };
  const lod::LoD sentence_lod = words.lod().levels_above(words.levels() - 1);

  const auto padded_words = lod::sequence_pad(executor, words, {.level = -1});
  const std::int64_t longest_sentence = padded_words.dense.row_size();
  const auto ids = lod::LoDTensor<std::int64_t>::from_values(blocks(padded_words.dense.rows(), longest_sentence), {},
                                                             padded_words.dense.values());
  rows += ids.rows();
  const auto by_word = lod::gru(executor, lod::embedding(executor, word_vectors, ids), dense.words);
  const auto sentences = average(by_word.hidden, padded_words.lengths).with_lod(sentence_lod);

  const auto padded_sentences = lod::sequence_pad(executor, sentences);
  const std::int64_t longest_section = padded_sentences.dense.row_shape()[0];
  const auto vectors = lod::LoDTensor<T>::from_values(blocks(padded_sentences.dense.rows(), longest_section),
                                                      sentences.row_shape(), padded_sentences.dense.values());
  rows += vectors.rows();
  return score(average(lod::gru(executor, vectors, dense.sentences).hidden, padded_sentences.lengths));
}

template <class T>
std::vector<std::pair<const char*, lod::LoDTensor<T>*>> Network<T>::parameters() {
  std::vector<std::pair<const char*, lod::LoDTensor<T>*>> all = {{"word_vectors", &word_vectors}};
  const auto others = dense.by_name();
  all.insert(all.end(), others.begin(), others.end());
  return all;
}

template <class T>
double cross_entropy(const lod::CpuExecutor& executor, const lod::LoDTensor<T>& scores,
                     std::span<const std::int64_t> documents, std::int64_t batch, lod::LoDTensor<T>& dscores,
                     std::int64_t& right) {
  // Each row of scores is a sequence of scalar rows, of which sequence_softmax makes probabilities.
  const std::int64_t count = scores.row_size();
  const auto probabilities = lod::sequence_softmax(
      executor, lod::LoDTensor<T>::from_values(
                    lod::LoD::from_lengths({std::vector<std::int64_t>(static_cast<std::size_t>(scores.rows()), count)}),
                    {}, scores.values()));
  dscores = lod::LoDTensor<T>(scores.shape());
  double loss = 0;
  for (std::int64_t i = 0; i < scores.rows(); ++i) {
    const std::span<const T> p = probabilities[i].values();
    const auto document = static_cast<std::size_t>(documents[static_cast<std::size_t>(i)]);
    loss -= std::log(std::max(static_cast<double>(p[document]), 1e-30));
    right += std::ranges::max_element(p) - p.begin() == static_cast<std::ptrdiff_t>(document);
    for (std::size_t j = 0; j < p.size(); ++j) {
      dscores.row(i)[j] = (p[j] - (j == document ? T{1} : T{0})) / static_cast<T>(batch);
    }
  }
  return loss / static_cast<double>(batch);
}

template class Network<float>;
template class Network<double>;
template double cross_entropy(const lod::CpuExecutor&, const lod::LoDTensor<float>&, std::span<const std::int64_t>,
                              std::int64_t, lod::LoDTensor<float>&, std::int64_t&);
template double cross_entropy(const lod::CpuExecutor&, const lod::LoDTensor<double>&, std::span<const std::int64_t>,
                              std::int64_t, lod::LoDTensor<double>&, std::int64_t&);
