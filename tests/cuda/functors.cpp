// SPDX-License-Identifier: Apache-2.0
/// @file
/// Functions of users' on a GPU, where nvcc compiles the calls.
#include "support/check_on_gpu.hpp"
#include "support/random_batch.hpp"

#include <doctest/doctest.h>

#include <cstdint>

using lod::LoD;
using lod::LoDTensor;
using namespace lod_test;

namespace {

struct Greater {
  LOD_HOST_DEVICE std::int64_t operator()(std::int64_t a, std::int64_t b) const { return a < b ? b : a; }
};
/// Associative, but not commutative: of two numbers the first that is not 0.
struct FirstOfAny {
  LOD_HOST_DEVICE float operator()(float a, float b) const { return a != 0 ? a : b; }
};
struct SumAndLast {
  std::int64_t size;
  LOD_HOST_DEVICE void operator()(const float* from, std::int32_t* to) const {
    float sum = 0;
    for (std::int64_t i = 0; i < size; ++i) sum += from[i];
    to[0] = static_cast<std::int32_t>(sum);
    to[1] = static_cast<std::int32_t>(from[size - 1]);
  }
};

}  // namespace

TEST_CASE("on a GPU: functions of users'") {
  Engine engine(32);
  for (const LoD& index : {LoD::from_lengths({{2, 0, 40, 1, 5, 3}}), LoD::from_lengths({{3, 2000, 0, 513, 512}})}) {
    for (const std::int64_t row_size : {1, 3, 40}) {
      const auto x = small_integers<float>(engine, index, {row_size});
      check_on_gpu("reduce_sequences, scan_sequences, map_rows", [&](auto& call) {
        lod::reduce_sequences_into(call.executor(), call.on(x), std::int64_t{-2}, Greater(),
                                   call.template out<std::int64_t>());
        lod::scan_sequences_into(call.executor(), call.on(x), FirstOfAny(), call.template out<float>());
        lod::scan_sequences_into(call.executor(), call.on(x), FirstOfAny(), {.reverse = true},
                                 call.template out<float>());
        lod::map_rows_into(call.executor(), call.on(x), {2}, SumAndLast{row_size}, call.template out<std::int32_t>());
      });
    }
  }
}
