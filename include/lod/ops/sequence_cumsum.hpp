// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup row_preserving
/// Running sums inside each sequence.
#pragma once

#include <lod/infer.hpp>
#include <lod/kernel.hpp>
#include <lod/output.hpp>
#include <lod/supports.hpp>
#include <lod/target.hpp>

#include <cstdint>

namespace lod::op {
struct sequence_cumsum : elements::Arithmetic {};
struct sequence_cumsum_grad : elements::Arithmetic {};
}  // namespace lod::op

namespace lod {

/// The options of `sequence_cumsum`.
struct CumsumOptions {
  bool exclusive = false;  ///< a row itself does not count for its sum: that of the first row is 0
  bool reverse = false;    ///< from the last row to the first
  int level = -1;          ///< the level in whose sequences sums run
};

}  // namespace lod

namespace lod::inline LOD_TARGET {

namespace kernel {
/// Scalar rows of a leaf are summed in groups of so many, and the groups' sums then joined.
inline constexpr std::int64_t cumsum_group_rows = 64;

/// run(executor, x, sequences, row_size, exclusive, reverse, y); y may be x.
template <class Executor>
struct SequenceCumsum : Missing<Executor> {};
}  // namespace kernel

/// The sum of each row and those before it in its sequence of `level`, for each column on its own; row shape and LoD as
/// x. With `exclusive` of those before it only, with `reverse` of those after it.
///
/// A sum of negative zeros is a negative zero; exclusive sums begin with 0. Integers wrap around in their type. A sum
/// that becomes infinite stays so, or NaN, in what follows.
///
/// Sums are computed in float for float16 and bfloat16, in int64 for integers and bool, and rounded when they are
/// written. They are made of fixed parts, counted from the start of the sequence and joined with compensation: the bits
/// depend neither on threads nor on the rest of the batch, and the error does not grow with the length. One pass, two
/// over sequences that several threads share. `y` may be x's own tensor (or the view that x is), but overlap in no
/// other way. Throws InvalidLoD where x has no level, OutOfRange for the level.
template <Executor E, LoDTensorLike X, class Y>
void sequence_cumsum_into(const E& executor, const X& x, const CumsumOptions& options, Y&& y) {
  detail::check_elements<op::sequence_cumsum, value_type_t<X>>();
  const auto view = x.view();
  operation::check_has_level(view, "sequence_cumsum");
  const int level = detail::resolve_level(options.level, view.levels(), "sequence_cumsum");
  const auto out =
      operation::prepare<value_type_t<X>>(executor, "sequence_cumsum", y, operation::SameLevels{view.lod_view()},
                                          view.row_shape(), {operation::in_place("x", view)});
  kernel::SequenceCumsum<E>::run(executor, view.data(), operation::segments(executor, view, level), view.row_size(),
                                 options.exclusive, options.reverse, out.data());
}
template <Executor E, LoDTensorLike X, class Y>
void sequence_cumsum_into(const E& executor, const X& x, Y&& y) {
  sequence_cumsum_into(executor, x, CumsumOptions{}, y);
}
template <Executor E, LoDTensorLike X>
[[nodiscard]] LoDTensor<value_type_t<X>, device_t<X>> sequence_cumsum(const E& executor, const X& x,
                                                                      const CumsumOptions& options = {}) {
  LoDTensor<value_type_t<X>, device_t<X>> y(executor.resource());
  sequence_cumsum_into(executor, x, options, y);
  return y;
}
template <LoDTensorLike X>
[[nodiscard]] auto sequence_cumsum(const X& x, const CumsumOptions& options = {}) {
  return sequence_cumsum(default_executor<device_t<X>>(), x, options);
}

/// The gradient of `sequence_cumsum` with the same options: the running sums of dy, which has the levels of the result,
/// the other way round. Otherwise as `sequence_cumsum`.
template <Executor E, LoDTensorLike DY, class DX>
void sequence_cumsum_grad_into(const E& executor, const DY& dy, const CumsumOptions& options, DX&& dx) {
  CumsumOptions back = options;
  back.reverse = !options.reverse;
  detail::with_name("sequence_cumsum_grad", [&] { sequence_cumsum_into(executor, dy, back, dx); });
}
template <Executor E, LoDTensorLike DY, class DX>
void sequence_cumsum_grad_into(const E& executor, const DY& dy, DX&& dx) {
  sequence_cumsum_grad_into(executor, dy, CumsumOptions{}, dx);
}
template <Executor E, LoDTensorLike DY>
[[nodiscard]] LoDTensor<value_type_t<DY>, device_t<DY>> sequence_cumsum_grad(const E& executor, const DY& dy,
                                                                             const CumsumOptions& options = {}) {
  LoDTensor<value_type_t<DY>, device_t<DY>> dx(executor.resource());
  sequence_cumsum_grad_into(executor, dy, options, dx);
  return dx;
}
template <LoDTensorLike DY>
[[nodiscard]] auto sequence_cumsum_grad(const DY& dy, const CumsumOptions& options = {}) {
  return sequence_cumsum_grad(default_executor<device_t<DY>>(), dy, options);
}

/// What `sequence_cumsum` gives, described: see <lod/infer.hpp>.
inline LoDTensorDesc infer_sequence_cumsum(const LoDTensorDesc& x, const CumsumOptions& options = {}) {
  const infer::Batch y = infer::batch_for<op::sequence_cumsum>(x, "sequence_cumsum");
  y.level(options.level, "sequence_cumsum");
  return y;
}

}  // namespace lod::inline LOD_TARGET
