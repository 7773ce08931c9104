// SPDX-License-Identifier: Apache-2.0
/// @file
/// What operators on dense tensors share: axes, parts of shapes, tensors under another shape, and types of outputs.
#pragma once

#include <lod/core/any_tensor.hpp>
#include <lod/core/data_type.hpp>
#include <lod/core/error.hpp>
#include <lod/core/executor.hpp>
#include <lod/core/lod_index.hpp>
#include <lod/core/lod_view.hpp>
#include <lod/core/shape.hpp>
#include <lod/core/target.hpp>
#include <lod/ops/rearrange.hpp>
#include <lod/program/operator.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs {

/// Copies a tensor's values to another tensor, reusing its memory.
inline void copy_value(const AnyLoDTensor& from, AnyLoDTensor& to, std::pmr::memory_resource* resource) {
  to = to.resized(from.data_type(), from.lod(), from.row_shape(), from.rows(), resource);
  std::copy_n(from.bytes().data(), from.bytes().size(), to.mutable_bytes().data());
}

/// The dimensions [begin, end) of a shape.
inline Shape part(const Shape& shape, std::size_t begin, std::size_t end) {
  return Shape(std::span<const std::int64_t>(shape.data() + begin, end - begin));
}
/// The shape of the first `rank` of these dimensions.
inline Shape first_of(const std::array<std::int64_t, Shape::max_rank>& dims, std::size_t rank) {
  return Shape(std::span<const std::int64_t>(dims.data(), rank));
}
/// An axis of a shape of rank `rank`; negative ones count from the end. `beyond` is 1 if the end itself counts as an
/// axis.
inline std::size_t axis_of(std::int64_t axis, std::size_t rank, std::int64_t beyond = 0) {
  const std::int64_t size = static_cast<std::int64_t>(rank) + beyond, counted = axis < 0 ? axis + size : axis;
  if (counted < 0 || counted >= size) {
    throw OutOfRange(detail::text({"axis ", axis, ", expected ", -size, " to ", size - 1}));
  }
  return static_cast<std::size_t>(counted);
}

/// The same for operators that work only along the last axis. Throws OutOfRange for any other.
inline std::size_t last_axis(std::int64_t axis, std::size_t rank) {
  const std::size_t found = axis_of(axis, rank);
  if (found + 1 != rank) throw OutOfRange(detail::text({"axis ", axis, ", expected the last"}));
  return found;
}

/// Whether a comes before b in ascending order: NaN after all others.
template <class T>
bool comes_before(T a, T b) {
  return a < b || (b != b && a == a);
}

/// A shape around an axis: elements before it, along it, and after it.
struct Around {
  std::int64_t before;
  std::int64_t along;
  std::int64_t after;

  Around(const Shape& shape, std::size_t axis)
      : before(part(shape, 0, axis).elements()),
        along(shape[axis]),
        after(part(shape, axis + 1, shape.size()).elements()) {}
  /// The lines along the axis: before * after, but none if they have no elements, however many there would be.
  LOD_HOST_DEVICE std::int64_t lines() const noexcept { return along > 0 ? before * after : 0; }
  /// The parts before the axis: none if they have no elements.
  LOD_HOST_DEVICE std::int64_t parts() const noexcept { return along > 0 && after > 0 ? before : 0; }
  /// The place of the first element of line i along the axis.
  LOD_HOST_DEVICE std::int64_t first(std::int64_t i) const noexcept { return i / after * along * after + i % after; }
};

/// The same numbers as rows of another shape, without levels. `row_shape` must outlive the view.
template <class T, class Device>
LoDTensorView<const T, Device> with_rows(const LoDTensorView<const T, Device>& x, std::int64_t rows,
                                         const Shape& row_shape) {
  return {x.data(), LoDView::plain(0, rows), &row_shape, row_shape.elements()};
}

/// The numbers of a tensor, which must have this shape.
template <class T, class E>
const T* numbers_of(const OperatorCall<E>& call, const Slot& slot, const Shape& expected, std::size_t i = 0) {
  const auto found = call.template view<T>(slot, i);
  if (found.shape() != expected) {
    throw ShapeMismatch(
        detail::text({call.name(slot, i), " of shape ", to_string(found.shape()), ", expected ", to_string(expected)}));
  }
  return found.data();
}

/// The same for a tensor of `count` numbers, whatever its shape.
template <class T, class E>
const T* some_numbers(const OperatorCall<E>& call, const Slot& slot, std::int64_t count) {
  const auto found = call.template view<T>(slot);
  if (found.rows() * found.row_size() != count) {
    throw ShapeMismatch(
        detail::text({call.name(slot), " of shape ", to_string(found.shape()), ", expected ", count, " numbers"}));
  }
  return found.data();
}
/// The single number in a tensor in CPU memory.
template <class T, class E>
T only_number(const OperatorCall<E>& call, const Slot& slot) {
  return *some_numbers<T>(call.on_cpu(), slot, 1);
}

/// Writes XShape, which tells a gradient the shape of X: a tensor without elements whose shape is a 0 followed by that
/// of X.
template <class E>
void write_shape(const OperatorCall<E>& call, const Slot& x_shape, const typename OperatorCall<E>::Any& x) {
  if (x_shape) static_cast<void>(call.output_bytes(x_shape, x.data_type(), LoD(), x.shape(), 0));
}

/// a combined with f(0) to f(count - 1) by `add`, for which `nothing` changes nothing. There are eight partial results,
/// so that no addition waits for the one before it.
template <class A, class Add, class F>
A folded(A a, A nothing, const Add& add, std::int64_t count, const F& f) {
  constexpr std::int64_t lanes = 8;
  std::int64_t i = 0;
  if (count >= 2 * lanes) {
    A partial[lanes];
    std::fill_n(partial, lanes, nothing);
    for (; i + lanes <= count; i += lanes) {
      for (std::int64_t lane = 0; lane < lanes; ++lane) partial[lane] = add(partial[lane], f(i + lane));
    }
    for (const A& one : partial) a = add(a, one);
  }
  for (; i < count; ++i) a = add(a, f(i));
  return a;
}

/// Writes an output with the structure of `like` whose numbers are sums: add(sums) adds to sums that begin at 0.
template <class T, class E, class F>
void write_sums(const OperatorCall<E>& call, const Slot& slot, const AnyLoDTensor& like, const F& add) {
  const std::int64_t count = like.rows() * like.row_size();
  const Workspace::Loan<double> sums(call.executor().workspace(), count);
  std::fill_n(sums.data(), count, 0.0);
  add(sums.data());
  auto y = call.output_bytes(slot, data_type_v<T>, like.lod(), like.row_shape(), like.rows());
  std::transform(sums.data(), sums.data() + count, y.template elements<T>(),
                 [](double v) { return static_cast<T>(v); });
}

/// The numbers of `in`, which are to be changed and then to be those of `out`. Mostly both are the same variable, which
/// is changed in place; where they are not, or others share its memory, `out` gets a copy when this object is
/// destroyed, unless an exception ends the operator. So operators make one for each of their outputs before they change
/// a number: if memory runs out, nothing has been updated, and the run can be repeated.
template <class T, class E>
class Changed {
  using Any = typename OperatorCall<E>::Any;
  using View = LoDTensorView<T, typename E::device>;

 public:
  Changed(const OperatorCall<E>& call, const Slot& in, const Slot& out)
      : Changed(call, in, out, call.tensor(in).lod(), call.tensor(in).row_shape(), call.tensor(in).rows()) {}
  /// With another structure, of as many numbers.
  Changed(const OperatorCall<E>& call, const Slot& in, const Slot& out, const LoD& lod, const Shape& row_shape,
          std::int64_t rows)
      : bytes_(output(call, in, out, lod, row_shape, rows)), view_(view(call, in)) {}

  View& operator*() noexcept { return view_; }
  T* data() const noexcept { return view_.data(); }

 private:
  static OutputBytes<typename E::device> output(const OperatorCall<E>& call, const Slot& in, const Slot& out,
                                                const LoD& lod, const Shape& row_shape, std::int64_t rows) {
    static_cast<void>(call.template view<T>(in));  // throws for elements of another type
    Any& to = call.variable(out).template get<Any>();
    const bool is_own = &call.variable(in) == &call.variable(out) && !to.read_only() && !to.shares_memory();
    if (is_own && to.levels() == lod.levels() && to.rows() == rows && to.row_shape() == row_shape) {
      return OutputBytes<typename E::device>(to);
    }
    return call.output_bytes(out, data_type_v<T>, lod, row_shape, rows);
  }
  View view(const OperatorCall<E>& call, const Slot& in) {
    if (!bytes_.is_in_place()) {
      operation::copy_rows(call.executor(), call.template view<T>(in), bytes_.template elements<T>());
    }
    Any& to = bytes_.tensor();
    return {bytes_.template elements<T>(), LoDView::plain(0, to.rows()), &to.row_shape(), to.row_size()};
  }

  OutputBytes<typename E::device> bytes_;
  View view_;
};

/// Writes an output with the structure of `like`: add(numbers) adds to numbers that begin at 0.
template <class T, class E, class F>
void write_added(const OperatorCall<E>& call, const Slot& slot, const AnyLoDTensor& like, const F& add) {
  auto y = call.output_bytes(slot, data_type_v<T>, like.lod(), like.row_shape(), like.rows());
  T* const to = y.template elements<T>();
  std::fill_n(to, like.rows() * like.row_size(), T{0});
  add(to);
}

/// Calls f() with the memory of each output from the k-th on, of this structure, in `outputs`; null for one that is
/// left out.
template <class T, std::size_t k = 0, class E, std::size_t count, class F>
void with_outputs(const OperatorCall<E>& call, const std::array<Slot, count>& slots, const LoD& lod,
                  const Shape& row_shape, std::int64_t rows, std::array<T*, count>& outputs, const F& f) {
  if constexpr (k == count) {
    f();
  } else if (!call.has(slots[k])) {
    with_outputs<T, k + 1>(call, slots, lod, row_shape, rows, outputs, f);
  } else {
    auto made = call.output_bytes(slots[k], data_type_v<T>, lod, row_shape, rows);
    outputs[k] = made.template elements<T>();
    with_outputs<T, k + 1>(call, slots, lod, row_shape, rows, outputs, f);
  }
}
/// The same for outputs of the structure of `like`.
template <class T, class E, std::size_t count, class F>
void with_outputs(const OperatorCall<E>& call, const std::array<Slot, count>& slots, const AnyLoDTensor& like,
                  std::array<T*, count>& outputs, const F& f) {
  with_outputs<T>(call, slots, like.lod(), like.row_shape(), like.rows(), outputs, f);
}

/// Calls f(detail::ElementType<T>()) with the type of an output: BOOL, or one that OperatorCall::with_number takes.
template <class F>
void with_output_type(DataType type, const F& f) {
  if (type == DataType::BOOL) return f(detail::ElementType<bool>());
  if (type == DataType::INT32) return f(detail::ElementType<std::int32_t>());
  if (type == DataType::INT64) return f(detail::ElementType<std::int64_t>());
  if (type == DataType::FP32) return f(detail::ElementType<float>());
  f(detail::ElementType<double>());
}
/// The data type in an attribute. Throws unless it is one of `types`.
inline DataType output_type(const OperatorArguments& op, std::string_view name, DataType otherwise) {
  const DataType type = op.data_type(name, otherwise);
  const bool is_there = type == DataType::BOOL || type == DataType::INT32 || type == DataType::INT64 ||
                        type == DataType::FP32 || type == DataType::FP64;
  if (!is_there) op.refuse_attr(name, "BOOL, INT32, INT64, FP32 or FP64");
  return type;
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs
