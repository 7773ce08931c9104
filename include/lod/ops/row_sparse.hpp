// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup row_sparse
/// Arithmetic with row-sparse tensors: among themselves, with a number, and into dense tensors.
#pragma once

#include <lod/core/error.hpp>
#include <lod/core/scalar.hpp>
#include <lod/core/selected_rows.hpp>
#include <lod/ops/declaration.hpp>
#include <lod/ops/elementwise.hpp>
#include <lod/ops/infer.hpp>
#include <lod/ops/merge_rows.hpp>
#include <lod/ops/rearrange.hpp>
#include <lod/ops/run_copy.hpp>

#include <algorithm>
#include <array>
#include <concepts>
#include <cstdint>
#include <type_traits>

namespace lod::inline LOD_INTERFACE::op {
struct scatter : elements::Number {
  static constexpr Text text{"g, op, dense", "In place: dense = dense op g, in the rows that g lists."};
};
struct scatter_grad : elements::Floating {
  static constexpr Text text{"dy, g, op, dense", "The gradients of `scatter`; `dense` is the tensor as it was before."};
};
struct scale : elements::Number {
  static constexpr Text text{"g, factor", "SelectedRows with values times a number."};
};
}  // namespace lod::inline LOD_INTERFACE::op

namespace lod::inline LOD_INTERFACE {

/// How `scatter` combines a row y of the dense tensor with a row g that is listed for it.
enum class ScatterOp {
  ASSIGN,  ///< y = g
  ADD,     ///< y = y + g
  SUB,     ///< y = y - g
  SUBBY,   ///< y = g - y
  MUL,     ///< y = y * g
  DIV,     ///< y = y / g
  DIVBY    ///< y = g / y
};

/// The result of `scatter_grad`.
template <class T, class Device = Cpu>
struct ScatterGrad {
  LoDTensor<T, Device> dense;  ///< with respect to the former dense tensor; rows and levels as dy
  SelectedRows<T, Device> g;   ///< with respect to the listed rows: the same rows
};

}  // namespace lod::inline LOD_INTERFACE

namespace lod::inline LOD_INTERFACE::kernel {
/// run(executor, f, rows, order, groups, row_size, to, y): y[to[g]] = f(y[to[g]], the sum of the rows of group g).
struct ScatterSums {};
/// The same with the rows of group g one after the other: y[to[g]] = f(y[to[g]], rows[order[k]]) for each k in the
/// group.
struct ScatterRows {};
/// run(executor, f, rows, order, groups, row_size, to, x, d, dg): the gradient of `ScatterRows`, where x is the former
/// y. d[to[g]] is on entry the gradient with respect to y, on return with respect to x; dg[order[k]] becomes that with
/// respect to rows[order[k]]. f.by_dense(a, b, c) and f.by_listed(a, b, c) are the derivatives of c = f(a, b).
struct ScatterRowsGrad {};

/// The result of `scatter` for a number and a listed one, and its derivatives.
template <ScatterOp op>
struct Scattered {
  template <class N>
  LOD_TAGGED LOD_HOST_DEVICE N operator()(const N& dense, const N& listed) const noexcept {
    if constexpr (op == ScatterOp::ASSIGN) return listed;
    if constexpr (op == ScatterOp::ADD) return Add()(dense, listed);
    if constexpr (op == ScatterOp::SUB) return Subtract()(dense, listed);
    if constexpr (op == ScatterOp::SUBBY) return Subtract()(listed, dense);
    if constexpr (op == ScatterOp::MUL) return Multiply()(dense, listed);
    if constexpr (op == ScatterOp::DIV) return Divide()(dense, listed);
    if constexpr (op == ScatterOp::DIVBY) return Divide()(listed, dense);
  }
  template <std::floating_point N>
  LOD_TAGGED LOD_HOST_DEVICE static N by_dense(N dense, N listed, N result) noexcept {
    if constexpr (op == ScatterOp::ASSIGN) return 0;
    if constexpr (op == ScatterOp::ADD || op == ScatterOp::SUB) return 1;
    if constexpr (op == ScatterOp::SUBBY) return -1;
    if constexpr (op == ScatterOp::MUL) return listed;
    if constexpr (op == ScatterOp::DIV) return 1 / listed;
    if constexpr (op == ScatterOp::DIVBY) return -result / dense;
  }
  template <std::floating_point N>
  LOD_TAGGED LOD_HOST_DEVICE static N by_listed(N dense, N listed, N result) noexcept {
    if constexpr (op == ScatterOp::ASSIGN || op == ScatterOp::ADD || op == ScatterOp::SUBBY) return 1;
    if constexpr (op == ScatterOp::SUB) return -1;
    if constexpr (op == ScatterOp::MUL) return dense;
    if constexpr (op == ScatterOp::DIV) return -result / listed;
    if constexpr (op == ScatterOp::DIVBY) return 1 / dense;
  }
};
}  // namespace lod::inline LOD_INTERFACE::kernel

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {

namespace operation {

/// Throws OutOfRange for a number that is not a ScatterOp.
inline void check_scatter_op(ScatterOp op, const char* what) {
  if (op < ScatterOp::ASSIGN || op > ScatterOp::DIVBY) {
    throw OutOfRange(detail::text({what, ": ScatterOp ", static_cast<int>(op), ", expected ASSIGN to DIVBY"}));
  }
}
/// Calls f with the `Scattered` of the operation.
template <class F>
void with_scattered(ScatterOp op, const F& f) {
  switch (op) {
    case ScatterOp::ASSIGN:
      return f(kernel::Scattered<ScatterOp::ASSIGN>());
    case ScatterOp::ADD:
      return f(kernel::Scattered<ScatterOp::ADD>());
    case ScatterOp::SUB:
      return f(kernel::Scattered<ScatterOp::SUB>());
    case ScatterOp::SUBBY:
      return f(kernel::Scattered<ScatterOp::SUBBY>());
    case ScatterOp::MUL:
      return f(kernel::Scattered<ScatterOp::MUL>());
    case ScatterOp::DIV:
      return f(kernel::Scattered<ScatterOp::DIV>());
    case ScatterOp::DIVBY:
      return f(kernel::Scattered<ScatterOp::DIVBY>());
  }
}

/// Throws OutOfRange if an integer would be divided by 0.
template <class T, class Groups>
void check_scatter_divisors(ScatterOp op, const Groups& groups, std::int64_t row_size, const T* dense) {
  const kernel::Segments& ids = groups.groups();
  for (std::int64_t group = 0; group < ids.size; ++group) {
    const std::int64_t row = groups.ids()[group];
    for (std::int64_t column = 0; column < row_size; ++column) {
      T number = dense[row * row_size + column];
      for (std::int64_t k = ids.begin(group); k < ids.begin(group) + ids.length(group); ++k) {
        const T listed = groups.rows()[groups.order()[k]][column];
        if ((op == ScatterOp::DIV ? listed : number) == 0) {
          throw OutOfRange(detail::text({"scatter: division by 0 in row ", row, ", column ", column}));
        }
        number = op == ScatterOp::DIV ? kernel::Divide()(number, listed) : kernel::Divide()(listed, number);
      }
    }
  }
}

}  // namespace operation

/// dense = dense op g in the rows that g lists; the others stay unchanged. For rows that are listed repeatedly, ADD and
/// SUB use the sum, as computed by `merge_add` before rounding; ASSIGN uses the last; the others are applied once for
/// each listed row, in order. Integers wrap around. One pass over the rows listed. `dense`, a tensor or a view with the
/// height and the row shape of g, must not overlap it; its levels are ignored.
///
/// The gradients are `scatter_grad`. Throws ShapeMismatch if height or row shape differ, OutOfRange if an integer would
/// be divided by 0 and for a number that is not a ScatterOp. Semantics: PaddlePaddle's UpdateToTensor.
template <Executor E, class T, MutableTensorLike Dense>
void scatter(const E& executor, const SelectedRows<T, typename E::device>& g, ScatterOp op, Dense&& dense) {
  static_assert(std::same_as<value_type_t<std::remove_cvref_t<Dense>>, T>,
                "scatter: the dense tensor is of the type of the rows");
  detail::check_elements<op::scatter, T>();
  operation::check_scatter_op(op, "scatter");
  detail::check_value_rows(g, "scatter");
  operation::check_same_rows(dense.rows(), dense.row_shape(), g, "scatter: the dense tensor");
  operation::check_apart({"scatter", "the dense tensor"}, dense, {{"g", g.value()}});
  const std::array sources{&g};
  const operation::RowGroups<E, T> groups(executor, sources);
  T* const y = dense.data();
  if constexpr (std::integral<T> && operation::on_cpu<E>) {
    if (op == ScatterOp::DIV || op == ScatterOp::DIVBY) {
      operation::check_scatter_divisors(op, groups, g.row_size(), static_cast<const T*>(y));
    }
  }
  operation::with_scattered(op, [&](const auto& f) {
    using Kernel = std::conditional_t<std::is_same_v<decltype(f), const kernel::Scattered<ScatterOp::ADD>&> ||
                                          std::is_same_v<decltype(f), const kernel::Scattered<ScatterOp::SUB>&>,
                                      kernel::ScatterSums, kernel::ScatterRows>;
    launch(Kernel(), executor, f, groups.rows(), groups.order(), groups.groups(), g.row_size(), groups.ids(), y);
  });
}
template <class T, class Device, MutableTensorLike Dense>
void scatter(const SelectedRows<T, Device>& g, ScatterOp op, Dense&& dense) {
  scatter(default_executor<Device>(), g, op, dense);
}

namespace operation {

/// A kernel for some ScatterOps, and for all.
template <class Tag, class T, ScatterOp... ops>
using ScatteredBy = kernel::Instances<kernel::Instance<Tag, kernel::Scattered<ops>, T>...>;
template <class Tag, class T>
using ScatteredByAll = ScatteredBy<Tag, T, ScatterOp::ASSIGN, ScatterOp::ADD, ScatterOp::SUB, ScatterOp::SUBBY,
                                   ScatterOp::MUL, ScatterOp::DIV, ScatterOp::DIVBY>;

template <>
struct Declared<op::scatter> {
  template <class T>
  using Kernels = kernel::Instances<ScatteredByAll<kernel::ScatterRows, T>,
                                    ScatteredBy<kernel::ScatterSums, T, ScatterOp::ADD, ScatterOp::SUB>>;
};

template <>
struct Declared<op::scatter_grad> : Takes<Tensor, Of<SelectedRows>, ScatterOp, Tensor>,
                                    GivesAll<ScatterGrad, Tensor, Of<SelectedRows>> {
  static constexpr const char* name = "scatter_grad";
  template <class T>
  using Kernels = ScatteredByAll<kernel::ScatterRowsGrad, T>;
  template <Executor E, class T>
  static void run(const E& executor, const Input<E, T>& dy, const SelectedRows<T, typename E::device>& g, ScatterOp op,
                  const Input<E, T>& dense, const To<E, T>& ddense, SelectedRows<T, typename E::device>& dg) {
    check_scatter_op(op, name);
    detail::check_value_rows(g, name);
    check_same_rows(dy.rows(), dy.row_shape(), g, {name, "dy"});
    check_same_rows(dense.rows(), dense.row_shape(), g, {name, "the dense tensor"});
    const std::array sources{&g};
    const RowGroups<E, T> groups(executor, sources);
    const auto d = prepare(executor, {name, "ddense"}, ddense, SameLevels{dy.lod_view()}, dy.row_shape(),
                           {in_place("dy", dy), {"g", g.value()}, {"dense", dense}});
    RowsOutput<E, T> listed = prepare_like_rows(executor, {name, "dg"}, g, dg,
                                                {{"dy", dy}, {"g", g.value()}, {"dense", dense}, {"ddense", ddense}});
    copy_ids(executor, g, listed);
    copy_rows(executor, dy, d.data());
    with_scattered(op, [&](const auto& f) {
      launch(kernel::ScatterRowsGrad(), executor, f, groups.rows(), groups.order(), groups.groups(), g.row_size(),
             groups.ids(), dense.data(), d.data(), listed.data());
    });
  }
};

template <>
struct Declared<op::scale> : Takes<Of<SelectedRows>, Scalar>, Gives<Of<SelectedRows>> {
  static constexpr const char* name = "scale";
  template <class T>
  using Kernels = kernel::Instance<kernel::Map, kernel::Scaled, T>;
  template <Executor E, class T>
  static void run(const E& executor, const SelectedRows<T, typename E::device>& g, Scalar factor,
                  SelectedRows<T, typename E::device>& out) {
    static_cast<void>(detail::checked<T>(factor, name, "factor"));
    detail::check_value_rows(g, name);
    RowsOutput<E, T> scaled = prepare_like_rows(executor, name, g, out, {in_place("g", g.value())});
    copy_ids(executor, g, scaled);
    launch(kernel::Map(), executor, kernel::Scaled{factor}, g.value().data(), g.value().rows() * g.row_size(),
           scaled.data());
  }
};

}  // namespace operation

/// The gradients of `scatter`: dy is the gradient with respect to its result, `dense` the tensor as it was before. Rows
/// that g does not list keep their dy. Each listing of a repeated row gets its own gradient; for ASSIGN, all but the
/// last get 0. `ddense` may be dy's own tensor, but must not overlap the arguments otherwise; `dg` must not overlap
/// them at all. Throws ShapeMismatch if heights or row shapes differ.
inline constexpr operation::Call<op::scatter_grad> scatter_grad{};
inline constexpr operation::CallInto<op::scatter_grad> scatter_grad_into{};

/// The sum of two row-sparse tensors: the rows of a, then those of b, unchanged. Repeated rows stand for their sum;
/// `merge_add(a, b)` adds them up. The gradients are the first and the last rows of the gradient with respect to the
/// result. Throws ShapeMismatch unless both have the same height and row shape. `out` must be neither a nor b.
/// Semantics: PaddlePaddle's SelectedRowsAdd.
template <Executor E, class T>
void add_rows_into(op::add, const E& executor, const SelectedRows<T, typename E::device>& a,
                   const SelectedRows<T, typename E::device>& b, SelectedRows<T, typename E::device>& out) {
  detail::check_elements<op::add, T>();
  detail::check_value_rows(a, "add");
  detail::check_value_rows(b, "add");
  operation::check_same_rows(b.height(), b.row_shape(), a, "add");
  const std::int64_t first = a.value().rows(), second = b.value().rows(), row_size = a.row_size();
  const auto copy = [&](T* values) {
    launch(kernel::CopyValues(), executor, a.value().data(), first * row_size, values);
    launch(kernel::CopyValues(), executor, b.value().data(), second * row_size, values + first * row_size);
  };
  const std::array sources{&a, &b};
  operation::check_apart_from_rows<T, typename E::device>("add", out, sources);
  if constexpr (operation::on_cpu<E>) {
    const Workspace::Loan<std::int64_t> rows(executor.workspace(), first + second);
    std::copy(b.rows().begin(), b.rows().end(), std::copy(a.rows().begin(), a.rows().end(), rows.data()));
    operation::RowsOutput<E, T> both(executor, "add", out, rows.span(), a.height(), a.row_shape(), {});
    copy(both.data());
  } else {
    const operation::RowsOutput<E, T> both(executor, "add", out, first + second, a.height(), a.row_shape(), {});
    launch(kernel::CopyValues(), executor, a.rows().data(), first, both.ids());
    launch(kernel::CopyValues(), executor, b.rows().data(), second, both.ids() + first);
    copy(both.data());
  }
}
template <Executor E, class T>
[[nodiscard]] SelectedRows<T, typename E::device> add_rows(op::add, const E& executor,
                                                           const SelectedRows<T, typename E::device>& a,
                                                           const SelectedRows<T, typename E::device>& b) {
  SelectedRows<T, typename E::device> out(executor.resource());
  add_rows_into(op::add(), executor, a, b, out);
  return out;
}
template <class T, class Device>
[[nodiscard]] auto add_rows(op::add, const SelectedRows<T, Device>& a, const SelectedRows<T, Device>& b) {
  return add_rows(op::add(), default_executor<Device>(), a, b);
}

/// The sum of a row-sparse and a dense tensor, which is dense: y = x + g, rows and levels as x. The gradients with
/// respect to x and g are dy and `from_dense(dy, g.rows())`. `y` may be x's own tensor, but must not overlap x
/// otherwise. Throws as `scatter`.
template <Executor E, class T, LoDTensorLike X, class Y>
void add_rows_into(op::add, const E& executor, const SelectedRows<T, typename E::device>& g, const X& x, Y&& y) {
  static_assert(std::same_as<value_type_t<X>, T>, "add: the dense tensor is of the type of the rows");
  const auto view = x.view();
  detail::check_value_rows(g, "add");
  operation::check_same_rows(view.rows(), view.row_shape(), g, "add");
  const auto out =
      operation::prepare<value_type_t<X>>(executor, "add", y, operation::SameLevels{view.lod_view()}, view.row_shape(),
                                          {operation::in_place("x", view), {"g", g.value()}});
  const std::array sources{&g};
  const operation::RowGroups<E, T> groups(executor, sources);
  operation::copy_rows(executor, view, out.data());
  launch(kernel::ScatterSums(), executor, kernel::Scattered<ScatterOp::ADD>(), groups.rows(), groups.order(),
         groups.groups(), g.row_size(), groups.ids(), out.data());
}
template <Executor E, class T, LoDTensorLike X>
[[nodiscard]] LoDTensor<T, typename E::device> add_rows(op::add, const E& executor,
                                                        const SelectedRows<T, typename E::device>& g, const X& x) {
  LoDTensor<T, typename E::device> y(executor.resource());
  add_rows_into(op::add(), executor, g, x, y);
  return y;
}
template <class T, class Device, LoDTensorLike X>
[[nodiscard]] auto add_rows(op::add, const SelectedRows<T, Device>& g, const X& x) {
  return add_rows(op::add(), default_executor<Device>(), g, x);
}

/// The values times a number, with the same rows. 16-bit values are rounded once; products of integers wrap around.
/// Throws OutOfRange for a number that T cannot hold: integers take no fraction. The gradient is `scale` of dy. `out`
/// may be g, but must not overlap it otherwise.
inline constexpr operation::Call<op::scale> scale{};
inline constexpr operation::CallInto<op::scale> scale_into{};

/// The result of `add` of row-sparse tensors, described: see <lod/infer.hpp>. Here and below, row-sparse tensors are
/// described as the dense tensors that they represent.
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
}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET
