// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup row_preserving
/// Scans of sequences by a function of the user's, on every executor.
#pragma once

#include <lod/core/target.hpp>
#include <lod/ops/kernel.hpp>
#include <lod/ops/output.hpp>
#include <lod/ops/staging.hpp>

#include <cstdint>
#include <type_traits>

namespace lod::inline LOD_INTERFACE {

/// The options of `scan_sequences`.
struct ScanOptions {
  bool reverse = false;  ///< from the last row to the first
  int level = -1;        ///< the level whose sequences are scanned; by default the last
};

}  // namespace lod::inline LOD_INTERFACE

namespace lod::inline LOD_INTERFACE::kernel {
/// run(executor, x, sequences, row_size, op, reverse, y): y may be x.
struct ScanSequences {
  static constexpr bool in_headers_only = true;  ///< it calls a function of the caller's
  static constexpr bool calls_on_device = true;  ///< by the threads that compute, so on a GPU by its own
};
}  // namespace lod::inline LOD_INTERFACE::kernel

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {

/// For each row the reduction of it and the rows before it in its sequence of `level`, column by column, by a function
/// of the user's: y[0] = x[0], y[t] = op(y[t - 1], x[t]). Elements, row shape and LoD as x. With `reverse` it runs from
/// the last row to the first: y[t] = op(y[t + 1], x[t]).
///
///     const auto greatest = lod::scan_sequences(x, [](float a, float b) { return std::max(a, b); });
///
/// op must be associative; it need not be commutative, since its first argument comes from the rows that the scan came
/// to first. Elements may be structures: several numbers can be scanned as one.
///
/// The grouping depends only on the length of the sequence: where op rounds, the bits depend neither on threads nor on
/// the rest of the batch. Threads share long sequences. Several threads call op at a time. If op throws on a
/// CpuExecutor, an exception is passed on, and y has its new shape and any numbers; on other executors it must not
/// throw. On GPUs the call is compiled by nvcc, with <lod/cuda.cuh>, and op is a function for both sides:
/// `[] __host__ __device__ (float a, float b) {...}`.
///
/// One pass over memory, two over sequences that several threads share. `y` may be x's own tensor (or the same view),
/// but must not overlap x otherwise. Throws InvalidLoD if x has no level, OutOfRange for the level.
template <Executor E, LoDTensorLike X, class Op, class Y>
void scan_sequences_into(const E& executor, const X& x, Op op, const ScanOptions& options, Y&& y) {
  using T = value_type_t<X>;
  static_assert(std::is_invocable_r_v<T, const Op&, const T&, const T&>,
                "scan_sequences: op takes two elements of x and gives one");
  constexpr const char* name = "scan_sequences";
  const auto view = x.view();
  operation::check_has_level(view, name);
  const int level = detail::resolve_level(options.level, view.levels(), name);
  const auto out = operation::prepare<T>(executor, name, y, operation::SameLevels{view.lod_view()}, view.row_shape(),
                                         {operation::in_place("x", view)});
  launch(kernel::ScanSequences(), executor, view.data(), operation::segments(executor, view, level), view.row_size(),
         op, options.reverse, out.data());
}
template <Executor E, LoDTensorLike X, class Op, class Y>
void scan_sequences_into(const E& executor, const X& x, Op op, Y&& y) {
  scan_sequences_into(executor, x, op, ScanOptions{}, y);
}
template <Executor E, LoDTensorLike X, class Op>
[[nodiscard]] LoDTensor<value_type_t<X>, device_t<X>> scan_sequences(const E& executor, const X& x, Op op,
                                                                     const ScanOptions& options = {}) {
  LoDTensor<value_type_t<X>, device_t<X>> y(executor.resource());
  scan_sequences_into(executor, x, op, options, y);
  return y;
}
template <LoDTensorLike X, class Op>
[[nodiscard]] LoDTensor<value_type_t<X>, device_t<X>> scan_sequences(const X& x, Op op,
                                                                     const ScanOptions& options = {}) {
  return scan_sequences(default_executor<device_t<X>>(), x, op, options);
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET
