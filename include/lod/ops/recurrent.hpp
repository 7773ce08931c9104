// SPDX-License-Identifier: Apache-2.0
/// @file
/// What lstm.hpp and gru.hpp have in common: the rows of a ragged batch by time steps, and the states of its sequences
/// by rank.
///
/// All sequences take a step together, the longest first. So step t is a block with a row for each sequence longer than
/// t, the steps are contiguous, and the sequences that continue are always the first rows of a block: nothing is
/// padded, nothing is masked, and no product is larger than necessary.
#pragma once

#include <lod/core/error.hpp>
#include <lod/core/rank_table.hpp>
#include <lod/core/target.hpp>
#include <lod/ops/embedding.hpp>
#include <lod/ops/infer.hpp>
#include <lod/ops/kernel.hpp>
#include <lod/ops/matrix_product.hpp>
#include <lod/ops/merge_rows.hpp>
#include <lod/ops/output.hpp>
#include <lod/ops/run_copy.hpp>
#include <lod/ops/sequence_pool.hpp>
#include <lod/ops/time_major.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace lod::inline LOD_INTERFACE::kernel {
/// run(executor, x, rows, columns, y): y[j][i] = x[i][j].
struct TransposeMatrix {};
/// run(executor, rows, step): calls step(lanes, row, column) for all numbers of `rows` rows of step.size numbers each.
/// `lanes` stands for one number, or for as many as a vector has: lanes.load(x, at) reads them from x[at] on, zeros if
/// x is null; lanes.store(y, numbers) writes them; lanes.one() is 1; lanes.if_positive(condition, x) is x where the
/// condition is greater than 0, and 0 elsewhere; lanes.within(x, limit) is the number from -limit to limit that is
/// nearest to x, and lanes.if_within(x, limit, y) is y where x is between these, and 0 elsewhere. So a formula is
/// written once for all executors. step.arrays is how many numbers the step touches for each number of a row.
struct StepStates {};
/// For `StepStates`: copies rows of `size` numbers from and to matrices that may be wider, `x_stride` and `y_stride`
/// numbers from row to row. Row i is row ids[i] of x, or row i if `ids` is null. A null x stands for zeros.
template <class T>
struct MoveColumns {
  using value_type = T;

  std::int64_t size;
  const T* x;
  std::int64_t x_stride;
  const std::int64_t* ids;
  T* y;
  std::int64_t y_stride;

  static constexpr std::int64_t arrays = 2;
  LOD_ON_THE_CALLERS_SIDE
  template <class Lanes>
  LOD_TAGGED LOD_HOST_DEVICE void operator()(const Lanes& lanes, std::int64_t row, std::int64_t column) const {
    lanes.store(y + row * y_stride + column, lanes.load(x, (ids ? ids[row] : row) * x_stride + column));
  }
};
}  // namespace lod::inline LOD_INTERFACE::kernel

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {

namespace operation {

/// Whether `table` ranks the sequences of `level` by their rows.
inline bool ranks_rows(const RankTable& table, const LoDView& x, int level) {
  const auto rows = x.absolute_offsets(level);
  if (table.lod().levels() != 1 || table.size() + 1 != static_cast<std::int64_t>(rows.size())) return false;
  const auto ranked = table.lod().offsets(0);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i] - rows[0] != ranked[i]) return false;
  }
  return true;
}

/// A table that ranks the sequences of `level` by their rows, to replace `table`; none if `table` already does so.
inline std::optional<RankTable> next_table(const RankTable& table, const LoDView& x, int level) {
  if (ranks_rows(table, x, level)) return std::nullopt;
  const auto rows = x.absolute_offsets(level);
  std::vector<std::int64_t> offsets;
  for (std::int64_t row : rows) offsets.push_back(row - rows[0]);
  return RankTable(LoD::from_offsets({std::move(offsets)}));
}

/// The address of an optional tensor's numbers; null if it has no rows.
template <class X>
auto* given(const X& x) {
  return x.rows() > 0 ? x.data() : nullptr;
}

/// Some columns of a matrix: numbers that are side by side, with rows `stride` numbers apart. Null stands for zeros.
template <class T>
struct Columns {
  T* data = nullptr;
  std::int64_t stride = 0;

  /// Those from one of them on.
  Columns from(std::int64_t column) const noexcept { return {data ? data + column : nullptr, stride}; }
};
/// All columns of a tensor whose rows have `size` numbers.
template <class X>
auto all_columns(const X& x, std::int64_t size) {
  return Columns<std::remove_pointer_t<decltype(given(x))>>{given(x), size};
}

/// gates = x W + bias, where x has `rows` rows of d numbers, W d rows of `columns`. The bias may be null.
template <Executor E, class T>
void project_rows(const E& executor, std::int64_t rows, const T* x, std::int64_t d, const T* weights, const T* bias,
                  std::int64_t columns, T* gates) {
  if (bias) repeat_row(executor, bias, columns, rows, gates);
  matrix_product<E, T>(executor, false, false, rows, columns, d, 1, x, d, weights, columns, bias ? 1 : 0, gates,
                       columns);
}

/// The order of rows by time steps and of sequences by rank, in scratch memory.
template <Executor E>
class StepOrder {
 public:
  /// Backwards in time with `reverse`: step 0 of a sequence is then its last row.
  StepOrder(const E& executor, const RankTable& table, bool reverse)
      : executor_(executor),
        table_(table),
        starts_(executor, table.steps() + 1),
        rows_(executor, table.lod().rows()),
        places_(executor, table.lod().rows()),
        sequences_(executor, table.size()),
        ranks_(executor, table.size()) {
    detail::write_step_offsets(table, starts_.span());
    const auto offsets = table.lod().offsets(0);
    for (std::int64_t rank = 0; rank < table.size(); ++rank) {
      const auto [index, length] = table[rank];
      sequences_[rank] = index;
      ranks_[index] = rank;
      const std::int64_t first = offsets[static_cast<std::size_t>(index)];
      for (std::int64_t t = 0; t < length; ++t) {
        const std::int64_t row = first + (reverse ? length - 1 - t : t), place = starts_[t] + rank;
        rows_[place] = row;
        places_[row] = place;
      }
    }
  }

  std::int64_t steps() const noexcept { return table_.steps(); }
  std::int64_t rows() const noexcept { return table_.lod().rows(); }
  std::int64_t sequences() const noexcept { return table_.size(); }
  /// The rows of the steps before t, and those of step t.
  std::int64_t start(std::int64_t t) const noexcept { return starts_[t]; }
  std::int64_t active(std::int64_t t) const noexcept { return starts_[t + 1] - starts_[t]; }

  /// The number of rows of the largest step.
  std::int64_t widest() const noexcept { return steps() > 0 ? active(0) : 0; }

  /// Reorders the rows of a batch by steps, and back.
  template <class T>
  void to_steps(const T* x, std::int64_t row_size, T* by_steps) const {
    gather(x, rows_, rows(), row_size, by_steps);
  }
  template <class T>
  void to_steps(const Columns<const T>& x, std::int64_t row_size, T* by_steps) const {
    gather(x, rows_, rows(), row_size, {by_steps, row_size});
  }
  template <class T>
  void from_steps(const T* by_steps, std::int64_t row_size, T* x) const {
    gather(by_steps, places_, rows(), row_size, x);
  }
  template <class T>
  void from_steps(const T* by_steps, std::int64_t row_size, const Columns<T>& x) const {
    gather(Columns<const T>{by_steps, row_size}, places_, rows(), row_size, x);
  }
  /// Reorders one row for each sequence by rank, and back into the order of the batch. Null stands for zeros.
  template <class T>
  void to_ranks(const T* x, std::int64_t row_size, T* by_rank) const {
    to_ranks(Columns<const T>{x, row_size}, row_size, by_rank);
  }
  template <class T>
  void to_ranks(const Columns<const T>& x, std::int64_t row_size, T* by_rank) const {
    if (x.data) {
      gather(x, sequences_, sequences(), row_size, {by_rank, row_size});
    } else {
      launch(kernel::SetZero(), executor_, by_rank, sequences() * row_size);
    }
  }
  template <class T>
  void from_ranks(const T* by_rank, std::int64_t row_size, T* x) const {
    gather(by_rank, ranks_, sequences(), row_size, x);
  }
  template <class T>
  void from_ranks(const T* by_rank, std::int64_t row_size, const Columns<T>& x) const {
    gather(Columns<const T>{by_rank, row_size}, ranks_, sequences(), row_size, x);
  }

  /// Copies initial states by rank to `kept`, which has as many rows; returns their address, null if none are given.
  template <class T, class Device>
  const T* keep_states(const Columns<const T>& states, std::int64_t size, const Output<T, Device>& kept) const {
    if (!states.data) return nullptr;
    to_ranks(states, size, kept.data());
    return kept.data();
  }

  /// The state after the last step of each sequence, in the order of the batch; for an empty sequence, the one in
  /// `initial`, which is by rank. Null stands for zeros.
  template <class T>
  void last_states(const T* by_steps, const T* initial, std::int64_t row_size, const Columns<T>& last) const {
    if (last.stride == row_size) return last_states(by_steps, initial, row_size, last.data);
    const kernel::Scratch<E, T> whole(executor_, sequences() * row_size);
    last_states(by_steps, initial, row_size, whole.data());
    launch(kernel::StepStates(), executor_, sequences(),
           kernel::MoveColumns<T>{row_size, whole.data(), row_size, nullptr, last.data, last.stride});
  }
  template <class T>
  void last_states(const T* by_steps, const T* initial, std::int64_t row_size, T* last) const {
    const Array<E, const T*> sources(executor_, sequences());
    const Array<E, std::int64_t> offsets(executor_, sequences() + 1);
    const kernel::Scratch<E, T> zero(executor_, row_size);
    launch(kernel::SetZero(), executor_, zero.data(), row_size);
    for (std::int64_t i = 0; i < sequences(); ++i) {
      const std::int64_t rank = ranks_[i], length = table_[rank].length;
      sources[i] = length > 0 ? by_steps + (starts_[length - 1] + rank) * row_size
                   : initial  ? initial + rank * row_size
                              : zero.data();
      offsets[i] = i;
    }
    offsets[sequences()] = sequences();
    launch(kernel::RunCopy(), executor_, sources.on_device(), segments(offsets, sequences(), 1), row_size, last);
  }

  /// gates = x W + bias, by steps; x has rows of d numbers, W d rows of `columns`. The bias may be null.
  template <class T>
  void project(const T* x, std::int64_t d, const T* weights, const T* bias, std::int64_t columns, T* gates) const {
    const kernel::Scratch<E, T> by_steps(executor_, rows() * d);
    to_steps(x, d, by_steps.data());
    project_rows<E, T>(executor_, rows(), by_steps.data(), d, weights, bias, columns, gates);
  }
  /// The gradients of `project`: with respect to x in the order of the batch, to W, and to the bias, which may be null.
  /// `dgates` are those with respect to the gates, by steps.
  template <class T>
  void project_grad(const T* x, std::int64_t d, const T* weights, const T* dgates, std::int64_t columns, T* dx,
                    T* dweights, T* dbias) const {
    const kernel::Scratch<E, T> by_steps(executor_, rows() * d);
    to_steps(x, d, by_steps.data());
    matrix_product<E, T>(executor_, true, false, d, columns, rows(), 1, by_steps.data(), d, dgates, columns, 0,
                         dweights, columns);
    matrix_product<E, T>(executor_, false, true, rows(), d, columns, 1, dgates, columns, weights, columns, 0,
                         by_steps.data(), d);
    from_steps(by_steps.data(), d, dx);
    if (dbias) sum_columns(executor_, dgates, rows(), columns, dbias);
  }
  /// The gradient with respect to U, which multiplies the states before each step, `size` numbers each. `after` are the
  /// states after each step, `initial` those before step 0, by rank; null stands for zeros. `dproducts` are the
  /// gradients with respect to the products, by steps. Rows of `dproducts` are `stride` numbers apart, rows of
  /// `dweights` `weights_stride`.
  template <class T>
  void recur_grad(const T* after, const T* initial, std::int64_t size, std::int64_t columns, const T* dproducts,
                  std::int64_t stride, T* dweights, std::int64_t weights_stride) const {
    // The states before a step are the first rows of those after the previous step: a copy makes all of them one
    // matrix.
    const std::int64_t first = initial ? 0 : 1, count = std::max<std::int64_t>(steps() - first, 0);
    const std::int64_t skipped = count > 0 ? starts_[first] : rows();
    const kernel::Scratch<E, T> before(executor_, (rows() - skipped) * size);
    const Array<E, const T*> sources(executor_, count);
    for (std::int64_t i = 0; i < count; ++i) {
      sources[i] = first + i > 0 ? after + starts_[first + i - 1] * size : initial;
    }
    if (count > 0) {
      const kernel::Segments parts(starts_.data() + first, count, active(first));
      launch(kernel::RunCopy(), executor_, sources.on_device(), parts.at(starts_.on_device() + first), size,
             before.data());
    }
    matrix_product<E, T>(executor_, true, false, size, columns, rows() - skipped, 1, before.data(), size,
                         dproducts + skipped * stride, stride, 0, dweights, weights_stride);
  }

 private:
  template <class T>
  void gather(const T* x, const Array<E, std::int64_t>& ids, std::int64_t count, std::int64_t row_size, T* y) const {
    launch(kernel::GatherRows(), executor_, x, ids.on_device(), count, row_size, std::int64_t{-1}, y);
  }
  template <class T>
  void gather(const Columns<const T>& x, const Array<E, std::int64_t>& ids, std::int64_t count, std::int64_t row_size,
              const Columns<T>& y) const {
    if (x.stride == row_size && y.stride == row_size) return gather(x.data, ids, count, row_size, y.data);
    launch(kernel::StepStates(), executor_, count,
           kernel::MoveColumns<T>{row_size, x.data, x.stride, ids.on_device(), y.data, y.stride});
  }

  const E& executor_;
  const RankTable& table_;
  Array<E, std::int64_t> starts_;     // where each step begins
  Array<E, std::int64_t> rows_;       // for each position among the steps, the row of the batch
  Array<E, std::int64_t> places_;     // the inverse
  Array<E, std::int64_t> sequences_;  // for each rank, the sequence
  Array<E, std::int64_t> ranks_;      // the inverse
};

/// If a run fails, marks its trace as invalid, so that gradients reject it.
template <class Trace>
class NoTraceOnError {
 public:
  explicit NoTraceOnError(Trace& trace) noexcept : trace_(trace), exceptions_(std::uncaught_exceptions()) {}
  NoTraceOnError(const NoTraceOnError&) = delete;
  NoTraceOnError& operator=(const NoTraceOnError&) = delete;
  ~NoTraceOnError() {
    if (std::uncaught_exceptions() == exceptions_) return;
    trace_.hidden = std::remove_cvref_t<decltype(trace_.hidden)>(trace_.hidden.resource());
  }

 private:
  Trace& trace_;
  int exceptions_;
};

/// Throws ShapeMismatch unless a matrix of weights, whose rows are those of the tensor, has the required size.
template <class T, class Device>
void check_weights(const LoDTensor<T, Device>& found, std::int64_t rows, std::int64_t columns, const char* what,
                   const char* which) {
  if (found.rows() != rows || found.row_size() != columns) {
    throw ShapeMismatch(detail::text(
        {what, ": ", which, " of shape ", to_string(found.shape()), ", expected ", to_string(Shape{rows, columns})}));
  }
}
/// The same for a vector, which is optional.
template <class T, class Device>
void check_bias(const LoDTensor<T, Device>& found, std::int64_t size, const char* what, const char* which) {
  const std::int64_t numbers = found.rows() * found.row_size();
  if (numbers != 0 && numbers != size) {
    throw ShapeMismatch(detail::text({what, ": ", which, " of ", numbers, " numbers, expected ", size, " or none"}));
  }
}
/// Prepares a gradient with respect to weights.
template <Executor E, class T, class Device>
Output<T, Device> prepare_like(const E& executor, const OutputName& name, LoDTensor<T, Device>& dweights,
                               const LoDTensor<T, Device>& weights) {
  return prepare<T>(executor, name, dweights, SameLevels{weights.lod_view()}, weights.row_shape(), {});
}
/// Throws ShapeMismatch unless there is a row of `size` numbers for each sequence, or no row, which stands for zeros.
template <class View>
void check_states(const View& found, std::int64_t sequences, std::int64_t size, const Subject& what) {
  if (found.rows() == 0) return;
  check_row_count(found.rows(), sequences, what);
  check_row_shape(found.row_shape(), {size}, what);
}

inline void check_trace_fits(bool fits, const char* what) {
  if (!fits) throw ShapeMismatch(detail::text({what, ": the trace is not that of a run over x with these weights"}));
}
/// Throws ShapeMismatch unless the trace is that of a run over x with `size` hidden units, and whatever else is to hold
/// of it.
template <class Trace, class View>
void check_trace(const Trace& trace, const View& x, std::int64_t size, const char* what, bool also = true) {
  check_trace_fits(also && trace.level < x.levels() && ranks_rows(trace.table, x.lod_view(), trace.level) &&
                       trace.hidden.rows() == x.rows() && trace.hidden.row_size() == size,
                   what);
}

/// The size of a hidden state, from the weights. Throws ShapeMismatch for weights that do not fit. If the input's
/// weights may be and are omitted, the rows of x are already the products for all gates.
inline std::int64_t infer_hidden_size(const infer::Batch& x, LoDTensorDesc input, const LoDTensorDesc& recurrent,
                                      std::int64_t gates, const char* what, bool may_omit_input = false) {
  const std::string names[] = {detail::text({what, ": weights.recurrent"}), detail::text({what, ": weights.input"})};
  if (may_omit_input && (input.tensor.dims.empty() || input.tensor.dims.front() == 0)) {
    input = {{x.type, {x.row_size(what), x.row_size(what)}}};
  }
  const infer::Batch weights[] = {infer::Batch(recurrent, names[0].c_str()), infer::Batch(input, names[1].c_str())};
  std::int64_t size = weights[0].rows;
  for (std::size_t i = 0; i < 2; ++i) {
    infer::check_type(weights[i].type, x.type, names[i].c_str());
    const std::int64_t columns = weights[i].row_size(what);
    if (columns == infer::unknown) continue;
    if (columns % gates != 0 || !infer::agree(columns / gates, size)) {
      throw ShapeMismatch(detail::text({names[i], ": ", columns, " columns, expected ", gates, " * ",
                                        size == infer::unknown ? "the size of a state" : std::to_string(size)}));
    }
    size = columns / gates;
  }
  infer::check_row_count(weights[1].rows, x.row_size(what), names[1].c_str());
  return size;
}
/// Throws ShapeMismatch unless a vector may have `size` numbers, or is omitted.
inline void infer_vector(const LoDTensorDesc& vector, DataType type, std::int64_t size, const char* what) {
  if (vector.tensor.dims.empty()) return;
  const infer::Batch given(vector, what);
  infer::check_type(given.type, type, what);
  const std::int64_t numbers = given.elements(what);
  if (numbers != 0 && !infer::agree(numbers, size)) {
    throw ShapeMismatch(detail::text({what, " of ", numbers, " numbers, expected ", size, " or none"}));
  }
}
/// Throws ShapeMismatch unless initial states have the shape of the last ones, or are omitted.
inline void infer_initial(const LoDTensorDesc& states, const infer::Batch& last, const char* what) {
  if (states.tensor.dims.empty() || states.tensor.dims.front() == 0) return;
  const infer::Batch given(states, what);
  infer::check_type(given.type, last.type, what);
  infer::check_row_count(given.rows, last.rows, what);
  infer::common_row_shape(given.row_shape, last.row_shape, what);
}

}  // namespace operation
}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET
