// SPDX-License-Identifier: Apache-2.0
/// @file
/// Samples of the operations that compute with the rows of sequences: arithmetic, pools, softmax, sums, sorts, windows.
#pragma once

#include <lod/ops.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace lod_test {

namespace op = lod::op;

// Arithmetic, with all forms of the second argument.

void combine(auto& c, const auto& f) {
  const std::int64_t form = c.variant(3);
  f(c.executor, c.rows(), c.divisors(form), lod::ElementwiseOptions{.level = c.level}, c.out());
}
void combine_grad(auto& c, const auto& f) {
  const std::int64_t form = c.variant(3);
  f(c.executor, c.rows(), c.rows(), c.divisors(form), lod::ElementwiseOptions{.level = c.level}, c.out(), c.out());
}
// Row-sparse, a copy and a scatter.
inline Launches launches(op::add) { return {{"row-sparse", 6}}; }
void sample(op::add, auto& c) {
  const std::int64_t form = c.variant(5);
  if (form < 3) {
    lod::add_into(c.executor, c.rows(), c.divisors(form), {.level = c.level}, c.out());
    return;
  }
  c.named("row-sparse");
  if (form == 3) {
    lod::add_into(c.executor, c.sparse(), c.few_rows(), c.out_rows());
  } else {
    lod::add_into(c.executor, c.sparse(), c.dense({c.height, c.row_size}), c.out());
  }
}
void sample(op::sub, auto& c) { combine(c, lod::sub_into); }
void sample(op::mul, auto& c) { combine(c, lod::mul_into); }
void sample(op::div, auto& c) { combine(c, lod::div_into); }
void sample(op::add_grad, auto& c) { combine_grad(c, lod::add_grad_into); }
// dx; the terms of dy, or their sign; their sums, with leaves joined.
inline Launches launches(op::sub_grad) { return {{"", 4}}; }
void sample(op::sub_grad, auto& c) { combine_grad(c, lod::sub_grad_into); }
// As sub_grad.
inline Launches launches(op::mul_grad) { return {{"", 4}}; }
void sample(op::mul_grad, auto& c) { combine_grad(c, lod::mul_grad_into); }
// As sub_grad, but that the terms of dy take two steps that round.
inline Launches launches(op::div_grad) { return {{"", 5}}; }
void sample(op::div_grad, auto& c) { combine_grad(c, lod::div_grad_into); }
/// The gradients by both arguments, with all forms of the second one.
void combined_differences(auto& on, const auto& f, const auto& grad) {
  auto same = on.divisors(on.index, {on.row_size}), row = on.divisors({on.row_size}),
       rows = on.divisors({on.index.size(on.level), on.row_size});
  for (auto* const y : {&same, &row, &rows}) {
    const lod::ElementwiseOptions options{.level = y == &rows ? on.level : 0};
    on.check(
        on.x, [&](const auto& at) { return f(on.executor, at, on.there(*y), options); },
        [&](const auto& dz) { return grad(on.executor, dz, on.there(on.x), on.there(*y), options).x; });
    on.check(
        "of the second argument", *y, [&](const auto& at) { return f(on.executor, on.there(on.x), at, options); },
        [&](const auto& dz) { return grad(on.executor, dz, on.there(on.x), on.there(*y), options).y; });
  }
}
void differences(op::add_grad, auto& on) { combined_differences(on, lod::add, lod::add_grad); }
void differences(op::sub_grad, auto& on) { combined_differences(on, lod::sub, lod::sub_grad); }
void differences(op::mul_grad, auto& on) { combined_differences(on, lod::mul, lod::mul_grad); }
void differences(op::div_grad, auto& on) {
  combined_differences(
      on, [](const auto&... arguments) { return lod::div(arguments...); }, lod::div_grad);
}
void differences_of_rows(op::add, auto& on) {
  on.check(
      on.value, [&](const auto& at) { return lod::add(on.executor, on.rows(at), on.there(on.dense)); },
      [&](const auto& dy) { return on.values_of(lod::from_dense(on.executor, dy, on.ids)); });
}

// One row for each sequence.

lod::PoolType any_pool(auto& c) {
  using enum lod::PoolType;
  return c.one_of({SUM, AVERAGE, SQRT, MAX, MIN, FIRST, LAST});
}
/// Those whose gradient needs no index.
lod::PoolType plain_pool(auto& c) {
  using enum lod::PoolType;
  return c.one_of({SUM, AVERAGE, SQRT, FIRST, LAST});
}
lod::PoolOptions with_index(auto& c) {
  return {.level = c.level, .row_index = c.one_of({lod::RowIndex::BATCH, lod::RowIndex::SEQUENCE})};
}
auto row_for_each(auto& c) { return c.dense({c.sequences(), c.row_size}); }

void sample(op::sequence_pool, auto& c) {
  lod::sequence_pool_into(c.executor, c.rows(), any_pool(c), {.pad_value = 7, .level = c.level}, c.out());
}
void sample(op::sequence_pool_grad, auto& c) {
  lod::sequence_pool_grad_into(c.executor, row_for_each(c), c.index, plain_pool(c), {.level = c.level}, c.out());
}
void differences(op::sequence_pool_grad, auto& on) {
  using enum lod::PoolType;
  for (const lod::PoolType type : {SUM, AVERAGE, SQRT, FIRST, LAST}) {
    on.check(
        on.x, [&](const auto& at) { return lod::sequence_pool(on.executor, at, type, {.level = on.level}); },
        [&](const auto& dy) { return lod::sequence_pool_grad(on.executor, dy, on.index, type, {.level = on.level}); });
  }
}
void sample(op::sequence_first_step, auto& c) {
  lod::sequence_first_step_into(c.executor, c.rows(), {.level = c.level}, c.out());
}
void sample(op::sequence_last_step, auto& c) {
  lod::sequence_last_step_into(c.executor, c.rows(), {.level = c.level}, c.out());
}
void sample(op::sequence_max_pool, auto& c) {
  lod::sequence_max_pool_into(c.executor, c.ties(), with_index(c), c.out(), c.out_ids());
}
void sample(op::sequence_max_pool_grad, auto& c) {
  const auto x = c.ties();
  const lod::PoolOptions options = with_index(c);
  const auto& winners = c.given([&] { return lod::sequence_max_pool(c.executor, x, options).index; });
  lod::sequence_max_pool_grad_into(c.executor, row_for_each(c), winners, c.index, options, c.out());
}
void differences(op::sequence_max_pool_grad, auto& on) {
  auto x = on.apart(on.index, {on.row_size});
  on.check(
      x, [&](const auto& at) { return lod::sequence_max_pool(on.executor, at, {.level = on.level}).values; },
      [&](const auto& dy) {
        const auto winners = lod::sequence_max_pool(on.executor, on.there(x), {.level = on.level}).index;
        return lod::sequence_max_pool_grad(on.executor, dy, winners, on.index, {.level = on.level});
      });
}
void sample(op::sequence_min_pool, auto& c) {
  lod::sequence_min_pool_into(c.executor, c.ties(), with_index(c), c.out(), c.out_ids());
}
void sample(op::sequence_min_pool_grad, auto& c) {
  const auto x = c.ties();
  const lod::PoolOptions options = with_index(c);
  const auto& losers = c.given([&] { return lod::sequence_min_pool(c.executor, x, options).index; });
  lod::sequence_min_pool_grad_into(c.executor, row_for_each(c), losers, c.index, options, c.out());
}
void differences(op::sequence_min_pool_grad, auto& on) {
  auto x = on.apart(on.index, {on.row_size});
  on.check(
      x, [&](const auto& at) { return lod::sequence_min_pool(on.executor, at, {.level = on.level}).values; },
      [&](const auto& dy) {
        const auto losers = lod::sequence_min_pool(on.executor, on.there(x), {.level = on.level}).index;
        return lod::sequence_min_pool_grad(on.executor, dy, losers, on.index, {.level = on.level});
      });
}
void sample(op::sequence_logsumexp, auto& c) {
  lod::sequence_logsumexp_into(c.executor, c.rows(), {.level = c.level}, c.out());
}
// A softmax, whose leaves may be joined before they are written, times dy.
inline Launches launches(op::sequence_logsumexp_grad) { return {{"", 4}}; }
void sample(op::sequence_logsumexp_grad, auto& c) {
  lod::sequence_logsumexp_grad_into(c.executor, row_for_each(c), c.rows(), {.level = c.level}, c.out());
}
void differences(op::sequence_logsumexp_grad, auto& on) {
  on.check(
      on.x, [&](const auto& at) { return lod::sequence_logsumexp(on.executor, at, {.level = on.level}); },
      [&](const auto& dy) {
        return lod::sequence_logsumexp_grad(on.executor, dy, on.there(on.x), {.level = on.level});
      });
}
void sample(op::sequence_mean_var, auto& c) {
  lod::sequence_mean_var_into(c.executor, c.rows(), {.level = c.level, .unbiased = c.one_of({false, true})}, c.out(),
                              c.out());
}
void sample(op::sequence_mean_var_grad, auto& c) {
  lod::sequence_mean_var_grad_into(c.executor, row_for_each(c), row_for_each(c), c.rows(),
                                   {.level = c.level, .unbiased = c.one_of({false, true})}, c.out());
}
void differences(op::sequence_mean_var_grad, auto& on) {
  const auto none = on.there(on.zeros({on.index.size(on.level), on.row_size}));
  on.check(
      "of the mean", on.x,
      [&](const auto& at) { return lod::sequence_mean_var(on.executor, at, {.level = on.level}).mean; },
      [&](const auto& dy) {
        return lod::sequence_mean_var_grad(on.executor, dy, none, on.there(on.x), {.level = on.level});
      });
  on.check(
      "of the variance", on.x,
      [&](const auto& at) { return lod::sequence_mean_var(on.executor, at, {.level = on.level}).variance; },
      [&](const auto& dy) {
        return lod::sequence_mean_var_grad(on.executor, none, dy, on.there(on.x), {.level = on.level});
      });
}
/// Matrices of two channels, one a sequence, with so many rows and columns.
struct Matrices {
  lod::LoD rows, columns, sizes;
};
const Matrices& matrices(auto& c) {
  const lod::LoD &rows = c.lod(5, 4), &columns = c.lod(5, 6);
  return c.draw([&] {
    std::vector<std::int64_t> sizes;
    for (std::size_t i = 0; i < 5; ++i) sizes.push_back(2 * rows.lengths(0)[i] * columns.lengths(0)[i]);
    return Matrices{rows, columns, lod::LoD::from_lengths({sizes})};
  });
}
const std::vector<std::int64_t>& topks(auto& c) {
  return c.draw([] { return std::vector<std::int64_t>{1, 3, 9}; });
}
// Numbers are listed and sorted; one for each k: here there are three.
inline Launches launches(op::sequence_topk_avg_pooling) { return {{"", 5}}; }
void sample(op::sequence_topk_avg_pooling, auto& c) {
  const Matrices& all = matrices(c);
  lod::sequence_topk_avg_pooling_into(c.executor, c.scalars(all.sizes), all.rows, all.columns, topks(c), 2, c.out());
}
// As sequence_topk_avg_pooling, after zeros, and where each number goes.
inline Launches launches(op::sequence_topk_avg_pooling_grad) { return {{"", 7}}; }
void sample(op::sequence_topk_avg_pooling_grad, auto& c) {
  const Matrices& all = matrices(c);
  const auto dy = c.dense({all.rows.rows(), 6}), x = c.scalars(all.sizes);
  lod::sequence_topk_avg_pooling_grad_into(c.executor, dy, x, all.rows, all.columns, topks(c), 2, c.out());
}
void differences(op::sequence_topk_avg_pooling_grad, auto& on) {
  const lod::LoD rows = lod::LoD::from_lengths({{2, 0, 3}}), columns = lod::LoD::from_lengths({{4, 5, 1}});
  auto x = on.apart(lod::LoD::from_lengths({{16, 0, 6}}), {});
  const std::vector<std::int64_t> counts = {1, 3};
  on.check(
      x, [&](const auto& at) { return lod::sequence_topk_avg_pooling(on.executor, at, rows, columns, counts, 2); },
      [&](const auto& dy) {
        return lod::sequence_topk_avg_pooling_grad(on.executor, dy, on.there(x), rows, columns, counts, 2);
      });
}

// Row by row.

void sample(op::sequence_softmax, auto& c) {
  lod::sequence_softmax_into(c.executor, c.rows(), {.level = c.level}, c.out());
}
void sample(op::sequence_softmax_grad, auto& c) {
  lod::sequence_softmax_grad_into(c.executor, c.rows(), c.rows(), {.level = c.level}, c.out());
}
void differences(op::sequence_softmax_grad, auto& on) {
  const auto f = [&](const auto& at) { return lod::sequence_softmax(on.executor, at, {.level = on.level}); };
  on.check(on.x, f, [&](const auto& dy) {
    return lod::sequence_softmax_grad(on.executor, dy, f(on.there(on.x)), {.level = on.level});
  });
}
void sample(op::sequence_log_softmax, auto& c) {
  lod::sequence_log_softmax_into(c.executor, c.rows(), {.level = c.level}, c.out());
}
void sample(op::sequence_log_softmax_grad, auto& c) {
  lod::sequence_log_softmax_grad_into(c.executor, c.rows(), c.rows(), {.level = c.level}, c.out());
}
void differences(op::sequence_log_softmax_grad, auto& on) {
  const auto f = [&](const auto& at) { return lod::sequence_log_softmax(on.executor, at, {.level = on.level}); };
  on.check(on.x, f, [&](const auto& dy) {
    return lod::sequence_log_softmax_grad(on.executor, dy, f(on.there(on.x)), {.level = on.level});
  });
}
lod::CumsumOptions running(auto& c) {
  const std::int64_t form = c.variant(4);
  return {.exclusive = form % 2 == 1, .reverse = form > 1, .level = c.level};
}
void sample(op::sequence_cumsum, auto& c) { lod::sequence_cumsum_into(c.executor, c.rows(), running(c), c.out()); }
void sample(op::sequence_cumsum_grad, auto& c) {
  lod::sequence_cumsum_grad_into(c.executor, c.rows(), running(c), c.out());
}
void differences(op::sequence_cumsum_grad, auto& on) {
  for (const bool other : {false, true}) {
    const lod::CumsumOptions options = {.exclusive = other, .reverse = other, .level = on.level};
    on.check(
        on.x, [&](const auto& at) { return lod::sequence_cumsum(on.executor, at, options); },
        [&](const auto& dy) { return lod::sequence_cumsum_grad(on.executor, dy, options); });
  }
}
void sample(op::sequence_linear_scan, auto& c) {
  const auto a = c.weights({c.index.rows(), c.row_size}), initial = c.weights({c.sequences(), c.row_size});
  if (c.variant(2) == 0) {
    lod::sequence_linear_scan_into(c.executor, a, c.rows(), {.level = c.level}, c.out());
  } else {
    lod::sequence_linear_scan_into(c.executor, a, c.rows(), {.initial = initial, .reverse = true, .level = c.level},
                                   c.out());
  }
}
void sample(op::sequence_linear_scan_grad, auto& c) {
  const auto a = c.weights({c.index.rows(), c.row_size}), initial = c.weights({c.sequences(), c.row_size});
  const auto dh = c.rows(), h = c.rows();
  if (c.variant(2) == 0) {
    lod::sequence_linear_scan_grad_into(c.executor, dh, a, h, {.level = c.level}, c.out(), c.out(), c.out());
  } else {
    lod::sequence_linear_scan_grad_into(c.executor, dh, a, h, {.initial = initial, .reverse = true, .level = c.level},
                                        c.out(), c.out(), c.out());
  }
}
template <class On>
void differences(op::sequence_linear_scan_grad, On& on) {
  using Options = lod::LinearScanOptions<double, typename On::Device>;
  auto a = on.weights({on.index.rows(), on.row_size});
  auto initial = on.level == 0 ? on.reals({on.index.size(0), on.row_size})
                               : on.reals(on.index.levels_above(on.level), {on.row_size});
  for (const bool reverse : {false, true}) {
    const auto f = [&](const auto& by, const auto& x, const auto& before) {
      return lod::sequence_linear_scan(on.executor, by, x,
                                       Options{.initial = before, .reverse = reverse, .level = on.level});
    };
    const auto grad = [&](const auto& dh) {
      const auto by = on.there(a), x = on.there(on.x), before = on.there(initial);
      return lod::sequence_linear_scan_grad(on.executor, dh, by, f(by, x, before),
                                            Options{.initial = before, .reverse = reverse, .level = on.level});
    };
    on.check(
        on.x, [&](const auto& at) { return f(on.there(a), at, on.there(initial)); },
        [&](const auto& dh) { return grad(dh).db; });
    on.check(
        "of the factors", a, [&](const auto& at) { return f(at, on.there(on.x), on.there(initial)); },
        [&](const auto& dh) { return grad(dh).da; });
    on.check(
        "of the initial rows", initial, [&](const auto& at) { return f(on.there(a), on.there(on.x), at); },
        [&](const auto& dh) { return grad(dh).dinitial; });
  }
}
/// By real numbers in one order, by repeated ones in the other.
auto keys(auto& c) { return c.variant(2) == 0 ? c.column() : c.column_of_ties(); }
lod::SortOptions order(auto& c) {
  const bool other = c.variant(2) == 1;
  return {.descending = other, .level = c.level, .row_index = other ? lod::RowIndex::SEQUENCE : lod::RowIndex::BATCH};
}
lod::TopKOptions greatest(auto& c) {
  if (c.variant(2) == 1) c.named("counted in sequences");
  return {.level = c.level, .row_index = c.one_of({lod::RowIndex::BATCH, lod::RowIndex::SEQUENCE})};
}
// The index is copied, too.
inline Launches launches(op::sequence_sort) { return {{"with an index", 4}}; }
void sample(op::sequence_sort, auto& c) {
  if (c.variant(4) < 2) {
    c.named("with an index");
    lod::sequence_sort_into(c.executor, keys(c), order(c), c.out(), c.out_ids());
  } else {
    lod::sequence_sort_into(c.executor, keys(c), order(c), c.out());
  }
}
void sample(op::sequence_argsort, auto& c) { lod::sequence_argsort_into(c.executor, keys(c), order(c), c.out_ids()); }
void sample(op::sequence_sort_grad, auto& c) {
  const auto x = keys(c);
  const lod::SortOptions options = order(c);
  const auto& rows = c.given([&] { return lod::sequence_argsort(c.executor, x, options); });
  lod::sequence_sort_grad_into(c.executor, c.column(), rows, options, c.out());
}
void differences(op::sequence_sort_grad, auto& on) {
  auto x = on.apart(on.index, {});
  on.check(
      x, [&](const auto& at) { return lod::sequence_sort(on.executor, at, {.level = on.level}); },
      [&](const auto& dy) {
        const auto rows = lod::sequence_argsort(on.executor, on.there(x), {.level = on.level});
        return lod::sequence_sort_grad(on.executor, dy, rows, {.level = on.level});
      });
}
// Rows of the batch, and where their sequences begin.
inline Launches launches(op::sequence_topk) { return {{"counted in sequences", 4}}; }
void sample(op::sequence_topk, auto& c) {
  lod::sequence_topk_into(c.executor, keys(c), 3, greatest(c), c.out(), c.out_ids());
}
void sample(op::sequence_topk_grad, auto& c) {
  const auto x = keys(c);
  const lod::TopKOptions options = greatest(c);
  const auto& dy = c.given([&] { return lod::sequence_topk(c.executor, x, 3, options).values; });
  const auto& rows = c.given([&] { return lod::sequence_topk(c.executor, x, 3, options).index; });
  lod::sequence_topk_grad_into(c.executor, dy, rows, c.index, 3, options, c.out());
}
void differences(op::sequence_topk_grad, auto& on) {
  auto x = on.apart(on.index, {});
  on.check(
      x, [&](const auto& at) { return lod::sequence_topk(on.executor, at, 2, {.level = on.level}).values; },
      [&](const auto& dy) {
        const auto rows = lod::sequence_topk(on.executor, on.there(x), 2, {.level = on.level}).index;
        return lod::sequence_topk_grad(on.executor, dy, rows, on.index, 2, {.level = on.level});
      });
}

// Windows.

void sample(op::sequence_conv, auto& c) {
  const auto filter = c.weights({3 * c.row_size, 5}), outside = c.dense({2, c.row_size});
  lod::sequence_conv_into(c.executor, c.rows(), filter,
                          {.context_length = 3, .context_start = -1, .padding = outside, .level = c.level}, c.out());
}
// Three gradients: each a product, of rows whose sequences are found, or of sums.
inline Launches launches(op::sequence_conv_grad) { return {{"", 8}}; }
void sample(op::sequence_conv_grad, auto& c) {
  const auto filter = c.weights({3 * c.row_size, 5}), outside = c.dense({2, c.row_size});
  lod::sequence_conv_grad_into(c.executor, c.dense({c.index.rows(), 5}), c.rows(), filter,
                               {.context_length = 3, .context_start = -1, .padding = outside, .level = c.level},
                               c.out(), c.out(), c.out());
}
template <class On>
void differences(op::sequence_conv_grad, On& on) {
  auto filter = on.weights({3 * on.row_size, 2}), outside = on.weights({2, on.row_size});
  const auto with = [&](const auto& padding, const auto& call) {
    const lod::ConvOptions<double, typename On::Device> options = {
        .context_length = 3, .context_start = -1, .padding = padding, .level = on.level};
    return call(options);
  };
  const auto f = [&](const auto& x, const auto& by, const auto& padding) {
    return with(padding, [&](const auto& options) { return lod::sequence_conv(on.executor, x, by, options); });
  };
  const auto grad = [&](const auto& dy) {
    return with(on.there(outside), [&](const auto& options) {
      return lod::sequence_conv_grad(on.executor, dy, on.there(on.x), on.there(filter), options);
    });
  };
  on.check(
      on.x, [&](const auto& at) { return f(at, on.there(filter), on.there(outside)); },
      [&](const auto& dy) { return grad(dy).dx; });
  on.check(
      "of the filter", filter, [&](const auto& at) { return f(on.there(on.x), at, on.there(outside)); },
      [&](const auto& dy) { return grad(dy).dfilter; });
  on.check(
      "of the padding", outside, [&](const auto& at) { return f(on.there(on.x), on.there(filter), at); },
      [&](const auto& dy) { return grad(dy).dpadding; });
}
void sample(op::row_conv, auto& c) {
  lod::row_conv_into(c.executor, c.rows(), c.weights({4, c.row_size}), {.level = c.level}, c.out());
}
// dx; the rows of the filter need to know where sequences end, and sum all rows as one sequence.
inline Launches launches(op::row_conv_grad) { return {{"", 5}}; }
void sample(op::row_conv_grad, auto& c) {
  lod::row_conv_grad_into(c.executor, c.rows(), c.rows(), c.weights({4, c.row_size}), {.level = c.level}, c.out(),
                          c.out());
}
void differences(op::row_conv_grad, auto& on) {
  auto filter = on.weights({3, on.row_size});
  const auto f = [&](const auto& x, const auto& by) { return lod::row_conv(on.executor, x, by, {.level = on.level}); };
  const auto grad = [&](const auto& dy) {
    return lod::row_conv_grad(on.executor, dy, on.there(on.x), on.there(filter), {.level = on.level});
  };
  on.check(
      on.x, [&](const auto& at) { return f(at, on.there(filter)); }, [&](const auto& dy) { return grad(dy).dx; });
  on.check(
      "of the filter", filter, [&](const auto& at) { return f(on.there(on.x), at); },
      [&](const auto& dy) { return grad(dy).dfilter; });
}

}  // namespace lod_test
