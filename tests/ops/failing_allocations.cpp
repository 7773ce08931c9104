// SPDX-License-Identifier: Apache-2.0
#include "support/count_allocations.hpp"
#include "support/every_output.hpp"
#include "support/grain.hpp"
#include "support/output_states.hpp"
#include <lod/lod.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <new>
#include <span>
#include <string>
#include <variant>
#include <vector>

using lod::CpuExecutor;
using lod::Shape;
using namespace lod_test;

namespace {

/// Something else in the place of an output: of other sizes, with less memory or with more, or like the result.
enum class Before { EMPTY, SMALLER, LARGER, ALIKE };

template <class T>
LoDTensor<T> before(const LoDTensor<T>& result, Before what) {
  if (what == Before::EMPTY) return {};
  if (what == Before::SMALLER) return numbered(LoDTensor<T>(LoD::from_lengths({{1, 0}}), {1}), 3);
  if (what == Before::LARGER) return numbered(LoDTensor<T>(Shape{70, 3, 5}), 3);
  LoDTensor<T> alike = result;
  for (T& number : alike.values()) number = static_cast<T>(9);
  return alike;
}
template <class T>
SelectedRows<T> before(const SelectedRows<T>& result, Before what) {
  if (what == Before::EMPTY) return {};
  if (what == Before::SMALLER) return SelectedRows<T>({5}, 9, {1});
  if (what == Before::LARGER) return SelectedRows<T>(std::vector<std::int64_t>(80, 2), 9, {1, 4});
  SelectedRows<T> alike = result;
  alike.value() = before(result.value(), what);
  return alike;
}
lod::LstmWeights<float> before(const lod::LstmWeights<float>& result, Before what);
lod::GruWeights<float> before(const lod::GruWeights<float>& result, Before what);
template <class Layer>
  requires requires(const Layer& layer) { layer.backward; }
Layer before(const Layer& result, Before what) { return {before(result.forward, what), before(result.backward, what)}; }
template <class X>
std::vector<X> before(const std::vector<X>& result, Before what) {
  std::vector<X> all;
  for (const X& x : result) all.push_back(before(x, what));
  return all;
}
lod::TimeMajor<float> before(const lod::TimeMajor<float>& result, Before what) {
  return lod::TimeMajor<float>(before(result.values(), what));
}
lod::TensorArray<float> before(const lod::TensorArray<float>& result, Before what) {
  return lod::TensorArray<float>(before(std::vector<LoDTensor<float>>(result.begin(), result.end()), what));
}
lod::LstmWeights<float> before(const lod::LstmWeights<float>& result, Before what) {
  return {before(result.input, what), before(result.recurrent, what), before(result.bias, what),
          before(result.peepholes, what), before(result.projection, what)};
}
lod::GruWeights<float> before(const lod::GruWeights<float>& result, Before what) {
  return {before(result.input, what), before(result.recurrent, what), before(result.bias, what),
          before(result.recurrent_bias, what)};
}

Values before(const Values& results, Before what) {
  Values all;
  for (const Value& value : results) {
    all.push_back(std::visit([&](const auto& result) { return Value(before(result, what)); }, value));
  }
  return all;
}

/// Lets the first, the second, ... allocation of call(executor, outs) fail, each time with outputs as they are in
/// `outputs_before`: what fails leaves them so, and a retry gives `expected`.
void fail_everywhere(Failure failure, const OutputState& expected, const Values& outputs_before,
                     const std::function<void(const CpuExecutor&, std::span<Value* const>)>& call) {
  for (const int threads : {1, 2}) {
    for (std::int64_t after = 0;; ++after) {
      CAPTURE(threads);
      CAPTURE(after);
      REQUIRE(after < 1000);
      const CpuExecutor executor(threads);
      Values outs = outputs_before;
      const std::vector<Value*> to = outputs(outs);
      const OutputState before_call = state_of(outs);
      bool failed = false;
      {
        const FailingAllocations failing(after);
        try {
          call(executor, to);
        } catch (const std::bad_alloc&) {
          failed = true;
        }
      }
      if (failed && failure == Failure::BY_ELEMENTS) {
        call(executor, to);
      } else if (failed) {
        OutputState now = state_of(outs);
        if (failure == Failure::CONTENTS_LOST) now.bits = before_call.bits;
        CHECK(now.levels == before_call.levels);
        CHECK(now.shapes == before_call.shapes);
        CHECK(now.addresses == before_call.addresses);
        CHECK(now.bits == before_call.bits);
        call(executor, to);
      }
      CHECK(state_of(outs).same_result(expected));
      if (!failed) break;
    }
  }
}

}  // namespace

TEST_CASE("an operation that runs out of memory at any point leaves its outputs as they were, and can be repeated") {
  if (!counts_allocations) return;
  for (const OperationWithOutputs& operation : operations_with_outputs()) {
    CAPTURE(operation.name);
    const Values result = results(operation, CpuExecutor(1));
    const std::vector<const Value*> ins = arguments(operation.arguments);
    for (const Before what : {Before::EMPTY, Before::SMALLER, Before::LARGER, Before::ALIKE}) {
      CAPTURE(static_cast<int>(what));
      fail_everywhere(operation.failure, state_of(result), before(result, what),
                      [&](const auto& executor, auto outs) { operation.run(executor, ins, outs); });
    }
  }
}

TEST_CASE("an optimizer that runs out of memory at any point has updated nothing, and can be repeated") {
  if (!counts_allocations) return;
  // Many rows for one id, which threads share, rows of their own, and rows without a gradient.
  std::vector<std::int64_t> ids(40000, 4);
  ids[7] = 0;
  ids[30000] = 9;
  SelectedRows<float> listed(ids, 12, {8});
  listed.value() = numbered(LoDTensor<float>(Shape{40000, 8}));
  const auto dense = numbered(LoDTensor<float>(Shape{12, 8}));
  const auto check = [&](const char* name, const auto& gradient, const auto& update) {
    CAPTURE(std::string(name));
    Values tensors;
    for (const int from : {1, 2, 3, 4}) tensors.push_back(numbered(LoDTensor<float>(Shape{12, 8}), from));
    const auto run = [&](const CpuExecutor& executor, std::span<Value* const> outs) {
      const auto at = [&](std::size_t i) -> auto& { return std::get<LoDTensor<float>>(*outs[i]); };
      update(executor, gradient, at(0), at(1), at(2), at(3));
    };
    Values expected = tensors;
    run(CpuExecutor(1), outputs(expected));
    fail_everywhere(Failure::CHANGES_NOTHING, state_of(expected), tensors, run);
  };
  for (const auto mode : {lod::Sparse::LAZY, lod::Sparse::EXACT}) {
    const auto with_both = [&](const char* name, const auto& update) {
      check(name, dense, update);
      check(name, listed, update);
    };
    with_both("sgd", [=](const auto& e, const auto& g, auto& p, auto&, auto&, auto&) {
      lod::sgd(e, p, g, {.learning_rate = 0.1, .mode = mode});
    });
    with_both("momentum", [=](const auto& e, const auto& g, auto& p, auto& s, auto&, auto&) {
      lod::momentum(e, p, s, g, {.mode = mode});
    });
    with_both("adagrad", [=](const auto& e, const auto& g, auto& p, auto& s, auto&, auto&) {
      lod::adagrad(e, p, s, g, {.mode = mode});
    });
    with_both("rmsprop", [=](const auto& e, const auto& g, auto& p, auto& s, auto& t, auto&) {
      lod::rmsprop(e, p, s, t, g, {.mode = mode});
    });
    with_both("rmsprop, centered", [=](const auto& e, const auto& g, auto& p, auto& s, auto& t, auto& u) {
      lod::rmsprop(e, p, s, t, u, g, {.mode = mode});
    });
    with_both("adam", [=](const auto& e, const auto& g, auto& p, auto& s, auto& t, auto&) {
      lod::adam(e, p, s, t, g, {.step = 2, .mode = mode});
    });
    with_both("ftrl", [=](const auto& e, const auto& g, auto& p, auto& s, auto& t, auto&) {
      lod::ftrl(e, p, s, t, g, {.mode = mode});
    });
  }
  for (const auto op : {lod::ScatterOp::ASSIGN, lod::ScatterOp::ADD, lod::ScatterOp::MUL}) {
    check("scatter", listed,
          [=](const auto& e, const auto& g, auto& p, auto&, auto&, auto&) { lod::scatter(e, g, op, p); });
  }
}

TEST_CASE("an operation that runs out of memory for sequences that threads share leaves its outputs as they were") {
  if (!counts_allocations) return;
  const LoD index = LoD::from_lengths({{3, 0, 3 * grain, 1, grain + grain / 2, 2}});
  const auto x = numbered(LoDTensor<float>(index, {}));
  const auto check = [&](const char* name, const auto& call) {
    CAPTURE(std::string(name));
    const auto run = [&](const CpuExecutor& executor, std::span<Value* const> outs) {
      auto& y = std::get<LoDTensor<float>>(*outs[0]);
      if constexpr (requires { call(executor, y); }) {
        call(executor, y);
      } else {
        call(executor, y, std::get<LoDTensor<std::int64_t>>(*outs[1]));
      }
    };
    Values outs = {LoDTensor<float>(), LoDTensor<std::int64_t>()};
    run(CpuExecutor(1), outputs(outs));
    fail_everywhere(Failure::CHANGES_NOTHING, state_of(outs), before(outs, Before::ALIKE), run);
  };
  check("sequence_pool",
        [&](const CpuExecutor& e, LoDTensor<float>& y) { lod::sequence_pool_into(e, x, PoolType::SUM, y); });
  check("sequence_max_pool", [&](const CpuExecutor& e, LoDTensor<float>& y, LoDTensor<std::int64_t>& i) {
    lod::sequence_max_pool_into(e, x, y, i);
  });
  check("sequence_softmax", [&](const CpuExecutor& e, LoDTensor<float>& y) { lod::sequence_softmax_into(e, x, y); });
  check("sequence_logsumexp",
        [&](const CpuExecutor& e, LoDTensor<float>& y) { lod::sequence_logsumexp_into(e, x, y); });
  check("sequence_cumsum", [&](const CpuExecutor& e, LoDTensor<float>& y) { lod::sequence_cumsum_into(e, x, y); });
  check("sequence_sort", [&](const CpuExecutor& e, LoDTensor<float>& y, LoDTensor<std::int64_t>& i) {
    lod::sequence_sort_into(e, x, y, i);
  });
  check("sequence_topk", [&](const CpuExecutor& e, LoDTensor<float>& y, LoDTensor<std::int64_t>& i) {
    lod::sequence_topk_into(e, x, 3, y, i);
  });
}
