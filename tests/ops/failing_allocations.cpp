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
