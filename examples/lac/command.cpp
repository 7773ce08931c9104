// SPDX-License-Identifier: Apache-2.0
#include "command.hpp"

#include "../lodinfo/text.hpp"
#include "analyser.hpp"
#include <lod/executor.hpp>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <exception>
#include <fstream>
#include <istream>
#include <ostream>
#include <stdexcept>
#include <string_view>

namespace lac {

namespace {

const char* const help = R"(usage: lac [option...] [TEXT...]

Divides Chinese text into words, and says of each what it is. Without TEXT and --file it reads
standard input. Each line is a sentence by itself.

options:
  --file FILE       the text in a file; - is standard input. May be given several times
  --json            a line of JSON for each line of text: {"text": ..., "words": [{"word": ...,
                    "tag": ...}, ...]}, all in ASCII
  --parameters DIR  the folder lac_small of jieba 0.42.1, or one with the same files (.)
  --threads N       how many threads work on it (as many as there are processors)
  --help            this text

The tags:
  n  noun        nr PER  person        v  verb           a  adjective      r  pronoun
  f  position    ns LOC  place         vd verb, adverb   ad adj., adverb   p  preposition
  s  location    nt ORG  organisation  vn verb, noun     an adj., noun     c  conjunction
  t  time        nw      work          d  adverb         m  number         u  particle
  nz other name  TIME    time          q  measure word   xc other word     w  punctuation

exit status: 0 all went well; 1 a file cannot be read, or is damaged; 2 wrong command line
)";

class UsageError : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;
};

struct Options {
  std::vector<std::string> texts, files;
  std::string parameters = ".";
  int threads = lod::CpuExecutor().threads();
  bool json = false;
  bool show_help = false;
};

Options read_options(const std::vector<std::string>& arguments) {
  Options options;
  bool only_texts = false;
  for (auto next = arguments.begin(); next != arguments.end();) {
    const std::string& argument = *next++;
    const auto value = [&]() -> const std::string& {
      if (next == arguments.end()) throw UsageError(argument + ": expected something after it");
      return *next++;
    };
    if (only_texts || !argument.starts_with("--")) {
      options.texts.push_back(argument);
    } else if (argument == "--") {
      only_texts = true;
    } else if (argument == "--file") {
      options.files.push_back(value());
    } else if (argument == "--parameters") {
      options.parameters = value();
    } else if (argument == "--threads") {
      const std::string& text = value();
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), options.threads);
      if (error != std::errc() || end != text.data() + text.size() || options.threads < 1 || options.threads > 1024) {
        throw UsageError("--threads " + text + ": expected a number from 1 to 1024");
      }
    } else if (argument == "--json") {
      options.json = true;
    } else if (argument == "--help") {
      options.show_help = true;
    } else {
      throw UsageError(argument + ": there is no such option");
    }
  }
  return options;
}

std::string as_json(const std::string& line, const std::vector<Word>& words) {
  std::string json = "{\"text\": " + lodinfo::json_string(line) + ", \"words\": [";
  for (const Word& word : words) {
    if (json.back() == '}') json += ", ";
    json += "{\"word\": " + lodinfo::json_string(word.text) + ", \"tag\": " + lodinfo::json_string(word.tag) + "}";
  }
  return json + "]}";
}

std::string as_text(const std::vector<Word>& words, bool has_colours) {
  std::string text;
  for (const Word& word : words) {
    if (!text.empty()) text += "  ";
    text += lodinfo::printable(word.text) + (has_colours ? "\x1b[2m/" : "/") + lodinfo::printable(word.tag);
    if (has_colours) text += "\x1b[0m";
  }
  return text;
}

/// Lines on their way to the network, some at a time, since a batch is faster than its sentences one by one.
class Batch {
 public:
  Batch(Analyser& analyser, const Options& options, const Surroundings& around)
      : analyser_(analyser), options_(options), around_(around) {}

  void add(std::string line) {
    const std::size_t end = line.find_last_not_of(" \t\r\n");
    line.resize(end == std::string::npos ? 0 : end + 1);
    bytes_ += line.size();
    lines_.push_back(std::move(line));
    if (around_.is_interactive || bytes_ > 1 << 14 || lines_.size() == 256) write();
  }
  void write() {
    const std::vector<std::vector<Word>> words = analyser_.analyse(lines_);
    for (std::size_t i = 0; i < lines_.size(); ++i) {
      around_.output << (options_.json ? as_json(lines_[i], words[i]) : as_text(words[i], around_.has_colours)) << '\n';
    }
    around_.output.flush();
    lines_.clear();
    bytes_ = 0;
  }

 private:
  Analyser& analyser_;
  const Options& options_;
  const Surroundings& around_;
  std::vector<std::string> lines_;
  std::size_t bytes_ = 0;
};

void add_all(std::istream& in, const std::string& name, Batch& batch) {
  std::string line;
  while (std::getline(in, line)) batch.add(std::move(line));
  if (in.bad() || !in.eof()) throw std::runtime_error(name + ": it cannot be read");
}

void analyse(const Options& options, const Surroundings& around) {
  Analyser analyser(options.parameters, options.threads);
  Batch batch(analyser, options, around);
  for (const std::string& text : options.texts) batch.add(text);
  std::vector<std::string> files = options.files;
  if (options.texts.empty() && files.empty()) files.emplace_back("-");
  for (const std::string& file : files) {
    if (file == "-") {
      if (around.is_interactive) around.errors << "Chinese text, line by line; Ctrl-D ends it:\n";
      add_all(around.input, "standard input", batch);
    } else {
      std::ifstream in(file);
      add_all(in, file, batch);
    }
  }
  batch.write();
}

}  // namespace

int run_command(const std::vector<std::string>& arguments, const Surroundings& around) {
  const auto complain = [&](const std::exception& error) {
    around.errors << "lac: " << lodinfo::printable(error.what()) << '\n';
  };
  try {
    const Options options = read_options(arguments);
    if (options.show_help) {
      around.output << help;
    } else {
      analyse(options, around);
    }
    return 0;
  } catch (const UsageError& error) {
    complain(error);
    around.errors << "lac --help says what there is\n";
    return 2;
  } catch (const std::exception& error) {
    complain(error);
    return 1;
  }
}

}  // namespace lac
