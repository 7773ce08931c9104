// SPDX-License-Identifier: Apache-2.0
/// @file
/// Trains a small transformer to write text like the documents that it reads, character by character, on batches of
/// documents of any lengths; then the same on padded batches, to compare.
#include "../training/licences.hpp"
#include "../training/options.hpp"
#include "model.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <numeric>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

constexpr const char* help = R"(usage: transformer [options] [file...]
Reads documents (the paragraphs of this system's licence texts, or of the files named) and trains a causal transformer
to predict each character from those before it. Then writes some text, and compares with padded batches.
  --steps N          updates (default 500)
  --quick            a short run, for checks
  --prompt TEXT      what the text that is written begins with (default "The ")
  --seed N           of the weights and of the order of the documents (default 1)
  --check-gradients  compare the gradients with differences instead; exit status 1 where they are wrong
  --help             this text
)";

struct Options : TrainingOptions {
  std::int64_t steps = 500;
  std::string prompt = "The ";
};

Options read_options(int count, char** arguments) {
  Options options;
  static_cast<TrainingOptions&>(options) =
      read_training_options(count, arguments, help, [&](const std::string& argument, const auto& value) {
        if (argument == "--steps") {
          options.steps = std::max(1, std::stoi(value()));
        } else if (argument == "--prompt") {
          options.prompt = value();
        } else {
          return false;
        }
        return true;
      });
  if (options.quick) options.steps = std::min<std::int64_t>(options.steps, 10);
  return options;
}

using Ids = lod::LoDTensor<std::int64_t>;

/// Number 0 stands before a document and after it; the others are characters, in the order in which they are first
/// seen.
struct Alphabet {
  std::string characters = std::string(1, '\0');
  std::array<std::int64_t, 256> numbers{};

  std::int64_t number_of(char c) {
    std::int64_t& number = numbers[static_cast<unsigned char>(c)];
    if (number == 0) {
      number = size();
      characters += c;
    }
    return number;
  }
  std::int64_t size() const { return static_cast<std::int64_t>(characters.size()); }
};

/// Documents with what stands before each character, and the same number of rows with what follows.
struct Documents {
  Alphabet alphabet;
  Ids ids, following;
};

constexpr std::size_t longest_document = 400, shortest_document = 8;

/// Paragraphs, with one space between words; long ones in several parts.
Documents read_documents(const std::vector<std::filesystem::path>& files) {
  Documents documents;
  std::vector<std::int64_t> ids, following, lengths;
  const auto add = [&](const std::string& text) {
    if (text.size() < shortest_document) return;
    ids.push_back(0);
    for (const char c : text) {
      const std::int64_t number = documents.alphabet.number_of(c);
      ids.push_back(number);
      following.push_back(number);
    }
    following.push_back(0);
    lengths.push_back(static_cast<std::int64_t>(text.size()) + 1);
  };
  for (const auto& file : files) {
    std::ifstream in(file);
    std::string paragraph;
    for (std::string line; std::getline(in, line);) {
      std::istringstream words(line);
      bool is_blank = true;
      for (std::string word; words >> word; is_blank = false) {
        if (!paragraph.empty()) paragraph += ' ';
        paragraph += word;
      }
      if (is_blank || paragraph.size() > longest_document) {
        add(paragraph.substr(0, longest_document));
        paragraph.clear();
      }
    }
    if (!in.eof()) throw std::runtime_error("cannot read " + file.string());
    add(paragraph.substr(0, longest_document));
  }
  if (lengths.size() < 2) throw std::runtime_error("two paragraphs at least are needed; name some files");
  const lod::LoD lod = lod::LoD::from_lengths({lengths});
  documents.ids = Ids::from_values(lod, {}, ids);
  documents.following = Ids::from_values(lod, {}, following);
  return documents;
}

struct Batch {
  Ids ids, following;
};

/// The same documents, each as long as the longest: what is added does not count.
Batch padded(const Batch& batch) {
  const std::int64_t longest = batch.ids.lod().max_length(0), size = batch.ids.size();
  const lod::LoD lod = lod::LoD::from_lengths({std::vector<std::int64_t>(static_cast<std::size_t>(size), longest)});
  const auto pad = [&](const Ids& ids, std::int64_t value) {
    const auto dense = lod::sequence_pad(ids, {.pad_value = value}).dense;
    return Ids::from_values(lod, {}, std::vector<std::int64_t>(dense.values().begin(), dense.values().end()));
  };
  return {pad(batch.ids, 0), pad(batch.following, Transformer<float>::ignored)};
}

/// A character from the probabilities of its scores, sharpened.
std::int64_t draw(std::span<const float> scores, Random& random) {
  constexpr double sharper = 1.25;
  const float most = *std::max_element(scores.begin(), scores.end());
  std::vector<double> sums;
  double sum = 0;
  for (const float score : scores) sums.push_back(sum += std::exp(sharper * static_cast<double>(score - most)));
  const auto at = std::upper_bound(sums.begin(), sums.end() - 1, random.unit() * sum);
  return at - sums.begin();
}

/// Documents, one after the other, of which the first begins with the prompt.
std::string write_text(const lod::CpuExecutor& executor, Transformer<float>& model, const Alphabet& alphabet,
                       const std::string& prompt, Random& random) {
  constexpr std::size_t most = 400;
  std::vector<std::int64_t> ids = {0};
  std::string text;
  const auto add = [&](std::int64_t number) {
    ids.push_back(number);
    text += alphabet.characters[static_cast<std::size_t>(number)];
  };
  for (const char c : prompt) {
    // Characters that no document has are left out.
    if (const std::int64_t number = alphabet.numbers[static_cast<unsigned char>(c)]; number != 0) add(number);
  }
  while (text.size() < most) {
    const auto size = static_cast<std::int64_t>(ids.size());
    const auto& scores = model.scores(executor, Ids::from_values(lod::LoD::from_lengths({{size}}), {}, ids));
    const std::int64_t next = draw(scores.row(size - 1), random);
    if (next != 0) {
      add(next);
    } else {
      ids = {0};
      text += '\n';
    }
  }
  return text;
}

/// Compares gradients with central differences, on a small model in double. Returns the exit status.
int check_gradients(std::uint64_t seed) {
  const lod::CpuExecutor executor(1);
  Random random(seed);
  Transformer<double> model({.characters = 7, .width = 8, .heads = 2, .hidden = 12, .layers = 2}, random);
  const lod::LoD lod = lod::LoD::from_lengths({{4, 0, 9, 1}});
  Ids ids(lod, {}), following(lod, {});
  for (std::int64_t i = 0; i < ids.rows(); ++i) {
    ids.data()[i] = i * i % 7;
    following.data()[i] = i == 5 ? Transformer<double>::ignored : (i * i + 3 * i) % 7;
  }
  model.loss(executor, ids, following);
  double worst = 0;
  for (Parameter<double>* parameter : model.parameters()) {
    constexpr double step = 1e-5;
    const lod::LoDTensor<double> gradient = parameter->gradient;
    double largest = 0;
    for (std::size_t i = 0; i < parameter->value.values().size(); ++i) {
      double& number = parameter->value.values()[i];
      const double at = number;
      number = at + step;
      const double above = model.loss_alone(executor, ids, following);
      number = at - step;
      const double below = model.loss_alone(executor, ids, following);
      number = at;
      largest = std::max(largest, std::abs((above - below) / (2 * step) - gradient.values()[i]));
    }
    std::printf("%-22s differs by %.1e at most\n", parameter->name.c_str(), largest);
    worst = std::max(worst, largest);
  }
  return worst < 1e-8 ? 0 : 1;
}

int train(const Options& options) {
  const auto start = std::chrono::steady_clock::now();
  Documents all = read_documents(options.files.empty() ? licence_texts() : options.files);
  const lod::LoD& lod = all.ids.lod();
  std::printf("%lld documents of %lld characters on average, %lld at most; %lld different characters\n",
              static_cast<long long>(lod.size(0)), static_cast<long long>(lod.rows() / lod.size(0)),
              static_cast<long long>(lod.max_length(0)), static_cast<long long>(all.alphabet.size() - 1));
  Random random(options.seed);
  std::vector<std::int64_t> order(static_cast<std::size_t>(lod.size(0)));
  std::iota(order.begin(), order.end(), 0);
  random.shuffle(order);
  const lod::CpuExecutor executor;
  constexpr std::size_t batch_size = 16;
  // What is held out is never learned from.
  const std::size_t held_out = std::min(order.size() / 2, std::size_t{64});
  const auto batch_of = [&](std::size_t begin, std::size_t end) {
    const std::vector<std::int64_t> some(order.begin() + static_cast<std::ptrdiff_t>(begin),
                                         order.begin() + static_cast<std::ptrdiff_t>(end));
    return Batch{lod::select(executor, all.ids, some), lod::select(executor, all.following, some)};
  };
  const Batch test = batch_of(0, held_out);
  Transformer<float> model({.characters = all.alphabet.size()}, random);
  std::int64_t count = 0, rows = 0;
  for (const auto* parameter : model.parameters()) count += parameter->value.rows() * parameter->value.row_size();
  std::printf("%lld parameters; loss of held-out documents before: %.3f, of a guess %.3f\n",
              static_cast<long long>(count), model.loss_alone(executor, test.ids, test.following),
              std::log(static_cast<double>(all.alphabet.size())));
  double loss = 0;
  const auto training = std::chrono::steady_clock::now();
  std::size_t at = order.size();
  const std::int64_t report = std::max<std::int64_t>(options.steps / 10, 1);
  for (std::int64_t step = 1; step <= options.steps; ++step) {
    if (at + batch_size > order.size()) {
      std::vector<std::int64_t> rest(order.begin() + static_cast<std::ptrdiff_t>(held_out), order.end());
      random.shuffle(rest);
      std::copy(rest.begin(), rest.end(), order.begin() + static_cast<std::ptrdiff_t>(held_out));
      at = held_out;
    }
    const std::size_t end = std::min(at + batch_size, order.size());
    const Batch batch = batch_of(at, end);
    at = end;
    const double share = static_cast<double>(step) / static_cast<double>(options.steps);
    const double rate = 0.002 * std::min(1.0, static_cast<double>(step) / 20) * (1 - 0.95 * share);
    loss += model.loss(executor, batch.ids, batch.following);
    model.update(executor, rate, step);
    rows += batch.ids.rows();
    if (isatty(STDOUT_FILENO)) {
      std::printf("\rstep %lld", static_cast<long long>(step));
      std::fflush(stdout);
    }
    if (step % report == 0) {
      const double seconds = seconds_since(training);
      std::printf("\rstep %lld: loss %.3f, held out %.3f, %.0f characters a second, %.1f s\n",
                  static_cast<long long>(step), loss / static_cast<double>(report),
                  model.loss_alone(executor, test.ids, test.following), static_cast<double>(rows) / seconds, seconds);
      std::fflush(stdout);
      loss = 0;
    }
  }
  std::printf("\nIt writes:\n%s ...\n\n", write_text(executor, model, all.alphabet, options.prompt, random).c_str());

  // The same model on the same documents, padded.
  double ragged = 0, with_padding = 0, difference = 0;
  std::int64_t padded_rows = 0;
  rows = 0;
  for (std::size_t begin = 0; begin < held_out; begin += batch_size) {
    const Batch batch = batch_of(begin, std::min(begin + batch_size, held_out)), more = padded(batch);
    auto from = std::chrono::steady_clock::now();
    const double own = model.loss(executor, batch.ids, batch.following);
    ragged += seconds_since(from);
    from = std::chrono::steady_clock::now();
    const double other = model.loss(executor, more.ids, more.following);
    with_padding += seconds_since(from);
    difference = std::max(difference, std::abs(own - other));
    rows += batch.ids.rows();
    padded_rows += more.ids.rows();
  }
  std::printf(
      "loss and gradients of %zu documents: %lld rows in %.0f ms without padding, %lld rows in %.0f ms with it\n"
      "  (%.2f times the rows, %.2f times the time); losses differ by %.1e at most\n%.1f s in all\n",
      held_out, static_cast<long long>(rows), 1e3 * ragged, static_cast<long long>(padded_rows), 1e3 * with_padding,
      static_cast<double>(padded_rows) / static_cast<double>(rows), with_padding / ragged, difference,
      seconds_since(start));
  if (difference > 1e-4) throw std::runtime_error("padded batches give other losses");
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  try {
    const Options options = read_options(count, arguments);
    return options.check_gradients ? check_gradients(options.seed) : train(options);
  } catch (const std::exception& error) {
    std::cerr << "transformer: " << error.what() << "\n";
    return 2;
  }
}
