// SPDX-License-Identifier: Apache-2.0
#include "flags/operations.hpp"

Results run_baseline(const lod::LoDTensor<float>& x) { return run_here(x); }

lod::MaxPool<float, lod::Cpu> pool_in_baseline(const lod::CpuExecutor& executor, const lod::LoDTensor<float>& x,
                                               lod::PoolType& type, const lod::PoolOptions& options,
                                               const lod::EmbeddingPoolOptions<float>& weights,
                                               const lod::LstmWeights<float>& layer, lod::TimeMajor<float>& steps) {
  type = weights.weights || layer.input.rows() > 0 ? lod::PoolType::SUM : lod::PoolType::MIN;
  lod::to_time_major_into(executor, x, lod::RankTable(x.lod()), steps);
  return lod::sequence_min_pool(executor, x, options);
}
