// SPDX-License-Identifier: Apache-2.0
/// @file
/// Scattering into rows in bulk: updates are sorted by the number that they apply to, and added up for each number.
#pragma once

#include <lod/core/version.hpp>
#include <lod/kernels/bulk/bulk.hpp>
#include <lod/ops/sequence_scatter.hpp>
#include <lod/ops/staging.hpp>

#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk {

template <>
struct Kernel<SequenceScatter> {
  template <class E, class T>
  static void run(const E& executor, const std::int64_t* ids, const T* updates, const Segments& sequences,
                  std::int64_t columns, T* y) {
    using A = Accumulator<T>;
    const std::int64_t count = sequences.rows(), none = sequences.size * columns;  // `none` is after all places
    const Scratch<E, std::int64_t> place_loan(executor, count), other_places(executor, count);
    const Scratch<E, std::int64_t> order_loan(executor, count), other_order(executor, count);
    const Pairs<std::int64_t, std::int64_t> listed{place_loan.data(), order_loan.data()};
    for_each(executor, count, [=] LOD_HOST_DEVICE(std::int64_t k) {
      listed.keys[k] = ids[k] < 0 ? none : sequence_of(sequences, k) * columns + ids[k];
      listed.values[k] = k;
    });
    const Pairs<std::int64_t, std::int64_t> sorted =
        System<E>(executor).sort_pairs(listed, {other_places.data(), other_order.data()}, count, bits_up_to(none));
    const std::int64_t* const places = sorted.keys;
    const std::int64_t* const order = sorted.values;
    for_each(executor, count, [=] LOD_HOST_DEVICE(std::int64_t first) {
      const std::int64_t place = places[first];
      if (place == none || (first > 0 && places[first - 1] == place))
        return;  // the first update of a number adds all of them
      A sum = static_cast<A>(y[place]);
      for (std::int64_t k = first; k < count && places[k] == place; ++k) {
        sum = plus(sum, static_cast<A>(updates[order[k]]));
      }
      y[place] = static_cast<T>(sum);
    });
  }
};

template <>
struct Kernel<SequenceScatterUpdatesGrad> {
  template <class E, class T>
  static void run(const E& executor, const T* dy, const std::int64_t* ids, const Segments& sequences,
                  std::int64_t columns, T* dupdates) {
    for_each(executor, sequences.rows(), [=] LOD_HOST_DEVICE(std::int64_t k) {
      dupdates[k] = ids[k] < 0 ? T{} : dy[sequence_of(sequences, k) * columns + ids[k]];
    });
  }
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk
