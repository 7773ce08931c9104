// SPDX-License-Identifier: Apache-2.0
// Compiled twice: with the headers as they are, and as if they were of another version. LOD_TEST_VERSION is the name of
// its function.
#include <lod/lod_tensor.hpp>

#include <string>
#include <typeinfo>

// The names of two types and the rows of a tensor; throws `LoD::from_lengths`' error where `valid` is false.
std::string LOD_TEST_VERSION(bool valid) {
  const lod::LoDTensor<float> x(lod::LoD::from_lengths({{2, valid ? 1 : -1}}), {});
  return std::string(typeid(lod::LoD).name()) + typeid(x).name() + std::to_string(x.rows());
}
