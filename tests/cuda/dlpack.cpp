// SPDX-License-Identifier: Apache-2.0
// The memory of a GPU, handed over by DLPack. On an emulated one: what is freed too early ends as rubbish there.
#if __has_include(<dlpack/dlpack.h>)
#  include "support/emulated_cuda.hpp"
#  include "support/emulated_stream.hpp"
#  include "support/foreign_dlpack.hpp"
#  include "support/random_batch.hpp"
#  include "support/same_bits.hpp"
#  include <lod/cuda.hpp>
#  include <lod/cuda/dlpack.hpp>

#  include <doctest/doctest.h>

#  include <array>
#  include <cstddef>
#  include <cstdint>
#  include <stdexcept>
#  include <utility>
#  include <vector>

using lod::Cpu;
using lod::Cuda;
using lod::CudaExecutor;
using lod::LoD;
using lod::LoDTensor;
using namespace lod_test;

namespace {

LoDTensor<float> dlpack_batch(std::uint64_t seed) {
  Engine engine(seed);
  return real_numbers<float>(engine, LoD::from_lengths({{2, 0, 1}, {3, 0, 4}}), {3});
}

/// Enqueues, in the stream of `executor`, a copy of `rows` rows of three floats at `from`.
LoDTensor<float, Cuda> copy_of(const CudaExecutor& executor, const void* from, std::int64_t rows) {
  LoDTensor<float, Cuda> y({rows, 3}, lod::uninitialized, executor.resource());
  executor.resource()->copy(y.data(), from, y.values().size_bytes());
  return y;
}

std::vector<float> values_of(const CudaExecutor& executor, const LoDTensor<float, Cuda>& x) {
  const auto here = lod::to<Cpu>(executor, x);
  return {here.values().begin(), here.values().end()};
}
std::vector<float> values_of(const LoDTensor<float>& x) { return {x.values().begin(), x.values().end()}; }

}  // namespace

TEST_CASE("to_dlpack on a GPU: the values where they are, and whose they are") {
  const CudaExecutor executor, consumer;
  auto x = lod::to<Cuda>(executor, dlpack_batch(1));
  const auto handle = lod::to_dlpack(x, consumer.stream());
  CHECK(handle->dl_tensor.data == x.data());
  CHECK(handle->dl_tensor.device.device_type == kDLCUDA);
  CHECK(handle->dl_tensor.device.device_id == executor.ordinal());
  CHECK(handle->dl_tensor.ndim == 2);
  CHECK(handle->dl_tensor.shape[0] == 7);
  CHECK(handle->dl_tensor.shape[1] == 3);
  CHECK(lod::to_dlpack<DLManagedTensorVersioned>(x, consumer.stream())->flags == 0);
  CHECK(lod::to_dlpack<DLManagedTensorVersioned>(std::as_const(x), consumer.stream())->flags == 1);
  CHECK_THROWS_WITH_AS(lod::to_dlpack(LoDTensor<float, Cuda>(), consumer.stream()),
                       doctest::Contains("made without a stream"), std::invalid_argument);
}

TEST_CASE("to_dlpack on a GPU: the consumer reads what was computed, and before the memory goes, without a wait") {
  const CudaExecutor executor, consumer;
  const auto expected = dlpack_batch(2);
  LoDTensor<float, Cuda> y;
  const auto before = emulated_cuda::counters();
  {
    auto handle = lod::to_dlpack(lod::to<Cuda>(executor, expected), consumer.stream());
    y = copy_of(consumer, handle->dl_tensor.data, 7);
  }
  CHECK((emulated_cuda::counters() - before).synchronisations == 0);
  executor.synchronize();  // the memory is freed here
  CHECK(values_of(consumer, y) == values_of(expected));
}

TEST_CASE("from_dlpack on a GPU: the executor reads what the producer computed, and before the memory goes") {
  const CudaExecutor executor, producer;
  const auto expected = dlpack_batch(3);
  int deleted = 0;
  LoDTensor<float, Cuda> y;
  const auto before = emulated_cuda::counters();
  {
    auto theirs = lod::to<Cuda>(producer, expected);
    ForeignDLPack array(theirs.data(), {7, 3}, deleted);
    array.array().device = {kDLCUDA, producer.ordinal()};
    auto x = lod::from_dlpack<float>(executor, array.give(), producer.stream(), expected.lod());
    CHECK(x.data() == theirs.data());
    CHECK(x.lod() == expected.lod());
    CHECK(x.row_shape() == std::vector<std::int64_t>{3});
    CHECK(x.resource() == executor.resource());
    y = copy_of(executor, x.data(), 7);
    CHECK(deleted == 0);
    x = LoDTensor<float, Cuda>();
    CHECK(deleted == 1);
  }
  CHECK((emulated_cuda::counters() - before).synchronisations == 0);
  producer.synchronize();  // the memory is freed here
  CHECK(values_of(executor, y) == values_of(expected));
}

TEST_CASE("DLPack on a GPU: a tensor that comes back is the same, and its memory is freed once") {
  const CudaExecutor executor, other;
  const auto expected = dlpack_batch(4);
  emulated_cuda::run_all();
  {
    const auto x = lod::to<Cuda>(executor, expected);
    const void* const data = x.data();
    const auto y = lod::from_dlpack<const float>(other, lod::to_dlpack(x, other.stream()), executor.stream(), x.lod());
    CHECK(y.data() == data);
    CHECK(same_bits(lod::to<Cpu>(other, y), expected));
  }
  executor.synchronize();
  other.synchronize();
}

TEST_CASE("from_dlpack on a GPU: memory of elsewhere, and what is broken, is refused and deleted once") {
  const CudaExecutor executor, producer;
  const auto there = lod::to<Cuda>(producer, dlpack_batch(5));
  int deleted = 0;
  ForeignDLPack array(const_cast<float*>(there.data()), {7, 3}, deleted);
  array.array().device = {kDLCUDA, executor.ordinal()};
  const auto refused = [&](const char* text) {
    CHECK_THROWS_WITH_AS(lod::from_dlpack<float>(executor, array.give(), producer.stream(), there.lod()),
                         doctest::Contains(text), std::invalid_argument);
  };
  SUBCASE("memory of the CPU") {
    array.array().device.device_type = kDLCPU;
    refused("memory of device type 1 and number 0, expected that of GPU 0");
  }
  SUBCASE("memory of another GPU") {
    array.array().device.device_id = 1;
    refused("memory of device type 2 and number 1, expected that of GPU 0");
  }
  SUBCASE("another type") {
    array.type(kDLInt, 32);
    refused("data type: expected FP32, found INT32");
  }
  SUBCASE("not aligned") {
    array.array().byte_offset = 2;
    refused("no multiple of the 4 bytes");
  }
  SUBCASE("another number of rows") {
    array.array().shape[0] = 6;
    refused("the LoD is for 7 rows, but there are 6");
  }
  CHECK(deleted == 1);
}

TEST_CASE("from_dlpack on a GPU: memory that CUDA manages, and none at all") {
  const CudaExecutor executor, producer;
  auto there = lod::to<Cuda>(producer, dlpack_batch(6));
  int deleted = 0;
  ForeignDLPack managed(there.data(), {7, 3}, deleted);
  managed.array().device = {kDLCUDAManaged, 0};
  CHECK(lod::from_dlpack<float>(executor, managed.give(), producer.stream()).rows() == 7);
  ForeignDLPack nothing(nullptr, {5, 0}, deleted);
  nothing.array().device = {kDLCUDA, executor.ordinal()};
  CHECK(lod::from_dlpack<float>(executor, nothing.give(), producer.stream()).rows() == 5);
  CHECK(deleted == 2);
}
#endif
