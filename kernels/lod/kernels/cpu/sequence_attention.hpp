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
    const cpu::ThreadScratch<A> scratch(
        executor, tasks.rows() * (size + stride + 2) + Block::columns * (size + stride + Block::rows));
    const std::int64_t bytes = cpu::attention_bytes(heads, rows.queries, rows.keys);
    cpu::parallel_for(executor, tasks.size(), bytes, [&](std::int64_t task, int thread) {
      const cpu::AttentionTasks::Task place = tasks[task];
      const std::int64_t i = place.sequence, head = place.head, first = place.first_row;
      const std::int64_t queries = rows.queries.length(i), keys = rows.keys.length(i);
      const std::int64_t count = std::min(tasks.rows(), queries - first), kv_head = heads.kv_head(head);
      A* const left = scratch(thread);
      A* const sums = left + tasks.rows() * size;
      A* const best = sums + tasks.rows() * stride;
      A* const total = best + tasks.rows();
      A* const right = total + tasks.rows();
      A* const values = right + Block::columns * size;
      A* const scores = values + Block::columns * stride;
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
            const bool plain = Block::put_tile(v.from(tile), others, values) || !heads.hides();
            cpu::for_each_attention_block<A>(
                count, tile, tile + others, seen, [&](std::int64_t begin, std::int64_t some) {
                  const auto seen_here = [&](std::int64_t row) { return cpu::within(seen(begin + row), tile, others); };
                  const typename Block::Seen seen_by_rows(some, seen_here);
                  Block::multiply_columns(left + begin * size, some, right, others, size, seen_by_rows, scores);
                  for (std::int64_t row = 0; row < some; ++row) {
                    const std::int64_t at = begin + row;
                    const A factor = weigh(score, first + at + keys - queries - tile, seen_here(row),
                                           seen_by_rows.of(row), scores + row * Block::columns, best[at], total[at]);
                    A* const sum = sums + at * stride;
                    if (factor != A{1}) {
                      cpu::transform(sum, stride, sum, [factor](const auto& number) { return number * factor; });
                    }
                  }
                  Block::add_products({scores, Block::columns, 1}, some, values, value_size, plain, seen_here,
                                      seen_by_rows, sums + begin * stride);
                });
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
  /// are 0, as far as rows beside it see it. Returns what is to be multiplied by what was summed up before.
  template <class A>
  static A weigh(const cpu::AttentionScores<A>& score, std::int64_t from, const AttentionRange& seen,
                 const AttentionRange& seen_beside, A* products, A& best, A& total) noexcept {
    using V = cpu::Vector<A>;
    constexpr std::int64_t columns = cpu::AttentionBlock<A>::columns, lanes = cpu::lanes<A>;
    const V lowest(-std::numeric_limits<A>::infinity());
    V numbers[static_cast<std::size_t>(columns / lanes)], most = lowest;
    for (std::int64_t k = seen_beside.begin; k < seen_beside.end; k += lanes) {
      V some = score(cpu::load<A>(products + k), from - k).score;
      if (k < seen.begin || k + lanes > seen.end) some = xsimd::select(score.are_seen(k, seen), some, lowest);
      most = xsimd::max(most, some);
      numbers[k / lanes] = some;
    }
    const A greatest = std::max(best, cpu::greatest_lane(most));
    // Where nothing is seen yet, nothing is subtracted: all weights are 0.
    const A shift = greatest == lowest.get(0) ? A{} : greatest;
    V sum(A{});
    for (std::int64_t k = seen_beside.begin; k < seen_beside.end; k += lanes) {
      const V weight = cpu::exponential(numbers[k / lanes] - V(shift));
      sum += weight;
      weight.store_unaligned(products + k);
    }
    const A factor = best == shift ? A{1} : cpu::exponential(V(best - shift)).get(0);
    total = total * factor + cpu::sum_of_lanes(sum);
    best = greatest;
    return factor;
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
    const std::int64_t most_rows = std::max(of_queries.rows(), of_keys.rows());
    const cpu::ThreadScratch<A> scratch(executor, Scratch<A>::size_of(heads, most_rows));
    cpu::parallel_for(executor, of_queries.size(), bytes, [&](std::int64_t task, int thread) {
      grad_of_queries(heads, rows, results, of_queries[task], Scratch<A>(heads, most_rows, scratch(thread)),
                      deltas.data(), dq);
    });
    cpu::parallel_for(executor, of_keys.size(), bytes, [&](std::int64_t task, int thread) {
      const Scratch<A> here(heads, most_rows, scratch(thread));
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
    std::int64_t rows;  ///< of a task
    A *left, *left_values, *right, *right_values, *tile, *tile_values, *weights, *changes, *sums, *sums_of_values;
    A *logsumexp, *delta;
    A *left_tile, *sums_of_queries;  ///< for short sequences

    /// For tasks of up to `most_rows` rows.
    static std::int64_t size_of(const AttentionHeads& heads, std::int64_t most_rows) noexcept {
      const std::int64_t size = heads.size + heads.value_size;
      const std::int64_t padded = Block::padded(heads.size) + Block::padded(heads.value_size);
      return (most_rows + Block::columns) * (size + padded) + 2 * (Block::rows + 1) * Block::columns +
             (most_rows + short_rows) * Block::padded(heads.size);
    }
    Scratch(const AttentionHeads& heads, std::int64_t most_rows, A* memory) noexcept : rows(most_rows) {
      const auto take = [&](std::int64_t size) { return std::exchange(memory, memory + size); };
      const std::int64_t size = heads.size, value_size = heads.value_size;
      left = take(rows * size);
      left_values = take(rows * value_size);
      right = take(Block::columns * size);
      right_values = take(Block::columns * value_size);
      tile = take(Block::columns * Block::padded(size));
      tile_values = take(Block::columns * Block::padded(value_size));
      sums = take(rows * Block::padded(size));
      sums_of_values = take(rows * Block::padded(value_size));
      weights = take(Block::rows * Block::columns);
      changes = take(Block::rows * Block::columns);
      logsumexp = take(Block::columns);
      delta = take(Block::columns);
      left_tile = take(rows * Block::padded(size));
      sums_of_queries = take(short_rows * Block::padded(size));
    }

    /// Both products of `some` rows of the block, from row `begin` on, and the tile's `others`.
    void multiply(const AttentionHeads& heads, std::int64_t begin, std::int64_t some, std::int64_t others,
                  const typename Block::Seen& seen) const noexcept {
      Block::multiply_columns(left + begin * heads.size, some, right, others, heads.size, seen, weights);
      Block::multiply_columns(left_values + begin * heads.value_size, some, right_values, others, heads.value_size,
                              seen, changes);
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
    const std::int64_t count = std::min(here.rows, queries - first), kv_head = heads.kv_head(head);
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
          const bool plain = Block::put_tile(k.from(tile), others, here.tile) || !heads.hides();
          cpu::for_each_attention_block<A>(
              count, tile, tile + others, seen, [&](std::int64_t begin, std::int64_t some) {
                const auto seen_here = [&](std::int64_t row) { return cpu::within(seen(begin + row), tile, others); };
                const typename Block::Seen seen_by_rows(some, seen_here);
                here.multiply(heads, begin, some, others, seen_by_rows);
                for (std::int64_t row = 0; row < some; ++row) {
                  const std::int64_t at = (from + begin + row) * heads.heads + head;
                  const cpu::Vector<A> of_all(results.logsumexp[at]), delta(deltas[at]);
                  derive(
                      score, first + begin + row + keys - queries - tile, seen_here(row), seen_by_rows.of(row), others,
                      heads.scale, here.weights + row * Block::columns, here.changes + row * Block::columns,
                      [&](std::int64_t) { return of_all; }, [&](std::int64_t) { return delta; });
                }
                Block::add_products({here.changes, Block::columns, 1}, some, here.tile, size, plain, seen_here,
                                    seen_by_rows, here.sums + begin * Block::padded(size));
              });
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
    for (std::int64_t row = first; row < rows.keys.length(i); row += here.rows) {
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
    const std::int64_t count = std::min(here.rows, keys - first), from = rows.keys.begin(i) + first;
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
            for (std::int64_t column = 0; column < others; ++column) {
              const std::int64_t at = (query_row + tile + column) * heads.heads + head;
              here.logsumexp[column] = results.logsumexp[at];
              here.delta[column] = deltas[at];
            }
            const bool plain_q = Block::put_tile(q.from(tile), others, here.tile) || !heads.hides();
            const bool plain_dy = Block::put_tile(dy.from(tile), others, here.tile_values) || !heads.hides();
            cpu::for_each_attention_block<A>(
                count, tile, tile + others, seen, [&](std::int64_t begin, std::int64_t some) {
                  const auto seen_here = [&](std::int64_t row) { return cpu::within(seen(begin + row), tile, others); };
                  const typename Block::Seen seen_by_rows(some, seen_here);
                  here.multiply(heads, begin, some, others, seen_by_rows);
                  for (std::int64_t row = 0; row < some; ++row) {
                    derive(
                        score, first + begin + row + queries - keys - tile, seen_here(row), seen_by_rows.of(row),
                        others, heads.scale, here.weights + row * Block::columns, here.changes + row * Block::columns,
                        [&](std::int64_t column) { return cpu::load<A>(here.logsumexp + column); },
                        [&](std::int64_t column) { return cpu::load<A>(here.delta + column); });
                  }
                  Block::add_products({here.changes, Block::columns, 1}, some, here.tile, size, plain_q, seen_here,
                                      seen_by_rows, here.sums + begin * Block::padded(size));
                  Block::add_products({here.weights, Block::columns, 1}, some, here.tile_values, value_size, plain_dy,
                                      seen_here, seen_by_rows, here.sums_of_values + begin * Block::padded(value_size));
                  if (!sums_of_queries) return;
                  const auto sees = [&](std::int64_t column) {
                    return cpu::within(heads.keys_of(tile + column, queries, keys), first + begin, some);
                  };
                  const std::int64_t place = (head - kv_head * group) * queries + tile;
                  Block::add_products({here.changes, 1, Block::columns}, others,
                                      here.left_tile + begin * Block::padded(size), size, finite_k || !heads.hides(),
                                      sees, typename Block::Seen(others, sees),
                                      sums_of_queries + place * Block::padded(size));
                });
          });
    }
    write(here.sums, count, cpu::head_rows(dk, from, heads.kv_heads, kv_head, size));
    write(here.sums_of_values, count, cpu::head_rows(dv, from, heads.kv_heads, kv_head, value_size));
  }

  /// Turns the products q k of a row and a tile into weights, and the products dy v into the derivatives of the
  /// products q k. Both are 0 where the row does not see the other, or where that sees it not. Outside of what rows
  /// beside it see there are no products.
  template <class A, class LogSums, class Deltas>
  static void derive(const cpu::AttentionScores<A>& score, std::int64_t from, const AttentionRange& seen,
                     const AttentionRange& seen_beside, std::int64_t count, double scale, A* products,
                     A* products_of_values, const LogSums& of_all, const Deltas& delta) noexcept {
    using V = cpu::Vector<A>;
    constexpr std::int64_t lanes = cpu::lanes<A>;
    const V nothing(A{}), by(static_cast<A>(scale));
    for (std::int64_t k = 0; k < count; k += lanes) {
      V weight = nothing, change = nothing;
      if (k >= seen_beside.begin && k < seen_beside.end) {
        const auto [number, derivative] = score(cpu::load<A>(products + k), from - k);
        weight = cpu::exponential(number - of_all(k));
        change = weight * (cpu::load<A>(products_of_values + k) - delta(k)) * derivative * by;
        if (k < seen.begin || k + lanes > seen.end) {
          const auto is_seen = score.are_seen(k, seen);
          weight = xsimd::select(is_seen, weight, nothing);
          change = xsimd::select(is_seen, change, nothing);
        }
      }
      weight.store_unaligned(products + k);
      change.store_unaligned(products_of_values + k);
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
