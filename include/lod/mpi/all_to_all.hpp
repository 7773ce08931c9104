// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup ranks
/// Sequences that each go to a rank of their own.
#pragma once

#include <lod/core/error.hpp>
#include <lod/core/executor.hpp>
#include <lod/core/lod_index.hpp>
#include <lod/core/lod_tensor.hpp>
#include <lod/core/lod_view.hpp>
#include <lod/core/selected_rows.hpp>
#include <lod/core/sizes.hpp>
#include <lod/core/target.hpp>
#include <lod/mpi/agreement.hpp>
#include <lod/mpi/blocks.hpp>
#include <lod/mpi/carried.hpp>
#include <lod/mpi/communicator.hpp>
#include <lod/mpi/exchange.hpp>
#include <lod/mpi/messages.hpp>
#include <lod/ops/argument_list.hpp>
#include <lod/ops/batch_levels.hpp>
#include <lod/ops/kernel.hpp>
#include <lod/ops/rearrange.hpp>
#include <lod/ops/run_copy.hpp>
#include <lod/ops/select.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace lod::inline LOD_INTERFACE::between_ranks::inline LOD_TARGET {

/// Sequences sorted by where they go.
class Sorted {
 public:
  /// Throws ShapeMismatch unless there is a destination for each of `size` sequences, OutOfRange for one that is no
  /// rank. The destinations must stay where they are.
  Sorted(std::span<const std::int64_t> destinations, std::int64_t size, int ranks, const char* what)
      : destinations_(destinations), ends_(static_cast<std::size_t>(ranks) + 1) {
    if (static_cast<std::int64_t>(destinations.size()) != size) {
      throw ShapeMismatch(detail::text({what, ": ", destinations.size(), " destinations, expected ", size,
                                        ", one for each sequence (row, where there is no level)"}));
    }
    detail::check_row_ids(destinations, ranks, what);
    in_order_ = std::is_sorted(destinations.begin(), destinations.end());
    for (const std::int64_t rank : destinations) ++ends_[static_cast<std::size_t>(rank) + 1];
    for (std::size_t rank = 1; rank < ends_.size(); ++rank) ends_[rank] += ends_[rank - 1];
  }

  /// Whether they lie in this order already.
  bool in_order() const noexcept { return in_order_; }
  /// Calls f(sequence, rank, place in this order) for each of them, as they lie; those for one rank stay in that order.
  template <class F>
  void for_each(const F& f) const {
    std::vector<std::int64_t> next = ends_;
    for (std::size_t i = 0; i < destinations_.size(); ++i) {
      const auto rank = static_cast<std::size_t>(destinations_[i]);
      f(static_cast<std::int64_t>(i), rank, next[rank]++);
    }
  }
  /// Their numbers in this order.
  std::vector<std::int64_t> order() const {
    std::vector<std::int64_t> order(destinations_.size());
    for_each([&](std::int64_t sequence, std::size_t, std::int64_t place) {
      order[static_cast<std::size_t>(place)] = sequence;
    });
    return order;
  }
  /// Where those for a rank begin in this order.
  std::int64_t begin(int rank) const noexcept { return ends_[static_cast<std::size_t>(rank)]; }
  std::int64_t end(int rank) const noexcept { return begin(rank + 1); }
  std::int64_t size(int rank) const noexcept { return end(rank) - begin(rank); }

 private:
  std::span<const std::int64_t> destinations_;
  std::vector<std::int64_t> ends_;
  bool in_order_ = true;
};

/// The sequences for each rank. Unless they lie one after the other, they are copied in the order in which they lie:
/// those for other ranks to where they do, and those that stay on this rank straight to the output.
template <class X>
class SortedParts {
  using T = value_type_t<X>;

 public:
  SortedParts(const mpi::Communicator& communicator, const X& x, std::span<const std::int64_t> destinations,
              const Arriving<X>& y)
      : group_(&group_of(communicator)), x_(x.view()), destinations_(destinations), argument_(&x), y_(&y) {}
  std::vector<Outgoing> operator()() {
    check_apart("all_to_all", *argument_, *y_);
    const Sorted sorted(destinations_, x_.size(), group_->size, "all_to_all");
    in_order_ = sorted.in_order();
    std::vector<Outgoing> parts;
    for (int rank = 0; rank < group_->size; ++rank) {
      parts.push_back(outgoing(in_order_ ? x_.between(sorted.begin(rank), sorted.end(rank)) : x_.between(0, 0)));
      if (!in_order_ && x_.levels() == 0) parts.back().header.rows = sorted.size(rank);
    }
    if (in_order_) return parts;
    if (x_.levels() > 0) list_levels(sorted, parts);
    take_memory(parts);
    return parts;
  }
  void copy_rows(const Outgoing& own, std::byte* to) {
    T* const place = reinterpret_cast<T*>(to);
    const std::int64_t staying = own.header.rows * x_.row_size();
    if (!in_order_) {
      copy_all(place);
    } else if (staying > 0) {
      launch(kernel::CopyValues(), group_->executor, static_cast<const T*>(own.values), staying, place);
    }
  }

 private:
  /// The lengths of all levels of the sequences for each rank, and their rows.
  void list_levels(const Sorted& sorted, std::vector<Outgoing>& parts) {
    const LoDView& levels = x_.lod_view();
    const auto count = static_cast<std::size_t>(levels.levels());
    const std::size_t ranks = parts.size();
    // Where the sequences begin in a level below.
    const Workspace::Loan<std::int64_t> begins(group_->executor.workspace(), count > 1 ? levels.size() + 1 : 0);
    const auto descend = [&](std::size_t level) {
      const auto offsets = levels.offsets(static_cast<int>(level) - 1);
      for (std::int64_t i = 0; i <= levels.size(); ++i) {
        begins[i] = offsets[static_cast<std::size_t>(level == 1 ? i : begins[i])] - offsets[0];
      }
    };
    std::vector<std::int64_t> sizes(count * ranks);  // of each level, for each rank
    for (std::size_t rank = 0; rank < ranks; ++rank) sizes[rank] = sorted.size(static_cast<int>(rank));
    for (std::size_t level = 1; level < count; ++level) {
      descend(level);
      sorted.for_each([&](std::int64_t sequence, std::size_t rank, std::int64_t) {
        sizes[level * ranks + rank] += begins[sequence + 1] - begins[sequence];
      });
    }
    std::int64_t total = 0;
    for (const std::int64_t size : sizes) total += size + 1;
    numbers_.emplace(group_->executor.workspace(), total);
    std::vector<std::int64_t*> next(ranks);
    std::int64_t* begin = numbers_->data();
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      std::int64_t* const lengths = begin + count;
      auto numbers = static_cast<std::int64_t>(count);
      for (std::size_t level = 0; level < count; ++level) {
        begin[level] = sizes[level * ranks + rank];
        numbers += begin[level];
      }
      parts[rank].header.numbers = numbers;
      parts[rank].numbers = {begin, static_cast<std::size_t>(numbers)};
      next[rank] = lengths;
      begin += numbers;
    }
    std::vector<std::int64_t> rows(ranks);
    for (std::size_t level = 0; level < count; ++level) {
      const std::int64_t* const offsets = levels.offsets(static_cast<int>(level)).data();
      if (level > 0) descend(level);
      sorted.for_each([&](std::int64_t sequence, std::size_t rank, std::int64_t) {
        const std::int64_t first = level == 0 ? sequence : begins[sequence];
        const std::int64_t last = level == 0 ? sequence + 1 : begins[sequence + 1];
        for (std::int64_t i = first; i < last; ++i) *next[rank]++ = offsets[i + 1] - offsets[i];
        if (level + 1 == count) rows[rank] += offsets[last] - offsets[first];
      });
    }
    for (std::size_t rank = 0; rank < ranks; ++rank) parts[rank].header.rows = rows[rank];
  }
  /// Memory for what goes to other ranks.
  void take_memory(std::vector<Outgoing>& parts) {
    const auto own = static_cast<std::size_t>(group_->rank);
    going_.emplace(group_->executor.workspace(), (x_.rows() - parts[own].header.rows) * x_.row_size());
    places_.emplace(group_->executor.workspace(), x_.size());
    T* next = going_->data();
    for (std::size_t rank = 0; rank < parts.size(); ++rank) {
      parts[rank].values = next;
      next_.push_back(next);
      if (rank != own) next += parts[rank].header.rows * x_.row_size();
    }
  }
  void copy_all(T* place_of_own) {
    next_[static_cast<std::size_t>(group_->rank)] = place_of_own;
    const operation::OutermostSegments<CpuExecutor> sequences(group_->executor, x_.lod_view());
    const std::int64_t* const offsets = sequences.get().offsets;
    for (std::size_t i = 0; i < destinations_.size(); ++i) {
      T*& next = next_[static_cast<std::size_t>(destinations_[i])];
      (*places_)[static_cast<std::int64_t>(i)] = next;
      next += (offsets[i + 1] - offsets[i]) * x_.row_size();
    }
    launch(kernel::RunScatter(), group_->executor, x_.data(), sequences.get(), x_.row_size(),
           static_cast<T* const*>(places_->data()));
  }

  Group* group_;
  LoDTensorView<const T> x_;
  std::span<const std::int64_t> destinations_;
  const X* argument_;
  const Arriving<X>* y_;
  bool in_order_ = true;
  std::vector<T*> next_;  // where the next sequence for each rank goes
  std::optional<Workspace::Loan<std::int64_t>> numbers_;
  std::optional<Workspace::Loan<T>> going_;
  std::optional<Workspace::Loan<T*>> places_;  // of each sequence
};

template <class X>
auto exchanging(const mpi::Communicator& communicator, const X& x, std::span<const std::int64_t> destinations) {
  check_device<X>();
  return [&communicator, &x, destinations](Arriving<X>& y) {
    return Exchange<Arriving<X>, SortedParts<X>>(communicator, Operation::ALL_TO_ALL, Pattern::DENSE, 0, y,
                                                 communicator, x, destinations, y);
  };
}

/// The rows of what has been exchanged go back to where they came from. Each rank knows how many rows of its sequences
/// went to each other one, and tells it.
template <class DY>
class Returned : public Steps {
  using DX = Arriving<DY>;
  using T = value_type_t<DY>;

 public:
  Returned(const mpi::Communicator& communicator, const DY& dy, const BatchLevels& x_levels,
           std::span<const std::int64_t> destinations, DX& dx)
      : Steps(communicator),
        dy_(&dy),
        levels_(x_levels),
        destinations_(destinations),
        dx_(&dx),
        agreement_(group, Operation::ALL_TO_ALL_GRAD),
        failed_(static_cast<std::size_t>(group.size)) {}

  bool next() override {
    switch (step_++) {
      case 0:
        agree();
        return true;
      case 1:
        exchange();
        return true;
      default:
        finish();
        return false;
    }
  }

 private:
  static constexpr const char* what = "all_to_all_grad";

  void agree() {
    agreement_.prepare([&] {
      check_device<DY>();
      check_apart(what, *dy_, *dx_);
      const LoDView& levels = levels_.view();
      sorted_.emplace(destinations_, levels.size(), group.size, what);
      std::vector<std::int64_t> rows(static_cast<std::size_t>(group.size));
      sorted_->for_each([&](std::int64_t sequence, std::size_t rank, std::int64_t) {
        rows[rank] += operation::rows_before(levels, sequence + 1) - operation::rows_before(levels, sequence);
      });
      Header header = expected<DX>();
      set_row_shape(header, dy_->view().row_shape());
      for (int rank = 0; rank < group.size; ++rank) {
        header.rows = rows[static_cast<std::size_t>(rank)];
        agreement_.tell(rank, header);
      }
    });
    agreement_.exchange(messages);
  }
  void exchange() {
    agreement_.check();
    for (int rank = 0; rank < group.size; ++rank) {
      check_alike(agreement_.from(rank), agreement_.from(0), of_rank(what, rank));
    }
    const auto dy = dy_->view();
    try {
      std::int64_t rows = 0;
      for (int rank = 0; rank < group.size; ++rank) rows = detail::saturated_sum(rows, agreement_.from(rank).rows);
      if (dy.rows() != rows) {
        throw ShapeMismatch(
            detail::text({what, ": dy has ", dy.rows(), " rows, expected ", rows, ", as many as have arrived"}));
      }
      result_ = dx_->resized(LoD(), dy.row_shape(), levels_.view().rows(), dx_->resource());
      if (!sorted_->in_order()) {
        const std::int64_t staying = agreement_.from(group.rank).rows;
        received_.emplace(group.executor.workspace(), (levels_.view().rows() - staying) * dy.row_size());
        sources_.emplace(group.executor.workspace(), levels_.view().size());
      }
    } catch (...) {
      error_ = std::current_exception();
    }
    const int tag = agreement_.tag();
    std::int64_t& own = failed_[static_cast<std::size_t>(group.rank)];
    own = error_ ? 1 : 0;
    exchange_blocks(
        group, messages, tag, group.merged, [](int, int) { return static_cast<std::int64_t>(sizeof own); },
        [&own](int) {
          return Parts<const void>{{{&own, sizeof own}}};
        },
        [this](int rank) {
          return Parts<void>{{{&failed_[static_cast<std::size_t>(rank)], sizeof own}}};
        });
    const T* from = error_ ? nullptr : dy.data();
    T* to = error_ ? nullptr : sorted_->in_order() ? result_.data() : received_->data();
    for (int rank = 0; rank < group.size; ++rank) {
      const std::int64_t coming = agreement_.to(rank).rows * dy.row_size();
      const std::int64_t going = agreement_.from(rank).rows * dy.row_size();
      places_.push_back(to);
      if (rank != group.rank) {
        messages.receive(rank, tag, to, detail::bytes_of<T>(coming));
        messages.send(rank, tag, from, detail::bytes_of<T>(going));
      } else if (!error_) {
        own_ = from;
      }
      if (to && (rank != group.rank || sorted_->in_order())) to += coming;
      if (from) from += going;
    }
    // While the others are on their way.
    const std::int64_t staying = agreement_.from(group.rank).rows * dy.row_size();
    if (!error_ && sorted_->in_order() && staying > 0) {
      launch(kernel::CopyValues(), group.executor, own_, staying, places_[static_cast<std::size_t>(group.rank)]);
    }
  }
  void finish() {
    const auto is_set = [](std::int64_t failed) { return failed != 0; };
    if (std::any_of(failed_.begin(), failed_.end(), is_set)) {
      throw_together(group, agreement_.tag(), failed_, error_);
    }
    if (!sorted_->in_order()) put_in_order();
    *dx_ = std::move(result_).with_lod(levels_.view().lod());
  }
  /// What has come back, and what has stayed, to where it belongs.
  void put_in_order() {
    const LoDView& levels = levels_.view();
    const std::int64_t row_size = result_.row_size();
    std::vector<const T*> next(places_.begin(), places_.end());
    next[static_cast<std::size_t>(group.rank)] = own_;
    sorted_->for_each([&](std::int64_t sequence, std::size_t rank, std::int64_t) {
      (*sources_)[sequence] = next[rank];
      next[rank] +=
          (operation::rows_before(levels, sequence + 1) - operation::rows_before(levels, sequence)) * row_size;
    });
    const operation::OutermostSegments<CpuExecutor> sequences(group.executor, levels);
    launch(kernel::RunCopy(), group.executor, static_cast<const T* const*>(sources_->data()), sequences.get(), row_size,
           result_.data());
  }

  const DY* dy_;
  BatchLevels levels_;
  std::span<const std::int64_t> destinations_;
  DX* dx_;
  Agreement agreement_;
  std::optional<Sorted> sorted_;
  std::vector<std::int64_t> failed_;
  std::optional<Workspace::Loan<T>> received_;        // of other ranks, if it is to be put in order
  std::optional<Workspace::Loan<const T*>> sources_;  // of each sequence
  std::vector<T*> places_;                            // where the rows of each rank arrive
  const T* own_ = nullptr;                            // those that have stayed
  LoDTensor<T> result_;
  std::exception_ptr error_;
  int step_ = 0;
};

}  // namespace lod::inline LOD_INTERFACE::between_ranks::inline LOD_TARGET

namespace lod::inline LOD_INTERFACE::mpi::inline LOD_TARGET {

/// Top-level sequence i of x (row i, where there is no level) goes to the rank destinations[i]. Each rank has those
/// that have come to it: first those of rank 0, in the order that they had there, then those of rank 1, and so on.
/// Without destinations that descend nothing is copied on the way; otherwise the sequences that go to other ranks are
/// laid out first, in scratch memory of the communicator's executor.
///
/// `destinations` are int64: a range, a list in braces or a tensor. Throws ShapeMismatch unless there are as many as
/// sequences, OutOfRange for one that is no rank; InvalidLoD or ShapeMismatch if types, levels or row shapes differ
/// between ranks; on all ranks. `y` must not overlap x.
template <LoDTensorLike X>
void all_to_all_into(const Communicator& communicator, const X& x, const operation::IdList& destinations,
                     between_ranks::Arriving<X>& y) {
  between_ranks::run_into(y, between_ranks::exchanging(communicator, x, destinations));
}
template <LoDTensorLike X>
[[nodiscard]] between_ranks::Arriving<X> all_to_all(const Communicator& communicator, const X& x,
                                                    const operation::IdList& destinations) {
  return between_ranks::run(between_ranks::made<between_ranks::Arriving<X>>(communicator),
                            between_ranks::exchanging(communicator, x, destinations));
}

/// The gradient of `all_to_all`, and its way back: the rows of dy, which are in the order of what has come to a rank,
/// where they came from, under the levels of x. The levels of dy are ignored. Throws ShapeMismatch unless dy has as
/// many rows as have come, and if row shapes differ between ranks; on all ranks. `dx` must not overlap dy.
template <LoDTensorLike DY>
void all_to_all_grad_into(const Communicator& communicator, const DY& dy, const BatchLevels& x_levels,
                          const operation::IdList& destinations, between_ranks::Arriving<DY>& dx) {
  between_ranks::run(between_ranks::Returned<DY>(communicator, dy, x_levels, destinations, dx));
}
template <LoDTensorLike DY>
[[nodiscard]] between_ranks::Arriving<DY> all_to_all_grad(const Communicator& communicator, const DY& dy,
                                                          const BatchLevels& x_levels,
                                                          const operation::IdList& destinations) {
  auto dx = between_ranks::made<between_ranks::Arriving<DY>>(communicator);
  all_to_all_grad_into(communicator, dy, x_levels, destinations, dx);
  return dx;
}

}  // namespace lod::inline LOD_INTERFACE::mpi::inline LOD_TARGET
