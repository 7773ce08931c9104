// SPDX-License-Identifier: Apache-2.0
/// @file
/// A program from outside: what a user of the library writes first. The little projects beside it build it, each
/// in its own way. It checks the numbers it prints, so a header that is found but stale is noticed.
#include <lod/lod.hpp>

#include <cstdint>
#include <iostream>
#include <vector>

int main() {
  // Three articles of 3, 1 and 2 sentences; the sentences have 3 2 4, 1, and 2 3 words; a row stands for a word.
  const lod::LoD index = lod::LoD::from_lengths({{3, 1, 2}, {3, 2, 4, 1, 2, 3}});
  lod::LoDTensor<float> words(index, {2});
  for (float& value : words.values()) value = 1;

  const auto last_article = words.slice({2});
  const auto sentences = lod::sequence_pool(words, lod::PoolType::SUM);
  const auto articles = lod::sequence_pool(sentences, lod::PoolType::AVERAGE);

  std::cout << "lodtensor " << lod::version << ": " << index.rows() << " words, " << sentences.rows() << " sentences, "
            << articles.rows() << " articles\n";
  const std::vector<std::vector<std::int64_t>> expected = {{10, 15}, {10, 12, 15}};
  const bool right = index.rows() == 15 && last_article.absolute_lod() == expected && sentences.row(2)[1] == 4 &&
                     sentences.lod() == lod::LoD::from_lengths({{3, 1, 2}}) && articles.rows() == 3 &&
                     articles.row(0)[0] == 3;
  return right ? 0 : 1;
}
