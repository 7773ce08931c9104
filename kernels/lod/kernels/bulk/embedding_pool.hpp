// SPDX-License-Identifier: Apache-2.0
/// @file
/// Pooling of looked-up rows in bulk: numbers are read from the table in place.
#pragma once

#include <lod/core/version.hpp>
#include <lod/kernels/bulk/bulk.hpp>
#include <lod/kernels/bulk/few.hpp>
#include <lod/kernels/bulk/lane.hpp>
#include <lod/kernels/bulk/merge_rows.hpp>
#include <lod/kernels/bulk/row_filter.hpp>
#include <lod/kernels/bulk/row_sum.hpp>
#include <lod/kernels/bulk/sequence_pool.hpp>
#include <lod/ops/checked_ids.hpp>
#include <lod/ops/embedding_pool.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk {

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

/// The numbers of row ids[k] of the table in a column of `count` numbers.
template <class T, std::size_t count>
LOD_HOST_DEVICE Few<T, count> looked_up_numbers(const LookUp<T>& rows, std::int64_t k, std::int64_t column) {
  const std::int64_t id = rows.ids[k];
  Few<T, count> numbers{};
  if (id >= 0) {
    numbers = read_few<count>(rows.table + id * rows.row_size + column * static_cast<std::int64_t>(count));
  }
  if (rows.weights != nullptr) {
    for (T& number : numbers.number) number = weighed(number, rows.weights[k]);
  }
  return numbers;
}
/// A number of row ids[k] of the table, without its weight.
template <class T>
LOD_HOST_DEVICE T listed_number(const LookUp<T>& rows, std::int64_t k, std::int64_t column) {
  const std::int64_t id = rows.ids[k];
  return id < 0 ? T{} : rows.table[id * rows.row_size + column];
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

/// The numbers of a sequence's row in a column of `count` numbers.
template <class T, std::size_t count>
struct LookedUpNumbers {
  LookUp<T> rows;
  Segments sequences;

  template <class>
  LOD_HOST_DEVICE auto of_column(std::int64_t i, std::int64_t column) const {
    return [*this, first = sequences.begin(i), column](std::int64_t row) {
      return looked_up_numbers<T, count>(rows, first + row, column);
    };
  }
};

template <>
struct Kernel<EmbeddingPool> {
  template <class E, class T>
  static void run(const E& executor, const LookUp<T>& rows, const Segments& sequences, PoolType type, T pad_value,
                  T* y) {
    const std::int64_t row_size = rows.row_size;
    if (type == PoolType::FIRST || type == PoolType::LAST) {
      for_each_element(executor, sequences.size, row_size, [=] LOD_HOST_DEVICE(std::int64_t i, std::int64_t column) {
        const std::int64_t first = sequences.begin(i), length = sequences.length(i);
        const std::int64_t row = type == PoolType::FIRST ? first : first + length - 1;
        y[i * row_size + column] = length > 0 ? looked_up(rows, row, column) : pad_value;
      });
    } else {
      const auto of_columns = [&]<std::size_t count>() {
        reduce<count>(executor, rows, sequences, type, pad_value, y);
      };
      with_count(of_columns, row_size, rows.table, y);
    }
  }

 private:
  template <std::size_t count, class E, class T>
  static void reduce(const E& executor, const LookUp<T>& rows, const Segments& sequences, PoolType type, T pad_value,
                     T* y) {
    const std::int64_t row_size = rows.row_size;
    const LookedUpNumbers<T, count> numbers{rows, sequences};
    if (type == PoolType::MAX || type == PoolType::MIN) {
      find_winners<T, count>(executor, sequences, row_size, type == PoolType::MIN, numbers,
                             WriteWinners<T, count>{sequences, row_size, pad_value, y, nullptr});
    } else {
      pool_sums(executor, sequences, row_size, numbers,
                WritePooled<T, count>{sequences, row_size, type, true, pad_value, y});
    }
  }
};

template <>
struct Kernel<EmbeddingMaxPool> {
  template <class E, class T>
  static void run(const E& executor, const LookUp<T>& rows, const Segments& sequences, bool minimum, T pad_value, T* y,
                  std::int64_t* index) {
    const auto find = [&]<std::size_t count>() {
      find_winners<T, count>(executor, sequences, rows.row_size, minimum, LookedUpNumbers<T, count>{rows, sequences},
                             WriteWinners<T, count>{sequences, rows.row_size, pad_value, y, index});
    };
    with_count(find, rows.row_size, rows.table, y);
  }
};

template <>
struct Kernel<CountKept> {
  template <class E>
  static void run(const E& executor, const std::int64_t* ids, const Segments& sequences, std::int64_t padding_idx,
                  bool minus_one, std::int64_t* scratch, std::int64_t* offsets) {
    const PaddingIds padding{padding_idx, minus_one};
    RowFilter::count(
        executor, sequences, [=] LOD_HOST_DEVICE(std::int64_t k) { return !padding.contains(ids[k]); }, scratch,
        offsets);
  }
};

template <>
struct Kernel<KeepIds> {
  template <class E>
  static void run(const E& executor, const std::int64_t* ids, const Segments& sequences, const std::int64_t* scratch,
                  std::int64_t* kept, std::int64_t* rows, std::int64_t* places) {
    const std::int64_t count = sequences.rows();
    for_each(executor, count, [=] LOD_HOST_DEVICE(std::int64_t k) {
      const std::int64_t place = scratch[k];
      const bool left = scratch[k + 1] > place, is_rest = k >= scratch[count];
      if (places != nullptr) places[k] = left ? place : -1;
      if (left) kept[place] = ids[k];
      if (is_rest) kept[k] = -1;
      if (rows == nullptr) return;
      if (left) rows[place] = k;
      if (is_rest) rows[k] = -1;
    });
  }
};

template <>
struct Kernel<ListLookUps> {
  template <class E>
  static void run(const E& executor, const std::int64_t* ids, const std::int64_t* rows, const Segments& sequences,
                  PoolType type, std::int64_t height, std::int64_t* listed, std::int64_t* order,
                  std::int64_t* occurrences, std::int64_t* sequence, std::int64_t* fault) {
    for_each(executor, sequences.rows(), [=] LOD_HOST_DEVICE(std::int64_t k) {
      const std::int64_t i = sequence_of(sequences, k);
      order[k] = k;
      occurrences[k] = rows == nullptr ? k : rows[k];
      sequence[k] = i;
      listed[k] = height;
      if (i == sequences.size) return;
      const std::int64_t first = sequences.begin(i);
      const bool counts =
          (type != PoolType::FIRST || k == first) && (type != PoolType::LAST || k == first + sequences.length(i) - 1);
      const bool good = ids[k] >= 0 && ids[k] < height;
      if (!good) *fault = occurrences[k];
      if (counts && good) listed[k] = ids[k];
    });
  }
};

template <>
struct Kernel<SumLookUpGrads> {
  template <class E, class T>
  static void run(const E& executor, const LookUpGrad<T>& rows, const std::int64_t* order, const Segments& groups,
                  T* y) {
    using A = Accumulator<T>;
    const std::int64_t row_size = rows.row_size;
    sum_few<A, 1>(
        executor, groups, row_size,
        [=] LOD_HOST_DEVICE(std::int64_t group, std::int64_t row, std::int64_t column) {
          return Few<A, 1>{{static_cast<A>(look_up_grad(rows, order[groups.begin(group) + row], column))}};
        },
        WriteGroup<T, 1>{groups, PoolType::SUM, row_size, nullptr, y});
  }
};

template <>
struct Kernel<LookUpWeightsGrad> {
  template <class E, class T>
  static void run(const E& executor, const LookUp<T>& rows, const T* dy, const std::int64_t* winners,
                  const Segments& sequences, PoolType type, T* dweights) {
    using A = Accumulator<T>;
    for_each(executor, sequences.rows(), [=] LOD_HOST_DEVICE(std::int64_t k) {
      const std::int64_t i = sequence_of(sequences, k), row = k - sequences.begin(i), row_size = rows.row_size;
      if (i == sequences.size || (type == PoolType::FIRST && row > 0) ||
          (type == PoolType::LAST && row + 1 < sequences.length(i))) {
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

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk
