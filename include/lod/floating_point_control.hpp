// SPDX-License-Identifier: Apache-2.0
/// @file
/// The control word of a thread's floating-point unit: how results are rounded, whether subnormal numbers count as
/// zeros, which exceptions trap. Every thread has one of its own, and a program may have set that of the calling thread
/// only; so operations set one and the same while they compute.
#pragma once

#include <lod/target.hpp>

#include <cstdint>

namespace lod::detail::inline LOD_TARGET {

/// The control word of the calling thread. Where the architecture has none that is known here, nothing is set.
class FloatingPointControl {
 public:
#if defined(__SSE2_MATH__)
  using Word = std::uint32_t;
  /// Zero subnormal arguments and results, masks of exceptions, the mode of rounding. The other bits are flags.
  static constexpr Word controls = 0xffc0;
  /// To nearest, with subnormal numbers and without traps.
  static constexpr Word standard = 0x1f80;
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
  static Word read() noexcept {
    Word word;
    asm volatile("mrs %0, fpcr" : "=r"(word));
    return word;
  }
  static void write(Word word) noexcept { asm volatile("msr fpcr, %0" : : "r"(word) : "memory"); }
#else
  using Word = std::uint32_t;
  static constexpr Word controls = 0, standard = 0;
  static Word read() noexcept { return 0; }
  static void write(Word) noexcept {}
#endif

  /// Sets the controls of `word` until the end of the scope, then those of before. Flags that are raised stay. Where
  /// they are set already, it costs a read.
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

}  // namespace lod::detail::inline LOD_TARGET
