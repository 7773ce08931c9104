// SPDX-License-Identifier: Apache-2.0
/// @file
/// The nested recurrent network: words become sentence vectors, sentence vectors section vectors, and those a guess of
/// the document that a section is from.
#pragma once

#include "gru.hpp"
#include "parameter.hpp"
#include "random.hpp"
#include <lod/lod.hpp>

#include <cstdint>
#include <span>
#include <vector>

struct NetworkSizes {
  std::int64_t words;      ///< in the lexicon
  std::int64_t embedding;  ///< numbers for a word
  std::int64_t hidden;     ///< numbers for a sentence, and for a section
  std::int64_t documents;  ///< to choose from
};

template <class T>
class Network {
 public:
  Network(const NetworkSizes& sizes, Random& random);

  /// What the backward pass needs.
  struct Trace {
    lod::LoDTensor<std::int64_t> words;
    typename Gru<T>::Trace word_states, sentence_states;
    lod::LoD word_lod, sentence_lod;
    lod::LoDTensor<T> sections;
  };

  /// A score for each document: one row for each section of `words`, which has the levels section > sentence > words.
  lod::LoDTensor<T> forward(const lod::CpuExecutor& executor, const lod::LoDTensorView<const std::int64_t>& words,
                            Trace& trace) const;
  /// The same scores with every sentence padded to the longest of the batch, and every section likewise: what must be
  /// done where there is no LoD. Adds the rows that went through a recurrent cell to `rows`.
  lod::LoDTensor<T> forward_padded(const lod::CpuExecutor& executor,
                                   const lod::LoDTensorView<const std::int64_t>& words, std::int64_t& rows) const;
  /// Adds up the gradients of all parameters; that of the word vectors is row-sparse.
  void backward(const lod::CpuExecutor& executor, const lod::LoDTensor<T>& dscores, const Trace& trace);
  /// One step down the gradients, shortened to `longest` where they are longer together; then they are zero again.
  void descend(const lod::CpuExecutor& executor, double learning_rate, double longest);

  /// All that is learned, by name: the word vectors first.
  std::vector<std::pair<const char*, lod::LoDTensor<T>*>> parameters();
  /// The gradients that are dense, in the order of `parameters()` behind the word vectors.
  std::vector<Parameter<T>*> dense_parameters();

  lod::LoDTensor<T> word_vectors;
  lod::SelectedRows<T> word_gradient;
  Gru<T> word_reader, sentence_reader;
  Parameter<T> output, output_bias;

 private:
  lod::LoDTensor<T> score(const lod::LoDTensor<T>& sections) const;
};

/// The mean cross entropy of the scores against the right documents, and its gradient; adds the sections whose best
/// score is the right one to `right`.
template <class T>
double cross_entropy(const lod::CpuExecutor& executor, const lod::LoDTensor<T>& scores,
                     std::span<const std::int64_t> documents, lod::LoDTensor<T>& dscores, std::int64_t& right);
