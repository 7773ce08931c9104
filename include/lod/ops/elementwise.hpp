// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup structure
/// Arithmetic element by element: with a tensor of the same levels, with one row for all, or with one row for each
/// sequence.
#pragma once

#include <lod/core/error.hpp>
#include <lod/core/lod_index.hpp>
#include <lod/core/scalar.hpp>
#include <lod/ops/arithmetic.hpp>
#include <lod/ops/declaration.hpp>
#include <lod/ops/infer.hpp>
#include <lod/ops/rearrange.hpp>
#include <lod/ops/sequence_pool.hpp>

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>

namespace lod::inline LOD_INTERFACE::op {
struct add : elements::Number {
  static constexpr Text text{"x, y",
                             "x + y, element by element: y has the rows of x, a single row for all of them, or one for "
                             "each sequence of `level`. Also the sum of SelectedRows and a tensor, or of two."};
};
struct add_grad : elements::Floating {
  static constexpr Text text{"dz, x, y", "The gradients of `add` with respect to x and y."};
};
struct sub : elements::Number {
  static constexpr Text text{"x, y", "x - y, with y as in `add`."};
};
struct sub_grad : elements::Floating {
  static constexpr Text text{"dz, x, y", "The gradients of `sub` with respect to x and y."};
};
struct mul : elements::Number {
  static constexpr Text text{"x, y", "x * y, with y as in `add`."};
};
struct mul_grad : elements::Floating {
  static constexpr Text text{"dz, x, y", "The gradients of `mul` with respect to x and y."};
};
struct div : elements::Number {
  static constexpr Text text{"x, y", "x / y, with y as in `add`. Integers are truncated."};
};
struct div_grad : elements::Floating {
  static constexpr Text text{"dz, x, y", "The gradients of `div` with respect to x and y."};
};
}  // namespace lod::inline LOD_INTERFACE::op

namespace lod::inline LOD_INTERFACE {

/// The options of `add`, `sub`, `mul` and `div`.
struct ElementwiseOptions {
  int level = -1;  ///< the level of x whose sequences have one row of y each, if y has that form
};

/// The results of the gradients of `add`, `sub`, `mul` and `div`.
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
  /// Throws OutOfRange for the level if x has any, and ShapeMismatch if y has none of its three forms.
  template <class X, class Y>
  Pairing(const E& executor, const X& x, const Y& y, const ElementwiseOptions& options, const char* what) {
    const int level = x.levels() > 0 ? detail::resolve_level(options.level, x.levels(), what) : -1;
    const bool same_rows = y.row_shape() == x.row_shape();
    is_same_ = same_rows && y.lod_view() == x.lod_view();
    if (is_same_) return;
    if (y.levels() == 0 && (y.shape() == x.row_shape() || (same_rows && y.rows() == 1))) {
      sequences_ = whole_.emplace(executor, x.rows()).segments();
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
  /// The sequences of x that have one row of y each, unless y has the levels of x.
  const kernel::Segments& sequences() const noexcept { return sequences_; }

  /// z = f(x, y).
  template <class F, class X, class T>
  void combine(const E& executor, const F& f, const X& x, const T* y, T* z) const {
    if (is_same_) {
      launch(kernel::Combine(), executor, f, x.data(), y, x.rows() * x.row_size(), z);
    } else {
      launch(kernel::CombineRows(), executor, f, x.data(), y, sequences_, x.row_size(), z);
    }
  }
  /// For each row of y the sum of its rows of `terms`, as `sequence_pool` computes it; the terms themselves if y has
  /// the levels of x.
  template <class T, class Device>
  void gather(const E& executor, const LoDTensorView<const T, Device>& terms, T* dy) const {
    if (is_same_) {
      copy_rows(executor, terms, dy);
    } else {
      launch(kernel::SequencePool(), executor, terms.data(), sequences_, terms.row_size(), PoolType::SUM, T{}, dy);
    }
  }

 private:
  std::optional<WholeBatch<E>> whole_;
  bool is_same_ = false;
  kernel::Segments sequences_{};
};

/// Throws OutOfRange if an integer would be divided by 0.
template <Executor E, class X, class Y>
void check_divisors(const X& x, const Y& y, const Pairing<E>& pairing) {
  const std::int64_t row_size = x.row_size();
  if (row_size == 0) return;  // however many rows there are
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

template <class Op, class F>
struct Elementwise : Takes<Tensor, Tensor>, With<ElementwiseOptions> {
  template <class T>
  using Kernels =
      kernel::Instances<kernel::Instance<kernel::Combine, F, T>, kernel::Instance<kernel::CombineRows, F, T>>;
  template <Executor E, class T>
  static void run(const E& executor, const Input<E, T>& x, const Input<E, T>& y, const ElementwiseOptions& options,
                  const To<E, T>& z) {
    const char* const what = Declared<Op>::name;
    const Pairing<E> pairing(executor, x, y, options, what);
    if constexpr (std::same_as<F, kernel::Divide> && std::integral<T> && on_cpu<E>) check_divisors(x, y, pairing);
    const auto out = prepare<T>(executor, what, z, SameLevels{x.lod_view()}, x.row_shape(),
                                {in_place("x", x), in_place("y", y, pairing.is_same())});
    pairing.combine(executor, F(), x, y.data(), out.data());
  }
};

template <class Op, class F>
struct ElementwiseGradient : Takes<Tensor, Tensor, Tensor>,
                             With<ElementwiseOptions>,
                             GivesAll<ElementwiseGrad, Tensor, Tensor> {
  template <Executor E, class T>
  static void run(const E& executor, const Input<E, T>& dz, const Input<E, T>& x, const Input<E, T>& y,
                  const ElementwiseOptions& options, const To<E, T>& dx, const To<E, T>& dy) {
    const char* const what = Declared<Op>::name;
    const Pairing<E> pairing(executor, x, y, options, what);
    check_row_count(dz.rows(), x.rows(), what);
    check_row_shape(dz.row_shape(), x.row_shape(), what);
    const SameLevels as_x{x.lod_view()}, as_y{y.lod_view()};
    const auto to_x = prepare<T>(executor, {what, "dx"}, dx, as_x, x.row_shape(), {{"dz", dz}, {"x", x}, {"y", y}});
    const auto to_y =
        prepare<T>(executor, {what, "dy"}, dy, as_y, y.row_shape(), {{"dz", dz}, {"x", x}, {"y", y}, {"dx", dx}});
    // The sums first: everything else that writes to the outputs takes no memory.
    if constexpr (std::same_as<F, kernel::Add> || std::same_as<F, kernel::Subtract>) {
      pairing.gather(executor, dz, to_y.data());
      if constexpr (std::same_as<F, kernel::Subtract>) {
        const std::int64_t count = y.rows() * y.row_size();
        launch(kernel::Combine(), executor, kernel::Negate(), to_y.view().data(), to_y.view().data(), count,
               to_y.data());
      }
      copy_rows(executor, dz, to_x.data());
    } else {
      const std::int64_t count = x.rows() * x.row_size();
      const kernel::Scratch<E, T> terms(executor, count);
      const Input<E, T> rows(terms.data(), x.lod_view(), &x.row_shape(), x.row_size());
      // Both gradients need quotients: these are computed twice only if memory may run out in between.
      constexpr bool is_product = std::same_as<F, kernel::Multiply>;
      const bool last = is_product || (std::derived_from<E, CpuExecutor> && !pairing.is_same());
      if constexpr (is_product) {
        launch(kernel::Combine(), executor, kernel::Multiply(), dz.data(), x.data(), count, terms.data());
      } else {  // - dz / y * x / y
        T* const quotients = last ? terms.data() : to_x.data();
        pairing.combine(executor, F(), dz, y.data(), quotients);
        launch(kernel::Combine(), executor, kernel::Multiply(), static_cast<const T*>(quotients), x.data(), count,
               terms.data());
        pairing.combine(executor, kernel::NegatedQuotient(), rows, y.data(), terms.data());
      }
      pairing.gather(executor, rows, to_y.data());
      if (last) pairing.combine(executor, F(), dz, y.data(), to_x.data());  // dz * y, dz / y
    }
  }
};

template <>
struct Declared<op::add> : Elementwise<op::add, kernel::Add> {
  static constexpr const char* name = "add";
  using Gradient = op::add_grad;
};
template <>
struct Declared<op::add_grad> : ElementwiseGradient<op::add_grad, kernel::Add> {
  static constexpr const char* name = "add_grad";
};
template <>
struct Declared<op::sub> : Elementwise<op::sub, kernel::Subtract> {
  static constexpr const char* name = "sub";
  using Gradient = op::sub_grad;
};
template <>
struct Declared<op::sub_grad> : ElementwiseGradient<op::sub_grad, kernel::Subtract> {
  static constexpr const char* name = "sub_grad";
  template <class T>
  using Kernels = kernel::Instance<kernel::Combine, kernel::Negate, T>;
};
template <>
struct Declared<op::mul> : Elementwise<op::mul, kernel::Multiply> {
  static constexpr const char* name = "mul";
  using Gradient = op::mul_grad;
};
template <>
struct Declared<op::mul_grad> : ElementwiseGradient<op::mul_grad, kernel::Multiply> {
  static constexpr const char* name = "mul_grad";
};
template <>
struct Declared<op::div> : Elementwise<op::div, kernel::Divide> {
  static constexpr const char* name = "div";
  using Gradient = op::div_grad;
};
template <>
struct Declared<op::div_grad> : ElementwiseGradient<op::div_grad, kernel::Divide> {
  static constexpr const char* name = "div_grad";
  template <class T>
  using Kernels = typename Elementwise<op::div_grad, kernel::NegatedQuotient>::template Kernels<T>;
};

/// The arguments of the `add` of <lod/ops/row_sparse.hpp>, by value or with the output last.
template <class... Arguments>
concept SumOfRows = requires(const Arguments&... arguments) {
  add_rows(op::add(), arguments...);
};
template <class... Arguments>
concept SumOfRowsInto = requires(Arguments&... arguments) {
  add_rows_into(op::add(), arguments...);
};
template <>
struct Call<op::add> : Forms<op::add, Takes<Tensor, Tensor>> {
  using Forms::operator();
  template <class... Arguments>
    requires SumOfRows<Arguments...>
  [[nodiscard]] auto operator()(const Arguments&... arguments) const { return add_rows(op::add(), arguments...); }
};
template <>
struct CallInto<op::add> : FormsInto<op::add, Takes<Tensor, Tensor>> {
  using FormsInto::operator();
  template <class... Arguments>
    requires SumOfRowsInto<Arguments...>
  void operator()(Arguments&&... arguments) const { add_rows_into(op::add(), arguments...); }
};

}  // namespace operation

/// z = x + y, element by element. Rows and levels as x. y has one of three forms:
///
/// - a tensor with the levels and the row shape of x: z[i] = x[i] + y[i];
/// - one row, which is added to each row of x: its shape is x's row shape, or {1, row shape...};
/// - one row for each sequence of `options.level` of x, added to each row of that sequence: y has no level, or the
///   levels of x above `options.level`, as the result of `sequence_pool`.
///
/// Integers wrap around; float16 and bfloat16 are rounded once. `z` may be x's own tensor, or that of a y with the
/// levels of x, but must not overlap them otherwise. Throws ShapeMismatch if y has none of the three forms, and, if x
/// has levels, OutOfRange for `options.level`, whatever the form of y.
inline constexpr operation::Call<op::add> add{};
inline constexpr operation::CallInto<op::add> add_into{};

/// The gradients of `add`: dx is dz; dy is dz too if y has the levels of x, otherwise, for each row of y, the sum of dz
/// over the rows that it was added to (0 for an empty sequence), as `sequence_pool` computes it. x, y and options are
/// those of `add`; only the structure of x and y matters. The levels of dz are ignored. The outputs must not overlap
/// the arguments. Throws as `add`, and ShapeMismatch unless dz has the rows and the row shape of x.
inline constexpr operation::Call<op::add_grad> add_grad{};
inline constexpr operation::CallInto<op::add_grad> add_grad_into{};

/// z = x - y. Otherwise as `add`.
inline constexpr operation::Call<op::sub> sub{};
inline constexpr operation::CallInto<op::sub> sub_into{};

/// The gradients of `sub`: those of `add`, with dy negated.
inline constexpr operation::Call<op::sub_grad> sub_grad{};
inline constexpr operation::CallInto<op::sub_grad> sub_grad_into{};

/// z = x * y. Otherwise as `add`.
inline constexpr operation::Call<op::mul> mul{};
inline constexpr operation::CallInto<op::mul> mul_into{};

/// The gradients of `mul`: dx = dz * y, and dy = dz * x, summed as by `add_grad`.
inline constexpr operation::Call<op::mul_grad> mul_grad{};
inline constexpr operation::CallInto<op::mul_grad> mul_grad_into{};

/// z = x / y. Integer quotients are truncated. Otherwise as `add`. Throws OutOfRange if an integer would be divided by
/// 0; on a GPU, where that is not checked, the quotient is unspecified.
template <Executor E, LoDTensorLike X, LoDTensorLike Y>
[[nodiscard]] auto div(const E& executor, const X& x, const Y& y, const ElementwiseOptions& options = {}) {
  return operation::Call<op::div>()(executor, x, y, options);
}
template <LoDTensorLike X, LoDTensorLike Y>
[[nodiscard]] auto div(const X& x, const Y& y, const ElementwiseOptions& options = {}) {
  return div(default_executor<device_t<X>>(), x, y, options);
}
inline constexpr operation::CallInto<op::div> div_into{};

/// The gradients of `div`: dx = dz / y, and dy = -dz * x / y / y, summed as by `add_grad`.
inline constexpr operation::Call<op::div_grad> div_grad{};
inline constexpr operation::CallInto<op::div_grad> div_grad_into{};

namespace operation {

template <class Op>
LoDTensorDesc infer_elementwise(const LoDTensorDesc& x, const LoDTensorDesc& y, const ElementwiseOptions& options) {
  const char* const what = Declared<Op>::name;
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

/// The results of `add`, `sub`, `mul` and `div`, described: see <lod/infer.hpp>.
inline LoDTensorDesc infer_add(const LoDTensorDesc& x, const LoDTensorDesc& y, const ElementwiseOptions& options = {}) {
  return operation::infer_elementwise<op::add>(x, y, options);
}
inline LoDTensorDesc infer_sub(const LoDTensorDesc& x, const LoDTensorDesc& y, const ElementwiseOptions& options = {}) {
  return operation::infer_elementwise<op::sub>(x, y, options);
}
inline LoDTensorDesc infer_mul(const LoDTensorDesc& x, const LoDTensorDesc& y, const ElementwiseOptions& options = {}) {
  return operation::infer_elementwise<op::mul>(x, y, options);
}
inline LoDTensorDesc infer_div(const LoDTensorDesc& x, const LoDTensorDesc& y, const ElementwiseOptions& options = {}) {
  return operation::infer_elementwise<op::div>(x, y, options);
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET
