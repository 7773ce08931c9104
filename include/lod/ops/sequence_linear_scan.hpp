// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup row_preserving
/// Linear recurrences inside each sequence: the states of gated layers that have no other input from the row before.
#pragma once

#include <lod/ops/argument_list.hpp>
#include <lod/ops/declaration.hpp>
#include <lod/ops/infer.hpp>

#include <cstdint>

namespace lod::inline LOD_INTERFACE::op {
struct sequence_linear_scan : elements::Floating {
  static constexpr Text text{"a, b", "h[t] = a[t] * h[t - 1] + b[t] inside each sequence."};
};
struct sequence_linear_scan_grad : elements::Floating {
  static constexpr Text text{"dh, a, h", "The gradients of `sequence_linear_scan` with respect to a, b and initial."};
};
}  // namespace lod::inline LOD_INTERFACE::op

namespace lod::inline LOD_INTERFACE {

/// The options of `sequence_linear_scan` and of its gradient.
template <class T, class Device = Cpu>
struct LinearScanOptions {
  OptionalTensor<T, Device> initial = nullptr;  ///< a row for each sequence, before its first row; by default none
  bool reverse = false;                         ///< from the last row to the first
  int level = -1;                               ///< the level whose sequences are scanned; by default the last
};

/// The result of `sequence_linear_scan_grad`.
template <class T, class Device>
struct LinearScanGrad {
  LoDTensor<T, Device> da;
  LoDTensor<T, Device> db;
  LoDTensor<T, Device> dinitial;  ///< a row for each sequence
};

/// The options of `infer_sequence_linear_scan`: those of `sequence_linear_scan`, with the initial rows described.
struct LinearScanDescOptions {
  const LoDTensorDesc* initial = nullptr;
  bool reverse = false;
  int level = -1;
};

}  // namespace lod::inline LOD_INTERFACE

namespace lod::inline LOD_INTERFACE::kernel {
/// run(executor, a, b, sequences, row_size, initial, reverse, h): initial may be null; h may be a or b.
struct SequenceLinearScan {};
/// run(executor, dh, a, h, sequences, row_size, initial, reverse, da, db, dinitial): `initial` and `reverse` are those
/// of the scan.
struct SequenceLinearScanGrad {};
}  // namespace lod::inline LOD_INTERFACE::kernel

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {

namespace operation {

/// Throws ShapeMismatch unless there is an initial row for each sequence, or none at all.
template <class Optional>
void check_initial(const Optional& initial, std::int64_t sequences, const Shape& row_shape, const char* name) {
  if (!initial) return;
  check_row_count(initial->rows(), sequences, {name, "initial"});
  check_row_shape(initial->row_shape(), row_shape, {name, "initial"});
}

template <>
struct Declared<op::sequence_linear_scan>
    : Takes<Tensor, Tensor>, WithTyped<LinearScanOptions>, Launches<kernel::SequenceLinearScan> {
  static constexpr const char* name = "sequence_linear_scan";
  using Gradient = op::sequence_linear_scan_grad;
  template <Executor E, class T>
  static void run(const E& executor, const Input<E, T>& a, const Input<E, T>& b,
                  const LinearScanOptions<T, typename E::device>& options, const To<E, T>& h) {
    check_has_level(b, {name, "b"});
    const int level = detail::resolve_level(options.level, b.levels(), name);
    check_row_count(a.rows(), b.rows(), {name, "a"});
    check_row_shape(a.row_shape(), b.row_shape(), {name, "a"});
    const kernel::Segments sequences = segments(executor, b, level);
    check_initial(options.initial, sequences.size, b.row_shape(), name);
    const auto out = prepare(executor, name, h, SameLevels{b.lod_view()}, b.row_shape(),
                             {in_place("a", a), in_place("b", b), {"initial", options.initial}});
    launch(kernel::SequenceLinearScan(), executor, a.data(), b.data(), sequences, b.row_size(), options.initial.data(),
           options.reverse, out.data());
  }
};

template <>
struct Declared<op::sequence_linear_scan_grad> : Takes<Tensor, Tensor, Tensor>,
                                                 WithTyped<LinearScanOptions>,
                                                 GivesAll<LinearScanGrad, Tensor, Tensor, Tensor>,
                                                 Launches<kernel::SequenceLinearScanGrad> {
  static constexpr const char* name = "sequence_linear_scan_grad";
  template <Executor E, class T>
  static void run(const E& executor, const Input<E, T>& dh, const Input<E, T>& a, const Input<E, T>& h,
                  const LinearScanOptions<T, typename E::device>& options, const To<E, T>& da, const To<E, T>& db,
                  const To<E, T>& dinitial) {
    check_has_level(h, {name, "h"});
    const int level = detail::resolve_level(options.level, h.levels(), name);
    check_row_count(dh.rows(), h.rows(), {name, "dh"});
    check_row_shape(dh.row_shape(), h.row_shape(), {name, "dh"});
    check_row_count(a.rows(), h.rows(), {name, "a"});
    check_row_shape(a.row_shape(), h.row_shape(), {name, "a"});
    const kernel::Segments sequences = segments(executor, h, level);
    check_initial(options.initial, sequences.size, h.row_shape(), name);
    const OtherMemory by_dh("dh", dh), by_a("a", a), by_h("h", h), by_initial("initial", options.initial);
    const auto out_a =
        prepare(executor, {name, "da"}, da, SameLevels{a.lod_view()}, h.row_shape(), {by_dh, by_a, by_h, by_initial});
    const auto out_b = prepare(executor, {name, "db"}, db, SameLevels{h.lod_view()}, h.row_shape(),
                               {by_dh, by_a, by_h, by_initial, {"da", da}});
    const auto out_initial = prepare(executor, {name, "dinitial"}, dinitial, LevelsAbove{h.lod_view(), level},
                                     h.row_shape(), {by_dh, by_a, by_h, by_initial, {"da", da}, {"db", db}});
    launch(kernel::SequenceLinearScanGrad(), executor, dh.data(), a.data(), h.data(), sequences, h.row_size(),
           options.initial.data(), options.reverse, out_a.data(), out_b.data(), out_initial.data());
  }
};

}  // namespace operation

/// A linear recurrence: h[t] = a[t] * h[t - 1] + b[t] for the rows t of each sequence of `level`, number by number. h
/// has the row shape and the LoD of b. a has as many rows of the same shape; its levels are ignored. With `reverse`
/// h[t] = a[t] * h[t + 1] + b[t].
///
/// Before the first row stands the sequence's row of `initial`. Without one the first row of h is that of b, and the
/// first row of a has no influence, whatever is in it. An empty sequence has no row of h; its row of `initial` is not
/// used. Exponential moving averages, discounted returns (`reverse`) and the states of linear recurrent layers are such
/// scans; with a of ones it is a running sum, which `sequence_cumsum` computes faster and with a smaller error.
///
/// float16 and bfloat16 are computed as float and rounded once. A sequence is computed in parts of 512 rows: what is
/// before a part is multiplied by the product of the part's factors, in the type of the computation. So threads share a
/// long sequence, and the bits depend neither on threads nor on the rest of the batch. Where such a product leaves the
/// range of the type, states after the part are infinite or NaN unless the state before it is 0.
///
/// One pass over memory, two over sequences that several threads share. h may be the tensor of a or of b (or the same
/// view), but must not overlap the arguments otherwise. Throws InvalidLoD if b has no level, OutOfRange for the level,
/// ShapeMismatch unless a has the shape of b, and `initial` a row of the shape of b's for each sequence.
inline constexpr operation::Call<op::sequence_linear_scan> sequence_linear_scan{};
inline constexpr operation::CallInto<op::sequence_linear_scan> sequence_linear_scan_into{};

/// The gradients of `sequence_linear_scan` with the same options, from its result h:
///
///     db[t] = dh[t] + a[t + 1] * db[t + 1]
///     da[t] = db[t] * h[t - 1]
///     dinitial = a[first] * db[first]
///
/// where no row follows the last, and h[first - 1] is the row of `initial`, or 0. da has the levels of a, db those
/// of h. dinitial has a row for each sequence, with the levels of h above `level`; it is computed even if there was no
/// `initial`, and is 0 for empty sequences. The levels of dh are ignored.
///
/// db is computed as `sequence_linear_scan` in the opposite direction. The outputs must not overlap the arguments.
/// Throws as `sequence_linear_scan`.
inline constexpr operation::Call<op::sequence_linear_scan_grad> sequence_linear_scan_grad{};
inline constexpr operation::CallInto<op::sequence_linear_scan_grad> sequence_linear_scan_grad_into{};

/// The result of `sequence_linear_scan`, described: see <lod/infer.hpp>.
inline LoDTensorDesc infer_sequence_linear_scan(const LoDTensorDesc& a, const LoDTensorDesc& b,
                                                const LinearScanDescOptions& options = {}) {
  constexpr const char* name = "sequence_linear_scan";
  const infer::Batch h = infer::batch_for<op::sequence_linear_scan>(b, name);
  const infer::Batch initial_like = h.pooled(options.level, name);
  const infer::Batch factors(a, "sequence_linear_scan: a");
  infer::check_type(factors.type, h.type, "sequence_linear_scan: a");
  infer::check_row_count(factors.rows, h.rows, "sequence_linear_scan: a");
  infer::common_row_shape(factors.row_shape, h.row_shape, "sequence_linear_scan: a");
  if (options.initial) {
    const infer::Batch initial(*options.initial, "sequence_linear_scan: initial");
    infer::check_type(initial.type, h.type, "sequence_linear_scan: initial");
    infer::check_row_count(initial.rows, initial_like.rows, "sequence_linear_scan: initial");
    infer::common_row_shape(initial.row_shape, h.row_shape, "sequence_linear_scan: initial");
  }
  return h;
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET
