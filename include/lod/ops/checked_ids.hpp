// SPDX-License-Identifier: Apache-2.0
/// @file
/// Ids as arguments: numbers of rows or columns, which must name one.
#pragma once

#include <lod/executor.hpp>
#include <lod/kernel.hpp>
#include <lod/selected_rows.hpp>
#include <lod/staging.hpp>
#include <lod/target.hpp>

#include <cstdint>
#include <span>

namespace lod::inline LOD_TARGET {

namespace kernel {
/// run(executor, ids, count, height, skipped, checked, fault): checked[i] = ids[i], or -1 where that is `skipped`, and
/// where it is not in [0, height); *fault is then one such position. For executors whose device the CPU does not look
/// into.
template <class Executor>
struct CheckIds : Missing<Executor> {};
}  // namespace kernel

namespace operation {

/// `count` ids in [0, height), for kernels. On the CPU others throw OutOfRange at once, with a text that begins with
/// `what`, a literal. On a GPU nobody waits to look: others are -1 to the kernels, which take a negative id for none,
/// and the error is thrown by what waits for the executor next. There `skipped` is -1 to the kernels, too. A negative
/// height throws ShapeMismatch on both.
template <class E>
class CheckedIds {
 public:
  CheckedIds(const E& executor, std::span<const std::int64_t> ids, std::int64_t height, const char* what,
             std::int64_t skipped = -1)
      : checked_(executor, static_cast<std::int64_t>(ids.size())) {
    detail::check_height(height, what);
    kernel::CheckIds<E>::run(executor, ids.data(), static_cast<std::int64_t>(ids.size()), height, skipped,
                             checked_.data(), executor.fault(what, height));
  }
  const std::int64_t* data() const noexcept { return checked_.data(); }

 private:
  kernel::Scratch<E, std::int64_t> checked_;
};
template <class E>
  requires(on_cpu<E>)
class CheckedIds<E> {
 public:
  CheckedIds(const E&, std::span<const std::int64_t> ids, std::int64_t height, const char* what, std::int64_t = -1)
      : ids_(ids.data()) {
    detail::check_height(height, what);
    detail::check_row_ids(ids, height, what);
  }
  const std::int64_t* data() const noexcept { return ids_; }

 private:
  const std::int64_t* ids_;
};

}  // namespace operation

}  // namespace lod::inline LOD_TARGET
