// SPDX-License-Identifier: Apache-2.0
/// @file
/// Running sums on the CPU.
///
/// A leaf of rows, counted in the direction of the sums, has running sums of its own; the sum of everything before the
/// leaf is added when a running sum is written. It is accumulated with compensation: leaf by leaf within a chunk,
/// starting from the sums of the whole chunks before it. So the sums before leaves can be computed for many chunks at a
/// time. Scalar rows are cut once more, into groups, whose sums are computed side by side, as sequences of narrow rows
/// are.
#pragma once

#include <lod/core/version.hpp>
#include <lod/kernels/cpu/group_sums.hpp>
#include <lod/kernels/cpu/large_output.hpp>
#include <lod/kernels/cpu/launch.hpp>
#include <lod/kernels/cpu/line_writer.hpp>
#include <lod/kernels/cpu/narrow_running_sums.hpp>
#include <lod/kernels/cpu/parallel.hpp>
#include <lod/kernels/cpu/row_sum.hpp>
#include <lod/kernels/cpu/rows.hpp>
#include <lod/kernels/cpu/sequence_tile.hpp>
#include <lod/kernels/cpu/vector.hpp>
#include <lod/ops/sequence_cumsum.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu {

/// Running sums of numbers of type T, written as numbers of type Y.
template <class T, class Y>
class RunningSums {
  using A = Accumulator<T>;
  static constexpr std::int64_t group_rows = cumsum_group_rows;
  static_assert(leaf_rows == GroupSums<A>::groups * group_rows);

 public:
  /// The sum of everything before a leaf.
  struct Base {
    A* sums = nullptr;
    A* errors = nullptr;
    void reset(std::int64_t row_size) const noexcept {
      fill(sums, row_size, empty_sum<A>());
      fill(errors, row_size, empty_sum<A>());
    }
    void add(const A* totals, std::int64_t row_size) const noexcept {
      for (std::int64_t i = 0; i < row_size; ++i) add_compensated(sums[i], errors[i], totals[i]);
    }
    void add(const Base& chunk, std::int64_t row_size) const noexcept {
      add(chunk.sums, row_size);
      for (std::int64_t i = 0; i < row_size; ++i) errors[i] = plus(errors[i], chunk.errors[i]);
    }
    void set(const Base& other, std::int64_t row_size) const noexcept {
      copy(other.sums, row_size, sums);
      copy(other.errors, row_size, errors);
    }
    /// The sum of all rows so far, where `sum` is the running sum within the leaf.
    Y operator()(std::int64_t column, A sum) const noexcept {
      return static_cast<Y>(sums ? plus(sums[column], plus(sum, errors[column])) : sum);
    }
    /// The same for `count` columns from `first` on.
    Vector<T> operator()(std::int64_t first, std::int64_t count, const Vector<T>& sum) const noexcept {
      if (!sums) return sum;
      return load_vector(sums + first, count) + (sum + load_vector(errors + first, count));
    }
  };

  /// The sums before the leaves of a sequence, one leaf after the other.
  class Bases {
   public:
    /// `numbers` is scratch for 6 * row_size numbers.
    Bases(A* numbers, std::int64_t row_size) noexcept
        : row_size_(row_size),
          here_{numbers, numbers + row_size},
          chunk_{numbers + 2 * row_size, numbers + 3 * row_size},
          before_chunk_{numbers + 4 * row_size, numbers + 5 * row_size} {}
    /// Starts before the first leaf.
    void reset() noexcept {
      leaves_ = 0;
      for (const Base& base : {here_, chunk_, before_chunk_}) base.reset(row_size_);
    }
    const Base& here() const noexcept { return here_; }
    /// Moves past a leaf.
    void add(const A* totals) noexcept {
      here_.add(totals, row_size_);
      chunk_.add(totals, row_size_);
      if (++leaves_ % (chunk_rows(row_size_) / leaf_rows) != 0) return;
      before_chunk_.add(chunk_, row_size_);
      here_.set(before_chunk_, row_size_);
      chunk_.reset(row_size_);
    }

   private:
    std::int64_t row_size_;
    std::int64_t leaves_ = 0;
    Base here_, chunk_, before_chunk_;
  };

  RunningSums(std::int64_t row_size, bool exclusive, bool reverse) noexcept
      : row_size_(row_size), exclusive_(exclusive), reverse_(reverse), start_(start_of_sums<A>(exclusive)) {}

  /// Computes the running sums of `count` rows from x on, at most a leaf, and writes them to y unless y is null. Their
  /// totals go to totals[0 .. row_size). If nothing precedes the leaf, `base` has no sums.
  void leaf(const T* x, std::int64_t count, const Base& base, A* totals, Y* y) const noexcept {
#if LOD_MOVES_WORDS
    if (is_narrow()) return narrow_leaf(x, count, base, totals, y);
#endif
    if (row_size_ == 1) {
      scalar_leaf(x, count, base, totals, y);
      return;
    }
    fill(totals, row_size_, start_);
    // A few rows at a time, which stay in the first-level cache until all their columns have been summed.
    constexpr std::int64_t vectors = 4, step = 16;
    for (std::int64_t begin = 0; begin < count; begin += step) {
      const std::int64_t end = std::min(begin + step, count);
      const std::int64_t first = reverse_ ? count - 1 - begin : begin;
      const T* const from = x + first * row_size_;
      Y* const to = y ? y + first * row_size_ : nullptr;
      if (!masked<T> && row_size_ < lanes<T>) {
        sum_narrow_rows(from, end - begin, base, totals, to);
        continue;
      }
      std::int64_t column = 0;
      for (; column + vectors * lanes<T> <= row_size_; column += vectors * lanes<T>) {
        sum_columns<vectors>(from, end - begin, column, lanes<T>, base, totals, to);
      }
      for (; column < row_size_; column += lanes<T>) {
        sum_columns<1>(from, end - begin, column, std::min(lanes<T>, row_size_ - column), base, totals, to);
      }
    }
  }

  /// The whole of a sequence of at most a group of scalar rows, the case in which every nanosecond counts. The bits are
  /// those of `leaf` with nothing before it.
  bool is_short(std::int64_t rows) const noexcept { return row_size_ == 1 && rows <= group_rows; }
  void short_sequence(const T* x, std::int64_t rows, Y* y) const noexcept {
    A sum = start_;
    const auto add = [&](std::int64_t row) {
      const A before = sum;
      sum = plus(before, static_cast<A>(x[row]));
      y[row] = static_cast<Y>(exclusive_ ? before : sum);
    };
    if (reverse_) {
      for (std::int64_t row = rows; row-- > 0;) add(row);
    } else {
      for (std::int64_t row = 0; row < rows; ++row) add(row);
    }
  }

#if LOD_MOVES_WORDS
  /// Whether `narrow_sequences` processes rows of this size.
  bool is_narrow() const noexcept { return narrow_.fits(); }
  /// Processes sequences of narrow rows from i on, before `end`, as long as they are of at most a leaf, several at a
  /// time. Returns the first that is not.
  [[gnu::noinline]] std::int64_t narrow_sequences(const T* x, const Segments& sequences, std::int64_t i,
                                                  std::int64_t end, Y* y) const noexcept {
    constexpr std::size_t most = NarrowRunningSums<T, Y>::side_by_side;
    const auto is_leaf = [&] { return i < end && sequences.length(i) <= leaf_rows; };
    while (is_leaf()) {
      typename NarrowRunningSums<T, Y>::Numbers numbers[most];
      Vector<T> sums[most];
      for (std::size_t k = 0; k < most; ++k) {
        const bool one_more = is_leaf();
        const std::int64_t before = one_more ? sequences.begin(i) * row_size_ : 0;
        numbers[k] = {x + before, y + before, one_more ? sequences.length(i) * row_size_ : 0};
        sums[k] = Vector<T>(start_);
        i += one_more ? 1 : 0;
      }
      narrow_(numbers, sums, [](const Vector<T>& sum) { return sum; });
    }
    return i;
  }
  /// `leaf` for such rows.
  [[gnu::noinline]] void narrow_leaf(const T* x, std::int64_t count, const Base& base, A* totals, Y* y) const noexcept {
    const typename NarrowRunningSums<T, Y>::Numbers numbers[] = {{x, y, count * row_size_}};
    Vector<T> sums[] = {Vector<T>(start_)};
    if (base.sums) {
      const Vector<T> before = narrow_.repeated(base.sums), errors = narrow_.repeated(base.errors);
      narrow_(numbers, sums, [&](const Vector<T>& sum) { return before + (sum + errors); });
    } else {
      narrow_(numbers, sums, [](const Vector<T>& sum) { return sum; });
    }
    store_first(totals, sums[0], row_size_, row_size_);
  }
#endif

  /// `short_sequence` for the sequences of a tile, forwards: all of them at once, each with the bits that it would have
  /// alone.
  void short_sequences(SequenceTile<T>& tile) const noexcept {
    using Row = typename SequenceTile<T>::Row;
    Row* const rows = tile.data();
    Vector<T> sum(start_);
    for (std::int64_t row = 0; row < tile.rows(); ++row) {
      const Vector<T> before = sum;
      sum = before + __builtin_bit_cast(Vector<T>, rows[row]);
      rows[row] = __builtin_bit_cast(Row, exclusive_ ? before : sum);
    }
  }

  /// The same for a tile of whole groups of `cumsum_group_rows` rows or less, `firsts` of which are the first of their
  /// sequences; the others follow the one before them. The first one begins at x.
  void groups(const typename SequenceTile<T>::Sequences& some, const T* x, std::uint32_t firsts,
              SequenceTile<T>& tile) const noexcept {
    using Row = typename SequenceTile<T>::Row;
    short_sequences(tile);
    Row* const rows = tile.data();
    alignas(64) A before[Vector<T>::size] = {};
    A total = start_;
    for (std::int64_t k = 0; k < some.size(); ++k) {
      if ((firsts >> k & 1) != 0) total = start_;
      before[k] = total;
      const std::int64_t last = some.length(k) - 1;
      const A sum = rows[last][k];
      total = plus(total, exclusive_ ? plus(sum, static_cast<A>(x[some.start(k) + last])) : sum);
    }
    const auto all = Vector<T>::load_aligned(before);
    for (std::int64_t row = 0; row < some.longest(); ++row) {
      rows[row] = __builtin_bit_cast(Row, all + __builtin_bit_cast(Vector<T>, rows[row]));
    }
  }

  /// Calls body(first_row, count) for the leaves [begin, end) of a sequence of `rows` rows, in order.
  template <class Body>
  void for_each_leaf(std::int64_t rows, std::int64_t begin, std::int64_t end, const Body& body) const noexcept {
    for (std::int64_t leaf = begin; leaf < end; ++leaf) {
      const std::int64_t first = leaf * leaf_rows, count = std::min(leaf_rows, rows - first);
      body(reverse_ ? rows - first - count : first, count);
    }
  }

 private:
  /// Sums `count` rows from x on, or backwards from there, over several vectors of columns from `first` on, the last of
  /// which has `width` numbers. `base` is a copy, which stays in registers: no store can alias it.
  template <std::size_t vectors>
  void sum_columns(const T* x, std::int64_t count, std::int64_t first, std::int64_t width, Base base, A* totals,
                   Y* y) const noexcept {
    const std::int64_t step = reverse_ ? -row_size_ : row_size_;
    Vector<T> sums[vectors];
#pragma GCC unroll 16
    for (std::size_t v = 0; v < vectors; ++v) sums[v] = load_vector(totals + first + v * Vector<T>::size, width);
    for (std::int64_t k = 0; k < count; ++k) {
      const std::int64_t row = k * step;
#pragma GCC unroll 16
      for (std::size_t v = 0; v < vectors; ++v) {
        const std::int64_t column = first + static_cast<std::int64_t>(v) * lanes<T>;
        Vector<T> sum = sums[v];
        sums[v] += load_vector(x + row + column, width);
        if (!y) continue;
        if (!exclusive_) sum = sums[v];  // not `?:`, which would choose between the two in memory
        store_first(y + row + column, base(column, width, sum), width, width);
      }
    }
#pragma GCC unroll 16
    for (std::size_t v = 0; v < vectors; ++v) store_first(totals + first + v * Vector<T>::size, sums[v], width, width);
  }

  /// The same for all columns of rows that are narrower than a vector.
  void sum_narrow_rows(const T* x, std::int64_t count, Base base, A* totals, Y* y) const noexcept {
    const std::int64_t step = reverse_ ? -row_size_ : row_size_;
    for (std::int64_t k = 0; k < count; ++k) {
      for (std::int64_t i = 0; i < row_size_; ++i) {
        const A before = totals[i];
        totals[i] = plus(before, static_cast<A>(x[k * step + i]));
        if (y) y[k * step + i] = base(i, exclusive_ ? before : totals[i]);
      }
    }
  }

  void scalar_leaf(const T* x, std::int64_t count, const Base& base, A* total, Y* y) const noexcept {
    alignas(64) A sums[leaf_rows];  // of each group on its own
    A group_totals[leaf_rows / group_rows];
    widen(x, count, sums);
    GroupSums<A>(exclusive_, reverse_)(sums, count, group_totals);
    *total = start_;
    for (std::int64_t begin = 0; begin < count; begin += group_rows) {
      if (y) {
        const std::int64_t end = std::min(begin + group_rows, count);
        const std::int64_t low = reverse_ ? count - end : begin;
        write(sums + low, end - begin, *total, base, y + low);
      }
      *total = plus(*total, group_totals[begin / group_rows]);
    }
  }

  /// y[i] = sums[i] plus everything before them.
  static void write(const A* sums, std::int64_t count, A total, const Base& base, Y* y) noexcept {
    if (!base.sums) return convert(sums, count, y, [total](const auto& sum) { return plus(total, sum); });
    convert(sums, count, y, [total, before = *base.sums, error = *base.errors](const auto& sum) {
      return plus(before, plus(plus(total, sum), error));
    });
  }

  std::int64_t row_size_;
  bool exclusive_;
  bool reverse_;
  A start_;
#if LOD_MOVES_WORDS
  NarrowRunningSums<T, Y> narrow_{row_size_, exclusive_, reverse_};
#endif
};

template <>
struct Kernel<SequenceCumsum> {
  template <class T, class Y>
  static void run(const CpuExecutor& executor, const T* x, const Segments& sequences, std::int64_t row_size,
                  bool exclusive, bool reverse, Y* y) {
    if (sequences.rows() == 0 || row_size == 0) return;
    using A = Accumulator<T>;
    using Base = typename cpu::RunningSums<T, Y>::Base;
    const cpu::RunningSums<T, Y> running(row_size, exclusive, reverse);
    const auto leaves_of = [](std::int64_t rows) { return (rows + leaf_rows - 1) / leaf_rows; };
    const std::int64_t row_bytes = lod::detail::bytes_of<T>(1, row_size) + lod::detail::bytes_of<Y>(1, row_size);
    const cpu::ThreadScratch<A> scratch(executor, 7 * row_size);
    cpu::LongSequences long_ones(executor, sequences,
                                 cpu::longest_alone(executor, sequences, row_bytes, chunk_rows(row_size)));
    const Workspace::Loan<A> numbers(executor.workspace(), 2 * leaves_of(long_ones.longest()) * row_size);
    // In place, the lines are already in the cache.
    const bool in_place = static_cast<const void*>(x) == y;
    const cpu::LargeOutput output(in_place ? 0 : lod::detail::bytes_of<Y>(sequences.rows(), row_size));
    cpu::parallel_sequences(executor, sequences, row_bytes, [&](std::int64_t begin, std::int64_t end, int thread) {
      A* const totals = scratch(thread);
      typename cpu::RunningSums<T, Y>::Bases bases(totals + row_size, row_size);
      for (std::int64_t i = begin; i < end; ++i) {
        if constexpr (sums_tiles<T, Y>) {
          if (row_size == 1 && !reverse) {
            i = sum_tiles_of_groups(running, output, x, sequences, i, end, y);
            if (i == end) break;
          }
        }
#if LOD_MOVES_WORDS
        if (running.is_narrow()) {
          i = running.narrow_sequences(x, sequences, i, end, y);
          if (i == end) break;
        }
#endif
        if (running.is_short(sequences.length(i))) {
          i = short_sequences(running, output, x, sequences, i, end, reverse, y);
          if (i == end) break;
        }
        const std::int64_t rows = sequences.length(i), before = sequences.begin(i) * row_size;
        if (long_ones.note(i, rows)) continue;
        if (rows <= leaf_rows) {  // the same bits as adding zeros
          running.leaf(x + before, rows, Base{}, totals, y + before);
          continue;
        }
        bases.reset();
        running.for_each_leaf(rows, 0, leaves_of(rows), [&](std::int64_t first, std::int64_t count) {
          const std::int64_t at = before + first * row_size;
          running.leaf(x + at, count, bases.here(), totals, y + at);
          bases.add(totals);
        });
      }
    });

    long_ones.for_each([&](std::int64_t i) {
      const std::int64_t rows = sequences.length(i), before = sequences.begin(i) * row_size, leaves = leaves_of(rows);
      // First the totals of all leaves, which are then turned into the sums before them.
      const auto base_of = [&](std::int64_t leaf) {
        A* const sums = numbers.data() + 2 * leaf * row_size;
        return Base{sums, sums + row_size};
      };
      const auto for_each_leaf = [&](const auto& body) {
        cpu::parallel_ranges(executor, leaves, rows * row_bytes, [&](std::int64_t begin, std::int64_t end, int thread) {
          std::int64_t leaf = begin;
          running.for_each_leaf(rows, begin, end, [&](std::int64_t first, std::int64_t count) {
            body(base_of(leaf++), before + first * row_size, count, scratch(thread));
          });
        });
      };
      for_each_leaf([&](const Base& base, std::int64_t at, std::int64_t count, A*) {
        running.leaf(x + at, count, base, base.sums, static_cast<Y*>(nullptr));
      });
      A* const totals = scratch(0);
      typename cpu::RunningSums<T, Y>::Bases bases(totals + row_size, row_size);
      bases.reset();
      for (std::int64_t leaf = 0; leaf < leaves; ++leaf) {
        const Base here = base_of(leaf);
        cpu::copy(here.sums, row_size, totals);
        here.set(bases.here(), row_size);
        bases.add(totals);
      }
      for_each_leaf([&](const Base& here, std::int64_t at, std::int64_t count, A* leaf_totals) {
        running.leaf(x + at, count, here, leaf_totals, y + at);
      });
    });
  }

 private:
  /// Whether running sums are computed by tiles.
  template <class T, class Y>
  static constexpr bool sums_tiles = std::same_as<T, Y>&& cpu::fills_lines<T>&& cpu::lanes<T> >= 8;

  /// Processes short sequences from i on, before `end`. Returns the first that is not short.
  template <class T, class Y>
  static std::int64_t short_sequences(const cpu::RunningSums<T, Y>& running, const cpu::LargeOutput& output, const T* x,
                                      const Segments& sequences, std::int64_t i, std::int64_t end, bool reverse, Y* y) {
    if constexpr (sums_tiles<T, Y>) {
      while (!reverse) {
        i = sum_tiles(running, output, x, sequences, i, end, y);
        // Where a tile does not pay, the next ones are unlikely to.
        const std::int64_t next = std::min(i + 64 * cpu::lanes<T>, end);
        i = sum_one_by_one(running, output, x, sequences, i, next, y);
        if (i < next || i == end) return i;
      }
    }
    return sum_one_by_one(running, output, x, sequences, i, end, y);
  }

  template <class T, class Y>
  [[gnu::noinline]] static std::int64_t sum_one_by_one(const cpu::RunningSums<T, Y>& running,
                                                       const cpu::LargeOutput& output, const T* x,
                                                       const Segments& sequences, std::int64_t i, std::int64_t end,
                                                       Y* y) {
    const auto is_short = [&] { return i < end && running.is_short(sequences.length(i)); };
    if constexpr (cpu::fills_lines<Y>) {
      if (output.past_caches()) {
        static_assert(cumsum_group_rows <= cpu::LineWriter<Y>::room);
        cpu::LineWriter<Y> writer(output, y + sequences.begin(i));
        for (; is_short(); ++i) {
          running.short_sequence(x + sequences.begin(i), sequences.length(i), writer.place());
          writer.advance(sequences.length(i));
        }
        return i;
      }
    }
    for (; is_short(); ++i) {
      running.short_sequence(x + sequences.begin(i), sequences.length(i), y + sequences.begin(i));
    }
    return i;
  }

  /// The same by tiles, as long as they pay.
  template <class T>
  static std::int64_t sum_tiles(const cpu::RunningSums<T, T>& running, const cpu::LargeOutput& output, const T* x,
                                const Segments& sequences, std::int64_t i, std::int64_t end, T* y) {
    static_assert(cpu::low_tile_rows <= cumsum_group_rows && cpu::tile_rows <= cpu::LineWriter<T>::room);
    cpu::LineWriter<T> writer(output, y + sequences.begin(i));
    while (true) {
      const typename cpu::SequenceTile<T>::Sequences some(sequences, i, end);
      // A tile takes a third of the time of its lanes x rows one by one; it has at least eight rows.
      const std::int64_t places = cpu::lanes<T> * std::max<std::int64_t>(some.longest(), 8);
      if (some.longest() > cpu::low_tile_rows || 3 * some.rows() < places) return i;
      const std::int64_t first = sequences.begin(i);
      cpu::SequenceTile<T> tile(some, x + first, sequences.rows() - first);
      running.short_sequences(tile);
      tile.write(some, cpu::low_tile_rows, writer, [](std::int64_t rows) { return rows; });
      i += some.size();
    }
  }

  /// Processes sequences from i on, before `end`, as long as they are of medium length: a group in each lane. Returns
  /// the first that is shorter or longer, or has so few of its kind beside it that it is better processed alone.
  template <class T>
  static std::int64_t sum_tiles_of_groups(const cpu::RunningSums<T, T>& running, const cpu::LargeOutput& output,
                                          const T* x, const Segments& sequences, std::int64_t i, std::int64_t end,
                                          T* y) {
    constexpr auto lanes = static_cast<std::size_t>(cpu::lanes<T>);
    const auto is_medium = [&] {
      return i < end && sequences.length(i) > cpu::low_tile_rows && sequences.length(i) <= leaf_rows;
    };
    if (!is_medium()) return i;
    cpu::LineWriter<T> writer(output, y + sequences.begin(i));
    while (is_medium()) {
      const std::int64_t begin = i, first = sequences.begin(i);
      std::int64_t offsets[lanes + 1] = {};
      std::size_t size = 0;
      std::uint32_t firsts = 0;
      for (; is_medium(); ++i) {
        const std::int64_t rows = sequences.length(i);
        const auto groups = static_cast<std::size_t>((rows + cumsum_group_rows - 1) / cumsum_group_rows);
        if (size + groups > lanes) break;
        firsts |= std::uint32_t{1} << size;
        const std::int64_t last = offsets[size] + rows;
        for (const std::size_t stop = size + groups; size < stop; ++size) {
          offsets[size + 1] = std::min(offsets[size] + cumsum_group_rows, last);
        }
      }
      const typename cpu::SequenceTile<T>::Sequences some(
          Segments(offsets, static_cast<std::int64_t>(size), cumsum_group_rows), 0, static_cast<std::int64_t>(size));
      // A tile takes a quarter of the time of its lanes x rows one by one.
      if (4 * some.rows() < cpu::lanes<T> * cumsum_group_rows) return begin;
      cpu::SequenceTile<T> tile(some, x + first, sequences.rows() - first);
      running.groups(some, x + first, firsts, tile);
      tile.write(some, cumsum_group_rows, writer, [](std::int64_t rows) { return rows; });
    }
    return i;
  }
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu
