// SPDX-License-Identifier: Apache-2.0
/// @file
/// Calls that change nothing, whose results are ignored: one for each case, which must not compile without a warning.
#include <lod/core/lod_batch.hpp>
#include <lod/lod_tensor.hpp>
#include <lod/ops/sequence_softmax.hpp>

#include <utility>
#include <vector>

int main() {
  lod::LoD lod = lod::LoD::from_lengths({{2, 1}});
  lod::LoDTensor<float> x(lod, {3});
  const std::vector<std::int64_t> offsets{0, 1, 1, 2};
#if defined(APPEND_LEVEL)
  lod.append_level(offsets);
#elif defined(APPEND)
  append(lod, {{2}});
#elif defined(WITH_LOD)
  x.with_lod({});
#elif defined(SOFTMAX_IGNORED)
  lod::sequence_softmax(x);
#else
  lod = append(lod.append_level(offsets), {{1}, {4}});
  x = std::move(x).with_lod({});
#endif
}
