// SPDX-License-Identifier: Apache-2.0
#include "support/every_output.hpp"

#include "catalogue/catalogue.hpp"

#include <concepts>
#include <cstddef>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>

namespace lod_test {

namespace {

template <class X>
concept IsValue = std::constructible_from<Value, X>;

/// Notes what a sample takes and gives.
class Recorder {
 public:
  using Executor = lod::CpuExecutor;
  using Device = lod::Cpu;
  using Unchanged = void;  ///< cells of networks work out nothing, so that no memory is theirs

  const Executor& executor() const { return executor_; }
  template <class X>
  const X& on(const X& x) {
    arguments.push_back(x);
    return x;
  }
  const std::vector<std::int64_t>& list(const std::vector<std::int64_t>& numbers) {
    arguments.push_back(LoDTensor<std::int64_t>::from_values(LoD(), {}, numbers));
    return numbers;
  }
  template <class Make>
  auto& given(const Make& make) {
    auto& x = made(make);
    if constexpr (IsValue<std::remove_cvref_t<decltype(x)>>) arguments.push_back(x);
    return x;
  }
  template <class Make>
  auto& output(const Make& make) {
    auto& y = made(make);
    outputs.push_back(y);
    return y;
  }
  template <class Make>
  auto& made(const Make& make) {
    using X = decltype(make());
    kept.push_back(std::make_shared<X>(make()));
    return *static_cast<X*>(kept.back().get());
  }

  Values arguments, outputs;
  std::vector<std::shared_ptr<void>> kept;

 private:
  Executor executor_;
};

/// Gives a sample other arguments and outputs in the places of those that were noted.
class Replacer {
 public:
  using Executor = lod::CpuExecutor;
  using Device = lod::Cpu;
  using Unchanged = void;

  Replacer(const Executor& executor, std::span<const Value* const> arguments, std::span<Value* const> outputs,
           const std::vector<std::shared_ptr<void>>& kept)
      : executor_(executor), arguments_(arguments), outputs_(outputs), kept_(kept) {}

  const Executor& executor() const { return executor_; }
  template <class X>
  const X& on(const X&) {
    return std::get<X>(*arguments_[next_argument_++]);
  }
  const LoDTensor<std::int64_t>& list(const std::vector<std::int64_t>&) {
    return std::get<LoDTensor<std::int64_t>>(*arguments_[next_argument_++]);
  }
  template <class Make>
  auto& given(const Make& make) {
    using X = decltype(make());
    auto& x = made(make);
    if constexpr (IsValue<X>) {
      return std::get<X>(*arguments_[next_argument_++]);
    } else {
      return std::as_const(x);
    }
  }
  template <class Make>
  auto& output(const Make& make) {
    using X = decltype(make());
    ++next_kept_;
    return std::get<X>(*outputs_[next_output_++]);
  }
  template <class Make>
  auto& made(const Make& make) {
    using X = decltype(make());
    return *static_cast<X*>(kept_[next_kept_++].get());
  }

 private:
  const Executor& executor_;
  std::span<const Value* const> arguments_;
  std::span<Value* const> outputs_;
  const std::vector<std::shared_ptr<void>>& kept_;
  std::size_t next_argument_ = 0, next_output_ = 0, next_kept_ = 0;
};

/// How much an operation promises where memory runs out, as its comment says.
template <class Op>
constexpr Failure failure_of() {
  if (is_one_of<Op, op::sequence_conv_grad, op::row_conv_grad, op::lstm_grad, op::lstm_cell, op::lstm_cell_grad,
                op::gru_grad, op::gru_cell, op::gru_cell_grad, op::stacked_lstm, op::stacked_lstm_grad, op::stacked_gru,
                op::stacked_gru_grad, op::linear_chain_crf_grad, op::linear, op::linear_grad>) {
    return Failure::CONTENTS_LOST;
  }
  if (is_one_of<Op, op::lod_tensor_to_array, op::array_to_lod_tensor_grad>) return Failure::BY_ELEMENTS;
  return Failure::CHANGES_NOTHING;
}

}  // namespace

std::vector<OperationWithOutputs> operations_with_outputs() {
  std::vector<OperationWithOutputs> all;
  lod::operation::for_each_operation(lod::AllOperations(), [&]<class Op>() {
    Draws batch(Engine(1), LoD::from_lengths({{2, 0, 1}, {2, 0, 3}}), 3, 3, 7);
    batch.level = 1;
    for_each_variant<Op, ElementOf<Op>>(batch, [&](Draws& draws, const auto& sample_of) {
      Recorder recorder;
      sample_of(recorder);
      if (draws.in_place || recorder.outputs.empty()) return;
      const auto drawn = std::make_shared<Draws>(draws);
      const auto run = [drawn, kept = recorder.kept](const lod::CpuExecutor& executor,
                                                     std::span<const Value* const> ins, std::span<Value* const> outs) {
        Replacer replacer(executor, ins, outs, kept);
        Case<Replacer, ElementOf<Op>> with(replacer, *drawn);
        sample(Op(), with);
      };
      all.push_back({std::string(lod::operation::name_of<Op>) + ", form " + std::to_string(draws.variant),
                     failure_of<Op>(), recorder.arguments, recorder.outputs, run});
    });
  });
  return all;
}

}  // namespace lod_test
