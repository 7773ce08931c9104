// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup gpu_ranks
/// The values of all GPUs as one, on all of them.
#pragma once

#include <lod/core/target.hpp>
#include <lod/nccl/communicator.hpp>
#include <lod/nccl/sizes.hpp>

#include <cstddef>
#include <cstdint>

namespace lod::inline LOD_INTERFACE::nccl::inline LOD_TARGET {

/// The values of all ranks, one after the other in the order of ranks, on all ranks: batches as by `concat`, row-sparse
/// values with the places of all. x is a tensor, a view or row-sparse values on a GPU, of the same type, levels and row
/// shape on all ranks, which may have no sequences. Throws InvalidLoD for different levels, ShapeMismatch for other
/// differences; on all ranks. `y` must not overlap x.
template <between_gpus::Carried X>
void all_gather_into(const Communicator& communicator, const X& x, between_gpus::Arriving<X>& y) {
  auto& group = between_gpus::group_of(communicator);
  between_gpus::Sizes sizes(communicator, between_gpus::Operation::ALL_GATHER);
  sizes.tell([&] {
    between_gpus::check_apart(sizes.what(), x, y);
    return between_gpus::for_all(between_gpus::outgoing(x));
  });
  const between_gpus::Header all = sizes.joined();
  between_gpus::Landing<between_gpus::Arriving<X>> landing(y);
  sizes.agree([&] { landing.prepare(all, group.executor.resource()); });
  const std::int64_t rows = sizes.from(0).rows;
  bool even = true;
  for (int rank = 0; rank < sizes.ranks(); ++rank) even = even && sizes.from(rank).rows == rows;
  between_gpus::Calls calls(group);
  between_gpus::for_each_block(all, &sizes.part(sizes.own()), &landing,
                               [&](std::int64_t row_bytes, const std::byte* from, std::byte* to) {
                                 if (even) {
                                   calls.all_gather(from, to, rows * row_bytes);
                                   return;
                                 }
                                 for (int rank = 0; rank < sizes.ranks(); ++rank) {
                                   const std::int64_t bytes = sizes.from(rank).rows * row_bytes;
                                   calls.broadcast(rank == sizes.own() ? from : to, to, bytes, rank);
                                   to = between_gpus::after(to, bytes);
                                 }
                               });
  calls.end();
  landing.finish(sizes.lod());
}
template <between_gpus::Carried X>
[[nodiscard]] between_gpus::Arriving<X> all_gather(const Communicator& communicator, const X& x) {
  between_gpus::Arriving<X> y(communicator.executor().resource());
  all_gather_into(communicator, x, y);
  return y;
}

}  // namespace lod::inline LOD_INTERFACE::nccl::inline LOD_TARGET
