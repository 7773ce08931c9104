// SPDX-License-Identifier: Apache-2.0
/// @file
/// The part of a sharded table that one rank has: its rows, the optimizer's states of these, and which rank has which
/// other ones. What the collective operations on it have in common.
#pragma once

#include <lod/core/error.hpp>
#include <lod/core/keyed_hash.hpp>
#include <lod/core/lod_tensor.hpp>
#include <lod/core/selected_rows.hpp>
#include <lod/core/shape.hpp>
#include <lod/core/sizes.hpp>
#include <lod/core/target.hpp>
#include <lod/mpi/agreement.hpp>
#include <lod/mpi/carried.hpp>
#include <lod/mpi/communicator.hpp>
#include <lod/mpi/exchange.hpp>
#include <lod/mpi/messages.hpp>
#include <lod/ops/kernel.hpp>
#include <lod/ops/sparse_table.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <iterator>
#include <limits>
#include <memory_resource>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace lod::inline LOD_INTERFACE::mpi {

/// Which rank has the row of an id.
enum class Division {
  BY_RANGE,  ///< consecutive ids, as many for each rank, as far as they go; for a table with a height
  BY_HASH,   ///< as a hash says: about as many for each rank, also where most ids are small. It has no secret: whoever
             ///< chooses ids can choose those of one rank
};

/// The options of a ShardedTable. The same on all ranks, but for `most_rows`.
struct ShardedTableOptions {
  static constexpr std::int64_t any_number = std::numeric_limits<std::int64_t>::max();

  /// Ids are 0 to height - 1. By default any that are not negative.
  std::int64_t height = any_number;
  Division division = Division::BY_HASH;
  /// How many rows this rank may have, so that ids from outside cannot use up the memory.
  std::int64_t most_rows = any_number;
  /// Whether sums are added up in one order on any number of ranks: that of one process which has the ranks' batches
  /// one after the other. More is sent then: gradients unmerged, and no pooled rows. See `pool` and the optimizers.
  bool fixed_order = false;
};

}  // namespace lod::inline LOD_INTERFACE::mpi

namespace lod::inline LOD_INTERFACE::between_ranks::inline LOD_TARGET {

/// Ids without repetition, in the order in which they occur first: a table whose rows have no elements.
class Distinct {
 public:
  explicit Distinct(std::span<const std::int64_t> ids)
      : table_({0}, static_cast<std::int64_t>(ids.size())), places_(table_.positions(ids)) {}

  std::span<const std::int64_t> ids() const noexcept { return table_.ids(); }
  std::int64_t size() const noexcept { return table_.size(); }
  /// For each of the given ids its place among these.
  std::span<const std::int64_t> places() const noexcept { return places_.values(); }

 private:
  SparseTable<std::byte> table_;
  LoDTensor<std::int64_t> places_;
};

/// A rank's part of a table.
template <class T, class Initialize>
class Shard {
 public:
  using Value = T;
  using State = kernel::Accumulator<T>;  ///< 16-bit rows have states of 32 bits

  Shard(const mpi::Communicator& of, const Shape& row_shape, const mpi::ShardedTableOptions& with, int its_number,
        const Initialize& initialize)
      : communicator(of),
        options(with),
        number(its_number),
        rows(row_shape, 0, initialize, of.executor().resource()),
        initialize_(initialize) {
    detail::check_height(options.height, "ShardedTable");
    if (options.division == mpi::Division::BY_RANGE && options.height == mpi::ShardedTableOptions::any_number) {
      throw std::invalid_argument("ShardedTable: a division BY_RANGE of any number of ids, expected a height");
    }
    if (options.division != mpi::Division::BY_RANGE && options.division != mpi::Division::BY_HASH) {
      throw OutOfRange(detail::text(
          {"ShardedTable: Division ", static_cast<int>(options.division), ", expected BY_RANGE or BY_HASH"}));
    }
  }

  /// The same part as it was at first.
  Shard without_rows() const { return Shard(communicator, rows.row_shape(), options, number, initialize_); }

  /// What all ranks must have in common, as a header of rows.
  Header header() const noexcept {
    Header header;
    header.kind = static_cast<std::int64_t>(Kind::ROWS);
    header.type = type_of<T>();
    header.height = options.height;
    header.tag = number;
    set_row_shape(header, rows.row_shape());
    return header;
  }

  /// The rank that has the row of an id, which must be below the height and not negative.
  std::int64_t owner(std::int64_t id) const noexcept {
    const std::int64_t ranks = communicator.size();
    if (options.division == mpi::Division::BY_RANGE) return id / ((options.height - 1) / ranks + 1);
    // Another hash than that of the index of rows, in which a rank's ids would then be neighbours.
    constexpr detail::HashKey key(0x243F6A8885A308D3, 0x13198A2E03707345, 0xA4093822299F31D1);
    const auto hash = static_cast<detail::UnsignedInt128>(key.of(static_cast<std::uint64_t>(id)));
    return static_cast<std::int64_t>(hash * static_cast<std::uint64_t>(ranks) >> 64);
  }
  std::vector<std::int64_t> owners(std::span<const std::int64_t> ids) const {
    std::vector<std::int64_t> all(ids.size());
    std::transform(ids.begin(), ids.end(), all.begin(), [this](std::int64_t id) { return owner(id); });
    return all;
  }

  /// The rows of ids that are this rank's; missing ones are added. If it throws, none has been.
  LoDTensor<std::int64_t> positions(std::span<const std::int64_t> ids) {
    std::vector<std::int64_t> missing;
    std::copy_if(ids.begin(), ids.end(), std::back_inserter(missing),
                 [this](std::int64_t id) { return !rows.contains(id); });
    make_room(detail::saturated_sum(rows.size(), Distinct(missing).size()));
    return rows.positions(ids);
  }
  /// Lets every row have `count` states, which are zero for those that have none.
  void prepare_states(std::size_t count) {
    while (states.size() < count) {
      states.emplace_back(Shape(rows.capacity(), rows.row_shape()), communicator.executor().resource());
    }
  }
  /// A state of all rows.
  LoDTensorView<State> state(std::size_t i) noexcept { return states[i].view().between(0, rows.size()); }

  mpi::Communicator communicator;
  mpi::ShardedTableOptions options;
  int number;  ///< of the table among those of its ranks
  SparseTable<T, Cpu, Initialize> rows;
  std::string optimizer;                 ///< whose states these are; empty if there are none
  std::vector<LoDTensor<State>> states;  ///< with room for as many rows

 private:
  void make_room(std::int64_t needed) {
    const std::int64_t capacity = rows.capacity();
    if (needed <= capacity || capacity >= options.most_rows) return;
    // Twice as much, so that rows are seldom moved.
    const std::int64_t twice = detail::saturated_product(capacity, 2);
    const std::int64_t more = std::min(std::max(needed, twice), options.most_rows);
    for (LoDTensor<State>& before : states) {
      LoDTensor<State> after(Shape(more, rows.row_shape()), communicator.executor().resource());
      std::copy_n(before.data(), rows.size() * rows.row_size(), after.data());
      before = std::move(after);
    }
    rows.reserve(more);
  }

  Initialize initialize_;
};

/// Throws on all ranks if they have different tables.
inline void check_tables(const Agreement& agreement, int ranks) {
  const char* const what = agreement.what();
  for (int rank = 0; rank < ranks; ++rank) {
    check_alike(agreement.from(rank), agreement.from(0), of_rank(what, rank));
    if (agreement.from(rank).tag != agreement.from(0).tag) {
      throw mpi::RankError(rank, detail::text({what, ": another table than that of rank 0"}));
    }
  }
}
/// Throws on all ranks where samples [first, first + count) of the headers differ.
inline void check_same(const Agreement& agreement, int ranks, std::size_t first, std::size_t count, const char* which) {
  const std::int64_t* const expected = agreement.from(0).samples + first;
  for (int rank = 1; rank < ranks; ++rank) {
    if (std::equal(expected, expected + count, agreement.from(rank).samples + first)) continue;
    throw mpi::RankError(rank, detail::text({agreement.what(), ": ", which, " differs from that of rank 0"}));
  }
}

/// An operation on a table, which other ranks' failures undo: rows that it adds are there only once it has ended.
template <class Shard>
class TableSteps : public Steps {
 public:
  TableSteps(Shard& shard, Operation operation)
      : Steps(shard.communicator),
        shard_(shard),
        agreement_(group, operation),
        size_before_(shard.rows.size()),
        failed_(static_cast<std::size_t>(group.size)) {}
  ~TableSteps() override {
    if (!kept_) shard_.rows.shrink(size_before_);
  }
  TableSteps(const TableSteps&) = delete;
  TableSteps& operator=(const TableSteps&) = delete;

  bool next() final { return take(step_++); }

 protected:
  /// Takes step 0, then 1, and so on. False after the last one.
  virtual bool take(int step) = 0;

  const CpuExecutor& executor() const noexcept { return group.executor; }
  const char* what() const noexcept { return agreement_.what(); }
  std::int64_t row_bytes() const noexcept { return detail::bytes_of<typename Shard::Value>(shard_.rows.row_size()); }

  /// Calls body(rank) for all ranks but this one.
  template <class Body>
  void for_each_other(const Body& body) const {
    for (int rank = 0; rank < group.size; ++rank) {
      if (rank != group.rank) body(rank);
    }
  }
  /// Calls f(), unless this rank has failed before. What it throws is thrown by `check_told`.
  template <class F>
  void attempt(const F& f) noexcept {
    try {
      if (!error_) f();
    } catch (...) {
      error_ = std::current_exception();
    }
  }
  /// Ranks tell each other whether they have failed; before `check_told`, which needs their messages.
  void tell() {
    std::int64_t& own = failed_[static_cast<std::size_t>(group.rank)];
    own = error_ ? 1 : 0;
    for_each_other([&](int rank) {
      messages.receive(rank, agreement_.tag(), &failed_[static_cast<std::size_t>(rank)], sizeof own);
      messages.send(rank, agreement_.tag(), &own, sizeof own);
    });
  }
  void check_told() {
    if (std::count(failed_.begin(), failed_.end(), 0) == group.size) return;
    throw_together(group, agreement_.tag(), failed_, error_);
  }
  /// Throws what `attempt` has caught.
  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }
  /// Lets rows that were added stay.
  void keep() noexcept { kept_ = true; }
  bool has_failed() const noexcept { return error_ != nullptr; }

  Shard& shard_;
  Agreement agreement_;

 private:
  int step_ = 0;
  std::int64_t size_before_;
  bool kept_ = false;
  std::exception_ptr error_;
  std::vector<std::int64_t> failed_;  // for each rank
};

/// Where the parts for each rank begin, one after the other; and where the last one ends.
class PartBegins {
 public:
  explicit PartBegins(int ranks) : begins_(static_cast<std::size_t>(ranks) + 1) {}
  /// Parts of count(rank) each.
  template <class Count>
  PartBegins(int ranks, const Count& count) : PartBegins(ranks) {
    for (int rank = 0; rank < ranks; ++rank) {
      begins_[static_cast<std::size_t>(rank) + 1] = detail::saturated_sum(begin(rank), count(rank));
    }
  }
  std::int64_t begin(int rank) const noexcept { return begins_[static_cast<std::size_t>(rank)]; }
  std::int64_t end(int rank) const noexcept { return begin(rank + 1); }
  std::int64_t size(int rank) const noexcept { return end(rank) - begin(rank); }
  std::int64_t total() const noexcept { return begins_.back(); }

 private:
  std::vector<std::int64_t> begins_;
};

}  // namespace lod::inline LOD_INTERFACE::between_ranks::inline LOD_TARGET
