// SPDX-License-Identifier: Apache-2.0
/// @file
/// Attention on the CPU. Blocks of rows and the tiles that they meet begin at fixed rows of a sequence, and what a row
/// does not see adds nothing to it. So its bits do not depend on how blocks are shared among threads.
#pragma once

#include <lod/core/version.hpp>
#include <lod/kernels/cpu/attention_block.hpp>
#include <lod/kernels/cpu/exponential.hpp>
#include <lod/kernels/cpu/launch.hpp>
#include <lod/kernels/cpu/parallel.hpp>
#include <lod/kernels/cpu/score_row.hpp>
#include <lod/kernels/cpu/vector.hpp>
#include <lod/ops/sequence_attention.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu {

template <>
struct Kernel<SequenceAttention> {
  template <class T>
  static void run(const CpuExecutor& executor, const AttentionHeads& heads, const AttentionRows<T>& rows, T* y,
                  Accumulator<T>* logsumexp) {
    using A = Accumulator<T>;
    using Block = cpu::AttentionBlock<A>;
    const std::int64_t size = heads.size, value_size = heads.value_size, stride = Block::padded(value_size);
    const cpu::AttentionTasks tasks(executor, rows.queries.size, heads.heads,
                                    [&](std::int64_t i) { return cpu::attention_blocks(rows.queries.length(i)); });
    const cpu::ThreadScratch<A> scratch(executor, (Block::rows + Block::columns) * size +
                                                      (Block::rows + Block::columns) * stride +
                                                      Block::rows * (Block::columns + 3));
    const std::int64_t bytes = cpu::attention_bytes(heads, rows.queries, rows.keys);
    cpu::parallel_for(executor, tasks.size(), bytes, [&](std::int64_t task, int thread) {
      const cpu::AttentionTasks::Task place = tasks[task];
      const std::int64_t i = place.sequence, head = place.head, first = place.first_row;
      const std::int64_t queries = rows.queries.length(i), keys = rows.keys.length(i);
      const std::int64_t count = std::min(Block::rows, queries - first), kv_head = heads.kv_head(head);
      A* const left = scratch(thread);
      A* const right = left + Block::rows * size;
      A* const values = right + Block::columns * size;
      A* const sums = values + Block::columns * stride;
      A* const scores = sums + Block::rows * stride;
      A* const best = scores + Block::rows * Block::columns;
      A* const total = best + Block::rows;
      A* const factor = total + Block::rows;
      constexpr A lowest = -std::numeric_limits<A>::infinity();
      cpu::fill(sums, count * stride, A{});
      cpu::fill(best, count, lowest);
      cpu::fill(total, count, A{});

      const std::int64_t from = rows.queries.begin(i) + first, key_row = rows.keys.begin(i);
      const auto q = cpu::head_rows(rows.q, from, heads.heads, head, size);
      const auto k = cpu::head_rows(rows.k, key_row, heads.kv_heads, kv_head, size);
      const auto v = cpu::head_rows(rows.v, key_row, heads.kv_heads, kv_head, value_size);
      Block::put_rows(q, count, left);
      const cpu::AttentionScores<A> score(heads, rows.alibi ? static_cast<A>(rows.alibi[head]) : A{});
      const auto seen = [&](std::int64_t row) { return heads.keys_of(first + row, queries, keys); };
      cpu::for_each_attention_tile<A>(
          seen(0).begin, seen(count - 1).end, keys, [&](std::int64_t tile, std::int64_t others) {
            Block::put_columns(k.from(tile), others, right);
            Block::multiply_columns(left, count, right, others, size, scores);
            const auto seen_here = [&](std::int64_t row) { return cpu::within(seen(row), tile, others); };
            for (std::int64_t row = 0; row < count; ++row) {
              weigh(score, first + row + keys - queries - tile, seen_here(row), others, scores + row * Block::columns,
                    best[row], total[row], factor[row]);
            }
            const bool finite = Block::put_tile(v.from(tile), others, values);
            Block::add_products({scores, Block::columns, 1}, count, values, others, value_size,
                                finite || !heads.hides(), seen_here, factor, sums);
          });
      for (std::int64_t row = 0; row < count; ++row) {
        const std::int64_t at = (from + row) * heads.heads + head;
        const A all = total[row];
        logsumexp[at] = all == A{} ? lowest : best[row] + std::log(all);
        const A* const sum = sums + row * stride;
        if (all == A{}) {
          cpu::fill(y + at * value_size, value_size, T{});
        } else {
          cpu::convert(sum, value_size, y + at * value_size, [all](const auto& number) { return number / all; });
        }
      }
    });
  }

 private:
  /// Turns the products of a row into weights, of which the greatest so far would be 1; those of what it does not see
  /// are 0. What was summed up before is to be multiplied by `factor`.
  template <class A>
  static void weigh(const cpu::AttentionScores<A>& score, std::int64_t from, const AttentionRange& seen,
                    std::int64_t count, A* products, A& best, A& total, A& factor) noexcept {
    using V = cpu::Vector<A>;
    constexpr std::int64_t columns = cpu::AttentionBlock<A>::columns, lanes = cpu::lanes<A>;
    const V lowest(-std::numeric_limits<A>::infinity());
    V numbers[static_cast<std::size_t>(columns / lanes)], most = lowest;
    for (std::int64_t k = 0; k < count; k += lanes) {
      const V some = xsimd::select(score.are_seen(k, seen), score(cpu::load<A>(products + k), from - k).score, lowest);
      most = xsimd::max(most, some);
      numbers[k / lanes] = some;
    }
    const A greatest = std::max(best, cpu::greatest_lane(most));
    // Where nothing is seen yet, nothing is subtracted: all weights are 0.
    const A shift = greatest == lowest.get(0) ? A{} : greatest;
    V sum(A{});
    for (std::int64_t k = 0; k < count; k += lanes) {
      const V weight = cpu::exponential(numbers[k / lanes] - V(shift));
      sum += weight;
      weight.store_unaligned(products + k);
    }
    factor = cpu::exponential(V(best - shift)).get(0);
    total = total * factor + cpu::sum_of_lanes(sum);
    best = greatest;
  }
};

template <>
struct Kernel<SequenceAttentionGrad> {
  template <class T>
  static void run(const CpuExecutor& executor, const AttentionHeads& heads, const AttentionRows<T>& rows,
                  const AttentionResults<T>& results, T* dq, T* dk, T* dv) {
    using A = Accumulator<T>;
    const Workspace::Loan<A> deltas(executor.workspace(),
                                    lod::detail::saturated_product(rows.queries.rows(), heads.heads));
    const std::int64_t bytes = lod::detail::saturated_product(2, cpu::attention_bytes(heads, rows.queries, rows.keys));
    const auto is_short = [&](std::int64_t i) {
      return std::max(rows.queries.length(i) * (heads.heads / heads.kv_heads), rows.keys.length(i)) <= short_rows;
    };
    const cpu::AttentionTasks of_queries(executor, rows.queries.size, heads.heads, [&](std::int64_t i) {
      return is_short(i) ? 0 : cpu::attention_blocks(rows.queries.length(i));
    });
    const cpu::AttentionTasks of_keys(executor, rows.keys.size, heads.kv_heads, [&](std::int64_t i) {
      return is_short(i) ? 1 : cpu::attention_blocks(rows.keys.length(i));
    });
    const cpu::ThreadScratch<A> scratch(executor, Scratch<A>::size_of(heads));
    cpu::parallel_for(executor, of_queries.size(), bytes, [&](std::int64_t task, int thread) {
      grad_of_queries(heads, rows, results, of_queries[task], Scratch<A>(heads, scratch(thread)), deltas.data(), dq);
    });
    cpu::parallel_for(executor, of_keys.size(), bytes, [&](std::int64_t task, int thread) {
      const Scratch<A> here(heads, scratch(thread));
      if (is_short(of_keys[task].sequence)) {
        grad_of_sequence(heads, rows, results, of_keys[task], here, deltas.data(), dq, dk, dv);
      } else {
        grad_of_keys(heads, rows, results, of_keys[task], here, static_cast<const A*>(deltas.data()),
                     static_cast<A*>(nullptr), dk, dv);
      }
    });
  }

 private:
  /// Up to so many rows of k, and of q for all heads that meet one of k, a task has a whole sequence: then dq is summed
  /// up beside dk and dv, instead of from weights that are computed again.
  static constexpr std::int64_t short_rows = 512;

  /// The memory of a block and a tile: their rows of q or k, and those of dy or v; the products of both, which become
  /// weights and derivatives of scores; the sums.
  template <class A>
  struct Scratch {
    using Block = cpu::AttentionBlock<A>;
    A *left, *left_values, *right, *right_values, *tile, *tile_values, *weights, *changes, *sums, *sums_of_values;
    A *logsumexp, *delta;
    A *left_tile, *sums_of_queries;  ///< for short sequences

    static std::int64_t size_of(const AttentionHeads& heads) noexcept {
      const std::int64_t size = heads.size + heads.value_size;
      const std::int64_t padded = Block::padded(heads.size) + Block::padded(heads.value_size);
      return (Block::rows + Block::columns) * (size + padded) + 2 * (Block::rows + 1) * Block::columns +
             (Block::rows + short_rows) * Block::padded(heads.size);
    }
    Scratch(const AttentionHeads& heads, A* memory) noexcept {
      const auto take = [&](std::int64_t size) { return std::exchange(memory, memory + size); };
      const std::int64_t size = heads.size, value_size = heads.value_size;
      left = take(Block::rows * size);
      left_values = take(Block::rows * value_size);
      right = take(Block::columns * size);
      right_values = take(Block::columns * value_size);
      tile = take(Block::columns * Block::padded(size));
      tile_values = take(Block::columns * Block::padded(value_size));
      sums = take(Block::rows * Block::padded(size));
      sums_of_values = take(Block::rows * Block::padded(value_size));
      weights = take(Block::rows * Block::columns);
      changes = take(Block::rows * Block::columns);
      logsumexp = take(Block::columns);
      delta = take(Block::columns);
      left_tile = take(Block::rows * Block::padded(size));
      sums_of_queries = take(short_rows * Block::padded(size));
    }
  };
  /// For each row the mean of the gradient of its weights, which all of its scores lose.
  template <class T, class A = Accumulator<T>>
  static void put_deltas(const AttentionHeads& heads, const AttentionResults<T>& results, std::int64_t head,
                         std::int64_t from, std::int64_t count, A* deltas) noexcept {
    for (std::int64_t row = from; row < from + count; ++row) {
      const std::int64_t at = row * heads.heads + head;
      deltas[at] = product(results.dy + at * heads.value_size, results.y + at * heads.value_size, heads.value_size);
    }
  }
  /// dq of a block of rows, and their deltas.
  template <class T, class A = Accumulator<T>>
  static void grad_of_queries(const AttentionHeads& heads, const AttentionRows<T>& rows,
                              const AttentionResults<T>& results, const cpu::AttentionTasks::Task& task,
                              const Scratch<A>& here, A* deltas, T* dq) noexcept {
    using Block = cpu::AttentionBlock<A>;
    const std::int64_t i = task.sequence, head = task.head, first = task.first_row;
    const std::int64_t queries = rows.queries.length(i), keys = rows.keys.length(i), size = heads.size;
    const std::int64_t count = std::min(Block::rows, queries - first), kv_head = heads.kv_head(head);
    const std::int64_t from = rows.queries.begin(i) + first, key_row = rows.keys.begin(i);
    const auto k = cpu::head_rows(rows.k, key_row, heads.kv_heads, kv_head, size);
    const auto v = cpu::head_rows(rows.v, key_row, heads.kv_heads, kv_head, heads.value_size);
    Block::put_rows(cpu::head_rows(rows.q, from, heads.heads, head, size), count, here.left);
    Block::put_rows(cpu::head_rows(results.dy, from, heads.heads, head, heads.value_size), count, here.left_values);
    cpu::fill(here.sums, count * Block::padded(size), A{});
    put_deltas(heads, results, head, from, count, deltas);
    const cpu::AttentionScores<A> score(heads, rows.alibi ? static_cast<A>(rows.alibi[head]) : A{});
    const auto seen = [&](std::int64_t row) { return heads.keys_of(first + row, queries, keys); };
    cpu::for_each_attention_tile<A>(
        seen(0).begin, seen(count - 1).end, keys, [&](std::int64_t tile, std::int64_t others) {
          Block::put_columns(k.from(tile), others, here.right);
          Block::put_columns(v.from(tile), others, here.right_values);
          Block::multiply_columns(here.left, count, here.right, others, size, here.weights);
          Block::multiply_columns(here.left_values, count, here.right_values, others, heads.value_size, here.changes);
          const auto seen_here = [&](std::int64_t row) { return cpu::within(seen(row), tile, others); };
          for (std::int64_t row = 0; row < count; ++row) {
            const std::int64_t at = (from + row) * heads.heads + head;
            const cpu::Vector<A> of_all(results.logsumexp[at]), delta(deltas[at]);
            derive(
                score, first + row + keys - queries - tile, seen_here(row), others, heads.scale,
                here.weights + row * Block::columns, here.changes + row * Block::columns,
                [&](std::int64_t) { return of_all; }, [&](std::int64_t) { return delta; });
          }
          const bool finite = Block::put_tile(k.from(tile), others, here.tile);
          Block::add_products({here.changes, Block::columns, 1}, count, here.tile, others, size,
                              finite || !heads.hides(), seen_here, nullptr, here.sums);
        });
    write(here.sums, count, cpu::head_rows(dq, from, heads.heads, head, size));
  }

  /// All gradients of a sequence and a head of k.
  template <class T, class A = Accumulator<T>>
  static void grad_of_sequence(const AttentionHeads& heads, const AttentionRows<T>& rows,
                               const AttentionResults<T>& results, const cpu::AttentionTasks::Task& task,
                               const Scratch<A>& here, A* deltas, T* dq, T* dk, T* dv) noexcept {
    using Block = cpu::AttentionBlock<A>;
    const std::int64_t i = task.sequence, kv_head = task.head, first = task.first_row;
    const std::int64_t group = heads.heads / heads.kv_heads, from = rows.queries.begin(i);
    const std::int64_t queries = rows.queries.length(i), stride = queries * Block::padded(heads.size);
    for (std::int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
      put_deltas(heads, results, head, from, queries, deltas);
    }
    cpu::fill(here.sums_of_queries, group * stride, A{});
    for (std::int64_t row = first; row < rows.keys.length(i); row += Block::rows) {
      grad_of_keys(heads, rows, results, {i, kv_head, row}, here, static_cast<const A*>(deltas), here.sums_of_queries,
                   dk, dv);
    }
    for (std::int64_t k = 0; k < group; ++k) {
      write(here.sums_of_queries + k * stride, queries,
            cpu::head_rows(dq, from, heads.heads, kv_head * group + k, heads.size));
    }
  }
  /// dk and dv of a block of rows: products with the rows of q that see them, of each head of q that meets theirs. Adds
  /// what these get from the block to sums_of_queries, one head after the other, unless that is null.
  template <class T, class A = Accumulator<T>>
  static void grad_of_keys(const AttentionHeads& heads, const AttentionRows<T>& rows,
                           const AttentionResults<T>& results, const cpu::AttentionTasks::Task& task,
                           const Scratch<A>& here, const A* deltas, A* sums_of_queries, T* dk, T* dv) noexcept {
    using Block = cpu::AttentionBlock<A>;
    const std::int64_t i = task.sequence, kv_head = task.head, first = task.first_row;
    const std::int64_t queries = rows.queries.length(i), keys = rows.keys.length(i), size = heads.size;
    const std::int64_t count = std::min(Block::rows, keys - first), from = rows.keys.begin(i) + first;
    const std::int64_t query_row = rows.queries.begin(i), value_size = heads.value_size;
    const auto k = cpu::head_rows(rows.k, from, heads.kv_heads, kv_head, size);
    Block::put_rows(k, count, here.left);
    const bool finite_k = !sums_of_queries || Block::put_tile(k, count, here.left_tile);
    Block::put_rows(cpu::head_rows(rows.v, from, heads.kv_heads, kv_head, value_size), count, here.left_values);
    cpu::fill(here.sums, count * Block::padded(size), A{});
    cpu::fill(here.sums_of_values, count * Block::padded(value_size), A{});
    const auto seen = [&](std::int64_t row) { return heads.queries_of(first + row, queries, keys); };
    const std::int64_t group = heads.heads / heads.kv_heads;
    for (std::int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
      const auto q = cpu::head_rows(rows.q, query_row, heads.heads, head, size);
      const auto dy = cpu::head_rows(results.dy, query_row, heads.heads, head, value_size);
      const cpu::AttentionScores<A> score(heads, rows.alibi ? static_cast<A>(rows.alibi[head]) : A{});
      cpu::for_each_attention_tile<A>(
          seen(0).begin, seen(count - 1).end, queries, [&](std::int64_t tile, std::int64_t others) {
            Block::put_columns(q.from(tile), others, here.right);
            Block::put_columns(dy.from(tile), others, here.right_values);
            Block::multiply_columns(here.left, count, here.right, others, size, here.weights);
            Block::multiply_columns(here.left_values, count, here.right_values, others, value_size, here.changes);
            for (std::int64_t column = 0; column < others; ++column) {
              const std::int64_t at = (query_row + tile + column) * heads.heads + head;
              here.logsumexp[column] = results.logsumexp[at];
              here.delta[column] = deltas[at];
            }
            const auto seen_here = [&](std::int64_t row) { return cpu::within(seen(row), tile, others); };
            for (std::int64_t row = 0; row < count; ++row) {
              derive(
                  score, first + row + queries - keys - tile, seen_here(row), others, heads.scale,
                  here.weights + row * Block::columns, here.changes + row * Block::columns,
                  [&](std::int64_t column) { return cpu::load<A>(here.logsumexp + column); },
                  [&](std::int64_t column) { return cpu::load<A>(here.delta + column); });
            }
            const bool finite_q = Block::put_tile(q.from(tile), others, here.tile);
            const bool finite_dy = Block::put_tile(dy.from(tile), others, here.tile_values);
            Block::add_products({here.changes, Block::columns, 1}, count, here.tile, others, size,
                                finite_q || !heads.hides(), seen_here, nullptr, here.sums);
            Block::add_products({here.weights, Block::columns, 1}, count, here.tile_values, others, value_size,
                                finite_dy || !heads.hides(), seen_here, nullptr, here.sums_of_values);
            if (!sums_of_queries) return;
            const auto sees = [&](std::int64_t column) {
              return cpu::within(heads.keys_of(tile + column, queries, keys), first, count);
            };
            const std::int64_t place = (head - kv_head * group) * queries + tile;
            Block::add_products({here.changes, 1, Block::columns}, others, here.left_tile, count, size,
                                finite_k || !heads.hides(), sees, nullptr,
                                sums_of_queries + place * Block::padded(size));
          });
    }
    write(here.sums, count, cpu::head_rows(dk, from, heads.kv_heads, kv_head, size));
    write(here.sums_of_values, count, cpu::head_rows(dv, from, heads.kv_heads, kv_head, value_size));
  }

  /// Turns the products q k of a row and a tile into weights, and the products dy v into the derivatives of the
  /// products q k. Both are 0 where the row does not see the other, or where that sees it not.
  template <class A, class LogSums, class Deltas>
  static void derive(const cpu::AttentionScores<A>& score, std::int64_t from, const AttentionRange& seen,
                     std::int64_t count, double scale, A* products, A* products_of_values, const LogSums& of_all,
                     const Deltas& delta) noexcept {
    using V = cpu::Vector<A>;
    const V nothing(A{}), by(static_cast<A>(scale));
    for (std::int64_t k = 0; k < count; k += cpu::lanes<A>) {
      const auto is_seen = score.are_seen(k, seen);
      const auto [number, derivative] = score(cpu::load<A>(products + k), from - k);
      const V weight = xsimd::select(is_seen, cpu::exponential(number - of_all(k)), nothing);
      const V change = weight * (cpu::load<A>(products_of_values + k) - delta(k)) * derivative * by;
      weight.store_unaligned(products + k);
      xsimd::select(is_seen, change, nothing).store_unaligned(products_of_values + k);
    }
  }
  template <class T>
  static Accumulator<T> product(const T* x, const T* y, std::int64_t count) noexcept {
    using A = Accumulator<T>;
    cpu::Vector<T> sum(A{});
    for (std::int64_t k = 0; k < count; k += cpu::lanes<T>) {
      const std::int64_t some = std::min(count - k, cpu::lanes<T>);
      sum = cpu::multiply_add(cpu::load_vector(x + k, some, A{}, count - k),
                              cpu::load_vector(y + k, some, A{}, count - k), sum);
    }
    return cpu::sum_of_lanes(sum);
  }
  template <class T, class A>
  static void write(const A* sums, std::int64_t count, const cpu::HeadRows<T>& to) noexcept {
    const std::int64_t stride = cpu::AttentionBlock<A>::padded(to.size);
    for (std::int64_t row = 0; row < count; ++row) {
      cpu::convert(sums + row * stride, to.size, to.first + row * to.stride);
    }
  }
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu
