// SPDX-License-Identifier: Apache-2.0
/// @file
/// Sorting one array by vectors, without a branch that depends on the numbers.
///
/// A block of numbers is a matrix whose columns are the lanes of vectors. A network sorts all columns at once, and the
/// same comparisons merge neighbouring columns, after lanes have been exchanged. Sorted blocks are merged from memory,
/// some vectors at a time.
#pragma once

#include <lod/core/target.hpp>
#include <lod/kernels/cpu/sequence_tile.hpp>
#include <lod/kernels/cpu/shuffle.hpp>
#include <lod/kernels/cpu/sorting_network.hpp>
#include <lod/kernels/cpu/transpose.hpp>
#include <lod/kernels/cpu/vector.hpp>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu {

/// The lesser and the greater numbers of two vectors without NaNs.
template <class A>
struct VectorOrder {
  using Row = typename CompilerVector<A>::type;
  Row lesser(const Row& a, const Row& b) const noexcept {
    return __builtin_bit_cast(Row, xsimd::min(batch(a), batch(b)));
  }
  Row greater(const Row& a, const Row& b) const noexcept {
    return __builtin_bit_cast(Row, xsimd::max(batch(a), batch(b)));
  }

 private:
  static xsimd::batch<A> batch(const Row& row) noexcept { return __builtin_bit_cast(xsimd::batch<A>, row); }
};

/// Sorts `size` numbers, a multiple of 32, of which only the first `kept` are needed: 32 at a time by a network; these
/// are then merged.
template <std::size_t kept, class V, class Order>
inline void sort_tall(V* numbers, std::size_t size, const Order& order) noexcept {
  constexpr std::size_t step = 32;
  static_assert(std::has_single_bit(kept));
  for (std::size_t begin = 0; begin < size; begin += step) sort_by_network<step, kept>(numbers + begin, order);
  for (std::size_t sorted = step; sorted < size; sorted *= 2) {
    for (std::size_t begin = 0; begin + sorted < size; begin += 2 * sorted) {
      const std::size_t middle = begin + sorted;
      if constexpr (kept < step) {
        merge_ascending<true>(numbers + begin, kept, numbers + middle, kept, order);
      } else {
        merge_ascending<false>(numbers + begin, sorted, numbers + middle, std::min(sorted, size - middle), order);
      }
    }
  }
}
/// Sorts the columns of `size` vectors, a power of two from 2 on or a multiple of 32, of which only the first `kept`
/// are needed.
template <std::size_t kept, class V, class Order>
inline void sort_columns(V* rows, std::size_t size, const Order& order) noexcept {
  switch (size) {
    case 2:
      return sort_by_network<2, kept>(rows, order);
    case 4:
      return sort_by_network<4, kept>(rows, order);
    case 8:
      return sort_by_network<8, kept>(rows, order);
    case 16:
      return sort_by_network<16, kept>(rows, order);
    default:
      return sort_tall<kept>(rows, size, order);
  }
}

/// A vector of keys, and one of the rows that they belong to.
struct KeyedRow {
  Int64Vector key, row;
};
/// Equal keys are ordered by row.
struct KeyedRowOrder {
  [[gnu::always_inline]] KeyedRow lesser(const KeyedRow& a, const KeyedRow& b) const noexcept {
    return choose(a, b, a, b);
  }
  [[gnu::always_inline]] KeyedRow greater(const KeyedRow& a, const KeyedRow& b) const noexcept {
    return choose(a, b, b, a);
  }

 private:
  using V = xsimd::batch<std::int64_t>;
  static V batch(const Int64Vector& numbers) noexcept { return __builtin_bit_cast(V, numbers); }
  /// `yes` in the lanes where a is less than b, `no` in the others.
  [[gnu::always_inline]] static KeyedRow choose(const KeyedRow& a, const KeyedRow& b, const KeyedRow& yes,
                                                const KeyedRow& no) noexcept {
    const auto less = (batch(a.key) < batch(b.key)) | ((batch(a.key) == batch(b.key)) & (batch(a.row) < batch(b.row)));
    return {__builtin_bit_cast(Int64Vector, xsimd::select(less, batch(yes.key), batch(no.key))),
            __builtin_bit_cast(Int64Vector, xsimd::select(less, batch(yes.row), batch(no.row)))};
  }
};
/// Sorts arrays of numbers without NaNs.
template <class A>
class VectorSort {
  using Row = typename CompilerVector<A>::type;
  using Order = VectorOrder<A>;
  static constexpr std::size_t lanes = sizeof(Row) / sizeof(A);
  /// The number of vectors that are merged with as many others at a time.
  static constexpr std::size_t step = 4;
  static constexpr auto step_numbers = static_cast<std::int64_t>(step * lanes);
  /// The most vectors of a block: 16 KiB, which stay in the first-level cache.
  static constexpr std::size_t greatest_height = 16384 / sizeof(Row);

 public:
  /// How many numbers there must be room for to sort `count`, at least one. The rest is padding: less than a quarter of
  /// them plus a block.
  static constexpr std::int64_t room(std::int64_t count) noexcept {
    const std::int64_t steps = (count + step_numbers - 1) / step_numbers;
    // Three leading bits: few blocks are smaller than the first one.
    const auto unit = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(steps) / 4 | 1));
    return (steps + unit - 1) / unit * unit * step_numbers;
  }

  /// Sorts `size` numbers, where `size` is a result of `room`; overwrites `scratch`, of the same size.
  static void sort(A* numbers, A* scratch, std::int64_t size) noexcept { sort(numbers, scratch, size, false); }

 private:
  /// With the result in `numbers` or in `scratch`.
  static void sort(A* numbers, A* scratch, std::int64_t size, bool to_scratch) noexcept {
    const auto height = static_cast<std::size_t>(size) / lanes;
    if (height <= greatest_height && std::has_single_bit(height)) {
      return sort_block(numbers, height, to_scratch ? scratch : numbers);
    }
    const auto first = static_cast<std::int64_t>(std::bit_ceil(height) / 2 * lanes);
    sort(numbers, scratch, first, !to_scratch);
    sort(numbers + first, scratch + first, size - first, !to_scratch);
    if (to_scratch) {
      merge(numbers, first, size, scratch);
    } else {
      merge(scratch, first, size, numbers);
    }
  }

  /// Sorts `height` vectors, a power of two from `step` to `greatest_height`.
  static void sort_block(const A* numbers, std::size_t height, A* to) noexcept {
    Row rows[greatest_height];
    std::memcpy(rows, numbers, height * sizeof(Row));
    const Order order;
    sort_columns<greatest_height>(rows, height, order);
    merge_columns<1>(rows, height, order);
    // One column after the other.
    Row block[lanes];
    if (height >= lanes) {
      for (std::size_t row = 0; row < height; row += lanes) {
        std::copy_n(rows + row, lanes, block);
        transpose(block);
        for (std::size_t lane = 0; lane < lanes; ++lane) put(block[lane], to + lane * height + row);
      }
    } else {
      std::copy_n(rows, height, block);
      std::fill(block + height, block + lanes, rows[0]);
      transpose(block);
      // Each is followed by numbers that the next one overwrites; those after the last are not copied.
      alignas(64) A all[(lanes + 1) * lanes];
      for (std::size_t lane = 0; lane < lanes; ++lane) put(block[lane], all + lane * height);
      std::memcpy(to, all, height * sizeof(Row));
    }
  }

  /// Sorts neighbouring lanes of each vector: of two lanes whose indices differ in `bit`, the one without it gets the
  /// lesser number; then by all lower bits.
  template <std::size_t bit>
  [[gnu::always_inline]] static void sort_lanes(Row& row, const Order& order) noexcept {
    if constexpr (bit > 0) {
      Row other;
      shuffle(
          row, row, [](std::size_t lane) { return lane ^ bit; }, other);
      shuffle(
          order.lesser(row, other), order.greater(row, other),
          [](std::size_t lane) { return (lane & bit) != 0 ? lane + lanes : lane; }, row);
      sort_lanes<bit / 2>(row, order);
    }
  }

  /// Groups of `merged` columns ascend, one column after the other. Merges each two groups, until all columns ascend.
  template <std::size_t merged>
  static void merge_columns(Row* rows, std::size_t height, const Order& order) noexcept {
    if constexpr (merged < lanes) {
      // The least of one group against the greatest of the other.
      for (std::size_t row = 0; row < height / 2; ++row) {
        Row low = rows[row], high = rows[height - 1 - row], mirrored;
        shuffle(
            high, high, [](std::size_t lane) { return lane ^ (2 * merged - 1); }, mirrored);
        const Row lesser = order.lesser(low, mirrored), greater = order.greater(low, mirrored);
        shuffle(
            lesser, greater, [](std::size_t lane) { return (lane & merged) != 0 ? lane + lanes : lane; }, low);
        shuffle(
            lesser, greater,
            [](std::size_t lane) { return (lane ^ (2 * merged - 1)) + ((lane & merged) != 0 ? lanes : 0); }, high);
        sort_lanes<merged / 2>(low, order);
        sort_lanes<merged / 2>(high, order);
        rows[row] = low;
        rows[height - 1 - row] = high;
      }
      sort_bitonic(rows, height, order);
      merge_columns<2 * merged>(rows, height, order);
    }
  }

  /// Merges the ascending numbers [0, middle) and [middle, size) of `from`.
  static void merge(const A* from, std::int64_t middle, std::int64_t size, A* to) noexcept {
    const Order order;
    Row all[2 * step];
    const A *a = from + step_numbers, *b = from + middle + step_numbers;
    const A* const ends[] = {from + middle, from + size};
    std::memcpy(all, from, sizeof(Row) * step);
    std::memcpy(all + step, from + middle, sizeof(Row) * step);
    while (true) {
      merge_steps(all, order, std::make_index_sequence<step>(), std::make_index_sequence<2 * step>());
      std::memcpy(to, all, sizeof(Row) * step);
      to += step_numbers;
      if (a == ends[0] && b == ends[1]) break;
      // Next come the vectors whose first number is less, so that nothing less than what is written remains.
      const bool takes_a = a != ends[0] && (b == ends[1] || !(*b < *a));
      std::memcpy(all, takes_a ? a : b, sizeof(Row) * step);
      (takes_a ? a : b) += step_numbers;
    }
    std::memcpy(to, all + step, sizeof(Row) * step);
  }
  static void put(const Row& row, A* to) noexcept { std::memcpy(to, &row, sizeof row); }
  /// Merges the first half of the vectors with the second half, both ascending.
  template <std::size_t... i, std::size_t... k>
  [[gnu::always_inline]] static void merge_steps(Row (&all)[2 * step], const Order& order, std::index_sequence<i...>,
                                                 std::index_sequence<k...>) noexcept {
    Row lesser[step], greater[step], mirrored[step];
    (shuffle(
         all[2 * step - 1 - i], all[2 * step - 1 - i], [](std::size_t lane) { return lanes - 1 - lane; }, mirrored[i]),
     ...);
    ((lesser[i] = order.lesser(all[i], mirrored[i])), ...);
    ((greater[i] = order.greater(all[i], mirrored[i])), ...);
    halve_bitonic<step / 2>(lesser, order, std::make_index_sequence<step / 2>());
    halve_bitonic<step / 2>(greater, order, std::make_index_sequence<step / 2>());
    ((all[i] = lesser[i]), ...);
    ((all[step + i] = greater[i]), ...);
    (sort_lanes<lanes / 2>(all[k], order), ...);
  }
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu
