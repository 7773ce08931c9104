// SPDX-License-Identifier: Apache-2.0
/// @file
/// The same operations, called from files that are compiled with different flags.
#pragma once

#include <lod/lod.hpp>

#include <cstdint>
#include <string>

struct Results {
  std::string target;
  lod::LoDTensor<float> sums;
  lod::LoDTensor<float> maxima;
  lod::LoDTensor<float> gradient;
  lod::LoDTensor<float> softmax;
  lod::LoDTensor<float> reversed;
};

struct IntegerResults {
  lod::LoDTensor<std::int64_t> maxima;
  lod::LoDTensor<std::int64_t> padded;
  lod::LoDTensor<std::int64_t> running_sums;
};

Results run_baseline(const lod::LoDTensor<float>& x);
Results run_avx2(const lod::LoDTensor<float>& x);
Results run_tbb(const lod::LoDTensor<float>& x);
IntegerResults run_unoptimised(const lod::LoDTensor<std::int64_t>& x);

/// Types that functions of users take and return have one name each, whatever the flags.
lod::MaxPool<float, lod::Cpu> pool_in_baseline(const lod::CpuExecutor& executor, const lod::LoDTensor<float>& x,
                                               lod::PoolType& type, const lod::PoolOptions& options,
                                               const lod::EmbeddingPoolOptions<float>& weights,
                                               const lod::LstmWeights<float>& layer, lod::TimeMajor<float>& steps);

// Of internal linkage: its body, too, depends on the flags.
[[maybe_unused]] static Results run_here(const lod::LoDTensor<float>& x) {
#define LOD_TEST_QUOTE(text) #text
#define LOD_TEST_TEXT(macro) LOD_TEST_QUOTE(macro)
  Results results;
  results.target = LOD_TEST_TEXT(LOD_TARGET);
  const lod::CpuExecutor executor(3);
  results.sums = lod::sequence_pool(executor, x, lod::PoolType::SUM);
  results.maxima = lod::sequence_pool(executor, x, lod::PoolType::MAX);
  results.gradient = lod::sequence_pool_grad(executor, results.sums, x.lod(), lod::PoolType::AVERAGE);
  results.softmax = lod::sequence_softmax(executor, x);
  results.reversed = lod::sequence_reverse(executor, x);
  return results;
#undef LOD_TEST_TEXT
#undef LOD_TEST_QUOTE
}
