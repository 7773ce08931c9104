// SPDX-License-Identifier: Apache-2.0
/// @file
/// Describes the variables that hold gradients.
#pragma once

#include <lod/core/desc.hpp>
#include <lod/core/name_hash.hpp>
#include <lod/core/target.hpp>
#include <lod/program/gradient.hpp>
#include <lod/program/gradient_sums.hpp>
#include <lod/program/program.hpp>

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lod::inline LOD_INTERFACE::detail::inline LOD_TARGET {

/// The described data type and shape of a tensor or of row-sparse values; null for other variables.
inline const TensorDesc* described_tensor(const VarDesc& var) {
  if (var.type.lod_tensor) return &var.type.lod_tensor->tensor;
  return var.type.selected_rows ? &*var.type.selected_rows : nullptr;
}

/// The name of the variable that a gradient belongs to: what is before the suffix.
inline std::string_view variable_of(std::string_view gradient) {
  return gradient.substr(0, gradient.find(gradient_suffix));
}

/// Appends operators that compute gradients to blocks, and describes each gradient as the variable it belongs to is
/// described. Gradients of parameters of which only some rows are used (`is_sparse`), and sums of nothing but these,
/// are SELECTED_ROWS. Inner blocks must be appended to first.
template <class = void>
class GradientVariables {
 public:
  using Names = GradientArguments::Names;

  /// Appends operators to block `target`. `forward` is the block whose gradient they compute. The gradients in
  /// `outside` are not described in `target`.
  void append(ProgramDesc& program, std::int32_t target, std::int32_t forward, std::vector<OpDesc> ops,
              const Names& outside) {
    BlockDesc& block = program.blocks[static_cast<std::size_t>(target)];
    Names described = outside, row_sparse;
    for (const VarDesc& var : block.vars) described.insert(var.name);
    std::vector<VarDesc> vars;
    NameMap<const VarDesc*> visible;
    for_each_visible_block(program, forward, [&](const BlockDesc& seen) {
      for (const VarDesc& var : seen.vars) visible.emplace(var.name, &var);  // the nearest one first
      return false;
    });
    const auto find = [&](const std::string& name) -> const VarDesc* {
      const auto found = visible.find(variable_of(name));
      return found == visible.end() ? nullptr : found->second;
    };
    const auto describe = [&](const std::string& name, bool is_sparse) {
      const VarDesc* const var = find(name);
      if (described.insert(name).second) vars.push_back(described_as(name, var, is_sparse));
    };
    for (const OpDesc& op : ops) {
      // Some gradients of an inner block are read before the block writes them, and those of arrays may have no
      // elements.
      for_each_argument(op.inputs, [&](const std::string& name) {
        if (!name.ends_with(gradient_suffix)) return;
        const VarDesc* const var = find(name);
        if (target != 0 || (var && var->type.type == VarType::LOD_TENSOR_ARRAY)) describe(name, false);
      });
      for (const OpDesc::Var& output : op.outputs) {
        for (std::size_t k = 0; k < output.arguments.size(); ++k) {
          const std::string& name = output.arguments[k];
          if (name.find(gradient_suffix) == std::string::npos) continue;
          const bool is_sparse = lists_rows(op, output, k, find(name), row_sparse);
          if (is_sparse) row_sparse.insert(name);
          describe(name, is_sparse);
        }
      }
    }
    std::move(vars.begin(), vars.end(), std::back_inserter(block.vars));
    std::move(ops.begin(), ops.end(), std::back_inserter(block.ops));
    row_sparse_.emplace(target, std::move(row_sparse));
  }

 private:
  /// Whether a gradient that an operator writes, argument `k` of an output, is row-sparse. `var` is the variable that
  /// it belongs to.
  bool lists_rows(const OpDesc& op, const OpDesc::Var& output, std::size_t k, const VarDesc* var,
                  const Names& row_sparse) const {
    if (const OpDesc::Attr* const block = op.find_attr("sub_block")) {
      const auto inner = row_sparse_.find(block->block_idx.value_or(-1));
      const std::string_view parameter = output.parameter;
      const auto variables = op.input(parameter.substr(0, parameter.size() - gradient_suffix.size()));
      return inner != row_sparse_.end() && k < variables.size() && inner->second.contains(gradient_name(variables[k]));
    }
    if (op.type == "sum") {
      return !any_argument(op.inputs, [&](const std::string& name) { return !row_sparse.contains(name); });
    }
    const OpDesc::Attr* const is_sparse = op.find_attr("is_sparse");
    return var && var->persistable && is_sparse && is_sparse->b.value_or(false);
  }
  static VarDesc described_as(const std::string& name, const VarDesc* var, bool is_sparse) {
    VarDesc made{.name = name, .type = {.type = VarType::LOD_TENSOR}};
    if (!var) return made;
    made.type = var->type;
    if (!is_sparse) return made;
    const TensorDesc* const tensor = described_tensor(*var);
    return tensor ? VarDesc::selected_rows(name, *tensor) : VarDesc::of_type(name, VarType::SELECTED_ROWS);
  }

  std::map<std::int32_t, Names> row_sparse_;  // gradients that are row-sparse, by block
};

}  // namespace lod::inline LOD_INTERFACE::detail::inline LOD_TARGET
