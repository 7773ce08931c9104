// SPDX-License-Identifier: Apache-2.0
#include "support/count_allocations.hpp"
#include "support/every_output.hpp"
#include "support/output_states.hpp"
#include <lod/lod.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <new>
#include <string>
#include <tuple>
#include <type_traits>
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
template <class X>
std::vector<X> before(const std::vector<X>& result, Before what) {
  std::vector<X> all;
  for (const X& x : result) all.push_back(before(x, what));
  return all;
}
lod::TimeMajor<float> before(const lod::TimeMajor<float>& result, Before what) {
  return lod::TimeMajor<float>(before(result.values(), what));
}
lod::LstmWeights<float> before(const lod::LstmWeights<float>& result, Before what) {
  return {before(result.input, what), before(result.recurrent, what), before(result.bias, what)};
}
lod::GruWeights<float> before(const lod::GruWeights<float>& result, Before what) {
  return {before(result.input, what), before(result.recurrent, what), before(result.bias, what),
          before(result.recurrent_bias, what)};
}

/// Lets the first, the second, ... allocation of call(executor, outs) fail, each time with outputs as make() gives
/// them: what fails leaves them as they were, and a retry gives `expected`.
template <class Make, class Call>
void fail_everywhere(Failure failure, const OutputState& expected, const Make& make, const Call& call) {
  for (const int threads : {1, 2}) {
    for (std::int64_t after = 0;; ++after) {
      CAPTURE(threads);
      CAPTURE(after);
      REQUIRE(after < 1000);
      const CpuExecutor executor(threads);
      auto outs = make();
      const OutputState before_call = state_of(outs);
      bool failed = false;
      {
        const FailingAllocations failing(after);
        try {
          call(executor, outs);
        } catch (const std::bad_alloc&) {
          failed = true;
        }
      }
      if (failed) {
        OutputState now = state_of(outs);
        if (failure == Failure::CONTENTS_LOST) now.bits = before_call.bits;
        CHECK(now.levels == before_call.levels);
        CHECK(now.shapes == before_call.shapes);
        CHECK(now.addresses == before_call.addresses);
        CHECK(now.bits == before_call.bits);
        call(executor, outs);
      }
      CHECK(state_of(outs).same_result(expected));
      if (!failed) break;
    }
  }
}

}  // namespace

TEST_CASE("an operation that runs out of memory at any point leaves its outputs as they were, and can be repeated") {
  if (!counts_allocations) return;
  visit_outputs([](const char* name, Failure failure, const auto& arguments, const auto& empty, const auto& call) {
    CAPTURE(std::string(name));
    const auto run = [&](const CpuExecutor& executor, auto& outs) {
      std::apply([&](const auto&... in) { std::apply([&](auto&... out) { call(executor, in..., out...); }, outs); },
                 arguments);
    };
    auto result = empty;
    run(CpuExecutor(1), result);
    for (const Before what : {Before::EMPTY, Before::SMALLER, Before::LARGER, Before::ALIKE}) {
      CAPTURE(static_cast<int>(what));
      const auto make = [&] {
        return std::apply([&](const auto&... out) { return std::tuple(before(out, what)...); }, result);
      };
      fail_everywhere(failure, state_of(result), make, run);
    }
  });
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
    const auto make = [] {
      const auto numbers = [](int from) { return numbered(LoDTensor<float>(Shape{12, 8}), from); };
      return std::tuple(numbers(1), numbers(2), numbers(3), numbers(4));
    };
    const auto run = [&](const CpuExecutor& executor, auto& outs) {
      std::apply([&](auto&... out) { update(executor, gradient, out...); }, outs);
    };
    auto expected = make();
    run(CpuExecutor(1), expected);
    fail_everywhere(Failure::CHANGES_NOTHING, state_of(expected), make, run);
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
  const LoD index = LoD::from_lengths({{3, 0, 200000, 1, 90000, 2}});
  const auto x = numbered(LoDTensor<float>(index, {}));
  const auto check = [&](const char* name, auto outs, const auto& call) {
    CAPTURE(std::string(name));
    const auto run = [&](const CpuExecutor& executor, auto& to) {
      std::apply([&](auto&... out) { call(executor, out...); }, to);
    };
    run(CpuExecutor(1), outs);
    const auto make = [&] {
      return std::apply([&](const auto&... out) { return std::tuple(before(out, Before::ALIKE)...); }, outs);
    };
    fail_everywhere(Failure::CHANGES_NOTHING, state_of(outs), make, run);
  };
  using Tensor = LoDTensor<float>;
  using Ids = LoDTensor<std::int64_t>;
  check("sequence_pool", std::tuple(Tensor()),
        [&](const auto& e, auto& y) { lod::sequence_pool_into(e, x, PoolType::SUM, y); });
  check("sequence_max_pool", std::tuple(Tensor(), Ids()),
        [&](const auto& e, auto& y, auto& i) { lod::sequence_max_pool_into(e, x, y, i); });
  check("sequence_softmax", std::tuple(Tensor()), [&](const auto& e, auto& y) { lod::sequence_softmax_into(e, x, y); });
  check("sequence_logsumexp", std::tuple(Tensor()),
        [&](const auto& e, auto& y) { lod::sequence_logsumexp_into(e, x, y); });
  check("sequence_cumsum", std::tuple(Tensor()), [&](const auto& e, auto& y) { lod::sequence_cumsum_into(e, x, y); });
  check("sequence_sort", std::tuple(Tensor(), Ids()),
        [&](const auto& e, auto& y, auto& i) { lod::sequence_sort_into(e, x, y, i); });
  check("sequence_topk", std::tuple(Tensor(), Ids()),
        [&](const auto& e, auto& y, auto& i) { lod::sequence_topk_into(e, x, 3, y, i); });
}
