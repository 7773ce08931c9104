// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup ranks
/// What operations between ranks cost: messages and bytes of a rank, counted as the operations send them, and the time
/// that follows from a network's latency and bandwidth.
#pragma once

#include <lod/core/sizes.hpp>
#include <lod/core/target.hpp>
#include <lod/mpi/agreement.hpp>
#include <lod/mpi/blocks.hpp>
#include <lod/mpi/communicator.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>

namespace lod::inline LOD_INTERFACE::mpi {

/// What one rank sends in an operation. Where ranks differ, that of the one with the most: the root.
struct Cost {
  std::int64_t collectives = 0;          ///< of MPI, as `Traffic` counts them
  std::int64_t collective_messages = 0;  ///< that MPI sends for those: one to each other rank
  std::int64_t messages = 0;             ///< as `Traffic` counts them
  std::int64_t bytes = 0;                ///< likewise, those of collectives included
  std::int64_t steps = 0;                ///< that wait for messages of the step before

  /// This, and then another one.
  LOD_TAGGED constexpr Cost operator+(const Cost& other) const noexcept {
    return {collectives + other.collectives, collective_messages + other.collective_messages, messages + other.messages,
            bytes + other.bytes, steps + other.steps};
  }
};

/// What a network, and MPI on it, take. `benchmark_mpi_cost` measures and prints it.
struct Network {
  double latency = 0;    ///< seconds from sending a message of a few bytes until another rank has it
  double overhead = 0;   ///< seconds of a rank for each further message that is under way at the same time
  double bandwidth = 1;  ///< bytes a second that a rank sends while it receives as many

  /// Seconds that `cost` takes, without what the ranks compute and copy before and after: latency for each step,
  /// overhead for each message, and bytes by the bandwidth.
  LOD_TAGGED constexpr double seconds(const Cost& cost) const noexcept {
    return latency * static_cast<double>(cost.steps) +
           overhead * static_cast<double>(cost.messages + cost.collective_messages) +
           static_cast<double>(cost.bytes) / bandwidth;
  }
};

}  // namespace lod::inline LOD_INTERFACE::mpi

namespace lod::inline LOD_INTERFACE::between_ranks::inline LOD_TARGET {

/// The messages that parts of these bytes become.
inline std::int64_t messages_of(std::initializer_list<std::int64_t> parts) noexcept {
  std::int64_t count = 0, bytes = 0;
  const auto end_message = [&](std::int64_t next) {
    count += bytes / Group::default_piece + (bytes % Group::default_piece > 0 ? 1 : 0);
    bytes = next;
  };
  for (const std::int64_t part : parts) {
    if (part > Group::default_merged - bytes) {
      end_message(part);
    } else {
      bytes += part;
    }
  }
  end_message(0);
  return count;
}
/// The same for each of `receivers`.
inline mpi::Cost cost_of_messages(std::int64_t receivers, std::initializer_list<std::int64_t> parts) noexcept {
  std::int64_t bytes = 0;
  for (const std::int64_t part : parts) bytes = detail::saturated_sum(bytes, part);
  return {0, 0, receivers * messages_of(parts), detail::saturated_product(receivers, bytes), 1};
}
/// Blocks of the same sizes between all ranks, as `exchange_blocks` sends them.
inline mpi::Cost cost_of_two_steps(int ranks, std::int64_t bytes) noexcept {
  const std::int64_t width = Grid::width(ranks), lines = (ranks + width - 1) / width;
  // A block does not move in the first step in the first column, and in the second one in the first line.
  const std::int64_t moves = (ranks - lines) + (ranks - width);
  return {0, 0, bytes > 0 ? width - 1 + lines - 1 : 0, moves * bytes, lines > 1 ? 2 : 1};
}
inline mpi::Cost cost_of_blocks(int ranks, std::initializer_list<std::int64_t> parts, int two_steps_from) noexcept {
  std::int64_t bytes = 0;
  for (const std::int64_t part : parts) bytes = detail::saturated_sum(bytes, part);
  const bool in_two_steps = ranks >= two_steps_from && ranks > 1 && bytes <= Group::default_merged;
  return in_two_steps ? cost_of_two_steps(ranks, bytes) : cost_of_messages(ranks - 1, parts);
}

}  // namespace lod::inline LOD_INTERFACE::between_ranks::inline LOD_TARGET

namespace lod::inline LOD_INTERFACE::mpi::inline LOD_TARGET {

/// @{
/// What a rank sends in an operation on `ranks` of them, of which each has as much as each other one. `numbers` are the
/// int64 that a part has beside its rows, in all levels: one for each level and one for each of its sequences (for
/// row-sparse values, ids); `bytes` are those of its rows.

/// What every operation begins with: whether each rank can do its part, and the sizes. `together` is this alone.
[[nodiscard]] inline Cost cost_of_agreement(int ranks, int two_steps_from = default_two_steps_from) noexcept {
  constexpr std::int64_t bytes = sizeof(between_ranks::Header);
  if (ranks >= two_steps_from && ranks > 1) return between_ranks::cost_of_two_steps(ranks, bytes);
  return {1, ranks - 1, 0, (ranks - 1) * bytes, 1};
}
/// `broadcast`: of the root, which sends to a rank for each bit of the number of ranks, while others send on.
[[nodiscard]] inline Cost cost_of_broadcast(int ranks, std::int64_t numbers, std::int64_t bytes,
                                            int two_steps_from = default_two_steps_from) noexcept {
  std::int64_t children = 0;
  while (std::int64_t{1} << children < ranks) ++children;
  Cost sent = between_ranks::cost_of_messages(children, {detail::bytes_of<std::int64_t>(numbers), bytes});
  sent.steps = children;
  return cost_of_agreement(ranks, two_steps_from) + sent;
}
/// `scatter`: of the root; `numbers` and `bytes` are those of one rank's part. `gather` costs a rank one such message,
/// or two, and the root receives what it would send here.
[[nodiscard]] inline Cost cost_of_scatter(int ranks, std::int64_t numbers, std::int64_t bytes,
                                          int two_steps_from = default_two_steps_from) noexcept {
  return cost_of_agreement(ranks, two_steps_from) +
         between_ranks::cost_of_messages(ranks - 1, {detail::bytes_of<std::int64_t>(numbers), bytes});
}
/// `all_gather`, where they are those of one rank's value, and `all_to_all`, where they are those of the sequences from
/// one rank to another. Without sequences both are 0: then a rank only says that it has memory for what comes.
[[nodiscard]] inline Cost cost_of_all_to_all(int ranks, std::int64_t numbers, std::int64_t bytes,
                                             int two_steps_from = default_two_steps_from) noexcept {
  return cost_of_agreement(ranks, two_steps_from) +
         between_ranks::cost_of_blocks(ranks, {sizeof(std::int64_t), detail::bytes_of<std::int64_t>(numbers), bytes},
                                       two_steps_from);
}
[[nodiscard]] inline Cost cost_of_all_gather(int ranks, std::int64_t numbers, std::int64_t bytes,
                                             int two_steps_from = default_two_steps_from) noexcept {
  return cost_of_all_to_all(ranks, numbers, bytes, two_steps_from);
}
/// `all_reduce` of a tensor of `bytes`, of which each rank adds up an even share; without `fixed_tree`.
[[nodiscard]] inline Cost cost_of_all_reduce(int ranks, std::int64_t bytes,
                                             int two_steps_from = default_two_steps_from) noexcept {
  const std::int64_t share = bytes / ranks;
  return cost_of_agreement(ranks, two_steps_from) + between_ranks::cost_of_blocks(ranks, {share}, two_steps_from) +
         between_ranks::cost_of_blocks(ranks, {sizeof(std::int64_t), share}, two_steps_from);
}
/// `all_reduce` of row-sparse values: each rank has `merged` different ids and the sum `sum` ones, of rows of
/// `row_bytes`; each rank owns an even share of both. Without `fixed_tree`.
[[nodiscard]] inline Cost cost_of_all_reduce_rows(int ranks, std::int64_t merged, std::int64_t sum,
                                                  std::int64_t row_bytes,
                                                  int two_steps_from = default_two_steps_from) noexcept {
  const auto rows = [&](std::int64_t count) {
    return between_ranks::cost_of_blocks(ranks, {detail::bytes_of<std::int64_t>(count), count * row_bytes},
                                         two_steps_from);
  };
  const auto numbers = [&](std::int64_t count) {
    return between_ranks::cost_of_blocks(ranks, {detail::bytes_of<std::int64_t>(count)}, two_steps_from);
  };
  return cost_of_agreement(ranks, two_steps_from) + numbers(1) + rows(merged / ranks) + numbers(2) + rows(sum / ranks);
}
/// @}

/// The fewest ranks of which a network exchanges sizes in two steps in less time than directly, for
/// `CommunicatorOptions`: where latency is small beside the overhead of a message, few.
[[nodiscard]] inline int two_steps_from(const Network& network) noexcept {
  constexpr int most = 1 << 20;
  int ranks = 4;
  while (ranks < most &&
         network.seconds(cost_of_agreement(ranks, 2)) >= network.seconds(cost_of_agreement(ranks, most + 1))) {
    ++ranks;
  }
  return ranks;
}

}  // namespace lod::inline LOD_INTERFACE::mpi::inline LOD_TARGET
