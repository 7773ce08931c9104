// SPDX-License-Identifier: Apache-2.0
#include "text.hpp"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <utility>

namespace {

/// Takes words as they come, and keeps count: the lengths of every level grow at their ends, so that the LoD of the
/// whole is ready when the last word is.
class Cutter {
 public:
  explicit Cutter(std::int64_t least_words) : least_words_(least_words) {}

  void add_word(std::string_view word) {
    numbers_.push_back(lexicon_.number_of(word));
    ++words_;
  }
  void end_sentence() {
    if (words_ == 0) return;
    lengths_[2].push_back(std::exchange(words_, 0));
    words_in_section_ += lengths_[2].back();
    ++sentences_;
  }
  void end_paragraph() {
    end_sentence();
    if (words_in_section_ >= least_words_) end_section();
  }
  void end_file() {
    end_sentence();
    if (sections_ > sections_of_other_files_) {
      lengths_[1].back() += std::exchange(sentences_, 0);
      words_in_section_ = 0;
    } else if (sentences_ > 0) {
      end_section();
    }
    sections_of_other_files_ = sections_;
  }
  /// False where the document has no words; then nothing is added.
  bool end_document() {
    if (sections_ == 0) return false;
    lengths_[0].push_back(std::exchange(sections_, 0));
    sections_of_other_files_ = 0;
    return true;
  }

  std::int64_t words_in_sentence() const { return words_; }
  lod::LoDTensor<std::int64_t> words() const {
    return lod::LoDTensor<std::int64_t>::from_values(lod::LoD::from_lengths(lengths_), {}, numbers_);
  }
  Lexicon& lexicon() { return lexicon_; }

 private:
  void end_section() {
    lengths_[1].push_back(std::exchange(sentences_, 0));
    words_in_section_ = 0;
    ++sections_;
  }

  std::int64_t least_words_;
  Lexicon lexicon_;
  std::vector<std::int64_t> numbers_;
  std::vector<std::vector<std::int64_t>> lengths_ = {{}, {}, {}};
  // What is not finished yet.
  std::int64_t sections_ = 0;  // of the document
  std::int64_t sections_of_other_files_ = 0;
  std::int64_t sentences_ = 0;
  std::int64_t words_ = 0;
  std::int64_t words_in_section_ = 0;
};

/// Bytes beyond ASCII belong to letters of other alphabets.
bool is_letter_or_digit(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte >= 0x80 || std::isalnum(byte) != 0;
}

/// The words in what stands between two white spaces: none in "---", two in "copyright/license".
std::vector<std::string> words_of(std::string_view piece) {
  std::vector<std::string> words;
  bool inside = false;
  for (std::size_t i = 0; i < piece.size(); ++i) {
    const bool joins = inside && (piece[i] == '\'' || piece[i] == '.') && i + 1 < piece.size();
    if (is_letter_or_digit(piece[i]) || (joins && is_letter_or_digit(piece[i + 1]))) {
      if (!std::exchange(inside, true)) words.emplace_back();
      words.back() += static_cast<char>(std::tolower(static_cast<unsigned char>(piece[i])));
    } else {
      inside = false;
    }
  }
  return words;
}

/// Whether `piece`, whose last word is `word`, ends the sentence that it is in.
bool ends_sentence(std::string_view piece, std::string_view word) {
  const std::size_t last = piece.find_last_not_of("\"')]>");
  if (last == std::string_view::npos || std::string_view(".;?!").find(piece[last]) == std::string_view::npos) {
    return false;
  }
  return word.size() > 1 && word.find('.') == std::string_view::npos;
}

void cut(std::istream& text, Cutter& cutter) {
  for (std::string line; std::getline(text, line);) {
    std::istringstream pieces(line);
    bool is_blank = true;
    for (std::string piece; pieces >> piece; is_blank = false) {
      const std::vector<std::string> words = words_of(piece);
      for (const std::string& word : words) cutter.add_word(word);
      if (!words.empty() && cutter.words_in_sentence() > 1 && ends_sentence(piece, words.back())) {
        cutter.end_sentence();
      }
    }
    if (is_blank) cutter.end_paragraph();
  }
}

/// Itself, or what is in the folder that it is, by name.
std::vector<std::filesystem::path> files_of(const std::filesystem::path& document) {
  if (!std::filesystem::is_directory(document)) return {document};
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(document)) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
  std::ranges::sort(files);
  return files;
}

}  // namespace

Corpus read_corpus(const std::vector<std::filesystem::path>& documents, std::int64_t least_words) {
  Cutter cutter(least_words);
  std::vector<std::string> names;
  for (const auto& document : documents) {
    for (const auto& file : files_of(document)) {
      std::ifstream text(file);
      if (text) cut(text, cutter);
      if (!text.eof()) throw std::runtime_error("cannot read " + file.string());
      cutter.end_file();
    }
    if (!cutter.end_document()) throw std::runtime_error("no words in " + document.string());
    names.push_back((document.has_filename() ? document : document.parent_path()).filename().string());
  }
  return {std::move(names), std::move(cutter.lexicon()), cutter.words()};
}
