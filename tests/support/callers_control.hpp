// SPDX-License-Identifier: Apache-2.0
/// @file
/// The control words that a caller may have set: modes of rounding, and subnormal numbers that count as zeros.
#pragma once

#include <doctest/doctest.h>

#include <cfenv>
#ifdef __SSE2_MATH__
#  include <xmmintrin.h>
#endif

namespace lod_test {

/// Sets a control word until the end of the scope.
class CallersControl {
 public:
  CallersControl(int rounding, bool flushes) {
    std::fegetenv(&before_);
    std::fesetround(rounding);
#ifdef __SSE2_MATH__
    if (flushes) _mm_setcsr(_mm_getcsr() | 0x8040);
#else
    static_cast<void>(flushes);
#endif
  }
  CallersControl(const CallersControl&) = delete;
  CallersControl& operator=(const CallersControl&) = delete;
  ~CallersControl() { std::fesetenv(&before_); }

 private:
  std::fenv_t before_;
};

/// That of the calling thread.
inline unsigned control_word() {
#ifdef __SSE2_MATH__
  return _mm_getcsr() & 0xffc0;
#else
  return static_cast<unsigned>(std::fegetround());
#endif
}

/// Calls f(rounding, flushes) for each.
template <class F>
void for_each_control(const F& f) {
  for (const int rounding : {FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO}) {
    for (const bool flushes : {false, true}) {
      CAPTURE(rounding);
      CAPTURE(flushes);
      f(rounding, flushes);
    }
  }
}

}  // namespace lod_test
