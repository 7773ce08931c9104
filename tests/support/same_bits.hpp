// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tensors compared bit by bit.
#pragma once

#include <cstring>

namespace lod_test {

/// The same bits, NaNs included, and the same levels.
template <class A, class B>
bool same_bits(const A& a, const B& b) {
  const auto x = a.view(), y = b.view();
  return x.shape() == y.shape() && x.lod_view() == y.lod_view() &&
         (x.values().empty() || std::memcmp(x.data(), y.data(), x.values().size_bytes()) == 0);
}

}  // namespace lod_test
