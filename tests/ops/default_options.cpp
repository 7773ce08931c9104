// SPDX-License-Identifier: Apache-2.0
#include "support/random_batch.hpp"
#include "support/same_bits.hpp"
#include <lod/lod.hpp>

#include <doctest/doctest.h>

#include <cstdint>

using lod::LoD;
using lod::LoDTensor;
using lod::PoolType;
using lod::SelectedRows;
using namespace lod_test;

TEST_CASE("arithmetic: results without options are those with the options' defaults") {
  Engine engine(1);
  const lod::CpuExecutor executor(1);
  const LoD index = LoD::from_lengths({{2, 0, 1}, {3, 0, 4}});
  const auto x = real_numbers<float>(engine, index, {3}), dz = real_numbers<float>(engine, index, {3});
  // One row for each sequence of level 1, which is the last one, that of the defaults.
  const auto y = real_numbers<float>(engine, LoD::from_lengths({{2, 0, 1}}), {3});
  LoDTensor<float> dx, dy;
  const auto is = [&](const auto& expected) { return same_bits(dx, expected.x) && same_bits(dy, expected.y); };
  lod::add_grad_into(executor, dz, x, y, dx, dy);
  CHECK(is(lod::add_grad(executor, dz, x, y)));
  lod::sub_grad_into(executor, dz, x, y, dx, dy);
  CHECK(is(lod::sub_grad(executor, dz, x, y)));
  lod::mul_grad_into(executor, dz, x, y, dx, dy);
  CHECK(is(lod::mul_grad(executor, dz, x, y)));
  lod::div_grad_into(executor, dz, x, y, dx, dy);
  CHECK(is(lod::div_grad(executor, dz, x, y)));
}

TEST_CASE("embedding_pool: results without options are those with the options' defaults") {
  Engine engine(1);
  const lod::CpuExecutor executor(1);
  const auto table = real_numbers<float>(engine, {5, 3});
  const auto ids = LoDTensor<std::int64_t>::from_values(LoD::from_lengths({{2, 0, 1}, {2, 0, 3}}), {}, {4, 0, 2, 2, 1});
  LoDTensor<float> y;
  LoDTensor<std::int64_t> index;
  SelectedRows<float> dtable;
  lod::embedding_pool_into(executor, table, ids, PoolType::SQRT, y);
  CHECK(same_bits(y, lod::embedding_pool(executor, table, ids, PoolType::SQRT)));
  const auto dy = real_numbers<float>(engine, y.lod(), {3});
  const auto is = [&](const SelectedRows<float>& expected) {
    return dtable.rows() == expected.rows() && dtable.height() == 5 && same_bits(dtable.value(), expected.value());
  };
  lod::embedding_pool_grad_into(executor, dy, ids, 5, PoolType::SQRT, dtable);
  CHECK(is(lod::embedding_pool_grad(executor, dy, ids, 5, PoolType::SQRT)));
  lod::embedding_pool_weights_grad_into(executor, dy, table, ids, PoolType::SQRT, y);
  CHECK(same_bits(y, lod::embedding_pool_weights_grad(executor, dy, table, ids, PoolType::SQRT)));

  const auto greatest = lod::embedding_max_pool(executor, table, ids);
  lod::embedding_max_pool_into(executor, table, ids, y, index);
  CHECK((same_bits(y, greatest.values) && same_bits(index, greatest.index)));
  lod::embedding_max_pool_grad_into(executor, dy, index, ids, 5, dtable);
  CHECK(is(lod::embedding_max_pool_grad(executor, dy, index, ids, 5)));
  const auto least = lod::embedding_min_pool(executor, table, ids);
  lod::embedding_min_pool_into(executor, table, ids, y, index);
  CHECK((same_bits(y, least.values) && same_bits(index, least.index)));
  lod::embedding_min_pool_grad_into(executor, dy, index, ids, 5, dtable);
  CHECK(is(lod::embedding_min_pool_grad(executor, dy, index, ids, 5)));
}

TEST_CASE("lstm, gru: results without options are those with the options' defaults") {
  Engine engine(1);
  const lod::CpuExecutor executor(1);
  const auto x = real_numbers<float>(engine, LoD::from_lengths({{3, 0, 2}}), {2});
  LoDTensor<float> hidden, last_hidden, last_cell, dx, dinitial_hidden, dinitial_cell;
  {
    lod::LstmWeights<float> weights, dweights;
    weights.input = real_numbers<float>(engine, {2, 12});
    weights.recurrent = real_numbers<float>(engine, {3, 12});
    lod::LstmTrace<float> trace;
    lod::lstm_into(executor, x, weights, hidden, last_hidden, last_cell, trace);
    const auto expected = lod::lstm(executor, x, weights);
    CHECK(same_bits(hidden, expected.hidden));
    CHECK(same_bits(last_hidden, expected.last_hidden));
    CHECK(same_bits(last_cell, expected.last_cell));
    lod::lstm_grad_into(executor, hidden, x, weights, trace, dx, dweights, dinitial_hidden, dinitial_cell);
    const auto d = lod::lstm_grad(executor, hidden, x, weights, trace);
    CHECK(same_bits(dx, d.x));
    CHECK(same_bits(dweights.recurrent, d.weights.recurrent));
    CHECK(same_bits(dinitial_hidden, d.initial_hidden));
    CHECK(same_bits(dinitial_cell, d.initial_cell));
  }
  lod::GruWeights<float> weights, dweights;
  weights.input = real_numbers<float>(engine, {2, 9});
  weights.recurrent = real_numbers<float>(engine, {3, 9});
  lod::GruTrace<float> trace;
  lod::gru_into(executor, x, weights, hidden, last_hidden, trace);
  const auto expected = lod::gru(executor, x, weights);
  CHECK(same_bits(hidden, expected.hidden));
  CHECK(same_bits(last_hidden, expected.last_hidden));
  lod::gru_grad_into(executor, hidden, x, weights, trace, dx, dweights, dinitial_hidden);
  const auto d = lod::gru_grad(executor, hidden, x, weights, trace);
  CHECK(same_bits(dx, d.x));
  CHECK(same_bits(dweights.recurrent, d.weights.recurrent));
  CHECK(same_bits(dinitial_hidden, d.initial_hidden));
}
