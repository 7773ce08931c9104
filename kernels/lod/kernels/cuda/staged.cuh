// SPDX-License-Identifier: Apache-2.0
/// @file
/// Sequences of scalar rows by a block of threads, a sequence for each thread: their numbers are far from those of the
/// other threads, so the block brings all of them to shared memory with coalesced accesses, and back after the bodies
/// have been called. Meanwhile the next ones arrive, and the offsets of those after them. Threads of a warp get
/// sequences of similar lengths: a warp takes as long as its longest.
#pragma once

#include <lod/core/float16.hpp>
#include <lod/core/target.hpp>
#include <lod/kernels/bulk/bulk.hpp>
#include <lod/kernels/bulk/divisor.hpp>
#include <lod/kernels/bulk/few.hpp>
#include <lod/kernels/bulk/lanes.hpp>
#include <lod/kernels/bulk/leaves.hpp>
#include <lod/kernels/cuda/thread_lanes.hpp>
#include <lod/kernels/cuda/warp_exchange.cuh>
#include <lod/kernels/sum_tree.hpp>
#include <lod/ops/kernel.hpp>

#include <cuda_pipeline.h>

#include <cstddef>
#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk {

inline constexpr int staged_threads = 128;
/// The shared memory of a block, and how many blocks a multiprocessor must have registers and shared memory for.
template <class T>
inline constexpr int staged_bytes = sizeof(T) > 4 ? 48 * 1024 - 512 : 32 * 1024;
template <class T, class Body>
inline constexpr int staged_blocks = sizeof(T) > 4     ? 4
                                     : is_costly<Body> ? 5
                                                       : 6;

/// What `at_a_time` sequences leave of the shared memory for numbers: there are three lists of offsets and one of
/// places.
template <class T>
LOD_HOST_DEVICE constexpr int staged_number_bytes(int at_a_time) noexcept {
  constexpr int offset = static_cast<int>(sizeof(std::int64_t)), place = static_cast<int>(sizeof(std::uint16_t));
  return staged_bytes<T> - 3 * (at_a_time + 2) * offset - at_a_time * place;
}
/// How many sequences a block takes at a time: more than it has threads where most of them are empty, and not so many
/// that there is seldom room for their numbers and, while these are in use, for those that come next.
template <class T>
int staged_at_a_time(const Segments& sequences) noexcept {
  constexpr std::int64_t few_on_average = 4;
  const std::int64_t on_average = rows_beside_longest(sequences) / sequences.size;
  for (int at_a_time = on_average < few_on_average ? 4 * staged_threads : staged_threads;
       at_a_time > staged_threads / 2; at_a_time /= 2) {
    const std::int64_t bytes = (on_average + 1) * at_a_time * static_cast<std::int64_t>(sizeof(T));
    if (bytes <= staged_number_bytes<T>(at_a_time) * 3 / 8) return at_a_time;
  }
  return staged_threads / 2;
}

/// Numbers as words of 16 bytes: how many are before the first word, how many words there are, and numbers in a word.
struct Words {
  int before, count, numbers;
};
template <class T>
__device__ Words words_of(const T* numbers, int count) {
  constexpr int in_word = 16 / static_cast<int>(sizeof(T));
  const int misplaced = static_cast<int>(reinterpret_cast<std::uintptr_t>(numbers) % 16 / sizeof(T));
  const int before = least(misplaced == 0 ? 0 : in_word - misplaced, count);
  return {before, (count - before) / in_word, in_word};
}

/// Starts to copy numbers to shared memory, by all threads of the block. Both places are as far from a multiple of 16
/// bytes.
template <class T>
__device__ void bring(T* to, const T* from, int count, int thread) {
  const auto [before, words, in_word] = words_of(from, count);
  const int after = before + words * in_word;
  // The numbers before the first word and after the last.
  const int edge = thread < before ? thread : after + thread - before;
  if (edge < count && thread < 2 * in_word) {
    if constexpr (sizeof(T) >= 4) {
      __pipeline_memcpy_async(to + edge, from + edge, sizeof(T));
    } else {
      to[edge] = from[edge];
    }
  }
  for (int word = thread; word < words; word += staged_threads) {
    const int at = before + word * in_word;
    __pipeline_memcpy_async(to + at, from + at, 16);
  }
}

/// Copies numbers from there to memory.
template <class T>
__device__ void take_back(T* to, const T* from, int count, int thread) {
  if (reinterpret_cast<std::uintptr_t>(to) % 16 != reinterpret_cast<std::uintptr_t>(from) % 16) {
#pragma unroll 4
    for (int at = thread; at < count; at += staged_threads) to[at] = from[at];
    return;
  }
  const auto [before, words, in_word] = words_of(from, count);
  const int after = before + words * in_word, edge = thread < before ? thread : after + thread - before;
  if (edge < count && thread < 2 * in_word) to[edge] = from[edge];
#pragma unroll 4
  for (int word = thread; word < words; word += staged_threads) {
    const int at = before + word * in_word;
    *reinterpret_cast<Sixteen*>(to + at) = *reinterpret_cast<const Sixteen*>(from + at);
  }
}

/// The class of a length: a class holds similar ones. Those of few rows come first.
__device__ inline int length_class(std::int64_t length) {
  constexpr int exact = FewRows::most + 1;
  return length < exact ? static_cast<int>(length) : exact + 31 - __clz(static_cast<int>(length / exact));
}
inline constexpr int length_classes = 64;

/// Calls body(i, rows, from, to, lanes) for each sequence i that is not long, `at_a_time` sequences by a block at a
/// time. These begin where their list says; a chunk of them is as many as shared memory has room for. Those of more
/// than a few rows are shared by lanes. The first `blocks_of_places` blocks call at_place(place, 0, lanes) instead.
template <class T, class Body, class AtPlace>
__global__ void __launch_bounds__(staged_threads, staged_blocks<T, Body>)
    call_staged_body(Segments sequences, int at_a_time, bool by_length, const T* x, T* y, Body body,
                     unsigned blocks_of_places, std::int64_t places, AtPlace at_place) {
  __shared__ alignas(16) unsigned char memory[staged_bytes<T>];
  __shared__ int numbers_of_block[length_classes + 2];
  // Lambdas capture pointers; where they are not inlined, what they name themselves would be shared memory of a file.
  int *const classes = numbers_of_block, *const chunk_end = classes + length_classes, *const beyond_few = chunk_end + 1;
  const int thread = static_cast<int>(threadIdx.x);
  const int list_size = at_a_time + 2;  // an even number of 8 bytes
  std::int64_t* const lists = reinterpret_cast<std::int64_t*>(memory);
  auto* const order = reinterpret_cast<std::uint16_t*>(lists + 3 * list_size);
  unsigned char* const numbers = reinterpret_cast<unsigned char*>(order + at_a_time);
  const int half = staged_number_bytes<T>(at_a_time) / 32 * 16;
  const std::int64_t room = half / static_cast<int>(sizeof(T)) - 16 / static_cast<int>(sizeof(T));
  static_assert(staged_number_bytes<T>(4 * staged_threads) / 2 - 32 >= leaf_rows * static_cast<int>(sizeof(T)));
  const bool none_is_long = sequences.max_rows <= leaf_rows;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x - blocks_of_places) * at_a_time;
  const std::int64_t start = (static_cast<std::int64_t>(blockIdx.x) - blocks_of_places) * at_a_time;
  constexpr int in_group = lanes_at_a_time, groups = staged_threads / in_group;
  const int lane = thread % in_group;
  const ThreadLanes<WarpExchange<in_group>, in_group> lanes(lane, {0xffffu << (thread % warp_threads - lane)});
  if (blockIdx.x < blocks_of_places) {
    const std::int64_t at_once = static_cast<std::int64_t>(blocks_of_places) * groups;
    for (std::int64_t place = static_cast<std::int64_t>(blockIdx.x) * groups + thread / in_group; place < places;
         place += at_once) {
      at_place(place, 0, lanes);
    }
    return;
  }

  const auto bring_list = [&](std::int64_t first, std::int64_t* list) {
    if (first < sequences.size) {
      for (int at = thread; at <= at_a_time; at += staged_threads) {
        __pipeline_memcpy_async(list + at, sequences.offsets + least(first + at, sequences.size), sizeof(*list));
      }
    }
  };
  // The end of the chunk that begins at a place: before the first sequence for which there is no room, or that is long.
  const auto end_of_chunk = [&](const std::int64_t* list, int begin) {
    if (none_is_long && list[at_a_time] - list[begin] <= room) return at_a_time;
    int own = at_a_time;
    for (int at = begin + thread; at < at_a_time; at += staged_threads) {
      if (list[at + 1] - list[begin] > room || list[at + 1] - list[at] > leaf_rows) {
        own = at;
        break;
      }
    }
    if (thread == 0) *chunk_end = at_a_time;
    if (!__syncthreads_or(own < at_a_time)) return at_a_time;
    if (own < at_a_time) atomicMin(chunk_end, own);
    __syncthreads();
    const int end = *chunk_end;
    __syncthreads();
    return end;
  };
  // Where the numbers from an offset on are staged.
  const auto place_of = [&](std::int64_t offset, int buffer) {
    const T* const from = x + (offset - sequences.first);
    return reinterpret_cast<T*>(numbers + buffer * half + reinterpret_cast<std::uintptr_t>(from) % 16);
  };
  const auto bring_chunk = [&](const std::int64_t* list, int begin, int end, int buffer) {
    if (end > begin && list[end] > list[begin]) {
      bring(place_of(list[begin], buffer), x + (list[begin] - sequences.first),
            static_cast<int>(list[end] - list[begin]), thread);
    }
  };
  const auto wait = [] {
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads();
  };
  const auto sort = [&](const std::int64_t* list, int begin, int end) {
    if (thread < length_classes) classes[thread] = 0;
    __syncthreads();
    for (int at = begin + thread; at < end; at += staged_threads) {
      atomicAdd(&classes[length_class(list[at + 1] - list[at])], 1);
    }
    __syncthreads();
    if (thread < warp_threads) {
      // Each thread has two classes; the longest sequences come first.
      const int upper = length_classes - 1 - 2 * thread, in_upper = classes[upper];
      const int both = in_upper + classes[upper - 1];
      int up_to = both;
      for (int distance = 1; distance < warp_threads; distance *= 2) {
        const int other = __shfl_up_sync(0xffffffffu, up_to, static_cast<unsigned>(distance));
        if (thread >= distance) up_to += other;
      }
      classes[upper] = up_to - both;
      classes[upper - 1] = up_to - both + in_upper;
      if (upper == FewRows::most) *beyond_few = up_to - both;
    }
    __syncthreads();
    for (int at = begin + thread; at < end; at += staged_threads) {
      order[atomicAdd(&classes[length_class(list[at + 1] - list[at])], 1)] = static_cast<std::uint16_t>(at);
    }
    __syncthreads();
  };
  const auto process_chunk = [&](std::int64_t first, const std::int64_t* list, int begin, int chunk, int buffer) {
    const int end = static_cast<int>(least<std::int64_t>(chunk, sequences.size - first));
    T* const staged = place_of(list[begin], buffer);
    const auto call = [&](int at, const auto& by) {
      T* const own = staged + static_cast<int>(list[at] - list[begin]);
      body(first + at, static_cast<int>(list[at + 1] - list[at]), own, own, by);
    };
    const bool some_have_many = sequences.max_rows > FewRows::most;
    if (by_length) {
      sort(list, begin, end);
      for (int k = *beyond_few + thread; k < end - begin; k += staged_threads) call(order[k], FewRows());
    } else {
      if (some_have_many) {
        if (thread == 0) *beyond_few = 0;
        __syncthreads();
      }
      for (int at = begin + thread; at < end; at += staged_threads) {
        if (some_have_many && list[at + 1] - list[at] > FewRows::most) {
          order[atomicAdd(beyond_few, 1)] = static_cast<std::uint16_t>(at);
        } else {
          call(at, FewRows());
        }
      }
      if (some_have_many) __syncthreads();
    }
    if (some_have_many) {
      for (int k = thread / in_group; k < *beyond_few; k += groups) call(order[k], lanes);
    }
    if (y == nullptr) return;
    __syncthreads();
    take_back(y + (list[begin] - sequences.first), staged, static_cast<int>(list[chunk] - list[begin]), thread);
  };

  if (start >= sequences.size) return;
  std::int64_t* list = lists;
  bring_list(start, list);
  wait();
  bring_list(start + step, list + list_size);
  int end = end_of_chunk(list, 0), buffer = 0, number = 0;
  bring_chunk(list, 0, end, buffer);
  for (std::int64_t first = start; first < sequences.size; first += step) {
    number = number < 2 ? number + 1 : 0;
    std::int64_t* const next = lists + number * list_size;
    wait();  // for all that were brought, and for those threads that still used what is overwritten now
    bring_list(first + 2 * step, lists + (number < 2 ? number + 1 : 0) * list_size);
    int next_end = 0;
    if (first + step < sequences.size) next_end = end_of_chunk(next, 0);
    bring_chunk(next, 0, next_end, 1 - buffer);
    if (end > 0) process_chunk(first, list, 0, end, buffer);
    // What is left where there was no room for all.
    while (end < at_a_time) {
      const int begin = end;
      __syncthreads();
      end = end_of_chunk(list, begin);
      if (end == begin) {
        ++end;  // it is long
      } else {
        bring_chunk(list, begin, end, buffer);
        wait();
        process_chunk(first, list, begin, end, buffer);
      }
    }
    list = next;
    end = next_end;
    buffer = 1 - buffer;
  }
}

/// The shared memory of a block that stages wide rows, and how many sequences of so many bytes on average it takes at a
/// time; 0 if there is room for none.
inline constexpr int staged_row_bytes = 40 * 1024;
inline constexpr int staged_row_blocks = 5;
inline constexpr int most_staged_sequences = 64;
inline int staged_sequences_at_a_time(std::int64_t bytes) noexcept {
  const std::int64_t fit = staged_row_bytes * 4 / 5 / greatest<std::int64_t>(bytes, 1);
  return static_cast<int>(least<std::int64_t>(fit, most_staged_sequences));
}

/// Calls body(i, column, from, to) for each sequence i and each of `columns` columns, `at_a_time` sequences by a block
/// at a time. While some blocks wait for theirs, others compute.
template <class T, class Body>
__global__ void __launch_bounds__(staged_threads, staged_row_blocks)
    call_staged_rows_body(Segments sequences, std::int64_t row_size, Divisor columns, int at_a_time, const T* x, T* y,
                          Body body) {
  __shared__ alignas(16) unsigned char memory[staged_row_bytes];
  __shared__ std::int64_t begins[most_staged_sequences + 1];
  constexpr int in_word = 16 / static_cast<int>(sizeof(T));
  constexpr std::int64_t room = staged_row_bytes / static_cast<int>(sizeof(T)) - in_word;
  const int thread = static_cast<int>(threadIdx.x);
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * at_a_time;
  for (std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * at_a_time; first < sequences.size; first += step) {
    const int last = static_cast<int>(least<std::int64_t>(at_a_time, sequences.size - first));
    if (thread <= last) begins[thread] = sequences.begin(first + thread);
    __syncthreads();
    for (int begin = 0; begin < last;) {
      const std::int64_t start = begins[begin] * row_size;
      int end = begin;
      while (end < last && begins[end + 1] * row_size - start <= room) ++end;
      const T* from = x + start;
      T* to = y + start;
      const bool fits = end > begin;
      T* const staged = reinterpret_cast<T*>(memory + reinterpret_cast<std::uintptr_t>(from) % 16);
      const int count = fits ? static_cast<int>(begins[end] * row_size - start) : 0;
      if (fits) {
        bring(staged, from, count, thread);
        __pipeline_commit();
        __pipeline_wait_prior(0);
        __syncthreads();
        from = to = staged;
      } else {
        ++end;
      }
      const auto items = static_cast<std::uint32_t>(end - begin) * columns.number();
      for (std::uint32_t item = threadIdx.x; item < items; item += staged_threads) {
        const std::uint32_t in_chunk = columns.quotient(item);
        const int at = begin + static_cast<int>(in_chunk);
        const std::int64_t distance = begins[at] * row_size - start;
        body(first + at, static_cast<std::int64_t>(columns.remainder(item, in_chunk)), from + distance, to + distance);
      }
      __syncthreads();
      if (fits) {
        take_back(y + start, staged, count, thread);
        __syncthreads();
      }
      begin = end;
    }
  }
}

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk
