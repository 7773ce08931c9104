// SPDX-License-Identifier: Apache-2.0
/// @file
/// Linear recurrences in bulk, by the leaves of the CPU: what each leaf of a long sequence makes of the state before
/// it, the states before leaves, and the states of rows.
#pragma once

#include <lod/core/version.hpp>
#include <lod/kernels/bulk/bulk.hpp>
#include <lod/kernels/bulk/leaves.hpp>
#include <lod/kernels/bulk/row_sum.hpp>
#include <lod/kernels/linear_scan.hpp>
#include <lod/ops/sequence_linear_scan.hpp>
#include <lod/ops/staging.hpp>

#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk {

/// What a leaf makes of the state before it: state * factor + term. The terms of leaves become the states after them.
template <class A>
struct LeafEffect {
  A factor, term;
};

/// Scans one column of a leaf. `Numbers` says what is read and written.
template <class T, class Numbers>
struct ScanColumn {
  using A = Accumulator<T>;

  Numbers numbers;
  Segments sequences;

  LOD_HOST_DEVICE Leaf short_sequence(std::int64_t i) const { return {i, 0, 0, sequences.length(i)}; }
  /// The place of a row of a leaf, counted in the direction of the scan.
  LOD_HOST_DEVICE std::int64_t place(const Leaf& leaf, std::int64_t row, std::int64_t column) const {
    const std::int64_t at = leaf.first + row, i = leaf.sequence;
    const std::int64_t from_start = numbers.backwards ? sequences.length(i) - 1 - at : at;
    return (sequences.begin(i) + from_start) * numbers.row_size + column;
  }
  LOD_HOST_DEVICE A factor(std::int64_t place) const { return static_cast<A>(*numbers.factor(place)); }
  LOD_HOST_DEVICE A term(std::int64_t place) const { return static_cast<A>(*numbers.term(place)); }

  /// What the rows of a leaf make of a state of 0.
  LOD_HOST_DEVICE LeafEffect<A> effect(const Leaf& leaf, std::int64_t column) const {
    LeafEffect<A> all{A{1}, A{}};
    for (std::int64_t row = 0; row < leaf.rows; ++row) {
      const std::int64_t at = place(leaf, row, column);
      const A by = factor(at);
      all = {all.factor * by, fused(by, all.term, term(at))};
    }
    return all;
  }
  /// Calls write(place, is_last, state) for each row and returns the last state. If a sequence begins with the leaf,
  /// `state` does not matter.
  template <class Write>
  LOD_HOST_DEVICE A states(const Leaf& leaf, std::int64_t column, A state, const Write& write) const {
    const T* const start = numbers.start(leaf.sequence);
    if (leaf.number == 0 && start) state = static_cast<A>(start[column]);
    for (std::int64_t row = 0; row < leaf.rows; ++row) {
      const std::int64_t at = place(leaf, row, column);
      const bool is_first = leaf.number == 0 && row == 0 && !start;
      state = is_first ? term(at) : fused(factor(at), state, term(at));
      write(at, leaf.first + row + 1 == sequences.length(leaf.sequence), state);
    }
    return state;
  }
  /// Writes the states of a leaf, and for a gradient what else there is.
  LOD_HOST_DEVICE void write(const Leaf& leaf, std::int64_t column, A before) const {
    const std::int64_t i = leaf.sequence;
    states(leaf, column, before, [&](std::int64_t at, bool is_last, A state) {
      *numbers.state(at) = static_cast<T>(state);
      if constexpr (Numbers::is_gradient) {
        const T* const by = numbers.multiplied(at, is_last, i, column);
        numbers.da[at] = static_cast<T>(by ? state * static_cast<A>(*by) : A{});
        if (is_last) {
          numbers.dinitial[i * numbers.row_size + column] = static_cast<T>(state * static_cast<A>(numbers.a[at]));
        }
      }
    });
    if constexpr (Numbers::is_gradient) {
      if (leaf.rows == 0) numbers.dinitial[i * numbers.row_size + column] = T{};
    }
  }
};

/// Scans short sequences.
template <class T, class Numbers>
struct ScanShort {
  ScanColumn<T, Numbers> scan;
  template <class Lanes>
  LOD_HOST_DEVICE void operator()(std::int64_t i, std::int64_t column, const Lanes&) const {
    scan.write(scan.short_sequence(i), column, {});
  }
};
/// Works out what the leaves of long sequences do: the first one gives a state.
template <class T, class Numbers>
struct EffectOfLeaf {
  ScanColumn<T, Numbers> scan;
  LeafParts<LeafEffect<Accumulator<T>>> effects;
  template <class Lanes>
  LOD_HOST_DEVICE void operator()(std::int64_t place, const Leaf& leaf, std::int64_t column, const Lanes&) const {
    using A = Accumulator<T>;
    const auto nothing = [](std::int64_t, bool, A) {};
    effects.put(
        place, column,
        leaf.number == 0 ? LeafEffect<A>{A{}, scan.states(leaf, column, A{}, nothing)} : scan.effect(leaf, column));
  }
};
/// Scans the leaves of long sequences.
template <class T, class Numbers>
struct ScanLeaf {
  ScanColumn<T, Numbers> scan;
  LeafParts<LeafEffect<Accumulator<T>>> effects;
  template <class Lanes>
  LOD_HOST_DEVICE void operator()(std::int64_t place, const Leaf& leaf, std::int64_t column, const Lanes&) const {
    scan.write(leaf, column, leaf.number == 0 ? Accumulator<T>{} : effects.of(place - 1, column).term);
  }
};

template <class T, class E, class Numbers>
void scan_sequences(const E& executor, const Numbers& numbers, const Segments& sequences) {
  using A = Accumulator<T>;
  const std::int64_t row_size = numbers.row_size;
  if (row_size == 0) return;
  const ScanColumn<T, Numbers> scan{numbers, sequences};
  const Leaves leaves{sequences};
  const LeafScratch<E, LeafEffect<A>> loan(executor, leaves, row_size);
  const LeafParts<LeafEffect<A>> effects = loan.parts();
  // A column belongs to one thread: each of its states depends on the one before it.
  for_each_short_and_leaf<Columns::own>(executor, sequences, row_size, ScanShort<T, Numbers>{scan},
                                        EffectOfLeaf<T, Numbers>{scan, effects});
  if (!leaves.any()) return;
  const auto join = [=] LOD_HOST_DEVICE(std::int64_t place, std::int64_t column) {
    const Leaf leaf = leaves.at(place);
    if (leaf.rows == 0 || leaf.number != 0) return;
    A state = effects.of(place, column).term;
    for (std::int64_t next = 1; next < leaves.count(leaf.sequence); ++next) {
      LeafEffect<A>& effect = effects.of(place + next, column);
      state = after_leaf(state, effect.factor, effect.term);
      effect.term = state;
    }
  };
  for_each_element(executor, leaves.places(), row_size, join);
  for_each_leaf<Columns::own>(executor, leaves, row_size, ScanLeaf<T, Numbers>{scan, effects});
}

template <>
struct Kernel<SequenceLinearScan> {
  template <class E, class T>
  static void run(const E& executor, const T* a, const T* b, const Segments& sequences, std::int64_t row_size,
                  const T* initial, bool reverse, T* h) {
    scan_sequences<T>(executor, ScanNumbers<T>{a, b, initial, h, row_size, reverse}, sequences);
  }
};

template <>
struct Kernel<SequenceLinearScanGrad> {
  template <class E, class T>
  static void run(const E& executor, const T* dh, const T* a, const T* h, const Segments& sequences,
                  std::int64_t row_size, const T* initial, bool reverse, T* da, T* db, T* dinitial) {
    scan_sequences<T>(executor, ScanGradientNumbers<T>{dh, a, h, initial, da, db, dinitial, row_size, !reverse},
                      sequences);
  }
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk
