// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup row_sparse
/// Row-sparse tensors in canonical form: repeated rows added up or averaged; conversion to and from dense tensors.
#pragma once

#include <lod/error.hpp>
#include <lod/infer.hpp>
#include <lod/kernel.hpp>
#include <lod/ops/argument_list.hpp>
#include <lod/ops/embedding.hpp>
#include <lod/ops/row_groups.hpp>
#include <lod/ops/row_places.hpp>
#include <lod/ops/run_copy.hpp>
#include <lod/ops/sequence_pool.hpp>
#include <lod/output.hpp>
#include <lod/selected_rows.hpp>
#include <lod/staging.hpp>
#include <lod/supports.hpp>
#include <lod/target.hpp>

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

namespace lod::inline LOD_INTERFACE::op {
struct merge_add : elements::Arithmetic {};
struct merge_add_grad : elements::Arithmetic {};
struct merge_average : elements::Arithmetic {};
struct merge_average_grad : elements::Arithmetic {};
struct from_dense : elements::Any {};
struct to_dense : elements::Arithmetic {};
struct to_dense_grad : elements::Any {};
}  // namespace lod::inline LOD_INTERFACE::op

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {

namespace operation {

/// Calls f with the addresses of several row-sparse tensors.
template <Executor E, RowSparseRange Gs, class F>
void with_sources(const E& executor, const Gs& gs, const F& f) {
  using Sparse = element_t<Gs>;
  const Workspace::Loan<const Sparse*> sources(executor.workspace(), static_cast<std::int64_t>(gs.size()));
  std::int64_t count = 0;
  for (const Sparse& g : gs) sources[count++] = &g;
  f(std::span<const Sparse* const>(sources.span()));
}
/// Calls f with the addresses of all but the last, and with the last.
template <class F, class Sparse, class... More>
void with_sources_and_output(const F& f, const Sparse& g, More&... more) {
  constexpr std::size_t count = sizeof...(More);
  const auto all = std::tie(more...);
  [&]<std::size_t... i>(std::index_sequence<i...>) {
    const std::array<const Sparse*, count> sources{&g, &std::get<i>(all)...};
    f(std::span<const Sparse* const>(sources), std::get<count - 1>(all));
  }
  (std::make_index_sequence<count - 1>{});
}

/// Throws std::invalid_argument if the output overlaps one of several row-sparse tensors.
template <class T, class Device>
void check_apart_from_rows(const char* what, const SelectedRows<T, Device>& out,
                           std::span<const SelectedRows<T, Device>* const> sources) {
  for (std::size_t i = 0; i < sources.size(); ++i) {
    if (sources[i] == &out || OtherMemory("", sources[i]->value()).overlaps(OtherMemory("", out.value()))) {
      throw std::invalid_argument(
          detail::text({what, ": the output overlaps row-sparse tensor ", i, ", expected memory of its own"}));
    }
  }
}

/// Pools the rows of the sources by id; then change(values, count) may change them in place. On the CPU it is called
/// with null before anything is written, to allocate the memory that it needs.
template <Executor E, class T, class Change>
void merge_into(const E& executor, PoolType type, const char* what,
                std::span<const SelectedRows<T, typename E::device>* const> sources,
                SelectedRows<T, typename E::device>& out, const Change& change) {
  if (sources.empty()) {
    throw ShapeMismatch(detail::text({what, ": nothing given, expected at least one row-sparse tensor"}));
  }
  const auto& first = *sources.front();
  for (const auto* source : sources) {
    detail::check_value_rows(*source, what);
    check_same_rows(source->height(), source->row_shape(), first, what);
  }
  check_apart_from_rows(what, out, sources);
  const auto sum = [&](const RowGroups<E, T>& groups, T* y) {
    if constexpr (std::same_as<E, CpuExecutor>)
      change(static_cast<T*>(nullptr), groups.groups().size * first.row_size());
    kernel::SumGroups<E>::run(executor, type, groups.rows(), groups.order(), groups.groups(), first.row_size(),
                              static_cast<const std::int64_t*>(nullptr), y);
    change(y, groups.groups().size * first.row_size());
  };
  if constexpr (on_cpu<E>) {
    const RowGroups<E, T> groups(executor, sources);
    RowsOutput<E, T> merged(executor, what, out, groups.id_list(), first.height(), first.row_shape(), {});
    sum(groups, merged.data());
  } else {
    const RowsOutput<E, T> merged(executor, what, out, count_rows<T>(sources), first.height(), first.row_shape(), {});
    sum(RowGroups<E, T>(executor, sources, merged.ids()), merged.data());
  }
}
template <Executor E, class T>
void merge_into(const E& executor, PoolType type, const char* what,
                std::span<const SelectedRows<T, typename E::device>* const> sources,
                SelectedRows<T, typename E::device>& out) {
  merge_into<E, T>(executor, type, what, sources, out, [](T*, std::int64_t) {});
}

/// Throws ShapeMismatch unless the ids of dy are those of a merge of the given ids.
template <class T, class Device>
void check_merged_ids(const SelectedRows<T, Device>& dy, std::span<const std::int64_t> ids, const char* what) {
  if (!std::equal(dy.rows().begin(), dy.rows().end(), ids.begin(), ids.end())) {
    throw ShapeMismatch(
        detail::text({what, ": the ids of dy, expected those of the rows, ascending and each of them once"}));
  }
}

/// An output with the ids of g, which may be g itself if `others` permit it.
template <Executor E, class T>
RowsOutput<E, T> prepare_like_rows(const E& executor, const OutputName& name,
                                   const SelectedRows<T, typename E::device>& g,
                                   SelectedRows<T, typename E::device>& out,
                                   std::initializer_list<OtherMemory> others) {
  if constexpr (on_cpu<E>) {
    return RowsOutput<E, T>(executor, name, out, std::span<const std::int64_t>(g.rows()), g.height(), g.row_shape(),
                            others);
  } else {
    return RowsOutput<E, T>(executor, name, out, g.value().rows(), g.height(), g.row_shape(), others);
  }
}
/// Copies the ids for it, which remains to be done on a GPU.
template <Executor E, class T>
void copy_ids(const E& executor, const SelectedRows<T, typename E::device>& g, const RowsOutput<E, T>& out) {
  if constexpr (!on_cpu<E>) {
    if (out.ids() == g.rows().data()) return;
    kernel::CopyValues<E>::run(executor, g.rows().data(), g.value().rows(), out.ids());
  }
}

/// Writes to each row in a group its group's row of `values`, and zeros to rows in no group.
template <Executor E, class T>
void spread_groups(const E& executor, const T* values, const std::int64_t* order, const kernel::Segments& groups,
                   std::int64_t row_size, T* y) {
  const std::int64_t count = groups.rows();
  const kernel::Scratch<E, std::int64_t> of(executor, count);
  if constexpr (on_cpu<E>) {
    for (std::int64_t group = 0; group < groups.size; ++group) {
      for (std::int64_t k = groups.begin(group); k < groups.begin(group + 1); ++k) of.data()[order[k]] = group;
    }
  } else {
    kernel::GroupOfRows<E>::run(executor, order, groups, of.data());
  }
  kernel::GatherRows<E>::run(executor, values, static_cast<const std::int64_t*>(of.data()), count, row_size,
                             std::int64_t{-1}, y);
}

/// The gradient of `merge_into`: each of the rows gets that of its merged row, divided as the row was.
template <Executor E, class T>
void merge_grad_into(const E& executor, PoolType type, const char* what, const SelectedRows<T, typename E::device>& dy,
                     std::span<const std::int64_t> rows, SelectedRows<T, typename E::device>& dg) {
  using Numbers = kernel::Scratch<E, std::int64_t>;
  const auto count = static_cast<std::int64_t>(rows.size());
  detail::check_value_rows(dy, what);
  detail::check_row_ids(rows, dy.height(), what);
  const OnDevice<E, std::int64_t> ids(executor, rows);
  const Numbers order(executor, count), unique(executor, count), offsets(executor, count + 1);
  const std::int64_t size =
      kernel::GroupRows<E>::run(executor, ids.data(), count, dy.height(), order.data(), unique.data(), offsets.data());
  if constexpr (on_cpu<E>) {
    check_merged_ids(dy, {unique.data(), static_cast<std::size_t>(size)}, what);
  } else {
    check_row_count(dy.value().rows(), count, what);
  }
  const kernel::Segments groups(offsets.data(), size, count, 0, count);
  const T* values = dy.value().data();
  const kernel::Scratch<E, T> divided(executor, type == PoolType::SUM ? 0 : size * dy.row_size());
  if (type != PoolType::SUM) {
    kernel::DividePooled<E>::run(executor, values, groups, dy.row_size(), type, divided.data());
    values = divided.data();
  }
  RowsOutput<E, T> out = [&] {
    const OtherMemory read("dy", dy.value());
    if constexpr (on_cpu<E>) {
      return RowsOutput<E, T>(executor, what, dg, rows, dy.height(), dy.row_shape(), {read});
    } else {
      return RowsOutput<E, T>(executor, what, dg, count, dy.height(), dy.row_shape(), {read});
    }
  }();
  if constexpr (!on_cpu<E>) kernel::CopyValues<E>::run(executor, ids.data(), count, out.ids());
  spread_groups(executor, values, static_cast<const std::int64_t*>(order.data()), groups, dy.row_size(), out.data());
}

}  // namespace operation

/// The sum of row-sparse tensors with each row listed once, ids ascending, whatever order they came in. Rows that occur
/// once keep their values. Without rows the result has none. Throws ShapeMismatch unless all have the same height and
/// row shape, and for no tensors. Time: a radix sort over the bits of the height, then one pass over the values;
/// repeated rows add up as the rows of a sequence do, in the order in which they are listed. Sums have the type of the
/// rows: integers wrap around, for bool the sum is whether any is true; for wider sums, merge rows of a wider type. On
/// a GPU, where the CPU does not wait for the number of ids, the result has as many places as the sources have rows:
/// those after the ids name no row, and are zero. Semantics: PaddlePaddle's merge_selected_rows, but always sorted.
///
/// The sources are passed one by one, or as one range of row-sparse tensors; with an output, also as a span of pointers
/// to them. `out` must not be one of them.
template <Executor E, class T>
void merge_add_into(const E& executor, std::span<const SelectedRows<T, typename E::device>* const> sources,
                    SelectedRows<T, typename E::device>& out) {
  detail::check_elements<op::merge_add, T>();
  operation::merge_into<E, T>(executor, PoolType::SUM, "merge_add", sources, out);
}
template <Executor E, operation::RowSparseRange Gs>
void merge_add_into(const E& executor, const Gs& gs, operation::element_t<Gs>& out) {
  operation::with_sources(executor, gs, [&](const auto& sources) { merge_add_into(executor, sources, out); });
}
/// The last argument is the output.
template <Executor E, class T, class... More>
void merge_add_into(const E& executor, const SelectedRows<T, typename E::device>& g,
                    More&... more) requires(sizeof...(More) > 0) {
  const auto run = [&](const auto& sources, auto& out) { merge_add_into(executor, sources, out); };
  operation::with_sources_and_output(run, g, more...);
}
template <Executor E, operation::RowSparseRange Gs>
[[nodiscard]] auto merge_add(const E& executor, const Gs& gs) {
  operation::element_t<Gs> out(executor.resource());
  merge_add_into(executor, gs, out);
  return out;
}
template <operation::RowSparseRange Gs>
[[nodiscard]] auto merge_add(const Gs& gs) {
  return merge_add(default_executor<typename operation::element_t<Gs>::device>(), gs);
}
template <Executor E, class T, std::same_as<SelectedRows<T, typename E::device>>... More>
[[nodiscard]] SelectedRows<T, typename E::device> merge_add(const E& executor,
                                                            const SelectedRows<T, typename E::device>& g,
                                                            const More&... more) {
  SelectedRows<T, typename E::device> out(executor.resource());
  merge_add_into(executor, g, more..., out);
  return out;
}
template <class T, class Device, std::same_as<SelectedRows<T, Device>>... More>
[[nodiscard]] auto merge_add(const SelectedRows<T, Device>& g, const More&... more) {
  return merge_add(default_executor<Device>(), g, more...);
}

/// The same with the average of each row's occurrences in place of their sum: over all sources together, divided by the
/// number of occurrences. Averages of integers are those of the exact sum, truncated; those of finite numbers are
/// finite. Semantics: PaddlePaddle's MergeAverage, which however divides by the number of sources.
template <Executor E, class T>
void merge_average_into(const E& executor, std::span<const SelectedRows<T, typename E::device>* const> sources,
                        SelectedRows<T, typename E::device>& out) {
  detail::check_elements<op::merge_average, T>();
  operation::merge_into<E, T>(executor, PoolType::AVERAGE, "merge_average", sources, out);
}
template <Executor E, operation::RowSparseRange Gs>
void merge_average_into(const E& executor, const Gs& gs, operation::element_t<Gs>& out) {
  operation::with_sources(executor, gs, [&](const auto& sources) { merge_average_into(executor, sources, out); });
}
/// The last argument is the output.
template <Executor E, class T, class... More>
void merge_average_into(const E& executor, const SelectedRows<T, typename E::device>& g,
                        More&... more) requires(sizeof...(More) > 0) {
  const auto run = [&](const auto& sources, auto& out) { merge_average_into(executor, sources, out); };
  operation::with_sources_and_output(run, g, more...);
}
template <Executor E, operation::RowSparseRange Gs>
[[nodiscard]] auto merge_average(const E& executor, const Gs& gs) {
  operation::element_t<Gs> out(executor.resource());
  merge_average_into(executor, gs, out);
  return out;
}
template <operation::RowSparseRange Gs>
[[nodiscard]] auto merge_average(const Gs& gs) {
  return merge_average(default_executor<typename operation::element_t<Gs>::device>(), gs);
}
template <Executor E, class T, std::same_as<SelectedRows<T, typename E::device>>... More>
[[nodiscard]] SelectedRows<T, typename E::device> merge_average(const E& executor,
                                                                const SelectedRows<T, typename E::device>& g,
                                                                const More&... more) {
  SelectedRows<T, typename E::device> out(executor.resource());
  merge_average_into(executor, g, more..., out);
  return out;
}
template <class T, class Device, std::same_as<SelectedRows<T, Device>>... More>
[[nodiscard]] auto merge_average(const SelectedRows<T, Device>& g, const More&... more) {
  return merge_average(default_executor<Device>(), g, more...);
}

/// The gradient of `merge_add` for sources that list `rows`, those of several sources one after the other: row i is the
/// row of dy with the id rows[i]. Throws OutOfRange for an id outside [0, dy.height()), ShapeMismatch unless the ids of
/// dy are those of the rows, ascending and each of them once, as `merge_add` returns them; on a GPU, where they are not
/// checked, unless it has as many places as there are rows, as the result of `merge_add`. `dg` must not be dy.
template <Executor E, class T, operation::ArgumentList Rows = std::initializer_list<std::int64_t>>
void merge_add_grad_into(const E& executor, const SelectedRows<T, typename E::device>& dy, const Rows& rows,
                         SelectedRows<T, typename E::device>& dg) {
  detail::check_elements<op::merge_add_grad, T>();
  operation::merge_grad_into<E, T>(executor, PoolType::SUM, "merge_add_grad", dy, operation::ids_of(rows), dg);
}
template <Executor E, class T, operation::ArgumentList Rows = std::initializer_list<std::int64_t>>
[[nodiscard]] SelectedRows<T, typename E::device> merge_add_grad(const E& executor,
                                                                 const SelectedRows<T, typename E::device>& dy,
                                                                 const Rows& rows) {
  SelectedRows<T, typename E::device> dg(executor.resource());
  merge_add_grad_into(executor, dy, rows, dg);
  return dg;
}
template <class T, class Device, operation::ArgumentList Rows = std::initializer_list<std::int64_t>>
[[nodiscard]] auto merge_add_grad(const SelectedRows<T, Device>& dy, const Rows& rows) {
  return merge_add_grad(default_executor<Device>(), dy, rows);
}

/// The gradient of `merge_average`: the same, divided by how often the id occurs among the rows.
template <Executor E, class T, operation::ArgumentList Rows = std::initializer_list<std::int64_t>>
void merge_average_grad_into(const E& executor, const SelectedRows<T, typename E::device>& dy, const Rows& rows,
                             SelectedRows<T, typename E::device>& dg) {
  detail::check_elements<op::merge_average_grad, T>();
  operation::merge_grad_into<E, T>(executor, PoolType::AVERAGE, "merge_average_grad", dy, operation::ids_of(rows), dg);
}
template <Executor E, class T, operation::ArgumentList Rows = std::initializer_list<std::int64_t>>
[[nodiscard]] SelectedRows<T, typename E::device> merge_average_grad(const E& executor,
                                                                     const SelectedRows<T, typename E::device>& dy,
                                                                     const Rows& rows) {
  SelectedRows<T, typename E::device> dg(executor.resource());
  merge_average_grad_into(executor, dy, rows, dg);
  return dg;
}
template <class T, class Device, operation::ArgumentList Rows = std::initializer_list<std::int64_t>>
[[nodiscard]] auto merge_average_grad(const SelectedRows<T, Device>& dy, const Rows& rows) {
  return merge_average_grad(default_executor<Device>(), dy, rows);
}

/// The dense tensor that g represents: no level, {height, row shape...}, zero where no row is listed, repeated rows
/// added up as by `merge_add`. `y` must not overlap g.
template <Executor E, class T, class Y>
void to_dense_into(const E& executor, const SelectedRows<T, typename E::device>& g, Y&& y) {
  detail::check_elements<op::to_dense, T>();
  detail::check_value_rows(g, "to_dense");
  const std::array sources{&g};
  const auto out = operation::prepare<T>(executor, "to_dense", y, operation::PlainRows{g.height()}, g.row_shape(),
                                         {{"g", g.value()}});
  const std::int64_t count = g.height() * g.row_size();
  // On a GPU the kernel that lists the rows also sets the zeros.
  const operation::RowGroups<E, T> groups(executor, sources, nullptr,
                                          std::span<T>(out.data(), static_cast<std::size_t>(count)));
  const auto sum = [&](const kernel::Segments& of) {
    kernel::SumGroups<E>::run(executor, PoolType::SUM, groups.rows(), groups.order(), of, g.row_size(), groups.ids(),
                              out.data());
  };
  if constexpr (std::same_as<E, CpuExecutor>)
    sum(groups.groups().none());  // allocates scratch memory before anything is written
  if constexpr (operation::on_cpu<E>) kernel::SetZero<E>::run(executor, out.data(), count);
  sum(groups.groups());
}
template <Executor E, class T>
[[nodiscard]] LoDTensor<T, typename E::device> to_dense(const E& executor,
                                                        const SelectedRows<T, typename E::device>& g) {
  LoDTensor<T, typename E::device> y(executor.resource());
  to_dense_into(executor, g, y);
  return y;
}
template <class T, class Device>
[[nodiscard]] auto to_dense(const SelectedRows<T, Device>& g) {
  return to_dense(default_executor<Device>(), g);
}

/// The rows of x that `rows` lists, as a row-sparse tensor of height x.rows(). A row that is listed twice occurs twice,
/// and counts twice: `to_dense` of the result has it doubled. `rows` are int64: a range, a list in braces or a tensor.
/// The gradient is `to_dense`. Throws OutOfRange for an id that is not a row of x.
template <Executor E, LoDTensorLike X, operation::ArgumentList Rows = std::initializer_list<std::int64_t>>
void from_dense_into(const E& executor, const X& x, const Rows& rows, SelectedRows<value_type_t<X>, device_t<X>>& g) {
  using T = value_type_t<X>;
  const auto view = x.view();
  const auto list = operation::ids_of(rows);
  const auto count = static_cast<std::int64_t>(list.size());
  detail::check_row_ids(list, view.rows(), "from_dense");
  const operation::OnDevice<E, std::int64_t> ids(executor, list);
  operation::RowsOutput<E, T> out = [&] {
    const operation::OtherMemory read("x", view);
    if constexpr (operation::on_cpu<E>) {
      return operation::RowsOutput<E, T>(executor, "from_dense", g, list, view.rows(), view.row_shape(), {read});
    } else {
      return operation::RowsOutput<E, T>(executor, "from_dense", g, count, view.rows(), view.row_shape(), {read});
    }
  }();
  if constexpr (!operation::on_cpu<E>) kernel::CopyValues<E>::run(executor, ids.data(), count, out.ids());
  kernel::GatherRows<E>::run(executor, view.data(), ids.data(), count, view.row_size(), std::int64_t{-1}, out.data());
}
template <Executor E, LoDTensorLike X, operation::ArgumentList Rows = std::initializer_list<std::int64_t>>
[[nodiscard]] SelectedRows<value_type_t<X>, device_t<X>> from_dense(const E& executor, const X& x, const Rows& rows) {
  SelectedRows<value_type_t<X>, device_t<X>> g(executor.resource());
  from_dense_into(executor, x, rows, g);
  return g;
}
template <LoDTensorLike X, operation::ArgumentList Rows = std::initializer_list<std::int64_t>>
[[nodiscard]] auto from_dense(const X& x, const Rows& rows) {
  return from_dense(default_executor<device_t<X>>(), x, rows);
}

/// The gradient of `to_dense` for a tensor that lists `rows`: `from_dense` of dy.
template <Executor E, LoDTensorLike X, operation::ArgumentList Rows = std::initializer_list<std::int64_t>>
void to_dense_grad_into(const E& executor, const X& dy, const Rows& rows,
                        SelectedRows<value_type_t<X>, device_t<X>>& dg) {
  detail::with_name("to_dense_grad", [&] { from_dense_into(executor, dy, rows, dg); });
}
template <Executor E, LoDTensorLike X, operation::ArgumentList Rows = std::initializer_list<std::int64_t>>
[[nodiscard]] auto to_dense_grad(const E& executor, const X& dy, const Rows& rows) {
  return detail::with_name("to_dense_grad", [&] { return from_dense(executor, dy, rows); });
}
template <LoDTensorLike X, operation::ArgumentList Rows = std::initializer_list<std::int64_t>>
[[nodiscard]] auto to_dense_grad(const X& dy, const Rows& rows) {
  return detail::with_name("to_dense_grad", [&] { return from_dense(dy, rows); });
}

namespace operation {

/// A row-sparse tensor with the height and the row shape of others, which must have the same.
template <class Op>
TensorDesc infer_merged(const std::vector<TensorDesc>& sources, const char* what) {
  if (sources.empty()) {
    throw ShapeMismatch(detail::text({what, ": nothing given, expected at least one row-sparse tensor"}));
  }
  infer::Batch out = infer::batch_for<Op>({sources[0]}, what);
  for (const TensorDesc& source : sources) {
    const infer::Batch x({source}, what);
    infer::check_type(x.type, out.type, what);
    out.row_shape = infer::common_row_shape(x.row_shape, out.row_shape, what);
    if (!infer::agree(x.rows, out.rows)) {
      throw ShapeMismatch(detail::text({what, ": height ", x.rows, ", expected ", out.rows, " as the first has"}));
    }
    out.rows = infer::known(out.rows, x.rows);
  }
  return LoDTensorDesc(out).tensor;
}

}  // namespace operation

/// The result of `merge_add`, described: see <lod/infer.hpp>, also for the following. Row-sparse tensors are described
/// as the dense ones that they represent.
inline TensorDesc infer_merge_add(const std::vector<TensorDesc>& sources) {
  return operation::infer_merged<op::merge_add>(sources, "merge_add");
}
inline TensorDesc infer_merge_average(const std::vector<TensorDesc>& sources) {
  return operation::infer_merged<op::merge_average>(sources, "merge_average");
}
inline LoDTensorDesc infer_to_dense(const TensorDesc& g) { return infer::batch_for<op::to_dense>({g}, "to_dense"); }
inline TensorDesc infer_from_dense(const LoDTensorDesc& x) {
  return LoDTensorDesc(infer::batch_for<op::from_dense>(x, "from_dense")).tensor;
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET
