// SPDX-License-Identifier: Apache-2.0
/// @file
/// Operators that take the elements along each axis by a rule of that axis: expand, expand_v2, expand_as_v2, tile,
/// flip, reverse, pad, pad_constant_like, crop, and their gradients.
#pragma once

#include <lod/core/any_tensor.hpp>
#include <lod/core/data_type.hpp>
#include <lod/core/error.hpp>
#include <lod/core/executor.hpp>
#include <lod/core/scalar.hpp>
#include <lod/core/shape.hpp>
#include <lod/core/target.hpp>
#include <lod/ops/infer.hpp>
#include <lod/program/operator.hpp>
#include <lod/program/operators/movement.hpp>
#include <lod/program/operators/shapes.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs {

/// The places that elements along an axis of the result are taken from: from `first` on, at a fixed distance. If it
/// wraps, places after the end continue at 0; otherwise there are no elements before 0 and after the end.
struct TakenAlongAxis {
  std::int64_t count = 0;
  std::int64_t first = 0;
  std::int64_t step = 1;
  bool wraps = false;
};

/// The same along all axes of a tensor.
struct TakenAlongAxes {
  Shape from;  ///< the tensor's shape, perhaps with dimensions of 1 before its own
  std::array<TakenAlongAxis, Shape::max_rank> axes{};
  bool keeps_levels = true;  ///< if the number of rows stays the same

  /// Takes all elements.
  explicit TakenAlongAxes(const Shape& shape) : from(shape) {
    for (std::size_t dim = 0; dim < from.size(); ++dim) axes[dim].count = from[dim];
  }
  Shape result() const {
    std::array<std::int64_t, Shape::max_rank> made{};
    for (std::size_t dim = 0; dim < from.size(); ++dim) made[dim] = axes[dim].count;
    return first_of(made, from.size());
  }

  /// Calls f(place in the result, place in the tensor, count) for runs of elements, in the order of the result; the
  /// place in the tensor is -1 if there are no elements.
  template <class F>
  void for_each_run(const F& f) const {
    const Shape all = result();
    if (all.elements() == 0) return;
    std::size_t rank = from.size();
    std::int64_t run = 1;
    // Last axes that are taken unchanged are part of the runs.
    while (rank > 0 && axes[rank - 1].count == from[rank - 1] && axes[rank - 1].first == 0 &&
           axes[rank - 1].step == 1) {
      run *= from[--rank];
    }
    if (rank == 0) return f(std::int64_t{0}, std::int64_t{0}, run);
    const TakenAlongAxis& last = axes[rank - 1];
    const std::int64_t length = from[rank - 1];
    std::array<std::int64_t, Shape::max_rank> at{};
    for (std::int64_t done = 0; done < all.elements();) {
      std::int64_t row = 0;
      for (std::size_t dim = 0; dim + 1 < rank; ++dim) {
        const std::int64_t given = axes[dim].first + at[dim] * axes[dim].step;
        const std::int64_t place = axes[dim].wraps ? given % from[dim] : given;
        row = row < 0 || place < 0 || place >= from[dim] ? -1 : row * from[dim] + place;
      }
      std::int64_t place = last.first;
      for (std::int64_t k = 0; k < last.count; ++k, place += last.step, done += run) {
        if (last.wraps && place == length) place = 0;
        const bool is_there = row >= 0 && place >= 0 && place < length;
        f(done, is_there ? (row * length + place) * run : -1, run);
      }
      for (std::size_t dim = rank - 1; dim-- > 0;) {
        if (++at[dim] < axes[dim].count) break;
        at[dim] = 0;
      }
    }
  }
};

/// Writes the elements that are taken; where there are none, `none`, the bytes of one element.
template <class E>
void take_elements(const OperatorCall<E>& call, const Slot& x, const Slot& out, const TakenAlongAxes& taken,
                   const std::byte* none = nullptr) {
  const AnyLoDTensor& from = call.tensor(x);
  const auto size = static_cast<std::int64_t>(size_of(from.data_type()));
  auto y = call.output_bytes(out, from.data_type(), taken.result(), taken.keeps_levels ? from : AnyLoDTensor());
  taken.for_each_run([&](std::int64_t to, std::int64_t place, std::int64_t count) {
    if (place >= 0) {
      copy_blocks(from.bytes().data(), {.first = place * size}, y.data(), {.first = to * size}, count * size, 1);
    } else {
      copy_blocks(none, {}, y.data(), {to * size, size}, size, count);
    }
  });
}

/// A tensor repeated along its axes up to these counts, which are multiples of its dimensions.
template <class E>
TakenAlongAxes repeated(const OperatorCall<E>& call, const Slot& x,
                        const std::array<std::int64_t, Shape::max_rank>& counts, std::size_t rank) {
  Shape shape = call.tensor(x).shape();
  bool fits = shape.size() <= rank;
  while (shape.size() < rank) shape = Shape(1, shape);
  TakenAlongAxes taken(shape);
  for (std::size_t dim = 0; fits && dim < rank; ++dim) {
    fits = shape[dim] == 0 ? counts[dim] == 0 : counts[dim] >= 0 && counts[dim] % shape[dim] == 0;
    taken.axes[dim] = {.count = counts[dim], .wraps = true};
  }
  if (!fits) {
    throw ShapeMismatch(detail::text({call.name(x), " of shape ", to_string(call.tensor(x).shape()),
                                      ", expected dimensions of which those of ", to_string(first_of(counts, rank)),
                                      " are multiples"}));
  }
  return taken;
}

/// expand: X -> Out; expand_times: how often each dimension is repeated. tile: the same with repeat_times; the shorter
/// of shape and repeat_times is extended by ones in front.
template <Executor E, bool is_tile>
RunOperator<E> expand(const OperatorArguments& op) {
  for (const char* const input : {"ExpandTimes", "expand_times_tensor", "RepeatTimes", "repeat_times_tensor"}) {
    op.expect_no_input(input);
  }
  const char* const name = is_tile ? "repeat_times" : "expand_times";
  const Slot x = op.input("X"), out = op.output("Out");
  const auto times = op.desc().attr<std::vector<std::int64_t>>(name);
  if (times.size() > Shape::max_rank) op.refuse_attr(name, "fewer numbers");
  for (const std::int64_t each : times) {
    if (each < 1) op.refuse_attr(name, "numbers of 1 or more");
  }
  return [=](OperatorCall<E>& call) {
    const Shape shape = call.tensor(x).shape();
    const std::size_t rank = is_tile ? std::max(shape.size(), times.size()) : shape.size();
    if (!is_tile && times.size() != rank) {
      throw ShapeMismatch(
          detail::text({call.name(x), " of shape ", to_string(shape), ", expected as many dimensions as ", times.size(),
                        " numbers in expand_times"}));
    }
    std::array<std::int64_t, Shape::max_rank> counts{};
    for (std::size_t back = 0; back < rank; ++back) {
      const std::int64_t size = back < shape.size() ? shape[shape.size() - 1 - back] : 1;
      counts[rank - 1 - back] = Shape{size, back < times.size() ? times[times.size() - 1 - back] : 1}.elements();
    }
    take_elements(call, x, out, repeated(call, x, counts, rank));
  };
}

/// expand_v2: X -> Out; shape: dimensions of 1 are repeated up to it, -1 keeps a dimension; it may have more dimensions
/// before those of X. expand_as_v2: X, Y? -> Out: to the shape of Y, or target_shape.
template <Executor E, bool is_as>
RunOperator<E> expand_to(const OperatorArguments& op) {
  op.expect_no_input("Shape");
  op.expect_no_input("expand_shapes_tensor");
  const Slot x = op.input("X"), like = is_as ? op.optional_input("Y") : Slot(), out = op.output("Out");
  std::vector<std::int64_t> dims;
  if (!like) dims = op.desc().attr<std::vector<std::int64_t>>(is_as ? "target_shape" : "shape");
  if (dims.size() > Shape::max_rank) op.refuse_attr(is_as ? "target_shape" : "shape", "fewer dimensions");
  return [=](OperatorCall<E>& call) {
    const Shape shape = call.tensor(x).shape(), wanted = like ? call.tensor(like).shape() : Shape();
    const std::size_t rank = like ? wanted.size() : dims.size();
    std::array<std::int64_t, Shape::max_rank> counts{};
    bool fits = shape.size() <= rank;
    for (std::size_t dim = 0; fits && dim < rank; ++dim) {
      const bool is_own = dim + shape.size() >= rank;
      const std::int64_t size = is_own ? shape[dim + shape.size() - rank] : 1;
      counts[dim] = like ? wanted[dim] : dims[dim] == -1 && is_own ? size : dims[dim];
      fits = counts[dim] >= 0 && (size == 1 || size == counts[dim]);
    }
    if (!fits) {
      throw ShapeMismatch(detail::text({call.name(x), " of shape ", to_string(shape),
                                        ", expected dimensions of 1, or of the shape that it is to have"}));
    }
    take_elements(call, x, out, repeated(call, x, counts, rank));
  };
}
/// expand_grad, tile_grad, expand_v2_grad, expand_as_v2_grad: X, Out@GRAD -> X@GRAD: the sum over all copies.
template <Executor E>
RunOperator<E> expand_grad(const OperatorArguments& op) {
  const Slot x = op.input("X"), dy = op.input("Out@GRAD"), dx = op.output("X@GRAD");
  return [=](OperatorCall<E>& call) {
    const AnyLoDTensor& whole = call.tensor(x);
    const Shape all = call.tensor(dy).shape();
    std::array<std::int64_t, Shape::max_rank> counts{};
    std::copy(all.begin(), all.end(), counts.begin());
    const TakenAlongAxes taken = repeated(call, x, counts, all.size());
    call.with_floating(x, [&](auto element) {
      using T = typename decltype(element)::type;
      const T* const given = call.template view<T>(dy).data();
      write_sums<T>(call, dx, whole, [&](double* sums) {
        taken.for_each_run([&](std::int64_t to, std::int64_t place, std::int64_t count) {
          for (std::int64_t k = 0; k < count; ++k) sums[place + k] += static_cast<double>(given[to + k]);
        });
      });
    });
  };
}

/// flip and reverse: X -> Out; axis: the axes along which the order is reversed. They are their own gradients.
template <Executor E>
RunOperator<E> flip(const OperatorArguments& op) {
  const Slot x = op.input("X"), out = op.output("Out");
  return [=, axes = op.desc().attr<std::vector<std::int64_t>>("axis")](OperatorCall<E>& call) {
    TakenAlongAxes taken(call.tensor(x).shape());
    for (const std::int64_t axis : axes) {
      TakenAlongAxis& one = taken.axes[axis_of(axis, taken.from.size())];
      one = {.count = one.count, .first = one.count - 1, .step = -1};
    }
    take_elements(call, x, out, taken);
  };
}

/// The attributes of `strided_slice`: axes, starts, ends, strides, none of them 0: negative starts and ends count from
/// the end, and those beyond the end mean the end; with a negative stride, an end of -1 means before the first element.
class Strides {
 public:
  explicit Strides(const OperatorArguments& op)
      : axes_(op.desc().attr<std::vector<std::int64_t>>("axes")),
        starts_(op.desc().attr<std::vector<std::int64_t>>("starts")),
        ends_(op.desc().attr<std::vector<std::int64_t>>("ends")),
        strides_(op.desc().attr<std::vector<std::int64_t>>("strides")) {
    for (const char* const input :
         {"StartsTensor", "EndsTensor", "StridesTensor", "StartsTensorList", "EndsTensorList", "StridesTensorList"}) {
      op.expect_no_input(input);
    }
    if (!op.attr("decrease_axis", std::vector<std::int64_t>()).empty()) op.refuse_attr("decrease_axis", "none");
    const std::size_t count = axes_.size();
    if (starts_.size() != count || ends_.size() != count || strides_.size() != count) {
      op.refuse_attr("starts", "one for each of the axes, as in ends and strides");
    }
    for (const std::int64_t stride : strides_) {
      if (stride == 0) op.refuse_attr("strides", "numbers other than 0");
    }
  }
  TakenAlongAxes of(const Shape& shape) const {
    TakenAlongAxes taken(shape);
    for (std::size_t i = 0; i < axes_.size(); ++i) {
      const std::size_t dim = axis_of(axes_[i], shape.size());
      taken.keeps_levels = taken.keeps_levels && dim > 0;
      taken.axes[dim] = along(shape[dim], starts_[i], ends_[i], strides_[i]);
    }
    return taken;
  }
  /// The elements that are taken along an axis of size `size`.
  static TakenAlongAxis along(std::int64_t size, std::int64_t start, std::int64_t end, std::int64_t stride) {
    const bool is_forward = stride > 0;
    const auto place = [&](std::int64_t counted) {
      const std::int64_t from_start = counted < 0 ? counted + size : counted;
      return is_forward ? std::clamp<std::int64_t>(from_start, 0, size)
                        : std::clamp<std::int64_t>(from_start, -1, size - 1);
    };
    const std::int64_t first = place(start), last = !is_forward && end == -1 ? -1 : place(end);
    const std::int64_t distance = is_forward ? last - first : first - last;
    // The number of whole strides after the first element. Strides are limited to the size, so that nothing overflows.
    const std::int64_t step = is_forward ? std::min(stride, size + 1) : std::max(stride, -size - 1);
    const std::int64_t length = is_forward ? step : -step;
    return {.count = distance > 0 ? (distance - 1) / length + 1 : 0, .first = first, .step = step};
  }

 private:
  std::vector<std::int64_t> axes_, starts_, ends_, strides_;
};
/// strided_slice: Input -> Out; attributes as Strides.
template <Executor E>
RunOperator<E> strided_slice(const OperatorArguments& op) {
  const Slot x = op.input("Input"), out = op.output("Out");
  return [=, strides = Strides(op)](OperatorCall<E>& call) {
    take_elements(call, x, out, strides.of(call.tensor(x).shape()));
  };
}
/// strided_slice_grad: Input, Out@GRAD -> Input@GRAD: zeros where nothing was taken.
template <Executor E>
RunOperator<E> strided_slice_grad(const OperatorArguments& op) {
  const Slot x = op.input("Input"), dy = op.input("Out@GRAD"), dx = op.output("Input@GRAD");
  return [=, strides = Strides(op)](OperatorCall<E>& call) {
    const AnyLoDTensor& whole = call.tensor(x);
    const TakenAlongAxes taken = strides.of(whole.shape());
    call.with_floating(x, [&](auto element) {
      using T = typename decltype(element)::type;
      const T* const given = some_numbers<T>(call, dy, taken.result().elements());
      write_added<T>(call, dx, whole, [&](T* to) {
        taken.for_each_run([&](std::int64_t from, std::int64_t place, std::int64_t count) {
          std::copy_n(given + from, count, to + place);
        });
      });
    });
  };
}

/// pad: X -> Out; paddings, two numbers for each dimension: how many elements are added before and after those of X;
/// pad_value = 0: their value. pad_grad: Out@GRAD -> X@GRAD: the gradient of the elements of X only.
template <Executor E, bool is_gradient = false>
RunOperator<E> pad(const OperatorArguments& op) {
  const Slot x = op.input(is_gradient ? "Out@GRAD" : "X"), out = op.output(is_gradient ? "X@GRAD" : "Out");
  const auto paddings = op.desc().attr<std::vector<std::int64_t>>("paddings");
  const Scalar value = op.attr("pad_value", 0.0f);
  for (const std::int64_t each : paddings) {
    if (each < 0) op.refuse_attr("paddings", "numbers of 0 or more");
  }
  return [=](OperatorCall<E>& call) {
    TakenAlongAxes taken(call.tensor(x).shape());
    bool fits = paddings.size() == 2 * taken.from.size();
    for (std::size_t dim = 0; fits && dim < taken.from.size(); ++dim) {
      const std::int64_t before = paddings[2 * dim], after = paddings[2 * dim + 1], size = taken.from[dim];
      if (is_gradient) {
        fits = before <= size && after <= size - before;
        if (fits) taken.axes[dim] = {.count = size - before - after, .first = before};
      } else {
        taken.axes[dim] = {.count = infer::sum(infer::sum(size, before, "pad"), after, "pad"), .first = -before};
      }
    }
    if (!fits) {
      throw ShapeMismatch(detail::text({call.name(x), " of shape ", to_string(taken.from), ", expected ",
                                        paddings.size() / 2, " dimensions, as in paddings"}));
    }
    call.with_number(x, [&](auto element) {
      const auto none = value.template to<typename decltype(element)::type>();
      std::array<std::byte, sizeof(none)> bytes;
      std::memcpy(bytes.data(), &none, sizeof(none));
      take_elements(call, x, out, taken, bytes.data());
    });
  };
}

/// Writes the elements of a box of shape `all` that begins at `first` in a tensor, and 0 or `value` outside of it.
template <class E>
void take_box(const OperatorCall<E>& call, const Slot& x, const Slot& out, const Shape& all,
              const std::array<std::int64_t, Shape::max_rank>& first, const Scalar& value = 0.0f) {
  TakenAlongAxes taken(call.tensor(x).shape());
  for (std::size_t dim = 0; dim < all.size(); ++dim) taken.axes[dim] = {.count = all[dim], .first = first[dim]};
  call.with_number(x, [&](auto element) {
    const auto none = value.template to<typename decltype(element)::type>();
    take_elements(call, x, out, taken, reinterpret_cast<const std::byte*>(&none));
  });
}
/// Throws ShapeMismatch unless the box of shape `inner` that begins at `first` is inside of `outer`.
inline void check_box(const Shape& inner, const std::array<std::int64_t, Shape::max_rank>& first, const Shape& outer) {
  bool fits = inner.size() == outer.size();
  for (std::size_t dim = 0; fits && dim < inner.size(); ++dim) {
    fits = inner[dim] >= 0 && first[dim] >= 0 && inner[dim] <= outer[dim] && first[dim] <= outer[dim] - inner[dim];
  }
  if (!fits) {
    throw ShapeMismatch(detail::text({"shape ", to_string(inner), " from ", to_string(first_of(first, inner.size())),
                                      " on, expected a part of ", to_string(outer)}));
  }
}

/// crop: X, Y?, Offsets? -> Out: the part of X that begins at `offsets`, an attribute or INT32, by default 0; with the
/// shape of Y, or the attribute `shape`, in which the first number may be -1, for that of X. crop_grad: X, Offsets?,
/// Out@GRAD -> X@GRAD.
template <Executor E, bool is_gradient = false>
RunOperator<E> crop(const OperatorArguments& op) {
  const Slot x = op.input("X"), like = is_gradient ? op.input("Out@GRAD") : op.optional_input("Y");
  const Slot given = op.optional_input("Offsets"), out = op.output(is_gradient ? "X@GRAD" : "Out");
  const auto shape = op.attr("shape", std::vector<std::int64_t>());
  const auto offsets = op.attr("offsets", std::vector<std::int64_t>());
  if (!like && (shape.empty() || shape.size() > Shape::max_rank)) op.refuse_attr("shape", "that of the result");
  return [=](OperatorCall<E>& call) {
    const Shape outer = call.tensor(x).shape();
    std::array<std::int64_t, Shape::max_rank> first{}, dims{};
    std::copy(shape.begin(), shape.end(), dims.begin());
    if (!like && dims[0] == -1 && !outer.empty()) dims[0] = outer[0];
    const Shape inner = like ? call.tensor(like).shape() : first_of(dims, shape.size());
    if (given) {
      std::copy_n(some_numbers<std::int32_t>(call, given, static_cast<std::int64_t>(inner.size())), inner.size(),
                  first.begin());
    } else if (offsets.size() == inner.size()) {
      std::copy(offsets.begin(), offsets.end(), first.begin());
    } else if (!offsets.empty()) {
      throw ShapeMismatch(detail::text({offsets.size(), " offsets, expected ", inner.size()}));
    }
    check_box(inner, first, outer);
    if (!is_gradient) return take_box(call, x, out, inner, first);
    for (std::int64_t& each : first) each = -each;
    take_box(call, like, out, outer, first);
  };
}

/// pad_constant_like: X, Y -> Out, Y followed along each dimension by pad_value = 0 up to the size of X.
/// pad_constant_like_grad: Y, Out@GRAD -> Y@GRAD.
template <Executor E, bool is_gradient = false>
RunOperator<E> pad_constant_like(const OperatorArguments& op) {
  const Slot y = op.input("Y"), other = op.input(is_gradient ? "Out@GRAD" : "X");
  const Slot out = op.output(is_gradient ? "Y@GRAD" : "Out");
  const Scalar value = op.attr("pad_value", 0.0f);
  return [=](OperatorCall<E>& call) {
    const Shape inner = call.tensor(y).shape(), outer = call.tensor(other).shape();
    check_box(inner, {}, outer);
    if (is_gradient) return take_box(call, other, out, inner, {});
    take_box(call, y, out, outer, {}, value);
  };
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs
