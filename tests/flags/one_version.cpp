// SPDX-License-Identifier: Apache-2.0
// Compiled with the headers as they are, as if they were of another version, and with other containers and strings of
// the standard library. LOD_TEST_VERSION is the name of its function.
#include <lod/lod_tensor.hpp>

#include <string>
#include <typeinfo>

// The names of two types and the rows of a tensor; throws `LoD::from_lengths`' error where `valid` is false.
const char* LOD_TEST_VERSION(bool valid) {
  const lod::LoDTensor<float> x(lod::LoD::from_lengths({{2, valid ? 1 : -1}}), {});
  static const std::string names = std::string(typeid(lod::LoD).name()) + typeid(x).name() + std::to_string(x.rows());
  return names.c_str();
}
