// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup row_preserving
/// Rotary embedding: pairs of numbers of a row, turned by angles that grow with the row's position in its sequence.
#pragma once

#include <lod/core/error.hpp>
#include <lod/core/scalar.hpp>
#include <lod/core/shape.hpp>
#include <lod/core/target.hpp>
#include <lod/ops/argument_list.hpp>
#include <lod/ops/declaration.hpp>
#include <lod/ops/infer.hpp>
#include <lod/ops/kernel.hpp>
#include <lod/ops/output.hpp>
#include <lod/ops/staging.hpp>
#include <lod/ops/supports.hpp>

#include <cmath>
#include <cstdint>
#include <limits>

namespace lod::inline LOD_INTERFACE::op {
struct rotary_embedding : elements::Floating {
  static constexpr Text text{"x", "x with pairs of numbers turned by angles that grow with the row's position."};
};
struct rotary_embedding_grad : elements::Floating {
  static constexpr Text text{"dy", "The gradient of `rotary_embedding`, with its options: pairs are turned back."};
};
}  // namespace lod::inline LOD_INTERFACE::op

namespace lod::inline LOD_INTERFACE {

/// The options of `rotary_embedding` and of its gradient.
template <class T, class Device = Cpu>
struct RotaryOptions {
  std::int64_t heads = 1;    ///< the equal parts of a row, each of which is turned in the same way
  double base = 10000;       ///< pair i of a head of `dim` numbers is turned by base^(-2i / dim) a position
  bool interleaved = false;  ///< whether a pair are numbers 2i and 2i + 1 of a head, not i and i + dim / 2
  OptionalTensor<std::int64_t, Device> positions = nullptr;  ///< a position for each row, instead of its place
};
/// The options of `infer_rotary_embedding`: those of `rotary_embedding`, with the positions described.
struct RotaryDescOptions {
  std::int64_t heads = 1;
  double base = 10000;
  bool interleaved = false;
  const LoDTensorDesc* positions = nullptr;
};

}  // namespace lod::inline LOD_INTERFACE

namespace lod::inline LOD_INTERFACE::kernel {
/// How the rows are turned.
struct Turns {
  std::int64_t heads;
  std::int64_t pairs;         ///< of a head
  const double* frequencies;  ///< of each pair: its angle at position 1
  bool interleaved;
  bool back;
};
/// run(executor, x, rows, sequences, positions, turns, y): without positions, those in the sequences; y may be x.
struct RotaryEmbedding {};
}  // namespace lod::inline LOD_INTERFACE::kernel

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {

namespace operation {

/// Throws OutOfRange for invalid options.
inline void check_rotary_options(std::int64_t heads, double base, const char* name) {
  if (heads < 1) throw OutOfRange(detail::text({name, ": ", heads, " heads, expected 1 or more"}));
  if (!(base > 0 && base <= std::numeric_limits<double>::max())) {
    throw OutOfRange(detail::text({name, ": base ", to_string(Scalar(base)), ", expected a finite number above 0"}));
  }
}
/// Throws ShapeMismatch unless rows consist of so many heads of pairs.
inline void check_heads(std::int64_t row_size, std::int64_t heads, const char* name) {
  if (row_size % heads != 0 || row_size / heads % 2 != 0) {
    throw ShapeMismatch(
        detail::text({name, ": rows of ", row_size, " numbers, expected ", heads, " heads of an even number each"}));
  }
}

/// base^(-i / pairs). What the rounded exponent is off would cost the result several digits of its last bits, which
/// large positions multiply.
inline double rotary_frequency(double base, std::int64_t i, std::int64_t pairs) {
  const auto count = static_cast<double>(pairs), number = static_cast<double>(i);
  const double exponent = number / count, rest = std::fma(-exponent, count, number) / count;
  const double frequency = std::pow(base, -exponent);
  return frequency - frequency * rest * std::log(base);
}

/// Turns the rows of x, or turns them back.
template <Executor E, class T>
void turn(const E& executor, const char* name, const OutputName& output, const Input<E, T>& x, const char* input,
          const RotaryOptions<T, typename E::device>& options, bool back, const To<E, T>& y) {
  check_rotary_options(options.heads, options.base, name);
  check_heads(x.row_size(), options.heads, name);
  if (options.positions) {
    check_row_count(options.positions->rows(), x.rows(), {name, "positions"});
    check_row_shape(options.positions->row_size() == 1 ? Shape() : options.positions->row_shape(), Shape(),
                    {name, "positions"});
  } else {
    check_has_level(x, name);
  }
  const std::int64_t pairs = x.row_size() / options.heads / 2;
  const Array<E, double> frequencies(executor, pairs);
  for (std::int64_t i = 0; i < pairs; ++i) {
    frequencies[i] = rotary_frequency(options.base, i, pairs);
  }
  const auto out = prepare(executor, output, y, SameLevels{x.lod_view()}, x.row_shape(),
                           {in_place(input, x), {"positions", options.positions}});
  if (x.rows() == 0 || pairs == 0) return;
  const kernel::Segments sequences = options.positions ? kernel::Segments() : segments(executor, x, x.levels() - 1);
  launch(kernel::RotaryEmbedding(), executor, x.data(), x.rows(), sequences, options.positions.data(),
         kernel::Turns{options.heads, pairs, frequencies.on_device(), options.interleaved, back}, out.data());
}

template <>
struct Declared<op::rotary_embedding> : Takes<Tensor>, WithTyped<RotaryOptions>, Launches<kernel::RotaryEmbedding> {
  static constexpr const char* name = "rotary_embedding";
  using Gradient = op::rotary_embedding_grad;
  template <Executor E, class T>
  static void run(const E& executor, const Input<E, T>& x, const RotaryOptions<T, typename E::device>& options,
                  const To<E, T>& y) {
    turn<E, T>(executor, name, name, x, "x", options, false, y);
  }
};

template <>
struct Declared<op::rotary_embedding_grad> : Takes<Tensor>, WithTyped<RotaryOptions> {
  static constexpr const char* name = "rotary_embedding_grad";
  template <Executor E, class T>
  static void run(const E& executor, const Input<E, T>& dy, const RotaryOptions<T, typename E::device>& options,
                  const To<E, T>& dx) {
    turn<E, T>(executor, name, {name, "dx"}, dy, "dy", options, true, dx);
  }
};

}  // namespace operation

/// x with the pairs of each row turned: (a, b) becomes (a cos(t) - b sin(t), b cos(t) + a sin(t)). The row consists of
/// `heads` heads of `dim` numbers each, an even number. Pair i of a head, i = 0, ..., dim / 2 - 1, are its numbers i
/// and i + dim / 2, or 2i and 2i + 1 if `interleaved`; its angle t, in radians, is position * base^(-2i / dim). The
/// position of a row is its place in its sequence of the last level, from 0 on, or what `positions` says, which has one
/// int64 for each row, of any sign. So the product of two turned rows depends on their distance alone. Row shape and
/// LoD as x; empty sequences have no rows.
///
/// Angles are computed in double, so that positions in the millions are turned exactly, too: with an error of the
/// angle's last bits. Cosine and sine are rounded to float for all elements but double; float16 and bfloat16 are
/// computed as float and rounded once. The bits of a row depend only on the row and its position. NaN and infinite
/// numbers spoil their pair alone.
///
/// One pass; cosines and sines of a row serve all its heads. `y` may be x's own tensor, but must not overlap the
/// arguments otherwise. Throws InvalidLoD if x has no level and there are no positions, OutOfRange for less than one
/// head and for a base that is not above 0 and finite, ShapeMismatch for rows that are not so many heads of an even
/// number, and unless there is a position for each row.
inline constexpr operation::Call<op::rotary_embedding> rotary_embedding{};
inline constexpr operation::CallInto<op::rotary_embedding> rotary_embedding_into{};

/// The gradient of `rotary_embedding` with the same options: dy with its pairs turned back. dy has the levels of the
/// result, from which positions follow unless they are given, and dx has them, too. `dx` may be dy's own tensor. Throws
/// as `rotary_embedding`.
inline constexpr operation::Call<op::rotary_embedding_grad> rotary_embedding_grad{};
inline constexpr operation::CallInto<op::rotary_embedding_grad> rotary_embedding_grad_into{};

/// The result of `rotary_embedding`, described: see <lod/infer.hpp>.
inline LoDTensorDesc infer_rotary_embedding(const LoDTensorDesc& x, const RotaryDescOptions& options = {}) {
  const infer::Batch y = infer::batch_for<op::rotary_embedding>(x, "rotary_embedding");
  operation::check_rotary_options(options.heads, options.base, "rotary_embedding");
  const std::int64_t row_size = y.row_size("rotary_embedding");
  if (row_size != infer::unknown) operation::check_heads(row_size, options.heads, "rotary_embedding");
  if (options.positions) {
    const infer::Batch positions(*options.positions, "rotary_embedding: positions");
    infer::check_type(positions.type, DataType::INT64, "rotary_embedding: positions");
    infer::check_row_count(positions.rows, y.rows, "rotary_embedding: positions");
    positions.check_scalar_rows("rotary_embedding: positions", "one position a row");
  } else {
    y.check_has_level("rotary_embedding");
  }
  return y;
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET
