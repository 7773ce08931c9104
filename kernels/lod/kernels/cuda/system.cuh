// SPDX-License-Identifier: Apache-2.0
/// @file
/// The algorithms of the Thrust back end in the stream of an executor on a GPU. Nothing that is enqueued is waited for,
/// and the temporary memory of the algorithms comes from the executor's scratch memory.
#pragma once

#ifndef __CUDACC__
#  error "lod/kernels/cuda/system.cuh: expected nvcc; other compilers include <lod/cuda.hpp>"
#endif

#include <lod/core/buffer.hpp>
#include <lod/core/error.hpp>
#include <lod/core/target.hpp>
#include <lod/cuda/executor.hpp>
#include <lod/kernels/bulk/system.hpp>
#include <lod/kernels/cuda/staged.cuh>
#include <lod/kernels/cuda/thread_lanes.hpp>
#include <lod/kernels/cuda/tile.hpp>
#include <lod/kernels/cuda/warp_exchange.cuh>
#include <lod/ops/staging.hpp>

#include <cub/device/device_radix_sort.cuh>
#include <thrust/system/cuda/execution_policy.h>
#include <thrust/system_error.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <new>
#include <optional>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk {

inline constexpr int threads_per_block = 256;

template <class Body>
__global__ void __launch_bounds__(threads_per_block) call_body(std::int64_t count, Body body) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * threads_per_block;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * threads_per_block + threadIdx.x; i < count; i += step) {
    body(i);
  }
}

template <class Body>
__global__ void __launch_bounds__(threads_per_block) call_element_body(ElementBlock elements, Body body) {
  const std::uint32_t step = gridDim.x * threads_per_block;
  for (std::uint32_t at = blockIdx.x * threads_per_block + threadIdx.x; at < elements.count; at += step) {
    elements.call(at, body);
  }
}

/// The elements that a block processes at a time, unless a row has more.
inline constexpr std::int64_t tile_elements = 8 * threads_per_block;

template <class Body>
__global__ void __launch_bounds__(threads_per_block)
    call_sequence_body(Segments sequences, Divisor row_size, std::int64_t tile_rows, Body body) {
  __shared__ std::int64_t ends[2];
  __shared__ std::int64_t found[tile_elements];  // no tile has more rows
  const int thread = static_cast<int>(threadIdx.x), warp = thread / warp_threads, lane = thread % warp_threads;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * tile_rows;
  for (std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * tile_rows; first < sequences.rows();
       first += step) {
    const Tile tile(sequences, row_size, first, tile_rows);
    if (tile.is_unmarked()) {
      if (warp < 2) {
        const auto vote = [&](const auto& holds) { return __popc(__ballot_sync(0xffffffffu, holds(lane))); };
        const std::int64_t row = warp == 0 ? tile.first_row() : tile.last_row();
        const std::int64_t voted = sequence_by_votes(sequences, row, warp_threads, vote);
        if (lane == 0) ends[warp] = voted;
      }
      __syncthreads();
    }
    tile.find_sequences(threadIdx.x, threads_per_block,
                        tile.is_unmarked() ? SequenceRange{ends[0], ends[1]} : SequenceRange{}, found);
    __syncthreads();
    for (std::uint32_t at = threadIdx.x; at < tile.elements(); at += threads_per_block) tile.call(at, found, body);
    __syncthreads();  // before `ends` and `found` are written again
  }
}

/// The number of blocks of threads with shared columns for which a multiprocessor must have registers: while some wait
/// for memory, others compute.
inline constexpr int lanes_blocks = 4;

template <int threads, class Body>
__global__ void __launch_bounds__(threads_per_block, lanes_blocks) call_lanes_body(ElementBlock columns, Body body) {
  constexpr std::uint32_t at_a_time = threads_per_block / threads;
  const int thread = static_cast<int>(threadIdx.x) % threads;
  const std::uint32_t together = ((1u << threads) - 1) << (threadIdx.x % warp_threads - static_cast<unsigned>(thread));
  const ThreadLanes<WarpExchange<threads>, threads> lanes(thread, {together});
  const std::uint32_t step = gridDim.x * at_a_time;
  for (std::uint32_t at = blockIdx.x * at_a_time + threadIdx.x / threads; at < columns.count; at += step) {
    columns.call(at, body, lanes);
  }
}

template <class Body>
__global__ void __launch_bounds__(threads_per_block) call_warp_body(std::int64_t count, Body body) {
  constexpr int at_a_time = threads_per_block / warp_threads;
  const int thread = static_cast<int>(threadIdx.x);
  const ThreadLanes<WarpExchange<warp_threads>, warp_threads> lanes(thread % warp_threads, {0xffffffffu});
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * at_a_time;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * at_a_time + thread / warp_threads; i < count;
       i += step) {
    body(i, lanes);
  }
}

template <>
class System<CudaExecutor> {
  /// Lends the executor's scratch memory to Thrust.
  class Allocator {
   public:
    using value_type = char;
    explicit Allocator(const CudaExecutor& executor) noexcept : executor_(executor) {}
    Allocator(const Allocator&) = delete;
    Allocator& operator=(const Allocator&) = delete;
    char* allocate(std::ptrdiff_t count) {
      for (auto& loan : loans_) {
        if (!loan) return loan.emplace(executor_.scratch(), static_cast<std::int64_t>(count)).data();
      }
      throw std::bad_alloc();
    }
    void deallocate(char* memory, std::size_t) noexcept {
      for (auto& loan : loans_) {
        if (loan && loan->data() == memory) loan.reset();
      }
    }

   private:
    const CudaExecutor& executor_;
    std::array<std::optional<ScratchMemory<Cuda>::Loan<char>>, 8> loans_;  // an algorithm takes one or two
  };

  template <class Call>
  void by_thrust(const char* what, const Call& call) const {
    Allocator allocator(executor_);
    try {
      call(Algorithms(::thrust::cuda::par_nosync(allocator).on(executor_.stream())));
    } catch (const ::thrust::system_error& error) {
      static_cast<void>(cudaGetLastError());
      throw CudaError(detail::text({what, ": ", error.what()}), error.code().value());
    }
  }

 public:
  explicit System(const CudaExecutor& executor) : current_(executor.ordinal()), executor_(executor) {}

  template <class Body>
  void for_each(std::int64_t count, const Body& body) const {
    call_body<<<blocks(count, threads_per_block), threads_per_block, 0, executor_.stream()>>>(count, body);
    check_launch();
  }
  template <class Body>
  void for_each_element(std::int64_t rows, std::int64_t row_size, const Body& body) const {
    for_each_block(rows, row_size, most_elements, [&](const ElementBlock& elements) {
      call_element_body<<<blocks(elements.count, threads_per_block), threads_per_block, 0, executor_.stream()>>>(
          elements, body);
      check_launch();
    });
  }
  template <class Body>
  void for_each_in_sequences(const Segments& sequences, std::int64_t row_size, const Body& body) const {
    if (row_size > std::numeric_limits<std::int32_t>::max()) {
      return for_each(sequences.rows() * row_size, OfSequences<Body>{body, sequences, row_size});
    }
    const std::int64_t tile_rows = Tile::rows_of(row_size, tile_elements);
    call_sequence_body<<<blocks(sequences.rows(), tile_rows), threads_per_block, 0, executor_.stream()>>>(
        sequences, Divisor(static_cast<std::uint32_t>(row_size)), tile_rows, body);
    check_launch();
  }
  template <class Body>
  void for_each_by_lanes(std::int64_t size, std::int64_t row_size, const Body& body) const {
    by_threads<threads_of_column>(size, row_size, body);
  }
  template <class Body>
  void for_each_by_all_lanes(std::int64_t count, const Body& body) const {
    by_threads<lanes_at_a_time>(count, 1, body);
  }
  template <class Body>
  void for_each_by_warps(std::int64_t count, const Body& body) const {
    const unsigned grid = blocks(count, threads_per_block / warp_threads);
    call_warp_body<<<grid, threads_per_block, 0, executor_.stream()>>>(count, body);
    check_launch();
  }
  template <class T, class Body, class AtPlace>
  void for_each_staged(const Segments& sequences, const T* x, T* y, const Body& body, std::int64_t places,
                       const AtPlace& at_place) const {
    // As many blocks as run at the same time: for each of them the next numbers arrive meanwhile.
    const std::int64_t most = std::int64_t{staged_blocks<T, Body>} * attribute(cudaDevAttrMultiProcessorCount);
    const int at_a_time = staged_at_a_time<T>(sequences);
    const bool by_length = at_a_time > staged_threads || is_costly<Body>;
    const unsigned grid = std::min(blocks(sequences.size, at_a_time), static_cast<unsigned>(most));
    const unsigned of_places = places > 0 ? blocks(places, 4 * staged_threads / lanes_at_a_time) : 0;
    call_staged_body<<<of_places + grid, staged_threads, 0, executor_.stream()>>>(sequences, at_a_time, by_length, x, y,
                                                                                  body, of_places, places, at_place);
    check_launch();
  }
  template <class T, class Body>
  bool for_each_staged_column(const Segments& sequences, std::int64_t row_size, std::int64_t columns, const T* x, T* y,
                              const Body& body) const {
    if (row_size > staged_row_bytes) return false;
    const std::int64_t rows = sequences.rows() / sequences.size + 1;
    const int at_a_time = staged_sequences_at_a_time(rows * row_size * static_cast<std::int64_t>(sizeof(T)));
    if (at_a_time == 0) return false;
    const unsigned grid = blocks(sequences.size, at_a_time);
    call_staged_rows_body<<<grid, staged_threads, 0, executor_.stream()>>>(
        sequences, row_size, Divisor(static_cast<std::uint32_t>(columns)), at_a_time, x, y, body);
    check_launch();
    return true;
  }
  template <class Key, class Value>
  void sort_by_key(Key* keys, std::int64_t count, Value* values, int bits = 64) const {
    if (count == 0) return;
    const Scratch<CudaExecutor, Key> other_keys(executor_, count);
    const Scratch<CudaExecutor, Value> other_values(executor_, count);
    const Pairs<Key, Value> sorted =
        sort_pairs(Pairs<Key, Value>{keys, values}, {other_keys.data(), other_values.data()}, count, bits);
    const auto size = static_cast<std::size_t>(count);
    if (sorted.keys != keys) executor_.resource()->copy(keys, sorted.keys, size * sizeof(Key));
    if (sorted.values != values) executor_.resource()->copy(values, sorted.values, size * sizeof(Value));
  }
  template <class Number, class Body>
  void scan(std::int64_t count, const Number& number, const Body& body) const {
    by_thrust("thrust::inclusive_scan", [&](const auto& all) { all.scan(count, number, body); });
  }
  // If a compiled library contains it, other files do not compile it again: see kernels/instantiate.
  template <class Key, class Value>
  Pairs<Key, Value> sort_pairs(const Pairs<Key, Value>& pairs, const Pairs<Key, Value>& others, std::int64_t count,
                               int bits) const;

 private:
  /// Calls body(i, column, lanes) with so many threads for a column.
  template <int threads, class Body>
  void by_threads(std::int64_t size, std::int64_t row_size, const Body& body) const {
    for_each_block(size, row_size, most_elements, [&](const ElementBlock& columns) {
      const unsigned grid = blocks(columns.count, threads_per_block / threads);
      call_lanes_body<threads><<<grid, threads_per_block, 0, executor_.stream()>>>(columns, body);
      check_launch();
    });
  }
  static unsigned blocks(std::int64_t count, std::int64_t at_a_time) noexcept {
    return static_cast<unsigned>(std::min<std::int64_t>((count + at_a_time - 1) / at_a_time, 1 << 20));
  }
  /// The number of an element fits 31 bits; after a step of all threads it must still fit 32.
  static constexpr std::int64_t most_elements = std::numeric_limits<std::int32_t>::max();
  int attribute(cudaDeviceAttr which) const {
    int value = 0;
    detail::check_cuda(cudaDeviceGetAttribute(&value, which, executor_.ordinal()), "cudaDeviceGetAttribute");
    return value;
  }
  static void check_launch() { detail::check_cuda(cudaPeekAtLastError(), "the launch of a kernel"); }

  detail::CurrentDevice current_;
  const CudaExecutor& executor_;
};

template <class Key, class Value>
Pairs<Key, Value> System<CudaExecutor>::sort_pairs(const Pairs<Key, Value>& pairs, const Pairs<Key, Value>& others,
                                                   std::int64_t count, int bits) const {
  if (count == 0) return pairs;
  // Not by Thrust, which sorts by all bits. Each pass goes from one of the two buffers to the other.
  constexpr const char* what = "cub::DeviceRadixSort::SortPairs";
  cub::DoubleBuffer<Key> keys(pairs.keys, others.keys);
  cub::DoubleBuffer<Value> values(pairs.values, others.values);
  const auto sort = [&](void* memory, std::size_t& bytes) {
    detail::check_cuda(cub::DeviceRadixSort::SortPairs(memory, bytes, keys, values, count, 0, bits, executor_.stream()),
                       what);
  };
  std::size_t bytes = 0;
  sort(nullptr, bytes);
  const Scratch<CudaExecutor, char> memory(executor_, static_cast<std::int64_t>(bytes));
  sort(memory.data(), bytes);
  return {keys.Current(), values.Current()};
}

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk
