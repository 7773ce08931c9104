// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup reductions
/// Reductions of sequences by a function of the user's, on every executor.
#pragma once

#include <lod/core/target.hpp>
#include <lod/ops/kernel.hpp>
#include <lod/ops/output.hpp>
#include <lod/ops/staging.hpp>

#include <concepts>
#include <cstdint>
#include <type_traits>

namespace lod::inline LOD_INTERFACE {

/// The options of `reduce_sequences`.
struct ReduceOptions {
  int level = -1;  ///< the level whose sequences are reduced; by default the last
};

}  // namespace lod::inline LOD_INTERFACE

namespace lod::inline LOD_INTERFACE::kernel {
/// run(executor, x, sequences, row_size, initial, op, y)
struct ReduceSequences {
  static constexpr bool in_headers_only = true;  ///< it calls a function of the caller's
  static constexpr bool calls_on_device = true;  ///< by the threads that compute, so on a GPU by its own
};
}  // namespace lod::inline LOD_INTERFACE::kernel

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {

/// The numbers of each sequence of `level` reduced to one, column by column, by a function of the user's:
/// y = op(initial, op(op(x[0], x[1]), ...)), in one row for each sequence. Row shape as x, elements of the type U of
/// `initial`; LoD: the levels of x above `level`.
///
/// Numbers are converted to U before they are reduced, and op(U, U) gives a U. op must be associative and commutative:
/// how numbers are grouped, and in which order they come, is the library's choice. An empty sequence gives `initial`,
/// which is used once for each other sequence.
///
///     const auto bits = lod::reduce_sequences(x, 0u, [](unsigned a, unsigned b) { return a | b; });
///     const auto product = lod::reduce_sequences(x, 1.0, std::multiplies<double>());
///
/// The grouping depends only on the length of the sequence and on the kind of executor: where op rounds, the bits
/// depend neither on threads nor on the rest of the batch. Threads share long sequences. Several threads call op at a
/// time. If op throws on a CpuExecutor, an exception is passed on, and y has its new shape and any numbers; on other
/// executors it must not throw. On GPUs the call is compiled by nvcc, with <lod/cuda.cuh>, and op is a function for
/// both sides:
/// `[] __host__ __device__ (float a, float b) {...}`.
///
/// x is read once. `y` must not overlap x. Throws InvalidLoD if x has no level, OutOfRange for the level.
template <Executor E, LoDTensorLike X, class U, class Op, class Y>
void reduce_sequences_into(const E& executor, const X& x, const U& initial, Op op, const ReduceOptions& options,
                           Y&& y) {
  static_assert(std::is_invocable_r_v<U, const Op&, const U&, const U&>,
                "reduce_sequences: op takes two numbers of the type of `initial` and gives one");
  constexpr const char* name = "reduce_sequences";
  const auto view = x.view();
  operation::check_has_level(view, name);
  const int level = detail::resolve_level(options.level, view.levels(), name);
  const auto out = operation::prepare<U>(executor, name, y, operation::LevelsAbove{view.lod_view(), level},
                                         view.row_shape(), {{"x", view}});
  launch(kernel::ReduceSequences(), executor, view.data(), operation::segments(executor, view, level), view.row_size(),
         initial, op, out.data());
}
template <Executor E, LoDTensorLike X, class U, class Op, class Y>
void reduce_sequences_into(const E& executor, const X& x, const U& initial, Op op, Y&& y) {
  reduce_sequences_into(executor, x, initial, op, ReduceOptions{}, y);
}
template <Executor E, LoDTensorLike X, class U, class Op>
[[nodiscard]] LoDTensor<U, device_t<X>> reduce_sequences(const E& executor, const X& x, const U& initial, Op op,
                                                         const ReduceOptions& options = {}) {
  LoDTensor<U, device_t<X>> y(executor.resource());
  reduce_sequences_into(executor, x, initial, op, options, y);
  return y;
}
template <LoDTensorLike X, class U, class Op>
[[nodiscard]] LoDTensor<U, device_t<X>> reduce_sequences(const X& x, const U& initial, Op op,
                                                         const ReduceOptions& options = {}) {
  return reduce_sequences(default_executor<device_t<X>>(), x, initial, op, options);
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET
