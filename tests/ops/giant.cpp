// SPDX-License-Identifier: Apache-2.0
/// @file
/// One giant among thousands of short sequences, and batches without a row, for operations whose own files lack them.
#include "support/executors.hpp"
#include "support/random_batch.hpp"
#include "support/random_lod.hpp"
#include <lod/lod.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

using lod::LoD;
using lod::LoDTensor;
using lod::RankTable;
using namespace lod_test;
using Numbers = std::vector<std::int64_t>;

namespace {

/// body(check, index, row_size): check(name, f) compares f of a slice, which has the levels `index`, on every executor
/// with f of its copy on one thread. Where all is slow, wide rows are hundreds.
template <class Body>
void for_each_giant(const Body& body) {
  for (const std::int64_t row_size : {1, 3, 17}) {
    INFO("row size ", row_size);
    Engine engine(8);
    const std::int64_t size = slow && row_size > 1 ? 600 : 3000,
                       giant = slow && row_size > 3 ? grain / 4 : 5 * grain / 8;
    const LoD sentences = giant_among_short(engine, size, giant);
    const auto whole = real_numbers<float>(
        engine, LoD::from_lengths({{1, size / 3, 0, size - size / 3 - 1}, sentences.lengths(0)}), {row_size});
    const auto slice = whole.between(1, 4);
    const auto copy = LoDTensor<float>::copy_of(slice);
    const auto check = [&](const char* name, const auto& f) {
      INFO(name);
      for_each_executor(
          [&](const auto& executor) { CHECK(same_bits(f(executor, slice), f(working_alone(executor), copy.view()))); });
    };
    body(check, copy.lod(), row_size);
  }
}

}  // namespace

TEST_CASE(
    "sequence_max_pool, sequence_softmax, ...: a giant among thousands, by any number of threads, slice as copy") {
  for_each_giant([](const auto& check, const LoD& index, std::int64_t row_size) {
    Engine engine(1);
    const auto look_ahead = real_numbers<float>(engine, {4, row_size});
    const auto filter = real_numbers<float>(engine, {3 * row_size, 5});
    const lod::PadOptions pad{.padded_length = 64, .truncate = true, .level = 1};
    check("max_pool", [](const auto& e, const auto& x) { return lod::sequence_max_pool(e, x).values; });
    check("min_pool", [](const auto& e, const auto& x) { return lod::sequence_min_pool(e, x).index; });
    check("max_pool_grad", [&](const auto& e, const auto& x) {
      const auto top = lod::sequence_max_pool(e, x);
      return lod::sequence_max_pool_grad(e, top.values, top.index, index);
    });
    check("last_step", [](const auto& e, const auto& x) { return lod::sequence_last_step(e, x, {.level = 0}); });
    check("softmax_grad",
          [](const auto& e, const auto& x) { return lod::sequence_softmax_grad(e, x, lod::sequence_softmax(e, x)); });
    check("log_softmax_grad", [](const auto& e, const auto& x) {
      return lod::sequence_log_softmax_grad(e, x, lod::sequence_log_softmax(e, x));
    });
    check("expand_as", [&](const auto& e, const auto& x) {
      return lod::sequence_expand_as(e, lod::sequence_first_step(e, x), index);
    });
    check("expand_as_grad", [&](const auto& e, const auto& x) { return lod::sequence_expand_as_grad(e, x, index); });
    check("reshape", [](const auto& e, const auto& x) { return lod::sequence_reshape(e, x, 1); });
    check("reshape_grad", [&](const auto& e, const auto& x) {
      return lod::sequence_reshape_grad(e, lod::sequence_reshape(e, x, 1), index, {row_size});
    });
    check("unpad", [&](const auto& e, const auto& x) {
      const auto padded = lod::sequence_pad(e, x, pad);
      return lod::sequence_unpad(e, padded.dense, padded.lengths);
    });
    check("unpad_grad", [&](const auto& e, const auto& x) {
      const auto padded = lod::sequence_pad(e, x, pad);
      return lod::sequence_unpad_grad(e, lod::sequence_unpad(e, padded.dense, padded.lengths), padded.lengths, 64);
    });
    check("lod_reset", [](const auto& e, const auto& x) {
      return lod::lod_reset(e, x, LoD::from_lengths({{0, x.rows(), 0}}));
    });
    check("lod_append", [](const auto& e, const auto& x) {
      Numbers offsets(static_cast<std::size_t>(x.rows()) + 1);
      std::iota(offsets.begin(), offsets.end(), 0);
      return lod::lod_append(e, x, offsets);
    });
    check("mul", [](const auto& e, const auto& x) { return lod::mul(e, x, lod::sequence_first_step(e, x)); });
    check("mul_grad",
          [](const auto& e, const auto& x) { return lod::mul_grad(e, x, x, lod::sequence_first_step(e, x)).y; });
    check("row_conv", [&](const auto& e, const auto& x) { return lod::row_conv(e, x, look_ahead); });
    check("row_conv_grad",
          [&](const auto& e, const auto& x) { return lod::row_conv_grad(e, x, x, look_ahead).dfilter; });
    check("sequence_conv", [&](const auto& e, const auto& x) { return lod::sequence_conv(e, x, filter); });
    if (row_size > 1) return;
    check("sort", [](const auto& e, const auto& x) { return lod::sequence_sort(e, x); });
    check("argsort", [](const auto& e, const auto& x) { return lod::sequence_argsort(e, x); });
    check("sort_grad",
          [](const auto& e, const auto& x) { return lod::sequence_sort_grad(e, x, lod::sequence_argsort(e, x)); });
    check("topk", [](const auto& e, const auto& x) { return lod::sequence_topk(e, x, 5).index; });
    check("topk_grad", [&](const auto& e, const auto& x) {
      const auto top = lod::sequence_topk(e, x, 5);
      return lod::sequence_topk_grad(e, top.values, top.index, index, 5);
    });
  });
}

TEST_CASE(
    "select, remove_level, to_time_major, ...: a giant among thousands, by any number of threads, slice as copy") {
  for_each_giant([](const auto& check, const LoD& index, std::int64_t) {
    const RankTable table(LoD::from_lengths({index.lengths(1)})), words(index, {.level = 1});
    const std::int64_t size = index.size(1);
    const Numbers ids = {size / 2, 3, size / 2, size - 1};
    std::vector<bool> mask;
    for (std::int64_t i = 0; i < size; ++i) mask.push_back(i % 3 == 0);
    const auto flat = [](const auto& e, const auto& x) { return lod::remove_level(e, x, 0); };
    check("select", [&](const auto& e, const auto& x) { return lod::select(e, flat(e, x), ids); });
    check("select_grad", [&](const auto& e, const auto& x) {
      const auto sentences = flat(e, x);
      return lod::select_grad(e, lod::select(e, sentences, ids), sentences.lod(), ids);
    });
    check("filter_grad", [&](const auto& e, const auto& x) {
      const auto sentences = flat(e, x);
      return lod::filter_grad(e, lod::filter(e, sentences, mask), sentences.lod(), mask);
    });
    check("remove_empty", [](const auto& e, const auto& x) { return lod::remove_empty(e, x, {.level = 1}); });
    check("split_lod_tensor",
          [&](const auto& e, const auto& x) { return lod::split_lod_tensor(e, x, mask, {.level = 1}).in_true; });
    check("merge_lod_tensor", [&](const auto& e, const auto& x) {
      const auto parts = lod::split_lod_tensor(e, x, mask, {.level = 1});
      return lod::merge_lod_tensor(e, parts.in_true, parts.in_false, mask, {.level = 1, .lod = index});
    });
    check("remove_level", [](const auto& e, const auto& x) { return lod::remove_level(e, x, 1); });
    check("flatten", [](const auto& e, const auto& x) { return lod::flatten(e, x); });
    check("transpose_levels_grad", [&](const auto& e, const auto& x) {
      return lod::transpose_levels_grad(e, lod::transpose_levels(e, x), index);
    });
    check("reorder",
          [&](const auto& e, const auto& x) { return lod::reorder_lod_tensor_by_rank(e, flat(e, x), table); });
    check("shrink", [&](const auto& e, const auto& x) { return lod::shrink_rnn_memory(e, flat(e, x), table, 1); });
    check("to_time_major", [&](const auto& e, const auto& x) {
      const auto steps = lod::to_time_major(e, x, words);
      return LoDTensor<float>(steps.values());
    });
    check("from_time_major", [&](const auto& e, const auto& x) {
      return lod::from_time_major(e, lod::to_time_major(e, x, words), words);
    });
    check("map_sequences", [&](const auto& e, const auto& x) {
      const auto sentences = flat(e, x);
      return lod::map_sequences(
          e, sentences, [](const auto& sentence) { return sentence.between(sentence.size() / 2, sentence.size()); });
    });
    check("for_each_sequence", [&](const auto& e, const auto& x) {
      auto sentences = flat(e, x);
      lod::for_each_sequence(e, sentences, 0, [](const lod::LoDTensorView<float>& sentence, std::int64_t i) {
        for (float& number : sentence.values()) number += static_cast<float>(i);
      });
      return sentences;
    });
  });
}

TEST_CASE("sequence_max_pool, lod_reset, to_time_major, ...: batches without sequences, and of empty ones only") {
  for (const auto& lengths : std::vector<Lengths>{{{}}, {{0}}, {{0, 0}}, {{}, {}}, {{0, 0}, {}}, {{2, 0}, {0, 0}}}) {
    const LoDTensor<float> x(LoD::from_lengths(lengths), {3});
    const auto greatest = lod::sequence_max_pool(x, {.pad_value = 7}),
               least = lod::sequence_min_pool(x, {.pad_value = 7});
    CHECK(greatest.values.rows() == x.lod().size(-1));
    CHECK(std::all_of(greatest.values.values().begin(), greatest.values.values().end(),
                      [](float value) { return value == 7; }));
    CHECK(std::all_of(least.index.values().begin(), least.index.values().end(),
                      [](std::int64_t row) { return row == -1; }));
    CHECK(same_bits(lod::sequence_max_pool_grad(greatest.values, greatest.index, x.lod()), x));
    CHECK(same_bits(lod::sequence_pool_grad(greatest.values, x.lod(), lod::PoolType::AVERAGE), x));
    CHECK(same_bits(lod::sequence_first_step(x, {.pad_value = 7}), greatest.values));
    CHECK(same_bits(lod::sequence_last_step(x, {.pad_value = 7}), greatest.values));
    CHECK(same_bits(lod::sequence_expand_as(greatest.values, x.lod()), x));
    CHECK(same_bits(lod::concat(x, x.between(0, 0)), x));
    CHECK(lod::lod_reset(x, LoD()).shape() == lod::Shape{0, 3});
    CHECK(same_bits(lod::lod_append_grad(lod::lod_append(x, Numbers{0}), x.lod()), x));
    CHECK(same_bits(lod::embedding(LoDTensor<float>({5, 3}), LoDTensor<std::int64_t>(x.lod(), {})), x));
    CHECK(same_bits(lod::map_sequences(x, [](const auto& sequence) { return sequence; }), x));
    for (int level = 0; level < x.levels(); ++level) {
      const RankTable table(x.lod(), {.level = level});
      CHECK(same_bits(lod::from_time_major(lod::to_time_major(x, table), table), x));
    }
    const RankTable table(x.lod());
    CHECK(same_bits(lod::reorder_lod_tensor_by_rank(x, table), x));
    CHECK(same_bits(lod::shrink_rnn_memory_grad(lod::shrink_rnn_memory(x, table, 5), x.lod(), table, 5), x));
  }
}
