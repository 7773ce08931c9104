// SPDX-License-Identifier: Apache-2.0
#include "support/check_on_gpu.hpp"
#include "support/random_batch.hpp"
#include "support/same_bits.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

using lod::LoD;
using lod::LoDTensor;
using lod::PoolType;
using namespace lod_test;

namespace {

/// Two levels; empty sequences at both, one that is long.
LoD nested() { return LoD::from_lengths({{3, 0, 1, 2}, {2, 0, 70, 1, 5, 3}}); }

}  // namespace

TEST_CASE("on a GPU: pooling") {
  Engine engine(1);
  const LoD index = nested();
  for (const std::int64_t row_size : {1, 3}) {
    const auto x = real_numbers<float>(engine, index, {row_size});
    const auto dy = real_numbers<float>(engine, {index.size(-1), row_size});
    for (const PoolType type : {PoolType::SUM, PoolType::AVERAGE, PoolType::SQRT, PoolType::MAX, PoolType::MIN,
                                PoolType::FIRST, PoolType::LAST}) {
      check_on_gpu("sequence_pool", [&](auto& call) {
        lod::sequence_pool_into(call.executor(), call.on(x), type, {.pad_value = 7}, call.template out<float>());
      });
      if (type == PoolType::MAX || type == PoolType::MIN) continue;
      check_on_gpu("sequence_pool_grad", [&](auto& call) {
        lod::sequence_pool_grad_into(call.executor(), call.on(dy), index, type, {}, call.template out<float>());
      });
    }
    check_on_gpu("sequence_pool of a slice, of the outermost level", [&](auto& call) {
      const auto part = call.on(x).between(1, 4);
      lod::sequence_pool_into(call.executor(), part, PoolType::SUM, {.level = 0}, call.template out<float>());
    });
    check_on_gpu("sequence_first_step and sequence_last_step", [&](auto& call) {
      lod::sequence_first_step_into(call.executor(), call.on(x), call.template out<float>());
      lod::sequence_last_step_into(call.executor(), call.on(x), {.level = 0}, call.template out<float>());
    });
    check_on_gpu("sequence_max_pool and its gradient", [&](auto& call) {
      auto& values = call.template out<float>();
      auto& winners = call.template out<std::int64_t>();
      lod::sequence_max_pool_into(call.executor(), call.on(x), {}, values, winners);
      lod::sequence_max_pool_grad_into(call.executor(), call.on(dy), winners, index, {}, call.template out<float>());
    });
    check_on_gpu("sequence_min_pool and its gradient", [&](auto& call) {
      auto& values = call.template out<float>();
      auto& winners = call.template out<std::int64_t>();
      lod::sequence_min_pool_into(call.executor(), call.on(x), {}, values, winners);
      lod::sequence_min_pool_grad_into(call.executor(), call.on(dy), winners, index, {}, call.template out<float>());
    });
    check_on_gpu("sequence_logsumexp and its gradient", [&](auto& call) {
      lod::sequence_logsumexp_into(call.executor(), call.on(x), call.template out<float>());
      lod::sequence_logsumexp_grad_into(call.executor(), call.on(dy), call.on(x), call.template out<float>());
    });
  }
  const LoD rows = LoD::from_lengths({{2, 0, 3}}), columns = LoD::from_lengths({{4, 5, 1}});
  const auto matrices = real_numbers<float>(engine, LoD::from_lengths({{16, 0, 6}}), {});
  const auto dmeans = real_numbers<float>(engine, {5, 4});
  const std::vector<std::int64_t> topks = {1, 3};
  check_on_gpu("sequence_topk_avg_pooling and its gradient", [&](auto& call) {
    lod::sequence_topk_avg_pooling_into(call.executor(), call.on(matrices), rows, columns, topks, 2,
                                        call.template out<float>());
    lod::sequence_topk_avg_pooling_grad_into(call.executor(), call.on(dmeans), call.on(matrices), rows, columns, topks,
                                             2, call.template out<float>());
  });
}

TEST_CASE("on a GPU: softmax of wide rows, of sequences that blocks stage, and of some that are too long for it") {
  Engine engine(5);
  std::vector<std::int64_t> lengths(40);
  for (std::int64_t& each : lengths) each = random_number(engine, 0, 31);
  lengths[7] = 400;
  const LoD index = LoD::from_lengths({lengths});
  for (const std::int64_t row_size : {9, 64}) {
    CAPTURE(row_size);
    const auto x = real_numbers<float>(engine, index, {row_size});
    check_on_gpu("sequence_softmax", [&](auto& call) {
      lod::sequence_softmax_into(call.executor(), call.on(x), call.template out<float>());
      lod::sequence_log_softmax_into(call.executor(), call.on(x).between(3, 37), call.template out<float>());
    });
  }
}

TEST_CASE("on a GPU: what keeps the rows") {
  Engine engine(2);
  const LoD index = nested();
  for (const std::int64_t row_size : {1, 3}) {
    const auto x = real_numbers<float>(engine, index, {row_size}), dy = real_numbers<float>(engine, index, {row_size});
    check_on_gpu("sequence_softmax and its gradient", [&](auto& call) {
      auto& y = call.template out<float>();
      lod::sequence_softmax_into(call.executor(), call.on(x), y);
      lod::sequence_softmax_grad_into(call.executor(), call.on(dy), y, call.template out<float>());
    });
    check_on_gpu("sequence_log_softmax and its gradient", [&](auto& call) {
      auto& y = call.template out<float>();
      lod::sequence_log_softmax_into(call.executor(), call.on(x), {.level = 0}, y);
      lod::sequence_log_softmax_grad_into(call.executor(), call.on(dy), y, {.level = 0}, call.template out<float>());
    });
    for (const int level : {0, -1}) {
      check_on_gpu("sequence_reverse and its gradient", [&](auto& call) {
        auto& y = call.template out<float>();
        lod::sequence_reverse_into(call.executor(), call.on(x), {.level = level}, y);
        lod::sequence_reverse_grad_into(call.executor(), y, {.level = level}, call.template out<float>());
      });
    }
    check_on_gpu("sequence_cumsum and its gradient", [&](auto& call) {
      lod::sequence_cumsum_into(call.executor(), call.on(x), call.template out<float>());
      lod::sequence_cumsum_into(call.executor(), call.on(x), {.exclusive = true, .reverse = true},
                                call.template out<float>());
      lod::sequence_cumsum_grad_into(call.executor(), call.on(dy), call.template out<float>());
    });
  }
  const auto x = real_numbers<float>(engine, index, {}), dy = real_numbers<float>(engine, index, {});
  check_on_gpu("sequence_sort, sequence_argsort and the gradient", [&](auto& call) {
    auto& rows = call.template out<std::int64_t>();
    lod::sequence_sort_into(call.executor(), call.on(x), {.descending = true}, call.template out<float>());
    lod::sequence_argsort_into(call.executor(), call.on(x), rows);
    lod::sequence_sort_grad_into(call.executor(), call.on(dy), rows, call.template out<float>());
  });
  const auto dtop = real_numbers<float>(engine, {1 + 2 + 2 + 2 + 2});
  check_on_gpu("sequence_topk and its gradient", [&](auto& call) {
    auto& values = call.template out<float>();
    auto& rows = call.template out<std::int64_t>();
    lod::sequence_topk_into(call.executor(), call.on(x), 2, values, rows);
    lod::sequence_topk_grad_into(call.executor(), call.on(dtop), rows, index, 2, {}, call.template out<float>());
  });
}

TEST_CASE("on a GPU: what waits, to know how large its results are") {
  Engine engine(4);
  const LoD index = nested();
  const auto x = random_ids(engine, index, 5);
  const ThrustExecutor on_cpu;
  const lod::CudaExecutor executor;
  const auto gx = lod::to<lod::Cuda>(executor, x);
  const std::vector<std::int64_t> tokens = {3, 1, 7}, none;
  for (const auto* const list : {&tokens, &none}) {
    const auto erased = lod::sequence_erase_and_wait(executor, gx, *list);
    CHECK(same_bits(lod::to<lod::Cpu>(executor, erased), lod::sequence_erase(on_cpu, x, *list)));
  }
  const auto part = lod::sequence_erase_and_wait(executor, gx.between(1, 4), tokens);
  CHECK(same_bits(lod::to<lod::Cpu>(executor, part), lod::sequence_erase(on_cpu, x.between(1, 4), tokens)));
  for (const bool merge : {true, false}) {
    const lod::CtcAlignOptions options = {.blank = 2, .merge_repeated = merge};
    const auto aligned = lod::ctc_align_and_wait(executor, gx, options);
    CHECK(same_bits(lod::to<lod::Cpu>(executor, aligned), lod::ctc_align(on_cpu, x, options)));
  }
  const auto check_unique = [&](const auto& there, const auto& here) {
    const auto found = lod::unique_sequences_and_wait(executor, there);
    const auto expected = lod::unique_sequences(on_cpu, here);
    CHECK(same_bits(lod::to<lod::Cpu>(executor, found.values), expected.values));
    CHECK(same_bits(lod::to<lod::Cpu>(executor, found.index), expected.index));
    CHECK(same_bits(lod::to<lod::Cpu>(executor, found.counts), expected.counts));
  };
  const auto twice = lod::concat(on_cpu, x, x);
  check_unique(lod::to<lod::Cuda>(executor, twice), twice);
  check_unique(gx.between(1, 4), x.between(1, 4));
  const auto single = lod::flatten(on_cpu, x);
  check_unique(lod::to<lod::Cuda>(executor, single), single);
}

TEST_CASE("on a GPU: restructuring") {
  Engine engine(3);
  const LoD index = nested(), repeats = LoD::from_lengths({{2, 3, 0, 1}});
  const auto x = real_numbers<float>(engine, index, {3});
  const auto rows = real_numbers<float>(engine, {index.size(1), 3});
  check_on_gpu("sequence_expand and its gradient", [&](auto& call) {
    auto& y = call.template out<float>();
    lod::sequence_expand_into(call.executor(), call.on(x), repeats, y);
    lod::sequence_expand_grad_into(call.executor(), y, index, repeats, call.template out<float>());
  });
  const LoD often = LoD::from_lengths({{513, 2, 0, 1300}});
  check_on_gpu("sequence_expand of many copies and its gradient", [&](auto& call) {
    auto& y = call.template out<float>();
    lod::sequence_expand_into(call.executor(), call.on(x), often, y);
    lod::sequence_expand_grad_into(call.executor(), y, index, often, call.template out<float>());
  });
  check_on_gpu("sequence_expand of rows and its gradient", [&](auto& call) {
    auto& y = call.template out<float>();
    lod::sequence_expand_into(call.executor(), call.on(rows), index, {.ref_level = 1}, y);
    lod::sequence_expand_grad_into(call.executor(), y, LoD(), index, {.ref_level = 1}, call.template out<float>());
  });
  check_on_gpu("sequence_expand_as and its gradient", [&](auto& call) {
    auto& y = call.template out<float>();
    lod::sequence_expand_as_into(call.executor(), call.on(rows), index, y);
    lod::sequence_expand_as_grad_into(call.executor(), y, index, call.template out<float>());
  });
  check_on_gpu("sequence_concat and its gradient", [&](auto& call) {
    auto& y = call.template out<float>();
    lod::sequence_concat_into(call.executor(), call.on(x), call.on(x), y);
    using Part = std::remove_cvref_t<decltype(y)>;
    auto& parts = call.template kept<std::vector<Part>>(2u, Part(call.executor().resource()));
    const std::vector<LoD> lods = {index, index};
    lod::sequence_concat_grad_into(call.executor(), y, lods, parts);
    for (Part& part : parts) call.result(part);
  });
  const std::vector<std::int64_t> first = {1, 0, 0, 1}, counts = {2, 0, 1, 0};
  check_on_gpu("sequence_slice and its gradient", [&](auto& call) {
    auto& y = call.template out<float>();
    lod::sequence_slice_into(call.executor(), call.on(x), first, counts, y);
    lod::sequence_slice_grad_into(call.executor(), y, index, first, counts, call.template out<float>());
  });
  check_on_gpu("sequence_pad and its gradient", [&](auto& call) {
    auto& dense = call.template out<float>();
    lod::sequence_pad_into(call.executor(), call.on(x), {.pad_value = 2, .side = lod::Side::LEFT}, dense,
                           call.template out<std::int64_t>());
    lod::sequence_pad_grad_into(call.executor(), dense, index, {.side = lod::Side::LEFT}, call.template out<float>());
  });
  const auto dense = real_numbers<float>(engine, {4, 5, 3});
  const std::vector<std::int64_t> lengths = {5, 0, 2, 1};
  check_on_gpu("sequence_unpad and its gradient", [&](auto& call) {
    auto& y = call.template out<float>();
    lod::sequence_unpad_into(call.executor(), call.on(dense), lengths, y);
    lod::sequence_unpad_grad_into(call.executor(), y, lengths, 5, call.template out<float>());
  });
  check_on_gpu("sequence_mask", [&](auto& call) {
    lod::sequence_mask_into(call.executor(), lengths, call.template out<std::int64_t>());
    lod::sequence_mask_into(call.executor(), lengths, {.max_length = 3}, call.template out<bool>());
  });
  check_on_gpu("sequence_reshape and its gradient", [&](auto& call) {
    auto& y = call.template out<float>();
    lod::sequence_reshape_into(call.executor(), call.on(x), 1, y);
    lod::sequence_reshape_grad_into(call.executor(), y, index, {3}, call.template out<float>());
  });
  const auto ids = random_ids(engine, index, 20);
  check_on_gpu("sequence_enumerate", [&](auto& call) {
    lod::sequence_enumerate_into(call.executor(), call.on(ids), 3, {.pad_value = -1},
                                 call.template out<std::int64_t>());
  });
  const auto others = random_ids(engine, LoD::from_lengths({{1, 2, 0, 3}, {4, 0, 60, 2, 5, 1}}), 20);
  check_on_gpu("edit_distance", [&](auto& call) {
    lod::edit_distance_into(call.executor(), call.on(ids), call.on(others), {.normalized = true},
                            call.template out<float>());
  });
  const auto novels = random_ids(engine, LoD::from_lengths({{1500, 3, 0, 40, 1100}}), 20);
  const auto copies = random_ids(engine, LoD::from_lengths({{1100, 0, 2, 1600, 1200}}), 20);
  check_on_gpu("edit_distance of long sequences", [&](auto& call) {
    lod::edit_distance_into(call.executor(), call.on(novels), call.on(copies), call.template out<float>());
  });
  check_on_gpu("lod_reset, lod_append and their gradients", [&](auto& call) {
    auto& y = call.template out<float>();
    lod::lod_reset_into(call.executor(), call.on(x), LoD::from_lengths({{80, 1}}), y);
    lod::lod_reset_grad_into(call.executor(), y, index, call.template out<float>());
    auto& z = call.template out<float>();
    const std::vector<std::int64_t> offsets = {0, 2, 3, 6, 6};
    lod::lod_append_into(call.executor(), call.on(rows).between(0, 6), offsets, z);
    lod::lod_append_grad_into(call.executor(), z, 6, call.template out<float>());
  });
}
