// SPDX-License-Identifier: Apache-2.0
// Operators on images, for very many classes, and of files: numbers worked by hand, and what is refused.
// Their gradients are in gradients.cpp, and paddle_test.py compares them with PaddlePaddle's.
#include "programs/one_operator.hpp"
#include "programs/other_libraries.hpp"
#include "support/temporary_folder.hpp"
#include <lod/io/paddle.hpp>
#include <lod/io/paddle_operators.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

using lod::AnyLoDTensor;
using lod::InvalidProgram;
using lod::Shape;
using lod::ShapeMismatch;
using lod_test::apply;
using lod_test::attr;
using lod_test::Attrs;
using lod_test::Floats;
using lod_test::Ids;
using lod_test::numbers;
using lod_test::plain;
using Ints = std::vector<int>;

namespace {

/// The numbers 1, 2, ... under a shape.
AnyLoDTensor counted(const Shape& shape) {
  Floats values(static_cast<std::size_t>(shape.elements()));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i + 1);
  return plain<float>(shape, values);
}
AnyLoDTensor ones(const Shape& shape) {
  return plain<float>(shape, Floats(static_cast<std::size_t>(shape.elements()), 1.0f));
}
AnyLoDTensor convolved(const AnyLoDTensor& images, const AnyLoDTensor& filter, Attrs attrs = {}) {
  return apply("conv2d", {{"Input", {images}}, {"Filter", {filter}}}, {"Output"}, std::move(attrs))[0];
}
Floats pooled(const AnyLoDTensor& images, Attrs attrs) {
  return numbers<float>(apply("pool2d", {{"X", {images}}}, {"Out"}, std::move(attrs))[0]);
}

}  // namespace

TEST_CASE("conv2d multiplies what windows look at") {
  lod_test::by_each_library([&] {
    const AnyLoDTensor images = counted({1, 1, 3, 3});
    CHECK(numbers<float>(convolved(images, ones({1, 1, 2, 2}))) == Floats{12, 16, 24, 28});
    CHECK(numbers<float>(convolved(images, counted({1, 1, 2, 2}))) == Floats{37, 47, 67, 77});
    CHECK(numbers<float>(convolved(images, ones({1, 1, 2, 2}), {attr("dilations", Ints{2, 2})})) == Floats{20});
    CHECK(numbers<float>(convolved(images, ones({1, 1, 2, 2}), {attr("paddings", Ints{1, 0, 0, 1})})) ==
          Floats{3, 5, 3, 12, 16, 9, 24, 28, 15});
    const auto results = convolved(images, ones({1, 1, 2, 2}),
                                   {attr("padding_algorithm", std::string("SAME")), attr("strides", Ints{2, 1})});
    CHECK(results.shape() == Shape{1, 1, 2, 3});
    CHECK(numbers<float>(results) == Floats{12, 16, 9, 15, 17, 9});
  });
}

TEST_CASE("conv2d of groups and of several images") {
  lod_test::by_each_library([&] {
    const auto results = convolved(counted({2, 2, 1, 2}), plain<float>({2, 1, 1, 1}, {1, -1}), {attr("groups", 2)});
    CHECK(numbers<float>(results) == Floats{1, 2, -3, -4, 5, 6, -7, -8});
    const auto last = convolved(counted({1, 1, 2, 2}), plain<float>({3, 2, 1, 1}, {1, 0, 0, 1, 1, 1}),
                                {attr("data_format", std::string("NHWC"))});
    CHECK(last.shape() == Shape{1, 1, 2, 3});
    CHECK(numbers<float>(last) == Floats{1, 2, 3, 3, 4, 7});
    CHECK(convolved(counted({0, 1, 2, 2}), ones({5, 1, 2, 2})).shape() == Shape{0, 5, 1, 1});
  });
}

TEST_CASE("conv2d of more windows than it takes at a time gives what one window gives") {
  const AnyLoDTensor images = counted({1, 1, 80, 90}), filter = counted({2, 1, 2, 3});
  const auto found = numbers<float>(convolved(images, filter));
  for (const int row : {0, 50, 78}) {
    for (const int column : {0, 87}) {
      CAPTURE(row);
      CAPTURE(column);
      const auto first = static_cast<float>(row * 90 + column + 1);
      CHECK(found[static_cast<std::size_t>(row * 88 + column)] == 21 * first + 25 + 15 * 90);
    }
  }
}

TEST_CASE("conv2d refuses what it does not know, and shapes that do not fit") {
  lod_test::by_each_library([&] {
    const AnyLoDTensor images = counted({1, 2, 3, 3});
    CHECK_THROWS_WITH_AS(convolved(images, ones({1, 3, 2, 2})),
                         doctest::Contains("images of shape {1, 2, 3, 3}, filters of shape {1, 3, 2, 2}, 1 groups"),
                         ShapeMismatch);
    CHECK_THROWS_AS(convolved(images, ones({3, 1, 2, 2}), {attr("groups", 2)}), ShapeMismatch);
    CHECK_THROWS_WITH_AS(convolved(images, ones({1, 2, 4, 4})), doctest::Contains("a window of 4 on a side of 3"),
                         ShapeMismatch);
    CHECK_THROWS_AS(convolved(counted({1, 2, 3}), ones({1, 2, 2, 2})), ShapeMismatch);
    for (const auto& wrong :
         {attr("groups", 0), attr("strides", Ints{0, 1}), attr("strides", Ints{1}), attr("paddings", Ints{1, 1, 1}),
          attr("dilations", Ints{1, -1}), attr("paddings", Ints{1, -1}), attr("padding_algorithm", std::string("same")),
          attr("data_format", std::string("NCDHW")), attr("fuse_relu", true)}) {
      CAPTURE(wrong.name);
      CHECK_THROWS_AS(convolved(images, ones({1, 2, 2, 2}), {wrong}), InvalidProgram);
    }
    // The greatest numbers that files can hold.
    constexpr int most = std::numeric_limits<int>::max();
    CHECK_THROWS_AS(convolved(images, ones({1, 2, 2, 2}), {attr("dilations", Ints{most, most})}), ShapeMismatch);
    CHECK(convolved(images, ones({1, 2, 2, 2}), {attr("strides", Ints{most, most})}).shape() == Shape{1, 1, 1, 1});
    CHECK(convolved(lod::LoDTensor<float>({1, 0, most, most}), ones({0, 0, 1, 1})).shape() == Shape{1, 0, most, most});
  });
}

TEST_CASE("conv2d_transpose spreads pixels over windows, and refuses sizes that no windows have") {
  lod_test::by_each_library([&] {
    const auto spread = [](const AnyLoDTensor& images, const AnyLoDTensor& filters, lod_test::Attrs attrs) {
      return apply("conv2d_transpose", {{"Input", {images}}, {"Filter", {filters}}}, {"Output"}, std::move(attrs))[0];
    };
    const AnyLoDTensor images = counted({1, 1, 1, 2}), filters = counted({1, 1, 1, 2});
    CHECK(numbers<float>(spread(images, filters, {})) == Floats{1, 4, 4});
    const auto stride = attr("strides", Ints{1, 2});
    CHECK(numbers<float>(spread(images, filters, {stride})) == Floats{1, 2, 2, 4});
    CHECK(numbers<float>(spread(images, filters, {stride, attr("output_size", Ints{1, 5})})) == Floats{1, 2, 2, 4, 0});
    CHECK(spread(counted({0, 1, 1, 2}), filters, {}).shape() == Shape{0, 1, 1, 3});
    CHECK_THROWS_WITH_AS(spread(images, filters, {stride, attr("output_size", Ints{1, 6})}),
                         doctest::Contains("a side of 6, expected 4 or more, and less than 6"), ShapeMismatch);
    CHECK_THROWS_AS(spread(images, filters, {attr("paddings", Ints{1, 0})}), ShapeMismatch);
    CHECK_THROWS_AS(spread(images, counted({2, 1, 1, 1}), {}), ShapeMismatch);
    CHECK_THROWS_AS(spread(counted({1, 1, 0, 2}), filters, {}), ShapeMismatch);
    CHECK_THROWS_AS(spread(images, filters, {attr("groups", 2)}), ShapeMismatch);
    CHECK_THROWS_AS(spread(images, filters, {attr("output_size", Ints{3})}), InvalidProgram);
    constexpr int most = std::numeric_limits<int>::max();
    CHECK(spread(counted({0, 1, 1, 2}), filters, {attr("strides", Ints{most, most}), attr("dilations", Ints{1, most})})
              .shape() == Shape{0, 1, 1, std::int64_t{2} * most + 1});
  });
}

TEST_CASE("lstmp with a projection that changes nothing is lstm, and keeps to its limits") {
  const auto x = lod_test::ragged<float>({2, 0, 1}, {8}, Floats(24, 0.5F));
  const std::vector<std::pair<std::string, std::vector<AnyLoDTensor>>> both = {
      {"Input", {x}}, {"Weight", {counted({2, 8})}}, {"Bias", {counted({1, 14})}}};
  auto projected = both;
  projected.push_back({"ProjWeight", {plain<float>({2, 2}, {1, 0, 0, 1})}});
  const auto found = [&](lod_test::Attrs attrs) {
    attrs.push_back(attr("proj_activation", std::string("identity")));
    return apply("lstmp", projected, {"Projection", "Cell"}, attrs);
  };
  const auto expected = apply("lstm", both, {"Hidden", "Cell"}), same = found({});
  for (std::size_t k = 0; k < 2; ++k) {
    CHECK(same[k].lod() == x.lod());
    CHECK(numbers<float>(same[k]) == numbers<float>(expected[k]));
  }
  const auto limited = found({attr("cell_clip", 0.25F), attr("proj_clip", 0.125F)});
  CHECK(numbers<float>(limited[0]) == Floats(6, 0.125F));
  CHECK(numbers<float>(limited[1]) == Floats(6, 0.25F));
}

TEST_CASE("group_norm, instance_norm, lrn, smooth_l1_loss: numbers") {
  const AnyLoDTensor images = counted({2, 4, 1, 2}), last = plain<float>({1, 1, 2, 2}, {1, 3, 2, 6});
  const auto normal = [](const char* type, const AnyLoDTensor& x, lod_test::Attrs attrs) {
    return numbers<float>(apply(type, {{"X", {x}}}, {"Y"}, std::move(attrs))[0]);
  };
  CHECK(normal("group_norm", images, {}) == normal("layer_norm", images, {}));
  CHECK(normal("instance_norm", images, {}) == normal("group_norm", images, {attr("groups", 4)}));
  const auto by_channel =
      normal("group_norm", last, {attr("groups", 2), attr("data_layout", std::string("NHWC")), attr("epsilon", 0.0F)});
  CHECK(by_channel == Floats{-1, -1, 1, 1});
  const auto response =
      numbers<float>(apply("lrn", {{"X", {counted({1, 3, 1, 1})}}}, {"Out"},
                           {attr("n", 3), attr("k", 1.0F), attr("alpha", 1.0F), attr("beta", 0.5F)})[0]);
  const float sums[] = {6, 15, 14};
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(response[i] == doctest::Approx(static_cast<float>(i + 1) / std::sqrt(sums[i])));
  }
  const auto x = plain<float>({1, 2}, {0.25F, 3}), y = plain<float>({1, 2}, {0, 0}), two = plain<float>({1, 2}, {2, 2});
  const auto loss = apply("smooth_l1_loss", {{"X", {x}}, {"Y", {y}}}, {"Out", "Diff"});
  CHECK(numbers<float>(loss[0]) == Floats{2.53125F});
  const auto weighted = apply(
      "smooth_l1_loss", {{"X", {x}}, {"Y", {y}}, {"InsideWeight", {two}}, {"OutsideWeight", {two}}}, {"Out", "Diff"});
  CHECK(numbers<float>(weighted[0]) == Floats{2 * (0.125F + 5.5F)});
  CHECK(numbers<float>(weighted[1]) == Floats{0.5F, 6});
}

TEST_CASE("group_norm, instance_norm: any number of images without numbers") {
  constexpr std::int64_t many = std::int64_t{1} << 59;
  for (const Shape& shape : {Shape{many, 2, 0, 2}, Shape{many, 0, 3, 3}}) {
    for (const char* const type : {"group_norm", "instance_norm"}) {
      CHECK(apply(type, {{"X", {lod::LoDTensor<float>(shape)}}}, {"Y"})[0].shape() == shape);
    }
  }
}

TEST_CASE("group_norm, instance_norm, lrn, lstmp, smooth_l1_loss refuse what does not fit") {
  const AnyLoDTensor images = counted({1, 4, 2, 2}), x = lod_test::ragged<float>({1}, {8}, {1, 2, 3, 4, 5, 6, 7, 8});
  const auto normal = [&](const AnyLoDTensor& from, lod_test::Attrs attrs) {
    apply("group_norm", {{"X", {from}}}, {"Y"}, std::move(attrs));
  };
  CHECK_THROWS_AS(normal(images, {attr("groups", 3)}), ShapeMismatch);
  CHECK_THROWS_AS(normal(counted({4}), {}), ShapeMismatch);
  CHECK_THROWS_AS(normal(images, {attr("groups", 0)}), InvalidProgram);
  CHECK_THROWS_AS(normal(images, {attr("data_layout", std::string("NC"))}), InvalidProgram);
  CHECK_THROWS_AS(apply("instance_norm", {{"X", {images}}, {"Scale", {counted({3})}}}, {"Y"}), ShapeMismatch);
  CHECK_THROWS_AS(apply("lrn", {{"X", {images}}}, {"Out"}, {attr("n", 2)}), InvalidProgram);
  CHECK_THROWS_AS(apply("lrn", {{"X", {counted({1, 2, 3})}}}, {"Out"}), ShapeMismatch);
  CHECK_THROWS_AS(apply("smooth_l1_loss", {{"X", {images}}, {"Y", {x}}}, {"Diff", "Out"}), ShapeMismatch);
  CHECK_THROWS_AS(apply("smooth_l1_loss", {{"X", {x}}, {"Y", {x}}}, {"Diff", "Out"}, {attr("sigma", 0.0F)}),
                  InvalidProgram);
  const auto network = [&](const Shape& weight, const Shape& projection, lod_test::Attrs attrs) {
    apply("lstmp",
          {{"Input", {x}}, {"Weight", {ones(weight)}}, {"ProjWeight", {ones(projection)}}, {"Bias", {ones({1, 14})}}},
          {"Projection", "Cell"}, std::move(attrs));
  };
  network({1, 8}, {2, 1}, {});
  CHECK_THROWS_AS(network({2, 8}, {2, 1}, {}), ShapeMismatch);
  CHECK_THROWS_AS(network({1, 8}, {1, 1}, {}), ShapeMismatch);
  CHECK_THROWS_AS(network({1, 8}, {2, 1}, {attr("cell_clip", -1.0F)}), InvalidProgram);
  CHECK_THROWS_AS(network({1, 8}, {2, 1}, {attr("proj_activation", std::string("softmax"))}), InvalidProgram);
}

TEST_CASE("pool2d takes the greatest number or the mean of each window") {
  lod_test::by_each_library([&] {
    const AnyLoDTensor images = counted({1, 1, 3, 3});
    const auto mean = attr("pooling_type", std::string("avg"));
    const auto windows = attr("ksize", Ints{2, 2}), steps = attr("strides", Ints{2, 2});
    CHECK(pooled(images, {windows}) == Floats{5, 6, 8, 9});
    CHECK(pooled(images, {windows, mean}) == Floats{3, 4, 6, 7});
    CHECK(pooled(images, {windows, steps}) == Floats{5});
    CHECK(pooled(images, {windows, steps, attr("ceil_mode", true)}) == Floats{5, 6, 8, 9});
    CHECK(pooled(images, {windows, steps, mean, attr("ceil_mode", true)}) == Floats{3, 4.5, 7.5, 9});
    const auto paddings = attr("paddings", Ints{1, 1});
    CHECK(pooled(images, {windows, steps, mean, paddings}) == Floats{1, 2.5, 5.5, 7});
    CHECK(pooled(images, {windows, steps, mean, paddings, attr("exclusive", false)}) == Floats{0.25, 1.25, 2.75, 7});
    CHECK(pooled(images, {windows, attr("global_pooling", true)}) == Floats{9});
    CHECK(pooled(images, {windows, mean, attr("adaptive", true)}) == Floats{3, 4, 6, 7});
    CHECK(pooled(counted({1, 2, 2, 2}), {windows, attr("data_format", std::string("NHWC"))}) == Floats{7, 8});
  });
}

TEST_CASE("pool2d of windows without pixels, of NaN, and of no images") {
  lod_test::by_each_library([&] {
    const auto windows = attr("ksize", Ints{1, 1}), paddings = attr("paddings", Ints{1, 0});
    const float lowest = std::numeric_limits<float>::lowest();
    CHECK(pooled(counted({1, 1, 1, 1}), {windows, paddings}) == Floats{lowest, 1, lowest});
    CHECK(pooled(counted({1, 1, 1, 1}), {windows, paddings, attr("pooling_type", std::string("avg"))}) ==
          Floats{0, 1, 0});
    const auto greatest = pooled(plain<float>({1, 1, 1, 2}, {std::nanf(""), 1}), {attr("ksize", Ints{1, 2})})[0];
    CHECK((std::isnan(greatest) || lod_test::is_by_dnnl));  // which promises nothing of NaN
    CHECK(pooled(counted({0, 3, 2, 2}), {attr("ksize", Ints{2, 2})}).empty());
    CHECK_THROWS_AS(pooled(counted({1, 1, 2, 2}), {attr("pooling_type", std::string("min"))}), InvalidProgram);
    CHECK_THROWS_AS(pooled(counted({1, 1, 2, 2}), {windows, attr("adaptive", true)}), InvalidProgram);
    CHECK_THROWS_AS(pooled(counted({2, 2}), {}), ShapeMismatch);
  });
}

TEST_CASE("nce compares the class of a row with classes that are drawn") {
  const auto x = plain<float>({2, 1}, {1, 2}), weights = plain<float>({3, 1}, {0, 1, -1});
  const auto labels = plain<std::int64_t>({2, 1}, {0, 1});
  const auto cost = [&](Attrs attrs) {
    attrs.push_back(attr("num_total_classes", 3));
    return apply("nce", {{"Input", {x}}, {"Label", {labels}}, {"Weight", {weights}}},
                 {"Cost", "SampleLogits", "SampleLabels"}, std::move(attrs));
  };
  const auto fixed = cost({attr("num_neg_samples", 1), attr("custom_neg_classes", Ints{2})});
  CHECK(numbers<std::int64_t>(fixed[2]) == Ids{0, 2, 1, 2});
  const auto sigmoid = [](double v) { return 1 / (1 + std::exp(-v)); };
  const double other = 1.0 / 3 / (sigmoid(-1) + 1.0 / 3);
  CHECK(numbers<float>(fixed[0])[0] == doctest::Approx(-std::log(0.5 / (0.5 + 1.0 / 3)) - std::log(other)));
  CHECK(numbers<float>(fixed[1])[2] == doctest::Approx(sigmoid(2)));

  for (const int sampler : {0, 1}) {
    const Attrs attrs = {attr("num_neg_samples", 50), attr("sampler", sampler), attr("seed", 9)};
    const auto drawn = cost(attrs);
    const auto classes = numbers<std::int64_t>(drawn[2]);
    // A log-uniform class is never the last one.
    CHECK(std::count(classes.begin(), classes.end(), 2) > (sampler == 0 ? 10 : -1));
    CHECK(std::count(classes.begin(), classes.end(), 2) < (sampler == 0 ? 60 : 1));
    CHECK(numbers<std::int64_t>(cost(attrs)[2]) == classes);
  }
  CHECK_THROWS_AS(cost({attr("custom_neg_classes", Ints{0})}), InvalidProgram);
  CHECK_THROWS_AS(cost({attr("num_neg_samples", 1), attr("custom_neg_classes", Ints{3})}), InvalidProgram);
  CHECK_THROWS_AS(cost({attr("sampler", 3)}), InvalidProgram);
  CHECK_THROWS_AS(cost({attr("num_neg_samples", -1)}), InvalidProgram);
}

TEST_CASE("nce draws as tables say, and refuses wrong ones, and wrong labels") {
  const auto x = plain<float>({1, 1}, {1}), weights = plain<float>({2, 1}, {0, 1});
  const auto classes = [&](std::int64_t label, int other) {
    return numbers<std::int64_t>(
        apply("nce",
              {{"Input", {x}},
               {"Label", {plain<std::int64_t>({1, 1}, {label})}},
               {"Weight", {weights}},
               {"CustomDistProbs", {plain<float>({2}, {0, 1})}},
               {"CustomDistAlias", {plain<std::int32_t>({2}, {other, -1})}},
               {"CustomDistAliasProbs", {plain<float>({2}, {0, 1})}}},
              {"Cost", "-SampleLogits", "SampleLabels"},
              {attr("num_total_classes", 2), attr("num_neg_samples", 4), attr("sampler", 2)})[1]);
  };
  CHECK(classes(0, 1) == Ids{0, 1, 1, 1, 1});
  CHECK_THROWS_AS(classes(0, 2), lod::OutOfRange);
  CHECK_THROWS_AS(classes(2, 1), lod::OutOfRange);
}

TEST_CASE("nce_grad: a sparse gradient lists the classes of the samples") {
  lod::ProgramDesc program = lod_test::program_of({lod_test::op(
      "nce_grad",
      {{"Input", {"x"}},
       {"Label", {"label"}},
       {"Weight", {"w"}},
       {"SampleLogits", {"o"}},
       {"SampleLabels", {"k"}},
       {"Cost@GRAD", {"dy"}}},
      {{"Weight@GRAD", {"dw"}}}, {attr("is_sparse", true), attr("num_total_classes", 4), attr("num_neg_samples", 2)})});
  for (lod::VarDesc& var : program.blocks[0].vars) {
    if (var.name == "dw") var = {.name = "dw", .type = {.type = lod::VarType::SELECTED_ROWS}, .persistable = true};
  }
  lod::Scope scope;
  lod::PreparedProgram prepared(lod::CpuExecutor(1), program, scope);
  prepared.run({{"x", plain<float>({1, 2}, {2, 4})},
                {"label", plain<std::int64_t>({1, 1}, {3})},
                {"w", ones({4, 2})},
                {"o", plain<float>({1, 3}, {0.5, 0.5, 0.5})},
                {"k", plain<std::int64_t>({1, 3}, {3, 0, 3})},
                {"dy", plain<float>({1, 1}, {1})}});
  const auto& found = scope.find("dw")->get<lod::AnySelectedRows>();
  CHECK(found.rows() == Ids{3, 0, 3});
  CHECK(found.height() == 4);
  CHECK(numbers<float>(found.value()) == Floats{-0.5, -1, 0.5, 1, 0.5, 1});
}

TEST_CASE("hierarchical_sigmoid asks the inner nodes on the way to a class") {
  const auto x = plain<float>({2, 1}, {1, 2}), weights = plain<float>({3, 1}, {1, -1, 3});
  const auto cost = [&](const Ids& labels, int classes,
                        const std::vector<std::pair<std::string, std::vector<AnyLoDTensor>>>& more = {}) {
    std::vector<std::pair<std::string, std::vector<AnyLoDTensor>>> inputs = {
        {"X", {x}}, {"W", {weights}}, {"Label", {plain<std::int64_t>({2, 1}, labels)}}};
    inputs.insert(inputs.end(), more.begin(), more.end());
    return numbers<float>(apply("hierarchical_sigmoid", inputs, {"Out", "-PreOut"}, {attr("num_classes", classes)})[0]);
  };
  const auto loss = [](double z) { return std::log1p(std::exp(-z)); };  // of a turn to the right
  // Of four classes: node 0 asks whether it is one of the last two, node 1 or 2 which.
  const Floats found = cost({1, 2}, 4);
  CHECK(found[0] == doctest::Approx(loss(-1) + loss(-1)));
  CHECK(found[1] == doctest::Approx(loss(2) + loss(-6)));
  const auto path = plain<std::int64_t>({2, 2}, {2, 0, 1, -1}), turns = plain<std::int64_t>({2, 2}, {1, 0, 1, -1});
  const Floats own = cost({0, 0}, 4, {{"PathTable", {path}}, {"PathCode", {turns}}});
  CHECK(own[0] == doctest::Approx(loss(3) + loss(-1)));
  CHECK(own[1] == doctest::Approx(loss(-2) + std::log(2)));
  CHECK_THROWS_AS(cost({0, 4}, 4), lod::OutOfRange);
  CHECK_THROWS_AS(cost({0, 0}, 5), ShapeMismatch);
  CHECK_THROWS_AS(cost({0, 0}, 1), InvalidProgram);
  CHECK_THROWS_AS(cost({0, 0}, 4, {{"PathTable", {path}}}), InvalidProgram);
  CHECK_THROWS_WITH_AS(apply("hierarchical_sigmoid_grad",
                             {{"X", {x}},
                              {"W", {weights}},
                              {"Label", {plain<std::int64_t>({2, 1}, {0, 1})}},
                              {"PreOut", {plain<float>({2, 2}, {1, 1, 1, 1})}},
                              {"Out@GRAD", {x}}},
                             {"Bias@GRAD"}, {attr("num_classes", 4)}),
                       doctest::Contains("output 'Bias@GRAD' without the input 'Bias'"), InvalidProgram);
  const auto beyond = plain<std::int64_t>({2, 1}, {3, 0});
  CHECK_THROWS_AS(cost({0, 0}, 4, {{"PathTable", {beyond}}, {"PathCode", {beyond}}}), lod::OutOfRange);
}

TEST_CASE("save and load, alone and combined, stay in the folder that they may use") {
  using lod_test::op;
  const lod_test::TemporaryFolder folder;
  lod::Scope scope;
  const auto run = [&](const lod::OpDesc& one, const lod::Feed& feed, const std::vector<std::string>& fetch) {
    return lod::run(lod_test::program_of({one}), scope, {.feed = feed, .fetch = fetch});
  };
  const auto is_same = [](const AnyLoDTensor& a, const AnyLoDTensor& b) {
    return lod::paddle::encode_tensor(a) == lod::paddle::encode_tensor(b);
  };
  const auto file = [](const char* path) { return attr("file_path", std::string(path)); };
  const auto save = op("save", {{"X", {"x"}}}, {}, {file("a/x")}),
             load = op("load", {}, {{"Out", {"y"}}}, {file("a/x")});
  CHECK_THROWS_AS(run(save, {}, {}), InvalidProgram);
  lod::paddle::add_file_operators(folder / "files");
  CHECK_THROWS_AS(lod::paddle::add_file_operators(folder / "others"), std::invalid_argument);

  const AnyLoDTensor x = lod_test::ragged<float>({1, 2}, {2}, {1, 2, 3, 4, 5, 6}), ids = plain<std::int64_t>({1}, {7});
  run(save, {{"x", x}}, {});
  CHECK(is_same(run(load, {}, {"y"})[0], x));
  CHECK(is_same(run(op("load", {}, {{"Out", {"y"}}}, {file("././a/x")}), {}, {"y"})[0], x));
  CHECK(is_same(lod::paddle::load_tensor(folder / "files/a/x"), x));
  auto once = save;
  once.attrs.push_back(attr("overwrite", false));
  CHECK_THROWS_AS(run(once, {{"x", ids}}, {}), std::system_error);

  const auto save_all = op("save_combine", {{"X", {"x", "ids"}}}, {}, {file("all")});
  run(save_all, {{"x", x}, {"ids", ids}}, {});
  const auto both = run(op("load_combine", {}, {{"Out", {"y", "k"}}}, {file("all")}), {}, {"y", "k"});
  CHECK(is_same(both[0], x));
  CHECK(is_same(both[1], ids));
  CHECK_THROWS_AS(run(op("load_combine", {}, {{"Out", {"y"}}}, {file("all")}), {}, {"y"}), lod::ParseError);
  CHECK_THROWS_AS(run(op("load", {}, {{"Out", {"y"}}}, {file("none")}), {}, {"y"}), std::system_error);

  for (const char* const path : {"../x", "a/../../x", "/x", "", ".", "./", "./../x", "a/./x", "a//x", "a/"}) {
    CAPTURE(path);
    CHECK_THROWS_AS(run(op("save", {{"X", {"x"}}}, {}, {file(path)}), {{"x", x}}, {}), InvalidProgram);
    CHECK_THROWS_AS(run(op("load_combine", {}, {{"Out", {"y"}}}, {file(path)}), {}, {"y"}), InvalidProgram);
  }
  for (const auto& wrong : {attr("seek", std::int64_t{1}), attr("load_as_fp16", true)}) {
    auto other = load;
    other.attrs.push_back(wrong);
    CHECK_THROWS_AS(run(other, {}, {"y"}), InvalidProgram);
  }
}
