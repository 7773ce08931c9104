// SPDX-License-Identifier: Apache-2.0
/// @file
/// Runs: consecutive sequences that stay together. An operation that repeats, reorders, selects or joins sequences
/// lists the runs of its result in order; the levels and the copies of rows follow from that list.
#pragma once

#include <lod/core/error.hpp>
#include <lod/core/executor.hpp>
#include <lod/core/target.hpp>
#include <lod/ops/kernel.hpp>
#include <lod/ops/new_offsets.hpp>
#include <lod/ops/output.hpp>

#include <algorithm>
#include <cstdint>
#include <span>

namespace lod::inline LOD_INTERFACE::kernel {
/// run(executor, sources, destination, row_size, y): copies the rows of sequence i of `destination` from sources[i] on.
struct RunCopy {};
/// run(executor, x, runs, row_size, destinations): the way back. Copies the rows of sequence i of `runs`, which lie one
/// after the other from x on, to destinations[i] on. For exchanges, which read a large batch once, in its order.
struct RunScatter {
  static constexpr bool in_headers_only = true;  ///< between ranks, whose values are on the CPU
};
/// run(executor, x, count, y): y[i] = x[i].
struct CopyValues {};
}  // namespace lod::inline LOD_INTERFACE::kernel

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {

namespace operation {

template <class E, class T>
class RunSources;

/// Runs of sequences from several views with the same number of levels, one after the other.
class Runs {
 public:
  /// At most `capacity` runs of sequences of `level`; of rows if `level` is the views' number of levels. The views are
  /// borrowed.
  template <class View>
  Runs(Workspace& workspace, std::span<const View> views, int level, std::int64_t capacity)
      : runs_(workspace, capacity),
        level_(level),
        first_level_(level),
        levels_(views[0].levels()),
        sources_(static_cast<std::int64_t>(views.size())),
        offsets_(workspace, sources_ * (levels_ - level)) {
    for (std::int64_t source = 0; source < sources_; ++source) {
      for (int below = level; below < levels_; ++below) {
        offsets_[(below - level) * sources_ + source] =
            views[static_cast<std::size_t>(source)].lod_view().offsets(below).data();
      }
    }
  }

  /// Adds sequences [begin, end) of views[source].
  void add(std::int64_t source, std::int64_t begin, std::int64_t end) noexcept {
    runs_[size_++] = {source, begin, end};
  }

  /// The number of sequences, at all levels from that of the runs on. Throws ShapeMismatch, with a text that begins
  /// with `what`, if these or the rows exceed 64 bits.
  std::int64_t sequences(const char* what) const {
    std::int64_t total = 0, rows = 0;
    for (std::int64_t i = 0; i < size_; ++i) {
      Run run = runs_[i];
      for (int level = level_; level < levels_; ++level) {
        add_checked(total, run, what);
        run = below(run, level);
      }
      add_checked(rows, run, what);
    }
    return total;
  }

  /// Adds the levels of the result, from that of the runs on, to `levels`; the runs become runs of rows.
  void descend(NewLevels& levels) {
    for (; level_ < levels_; ++level_) {
      std::int64_t count = 0;
      for (std::int64_t i = 0; i < size_; ++i) count += runs_[i].end - runs_[i].begin;
      std::int64_t* next = levels.add(count).data();
      for (std::int64_t i = 0; i < size_; ++i) {
        const Run run = runs_[i];
        const std::int64_t* offsets = offsets_of(run, level_);
        const std::int64_t shift = *next - offsets[run.begin];
        for (std::int64_t sequence = run.begin; sequence < run.end; ++sequence) *++next = offsets[sequence + 1] + shift;
        runs_[i] = below(run, level_);
      }
    }
  }

  /// Copies the rows of the runs, after `descend`, one after the other to y. Allocates all memory that it needs before
  /// it writes.
  template <class E, class View, class T>
  void copy(const E& executor, std::span<const View> views, std::int64_t row_size, T* y) const {
    RunSources<E, T>(executor, *this, views, row_size).copy(y);
  }

 private:
  template <class, class>
  friend class RunSources;

  struct Run {
    std::int64_t source;
    std::int64_t begin;
    std::int64_t end;
  };

  /// The offsets of the run's view, counted from its own first sequence.
  const std::int64_t* offsets_of(const Run& run, int level) const noexcept {
    return offsets_[(level - first_level_) * sources_ + run.source];
  }
  Run below(const Run& run, int level) const noexcept {
    const std::int64_t* offsets = offsets_of(run, level);
    return {run.source, offsets[run.begin] - offsets[0], offsets[run.end] - offsets[0]};
  }
  static void add_checked(std::int64_t& total, const Run& run, const char* what) {
    if (__builtin_add_overflow(total, run.end - run.begin, &total)) {
      throw ShapeMismatch(detail::text({what, ": the result has more sequences or rows than 64 bits count"}));
    }
  }

  Workspace::Loan<Run> runs_;
  int level_;        // of the runs at present
  int first_level_;  // of the runs as they were added
  int levels_;
  std::int64_t sources_;
  std::int64_t size_ = 0;
  Workspace::Loan<const std::int64_t*> offsets_;
};

/// The addresses of the rows of runs, after `descend`: only the copies remain to be done.
template <class E, class T>
class RunSources {
 public:
  template <class View>
  RunSources(const E& executor, const Runs& runs, std::span<const View> views, std::int64_t row_size)
      : executor_(executor), row_size_(row_size), sources_(executor, runs.size_), offsets_(executor, runs.size_ + 1) {
    std::int64_t source = -1, end = -1;
    offsets_[0] = 0;
    for (std::int64_t i = 0; i < runs.size_; ++i) {
      const auto& run = runs.runs_[i];
      if (run.begin == run.end) continue;
      if (run.source != source || run.begin != end) {  // not the continuation of the last one
        sources_[copies_] = views[static_cast<std::size_t>(run.source)].data() + run.begin * row_size;
        offsets_[copies_ + 1] = offsets_[copies_];
        ++copies_;
      }
      offsets_[copies_] += run.end - run.begin;
      max_rows_ = std::max(max_rows_, offsets_[copies_] - offsets_[copies_ - 1]);
      source = run.source;
      end = run.end;
    }
  }

  /// Copies the rows of the runs one after the other to y.
  void copy(T* y) const {
    launch(kernel::RunCopy(), executor_, sources_.on_device(copies_), segments(offsets_, copies_, max_rows_), row_size_,
           y);
  }

 private:
  const E& executor_;
  std::int64_t row_size_;
  Array<E, const T*> sources_;
  Array<E, std::int64_t> offsets_;
  std::int64_t copies_ = 0;
  std::int64_t max_rows_ = 0;
};

/// Runs of rows, each from `first` on, for batches with one level, where runs of sequences are runs of rows from the
/// start. Only offsets and addresses are kept, and threads share the work.
template <class T>
struct RowRun {
  const T* first;
  std::int64_t rows;
};
template <Executor E, class T>
class RowRuns {
 public:
  /// run_of(i) returns the i-th of `count` runs; it is called once for each, by any thread. Throws ShapeMismatch if the
  /// rows exceed 64 bits.
  template <class RunOf>
  RowRuns(const E& executor, const char* what, std::int64_t count, const RunOf& run_of)
      : executor_(executor), sources_(executor, count), offsets_(executor, what, count, [&](std::int64_t i) {
          const RowRun<T> run = run_of(i);
          sources_[i] = run.first;
          return run.rows;
        }) {}

  /// Where each run begins in the result.
  std::span<const std::int64_t> offsets() const noexcept { return offsets_.span(); }
  /// Where the rows of each run are, for kernels.
  const T* const* sources() const { return sources_.on_device(); }
  /// Copies the rows of the runs one after the other to y.
  void copy(std::int64_t row_size, T* y) const {
    launch(kernel::RunCopy(), executor_, sources(), offsets_.segments(), row_size, y);
  }

 private:
  const E& executor_;
  Array<E, const T*> sources_;
  NewOffsets<E> offsets_;
};

/// The same as a batch whose sequences are the runs. run_of may be called several times for a run: if y has the lengths
/// of the runs already, it keeps its level, and only the addresses are listed.
template <Executor E, class View, class RunOf, class Y>
void copy_row_runs_into(const E& executor, const OutputName& name, const View& x, std::int64_t count,
                        const RunOf& run_of, Y&& y, std::initializer_list<OtherMemory> others) {
  using T = value_type_t<View>;
  const auto length = [&run_of](std::int64_t i) { return run_of(i).rows; };
  const LevelOfLengths levels(executor, name.operation, count, length);
  if (!levels.is(levels_before(y))) {
    const RowRuns<E, T> runs(executor, name.operation, count, run_of);
    const auto out = prepare<T>(executor, name, y, OneLevel<E>{executor, runs.offsets()}, x.row_shape(), others);
    // By the offsets of the new LoD, which are brought to a GPU now and not in the second call.
    launch(kernel::RunCopy(), executor, runs.sources(), segments(executor, out, 0), x.row_size(), out.data());
    return;
  }
  const Array<E, const T*> sources(executor, count);
  launch(kernel::ForEachRange(), executor, count, [&](std::int64_t, std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) sources[i] = run_of(i).first;
  });
  const auto out = prepare<T>(executor, name, y, levels, x.row_shape(), others);
  launch(kernel::RunCopy(), executor, sources.on_device(), segments(executor, out, 0), x.row_size(), out.data());
}

}  // namespace operation

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET
