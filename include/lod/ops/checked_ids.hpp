// SPDX-License-Identifier: Apache-2.0
/// @file
/// Ids as arguments: numbers of rows or columns that must exist; labels.
#pragma once

#include <lod/core/error.hpp>
#include <lod/core/executor.hpp>
#include <lod/core/selected_rows.hpp>
#include <lod/core/target.hpp>
#include <lod/ops/declaration.hpp>
#include <lod/ops/kernel.hpp>
#include <lod/ops/output.hpp>
#include <lod/ops/staging.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
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
/// run(executor, ids, count, wide, range): wide[i] = ids[i], numbers of 32 bits. A CpuExecutor's sets range[0] and
/// range[1] to the least and the greatest, since a pass of its own to check them would take as long again; of no ids,
/// to numbers that every id is within.
struct WidenIds {};
/// For CpuExecutor. run(executor, ids, count, height, least): whether every id is in [least, height); least is 0 or -1.
struct AreIds {};

}  // namespace lod::inline LOD_INTERFACE::kernel

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {

namespace operation {

/// Ids or labels as the body of an operation sees them: numbers of 64 bits, in place or widened.
template <class E>
class IdsInput : public Input<E, std::int64_t> {
  using View = Input<E, std::int64_t>;

 public:
  /// `narrow`, unless it is null, are the ids in place of those of `ids`, which has their levels and shape.
  IdsInput(const E& executor, const View& ids, const std::int32_t* narrow) : View(ids) {
    const std::int64_t count = ids.rows() * ids.row_size();
    if (!narrow) {
      memory_of_caller_ = std::as_bytes(ids.values());
      return;
    }
    memory_of_caller_ = std::as_bytes(std::span(narrow, static_cast<std::size_t>(count)));
    wide_.emplace(executor, count);
    launch(kernel::WidenIds(), executor, narrow, count, wide_->data(), &range_[0]);
    static_cast<View&>(*this) = View(wide_->data(), ids.lod_view(), &ids.row_shape(), ids.row_size());
  }
  IdsInput(const IdsInput&) = delete;
  IdsInput& operator=(const IdsInput&) = delete;

  /// The ids as the caller has them, which no output may overlap.
  std::span<const std::byte> memory_of_caller() const noexcept { return memory_of_caller_; }
  /// On the CPU. Throws OutOfRange unless every id is in [least, height), with a text that begins with `what`.
  void check(const E& executor, std::int64_t height, const char* what, std::int64_t least) const {
    if constexpr (std::derived_from<E, CpuExecutor>) {
      const std::int64_t count = this->rows() * this->row_size();
      if (wide_ ? range_[0] >= least && range_[1] < height
                : launch(kernel::AreIds(), executor, this->data(), count, height, least)) {
        return;
      }
    }
    detail::check_row_ids(this->values(), height, what, least);
  }

 private:
  std::span<const std::byte> memory_of_caller_;
  std::optional<kernel::Scratch<E, std::int64_t>> wide_;
  std::int64_t range_[2] = {};
};

/// A kind of argument: ids or labels, of 64 bits or of 32. The body of the operation sees an `IdsInput`.
struct Ids {
  template <class Device>
  class Given {
   public:
    template <LoDTensorLike X>
    Given(const X& x) noexcept {
      static_assert(std::same_as<device_t<X>, Device>, "the tensors of an operation are in the memory of one device");
      static_assert(std::same_as<value_type_t<X>, std::int64_t> || std::same_as<value_type_t<X>, std::int32_t>,
                    "ids and labels are of type std::int64_t or std::int32_t");
      const auto& ids = x.view();
      const std::int64_t* wide = nullptr;
      if constexpr (sizeof(value_type_t<X>) == sizeof(std::int32_t)) {
        narrow_ = ids.data();
      } else {
        wide = ids.data();
      }
      ids_ = {wide, ids.lod_view(), &ids.row_shape(), ids.row_size()};
    }
    template <class E>
    IdsInput<E> as_input(const E& executor) const {
      return {executor, ids_, narrow_};
    }

   private:
    LoDTensorView<const std::int64_t, Device> ids_;
    const std::int32_t* narrow_ = nullptr;
  };
  template <class T, class Device>
  using Argument = Given<Device>;
};

/// `count` ids for kernels, which must be in [0, height). On the CPU, an id outside throws OutOfRange at once, with a
/// text that begins with `what`, a literal; padding ids stay as they are. On a GPU nothing waits to check them: kernels
/// see ids outside, and padding, as -1, and ignore negative ids; the next call that waits for the executor throws. A
/// negative height throws ShapeMismatch on both.
template <class E>
class CheckedIds {
 public:
  CheckedIds(const E& executor, const IdsInput<E>& ids, std::int64_t height, const char* what,
             const kernel::PaddingIds& padding = {})
      : checked_(executor, ids.rows() * ids.row_size()) {
    detail::check_height(height, what);
    launch(kernel::CheckIds(), executor, ids.data(), ids.rows() * ids.row_size(), height, padding.id, padding.minus_one,
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
  CheckedIds(const E& executor, const IdsInput<E>& ids, std::int64_t height, const char* what,
             const kernel::PaddingIds& padding = {})
      : ids_(ids.data()) {
    detail::check_height(height, what);
    ids.check(executor, height, what, padding.least());
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
