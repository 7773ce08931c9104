// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup restructuring
/// Reshaping: the values of each sequence cut into rows of another size.
#pragma once

#include <lod/core/error.hpp>
#include <lod/core/lod_index.hpp>
#include <lod/core/shape.hpp>
#include <lod/ops/declaration.hpp>
#include <lod/ops/infer.hpp>
#include <lod/ops/rearrange.hpp>
#include <lod/ops/run_copy.hpp>

#include <cstddef>
#include <cstdint>
#include <string>

namespace lod::inline LOD_INTERFACE::op {
struct sequence_reshape : elements::Any {
  static constexpr Text text{"x, new_row_size", "The numbers of each sequence as rows of another size."};
};
struct sequence_reshape_grad : elements::Any {
  static constexpr Text text{"dy, lod, row_shape"};
};
}  // namespace lod::inline LOD_INTERFACE::op

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {

namespace operation {

template <>
struct Declared<op::sequence_reshape> : Takes<Tensor, std::int64_t> {
  static constexpr const char* name = "sequence_reshape";
  using Gradient = op::sequence_reshape_grad;
  template <Executor E, class T>
  static void run(const E& executor, const Input<E, T>& x, std::int64_t new_row_size, const To<E, T>& y) {
    check_has_level(x, name);
    if (new_row_size < 1) {
      throw OutOfRange(detail::text({name, ": new_row_size ", new_row_size, ", expected 1 or more"}));
    }
    const LoDView lod = x.lod_view();
    const int last = lod.levels() - 1;
    NewLevels levels(executor.workspace(), lod, last, 1, lod.size(last));
    const auto rows = lod.offsets(last);
    const auto new_rows = levels.add(lod.size(last));
    for (std::size_t i = 0; i + 1 < rows.size(); ++i) {
      const std::int64_t values = (rows[i + 1] - rows[i]) * x.row_size();
      if (values % new_row_size != 0) {
        throw ShapeMismatch(detail::text({name, ": sequence ", i, " of level ", last, " has ", values,
                                          " values, expected a multiple of new_row_size, ", new_row_size}));
      }
      new_rows[i + 1] = new_rows[i] + values / new_row_size;
    }
    const auto out = prepare(executor, name, y, levels, Shape{new_row_size}, {in_place("x", x)});
    copy_rows(executor, x, out.data());
  }
};

template <>
struct Declared<op::sequence_reshape_grad> : Takes<Tensor, LoD, Shape> {
  static constexpr const char* name = "sequence_reshape_grad";
  template <Executor E, class T>
  static void run(const E& executor, const Input<E, T>& dy, const LoD& lod, const Shape& row_shape,
                  const To<E, T>& dx) {
    check_has_level(lod, {name, "lod"});
    std::int64_t values = 0;
    const bool beyond = __builtin_mul_overflow(lod.rows(), row_shape.elements(), &values);
    if (beyond || dy.rows() * dy.row_size() != values) {
      const std::string expected =
          beyond ? detail::text({lod.rows(), " * ", row_shape.elements()}) : std::to_string(values);
      throw ShapeMismatch(
          detail::text({name, ": dy: ", dy.rows() * dy.row_size(), " values, expected ", expected, ", as x has"}));
    }
    const auto out = prepare(executor, {name, "dx"}, dx, SameLevels{lod.view()}, row_shape, {in_place("dy", dy)});
    copy_rows(executor, dy, out.data());
  }
};

}  // namespace operation

/// The values of each sequence of the last level, in order, as rows of `new_row_size` elements: row shape
/// {new_row_size}, as many levels as x, those above the last unchanged. Semantics: PaddlePaddle's sequence_reshape,
/// with any number of levels.
///
/// `y` may be x's own tensor, but must not overlap x otherwise. Throws InvalidLoD if x has no level, OutOfRange for a
/// row size under 1, ShapeMismatch if the values of a sequence are not a whole number of rows.
inline constexpr operation::Call<op::sequence_reshape> sequence_reshape{};
inline constexpr operation::CallInto<op::sequence_reshape> sequence_reshape_into{};

/// The gradient of `sequence_reshape` for an x with the levels of `lod` and rows of `row_shape`: the values of dy, with
/// these levels and this shape. The levels of dy are ignored. `dx` may be dy's own tensor, but must not overlap dy
/// otherwise. Throws ShapeMismatch unless dy has as many values as x.
inline constexpr operation::Call<op::sequence_reshape_grad> sequence_reshape_grad{};
inline constexpr operation::CallInto<op::sequence_reshape_grad> sequence_reshape_grad_into{};

/// The result of `sequence_reshape`, described: see <lod/infer.hpp>.
inline LoDTensorDesc infer_sequence_reshape(const LoDTensorDesc& x, std::int64_t new_row_size) {
  infer::Batch y(x, "sequence_reshape");
  y.check_has_level("sequence_reshape");
  if (new_row_size < 1) {
    throw OutOfRange(detail::text({"sequence_reshape: new_row_size ", new_row_size, ", expected 1 or more"}));
  }
  const std::int64_t values = y.elements("sequence_reshape");
  if (values != infer::unknown && values % new_row_size != 0) {
    throw ShapeMismatch(detail::text({"sequence_reshape: all sequences together have ", values,
                                      " values, expected a multiple of new_row_size, ", new_row_size}));
  }
  y.rows = values == infer::unknown ? infer::unknown : values / new_row_size;
  y.row_shape = {new_row_size};
  return y;
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET
