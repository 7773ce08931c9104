// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup ranks
/// A program that several ranks run: each operator of its block 0 on the rank where it is placed.
///
///     const std::vector<std::int64_t> placement = {0, 0, 1, 1};   // of operators; rank 0 has program and data
///     const auto out = lod::mpi::run(ranks, program, placement, scope, {.feed = {{"x", x}}, .fetch = {"loss"}});
///
/// Rank 0 has the program, and what it needs: values that are fed, and the values of persistable variables, such as
/// parameters, in its scope. The others get their parts as bytes, and need nothing; what they pass for program,
/// placement, feed and fetch is not read. The results are those of one process, to the last bit.
#pragma once

#include <lod/core/any_tensor.hpp>
#include <lod/core/error.hpp>
#include <lod/core/executor.hpp>
#include <lod/core/lod_tensor.hpp>
#include <lod/core/target.hpp>
#include <lod/mpi/all_to_all.hpp>
#include <lod/mpi/broadcast.hpp>
#include <lod/mpi/communicator.hpp>
#include <lod/mpi/interface.hpp>
#include <lod/mpi/operators_on_ranks.hpp>
#include <lod/mpi/phases.hpp>
#include <lod/mpi/point_to_point.hpp>
#include <lod/mpi/reduction.hpp>
#include <lod/mpi/sums_in_programs.hpp>
#include <lod/mpi/together.hpp>
#include <lod/mpi/worker_links.hpp>
#include <lod/mpi/worker_plan.hpp>
#include <lod/program/program.hpp>
#include <lod/program/program_partition.hpp>
#include <lod/program/run.hpp>
#include <lod/program/scope.hpp>
#include <lod/program/trace.hpp>

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <list>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace lod::inline LOD_INTERFACE::mpi::inline LOD_TARGET {

/// A program made ready for many runs on several ranks. All members but the destructor are collective.
///
/// The values of persistable variables that a part reads go to its rank once, when this is made. From then on each rank
/// keeps those of its part in its own scope, and passes on those that other parts read; `collect` brings back to rank
/// 0 what others have written.
///
/// A value that one part reads and another one has written is sent as soon as it is there, as a copy, and the sender
/// goes on. So parts of which neither needs the other's values run at the same time. The operators mpi_send and
/// mpi_recv do that, which are among lod::operators() from then on.
///
/// The scope must outlive this object. Neither copied nor moved.
template <std::same_as<CpuExecutor> E = CpuExecutor>
class PreparedProgram {
 public:
  /// The operator i of block 0 runs on the rank placement[i]; inner blocks, as those of loops, go with the operators
  /// that own them. `fetch` are the variables that runs return, by default those of the program's `fetch` operators;
  /// `limits` and `keep_values` are each rank's own: see lod::PreparedProgram.
  ///
  /// Throws on all ranks if it does on one: what `split` throws for program and placement, and what
  /// lod::PreparedProgram throws for a part.
  PreparedProgram(Communicator communicator, const ProgramDesc& program, std::span<const std::int64_t> placement,
                  Scope& scope, const std::vector<std::string>& fetch = {}, const RunLimits& limits = {},
                  bool keep_values = false)
      : communicator_(std::move(communicator)), scope_(scope) {
    share_out(program, placement, fetch);
    const std::exception_ptr error = send_parameters();
    try {
      together(communicator_, [&] {
        if (error) std::rethrow_exception(error);
        prepare(limits, keep_values);
      });
    } catch (...) {
      forget();
      throw;
    }
  }
  PreparedProgram(const PreparedProgram&) = delete;
  PreparedProgram& operator=(const PreparedProgram&) = delete;
  ~PreparedProgram() { forget(); }

  /// Runs all parts. Rank 0 feeds, and gets the fetched tensors, valid until the next run; the others get none. `trace`
  /// is each rank's own.
  ///
  /// Throws on all ranks if an operator throws on one: there what lod::PreparedProgram::run throws, on the others a
  /// RankError with its text. Persistable variables that were written before stay so. The next run may follow.
  const std::vector<AnyLoDTensor>& run(const Feed& feed = {}, Trace* trace = nullptr) LOD_LIFETIMEBOUND {
    return run_all(std::span(&feed, 1), trace);
  }
  /// Runs a program of mpi::minimize on the parts of a batch, which rank 0 passes: a pipeline. A rank runs its forward
  /// pass for each part in turn, then its backward pass for each, while other ranks are at other parts; gradients are
  /// added up, by the tree that `fixed_tree` of AllReduceOptions describes, and there is one update. Losses and
  /// variables are those of one process, bit for bit: of a DataParallelProgram of one rank with `fixed_tree` and these
  /// parts. Fetched values that are computed for each part are those of the last one.
  ///
  /// What the backward pass reads of the forward pass is kept for all parts, in memory that is taken anew in each run.
  /// Throws as `run`, on all ranks; for no part ShapeMismatch or a RankError with its text, for another program
  /// std::invalid_argument.
  const std::vector<AnyLoDTensor>& run_parts(std::span<const Feed> parts, Trace* trace = nullptr) LOD_LIFETIMEBOUND {
    if (!is_pipeline_) throw std::invalid_argument("run_parts: expected a program of mpi::minimize");
    return run_all(parts, trace);
  }

  /// Brings the persistable tensors and row-sparse values that other ranks were the last to write to the scope of rank
  /// 0, as one process would have left them there.
  void collect() {
    if (!is_root()) {
      for (const std::string& name : part_.results) send(communicator_, scope_.root().at(name).get<AnyLoDTensor>(), 0);
      for (const std::string& name : part_.row_results) {
        send(communicator_, scope_.root().at(name).get<AnySelectedRows>(), 0);
      }
      return;
    }
    for (int rank = 1; rank < communicator_.size(); ++rank) {
      const between_ranks::WorkerPart& from = plan_.ranks[static_cast<std::size_t>(rank)];
      for (const std::string& name : from.results) receive_variable<AnyLoDTensor>(name, rank);
      for (const std::string& name : from.row_results) receive_variable<AnySelectedRows>(name, rank);
    }
  }

 private:
  using Phase = between_ranks::Phase;

  bool is_root() const noexcept { return communicator_.rank() == 0; }

  const std::vector<AnyLoDTensor>& run_all(std::span<const Feed> parts, Trace* trace) {
    auto count = static_cast<std::int64_t>(parts.size());
    if (is_pipeline_) {
      LoDTensor<std::int64_t> told({1});
      told.data()[0] = count;
      broadcast_into(communicator_, 0, told);
      count = told.data()[0];
    }
    (*links_)->begin(count);
    try {
      std::vector<Feed> fed;
      std::vector<AnyLoDTensor> of_phase[Phase::count];
      run_together(false, [&] {
        for (std::int64_t i = 0; i < count; ++i) {
          fed.push_back(share_out(is_root() ? parts[static_cast<std::size_t>(i)] : Feed()));
        }
        if (is_pipeline_) {
          run_passes(fed, of_phase, trace);
        } else {
          of_phase[0] = programs_[0]->run(fed.front(), trace);
        }
      });
      if (is_pipeline_) {
        // So nobody updates unless all have got so far.
        run_together(true, [&] { of_phase[Phase::UPDATE] = programs_[Phase::UPDATE]->run({}, trace); });
        (*sums_)->end(nullptr);
      }
      std::vector<AnyLoDTensor> fetched;
      fetched.reserve(places_.size());
      for (const auto& [phase, which] : places_) fetched.push_back(of_phase[phase].at(which));
      bring_fetched(fetched);
    } catch (...) {
      if (sums_) (*sums_)->end(nullptr);
      throw;
    }
    return fetched_;
  }
  /// Calls f(), which uses the links of the run or those of its parts, on all ranks.
  template <class F>
  void run_together(bool is_of_run, const F& f) {
    between_ranks::Links& links = **links_;
    std::exception_ptr error;
    try {
      f();
    } catch (...) {
      error = std::current_exception();
    }
    links.end(part_.part.program.blocks[0], error, is_of_run);
    fed_.clear();
    together(communicator_, [&] {
      // Who only waited in vain for another rank leaves it to that one to say why.
      if (error && !links.another_failed()) std::rethrow_exception(error);
    });
    if (error) std::rethrow_exception(error);
  }
  /// The forward pass for each part, then the backward pass for each.
  void run_passes(const std::vector<Feed>& parts, std::span<std::vector<AnyLoDTensor>> results, Trace* trace) {
    between_ranks::Sums<E>& sums = **sums_;
    sums.begin();
    std::vector<Feed> kept(parts.size());
    for (const std::size_t phase : {std::size_t{Phase::FORWARD}, std::size_t{Phase::BACKWARD}}) {
      for (std::size_t i = 0; i < parts.size(); ++i) {
        Feed feed = std::move(kept[i]);
        for (const auto& [name, value] : parts[i]) {
          const bool is_of_other = !reads_[phase].contains(name) && reads_[Phase::BACKWARD - phase].contains(name);
          if (!is_of_other) feed.emplace(name, value);
        }
        sums.begin_part(i + 1 == parts.size());
        std::vector<AnyLoDTensor>& values = results[phase] = programs_[phase]->run(feed, trace);
        if (phase == Phase::BACKWARD) continue;
        // What is kept is fetched after what rank 0 wants.
        const std::size_t first = values.size() - kept_.size();
        for (std::size_t k = 0; k < kept_.size(); ++k) kept[i].emplace(kept_[k], std::move(values[first + k]));
      }
    }
  }

  void prepare(const RunLimits& limits, bool keep_values) {
    const auto make = [&](std::size_t i, const ProgramDesc& program, const std::vector<std::string>& fetch) {
      programs_[i].emplace(communicator_.executor(), program, scope_, fetch, limits, keep_values);
    };
    if (!is_pipeline_) {
      for (std::size_t i = 0; i < part_.fetches.size(); ++i) places_.emplace_back(0, i);
      return make(0, part_.part.program, part_.fetches);
    }
    between_ranks::PhasesOfPart phases(part_.part.program, [this](std::size_t link) { (*links_)->once_in_run(link); });
    between_ranks::add_operators_of_sums<E>();
    sums_.emplace(scope_, "sums",
                  std::make_shared<between_ranks::Sums<E>>(Communicator(MPI_COMM_SELF, communicator_.executor()),
                                                           phases.summands, AllReduceOptions{.fixed_tree = true},
                                                           between_ranks::usual_joined_bytes));
    phases.connect(*sums_);
    std::vector<std::string> fetch[Phase::count];
    for (const std::string& name : part_.fetches) {
      const VarDesc* const var = part_.part.program.find_var(name, 0);
      const auto writer = phases.last_writers.find(name);
      std::size_t phase = writer == phases.last_writers.end() ? std::size_t{Phase::FORWARD} : writer->second;
      if (var && var->persistable) phase = Phase::UPDATE;
      places_.emplace_back(phase, fetch[phase].size());
      fetch[phase].push_back(name);
    }
    kept_ = phases.kept;
    fetch[Phase::FORWARD].insert(fetch[Phase::FORWARD].end(), kept_.begin(), kept_.end());
    reads_ = std::move(phases.reads);
    for (std::size_t i = 0; i < Phase::count; ++i) make(i, phases.programs[i], fetch[i]);
  }

  /// Gives each rank its part.
  void share_out(const ProgramDesc& program, std::span<const std::int64_t> placement,
                 const std::vector<std::string>& fetch) {
    const auto ranks = static_cast<std::size_t>(communicator_.size());
    LoDTensor<std::uint8_t> parts(LoD::from_lengths({{}, {}, {}}), {});
    std::vector<std::int64_t> destinations;
    LoDTensor<std::uint8_t> pipelined({1});
    together(communicator_, [&] {
      if (!is_root()) return;
      if (between_ranks::has_sums(program)) {
        ProgramDesc marked = program;
        std::vector<std::int64_t> places(placement.begin(), placement.end());
        detail::check_assignment(placement, program.blocks[0].ops.size(), communicator_.size());
        between_ranks::mark_phases(marked, places);
        plan_ = between_ranks::make_plan(marked, places, ranks, scope_, fetch);
        pipelined.data()[0] = 1;
      } else {
        plan_ = between_ranks::make_plan(program, placement, ranks, scope_, fetch);
      }
      parts = between_ranks::encode(plan_);
      destinations.resize(ranks);
      std::iota(destinations.begin(), destinations.end(), std::int64_t{0});
    });
    broadcast_into(communicator_, 0, pipelined);
    is_pipeline_ = pipelined.data()[0] != 0;
    const auto own = all_to_all(communicator_, parts, destinations);
    together(communicator_, [&] {
      part_ = between_ranks::decode_part(own);
      BlockDesc& block = part_.part.program.blocks.at(0);
      links_.emplace(scope_, "links", std::make_shared<between_ranks::Links>(communicator_, part_.part));
      between_ranks::Links& links = **links_;
      links.insert_operators(part_.part, links_->name(), block);
      links_->describe(block);
      between_ranks::add_operators_of_links<E>();
    });
  }

  /// Returns what has gone wrong on this rank.
  std::exception_ptr send_parameters() noexcept {
    std::exception_ptr error;
    const auto attempt = [&](const auto& f) {
      try {
        f();
      } catch (...) {
        error = std::current_exception();
      }
    };
    if (!is_root()) {
      for (const auto& name : part_.tensors) attempt([&] { receive_variable<AnyLoDTensor>(name, 0); });
      for (const auto& name : part_.rows) attempt([&] { receive_variable<AnySelectedRows>(name, 0); });
      return error;
    }
    for (int rank = 1; rank < communicator_.size(); ++rank) {
      const auto& to = plan_.ranks[static_cast<std::size_t>(rank)];
      for (const auto& name : to.tensors) {
        attempt([&] { send(communicator_, scope_.at(name).get<AnyLoDTensor>(), rank); });
      }
      for (const auto& name : to.rows) {
        attempt([&] { send(communicator_, scope_.at(name).get<AnySelectedRows>(), rank); });
      }
    }
    return error;
  }
  template <class Value>
  void receive_variable(const std::string& name, int from) {
    Variable& variable = scope_.root().var(name);
    if (!variable.holds<Value>()) variable = Variable(Value(), name);
    receive_into(communicator_, from, between_ranks::Links::tag_of_run, variable.get<Value>());
  }

  /// Sends what other parts are fed; returns what this rank's is.
  Feed share_out(const Feed& feed) {
    Feed own;
    if (!is_root()) {
      const auto names = receive<LoDTensor<std::uint8_t>>(communicator_, 0);
      for (std::int64_t i = 0; i < names.size(); ++i) {
        const auto letters = names[i].values();
        own.emplace(std::string(letters.begin(), letters.end()), receive<AnyLoDTensor>(communicator_, 0));
      }
      return own;
    }
    own = feed;
    for (int rank = 1; rank < communicator_.size(); ++rank) {
      const auto& reads = plan_.feeds[static_cast<std::size_t>(rank)];
      std::vector<std::int64_t> lengths;
      std::string letters;
      std::vector<const AnyLoDTensor*> values;
      for (const auto& [name, value] : feed) {
        if (!reads.contains(name)) continue;
        lengths.push_back(static_cast<std::int64_t>(name.size()));
        letters += name;
        values.push_back(&value);
        if (!plan_.feeds[0].contains(name)) own.erase(name);
      }
      auto& names = names_.emplace_back(LoD::from_lengths({lengths}), Shape());
      std::copy(letters.begin(), letters.end(), names.data());
      fed_.push_back(start_send(communicator_, names, rank));
      for (const AnyLoDTensor* const value : values) fed_.push_back(start_send(communicator_, *value, rank));
    }
    return own;
  }
  /// Brings fetched values to rank 0, in the order of `fetch`.
  void bring_fetched(const std::vector<AnyLoDTensor>& fetched) {
    names_.clear();
    if (!is_root()) {
      for (std::size_t i = 0; i < part_.fetches.size(); ++i) send(communicator_, fetched[i], 0);
      return;
    }
    std::vector<std::vector<AnyLoDTensor>> by_rank(plan_.ranks.size());
    for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
      for (std::size_t i = 0; i < plan_.ranks[rank].fetches.size(); ++i) {
        by_rank[rank].push_back(rank == 0 ? fetched[i] : receive<AnyLoDTensor>(communicator_, static_cast<int>(rank)));
      }
    }
    fetched_.clear();
    for (const auto& [rank, which] : plan_.fetched) fetched_.push_back(by_rank[rank][which]);
  }

  void forget() noexcept {
    fed_.clear();
    for (auto& program : programs_) program.reset();
    sums_.reset();
    links_.reset();
  }

  Communicator communicator_;
  Scope& scope_;
  between_ranks::WorkerPlan plan_;  ///< on rank 0
  between_ranks::WorkerPart part_;
  std::optional<between_ranks::InScope<between_ranks::Links>> links_;
  bool is_pipeline_ = false;
  std::optional<between_ranks::InScope<between_ranks::Sums<E>>> sums_;         ///< in a pipeline
  std::array<std::optional<lod::PreparedProgram<E>>, Phase::count> programs_;  ///< of phases; else only one
  std::array<std::set<std::string>, Phase::count> reads_;                      ///< what phases are fed
  std::vector<std::string> kept_;                                              ///< for the backward pass
  std::vector<std::pair<std::size_t, std::size_t>> places_;  ///< of what is fetched: the phase, and which of its
  std::list<LoDTensor<std::uint8_t>> names_;                 ///< of what is fed
  std::list<Pending<void>> fed_;
  std::vector<AnyLoDTensor> fetched_;
};

/// Runs a program once on all ranks, each operator where it is placed: prepares it, runs it and collects what it has
/// changed. Collective; rank 0 gets the fetched tensors. Throws as PreparedProgram does.
template <std::same_as<CpuExecutor> E = CpuExecutor>
std::vector<AnyLoDTensor> run(const Communicator& communicator, const ProgramDesc& program,
                              std::span<const std::int64_t> placement, Scope& scope, const RunOptions& options = {}) {
  PreparedProgram<E> prepared(communicator, program, placement, scope, options.fetch, options.limits,
                              options.keep_values);
  std::vector<AnyLoDTensor> fetched = prepared.run(options.feed, options.trace);
  prepared.collect();
  return fetched;
}

}  // namespace lod::inline LOD_INTERFACE::mpi::inline LOD_TARGET
