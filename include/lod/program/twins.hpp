// SPDX-License-Identifier: Apache-2.0
/// @file
/// Operators that can run at the same time: the two directions of a recurrent layer. A step of either has too little
/// work for threads to share; but one thread can take the steps of one direction while another thread takes those of
/// the other.
#pragma once

#include <lod/core/target.hpp>
#include <lod/program/data_flow.hpp>
#include <lod/program/program.hpp>

#include <algorithm>
#include <cstddef>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lod::inline LOD_INTERFACE::detail {

/// The names of all arguments of the operators: of their inputs, or of their outputs.
LOD_TAGGED inline std::set<std::string_view> names_of(std::span<const OpDesc* const> ops,
                                                      std::vector<OpDesc::Var> OpDesc::*vars) {
  std::set<std::string_view> names;
  for (const OpDesc* const op : ops) {
    for (const OpDesc::Var& var : op->*vars) {
      for (const std::string& name : var.arguments) {
        if (!name.empty() && name != empty_variable_name) names.insert(name);
      }
    }
  }
  return names;
}
LOD_TAGGED inline bool have_none_in_common(const std::set<std::string_view>& a, const std::set<std::string_view>& b) {
  return std::ranges::none_of(a, [&](std::string_view name) { return b.contains(name); });
}

/// Whether two ranges of operators, equally long, have the same types, all of them those of recurrent layers and of
/// what leads to one, and neither range uses what the other writes.
LOD_TAGGED inline bool are_twins(std::span<const OpDesc* const> a, std::span<const OpDesc* const> b) {
  static constexpr std::string_view types[] = {"elementwise_add", "fc", "gru", "lstm", "matmul", "matmul_v2", "mul"};
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i]->type != b[i]->type || !std::ranges::binary_search(types, a[i]->type)) return false;
  }
  const auto written_by_a = names_of(a, &OpDesc::outputs), written_by_b = names_of(b, &OpDesc::outputs);
  return have_none_in_common(written_by_a, names_of(b, &OpDesc::inputs)) &&
         have_none_in_common(written_by_b, names_of(a, &OpDesc::inputs)) &&
         have_none_in_common(written_by_a, written_by_b);
}

/// For each operator i, the number n of operators from i on whose twins are the next n operators; mostly 0. Both ranges
/// end with a recurrent layer.
LOD_TAGGED inline std::vector<std::size_t> find_twins(std::span<const OpDesc* const> ops) {
  std::vector<std::size_t> twins(ops.size(), 0);
  std::size_t free = 0, before = ops.size();  // the first operator that has no twin yet; the last layer that has none
  for (std::size_t i = 0; i < ops.size(); ++i) {
    if (ops[i]->type != "gru" && ops[i]->type != "lstm") continue;
    const std::size_t size = i - std::min(before, i);
    const std::size_t first = i + 1 - std::min(2 * size, i + 1);
    if (size > 0 && first >= free && 2 * size <= i + 1 &&
        are_twins(ops.subspan(first, size), ops.subspan(first + size, size))) {
      twins[first] = size;
      free = i + 1;
      before = ops.size();
    } else {
      before = i;
    }
  }
  return twins;
}

}  // namespace lod::inline LOD_INTERFACE::detail
