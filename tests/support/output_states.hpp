// SPDX-License-Identifier: Apache-2.0
/// @file
/// What an output is like, to see that an operation which failed has left it as it was.
#pragma once

#include "support/every_output.hpp"
#include <lod/lod.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <variant>
#include <vector>

namespace lod_test {

template <class T>
std::vector<std::byte> bytes_of(const lod::LoDTensor<T>& x) {
  std::vector<std::byte> bytes(x.values().size_bytes());
  if (!bytes.empty()) std::memcpy(bytes.data(), x.data(), bytes.size());
  return bytes;
}

/// A tensor's levels, shape, address and bits; those of all tensors of something that consists of some.
struct OutputState {
  std::vector<std::vector<std::vector<std::int64_t>>> levels;
  std::vector<std::vector<std::int64_t>> shapes;
  std::vector<const void*> addresses;
  std::vector<std::vector<std::byte>> bits;

  template <class T>
  void add(const lod::LoDTensor<T>& x) {
    levels.push_back(x.absolute_lod());
    const lod::Shape shape = x.shape();
    shapes.emplace_back(shape.begin(), shape.end());
    addresses.push_back(x.data());
    bits.push_back(bytes_of(x));
  }
  template <class T>
  void add(const lod::SelectedRows<T>& g) {
    shapes.push_back(g.rows());
    shapes.push_back({g.height()});
    add(g.value());
  }
  template <class X>
  void add(const std::vector<X>& all) {
    shapes.push_back({static_cast<std::int64_t>(all.size())});
    for (const X& x : all) add(x);
  }
  template <class T>
  void add(const lod::TensorArray<T, lod::Cpu>& array) {
    shapes.push_back({array.size()});
    for (const auto& element : array) add(element);
  }
  template <class T>
  void add(const lod::TimeMajor<T, lod::Cpu>& z) {
    add(z.values());
  }
  template <class T>
  void add(const lod::LstmWeights<T, lod::Cpu>& w) {
    add(w.input);
    add(w.recurrent);
    add(w.bias);
    add(w.peepholes);
    add(w.projection);
  }
  template <class T>
  void add(const lod::GruWeights<T, lod::Cpu>& w) {
    add(w.input);
    add(w.recurrent);
    add(w.bias);
    add(w.recurrent_bias);
  }
  template <class Layer>
    requires requires(const Layer& layer) { layer.backward; }
  void add(const Layer& layer) {
    add(layer.forward);
    add(layer.backward);
  }

  /// The same but for where it is.
  bool same_result(const OutputState& other) const {
    return levels == other.levels && shapes == other.shapes && bits == other.bits;
  }
  friend bool operator==(const OutputState&, const OutputState&) = default;
};

inline OutputState state_of(const Values& values) {
  OutputState state;
  for (const Value& value : values) std::visit([&](const auto& each) { state.add(each); }, value);
  return state;
}

}  // namespace lod_test
