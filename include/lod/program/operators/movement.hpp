// SPDX-License-Identifier: Apache-2.0
/// @file
/// Operators that move elements of any type: reshape, transpose, slice, gather, assign, shape.
#pragma once

#include <lod/core/any_tensor.hpp>
#include <lod/core/data_type.hpp>
#include <lod/core/error.hpp>
#include <lod/core/executor.hpp>
#include <lod/core/lod_index.hpp>
#include <lod/core/shape.hpp>
#include <lod/core/sizes.hpp>
#include <lod/core/target.hpp>
#include <lod/program/operator.hpp>
#include <lod/program/operators/joining.hpp>
#include <lod/program/operators/shapes.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs {

/// The same elements under the shape f(shape of X). Levels stay if the number of rows does. XShape is written for the
/// gradient.
template <Executor E, class F>
RunOperator<E> reshaped(const OperatorArguments& op, const F& f) {
  const Slot x = op.input("X"), out = op.output("Out"), x_shape = op.optional_output("XShape");
  return [=](OperatorCall<E>& call) {
    const AnyLoDTensor& from = call.tensor(x);
    const Shape shape = f(from.shape());
    std::int64_t count = 1;
    for (const std::int64_t dim : shape) count = detail::saturated_product(count, dim);
    if (count != from.rows() * from.row_size()) {
      throw ShapeMismatch(detail::text({call.name(x), " of shape ", to_string(from.shape()), ", expected the ", count,
                                        " elements of ", to_string(shape)}));
    }
    write_shape(call, x_shape, from);
    auto y = call.output_bytes(out, from.data_type(), shape, from);
    copy_blocks(from.bytes().data(), {}, y.data(), {}, static_cast<std::int64_t>(from.bytes().size()), 1);
  };
}
/// reshape and reshape2: shape, in which 0 means the dimension of X, and -1, once, whatever remains.
template <Executor E>
RunOperator<E> reshape(const OperatorArguments& op) {
  op.expect_no_input("Shape");
  op.expect_no_input("ShapeTensor");
  const auto dims = op.desc().attr<std::vector<std::int64_t>>("shape");
  if (dims.size() > Shape::max_rank) op.refuse_attr("shape", "fewer dimensions");
  if (std::any_of(dims.begin(), dims.end(), [](std::int64_t dim) { return dim < -1; }) ||
      std::count(dims.begin(), dims.end(), -1) > 1) {
    op.refuse_attr("shape", "dimensions of 0 or more, and one -1 at most");
  }
  return reshaped<E>(op, [dims](const Shape& from) {
    std::array<std::int64_t, Shape::max_rank> made{};
    std::int64_t known = 1;
    std::size_t open = dims.size();
    for (std::size_t dim = 0; dim < dims.size(); ++dim) {
      made[dim] = dims[dim] == 0 && dim < from.size() ? from[dim] : dims[dim];
      if (made[dim] == -1) {
        open = dim;
      } else {
        known = detail::saturated_product(known, made[dim]);
      }
    }
    if (open < dims.size()) made[open] = known != 0 ? from.elements() / known : 0;
    return first_of(made, dims.size());
  });
}

/// squeeze and squeeze2: axes = {}: removes these dimensions of 1, or all of them if there are no axes.
template <Executor E>
RunOperator<E> squeeze(const OperatorArguments& op) {
  return reshaped<E>(op, [axes = op.attr("axes", std::vector<std::int64_t>())](const Shape& from) {
    std::array<bool, Shape::max_rank> is_dropped{};
    for (std::size_t dim = 0; axes.empty() && dim < from.size(); ++dim) is_dropped[dim] = from[dim] == 1;
    for (const std::int64_t axis : axes) {
      const std::size_t dim = axis_of(axis, from.size());
      is_dropped[dim] = from[dim] == 1;
    }
    std::array<std::int64_t, Shape::max_rank> made{};
    std::size_t rank = 0;
    for (std::size_t dim = 0; dim < from.size(); ++dim) {
      if (!is_dropped[dim]) made[rank++] = from[dim];
    }
    return first_of(made, rank);
  });
}

/// unsqueeze and unsqueeze2: axes: inserts dimensions of 1 at these places, one after the other.
template <Executor E>
RunOperator<E> unsqueeze(const OperatorArguments& op) {
  op.expect_no_input("AxesTensor");
  op.expect_no_input("AxesTensorList");
  return reshaped<E>(op, [axes = op.desc().attr<std::vector<std::int64_t>>("axes")](Shape shape) {
    for (const std::int64_t axis : axes) {
      const std::size_t place = axis_of(axis, shape.size(), 1);
      shape = part(shape, 0, place).followed_by(Shape(1, part(shape, place, shape.size())));
    }
    return shape;
  });
}

/// flatten and flatten2: axis = 1: a matrix whose rows are the dimensions before the axis.
template <Executor E>
RunOperator<E> flatten(const OperatorArguments& op) {
  return reshaped<E>(op, [axis = op.attr("axis", 1)](const Shape& from) {
    const std::size_t first = axis_of(axis, from.size(), 1);
    return Shape{part(from, 0, first).elements(), part(from, first, from.size()).elements()};
  });
}
/// flatten_contiguous_range: start_axis = 1, stop_axis = 1: joins these dimensions and those between to one.
template <Executor E>
RunOperator<E> flatten_contiguous_range(const OperatorArguments& op) {
  return reshaped<E>(op, [start = op.attr("start_axis", 1), stop = op.attr("stop_axis", 1)](const Shape& from) {
    const std::size_t first = axis_of(start, from.size()), last = axis_of(stop, from.size());
    if (first > last) throw OutOfRange(detail::text({"axes ", start, " to ", stop, ", expected them in order"}));
    return part(from, 0, first)
        .followed_by(Shape(part(from, first, last + 1).elements(), part(from, last + 1, from.size())));
  });
}

/// The elements with the dimensions in another order: dimension `dim` of the result is `axes[dim]` of X. No levels.
template <class E>
void transpose_to(const OperatorCall<E>& call, const Slot& x, const std::vector<std::int64_t>& axes, const Slot& out) {
  const AnyLoDTensor& from = call.tensor(x);
  const Shape shape = from.shape();
  const std::size_t rank = shape.size();
  std::array<bool, Shape::max_rank> is_used{};
  std::array<std::int64_t, Shape::max_rank> made{}, steps{};
  bool is_permutation = axes.size() == rank;
  for (std::size_t dim = 0; is_permutation && dim < rank; ++dim) {
    const std::size_t axis = axis_of(axes[dim], rank);
    is_permutation = !std::exchange(is_used[axis], true);
    made[dim] = shape[axis];
    steps[dim] = part(shape, axis + 1, rank).elements();
  }
  if (!is_permutation) {
    throw ShapeMismatch(
        detail::text({call.name(x), " of shape ", to_string(shape), ", expected as many axes in `axis`, each once"}));
  }
  const auto size = static_cast<std::int64_t>(size_of(from.data_type()));
  const Shape result = first_of(made, rank);
  auto y = call.output_bytes(out, from.data_type(), result, AnyLoDTensor());
  const std::byte* const source = from.bytes().data();
  std::byte* to = y.data();
  if (rank == 0 || result.elements() == 0) {
    copy_blocks(source, {}, to, {}, static_cast<std::int64_t>(from.bytes().size()), 1);
    return;
  }
  std::array<std::int64_t, Shape::max_rank> at{};
  for (std::int64_t done = 0; done < result.elements(); done += result.back()) {
    std::int64_t first = 0;
    for (std::size_t dim = 0; dim + 1 < rank; ++dim) first += at[dim] * steps[dim];
    copy_blocks(source, {first * size, steps[rank - 1] * size}, to, {.step = size}, size, result.back());
    to += result.back() * size;
    for (std::size_t dim = rank - 1; dim-- > 0;) {
      if (++at[dim] < result[dim]) break;
      at[dim] = 0;
    }
  }
}
/// transpose and transpose2: X -> Out, XShape?; axis: a permutation of the dimensions. No levels. Their gradients:
/// Out@GRAD -> X@GRAD, by the same permutation.
template <Executor E, bool is_gradient = false>
RunOperator<E> transpose(const OperatorArguments& op) {
  const Slot x = op.input(is_gradient ? "Out@GRAD" : "X"), out = op.output(is_gradient ? "X@GRAD" : "Out");
  const Slot x_shape = is_gradient ? Slot() : op.optional_output("XShape");
  auto axes = op.desc().attr<std::vector<std::int64_t>>("axis");
  if (is_gradient) {
    const auto given = axes;
    const auto rank = static_cast<std::int64_t>(given.size());
    for (std::int64_t dim = 0; dim < rank; ++dim) {
      const std::int64_t axis = given[static_cast<std::size_t>(dim)];
      if (axis < -rank || axis >= rank) op.refuse_attr("axis", "a permutation of the dimensions");
      axes[static_cast<std::size_t>(axis < 0 ? axis + rank : axis)] = dim;
    }
  }
  return [=](OperatorCall<E>& call) {
    write_shape(call, x_shape, call.tensor(x));
    transpose_to(call, x, axes, out);
  };
}

/// The attributes of `slice`, and the part of a shape that they cut out.
class SlicedAxes {
 public:
  explicit SlicedAxes(const OperatorArguments& op)
      : axes_(op.desc().attr<std::vector<std::int64_t>>("axes")),
        starts_(op.desc().attr<std::vector<std::int64_t>>("starts")),
        ends_(op.desc().attr<std::vector<std::int64_t>>("ends")),
        dropped_(op.attr("decrease_axis", std::vector<std::int64_t>())) {
    for (const char* const input : {"StartsTensor", "EndsTensor", "StartsTensorList", "EndsTensorList"}) {
      op.expect_no_input(input);
    }
    if (starts_.size() != axes_.size() || ends_.size() != axes_.size()) {
      op.refuse_attr("starts", "one for each of the axes");
    }
  }

  /// The part that is cut from a tensor.
  struct Cut {
    Shape lengths;  ///< of the part
    Shape result;   ///< the same without dropped axes
    std::array<std::int64_t, Shape::max_rank> first{};
    bool cuts_rows = false;

    /// Calls f(place, count) for each run of elements; `place` is that of its first element in a tensor of shape
    /// `whole`.
    template <class F>
    void for_each_run(const Shape& whole, const F& f) const {
      if (lengths.elements() == 0) return;
      std::array<std::int64_t, Shape::max_rank> at{};
      for (std::int64_t done = 0; done < lengths.elements(); done += lengths.back()) {
        std::int64_t place = 0;
        for (std::size_t dim = 0; dim < whole.size(); ++dim) place = place * whole[dim] + first[dim] + at[dim];
        f(place, lengths.back());
        for (std::size_t dim = whole.size() - 1; dim-- > 0;) {
          if (++at[dim] < lengths[dim]) break;
          at[dim] = 0;
        }
      }
    }
  };
  template <class E>
  Cut of(const OperatorCall<E>& call, const Slot& x) const {
    const Shape shape = call.tensor(x).shape();
    Cut cut;
    std::array<std::int64_t, Shape::max_rank> lengths{};
    std::array<bool, Shape::max_rank> is_dropped{};
    std::copy(shape.begin(), shape.end(), lengths.begin());
    for (std::size_t i = 0; i < axes_.size(); ++i) {
      const std::size_t dim = axis_of(axes_[i], shape.size());
      const auto place = [&](std::int64_t counted) {
        return std::clamp<std::int64_t>(counted < 0 ? counted + shape[dim] : counted, 0, shape[dim]);
      };
      cut.first[dim] = place(starts_[i]);
      lengths[dim] = std::max<std::int64_t>(place(ends_[i]) - cut.first[dim], 0);
      cut.cuts_rows = cut.cuts_rows || dim == 0;
    }
    for (const std::int64_t axis : dropped_) {
      const std::size_t dim = axis_of(axis, shape.size());
      if (lengths[dim] != 1) {
        throw ShapeMismatch(detail::text({call.name(x), ": ", lengths[dim], " elements along axis ", axis,
                                          ", expected one, since it is in decrease_axis"}));
      }
      is_dropped[dim] = true;
    }
    cut.lengths = first_of(lengths, shape.size());
    for (std::size_t dim = 0; dim < shape.size(); ++dim) {
      if (!is_dropped[dim]) cut.result = cut.result.followed_by({lengths[dim]});
    }
    return cut;
  }

 private:
  std::vector<std::int64_t> axes_, starts_, ends_, dropped_;
};

/// slice: Input -> Out; axes, starts, ends, decrease_axis = {}: negative positions count from the end, and those beyond
/// the end mean the end. Levels stay unless axis 0 is cut.
template <Executor E>
RunOperator<E> slice(const OperatorArguments& op) {
  const Slot x = op.input("Input"), out = op.output("Out");
  return [=, axes = SlicedAxes(op)](OperatorCall<E>& call) {
    const AnyLoDTensor& from = call.tensor(x);
    const auto cut = axes.of(call, x);
    const auto size = static_cast<std::int64_t>(size_of(from.data_type()));
    auto y = call.output_bytes(out, from.data_type(), cut.result, cut.cuts_rows ? AnyLoDTensor() : from);
    std::byte* to = y.data();
    cut.for_each_run(from.shape(), [&](std::int64_t place, std::int64_t count) {
      copy_blocks(from.bytes().data(), {.first = place * size}, to, {}, count * size, 1);
      to += count * size;
    });
  };
}

/// The row numbers in an index. Throws OutOfRange for rows that do not exist.
template <class I, class E>
std::span<const I> row_numbers(const OperatorCall<E>& call, const Slot& index, std::int64_t rows) {
  const auto ids = call.template view<I>(index).values();
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 || ids[i] >= rows) {
      throw OutOfRange(detail::text(
          {call.name(index), ": row ", static_cast<std::int64_t>(ids[i]), " at ", i, ", expected 0 to ", rows - 1}));
    }
  }
  return ids;
}

/// gather: X, Index -> Out; axis = 0: the parts of X along the axis whose numbers are in Index. index_select: the same
/// with dim. No levels.
template <Executor E, bool is_select>
RunOperator<E> gather(const OperatorArguments& op) {
  op.expect_no_input("Axis");
  const Slot x = op.input("X"), index = op.input("Index"), out = op.output("Out");
  const std::int32_t axis = op.attr(is_select ? "dim" : "axis", 0);
  return [=](OperatorCall<E>& call) {
    const AnyLoDTensor& from = call.tensor(x);
    const Shape shape = from.shape();
    const std::size_t along = axis_of(axis, shape.size());
    const Around around(shape, along);
    call.with_id(index, [&](auto element) {
      const auto ids = row_numbers<typename decltype(element)::type>(call, index, around.along);
      const auto count = static_cast<std::int64_t>(ids.size());
      const Shape all = part(shape, 0, along).followed_by(Shape(count, part(shape, along + 1, shape.size())));
      auto y = call.output_bytes(out, from.data_type(), all, AnyLoDTensor());
      const auto size = static_cast<std::int64_t>(size_of(from.data_type())) * around.after;
      for (std::size_t i = 0; i < ids.size(); ++i) {
        copy_blocks(from.bytes().data(), {ids[i] * size, size * around.along}, y.data(),
                    {static_cast<std::int64_t>(i) * size, size * count}, size, around.before);
      }
    });
  };
}

/// assign: X -> Out: a copy, with its levels.
template <Executor E>
RunOperator<E> assign(const OperatorArguments& op) {
  return reshaped<E>(op, [](const Shape& shape) { return shape; });
}

/// shape: Input -> Out: the dimensions, as INT32.
template <Executor E>
RunOperator<E> shape(const OperatorArguments& op) {
  const Slot x = op.input("Input"), out = op.output("Out");
  return [=](OperatorCall<E>& call) {
    const Shape dims = call.tensor(x).shape();
    auto y = call.output_bytes(out, DataType::INT32, LoD(), {}, static_cast<std::int64_t>(dims.size()));
    std::transform(dims.begin(), dims.end(), y.template elements<std::int32_t>(),
                   [](std::int64_t dim) { return static_cast<std::int32_t>(dim); });
  };
}

/// size: Input -> Out: the number of elements, as INT64.
template <Executor E>
RunOperator<E> size(const OperatorArguments& op) {
  const Slot x = op.input("Input"), out = op.output("Out");
  return [=](OperatorCall<E>& call) {
    *call.output_bytes(out, DataType::INT64, LoD(), {}, 1).template elements<std::int64_t>() =
        call.tensor(x).shape().elements();
  };
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs
