// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup ranks
/// Sequences that each go to a rank of their own.
#pragma once

#include <lod/core/error.hpp>
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
#include <lod/ops/select.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <span>
#include <utility>
#include <vector>

namespace lod::inline LOD_INTERFACE::between_ranks::inline LOD_TARGET {

/// Sequences sorted by where they go.
class Sorted {
 public:
  /// Throws ShapeMismatch unless there is a destination for each of `size` sequences, OutOfRange for one that is no
  /// rank.
  Sorted(std::span<const std::int64_t> destinations, std::int64_t size, int ranks, const char* what)
      : ends_(static_cast<std::size_t>(ranks) + 1) {
    if (static_cast<std::int64_t>(destinations.size()) != size) {
      throw ShapeMismatch(detail::text({what, ": ", destinations.size(), " destinations, expected ", size,
                                        ", one for each sequence (row, where there is no level)"}));
    }
    detail::check_row_ids(destinations, ranks, what);
    in_order_ = std::is_sorted(destinations.begin(), destinations.end());
    for (const std::int64_t rank : destinations) ++ends_[static_cast<std::size_t>(rank) + 1];
    for (std::size_t rank = 1; rank < ends_.size(); ++rank) ends_[rank] += ends_[rank - 1];
    if (in_order_) return;
    std::vector<std::int64_t> next = ends_;
    order_.resize(destinations.size());
    for (std::size_t i = 0; i < destinations.size(); ++i) {
      const std::int64_t place = next[static_cast<std::size_t>(destinations[i])]++;
      order_[static_cast<std::size_t>(place)] = static_cast<std::int64_t>(i);
    }
  }

  /// Whether they lie in this order already.
  bool in_order() const noexcept { return in_order_; }
  /// If they do not, their numbers in this order; those for one rank ascend.
  std::span<const std::int64_t> order() const noexcept { return order_; }
  /// For each of them, its place in this order.
  std::vector<std::int64_t> places() const {
    std::vector<std::int64_t> places(order_.size());
    for (std::size_t i = 0; i < order_.size(); ++i) {
      places[static_cast<std::size_t>(order_[i])] = static_cast<std::int64_t>(i);
    }
    return places;
  }
  /// Their rows in this order: offsets. `levels` are those of the sequences.
  std::vector<std::int64_t> offsets(const LoDView& levels, const char* what) const {
    std::vector<std::int64_t> offsets(
        detail::checked_count<std::int64_t>(detail::saturated_sum(levels.size(), 1), what));
    for (std::size_t i = 0; i + 1 < offsets.size(); ++i) {
      const std::int64_t sequence = in_order_ ? static_cast<std::int64_t>(i) : order_[i];
      const std::int64_t before = operation::rows_before(levels, sequence);
      offsets[i + 1] = offsets[i] + (operation::rows_before(levels, sequence + 1) - before);
    }
    return offsets;
  }
  /// Where those for a rank begin in this order.
  std::int64_t begin(int rank) const noexcept { return ends_[static_cast<std::size_t>(rank)]; }
  std::int64_t end(int rank) const noexcept { return begin(rank + 1); }

 private:
  std::vector<std::int64_t> ends_;
  std::vector<std::int64_t> order_;
  bool in_order_ = true;
};

/// The sequences for each rank, copied to where they lie one after the other, unless they do. Those that stay on this
/// rank are copied to the output at once.
template <class X>
class SortedParts {
  using T = value_type_t<X>;

 public:
  SortedParts(const mpi::Communicator& communicator, const X& x, std::span<const std::int64_t> destinations,
              const Arriving<X>& y)
      : communicator_(&communicator), x_(x.view()), destinations_(destinations), argument_(&x), y_(&y) {}
  std::vector<Outgoing> operator()() {
    check_apart("all_to_all", *argument_, *y_);
    const int ranks = communicator_->size(), own = communicator_->rank();
    const Sorted sorted(destinations_, x_.size(), ranks, "all_to_all");
    in_order_ = sorted.in_order();
    const std::int64_t staying = in_order_ ? 0 : sorted.end(own) - sorted.begin(own);
    LoDTensorView<const T> laid_out = x_;
    if (!in_order_) {
      const auto begin = sorted.order().begin() + static_cast<std::ptrdiff_t>(sorted.begin(own));
      const auto end = begin + static_cast<std::ptrdiff_t>(staying);
      own_ids_.assign(begin, end);
      std::vector<std::int64_t> others(sorted.order().begin(), begin);
      others.insert(others.end(), end, sorted.order().end());
      laid_out_ = select(communicator_->executor(), x_, others);
      laid_out = std::as_const(laid_out_).view();
      // The levels of what stays: those of rows without elements, of which nothing is copied.
      const LoDTensorView<const T> only_levels(nullptr, x_.lod_view(), &no_elements_, 0);
      own_levels_ = select(communicator_->executor(), only_levels, own_ids_);
    }
    std::vector<Outgoing> parts;
    for (int rank = 0; rank < ranks; ++rank) {
      if (rank == own && !in_order_) {
        parts.push_back(
            outgoing(LoDTensorView<const T>(nullptr, own_levels_.lod_view(), &x_.row_shape(), x_.row_size())));
        continue;
      }
      const std::int64_t left_out = rank > own ? staying : 0;
      parts.push_back(outgoing(laid_out.between(sorted.begin(rank) - left_out, sorted.end(rank) - left_out)));
    }
    return parts;
  }
  void copy_own(const Outgoing& part, std::byte* to, std::int64_t bytes) const {
    if (in_order_) {
      InPlace().copy_own(part, to, bytes);
    } else if (bytes > 0) {
      const LoDTensorView<T> y(reinterpret_cast<T*>(to), own_levels_.lod_view(), &x_.row_shape(), x_.row_size());
      select_into(communicator_->executor(), x_, own_ids_, y);
    }
  }

 private:
  const mpi::Communicator* communicator_;
  LoDTensorView<const T> x_;
  std::span<const std::int64_t> destinations_;
  const X* argument_;
  const Arriving<X>* y_;
  bool in_order_ = true;
  Shape no_elements_{0};
  LoDTensor<T> laid_out_;  // what goes to others
  std::vector<std::int64_t> own_ids_;
  LoDTensor<T> own_levels_;
};

template <class X>
auto exchanging(const mpi::Communicator& communicator, const X& x, std::span<const std::int64_t> destinations) {
  check_device<X>();
  return [&communicator, &x, destinations](Arriving<X>& y) {
    return Exchange<Arriving<X>, SortedParts<X>>(communicator, Operation::ALL_TO_ALL, Pattern::DENSE, 0, y,
                                                 {communicator, x, destinations, y});
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

  /// The rows of the sequences before one, in the order in which they have arrived.
  std::int64_t rows_before(std::int64_t sequence) const noexcept { return starts_[static_cast<std::size_t>(sequence)]; }
  void agree() {
    agreement_.prepare([&] {
      check_device<DY>();
      check_apart(what, *dy_, *dx_);
      const LoDView& levels = levels_.view();
      sorted_.emplace_back(destinations_, levels.size(), group.size, what);
      starts_ = sorted_[0].offsets(levels, what);
      Header header = expected<DX>();
      set_row_shape(header, dy_->view().row_shape());
      for (int rank = 0; rank < group.size; ++rank) {
        header.rows = rows_before(sorted_[0].end(rank)) - rows_before(sorted_[0].begin(rank));
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
    const std::int64_t row_bytes = detail::bytes_of<T>(dy.row_size());
    try {
      std::int64_t rows = 0;
      for (int rank = 0; rank < group.size; ++rank) rows = detail::saturated_sum(rows, agreement_.from(rank).rows);
      if (dy.rows() != rows) {
        throw ShapeMismatch(
            detail::text({what, ": dy has ", dy.rows(), " rows, expected ", rows, ", as many as have arrived"}));
      }
      received_ = dx_->resized(LoD(), dy.row_shape(), levels_.view().rows(), dx_->resource());
      if (!sorted_[0].in_order()) {
        // The rows are put in order from here.
        result_ = std::move(received_);
        received_ =
            LoDTensor<T>(Shape(levels_.view().rows(), dy.row_shape()), uninitialized, group.executor.resource());
      }
    } catch (...) {
      error_ = std::current_exception();
    }
    const int tag = agreement_.tag();
    std::int64_t& own = failed_[static_cast<std::size_t>(group.rank)];
    own = error_ ? 1 : 0;
    const auto* from = error_ ? nullptr : reinterpret_cast<const std::byte*>(dy.data());
    auto* const to = error_ ? nullptr : reinterpret_cast<std::byte*>(received_.data());
    exchange_blocks(
        group, messages, tag, group.merged, [](int, int) { return static_cast<std::int64_t>(sizeof own); },
        [&own](int) {
          return Parts<const void>{{{&own, sizeof own}}};
        },
        [this](int rank) {
          return Parts<void>{{{&failed_[static_cast<std::size_t>(rank)], sizeof own}}};
        });
    for (int rank = 0; rank < group.size; ++rank) {
      const std::int64_t first = rows_before(sorted_[0].begin(rank));
      const std::int64_t bytes_back = (rows_before(sorted_[0].end(rank)) - first) * row_bytes;
      const std::int64_t bytes = agreement_.from(rank).rows * row_bytes;
      std::byte* const place = to ? to + first * row_bytes : nullptr;
      if (rank == group.rank) {
        if (to && bytes > 0) std::memcpy(place, from, static_cast<std::size_t>(bytes));
      } else {
        messages.receive(rank, tag, place, bytes_back);
        messages.send(rank, tag, from, bytes);
      }
      if (from) from += bytes;
    }
  }
  void finish() {
    const auto is_set = [](std::int64_t failed) { return failed != 0; };
    if (std::any_of(failed_.begin(), failed_.end(), is_set)) {
      throw_together(group, agreement_.tag(), failed_, error_);
    }
    LoD lod = levels_.view().lod();
    if (sorted_[0].in_order()) {
      *dx_ = std::move(received_).with_lod(std::move(lod));
      return;
    }
    if (lod.levels() > 0) received_ = std::move(received_).with_lod(LoD::from_offsets({starts_}));
    select_into(group.executor, received_, sorted_[0].places(), result_);
    *dx_ = std::move(result_).with_lod(std::move(lod));
  }

  const DY* dy_;
  BatchLevels levels_;
  std::span<const std::int64_t> destinations_;
  DX* dx_;
  Agreement agreement_;
  std::vector<Sorted> sorted_;  // one
  std::vector<std::int64_t> starts_;
  std::vector<std::int64_t> failed_;
  LoDTensor<T> received_;
  LoDTensor<T> result_;
  std::exception_ptr error_;
  int step_ = 0;
};

}  // namespace lod::inline LOD_INTERFACE::between_ranks::inline LOD_TARGET

namespace lod::inline LOD_INTERFACE::mpi::inline LOD_TARGET {

/// Top-level sequence i of x (row i, where there is no level) goes to the rank destinations[i]. Each rank has those
/// that have come to it: first those of rank 0, in the order that they had there, then those of rank 1, and so on.
/// Without destinations that descend nothing is copied on the way; otherwise the sequences are laid out in a copy
/// first.
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
