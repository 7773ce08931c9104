// SPDX-License-Identifier: Apache-2.0
/// @file
/// A program of mpi::minimize, cut where all sums over ranks have ended.
#pragma once

#include <lod/core/data_type.hpp>
#include <lod/core/desc.hpp>
#include <lod/core/error.hpp>
#include <lod/core/shape.hpp>
#include <lod/core/target.hpp>
#include <lod/mpi/operators_on_ranks.hpp>
#include <lod/mpi/sums_in_programs.hpp>
#include <lod/program/data_flow.hpp>
#include <lod/program/gradient.hpp>
#include <lod/program/gradient_variables.hpp>
#include <lod/program/place_of.hpp>
#include <lod/program/program.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lod::inline LOD_INTERFACE::between_ranks::inline LOD_TARGET {

/// The variable of that name, which is to be summed up. Throws InvalidProgram unless its type and shape are described.
inline Summand summand_of(const BlockDesc& block, const std::string& name) {
  const VarDesc* const var = block.find_var(name);
  const TensorDesc* const tensor = var ? detail::described_tensor(*var) : nullptr;
  const auto is_known = [](std::int64_t dim) { return dim >= 0; };
  if (!tensor || !std::all_of(tensor->dims.begin(), tensor->dims.end(), is_known) ||
      (tensor->data_type != DataType::FP32 && tensor->data_type != DataType::FP64)) {
    throw InvalidProgram(detail::text(
        {"variable '", name, "': it is summed up over ranks, expected a description with its shape, of FP32 or FP64"}));
  }
  return {name, var->type.type == VarType::SELECTED_ROWS, tensor->data_type, Shape(tensor->dims)};
}

/// A program of mpi::minimize in two: what computes gradients, once for each part of a batch, and the update.
class DataParallelParts {
 public:
  explicit DataParallelParts(const ProgramDesc& program) : gradients(program), update(program) {
    auto& ops = gradients.blocks.at(0).ops;
    std::erase_if(ops, [](const OpDesc& op) { return op.type == "feed" || op.type == "fetch"; });
    const auto wait = std::find_if(ops.begin(), ops.end(), is_wait);
    if (wait == ops.end()) {
      throw InvalidProgram(
          "DataParallelProgram: no operator 'c_sync_comm_stream', expected a program of mpi::minimize");
    }
    auto& later = update.blocks[0].ops;
    later.assign(wait, ops.end());
    ops.erase(wait, ops.end());
    number_sums();
    // The values that are summed up are no variables of the update.
    later.front().inputs.clear();
    later.front().outputs.clear();
    auto& outputs = later.front().outputs.emplace_back(OpDesc::Var{"Out", {}}).arguments;
    for (const Summand& one : summands) outputs.push_back(one.variable);
    check_update();
  }

  /// Gives the operators that sum up an object in a variable, and inserts those that let sums go on.
  template <class E>
  void connect(const InScope<Sums<E>>& sums) {
    std::vector<OpDesc> ops;
    bool is_any_under_way = false;
    for (OpDesc& op : gradients.blocks[0].ops) {
      const bool begins = op.type == "c_allreduce_sum";
      if (begins) op.inputs.push_back({"Sums", {sums.name()}});
      ops.push_back(std::move(op));
      if (is_any_under_way) ops.push_back({.inputs = {{"Sums", {sums.name()}}}, .type = "mpi_progress"});
      is_any_under_way = is_any_under_way || begins;
    }
    gradients.blocks[0].ops = std::move(ops);
    update.blocks[0].ops.front().inputs.push_back({"Sums", {sums.name()}});
    for (ProgramDesc* const one : {&gradients, &update}) sums.describe(one->blocks[0]);
  }
  /// Whether a variable gets its value, perhaps anew, in the update.
  bool is_of_update(const std::string& name) const { return written_.contains(name); }

  ProgramDesc gradients;
  ProgramDesc update;
  std::vector<Summand> summands;

 private:
  static bool is_wait(const OpDesc& op) { return op.type == "c_sync_comm_stream"; }

  void number_sums() {
    for (OpDesc& op : gradients.blocks[0].ops) {
      if (op.type != "c_allreduce_sum") continue;
      set_attr(op, make_attr("number", static_cast<std::int32_t>(summands.size())));
      summands.push_back(summand_of(gradients.blocks[0], op.input("X").front()));
    }
  }
  /// Throws if the update reads what is computed for each part.
  void check_update() {
    DataFlow flow(update);
    for (std::size_t i = 0; i < update.blocks[0].ops.size(); ++i) {
      const OpDesc& op = update.blocks[0].ops[i];
      const Access access = flow.of(op);
      for (const std::string_view name : access.reads) {
        const VarDesc* const var = update.find_var(name, 0);
        if (written_.contains(std::string(name)) || !var || var->persistable) continue;
        throw InvalidProgram(
            detail::text({detail::place_of(op, 0, i), " of those after 'c_sync_comm_stream': it reads variable '",
                          std::string(name), "', expected one that is persistable or summed up over ranks"}));
      }
      for (const std::string_view name : access.writes) written_.emplace(name);
    }
  }

  std::set<std::string> written_;
};

}  // namespace lod::inline LOD_INTERFACE::between_ranks::inline LOD_TARGET
