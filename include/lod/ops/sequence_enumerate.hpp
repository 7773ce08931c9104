// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup restructuring
/// Enumeration: at each row the window of rows that begins there.
#pragma once

#include <lod/core/error.hpp>
#include <lod/core/scalar.hpp>
#include <lod/core/shape.hpp>
#include <lod/ops/declaration.hpp>
#include <lod/ops/infer.hpp>

#include <cstdint>

namespace lod::inline LOD_INTERFACE::op {
struct sequence_enumerate : elements::Arithmetic {
  static constexpr Text text{"x, window", "For each row the ids of `window` rows from this one on."};
};
}  // namespace lod::inline LOD_INTERFACE::op

namespace lod::inline LOD_INTERFACE {

/// The options of `sequence_enumerate`.
struct EnumerateOptions {
  Scalar pad_value = 0;  ///< the ids after the end of a sequence
  int level = -1;        ///< the level whose sequences the windows stay within; by default the last
};

}  // namespace lod::inline LOD_INTERFACE

namespace lod::inline LOD_INTERFACE::kernel {
/// run(executor, x, sequences, window, pad_value, y)
struct SequenceEnumerate {};
}  // namespace lod::inline LOD_INTERFACE::kernel

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {

namespace operation {

inline void check_enumerate_window(std::int64_t window) {
  if (window < 1) {
    throw OutOfRange(detail::text({"sequence_enumerate: window ", window, ", expected 1 or more"}));
  }
}

template <>
struct Declared<op::sequence_enumerate>
    : Takes<Tensor, std::int64_t>, With<EnumerateOptions>, Launches<kernel::SequenceEnumerate> {
  static constexpr const char* name = "sequence_enumerate";
  template <Executor E, class T>
  static void run(const E& executor, const Input<E, T>& x, std::int64_t window, const EnumerateOptions& options,
                  const To<E, T>& y) {
    check_has_level(x, name);
    const int level = detail::resolve_level(options.level, x.levels(), name);
    check_enumerate_window(window);
    if (x.row_size() != 1) {
      throw ShapeMismatch(
          detail::text({name, ": rows of shape ", to_string(x.row_shape()), ", expected one id a row"}));
    }
    const T pad_value = detail::checked<T>(options.pad_value, name, "pad_value");
    const auto out = prepare(executor, name, y, SameLevels{x.lod_view()}, Shape{window}, {{"x", x}});
    launch(kernel::SequenceEnumerate(), executor, x.data(), segments(executor, x, level), window, pad_value,
           out.data());
  }
};

}  // namespace operation

/// For each row the ids of `window` rows from this one on: y[row] = {x[row], x[row + 1], ...}, with `pad_value` after
/// the end of the sequence of `level`. Row shape {window}, LoD as x. Rows of x are of size 1. Semantics: PaddlePaddle's
/// sequence_enumerate, with any level.
///
/// One pass. `y` must not overlap x. Throws InvalidLoD if x has no level, OutOfRange for the level, for a window under
/// 1 and for a `pad_value` that the type of the ids cannot hold, ShapeMismatch for any other row size.
inline constexpr operation::Call<op::sequence_enumerate> sequence_enumerate{};
inline constexpr operation::CallInto<op::sequence_enumerate> sequence_enumerate_into{};

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
