// SPDX-License-Identifier: Apache-2.0
/// @file
/// The pictures and numbers of the LoD design document, and the core of the library's own contract.
#include <lod/lod_tensor.hpp>
#include <lod/selected_rows.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

using lod::LoD;
using Numbers = std::vector<std::int64_t>;
using Levels = std::vector<std::vector<std::int64_t>>;

namespace {
Numbers numbers(std::span<const std::int64_t> span) { return {span.begin(), span.end()}; }
const Levels lengths_of_articles = {{3, 1, 2}, {3, 2, 4, 1, 2, 3}};
}  // namespace

TEST_CASE("Design document: a mini-batch of sentences of 3, 1 and 2 words") {
  const lod::LoDTensor<float> x(LoD::from_lengths({{3, 1, 2}}), {5});
  CHECK(x.shape() == Numbers{3 + 1 + 2, 5});
  CHECK(x.levels() == 1);
  CHECK(x.size() == 3);
  CHECK(x[0].rows() == 3);
  CHECK(x[1].rows() == 1);
  CHECK(x[2].rows() == 2);
}

TEST_CASE("Design document: articles of sentences of words") {
  const lod::LoDTensor<float> x(LoD::from_lengths(lengths_of_articles), {5});
  CHECK(x.levels() == 2);
  CHECK(x.rows() == 15);
  Numbers sentences, words;
  for (auto article : x) {
    sentences.push_back(article.size());
    for (auto sentence : article) words.push_back(sentence.rows());
  }
  CHECK(sentences == lengths_of_articles[0]);
  CHECK(words == lengths_of_articles[1]);
}

TEST_CASE("Design document: videos of 640 x 480 frames") {
  const lod::LoDTensor<std::uint8_t> x(LoD::from_lengths({{3, 1, 2}}), {640, 480});
  CHECK(x.shape() == Numbers{3 + 1 + 2, 640, 480});
  CHECK(x[2].row(1).size() == 640 * 480);
}

TEST_CASE("Design document: a batch of images is a plain tensor, with or without its ones") {
  const lod::LoDTensor<float> ones(LoD::from_lengths({Numbers(10, 1)}), {32, 32});
  const lod::LoDTensor<float> plain({10, 32, 32});
  CHECK(ones.shape() == plain.shape());
  CHECK(ones.size() == plain.size());
  CHECK(plain.levels() == 0);
  CHECK(plain[3].shape() == ones[3].shape());
  CHECK(plain[3].data() == plain.data() + 3 * 32 * 32);
}

TEST_CASE("Design document: a model parameter has no level") {
  const lod::LoDTensor<float> w({784, 200});
  CHECK(w.levels() == 0);
  CHECK(w.shape() == Numbers{784, 200});
  CHECK(w.lod() == LoD());
}

TEST_CASE("Design document: lengths become offsets") {
  const LoD index = LoD::from_lengths(lengths_of_articles);
  CHECK(numbers(index.offsets(1)) == Numbers{0, 3, 5, 9, 10, 12, 15});
  CHECK(numbers(index.offsets(0)) == Numbers{0, 3, 4, 6});
  CHECK(index.lengths() == lengths_of_articles);
}

TEST_CASE("Design document: branch <0, 2> is the third sentence, of length 4") {
  const lod::LoDTensor<float> x(LoD::from_lengths(lengths_of_articles), {2});
  CHECK(x.slice({0, 2}).rows() == 4);
  CHECK(x[0][2].rows() == 4);
}

TEST_CASE("Design document: the <2>-slice, and the <2, 0>-slice") {
  const lod::LoDTensor<float> x(LoD::from_lengths(lengths_of_articles), {2});
  CHECK(x.slice({2}).absolute_lod() == Levels{{10, 15}, {10, 12, 15}});
  CHECK(x.slice({2, 0}).absolute_lod() == Levels{{10, 12}});
  CHECK(x.slice({2}).slice({0, 0}).absolute_lod() == Levels{{10, 12}});
}

TEST_CASE("Contract: the index") {
  const LoD index = LoD::from_lengths({{3, 1, 2}, {3, 2, 4, 1, 2, 3}});
  const LoD same = LoD::from_offsets({{0, 3, 4, 6}, {0, 3, 5, 9, 10, 12, 15}});
  CHECK(index == same);
  CHECK(index.levels() == 2);
  CHECK(index.rows() == 15);
  CHECK(index.size(1) == 6);
  CHECK(index.lengths(1) == Numbers{3, 2, 4, 1, 2, 3});
  CHECK(index.absolute_offsets(0) == Numbers{0, 9, 10, 15});
  CHECK(index.max_length(1) == 4);
  CHECK(index.row_ids(1) == Numbers{0, 0, 0, 1, 1, 2, 2, 2, 2, 3, 4, 4, 5, 5, 5});
}

TEST_CASE("Contract: the tensor and its slices") {
  const LoD index = LoD::from_lengths(lengths_of_articles);
  lod::LoDTensor<float> x(index, {640, 480});
  CHECK(x.shape() == std::initializer_list<std::int64_t>{15, 640, 480});
  CHECK(x.shape()[1] == 640);
  CHECK(x.shape().size() == 3);
  CHECK(x.row_shape() == Numbers{640, 480});
  CHECK(x.row_size() == 640 * 480);
  CHECK(x.values().size() == 15 * 640 * 480);
  CHECK(x.values()[17] == 0.0F);
  CHECK(x.row(3).data() == x.data() + 3 * x.row_size());

  const auto t =
      lod::LoDTensor<int>::from_nested(std::vector<std::vector<std::vector<int>>>{{{1, 2}, {3}}, {{4, 5, 6}}});
  CHECK(t.lod() == LoD::from_lengths({{2, 1}, {2, 1, 3}}));
  CHECK(t.shape() == Numbers{6});
  CHECK(std::vector<int>(t.values().begin(), t.values().end()) == std::vector<int>{1, 2, 3, 4, 5, 6});

  const auto s = x.slice({2});
  CHECK(s.lod() == LoD::from_offsets({{0, 2}, {0, 2, 5}}));
  CHECK(s.rows() == 5);
  CHECK(s.first_row() == 10);
  CHECK(s.data() == x.data() + 10 * x.row_size());
  CHECK(x.between(0, 2).lod() == LoD::from_lengths({{3, 1}, {3, 2, 4, 1}}));
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  CHECK(x.slice(0, 2).lod() == x.between(0, 2).lod());
#pragma GCC diagnostic pop
  CHECK(x[2].absolute_lod() == Levels{{10, 12, 15}});
  CHECK(x[2][0].levels() == 0);
  CHECK(x[2][0].rows() == 2);
  CHECK(x[2][0].first_row() == 10);
}

TEST_CASE("Contract: row-sparse tensors") {
  const lod::SelectedRows<float> g({4, 0, 4}, 10, {8});
  CHECK(g.rows() == Numbers{4, 0, 4});
  CHECK(g.height() == 10);
  CHECK(g.value().shape() == Numbers{3, 8});
  CHECK(g.value().levels() == 0);
  CHECK(g.find(0) == 1);
  CHECK(g.find(7) == -1);
  CHECK(g.contains(4));
  CHECK_THROWS_AS(g.index_of(7), lod::OutOfRange);
}
