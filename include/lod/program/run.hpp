// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup descriptions
/// Runs programs.
///
///     lod::paddle::Model model = lod::paddle::load_model("lac");
///     lod::Scope scope;
///     for (auto& [name, value] : model.parameters) scope.var(name).get<lod::AnyLoDTensor>() = value;
///     std::vector<lod::AnyLoDTensor> out = lod::run(model.program, scope, {.feed = {{"word", ids}}});
#pragma once

#include <lod/core/any_tensor.hpp>
#include <lod/core/error.hpp>
#include <lod/core/executor.hpp>
#include <lod/core/lifetime.hpp>
#include <lod/core/target.hpp>
#include <lod/program/program.hpp>
#include <lod/program/scope.hpp>
#include <lod/program/trace.hpp>
#include <lod/program/waiting_time.hpp>

#include <concepts>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace lod::inline LOD_INTERFACE {

/// Tensors to be fed to the variables of a program, by name.
using Feed = std::map<std::string, AnyLoDTensor>;

/// Limits of what one run of a program may use; by default there are none. For programs from untrusted sources, which
/// might loop for ever.
struct RunLimits {
  /// The steps of all its loops together; each run of a branch counts as one.
  std::int64_t steps = std::numeric_limits<std::int64_t>::max();
  /// The bytes that tensors and operators hold at any time, not counting tensors that were in the scope before, nor the
  /// offsets of levels. Only for a CpuExecutor; with others a limit is a std::invalid_argument.
  std::int64_t bytes = std::numeric_limits<std::int64_t>::max();
  /// How long all its operators together may wait for other threads: to send to a channel, to receive from one, or to
  /// read.
  WaitingTime wait = no_waiting_limit;
};

/// Thrown when a run has reached one of its RunLimits; this ends the run.
class LimitExceeded : public std::runtime_error {
 public:
  /// Which limit, in words; a very long text loses its middle.
  LOD_TAGGED explicit LimitExceeded(const std::string& what) : std::runtime_error(detail::readable(what)) {}
};

/// Thrown by the operator `read` when its reader has no further step, which ends loops over the data; the reader has
/// steps again after Reader::restart. Also thrown by `enqueue` and `dequeue` on a queue that is closed.
class EndOfData : public std::runtime_error {
 public:
  /// What has ended, in words; a very long text loses its middle.
  LOD_TAGGED explicit EndOfData(const std::string& what) : std::runtime_error(detail::readable(what)) {}
};

/// The options of `run`.
struct RunOptions {
  Feed feed = {};
  /// The variables whose values are returned; if empty, those that the program's own `fetch` operators name, in the
  /// order of their columns.
  std::vector<std::string> fetch = {};
  RunLimits limits = {};
  /// Records the time and the bytes of each operator; null: nothing is recorded, at no cost.
  Trace* trace = nullptr;
  /// Whether every variable keeps its value, in memory of its own, until the end of the run, so that it can be
  /// inspected.
  bool keep_values = false;
};

namespace detail {

/// Throws LimitExceeded, saying that the run has waited for `what` as long as it may.
LOD_TAGGED [[noreturn, gnu::cold, gnu::noinline]] inline void throw_waited_too_long(const char* what) {
  throw LimitExceeded(text({"it has waited for ", what, " as long as it may"}));
}

/// A prepared program, whatever its executor.
class ProgramToRun {
 public:
  LOD_TAGGED ProgramToRun() = default;
  ProgramToRun(const ProgramToRun&) = delete;
  ProgramToRun& operator=(const ProgramToRun&) = delete;
  LOD_TAGGED virtual ~ProgramToRun() = default;
  LOD_TAGGED virtual const std::vector<AnyLoDTensor>& run(const Feed& feed, Trace* trace) = 0;
};

}  // namespace detail

}  // namespace lod::inline LOD_INTERFACE

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs {

/// Prepares a program, with the operators of <lod/program/operators/all.hpp> or those of the compiled library.
template <class E>
std::unique_ptr<detail::ProgramToRun> prepare(const E& executor, const ProgramDesc& program, Scope& scope,
                                              const std::vector<std::string>& fetch, const RunLimits& limits,
                                              bool keep_values);

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs

namespace lod::inline LOD_INTERFACE {

/// A program made ready for many runs: its operators prepared, its names resolved. Its variables keep their memory, so
/// that a further run with the same shapes allocates nothing (operators for which this does not hold say so).
///
/// Persistable variables are in the outermost scope, where other programs and later runs see them. The others are in a
/// new scope inside the given one, which is destroyed with this object. The operators `feed` and `fetch` only name what
/// enters and leaves.
///
/// With a CpuExecutor, variables that are not needed at the same time take turns in the same memory: those of the
/// program's own block that are neither persistable nor fed or fetched, nor used by loops, branches and the operators
/// in them. Each gives its memory back after the last operator that uses it, and its value is then gone; with
/// `keep_values` nothing is shared, and values stay. How long each is needed follows the rules of `plan_memory`; but
/// places are not planned, since sizes are known only when the program runs.
///
/// Only one run at a time. The scope must outlive this object, and persistable variables must not be erased before
/// that. The executor is copied; this object is neither copied nor moved.
template <Executor E = CpuExecutor>
class PreparedProgram {
 public:
  /// Runs nothing. Throws InvalidProgram, naming block, operator and variable:
  /// - as `validate` and DataFlow do;
  /// - for unknown types of operators, all listed in one message;
  /// - for arguments of operators that are missing, or not supported;
  /// - for a persistable variable that is read before an operator writes it, and that the scope does not have;
  /// - for a variable to fetch that does not exist.
  ///
  /// Inner blocks, those of loops and branches, are checked too. Throws what `create_variables` throws. If this throws,
  /// variables that it has created in the outermost scope stay.
  LOD_TAGGED PreparedProgram(const E& executor, const ProgramDesc& program, Scope& scope,
                             const std::vector<std::string>& fetch = {}, const RunLimits& limits = {},
                             bool keep_values = false)
      : program_(operators_of_programs::prepare<E>(executor, program, scope, fetch, limits, keep_values)) {}
  PreparedProgram(const PreparedProgram&) = delete;
  PreparedProgram& operator=(const PreparedProgram&) = delete;
  LOD_TAGGED ~PreparedProgram() = default;

  /// Runs the operators in order. Returns the fetched tensors, valid until the next run: they share the memory of the
  /// program's variables, and copies of them keep it (the next run then takes new memory).
  ///
  /// Throws InvalidProgram, before anything runs, if a variable to feed is missing or unknown; ShapeMismatch if it has
  /// another type or shape than described: there, -1 allows any size, and trailing dimensions of 1 do not count. What
  /// an operator throws is rethrown with the operator's block, number, type and variables before the message, and with
  /// the persistable variables that operators before it have written: these have changed, all others are as they were.
  /// What an operator both reads and writes, such as a parameter and its moments, it has not changed then, so nothing
  /// is updated twice by a further run; if it only writes several variables, it may have written some of them. Throws
  /// LimitExceeded and EndOfData in the same way. The time and the bytes of each operator are added to `trace` unless
  /// that is null.
  LOD_TAGGED const std::vector<AnyLoDTensor>& run(const Feed& feed = {}, Trace* trace = nullptr) LOD_LIFETIMEBOUND {
    return program_->run(feed, trace);
  }

 private:
  std::unique_ptr<detail::ProgramToRun> program_;
};

}  // namespace lod::inline LOD_INTERFACE

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {

/// Runs a program once and returns the fetched tensors. Variables that are not persistable exist only during the run.
/// Throws as PreparedProgram and its `run` do. Semantics: PaddlePaddle's Executor.
template <Executor E>
std::vector<AnyLoDTensor> run(const E& executor, const ProgramDesc& program, Scope& scope,
                              const RunOptions& options = {}) {
  PreparedProgram<E> prepared(executor, program, scope, options.fetch, options.limits, options.keep_values);
  return prepared.run(options.feed, options.trace);
}
template <std::same_as<CpuExecutor> E = CpuExecutor>
std::vector<AnyLoDTensor> run(const ProgramDesc& program, Scope& scope, const RunOptions& options = {}) {
  return run<E>(default_executor<Cpu>(), program, scope, options);
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET
