// SPDX-License-Identifier: Apache-2.0
// Operators on sequences, with PaddlePaddle's slots, attributes and defaults; what they compute is tested with the
// operations that they call. paddle_test.py compares each with PaddlePaddle itself.
#include "programs/one_operator.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

using lod::AnyLoDTensor;
using lod::DataType;
using lod::InvalidProgram;
using lod::LoD;
using lod::Shape;
using lod::ShapeMismatch;
using lod_test::apply;
using lod_test::attr;
using lod_test::Floats;
using lod_test::Ids;
using lod_test::numbers;
using lod_test::plain;
using lod_test::ragged;

namespace {

/// Three sequences of 2, 0 and 3 rows: 1 2, 3 4; 5 6, 7 8, 9 10.
lod::LoDTensor<float> five_rows() { return ragged<float>({2, 0, 3}, {2}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}); }
lod::LoDTensor<std::int64_t> five_ids() { return ragged<std::int64_t>({2, 0, 3}, {1}, {4, 2, 2, 4, 7}); }

Floats each_close(const AnyLoDTensor& found, const Floats& expected) {
  Floats result = numbers<float>(found);
  REQUIRE(result.size() == expected.size());
  for (std::size_t i = 0; i < result.size(); ++i) {
    if (std::abs(result[i] - expected[i]) < 1e-5f) result[i] = expected[i];
  }
  return result;
}

}  // namespace

TEST_CASE("sequence_pool: averages by default") {
  const auto pooled = [](const char* type) {
    return apply("sequence_pool", {{"X", {five_rows()}}}, {"Out", "-MaxIndex"},
                 {attr("pooltype", std::string(type)), attr("pad_value", 0.5f)})[0];
  };
  CHECK(numbers<float>(apply("sequence_pool", {{"X", {five_rows()}}}, {"Out"})[0]) == Floats{2, 3, 0, 0, 7, 8});
  CHECK(numbers<float>(pooled("AVERAGE")) == Floats{2, 3, 0.5f, 0.5f, 7, 8});
  CHECK(numbers<float>(pooled("SUM")) == Floats{4, 6, 0.5f, 0.5f, 21, 24});
  CHECK(numbers<float>(pooled("MAX")) == Floats{3, 4, 0.5f, 0.5f, 9, 10});
  CHECK(numbers<float>(pooled("FIRST")) == Floats{1, 2, 0.5f, 0.5f, 5, 6});
  CHECK(numbers<float>(pooled("LAST")) == Floats{3, 4, 0.5f, 0.5f, 9, 10});
  CHECK(each_close(pooled("SQRT"), {2.828427f, 4.242641f, 0.5f, 0.5f, 12.124356f, 13.856406f}).front() == 2.828427f);
  CHECK(pooled("SUM").shape() == Shape{3, 2});
  CHECK(numbers<std::int32_t>(apply("sequence_pool", {{"X", {five_rows()}}}, {"MaxIndex", "-Out"},
                                    {attr("pooltype", std::string("MAX"))})[0]) ==
        std::vector<std::int32_t>{1, 1, -1, -1, 4, 4});
  CHECK(pooled("SUM").levels() == 0);
  CHECK_THROWS_WITH_AS(pooled("MEDIAN"),
                       "block 0, operator 0: operator 'sequence_pool': attribute 'pooltype' has a value that is not "
                       "supported, expected AVERAGE, SUM, SQRT, MAX, FIRST or LAST",
                       InvalidProgram);
}

TEST_CASE("sequence_softmax, sequence_reverse: keep the levels") {
  const auto x = ragged<float>({2, 0, 1}, {1}, {1, 1, 5});
  const auto y = apply("sequence_softmax", {{"X", {x}}}, {"Out"})[0];
  CHECK(numbers<float>(y) == Floats{0.5f, 0.5f, 1});
  CHECK(y.lod() == x.lod());
  const auto reversed = apply("sequence_reverse", {{"X", {five_rows()}}}, {"Y"})[0];
  CHECK(numbers<float>(reversed) == Floats{3, 4, 1, 2, 9, 10, 7, 8, 5, 6});
}

TEST_CASE("sequence_expand: by the last level of Y unless ref_level says otherwise") {
  const auto x = plain<float>({3}, {1, 2, 3});
  const auto nested = lod::LoDTensor<float>(LoD::from_lengths({{1, 0, 2}, {2, 0, 3}}), Shape());
  CHECK(numbers<float>(apply("sequence_expand", {{"X", {x}}, {"Y", {nested}}}, {"Out"})[0]) == Floats{1, 1, 3, 3, 3});
  CHECK(numbers<float>(apply("sequence_expand", {{"X", {x}}, {"Y", {nested}}}, {"Out"}, {attr("ref_level", 0)})[0]) ==
        Floats{1, 3, 3});
  const auto as = apply("sequence_expand_as", {{"X", {x}}, {"Y", {five_ids()}}}, {"Out"})[0];
  CHECK(numbers<float>(as) == Floats{1, 1, 3, 3, 3});
  CHECK(as.lod() == five_ids().lod());
}

TEST_CASE("sequence_concat: any number of inputs") {
  const auto a = ragged<float>({1, 2}, {1}, {1, 2, 3}), b = ragged<float>({0, 1}, {1}, {4});
  const auto y = apply("sequence_concat", {{"X", {a, b, a}}}, {"Out"})[0];
  CHECK(numbers<float>(y) == Floats{1, 1, 2, 3, 4, 2, 3});
  CHECK(y.lod() == LoD::from_lengths({{2, 5}}));
}

TEST_CASE("sequence_conv: windows begin at contextStart, which is 0 by default") {
  const auto x = ragged<float>({2, 0, 1}, {1}, {1, 2, 3});
  const auto filter = plain<float>({2, 1}, {10, 1});
  const auto y = [&](std::vector<lod::OpDesc::Attr> attrs) {
    attrs.push_back(attr("contextLength", 2));
    return numbers<float>(apply("sequence_conv", {{"X", {x}}, {"Filter", {filter}}}, {"Out"}, attrs)[0]);
  };
  CHECK(y({}) == Floats{12, 20, 30});
  CHECK(y({attr("contextStart", -1)}) == Floats{1, 12, 3});
  CHECK_THROWS_AS(y({attr("contextStride", 2)}), InvalidProgram);
  // Rows before and after each sequence that were learnt.
  CHECK(numbers<float>(
            apply("sequence_conv", {{"X", {x}}, {"Filter", {filter}}, {"PaddingData", {plain<float>({1, 1}, {7})}}},
                  {"Out"}, {attr("contextLength", 2), attr("contextStart", -1), attr("paddingTrainable", true)})[0]) ==
        Floats{71, 12, 73});
}

TEST_CASE("row_conv: looks ahead") {
  const auto x = ragged<float>({2, 1}, {1}, {1, 2, 3});
  CHECK(numbers<float>(apply("row_conv", {{"X", {x}}, {"Filter", {plain<float>({2, 1}, {10, 1})}}}, {"Out"})[0]) ==
        Floats{12, 20, 30});
}

TEST_CASE("sequence_pad, sequence_unpad: inverse of each other") {
  const auto padded = apply("sequence_pad", {{"X", {five_rows()}}, {"PadValue", {plain<float>({1}, {-1})}}},
                            {"Out", "Length"}, {attr("padded_length", 4)});
  CHECK(padded[0].shape() == Shape{3, 4, 2});
  CHECK(numbers<std::int64_t>(padded[1]) == Ids{2, 0, 3});
  CHECK(numbers<float>(padded[0])[6] == -1);
  const auto again = apply("sequence_unpad", {{"X", {padded[0]}}, {"Length", {padded[1]}}}, {"Out"})[0];
  CHECK(again.lod() == five_rows().lod());
  CHECK(numbers<float>(again) == numbers<float>(five_rows()));
  CHECK(apply("sequence_unpad", {{"X", {plain<float>({1, 2}, {1, 2})}}, {"Length", {plain<std::int64_t>({1}, {1})}}},
              {"Out"})[0]
            .shape() == Shape{1, 1});
  CHECK_THROWS_AS(
      apply("sequence_pad", {{"X", {five_rows()}}, {"PadValue", {plain<float>({2}, {1, 2})}}}, {"Out", "Length"}),
      ShapeMismatch);
}

TEST_CASE("sequence_slice, sequence_reshape, sequence_scatter") {
  const auto at = plain<std::int64_t>({3, 1}, {1, 0, 1}), length = plain<std::int64_t>({3, 1}, {1, 0, 2});
  const auto part = apply("sequence_slice", {{"X", {five_rows()}}, {"Offset", {at}}, {"Length", {length}}}, {"Out"})[0];
  CHECK(numbers<float>(part) == Floats{3, 4, 7, 8, 9, 10});
  CHECK(part.lod() == LoD::from_lengths({{1, 0, 2}}));
  const auto wide = apply("sequence_reshape", {{"X", {five_rows()}}}, {"Out"}, {attr("new_dim", 1)})[0];
  CHECK(wide.lod() == LoD::from_lengths({{4, 0, 6}}));
  const auto scattered = apply("sequence_scatter",
                               {{"X", {plain<float>({2, 3}, {0, 0, 0, 0, 0, 0})}},
                                {"Ids", {ragged<std::int64_t>({2, 1}, {1}, {0, 0, 2})}},
                                {"Updates", {ragged<float>({2, 1}, {1}, {1, 2, 3})}}},
                               {"Out"})[0];
  CHECK(numbers<float>(scattered) == Floats{3, 0, 0, 0, 0, 3});
}

TEST_CASE("sequence_enumerate, sequence_erase, ctc_align: ids") {
  const auto windows = apply("sequence_enumerate", {{"X", {five_ids()}}}, {"Out"}, {attr("win_size", 2)})[0];
  CHECK(numbers<std::int64_t>(windows) == Ids{4, 2, 2, 0, 2, 4, 4, 7, 7, 0});
  CHECK(windows.shape() == Shape{5, 2});
  const auto kept =
      apply("sequence_erase", {{"X", {five_ids()}}}, {"Out"}, {attr("tokens", std::vector<int>{2, 7})})[0];
  CHECK(numbers<std::int64_t>(kept) == Ids{4, 4});
  CHECK(kept.lod() == LoD::from_lengths({{1, 0, 1}}));
  const auto labels = ragged<std::int64_t>({4, 3}, {1}, {0, 1, 1, 0, 1, 2, 2});
  CHECK(numbers<std::int64_t>(apply("ctc_align", {{"Input", {labels}}}, {"Output"})[0]) == Ids{1, 1, 2});
  CHECK_THROWS_WITH_AS(apply("sequence_erase", {{"X", {five_rows()}}}, {"Out"}, {attr("tokens", std::vector<int>{})}),
                       "block 0, operator 0 'sequence_erase' (X: 'in X0'; Out: 'out Out0'): variable 'in X0': elements "
                       "of FP32, expected INT32 or INT64",
                       ShapeMismatch);
}

TEST_CASE("sequence_mask: of the type that out_dtype says") {
  const auto lengths = plain<std::int64_t>({3}, {1, 0, 2});
  const auto mask = [&](DataType type) {
    return apply("sequence_mask", {{"X", {lengths}}}, {"Y"}, {attr("out_dtype", static_cast<int>(type))})[0];
  };
  CHECK(numbers<float>(mask(DataType::FP32)) == Floats{1, 0, 0, 0, 1, 1});
  CHECK(numbers<std::int64_t>(mask(DataType::INT64)) == Ids{1, 0, 0, 0, 1, 1});
  CHECK(mask(DataType::BOOL).data_type() == DataType::BOOL);
  CHECK_THROWS_AS(mask(DataType::INT8), InvalidProgram);
  const auto wide = apply("sequence_mask", {{"X", {lengths}}}, {"Y"}, {attr("maxlen", 4)})[0];
  CHECK(wide.shape() == Shape{3, 4});
  CHECK(wide.data_type() == DataType::INT64);
  const auto as_wide =
      apply("sequence_mask", {{"X", {lengths}}, {"MaxLenTensor", {plain<std::int32_t>({1}, {4})}}}, {"Y"});
  CHECK(numbers<std::int64_t>(as_wide[0]) == numbers<std::int64_t>(wide));
}

TEST_CASE("sequence_topk_avg_pooling: means of the greatest numbers of a row") {
  const auto x = ragged<float>({4}, {1}, {1, 4, 2, 3});
  const auto row = ragged<float>({2}, {1}, {0, 0}), column = ragged<float>({2}, {1}, {0, 0});
  const auto y = apply("sequence_topk_avg_pooling", {{"X", {x}}, {"ROW", {row}}, {"COLUMN", {column}}}, {"Out", "-pos"},
                       {attr("topks", std::vector<int>{1, 2}), attr("channel_num", 1)})[0];
  CHECK(numbers<float>(y) == Floats{4, 2.5f, 3, 2.5f});
}

TEST_CASE("lod_reset: from the levels of Y, its numbers, or an attribute") {
  const auto x = plain<float>({4, 1}, {1, 2, 3, 4});
  const LoD two = LoD::from_lengths({{1, 3}});
  CHECK(apply("lod_reset", {{"X", {x}}, {"Y", {lod::LoDTensor<float>(two, Shape())}}}, {"Out"})[0].lod() == two);
  CHECK(apply("lod_reset", {{"X", {x}}, {"Y", {plain<std::int32_t>({3}, {0, 1, 4})}}}, {"Out"})[0].lod() == two);
  CHECK(apply("lod_reset", {{"X", {x}}}, {"Out"}, {attr("target_lod", std::vector<int>{0, 1, 4})})[0].lod() == two);
  const auto appended = apply("lod_reset", {{"X", {lod::LoDTensor<float>(two, Shape())}}}, {"Out"},
                              {attr("target_lod", std::vector<int>{0, 1, 2, 2, 4}), attr("append", true)})[0];
  CHECK(appended.lod() == LoD::from_lengths({{1, 3}, {1, 1, 0, 2}}));
  CHECK_THROWS_AS(apply("lod_reset", {{"X", {x}}}, {"Out"}), InvalidProgram);
  CHECK_THROWS_AS(apply("lod_reset", {{"X", {x}}}, {"Out"}, {attr("target_lod", std::vector<int>{0, 3})}),
                  ShapeMismatch);
}

TEST_CASE("im2sequence, edit_distance") {
  const auto image = plain<float>({1, 1, 2, 3}, {1, 2, 3, 4, 5, 6});
  const auto patches = apply("im2sequence", {{"X", {image}}}, {"Out"}, {attr("kernels", std::vector<int>{2, 2})})[0];
  CHECK(numbers<float>(patches) == Floats{1, 2, 4, 5, 2, 3, 5, 6});
  CHECK(patches.lod() == LoD::from_lengths({{2}}));

  const auto found = ragged<std::int64_t>({2, 1, 0}, {1}, {1, 2, 3}),
             expected = ragged<std::int64_t>({2, 2, 0}, {1}, {1, 3, 4, 5});
  const auto distance = apply("edit_distance", {{"Hyps", {found}}, {"Refs", {expected}}}, {"Out", "SequenceNum"});
  CHECK(numbers<float>(distance[0]) == Floats{1, 2, 0});
  CHECK(distance[0].shape() == Shape{3, 1});
  CHECK(numbers<std::int64_t>(distance[1]) == Ids{3});
  CHECK(numbers<float>(apply("edit_distance", {{"Hyps", {found}}, {"Refs", {expected}}}, {"Out", "-SequenceNum"},
                             {attr("normalized", true)})[0]) == Floats{0.5f, 1, 0});
}

TEST_CASE("lookup_table: the last dimension of the ids is gone, unless in its second version") {
  const auto table = plain<float>({3, 2}, {1, 2, 3, 4, 5, 6});
  const auto words = ragged<std::int64_t>({2, 0, 1}, {1}, {2, 0, 1});
  const auto y =
      apply("lookup_table", {{"W", {table}}, {"Ids", {words}}}, {"Out"}, {attr("padding_idx", std::int64_t{1})})[0];
  CHECK(numbers<float>(y) == Floats{5, 6, 1, 2, 0, 0});
  CHECK(y.shape() == Shape{3, 2});
  CHECK(y.lod() == words.lod());
  CHECK(apply("lookup_table_v2", {{"W", {table}}, {"Ids", {words}}}, {"Out"})[0].shape() == Shape{3, 1, 2});
  const auto narrow = ragged<std::int32_t>({2, 0, 1}, {1}, {2, 0, 1});
  CHECK(numbers<float>(apply("lookup_table_v2", {{"W", {table}}, {"Ids", {narrow}}}, {"Out"})[0]) ==
        Floats{5, 6, 1, 2, 3, 4});
  // Ids that are rows themselves.
  CHECK(apply("lookup_table", {{"W", {table}}, {"Ids", {ragged<std::int64_t>({2, 1}, {}, {2, 0, 1})}}}, {"Out"})[0]
            .shape() == Shape{3, 2});
  CHECK_THROWS_WITH_AS(apply("lookup_table", {{"W", {table}}, {"Ids", {plain<std::int64_t>({1, 1}, {3})}}}, {"Out"}),
                       "block 0, operator 0 'lookup_table' (W: 'in W0', Ids: 'in Ids0'; Out: 'out Out0'): embedding: "
                       "id 3 at position 0, expected 0 to 2",
                       lod::OutOfRange);
}

TEST_CASE("crf_decoding: a column of tags, or of whether they are the labels") {
  const auto emission = ragged<float>({2, 0, 1}, {2}, {1, 0, 0, 3, 0, 1});
  const auto transition = plain<float>({4, 2}, {0, 0, 0, 0, 0, -5, 0, 0});  // from tag 0 to tag 1 is dear
  const auto path = apply("crf_decoding", {{"Emission", {emission}}, {"Transition", {transition}}}, {"ViterbiPath"})[0];
  CHECK(numbers<std::int64_t>(path) == Ids{1, 1, 1});
  CHECK(path.shape() == Shape{3, 1});
  CHECK(path.lod() == emission.lod());
  const auto right = apply("crf_decoding",
                           {{"Emission", {emission}},
                            {"Transition", {transition}},
                            {"Label", {ragged<std::int64_t>({2, 0, 1}, {1}, {0, 1, 1})}}},
                           {"ViterbiPath"})[0];
  CHECK(numbers<std::int64_t>(right) == Ids{0, 1, 1});
}

TEST_CASE("linear_chain_crf: the negative logarithm of the likelihood, in a column") {
  const auto loss = apply("linear_chain_crf",
                          {{"Emission", {ragged<float>({1, 0}, {2}, {0, 0})}},
                           {"Transition", {plain<float>({4, 2}, Floats(8))}},
                           {"Label", {ragged<std::int64_t>({1, 0}, {1}, {1})}}},
                          {"LogLikelihood", "-Alpha", "-EmissionExps", "-TransitionExps"})[0];
  CHECK(each_close(loss, {0.6931472f, 0}) == Floats{0.6931472f, 0});
  CHECK(loss.shape() == Shape{2, 1});
}

TEST_CASE("gru: update, reset and candidate of a projected input") {
  // One unit: u = sigmoid(xu + 0.5 h), r = sigmoid(xr - h), c = tanh(xc + r h), h = (1 - u) h + u c.
  const auto input = ragged<float>({2, 0, 1}, {3}, {0, 0, 1, 1, 0, -1, 0, 2, 0.5f});
  const auto weight = plain<float>({1, 3}, {0.5f, -1, 1});
  const std::vector<std::pair<std::string, std::vector<AnyLoDTensor>>> inputs = {{"Input", {input}},
                                                                                 {"Weight", {weight}}};
  const auto sigmoid = [](float v) { return 1 / (1 + std::exp(-v)); };
  const float first = sigmoid(0) * std::tanh(1.0f);
  const float u = sigmoid(1 + 0.5f * first), r = sigmoid(-first), c = std::tanh(-1 + r * first);
  const float other = sigmoid(0) * std::tanh(0.5f);
  const auto hidden = apply("gru", inputs, {"Hidden", "-BatchGate", "-BatchResetHiddenPrev", "-BatchHidden"})[0];
  const Floats expected = {first, (1 - u) * first + u * c, other};
  CHECK(each_close(hidden, expected) == expected);
  CHECK(hidden.lod() == input.lod());
  CHECK(hidden.shape() == Shape{3, 1});

  const auto original = apply("gru", inputs, {"Hidden"}, {attr("origin_mode", true)})[0];
  const float mine = (1 - sigmoid(0)) * std::tanh(1.0f);
  CHECK(each_close(original, {mine, 0, (1 - sigmoid(0)) * std::tanh(0.5f)})[0] == mine);

  // An initial state for each sequence, of which the empty one has none of the rows.
  const auto started = apply("gru", {inputs[0], inputs[1], {"H0", {plain<float>({3, 1}, {0, 9, 1})}}}, {"Hidden"})[0];
  const float u1 = sigmoid(0.5f), c1 = std::tanh(0.5f + sigmoid(2 - 1));
  const Floats with_state = {first, expected[1], (1 - u1) + u1 * c1};
  CHECK(each_close(started, with_state) == with_state);

  const auto linear =
      apply("gru", inputs, {"Hidden"},
            {attr("activation", std::string("relu")), attr("gate_activation", std::string("identity"))});
  CHECK(each_close(linear[0], {0, 0, 0}) == Floats{0, 0, 0});
  CHECK_THROWS_WITH_AS(apply("gru", inputs, {"Hidden"}, {attr("activation", std::string("sinh"))}),
                       "block 0, operator 0: operator 'gru': attribute 'activation' has a value that is not supported, "
                       "expected sigmoid, tanh, relu or identity",
                       InvalidProgram);
  CHECK_THROWS_WITH_AS(apply("gru", {inputs[0], {"Weight", {plain<float>({2, 3}, {1, 2, 3, 4, 5, 6})}}}, {"Hidden"}),
                       "block 0, operator 0 'gru' (Input: 'in Input0', Weight: 'in Weight0'; Hidden: 'out Hidden0'): "
                       "variable 'in Weight0' of shape {2, 3}, expected {1, 3}",
                       ShapeMismatch);
  CHECK_THROWS_AS(apply("gru", {{"Input", {plain<float>({1, 3}, {1, 2, 3})}}, inputs[1]}, {"Hidden"}), lod::InvalidLoD);
}

TEST_CASE("gru_unit: one step of gru") {
  const auto input = ragged<float>({1, 1}, {6}, {0, 1, -1, 2, 0.5f, 1, 1, 0, 0, -2, 1, 0.5f});
  const auto state = plain<float>({2, 2}, {1, -1, 0.5f, 2});
  const auto weight = plain<float>({2, 6}, {1, 2, -1, 0, 0.5f, 1, -2, 1, 1, 0, 1, -1});
  const auto bias = plain<float>({1, 6}, {0, 1, 0, -1, 0.5f, 0});
  for (const bool is_original : {false, true}) {
    const lod_test::Attrs attrs = {attr("origin_mode", is_original)};
    const auto unit =
        apply("gru_unit", {{"Input", {input}}, {"HiddenPrev", {state}}, {"Weight", {weight}}, {"Bias", {bias}}},
              {"Hidden", "-Gate", "-ResetHiddenPrev"}, attrs)[0];
    const auto whole = apply("gru", {{"Input", {input}}, {"H0", {state}}, {"Weight", {weight}}, {"Bias", {bias}}},
                             {"Hidden"}, attrs)[0];
    CHECK(numbers<float>(unit) == numbers<float>(whole));
    CHECK(unit.shape() == Shape{2, 2});
  }
  const char* const names[] = {"identity", "sigmoid", "tanh", "relu"};
  for (std::int32_t gate = 0; gate < 4; ++gate) {
    const std::int32_t candidate = 3 - gate;
    const auto unit = apply("gru_unit", {{"Input", {input}}, {"HiddenPrev", {state}}, {"Weight", {weight}}}, {"Hidden"},
                            {attr("gate_activation", gate), attr("activation", candidate)})[0];
    const auto whole = apply(
        "gru", {{"Input", {input}}, {"H0", {state}}, {"Weight", {weight}}}, {"Hidden"},
        {attr("gate_activation", std::string(names[gate])), attr("activation", std::string(names[candidate]))})[0];
    CHECK(numbers<float>(unit) == numbers<float>(whole));
  }
  CHECK_THROWS_AS(apply("gru_unit", {{"Input", {input}}, {"HiddenPrev", {state}}, {"Weight", {weight}}}, {"Hidden"},
                        {attr("activation", 4)}),
                  InvalidProgram);
  CHECK_THROWS_AS(apply("gru_unit", {{"Input", {input}}, {"HiddenPrev", {weight}}, {"Weight", {weight}}}, {"Hidden"}),
                  ShapeMismatch);
}

TEST_CASE("lstm_unit: one step of lstm from sums of products, gates in the order input, forget, output, candidate") {
  const auto x = plain<float>({2, 4}, {0.5F, -0.25F, 1, 0.75F, 0, 0, 0, 0});
  const auto cell = plain<float>({2, 1}, {2, 3});
  const auto y = apply("lstm_unit", {{"X", {x}}, {"C_prev", {cell}}}, {"C", "H"}, {attr("forget_bias", 1.0F)});
  const auto sigmoid = [](double v) { return 1 / (1 + std::exp(-v)); };
  const double c = sigmoid(0.75) * 2 + sigmoid(0.5) * std::tanh(0.75), next = sigmoid(1) * 3;
  const auto cells = numbers<float>(y[0]), hidden = numbers<float>(y[1]);
  CHECK(cells[0] == doctest::Approx(c));
  CHECK(hidden[0] == doctest::Approx(sigmoid(1) * std::tanh(c)));
  CHECK(cells[1] == doctest::Approx(next));
  CHECK(hidden[1] == doctest::Approx(0.5 * std::tanh(next)));
  const auto none =
      apply("lstm_unit", {{"X", {plain<float>({0, 4}, {})}}, {"C_prev", {plain<float>({0, 1}, {})}}}, {"C", "H"});
  CHECK(none[0].rows() == 0);
  CHECK_THROWS_AS(apply("lstm_unit", {{"X", {x}}, {"C_prev", {x}}}, {"C", "H"}), lod::ShapeMismatch);
}

TEST_CASE("lstm: candidate, input, forget and output gates, with peepholes by default") {
  const auto input = ragged<float>({2, 1}, {4}, {1, 0, 0, 0, -1, 1, 2, 0, 0.5f, 0, 1, 1});
  const auto weight = plain<float>({1, 4}, {1, 0.5f, -0.5f, 2});
  const auto sigmoid = [](float v) { return 1 / (1 + std::exp(-v)); };
  const Floats peepholes = {0.1f, 0.2f, 0.3f};
  const auto step = [&](const Floats& x, float& h, float& c, const Floats& w) {
    const float g = std::tanh(x[0] + h), i = sigmoid(x[1] + 0.5f * h + w[0] * c),
                f = sigmoid(x[2] - 0.5f * h + w[1] * c);
    c = f * c + i * g;
    h = sigmoid(x[3] + 2 * h + w[2] * c) * std::tanh(c);
  };
  for (const bool has_peepholes : {true, false}) {
    const Floats w = has_peepholes ? peepholes : Floats{0, 0, 0};
    float h = 0, c = 0;
    Floats hidden, cell;
    const std::vector<Floats> rows = {{1, 0, 0, 0}, {-1, 1, 2, 0}, {0.5f, 0, 1, 1}};
    for (std::size_t row = 0; row < 3; ++row) {
      if (row == 2) h = c = 0;
      step(rows[row], h, c, w);
      hidden.push_back(h);
      cell.push_back(c);
    }
    const auto bias =
        has_peepholes ? plain<float>({1, 7}, {0, 0, 0, 0, 0.1f, 0.2f, 0.3f}) : plain<float>({1, 4}, {0, 0, 0, 0});
    const auto y = apply("lstm", {{"Input", {input}}, {"Weight", {weight}}, {"Bias", {bias}}},
                         {"Hidden", "Cell", "-BatchGate", "-BatchCellPreAct"},
                         has_peepholes ? lod_test::Attrs() : lod_test::Attrs{attr("use_peepholes", false)});
    CHECK(each_close(y[0], hidden) == hidden);
    CHECK(each_close(y[1], cell) == cell);
    CHECK(y[1].lod() == input.lod());
  }
  const auto with_functions = [&](const std::string& gate, const std::string& candidate, const std::string& cell) {
    const auto y = apply("lstm",
                         {{"Input", {ragged<float>({1, 1}, {4}, {2, 3, 0, 5, -2, 3, 0, 5})}},
                          {"Weight", {weight}},
                          {"Bias", {plain<float>({1, 4}, {0, 0, 0, 0})}}},
                         {"Hidden", "Cell", "-BatchGate"},
                         {attr("use_peepholes", false), attr("gate_activation", gate),
                          attr("candidate_activation", candidate), attr("cell_activation", cell)});
    return Floats{y[1].view<float>().data()[0], y[0].view<float>().data()[0], y[1].view<float>().data()[1],
                  y[0].view<float>().data()[1]};
  };
  CHECK(with_functions("identity", "relu", "identity") == Floats{6, 30, 0, 0});
  CHECK(with_functions("relu", "identity", "relu") == Floats{6, 30, -6, 0});
  CHECK_THROWS_WITH_AS(with_functions("sigmoid", "sine", "tanh"), doctest::Contains("sigmoid, tanh, relu or identity"),
                       InvalidProgram);
  CHECK_THROWS_AS(apply("lstm",
                        {{"Input", {input}},
                         {"Weight", {weight}},
                         {"Bias", {plain<float>({1, 7}, {0, 0, 0, 0, 0, 0, 0})}},
                         {"H0", {plain<float>({2, 1}, {0, 0})}}},
                        {"Hidden", "Cell"}),
                  InvalidProgram);
  CHECK_THROWS_AS(
      apply("lstm", {{"Input", {input}}, {"Weight", {weight}}, {"Bias", {plain<float>({1, 4}, {0, 0, 0, 0})}}},
            {"Hidden", "Cell"}),
      ShapeMismatch);
}
