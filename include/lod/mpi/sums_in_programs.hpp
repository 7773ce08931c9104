// SPDX-License-Identifier: Apache-2.0
/// @file
/// The sums over ranks that a program computes while it runs, and the operators that begin and end them.
#pragma once

#include <lod/core/any_tensor.hpp>
#include <lod/core/data_type.hpp>
#include <lod/core/desc.hpp>
#include <lod/core/error.hpp>
#include <lod/core/executor.hpp>
#include <lod/core/lod_index.hpp>
#include <lod/core/lod_tensor.hpp>
#include <lod/core/lod_view.hpp>
#include <lod/core/selected_rows.hpp>
#include <lod/core/shape.hpp>
#include <lod/core/sizes.hpp>
#include <lod/core/target.hpp>
#include <lod/mpi/agreement.hpp>
#include <lod/mpi/all_reduce.hpp>
#include <lod/mpi/all_reduce_rows.hpp>
#include <lod/mpi/communicator.hpp>
#include <lod/mpi/messages.hpp>
#include <lod/mpi/operators_on_ranks.hpp>
#include <lod/mpi/reduction.hpp>
#include <lod/program/infer_shape_context.hpp>
#include <lod/program/operator.hpp>
#include <lod/program/variable.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace lod::inline LOD_INTERFACE::between_ranks {

/// Up to how many bytes dense variables are joined, unless a user says otherwise.
inline constexpr std::int64_t usual_joined_bytes = std::int64_t{1} << 18;

}  // namespace lod::inline LOD_INTERFACE::between_ranks

namespace lod::inline LOD_INTERFACE::between_ranks::inline LOD_TARGET {

/// A variable that is summed over ranks, as it is described.
struct Summand {
  std::string variable;
  bool is_row_sparse = false;
  DataType type = DataType::FP32;
  Shape shape = {};  ///< of the dense tensor

  std::int64_t bytes() const noexcept {
    return detail::saturated_product(shape.elements(), static_cast<std::int64_t>(size_of(type)));
  }
};

/// One operation between ranks of a program's sums: of one variable, or of several small ones, joined.
class SumOfVariables {
 public:
  SumOfVariables() = default;
  SumOfVariables(const SumOfVariables&) = delete;
  SumOfVariables& operator=(const SumOfVariables&) = delete;
  virtual ~SumOfVariables() = default;

  /// What agreements call it.
  virtual Operation operation() const noexcept = 0;
  /// This rank's value of its variable i, for one part more. The value is shared, not copied.
  virtual void add(std::size_t i, const Variable& variable) = 0;
  /// Begins to sum up, over the parts of all ranks.
  virtual mpi::Pending<void> start(const mpi::Communicator& communicator, const mpi::AllReduceOptions& options) = 0;
  /// Moves the sum of variable i into a variable.
  virtual void give(std::size_t i, Variable& variable) = 0;
  /// Lets go of this rank's values.
  virtual void clear() noexcept = 0;
};

/// Dense ones, with elements of type T.
template <class T>
class SumOfDense final : public SumOfVariables {
 public:
  explicit SumOfDense(std::vector<Summand> summands) : summands_(std::move(summands)), parts_(summands_.size()) {}

  Operation operation() const noexcept override { return Operation::ALL_REDUCE; }
  void add(std::size_t i, const Variable& variable) override {
    const auto& x = variable.get<AnyLoDTensor>();
    const Shape shape = x.shape();
    if (shape.elements() != summands_[i].shape.elements()) {
      throw ShapeMismatch(detail::text({"variable '", summands_[i].variable, "': ", shape.elements(),
                                        " elements, expected ", summands_[i].shape.elements(), " as described"}));
    }
    detail::check_element_type<T>(x.data_type(), "c_allreduce_sum");
    parts_[i].push_back(x);
  }
  mpi::Pending<void> start(const mpi::Communicator& communicator, const mpi::AllReduceOptions& options) override {
    const std::size_t parts = parts_.front().size();
    std::vector<LoDTensorView<const T>> views;
    if (summands_.size() == 1) {
      for (const AnyLoDTensor& part : parts_.front()) views.push_back(part.view<T>());
    } else {
      joined_.resize(parts);
      for (std::size_t part = 0; part < parts; ++part) views.push_back(join(part));
    }
    return start_into(communicator, sum_,
                      [&](LoDTensor<T>& y) { return DenseReduction<T>(communicator, std::move(views), options, y); });
  }
  void give(std::size_t i, Variable& variable) override {
    auto& to = variable.get<AnyLoDTensor>();
    if (summands_.size() == 1) {
      AnyLoDTensor before = std::exchange(to, AnyLoDTensor(std::move(sum_)));
      sum_ = LoDTensor<T>();
      if (before.holds<T>() && !before.shares_memory() && !before.read_only()) sum_ = std::move(before).take<T>();
      return;
    }
    const Shape& shape = summands_[i].shape;
    AnyLoDTensor next = to.resized(data_type_v<T>, LoD(), shape.empty() ? shape : shape.without_first(),
                                   shape.empty() ? 1 : shape.front(), to.resource());
    const auto bytes = static_cast<std::size_t>(summands_[i].bytes());
    if (bytes > 0) std::memcpy(next.mutable_bytes().data(), sum_.data() + begin_of(i), bytes);
    to = std::move(next);
  }
  void clear() noexcept override {
    for (auto& one : parts_) one.clear();
  }

 private:
  std::int64_t begin_of(std::size_t i) const noexcept {
    std::int64_t begin = 0;
    for (const Summand& before : std::span(summands_).first(i)) begin += before.shape.elements();
    return begin;
  }
  LoDTensorView<const T> join(std::size_t part) {
    LoDTensor<T>& joined = joined_[part];
    joined.resize(LoD(), {}, begin_of(summands_.size()));
    T* to = joined.data();
    for (const auto& one : parts_) {
      const auto bytes = one[part].bytes();
      if (!bytes.empty()) std::memcpy(to, bytes.data(), bytes.size());
      to += bytes.size() / sizeof(T);
    }
    return std::as_const(joined).view();
  }

  std::vector<Summand> summands_;
  std::vector<std::vector<AnyLoDTensor>> parts_;  ///< of each
  std::vector<LoDTensor<T>> joined_;              ///< if there are several, those of each part
  LoDTensor<T> sum_;
};

/// A row-sparse one.
template <class T>
class SumOfRows final : public SumOfVariables {
 public:
  Operation operation() const noexcept override { return Operation::ALL_REDUCE_ROWS; }
  void add(std::size_t, const Variable& variable) override {
    AnySelectedRows shared = variable.get<AnySelectedRows>();
    parts_.push_back(std::move(shared).template take<T>());
  }
  mpi::Pending<void> start(const mpi::Communicator& communicator, const mpi::AllReduceOptions& options) override {
    std::vector<const SelectedRows<T>*> parts;
    for (const SelectedRows<T>& part : parts_) parts.push_back(&part);
    return start_into(communicator, sum_,
                      [&](SelectedRows<T>& y) { return RowReduction<T>(communicator, std::move(parts), options, y); });
  }
  void give(std::size_t, Variable& variable) override {
    variable.get<AnySelectedRows>() = AnySelectedRows(std::move(sum_));
    sum_ = SelectedRows<T>();
  }
  void clear() noexcept override { parts_.clear(); }

 private:
  std::vector<SelectedRows<T>> parts_;
  SelectedRows<T> sum_;
};

/// Takes part in a sum in place of a rank that has failed: all ranks throw.
class FailedReduction final : public Reduction {
 public:
  FailedReduction(const mpi::Communicator& communicator, Operation operation, const std::exception_ptr& error)
      : Reduction(communicator, operation, {}) {
    error_ = error;
  }
  bool next() override {
    if (step_++ > 0) {
      agreement_.check();
      return false;
    }
    agreement_.prepare([this] { std::rethrow_exception(error_); });
    agreement_.exchange(messages);
    return true;
  }
};

/// The sums of a program, in the order in which all ranks begin them: that of the operators that add their last
/// variables. A template, so that only programs that sum up compile what adds.
template <class E>
class Sums {
 public:
  /// A sum of dense variables has less than `joined_bytes`, or only one variable.
  Sums(mpi::Communicator communicator, const std::vector<Summand>& summands, const mpi::AllReduceOptions& options,
       std::int64_t joined_bytes)
      : communicator_(std::move(communicator)), options_(options), places_(summands.size()) {
    // Those of either type that are waiting to be joined.
    std::vector<std::size_t> waiting[2];
    for (std::size_t i = 0; i < summands.size(); ++i) {
      if (summands[i].is_row_sparse) {
        add_sum(summands, {i});
        continue;
      }
      auto& others = waiting[summands[i].type == DataType::FP64 ? 1 : 0];
      others.push_back(i);
      std::int64_t bytes = 0;
      for (const std::size_t one : others) bytes = detail::saturated_sum(bytes, summands[one].bytes());
      if (bytes >= joined_bytes) add_sum(summands, std::exchange(others, {}));
    }
    for (const auto& others : waiting) {
      if (!others.empty()) add_sum(summands, others);
    }
  }
  Sums(const Sums&) = delete;
  Sums& operator=(const Sums&) = delete;
  ~Sums() { end(nullptr); }

  /// Begins a run.
  void begin() noexcept { another_failed_ = false; }
  /// Begins a part: whether it is the last one.
  void begin_part(bool is_last) noexcept { is_last_part_ = is_last; }
  /// This rank's value of summand i; summands come in order. With the last one of a sum, in the last part, it begins.
  void add(std::size_t i, const Variable& variable) {
    sums_[places_[i].sum].sum->add(places_[i].summand, variable);
    if (!is_last_part_) return;
    while (started_ < sums_.size() && sums_[started_].last <= i) start();
  }
  /// Lets sums that have begun go on.
  void progress() noexcept {
    for (std::size_t i = 0; i < started_; ++i) static_cast<void>(sums_[i].pending->ready());
  }
  /// Begins what has not begun on a rank without parts, and waits for all. Throws what a sum throws: a RankError if
  /// another rank has failed.
  void wait() {
    while (started_ < sums_.size()) start();
    try {
      for (One& one : sums_) one.pending->wait();
    } catch (const mpi::RankError&) {
      another_failed_ = true;
      throw;
    }
  }
  /// Moves the sum of summand i into a variable.
  void give(std::size_t i, Variable& variable) { sums_[places_[i].sum].sum->give(places_[i].summand, variable); }
  /// Whether the run has ended since another rank has failed.
  bool another_failed() const noexcept { return another_failed_; }

  /// Ends a run. After an error, takes part in what the others are going to sum up, so that they learn of it and
  /// nobody waits for ever: one after the other, since where several ranks have failed each waits for their texts.
  void end(const std::exception_ptr& error) noexcept {
    const auto ignore = [](const auto& f) {
      try {
        f();
      } catch (...) {  // the error, or that of another rank: `wait` has thrown one of them
      }
    };
    for (std::size_t i = 0; i < started_; ++i) {
      ignore([&] { sums_[i].pending->wait(); });
      sums_[i].pending.reset();
    }
    if (error) {
      for (std::size_t i = started_; i < sums_.size(); ++i) {
        ignore([&] { run(FailedReduction(communicator_, sums_[i].sum->operation(), error)); });
      }
    }
    for (One& one : sums_) one.sum->clear();
    started_ = 0;
  }

 private:
  struct One {
    std::unique_ptr<SumOfVariables> sum;
    std::size_t last;  ///< its last summand
    std::optional<mpi::Pending<void>> pending = {};
  };
  /// Where a summand is.
  struct Place {
    std::size_t sum, summand;
  };

  void add_sum(const std::vector<Summand>& summands, const std::vector<std::size_t>& which) {
    std::vector<Summand> chosen;
    for (const std::size_t i : which) {
      places_[i] = {sums_.size(), chosen.size()};
      chosen.push_back(summands[i]);
    }
    const auto make = [&](auto number) -> std::unique_ptr<SumOfVariables> {
      using T = decltype(number);
      if (chosen.front().is_row_sparse) return std::make_unique<SumOfRows<T>>();
      return std::make_unique<SumOfDense<T>>(std::move(chosen));
    };
    std::unique_ptr<SumOfVariables> made = chosen.front().type == DataType::FP64 ? make(0.0) : make(0.0f);
    sums_.push_back({std::move(made), which.back()});
  }
  void start() {
    One& next = sums_[started_];
    next.pending.emplace(next.sum->start(communicator_, options_));
    ++started_;
  }

  mpi::Communicator communicator_;
  mpi::AllReduceOptions options_;
  std::vector<Place> places_;  ///< of each summand
  std::vector<One> sums_;
  std::size_t started_ = 0;
  bool is_last_part_ = false;
  bool another_failed_ = false;
};

/// The outputs are as the inputs.
inline void infer_sums(InferShapeContext& op) {
  for (std::size_t i = 0; i < op.inputs("X"); ++i) op.set_output("Out", op.input("X", i), i, op.input_type("X", i));
}

/// c_allreduce_sum: X -> Out, which must be X; c_sync_comm_stream: X -> Out, the same variables. PaddlePaddle's names:
/// the first begins the sum of a variable over ranks, the second waits for all sums, before anything reads them. Both
/// do nothing in a program that one process runs by itself. mpi_progress lets sums that have begun go on.
///
/// DataParallelProgram gives them Sums, and the second one no X, since its operators before that are another program.
template <Executor E = CpuExecutor>
void add_operators_of_sums() {
  const auto sums_of = [](const OperatorArguments& op) {
    op.expect_attr("ring_id", 0);
    return op.optional_input("Sums");
  };
  add_operator_once<E>("c_allreduce_sum",
                       {.prepare = [sums_of](const OperatorArguments& op) -> RunOperator<E> {
                          const Slot sums = sums_of(op), x = op.input("X");
                          const auto number = static_cast<std::size_t>(op.attr("number", 0));
                          if (op.desc().input("X").front() != op.desc().output("Out").front()) {
                            op.refuse({"output 'Out' is another variable than input 'X', expected the same one"});
                          }
                          return [=](OperatorCall<E>& call) {
                            if (sums) InScope<Sums<E>>::of(call.variable(sums)).add(number, call.variable(x));
                          };
                        },
                        .infer = infer_sums});
  add_operator_once<E>("c_sync_comm_stream", {.prepare = [sums_of](const OperatorArguments& op) -> RunOperator<E> {
                                                const Slot sums = sums_of(op), out = op.outputs("Out");
                                                const auto first = static_cast<std::size_t>(op.attr("number", 0));
                                                return [=](OperatorCall<E>& call) {
                                                  if (!sums) return;
                                                  Sums<E>& all = InScope<Sums<E>>::of(call.variable(sums));
                                                  all.wait();
                                                  for (std::size_t i = 0; i < out.size; ++i)
                                                    all.give(first + i, call.variable(out, i));
                                                };
                                              },
                                              .infer = infer_sums});
  add_operator_once<E>("mpi_progress", {.prepare = [](const OperatorArguments& op) -> RunOperator<E> {
                         return [sums = op.input("Sums")](OperatorCall<E>& call) {
                           InScope<Sums<E>>::of(call.variable(sums)).progress();
                         };
                       }});
}

}  // namespace lod::inline LOD_INTERFACE::between_ranks::inline LOD_TARGET
