// SPDX-License-Identifier: Apache-2.0
#include "support/articles.hpp"
#include <lod/io/text.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

using lod::LoD;
using lod::LoDTensor;
using lod_test::articles;

namespace {

template <class X>
std::string printed(const X& x) {
  std::ostringstream out;
  out << x;
  return out.str();
}

}

TEST_CASE("Text: a LoD in one line") {
  CHECK(printed(articles) == "{{0, 3, 4, 6}, {0, 3, 5, 9, 10, 12, 15}}");
  CHECK(to_string(articles) == printed(articles));
  CHECK(printed(LoD()) == "{}");
  CHECK(printed(LoD::from_offsets({{0}, {0}})) == "{{0}, {0}}");
  const LoDTensor<float> x(articles, {2});
  CHECK(printed(x.slice({2}).lod_view()) == "{{10, 15}, {10, 12, 15}}");
  CHECK(printed(x.shape()) == "{15, 2}");
}

TEST_CASE("Text: the drawings of the design document") {
  CHECK(draw(LoD::from_lengths({{3, 1, 2}})) ==
        "3   1 2\n"
        "||| | ||");
  CHECK(draw(articles) ==
        "3           1  2\n"
        "3   2  4    1  2  3\n"
        "||| || |||| |  || |||");
  const LoDTensor<float> x(articles, {2});
  CHECK(draw(x) == draw(articles));
  CHECK(draw(x.slice({2})) ==
        "10      15\n"
        "10  12  15\n"
        "  || |||");
  CHECK(draw(x.slice({2, 0})) ==
        "10  12\n"
        "  ||");
  CHECK(draw(x[2][0]) == "||");
  CHECK(draw(LoDTensor<float>({4})) == "||||");
}

TEST_CASE("Text: three levels are drawn below each other") {
  CHECK(draw(LoD::from_lengths({{2, 1}, {3, 1, 2}, {3, 2, 4, 1, 2, 3}})) ==
        "2              1\n"
        "3           1  2\n"
        "3   2  4    1  2  3\n"
        "||| || |||| |  || |||");
}

TEST_CASE("Text: empty sequences are seen") {
  CHECK(draw(LoD::from_lengths({{0, 0, 2, 0, 1, 0}})) ==
        "0 0 2  0 1 0\n"
        "    ||   |");
  const LoD nested = LoD::from_lengths({{2, 0, 1, 0}, {3, 0, 1}});
  CHECK(draw(nested) ==
        "2     0  1  0\n"
        "3   0    1\n"
        "|||      |");
  CHECK(draw(nested.view()) ==
        "0     3 3 4 4\n"
        "0   3 3   4\n"
        " |||     |");
  CHECK(draw(LoD::from_offsets({{0}})) == "(no sequences)");
  CHECK(draw(LoD()) == "(no level)");
  CHECK(draw(LoDTensor<float>()) == "(no rows)");
}

TEST_CASE("Text: a drawing ends at the column limit and tells what is missing") {
  const LoD wide = LoD::from_lengths({{3, 1000, 2}, std::vector<std::int64_t>(1005, 12)});
  CHECK(draw(wide, 30) ==
        "3                          ...\n"
        "12           12            ...\n"
        "|||||||||||| ||||||||||||  ...\n"
        "(drawn: 1 of 3 sequences, 24 of 12060 rows)");
  CHECK(draw(wide.view(), 30) ==
        "0                          ...\n"
        "0            12            ...\n"
        " |||||||||||| |||||||||||| ...\n"
        "(drawn: 0 of 3 sequences, 24 of 12060 rows)");
  const std::int64_t greatest_offset = std::numeric_limits<std::int64_t>::max();
  CHECK(draw(LoD::from_lengths({{5, greatest_offset - 5}}), 20) ==
        "5                ...\n"
        "||||| |||||||||| ...\n"
        "(drawn: 1 of 2 sequences, 15 of 9223372036854775807 rows)");
}

TEST_CASE("Text: a tensor, a view and selected rows") {
  const auto x =
      LoDTensor<int>::from_nested(std::vector<std::vector<std::vector<int>>>{{{1, 2}, {3}}, {{4, 5, 6}}, {}});
  CHECK(printed(x) ==
        "LoDTensor INT32 {6}, LoD {{0, 2, 3, 3}, {0, 2, 3, 6}}\n"
        "[[[1, 2],\n"
        "  [3]],\n"
        " [[4, 5, 6]],\n"
        " []]");
  CHECK(printed(x[1]) ==
        "LoDTensorView INT32 {3}, first row 3, absolute LoD {{3, 6}}\n"
        "[[4, 5, 6]]");
  LoDTensor<float> y({2, 1, 2});
  y.row(1)[1] = 0.5F;
  CHECK(printed(y) ==
        "LoDTensor FP32 {2, 1, 2}\n"
        "[[[0, 0]],\n"
        " [[0, 0.5]]]");
  lod::SelectedRows<float> g({4, 10}, 20, {2});
  g.value().row(0)[1] = 2;
  CHECK(printed(g) ==
        "SelectedRows FP32 {2, 2}, height 20\n"
        "4: [0, 2]\n"
        "10: [0, 0]");
  g.value() = LoDTensor<float>({3, 2});
  CHECK_THROWS_WITH_AS(printed(g), "SelectedRows: 2 ids, but 3 rows of values", lod::ShapeMismatch);
  CHECK(printed(LoDTensor<float>()) == "LoDTensor FP32 {0}\n[]");
}

TEST_CASE("Text: elements of every size are printed as numbers") {
  LoDTensor<std::int8_t> small({1});
  small.values()[0] = 65;
  CHECK(printed(small) == "LoDTensor INT8 {1}\n[65]");
  LoDTensor<bool> flag({1});
  flag.values()[0] = true;
  CHECK(printed(flag) == "LoDTensor BOOL {1}\n[1]");
  LoDTensor<lod::float16> half({1});
  half.values()[0] = lod::float16(1.5F);
  CHECK(printed(half) == "LoDTensor FP16 {1}\n[1.5]");
  LoDTensor<lod::bfloat16> brain({1});
  brain.values()[0] = lod::bfloat16(-2.0F);
  CHECK(printed(brain) == "LoDTensor BF16 {1}\n[-2]");
}

TEST_CASE("Text: much is shortened, at either end and in all") {
  const LoDTensor<int> x(LoD::from_lengths({std::vector<std::int64_t>(300, 1)}), {});
  CHECK(printed(x) ==
        "LoDTensor INT32 {300}, LoD {{0, 1, 2, ..., 298, 299, 300}}\n"
        "[[0],\n [0],\n [0],\n ...,\n [0],\n [0],\n [0]]");
  const LoDTensor<float> big(LoD::from_lengths({{9, 9, 9, 9, 9, 9, 9}, std::vector<std::int64_t>(63, 9)}), {9, 9});
  CHECK(printed(big).size() < 2000);
}
