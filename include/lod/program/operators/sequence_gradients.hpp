// SPDX-License-Identifier: Apache-2.0
/// @file
/// The gradients of the operators on sequences, X_grad for each X, with PaddlePaddle's slots. Gradients that are not
/// needed may be left out. (The gradient of sequence_reverse is sequence_reverse itself.)
#pragma once

#include <lod/core/any_tensor.hpp>
#include <lod/core/error.hpp>
#include <lod/core/executor.hpp>
#include <lod/core/lod_index.hpp>
#include <lod/core/lod_tensor.hpp>
#include <lod/core/lod_view.hpp>
#include <lod/core/shape.hpp>
#include <lod/core/target.hpp>
#include <lod/ops/for_each_place.hpp>
#include <lod/ops/im2sequence.hpp>
#include <lod/ops/lod_reset.hpp>
#include <lod/ops/row_conv.hpp>
#include <lod/ops/sequence_concat.hpp>
#include <lod/ops/sequence_conv.hpp>
#include <lod/ops/sequence_expand.hpp>
#include <lod/ops/sequence_pad.hpp>
#include <lod/ops/sequence_pool.hpp>
#include <lod/ops/sequence_reshape.hpp>
#include <lod/ops/sequence_scatter.hpp>
#include <lod/ops/sequence_slice.hpp>
#include <lod/ops/sequence_softmax.hpp>
#include <lod/ops/sequence_topk_avg_pooling.hpp>
#include <lod/program/gradient.hpp>
#include <lod/program/operator.hpp>
#include <lod/program/operators/calls.hpp>
#include <lod/program/operators/sequence.hpp>
#include <lod/program/program.hpp>
#include <lod/program/variable.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs {

/// The gradient of sequence_pool reads MaxIndex if there is one.
inline std::vector<OpDesc> gradient_of_sequence_pool(const GradientArguments& op) {
  const bool has_winners = pool_type(OperatorArguments(op.desc())) == PoolType::MAX;
  return {op.describe(has_winners ? "X, MaxIndex, Out@GRAD -> X@GRAD" : "X, Out@GRAD -> X@GRAD")};
}
/// sequence_pool_grad: X, MaxIndex?, Out@GRAD -> X@GRAD; pooltype = "AVERAGE". MaxIndex is needed for MAX. The gradient
/// of an empty sequence, whose row is padding, is dropped.
template <Executor E>
RunOperator<E> sequence_pool_grad(const OperatorArguments& op) {
  const Slot x = op.input("X"), dy = op.input("Out@GRAD"), out = op.output("X@GRAD");
  const PoolType type = pool_type(op);
  if (type != PoolType::MAX) return calls<E>(sequence_pool_grad_into, out, Reals{dy}, LevelsOf{x}, type);
  return [=, index = op.input("MaxIndex")](OperatorCall<E>& call) {
    const auto rows = call.template view<std::int32_t>(index);
    const kernel::Scratch<E, std::int64_t> winners(call.executor(), rows.rows() * rows.row_size());
    operation::map_numbers(call.executor(), rows.data(), rows.rows() * rows.row_size(), winners.data(),
                           To<std::int64_t>());
    call.with_floating(dy, [&](auto element) {
      using T = typename decltype(element)::type;
      auto dx = call.template output<T>(out);
      sequence_max_pool_grad_into(call.executor(), call.template view<T>(dy),
                                  LoDTensorView<const std::int64_t, typename E::device>(
                                      winners.data(), rows.lod_view(), &rows.row_shape(), rows.row_size()),
                                  call.tensor(x).lod(), *dx);
    });
  };
}

/// sequence_softmax_grad: X, Out, Out@GRAD -> X@GRAD.
template <Executor E>
RunOperator<E> sequence_softmax_grad(const OperatorArguments& op) {
  return calls<E>(sequence_softmax_grad_into, op.output("X@GRAD"), Reals{op.input("Out@GRAD")},
                  Tensor{op.input("Out")});
}

/// sequence_expand_grad: X, Y, Out@GRAD -> X@GRAD; ref_level = -1.
template <Executor E>
RunOperator<E> sequence_expand_grad(const OperatorArguments& op) {
  return calls<E>(sequence_expand_grad_into, op.output("X@GRAD"), Reals{op.input("Out@GRAD")}, LevelsOf{op.input("X")},
                  LevelsOf{op.input("Y")}, ExpandOptions{.ref_level = op.attr("ref_level", -1)});
}

/// sequence_expand_as_grad: X, Y, Out@GRAD -> X@GRAD.
template <Executor E>
RunOperator<E> sequence_expand_as_grad(const OperatorArguments& op) {
  return calls<E>(sequence_expand_as_grad_into, op.output("X@GRAD"), Reals{op.input("Out@GRAD")},
                  LevelsOf{op.input("Y")});
}

/// sequence_concat_grad: X..., Out@GRAD -> X@GRAD...
template <Executor E>
RunOperator<E> sequence_concat_grad(const OperatorArguments& op) {
  const Slot x = op.inputs("X"), dy = op.input("Out@GRAD"), out = op.outputs("X@GRAD");
  if (!x || out.size != x.size) op.refuse({out.size, " outputs 'X@GRAD', expected one for each of ", x.size, " 'X'"});
  return [=, lods = std::vector<LoD>(x.size), spare = std::vector<Variable>(x.size)](OperatorCall<E>& call) mutable {
    for (std::size_t i = 0; i < x.size; ++i) lods[i] = call.tensor(x, i).lod();
    call.with_floating(dy, [&](auto element) {
      using T = typename decltype(element)::type;
      OutputTensors<T, E> dxs(call, out, spare);
      sequence_concat_grad_into(call.executor(), call.template view<T>(dy), lods, dxs);
    });
  };
}

/// sequence_conv_grad: X, Filter, PaddingData?, Out@GRAD -> X@GRAD?, Filter@GRAD?, PaddingData@GRAD?; the attributes of
/// sequence_conv.
template <Executor E>
RunOperator<E> sequence_conv_grad(const OperatorArguments& op) {
  op.expect_attr("contextStride", 1);
  const Slot x = op.input("X"), filter = op.input("Filter"), dy = op.input("Out@GRAD");
  const Slot padding = op.attr("paddingTrainable", false) ? op.input("PaddingData") : Slot();
  const Slot dx = op.optional_output("X@GRAD"), dfilter = op.optional_output("Filter@GRAD");
  const Slot dpadding = padding ? op.optional_output("PaddingData@GRAD") : Slot();
  const std::int32_t length = op.desc().attr<std::int32_t>("contextLength"), start = op.attr("contextStart", 0);
  return [=, spare = Variable(), spare_filter = Variable()](OperatorCall<E>& call) mutable {
    call.with_floating(dy, [&](auto element) {
      using T = typename decltype(element)::type;
      ConvOptions<T, typename E::device> options{.context_length = length, .context_start = start};
      if (padding) options.padding = call.template view<T>(padding);
      const auto gradients = [&](auto&... outputs) {
        sequence_conv_grad_into(call.executor(), call.template view<T>(dy), call.template view<T>(x),
                                call.template view<T>(filter), options, outputs...);
      };
      auto to_x = output_or<T>(call, dx, spare);
      auto to_filter = output_or<T>(call, dfilter, spare_filter);
      if (!dpadding) return gradients(*to_x, *to_filter);
      auto to_padding = call.template output<T>(dpadding);
      gradients(*to_x, *to_filter, *to_padding);
    });
  };
}

/// row_conv_grad: X, Filter, Out@GRAD -> X@GRAD?, Filter@GRAD?
template <Executor E>
RunOperator<E> row_conv_grad(const OperatorArguments& op) {
  return calls_for_two<E>(row_conv_grad_into, op.optional_output("X@GRAD"), op.optional_output("Filter@GRAD"),
                          Reals{op.input("Out@GRAD")}, Tensor{op.input("X")}, Tensor{op.input("Filter")});
}

/// sequence_pad_grad: X, Out@GRAD -> X@GRAD; padded_length = -1.
template <Executor E>
RunOperator<E> sequence_pad_grad(const OperatorArguments& op) {
  return calls<E>(sequence_pad_grad_into, op.output("X@GRAD"), Reals{op.input("Out@GRAD")}, LevelsOf{op.input("X")},
                  PadOptions{.padded_length = op.attr("padded_length", -1)});
}

/// sequence_unpad_grad: X, Out@GRAD -> X@GRAD. The sequences are those of Out@GRAD.
template <Executor E>
RunOperator<E> sequence_unpad_grad(const OperatorArguments& op) {
  const Slot x = op.input("X"), dy = op.input("Out@GRAD"), out = op.output("X@GRAD");
  return [=, lengths = LoDTensor<std::int64_t>()](OperatorCall<E>& call) mutable {
    call.with_floating(dy, [&](auto element) {
      using T = typename decltype(element)::type;
      const auto& padded = call.tensor(x);
      if (padded.row_shape().empty()) {
        throw ShapeMismatch(
            detail::text({call.name(x), " of shape ", to_string(padded.shape()), ", expected two dimensions or more"}));
      }
      // As in sequence_unpad, single numbers are rows of size 1.
      const auto given = call.template view<T>(dy);
      const Shape row_shape = padded.row_shape().without_first();
      const LoDTensorView<const T, typename E::device> rows(given.data(), given.lod_view(), &row_shape,
                                                            row_shape.elements());
      if (given.levels() != 1 || given.lod_view().size(0) != padded.rows() ||
          given.row_size() != row_shape.elements()) {
        throw ShapeMismatch(detail::text({call.name(dy), " of shape ", to_string(given.shape()), " and ",
                                          given.levels(), " levels, expected a sequence for each row of ", call.name(x),
                                          ", of shape ", to_string(padded.shape())}));
      }
      auto dx = call.template output<T>(out);
      sequence_pad_into(call.executor(), rows, PadOptions{.padded_length = padded.row_shape().front()}, *dx, lengths);
    });
  };
}

/// sequence_slice_grad: X, Offset, Length, Out@GRAD -> X@GRAD.
template <Executor E>
RunOperator<E> sequence_slice_grad(const OperatorArguments& op) {
  return calls<E>(sequence_slice_grad_into, op.output("X@GRAD"), Reals{op.input("Out@GRAD")}, LevelsOf{op.input("X")},
                  Ids{op.input("Offset")}, Ids{op.input("Length")});
}

/// sequence_reshape_grad: X, Out@GRAD -> X@GRAD.
template <Executor E>
RunOperator<E> sequence_reshape_grad(const OperatorArguments& op) {
  return calls<E>(sequence_reshape_grad_into, op.output("X@GRAD"), Reals{op.input("Out@GRAD")}, LevelsOf{op.input("X")},
                  RowShapeOf{op.input("X")});
}

/// sequence_scatter_grad: Ids, Updates, Out@GRAD -> X@GRAD?, Updates@GRAD?
template <Executor E>
RunOperator<E> sequence_scatter_grad(const OperatorArguments& op) {
  return calls_for_two<E>(sequence_scatter_grad_into, op.optional_output("X@GRAD"), op.optional_output("Updates@GRAD"),
                          Reals{op.input("Out@GRAD")}, Ids{op.input("Ids")});
}

/// sequence_topk_avg_pooling_grad: X, ROW, COLUMN, Out@GRAD -> X@GRAD; topks, channel_num.
template <Executor E>
RunOperator<E> sequence_topk_avg_pooling_grad(const OperatorArguments& op) {
  const std::int64_t channels = op.desc().attr<std::int32_t>("channel_num");
  return calls<E>(sequence_topk_avg_pooling_grad_into, op.output("X@GRAD"), Reals{op.input("Out@GRAD")},
                  Tensor{op.input("X")}, LevelsOf{op.input("ROW")}, LevelsOf{op.input("COLUMN")},
                  op.desc().attr<std::vector<std::int64_t>>("topks"), channels);
}

/// lod_reset_grad: X, Out@GRAD -> X@GRAD.
template <Executor E>
RunOperator<E> lod_reset_grad(const OperatorArguments& op) {
  return calls<E>(lod_reset_grad_into, op.output("X@GRAD"), Reals{op.input("Out@GRAD")}, LevelsOf{op.input("X")});
}

/// im2sequence_grad: X, Out@GRAD -> X@GRAD; the options of im2sequence.
template <Executor E>
RunOperator<E> im2sequence_grad(const OperatorArguments& op) {
  op.expect_no_input("Y");
  return calls<E>(im2sequence_grad_into, op.output("X@GRAD"), Reals{op.input("Out@GRAD")}, Tensor{op.input("X")},
                  im2sequence_options(op));
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs
