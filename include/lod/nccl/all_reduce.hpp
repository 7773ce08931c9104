// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup gpu_ranks
/// The sum of dense tensors over all GPUs.
#pragma once

#include <lod/core/data_type.hpp>
#include <lod/core/error.hpp>
#include <lod/core/lod_index.hpp>
#include <lod/core/target.hpp>
#include <lod/mpi/agreement.hpp>
#include <lod/nccl/communicator.hpp>
#include <lod/nccl/interface.hpp>
#include <lod/nccl/sizes.hpp>
#include <lod/ops/output.hpp>

#include <concepts>
#include <cstdint>
#include <utility>

namespace lod::inline LOD_INTERFACE::between_gpus::inline LOD_TARGET {

/// The type by which NCCL adds up numbers of type T; ncclNumTypes if it does not.
template <class T>
constexpr ncclDataType_t summed_as() noexcept {
  ncclDataType_t type = ncclNumTypes;
  if constexpr (std::same_as<T, std::int8_t>) type = ncclInt8;
  if constexpr (std::same_as<T, std::uint8_t>) type = ncclUint8;
  if constexpr (std::same_as<T, std::int32_t>) type = ncclInt32;
  if constexpr (std::same_as<T, std::uint32_t>) type = ncclUint32;
  if constexpr (std::same_as<T, std::int64_t>) type = ncclInt64;
  if constexpr (std::same_as<T, std::uint64_t>) type = ncclUint64;
  if constexpr (std::same_as<T, float16>) type = ncclFloat16;
  if constexpr (std::same_as<T, bfloat16>) type = ncclBfloat16;
  if constexpr (std::same_as<T, float>) type = ncclFloat32;
  if constexpr (std::same_as<T, double>) type = ncclFloat64;
  return type;
}

}  // namespace lod::inline LOD_INTERFACE::between_gpus::inline LOD_TARGET

namespace lod::inline LOD_INTERFACE::nccl::inline LOD_TARGET {

/// The sum over all ranks of one tensor each, on all ranks, by ncclAllReduce: the same bits on all of them, by an order
/// of additions that NCCL chooses, so that bits may change with the number of ranks and with NCCL's version. The result
/// has the shape of the tensors, and the levels of this rank's; `y` may be x, but not overlap it otherwise. Throws
/// ShapeMismatch for different shapes or types, on all ranks.
template <between_gpus::DeviceTensor X>
void all_reduce_into(const Communicator& communicator, const X& x, between_gpus::Arriving<X>& y) {
  constexpr ncclDataType_t type = between_gpus::summed_as<value_type_t<X>>();
  static_assert(type != ncclNumTypes,
                "all_reduce: NCCL adds up int8, uint8, 32- and 64-bit integers, float16, bfloat16, float and double");
  auto& group = between_gpus::group_of(communicator);
  between_gpus::Sizes sizes(communicator, between_gpus::Operation::ALL_REDUCE);
  const auto view = x.view();
  sizes.tell([&] {
    operation::check_apart(sizes.what(), y, {operation::OtherMemory("x", view).in_place(true)});
    between_gpus::Outgoing out = between_gpus::expected<between_gpus::Arriving<X>>();
    between_ranks::set_row_shape(out.header, view.row_shape());
    out.header.height = view.rows();  // on which ranks must agree
    return between_gpus::for_all(std::move(out));
  });
  between_gpus::Header all = sizes.joined();
  all.rows = all.height;
  between_gpus::Landing<between_gpus::Arriving<X>> landing(y);
  sizes.agree([&] { landing.prepare(all, group.executor.resource()); });
  between_gpus::Calls calls(group);
  calls.all_reduce(view.data(), landing.values(), view.rows() * view.row_size(), type);
  calls.end();
  LoD lod = view.lod_view().lod();
  landing.finish(std::move(lod));
}
template <between_gpus::DeviceTensor X>
[[nodiscard]] between_gpus::Arriving<X> all_reduce(const Communicator& communicator, const X& x) {
  between_gpus::Arriving<X> y(communicator.executor().resource());
  all_reduce_into(communicator, x, y);
  return y;
}

}  // namespace lod::inline LOD_INTERFACE::nccl::inline LOD_TARGET
