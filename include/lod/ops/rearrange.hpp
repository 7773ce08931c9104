// SPDX-License-Identifier: Apache-2.0
/// @file
/// Sequences of one batch copied as they are, or in another order: what operations that only move sequences come to.
#pragma once

#include <lod/kernel.hpp>
#include <lod/ops/run_copy.hpp>
#include <lod/output.hpp>
#include <lod/target.hpp>

#include <cstdint>
#include <span>

namespace lod::inline LOD_TARGET {
namespace operation {

/// Copies the rows of x to `to`, which does not overlap them.
template <Executor E, class T, class Device>
void copy_rows(const E& executor, const LoDTensorView<const T, Device>& x, T* to) {
  const T* source = x.data();
  const std::int64_t offsets[] = {0, x.rows()};
  kernel::RunCopy<E>::run(executor, &source, kernel::Segments{offsets, 1, x.rows()}, x.row_size(), to);
}

/// The rows of x under the levels of `structure`, which is for as many.
template <Executor E, class T, class Device, class Structure, class Y>
void copy_into(const E& executor, const LoDTensorView<const T, Device>& x, const Structure& structure, Y&& y) {
  const auto out = prepare(y, structure, x.row_shape());
  copy_rows(executor, x, out.data());
}

/// A copy of x, from the memory of the executor.
template <Executor E, class T, class Device>
LoDTensor<T, Device> copy_of(const E& executor, const LoDTensorView<const T, Device>& x) {
  LoDTensor<T, Device> y(executor.resource());
  copy_into(executor, x, SameLevels{x.lod_view()}, y);
  return y;
}

/// The sequences (rows) of x in another order: element(i) says which is the i-th of the `count` of the result. They may
/// repeat, and some may be left out.
template <Executor E, class T, class Device, class Element, class Y>
void rearrange_into(const E& executor, const LoDTensorView<const T, Device>& x, std::int64_t count,
                    const Element& element, Y&& y) {
  const std::span views(&x, 1);
  Runs runs(executor.workspace(), views, 0, count);
  for (std::int64_t i = 0; i < count; ++i) runs.add(0, element(i), element(i) + 1);
  NewLevels levels(executor.workspace(), x.levels(), runs.sequences(), count);
  runs.descend(levels);
  const auto out = prepare(y, levels, x.row_shape());
  runs.copy(executor, views, x.row_size(), out.data());
}

}  // namespace operation
}  // namespace lod::inline LOD_TARGET
