// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup ranks
/// The sum of row-sparse values over all ranks, which is never made dense.
#pragma once

#include <lod/core/lod_tensor.hpp>
#include <lod/core/selected_rows.hpp>
#include <lod/core/sizes.hpp>
#include <lod/core/target.hpp>
#include <lod/mpi/agreement.hpp>
#include <lod/mpi/carried.hpp>
#include <lod/mpi/communicator.hpp>
#include <lod/mpi/messages.hpp>
#include <lod/mpi/reduction.hpp>
#include <lod/mpi/sum_tree.hpp>
#include <lod/ops/merge_rows.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

namespace lod::inline LOD_INTERFACE::between_ranks::inline LOD_TARGET {

/// Some of the ids that a rank has: the first, the last and what lies evenly between them in number.
class IdSamples {
 public:
  static void put(std::span<const std::int64_t> ids, Header& header) {
    header.rows = static_cast<std::int64_t>(ids.size());
    for (std::int64_t i = 0; i < count(header); ++i)
      header.samples[i] = ids[static_cast<std::size_t>(place(header, i))];
  }
  explicit IdSamples(const Header& header) noexcept : header_(&header) {}

  /// Adds where the density of its ids changes.
  void put_ends(std::vector<std::int64_t>& ends) const {
    if (header_->rows > 0) ends.push_back(header_->samples[0] - 1);
    for (std::int64_t i = 0; i < count(*header_); ++i) ends.push_back(header_->samples[i]);
  }
  /// How many of 2^31 ids before and at `end` it lacks, by the density there; ends ascend from call to call.
  std::uint64_t lacks(std::int64_t end) noexcept {
    while (next_ < count(*header_) && header_->samples[next_] < end) ++next_;
    if (next_ == count(*header_) || (next_ == 0 && end < header_->samples[0])) return whole;
    if (next_ == 0) return 0;
    const auto rows = static_cast<detail::UnsignedInt128>(place(*header_, next_) - place(*header_, next_ - 1));
    const auto ids = static_cast<detail::UnsignedInt128>(header_->samples[next_] - header_->samples[next_ - 1]);
    return whole - static_cast<std::uint64_t>((rows << 31) / ids);
  }

  static constexpr std::uint64_t whole = std::uint64_t{1} << 31;

 private:
  static std::int64_t count(const Header& header) noexcept {
    return std::min<std::int64_t>(header.rows, Header::max_samples);
  }
  static std::int64_t place(const Header& header, std::int64_t sample) noexcept {
    const std::int64_t steps = count(header) - 1, last = header.rows - 1;
    return steps == 0 ? 0 : last / steps * sample + last % steps * sample / steps;
  }

  const Header* header_;
  std::int64_t next_ = 0;
};

/// The ranges of ids that ranks own: where each but the first begins. Ranges of even height would not do: most ids of
/// natural data are small. A rank sends what it owns of the sum to all others, so its share of the sum counts, in which
/// an id is one row however many ranks have it. That is estimated from samples of all ranks' ids, as if ranks had
/// theirs independently of each other; in integers, so that all ranks come to the same.
inline std::vector<std::int64_t> owned_ranges(const Agreement& agreement, int ranks) {
  std::vector<IdSamples> samples;
  std::vector<std::int64_t> ends;
  for (int rank = 0; rank < ranks; ++rank) {
    samples.emplace_back(agreement.from(rank));
    samples.back().put_ends(ends);
  }
  std::sort(ends.begin(), ends.end());
  ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
  std::vector<std::int64_t> rows(ends.size());  // of the sum, up to each end
  for (std::size_t i = 1; i < ends.size(); ++i) {
    std::uint64_t lacking = IdSamples::whole;
    for (IdSamples& of_rank : samples) lacking = lacking * of_rank.lacks(ends[i]) >> 31;
    const auto ids = static_cast<detail::UnsignedInt128>(ends[i] - ends[i - 1]);
    rows[i] = rows[i - 1] + static_cast<std::int64_t>(ids * (IdSamples::whole - lacking) >> 31);
  }
  std::vector<std::int64_t> begins(static_cast<std::size_t>(ranks) - 1);
  if (ends.empty() || rows.back() == 0) return begins;
  std::size_t next = 1;
  for (std::size_t rank = 1; rank < static_cast<std::size_t>(ranks); ++rank) {
    const auto share = static_cast<std::int64_t>(static_cast<detail::UnsignedInt128>(rows.back()) * rank /
                                                 static_cast<unsigned>(ranks));
    while (rows[next] < share) ++next;
    const std::int64_t more = share - rows[next - 1], all = rows[next] - rows[next - 1];
    const auto ids = static_cast<detail::UnsignedInt128>(ends[next] - ends[next - 1]);
    begins[rank - 1] = ends[next - 1] + 1;
    if (all > 0) {
      begins[rank - 1] += static_cast<std::int64_t>(ids * static_cast<detail::UnsignedInt128>(more) /
                                                    static_cast<detail::UnsignedInt128>(all));
    }
  }
  return begins;
}

/// Each rank owns a range of ids: all send it their rows of these, merged; it merges them, and sends the sum to all.
template <class T>
class RowReduction final : public Reduction {
  using Rows = SelectedRows<T>;

 public:
  RowReduction(const mpi::Communicator& communicator, std::vector<const Rows*> parts,
               const mpi::AllReduceOptions& options, Rows& y)
      : Reduction(communicator, Operation::ALL_REDUCE_ROWS, options),
        given_(std::move(parts)),
        y_(&y),
        counts_(static_cast<std::size_t>(group.size)) {}

  bool next() override {
    switch (step_++) {
      case 0:
        agree(given_.size(), expected<Rows>(), [&](std::size_t i) {
          Header header = outgoing(*given_[i]).header;
          header.rows = 0;
          return header;
        });
        return true;
      case 1:
        know();
        send_to_owners();
        return true;
      case 2:
        receive_as_owner();
        return true;
      case 3:
        send_sum();
        return true;
      case 4:
        receive_sums();
        return true;
      default:
        finish();
        return false;
    }
  }

 protected:
  void finish_header(Header& header) override {
    if (given_.empty()) return;
    std::vector<std::int64_t> ids;
    if (!options_.fixed_tree) {
      mine_.push_back(merged(given_));
      ids = mine_[0].rows();
    } else {
      for (const Rows* part : given_) ids.insert(ids.end(), part->rows().begin(), part->rows().end());
      std::sort(ids.begin(), ids.end());
      ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
    }
    IdSamples::put(ids, header);
  }

 private:
  /// A rank's rows of one subtree, as far as another one owns them.
  struct Part {
    std::span<const std::int64_t> ids;
    const T* values;
  };

  Rows merged(const std::vector<const Rows*>& parts) const {
    Rows sum(group.executor.resource());
    merge_add_into(group.executor, std::span<const Rows* const>(parts), sum);
    return sum;
  }
  auto add_up() const noexcept {
    return [this](Rows a, const Rows& b) { return merged({&a, &b}); };
  }

  std::int64_t row_size() const { return row_shape_of(common()).elements(); }
  std::int64_t bytes_of_rows(std::int64_t rows) const { return detail::bytes_of<T>(rows, row_size()); }
  /// The rows that a rank owns of those with ascending ids.
  Part owned(const Rows& rows, int rank) const {
    const auto i = static_cast<std::size_t>(rank);
    const auto place = [&](std::int64_t id) { return std::lower_bound(rows.rows().begin(), rows.rows().end(), id); };
    const auto begin = rank == 0 ? rows.rows().begin() : place(begins_[i - 1]);
    const auto end = rank + 1 == group.size ? rows.rows().end() : place(begins_[i]);
    return {{begin, end}, rows.value().data() + (begin - rows.rows().begin()) * rows.row_size()};
  }

  void send_to_owners() {
    begins_ = owned_ranges(agreement_, group.size);
    const std::vector<Subtree>& own_trees = trees(group.rank);
    attempt([&] {
      if (!options_.fixed_tree) return;
      const auto is_leaf = [](const Subtree& tree) { return tree.size() == 1; };
      const auto given = [&](const Subtree& leaf) {
        return merged({given_[static_cast<std::size_t>(leaf.begin - begin_)]});
      };
      for (const Subtree& tree : own_trees) mine_.push_back(sum_of(tree, is_leaf, given, add_up()));
    });
    // How many rows of each subtree will come; nothing of a rank that has failed, which tells so later.
    told_.resize(counts_.size());
    for (int rank = 0; rank < group.size; ++rank) {
      const auto i = static_cast<std::size_t>(rank);
      counts_[i].resize(trees(rank).size());
      for (std::size_t tree = 0; tree < own_trees.size(); ++tree) {
        told_[i].push_back(error_ ? 0 : static_cast<std::int64_t>(owned(mine_[tree], rank).ids.size()));
      }
      if (rank == group.rank) {
        counts_[i] = told_[i];
        continue;
      }
      messages.receive(rank, agreement_.tag(), counts_[i].data(),
                       detail::bytes_of<std::int64_t>(size_of_list(counts_[i])));
      messages.send(rank, agreement_.tag(), told_[i].data(), detail::bytes_of<std::int64_t>(size_of_list(told_[i])));
    }
  }
  static std::int64_t size_of_list(const std::vector<std::int64_t>& list) noexcept {
    return static_cast<std::int64_t>(list.size());
  }

  void receive_as_owner() {
    attempt([&] {
      for (const auto& counts : counts_) {
        for (const std::int64_t count : counts) {
          ids_.emplace_back(detail::checked_count<std::int64_t>(count, "all_reduce"));
          values_.emplace_back(Shape(count, row_shape_of(common())), uninitialized, group.executor.resource());
        }
      }
    });
    const int tag = agreement_.tag();
    std::size_t next = 0;
    for (int rank = 0; rank < group.size; ++rank) {
      const auto i = static_cast<std::size_t>(rank);
      for (std::size_t tree = 0; tree < counts_[i].size(); ++tree, ++next) {
        const std::int64_t count = counts_[i][tree];
        std::int64_t* const ids = error_ ? nullptr : ids_[next].data();
        T* const values = error_ ? nullptr : values_[next].data();
        if (rank != group.rank) {
          messages.receive(rank, tag, ids, detail::bytes_of<std::int64_t>(count));
          messages.receive(rank, tag, values, bytes_of_rows(count));
        } else if (!error_ && count > 0) {
          const Part part = owned(mine_[tree], rank);
          std::copy(part.ids.begin(), part.ids.end(), ids);
          if (bytes_of_rows(count) > 0)
            std::memcpy(values, part.values, static_cast<std::size_t>(bytes_of_rows(count)));
        }
      }
      if (rank == group.rank) continue;
      for (std::size_t tree = 0; tree < told_[i].size(); ++tree) {
        if (told_[i][tree] == 0) continue;
        const Part part = owned(mine_[tree], rank);
        messages.send(rank, tag, part.ids.data(), detail::bytes_of<std::int64_t>(told_[i][tree]));
        messages.send(rank, tag, part.values, bytes_of_rows(told_[i][tree]));
      }
    }
  }

  void send_sum() {
    attempt([&] {
      std::vector<std::pair<Subtree, Rows>> known;
      std::size_t next = 0;
      for (int rank = 0; rank < group.size; ++rank) {
        for (const Subtree& tree : trees(rank)) {
          known.emplace_back(tree, Rows(std::move(ids_[next]), common().height, std::move(values_[next])));
          ++next;
        }
      }
      if (!options_.fixed_tree) {
        std::vector<const Rows*> all;
        for (const auto& one : known) all.push_back(&one.second);
        sum_ = merged(all);
        return;
      }
      const auto find = [&](const Subtree& tree) {
        return std::find_if(known.begin(), known.end(), [&](const auto& one) { return one.first == tree; });
      };
      sum_ = sum_of(
          whole(), [&](const Subtree& tree) { return find(tree) != known.end(); },
          [&](const Subtree& tree) { return std::move(find(tree)->second); }, add_up());
    });
    const auto own = static_cast<std::size_t>(group.rank);
    sizes_.resize(failed_.size());
    failed_[own] = error_ ? 1 : 0;
    sizes_[own] = {failed_[own], error_ ? 0 : static_cast<std::int64_t>(sum_.rows().size())};
    for (int rank = 0; rank < group.size; ++rank) {
      if (rank == group.rank) continue;
      const int tag = agreement_.tag();
      Size& size = sizes_[static_cast<std::size_t>(rank)];
      messages.receive(rank, tag, &size, sizeof size);
      messages.send(rank, tag, &sizes_[own], sizeof size);
    }
  }

  void receive_sums() {
    std::int64_t rows = 0;
    for (std::size_t rank = 0; rank < sizes_.size(); ++rank) {
      failed_[rank] = sizes_[rank].failed;
      rows += sizes_[rank].rows;
    }
    const auto is_set = [](std::int64_t failed) { return failed != 0; };
    if (std::any_of(failed_.begin(), failed_.end(), is_set)) {
      throw_together(group, agreement_.tag(), failed_, error_);
    }
    attempt([&] {
      all_ids_.resize(detail::checked_count<std::int64_t>(rows, "all_reduce"));
      next_ = y_->value().resized(LoD(), row_shape_of(common()), rows, y_->value().resource());
    });
    const int tag = agreement_.tag();
    std::int64_t first = 0;
    for (int rank = 0; rank < group.size; ++rank) {
      const std::int64_t count = sizes_[static_cast<std::size_t>(rank)].rows;
      std::int64_t* const ids = error_ ? nullptr : all_ids_.data() + first;
      T* const values = error_ ? nullptr : next_.data() + first * row_size();
      first += count;
      if (rank != group.rank) {
        messages.receive(rank, tag, ids, detail::bytes_of<std::int64_t>(count));
        messages.receive(rank, tag, values, bytes_of_rows(count));
        const std::int64_t own = sizes_[static_cast<std::size_t>(group.rank)].rows;
        messages.send(rank, tag, sum_.rows().data(), detail::bytes_of<std::int64_t>(own));
        messages.send(rank, tag, sum_.value().data(), bytes_of_rows(own));
      } else if (!error_ && count > 0) {
        std::copy(sum_.rows().begin(), sum_.rows().end(), ids);
        if (bytes_of_rows(count) > 0) {
          std::memcpy(values, sum_.value().data(), static_cast<std::size_t>(bytes_of_rows(count)));
        }
      }
    }
  }

  void finish() {
    if (error_) std::rethrow_exception(error_);
    *y_ = Rows(std::move(all_ids_), common().height, std::move(next_));
  }

  /// What a rank tells of its sum.
  struct Size {
    std::int64_t failed = 0;
    std::int64_t rows = 0;
  };

  std::vector<const Rows*> given_;
  Rows* y_;
  std::vector<Rows> mine_;                         // of each of this rank's subtrees
  std::vector<std::int64_t> begins_;               // of the ranges that are owned
  std::vector<std::vector<std::int64_t>> told_;    // rows that each rank will get of each of those
  std::vector<std::vector<std::int64_t>> counts_;  // rows that come from each rank, of each of its subtrees
  std::vector<std::vector<std::int64_t>> ids_;     // what comes
  std::vector<LoDTensor<T>> values_;
  Rows sum_;
  std::vector<Size> sizes_;  // of the sum of each rank
  std::vector<std::int64_t> all_ids_;
  LoDTensor<T> next_;
};

}  // namespace lod::inline LOD_INTERFACE::between_ranks::inline LOD_TARGET

namespace lod::inline LOD_INTERFACE::mpi::inline LOD_TARGET {

/// The sum over all ranks of row-sparse values, one of each, as by `merge_add`: each id once, ascending; on all ranks.
/// Or of several parts of each, in a range, of which a rank may have none, in the order of ranks and of parts. It is
/// never made dense. Each rank merges its parts and owns a range of the ids, with about its share of the rows: it gets
/// all rows with these ids, merges them in the order of ranks, and sends them to all. With `options.fixed_tree` rows of
/// an id are added in pairs, by a balanced binary tree over all parts, in which parts without the id are left out: so
/// the bits do not depend on which ranks have the parts.
///
/// Throws ShapeMismatch for different heights or row shapes, and if there is no part at all; on all ranks. A rank
/// without memory for the result throws alone: the others have theirs. `y` may be one of the parts.
template <class T>
void all_reduce_into(const Communicator& communicator, const SelectedRows<T>& g, SelectedRows<T>& y) {
  between_ranks::run(between_ranks::RowReduction<T>(communicator, {&g}, {}, y));
}
template <class T>
[[nodiscard]] SelectedRows<T> all_reduce(const Communicator& communicator, const SelectedRows<T>& g) {
  SelectedRows<T> y(communicator.executor().resource());
  all_reduce_into(communicator, g, y);
  return y;
}
template <operation::RowSparseRange Gs>
void all_reduce_into(const Communicator& communicator, const Gs& parts, const AllReduceOptions& options,
                     operation::element_t<Gs>& y) {
  between_ranks::check_device<operation::element_t<Gs>>();
  std::vector<const operation::element_t<Gs>*> addresses;
  for (const auto& part : parts) addresses.push_back(&part);
  using T = typename operation::element_t<Gs>::value_type;
  between_ranks::run(between_ranks::RowReduction<T>(communicator, std::move(addresses), options, y));
}
template <operation::RowSparseRange Gs>
[[nodiscard]] auto all_reduce(const Communicator& communicator, const Gs& parts, const AllReduceOptions& options = {}) {
  operation::element_t<Gs> y(communicator.executor().resource());
  all_reduce_into(communicator, parts, options, y);
  return y;
}

}  // namespace lod::inline LOD_INTERFACE::mpi::inline LOD_TARGET
