// SPDX-License-Identifier: Apache-2.0
/// @file
/// Operators that look up rows of tables: lookup_table, lookup_table_v2.
#pragma once

#include <lod/core/executor.hpp>
#include <lod/core/lod_view.hpp>
#include <lod/core/shape.hpp>
#include <lod/core/target.hpp>
#include <lod/ops/embedding.hpp>
#include <lod/program/operator.hpp>
#include <lod/program/operators/shapes.hpp>

#include <cstddef>
#include <cstdint>

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs {

/// lookup_table: W, Ids -> Out; padding_idx = -1. The last dimension of the ids, which is 1, becomes the width of the
/// table; ids without it are taken too. lookup_table_v2 keeps all dimensions of the ids.
template <Executor E, bool drops_last>
RunOperator<E> lookup_table(const OperatorArguments& op) {
  op.expect_attr("is_distributed", false);
  const Slot table = op.input("W"), ids = op.input("Ids"), out = op.output("Out");
  const EmbeddingOptions options{.padding_idx = op.attr<std::int64_t>("padding_idx", -1)};
  return [=](OperatorCall<E>& call) {
    const auto given = call.template view<std::int64_t>(ids);
    const Shape& each = given.row_shape();
    const bool is_dropped = drops_last && !each.empty() && each.back() == 1;
    const Shape row_shape = part(each, 0, each.size() - (is_dropped ? 1 : 0));
    const LoDTensorView<const std::int64_t, Cpu> looked_up(given.data(), given.lod_view(), &row_shape,
                                                           given.row_size());
    call.with_number(table, [&](auto element) {
      using T = typename decltype(element)::type;
      auto rows = call.template output<T>(out);
      embedding_into(call.executor(), call.template view<T>(table), looked_up, options, *rows);
    });
  };
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs
