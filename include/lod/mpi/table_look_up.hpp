// SPDX-License-Identifier: Apache-2.0
/// @file
/// How rows of a sharded table come to those who look them up: ids go to the ranks that have the rows, and the rows
/// come back, each once, or the sums of rows that one sequence has there.
#pragma once

#include <lod/core/lod_index.hpp>
#include <lod/core/lod_tensor.hpp>
#include <lod/core/lod_view.hpp>
#include <lod/core/selected_rows.hpp>
#include <lod/core/shape.hpp>
#include <lod/core/sizes.hpp>
#include <lod/core/target.hpp>
#include <lod/mpi/agreement.hpp>
#include <lod/mpi/all_to_all.hpp>
#include <lod/mpi/messages.hpp>
#include <lod/mpi/table_shard.hpp>
#include <lod/ops/checked_ids.hpp>
#include <lod/ops/embedding.hpp>
#include <lod/ops/embedding_pool.hpp>
#include <lod/ops/output.hpp>
#include <lod/ops/sequence_pool.hpp>
#include <lod/ops/sparse_table.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory_resource>
#include <span>
#include <utility>
#include <vector>

namespace lod::inline LOD_INTERFACE::between_ranks::inline LOD_TARGET {

/// What a rank wants of another one.
struct Request {
  std::vector<std::int64_t> ids;
  /// Where rows are pooled before they are sent: how many of these ids each sequence has.
  std::vector<std::int64_t> lengths;
  bool pooled = false;

  std::int64_t count() const noexcept { return static_cast<std::int64_t>(ids.size()); }
  std::int64_t sequences() const noexcept { return static_cast<std::int64_t>(lengths.size()); }
  /// The rows that come back.
  std::int64_t rows() const noexcept { return pooled ? sequences() : count(); }
};

/// Ids of a batch, without repetition and padding, sorted by the ranks that have their rows.
class RequestedIds {
 public:
  /// Throws OutOfRange for an id that is neither below the height nor padding.
  template <class Shard>
  RequestedIds(const Shard& shard, std::span<const std::int64_t> ids, const kernel::PaddingIds& padding,
               const char* what)
      : places_(ids.size(), std::int64_t{-1}) {
    detail::check_row_ids(ids, shard.options.height, what, padding.least());
    std::vector<std::int64_t> kept;
    if (padding.any()) {
      std::copy_if(ids.begin(), ids.end(), std::back_inserter(kept),
                   [&](std::int64_t id) { return !padding.contains(id); });
    }
    const Distinct distinct(padding.any() ? std::span<const std::int64_t>(kept) : ids);
    const int ranks = shard.communicator.size();
    const auto owners = shard.owners(distinct.ids());
    const Sorted sorted(owners, distinct.size(), ranks, what);
    // The place of each distinct id in the order of owners.
    std::vector<std::int64_t> place(distinct.ids().size());
    requests_.resize(static_cast<std::size_t>(ranks));
    for (int rank = 0; rank < ranks; ++rank) {
      requests_[static_cast<std::size_t>(rank)].ids.reserve(static_cast<std::size_t>(sorted.size(rank)));
    }
    sorted.for_each([&](std::int64_t number, std::size_t rank, std::int64_t at) {
      place[static_cast<std::size_t>(number)] = at;
      requests_[rank].ids.push_back(distinct.ids()[static_cast<std::size_t>(number)]);
    });
    std::size_t next = 0;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (padding.any() && padding.contains(ids[i])) continue;
      places_[i] = place[static_cast<std::size_t>(distinct.places()[next++])];
    }
  }

  /// For each id given its place among all that are requested, by owners; -1 for padding.
  std::vector<std::int64_t>& places() noexcept { return places_; }
  /// The ids of each rank's rows.
  std::vector<Request>& requests() noexcept { return requests_; }

 private:
  std::vector<std::int64_t> places_;
  std::vector<Request> requests_;
};

/// The exchange: one collective with sizes, ids, rows. What is requested, and where it arrives, is of derived classes.
template <class Shard>
class Fetching : public TableSteps<Shard> {
  using T = typename Shard::Value;

 public:
  Fetching(Shard& shard, Operation operation, const SparseTableOptions& options)
      : TableSteps<Shard>(shard, operation), options_(options) {}

 protected:
  /// Throws what is wrong with the arguments; for each rank what is wanted of it.
  virtual std::vector<Request> plan() = 0;
  /// Takes memory for what arrives and for the output.
  virtual void prepare() = 0;
  /// Where the rows of a rank arrive.
  virtual T* place_of(int rank) = 0;
  /// All have arrived.
  virtual void finish() = 0;

  const Request& request(int rank) const noexcept { return requests_[static_cast<std::size_t>(rank)]; }
  LoDTensor<T> new_rows(std::int64_t count) const {
    return {Shape(count, this->shard_.rows.row_shape()), uninitialized, this->executor().resource()};
  }
  /// Rows that lie somewhere, and ids with levels.
  LoDTensorView<T> rows_at(T* first, std::int64_t rows) const noexcept {
    return {first, LoDView::plain(0, rows), &this->shard_.rows.row_shape(), this->shard_.rows.row_size()};
  }
  static LoDTensorView<const std::int64_t> plain_ids(const std::int64_t* first, const LoDView& levels) noexcept {
    static constexpr Shape scalar_row{};
    return {first, levels, &scalar_row, 1};
  }

 private:
  bool take(int step) final {
    if (step == 0) agree();
    if (step == 1) send_ids();
    if (step == 2) send_rows();
    if (step < 3) return true;
    this->check_told();
    finish();
    if (options_.grow) this->keep();
    return false;
  }
  void agree() {
    this->agreement_.prepare([&] {
      requests_ = plan();
      for (int rank = 0; rank < this->group.size; ++rank) {
        Header header = this->shard_.header();
        header.numbers = request(rank).count();
        header.samples[0] = request(rank).pooled ? 1 : 0;
        header.samples[1] = request(rank).sequences();
        header.samples[2] = options_.grow ? 1 : 0;
        this->agreement_.tell(rank, header);
      }
    });
    this->agreement_.exchange(this->messages);
  }
  void send_ids() {
    this->agreement_.check();
    check_tables(this->agreement_, this->group.size);
    check_same(this->agreement_, this->group.size, 2, 1, "the option grow");
    this->attempt([&] {
      const int ranks = this->group.size;
      id_begins_ = PartBegins(ranks, [&](int rank) { return asked(rank).numbers; });
      length_begins_ = PartBegins(ranks, [&](int rank) { return asked(rank).samples[1]; });
      row_begins_ = PartBegins(ranks, [&](int rank) { return rank == this->group.rank ? 0 : rows_for(rank); });
      ids_.resize(detail::checked_count<std::int64_t>(id_begins_.total(), this->what()));
      lengths_.resize(detail::checked_count<std::int64_t>(length_begins_.total(), this->what()));
      const Request& own = request(this->group.rank);
      std::copy(own.ids.begin(), own.ids.end(), ids_.begin() + id_begins_.begin(this->group.rank));
      std::copy(own.lengths.begin(), own.lengths.end(), lengths_.begin() + length_begins_.begin(this->group.rank));
    });
    const int tag = this->agreement_.tag();
    this->for_each_other([&](int rank) {
      const bool failed = this->has_failed();
      std::int64_t* const ids = failed ? nullptr : ids_.data() + id_begins_.begin(rank);
      std::int64_t* const lengths = failed ? nullptr : lengths_.data() + length_begins_.begin(rank);
      this->messages.receive(rank, tag, ids, detail::bytes_of<std::int64_t>(asked(rank).numbers));
      this->messages.receive(rank, tag, lengths, detail::bytes_of<std::int64_t>(asked(rank).samples[1]));
      this->messages.send(rank, tag, request(rank).ids.data(), detail::bytes_of<std::int64_t>(request(rank).count()));
      this->messages.send(rank, tag, request(rank).lengths.data(),
                          detail::bytes_of<std::int64_t>(request(rank).sequences()));
    });
  }
  void send_rows() {
    this->attempt([&] {
      prepare();
      replies_ = new_rows(row_begins_.total());
      const auto positions = this->shard_.positions(ids_);
      for (int rank = 0; rank < this->group.size; ++rank) {
        T* const to =
            rank == this->group.rank ? place_of(rank) : replies_.data() + row_begins_.begin(rank) * replies_.row_size();
        answer(rank, positions.data() + id_begins_.begin(rank), to);
      }
    });
    this->tell();
    this->for_each_other([&](int rank) {
      T* const to = this->has_failed() ? nullptr : place_of(rank);
      const T* const from =
          this->has_failed() ? nullptr : replies_.data() + row_begins_.begin(rank) * replies_.row_size();
      this->messages.receive(rank, this->agreement_.tag(), to, bytes_of_rows(request(rank).rows()));
      this->messages.send(rank, this->agreement_.tag(), from, bytes_of_rows(rows_for(rank)));
    });
  }
  /// Writes the rows that a rank wants.
  void answer(int rank, const std::int64_t* positions, T* to) {
    const auto table = std::as_const(this->shard_.rows).value();
    if (!wants_sums(rank)) {
      const std::int64_t count = id_begins_.size(rank);
      embedding_into(this->executor(), table, plain_ids(positions, LoDView::plain(0, count)), EmbeddingOptions(),
                     rows_at(to, count));
      return;
    }
    pool_rows(table, positions, {lengths_.data() + length_begins_.begin(rank), index(length_begins_.size(rank))}, to);
  }

 protected:
  /// Sums of the rows of a table, one for each of these lengths.
  template <class Table>
  void pool_rows(const Table& table, const std::int64_t* positions, std::span<const std::int64_t> lengths, T* to) {
    const LoD lod = LoD::from_lengths({std::vector<std::int64_t>(lengths.begin(), lengths.end())});
    embedding_pool_into(this->executor(), table, plain_ids(positions, lod.view()), PoolType::SUM,
                        EmbeddingPoolOptions<T>(), rows_at(to, lod.size(0)));
  }

 private:
  static std::size_t index(std::int64_t i) noexcept { return static_cast<std::size_t>(i); }
  /// What a rank wants of this one.
  const Header& asked(int rank) const noexcept { return this->agreement_.from(rank); }
  bool wants_sums(int rank) const noexcept { return asked(rank).samples[0] != 0; }
  std::int64_t rows_for(int rank) const noexcept {
    return wants_sums(rank) ? asked(rank).samples[1] : asked(rank).numbers;
  }
  std::int64_t bytes_of_rows(std::int64_t rows) const noexcept {
    return detail::saturated_product(rows, this->row_bytes());
  }

  SparseTableOptions options_;
  std::vector<Request> requests_;
  PartBegins id_begins_{1}, length_begins_{1}, row_begins_{1};
  std::vector<std::int64_t> ids_, lengths_;
  LoDTensor<T> replies_;
};

/// Rows come once each; what is made of them is of derived classes.
template <class Shard>
class FetchingRows : public Fetching<Shard> {
  using T = typename Shard::Value;

 public:
  FetchingRows(Shard& shard, Operation operation, const LoDTensorView<const std::int64_t>& ids,
               const kernel::PaddingIds& padding, const SparseTableOptions& options, LoDTensor<T>& y)
      : Fetching<Shard>(shard, operation, options), ids_(ids), padding_(padding), y_(&y) {}

 protected:
  std::vector<Request> plan() override {
    operation::check_apart(this->what(), *y_, {{"ids", ids_}, {"the table", std::as_const(this->shard_.rows).value()}});
    RequestedIds requested(this->shard_, ids_.values(), padding_, this->what());
    places_ = std::move(requested.places());
    return std::move(requested.requests());
  }
  void prepare() override {
    begins_ = PartBegins(this->group.size, [&](int rank) { return this->request(rank).rows(); });
    received_ = this->new_rows(begins_.total());
  }
  T* place_of(int rank) override { return received_.data() + begins_.begin(rank) * received_.row_size(); }

  /// Memory for the output.
  LoDTensor<T> output(LoD lod, std::int64_t rows) const {
    const Shape row_shape = operation::looked_up_shape(ids_.row_shape(), this->shard_.rows.row_shape(), this->what());
    std::pmr::memory_resource* const own = y_->resource();
    return y_->resized(std::move(lod), row_shape, rows, own ? own : this->executor().resource());
  }

  LoDTensorView<const std::int64_t> ids_;
  kernel::PaddingIds padding_;
  LoDTensor<T>* y_;
  std::vector<std::int64_t> places_;  // of the rows of ids among those that have come; -1 for padding
  PartBegins begins_{1};              // of each rank's rows
  LoDTensor<T> received_, next_;
};

/// Rows are copied to where their ids are.
template <class Shard>
class LookingUp final : public FetchingRows<Shard> {
  using T = typename Shard::Value;

 public:
  LookingUp(Shard& shard, const LoDTensorView<const std::int64_t>& ids, const EmbeddingOptions& padding,
            const SparseTableOptions& options, LoDTensor<T>& y)
      : FetchingRows<Shard>(shard, Operation::TABLE_LOOK_UP, ids, {padding.padding_idx, padding.skip_minus_one},
                            options, y) {}

 protected:
  void prepare() override {
    FetchingRows<Shard>::prepare();
    this->next_ = this->output(this->ids_.lod(), this->ids_.rows());
  }
  void finish() override {
    const auto count = static_cast<std::int64_t>(this->places_.size());
    embedding_into(this->executor(), std::as_const(this->received_),
                   this->plain_ids(this->places_.data(), LoDView::plain(0, count)),
                   EmbeddingOptions{.skip_minus_one = true}, this->rows_at(this->next_.data(), count));
    *this->y_ = std::move(this->next_);
  }
};

}  // namespace lod::inline LOD_INTERFACE::between_ranks::inline LOD_TARGET
