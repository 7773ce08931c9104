// SPDX-License-Identifier: Apache-2.0
/// @file
/// From CPU memory to that of an executor's device. Operations compute offsets, ids and addresses on the CPU; kernels
/// read them where the values are. On a CPU that is the same memory, and nothing here copies. And the way back, for
/// operations that wait for values.
#pragma once

#include <lod/core/executor.hpp>
#include <lod/core/lod_index.hpp>
#include <lod/core/sizes.hpp>
#include <lod/core/target.hpp>
#include <lod/ops/kernel.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET {

/// `count` values of T in scratch memory of the device of E, which kernels keep from one pass to the next.
template <class E, class T>
class Scratch {
 public:
  /// Throws as `ScratchMemory::Loan` does.
  Scratch(const E& executor, std::int64_t count) : loan_(executor.scratch(), count) {}
  /// The values, for kernels; the CPU may not be able to read them.
  T* data() const noexcept { return loan_.data(); }

 private:
  typename ScratchMemory<typename E::device>::template Loan<T> loan_;
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {

namespace operation {

/// True if the CPU works in the memory of the executor's device.
template <class E>
inline constexpr bool on_cpu = std::same_as<typename E::device, Cpu>;

/// Values of T from CPU memory, for kernels to read.
template <class E, class T>
class OnDevice {
 public:
  /// Enqueues a copy. `values` may change as soon as this has returned.
  OnDevice(const E& executor, std::span<const T> values) : copy_(executor.upload(values.data(), values.size_bytes())) {}
  /// The copy, for work enqueued while this object exists.
  const T* data() const noexcept { return static_cast<const T*>(copy_.data()); }

 private:
  typename E::Upload copy_;
};
template <class E, class T>
  requires(on_cpu<E>)
class OnDevice<E, T> {
 public:
  OnDevice(const E&, std::span<const T> values) noexcept : values_(values.data()) {}
  const T* data() const noexcept { return values_; }

 private:
  const T* values_;
};

/// Scratch memory in which an operation computes values of T on the CPU, for kernels to read.
template <class E, class T>
class Array {
 public:
  /// `count` uninitialised values.
  Array(const E& executor, std::int64_t count) : executor_(executor), values_(executor.workspace(), count) {}

  /// @{
  /// The values, for the CPU.
  T* data() const noexcept { return values_.data(); }
  T& operator[](std::int64_t i) const noexcept { return values_[i]; }
  std::span<T> span() const noexcept { return values_.span(); }
  /// @}
  /// The first `count` values, or all, for kernels that are enqueued while this object exists. They are copied once:
  /// after the first call they must not change.
  const T* on_device() const { return on_device(static_cast<std::int64_t>(span().size())); }
  const T* on_device(std::int64_t count) const {
    if (!copy_) copy_.emplace(executor_, std::span<const T>{data(), static_cast<std::size_t>(count)});
    return copy_->data();
  }

 private:
  const E& executor_;
  Workspace::Loan<T> values_;
  mutable std::optional<OnDevice<E, T>> copy_;
};

/// Values from the memory of an executor's device, for the CPU to read. From a GPU all arrays come in one transfer.
template <class E>
class Download {
 public:
  /// For up to `arrays` arrays of `bytes` bytes in all.
  Download(const E& executor, std::int64_t arrays, std::int64_t bytes)
      : executor_(executor),
        there_(executor, detail::saturated_sum(bytes, arrays * alignment)),
        here_(executor.workspace(), detail::saturated_sum(bytes, arrays * alignment)) {}

  /// Where the CPU may read `count` values from, once `wait` has returned.
  template <class T>
  const T* add(const T* values, std::int64_t count) {
    static_assert(sizeof(T) <= alignment);
    const std::int64_t begin = used_, bytes = count * static_cast<std::int64_t>(sizeof(T));
    if (bytes > 0) executor_.resource()->copy(there_.data() + begin, values, static_cast<std::size_t>(bytes));
    used_ += (bytes + alignment - 1) / alignment * alignment;
    return reinterpret_cast<const T*>(here_.data() + begin);
  }
  /// Waits for everything that is enqueued. Throws as `CudaExecutor::synchronize` does.
  void wait() const {
    executor_.resource()->download(here_.data(), there_.data(), static_cast<std::size_t>(used_));
    executor_.rethrow_faults();
  }

 private:
  static constexpr std::int64_t alignment = 8;  // of the widest elements

  const E& executor_;
  kernel::Scratch<E, std::byte> there_;
  Workspace::Loan<std::byte> here_;
  std::int64_t used_ = 0;
};
template <class E>
  requires(on_cpu<E>)
class Download<E> {
 public:
  Download(const E&, std::int64_t, std::int64_t) noexcept {}
  template <class T>
  const T* add(const T* values, std::int64_t) const noexcept {
    return values;
  }
  void wait() const noexcept {}
};

/// Brings values that the CPU has worked out to an output, which must have room for them. On a GPU the copy is
/// enqueued, and `values` may change as soon as this has returned.
template <class E, class T>
void write_result(const E& executor, std::span<const T> values, T* to) {
  if constexpr (on_cpu<E>) {
    std::copy(values.begin(), values.end(), to);
  } else {
    if (!values.empty()) executor.resource()->upload(to, values.data(), values.size_bytes());
  }
}

/// Sequences whose offsets are among the numbers of a LoD, for a kernel. On a GPU, the numbers of a LoD and the marks
/// among its rows are copied there once, for all tensors that share it and all operations on them.
template <Executor E>
kernel::Segments on_device(const E& executor, const LoDView& lod, const kernel::Segments& sequences) {
  if constexpr (on_cpu<E>) {
    return sequences;
  } else {
    const auto found = executor.offsets(lod, sequences.offsets);
    return sequences.at(found.numbers, found.marks);
  }
}
/// The sequences of `level` of x, for the CPU: operations examine them before they enqueue anything.
inline kernel::Segments segments(const LoDView& x, int level) {
  const auto offsets = x.absolute_offsets(level);
  return {offsets.data(), static_cast<std::int64_t>(offsets.size()) - 1, x.max_rows(level)};
}
/// The sequences of `level` of x, for a kernel.
template <Executor E>
kernel::Segments segments(const E& executor, const LoDView& x, int level) {
  return on_device(executor, x, segments(x, level));
}
template <Executor E, class View>
kernel::Segments segments(const E& executor, const View& x, int level) {
  static_assert(std::same_as<typename View::device, typename E::device>,
                "the tensors of an operation are in the memory of its executor's device: lod::to brings them there");
  return segments(executor, x.lod_view(), level);
}
/// `size` sequences with offsets that an operation has computed.
template <class E>
kernel::Segments segments(const Array<E, std::int64_t>& offsets, std::int64_t size, std::int64_t max_rows) {
  return kernel::Segments(offsets.data(), size, max_rows).at(offsets.on_device(size + 1));
}

/// All rows of a batch as one sequence.
template <Executor E>
class WholeBatch {
 public:
  WholeBatch(const E& executor, std::int64_t rows) : offsets_(executor, 2) {
    offsets_[0] = 0;
    offsets_[1] = rows;
  }
  kernel::Segments segments() const { return operation::segments(offsets_, 1, offsets_[1]); }

 private:
  Array<E, std::int64_t> offsets_;
};

}  // namespace operation

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET
