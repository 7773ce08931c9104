// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup restructuring
/// Enumeration: at each row the window of rows that begins there.
#pragma once

#include <lod/error.hpp>
#include <lod/infer.hpp>
#include <lod/kernel.hpp>
#include <lod/output.hpp>
#include <lod/scalar.hpp>
#include <lod/shape.hpp>
#include <lod/supports.hpp>
#include <lod/target.hpp>

#include <cstdint>

namespace lod::inline LOD_INTERFACE::op {
struct sequence_enumerate : elements::Arithmetic {};
}  // namespace lod::inline LOD_INTERFACE::op

namespace lod::inline LOD_INTERFACE {

/// The options of `sequence_enumerate`.
struct EnumerateOptions {
  Scalar pad_value = 0;  ///< what comes after the end of a sequence
  int level = -1;        ///< the level whose sequences the windows do not leave; by default the last
};

}  // namespace lod::inline LOD_INTERFACE

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {

namespace kernel {
/// run(executor, x, sequences, window, pad_value, y)
template <class Executor>
struct SequenceEnumerate : Missing<Executor> {};
}  // namespace kernel

namespace operation {

inline void check_enumerate_window(std::int64_t window) {
  if (window < 1) {
    throw OutOfRange(detail::text({"sequence_enumerate: window ", window, ", expected 1 or more"}));
  }
}

}  // namespace operation

/// At each row the ids of `window` rows, from this one on: y[row] = {x[row], x[row + 1], ...}, and `pad_value` after
/// the end of its sequence of `level`. Row shape {window}, LoD as x. Rows of x are of size 1. Semantics: PaddlePaddle's
/// sequence_enumerate, with any level.
///
/// One pass. `y` must not overlap x. Throws InvalidLoD if x has no level, OutOfRange for the level, for a window under
/// 1 and for a `pad_value` that the type of the ids cannot hold, ShapeMismatch for another row size.
template <Executor E, LoDTensorLike X, class Y>
void sequence_enumerate_into(const E& executor, const X& x, std::int64_t window, const EnumerateOptions& options,
                             Y&& y) {
  detail::check_elements<op::sequence_enumerate, value_type_t<X>>();
  using T = value_type_t<X>;
  const auto view = x.view();
  operation::check_has_level(view, "sequence_enumerate");
  const int level = detail::resolve_level(options.level, view.levels(), "sequence_enumerate");
  operation::check_enumerate_window(window);
  if (view.row_size() != 1) {
    throw ShapeMismatch(
        detail::text({"sequence_enumerate: rows of shape ", to_string(view.row_shape()), ", expected one id a row"}));
  }
  const T pad_value = detail::checked<T>(options.pad_value, "sequence_enumerate", "pad_value");
  const auto out = operation::prepare<value_type_t<X>>(
      executor, "sequence_enumerate", y, operation::SameLevels{view.lod_view()}, Shape{window}, {{"x", view}});
  kernel::SequenceEnumerate<E>::run(executor, view.data(), operation::segments(executor, view, level), window,
                                    pad_value, out.data());
}
template <Executor E, LoDTensorLike X, class Y>
void sequence_enumerate_into(const E& executor, const X& x, std::int64_t window, Y&& y) {
  sequence_enumerate_into(executor, x, window, EnumerateOptions{}, y);
}
template <Executor E, LoDTensorLike X>
[[nodiscard]] LoDTensor<value_type_t<X>, device_t<X>> sequence_enumerate(const E& executor, const X& x,
                                                                         std::int64_t window,
                                                                         const EnumerateOptions& options = {}) {
  LoDTensor<value_type_t<X>, device_t<X>> y(executor.resource());
  sequence_enumerate_into(executor, x, window, options, y);
  return y;
}
template <LoDTensorLike X>
[[nodiscard]] auto sequence_enumerate(const X& x, std::int64_t window, const EnumerateOptions& options = {}) {
  return sequence_enumerate(default_executor<device_t<X>>(), x, window, options);
}

/// The result of `sequence_enumerate`, described: see <lod/infer.hpp>.
inline LoDTensorDesc infer_sequence_enumerate(const LoDTensorDesc& x, std::int64_t window,
                                              const EnumerateOptions& options = {}) {
  infer::Batch y = infer::batch_for<op::sequence_enumerate>(x, "sequence_enumerate");
  y.level(options.level, "sequence_enumerate");
  operation::check_enumerate_window(window);
  y.check_scalar_rows("sequence_enumerate", "one id a row");
  y.row_shape = {window};
  return y;
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET
