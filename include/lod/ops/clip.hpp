// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup row_sparse
/// Clipping row-sparse gradients to bounds, or to a norm.
#pragma once

#include <lod/core/error.hpp>
#include <lod/core/executor.hpp>
#include <lod/core/scalar.hpp>
#include <lod/core/selected_rows.hpp>
#include <lod/core/target.hpp>
#include <lod/ops/declaration.hpp>
#include <lod/ops/elementwise.hpp>
#include <lod/ops/infer.hpp>
#include <lod/ops/kernel.hpp>
#include <lod/ops/merge_rows.hpp>
#include <lod/ops/supports.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <stdexcept>

namespace lod::inline LOD_INTERFACE::op {
struct clip : elements::Number {
  static constexpr Text text{"g, least, greatest", "`merge_add(g)` with its values clipped to [least, greatest]."};
};
struct clip_grad : elements::Floating {
  static constexpr Text text{"dy, g, least, greatest", "The gradient of `clip`: 0 where a number was clipped."};
};
struct clip_by_norm : elements::Floating {
  static constexpr Text text{"g, norm", "`merge_add(g)`, scaled down to the length `norm` if it is longer."};
};
struct clip_by_norm_grad : elements::Floating {
  static constexpr Text text{"dy, g, norm"};
};
}  // namespace lod::inline LOD_INTERFACE::op

namespace lod::inline LOD_INTERFACE::kernel {
/// run(executor, x, count, norm): x[i] *= norm / length if length > norm, where length is the square root of the sum of
/// the squares, in double, even if squares overflow or underflow. If x is null, only takes the scratch memory.
struct ClipByNorm {};
/// run(executor, dy, x, groups, row_size, norm, d): its gradient, for an x with as many rows as there are groups. The
/// rows of dy whose groups are empty are ignored. d may be dy.
struct ClipByNormGrad {};

/// At least `least` and at most `greatest`; NaN stays.
struct Clipped {
  Scalar least, greatest;
  template <class N>
  LOD_TAGGED LOD_HOST_DEVICE N operator()(const N& x) const noexcept {
    if constexpr (std::integral<N>) {
      const N low = least.to<N>(), high = greatest.to<N>();
      return x < low ? low : x > high ? high : x;
    } else {
      const N low(least.to<typename N::value_type>()), high(greatest.to<typename N::value_type>());
      return select(x < low, low, select(x > high, high, x));
    }
  }
};

/// The gradient where the number was not clipped, otherwise 0.
struct ClippedGrad {
  Scalar least, greatest;
  template <class N>
  LOD_TAGGED LOD_HOST_DEVICE N operator()(const N& gradient, const N& x) const noexcept {
    using Number = typename N::value_type;
    const N low(least.to<Number>()), high(greatest.to<Number>());
    const N none(Number{});
    return select(x < low, none, select(x > high, none, gradient));
  }
};
}  // namespace lod::inline LOD_INTERFACE::kernel

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {

namespace operation {

/// first * a - second * b
struct Combined {
  double first, second;

  /// The factors of dy and x in the gradient of clipping x, of length `length`, to `norm`; `product` is x . dy.
  LOD_HOST_DEVICE static Combined clip_by_norm_grad(double length, double product, double norm) noexcept {
    const double factor = norm / length;
    return {factor, factor * (product / length / length)};
  }
  template <class N>
  LOD_HOST_DEVICE N operator()(const N& a, const N& b) const noexcept {
    using Number = typename N::value_type;
    return N(static_cast<Number>(first)) * a - N(static_cast<Number>(second)) * b;
  }
};

/// A bound as an integer, rounded by `round` if it lies between two, and clamped to T.
template <std::integral T>
T integer_bound(Scalar bound, double (*round)(double)) {
  constexpr T least = std::numeric_limits<T>::lowest(), greatest = std::numeric_limits<T>::max();
  if (bound.is_integer()) {
    return bound.to<double>() < 0
               ? static_cast<T>(std::max(bound.to<std::int64_t>(), static_cast<std::int64_t>(least)))
               : static_cast<T>(std::min(bound.to<std::uint64_t>(), static_cast<std::uint64_t>(greatest)));
  }
  const double rounded = round(bound.to<double>());
  if (rounded < static_cast<double>(least)) return least;
  // The greatest T may not be exact as a double, but the next power of two is.
  if (rounded >= std::ldexp(1.0, std::numeric_limits<T>::digits)) return greatest;
  return static_cast<T>(rounded);
}
/// A bound for floating-point numbers: a finite one beyond their range is clamped to it.
template <class T>
Scalar real_bound(Scalar bound) {
  using Limits = std::numeric_limits<T>;
  return bound.fits<T>() ? bound : Scalar(bound.to<double>() < 0 ? Limits::lowest() : Limits::max());
}
/// The bounds for numbers of type T. Throws unless they are valid bounds.
template <class T>
kernel::Clipped clipped(Scalar least, Scalar greatest, const char* what) {
  const detail::FloatingPointControl standard;
  if (!(least.to<double>() <= greatest.to<double>())) {
    throw std::invalid_argument(detail::text({what, ": the lower bound is ", to_string(least),
                                              ", expected not to exceed the upper one, ", to_string(greatest)}));
  }
  if constexpr (std::integral<T>) {
    using Wide = kernel::MappedInteger<T>;
    const Wide low = integer_bound<Wide>(least, std::ceil), high = integer_bound<Wide>(greatest, std::floor);
    if (low > high) {
      throw std::invalid_argument(detail::text({what, ": the bounds are ", to_string(least), " and ",
                                                to_string(greatest), ", expected an integer between them"}));
    }
    constexpr Wide first = std::numeric_limits<T>::lowest(), last = std::numeric_limits<T>::max();
    return {std::clamp(low, first, last), std::clamp(high, first, last)};
  } else {
    return {real_bound<T>(least), real_bound<T>(greatest)};
  }
}
inline void check_norm(double norm, const char* what) {
  if (!(norm >= 0)) {
    throw std::invalid_argument(
        detail::text({what, ": the norm is ", to_string(Scalar(norm)), ", expected 0 or more"}));
  }
}

/// The gradient of a function of the merged rows of g: change(x, dy, count, d) writes the gradient with respect to the
/// merged values x to d.
template <Executor E, class T, class Change>
void merged_grad_into(const E& executor, const char* what, const SelectedRows<T, typename E::device>& dy,
                      const SelectedRows<T, typename E::device>& g, SelectedRows<T, typename E::device>& dg,
                      const Change& change) {
  detail::check_value_rows(dy, what);
  detail::check_value_rows(g, what);
  check_same_rows(dy.height(), dy.row_shape(), g, what);
  const std::array sources{&g};
  const RowGroups<E, T> groups(executor, sources);
  const kernel::Segments merged = groups.groups();
  if constexpr (on_cpu<E>) {
    check_merged_ids(dy, {groups.ids(), static_cast<std::size_t>(merged.size)}, what);
  } else {
    check_row_count(dy.value().rows(), merged.size, what);
  }
  const std::int64_t count = merged.size * dy.row_size();
  const kernel::Scratch<E, T> x(executor, count), d(executor, count);
  RowsOutput<E, T> out = prepare_like_rows(executor, what, g, dg, {{"dy", dy.value()}, {"g", g.value()}});
  launch(kernel::SumGroups(), executor, PoolType::SUM, groups.rows(), groups.order(), merged, g.row_size(),
         static_cast<const std::int64_t*>(nullptr), x.data());
  change(static_cast<const T*>(x.data()), dy.value().data(), merged, d.data());
  copy_ids(executor, g, out);
  spread_groups(executor, static_cast<const T*>(d.data()), groups.order(), merged, dy.row_size(), out.data());
}

template <>
struct Declared<op::clip> : Takes<Of<SelectedRows>, Scalar, Scalar>, Gives<Of<SelectedRows>> {
  static constexpr const char* name = "clip";
  using Gradient = op::clip_grad;
  template <class T>
  using Kernels = kernel::Instance<kernel::Map, kernel::Clipped, T>;
  template <Executor E, class T>
  static void run(const E& executor, const SelectedRows<T, typename E::device>& g, Scalar least, Scalar greatest,
                  SelectedRows<T, typename E::device>& out) {
    const kernel::Clipped bounds = clipped<T>(least, greatest, name);
    detail::check_value_rows(g, name);
    const std::array sources{&g};
    merge_into<E, T>(executor, PoolType::SUM, name,
                     std::span<const SelectedRows<T, typename E::device>* const>(sources), out,
                     [&](T* values, std::int64_t count) {
                       if (values)
                         launch(kernel::Map(), executor, bounds, static_cast<const T*>(values), count, values);
                     });
  }
};

template <>
struct Declared<op::clip_grad> : Takes<Of<SelectedRows>, Of<SelectedRows>, Scalar, Scalar>, Gives<Of<SelectedRows>> {
  static constexpr const char* name = "clip_grad";
  template <class T>
  using Kernels = kernel::Instance<kernel::Combine, kernel::ClippedGrad, T>;
  template <Executor E, class T>
  static void run(const E& executor, const SelectedRows<T, typename E::device>& dy,
                  const SelectedRows<T, typename E::device>& g, Scalar least, Scalar greatest,
                  SelectedRows<T, typename E::device>& dg) {
    const kernel::Clipped bounds = clipped<T>(least, greatest, name);
    const auto change = [&](const T* x, const T* values, const kernel::Segments& groups, T* d) {
      launch(kernel::Combine(), executor, kernel::ClippedGrad{bounds.least, bounds.greatest}, values, x,
             groups.size * dy.row_size(), d);
    };
    merged_grad_into(executor, name, dy, g, dg, change);
  }
};

template <>
struct Declared<op::clip_by_norm>
    : Takes<Of<SelectedRows>, double>, Gives<Of<SelectedRows>>, Launches<kernel::ClipByNorm> {
  static constexpr const char* name = "clip_by_norm";
  using Gradient = op::clip_by_norm_grad;
  template <Executor E, class T>
  static void run(const E& executor, const SelectedRows<T, typename E::device>& g, double norm,
                  SelectedRows<T, typename E::device>& out) {
    check_norm(norm, name);
    detail::check_value_rows(g, name);
    const std::array sources{&g};
    merge_into<E, T>(
        executor, PoolType::SUM, name, std::span<const SelectedRows<T, typename E::device>* const>(sources), out,
        [&](T* values, std::int64_t count) { launch(kernel::ClipByNorm(), executor, values, count, norm); });
  }
};

template <>
struct Declared<op::clip_by_norm_grad>
    : Takes<Of<SelectedRows>, Of<SelectedRows>, double>, Gives<Of<SelectedRows>>, Launches<kernel::ClipByNormGrad> {
  static constexpr const char* name = "clip_by_norm_grad";
  template <Executor E, class T>
  static void run(const E& executor, const SelectedRows<T, typename E::device>& dy,
                  const SelectedRows<T, typename E::device>& g, double norm, SelectedRows<T, typename E::device>& dg) {
    check_norm(norm, name);
    const auto change = [&](const T* x, const T* values, const kernel::Segments& groups, T* d) {
      launch(kernel::ClipByNormGrad(), executor, values, x, groups, dy.row_size(), norm, d);
    };
    merged_grad_into(executor, name, dy, g, dg, change);
  }
};

}  // namespace operation

/// `merge_add(g)` with its values clipped to [least, greatest]; NaN stays. Rows that are not listed stay zero, whatever
/// the bounds. Integers are clipped to the integers between the bounds, which may be infinite, or, if none of those
/// fits their type, to the nearest number of the type. A finite bound beyond the range of a floating-point type clips
/// infinite values to the greatest or least number of the type. Throws std::invalid_argument unless least <= greatest,
/// and for integers if there is no integer between the bounds. `out` must not be g. Semantics: PaddlePaddle's clip.
inline constexpr operation::Call<op::clip> clip{};
inline constexpr operation::CallInto<op::clip> clip_into{};

/// The gradient of `clip`: row i is the row of dy with the id of row i of g, 0 where the merged number was clipped.
/// Throws as `clip`, and ShapeMismatch unless dy matches the result of `clip`. `dg` must be neither dy nor g.
inline constexpr operation::Call<op::clip_grad> clip_grad{};
inline constexpr operation::CallInto<op::clip_grad> clip_grad_into{};

/// `merge_add(g)`, scaled down to the length `norm` if it is longer: then multiplied by norm / length, where the length
/// is the square root of the sum of the squares of all values, in double, even if the squares overflow or underflow. A
/// NaN length changes nothing; an infinite one, due to an infinite value, makes finite values 0 and infinite ones NaN.
/// Throws std::invalid_argument for a negative norm, or one that is NaN. `out` must not be g. Semantics: PaddlePaddle's
/// clip_by_norm.
inline constexpr operation::Call<op::clip_by_norm> clip_by_norm{};
inline constexpr operation::CallInto<op::clip_by_norm> clip_by_norm_into{};

/// The gradient of `clip_by_norm`: that of `merge_add` if nothing was scaled down; otherwise, with x the merged values
/// and l their length, that of x * norm / l, which is norm / l * (dy - x * (x . dy) / l^2). Throws as `clip_by_norm`,
/// and ShapeMismatch unless dy matches its result. `dg` must be neither dy nor g.
inline constexpr operation::Call<op::clip_by_norm_grad> clip_by_norm_grad{};
inline constexpr operation::CallInto<op::clip_by_norm_grad> clip_by_norm_grad_into{};

/// The results of `clip` and `clip_by_norm`, described: see <lod/infer.hpp>. The rows are described as the dense
/// tensors that they represent.
inline TensorDesc infer_clip(const TensorDesc& g) { return operation::infer_merged<op::clip>({g}, "clip"); }
inline TensorDesc infer_clip_by_norm(const TensorDesc& g) {
  return operation::infer_merged<op::clip_by_norm>({g}, "clip_by_norm");
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET
