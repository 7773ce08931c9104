// SPDX-License-Identifier: Apache-2.0
/// @file
/// The logarithm of sums of exponentials on the CPU: the maxima and the sums of the softmax.
#pragma once

#include <lod/core/version.hpp>
#include <lod/kernels/cpu/column_numbers.hpp>
#include <lod/kernels/cpu/exponential.hpp>
#include <lod/kernels/cpu/launch.hpp>
#include <lod/kernels/cpu/narrow_exponentials.hpp>
#include <lod/kernels/cpu/parallel.hpp>
#include <lod/kernels/cpu/row_sum.hpp>
#include <lod/kernels/cpu/rows.hpp>
#include <lod/kernels/cpu/softmax_terms.hpp>
#include <lod/kernels/cpu/vector.hpp>
#include <lod/ops/sequence_logsumexp.hpp>

#include <algorithm>
#include <cstdint>
#include <limits>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu {

/// What is subtracted from a column: its maximum, if that is finite. Otherwise the exponentials are 0 or infinite, and
/// so is their sum.
template <class A>
inline xsimd::batch<A> logsumexp_shift(const xsimd::batch<A>& maximum) noexcept {
  using V = xsimd::batch<A>;
  return xsimd::select(xsimd::abs(maximum) <= V(std::numeric_limits<A>::max()), maximum, V(A{}));
}

/// See `NarrowExponentials`.
template <class T>
class NarrowLogsumexp : public NarrowExponentials<T> {
  using Base = NarrowExponentials<T>;
  using Base::others_, Base::row_size_, Base::shifts_, Base::sums_;
  using typename Base::A;

 public:
  using Base::Base;

  /// The rows of y for the sequences of a block. `readable` numbers may be read from x on.
  void run(const T* x, const Segments& block, std::int64_t readable, T* y) const noexcept {
    this->maxima(x, block, readable);
    this->subtract_shifts(x, block, readable,
                          [](const Vector<A>& greatest, const Vector<A>&) { return logsumexp_shift<A>(greatest); });
    this->exponentials(block.rows() * row_size_, others_);
    this->sum(block, others_, A{});
    transform(shifts_, sums_, block.size * row_size_, y,
              [](const Vector<A>& shift, const Vector<A>& all) { return shift + logarithm(all); });
  }
};

template <>
struct Kernel<SequenceLogsumexp> {
  template <class T>
  static void run(const CpuExecutor& executor, const T* x, const Segments& sequences, std::int64_t row_size, T* y) {
    using A = Accumulator<T>;
    if (sequences.size == 0 || row_size == 0) return;
    if (sequences.have_a_row_each()) {
      const auto one = [](const cpu::Vector<A>& number) {
        const cpu::Vector<A> shift = cpu::logsumexp_shift<A>(number);
        return shift + cpu::logarithm(cpu::exponential(number - shift));
      };
      return cpu::parallel_ranges(executor, sequences.size * row_size,
                                  lod::detail::bytes_of<T>(2, sequences.size, row_size),
                                  [&](std::int64_t begin, std::int64_t end) {
                                    const FloatingPointControl flushing(FloatingPointControl::flushing);
                                    cpu::transform(x + begin, end - begin, y + begin, one);
                                  });
    }
    const std::int64_t row_bytes = lod::detail::bytes_of<T>(row_size);
    const std::int64_t step = chunk_rows(row_size);
    const cpu::ThreadScratch<A> columns(executor, cpu::ColumnNumbers<A>::scratch(row_size));
    const cpu::ThreadScratch<A> sums(executor, cpu::sum_scratch(row_size));
    const cpu::ThreadScratch<A> blocks(executor, cpu::computed_scratch(row_size) + cpu::lanes<A>);
    const bool narrow = row_size <= narrow_row_size;
    const cpu::ThreadScratch<A> narrow_blocks(executor, narrow ? cpu::NarrowLogsumexp<T>::scratch() : 0);
    cpu::LongSequences long_ones(executor, sequences, cpu::longest_alone(executor, sequences, row_bytes, step));
    const bool any_long = long_ones.longest() > 0;
    const Workspace::Loan<A> partial(executor.workspace(),
                                     any_long ? cpu::shared_sum_scratch(long_ones.longest(), row_size) : 0);
    const Workspace::Loan<A> chunk_maxima(executor.workspace(),
                                          cpu::shared_maxima_scratch(long_ones.longest(), row_size));
    const auto terms = [row_size](const T* first, std::int64_t readable, const cpu::ColumnNumbers<A>& shift, A* block) {
      const auto compute = [=](std::int64_t row, std::int64_t count, A* to) {
        const T* const from = first + row * row_size;
        const std::int64_t room = readable - row * row_size;
        cpu::for_each_vector<T>(count, row_size, [=](std::int64_t i, std::int64_t some, std::int64_t column) {
          cpu::exponential(cpu::load_vector(from + i, some, A{}, room - i) - shift(column)).store_unaligned(to + i);
        });
      };
      return cpu::ComputedRows{compute, block};
    };
    const auto set_shift = [](const cpu::ColumnNumbers<A>& shift, const A* maxima) {
      shift.set(maxima, [](const cpu::Vector<A>& maximum, std::int64_t) { return cpu::logsumexp_shift<A>(maximum); });
    };
    const auto write = [&](int thread, const A* sum, T* to) {
      cpu::transform(columns(thread), sum, row_size, to, [](const cpu::Vector<A>& shift, const cpu::Vector<A>& all) {
        return shift + cpu::logarithm(all);
      });
    };
    cpu::parallel_sequences(executor, sequences, row_bytes, [&](std::int64_t begin, std::int64_t end, int thread) {
      const FloatingPointControl flushing(FloatingPointControl::flushing);
      const cpu::ColumnNumbers<A> shift(columns(thread), row_size);
      A* const sum = sums(thread);
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t rows = sequences.length(i), before = sequences.begin(i) * row_size;
        const std::int64_t readable = sequences.rows() * row_size - before;
        if (narrow) {
          const cpu::NarrowLogsumexp<T> block(narrow_blocks(thread), row_size);
          const std::int64_t last = block.block_end(sequences, i, end);
          if (last > i) {
            block.run(x + before, {sequences.offsets + i, last - i, leaf_rows}, readable, y + i * row_size);
            i = last - 1;
            continue;
          }
        }
        if (long_ones.note(i, rows)) continue;
        set_shift(shift, cpu::column_maxima(x + before, rows, row_size, sum));
        write(thread, cpu::sum_rows<A>(terms(x + before, readable, shift, blocks(thread)), rows, row_size, sum),
              y + i * row_size);
      }
    });
    const cpu::ColumnNumbers<A> shift(columns(0), row_size);
    long_ones.for_each([&](std::int64_t i) {
      const std::int64_t rows = sequences.length(i);
      const T* const from = x + sequences.begin(i) * row_size;
      set_shift(shift, cpu::column_maxima(executor, from, rows, row_size, rows * row_bytes, chunk_maxima, sums(0)));
      cpu::sum_rows<A>(
          executor, [&](int thread) { return terms(from, rows * row_size, shift, blocks(thread)); }, rows, row_size,
          rows * row_bytes, partial, sums(0));
      const FloatingPointControl flushing(FloatingPointControl::flushing);
      write(0, sums(0), y + i * row_size);
    });
  }
};

template <>
struct Kernel<ScaleSequences> {
  template <class T>
  static void run(const CpuExecutor& executor, const T* factors, const Segments& sequences, std::int64_t row_size,
                  T* y) {
    using A = Accumulator<T>;
    if (sequences.rows() == 0 || row_size == 0) return;
    const std::int64_t row_bytes = lod::detail::bytes_of<T>(2, row_size);
    const cpu::ThreadScratch<A> columns(executor, cpu::ColumnNumbers<A>::scratch(row_size) + row_size);
    cpu::parallel_rows(executor, sequences, row_bytes,
                       [&](std::int64_t i, std::int64_t begin, std::int64_t end, std::int64_t, int thread) {
                         const cpu::ColumnNumbers<A> factor(columns(thread) + row_size, row_size);
                         cpu::widen(factors + i * row_size, row_size, columns(thread));
                         factor.set(columns(thread));
                         T* const to = y + (sequences.begin(i) + begin) * row_size;
                         cpu::for_each_vector<T>(
                             end - begin, row_size, [&](std::int64_t at, std::int64_t count, std::int64_t column) {
                               cpu::store_first(to + at, cpu::load_vector(to + at, count) * factor(column), count, 0);
                             });
                       });
  }
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu
