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
#include <lod/mpi/blocks.hpp>
#include <lod/mpi/carried.hpp>
#include <lod/mpi/communicator.hpp>
#include <lod/mpi/messages.hpp>
#include <lod/mpi/reduction.hpp>
#include <lod/mpi/sum_tree.hpp>
#include <lod/ops/merge_rows.hpp>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <limits>
#include <memory>
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

  /// Calls f(id) where the density of its ids is another one from the next id on.
  template <class F>
  void for_each_change(const F& f) const {
    if (header_->rows > 0) f(header_->samples[0] - 1);
    for (std::int64_t i = 0; i < count(*header_); ++i) f(header_->samples[i]);
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

/// How many of 2^31 ids all ranks lack, as if each lacked its own independently: products in a binary tree, so that
/// another number of one rank takes as many multiplications as the tree is high. To multiply all of them each time took
/// longer than the sum itself on a thousand ranks.
class Lacking {
 public:
  explicit Lacking(int ranks) : leaves_(std::bit_ceil(static_cast<std::size_t>(ranks))) {
    products_.resize(2 * leaves_, IdSamples::whole);
  }
  void set(int rank, std::uint64_t lacks) noexcept {
    std::size_t place = leaves_ + static_cast<std::size_t>(rank);
    products_[place] = lacks;
    while (place > 1) {
      place /= 2;
      products_[place] = products_[2 * place] * products_[2 * place + 1] >> 31;
    }
  }
  std::uint64_t product() const noexcept { return products_[1]; }

 private:
  std::size_t leaves_;
  std::vector<std::uint64_t> products_;
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
    samples.back().for_each_change([&](std::int64_t id) { ends.push_back(id); });
  }
  std::sort(ends.begin(), ends.end());
  ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
  Lacking lacking(ranks);
  std::vector<std::int64_t> rows(ends.size());  // of the sum, up to each end
  // A rank's density changes after its own ids only.
  std::vector<std::pair<std::int64_t, int>> changes;
  for (int rank = 0; rank < ranks; ++rank) {
    samples[static_cast<std::size_t>(rank)].for_each_change(
        [&](std::int64_t after) { changes.emplace_back(after, rank); });
  }
  std::sort(changes.begin(), changes.end());
  auto change = changes.begin();
  for (std::size_t i = 1; i < ends.size(); ++i) {
    for (; change != changes.end() && change->first < ends[i]; ++change) {
      lacking.set(change->second, samples[static_cast<std::size_t>(change->second)].lacks(ends[i]));
    }
    const auto ids = static_cast<detail::UnsignedInt128>(ends[i] - ends[i - 1]);
    rows[i] = rows[i - 1] + static_cast<std::int64_t>(ids * (IdSamples::whole - lacking.product()) >> 31);
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
  struct Owned {
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
  Owned owned(const Rows& rows, int rank) const {
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
    }
    counts_[static_cast<std::size_t>(group.rank)] = told_[static_cast<std::size_t>(group.rank)];
    const auto size = [this](int from, int) {
      return detail::bytes_of<std::int64_t>(static_cast<std::int64_t>(trees(from).size()));
    };
    passing_ = exchange_blocks(
        group, messages, agreement_.tag(), std::numeric_limits<std::int64_t>::max(), size,
        [&](int rank) {
          return Parts<const void>{{{told_[static_cast<std::size_t>(rank)].data(), size(group.rank, rank)}}};
        },
        [this, size](int rank) {
          return Parts<void>{{{counts_[static_cast<std::size_t>(rank)].data(), size(rank, group.rank)}}};
        });
  }
  /// The rows of a subtree that one rank sends to another, of which this is one or between them.
  std::int64_t count_between(int from, int to, std::size_t tree) const {
    if (tree >= trees(from).size()) return 0;
    if (from == group.rank) return told_[static_cast<std::size_t>(to)][tree];
    if (to == group.rank) return counts_[static_cast<std::size_t>(from)][tree];
    std::int64_t count = 0;
    const std::byte* const counts = (*passing_)[Grid(group).place_between(from, to)];
    std::memcpy(&count, counts + tree * sizeof count, sizeof count);
    return count;
  }
  std::int64_t bytes_of_ids_and_rows(std::int64_t rows) const {
    return detail::saturated_sum(detail::bytes_of<std::int64_t>(rows), bytes_of_rows(rows));
  }

  void receive_as_owner() {
    ids_.resize(counts_.size());
    values_.resize(counts_.size());
    attempt([&] {
      for (std::size_t rank = 0; rank < counts_.size(); ++rank) {
        for (const std::int64_t count : counts_[rank]) {
          ids_[rank].emplace_back(detail::checked_count<std::int64_t>(count, "all_reduce"));
          values_[rank].emplace_back(Shape(count, row_shape_of(common())), uninitialized, group.executor.resource());
        }
      }
    });
    const auto in = [this](int rank, std::size_t tree) {
      const auto i = static_cast<std::size_t>(rank);
      const std::int64_t count = count_between(rank, group.rank, tree);
      const bool none = error_ || count == 0;
      return Parts<void>{{{none ? nullptr : ids_[i][tree].data(), detail::bytes_of<std::int64_t>(count)},
                          {none ? nullptr : values_[i][tree].data(), bytes_of_rows(count)}}};
    };
    const auto out = [this](int rank, std::size_t tree) -> Parts<const void> {
      const std::int64_t count = count_between(group.rank, rank, tree);
      if (count == 0) return {};
      const Owned part = owned(mine_[tree], rank);
      return {{{part.ids.data(), detail::bytes_of<std::int64_t>(count)}, {part.values, bytes_of_rows(count)}}};
    };
    for (std::size_t tree = 0; tree < most_trees(); ++tree) {
      if (!error_) copy_to(out(group.rank, tree), in(group.rank, tree));
      exchange_blocks(
          group, messages, agreement_.tag(), group.merged,
          [this, tree](int from, int to) { return bytes_of_ids_and_rows(count_between(from, to, tree)); },
          [&](int rank) { return out(rank, tree); }, [in, tree](int rank) { return in(rank, tree); });
    }
  }
  static void copy_to(const Parts<const void>& from, const Parts<void>& to) noexcept {
    for (std::size_t i = 0; i < from.size(); ++i) {
      if (from[i].data && from[i].bytes > 0) {
        std::memcpy(to[i].data, from[i].data, static_cast<std::size_t>(from[i].bytes));
      }
    }
  }

  void send_sum() {
    attempt([&] {
      std::vector<std::pair<Subtree, Rows>> known;
      for (std::size_t rank = 0; rank < counts_.size(); ++rank) {
        for (std::size_t i = 0; i < counts_[rank].size(); ++i) {
          known.emplace_back(trees(static_cast<int>(rank))[i],
                             Rows(std::move(ids_[rank][i]), common().height, std::move(values_[rank][i])));
        }
      }
      if (!options_.fixed_tree) {
        std::vector<const Rows*> all;
        for (const auto& one : known) all.push_back(&one.second);
        sum_ = merged(all);
        return;
      }
      const auto find = [&](const Subtree& tree) { return find_subtree(known, tree); };
      sum_ = sum_of(
          whole(), [&](const Subtree& tree) { return find(tree) != known.end(); },
          [&](const Subtree& tree) { return std::move(find(tree)->second); }, add_up());
    });
    const auto own = static_cast<std::size_t>(group.rank);
    sizes_.resize(failed_.size());
    failed_[own] = error_ ? 1 : 0;
    sizes_[own] = {failed_[own], error_ ? 0 : static_cast<std::int64_t>(sum_.rows().size())};
    exchange_blocks(
        group, messages, agreement_.tag(), group.merged,
        [](int, int) { return static_cast<std::int64_t>(sizeof(Size)); },
        [&](int) {
          return Parts<const void>{{{&sizes_[own], sizeof(Size)}}};
        },
        [this](int rank) {
          return Parts<void>{{{&sizes_[static_cast<std::size_t>(rank)], sizeof(Size)}}};
        });
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
    std::vector<std::int64_t> firsts;
    std::int64_t first = 0;
    for (const Size& size : sizes_) {
      firsts.push_back(first);
      first += size.rows;
    }
    const auto in = [this, firsts = std::move(firsts)](int rank) {
      const auto i = static_cast<std::size_t>(rank);
      const std::int64_t count = sizes_[i].rows;
      return Parts<void>{{{error_ ? nullptr : all_ids_.data() + firsts[i], detail::bytes_of<std::int64_t>(count)},
                          {error_ ? nullptr : next_.data() + firsts[i] * row_size(), bytes_of_rows(count)}}};
    };
    const auto out = [this](int) {
      const std::int64_t count = sizes_[static_cast<std::size_t>(group.rank)].rows;
      return Parts<const void>{
          {{sum_.rows().data(), detail::bytes_of<std::int64_t>(count)}, {sum_.value().data(), bytes_of_rows(count)}}};
    };
    if (!error_) copy_to(out(group.rank), in(group.rank));
    exchange_blocks(
        group, messages, agreement_.tag(), group.merged,
        [this](int from, int) { return bytes_of_ids_and_rows(sizes_[static_cast<std::size_t>(from)].rows); }, out, in);
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
  std::shared_ptr<const std::vector<const std::byte*>> passing_;  // such numbers of others
  std::vector<std::vector<std::vector<std::int64_t>>> ids_;       // what comes from each rank
  std::vector<std::vector<LoDTensor<T>>> values_;
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
