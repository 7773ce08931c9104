// SPDX-License-Identifier: Apache-2.0
/// @file
/// Operators that look up rows of tables: lookup_table, lookup_table_v2, and their gradients.
#pragma once

#include <lod/core/any_tensor.hpp>
#include <lod/core/desc.hpp>
#include <lod/core/executor.hpp>
#include <lod/core/lod_view.hpp>
#include <lod/core/selected_rows.hpp>
#include <lod/core/shape.hpp>
#include <lod/core/target.hpp>
#include <lod/ops/embedding.hpp>
#include <lod/ops/merge_rows.hpp>
#include <lod/program/operator.hpp>
#include <lod/program/operators/row_sparse.hpp>
#include <lod/program/operators/shapes.hpp>
#include <lod/program/variable.hpp>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory_resource>
#include <optional>
#include <utility>

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs {

/// The ids as they are looked up: without a last dimension of 1 if the operator drops it.
template <bool drops_last, class E>
class LookedUp {
  using Device = typename E::device;

 public:
  /// Throws ShapeMismatch for ids of other types than INT32 and INT64.
  LookedUp(const OperatorCall<E>& call, const Slot& slot) : row_shape_(without_last(call.tensor(slot).row_shape())) {
    call.with_id(slot, [&](auto element) {
      using Id = typename decltype(element)::type;
      const auto ids = call.template view<Id>(slot);
      ids_.emplace(LoDTensorView<const Id, Device>(ids.data(), ids.lod_view(), &row_shape_, ids.row_size()));
    });
  }
  LookedUp(const LookedUp&) = delete;
  LookedUp& operator=(const LookedUp&) = delete;
  ~LookedUp() = default;

  const operation::Ids::Given<Device>& operator*() const noexcept { return *ids_; }

 private:
  static Shape without_last(const Shape& each) {
    const bool is_dropped = drops_last && !each.empty() && each.back() == 1;
    return part(each, 0, each.size() - (is_dropped ? 1 : 0));
  }

  Shape row_shape_;
  std::optional<operation::Ids::Given<Device>> ids_;
};

/// The options of the operators below: padding_idx = -1.
inline EmbeddingOptions embedding_options(const OperatorArguments& op) {
  op.expect_attr("is_distributed", false);
  return {.padding_idx = op.attr<std::int64_t>("padding_idx", -1)};
}

/// lookup_table: W, Ids -> Out; padding_idx = -1. The last dimension of the ids, which is 1, becomes the width of the
/// table; ids without it are taken too. lookup_table_v2 keeps all dimensions of the ids.
template <Executor E, bool drops_last>
RunOperator<E> lookup_table(const OperatorArguments& op) {
  const Slot table = op.input("W"), ids = op.input("Ids"), out = op.output("Out");
  const EmbeddingOptions options = embedding_options(op);
  return [=](OperatorCall<E>& call) {
    const LookedUp<drops_last, E> looked_up(call, ids);
    call.with_number(table, [&](auto element) {
      using T = typename decltype(element)::type;
      auto rows = call.template output<T>(out);
      embedding_into(call.executor(), call.template view<T>(table), *looked_up, options, *rows);
    });
  };
}

/// lookup_table_grad: W, Ids, Out@GRAD -> W@GRAD; padding_idx = -1, is_sparse = false. With is_sparse, W@GRAD is
/// row-sparse: a row for each id that is not padding, in their order. Of W only the shape is used.
///
/// (PaddlePaddle 2.6.2's row-sparse gradient also has rows for the padding, so that training changes a row that is
/// never read. Its dense gradient has none.)
template <Executor E, bool drops_last>
RunOperator<E> lookup_table_grad(const OperatorArguments& op) {
  const Slot table = op.input("W"), ids = op.input("Ids"), dy = op.input("Out@GRAD"), out = op.output("W@GRAD");
  const EmbeddingOptions options = embedding_options(op);
  const bool is_sparse = op.attr("is_sparse", false);
  return [=, kept = Variable(VarType::SELECTED_ROWS)](OperatorCall<E>& call) mutable {
    const LookedUp<drops_last, E> looked_up(call, ids);
    call.with_floating(dy, [&](auto element) {
      using T = typename decltype(element)::type;
      const E& executor = call.executor();
      OutputRows<T, typename E::device> rows(is_sparse ? call.variable(out) : kept, executor.resource());
      embedding_grad_into(executor, call.template view<T>(dy), *looked_up, call.tensor(table).rows(), options, *rows);
      if (is_sparse) return;
      auto dense = call.template output<T>(out);
      to_dense_into(executor, *rows, *dense);
    });
  };
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs
