// SPDX-License-Identifier: Apache-2.0
/// What a program that nvcc compiled calls beside the CUDA runtime's public functions, and its launches: kernels are
/// run from their PTX in the streams of the emulated runtime. A kernel that does what it may not ends the program.
#include "ptx/machine.hpp"
#include "support/emulated_cuda.hpp"
#include "support/interpreted_kernels.hpp"

#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <malloc.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace {

using lod_test::ptx::Kernel;
using lod_test::ptx::Launch;
using lod_test::ptx::Program;
using lod_test::ptx::Work;

struct Function {
  Program* program;
  std::string name;
};

struct Machine {
  std::mutex mutex;
  std::vector<std::unique_ptr<Program>> programs;
  std::map<const void*, Function> functions;
  std::map<std::string, Work> works;
  std::uint64_t seed =
      std::getenv("LOD_TEST_SEED") == nullptr ? 1 : std::strtoull(std::getenv("LOD_TEST_SEED"), nullptr, 10);

  ~Machine() {
    const char* const file = std::getenv("LOD_TEST_PTX_WORK");
    if (file == nullptr) return;
    std::FILE* const out = std::fopen(file, "w");
    if (out == nullptr) return;
    for (const auto& [name, work] : works) {
      std::fprintf(out, "%s\t%lld\t%lld\t%lld\t%lld\t%lld\t%lld\t%lld\t%lld\n", name.c_str(),
                   static_cast<long long>(work.launches), static_cast<long long>(work.threads),
                   static_cast<long long>(work.instructions), static_cast<long long>(work.lane_instructions),
                   static_cast<long long>(work.global_accesses), static_cast<long long>(work.global_sectors),
                   static_cast<long long>(work.shared_accesses), static_cast<long long>(work.local_accesses));
    }
    std::fclose(out);
  }
};
Machine& machine() {
  // Each launch takes megabytes for registers, and gives them back.
  [[maybe_unused]] static const bool kept =
      mallopt(M_MMAP_THRESHOLD, 1 << 30) != 0 && mallopt(M_TRIM_THRESHOLD, 1 << 30) != 0;
  static Machine instance;
  return instance;
}

/// The PTX in what nvcc adds to a program, which must not be compressed.
std::string ptx_of(const void* fat_binary) {
  struct Wrapper {
    int magic, version;
    const std::byte* data;
    const void* rest;
  };
  struct Header {
    std::uint32_t magic;
    std::uint16_t version, header_bytes;
    std::uint64_t bytes;
  };
  struct Entry {
    std::uint16_t kind, version;
    std::uint32_t header_bytes;
    std::uint64_t bytes;
    std::uint32_t compressed_bytes;  ///< 0 if it is not compressed
  };
  constexpr std::uint16_t kind_of_ptx = 1;
  const std::byte* const data = static_cast<const Wrapper*>(fat_binary)->data;
  Header header{};
  std::memcpy(&header, data, sizeof header);
  bool has_ptx = false;
  for (std::uint64_t at = header.header_bytes; at < header.header_bytes + header.bytes;) {
    Entry entry{};
    std::memcpy(&entry, data + at, sizeof entry);
    if (entry.kind == kind_of_ptx) {
      has_ptx = true;
      if (entry.compressed_bytes == 0) {
        const std::string_view text(reinterpret_cast<const char*>(data) + at + entry.header_bytes, entry.bytes);
        return std::string(text.substr(0, text.find('\0')));
      }
    }
    at += entry.header_bytes + entry.bytes;
  }
  // Before main, where nobody would catch an exception.
  lod_test::emulated_cuda::on_failure(
      has_ptx ? "the PTX in this program is compressed: nvcc must be told --no-compress"
              : "there is no PTX in this program: nvcc must be told an architecture that is virtual, as compute_90");
  return {};
}

std::pair<const Kernel*, Program*> find(const void* function) {
  const std::lock_guard lock(machine().mutex);
  const auto found = machine().functions.find(function);
  if (found == machine().functions.end()) return {};
  return {found->second.program->find(found->second.name), found->second.program};
}

cudaError_t launch(const void* function, dim3 blocks, dim3 threads, void** arguments, std::size_t shared_bytes,
                   cudaStream_t stream) {
  const auto [kernel, program] = find(function);
  if (kernel == nullptr) return cudaErrorInvalidDeviceFunction;
  Launch launch;
  launch.kernel = kernel;
  launch.blocks = {blocks.x, blocks.y, blocks.z};
  launch.threads = {threads.x, threads.y, threads.z};
  launch.dynamic_shared_bytes = shared_bytes;
  launch.parameters.resize(kernel->parameter_bytes);
  for (std::size_t k = 0; k < kernel->parameters.size(); ++k) {
    std::memcpy(launch.parameters.data() + kernel->parameters[k].offset, arguments[k], kernel->parameters[k].bytes);
  }
  launch.memory = [program = program](std::uintptr_t address) -> lod_test::ptx::Range {
    const auto [begin, end] = lod_test::emulated_cuda::memory_around(address);
    if (end != 0) return {begin, end};
    return program->around(address);
  };
  const bool is_possible = launch.blocks.count() > 0 && launch.threads.count() > 0 && launch.threads.count() <= 1024 &&
                           blocks.y <= 65535 && blocks.z <= 65535 && kernel->shared_bytes + shared_bytes <= 48 * 1024;
  if (!is_possible) lod_test::emulated_cuda::fail_next("launch", cudaErrorInvalidConfiguration);
  lod_test::emulated_cuda::enqueue_kernel(stream, [launch = std::move(launch)] {
    try {
      const Work work = lod_test::ptx::run(launch, machine().seed);
      const std::lock_guard lock(machine().mutex);
      machine().works[launch.kernel->name] += work;
    } catch (const std::exception& error) {
      lod_test::emulated_cuda::on_failure(error.what());
    }
  });
  return cudaPeekAtLastError();
}

}  // namespace

bool lod_test::kernels_are_interpreted() noexcept { return true; }

extern "C" {

void** __cudaRegisterFatBinary(void* fat_binary) {
  const std::lock_guard lock(machine().mutex);
  Program& program = *machine().programs.emplace_back(std::make_unique<Program>(ptx_of(fat_binary)));
  return reinterpret_cast<void**>(&program);
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
void __cudaRegisterFunction(void** program, const char* function, char*, const char* name, int, uint3*, uint3*, dim3*,
                            dim3*, int*) {
  const std::lock_guard lock(machine().mutex);
  machine().functions[function] = {reinterpret_cast<Program*>(program), name};
}
char __cudaInitModule(void**) { return 1; }
void __cudaRegisterVar(void**, char*, char*, const char*, int, std::size_t, int, int) {}

struct Configuration {
  dim3 blocks, threads;
  std::size_t shared_bytes;
  cudaStream_t stream;
};
static thread_local std::vector<Configuration> configurations;

unsigned __cudaPushCallConfiguration(dim3 blocks, dim3 threads, std::size_t shared_bytes, cudaStream_t stream) {
  configurations.push_back({blocks, threads, shared_bytes, stream});
  return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3* blocks, dim3* threads, std::size_t* shared_bytes, void* stream) {
  const Configuration last = configurations.back();
  configurations.pop_back();
  *blocks = last.blocks;
  *threads = last.threads;
  *shared_bytes = last.shared_bytes;
  *static_cast<cudaStream_t*>(stream) = last.stream;
  return cudaSuccess;
}
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* function) {
  *kernel = reinterpret_cast<cudaKernel_t>(const_cast<void*>(function));
  return cudaSuccess;
}
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 blocks, dim3 threads, void** arguments,
                               std::size_t shared_bytes, cudaStream_t stream) {
  return launch(kernel, blocks, threads, arguments, shared_bytes, stream);
}

cudaError_t cudaLaunchKernel(const void* function, dim3 blocks, dim3 threads, void** arguments,
                             std::size_t shared_bytes, cudaStream_t stream) {
  return launch(function, blocks, threads, arguments, shared_bytes, stream);
}
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* configuration, const void* function, void** arguments) {
  return launch(function, configuration->gridDim, configuration->blockDim, arguments, configuration->dynamicSmemBytes,
                configuration->stream);
}
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* function) {
  const auto [kernel, program] = find(function);
  if (kernel == nullptr) return cudaErrorInvalidDeviceFunction;
  *attributes = {};
  attributes->sharedSizeBytes = kernel->shared_bytes;
  attributes->localSizeBytes = kernel->local_bytes;
  attributes->maxThreadsPerBlock = kernel->most_threads;
  attributes->numRegs = 32;
  attributes->ptxVersion = 90;
  attributes->binaryVersion = 90;
  return cudaSuccess;
}
cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int) { return cudaSuccess; }
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void*, int, std::size_t,
                                                                   unsigned) {
  *blocks = 2;
  return cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void*, int, std::size_t) {
  *blocks = 2;
  return cudaSuccess;
}

}  // extern "C"
