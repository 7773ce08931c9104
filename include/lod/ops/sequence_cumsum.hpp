// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup row_preserving
/// Running sums inside each sequence.
#pragma once

#include <lod/ops/declaration.hpp>
#include <lod/ops/infer.hpp>

#include <concepts>
#include <cstdint>

namespace lod::inline LOD_INTERFACE::op {
struct sequence_cumsum : elements::Arithmetic {
  static constexpr Text text{"x", "The sum of each row and those before it in its sequence."};
};
struct sequence_cumsum_grad : elements::Arithmetic {
  static constexpr Text text{"dy", "The gradient of `sequence_cumsum`: running sums in the opposite direction."};
};
}  // namespace lod::inline LOD_INTERFACE::op

namespace lod::inline LOD_INTERFACE {

/// The options of `sequence_cumsum`.
struct CumsumOptions {
  bool exclusive = false;  ///< whether a row's sum leaves the row itself out: the first sum is then 0
  bool reverse = false;    ///< from the last row to the first
  int level = -1;          ///< the level whose sequences are summed; by default the last
};

}  // namespace lod::inline LOD_INTERFACE

namespace lod::inline LOD_INTERFACE::kernel {
/// Scalar rows of a leaf are summed in groups of this size, whose sums are then joined.
inline constexpr std::int64_t cumsum_group_rows = 64;

/// run(executor, x, sequences, row_size, exclusive, reverse, y): y may be x, or be of type `Accumulator<T>`.
struct SequenceCumsum {};
}  // namespace lod::inline LOD_INTERFACE::kernel

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {

namespace operation {

template <class Op, bool other_way>
struct Cumsum : Takes<Tensor>, With<CumsumOptions>, Gives<Sums> {
  template <class T>
  using Kernels = kernel::Instances<kernel::Instance<kernel::SequenceCumsum, T, T>,
                                    kernel::Instance<kernel::SequenceCumsum, T, kernel::Accumulator<T>>>;
  template <Executor E, class T, class U>
  static void run(const E& executor, const Input<E, T>& x, const CumsumOptions& options, const To<E, U>& y) {
    const char* const what = Declared<Op>::name;
    check_has_level(x, what);
    const int level = detail::resolve_level(options.level, x.levels(), what);
    const auto out =
        prepare(executor, what, y, SameLevels{x.lod_view()}, x.row_shape(), {in_place("x", x, std::same_as<T, U>)});
    launch(kernel::SequenceCumsum(), executor, x.data(), segments(executor, x, level), x.row_size(), options.exclusive,
           options.reverse != other_way, out.data());
  }
};
template <>
struct Declared<op::sequence_cumsum> : Cumsum<op::sequence_cumsum, false> {
  static constexpr const char* name = "sequence_cumsum";
  using Gradient = op::sequence_cumsum_grad;
};
template <>
struct Declared<op::sequence_cumsum_grad> : Cumsum<op::sequence_cumsum_grad, true> {
  static constexpr const char* name = "sequence_cumsum_grad";
};

}  // namespace operation

/// Running sums: for each row the sum of it and the rows before it in its sequence of `level`, column by column; row
/// shape and LoD as x. With `exclusive` the row itself is left out; with `reverse` the sums run over the rows after it.
///
/// A sum of negative zeros is a negative zero; exclusive sums begin with 0. Integers wrap around in their type, and a
/// sum of bools is true if any is: for counts and wider sums see below. Once a sum is infinite, the sums after it are
/// infinite or NaN.
///
/// Sums are computed in float for float16 and bfloat16, in int64 for integers and bool, and rounded when they are
/// written. They consist of fixed parts, counted from the start of the sequence and joined with compensation: the bits
/// depend neither on threads nor on the rest of the batch, and the error does not grow with the length. One pass, two
/// over sequences that several threads share. `y` may be x's own tensor (or the same view) if it has the same type, but
/// must not overlap x otherwise. Throws InvalidLoD if x has no level, OutOfRange for the level.
template <Executor E, LoDTensorLike X>
[[nodiscard]] auto sequence_cumsum(const E& executor, const X& x, const CumsumOptions& options = {}) {
  return operation::Call<op::sequence_cumsum>()(executor, x, options);
}
template <LoDTensorLike X>
[[nodiscard]] auto sequence_cumsum(const X& x, const CumsumOptions& options = {}) {
  return operation::Call<op::sequence_cumsum>()(x, options);
}
inline constexpr operation::CallInto<op::sequence_cumsum> sequence_cumsum_into{};

/// Sums of type U, in which they are computed: `sequence_cumsum<std::int64_t>` of bool and of integers of up to 32
/// bits, `sequence_cumsum<float>` of float16 and bfloat16. So sums of bools are counts, and no sum wraps around.
/// `sequence_cumsum_into` with a y of that type does the same. The gradient is `sequence_cumsum_grad` of dy, which has
/// elements of type U. Throws as above.
template <class U, Executor E, LoDTensorLike X>
[[nodiscard]] LoDTensor<U, device_t<X>> sequence_cumsum(const E& executor, const X& x,
                                                        const CumsumOptions& options = {}) {
  kernel::check_wide_sums<value_type_t<X>, U>();
  LoDTensor<U, device_t<X>> y(executor.resource());
  sequence_cumsum_into(executor, x, options, y);
  return y;
}
template <class U, LoDTensorLike X>
[[nodiscard]] auto sequence_cumsum(const X& x, const CumsumOptions& options = {}) {
  return sequence_cumsum<U>(default_executor<device_t<X>>(), x, options);
}

/// The gradient of `sequence_cumsum` with the same options: the running sums of dy, which has the levels of the result,
/// in the opposite direction. Otherwise as `sequence_cumsum`.
inline constexpr operation::Call<op::sequence_cumsum_grad> sequence_cumsum_grad{};
inline constexpr operation::CallInto<op::sequence_cumsum_grad> sequence_cumsum_grad_into{};

/// The result of `sequence_cumsum`, described: see <lod/infer.hpp>.
inline LoDTensorDesc infer_sequence_cumsum(const LoDTensorDesc& x, const CumsumOptions& options = {}) {
  const infer::Batch y = infer::batch_for<op::sequence_cumsum>(x, "sequence_cumsum");
  y.level(options.level, "sequence_cumsum");
  return y;
}
/// The same for `sequence_cumsum<U>`, with the DataType of U as `sums`. Throws if x has no such sums.
inline LoDTensorDesc infer_sequence_cumsum(const LoDTensorDesc& x, DataType sums, const CumsumOptions& options = {}) {
  return infer::with_wide_sums(infer_sequence_cumsum(x, options), sums, "sequence_cumsum");
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET
