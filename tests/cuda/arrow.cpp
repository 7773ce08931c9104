// SPDX-License-Identifier: Apache-2.0
// The memory of a GPU, handed over by Arrow's C device data interface. On an emulated one: what is freed too early ends
// as rubbish there, and the CPU cannot read it.
#include "support/emulated_cuda.hpp"
#include "support/emulated_stream.hpp"
#include "support/foreign_arrow.hpp"
#include "support/random_batch.hpp"
#include "support/same_bits.hpp"
#include <lod/cuda.hpp>
#include <lod/cuda/arrow.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

using lod::ArrowHandle;
using lod::Cpu;
using lod::Cuda;
using lod::CudaExecutor;
using lod::LoD;
using lod::LoDTensor;
using namespace lod_test;

namespace {

LoDTensor<float> arrow_batch(std::uint64_t seed) {
  Engine engine(seed);
  return real_numbers<float>(engine, LoD::from_lengths({{2, 0, 1}, {3, 0, 4}}), {3});
}

/// Brings numbers to where the CPU reads them, by what is enqueued in the stream of `executor`.
template <class T>
std::vector<T> read(const CudaExecutor& executor, const void* from, std::size_t count) {
  std::vector<T> numbers(count);
  executor.resource()->download(numbers.data(), from, count * sizeof(T));
  return numbers;
}

/// Numbers on the GPU.
template <class T>
LoDTensor<T, Cuda> on_gpu(const CudaExecutor& executor, const std::vector<T>& numbers) {
  return lod::to<Cuda>(executor, LoDTensor<T>::from_values(LoD(), {}, numbers));
}

ArrowHandle<ArrowDeviceArray> on_device(ForeignArrow& array, ArrowDeviceType type, std::int64_t device, void* event) {
  ArrowDeviceArray there{};
  array.give().move_to(&there.array);
  there.device_type = type;
  there.device_id = device;
  there.sync_event = event;
  return ArrowHandle<ArrowDeviceArray>(&there);
}

}  // namespace

TEST_CASE("to_arrow on a GPU: offsets and values are there, and the consumer reads them before the memory goes") {
  const CudaExecutor executor, consumer;
  const auto expected = arrow_batch(1);
  LoDTensor<float, Cuda> y({21}, lod::uninitialized, consumer.resource());
  {
    auto x = lod::to<Cuda>(executor, expected);
    const void* const data = x.data();
    const auto before = emulated_cuda::counters();
    const auto array = lod::to_arrow(executor, std::move(x), consumer.stream());
    CHECK((emulated_cuda::counters() - before).synchronisations == 0);
    CHECK(array->device_type == ARROW_DEVICE_CUDA);
    CHECK(array->device_id == executor.ordinal());
    CHECK(array->sync_event == nullptr);
    const ArrowArray& outer = array->array;
    const ArrowArray& inner = *outer.children[0];
    CHECK(outer.length == 3);
    CHECK(inner.length == 3);
    CHECK(read<std::int64_t>(consumer, outer.buffers[1], 4) == std::vector<std::int64_t>{0, 2, 2, 3});
    CHECK(read<std::int64_t>(consumer, inner.buffers[1], 4) == std::vector<std::int64_t>{0, 3, 3, 7});
    const ArrowArray& elements = *inner.children[0]->children[0];
    CHECK(elements.length == 21);
    CHECK(elements.buffers[1] == data);
    consumer.resource()->copy(y.data(), elements.buffers[1], 21 * sizeof(float));
  }
  executor.synchronize();  // the memory is freed here
  const auto here = lod::to<Cpu>(consumer, y);
  CHECK(std::vector<float>(here.values().begin(), here.values().end()) ==
        std::vector<float>(expected.values().begin(), expected.values().end()));
}

TEST_CASE("to_arrow on a GPU: memory of another executor's stream waits for the consumer, too") {
  const CudaExecutor executor, other, consumer;
  const auto expected = arrow_batch(2);
  LoDTensor<float, Cuda> y({21}, lod::uninitialized, consumer.resource());
  {
    auto x = lod::to<Cuda>(other, expected);
    executor.wait_for(other);
    const auto array = lod::to_arrow(executor, std::move(x), consumer.stream());
    const ArrowArray& elements = *array->array.children[0]->children[0]->children[0];
    consumer.resource()->copy(y.data(), elements.buffers[1], 21 * sizeof(float));
  }
  other.synchronize();  // the memory is freed here
  const auto here = lod::to<Cpu>(consumer, y);
  CHECK(std::vector<float>(here.values().begin(), here.values().end()) ==
        std::vector<float>(expected.values().begin(), expected.values().end()));
}

TEST_CASE("from_arrow on a GPU: the values stay where they are, the offsets come to the CPU") {
  const CudaExecutor executor, producer;
  const auto expected = arrow_batch(3);
  const auto offsets = on_gpu<std::int64_t>(producer, {0, 2, 2, 3});
  const auto narrow = on_gpu<std::int32_t>(producer, {5, 8, 8, 12});
  std::vector<float> padded(15);  // five rows of others before those that count
  padded.insert(padded.end(), expected.values().begin(), expected.values().end());
  const auto values = on_gpu(producer, padded);
  cudaEvent_t event = nullptr;
  REQUIRE(cudaEventCreateWithFlags(&event, cudaEventDisableTiming) == cudaSuccess);
  REQUIRE(cudaEventRecord(event, producer.stream()) == cudaSuccess);
  int released = 0;
  {
    ForeignArrow array({{"+L", 3, {nullptr, offsets.data()}},
                        {"+l", 3, {nullptr, narrow.data()}},
                        {"+w:3", 12, {nullptr}},
                        {"f", 36, {nullptr, values.data()}}},
                       released);
    const ArrowSchema& schema = array.schema(0);
    const auto x = lod::from_arrow<float>(executor, on_device(array, ARROW_DEVICE_CUDA, 0, &event), schema);
    CHECK(x.data() == values.data() + 15);
    CHECK(x.lod() == expected.lod());
    CHECK(same_bits(lod::to<Cpu>(executor, x), expected));
    CHECK(released == 0);
  }
  CHECK(released == 1);
  REQUIRE(cudaEventDestroy(event) == cudaSuccess);
}

TEST_CASE("from_arrow on a GPU: the array is released when the executor's work on it is done") {
  const CudaExecutor executor, producer;
  const auto expected = arrow_batch(4);
  LoDTensor<float, Cuda> y({7, 3}, lod::uninitialized, executor.resource());
  int released = 0;
  {
    const auto theirs = lod::to<Cuda>(producer, expected);
    producer.synchronize();
    ForeignArrow array({{"+w:3", 7, {nullptr}}, {"f", 21, {nullptr, theirs.data()}}}, released);
    const ArrowSchema& schema = array.schema(0);
    const auto x = lod::from_arrow<float>(executor, on_device(array, ARROW_DEVICE_CUDA, 0, nullptr), schema);
    executor.resource()->copy(y.data(), x.data(), x.values().size_bytes());
  }
  CHECK(released == 1);
  producer.synchronize();  // the memory is freed here, by a producer who knows nothing of the executor
  CHECK(same_bits(lod::to<Cpu>(executor, y), expected.with_lod(LoD())));
}

TEST_CASE("Arrow on a GPU: a tensor that comes back is the same, where it was") {
  const CudaExecutor executor, other;
  const auto expected = arrow_batch(5);
  const auto x = lod::to<Cuda>(executor, expected);
  const auto y = lod::from_arrow<float>(other, lod::to_arrow(executor, x, other.stream()), *lod::arrow_schema(x));
  CHECK(y.data() == x.data());
  CHECK(same_bits(lod::to<Cpu>(other, y), expected));
}

TEST_CASE("from_arrow on a GPU: nulls are found, and booleans looked at") {
  const CudaExecutor executor;
  const auto bytes = on_gpu<std::uint8_t>(executor, {0b0111'1011, 1, 0, 1, 2});
  const auto schema = lod::arrow_schema(lod::DataType::BOOL, 0, {});
  int released = 0;
  const auto given = [&](std::int64_t length, std::int64_t null_count) {
    ForeignArrow array({{"c", length, {bytes.data(), bytes.data() + 1}, 0, null_count}}, released);
    return on_device(array, ARROW_DEVICE_CUDA, 0, nullptr);
  };
  CHECK(static_cast<const void*>(lod::from_arrow<bool>(executor, given(3, 0), *schema).data()) == bytes.data() + 1);
  CHECK_THROWS_WITH_AS(lod::from_arrow<bool>(executor, given(3, 1), *schema), doctest::Contains("position 2: null"),
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(lod::from_arrow<bool>(executor, given(4, 0), *schema), doctest::Contains("not bytes of 0 and 1"),
                       std::invalid_argument);
  ForeignArrow bits({{"b", 4, {nullptr, bytes.data()}}}, released);
  const ArrowSchema& bit = bits.schema(0);
  CHECK_THROWS_WITH_AS(lod::from_arrow<bool>(executor, on_device(bits, ARROW_DEVICE_CUDA, 0, nullptr), bit),
                       doctest::Contains("not bytes of 0 and 1"), std::invalid_argument);
  CHECK(released == 4);
}

TEST_CASE("from_arrow on a GPU: memory of elsewhere is refused, and released once") {
  const CudaExecutor executor;
  const float value = 1;
  const auto schema = lod::arrow_schema(lod::DataType::FP32, 0, {});
  int released = 0;
  for (const auto& [type, device] : {std::pair<ArrowDeviceType, std::int64_t>(ARROW_DEVICE_CPU, -1),
                                     std::pair<ArrowDeviceType, std::int64_t>(ARROW_DEVICE_CUDA, 1)}) {
    ForeignArrow array({{"f", 1, {nullptr, &value}}}, released);
    CHECK_THROWS_WITH_AS(lod::from_arrow<float>(executor, on_device(array, type, device, nullptr), *schema),
                         doctest::Contains("expected that of GPU 0"), std::invalid_argument);
  }
  CHECK(released == 2);
}

TEST_CASE("from_arrow on a GPU: batches without sequences, rows without elements") {
  const CudaExecutor executor;
  const LoDTensor<float, Cuda> none(LoD::from_offsets({{0}, {0}}), {2}, executor.resource());
  const auto x =
      lod::from_arrow<float>(executor, lod::to_arrow(executor, none, executor.stream()), *lod::arrow_schema(none));
  CHECK(x.lod() == none.lod());
  CHECK(x.row_shape() == none.row_shape());
  const LoDTensor<float, Cuda> flat(LoD::from_lengths({{2, 3}}), {0}, executor.resource());
  const auto y =
      lod::from_arrow<float>(executor, lod::to_arrow(executor, flat, executor.stream()), *lod::arrow_schema(flat));
  CHECK(y.shape() == std::vector<std::int64_t>{5, 0});
}
