// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup row_preserving
/// Dropout: setting random numbers, or whole sequences, to 0 while a network is trained.
#pragma once

#include <lod/core/error.hpp>
#include <lod/core/scalar.hpp>
#include <lod/core/target.hpp>
#include <lod/ops/batch_levels.hpp>
#include <lod/ops/declaration.hpp>
#include <lod/ops/infer.hpp>
#include <lod/ops/kernel.hpp>
#include <lod/ops/output.hpp>
#include <lod/ops/staging.hpp>
#include <lod/ops/supports.hpp>

#include <cmath>
#include <cstdint>

namespace lod::inline LOD_INTERFACE::op {
struct sequence_dropout : elements::Floating {
  static constexpr Text text{"x", "x with numbers set to 0 with a probability, and the others scaled up."};
};
struct sequence_dropout_grad : elements::Floating {
  static constexpr Text text{"dy, x_levels", "The gradient of `sequence_dropout`, with its options."};
};
}  // namespace lod::inline LOD_INTERFACE::op

namespace lod::inline LOD_INTERFACE {

/// The options of `sequence_dropout`.
struct DropoutOptions {
  double probability = 0.5;      ///< the probability of becoming 0, in [0, 1]
  std::uint64_t seed = 0;        ///< the same seed drops the same numbers: use a new one for each training step
  bool whole_sequences = false;  ///< whether sequences of the last level are kept or dropped as a whole
};

}  // namespace lod::inline LOD_INTERFACE

namespace lod::inline LOD_INTERFACE::kernel {

/// Decides for each of the numbers 0, 1, 2, ... independently whether it is kept, by a counter-based generator,
/// SplitMix64.
struct DropoutRule {
  std::uint64_t key;
  std::uint64_t dropped;  ///< the number of cases, out of 2^53, in which a number is dropped
  double scale;           ///< the factor of numbers that are kept

  LOD_TAGGED static DropoutRule of(double probability, std::uint64_t seed) noexcept {
    const double scale = probability < 1 ? 1 / (1 - probability) : 0;
    return {mixed(seed), static_cast<std::uint64_t>(std::ceil(probability * 0x1p53)), scale};
  }
  LOD_TAGGED LOD_HOST_DEVICE bool keeps(std::int64_t number) const noexcept {
    return mixed(key + static_cast<std::uint64_t>(number)) >> 11 >= dropped;
  }

 private:
  LOD_TAGGED LOD_HOST_DEVICE static std::uint64_t mixed(std::uint64_t state) noexcept {
    state = (state + 1) * 0x9e3779b97f4a7c15U;
    state = (state ^ state >> 30) * 0xbf58476d1ce4e5b9U;
    state = (state ^ state >> 27) * 0x94d049bb133111ebU;
    return state ^ state >> 31;
  }
};

/// run(executor, x, rows, row_size, sequences, rule, y): keeps or drops whole sequences; without sequences, single
/// numbers.
struct SequenceDropout {};

}  // namespace lod::inline LOD_INTERFACE::kernel

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {

namespace operation {

/// Throws OutOfRange for an invalid probability, InvalidLoD if sequences are to be dropped but there is no level.
inline void check_dropout(const DropoutOptions& options, int levels, const char* name) {
  if (!(options.probability >= 0 && options.probability <= 1)) {
    throw OutOfRange(
        detail::text({name, ": probability ", to_string(Scalar(options.probability)), ", expected 0 to 1"}));
  }
  if (options.whole_sequences && levels == 0) throw_no_level(name);
}

/// Writes x, with dropped numbers set to 0, to y under these levels. y may be x.
template <Executor E, class T>
void drop(const E& executor, const Input<E, T>& x, const LoDView& levels, const DropoutOptions& options, T* y) {
  const kernel::Segments sequences =
      options.whole_sequences ? segments(executor, levels, levels.levels() - 1) : kernel::Segments();
  launch(kernel::SequenceDropout(), executor, x.data(), x.rows(), x.row_size(), sequences,
         kernel::DropoutRule::of(options.probability, options.seed), y);
}

template <>
struct Declared<op::sequence_dropout> : Takes<Tensor>, With<DropoutOptions>, Launches<kernel::SequenceDropout> {
  static constexpr const char* name = "sequence_dropout";
  using Gradient = op::sequence_dropout_grad;
  template <Executor E, class T>
  static void run(const E& executor, const Input<E, T>& x, const DropoutOptions& options, const To<E, T>& y) {
    check_dropout(options, x.levels(), name);
    const auto out = prepare(executor, name, y, SameLevels{x.lod_view()}, x.row_shape(), {in_place("x", x)});
    drop<E, T>(executor, x, x.lod_view(), options, out.data());
  }
};

template <>
struct Declared<op::sequence_dropout_grad> : Takes<Tensor, BatchLevels>, With<DropoutOptions> {
  static constexpr const char* name = "sequence_dropout_grad";
  template <Executor E, class T>
  static void run(const E& executor, const Input<E, T>& dy, const BatchLevels& x_levels, const DropoutOptions& options,
                  const To<E, T>& dx) {
    const LoDView& levels = x_levels.view();
    check_dropout(options, levels.levels(), name);
    check_row_count(dy.rows(), levels.rows(), {name, "dy"}, x_levels.hint());
    const auto out = prepare(executor, {name, "dx"}, dx, SameLevels{levels}, dy.row_shape(), {in_place("dy", dy)});
    drop<E, T>(executor, dy, levels, options, out.data());
  }
};

}  // namespace operation

/// x with each number set to 0 with `probability` and otherwise divided by 1 - probability, so that its expected value
/// stays the same; with `whole_sequences`, all numbers of a sequence of the last level are dropped or kept together.
/// Levels and row shape as x. What is dropped depends only on the seed and on the position of the number or sequence in
/// x: it is the same on every device and with any number of threads.
///
/// A dropped number is 0, even if it was infinite or NaN. With probability 0 the result is x, with 1 it is 0. `y` may
/// be x's own tensor, but must not overlap x otherwise. Throws OutOfRange for a probability outside [0, 1], InvalidLoD
/// for `whole_sequences` of a tensor without levels.
inline constexpr operation::Call<op::sequence_dropout> sequence_dropout{};
inline constexpr operation::CallInto<op::sequence_dropout> sequence_dropout_into{};

/// The gradient of `sequence_dropout` with the same options: dy, divided likewise, where the numbers of x were kept,
/// else 0. dx has `x_levels`, the levels of x; those of dy are ignored. `dx` may be dy's own tensor, but must not
/// overlap dy otherwise. Throws as `sequence_dropout`, and ShapeMismatch unless dy has the rows of x.
inline constexpr operation::Call<op::sequence_dropout_grad> sequence_dropout_grad{};
inline constexpr operation::CallInto<op::sequence_dropout_grad> sequence_dropout_grad_into{};

/// The result of `sequence_dropout`, described: see <lod/infer.hpp>.
inline LoDTensorDesc infer_sequence_dropout(const LoDTensorDesc& x, const DropoutOptions& options = {}) {
  const infer::Batch y = infer::batch_for<op::sequence_dropout>(x, "sequence_dropout");
  operation::check_dropout(options, y.levels, "sequence_dropout");
  return y;
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET
