// SPDX-License-Identifier: Apache-2.0
/// @file
/// A program from outside in a file for nvcc: a kernel of its own between two operations on a GPU, against the same on
/// the CPU. Exit status 77 says that there is no GPU.
#include <lod/cuda.cuh>
#include <lod/lod.hpp>

#include <cstdint>
#include <iostream>
#include <vector>

namespace {

__global__ void halve(float* x, std::int64_t count) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < count) x[i] /= 2;
}

}  // namespace

int main() {
  const auto words = lod::LoDTensor<float>::from_nested(std::vector<std::vector<float>>{{3, 1}, {}, {5, 7, 9}});
  const auto sums = lod::sequence_pool(words, lod::PoolType::SUM);
  const auto halves =
      lod::LoDTensor<float>::from_nested(std::vector<std::vector<float>>{{1.5F, 0.5F}, {}, {2.5F, 3.5F, 4.5F}});
  const auto expected = lod::sequence_softmax(halves);
  if (sums.data()[2] != 21) return 1;
  try {
    const lod::CudaExecutor on_gpu;
    auto x = lod::to<lod::Cuda>(on_gpu, words);
    halve<<<1, 32, 0, on_gpu.stream()>>>(x.data(), x.rows());
    const auto y = lod::to<lod::Cpu>(on_gpu, lod::sequence_softmax(on_gpu, x));
    for (std::int64_t i = 0; i < y.rows(); ++i) {
      if (!(y.data()[i] > 0.999F * expected.data()[i] && y.data()[i] < 1.001F * expected.data()[i])) return 1;
    }
    const auto z = lod::to<lod::Cpu>(on_gpu, lod::sequence_pool(on_gpu, x, lod::PoolType::MAX));
    return z.data()[0] == 1.5F && z.data()[2] == 4.5F ? 0 : 1;
  } catch (const lod::CudaError& error) {
    std::cout << "skipped: " << error.what() << '\n';
    return 77;
  }
}
