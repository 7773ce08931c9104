// SPDX-License-Identifier: Apache-2.0
/// @file
/// Where operations and kernels meet: what a kernel is, and how it receives sequences.
///
/// A kernel is declared next to the operation that calls it, as a type, its tag: `kernel::SequenceReverse`. It takes
/// raw pointers and sizes. An operation calls `launch(kernel::SequenceReverse(), executor, x, ...)`, and
/// argument-dependent lookup finds the overload of the executor's back end. That calls `run` of
/// `cpu::Kernel<SequenceReverse>` or `bulk::Kernel<SequenceReverse>`, or a compiled library, which contains the kernels
/// that declarations name (`Launches`), unless the tag has a member `in_headers_only`. Tags do not depend on compiler
/// flags.
#pragma once

#include <lod/core/float16.hpp>
#include <lod/core/row_marks.hpp>
#include <lod/core/target.hpp>

#include <concepts>
#include <cstdint>
#include <type_traits>

namespace lod::inline LOD_INTERFACE::kernel {

template <class T>
struct AccumulatorOf {
  using type = std::conditional_t<std::integral<T>, std::int64_t, float>;
};
template <>
struct AccumulatorOf<double> {
  using type = double;
};
/// The type in which numbers of type T are computed: double for itself, float for the other floating-point types, int64
/// for integers and bool.
template <class T>
using Accumulator = typename AccumulatorOf<T>::type;

/// Whether sums of numbers of type T may be requested in the wider type U.
template <class T, class U>
inline constexpr bool has_wide_sums =
    !std::same_as<T, U> && std::same_as<Accumulator<T>, U> && (!std::integral<T> || sizeof(T) < sizeof(U));
/// A compile error if they may not.
template <class T, class U>
LOD_TAGGED constexpr void check_wide_sums() noexcept {
  static_assert(has_wide_sums<T, U>,
                "sums of a type of their own have the one that they are computed in: std::int64_t of bool and of "
                "integers of up to 32 bits, float of float16 and bfloat16");
}

/// Sequences as kernels see them: sequence i has the rows [offsets[i] - first, offsets[i+1] - first) of the
/// accompanying values, where `first` is offsets[0]. So the offsets of a slice can be used as they are. The other
/// members are for code that cannot read the offsets, such as the CPU for sequences on a GPU.
struct Segments {
  const std::int64_t* offsets = nullptr;
  std::int64_t size = 0;
  std::int64_t max_rows = 0;  ///< no sequence is longer
  std::int64_t first = 0;     ///< offsets[0]
  std::int64_t row_count = 0;
  detail::RowMarks marks = {};  ///< on a GPU, if they are the sequences of a LoD's level

  LOD_TAGGED Segments() = default;
  /// A number of sequences, whose offsets the caller can read.
  LOD_TAGGED Segments(const std::int64_t* from, std::int64_t sequences, std::int64_t longest) noexcept
      : Segments(from, sequences, longest, from[0], from[sequences] - from[0]) {}
  LOD_TAGGED Segments(const std::int64_t* from, std::int64_t sequences, std::int64_t longest, std::int64_t begin,
                      std::int64_t rows) noexcept
      : offsets(from), size(sequences), max_rows(longest), first(begin), row_count(rows) {}
  /// The same, with their offsets, and marks if there are any, at other addresses.
  LOD_TAGGED Segments at(const std::int64_t* address, const detail::RowMarks& with = {}) const noexcept {
    Segments copy = *this;
    copy.offsets = address;
    copy.marks = with;
    return copy;
  }

  /// No sequences. A CPU kernel that is run with them writes nothing, but allocates the scratch memory for all
  /// sequences, so that it is available when the kernel is run with all.
  LOD_TAGGED Segments none() const noexcept {
    Segments copy = *this;
    copy.size = 0;
    return copy;
  }

  /// Whether every sequence has one row.
  LOD_TAGGED bool have_a_row_each() const noexcept { return max_rows == 1 && row_count == size; }
  LOD_TAGGED LOD_HOST_DEVICE std::int64_t rows() const noexcept { return row_count; }
  LOD_TAGGED LOD_HOST_DEVICE std::int64_t begin(std::int64_t i) const noexcept { return offsets[i] - first; }
  LOD_TAGGED LOD_HOST_DEVICE std::int64_t length(std::int64_t i) const noexcept { return offsets[i + 1] - offsets[i]; }
};

/// A kernel in the compiled libraries: `Types` are the first template arguments of its `run`, after the executor's
/// type.
template <class Tag, class... Types>
struct Instance {};
/// Any number of them, or of lists of them.
template <class... Each>
struct Instances {};

}  // namespace lod::inline LOD_INTERFACE::kernel

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET {

/// Chosen if no back end has an overload for the executor: a compile error.
template <class Tag, class E, class... A>
void launch(Tag, const E&, const A&...) {
  static_assert(sizeof(E) == 0,
                "no kernel of this operation for this executor: include its back end, <lod/cpu.hpp>, <lod/thrust.hpp> "
                "or, for nvcc, <lod/cuda.cuh>, or link lodtensor::cuda; lod::supports says what there is");
}

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET
