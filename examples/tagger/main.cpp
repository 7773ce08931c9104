// SPDX-License-Identifier: Apache-2.0
/// @file
/// Trains a tagger to find names and quotations in text of which neither capitals nor quotation marks are left.
#include "../training/licences.hpp"
#include "../training/options.hpp"
#include "tagger.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <fstream>
#include <iostream>
#include <map>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

constexpr const char* help = R"(usage: tagger [options] [file...]
Reads sentences (of this system's licence texts, or of the files named), takes capitals and quotation marks away, and
trains an LSTM in each direction with a conditional random field to find names and quotations all the same.
  --epochs N         passes over the training sentences (default 30)
  --quick            a short run on less text, for checks
  --seed N           of the weights and of the division into training and held-out sentences (default 1)
  --check-gradients  compare the gradients with differences instead; exit status 1 where they are wrong
  --help             this text
)";

struct Options : TrainingOptions {
  int epochs = 30;
};

Options read_options(int count, char** arguments) {
  Options options;
  static_cast<TrainingOptions&>(options) =
      read_training_options(count, arguments, help, [&](const std::string& argument, const auto& value) {
        if (argument != "--epochs") return false;
        options.epochs = std::max(1, std::stoi(value()));
        return true;
      });
  if (options.quick) options.epochs = std::min(options.epochs, 2);
  return options;
}

// The scheme IOB: the first word of a chunk, the words after it, and words of none.
constexpr std::int64_t types = 2, tags = 2 * types + 1, outside = 2 * types;
constexpr std::array<const char*, types> type_names = {"name", "quotation"};
enum Type : std::int64_t { NAME, QUOTATION };

struct Word {
  std::string text;  ///< in lower case
  bool capital = false, quoted = false, opens = false;
};

/// Appends the tags of a sentence: a quotation is what stands between quotation marks, a name is a run of words with
/// capitals, unless it is one word at the start of the sentence.
void tag(const std::vector<Word>& sentence, std::vector<std::int64_t>& labels) {
  for (std::size_t i = 0; i < sentence.size();) {
    std::size_t end = i + 1;
    const bool quoted = sentence[i].quoted, capital = sentence[i].capital;
    if (quoted) {
      while (end < sentence.size() && sentence[end].quoted && !sentence[end].opens) ++end;
    } else if (capital) {
      while (end < sentence.size() && sentence[end].capital && !sentence[end].quoted) ++end;
    }
    const bool is_chunk = quoted || (capital && (i > 0 || end > 1));
    const std::int64_t type = quoted ? QUOTATION : NAME;
    for (std::size_t k = i; k < end; ++k) labels.push_back(!is_chunk ? outside : 2 * type + (k > i ? 1 : 0));
    i = end;
  }
}

using Ids = lod::LoDTensor<std::int64_t>;

/// Sentences of numbers of words, and their tags.
struct Sentences {
  std::vector<std::string> lexicon = {"?"};  ///< number 0 stands for words that are seen but once
  Ids words, labels;
};

class Reader {
 public:
  void read(std::istream& text) {
    for (std::string line; std::getline(text, line);) {
      bool is_blank = true;
      for (const char c : line) {
        is_blank = is_blank && std::isspace(static_cast<unsigned char>(c)) != 0;
        add(c);
      }
      add(' ');
      if (is_blank) end_sentence();
    }
    end_sentence();
  }
  Sentences sentences() {
    std::map<std::string, std::int64_t> counts, numbers;
    for (const Word& word : words_) ++counts[word.text];
    Sentences all;
    std::vector<std::int64_t> ids;
    for (const Word& word : words_) {
      std::int64_t& number = numbers[word.text];
      if (number == 0 && counts[word.text] > 1) {
        number = static_cast<std::int64_t>(all.lexicon.size());
        all.lexicon.push_back(word.text);
      }
      ids.push_back(number);
    }
    const lod::LoD lod = lod::LoD::from_lengths({lengths_});
    all.words = Ids::from_values(lod, {}, ids);
    all.labels = Ids::from_values(lod, {}, labels_);
    return all;
  }

 private:
  void add(char c) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) != 0) {
      if (word_.text.empty()) {
        word_.capital = std::isupper(byte) != 0;
        word_.quoted = quoted_;
        word_.opens = std::exchange(opens_, false);
      }
      word_.text += static_cast<char>(std::tolower(byte));
      return;
    }
    if (!word_.text.empty()) sentence_.push_back(std::exchange(word_, {}));
    if (c == '"') {
      quoted_ = !quoted_;
      opens_ = quoted_;
    }
    if (c == '.' || c == ';' || c == ':') stop_ = true;
    if (c == ' ' && std::exchange(stop_, false) && sentence_.size() > 3) end_sentence();
  }
  void end_sentence() {
    if (!word_.text.empty()) sentence_.push_back(std::exchange(word_, {}));
    const auto capitals = std::ranges::count_if(sentence_, [](const Word& word) { return word.capital; });
    // Titles, and what is shouted, say nothing about names.
    if (sentence_.size() > 3 && 2 * capitals < static_cast<std::int64_t>(sentence_.size())) {
      tag(sentence_, labels_);
      lengths_.push_back(static_cast<std::int64_t>(sentence_.size()));
      words_.insert(words_.end(), sentence_.begin(), sentence_.end());
    }
    sentence_.clear();
    quoted_ = opens_ = stop_ = false;
  }

  Word word_;
  bool quoted_ = false, opens_ = false, stop_ = false;
  std::vector<Word> sentence_, words_;
  std::vector<std::int64_t> labels_, lengths_;
};

Sentences gather(const lod::CpuExecutor& executor, const Sentences& from, std::span<const std::int64_t> order) {
  return {{}, lod::select(executor, from.words, order), lod::select(executor, from.labels, order)};
}

/// Precision, recall and F1.
std::array<float, 3> rates(const lod::CpuExecutor& executor, const Ids& found, const Ids& labels) {
  const auto result = lod::chunk_eval(executor, found, labels, {.scheme = lod::ChunkScheme::IOB, .types = types});
  const auto values = result.rates.values();
  return {values[0], values[1], values[2]};
}

/// The tag that each word has most often in the training sentences, whatever stands around it.
Ids usual_tags(const Sentences& training, const Ids& words, std::size_t lexicon) {
  std::vector<std::array<std::int64_t, tags>> counts(lexicon);
  for (std::size_t i = 0; i < training.words.values().size(); ++i) {
    const auto word = static_cast<std::size_t>(training.words.values()[i]);
    ++counts[word][static_cast<std::size_t>(training.labels.values()[i])];
  }
  Ids result(words.lod(), {});
  for (std::size_t i = 0; i < words.values().size(); ++i) {
    auto& of_word = counts[static_cast<std::size_t>(words.values()[i])];
    const auto most = std::ranges::max_element(of_word);
    result.values()[i] = *most == 0 ? outside : most - of_word.begin();
  }
  return result;
}

/// Sentences with the chunks that were found in brackets.
void show(const Sentences& sentences, const std::vector<std::string>& lexicon, const Ids& found, std::int64_t count) {
  for (std::int64_t i = 0, shown = 0; i < found.size() && shown < count; ++i) {
    const auto words = sentences.words.slice({i}).values(), of_words = found.slice({i}).values();
    if (words.size() > 25 || std::ranges::count(of_words, outside) == static_cast<std::int64_t>(words.size())) continue;
    std::string text;
    for (std::size_t k = 0; k < words.size(); ++k) {
      const std::int64_t own = of_words[k], next = k + 1 < words.size() ? of_words[k + 1] : outside;
      if (k > 0) text += ' ';
      if (own != outside && own % 2 == 0)
        text += std::string("[") + type_names[static_cast<std::size_t>(own / 2)] + " ";
      text += lexicon[static_cast<std::size_t>(words[k])];
      if (own != outside && next != own / 2 * 2 + 1) text += ']';
    }
    std::printf("  %s\n", text.c_str());
    ++shown;
  }
}

int train(const Options& options) {
  const auto start = std::chrono::steady_clock::now();
  auto files = options.files.empty() ? licence_texts() : options.files;
  if (options.quick && files.size() > 4) files.resize(4);
  Reader reader;
  for (const auto& file : files) {
    std::ifstream text(file);
    if (text) reader.read(text);
    if (!text.eof()) throw std::runtime_error("cannot read " + file.string());
  }
  const Sentences all = reader.sentences();
  const std::int64_t size = all.words.size();
  if (size < 10) throw std::runtime_error("ten sentences at least are needed; name some files");
  std::printf("%lld sentences of %lld words on average, %lld at most; %zu different words seen twice\n",
              static_cast<long long>(size), static_cast<long long>(all.words.rows() / size),
              static_cast<long long>(all.words.lod().max_length(0)), all.lexicon.size() - 1);
  const lod::CpuExecutor executor;
  Random random(options.seed);
  std::vector<std::int64_t> order(static_cast<std::size_t>(size));
  std::iota(order.begin(), order.end(), 0);
  random.shuffle(order);
  const std::size_t held_out = order.size() / 5;
  const Sentences test = gather(executor, all, std::span(order).first(held_out));
  std::vector<std::int64_t> training(order.begin() + static_cast<std::ptrdiff_t>(held_out), order.end());
  const auto usual =
      rates(executor, usual_tags(gather(executor, all, training), test.words, all.lexicon.size()), test.labels);
  std::printf("%zu held out, where the usual tag of each word by itself finds chunks with F1 %.1f%%\n", held_out,
              100 * static_cast<double>(usual[2]));

  Tagger<float> tagger({.words = static_cast<std::int64_t>(all.lexicon.size()), .tags = tags}, random);
  constexpr std::size_t batch_size = 32;
  std::int64_t step = 0;
  for (int epoch = 1; epoch <= options.epochs; ++epoch) {
    const auto from = std::chrono::steady_clock::now();
    random.shuffle(training);
    double loss = 0;
    std::int64_t words = 0;
    for (std::size_t begin = 0; begin < training.size(); begin += batch_size) {
      const std::size_t count = std::min(batch_size, training.size() - begin);
      Sentences batch = gather(executor, all, std::span(training).subspan(begin, count));
      // Some words are forgotten, so that their neighbours must say what they are.
      for (std::int64_t& word : batch.words.values()) word = random.unit() < 0.1 ? 0 : word;
      loss += tagger.learn(executor, batch.words, batch.labels) * static_cast<double>(count);
      const double share = static_cast<double>(epoch - 1) / options.epochs;
      tagger.update(executor, 0.004 * (1 - 0.9 * share), ++step);
      words += batch.words.rows();
      if (isatty(STDOUT_FILENO)) {
        std::printf("\repoch %d: %zu of %zu sentences", epoch, begin + count, training.size());
        std::fflush(stdout);
      }
    }
    const double seconds = seconds_since(from);
    const auto of_test = rates(executor, tagger.tags(executor, test.words), test.labels);
    std::printf(
        "\repoch %2d: loss %.3f a sentence; held out: precision %.1f%%, recall %.1f%%, F1 %.1f%%; %.0f words a "
        "second\n",
        epoch, loss / static_cast<double>(training.size()), 100 * static_cast<double>(of_test[0]),
        100 * static_cast<double>(of_test[1]), 100 * static_cast<double>(of_test[2]),
        static_cast<double>(words) / seconds);
    std::fflush(stdout);
  }
  std::printf("Held-out sentences, as it reads them:\n");
  show(test, all.lexicon, tagger.tags(executor, test.words), 6);
  std::printf("%.1f s in all\n", seconds_since(start));
  return 0;
}

/// Compares gradients with central differences, on a small tagger in double. Returns the exit status.
int check_gradients(std::uint64_t seed) {
  const lod::CpuExecutor executor(1);
  Random random(seed);
  Tagger<double> tagger({.words = 9, .tags = 3, .width = 4, .hidden = 5}, random);
  const lod::LoD lod = lod::LoD::from_lengths({{4, 7, 1}});
  Ids words(lod, {}), labels(lod, {});
  for (std::int64_t i = 0; i < words.rows(); ++i) {
    words.data()[i] = i * i % 9;
    labels.data()[i] = (i * i + i) % 3;
  }
  tagger.learn(executor, words, labels);
  double worst = 0;
  const auto compare = [&](const char* name, std::span<double> values, const lod::LoDTensor<double>& gradient) {
    constexpr double step = 1e-5;
    double largest = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double at = values[i];
      values[i] = at + step;
      const double above = tagger.loss(executor, words, labels);
      values[i] = at - step;
      const double below = tagger.loss(executor, words, labels);
      values[i] = at;
      largest = std::max(largest, std::abs((above - below) / (2 * step) - gradient.values()[i]));
    }
    std::printf("%-20s differs by %.1e at most\n", name, largest);
    worst = std::max(worst, largest);
  };
  compare("words", tagger.words().values(), tagger.word_gradient(executor));
  for (const auto& parameter : tagger.parameters()) {
    compare(parameter.name.c_str(), parameter.value->values(), lod::LoDTensor<double>(*parameter.gradient));
  }
  return worst < 1e-8 ? 0 : 1;
}

}  // namespace

int main(int count, char** arguments) {
  try {
    const Options options = read_options(count, arguments);
    return options.check_gradients ? check_gradients(options.seed) : train(options);
  } catch (const std::exception& error) {
    std::cerr << "tagger: " << error.what() << "\n";
    return 2;
  }
}
