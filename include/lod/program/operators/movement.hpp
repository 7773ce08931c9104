// SPDX-License-Identifier: Apache-2.0
/// @file
/// Operators that move elements of any type: concat.
#pragma once

#include <lod/core/any_tensor.hpp>
#include <lod/core/data_type.hpp>
#include <lod/core/error.hpp>
#include <lod/core/executor.hpp>
#include <lod/core/shape.hpp>
#include <lod/core/target.hpp>
#include <lod/program/operator.hpp>
#include <lod/program/operators/shapes.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs {

/// Copies `count` blocks of so many bytes, which are so far apart.
inline void copy_blocks(const std::byte* from, std::int64_t from_step, std::byte* to, std::int64_t to_step,
                        std::int64_t bytes, std::int64_t count) {
  if (bytes == 0) return;
  for (std::int64_t i = 0; i < count; ++i) {
    std::memcpy(to + i * to_step, from + i * from_step, static_cast<std::size_t>(bytes));
  }
}

/// concat: X... -> Out; axis = 0. Levels as the first, where it has as many rows.
template <Executor E>
RunOperator<E> concat(const OperatorArguments& op) {
  op.expect_no_input("AxisTensor");
  const Slot x = op.inputs("X"), out = op.output("Out");
  if (!x) op.refuse({"input 'X' has no argument, expected one or more"});
  const std::int32_t axis = op.attr("axis", 0);
  return [=](OperatorCall<E>& call) {
    const AnyLoDTensor& first = call.tensor(x);
    const Shape shape = first.shape();
    const std::size_t along = axis_of(axis, shape.size());
    std::int64_t length = 0;
    for (std::size_t i = 0; i < x.size; ++i) {
      const AnyLoDTensor& one = call.tensor(x, i);
      const Shape found = one.shape();
      bool fits = one.data_type() == first.data_type() && found.size() == shape.size();
      for (std::size_t dim = 0; fits && dim < shape.size(); ++dim) fits = dim == along || found[dim] == shape[dim];
      if (!fits) {
        throw ShapeMismatch(detail::text({call.name(x, i), ": ", to_string(one.data_type()), " of shape ",
                                          to_string(found), ", expected ", to_string(first.data_type()), " of shape ",
                                          to_string(shape), " in all dimensions but ", along}));
      }
      length += found[along];
    }
    const Around around(shape, along);
    const std::int64_t size = static_cast<std::int64_t>(size_of(first.data_type())) * around.after;
    const Shape all = part(shape, 0, along).followed_by(Shape(length, part(shape, along + 1, shape.size())));
    auto joined = call.output_bytes(out, first.data_type(), all, first);
    std::byte* to = joined.data();
    for (std::size_t i = 0; i < x.size; ++i) {
      const AnyLoDTensor& one = call.tensor(x, i);
      const std::int64_t bytes = size * one.shape()[along];
      copy_blocks(one.bytes().data(), bytes, to, size * length, bytes, around.before);
      to += bytes;
    }
  };
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs
