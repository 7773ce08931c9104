// SPDX-License-Identifier: Apache-2.0
/// @file
/// What algorithms of Thrust give, by the standard library: unoptimised, Thrust's own sort takes ten times as long.
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>
#include <vector>

namespace lod_test {

/// Sorts keys by less, equal ones in their order, and the values in the places of their keys.
template <class Keys, class Values, class Less>
void sort_by_key(Keys first, Keys last, Values values, const Less& less) {
  using Pair = std::pair<std::iter_value_t<Keys>, std::iter_value_t<Values>>;
  std::vector<Pair> pairs;
  pairs.reserve(static_cast<std::size_t>(last - first));
  Values value = values;
  for (Keys key = first; key != last; ++key) pairs.emplace_back(*key, *value++);
  std::stable_sort(pairs.data(), pairs.data() + pairs.size(),
                   [&](const Pair& a, const Pair& b) { return less(a.first, b.first); });
  for (const Pair& pair : pairs) {
    *first++ = pair.first;
    *values++ = pair.second;
  }
}

}  // namespace lod_test
