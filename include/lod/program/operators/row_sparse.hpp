// SPDX-License-Identifier: Apache-2.0
/// @file
/// Row-sparse gradients in programs: variables of type SELECTED_ROWS that operators read and write, and the operators
/// merge_selected_rows and get_tensor_from_selected_rows.
#pragma once

#include <lod/core/any_tensor.hpp>
#include <lod/core/data_type.hpp>
#include <lod/core/desc.hpp>
#include <lod/core/device.hpp>
#include <lod/core/error.hpp>
#include <lod/core/executor.hpp>
#include <lod/core/lod_index.hpp>
#include <lod/core/selected_rows.hpp>
#include <lod/core/target.hpp>
#include <lod/ops/merge_rows.hpp>
#include <lod/program/operator.hpp>
#include <lod/program/variable.hpp>

#include <algorithm>
#include <cstddef>
#include <exception>
#include <memory_resource>
#include <utility>

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs {

/// Whether an argument is row-sparse.
template <class E>
bool is_row_sparse(const OperatorCall<E>& call, const Slot& slot, std::size_t i = 0) {
  return call.variable(slot, i).type() == VarType::SELECTED_ROWS;
}

/// Row-sparse values that an operator writes, as an OutputTensor for tensors. On other devices than the CPU they are
/// written in place.
template <class T, class Device = Cpu>
class OutputRows {
 public:
  OutputRows(Variable& variable, typename Device::memory_resource* resource) : rows_(in(variable, resource)) {}
  SelectedRows<T, Device>& operator*() noexcept { return rows_; }

 private:
  static SelectedRows<T, Device>& in(Variable& variable, typename Device::memory_resource* resource) {
    using Rows = SelectedRows<T, Device>;
    if (!variable.holds<Rows>()) variable = Variable(variable.type(), Rows(resource));
    return variable.get<Rows>();
  }

  SelectedRows<T, Device>& rows_;
};
template <class T>
class OutputRows<T, Cpu> {
 public:
  /// Memory that they need comes from `resource`.
  OutputRows(Variable& variable, std::pmr::memory_resource* resource)
      : variable_(variable.get<AnySelectedRows>()), rows_(resource), exceptions_(std::uncaught_exceptions()) {
    const AnyLoDTensor& value = variable_.value();
    is_taken_ = value.holds<T>() && !value.read_only() && !value.shares_memory();
    if (is_taken_) rows_ = std::move(variable_).template take<T>();
  }
  OutputRows(const OutputRows&) = delete;
  OutputRows& operator=(const OutputRows&) = delete;
  ~OutputRows() {
    if (is_taken_ || std::uncaught_exceptions() == exceptions_) variable_ = AnySelectedRows(std::move(rows_));
  }

  SelectedRows<T>& operator*() noexcept { return rows_; }

 private:
  AnySelectedRows& variable_;
  SelectedRows<T> rows_;
  bool is_taken_ = false;
  int exceptions_;
};

/// Row-sparse values that an operator reads: taken from their variable without a copy, and returned to it at the end,
/// unless it is `written`, the variable that the operator overwrites.
template <class T, class Device = Cpu>
class InputRows {
 public:
  explicit InputRows(Variable& variable) : rows_(variable.get<SelectedRows<T, Device>>()) {}
  const SelectedRows<T, Device>& operator*() const noexcept { return rows_; }

 private:
  const SelectedRows<T, Device>& rows_;
};
template <class T>
class InputRows<T, Cpu> {
 public:
  /// Throws ShapeMismatch unless the elements are of type T.
  explicit InputRows(Variable& variable, const Variable* written = nullptr)
      : variable_(variable.get<AnySelectedRows>()),
        rows_(std::move(variable_).template take<T>()),
        is_written_(&variable == written),
        exceptions_(std::uncaught_exceptions()) {}
  InputRows(const InputRows&) = delete;
  InputRows& operator=(const InputRows&) = delete;
  ~InputRows() {
    if (!is_written_ || std::uncaught_exceptions() != exceptions_) variable_ = AnySelectedRows(std::move(rows_));
  }

  const SelectedRows<T>& operator*() const noexcept { return rows_; }

 private:
  AnySelectedRows& variable_;
  SelectedRows<T> rows_;
  bool is_written_;
  int exceptions_;
};

/// Calls f(detail::ElementType<T>()) with the type of the elements of row-sparse values, float or double. Throws
/// ShapeMismatch for others.
template <class E, class F>
void with_floating_rows(const OperatorCall<E>& call, const Slot& slot, const F& f) {
  const DataType type = call.variable(slot).template get<AnySelectedRows>().value().data_type();
  if (type == DataType::FP32) return f(detail::ElementType<float>());
  if (type == DataType::FP64) return f(detail::ElementType<double>());
  throw ShapeMismatch(detail::text({call.name(slot), ": elements of ", to_string(type), ", expected FP32 or FP64"}));
}
/// The run of an operator on row-sparse values: f(executor, X, Out).
template <class E, class F>
void map_rows(const OperatorCall<E>& call, const Slot& x, const Slot& out, const F& f) {
  with_floating_rows(call, x, [&](auto element) {
    using T = typename decltype(element)::type;
    const InputRows<T> from(call.variable(x), &call.variable(out));
    OutputRows<T> to(call.variable(out), call.executor().resource());
    f(call.executor(), *from, *to);
  });
}

/// merge_selected_rows: X -> Out: each row once, with the sum of its occurrences in X.
template <Executor E>
RunOperator<E> merge_selected_rows(const OperatorArguments& op) {
  const Slot x = op.input("X"), out = op.output("Out");
  return [=](OperatorCall<E>& call) { map_rows(call, x, out, merge_add_into); };
}

/// get_tensor_from_selected_rows: X -> Out: the values of the listed rows, as a tensor.
template <Executor E>
RunOperator<E> get_tensor_from_selected_rows(const OperatorArguments& op) {
  const Slot x = op.input("X"), out = op.output("Out");
  return [=](OperatorCall<E>& call) {
    const AnyLoDTensor& value = call.variable(x).template get<AnySelectedRows>().value();
    auto y = call.output_bytes(out, value.data_type(), LoD(), value.row_shape(), value.rows());
    std::copy(value.bytes().begin(), value.bytes().end(), y.data());
  };
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs
