// SPDX-License-Identifier: Apache-2.0
/// @file
/// What row-sparse tensors give, of every type and of slices, against those in double. Small integers:
/// sums are exact.
#include "support/element_types.hpp"
#include "support/in_double.hpp"
#include "support/random_batch.hpp"
#include <lod/lod.hpp>

#include <doctest/doctest.h>

#include <concepts>
#include <cstdint>
#include <type_traits>
#include <vector>

using lod::LoD;
using lod::LoDTensor;
using lod::PoolType;
using namespace lod_test;
using Numbers = std::vector<std::int64_t>;

TEST_CASE("embedding_pool_grad, merge_average, scale, ...: of every type, and of slices, what double gives") {
  for_each_type(AllTypes(), []<class T>(std::type_identity<T>) {
    Engine engine(3);
    for (const std::int64_t row_size : {1, 3, 8, 17}) {
      INFO("row size ", row_size);
      const Given<T> given(engine, row_size);
      const auto& [whole, more, x, rows, eight, index] = given;
      const auto films = small_integers<T>(engine, {3, 1, 2, row_size});
      const Numbers ids = {2, 0, 2}, list = {3, 0, 3, 5, 0, 3, 2, 3}, merged = {0, 2, 3, 5};
      const auto greatest = lod::sequence_max_pool(x).index;
      LoDTensor<std::int64_t> columns(index, {}), few(index, {});
      for (auto& column : columns.values()) column = random_number(engine, 0, row_size - 1);
      for (auto& id : few.values()) id = random_number(engine, 0, 3);
      check_in_double("scatter_grad", rows,
                      [&](const auto& e, const auto& v) { return lod::sequence_scatter_grad(e, v, columns).dupdates; });
      const lod::Im2SequenceOptions patches{.kernels = {2, 1}, .paddings = {1, 0, 1, 0}};
      check_in_double("im2sequence_grad", films.between(1, 3), [&](const auto& e, const auto& v) {
        return lod::im2sequence_grad(e, lod::im2sequence(e, v, patches), v, patches);
      });
      check_in_double("embedding_pool_grad", rows, [&](const auto& e, const auto& v) {
        return lod::to_dense(e, lod::embedding_pool_grad(e, v, columns, 20, PoolType::SUM));
      });
      check_in_double("embedding_max_pool_grad", rows, [&](const auto& e, const auto& v) {
        return lod::to_dense(e, lod::embedding_max_pool_grad(e, v, greatest, columns, 20));
      });
      check_in_double("embedding_pool_weights_grad", rows, [&](const auto& e, const auto& v) {
        return lod::embedding_pool_weights_grad(e, v, v, few, PoolType::SUM);
      });
      check_in_double("from_dense", rows,
                      [&](const auto& e, const auto& v) { return lod::from_dense(e, v, ids).value(); });
      check_in_double("merge_average", eight,
                      [&](const auto& e, const auto& v) { return lod::merge_average(e, listed(v, list, 6)).value(); });
      check_in_double("merge_add_grad", rows, [&](const auto& e, const auto& v) {
        return lod::merge_add_grad(e, listed(v, merged, 6), list).value();
      });
      check_in_double("merge_average_grad", rows, [&](const auto& e, const auto& v) {
        return lod::merge_average_grad(e, listed(v, merged, 6), list).value();
      });
      check_in_double("split_selected_rows", eight, [&](const auto& e, const auto& v) {
        return lod::split_selected_rows(e, listed(v, list, 6), Numbers{2, 0, 4})[2].value();
      });
      if constexpr (!std::same_as<T, bool>) {
        check_in_double("scale", eight,
                        [&](const auto& e, const auto& v) { return lod::scale(e, listed(v, list, 6), 3).value(); });
        check_in_double("add", eight, [&](const auto& e, const auto& v) {
          return lod::add(e, listed(v, list, 6), listed(v, list, 6)).value();
        });
        check_in_double("add to dense", eight, [&](const auto& e, const auto& v) {
          const auto g = listed(v, list, 6);
          return lod::add(e, g, lod::to_dense(e, g));
        });
        check_in_double("clip", eight,
                        [&](const auto& e, const auto& v) { return lod::clip(e, listed(v, list, 6), 0, 3).value(); });
      }
    }
  });
}
