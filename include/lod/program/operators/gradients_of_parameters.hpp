// SPDX-License-Identifier: Apache-2.0
/// @file
/// Operators that are applied to gradients of parameters, dense or row-sparse: sum, clip, clip_by_norm,
/// squared_l2_norm, and elementwise_mul by a number.
#pragma once

#include <lod/core/any_tensor.hpp>
#include <lod/core/data_type.hpp>
#include <lod/core/error.hpp>
#include <lod/core/executor.hpp>
#include <lod/core/selected_rows.hpp>
#include <lod/core/shape.hpp>
#include <lod/core/target.hpp>
#include <lod/ops/arithmetic.hpp>
#include <lod/ops/clip.hpp>
#include <lod/ops/for_each_place.hpp>
#include <lod/ops/merge_rows.hpp>
#include <lod/ops/rearrange.hpp>
#include <lod/ops/row_sparse.hpp>
#include <lod/ops/staging.hpp>
#include <lod/program/operator.hpp>
#include <lod/program/operators/elementwise.hpp>
#include <lod/program/operators/row_sparse.hpp>
#include <lod/program/operators/shapes.hpp>
#include <lod/program/operators/unary.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>
#include <string>
#include <tuple>
#include <vector>

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs {

/// The row-sparse values among the arguments of a slot, each as in InputRows. The vectors are kept from run to run.
template <class T>
class ManyRows {
 public:
  struct Kept {
    std::vector<SelectedRows<T>> rows;
    std::vector<const SelectedRows<T>*> pointers;
    std::vector<Variable*> variables;
  };

  template <class E>
  ManyRows(const OperatorCall<E>& call, const Slot& x, const Slot& out, Kept& kept)
      : kept_(kept), written_(&call.variable(out)), exceptions_(std::uncaught_exceptions()) {
    kept_.pointers.clear();
    kept_.variables.clear();
    kept_.rows.resize(x.size);
    kept_.pointers.reserve(x.size);
    kept_.variables.reserve(x.size);
    for (std::size_t i = 0; i < x.size; ++i) {
      if (is_row_sparse(call, x, i)) check_type(call, x, i);
    }
    for (std::size_t i = 0; i < x.size; ++i) {
      if (is_row_sparse(call, x, i)) add(call.variable(x, i));
    }
  }
  ManyRows(const ManyRows&) = delete;
  ManyRows& operator=(const ManyRows&) = delete;
  ~ManyRows() {
    for (std::size_t i = 0; i < kept_.variables.size(); ++i) {
      const bool is_written = kept_.variables[i] == written_ && std::uncaught_exceptions() == exceptions_;
      if (is_written) continue;
      kept_.variables[i]->template get<AnySelectedRows>() = AnySelectedRows(std::move(kept_.rows[i]));
    }
  }
  std::span<const SelectedRows<T>* const> pointers() const noexcept { return kept_.pointers; }

 private:
  template <class E>
  static void check_type(const OperatorCall<E>& call, const Slot& x, std::size_t i) {
    const AnyLoDTensor& value = call.variable(x, i).template get<AnySelectedRows>().value();
    if (value.template holds<T>()) return;
    throw ShapeMismatch(detail::text(
        {call.name(x, i), ": elements of ", to_string(value.data_type()), ", expected ", to_string(data_type_v<T>)}));
  }
  /// A variable that is an argument twice counts twice.
  void add(Variable& variable) {
    const auto known = std::find(kept_.variables.begin(), kept_.variables.end(), &variable);
    const auto place = static_cast<std::size_t>(known - kept_.variables.begin());
    if (known == kept_.variables.end()) {
      kept_.rows[place] = std::move(variable.template get<AnySelectedRows>()).template take<T>();
      kept_.variables.push_back(&variable);
    }
    kept_.pointers.push_back(&kept_.rows[place]);
  }

  Kept& kept_;
  const Variable* written_;
  int exceptions_;
};

/// The sums of the tensors of arrays that have the same index, in memory that is kept from run to run. Tensors without
/// elements are ignored: they stand for gradients that have not been written.
class ArraySums {
 public:
  template <class E>
  void operator()(const OperatorCall<E>& call, const Slot& x, const Slot& out) {
    std::size_t size = 0;
    for (std::size_t i = 0; i < x.size; ++i) size = std::max(size, terms(call, x, i).size());
    sums_.assign(size, AnyLoDTensor());
    if (kept_.size() < size) kept_.resize(size);
    for (std::size_t k = 0; k < size; ++k) {
      bool is_kept = false;
      for (std::size_t i = 0; i < x.size; ++i) {
        if (terms(call, x, i).size() <= k) continue;
        const AnyLoDTensor& term = terms(call, x, i)[k];
        if (sums_[k].bytes().empty()) {
          sums_[k] = term;
        } else if (!term.bytes().empty()) {
          expect_like(call, x, i, term, sums_[k]);
          if (!is_kept) copy_value(sums_[k], kept_[k], call.executor().resource());
          is_kept = true;
          add(term, kept_[k]);
          sums_[k] = kept_[k];
        }
      }
    }
    call.variable(out).template get<std::vector<AnyLoDTensor>>() = sums_;
    sums_.clear();
  }

 private:
  template <class E>
  static const std::vector<AnyLoDTensor>& terms(const OperatorCall<E>& call, const Slot& x, std::size_t i) {
    return call.variable(x, i).template get<std::vector<AnyLoDTensor>>();
  }
  template <class E>
  static void expect_like(const OperatorCall<E>& call, const Slot& x, std::size_t i, const AnyLoDTensor& term,
                          const AnyLoDTensor& like) {
    if (term.data_type() == like.data_type() && term.shape() == like.shape()) return;
    throw ShapeMismatch(detail::text({call.name(x, i), ": a tensor of ", to_string(term.data_type()), ", ",
                                      to_string(term.shape()), ", expected ", to_string(like.data_type()), ", ",
                                      to_string(like.shape()), ", as the others with its index"}));
  }
  static void add(const AnyLoDTensor& term, AnyLoDTensor& total) {
    const auto add_as = [&](auto element) {
      using T = typename decltype(element)::type;
      T* const to = reinterpret_cast<T*>(total.mutable_bytes().data());
      std::transform(to, to + total.rows() * total.row_size(), term.view<T>().data(), to, kernel::Add());
    };
    if (term.holds<float>()) return add_as(detail::ElementType<float>());
    if (term.holds<double>()) return add_as(detail::ElementType<double>());
    throw ShapeMismatch(detail::text({"arrays of ", to_string(term.data_type()), ", expected FP32 or FP64"}));
  }

  std::vector<AnyLoDTensor> kept_, sums_;
};

/// The sum of dense tensors only, on other devices than the CPU.
template <Executor E>
RunOperator<E> dense_sum(const Slot& x, const Slot& out) {
  return [=](OperatorCall<E>& call) {
    const auto first = call.tensor(x);
    call.with_number(x, [&](auto element) {
      using T = typename decltype(element)::type;
      const std::int64_t count = first.rows() * first.row_size();
      for (std::size_t i = 1; i < x.size; ++i) static_cast<void>(numbers_of<T>(call, x, first.shape(), i));
      auto total = call.output_bytes(out, first.data_type(), first.lod(), first.row_shape(), first.rows());
      T* const to = total.template elements<T>();
      const T* sum = first.template view<T>().data();
      if (x.size == 1) return operation::copy_rows(call.executor(), first.template view<T>(), to);
      for (std::size_t i = 1; i < x.size; ++i, sum = to) {
        operation::combine_numbers(call.executor(), sum, call.template view<T>(x, i).data(), count, to, kernel::Add());
      }
    });
  };
}
/// The sum of dense and row-sparse tensors, or of arrays.
template <Executor E>
RunOperator<E> sum_of_any(const Slot& x, const Slot& out) {
  return [=, all = std::tuple<ManyRows<float>::Kept, ManyRows<double>::Kept>(),
          arrays = ArraySums()](OperatorCall<E>& call) mutable {
    if (call.variable(x).template holds<std::vector<AnyLoDTensor>>()) return arrays(call, x, out);
    std::size_t dense = 0;
    while (dense < x.size && is_row_sparse(call, x, dense)) ++dense;
    if (dense == x.size) {
      return with_floating_rows(call, x, [&](auto element) {
        using T = typename decltype(element)::type;
        const ManyRows<T> rows(call, x, out, std::get<typename ManyRows<T>::Kept>(all));
        OutputRows<T> to(call.variable(out), call.executor().resource());
        merge_add_into(call.executor(), rows.pointers(), *to);
      });
    }
    const AnyLoDTensor first = call.tensor(x, dense);
    const Slot begin{x.first + dense, 1};
    const auto add = [&](auto element) {
      using T = typename decltype(element)::type;
      for (std::size_t i = 0; i < x.size; ++i) {
        if (!is_row_sparse(call, x, i)) static_cast<void>(numbers_of<T>(call, x, first.shape(), i));
      }
      const std::int64_t count = first.rows() * first.row_size();
      auto total = call.output_bytes(out, first.data_type(), first.lod(), first.row_shape(), first.rows());
      T* const to = total.template elements<T>();
      std::copy_n(first.view<T>().data(), count, to);
      for (std::size_t i = dense + 1; i < x.size; ++i) {
        if (is_row_sparse(call, x, i)) continue;
        const T* const from = call.template view<T>(x, i).data();
        std::transform(to, to + count, from, to, kernel::Add());
      }
      if constexpr (std::floating_point<T>) {
        const ManyRows<T> rows(call, x, out, std::get<typename ManyRows<T>::Kept>(all));
        const LoDTensorView<T, Cpu> view(to, LoDView::plain(0, first.rows()), &first.row_shape(), first.row_size());
        for (const SelectedRows<T>* const one : rows.pointers()) scatter(call.executor(), *one, ScatterOp::ADD, view);
      }
    };
    call.with_number(begin, add);
  };
}

/// sum: X... -> Out, all of one shape, element by element. The sum of row-sparse values is row-sparse, with each row
/// once; together with dense tensors it is dense, with the levels of the first. Arrays are added up tensor by tensor.
template <Executor E>
RunOperator<E> sum(const OperatorArguments& op) {
  const Slot x = op.inputs("X"), out = op.output("Out");
  if (!x) op.refuse({"input 'X' has no argument, expected one or more"});
  if constexpr (!operation::on_cpu<E>) {
    return dense_sum<E>(x, out);
  } else {
    return sum_of_any<E>(x, out);
  }
}
/// The gradient of sum: a copy for each X.
inline std::vector<OpDesc> gradient_of_sum(const GradientArguments& op) {
  std::vector<OpDesc> made;
  for (const std::string& name : op.input_gradients("X")) {
    if (name == empty_variable_name) continue;
    made.push_back({.inputs = {{"X", op.output_gradients("Out")}},
                    .outputs = {{"Out", {name}}},
                    .type = "scale",
                    .attrs = {make_attr("scale", 1.0f)}});
  }
  return made;
}

/// clip: X -> Out; min, max. Row-sparse values are merged first, as by merge_selected_rows.
template <Executor E>
RunOperator<E> clip_to(const OperatorArguments& op) {
  const Slot x = op.input("X"), out = op.output("Out");
  const Clip bounds(op);
  return [=, dense = activation<Clip, E>(op)](OperatorCall<E>& call) {
    if (!is_row_sparse(call, x)) return dense(call);
    map_rows(call, x, out, [&](const E& executor, const auto& from, auto& to) {
      clip_into(executor, from, static_cast<double>(bounds.least), static_cast<double>(bounds.greatest), to);
    });
  };
}

/// clip_by_norm: X -> Out; max_norm: scales X down to that length if it is longer. Row-sparse values are merged first.
template <Executor E>
RunOperator<E> clip_by_norm_to(const OperatorArguments& op) {
  const Slot x = op.input("X"), out = op.output("Out");
  const auto norm = static_cast<double>(op.desc().attr<float>("max_norm"));
  if (!(norm > 0)) op.refuse_attr("max_norm", "a number above 0");
  return [=](OperatorCall<E>& call) {
    if (is_row_sparse(call, x)) {
      return map_rows(call, x, out, [&](const E& executor, const auto& from, auto& to) {
        clip_by_norm_into(executor, from, norm, to);
      });
    }
    call.with_floating(x, [&](auto element) {
      using T = typename decltype(element)::type;
      const AnyLoDTensor& from = call.tensor(x);
      const T* const values = call.template view<T>(x).data();
      const std::int64_t count = from.rows() * from.row_size();
      auto y = call.output_bytes(out, from.data_type(), from.lod(), from.row_shape(), from.rows());
      std::copy_n(values, count, y.template elements<T>());
      launch(kernel::ClipByNorm(), call.executor(), y.template elements<T>(), count, norm);
    });
  };
}

/// squared_l2_norm: X -> Out: the sum of the squares, one number.
template <Executor E>
RunOperator<E> squared_l2_norm(const OperatorArguments& op) {
  const Slot x = op.input("X"), out = op.output("Out");
  return [=](OperatorCall<E>& call) {
    call.with_floating(x, [&](auto element) {
      using T = typename decltype(element)::type;
      double total = 0;
      for (const T v : call.template view<T>(x).values()) total += static_cast<double>(v) * static_cast<double>(v);
      *call.output_bytes(out, data_type_v<T>, LoD(), {}, 1).template elements<T>() = static_cast<T>(total);
    });
  };
}
/// squared_l2_norm_grad: X, Out@GRAD -> X@GRAD.
template <Executor E>
RunOperator<E> squared_l2_norm_grad(const OperatorArguments& op) {
  const Slot x = op.input("X"), dy = op.input("Out@GRAD"), dx = op.output("X@GRAD");
  return [=](OperatorCall<E>& call) {
    call.with_floating(x, [&](auto element) {
      using T = typename decltype(element)::type;
      map_elements<T, T>(call, x, dx, [factor = 2 * *some_numbers<T>(call, dy, 1)](T v) { return v * factor; });
    });
  };
}

/// elementwise_mul: as `elementwise`; also a row-sparse X times one number, which is row-sparse.
template <Executor E>
RunOperator<E> elementwise_mul(const OperatorArguments& op) {
  const Slot x = op.input("X"), y = op.input("Y"), out = op.output("Out");
  return [=, dense = elementwise<Multiplies, E>(op)](OperatorCall<E>& call) {
    if (!is_row_sparse(call, x)) return dense(call);
    with_floating_rows(call, x, [&](auto element) {
      using T = typename decltype(element)::type;
      const T factor = *some_numbers<T>(call, y, 1);
      if (&call.variable(x) == &call.variable(out)) {
        auto& all = call.variable(x).template get<AnySelectedRows>();
        const bool is_ours = !all.value().read_only() && !all.value().shares_memory();
        SelectedRows<T> rows = is_ours ? std::move(all).template take<T>() : all.template copy<T>();
        scale_into(call.executor(), rows, factor, rows);
        all = AnySelectedRows(std::move(rows));
        return;
      }
      map_rows(call, x, out,
               [&](const E& executor, const auto& from, auto& to) { scale_into(executor, from, factor, to); });
    });
  };
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs
