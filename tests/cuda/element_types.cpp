// SPDX-License-Identifier: Apache-2.0
#include "support/check_on_gpu.hpp"
#include "support/random_batch.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <type_traits>
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

TEST_CASE_TEMPLATE("on a GPU: many sequences of scalar rows", T, float, double, lod::float16, std::int64_t) {
  Engine engine(4);
  const auto few = [&] { return random_number(engine, 0, 30); };
  const auto mostly_empty = [&] { return random_number(engine, 0, 9) > 0 ? 0 : random_number(engine, 1, 31); };
  const auto some_are_long = [&] {
    const std::int64_t kind = random_number(engine, 0, 99);
    return random_number(engine, kind == 0 ? 513 : 0, kind == 0 ? 1500 : kind < 8 ? 512 : 12);
  };
  const auto more_than_a_thread_keeps = [&] { return random_number(engine, 20, 44); };
  const auto check = [&](const char* name, const auto& length) {
    CAPTURE(name);
    std::vector<std::int64_t> lengths(500);
    for (std::int64_t& each : lengths) each = length();
    lengths.back() = 3;
    // The second part begins off any boundary of 16 bytes.
    const LoD index = LoD::from_lengths({{1, 0, 499}, lengths});
    const auto x = small_integers<T>(engine, index, {});
    for (const bool whole : {true, false}) {
      CAPTURE(whole);
      const auto part = [&](auto& call) { return call.on(x).between(whole ? 0 : 1, 3); };
      check_on_gpu("sums, maxima and where they are", [&](auto& call) {
        lod::sequence_pool_into(call.executor(), part(call), PoolType::SUM, call.template out<T>());
        lod::sequence_pool_into(call.executor(), part(call), PoolType::MAX, {.pad_value = 7}, call.template out<T>());
        auto& values = call.template out<T>();
        auto& winners = call.template out<std::int64_t>();
        lod::sequence_max_pool_into(call.executor(), part(call), {}, values, winners);
      });
      check_on_gpu("sequence_reverse, sequence_cumsum", [&](auto& call) {
        lod::sequence_reverse_into(call.executor(), part(call), call.template out<T>());
        lod::sequence_cumsum_into(call.executor(), part(call), call.template out<T>());
        lod::sequence_cumsum_into(call.executor(), part(call), {.reverse = true}, call.template out<T>());
      });
      if constexpr (!std::is_same_v<T, std::int64_t>) {
        check_on_gpu("softmaxes, moments", [&](auto& call) {
          lod::sequence_softmax_into(call.executor(), part(call), call.template out<T>());
          lod::sequence_log_softmax_into(call.executor(), part(call), call.template out<T>());
          auto& mean = call.template out<T>();
          auto& variance = call.template out<T>();
          lod::sequence_mean_var_into(call.executor(), part(call), {}, mean, variance);
        });
      }
    }
  };
  check("few rows", few);
  check("mostly none", mostly_empty);
  check("some are long", some_are_long);
  check("more than a thread keeps", more_than_a_thread_keeps);
}
