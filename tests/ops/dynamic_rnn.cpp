// SPDX-License-Identifier: Apache-2.0
#include "support/check_throws.hpp"
#include "support/element_types.hpp"
#include "support/executors.hpp"
#include "support/gradient.hpp"
#include "support/inferred.hpp"
#include "support/random_batch.hpp"
#include "support/random_lod.hpp"
#include "support/reference.hpp"
#include "support/repeatable.hpp"
#include <lod/lod.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

using lod::LoD;
using lod::LoDTensor;
using lod::LoDTensorView;
using lod::RankTable;
using namespace lod_test;

namespace {

using States = LoDTensorView<const double>;

/// The simplest cell that mixes input and state: h = tanh(x + 0.5 * h' turned by one column). Its output is -h.
struct Cell {
  static double state(std::span<const double> x, std::span<const double> before, std::size_t i) {
    return std::tanh(x[i] + 0.5 * before[(i + 1) % before.size()]);
  }
  std::pair<LoDTensor<double>, LoDTensor<double>> operator()(const States& before, const States& x) const {
    LoDTensor<double> after(before.shape()), output(before.shape());
    for (std::int64_t row = 0; row < before.rows(); ++row) {
      for (std::size_t i = 0; i < before.row(row).size(); ++i) {
        after.row(row)[i] = state(x.row(row), before.row(row), i);
        output.row(row)[i] = -after.row(row)[i];
      }
    }
    return {std::move(after), std::move(output)};
  }
};

/// Its gradient: by the state before and by the step.
std::pair<LoDTensor<double>, LoDTensor<double>> cell_grad(const States& before, const States& x, const States& dafter,
                                                          const States& doutput) {
  LoDTensor<double> dbefore(before.shape()), dx(x.shape());
  for (std::int64_t row = 0; row < before.rows(); ++row) {
    const std::size_t size = before.row(row).size();
    for (std::size_t i = 0; i < size; ++i) {
      const double after = Cell::state(x.row(row), before.row(row), i);
      dx.row(row)[i] = (dafter.row(row)[i] - doutput.row(row)[i]) * (1 - after * after);
      dbefore.row(row)[(i + 1) % size] = 0.5 * dx.row(row)[i];
    }
  }
  return {std::move(dbefore), std::move(dx)};
}

/// The states that one sequence leaves, row by row.
LoDTensor<double> reference_states(const States& sequence, std::vector<double>& state) {
  LoDTensor<double> states(sequence.shape());
  for (std::int64_t row = 0; row < sequence.rows(); ++row) {
    const std::vector<double> before = state;
    for (std::size_t i = 0; i < before.size(); ++i) {
      state[i] = states.row(row)[i] = Cell::state(sequence.row(row), before, i);
    }
  }
  return states;
}

}  // namespace

TEST_CASE("dynamic_rnn: agrees with one sequence after the other, for slices of every depth") {
  for_each_random_lod(4, 1, 5, [](Engine& engine, const Lengths& lengths) {
    for (const std::int64_t size : {1, 3, 8, 17}) {
      const auto x = real_numbers<double>(engine, LoD::from_lengths(lengths), {size});
      const auto slice = x.between(random_number(engine, 0, x.size() > 0), x.size());
      const RankTable table(slice.lod(), {.level = -1});
      const auto initial = real_numbers<double>(engine, {table.size(), size});
      for_each_executor([&](const auto& executor) {
        const auto [output, state] = lod::dynamic_rnn(executor, slice, table, initial, Cell());
        CHECK(output.lod() == slice.lod());
        CHECK(output.shape() == slice.shape());
        CHECK(state.lod() == slice.lod().levels_above(x.levels() - 1));
        REQUIRE(state.rows() == table.size());
        const auto rows = slice.lod().absolute_offsets(-1);
        const LoD no_level;
        const auto plain = slice.with_lod(no_level);
        for (std::int64_t i = 0; i < table.size(); ++i) {
          std::vector<double> expected(initial.row(i).begin(), initial.row(i).end());
          const std::int64_t begin = rows[static_cast<std::size_t>(i)], end = rows[static_cast<std::size_t>(i) + 1];
          const auto states = reference_states(plain.between(begin, end), expected);
          bool same = std::equal(expected.begin(), expected.end(), state.row(i).begin());
          for (std::int64_t row = begin; row < end; ++row) {
            for (std::size_t j = 0; j < states.row(row - begin).size(); ++j) {
              same = same && output.row(row)[j] == -states.row(row - begin)[j];
            }
          }
          CHECK(same);
        }
      });
    }
  });
}

TEST_CASE("dynamic_rnn: the nested network of the design documents, words in sentences in articles") {
  Engine engine(5);
  const LoD index = LoD::from_lengths({{3, 1, 0, 2}, {3, 2, 4, 1, 0, 3}});
  const auto x = real_numbers<double>(engine, index, {4});
  const RankTable articles(index);
  const LoDTensor<double> zero({4, 4});
  std::vector<std::int64_t> sentences_at_a_time;
  // The reader of articles takes a step a sentence; that step is a batch of sentences for the reader of words, which
  // begins with what the reader of articles knows so far.
  const auto read_sentence = [&](const States& article, const auto& sentences) {
    CHECK(sentences.levels() == 1);
    sentences_at_a_time.push_back(sentences.size());
    const auto words = lod::dynamic_rnn(sentences, RankTable(sentences.lod()), article, Cell());
    auto result = Cell()(article, words.state);
    return std::pair(std::move(result.first), words.output);
  };
  const auto y = lod::dynamic_rnn(x, articles, zero, read_sentence);
  CHECK(sentences_at_a_time == std::vector<std::int64_t>{3, 2, 1});

  // As the document has it: one slice after the other.
  LoDTensor<double> output(index, {4});
  for (std::int64_t a = 0; a < x.size(); ++a) {
    std::vector<double> article(4);
    for (std::int64_t s = 0; s < x[a].size(); ++s) {
      std::vector<double> sentence = article;
      const auto states = reference_states(x[a][s], sentence);
      for (std::size_t i = 0; i < states.values().size(); ++i) output[a][s].values()[i] = -states.values()[i];
      const std::vector<double> before = article;
      for (std::size_t i = 0; i < 4; ++i) article[i] = Cell::state(sentence, before, i);
    }
    CHECK(std::vector<double>(y.state.row(a).begin(), y.state.row(a).end()) == article);
  }
  CHECK(same_bits(y.output, output));
}

TEST_CASE("dynamic_rnn: outputs may be views, rows of another type and shape, or sequences, results any two names") {
  struct Result {
    States state;
    LoDTensor<std::int64_t> lengths;
  };
  const LoD index = LoD::from_lengths({{2, 0, 1}, {2, 0, 3}});
  Engine engine(3);
  const auto x = real_numbers<double>(engine, index, {2});
  const RankTable table(index);
  const auto initial = real_numbers<double>(engine, {3, 5});
  const auto y = lod::dynamic_rnn(x, table, initial, [](const States& state, const States& step) {
    LoDTensor<std::int64_t> lengths({step.size(), 1, 1});
    for (std::int64_t i = 0; i < step.size(); ++i) lengths.data()[i] = step[i].rows();
    return Result{state, std::move(lengths)};
  });
  CHECK(same_bits(y.state, initial));
  CHECK(y.output.lod() == LoD::from_lengths({{2, 0, 1}}));
  CHECK(y.output.shape() == lod::Shape{3, 1, 1});
  CHECK(std::vector<std::int64_t>(y.output.values().begin(), y.output.values().end()) ==
        std::vector<std::int64_t>{2, 0, 3});

  // The step itself: what comes out is x.
  const auto same = lod::dynamic_rnn(x, table, initial,
                                     [](const States& state, const States& step) { return std::tuple(state, step); });
  CHECK(same_bits(same.output, x));
}

TEST_CASE("dynamic_rnn: a cell may return its own tensors, as references or as they are, and keeps them") {
  using Tensor = LoDTensor<double>;
  Engine engine(11);
  const auto x = real_numbers<double>(engine, LoD::from_lengths({{1, 3, 0, 2}}), {3});
  const RankTable table(x.lod());
  const auto initial = real_numbers<double>(engine, {4, 3});
  Tensor kept_state, kept_output;
  const auto step = [&](const States& before, const States& now) {
    auto [after, output] = Cell()(before, now);
    kept_state = std::move(after);
    kept_output = std::move(output);
  };
  const auto dstep = [&](const States& before, const States& now, const States& dafter, const States& doutput) {
    auto [dbefore, dnow] = cell_grad(before, now, dafter, doutput);
    kept_state = std::move(dbefore);
    kept_output = std::move(dnow);
  };
  struct References {
    Tensor& state;
    Tensor& output;
  };
  const auto check_cell = [&](const auto& result) {
    for_each_executor([&](const auto& executor) {
      const auto cell = [&](const States& before, const States& now) {
        step(before, now);
        return result();
      };
      const auto y = lod::dynamic_rnn(executor, x, table, initial, cell);
      const auto expected = lod::dynamic_rnn(executor, x, table, initial, Cell());
      CHECK(same_bits(y.output, expected.output));
      CHECK(same_bits(y.state, expected.state));
      CHECK(kept_output.shape() == lod::Shape{1, 3});  // of the last step
      const auto of_cell = [&](const States& before, const States& now, const States& dafter, const States& doutput) {
        dstep(before, now, dafter, doutput);
        return result();
      };
      const auto d = lod::dynamic_rnn_grad(executor, y.output, y.state, x, table, initial, cell, of_cell);
      const auto dexpected = lod::dynamic_rnn_grad(executor, y.output, y.state, x, table, initial, Cell(), cell_grad);
      CHECK(same_bits(d.x, dexpected.x));
      CHECK(same_bits(d.initial_state, dexpected.initial_state));
      CHECK(kept_output.shape() == lod::Shape{3, 3});  // of the first step
    });
  };
  check_cell([&] { return std::tie(kept_state, kept_output); });
  check_cell([&] { return std::tuple<const Tensor&, const Tensor&>(kept_state, kept_output); });
  check_cell([&] { return std::pair<const Tensor, const Tensor>(kept_state, kept_output); });
  check_cell([&] { return std::pair<Tensor, const Tensor&>(kept_state, kept_output); });
  check_cell([&] { return References{kept_state, kept_output}; });

  // One tensor for both, and a reference to a pair that the cell keeps.
  const auto both = lod::dynamic_rnn(x, table, initial, [&](const States& before, const States& now) {
    step(before, now);
    return std::tie(kept_state, kept_state);
  });
  const auto expected = lod::dynamic_rnn(x, table, initial, Cell());
  CHECK(same_bits(both.state, expected.state));
  bool same = true;
  for (std::size_t i = 0; i < both.output.values().size(); ++i) {
    same = same && both.output.values()[i] == -expected.output.values()[i];
  }
  CHECK(same);
  std::pair<Tensor, Tensor> results;
  const auto kept = lod::dynamic_rnn(x, table, initial,
                                     [&](const States& before, const States& now) -> const std::pair<Tensor, Tensor>& {
                                       return results = Cell()(before, now);
                                     });
  CHECK(same_bits(kept.output, expected.output));
  CHECK(results.second.shape() == lod::Shape{1, 3});
}

TEST_CASE("dynamic_rnn: initial states of a pooled batch, under its levels") {
  Engine engine(8);
  const auto x = real_numbers<double>(engine, LoD::from_lengths({{2, 1}, {3, 0, 2}}), {3});
  const RankTable table(x.lod(), {.level = 1});
  const auto initial = lod::sequence_pool(x, lod::PoolType::SUM);
  REQUIRE(initial.levels() == 1);
  const auto y = lod::dynamic_rnn(x, table, initial, Cell());
  CHECK(same_bits(y.output, lod::dynamic_rnn(x, table, initial.with_lod(LoD()), Cell()).output));
  CHECK(y.state.lod() == initial.lod());
  CHECK(same_bits(y.state[1], initial[1]) == false);
  CHECK(std::equal(y.state.row(1).begin(), y.state.row(1).end(), initial.row(1).begin()));  // an empty sequence
}

TEST_CASE("dynamic_rnn: no sequences, and empty ones only, give the row shape and the levels of the cell") {
  for (const auto& lengths : std::vector<Lengths>{{{}, {}}, {{0}, {}}, {{0, 0}, {}}}) {
    Engine engine(1);
    const LoDTensor<double> x(LoD::from_lengths(lengths), {2});
    const RankTable table(x.lod());
    const auto initial = real_numbers<double>(engine, {table.size(), 2});
    int calls = 0;
    const auto y = lod::dynamic_rnn(x, table, initial, [&](const States& state, const States& step) {
      ++calls;
      CHECK(state.rows() == 0);
      CHECK(step.size() == 0);
      CHECK(step.levels() == 1);
      return std::pair(state, LoDTensor<float>(step.lod(), {7, 2}));
    });
    CHECK(calls == 1);
    CHECK(y.output.lod() == x.lod());
    CHECK(y.output.shape() == lod::Shape{0, 7, 2});
    CHECK(std::equal(y.state.values().begin(), y.state.values().end(), initial.values().begin()));
    const auto grad = lod::dynamic_rnn_grad(
        y.output, initial, x, table, initial, Cell(),
        [](const auto&, const auto& step, const auto& dstate, const auto&) { return std::pair(dstate, step); });
    CHECK(same_bits(grad.x, x));
    CHECK(same_bits(grad.initial_state, initial));
  }
}

TEST_CASE("dynamic_rnn_grad: agrees with differences, by the input and by the initial states") {
  for_each_random_lod(8, 1, 3, [](Engine& engine, const Lengths& lengths) {
    const LoD index = LoD::from_lengths(lengths);
    if (index.rows() > 12) return;
    for (const std::int64_t size : {1, 3, 8, 17}) {
      auto x = real_numbers<double>(engine, index, {size});
      const RankTable table(x.lod(), {.level = -1});
      auto initial = real_numbers<double>(engine, {table.size(), size});
      const LoD none;
      const auto grad = [&](const LoDTensor<double>& doutput, const LoDTensor<double>& dstate) {
        return lod::dynamic_rnn_grad(doutput, dstate, x, table, initial, Cell(), cell_grad);
      };
      const LoDTensor<double> no_output(x.lod(), {size}), no_state({table.size(), size});
      check_gradient(
          engine, x, [&](const auto& at) { return lod::dynamic_rnn(at, table, initial, Cell()).output; },
          [&](const auto& dy) { return grad(dy, no_state).x; });
      check_gradient(
          engine, x, [&](const auto& at) { return lod::dynamic_rnn(at, table, initial, Cell()).state; },
          [&](const auto& dy) { return grad(no_output, dy).x; });
      check_gradient(
          engine, initial, [&](const auto& at) { return lod::dynamic_rnn(x, table, at, Cell()).output; },
          [&](const auto& dy) { return grad(dy, no_state).initial_state.with_lod(LoD()); });
      check_gradient(
          engine, initial, [&](const auto& at) { return lod::dynamic_rnn(x, table, at, Cell()).state; },
          [&](const auto& dy) { return grad(no_output, dy).initial_state.with_lod(LoD()); });
    }
  });
}

TEST_CASE("dynamic_rnn_grad: of the nested network, sub-sequences as steps") {
  Engine engine(9);
  const LoD index = LoD::from_lengths({{3, 1, 0, 2}, {3, 2, 4, 1, 0, 3}});
  auto x = real_numbers<double>(engine, index, {2});
  auto initial = real_numbers<double>(engine, {4, 2});
  const RankTable articles(index);
  // The state of an article is what reading its last sentence left, the output the states at all words.
  const auto cell = [](const States& article, const States& sentences) {
    auto words = lod::dynamic_rnn(sentences, RankTable(sentences.lod()), article, Cell());
    return std::pair(std::move(words.state), std::move(words.output));
  };
  const auto grad = [&](const States& article, const States& sentences, const States& dstate, const States& doutput) {
    auto d = lod::dynamic_rnn_grad(doutput, dstate, sentences, RankTable(sentences.lod()), article, Cell(), cell_grad);
    return std::pair(std::move(d.initial_state), std::move(d.x));
  };
  const LoDTensor<double> no_state({4, 2});
  check_gradient(
      engine, x, [&](const auto& at) { return lod::dynamic_rnn(at, articles, initial, cell).output; },
      [&](const auto& dy) { return lod::dynamic_rnn_grad(dy, no_state, x, articles, initial, cell, grad).x; });
  check_gradient(
      engine, initial, [&](const auto& at) { return lod::dynamic_rnn(x, articles, at, cell).state; },
      [&](const auto& dy) {
        return lod::dynamic_rnn_grad(LoDTensor<double>(index, {2}), dy, x, articles, initial, cell, grad).initial_state;
      });
}

TEST_CASE("dynamic_rnn: a second call allocates nothing but what the cell does") {
  on_counting_executors([](const auto& check, const auto& executor, CountingResource& resource) {
    Engine engine(4);
    const auto x = real_numbers<double>(engine, LoD::from_lengths({{3, 0, 7, 1, 7}}), {3});
    const auto initial = real_numbers<double>(engine, {5, 3});
    const RankTable table(x.lod());
    LoDTensor<double> after(&resource), output(&resource), state(&resource), dx(&resource), dinitial(&resource);
    after.resize(LoD(), {3}, 5);
    const auto cell = [&](const States& before, const States& step) {
      const auto to = after.between(0, before.rows());
      for (std::int64_t row = 0; row < before.rows(); ++row) {
        for (std::size_t i = 0; i < 3; ++i) to.row(row)[i] = before.row(row)[i] - 2 * step.row(row)[i];
      }
      return std::pair<States, States>(to, to);
    };
    const auto cell_grad_of_views = [&](const States&, const States&, const States& dafter, const States& doutput) {
      const auto to = after.between(0, dafter.rows());
      for (std::int64_t row = 0; row < dafter.rows(); ++row) {
        for (std::size_t i = 0; i < 3; ++i) to.row(row)[i] = dafter.row(row)[i] + doutput.row(row)[i];
      }
      return std::pair<States, States>(to, to);
    };
    check("dynamic_rnn", [&] { lod::dynamic_rnn_into(executor, x, table, initial, cell, output, state); });
    check("dynamic_rnn_grad", [&] {
      lod::dynamic_rnn_grad_into(executor, output, state, x, table, initial, cell, cell_grad_of_views, dx, dinitial);
    });
    // Shorter and longer batches after it find nothing that is left over.
    for (const auto& lengths : std::vector<Lengths>{{{2, 9}}, {{0, 0}}, {{1}}}) {
      const auto other = real_numbers<double>(engine, LoD::from_lengths(lengths), {3});
      const auto zero = LoDTensor<double>({other.size(), 3});
      const auto found = lod::dynamic_rnn(executor, other, RankTable(other.lod()), zero, Cell());
      const auto expected = lod::dynamic_rnn(lod::CpuExecutor(1), other, RankTable(other.lod()), zero, Cell());
      CHECK(same_bits(found.output, expected.output));
      CHECK(same_bits(found.state, expected.state));
    }
  });
}

TEST_CASE("dynamic_rnn: bad arguments and cells throw and change nothing") {
  const LoDTensor<double> x(LoD::from_lengths({{3, 0, 1}}), {2}), initial({3, 2}), two({2, 2});
  const RankTable table(x.lod()), other(LoD::from_lengths({{3, 1, 0}}));
  const lod::CpuExecutor executor(1);
  LoDTensor<double> output({1, 5}), state({1, 7});
  const auto run = [&](const RankTable& by, const LoDTensor<double>& begin, const auto& cell) {
    return [&, cell] { lod::dynamic_rnn_into(executor, x, by, begin, cell, output, state); };
  };
  const auto returns = [](const lod::Shape& states, const lod::Shape& outputs) {
    return [states, outputs](const States&, const States&) {
      return std::pair(LoDTensor<double>(states), LoDTensor<double>(outputs));
    };
  };
  check_throws<lod::ShapeMismatch>(run(other, initial, Cell()),
                                   "dynamic_rnn: the levels of x are not those that the table ranks", output);
  check_throws<lod::ShapeMismatch>(run(table, two, Cell()), "dynamic_rnn: the initial state: 2 rows, expected 3",
                                   output);
  check_throws<lod::ShapeMismatch>(run(table, initial, returns({3, 2}, {2, 2})),
                                   "dynamic_rnn: the state after step 0 has shape {3, 2}, expected {2, 2}", state);
  check_throws<lod::ShapeMismatch>(run(table, initial, returns({2, 3}, {2, 2})),
                                   "dynamic_rnn: the state after step 0 has shape {2, 3}, expected {2, 2}", state);
  check_throws<lod::ShapeMismatch>(run(table, initial,
                                       [](const States& states, const States&) {
                                         return std::pair(LoDTensor<double>({2, 2}), states);
                                       }),
                                   "dynamic_rnn: the state after step 1 has shape {2, 2}, expected {1, 2}", state);
  check_throws<lod::ShapeMismatch>(run(table, initial,
                                       [](const States& states, const States&) {
                                         return std::pair(states, LoDTensor<double>({states.rows(), states.rows()}));
                                       }),
                                   "dynamic_rnn: the output of the cell at step 1 has rows of shape {1}, expected {2}",
                                   output);
  check_throws<lod::InvalidLoD>(run(table, initial,
                                    [](const States& states, const States&) {
                                      return std::pair(states, states.rows() > 1
                                                                   ? LoDTensor<double>({2, 2})
                                                                   : LoDTensor<double>(LoD::from_lengths({{2}}), {2}));
                                    }),
                                "dynamic_rnn: the output of the cell at step 1 has 1 levels, expected 0", output);
  check_throws<lod::ShapeMismatch>(
      run(RankTable(LoD::from_lengths({{3, 0, 1}})), initial,
          [](const States& states, const States&) {
            return std::pair(states, LoDTensor<double>({3, 2}));
          }),
      "dynamic_rnn: the output of the cell at step 0 has 3 sequences (rows, where it has no level), "
      "expected 2",
      output);
  check_throws<std::runtime_error>(run(table, initial,
                                       [](const States& states, const States&) -> std::pair<States, States> {
                                         if (states.rows() < 2) throw std::runtime_error("out of order");
                                         return {states, states};
                                       }),
                                   "out of order", output);
  CHECK(same_bits(state, LoDTensor<double>({1, 7})));

  LoDTensor<double> fits(x.lod(), {2}), wrong({2, 2});
  check_throws<lod::ShapeMismatch>(
      [&] { lod::dynamic_rnn_into(executor, x, table, initial, Cell(), fits.view(), wrong.view()); },
      "and the levels of the result", fits);
  LoDTensor<double> states({3, 2});
  check_throws<lod::ShapeMismatch>(
      [&] { lod::dynamic_rnn_into(executor, x, table, initial, Cell(), wrong.view(), states.view()); },
      "and the levels of the result", states);
  lod::dynamic_rnn_into(executor, x, table, initial, Cell(), fits.view(), states.view());
  CHECK(same_bits(fits, lod::dynamic_rnn(x, table, initial, Cell()).output));

  const auto grad = [&](const LoDTensor<double>& doutput, const LoDTensor<double>& dstate, const auto& of_cell) {
    return lod::dynamic_rnn_grad(executor, doutput, dstate, x, table, initial, Cell(), of_cell);
  };
  CHECK_THROWS_WITH_AS(
      grad(two, initial, cell_grad),
      "dynamic_rnn_grad: the levels of doutput are not those that the table ranks: 0 levels, expected at least 1",
      lod::ShapeMismatch);
  CHECK_THROWS_WITH_AS(grad(x, two, cell_grad), "dynamic_rnn_grad: dstate: 2 rows, expected 3", lod::ShapeMismatch);
  CHECK_THROWS_WITH_AS(
      grad(x, initial,
           [](const States& before, const States&, const States&, const States&) {
             return std::pair(before, LoDTensor<double>({1, 3}));
           }),
      "dynamic_rnn_grad: the gradient by step 2 has shape {1, 3} with 0 levels, expected {1, 2} and the levels of "
      "the step",
      lod::ShapeMismatch);
  CHECK_THROWS_WITH_AS(grad(x, initial,
                            [](const States&, const States& step, const States&, const States&) {
                              return std::pair(LoDTensor<double>({3, 2}), step);
                            }),
                       "dynamic_rnn_grad: the gradient by the state before step 2 has shape {3, 2}, expected {1, 2}",
                       lod::ShapeMismatch);
}

TEST_CASE("dynamic_rnn_grad: gradients that do not fit what dynamic_rnn gave throw and change nothing") {
  const LoDTensor<double> x(LoD::from_lengths({{3, 0, 1}}), {2}), initial({3, 2}), two({2, 2});
  for_each_executor([&](const auto& executor) {
    LoDTensor<double> dx({1, 5}), dinitial({1, 7});
    const auto grad = [&](const LoDTensor<double>& of, const LoDTensor<double>& begin, const LoDTensor<double>& doutput,
                          const LoDTensor<double>& dstate, const auto& cell) {
      return [&, cell] {
        lod::dynamic_rnn_grad_into(
            executor, doutput, dstate, of, RankTable(of.lod()), begin, cell,
            [](const States& before, const States& step, const States&, const States&) {
              return std::pair(before, step);
            },
            dx, dinitial);
      };
    };
    const auto refuses = [&](const auto& call, const char* text) {
      check_throws<lod::ShapeMismatch>(call, text, dx);
      CHECK(dinitial.shape() == lod::Shape{1, 7});
    };
    refuses(grad(x, two, x, initial, Cell()), "dynamic_rnn_grad: the initial state: 2 rows, expected 3");
    const LoDTensor<double> wide_state({3, 4}), wide_output(x.lod(), {1});
    refuses(grad(x, initial, x, wide_state, Cell()), "dynamic_rnn_grad: dstate: rows of shape {4}, expected {2}");
    refuses(grad(x, initial, wide_output, initial, Cell()),
            "dynamic_rnn_grad: doutput at step 0 has shape {2, 1} with 0 levels, expected {2, 2} and the levels of the "
            "cell's output");
    const LoDTensor<double> deep(LoD::from_lengths({{3, 0, 1}, {1, 1, 1, 1}}), {2});
    refuses(grad(x, initial, deep, initial, Cell()),
            "dynamic_rnn_grad: doutput at step 0 has shape {2, 2} with 1 levels, expected {2, 2} and");
    // Only the last step has other sequences.
    const auto one_each = [](const States& before, const States& step) {
      std::vector<std::int64_t> lengths(static_cast<std::size_t>(step.rows()), 1);
      return std::pair(before, LoDTensor<double>(LoD::from_lengths({lengths}), {2}));
    };
    const LoDTensor<double> other(LoD::from_lengths({{3, 0, 1}, {1, 1, 2, 1}}), {2});
    refuses(grad(x, initial, other, initial, one_each),
            "dynamic_rnn_grad: doutput at step 2 has shape {2, 2} with 1 levels, expected {1, 2}");
    static_cast<void>(
        lod::dynamic_rnn_grad(executor, deep, initial, x, RankTable(x.lod()), initial, one_each,
                              [](const States& before, const States& step, const States&, const States& doutput) {
                                CHECK(doutput.levels() == 1);
                                return std::pair(before, step);
                              }));
    refuses(grad(x, initial, x, initial,
                 [](const States& before, const States&) {
                   return std::pair(LoDTensor<double>({9, 2}), before);
                 }),
            "dynamic_rnn_grad: the state after step 0 has shape {9, 2}, expected {2, 2}");
    // Of one step, and of none.
    const LoDTensor<double> one(LoD::from_lengths({{1, 1}}), {2}), one_wide(one.lod(), {3});
    refuses(grad(one, two, one_wide, two, Cell()), "dynamic_rnn_grad: doutput at step 0 has shape {2, 3}");
    const LoDTensor<double> none(LoD::from_lengths({{0, 0}}), {2}), narrow({2, 1});
    refuses(grad(none, two, none, narrow, Cell()), "dynamic_rnn_grad: dstate: rows of shape {1}, expected {2}");
  });
}

TEST_CASE("infer_dynamic_rnn: allows what the operation gives, and refuses what it does") {
  for_each_random_batch<float>(1, {2}, [](Engine&, const lod::LoDTensor<float>& x) {
    for (int level = 0; level < x.levels(); ++level) {
      const lod::RankOptions options{.level = level};
      const lod::LoDTensor<double> initial({x.lod().size(level), 3});
      const auto y = lod::dynamic_rnn(x, lod::RankTable(x.lod(), options), initial,
                                      [](const auto& state, const auto& step) { return std::pair(state, step); });
      const int below = x.levels() - level - 1;
      const auto step = described(lod::DataType::FP32, {-1, 2}, below);
      for (const auto& desc : {describe(x), blank(describe(x))}) {
        const auto inferred = lod::infer_dynamic_rnn(desc, desc, describe(initial), step, options);
        check_inferred(y.output, inferred.output);
        check_inferred(y.state, inferred.state);
      }
    }
  });
  const auto x = described(lod::DataType::FP32, {15, 2}, 2), state = described(lod::DataType::FP64, {6, 3});
  const auto y = lod::infer_dynamic_rnn(x, x, state, described(lod::DataType::INT8, {-1, 4}), {.level = 1});
  CHECK(y.output == described(lod::DataType::INT8, {15, 4}, 2));
  CHECK(y.state == described(lod::DataType::FP64, {6, 3}, 1));
  CHECK_THROWS_AS(lod::infer_dynamic_rnn(x, x, state, x, {.level = 2}), lod::OutOfRange);
  CHECK_THROWS_AS(lod::infer_dynamic_rnn(state, x, state, x), lod::ShapeMismatch);
}

TEST_CASE(
    "dynamic_rnn: the output may be a view of the state before, the gradient by a step one of that by the state") {
  using Nested = std::vector<std::vector<double>>;
  const auto x = LoDTensor<double>::from_nested(Nested{{1, 2, 3}, {4}});
  const RankTable table(x.lod());
  const auto initial = LoDTensor<double>::from_nested(std::vector<double>{-1, -2});
  const auto delay = [](const States& before, const States& step) { return std::pair(step, before); };
  const auto y = lod::dynamic_rnn(x, table, initial, delay);
  CHECK(same_bits(y.output, LoDTensor<double>::from_nested(Nested{{-1, 1, 2}, {-2}})));
  CHECK(same_bits(y.state, LoDTensor<double>::from_nested(std::vector<double>{3, 4})));
  const auto d = lod::dynamic_rnn_grad(x, initial, x, table, initial, delay,
                                       [](const States&, const States&, const States& dstate, const States& doutput) {
                                         return std::pair(doutput, dstate);
                                       });
  CHECK(same_bits(d.x, LoDTensor<double>::from_nested(Nested{{2, 3, -1}, {-2}})));
  CHECK(same_bits(d.initial_state, LoDTensor<double>::from_nested(std::vector<double>{1, 4})));
}

TEST_CASE("dynamic_rnn: every type; a giant among thousands, by any number of threads") {
  for_each_type(AllTypes(), []<class T>(std::type_identity<T>) {
    Engine engine(6);
    const auto x = small_integers<T>(engine, giant_among_short(engine, 2000, 300), {3});
    const auto initial = small_integers<T>(engine, {2000, 3});
    const RankTable table(x.lod());
    const auto delay = [](const auto& before, const auto& step) { return std::pair(step, before); };
    for_each_executor([&](const auto& executor) {
      const auto y = lod::dynamic_rnn(executor, x, table, initial, delay);
      CHECK(y.output.lod() == x.lod());
      bool same = true;
      const auto offsets = x.lod().offsets(0);
      for (std::int64_t i = 0; i < 2000; ++i) {
        const T* before = initial.row(i).data();
        const auto follows = [&](std::span<const T> row) { same = same && std::equal(row.begin(), row.end(), before); };
        for (auto row = offsets[static_cast<std::size_t>(i)]; row < offsets[static_cast<std::size_t>(i) + 1]; ++row) {
          follows(std::as_const(y.output).row(row));
          before = x.row(row).data();
        }
        follows(std::as_const(y.state).row(i));
      }
      CHECK(same);
    });
  });
}
