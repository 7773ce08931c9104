// SPDX-License-Identifier: Apache-2.0
/// @file
/// A user of the library lodtensor::cpu: prints the instruction set that its kernels run by, when each operation has
/// been called, and a program has run. It is not optimised: then all functions that it shares with the library are.
#include "catalogue/every_operation.hpp"

#include <lod/instruction_set.hpp>
#include <lod/lod.hpp>
#include <lod/run.hpp>

#include <cstdio>
#include <stdexcept>

namespace {

/// Runs a program whose operators come from the library.
void run_program() {
  lod::ProgramDesc program;
  lod::BlockDesc& block = program.blocks.emplace_back();
  for (const char* name : {"x", "y"}) block.vars.push_back({.name = name, .type = {.type = lod::VarType::LOD_TENSOR}});
  block.ops = {{.inputs = {{"X", {"x"}}}, .outputs = {{"Out", {"y"}}}, .type = "sequence_softmax"}};
  const auto x = lod::LoDTensor<float>::from_values(lod::LoD::from_lengths({{2, 1}}), {}, {1, 1, 7});
  lod::Scope scope;
  const auto y = lod::run(program, scope, {.feed = {{"x", x}}, .fetch = {"y"}});
  if (y[0].view<float>().values()[0] != 0.5f || !lod::operators().find("while")) {
    throw std::logic_error("a program's result is wrong");
  }
}

}  // namespace

int main() {
  const char* const names[] = {"baseline", "avx2", "avx512"};
  try {
    lod_test::call_every_operation(lod::CpuExecutor(2));
    run_program();
    std::puts(names[static_cast<int>(lod::instruction_set())]);
    return 0;
  } catch (const lod::OutOfRange& error) {
    std::puts(error.what());
    return 1;
  }
}
