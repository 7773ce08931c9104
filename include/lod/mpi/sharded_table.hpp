// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup ranks
/// A tall embedding whose rows are shared out over ranks: looked up, pooled and trained where they are.
///
///     const lod::mpi::Communicator ranks(MPI_COMM_WORLD);
///     lod::mpi::ShardedTable<float, lod::UniformRow> words(ranks, {64}, {.fixed_order = true});
///     for (const Batch& batch : my_batches) {
///       const auto x = words.look_up(batch.ids);                    // LoD of the ids, rows {64}
///       const auto dx = my_gradient(x, batch);
///       words.adagrad(words.gradient(dx, batch.ids), {.learning_rate = 0.1});
///     }
///     lod::mpi::save("words.lod", words);              // <lod/mpi_files.hpp>; any number of ranks may load it
#pragma once

#include <lod/core/lifetime.hpp>
#include <lod/core/lod_tensor.hpp>
#include <lod/core/lod_view.hpp>
#include <lod/core/selected_rows.hpp>
#include <lod/core/shape.hpp>
#include <lod/core/target.hpp>
#include <lod/mpi/agreement.hpp>
#include <lod/mpi/communicator.hpp>
#include <lod/mpi/messages.hpp>
#include <lod/mpi/table_look_up.hpp>
#include <lod/mpi/table_pool.hpp>
#include <lod/mpi/table_shard.hpp>
#include <lod/mpi/table_update.hpp>
#include <lod/ops/embedding.hpp>
#include <lod/ops/embedding_pool.hpp>
#include <lod/ops/optimizer_options.hpp>
#include <lod/ops/sequence_pool.hpp>
#include <lod/ops/sparse_table.hpp>

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace lod::inline LOD_INTERFACE::mpi::inline LOD_TARGET {

template <class T, class Initialize>
class ShardedTable;

}  // namespace lod::inline LOD_INTERFACE::mpi::inline LOD_TARGET

namespace lod::inline LOD_INTERFACE::between_ranks::inline LOD_TARGET {

template <class T, class Initialize>
Shard<T, Initialize>& shard_of(mpi::ShardedTable<T, Initialize>& table) noexcept;

}  // namespace lod::inline LOD_INTERFACE::between_ranks::inline LOD_TARGET

namespace lod::inline LOD_INTERFACE::mpi::inline LOD_TARGET {

/// Rows of one shape for ids from 0 on, each on one of the ranks. A row is there once its id has been looked up or has
/// had a gradient; until then it has the values that initialize(id, row) writes into it, as for a SparseTable. These
/// must be the same on all ranks: `ZeroRow` and `UniformRow` are, since they depend on nothing but the id and the seed.
/// So it does not depend on the number of ranks which values a row has.
///
/// Members are collective, except where their comments say that they are not: all ranks must call them, in the same
/// order. A rank may pass no ids, and a gradient without rows. Each member begins with one collective of MPI, for
/// sizes; messages follow, in two rounds at most: ids, and then rows; or ids with rows, and then only whether they
/// could be taken. Where it throws on one rank, it throws on all of them in the same call, as all of lod::mpi does, and
/// the table is as before: no row has been added. Only memory for a result may run out later than that, on a rank that
/// throws alone.
///
/// T is float16, bfloat16, float or double. Moved, not copied.
template <class T, class Initialize = ZeroRow>
class ShardedTable {
  static_assert(op::sgd::includes<T>, "a ShardedTable holds floating-point numbers: float16, bfloat16, float, double");
  using Shard = between_ranks::Shard<T, Initialize>;

 public:
  using value_type = T;  ///< the type of the elements

  /// No rows so far. Throws std::invalid_argument for a division BY_RANGE without a height, ShapeMismatch for a
  /// negative height; ShapeMismatch or RankError unless all ranks have the same options. One collective.
  ShardedTable(const Communicator& communicator, const Shape& row_shape, const ShardedTableOptions& options = {},
               const Initialize& initialize = Initialize())
      : shard_(agreed(communicator, row_shape, options, initialize)) {}
  ShardedTable(const ShardedTable&) = delete;
  ShardedTable(ShardedTable&&) = default;
  ShardedTable& operator=(const ShardedTable&) = delete;
  ShardedTable& operator=(ShardedTable&&) = default;
  ~ShardedTable() = default;

  /// The ids are 0 to height() - 1; for a table of any number of rows, the greatest number that 64 bits count. What
  /// gradients of this table have as their height.
  std::int64_t height() const noexcept { return shard_.options.height; }
  /// The shape of a row.
  Shape row_shape() const noexcept { return shard_.rows.row_shape(); }
  /// The rank that has the row of an id, which must be from 0 to height() - 1. Not collective.
  int owner(std::int64_t id) const noexcept { return static_cast<int>(shard_.owner(id)); }

  /// @{
  /// This rank's rows: how many there are, their ids in the order in which they were added, and {local_size(), row
  /// shape...}, valid until a member is called that is not const. Not collective.
  std::int64_t local_size() const noexcept { return shard_.rows.size(); }
  const std::vector<std::int64_t>& local_ids() const noexcept LOD_LIFETIMEBOUND { return shard_.rows.ids(); }
  LoDTensorView<const T> local_rows() const noexcept LOD_LIFETIMEBOUND { return shard_.rows.value(); }
  /// @}
  /// How many rows each rank has. One collective.
  std::vector<std::int64_t> sizes() const {
    auto& group = between_ranks::group_of(shard_.communicator);
    between_ranks::Agreement agreement(group, between_ranks::Operation::TABLE_SIZES);
    agreement.prepare([&] {
      between_ranks::Header header = shard_.header();
      header.rows = local_size();
      agreement.to_all(header);
    });
    agreement.exchange_and_check();
    between_ranks::check_tables(agreement, group.size);
    std::vector<std::int64_t> all;
    for (int rank = 0; rank < group.size; ++rank) all.push_back(agreement.from(rank).rows);
    return all;
  }

  /// The rows of the ids, as `embedding` gives them: the LoD of the ids, rows of the shape {ids' row shape..., row
  /// shape...}; zeros for padding. Ids are int64, different ones on each rank, of any levels. Each distinct id is sent
  /// once, to the rank that has its row, and its row comes back once, however often a rank has it in its batch.
  ///
  /// Missing rows are added, or, if options.grow is false, only computed; options.grow is the same on all ranks.
  ///
  /// Throws OutOfRange for an id that is neither padding nor from 0 to height() - 1 and where a rank would have more
  /// than `most_rows`, std::invalid_argument if `y` overlaps the ids, RankError for a different options.grow.
  template <LoDTensorLike Ids>
  void look_up_into(const Ids& ids, const EmbeddingOptions& padding, const SparseTableOptions& options,
                    LoDTensor<T>& y) {
    between_ranks::run(between_ranks::LookingUp<Shard>(shard_, ids.view(), padding, options, y));
  }
  template <LoDTensorLike Ids>
  [[nodiscard]] LoDTensor<T> look_up(const Ids& ids, const EmbeddingOptions& padding = {},
                                     const SparseTableOptions& options = {}) {
    LoDTensor<T> y(shard_.communicator.executor().resource());
    look_up_into(ids, padding, options, y);
    return y;
  }

  /// The rows of the ids pooled, as `embedding_pool` gives them: one row for each sequence of `pooling.level` of the
  /// ids. Missing rows are added, and what is wrong is thrown, as by `look_up`; InvalidLoD, OutOfRange and
  /// ShapeMismatch also as by `embedding_pool`.
  ///
  /// Rows come once each, as in `look_up`, and are pooled here, with the bits of `embedding_pool`. Except for SUM,
  /// AVERAGE and SQRT without weights, of float or double, in a table without `fixed_order`: then a rank may send one
  /// sum for each sequence that has rows on it. It does so where that takes fewer bytes, ids included; and either way
  /// the sum of a sequence is the sum over ranks, in their order, of the sums of those of its rows that they have, so
  /// that its bits depend on the number of ranks, but not on what was sent. For AVERAGE and SQRT it is then divided.
  /// On one rank that is the order of `embedding_pool` again.
  template <LoDTensorLike Ids>
  void pool_into(const Ids& ids, PoolType type, const EmbeddingPoolOptions<T>& pooling,
                 const SparseTableOptions& options, LoDTensor<T>& y) {
    using Parts = between_ranks::PoolingParts<Shard>;
    if (!shard_.options.fixed_order && shard_.communicator.size() > 1 && Parts::fits(type, pooling)) {
      between_ranks::run(Parts(shard_, ids.view(), type, pooling, options, y));
    } else {
      between_ranks::run(between_ranks::PoolingRows<Shard>(shard_, ids.view(), type, pooling, options, y));
    }
  }
  template <LoDTensorLike Ids>
  [[nodiscard]] LoDTensor<T> pool(const Ids& ids, PoolType type, const EmbeddingPoolOptions<T>& pooling = {},
                                  const SparseTableOptions& options = {}) {
    LoDTensor<T> y(shard_.communicator.executor().resource());
    pool_into(ids, type, pooling, options, y);
    return y;
  }

  /// @{
  /// The gradients of `look_up` and `pool`, for the optimizers: `embedding_grad` and `embedding_pool_grad` of this
  /// rank's batch, with the height of the table. Not collective: what they throw is thrown on this rank only, so call
  /// them in `together` where it may be.
  template <LoDTensorLike DY, LoDTensorLike Ids>
  [[nodiscard]] SelectedRows<T> gradient(const DY& dy, const Ids& ids, const EmbeddingOptions& padding = {}) const {
    return embedding_grad(shard_.communicator.executor(), dy, ids, height(), padding);
  }
  template <LoDTensorLike DY, LoDTensorLike Ids>
  [[nodiscard]] SelectedRows<T> pool_gradient(const DY& dy, const Ids& ids, PoolType type,
                                              const EmbeddingPoolOptions<T>& pooling = {}) const {
    return embedding_pool_grad(shard_.communicator.executor(), dy, ids, height(), type, pooling);
  }
  /// @}

  /// @{
  /// One step of an optimizer by the sum of all ranks' gradients, each of this table's height and row shape, its ids in
  /// any order, repeated or not. Each rank sends the rows to the ranks that have these rows of the table; there the
  /// optimizer of the same name updates them, and its states, which are kept beside the rows: zero at first, float for
  /// rows of 16 bits. Missing rows are added. In the mode EXACT, rows without a gradient are updated too, as far as
  /// they are there.
  ///
  /// The bits are those of one process that merges the gradients of the ranks in their order, merge_add(g0, g1, ...)
  /// where each of them is a merge_add itself, and takes the step by that. With `fixed_order`, rows are not merged
  /// before they are sent, and the sum is that of merge_add of all ranks' rows, by rank and then by place: so, where
  /// ranks have consecutive parts of one batch, the same on any number of ranks.
  ///
  /// Throws ShapeMismatch for a gradient of another height or row shape, what the optimizer throws for its options,
  /// RankError unless these are the same on all ranks, std::invalid_argument where the table has the states of another
  /// optimizer, OutOfRange where a rank would have more than `most_rows`.
  void sgd(const SelectedRows<T>& gradient, const SgdOptions& options) { update(gradient, options); }
  void momentum(const SelectedRows<T>& gradient, const MomentumOptions& options) { update(gradient, options); }
  void adagrad(const SelectedRows<T>& gradient, const AdagradOptions& options) { update(gradient, options); }
  void rmsprop(const SelectedRows<T>& gradient, const RmspropOptions& options) { update(gradient, options); }
  void adam(const SelectedRows<T>& gradient, const AdamOptions& options) { update(gradient, options); }
  void ftrl(const SelectedRows<T>& gradient, const FtrlOptions& options) { update(gradient, options); }
  /// @}

 private:
  friend Shard& between_ranks::shard_of<T, Initialize>(ShardedTable& table) noexcept;

  static Shard agreed(const Communicator& communicator, const Shape& row_shape, const ShardedTableOptions& options,
                      const Initialize& initialize) {
    auto& group = between_ranks::group_of(communicator);
    between_ranks::Agreement agreement(group, between_ranks::Operation::TABLE);
    std::optional<Shard> shard;
    agreement.prepare([&] {
      shard.emplace(communicator, row_shape, options, agreement.tag(), initialize);
      between_ranks::Header header = shard->header();
      header.samples[0] = static_cast<std::int64_t>(options.division);
      header.samples[1] = options.fixed_order ? 1 : 0;
      agreement.to_all(header);
    });
    agreement.exchange_and_check();
    between_ranks::check_tables(agreement, group.size);
    between_ranks::check_same(agreement, group.size, 0, 2, "the division, or fixed_order,");
    return std::move(*shard);
  }
  template <class Options>
  void update(const SelectedRows<T>& gradient, const Options& options) {
    between_ranks::run(between_ranks::Updating<Shard, Options>(shard_, gradient, options));
  }

  Shard shard_;
};

}  // namespace lod::inline LOD_INTERFACE::mpi::inline LOD_TARGET

namespace lod::inline LOD_INTERFACE::between_ranks::inline LOD_TARGET {

template <class T, class Initialize>
Shard<T, Initialize>& shard_of(mpi::ShardedTable<T, Initialize>& table) noexcept {
  return table.shard_;
}

}  // namespace lod::inline LOD_INTERFACE::between_ranks::inline LOD_TARGET
