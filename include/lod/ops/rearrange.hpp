// SPDX-License-Identifier: Apache-2.0
/// @file
/// Copying the sequences of a batch, in the same or another order, for operations that only move sequences.
#pragma once

#include <lod/core/error.hpp>
#include <lod/core/sizes.hpp>
#include <lod/ops/batch_levels.hpp>
#include <lod/ops/declaration.hpp>
#include <lod/ops/run_copy.hpp>

#include <cstdint>
#include <initializer_list>
#include <span>

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {
namespace operation {

/// The sequences of the outermost level for a kernel; each row as a sequence if there is no level.
template <Executor E>
class OutermostSegments {
 public:
  OutermostSegments(const E& executor, const LoDView& levels)
      : rows_(executor, levels.levels() > 0 ? 0 : detail::saturated_sum(levels.size(), 1)) {
    if (levels.levels() > 0) {
      segments_ = segments(executor, levels, 0);
      return;
    }
    for (std::int64_t i = 0; i <= levels.size(); ++i) rows_[i] = i;
    segments_ = segments(rows_, levels.size(), 1);
  }
  const kernel::Segments& get() const noexcept { return segments_; }

 private:
  Array<E, std::int64_t> rows_;
  kernel::Segments segments_;
};

/// Copies the rows of x to `to`, which must be their own address, or not overlap them.
template <Executor E, class T, class Device>
void copy_rows(const E& executor, const LoDTensorView<const T, Device>& x, T* to) {
  if (to != x.data()) launch(kernel::CopyValues(), executor, x.data(), x.rows() * x.row_size(), to);
}

/// Copies the rows of x, which error texts call `argument`, under the levels of `structure`, which must be for as many
/// rows. In place: y may be x.
template <Executor E, class T, class Device, class Structure, class Y>
void copy_into(const E& executor, const OutputName& name, const LoDTensorView<const T, Device>& x, const char* argument,
               const Structure& structure, Y&& y) {
  const auto out = prepare<T>(executor, name, y, structure, x.row_shape(), {operation::in_place(argument, x)});
  copy_rows(executor, x, out.data());
}

/// The gradient of operations that only change levels: dy under the levels of the argument. Throws ShapeMismatch for
/// another number of rows.
template <class Op>
struct RestoredLevels : Takes<Tensor, BatchLevels>, Launches<kernel::CopyValues> {
  template <Executor E, class T>
  static void run(const E& executor, const Input<E, T>& dy, const BatchLevels& x_levels, const To<E, T>& dx) {
    check_row_count(dy.rows(), x_levels.view().rows(), {Declared<Op>::name, "dy"}, x_levels.hint());
    copy_into(executor, Declared<Op>::name, dy, "dy", SameLevels{x_levels.view()}, dx);
  }
};

/// The sequences (rows) of x in another order. The structure of the result is known before anything is written.
template <Executor E, class View>
class Rearrangement {
 public:
  /// Sequence i of the result, which has `count`, is sequence element(i) of x. Sequences may repeat or be left out.
  template <class Element>
  Rearrangement(const E& executor, const char* what, const View& x, std::int64_t count, const Element& element)
      : executor_(executor),
        x_(x),
        runs_(executor.workspace(), source(), 0, count),
        levels_(executor.workspace(), x.levels(), fill(what, count, element), count) {
    runs_.descend(levels_);
  }
  Rearrangement(const Rearrangement&) = delete;
  Rearrangement& operator=(const Rearrangement&) = delete;

  const NewLevels& levels() const noexcept { return levels_; }
  /// The sources of the result's rows.
  RunSources<E, value_type_t<View>> rows() const {
    return RunSources<E, value_type_t<View>>(executor_, runs_, source(), x_.row_size());
  }

 private:
  std::span<const View> source() const noexcept { return {&x_, 1}; }
  template <class Element>
  std::int64_t fill(const char* what, std::int64_t count, const Element& element) {
    for (std::int64_t i = 0; i < count; ++i) runs_.add(0, element(i), element(i) + 1);
    return runs_.sequences(what);
  }

  const E& executor_;
  View x_;
  Runs runs_;
  NewLevels levels_;
};

/// `others` are what y must not overlap: x, and the memory that holds the numbers of the elements.
template <Executor E, class View, class Element, class Y>
void rearrange_into(const E& executor, const OutputName& name, const View& x, std::int64_t count,
                    const Element& element, Y&& y, std::initializer_list<OtherMemory> others) {
  if (x.levels() == 1) {
    const std::int64_t* const offsets = x.lod_view().offsets(0).data();
    const auto run_of = [&](std::int64_t i) {
      const std::int64_t sequence = element(i), first = offsets[sequence];
      return RowRun<value_type_t<View>>{x.data() + (first - offsets[0]) * x.row_size(), offsets[sequence + 1] - first};
    };
    return copy_row_runs_into(executor, name, x, count, run_of, y, others);
  }
  const Rearrangement order(executor, name.operation, x, count, element);
  const auto rows = order.rows();
  const auto out = prepare<value_type_t<View>>(executor, name, y, order.levels(), x.row_shape(), others);
  rows.copy(out.data());
}

}  // namespace operation
}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET
