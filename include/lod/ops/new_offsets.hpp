// SPDX-License-Identifier: Apache-2.0
/// @file
/// New levels: offsets that are computed from lengths on the CPU, by several threads if there are millions of
/// sequences. With short rows, that takes as long as copying the rows.
#pragma once

#include <lod/core/error.hpp>
#include <lod/core/executor.hpp>
#include <lod/core/lod_index.hpp>
#include <lod/core/lod_view.hpp>
#include <lod/core/target.hpp>
#include <lod/ops/kernel.hpp>
#include <lod/ops/staging.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

namespace lod::inline LOD_INTERFACE::kernel {
/// Computations about sequences on the CPU, whatever device the values are on. Calls body(part, begin, end) for parts
/// [begin, end) that cover [0, count); `RangeCount` says how many. On the calling thread, or on all threads of a
/// `CpuExecutor` if its back end is included. `bytes` is the memory that all calls touch; by default a few numbers for
/// each sequence.
struct ForEachRange {
  static constexpr bool in_headers_only = true;  ///< it calls a function of the caller's
};
/// The number of these parts.
struct RangeCount {
  static constexpr bool in_headers_only = true;
};
}  // namespace lod::inline LOD_INTERFACE::kernel

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET {
template <class E>
std::int64_t launch(RangeCount, const E&, std::int64_t) noexcept {
  return 1;
}
template <class E>
std::int64_t launch(RangeCount, const E&, std::int64_t, std::int64_t) noexcept {
  return 1;
}
template <class E, class Body>
void launch(ForEachRange, const E&, std::int64_t count, const Body& body) {
  body(std::int64_t{0}, std::int64_t{0}, count);
}
template <class E, class Body>
void launch(ForEachRange, const E&, std::int64_t count, std::int64_t, const Body& body) {
  body(std::int64_t{0}, std::int64_t{0}, count);
}
}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {

namespace operation {

/// Whether holds(i) is true for every i in [0, count). Called for all of them, by any thread.
template <Executor E, class Holds>
bool all_hold(const E& executor, std::int64_t count, const Holds& holds) {
  std::atomic<bool> all = true;
  launch(kernel::ForEachRange(), executor, count, [&](std::int64_t, std::int64_t begin, std::int64_t end) {
    bool held = true;
    for (std::int64_t i = begin; i < end; ++i) held &= static_cast<bool>(holds(i));
    if (!held) all.store(false, std::memory_order_relaxed);
  });
  return all.load(std::memory_order_relaxed);
}

/// The offsets of `count` sequences, where sequence i has the length length(i) >= 0.
template <Executor E>
class NewOffsets {
 public:
  /// length(i) is called once for each i, by any thread. Throws ShapeMismatch if the sum exceeds 64 bits, with a text
  /// that begins with `what`.
  template <class Length>
  NewOffsets(const E& executor, const char* what, std::int64_t count, const Length& length)
      : count_(count), offsets_(executor, count + 1) {
    const Workspace::Loan<Sum> sums(executor.workspace(), launch(kernel::RangeCount(), executor, count));
    offsets_[0] = 0;
    // Each part starts from 0, then is shifted by the sum of the parts before it.
    launch(kernel::ForEachRange(), executor, count, [&](std::int64_t part, std::int64_t begin, std::int64_t end) {
      std::int64_t* const offsets = offsets_.data();
      Sum sum;
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t rows = length(i);
        sum.exceeds |= __builtin_add_overflow(sum.rows, rows, &sum.rows);
        sum.longest = std::max(sum.longest, rows);
        offsets[i + 1] = sum.rows;
      }
      sums[part] = sum;
    });
    std::int64_t before = 0;
    bool exceeds = false;
    for (Sum& sum : sums.span()) {
      std::int64_t after = 0;
      exceeds |= sum.exceeds || __builtin_add_overflow(before, sum.rows, &after);
      sum.rows = before;
      before = after;
      longest_ = std::max(longest_, sum.longest);
    }
    if (exceeds) throw ShapeMismatch(detail::text({what, ": the result has more rows than 64 bits count"}));
    if (sums.span().size() == 1) return;
    launch(kernel::ForEachRange(), executor, count, [&](std::int64_t part, std::int64_t begin, std::int64_t end) {
      std::int64_t* const offsets = offsets_.data();
      const std::int64_t first = sums[part].rows;
      for (std::int64_t i = begin; i < end; ++i) offsets[i + 1] += first;
    });
  }

  std::int64_t rows() const noexcept { return offsets_[count_]; }
  std::span<const std::int64_t> span() const noexcept { return offsets_.span(); }
  /// The sequences, for kernels that are enqueued while this object exists.
  kernel::Segments segments() const { return operation::segments(offsets_, count_, longest_); }

 private:
  struct Sum {
    std::int64_t rows = 0;
    std::int64_t longest = 0;
    bool exceeds = false;
  };

  std::int64_t count_;
  Array<E, std::int64_t> offsets_;
  std::int64_t longest_ = 0;
};

/// The structure of a result with one level: see <lod/ops/output.hpp>. The offsets begin with 0.
template <Executor E>
struct OneLevel {
  const E& executor;
  std::span<const std::int64_t> offsets;

  std::int64_t rows() const noexcept { return offsets.back(); }
  bool is(const LoDView& other) const {
    if (other.levels() != 1 || other.offsets(0).size() != offsets.size()) return false;
    const std::int64_t* const theirs = other.offsets(0).data();
    const std::int64_t* const ours = offsets.data();
    return all_hold(executor, static_cast<std::int64_t>(offsets.size()),
                    [=](std::int64_t i) { return theirs[i] - theirs[0] == ours[i]; });
  }
  LoD make() const { return LoD::from_offsets({&offsets, 1}); }
};

/// The same from the number of rows of each sequence, none negative. If an output already has that level, the offsets
/// are not computed.
template <Executor E>
struct LevelOfLengths {
  const E& executor;
  const char* what;  ///< begins the texts of errors
  std::span<const std::int64_t> lengths;

  std::int64_t rows() const { return offsets().rows(); }
  bool is(const LoDView& other) const {
    if (other.levels() != 1 || other.size() != static_cast<std::int64_t>(lengths.size())) return false;
    const std::int64_t* const theirs = other.offsets(0).data();
    const std::int64_t* const ours = lengths.data();
    return all_hold(executor, other.size(), [=](std::int64_t i) { return theirs[i + 1] - theirs[i] == ours[i]; });
  }
  LoD make() const {
    const NewOffsets<E> made = offsets();
    const auto span = made.span();
    return LoD::from_offsets({&span, 1});
  }
  NewOffsets<E> offsets() const {
    return NewOffsets<E>(executor, what, static_cast<std::int64_t>(lengths.size()),
                         [ours = lengths.data()](std::int64_t i) { return ours[i]; });
  }
};

}  // namespace operation

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET
