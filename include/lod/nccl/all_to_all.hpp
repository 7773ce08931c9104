// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup gpu_ranks
/// Sequences that each go to a GPU of their own.
#pragma once

#include <lod/core/error.hpp>
#include <lod/core/lod_index.hpp>
#include <lod/core/lod_tensor.hpp>
#include <lod/core/lod_view.hpp>
#include <lod/core/shape.hpp>
#include <lod/core/sizes.hpp>
#include <lod/core/target.hpp>
#include <lod/cuda/stream.hpp>
#include <lod/mpi/agreement.hpp>
#include <lod/mpi/all_to_all.hpp>
#include <lod/mpi/exchange.hpp>
#include <lod/nccl/communicator.hpp>
#include <lod/nccl/sizes.hpp>
#include <lod/ops/argument_list.hpp>
#include <lod/ops/batch_levels.hpp>
#include <lod/ops/select.hpp>

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

namespace lod::inline LOD_INTERFACE::between_gpus::inline LOD_TARGET {

/// Enqueues an exchange of rows: those for rank 0 come first in `from`, and those of rank 0 in `to`; rows_to(r) and
/// rows_from(r) count them.
template <class RowsTo, class RowsFrom>
void exchange_rows(Group& group, const Sizes& sizes, std::int64_t row_bytes, const std::byte* from, std::byte* to,
                   const RowsTo& rows_to, const RowsFrom& rows_from) {
  Calls calls(group);
  for (int rank = 0; rank < sizes.ranks(); ++rank) {
    const std::int64_t there = rows_to(rank) * row_bytes, here = rows_from(rank) * row_bytes;
    if (rank != sizes.own()) {
      calls.send(from, there, rank);
      calls.receive(to, here, rank);
    } else if (here > 0) {
      group.executor.resource()->copy(to, from, static_cast<std::size_t>(here));
    }
    from = after(from, there);
    to = after(to, here);
  }
  calls.end();
}

}  // namespace lod::inline LOD_INTERFACE::between_gpus::inline LOD_TARGET

namespace lod::inline LOD_INTERFACE::nccl::inline LOD_TARGET {

/// Top-level sequence i of x (row i, where there is no level) goes to the rank destinations[i]. Each rank has those
/// that have come to it: first those of rank 0, in the order that they had there, then those of rank 1, and so on.
/// Without destinations that descend they are sent from where they lie; otherwise they are laid out in a copy first.
///
/// `destinations` are int64, in the memory of the CPU: a range, a list in braces or a tensor. Throws ShapeMismatch
/// unless there are as many as sequences, OutOfRange for one that is no rank; InvalidLoD or ShapeMismatch if types,
/// levels or row shapes differ between ranks; on all ranks. `y` must not overlap x.
template <between_gpus::DeviceTensor X>
void all_to_all_into(const Communicator& communicator, const X& x, const operation::IdList& destinations,
                     between_gpus::Arriving<X>& y) {
  auto& group = between_gpus::group_of(communicator);
  between_gpus::Sizes sizes(communicator, between_gpus::Operation::ALL_TO_ALL);
  LoDTensor<value_type_t<X>, Cuda> laid_out(group.executor.resource());
  auto view = x.view();
  sizes.tell([&] {
    between_gpus::check_apart(sizes.what(), x, y);
    const between_ranks::Sorted sorted(destinations, view.size(), sizes.ranks(), sizes.what());
    if (!sorted.in_order()) {
      select_into(group.executor, x, sorted.order(), laid_out);
      view = std::as_const(laid_out).view();
    }
    std::vector<between_gpus::Outgoing> parts;
    for (int rank = 0; rank < sizes.ranks(); ++rank) {
      parts.push_back(between_gpus::outgoing(view.between(sorted.begin(rank), sorted.end(rank))));
    }
    return parts;
  });
  const between_gpus::Header all = sizes.joined();
  between_gpus::Landing<between_gpus::Arriving<X>> landing(y);
  sizes.agree([&] { landing.prepare(all, group.executor.resource()); });
  between_gpus::exchange_rows(
      group, sizes, between_gpus::row_bytes_of(all)[0], reinterpret_cast<const std::byte*>(view.data()),
      landing.values(), [&](int rank) { return sizes.part(rank).header.rows; },
      [&](int rank) { return sizes.from(rank).rows; });
  landing.finish(sizes.lod());
}
template <between_gpus::DeviceTensor X>
[[nodiscard]] between_gpus::Arriving<X> all_to_all(const Communicator& communicator, const X& x,
                                                   const operation::IdList& destinations) {
  between_gpus::Arriving<X> y(communicator.executor().resource());
  all_to_all_into(communicator, x, destinations, y);
  return y;
}

/// The gradient of `all_to_all`, and its way back: the rows of dy, which are in the order of what has come to a rank,
/// where they came from, under the levels of x. The levels of dy are ignored. Throws ShapeMismatch unless dy has as
/// many rows as have come, and if row shapes differ between ranks; on all ranks. `dx` must not overlap dy.
template <between_gpus::DeviceTensor DY>
void all_to_all_grad_into(const Communicator& communicator, const DY& dy, const BatchLevels& x_levels,
                          const operation::IdList& destinations, between_gpus::Arriving<DY>& dx) {
  using T = value_type_t<DY>;
  constexpr const char* what = "all_to_all_grad";
  auto& group = between_gpus::group_of(communicator);
  const LoDView& levels = x_levels.view();
  const auto view = dy.view();
  std::optional<between_ranks::Sorted> sorted;
  std::vector<std::int64_t> offsets, places;  // in the order of destinations
  const auto first = [&](std::int64_t sequence) { return offsets[static_cast<std::size_t>(sequence)]; };
  const auto rows_back = [&](int rank) { return first(sorted->end(rank)) - first(sorted->begin(rank)); };
  between_gpus::Sizes sizes(communicator, between_gpus::Operation::ALL_TO_ALL_GRAD);
  sizes.tell([&] {
    between_gpus::check_apart(what, dy, dx);
    sorted.emplace(destinations, levels.size(), sizes.ranks(), what);
    offsets.resize(detail::checked_count<std::int64_t>(detail::saturated_sum(levels.size(), 1), what));
    places.resize(offsets.size() - 1);
    sorted->for_each([&](std::int64_t sequence, std::size_t, std::int64_t place) {
      places[static_cast<std::size_t>(sequence)] = place;
      offsets[static_cast<std::size_t>(place) + 1] =
          operation::rows_before(levels, sequence + 1) - operation::rows_before(levels, sequence);
    });
    std::partial_sum(offsets.begin(), offsets.end(), offsets.begin());
    std::vector<between_gpus::Outgoing> parts(static_cast<std::size_t>(sizes.ranks()));
    for (int rank = 0; rank < sizes.ranks(); ++rank) {
      // What each rank must send back.
      between_gpus::Header& header = parts[static_cast<std::size_t>(rank)].header;
      header.type = between_ranks::type_of<T>();
      between_ranks::set_row_shape(header, view.row_shape());
      header.rows = rows_back(rank);
    }
    return parts;
  });
  const between_gpus::Header all = sizes.joined();
  LoDTensor<T, Cuda> result, received;
  sizes.agree([&] {
    if (view.rows() != all.rows) {
      throw ShapeMismatch(
          detail::text({what, ": dy has ", view.rows(), " rows, expected ", all.rows, ", as many as have arrived"}));
    }
    CudaStream* const resource = group.executor.resource();
    result = dx.resized(LoD(), view.row_shape(), levels.rows(), dx.resource() ? dx.resource() : resource);
    if (!sorted->in_order())
      received = LoDTensor<T, Cuda>(Shape(levels.rows(), view.row_shape()), uninitialized, resource);
  });
  LoDTensor<T, Cuda>& arriving = sorted->in_order() ? result : received;
  between_gpus::exchange_rows(
      group, sizes, between_gpus::row_bytes_of(all)[0], reinterpret_cast<const std::byte*>(view.data()),
      reinterpret_cast<std::byte*>(arriving.data()), [&](int rank) { return sizes.from(rank).rows; }, rows_back);
  LoD lod = levels.lod();
  if (!sorted->in_order()) {
    if (lod.levels() > 0) received = std::move(received).with_lod(LoD::from_offsets({offsets}));
    select_into(group.executor, received, places, result);
  }
  dx = std::move(result).with_lod(std::move(lod));
}
template <between_gpus::DeviceTensor DY>
[[nodiscard]] between_gpus::Arriving<DY> all_to_all_grad(const Communicator& communicator, const DY& dy,
                                                         const BatchLevels& x_levels,
                                                         const operation::IdList& destinations) {
  between_gpus::Arriving<DY> dx(communicator.executor().resource());
  all_to_all_grad_into(communicator, dy, x_levels, destinations, dx);
  return dx;
}

}  // namespace lod::inline LOD_INTERFACE::nccl::inline LOD_TARGET
