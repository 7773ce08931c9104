// SPDX-License-Identifier: Apache-2.0
/// @file
/// Functions of numbers and of whole vectors, and the kernels that apply them element by element.
#pragma once

#include <lod/core/scalar.hpp>
#include <lod/core/target.hpp>
#include <lod/ops/kernel.hpp>

#include <concepts>
#include <cstdint>
#include <type_traits>

namespace lod::inline LOD_INTERFACE::kernel {
/// The type in which `Map` computes integers of type T: 64 bits, which hold every T exactly.
template <std::integral T>
using MappedInteger =
    std::conditional_t<std::unsigned_integral<T> && sizeof(T) == sizeof(std::uint64_t), std::uint64_t, std::int64_t>;
/// run(executor, f, x, count, y): y[i] = f(x[i]). y may be x.
struct Map {};
/// run(executor, f, x, y, count, z): z[i] = f(x[i], y[i]). z may be x.
struct Combine {};
/// run(executor, f, x, y, sequences, row_size, z): the same with row i of y for each row of sequence i. z may be x.
struct CombineRows {};

// The four operations. Integers wrap around.

struct Add {
  template <class N>
  LOD_TAGGED LOD_HOST_DEVICE N operator()(const N& a, const N& b) const noexcept {
    if constexpr (std::integral<N>) {
      return static_cast<N>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
    } else {
      return a + b;
    }
  }
};
struct Subtract {
  template <class N>
  LOD_TAGGED LOD_HOST_DEVICE N operator()(const N& a, const N& b) const noexcept {
    if constexpr (std::integral<N>) {
      return static_cast<N>(static_cast<std::uint64_t>(a) - static_cast<std::uint64_t>(b));
    } else {
      return a - b;
    }
  }
};
struct Multiply {
  template <class N>
  LOD_TAGGED LOD_HOST_DEVICE N operator()(const N& a, const N& b) const noexcept {
    if constexpr (std::integral<N>) {
      return static_cast<N>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
    } else {
      return a * b;
    }
  }
};
struct Divide {
  template <class N>
  LOD_TAGGED LOD_HOST_DEVICE N operator()(const N& a, const N& b) const noexcept {
    if constexpr (std::signed_integral<N>) {
      // The least number divided by -1 would overflow.
      return b == -1 ? Subtract()(N{}, a) : static_cast<N>(a / b);
    } else {
      return static_cast<N>(a / b);
    }
  }
};
/// Multiplies by a number.
struct Scaled {
  Scalar factor;
  template <class N>
  LOD_TAGGED LOD_HOST_DEVICE N operator()(const N& x) const noexcept {
    if constexpr (std::integral<N>) {
      return Multiply()(x, factor.to<N>());
    } else {
      return x * N(factor.to<typename N::value_type>());
    }
  }
};
/// The remaining factor of a quotient's derivative with respect to the divisor.
struct NegatedQuotient {
  template <class N>
  LOD_TAGGED LOD_HOST_DEVICE N operator()(const N& a, const N& b) const noexcept {
    return -(a / b);
  }
};
/// The second number, negated; the first is ignored.
struct Negate {
  template <class N>
  LOD_TAGGED LOD_HOST_DEVICE N operator()(const N&, const N& b) const noexcept {
    return Subtract()(N(0), b);
  }
};
}  // namespace lod::inline LOD_INTERFACE::kernel
