// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup ranks
/// Sharded tables in files of the library's own: variables `rows.0`, `rows.1`, ..., one for each rank that had a part,
/// row-sparse with the table's height; beside each the states of the optimizer, if there are any, such as
/// `adam.mean.0`, row for row.
#pragma once

#include <lod/core/error.hpp>
#include <lod/core/lod_tensor.hpp>
#include <lod/core/lod_view.hpp>
#include <lod/core/selected_rows.hpp>
#include <lod/core/shape.hpp>
#include <lod/core/sizes.hpp>
#include <lod/core/target.hpp>
#include <lod/io/file.hpp>
#include <lod/io/file_writer.hpp>
#include <lod/mpi/agreement.hpp>
#include <lod/mpi/communicator.hpp>
#include <lod/mpi/messages.hpp>
#include <lod/mpi/sharded_table.hpp>
#include <lod/mpi/table_shard.hpp>
#include <lod/mpi/table_update.hpp>
#include <lod/mpi/together.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace lod::inline LOD_INTERFACE::between_ranks::inline LOD_TARGET {

/// The names of an optimizer's states; none for no name.
inline std::vector<std::string> names_of_states(const std::string& optimizer) {
  std::vector<std::string> names;
  const auto add = [&]<class Options>(const Options*) {
    using Optimizer = TableOptimizer<Options>;
    if (optimizer != Optimizer::name) return;
    for (const char* state : Optimizer::states) names.push_back(detail::text({optimizer, ".", state}));
  };
  const auto add_all = [&]<class... Options>(const Options*... options) { (add(options), ...); };
  add_all(static_cast<const MomentumOptions*>(nullptr), static_cast<const AdagradOptions*>(nullptr),
          static_cast<const RmspropOptions*>(nullptr), static_cast<const AdamOptions*>(nullptr),
          static_cast<const FtrlOptions*>(nullptr));
  return names;
}
inline std::string name_of_part(const std::string& name, int rank) { return detail::text({name, ".", rank}); }

/// Row-sparse values that lie somewhere else.
template <class T>
class BorrowedRows {
 public:
  BorrowedRows(std::span<const std::int64_t> ids, std::int64_t height, const LoDTensorView<const T>& value) noexcept
      : ids_(ids), height_(height), value_(value) {}

  std::span<const std::int64_t> rows() const noexcept { return ids_; }
  std::int64_t height() const noexcept { return height_; }
  const LoDTensorView<const T>& value() const noexcept { return value_; }

 private:
  std::span<const std::int64_t> ids_;
  std::int64_t height_;
  LoDTensorView<const T> value_;
};

/// Rank 0 writes the file, part after part: it never has more than one other rank's.
template <class Shard>
class Saving final : public TableSteps<Shard> {
  using T = typename Shard::Value;
  using State = typename Shard::State;

 public:
  Saving(Shard& shard, std::string path, const SaveOptions& options)
      : TableSteps<Shard>(shard, Operation::TABLE_SAVE), path_(std::move(path)), options_(options) {}

  /// Once all steps are taken, on rank 0: puts the file in its place. Throws what has failed.
  void commit() {
    if (this->group.rank > 0) return;
    this->attempt([&] { writer_->commit(); });
    this->rethrow();
  }

 private:
  bool take(int step) final {
    const bool writes = this->group.rank == 0;
    if (step == 0) agree();
    if (step == 1) check();
    if (step == 1 && !writes) send();
    if (step > 1 && writes) add(step - 1);
    if (step > 0 && writes) receive(step);
    return step < (writes ? this->group.size : 2);
  }
  void check() {
    this->agreement_.check();
    check_tables(this->agreement_, this->group.size);
  }
  void agree() {
    this->agreement_.prepare([&] {
      names_ = names_of_states(this->shard_.optimizer);
      if (this->group.rank == 0) {
        writer_.emplace(path_, options_);
        const auto& rows = std::as_const(this->shard_.rows);
        writer_->add(name_of_part("rows", 0), BorrowedRows<T>(rows.ids(), this->shard_.options.height, rows.value()));
        for (std::size_t i = 0; i < names_.size(); ++i) {
          writer_->add(name_of_part(names_[i], 0), this->shard_.state(i));
        }
      }
      Header header = this->shard_.header();
      header.rows = this->shard_.rows.size();
      this->agreement_.to_all(header);
    });
    this->agreement_.exchange(this->messages);
  }
  std::int64_t bytes(std::int64_t rows, std::int64_t each) const noexcept {
    return detail::saturated_product(rows, this->shard_.rows.row_size(), each);
  }
  void send() {
    const std::int64_t count = this->shard_.rows.size();
    const int tag = this->agreement_.tag();
    this->messages.send(0, tag, this->shard_.rows.ids().data(), detail::bytes_of<std::int64_t>(count));
    this->messages.send(0, tag, this->shard_.rows.value().data(), bytes(count, sizeof(T)));
    for (std::size_t i = 0; i < names_.size(); ++i) {
      this->messages.send(0, tag, this->shard_.state(i).data(), bytes(count, sizeof(State)));
    }
  }
  void receive(int rank) {
    if (rank >= this->group.size) return;
    const std::int64_t count = this->agreement_.from(rank).rows;
    const int tag = this->agreement_.tag();
    this->attempt([&] {
      ids_.resize(detail::checked_count<std::int64_t>(count, this->what()));
      values_.resize(LoD(), this->shard_.rows.row_shape(), count);
      states_.resize(names_.size());
      for (auto& state : states_) state.resize(LoD(), this->shard_.rows.row_shape(), count);
    });
    const bool failed = this->has_failed();
    this->messages.receive(rank, tag, failed ? nullptr : ids_.data(), detail::bytes_of<std::int64_t>(count));
    this->messages.receive(rank, tag, failed ? nullptr : values_.data(), bytes(count, sizeof(T)));
    for (std::size_t i = 0; i < names_.size(); ++i) {
      this->messages.receive(rank, tag, failed ? nullptr : states_[i].data(), bytes(count, sizeof(State)));
    }
  }
  /// What has arrived.
  void add(int rank) {
    this->attempt([&] {
      const std::int64_t height = this->shard_.options.height;
      writer_->add(name_of_part("rows", rank), BorrowedRows<T>(ids_, height, std::as_const(values_).view()));
      for (std::size_t i = 0; i < names_.size(); ++i) writer_->add(name_of_part(names_[i], rank), states_[i]);
    });
  }

  std::string path_;
  SaveOptions options_;
  std::optional<FileWriter> writer_;
  std::vector<std::string> names_;
  std::vector<std::int64_t> ids_;
  LoDTensor<T> values_;
  std::vector<LoDTensor<State>> states_;
};

/// The rows of a file that this rank has, with their states.
template <class Shard>
void load_shard(Shard& shard, const std::string& path) {
  using T = typename Shard::Value;
  using State = typename Shard::State;
  const File file = File::open(path);
  const auto wrong = [&](const std::string& name, const std::string& text) {
    throw ShapeMismatch(detail::text({"ShardedTable::load: '", path, "': '", name, "': ", text}));
  };
  std::string optimizer;
  for (const std::string& name : file.names()) {
    const std::string first = name.substr(0, name.find('.'));
    if (!names_of_states(first).empty()) optimizer = first;
  }
  const auto names = names_of_states(optimizer);
  const Shape row_shape = shard.rows.row_shape();  // a copy: that of the rows goes when they move
  if (!file.contains(name_of_part("rows", 0))) wrong("rows.0", "there is no such variable, expected rows of a table");
  for (int part = 0; file.contains(name_of_part("rows", part)); ++part) {
    const std::string name = name_of_part("rows", part);
    const auto rows = file.selected_rows<T>(name);
    if (rows.row_shape() != row_shape) {
      wrong(name, detail::text(
                      {"rows of shape ", lod::to_string(rows.row_shape()), ", expected ", lod::to_string(row_shape)}));
    }
    if (rows.height() != shard.options.height) {
      wrong(name, detail::text({"height ", rows.height(), ", expected ", shard.options.height}));
    }
    std::vector<std::int64_t> own, ids;
    for (std::size_t i = 0; i < rows.rows().size(); ++i) {
      if (shard.owner(rows.rows()[i]) != shard.communicator.rank()) continue;
      own.push_back(static_cast<std::int64_t>(i));
      ids.push_back(rows.rows()[i]);
    }
    const std::int64_t before = shard.rows.size(), count = static_cast<std::int64_t>(ids.size());
    static_cast<void>(shard.positions(ids));
    if (shard.rows.size() != before + count) wrong(name, "it has rows that are there already");
    shard.prepare_states(names.size());
    const auto copy = [&](const auto& from, auto* to) {
      for (const std::int64_t i : own) {
        const auto row = from.row(i);
        to = std::copy(row.begin(), row.end(), to);
      }
    };
    copy(rows.value(), shard.rows.value().data() + before * shard.rows.row_size());
    for (std::size_t i = 0; i < names.size(); ++i) {
      const auto state = file.tensor<State>(name_of_part(names[i], part));
      if (state.shape() != rows.value().shape()) {
        wrong(name_of_part(names[i], part), detail::text({"shape ", lod::to_string(state.shape()), ", expected ",
                                                          lod::to_string(rows.value().shape())}));
      }
      copy(state, shard.state(i).data() + before * shard.rows.row_size());
    }
  }
  shard.optimizer = optimizer;
}

}  // namespace lod::inline LOD_INTERFACE::between_ranks::inline LOD_TARGET

namespace lod::inline LOD_INTERFACE::mpi::inline LOD_TARGET {

/// Writes a table to a file of the library's own, as a FileWriter does: all at once or not at all. Collective. Rank 0
/// writes; the rows of the others, with their states, go to it, one rank's at a time. The path is that of rank 0. One
/// collective with sizes, and one that says whether the file is there. Throws std::system_error, on all ranks.
///
/// Without MPI, `File` reads it: `rows.0`, `rows.1`, ... are the SelectedRows of one rank each, with the table's
/// height; `adam.mean.0`, ... are tensors of the states of these rows, one for each.
template <class T, class Initialize>
void save(const std::string& path, ShardedTable<T, Initialize>& table, const SaveOptions& options = {}) {
  auto& shard = between_ranks::shard_of(table);
  between_ranks::Saving<between_ranks::Shard<T, Initialize>> saving(shard, path, options);
  between_ranks::run(std::move(saving));
  together(shard.communicator, [&] { saving.commit(); });
}

/// Lets a table be that of a file that `save` has written, on any number of ranks and with any division; with the
/// optimizer's states. Collective. Every rank opens the file, and reads its ids and those rows that become its own. One
/// collective. Throws what `File` does; ShapeMismatch for a file of something else, for another height or row shape,
/// and for an id that has two rows; OutOfRange for more than `most_rows`; on all ranks. Then the table is as before.
template <class T, class Initialize>
void load(const std::string& path, ShardedTable<T, Initialize>& table) {
  auto& shard = between_ranks::shard_of(table);
  auto loaded = shard.without_rows();
  together(shard.communicator, [&] { between_ranks::load_shard(loaded, path); });
  shard = std::move(loaded);
}

}  // namespace lod::inline LOD_INTERFACE::mpi::inline LOD_TARGET
