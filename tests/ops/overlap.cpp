// SPDX-License-Identifier: Apache-2.0
#include "support/every_output.hpp"
#include "support/executors.hpp"
#include "support/output_states.hpp"
#include "support/random_batch.hpp"
#include <lod/lod.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

using namespace lod_test;

namespace {

template <class X>
inline constexpr bool is_tensor = false;
template <class T>
inline constexpr bool is_tensor<LoDTensor<T>> = true;

/// Calls f(constant of i) for each i below `count`.
template <std::size_t count, class F>
void for_each_number(const F& f) {
  [&]<std::size_t... i>(std::index_sequence<i...>) { (f(std::integral_constant<std::size_t, i>()), ...); }
  (std::make_index_sequence<count>());
}

/// Calls run(outs) with `out` in the place of output `number`, of the rest copies.
template <std::size_t number, class Outs, class Out, class Run>
void with_output(const Outs& empty, Out& out, const Run& run) {
  Outs others = empty;
  [&]<std::size_t... i>(std::index_sequence<i...>) {
    run(std::tie([&]() -> auto& {
      if constexpr (i == number) {
        return out;
      } else {
        return std::get<i>(others);
      }
    }()...));
  }
  (std::make_index_sequence<std::tuple_size_v<Outs>>());
}

/// The tensor on memory of the test's.
template <class T>
LoDTensor<T> wrapped(const LoDTensor<T>& like, T* memory) {
  return LoDTensor<T>::wrap({memory, like.values().size()}, like.lod(), like.row_shape());
}

/// Output `o` on memory that is also that of argument `a`, a little before or behind: refused, but by what has read all
/// of its arguments before it writes.
template <std::size_t o, std::size_t a, class Ins, class Outs, class T, class Run>
void refuses_shifted(const Ins& arguments, const Outs& empty, const LoDTensor<T>& expected, const Run& run_with) {
  const LoDTensor<T>& argument = std::get<a>(arguments);
  const auto count = static_cast<std::ptrdiff_t>(argument.values().size());
  const auto written = static_cast<std::ptrdiff_t>(expected.values().size());
  if (count < 2 || written == 0) return;
  for (const std::ptrdiff_t first : {written + 1, std::ptrdiff_t{1}}) {
    CAPTURE(first);
    std::vector<T> memory(static_cast<std::size_t>(count + 2 * written + 2));
    std::copy(argument.values().begin(), argument.values().end(), memory.begin() + written);
    const std::vector<T> before = memory;
    Ins ins = arguments;
    std::get<a>(ins) = wrapped(argument, memory.data() + written);
    LoDTensor<T> out = wrapped(expected, memory.data() + first);
    try {
      with_output<o>(empty, out, [&](const auto& outs) { run_with(ins, outs); });
      CHECK(std::ranges::equal(out.values(), expected.values()));
    } catch (const std::invalid_argument&) {
      CHECK(memory == before);
    }
  }
}

/// Several outputs in one range, which are all on the same memory.
template <class Run>
void refuses_twins(const std::vector<LoDTensor<float>>& result, const Run& run) {
  std::vector<float> memory(1000, 7);
  const std::vector<float> before = memory;
  std::vector<LoDTensor<float>> parts;
  for (const auto& part : result) parts.push_back(wrapped(part, memory.data()));
  CHECK_THROWS_AS(run(std::move(parts)), std::invalid_argument);
  CHECK(memory == before);
}
template <class Other, class Run>
void refuses_twins(const Other&, const Run&) {}

/// Outputs number `o` and `other`, where both are tensors, on the same memory, and one tensor in the place of both.
template <std::size_t o, std::size_t other, class Outs, class Run>
void check_memory_of_two(const Outs& result, const Outs& empty, const Run& run) {
  if constexpr (o < other && is_tensor<std::tuple_element_t<o, Outs>> && is_tensor<std::tuple_element_t<other, Outs>>) {
    const auto& one = std::get<o>(result);
    const auto& two = std::get<other>(result);
    if (one.values().empty() || two.values().empty()) return;
    std::vector<std::int64_t> memory(one.values().size() + two.values().size(), 77);
    const std::vector<std::int64_t> before = memory;
    using One = typename std::remove_cvref_t<decltype(one)>::value_type;
    using Two = typename std::remove_cvref_t<decltype(two)>::value_type;
    Outs outs = empty;
    std::get<o>(outs) = wrapped(one, reinterpret_cast<One*>(memory.data()));
    std::get<other>(outs) = wrapped(two, reinterpret_cast<Two*>(memory.data()));
    CHECK_THROWS_AS(std::apply([&](auto&... out) { run(std::tie(out...)); }, outs), std::invalid_argument);
    CHECK(memory == before);
    // One tensor, without memory yet, in the place of both.
    if constexpr (std::is_same_v<One, Two>) {
      Outs once = empty;
      const auto run_once = [&]<std::size_t... k>(std::index_sequence<k...>) {
        run(std::tie(std::get<(k == other ? o : k)>(once)...));
      };
      CHECK_THROWS_AS(run_once(std::make_index_sequence<std::tuple_size_v<Outs>>()), std::invalid_argument);
      CHECK(std::get<o>(once).values().empty());
    }
  }
}

}  // namespace

TEST_CASE("an operation whose output overlaps an argument throws and changes nothing, or gives what it gives else") {
  for (const int threads : {1, 2}) {
    const lod::CpuExecutor executor(threads);
    visit_outputs([&](const char* name, Failure, const auto& arguments, const auto& empty, const auto& call) {
      CAPTURE(std::string(name));
      using Ins = std::remove_cvref_t<decltype(arguments)>;
      using Outs = std::remove_cvref_t<decltype(empty)>;
      const auto run_with = [&](const auto& ins, const auto& outs) {
        std::apply([&](const auto&... in) { std::apply([&](auto&... out) { call(executor, in..., out...); }, outs); },
                   ins);
      };
      Outs result = empty;
      std::apply([&](auto&... out) { run_with(arguments, std::tie(out...)); }, result);

      for_each_number<std::tuple_size_v<Outs>>([&](auto o) {
        using Out = std::tuple_element_t<o, Outs>;
        CAPTURE(o());
        const Out& expected = std::get<o>(result);
        for_each_number<std::tuple_size_v<Ins>>([&](auto a) {
          if constexpr (std::is_same_v<std::tuple_element_t<a, Ins>, Out>) {
            CAPTURE(a());
            // The argument itself.
            Ins ins = arguments;
            const OutputState before = state_of(ins);
            OutputState wanted, found;
            wanted.add(expected);
            try {
              with_output<o>(empty, std::get<a>(ins), [&](const auto& outs) { run_with(ins, outs); });
              found.add(std::get<a>(ins));
              CHECK(found.same_result(wanted));
            } catch (const std::invalid_argument& error) {
              CHECK(std::string(error.what()).find("overlaps") != std::string::npos);
              CHECK(state_of(ins) == before);
            }
          }
          if constexpr (is_tensor<Out> && std::is_same_v<std::tuple_element_t<a, Ins>, Out>) {
            refuses_shifted<o, a>(arguments, empty, expected, run_with);
          }
        });
      });
    });
  }
}

TEST_CASE("operations that can be done in place of an argument give the same bits there, on every executor") {
  for_each_executor([](const auto& executor) {
    // Long sequences, short ones and empty ones, shared by threads.
    Engine engine(3);
    const LoD long_ones = giant_among_short(engine, 300, 9 * grain / 16);
    for (const std::int64_t row_size : {1, 3}) {
      const auto x = real_numbers<float>(engine, long_ones, {row_size});
      const auto other = real_numbers<float>(engine, long_ones, {row_size});
      const auto rows = real_numbers<float>(engine, {long_ones.size(0), row_size});
      const auto check = [&](const char* name, const auto& call) {
        CAPTURE(std::string(name));
        LoDTensor<float> apart, here = x;
        call(x, apart);
        const float* const address = here.data();
        call(here, here);
        CHECK(here.data() == address);
        CHECK(same_bits(here, apart));
        // The same as views.
        here = x;
        call(std::as_const(here).view(), here);
        CHECK(same_bits(here, apart));
      };
      check("add", [&](const auto& a, auto& z) { lod::add_into(executor, a, other, z); });
      check("sub, y", [&](const auto& b, auto& z) { lod::sub_into(executor, other, b, z); });
      check("mul of rows", [&](const auto& a, auto& z) { lod::mul_into(executor, a, rows, z); });
      check("div of itself", [&](const auto& a, auto& z) { lod::div_into(executor, a, a, z); });
      check("sequence_softmax", [&](const auto& a, auto& z) { lod::sequence_softmax_into(executor, a, z); });
      check("sequence_log_softmax", [&](const auto& a, auto& z) { lod::sequence_log_softmax_into(executor, a, z); });
      check("sequence_softmax_grad, dy",
            [&](const auto& a, auto& z) { lod::sequence_softmax_grad_into(executor, a, other, z); });
      check("sequence_log_softmax_grad, y",
            [&](const auto& a, auto& z) { lod::sequence_log_softmax_grad_into(executor, other, a, z); });
      check("sequence_logsumexp_grad",
            [&](const auto& a, auto& z) { lod::sequence_logsumexp_grad_into(executor, rows, a, z); });
      check("sequence_cumsum", [&](const auto& a, auto& z) { lod::sequence_cumsum_into(executor, a, z); });
      check("sequence_cumsum, exclusive, reverse", [&](const auto& a, auto& z) {
        lod::sequence_cumsum_into(executor, a, {.exclusive = true, .reverse = true}, z);
      });
      const LoD halves = LoD::from_lengths({{long_ones.rows() / 2, long_ones.rows() - long_ones.rows() / 2}});
      check("lod_reset", [&](const auto& a, auto& z) { lod::lod_reset_into(executor, a, halves, z); });
      check("flatten", [&](const auto& a, auto& z) { lod::flatten_into(executor, a, z); });
      check("remove_level", [&](const auto& a, auto& z) { lod::remove_level_into(executor, a, 0, z); });
      check("sequence_reshape", [&](const auto& a, auto& z) { lod::sequence_reshape_into(executor, a, 1, z); });
    }
    const LoD index = LoD::from_lengths({{2, 0, 3}});
    SelectedRows<float> g({4, 0, 4}, 7, {3}), scaled;
    g.value() = real_numbers<float>(engine, {3, 3});
    lod::scale_into(executor, g, 3, scaled);
    lod::scale_into(executor, g, 3, g);
    CHECK(same_bits(g.value(), scaled.value()));
    LoDTensor<float> dense = real_numbers<float>(engine, {7, 3}), sum;
    lod::add_into(executor, g, dense, sum);
    lod::add_into(executor, g, dense, dense);
    CHECK(same_bits(dense, sum));
    const auto ids = LoDTensor<std::int64_t>::from_values(index, {}, {4, 0, 4, 6, 1});
    const auto updates = real_numbers<float>(engine, index, {});
    LoDTensor<float> x = real_numbers<float>(engine, {3, 7});
    lod::sequence_scatter_into(executor, x, ids, updates, sum);
    lod::sequence_scatter_into(executor, x, ids, updates, x);
    CHECK(same_bits(x, sum));
  });
}

TEST_CASE("an operation two of whose outputs overlap throws and changes nothing") {
  visit_outputs([&](const char* name, Failure, const auto& arguments, const auto& empty, const auto& call) {
    CAPTURE(std::string(name));
    using Outs = std::remove_cvref_t<decltype(empty)>;
    const lod::CpuExecutor executor(1);
    const auto run = [&](const auto& outs) {
      std::apply([&](const auto&... in) { std::apply([&](auto&... out) { call(executor, in..., out...); }, outs); },
                 arguments);
    };
    Outs result = empty;
    std::apply([&](auto&... out) { run(std::tie(out...)); }, result);
    for_each_number<std::tuple_size_v<Outs>>([&](auto o) {
      for_each_number<std::tuple_size_v<Outs>>([&](auto other) { check_memory_of_two<o, other>(result, empty, run); });
      refuses_twins(std::get<o>(result), [&](auto&& parts) {
        Outs outs = result;
        if constexpr (std::is_same_v<std::remove_cvref_t<decltype(parts)>, std::tuple_element_t<o, Outs>>) {
          std::get<o>(outs) = std::move(parts);
        }
        std::apply([&](auto&... out) { run(std::tie(out...)); }, outs);
      });
    });
  });
}

TEST_CASE("levels that are those of the output itself count as they were") {
  for_each_executor([](const auto& executor) {
    const LoD two = LoD::from_lengths({{2, 3}}), three = LoD::from_lengths({{1, 0, 4}});
    const auto x = numbered(LoDTensor<float>(two, {3}));
    LoDTensor<float> y(three, {7});
    lod::lod_reset_into(executor, x, y.lod(), y);
    CHECK(y.lod() == three);
    CHECK(std::ranges::equal(y.values(), x.values()));

    LoDTensor<float> dx(LoD::from_lengths({{3, 0, 2}}), {1, 1});
    const auto dy = numbered(LoDTensor<float>(lod::Shape{3, 3}));
    lod::sequence_pool_grad_into(executor, dy, dx.lod(), PoolType::SUM, dx);
    CHECK(dx.lod() == LoD::from_lengths({{3, 0, 2}}));
    CHECK(dx.row_shape() == lod::Shape{3});
    CHECK(dx.data()[3] == dy.data()[0]);

    // Exchanged: each output has the levels of the other.
    std::vector<LoDTensor<float>> parts = {LoDTensor<float>(two, {2}), LoDTensor<float>(three, {4})};
    const auto rows = numbered(LoDTensor<float>(lod::Shape{10, 3}));
    lod::concat_grad_into(executor, rows, {parts[1].lod(), parts[0].lod()}, parts);
    CHECK(parts[0].lod() == three);
    CHECK(parts[1].lod() == two);
    CHECK(std::ranges::equal(parts[1].values(), rows.slice(5, 10).values()));
  });
}

TEST_CASE("what a tensor has memory for belongs to it: a view of what it once held is no argument for it") {
  LoDTensor<float> y = numbered(LoDTensor<float>(lod::Shape{6, 2}));
  const lod::LoDTensorView<const float> x = std::as_const(y).view().slice(4, 6);
  const lod::CpuExecutor executor(1);
  lod::select_into(executor, numbered(LoDTensor<float>(lod::Shape{2, 2})), {0}, y);
  CHECK_THROWS_AS(lod::select_into(executor, x, {0, 1, 0}, y), std::invalid_argument);
}

TEST_CASE("the parameter, the states and the gradient of an optimizer do not overlap") {
  std::vector<float> memory(42, 1);
  const auto at = [&](std::size_t first) { return LoDTensor<float>::wrap({memory.data() + first, 6}, LoD(), {2}); };
  LoDTensor<float> p = at(0), s = at(10), t = at(20);
  const LoDTensor<float> g = at(30);
  LoDTensor<float> on_p = at(5), on_s = at(10);
  const std::vector<float> before = memory;
  CHECK_THROWS_AS(lod::sgd(p, on_p, {.learning_rate = 1}), std::invalid_argument);
  CHECK_THROWS_AS(lod::momentum(p, on_p, g), std::invalid_argument);
  CHECK_THROWS_AS(lod::adagrad(p, s, on_s), std::invalid_argument);
  CHECK_THROWS_AS(lod::adam(p, s, on_s, g, {.step = 1}), std::invalid_argument);
  CHECK_THROWS_WITH_AS(lod::ftrl(p, s, p, g), "ftrl: linear overlaps the parameter, expected memory of its own",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(lod::ftrl(p, s, t, t), "ftrl: linear overlaps gradient, expected memory of its own",
                       std::invalid_argument);
  CHECK_THROWS_AS(lod::rmsprop(p, s, s, g), std::invalid_argument);
  CHECK_THROWS_AS(lod::rmsprop(p, s, t, on_s, g), std::invalid_argument);
  SelectedRows<float> rows({2, 1, 0}, 3, {2});
  rows.value() = at(4);
  CHECK_THROWS_AS(lod::sgd(p, rows, {.learning_rate = 1}), std::invalid_argument);
  CHECK_THROWS_AS(lod::scatter(rows, lod::ScatterOp::ADD, p), std::invalid_argument);
  CHECK(memory == before);
}
