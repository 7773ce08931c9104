// SPDX-License-Identifier: Apache-2.0
/// @file
/// What a slice costs, beside the pointer arithmetic that it stands for. Branches are random and valid, the same for
/// both; a thousand of them, so that they and the offsets stay in the cache and the time is that of the code.
#include <lod/lod_tensor.hpp>

#include <benchmark/benchmark.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <random>
#include <span>
#include <utility>
#include <vector>

namespace {

std::int64_t allocations = 0;

}  // namespace

// Not inlined: g++ would see only one half of a pair and warn that the two do not match.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  ++allocations;
  if (void* memory = std::malloc(bytes > 0 ? bytes : 1)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace {

constexpr int depth = 4;
constexpr std::int64_t row_size = 8;
constexpr std::size_t branch_count = 1024;
using Branch = std::array<std::int64_t, depth>;

/// 24 sequences at the outermost of four levels, of 1 to 5 sequences each, and so on.
struct Batch {
  Batch() {
    std::mt19937_64 engine(1);
    std::vector<std::vector<std::int64_t>> lengths;
    std::int64_t size = 24;
    for (int level = 0; level < depth; ++level) {
      auto& lengths_here = lengths.emplace_back();
      std::int64_t below = 0;
      for (std::int64_t i = 0; i < size; ++i) {
        lengths_here.push_back(1 + static_cast<std::int64_t>(engine() % 5));
        below += lengths_here.back();
      }
      size = below;
    }
    tensor = lod::LoDTensor<float>(lod::LoD::from_lengths(lengths), {row_size});
    for (int level = 0; level < depth; ++level) offsets[static_cast<std::size_t>(level)] = tensor.lod().offsets(level);

    while (branches.size() < branch_count) {
      Branch branch{};
      std::int64_t begin = 0;
      std::int64_t end = tensor.size();
      for (std::size_t level = 0; level < depth; ++level) {
        branch[level] = static_cast<std::int64_t>(engine() % static_cast<std::uint64_t>(end - begin));
        const auto here = static_cast<std::size_t>(begin + branch[level]);
        begin = offsets[level][here];
        end = offsets[level][here + 1];
      }
      branches.push_back(branch);
    }
  }

  lod::LoDTensor<float> tensor;
  std::array<std::span<const std::int64_t>, depth> offsets;
  std::vector<Branch> branches;
};

const Batch& batch() {
  static const Batch the_batch;
  return the_batch;
}

void report_allocations(benchmark::State& state, std::int64_t before) {
  const auto count = static_cast<double>(allocations - before);
  state.counters["allocations"] = benchmark::Counter(count, benchmark::Counter::kAvgIterations);
}
void report_time_per_sequence(benchmark::State& state) {
  const auto count = static_cast<double>(batch().tensor.lod().size(1));
  state.counters["per_sequence"] =
      benchmark::Counter(count, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

/// Where the values of a sequence are, by hand.
struct Rows {
  const float* data;
  std::int64_t rows;
};

template <std::size_t Steps>
Rows find_by_hand(const std::array<const std::int64_t*, depth>& offsets, const float* data, const Branch& branch) {
  std::int64_t begin = branch[0];
  for (std::size_t level = 1; level < Steps; ++level) begin = offsets[level - 1][begin] + branch[level];
  std::int64_t end = begin + 1;
  for (std::size_t level = Steps - 1; level < depth; ++level) {
    begin = offsets[level][begin];
    end = offsets[level][end];
  }
  return {data + begin * row_size, end - begin};
}

template <std::size_t Steps>
void pointer_arithmetic(benchmark::State& state) {
  std::array<const std::int64_t*, depth> offsets{};
  for (std::size_t level = 0; level < depth; ++level) offsets[level] = batch().offsets[level].data();
  const float* data = batch().tensor.data();
  const Branch* branches = batch().branches.data();
  std::size_t next = 0;
  for (auto _ : state) {
    Rows found = find_by_hand<Steps>(offsets, data, branches[next++ % branch_count]);
    benchmark::DoNotOptimize(found);
  }
}

template <std::size_t... Step>
auto slice_of(const lod::LoDTensor<float>& x, const Branch& branch, std::index_sequence<Step...>) {
  return x.slice({branch[Step]...});
}

template <std::size_t Steps>
void slice(benchmark::State& state) {
  const auto& x = batch().tensor;
  const Branch* branches = batch().branches.data();
  std::size_t next = 0;
  const std::int64_t before = allocations;
  for (auto _ : state) {
    auto part = slice_of(x, branches[next++ % branch_count], std::make_index_sequence<Steps>());
    benchmark::DoNotOptimize(part);
  }
  report_allocations(state, before);
}

/// The same, used for what the arithmetic gives: where the rows are and how many.
template <std::size_t Steps>
void slice_to_rows(benchmark::State& state) {
  const auto& x = batch().tensor;
  const Branch* branches = batch().branches.data();
  std::size_t next = 0;
  const std::int64_t before = allocations;
  for (auto _ : state) {
    const auto part = slice_of(x, branches[next++ % branch_count], std::make_index_sequence<Steps>());
    Rows found{part.data(), part.rows()};
    benchmark::DoNotOptimize(found);
  }
  report_allocations(state, before);
}

void elements(benchmark::State& state) {
  const auto& x = batch().tensor;
  const Branch* branches = batch().branches.data();
  std::size_t next = 0;
  const std::int64_t before = allocations;
  for (auto _ : state) {
    const Branch& branch = branches[next++ % branch_count];
    auto element = x[branch[0]][branch[1]];
    benchmark::DoNotOptimize(element);
  }
  report_allocations(state, before);
}

/// All sequences of level 1, by nested loops; the time is for one of them.
void nested_loops(benchmark::State& state) {
  const auto& x = batch().tensor;
  const std::int64_t before = allocations;
  for (auto _ : state) {
    for (auto outer : x) {
      for (auto inner : outer) {
        Rows found{inner.data(), inner.rows()};
        benchmark::DoNotOptimize(found);
      }
    }
  }
  report_allocations(state, before);
  report_time_per_sequence(state);
}

void nested_loops_by_hand(benchmark::State& state) {
  const auto& x = batch().tensor;
  const std::int64_t* level0 = batch().offsets[0].data();
  const std::int64_t* level1 = batch().offsets[1].data();
  const std::int64_t* level2 = batch().offsets[2].data();
  const std::int64_t* level3 = batch().offsets[3].data();
  for (auto _ : state) {
    for (std::int64_t i = 0; i < x.size(); ++i) {
      for (std::int64_t j = level0[i]; j < level0[i + 1]; ++j) {
        const std::int64_t begin = level3[level2[level1[j]]];
        const std::int64_t end = level3[level2[level1[j + 1]]];
        Rows found{x.data() + begin * row_size, end - begin};
        benchmark::DoNotOptimize(found);
      }
    }
  }
  report_time_per_sequence(state);
}

BENCHMARK_TEMPLATE(pointer_arithmetic, 1);
BENCHMARK_TEMPLATE(slice, 1);
BENCHMARK_TEMPLATE(slice_to_rows, 1);
BENCHMARK_TEMPLATE(pointer_arithmetic, 2);
BENCHMARK_TEMPLATE(slice, 2);
BENCHMARK_TEMPLATE(slice_to_rows, 2);
BENCHMARK(elements);
BENCHMARK_TEMPLATE(pointer_arithmetic, 3);
BENCHMARK_TEMPLATE(slice, 3);
BENCHMARK_TEMPLATE(slice_to_rows, 3);
BENCHMARK_TEMPLATE(pointer_arithmetic, 4);
BENCHMARK_TEMPLATE(slice, 4);
BENCHMARK_TEMPLATE(slice_to_rows, 4);
BENCHMARK(nested_loops_by_hand);
BENCHMARK(nested_loops);

}  // namespace

BENCHMARK_MAIN();
