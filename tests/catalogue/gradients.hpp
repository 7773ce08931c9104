// SPDX-License-Identifier: Apache-2.0
/// @file
/// Gradients against differences of what the operations give: in double, on random batches with empty sequences at
/// every level, of every row size, by any executor.
#pragma once

#include "support/device_call.hpp"
#include "support/gradient.hpp"
#include "support/random_batch.hpp"
#include "support/random_lod.hpp"
#include "support/register_cases.hpp"
#include <lod/ops.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lod_test::gradients {

using lod::LoD;
using lod::LoDTensor;
using lod::PoolType;
using lod::RankTable;
using Numbers = std::vector<std::int64_t>;
using Batch = LoDTensor<double>;
using Rows = lod::SelectedRows<double>;

/// The executor, and the checks of the gradients of one operation for tensors that are brought to its device.
template <lod::Executor E>
class GradientsBy {
 public:
  using Device = typename E::device;
  using There = LoDTensor<double, Device>;

  GradientsBy(Engine& random, const std::string& operation, std::int64_t& count)
      : engine(random), operation_(operation), count_(count) {}

  template <class X>
  auto there(const X& x) const {
    return Transfer<Device>::there(executor, x);
  }
  template <class X>
  auto here(const X& x) const {
    return Transfer<Device>::here(executor, x);
  }

  /// Compiled once. `name` is that of the operation, and what x is to it. On GPUs some 20 to 40 elements of x are
  /// moved, spread over it; on CPUs all.
  void check(std::string_view name, Batch& x, const std::function<There(const There&)>& f,
             const std::function<There(const There&)>& grad) const {
    if (name.substr(0, name.find(',')) != operation_) return;
    ++count_;
    INFO(std::string(name));
    const auto run = [&](const std::function<There(const There&)>& g) {
      return [this, &g](const Batch& at) { return here(g(there(at))); };
    };
    constexpr std::size_t moved = slow ? 5 : 20;
    const std::size_t stride = std::same_as<Device, lod::Cpu> ? (slow ? 7 : 1) : x.values().size() / moved;
    check_gradient(engine, x, run(f), run(grad), std::max<std::size_t>(stride, 1));
  }

  Engine& engine;
  E executor;

 private:
  const std::string& operation_;
  std::int64_t& count_;
};

/// The checks of one operation.
template <lod::Executor E>
struct DifferencesOf {
  std::string operation;
  std::int64_t count = 0;  ///< how many were made

  GradientsBy<E> by(Engine& engine) { return GradientsBy<E>(engine, operation, count); }

  /// body(gradients, x, level) for small random batches: on GPUs each of a row size that takes its turn, on CPUs
  /// smaller ones of each.
  template <class Body>
  void for_each_small_batch(const Body& body) {
    constexpr bool on_cpu = std::same_as<typename E::device, lod::Cpu>;
    std::size_t turn = 0;
    for_each_random_lod(on_cpu ? 8
                        : slow ? 2
                               : 6,
                        1, 3, [&](Engine& engine, const Lengths& lengths) {
                          const LoD index = LoD::from_lengths(lengths);
                          if (index.rows() > (on_cpu ? 16 : 100)) return;
                          const auto check = [&](std::int64_t row_size) {
                            INFO("row size ", row_size);
                            auto x = real_numbers<double>(engine, index, {row_size});
                            body(by(engine), x, static_cast<int>(random_number(engine, 0, x.levels() - 1)));
                          };
                          constexpr std::int64_t row_sizes[] = {1, 3, 8, 17, 64};
                          if (on_cpu) {
                            for (const std::int64_t row_size : {1, 3, 8, 17}) check(row_size);
                          } else {
                            check(row_sizes[turn++ % 5]);
                          }
                        });
  }
};

/// Numbers whose order a difference does not change.
inline void set_apart(Batch& x) {
  std::iota(x.values().begin(), x.values().end(), -3.0);
  for (double& number : x.values()) number = static_cast<double>(static_cast<std::int64_t>(number) * 37 % 101) / 10;
}

template <lod::Executor E>
void differences_of_reductions(DifferencesOf<E>& checks) {
  using Device = typename E::device;
  using There = LoDTensor<double, Device>;
  checks.for_each_small_batch([](const GradientsBy<E>& on, Batch& x, int level) {
    const auto& e = on.executor;
    const LoD& index = x.lod();
    for (const PoolType type : {PoolType::SUM, PoolType::AVERAGE, PoolType::SQRT, PoolType::FIRST, PoolType::LAST}) {
      on.check(
          "sequence_pool_grad", x, [&](const There& at) { return lod::sequence_pool(e, at, type, {.level = level}); },
          [&](const There& dy) { return lod::sequence_pool_grad(e, dy, index, type, {.level = level}); });
    }
    Batch apart(index, x.row_shape());
    set_apart(apart);
    on.check(
        "sequence_max_pool_grad", apart,
        [&](const There& at) { return lod::sequence_max_pool(e, at, {.level = level}).values; },
        [&](const There& dy) {
          const auto winners = lod::sequence_max_pool(e, on.there(apart), {.level = level}).index;
          return lod::sequence_max_pool_grad(e, dy, winners, index, {.level = level});
        });
    on.check(
        "sequence_min_pool_grad", apart,
        [&](const There& at) { return lod::sequence_min_pool(e, at, {.level = level}).values; },
        [&](const There& dy) {
          const auto losers = lod::sequence_min_pool(e, on.there(apart), {.level = level}).index;
          return lod::sequence_min_pool_grad(e, dy, losers, index, {.level = level});
        });
    on.check(
        "sequence_logsumexp_grad", x, [&](const There& at) { return lod::sequence_logsumexp(e, at, {.level = level}); },
        [&](const There& dy) { return lod::sequence_logsumexp_grad(e, dy, on.there(x), {.level = level}); });
    on.check(
        "sequence_mean_var_grad", x,
        [&](const There& at) { return lod::sequence_mean_var(e, at, {.level = level}).variance; },
        [&](const There& dy) {
          const There none = on.there(Batch({index.size(level), x.row_size()}));
          return lod::sequence_mean_var_grad(e, none, dy, on.there(x), {.level = level});
        });
    on.check(
        "sequence_softmax_grad", x, [&](const There& at) { return lod::sequence_softmax(e, at, {.level = level}); },
        [&](const There& dy) {
          return lod::sequence_softmax_grad(e, dy, lod::sequence_softmax(e, on.there(x), {.level = level}),
                                            {.level = level});
        });
    on.check(
        "sequence_log_softmax_grad", x,
        [&](const There& at) { return lod::sequence_log_softmax(e, at, {.level = level}); },
        [&](const There& dy) {
          return lod::sequence_log_softmax_grad(e, dy, lod::sequence_log_softmax(e, on.there(x), {.level = level}),
                                                {.level = level});
        });
    on.check(
        "sequence_reverse_grad", x, [&](const There& at) { return lod::sequence_reverse(e, at, {.level = level}); },
        [&](const There& dy) { return lod::sequence_reverse_grad(e, dy, {.level = level}); });
    for (const lod::CumsumOptions options :
         {lod::CumsumOptions{.level = level}, lod::CumsumOptions{.exclusive = true, .reverse = true, .level = level}}) {
      on.check(
          "sequence_cumsum_grad", x, [&](const There& at) { return lod::sequence_cumsum(e, at, options); },
          [&](const There& dy) { return lod::sequence_cumsum_grad(e, dy, options); });
    }
    Batch column(index, {});
    set_apart(column);
    on.check(
        "sequence_sort_grad", column, [&](const There& at) { return lod::sequence_sort(e, at, {.level = level}); },
        [&](const There& dy) {
          const auto order = lod::sequence_argsort(e, on.there(column), {.level = level});
          return lod::sequence_sort_grad(e, dy, order, {.level = level});
        });
    on.check(
        "sequence_topk_grad", column,
        [&](const There& at) { return lod::sequence_topk(e, at, 2, {.level = level}).values; },
        [&](const There& dy) {
          const auto top = lod::sequence_topk(e, on.there(column), 2, {.level = level});
          return lod::sequence_topk_grad(e, dy, top.index, index, 2, {.level = level});
        });
  });
  Engine engine(50);
  const GradientsBy<E> on = checks.by(engine);
  const LoD rows = LoD::from_lengths({{2, 0, 3}}), columns = LoD::from_lengths({{4, 5, 1}});
  Batch matrices(LoD::from_lengths({{16, 0, 6}}), {});
  set_apart(matrices);
  const Numbers topks = {1, 3};
  on.check(
      "sequence_topk_avg_pooling_grad", matrices,
      [&](const There& at) { return lod::sequence_topk_avg_pooling(on.executor, at, rows, columns, topks, 2); },
      [&](const There& dy) {
        return lod::sequence_topk_avg_pooling_grad(on.executor, dy, on.there(matrices), rows, columns, topks, 2);
      });
}

template <lod::Executor E>
void differences_of_restructuring(DifferencesOf<E>& checks) {
  using Device = typename E::device;
  using There = LoDTensor<double, Device>;
  checks.for_each_small_batch([](const GradientsBy<E>& on, Batch& x, int level) {
    const auto& e = on.executor;
    const LoD& index = x.lod();
    const There other = on.there(real_numbers<double>(on.engine, index, x.row_shape()));
    const std::vector<LoD> lods = {index, index};
    Numbers repeats, ids, first, counts, every(static_cast<std::size_t>(x.rows()) + 1);
    std::iota(every.begin(), every.end(), std::int64_t{0});
    for (const std::int64_t length : index.lengths(0)) {
      repeats.push_back(random_number(on.engine, 0, 3));
      ids.push_back(random_number(on.engine, 0, x.size() - 1));
      first.push_back(random_number(on.engine, 0, length));
      counts.push_back(random_number(on.engine, 0, length - first.back()));
    }
    const LoD blocks = LoD::from_lengths({repeats});
    on.check(
        "sequence_expand_grad", x, [&](const There& at) { return lod::sequence_expand(e, at, blocks); },
        [&](const There& dy) { return lod::sequence_expand_grad(e, dy, index, blocks); });
    auto one_each = real_numbers<double>(on.engine, {index.size(-1), x.row_size()});
    on.check(
        "sequence_expand_as_grad", one_each, [&](const There& at) { return lod::sequence_expand_as(e, at, index); },
        [&](const There& dy) { return lod::sequence_expand_as_grad(e, dy, index).with_lod(LoD()); });
    on.check(
        "sequence_concat_grad", x, [&](const There& at) { return lod::sequence_concat(e, other, at); },
        [&](const There& dy) { return lod::sequence_concat_grad(e, dy, lods)[1]; });
    on.check(
        "sequence_slice_grad", x, [&](const There& at) { return lod::sequence_slice(e, at, first, counts); },
        [&](const There& dy) { return lod::sequence_slice_grad(e, dy, index, first, counts); });
    for (const std::int64_t length : {-1, 1, 3, 5}) {
      const lod::Side side = length % 4 == 1 ? lod::Side::RIGHT : lod::Side::LEFT;
      const lod::PadOptions pad{.padded_length = length, .side = side, .truncate = true, .level = level};
      on.check(
          "sequence_pad_grad", x, [&](const There& at) { return lod::sequence_pad(e, at, pad).dense; },
          [&](const There& dy) { return lod::sequence_pad_grad(e, dy, index, pad); });
    }
    auto dense = real_numbers<double>(on.engine, {4, 3, x.row_size()});
    const Numbers lengths = {3, 0, 2, 1};
    on.check(
        "sequence_unpad_grad", dense, [&](const There& at) { return lod::sequence_unpad(e, at, lengths); },
        [&](const There& dy) { return lod::sequence_unpad_grad(e, dy, lengths, 3); });
    on.check(
        "sequence_reshape_grad", x, [&](const There& at) { return lod::sequence_reshape(e, at, 1); },
        [&](const There& dy) { return lod::sequence_reshape_grad(e, dy, index, x.row_shape()); });
    on.check(
        "lod_reset_grad", x,
        [&](const There& at) {
          return lod::lod_reset(e, at, LoD::from_lengths({{0, x.rows(), 0}}));
        },
        [&](const There& dy) { return lod::lod_reset_grad(e, dy, index); });
    on.check(
        "lod_append_grad", x, [&](const There& at) { return lod::lod_append(e, at, every); },
        [&](const There& dy) { return lod::lod_append_grad(e, dy, index); });
    on.check(
        "remove_level_grad", x, [&](const There& at) { return lod::remove_level(e, at, level); },
        [&](const There& dy) { return lod::remove_level_grad(e, dy, index); });
    on.check(
        "insert_level_grad", x,
        [&](const There& at) { return lod::insert_level(e, at, 0, LoD::from_lengths({{x.size()}})); },
        [&](const There& dy) { return lod::insert_level_grad(e, dy, index); });
    on.check(
        "flatten_grad", x, [&](const There& at) { return lod::flatten(e, at); },
        [&](const There& dy) { return lod::flatten_grad(e, dy, index); });
    if (x.levels() > 1) {
      on.check(
          "transpose_levels_grad", x, [&](const There& at) { return lod::transpose_levels(e, at); },
          [&](const There& dy) { return lod::transpose_levels_grad(e, dy, index); });
    }
    on.check(
        "concat_grad", x, [&](const There& at) { return lod::concat(e, other, at); },
        [&](const There& dy) { return lod::concat_grad(e, dy, lods)[1]; });
    on.check(
        "split_grad", x, [&](const There& at) { return lod::split_at(e, at, {x.size() / 2})[1]; },
        [&](const There& dy) {
          const std::vector<There> parts = {on.there(Batch(x.between(0, x.size() / 2).lod(), x.row_shape())), dy};
          return lod::split_grad(e, parts);
        });
    on.check(
        "select_grad", x, [&](const There& at) { return lod::select(e, at, ids); },
        [&](const There& dy) { return lod::select_grad(e, dy, index, ids); });
    const std::vector<bool> mask = random_mask(on.engine, x.size()), inner = random_mask(on.engine, index.size(level));
    on.check(
        "filter_grad", x, [&](const There& at) { return lod::filter(e, at, mask); },
        [&](const There& dy) { return lod::filter_grad(e, dy, index, mask); });
    on.check(
        "remove_empty_grad", x, [&](const There& at) { return lod::remove_empty(e, at, {.level = level}); },
        [&](const There& dy) { return lod::remove_empty_grad(e, dy, index); });
    const lod::MergeBranchOptions back{.level = level, .lod = index};
    const auto branches = lod::split_lod_tensor(e, on.there(x), inner, {.level = level});
    Batch in_true = on.here(branches.in_true), none = on.here(branches.in_false);
    std::fill(none.values().begin(), none.values().end(), 0.0);
    on.check(
        "split_lod_tensor_grad", x,
        [&](const There& at) { return lod::split_lod_tensor(e, at, inner, {.level = level}).in_true; },
        [&](const There& dy) { return lod::split_lod_tensor_grad(e, dy, on.there(none), inner, back); });
    on.check(
        "merge_lod_tensor_grad", in_true,
        [&](const There& at) { return lod::merge_lod_tensor(e, at, branches.in_false, inner, back); },
        [&](const There& dy) { return lod::merge_lod_tensor_grad(e, dy, inner, {.level = level}).in_true; });
    const RankTable table(index, {.level = level}), ranks(blocks);
    on.check(
        "to_time_major_grad", x, [&](const There& at) { return There(lod::to_time_major(e, at, table).values()); },
        [&](const There& dz) {
          lod::TimeMajor<double, Device> steps(dz);
          return lod::to_time_major_grad(e, steps, table);
        });
    on.check(
        "from_time_major_grad", x,
        [&](const There& at) { return lod::from_time_major(e, lod::to_time_major(e, at, table), table); },
        [&](const There& dy) { return lod::to_time_major_grad(e, lod::from_time_major_grad(e, dy, table), table); });
    for (const char* const name : {"lod_tensor_to_array_grad", "array_to_lod_tensor_grad"}) {
      on.check(
          name, x,
          [&](const There& at) { return lod::array_to_lod_tensor(e, lod::lod_tensor_to_array(e, at, table), table); },
          [&](const There& dy) {
            return lod::lod_tensor_to_array_grad(e, lod::array_to_lod_tensor_grad(e, dy, table), table);
          });
    }
    on.check(
        "shrink_rnn_memory_grad", x, [&](const There& at) { return lod::shrink_rnn_memory(e, at, ranks, 1); },
        [&](const There& dy) { return lod::shrink_rnn_memory_grad(e, dy, index, ranks, 1); });
    on.check(
        "reorder_lod_tensor_by_rank_grad", x,
        [&](const There& at) { return lod::reorder_lod_tensor_by_rank(e, at, ranks); },
        [&](const There& dy) { return lod::reorder_lod_tensor_by_rank_grad(e, dy, ranks); });
  });
}

template <lod::Executor E>
void differences_of_arithmetic_and_tables(DifferencesOf<E>& checks) {
  using Device = typename E::device;
  using There = LoDTensor<double, Device>;
  checks.for_each_small_batch([](const GradientsBy<E>& on, Batch& x, int level) {
    const auto& e = on.executor;
    const LoD& index = x.lod();
    const std::int64_t row_size = x.row_size();
    const auto divisors = [](Batch y) {
      for (double& number : y.values()) number = 2 + number / 4;
      return y;
    };
    Batch same = divisors(real_numbers<double>(on.engine, index, x.row_shape()));
    Batch row = divisors(real_numbers<double>(on.engine, {row_size}));
    Batch rows = divisors(real_numbers<double>(on.engine, {index.size(level), row_size}));
    for (Batch* const y : {&same, &row, &rows}) {
      const lod::ElementwiseOptions options{.level = y == &rows ? level : 0};
      const auto both = [&](const char* name, const auto& f, const auto& grad) {
        on.check(
            name, x, [&](const There& at) { return f(at, on.there(*y)); },
            [&](const There& dz) { return grad(dz, on.there(x), on.there(*y)).x; });
        on.check(
            name, *y, [&](const There& at) { return f(on.there(x), at); },
            [&](const There& dz) { return grad(dz, on.there(x), on.there(*y)).y; });
      };
      both(
          "add_grad", [&](const There& a, const There& b) { return lod::add(e, a, b, options); },
          [&](const There& dz, const There& a, const There& b) { return lod::add_grad(e, dz, a, b, options); });
      both(
          "sub_grad", [&](const There& a, const There& b) { return lod::sub(e, a, b, options); },
          [&](const There& dz, const There& a, const There& b) { return lod::sub_grad(e, dz, a, b, options); });
      both(
          "mul_grad", [&](const There& a, const There& b) { return lod::mul(e, a, b, options); },
          [&](const There& dz, const There& a, const There& b) { return lod::mul_grad(e, dz, a, b, options); });
      both(
          "div_grad", [&](const There& a, const There& b) { return lod::div(e, a, b, options); },
          [&](const There& dz, const There& a, const There& b) { return lod::div_grad(e, dz, a, b, options); });
    }
    auto filter = small_reals<double>(on.engine, {3 * row_size, 2}),
         padding = small_reals<double>(on.engine, {2, row_size});
    const auto conv = [&](const There& rows_of, const There& weights, const There& outside, const There* dy) {
      const lod::ConvOptions<double, Device> options = {
          .context_length = 3, .context_start = -1, .padding = &outside, .level = level};
      if (dy) return lod::sequence_conv_grad(e, *dy, rows_of, weights, options);
      return lod::ConvGrad<double, Device>{lod::sequence_conv(e, rows_of, weights, options), There(e.resource()),
                                           There(e.resource())};
    };
    on.check(
        "sequence_conv_grad", x,
        [&](const There& at) { return conv(at, on.there(filter), on.there(padding), nullptr).dx; },
        [&](const There& dy) { return conv(on.there(x), on.there(filter), on.there(padding), &dy).dx; });
    on.check(
        "sequence_conv_grad, of the filter", filter,
        [&](const There& at) { return conv(on.there(x), at, on.there(padding), nullptr).dx; },
        [&](const There& dy) { return conv(on.there(x), on.there(filter), on.there(padding), &dy).dfilter; });
    on.check(
        "sequence_conv_grad, of the padding", padding,
        [&](const There& at) { return conv(on.there(x), on.there(filter), at, nullptr).dx; },
        [&](const There& dy) { return conv(on.there(x), on.there(filter), on.there(padding), &dy).dpadding; });
    auto ahead = small_reals<double>(on.engine, {3, row_size});
    on.check(
        "row_conv_grad", x, [&](const There& at) { return lod::row_conv(e, at, on.there(ahead), {.level = level}); },
        [&](const There& dy) { return lod::row_conv_grad(e, dy, on.there(x), on.there(ahead), {.level = level}).dx; });
    on.check(
        "row_conv_grad, of the filter", ahead,
        [&](const There& at) { return lod::row_conv(e, on.there(x), at, {.level = level}); },
        [&](const There& dy) {
          return lod::row_conv_grad(e, dy, on.there(x), on.there(ahead), {.level = level}).dfilter;
        });
    auto images = real_numbers<double>(on.engine, {2, row_size, 2, 3});
    const lod::Im2SequenceOptions patches{.kernels = {2, 1}, .paddings = {1, 0, 1, 0}};
    on.check(
        "im2sequence_grad", images, [&](const There& at) { return lod::im2sequence(e, at, patches); },
        [&](const There& dy) { return lod::im2sequence_grad(e, dy, on.there(images), patches); });

    if (x.rows() <= 6) {
      auto films = real_numbers<double>(on.engine, index, {1, 2, row_size});
      on.check(
          "im2sequence_grad, of batches", films, [&](const There& at) { return lod::im2sequence(e, at, patches); },
          [&](const There& dy) { return lod::im2sequence_grad(e, dy, on.there(films), patches); });
    }

    const auto ids = on.there(random_ids(on.engine, index, 6));
    Batch table({6, row_size}), weights = divisors(real_numbers<double>(on.engine, index, {}));
    set_apart(table);
    const There weights_there = on.there(weights);
    const auto dense = [&](const auto& g) { return lod::to_dense(e, g); };
    on.check(
        "embedding_grad", table, [&](const There& at) { return lod::embedding(e, at, ids, {.padding_idx = 3}); },
        [&](const There& dy) { return dense(lod::embedding_grad(e, dy, ids, 6, {.padding_idx = 3})); });
    for (const PoolType type : {PoolType::SUM, PoolType::AVERAGE, PoolType::SQRT, PoolType::FIRST, PoolType::LAST}) {
      const lod::EmbeddingPoolOptions<double, Device> weighted = {
          .weights = weights_there, .padding_idx = 3, .level = level};
      on.check(
          "embedding_pool_grad", table,
          [&](const There& at) { return lod::embedding_pool(e, at, ids, type, weighted); },
          [&](const There& dy) { return dense(lod::embedding_pool_grad(e, dy, ids, 6, type, weighted)); });
      on.check(
          "embedding_pool_weights_grad", weights,
          [&](const There& at) {
            return lod::embedding_pool(e, on.there(table), ids, type,
                                       {.weights = at, .padding_idx = 3, .level = level});
          },
          [&](const There& dy) {
            return lod::embedding_pool_weights_grad(e, dy, on.there(table), ids, type, weighted);
          });
    }
    const lod::EmbeddingPoolOptions<double, Device> options = {.level = level};
    on.check(
        "embedding_max_pool_grad", table,
        [&](const There& at) { return lod::embedding_max_pool(e, at, ids, options).values; },
        [&](const There& dy) {
          const auto winners = lod::embedding_max_pool(e, on.there(table), ids, options).index;
          return dense(lod::embedding_max_pool_grad(e, dy, winners, ids, 6, options));
        });
    on.check(
        "embedding_min_pool_grad", table,
        [&](const There& at) { return lod::embedding_min_pool(e, at, ids, options).values; },
        [&](const There& dy) {
          const auto losers = lod::embedding_min_pool(e, on.there(table), ids, options).index;
          return dense(lod::embedding_min_pool_grad(e, dy, losers, ids, 6, options));
        });
    auto lines = real_numbers<double>(on.engine, {index.size(level), 6});
    on.check(
        "sequence_scatter_grad", lines,
        [&](const There& at) { return lod::sequence_scatter(e, at, ids, on.there(weights), {.level = level}); },
        [&](const There& dy) { return lod::sequence_scatter_grad(e, dy, ids, {.level = level}).dx; });
    on.check(
        "sequence_scatter_grad, of the updates", weights,
        [&](const There& at) { return lod::sequence_scatter(e, on.there(lines), ids, at, {.level = level}); },
        [&](const There& dy) { return lod::sequence_scatter_grad(e, dy, ids, {.level = level}).dupdates; });
  });
}

template <lod::Executor E>
void differences_of_networks(DifferencesOf<E>& checks) {
  using Device = typename E::device;
  using There = LoDTensor<double, Device>;
  checks.for_each_small_batch([](const GradientsBy<E>& on, Batch& x, int level) {
    const auto& e = on.executor;
    const LoD& index = x.lod();
    const std::int64_t size = x.row_size(), sequences = index.size(level);
    const auto weights = [&](const lod::Shape& shape) { return small_reals<double>(on.engine, shape); };
    auto input = weights({size, 8}), recurrent = weights({2, 8}), bias = weights({8});
    auto states = weights({sequences, 2}), cells = weights({sequences, 2});
    const auto run_lstm = [&] {
      const auto hidden = on.there(states), cell = on.there(cells);
      const lod::LstmWeights<double, Device> w{on.there(input), on.there(recurrent), on.there(bias)};
      return lod::lstm(e, on.there(x), w, {.initial_hidden = hidden, .initial_cell = cell, .level = level});
    };
    const auto run_gradients = [&](const There& dy) {
      const lod::LstmWeights<double, Device> w{on.there(input), on.there(recurrent), on.there(bias)};
      return lod::lstm_grad(e, dy, on.there(x), w, run_lstm().trace);
    };
    // The tensor that is moved is among the arguments; a result that has no level of its own is of that tensor's.
    const auto check_lstm = [&](const char* name, Batch& at, const auto& member) {
      on.check(
          name, at, [&](const There&) { return run_lstm().hidden; },
          [&](const There& dy) { return member(run_gradients(dy)).with_lod(at.lod()); });
    };
    check_lstm("lstm_grad", x, [](const auto& d) { return d.x; });
    check_lstm("lstm_grad, of the input's weights", input, [](const auto& d) { return d.weights.input; });
    check_lstm("lstm_grad, of the state's weights", recurrent, [](const auto& d) { return d.weights.recurrent; });
    check_lstm("lstm_grad, of the bias", bias, [](const auto& d) { return d.weights.bias; });
    check_lstm("lstm_grad, of the first state", states, [](const auto& d) { return d.initial_hidden; });
    check_lstm("lstm_grad, of the first cell", cells, [](const auto& d) { return d.initial_cell; });

    auto gates = weights({size, 6}), products = weights({2, 6}), gate_bias = weights({6}), product_bias = weights({2});
    const auto gru_weights = [&] {
      return lod::GruWeights<double, Device>{on.there(gates), on.there(products), on.there(gate_bias),
                                             on.there(product_bias)};
    };
    const auto run_gru = [&] {
      const auto hidden = on.there(states);
      return lod::gru(e, on.there(x), gru_weights(), {.initial_hidden = hidden, .level = level});
    };
    const auto check_gru = [&](const char* name, Batch& at, const auto& member) {
      on.check(
          name, at, [&](const There&) { return run_gru().hidden; },
          [&](const There& dy) {
            return member(lod::gru_grad(e, dy, on.there(x), gru_weights(), run_gru().trace)).with_lod(at.lod());
          });
    };
    check_gru("gru_grad", x, [](const auto& d) { return d.x; });
    check_gru("gru_grad, of the input's weights", gates, [](const auto& d) { return d.weights.input; });
    check_gru("gru_grad, of the state's weights", products, [](const auto& d) { return d.weights.recurrent; });
    check_gru("gru_grad, of the bias", gate_bias, [](const auto& d) { return d.weights.bias; });
    check_gru("gru_grad, of the products' bias", product_bias, [](const auto& d) { return d.weights.recurrent_bias; });
    check_gru("gru_grad, of the first state", states, [](const auto& d) { return d.initial_hidden; });

    // h = h' + x; the output is h * x.
    const RankTable table(index, {.level = -1});
    auto initial = weights({table.size(), size});
    const auto cell = [&](const auto& before, const auto& step) {
      auto after = lod::add(e, before, step);
      auto output = lod::mul(e, after, step);
      return std::pair(std::move(after), std::move(output));
    };
    const auto cell_grad = [&](const auto& before, const auto& step, const auto& dstate, const auto& doutput) {
      const auto d = lod::mul_grad(e, doutput, lod::add(e, before, step), step);
      auto dbefore = lod::add(e, dstate, d.x);
      auto dstep = lod::add(e, dbefore, d.y);
      return std::pair(std::move(dbefore), std::move(dstep));
    };
    const auto unrolled = [&] { return lod::dynamic_rnn(e, on.there(x), table, on.there(initial), cell); };
    const auto gradients = [&](const There& dy) {
      const auto no_state = on.there(Batch({table.size(), size}));
      return lod::dynamic_rnn_grad(e, dy, no_state, on.there(x), table, on.there(initial), cell, cell_grad);
    };
    on.check(
        "dynamic_rnn_grad", x, [&](const There&) { return unrolled().output; },
        [&](const There& dy) { return gradients(dy).x; });
    on.check(
        "dynamic_rnn_grad, of the first state", initial, [&](const There&) { return unrolled().output; },
        [&](const There& dy) { return gradients(dy).initial_state.with_lod(LoD()); });
  });
}

template <lod::Executor E>
void differences_of_listed_rows(DifferencesOf<E>& checks) {
  using Device = typename E::device;
  using There = LoDTensor<double, Device>;
  using RowsThere = lod::SelectedRows<double, Device>;
  const Numbers ids = {1, 0, 2, 5, 5, 3, 5}, merged = {0, 1, 2, 3, 5, -1, -1};
  for (const std::int64_t row_size : {1, 3, 8, 17, 64}) {
    INFO("row size ", row_size);
    Engine engine(60);
    const GradientsBy<E> on = checks.by(engine);
    const auto& e = on.executor;
    auto value = real_numbers<double>(engine, {7, row_size}), dense = real_numbers<double>(engine, {6, row_size});
    const auto rows = [&](const Numbers& of, const There& values) { return on.there(Rows(of, 6, on.here(values))); };
    // As what was merged on a GPU: with places that name no row, whose values do not count.
    const auto in_places = [&](const There& values) {
      if constexpr (std::same_as<Device, lod::Cpu>) {
        return Rows({0, 1, 2, 3, 5}, 6, values);
      } else {
        LoDTensor<std::int64_t> places({7});
        std::copy(merged.begin(), merged.end(), places.values().begin());
        Batch rest({2, row_size});
        std::fill(rest.values().begin(), rest.values().end(), std::numeric_limits<double>::quiet_NaN());
        return RowsThere(on.there(places), 6, lod::concat(e, values, on.there(rest)));
      }
    };
    const auto values_of = [&](const RowsThere& g) { return on.there(Batch(on.here(g).value())); };
    on.check(
        "scale", value, [&](const There& at) { return values_of(lod::scale(e, rows(ids, at), 0.5)); },
        [&](const There& dy) { return values_of(lod::scale(e, rows(ids, dy), 0.5)); });
    on.check(
        "add, of rows and a tensor", value,
        [&](const There& at) { return lod::add(e, rows(ids, at), on.there(dense)); },
        [&](const There& dy) { return values_of(lod::from_dense(e, dy, ids)); });
    on.check(
        "from_dense", dense, [&](const There& at) { return values_of(lod::from_dense(e, at, ids)); },
        [&](const There& dy) { return lod::to_dense(e, rows(ids, dy)); });
    on.check(
        "merge_add_grad", value, [&](const There& at) { return values_of(lod::merge_add(e, rows(ids, at))); },
        [&](const There& dy) { return values_of(lod::merge_add_grad(e, in_places(dy), ids)); });
    on.check(
        "merge_average_grad", value, [&](const There& at) { return values_of(lod::merge_average(e, rows(ids, at))); },
        [&](const There& dy) { return values_of(lod::merge_average_grad(e, in_places(dy), ids)); });
    on.check(
        "to_dense_grad", value, [&](const There& at) { return lod::to_dense(e, rows(ids, at)); },
        [&](const There& dy) { return values_of(lod::to_dense_grad(e, dy, ids)); });
    on.check(
        "clip_grad", value, [&](const There& at) { return values_of(lod::clip(e, rows(ids, at), -3, 1.5)); },
        [&](const There& dy) {
          return values_of(lod::clip_grad(e, in_places(dy), rows(ids, on.there(value)), -3, 1.5));
        });
    for (const double norm : {1.5, 1000.0}) {
      on.check(
          "clip_by_norm_grad", value,
          [&](const There& at) { return values_of(lod::clip_by_norm(e, rows(ids, at), norm)); },
          [&](const There& dy) {
            return values_of(lod::clip_by_norm_grad(e, in_places(dy), rows(ids, on.there(value)), norm));
          });
    }
    on.check(
        "split_selected_rows_grad", value,
        [&](const There& at) {
          return values_of(lod::split_selected_rows(e, rows(ids, at), {2, 1, 3})[2]);
        },
        [&](const There& dy) {
          std::vector<RowsThere> parts = {on.there(Rows({1, 0}, 2, {row_size})), on.there(Rows({0}, 1, {row_size})),
                                          on.there(Rows({2, 2, 0, 2}, 3, on.here(dy)))};
          return values_of(lod::split_selected_rows_grad(e, parts));
        });
    for (const lod::ScatterOp op :
         {lod::ScatterOp::ASSIGN, lod::ScatterOp::ADD, lod::ScatterOp::SUB, lod::ScatterOp::SUBBY, lod::ScatterOp::MUL,
          lod::ScatterOp::DIV, lod::ScatterOp::DIVBY}) {
      for (double& number : value.values()) number = 2 + number / 8;
      for (double& number : dense.values()) number = 2 + number / 8;
      const auto scattered = [&] {
        There y = on.there(dense);
        lod::scatter(e, rows(ids, on.there(value)), op, y);
        return y;
      };
      on.check(
          "scatter_grad", value, [&](const There&) { return scattered(); },
          [&](const There& dy) {
            return values_of(lod::scatter_grad(e, dy, rows(ids, on.there(value)), op, on.there(dense)).g);
          });
      on.check(
          "scatter_grad, of what it is scattered to", dense, [&](const There&) { return scattered(); },
          [&](const There& dy) {
            return lod::scatter_grad(e, dy, rows(ids, on.there(value)), op, on.there(dense)).dense;
          });
    }
  }
}

/// A case for each operation that is a gradient, and for those that are the gradients of others.
template <lod::Executor E>
struct Differences {
  static constexpr const char* name = "gradient against differences";
  template <class Op>
  static constexpr bool holds_for =
      lod::operation::name_of<Op>.ends_with("_grad") || std::same_as<Op, lod::op::scale> ||
      std::same_as<Op, lod::op::add> || std::same_as<Op, lod::op::from_dense>;
  template <class Op>
  static void check() {
    DifferencesOf<E> checks{std::string(lod::operation::name_of<Op>)};
    differences_of_reductions(checks);
    differences_of_restructuring(checks);
    differences_of_arithmetic_and_tables(checks);
    differences_of_networks(checks);
    differences_of_listed_rows(checks);
    CHECK(checks.count > 0);
  }
};

}  // namespace lod_test::gradients
