// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup descriptions
/// Blocks of a running program, for the operators that own them: the bodies of loops and branches.
///
///     // Runs its block as often as it was told to.
///     lod::operators().add("repeat", {.prepare = [](const lod::OperatorArguments& op) {
///       const std::int32_t times = op.attr("times", 1);
///       lod::StepBlocks body(op, "sub_block");
///       return [=](lod::OperatorCall<>&) mutable {
///         for (std::int32_t i = 0; i < times; ++i) body.run_step(0);
///       };
///     }});
#pragma once

#include <lod/core/desc.hpp>
#include <lod/core/error.hpp>
#include <lod/core/target.hpp>
#include <lod/program/operator.hpp>
#include <lod/program/program.hpp>
#include <lod/program/scope.hpp>
#include <lod/program/waiting_time.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <type_traits>
#include <vector>

namespace lod::inline LOD_INTERFACE {

/// A block whose operators are prepared, on the variables of its own scope and of the scopes around that.
class BlockToRun {
 public:
  LOD_TAGGED BlockToRun() = default;
  BlockToRun(const BlockToRun&) = delete;
  BlockToRun& operator=(const BlockToRun&) = delete;
  LOD_TAGGED virtual ~BlockToRun() = default;

  /// Empties the arrays that belong to the block, as before each run.
  LOD_TAGGED virtual void begin() = 0;
  /// Runs its operators in order. The message of an exception that an operator throws begins with the operator's place.
  LOD_TAGGED virtual void run() = 0;
  /// Sets the number of the loop's step that is run next, counted from 0: error messages name it.
  LOD_TAGGED void begin_step(std::int64_t step) noexcept { step_ = step; }
  /// The scope of the block's variables; owned by the scope around it.
  LOD_TAGGED virtual Scope& scope() noexcept = 0;
  /// The program that it is a block of.
  LOD_TAGGED virtual const ProgramDesc& program() const noexcept = 0;

  /// @{
  /// For the operators in the block.
  /// Block `idx` of the program, prepared in a new scope inside `around`. Throws as PreparedProgram does.
  LOD_TAGGED virtual std::unique_ptr<BlockToRun> prepare(std::int32_t idx, Scope& around) = 0;
  /// The same in an existing scope: the gradient of a block is prepared in the scope that a step of the block has left.
  LOD_TAGGED virtual std::unique_ptr<BlockToRun> prepare_in(std::int32_t idx, Scope& scope) = 0;
  /// Counts a step of a loop. Throws LimitExceeded if the run has already taken all the steps that RunLimits allows.
  LOD_TAGGED virtual void count_step() = 0;
  /// Returns wait_for(longest), where `longest` is what is left of RunLimits::wait in this run; `wait_for` must wait
  /// for other threads no longer than that. The time that it takes is subtracted from what is left.
  template <class F>
  LOD_TAGGED std::invoke_result_t<const F&, WaitingTime> wait(const F& wait_for) {
    WaitingTime& left = waiting_time_left();
    if (left == no_waiting_limit) return wait_for(left);
    const Waited waited(left);
    return wait_for(left);
  }
  /// The description of the variable that a name stands for in the block (see ProgramDesc::find_var); null if there is
  /// none.
  LOD_TAGGED virtual const VarDesc* find_var(std::string_view name) const = 0;
  /// @}

 protected:
  /// How long all operators of this run together may still wait.
  LOD_TAGGED virtual WaitingTime& waiting_time_left() noexcept = 0;

  std::int64_t step_ = -1;  ///< the step of a loop; -1: none

 private:
  /// Subtracts the time between its construction and its destruction from what is left.
  class Waited {
   public:
    LOD_TAGGED explicit Waited(WaitingTime& left) : left_(left), start_(std::chrono::steady_clock::now()) {}
    Waited(const Waited&) = delete;
    Waited& operator=(const Waited&) = delete;
    LOD_TAGGED ~Waited() { left_ -= std::min(left_, std::chrono::steady_clock::now() - start_); }

   private:
    WaitingTime& left_;
    std::chrono::steady_clock::time_point start_;
  };
};

/// A block that an operator owns, prepared once for each step whose variables must be kept. Copies share the prepared
/// steps.
class StepBlocks {
 public:
  /// The block that an attribute of the operator names. The first step is prepared at once, so that a program that
  /// can't run is refused before it runs. Throws InvalidProgram, also if the operator is not prepared for a program.
  LOD_TAGGED StepBlocks(const OperatorArguments& op, std::string_view attribute)
      : around_(&op.block()), steps_(std::make_shared<Steps>()) {
    steps_->block = op.desc().attr<std::int32_t>(attribute);
    prepare(0);
  }

  /// Runs the block with the variables of step i, which is prepared first if it has not been; this counts as a step of
  /// a loop. Error messages call it step `number`, or no step if that is -1.
  LOD_TAGGED void run_step(std::size_t i, std::int64_t number = -1) {
    around_->count_step();
    prepare(i);
    (*this)[i].begin_step(number);
    (*this)[i].begin();
    (*this)[i].run();
  }
  /// Step i, which must have been prepared.
  LOD_TAGGED BlockToRun& operator[](std::size_t i) const {
    LOD_ASSERT(i < steps_->prepared.size());
    return *steps_->prepared[i];
  }
  /// Prepares all steps up to step i.
  LOD_TAGGED void prepare(std::size_t i) {
    auto& prepared = steps_->prepared;
    while (prepared.size() <= i) prepared.push_back(around_->prepare(steps_->block, around_->scope()));
  }

 private:
  struct Steps {
    LOD_TAGGED Steps() = default;
    LOD_TAGGED ~Steps() = default;
    std::int32_t block = 0;
    std::vector<std::unique_ptr<BlockToRun>> prepared;
  };

  BlockToRun* around_;
  std::shared_ptr<Steps> steps_;
};

/// Whether an operator of the program reads the variable of that name. O(arguments in the program).
LOD_TAGGED inline bool reads_variable(const ProgramDesc& program, std::string_view name) {
  for (const BlockDesc& block : program.blocks) {
    for (const OpDesc& op : block.ops) {
      for (const OpDesc::Var& input : op.inputs) {
        for (const std::string& argument : input.arguments) {
          if (argument == name) return true;
        }
      }
    }
  }
  return false;
}

}  // namespace lod::inline LOD_INTERFACE
