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
#include <optional>
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

/// Whether holds(i) is true for every i in [0, count). Called for any of them, by any thread: not for all where it is
/// false for one.
template <Executor E, class Holds>
bool all_hold(const E& executor, std::int64_t count, const Holds& holds) {
  std::atomic<bool> all = true;
  launch(kernel::ForEachRange(), executor, count, [&](std::int64_t, std::int64_t begin, std::int64_t end) {
    // So many at a time, known to the compiler, which makes vectors of them.
    constexpr std::int64_t at_a_time = 1024;
    std::int64_t broken = 0;
    std::int64_t first = begin;
    for (; broken == 0 && end - first >= at_a_time; first += at_a_time) {
      for (std::int64_t k = 0; k < at_a_time; ++k) broken |= static_cast<std::int64_t>(!holds(first + k));
    }
    for (; broken == 0 && first < end; ++first) broken |= static_cast<std::int64_t>(!holds(first));
    if (broken != 0) all.store(false, std::memory_order_relaxed);
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

/// The same from the number of rows of each of `size` sequences, none negative: length(i), which may be called several
/// times, by any thread. If an output already has that level, the offsets are not computed.
template <Executor E, class Length>
class LevelOfLengths {
 public:
  /// `what` begins the texts of errors.
  LevelOfLengths(const E& executor, const char* what, std::int64_t size, const Length& length)
      : executor_(executor), what_(what), size_(size), length_(length) {}
  LevelOfLengths(const LevelOfLengths&) = delete;
  LevelOfLengths& operator=(const LevelOfLengths&) = delete;

  std::int64_t rows() const { return offsets().rows(); }
  bool is(const LoDView& other) const {
    if (other.levels() != 1 || other.size() != size_) return false;
    const std::int64_t* const theirs = other.offsets(0).data();
    if (theirs == same_) return true;
    const Length length = length_;
    const auto agrees = [=](std::int64_t i) { return theirs[i + 1] - theirs[i] == length(i); };
    if (!all_hold(executor_, size_, agrees)) return false;
    same_ = theirs;
    return true;
  }
  LoD make() const {
    const auto span = offsets().span();
    return LoD::from_offsets({&span, 1});
  }

 private:
  const NewOffsets<E>& offsets() const {
    if (!offsets_) offsets_.emplace(executor_, what_, size_, length_);
    return *offsets_;
  }

  const E& executor_;
  const char* what_;
  std::int64_t size_;
  Length length_;
  mutable std::optional<NewOffsets<E>> offsets_;
  mutable const std::int64_t* same_ = nullptr;  // offsets that were found to be these
};

}  // namespace operation

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET
