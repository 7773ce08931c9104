// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup row_sparse
/// A row-sparse tensor cut into sections of its height, as for several servers.
#pragma once

#include <lod/desc.hpp>
#include <lod/error.hpp>
#include <lod/executor.hpp>
#include <lod/infer.hpp>
#include <lod/kernel.hpp>
#include <lod/ops/argument_list.hpp>
#include <lod/ops/merge_rows.hpp>
#include <lod/ops/row_groups.hpp>
#include <lod/ops/row_places.hpp>
#include <lod/ops/run_copy.hpp>
#include <lod/selected_rows.hpp>
#include <lod/staging.hpp>
#include <lod/supports.hpp>
#include <lod/target.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

namespace lod::op {
struct split_selected_rows : elements::Any {};
struct split_selected_rows_grad : elements::Any {};
}  // namespace lod::op

namespace lod::inline LOD_TARGET {

namespace kernel {
/// run(executor, ids, count, first, height, shift, y): y[i] = ids[i] + shift for ids in [first, first + height), -1 for
/// others. For GPUs.
template <class Executor>
struct ShiftRows : Missing<Executor> {};
}  // namespace kernel

namespace operation {

/// starts[s] = the first row of section s, behind the last the height. Throws what split_selected_rows throws.
inline void find_sections(std::span<const std::int64_t> heights, std::int64_t height, std::int64_t* starts) {
  starts[0] = 0;
  for (std::size_t s = 0; s < heights.size(); ++s) {
    if (heights[s] < 0) {
      throw ShapeMismatch(
          detail::text({"split_selected_rows: section ", s, " of height ", heights[s], ", expected 0 or more"}));
    }
    if (__builtin_add_overflow(starts[s], heights[s], &starts[s + 1])) {
      throw ShapeMismatch("split_selected_rows: the heights of the sections exceed 64 bits");
    }
  }
  if (starts[heights.size()] != height) {
    throw ShapeMismatch(detail::text({"split_selected_rows: sections of height ", starts[heights.size()],
                                      " in all, expected ", height, " as the tensor has"}));
  }
}

/// Throws ShapeMismatch where part s is there and stands on memory of the user's that is too small for so many rows:
/// all parts are checked before the first is changed.
template <class T, class Device>
void check_part(const std::vector<SelectedRows<T, Device>>& parts, std::int64_t s, std::int64_t rows,
                const SelectedRows<T, Device>& g) {
  if (s >= static_cast<std::int64_t>(parts.size())) return;
  parts[static_cast<std::size_t>(s)].value().check_room(Shape(rows, g.row_shape()).elements());
}

/// The rows of g by section, on the CPU: a counting sort.
template <Executor E, class T>
void split_by_section(const E& executor, const SelectedRows<T>& g, std::span<const std::int64_t> heights,
                      const std::int64_t* starts, std::vector<SelectedRows<T>>& parts) {
  const auto sections = static_cast<std::int64_t>(heights.size());
  const auto count = static_cast<std::int64_t>(g.rows().size());
  const Workspace::Loan<std::int64_t> section_of(executor.workspace(), count), positions(executor.workspace(), count);
  const Workspace::Loan<std::int64_t> ids(executor.workspace(), count);
  const Workspace::Loan<std::int64_t> ends(executor.workspace(), sections + 1);
  std::fill_n(ends.data(), sections + 1, 0);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t* const first = starts + 1;
    section_of[i] = std::upper_bound(first, first + sections, g.rows()[static_cast<std::size_t>(i)]) - first;
    ++ends[section_of[i] + 1];
  }
  for (std::int64_t s = 0; s < sections; ++s) ends[s + 1] += ends[s];
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t place = ends[section_of[i]]++;
    positions[place] = i;
    ids[place] = g.rows()[static_cast<std::size_t>(i)] - starts[section_of[i]];
  }
  for (std::int64_t s = 0, begin = 0; s < sections; begin = ends[s++]) check_part(parts, s, ends[s] - begin, g);
  parts.resize(heights.size(), SelectedRows<T>(executor.resource()));
  for (std::int64_t s = 0, begin = 0; s < sections; begin = ends[s++]) {
    auto& part = parts[static_cast<std::size_t>(s)];
    const std::int64_t size = ends[s] - begin;
    part.resize({ids.data() + begin, static_cast<std::size_t>(size)}, heights[static_cast<std::size_t>(s)],
                g.row_shape());
    kernel::GatherRows<E>::run(executor, g.value().data(), positions.data() + begin, size, g.row_size(),
                               std::int64_t{-1}, part.value().data());
  }
}

}  // namespace operation

/// The tensor cut into sections of so many rows of its height: part s lists the rows of section s, in the order of g,
/// repeated ones too, their ids counted from the start of the section. Sections may be empty. Throws ShapeMismatch for
/// a negative section, unless the sections add up to the height, and where a part stands on memory of the user's that
/// is too small; no part is changed then. No part may be g. On a GPU, where nobody waits to count, each part has as
/// many places as g, of which those of its section name a row. Semantics: PaddlePaddle's split_selected_rows.
template <Executor E, class T, operation::ArgumentList Sections = std::initializer_list<std::int64_t>>
void split_selected_rows_into(const E& executor, const SelectedRows<T, typename E::device>& g,
                              const Sections& height_sections,
                              std::vector<SelectedRows<T, typename E::device>>& parts) {
  const auto heights = operation::ids_of(height_sections);
  detail::check_value_rows(g, "split_selected_rows");
  const Workspace::Loan<std::int64_t> starts(executor.workspace(), static_cast<std::int64_t>(heights.size()) + 1);
  operation::find_sections(heights, g.height(), starts.data());
  if constexpr (operation::on_cpu<E>) {
    operation::split_by_section(executor, g, heights, starts.data(), parts);
  } else {
    const std::int64_t count = g.value().rows();
    for (std::size_t s = 0; s < heights.size(); ++s) {
      operation::check_part(parts, static_cast<std::int64_t>(s), count, g);
    }
    parts.resize(heights.size(), SelectedRows<T, typename E::device>(executor.resource()));
    for (std::size_t s = 0; s < heights.size(); ++s) {
      const std::int64_t start = starts.data()[s];
      std::int64_t* const ids = operation::make_places(executor, parts[s], count, heights[s], g.row_shape());
      kernel::ShiftRows<E>::run(executor, g.rows().data(), count, start, heights[s], -start, ids);
      kernel::CopyValues<E>::run(executor, g.value().data(), count * g.row_size(), parts[s].value().data());
    }
  }
}
template <Executor E, class T, operation::ArgumentList Sections = std::initializer_list<std::int64_t>>
[[nodiscard]] std::vector<SelectedRows<T, typename E::device>> split_selected_rows(
    const E& executor, const SelectedRows<T, typename E::device>& g, const Sections& height_sections) {
  std::vector<SelectedRows<T, typename E::device>> parts;
  split_selected_rows_into(executor, g, height_sections, parts);
  return parts;
}
template <class T, class Device, operation::ArgumentList Sections = std::initializer_list<std::int64_t>>
[[nodiscard]] auto split_selected_rows(const SelectedRows<T, Device>& g, const Sections& height_sections) {
  return split_selected_rows(default_executor<Device>(), g, height_sections);
}

/// The gradient of `split_selected_rows`: the tensor whose sections the parts are, their heights added up. The rows of
/// the first part come first, whatever order they had. Throws ShapeMismatch where row shapes differ, where the heights
/// exceed 64 bits, and for no part. `dparts` is a range of row-sparse tensors, and `dg` must not be one of them.
template <Executor E, operation::RowSparseRange DParts>
void split_selected_rows_grad_into(const E& executor, const DParts& dparts, operation::element_t<DParts>& dg) {
  using T = typename operation::element_t<DParts>::value_type;
  if (dparts.size() == 0) throw ShapeMismatch("split_selected_rows_grad: no parts, expected at least one");
  const auto parts = static_cast<std::int64_t>(dparts.size());
  const operation::Array<E, std::int64_t> offsets(executor, parts + 1);
  const operation::Array<E, const T*> sources(executor, parts);
  const Shape& row_shape = dparts.begin()->row_shape();
  std::int64_t height = 0, longest = 0, part = 0;
  offsets[0] = 0;
  for (const auto& dpart : dparts) {
    detail::check_value_rows(dpart, "split_selected_rows_grad");
    operation::check_row_shape(dpart.row_shape(), row_shape, "split_selected_rows_grad");
    if (__builtin_add_overflow(height, dpart.height(), &height)) {
      throw ShapeMismatch("split_selected_rows_grad: the heights of the parts exceed 64 bits");
    }
    const std::int64_t size = dpart.value().rows();
    longest = std::max(longest, size);
    sources[part] = dpart.value().data();
    offsets[part + 1] = offsets[part] + size;
    ++part;
  }
  std::int64_t start = 0;
  if constexpr (operation::on_cpu<E>) {
    const Workspace::Loan<std::int64_t> rows(executor.workspace(), offsets[parts]);
    std::int64_t* next = rows.data();
    for (const auto& dpart : dparts) {
      for (const std::int64_t row : dpart.rows()) *next++ = start + row;
      start += dpart.height();
    }
    dg.resize(rows.span(), height, row_shape);
  } else {
    std::int64_t* ids = operation::make_places(executor, dg, offsets[parts], height, row_shape);
    for (const auto& dpart : dparts) {
      const std::int64_t size = dpart.value().rows();
      kernel::ShiftRows<E>::run(executor, dpart.rows().data(), size, std::int64_t{0}, dpart.height(), start, ids);
      ids += size;
      start += dpart.height();
    }
  }
  kernel::RunCopy<E>::run(executor, sources.on_device(), operation::segments(offsets, parts, longest),
                          row_shape.elements(), dg.value().data());
}
template <Executor E, operation::RowSparseRange DParts>
[[nodiscard]] auto split_selected_rows_grad(const E& executor, const DParts& dparts) {
  operation::element_t<DParts> dg(executor.resource());
  split_selected_rows_grad_into(executor, dparts, dg);
  return dg;
}
template <operation::RowSparseRange DParts>
[[nodiscard]] auto split_selected_rows_grad(const DParts& dparts) {
  return split_selected_rows_grad(default_executor<typename operation::element_t<DParts>::device>(), dparts);
}

/// What `split_selected_rows` gives, described: see <lod/infer.hpp>.
inline std::vector<TensorDesc> infer_split_selected_rows(const TensorDesc& g,
                                                         std::span<const std::int64_t> height_sections) {
  constexpr const char* what = "split_selected_rows";
  infer::Batch part = infer::batch_for<op::split_selected_rows>({g}, what);
  const std::int64_t height = part.rows;
  std::int64_t sum = 0;
  std::vector<TensorDesc> parts;
  for (const std::int64_t section : height_sections) {
    if (section < 0) throw ShapeMismatch(detail::text({what, ": section of height ", section, ", expected 0 or more"}));
    sum = infer::sum(sum, section, what);
    part.rows = section;
    parts.push_back(LoDTensorDesc(part).tensor);
  }
  infer::check_row_count(sum, height, what);
  return parts;
}

}  // namespace lod::inline LOD_TARGET
