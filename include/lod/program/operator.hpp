// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup descriptions
/// The operator: the code that runs an OpDesc. There is one for each type of operators, found by the type's name in
/// programs.
///
///     lod::operators().add("plus", {.prepare = [](const lod::OperatorArguments& op) {
///       const lod::Slot x = op.input("X"), y = op.output("Out");
///       const float number = op.attr("number", 1.0f);
///       return [=](lod::OperatorCall<>& call) {
///         auto out = call.output<float>(y);
///         out->resize(call.tensor(x).lod(), call.tensor(x).row_shape(), call.tensor(x).rows());
///         std::ranges::transform(call.view<float>(x).values(), out->data(), [=](float v) { return v + number; });
///       };
///     }});
#pragma once

#include <lod/core/any_tensor.hpp>
#include <lod/core/data_type.hpp>
#include <lod/core/error.hpp>
#include <lod/core/executor.hpp>
#include <lod/core/floating_point_control.hpp>
#include <lod/core/lod_index.hpp>
#include <lod/core/lod_view.hpp>
#include <lod/core/shape.hpp>
#include <lod/core/target.hpp>
#include <lod/program/gradient.hpp>
#include <lod/program/infer_shape_context.hpp>
#include <lod/program/operator_arguments.hpp>
#include <lod/program/operator_output.hpp>
#include <lod/program/program.hpp>
#include <lod/program/variable.hpp>

#include <pthread.h>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace lod::inline LOD_INTERFACE {

/// A call of an operator: its executor and its variables, which are reached by the slots that its arguments gave it.
template <Executor E = CpuExecutor>
class OperatorCall {
  static constexpr bool is_on_cpu = std::same_as<typename E::device, Cpu>;

 public:
  /// The device in whose memory its tensors are.
  using device = typename E::device;
  /// A tensor of any element type, in the memory of that device.
  using Any = BasicAnyLoDTensor<device>;

  /// `variables` are the arguments of all inputs, then those of all outputs, null for empty names. The executor must
  /// outlive this object.
  LOD_TAGGED OperatorCall(const E& executor, std::vector<Variable*> variables)
      : executor_(&executor), variables_(std::move(variables)) {
    if constexpr (!is_on_cpu) on_cpu_.emplace(default_executor<Cpu>(), variables_);
  }

  /// The executor that the operator runs on.
  LOD_TAGGED const E& executor() const noexcept { return *executor_; }
  /// Sets the executor, which must outlive this object.
  LOD_TAGGED void run_on(const E& executor) noexcept { executor_ = &executor; }

  /// From now on the memory of an output comes from `resource`, and `let_go` gives it back there when the value is no
  /// longer needed. The output must not be an input as well. O(variables).
  LOD_TAGGED void reuse(const Variable& output, auto* resource) { kept_.add(variables_, output, resource); }
  /// Gives the memory of such an output back. Its type and row shape stay known.
  LOD_TAGGED void let_go(Variable& output) { kept_.let_go(variables_, output); }

  /// The same operator on the CPU, for those of its variables whose tensors are in CPU memory: see
  /// Operator::on_cpu.
  LOD_TAGGED const auto& on_cpu() const noexcept {
    if constexpr (is_on_cpu) {
      return *this;
    } else {
      return *on_cpu_;
    }
  }

  /// The greatest number of sequences of the last level among its tensors; 0 if none has levels.
  LOD_TAGGED std::int64_t sequences() const {
    std::int64_t most = 0;
    for (const Variable* const variable : variables_) {
      if (!variable || !variable->template holds<Any>()) continue;
      const LoD& lod = variable->template get<Any>().lod();
      if (lod.levels() > 0) most = std::max(most, lod.size(lod.levels() - 1));
    }
    return most;
  }

  /// The bytes of all tensors that it reads and writes, each variable once.
  LOD_TAGGED std::int64_t bytes() const {
    std::size_t sum = 0;
    for (auto one = variables_.begin(); one != variables_.end(); ++one) {
      if (!*one || std::find(variables_.begin(), one, *one) != one) continue;
      const Variable& variable = **one;
      if (variable.template holds<Any>()) sum += variable.template get<Any>().bytes().size();
      if (variable.holds<AnySelectedRows>()) sum += variable.get<AnySelectedRows>().value().bytes().size();
      if (!variable.holds<std::vector<AnyLoDTensor>>()) continue;
      for (const AnyLoDTensor& tensor : variable.get<std::vector<AnyLoDTensor>>()) sum += tensor.bytes().size();
    }
    return static_cast<std::int64_t>(sum);
  }

  /// Whether a slot has argument i, and it is not an empty name.
  LOD_TAGGED bool has(const Slot& slot, std::size_t i = 0) const noexcept {
    return i < slot.size && variables_[slot.first + i];
  }
  /// The variable that is argument i of a slot. Throws InvalidProgram if the name is empty.
  LOD_TAGGED Variable& variable(const Slot& slot, std::size_t i = 0) const {
    LOD_ASSERT(i < slot.size);
    Variable* const found = variables_[slot.first + i];
    if (!found) throw InvalidProgram(detail::text({"argument ", i, " is empty, expected a variable"}));
    return *found;
  }
  /// The tensor in that variable. Throws ShapeMismatch if the variable holds something else.
  LOD_TAGGED const Any& tensor(const Slot& slot, std::size_t i = 0) const {
    return variable(slot, i).template get<Any>();
  }
  /// A view of that tensor. Throws ShapeMismatch, naming the variable, unless its elements are of type T.
  template <class T>
  LOD_TAGGED LoDTensorView<const T, device> view(const Slot& slot, std::size_t i = 0) const {
    const Any& found = tensor(slot, i);
    if (!found.template holds<T>()) throw_type(slot, i, to_string(data_type_v<T>));
    return found.template view<T>();
  }
  /// The tensor of an output, for an operation to write.
  template <class T>
  LOD_TAGGED OutputTensor<T, device> output(const Slot& slot, std::size_t i = 0) const {
    return OutputTensor<T, device>(variable(slot, i), kept_.resource(slot.first + i, executor_->resource()),
                                   spare_of(slot, i));
  }
  /// An output of this structure, whose bytes are to be written. `rows` is used only for a LoD without levels.
  LOD_TAGGED OutputBytes<device> output_bytes(const Slot& slot, DataType type, const LoD& lod, const Shape& row_shape,
                                              std::int64_t rows, std::size_t i = 0) const {
    Any& written = variable(slot, i).template get<Any>();
    Any* const spare = spare_of(slot, i);
    auto* const resource = kept_.resource(slot.first + i, executor_->resource());
    return OutputBytes<device>(written, (spare ? *spare : written).resized(type, lod, row_shape, rows, resource),
                               spare);
  }
  /// The same for a whole shape, in which a scalar is one row. The output has the levels of `like` if that has as many
  /// rows, else none.
  LOD_TAGGED OutputBytes<device> output_bytes(const Slot& slot, DataType type, const Shape& shape, const Any& like,
                                              std::size_t i = 0) const {
    const std::int64_t rows = shape.empty() ? 1 : shape.front();
    const bool keeps_levels = like.levels() > 0 && like.rows() == rows;
    return output_bytes(slot, type, keeps_levels ? like.lod() : LoD(), shape.without_first(), rows, i);
  }

  /// @{
  /// Calls f(detail::ElementType<T>()) with the type T of a tensor's elements. Throws ShapeMismatch, naming the
  /// variable, for other types than float and double, or, for `with_id`, than std::int32_t and std::int64_t;
  /// `with_number` takes all four.
  template <class F>
  LOD_TAGGED void with_floating(const Slot& slot, const F& f) const {
    const DataType type = tensor(slot).data_type();
    if (type == DataType::FP32) return f(detail::ElementType<float>());
    if (type == DataType::FP64) return f(detail::ElementType<double>());
    throw_type(slot, 0, "FP32 or FP64");
  }
  template <class F>
  LOD_TAGGED void with_id(const Slot& slot, const F& f) const {
    const DataType type = tensor(slot).data_type();
    if (type == DataType::INT32) return f(detail::ElementType<std::int32_t>());
    if (type == DataType::INT64) return f(detail::ElementType<std::int64_t>());
    throw_type(slot, 0, "INT32 or INT64");
  }
  template <class F>
  LOD_TAGGED void with_number(const Slot& slot, const F& f) const {
    const DataType type = tensor(slot).data_type();
    if (type == DataType::INT32) return f(detail::ElementType<std::int32_t>());
    if (type == DataType::INT64) return f(detail::ElementType<std::int64_t>());
    if (type == DataType::FP32) return f(detail::ElementType<float>());
    if (type == DataType::FP64) return f(detail::ElementType<double>());
    throw_type(slot, 0, "FP32, FP64, INT32 or INT64");
  }
  /// @}

  /// The name of a variable, for errors.
  LOD_TAGGED std::string name(const Slot& slot, std::size_t i = 0) const {
    return detail::text({"variable '", variable(slot, i).name(), "'"});
  }

 private:
  /// The tensor whose memory or structure an output starts from; null if it starts from its variable's tensor.
  LOD_TAGGED Any* spare_of(const Slot& slot, std::size_t i) const {
    return is_read(slot, i) ? &spare_ : kept_.structure(slot.first + i, variable(slot, i));
  }
  /// Whether an output is an input as well.
  LOD_TAGGED bool is_read(const Slot& slot, std::size_t i) const noexcept {
    const Variable* const written = variables_[slot.first + i];
    for (std::size_t other = 0; other < slot.first; ++other) {
      if (variables_[other] == written) return true;
    }
    return false;
  }
  LOD_TAGGED [[noreturn, gnu::cold, gnu::noinline]] void throw_type(const Slot& slot, std::size_t i,
                                                                    const char* expected) const {
    throw ShapeMismatch(detail::text(
        {name(slot, i), ": elements of ", to_string(tensor(slot, i).data_type()), ", expected ", expected}));
  }

  const E* executor_;
  std::vector<Variable*> variables_;
  /// For an output that is also an input: its tensor of the run before last, whose memory is written next.
  mutable Any spare_;
  mutable detail::KeptOutputs<device> kept_;
  std::conditional_t<is_on_cpu, std::monostate, std::optional<OperatorCall<CpuExecutor>>> on_cpu_;
};

/// What an operator does in each run.
template <Executor E = CpuExecutor>
using RunOperator = std::function<void(OperatorCall<E>&)>;

/// The implementation of a type of operators.
template <Executor E = CpuExecutor>
struct Operator {
  /// Reads the arguments of one operator, once for many runs, and returns the function that each run calls. Throws
  /// InvalidProgram for arguments that are not supported, so that a program is refused before anything has run.
  ///
  /// If the returned function throws, it should leave the outputs as they were.
  std::function<RunOperator<E>(const OperatorArguments&)> prepare = {};
  /// Describes the operators that compute the gradients of its inputs. Empty for operators without a gradient, such as
  /// comparisons: `append_backward` then treats their outputs as constants.
  std::function<DescribeGradient> gradient = {};
  /// Describes its outputs from the descriptions of its inputs, for `infer_shapes`. Empty if they are not known before
  /// it runs. Gradient operators need none: their outputs, `x@GRAD`, are described as `x`.
  InferShape infer = {};
  /// On a device other than the CPU: the parameters whose tensors it needs in CPU memory, separated by spaces. The
  /// operators that compute those tensors run on the CPU, too.
  std::string_view on_cpu = {};
};

}  // namespace lod::inline LOD_INTERFACE

namespace lod::inline LOD_INTERFACE::detail {

/// The implementation of a type of operators that comes with the library.
template <class E>
struct BuiltInOperator {
  std::string_view type;
  RunOperator<E> (*prepare)(const OperatorArguments&);
  DescribeGradient* gradient = nullptr;
  std::string_view on_cpu = {};  ///< see Operator
};

}  // namespace lod::inline LOD_INTERFACE::detail

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs {

/// All operators of the library, ascending by type, compiled with the including file.
template <class E>
std::span<const detail::BuiltInOperator<E>> all();
/// The same, compiled here, or in the libraries lodtensor::cpu and lodtensor::cuda if a program is linked with them.
template <class E>
std::span<const detail::BuiltInOperator<E>> built_in() {
  return all<E>();
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs

namespace lod::inline LOD_INTERFACE {

namespace detail {

/// The `prepare` of an operator that computes with the standard control word, both from its attributes and when it
/// runs: its results do not depend on the control word of the calling thread.
template <class E>
LOD_TAGGED std::function<RunOperator<E>(const OperatorArguments&)> with_standard_control(
    std::function<RunOperator<E>(const OperatorArguments&)> prepare) {
  return [prepare = std::move(prepare)](const OperatorArguments& op) -> RunOperator<E> {
    const StandardArithmetic standard;
    return [run = prepare(op)](OperatorCall<E>& call) {
      const StandardArithmetic standard_again;
      run(call);
    };
  };
}

/// Operators that users have added, for the executor E.
template <class E>
struct AddedOperators {
  LOD_TAGGED AddedOperators() = default;
  LOD_TAGGED ~AddedOperators() = default;
  std::mutex mutex;
  std::map<std::string, Operator<E>, std::less<>> by_type;
};
/// Created at first use and never destroyed, since programs may run while the process ends.
template <class E>
inline AddedOperators<E>* added_operators = nullptr;

template <class E>
LOD_TAGGED AddedOperators<E>& settled_added_operators() {
  AddedOperators<E>* made = __atomic_load_n(&added_operators<E>, __ATOMIC_ACQUIRE);
  if (made) return *made;
  auto* const mine = new AddedOperators<E>;
  if (__atomic_compare_exchange_n(&added_operators<E>, &made, mine, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
    // In a child of fork() there are no threads that hold the mutex.
    pthread_atfork([] { added_operators<E>->mutex.lock(); }, [] { added_operators<E>->mutex.unlock(); },
                   [] { added_operators<E>->mutex.unlock(); });
    return *mine;
  }
  delete mine;
  return *made;
}

}  // namespace detail

/// The operators by type: those of the library and those that users have added. Any number of threads may use it at the
/// same time.
template <Executor E = CpuExecutor>
class Operators {
 public:
  /// The operator of a type; nothing if there is none. O(log operators).
  LOD_TAGGED std::optional<Operator<E>> find(std::string_view type) const {
    auto& added = detail::settled_added_operators<E>();
    {
      const std::lock_guard lock(added.mutex);
      if (const auto found = added.by_type.find(type); found != added.by_type.end()) return found->second;
    }
    return built_in(type);
  }
  /// The library's own operator of a type, even if it has been replaced; nothing if there is none.
  LOD_TAGGED std::optional<Operator<E>> built_in(std::string_view type) const {
    const auto all = operators_of_programs::built_in<E>();
    const auto one = std::ranges::lower_bound(all, type, {}, &detail::BuiltInOperator<E>::type);
    if (one == all.end() || one->type != type) return std::nullopt;
    return Operator<E>{detail::with_standard_control<E>(one->prepare), one->gradient,
                       operators_of_programs::inference_of(type), one->on_cpu};
  }
  /// Whether users have added or replaced the operator of a type.
  LOD_TAGGED bool is_added(std::string_view type) const {
    auto& added = detail::settled_added_operators<E>();
    const std::lock_guard lock(added.mutex);
    return added.by_type.contains(type);
  }

  /// Adds an operator. Throws std::invalid_argument if there is one of that type already, and if its `prepare` is
  /// empty.
  LOD_TAGGED void add(std::string type, Operator<E> op) const {
    expect_prepare(type, op);
    bool is_known = find(type).has_value();
    if (!is_known) {
      auto& added = detail::settled_added_operators<E>();
      const std::lock_guard lock(added.mutex);
      is_known = !added.by_type.try_emplace(type, std::move(op)).second;
    }
    if (is_known)
      throw std::invalid_argument(detail::readable(detail::text({"operator '", type, "': there is one already"})));
  }
  /// Replaces the operator of a type in all programs that are prepared from now on, for instance by a faster one.
  /// `built_in` still returns the library's, to which the new one may leave the cases that it does not cover. Throws
  /// std::invalid_argument if there is none of that type, and if its `prepare` is empty.
  LOD_TAGGED void replace(std::string type, Operator<E> op) const {
    expect_prepare(type, op);
    if (!find(type))
      throw std::invalid_argument(detail::readable(detail::text({"operator '", type, "': there is none to replace"})));
    auto& added = detail::settled_added_operators<E>();
    const std::lock_guard lock(added.mutex);
    added.by_type.insert_or_assign(std::move(type), std::move(op));
  }

  /// All types, ascending.
  LOD_TAGGED std::vector<std::string> types() const {
    std::vector<std::string> names;
    for (const auto& one : operators_of_programs::built_in<E>()) names.emplace_back(one.type);
    auto& added = detail::settled_added_operators<E>();
    {
      const std::lock_guard lock(added.mutex);
      for (const auto& one : added.by_type) names.push_back(one.first);
    }
    std::sort(names.begin(), names.end());
    names.erase(std::unique(names.begin(), names.end()), names.end());  // replaced ones are listed twice
    return names;
  }

 private:
  LOD_TAGGED static void expect_prepare(const std::string& type, const Operator<E>& op) {
    if (!op.prepare)
      throw std::invalid_argument(detail::readable(detail::text({"operator '", type, "': expected a `prepare`"})));
  }
};

/// The operators for an executor of type E.
template <Executor E = CpuExecutor>
LOD_TAGGED Operators<E> operators() noexcept {
  return {};
}

namespace detail {

/// `operators<E>().find`, as a function.
template <Executor E>
LOD_TAGGED std::optional<Operator<E>> find_operator(std::string_view type) {
  return operators<E>().find(type);
}
template <Executor E>
using FindOperator = std::optional<Operator<E>>(std::string_view type);

}  // namespace detail

}  // namespace lod::inline LOD_INTERFACE
