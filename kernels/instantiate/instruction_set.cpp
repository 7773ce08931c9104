// SPDX-License-Identifier: Apache-2.0
#include <lod/core/error.hpp>
#include <lod/core/instruction_set.hpp>

#include <cstdlib>
#include <string_view>

#ifdef LOD_HAS_WIDER_SETS
#  include <cpuid.h>
#endif

namespace {

using lod::InstructionSet;

constexpr std::string_view names[] = {"baseline", "avx2", "avx512"};

/// The widest set that the library contains and the processor supports. __builtin_cpu_supports also checks that the
/// operating system saves the wide registers.
InstructionSet widest() {
#ifdef LOD_HAS_WIDER_SETS
  __builtin_cpu_init();
  unsigned a = 0, b = 0, c = 0, d = 0;
  // clang 14 does not know F16C in __builtin_cpu_supports.
  const bool f16c = __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
  if (!f16c || !__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !__builtin_cpu_supports("bmi") ||
      !__builtin_cpu_supports("bmi2") || !__builtin_cpu_supports("popcnt")) {
    return InstructionSet::BASELINE;
  }
  if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") ||
      !__builtin_cpu_supports("avx512dq") || !__builtin_cpu_supports("avx512vl")) {
    return InstructionSet::AVX2;
  }
  return InstructionSet::AVX512;
#else
  return InstructionSet::BASELINE;
#endif
}

InstructionSet chosen() {
  const InstructionSet last = widest();
  const char* const variable = std::getenv("LOD_INSTRUCTION_SET");
  if (variable == nullptr || *variable == '\0') return last;
  const std::string_view name = variable;
  for (int i = 0; i <= static_cast<int>(last); ++i) {
    if (name == names[i]) return static_cast<InstructionSet>(i);
  }
  throw lod::OutOfRange(lod::detail::text(
      {"LOD_INSTRUCTION_SET is '", variable, "', expected one of those of this machine: ", "baseline",
       last >= InstructionSet::AVX2 ? ", avx2" : "", last >= InstructionSet::AVX512 ? ", avx512" : ""}));
}

}  // namespace

lod::InstructionSet lod::instruction_set() {
  static const InstructionSet set = chosen();
  return set;
}
