// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup core
/// Arrow's C device data interface for tensors on NVIDIA GPUs: values and offsets on the GPU, both ways (see
/// <lod/arrow.hpp>). No stream may be captured into a graph while memory is handed over or returned, and no graph may
/// outlive memory that it uses.
#pragma once

#include <lod/core/any_tensor.hpp>
#include <lod/core/error.hpp>
#include <lod/core/lod_index.hpp>
#include <lod/core/lod_tensor.hpp>
#include <lod/core/reference.hpp>
#include <lod/core/version.hpp>
#include <lod/cuda/executor.hpp>
#include <lod/cuda/stream.hpp>
#include <lod/interop/arrow.hpp>

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

namespace lod::inline LOD_INTERFACE {

namespace detail {

/// Values and levels on a GPU that another library's stream reads. The members that order streams are destroyed first:
/// values are returned to the tensor's stream, offsets to the stream of the executor that copied them there.
template <class T>
struct LentToArrow {
  LoDTensor<T, Cuda> tensor;
  OrderAtEnd values;
  OrderAtEnd offsets;
};

template <class T>
ArrowHandle<ArrowDeviceArray> give_arrow(const CudaExecutor& executor, LoDTensor<T, Cuda> x, cudaStream_t consumer) {
  check_arrow_type<T>();
  CudaStream* const home = executor.resource();
  auto elsewhere = Reference<CudaStream>::share(x.resource() == home ? nullptr : x.resource());
  auto* const origin = elsewhere ? elsewhere->get() : nullptr;
  OrderAtEnd values(std::move(elsewhere), consumer, origin);
  OrderAtEnd offsets(Reference<CudaStream>::share(home), consumer, home->get());
  const ArrowOwner owner = share_owner(LentToArrow<T>{std::move(x), std::move(values), std::move(offsets)});
  const auto& kept = static_cast<const OwnerBlock<LentToArrow<T>>*>(owner.get())->owner.tensor;
  const LoDView levels = kept.lod_view();
  const auto on_gpu = [&](const std::int64_t* numbers) { return executor.offsets(levels, numbers).numbers; };
  auto array = arrow_of(data_type_v<T>, levels, kept.row_shape(), kept.data(), nullptr, owner, on_gpu);
  order_streams(executor.ordinal(), home->get(), consumer);
  return arrow_on<ArrowDeviceArray>(std::move(array), ARROW_DEVICE_CUDA, executor.ordinal());
}

/// Buffers on a GPU, which the CPU reads through copies.
class ArrowOnCuda {
 public:
  static constexpr bool in_place = false;
  explicit ArrowOnCuda(CudaStream* stream) noexcept : stream_(stream) {}
  /// Waits. Throws CudaError.
  const std::byte* fetch(const std::byte* from, std::size_t bytes) {
    auto& copy = copies_.emplace_back(bytes);
    stream_->download(copy.data(), from, bytes);
    return copy.data();
  }

 private:
  CudaStream* stream_;
  std::vector<std::vector<std::byte>> copies_;
};

/// An array that is released when the work in a stream is done: Arrow does not say in which stream its producer works.
class ArrowInStream {
 public:
  ArrowInStream(ArrowHandle<ArrowDeviceArray> array, Reference<CudaStream> stream) noexcept
      : array_(std::move(array)), stream_(std::move(stream)) {}
  ArrowInStream(ArrowInStream&&) noexcept = default;  // the source waits for nothing
  ArrowInStream& operator=(ArrowInStream&&) = delete;
  ~ArrowInStream() {
    if (!stream_) return;
    try {
      stream_->synchronize();
    } catch (...) {  // the GPU is gone, and its memory with it
    }
  }

 private:
  ArrowHandle<ArrowDeviceArray> array_;
  Reference<CudaStream> stream_;
};

}  // namespace detail

/// x as an array on its GPU, as `to_arrow` makes it for tensors in CPU memory. The offsets are those of the LoD's copy
/// that the executor keeps, or makes, on the GPU. Work enqueued in `consumer`, a stream of the same GPU, from now on
/// happens after the work enqueued so far in the executor's stream, so the array needs no event; and once it has been
/// released, the memory is reused only after what was enqueued in `consumer` until then. `consumer` must outlive the
/// array. Throws CudaError.
template <class T>
ArrowHandle<ArrowDeviceArray> to_arrow(const CudaExecutor& executor, const LoDTensor<T, Cuda>& x,
                                       cudaStream_t consumer) {
  return detail::give_arrow(executor, x.with_lod(x.lod()), consumer);
}
template <class T>
ArrowHandle<ArrowDeviceArray> to_arrow(const CudaExecutor& executor, LoDTensor<T, Cuda>&& x, cudaStream_t consumer) {
  return detail::give_arrow(executor, std::move(x), consumer);
}

/// A tensor on an array on the executor's GPU (or managed by CUDA), as `from_arrow` makes it from arrays that the CPU
/// reads. Waits: the offsets are copied to the CPU, and so are validity bitmaps, and elements of type bool. What the
/// executor enqueues from now on happens after the array's event. The array is released once the work in the executor's
/// stream is done; the last owner of the memory waits for that.
///
/// Also throws CudaError, and std::invalid_argument for memory of another GPU or another device, for booleans stored as
/// bits, and for booleans that are neither 0 nor 1.
template <class T>
LoDTensor<const T, Cuda> from_arrow(const CudaExecutor& executor, ArrowHandle<ArrowDeviceArray> array,
                                    const ArrowSchema& schema) {
  detail::check_arrow_type<T>();
  if (array->device_type != ARROW_DEVICE_CUDA_MANAGED &&
      (array->device_type != ARROW_DEVICE_CUDA || array->device_id != executor.ordinal())) {
    throw std::invalid_argument(detail::text({"from_arrow: memory of device type ", array->device_type, " and number ",
                                              array->device_id, ", expected that of GPU ", executor.ordinal()}));
  }
  if (array->sync_event) {
    const detail::CurrentDevice current(executor.ordinal());
    detail::check_cuda(cudaStreamWaitEvent(executor.stream(), *static_cast<cudaEvent_t*>(array->sync_event), 0),
                       "cudaStreamWaitEvent");
  }
  detail::ArrowOnCuda memory(executor.resource());
  const detail::ArrowContents found = detail::ArrowReader(memory).read(array->array, schema, data_type_v<T>);
  detail::check_element_type<T>(found.type, "from_arrow");
  const auto bytes = found.bits ? std::span<const std::byte>() : found.bytes();
  if constexpr (std::is_same_v<T, bool>) {
    const auto is_bool = [](std::byte byte) { return byte <= std::byte{1}; };
    const std::byte* const copy = memory.fetch(bytes.data(), bytes.size());
    if (found.bits || !std::all_of(copy, copy + bytes.size(), is_bool)) {
      throw std::invalid_argument("from_arrow: booleans on a GPU that are not bytes of 0 and 1");
    }
  }
  LoD lod = LoD::from_offsets(found.levels);
  return detail::wrap_rows<const T, Cuda>(
      reinterpret_cast<const T*>(bytes.data()), found.rows, std::move(lod), found.row_shape,
      detail::ArrowInStream(std::move(array), detail::Reference<CudaStream>::share(executor.resource())),
      executor.resource());
}

}  // namespace lod::inline LOD_INTERFACE
