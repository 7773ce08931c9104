// SPDX-License-Identifier: Apache-2.0
/// @file
/// Row-sparse operations and optimizers, with random ids, none, and one that has most of the rows, of every row size: a
/// GPU gives what the CPU gives.
#include "support/check_on_gpu.hpp"
#include "support/gpu_batches.hpp"
#include "support/row_sparse.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <type_traits>
#include <vector>

using lod::LoD;
using lod::LoDTensor;
using lod::ScatterOp;
using lod::SelectedRows;
using namespace lod_test;

namespace {

constexpr std::int64_t height = 15;

/// body(engine, g) for lists of ids of a table of `height` rows.
template <class Body>
void for_each_list(const Body& body) {
  for (const std::int64_t row_size : gpu_row_sizes) {
    INFO("row size ", row_size);
    for (const std::int64_t count : {0, 1, 40, 2000}) {
      if (slow && (count > 40 || row_size > 3)) continue;
      INFO(count, " rows");
      Engine engine(first_seed() + static_cast<std::uint64_t>(count));
      body(engine, rows_mostly_one<float>(engine, count, height, row_size));
    }
  }
}

}  // namespace

TEST_CASE("on a GPU, random ids: merged, made dense, scaled, clipped, cut, and their gradients") {
  for_each_list([](Engine& engine, const SelectedRows<float>& g) {
    const std::int64_t row_size = g.value().row_size();
    const auto h = rows_mostly_one<float>(engine, 7, height, row_size);
    const auto dense = real_numbers<float>(engine, {height, row_size});
    check_on_gpu("merge_add, merge_average and their gradients", [&](auto& call) {
      auto& merged = call.template out_rows<float>();
      lod::merge_add_into(call.executor(), call.on(g), merged);
      lod::merge_average_into(call.executor(), call.on(g), call.template out_rows<float>());
      lod::merge_add_grad_into(call.executor(), merged, g.rows(), call.template out_rows<float>());
      lod::merge_average_grad_into(call.executor(), merged, g.rows(), call.template out_rows<float>());
    });
    const std::vector<std::int64_t> listed = {14, 3, 3, 0};
    check_on_gpu("to_dense, from_dense, to_dense_grad, add, scale", [&](auto& call) {
      lod::to_dense_into(call.executor(), call.on(g), call.template out<float>());
      lod::from_dense_into(call.executor(), call.on(dense), listed, call.template out_rows<float>());
      lod::to_dense_grad_into(call.executor(), call.on(dense), g.rows(), call.template out_rows<float>());
      lod::add_into(call.executor(), call.on(g), call.on(h), call.template out_rows<float>());
      lod::add_into(call.executor(), call.on(g), call.on(dense), call.template out<float>());
      lod::scale_into(call.executor(), call.on(g), 0.5, call.template out_rows<float>());
    });
    // Other values in the same rows: a gradient along g itself would be what rounding leaves of 0.
    const SelectedRows<float> other(g.rows(), height, real_numbers<float>(engine, g.value().shape()));
    check_on_gpu("clip, clip_by_norm and their gradients", [&](auto& call) {
      auto& dy = call.template out_rows<float>();
      lod::merge_add_into(call.executor(), call.on(other), dy);
      lod::clip_into(call.executor(), call.on(g), -3, 3, call.template out_rows<float>());
      lod::clip_grad_into(call.executor(), dy, call.on(g), -3, 3, call.template out_rows<float>());
      for (const double norm : {0.5, 1e6}) {
        lod::clip_by_norm_into(call.executor(), call.on(g), norm, call.template out_rows<float>());
        lod::clip_by_norm_grad_into(call.executor(), dy, call.on(g), norm, call.template out_rows<float>());
      }
    });
    check_on_gpu("split_selected_rows and its gradient", [&](auto& call) {
      using Rows = SelectedRows<float, typename std::remove_cvref_t<decltype(call)>::Device>;
      auto& parts = call.template kept<std::vector<Rows>>();
      lod::split_selected_rows_into(call.executor(), call.on(g), {4, 0, 11}, parts);
      for (Rows& part : parts) call.result(part);
      lod::split_selected_rows_grad_into(call.executor(), parts, call.template out_rows<float>());
    });
  });
}

TEST_CASE("on a GPU, random ids: scattered, and the gradients") {
  for_each_list([](Engine& engine, SelectedRows<float> g) {
    // Near 1: products and quotients of hundreds of them stay numbers.
    for (float& number : g.value().values()) number = 1 + number / 1000;
    const auto dense = real_numbers<float>(engine, {height, g.value().row_size()});
    const auto dy = real_numbers<float>(engine, {height, g.value().row_size()});
    for (const ScatterOp op : {ScatterOp::ASSIGN, ScatterOp::ADD, ScatterOp::SUB, ScatterOp::SUBBY, ScatterOp::MUL,
                               ScatterOp::DIV, ScatterOp::DIVBY}) {
      check_on_gpu("scatter and its gradients", [&](auto& call) {
        auto& y = call.template out<float>();
        lod::lod_reset_into(call.executor(), call.on(dense), LoD(), y);
        lod::scatter(call.executor(), call.on(g), op, y);
        auto& ddense = call.template out<float>();
        lod::scatter_grad_into(call.executor(), call.on(dy), call.on(g), op, call.on(dense), ddense,
                               call.template out_rows<float>());
      });
    }
  });
}

TEST_CASE("on a GPU, random ids: every optimizer, with dense gradients and with listed rows") {
  for_each_list([](Engine& engine, const SelectedRows<float>& g) {
    const auto weights = real_numbers<float>(engine, {height, g.value().row_size()});
    const auto gradient = real_numbers<float>(engine, {height, g.value().row_size()});
    for (const lod::Sparse mode : {lod::Sparse::LAZY, lod::Sparse::EXACT}) {
      check_on_gpu("sgd, momentum, adagrad, rmsprop, adam, ftrl", [&](auto& call) {
        const auto& e = call.executor();
        // Parameters and states are changed in place: each call begins with the same ones.
        const auto begin = [&](bool zero = false) -> auto& {
          auto& y = call.template out<float>();
          lod::lod_reset_into(e, call.on(weights), LoD(), y);
          if (zero) lod::sub_into(e, y, y, y);
          return y;
        };
        const auto update = [&](const auto& dy) {
          lod::sgd(e, begin(), dy, {.learning_rate = 0.5, .mode = mode});
          auto& moved = begin();
          lod::momentum(e, moved, begin(true), dy, {.learning_rate = 0.1, .nesterov = true, .mode = mode});
          auto& scaled = begin();
          lod::adagrad(e, scaled, begin(true), dy, {.learning_rate = 0.1, .mode = mode});
          auto& rooted = begin();
          auto& variance = begin(true);
          lod::rmsprop(e, rooted, variance, begin(true), dy, {.learning_rate = 0.1, .momentum = 0.5, .mode = mode});
          auto& centred = begin();
          auto& about = begin(true);
          auto& velocity = begin(true);
          lod::rmsprop(e, centred, about, velocity, begin(true), dy, {.learning_rate = 0.1, .mode = mode});
          auto& adapted = begin();
          auto& mean = begin(true);
          lod::adam(e, adapted, mean, begin(true), dy, {.learning_rate = 0.1, .step = 1, .mode = mode});
          auto& regularised = begin();
          auto& squares = begin(true);
          lod::ftrl(e, regularised, squares, begin(true), dy, {.learning_rate = 0.1, .l1 = 0.2, .mode = mode});
        };
        update(call.on(g));
        update(call.on(gradient));
      });
    }
  });
}
