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

template <class T>
Network<T>::Network(const NetworkSizes& sizes, Random& random)
    : word_vectors({sizes.words, sizes.embedding}),
      word_gradient({}, sizes.words, {sizes.embedding}),
      word_reader(sizes.embedding, sizes.hidden, random),
      sentence_reader(sizes.hidden, sizes.hidden, random),
      output(sizes.hidden, sizes.documents, random),
      output_bias(1, sizes.documents) {
  for (T& weight : word_vectors.values()) weight = static_cast<T>(random.symmetric(0.5));
}

template <class T>
lod::LoDTensor<T> Network<T>::score(const lod::LoDTensor<T>& sections) const {
  lod::LoDTensor<T> scores({sections.rows(), output_bias.value.row_size()});
  multiply(sections, output.value, scores);
  lod::as_xtensor<2>(scores) += lod::as_xtensor<2>(output_bias.value);
  return scores;
}

template <class T>
lod::LoDTensor<T> Network<T>::forward(const lod::CpuExecutor& executor,
                                      const lod::LoDTensorView<const std::int64_t>& words, Trace& trace) const {
  trace.words = lod::LoDTensor<std::int64_t>::copy_of(words);
  const auto vectors = lod::embedding(executor, word_vectors, words);
  trace.word_lod = vectors.lod();
  // A sentence is what the reader knew on average, word by word. Each pooling takes one level away.
  const auto sentences =
      lod::sequence_pool(executor, word_reader.forward(executor, vectors, trace.word_states), lod::PoolType::AVERAGE);
  trace.sentence_lod = sentences.lod();
  trace.sections = lod::sequence_pool(executor, sentence_reader.forward(executor, sentences, trace.sentence_states),
                                      lod::PoolType::AVERAGE);
  return score(trace.sections);
}

template <class T>
void Network<T>::backward(const lod::CpuExecutor& executor, const lod::LoDTensor<T>& dscores, const Trace& trace) {
  multiply(trace.sections, dscores, output.gradient, {.transpose_a = true, .accumulate = true});
  lod::as_xtensor<2>(output_bias.gradient) += xt::sum(lod::as_xtensor<2>(dscores), {0}, xt::keep_dims);
  lod::LoDTensor<T> dsections(trace.sections.shape());
  multiply(dscores, output.value, dsections, {.transpose_b = true});
  const auto dsentences = sentence_reader.backward(
      executor, lod::sequence_pool_grad(executor, dsections, trace.sentence_lod, lod::PoolType::AVERAGE),
      trace.sentence_states);
  const auto dwords = word_reader.backward(
      executor, lod::sequence_pool_grad(executor, dsentences, trace.word_lod, lod::PoolType::AVERAGE),
      trace.word_states);
  const auto more = lod::embedding_grad(executor, dwords, trace.words, word_vectors.rows());
  word_gradient = lod::merge_add(executor, word_gradient, more);
}

template <class T>
void Network<T>::descend(const lod::CpuExecutor& executor, double learning_rate, double longest) {
  double square = 0;
  const auto add = [&](std::span<const T> gradient) {
    for (T value : gradient) square += static_cast<double>(value) * static_cast<double>(value);
  };
  add(std::as_const(word_gradient).value().values());
  for (Parameter<T>* parameter : dense_parameters()) add(std::as_const(parameter->gradient).values());
  const double length = std::sqrt(square);
  const double rate = length > longest ? learning_rate * longest / length : learning_rate;
  lod::sgd(executor, word_vectors, word_gradient, rate);
  word_gradient = lod::SelectedRows<T>({}, word_vectors.rows(), word_vectors.row_shape());
  for (Parameter<T>* parameter : dense_parameters()) {
    lod::sgd(executor, parameter->value, parameter->gradient, rate);
    std::ranges::fill(parameter->gradient.values(), T{});
  }
}

template <class T>
lod::LoDTensor<T> Network<T>::forward_padded(const lod::CpuExecutor& executor,
                                             const lod::LoDTensorView<const std::int64_t>& words,
                                             std::int64_t& rows) const {
  // The average of the states of each block but those of the padding.
  const auto average = [&](const lod::LoDTensor<T>& states, const lod::LoDTensor<std::int64_t>& lengths) {
    const auto dense =
        lod::LoDTensor<T>::from_values({}, {states.rows() / lengths.rows(), states.row_size()}, states.values());
    return lod::sequence_pool(executor, lod::sequence_unpad(executor, dense, lengths), lod::PoolType::AVERAGE);
  };
  // The blocks of a padded tensor as sequences that all have the greatest length.
  const auto blocks = [](std::int64_t count, std::int64_t longest) {
    return lod::LoD::from_lengths({std::vector<std::int64_t>(static_cast<std::size_t>(count), longest)});
  };
  typename Gru<T>::Trace trace;
  const lod::LoD sentence_lod = words.lod().levels_above(words.levels() - 1);

  const auto padded_words = lod::sequence_pad(executor, words, {.level = -1});
  const std::int64_t longest_sentence = padded_words.dense.row_size();
  const auto ids = lod::LoDTensor<std::int64_t>::from_values(blocks(padded_words.dense.rows(), longest_sentence), {},
                                                             padded_words.dense.values());
  rows += ids.rows();
  const auto sentences =
      average(word_reader.forward(executor, lod::embedding(executor, word_vectors, ids), trace), padded_words.lengths)
          .with_lod(sentence_lod);

  const auto padded_sentences = lod::sequence_pad(executor, sentences);
  const std::int64_t longest_section = padded_sentences.dense.row_shape()[0];
  const auto vectors = lod::LoDTensor<T>::from_values(blocks(padded_sentences.dense.rows(), longest_section),
                                                      sentences.row_shape(), padded_sentences.dense.values());
  rows += vectors.rows();
  return score(average(sentence_reader.forward(executor, vectors, trace), padded_sentences.lengths));
}

template <class T>
std::vector<Parameter<T>*> Network<T>::dense_parameters() {
  return {&word_reader.input,         &word_reader.recurrent, &word_reader.bias, &sentence_reader.input,
          &sentence_reader.recurrent, &sentence_reader.bias,  &output,           &output_bias};
}

template <class T>
std::vector<std::pair<const char*, lod::LoDTensor<T>*>> Network<T>::parameters() {
  constexpr const char* names[] = {"words.input",         "words.recurrent", "words.bias", "sentences.input",
                                   "sentences.recurrent", "sentences.bias",  "output",     "output.bias"};
  std::vector<std::pair<const char*, lod::LoDTensor<T>*>> all = {{"word_vectors", &word_vectors}};
  const auto dense = dense_parameters();
  for (std::size_t i = 0; i < dense.size(); ++i) all.emplace_back(names[i], &dense[i]->value);
  return all;
}

template <class T>
double cross_entropy(const lod::CpuExecutor& executor, const lod::LoDTensor<T>& scores,
                     std::span<const std::int64_t> documents, lod::LoDTensor<T>& dscores, std::int64_t& right) {
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
      dscores.row(i)[j] = (p[j] - (j == document ? T{1} : T{0})) / static_cast<T>(scores.rows());
    }
  }
  return loss / static_cast<double>(std::max<std::int64_t>(scores.rows(), 1));
}

template class Network<float>;
template class Network<double>;
template double cross_entropy(const lod::CpuExecutor&, const lod::LoDTensor<float>&, std::span<const std::int64_t>,
                              lod::LoDTensor<float>&, std::int64_t&);
template double cross_entropy(const lod::CpuExecutor&, const lod::LoDTensor<double>&, std::span<const std::int64_t>,
                              lod::LoDTensor<double>&, std::int64_t&);
