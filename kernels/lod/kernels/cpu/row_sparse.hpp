// SPDX-License-Identifier: Apache-2.0
/// @file
/// Arithmetic with row-sparse tensors on the CPU: each row of the dense tensor belongs to one thread.
#pragma once

#include <lod/core/version.hpp>
#include <lod/kernels/cpu/elementwise.hpp>
#include <lod/kernels/cpu/launch.hpp>
#include <lod/kernels/cpu/merge_rows.hpp>
#include <lod/kernels/cpu/parallel.hpp>
#include <lod/kernels/cpu/row_sum.hpp>
#include <lod/kernels/cpu/vector.hpp>
#include <lod/ops/row_sparse.hpp>

#include <concepts>
#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu {

template <>
struct Kernel<ScatterSums> {
  template <class F, class T>
  static void run(const CpuExecutor& executor, const F& f, const NumberedRows<T>& rows, const std::int64_t* order,
                  const Segments& groups, std::int64_t row_size, const std::int64_t* to, T* y) {
    using A = Accumulator<T>;
    cpu::for_each_group_sum(executor, rows, order, groups, row_size, [&](std::int64_t group, const A* sums) {
      if (group + cpu::prefetch_distance < groups.size) {
        cpu::prefetch(y + to[group + cpu::prefetch_distance] * row_size, row_size);
      }
      T* const row = y + to[group] * row_size;
      cpu::convert(row, sums, row_size, row, f);
    });
  }
};

template <>
struct Kernel<ScatterRows> {
  template <class F, class T>
  static void run(const CpuExecutor& executor, const F& f, const NumberedRows<T>& rows, const std::int64_t* order,
                  const Segments& groups, std::int64_t row_size, const std::int64_t* to, T* y) {
    const std::int64_t row_bytes = lod::detail::bytes_of<T>(2, row_size);
    const cpu::GroupedRows<T> grouped{rows, order, groups, row_size};
    cpu::parallel_sequences(executor, groups, row_bytes, [&](std::int64_t begin, std::int64_t end, int thread) {
      for (std::int64_t group = begin; group < end; ++group) {
        if (group + cpu::prefetch_distance < groups.size) {
          cpu::prefetch(y + to[group + cpu::prefetch_distance] * row_size, row_size);
        }
        const auto listed = grouped(group, thread);
        T* const row = y + to[group] * row_size;
        for (std::int64_t k = 0; k < groups.length(group); ++k) cpu::combine(f, row, listed(k), row_size, row);
      }
    });
  }
};

template <>
struct Kernel<ScatterRowsGrad> {
  template <class F, class T>
  static void run(const CpuExecutor& executor, const F& f, const NumberedRows<T>& rows, const std::int64_t* order,
                  const Segments& groups, std::int64_t row_size, const std::int64_t* to, const T* x, T* d, T* dg) {
    using A = Accumulator<T>;
    // The value of a number before each of the rows listed for it.
    const cpu::ThreadScratch<A> before(executor, groups.max_rows);
    const std::int64_t row_bytes = lod::detail::bytes_of<T>(4, row_size);
    cpu::parallel_sequences(executor, groups, row_bytes, [&](std::int64_t begin, std::int64_t end, int thread) {
      A* const states = before(thread);
      for (std::int64_t group = begin; group < end; ++group) {
        const std::int64_t* const listed = order + groups.begin(group);
        for (std::int64_t column = 0; column < row_size; ++column) {
          const std::int64_t at = to[group] * row_size + column;
          auto state = static_cast<A>(x[at]);
          for (std::int64_t k = 0; k < groups.length(group); ++k) {
            states[k] = state;
            state = static_cast<A>(static_cast<T>(f(state, static_cast<A>(rows[listed[k]][column]))));
          }
          auto gradient = static_cast<A>(d[at]);
          for (std::int64_t k = groups.length(group); k-- > 0;) {
            const auto number = static_cast<A>(rows[listed[k]][column]);
            dg[listed[k] * row_size + column] = static_cast<T>(gradient * f.by_listed(states[k], number, state));
            gradient *= f.by_dense(states[k], number, state);
            state = states[k];
          }
          d[at] = static_cast<T>(gradient);
        }
      }
    });
  }
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu
