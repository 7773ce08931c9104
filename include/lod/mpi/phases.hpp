// SPDX-License-Identifier: Apache-2.0
/// @file
/// The phases of a program of mpi::minimize whose operators are placed on ranks: forward and backward passes, which run
/// for each part of a batch, and the update.
#pragma once

#include <lod/core/desc.hpp>
#include <lod/core/error.hpp>
#include <lod/core/target.hpp>
#include <lod/mpi/sums_in_programs.hpp>
#include <lod/mpi/sums_of_program.hpp>
#include <lod/program/backward.hpp>
#include <lod/program/data_flow.hpp>
#include <lod/program/gradient.hpp>
#include <lod/program/program.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace lod::inline LOD_INTERFACE::between_ranks::inline LOD_TARGET {

/// The numbers of phases, which operators have as their attribute `phase`.
struct Phase {
  static constexpr std::int32_t FORWARD = 0;
  static constexpr std::int32_t BACKWARD = 1;
  static constexpr std::int32_t UPDATE = 2;
  static constexpr std::size_t count = 3;
};

inline bool waits_for_sums(const OpDesc& op) { return op.type == "c_sync_comm_stream"; }
inline bool has_sums(const ProgramDesc& program) {
  return !program.blocks.empty() && std::ranges::any_of(program.blocks[0].ops, waits_for_sums);
}

/// Marks the operators of a whole program with their phases. In place of the operator that waits for all sums there is
/// one for each, where the value that is summed up is: sums of a pipeline are over parts, not over ranks.
inline void mark_phases(ProgramDesc& program, std::vector<std::int64_t>& placement) {
  static_cast<void>(DataParallelParts(program));  // throws for what cannot be cut in two
  std::int32_t phase = Phase::FORWARD;
  std::vector<OpDesc> ops;
  std::vector<std::int64_t> places;
  std::map<std::string, std::int64_t> place_of_sum;
  for (std::size_t i = 0; i < program.blocks[0].ops.size(); ++i) {
    OpDesc& op = program.blocks[0].ops[i];
    const bool begins_sum = op.type == "c_allreduce_sum";
    const OpDesc::Attr* const role = op.find_attr("op_role");
    if (begins_sum) place_of_sum[op.input("X").front()] = placement[i];
    if (!begins_sum && role && (role->i.value_or(0) & OpRole::BACKWARD) != 0) phase = std::max(phase, Phase::BACKWARD);
    if (!waits_for_sums(op)) {
      set_attr(op, make_attr("phase", phase));
      ops.push_back(std::move(op));
      places.push_back(placement[i]);
      continue;
    }
    phase = Phase::UPDATE;
    const auto summed = op.output("Out");
    for (const std::string& name : summed) {
      ops.push_back({.inputs = {{"X", {name}}}, .outputs = {{"Out", {name}}}, .type = op.type});
      ops.back().attrs = {make_attr("phase", phase)};
      places.push_back(place_of_sum.at(name));
    }
  }
  program.blocks[0].ops = std::move(ops);
  placement = std::move(places);
}

/// A rank's part, which has the operators of its Links, in phases.
class PhasesOfPart {
 public:
  /// `keep` calls keep(link) for each link whose value goes once in a run, not once for each part of the batch.
  template <class Keep>
  PhasesOfPart(const ProgramDesc& part, const Keep& keep) {
    programs.fill(part);
    for (ProgramDesc& program : programs) program.blocks[0].ops.clear();
    std::vector<std::int32_t> phases = phases_of(part.blocks[0].ops);
    std::map<std::string, std::int32_t> numbers;
    DataFlow flow(part);
    std::array<std::set<std::string>, Phase::count> written;
    for (std::size_t i = 0; i < phases.size(); ++i) {
      OpDesc op = part.blocks[0].ops[i];
      const auto phase = static_cast<std::size_t>(phases[i]);
      if (op.type == "feed" || op.type == "fetch") continue;
      if (op.find_attr("link") && phases[i] == Phase::UPDATE)
        keep(static_cast<std::size_t>(op.attr<std::int32_t>("link")));
      if (op.type == "c_allreduce_sum") {
        const std::string& name = op.input("X").front();
        set_attr(op, make_attr("number", static_cast<std::int32_t>(summands.size())));
        numbers[name] = static_cast<std::int32_t>(summands.size());
        summands.push_back(summand_of(part.blocks[0], name));
      }
      if (waits_for_sums(op)) {
        set_attr(op, make_attr("number", numbers.at(op.output("Out").front())));
        op.inputs.clear();
      }
      const Access access = flow.of(op);
      for (const std::string_view read : access.reads) {
        const std::string name(read);
        const VarDesc* const var = part.find_var(name, 0);
        if (written[phase].contains(name) || !var || var->persistable) continue;
        reads[phase].insert(name);
        if (phase == Phase::FORWARD || !written[Phase::FORWARD].contains(name)) continue;
        if (var->type.type != VarType::LOD_TENSOR) {
          throw InvalidProgram(
              detail::text({"variable '", name, "' is a ", to_string(var->type.type),
                            ", expected a LOD_TENSOR, to be kept for the backward pass of a pipeline"}));
        }
        if (std::ranges::count(kept, name) == 0) kept.push_back(name);
      }
      for (const std::string_view name : access.writes) written[phase].emplace(name);
      programs[phase].blocks[0].ops.push_back(std::move(op));
    }
    for (std::size_t phase = 0; phase < Phase::count; ++phase) {
      for (const std::string& name : written[phase]) last_writers[name] = phase;
    }
  }

  /// Gives the operators that sum up an object in a variable.
  template <class E>
  void connect(const InScope<Sums<E>>& sums) {
    for (ProgramDesc& program : programs) {
      for (OpDesc& op : program.blocks[0].ops) {
        if (op.type == "c_allreduce_sum" || waits_for_sums(op)) op.inputs.push_back({"Sums", {sums.name()}});
      }
      sums.describe(program.blocks[0]);
    }
  }

  std::array<ProgramDesc, Phase::count> programs;
  std::array<std::set<std::string>, Phase::count> reads;  ///< of each, before it writes them
  std::vector<std::string> kept;                          ///< the backward pass reads, and the forward pass has written
  std::vector<Summand> summands;
  std::map<std::string, std::size_t> last_writers;

 private:
  /// A value is sent in the phase that has written it, and received in the phase that reads it; what comes after all
  /// operators is for the next run.
  static std::vector<std::int32_t> phases_of(const std::vector<OpDesc>& ops) {
    std::vector<std::int32_t> phases(ops.size());
    std::int32_t next = Phase::UPDATE;
    for (std::size_t i = ops.size(); i-- > 0;) {
      if (ops[i].find_attr("phase")) next = ops[i].attr<std::int32_t>("phase");
      phases[i] = next;
    }
    std::int32_t before = Phase::FORWARD;
    for (std::size_t i = 0; i < ops.size(); ++i) {
      if (ops[i].type == "mpi_send") phases[i] = before;
      before = phases[i];
    }
    return phases;
  }
};

}  // namespace lod::inline LOD_INTERFACE::between_ranks::inline LOD_TARGET
