// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup gpu_ranks
/// A value of one GPU on all of them.
#pragma once

#include <lod/core/lod_index.hpp>
#include <lod/core/target.hpp>
#include <lod/mpi/agreement.hpp>
#include <lod/mpi/carried.hpp>
#include <lod/nccl/communicator.hpp>
#include <lod/nccl/sizes.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>

namespace lod::inline LOD_INTERFACE::nccl::inline LOD_TARGET {

/// Lets `y` of all ranks be that of the rank `root`, which is only read: a LoDTensor or SelectedRows, on a GPU. Of
/// row-sparse values all places go, those that name no row, too. Throws ShapeMismatch if the elements of another rank's
/// are of another type, OutOfRange for a root that is no rank; on all ranks.
template <between_gpus::Carried Y>
void broadcast_into(const Communicator& communicator, int root, Y& y) {
  auto& group = between_gpus::group_of(communicator);
  between_gpus::Sizes sizes(communicator, between_gpus::Operation::BROADCAST, root);
  const bool is_root = sizes.own() == root;
  sizes.tell([&] { return between_gpus::for_all(is_root ? between_gpus::outgoing(y) : between_gpus::expected<Y>()); });
  const between_gpus::Header& header = sizes.from(root);
  for (int rank = 0; rank < sizes.ranks(); ++rank) {
    between_ranks::check_takes(sizes.from(rank), header, between_ranks::of_rank(sizes.what(), rank));
  }
  between_gpus::Landing<Y> landing(y);
  sizes.agree([&] {
    if (!is_root) landing.prepare(header, group.executor.resource());
  });
  between_gpus::Calls calls(group);
  between_gpus::for_each_block(
      header, &sizes.part(root), &landing, [&](std::int64_t row_bytes, const std::byte* from, std::byte* to) {
        // The root's own memory is not written to where both addresses are the same.
        calls.broadcast(from, is_root ? const_cast<std::byte*>(from) : to, header.rows * row_bytes, root);
      });
  calls.end();
  if (!is_root) landing.finish(sizes.lod_from(root));
}
/// The same by value: x of the root. What other ranks pass counts only by its type.
template <between_gpus::Carried Y>
[[nodiscard]] Y broadcast(const Communicator& communicator, int root, Y x = Y()) {
  broadcast_into(communicator, root, x);
  return x;
}

}  // namespace lod::inline LOD_INTERFACE::nccl::inline LOD_TARGET
