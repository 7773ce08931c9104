// SPDX-License-Identifier: Apache-2.0
#include "support/check_on_gpu.hpp"
#include "support/random_batch.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

using lod::LoD;
using lod::LoDTensor;
using lod::PoolType;
using namespace lod_test;

TEST_CASE_TEMPLATE("on a GPU: the smallest element types", T, std::uint8_t, bool) {
  Engine engine(31);
  const LoD index = LoD::from_lengths({{2, 0, 40, 1, 5, 3}});
  const auto x = small_integers<T>(engine, index, {3});
  check_on_gpu("sequence_pool, sequence_cumsum, sequence_reverse", [&](auto& call) {
    lod::sequence_pool_into(call.executor(), call.on(x), PoolType::SUM, {.pad_value = 1}, call.template out<T>());
    lod::sequence_cumsum_into(call.executor(), call.on(x), call.template out<T>());
    lod::sequence_reverse_into(call.executor(), call.on(x), call.template out<T>());
  });
}
