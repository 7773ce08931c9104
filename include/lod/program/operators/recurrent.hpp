// SPDX-License-Identifier: Apache-2.0
/// @file
/// What operators of recurrent networks have in common. Their input has already been projected, by `mul` and
/// `elementwise_add`, and their gates are in PaddlePaddle's order; so they call the steps of `lod::gru` and `lod::lstm`
/// directly.
#pragma once

#include <lod/core/any_tensor.hpp>
#include <lod/core/device.hpp>
#include <lod/core/error.hpp>
#include <lod/core/executor.hpp>
#include <lod/core/lod_view.hpp>
#include <lod/core/rank_table.hpp>
#include <lod/core/shape.hpp>
#include <lod/core/target.hpp>
#include <lod/ops/output.hpp>
#include <lod/ops/recurrent.hpp>
#include <lod/ops/step_functions.hpp>
#include <lod/program/operator.hpp>
#include <lod/program/operators/calls.hpp>
#include <lod/program/variable.hpp>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <utility>

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs {

/// The function that an attribute names.
inline kernel::StepFunction step_function(const OperatorArguments& op, const char* attr,
                                          kernel::StepFunction::Name otherwise) {
  static constexpr const char* names[] = {"sigmoid", "tanh", "relu", "identity"};
  const std::string name = op.attr(attr, names[otherwise]);
  const auto* const found = std::find(std::begin(names), std::end(names), name);
  if (found == std::end(names)) op.refuse_attr(attr, "sigmoid, tanh, relu or identity");
  return {static_cast<kernel::StepFunction::Name>(found - names)};
}
/// The function that gru_unit names by a number.
inline kernel::StepFunction numbered_step_function(const OperatorArguments& op, const char* attr,
                                                   kernel::StepFunction::Name otherwise) {
  using enum kernel::StepFunction::Name;
  constexpr kernel::StepFunction::Name names[] = {IDENTITY, SIGMOID, TANH, RELU};
  const std::int32_t number = op.attr(
      attr, static_cast<std::int32_t>(std::find(std::begin(names), std::end(names), otherwise) - std::begin(names)));
  if (number < 0 || number >= std::ssize(names)) op.refuse_attr(attr, "0 to 3: identity, sigmoid, tanh or relu");
  return {names[number]};
}

/// The numbers of an optional tensor, which must have `count` of them; null if there is no tensor.
template <class T, class E>
const T* optional_numbers(const OperatorCall<E>& call, const Slot& slot, std::int64_t count, const char* expected) {
  if (!slot) return nullptr;
  const auto found = call.template view<T>(slot);
  if (found.rows() * found.row_size() != count) {
    throw ShapeMismatch(detail::text(
        {call.name(slot), " of shape ", to_string(found.shape()), ", expected ", count, " numbers: ", expected}));
  }
  return found.data();
}
/// The numbers of a matrix.
template <class T, class E>
const T* matrix(const OperatorCall<E>& call, const Slot& slot, std::int64_t rows, std::int64_t columns) {
  const auto found = call.template view<T>(slot);
  if (found.rows() != rows || found.row_size() != columns) {
    throw ShapeMismatch(detail::text(
        {call.name(slot), " of shape ", to_string(found.shape()), ", expected ", to_string(Shape{rows, columns})}));
  }
  return found.data();
}
/// The width of a state: a row of the input is `gates` times as wide.
template <class View, class E>
std::int64_t state_size(const OperatorCall<E>& call, const Slot& slot, const View& x, std::int64_t gates) {
  if (x.row_size() % gates != 0) {
    throw ShapeMismatch(detail::text(
        {call.name(slot), ": rows of ", x.row_size(), " numbers, expected ", gates, " numbers for each of the state"}));
  }
  return x.row_size() / gates;
}
/// Updates the rank table, which is kept from run to run, for x.
template <class View, class E>
void rank_rows(const OperatorCall<E>& call, const Slot& slot, const View& x, RankTable& table) {
  if (x.levels() == 0) operation::throw_no_level(call.name(slot).c_str());
  std::optional<RankTable> next = operation::next_table(table, x.lod_view(), x.levels() - 1);
  if (next) table = std::move(*next);
}
/// The initial states by rank, in `kept`; null if there are none.
template <class T, class E>
const T* initial_states(const OperatorCall<E>& call, const Slot& slot, const operation::StepOrder<E>& order,
                        std::int64_t size, T* kept) {
  if (!slot) return nullptr;
  order.to_ranks(matrix<T>(call, slot, order.sequences(), size), size, kept);
  return kept;
}

/// An output of `rows` rows of `columns` numbers without levels, which may be left out.
template <class T, class E>
class BatchOutput {
 public:
  BatchOutput(const OperatorCall<E>& call, const Slot& out, Variable& spare, std::int64_t rows, std::int64_t columns)
      : tensor_(output_or<T>(call, out, spare)),
        prepared_(
            operation::prepare<T>(call.executor(), "output", *tensor_, operation::PlainRows{rows}, {columns}, {})) {}
  T* data() const noexcept { return prepared_.data(); }

 private:
  OutputTensor<T, typename E::device> tensor_;
  operation::Output<T, typename E::device> prepared_;
};
/// An output of the structure of an input, such as the gradient with respect to it, which may be left out.
template <class T, class E>
class OutputLike {
 public:
  OutputLike(const OperatorCall<E>& call, const Slot& input, const Slot& out, Variable& spare)
      : OutputLike(call, input, out, spare, call.tensor(input).row_shape()) {}
  /// With the levels of the input, and rows of another shape.
  OutputLike(const OperatorCall<E>& call, const Slot& input, const Slot& out, Variable& spare, const Shape& row_shape)
      : tensor_(output_or<T>(call, out, spare)),
        prepared_(operation::prepare<T>(call.executor(), "gradient", *tensor_,
                                        operation::SameLevels{call.template view<T>(input).lod_view()}, row_shape,
                                        {})) {}
  T* data() const noexcept { return prepared_.data(); }

 private:
  OutputTensor<T, typename E::device> tensor_;
  operation::Output<T, typename E::device> prepared_;
};

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs
