// SPDX-License-Identifier: Apache-2.0
/// @file
/// Threads: work is shared out in pieces of equal size, whatever the lengths of the sequences. The threads are those of
/// the library's pool, with LOD_OPENMP defined those of OpenMP, with LOD_TBB those of oneTBB, and with LOD_SERIAL only
/// the calling one. A program that itself uses OpenMP or oneTBB may prefer to share their threads.
#pragma once

#include <lod/core/executor.hpp>
#include <lod/core/floating_point_control.hpp>
#include <lod/core/sizes.hpp>
#include <lod/core/target.hpp>
#include <lod/core/thread_pool.hpp>
#include <lod/kernels/cpu/large_output.hpp>
#include <lod/kernels/partition_point.hpp>
#include <lod/kernels/sum_tree.hpp>
#include <lod/ops/kernel.hpp>

#include <algorithm>
#include <atomic>
#include <concepts>
#include <cstdint>
#include <limits>

#if defined(LOD_OPENMP) + defined(LOD_TBB) + defined(LOD_SERIAL) > 1
#  error "LOD_OPENMP, LOD_TBB, LOD_SERIAL: expected one of them at most"
#endif
#if defined(LOD_OPENMP)
#  ifndef _OPENMP
#    error "LOD_OPENMP needs a compiler's OpenMP: -fopenmp"
#  endif
#  include <lod/kernels/cpu/team.hpp>
#elif defined(LOD_TBB)
#  include <oneapi/tbb/parallel_for.h>
#  include <oneapi/tbb/task_arena.h>
#endif

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu {

using detail::FloatingPointControl;

/// Work on fewer bytes than this stays on the calling thread: sharing it with a waiting thread takes as long as reading
/// that many bytes from the cache.
inline constexpr std::int64_t serial_bytes = 4 * grain;
/// From this size on, even waking a sleeping thread pays.
inline constexpr std::int64_t waking_bytes = 32 * grain;

/// The greatest number of threads that may work at a time. Scratch memory is borrowed for all of them before they
/// start: then an operation's memory does not depend on how its work is shared out, and running out of it throws.
inline int max_threads([[maybe_unused]] const CpuExecutor& executor) noexcept {
#if defined(LOD_OPENMP)
  return limited_threads(executor.threads());
#elif defined(LOD_SERIAL)
  return 1;
#else
  return executor.threads();
#endif
}

/// Works on the tasks, which touch `bytes` bytes, on at most `threads` threads including the calling one, until all are
/// done.
inline void share([[maybe_unused]] const CpuExecutor& executor, lod::detail::SharedTasks& tasks,
                  [[maybe_unused]] int threads, [[maybe_unused]] std::int64_t bytes) {
#if defined(LOD_OPENMP)
  const int team = team_size(threads);
#  pragma omp parallel num_threads(team)
  tasks.work();
#elif defined(LOD_TBB)
  // A waiting thread must not begin other work of the program, which may wait for this.
  oneapi::tbb::this_task_arena::isolate([&] {
    oneapi::tbb::parallel_for(
        0, threads, [&](int) { tasks.work(); }, oneapi::tbb::simple_partitioner());
  });
#elif defined(LOD_SERIAL)
  tasks.work();
#else
  executor.pool().run(tasks, threads, bytes >= waking_bytes);
#endif
  tasks.rethrow();
}

/// Calls body(task), or body(task, thread) with thread < max_threads(executor), for each task in [0, tasks), on all
/// threads of the executor if `bytes`, the memory that all tasks touch, is worth it. Tasks are claimed one by one; a
/// task's non-temporal stores are in memory when it ends. Tasks run with the standard floating-point control word,
/// whatever that of the calling thread is. If one throws, no more are begun, and that is passed on.
template <class Body>
void parallel_for(const CpuExecutor& executor, std::int64_t tasks, std::int64_t bytes, const Body& body) {
  const auto call = [](const void* f, std::int64_t task, int thread) {
    const Body& do_task = *static_cast<const Body*>(f);
    const FloatingPointControl standard;
    if constexpr (std::invocable<const Body&, std::int64_t, int>) {
      do_task(task, thread);
    } else {
      do_task(task);
    }
    finish_large_output();
  };
  if (const auto threads = static_cast<int>(std::min<std::int64_t>(max_threads(executor), tasks));
      threads > 1 && bytes >= serial_bytes) {
    lod::detail::SharedTasks shared(tasks, call, &body);
    share(executor, shared, threads, bytes);
  } else {
    for (std::int64_t task = 0; task < tasks; ++task) call(&body, task, 0);
  }
}

/// Scratch memory of `size` numbers for each thread that may work.
template <class A>
class ThreadScratch {
 public:
  ThreadScratch(const CpuExecutor& executor, std::int64_t size)
      : stride_(lod::detail::saturated_sum(size, 15) / 16 * 16),
        numbers_(executor.workspace(), lod::detail::saturated_product(stride_, max_threads(executor))) {}
  A* operator()(int thread) const noexcept { return numbers_.data() + thread * stride_; }

 private:
  std::int64_t stride_;  // whole cache lines, so that threads do not write to each other's
  Workspace::Loan<A> numbers_;
};

/// How many pieces work on `bytes` bytes is cut into: several for each thread, so that all threads end at about the
/// same time.
inline std::int64_t pieces(const CpuExecutor& executor, std::int64_t bytes) {
  if (bytes < 2 * serial_bytes || executor.threads() == 1) return 1;
  return std::min<std::int64_t>(bytes / serial_bytes, std::int64_t{8} * executor.threads());
}

/// Calls body(begin, end), or body(begin, end, thread), on parts that cover [0, count).
template <class Body>
void parallel_ranges(const CpuExecutor& executor, std::int64_t count, std::int64_t bytes, const Body& body) {
  const std::int64_t parts = std::min(pieces(executor, bytes), std::max<std::int64_t>(count, 1));
  const auto cut = [&](std::int64_t part) {
    if (part == 0 || part == parts) return part == 0 ? 0 : count;  // without a division
    return count / parts * part + std::min(part, count % parts);
  };
  parallel_for(executor, parts, bytes, [&](std::int64_t part, int thread) {
    if constexpr (std::invocable<const Body&, std::int64_t, std::int64_t, int>) {
      body(cut(part), cut(part + 1), thread);
    } else {
      body(cut(part), cut(part + 1));
    }
  });
}

/// The merge path of sequences and their rows: a row weighs its bytes, the start of a sequence those of its offset.
/// Cuts at equal weights share the work evenly, whether there are a million empty sequences or one long one. Rows
/// without elements, of which there may be more than could be weighed, weigh nothing: their sequences are never cut.
class MergePath {
 public:
  MergePath(const Segments& sequences, std::int64_t row_bytes) noexcept : sequences_(sequences) {
    const auto rows = static_cast<std::uint64_t>(sequences.rows());
    const std::uint64_t most = ~std::uint64_t{0} - static_cast<std::uint64_t>(sequences.size) * sizeof(std::int64_t);
    row_bytes_ = static_cast<std::uint64_t>(row_bytes);
    std::uint64_t weight = 0;
    if (__builtin_mul_overflow(rows, row_bytes_, &weight) || weight > most) row_bytes_ = most / rows;
  }

  std::int64_t weight() const noexcept {
    return static_cast<std::int64_t>(
        std::min<std::uint64_t>(before(sequences_.size), std::numeric_limits<std::int64_t>::max()));
  }

  struct Position {
    std::int64_t sequence;
    std::int64_t row;  ///< counted from the start of the sequence
  };
  /// Where part `part` of `parts` begins; the last part ends where everything does.
  [[gnu::always_inline]] Position cut(std::int64_t part, std::int64_t parts) const noexcept {
    if (part == parts) return {sequences_.size, 0};
    if (part == 0) return {0, 0};
    return cut_inside(part, parts);
  }

 private:
  Position cut_inside(std::int64_t part, std::int64_t parts) const noexcept {
    const auto all = before(sequences_.size), number = static_cast<std::uint64_t>(part),
               count = static_cast<std::uint64_t>(parts);
    const std::uint64_t target = all / count * number + all % count * number / count;
    const auto later =  // the first sequence that begins after the target
        partition_point<std::int64_t>(0, sequences_.size, [&](std::int64_t i) { return before(i) <= target; });
    if (later == 0) return {0, 0};
    if (row_bytes_ == 0) return {later - 1, 0};
    const std::uint64_t rows = (target - before(later - 1)) / row_bytes_;
    return {later - 1, std::min(static_cast<std::int64_t>(rows), sequences_.length(later - 1))};
  }
  std::uint64_t before(std::int64_t sequence) const noexcept {
    return static_cast<std::uint64_t>(sequences_.begin(sequence)) * row_bytes_ +
           static_cast<std::uint64_t>(sequence) * sizeof(std::int64_t);
  }

  Segments sequences_;
  std::uint64_t row_bytes_;
};

/// Calls body(begin, end), or body(begin, end, thread), on parts that cover all sequences and weigh the same, as far as
/// is possible without cutting a sequence.
template <class Body>
void parallel_sequences(const CpuExecutor& executor, const Segments& sequences, std::int64_t row_bytes,
                        const Body& body) {
  const MergePath path(sequences, row_bytes);
  const std::int64_t parts = pieces(executor, path.weight());
  // A cut inside a sequence moves to its end.
  const auto cut = [&](std::int64_t part) {
    const MergePath::Position position = path.cut(part, parts);
    return position.row > 0 ? position.sequence + 1 : position.sequence;
  };
  parallel_for(executor, parts, path.weight(), [&](std::int64_t part, int thread) {
    if constexpr (std::invocable<const Body&, std::int64_t, std::int64_t, int>) {
      body(cut(part), cut(part + 1), thread);
    } else {
      body(cut(part), cut(part + 1));
    }
  });
}

/// The rows of the longest sequence that one thread takes by itself: one piece's share of all rows, so that the others
/// do not wait for it. Sharing a shorter one gains nothing and costs a synchronisation. At least `chunk`.
inline std::int64_t longest_alone(const CpuExecutor& executor, const Segments& sequences, std::int64_t row_bytes,
                                  std::int64_t chunk) {
  if (sequences.max_rows <= chunk) return chunk;  // none is longer
  const std::int64_t bytes = lod::detail::saturated_product(sequences.rows(), row_bytes);
  return std::max(sequences.rows() / pieces(executor, bytes), chunk);
}

/// The sequences of more than `most` rows, which a single thread leaves to all of them: noted by the thread that meets
/// one and processed afterwards, so that nobody searches millions of short ones for them.
class LongSequences {
 public:
  LongSequences(const CpuExecutor& executor, const Segments& sequences, std::int64_t most)
      : most_(most),
        longest_(sequences.max_rows > most ? sequences.max_rows : 0),
        noted_(executor.workspace(), longest_ > 0 ? sequences.rows() / (most + 1) : 0) {}

  /// The rows of the longest of them; 0 if there is none. Scratch memory for them is taken before the first sequence is
  /// written: an operation that runs out of memory has then changed nothing.
  std::int64_t longest() const noexcept { return longest_; }

  /// Whether a sequence of so many rows is one of them; if so, notes it. Called once for each sequence, by any thread.
  bool note(std::int64_t sequence, std::int64_t rows) noexcept {
    if (rows <= most_) return false;
    noted_[size_.fetch_add(1, std::memory_order_relaxed)] = sequence;
    return true;
  }
  /// Calls body(i) for each of them, in any order, with the standard control word.
  template <class Body>
  void for_each(const Body& body) const {
    const std::int64_t size = size_.load(std::memory_order_relaxed);
    if (size == 0) return;
    const FloatingPointControl standard;
    for (std::int64_t k = 0; k < size; ++k) body(noted_[k]);
  }

 private:
  std::int64_t most_;
  std::int64_t longest_;
  Workspace::Loan<std::int64_t> noted_;
  std::atomic<std::int64_t> size_ = 0;
};

/// Calls body(from, to, thread), with two `MergePath::Position`s, for parts of all rows that weigh the same. Long
/// sequences are cut. There are no calls if rows have no bytes, however many there are.
template <class Body>
void parallel_row_parts(const CpuExecutor& executor, const Segments& sequences, std::int64_t row_bytes,
                        const Body& body) {
  if (row_bytes == 0) return;
  const MergePath path(sequences, row_bytes);
  const std::int64_t parts = pieces(executor, path.weight());
  parallel_for(executor, parts, path.weight(),
               [&](std::int64_t part, int thread) { body(path.cut(part, parts), path.cut(part + 1, parts), thread); });
}
/// Calls body(i, begin, end) for rows [begin, end) of sequence i, counted from its start, for all rows of a part, in
/// order. Empty sequences get no call.
template <class Body>
inline void for_each_row_range(const Segments& sequences, const MergePath::Position& from,
                               const MergePath::Position& to, const Body& body) {
  for (std::int64_t i = from.sequence; i <= to.sequence; ++i) {
    const std::int64_t begin = i == from.sequence ? from.row : 0;
    const std::int64_t end = i == to.sequence ? to.row : sequences.length(i);
    if (begin < end) body(i, begin, end);
  }
}

/// Calls body(i, begin, end, room), or body(i, begin, end, room, thread), for rows [begin, end) of sequence i, counted
/// from its start: together the calls cover all rows, in parts that weigh the same. Long sequences are cut; empty ones
/// get no call. A thread processes the rows of a part in order; `room` is the number of rows that it still has to
/// process, those of the call included.
template <class Body>
void parallel_rows(const CpuExecutor& executor, const Segments& sequences, std::int64_t row_bytes, const Body& body) {
  using Position = MergePath::Position;
  parallel_row_parts(executor, sequences, row_bytes, [&](const Position& from, const Position& to, int thread) {
    const std::int64_t last_row = sequences.begin(to.sequence) + to.row;
    for_each_row_range(sequences, from, to, [&](std::int64_t i, std::int64_t begin, std::int64_t end) {
      const std::int64_t room = last_row - sequences.begin(i) - begin;
      if constexpr (std::invocable<const Body&, std::int64_t, std::int64_t, std::int64_t, std::int64_t, int>) {
        body(i, begin, end, room, thread);
      } else {
        body(i, begin, end, room);
      }
    });
  });
}

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu
