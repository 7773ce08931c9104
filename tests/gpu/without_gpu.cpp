// SPDX-License-Identifier: Apache-2.0
/// @file
/// A program that uses GPUs, on a machine without one: it starts, is told so at the first use, and goes on with the
/// CPU.
#include <lod/cuda.hpp>
#include <lod/lod.hpp>

#include <cstdio>
#include <exception>
#include <vector>

int main() {
  try {
    const lod::CudaExecutor executor;
    // Its kernels are linked to the program.
    const lod::LoDTensor<float, lod::Cuda> nothing(executor.resource());
    static_cast<void>(lod::add(executor, nothing, nothing));
    std::puts("skipped: there is a GPU");
    return 77;
  } catch (const lod::CudaError& error) {
    std::printf("%s\n", error.what());
    if (error.code() == 0) return 1;
  } catch (const std::exception& error) {
    std::printf("not a CudaError: %s\n", error.what());
    return 1;
  }
  const auto x = lod::LoDTensor<float>::from_nested(std::vector<std::vector<float>>{{1, 2}, {}, {3}});
  const auto sums = lod::sequence_pool(x, lod::PoolType::SUM);
  return sums.data()[0] == 3 && sums.data()[1] == 0 && sums.data()[2] == 3 ? 0 : 1;
}
