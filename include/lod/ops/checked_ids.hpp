// SPDX-License-Identifier: Apache-2.0
/// @file
/// Ids as arguments: numbers of rows or columns that must exist; labels.
#pragma once

#include <lod/core/error.hpp>
#include <lod/core/executor.hpp>
#include <lod/core/selected_rows.hpp>
#include <lod/core/target.hpp>
#include <lod/ops/kernel.hpp>
#include <lod/ops/output.hpp>
#include <lod/ops/staging.hpp>

#include <cstdint>
#include <span>

namespace lod::inline LOD_INTERFACE::kernel {

/// Padding ids, which stand for nothing: `id`, if it is not negative, and -1, if `minus_one`.
struct PaddingIds {
  std::int64_t id = -1;
  bool minus_one = false;

  LOD_TAGGED bool any() const noexcept { return id >= 0 || minus_one; }
  /// The least id that is not an error.
  LOD_TAGGED LOD_HOST_DEVICE std::int64_t least() const noexcept { return minus_one ? -1 : 0; }
  LOD_TAGGED LOD_HOST_DEVICE bool contains(std::int64_t other) const noexcept {
    return other >= 0 ? other == id : minus_one && other == -1;
  }
};

/// run(executor, ids, count, height, padding_idx, minus_one, checked, fault): checked[i] = ids[i], or -1 if that is
/// padding or outside [0, height). If any is outside, *fault is the position of one of them. For devices whose memory
/// the CPU cannot read.
struct CheckIds {};

}  // namespace lod::inline LOD_INTERFACE::kernel

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {

namespace operation {

/// `count` ids for kernels, which must be in [0, height). On the CPU, an id outside throws OutOfRange at once, with a
/// text that begins with `what`, a literal; padding ids stay as they are. On a GPU nothing waits to check them: kernels
/// see ids outside, and padding, as -1, and ignore negative ids; the next call that waits for the executor throws. A
/// negative height throws ShapeMismatch on both.
template <class E>
class CheckedIds {
 public:
  CheckedIds(const E& executor, std::span<const std::int64_t> ids, std::int64_t height, const char* what,
             const kernel::PaddingIds& padding = {})
      : checked_(executor, static_cast<std::int64_t>(ids.size())) {
    detail::check_height(height, what);
    launch(kernel::CheckIds(), executor, ids.data(), static_cast<std::int64_t>(ids.size()), height, padding.id,
           padding.minus_one, checked_.data(), executor.fault(what, height));
  }
  const std::int64_t* data() const noexcept { return checked_.data(); }

 private:
  kernel::Scratch<E, std::int64_t> checked_;
};
template <class E>
  requires(on_cpu<E>)
class CheckedIds<E> {
 public:
  CheckedIds(const E&, std::span<const std::int64_t> ids, std::int64_t height, const char* what,
             const kernel::PaddingIds& padding = {})
      : ids_(ids.data()) {
    detail::check_height(height, what);
    detail::check_row_ids(ids, height, what, padding.least());
  }
  const std::int64_t* data() const noexcept { return ids_; }

 private:
  const std::int64_t* ids_;
};

/// Throws ShapeMismatch unless there is a label for each row.
template <class Labels, class Batch>
void check_labels(const Labels& labels, const Batch& batch, const char* name) {
  check_row_count(labels.rows(), batch.rows(), {name, "labels"});
  if (labels.row_size() != 1) {
    throw ShapeMismatch(
        detail::text({name, ": labels: rows of shape ", to_string(labels.row_shape()), ", expected one label a row"}));
  }
}

}  // namespace operation

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET
