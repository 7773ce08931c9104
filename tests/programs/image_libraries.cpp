// SPDX-License-Identifier: Apache-2.0
// oneDNN in the place of the library's own operators on images. The cases that hold for both are in gradients.cpp,
// other_operators.cpp and training.cpp: `by_each_library` runs them.
#include "programs/image_libraries.hpp"

#include "programs/one_operator.hpp"
#include "support/count_allocations.hpp"
#ifdef LOD_TEST_DNNL
#  include <lod/dnnl.hpp>
#endif

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

const std::vector<std::string> replaced = {"conv2d", "conv2d_grad", "depthwise_conv2d", "depthwise_conv2d_grad"};

}  // namespace

bool lod_test::replace_by_dnnl() {
#if defined(LOD_TEST_DNNL) && !defined(LOD_TEST_THREAD_SANITIZER)  // which does not know its threads
  lod::use_dnnl();
  is_by_dnnl = true;
  return true;
#else
  return false;
#endif
}

void lod_test::restore_own_operators() {
  is_by_dnnl = false;
  for (const std::string& type : replaced) lod::operators().replace(type, *lod::operators().built_in(type));
}

TEST_CASE("replaced operators run in programs that are prepared afterwards, and have their gradients and rules still") {
  const auto types = lod::operators().types();
  CHECK_FALSE(lod::operators().built_in("nothing of the kind"));
  lod::Operator<> other = *lod::operators().built_in("square");
  CHECK_THROWS_WITH_AS(lod::operators().replace("nothing of the kind", other),
                       "operator 'nothing of the kind': there is none to replace", std::invalid_argument);
  CHECK_THROWS_AS(lod::operators().replace("square", {}), std::invalid_argument);
  const auto x = lod_test::plain<float>({2}, {2, 3});
  const auto squares = [&] { return lod_test::numbers<float>(lod_test::apply("square", {{"X", {x}}}, {"Out"})[0]); };
  other.prepare = lod::operators().built_in("exp")->prepare;
  lod::operators().replace("square", other);
  CHECK(squares()[0] == doctest::Approx(7.389056));
  CHECK(lod::operators().types() == types);
  CHECK(lod::operators().find("square")->gradient);
  lod::operators().replace("square", *lod::operators().built_in("square"));
  CHECK(squares() == lod_test::Floats{4, 9});
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
