// SPDX-License-Identifier: Apache-2.0
// Compiled twice: with the headers as they are, and as if they were of another version. LOD_TEST_VERSION is the name of
// its function.
#include <lod/lod.hpp>

#include <cstdint>
#include <string>
#include <typeinfo>

// The names of two types and the sum of a sequence; throws `LoD::from_lengths`' error where `valid` is false.
std::string LOD_TEST_VERSION(bool valid) {
  const lod::LoDTensor<float> x(lod::LoD::from_lengths({{2, valid ? 1 : -1}}), {});
  const auto sums = lod::sequence_pool(x, lod::PoolType::SUM);
  return std::string(typeid(lod::LoD).name()) + typeid(sums).name() + std::to_string(sums.rows());
}
