// SPDX-License-Identifier: Apache-2.0
/// @file
/// Rows sorted by id and pooled in bulk.
#pragma once

#include <lod/core/version.hpp>
#include <lod/kernels/bulk/bulk.hpp>
#include <lod/kernels/bulk/few.hpp>
#include <lod/kernels/bulk/row_sum.hpp>
#include <lod/kernels/bulk/sequence_pool.hpp>
#include <lod/kernels/partition_point.hpp>
#include <lod/ops/merge_rows.hpp>
#include <lod/ops/staging.hpp>

#include <cstddef>
#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk {

/// Returns body(0) to the host: a reduction copies its result there, wherever bodies run.
template <class U, class E, class Body>
U answer(const E& executor, const Body& body) {
  return System<E>(executor).template answer<U>(body);
}

/// The numbers of a group's row in a column of `count` numbers, as numbers of type A.
template <class A, class T, std::size_t count>
struct NumbersOfGroup {
  NumberedRows<T> rows;
  const std::int64_t* order;
  Segments groups;
  template <class>
  LOD_HOST_DEVICE auto of_column(std::int64_t group, std::int64_t column) const {
    return [rows = rows, listed = order + groups.begin(group), column](std::int64_t row) {
      const T* const from = rows[listed[row]] + column * static_cast<std::int64_t>(count);
      return converted<A>(read_few_anywhere<count>(from));
    };
  }
};
/// Calls finish(g, column, sums) with the sums of each column, which is `count` numbers of a row, for each group.
template <std::size_t count, class A, class E, class T, class Finish>
void sum_groups(const E& executor, const NumberedRows<T>& rows, const std::int64_t* order, const Segments& groups,
                std::int64_t row_size, const Finish& finish) {
  sum_few<A, count>(executor, groups, row_size, NumbersOfGroup<A, T, count>{rows, order, groups}, finish);
}

/// 1 for the first of equal ids.
struct CountHead {
  const std::int64_t* sorted;
  std::int64_t height;  ///< the value of ids that are left out
  LOD_HOST_DEVICE std::int64_t operator()(std::int64_t i) const {
    return sorted[i] != height && (i == 0 || sorted[i] != sorted[i - 1]) ? 1 : 0;
  }
};

/// Groups equal ids that are sorted, where moved[i] is the original position of the i-th; ids that are left out are
/// `height` and come last. Afterwards order[i] is moved[i]. Empty groups follow the others. Unless null, `names` also
/// receives the groups' ids, as row-sparse tensors have them, and *size their number. There must be at least one id.
template <class E>
void finish_groups(const E& executor, const std::int64_t* sorted, const std::int64_t* moved, std::int64_t count,
                   std::int64_t height, std::int64_t* order, std::int64_t* unique, std::int64_t* groups,
                   std::int64_t* names, std::int64_t* size) {
  const CountHead count_head{sorted, height};
  System<E>(executor).scan(count, count_head, [=] LOD_HOST_DEVICE(std::int64_t i, std::int64_t heads) {
    if (moved != order) order[i] = moved[i];
    const bool is_head = count_head(i) > 0, is_last = i == count - 1;
    // The group of a row is the number of heads up to it, minus one. There are as many rows that are not heads as empty
    // groups: each of them writes one, starting with the last group.
    const std::int64_t group = is_head ? heads - 1 : count - 1 - (i - heads);
    if (is_head) groups[group] = i;
    unique[group] = is_head ? sorted[i] : no_row;
    if (names != nullptr) names[group] = is_head ? sorted[i] : -1;
    if (is_last && size != nullptr) *size = heads;
    if (is_head && !is_last) return;
    const std::int64_t kept =  // the ids before the first that is left out
        partition_point<std::int64_t>(0, count, [=](std::int64_t k) { return sorted[k] != height; });
    if (!is_head) groups[group] = kept;
    if (is_last) groups[count] = kept;
  });
}

/// The same for ids in any order, which are overwritten; `order` must be 0, 1, ... before.
template <class E>
void group_listed(const E& executor, std::int64_t* ids, std::int64_t count, std::int64_t height, std::int64_t* order,
                  std::int64_t* unique, std::int64_t* groups, std::int64_t* names, std::int64_t* size) {
  const Scratch<E, std::int64_t> other_ids(executor, count), other_order(executor, count);
  const auto [sorted, moved] = System<E>(executor).sort_pairs(
      Pairs<std::int64_t, std::int64_t>{ids, order}, {other_ids.data(), other_order.data()}, count, bits_up_to(height));
  finish_groups(executor, sorted, moved, count, height, order, unique, groups, names, size);
}
/// Groups ids that are not yet listed.
template <class E>
void group_rows(const E& executor, const std::int64_t* ids, std::int64_t count, std::int64_t height,
                std::int64_t* order, std::int64_t* unique, std::int64_t* groups, std::int64_t* size) {
  const Scratch<E, std::int64_t> loan(executor, count);
  std::int64_t* const listed = loan.data();
  for_each(executor, count, [=] LOD_HOST_DEVICE(std::int64_t i) {
    listed[i] = ids[i];
    order[i] = i;
  });
  group_listed(executor, listed, count, height, order, unique, groups, nullptr, size);
}

/// For an empty list of ids.
template <class E>
void group_none(const E& executor, std::int64_t* groups) {
  for_each(executor, 1, [=] LOD_HOST_DEVICE(std::int64_t) { groups[0] = 0; });
}

template <>
struct Kernel<GroupRows> {
  template <class E>
  static std::int64_t run(const E& executor, const std::int64_t* ids, std::int64_t count, std::int64_t height,
                          std::int64_t* order, std::int64_t* unique, std::int64_t* groups) {
    if (count == 0) {
      group_none(executor, groups);
      return 0;
    }
    const Scratch<E, std::int64_t> loan(executor, 1);
    std::int64_t* const size = loan.data();
    group_rows(executor, ids, count, height, order, unique, groups, size);
    return answer<std::int64_t>(executor, [=] LOD_HOST_DEVICE(std::int64_t) { return *size; });
  }
};

/// The variant without a wait for the number of groups: there are as many groups as rows.
struct GroupRowsInPlaces {
  template <class E>
  static std::int64_t run(const E& executor, const std::int64_t* ids, std::int64_t count, std::int64_t height,
                          std::int64_t* order, std::int64_t* unique, std::int64_t* groups) {
    if (count == 0) {
      group_none(executor, groups);
    } else {
      group_rows(executor, ids, count, height, order, unique, groups, nullptr);
    }
    return count;
  }
};

template <>
struct Kernel<GroupListed> {
  template <class E>
  static void run(const E& executor, std::int64_t* ids, std::int64_t count, std::int64_t height, std::int64_t* order,
                  std::int64_t* unique, std::int64_t* groups, std::int64_t* names) {
    if (count == 0) return group_none(executor, groups);
    group_listed(executor, ids, count, height, order, unique, groups, names, nullptr);
  }
};

template <>
struct Kernel<ListRows> {
  template <class E, class T>
  static void run(const E& executor, const std::int64_t* ids, const T* values, std::int64_t count,
                  std::int64_t row_size, std::int64_t height, std::int64_t first, std::int64_t* listed,
                  std::int64_t* order, const T** rows, T* zeros, std::int64_t zero_count) {
    for_each(executor, greatest(count, zero_count), [=] LOD_HOST_DEVICE(std::int64_t i) {
      if (i < zero_count) zeros[i] = T{};
      if (i >= count) return;
      listed[first + i] = ids[i] >= 0 && ids[i] < height ? ids[i] : height;  // the ids have not been checked
      order[first + i] = first + i;
      if (rows != nullptr) rows[first + i] = values + i * row_size;
    });
  }
};

template <>
struct Kernel<GroupOfRows> {
  template <class E>
  static void run(const E& executor, const std::int64_t* order, const Segments& groups, std::int64_t* of) {
    for_each(executor, groups.rows(), [=] LOD_HOST_DEVICE(std::int64_t k) {
      const std::int64_t group = sequence_of(groups, k);
      of[order[k]] = group < groups.size ? group : -1;
    });
  }
};

/// Writes the sums of a group.
template <class T, std::size_t count>
struct WriteGroup {
  Segments groups;
  PoolType type;
  std::int64_t row_size;
  const std::int64_t* to;
  T* y;

  static constexpr bool is_corrected = true;
  template <class A>
  LOD_HOST_DEVICE void operator()(std::int64_t group, std::int64_t column, const Few<A, count>& sums) const {
    const std::int64_t length = groups.length(group);
    if (length == 0 && to != nullptr) return;
    Few<T, count> results;
    for (std::size_t n = 0; n < count; ++n) {
      results.number[n] = length > 0 ? pooled<T>(type, length, sums.number[n]) : T{};
    }
    write_few(place(group, column), results);
  }
  template <class A>
  LOD_HOST_DEVICE void correct(std::int64_t group, std::int64_t column, std::size_t n, const WideSum<A>& sum) const {
    place(group, column)[n] = static_cast<T>(sum.pooled(type, groups.length(group)));
  }
  LOD_HOST_DEVICE T* place(std::int64_t group, std::int64_t column) const {
    return y + (to != nullptr ? to[group] : group) * row_size + column * static_cast<std::int64_t>(count);
  }
};

template <>
struct Kernel<SumGroups> {
  template <class E, class T>
  static void run(const E& executor, PoolType type, const NumberedRows<T>& rows, const std::int64_t* order,
                  const Segments& groups, std::int64_t row_size, const std::int64_t* to, T* y) {
    const auto of_columns = [&]<std::size_t count>() {
      const WriteGroup<T, count> write{groups, type, row_size, to, y};
      if constexpr (divides_wide_sums<T>) {
        if (type != PoolType::SUM) {
          return sum_groups<count, WideInteger>(executor, rows, order, groups, row_size, write);
        }
      }
      sum_groups<count, Accumulator<T>>(executor, rows, order, groups, row_size, write);
    };
    with_count(of_columns, row_size, y);
  }
};

template <>
struct Kernel<SetZero> {
  template <class E, class T>
  static void run(const E& executor, T* y, std::int64_t count) {
    for_each(executor, count, [=] LOD_HOST_DEVICE(std::int64_t at) { y[at] = T{}; });
  }
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk
