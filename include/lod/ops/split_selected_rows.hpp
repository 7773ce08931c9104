// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup row_sparse
/// A row-sparse tensor cut into sections of its height, for example for several servers.
#pragma once

#include <lod/core/desc.hpp>
#include <lod/core/error.hpp>
#include <lod/core/executor.hpp>
#include <lod/core/selected_rows.hpp>
#include <lod/ops/argument_list.hpp>
#include <lod/ops/declaration.hpp>
#include <lod/ops/infer.hpp>
#include <lod/ops/merge_rows.hpp>
#include <lod/ops/row_groups.hpp>
#include <lod/ops/row_places.hpp>
#include <lod/ops/run_copy.hpp>
#include <lod/ops/staging.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>
#include <vector>

namespace lod::inline LOD_INTERFACE::op {
struct split_selected_rows : elements::Any {
  static constexpr Text text{"g, height_sections", "SelectedRows cut into sections of these heights."};
};
struct split_selected_rows_grad : elements::Any {
  static constexpr Text text{"dparts", "The gradient of `split_selected_rows`: the parts joined."};
};
}  // namespace lod::inline LOD_INTERFACE::op

namespace lod::inline LOD_INTERFACE::kernel {
/// run(executor, ids, count, first, height, shift, y): y[i] = ids[i] + shift for ids in [first, first + height), -1 for
/// others. For GPUs.
struct ShiftRows {};
}  // namespace lod::inline LOD_INTERFACE::kernel

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {

namespace operation {

/// starts[s] = the first row of section s, followed by the height. Throws what split_selected_rows throws.
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

/// As many parts as there are sections: new ones are created, and removed again if an exception ends the operation;
/// surplus ones are removed if it succeeds.
template <class Sparse>
class Parts {
 public:
  template <class Resource>
  Parts(std::vector<Sparse>& parts, std::size_t count, Resource* resource)
      : parts_(parts), before_(parts.size()), count_(count), exceptions_(std::uncaught_exceptions()) {
    parts.reserve(count);
    while (parts.size() < count) parts.emplace_back(resource);
  }
  Parts(const Parts&) = delete;
  Parts& operator=(const Parts&) = delete;
  ~Parts() {
    const std::size_t kept = std::uncaught_exceptions() == exceptions_ ? count_ : before_;
    if (kept < parts_.size()) parts_.erase(parts_.begin() + static_cast<std::ptrdiff_t>(kept), parts_.end());
  }

 private:
  std::vector<Sparse>& parts_;
  std::size_t before_;
  std::size_t count_;
  int exceptions_;
};

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
  const Parts<SelectedRows<T>> all(parts, heights.size(), executor.resource());
  Outputs<RowsOutput<E, T>> outs(executor.workspace(), heights.size());
  for (std::int64_t s = 0, first = 0; s < sections; first = ends[s++]) {
    auto& part = parts[static_cast<std::size_t>(s)];
    outs.add(RowsOutput<E, T>(executor, {"split_selected_rows", "a part"}, part,
                              std::span(ids.data() + first, static_cast<std::size_t>(ends[s] - first)),
                              heights[static_cast<std::size_t>(s)], g.row_shape(), {{"g", g.value()}}),
             {"a part", part.value()});
  }
  outs.check_apart("split_selected_rows");
  std::int64_t begin = 0;
  for (std::int64_t s = 0; auto& out : outs) {
    launch(kernel::GatherRows(), executor, g.value().data(), positions.data() + begin, ends[s] - begin, g.row_size(),
           std::int64_t{-1}, out.data());
    begin = ends[s++];
  }
}

/// The parts that a row-sparse tensor is cut into.
template <class T, class Device>
using SelectedRowsParts = std::vector<SelectedRows<T, Device>>;

template <>
struct Declared<op::split_selected_rows>
    : Takes<Of<SelectedRows>, IdList>, Gives<Of<SelectedRowsParts>>, LaunchesOnIds<kernel::ShiftRows> {
  static constexpr const char* name = "split_selected_rows";
  using Gradient = op::split_selected_rows_grad;
  template <Executor E, class T>
  static void run(const E& executor, const SelectedRows<T, typename E::device>& g, const IdList& height_sections,
                  SelectedRowsParts<T, typename E::device>& parts) {
    detail::check_value_rows(g, name);
    const Workspace::Loan<std::int64_t> starts(executor.workspace(),
                                               static_cast<std::int64_t>(height_sections.size()) + 1);
    find_sections(height_sections, g.height(), starts.data());
    if constexpr (on_cpu<E>) {
      split_by_section(executor, g, height_sections, starts.data(), parts);
    } else {
      const std::int64_t count = g.value().rows();
      const Parts<SelectedRows<T, typename E::device>> all(parts, height_sections.size(), executor.resource());
      Outputs<RowsOutput<E, T>> outs(executor.workspace(), height_sections.size());
      for (std::size_t s = 0; s < height_sections.size(); ++s) {
        outs.add(RowsOutput<E, T>(executor, {name, "a part"}, parts[s], count, height_sections[s], g.row_shape(),
                                  {{"g", g.value()}}),
                 {"a part", parts[s].value()});
      }
      outs.check_apart(name);
      for (std::size_t s = 0; s < height_sections.size(); ++s) {
        const auto& out = outs.begin()[s];
        const std::int64_t start = starts.data()[s];
        launch(kernel::ShiftRows(), executor, g.rows().data(), count, start, height_sections[s], -start, out.ids());
        launch(kernel::CopyValues(), executor, g.value().data(), count * g.row_size(), out.data());
      }
    }
  }
};

}  // namespace operation

/// Cuts the rows [0, height) of g into sections of the given heights: part s lists the rows of section s, in the order
/// of g, including repeated ones, with ids counted from the start of the section. Sections may be empty. Throws
/// ShapeMismatch for a negative height of a section, unless the sections add up to the height of g, and if a part is in
/// memory of the user's that is too small; then no part is changed. No part may be g. On a GPU, where the CPU does not
/// wait for the counts, each part has as many places as g, of which only those in its section name a row. Semantics:
/// PaddlePaddle's split_selected_rows.
inline constexpr operation::Call<op::split_selected_rows> split_selected_rows{};
inline constexpr operation::CallInto<op::split_selected_rows> split_selected_rows_into{};

/// The gradient of `split_selected_rows`: the tensor whose sections are the parts; its height is the sum of theirs. The
/// rows of the first part come first, then those of the second, and so on, whatever their order in g was. Throws
/// ShapeMismatch if row shapes differ, if the heights exceed 64 bits, and if there are no parts. `dparts` is a range of
/// row-sparse tensors, and `dg` must not be one of them.
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
  for (const auto& dpart : dparts) {
    operation::check_apart("split_selected_rows_grad", dg.value(), {{"a part", dpart.value()}});
  }
  const auto copy = [&](T* values) {
    launch(kernel::RunCopy(), executor, sources.on_device(), operation::segments(offsets, parts, longest),
           row_shape.elements(), values);
  };
  std::int64_t start = 0;
  if constexpr (operation::on_cpu<E>) {
    const Workspace::Loan<std::int64_t> rows(executor.workspace(), offsets[parts]);
    std::int64_t* next = rows.data();
    for (const auto& dpart : dparts) {
      for (const std::int64_t row : dpart.rows()) *next++ = start + row;
      start += dpart.height();
    }
    operation::RowsOutput<E, T> out(executor, "split_selected_rows_grad", dg, rows.span(), height, row_shape, {});
    copy(out.data());
  } else {
    const operation::RowsOutput<E, T> out(executor, "split_selected_rows_grad", dg, offsets[parts], height, row_shape,
                                          {});
    std::int64_t* ids = out.ids();
    for (const auto& dpart : dparts) {
      const std::int64_t size = dpart.value().rows();
      launch(kernel::ShiftRows(), executor, dpart.rows().data(), size, std::int64_t{0}, dpart.height(), start, ids);
      ids += size;
      start += dpart.height();
    }
    copy(out.data());
  }
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

/// The result of `split_selected_rows`, described: see <lod/infer.hpp>.
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

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET
