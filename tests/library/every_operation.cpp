// SPDX-License-Identifier: Apache-2.0
/// @file
/// A user of the library lodtensor::cpu: prints the instruction set that its kernels run by, when each operation has
/// been called.
#include "catalogue/every_operation.hpp"

#include <lod/instruction_set.hpp>
#include <lod/lod.hpp>

#include <cstdio>

int main() {
  const char* const names[] = {"baseline", "avx2", "avx512"};
  try {
    lod_test::call_every_operation(lod::CpuExecutor(2));
    std::puts(names[static_cast<int>(lod::instruction_set())]);
    return 0;
  } catch (const lod::OutOfRange& error) {
    std::puts(error.what());
    return 1;
  }
}
