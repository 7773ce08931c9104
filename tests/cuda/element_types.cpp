// SPDX-License-Identifier: Apache-2.0
#include "support/check_on_gpu.hpp"
#include "support/random_batch.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

using lod::LoD;
using lod::LoDTensor;
using lod::PoolType;
using namespace lod_test;

TEST_CASE_TEMPLATE("on a GPU: element types", T, double, lod::float16, lod::bfloat16, std::int32_t, std::int64_t) {
  Engine engine(30);
  const LoD index = LoD::from_lengths({{3, 0, 1, 2}, {2, 0, 40, 1, 5, 3}});
  const auto x = small_integers<T>(engine, index, {3}), y = small_integers<T>(engine, index, {3});
  const auto rows = small_integers<T>(engine, {index.size(1), 3});
  check_on_gpu("sequence_pool, sequence_max_pool, sequence_pool_grad", [&](auto& call) {
    for (const PoolType type : {PoolType::SUM, PoolType::AVERAGE, PoolType::MAX, PoolType::LAST}) {
      lod::sequence_pool_into(call.executor(), call.on(x), type, {.pad_value = 1}, call.template out<T>());
    }
    auto& values = call.template out<T>();
    lod::sequence_max_pool_into(call.executor(), call.on(x), {}, values, call.template out<std::int64_t>());
    lod::sequence_pool_grad_into(call.executor(), call.on(rows), index, PoolType::AVERAGE, {}, call.template out<T>());
  });
  check_on_gpu("sequence_cumsum, sequence_reverse, sequence_expand_as", [&](auto& call) {
    lod::sequence_cumsum_into(call.executor(), call.on(x), call.template out<T>());
    lod::sequence_reverse_into(call.executor(), call.on(x), call.template out<T>());
    lod::sequence_expand_as_into(call.executor(), call.on(rows), index, call.template out<T>());
    using U = lod::kernel::Accumulator<T>;
    if constexpr (lod::kernel::has_wide_sums<T, U>) {
      lod::sequence_pool_into(call.executor(), call.on(x), PoolType::SUM, {.pad_value = 1}, call.template out<U>());
      lod::sequence_cumsum_into(call.executor(), call.on(x), call.template out<U>());
    }
  });
  check_on_gpu("sequence_concat, sequence_pad", [&](auto& call) {
    lod::sequence_concat_into(call.executor(), call.on(x), call.on(y), call.template out<T>());
    auto& dense = call.template out<T>();
    lod::sequence_pad_into(call.executor(), call.on(x), {.pad_value = 1}, dense, call.template out<std::int64_t>());
  });
  const auto column = small_integers<T>(engine, index, {});
  check_on_gpu("sequence_sort", [&](auto& call) {
    lod::sequence_sort_into(call.executor(), call.on(column), {.descending = true}, call.template out<T>());
  });
  check_on_gpu("add, sub, mul", [&](auto& call) {
    lod::add_into(call.executor(), call.on(x), call.on(y), call.template out<T>());
    lod::sub_into(call.executor(), call.on(x), call.on(y), call.template out<T>());
    lod::mul_into(call.executor(), call.on(x), call.on(y), call.template out<T>());
  });
  if constexpr (lod::supports<lod::op::sequence_softmax, T>) {
    check_on_gpu("sequence_softmax, sequence_logsumexp", [&](auto& call) {
      lod::sequence_softmax_into(call.executor(), call.on(x), call.template out<T>());
      lod::sequence_logsumexp_into(call.executor(), call.on(x), call.template out<T>());
    });
  }
}
