// SPDX-License-Identifier: Apache-2.0
/// @file
/// Arithmetic with row-sparse tensors in bulk: each number of the dense tensor belongs to one body.
#pragma once

#include <lod/core/version.hpp>
#include <lod/kernels/bulk/bulk.hpp>
#include <lod/kernels/bulk/elementwise.hpp>
#include <lod/kernels/bulk/few.hpp>
#include <lod/kernels/bulk/merge_rows.hpp>
#include <lod/ops/row_sparse.hpp>
#include <lod/ops/staging.hpp>

#include <cstddef>
#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk {

/// Combines a row of the dense tensor with the sums of a group.
template <class T, std::size_t count, class F>
struct CombineGroup {
  F f;
  Segments groups;
  std::int64_t row_size;
  const std::int64_t* to;
  T* y;

  static constexpr bool is_corrected = true;
  LOD_HOST_DEVICE void operator()(std::int64_t group, std::int64_t column,
                                  const Few<Accumulator<T>, count>& sums) const {
    if (groups.length(group) == 0) return;
    T* const place = y + to[group] * row_size + column * static_cast<std::int64_t>(count);
    write_few(place, converted<T>(each(f, converted<Accumulator<T>>(read_few<count>(place)), sums)));
  }
};

template <>
struct Kernel<ScatterSums> {
  template <class E, class F, class T>
  static void run(const E& executor, const F& f, const NumberedRows<T>& rows, const std::int64_t* order,
                  const Segments& groups, std::int64_t row_size, const std::int64_t* to, T* y) {
    const auto of_columns = [&]<std::size_t count>() {
      sum_groups<count, Accumulator<T>>(executor, rows, order, groups, row_size,
                                        CombineGroup<T, count, F>{f, groups, row_size, to, y});
    };
    with_count(of_columns, row_size, y);
  }
};

template <>
struct Kernel<ScatterRows> {
  template <class E, class F, class T>
  static void run(const E& executor, const F& f, const NumberedRows<T>& rows, const std::int64_t* order,
                  const Segments& groups, std::int64_t row_size, const std::int64_t* to, T* y) {
    for_each(executor, groups.size * row_size, [=] LOD_HOST_DEVICE(std::int64_t at) {
      const std::int64_t group = at / row_size, column = at % row_size;
      const std::int64_t* const listed = order + groups.begin(group);
      const std::int64_t length = groups.length(group);
      if (length == 0) return;
      T& number = y[to[group] * row_size + column];
      for (std::int64_t k = 0; k < length; ++k) number = combined(f, number, rows[listed[k]][column]);
    });
  }
};

template <>
struct Kernel<ScatterRowsGrad> {
  template <class E, class F, class T>
  static void run(const E& executor, const F& f, const NumberedRows<T>& rows, const std::int64_t* order,
                  const Segments& groups, std::int64_t row_size, const std::int64_t* to, const T* x, T* d, T* dg) {
    using A = Accumulator<T>;
    // The value of a number before each of the rows listed for it.
    const Scratch<E, A> loan(executor, groups.rows() * row_size);
    A* const before = loan.data();
    for_each(executor, groups.size * row_size, [=] LOD_HOST_DEVICE(std::int64_t at) {
      const std::int64_t group = at / row_size, column = at % row_size;
      const std::int64_t first = groups.begin(group), length = groups.length(group);
      if (length == 0) return;
      const std::int64_t number_at = to[group] * row_size + column;
      const std::int64_t* const listed = order + first;
      A* const states = before + first * row_size + column;
      A state = static_cast<A>(x[number_at]);
      for (std::int64_t k = 0; k < length; ++k) {
        states[k * row_size] = state;
        state = static_cast<A>(static_cast<T>(f(state, static_cast<A>(rows[listed[k]][column]))));
      }
      A gradient = static_cast<A>(d[number_at]);
      for (std::int64_t k = length; k-- > 0;) {
        const A number = static_cast<A>(rows[listed[k]][column]), earlier = states[k * row_size];
        dg[listed[k] * row_size + column] = static_cast<T>(gradient * f.by_listed(earlier, number, state));
        gradient *= f.by_dense(earlier, number, state);
        state = earlier;
      }
      d[number_at] = static_cast<T>(gradient);
    });
  }
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk
