// SPDX-License-Identifier: Apache-2.0
// Operators in the place of the library's own ones: those on images by oneDNN, by threads, and in either order of
// dimensions; products of matrices by a BLAS. More cases that hold for the own code and for another library's are in
// dense_operators.cpp, training.cpp, gradients.cpp and other_operators.cpp: `by_each_library` runs them.
#include "programs/other_libraries.hpp"

#include "programs/one_operator.hpp"
#include "support/count_allocations.hpp"
#include "support/random_batch.hpp"
#include "support/random_lod.hpp"
#ifdef LOD_TEST_DNNL
#  include <lod/dnnl.hpp>
#endif
#ifdef LOD_TEST_BLAS
#  include <lod/blas.hpp>
#endif

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

// Neither library is known to the sanitizer of threads.
bool lod_test::replace_by_dnnl() {
#if defined(LOD_TEST_DNNL) && !defined(LOD_TEST_THREAD_SANITIZER)
  lod::use_dnnl();
  is_by_dnnl = true;
  return true;
#else
  return false;
#endif
}

bool lod_test::replace_by_blas() {
#if defined(LOD_TEST_BLAS) && !defined(LOD_TEST_THREAD_SANITIZER)
  lod::use_blas();
  return true;
#else
  return false;
#endif
}

void lod_test::restore_own_operators() {
  is_by_another = is_by_dnnl = false;
  for (const std::string& type : lod::operators().types()) {
    if (const auto own = lod::operators().built_in(type)) lod::operators().replace(type, *own);
  }
}

TEST_CASE("replaced operators run in programs that are prepared afterwards, and have their gradients and rules still") {
  const auto types = lod::operators().types();
  CHECK_FALSE(lod::operators().built_in("nothing of the kind"));
  lod::Operator<> other = *lod::operators().built_in("square");
  CHECK_THROWS_WITH_AS(lod::operators().replace("nothing of the kind", other),
                       "operator 'nothing of the kind': there is none to replace", std::invalid_argument);
  CHECK_THROWS_AS(lod::operators().replace("square", {}), std::invalid_argument);
  const auto x = lod_test::plain<float>({2}, {2, 3});
  const auto program = lod_test::program_of({lod_test::op("square", {{"X", {"x"}}}, {{"Out", {"y"}}})});
  const auto squares = [&] {
    lod::Scope scope;
    return lod_test::numbers<float>(lod::run(program, scope, {.feed = {{"x", x}}, .fetch = {"y"}})[0]);
  };
  other.prepare = lod::operators().built_in("exp")->prepare;
  lod::operators().replace("square", other);
  CHECK(squares()[0] == doctest::Approx(7.389056));
  CHECK(lod::operators().types() == types);
  CHECK(lod::operators().find("square")->gradient);
  lod::operators().replace("square", *lod::operators().built_in("square"));
  CHECK(squares() == lod_test::Floats{4, 9});
}

TEST_CASE("operators on images give the same for channels in the second dimension and in the last, by any threads") {
  using lod_test::attr, lod_test::op;
  constexpr std::int64_t images = 4, channels = 21, height = 40, width = 37;
  lod_test::Engine random(lod_test::first_seed());
  CAPTURE(lod_test::first_seed());
  const auto second = lod_test::real_numbers<double>(random, lod::Shape{images, channels, height, width});
  const auto per_channel = lod_test::real_numbers<double>(random, lod::Shape{channels});
  // {images, channels, pixels} to {images, pixels, channels}.
  const auto to_last = [](const std::vector<double>& x, const lod::Shape& shape) {
    const std::int64_t pixels = shape[2] * shape[3];
    std::vector<double> moved(x.size());
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(x.size()); ++i) {
      const std::int64_t image = i / pixels / shape[1], channel = i / pixels % shape[1], pixel = i % pixels;
      moved[static_cast<std::size_t>((image * pixels + pixel) * shape[1] + channel)] = x[static_cast<std::size_t>(i)];
    }
    return moved;
  };
  const auto last = lod_test::plain<double>({images, height, width, channels},
                                            to_last(lod_test::numbers<double>(second), second.shape()));
  const auto results = [&](const std::string& layout, const lod::AnyLoDTensor& x, int threads) {
    std::vector<lod::OpDesc> ops;
    std::vector<std::string> fetch;
    const auto add = [&](const std::string& type, lod_test::Arguments in, const lod_test::Arguments& out,
                         lod_test::Attrs attrs) {
      attrs.push_back(attr(type == "batch_norm" ? "data_layout" : "data_format", layout));
      attrs.push_back(attr("is_test", false));
      ops.push_back(op(type, in, out, attrs));
      in.push_back({"Out", out[0].second});
      in.push_back({out[0].first + "@GRAD", out[0].second});  // any numbers of that shape
      for (const auto& one : out) {
        if (one.first != "Out") in.push_back(one);
      }
      lod_test::Arguments gradients = {{"X@GRAD", {out[0].second[0] + " x"}}};
      if (type == "batch_norm") gradients.push_back({"Scale@GRAD", {"scale gradient"}});
      ops.push_back(op(type + "_grad", in, gradients, attrs));
      for (const auto& one : {out[0], gradients[0], gradients.back()}) fetch.push_back(one.second[0]);
    };
    for (const char* const pool : {"max", "avg"}) {
      add("pool2d", {{"X", {"x"}}}, {{"Out", {pool}}},
          {attr("pooling_type", std::string(pool)), attr("ksize", std::vector<int>{3, 2}),
           attr("strides", std::vector<int>{2, 1}), attr("paddings", std::vector<int>{1, 0})});
    }
    add("batch_norm", {{"X", {"x"}}, {"Scale", {"c"}}, {"Bias", {"c"}}, {"Mean", {"c"}}, {"Variance", {"c"}}},
        {{"Y", {"y"}}, {"MeanOut", {"m"}}, {"VarianceOut", {"v"}}, {"SavedMean", {"sm"}}, {"SavedVariance", {"sv"}}},
        {});
    lod::Scope scope;
    lod::PreparedProgram prepared(lod::CpuExecutor(threads), lod_test::program_of(ops), scope, fetch);
    const std::vector<lod::AnyLoDTensor> found = prepared.run({{"x", x}, {"c", per_channel}});
    return found;
  };
  const auto expected = results("NCHW", second, 1);
  for (const std::string layout : {"NCHW", "NHWC"}) {
    const auto found = results(layout, layout == "NCHW" ? second : last, 3);
    REQUIRE(found.size() == expected.size());
    for (std::size_t k = 0; k < found.size(); ++k) {
      CAPTURE(layout);
      CAPTURE(k);
      const lod::Shape shape = expected[k].shape();
      auto numbers = lod_test::numbers<double>(expected[k]);
      if (layout == "NHWC" && shape.size() == 4) numbers = to_last(numbers, shape);
      const auto near = lod_test::numbers<double>(found[k]);
      REQUIRE(near.size() == numbers.size());
      double worst = 0;
      for (std::size_t i = 0; i < near.size(); ++i) worst = std::max(worst, std::abs(near[i] - numbers[i]));
      CHECK(worst < (layout == "NCHW" ? 1e-300 : 1e-9));
    }
  }
}

#ifdef LOD_TEST_DNNL
TEST_CASE("oneDNN convolves with as many threads as the executor has, in memory that is kept") {
  using lod_test::attr;
  const auto numbers = [](const lod::Shape& shape) {
    lod_test::Floats values(static_cast<std::size_t>(shape.elements()));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i * i % 17) - 8;
    return lod_test::plain<float>(shape, values);
  };
  const lod::ProgramDesc program =
      lod_test::program_of({lod_test::op("conv2d", {{"Input", {"x"}}, {"Filter", {"w"}}}, {{"Output", {"y"}}},
                                         {attr("paddings", std::vector<int>{1, 1})})});
  lod::Scope scope;
  lod::Feed feed = {{"x", numbers({3, 20, 30, 20})}, {"w", numbers({24, 20, 3, 3})}};
  lod::PreparedProgram own(lod::CpuExecutor(2), program, scope, {"y"});
  const auto expected = lod_test::numbers<float>(own.run(feed)[0]);
  lod_test::by_each_library([&] {
    for (const int threads : {1, 2}) {
      lod::PreparedProgram prepared(lod::CpuExecutor(threads), program, scope, {"y"});
      CHECK(lod_test::numbers<float>(prepared.run(feed)[0]) == expected);  // integers, whatever the order of the sums
      prepared.run(feed);
      const std::int64_t bytes = lod_test::allocated_bytes;
      prepared.run(feed);
      // oneDNN itself takes some KiB.
      if (lod_test::counts_allocations) CHECK(lod_test::allocated_bytes < bytes + (lod_test::is_by_dnnl ? 32768 : 1));
    }
  });
}
#endif

#ifdef LOD_TEST_BLAS
TEST_CASE("products by a BLAS are near those by the library, of both types and of no numbers") {
  using lod_test::attr;
  lod_test::Engine random(lod_test::first_seed());
  CAPTURE(lod_test::first_seed());
  const std::int64_t sizes[][3] = {{1, 1, 1}, {3, 5, 7}, {33, 17, 65}, {128, 130, 9}, {0, 3, 2}, {2, 0, 3}, {3, 2, 0}};
  for (const auto& size : sizes) {
    const std::int64_t m = size[0], k = size[1], n = size[2];
    const auto product = [&](auto element) {
      using T = typename decltype(element)::type;
      const auto x = lod_test::real_numbers<T>(random, lod::Shape{m, k});
      const auto y = lod_test::real_numbers<T>(random, lod::Shape{k, n});
      lod::Scope scope;
      const auto program = lod_test::program_of({lod_test::op("mul", {{"X", {"x"}}, {"Y", {"y"}}}, {{"Out", {"z"}}})});
      const lod::Feed feed = {{"x", x}, {"y", y}};
      std::vector<std::vector<T>> found;
      lod_test::by_each_library(
          [&] { found.push_back(lod_test::numbers<T>(lod::run(program, scope, {.feed = feed, .fetch = {"z"}})[0])); },
          lod_test::replace_by_blas);
      for (const auto& one : found) {
        REQUIRE(one.size() == static_cast<std::size_t>(m * n));
        for (std::size_t i = 0; i < one.size(); ++i) {
          CHECK(one[i] == doctest::Approx(found[0][i]).epsilon(1e-4).scale(1));
        }
      }
    };
    product(lod::detail::ElementType<float>());
    product(lod::detail::ElementType<double>());
  }
}
#endif
