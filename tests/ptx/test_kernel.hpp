// SPDX-License-Identifier: Apache-2.0
/// @file
/// Kernels of a few statements, written by hand, for tests of the machine.
#pragma once

#include "ptx/machine.hpp"
#include "ptx/program.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

namespace lod_test::ptx {

struct TestLaunch {
  std::uint32_t threads = 32;
  std::uint32_t blocks = 1;
  std::size_t dynamic_shared_bytes = 0;
  std::int64_t most_instructions = 1 << 20;
  std::uint64_t seed = 1;
  std::string before_kernel;  ///< functions and variables
};

/// Runs a kernel whose threads find their index among those of their block in %r1, the address of the words in %rd1,
/// and of a word of their own in %rd3; with registers %p0 to %p31, %rs, %r and %rd. Returns the words, which were 0.
inline std::vector<std::uint64_t> run_statements(const std::string& statements, const TestLaunch& how = {}) {
  Program program(R"(
.version 9.0
.target sm_90
.address_size 64
)" + how.before_kernel +
                  R"(
.visible .entry kernel(
  .param .u64 kernel_param_0
)
{
  .reg .pred %p<32>;
  .reg .b16 %rs<32>;
  .reg .b32 %r<64>;
  .reg .b64 %rd<64>;
  ld.param.u64 %rd0, [kernel_param_0];
  cvta.to.global.u64 %rd1, %rd0;
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd2, %r1, 8;
  add.s64 %rd3, %rd1, %rd2;
)" + statements + "\n}\n");
  std::vector<std::uint64_t> words(std::size_t{how.threads} * 2);
  Launch launch;
  launch.kernel = program.find("kernel");
  launch.blocks = {how.blocks, 1, 1};
  launch.threads = {how.threads, 1, 1};
  launch.dynamic_shared_bytes = how.dynamic_shared_bytes;
  launch.most_instructions = how.most_instructions;
  const auto first = reinterpret_cast<std::uintptr_t>(words.data());
  launch.parameters.resize(sizeof first);
  std::memcpy(launch.parameters.data(), &first, sizeof first);
  const Range range{first, first + words.size() * sizeof(std::uint64_t)};
  launch.memory = [&](std::uintptr_t address) {
    return address >= range.begin && address < range.end ? range : program.around(address);
  };
  run(launch, how.seed);
  return words;
}

/// What the machine says of a kernel that does what it may not; nothing, if it says nothing.
inline std::string fault_of(const std::string& statements, const TestLaunch& how = {}) {
  try {
    run_statements(statements, how);
  } catch (const Fault& fault) {
    return fault.what();
  }
  return {};
}

template <class T>
std::string immediate(T value) {
  std::uint64_t word = 0;
  std::memcpy(&word, &value, sizeof value);
  std::array<char, 24> text{};
  std::snprintf(text.data(), text.size(), "0x%llx", static_cast<unsigned long long>(word));
  return text.data();
}

/// The result of an instruction with these operands.
template <class To, class... Operands>
To calculate(const std::string& operation, Operands... operands) {
  const bool is_predicate = std::is_same_v<To, bool>;
  const std::string result = is_predicate ? "%p10" : sizeof(To) == 8 ? "%rd10" : sizeof(To) == 4 ? "%r10" : "%rs10";
  const std::string bits = std::to_string(sizeof(To) == 1 ? 16 : 8 * sizeof(To));
  std::string statements = operation + " " + result;
  ((statements += ", " + immediate(operands)), ...);
  statements += is_predicate ? ";\nselp.u16 %rs10, 1, 0, %p10;\nst.global.u16 [%rd3], %rs10;"
                             : ";\nst.global.b" + bits + " [%rd3], " + result + ";";
  const std::uint64_t word = run_statements(statements, {.threads = 1, .before_kernel = {}}).at(0);
  To value{};
  std::memcpy(&value, &word, sizeof value);
  return value;
}

}
