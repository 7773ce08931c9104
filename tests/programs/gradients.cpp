// SPDX-License-Identifier: Apache-2.0
// The gradients of operators on sequences, as these describe them: on double against differences, on float against
// those; twice, since a second run must allocate nothing. paddle_test.py compares them with PaddlePaddle's.
#include "programs/operator_gradients.hpp"
#include "programs/other_libraries.hpp"
#include "support/count_allocations.hpp"
#include "support/random_batch.hpp"
#include "support/random_lod.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

using lod::AnyLoDTensor;
using lod::LoD;
using lod::LoDTensor;
using lod::Shape;
using lod_test::attr;
using lod_test::Engine;
using lod_test::numbers;
using lod_test::plain;
using lod_test::ragged;
using lod_test::real_numbers;

namespace {

using Lengths = std::vector<std::vector<std::int64_t>>;

/// What tests draw from the seed.
class Gradients {
 protected:
  /// Random numbers in sequences of these lengths.
  AnyLoDTensor rows(const Lengths& lengths, const Shape& row_shape = {2}) {
    return real_numbers<double>(engine_, LoD::from_lengths(lengths), row_shape);
  }
  AnyLoDTensor dense(const Shape& shape) { return real_numbers<double>(engine_, shape); }
  void check(const lod_test::GradientSample& sample) { lod_test::check_gradients(engine_, sample); }

  Engine engine_ = Engine(lod_test::first_seed());
};

/// Batches with an empty sequence, with two levels, and without sequences.
const Lengths batches[] = {{{2, 0, 3}}, {{1, 0, 2}, {3, 0, 1}}, {{}}};

}  // namespace

TEST_CASE_FIXTURE(Gradients, "sequence_pool, sequence_softmax, sequence_reverse: gradients") {
  for (const Lengths& lengths : batches) {
    const auto x = rows(lengths);
    for (const char* pool : {"AVERAGE", "SUM", "SQRT", "MAX", "FIRST", "LAST"}) {
      check({"sequence_pool",
             {{"X", {x}}},
             {"Out", "MaxIndex"},
             {attr("pooltype", std::string(pool)), attr("pad_value", 0.5f)}});
    }
    check({"sequence_softmax", {{"X", {x}}}, {"Out"}});
    check({"sequence_reverse", {{"X", {x}}}, {"Y"}});
  }
}

TEST_CASE_FIXTURE(Gradients, "sequence_expand, sequence_expand_as, sequence_concat: gradients") {
  const auto nested = rows({{2, 0, 1}, {3, 0, 2}});
  check({"sequence_expand", {{"X", {dense({3, 2})}}, {"Y", {nested}}}, {"Out"}, {}, {"Y"}});
  check({"sequence_expand", {{"X", {rows({{1, 2, 2}})}}, {"Y", {nested}}}, {"Out"}, {attr("ref_level", 0)}, {"Y"}});
  check({"sequence_expand_as", {{"X", {dense({3, 2})}}, {"Y", {rows({{2, 0, 3}})}}}, {"Out"}, {}, {"Y"}});
  check({"sequence_concat", {{"X", {rows({{2, 0, 3}}), rows({{0, 0, 1}}), rows({{1, 1, 1}})}}}, {"Out"}});
  check({"sequence_concat", {{"X", {rows({{}}), rows({{}})}}}, {"Out"}});
}

TEST_CASE("sequence_unpad_grad: refuses other sequences") {
  const auto x = plain<float>({2, 3, 1}, lod_test::Floats(6)), rows = ragged<float>({3}, {1}, {1, 2, 3});
  CHECK_THROWS_AS(lod_test::apply("sequence_unpad_grad", {{"X", {x}}, {"Out@GRAD", {rows}}}, {"X@GRAD"}),
                  lod::ShapeMismatch);
  CHECK_THROWS_AS(lod_test::apply("sequence_unpad_grad", {{"X", {rows}}, {"Out@GRAD", {x}}}, {"X@GRAD"}),
                  lod::ShapeMismatch);
}

TEST_CASE("sequence_concat_grad: an input may need none") {
  const auto x = ragged<float>({1, 2}, {}, {1, 2, 3}), dy = ragged<float>({2, 4}, {}, {1, 2, 3, 4, 5, 6});
  const lod::OpDesc op =
      lod_test::op("sequence_concat_grad", {{"X", {"x", "y"}}, {"Out@GRAD", {"dy"}}}, {{"X@GRAD", {"@EMPTY@", "d"}}});
  lod::ProgramDesc program = lod_test::program_of({op});
  lod::Scope scope;
  const auto found = lod::run(program, scope, {.feed = {{"x", x}, {"y", x}, {"dy", dy}}, .fetch = {"d"}});
  CHECK(numbers<float>(found[0]) == lod_test::Floats{2, 5, 6});
}

TEST_CASE_FIXTURE(Gradients, "sequence_conv, row_conv: gradients by filter and padding too") {
  for (const Lengths& lengths : batches) {
    const auto x = rows(lengths), filter = dense({6, 3});
    check({"sequence_conv",
           {{"X", {x}}, {"Filter", {filter}}},
           {"Out"},
           {attr("contextLength", 3), attr("contextStart", -1)}});
    check({"row_conv", {{"X", {x}}, {"Filter", {dense({2, 2})}}}, {"Out"}});
    check({"sequence_conv",
           {{"X", {x}}, {"Filter", {filter}}, {"PaddingData", {dense({2, 2})}}},
           {"Out"},
           {attr("contextLength", 3), attr("contextStart", -1), attr("paddingTrainable", true)}});
  }
  // Of the filter alone.
  check({"sequence_conv",
         {{"X", {rows({{2, 1}})}}, {"Filter", {dense({4, 1})}}},
         {"Out"},
         {attr("contextLength", 2)},
         {"X"}});
}

TEST_CASE_FIXTURE(Gradients, "sequence_pad, sequence_unpad, sequence_slice, sequence_reshape, lod_reset: gradients") {
  const auto x = rows({{2, 0, 3}});
  check({"sequence_pad",
         {{"X", {x}}, {"PadValue", {dense({1})}}},
         {"Out", "Length"},
         {attr("padded_length", 4)},
         {"PadValue"}});
  const auto lengths = plain<std::int64_t>({3}, {2, 0, 3});
  for (const Shape& shape : {Shape{3, 4, 2}, Shape{3, 4}}) {
    check({"sequence_unpad", {{"X", {dense(shape)}}, {"Length", {lengths}}}, {"Out"}});
  }
  check({"sequence_slice",
         {{"X", {x}},
          {"Offset", {plain<std::int64_t>({3, 1}, {1, 0, 0})}},
          {"Length", {plain<std::int64_t>({3, 1}, {1, 0, 2})}}},
         {"Out"}});
  for (const Lengths& batch : batches) {
    check({"sequence_reshape", {{"X", {rows(batch)}}}, {"Out"}, {attr("new_dim", 1)}});
  }
  check({"lod_reset", {{"X", {x}}}, {"Out"}, {attr("target_lod", std::vector<int>{0, 4, 5})}});
}

TEST_CASE_FIXTURE(Gradients, "sequence_scatter, sequence_topk_avg_pooling, im2sequence: gradients") {
  check({"sequence_scatter",
         {{"X", {dense({3, 4})}},
          {"Ids", {ragged<std::int64_t>({2, 0, 3}, {1}, {1, 1, 0, 3, 0})}},
          {"Updates", {rows({{2, 0, 3}}, {1})}}},
         {"Out"}});
  const auto levels = [](const std::vector<std::int64_t>& lengths) {
    return LoDTensor<float>(LoD::from_lengths({lengths}), {1});
  };
  check({"sequence_topk_avg_pooling",
         {{"X", {rows({{12, 0, 4}}, {1})}}, {"ROW", {levels({2, 0, 1})}}, {"COLUMN", {levels({3, 2, 2})}}},
         {"Out", "pos"},
         {attr("topks", std::vector<int>{1, 3}), attr("channel_num", 2)}});
  check({"im2sequence",
         {{"X", {dense({2, 2, 3, 4})}}},
         {"Out"},
         {attr("kernels", std::vector<int>{2, 2}), attr("strides", std::vector<int>{1, 2}),
          attr("paddings", std::vector<int>{1, 0, 0, 1})}});
}

TEST_CASE_FIXTURE(Gradients, "warpctc: gradients by sequences and by padded frames") {
  const auto logits = rows({{4, 0, 2, 3}}, {3}), padded = dense({4, 2, 3});
  const auto label = ragged<std::int32_t>({2, 0, 2, 1}, {1}, {1, 2, 1, 1, 2});
  check({"warpctc", {{"Logits", {logits}}, {"Label", {label}}}, {"Loss", "WarpCTCGrad"}});
  check({"warpctc",
         {{"Logits", {padded}},
          {"Label", {plain<std::int64_t>({2, 2}, {0, 1, 1, 7})}},
          {"LogitsLength", {plain<std::int64_t>({2}, {4, 2})}},
          {"LabelLength", {plain<std::int64_t>({2}, {2, 1})}}},
         {"Loss", "WarpCTCGrad"},
         {attr("blank", 2)}});
}

TEST_CASE_FIXTURE(Gradients, "conv2d, conv2d_transpose, depthwise_conv2d: gradients by images and filters") {
  using Ints = std::vector<int>;
  lod_test::by_each_library([&] {
    for (const bool channels_last : {false, true}) {
      const auto layout = attr("data_format", std::string(channels_last ? "NHWC" : "NCHW"));
      const auto images = [&](std::int64_t count, std::int64_t channels) {
        return dense(channels_last ? Shape{count, 5, 4, channels} : Shape{count, channels, 5, 4});
      };
      check({"conv2d",
             {{"Input", {images(2, 4)}}, {"Filter", {dense({6, 2, 3, 2})}}},
             {"Output"},
             {layout, attr("groups", 2), attr("strides", Ints{2, 1}), attr("paddings", Ints{1, 0, 0, 2}),
              attr("dilations", Ints{1, 2})}});
      check({"conv2d", {{"Input", {images(2, 3)}}, {"Filter", {dense({2, 3, 1, 1})}}}, {"Output"}, {layout}});
      check({"conv2d", {{"Input", {images(0, 3)}}, {"Filter", {dense({2, 3, 3, 3})}}}, {"Output"}, {layout}});
      check({"depthwise_conv2d",
             {{"Input", {images(2, 3)}}, {"Filter", {dense({6, 1, 2, 3})}}},
             {"Output"},
             {layout, attr("groups", 3), attr("padding_algorithm", std::string("SAME"))}});
      for (const auto& attrs : {lod_test::Attrs{layout, attr("groups", 2), attr("strides", Ints{2, 3})},
                                {layout, attr("dilations", Ints{2, 1}), attr("paddings", Ints{1, 0, 0, 2})},
                                {layout, attr("strides", Ints{2, 2}), attr("output_size", Ints{12, 9})},
                                {layout, attr("padding_algorithm", std::string("SAME"))}}) {
        check({"conv2d_transpose", {{"Input", {images(2, 4)}}, {"Filter", {dense({4, 3, 3, 2})}}}, {"Output"}, attrs});
      }
      check({"conv2d_transpose", {{"Input", {images(0, 4)}}, {"Filter", {dense({4, 3, 3, 2})}}}, {"Output"}, {layout}});
      check({"depthwise_conv2d_transpose",
             {{"Input", {images(2, 4)}}, {"Filter", {dense({4, 1, 2, 2})}}},
             {"Output"},
             {layout, attr("groups", 4)}});
    }
  });
}

TEST_CASE_FIXTURE(Gradients, "group_norm, instance_norm, lrn: gradients by all inputs") {
  for (const bool channels_last : {false, true}) {
    const std::string name = channels_last ? "NHWC" : "NCHW";
    const auto layout = attr("data_format", name);
    const auto images = [&](std::int64_t count) {
      return dense(channels_last ? Shape{count, 3, 2, 4} : Shape{count, 4, 3, 2});
    };
    for (const std::int64_t count : {2, 0}) {
      for (const int groups : {1, 2}) {
        check({"group_norm",
               {{"X", {images(count)}}, {"Scale", {dense({4})}}, {"Bias", {dense({4})}}},
               {"Y", "Mean", "Variance"},
               {attr("data_layout", name), attr("groups", groups)}});
      }
      check({"group_norm", {{"X", {images(count)}}}, {"Y", "Mean", "Variance"}, {attr("data_layout", name)}});
      check({"lrn", {{"X", {images(count)}}}, {"Out", "MidOut"}, {layout, attr("n", 3), attr("alpha", 0.5F)}});
      check({"instance_norm",
             {{"X", {dense({count, 3, 4, 2})}}, {"Scale", {dense({3})}}, {"Bias", {dense({3})}}},
             {"Y", "SavedMean", "SavedVariance"}});
    }
  }
}

TEST_CASE_FIXTURE(Gradients, "pool2d: gradients by images") {
  using Ints = std::vector<int>;
  lod_test::by_each_library([&] {
    for (const char* pool : {"max", "avg"}) {
      const auto which = attr("pooling_type", std::string(pool));
      for (const bool flag : {false, true}) {
        check({"pool2d",
               {{"X", {dense({2, 3, 5, 4})}}},
               {"Out"},
               {which, attr("exclusive", flag), attr("ceil_mode", flag), attr("ksize", Ints{3, 2}),
                attr("strides", Ints{2, 1}), attr("paddings", Ints{1, 1})}});
        check({"pool2d",
               {{"X", {dense({2, 5, 4, 3})}}},
               {"Out"},
               {which, attr("data_format", std::string("NHWC")), attr("ksize", Ints{3, 3}),
                attr("adaptive", flag && pool[0] == 'a'), attr("global_pooling", !flag)}});
      }
      const Ints huge = {1 << 30, 1 << 30},
                 paddings = {huge[0] - 1, huge[0] - 1};  // of which few pixels are in the images
      check({"pool2d",
             {{"X", {dense({1, 2, 2, 3})}}},
             {"Out"},
             {which, attr("ksize", huge), attr("strides", huge), attr("paddings", paddings)}});
      check({"pool2d", {{"X", {dense({0, 3, 5, 4})}}}, {"Out"}, {which, attr("ksize", Ints{2, 2})}});
    }
  });
}

TEST_CASE_FIXTURE(Gradients, "nce: gradients by rows, weights and bias") {
  lod_test::GradientSample sample = {"nce",
                                     {{"Input", {dense({3, 2})}},
                                      {"Label", {plain<std::int64_t>({3, 2}, {0, 4, 2, 2, 1, 4})}},
                                      {"Weight", {dense({5, 2})}},
                                      {"Bias", {dense({5, 1})}}},
                                     {"Cost", "SampleLogits", "SampleLabels"},
                                     {attr("num_total_classes", 5), attr("num_neg_samples", 4), attr("seed", 3)}};
  check(sample);
  sample.inputs[0].second[0] = dense({0, 2});
  sample.inputs[1].second[0] = plain<std::int64_t>({0, 2}, {});
  check(sample);
  sample.inputs[0].second[0] = dense({2, 2});
  sample.inputs[1].second[0] = plain<std::int64_t>({2}, {0, 3});
  sample.inputs.pop_back();
  sample.attrs.push_back(attr("sampler", 1));
  check(sample);
}

TEST_CASE_FIXTURE(Gradients, "lookup_table, lookup_table_v2: gradients by the table") {
  const auto ids = ragged<std::int64_t>({2, 0, 3}, {1}, {3, 0, 1, 3, 2});
  for (const char* type : {"lookup_table", "lookup_table_v2"}) {
    for (const std::int64_t padding : {-1, 2}) {
      check({type, {{"W", {dense({4, 2})}}, {"Ids", {ids}}}, {"Out"}, {attr("padding_idx", padding)}});
    }
  }
}

TEST_CASE("lookup_table_grad: a sparse gradient lists the ids") {
  const auto ids = ragged<std::int64_t>({2, 0, 3}, {1}, {3, 0, 1, 3, 2});
  const auto dy = ragged<float>({2, 0, 3}, {2}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10});
  lod::ProgramDesc program = lod_test::program_of(
      {lod_test::op("lookup_table_grad", {{"W", {"w"}}, {"Ids", {"ids"}}, {"Out@GRAD", {"dy"}}}, {{"W@GRAD", {"dw"}}},
                    {attr("is_sparse", true), attr("padding_idx", std::int64_t{1})})});
  for (lod::VarDesc& var : program.blocks[0].vars) {
    if (var.name == "dw") var = {.name = "dw", .type = {.type = lod::VarType::SELECTED_ROWS}, .persistable = true};
  }
  lod::Scope scope;
  lod::PreparedProgram prepared(lod::CpuExecutor(1), program, scope);
  const lod::Feed feed = {{"w", AnyLoDTensor(plain<float>({5, 2}, lod_test::Floats(10)))}, {"ids", ids}, {"dy", dy}};
  prepared.run(feed);
  const std::int64_t so_far = lod_test::allocations;
  prepared.run(feed);
  if (lod_test::counts_allocations) CHECK(lod_test::allocations == so_far);
  const auto& found = scope.find("dw")->get<lod::AnySelectedRows>();
  CHECK(found.rows() == lod_test::Ids{3, 0, 3, 2});
  CHECK(found.height() == 5);
  CHECK(numbers<float>(found.value()) == lod_test::Floats{1, 2, 3, 4, 7, 8, 9, 10});
}

TEST_CASE_FIXTURE(Gradients, "gru, gru_unit: gradients by input, weights, bias and initial state") {
  for (const Lengths& lengths : batches) {
    const auto sequences = static_cast<std::int64_t>(lengths.back().size());
    for (const bool flag : {false, true}) {
      const auto x = rows(lengths, {6}), weight = dense({2, 6});
      lod_test::GradientSample sample = {"gru",
                                         {{"Input", {x}}, {"Weight", {weight}}},
                                         {"Hidden", "BatchGate", "BatchResetHiddenPrev", "BatchHidden"},
                                         {attr("is_reverse", flag), attr("origin_mode", !flag)}};
      check(sample);
      sample.inputs.push_back({"H0", {dense({sequences, 2})}});
      sample.inputs.push_back({"Bias", {dense({1, 6})}});
      check(sample);
      sample.attrs.push_back(attr("activation", std::string(flag ? "relu" : "identity")));
      sample.attrs.push_back(attr("gate_activation", std::string(flag ? "tanh" : "sigmoid")));
      check(sample);
      const auto steps = x.rows();
      check({"gru_unit",
             {{"Input", {x}}, {"HiddenPrev", {dense({steps, 2})}}, {"Weight", {weight}}, {"Bias", {dense({1, 6})}}},
             {"Hidden", "Gate", "ResetHiddenPrev"},
             {attr("origin_mode", flag), attr("activation", flag ? 2 : 3)}});
    }
  }
}

TEST_CASE_FIXTURE(Gradients, "lstm, lstm_unit: gradients by input, weights, bias, peepholes and initial states") {
  for (const Lengths& lengths : batches) {
    const auto sequences = static_cast<std::int64_t>(lengths.back().size());
    for (const bool flag : {false, true}) {
      lod_test::GradientSample sample = {
          "lstm",
          {{"Input", {rows(lengths, {8})}}, {"Weight", {dense({2, 8})}}, {"Bias", {dense({1, flag ? 14 : 8})}}},
          {"Hidden", "Cell", "BatchGate", "BatchCellPreAct"},
          {attr("is_reverse", flag), attr("use_peepholes", flag)}};
      check(sample);
      sample.inputs.push_back({"H0", {dense({sequences, 2})}});
      sample.inputs.push_back({"C0", {dense({sequences, 2})}});
      check(sample);
      // The functions of the book's labels of semantic roles, and others.
      const std::string some = "sigmoid", other = flag ? "relu" : "identity";
      for (const auto& [of, name] : {std::pair("gate_activation", some),
                                     {"candidate_activation", other},
                                     {"cell_activation", flag ? some : other}}) {
        sample.attrs.push_back(attr(of, name));
      }
      check(sample);
      const auto x = rows(lengths, {8});
      check({"lstm_unit",
             {{"X", {x}}, {"C_prev", {dense({x.rows(), 2})}}},
             {flag ? "C" : "H"},
             {attr("forget_bias", flag ? 0.5F : 0.0F)}});
    }
  }
}

TEST_CASE_FIXTURE(Gradients, "lstmp: gradients by input, weights, bias, peepholes and initial states") {
  for (const Lengths& lengths : batches) {
    const auto sequences = static_cast<std::int64_t>(lengths.back().size());
    for (const bool flag : {false, true}) {
      lod_test::GradientSample sample = {"lstmp",
                                         {{"Input", {rows(lengths, {12})}},
                                          {"Weight", {dense({2, 12})}},
                                          {"ProjWeight", {dense({3, 2})}},
                                          {"Bias", {dense({1, flag ? 21 : 12})}}},
                                         {"Projection", "Cell", "BatchGate", "BatchHidden"},
                                         {attr("is_reverse", flag), attr("use_peepholes", flag)}};
      check(sample);
      sample.inputs.push_back({"H0", {dense({sequences, 2})}});
      sample.inputs.push_back({"C0", {dense({sequences, 3})}});
      sample.attrs.push_back(attr("cell_clip", 0.5F));
      check(sample);
      sample.attrs.push_back(attr("proj_clip", 0.25F));
      sample.attrs.push_back(attr("proj_activation", std::string("identity")));
      check(sample);
    }
  }
}

TEST_CASE_FIXTURE(Gradients, "linear_chain_crf: gradients by emission and transition") {
  for (const Lengths& lengths : batches) {
    const auto emission = rows(lengths, {3});
    check({"linear_chain_crf",
           {{"Emission", {emission}},
            {"Transition", {dense({5, 3})}},
            {"Label", {lod_test::random_ids(engine_, emission.lod(), 3, {1})}}},
           {"LogLikelihood", "Alpha", "EmissionExps", "TransitionExps"}});
  }
}
