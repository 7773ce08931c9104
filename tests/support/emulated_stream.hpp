// SPDX-License-Identifier: Apache-2.0
/// @file
/// The algorithms of kernels on emulated GPUs: enqueued in the stream of the executor, and done by the CPU when
/// something waits for it. What they are given must not point into the memory of the host.
#pragma once

#include "support/emulated_cuda.hpp"
#include "support/sort_by_key.hpp"
#include <lod/cuda.hpp>
#include <lod/kernels/bulk/system.hpp>
#include <lod/kernels/cuda/in_bulk.hpp>
#include <lod/kernels/cuda/tile.hpp>

#include <thrust/system/cpp/execution_policy.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <type_traits>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk {

template <>
class System<CudaExecutor> {
  using OnCpu = Algorithms<std::remove_cvref_t<decltype(::thrust::cpp::par)>>;

 public:
  explicit System(const CudaExecutor& executor) : current_(executor.ordinal()), stream_(executor.stream()) {}

  template <class Body>
  void for_each(std::int64_t count, const Body& body) const {
    check(body);
    const auto call_all = [](const void* bytes, std::int64_t size) {
      const Body& each = *static_cast<const Body*>(bytes);
      for (std::int64_t i = 0; i < size; ++i) each(i);
    };
    lod_test::emulated_cuda::launch_bodies(stream_, {&body, sizeof(body), call_all}, count);
    detail::check_cuda(cudaGetLastError(), "the launch of a kernel");
  }
  template <class Body>
  void for_each_element(std::int64_t rows, std::int64_t row_size, const Body& body) const {
    for_each_block(rows, row_size, std::numeric_limits<std::int32_t>::max(), [&](const ElementBlock& elements) {
      const auto call_all = [](const OnCpu&, const ElementBlock& all, const Body& each) {
        for (std::uint32_t at = 0; at < all.count; ++at) all.call(at, each);
      };
      enqueue(call_all, elements, body);
    });
  }
  template <class Body>
  void for_each_in_sequences(const Segments& sequences, std::int64_t row_size, const Body& body) const {
    // As blocks do it, in small tiles.
    const std::int64_t tile_rows = Tile::rows_of(row_size, 64);
    const auto call_tile = [](const OnCpu&, const Segments& all, const Divisor& size, std::int64_t rows,
                              const Body& each) {
      const auto sequence = [&](std::int64_t row) {
        const auto vote = [](const auto& holds) {
          int votes = 0;
          for (int lane = 0; lane < 32; ++lane) votes += holds(lane) ? 1 : 0;
          return votes;
        };
        return sequence_by_votes(all, row, 32, vote);
      };
      for (std::int64_t first = 0; first < all.rows(); first += rows) {
        const Tile tile(all, size, first, rows);
        SequenceRange ends{};
        if (tile.is_unmarked()) ends = {sequence(tile.first_row()), sequence(tile.last_row())};
        constexpr std::uint32_t threads = 24;
        std::int64_t found[64] = {};
        for (std::uint32_t thread = 0; thread < threads; ++thread) tile.find_sequences(thread, threads, ends, found);
        for (std::uint32_t at = 0; at < tile.elements(); ++at) tile.call(at, found, each);
      }
    };
    enqueue(call_tile, sequences, Divisor(static_cast<std::uint32_t>(row_size)), tile_rows, body);
  }
  template <class Body>
  void for_each_by_lanes(std::int64_t count, std::int64_t row_size, const Body& body) const {
    for_each_element(count, row_size, OfLanes<Body>{body});
  }
  template <class Body>
  void for_each_by_all_lanes(std::int64_t count, const Body& body) const {
    for_each_by_lanes(count, 1, body);
  }
  template <class Body>
  void for_each_by_warps(std::int64_t count, const Body& body) const {
    for_each(count, OfWarp<Body>{body});
  }
  template <class T, class Body, class AtPlace>
  void for_each_staged(const Segments& sequences, const T* x, T* y, const Body& body, std::int64_t places,
                       const AtPlace& at_place) const {
    // As blocks do it, by a few numbers at a time.
    const auto call_staged = [](const OnCpu&, const Segments& all, const T* from, T* to, const Body& each,
                                std::int64_t place_count, const AtPlace& of_leaf) {
      for (std::int64_t place = 0; place < place_count; ++place) of_leaf(place, 0, OneThread());
      constexpr std::int64_t room = 40, at_a_time = 4;
      T staged[room];
      for (std::int64_t first = 0; first < all.size; first += at_a_time) {
        const std::int64_t last = std::min(first + at_a_time, all.size), begin = all.begin(first);
        const std::int64_t staged_rows = all.begin(last) - begin;
        const bool fits = staged_rows <= room;
        if (fits) std::copy_n(from + begin, staged_rows, staged);
        for (std::int64_t i = first; i < last; ++i) {
          const auto rows = static_cast<int>(std::min<std::int64_t>(all.length(i), leaf_rows + 1));
          if (rows > leaf_rows) continue;
          T* const own = staged + (fits ? all.begin(i) - begin : 0);
          T* const there = to == nullptr ? nullptr : to + all.begin(i);
          if (fits && rows <= FewRows::most) {
            each(i, rows, own, own, FewRows());
          } else {
            each(i, rows, fits ? own : from + all.begin(i), fits ? own : there, OneThread());
          }
        }
        if (fits && to != nullptr) std::copy_n(staged, staged_rows, to + begin);
      }
    };
    enqueue(call_staged, sequences, x, y, body, places, at_place);
  }
  template <class T, class Body>
  bool for_each_staged_column(const Segments& sequences, std::int64_t row_size, std::int64_t columns, const T* x, T* y,
                              const Body& body) const {
    // A sequence at a time, unless it is long for a block.
    const auto call_staged = [](const OnCpu&, const Segments& all, std::int64_t width, std::int64_t count,
                                const T* from, T* to, const Body& each) {
      constexpr std::int64_t room = 200;
      T staged[room];
      for (std::int64_t i = 0; i < all.size; ++i) {
        const std::int64_t first = all.begin(i) * width, size = all.length(i) * width;
        if (size <= room) std::copy_n(from + first, size, staged);
        for (std::int64_t column = 0; column < count; ++column) {
          if (size <= room) {
            each(i, column, staged, staged);
          } else {
            each(i, column, from + first, to + first);
          }
        }
        if (size <= room) std::copy_n(staged, size, to + first);
      }
    };
    enqueue(call_staged, sequences, row_size, columns, x, y, body);
    return true;
  }
  template <class Key, class Value>
  void sort_by_key(Key* keys, std::int64_t count, Value* values, int bits = 64) const {
    const auto sort_all = [](const OnCpu&, const Pairs<Key, Value>& pairs, std::int64_t size, int looked_at) {
      sort(pairs, size, looked_at);
    };
    enqueue(sort_all, Pairs<Key, Value>{keys, values}, count, bits);
  }
  template <class Key, class Value>
  Pairs<Key, Value> sort_pairs(const Pairs<Key, Value>& pairs, const Pairs<Key, Value>& others, std::int64_t count,
                               int bits) const {
    // As after an odd number of passes, each from one memory to the other.
    const auto sort_to = [](const OnCpu&, const Pairs<Key, Value>& from, const Pairs<Key, Value>& to, std::int64_t size,
                            int looked_at) {
      sort(from, size, looked_at);
      std::copy_n(from.keys, size, to.keys);
      std::copy_n(from.values, size, to.values);
      std::fill_n(from.keys, size, Key(-1));
      std::fill_n(from.values, size, Value(-1));
    };
    enqueue(sort_to, pairs, others, count, bits);
    return others;
  }
  template <class Number, class Body>
  void scan(std::int64_t count, const Number& number, const Body& body) const {
    enqueue(
        [](const OnCpu& cpu, std::int64_t size, const Number& from, const Body& each) { cpu.scan(size, from, each); },
        count, number, body);
  }

 private:
  template <class Key, class Value>
  static void sort(const Pairs<Key, Value>& pairs, std::int64_t count, int bits) {
    if (bits < 64 &&
        std::any_of(pairs.keys, pairs.keys + count, [&](Key key) { return key < 0 || key >> bits != 0; })) {
      lod_test::emulated_cuda::on_failure("a key to sort by has more bits than was said");
    }
    lod_test::sort_by_key(pairs.keys, pairs.keys + count, pairs.values, std::less<>());
  }
  /// Fails if an argument of a kernel has an address of the host in it. Bytes between members are rubbish, which may
  /// look like one: only a compiler that can clear them makes this check.
  template <class Argument>
  static void check([[maybe_unused]] Argument argument) {
    static_assert(std::is_trivially_copyable_v<Argument>, "kernels get their arguments byte by byte");
#if __has_builtin(__builtin_clear_padding)
    __builtin_clear_padding(&argument);
    lod_test::emulated_cuda::check_plain(&argument, sizeof(argument), "the arguments of a kernel");
#endif
  }
  /// Enqueues work(algorithms of the CPU, arguments...), the arguments being those of a kernel.
  template <class Work, class... Arguments>
  void enqueue(const Work& work, const Arguments&... arguments) const {
    (check(arguments), ...);
    lod_test::emulated_cuda::launch(stream_, [work, arguments...] { work(OnCpu(::thrust::cpp::par), arguments...); });
    detail::check_cuda(cudaGetLastError(), "the launch of a kernel");
  }

  detail::CurrentDevice current_;
  cudaStream_t stream_;
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk
