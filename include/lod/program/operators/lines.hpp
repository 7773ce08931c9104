// SPDX-License-Identifier: Apache-2.0
/// @file
/// Operators on the lines of a tensor along an axis: argsort, cumsum, maxout, and their gradients.
#pragma once

#include <lod/core/any_tensor.hpp>
#include <lod/core/data_type.hpp>
#include <lod/core/error.hpp>
#include <lod/core/executor.hpp>
#include <lod/core/lod_index.hpp>
#include <lod/core/shape.hpp>
#include <lod/core/target.hpp>
#include <lod/ops/arithmetic.hpp>
#include <lod/program/operator.hpp>
#include <lod/program/operators/shapes.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <type_traits>

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs {

/// argsort: X -> Out, Indices; axis = -1, descending = false: each line sorted, and the place that each number comes
/// from. Equal numbers keep their order. NaN is greater than all others.
template <Executor E>
RunOperator<E> argsort(const OperatorArguments& op) {
  const Slot x = op.input("X"), out = op.output("Out"), indices = op.output("Indices");
  const std::int32_t axis = op.attr("axis", -1);
  const bool is_descending = op.attr("descending", false);
  return [=](OperatorCall<E>& call) {
    const AnyLoDTensor& from = call.tensor(x);
    const Around around(from.shape(), axis_of(axis, from.shape().size()));
    call.with_number(x, [&](auto element) {
      using T = typename decltype(element)::type;
      const T* const values = call.template view<T>(x).data();
      const Workspace::Loan<std::int64_t> order(call.executor().workspace(), around.along);
      auto places = call.output_bytes(indices, DataType::INT64, from.lod(), from.row_shape(), from.rows());
      auto y = call.output_bytes(out, from.data_type(), from.lod(), from.row_shape(), from.rows());
      auto* const chosen = places.template elements<std::int64_t>();
      T* const to = y.template elements<T>();
      for (std::int64_t i = 0; i < around.lines(); ++i) {
        const std::int64_t first = around.first(i);
        const auto at = [&](std::int64_t k) { return values[first + k * around.after]; };
        std::iota(order.data(), order.data() + around.along, std::int64_t{0});
        std::sort(order.data(), order.data() + around.along, [&](std::int64_t a, std::int64_t b) {
          const T p = at(a), q = at(b);
          if (comes_before(p, q)) return !is_descending;
          if (comes_before(q, p)) return is_descending;
          return a < b;
        });
        for (std::int64_t k = 0; k < around.along; ++k) {
          chosen[first + k * around.after] = order[k];
          to[first + k * around.after] = at(order[k]);
        }
      }
    });
  };
}
/// argsort_grad: X, Indices, Out@GRAD -> X@GRAD; axis = -1.
template <Executor E>
RunOperator<E> argsort_grad(const OperatorArguments& op) {
  const Slot x = op.input("X"), indices = op.input("Indices"), dy = op.input("Out@GRAD"), dx = op.output("X@GRAD");
  const std::int32_t axis = op.attr("axis", -1);
  return [=](OperatorCall<E>& call) {
    const AnyLoDTensor& from = call.tensor(x);
    const Around around(from.shape(), axis_of(axis, from.shape().size()));
    call.with_floating(x, [&](auto element) {
      using T = typename decltype(element)::type;
      const T* const given = numbers_of<T>(call, dy, from.shape());
      const auto* const chosen = numbers_of<std::int64_t>(call, indices, from.shape());
      for (std::int64_t i = 0; i < from.rows() * from.row_size(); ++i) {
        if (chosen[i] < 0 || chosen[i] >= around.along) {
          throw OutOfRange(
              detail::text({call.name(indices), ": ", chosen[i], " at ", i, ", expected 0 to ", around.along - 1}));
        }
      }
      write_added<T>(call, dx, from, [&](T* to) {
        for (std::int64_t i = 0; i < around.lines(); ++i) {
          const std::int64_t first = around.first(i);
          for (std::int64_t k = 0; k < around.along; ++k) {
            const std::int64_t place = first + k * around.after;
            to[first + chosen[place] * around.after] += given[place];
          }
        }
      });
    });
  };
}

/// cumsum: X -> Out; axis = -1, exclusive = false, reverse = false, flatten = false: the running sums of each line,
/// without the number itself if exclusive, from the end if reverse; of all numbers as one line if flatten. cumsum_grad:
/// X, Out@GRAD -> X@GRAD, from the other end.
template <Executor E, bool is_gradient = false>
RunOperator<E> cumsum(const OperatorArguments& op) {
  const Slot like = op.input("X"), x = is_gradient ? op.input("Out@GRAD") : like;
  const Slot out = op.output(is_gradient ? "X@GRAD" : "Out");
  const std::int32_t axis = op.attr("axis", -1);
  const bool is_flat = op.attr("flatten", false), is_exclusive = op.attr("exclusive", false);
  const bool is_reversed = op.attr("reverse", false) != is_gradient;
  return [=](OperatorCall<E>& call) {
    const AnyLoDTensor from = call.tensor(like);
    const std::int64_t count = from.rows() * from.row_size();
    const Shape shape = is_flat ? Shape{count} : from.shape();
    const Around around(shape, is_flat ? 0 : axis_of(axis, shape.size()));
    call.with_number(x, [&](auto element) {
      using T = typename decltype(element)::type;
      using Sum = std::conditional_t<std::is_floating_point_v<T>, double, T>;
      const T* const values = some_numbers<T>(call, x, count);
      auto y = call.output_bytes(out, data_type_v<T>, is_gradient ? from.shape() : shape, from);
      T* const to = y.template elements<T>();
      for (std::int64_t i = 0; i < around.lines(); ++i) {
        Sum sum = is_exclusive ? Sum{0} : -Sum{0};  // so that sums of -0 are -0
        for (std::int64_t k = 0; k < around.along; ++k) {
          const std::int64_t place = around.first(i) + (is_reversed ? around.along - 1 - k : k) * around.after;
          const Sum next = kernel::Add()(sum, static_cast<Sum>(values[place]));
          to[place] = static_cast<T>(is_exclusive ? sum : next);
          sum = next;
        }
      }
    });
  };
}

/// The groups of channels of maxout: groups; axis = 1, that of the channels.
class ChannelGroups {
 public:
  explicit ChannelGroups(const OperatorArguments& op) : size_(op.attr("groups", 0)), axis_(op.attr("axis", 1)) {
    if (size_ < 1) op.refuse_attr("groups", "1 or more");
  }
  /// The number of channels in a group.
  std::int64_t size() const noexcept { return size_; }
  /// The shape of the results: as many channels as there are groups. Throws ShapeMismatch unless the channels divide
  /// into groups.
  template <class E>
  Shape result(const OperatorCall<E>& call, const Slot& x) const {
    const Shape shape = call.tensor(x).shape();
    const std::size_t axis = axis_of(axis_, shape.size());
    if (shape[axis] % size_ != 0) {
      throw ShapeMismatch(detail::text({call.name(x), " of shape ", to_string(shape), ", expected a multiple of ",
                                        size_, " channels along axis ", axis_}));
    }
    return part(shape, 0, axis).followed_by(Shape(shape[axis] / size_, part(shape, axis + 1, shape.size())));
  }
  /// The place of the number of a group's first channel for place i of the results; those of the others are `step`
  /// apart.
  std::int64_t first(std::int64_t i, std::int64_t step) const noexcept { return i / step * step * size_ + i % step; }
  /// The distance from one channel to the next.
  std::int64_t step(const Shape& shape) const {
    return part(shape, axis_of(axis_, shape.size()) + 1, shape.size()).elements();
  }

 private:
  std::int32_t size_, axis_;
};
/// maxout: X -> Out: the greatest number of each group of channels, at each place, or NaN if there is one; attributes
/// as ChannelGroups.
template <Executor E>
RunOperator<E> maxout(const OperatorArguments& op) {
  const Slot x = op.input("X"), out = op.output("Out");
  return [=, groups = ChannelGroups(op)](OperatorCall<E>& call) {
    const AnyLoDTensor& from = call.tensor(x);
    const Shape shape = groups.result(call, x);
    const std::int64_t step = groups.step(shape);
    call.with_floating(x, [&](auto element) {
      using T = typename decltype(element)::type;
      const T* const values = call.template view<T>(x).data();
      auto y = call.output_bytes(out, from.data_type(), shape, from);
      for (std::int64_t i = 0; i < shape.elements(); ++i) {
        const std::int64_t first = groups.first(i, step);
        T greatest = values[first];
        for (std::int64_t k = 1; k < groups.size(); ++k) {
          const T value = values[first + k * step];
          if (comes_before(greatest, value)) greatest = value;
        }
        y.template elements<T>()[i] = greatest;
      }
    });
  };
}
/// maxout_grad: X, Out, Out@GRAD -> X@GRAD: to the first number that is the greatest.
template <Executor E>
RunOperator<E> maxout_grad(const OperatorArguments& op) {
  const Slot x = op.input("X"), out = op.input("Out"), dy = op.input("Out@GRAD"), dx = op.output("X@GRAD");
  return [=, groups = ChannelGroups(op)](OperatorCall<E>& call) {
    const AnyLoDTensor& from = call.tensor(x);
    const Shape shape = groups.result(call, x);
    const std::int64_t step = groups.step(shape);
    call.with_floating(x, [&](auto element) {
      using T = typename decltype(element)::type;
      const T* const values = call.template view<T>(x).data();
      const T *const greatest = numbers_of<T>(call, out, shape), *const given = numbers_of<T>(call, dy, shape);
      write_added<T>(call, dx, from, [&](T* to) {
        for (std::int64_t i = 0; i < shape.elements(); ++i) {
          const std::int64_t first = groups.first(i, step);
          for (std::int64_t k = 0; k < groups.size(); ++k) {
            const T value = values[first + k * step];
            if (comes_before(value, greatest[i]) || comes_before(greatest[i], value)) continue;
            to[first + k * step] = given[i];
            break;
          }
        }
      });
    });
  };
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs
