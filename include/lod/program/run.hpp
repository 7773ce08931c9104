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

/// Tensors for the variables of a program, by their names.
using Feed = std::map<std::string, AnyLoDTensor>;

/// What one run of a program may use, at most; by default there is no limit. For programs from strangers, which might
/// loop for ever.
struct RunLimits {
  /// The steps of all its loops together, and of its branches.
  std::int64_t steps = std::numeric_limits<std::int64_t>::max();
  /// The bytes that tensors and operators hold at any time, without the tensors that the scope had before, and without
  /// the offsets of levels. Only for a CpuExecutor; others throw std::invalid_argument.
  std::int64_t bytes = std::numeric_limits<std::int64_t>::max();
  /// How long all its operators together wait for other threads: to send to a channel, to receive from one, or to read.
  WaitingTime wait = no_waiting_limit;
};

/// A run has reached one of its RunLimits, and was ended.
class LimitExceeded : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The operator `read` has no next step, until Reader::restart: so loops over the data end. Or a queue is closed on
/// which `enqueue` or `dequeue` was run.
class EndOfData : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The options of `run`.
struct RunOptions {
  Feed feed = {};
  /// The variables whose values are returned; if empty, those that the program's own `fetch` operators name, in the
  /// order of their columns.
  std::vector<std::string> fetch = {};
  RunLimits limits = {};
  /// Where to note what each operator takes; without it, that costs nothing.
  Trace* trace = nullptr;
  /// Whether every variable keeps its value, in memory of its own, until the end of the run, so that it can be looked
  /// at.
  bool keep_values = false;
};

namespace detail {

/// Throws LimitExceeded: `what` was waited for as long as is allowed.
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

/// Prepares a program: by the operators of <lod/program/operators/all.hpp>, or from the compiled library.
template <class E>
std::unique_ptr<detail::ProgramToRun> prepare(const E& executor, const ProgramDesc& program, Scope& scope,
                                              const std::vector<std::string>& fetch, const RunLimits& limits,
                                              bool keep_values);

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs

namespace lod::inline LOD_INTERFACE {

/// A program made ready for many runs: its operators prepared, its names resolved. Its variables keep their memory, so
/// that a further run with the same shapes allocates nothing (operators that can't hold to that say so).
///
/// Persistable variables are those of the scope's outermost one, which other programs and later runs see. The others
/// are in a scope of this object's own, inside the scope, and go with it. The operators `feed` and `fetch` do nothing
/// but name what enters and leaves.
///
/// With a CpuExecutor, variables that are not needed at the same time take turns in the same memory: those of the
/// program's own block that are neither persistable nor fed or fetched, nor used by loops, branches and the operators
/// in them. Each gives its memory back after the last operator that uses it; its value is then gone, unless it was to
/// be kept (`keep_values`). Sizes are known only when a program runs, so it isn't `plan_memory` that places them, but
/// its rules say how long each is needed.
///
/// Runs one at a time. The scope must outlive it, and persistable variables must not be erased before. It keeps a copy
/// of the executor, and is itself neither copied nor moved.
template <Executor E = CpuExecutor>
class PreparedProgram {
 public:
  /// Nothing is run. Throws InvalidProgram, naming block, operator and variable:
  /// - as `validate` and DataFlow do;
  /// - for unknown types of operators, all of them in one text;
  /// - for arguments of operators that are missing, or not supported;
  /// - for a persistable variable that the scope does not have, and that is read before an operator writes it;
  /// - for a variable to fetch that does not exist.
  ///
  /// This holds for inner blocks too, those of loops and branches. Throws what `create_variables` throws. Variables
  /// that it has created in the outermost scope stay.
  LOD_TAGGED PreparedProgram(const E& executor, const ProgramDesc& program, Scope& scope,
                             const std::vector<std::string>& fetch = {}, const RunLimits& limits = {},
                             bool keep_values = false)
      : program_(operators_of_programs::prepare<E>(executor, program, scope, fetch, limits, keep_values)) {}
  PreparedProgram(const PreparedProgram&) = delete;
  PreparedProgram& operator=(const PreparedProgram&) = delete;
  LOD_TAGGED ~PreparedProgram() = default;

  /// Runs the operators in their order. Returns what is to be fetched: these tensors share the memory of the program's
  /// variables, and copies of them keep it (the next run then takes new memory). Valid until the next run.
  ///
  /// Throws InvalidProgram, before anything runs, if a variable to feed is missing or unknown; ShapeMismatch if it has
  /// another type or shape than described: a -1 there allows any number of them, and dimensions of 1 at the end do not
  /// count. What an operator throws is thrown with its block, number, type and variables before the text, and with the
  /// persistable variables that operators before it have written, which are then not as they were; all others are.
  /// Throws LimitExceeded and EndOfData in the same way.
  /// What each operator takes is noted in `trace`, if there is one.
  LOD_TAGGED const std::vector<AnyLoDTensor>& run(const Feed& feed = {}, Trace* trace = nullptr) LOD_LIFETIMEBOUND {
    return program_->run(feed, trace);
  }

 private:
  std::unique_ptr<detail::ProgramToRun> program_;
};

}  // namespace lod::inline LOD_INTERFACE

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {

/// Runs a program once and returns what is to be fetched. Variables that are not persistable exist only during the run.
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
