// SPDX-License-Identifier: Apache-2.0
// Ids and labels of 32 bits, as arguments of every operation that takes ids.
#include "support/check_throws.hpp"
#include "support/executors.hpp"
#include "support/random_batch.hpp"
#include "support/random_lod.hpp"
#include "support/repeatable.hpp"
#include <lod/lod.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <stdexcept>
#include <string>

using lod::LoD;
using lod::LoDTensor;
using lod::LoDTensorView;
using lod::PoolType;
using namespace lod_test;

namespace {

LoDTensor<std::int32_t> narrowed(const LoDTensor<std::int64_t>& ids) {
  auto narrow =
      ids.levels() > 0 ? LoDTensor<std::int32_t>(ids.lod(), ids.row_shape()) : LoDTensor<std::int32_t>(ids.shape());
  std::ranges::transform(ids.values(), narrow.data(), [](std::int64_t id) { return static_cast<std::int32_t>(id); });
  return narrow;
}

/// Checks that f gives the same bits for ids of both types, of which it takes all sequences but the first.
template <class F>
void check_narrow(const LoDTensor<std::int64_t>& ids, const F& f) {
  const std::int64_t first = ids.size() > 0 ? 1 : 0;
  const auto narrow = narrowed(ids);
  CHECK(same_bits(f(ids.between(first, ids.size())), f(narrow.between(first, narrow.size()))));
}

}  // namespace

TEST_CASE("embedding, embedding_pool, embedding_max_pool and their gradients: ids of 32 bits as those of 64") {
  for_each_random_lod(4, 1, 3, [](Engine& engine, const Lengths& lengths) {
    auto ids = random_ids(engine, LoD::from_lengths(lengths), 9);
    for (std::int64_t& id : ids.values()) id -= random_number(engine, 0, 9) == 0 ? id + 1 : 0;
    const auto table = real_numbers<float>(engine, {9, 3});
    const lod::EmbeddingOptions rows{.padding_idx = 4, .skip_minus_one = true};
    const lod::EmbeddingPoolOptions<float> options{.padding_idx = 4, .skip_minus_one = true};
    for_each_executor([&](const auto& executor) {
      const auto check = [&](const auto& f) { check_narrow(ids, f); };
      const auto dense = [&](const auto& gradient) { return lod::to_dense(executor, gradient); };
      check([&](const auto& some) { return lod::embedding(executor, table, some, rows); });
      check([&](const auto& some) {
        return dense(lod::embedding_grad(executor, lod::embedding(table, some, rows), some, 9, rows));
      });
      for (const PoolType type : {PoolType::SUM, PoolType::AVERAGE, PoolType::MAX, PoolType::LAST}) {
        check([&](const auto& some) { return lod::embedding_pool(executor, table, some, type, options); });
        check([&](const auto& some) {
          const auto y = lod::embedding_pool(table, some, type, options);
          return lod::embedding_pool_weights_grad(executor, y, table, some, type, options);
        });
      }
      check([&](const auto& some) {
        const auto y = lod::embedding_pool(table, some, PoolType::SQRT, options);
        return dense(lod::embedding_pool_grad(executor, y, some, 9, PoolType::SQRT, options));
      });
      check([&](const auto& some) { return lod::embedding_min_pool(executor, table, some, options).index; });
      check([&](const auto& some) {
        const auto best = lod::embedding_max_pool(executor, table, some, options);
        return dense(lod::embedding_max_pool_grad(executor, best.values, best.index, some, 9, options));
      });
    });
  });
}

TEST_CASE("cross_entropy, linear_chain_crf, ctc_loss and their gradients: labels of 32 bits as those of 64") {
  for_each_random_lod(4, 1, 1, [](Engine& engine, const Lengths& lengths) {
    const LoD lod = LoD::from_lengths(lengths);
    const auto labels = random_ids(engine, lod, 4), words = random_ids(engine, LoD::from_lengths({{2, 0, 3}}), 5);
    const auto all = real_numbers<float>(engine, lod, {4}), transition = real_numbers<float>(engine, {6, 4});
    const auto frames = real_numbers<float>(engine, LoD::from_lengths({{5, 4, 9}}), {6});
    const auto x = all.between(all.size() > 0 ? 1 : 0, all.size()), y = frames.between(1, 3);
    for_each_executor([&](const auto& executor) {
      check_narrow(labels, [&](const auto& some) { return lod::cross_entropy(executor, x, some); });
      check_narrow(labels, [&](const auto& some) {
        return lod::cross_entropy_grad(executor, lod::cross_entropy(x, some), x, some);
      });
      check_narrow(labels, [&](const auto& some) { return lod::linear_chain_crf(executor, x, transition, some); });
      check_narrow(labels, [&](const auto& some) {
        const auto losses = lod::linear_chain_crf(x, transition, some);
        return lod::linear_chain_crf_grad(executor, losses, x, transition, some).demission;
      });
      check_narrow(words, [&](const auto& some) { return lod::ctc_loss(executor, y, some, {.blank = 5}); });
      check_narrow(words, [&](const auto& some) {
        return lod::ctc_loss_grad(executor, lod::ctc_loss(y, some, {.blank = 5}), y, some, {.blank = 5});
      });
    });
  });
}

TEST_CASE("grouped_linear, sequence_scatter and their gradients: ids of 32 bits as those of 64") {
  Engine engine(1);
  const LoD lod = LoD::from_lengths({{2, 0, 3, 1}});
  const auto all = real_numbers<float>(engine, lod, {3}), weights = real_numbers<float>(engine, {5, 3, 2});
  const auto updates = real_numbers<float>(engine, lod, {}), into = real_numbers<float>(engine, {3, 7});
  const auto groups = random_ids(engine, LoD::from_lengths({{1, 1, 1, 1}}), 5), columns = random_ids(engine, lod, 7);
  const auto x = all.between(1, 4), some_updates = updates.between(1, 4);
  for_each_executor([&](const auto& executor) {
    check_narrow(groups, [&](const auto& some) { return lod::grouped_linear(executor, x, weights, some); });
    check_narrow(groups, [&](const auto& some) {
      const auto y = lod::grouped_linear(x, weights, some);
      return lod::grouped_linear_grad(executor, y, x, weights, some).dweights;
    });
    check_narrow(columns, [&](const auto& some) { return lod::sequence_scatter(executor, into, some, some_updates); });
    check_narrow(columns, [&](const auto& some) { return lod::sequence_scatter_grad(executor, into, some).dupdates; });
  });
}

TEST_CASE("embedding: ids of 32 bits outside the table throw and change nothing, wherever they are") {
  const LoDTensor<float> table({1000, 2});
  for (const std::int32_t bad :
       {-1, 1000, std::numeric_limits<std::int32_t>::min(), std::numeric_limits<std::int32_t>::max()}) {
    for (const std::int64_t place : {0, 15, 16, 31, 32, 9998, 9999}) {
      LoDTensor<std::int32_t> ids({10000});
      ids.values()[static_cast<std::size_t>(place)] = bad;
      const std::string text =
          "embedding: id " + std::to_string(bad) + " at position " + std::to_string(place) + ", expected 0 to 999";
      for (const int threads : {1, 3}) {
        LoDTensor<float> y({3});
        check_throws<lod::OutOfRange>([&] { lod::embedding_into(lod::CpuExecutor(threads), table, ids, y); },
                                      text.c_str(), y);
      }
    }
  }
  const LoDTensor<std::int32_t> none({0}), one({1});
  CHECK(lod::embedding(LoDTensor<float>({0, 2}), none).shape() == lod::Shape{0, 2});
  CHECK_THROWS_WITH_AS((void)lod::embedding(LoDTensor<float>({0, 2}), one),
                       "embedding: id 0 at position 0, but there are no rows", lod::OutOfRange);
}

TEST_CASE("embedding, embedding_pool: ids of 32 bits allocate nothing in a second call") {
  Engine engine(2);
  const auto ids = narrowed(random_ids(engine, giant_among_short(engine, 200, 20000), 50));
  const auto table = real_numbers<float>(engine, {50, 3});
  on_counting_executors([&](const auto& check, const auto& executor, CountingResource& resource) {
    LoDTensor<float> y(&resource);
    check("embedding", [&] { lod::embedding_into(executor, table, ids, y); });
    check("embedding_pool", [&] { lod::embedding_pool_into(executor, table, ids, PoolType::SUM, y); });
  });
}

TEST_CASE("embedding, embedding_pool: an output that overlaps ids of 32 bits is refused") {
  const lod::CpuExecutor executor(1);
  const LoDTensor<std::int32_t> table({9, 1});
  auto ids = LoDTensor<std::int32_t>(LoD::from_lengths({{2, 0, 3}}), {});
  check_throws<std::invalid_argument>([&] { lod::embedding_into(executor, table, ids, ids); },
                                      "embedding: the output overlaps ids, expected memory of its own", ids);
  check_throws<std::invalid_argument>([&] { lod::embedding_pool_into(executor, table, ids, PoolType::SUM, ids); },
                                      "overlaps ids", ids);
  LoDTensor<std::int32_t> part(LoD::from_lengths({{8}}), {});
  const LoDTensorView<const std::int32_t> first(part.data(), ids.lod_view(), &ids.row_shape(), 1);
  const LoDTensorView<std::int32_t> second(part.data() + 3, ids.lod_view(), &table.row_shape(), 1);
  check_throws<std::invalid_argument>([&] { lod::embedding_into(executor, table, first, second); }, "overlaps ids",
                                      part);
}
