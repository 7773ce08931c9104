// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup core
/// DLPack for tensors on NVIDIA GPUs: their values, both ways, without a copy (see <lod/dlpack.hpp>). The LoD of such a
/// tensor is in CPU memory, and its offsets are passed like those of any other tensor.
///
/// DLPack says nothing about streams. Here each side names the stream that the other one works in, and neither waits:
/// work is ordered on the GPU when memory is handed over, and once more when it is returned. If the other library works
/// in further streams, the caller must order these. Neither stream may be captured into a graph while memory is handed
/// over or returned, and no graph may outlive memory that it uses.
#pragma once

#include <lod/core/error.hpp>
#include <lod/core/lod_index.hpp>
#include <lod/core/lod_tensor.hpp>
#include <lod/core/reference.hpp>
#include <lod/core/shape.hpp>
#include <lod/core/version.hpp>
#include <lod/cuda/executor.hpp>
#include <lod/cuda/stream.hpp>
#include <lod/interop/dlpack.hpp>

#include <cuda_runtime_api.h>

#include <stdexcept>
#include <type_traits>
#include <utility>

namespace lod::inline LOD_INTERFACE {

namespace detail {

/// Memory that is returned when nobody needs it any more: `order` is destroyed first.
template <class Memory>
struct MemoryInOrder {
  Memory memory;
  OrderAtEnd order;
};

template <DLPackManaged Managed, class T>
DLPackHandle<Managed> give_dlpack(LoDTensor<T, Cuda> x, cudaStream_t consumer) {
  CudaStream* const home = x.resource();
  if (!home) throw std::invalid_argument("to_dlpack: a tensor on a GPU that was made without a stream");
  const void* const data = x.data();
  const Shape shape = x.shape();
  order_streams(home->device(), home->get(), consumer);
  OrderAtEnd order(Reference<CudaStream>::share(home), consumer, home->get());
  return give_dlpack<Managed>(data, shape, data_type_v<T>, DLDevice{kDLCUDA, home->device()}, std::is_const_v<T>,
                              MemoryInOrder<LoDTensor<T, Cuda>>{std::move(x), std::move(order)});
}

}  // namespace detail

/// The values of x as a dense array {rows, row shape...} on its GPU, as `to_dlpack` makes it for tensors in CPU memory.
/// Work enqueued in `consumer`, a stream of the same GPU, from now on happens after the work enqueued so far in the
/// stream of x; and once the array's deleter has been called, the memory is reused only after what was enqueued in
/// `consumer` until then. `consumer` must outlive the array. It may be the default stream. Throws CudaError, and
/// std::invalid_argument for a tensor that was made without a stream.
template <DLPackManaged Managed = DLManagedTensor, class T>
DLPackHandle<Managed> to_dlpack(LoDTensor<T, Cuda>& x, cudaStream_t consumer) {
  return detail::give_dlpack<Managed>(x.with_lod(LoD()), consumer);
}
template <DLPackManaged Managed = DLManagedTensor, class T>
DLPackHandle<Managed> to_dlpack(const LoDTensor<T, Cuda>& x, cudaStream_t consumer) {
  return detail::give_dlpack<Managed>(x.with_lod(LoD()), consumer);
}
template <DLPackManaged Managed = DLManagedTensor, class T>
DLPackHandle<Managed> to_dlpack(LoDTensor<T, Cuda>&& x, cudaStream_t consumer) {
  return detail::give_dlpack<Managed>(std::move(x).with_lod(LoD()), consumer);
}

/// A tensor on another library's array, on the executor's GPU (or managed by CUDA), as `from_dlpack` makes it from
/// arrays that the CPU reads. What the executor enqueues from now on happens after the work enqueued so far in
/// `producer`, a stream of the same GPU; and what is enqueued in `producer` after the deleter was called happens after
/// what was enqueued in the executor's stream until then. `producer` must outlive the tensor. It may be the default
/// stream. Also throws CudaError, and std::invalid_argument for memory of another GPU or another device.
template <class T, DLPackManaged Managed>
LoDTensor<T, Cuda> from_dlpack(const CudaExecutor& executor, DLPackHandle<Managed> tensor, cudaStream_t producer,
                               LoD lod = LoD()) {
  detail::check_given(tensor.get(), "from_dlpack");
  const DLDevice device = tensor->dl_tensor.device;
  if (device.device_type != kDLCUDAManaged &&
      (device.device_type != kDLCUDA || device.device_id != executor.ordinal())) {
    throw std::invalid_argument(
        detail::text({"from_dlpack: memory of device type ", static_cast<int>(device.device_type), " and number ",
                      device.device_id, ", expected that of GPU ", executor.ordinal()}));
  }
  const detail::DLPackArray array = detail::read_dlpack(tensor->dl_tensor, "from_dlpack");
  detail::check_elements<T>(array, *tensor, "from_dlpack");
  detail::order_streams(executor.ordinal(), producer, executor.stream());
  detail::OrderAtEnd order(detail::Reference<CudaStream>::share(executor.resource()), executor.stream(), producer);
  return detail::take_dlpack<T, Cuda>(array, std::move(lod),
                                      detail::MemoryInOrder<DLPackHandle<Managed>>{std::move(tensor), std::move(order)},
                                      executor.resource(), "from_dlpack");
}

}  // namespace lod::inline LOD_INTERFACE
