// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup row_sparse
/// Row-sparse gradients cut to bounds, or to a norm.
#pragma once

#include <lod/error.hpp>
#include <lod/executor.hpp>
#include <lod/infer.hpp>
#include <lod/kernel.hpp>
#include <lod/ops/elementwise.hpp>
#include <lod/ops/merge_rows.hpp>
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
#include <limits>
#include <stdexcept>

namespace lod::op {
struct clip : elements::Number {};
struct clip_grad : elements::Floating {};
struct clip_by_norm : elements::Floating {};
struct clip_by_norm_grad : elements::Floating {};
}  // namespace lod::op

namespace lod::inline LOD_TARGET {

namespace kernel {
/// run(executor, x, count, norm): where the length of x, the root of the sum of the squares in double, is more than
/// `norm`, x[i] *= norm / length. Squares that leave the range of a double, or vanish in it, do not matter. Where x is
/// null, only takes the scratch memory for it.
template <class Executor>
struct Shorten : Missing<Executor> {};
/// run(executor, dy, x, groups, row_size, norm, d): its gradient, for x of so many rows as there are groups. The rows
/// of dy whose groups are empty do not count. d may be dy.
template <class Executor>
struct ShortenGrad : Missing<Executor> {};
}  // namespace kernel

namespace operation {

/// Not under `least`, not over `greatest`; NaN stays.
struct Clipped {
  Scalar least, greatest;
  template <class N>
  LOD_HOST_DEVICE N operator()(const N& x) const noexcept {
    if constexpr (std::integral<N>) {
      const N low = least.to<N>(), high = greatest.to<N>();
      return x < low ? low : x > high ? high : x;
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
  LOD_HOST_DEVICE N operator()(const N& gradient, const N& x) const noexcept {
    using Number = typename N::value_type;
    const N low(least.to<Number>()), high(greatest.to<Number>());
    const N none(Number{});
    return select(x < low, none, select(x > high, none, gradient));
  }
};
/// first * a - second * b
struct Combined {
  double first, second;

  /// dy and x make the gradient of what shortens x, of length `length`, to `norm`; `product` is x . dy.
  LOD_HOST_DEVICE static Combined shortened_grad(double length, double product, double norm) noexcept {
    const double factor = norm / length;
    return {factor, factor * (product / length / length)};
  }
  template <class N>
  LOD_HOST_DEVICE N operator()(const N& a, const N& b) const noexcept {
    using Number = typename N::value_type;
    return N(static_cast<Number>(first)) * a - N(static_cast<Number>(second)) * b;
  }
};

/// A bound as an integer, rounded by `round` where it lies between two, and the nearest T where it lies beyond them
/// all.
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
  // The greatest itself may be no double, but the power of two after it is one.
  if (rounded >= std::ldexp(1.0, std::numeric_limits<T>::digits)) return greatest;
  return static_cast<T>(rounded);
}
/// A bound for floating-point numbers: a finite one beyond their range becomes the greatest or least of them.
template <class T>
Scalar real_bound(Scalar bound) {
  using Limits = std::numeric_limits<T>;
  return bound.fits<T>() ? bound : Scalar(bound.to<double>() < 0 ? Limits::lowest() : Limits::max());
}
/// The bounds as they are for numbers of type T. Throws unless they are bounds.
template <class T>
Clipped clipped(Scalar least, Scalar greatest, const char* what) {
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

/// The gradient of a function of the merged rows of g: change(x, dy, count, d) writes that by the merged values x to d.
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
  kernel::SumGroups<E>::run(executor, PoolType::SUM, groups.rows(), groups.order(), merged, g.row_size(),
                            static_cast<const std::int64_t*>(nullptr), x.data());
  change(static_cast<const T*>(x.data()), dy.value().data(), merged, d.data());
  copy_ids(executor, g, out);
  spread_groups(executor, static_cast<const T*>(d.data()), groups.order(), merged, dy.row_size(), out.data());
}

}  // namespace operation

/// `merge_add(g)` with its values cut to [least, greatest]; NaN stays. Rows that are not listed are not there, so they
/// stay zero, whatever the bounds. Integers are cut to the integers between the bounds, which may be infinite; to the
/// nearest that their type has, where it has none of these; a finite bound that floating-point values cannot reach cuts
/// infinite ones to the greatest or least of their type. Throws std::invalid_argument unless least <= greatest, and
/// where integers are to be cut and there is none between the bounds. `out` must not be g. Semantics: PaddlePaddle's
/// clip.
template <Executor E, class T>
void clip_into(const E& executor, const SelectedRows<T, typename E::device>& g, Scalar least, Scalar greatest,
               SelectedRows<T, typename E::device>& out) {
  detail::check_elements<op::clip, T>();
  const operation::Clipped clipped = operation::clipped<T>(least, greatest, "clip");
  detail::check_value_rows(g, "clip");
  const std::array sources{&g};
  operation::merge_into<E, T>(executor, PoolType::SUM, "clip",
                              std::span<const SelectedRows<T, typename E::device>* const>(sources), out,
                              [&](T* values, std::int64_t count) {
                                if (values)
                                  kernel::Map<E>::run(executor, clipped, static_cast<const T*>(values), count, values);
                              });
}
template <Executor E, class T>
[[nodiscard]] SelectedRows<T, typename E::device> clip(const E& executor, const SelectedRows<T, typename E::device>& g,
                                                       Scalar least, Scalar greatest) {
  SelectedRows<T, typename E::device> out(executor.resource());
  clip_into(executor, g, least, greatest, out);
  return out;
}
template <class T, class Device>
[[nodiscard]] auto clip(const SelectedRows<T, Device>& g, Scalar least, Scalar greatest) {
  return clip(default_executor<Device>(), g, least, greatest);
}

/// The gradient of `clip`: row i is the row of dy that has the id of row i of g, 0 where the merged number was cut.
/// Throws as `clip`, and ShapeMismatch unless dy is like the result of `clip`. `dg` must be neither dy nor g.
template <Executor E, class T>
void clip_grad_into(const E& executor, const SelectedRows<T, typename E::device>& dy,
                    const SelectedRows<T, typename E::device>& g, Scalar least, Scalar greatest,
                    SelectedRows<T, typename E::device>& dg) {
  detail::check_elements<op::clip_grad, T>();
  const operation::Clipped clipped = operation::clipped<T>(least, greatest, "clip_grad");
  const auto change = [&](const T* x, const T* values, const kernel::Segments& groups, T* d) {
    kernel::Combine<E>::run(executor, operation::ClippedGrad{clipped.least, clipped.greatest}, values, x,
                            groups.size * dy.row_size(), d);
  };
  operation::merged_grad_into(executor, "clip_grad", dy, g, dg, change);
}
template <Executor E, class T>
[[nodiscard]] SelectedRows<T, typename E::device> clip_grad(const E& executor,
                                                            const SelectedRows<T, typename E::device>& dy,
                                                            const SelectedRows<T, typename E::device>& g, Scalar least,
                                                            Scalar greatest) {
  SelectedRows<T, typename E::device> dg(executor.resource());
  clip_grad_into(executor, dy, g, least, greatest, dg);
  return dg;
}
template <class T, class Device>
[[nodiscard]] auto clip_grad(const SelectedRows<T, Device>& dy, const SelectedRows<T, Device>& g, Scalar least,
                             Scalar greatest) {
  return clip_grad(default_executor<Device>(), dy, g, least, greatest);
}

/// `merge_add(g)`, made shorter where it is longer than `norm`: times norm / length then, where the length is the
/// square root of the sum of the squares of all values, in double: also where the squares leave the range of a double,
/// or vanish. A length that is NaN changes nothing; one that is infinite, as a value is, makes finite values 0 and
/// infinite ones NaN. Throws std::invalid_argument for a negative norm, or one that is NaN. `out` must not be g.
/// Semantics: PaddlePaddle's clip_by_norm.
template <Executor E, class T>
void clip_by_norm_into(const E& executor, const SelectedRows<T, typename E::device>& g, double norm,
                       SelectedRows<T, typename E::device>& out) {
  detail::check_elements<op::clip_by_norm, T>();
  operation::check_norm(norm, "clip_by_norm");
  detail::check_value_rows(g, "clip_by_norm");
  const std::array sources{&g};
  operation::merge_into<E, T>(
      executor, PoolType::SUM, "clip_by_norm", std::span<const SelectedRows<T, typename E::device>* const>(sources),
      out, [&](T* values, std::int64_t count) { kernel::Shorten<E>::run(executor, values, count, norm); });
}
template <Executor E, class T>
[[nodiscard]] SelectedRows<T, typename E::device> clip_by_norm(const E& executor,
                                                               const SelectedRows<T, typename E::device>& g,
                                                               double norm) {
  SelectedRows<T, typename E::device> out(executor.resource());
  clip_by_norm_into(executor, g, norm, out);
  return out;
}
template <class T, class Device>
[[nodiscard]] auto clip_by_norm(const SelectedRows<T, Device>& g, double norm) {
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
  const auto change = [&](const T* x, const T* values, const kernel::Segments& groups, T* d) {
    kernel::ShortenGrad<E>::run(executor, values, x, groups, dy.row_size(), norm, d);
  };
  operation::merged_grad_into(executor, "clip_by_norm_grad", dy, g, dg, change);
}
template <Executor E, class T>
[[nodiscard]] SelectedRows<T, typename E::device> clip_by_norm_grad(const E& executor,
                                                                    const SelectedRows<T, typename E::device>& dy,
                                                                    const SelectedRows<T, typename E::device>& g,
                                                                    double norm) {
  SelectedRows<T, typename E::device> dg(executor.resource());
  clip_by_norm_grad_into(executor, dy, g, norm, dg);
  return dg;
}
template <class T, class Device>
[[nodiscard]] auto clip_by_norm_grad(const SelectedRows<T, Device>& dy, const SelectedRows<T, Device>& g, double norm) {
  return clip_by_norm_grad(default_executor<Device>(), dy, g, norm);
}

/// What `clip` and `clip_by_norm` give, described: see <lod/infer.hpp>. The rows are described as the dense tensors
/// that they stand for.
inline TensorDesc infer_clip(const TensorDesc& g) { return operation::infer_merged<op::clip>({g}, "clip"); }
inline TensorDesc infer_clip_by_norm(const TensorDesc& g) {
  return operation::infer_merged<op::clip_by_norm>({g}, "clip_by_norm");
}

}  // namespace lod::inline LOD_TARGET
