// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup ranks
/// A program that trains, run by every rank on its own part of each batch.
#pragma once

#include <lod/core/any_tensor.hpp>
#include <lod/core/desc.hpp>
#include <lod/core/error.hpp>
#include <lod/core/executor.hpp>
#include <lod/core/lifetime.hpp>
#include <lod/core/lod_tensor.hpp>
#include <lod/core/target.hpp>
#include <lod/io/proto/program.hpp>
#include <lod/mpi/broadcast.hpp>
#include <lod/mpi/communicator.hpp>
#include <lod/mpi/operators_on_ranks.hpp>
#include <lod/mpi/reduction.hpp>
#include <lod/mpi/sums_in_programs.hpp>
#include <lod/mpi/sums_of_program.hpp>
#include <lod/mpi/together.hpp>
#include <lod/mpi/worker_plan.hpp>
#include <lod/program/gradient.hpp>
#include <lod/program/program.hpp>
#include <lod/program/run.hpp>
#include <lod/program/scope.hpp>
#include <lod/program/trace.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace lod::inline LOD_INTERFACE::mpi {

/// The options of DataParallelProgram.
struct DataParallelOptions {
  /// Sums over ranks follow one tree over the parts of all ranks: see AllReduceOptions.
  bool fixed_tree = false;
  /// Gradients are joined, in the order in which they are there, until they have so many bytes, and summed up by one
  /// operation. One that has as many by itself is not copied. Row-sparse ones are not joined.
  std::int64_t joined_bytes = between_ranks::usual_joined_bytes;
};

}  // namespace lod::inline LOD_INTERFACE::mpi

namespace lod::inline LOD_INTERFACE::mpi::inline LOD_TARGET {

/// A program of mpi::minimize, made ready for many runs on several ranks, of which each has batches of its own. All
/// members but the destructor are collective.
///
/// A run computes gradients by this rank's batch, sums up over ranks, and updates the parameters, on each rank by the
/// same numbers: so all ranks keep the same parameters, bit for bit, and nobody sends them. A sum begins when its
/// gradient is there, and goes on while the rest of the backward pass runs; all have ended before the first parameter
/// changes. Sums begin in the order of the program's operators, which is the same on all ranks. Their messages move
/// between operators, not while one runs.
///
/// The batch of a rank may have no sequences, and it may come in several parts, or none: gradients and losses are added
/// up, and there is one update. With `fixed_tree`, the same parts, in the order of ranks, give the same bits on any
/// number of ranks, one included; otherwise results differ by rounding. A rank keeps the gradients of its parts until
/// the sums begin, with the last one.
///
/// The scope must outlive this object. Neither copied nor moved.
template <std::same_as<CpuExecutor> E = CpuExecutor>
class DataParallelProgram {
 public:
  /// The program and the options are those of rank 0; what others pass is not read. So are the values of persistable
  /// tensors and row-sparse variables at the beginning: those in the scope of rank 0 are copied to the scopes of all.
  ///
  /// `fetch` are the variables that runs return on this rank, by default those of the program's `fetch` operators.
  /// `limits` and `keep_values` are each rank's own: see lod::PreparedProgram. Limits hold for each part, and for the
  /// update.
  ///
  /// Throws on all ranks if it does on one: InvalidProgram for a program that is none of mpi::minimize or that lacks
  /// descriptions of gradients, and if operators after the sums read what those before compute; and what
  /// lod::PreparedProgram throws.
  DataParallelProgram(Communicator communicator, const ProgramDesc& program, Scope& scope,
                      const std::vector<std::string>& fetch = {}, const DataParallelOptions& options = {},
                      const RunLimits& limits = {}, bool keep_values = false)
      : communicator_(std::move(communicator)), scope_(scope) {
    const ProgramDesc whole = share_program(program, options);
    between_ranks::add_operators_of_sums<E>();
    std::optional<between_ranks::DataParallelParts> parts;
    together(communicator_, [&] {
      parts.emplace(whole);
      const OpDesc& wait = parts->update.blocks[0].ops.front();
      auto sums = std::make_shared<between_ranks::Sums<E>>(
          communicator_, parts->summands, AllReduceOptions{.fixed_tree = wait.attr<bool>("fixed_tree")},
          wait.attr<std::int64_t>("joined_bytes"));
      sums_.emplace(scope, "sums", std::move(sums));
      parts->connect(*sums_);
      for (const BlockDesc& block : whole.blocks) {
        for (const VarDesc& var : block.vars) {
          if (var.persistable) persistable_.push_back(var);
        }
      }
    });
    share_parameters();
    together(communicator_, [&] {
      prepare(*parts, fetch.empty() ? between_ranks::names_to_fetch(whole) : fetch, limits, keep_values);
    });
  }
  DataParallelProgram(const DataParallelProgram&) = delete;
  DataParallelProgram& operator=(const DataParallelProgram&) = delete;
  ~DataParallelProgram() = default;

  /// A step with this rank's batch. Returns the fetched tensors, valid until the next run: the loss is that of all
  /// ranks; what each part computes is this rank's, of its last part. `trace` is each rank's own.
  ///
  /// Throws on all ranks if an operator throws on one: there what lod::PreparedProgram::run throws, on the others a
  /// RankError with its text. If that happens before the sums have ended, no parameter has changed, on any rank: only
  /// persistable variables that operators before them write, such as those of `batch_norm`. The next run may follow.
  /// After an error in the update itself, which only a lack of memory can cause on one rank alone, ranks may have
  /// different parameters, until `share_parameters`.
  const std::vector<AnyLoDTensor>& run(const Feed& feed = {}, Trace* trace = nullptr) LOD_LIFETIMEBOUND {
    return run_parts(std::span(&feed, 1), trace);
  }
  /// The same with a batch in parts. Ranks may have different numbers of them, not none on all ranks.
  const std::vector<AnyLoDTensor>& run_parts(std::span<const Feed> parts, Trace* trace = nullptr) LOD_LIFETIMEBOUND {
    between_ranks::Sums<E>& sums = **sums_;
    sums.begin();
    std::exception_ptr error;
    const std::vector<AnyLoDTensor>* of_part = nullptr;
    const std::vector<AnyLoDTensor>* of_update = nullptr;
    try {
      for (const Feed& part : parts) {
        sums.begin_part(&part == &parts.back());
        of_part = &gradients_->run(part, trace);
      }
      of_update = &update_->run({}, trace);
    } catch (...) {
      error = std::current_exception();
    }
    sums.end(error);
    together(communicator_, [&] {
      // Who has only learned of another rank's error leaves it to that one to say so.
      if (error && !sums.another_failed()) std::rethrow_exception(error);
    });
    if (error) std::rethrow_exception(error);
    fetched_.clear();
    for (const auto& [is_of_update, which] : places_) {
      const auto* const from = is_of_update ? of_update : of_part;
      fetched_.push_back(from ? (*from)[which] : AnyLoDTensor());
    }
    return fetched_;
  }

  /// Copies the persistable tensors and row-sparse variables of rank 0 to all ranks, as in the beginning: for
  /// parameters that rank 0 has loaded from a file.
  void share_parameters() {
    LoDTensor<std::uint8_t> is_there({static_cast<std::int64_t>(persistable_.size())});
    for (std::int64_t i = 0; i < is_there.size(); ++i) {
      const VarDesc& var = persistable_[static_cast<std::size_t>(i)];
      const Variable* const found = scope_.find(var.name);
      const bool is_shared =
          found && found->type() == var.type.type && (found->holds<AnyLoDTensor>() || found->holds<AnySelectedRows>());
      is_there.data()[i] = is_shared ? 1 : 0;
    }
    broadcast_into(communicator_, 0, is_there);
    std::exception_ptr error;
    for (std::int64_t i = 0; i < is_there.size(); ++i) {
      if (is_there.data()[i] == 0) continue;
      const VarDesc& var = persistable_[static_cast<std::size_t>(i)];
      try {
        if (var.type.type == VarType::SELECTED_ROWS) {
          broadcast_into(communicator_, 0, variable_of<AnySelectedRows>(var.name));
        } else {
          broadcast_into(communicator_, 0, variable_of<AnyLoDTensor>(var.name));
        }
      } catch (...) {
        error = std::current_exception();
      }
    }
    together(communicator_, [&] {
      if (error) std::rethrow_exception(error);
    });
  }

 private:
  ProgramDesc share_program(const ProgramDesc& program, const DataParallelOptions& options) {
    LoDTensor<std::uint8_t> bytes;
    together(communicator_, [&] {
      if (communicator_.rank() > 0) return;
      ProgramDesc copy = program;
      for (OpDesc& op : copy.blocks.at(0).ops) {
        if (op.type != "c_sync_comm_stream") continue;
        set_attr(op, make_attr("fixed_tree", options.fixed_tree));
        set_attr(op, {.name = "joined_bytes", .type = AttrType::LONG, .l = options.joined_bytes});
      }
      const std::string encoded = encode(copy);
      bytes = LoDTensor<std::uint8_t>({static_cast<std::int64_t>(encoded.size())});
      std::copy(encoded.begin(), encoded.end(), bytes.data());
    });
    broadcast_into(communicator_, 0, bytes);
    ProgramDesc shared;
    together(communicator_,
             [&] { shared = decode<ProgramDesc>(std::string(bytes.values().begin(), bytes.values().end())); });
    return shared;
  }
  /// The value of a variable of the scope, which is made if there is none.
  template <class Value>
  Value& variable_of(const std::string& name) {
    Variable* const found = scope_.find(name);
    Variable& variable = found ? *found : scope_.root().var(name);
    if (!variable.holds<Value>()) variable = Variable(Value(), name);
    return variable.get<Value>();
  }
  void prepare(const between_ranks::DataParallelParts& parts, const std::vector<std::string>& fetch,
               const RunLimits& limits, bool keep_values) {
    std::vector<std::string> of_part, of_update;
    for (const std::string& name : fetch) {
      const VarDesc* const var = parts.update.find_var(name, 0);
      const bool is_of_update = parts.is_of_update(name) || (var && var->persistable);
      auto& names = is_of_update ? of_update : of_part;
      places_.emplace_back(is_of_update, names.size());
      names.push_back(name);
    }
    gradients_.emplace(communicator_.executor(), parts.gradients, scope_, of_part, limits, keep_values);
    update_.emplace(communicator_.executor(), parts.update, scope_, of_update, limits, keep_values);
  }

  Communicator communicator_;
  Scope& scope_;
  std::vector<VarDesc> persistable_;
  std::optional<between_ranks::InScope<between_ranks::Sums<E>>> sums_;
  std::optional<lod::PreparedProgram<E>> gradients_;
  std::optional<lod::PreparedProgram<E>> update_;
  std::vector<std::pair<bool, std::size_t>> places_;  ///< of what is fetched: whether the update has it, and which
  std::vector<AnyLoDTensor> fetched_;
};

}  // namespace lod::inline LOD_INTERFACE::mpi::inline LOD_TARGET
