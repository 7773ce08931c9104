// SPDX-License-Identifier: Apache-2.0
/// @file
/// Operators of models that predict clicks: cvm and its gradient, shard_index.
#pragma once

#include <lod/core/any_tensor.hpp>
#include <lod/core/error.hpp>
#include <lod/core/executor.hpp>
#include <lod/core/lod_index.hpp>
#include <lod/core/target.hpp>
#include <lod/program/operator.hpp>
#include <lod/program/operators/shapes.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs {

/// cvm: X, CVM -> Y; use_cvm = true. Rows of X begin with how often something was shown, and how often it was clicked;
/// these become log(shows + 1) and log(clicks + 1) - log(shows + 1) or, without use_cvm, are left out. CVM is not used.
template <Executor E>
RunOperator<E> cvm(const OperatorArguments& op) {
  const Slot x = op.input("X"), out = op.output("Y");
  const std::int64_t skipped = op.attr("use_cvm", true) ? 0 : 2;
  return [=](OperatorCall<E>& call) {
    const AnyLoDTensor& from = call.tensor(x);
    const std::int64_t size = from.row_size();
    if (from.row_shape().size() != 1 || size < 2) {
      throw ShapeMismatch(
          detail::text({call.name(x), " of shape ", to_string(from.shape()), ", expected rows of 2 numbers or more"}));
    }
    call.with_floating(x, [&](auto element) {
      using T = typename decltype(element)::type;
      const T* row = call.template view<T>(x).data();
      auto y = call.output_bytes(out, from.data_type(), from.lod(), {size - skipped}, from.rows());
      T* to = y.template elements<T>();
      for (std::int64_t i = 0; i < from.rows(); ++i, row += size, to += size - skipped) {
        std::copy_n(row + skipped, size - skipped, to);
        if (skipped > 0) continue;
        to[0] = std::log(row[0] + 1);
        to[1] = std::log(row[1] + 1) - to[0];
      }
    });
  };
}
/// cvm_grad: X, CVM, Y@GRAD -> X@GRAD; use_cvm = true. As in PaddlePaddle, the first two numbers are those that CVM has
/// for the row, or for the row's sequence of the last level: who owns the embeddings takes them for counts.
template <Executor E>
RunOperator<E> cvm_grad(const OperatorArguments& op) {
  const Slot x = op.input("X"), counts = op.input("CVM"), dy = op.input("Y@GRAD"), dx = op.output("X@GRAD");
  const std::int64_t skipped = op.attr("use_cvm", true) ? 0 : 2;
  return [=](OperatorCall<E>& call) {
    const AnyLoDTensor from = call.tensor(x);
    const std::int64_t size = from.row_size(), rows = from.rows();
    if (from.row_shape().size() != 1 || size < 2) {
      throw ShapeMismatch(
          detail::text({call.name(x), " of shape ", to_string(from.shape()), ", expected rows of 2 numbers or more"}));
    }
    call.with_floating(x, [&](auto element) {
      using T = typename decltype(element)::type;
      const LoD& lod = from.lod();
      const bool has_sequences = lod.levels() > 0;
      const std::int64_t owners = has_sequences ? lod.size(lod.levels() - 1) : rows;
      const T* const given = numbers_of<T>(call, dy, Shape{rows, size - skipped});
      const T* const of_owners = numbers_of<T>(call, counts, Shape{owners, 2});
      auto out = call.output_bytes(dx, from.data_type(), lod, from.row_shape(), rows);
      T* const to = out.template elements<T>();
      for (std::int64_t owner = 0; owner < owners; ++owner) {
        const auto at = static_cast<std::size_t>(owner);
        const std::int64_t begin = has_sequences ? lod.offsets(lod.levels() - 1)[at] : owner;
        const std::int64_t end = has_sequences ? lod.offsets(lod.levels() - 1)[at + 1] : owner + 1;
        for (std::int64_t i = begin; i < end; ++i) {
          std::copy_n(of_owners + 2 * owner, 2, to + i * size);
          std::copy_n(given + i * (size - skipped) + 2 - skipped, size - 2, to + i * size + 2);
        }
      }
    });
  };
}

/// shard_index: X -> Out; index_num, nshards, shard_id, ignore_value = -1: ids from 0 to index_num - 1, of which each
/// shard has index_num / nshards, rounded up: as ids of the shard shard_id, and ignore_value for those of others.
/// Throws OutOfRange for other ids.
template <Executor E>
RunOperator<E> shard_index(const OperatorArguments& op) {
  const Slot x = op.input("X"), out = op.output("Out");
  const std::int64_t ids = op.desc().attr<std::int32_t>("index_num"), shards = op.desc().attr<std::int32_t>("nshards");
  const std::int64_t own = op.desc().attr<std::int32_t>("shard_id");
  const std::int32_t other = op.attr("ignore_value", -1);
  if (ids < 1) op.refuse_attr("index_num", "1 or more");
  if (shards < 1) op.refuse_attr("nshards", "1 or more");
  if (own < 0 || own >= shards) op.refuse_attr("shard_id", "0 or more, and less than nshards");
  const std::int64_t size = (ids + shards - 1) / shards;
  return [=](OperatorCall<E>& call) {
    const AnyLoDTensor& from = call.tensor(x);
    call.with_id(x, [&](auto element) {
      using T = typename decltype(element)::type;
      const auto values = call.template view<T>(x).values();
      for (const T id : values) {
        if (id < 0 || id >= ids) {
          throw OutOfRange(detail::text(
              {call.name(x), " has ", static_cast<std::int64_t>(id), ", expected 0 or more, and less than ", ids}));
        }
      }
      auto y = call.output_bytes(out, from.data_type(), from.lod(), from.row_shape(), from.rows());
      std::transform(values.begin(), values.end(), y.template elements<T>(),
                     [=](T id) { return id / size == own ? static_cast<T>(id % size) : static_cast<T>(other); });
    });
  };
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs
