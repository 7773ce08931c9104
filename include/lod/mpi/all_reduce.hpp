// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup ranks
/// The sum of dense tensors over all ranks.
#pragma once

#include <lod/core/lod_tensor.hpp>
#include <lod/core/lod_view.hpp>
#include <lod/core/sizes.hpp>
#include <lod/core/target.hpp>
#include <lod/mpi/agreement.hpp>
#include <lod/mpi/blocks.hpp>
#include <lod/mpi/carried.hpp>
#include <lod/mpi/communicator.hpp>
#include <lod/mpi/messages.hpp>
#include <lod/mpi/reduction.hpp>
#include <lod/mpi/sum_tree.hpp>
#include <lod/ops/elementwise.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace lod::inline LOD_INTERFACE::between_ranks::inline LOD_TARGET {

/// Numbers that are summed up: somebody else's, or a sum.
template <class T>
struct Term {
  std::span<const T> numbers;
  std::optional<LoDTensor<T>> own = {};

  static constexpr Shape scalar{};
  LoDTensorView<const T> view() const noexcept {
    return {numbers.data(), LoDView::plain(0, static_cast<std::int64_t>(numbers.size())), &scalar, 1};
  }
};

/// Each rank owns a range of the elements: all send it what they have of that, it adds up, and sends the sum to all.
template <class T>
class DenseReduction final : public Reduction {
 public:
  DenseReduction(const mpi::Communicator& communicator, std::vector<LoDTensorView<const T>> parts,
                 const mpi::AllReduceOptions& options, LoDTensor<T>& y)
      : Reduction(communicator, Operation::ALL_REDUCE, options), given_(std::move(parts)), y_(&y) {}

  bool next() override {
    switch (step_++) {
      case 0:
        agree(given_.size(), expected<LoDTensor<T>>(), [&](std::size_t i) { return describe(given_[i]); });
        return true;
      case 1:
        know();
        send_to_owners();
        return true;
      case 2:
        send_sums();
        return true;
      default:
        finish();
        return false;
    }
  }

 private:
  /// Levels are those of this rank's.
  static Header describe(const LoDTensorView<const T>& part) {
    Header header = expected<LoDTensor<T>>();
    header.rows = 0;
    header.height = part.rows();
    set_row_shape(header, part.row_shape());
    return header;
  }
  std::int64_t elements() const {
    return detail::saturated_product(common().height, row_shape_of(common()).elements());
  }
  /// Where the range of a rank begins.
  std::int64_t first_of(int rank) const {
    const std::int64_t whole = elements() / group.size, left = elements() % group.size;
    return whole * rank + std::min<std::int64_t>(left, rank);
  }
  std::int64_t count_of(int rank) const { return first_of(rank + 1) - first_of(rank); }

  Term<T> add_terms(Term<T> a, const Term<T>& b) const {
    if (a.own) {
      add_into(group.executor, a.view(), b.view(), *a.own);
    } else {
      a.own = add(group.executor, a.view(), b.view());
      a.numbers = std::as_const(*a.own).values();
    }
    return a;
  }
  auto add_up() const noexcept {
    return [this](Term<T> a, const Term<T>& b) { return add_terms(std::move(a), b); };
  }

  /// The sums of this rank's parts.
  void sum_parts() {
    const auto given = [&](const Subtree& tree) {
      return Term<T>{given_[static_cast<std::size_t>(tree.begin)].values()};
    };
    const auto is_leaf = [](const Subtree& tree) { return tree.size() == 1; };
    if (!options_.fixed_tree) {
      if (parts_ > 0) mine_.push_back(sum_of(Subtree{0, parts_}, is_leaf, given, add_up()));
      return;
    }
    for (const Subtree& tree : trees(group.rank)) {
      mine_.push_back(sum_of(
          tree, is_leaf,
          [&](const Subtree& leaf) {
            return given({leaf.begin - begin_, leaf.end - begin_});
          },
          add_up()));
    }
  }
  void send_to_owners() {
    attempt([&] { sum_parts(); });
    const std::int64_t own = count_of(group.rank);
    arrived_.resize(failed_.size());
    attempt([&] {
      for (int rank = 0; rank < group.size; ++rank) {
        for (std::size_t i = 0; rank != group.rank && i < trees(rank).size(); ++i) {
          arrived_[static_cast<std::size_t>(rank)].emplace_back(Shape{own}, uninitialized, group.executor.resource());
        }
      }
      next_ = y_->resized(LoD(), row_shape_of(common()), common().height, y_->resource());
    });
    for (std::size_t i = 0; i < most_trees(); ++i) {
      const auto size = [this, i](int from, int to) {
        return i < trees(from).size() ? detail::bytes_of<T>(count_of(to)) : 0;
      };
      exchange_blocks(
          group, messages, agreement_.tag(), group.merged, size,
          [&](int rank) {
            const bool none = error_ || i >= mine_.size();
            return Parts<const void>{
                {{none ? nullptr : mine_[i].numbers.data() + first_of(rank), size(group.rank, rank)}}};
          },
          [this, i, size](int rank) {
            auto& of_rank = arrived_[static_cast<std::size_t>(rank)];
            return Parts<void>{{{error_ || i >= of_rank.size() ? nullptr : of_rank[i].data(), size(rank, group.rank)}}};
          });
    }
  }
  /// Nothing of the arguments is read any more after this: the output may be one of them.
  void send_sums() {
    const std::int64_t first = first_of(group.rank), own = count_of(group.rank);
    attempt([&] {
      std::vector<std::pair<Subtree, std::span<const T>>> known;
      for (int rank = 0; rank < group.size; ++rank) {
        for (std::size_t i = 0; i < trees(rank).size(); ++i) {
          const bool is_mine = rank == group.rank;
          const T* const from = is_mine ? mine_[i].numbers.data() + first
                                        : std::as_const(arrived_[static_cast<std::size_t>(rank)][i]).data();
          known.emplace_back(trees(rank)[i], std::span<const T>(from, static_cast<std::size_t>(own)));
        }
      }
      const auto find = [&](const Subtree& tree) { return find_subtree(known, tree); };
      const Term<T> sum = sum_of(
          whole(), [&](const Subtree& tree) { return find(tree) != known.end(); },
          [&](const Subtree& tree) { return Term<T>{find(tree)->second}; }, add_up());
      if (own > 0) std::memmove(next_.data() + first, sum.numbers.data(), sum.numbers.size_bytes());
    });
    std::int64_t& own_failed = failed_[static_cast<std::size_t>(group.rank)];
    own_failed = error_ ? 1 : 0;
    T* const to = error_ ? nullptr : next_.data();
    const auto bytes = [this](int rank) { return detail::bytes_of<T>(count_of(rank)); };
    exchange_blocks(
        group, messages, agreement_.tag(), group.merged,
        [bytes](int from, int) { return detail::saturated_sum(sizeof(std::int64_t), bytes(from)); },
        [&](int) {
          return Parts<const void>{{{&own_failed, sizeof own_failed}, {to ? to + first : nullptr, bytes(group.rank)}}};
        },
        [this, to, bytes](int rank) {
          return Parts<void>{{{&failed_[static_cast<std::size_t>(rank)], sizeof(std::int64_t)},
                              {to ? to + first_of(rank) : nullptr, bytes(rank)}}};
        });
  }
  void finish() {
    const auto is_set = [](std::int64_t failed) { return failed != 0; };
    if (std::any_of(failed_.begin(), failed_.end(), is_set)) {
      throw_together(group, agreement_.tag(), failed_, error_);
    }
    LoD lod = given_.empty() ? LoD() : given_.front().lod();
    *y_ = std::move(next_).with_lod(std::move(lod));
  }

  std::vector<LoDTensorView<const T>> given_;
  LoDTensor<T>* y_;
  std::vector<Term<T>> mine_;
  std::vector<std::vector<LoDTensor<T>>> arrived_;  // of each rank
  LoDTensor<T> next_;
};

/// Several tensors of this rank's: a range of them.
template <class Xs>
concept PartsOfTensor = !LoDTensorLike<Xs> && requires(const Xs& xs) {
  xs.begin();
  xs.end();
  requires LoDTensorLike<std::remove_cvref_t<decltype(*xs.begin())>>;
};
template <class Xs>
using PartOf = std::remove_cvref_t<decltype(*std::declval<const Xs&>().begin())>;

template <class T, class Xs>
std::vector<LoDTensorView<const T>> views_of(const Xs& xs) {
  std::vector<LoDTensorView<const T>> views;
  for (const auto& x : xs) views.push_back(x.view());
  return views;
}

}  // namespace lod::inline LOD_INTERFACE::between_ranks::inline LOD_TARGET

namespace lod::inline LOD_INTERFACE::mpi::inline LOD_TARGET {

/// The sum over all ranks of one tensor each, on all ranks; or of several parts of each, such as the gradients of
/// micro- batches, in a range, of which a rank may have none. Part i + 1 of a rank comes after part i, and those of a
/// rank after those of the rank before. Sums are computed in a balanced binary tree, of pairs, pairs of pairs and so
/// on, and rounded to T after each addition; over ranks, or, with `options.fixed_tree`, over all parts: then their bits
/// do not depend on which ranks have them.
///
/// Each rank adds up a range of the elements, and sends about twice the bytes of a tensor. The result has the shape of
/// the parts, and the levels of this rank's first one; `y` may be one of them. Throws ShapeMismatch for different
/// shapes, and if there is no part at all; on all ranks. If a rank runs out of memory, the values of `y` are
/// unspecified on all of them.
template <LoDTensorLike X>
void all_reduce_into(const Communicator& communicator, const X& x, between_ranks::Arriving<X>& y) {
  between_ranks::check_device<X>();
  using T = value_type_t<X>;
  between_ranks::run(between_ranks::DenseReduction<T>(communicator, {x.view()}, {}, y));
}
template <LoDTensorLike X>
[[nodiscard]] between_ranks::Arriving<X> all_reduce(const Communicator& communicator, const X& x) {
  auto y = between_ranks::made<between_ranks::Arriving<X>>(communicator);
  all_reduce_into(communicator, x, y);
  return y;
}
template <between_ranks::PartsOfTensor Xs>
void all_reduce_into(const Communicator& communicator, const Xs& parts, const AllReduceOptions& options,
                     between_ranks::Arriving<between_ranks::PartOf<Xs>>& y) {
  between_ranks::check_device<between_ranks::PartOf<Xs>>();
  using T = value_type_t<between_ranks::PartOf<Xs>>;
  between_ranks::run(between_ranks::DenseReduction<T>(communicator, between_ranks::views_of<T>(parts), options, y));
}
template <between_ranks::PartsOfTensor Xs>
[[nodiscard]] auto all_reduce(const Communicator& communicator, const Xs& parts, const AllReduceOptions& options = {}) {
  auto y = between_ranks::made<between_ranks::Arriving<between_ranks::PartOf<Xs>>>(communicator);
  all_reduce_into(communicator, parts, options, y);
  return y;
}
/// `all_reduce_into` of several parts that does not wait. The parts, and `y`, are used until it has ended.
template <between_ranks::PartsOfTensor Xs>
[[nodiscard]] Pending<void> start_all_reduce_into(const Communicator& communicator, const Xs& parts,
                                                  const AllReduceOptions& options,
                                                  between_ranks::Arriving<between_ranks::PartOf<Xs>>& y) {
  between_ranks::check_device<between_ranks::PartOf<Xs>>();
  using T = value_type_t<between_ranks::PartOf<Xs>>;
  return {communicator, std::make_unique<between_ranks::DenseReduction<T>>(
                            communicator, between_ranks::views_of<T>(parts), options, y)};
}

}  // namespace lod::inline LOD_INTERFACE::mpi::inline LOD_TARGET
