// SPDX-License-Identifier: Apache-2.0
#include "support/executors.hpp"
#include "support/random_batch.hpp"
#include "support/repeatable.hpp"
#include <lod/lod.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

using lod::LoD;
using lod::LoDTensor;
using lod::PoolType;
using namespace lod_test;

namespace {

/// Enough for all threads: long sequences, short ones, empty ones.
LoD large(Engine& engine, std::int64_t row_size) { return giant_among_short(engine, 500, 9 * grain / 4 / row_size); }

}  // namespace

TEST_CASE("a second call of an operation allocates nothing: pooling and softmax") {
  on_counting_executors([](const auto& check, const auto& executor, CountingResource& resource) {
    for (const std::int64_t row_size : {1, 3, 17}) {
      Engine engine(1);
      const LoD index = large(engine, row_size);
      const auto x = real_numbers<float>(engine, index, {row_size});
      LoDTensor<float> y(&resource), z(&resource), dx(&resource);
      LoDTensor<std::int64_t> which(&resource);
      for (const PoolType pool : {PoolType::SUM, PoolType::MAX, PoolType::FIRST}) {
        check("sequence_pool", [&] { lod::sequence_pool_into(executor, x, pool, y); });
      }
      check("sequence_pool of a slice",
            [&] { lod::sequence_pool_into(executor, x.between(3, 400), PoolType::SUM, z); });
      check("sequence_first_step", [&] { lod::sequence_first_step_into(executor, x, y); });
      check("sequence_last_step", [&] { lod::sequence_last_step_into(executor, x, {.level = 0}, y); });
      check("sequence_min_pool", [&] { lod::sequence_min_pool_into(executor, x, {}, y, which); });
      check("sequence_min_pool_grad", [&] { lod::sequence_min_pool_grad_into(executor, y, which, index, {}, dx); });
      check("sequence_max_pool", [&] { lod::sequence_max_pool_into(executor, x, {}, y, which); });
      check("sequence_pool_grad", [&] { lod::sequence_pool_grad_into(executor, y, index, PoolType::SQRT, {}, dx); });
      check("sequence_max_pool_grad", [&] { lod::sequence_max_pool_grad_into(executor, y, which, index, {}, dx); });
      check("sequence_softmax", [&] { lod::sequence_softmax_into(executor, x, z); });
      check("sequence_softmax_grad", [&] { lod::sequence_softmax_grad_into(executor, x, z, dx); });
      check("sequence_log_softmax", [&] { lod::sequence_log_softmax_into(executor, x, z); });
      check("sequence_log_softmax_grad", [&] { lod::sequence_log_softmax_grad_into(executor, x, z, dx); });
    }
  });
}

TEST_CASE("a second call of an operation allocates nothing: restructuring, which builds new levels") {
  on_counting_executors([](const auto& check, const auto& executor, CountingResource& resource) {
    for (const std::int64_t row_size : {1, 17}) {
      Engine engine(2);
      const LoD flat = large(engine, row_size);
      const LoD index = LoD::from_lengths({{200, 0, 300}, flat.lengths(0)});
      const auto x = real_numbers<float>(engine, index, {row_size});
      const auto rows = real_numbers<float>(engine, {index.size(1), row_size});
      const LoD repeats = LoD::from_lengths({{2, 3, 1}});
      LoDTensor<float> y(&resource), z(&resource), dx(&resource), dense(&resource);
      LoDTensor<std::int64_t> lengths(&resource);
      check("sequence_reverse", [&] { lod::sequence_reverse_into(executor, x, y); });
      check("sequence_reverse of level 0", [&] { lod::sequence_reverse_into(executor, x, {.level = 0}, y); });
      check("sequence_reverse_grad", [&] { lod::sequence_reverse_grad_into(executor, y, dx); });
      check("sequence_expand", [&] { lod::sequence_expand_into(executor, x, repeats, y); });
      check("sequence_expand_grad", [&] { lod::sequence_expand_grad_into(executor, y, index, repeats, dx); });
      check("sequence_expand of rows", [&] { lod::sequence_expand_into(executor, rows, flat, z); });
      check("sequence_expand_grad of rows", [&] { lod::sequence_expand_grad_into(executor, z, LoD(), flat, dx); });
      check("sequence_expand_as", [&] { lod::sequence_expand_as_into(executor, rows, index, z); });
      check("sequence_expand_as_grad", [&] { lod::sequence_expand_as_grad_into(executor, z, index, dx); });
      const std::vector<LoDTensor<float>> both = {x, x};
      const std::vector<LoD> lods = {index, index};
      std::vector<LoDTensor<float>> parts(2, LoDTensor<float>(&resource));
      check("sequence_concat", [&] { lod::sequence_concat_into(executor, x, x, y); });
      check("sequence_concat of a range", [&] { lod::sequence_concat_into(executor, both, y); });
      check("sequence_concat_grad", [&] { lod::sequence_concat_grad_into(executor, y, lods, parts); });
      const LoD ragged = giant_among_short(engine, 300, 2000);
      const auto short_ones = real_numbers<float>(engine, ragged, {row_size});
      check("sequence_pad", [&] { lod::sequence_pad_into(executor, short_ones, dense, lengths); });
      check("sequence_pad_grad", [&] { lod::sequence_pad_grad_into(executor, dense, ragged, dx); });
      check("sequence_unpad", [&] { lod::sequence_unpad_into(executor, dense, lengths, z); });
      check("sequence_unpad_grad", [&] { lod::sequence_unpad_grad_into(executor, z, lengths, 2000, dense); });
    }
  });
}
