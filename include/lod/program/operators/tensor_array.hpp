// SPDX-License-Identifier: Apache-2.0
/// @file
/// Operators on arrays of tensors and on rank tables, from which PaddlePaddle builds recurrent networks and searches:
/// write_to_array, read_from_array, lod_array_length, lod_rank_table, max_sequence_len, lod_tensor_to_array,
/// array_to_lod_tensor, shrink_rnn_memory, reorder_lod_tensor_by_rank; split_lod_tensor and merge_lod_tensor.
///
/// An array belongs to the block that describes it, and is empty whenever that block begins to run.
#pragma once

#include <lod/core/any_tensor.hpp>
#include <lod/core/data_type.hpp>
#include <lod/core/error.hpp>
#include <lod/core/executor.hpp>
#include <lod/core/lod_index.hpp>
#include <lod/core/lod_tensor.hpp>
#include <lod/core/rank_table.hpp>
#include <lod/core/target.hpp>
#include <lod/ops/split_lod_tensor.hpp>
#include <lod/ops/tensor_array.hpp>
#include <lod/program/operator.hpp>
#include <lod/program/operators/control.hpp>
#include <lod/program/variable.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs {

/// The tensors of an array.
template <class E>
std::vector<AnyLoDTensor>& array_of(const OperatorCall<E>& call, const Slot& slot) {
  return call.variable(slot).template get<std::vector<AnyLoDTensor>>();
}
template <class E>
const RankTable& table_of(const OperatorCall<E>& call, const Slot& slot) {
  return call.variable(slot).template get<RankTable>();
}
/// An index into an array of `size` tensors, or into one that may grow to that size.
template <class E>
std::size_t array_index(const OperatorCall<E>& call, const Slot& i, std::size_t size) {
  const std::int64_t index = only_id(call, i);
  if (index < 0 || index >= static_cast<std::int64_t>(size)) {
    throw OutOfRange(detail::text({call.name(i), " is ", index, ", expected 0 or more, and less than ", size}));
  }
  return static_cast<std::size_t>(index);
}

/// The tensors that an operator has written to arrays, by index, kept to reuse their memory once the arrays have been
/// emptied.
class WrittenTensors {
 public:
  AnyLoDTensor& operator[](std::size_t i) {
    if (tensors_.empty() || i < first_) {
      tensors_.clear();
      first_ = i;
    }
    if (i - first_ >= tensors_.size()) tensors_.resize(i - first_ + 1);
    return tensors_[i - first_];
  }

 private:
  std::size_t first_ = 0;
  std::vector<AnyLoDTensor> tensors_;
};

/// write_to_array: X, I -> Out: element I of the array becomes a copy of X. An array that is too short is extended by
/// tensors without rows, by 2^20 at most.
template <Executor E>
RunOperator<E> write_to_array(const OperatorArguments& op) {
  constexpr std::size_t most_more = std::size_t{1} << 20;
  const Slot x = op.input("X"), i = op.input("I"), out = op.output("Out");
  return [=, written = WrittenTensors()](OperatorCall<E>& call) mutable {
    const AnyLoDTensor& from = call.tensor(x);
    auto& array = array_of(call, out);
    const std::size_t index = array_index(call, i, array.size() + most_more);
    AnyLoDTensor& kept = written[index];
    if (index >= array.size()) array.resize(index + 1);
    if (array[index].bytes().data() == kept.bytes().data())
      array[index] = AnyLoDTensor();  // this element is written a second time
    kept = kept.resized(from.data_type(), from.lod(), from.row_shape(), from.rows(), call.executor().resource());
    std::copy_n(from.bytes().data(), from.bytes().size(), kept.mutable_bytes().data());
    array[index] = kept;
  };
}

/// read_from_array: X, I, X_W? -> Out: a copy of element I of the array. With X_W it is the gradient of write_to_array:
/// if the array, a gradient, has no such element, or one without rows, Out is zeros like X_W.
template <Executor E>
RunOperator<E> read_from_array(const OperatorArguments& op) {
  const Slot x = op.input("X"), i = op.input("I"), like = op.optional_input("X_W"), out = op.output("Out");
  return [=](OperatorCall<E>& call) {
    const auto& array = array_of(call, x);
    if (like) {
      const std::int64_t index = only_id(call, i);
      const bool is_there = index >= 0 && index < static_cast<std::int64_t>(array.size()) &&
                            !array[static_cast<std::size_t>(index)].bytes().empty();
      if (!is_there) {
        const AnyLoDTensor& written = call.tensor(like);
        auto y = call.output_bytes(out, written.data_type(), written.lod(), written.row_shape(), written.rows());
        std::fill_n(y.data(), written.bytes().size(), std::byte{0});
        return;
      }
    }
    copy_tensor(call, array[array_index(call, i, array.size())], out);
  };
}

/// lod_array_length: X -> Out: the number of tensors of the array, one INT64.
template <Executor E>
RunOperator<E> lod_array_length(const OperatorArguments& op) {
  const Slot x = op.input("X"), out = op.output("Out");
  return [=](OperatorCall<E>& call) {
    *call.output_bytes(out, DataType::INT64, LoD(), {}, 1).template elements<std::int64_t>() =
        static_cast<std::int64_t>(array_of(call, x).size());
  };
}

/// lod_rank_table: X -> Out; level = 0. Of X only the levels are used.
template <Executor E>
RunOperator<E> lod_rank_table(const OperatorArguments& op) {
  const Slot x = op.input("X"), out = op.output("Out");
  const RankOptions options{.level = op.attr("level", 0)};
  return [=](OperatorCall<E>& call) {
    const LoD& lod = call.tensor(x).lod();
    RankTable& table = call.variable(out).template get<RankTable>();
    if (table.lod() != lod || table.level() != options.level) table = RankTable(lod, options);
  };
}

/// max_sequence_len: RankTable -> Out: the longest length, one INT64; 0 for no sequences.
template <Executor E>
RunOperator<E> max_sequence_len(const OperatorArguments& op) {
  const Slot table = op.input("RankTable"), out = op.output("Out");
  return [=](OperatorCall<E>& call) {
    *call.output_bytes(out, DataType::INT64, LoD(), {}, 1).template elements<std::int64_t>() =
        table_of(call, table).steps();
  };
}

/// lod_tensor_to_array: X, RankTable -> Out, an array of the steps of X.
template <Executor E>
RunOperator<E> lod_tensor_to_array(const OperatorArguments& op) {
  const Slot x = op.input("X"), table = op.input("RankTable"), out = op.output("Out");
  return [=, written = std::vector<AnyLoDTensor>()](OperatorCall<E>& call) mutable {
    call.with_number(x, [&](auto element) {
      using T = typename decltype(element)::type;
      auto& array = array_of(call, out);
      const Workspace::Kept<TensorArray<T>> steps(call.executor().workspace());
      steps->resize(static_cast<std::int64_t>(written.size()), call.executor().resource());
      for (std::size_t t = 0; t < written.size(); ++t) {
        AnyLoDTensor& one = written[t];
        if (one.holds<T>() && !one.shares_memory()) (*steps)[static_cast<std::int64_t>(t)] = std::move(one).take<T>();
      }
      lod_tensor_to_array_into(call.executor(), call.template view<T>(x), table_of(call, table), *steps);
      written.resize(static_cast<std::size_t>(steps->size()));
      std::transform(steps->begin(), steps->end(), written.begin(),
                     [](LoDTensor<T>& one) { return AnyLoDTensor(std::move(one)); });
      steps->resize(0);
      array = written;
    });
  };
}

/// Calls f(detail::ElementType<T>()) with the type T of the elements of an array's tensors; for an empty array, with
/// the type of another variable.
template <class E, class F>
void with_array_number(const OperatorCall<E>& call, const Slot& x, const Slot& otherwise, const F& f) {
  const auto& array = array_of(call, x);
  if (array.empty()) return call.with_number(otherwise, f);
  const DataType type = array.front().data_type();
  if (type == DataType::INT32) return f(detail::ElementType<std::int32_t>());
  if (type == DataType::INT64) return f(detail::ElementType<std::int64_t>());
  if (type == DataType::FP32) return f(detail::ElementType<float>());
  if (type == DataType::FP64) return f(detail::ElementType<double>());
  throw ShapeMismatch(
      detail::text({call.name(x), ": elements of ", to_string(type), ", expected FP32, FP64, INT32 or INT64"}));
}

/// array_to_lod_tensor: X, RankTable -> Out: the sequences whose steps are in the array. If there is no step, Out keeps
/// its type and row shape.
template <Executor E>
RunOperator<E> array_to_lod_tensor(const OperatorArguments& op) {
  const Slot x = op.input("X"), table = op.input("RankTable"), out = op.output("Out");
  return [=](OperatorCall<E>& call) {
    const auto& array = array_of(call, x);
    const AnyLoDTensor& like = array.empty() ? call.tensor(out) : array.front();
    with_array_number(call, x, out, [&](auto element) {
      using T = typename decltype(element)::type;
      const Workspace::Kept<TensorArray<T>> steps(call.executor().workspace());
      steps->resize(0);
      for (const AnyLoDTensor& one : array) steps->write(steps->size(), AnyLoDTensor(one).take<T>());
      steps->like().resize(LoD(), like.row_shape(), 0);
      auto y = call.template output<T>(out);
      array_to_lod_tensor_into(call.executor(), std::as_const(*steps), table_of(call, table), *y);
      steps->resize(0);
    });
  };
}

/// shrink_rnn_memory: X, RankTable, I -> Out: the states in X of the sequences that take step I.
template <Executor E>
RunOperator<E> shrink_rnn_memory(const OperatorArguments& op) {
  const Slot x = op.input("X"), table = op.input("RankTable"), i = op.input("I"), out = op.output("Out");
  return [=](OperatorCall<E>& call) {
    call.with_number(x, [&](auto element) {
      using T = typename decltype(element)::type;
      auto y = call.template output<T>(out);
      shrink_rnn_memory_into(call.executor(), call.template view<T>(x), table_of(call, table), only_id(call, i), *y);
    });
  };
}
/// shrink_rnn_memory_grad: X, Out@GRAD? -> X@GRAD: Out@GRAD, followed by zeros for the sequences that were left out.
template <Executor E>
RunOperator<E> shrink_rnn_memory_grad(const OperatorArguments& op) {
  const Slot x = op.input("X"), dy = op.optional_input("Out@GRAD"), dx = op.output("X@GRAD");
  return [=](OperatorCall<E>& call) {
    const AnyLoDTensor& like = call.tensor(x);
    std::size_t given = 0;
    if (dy) {
      const AnyLoDTensor& from = call.tensor(dy);
      given = from.bytes().size();
      if (from.rows() > like.rows() || (from.rows() > 0 && from.row_shape() != like.row_shape()) ||
          from.data_type() != like.data_type()) {
        throw ShapeMismatch(detail::text({call.name(dy), " of shape ", to_string(from.shape()),
                                          ", expected the first rows of ", to_string(like.shape())}));
      }
    }
    auto y = call.output_bytes(dx, like.data_type(), like.lod(), like.row_shape(), like.rows());
    if (dy) std::copy_n(call.tensor(dy).bytes().data(), given, y.data());
    std::fill_n(y.data() + given, like.bytes().size() - given, std::byte{0});
  };
}

/// reorder_lod_tensor_by_rank: X, RankTable -> Out: the sequences of X in the order of the table. Its gradient, with
/// the same arguments, restores the order.
template <Executor E, bool is_gradient>
RunOperator<E> reorder_lod_tensor_by_rank(const OperatorArguments& op) {
  const Slot x = op.input("X"), table = op.input("RankTable"), out = op.output("Out");
  return [=](OperatorCall<E>& call) {
    call.with_number(x, [&](auto element) {
      using T = typename decltype(element)::type;
      auto y = call.template output<T>(out);
      if constexpr (is_gradient) {
        reorder_lod_tensor_by_rank_grad_into(call.executor(), call.template view<T>(x), table_of(call, table), *y);
      } else {
        reorder_lod_tensor_by_rank_into(call.executor(), call.template view<T>(x), table_of(call, table), *y);
      }
    });
  };
}

/// split_lod_tensor: X, Mask -> OutTrue, OutFalse; level = 0: the sequences of X (its rows, without levels) for which
/// Mask, one BOOL each, is true, and the others.
template <Executor E>
RunOperator<E> split_lod_tensor(const OperatorArguments& op) {
  const Slot x = op.input("X"), mask = op.input("Mask");
  const Slot in_true = op.output("OutTrue"), in_false = op.output("OutFalse");
  const SplitBranchOptions options{.level = op.attr("level", 0)};
  return [=](OperatorCall<E>& call) {
    call.with_number(x, [&](auto element) {
      using T = typename decltype(element)::type;
      auto y = call.template output<T>(in_true), z = call.template output<T>(in_false);
      split_lod_tensor_into(call.executor(), call.template view<T>(x), call.template view<bool>(mask).values(), options,
                            *y, *z);
    });
  };
}

/// merge_lod_tensor and merge_lod_tensor_infer: X, Mask, InTrue, InFalse -> Out; level = 0: for each BOOL of Mask the
/// next sequence of InTrue if it is true, otherwise of InFalse. Of X only the levels above `level` are used. A branch
/// without sequences may have any type and row shape: nothing may have run there.
template <Executor E>
RunOperator<E> merge_lod_tensor(const OperatorArguments& op) {
  const Slot x = op.input("X"), mask = op.input("Mask"), out = op.output("Out");
  const Slot in_true = op.input("InTrue"), in_false = op.input("InFalse");
  const std::int32_t level = op.attr("level", 0);
  return [=](OperatorCall<E>& call) {
    const auto is_idle = [&](const Slot& branch) {
      const AnyLoDTensor& one = call.tensor(branch);
      return one.rows() == 0 && (one.levels() == 0 || one.lod().size(0) == 0);
    };
    const bool has_true = !is_idle(in_true), has_false = !is_idle(in_false);
    call.with_number(has_true ? in_true : in_false, [&](auto element) {
      using T = typename decltype(element)::type;
      const auto some = call.template view<T>(has_true ? in_true : in_false);
      const auto yes = has_true ? some : some.between(0, 0);
      const auto no = has_false && has_true ? call.template view<T>(in_false) : has_true ? some.between(0, 0) : some;
      auto y = call.template output<T>(out);
      merge_lod_tensor_into(call.executor(), yes, no, call.template view<bool>(mask).values(),
                            MergeBranchOptions{.level = level, .lod = level != 0 ? call.tensor(x).lod() : LoD()}, *y);
    });
  };
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs
