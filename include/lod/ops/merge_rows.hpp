// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup row_sparse
/// Merging the repeated rows of row-sparse tensors, by sum or average; conversion to and from dense tensors.
#pragma once

#include <lod/core/error.hpp>
#include <lod/core/selected_rows.hpp>
#include <lod/ops/argument_list.hpp>
#include <lod/ops/declaration.hpp>
#include <lod/ops/embedding.hpp>
#include <lod/ops/infer.hpp>
#include <lod/ops/row_groups.hpp>
#include <lod/ops/row_places.hpp>
#include <lod/ops/run_copy.hpp>
#include <lod/ops/sequence_pool.hpp>
#include <lod/ops/several.hpp>
#include <lod/ops/staging.hpp>

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

namespace lod::inline LOD_INTERFACE::op {
struct merge_add : elements::Arithmetic {
  static constexpr Text text{"gs", "The sum of SelectedRows, one or a list, with each row listed once, ids ascending."};
};
struct merge_add_grad : elements::Arithmetic {
  static constexpr Text text{"dy, rows", "The gradient of `merge_add` for sources that list these rows."};
};
struct merge_average : elements::Arithmetic {
  static constexpr Text text{"gs", "As `merge_add`, with the average of each row's occurrences."};
};
struct merge_average_grad : elements::Arithmetic {
  static constexpr Text text{"dy, rows", "The gradient of `merge_average` for sources that list these rows."};
};
struct from_dense : elements::Any {
  static constexpr Text text{"x, rows", "The rows of x that are listed, as SelectedRows of its height."};
};
struct to_dense : elements::Arithmetic {
  static constexpr Text text{"g", "The dense tensor that SelectedRows represent."};
};
struct to_dense_grad : elements::Any {
  static constexpr Text text{"dy, rows", "The gradient of `to_dense` for a tensor that lists these rows."};
};
}  // namespace lod::inline LOD_INTERFACE::op

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {

namespace operation {

/// Throws std::invalid_argument if the output overlaps one of the row-sparse tensors.
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

/// Pools the rows of the sources by id; then change(values, count) may change them in place. On the CPU, `change` is
/// first called with null, before anything is written, to allocate its memory.
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
    if constexpr (std::derived_from<E, CpuExecutor>)
      change(static_cast<T*>(nullptr), groups.groups().size * first.row_size());
    launch(kernel::SumGroups(), executor, type, groups.rows(), groups.order(), groups.groups(), first.row_size(),
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
/// Copies the ids into the output, which on a GPU `prepare_like_rows` has not done.
template <Executor E, class T>
void copy_ids(const E& executor, const SelectedRows<T, typename E::device>& g, const RowsOutput<E, T>& out) {
  if constexpr (!on_cpu<E>) {
    if (out.ids() == g.rows().data()) return;
    launch(kernel::CopyValues(), executor, g.rows().data(), g.value().rows(), out.ids());
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
    launch(kernel::GroupOfRows(), executor, order, groups, of.data());
  }
  launch(kernel::GatherRows(), executor, values, static_cast<const std::int64_t*>(of.data()), count, row_size,
         std::int64_t{-1}, y);
}

/// The gradient of `merge_into`: each row gets the gradient of its merged row, divided as the row was.
template <Executor E, class T>
void merge_grad_into(const E& executor, PoolType type, const char* what, const SelectedRows<T, typename E::device>& dy,
                     std::span<const std::int64_t> rows, SelectedRows<T, typename E::device>& dg) {
  using Numbers = kernel::Scratch<E, std::int64_t>;
  const auto count = static_cast<std::int64_t>(rows.size());
  detail::check_value_rows(dy, what);
  detail::check_row_ids(rows, dy.height(), what);
  const OnDevice<E, std::int64_t> ids(executor, rows);
  const Numbers order(executor, count), unique(executor, count), offsets(executor, count + 1);
  const std::int64_t size = launch(kernel::GroupRows(), executor, ids.data(), count, dy.height(), order.data(),
                                   unique.data(), offsets.data());
  if constexpr (on_cpu<E>) {
    check_merged_ids(dy, {unique.data(), static_cast<std::size_t>(size)}, what);
  } else {
    check_row_count(dy.value().rows(), count, what);
  }
  const kernel::Segments groups(offsets.data(), size, count, 0, count);
  const T* values = dy.value().data();
  const kernel::Scratch<E, T> divided(executor, type == PoolType::SUM ? 0 : size * dy.row_size());
  if (type != PoolType::SUM) {
    launch(kernel::DividePooled(), executor, values, groups, dy.row_size(), type, divided.data());
    values = divided.data();
  }
  RowsOutput<E, T> out = [&] {
    const OtherMemory read("dy", dy.value());
    if constexpr (on_cpu<E>) {
      return RowsOutput<E, T>(executor, what, dg, rows, dy.height(), dy.row_shape(), {read, {"rows", rows}});
    } else {
      return RowsOutput<E, T>(executor, what, dg, count, dy.height(), dy.row_shape(), {read});
    }
  }();
  if constexpr (!on_cpu<E>) launch(kernel::CopyValues(), executor, ids.data(), count, out.ids());
  spread_groups(executor, values, static_cast<const std::int64_t*>(order.data()), groups, dy.row_size(), out.data());
}

template <class Op, PoolType type>
struct Merging : Takes<Several<Of<SelectedRows>>>,
                 Launches<kernel::ListRows, kernel::SumGroups>,
                 LaunchesOnIds<kernel::GroupRows, kernel::GroupListed> {
  template <Executor E, class T>
  static void run(const E& executor, std::span<const SelectedRows<T, typename E::device>* const> sources,
                  SelectedRows<T, typename E::device>& out) {
    merge_into<E, T>(executor, type, Declared<Op>::name, sources, out);
  }
};
template <class Op, PoolType type>
struct MergingGradient : Takes<Of<SelectedRows>, IdList>,
                         Gives<Of<SelectedRows>>,
                         Launches<kernel::DividePooled>,
                         LaunchesOnIds<kernel::GroupOfRows> {
  template <Executor E, class T>
  static void run(const E& executor, const SelectedRows<T, typename E::device>& dy, const IdList& rows,
                  SelectedRows<T, typename E::device>& dg) {
    merge_grad_into<E, T>(executor, type, Declared<Op>::name, dy, rows, dg);
  }
};
template <>
struct Declared<op::merge_add> : Merging<op::merge_add, PoolType::SUM> {
  static constexpr const char* name = "merge_add";
  using Gradient = op::merge_add_grad;
};
template <>
struct Declared<op::merge_add_grad> : MergingGradient<op::merge_add_grad, PoolType::SUM> {
  static constexpr const char* name = "merge_add_grad";
};
template <>
struct Declared<op::merge_average> : Merging<op::merge_average, PoolType::AVERAGE> {
  static constexpr const char* name = "merge_average";
  using Gradient = op::merge_average_grad;
};
template <>
struct Declared<op::merge_average_grad> : MergingGradient<op::merge_average_grad, PoolType::AVERAGE> {
  static constexpr const char* name = "merge_average_grad";
};

template <>
struct Declared<op::to_dense> : Takes<Of<SelectedRows>>, Launches<kernel::SetZero> {
  static constexpr const char* name = "to_dense";
  using Gradient = op::to_dense_grad;
  template <Executor E, class T>
  static void run(const E& executor, const SelectedRows<T, typename E::device>& g, const To<E, T>& y) {
    detail::check_value_rows(g, name);
    const std::array sources{&g};
    const auto out = prepare(executor, name, y, PlainRows{g.height()}, g.row_shape(), {{"g", g.value()}});
    const std::int64_t count = g.height() * g.row_size();
    // On a GPU the kernel that lists the rows also sets the zeros.
    const RowGroups<E, T> groups(executor, sources, nullptr, std::span<T>(out.data(), static_cast<std::size_t>(count)));
    const auto sum = [&](const kernel::Segments& of) {
      launch(kernel::SumGroups(), executor, PoolType::SUM, groups.rows(), groups.order(), of, g.row_size(),
             groups.ids(), out.data());
    };
    if constexpr (std::derived_from<E, CpuExecutor>)
      sum(groups.groups().none());  // allocates scratch memory before anything is written
    if constexpr (on_cpu<E>) launch(kernel::SetZero(), executor, out.data(), count);
    sum(groups.groups());
  }
};

template <class Op>
struct RowsOfDense : Takes<Tensor, IdList>, Gives<Of<SelectedRows>> {
  template <Executor E, class T>
  static void run(const E& executor, const Input<E, T>& x, const IdList& rows, SelectedRows<T, typename E::device>& g) {
    const char* const name = Declared<Op>::name;
    const auto count = static_cast<std::int64_t>(rows.size());
    detail::check_row_ids(rows, x.rows(), name);
    const OnDevice<E, std::int64_t> ids(executor, rows);
    RowsOutput<E, T> out = [&] {
      const OtherMemory read("x", x);
      if constexpr (on_cpu<E>) {
        return RowsOutput<E, T>(executor, name, g, rows, x.rows(), x.row_shape(), {read, {"rows", rows}});
      } else {
        return RowsOutput<E, T>(executor, name, g, count, x.rows(), x.row_shape(), {read});
      }
    }();
    if constexpr (!on_cpu<E>) launch(kernel::CopyValues(), executor, ids.data(), count, out.ids());
    launch(kernel::GatherRows(), executor, x.data(), ids.data(), count, x.row_size(), std::int64_t{-1}, out.data());
  }
};
template <>
struct Declared<op::from_dense> : RowsOfDense<op::from_dense> {
  static constexpr const char* name = "from_dense";
};
template <>
struct Declared<op::to_dense_grad> : RowsOfDense<op::to_dense_grad> {
  static constexpr const char* name = "to_dense_grad";
};

}  // namespace operation

/// The sum of row-sparse tensors, with each row listed once and ids ascending. Rows that occur once keep their values.
/// Without rows the result has none. Throws ShapeMismatch unless all have the same height and row shape, and if there
/// are no tensors. Time: a radix sort over the bits of the height, then one pass over the values; repeated rows add up
/// as the rows of a sequence do, in the order in which they are listed. Sums have the type of the rows: integers wrap
/// around, and a sum of bools is true if any is; for wider sums, merge rows of a wider type. On a GPU, where the CPU
/// does not wait for the number of ids, the result has as many places as the sources have rows; those after the ids
/// name no row and are zero. Semantics: PaddlePaddle's merge_selected_rows, but always sorted.
///
/// The sources are passed one by one, or as one range of row-sparse tensors; with an output, also as a span of pointers
/// to them. `out` must not be one of them.
inline constexpr operation::Call<op::merge_add> merge_add{};
inline constexpr operation::CallInto<op::merge_add> merge_add_into{};

/// The same with the average of each row's occurrences in all sources in place of their sum. Averages of integers are
/// exact sums divided and truncated; those of finite numbers are finite. Semantics: PaddlePaddle's MergeAverage, which
/// however divides by the number of sources.
inline constexpr operation::Call<op::merge_average> merge_average{};
inline constexpr operation::CallInto<op::merge_average> merge_average_into{};

/// The gradient of `merge_add` for sources that list `rows`, those of several sources one after the other: row i is the
/// row of dy with the id rows[i]. Throws OutOfRange for an id outside [0, dy.height()), ShapeMismatch unless dy has the
/// ids that `merge_add` returns for these rows, ascending and each of them once. On a GPU, where ids are not checked,
/// dy must have as many places as there are rows. `dg` must not be dy, nor its values overlap `rows`; `rows` may be its
/// ids.
inline constexpr operation::Call<op::merge_add_grad> merge_add_grad{};
inline constexpr operation::CallInto<op::merge_add_grad> merge_add_grad_into{};

/// The gradient of `merge_average`: the same, divided by how often the id occurs among the rows.
inline constexpr operation::Call<op::merge_average_grad> merge_average_grad{};
inline constexpr operation::CallInto<op::merge_average_grad> merge_average_grad_into{};

/// The dense tensor that g represents: no level, {height, row shape...}, zero where no row is listed, repeated rows
/// added up as by `merge_add`. `y` must not overlap g.
inline constexpr operation::Call<op::to_dense> to_dense{};
inline constexpr operation::CallInto<op::to_dense> to_dense_into{};

/// The rows of x that `rows` lists, as a row-sparse tensor of height x.rows(). A row that is listed twice counts twice:
/// `to_dense` of the result has it doubled. `rows` are int64: a range, a list in braces or a tensor. The gradient is
/// `to_dense`. The values of `g` must overlap neither x nor `rows`; `rows` may be its ids. Throws OutOfRange for an id
/// that is not a row of x.
inline constexpr operation::Call<op::from_dense> from_dense{};
inline constexpr operation::CallInto<op::from_dense> from_dense_into{};

/// The gradient of `to_dense` for a tensor that lists `rows`: `from_dense` of dy.
inline constexpr operation::Call<op::to_dense_grad> to_dense_grad{};
inline constexpr operation::CallInto<op::to_dense_grad> to_dense_grad_into{};

namespace operation {

/// The description of a row-sparse tensor with the height and the row shape of `sources`, which must agree.
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

/// The result of `merge_add`, described: see <lod/infer.hpp>. Here and below, row-sparse tensors are described as the
/// dense tensors that they represent.
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
