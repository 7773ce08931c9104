// SPDX-License-Identifier: Apache-2.0
/// @file
/// Gradients against differences on random batches, with empty sequences at every level, of every row size.
#include "support/gradient.hpp"
#include "support/random_batch.hpp"
#include "support/random_lod.hpp"
#include <lod/lod.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

using lod::LoD;
using lod::LoDTensor;
using namespace lod_test;
using Numbers = std::vector<std::int64_t>;
using Batch = LoDTensor<double>;

namespace {

/// body(engine, x, level, check); check(name, f, grad) is check_gradient by x.
template <class Body>
void for_each_small_batch(const Body& body) {
  for_each_random_lod(8, 1, 3, [&](Engine& engine, const Lengths& lengths) {
    const LoD index = LoD::from_lengths(lengths);
    if (index.rows() > 16) return;
    for (const std::int64_t row_size : {1, 3, 8, 17}) {
      INFO("row size ", row_size);
      auto x = real_numbers<double>(engine, index, {row_size});
      const auto check = [&](const char* name, const auto& f, const auto& grad) {
        CAPTURE(name);
        check_gradient(engine, x, f, grad);
      };
      body(engine, std::as_const(x), static_cast<int>(random_number(engine, 0, x.levels() - 1)), check);
    }
  });
}

}  // namespace

TEST_CASE("sequence_reverse, concat, select, ...: gradients against differences, on random batches") {
  for_each_small_batch([](Engine& engine, const Batch& x, int level, const auto& check) {
    const LoD& index = x.lod();
    const auto other = real_numbers<double>(engine, index, x.row_shape());
    const std::vector<LoD> lods = {index, index};
    Numbers repeats, ids, offsets(static_cast<std::size_t>(x.rows()) + 1);
    std::iota(offsets.begin(), offsets.end(), 0);
    std::vector<bool> mask, inner;
    for (std::int64_t i = 0; i < x.size(); ++i) {
      repeats.push_back(random_number(engine, 0, 3));
      ids.push_back(random_number(engine, 0, x.size() - 1));
      mask.push_back(random_number(engine, 0, 1) == 1);
    }
    for (std::int64_t i = 0; i < index.size(level); ++i) inner.push_back(random_number(engine, 0, 1) == 1);
    const LoD blocks = LoD::from_lengths({repeats}), all = LoD::from_lengths({{0, x.rows(), 0}});
    check(
        "reverse", [&](const auto& at) { return lod::sequence_reverse(at, {.level = level}); },
        [&](const auto& dy) { return lod::sequence_reverse_grad(dy, {.level = level}); });
    check(
        "expand", [&](const auto& at) { return lod::sequence_expand(at, blocks); },
        [&](const auto& dy) { return lod::sequence_expand_grad(dy, index, blocks); });
    Batch rows = lod::sequence_first_step(x);
    fill_real(engine, rows);
    check_gradient(
        engine, rows, [&](const auto& at) { return lod::sequence_expand_as(at, index); },
        [&](const auto& dy) { return lod::sequence_expand_as_grad(dy, index); });
    check(
        "sequence_concat", [&](const auto& at) { return lod::sequence_concat(other, at); },
        [&](const auto& dy) { return lod::sequence_concat_grad(dy, lods)[1]; });
    check(
        "concat", [&](const auto& at) { return lod::concat(other, at); },
        [&](const auto& dy) { return lod::concat_grad(dy, lods)[1]; });
    check(
        "split_at", [&](const auto& at) { return lod::split_at(at, {x.size() / 2})[1]; },
        [&](const auto& dy) {
          const Batch first(x.between(0, x.size() / 2).lod(), x.row_shape());
          return lod::split_grad(std::vector<Batch>{first, dy});
        });
    for (const std::int64_t length : {-1, 1, 5}) {
      const lod::PadOptions pad{.padded_length = length,
                                .side = length == 1 ? lod::Side::LEFT : lod::Side::RIGHT,
                                .truncate = true,
                                .level = level};
      check(
          "pad", [&](const auto& at) { return lod::sequence_pad(at, pad).dense; },
          [&](const auto& dy) { return lod::sequence_pad_grad(dy, index, pad); });
    }
    auto padded = lod::sequence_pad(x, {.padded_length = 4, .truncate = true, .level = level});
    check_gradient(
        engine, padded.dense, [&](const auto& at) { return lod::sequence_unpad(at, padded.lengths); },
        [&](const auto& dy) { return lod::sequence_unpad_grad(dy, padded.lengths, 4); });
    check(
        "reshape", [](const auto& at) { return lod::sequence_reshape(at, 1); },
        [&](const auto& dy) { return lod::sequence_reshape_grad(dy, index, x.row_shape()); });
    check(
        "lod_reset", [&](const auto& at) { return lod::lod_reset(at, all); },
        [&](const auto& dy) { return lod::lod_reset_grad(dy, index); });
    check(
        "lod_append", [&](const auto& at) { return lod::lod_append(at, offsets); },
        [&](const auto& dy) { return lod::lod_append_grad(dy, index); });
    check(
        "remove_level", [&](const auto& at) { return lod::remove_level(at, level); },
        [&](const auto& dy) { return lod::remove_level_grad(dy, index); });
    check(
        "insert_level", [&](const auto& at) { return lod::insert_level(at, 0, LoD::from_lengths({{x.size()}})); },
        [&](const auto& dy) { return lod::insert_level_grad(dy, index); });
    check(
        "flatten", [](const auto& at) { return lod::flatten(at); },
        [&](const auto& dy) { return lod::flatten_grad(dy, index); });
    if (x.levels() > 1) {
      check(
          "transpose_levels", [](const auto& at) { return lod::transpose_levels(at); },
          [&](const auto& dy) { return lod::transpose_levels_grad(dy, index); });
    }
    check(
        "select", [&](const auto& at) { return lod::select(at, ids); },
        [&](const auto& dy) { return lod::select_grad(dy, index, ids); });
    check(
        "filter", [&](const auto& at) { return lod::filter(at, mask); },
        [&](const auto& dy) { return lod::filter_grad(dy, index, mask); });
    check(
        "remove_empty", [&](const auto& at) { return lod::remove_empty(at, {.level = level}); },
        [&](const auto& dy) { return lod::remove_empty_grad(dy, index); });
    auto no_false = lod::split_lod_tensor(x, inner, {.level = level}).in_false;
    std::fill(no_false.values().begin(), no_false.values().end(), 0.0);
    check(
        "split_lod_tensor", [&](const auto& at) { return lod::split_lod_tensor(at, inner, {.level = level}).in_true; },
        [&](const auto& dy) {
          return lod::split_lod_tensor_grad(dy, no_false, inner, {.level = level, .lod = index});
        });
    const lod::RankTable table(index, {.level = level}), ranks(blocks);
    check(
        "to_time_major",
        [&](const auto& at) {
          const auto steps = lod::to_time_major(at, table);
          return Batch(steps.values());
        },
        [&](const auto& dz) { return lod::to_time_major_grad(lod::TimeMajor<double>(dz), table); });
    check(
        "tensor array",
        [&](const auto& at) { return lod::array_to_lod_tensor(lod::lod_tensor_to_array(at, table), table); },
        [&](const auto& dy) { return lod::lod_tensor_to_array_grad(lod::array_to_lod_tensor_grad(dy, table), table); });
    check(
        "shrink", [&](const auto& at) { return lod::shrink_rnn_memory(at, ranks, 1); },
        [&](const auto& dy) { return lod::shrink_rnn_memory_grad(dy, index, ranks, 1); });
    check(
        "reorder", [&](const auto& at) { return lod::reorder_lod_tensor_by_rank(at, ranks); },
        [&](const auto& dy) { return lod::reorder_lod_tensor_by_rank_grad(dy, ranks); });
  });
}

TEST_CASE("sequence_softmax, embedding_pool, lstm, ...: gradients against differences, on random batches") {
  for_each_small_batch([](Engine& engine, const Batch& x, int level, const auto& check) {
    const LoD& index = x.lod();
    const std::int64_t row_size = x.row_size();
    const lod::SoftmaxOptions soft{.level = level};
    check(
        "softmax", [&](const auto& at) { return lod::sequence_softmax(at, soft); },
        [&](const auto& dy) { return lod::sequence_softmax_grad(dy, lod::sequence_softmax(x, soft), soft); });
    check(
        "log_softmax", [&](const auto& at) { return lod::sequence_log_softmax(at, soft); },
        [&](const auto& dy) { return lod::sequence_log_softmax_grad(dy, lod::sequence_log_softmax(x, soft), soft); });
    LoDTensor<std::int64_t> ids(index, {});
    for (auto& id : ids.values()) id = random_number(engine, 0, 3);
    auto look_up = real_numbers<double>(engine, {4, row_size});
    check_gradient(
        engine, look_up,
        [&](const auto& at) { return lod::embedding_pool(at, ids, lod::PoolType::SQRT, {.level = level}); },
        [&](const auto& dy) {
          return lod::to_dense(lod::embedding_pool_grad(dy, ids, 4, lod::PoolType::SQRT, {.level = level}));
        });
    const lod::LstmWeights<double> w{real_numbers<double>(engine, {row_size, 8}), real_numbers<double>(engine, {2, 8})};
    check(
        "lstm", [&](const auto& at) { return lod::lstm(at, w, {.level = level}).hidden; },
        [&](const auto& dy) { return lod::lstm_grad(dy, x, w, lod::lstm(x, w, {.level = level}).trace).x; });
    const lod::GruWeights<double> g{real_numbers<double>(engine, {row_size, 6}), real_numbers<double>(engine, {2, 6})};
    check(
        "gru", [&](const auto& at) { return lod::gru(at, g, {.level = level}).hidden; },
        [&](const auto& dy) { return lod::gru_grad(dy, x, g, lod::gru(x, g, {.level = level}).trace).x; });
    if (x.rows() > 6) return;
    auto films = real_numbers<double>(engine, index, {1, 2, row_size});
    const lod::Im2SequenceOptions patches{.kernels = {2, 1}, .paddings = {1, 0, 1, 0}};
    check_gradient(
        engine, films, [&](const auto& at) { return lod::im2sequence(at, patches); },
        [&](const auto& dy) { return lod::im2sequence_grad(dy, films, patches); });
  });
}

TEST_CASE("scale, add, to_dense, from_dense, split_selected_rows: gradients against differences") {
  Engine engine(5);
  const Numbers ids = {1, 0, 2, 5, 3, 5};
  for (const std::int64_t row_size : {1, 3, 8, 17}) {
    auto value = real_numbers<double>(engine, {6, row_size}), x = real_numbers<double>(engine, {6, row_size});
    const auto g = [&](const Batch& values) { return lod::SelectedRows<double>(ids, 6, Batch(values)); };
    check_gradient(
        engine, value, [&](const auto& at) { return lod::scale(g(at), 0.5).value(); },
        [&](const auto& dy) { return lod::scale(g(dy), 0.5).value(); });
    check_gradient(
        engine, value, [&](const auto& at) { return lod::to_dense(g(at)); },
        [&](const auto& dy) { return lod::to_dense_grad(dy, ids).value(); });
    check_gradient(
        engine, value, [&](const auto& at) { return lod::add(g(at), x); },
        [&](const auto& dy) { return lod::from_dense(dy, ids).value(); });
    check_gradient(
        engine, x, [&](const auto& at) { return lod::from_dense(at, ids).value(); },
        [&](const auto& dy) { return lod::to_dense(g(dy)); });
    check_gradient(
        engine, value,
        [&](const auto& at) {
          return lod::split_selected_rows(g(at), {2, 1, 3})[2].value();
        },
        [&](const auto& dy) {
          auto parts = lod::split_selected_rows(g(Batch({6, row_size})), {2, 1, 3});
          parts[2].value() = dy;
          return lod::split_selected_rows_grad(parts).value();
        });
  }
}
