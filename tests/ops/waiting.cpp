// SPDX-License-Identifier: Apache-2.0
/// @file
/// Operations whose names end in `_and_wait`: what code calls that is to run on any executor.
#include "support/executors.hpp"
#include "support/random_batch.hpp"
#include "support/random_lod.hpp"
#include "support/same_bits.hpp"
#include <lod/lod.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

using lod::LoDTensor;
using lod_test::same_bits;

namespace {

/// What a user writes once for CPUs and GPUs: it names no device.
template <lod::Executor E, lod::LoDTensorLike X>
auto distinct_labels(const E& executor, const X& labels, const std::vector<int>& erased) {
  const auto kept = lod::sequence_erase_and_wait(executor, labels, erased);
  const auto aligned = lod::ctc_align_and_wait(executor, kept, {.blank = 0});
  return lod::unique_sequences_and_wait(executor, aligned);
}

}  // namespace

TEST_CASE("Operations that wait: one name serves every executor, and gives what the name without `_and_wait` gives") {
  lod_test::for_each_random_lod(20, 2, 5, [](lod_test::Engine& engine, const lod_test::Lengths& lengths) {
    const lod::CpuExecutor alone(1);
    const auto x = lod_test::small_integers<std::int32_t>(engine, lod::LoD::from_lengths(lengths), {});
    const auto labels = x.between(lod_test::random_number(engine, 0, x.size() > 0), x.size());
    const std::vector<int> erased = {1, static_cast<int>(lod_test::random_number(engine, -3, 3))};
    const auto kept = lod::sequence_erase(alone, labels, erased);
    const auto expected = lod::unique_sequences(alone, lod::ctc_align(alone, kept, {.blank = 0}));
    lod_test::for_each_executor([&](const auto& executor) {
      const auto result = distinct_labels(executor, labels, erased);
      CHECK(same_bits(result.values, expected.values));
      CHECK(same_bits(result.index, expected.index));
      CHECK(same_bits(result.counts, expected.counts));
      LoDTensor<std::int32_t> y(executor.resource());
      lod::sequence_erase_and_wait_into(executor, labels, erased, y);
      CHECK(same_bits(y, kept));
      lod::ctc_align_and_wait_into(executor, kept, {.blank = 0}, y);
      CHECK(same_bits(y, lod::ctc_align(executor, kept, {.blank = 0})));
    });
  });
}
