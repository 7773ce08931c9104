// SPDX-License-Identifier: Apache-2.0
#include "flags/operations.hpp"
#include "support/executors.hpp"
#include "support/random_batch.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

using namespace lod_test;

TEST_CASE("flags: operations on integers compile and work without optimisation") {
  lod::LoDTensor<std::int64_t> x(lod::LoD::from_lengths({{2, 0, 1}}), {3});
  for (std::size_t i = 0; i < x.values().size(); ++i) x.values()[i] = static_cast<std::int64_t>(i) - 4;
  const IntegerResults results = run_unoptimised(x);
  using Numbers = std::vector<std::int64_t>;
  const auto numbers = [](const auto& y) { return Numbers(y.values().begin(), y.values().end()); };
  CHECK(numbers(results.maxima) == Numbers{-1, 0, 1, 0, 0, 0, 2, 3, 4});
  CHECK(numbers(results.padded) == Numbers{-4, -3, -2, -1, 0, 1, 0, 0, 0, 0, 0, 0, 2, 3, 4, 0, 0, 0});
  CHECK(numbers(results.running_sums) == Numbers{-4, -3, -2, -5, -3, -1, 2, 3, 4});
}

TEST_CASE("flags: options, results and weights go from a file to one that was compiled for another processor") {
  const auto x = lod::LoDTensor<float>::from_values(lod::LoD::from_lengths({{2, 0, 1}}), {}, {2, 1, 3});
  lod::PoolType type = lod::PoolType::SUM;
  lod::TimeMajor<float> steps;
  const auto least = pool_in_baseline(lod::CpuExecutor(1), x, type, {.pad_value = 7}, {}, {}, steps);
  CHECK(type == lod::PoolType::MIN);
  CHECK(std::vector<float>(least.values.values().begin(), least.values.values().end()) == std::vector<float>{1, 7, 3});
  CHECK(steps.steps() == 2);
}

TEST_CASE("flags: files compiled for different processors, with threads and without, agree in one program") {
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) {
    MESSAGE("this processor has no AVX2 and FMA: nothing is compared");
    return;
  }
  for (const std::int64_t row_size : {1, 3, 8, 17}) {
    INFO("row size ", row_size);
    Engine engine(1);
    const auto x = real_numbers<float>(engine, giant_among_short(engine, 1000, 150000 / row_size), {row_size});
    const Results baseline = run_baseline(x), avx2 = run_avx2(x);
#ifdef LOD_TEST_TBB
    const Results tbb = run_tbb(x);
    CHECK(tbb.target.find("_tbb") != std::string::npos);
    CHECK(same_bits(baseline.sums, tbb.sums));
    CHECK(same_bits(baseline.softmax, tbb.softmax));
#endif
    // Each file runs its own code: the linker has not thrown one away.
    CHECK(avx2.target.starts_with("v2_avx_avx2_fma_openmp_headers"));
    CHECK(baseline.target.find("_serial") != std::string::npos);
    CHECK(baseline.target != avx2.target);
    // Sums follow a tree that does not know the width of a vector.
    CHECK(same_bits(baseline.sums, avx2.sums));
    CHECK(same_bits(baseline.maxima, avx2.maxima));
    CHECK(same_bits(baseline.gradient, avx2.gradient));
    CHECK(same_bits(baseline.reversed, avx2.reversed));
    // Exponentials differ in the last bits, with and without fused multiplication and addition.
    bool all_close = true;
    for (std::size_t i = 0; i < x.values().size(); ++i) {
      const float a = baseline.softmax.values()[i], b = avx2.softmax.values()[i];
      all_close = all_close && (a > b ? a - b : b - a) <= 1e-6F * (a + b);
    }
    CHECK(all_close);
  }
}
