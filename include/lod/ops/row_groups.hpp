// SPDX-License-Identifier: Apache-2.0
/// @file
/// The first step of row-sparse operations: rows sorted into groups of equal ids.
#pragma once

#include <lod/core/error.hpp>
#include <lod/core/executor.hpp>
#include <lod/core/selected_rows.hpp>
#include <lod/core/target.hpp>
#include <lod/ops/argument_list.hpp>
#include <lod/ops/kernel.hpp>
#include <lod/ops/output.hpp>
#include <lod/ops/staging.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

namespace lod::inline LOD_INTERFACE::kernel {
/// Sorts ids[0 .. count), which are in [0, height): `order` are their positions by ascending id, equal ids by ascending
/// position. unique[g] is the g-th id that occurs, at the positions order[groups[g] .. groups[g+1]). Returns the number
/// of groups. On a GPU, where the CPU does not wait for that number, returns `count`, and empty groups with the id
/// `no_row` follow the others.
struct GroupRows {};
/// A sentinel greater than all ids.
inline constexpr std::int64_t no_row = std::numeric_limits<std::int64_t>::max();
/// On a GPU. run(executor, listed, count, height, order, unique, groups, names): the same for ids that have already
/// been listed, with `order` set to 0, 1, ...; ids equal to `height` are in no group. Overwrites the list. names[g] =
/// unique[g], or -1 for `no_row`; `names` may be null.
struct GroupListed {};
/// On a GPU. run(executor, ids, values, count, row_size, height, first, listed, order, rows, zeros, zero_count):
/// listed[first + i] = ids[i], or `height` if that is outside [0, height); order[first + i] = first + i; rows[first +
/// i] is the address of row i of the values, unless `rows` is null. Also sets zeros[0 .. zero_count) to 0.
struct ListRows {};
/// On a GPU. run(executor, order, groups, of): of[order[k]] = the group of k, or -1 if it is in none.
struct GroupOfRows {};
/// The rows of row-sparse tensors, numbered consecutively: contiguous rows from `first` on, whose addresses are
/// computed, or those whose addresses are in `list`.
template <class T>
struct NumberedRows {
  const T* const* list = nullptr;
  const T* first = nullptr;  ///< if there is no list
  std::int64_t row_size = 0;

  LOD_TAGGED LOD_HOST_DEVICE const T* operator[](std::int64_t i) const noexcept {
    return list ? list[i] : first + i * row_size;
  }
};
/// run(executor, type, rows, order, groups, row_size, to, y), with `rows` as `NumberedRows`: pools the rows
/// rows[order[k]], k in group g, by SUM, AVERAGE or SQRT, into y[to[g]], or into y[g] if `to` is null. Each sum has the
/// order of additions of sequence sums, over the rows by ascending position.
struct SumGroups {};
/// y[i] = 0 for i in [0, count).
struct SetZero {};
}  // namespace lod::inline LOD_INTERFACE::kernel

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {

namespace operation {

/// The total number of rows that the sources list.
template <class T, class Device>
std::int64_t count_rows(std::span<const SelectedRows<T, Device>* const> sources) {
  std::int64_t total = 0;
  for (const auto* source : sources) total += source->value().rows();
  return total;
}

template <class G>
inline constexpr bool is_row_sparse = false;
template <class T, class Device>
inline constexpr bool is_row_sparse<SelectedRows<T, Device>> = true;

/// Several row-sparse tensors as one argument: a vector, a span, an array.
template <class Range>
concept RowSparseRange = requires(const Range& range) {
  range.size();
  requires is_row_sparse<element_t<Range>>;
};

/// Throws ShapeMismatch unless height and row shape are those of `expected`.
template <class T, class Device>
void check_same_rows(std::int64_t height, const Shape& row_shape, const SelectedRows<T, Device>& expected,
                     const Subject& what) {
  check_row_shape(row_shape, expected.row_shape(), what);
  if (height != expected.height()) {
    throw ShapeMismatch(detail::text({what.text(), ": height ", height, ", expected ", expected.height()}));
  }
}

/// The rows of one or several row-sparse tensors, sorted into groups of equal ids, in scratch memory. On a GPU there
/// are as many groups as rows; those after the ids that occur are empty.
template <Executor E, class T>
class RowGroups {
 public:
  using Sparse = SelectedRows<T, typename E::device>;

  /// On a GPU the ids that occur, then -1, are also written to `names` unless it is null, and `zeros` is set to 0.
  RowGroups(const E& executor, std::span<const Sparse* const> sources, std::int64_t* names = nullptr,
            std::span<T> zeros = {})
      : count_(count_rows<T>(sources)),
        listed_(!on_cpu<E> || sources.size() > 1 ? count_ : 0),
        // The rows of one tensor need no list: their addresses are computed.
        rows_(executor, sources.size() > 1 ? count_ : 0),
        order_(executor, count_),
        unique_(executor, count_),
        offsets_(executor, count_ + 1) {
    const kernel::Scratch<E, std::int64_t> listed(executor, listed_);
    const std::int64_t height = sources.empty() ? 0 : sources.front()->height();
    numbered_.list = rows_.data();
    if (sources.size() == 1) {
      numbered_ = {nullptr, sources.front()->value().data(), sources.front()->row_size()};
    }
    if constexpr (on_cpu<E>) {
      const std::int64_t* ids = listed.data();
      if (sources.size() == 1) {
        ids = sources.front()->rows().data();
      } else {
        list(sources, listed.data());
      }
      groups_ =
          launch(kernel::GroupRows(), executor, ids, count_, height, order_.data(), unique_.data(), offsets_.data());
    } else {
      groups_ = count_;
      const auto zero_count = static_cast<std::int64_t>(zeros.size());
      std::int64_t first = 0;
      for (const Sparse* source : sources) {
        const std::int64_t size = source->value().rows();
        launch(kernel::ListRows(), executor, source->rows().data(), source->value().data(), size, source->row_size(),
               height, first, listed.data(), order_.data(), numbered_.list ? rows_.data() : nullptr, zeros.data(),
               first == 0 ? zero_count : 0);
        first += size;
      }
      launch(kernel::GroupListed(), executor, listed.data(), count_, height, order_.data(), unique_.data(),
             offsets_.data(), names);
    }
  }

  kernel::NumberedRows<T> rows() const noexcept { return numbered_; }
  const std::int64_t* order() const noexcept { return order_.data(); }
  /// The ids that occur, ascending, for kernels.
  const std::int64_t* ids() const noexcept { return unique_.data(); }
  /// The same on the CPU.
  std::span<const std::int64_t> id_list() const noexcept requires(on_cpu<E>) {
    return {unique_.data(), static_cast<std::size_t>(groups_)};
  }
  kernel::Segments groups() const noexcept { return {offsets_.data(), groups_, count_, 0, count_}; }

 private:
  /// Lists their ids, and the addresses of their rows.
  void list(std::span<const Sparse* const> sources, std::int64_t* ids) {
    const T** rows = rows_.data();
    for (const Sparse* source : sources) {
      const std::int64_t size = source->value().rows(), row_size = source->row_size();
      const T* const values = source->value().data();
      for (std::int64_t i = 0; i < size; ++i) {
        *ids++ = source->rows()[static_cast<std::size_t>(i)];
        *rows++ = values + i * row_size;
      }
    }
  }

  std::int64_t count_;
  std::int64_t listed_;
  kernel::NumberedRows<T> numbered_;
  kernel::Scratch<E, const T*> rows_;
  kernel::Scratch<E, std::int64_t> order_;
  kernel::Scratch<E, std::int64_t> unique_;
  kernel::Scratch<E, std::int64_t> offsets_;
  std::int64_t groups_ = 0;
};

}  // namespace operation
}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET
