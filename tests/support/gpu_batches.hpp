// SPDX-License-Identifier: Apache-2.0
/// @file
/// Random batches for calls on a GPU: what operations are given is the middle of a batch, so that its offsets and its
/// rows begin somewhere else.
#pragma once

#include "support/grain.hpp"
#include "support/random_batch.hpp"
#include "support/random_lod.hpp"
#include <lod/lod_tensor.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

namespace lod_test {

/// The middle of a batch.
struct Middle {
  Engine& engine;
  lod::LoD whole;
  std::int64_t first;  ///< the sequences of level 0 that belong to it
  std::int64_t last;
  int level;  ///< any of its levels
  std::int64_t row_size;
  lod::LoD index;  ///< its levels

  Middle(Engine& random, const lod::LoD& lod, std::int64_t size_of_row)
      : engine(random),
        whole(lod),
        first(lod.size(0) > 2 ? 1 : 0),
        last(lod.size(0) - first),
        level(static_cast<int>(random_number(random, 0, lod.levels() - 1))),
        row_size(size_of_row),
        index(counted().between(first, last).lod()) {}

  /// Sequences of level 0.
  std::int64_t size() const { return last - first; }
  /// Few enough steps that each may be a call of its own.
  bool is_short() const { return index.max_length(-1) <= 300 && index.max_length(level) <= 300; }

  /// That of x, which has the levels of the whole batch, where the call works.
  template <class Call, class T>
  auto of(Call& call, const lod::LoDTensor<T>& x) const {
    return call.on(x).between(first, last);
  }

  lod::LoDTensor<float> rows() const { return real_numbers<float>(engine, whole, {row_size}); }
  lod::LoDTensor<float> scalars() const { return real_numbers<float>(engine, whole, {}); }
  /// Of repeated numbers, so that some are as great as others.
  lod::LoDTensor<float> ties() const { return small_integers<float>(engine, whole, {row_size}); }
  lod::LoDTensor<std::int64_t> ids(std::int64_t height) const { return random_ids(engine, whole, height); }
  /// A number for each of `count`, in [least, greatest].
  std::vector<std::int64_t> numbers(std::int64_t count, std::int64_t least, std::int64_t greatest) const {
    std::vector<std::int64_t> all;
    for (std::int64_t i = 0; i < count; ++i) all.push_back(random_number(engine, least, greatest));
    return all;
  }
  std::vector<bool> mask(std::int64_t count) const { return random_mask(engine, count); }

 private:
  lod::LoDTensor<std::int64_t> counted() const { return lod::LoDTensor<std::int64_t>(whole, {}); }
};

inline constexpr std::int64_t gpu_row_sizes[] = {1, 3, 8, 17, 64};

/// body(middle) for random LoDs of one to three levels, with empty sequences at each of them, with nothing else and
/// without any; and for one giant among short sequences. Each of the row sizes takes its turn.
template <class Body>
void for_each_gpu_batch(const Body& body) {
  std::size_t turn = 0;
  const auto call = [&](Engine& engine, const lod::LoD& whole, std::int64_t row_size) {
    INFO("row size ", row_size);
    body(Middle(engine, whole, row_size));
  };
  for_each_random_lod(slow ? 2 : 5, 1, 3, [&](Engine& engine, const Lengths& lengths) {
    call(engine, lod::LoD::from_lengths(lengths), gpu_row_sizes[turn++ % 5]);
  });
  for (const std::int64_t row_size : gpu_row_sizes) {
    if (slow && row_size != 3) continue;
    INFO("a giant");
    Engine engine(first_seed() + 100);
    const lod::LoD sentences = giant_among_short(engine, 200, slow ? 700 : 3000);
    call(engine, lod::LoD::from_lengths({{1, 60, 0, 137, 2}, sentences.lengths(0)}), row_size);
  }
}

}  // namespace lod_test
