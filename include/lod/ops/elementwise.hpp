// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup structure
/// Arithmetic element by element: with a tensor of the same levels, with one row for all, or with one row for each
/// sequence.
#pragma once

#include <lod/error.hpp>
#include <lod/infer.hpp>
#include <lod/kernel.hpp>
#include <lod/lod_index.hpp>
#include <lod/ops/arithmetic.hpp>
#include <lod/ops/rearrange.hpp>
#include <lod/ops/sequence_pool.hpp>
#include <lod/output.hpp>
#include <lod/scalar.hpp>
#include <lod/supports.hpp>
#include <lod/target.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

namespace lod::inline LOD_INTERFACE::op {
struct add : elements::Number {};
struct add_grad : elements::Floating {};
struct sub : elements::Number {};
struct sub_grad : elements::Floating {};
struct mul : elements::Number {};
struct mul_grad : elements::Floating {};
struct div : elements::Number {};
struct div_grad : elements::Floating {};
}  // namespace lod::inline LOD_INTERFACE::op

namespace lod::inline LOD_INTERFACE {

/// The options of `add`, `sub`, `mul` and `div`.
struct ElementwiseOptions {
  int level = -1;  ///< the level of x whose sequences have a row of y each, where that is the form of y
};

/// What the gradients of `add`, `sub`, `mul` and `div` give.
template <class T, class Device = Cpu>
struct ElementwiseGrad {
  LoDTensor<T, Device> x;  ///< rows and levels as x
  LoDTensor<T, Device> y;  ///< rows and levels as y
};

}  // namespace lod::inline LOD_INTERFACE

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {

namespace operation {

/// Which rows of y go with which rows of x.
template <Executor E>
class Pairing {
 public:
  /// Throws OutOfRange for the level, where x has one, and ShapeMismatch where y has none of the forms that it may
  /// have.
  template <class X, class Y>
  Pairing(const E& executor, const X& x, const Y& y, const ElementwiseOptions& options, const char* what)
      : whole_(executor, x.rows()) {
    const int level = x.levels() > 0 ? detail::resolve_level(options.level, x.levels(), what) : -1;
    const bool same_rows = y.row_shape() == x.row_shape();
    is_same_ = same_rows && y.lod_view() == x.lod_view();
    if (is_same_) return;
    if (y.levels() == 0 && (y.shape() == x.row_shape() || (same_rows && y.rows() == 1))) {
      sequences_ = whole_.segments();
      return;
    }
    if (level >= 0) {
      const bool above =
          y.levels() == 0 || (y.levels() == level && LoDView::equal_levels(x.lod_view(), y.lod_view(), level));
      if (same_rows && above && y.rows() == x.lod_view().size(level)) {
        sequences_ = segments(executor, x, level);
        return;
      }
    }
    throw ShapeMismatch(
        detail::text({what, ": y of shape ", to_string(y.shape()), " with ", y.levels(),
                      " levels, expected the levels and the shape ", to_string(x.shape()), " of x, or a row of shape ",
                      to_string(x.row_shape()), level < 0 ? "" : ", or one for each sequence of level ",
                      level < 0 ? "" : std::to_string(level)}));
  }
  Pairing(const Pairing&) = delete;
  Pairing& operator=(const Pairing&) = delete;

  bool is_same() const noexcept { return is_same_; }
  /// The sequences of x that have a row of y each, where y is not the same as x.
  const kernel::Segments& sequences() const noexcept { return sequences_; }

  /// z = f(x, y).
  template <class F, class X, class T>
  void combine(const E& executor, const F& f, const X& x, const T* y, T* z) const {
    if (is_same_) {
      kernel::Combine<E>::run(executor, f, x.data(), y, x.rows() * x.row_size(), z);
    } else {
      kernel::CombineRows<E>::run(executor, f, x.data(), y, sequences_, x.row_size(), z);
    }
  }
  /// Sums of the rows of `terms`, one for each row of y, as `sequence_pool` has them; the terms themselves where y is
  /// the same as x.
  template <class T, class Device>
  void gather(const E& executor, const LoDTensorView<const T, Device>& terms, T* dy) const {
    if (is_same_) {
      copy_rows(executor, terms, dy);
    } else {
      kernel::SequencePool<E>::run(executor, terms.data(), sequences_, terms.row_size(), PoolType::SUM, T{}, dy);
    }
  }

 private:
  WholeBatch<E> whole_;
  bool is_same_ = false;
  kernel::Segments sequences_{};
};

/// Throws OutOfRange where an integer would be divided by 0.
template <Executor E, class X, class Y>
void check_divisors(const X& x, const Y& y, const Pairing<E>& pairing) {
  const std::int64_t row_size = x.row_size();
  const auto check = [&](std::int64_t row) {
    for (std::int64_t i = row * row_size; i < (row + 1) * row_size; ++i) {
      if (y.data()[i] == 0) throw OutOfRange(detail::text({"div: number ", i, " of y is 0"}));
    }
  };
  if (pairing.is_same()) {
    for (std::int64_t row = 0; row < x.rows(); ++row) check(row);
  } else {
    for (std::int64_t i = 0; i < pairing.sequences().size; ++i) {
      if (pairing.sequences().length(i) > 0) check(i);
    }
  }
}

template <class Op, class Operation, Executor E, LoDTensorLike X, LoDTensorLike Y, class Z>
void elementwise_into(const E& executor, const X& x, const Y& y, const ElementwiseOptions& options, const char* what,
                      Z&& z) {
  using T = value_type_t<X>;
  static_assert(std::same_as<value_type_t<Y>, T>, "add, sub, mul, div: x and y must have one element type");
  detail::check_elements<Op, T>();
  const auto a = x.view();
  const auto b = y.view();
  const Pairing<E> pairing(executor, a, b, options, what);
  if constexpr (std::same_as<Operation, Divide> && std::integral<T> && on_cpu<E>) check_divisors(a, b, pairing);
  const auto out = prepare<T>(executor, what, z, SameLevels{a.lod_view()}, a.row_shape(),
                              {operation::in_place("x", a), operation::in_place("y", b, pairing.is_same())});
  pairing.combine(executor, Operation(), a, b.data(), out.data());
}

template <class Op, class Operation, Executor E, LoDTensorLike DZ, LoDTensorLike X, LoDTensorLike Y, class DX, class DY>
void elementwise_grad_into(const E& executor, const DZ& dz, const X& x, const Y& y, const ElementwiseOptions& options,
                           const char* what, DX&& dx, DY&& dy) {
  using T = value_type_t<X>;
  static_assert(std::same_as<value_type_t<Y>, T> && std::same_as<value_type_t<DZ>, T>,
                "the gradients of add, sub, mul, div: dz, x and y must have one element type");
  detail::check_elements<Op, T>();
  const auto a = x.view();
  const auto b = y.view();
  // The levels of dz do not count.
  const auto d = dz.view();
  const Pairing<E> pairing(executor, a, b, options, what);
  check_row_count(d.rows(), a.rows(), what);
  check_row_shape(d.row_shape(), a.row_shape(), what);
  const SameLevels as_x{a.lod_view()}, as_y{b.lod_view()};
  const auto da = prepare<T>(executor, {what, "dx"}, dx, as_x, a.row_shape(), {{"dz", d}, {"x", a}, {"y", b}});
  const auto db =
      prepare<T>(executor, {what, "dy"}, dy, as_y, b.row_shape(), {{"dz", d}, {"x", a}, {"y", b}, {"dx", dx}});
  // The sums first: what else writes to the outputs needs no memory.
  if constexpr (std::same_as<Operation, Add> || std::same_as<Operation, Subtract>) {
    pairing.gather(executor, d, db.data());
    if constexpr (std::same_as<Operation, Subtract>) {
      const std::int64_t count = b.rows() * b.row_size();
      kernel::Combine<E>::run(executor, Negate(), db.view().data(), db.view().data(), count, db.data());
    }
    copy_rows(executor, d, da.data());
  } else {
    const std::int64_t count = a.rows() * a.row_size();
    const kernel::Scratch<E, T> terms(executor, count);
    const LoDTensorView<const T, device_t<X>> rows(terms.data(), a.lod_view(), &a.row_shape(), a.row_size());
    // Quotients are needed for both: they are computed twice only where memory may run out between the two.
    constexpr bool is_product = std::same_as<Operation, Multiply>;
    const bool last = is_product || (std::same_as<E, CpuExecutor> && !pairing.is_same());
    if constexpr (is_product) {
      kernel::Combine<E>::run(executor, Multiply(), d.data(), a.data(), count, terms.data());
    } else {  // - dz / y * x / y
      T* const quotients = last ? terms.data() : da.data();
      pairing.combine(executor, Operation(), d, b.data(), quotients);
      kernel::Combine<E>::run(executor, Multiply(), static_cast<const T*>(quotients), a.data(), count, terms.data());
      pairing.combine(executor, NegatedQuotient(), rows, b.data(), terms.data());
    }
    pairing.gather(executor, rows, db.data());
    if (last) pairing.combine(executor, Operation(), d, b.data(), da.data());  // dz * y, dz / y
  }
}

}  // namespace operation

/// z = x + y, element by element. Rows and levels as x. y is one of three:
///
/// - a tensor with the levels and the row shape of x: z[i] = x[i] + y[i];
/// - one row, which is added to each of x: of the shape of a row of x, or of the shape {1, row shape...};
/// - one row for each sequence of `options.level` of x, added to each row of that sequence: without a level, or with
///   the levels of x above, as `sequence_pool` gives it.
///
/// Integers wrap around; float16 and bfloat16 are rounded once. `z` may be x's own tensor, or that of a
/// y with the levels of x, but overlap in no other way.
/// Throws ShapeMismatch where y is none of the three, OutOfRange for the level, whichever y is, where x has one.
template <Executor E, LoDTensorLike X, LoDTensorLike Y, class Z>
void add_into(const E& executor, const X& x, const Y& y, const ElementwiseOptions& options, Z&& z) {
  operation::elementwise_into<op::add, operation::Add>(executor, x, y, options, "add", z);
}
template <Executor E, LoDTensorLike X, LoDTensorLike Y, class Z>
void add_into(const E& executor, const X& x, const Y& y, Z&& z) {
  add_into(executor, x, y, ElementwiseOptions{}, z);
}
template <Executor E, LoDTensorLike X, LoDTensorLike Y>
[[nodiscard]] LoDTensor<value_type_t<X>, device_t<X>> add(const E& executor, const X& x, const Y& y,
                                                          const ElementwiseOptions& options = {}) {
  LoDTensor<value_type_t<X>, device_t<X>> z(executor.resource());
  add_into(executor, x, y, options, z);
  return z;
}
template <LoDTensorLike X, LoDTensorLike Y>
[[nodiscard]] auto add(const X& x, const Y& y, const ElementwiseOptions& options = {}) {
  return add(default_executor<device_t<X>>(), x, y, options);
}

/// The gradients of `add`: that by x is dz; that by y is dz too, where y is like x, else the sum of dz over the rows
/// that a row of y was added to, 0 for an empty sequence. Sums as in `sequence_pool`. x, y and options are those of
/// `add`; of x only the structure counts, of y too. The levels of dz do not count. The outputs must not overlap the
/// arguments. Throws as `add`, and ShapeMismatch unless dz has the rows and the row shape of x.
template <Executor E, LoDTensorLike DZ, LoDTensorLike X, LoDTensorLike Y, class DX, class DY>
void add_grad_into(const E& executor, const DZ& dz, const X& x, const Y& y, const ElementwiseOptions& options, DX&& dx,
                   DY&& dy) {
  operation::elementwise_grad_into<op::add_grad, operation::Add>(executor, dz, x, y, options, "add_grad", dx, dy);
}
template <Executor E, LoDTensorLike DZ, LoDTensorLike X, LoDTensorLike Y, class DX, class DY>
void add_grad_into(const E& executor, const DZ& dz, const X& x, const Y& y, DX&& dx, DY&& dy) {
  add_grad_into(executor, dz, x, y, ElementwiseOptions{}, dx, dy);
}
template <Executor E, LoDTensorLike DZ, LoDTensorLike X, LoDTensorLike Y>
[[nodiscard]] ElementwiseGrad<value_type_t<X>, device_t<X>> add_grad(const E& executor, const DZ& dz, const X& x,
                                                                     const Y& y,
                                                                     const ElementwiseOptions& options = {}) {
  using Tensor = LoDTensor<value_type_t<X>, device_t<X>>;
  ElementwiseGrad<value_type_t<X>, device_t<X>> d{Tensor(executor.resource()), Tensor(executor.resource())};
  add_grad_into(executor, dz, x, y, options, d.x, d.y);
  return d;
}
template <LoDTensorLike DZ, LoDTensorLike X, LoDTensorLike Y>
[[nodiscard]] auto add_grad(const DZ& dz, const X& x, const Y& y, const ElementwiseOptions& options = {}) {
  return add_grad(default_executor<device_t<X>>(), dz, x, y, options);
}

/// z = x - y. Otherwise as `add`.
template <Executor E, LoDTensorLike X, LoDTensorLike Y, class Z>
void sub_into(const E& executor, const X& x, const Y& y, const ElementwiseOptions& options, Z&& z) {
  operation::elementwise_into<op::sub, operation::Subtract>(executor, x, y, options, "sub", z);
}
template <Executor E, LoDTensorLike X, LoDTensorLike Y, class Z>
void sub_into(const E& executor, const X& x, const Y& y, Z&& z) {
  sub_into(executor, x, y, ElementwiseOptions{}, z);
}
template <Executor E, LoDTensorLike X, LoDTensorLike Y>
[[nodiscard]] LoDTensor<value_type_t<X>, device_t<X>> sub(const E& executor, const X& x, const Y& y,
                                                          const ElementwiseOptions& options = {}) {
  LoDTensor<value_type_t<X>, device_t<X>> z(executor.resource());
  sub_into(executor, x, y, options, z);
  return z;
}
template <LoDTensorLike X, LoDTensorLike Y>
[[nodiscard]] auto sub(const X& x, const Y& y, const ElementwiseOptions& options = {}) {
  return sub(default_executor<device_t<X>>(), x, y, options);
}

/// The gradients of `sub`: as those of `add`, that by y with the opposite sign.
template <Executor E, LoDTensorLike DZ, LoDTensorLike X, LoDTensorLike Y, class DX, class DY>
void sub_grad_into(const E& executor, const DZ& dz, const X& x, const Y& y, const ElementwiseOptions& options, DX&& dx,
                   DY&& dy) {
  operation::elementwise_grad_into<op::sub_grad, operation::Subtract>(executor, dz, x, y, options, "sub_grad", dx, dy);
}
template <Executor E, LoDTensorLike DZ, LoDTensorLike X, LoDTensorLike Y, class DX, class DY>
void sub_grad_into(const E& executor, const DZ& dz, const X& x, const Y& y, DX&& dx, DY&& dy) {
  sub_grad_into(executor, dz, x, y, ElementwiseOptions{}, dx, dy);
}
template <Executor E, LoDTensorLike DZ, LoDTensorLike X, LoDTensorLike Y>
[[nodiscard]] ElementwiseGrad<value_type_t<X>, device_t<X>> sub_grad(const E& executor, const DZ& dz, const X& x,
                                                                     const Y& y,
                                                                     const ElementwiseOptions& options = {}) {
  using Tensor = LoDTensor<value_type_t<X>, device_t<X>>;
  ElementwiseGrad<value_type_t<X>, device_t<X>> d{Tensor(executor.resource()), Tensor(executor.resource())};
  sub_grad_into(executor, dz, x, y, options, d.x, d.y);
  return d;
}
template <LoDTensorLike DZ, LoDTensorLike X, LoDTensorLike Y>
[[nodiscard]] auto sub_grad(const DZ& dz, const X& x, const Y& y, const ElementwiseOptions& options = {}) {
  return sub_grad(default_executor<device_t<X>>(), dz, x, y, options);
}

/// z = x * y. Otherwise as `add`.
template <Executor E, LoDTensorLike X, LoDTensorLike Y, class Z>
void mul_into(const E& executor, const X& x, const Y& y, const ElementwiseOptions& options, Z&& z) {
  operation::elementwise_into<op::mul, operation::Multiply>(executor, x, y, options, "mul", z);
}
template <Executor E, LoDTensorLike X, LoDTensorLike Y, class Z>
void mul_into(const E& executor, const X& x, const Y& y, Z&& z) {
  mul_into(executor, x, y, ElementwiseOptions{}, z);
}
template <Executor E, LoDTensorLike X, LoDTensorLike Y>
[[nodiscard]] LoDTensor<value_type_t<X>, device_t<X>> mul(const E& executor, const X& x, const Y& y,
                                                          const ElementwiseOptions& options = {}) {
  LoDTensor<value_type_t<X>, device_t<X>> z(executor.resource());
  mul_into(executor, x, y, options, z);
  return z;
}
template <LoDTensorLike X, LoDTensorLike Y>
[[nodiscard]] auto mul(const X& x, const Y& y, const ElementwiseOptions& options = {}) {
  return mul(default_executor<device_t<X>>(), x, y, options);
}

/// The gradients of `mul`: dz * y by x, and by y dz * x, summed as `add_grad` does.
template <Executor E, LoDTensorLike DZ, LoDTensorLike X, LoDTensorLike Y, class DX, class DY>
void mul_grad_into(const E& executor, const DZ& dz, const X& x, const Y& y, const ElementwiseOptions& options, DX&& dx,
                   DY&& dy) {
  operation::elementwise_grad_into<op::mul_grad, operation::Multiply>(executor, dz, x, y, options, "mul_grad", dx, dy);
}
template <Executor E, LoDTensorLike DZ, LoDTensorLike X, LoDTensorLike Y, class DX, class DY>
void mul_grad_into(const E& executor, const DZ& dz, const X& x, const Y& y, DX&& dx, DY&& dy) {
  mul_grad_into(executor, dz, x, y, ElementwiseOptions{}, dx, dy);
}
template <Executor E, LoDTensorLike DZ, LoDTensorLike X, LoDTensorLike Y>
[[nodiscard]] ElementwiseGrad<value_type_t<X>, device_t<X>> mul_grad(const E& executor, const DZ& dz, const X& x,
                                                                     const Y& y,
                                                                     const ElementwiseOptions& options = {}) {
  using Tensor = LoDTensor<value_type_t<X>, device_t<X>>;
  ElementwiseGrad<value_type_t<X>, device_t<X>> d{Tensor(executor.resource()), Tensor(executor.resource())};
  mul_grad_into(executor, dz, x, y, options, d.x, d.y);
  return d;
}
template <LoDTensorLike DZ, LoDTensorLike X, LoDTensorLike Y>
[[nodiscard]] auto mul_grad(const DZ& dz, const X& x, const Y& y, const ElementwiseOptions& options = {}) {
  return mul_grad(default_executor<device_t<X>>(), dz, x, y, options);
}

/// z = x / y. Integers are truncated. Otherwise as `add`; throws OutOfRange where an integer would be divided by 0; on
/// a GPU, where nobody waits to look, that quotient is not specified.
template <Executor E, LoDTensorLike X, LoDTensorLike Y, class Z>
void div_into(const E& executor, const X& x, const Y& y, const ElementwiseOptions& options, Z&& z) {
  operation::elementwise_into<op::div, operation::Divide>(executor, x, y, options, "div", z);
}
template <Executor E, LoDTensorLike X, LoDTensorLike Y, class Z>
void div_into(const E& executor, const X& x, const Y& y, Z&& z) {
  div_into(executor, x, y, ElementwiseOptions{}, z);
}
template <Executor E, LoDTensorLike X, LoDTensorLike Y>
[[nodiscard]] LoDTensor<value_type_t<X>, device_t<X>> div(const E& executor, const X& x, const Y& y,
                                                          const ElementwiseOptions& options = {}) {
  LoDTensor<value_type_t<X>, device_t<X>> z(executor.resource());
  div_into(executor, x, y, options, z);
  return z;
}
template <LoDTensorLike X, LoDTensorLike Y>
[[nodiscard]] auto div(const X& x, const Y& y, const ElementwiseOptions& options = {}) {
  return div(default_executor<device_t<X>>(), x, y, options);
}

/// The gradients of `div`: dz / y by x, and by y -dz * x / y / y, summed as `add_grad` does.
template <Executor E, LoDTensorLike DZ, LoDTensorLike X, LoDTensorLike Y, class DX, class DY>
void div_grad_into(const E& executor, const DZ& dz, const X& x, const Y& y, const ElementwiseOptions& options, DX&& dx,
                   DY&& dy) {
  operation::elementwise_grad_into<op::div_grad, operation::Divide>(executor, dz, x, y, options, "div_grad", dx, dy);
}
template <Executor E, LoDTensorLike DZ, LoDTensorLike X, LoDTensorLike Y, class DX, class DY>
void div_grad_into(const E& executor, const DZ& dz, const X& x, const Y& y, DX&& dx, DY&& dy) {
  div_grad_into(executor, dz, x, y, ElementwiseOptions{}, dx, dy);
}
template <Executor E, LoDTensorLike DZ, LoDTensorLike X, LoDTensorLike Y>
[[nodiscard]] ElementwiseGrad<value_type_t<X>, device_t<X>> div_grad(const E& executor, const DZ& dz, const X& x,
                                                                     const Y& y,
                                                                     const ElementwiseOptions& options = {}) {
  using Tensor = LoDTensor<value_type_t<X>, device_t<X>>;
  ElementwiseGrad<value_type_t<X>, device_t<X>> d{Tensor(executor.resource()), Tensor(executor.resource())};
  div_grad_into(executor, dz, x, y, options, d.x, d.y);
  return d;
}
template <LoDTensorLike DZ, LoDTensorLike X, LoDTensorLike Y>
[[nodiscard]] auto div_grad(const DZ& dz, const X& x, const Y& y, const ElementwiseOptions& options = {}) {
  return div_grad(default_executor<device_t<X>>(), dz, x, y, options);
}

namespace operation {

template <class Op>
LoDTensorDesc infer_elementwise(const LoDTensorDesc& x, const LoDTensorDesc& y, const ElementwiseOptions& options,
                                const char* what) {
  const infer::Batch a = infer::batch_for<Op>(x, what), b(y, what);
  infer::check_type(b.type, a.type, what);
  const int level = a.levels > 0 ? detail::resolve_level(options.level, a.levels, what) : -1;
  const bool same_rows = infer::agree(a.row_shape, b.row_shape);
  if (same_rows && a.levels == b.levels && infer::agree(a.rows, b.rows)) return a;
  if (b.levels == 0 && (infer::agree(y.tensor.dims, a.row_shape) || (same_rows && infer::agree(b.rows, 1)))) return a;
  if (level >= 0 && same_rows && (b.levels == 0 || b.levels == level)) return a;
  throw ShapeMismatch(detail::text({what, ": y of shape ", infer::to_string(y.tensor.dims), " with ", b.levels,
                                    " levels, expected the levels and the shape ", infer::to_string(x.tensor.dims),
                                    " of x, or a row of it",
                                    level >= 0 ? ", or one for each sequence of the level of the options" : ""}));
}

}  // namespace operation

/// What `add`, `sub`, `mul` and `div` give, described: see <lod/infer.hpp>.
inline LoDTensorDesc infer_add(const LoDTensorDesc& x, const LoDTensorDesc& y, const ElementwiseOptions& options = {}) {
  return operation::infer_elementwise<op::add>(x, y, options, "add");
}
inline LoDTensorDesc infer_sub(const LoDTensorDesc& x, const LoDTensorDesc& y, const ElementwiseOptions& options = {}) {
  return operation::infer_elementwise<op::sub>(x, y, options, "sub");
}
inline LoDTensorDesc infer_mul(const LoDTensorDesc& x, const LoDTensorDesc& y, const ElementwiseOptions& options = {}) {
  return operation::infer_elementwise<op::mul>(x, y, options, "mul");
}
inline LoDTensorDesc infer_div(const LoDTensorDesc& x, const LoDTensorDesc& y, const ElementwiseOptions& options = {}) {
  return operation::infer_elementwise<op::div>(x, y, options, "div");
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET
