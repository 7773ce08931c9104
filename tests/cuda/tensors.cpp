// SPDX-License-Identifier: Apache-2.0
#include "support/emulated_cuda.hpp"
#include "support/emulated_stream.hpp"
#include "support/executors.hpp"
#include "support/random_batch.hpp"
#include "support/random_lod.hpp"
#include <lod/cuda.hpp>
#include <lod/ops.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <memory_resource>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

using lod::Cpu;
using lod::Cuda;
using lod::CudaExecutor;
using lod::LoD;
using lod::LoDTensor;
using lod::PoolType;
using namespace lod_test;

// An executor of a GPU says how the CPU's numbers get there.
namespace {
struct WithoutUpload {
  using device = lod::Cuda;
  lod::CudaMemoryResource* resource() const;
  lod::ScratchMemory<lod::Cuda>& scratch() const;
  lod::Workspace& workspace() const;
};
}  // namespace
static_assert(lod::Executor<lod::CudaExecutor> && !lod::Executor<WithoutUpload>);

// With the back end for GPUs, operations have kernels there, for the same elements; but for those of which a twin
// waits.
static_assert(lod::supports<lod::op::sequence_pool, float, Cuda>);
static_assert(!lod::supports<lod::op::sequence_softmax, int, Cuda>);
static_assert(!lod::supports<lod::op::sequence_erase, std::int64_t, Cuda>);
static_assert(lod::supports<lod::op::sequence_erase_and_wait, std::int64_t, Cuda>);

TEST_CASE("CudaExecutor: copies of a LoD that another back end has made are not taken for its own") {
  /// As a back end for another device would make them: nothing in it is where a GPU's copy has its members.
  struct Foreign final : lod::detail::LoDBlock::DeviceCopy {
    explicit Foreign(int& destroyed)
        : DeviceCopy(&own_kind(), [](DeviceCopy* copy) noexcept { delete static_cast<Foreign*>(copy); }),
          destroyed_(destroyed) {}
    ~Foreign() { ++destroyed_; }
    static char& own_kind() {
      static char kind = 0;
      return kind;
    }
    int& destroyed_;
  };
  int destroyed = 0;
  {
    const CudaExecutor executor;
    Engine engine(3);
    const auto x = small_integers<float>(engine, LoD::from_lengths({{2, 1}, {3, 0, 2}}), {3});
    x.lod_view().block()->add(new Foreign(destroyed));
    const auto there = lod::to<Cuda>(executor, x);
    x.lod_view().block()->add(new Foreign(destroyed));  // now the newest, before the GPU's own
    const auto y = lod::sequence_pool(executor, there, PoolType::SUM);
    CHECK(same_bits(lod::to<Cpu>(executor, y), lod::sequence_pool(x, PoolType::SUM)));
    CHECK(destroyed == 0);
  }
  CHECK(destroyed == 2);
}

namespace {

LoDTensor<float> batch(std::uint64_t seed, std::int64_t row_size = 3) {
  Engine engine(seed);
  return real_numbers<float>(engine, LoD::from_lengths({{2, 0, 1}, {3, 0, 4}}), {row_size});
}

bool same(const LoDTensor<float>& a, const LoDTensor<float>& b) { return same_bits(a, b); }

}  // namespace

TEST_CASE("a tensor goes to the GPU and comes back") {
  const CudaExecutor executor;
  for_each_random_lod(3, 0, 4, [&](Engine& engine, const Lengths& lengths) {
    const auto x = lengths.empty() ? real_numbers<float>(engine, {5, 3})
                                   : real_numbers<float>(engine, LoD::from_lengths(lengths), {3});
    const LoDTensor<float, Cuda> there = lod::to<Cuda>(executor, x);
    CHECK(there.lod() == x.lod());
    CHECK(there.shape() == x.shape());
    CHECK(same(lod::to<Cpu>(executor, there), x));
    if (x.size() < 2) return;
    const auto part = x.between(1, x.size());
    CHECK(same_bits(lod::to<Cpu>(executor, there.between(1, x.size())), part));
    CHECK(same_bits(lod::to<Cpu>(executor, lod::to<Cuda>(executor, part)), part));
  });
}

TEST_CASE("what is copied to the GPU may change as soon as the call has returned") {
  const CudaExecutor executor;
  auto x = batch(1);
  const auto before = x;
  const auto there = lod::to<Cuda>(executor, x);
  for (float& number : x.values()) number = -1;
  CHECK(same(lod::to<Cpu>(executor, there), before));
}

TEST_CASE("CudaExecutor: one that was moved from works on") {
  CudaExecutor executor;
  const CudaExecutor moved = std::move(executor);
  CHECK(executor.stream() == moved.stream());
  const auto x = batch(1);
  CHECK(same(lod::to<Cpu>(executor, lod::to<Cuda>(moved, x)), x));
}

TEST_CASE("large tensors go in parts, and so they come back") {
  const CudaExecutor executor;
  Engine engine(2);
  const auto x = real_numbers<float>(engine, {3, (std::int64_t{1} << 20) + 5});
  CHECK(same(lod::to<Cpu>(executor, lod::to<Cuda>(executor, x)), x));
  // More than may be under way at a time: something has to be waited for.
  const auto y = real_numbers<float>(engine, {18, std::int64_t{1} << 20});
  CHECK(same(lod::to<Cpu>(executor, lod::to<Cuda>(executor, y)), y));
}

TEST_CASE(
    "a tensor on a GPU is a regular type: new ones are zero, copies have their own values, moves bring them along") {
  const CudaExecutor executor;
  const auto x = batch(3);
  const LoDTensor<float, Cuda> zero(x.lod(), {3}, executor.resource());
  const auto zeros = lod::to<Cpu>(executor, zero);
  for (const float number : zeros.values()) CHECK(number == 0);

  auto a = lod::to<Cuda>(executor, x);
  const LoDTensor<float, Cuda> copy = a;
  const float* const where = a.data();
  LoDTensor<float, Cuda> moved = std::move(a);
  CHECK(moved.data() == where);
  CHECK(a.rows() == 0);
  const auto other = batch(4);
  lod::to_into(executor, other, moved);
  CHECK(moved.data() == where);  // the same structure: the memory is used again
  CHECK(same(lod::to<Cpu>(executor, copy), x));
  CHECK(same(lod::to<Cpu>(executor, moved), other));
  a = copy;
  LoDTensor<float, Cuda> assigned;
  assigned = copy;
  CHECK(same(lod::to<Cpu>(executor, a), x));
  CHECK(same(lod::to<Cpu>(executor, assigned), x));
  const auto kept = LoDTensor<float, Cuda>::copy_of(copy.slice({0, 0}), executor.resource());
  CHECK(same_bits(lod::to<Cpu>(executor, kept), x.slice({0, 0})));
  const LoDTensor<float, Cuda> flat = moved.with_lod(LoD::from_lengths({{3, 4}}));
  CHECK(flat.data() == where);
  CHECK(lod::to<Cpu>(executor, flat).lod() == LoD::from_lengths({{3, 4}}));
}

TEST_CASE("a tensor that was made without a stream takes the executor's when an operation writes to it") {
  const CudaExecutor executor;
  const auto x = batch(5);
  LoDTensor<float, Cuda> y;
  CHECK(y.resource() == nullptr);
  CHECK_THROWS_WITH_AS(y.resize(x.lod(), {3}), doctest::Contains("expected executor.resource()"),
                       std::invalid_argument);
  CHECK(y.rows() == 0);
  lod::sequence_pool_into(executor, lod::to<Cuda>(executor, x), PoolType::SUM, y);
  CHECK(y.resource() == executor.resource());
  CHECK(y.rows() == 3);
}

TEST_CASE("row-sparse tensors with more or fewer rows of values than ids are not copied, and not taken") {
  const lod::CudaExecutor executor;
  const lod::SelectedRows<float> whole({1, 0, 2}, 3, {2});
  for (const std::int64_t rows : {2, 4}) {
    const std::string text = "3 ids, but " + std::to_string(rows) + " rows of values";
    auto torn = whole;
    torn.value() = LoDTensor<float>({rows, 2});
    CHECK_THROWS_WITH_AS(lod::to<lod::Cuda>(executor, torn), ("to: " + text).c_str(), lod::ShapeMismatch);
    auto on_gpu = lod::to<lod::Cuda>(executor, whole);
    on_gpu.value() = lod::to<lod::Cuda>(executor, torn.value());
    CHECK_THROWS_WITH_AS(lod::to<lod::Cpu>(executor, on_gpu), ("to: " + text).c_str(), lod::ShapeMismatch);
    CHECK_THROWS_WITH_AS(lod::merge_add(executor, on_gpu), ("merge_add: " + text).c_str(), lod::ShapeMismatch);
  }
}

TEST_CASE("memory of the user's on the GPU is wrapped without a copy") {
  const CudaExecutor executor;
  const auto x = batch(6);
  const auto there = lod::to<Cuda>(executor, x);
  const auto wrapped = LoDTensor<const float, Cuda>::wrap(there.values(), x.lod(), {3}, executor.resource());
  CHECK(wrapped.data() == there.data());
  CHECK(same(lod::to<Cpu>(executor, lod::sequence_pool(executor, wrapped, PoolType::MAX)),
             lod::to<Cpu>(executor, lod::sequence_pool(executor, there, PoolType::MAX))));
  const auto owner = std::make_shared<int>(7);
  {
    const auto owning = LoDTensor<const float, Cuda>::wrap(there.values(), x.lod(), {3}, owner, executor.resource());
    CHECK(owner.use_count() == 2);
  }
  CHECK(owner.use_count() == 1);
}

TEST_CASE("the numbers of a LoD are copied to the GPU once, for all tensors and executors") {
  const CudaExecutor first, second;
  const auto x = batch(7);
  const auto a = lod::to<Cuda>(first, x);
  const auto before = emulated_cuda::counters();
  const LoDTensor<float, Cuda> b(x.lod(), {3}, lod::uninitialized, second.resource());
  const auto y = lod::sequence_pool(first, a, PoolType::SUM);
  const auto dx = lod::sequence_pool_grad(second, lod::sequence_pool(second, b, PoolType::SUM), x.lod(), PoolType::SUM);
  CHECK((emulated_cuda::counters() - before).copies == 0);
  CHECK(same(lod::to<Cpu>(first, y), lod::to<Cpu>(first, lod::sequence_pool(first, a, PoolType::SUM))));
}

TEST_CASE("a LoD may be gone before what was enqueued with it has happened, and outlive the executor") {
  const std::int64_t streams = emulated_cuda::live_streams();
  LoD survivor;
  std::vector<float> sums;
  {
    const CudaExecutor executor;
    LoDTensor<float, Cuda> y;
    {
      Engine engine(8);
      auto x = real_numbers<float>(engine, LoD::from_lengths({{4, 3}}), {});
      for (const std::int64_t i : {0, 4}) {
        float sum = 0;
        for (std::int64_t row = i; row < (i == 0 ? 4 : 7); ++row) sum += x.data()[row];
        sums.push_back(sum);
      }
      const auto there = lod::to<Cuda>(executor, x);
      lod::sequence_pool_into(executor, there, PoolType::SUM, y);
    }
    const auto back = lod::to<Cpu>(executor, y);
    CHECK(back.data()[0] == doctest::Approx(sums[0]));
    CHECK(back.data()[1] == doctest::Approx(sums[1]));
    const auto x = batch(9);
    survivor = x.lod();
    static_cast<void>(lod::sequence_pool(executor, lod::to<Cuda>(executor, x), PoolType::SUM));
  }
  emulated_cuda::run_all();
  CHECK(emulated_cuda::live_streams() <= streams + 1);  // that of the LoDs stays
  survivor = LoD();
  const CudaExecutor other;
  const auto x = batch(10);
  CHECK(same(lod::to<Cpu>(other, lod::to<Cuda>(other, x)), x));
}

TEST_CASE("a graph keeps the numbers of the LoDs that it was captured with") {
  const CudaExecutor executor;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  LoDTensor<float, Cuda> values, y;
  LoDTensor<float> expected;
  {
    const auto x = batch(11);
    values = lod::to<Cuda>(executor, x);
    y = lod::sequence_pool(executor, values, PoolType::SUM);
    expected = lod::to<Cpu>(executor, y);
    // Never seen by the executor before: it comes to the GPU while the graph is captured.
    const auto fresh = values.with_lod(LoD::from_lengths(x.lod().lengths()));
    REQUIRE(cudaStreamBeginCapture(executor.stream(), cudaStreamCaptureModeGlobal) == cudaSuccess);
    lod::sequence_pool_into(executor, fresh, PoolType::SUM, y);
    REQUIRE(cudaStreamEndCapture(executor.stream(), &graph) == cudaSuccess);
    REQUIRE(cudaGraphInstantiate(&executable, graph, 0) == cudaSuccess);
  }
  const auto other = batch(12);
  for (int i = 0; i < 3; ++i) static_cast<void>(lod::to<Cuda>(executor, other));  // others' numbers, in the same memory
  for (int run = 0; run < 2; ++run) {
    LoDTensor<float> rubbish(expected.lod(), {3});
    lod::to_into(executor, rubbish, y);
    REQUIRE(cudaGraphLaunch(executable, executor.stream()) == cudaSuccess);
    CHECK(same(lod::to<Cpu>(executor, y), expected));
  }
  CHECK(cudaGraphExecDestroy(executable) == cudaSuccess);
  CHECK(cudaGraphDestroy(graph) == cudaSuccess);
}

TEST_CASE("executors wait for one another on the GPU, not on the CPU") {
  const CudaExecutor first, second;
  const auto x = batch(13);
  const auto a = lod::to<Cuda>(first, x);
  const auto before = emulated_cuda::counters();
  second.wait_for(first);
  const auto y = lod::sequence_pool(second, a, PoolType::SUM);
  CHECK((emulated_cuda::counters() - before).synchronisations == 0);
  CHECK(same(lod::to<Cpu>(second, y), lod::to<Cpu>(first, lod::sequence_pool(first, a, PoolType::SUM))));
}

TEST_CASE("a stream and a memory resource of the user's") {
  cudaStream_t stream = nullptr;
  REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
  struct Pinned : std::pmr::memory_resource {
    int live = 0;
    void* do_allocate(std::size_t bytes, std::size_t) override {
      void* memory = nullptr;
      if (cudaHostAlloc(&memory, bytes, cudaHostAllocDefault) != cudaSuccess) throw std::bad_alloc();
      ++live;
      return memory;
    }
    void do_deallocate(void* memory, std::size_t, std::size_t) override {
      static_cast<void>(cudaFreeHost(memory));
      --live;
    }
    bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override { return this == &other; }
  } pinned;
  lod::CudaMemoryFrom<std::pmr::memory_resource> memory(&pinned);
  const auto x = batch(14);
  {
    const CudaExecutor executor(stream, &memory);
    CHECK(executor.stream() == stream);
    const LoDTensor<float, Cuda> y(x.lod(), {3}, lod::uninitialized, executor.resource());
    CHECK(pinned.live == 1);
  }
  CHECK(pinned.live == 0);
  {
    const CudaExecutor executor(stream);
    CHECK(same(lod::to<Cpu>(executor, lod::to<Cuda>(executor, x)), x));
  }
  CHECK(cudaStreamDestroy(stream) == cudaSuccess);
  CHECK_THROWS_AS(CudaExecutor(cudaStream_t{}), std::invalid_argument);
}

TEST_CASE("errors of CUDA say which call failed, are cleared, and leave everything as it was") {
  const CudaExecutor executor;
  const auto x = batch(15);
  auto there = lod::to<Cuda>(executor, x);
  const auto throws = [&](const char* function, cudaError_t error, const auto& call) {
    emulated_cuda::fail_next(function, error);
    bool thrown = false;
    try {
      call();
    } catch (const lod::CudaError& caught) {
      thrown = true;
      CHECK(caught.code() == static_cast<int>(error));
      CHECK(std::string(caught.what()).find(function) != std::string::npos);
      CHECK(std::string(caught.what()).find(cudaGetErrorName(error)) != std::string::npos);
    }
    CHECK(thrown);
    CHECK(cudaPeekAtLastError() == cudaSuccess);
    CHECK(same(lod::to<Cpu>(executor, there), x));
  };
  const LoD longer = LoD::from_lengths({{40, 50}});
  throws("cudaMallocFromPoolAsync", cudaErrorMemoryAllocation, [&] { there.resize(longer, {3}); });
  throws("cudaMemcpyAsync", cudaErrorInvalidValue, [&] { static_cast<void>(lod::to<Cuda>(executor, x)); });
  throws("cudaMemcpyAsync", cudaErrorInvalidValue, [&] { static_cast<void>(lod::to<Cpu>(executor, there)); });
  throws("cudaMemsetAsync", cudaErrorInvalidValue,
         [&] { static_cast<void>(LoDTensor<float, Cuda>(longer, {3}, executor.resource())); });
  throws("cudaStreamSynchronize", cudaErrorIllegalAddress, [&] { executor.synchronize(); });
  throws("cudaStreamCreateWithFlags", cudaErrorMemoryAllocation, [&] { CudaExecutor(0); });
  throws("cudaEventSynchronize", cudaErrorIllegalAddress, [&] { static_cast<void>(lod::to<Cpu>(executor, there)); });
  // The numbers of a LoD that did not arrive do not count as there.
  const LoD fresh = LoD::from_lengths({{3, 4}});
  const auto flat = there.with_lod(fresh);
  for (const char* const function : {"cudaMallocFromPoolAsync", "cudaMemcpyAsync", "cudaEventCreateWithFlags",
                                     "cudaEventRecord", "cudaStreamWaitEvent"}) {
    LoDTensor<float, Cuda> y(LoD(), {3}, lod::uninitialized, executor.resource());
    y.resize(LoD(), {3}, 2);
    throws(function, cudaErrorInvalidValue, [&] { lod::sequence_pool_into(executor, flat, PoolType::SUM, y); });
  }
  CHECK(lod::to<Cpu>(executor, lod::sequence_pool(executor, flat, PoolType::SUM)).rows() == 2);
}

TEST_CASE("ids that name nothing are found on the GPU, and reported to who waits next") {
  const CudaExecutor executor;
  Engine engine(18);
  const auto table = real_numbers<float>(engine, {5, 2});
  auto ids = random_ids(engine, LoD::from_lengths({{2, 1}}), 5);
  ids.data()[1] = 5;
  const auto there = lod::to<Cuda>(executor, table);
  auto list = lod::to<Cuda>(executor, ids);
  auto rows = lod::embedding(executor, there, list);  // does not wait, and so does not know
  CHECK_THROWS_WITH_AS(executor.synchronize(),
                       "embedding: the id at position 1 is outside its range, expected 0 to 4 (found on the GPU; "
                       "counted as no id)",
                       lod::OutOfRange);
  executor.synchronize();  // once
  const auto found = lod::to<Cpu>(executor, rows);
  CHECK(found.row(1)[0] == 0);
  CHECK(found.row(0)[0] == table.row(ids.data()[0])[0]);
  const auto pooled = lod::embedding_pool(executor, there, list, PoolType::SUM);
  CHECK_THROWS_AS(lod::to<Cpu>(executor, pooled), lod::OutOfRange);
  const auto sums = lod::to<Cpu>(executor, pooled);
  CHECK(sums.row(0)[1] == table.row(ids.data()[0])[1]);
  // Of many calls, the one with the bad id is named.
  ids.data()[1] = 4;
  const auto good = lod::to<Cuda>(executor, ids);
  for (int i = 0; i < 5000; ++i) {
    const bool bad = i == 4000;
    lod::embedding_into(executor, there, bad ? list : good, rows);
    if (i % 500 == 0) emulated_cuda::run_all();
  }
  CHECK_THROWS_AS(executor.synchronize(), lod::OutOfRange);
  executor.synchronize();
}

TEST_CASE("groups that are none are found on the GPU: their rows are zeros, and no part of gradients") {
  const CudaExecutor executor;
  Engine engine(19);
  const LoD index = LoD::from_lengths({{2, 1, 0, 3}});
  const auto x = real_numbers<float>(engine, index, {3}), dy = real_numbers<float>(engine, index, {2});
  const auto weights = real_numbers<float>(engine, {2, 3, 2});
  const auto groups_of = [](std::vector<std::int64_t> groups) {
    return LoDTensor<std::int64_t>::from_values(LoD(), {}, groups);
  };
  const auto bad = lod::to<Cuda>(executor, groups_of({0, 2, 1, -1}));
  const auto on_x = lod::to<Cuda>(executor, x), on_dy = lod::to<Cuda>(executor, dy);
  const auto on_weights = lod::to<Cuda>(executor, weights);
  const auto y = lod::grouped_linear(executor, on_x, on_weights, bad);
  CHECK_THROWS_AS(executor.synchronize(), lod::OutOfRange);
  const auto d = lod::grouped_linear_grad(executor, on_dy, on_x, on_weights, bad);
  CHECK_THROWS_AS(executor.synchronize(), lod::OutOfRange);
  // What there is without the two sequences.
  const auto first = lod::to<Cuda>(executor, groups_of({0}));
  const auto of_first = lod::to<Cpu>(executor, lod::grouped_linear(executor, on_x.between(0, 1), on_weights, first));
  const auto alone = lod::grouped_linear_grad(executor, on_dy.between(0, 1), on_x.between(0, 1), on_weights, first);
  const auto found = lod::to<Cpu>(executor, y), dx = lod::to<Cpu>(executor, d.dx);
  CHECK(values_of(found.between(0, 1)) == values_of(of_first));
  CHECK(values_of(found.between(1, 4)) == std::vector<float>(8));
  CHECK(values_of(dx.between(0, 1)) == values_of(lod::to<Cpu>(executor, alone.dx)));
  CHECK(values_of(dx.between(1, 4)) == std::vector<float>(12));
  CHECK(values_of(lod::to<Cpu>(executor, d.dweights)) == values_of(lod::to<Cpu>(executor, alone.dweights)));
}

TEST_CASE("without a GPU the first use says so, and tensors of the CPU work on") {
  emulated_cuda::set_device_count(0);
  std::optional<lod::CudaError> error;
  try {
    const CudaExecutor executor;
  } catch (const lod::CudaError& caught) {
    error = caught;
  }
  emulated_cuda::set_device_count(1);
  REQUIRE(error);
  CHECK(error->code() == static_cast<int>(cudaErrorNoDevice));
  const auto x = batch(16);
  CHECK(lod::sequence_pool(ThrustExecutor(), x, PoolType::SUM).rows() == 3);
}

TEST_CASE("several GPUs: an executor works on its own, whichever is current, and leaves that one current") {
  emulated_cuda::set_device_count(2);
  {
    const CudaExecutor first(0), second(1);
    CHECK(second.ordinal() == 1);
    const auto x = batch(17);
    const auto a = lod::to<Cuda>(first, x), b = lod::to<Cuda>(second, x);
    CHECK(same(lod::to<Cpu>(first, lod::sequence_pool(first, a, PoolType::SUM)),
               lod::to<Cpu>(second, lod::sequence_pool(second, b, PoolType::SUM))));
    int current = -1;
    CHECK(cudaGetDevice(&current) == cudaSuccess);
    CHECK(current == 0);
  }
  emulated_cuda::set_device_count(1);
}
