// SPDX-License-Identifier: Apache-2.0
/// @file
/// Operations on the rows of sequences, on random batches of every row size: a GPU gives what the CPU gives.
#include "support/check_on_gpu.hpp"
#include "support/gpu_batches.hpp"
#include "support/same_bits.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <numeric>
#include <type_traits>
#include <vector>

using lod::LoD;
using lod::LoDTensor;
using lod::PoolType;
using namespace lod_test;

TEST_CASE("on a GPU, random batches: reductions") {
  for_each_gpu_batch([](const Middle& middle) {
    const LoD& index = middle.index;
    const int level = middle.level;
    const auto x = middle.rows(), ties = middle.ties();
    for (const PoolType type : {PoolType::SUM, PoolType::AVERAGE, PoolType::SQRT, PoolType::MAX, PoolType::MIN,
                                PoolType::FIRST, PoolType::LAST}) {
      check_on_gpu("sequence_pool and its gradient", [&](auto& call) {
        auto& y = call.template out<float>();
        lod::sequence_pool_into(call.executor(), middle.of(call, x), type, {.pad_value = 7, .level = level}, y);
        if (type == PoolType::MAX || type == PoolType::MIN) return;
        lod::sequence_pool_grad_into(call.executor(), y, index, type, {.level = level}, call.template out<float>());
      });
    }
    check_on_gpu("sequence_first_step and sequence_last_step", [&](auto& call) {
      lod::sequence_first_step_into(call.executor(), middle.of(call, x), {.level = level}, call.template out<float>());
      lod::sequence_last_step_into(call.executor(), middle.of(call, x), {.level = level}, call.template out<float>());
    });
    check_on_gpu("winners counted in their sequences, and their gradient", [&](auto& call) {
      const lod::PoolOptions options = {.level = level, .row_index = lod::RowIndex::SEQUENCE};
      auto& most = call.template out<float>();
      auto& winners = call.template out<std::int64_t>();
      lod::sequence_max_pool_into(call.executor(), middle.of(call, ties), options, most, winners);
      lod::sequence_max_pool_grad_into(call.executor(), most, winners, index, options, call.template out<float>());
    });
    check_on_gpu("sequence_max_pool, sequence_min_pool and their gradients", [&](auto& call) {
      auto& most = call.template out<float>();
      auto& winners = call.template out<std::int64_t>();
      lod::sequence_max_pool_into(call.executor(), middle.of(call, ties), {.level = level}, most, winners);
      lod::sequence_max_pool_grad_into(call.executor(), most, winners, index, {.level = level},
                                       call.template out<float>());
      auto& least = call.template out<float>();
      auto& losers = call.template out<std::int64_t>();
      lod::sequence_min_pool_into(call.executor(), middle.of(call, ties), {.level = level}, least, losers);
      lod::sequence_min_pool_grad_into(call.executor(), least, losers, index, {.level = level},
                                       call.template out<float>());
    });
    check_on_gpu("sequence_logsumexp and its gradient", [&](auto& call) {
      auto& y = call.template out<float>();
      lod::sequence_logsumexp_into(call.executor(), middle.of(call, x), {.level = level}, y);
      lod::sequence_logsumexp_grad_into(call.executor(), y, middle.of(call, x), {.level = level},
                                        call.template out<float>());
    });
    check_on_gpu("sequence_mean_var and its gradient", [&](auto& call) {
      auto& mean = call.template out<float>();
      auto& variance = call.template out<float>();
      lod::sequence_mean_var_into(call.executor(), middle.of(call, x), {.level = level}, mean, variance);
      lod::sequence_mean_var_grad_into(call.executor(), mean, variance, middle.of(call, x), {.level = level},
                                       call.template out<float>());
    });
    const LoD rows = LoD::from_lengths({middle.numbers(5, 0, 4)}),
              columns = LoD::from_lengths({middle.numbers(5, 0, 6)});
    std::vector<std::int64_t> sizes;
    for (std::int64_t i = 0; i < 5; ++i)
      sizes.push_back(2 * rows.lengths(0)[static_cast<std::size_t>(i)] *
                      columns.lengths(0)[static_cast<std::size_t>(i)]);
    const auto matrices = real_numbers<float>(middle.engine, LoD::from_lengths({sizes}), {});
    const std::vector<std::int64_t> topks = {1, 3, 9};
    check_on_gpu("sequence_topk_avg_pooling and its gradient", [&](auto& call) {
      auto& means = call.template out<float>();
      lod::sequence_topk_avg_pooling_into(call.executor(), call.on(matrices), rows, columns, topks, 2, means);
      lod::sequence_topk_avg_pooling_grad_into(call.executor(), means, call.on(matrices), rows, columns, topks, 2,
                                               call.template out<float>());
    });
  });
}

TEST_CASE("on a GPU, random batches: row by row") {
  for_each_gpu_batch([](const Middle& middle) {
    const int level = middle.level;
    const auto x = middle.rows(), dy = middle.rows();
    check_on_gpu("sequence_softmax, sequence_log_softmax and their gradients", [&](auto& call) {
      auto& y = call.template out<float>();
      lod::sequence_softmax_into(call.executor(), middle.of(call, x), {.level = level}, y);
      lod::sequence_softmax_grad_into(call.executor(), middle.of(call, dy), y, {.level = level},
                                      call.template out<float>());
      auto& z = call.template out<float>();
      lod::sequence_log_softmax_into(call.executor(), middle.of(call, x), {.level = level}, z);
      lod::sequence_log_softmax_grad_into(call.executor(), middle.of(call, dy), z, {.level = level},
                                          call.template out<float>());
    });
    check_on_gpu("sequence_reverse and its gradient", [&](auto& call) {
      lod::sequence_reverse_into(call.executor(), middle.of(call, x), {.level = level}, call.template out<float>());
      lod::sequence_reverse_grad_into(call.executor(), middle.of(call, dy), {.level = level},
                                      call.template out<float>());
    });
    for (const bool exclusive : {false, true}) {
      for (const bool reverse : {false, true}) {
        const lod::CumsumOptions options{.exclusive = exclusive, .reverse = reverse, .level = level};
        check_on_gpu("sequence_cumsum and its gradient", [&](auto& call) {
          lod::sequence_cumsum_into(call.executor(), middle.of(call, x), options, call.template out<float>());
          lod::sequence_cumsum_grad_into(call.executor(), middle.of(call, dy), options, call.template out<float>());
        });
      }
    }
    const auto column = middle.scalars(), dcolumn = middle.scalars();
    const auto ties = small_integers<float>(middle.engine, middle.whole, {});
    for (const auto* const keys : {&column, &ties}) {
      const bool descending = keys == &ties;
      check_on_gpu("sorted rows counted in their sequences, and their gradients", [&](auto& call) {
        auto& rows = call.template out<std::int64_t>();
        const lod::SortOptions sort = {.level = level, .row_index = lod::RowIndex::SEQUENCE};
        lod::sequence_argsort_into(call.executor(), middle.of(call, *keys), sort, rows);
        lod::sequence_sort_grad_into(call.executor(), middle.of(call, dcolumn), rows, sort, call.template out<float>());
        auto& values = call.template out<float>();
        auto& top = call.template out<std::int64_t>();
        const lod::TopKOptions greatest = {.level = level, .row_index = lod::RowIndex::SEQUENCE};
        lod::sequence_topk_into(call.executor(), middle.of(call, *keys), 3, greatest, values, top);
        lod::sequence_topk_grad_into(call.executor(), values, top, middle.index, 3, greatest,
                                     call.template out<float>());
      });
      check_on_gpu("sequence_sort, sequence_argsort, sequence_topk and their gradients", [&](auto& call) {
        auto& rows = call.template out<std::int64_t>();
        const lod::SortOptions order{.descending = descending, .level = level};
        lod::sequence_sort_into(call.executor(), middle.of(call, *keys), order, call.template out<float>());
        lod::sequence_argsort_into(call.executor(), middle.of(call, *keys), order, rows);
        lod::sequence_sort_grad_into(call.executor(), middle.of(call, dcolumn), rows, order,
                                     call.template out<float>());
        auto& values = call.template out<float>();
        auto& top = call.template out<std::int64_t>();
        lod::sequence_topk_into(call.executor(), middle.of(call, *keys), 3, {.level = level}, values, top);
        lod::sequence_topk_grad_into(call.executor(), values, top, middle.index, 3, {.level = level},
                                     call.template out<float>());
      });
    }
  });
}

TEST_CASE("on a GPU, random batches: restructuring") {
  for_each_gpu_batch([](const Middle& middle) {
    const LoD& index = middle.index;
    const int level = middle.level;
    const auto x = middle.rows(), z = middle.rows();
    const LoD repeats = LoD::from_lengths({middle.numbers(middle.size(), 0, 3)});
    check_on_gpu("sequence_expand and its gradient", [&](auto& call) {
      auto& y = call.template out<float>();
      lod::sequence_expand_into(call.executor(), middle.of(call, x), repeats, y);
      lod::sequence_expand_grad_into(call.executor(), y, index, repeats, call.template out<float>());
    });
    const auto one_each = real_numbers<float>(middle.engine, {index.size(-1), middle.row_size});
    check_on_gpu("sequence_expand_as and its gradient", [&](auto& call) {
      lod::sequence_expand_as_into(call.executor(), call.on(one_each), index, call.template out<float>());
      lod::sequence_expand_as_grad_into(call.executor(), middle.of(call, x), index, call.template out<float>());
    });
    check_on_gpu("sequence_concat and its gradient", [&](auto& call) {
      auto& y = call.template out<float>();
      lod::sequence_concat_into(call.executor(), middle.of(call, x), middle.of(call, z), y);
      using Part = std::remove_cvref_t<decltype(y)>;
      auto& parts = call.template kept<std::vector<Part>>(2u, Part(call.executor().resource()));
      const std::vector<LoD> lods = {index, index};
      lod::sequence_concat_grad_into(call.executor(), y, lods, parts);
      for (Part& part : parts) call.result(part);
    });
    std::vector<std::int64_t> first, counts;
    for (const std::int64_t length : index.lengths(0)) {
      first.push_back(random_number(middle.engine, 0, length));
      counts.push_back(random_number(middle.engine, 0, length - first.back()));
    }
    check_on_gpu("sequence_slice and its gradient", [&](auto& call) {
      auto& y = call.template out<float>();
      lod::sequence_slice_into(call.executor(), middle.of(call, x), first, counts, y);
      lod::sequence_slice_grad_into(call.executor(), y, index, first, counts, call.template out<float>());
    });
    for (const lod::Side side : {lod::Side::RIGHT, lod::Side::LEFT}) {
      check_on_gpu("sequence_pad, sequence_unpad and their gradients", [&](auto& call) {
        const lod::PadOptions options{
            .pad_value = 2, .padded_length = 20, .side = side, .truncate = true, .level = level};
        auto& dense = call.template out<float>();
        lod::sequence_pad_into(call.executor(), middle.of(call, x), options, dense, call.template out<std::int64_t>());
        lod::sequence_pad_grad_into(call.executor(), dense, index, options, call.template out<float>());
        std::vector<std::int64_t> lengths;
        const auto absolute = index.absolute_offsets(level);
        for (std::size_t i = 1; i < absolute.size(); ++i) {
          lengths.push_back(std::min<std::int64_t>(absolute[i] - absolute[i - 1], 20));
        }
        auto& y = call.template out<float>();
        lod::sequence_unpad_into(call.executor(), dense, lengths, {.side = side}, y);
        lod::sequence_unpad_grad_into(call.executor(), y, lengths, 20, {.side = side}, call.template out<float>());
      });
    }
    const std::vector<std::int64_t> lengths = index.lengths(-1);
    check_on_gpu("sequence_mask", [&](auto& call) {
      lod::sequence_mask_into(call.executor(), lengths, {.max_length = 30}, call.template out<std::int64_t>());
    });
    check_on_gpu("sequence_reshape and its gradient", [&](auto& call) {
      auto& y = call.template out<float>();
      lod::sequence_reshape_into(call.executor(), middle.of(call, x), 1, y);
      lod::sequence_reshape_grad_into(call.executor(), y, index, {middle.row_size}, call.template out<float>());
    });
    std::vector<std::int64_t> every(static_cast<std::size_t>(index.rows()) + 1);
    std::iota(every.begin(), every.end(), std::int64_t{0});
    check_on_gpu("lod_reset, lod_append and their gradients", [&](auto& call) {
      auto& y = call.template out<float>();
      lod::lod_reset_into(call.executor(), middle.of(call, x), LoD::from_lengths({{0, index.rows(), 0}}), y);
      lod::lod_reset_grad_into(call.executor(), y, index, call.template out<float>());
      auto& w = call.template out<float>();
      lod::lod_append_into(call.executor(), middle.of(call, x), every, w);
      lod::lod_append_grad_into(call.executor(), w, index, call.template out<float>());
    });
  });
}

TEST_CASE("on a GPU, random batches: lists of ids") {
  for_each_gpu_batch([](const Middle& middle) {
    const auto ids = middle.ids(4), others = middle.ids(4);
    check_on_gpu("sequence_enumerate", [&](auto& call) {
      lod::sequence_enumerate_into(call.executor(), middle.of(call, ids), 3, {.pad_value = -1, .level = middle.level},
                                   call.template out<std::int64_t>());
    });
    if (middle.is_short()) {
      check_on_gpu("edit_distance", [&](auto& call) {
        lod::edit_distance_into(call.executor(), middle.of(call, ids), middle.of(call, others), {.level = middle.level},
                                call.template out<float>());
      });
    }
    // What waits, to know how large its results are.
    const ThrustExecutor on_cpu;
    const lod::CudaExecutor executor;
    const auto whole = lod::to<lod::Cuda>(executor, ids);
    const auto there = whole.between(middle.first, middle.last);
    const auto here = ids.between(middle.first, middle.last);
    const auto check = [&](const auto& found, const auto& expected) {
      CHECK(same_bits(lod::to<lod::Cpu>(executor, found), expected));
    };
    const std::vector<std::int64_t> tokens = {0, 3};
    check(lod::sequence_erase_and_wait(executor, there, tokens), lod::sequence_erase(on_cpu, here, tokens));
    check(lod::ctc_align_and_wait(executor, there), lod::ctc_align(on_cpu, here));
    const auto found = lod::unique_sequences_and_wait(executor, there);
    const auto expected = lod::unique_sequences(on_cpu, here);
    check(found.values, expected.values);
    check(found.index, expected.index);
    check(found.counts, expected.counts);
  });
}
