// SPDX-License-Identifier: Apache-2.0
/// @file
/// Operators on sequences: sequence_*, lod_reset, row_conv, im2sequence, edit_distance, ctc_align,
/// add_position_encoding. Nearly every one calls an operation of this library, with PaddlePaddle's names and defaults.
/// Where PaddlePaddle takes one level, these take any number.
#pragma once

#include <lod/core/any_tensor.hpp>
#include <lod/core/data_type.hpp>
#include <lod/core/error.hpp>
#include <lod/core/executor.hpp>
#include <lod/core/lod_index.hpp>
#include <lod/core/lod_view.hpp>
#include <lod/core/scalar.hpp>
#include <lod/core/shape.hpp>
#include <lod/core/target.hpp>
#include <lod/ops/ctc_align.hpp>
#include <lod/ops/edit_distance.hpp>
#include <lod/ops/for_each_place.hpp>
#include <lod/ops/im2sequence.hpp>
#include <lod/ops/lod_reset.hpp>
#include <lod/ops/row_conv.hpp>
#include <lod/ops/sequence_concat.hpp>
#include <lod/ops/sequence_conv.hpp>
#include <lod/ops/sequence_enumerate.hpp>
#include <lod/ops/sequence_erase.hpp>
#include <lod/ops/sequence_expand.hpp>
#include <lod/ops/sequence_mask.hpp>
#include <lod/ops/sequence_pad.hpp>
#include <lod/ops/sequence_pool.hpp>
#include <lod/ops/sequence_reshape.hpp>
#include <lod/ops/sequence_reverse.hpp>
#include <lod/ops/sequence_scatter.hpp>
#include <lod/ops/sequence_slice.hpp>
#include <lod/ops/sequence_softmax.hpp>
#include <lod/ops/sequence_topk_avg_pooling.hpp>
#include <lod/program/operator.hpp>
#include <lod/program/operators/calls.hpp>
#include <lod/program/operators/shapes.hpp>
#include <lod/program/operators/unary.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs {

/// A number as another type.
template <class U>
struct To {
  template <class T>
  LOD_HOST_DEVICE U operator()(T x) const {
    return static_cast<U>(x);
  }
};

/// The `pooltype` of an operator, "AVERAGE" by default.
inline PoolType pool_type(const OperatorArguments& op) {
  constexpr std::pair<std::string_view, PoolType> types[] = {{"AVERAGE", PoolType::AVERAGE}, {"SUM", PoolType::SUM},
                                                             {"SQRT", PoolType::SQRT},       {"MAX", PoolType::MAX},
                                                             {"FIRST", PoolType::FIRST},     {"LAST", PoolType::LAST}};
  const std::string name = op.attr("pooltype", "AVERAGE");
  const auto* const type =
      std::find_if(std::begin(types), std::end(types), [&](const auto& t) { return t.first == name; });
  if (type == std::end(types)) op.refuse_attr("pooltype", "AVERAGE, SUM, SQRT, MAX, FIRST or LAST");
  return type->second;
}

/// sequence_pool: X -> Out, MaxIndex?; pooltype = "AVERAGE", pad_value = 0, is_test = false. MaxIndex, INT32, is
/// written for MAX, unless in a test: for each number of Out its row in X, -1 for an empty sequence.
template <Executor E>
RunOperator<E> sequence_pool(const OperatorArguments& op) {
  const Slot x = op.input("X"), out = op.output("Out");
  const PoolOptions options{.pad_value = op.attr("pad_value", 0.0f)};
  const PoolType type = pool_type(op);
  const Slot index = op.optional_output("MaxIndex");
  if (type != PoolType::MAX || !index || op.attr("is_test", false)) {
    return calls<E>(sequence_pool_into, out, Numbers{x}, type, options);
  }
  return [=, winners = LoDTensor<std::int64_t, typename E::device>()](OperatorCall<E>& call) mutable {
    if (call.tensor(x).rows() > std::numeric_limits<std::int32_t>::max()) {
      throw ShapeMismatch(detail::text({call.name(x), ": more rows than MaxIndex, INT32, can count"}));
    }
    call.with_number(x, [&](auto element) {
      using T = typename decltype(element)::type;
      auto y = call.template output<T>(out);
      sequence_max_pool_into(call.executor(), call.template view<T>(x), options, *y, winners);
    });
    auto rows = call.output_bytes(index, DataType::INT32, LoD(), winners.row_shape(), winners.rows());
    operation::map_numbers(call.executor(), winners.data(), winners.rows() * winners.row_size(),
                           rows.template elements<std::int32_t>(), To<std::int32_t>());
  };
}

/// sequence_softmax: X -> Out.
template <Executor E>
RunOperator<E> sequence_softmax(const OperatorArguments& op) {
  return calls<E>(sequence_softmax_into, op.output("Out"), Reals{op.input("X")});
}

/// sequence_reverse: X -> Y.
template <Executor E>
RunOperator<E> sequence_reverse(const OperatorArguments& op) {
  return calls<E>(sequence_reverse_into, op.output("Y"), Numbers{op.input("X")});
}

/// sequence_expand: X, Y -> Out; ref_level = -1. Of Y only the levels are used.
template <Executor E>
RunOperator<E> sequence_expand(const OperatorArguments& op) {
  return calls<E>(sequence_expand_into, op.output("Out"), Numbers{op.input("X")}, LevelsOf{op.input("Y")},
                  ExpandOptions{.ref_level = op.attr("ref_level", -1)});
}

/// sequence_expand_as: X, Y -> Out. Of Y only the levels are used.
template <Executor E>
RunOperator<E> sequence_expand_as(const OperatorArguments& op) {
  return calls<E>(sequence_expand_as_into, op.output("Out"), Numbers{op.input("X")}, LevelsOf{op.input("Y")});
}

/// sequence_concat: X... -> Out.
template <Executor E>
RunOperator<E> sequence_concat(const OperatorArguments& op) {
  const Slot x = op.inputs("X"), out = op.output("Out");
  if (!x) op.refuse({"input 'X' has no argument, expected one or more"});
  return [=](OperatorCall<E>& call) {
    call.with_number(x, [&](auto element) {
      using T = typename decltype(element)::type;
      using View = LoDTensorView<const T, typename E::device>;
      const Workspace::Loan<View> views(call.executor().workspace(), static_cast<std::int64_t>(x.size));
      for (std::size_t i = 0; i < x.size; ++i) {
        ::new (static_cast<void*>(views.data() + i)) View(call.template view<T>(x, i));
      }
      auto y = call.template output<T>(out);
      sequence_concat_into(call.executor(), std::span<const View>(views.span()), *y);
    });
  };
}

/// sequence_conv: X, Filter, PaddingData? -> Out; contextLength, contextStart = 0, contextStride = 1,
/// paddingTrainable = false.
template <Executor E>
RunOperator<E> sequence_conv(const OperatorArguments& op) {
  op.expect_attr("contextStride", 1);
  const Slot x = op.input("X"), filter = op.input("Filter"), out = op.output("Out");
  const Slot padding = op.attr("paddingTrainable", false) ? op.input("PaddingData") : Slot();
  const std::int32_t length = op.desc().attr<std::int32_t>("contextLength"), start = op.attr("contextStart", 0);
  return [=](OperatorCall<E>& call) {
    call.with_floating(x, [&](auto element) {
      using T = typename decltype(element)::type;
      ConvOptions<T, typename E::device> options{.context_length = length, .context_start = start};
      if (padding) options.padding = call.template view<T>(padding);
      auto y = call.template output<T>(out);
      sequence_conv_into(call.executor(), call.template view<T>(x), call.template view<T>(filter), options, *y);
    });
  };
}

/// row_conv: X, Filter -> Out.
template <Executor E>
RunOperator<E> row_conv(const OperatorArguments& op) {
  return calls<E>(row_conv_into, op.output("Out"), Reals{op.input("X")}, Tensor{op.input("Filter")});
}

/// sequence_pad: X, PadValue -> Out, Length; padded_length = -1. The padding is one number.
template <Executor E>
RunOperator<E> sequence_pad(const OperatorArguments& op) {
  const Slot x = op.input("X"), value = op.input("PadValue"), out = op.output("Out"), lengths = op.output("Length");
  const std::int32_t padded_length = op.attr("padded_length", -1);
  return [=](OperatorCall<E>& call) {
    call.with_number(x, [&](auto element) {
      using T = typename decltype(element)::type;
      auto y = call.template output<T>(out);
      auto sizes = call.template output<std::int64_t>(lengths);
      sequence_pad_into(call.executor(), call.template view<T>(x),
                        PadOptions{.pad_value = only_number<T>(call, value), .padded_length = padded_length}, *y,
                        *sizes);
    });
  };
}

/// sequence_unpad: X, Length -> Out. Padded ids, {sequences, padded length}, become rows of one.
template <Executor E>
RunOperator<E> sequence_unpad(const OperatorArguments& op) {
  const Slot x = op.input("X"), lengths = op.input("Length"), out = op.output("Out");
  return [=](OperatorCall<E>& call) {
    call.with_number(x, [&](auto element) {
      using T = typename decltype(element)::type;
      const auto dense = call.template view<T>(x);
      const Shape row_shape = dense.row_shape().size() == 1 ? dense.row_shape().followed_by({1}) : dense.row_shape();
      auto y = call.template output<T>(out);
      sequence_unpad_into(call.executor(), with_rows(dense, dense.rows(), row_shape),
                          call.template view<std::int64_t>(lengths), *y);
    });
  };
}

/// sequence_slice: X, Offset, Length -> Out.
template <Executor E>
RunOperator<E> sequence_slice(const OperatorArguments& op) {
  return calls<E>(sequence_slice_into, op.output("Out"), Numbers{op.input("X")}, Ids{op.input("Offset")},
                  Ids{op.input("Length")});
}

/// sequence_reshape: X -> Out; new_dim.
template <Executor E>
RunOperator<E> sequence_reshape(const OperatorArguments& op) {
  const std::int64_t size = op.desc().attr<std::int32_t>("new_dim");
  return calls<E>(sequence_reshape_into, op.output("Out"), Numbers{op.input("X")}, size);
}

/// sequence_scatter: X, Ids, Updates -> Out.
template <Executor E>
RunOperator<E> sequence_scatter(const OperatorArguments& op) {
  return calls<E>(sequence_scatter_into, op.output("Out"), Numbers{op.input("X")}, Ids{op.input("Ids")},
                  Tensor{op.input("Updates")});
}

/// sequence_enumerate: X -> Out; win_size, pad_value = 0.
template <Executor E>
RunOperator<E> sequence_enumerate(const OperatorArguments& op) {
  const std::int64_t window = op.desc().attr<std::int32_t>("win_size");
  return calls<E>(sequence_enumerate_into, op.output("Out"), Integers{op.input("X")}, window,
                  EnumerateOptions{.pad_value = op.attr("pad_value", 0)});
}

/// sequence_erase: X -> Out; tokens.
template <Executor E>
RunOperator<E> sequence_erase(const OperatorArguments& op) {
  return calls<E>([](const auto& executor, const auto& x, const auto& tokens,
                     auto& y) { sequence_erase_into(executor, x, tokens, y); },
                  op.output("Out"), Integers{op.input("X")}, op.desc().attr<std::vector<std::int64_t>>("tokens"));
}

/// sequence_mask: X, MaxLenTensor? -> Y; maxlen = -1, out_dtype = INT64. MaxLenTensor, one number of type INT32,
/// replaces the attribute maxlen.
template <Executor E>
RunOperator<E> sequence_mask(const OperatorArguments& op) {
  const Slot x = op.input("X"), longest = op.optional_input("MaxLenTensor"), out = op.output("Y");
  const std::int32_t max_length = op.attr("maxlen", -1);
  const DataType type = output_type(op, "out_dtype", DataType::INT64);
  return [=](OperatorCall<E>& call) {
    const auto lengths = call.template view<std::int64_t>(x);
    const MaskOptions options{.max_length = longest ? only_number<std::int32_t>(call, longest) : max_length};
    with_output_type(type, [&](auto element) {
      using T = typename decltype(element)::type;
      auto y = call.template output<T>(out);
      sequence_mask_into(call.executor(), lengths, options, *y);
    });
  };
}

/// sequence_topk_avg_pooling: X, ROW, COLUMN -> Out; topks, channel_num. The output `pos`, which no gradient here
/// needs, is not written.
template <Executor E>
RunOperator<E> sequence_topk_avg_pooling(const OperatorArguments& op) {
  const std::int64_t channels = op.desc().attr<std::int32_t>("channel_num");
  return calls<E>(sequence_topk_avg_pooling_into, op.output("Out"), Reals{op.input("X")}, LevelsOf{op.input("ROW")},
                  LevelsOf{op.input("COLUMN")}, op.desc().attr<std::vector<std::int64_t>>("topks"), channels);
}

/// lod_reset: X, Y? -> Out; target_lod, append = false. The levels are those of Y; if it has none, Y holds the offsets
/// of one level, of type INT32; without Y they are `target_lod`.
template <Executor E>
RunOperator<E> lod_reset(const OperatorArguments& op) {
  const Slot x = op.input("X"), y = op.optional_input("Y"), out = op.output("Out");
  const bool appends = op.attr("append", false);
  const std::vector<std::int64_t> target = op.attr("target_lod", std::vector<std::int64_t>());
  if (!y && target.empty()) op.refuse({"expected an input 'Y' or an attribute 'target_lod'"});
  return [=](OperatorCall<E>& call) {
    call.with_number(x, [&](auto element) {
      using T = typename decltype(element)::type;
      const auto from = call.template view<T>(x);
      auto to = call.template output<T>(out);
      if (y && call.tensor(y).levels() > 0) {
        return lod_reset_into(call.executor(), from, call.tensor(y).lod(), *to);
      }
      const auto cut = [&](std::span<const std::int64_t> offsets) {
        const auto& base = appends ? from : with_rows(from, from.rows(), from.row_shape());
        lod_append_into(call.executor(), base, offsets, *to);
      };
      if (!y) return cut(target);
      const auto given = call.template view<std::int32_t>(y).values();
      const Workspace::Loan<std::int64_t> offsets(call.executor().workspace(), static_cast<std::int64_t>(given.size()));
      std::copy(given.begin(), given.end(), offsets.data());
      cut(offsets.span());
    });
  };
}

/// The options of im2sequence: kernels, strides = {1, 1}, paddings = {0, 0, 0, 0}.
inline Im2SequenceOptions im2sequence_options(const OperatorArguments& op) {
  Im2SequenceOptions options;
  const auto read = [&](const char* name, auto& to) {
    if (!op.desc().find_attr(name)) return;
    const auto given = op.desc().attr<std::vector<std::int64_t>>(name);
    if (given.size() != to.size()) op.refuse_attr(name, detail::text({to.size(), " numbers"}));
    std::copy(given.begin(), given.end(), to.begin());
  };
  read("kernels", options.kernels);
  read("strides", options.strides);
  read("paddings", options.paddings);
  return options;
}
/// im2sequence: X -> Out; its options.
template <Executor E>
RunOperator<E> im2sequence(const OperatorArguments& op) {
  op.expect_no_input("Y");
  return calls<E>(im2sequence_into, op.output("Out"), Reals{op.input("X")}, im2sequence_options(op));
}

/// edit_distance: Hyps, Refs -> Out, SequenceNum?; normalized = false. Out is a column, {sequences, 1}, without levels.
template <Executor E>
RunOperator<E> edit_distance(const OperatorArguments& op) {
  op.expect_no_input("HypsLength");
  op.expect_no_input("RefsLength");
  const Slot found = op.input("Hyps"), expected = op.input("Refs"), out = op.output("Out");
  const Slot count = op.optional_output("SequenceNum");
  const EditDistanceOptions options{.normalized = op.attr("normalized", false)};
  return [=, distances = LoDTensor<float>()](OperatorCall<E>& call) mutable {
    call.with_id(found, [&](auto element) {
      using T = typename decltype(element)::type;
      edit_distance_into(call.executor(), call.template view<T>(found), call.template view<T>(expected), options,
                         distances);
    });
    const std::int64_t sequences = distances.rows();
    auto y = call.output_bytes(out, DataType::FP32, LoD(), {1}, sequences);
    std::copy_n(distances.data(), sequences, y.template elements<float>());
    if (count) *call.output_bytes(count, DataType::INT64, LoD(), {}, 1).template elements<std::int64_t>() = sequences;
  };
}

/// ctc_align: Input -> Output; blank = 0, merge_repeated = true. For sequences, not for padded batches.
template <Executor E>
RunOperator<E> ctc_align(const OperatorArguments& op) {
  op.expect_no_input("InputLength");
  return calls<E>(ctc_align_into, op.output("Output"), Integers{op.input("Input")},
                  CtcAlignOptions{.blank = op.attr("blank", 0), .merge_repeated = op.attr("merge_repeated", true)});
}

/// add_position_encoding: X, sequences of rows, or {sequences, rows, numbers} without levels -> Out: alpha * X + beta *
/// encoding; alpha = 1, beta = 1. The encoding of a row's place in its sequence consists of sines in the first half of
/// the numbers and cosines in the second.
template <Executor E>
RunOperator<E> add_position_encoding(const OperatorArguments& op) {
  const Slot x = op.input("X"), out = op.output("Out");
  const auto alpha = static_cast<double>(op.attr("alpha", 1.0f)), beta = static_cast<double>(op.attr("beta", 1.0f));
  return [=](OperatorCall<E>& call) {
    const AnyLoDTensor& from = call.tensor(x);
    const Shape shape = from.shape();
    const std::int32_t levels = from.levels();
    const bool fits = shape.size() == (levels > 0 ? 2 : 3) && shape.back() % 2 == 0;
    if (!fits) {
      throw ShapeMismatch(detail::text({call.name(x), " of shape ", to_string(shape), " and ", levels,
                                        " levels, expected sequences of rows of an even number of numbers"}));
    }
    const std::int64_t pairs = shape.back() / 2;
    call.with_floating(x, [&](auto element) {
      using T = typename decltype(element)::type;
      const T* row = call.template view<T>(x).data();
      auto y = call.output_bytes(out, from.data_type(), from.lod(), from.row_shape(), from.rows());
      T* to = y.template elements<T>();
      if (pairs == 0) return;  // however many rows there are
      const std::int64_t sequences = levels > 0 ? from.lod().size(levels - 1) : shape[0];
      for (std::int64_t i = 0; i < sequences; ++i) {
        const std::int64_t length = levels > 0 ? from.lod().offsets(levels - 1)[static_cast<std::size_t>(i) + 1] -
                                                     from.lod().offsets(levels - 1)[static_cast<std::size_t>(i)]
                                               : shape[1];
        for (std::int64_t place = 0; place < length; ++place, row += 2 * pairs, to += 2 * pairs) {
          for (std::int64_t k = 0; k < pairs; ++k) {
            const double share = pairs > 1 ? static_cast<double>(k) / static_cast<double>(pairs - 1) : 1;
            const double angle = static_cast<double>(place) / std::pow(10000.0, share);
            to[k] = static_cast<T>(alpha * static_cast<double>(row[k]) + beta * std::sin(angle));
            to[pairs + k] = static_cast<T>(alpha * static_cast<double>(row[pairs + k]) + beta * std::cos(angle));
          }
        }
      }
    });
  };
}
/// add_position_encoding_grad: Out@GRAD -> X@GRAD; alpha = 1.
template <Executor E>
RunOperator<E> add_position_encoding_grad(const OperatorArguments& op) {
  const Slot dy = op.input("Out@GRAD"), dx = op.output("X@GRAD");
  const float alpha = op.attr("alpha", 1.0f);
  return [=](OperatorCall<E>& call) {
    call.with_floating(dy, [&](auto element) {
      using T = typename decltype(element)::type;
      map_elements<T, T>(call, dy, dx, [=](T v) { return alpha * v; });
    });
  };
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs
