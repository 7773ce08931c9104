// SPDX-License-Identifier: Apache-2.0
// Without optimisation g++ has macros in place of some intrinsic functions, which take other arguments.
#include "flags/operations.hpp"

IntegerResults run_unoptimised(const lod::LoDTensor<std::int64_t>& x) {
  const lod::CpuExecutor executor(1);
  return {lod::sequence_pool(executor, x, lod::PoolType::MAX), lod::sequence_pad(executor, x).dense,
          lod::sequence_cumsum(executor, x)};
}
