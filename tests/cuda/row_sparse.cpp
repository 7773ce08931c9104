// SPDX-License-Identifier: Apache-2.0
#include "support/check_on_gpu.hpp"
#include "support/random_batch.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

using lod::LoD;
using lod::LoDTensor;
using lod::ScatterOp;
using lod::SelectedRows;
using namespace lod_test;

namespace {

/// Rows in any order, some of them repeated.
SelectedRows<float> random_rows(Engine& engine, std::int64_t count, std::int64_t table_height, std::int64_t row_size) {
  std::vector<std::int64_t> rows;
  for (std::int64_t i = 0; i < count; ++i) rows.push_back(random_number(engine, 0, table_height - 1));
  return SelectedRows<float>(std::move(rows), table_height, real_numbers<float>(engine, {count, row_size}));
}

}  // namespace

TEST_CASE("on a GPU: row-sparse tensors merged, added, scaled, made dense") {
  Engine engine(20);
  for (const std::int64_t row_size : {1, 3, 8}) {
    const auto g = random_rows(engine, 40, 15, row_size), h = random_rows(engine, 7, 15, row_size);
    const SelectedRows<float> none({}, 15, {row_size});
    const auto dense = real_numbers<float>(engine, {15, row_size});
    for (const SelectedRows<float>* const first : {&g, &none}) {
      check_on_gpu("merge_add and merge_average", [&](auto& call) {
        using Device = typename std::remove_cvref_t<decltype(call)>::Device;
        auto& merged = call.template out_rows<float>();
        lod::merge_add_into(call.executor(), call.on(*first), merged);
        lod::merge_average_into(call.executor(), call.on(*first), call.template out_rows<float>());
        // What was merged has places that name no row; they are none to whoever takes it.
        const SelectedRows<float, Device>* const sources[] = {&merged, &call.on(h)};
        lod::merge_add_into(call.executor(), std::span(sources), call.template out_rows<float>());
        lod::to_dense_into(call.executor(), merged, call.template out<float>());
      });
    }
    check_on_gpu("to_dense, add, scale", [&](auto& call) {
      lod::to_dense_into(call.executor(), call.on(g), call.template out<float>());
      auto& sum = call.template out_rows<float>();
      lod::add_into(call.executor(), call.on(g), call.on(h), sum);
      lod::scale_into(call.executor(), sum, 0.5, call.template out_rows<float>());
      lod::add_into(call.executor(), call.on(g), call.on(dense), call.template out<float>());
    });
    check_on_gpu("from_dense, to_dense_grad, clip", [&](auto& call) {
      lod::from_dense_into(call.executor(), call.on(dense), {14, 3, 3}, call.template out_rows<float>());
      lod::to_dense_grad_into(call.executor(), call.on(dense), {0, 7}, call.template out_rows<float>());
      lod::clip_into(call.executor(), call.on(g), -0.5, 0.5, call.template out_rows<float>());
      for (const double norm : {0.5, 1e6}) {
        lod::clip_by_norm_into(call.executor(), call.on(g), norm, call.template out_rows<float>());
      }
    });
    for (const ScatterOp op : {ScatterOp::ASSIGN, ScatterOp::ADD, ScatterOp::SUB, ScatterOp::SUBBY, ScatterOp::MUL,
                               ScatterOp::DIV, ScatterOp::DIVBY}) {
      check_on_gpu("scatter", [&](auto& call) {
        auto& merged = call.template out_rows<float>();
        lod::merge_add_into(call.executor(), call.on(h), merged);
        for (const auto* const rows : {&call.on(g), static_cast<decltype(&call.on(g))>(&merged)}) {
          auto& y = call.template out<float>();
          lod::lod_reset_into(call.executor(), call.on(dense), LoD(), y);
          lod::scatter(call.executor(), *rows, op, y);
        }
      });
    }
  }
}

TEST_CASE("on a GPU: gradients of what is row-sparse") {
  Engine engine(22);
  const auto g = random_rows(engine, 40, 15, 3);
  const auto dense = real_numbers<float>(engine, {15, 3}), dy = real_numbers<float>(engine, {15, 3});
  check_on_gpu("merge_add_grad and merge_average_grad", [&](auto& call) {
    auto& merged = call.template out_rows<float>();
    lod::merge_add_into(call.executor(), call.on(g), merged);
    lod::merge_add_grad_into(call.executor(), merged, g.rows(), call.template out_rows<float>());
    lod::merge_average_grad_into(call.executor(), merged, g.rows(), call.template out_rows<float>());
  });
  for (const ScatterOp op : {ScatterOp::ASSIGN, ScatterOp::SUB, ScatterOp::MUL, ScatterOp::DIVBY}) {
    check_on_gpu("scatter_grad", [&](auto& call) {
      auto& merged = call.template out_rows<float>();
      lod::merge_add_into(call.executor(), call.on(g), merged);
      for (const auto* const rows : {&call.on(g), static_cast<decltype(&call.on(g))>(&merged)}) {
        auto& ddense = call.template out<float>();
        lod::scatter_grad_into(call.executor(), call.on(dy), *rows, op, call.on(dense), ddense,
                               call.template out_rows<float>());
      }
    });
  }
  check_on_gpu("clip_grad and clip_by_norm_grad", [&](auto& call) {
    auto& merged = call.template out_rows<float>();
    lod::merge_add_into(call.executor(), call.on(g), merged);
    lod::clip_grad_into(call.executor(), merged, call.on(g), -0.5, 0.5, call.template out_rows<float>());
    for (const double norm : {0.5, 1e6}) {
      lod::clip_by_norm_grad_into(call.executor(), merged, call.on(g), norm, call.template out_rows<float>());
    }
  });
  check_on_gpu("split_selected_rows and split_selected_rows_grad", [&](auto& call) {
    using Rows = SelectedRows<float, typename std::remove_cvref_t<decltype(call)>::Device>;
    auto& merged = call.template out_rows<float>();  // some of its places name no row
    lod::merge_add_into(call.executor(), call.on(g), merged);
    for (const Rows* const rows : {&call.on(g), static_cast<const Rows*>(&merged)}) {
      auto& parts = call.template kept<std::vector<Rows>>();
      lod::split_selected_rows_into(call.executor(), *rows, {4, 0, 11}, parts);
      for (Rows& part : parts) call.result(part);
      lod::split_selected_rows_grad_into(call.executor(), parts, call.template out_rows<float>());
    }
  });
  const LoD index = LoD::from_lengths({{3, 0, 30, 2}});
  const auto ids = random_ids(engine, index, 12);
  const auto weights = real_numbers<float>(engine, index, {}), dpooled = real_numbers<float>(engine, {4, 3});
  const auto table = real_numbers<float>(engine, {12, 3});
  for (const lod::PoolType type :
       {lod::PoolType::SUM, lod::PoolType::AVERAGE, lod::PoolType::FIRST, lod::PoolType::LAST}) {
    check_on_gpu("embedding_pool_grad", [&](auto& call) {
      using Device = typename std::remove_cvref_t<decltype(call)>::Device;
      const lod::EmbeddingPoolOptions<float, Device> options = {.weights = call.on(weights), .padding_idx = 4};
      lod::embedding_pool_grad_into(call.executor(), call.on(dpooled), call.on(ids), 12, type, options,
                                    call.template out_rows<float>());
      lod::embedding_pool_grad_into(call.executor(), call.on(dpooled), call.on(ids), 12, type, {},
                                    call.template out_rows<float>());
    });
  }
  check_on_gpu("embedding_max_pool_grad and embedding_min_pool_grad", [&](auto& call) {
    auto& values = call.template out<float>();
    auto& winners = call.template out<std::int64_t>();
    lod::embedding_max_pool_into(call.executor(), call.on(table), call.on(ids), {}, values, winners);
    lod::embedding_max_pool_grad_into(call.executor(), call.on(dpooled), winners, call.on(ids), 12, {},
                                      call.template out_rows<float>());
    lod::embedding_min_pool_grad_into(call.executor(), call.on(dpooled), winners, call.on(ids), 12, {},
                                      call.template out_rows<float>());
  });
}

TEST_CASE("on a GPU: from ids to the gradient of their table to its update") {
  Engine engine(21);
  const LoD index = LoD::from_lengths({{3, 0, 30, 2}});
  const auto ids = random_ids(engine, index, 12);
  const auto dy = real_numbers<float>(engine, index, {3}), table = real_numbers<float>(engine, {12, 3});
  check_on_gpu("embedding_grad", [&](auto& call) {
    auto& dtable = call.template out_rows<float>();
    lod::embedding_grad_into(call.executor(), call.on(dy), call.on(ids), 12, {.padding_idx = 4}, dtable);
    lod::merge_add_into(call.executor(), dtable, call.template out_rows<float>());
  });
  for (const lod::Sparse mode : {lod::Sparse::LAZY, lod::Sparse::EXACT}) {
    check_on_gpu("optimizers with row-sparse gradients", [&](auto& call) {
      using Device = typename std::remove_cvref_t<decltype(call)>::Device;
      auto& dtable = call.template kept<SelectedRows<float, Device>>(call.executor().resource());
      lod::embedding_grad_into(call.executor(), call.on(dy), call.on(ids), 12, {.padding_idx = 4}, dtable);
      // Parameters and states are changed in place: each call begins with the same ones.
      const auto begin = [&](bool zero) -> auto& {
        auto& y = call.template out<float>();
        lod::lod_reset_into(call.executor(), call.on(table), LoD(), y);
        if (zero) lod::sub_into(call.executor(), y, y, y);
        return y;
      };
      lod::sgd(call.executor(), begin(false), dtable, {.learning_rate = 0.5, .mode = mode});
      auto& moved = begin(false);
      lod::momentum(call.executor(), moved, begin(true), dtable, {.learning_rate = 0.1, .mode = mode});
      auto& scaled = begin(false);
      lod::adagrad(call.executor(), scaled, begin(true), dtable, {.learning_rate = 0.1, .mode = mode});
      auto& adapted = begin(false);
      auto& mean = begin(true);
      lod::adam(call.executor(), adapted, mean, begin(true), dtable, {.learning_rate = 0.1, .step = 1, .mode = mode});
      auto& regularised = begin(false);
      auto& squares = begin(true);
      lod::ftrl(call.executor(), regularised, squares, begin(true), dtable,
                {.learning_rate = 0.1, .l1 = 0.2, .mode = mode});
    });
  }
}
