// SPDX-License-Identifier: Apache-2.0
/// @file
/// Rows of a sharded table that are pooled as they are looked up: by those who look them up, or first by the ranks that
/// have them.
#pragma once

#include <lod/core/lod_index.hpp>
#include <lod/core/lod_tensor.hpp>
#include <lod/core/lod_view.hpp>
#include <lod/core/scalar.hpp>
#include <lod/core/sizes.hpp>
#include <lod/core/target.hpp>
#include <lod/mpi/agreement.hpp>
#include <lod/mpi/table_look_up.hpp>
#include <lod/mpi/table_shard.hpp>
#include <lod/ops/embedding_pool.hpp>
#include <lod/ops/kernel.hpp>
#include <lod/ops/output.hpp>
#include <lod/ops/sequence_pool.hpp>
#include <lod/ops/sparse_table.hpp>
#include <lod/ops/staging.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

namespace lod::inline LOD_INTERFACE::between_ranks::inline LOD_TARGET {

/// Rows come once each, and are pooled as `embedding_pool` does.
template <class Shard>
class PoolingRows : public FetchingRows<Shard> {
 protected:
  using T = typename Shard::Value;

 public:
  PoolingRows(Shard& shard, const LoDTensorView<const std::int64_t>& ids, PoolType type,
              const EmbeddingPoolOptions<T>& pooling, const SparseTableOptions& options, LoDTensor<T>& y)
      : FetchingRows<Shard>(shard, Operation::TABLE_POOL, ids, operation::padding_of(pooling), options, y),
        type_(type),
        pooling_(pooling) {}

 protected:
  std::vector<Request> plan() override {
    operation::check_pool_type(type_, this->what());
    segments_ = operation::check_embedding_pool(this->executor(), this->ids_, pooling_, this->what());
    static_cast<void>(detail::checked<T>(pooling_.pad_value, this->what(), "pad_value"));
    operation::check_apart(this->what(), *this->y_, {{"weights", pooling_.weights}});
    return FetchingRows<Shard>::plan();
  }
  void prepare() override {
    FetchingRows<Shard>::prepare();
    prepare_output();
  }
  void finish() override {
    EmbeddingPoolOptions<T> of_places = pooling_;
    of_places.padding_idx = -1;
    of_places.skip_minus_one = this->padding_.any();
    const LoDTensorView<const std::int64_t> places(this->places_.data(), this->ids_.lod_view(), &this->ids_.row_shape(),
                                                   1);
    embedding_pool_into(this->executor(), std::as_const(this->received_), places, type_, of_places, this->next_.view());
    *this->y_ = std::move(this->next_);
  }

  void prepare_output() {
    const LoDView& levels = this->ids_.lod_view();
    const int level = detail::resolve_level(pooling_.level, levels.levels(), this->what());
    const operation::LevelsAbove above{levels, level};
    this->next_ = this->output(above.make(), above.rows());
  }

  PoolType type_;
  EmbeddingPoolOptions<T> pooling_;
  kernel::Segments segments_;  // that are pooled
};

/// Each rank's rows of a sequence are added up first, where they are if less is sent then; the sums are added up in the
/// order of ranks. Both ways give the same bits.
template <class Shard>
class PoolingParts final : public PoolingRows<Shard> {
  using T = typename Shard::Value;

 public:
  using PoolingRows<Shard>::PoolingRows;

  static bool fits(PoolType type, const EmbeddingPoolOptions<T>& pooling) noexcept {
    const bool is_sum = type == PoolType::SUM || type == PoolType::AVERAGE || type == PoolType::SQRT;
    // Sums of 16 bits would be rounded once more.
    return is_sum && !pooling.weights && std::is_same_v<T, kernel::Accumulator<T>>;
  }

 protected:
  std::vector<Request> plan() override {
    auto requests = PoolingRows<Shard>::plan();
    const int ranks = this->group.size;
    const PartBegins rows(ranks, [&](int rank) { return requests[index(rank)].count(); });
    parts_.resize(requests.size());
    kept_.assign(1, 0);
    for (std::int64_t sequence = 0; sequence < this->segments_.size; ++sequence) {
      const std::int64_t begin = this->segments_.begin(sequence), end = begin + this->segments_.length(sequence);
      kept_.push_back(kept_.back());
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t place = this->places_[index(i)], id = this->ids_.data()[i];
        if (place < 0) continue;
        ++kept_.back();
        const auto owner = static_cast<int>(this->shard_.owner(id));
        parts_[index(owner)].add(sequence, id, place - rows.begin(owner));
      }
    }
    for (int rank = 0; rank < ranks; ++rank) {
      Parts& parts = parts_[index(rank)];
      Request& request = requests[index(rank)];
      const std::int64_t count = static_cast<std::int64_t>(parts.all.ids.size()), sums = parts.all.sequences();
      const std::int64_t row = this->row_bytes(), id = sizeof(std::int64_t);
      const std::int64_t as_sums = detail::saturated_sum((count + sums) * id, detail::saturated_product(sums, row));
      const std::int64_t as_rows = detail::saturated_product(request.count(), detail::saturated_sum(id, row));
      parts.all.pooled = rank == this->group.rank || as_sums < as_rows;
      if (parts.all.pooled) request = parts.all;
    }
    return requests;
  }
  void prepare() override {
    const int ranks = this->group.size;
    part_begins_ = PartBegins(ranks, [&](int rank) { return parts_[index(rank)].all.sequences(); });
    this->begins_ = PartBegins(ranks, [&](int rank) { return is_pooled(rank) ? 0 : this->request(rank).count(); });
    this->received_ = this->new_rows(this->begins_.total());
    sums_ = this->new_rows(part_begins_.total());
    this->prepare_output();
    // Which sums each sequence has.
    std::vector<std::int64_t> lengths(kept_.size() - 1);
    for (const Parts& parts : parts_) {
      for (const std::int64_t sequence : parts.sequences) ++lengths[index(sequence)];
    }
    sums_of_ = LoD::from_lengths({lengths});
    std::vector<std::int64_t> next(sums_of_.offsets(0).begin(), sums_of_.offsets(0).end());
    order_.resize(index(part_begins_.total()));
    std::int64_t number = 0;
    for (const Parts& parts : parts_) {
      for (const std::int64_t sequence : parts.sequences) order_[index(next[index(sequence)]++)] = number++;
    }
  }
  T* place_of(int rank) override { return is_pooled(rank) ? sums_of(rank) : FetchingRows<Shard>::place_of(rank); }
  void finish() override {
    for (int rank = 0; rank < this->group.size; ++rank) {
      if (is_pooled(rank)) continue;
      const Parts& parts = parts_[index(rank)];
      const auto rows = this->rows_at(FetchingRows<Shard>::place_of(rank), this->request(rank).count());
      this->pool_rows(rows, parts.places.data(), parts.all.lengths, sums_of(rank));
    }
    const auto size = static_cast<std::int64_t>(kept_.size()) - 1;
    T* const y = this->next_.data();
    embedding_pool_into(this->executor(), std::as_const(sums_), this->plain_ids(order_.data(), sums_of_.view()),
                        PoolType::SUM, EmbeddingPoolOptions<T>{.pad_value = this->pooling_.pad_value},
                        this->rows_at(y, size));
    if (this->type_ != PoolType::SUM) {
      const kernel::Segments kept(kept_.data(), size, this->segments_.max_rows);
      launch(kernel::DividePooled(), this->executor(), static_cast<const T*>(y), kept, sums_.row_size(), this->type_,
             y);
    }
    *this->y_ = std::move(this->next_);
  }

 private:
  /// What sequences have on one rank.
  struct Parts {
    Request all;                          // without distinction
    std::vector<std::int64_t> places;     // of these ids among the rank's rows
    std::vector<std::int64_t> sequences;  // that have any

    void add(std::int64_t sequence, std::int64_t id, std::int64_t place) {
      if (sequences.empty() || sequences.back() != sequence) {
        sequences.push_back(sequence);
        all.lengths.push_back(0);
      }
      ++all.lengths.back();
      all.ids.push_back(id);
      places.push_back(place);
    }
  };

  static std::size_t index(std::int64_t i) noexcept { return static_cast<std::size_t>(i); }
  bool is_pooled(int rank) const noexcept { return parts_[index(rank)].all.pooled; }
  T* sums_of(int rank) noexcept { return sums_.data() + part_begins_.begin(rank) * sums_.row_size(); }

  std::vector<Parts> parts_;        // of each rank
  std::vector<std::int64_t> kept_;  // offsets of the sequences without padding
  PartBegins part_begins_{1};
  LoDTensor<T> sums_;                // of each rank's parts
  LoD sums_of_;                      // those of each sequence
  std::vector<std::int64_t> order_;  // by which they are found
};

}  // namespace lod::inline LOD_INTERFACE::between_ranks::inline LOD_TARGET
