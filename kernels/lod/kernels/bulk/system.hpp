// SPDX-License-Identifier: Apache-2.0
/// @file
/// The algorithms that kernels in bulk are built on, for the system that the executor's policy names. Executors
/// without a policy have a specialisation.
#pragma once

#include <lod/core/floating_point_control.hpp>
#include <lod/core/target.hpp>
#include <lod/kernels/bulk/bulk.hpp>
#include <lod/kernels/bulk/lanes.hpp>
#include <lod/kernels/sum_tree.hpp>
#include <lod/ops/kernel.hpp>

#include <thrust/execution_policy.h>
#include <thrust/for_each.h>
#include <thrust/functional.h>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/iterator_adaptor.h>
#include <thrust/iterator/transform_iterator.h>
#include <thrust/scan.h>
#include <thrust/sort.h>
#include <thrust/transform_reduce.h>

#include <cstdint>
#include <type_traits>
#include <utility>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk {

/// Calls body(row, column) from the number of an element.
template <class Body>
struct OfElement {
  Body body;
  std::int64_t row_size;
  LOD_HOST_DEVICE void operator()(std::int64_t at) const { body(at / row_size, at % row_size); }
};
/// Calls body(i, row, column) from the number of an element.
template <class Body>
struct OfSequences {
  Body body;
  Segments sequences;
  std::int64_t row_size;
  LOD_HOST_DEVICE void operator()(std::int64_t at) const {
    const std::int64_t row = at / row_size;
    body(sequence_of(sequences, row), row, at % row_size);
  }
};
/// Calls body(i, column, lanes) from i and column.
template <class Body>
struct OfLanes {
  Body body;
  LOD_HOST_DEVICE void operator()(std::int64_t i, std::int64_t column) const { body(i, column, OneThread()); }
};
/// Calls body(i, lanes) from i.
template <class Body>
struct OfWarp {
  Body body;
  LOD_HOST_DEVICE void operator()(std::int64_t i) const { body(i, OneWarp()); }
};
/// Calls body(i, rows, from, to, lanes) from i, in the memory of x and y itself, unless the sequence is long.
template <class T, class Body>
struct OfNumbers {
  Body body;
  Segments sequences;
  const T* x;
  T* y;
  LOD_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t begin = sequences.begin(i), rows = sequences.length(i);
    if (rows > leaf_rows) return;
    body(i, static_cast<int>(rows), x + begin, y == nullptr ? nullptr : y + begin, OneThread());
  }
};

/// Calls body(at) for each number `at` of a part of [0, count), whose parts all have the same size except the last one;
/// on a CPU with the standard control word, whatever that of the thread is.
template <class Body>
struct OfPart {
  Body body;
  std::int64_t count;
  std::int64_t part;
  LOD_ON_THE_CALLERS_SIDE
  LOD_HOST_DEVICE void operator()(std::int64_t i) const {
#ifndef __CUDA_ARCH__
    const detail::FloatingPointControl standard;
#endif
    const std::int64_t begin = i * part, size = least(part, count - begin);
    for (std::int64_t at = 0; at < size; ++at) body(begin + at);
  }
};
/// Calls body(i), on a CPU with the standard control word.
template <class Body>
struct WithStandardControl {
  Body body;
  LOD_HOST_DEVICE auto operator()(std::int64_t i) const {
#ifndef __CUDA_ARCH__
    const detail::FloatingPointControl standard;
#endif
    return body(i);
  }
};

/// Calls body(place, number) when a number is written to a place.
template <class Body>
class CallAtPlace {
 public:
  LOD_HOST_DEVICE CallAtPlace(const Body& body, std::int64_t place) : body_(body), place_(place) {}
  // NOLINTNEXTLINE(misc-unconventional-assign-operator): an iterator returns it as a temporary to assign to
  LOD_HOST_DEVICE const CallAtPlace& operator=(std::int64_t number) const {
    body_(place_, number);
    return *this;
  }

 private:
  Body body_;
  std::int64_t place_;
};
/// The places from 0 on; they are never read.
template <class Body>
class CallsAtPlaces : public ::thrust::iterator_adaptor<CallsAtPlaces<Body>, ::thrust::counting_iterator<std::int64_t>,
                                                        ::thrust::use_default, ::thrust::use_default,
                                                        ::thrust::use_default, CallAtPlace<Body>> {
 public:
  LOD_HOST_DEVICE explicit CallsAtPlaces(const Body& body)
      : CallsAtPlaces::iterator_adaptor(::thrust::counting_iterator<std::int64_t>(0)), body_(body) {}
  CallsAtPlaces(const CallsAtPlaces&) = default;
  /// Only for places of the same body: lambdas cannot be assigned.
  LOD_HOST_DEVICE CallsAtPlaces& operator=(const CallsAtPlaces& other) {
    this->base_reference() = other.base();
    return *this;
  }

 private:
  friend class ::thrust::iterator_core_access;
  LOD_HOST_DEVICE CallAtPlace<Body> dereference() const { return {body_, *this->base()}; }

  Body body_;
};

/// Algorithms by a Thrust policy. Bodies are lambdas that capture plain values and raw pointers by copy and read
/// offsets only inside: they may run where the CPU's memory is not accessible.
template <class Policy>
class Algorithms {
 public:
  explicit Algorithms(const Policy& policy) noexcept : policy_(policy) {}

  /// Calls body(i) for each i in [0, count), in any order.
  template <class Body>
  void for_each(std::int64_t count, const Body& body) const {
    // The control word is checked once per part, and there are enough parts for any number of threads.
    constexpr std::int64_t parts = 4096;
    const std::int64_t part = count / parts + 1;
    ::thrust::for_each_n(policy_, Numbers(0), (count - 1) / part + 1, OfPart<Body>{body, count, part});
  }
  /// @{
  /// As the functions of these names in bulk.hpp.
  template <class Body>
  void for_each_element(std::int64_t rows, std::int64_t row_size, const Body& body) const {
    for_each(rows * row_size, OfElement<Body>{body, row_size});
  }
  template <class Body>
  void for_each_in_sequences(const Segments& sequences, std::int64_t row_size, const Body& body) const {
    for_each(sequences.rows() * row_size, OfSequences<Body>{body, sequences, row_size});
  }
  template <class Body>
  void for_each_by_lanes(std::int64_t count, std::int64_t row_size, const Body& body) const {
    for_each_element(count, row_size, OfLanes<Body>{body});
  }
  template <class Body>
  void for_each_by_all_lanes(std::int64_t count, const Body& body) const {
    for_each_by_lanes(count, 1, body);
  }
  template <class Body>
  void for_each_by_warps(std::int64_t count, const Body& body) const {
    for_each(count, OfWarp<Body>{body});
  }
  template <class T, class Body, class AtPlace>
  void for_each_staged(const Segments& sequences, const T* x, T* y, const Body& body, std::int64_t places,
                       const AtPlace& at_place) const {
    if (places > 0) for_each_by_all_lanes(places, at_place);
    for_each(sequences.size, OfNumbers<T, Body>{body, sequences, x, y});
  }
  template <class T, class Body>
  bool for_each_staged_column(const Segments&, std::int64_t, std::int64_t, const T*, T*, const Body&) const {
    return false;
  }
  /// @}
  /// Sorts keys in ascending order and moves their values with them; the sort is stable. If `bits` is less than 64, no
  /// key is negative or has more bits, so that a system need not examine the others.
  template <class Key, class Value>
  void sort_by_key(Key* keys, std::int64_t count, Value* values, int /*bits*/ = 64) const {
    ::thrust::stable_sort_by_key(policy_, keys, keys + count, values);
  }
  /// The same with second buffers of the same size, which may be used on the way. Returns the pair of buffers that
  /// holds the result; the contents of the other pair are unspecified.
  template <class Key, class Value>
  Pairs<Key, Value> sort_pairs(const Pairs<Key, Value>& pairs, const Pairs<Key, Value>& /*others*/, std::int64_t count,
                               int bits) const {
    sort_by_key(pairs.keys, count, pairs.values, bits);
    return pairs;
  }
  /// Calls body(i, number(0) + ... + number(i)) for each i in [0, count), in any order. number(i) may be called more
  /// than once, so bodies must not change what it reads.
  template <class Number, class Body>
  void scan(std::int64_t count, const Number& number, const Body& body) const {
    const auto numbers = ::thrust::make_transform_iterator(Numbers(0), WithStandardControl<Number>{number});
    ::thrust::inclusive_scan(policy_, numbers, numbers + count, CallsAtPlaces<Body>(body));
  }
  /// Returns body(0); waits for it.
  template <class U, class Body>
  U answer(const Body& body) const {
    return ::thrust::transform_reduce(policy_, Numbers(0), Numbers(1), WithStandardControl<Body>{body}, U{},
                                      ::thrust::plus<U>());
  }

 private:
  using Numbers = ::thrust::counting_iterator<std::int64_t>;

  Policy policy_;
};

/// The algorithms for an executor, running where its bodies run. Specialisations offer the same functions.
template <class E>
class System : public Algorithms<std::remove_cvref_t<decltype(std::declval<const E&>().policy())>> {
 public:
  explicit System(const E& executor) noexcept : System::Algorithms(executor.policy()) {}
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk
