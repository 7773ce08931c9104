// SPDX-License-Identifier: Apache-2.0
/// @file
/// Sentences to words and what kind of word each is.
#pragma once

#include <lod/lod_tensor.hpp>
#include <lod/program/run.hpp>
#include <lod/scope.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace lac {

/// A word, and its tag: "n" a noun, "v" a verb, "LOC" a place, ... (tools/demo lac --help lists them).
struct Word {
  std::string text;
  std::string tag;

  bool operator==(const Word&) const = default;
};

/// The parameters, which jieba 0.42.1 has in its folder `lac_small`, and the network made ready to run.
class Analyser {
 public:
  /// Throws std::runtime_error for what cannot be read, and lod::ParseError for what is damaged.
  explicit Analyser(const std::string& folder, int threads);

  /// The words of each sentence, all sentences in one batch. Together they are the sentence, byte for byte; a byte that
  /// is no UTF-8 counts as an unknown character. Memory grows with the number of characters, by 10 KiB for each.
  std::vector<std::vector<Word>> analyse(std::span<const std::string> sentences);

  /// The ids of the characters of sentences: what the network takes.
  lod::LoDTensor<std::int64_t> ids(std::span<const std::string> sentences) const;
  /// Runs the network: the numbers of tags. Valid until the next run.
  std::span<const std::int64_t> run(lod::LoDTensor<std::int64_t> ids);

 private:
  std::unordered_map<std::string, std::int64_t> ids_;
  std::int64_t unknown_;  // the id of all other characters
  std::vector<std::string> tags_;
  lod::Scope scope_;
  lod::PreparedProgram<> program_;
};

}  // namespace lac
