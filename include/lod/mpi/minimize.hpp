// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup ranks
/// Programs that train on several ranks, each by its own part of a batch.
///
///     lod::mpi::minimize(program, startup, "loss", lod::Adam{.learning_rate = 1e-3f});
///     lod::run(startup, scope);
///     lod::mpi::DataParallelProgram step(ranks, program, scope, {"loss"});   // <lod/mpi/data_parallel.hpp>
///     for (const lod::Feed& batch : batches_of_this_rank) step.run(batch);
#pragma once

#include <lod/core/data_type.hpp>
#include <lod/core/desc.hpp>
#include <lod/core/error.hpp>
#include <lod/core/executor.hpp>
#include <lod/core/target.hpp>
#include <lod/mpi/sums_in_programs.hpp>
#include <lod/program/backward.hpp>
#include <lod/program/gradient.hpp>
#include <lod/program/gradient_sums.hpp>
#include <lod/program/gradient_variables.hpp>
#include <lod/program/minimize.hpp>
#include <lod/program/program.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lod::inline LOD_INTERFACE::between_ranks::inline LOD_TARGET {

/// The loss of all ranks, in a program that computes that of one. A template, so that only programs that ask for
/// gradients compile it.
template <class E>
class LossOfRanks {
 public:
  /// Makes block 0 of the program compute, in place of the mean, the sum and how many numbers it is of.
  LossOfRanks(ProgramDesc& program, std::string_view loss) : program_(program), loss_(loss) {
    auto& ops = block().ops;
    const auto writes = [&](const OpDesc& op) { return detail::has_argument(op.outputs, loss_); };
    const auto reads = [&](const OpDesc& op) { return op.type != "fetch" && detail::has_argument(op.inputs, loss_); };
    const auto mean = std::find_if(ops.begin(), ops.end(), writes);
    if (mean == ops.end() || mean->type != "mean" || std::count_if(ops.begin(), ops.end(), writes) > 1) {
      refuse(mean == ops.end() ? "no operator writes it" : "operator '" + mean->type + "' writes it",
             "one operator `mean`, so that the mean over all ranks is known");
    }
    if (std::any_of(ops.begin(), ops.end(), reads)) {
      refuse("an operator reads it", "none, since it is known only once all ranks have theirs");
    }
    const VarDesc* const var = block().find_var(loss_);
    if (!var) refuse("block 0 has no such variable", "one");
    const TensorDesc* const tensor = detail::described_tensor(*var);
    type_ = tensor ? tensor->data_type : DataType::FP32;
    add_variable("@SUM", type_);
    add_variable("@SIZE", DataType::INT64);
    add_variable("@COUNT", type_);
    const std::string x = mean->input("X").empty() ? std::string() : mean->input("X").front();
    *mean = {.inputs = {{"X", {x}}},
             .outputs = {{"Out", {sum()}}},
             .type = "reduce_sum",
             .attrs = {make_attr("reduce_all", true), make_attr("dim", std::vector<std::int64_t>{0})}};
    const OpDesc counting[] = {
        {.inputs = {{"Input", {x}}}, .outputs = {{"Out", {loss_ + "@SIZE"}}}, .type = "size"},
        {.inputs = {{"X", {loss_ + "@SIZE"}}},
         .outputs = {{"Out", {count()}}},
         .type = "cast",
         .attrs = {number_of_type("in_dtype", DataType::INT64), number_of_type("out_dtype", type_)}}};
    ops.insert(std::next(mean), std::begin(counting), std::end(counting));
  }

  /// The variable with this rank's sum.
  std::string sum() const { return loss_ + "@SUM"; }

  /// Sums up over ranks: the loss and its count once they are there, each gradient after the last operator that
  /// computes it. All is summed up before what comes after: the mean loss, and the gradients of the mean.
  void sum_up(const std::vector<ParameterGradient>& pairs) {
    std::vector<std::string> summed;
    add_sum(count(), {}, summed);
    add_sum(sum(), {}, summed);
    for (const ParameterGradient& pair : pairs) add_sum(pair.gradient, {pair.parameter, pair.gradient}, summed);
    OpDesc wait{.inputs = {{"X", summed}}, .outputs = {{"Out", summed}}, .type = "c_sync_comm_stream"};
    wait.attrs = {make_attr("ring_id", 0), make_attr("op_role", OpRole::BACKWARD)};
    block().ops.push_back(std::move(wait));

    add_variable("@ONE", type_);
    add_variable("@DIVISOR", type_);
    add_variable("@FACTOR", type_);
    const std::string one = loss_ + "@ONE", divisor = loss_ + "@DIVISOR", factor = loss_ + "@FACTOR";
    add({.outputs = {{"Out", {one}}},
         .type = "fill_constant",
         .attrs = {make_attr("shape", std::vector<std::int64_t>{1}), number_of_type("dtype", type_),
                   make_attr("value", 1.0f), make_attr("str_value", std::string("1.0"))}});
    // Where no rank has any number, all is zero.
    pairwise("elementwise_max", count(), one, divisor);
    pairwise("elementwise_div", sum(), divisor, loss_);
    pairwise("elementwise_div", one, divisor, factor);
    for (const ParameterGradient& pair : pairs) {
      pairwise("elementwise_mul", pair.gradient, factor, pair.gradient, {pair.parameter, pair.gradient});
    }
  }

 private:
  BlockDesc& block() { return program_.blocks.at(0); }
  std::string count() const { return loss_ + "@COUNT"; }

  [[noreturn, gnu::cold, gnu::noinline]] void refuse(const std::string& found, const char* expected) const {
    throw InvalidProgram(detail::text({"loss '", loss_, "': ", found, ", expected ", expected}));
  }
  static OpDesc::Attr number_of_type(const char* name, DataType type) {
    return make_attr(name, static_cast<std::int32_t>(type));
  }
  void add_variable(const char* suffix, DataType type) {
    VarDesc var = VarDesc::lod_tensor(loss_ + suffix, {type, {1}});
    if (block().find_var(var.name)) refuse("there is a variable '" + var.name + "' already", "none of that name");
    block().vars.push_back(std::move(var));
  }
  void add(OpDesc op, std::vector<std::string> of = {}) {
    op.attrs.push_back(make_attr("op_role", OpRole::OPTIMIZE));
    op.attrs.push_back(make_attr("op_role_var", std::move(of)));
    block().ops.push_back(std::move(op));
  }
  void pairwise(const char* type, const std::string& x, const std::string& y, const std::string& out,
                std::vector<std::string> of = {}) {
    add({.inputs = {{"X", {x}}, {"Y", {y}}}, .outputs = {{"Out", {out}}}, .type = type}, std::move(of));
  }
  /// Inserts the operator that begins the sum of a variable.
  void add_sum(const std::string& variable, std::vector<std::string> of, std::vector<std::string>& summed) {
    auto& ops = block().ops;
    // One that only reads it may be the gradient of a branch, which changes it.
    const auto last = std::find_if(ops.rbegin(), ops.rend(), [&](const OpDesc& op) {
      return op.type != "fetch" &&
             (detail::has_argument(op.outputs, variable) || detail::has_argument(op.inputs, variable));
    });
    OpDesc op{.inputs = {{"X", {variable}}}, .outputs = {{"Out", {variable}}}, .type = "c_allreduce_sum"};
    op.attrs = {make_attr("ring_id", 0), make_attr("use_calc_stream", false), make_attr("op_role", OpRole::BACKWARD),
                make_attr("op_role_var", std::move(of))};
    ops.insert(last.base(), std::move(op));
    summed.push_back(variable);
  }

  ProgramDesc& program_;
  std::string loss_;
  DataType type_ = DataType::FP32;
};

}  // namespace lod::inline LOD_INTERFACE::between_ranks::inline LOD_TARGET

namespace lod::inline LOD_INTERFACE::mpi::inline LOD_TARGET {

/// As lod::minimize, for ranks that each run the program on batches of their own: every step is that of one process
/// with all of their sequences in one batch. For a DataParallelProgram.
///
/// The loss must be what one operator `mean` computes, and is the mean over all ranks. A mean of the ranks' means would
/// not do, since ragged batches have different numbers of rows: in place of the mean, block 0 computes the sum and how
/// many numbers it is of (`loss@SUM`, `loss@COUNT`), and `append_backward` is of the sum. The operator
/// `c_allreduce_sum` begins the sum over ranks of these two, and of each gradient after the last operator that computes
/// it; `c_sync_comm_stream` waits for all of them. Only then `loss` is computed, sum / count, and each gradient is
/// multiplied by 1 / count; then it is clipped, decayed and used, as in lod::minimize. So what clips sees the gradient
/// of the whole batch, and a rank whose batch has no sequences adds zeros. If none has any, the loss and all gradients
/// are zero.
///
/// What else looks at a whole batch sees that of its rank: `batch_norm` normalises by it, `auc` counts in it. Random
/// numbers are each rank's own.
///
/// lod::PreparedProgram runs the program, too, as one rank would. Throws as lod::minimize, and InvalidProgram for
/// another loss, for one that an operator reads, and if the program has variables named like those above; both programs
/// stay as they were.
template <std::same_as<CpuExecutor> E = CpuExecutor>
std::vector<ParameterGradient> minimize(ProgramDesc& program, ProgramDesc& startup, std::string_view loss,
                                        const Optimizer& optimizer, const MinimizeOptions& options = {}) {
  between_ranks::add_operators_of_sums<E>();
  ProgramDesc copy = program;
  between_ranks::LossOfRanks<E> of_ranks(copy, loss);
  auto pairs = append_backward<E>(copy, of_ranks.sum(), options.backward);
  of_ranks.sum_up(pairs);
  return detail::add_updates(program, startup, std::move(copy), std::move(pairs), optimizer, options);
}

}  // namespace lod::inline LOD_INTERFACE::mpi::inline LOD_TARGET
