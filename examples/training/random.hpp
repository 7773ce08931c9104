// SPDX-License-Identifier: Apache-2.0
/// @file
/// Random numbers that are the same with every standard library. The distributions and std::shuffle are not: what they
/// make of an engine's numbers is left to the implementation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <random>
#include <sstream>
#include <utility>
#include <vector>

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  /// Goes on where the one with this state was.
  explicit Random(const std::vector<std::uint64_t>& state) {
    std::stringstream text;
    for (std::uint64_t number : state) text << number << ' ';
    text >> engine_;
  }
  /// All that its next numbers depend on.
  std::vector<std::uint64_t> state() const {
    std::stringstream text;
    text << engine_;
    return {std::istream_iterator<std::uint64_t>(text), {}};
  }

  /// In [0, 1).
  double unit() { return static_cast<double>(engine_() >> 11) * 0x1p-53; }
  /// In [-limit, limit).
  double symmetric(double limit) { return limit * (2 * unit() - 1); }

  /// Any order of the elements, all equally likely (but for a bias of at most size / 2^64).
  template <class T>
  void shuffle(std::vector<T>& elements) {
    for (std::size_t left = elements.size(); left > 1; --left) {
      std::swap(elements[left - 1], elements[static_cast<std::size_t>(engine_() % left)]);
    }
  }

 private:
  std::mt19937_64 engine_;
};
