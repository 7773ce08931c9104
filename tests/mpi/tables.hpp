// SPDX-License-Identifier: Apache-2.0
/// @file
/// What the cases of sharded tables share: batches of ids, and the table that one process would have.
#pragma once

#include "ranks.hpp"
#include <lod/ops.hpp>

#include <cstdint>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace lod_test {

using IdBatch = lod::LoDTensor<std::int64_t>;
template <class T>
using RandomTable = lod::mpi::ShardedTable<T, lod::UniformRow>;

inline constexpr lod::UniformRow usual_rows{.seed = 7, .limit = 2};

/// The divisions of ids below a height, and of any.
inline std::vector<lod::mpi::ShardedTableOptions> all_divisions(std::int64_t height) {
  return {{.height = height, .division = lod::mpi::Division::BY_RANGE},
          {.height = height, .division = lod::mpi::Division::BY_HASH},
          {}};
}

/// Random ids for each rank: most of them from a few, so that they repeat; some ranks have none, and in every fourth
/// set one has all.
inline std::vector<IdBatch> id_batches(Engine& engine, const lod::mpi::Communicator& ranks, int levels,
                                       std::int64_t height, std::int64_t row_size = 1) {
  auto all = batches<std::int64_t>(engine, ranks, levels, row_size);
  for (IdBatch& batch : all) {
    for (std::int64_t& id : batch.values()) {
      id = random_number(engine, 0,
                         random_number(engine, 0, 1) == 0 ? height - 1 : std::min<std::int64_t>(height, 5) - 1);
    }
  }
  return all;
}

/// The ids of all ranks, one after the other.
inline std::vector<std::int64_t> all_ids(const std::vector<IdBatch>& batches) {
  std::vector<std::int64_t> all;
  for (const IdBatch& batch : batches) all.insert(all.end(), batch.values().begin(), batch.values().end());
  return all;
}

/// The table of one process, with room for enough rows; and the states of an optimizer.
template <class T>
struct WholeTable {
  using State = lod::kernel::Accumulator<T>;
  static constexpr std::int64_t room = 4000;

  lod::SparseTable<T, lod::Cpu, lod::UniformRow> rows;
  lod::LoDTensor<State> first, second;

  explicit WholeTable(const lod::Shape& row_shape)
      : rows(row_shape, room, usual_rows), first(lod::Shape(room, row_shape)), second(lod::Shape(room, row_shape)) {}

  auto first_state() { return first.view().between(0, rows.size()); }
  auto second_state() { return second.view().between(0, rows.size()); }
  /// The same gradient by positions.
  lod::SelectedRows<T> at_positions(const lod::SelectedRows<T>& g) {
    const auto positions = rows.positions(g.rows());
    return {values_of(positions), rows.size(), g.value()};
  }
};

/// Checks that the ranks' parts are those of the table of one process: each row on its owner alone, with the same bits.
template <class T, class Initialize>
void check_parts(const lod::mpi::Communicator& ranks, const lod::mpi::ShardedTable<T, Initialize>& table,
                 const lod::SparseTable<T, lod::Cpu, lod::UniformRow>& whole) {
  const auto sizes = table.sizes();
  CHECK(std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0}) == whole.size());
  CHECK(sizes[static_cast<std::size_t>(ranks.rank())] == table.local_size());
  for (const std::int64_t id : table.local_ids()) {
    CHECK(table.owner(id) == ranks.rank());
    CHECK(whole.contains(id));
  }
  const auto expected = whole.get(table.local_ids());
  CHECK(same_bits(table.local_rows(), expected));
}

}  // namespace lod_test
