// SPDX-License-Identifier: Apache-2.0
/// @file
/// Learns from a few words which text they are from. The embedding of words is shared out over the ranks of an MPI
/// program; a linear layer after it is on all of them. Losses are the same on any number of ranks, to the last bit.
#include "../training/licences.hpp"
#include "../training/random.hpp"
#include <lod/lod.hpp>
#include <lod/mpi.hpp>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

namespace mpi = lod::mpi;
using Ids = lod::LoDTensor<std::int64_t>;
using Tensor = lod::LoDTensor<float>;
using Words = mpi::ShardedTable<float, lod::UniformRow>;

constexpr const char* help = R"(usage: mpirun -n RANKS sharded_table [--epochs N] [--seed N] [file...]
Learns which of the files (by default this system's licence texts) twenty words are from. The vectors of words are in a
table that all ranks share.
)";

constexpr std::int64_t window = 20;         ///< words
constexpr std::int64_t width = 32;          ///< of the vector of a word
constexpr double rate = 0.05;               ///< at which all learns
constexpr std::int64_t windows_a_part = 8;  ///< whose gradient is computed at once
constexpr std::int64_t parts_a_batch = 8;   ///< shared out over the ranks

struct Options {
  int epochs = 6;
  std::uint64_t seed = 1;
  std::vector<std::filesystem::path> files;
};

Options read_options(int count, char** arguments) {
  Options options;
  for (int i = 1; i < count; ++i) {
    const std::string argument = arguments[i];
    const auto number = [&] {
      if (++i == count) throw std::invalid_argument(argument + " needs a number");
      return std::stoi(arguments[i]);
    };
    if (argument == "--epochs") {
      options.epochs = number();
    } else if (argument == "--seed") {
      options.seed = static_cast<std::uint64_t>(number());
    } else if (argument.starts_with("-")) {
      throw std::invalid_argument("unknown option " + argument + "\n" + help);
    } else {
      options.files.emplace_back(argument);
    }
  }
  if (options.files.empty()) options.files = licence_texts();
  if (options.files.size() < 2) throw std::invalid_argument("two texts at least are needed");
  return options;
}

/// The id of a word: a hash (FNV-1a). So no rank needs a list of all words, and the table grows as words turn up.
std::int64_t id_of(const std::string& word) {
  std::uint64_t hash = 0xCBF29CE484222325;
  for (const char letter : word) hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001B3;
  return static_cast<std::int64_t>(hash >> 2);
}

/// Windows of words, and the texts that they are from.
struct Windows {
  std::vector<std::int64_t> ids;  // `window` for each
  std::vector<std::int64_t> labels;

  std::size_t size() const { return labels.size(); }
  /// Some of them: a sequence for each.
  Ids words_of(const std::vector<std::size_t>& which) const {
    std::vector<std::int64_t> found;
    for (const std::size_t i : which) {
      const auto first = ids.begin() + static_cast<std::ptrdiff_t>(i) * window;
      found.insert(found.end(), first, first + window);
    }
    return Ids::from_values(lod::LoD::from_lengths({std::vector<std::int64_t>(which.size(), window)}), {}, found);
  }
  Ids labels_of(const std::vector<std::size_t>& which) const {
    std::vector<std::int64_t> found;
    for (const std::size_t i : which) found.push_back(labels[i]);
    return Ids::from_values({}, {}, found);
  }
};

Windows read_windows(const std::vector<std::filesystem::path>& files) {
  Windows all;
  for (std::size_t label = 0; label < files.size(); ++label) {
    std::ifstream text(files[label]);
    if (!text) throw std::runtime_error("cannot read " + files[label].string());
    std::vector<std::int64_t> ids;
    for (std::string word; text >> word;) {
      std::transform(word.begin(), word.end(), word.begin(),
                     [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
      ids.push_back(id_of(word));
      if (ids.size() < window) continue;
      all.ids.insert(all.ids.end(), ids.begin(), ids.end());
      all.labels.push_back(static_cast<std::int64_t>(label));
      ids.clear();
    }
  }
  return all;
}

/// The linear layer, which every rank has.
struct Layer {
  Tensor weight, bias, weight_squares, bias_squares;

  explicit Layer(std::int64_t classes)
      : weight({width, classes}), bias({1, classes}), weight_squares({width, classes}), bias_squares({1, classes}) {}
  Tensor operator()(const Tensor& x) const { return lod::linear(x, weight, {.bias = bias}); }
};

/// Element [begin, end) of a list.
std::vector<std::size_t> some_of(const std::vector<std::size_t>& list, std::size_t begin, std::size_t end) {
  return {list.begin() + static_cast<std::ptrdiff_t>(begin), list.begin() + static_cast<std::ptrdiff_t>(end)};
}

/// One step by the batch `which`. Returns its loss, on all ranks. The batch is cut into parts, of which each rank has
/// consecutive ones; sums over parts have one order, whichever ranks have them.
float train(const mpi::Communicator& ranks, Words& words, Layer& layer, const Windows& windows,
            const std::vector<std::size_t>& which) {
  const auto part_of = [&](std::int64_t rank) { return parts_a_batch * rank / ranks.size(); };
  const auto first = static_cast<std::size_t>(part_of(ranks.rank()) * windows_a_part);
  const auto end = static_cast<std::size_t>(part_of(ranks.rank() + 1) * windows_a_part);
  const Ids ids = windows.words_of(some_of(which, first, end));
  const Tensor x = words.pool(ids, lod::PoolType::AVERAGE);  // collective: also where this rank has no part

  std::vector<Tensor> losses, dweights, dbiases;
  lod::SelectedRows<float> dwords({}, words.height(), words.row_shape());
  for (std::int64_t begin = 0; begin < ids.size(); begin += windows_a_part) {
    const auto at = first + static_cast<std::size_t>(begin);
    const Ids labels = windows.labels_of(some_of(which, at, at + windows_a_part));
    const Tensor part(x.between(begin, begin + windows_a_part));
    const Tensor logits = layer(part);
    const Tensor each = lod::cross_entropy(logits, labels);
    Tensor loss({1});
    for (const float one : each.values()) loss.values()[0] += one / (windows_a_part * parts_a_batch);
    Tensor dloss({windows_a_part});
    dloss.fill(1.0F / (windows_a_part * parts_a_batch));
    const auto grad = lod::linear_grad(lod::cross_entropy_grad(dloss, logits, labels), part, layer.weight);
    losses.push_back(std::move(loss));
    dweights.push_back(grad.dweight);
    dbiases.push_back(grad.dbias);
    const auto words_of_part = ids.between(begin, begin + windows_a_part);
    dwords = lod::add(dwords, words.pool_gradient(grad.dx, words_of_part, lod::PoolType::AVERAGE));
  }
  words.adagrad(dwords, {.learning_rate = rate});
  const mpi::AllReduceOptions one_tree{.fixed_tree = true};
  lod::adagrad(layer.weight, layer.weight_squares, mpi::all_reduce(ranks, dweights, one_tree), {.learning_rate = rate});
  lod::adagrad(layer.bias, layer.bias_squares, mpi::all_reduce(ranks, dbiases, one_tree), {.learning_rate = rate});
  return mpi::all_reduce(ranks, losses, one_tree).values()[0];
}

/// The part of some windows whose text is found, on all ranks, each of which looks at its share.
double accuracy(const mpi::Communicator& ranks, Words& words, const Layer& layer, const Windows& windows,
                const std::vector<std::size_t>& which) {
  const auto size = static_cast<std::size_t>(ranks.size()), rank = static_cast<std::size_t>(ranks.rank());
  const auto own = some_of(which, which.size() * rank / size, which.size() * (rank + 1) / size);
  // Words that are not known are not added.
  const Tensor logits = layer(words.pool(windows.words_of(own), lod::PoolType::AVERAGE, {}, {.grow = false}));
  lod::LoDTensor<std::int64_t> right({1});
  for (std::size_t i = 0; i < own.size(); ++i) {
    const auto row = logits.row(static_cast<std::int64_t>(i));
    const auto best = std::max_element(row.begin(), row.end()) - row.begin();
    right.values()[0] += best == windows.labels[own[i]] ? 1 : 0;
  }
  return static_cast<double>(mpi::all_reduce(ranks, right).values()[0]) / static_cast<double>(which.size());
}

void run(const mpi::Communicator& ranks, const Options& options) {
  const bool prints = ranks.rank() == 0;
  Windows windows;
  mpi::together(ranks, [&] { windows = read_windows(options.files); });
  // All ranks draw the same numbers: they agree on batches without a message.
  Random random(options.seed);
  std::vector<std::size_t> training(windows.size());
  std::iota(training.begin(), training.end(), 0);
  random.shuffle(training);
  const auto held_out = some_of(training, training.size() * 9 / 10, training.size());
  training.resize(training.size() * 9 / 10);
  constexpr auto batch = static_cast<std::size_t>(windows_a_part * parts_a_batch);
  if (training.size() < batch) throw std::invalid_argument("the texts are too short");
  if (prints) std::printf("%zu windows from %zu texts, %d ranks\n", windows.size(), options.files.size(), ranks.size());

  Words words(ranks, {width}, {.fixed_order = true}, {.seed = options.seed, .limit = 0.1});
  Layer layer(static_cast<std::int64_t>(options.files.size()));
  const std::int64_t sent_before = ranks.traffic().bytes;
  for (int epoch = 1; epoch <= options.epochs; ++epoch) {
    random.shuffle(training);
    double sum = 0;
    const std::size_t batches = training.size() / batch;
    for (std::size_t i = 0; i < batches; ++i) {
      sum += train(ranks, words, layer, windows, some_of(training, i * batch, (i + 1) * batch));
    }
    const double found = accuracy(ranks, words, layer, windows, held_out);
    if (prints) {
      std::printf("epoch %d: loss %.9g, of held-out windows %.1f%% found\n", epoch, sum / static_cast<double>(batches),
                  found * 100);
    }
  }
  const auto sizes = words.sizes();
  lod::LoDTensor<std::int64_t> sent({1});
  sent.values()[0] = ranks.traffic().bytes - sent_before;
  const auto all_sent = mpi::gather(ranks, sent, 0);
  if (!prints) return;
  for (int rank = 0; rank < ranks.size(); ++rank) {
    const auto i = static_cast<std::size_t>(rank);
    std::printf("rank %d: %lld words, %lld bytes sent\n", rank, static_cast<long long>(sizes[i]),
                static_cast<long long>(all_sent.values()[i]));
  }
}

}  // namespace

int main(int count, char** arguments) {
  MPI_Init(&count, &arguments);
  int status = EXIT_SUCCESS;
  try {
    const mpi::Communicator ranks(MPI_COMM_WORLD);
    Options options;
    mpi::together(ranks, [&] { options = read_options(count, arguments); });
    run(ranks, options);
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    status = EXIT_FAILURE;
  }
  MPI_Finalize();
  return status;
}
