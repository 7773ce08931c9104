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
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

using namespace lod_test;

namespace {

/// The tensor on memory of the test's.
template <class T>
LoDTensor<T> wrapped(const LoDTensor<T>& like, T* memory) {
  return LoDTensor<T>::wrap({memory, like.values().size()}, like.lod(), like.row_shape());
}

/// Calls run(executor, arguments, outputs), and returns whether it refused an overlap.
bool refused(const OperationWithOutputs& operation, const lod::CpuExecutor& executor, std::span<const Value* const> ins,
             std::span<Value* const> outs) {
  try {
    operation.run(executor, ins, outs);
    return false;
  } catch (const std::invalid_argument& error) {
    CHECK(std::string(error.what()).find(" overlap") != std::string::npos);
    return true;
  }
}

/// Output `o` in the place of argument `a`: refused, or done.
void check_in_place(const OperationWithOutputs& operation, const lod::CpuExecutor& executor, const Value& expected,
                    std::size_t o, std::size_t a) {
  Values ins = operation.arguments, outs = operation.outputs;
  const OutputState before = state_of(ins);
  std::vector<Value*> to = outputs(outs);
  to[o] = &ins[a];
  if (refused(operation, executor, arguments(ins), to)) {
    CHECK(state_of(ins) == before);
  } else {
    CHECK(state_of({ins[a]}).same_result(state_of({expected})));
  }
}

/// Output `o` on memory that is also that of argument `a`, a little before or after: refused, but by what has read all
/// of its arguments before it writes.
template <class T>
void check_shifted(const OperationWithOutputs& operation, const lod::CpuExecutor& executor,
                   const LoDTensor<T>& expected, std::size_t o, std::size_t a) {
  const auto& argument = std::get<LoDTensor<T>>(operation.arguments[a]);
  const auto count = static_cast<std::ptrdiff_t>(argument.values().size());
  const auto written = static_cast<std::ptrdiff_t>(expected.values().size());
  if (count < 2 || written == 0) return;
  for (const std::ptrdiff_t first : {written + 1, std::ptrdiff_t{1}}) {
    CAPTURE(first);
    std::vector<T> memory(static_cast<std::size_t>(count + 2 * written + 2));
    std::copy(argument.values().begin(), argument.values().end(), memory.begin() + written);
    const std::vector<T> before = memory;
    Values ins = operation.arguments, outs = operation.outputs;
    ins[a] = wrapped(argument, memory.data() + written);
    outs[o] = wrapped(expected, memory.data() + first);
    if (refused(operation, executor, arguments(ins), outputs(outs))) {
      CHECK(memory == before);
    } else {
      CHECK(std::ranges::equal(std::get<LoDTensor<T>>(outs[o]).values(), expected.values()));
    }
  }
}

/// Outputs `o` and `other` on the same memory, and one tensor in the place of both.
template <class One, class Two>
void check_two(const OperationWithOutputs& operation, const LoDTensor<One>& one, const LoDTensor<Two>& two,
               std::size_t o, std::size_t other) {
  if (one.values().empty() || two.values().empty()) return;
  const lod::CpuExecutor executor(1);
  std::vector<std::int64_t> memory(one.values().size() + two.values().size(), 77);
  const std::vector<std::int64_t> before = memory;
  Values outs = operation.outputs;
  outs[o] = wrapped(one, reinterpret_cast<One*>(memory.data()));
  outs[other] = wrapped(two, reinterpret_cast<Two*>(memory.data()));
  CHECK(refused(operation, executor, arguments(operation.arguments), outputs(outs)));
  CHECK(memory == before);
  // One tensor, without memory yet, in the place of both.
  if constexpr (std::is_same_v<One, Two>) {
    Values once = operation.outputs;
    std::vector<Value*> to = outputs(once);
    to[other] = to[o];
    CHECK(refused(operation, executor, arguments(operation.arguments), to));
    CHECK(state_of(once) == state_of(operation.outputs));
  }
}

/// Several outputs in one range, `o`, which are all on the same memory.
void check_range(const OperationWithOutputs& operation, const std::vector<LoDTensor<float>>& range, std::size_t o) {
  std::vector<float> memory(1000, 7);
  const std::vector<float> before = memory;
  std::vector<LoDTensor<float>> parts;
  for (const auto& part : range) parts.push_back(wrapped(part, memory.data()));
  Values outs = operation.outputs;
  outs[o] = std::move(parts);
  CHECK(refused(operation, lod::CpuExecutor(1), arguments(operation.arguments), outputs(outs)));
  CHECK(memory == before);
}

/// Calls check(tensor) where the value is one.
template <class Check>
void if_tensor(const Value& value, const Check& check) {
  if (const auto* const x = std::get_if<LoDTensor<float>>(&value)) check(*x);
  if (const auto* const x = std::get_if<LoDTensor<std::int64_t>>(&value)) check(*x);
  if (const auto* const x = std::get_if<LoDTensor<std::int32_t>>(&value)) check(*x);
}

}  // namespace

TEST_CASE("an operation whose output overlaps an argument throws and changes nothing, or gives what it gives else") {
  for (const OperationWithOutputs& operation : operations_with_outputs()) {
    CAPTURE(operation.name);
    for (const int threads : {1, 2}) {
      const lod::CpuExecutor executor(threads);
      const Values expected = results(operation, executor);
      for (std::size_t o = 0; o < expected.size(); ++o) {
        for (std::size_t a = 0; a < operation.arguments.size(); ++a) {
          CAPTURE(o);
          CAPTURE(a);
          if (operation.arguments[a].index() != expected[o].index()) continue;
          check_in_place(operation, executor, expected[o], o, a);
          if_tensor(expected[o], [&](const auto& y) { check_shifted(operation, executor, y, o, a); });
        }
      }
    }
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
  for (const OperationWithOutputs& operation : operations_with_outputs()) {
    CAPTURE(operation.name);
    const Values result = results(operation, lod::CpuExecutor(1));
    for (std::size_t o = 0; o < result.size(); ++o) {
      for (std::size_t other = o + 1; other < result.size(); ++other) {
        if_tensor(result[o], [&](const auto& one) {
          if_tensor(result[other], [&](const auto& two) { check_two(operation, one, two, o, other); });
        });
      }
      if (const auto* const range = std::get_if<std::vector<LoDTensor<float>>>(&result[o])) {
        check_range(operation, *range, o);
      }
    }
  }
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
    CHECK(std::ranges::equal(parts[1].values(), rows.between(5, 10).values()));
  });
}

TEST_CASE("what a tensor has memory for belongs to it: a view of what it once held is no argument for it") {
  LoDTensor<float> y = numbered(LoDTensor<float>(lod::Shape{6, 2}));
  const lod::LoDTensorView<const float> x = std::as_const(y).view().between(4, 6);
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

TEST_CASE("a list of ids or boundaries in the memory of an output is refused, or was read before that is written") {
  for_each_executor([](const auto& executor) {
    using List = LoDTensor<std::int64_t>;
    const List x = List::from_values(LoD::from_lengths({{2, 1, 3}}), {}, {10, 11, 12, 13, 14, 15});
    const auto list_in = [](const List& tensor, std::size_t size) {
      return std::span<const std::int64_t>(tensor.data(), size);
    };
    const auto refused = [](const char* text, const auto& output, const auto& call) {
      const List before = output();
      CHECK_THROWS_WITH_AS(call(), text, std::invalid_argument);
      CHECK(same_bits(output(), before));
    };
    std::vector<List> parts(3);
    for (List& part : parts) {
      part = List::from_values(LoD(), {}, {1, 2, 7, 7});
      refused(
          "split_at: an output overlaps boundaries, expected memory of its own", [&] { return part; },
          [&] { lod::split_at_into(executor, x, list_in(part, 2), parts); });
    }
    SelectedRows<std::int64_t> g({0, 1, 2}, 6, {});
    g.value() = List::from_values(LoD(), {}, {5, 2, 5});
    const auto values = [&] { return g.value(); };
    refused("from_dense: the output overlaps rows, expected memory of its own", values,
            [&] { lod::from_dense_into(executor, x, list_in(g.value(), 3), g); });
    refused("to_dense_grad: the output overlaps rows, expected memory of its own", values,
            [&] { lod::to_dense_grad_into(executor, x, list_in(g.value(), 3), g); });
    SelectedRows<std::int64_t> dy({2, 5}, 6, {});
    dy.value() = List::from_values(LoD(), {}, {7, 8});
    refused("merge_add_grad: the output overlaps rows, expected memory of its own", values,
            [&] { lod::merge_add_grad_into(executor, dy, list_in(g.value(), 3), g); });
    refused("merge_average_grad: the output overlaps rows, expected memory of its own", values,
            [&] { lod::merge_average_grad_into(executor, dy, list_in(g.value(), 3), g); });
    // Its own ids are no values.
    SelectedRows<std::int64_t> own({5, 2, 5}, 6, {});
    lod::merge_add_grad_into(executor, dy, own.rows(), own);
    CHECK(std::ranges::equal(own.rows(), std::vector<std::int64_t>{5, 2, 5}));
    CHECK(std::ranges::equal(own.value().values(), std::vector<std::int64_t>{8, 7, 8}));
  });
}
