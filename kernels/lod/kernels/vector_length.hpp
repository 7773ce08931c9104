// SPDX-License-Identifier: Apache-2.0
/// @file
/// The length of a vector of any numbers, and clipping it: where the sum of the squares overflows a double, or
/// underflows and loses bits, the length is computed from the numbers times a power of two.
#pragma once

#include <lod/core/target.hpp>
#include <lod/kernels/unbounded.hpp>
#include <lod/ops/clip.hpp>
#include <lod/ops/kernel.hpp>

#include <cmath>
#include <concepts>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET {

/// Types of numbers whose squares may overflow or underflow a double: those of the other types are far from its limits.
template <class T>
inline constexpr bool needs_scaled_squares = std::same_as<T, double>;

/// What numbers are scaled by before they are squared: with one of the two, the square of any double is in range.
inline constexpr double scale_of_large = 0x1p-600, scale_of_tiny = 0x1p600;

/// The length of a vector: `root` is the length of its numbers times `scale`, a power of two.
struct VectorLength {
  double root;
  double scale;

  LOD_HOST_DEVICE Unbounded value() const noexcept { return Unbounded(root) / Unbounded(scale); }
  LOD_HOST_DEVICE bool exceeds(double norm) const noexcept { return root > norm * scale; }
};

/// Whether a sum of products can be trusted: neither beyond a double's range nor so small that its terms lose bits.
LOD_HOST_DEVICE inline bool is_plain(double sum) noexcept { return is_finite(sum) && std::fabs(sum) >= 0x1p-900; }
/// A sum of products, times `scale`.
struct ScaledSum {
  double sum;
  double scale;
};
/// The best of three sums of products: of the factors as they are, and with one side scaled for large and for tiny
/// numbers. Infinite if a product is, NaN if one is.
LOD_HOST_DEVICE inline ScaledSum best_sum(double plain, double of_large, double of_tiny) noexcept {
  if (is_plain(plain)) return {plain, 1};
  // Large products may cancel to nearly nothing: with the scale for tiny numbers they overflow.
  if (is_finite(plain)) return is_finite(of_tiny) ? ScaledSum{of_tiny, scale_of_tiny} : ScaledSum{plain, 1};
  if (is_finite(of_large)) return {of_large, scale_of_large};
  return {plain, 1};
}
/// Whether a factor is a normal number of the type in which numbers of type T are computed.
template <class T>
LOD_HOST_DEVICE bool is_ordinary_factor(double factor) noexcept {
  using A = Accumulator<T>;
  constexpr double least = std::same_as<A, double> ? 0x1p-1022 : 0x1p-126;
  return std::fabs(factor) >= least && std::fabs(factor) <= greatest_finite<A>;
}
template <class T>
LOD_HOST_DEVICE Unbounded unbounded(T number) noexcept {
  return Unbounded(static_cast<double>(static_cast<Accumulator<T>>(number)));
}
template <class T>
LOD_HOST_DEVICE T rounded(const Unbounded& number) noexcept {
  return static_cast<T>(static_cast<Accumulator<T>>(number.to_double()));
}

/// Scales a vector down to the length `norm`.
template <class T>
struct ClippedByNorm {
  VectorLength length;
  double norm;

  /// norm / length, and whether a plain multiplication by it is accurate.
  LOD_HOST_DEVICE double factor() const noexcept { return norm / length.root; }
  LOD_HOST_DEVICE bool is_ordinary() const noexcept {
    return length.scale == 1 && (norm == 0 || !is_finite(length.root) || is_ordinary_factor<T>(factor()));
  }
  /// The factor for the case where it is not.
  LOD_HOST_DEVICE Unbounded exact_factor() const noexcept { return Unbounded(norm) / length.value(); }
  LOD_HOST_DEVICE T operator()(T x) const noexcept { return rounded<T>(exact_factor() * unbounded(x)); }
};

/// The gradient of the above: dy[i] times the factor, minus x[i] times the factor times x . dy / length^2. `product` is
/// x . dy, with x times the scale of the length.
template <class T>
struct ClippedByNormGrad {
  ClippedByNorm<T> clipped;
  ScaledSum product;

  LOD_HOST_DEVICE operation::Combined combined() const noexcept {
    return operation::Combined::clip_by_norm_grad(clipped.length.root, product.sum, clipped.norm);
  }
  LOD_HOST_DEVICE bool is_ordinary() const noexcept {
    if (!clipped.is_ordinary() || product.scale != 1) return false;
    // An infinity or NaN, or a factor of 0, comes out the same however it is computed.
    if (!is_finite(product.sum) || !is_finite(clipped.length.root)) return true;
    const double second = combined().second;
    return is_ordinary_factor<T>(second) || (second == 0 && (product.sum == 0 || clipped.norm == 0));
  }
  /// The gradient where these factors are not ordinary.
  LOD_HOST_DEVICE T operator()(T dy, T x) const noexcept {
    const Unbounded root(clipped.length.root), scale(clipped.length.scale);
    // The length is scaled twice, x . dy once.
    const Unbounded share = Unbounded(product.sum) / Unbounded(product.scale) / root / root * scale;
    return rounded<T>(clipped.exact_factor() * (unbounded(dy) - share * unbounded(x)));
  }
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET
