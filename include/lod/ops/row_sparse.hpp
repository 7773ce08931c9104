// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup row_sparse
/// Arithmetic with row-sparse tensors: among themselves, with a number, and into dense tensors.
#pragma once

#include <lod/data_type.hpp>
#include <lod/error.hpp>
#include <lod/infer.hpp>
#include <lod/kernel.hpp>
#include <lod/ops/argument_list.hpp>
#include <lod/ops/elementwise.hpp>
#include <lod/ops/merge_rows.hpp>
#include <lod/ops/rearrange.hpp>
#include <lod/ops/run_copy.hpp>
#include <lod/output.hpp>
#include <lod/scalar.hpp>
#include <lod/selected_rows.hpp>
#include <lod/supports.hpp>
#include <lod/target.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <stdexcept>
#include <type_traits>
#include <vector>

namespace lod::op {
struct scatter : elements::Number {};
struct scale : elements::Number {};
struct clip : elements::Number {};
struct clip_grad : elements::Floating {};
struct clip_by_norm : elements::Floating {};
struct clip_by_norm_grad : elements::Floating {};
struct split_selected_rows : elements::Any {};
struct split_selected_rows_grad : elements::Any {};
}  // namespace lod::op

namespace lod::inline LOD_TARGET {

/// What `scatter` makes of a row y of the dense tensor and a row g that is listed for it.
enum class ScatterOp {
  ASSIGN,  ///< y = g
  ADD,     ///< y = y + g
  SUB,     ///< y = y - g
  SUBBY,   ///< y = g - y
  MUL,     ///< y = y * g
  DIV,     ///< y = y / g
  DIVBY    ///< y = g / y
};

namespace kernel {
/// run(executor, f, x, count, y): y[i] = f(x[i]). y may be x.
template <class Executor>
struct Map : Missing<Executor> {};
/// run(executor, x, y, count): the sum of x[i] * y[i], in double.
template <class Executor>
struct SumProducts : Missing<Executor> {};
/// run(executor, f, rows, order, groups, row_size, to, y): y[to[g]] = f(y[to[g]], the sum of the rows of group g).
template <class Executor>
struct ScatterSums : Missing<Executor> {};
/// The same with the rows of group g one after the other: y[to[g]] = f(y[to[g]], rows[order[k]]) for each k in it.
template <class Executor>
struct ScatterRows : Missing<Executor> {};
}  // namespace kernel

namespace operation {

/// The second of two numbers.
struct Second {
  template <class N>
  N operator()(const N&, const N& b) const noexcept {
    return b;
  }
};
/// An operation with its arguments in the other order.
template <class Operation>
struct Swapped {
  template <class N>
  N operator()(const N& a, const N& b) const noexcept {
    return Operation()(b, a);
  }
};
/// Times a number.
struct Scaled {
  Scalar factor;
  template <class N>
  N operator()(const N& x) const noexcept {
    if constexpr (std::integral<N>) {
      return Multiply()(x, factor.to<N>());
    } else {
      return x * N(factor.to<typename N::value_type>());
    }
  }
};
/// Not under `least`, not over `greatest`; NaN stays.
struct Clipped {
  Scalar least, greatest;
  template <class N>
  N operator()(const N& x) const noexcept {
    if constexpr (std::integral<N>) {
      return std::min(std::max(x, least.to<N>()), greatest.to<N>());
    } else {
      const N low(least.to<typename N::value_type>()), high(greatest.to<typename N::value_type>());
      return select(x < low, low, select(x > high, high, x));
    }
  }
};

/// A gradient, where the number that it belongs to was not cut.
struct ClippedGrad {
  Scalar least, greatest;
  template <class N>
  N operator()(const N& gradient, const N& x) const noexcept {
    using Number = typename N::value_type;
    const N low(least.to<Number>()), high(greatest.to<Number>());
    return select((x < low) | (x > high), N(Number{}), gradient);
  }
};
/// first * a - second * b
struct Combined {
  double first, second;
  template <class N>
  N operator()(const N& a, const N& b) const noexcept {
    using Number = typename N::value_type;
    return N(static_cast<Number>(first)) * a - N(static_cast<Number>(second)) * b;
  }
};

/// Throws OutOfRange where an integer would be divided by 0.
template <class T, class Groups>
void check_scatter_divisors(ScatterOp op, const Groups& groups, std::int64_t row_size, const T* dense) {
  const kernel::Segments& ids = groups.groups();
  for (std::int64_t group = 0; group < ids.size; ++group) {
    const std::int64_t row = groups.ids()[static_cast<std::size_t>(group)];
    for (std::int64_t column = 0; column < row_size; ++column) {
      T number = dense[row * row_size + column];
      for (std::int64_t k = ids.begin(group); k < ids.begin(group) + ids.length(group); ++k) {
        const T listed = groups.rows()[groups.order()[k]][column];
        if ((op == ScatterOp::DIV ? listed : number) == 0) {
          throw OutOfRange(detail::text({"scatter: division by 0 in row ", row, ", column ", column}));
        }
        number = op == ScatterOp::DIV ? Divide()(number, listed) : Divide()(listed, number);
      }
    }
  }
}

/// Throws unless they are bounds.
template <class T>
void check_bounds(Scalar least, Scalar greatest, const char* what) {
  using Number = std::conditional_t<std::integral<T>, std::int64_t, double>;
  if (!(least.to<Number>() <= greatest.to<Number>())) {
    throw std::invalid_argument(detail::text({what, ": the lower bound, expected not to exceed the upper one"}));
  }
}
inline void check_norm(double norm, const char* what) {
  if (!(norm >= 0)) throw std::invalid_argument(detail::text({what, ": the norm, expected 0 or more"}));
}

/// The Euclidean length of `count` numbers.
template <Executor E, class T>
double length_of(const E& executor, const T* x, std::int64_t count) {
  return std::sqrt(kernel::SumProducts<E>::run(executor, x, x, count));
}

/// The gradient of a function of the merged rows of g: change(x, dy, count, d) returns that by the merged values x,
/// which it may write to d.
template <Executor E, class T, class Change>
void merged_grad_into(const E& executor, const char* what, const SelectedRows<T, typename E::device>& dy,
                      const SelectedRows<T, typename E::device>& g, SelectedRows<T, typename E::device>& dg,
                      const Change& change) {
  check_same_rows(dy.height(), dy.row_shape(), g, what);
  const std::array sources{&g};
  const std::int64_t count = dy.value().rows() * dy.row_size();
  const Workspace::Loan<T> x(executor.workspace(), count), d(executor.workspace(), count);
  {
    const RowGroups<E, T> groups(executor, sources);
    check_merged_ids(dy, groups.ids(), what);
    kernel::SumGroups<E>::run(executor, PoolType::SUM, groups.rows(), groups.order(), groups.groups(), g.row_size(),
                              nullptr, x.data());
  }
  const T* const values = change(static_cast<const T*>(x.data()), dy.value().data(), count, d.data());
  merge_grad_into<E, T>(executor, PoolType::SUM, what, dy, values, g.rows(), dg);
}

/// Gives `out` the rows of g.
template <class T, class Device>
void resize_like(const SelectedRows<T, Device>& g, SelectedRows<T, Device>& out) {
  if (&out != &g) out.resize(g.rows(), g.height(), g.row_shape());
}

}  // namespace operation

/// dense = dense op g, in the rows that g lists; the others are left alone. Rows that are listed repeatedly: ADD and
/// SUB take their sum, as `merge_add` has it before it is rounded; ASSIGN takes the last; the others are applied once
/// for each, in the order in which they are listed. Integers wrap around. One pass over the rows listed. `dense`, a
/// tensor or a view with the height and the row shape of g, must not overlap it; its levels do not count.
///
/// Throws ShapeMismatch where height or row shape differ, OutOfRange where an integer would be divided by 0. Semantics:
/// PaddlePaddle's UpdateToTensor.
template <Executor E, class T, MutableTensorLike Dense>
void scatter(const E& executor, const SelectedRows<T, typename E::device>& g, ScatterOp op, Dense&& dense) {
  static_assert(std::same_as<value_type_t<std::remove_cvref_t<Dense>>, T>,
                "scatter: the dense tensor is of the type of the rows");
  detail::check_elements<op::scatter, T>();
  operation::check_same_rows(dense.rows(), dense.row_shape(), g, "scatter: the dense tensor");
  const std::array sources{&g};
  const operation::RowGroups<E, T> groups(executor, sources);
  T* const y = dense.data();
  if constexpr (std::integral<T>) {
    if (op == ScatterOp::DIV || op == ScatterOp::DIVBY) {
      operation::check_scatter_divisors(op, groups, g.row_size(), static_cast<const T*>(y));
    }
  }
  const auto apply_sums = [&](const auto& f) {
    kernel::ScatterSums<E>::run(executor, f, groups.rows(), groups.order(), groups.groups(), g.row_size(),
                                groups.ids().data(), y);
  };
  const auto apply_each = [&](const auto& f) {
    kernel::ScatterRows<E>::run(executor, f, groups.rows(), groups.order(), groups.groups(), g.row_size(),
                                groups.ids().data(), y);
  };
  switch (op) {
    case ScatterOp::ASSIGN:
      return apply_each(operation::Second());
    case ScatterOp::ADD:
      return apply_sums(operation::Add());
    case ScatterOp::SUB:
      return apply_sums(operation::Subtract());
    case ScatterOp::SUBBY:
      return apply_each(operation::Swapped<operation::Subtract>());
    case ScatterOp::MUL:
      return apply_each(operation::Multiply());
    case ScatterOp::DIV:
      return apply_each(operation::Divide());
    case ScatterOp::DIVBY:
      return apply_each(operation::Swapped<operation::Divide>());
  }
}
template <class T, class Device, MutableTensorLike Dense>
void scatter(const SelectedRows<T, Device>& g, ScatterOp op, Dense&& dense) {
  scatter(default_executor<Device>(), g, op, dense);
}

/// The sum of two row-sparse tensors: the rows of a, then those of b, as they are. Nothing is added up here: repeated
/// rows count as their sum wherever they go, and `merge_add(a, b)` makes them one. The gradients are the first and the
/// last rows of that of the result. Throws ShapeMismatch unless both have the same height and row shape. `out` must be
/// neither a nor b. Semantics: PaddlePaddle's SelectedRowsAdd.
template <Executor E, class T>
void add_into(const E& executor, const SelectedRows<T, typename E::device>& a,
              const SelectedRows<T, typename E::device>& b, SelectedRows<T, typename E::device>& out) {
  detail::check_elements<op::add, T>();
  operation::check_same_rows(b.height(), b.row_shape(), a, "add");
  const auto first = static_cast<std::int64_t>(a.rows().size()), second = static_cast<std::int64_t>(b.rows().size());
  const Workspace::Loan<std::int64_t> rows(executor.workspace(), first + second);
  std::copy(b.rows().begin(), b.rows().end(), std::copy(a.rows().begin(), a.rows().end(), rows.data()));
  out.resize(rows.span(), a.height(), a.row_shape());
  const T* const sources[] = {a.value().data(), b.value().data()};
  const std::int64_t offsets[] = {0, first, first + second};
  kernel::RunCopy<E>::run(executor, sources, kernel::Segments{offsets, 2, std::max(first, second)}, a.row_size(),
                          out.value().data());
}
template <Executor E, class T>
SelectedRows<T, typename E::device> add(const E& executor, const SelectedRows<T, typename E::device>& a,
                                        const SelectedRows<T, typename E::device>& b) {
  SelectedRows<T, typename E::device> out(executor.resource());
  add_into(executor, a, b, out);
  return out;
}
template <class T, class Device>
auto add(const SelectedRows<T, Device>& a, const SelectedRows<T, Device>& b) {
  return add(default_executor<Device>(), a, b);
}

/// The sum of a row-sparse and a dense tensor, which is dense: y = x + g, rows and levels as x. The gradients by x and
/// g are dy and `from_dense(dy, g.rows())`. `y` may be x. Throws as `scatter`.
template <Executor E, class T, LoDTensorLike X, class Y>
void add_into(const E& executor, const SelectedRows<T, typename E::device>& g, const X& x, Y&& y) {
  const auto view = x.view();
  operation::check_same_rows(view.rows(), view.row_shape(), g, "add");
  const auto out = operation::prepare(y, operation::SameLevels{view.lod_view()}, view.row_shape());
  if (out.data() != view.data()) operation::copy_rows(executor, view, out.data());
  scatter(executor, g, ScatterOp::ADD, out);
}
template <Executor E, class T, LoDTensorLike X>
LoDTensor<T, typename E::device> add(const E& executor, const SelectedRows<T, typename E::device>& g, const X& x) {
  LoDTensor<T, typename E::device> y(executor.resource());
  add_into(executor, g, x, y);
  return y;
}
template <class T, class Device, LoDTensorLike X>
auto add(const SelectedRows<T, Device>& g, const X& x) {
  return add(default_executor<Device>(), g, x);
}

/// The values times a number, the rows as they are. 16-bit values are rounded once; for integers the number is cut to
/// one, and products wrap around. The gradient is `scale` of that of the result. `out` may be g.
template <Executor E, class T>
void scale_into(const E& executor, const SelectedRows<T, typename E::device>& g, Scalar factor,
                SelectedRows<T, typename E::device>& out) {
  detail::check_elements<op::scale, T>();
  operation::resize_like(g, out);
  kernel::Map<E>::run(executor, operation::Scaled{factor}, g.value().data(), g.value().rows() * g.row_size(),
                      out.value().data());
}
template <Executor E, class T>
SelectedRows<T, typename E::device> scale(const E& executor, const SelectedRows<T, typename E::device>& g,
                                          Scalar factor) {
  SelectedRows<T, typename E::device> out(executor.resource());
  scale_into(executor, g, factor, out);
  return out;
}
template <class T, class Device>
auto scale(const SelectedRows<T, Device>& g, Scalar factor) {
  return scale(default_executor<Device>(), g, factor);
}

/// `merge_add(g)` with its values cut to [least, greatest]; NaN stays. Rows that are not listed are not there, so they
/// stay zero, whatever the bounds. Throws std::invalid_argument unless least <= greatest. `out` must not be g.
/// Semantics: PaddlePaddle's clip.
template <Executor E, class T>
void clip_into(const E& executor, const SelectedRows<T, typename E::device>& g, Scalar least, Scalar greatest,
               SelectedRows<T, typename E::device>& out) {
  detail::check_elements<op::clip, T>();
  operation::check_bounds<T>(least, greatest, "clip");
  merge_add_into(executor, g, out);
  T* const values = out.value().data();
  kernel::Map<E>::run(executor, operation::Clipped{least, greatest}, static_cast<const T*>(values),
                      out.value().rows() * out.row_size(), values);
}
template <Executor E, class T>
SelectedRows<T, typename E::device> clip(const E& executor, const SelectedRows<T, typename E::device>& g, Scalar least,
                                         Scalar greatest) {
  SelectedRows<T, typename E::device> out(executor.resource());
  clip_into(executor, g, least, greatest, out);
  return out;
}
template <class T, class Device>
auto clip(const SelectedRows<T, Device>& g, Scalar least, Scalar greatest) {
  return clip(default_executor<Device>(), g, least, greatest);
}

/// The gradient of `clip`: row i is the row of dy that has the id of row i of g, 0 where the merged number was cut.
/// Throws as `clip`, and ShapeMismatch unless dy is like the result of `clip`. `dg` must be neither dy nor g.
template <Executor E, class T>
void clip_grad_into(const E& executor, const SelectedRows<T, typename E::device>& dy,
                    const SelectedRows<T, typename E::device>& g, Scalar least, Scalar greatest,
                    SelectedRows<T, typename E::device>& dg) {
  detail::check_elements<op::clip_grad, T>();
  operation::check_bounds<T>(least, greatest, "clip_grad");
  const auto change = [&](const T* x, const T* values, std::int64_t count, T* d) {
    kernel::Combine<E>::run(executor, operation::ClippedGrad{least, greatest}, values, x, count, d);
    return static_cast<const T*>(d);
  };
  operation::merged_grad_into(executor, "clip_grad", dy, g, dg, change);
}
template <Executor E, class T>
SelectedRows<T, typename E::device> clip_grad(const E& executor, const SelectedRows<T, typename E::device>& dy,
                                              const SelectedRows<T, typename E::device>& g, Scalar least,
                                              Scalar greatest) {
  SelectedRows<T, typename E::device> dg(executor.resource());
  clip_grad_into(executor, dy, g, least, greatest, dg);
  return dg;
}
template <class T, class Device>
auto clip_grad(const SelectedRows<T, Device>& dy, const SelectedRows<T, Device>& g, Scalar least, Scalar greatest) {
  return clip_grad(default_executor<Device>(), dy, g, least, greatest);
}

/// `merge_add(g)`, made shorter where it is longer than `norm`: times norm / length then, where the length is the
/// square root of the sum of the squares of all values, in double. A length that is NaN changes nothing. Throws
/// std::invalid_argument for a negative norm, or one that is NaN. `out` must not be g. Semantics: PaddlePaddle's
/// clip_by_norm.
template <Executor E, class T>
void clip_by_norm_into(const E& executor, const SelectedRows<T, typename E::device>& g, double norm,
                       SelectedRows<T, typename E::device>& out) {
  detail::check_elements<op::clip_by_norm, T>();
  operation::check_norm(norm, "clip_by_norm");
  merge_add_into(executor, g, out);
  T* const values = out.value().data();
  const std::int64_t count = out.value().rows() * out.row_size();
  const double length = operation::length_of(executor, static_cast<const T*>(values), count);
  if (length > norm) {
    kernel::Map<E>::run(executor, operation::Scaled{norm / length}, static_cast<const T*>(values), count, values);
  }
}
template <Executor E, class T>
SelectedRows<T, typename E::device> clip_by_norm(const E& executor, const SelectedRows<T, typename E::device>& g,
                                                 double norm) {
  SelectedRows<T, typename E::device> out(executor.resource());
  clip_by_norm_into(executor, g, norm, out);
  return out;
}
template <class T, class Device>
auto clip_by_norm(const SelectedRows<T, Device>& g, double norm) {
  return clip_by_norm(default_executor<Device>(), g, norm);
}

/// The gradient of `clip_by_norm`: as that of `merge_add` where nothing was made shorter; else, with x the merged
/// values and l their length, that of x * norm / l, which is norm / l * (dy - x * (x . dy) / l^2). Throws as
/// `clip_by_norm`, and ShapeMismatch unless dy is like its result. `dg` must be neither dy nor g.
template <Executor E, class T>
void clip_by_norm_grad_into(const E& executor, const SelectedRows<T, typename E::device>& dy,
                            const SelectedRows<T, typename E::device>& g, double norm,
                            SelectedRows<T, typename E::device>& dg) {
  detail::check_elements<op::clip_by_norm_grad, T>();
  operation::check_norm(norm, "clip_by_norm_grad");
  const auto change = [&](const T* x, const T* values, std::int64_t count, T* d) {
    const double length = operation::length_of(executor, x, count);
    if (!(length > norm)) return values;
    const double factor = norm / length;
    const double product = kernel::SumProducts<E>::run(executor, x, values, count);
    const operation::Combined combined{factor, factor * (product / length / length)};
    kernel::Combine<E>::run(executor, combined, values, x, count, d);
    return static_cast<const T*>(d);
  };
  operation::merged_grad_into(executor, "clip_by_norm_grad", dy, g, dg, change);
}
template <Executor E, class T>
SelectedRows<T, typename E::device> clip_by_norm_grad(const E& executor, const SelectedRows<T, typename E::device>& dy,
                                                      const SelectedRows<T, typename E::device>& g, double norm) {
  SelectedRows<T, typename E::device> dg(executor.resource());
  clip_by_norm_grad_into(executor, dy, g, norm, dg);
  return dg;
}
template <class T, class Device>
auto clip_by_norm_grad(const SelectedRows<T, Device>& dy, const SelectedRows<T, Device>& g, double norm) {
  return clip_by_norm_grad(default_executor<Device>(), dy, g, norm);
}

/// The tensor cut into sections of so many rows of its height: part s lists the rows of section s, in the order of g,
/// repeated ones too, their ids counted from the start of the section. Sections may be empty. Throws ShapeMismatch for
/// a negative section, and unless the sections add up to the height. No part may be g. Semantics: PaddlePaddle's
/// split_selected_rows.
template <Executor E, class T, operation::ArgumentList Sections = std::initializer_list<std::int64_t>>
void split_selected_rows_into(const E& executor, const SelectedRows<T, typename E::device>& g,
                              const Sections& height_sections,
                              std::vector<SelectedRows<T, typename E::device>>& parts) {
  const auto heights = operation::ids_of(height_sections);
  const Workspace::Loan<std::int64_t> starts(executor.workspace(), static_cast<std::int64_t>(heights.size()) + 1);
  starts[0] = 0;
  for (std::size_t s = 0; s < heights.size(); ++s) {
    const auto section = static_cast<std::int64_t>(s);
    if (heights[s] < 0) {
      throw ShapeMismatch(
          detail::text({"split_selected_rows: section ", s, " of height ", heights[s], ", expected 0 or more"}));
    }
    if (__builtin_add_overflow(starts[section], heights[s], &starts[section + 1])) {
      throw ShapeMismatch("split_selected_rows: the heights of the sections exceed 64 bits");
    }
  }
  const auto sections = static_cast<std::int64_t>(heights.size());
  if (starts[sections] != g.height()) {
    throw ShapeMismatch(detail::text({"split_selected_rows: sections of height ", starts[sections],
                                      " in all, expected ", g.height(), " as the tensor has"}));
  }
  // The positions of the rows by section, a counting sort.
  const auto count = static_cast<std::int64_t>(g.rows().size());
  const Workspace::Loan<std::int64_t> section_of(executor.workspace(), count), positions(executor.workspace(), count);
  const Workspace::Loan<std::int64_t> ids(executor.workspace(), count);
  const Workspace::Loan<std::int64_t> ends(executor.workspace(), sections + 1);
  std::fill_n(ends.data(), sections + 1, 0);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t* const first = starts.data() + 1;
    section_of[i] = std::upper_bound(first, first + sections, g.rows()[static_cast<std::size_t>(i)]) - first;
    ++ends[section_of[i] + 1];
  }
  for (std::int64_t s = 0; s < sections; ++s) ends[s + 1] += ends[s];
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t place = ends[section_of[i]]++;
    positions[place] = i;
    ids[place] = g.rows()[static_cast<std::size_t>(i)] - starts[section_of[i]];
  }
  parts.resize(heights.size(), SelectedRows<T, typename E::device>(executor.resource()));
  for (std::int64_t s = 0, begin = 0; s < sections; begin = ends[s++]) {
    auto& part = parts[static_cast<std::size_t>(s)];
    const std::int64_t size = ends[s] - begin;
    part.resize({ids.data() + begin, static_cast<std::size_t>(size)}, heights[static_cast<std::size_t>(s)],
                g.row_shape());
    kernel::GatherRows<E>::run(executor, g.value().data(), positions.data() + begin, size, g.row_size(),
                               std::int64_t{-1}, part.value().data());
  }
}
template <Executor E, class T, operation::ArgumentList Sections = std::initializer_list<std::int64_t>>
std::vector<SelectedRows<T, typename E::device>> split_selected_rows(const E& executor,
                                                                     const SelectedRows<T, typename E::device>& g,
                                                                     const Sections& height_sections) {
  std::vector<SelectedRows<T, typename E::device>> parts;
  split_selected_rows_into(executor, g, height_sections, parts);
  return parts;
}
template <class T, class Device, operation::ArgumentList Sections = std::initializer_list<std::int64_t>>
auto split_selected_rows(const SelectedRows<T, Device>& g, const Sections& height_sections) {
  return split_selected_rows(default_executor<Device>(), g, height_sections);
}

/// The gradient of `split_selected_rows`: the tensor whose sections the parts are, their heights added up. The rows of
/// the first part come first, whatever order they had. Throws ShapeMismatch where row shapes differ, where the heights
/// exceed 64 bits, and for no part. `dg` must not be one of the parts.
template <Executor E, class T>
void split_selected_rows_grad_into(const E& executor, const std::vector<SelectedRows<T, typename E::device>>& dparts,
                                   SelectedRows<T, typename E::device>& dg) {
  if (dparts.empty()) throw ShapeMismatch("split_selected_rows_grad: no parts, expected at least one");
  const auto parts = static_cast<std::int64_t>(dparts.size());
  const Workspace::Loan<std::int64_t> offsets(executor.workspace(), parts + 1);
  const Workspace::Loan<const T*> sources(executor.workspace(), parts);
  std::int64_t height = 0, longest = 0, part = 0;
  offsets[0] = 0;
  for (const auto& dpart : dparts) {
    operation::check_row_shape(dpart.row_shape(), dparts.front().row_shape(), "split_selected_rows_grad");
    if (__builtin_add_overflow(height, dpart.height(), &height)) {
      throw ShapeMismatch("split_selected_rows_grad: the heights of the parts exceed 64 bits");
    }
    const auto size = static_cast<std::int64_t>(dpart.rows().size());
    longest = std::max(longest, size);
    sources[part] = dpart.value().data();
    offsets[part + 1] = offsets[part] + size;
    ++part;
  }
  const Workspace::Loan<std::int64_t> rows(executor.workspace(), offsets[parts]);
  std::int64_t* next = rows.data();
  std::int64_t start = 0;
  for (const auto& dpart : dparts) {
    for (const std::int64_t row : dpart.rows()) *next++ = start + row;
    start += dpart.height();
  }
  const Shape& row_shape = dparts.front().row_shape();
  dg.resize(rows.span(), height, row_shape);
  kernel::RunCopy<E>::run(executor, sources.data(), kernel::Segments{offsets.data(), parts, longest},
                          row_shape.elements(), dg.value().data());
}
template <Executor E, class T>
SelectedRows<T, typename E::device> split_selected_rows_grad(
    const E& executor, const std::vector<SelectedRows<T, typename E::device>>& dparts) {
  SelectedRows<T, typename E::device> dg(executor.resource());
  split_selected_rows_grad_into(executor, dparts, dg);
  return dg;
}
template <class T, class Device>
auto split_selected_rows_grad(const std::vector<SelectedRows<T, Device>>& dparts) {
  return split_selected_rows_grad(default_executor<Device>(), dparts);
}

/// What `add` gives of row-sparse tensors, described: see <lod/infer.hpp>, also for the following. They are described
/// as the dense tensors that they stand for.
inline TensorDesc infer_add(const TensorDesc& a, const TensorDesc& b) {
  return operation::infer_merged<op::add>({a, b}, "add");
}
inline LoDTensorDesc infer_add(const TensorDesc& g, const LoDTensorDesc& x) {
  infer::Batch y = infer::batch_for<op::add>(x, "add");
  const infer::Batch sum({operation::infer_merged<op::add>({x.tensor, g}, "add")}, "add");
  y.rows = sum.rows;
  y.row_shape = sum.row_shape;
  return y;
}
inline TensorDesc infer_scale(const TensorDesc& g) { return operation::infer_merged<op::scale>({g}, "scale"); }
inline TensorDesc infer_clip(const TensorDesc& g) { return operation::infer_merged<op::clip>({g}, "clip"); }
inline TensorDesc infer_clip_by_norm(const TensorDesc& g) {
  return operation::infer_merged<op::clip_by_norm>({g}, "clip_by_norm");
}
inline std::vector<TensorDesc> infer_split_selected_rows(const TensorDesc& g,
                                                         std::span<const std::int64_t> height_sections) {
  constexpr const char* what = "split_selected_rows";
  infer::Batch part = infer::batch_for<op::split_selected_rows>({g}, what);
  const std::int64_t height = part.rows;
  std::int64_t sum = 0;
  std::vector<TensorDesc> parts;
  for (const std::int64_t section : height_sections) {
    if (section < 0) throw ShapeMismatch(detail::text({what, ": section of height ", section, ", expected 0 or more"}));
    sum = infer::sum(sum, section, what);
    part.rows = section;
    parts.push_back(LoDTensorDesc(part).tensor);
  }
  infer::check_row_count(sum, height, what);
  return parts;
}

}  // namespace lod::inline LOD_TARGET
