// SPDX-License-Identifier: Apache-2.0
/// @file
/// The logarithm of sums of exponentials in bulk: the maxima and the sums of the softmax.
#pragma once

#include <lod/core/version.hpp>
#include <lod/kernels/bulk/bulk.hpp>
#include <lod/kernels/bulk/few.hpp>
#include <lod/kernels/bulk/leaves.hpp>
#include <lod/kernels/bulk/sequence_softmax.hpp>
#include <lod/ops/sequence_logsumexp.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk {

/// Computes the results of short sequences, which are read once.
template <class T, std::size_t count>
struct LogsumexpOfShort {
  using A = Accumulator<T>;

  const T* x;
  Segments sequences;
  std::int64_t row_size;
  T* y;

  template <class Lanes>
  LOD_HOST_DEVICE void operator()(std::int64_t i, std::int64_t column, const Lanes& lanes) const {
    constexpr auto side_by_side = static_cast<std::int64_t>(count);
    const std::int64_t rows = sequences.length(i);
    // There may be no rows at all, and x may be null.
    const T* const first = rows == 0 ? x : x + sequences.begin(i) * row_size + column * side_by_side;
    with_column<count>(lanes, first, rows, row_size, [&](const auto& all) {
      const auto shift = each([](A number) { return finite_shift(number); }, lanes.shared(all.maximum()));
      const auto sum =
          all.sum([&](std::int64_t, const auto& numbers) { return each(ShiftedExponential(), numbers, shift); });
      const auto result = [](A by, A total) { return static_cast<T>(by + std::log(total)); };
      if (lanes.is_first()) write_few(y + i * row_size + column * side_by_side, each(result, shift, sum));
    });
  }
};

template <std::size_t count, class E, class T>
void logsumexp_columns(const E& executor, const T* x, const Segments& sequences, std::int64_t row_size, T* y) {
  using A = Accumulator<T>;
  sum_exponentials<count>(
      executor, x, Leaves{sequences}, row_size, LogsumexpOfShort<T, count>{x, sequences, row_size, y},
      [=] LOD_HOST_DEVICE(std::int64_t, std::int64_t i, std::int64_t column,
                          const Few<ExponentialSum<A>, count>& totals) {
        const auto result = [](const ExponentialSum<A>& total) {
          return static_cast<T>(finite_shift(total.maximum) + std::log(total.sum));
        };
        write_few(y + i * row_size + column * static_cast<std::int64_t>(count), each(result, totals));
      });
}

template <>
struct Kernel<SequenceLogsumexp> {
  template <class E, class T>
  static void run(const E& executor, const T* x, const Segments& sequences, std::int64_t row_size, T* y) {
    const auto of_columns = [&]<std::size_t count>() { logsumexp_columns<count>(executor, x, sequences, row_size, y); };
    with_count(of_columns, row_size, x, y);
  }
};

template <>
struct Kernel<ScaleSequences> {
  template <class E, class T>
  static void run(const E& executor, const T* factors, const Segments& sequences, std::int64_t row_size, T* y) {
    using A = Accumulator<T>;
    const auto write = [=] LOD_HOST_DEVICE(std::int64_t i, std::int64_t row, std::int64_t column) {
      T& number = y[row * row_size + column];
      number = static_cast<T>(static_cast<A>(number) * static_cast<A>(factors[i * row_size + column]));
    };
    for_each_in_sequences(executor, sequences, row_size, write);
  }
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk
