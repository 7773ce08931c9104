// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup gpu_ranks
/// The sum of row-sparse values over all GPUs, which is never made dense.
#pragma once

#include <lod/core/device.hpp>
#include <lod/core/lod_index.hpp>
#include <lod/core/lod_tensor.hpp>
#include <lod/core/selected_rows.hpp>
#include <lod/core/target.hpp>
#include <lod/cuda/copies.hpp>
#include <lod/cuda/selected_rows.hpp>
#include <lod/mpi/agreement.hpp>
#include <lod/mpi/all_reduce_rows.hpp>
#include <lod/mpi/all_to_all.hpp>
#include <lod/mpi/gather.hpp>
#include <lod/mpi/together.hpp>
#include <lod/nccl/all_to_all.hpp>
#include <lod/nccl/communicator.hpp>
#include <lod/nccl/gather.hpp>
#include <lod/nccl/sizes.hpp>
#include <lod/ops/merge_rows.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

namespace lod::inline LOD_INTERFACE::nccl::inline LOD_TARGET {

/// The sum over all ranks of the row-sparse values of each, on all ranks, ids ascending, without waiting for a GPU:
/// each rank merges its own, gets the places of all others, and merges these. So a rank receives the rows of all, and
/// the result has as many places as all ranks together. The bits are those of mpi::all_reduce. Throws ShapeMismatch for
/// different heights or row shapes, on all ranks. `y` may be g.
template <class T>
void all_reduce_into(const Communicator& communicator, const SelectedRows<T, Cuda>& g, SelectedRows<T, Cuda>& y) {
  const CudaExecutor& executor = communicator.executor();
  SelectedRows<T, Cuda> merged(executor.resource()), all(executor.resource());
  mpi::together(between_gpus::group_of(communicator).hosts, [&] { merge_add_into(executor, g, merged); });
  all_gather_into(communicator, merged, all);
  merge_add_into(executor, all, y);
}
template <class T>
[[nodiscard]] SelectedRows<T, Cuda> all_reduce(const Communicator& communicator, const SelectedRows<T, Cuda>& g) {
  SelectedRows<T, Cuda> y(communicator.executor().resource());
  all_reduce_into(communicator, g, y);
  return y;
}

/// The same by owners: each rank owns a range of ids, gets the rows of these from all others, merges them, and sends
/// the sum to all. So a rank receives its share of the rows of all, and those of the sum; the result has exactly as
/// many places as rows. Waits once, for the ids that this rank has, which the CPU reads to know sizes; ids travel
/// through MPI, in five exchanges, and values through NCCL.
template <class T>
void all_reduce_and_wait_into(const Communicator& communicator, const SelectedRows<T, Cuda>& g,
                              SelectedRows<T, Cuda>& y) {
  auto& group = between_gpus::group_of(communicator);
  const CudaExecutor& executor = group.executor;
  CudaStream* const resource = executor.resource();
  SelectedRows<T, Cuda> merged(resource);
  std::vector<std::int64_t> ids;
  between_gpus::Sizes sizes(communicator, between_gpus::Operation::ALL_REDUCE_ROWS);
  sizes.tell([&] {
    merge_add_into(executor, g, merged);
    const LoDTensor<std::int64_t> places = to<Cpu>(executor, merged.rows());
    // Those that name no row come last.
    const auto named = [](std::int64_t id) { return id >= 0; };
    ids.assign(places.values().begin(), std::partition_point(places.values().begin(), places.values().end(), named));
    between_gpus::Outgoing out = between_gpus::outgoing(merged);
    between_ranks::IdSamples::put(ids, out.header);
    return between_gpus::for_all(std::move(out));
  });
  between_gpus::Header all = sizes.joined();
  const std::int64_t row_bytes = between_gpus::row_bytes_of(all)[0];

  // Which of them each owner gets, and what it then has.
  std::vector<std::int64_t> counts, owners(static_cast<std::size_t>(sizes.ranks()));
  std::iota(owners.begin(), owners.end(), 0);
  auto begin = ids.begin();
  for (const std::int64_t end : between_ranks::owned_ranges(sizes.agreement(), sizes.ranks())) {
    const auto next = std::lower_bound(begin, ids.end(), end);
    counts.push_back(next - begin);
    begin = next;
  }
  counts.push_back(ids.end() - begin);
  const auto by_owner = LoDTensor<std::int64_t>::from_values(LoD::from_lengths({counts}), {}, ids);
  const auto arrived = mpi::all_to_all(group.hosts, by_owner, owners);
  std::vector<std::int64_t> owned(arrived.values().begin(), arrived.values().end());
  std::sort(owned.begin(), owned.end());
  owned.erase(std::unique(owned.begin(), owned.end()), owned.end());
  const auto count = static_cast<std::int64_t>(owned.size());
  const auto all_ids =
      mpi::all_gather(group.hosts, LoDTensor<std::int64_t>::from_values(LoD::from_lengths({{count}}), {}, owned));

  // Values to their owners, and sums to all.
  const auto upload = [&](const LoDTensor<std::int64_t>& from, std::byte* there) {
    if (from.rows() > 0) resource->upload(there, from.data(), from.values().size_bytes());
  };
  SelectedRows<T, Cuda> parts(resource), sum(resource);
  mpi::together(group.hosts, [&] {
    parts.resize(arrived.rows(), g.height(), g.row_shape());
    upload(arrived, reinterpret_cast<std::byte*>(parts.rows().data()));
  });
  const auto lengths = arrived.lod().lengths(0);
  between_gpus::exchange_rows(
      group, sizes, row_bytes, reinterpret_cast<const std::byte*>(merged.value().data()),
      reinterpret_cast<std::byte*>(parts.value().data()),
      [&](int rank) { return counts[static_cast<std::size_t>(rank)]; },
      [&](int rank) { return lengths[static_cast<std::size_t>(rank)]; });
  between_gpus::Landing<SelectedRows<T, Cuda>> landing(y);
  mpi::together(group.hosts, [&] {
    merge_add_into(executor, parts, sum);
    all.rows = all_ids.rows();
    landing.prepare(all, resource);
    upload(all_ids, landing.ids());
  });
  between_gpus::Calls calls(group);
  std::byte* next = landing.values();
  for (int rank = 0; rank < sizes.ranks(); ++rank) {
    const std::int64_t bytes = all_ids.lod().lengths(0)[static_cast<std::size_t>(rank)] * row_bytes;
    const auto* const from = rank == sizes.own() ? reinterpret_cast<const std::byte*>(sum.value().data()) : next;
    calls.broadcast(from, next, bytes, rank);
    next = between_gpus::after(next, bytes);
  }
  calls.end();
  landing.finish(LoD());
}
template <class T>
[[nodiscard]] SelectedRows<T, Cuda> all_reduce_and_wait(const Communicator& communicator,
                                                        const SelectedRows<T, Cuda>& g) {
  SelectedRows<T, Cuda> y(communicator.executor().resource());
  all_reduce_and_wait_into(communicator, g, y);
  return y;
}

}  // namespace lod::inline LOD_INTERFACE::nccl::inline LOD_TARGET
