// SPDX-License-Identifier: Apache-2.0
/// @file
/// The nested recurrent network: words become sentence vectors, sentence vectors section vectors, and those a guess of
/// the document that a section is from.
#pragma once

#include "../training/random.hpp"
#include <lod/lod.hpp>

#include <array>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

struct NetworkSizes {
  std::int64_t words;      ///< in the lexicon
  std::int64_t embedding;  ///< numbers for a word
  std::int64_t hidden;     ///< numbers for a sentence, and for a section
  std::int64_t documents;  ///< to choose from
};

/// All that is learned but the word vectors; also its gradient.
template <class T>
struct DenseParameters {
  lod::GruWeights<T> words;      ///< read a sentence word by word
  lod::GruWeights<T> sentences;  ///< read a section sentence by sentence
  lod::LoDTensor<T> output;      ///< {hidden, documents}
  lod::LoDTensor<T> output_bias;

  std::array<std::pair<const char*, lod::LoDTensor<T>*>, 10> by_name() {
    return {{{"words.input", &words.input},
             {"words.recurrent", &words.recurrent},
             {"words.bias", &words.bias},
             {"words.recurrent_bias", &words.recurrent_bias},
             {"sentences.input", &sentences.input},
             {"sentences.recurrent", &sentences.recurrent},
             {"sentences.bias", &sentences.bias},
             {"sentences.recurrent_bias", &sentences.recurrent_bias},
             {"output", &output},
             {"output.bias", &output_bias}}};
  }
};

template <class T>
class Network {
 public:
  Network(const NetworkSizes& sizes, Random& random);

  /// What the backward pass needs.
  struct Trace {
    lod::LoDTensor<std::int64_t> words;
    lod::LoDTensor<T> vectors, sentences, sections;
    lod::GruTrace<T> word_reader, sentence_reader;
  };

  /// A score for each document: one row for each section of `words`, which has the levels section > sentence > words.
  lod::LoDTensor<T> forward(const lod::CpuExecutor& executor, const lod::LoDTensorView<const std::int64_t>& words,
                            Trace& trace) const;
  /// The same scores with every sentence padded to the longest of the batch, and every section likewise: what must be
  /// done where there is no LoD. Adds the rows that went through a recurrent cell to `rows`.
  lod::LoDTensor<T> forward_padded(const lod::CpuExecutor& executor,
                                   const lod::LoDTensorView<const std::int64_t>& words, std::int64_t& rows) const;
  /// The gradients by all parameters; that by the word vectors is row-sparse.
  void backward(const lod::CpuExecutor& executor, const lod::LoDTensor<T>& dscores, const Trace& trace);
  /// One step down the gradients, shortened to `longest` where they are longer together.
  void descend(const lod::CpuExecutor& executor, double learning_rate, double longest);

  /// All that is learned, by name: the word vectors first.
  std::vector<std::pair<const char*, lod::LoDTensor<T>*>> parameters();

  lod::LoDTensor<T> word_vectors;
  lod::SelectedRows<T> word_gradient;
  DenseParameters<T> dense, dense_gradient;

 private:
  lod::LoDTensor<T> score(const lod::LoDTensor<T>& sections) const;
};

/// What these scores add to the mean cross entropy of a batch of `batch` sections against the right documents, and its
/// gradient; adds the sections whose best score is the right one to `right`.
template <class T>
double cross_entropy(const lod::CpuExecutor& executor, const lod::LoDTensor<T>& scores,
                     std::span<const std::int64_t> documents, std::int64_t batch, lod::LoDTensor<T>& dscores,
                     std::int64_t& right);
