// SPDX-License-Identifier: Apache-2.0
/// @file
/// Gradients of every type and of slices, against those in double. Small integers:
/// sums are exact.
#include "support/element_types.hpp"
#include "support/in_double.hpp"
#include "support/random_batch.hpp"
#include <lod/lod.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <type_traits>
#include <vector>

using lod::LoD;
using lod::LoDTensor;
using lod::PoolType;
using namespace lod_test;
using Numbers = std::vector<std::int64_t>;

TEST_CASE(
    "sequence_pool_grad, sequence_cumsum_grad, select_grad, ...: of every type, and of slices, what double gives") {
  for_each_type(AllTypes(), []<class T>(std::type_identity<T>) {
    Engine engine(3);
    for (const std::int64_t row_size : {1, 3, 8, 17}) {
      INFO("row size ", row_size);
      const Given<T> given(engine, row_size);
      const auto& [whole, more, x, rows, eight, index] = given;
      const LoD levels = index, repeats = LoD::from_lengths({{2, 0, 3}});
      const Numbers ids = {2, 0, 2}, lengths = {4, 0, 1, 4}, offset = {1, 0, 0}, count = {1, 0, 2};
      for (const PoolType pool : {PoolType::SUM, PoolType::AVERAGE, PoolType::SQRT, PoolType::FIRST, PoolType::LAST}) {
        check_in_double("pool_grad", rows,
                        [&](const auto& e, const auto& v) { return lod::sequence_pool_grad(e, v, levels, pool); });
      }
      const auto greatest = lod::sequence_max_pool(x).index;
      check_in_double("max_pool_grad", rows, [&](const auto& e, const auto& v) {
        return lod::sequence_max_pool_grad(e, v, greatest, levels);
      });
      check_in_double("cumsum_grad", x, [](const auto& e, const auto& v) { return lod::sequence_cumsum_grad(e, v); });
      check_in_double("reverse_grad", x,
                      [](const auto& e, const auto& v) { return lod::sequence_reverse_grad(e, v, {.level = 0}); });
      check_in_double("expand_grad", x, [&](const auto& e, const auto& v) {
        return lod::sequence_expand_grad(e, lod::sequence_expand(e, v, repeats), levels, repeats);
      });
      check_in_double("expand_as_grad", x,
                      [&](const auto& e, const auto& v) { return lod::sequence_expand_as_grad(e, v, levels); });
      check_in_double("select_grad", x, [&](const auto& e, const auto& v) {
        return lod::select_grad(e, lod::select(e, v, ids), levels, ids);
      });
      check_in_double("slice_grad", x, [&](const auto& e, const auto& v) {
        return lod::sequence_slice_grad(e, lod::sequence_slice(e, v, offset, count), levels, offset, count);
      });
      check_in_double("pad_grad", x, [&](const auto& e, const auto& v) {
        return lod::sequence_pad_grad(e, lod::sequence_pad(e, v).dense, levels);
      });
      check_in_double("unpad_grad", x,
                      [&](const auto& e, const auto& v) { return lod::sequence_unpad_grad(e, v, lengths, 5); });
      if (row_size > 1) continue;
      const auto order = lod::sequence_argsort(x);
      check_in_double("sort_grad", x,
                      [&](const auto& e, const auto& v) { return lod::sequence_sort_grad(e, v, order); });
      check_in_double("topk_grad", x, [&](const auto& e, const auto& v) {
        const auto top = lod::sequence_topk(e, v, 2);
        return lod::sequence_topk_grad(e, top.values, top.index, levels, 2);
      });
    }
  });
}
