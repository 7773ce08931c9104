// SPDX-License-Identifier: Apache-2.0
/// @file
/// Pooling of looked-up rows over Thrust: numbers are read where the table has them.
#pragma once

#include <lod/kernels/thrust/bulk.hpp>
#include <lod/kernels/thrust/lane.hpp>
#include <lod/kernels/thrust/merge_rows.hpp>
#include <lod/kernels/thrust/row_sum.hpp>
#include <lod/kernels/thrust/sequence_pool.hpp>
#include <lod/ops/embedding_pool.hpp>
#include <lod/thrust_executor.hpp>

#include <concepts>
#include <cstdint>

namespace lod::inline LOD_TARGET {
namespace kernel {

namespace bulk {

/// x times a weight, rounded to T; integers wrap around.
template <class T>
LOD_HOST_DEVICE T weighed(T x, T weight) {
  using A = Accumulator<T>;
  if constexpr (std::integral<T>) {
    return static_cast<T>(static_cast<std::uint64_t>(x) * static_cast<std::uint64_t>(weight));
  } else {
    return static_cast<T>(product(static_cast<A>(x), static_cast<A>(weight)));
  }
}

/// A number of the table's row that row k names, without its weight.
template <class T>
LOD_HOST_DEVICE T listed_number(const LookUp<T>& rows, std::int64_t k, std::int64_t column) {
  const std::int64_t id = rows.ids[k];
  return id < 0 || id == rows.skipped ? T{} : rows.table[id * rows.row_size + column];
}
/// The same times the weight, if there are weights.
template <class T>
LOD_HOST_DEVICE T looked_up(const LookUp<T>& rows, std::int64_t k, std::int64_t column) {
  const T number = listed_number(rows, k, column);
  return rows.weights != nullptr ? weighed(number, rows.weights[k]) : number;
}

/// Column `column` of gradient number j.
template <class T>
LOD_HOST_DEVICE T look_up_grad(const LookUpGrad<T>& rows, std::int64_t j, std::int64_t column) {
  const std::int64_t k = rows.occurrences[j], at = rows.sequence[j] * rows.row_size + column;
  const T number = rows.winners == nullptr || rows.winners[at] == k ? rows.dy[at] : T{};
  return rows.weights != nullptr ? weighed(number, rows.weights[k]) : number;
}

/// The row, of `length` rows from `first` on, that wins column `column`, and its number.
template <class T>
struct LookedUpWinner {
  std::int64_t row;
  T number;
};
template <class T>
LOD_HOST_DEVICE LookedUpWinner<T> looked_up_winner(bool minimum, const LookUp<T>& rows, std::int64_t first,
                                                   std::int64_t length, std::int64_t column) {
  LookedUpWinner<T> best{first, looked_up(rows, first, column)};
  for (std::int64_t k = first + 1; k < first + length; ++k) {
    const T candidate = looked_up(rows, k, column);
    if (wins(minimum, candidate, best.number)) best = {k, candidate};
  }
  return best;
}

struct EmbeddingPool {
  template <class E, class T>
  static void run(const E& executor, const LookUp<T>& rows, const Segments& sequences, PoolType type, T pad_value,
                  T* y) {
    using A = Accumulator<T>;
    const std::int64_t row_size = rows.row_size;
    if (type == PoolType::SUM || type == PoolType::AVERAGE || type == PoolType::SQRT) {
      sum_sequences<A>(
          executor, sequences, sequences.rows(), row_size,
          [=] LOD_HOST_DEVICE(std::int64_t i, std::int64_t row, std::int64_t column) {
            return static_cast<A>(looked_up(rows, sequences.begin(i) + row, column));
          },
          [=] LOD_HOST_DEVICE(std::int64_t i, std::int64_t column, A sum) {
            const std::int64_t length = sequences.length(i);
            const PoolType by = length == 1 ? PoolType::SUM : type;
            y[i * row_size + column] = length > 0 ? pooled<T>(by, length, sum) : pad_value;
          });
      return;
    }
    for_each(executor, sequences.size * row_size, [=] LOD_HOST_DEVICE(std::int64_t at) {
      const std::int64_t i = at / row_size, column = at % row_size;
      const std::int64_t first = sequences.begin(i), length = sequences.length(i);
      if (length == 0) {
        y[at] = pad_value;
      } else if (type == PoolType::FIRST || type == PoolType::LAST) {
        y[at] = looked_up(rows, type == PoolType::FIRST ? first : first + length - 1, column);
      } else {
        y[at] = looked_up_winner(type == PoolType::MIN, rows, first, length, column).number;
      }
    });
  }
};

struct EmbeddingMaxPool {
  template <class E, class T>
  static void run(const E& executor, const LookUp<T>& rows, const Segments& sequences, bool minimum, T pad_value, T* y,
                  std::int64_t* index) {
    const std::int64_t row_size = rows.row_size;
    for_each(executor, sequences.size * row_size, [=] LOD_HOST_DEVICE(std::int64_t at) {
      const std::int64_t i = at / row_size, length = sequences.length(i);
      if (length == 0) {
        y[at] = pad_value;
        index[at] = -1;
      } else {
        const LookedUpWinner<T> best = looked_up_winner(minimum, rows, sequences.begin(i), length, at % row_size);
        y[at] = best.number;
        index[at] = best.row;
      }
    });
  }
};

struct ListLookUps {
  template <class E>
  static void run(const E& executor, const std::int64_t* ids, const Segments& sequences, PoolType type,
                  std::int64_t* listed, std::int64_t* occurrences, std::int64_t* sequence) {
    for_each(executor, sequences.rows(), [=] LOD_HOST_DEVICE(std::int64_t k) {
      const std::int64_t i = sequence_of(sequences, k), first = sequences.begin(i);
      const bool counts =
          (type != PoolType::FIRST || k == first) && (type != PoolType::LAST || k == first + sequences.length(i) - 1);
      listed[k] = counts && ids[k] >= 0 ? ids[k] : no_row;
      occurrences[k] = k;
      sequence[k] = i;
    });
  }
};

struct SumLookUpGrads {
  template <class E, class T>
  static void run(const E& executor, const LookUpGrad<T>& rows, const std::int64_t* order, const Segments& groups,
                  T* y) {
    using A = Accumulator<T>;
    const std::int64_t row_size = rows.row_size;
    const bool whole = rows.weights == nullptr && rows.winners == nullptr;
    sum_sequences<A>(
        executor, groups, groups.rows(), row_size,
        [=] LOD_HOST_DEVICE(std::int64_t group, std::int64_t row, std::int64_t column) {
          return static_cast<A>(look_up_grad(rows, order[groups.begin(group) + row], column));
        },
        [=] LOD_HOST_DEVICE(std::int64_t group, std::int64_t column, A sum) {
          // A whole row that is alone is its own sum, in which a -0 stays.
          const bool alone = whole && groups.length(group) == 1;
          y[group * row_size + column] =
              alone ? look_up_grad(rows, order[groups.begin(group)], column) : static_cast<T>(sum);
        });
  }
};

struct LookUpWeightsGrad {
  template <class E, class T>
  static void run(const E& executor, const LookUp<T>& rows, const T* dy, const std::int64_t* winners,
                  const Segments& sequences, PoolType type, T* dweights) {
    using A = Accumulator<T>;
    for_each(executor, sequences.rows(), [=] LOD_HOST_DEVICE(std::int64_t k) {
      const std::int64_t i = sequence_of(sequences, k), row = k - sequences.begin(i), row_size = rows.row_size;
      if ((type == PoolType::FIRST && row > 0) || (type == PoolType::LAST && row + 1 < sequences.length(i))) {
        dweights[k] = T{};
        return;
      }
      const auto term = [&](std::int64_t column) {
        const std::int64_t at = i * row_size + column;
        if (winners != nullptr && winners[at] != k) return A{};
        return weighed(static_cast<A>(listed_number(rows, k, column)), static_cast<A>(dy[at]));
      };
      const auto leaf = [&](std::int64_t number) {
        const std::int64_t first = number * leaf_rows;
        return sum_leaf<A>(term, first, least(row_size - first, leaf_rows), true);
      };
      dweights[k] = static_cast<T>(join_leaves<A>(leaf, row_size, 1));
    });
  }
};

}  // namespace bulk

template <class Policy>
struct EmbeddingPool<ThrustExecutor<Policy>> : bulk::EmbeddingPool {};
template <class Policy>
struct EmbeddingMaxPool<ThrustExecutor<Policy>> : bulk::EmbeddingMaxPool {};
template <class Policy>
struct SumLookUpGrads<ThrustExecutor<Policy>> : bulk::SumLookUpGrads {};
template <class Policy>
struct LookUpWeightsGrad<ThrustExecutor<Policy>> : bulk::LookUpWeightsGrad {};

}  // namespace kernel
}  // namespace lod::inline LOD_TARGET
