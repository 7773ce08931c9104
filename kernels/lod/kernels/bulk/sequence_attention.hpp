// SPDX-License-Identifier: Apache-2.0
/// @file
/// Attention in bulk: a warp for each row and head. Its lanes share the rows of a tile for the scores, then the numbers
/// of the head for the sums.
#pragma once

#include <lod/core/version.hpp>
#include <lod/kernels/bulk/bulk.hpp>
#include <lod/kernels/bulk/lanes.hpp>
#include <lod/kernels/bulk/path_scores.hpp>
#include <lod/ops/sequence_attention.hpp>
#include <lod/ops/staging.hpp>

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk {

/// The rows that are weighed at a time.
inline constexpr std::int64_t attention_tile = 32;

/// A row of a sequence, and one of its heads.
struct AttentionPlace {
  std::int64_t head, sequence, row;  ///< the row counts from the start of the sequence

  LOD_HOST_DEVICE AttentionPlace(const Segments& sequences, std::int64_t heads, std::int64_t index)
      : head(index % heads),
        sequence(sequence_of(sequences, index / heads)),
        row(index / heads - sequences.begin(sequence)) {}
};

/// The products, scores and weights of a row of q and one of k.
template <class T>
struct AttentionPair {
  using A = Accumulator<T>;

  AttentionHeads heads;
  AttentionRows<T> rows;

  LOD_HOST_DEVICE static A product(const T* a, const T* b, std::int64_t size) {
    A sum{};
    for (std::int64_t c = 0; c < size; ++c) sum += static_cast<A>(a[c]) * static_cast<A>(b[c]);
    return sum;
  }
  LOD_HOST_DEVICE const T* q(std::int64_t row, std::int64_t head) const {
    return rows.q + (row * heads.heads + head) * heads.size;
  }
  LOD_HOST_DEVICE const T* k(std::int64_t row, std::int64_t head) const {
    return rows.k + (row * heads.kv_heads + head) * heads.size;
  }
  LOD_HOST_DEVICE const T* v(std::int64_t row, std::int64_t head) const {
    return rows.v + (row * heads.kv_heads + head) * heads.value_size;
  }
  /// A score, and its derivative by the product.
  struct Score {
    A score, derivative;
  };
  /// Of rows of the whole batch; `distance` is that of their places.
  LOD_HOST_DEVICE Score operator()(std::int64_t query, std::int64_t key, std::int64_t head,
                                   std::int64_t distance) const {
    const A scale = static_cast<A>(heads.scale), cap = static_cast<A>(heads.softcap);
    A score = product(q(query, head), k(key, heads.kv_head(head)), heads.size) * scale, derivative = scale;
    if (heads.softcap > 0) {
      const A part = std::tanh(score / cap);
      score = part * cap;
      derivative *= A{1} - part * part;
    }
    if (rows.alibi) score -= static_cast<A>(rows.alibi[head]) * static_cast<A>(distance < 0 ? -distance : distance);
    return {score, derivative};
  }
};

/// Writes y and logsumexp of a row and head.
template <class T>
struct AttentionOfRow {
  using A = Accumulator<T>;

  AttentionPair<T> pair;
  A* weights;  ///< of a tile, for each row and head
  A* sums;     ///< as y, which they may be
  T* y;
  A* logsumexp;

  template <class Lanes>
  LOD_HOST_DEVICE void operator()(std::int64_t index, const Lanes& lanes) const {
    const AttentionHeads& heads = pair.heads;
    const AttentionRows<T>& rows = pair.rows;
    const AttentionPlace at(rows.queries, heads.heads, index);
    const std::int64_t queries = rows.queries.length(at.sequence), keys = rows.keys.length(at.sequence);
    const std::int64_t value_size = heads.value_size, key_row = rows.keys.begin(at.sequence);
    const std::int64_t query = index / heads.heads, kv_head = heads.kv_head(at.head);
    const AttentionRange seen = heads.keys_of(at.row, queries, keys);
    A* const own = weights + index * attention_tile;
    A* const sum = sums + index * value_size;
    const GreaterScore greater;
    const A nothing = no_path<A>, zero{};
    A best = nothing, total{};
    lanes.template for_each_row<0>(value_size, [&](std::int64_t c, int) { sum[c] = A{}; });
    for (std::int64_t first = seen.begin; first < seen.end; first += attention_tile) {
      const std::int64_t count = seen.end - first < attention_tile ? seen.end - first : attention_tile;
      const auto score = [&](A& most, std::int64_t k, int) {
        const std::int64_t key = first + k;
        own[k] = pair(query, key_row + key, at.head, at.row + keys - queries - key).score;
        most = greater(most, own[k]);
      };
      const A most = greater(best, lanes.shared(lanes.template fold_rows<0>(count, nothing, score, greater)));
      const A shift = most == nothing ? A{} : most;
      const auto weigh = [&](A& all, std::int64_t k, int) {
        own[k] = std::exp(own[k] - shift);
        all += own[k];
      };
      const A here = lanes.shared(lanes.template fold_rows<0>(count, zero, weigh, [](A a, A b) { return a + b; }));
      const A factor = std::exp(best - shift);
      total = total * factor + here;
      best = most;
      lanes.meet();  // all weights are written
      lanes.template for_each_row<0>(value_size, [&](std::int64_t c, int) {
        A all = sum[c] * factor;
        for (std::int64_t k = 0; k < count; ++k) {
          all += own[k] * static_cast<A>(pair.v(key_row + first + k, kv_head)[c]);
        }
        sum[c] = all;
      });
      lanes.meet();  // all weights are read
    }
    lanes.template for_each_row<0>(value_size, [&](std::int64_t c, int) {
      y[index * value_size + c] = static_cast<T>(total == A{} ? A{} : sum[c] / total);
    });
    if (lanes.is_first()) logsumexp[index] = total == A{} ? nothing : best + std::log(total);
  }
};

/// Memory of type A for what is summed up in the place of `y`: that itself, if it has this type.
template <class E, class T>
class SumsFor {
  using A = Accumulator<T>;

 public:
  SumsFor(const E& executor, T* y, std::int64_t count)
      : scratch_(executor, std::same_as<T, A> ? 0 : count), sums_(scratch_.data()) {
    if constexpr (std::same_as<T, A>) sums_ = y;
  }
  A* data() const noexcept { return sums_; }

 private:
  Scratch<E, A> scratch_;
  A* sums_;
};

template <>
struct Kernel<SequenceAttention> {
  template <class E, class T>
  static void run(const E& executor, const AttentionHeads& heads, const AttentionRows<T>& rows, T* y,
                  Accumulator<T>* logsumexp) {
    const std::int64_t count = rows.queries.rows() * heads.heads;
    const Scratch<E, Accumulator<T>> weights(executor, lod::detail::saturated_product(count, attention_tile));
    const SumsFor<E, T> sums(executor, y, count * heads.value_size);
    for_each_by_warps(executor, count, AttentionOfRow<T>{{heads, rows}, weights.data(), sums.data(), y, logsumexp});
  }
};

/// What both gradients of a pair are made from.
template <class T>
struct AttentionGradients {
  using A = Accumulator<T>;

  AttentionPair<T> pair;
  AttentionResults<T> results;
  A* deltas;  ///< for each row and head of q, the mean of the gradient of its weights

  LOD_HOST_DEVICE const T* dy(std::int64_t row, std::int64_t head) const {
    return results.dy + (row * pair.heads.heads + head) * pair.heads.value_size;
  }
  /// The weight of a pair, and the derivative of the result by its product.
  struct Change {
    A weight, by_product;
  };
  LOD_HOST_DEVICE Change operator()(std::int64_t query, std::int64_t key, std::int64_t head, std::int64_t distance,
                                    A delta) const {
    const auto [score, derivative] = pair(query, key, head, distance);
    const A weight = std::exp(score - results.logsumexp[query * pair.heads.heads + head]);
    const A of_weight =
        AttentionPair<T>::product(dy(query, head), pair.v(key, pair.heads.kv_head(head)), pair.heads.value_size);
    return {weight, weight * (of_weight - delta) * derivative};
  }
};
/// Writes dq of a row and head, and its delta.
template <class T>
struct AttentionGradOfQuery {
  using A = Accumulator<T>;

  AttentionGradients<T> gradients;
  A* changes;  ///< of a tile, for each row and head
  A* sums;     ///< as dq, which they may be
  T* dq;

  template <class Lanes>
  LOD_HOST_DEVICE void operator()(std::int64_t index, const Lanes& lanes) const {
    const AttentionHeads& heads = gradients.pair.heads;
    const AttentionRows<T>& rows = gradients.pair.rows;
    const AttentionPlace at(rows.queries, heads.heads, index);
    const std::int64_t queries = rows.queries.length(at.sequence), keys = rows.keys.length(at.sequence);
    const std::int64_t size = heads.size, key_row = rows.keys.begin(at.sequence), query = index / heads.heads;
    const AttentionRange seen = heads.keys_of(at.row, queries, keys);
    const T* const dy = gradients.dy(query, at.head);
    const T* const y = gradients.results.y + index * heads.value_size;
    const A zero{};
    const auto add = [&](A& all, std::int64_t c, int) { all += static_cast<A>(dy[c]) * static_cast<A>(y[c]); };
    const A delta =
        lanes.shared(lanes.template fold_rows<0>(heads.value_size, zero, add, [](A a, A b) { return a + b; }));
    if (lanes.is_first()) gradients.deltas[index] = delta;
    A* const own = changes + index * attention_tile;
    A* const sum = sums + index * size;
    lanes.template for_each_row<0>(size, [&](std::int64_t c, int) { sum[c] = A{}; });
    for (std::int64_t first = seen.begin; first < seen.end; first += attention_tile) {
      const std::int64_t count = seen.end - first < attention_tile ? seen.end - first : attention_tile;
      lanes.template for_each_row<0>(count, [&](std::int64_t k, int) {
        const std::int64_t key = first + k, distance = at.row + keys - queries - key;
        own[k] = gradients(query, key_row + key, at.head, distance, delta).by_product;
      });
      lanes.meet();
      lanes.template for_each_row<0>(size, [&](std::int64_t c, int) {
        A all = sum[c];
        for (std::int64_t k = 0; k < count; ++k) {
          all += own[k] * static_cast<A>(gradients.pair.k(key_row + first + k, heads.kv_head(at.head))[c]);
        }
        sum[c] = all;
      });
      lanes.meet();
    }
    lanes.template for_each_row<0>(size, [&](std::int64_t c, int) { dq[index * size + c] = static_cast<T>(sum[c]); });
  }
};
/// Writes dk and dv of a row and head.
template <class T>
struct AttentionGradOfKey {
  using A = Accumulator<T>;

  AttentionGradients<T> gradients;
  A* changes;  ///< two of a tile, for each row and head
  A* sums;     ///< as dk, which they may be
  A* sums_of_values;
  T* dk;
  T* dv;

  template <class Lanes>
  LOD_HOST_DEVICE void operator()(std::int64_t index, const Lanes& lanes) const {
    const AttentionHeads& heads = gradients.pair.heads;
    const AttentionRows<T>& rows = gradients.pair.rows;
    const AttentionPlace at(rows.keys, heads.kv_heads, index);
    const std::int64_t queries = rows.queries.length(at.sequence), keys = rows.keys.length(at.sequence);
    const std::int64_t size = heads.size, value_size = heads.value_size, query_row = rows.queries.begin(at.sequence);
    const AttentionRange seen = heads.queries_of(at.row, queries, keys);
    A* const by_product = changes + index * 2 * attention_tile;
    A* const weights = by_product + attention_tile;
    A* const sum = sums + index * size;
    A* const sum_of_values = sums_of_values + index * value_size;
    lanes.template for_each_row<0>(size, [&](std::int64_t c, int) { sum[c] = A{}; });
    lanes.template for_each_row<0>(value_size, [&](std::int64_t c, int) { sum_of_values[c] = A{}; });
    const std::int64_t group = heads.heads / heads.kv_heads;
    for (std::int64_t head = at.head * group; head < (at.head + 1) * group; ++head) {
      for (std::int64_t first = seen.begin; first < seen.end; first += attention_tile) {
        const std::int64_t count = seen.end - first < attention_tile ? seen.end - first : attention_tile;
        lanes.template for_each_row<0>(count, [&](std::int64_t k, int) {
          const std::int64_t query = query_row + first + k, distance = first + k + keys - queries - at.row;
          const auto change =
              gradients(query, index / heads.kv_heads, head, distance, gradients.deltas[query * heads.heads + head]);
          by_product[k] = change.by_product;
          weights[k] = change.weight;
        });
        lanes.meet();
        lanes.template for_each_row<0>(size, [&](std::int64_t c, int) {
          A all = sum[c];
          for (std::int64_t k = 0; k < count; ++k) {
            all += by_product[k] * static_cast<A>(gradients.pair.q(query_row + first + k, head)[c]);
          }
          sum[c] = all;
        });
        lanes.template for_each_row<0>(value_size, [&](std::int64_t c, int) {
          A all = sum_of_values[c];
          for (std::int64_t k = 0; k < count; ++k) {
            all += weights[k] * static_cast<A>(gradients.dy(query_row + first + k, head)[c]);
          }
          sum_of_values[c] = all;
        });
        lanes.meet();
      }
    }
    lanes.template for_each_row<0>(size, [&](std::int64_t c, int) { dk[index * size + c] = static_cast<T>(sum[c]); });
    lanes.template for_each_row<0>(
        value_size, [&](std::int64_t c, int) { dv[index * value_size + c] = static_cast<T>(sum_of_values[c]); });
  }
};

template <>
struct Kernel<SequenceAttentionGrad> {
  template <class E, class T>
  static void run(const E& executor, const AttentionHeads& heads, const AttentionRows<T>& rows,
                  const AttentionResults<T>& results, T* dq, T* dk, T* dv) {
    using A = Accumulator<T>;
    const std::int64_t queries = rows.queries.rows() * heads.heads, keys = rows.keys.rows() * heads.kv_heads;
    const Scratch<E, A> deltas(executor, queries);
    const Scratch<E, A> changes(executor, lod::detail::saturated_product(std::max(queries, 2 * keys), attention_tile));
    const SumsFor<E, T> sums_q(executor, dq, queries * heads.size), sums_k(executor, dk, keys * heads.size);
    const SumsFor<E, T> sums_v(executor, dv, keys * heads.value_size);
    const AttentionGradients<T> gradients{{heads, rows}, results, deltas.data()};
    for_each_by_warps(executor, queries, AttentionGradOfQuery<T>{gradients, changes.data(), sums_q.data(), dq});
    for_each_by_warps(executor, keys,
                      AttentionGradOfKey<T>{gradients, changes.data(), sums_k.data(), sums_v.data(), dk, dv});
  }
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk
