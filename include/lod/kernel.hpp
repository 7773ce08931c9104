// SPDX-License-Identifier: Apache-2.0
/// @file
/// Where operations and kernels meet: what a kernel is, and how it is told about sequences.
///
/// A kernel is a class template over executors with static functions that take raw pointers and sizes. Its primary
/// template stands beside the operation that calls it; each back end specialises it for its executor.
#pragma once

#include <lod/float16.hpp>
#include <lod/target.hpp>

#include <concepts>
#include <cstdint>
#include <type_traits>

namespace lod::inline LOD_TARGET {
namespace kernel {

template <class T>
struct AccumulatorOf {
  using type = std::conditional_t<std::integral<T>, std::int64_t, float>;
};
template <>
struct AccumulatorOf<double> {
  using type = double;
};
/// What numbers of type T are computed in: double for itself, float for the other floating-point types, int64 for
/// integers and bool.
template <class T>
using Accumulator = typename AccumulatorOf<T>::type;

/// Sequences as kernels see them: sequence i has the rows [offsets[i] - first, offsets[i+1] - first) of the values that
/// come along, `first` being offsets[0]. So the offsets of a slice serve as they are.
struct Segments {
  const std::int64_t* offsets;
  std::int64_t size;
  std::int64_t max_rows;  ///< no sequence is longer

  LOD_HOST_DEVICE std::int64_t rows() const noexcept { return offsets[size] - offsets[0]; }
  LOD_HOST_DEVICE std::int64_t begin(std::int64_t i) const noexcept { return offsets[i] - offsets[0]; }
  LOD_HOST_DEVICE std::int64_t length(std::int64_t i) const noexcept { return offsets[i + 1] - offsets[i]; }
};

/// The primary templates derive from this: what a missing specialisation says.
template <class Executor>
struct Missing {
  template <class... Arguments>
  static void run(const Executor&, Arguments&&...) {
    static_assert(sizeof(Executor) == 0,
                  "no kernel of this operation for this executor: include its back end, <lod/cpu.hpp>, "
                  "<lod/thrust.hpp> or <lod/cuda.cuh>");
  }
};

}  // namespace kernel
}  // namespace lod::inline LOD_TARGET
