// SPDX-License-Identifier: Apache-2.0
/// @file
/// hierarchical_sigmoid, a loss for very many classes, which are the leaves of a tree whose inner nodes predict the way
/// to a leaf; and its gradient.
#pragma once

#include <lod/core/any_tensor.hpp>
#include <lod/core/error.hpp>
#include <lod/core/executor.hpp>
#include <lod/core/lod_view.hpp>
#include <lod/core/shape.hpp>
#include <lod/core/target.hpp>
#include <lod/ops/embedding.hpp>
#include <lod/program/operator.hpp>
#include <lod/program/operators/losses.hpp>
#include <lod/program/operators/row_sparse.hpp>
#include <lod/program/operators/shapes.hpp>
#include <lod/program/operators/unary.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs {

/// The ways from the root of a tree to its leaves, which are the classes: at each inner node left or right. Without
/// tables it is the complete tree whose nodes are numbered level by level, the leaves last.
struct WaysToClasses {
  std::int64_t classes;
  std::int64_t longest;                  ///< the greatest number of inner nodes on a way
  const std::int64_t* labels = nullptr;  ///< of rows, if there are no tables
  const std::int64_t* nodes = nullptr;   ///< `longest` for each row; a negative one ends the way
  const std::int64_t* turns = nullptr;   ///< 1 where the way goes right

  /// Calls f(place, node, is_right) for the nodes on the way of a row.
  template <class F>
  void for_each_node(std::int64_t row, const F& f) const {
    if (nodes) {
      for (std::int64_t k = 0; k < longest && nodes[row * longest + k] >= 0; ++k) {
        f(k, nodes[row * longest + k], turns[row * longest + k] != 0);
      }
      return;
    }
    const auto leaf = static_cast<std::uint64_t>(labels[row] + classes);
    const auto length = static_cast<std::int64_t>(std::bit_width(leaf)) - 1;
    for (std::int64_t k = 0; k < length; ++k) {
      f(k, static_cast<std::int64_t>(leaf >> (k + 1)) - 1, ((leaf >> k) & 1) != 0);
    }
  }
};

/// The arguments of hierarchical_sigmoid and its gradient: X; W, a row for each inner node; Label; Bias?, a number for
/// each inner node; for a tree of the caller's, PathTable? and PathCode?, the inner nodes on the way of each row and
/// the turns there; num_classes = 2.
class HierarchicalSigmoidArguments {
 public:
  explicit HierarchicalSigmoidArguments(const OperatorArguments& op)
      : x(op.input("X")),
        weight(op.input("W")),
        bias(op.optional_input("Bias")),
        label_(op.input("Label")),
        nodes_(op.optional_input("PathTable")),
        turns_(op.optional_input("PathCode")),
        classes_(op.attr("num_classes", 2)) {
    if (classes_ < 2) op.refuse_attr("num_classes", "2 or more");
    if (static_cast<bool>(nodes_) != static_cast<bool>(turns_)) op.refuse({"expected both PathTable and PathCode"});
  }
  Slot x, weight, bias;

  /// The ways. Throws unless all numbers are valid.
  template <class E>
  WaysToClasses ways(const OperatorCall<E>& call) const {
    const AnyLoDTensor &rows = call.tensor(x), &table = call.tensor(weight);
    if (table.row_size() != rows.row_size()) {
      throw ShapeMismatch(detail::text({call.name(weight), " of shape ", to_string(table.shape()),
                                        ", expected rows of ", rows.row_size(), " numbers, as of ", call.name(x)}));
    }
    if (!nodes_) {
      if (table.rows() < classes_ - 1) {
        throw ShapeMismatch(detail::text({call.name(weight), " of shape ", to_string(table.shape()), ", expected ",
                                          classes_ - 1, " rows, one for each inner node"}));
      }
      const auto longest = static_cast<std::int64_t>(std::bit_width(static_cast<std::uint64_t>(classes_ - 1)));
      return {classes_, longest, labels_of(call, label_, rows.rows(), classes_)};
    }
    const AnyLoDTensor& given = call.tensor(nodes_);
    const auto* const nodes = call.template view<std::int64_t>(nodes_).data();
    if (given.rows() != rows.rows()) {
      throw ShapeMismatch(detail::text(
          {call.name(nodes_), " of ", given.rows(), " rows, expected ", rows.rows(), ", as ", call.name(x)}));
    }
    for (std::int64_t i = 0; i < given.rows() * given.row_size(); ++i) {
      if (nodes[i] >= table.rows()) {
        throw OutOfRange(
            detail::text({call.name(nodes_), ": node ", nodes[i], " at ", i, ", expected 0 to ", table.rows() - 1}));
      }
    }
    return {classes_, given.row_size(), nullptr, nodes, numbers_of<std::int64_t>(call, turns_, given.shape())};
  }
  /// The bias of each inner node; null if there is none.
  template <class T, class E>
  const T* biases(const OperatorCall<E>& call) const {
    return bias ? some_numbers<T>(call, bias, call.tensor(weight).rows()) : nullptr;
  }

 private:
  Slot label_, nodes_, turns_;
  std::int64_t classes_;
};

/// hierarchical_sigmoid: attributes and inputs as HierarchicalSigmoidArguments -> Out, a loss for each row; PreOut: for
/// each place on a way log(1 + e^z), where z is the output of the inner node there for the row, clipped to [-40, 40].
/// Places after the end of a shorter way count as z = 0, as in PaddlePaddle.
template <Executor E>
RunOperator<E> hierarchical_sigmoid(const OperatorArguments& op) {
  const Slot out = op.output("Out"), pre_out = op.output("PreOut");
  return [=, in = HierarchicalSigmoidArguments(op)](OperatorCall<E>& call) {
    const AnyLoDTensor& from = call.tensor(in.x);
    const std::int64_t size = from.row_size();
    const WaysToClasses ways = in.ways(call);
    call.with_floating(in.x, [&](auto element) {
      using T = typename decltype(element)::type;
      const T* const x = call.template view<T>(in.x).data();
      const T *const weights = call.template view<T>(in.weight).data(), *const bias = in.template biases<T>(call);
      auto pre = call.output_bytes(pre_out, from.data_type(), LoD(), {ways.longest}, from.rows());
      auto y = call.output_bytes(out, from.data_type(), from.lod(), {1}, from.rows());
      T *at = pre.template elements<T>(), *const to = y.template elements<T>();
      std::fill_n(at, from.rows() * ways.longest, std::log(T{2}));
      for (std::int64_t i = 0; i < from.rows(); ++i, at += ways.longest) {
        double total = 0;
        ways.for_each_node(i, [&](std::int64_t k, std::int64_t node, bool is_right) {
          double z = bias ? static_cast<double>(bias[node]) : 0;
          for (std::int64_t j = 0; j < size; ++j) {
            z += static_cast<double>(x[i * size + j]) * static_cast<double>(weights[node * size + j]);
          }
          z = between(z, -40.0, 40.0);
          at[k] = static_cast<T>(std::log1p(std::exp(z)));
          if (is_right) total -= z;
        });
        for (std::int64_t k = 0; k < ways.longest; ++k) total += static_cast<double>(at[k]);
        to[i] = static_cast<T>(total);
      }
    });
  };
}
/// hierarchical_sigmoid_grad: the same inputs, PreOut and Out@GRAD -> X@GRAD?, W@GRAD?, Bias@GRAD?; is_sparse = false:
/// whether W@GRAD is row-sparse, with a row for each inner node on a way.
template <Executor E>
RunOperator<E> hierarchical_sigmoid_grad(const OperatorArguments& op) {
  const bool is_sparse = op.attr("is_sparse", false);
  const Slot pre_out = op.input("PreOut"), dy = op.input("Out@GRAD");
  const Slot to_x = op.optional_output("X@GRAD"), to_weight = op.optional_output("W@GRAD");
  const Slot to_bias = op.optional_output("Bias@GRAD");
  const HierarchicalSigmoidArguments in(op);
  if (to_bias && !in.bias) op.refuse({"output 'Bias@GRAD' without the input 'Bias'"});
  return [=](OperatorCall<E>& call) {
    const AnyLoDTensor from = call.tensor(in.x), table = call.tensor(in.weight);
    const std::int64_t size = from.row_size();
    const WaysToClasses ways = in.ways(call);
    call.with_floating(in.x, [&](auto element) {
      using T = typename decltype(element)::type;
      const T* const x = call.template view<T>(in.x).data();
      const T* const weights = call.template view<T>(in.weight).data();
      const T* const pre = numbers_of<T>(call, pre_out, {from.rows(), ways.longest});
      const T* const given = some_numbers<T>(call, dy, from.rows());
      static_cast<void>(in.template biases<T>(call));
      // Calls f(row, node, gradient with respect to the output of the node for the row).
      const auto for_each_gradient = [&](const auto& f) {
        for (std::int64_t i = 0; i < from.rows(); ++i) {
          ways.for_each_node(i, [&](std::int64_t k, std::int64_t node, bool is_right) {
            const double sigmoid = -std::expm1(-static_cast<double>(pre[i * ways.longest + k]));
            f(i, node, (sigmoid - (is_right ? 1 : 0)) * static_cast<double>(given[i]));
          });
        }
      };
      if (to_x) {
        write_sums<T>(call, to_x, from, [&](double* sums) {
          for_each_gradient([&](std::int64_t i, std::int64_t node, double g) {
            for (std::int64_t j = 0; j < size; ++j) {
              sums[i * size + j] += g * static_cast<double>(weights[node * size + j]);
            }
          });
        });
      }
      if (to_weight && is_sparse) {
        std::int64_t count = 0;
        for_each_gradient([&](std::int64_t, std::int64_t, double) { ++count; });
        Workspace& workspace = call.executor().workspace();
        const Workspace::Loan<std::int64_t> nodes(workspace, count);
        const Workspace::Loan<T> values(workspace, Shape{count, size}.elements());
        std::int64_t at = 0;
        for_each_gradient([&](std::int64_t i, std::int64_t node, double g) {
          nodes[at] = node;
          std::transform(x + i * size, x + (i + 1) * size, values.data() + at++ * size,
                         [factor = static_cast<T>(g)](T v) { return factor * v; });
        });
        const Shape row_shape{size}, scalar;
        OutputRows<T> to(call.variable(to_weight), call.executor().resource());
        embedding_grad_into(
            call.executor(), LoDTensorView<const T>(values.data(), LoDView::plain(0, count), &row_shape, size),
            LoDTensorView<const std::int64_t>(nodes.data(), LoDView::plain(0, count), &scalar, 1), table.rows(), *to);
      } else if (to_weight) {
        write_sums<T>(call, to_weight, table, [&](double* sums) {
          for_each_gradient([&](std::int64_t i, std::int64_t node, double g) {
            for (std::int64_t j = 0; j < size; ++j) sums[node * size + j] += g * static_cast<double>(x[i * size + j]);
          });
        });
      }
      if (to_bias) {
        write_sums<T>(call, to_bias, call.tensor(in.bias), [&](double* sums) {
          for_each_gradient([&](std::int64_t, std::int64_t node, double g) { sums[node] += g; });
        });
      }
    });
  };
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs
