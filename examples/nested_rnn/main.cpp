// SPDX-License-Identifier: Apache-2.0
/// @file
/// Trains a nested recurrent network to tell which document a section of text is from, without padding anything.
#include "../training/licences.hpp"
#include "../training/options.hpp"
#include "../training/random.hpp"
#include "blas.hpp"
#include "manual.hpp"
#include "model_file.hpp"
#include "network.hpp"
#include "plot.hpp"
#include "text.hpp"
#include "workers.hpp"
#include <lod/io/text.hpp>
#include <lod/lod.hpp>

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <iostream>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace {

constexpr const char* help = R"(usage: nested_rnn [options] [document...]
Reads documents (the chapters of CMake's manual, or the files and folders named), cuts them into sections, sentences
and words, and trains a nested recurrent network to tell which document a section is from.
  --epochs N         passes over the training sections (default 16)
  --quick            a short run on less text, licences of this system, for checks
  --seed N           of the weights and of the division into training and held-out sections (default 1)
  --batch N          sections in a step (default 4)
  --out DIR          where model.lod and training.svg go (default .)
  --workers N        train on N processes, which mpirun has started: the same losses and model, to the last bit, for
                     every N; without this option, other last digits
  --checkpoint FILE  with --workers: save all that the training depends on, and replace the file each time
  --every N          epochs from one checkpoint to the next (default 1)
  --resume           go on from the checkpoint, if there is one; on any number of workers
  --check-gradients  compare the gradients with differences instead; exit status 1 where they are wrong
  --help             this text
)";

struct Options : TrainingOptions {
  int epochs = 16;
  std::int64_t batch = 4;
  std::filesystem::path out = ".";
  int workers = 0;  ///< 0: no other processes, and each batch as a whole
  std::string checkpoint;
  int every = 1;
  bool resume = false;
};

Options read_options(int count, char** arguments) {
  Options options;
  static_cast<TrainingOptions&>(options) =
      read_training_options(count, arguments, help, [&](const std::string& argument, const auto& value) {
        if (argument == "--epochs") {
          options.epochs = std::max(1, std::stoi(value()));
        } else if (argument == "--batch") {
          options.batch = std::max(1, std::stoi(value()));
        } else if (argument == "--out") {
          options.out = value();
        } else if (argument == "--workers") {
          options.workers = std::stoi(value());
        } else if (argument == "--checkpoint") {
          options.checkpoint = value();
        } else if (argument == "--every") {
          options.every = std::max(1, std::stoi(value()));
        } else if (argument == "--resume") {
          options.resume = true;
        } else {
          return false;
        }
        return true;
      });
  if (options.quick) options.epochs = std::min(options.epochs, 2);
  if (options.resume && options.checkpoint.empty()) throw std::invalid_argument("--resume needs --checkpoint FILE");
  if (!options.checkpoint.empty() && options.workers == 0) {
    throw std::invalid_argument("--checkpoint needs --workers N, be it --workers 1");
  }
  return options;
}

/// Sections (sections > sentences > words) with the number of the document that each is from.
struct Sections {
  lod::LoDTensor<std::int64_t> words;
  std::vector<std::int64_t> documents;
};

/// The sections listed, in that order, in one batch: minibatches are then slices.
Sections gather(const Sections& from, const std::vector<std::int64_t>& order) {
  Sections sections{lod::select(from.words, order), {}};
  for (std::int64_t i : order) sections.documents.push_back(from.documents[static_cast<std::size_t>(i)]);
  return sections;
}

/// Puts `unknown` in the place of every word in `share` of all, at random. Many sections stand almost word for word in
/// several documents, and the network would learn them by heart.
void forget_words(lod::LoDTensor<std::int64_t>& words, std::int64_t unknown, double share, Random& random) {
  for (std::int64_t& word : words.values()) {
    if (random.unit() < share) word = unknown;
  }
}

void describe(const Corpus& corpus) {
  const lod::LoD& lod = corpus.words.lod();
  std::printf("%zu documents, %lld sections, %lld sentences, %lld words (%lld different), a LoD of %d levels\n",
              corpus.documents.size(), static_cast<long long>(lod.size(1)), static_cast<long long>(lod.size(2)),
              static_cast<long long>(lod.rows()), static_cast<long long>(corpus.lexicon.size()), lod.levels());
  const char* const holds[] = {"sections in a document", "sentences in a section", "words in a sentence"};
  for (int level = 0; level < lod.levels(); ++level) {
    const auto lengths = lod.lengths(level);
    std::printf("  level %d: %.1f %s on average, %lld at most\n", level,
                static_cast<double>(std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0})) /
                    static_cast<double>(lengths.size()),
                holds[level], static_cast<long long>(lod.max_length(level)));
  }
  std::cout << draw(lod) << "\n";
  const auto section = corpus.words.slice({0, 0});
  std::cout << "the <0, 0>-slice, in row numbers of the whole:\n" << draw(section) << std::endl;
  const auto sentence = section.slice({0, 0});
  std::printf("the <0, 0, 0>-slice of %s, rows %lld to %lld:", corpus.documents[0].c_str(),
              static_cast<long long>(sentence.absolute_lod()[0].front()),
              static_cast<long long>(sentence.absolute_lod()[0].back()));
  for (std::int64_t word : sentence.values()) std::printf(" %s", corpus.lexicon[word].c_str());
  std::printf("\n");
}

struct Result {
  double loss = 0;
  double accuracy = 0;
  std::vector<float> scores;
};

/// Goes through the sections in batches, which are slices; learns where `learning_rate` is not 0. Each batch is cut
/// into parts, slices as well, which the workers share; the scores are those of this worker's parts.
Result run(const lod::CpuExecutor& executor, Workers& workers, Network<float>& network, const Sections& sections,
           std::int64_t batch_size, double learning_rate, const char* title) {
  Result result;
  const std::int64_t count = sections.words.size();
  // A row for each batch: what each part adds to the mean loss, and how many sections of it were right.
  lod::LoDTensor<double> tallies({(count + batch_size - 1) / batch_size, 2 * Workers::most_parts});
  for (std::int64_t begin = 0; begin < count; begin += batch_size) {
    const std::int64_t end = std::min(begin + batch_size, count);
    double* const tally = tallies.data() + begin / batch_size * tallies.row_size();
    const auto batch = std::as_const(sections.words).between(begin, end);
    for (const Part& part : workers.parts(batch)) {
      Network<float>::Trace trace;
      lod::LoDTensor<float> dscores;
      std::int64_t right = 0;
      const auto scores = network.forward(executor, batch.between(part.begin, part.end), trace);
      const std::span documents(sections.documents.data() + begin + part.begin,
                                static_cast<std::size_t>(part.end - part.begin));
      tally[2 * part.number] = cross_entropy(executor, scores, documents, end - begin, dscores, right);
      tally[2 * part.number + 1] = static_cast<double>(right);
      result.scores.insert(result.scores.end(), scores.values().begin(), scores.values().end());
      if (learning_rate > 0) {
        network.backward(executor, dscores, trace);
        workers.keep_gradient(network);
      }
    }
    if (learning_rate > 0) {
      workers.add_up_gradients(network);
      network.descend(executor, learning_rate, 1.0);
    }
    if (title && isatty(STDOUT_FILENO)) {
      const auto done = static_cast<int>(30 * end / count);
      std::printf("\r%s [%s%s]", title, std::string(static_cast<std::size_t>(done), '#').c_str(),
                  std::string(static_cast<std::size_t>(30 - done), ' ').c_str());
      std::fflush(stdout);
    }
  }
  if (title && isatty(STDOUT_FILENO)) std::printf("\r\033[K");
  workers.add_up(tallies);
  for (std::int64_t i = 0; i < tallies.rows(); ++i) {
    double loss = 0;
    for (std::int64_t part = 0; part < Workers::most_parts; ++part) {
      loss += tallies.row(i)[static_cast<std::size_t>(2 * part)];
      result.accuracy += tallies.row(i)[static_cast<std::size_t>(2 * part + 1)];
    }
    result.loss += loss * static_cast<double>(std::min(batch_size, count - i * batch_size));
  }
  result.loss /= static_cast<double>(std::max<std::int64_t>(count, 1));
  result.accuracy /= static_cast<double>(std::max<std::int64_t>(count, 1));
  return result;
}

/// The time of a forward pass over all sections, without and with padding.
void compare_with_padding(const lod::CpuExecutor& executor, const Network<float>& network, const Sections& sections,
                          std::int64_t batch_size) {
  std::int64_t padded_rows = 0, ragged_rows = 0;
  double ragged = 0, padded = 0, difference = 0;
  for (std::int64_t begin = 0; begin < sections.words.size(); begin += batch_size) {
    const auto batch = sections.words.between(begin, std::min(begin + batch_size, sections.words.size()));
    Network<float>::Trace trace;
    auto start = std::chrono::steady_clock::now();
    const auto a = network.forward(executor, batch, trace);
    ragged += seconds_since(start);
    ragged_rows += batch.rows() + batch.lod_view().size(1);
    start = std::chrono::steady_clock::now();
    const auto b = network.forward_padded(executor, batch, padded_rows);
    padded += seconds_since(start);
    for (std::size_t i = 0; i < a.values().size(); ++i) {
      difference = std::max(difference, static_cast<double>(std::abs(a.values()[i] - b.values()[i])));
    }
  }
  std::printf(
      "forward pass over %lld sections: %lld rows through the cells in %.0f ms without padding,\n"
      "  %lld rows in %.0f ms with it (%.1f times the rows, %.1f times the time); scores differ by %.1e at most\n",
      static_cast<long long>(sections.words.size()), static_cast<long long>(ragged_rows), 1e3 * ragged,
      static_cast<long long>(padded_rows), 1e3 * padded,
      static_cast<double>(padded_rows) / static_cast<double>(ragged_rows), padded / ragged, difference);
  if (difference > 1e-3) throw std::runtime_error("the padded network gives other scores");
}

/// Compares gradients with central differences, on a small network in double. Returns the exit status.
int check_gradients(std::uint64_t seed) {
  const lod::CpuExecutor executor(1);
  Random random(seed);
  Network<double> network({9, 4, 5, 3}, random);
  lod::LoDTensor<std::int64_t> words(lod::LoD::from_lengths({{2, 3, 1}, {3, 1, 2, 5, 1, 4}}), {});
  for (std::int64_t i = 0; i < words.rows(); ++i) words.data()[i] = i * i % 9;
  const std::vector<std::int64_t> documents = {2, 0, 1};
  const auto loss = [&] {
    Network<double>::Trace trace;
    lod::LoDTensor<double> dscores;
    std::int64_t right = 0;
    return cross_entropy(executor, network.forward(executor, words, trace), documents, 3, dscores, right);
  };
  Network<double>::Trace trace;
  lod::LoDTensor<double> dscores;
  std::int64_t right = 0;
  cross_entropy(executor, network.forward(executor, words, trace), documents, 3, dscores, right);
  network.backward(executor, dscores, trace);
  double worst = 0;
  const auto compare = [&](const char* name, std::span<double> values, std::span<const double> gradient) {
    constexpr double step = 1e-5;
    double largest = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double at = values[i];
      values[i] = at + step;
      const double above = loss();
      values[i] = at - step;
      const double below = loss();
      values[i] = at;
      largest = std::max(largest, std::abs((above - below) / (2 * step) - gradient[i]));
    }
    std::printf("%-20s differs by %.1e at most\n", name, largest);
    worst = std::max(worst, largest);
  };
  compare("word_vectors", network.word_vectors.values(), lod::to_dense(executor, network.word_gradient).values());
  const auto parameters = network.dense.by_name(), gradients = network.dense_gradient.by_name();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    compare(parameters[i].first, parameters[i].second->values(), std::as_const(*gradients[i].second).values());
  }
  return worst < 1e-8 ? 0 : 1;
}

/// What the checkpoints of two trainings have in common if one may go on from those of the other.
std::vector<std::int64_t> identity(const Options& options, const Sections& sections, std::int64_t words) {
  std::uint64_t hash = 14695981039346656037U;  // FNV-1a
  for (std::int64_t word : sections.words.values()) hash = (hash ^ static_cast<std::uint64_t>(word)) * 1099511628211U;
  return {static_cast<std::int64_t>(options.seed), options.epochs, options.batch, words, sections.words.size(),
          static_cast<std::int64_t>(hash)};
}

/// The documents to read.
std::vector<std::filesystem::path> documents_of(const Options& options) {
  auto documents = options.files;
  if (documents.empty() && !options.quick) documents = chapters_of_manual();
  if (documents.empty()) documents = licence_texts();
  if (options.quick && documents.size() > 4) documents.resize(4);
  if (documents.size() < 2) throw std::runtime_error("two documents at least are needed; name some files or folders");
  return documents;
}

int train(const Options& options, Workers& workers) {
  const auto start = std::chrono::steady_clock::now();
  Corpus corpus;
  lod::LoDTensor<std::int64_t> sizes({2});
  workers.first([&] {
    corpus = read_corpus(documents_of(options), 80);
    describe(corpus);
    sizes.values()[0] = static_cast<std::int64_t>(corpus.documents.size());
    sizes.values()[1] = corpus.lexicon.size();
  });
  workers.share(corpus.words);
  workers.share(sizes);
  const std::int64_t document_count = sizes.values()[0], unknown_word = sizes.values()[1];

  // Without the level of the documents, a batch is a number of sections.
  const lod::LoD& lod = corpus.words.lod();
  const Sections all{lod::LoDTensor<std::int64_t>::copy_of(corpus.words.view().with_lod(lod.slice_levels(1, 3))),
                     lod.slice_levels(0, 1).levels() ? lod.levels_above(1).row_ids(0) : std::vector<std::int64_t>{}};
  Random random(options.seed);
  std::vector<std::int64_t> order(static_cast<std::size_t>(all.words.size()));
  std::iota(order.begin(), order.end(), 0);
  random.shuffle(order);
  const std::size_t held_out_count = order.size() / 5;
  const Sections held_out = gather(all, {order.begin(), order.begin() + static_cast<std::ptrdiff_t>(held_out_count)});
  std::vector<std::int64_t> training(order.begin() + static_cast<std::ptrdiff_t>(held_out_count), order.end());
  std::vector<std::int64_t> counts(static_cast<std::size_t>(document_count));
  for (std::int64_t i : training) ++counts[static_cast<std::size_t>(all.documents[static_cast<std::size_t>(i)])];
  const std::int64_t largest = std::ranges::max_element(counts) - counts.begin();
  const double baseline = static_cast<double>(std::ranges::count(held_out.documents, largest)) /
                          static_cast<double>(std::max<std::size_t>(held_out.documents.size(), 1));
  if (workers.is_first()) {
    std::printf("%zu training sections, %zu held out; chance %.1f%%, always the largest document %.1f%%\n",
                training.size(), held_out_count, 100.0 / static_cast<double>(document_count), 100 * baseline);
  }

  const NetworkSizes sizes_of_network{unknown_word + 1, 48, 64, document_count};
  Network<float> network(sizes_of_network, random);
  const lod::CpuExecutor executor = workers.executor();
  TrainingState state{identity(options, all, unknown_word), std::move(training), random, {}};
  if (options.resume) {
    lod::LoDTensor<std::int64_t> is_there({1});
    workers.first([&] { is_there.values()[0] = std::filesystem::exists(options.checkpoint); });
    workers.share(is_there);
    if (is_there.values()[0]) workers.load(options.checkpoint, network, state);
    if (workers.is_first()) std::printf("%zu epochs are done\n", state.epochs.size());
  }
  for (int epoch = static_cast<int>(state.epochs.size()) + 1; epoch <= options.epochs; ++epoch) {
    state.random.shuffle(state.order);
    const auto epoch_start = std::chrono::steady_clock::now();
    const std::string title = "epoch " + std::to_string(epoch);
    const double rate = 0.5 * (1 - 0.8 * (epoch - 1) / options.epochs);
    Sections sections = gather(all, state.order);
    forget_words(sections.words, unknown_word, 0.3, state.random);
    sections = gather(sections, workers.arranged(sections.words, options.batch));
    // mpirun lets its processes write to a terminal, wherever their output goes then.
    const Result trained =
        run(executor, workers, network, sections, options.batch, rate, workers.count() > 0 ? nullptr : title.c_str());
    const Result tested = run(executor, workers, network, held_out, options.batch, 0, nullptr);
    state.epochs.push_back({trained.loss, trained.accuracy, tested.accuracy});
    if (workers.is_first()) {
      std::printf("epoch %2d: loss %.3f, training accuracy %5.1f%%, held-out accuracy %5.1f%%, %.2f s\n", epoch,
                  trained.loss, 100 * trained.accuracy, 100 * tested.accuracy, seconds_since(epoch_start));
      std::fflush(stdout);
    }
    const bool is_due = epoch % options.every == 0 || epoch == options.epochs;
    if (!options.checkpoint.empty() && is_due) workers.save(options.checkpoint, network, state);
  }

  bool same = true;
  workers.first([&] {
    Workers alone;
    std::filesystem::create_directories(options.out);
    const auto model = options.out / "model.lod";
    const auto plot = options.out / "training.svg";
    write_plot(plot, state.epochs, baseline);
    save(model, network);
    Random other(options.seed + 1);
    Network<float> loaded(sizes_of_network, other);
    load(model, loaded);
    const auto scores = [&](Network<float>& of) {
      return run(executor, alone, of, held_out, options.batch, 0, nullptr).scores;
    };
    same = scores(loaded) == scores(network);
    std::printf("wrote %s and %s; loaded back, the model gives %s scores\n", model.c_str(), plot.c_str(),
                same ? "the same" : "OTHER");
    compare_with_padding(executor, network, held_out, options.batch);
    std::printf("%.1f s in all\n", seconds_since(start));
  });
  return same ? 0 : 1;
}

}  // namespace

int main(int count, char** arguments) {
  const std::vector<std::string_view> words(arguments, arguments + count);
  const auto has = [&](const char* option) { return std::ranges::count(words, option) > 0; };
  std::unique_ptr<Workers> workers;
  try {
    blas::use_one_thread();
    workers = has("--workers") && !has("--help") ? start_workers() : std::make_unique<Workers>();
    // What is wrong with the options is wrong for all, and told by one.
    workers->first([&] { static_cast<void>(read_options(count, arguments)); });
    const Options options = read_options(count, arguments);
    workers->first([&] {
      if (options.workers == workers->count()) return;
      throw std::invalid_argument("--workers " + std::to_string(options.workers) + " of " +
                                  std::to_string(workers->count()) + " processes; mpirun -n starts them");
    });
    return options.check_gradients ? check_gradients(options.seed) : train(options, *workers);
  } catch (const std::exception& error) {
    if (workers && workers->is_of_another(error)) return 2;
    std::cerr << "nested_rnn: " << error.what() << "\n";
    if (workers) workers->abort();
    return 2;
  }
}
