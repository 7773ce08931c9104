// SPDX-License-Identifier: Apache-2.0
// The control word of the calling thread: rounding, subnormal numbers, traps. Operations work as if it were as usual,
// on every thread, and leave it as it was; functions of the user's see it on every thread.
#include "support/callers_control.hpp"
#include "support/executors.hpp"
#include "support/random_batch.hpp"
#include "support/same_bits.hpp"
#include <lod/lod.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cfenv>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

using namespace lod_test;

namespace {

/// A name, and the values that an operation gives.
template <class T>
struct Computed {
  std::string name;
  lod::LoDTensor<T> values;
};

template <class T>
void check_same_bits(const std::vector<Computed<T>>& found, const std::vector<Computed<T>>& expected) {
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CAPTURE(expected[i].name);
    CHECK(same_bits(found[i].values, expected[i].values));
  }
}

/// What goes through arithmetic, from sequences of which some are shared by threads.
template <class E, class T>
std::vector<Computed<T>> compute(const E& executor, const lod::LoDTensor<T>& x, const lod::LoDTensor<T>& scalars,
                                 const lod::LoDTensor<T>& filter, const lod::LoDTensor<T>& matrix) {
  std::vector<Computed<T>> results;
  const auto add = [&](const char* name, lod::LoDTensor<T> y) { results.push_back({name, std::move(y)}); };
  for (const auto type : {lod::PoolType::SUM, lod::PoolType::AVERAGE, lod::PoolType::SQRT, lod::PoolType::MAX}) {
    add("sequence_pool", lod::sequence_pool(executor, x, type));
    add("sequence_pool of scalars", lod::sequence_pool(executor, scalars, type));
  }
  const lod::LoDTensor<T> sums = lod::sequence_pool(executor, x, lod::PoolType::SUM);
  add("sequence_pool_grad", lod::sequence_pool_grad(executor, sums, x.lod(), lod::PoolType::AVERAGE));
  const lod::LoDTensor<T> y = lod::sequence_softmax(executor, scalars);
  add("sequence_softmax", y);
  add("sequence_softmax_grad", lod::sequence_softmax_grad(executor, scalars, y));
  add("sequence_cumsum", lod::sequence_cumsum(executor, x));
  add("sequence_cumsum of scalars", lod::sequence_cumsum(executor, scalars));
  add("sequence_logsumexp", lod::sequence_logsumexp(executor, scalars));
  add("sequence_sort", lod::sequence_sort(executor, scalars));
  add("sequence_reverse", lod::sequence_reverse(executor, x));
  add("row_conv", lod::row_conv(executor, x, filter));
  const auto convolved = lod::row_conv_grad(executor, x, x, filter);
  add("row_conv_grad", convolved.dx);
  add("row_conv_grad: filter", convolved.dfilter);
  add("sequence_conv", lod::sequence_conv(executor, x, matrix, {.context_length = 3, .context_start = -1}));
  const auto of_conv = lod::sequence_conv_grad(executor, lod::sequence_conv(executor, x, matrix, {.context_length = 3}),
                                               x, matrix, {.context_length = 3});
  add("sequence_conv_grad", of_conv.dx);
  add("sequence_conv_grad: filter", of_conv.dfilter);
  lod::SelectedRows<T> rows({0, 1, 2}, 3, {3});
  rows.value().values()[1] = T{3};
  rows.value().values()[2] = T{7};
  add("clip_by_norm", lod::clip_by_norm(executor, rows, 2.5).value());
  add("mul", lod::mul(executor, x, x));
  lod::LoDTensor<T> parameter = x, squares = x;
  for (T& number : squares.values()) number = number < 0 ? -number : number;
  lod::adagrad(executor, parameter, squares, x, {.learning_rate = 0.5});
  add("adagrad", parameter);
  // What follows from the options is the same, too.
  lod::LoDTensor<T> mean = x;
  lod::adam(executor, parameter, mean, squares, x, {.beta1 = 0.7, .beta2 = 0.97, .step = 5});
  add("adam", parameter);
  const lod::LoD with_empty = lod::LoD::from_lengths({{0, 1}});
  add("an option",
      lod::sequence_pool(executor, lod::LoDTensor<T>(with_empty, {}), lod::PoolType::SUM, {.pad_value = 0.1}));
  add("clip", lod::clip(executor, rows, 0.3, 3.4028236e38).value());
  return results;
}

/// What follows from options, and what kernels work out before their threads begin.
template <class E, class T>
std::vector<Computed<T>> compute_of_options(const E& executor, const lod::LoDTensor<T>& x) {
  std::vector<Computed<T>> results;
  const auto add = [&](const char* name, lod::LoDTensor<T> y) { results.push_back({name, std::move(y)}); };
  const std::int64_t size = x.row_size();
  const lod::AttentionOptions<T> heads{.heads = size / 3};  // whose scale is the inverse of a root of 3
  const auto attended = lod::sequence_attention(executor, x, x, x, heads);
  add("sequence_attention", attended.y);
  add("sequence_attention_grad",
      lod::sequence_attention_grad(executor, x, x, x, x, attended.y, attended.logsumexp, heads).dk);
  add("rotary_embedding", lod::rotary_embedding(executor, x, {.base = 7.3}));
  add("sequence_dropout", lod::sequence_dropout(executor, x, {.probability = 0.1, .seed = 3}));
  add("layer_norm", lod::layer_norm(executor, x, {.epsilon = 0.1}));
  lod::LoDTensor<std::int64_t> labels(x.lod(), {});
  for (std::size_t i = 0; i < labels.values().size(); ++i) {
    labels.values()[i] = static_cast<std::int64_t>(i) % size;
  }
  const lod::CrossEntropyOptions smoothed{.label_smoothing = 0.1};
  const auto losses = lod::cross_entropy(executor, x, labels, smoothed);
  add("cross_entropy", losses);
  add("cross_entropy_grad", lod::cross_entropy_grad(executor, losses, x, labels, smoothed));
  lod::LoDTensor<T> transition({size + 2, size}), weights({size, 4 * size}), recurrent({size, 4 * size});
  for (auto* const y : {&transition, &weights, &recurrent}) {
    for (std::size_t i = 0; i < y->values().size(); ++i) y->values()[i] = x.values()[i % x.values().size()];
  }
  const auto likelihood = lod::linear_chain_crf(executor, x, transition, labels);
  add("linear_chain_crf", likelihood);
  auto of_crf = lod::linear_chain_crf_grad(executor, likelihood, x, transition, labels);
  add("linear_chain_crf_grad", std::move(of_crf.demission));
  add("linear_chain_crf_grad: transition", std::move(of_crf.dtransition));
  add("lstm",
      lod::lstm(executor, x, {.input = weights, .recurrent = recurrent}, {.cell_clip = 0.1, .projection_clip = 0.3})
          .last_cell);
  lod::LoDTensor<std::int64_t> ids(x.lod(), {size});
  lod::LoDTensor<T> probabilities(x.lod(), {size}), before({x.rows()});
  for (std::size_t i = 0; i < x.values().size(); ++i) probabilities.values()[i] = std::abs(x.values()[i]);
  std::copy_n(x.data(), x.rows(), before.data());
  add("beam_search",
      lod::beam_search(executor, ids, probabilities, {.beam_size = 3, .is_accumulated = false, .pre_scores = before})
          .scores);
  lod::SparseTable<T, lod::Cpu, lod::UniformRow> table({7}, 5, lod::UniformRow{.seed = 3, .limit = 0.1});
  add("UniformRow", table.get({1, 2, 3}));
  return results;
}

}  // namespace

TEST_CASE("control word: what operations derive from options is the same for all modes of rounding, of subnormals") {
  Engine engine(12);
  const auto check = [&](auto number) {
    using T = decltype(number);
    const auto x = real_numbers<T>(engine, lod::LoD::from_lengths({{5, 0, 17, 33, 1}}), {6});
    const auto compare = [&](const auto& executor) {
      const std::vector<Computed<T>> expected = compute_of_options(executor, x);
      for_each_control([&](int rounding, bool flushes) {
        std::vector<Computed<T>> found;
        {
          const CallersControl control(rounding, flushes);
          found = compute_of_options(executor, x);
        }
        check_same_bits(found, expected);
      });
    };
    if constexpr (std::same_as<T, float>) {
      for_each_executor(compare);
    } else {
      compare(lod::CpuExecutor(2));
    }
  };
  check(float{});
  check(double{});
}

TEST_CASE("control word: results are the same to the last bit for all modes of rounding, of subnormals and threads") {
  Engine engine(11);
  const auto check = [&](auto number) {
    using T = decltype(number);
    const auto x = real_numbers<T>(engine, giant_among_short(engine, 300, 9 * grain / 16), {3});
    auto scalars = real_numbers<T>(engine, giant_among_short(engine, 300, 2 * grain), {});
    // Subnormal numbers among them.
    for (std::size_t i = 0; i < scalars.values().size(); i += 5) {
      scalars.values()[i] *= std::numeric_limits<T>::min() / 16;
    }
    lod::LoDTensor<T> filter({2, x.row_size()}), matrix({3 * x.row_size(), 5});
    fill_real(engine, filter);
    fill_real(engine, matrix);
    const auto compare = [&](const auto& executor) {
      const std::vector<Computed<T>> expected = compute(working_alone(executor), x, scalars, filter, matrix);
      for_each_control([&](int rounding, bool flushes) {
        // Half of the combinations, each mode in some of them.
        if (flushes == (rounding == FE_UPWARD || rounding == FE_TOWARDZERO)) return;
        std::vector<Computed<T>> found;
        unsigned word = 0, word_after = 0;
        {
          const CallersControl control(rounding, flushes);
          word = control_word();
          found = compute(executor, x, scalars, filter, matrix);
          word_after = control_word();
        }
        CHECK(word_after == word);
        check_same_bits(found, expected);
      });
    };
    if constexpr (std::same_as<T, float>) {
      for_each_executor(compare);
    } else {
      for (const int threads : {1, 7}) compare(lod::CpuExecutor(threads));
    }
  };
  check(float{});
  check(double{});
}

TEST_CASE("control word: updates by adam have the same bits for any number of threads") {
  Engine engine(13);
  const auto gradient = real_numbers<float>(engine, {2 * grain, 3});
  const auto update = [&](int threads) {
    lod::LoDTensor<float> parameter({2 * grain, 3}), mean({2 * grain, 3}), squares({2 * grain, 3});
    lod::adam(lod::CpuExecutor(threads), parameter, mean, squares, gradient, {.step = 3});
    return parameter;
  };
  const lod::LoDTensor<float> expected = update(1);
  for_each_control([&](int rounding, bool flushes) {
    for (const int threads : {1, 7}) {
      lod::LoDTensor<float> found;
      {
        const CallersControl control(rounding, flushes);
        found = update(threads);
      }
      CHECK(same_bits(found, expected));
    }
  });
}

TEST_CASE("control word: subnormal numbers are sorted and found, though they count as zeros elsewhere") {
  using Floats = std::vector<float>;
  constexpr float least = std::numeric_limits<float>::denorm_min();
  const Floats numbers{3 * least, -least, 0, 5 * least, -7 * least, least, 2 * least};
  const auto x = lod::LoDTensor<float>::from_values(lod::LoD::from_lengths({{7}}), {}, numbers);
  for_each_control([&](int rounding, bool flushes) {
    lod::LoDTensor<float> sorted, greatest, smallest;
    lod::LoDTensor<std::int64_t> order;
    {
      const CallersControl control(rounding, flushes);
      sorted = lod::sequence_sort(x);
      order = lod::sequence_argsort(x);
      greatest = lod::sequence_pool(x, lod::PoolType::MAX);
      smallest = lod::sequence_pool(x, lod::PoolType::MIN);
    }
    CHECK(Floats(sorted.values().begin(), sorted.values().end()) ==
          Floats{-7 * least, -least, 0, least, 2 * least, 3 * least, 5 * least});
    CHECK(std::vector<std::int64_t>(order.values().begin(), order.values().end()) ==
          std::vector<std::int64_t>{4, 1, 2, 5, 6, 0, 3});
    CHECK(greatest.values()[0] == 5 * least);
    CHECK(smallest.values()[0] == -7 * least);
  });
}

TEST_CASE("control word: a function of the user's sees that of the caller on every thread") {
  const lod::LoDTensor<float> x(lod::LoD::from_lengths({std::vector<std::int64_t>(64, 1)}), {});
  for_each_executor([&](const auto& executor) {
    for_each_control([&](int rounding, bool flushes) {
      std::vector<unsigned> seen(64);
      unsigned expected = 0, after = 0;
      {
        const CallersControl control(rounding, flushes);
        expected = control_word();
        lod::for_each_sequence(
            executor, x, 0, [&](const auto&, std::int64_t i) { seen[static_cast<std::size_t>(i)] = control_word(); });
        after = control_word();
      }
      CHECK(seen == std::vector<unsigned>(64, expected));
      CHECK(after == expected);
    });
  });
}

#ifdef __GLIBC__
TEST_CASE("control word: what traps for the caller does not in operations") {
  const auto x = lod::LoDTensor<float>::from_values(lod::LoD::from_lengths({{3}}), {}, {1, 0, 3e38f});
  std::fenv_t before;
  std::fegetenv(&before);
  std::feclearexcept(FE_ALL_EXCEPT);
  feenableexcept(FE_OVERFLOW | FE_INVALID);
  const int trapping = fegetexcept();  // none where the processor has no traps, as many of 64-bit ARM
  const lod::LoDTensor<float> y = lod::sequence_cumsum(lod::mul(x, x));
  const int enabled = fegetexcept();
  std::fesetenv(&before);
  CHECK(enabled == trapping);
  CHECK(std::isinf(y.values()[2]));
}
#endif
