// SPDX-License-Identifier: Apache-2.0
/// @file
/// Operators that join tensors of any type along an axis, or take them apart: concat, split, stack, unstack,
/// tensor_array_to_tensor, and the gradients of those that join.
#pragma once

#include <lod/core/any_tensor.hpp>
#include <lod/core/data_type.hpp>
#include <lod/core/error.hpp>
#include <lod/core/executor.hpp>
#include <lod/core/lod_index.hpp>
#include <lod/core/shape.hpp>
#include <lod/core/target.hpp>
#include <lod/program/operator.hpp>
#include <lod/program/operators/shapes.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs {

/// Blocks of bytes in memory: where the first one is, and how far apart they are.
struct Blocks {
  std::int64_t first = 0;
  std::int64_t step = 0;
};
/// Copies `count` blocks of `bytes` bytes. Without any, the pointers may be null.
inline void copy_blocks(const std::byte* from, const Blocks& from_blocks, std::byte* to, const Blocks& to_blocks,
                        std::int64_t bytes, std::int64_t count) {
  if (bytes == 0) return;
  for (std::int64_t i = 0; i < count; ++i) {
    std::memcpy(to + to_blocks.first + i * to_blocks.step, from + from_blocks.first + i * from_blocks.step,
                static_cast<std::size_t>(bytes));
  }
}

/// The tensors of a parameter's arguments.
template <class E>
struct ArgumentTensors {
  const OperatorCall<E>& call;
  Slot slot;

  std::size_t size() const noexcept { return slot.size; }
  const AnyLoDTensor& operator[](std::size_t i) const { return call.tensor(slot, i); }
  std::string name(std::size_t i) const { return call.name(slot, i); }
};
/// The tensors of an array.
template <class E>
struct ArrayTensors {
  const OperatorCall<E>& call;
  Slot slot;
  const std::vector<AnyLoDTensor>& array = call.variable(slot).template get<std::vector<AnyLoDTensor>>();

  std::size_t size() const noexcept { return array.size(); }
  const AnyLoDTensor& operator[](std::size_t i) const { return array[i]; }
  std::string name(std::size_t i) const { return detail::text({"tensor ", i, " of ", call.name(slot)}); }
};

/// Tensors side by side along an axis, or, stacked, along a new one.
template <class Tensors>
class Joined {
 public:
  /// Throws ShapeMismatch if there is none, and if they do not fit.
  Joined(const Tensors& tensors, std::int32_t axis, bool is_stacked) : tensors_(tensors), is_stacked_(is_stacked) {
    if (tensors.size() == 0) throw ShapeMismatch("no tensor to join, expected one or more");
    const AnyLoDTensor& first = tensors[0];
    const Shape shape = first.shape();
    axis_ = axis_of(axis, shape.size(), is_stacked ? 1 : 0);
    std::int64_t length = 0;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const Shape found = tensors[i].shape();
      bool fits = tensors[i].data_type() == first.data_type() && found.size() == shape.size();
      for (std::size_t dim = 0; fits && dim < shape.size(); ++dim) {
        fits = (dim == axis_ && !is_stacked) || found[dim] == shape[dim];
      }
      if (!fits) {
        throw ShapeMismatch(
            detail::text({tensors.name(i), ": ", to_string(tensors[i].data_type()), " of shape ", to_string(found),
                          ", expected ", to_string(first.data_type()), " of shape ", to_string(shape),
                          is_stacked ? std::string() : detail::text({" in all dimensions but ", axis_})}));
      }
      length += length_of(i);
    }
    const Shape before = part(shape, 0, axis_), after = part(shape, axis_ + (is_stacked ? 0 : 1), shape.size());
    shape_ = before.followed_by(Shape(length, after));
    count_ = before.elements();
    bytes_ = static_cast<std::int64_t>(size_of(first.data_type())) * after.elements();
  }

  /// Of all of them together.
  const Shape& shape() const noexcept { return shape_; }
  DataType data_type() const { return tensors_[0].data_type(); }
  /// The length of tensor i along the axis.
  std::int64_t length_of(std::size_t i) const { return is_stacked_ ? 1 : tensors_[i].shape()[axis_]; }

  /// Copies them into one.
  void copy_to(std::byte* all) const {
    for_each([&](std::size_t i, std::int64_t bytes, const Blocks& place) {
      copy_blocks(tensors_[i].bytes().data(), {.step = bytes}, all, place, bytes, count_);
    });
  }
  /// Copies one into parts of their structures: made(i, tensor i) gives the memory of each, null if it is not wanted.
  template <class F>
  void copy_from(const std::byte* all, const F& made) const {
    for_each([&](std::size_t i, std::int64_t bytes, const Blocks& place) {
      made(i, [&](std::byte* to) { copy_blocks(all, place, to, {.step = bytes}, bytes, count_); });
    });
  }

 private:
  template <class F>
  void for_each(const F& f) const {
    std::int64_t at = 0;
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      const std::int64_t bytes = bytes_ * length_of(i);
      f(i, bytes, Blocks{at, bytes_ * shape_[axis_]});
      at += bytes;
    }
  }

  const Tensors& tensors_;
  bool is_stacked_;
  std::size_t axis_ = 0;
  Shape shape_;
  std::int64_t count_ = 0;
  std::int64_t bytes_ = 0;
};

/// concat: X... -> Out; axis = 0. Levels as the first X, if it has as many rows as Out. stack: X... -> Y; axis = 0:
/// along a new dimension, without levels. unstack_grad: Y@GRAD... -> X@GRAD, as stack.
template <Executor E, bool is_stack, bool is_gradient = false>
RunOperator<E> join(const OperatorArguments& op) {
  op.expect_no_input("AxisTensor");
  const char* const to = is_stack ? "Y" : "Out";
  const Slot x = op.inputs(is_gradient ? "Y@GRAD" : "X"), out = op.output(is_gradient ? "X@GRAD" : to);
  if (!x) op.refuse({"input 'X' has no argument, expected one or more"});
  const std::int32_t axis = op.attr("axis", 0);
  return [=](OperatorCall<E>& call) {
    const ArgumentTensors<E> tensors{call, x};
    const Joined all(tensors, axis, is_stack);
    auto y = call.output_bytes(out, all.data_type(), all.shape(), is_stack ? AnyLoDTensor() : tensors[0]);
    all.copy_to(y.data());
  };
}

/// Throws ShapeMismatch unless a gradient is as the tensors together.
template <class E, class Tensors>
const AnyLoDTensor& gradient_of(const OperatorCall<E>& call, const Slot& dy, const Joined<Tensors>& all) {
  const AnyLoDTensor& from = call.tensor(dy);
  if (from.data_type() != all.data_type() || from.shape() != all.shape()) {
    throw ShapeMismatch(
        detail::text({call.name(dy), ": ", to_string(from.data_type()), " of shape ", to_string(from.shape()),
                      ", expected that of all X, ", to_string(all.data_type()), " of shape ", to_string(all.shape())}));
  }
  return from;
}
/// concat_grad: X..., Out@GRAD -> X@GRAD...; axis = 0: each part that is wanted, with the levels of its X. stack_grad:
/// the same from Y@GRAD.
template <Executor E, bool is_stack>
RunOperator<E> concat_grad(const OperatorArguments& op) {
  op.expect_no_input("AxisTensor");
  const Slot x = op.inputs("X"), dy = op.input(is_stack ? "Y@GRAD" : "Out@GRAD"), dx = op.outputs("X@GRAD");
  if (dx.size != x.size || !x) op.refuse({dx.size, " outputs, expected ", x.size, ", one for each X"});
  const std::int32_t axis = op.attr("axis", 0);
  return [=](OperatorCall<E>& call) {
    const ArgumentTensors<E> tensors{call, x};
    const Joined all(tensors, axis, is_stack);
    const AnyLoDTensor from = gradient_of(call, dy, all);
    all.copy_from(from.bytes().data(), [&](std::size_t i, const auto& copy_to) {
      if (!call.has(dx, i)) return;
      const AnyLoDTensor one = tensors[i];
      copy_to(call.output_bytes(dx, one.data_type(), one.lod(), one.row_shape(), one.rows(), i).data());
    });
  };
}

/// tensor_array_to_tensor: X, an array -> Out, OutIndex?; axis = 0, use_stack = false: its tensors joined as by concat
/// or stack, and the length of each along the axis (INT32).
template <Executor E>
RunOperator<E> tensor_array_to_tensor(const OperatorArguments& op) {
  const Slot x = op.input("X"), out = op.output("Out"), lengths = op.optional_output("OutIndex");
  const std::int32_t axis = op.attr("axis", 0);
  const bool is_stack = op.attr("use_stack", false);
  return [=](OperatorCall<E>& call) {
    const ArrayTensors<E> tensors{call, x};
    const Joined all(tensors, axis, is_stack);
    const auto write = [&](std::int32_t* found) {
      auto y = call.output_bytes(out, all.data_type(), all.shape(), is_stack ? AnyLoDTensor() : tensors[0]);
      all.copy_to(y.data());
      for (std::size_t i = 0; found && i < tensors.size(); ++i) found[i] = static_cast<std::int32_t>(all.length_of(i));
    };
    if (!lengths) return write(nullptr);
    auto found = call.output_bytes(lengths, DataType::INT32, LoD(), {}, static_cast<std::int64_t>(tensors.size()));
    write(found.template elements<std::int32_t>());
  };
}
/// tensor_array_to_tensor_grad: X, Out@GRAD -> X@GRAD, an array of parts with the levels of the tensors of X.
template <Executor E>
RunOperator<E> tensor_array_to_tensor_grad(const OperatorArguments& op) {
  const Slot x = op.input("X"), dy = op.input("Out@GRAD"), dx = op.output("X@GRAD");
  const std::int32_t axis = op.attr("axis", 0);
  const bool is_stack = op.attr("use_stack", false);
  return [=, written = std::vector<AnyLoDTensor>()](OperatorCall<E>& call) mutable {
    const ArrayTensors<E> tensors{call, x};
    const Joined all(tensors, axis, is_stack);
    const AnyLoDTensor& from = gradient_of(call, dy, all);
    auto& array = call.variable(dx).template get<std::vector<AnyLoDTensor>>();
    array.clear();  // so that the memory of the tensors written before is free again
    written.resize(tensors.size());
    all.copy_from(from.bytes().data(), [&](std::size_t i, const auto& copy_to) {
      const AnyLoDTensor& like = tensors[i];
      AnyLoDTensor& one = written[i];
      one = one.resized(like.data_type(), like.lod(), like.row_shape(), like.rows(), call.executor().resource());
      copy_to(one.mutable_bytes().data());
    });
    array = written;
  };
}

/// split: X -> Out...; sections = {}, num = 0, axis = 0: parts of these sizes, one of which may be -1, or `num` equal
/// parts. Parts that have all rows keep the levels.
template <Executor E>
RunOperator<E> split(const OperatorArguments& op) {
  op.expect_no_input("AxisTensor");
  op.expect_no_input("SectionsTensorList");
  const Slot x = op.input("X"), out = op.outputs("Out");
  const std::int32_t axis = op.attr("axis", 0), parts = op.attr("num", 0);
  const std::vector<std::int64_t> sections = op.attr("sections", std::vector<std::int64_t>());
  const std::size_t count = parts > 0 ? static_cast<std::size_t>(parts) : sections.size();
  if (count != out.size || count == 0) op.refuse({out.size, " outputs, expected ", count});
  return [=](OperatorCall<E>& call) {
    const AnyLoDTensor from = call.tensor(x);  // kept, since the first part may be the next value of X
    const Shape shape = from.shape();
    const std::size_t along = axis_of(axis, shape.size());
    const Around around(shape, along);
    std::int64_t known = 0;
    for (std::size_t i = 0; parts <= 0 && i < count; ++i) known += std::max<std::int64_t>(sections[i], 0);
    const auto length = [&](std::size_t i) {
      if (parts > 0) return around.along / parts;
      return sections[i] >= 0 ? sections[i] : around.along - known;
    };
    std::int64_t total = 0;
    for (std::size_t i = 0; i < count; ++i) total += std::max<std::int64_t>(length(i), 0);
    if (total != around.along || (parts > 0 && around.along % parts != 0)) {
      throw ShapeMismatch(detail::text({call.name(x), " of shape ", to_string(shape), ", expected ", total,
                                        " elements along axis ", axis, parts > 0 ? ", or a multiple" : ""}));
    }
    const std::int64_t size = static_cast<std::int64_t>(size_of(from.data_type())) * around.after;
    std::int64_t at = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const Shape each = part(shape, 0, along).followed_by(Shape(length(i), part(shape, along + 1, shape.size())));
      auto one = call.output_bytes(out, from.data_type(), each, along == 0 ? AnyLoDTensor() : from, i);
      const std::int64_t bytes = size * length(i);
      copy_blocks(from.bytes().data(), {at, size * around.along}, one.data(), {.step = bytes}, bytes, around.before);
      at += bytes;
    }
  };
}

/// unstack: X -> Y...; axis = 0: the parts along a dimension, without it. unbind: X -> Out... They have no levels.
template <Executor E, bool is_unbind>
RunOperator<E> unstack(const OperatorArguments& op) {
  const Slot x = op.input("X"), out = op.outputs(is_unbind ? "Out" : "Y");
  const std::int32_t axis = op.attr("axis", 0);
  return [=](OperatorCall<E>& call) {
    const AnyLoDTensor from = call.tensor(x);  // kept, since a part may be the next value of X
    const Shape shape = from.shape();
    const std::size_t along = axis_of(axis, shape.size());
    const Around around(shape, along);
    if (around.along != static_cast<std::int64_t>(out.size)) {
      throw ShapeMismatch(detail::text({call.name(x), " of shape ", to_string(shape), ", expected ", out.size,
                                        " elements along axis ", axis, ", one for each output"}));
    }
    const Shape each = part(shape, 0, along).followed_by(part(shape, along + 1, shape.size()));
    const std::int64_t bytes = static_cast<std::int64_t>(size_of(from.data_type())) * around.after;
    for (std::size_t i = 0; i < out.size; ++i) {
      auto one = call.output_bytes(out, from.data_type(), each, AnyLoDTensor(), i);
      copy_blocks(from.bytes().data(), {static_cast<std::int64_t>(i) * bytes, bytes * around.along}, one.data(),
                  {.step = bytes}, bytes, around.before);
    }
  };
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs
