// SPDX-License-Identifier: Apache-2.0
/// @file
/// Pooling of looked-up rows on the CPU: the sums and extremes of sequences whose rows are read from the table in
/// place.
#pragma once

#include <lod/core/version.hpp>
#include <lod/kernels/cpu/caches.hpp>
#include <lod/kernels/cpu/elementwise.hpp>
#include <lod/kernels/cpu/embedding.hpp>
#include <lod/kernels/cpu/exact_sums.hpp>
#include <lod/kernels/cpu/launch.hpp>
#include <lod/kernels/cpu/merge_rows.hpp>
#include <lod/kernels/cpu/parallel.hpp>
#include <lod/kernels/cpu/pooled_sums.hpp>
#include <lod/kernels/cpu/row_filter.hpp>
#include <lod/kernels/cpu/row_mask.hpp>
#include <lod/kernels/cpu/row_sum.hpp>
#include <lod/kernels/cpu/rows.hpp>
#include <lod/kernels/cpu/sequence_pool.hpp>
#include <lod/kernels/cpu/sequence_sums.hpp>
#include <lod/kernels/cpu/vector.hpp>
#include <lod/ops/embedding_pool.hpp>

#include <array>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu {

/// y = x times a weight; y may be x.
template <class T>
inline void weigh(const T* x, T weight, std::int64_t row_size, T* y) {
  using A = Accumulator<T>;
  if (row_size >= lanes<T>) {
    combine(kernel::Multiply(), x, weight, row_size, y);
  } else {
    const auto factor = static_cast<A>(weight);
    for (std::int64_t i = 0; i < row_size; ++i) {
      y[i] = static_cast<T>(kernel::Multiply()(static_cast<A>(x[i]), factor));
    }
  }
}

/// The addresses of the rows that ids name.
template <class T>
struct LookedUpPlaces {
  const T* table;
  const std::int64_t* ids;
  std::int64_t row_size;

  void set_row_size(std::int64_t size) noexcept { row_size = size; }
  [[gnu::always_inline]] const T* operator()(std::int64_t k) const noexcept { return table + ids[k] * row_size; }
};
/// The rows of a sequence in place in the table, without their weights.
template <class T>
using LookedUpRows = ScatteredRows<T, LookedUpPlaces<T>>;

/// The same times their weights, one row at a time: the next call overwrites the row that the last one returned.
template <class T>
struct WeightedRows {
  LookedUpRows<T> rows;
  const T* weights;  // from the first row of the sequence on
  T* scratch;        // for one row

  const T* operator()(std::int64_t row) const noexcept {
    write(row, scratch);
    return scratch;
  }
  void write(std::int64_t row, T* to) const noexcept { weigh(rows(row), weights[row], rows.row_size, to); }
};

/// Rows of numbers of type T as terms of a sum.
template <class T, class Rows>
auto terms_of(const Rows& rows, std::int64_t row_size, Accumulator<T>* block) {
  const auto compute = [=](std::int64_t first, std::int64_t count, Accumulator<T>* to) {
    for (std::int64_t row = first; row < first + count; ++row, to += row_size) {
      if constexpr (std::same_as<T, Accumulator<T>>) {
        rows.write(row, to);
      } else {
        widen(rows(row), row_size, to);
      }
    }
  };
  return ComputedRows{compute, block};
}

/// The rows of the sequences.
template <class T>
class LookedUpSequences {
 public:
  LookedUpSequences(const CpuExecutor& executor, const LookUp<T>& rows, const Segments& sequences)
      : rows_(rows),
        sequences_(sequences),
        whereabouts_(whereabouts(lod::detail::bytes_of<T>(rows.height, rows.row_size))),
        scratch_(executor, rows.weights ? rows.row_size : 0) {}

  LookedUpRows<T> plain(std::int64_t i) const noexcept {
    const std::int64_t first = sequences_.begin(i);
    return {{rows_.table, rows_.ids + first, rows_.row_size}, sequences_.rows() - first, rows_.row_size, whereabouts_};
  }
  WeightedRows<T> weighted(std::int64_t i, int thread) const noexcept {
    return {plain(i), rows_.weights + sequences_.begin(i), scratch_(thread)};
  }

 private:
  LookUp<T> rows_;
  Segments sequences_;
  Whereabouts whereabouts_;
  ThreadScratch<T> scratch_;
};

/// The addresses of the gradients of a group's rows: `order` lists the group's positions among the occurrences.
template <class T>
struct LookedUpGradPlaces {
  LookUpGrad<T> grads;
  const std::int64_t* order;

  void set_row_size(std::int64_t size) noexcept { grads.row_size = size; }
  [[gnu::always_inline]] const T* operator()(std::int64_t k) const noexcept {
    return grads.dy + sequence(k) * grads.row_size;
  }
  std::int64_t occurrence(std::int64_t k) const noexcept { return grads.occurrences[order[k]]; }
  std::int64_t sequence(std::int64_t k) const noexcept { return grads.sequence[order[k]]; }
};
template <class T>
using LookedUpGrads = ScatteredRows<T, LookedUpGradPlaces<T>>;

/// The same, restricted to the columns in which the row won, times its weight.
template <class T>
struct PartialGrads {
  LookedUpGrads<T> rows;
  T* scratch;

  const T* operator()(std::int64_t row) const noexcept {
    write(row, scratch);
    return scratch;
  }
  void write(std::int64_t row, T* to) const noexcept {
    const LookUpGrad<T>& grads = rows.at.grads;
    const std::int64_t k = rows.at.occurrence(row);
    const T* const from = rows(row);
    if (grads.winners) {
      const std::int64_t* const winners = grads.winners + rows.at.sequence(row) * grads.row_size;
      for (std::int64_t i = 0; i < grads.row_size; ++i) to[i] = winners[i] == k ? from[i] : T{};
    }
    if (grads.weights) {
      weigh<T>(grads.winners ? to : from, grads.weights[k], grads.row_size, to);
    }
  }
};

/// Rows of one number are gathered before they are pooled: then many short sequences of them are pooled at a time.
template <class T>
void gather_scalars(const CpuExecutor& executor, const LookUp<T>& rows, std::int64_t count, T* found) {
  Kernel<GatherRows>::run(executor, rows.table, rows.ids, count, 1, std::int64_t{-1}, found);
  if (rows.weights) Kernel<Combine>::run(executor, kernel::Multiply(), found, rows.weights, count, found);
}

template <>
struct Kernel<EmbeddingPool> {
  template <class T>
  static void run(const CpuExecutor& executor, const LookUp<T>& rows, const Segments& sequences, PoolType type,
                  T pad_value, T* y) {
    using A = Accumulator<T>;
    const std::int64_t row_size = rows.row_size;
    if (row_size == 1 && type != PoolType::FIRST && type != PoolType::LAST) {
      const Workspace::Loan<T> found(executor.workspace(), sequences.rows());
      cpu::gather_scalars(executor, rows, sequences.rows(), found.data());
      cpu::Kernel<SequencePool>::run(executor, found.data(), sequences, 1, type, pad_value, y);
      return;
    }
    const cpu::LookedUpSequences<T> looked_up(executor, rows, sequences);
    if (type == PoolType::SUM || type == PoolType::AVERAGE || type == PoolType::SQRT) {
      const cpu::PooledSums<T> finish(type, sequences, row_size, pad_value, nullptr, y);
      if constexpr (divides_wide_sums<T>) {
        if (type != PoolType::SUM) {
          if (!rows.weights) {
            const auto plain = [&](std::int64_t i, int) { return looked_up.plain(i); };
            return cpu::sum_sequences_exactly<T>(executor, sequences, row_size, plain, finish);
          }
          const auto weighted = [&](std::int64_t i, int thread) { return looked_up.weighted(i, thread); };
          return cpu::sum_sequences_exactly<T>(executor, sequences, row_size, weighted, finish);
        }
      }
      if (rows.weights) {
        const cpu::ThreadScratch<A> blocks(executor, cpu::computed_scratch(row_size));
        const auto terms = [&](std::int64_t i, int thread) {
          return cpu::terms_of<T>(looked_up.weighted(i, thread), row_size, blocks(thread));
        };
        cpu::sum_sequences<A>(executor, sequences, row_size, terms, finish);
      } else {
        const auto plain = [&](std::int64_t i, int) { return looked_up.plain(i); };
        cpu::sum_sequences_by_vectors<T>(executor, sequences, row_size, plain, finish);
      }
      return;
    }
    const auto pool = [&](std::int64_t length, const auto& listed, T* out) {
      if (type == PoolType::MAX) {
        cpu::pool_extremes<false>(listed, length, row_size, out);
      } else if (type == PoolType::MIN) {
        cpu::pool_extremes<true>(listed, length, row_size, out);
      } else {
        cpu::copy(listed(type == PoolType::FIRST ? 0 : length - 1), row_size, out);
      }
    };
    const std::int64_t row_bytes = lod::detail::bytes_of<T>(row_size);
    cpu::parallel_sequences(executor, sequences, row_bytes, [&](std::int64_t begin, std::int64_t end, int thread) {
      for (std::int64_t i = begin; i < end; ++i) {
        T* const out = y + i * row_size;
        if (sequences.length(i) == 0) {
          cpu::fill(out, row_size, pad_value);
        } else if (rows.weights) {
          pool(sequences.length(i), looked_up.weighted(i, thread), out);
        } else {
          pool(sequences.length(i), looked_up.plain(i), out);
        }
      }
    });
  }
};

template <>
struct Kernel<EmbeddingMaxPool> {
  template <class T>
  static void run(const CpuExecutor& executor, const LookUp<T>& rows, const Segments& sequences, bool minimum,
                  T pad_value, T* y, std::int64_t* index) {
    const std::int64_t row_size = rows.row_size;
    if (row_size == 1) {
      const Workspace::Loan<T> found(executor.workspace(), sequences.rows());
      cpu::gather_scalars(executor, rows, sequences.rows(), found.data());
      cpu::Kernel<SequenceMaxPool>::run(executor, found.data(), sequences, 1, minimum, pad_value, y, index);
      return;
    }
    const cpu::LookedUpSequences<T> looked_up(executor, rows, sequences);
    const cpu::ThreadScratch<cpu::Place<T>> places(executor, row_size);
    const auto pool_extremes = [&]<bool least>(std::bool_constant<least>, std::int64_t i, const auto& listed,
                                               int thread) {
      const std::int64_t first = sequences.begin(i), length = sequences.length(i);
      T* const best = y + i * row_size;
      std::int64_t* const winners = index + i * row_size;
      if (length > cpu::most_places) {
        return cpu::pool_extremes<least>(listed, length, row_size, best,
                                         [=](std::int64_t column, std::int64_t row) { winners[column] = first + row; });
      }
      cpu::Place<T>* const place = places(thread);
      cpu::pool_extremes_and_places<least>(listed, length, row_size, best, place);
      for (std::int64_t column = 0; column < row_size; ++column) winners[column] = first + place[column];
    };
    const auto pool = [&](std::int64_t i, const auto& listed, int thread) {
      if (minimum) {
        pool_extremes(std::true_type(), i, listed, thread);
      } else {
        pool_extremes(std::false_type(), i, listed, thread);
      }
    };
    const std::int64_t row_bytes = lod::detail::bytes_of<T>(row_size);
    cpu::parallel_sequences(executor, sequences, row_bytes, [&](std::int64_t begin, std::int64_t end, int thread) {
      for (std::int64_t i = begin; i < end; ++i) {
        if (sequences.length(i) == 0) {
          cpu::fill(y + i * row_size, row_size, pad_value);
          cpu::fill<std::int64_t>(index + i * row_size, row_size, -1);
        } else if (rows.weights) {
          pool(i, looked_up.weighted(i, thread), thread);
        } else {
          pool(i, looked_up.plain(i), thread);
        }
      }
    });
  }
};

template <>
struct Kernel<CountKept> {
  static void run(const CpuExecutor& executor, const std::int64_t* ids, const Segments& sequences,
                  std::int64_t padding_idx, bool minus_one, std::int64_t* scratch, std::int64_t* offsets) {
    LOD_ASSERT(cpu::RowFilter::scratch(sequences.rows()) <= kept_scratch(sequences.rows()));
    const std::array<std::int64_t, 2> padding = {padding_idx >= 0 ? padding_idx : -1, -1};
    const std::size_t count = padding_idx >= 0 && minus_one ? 2 : 1;
    const auto left = [=](std::int64_t row, std::int64_t rows) {
      const std::uint64_t all = ~std::uint64_t{0} >> (cpu::mask_rows - rows);
      return all & ~cpu::rows_equal(ids + row, rows, std::span(padding.data(), count));
    };
    cpu::RowFilter::count(executor, sequences, static_cast<std::int64_t>(sizeof(std::int64_t)), left, scratch, offsets);
  }
};

template <>
struct Kernel<KeepIds> {
  static void run(const CpuExecutor& executor, const std::int64_t* ids, const Segments& sequences,
                  const std::int64_t* scratch, std::int64_t* kept, std::int64_t* rows, std::int64_t* places) {
    cpu::RowFilter::copy(executor, ids, sequences, scratch, kept);
    if (!rows && !places) return;
    cpu::RowFilter::for_each_word(executor, sequences, scratch,
                                  [=](std::int64_t first, std::int64_t count, std::uint64_t mask, std::int64_t place) {
                                    for (std::int64_t k = 0, to = place; places && k < count; ++k) {
                                      const auto left = static_cast<std::int64_t>(mask >> k & 1);
                                      places[first + k] = left == 1 ? to : -1;
                                      to += left;
                                    }
                                    for (; rows && mask != 0; mask &= mask - 1)
                                      rows[place++] = first + std::countr_zero(mask);
                                  });
  }
};

template <>
struct Kernel<SumLookUpGrads> {
  template <class T>
  static void run(const CpuExecutor& executor, const LookUpGrad<T>& rows, const std::int64_t* order,
                  const Segments& groups, T* y) {
    using A = Accumulator<T>;
    const std::int64_t row_size = rows.row_size, count = groups.rows();
    const auto finish = [=](std::int64_t group, const A* sums) {
      cpu::finish_sum(PoolType::SUM, groups.length(group), sums, row_size, y + group * row_size);
    };
    const auto whole = [=](std::int64_t group, int) {
      const std::int64_t first = groups.begin(group);
      return cpu::LookedUpGrads<T>{{rows, order + first}, count - first, row_size};
    };
    if (!rows.weights && !rows.winners) {
      cpu::sum_sequences<T>(executor, groups, row_size, whole, finish);
      return;
    }
    const cpu::ThreadScratch<T> scratch(executor, row_size);
    const cpu::ThreadScratch<A> blocks(executor, cpu::computed_scratch(row_size));
    const auto terms = [&](std::int64_t group, int thread) {
      const cpu::PartialGrads<T> partial{whole(group, thread), scratch(thread)};
      return cpu::terms_of<T>(partial, row_size, blocks(thread));
    };
    cpu::sum_sequences<A>(executor, groups, row_size, terms, finish);
  }
};

template <>
struct Kernel<LookUpWeightsGrad> {
  template <class T>
  static void run(const CpuExecutor& executor, const LookUp<T>& rows, const T* dy, const std::int64_t* winners,
                  const Segments& sequences, PoolType type, T* dweights) {
    using A = Accumulator<T>;
    const std::int64_t row_size = rows.row_size;
    const cpu::LookedUpSequences<T> looked_up(executor, rows, sequences);
    const cpu::ThreadScratch<A> blocks(executor, cpu::computed_scratch(1));
    const cpu::ThreadScratch<A> sums(executor, cpu::sum_scratch(1));
    const auto product = [&](std::int64_t i, std::int64_t k, const T* row, int thread) {
      const auto compute = [=](std::int64_t first, std::int64_t count, A* to) {
        const T* const gradient = dy + i * row_size;
        for (std::int64_t c = first; c < first + count; ++c) {
          const bool counts = !winners || winners[i * row_size + c] == k;
          to[c - first] = counts ? static_cast<A>(row[c]) * static_cast<A>(gradient[c]) : A{};
        }
      };
      return *cpu::sum_rows<A>(cpu::ComputedRows{compute, blocks(thread)}, row_size, 1, sums(thread));
    };
    const std::int64_t row_bytes = lod::detail::bytes_of<T>(2, row_size);
    cpu::parallel_rows(
        executor, sequences, row_bytes,
        [&](std::int64_t i, std::int64_t begin, std::int64_t end, std::int64_t, int thread) {
          const std::int64_t first = sequences.begin(i), last = sequences.length(i) - 1;
          const cpu::LookedUpRows<T> listed = looked_up.plain(i);
          for (std::int64_t row = begin; row < end; ++row) {
            const bool counts = (type != PoolType::FIRST || row == 0) && (type != PoolType::LAST || row == last);
            dweights[first + row] = counts ? static_cast<T>(product(i, first + row, listed(row), thread)) : T{};
          }
        });
  }
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu
