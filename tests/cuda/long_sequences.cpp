// SPDX-License-Identifier: Apache-2.0
/// @file
/// Long sequences among short ones on a GPU, whose LoDs have marks, and slices of such batches.
#include "support/long_sequences.hpp"

#include "support/check_on_gpu.hpp"
#include "support/grain.hpp"
#include "support/random_batch.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

using lod::LoDTensor;
using lod::PoolType;
using namespace lod_test;

#ifdef LOD_TEST_EMULATED_GPU

TEST_CASE("on a GPU: how many kernels are launched for short sequences, for longer ones and for giants") {
  const std::int64_t leaf = lod::kernel::leaf_rows, chunk = lod::kernel::chunk_rows(1);
  Engine engine(62);
  const lod::CudaExecutor executor;
  struct Expected {
    std::int64_t longest, sums, maxima, softmax, softmax_grad, logsumexp, cumsum;
  };
  const Expected all[] = {{leaf, 1, 1, 1, 1, 1, 1}, {chunk, 2, 2, 3, 3, 2, 2}, {257 * leaf, 2, 2, 3, 3, 2, 3}};
  for (const auto& expected : all) {
    CAPTURE(expected.longest);
    const auto index = giant_among_short(engine, 100, expected.longest);
    const auto x = lod::to<lod::Cuda>(executor, real_numbers<float>(engine, index, {}));
    lod::LoDTensor<float, lod::Cuda> y(executor.resource()), dx(executor.resource());
    const auto launches = [&](const auto& call) { return launches_of(executor, call); };
    CHECK(launches([&] { lod::sequence_pool_into(executor, x, PoolType::SUM, y); }) == expected.sums);
    CHECK(launches([&] { lod::sequence_pool_into(executor, x, PoolType::MAX, y); }) == expected.maxima);
    CHECK(launches([&] { lod::sequence_logsumexp_into(executor, x, y); }) == expected.logsumexp);
    CHECK(launches([&] { lod::sequence_cumsum_into(executor, x, y); }) == expected.cumsum);
    CHECK(launches([&] { lod::sequence_softmax_into(executor, x, y); }) == expected.softmax);
    CHECK(launches([&] { lod::sequence_softmax_grad_into(executor, x, y, dx); }) == expected.softmax_grad);
  }
}

#endif

namespace {

/// The levels that rows of a size are pooled at: single numbers and whole vectors at both, where not all is slow.
std::vector<int> levels_of(std::int64_t row_size) {
  if (!slow && (row_size == 1 || row_size == 8)) return {0, 1};
  return {row_size % 2 == 1 ? 1 : 0};
}

}  // namespace

TEST_CASE("on a GPU: long sequences among short ones") {
  for (const std::int64_t row_size : {1, 3, 8, 12}) {
    CAPTURE(row_size);
    const auto check = [&](const char* name, const auto& call) {
      check_on_gpu(name, call, kernels_are_interpreted() && row_size != 3 ? Checked::RESULTS : Checked::ALL);
    };
    Engine engine(61);
    const lod::LoD index = long_among_short(engine, row_size);
    const auto x = real_numbers<float>(engine, index, {row_size}), dy = real_numbers<float>(engine, index, {row_size});
    const auto ties = many_ties<float>(engine, index, row_size);
    const auto ids = random_ids(engine, index, 900);
    const auto reals = real_numbers<float>(engine, {900, row_size});
    const auto table = many_ties<float>(engine, lod::LoD::from_lengths({{900}}), row_size);
    check("embedding_pool and embedding_max_pool", [&](auto& call) {
      for (const PoolType type : {PoolType::MAX, PoolType::LAST}) {
        lod::embedding_pool_into(call.executor(), call.on(table), call.on(ids), type, call.template out<float>());
      }
      lod::embedding_pool_into(call.executor(), call.on(reals), call.on(ids), PoolType::SUM,
                               call.template out<float>());
      auto& most = call.template out<float>();
      lod::embedding_max_pool_into(call.executor(), call.on(table), call.on(ids).between(1, 4), {}, most,
                                   call.template out<std::int64_t>());
    });
    std::vector<std::int64_t> repeated(3000, 7);
    for (int i = 0; i < 90; ++i) repeated.push_back(i % 40);
    const lod::SelectedRows<float> g(repeated, 41, real_numbers<float>(engine, {3090, row_size}));
    check("merge_add of a row that is repeated many times",
          [&](auto& call) { lod::merge_add_into(call.executor(), call.on(g), call.template out_rows<float>()); });
    for (const int level : levels_of(row_size)) {
      check("sequence_pool", [&](auto& call) {
        for (const PoolType type : {PoolType::MAX, PoolType::MIN, PoolType::LAST}) {
          lod::sequence_pool_into(call.executor(), call.on(ties).between(1, 4), type, {.level = level},
                                  call.template out<float>());
        }
        lod::sequence_pool_into(call.executor(), call.on(x).between(1, 4), PoolType::SUM, {.level = level},
                                call.template out<float>());
        lod::sequence_pool_into(call.executor(), call.on(x), PoolType::AVERAGE, {.level = level},
                                call.template out<float>());
      });
      check("sequence_max_pool", [&](auto& call) {
        auto& values = call.template out<float>();
        lod::sequence_max_pool_into(call.executor(), call.on(ties), {.level = level}, values,
                                    call.template out<std::int64_t>());
      });
      check("sequence_softmax and its gradient", [&](auto& call) {
        auto& y = call.template out<float>();
        lod::sequence_softmax_into(call.executor(), call.on(x), {.level = level}, y);
        lod::sequence_softmax_grad_into(call.executor(), call.on(dy), y, {.level = level}, call.template out<float>());
        lod::sequence_softmax_into(call.executor(), call.on(x).between(2, 4), {.level = level},
                                   call.template out<float>());
      });
      check("sequence_logsumexp, sequence_cumsum, sequence_reverse", [&](auto& call) {
        const auto slice = call.on(x).between(1, 4);
        lod::sequence_logsumexp_into(call.executor(), slice, {.level = level}, call.template out<float>());
        lod::sequence_cumsum_into(call.executor(), slice, {.reverse = true, .level = level},
                                  call.template out<float>());
        lod::sequence_reverse_into(call.executor(), slice, {.level = level}, call.template out<float>());
      });
    }
  }
}
