// SPDX-License-Identifier: Apache-2.0
/// @file
/// The body of `infer_shapes`.
#pragma once

#include <lod/core/desc.hpp>
#include <lod/core/error.hpp>
#include <lod/core/name_hash.hpp>
#include <lod/core/target.hpp>
#include <lod/program/data_flow.hpp>
#include <lod/program/gradient.hpp>
#include <lod/program/infer_shape_context.hpp>
#include <lod/program/infer_shapes.hpp>
#include <lod/program/place_of.hpp>
#include <lod/program/program.hpp>

namespace lod::inline LOD_INTERFACE::detail::inline LOD_TARGET {

/// Goes through the blocks of a program and applies the rules of their operators to its own copies of the descriptions.
class ShapeInference {
 public:
  ShapeInference(const ProgramDesc& program, RuleOf rule_of)
      : program_(program), rule_of_(rule_of), blocks_(program.blocks.size()) {
    validate(program);
    for (std::size_t idx = 0; idx < blocks_.size(); ++idx) {
      const BlockDesc& block = program.blocks[idx];
      for (const VarDesc& var : block.vars) {
        blocks_[idx].by_name.emplace(var.name, blocks_[idx].vars.size());
        blocks_[idx].vars.push_back({var.type, is_known(var), var.persistable});
      }
    }
    for (std::size_t idx = 0; idx < blocks_.size(); ++idx) infer_block(static_cast<std::int32_t>(idx), 0);
  }

  /// Writes the descriptions into the program.
  void finish(ProgramDesc& program) && noexcept {
    for (std::size_t idx = 0; idx < blocks_.size(); ++idx) {
      for (std::size_t i = 0; i < blocks_[idx].vars.size(); ++i) {
        program.blocks[idx].vars[i].type = std::move(blocks_[idx].vars[i].type);
      }
    }
  }

 private:
  struct Var {
    VarType type;
    bool is_known;
    bool is_persistable;
  };
  struct Block {
    NameMap<std::size_t> by_name;
    std::vector<Var> vars;
    bool is_done = false;
  };

  /// Whether a description in the program counts as known. One without dimensions may be that of a scalar, or say
  /// nothing; it counts only for persistable tensors.
  static bool is_known(const VarDesc& var) noexcept {
    const VarType& type = var.type;
    if (type.type == VarType::LOD_TENSOR)
      return type.lod_tensor && (var.persistable || !type.lod_tensor->tensor.dims.empty());
    if (type.type == VarType::SELECTED_ROWS) return type.selected_rows && !type.selected_rows->dims.empty();
    if (type.type == VarType::LOD_TENSOR_ARRAY) return type.tensor_array && !type.tensor_array->tensor.dims.empty();
    return true;
  }

  Var* find(std::string_view name, const std::vector<std::int32_t>& visible) {
    for (const std::int32_t idx : visible) {
      Block& block = blocks_[static_cast<std::size_t>(idx)];
      const auto found = block.by_name.find(name);
      if (found != block.by_name.end()) return &block.vars[found->second];
    }
    return nullptr;
  }

  void infer_block(std::int32_t idx, int depth) {
    if (std::exchange(blocks_[static_cast<std::size_t>(idx)].is_done, true)) return;
    if (depth > DataFlow::max_depth) {
      throw InvalidProgram(text({"block ", idx, " lies in more than ", DataFlow::max_depth, " blocks"}));
    }
    std::vector<std::int32_t> visible;
    for_each_visible_block(program_, idx, [&](const BlockDesc& seen) { return visible.push_back(seen.idx), false; });
    const BlockDesc& block = program_.block(idx);
    for (std::size_t i = 0; i < block.ops.size(); ++i) {
      const OpDesc& op = block.ops[i];
      for_each_block(op, [&](std::int32_t inner) { infer_block(inner, depth + 1); });
      try {
        infer_operator(op, visible);
      } catch (const std::exception& error) {
        throw InvalidProgram(text({place_with_variables(op, idx, i), ": ", error.what()}));
      }
    }
  }

  void infer_operator(const OpDesc& op, const std::vector<std::int32_t>& visible) {
    const InferShape rule = rule_of_(op.type);
    std::vector<const VarType*> inputs;
    for (const OpDesc::Var& var : op.inputs) {
      for (const std::string& name : var.arguments) {
        const Var* const found = find(name, visible);
        inputs.push_back(found && found->is_known ? &found->type : nullptr);
      }
    }
    InferShapeContext context(op, std::move(inputs));
    if (rule) {
      try {
        rule(context);
      } catch (const NotDescribed&) {
        return;
      }
    } else {
      infer_gradients(context, visible);
    }
    for (auto& [name, type] : context.results()) set(name, std::move(type), visible);
  }

  /// Describes the gradient with respect to a variable, `x@GRAD`, as the variable; that of an embedding table with
  /// `is_sparse` is row-sparse.
  void infer_gradients(InferShapeContext& context, const std::vector<std::int32_t>& visible) {
    const OpDesc& op = context.desc();
    const bool is_sparse = context.attr("is_sparse", false);
    for (const OpDesc::Var& var : op.outputs) {
      for (std::size_t i = 0; i < var.arguments.size(); ++i) {
        const std::string_view name = var.arguments[i];
        const std::size_t end = name.find(gradient_suffix);
        const Var* const of = end == std::string_view::npos ? nullptr : find(name.substr(0, end), visible);
        if (!of || !of->is_known) continue;
        VarType type = of->type;
        if (is_sparse && type.lod_tensor && (var.parameter == "W@GRAD" || var.parameter == "Weight@GRAD")) {
          type = {.type = VarType::SELECTED_ROWS, .selected_rows = std::move(type.lod_tensor->tensor)};
        }
        context.results().emplace_back(name, std::move(type));
      }
    }
  }

  void set(std::string_view name, VarType&& type, const std::vector<std::int32_t>& visible) {
    Var* const var = find(name, visible);
    if (!var) return;
    if (var->is_persistable && var->is_known) {
      check_same(name, var->type, type);
      return;
    }
    type.unknown_fields = var->type.unknown_fields;
    var->type = std::move(type);
    var->is_known = true;
  }

  /// Programs share a persistable variable by its description, so what an operator writes to it must agree with that.
  static void check_same(std::string_view name, const VarType& described, const VarType& found) {
    if (!described.lod_tensor || !found.lod_tensor) return;
    const TensorDesc &expected = described.lod_tensor->tensor, &given = found.lod_tensor->tensor;
    bool fits = expected.data_type == given.data_type;
    for (std::size_t dim = 0; dim < std::max(expected.dims.size(), given.dims.size()); ++dim) {
      const std::int64_t a = dim < expected.dims.size() ? expected.dims[dim] : 1;
      const std::int64_t b = dim < given.dims.size() ? given.dims[dim] : 1;
      fits = fits && (a == b || a == -1 || b == -1);
    }
    if (fits) return;
    throw InvalidProgram(text({"variable '", std::string(name), "' would be ", to_string(given), ", expected ",
                               to_string(expected), ", since it is persistable"}));
  }
  static std::string to_string(const TensorDesc& desc) {
    std::string dims;
    for (const std::int64_t dim : desc.dims) dims += text({dims.empty() ? "" : ", ", dim});
    return text({lod::to_string(desc.data_type), " of shape {", dims, "}"});
  }

  const ProgramDesc& program_;
  RuleOf rule_of_;
  std::vector<Block> blocks_;
};

}  // namespace lod::inline LOD_INTERFACE::detail::inline LOD_TARGET

namespace lod::inline LOD_INTERFACE::detail {

LOD_PROGRAMS_INLINE void infer_shapes(ProgramDesc& program, RuleOf rule_of) {
  ShapeInference(program, rule_of).finish(program);
}

}  // namespace lod::inline LOD_INTERFACE::detail
