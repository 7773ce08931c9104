// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup row_sparse
/// Row-sparse tensors made tidy and dense: repeated rows added up.
#pragma once

#include <lod/kernel.hpp>
#include <lod/ops/embedding.hpp>
#include <lod/output.hpp>
#include <lod/selected_rows.hpp>
#include <lod/target.hpp>

#include <array>
#include <concepts>
#include <cstdint>
#include <span>

namespace lod::inline LOD_TARGET {

namespace kernel {
/// Sorts ids[0 .. count), which are in [0, height): `order` are their positions by ascending id, equal ids in the order
/// of their positions; unique[g] is the g-th id that occurs, at order[groups[g] .. groups[g+1]). Returns how many.
template <class Executor>
struct GroupRows : Missing<Executor> {};
/// y[to[g]] = the sum of the rows rows[order[k]], k in group g; y[g] where `to` is null. Each sum follows the tree of
/// sequence sums, over the rows in the order of their positions.
template <class Executor>
struct SumGroups : Missing<Executor> {};
/// y[i] = 0 for i in [0, count).
template <class Executor>
struct SetZero : Missing<Executor> {};
}  // namespace kernel

namespace operation {

/// The rows of one or several row-sparse tensors, sorted into groups of equal ids, in scratch memory.
template <Executor E, class T>
class RowGroups {
 public:
  using Sparse = SelectedRows<T, typename E::device>;

  RowGroups(const E& executor, std::span<const Sparse* const> sources)
      : count_(count(sources)),
        rows_(executor.workspace(), count_),
        order_(executor.workspace(), count_),
        unique_(executor.workspace(), count_),
        offsets_(executor.workspace(), count_ + 1) {
    const Workspace::Loan<std::int64_t> ids(executor.workspace(), count_);
    std::int64_t position = 0;
    for (const Sparse* source : sources) {
      const T* row = source->value().data();
      for (std::int64_t id : source->rows()) {
        ids[position] = id;
        rows_[position++] = row;
        row += source->row_size();
      }
    }
    const std::int64_t height = sources.empty() ? 0 : sources.front()->height();
    groups_ =
        kernel::GroupRows<E>::run(executor, ids.data(), count_, height, order_.data(), unique_.data(), offsets_.data());
  }

  const T* const* rows() const noexcept { return rows_.data(); }
  const std::int64_t* order() const noexcept { return order_.data(); }
  /// The ids that occur, ascending.
  std::span<const std::int64_t> ids() const noexcept { return {unique_.data(), static_cast<std::size_t>(groups_)}; }
  kernel::Segments groups() const noexcept { return {offsets_.data(), groups_, count_}; }

 private:
  static std::int64_t count(std::span<const Sparse* const> sources) {
    std::int64_t total = 0;
    for (const Sparse* source : sources) total += static_cast<std::int64_t>(source->rows().size());
    return total;
  }

  std::int64_t count_;
  Workspace::Loan<const T*> rows_;
  Workspace::Loan<std::int64_t> order_;
  Workspace::Loan<std::int64_t> unique_;
  Workspace::Loan<std::int64_t> offsets_;
  std::int64_t groups_ = 0;
};

}  // namespace operation

/// The sum of row-sparse tensors with each row listed once, ids ascending, whatever order they came in. Rows that occur
/// once keep their values. Without any row the result has none. Throws ShapeMismatch unless all have the same height
/// and row shape, and where none is given. Time: a radix sort over the bits of the height, then one pass over the
/// values; repeated rows add up as the rows of a sequence do, in the order in which they are listed. `out` must not be
/// one of the sources. Semantics: PaddlePaddle's merge_selected_rows, but always sorted.
template <Executor E, class T>
void merge_add_into(const E& executor, std::span<const SelectedRows<T, typename E::device>* const> sources,
                    SelectedRows<T, typename E::device>& out) {
  if (sources.empty()) throw ShapeMismatch("merge_add: nothing given, expected at least one row-sparse tensor");
  const auto& first = *sources.front();
  for (const auto* source : sources) {
    operation::check_row_shape(source->row_shape(), first.row_shape(), "merge_add");
    if (source->height() != first.height()) {
      throw ShapeMismatch(
          detail::text({"merge_add: height ", source->height(), ", expected ", first.height(), " as the first has"}));
    }
  }
  const operation::RowGroups<E, T> groups(executor, sources);
  out.resize(groups.ids(), first.height(), first.row_shape());
  kernel::SumGroups<E>::run(executor, groups.rows(), groups.order(), groups.groups(), first.row_size(), nullptr,
                            out.value().data());
}
template <Executor E, class T>
void merge_add_into(const E& executor, const SelectedRows<T, typename E::device>& g,
                    SelectedRows<T, typename E::device>& out) {
  const std::array sources{&g};
  merge_add_into(executor, std::span<const SelectedRows<T, typename E::device>* const>(sources), out);
}
template <Executor E, class T, std::same_as<SelectedRows<T, typename E::device>>... More>
SelectedRows<T, typename E::device> merge_add(const E& executor, const SelectedRows<T, typename E::device>& g,
                                              const More&... more) {
  SelectedRows<T, typename E::device> out(executor.resource());
  const std::array sources{&g, &more...};
  merge_add_into(executor, std::span<const SelectedRows<T, typename E::device>* const>(sources), out);
  return out;
}
template <class T, class Device, std::same_as<SelectedRows<T, Device>>... More>
auto merge_add(const SelectedRows<T, Device>& g, const More&... more) {
  return merge_add(default_executor<Device>(), g, more...);
}

/// The dense tensor that g stands for: no level, {height, row shape...}, zero where no row is listed, repeated rows
/// added up as `merge_add` does. `y` must not overlap g.
template <Executor E, class T, class Y>
void to_dense_into(const E& executor, const SelectedRows<T, typename E::device>& g, Y&& y) {
  const std::array sources{&g};
  const auto out = operation::prepare(y, operation::PlainRows{g.height()}, g.row_shape());
  const operation::RowGroups<E, T> groups(executor, sources);
  kernel::SetZero<E>::run(executor, out.data(), g.height() * g.row_size());
  kernel::SumGroups<E>::run(executor, groups.rows(), groups.order(), groups.groups(), g.row_size(), groups.ids().data(),
                            out.data());
}
template <Executor E, class T>
LoDTensor<T, typename E::device> to_dense(const E& executor, const SelectedRows<T, typename E::device>& g) {
  LoDTensor<T, typename E::device> y(executor.resource());
  to_dense_into(executor, g, y);
  return y;
}
template <class T, class Device>
auto to_dense(const SelectedRows<T, Device>& g) {
  return to_dense(default_executor<Device>(), g);
}

/// The gradient of `to_dense`: the rows of dy that `rows` lists, as a row-sparse tensor. Throws OutOfRange for an id
/// that is no row of dy.
template <Executor E, LoDTensorLike X>
SelectedRows<value_type_t<X>, device_t<X>> to_dense_grad(const E& executor, const X& dy,
                                                         std::span<const std::int64_t> rows) {
  const auto view = dy.view();
  SelectedRows<value_type_t<X>, device_t<X>> dg(executor.resource());
  dg.resize(rows, view.rows(), view.row_shape());
  kernel::GatherRows<E>::run(executor, view.data(), dg.rows().data(), static_cast<std::int64_t>(rows.size()),
                             view.row_size(), std::int64_t{-1}, dg.value().data());
  return dg;
}
template <LoDTensorLike X>
auto to_dense_grad(const X& dy, std::span<const std::int64_t> rows) {
  return to_dense_grad(default_executor<device_t<X>>(), dy, rows);
}

}  // namespace lod::inline LOD_TARGET
