// SPDX-License-Identifier: Apache-2.0
/// @file
/// slice(i, j), which is the range between(i, j) and not the branch <i, j>: one for each case, which must not compile
/// without a warning.
#include <lod/lod_tensor.hpp>

int main() {
  const lod::LoDTensor<float> x(lod::LoD::from_lengths({{2, 1}, {1, 2, 3}}), {3});
#if defined(TENSOR_BRANCH)
  return static_cast<int>(x.slice(0, 1).rows());
#elif defined(VIEW_BRANCH)
  return static_cast<int>(x.view().slice(0, 1).rows());
#elif defined(LOD_RANGE)
  return static_cast<int>(x.lod().slice(0, 1).rows());
#else
  return static_cast<int>(x.slice({0, 1}).rows() + x.between(0, 1).rows() + x.lod().between(0, 1).rows());
#endif
}
