// SPDX-License-Identifier: Apache-2.0
/// @file
/// A block of a program, ready to run: its operators are prepared on the variables of a scope.
#pragma once

#include <lod/core/any_tensor.hpp>
#include <lod/core/device.hpp>
#include <lod/core/error.hpp>
#include <lod/core/executor.hpp>
#include <lod/core/floating_point_control.hpp>
#include <lod/core/target.hpp>
#include <lod/ops/for_each_sequence.hpp>
#include <lod/ops/kernel.hpp>
#include <lod/ops/staging.hpp>
#include <lod/program/block_to_run.hpp>
#include <lod/program/check_program.hpp>
#include <lod/program/data_flow.hpp>
#include <lod/program/device_values.hpp>
#include <lod/program/operator.hpp>
#include <lod/program/place_of.hpp>
#include <lod/program/plan_memory.hpp>
#include <lod/program/program.hpp>
#include <lod/program/reused_memory.hpp>
#include <lod/program/run.hpp>
#include <lod/program/scope.hpp>
#include <lod/program/trace.hpp>
#include <lod/program/twins.hpp>
#include <lod/program/variable.hpp>
#include <lod/program/waiting_time.hpp>

#include <algorithm>
#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <list>
#include <memory>
#include <memory_resource>
#include <optional>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {

/// What all prepared blocks of a program share. It stays at one address.
template <Executor E>
struct RunningProgram {
  const E executor;
  const ProgramDesc* program;
  DataFlow* flow;
  Scope* outside;  ///< around the program: its variables outlive the run
  RunLimits limits;
  detail::FindOperator<CpuExecutor>* find_on_cpu;  ///< for operators that run on the CPU while tensors are on a device
  std::int64_t steps = 0;                          ///< of loops in the current run
  WaitingTime waiting_time_left = {};              ///< in the current run
  Trace* trace = nullptr;                          ///< of the current run; null if it has none
  /// That of the thread that called, which operators that users have added see.
  detail::FloatingPointControl::Word callers_control = detail::FloatingPointControl::standard;
};

/// See BlockToRun.
template <Executor E>
class PreparedBlock final : public BlockToRun {
 public:
  /// Creates the block's variables in `scope`.
  PreparedBlock(RunningProgram<E>& running, const BlockDesc& block, Scope& scope)
      : running_(running), scope_(scope), block_(block.idx) {
    if constexpr (operation::on_cpu<E>) {
      create_variables(scope, block, running.executor.resource());
    } else {
      create_variables(scope, block);
      placement_.emplace(block, [](const std::string& type) {
        const auto op = operators<E>().find(type);
        return op ? op->on_cpu : std::string_view();
      });
    }
    for (const VarDesc& var : block.vars) {
      if (var.type.type == VarType::LOD_TENSOR_ARRAY && !var.persistable) {
        arrays_.push_back(&scope.var(var.name).template get<std::vector<AnyLoDTensor>>());
      }
    }
    for (std::size_t i = 0; i < block.ops.size(); ++i) {
      if (!detail::is_feed_or_fetch(block.ops[i])) add_step(block.ops[i], i);
    }
    if constexpr (has_threads) {
      if (running.executor.threads() > 1) find_twins(block);
    }
  }
  PreparedBlock(const PreparedBlock&) = delete;
  PreparedBlock& operator=(const PreparedBlock&) = delete;
  ~PreparedBlock() override = default;

  void begin() override {
    if constexpr (!operation::on_cpu<E>) {
      for (const auto& [variable, is_on_cpu] : placed_) detail::move_to(running_.executor, *variable, is_on_cpu);
    }
    for (auto* array : arrays_) array->clear();
  }
  void run() override {
    for (const auto* memory : {&reused_, &reused_beside_}) {
      if (*memory) (*memory)->begin_run();
    }
    std::size_t i = 0;
    try {
      while (i < steps_.size()) {
        const std::size_t first = i;
        if (!run_twins_at(i)) {
          run(steps_[i], 0);
          ++i;
        }
        for (const Step& step : std::span(steps_).subspan(first, i - first)) {
          for (const auto& [writer, variable] : step.ends) steps_[writer].call.let_go(*variable);
        }
      }
    } catch (...) {
      throw_at(i);
    }
    for (const auto* memory : {&reused_, &reused_beside_}) {
      if (*memory) (*memory)->end_run();
    }
  }
  /// Lets variables share memory in turn: each gives its memory back after the last operator that uses it. `block` is
  /// the block that this object was made from.
  void share_memory(const BlockDesc& block, const std::vector<detail::Lifetimes::Entry>& variables) {
    if (variables.empty()) return;
    reused_ = detail::ReusedMemory::make(running_.executor.resource());
    // Separate memory, so that what one thread gets does not depend on what the other asks for.
    if (beside_) reused_beside_ = detail::ReusedMemory::make(running_.executor.resource());
    std::vector<std::size_t> steps;  // for each operator, the number of steps up to and including it
    steps.reserve(block.ops.size());
    for (const OpDesc& op : block.ops) {
      steps.push_back((steps.empty() ? 0 : steps.back()) + (detail::is_feed_or_fetch(op) ? 0 : 1));
    }
    detail::NameMap<std::size_t> writers;
    for (const auto& [var, first_op, last_op] : variables) {
      const std::size_t writer = steps[static_cast<std::size_t>(first_op)] - 1;
      writers.emplace(var->name, writer);
      steps_[steps[static_cast<std::size_t>(last_op)] - 1].ends.push_back({writer, scope_.find(var->name)});
    }
    for (std::size_t i = 0; i < block.ops.size(); ++i) {
      for (const OpDesc::Var& output : block.ops[i].outputs) {
        for (const std::string& name : output.arguments) {
          const auto found = writers.find(name);
          if (found == writers.end()) continue;
          const bool is_beside = beside_ && &steps_[found->second].call.executor() == &*beside_;
          steps_[steps[i] - 1].call.reuse(*scope_.find(name), is_beside ? reused_beside_.get() : reused_.get());
        }
      }
    }
  }
  /// Whether this is a resource whose memory variables share in turn.
  bool is_shared(const std::pmr::memory_resource* resource) const noexcept {
    return resource == reused_.get() || resource == reused_beside_.get();
  }
  Scope& scope() noexcept override { return scope_; }
  const ProgramDesc& program() const noexcept override { return *running_.program; }
  std::unique_ptr<BlockToRun> prepare(std::int32_t idx, Scope& around) override {
    return prepare_in(idx, around.new_scope());
  }
  std::unique_ptr<BlockToRun> prepare_in(std::int32_t idx, Scope& scope) override {
    return std::make_unique<PreparedBlock>(running_, running_.program->block(idx), scope);
  }
  void count_step() override {
    if (running_.steps == running_.limits.steps) {
      const std::int64_t taken = running_.steps;  // nvcc has no place for the member in the list
      throw LimitExceeded(detail::text({"its loops have taken ", taken, " steps, as many as it may"}));
    }
    ++running_.steps;
  }
  const VarDesc* find_var(std::string_view name) const override { return running_.program->find_var(name, block_); }

 protected:
  WaitingTime& waiting_time_left() noexcept override { return running_.waiting_time_left; }

 private:
  /// Whether operators may run at the same time.
  static constexpr bool has_threads = std::same_as<E, CpuExecutor>;

  /// A prepared operator.
  struct Step {
    RunOperator<E> run;
    OperatorCall<E> call;
    std::string place;                  // for errors
    std::vector<std::string> persists;  // the variables that it writes that outlive the run
    bool owns_blocks;                   // if so, it may have written them when it fails
    std::string type;
    bool is_users;          // one that users have added
    std::size_t twins = 0;  // see detail::find_twins
    struct End {
      std::size_t writer;
      Variable* variable;
    };
    std::vector<End> ends = {};  // the variables whose memory is given back after it
  };

  void run(Step& step, std::int32_t lane) {
    if (step.is_users) {
      const detail::FloatingPointControl callers(running_.callers_control);
      return run_step(step, lane);
    }
    run_step(step, lane);
  }
  void run_step(Step& step, std::int32_t lane) {
    if (running_.trace) return run_traced(step, lane);
    step.run(step.call);
  }
  [[gnu::cold, gnu::noinline]] void run_traced(Step& step, std::int32_t lane) {
    const auto start = Trace::Clock::now();
    step.run(step.call);
    const auto end = Trace::Clock::now();
    running_.trace->add(step.type, step.place, start, end, step.call.bytes(), lane);
  }

  static bool is_empty(const std::string& name) noexcept { return name.empty() || name == empty_variable_name; }

  /// Prepares an operator for the executor `By`: that of the program, or the CPU's.
  template <Executor By>
  RunOperator<By> prepare(const OpDesc& op, std::size_t i) {
    std::optional<Operator<By>> type;
    if constexpr (std::same_as<By, E>) {
      type = operators<E>().find(op.type);
    } else {
      type = running_.find_on_cpu(op.type);
    }
    try {
      if (!type) {
        OperatorArguments(op).refuse({"it is there for the CPU, not for a ",
                                      std::same_as<typename E::device, Cuda> ? "CudaExecutor" : "device like this"});
      }
      return type->prepare(OperatorArguments(op, this));
    } catch (const InvalidProgram& error) {
      throw InvalidProgram(detail::text({"block ", block_, ", operator ", i, ": ", error.what()}));
    }
  }
  /// The same where tensors are on a device: an operator that the placement puts on the CPU runs there; others get
  /// copies, on the device, of the variables in CPU memory that they use, except of those that they need there.
  RunOperator<E> prepare_on_device(const OpDesc& op, std::size_t i, std::vector<Variable*>& variables) {
    for (std::size_t k = 0; k < variables.size(); ++k) {
      if (variables[k]) placed_.emplace_back(variables[k], placement_->is_on_cpu(variables[k]->name()));
    }
    if (placement_->runs_on_cpu(i)) {
      return [run = prepare<CpuExecutor>(op, i), call = OperatorCall<CpuExecutor>(default_executor<Cpu>(), variables)](
                 OperatorCall<E>&) mutable { run(call); };
    }
    RunOperator<E> run = prepare<E>(op, i);
    std::vector<std::pair<const Variable*, Variable*>> copies;
    std::size_t k = 0;
    for (const auto* vars : {&op.inputs, &op.outputs}) {
      for (const OpDesc::Var& var : *vars) {
        for (const std::size_t end = k + var.arguments.size(); k < end; ++k) {
          if (!variables[k] || !placement_->is_on_cpu(variables[k]->name()) || placement_->needs(i, var.parameter)) {
            continue;
          }
          Variable& copy = copies_.emplace_back(detail::AnyOn<E>(), variables[k]->name());
          copies.emplace_back(std::exchange(variables[k], &copy), &copy);
        }
      }
    }
    if (copies.empty()) return run;
    return [run = std::move(run), copies = std::move(copies)](OperatorCall<E>& call) {
      for (const auto& [from, to] : copies) {
        detail::upload(call.executor(), from->template get<AnyLoDTensor>(), to->template get<detail::AnyOn<E>>());
      }
      run(call);
    };
  }

  void add_step(const OpDesc& op, std::size_t i) {
    std::vector<Variable*> variables;
    for (const auto* vars : {&op.inputs, &op.outputs}) {
      for (const OpDesc::Var& var : *vars) {
        for (const std::string& name : var.arguments) {
          Variable* variable = nullptr;
          if (!is_empty(name)) variable = scope_.find(name);
          if (!is_empty(name) && !variable) variable = &scope_.var(name);
          variables.push_back(variable);
        }
      }
    }
    RunOperator<E> run;
    if constexpr (operation::on_cpu<E>) {
      run = prepare<E>(op, i);
    } else {
      run = prepare_on_device(op, i, variables);
    }
    std::vector<std::string> persists;
    for (const std::string_view name : running_.flow->of(op, block_).writes) {
      const Variable* const written = scope_.find(name);
      if (written && written == running_.outside->find(name)) persists.emplace_back(name);
    }
    steps_.push_back({std::move(run), OperatorCall<E>(running_.executor, std::move(variables)),
                      detail::place_with_variables(op, block_, i), std::move(persists), owns_blocks(op), op.type,
                      operators<E>().is_added(op.type)});
  }

  /// Finds the operators that can run at the same time. Those that write variables that outlive the run are left out,
  /// since an error message must say what the operators before have written.
  void find_twins(const BlockDesc& block) {
    std::vector<const OpDesc*> ops;
    for (const OpDesc& op : block.ops) {
      if (!detail::is_feed_or_fetch(op)) ops.push_back(&op);
    }
    const std::vector<std::size_t> twins = detail::find_twins(ops);
    for (std::size_t i = 0; i < ops.size(); ++i) {
      const auto both = std::span(steps_).subspan(i, 2 * twins[i]);
      if (std::ranges::any_of(both, [](const Step& step) { return !step.persists.empty(); })) continue;
      steps_[i].twins = twins[i];
      // An executor of their own, with its own memory, so that what a run needs does not depend on which of the two is
      // ahead.
      if (twins[i] > 0 && !beside_) beside_.emplace(running_.executor.threads(), running_.executor.resource());
      for (Step& step : both.subspan(twins[i])) step.call.run_on(*beside_);
    }
  }
  /// Whether twins are better run at the same time, on one thread each, than one after the other on all threads: always
  /// with two or three threads, otherwise if a step of the recurrent layer has only enough work for one.
  bool has_few_sequences(std::size_t first) const {
    constexpr int few_threads = 4;
    constexpr std::int64_t few_sequences = 32;
    return running_.executor.threads() < few_threads || steps_[first].call.sequences() < few_sequences;
  }
  /// Runs twins at the same time if `i` is the first of some for which that is better, and moves `i` past them. Returns
  /// whether it did.
  bool run_twins_at(std::size_t& i) {
    if constexpr (has_threads) {
      if (steps_[i].twins > 0 && has_few_sequences(i)) {
        run_twins(i);
        return true;
      }
    }
    return false;
  }
  /// Runs the twins that begin at `i`, and moves `i` past them; if an operator fails, to that operator.
  void run_twins(std::size_t& i) {
    const std::size_t size = steps_[i].twins;
    std::size_t at[] = {i, i + size};
    std::exception_ptr errors[2];
    // The calling thread takes the first of the two if it can, in every run, so that what it reads, such as weights, is
    // still in the caches of its core.
    std::atomic<bool> is_taken[2] = {false, false};
    const std::thread::id caller = std::this_thread::get_id();
    const std::int64_t offsets[] = {0, 1, 2};
    launch(kernel::ForEachSequence(), running_.executor, kernel::Segments(offsets, 2, 1), [&](std::int64_t) {
      std::size_t k = std::this_thread::get_id() == caller ? 0 : 1;
      if (is_taken[k].exchange(true)) k = 1 - k;
      try {
        for (const std::size_t end = at[k] + size; at[k] < end; ++at[k])
          run(steps_[at[k]], static_cast<std::int32_t>(k));
      } catch (...) {
        errors[k] = std::current_exception();
      }
    });
    for (std::size_t k = 0; k < 2; ++k) {
      i = at[k];
      if (errors[k]) std::rethrow_exception(errors[k]);
    }
  }

  /// Rethrows the current exception, which operator `failed` threw, with its place.
  [[noreturn, gnu::cold, gnu::noinline]] void throw_at(std::size_t failed) const {
    std::set<std::string> changed;
    for (std::size_t i = 0; i < failed + (steps_[failed].owns_blocks ? 1 : 0); ++i) {
      changed.insert(steps_[i].persists.begin(), steps_[i].persists.end());
    }
    std::string place = detail::text({step_ < 0 ? "" : "step " + std::to_string(step_) + ", ", steps_[failed].place});
    if (!changed.empty()) {
      place += ", after persistable variables were changed:";
      for (const std::string& name : changed) place += detail::text({" '", name, "'"});
    }
    try {
      throw;
    } catch (const InvalidProgram& error) {
      throw InvalidProgram(detail::text({place, ": ", error.what()}));
    } catch (const LimitExceeded& error) {
      throw LimitExceeded(detail::text({place, ": ", error.what()}));
    } catch (const EndOfData& error) {
      throw EndOfData(detail::text({place, ": ", error.what()}));
    } catch (...) {
      detail::with_name(place.c_str(), [] { throw; });
    }
    throw std::logic_error("unreachable");
  }

  RunningProgram<E>& running_;
  Scope& scope_;
  std::int32_t block_;
  std::vector<std::vector<AnyLoDTensor>*> arrays_;      // the arrays that belong to the block
  detail::ReusedMemory::Owner reused_, reused_beside_;  // null: every variable has memory of its own
  std::vector<Step> steps_;
  std::optional<E> beside_;  // for the second of two twins
  // On another device than the CPU:
  std::optional<detail::Placement> placement_;
  std::vector<std::pair<Variable*, bool>> placed_;  // variables, and whether their tensors are in CPU memory
  std::list<Variable> copies_;                      // on the device, of tensors in CPU memory
};

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET
