// SPDX-License-Identifier: Apache-2.0
/// @file
/// Text as a LoD tensor: documents > sections > sentences > words.
#pragma once

#include <lod/lod.hpp>

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

/// Numbers for words, in the order in which the words are first seen.
class Lexicon {
 public:
  /// The number of `word`, which is a new one if the word is.
  std::int64_t number_of(std::string_view word) {
    const auto [entry, is_new] = numbers_.try_emplace(std::string(word), size());
    if (is_new) words_.emplace_back(word);
    return entry->second;
  }
  const std::string& operator[](std::int64_t number) const { return words_.at(static_cast<std::size_t>(number)); }
  std::int64_t size() const { return static_cast<std::int64_t>(words_.size()); }

 private:
  std::vector<std::string> words_;
  std::unordered_map<std::string, std::int64_t> numbers_;
};

/// Several documents, cut up.
struct Corpus {
  std::vector<std::string> documents;  ///< their names
  Lexicon lexicon;
  /// One row a word: its number in the lexicon. Three levels: the sections of each document, the sentences of each
  /// section, the words of each sentence. No sequence is empty, but a document may be one section.
  lod::LoDTensor<std::int64_t> words;
};

/// Reads the documents, of which each is a file, or a folder with all files in it, and cuts them up:
/// - a word is a run of letters and digits, in lower case; apostrophes and full stops may stand inside ("don't",
/// "2.1");
/// - a sentence ends with its paragraph, and at a full stop, semicolon, question or exclamation mark before white
/// space,
///   but not after a single letter, an abbreviation with stops inside ("e.g."), or its very first word ("1.");
/// - a section is as many paragraphs of a file as it takes to have `least_words` words; what is left over at the end of
///   the file belongs to its last section, and a file with fewer words is a section.
/// Throws std::runtime_error for a file that cannot be read and for a document without words.
Corpus read_corpus(const std::vector<std::filesystem::path>& documents, std::int64_t least_words);
