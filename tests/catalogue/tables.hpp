// SPDX-License-Identifier: Apache-2.0
/// @file
/// Samples of the operations on rows of tables: looked up, row-sparse, scattered, updated by optimizers.
#pragma once

#include <lod/ops.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace lod_test {

namespace op = lod::op;

// Looked up.

auto table(auto& c) { return c.dense({c.height, c.row_size}); }

void sample(op::embedding, auto& c) {
  const bool skip = c.one_of({false, true});
  lod::embedding_into(c.executor, table(c), skip ? c.ids_or_none() : c.ids(),
                      {.padding_idx = 3, .skip_minus_one = skip}, c.out());
}
void sample(op::embedding_grad, auto& c) {
  lod::embedding_grad_into(c.executor, c.rows(), c.ids(), c.height, {.padding_idx = 3}, c.out_rows());
}
void differences(op::embedding_grad, auto& on) {
  const auto ids = on.ids(6);
  auto table = on.apart({6, on.row_size});
  on.check(
      table, [&](const auto& at) { return lod::embedding(on.executor, at, ids, {.padding_idx = 3}); },
      [&](const auto& dy) {
        return lod::to_dense(on.executor, lod::embedding_grad(on.executor, dy, ids, 6, {.padding_idx = 3}));
      });
}
/// A padding id in each second of so many forms of a pool.
std::int64_t padding_id(auto& c, std::int64_t forms) {
  if (c.variant(2 * forms) < forms) return -1;
  c.named("with padding");
  return 3;
}
// With padding, ids that are none are counted and moved together, and sequences become shorter.
inline Launches launches(op::embedding_pool) { return {{"with padding", 7}}; }
void sample(op::embedding_pool, auto& c) {
  const auto weights = c.column();
  lod::embedding_pool_into(c.executor, table(c), c.ids(), any_pool(c),
                           {.weights = weights, .padding_idx = padding_id(c, 7), .pad_value = 5, .level = c.level},
                           c.out());
}
// As merge_add; for AVERAGE and SQRT gradients are divided before. With padding what embedding_pool does before, too.
inline Launches launches(op::embedding_pool_grad) { return {{"", 6}, {"with padding", 9}}; }
void sample(op::embedding_pool_grad, auto& c) {
  const auto weights = c.column();
  lod::embedding_pool_grad_into(c.executor, row_for_each(c), c.ids(), c.height, plain_pool(c),
                                {.weights = weights, .padding_idx = padding_id(c, 5), .level = c.level}, c.out_rows());
}
// For MAX and MIN the ids checked, the pool with its leaves joined, the weights; with padding as embedding_pool_grad.
inline Launches launches(op::embedding_pool_weights_grad) { return {{"", 4}, {"with padding", 9}}; }
void sample(op::embedding_pool_weights_grad, auto& c) {
  const auto weights = c.column();
  lod::embedding_pool_weights_grad_into(c.executor, row_for_each(c), table(c), c.ids(), any_pool(c),
                                        {.weights = weights, .padding_idx = padding_id(c, 7), .level = c.level},
                                        c.out());
}
/// check(table, weights, ids, type, options) for each pool whose gradient needs no index; options(w) has the weights w.
template <class On>
void pooled_differences(On& on, const auto& check) {
  using enum lod::PoolType;
  const auto ids = on.ids(6);
  auto table = on.apart({6, on.row_size}), weights = on.divisors(on.index, {});
  for (const lod::PoolType type : {SUM, AVERAGE, SQRT, FIRST, LAST}) {
    const auto options = [&](const auto& by) {
      return lod::EmbeddingPoolOptions<double, typename On::Device>{.weights = by, .padding_idx = 3, .level = on.level};
    };
    check(table, weights, ids, type, options);
  }
}
void differences(op::embedding_pool_grad, auto& on) {
  pooled_differences(on, [&](auto& table, auto& weights, const auto& ids, lod::PoolType type, const auto& options) {
    const auto by = on.there(weights);
    on.check(
        table, [&](const auto& at) { return lod::embedding_pool(on.executor, at, ids, type, options(by)); },
        [&](const auto& dy) {
          return lod::to_dense(on.executor, lod::embedding_pool_grad(on.executor, dy, ids, 6, type, options(by)));
        });
  });
}
void differences(op::embedding_pool_weights_grad, auto& on) {
  pooled_differences(on, [&](auto& table, auto& weights, const auto& ids, lod::PoolType type, const auto& options) {
    on.check(
        weights,
        [&](const auto& at) { return lod::embedding_pool(on.executor, on.there(table), ids, type, options(at)); },
        [&](const auto& dy) {
          const auto by = on.there(weights);
          return lod::embedding_pool_weights_grad(on.executor, dy, on.there(table), ids, type, options(by));
        });
  });
}
auto ids_of_options(auto& c) { return c.variant(3) < 2 ? c.ids() : c.ids_or_none(); }
// As embedding_pool.
inline Launches launches(op::embedding_max_pool) { return {{"with padding", 7}}; }
void sample(op::embedding_max_pool, auto& c) {
  lod::embedding_max_pool_into(c.executor, table(c), ids_of_options(c), c.pool_options(), c.out(), c.out_ids());
}
// As embedding_pool.
inline Launches launches(op::embedding_min_pool) { return {{"with padding", 7}}; }
void sample(op::embedding_min_pool, auto& c) {
  lod::embedding_min_pool_into(c.executor, table(c), ids_of_options(c), c.pool_options(), c.out(), c.out_ids());
}
// As merge_add; with padding as embedding_pool_grad.
inline Launches launches(op::embedding_max_pool_grad) { return {{"", 5}, {"with padding", 9}}; }
void sample(op::embedding_max_pool_grad, auto& c) {
  const auto x = table(c);
  const auto ids = ids_of_options(c);
  const auto& winners = c.given([&] { return lod::embedding_max_pool(c.executor, x, ids, c.pool_options()).index; });
  lod::embedding_max_pool_grad_into(c.executor, row_for_each(c), winners, ids, c.height, c.pool_options(),
                                    c.out_rows());
}
template <class On>
void differences(op::embedding_max_pool_grad, On& on) {
  const auto ids = on.ids(6);
  auto table = on.apart({6, on.row_size});
  const lod::EmbeddingPoolOptions<double, typename On::Device> options = {.level = on.level};
  on.check(
      table, [&](const auto& at) { return lod::embedding_max_pool(on.executor, at, ids, options).values; },
      [&](const auto& dy) {
        const auto winners = lod::embedding_max_pool(on.executor, on.there(table), ids, options).index;
        return lod::to_dense(on.executor, lod::embedding_max_pool_grad(on.executor, dy, winners, ids, 6, options));
      });
}
// As embedding_max_pool_grad.
inline Launches launches(op::embedding_min_pool_grad) { return {{"", 5}, {"with padding", 9}}; }
void sample(op::embedding_min_pool_grad, auto& c) {
  const auto x = table(c);
  const auto ids = ids_of_options(c);
  const auto& losers = c.given([&] { return lod::embedding_min_pool(c.executor, x, ids, c.pool_options()).index; });
  lod::embedding_min_pool_grad_into(c.executor, row_for_each(c), losers, ids, c.height, c.pool_options(), c.out_rows());
}
template <class On>
void differences(op::embedding_min_pool_grad, On& on) {
  const auto ids = on.ids(6);
  auto table = on.apart({6, on.row_size});
  const lod::EmbeddingPoolOptions<double, typename On::Device> options = {.level = on.level};
  on.check(
      table, [&](const auto& at) { return lod::embedding_min_pool(on.executor, at, ids, options).values; },
      [&](const auto& dy) {
        const auto losers = lod::embedding_min_pool(on.executor, on.there(table), ids, options).index;
        return lod::to_dense(on.executor, lod::embedding_min_pool_grad(on.executor, dy, losers, ids, 6, options));
      });
}
// The ids checked, x copied, updates listed, sorted and added.
inline Launches launches(op::sequence_scatter) { return {{"", 5}}; }
void sample(op::sequence_scatter, auto& c) {
  lod::sequence_scatter_into(c.executor, c.dense({c.sequences(), c.height}), c.ids(), c.column(), {.level = c.level},
                             c.out());
}
void sample(op::sequence_scatter_grad, auto& c) {
  lod::sequence_scatter_grad_into(c.executor, c.dense({c.sequences(), c.height}), c.ids(), {.level = c.level}, c.out(),
                                  c.out());
}
void differences(op::sequence_scatter_grad, auto& on) {
  const auto ids = on.ids(6);
  auto x = on.reals({on.index.size(on.level), 6}), updates = on.reals(on.index, {});
  const auto grad = [&](const auto& dy) {
    return lod::sequence_scatter_grad(on.executor, dy, ids, {.level = on.level});
  };
  on.check(
      x,
      [&](const auto& at) {
        return lod::sequence_scatter(on.executor, at, ids, on.there(updates), {.level = on.level});
      },
      [&](const auto& dy) { return grad(dy).dx; });
  on.check(
      "of the updates", updates,
      [&](const auto& at) { return lod::sequence_scatter(on.executor, on.there(x), ids, at, {.level = on.level}); },
      [&](const auto& dy) { return grad(dy).dupdates; });
}

// Row-sparse.

// Rows are listed, sorted and grouped; nobody knows how long the longest group is, so there are leaves to be joined. Of
// two, their ids and values are copied before.
inline Launches launches(op::merge_add) { return {{"", 5}, {"of two", 6}}; }
void sample(op::merge_add, auto& c) {
  if (c.variant(2) == 0) {
    lod::merge_add_into(c.executor, c.sparse(), c.out_rows());
  } else {
    c.named("of two");
    lod::merge_add_into(c.executor, c.sparse(), c.few_rows(), c.out_rows());
  }
}
// As merge_add.
inline Launches launches(op::merge_average) { return {{"", 5}}; }
void sample(op::merge_average, auto& c) { lod::merge_average_into(c.executor, c.sparse(), c.out_rows()); }
/// A gradient of what was merged: other values in the same rows.
const auto& merged(auto& c) {
  const auto& g = c.sparse();
  return c.given([&] { return lod::merge_add(c.executor, g); });
}
// Ids are listed, copied, sorted and grouped; the group of each, and what it has.
inline Launches launches(op::merge_add_grad) { return {{"", 6}}; }
void sample(op::merge_add_grad, auto& c) { lod::merge_add_grad_into(c.executor, merged(c), c.listed(), c.out_rows()); }
void differences_of_rows(op::merge_add_grad, auto& on) {
  on.check(
      on.value, [&](const auto& at) { return on.values_of(lod::merge_add(on.executor, on.rows(at))); },
      [&](const auto& dy) { return on.values_of(lod::merge_add_grad(on.executor, on.in_places(dy), on.ids)); });
}
// As merge_add_grad, and the division.
inline Launches launches(op::merge_average_grad) { return {{"", 7}}; }
void sample(op::merge_average_grad, auto& c) {
  lod::merge_average_grad_into(c.executor, merged(c), c.listed(), c.out_rows());
}
void differences_of_rows(op::merge_average_grad, auto& on) {
  on.check(
      on.value, [&](const auto& at) { return on.values_of(lod::merge_average(on.executor, on.rows(at))); },
      [&](const auto& dy) { return on.values_of(lod::merge_average_grad(on.executor, on.in_places(dy), on.ids)); });
}
// As merge_add.
inline Launches launches(op::to_dense) { return {{"", 5}}; }
void sample(op::to_dense, auto& c) { lod::to_dense_into(c.executor, c.sparse(), c.out()); }
void sample(op::to_dense_grad, auto& c) { lod::to_dense_grad_into(c.executor, table(c), c.listed(), c.out_rows()); }
void differences_of_rows(op::to_dense_grad, auto& on) {
  on.check(
      on.value, [&](const auto& at) { return lod::to_dense(on.executor, on.rows(at)); },
      [&](const auto& dy) { return on.values_of(lod::to_dense_grad(on.executor, dy, on.ids)); });
}
void sample(op::from_dense, auto& c) {
  lod::from_dense_into(c.executor, table(c), c.random(4, 0, c.height - 1), c.out_rows());
}
void differences_of_rows(op::from_dense, auto& on) {
  on.check(
      on.dense, [&](const auto& at) { return on.values_of(lod::from_dense(on.executor, at, on.ids)); },
      [&](const auto& dy) { return lod::to_dense(on.executor, on.rows(dy)); });
}
void sample(op::scale, auto& c) { lod::scale_into(c.executor, c.sparse(), 2, c.out_rows()); }
void differences_of_rows(op::scale, auto& on) {
  on.check(
      on.value, [&](const auto& at) { return on.values_of(lod::scale(on.executor, on.rows(at), 0.5)); },
      [&](const auto& dy) { return on.values_of(lod::scale(on.executor, on.rows(dy), 0.5)); });
}
// merge_add, and the cutting of what it gave.
inline Launches launches(op::clip) { return {{"", 6}}; }
void sample(op::clip, auto& c) { lod::clip_into(c.executor, c.sparse(), -2, 2, c.out_rows()); }
// merge_add, its gradient, a copy of the ids; the group of each, and what it has.
inline Launches launches(op::clip_grad) { return {{"", 9}}; }
void sample(op::clip_grad, auto& c) {
  const auto& dy = merged(c);
  lod::clip_grad_into(c.executor, dy, c.sparse(), -2, 2, c.out_rows());
}
void differences_of_rows(op::clip_grad, auto& on) {
  on.check(
      on.value, [&](const auto& at) { return on.values_of(lod::clip(on.executor, on.rows(at), -3, 1.5)); },
      [&](const auto& dy) {
        return on.values_of(lod::clip_grad(on.executor, on.in_places(dy), on.rows(on.there(on.value)), -3, 1.5));
      });
}
// merge_add; all as one sequence, whose sum is there before a row is made shorter.
inline Launches launches(op::clip_by_norm) { return {{"", 9}}; }
void sample(op::clip_by_norm, auto& c) {
  lod::clip_by_norm_into(c.executor, c.sparse(), c.one_of({0.5, 1e4}), c.out_rows());
}
// clip_by_norm, its gradient, and another sum.
inline Launches launches(op::clip_by_norm_grad) { return {{"", 14}}; }
void sample(op::clip_by_norm_grad, auto& c) {
  const auto& dy = merged(c);
  lod::clip_by_norm_grad_into(c.executor, dy, c.sparse(), c.one_of({0.5, 1e4}), c.out_rows());
}
void differences_of_rows(op::clip_by_norm_grad, auto& on) {
  for (const double norm : {1.5, 1000.0}) {
    on.check(
        on.value, [&](const auto& at) { return on.values_of(lod::clip_by_norm(on.executor, on.rows(at), norm)); },
        [&](const auto& dy) {
          const auto g = on.rows(on.there(on.value));
          return on.values_of(lod::clip_by_norm_grad(on.executor, on.in_places(dy), g, norm));
        });
  }
}
const auto& sections(auto& c) {
  return c.list([&] { return std::vector{c.height / 3, std::int64_t{0}, c.height - c.height / 3}; });
}
// Ids and values of each part: here there are three.
inline Launches launches(op::split_selected_rows) { return {{"", 6}}; }
void sample(op::split_selected_rows, auto& c) {
  lod::split_selected_rows_into(c.executor, c.sparse(), sections(c), c.out_parts());
}
// The values of each part, and the ids of all.
inline Launches launches(op::split_selected_rows_grad) { return {{"", 4}}; }
void sample(op::split_selected_rows_grad, auto& c) {
  const auto& g = c.sparse();
  const auto& heights = sections(c);
  const auto& parts = c.given([&] { return lod::split_selected_rows(c.executor, g, heights); });
  lod::split_selected_rows_grad_into(c.executor, parts, c.out_rows());
}
template <class On>
void differences_of_rows(op::split_selected_rows_grad, On& on) {
  on.check(
      on.value,
      [&](const auto& at) {
        return on.values_of(lod::split_selected_rows(on.executor, on.rows(at), {2, 1, 3})[2]);
      },
      [&](const auto& dy) {
        using Rows = lod::SelectedRows<double>;
        const std::vector parts = {on.there(Rows({1, 0}, 2, {on.row_size})), on.there(Rows({0}, 1, {on.row_size})),
                                   on.there(Rows({2, 2, 0, 2}, 3, on.here(dy)))};
        return on.values_of(lod::split_selected_rows_grad(on.executor, parts));
      });
}

// Scattered, and updated by optimizers: in place.

lod::ScatterOp how_scattered(auto& c) {
  using enum lod::ScatterOp;
  // Integers are not divided: quotients may be 0 by which the next one would be divided.
  return c.divides() ? c.one_of({ASSIGN, ADD, SUB, SUBBY, MUL, DIV, DIVBY}) : c.one_of({ASSIGN, ADD, SUB, SUBBY, MUL});
}
// As merge_add.
inline Launches launches(op::scatter) { return {{"", 5}}; }
void sample(op::scatter, auto& c) { lod::scatter(c.executor, c.near_one(), how_scattered(c), c.parameter()); }
// A copy of dy and of ids; rows are listed, sorted and grouped, and gone through backwards.
inline Launches launches(op::scatter_grad) { return {{"", 6}}; }
void sample(op::scatter_grad, auto& c) {
  const auto dy = table(c), y = table(c);
  lod::scatter_grad_into(c.executor, dy, c.near_one(), how_scattered(c), y, c.out(), c.out_rows());
}
void differences_of_rows(op::scatter_grad, auto& on) {
  using enum lod::ScatterOp;
  auto value = on.value, dense = on.dense;
  for (double& number : value.values()) number = 2 + number / 8;
  for (double& number : dense.values()) number = 2 + number / 8;
  for (const lod::ScatterOp how : {ASSIGN, ADD, SUB, SUBBY, MUL, DIV, DIVBY}) {
    const auto f = [&](const auto&) {
      auto y = on.there(dense);
      lod::scatter(on.executor, on.rows(on.there(value)), how, y);
      return y;
    };
    const auto grad = [&](const auto& dy) {
      return lod::scatter_grad(on.executor, dy, on.rows(on.there(value)), how, on.there(dense));
    };
    on.check(value, f, [&](const auto& dy) { return on.values_of(grad(dy).g); });
    on.check("of what it is scattered to", dense, f, [&](const auto& dy) { return grad(dy).dense; });
  }
}
/// update(gradient, mode) with listed rows in both modes, and with a dense gradient.
void with_gradients(auto& c, const auto& update) {
  const std::int64_t form = c.variant(3);
  if (form == 2) {
    c.named("dense");
    update(table(c), lod::Sparse::LAZY);
  } else {
    if (form == 1) c.named("EXACT");
    update(c.sparse(), form == 0 ? lod::Sparse::LAZY : lod::Sparse::EXACT);
  }
}
// As merge_add.
inline Launches launches(op::sgd) { return {{"", 5}, {"EXACT", 5}}; }
void sample(op::sgd, auto& c) {
  with_gradients(c, [&](const auto& g, lod::Sparse mode) {
    lod::sgd(c.executor, c.parameter(), g, {.learning_rate = 0.5, .mode = mode});
  });
}
// As merge_add; with EXACT the rows that are not listed, too, by a search among those that are.
inline Launches launches(op::momentum) { return {{"", 5}, {"EXACT", 6}}; }
void sample(op::momentum, auto& c) {
  with_gradients(c, [&](const auto& g, lod::Sparse mode) {
    lod::momentum(c.executor, c.parameter(), c.state(), g, {.learning_rate = 0.1, .nesterov = true, .mode = mode});
  });
}
// As merge_add.
inline Launches launches(op::adagrad) { return {{"", 5}, {"EXACT", 5}}; }
void sample(op::adagrad, auto& c) {
  with_gradients(c, [&](const auto& g, lod::Sparse mode) {
    lod::adagrad(c.executor, c.parameter(), c.state(), g, {.learning_rate = 0.1, .mode = mode});
  });
}
// As momentum.
inline Launches launches(op::rmsprop) { return {{"", 5}, {"EXACT", 6}}; }
void sample(op::rmsprop, auto& c) {
  const bool centered = c.variant(6) > 2;
  with_gradients(c, [&](const auto& g, lod::Sparse mode) {
    const lod::RmspropOptions options = {.learning_rate = 0.1, .momentum = 0.5, .mode = mode};
    if (centered) {
      lod::rmsprop(c.executor, c.parameter(), c.state(), c.state(), c.state(), g, options);
    } else {
      lod::rmsprop(c.executor, c.parameter(), c.state(), c.state(), g, options);
    }
  });
}
// As momentum.
inline Launches launches(op::adam) { return {{"", 5}, {"EXACT", 6}}; }
void sample(op::adam, auto& c) {
  with_gradients(c, [&](const auto& g, lod::Sparse mode) {
    lod::adam(c.executor, c.parameter(), c.state(), c.state(), g, {.learning_rate = 0.1, .step = 1, .mode = mode});
  });
}
// As momentum.
inline Launches launches(op::ftrl) { return {{"", 5}, {"EXACT", 6}}; }
void sample(op::ftrl, auto& c) {
  with_gradients(c, [&](const auto& g, lod::Sparse mode) {
    lod::ftrl(c.executor, c.parameter(), c.state(), c.state(), g, {.learning_rate = 0.1, .l1 = 0.2, .mode = mode});
  });
}

}  // namespace lod_test
