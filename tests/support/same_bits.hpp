// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tensors compared bit by bit.
#pragma once

#include <lod/any_tensor.hpp>

#include <cstring>
#include <vector>

namespace lod_test {

/// The values of a tensor or a view, row by row, to be compared with a list.
template <class X>
auto values_of(const X& x) {
  const auto view = x.view();
  return std::vector<typename X::value_type>(view.data(), view.data() + view.values().size());
}

/// The same bits, NaNs included, and the same levels.
template <class A, class B>
  requires requires(const A& a, const B& b) { a.view(), b.view(); }
bool same_bits(const A& a, const B& b) {
  const auto x = a.view(), y = b.view();
  return x.shape() == y.shape() && x.lod_view() == y.lod_view() &&
         (x.values().empty() || std::memcmp(x.data(), y.data(), x.values().size_bytes()) == 0);
}
/// The same of tensors of any type of elements; the types must be the same too.
inline bool same_bits(const lod::AnyLoDTensor& a, const lod::AnyLoDTensor& b) {
  return a.data_type() == b.data_type() && a.lod() == b.lod() && a.shape() == b.shape() &&
         (a.bytes().empty() || std::memcmp(a.bytes().data(), b.bytes().data(), a.bytes().size()) == 0);
}

}  // namespace lod_test
