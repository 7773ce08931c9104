// SPDX-License-Identifier: Apache-2.0
/// @file
/// Exponentials and logarithms of vectors. The exponentials of floats take half the steps of xsimd's: if the numbers
/// come from a cache, exponentials are most of the time of softmax and of the gates of recurrent networks.
///
/// The names of xsimd's functions do not depend on -ffast-math. So those of more than a few instructions are inlined
/// into functions whose names do: [[gnu::flatten]].
#pragma once

#include <lod/core/target.hpp>
#include <lod/kernels/cpu/vector.hpp>

#include <cmath>
#include <cstdint>
#include <limits>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu {

/// e^x, with an error of at most two units in the last place. Doubles by xsimd. Floats: a result beyond 2^127.5 (with
/// AVX-512, beyond the greatest float) is infinite, one less than the smallest normal number is 0. NaN stays NaN.
[[gnu::flatten]] inline xsimd::batch<double> exponential(const xsimd::batch<double>& x) { return xsimd::exp(x); }
inline xsimd::batch<float> exponential(const xsimd::batch<float>& number) {
  using V = xsimd::batch<float>;
#ifdef __AVX512F__
  // A greater x would give infinity - infinity below. A NaN stays: min returns its second operand.
  const V x = _mm512_min_ps(_mm512_set1_ps(89.f), number);
#else
  const V& x = number;
#endif
  // x = n log 2 + r. A float as large as `rounding` has no fraction bits: adding it rounds to the nearest integer.
  const V rounding(12582912.f);  // 1.5 * 2^23
  const V n = multiply_add(x, V(1.44269504f), rounding) - rounding;
  // log 2 in two parts, the first one short, so that its product with n is exact.
  const V r = multiply_add(n, V(2.12194440e-4f), multiply_add(n, V(-0.693359375f), x));
  // e^r = 1 + r + r^2 p(r), with the p of degree 4 whose greatest relative error for |r| <= log(2) / 2 is minimal.
  V p = multiply_add(V(0x1.6a23cep-10f), r, V(0x1.123a2p-7f));
  p = multiply_add(p, r, V(0x1.5558f2p-5f));
  p = multiply_add(p, r, V(0x1.555492p-3f));
  p = multiply_add(p, r, V(0x1.fffffcp-2f));
  const V mantissa = multiply_add(p, r * r, r) + V(1.f);
#ifdef __AVX512F__
  const __mmask16 normal = _mm512_cmp_ps_mask(x, _mm512_set1_ps(-87.3365447f), _CMP_NLT_UQ);
  return _mm512_maskz_scalef_ps(normal, mantissa, n);
#else
  const V finite = xsimd::select(x < V(-87.3365447f), V(0.f), xsimd::ldexp(mantissa, xsimd::to_int(n)));
  return xsimd::select(x > V(88.3762626f), V(std::numeric_limits<float>::infinity()), finite);
#endif
}

/// tanh x, by xsimd.
template <class A>
[[gnu::flatten]] inline xsimd::batch<A> hyperbolic_tangent(const xsimd::batch<A>& x) {
  return xsimd::tanh(x);
}

/// log x for x >= 0, with an error of at most two units in the last place. Doubles one by one. For floats, 0 and
/// anything less than the smallest normal number give -inf. Not xsimd's, which g++ cannot compile for AVX-512 without
/// optimisation.
inline xsimd::batch<double> logarithm(const xsimd::batch<double>& x) {
  alignas(64) double numbers[xsimd::batch<double>::size];
  x.store_aligned(numbers);
  for (double& number : numbers) number = std::log(number);
  return xsimd::batch<double>::load_aligned(numbers);
}
inline xsimd::batch<float> logarithm(const xsimd::batch<float>& x) {
  using V = xsimd::batch<float>;
  typedef float Floats __attribute__((vector_size(sizeof(V))));
  typedef std::int32_t Exponents __attribute__((vector_size(sizeof(V))));
  typedef std::uint32_t Bits __attribute__((vector_size(sizeof(V))));
  // x = 2^n (1 + r), where 1 + r lies between the square root of 1/2, whose bits these are, and that of 2.
  const Bits bits = __builtin_bit_cast(Bits, x);
  const Exponents exponents = __builtin_bit_cast(Exponents, bits - 0x3f3504f3u) >> 23;
  const V n = __builtin_bit_cast(V, __builtin_convertvector(exponents, Floats));
  const V r = __builtin_bit_cast(V, bits - (__builtin_bit_cast(Bits, exponents) << 23)) - V(1.f);
  // log(1 + r) = r + r^2 q(r), with the q of degree 8 whose greatest relative error is minimal.
  V q = multiply_add(V(-0x1.3830f4p-4f), r, V(0x1.0848b6p-3f));
  q = multiply_add(q, r, V(-0x1.0f3762p-3f));
  q = multiply_add(q, r, V(0x1.22718cp-3f));
  q = multiply_add(q, r, V(-0x1.54276cp-3f));
  q = multiply_add(q, r, V(0x1.99a3f4p-3f));
  q = multiply_add(q, r, V(-0x1.000426p-2f));
  q = multiply_add(q, r, V(0x1.55555p-2f));
  q = multiply_add(q, r, V(-0x1.fffff8p-2f));
  // log 2 in two parts, as above.
  const V small = multiply_add(q, r * r, n * V(-2.12194440e-4f));
  const V finite = multiply_add(n, V(0.693359375f), small + r);
  const V unless_tiny =
      xsimd::select(x < V(std::numeric_limits<float>::min()), V(-std::numeric_limits<float>::infinity()), finite);
  return xsimd::select(x <= V(std::numeric_limits<float>::max()), unless_tiny, x);
}

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu
