// SPDX-License-Identifier: Apache-2.0
/// @file
/// Batches whose sequences are as long as kernels over Thrust tell apart: in lanes and leaves, chunks of leaves, and
/// what is joined at a time, with one row less and one more.
#pragma once

#include "support/random_batch.hpp"
#include <lod/kernels/sum_tree.hpp>
#include <lod/lod_index.hpp>
#include <lod/lod_tensor.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace lod_test {

/// Two levels; the first sequence of the outer one is short, and a slice without it begins in the middle of a leaf.
inline lod::LoD long_among_short(Engine& engine, std::int64_t row_size) {
  const std::int64_t leaf = lod::kernel::leaf_rows, chunk = lod::kernel::chunk_rows(row_size);
  std::vector<std::int64_t> lengths = {
      1,    15,       16,       17,       63,           64,    65,        leaf / 2,
      leaf, leaf - 1, leaf + 1, 2 * leaf, 2 * leaf + 1, chunk, chunk + 1, 3 * chunk + leaf + 1};
  if (row_size == 1) lengths.push_back(256 * leaf + 70);
  for (int i = 0; i < 40; ++i) lengths.push_back(random_number(engine, 0, 9));
  for (int i = 0; i < 3; ++i) lengths.push_back(0);
  std::shuffle(lengths.begin(), lengths.end(), engine);
  lengths.insert(lengths.begin(), {0, 5, 0, 88});
  const auto size = static_cast<std::int64_t>(lengths.size());
  return lod::LoD::from_lengths({{4, 0, size - 9, 5}, lengths});
}

/// Few different numbers, so that many are the greatest, and now and then NaN where there is one.
template <class T>
lod::LoDTensor<T> many_ties(Engine& engine, const lod::LoD& index, std::int64_t row_size) {
  auto x = small_integers<T>(engine, index, {row_size});
  if constexpr (std::numeric_limits<T>::has_quiet_NaN) {
    for (std::int64_t at = 700; at < x.rows() * row_size; at += random_number(engine, 1, 4000)) {
      x.data()[at] = std::numeric_limits<T>::quiet_NaN();
    }
  }
  return x;
}

}  // namespace lod_test
