// SPDX-License-Identifier: Apache-2.0
#include "analyser.hpp"

#include "../lodinfo/text.hpp"
#include "network.hpp"
#include <lod/io/paddle.hpp>
#include <lod/run.hpp>

#include <charconv>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <utility>

namespace lac {

namespace {

/// The entries of a dictionary, in the order of their numbers: a line for each has its number, a tab, and the entry.
/// Words that have none are empty.
std::vector<std::string> read_dictionary(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error(path + ": it cannot be read, expected the folder lac_small of jieba 0.42.1");
  std::vector<std::string> entries;
  std::string line;
  while (std::getline(file, line)) {
    const std::size_t tab = line.find('\t');
    if (tab == std::string::npos || tab + 1 == line.size()) continue;
    std::size_t number = 0;
    const auto [end, error] = std::from_chars(line.data(), line.data() + tab, number);
    if (error != std::errc() || end != line.data() + tab || number >= 1000000) {
      throw std::runtime_error(path + ": the line '" + lodinfo::printable(line) + "', expected a number below 1000000");
    }
    if (number >= entries.size()) entries.resize(number + 1);
    entries[number] = line.substr(tab + 1);
  }
  return entries;
}

lod::Scope& with_parameters(lod::Scope& scope, const std::string& folder, const lod::ProgramDesc& program) {
  const std::string inner = folder + "/model_baseline";
  for (auto& [name, value] : lod::paddle::load_parameters(std::filesystem::exists(inner) ? inner : folder, program)) {
    scope.var(name).get<lod::AnyLoDTensor>() = std::move(value);
  }
  return scope;
}

}  // namespace

Analyser::Analyser(const std::string& folder, int threads)
    : tags_(read_dictionary(folder + "/tag.dic")),
      program_(lod::CpuExecutor(threads), network(), with_parameters(scope_, folder, network())) {
  const std::vector<std::string> words = read_dictionary(folder + "/word.dic");
  for (std::size_t id = 0; id < words.size(); ++id) ids_.emplace(words[id], static_cast<std::int64_t>(id));
  const auto unknown = ids_.find("OOV");
  if (unknown == ids_.end()) throw std::runtime_error(folder + "/word.dic: there is no OOV, the unknown character");
  unknown_ = unknown->second;
}

lod::LoDTensor<std::int64_t> Analyser::ids(std::span<const std::string> sentences) const {
  std::vector<std::int64_t> lengths, ids;
  for (const std::string& sentence : sentences) {
    const std::size_t before = ids.size();
    for (std::string_view rest = sentence; !rest.empty();) {
      const std::string_view letter = lodinfo::first_letter(rest).bytes;
      const auto found = ids_.find(std::string(letter));
      ids.push_back(found == ids_.end() ? unknown_ : found->second);
      rest.remove_prefix(letter.size());
    }
    lengths.push_back(static_cast<std::int64_t>(ids.size() - before));
  }
  return lod::LoDTensor<std::int64_t>::from_values(lod::LoD::from_lengths({lengths}), {1}, ids);
}

std::span<const std::int64_t> Analyser::run(lod::LoDTensor<std::int64_t> ids) {
  return program_.run({{"word", lod::AnyLoDTensor(std::move(ids))}})[0].view<std::int64_t>().values();
}

std::vector<std::vector<Word>> Analyser::analyse(std::span<const std::string> sentences) {
  const std::span<const std::int64_t> numbers = run(ids(sentences));
  std::vector<std::vector<Word>> result(sentences.size());
  auto number = numbers.begin();
  for (std::size_t i = 0; i < sentences.size(); ++i) {
    std::string_view before;
    for (std::string_view rest = sentences[i]; !rest.empty(); ++number) {
      const std::string_view letter = lodinfo::first_letter(rest).bytes;
      rest.remove_prefix(letter.size());
      // "n-B" begins a noun, "n-I" is inside one; "O" is outside of all kinds.
      const std::string_view tag = tags_.at(static_cast<std::size_t>(*number));
      const bool begins = before.empty() || tag.ends_with("-B") || (tag == "O" && before != "O");
      if (begins) result[i].push_back({"", std::string(tag.substr(0, tag.find('-')))});
      result[i].back().text += letter;
      before = tag;
    }
  }
  return result;
}

}  // namespace lac
