// SPDX-License-Identifier: Apache-2.0
// Operators on labels of sequences: worked numbers; paddle_test.py compares them with PaddlePaddle's.
#include "programs/one_operator.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

using lod_test::apply;
using lod_test::attr;
using lod_test::numbers;
using lod_test::plain;
using lod_test::ragged;

namespace {

void check_close(const std::vector<double>& found, const std::vector<double>& expected) {
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) CHECK(found[i] == doctest::Approx(expected[i]));
}

}  // namespace

TEST_CASE("warpctc: sequences, and padded frames with lengths, of which other numbers do not count") {
  // All classes are as probable as each other; the label of the last sequence does not fit into its frame.
  const auto logits = ragged<double>({2, 1, 1}, {3}, std::vector<double>(12));
  const auto label = ragged<std::int32_t>({1, 0, 2}, {1}, {2, 1, 2});
  const auto found = apply("warpctc", {{"Logits", {logits}}, {"Label", {label}}}, {"Loss", "WarpCTCGrad"});
  check_close(numbers<double>(found[0]), {std::log(3), std::log(3), 0});
  CHECK(found[1].shape() == lod::Shape{2, 3, 3});
  const double third = 1.0 / 3;
  check_close(numbers<double>(found[1]),
              {0, third, -third, -2 * third, third, third, 0, 0, 0, 0, third, -third, 0, 0, 0, 0, 0, 0});
  const double nan = std::nan("");
  const auto padded = plain<double>({3, 2, 2}, {0, 0, 0, 0, 0, 0, nan, nan, nan, nan, nan, nan});
  const auto of_padded = apply("warpctc",
                               {{"Logits", {padded}},
                                {"Label", {plain<std::int64_t>({2, 2}, {0, -9, -9, 77})}},
                                {"LogitsLength", {plain<std::int64_t>({2}, {2, 1})}},
                                {"LabelLength", {plain<std::int64_t>({2}, {1, 0})}}},
                               {"Loss", "WarpCTCGrad"}, {attr("blank", 1)});
  check_close(numbers<double>(of_padded[0]), {std::log(4.0 / 3), std::log(2)});
  CHECK(of_padded[1].shape() == lod::Shape{3, 2, 2});
  check_close(numbers<double>(of_padded[1]), {-0.5 / 3, 0.5 / 3, 0.5, -0.5, -0.5 / 3, 0.5 / 3, 0, 0, 0, 0, 0, 0});
}

TEST_CASE("warpctc: what is refused") {
  const auto logits = ragged<float>({2}, {3}, std::vector<float>(6)),
             dense = plain<float>({2, 3}, std::vector<float>(6));
  const auto label = ragged<std::int32_t>({1}, {1}, {1});
  const auto lengths = plain<std::int64_t>({1}, {2}), wrong = plain<std::int64_t>({1}, {3});
  const auto padded = plain<float>({2, 1, 3}, std::vector<float>(6));
  const auto labels = plain<std::int32_t>({1, 1}, {1});
  const auto refused = [](const auto& inputs, const char* text, int blank = 0) {
    CHECK_THROWS_WITH(apply("warpctc", inputs, {"Loss", "WarpCTCGrad"}, {attr("blank", blank)}),
                      doctest::Contains(text));
  };
  using Inputs = std::vector<std::pair<std::string, std::vector<lod::AnyLoDTensor>>>;
  refused(Inputs{{"Logits", {padded}}, {"Label", {labels}}, {"LogitsLength", {lengths}}}, "'LogitsLength' alone");
  refused(Inputs{{"Logits", {dense}}, {"Label", {label}}}, "has no level");
  refused(Inputs{{"Logits", {logits}}, {"Label", {label}}}, "blank 3, expected one of 3 classes", 3);
  refused(Inputs{{"Logits", {logits}}, {"Label", {labels}}, {"LogitsLength", {lengths}}, {"LabelLength", {lengths}}},
          "expected {longest, sequences, classes}");
  refused(Inputs{{"Logits", {padded}}, {"Label", {labels}}, {"LogitsLength", {wrong}}, {"LabelLength", {lengths}}},
          "length");
}

TEST_CASE("chunk_eval: sequences, and padded labels with lengths; what is refused") {
  const std::vector<std::string> outputs = {"Precision",      "Recall",         "F1-Score",
                                            "NumInferChunks", "NumLabelChunks", "NumCorrectChunks"};
  const auto check = [&](const std::vector<lod::AnyLoDTensor>& found, double precision, double recall, double f1,
                         const lod_test::Ids& counts) {
    CHECK(numbers<float>(found[0])[0] == doctest::Approx(precision));
    CHECK(numbers<float>(found[1])[0] == doctest::Approx(recall));
    CHECK(numbers<float>(found[2])[0] == doctest::Approx(f1));
    for (std::size_t i = 0; i < 3; ++i) CHECK(numbers<std::int64_t>(found[3 + i]) == lod_test::Ids{counts[i]});
  };
  const auto label = ragged<std::int64_t>({4, 0, 2}, {1}, {0, 1, 6, 2, 3, 4});
  const auto inference = ragged<std::int64_t>({4, 0, 2}, {1}, {0, 1, 6, 2, 2, 3});
  check(apply("chunk_eval", {{"Inference", {inference}}, {"Label", {label}}}, outputs, {attr("num_chunk_types", 3)}),
        2.0 / 3, 0.5, 4.0 / 7, {3, 4, 2});
  const auto padded = [](const std::vector<std::int64_t>& numbers_of) {
    return plain<std::int64_t>({2, 3}, numbers_of);
  };
  const auto found = apply("chunk_eval",
                           {{"Inference", {padded({2, 3, 5, 0, 0, 0})}},
                            {"Label", {padded({2, 2, 3, 0, 4, 4})}},
                            {"SeqLength", {plain<std::int64_t>({2}, {2, 1})}}},
                           outputs,
                           {attr("num_chunk_types", 3), attr("chunk_scheme", std::string("IOE")),
                            attr("excluded_chunk_types", std::vector<int>{0})});
  check(found, 1, 1, 1, {1, 1, 1});
  const auto refused = [&](const lod_test::Attrs& attrs, const char* text) {
    CHECK_THROWS_WITH(apply("chunk_eval", {{"Inference", {inference}}, {"Label", {label}}}, outputs, attrs),
                      doctest::Contains(text));
  };
  refused({attr("num_chunk_types", 0)}, "'num_chunk_types'");
  refused({attr("num_chunk_types", 3), attr("chunk_scheme", std::string("BIO"))}, "expected IOB, IOE, IOBES or plain");
  refused({attr("num_chunk_types", 2)}, "Inference: id 6 at position 2, expected 0 to 4");
}
