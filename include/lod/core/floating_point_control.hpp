// SPDX-License-Identifier: Apache-2.0
/// @file
/// The control word of a thread's floating-point unit: how results are rounded, whether subnormal numbers are flushed
/// to zero, which exceptions trap. Every thread has its own, and a program may have set that of the calling thread
/// only; so operations set the same word on all threads while they compute.
#pragma once

#include <lod/core/target.hpp>

#include <cfenv>
#include <cstdint>

namespace lod::inline LOD_INTERFACE::detail::inline LOD_TARGET {

/// The control word of the calling thread. On an unknown architecture nothing is set.
class FloatingPointControl {
 public:
#if defined(__SSE2_MATH__)
  using Word = std::uint32_t;
  /// Flushing of subnormal arguments and results, exception masks, the rounding mode. The other bits are flags.
  static constexpr Word controls = 0xffc0;
  /// To nearest, with subnormal numbers and without traps.
  static constexpr Word standard = 0x1f80;
  /// The same, but subnormal arguments and results count as 0: many processors take a hundred times as long for them.
  static constexpr Word flushing = 0x9fc0;
  static Word read() noexcept {
    Word word;
    asm volatile("stmxcsr %0" : "=m"(word));
    return word;
  }
  static void write(Word word) noexcept { asm volatile("ldmxcsr %0" : : "m"(word) : "memory"); }
#elif defined(__aarch64__)
  using Word = std::uint64_t;
  static constexpr Word controls = 0x7ffff07;  // alternative handling, traps, rounding, flushing, default NaN
  static constexpr Word standard = 0;
  static constexpr Word flushing = 1 << 24;
  static Word read() noexcept {
    Word word;
    asm volatile("mrs %0, fpcr" : "=r"(word));
    return word;
  }
  static void write(Word word) noexcept { asm volatile("msr fpcr, %0" : : "r"(word) : "memory"); }
#else
  using Word = std::uint32_t;
  static constexpr Word controls = 0, standard = 0, flushing = 0;
  static Word read() noexcept { return 0; }
  static void write(Word) noexcept {}
#endif

  /// Sets the controls of `word` until the end of the scope, then restores the previous ones. Raised flags stay. If the
  /// controls are already set, it costs a read.
  explicit FloatingPointControl(Word word = standard) noexcept : before_(read()), set_((before_ ^ word) & controls) {
    if (set_) write(before_ ^ set_);
  }
  FloatingPointControl(const FloatingPointControl&) = delete;
  FloatingPointControl& operator=(const FloatingPointControl&) = delete;
  ~FloatingPointControl() {
    if (set_) write((read() & ~controls) | (before_ & controls));
  }

 private:
  Word before_;
  Word set_;  // the bits that differ
};

/// Keeps arithmetic on what an object consists of on this side of a change of the control word: compilers know nothing
/// of that word, and move arithmetic on what they hold in registers across its changes.
template <class T>
void pin(const T& object) noexcept {
  asm volatile("" : : "r"(&object) : "memory");
}

/// Sets the standard control word, and also rounding to nearest for what does not follow that word on x86-64: long
/// double, and functions of the C library that ask for the mode, as those do that print numbers.
class StandardArithmetic {
 public:
  StandardArithmetic() noexcept : before_(std::fegetround()) {
    if (before_ != FE_TONEAREST) std::fesetround(FE_TONEAREST);
  }
  StandardArithmetic(const StandardArithmetic&) = delete;
  StandardArithmetic& operator=(const StandardArithmetic&) = delete;
  ~StandardArithmetic() {
    if (before_ != FE_TONEAREST) std::fesetround(before_);
  }

 private:
  FloatingPointControl standard_;  // the first that is set, and the last that is restored
  int before_;
};

}  // namespace lod::inline LOD_INTERFACE::detail::inline LOD_TARGET
