// SPDX-License-Identifier: Apache-2.0
/// @file
/// The rules of the operators that come with the library, by their types, for `infer_shapes`. Gradients need none.
#pragma once

#include <lod/core/data_type.hpp>
#include <lod/core/desc.hpp>
#include <lod/core/target.hpp>
#include <lod/program/infer_shape_context.hpp>
#include <lod/program/operators/inference_dense.hpp>
#include <lod/program/operators/inference_movement.hpp>
#include <lod/program/operators/inference_sequences.hpp>
#include <lod/program/program.hpp>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs {

/// An output with the description of an input, of any kind of variable.
inline void infer_same(InferShapeContext& op, std::string_view input, std::string_view output) {
  op.set_output(output, op.input(input), 0, op.input_type(input));
}
inline void infer_x_to_out(InferShapeContext& op) { infer_same(op, "X", "Out"); }
inline void infer_x_to_y(InferShapeContext& op) { infer_same(op, "X", "Y"); }
inline void infer_in_to_out(InferShapeContext& op) { infer_same(op, "In", "Out"); }
/// Optimizers and other operators that update their inputs: `ParamOut` is as `Param`.
inline void infer_updates(InferShapeContext& op) {
  constexpr std::string_view suffix = "Out";
  for (const OpDesc::Var& var : op.desc().outputs) {
    const std::string_view parameter = var.parameter;
    if (!parameter.ends_with(suffix)) continue;
    const std::string_view before = parameter.substr(0, parameter.size() - suffix.size());
    if (op.inputs(before) > 0) infer_same(op, before, parameter);
  }
}
/// average_accumulates: `out_sum_1` is as `in_sum_1`.
inline void infer_accumulates(InferShapeContext& op) {
  for (const char* const name : {"sum_1", "sum_2", "sum_3", "num_accumulates", "old_num_accumulates", "num_updates"}) {
    infer_same(op, std::string("in_").append(name), std::string("out_").append(name));
  }
}
/// select_input: what the descriptions of the inputs have in common.
inline void infer_select_input(InferShapeContext& op) {
  LoDTensorDesc x = op.input("X");
  for (std::size_t i = 1; i < op.inputs("X"); ++i) {
    const Dims other = op.input("X", i).tensor.dims;
    for (std::size_t dim = 0; dim < x.tensor.dims.size(); ++dim) {
      if (dim >= other.size() || other[dim] != x.tensor.dims[dim]) x.tensor.dims[dim] = infer::unknown;
    }
  }
  op.set_output("Out", x);
}
inline void infer_select_output(InferShapeContext& op) {
  for (std::size_t i = 0; i < op.outputs("Out"); ++i) op.set_output("Out", op.input("X"), i);
}
/// Operators without outputs, or whose outputs their blocks describe.
inline void infer_nothing(InferShapeContext&) {}
/// read: the tensors of the reader, as far as these are described.
inline void infer_read(InferShapeContext& op) {
  const ReaderDesc& reader = op.reader("Reader");
  for (std::size_t i = 0; i < std::min(op.outputs("Out"), reader.lod_tensor.size()); ++i) {
    op.set_output("Out", reader.lod_tensor[i], i);
  }
}
/// Operators that send or receive, with their optional Status.
inline void infer_status(InferShapeContext& op) { op.set_output("Status", {{DataType::BOOL}}); }
inline void infer_bool(InferShapeContext& op) { op.set_output("Out", {{DataType::BOOL, {1}}}); }
inline void infer_squared_l2_norm(InferShapeContext& op) {
  op.set_output("Out", {{op.input("X").tensor.data_type, {1}}});
}
inline void infer_auc(InferShapeContext& op) {
  op.set_output("AUC", {{DataType::FP64}});
  const std::int64_t thresholds = op.attr("num_thresholds", 8191), steps = op.attr("slide_steps", 1);
  if (thresholds < 1 || steps < 0) throw InvalidProgram("auc: expected thresholds, and 0 or more steps");
  const std::int64_t count = (1 + steps) * (thresholds + 1) + (steps > 0 ? 1 : 0);
  for (const char* out : {"StatPosOut", "StatNegOut"}) {
    op.set_output(out, {{DataType::INT64, steps > 0 ? Dims{count} : Dims{1, count}}});
  }
}
inline void infer_cos_sim(InferShapeContext& op) {
  const LoDTensorDesc x = op.input("X"), y = op.input("Y");
  op.set_output("Out", along(x, axis_of(-1, x.tensor.dims.size()), 1));
  op.set_output("XNorm", with_levels(along(x, axis_of(-1, x.tensor.dims.size()), 1), 0));
  op.set_output("YNorm", with_levels(along(y, axis_of(-1, y.tensor.dims.size()), 1), 0));
}
/// Losses of each number: every output is as the first input.
inline void infer_losses(InferShapeContext& op) {
  for (const OpDesc::Var& var : op.desc().outputs) {
    if (!var.arguments.empty()) infer_same(op, op.desc().inputs.front().parameter, var.parameter);
  }
}
inline void infer_multiplex(InferShapeContext& op) { op.set_output("Out", with_levels(op.input("X"), 0)); }
inline void infer_sampling_id(InferShapeContext& op) {
  const Dims dims = op.input("X").tensor.dims;
  op.set_output("Out", {{DataType::INT64, {dims.empty() ? infer::unknown : dims.front()}}});
}
inline void infer_size(InferShapeContext& op) { op.set_output("Out", {{DataType::INT64}}); }
inline void infer_argsort(InferShapeContext& op) {
  const LoDTensorDesc x = op.input("X");
  op.set_output("Out", x);
  op.set_output("Indices", with_type(x, DataType::INT64));
}
inline void infer_cumsum(InferShapeContext& op) {
  const LoDTensorDesc x = op.input("X");
  const bool is_flat = op.attr("flatten", false);
  op.set_output("Out", is_flat ? reshaped_to(x, {infer::product(x.tensor.dims, "numbers")}) : x);
}
inline void infer_maxout(InferShapeContext& op) {
  const LoDTensorDesc x = op.input("X");
  const std::size_t axis = axis_in(op, "axis", 1, x.tensor.dims.size());
  const std::int64_t channels = x.tensor.dims[axis], size = op.attr("groups", 0);
  if (size < 1) throw OutOfRange("attribute 'groups', expected 1 or more");
  if (channels != infer::unknown && channels % size != 0) {
    throw_dims("X", x.tensor.dims, detail::text({"a multiple of ", size, " channels"}));
  }
  op.set_output("Out", along(x, axis, channels == infer::unknown ? channels : channels / size));
}
inline void infer_bilinear(InferShapeContext& op) {
  const LoDTensorDesc x = op.input("X");
  const Dims &rows = x.tensor.dims, forms = op.input("Weight").tensor.dims;
  if (rows.empty()) throw_dims("X", rows, "rows");
  if (forms.size() != 3) throw_dims("Weight", forms, "three dimensions");
  op.set_output("Out", reshaped_to(x, {rows[0], forms[0]}));
}
inline void infer_range(InferShapeContext& op) {
  op.set_output("Out", {{op.input("Start").tensor.data_type, {infer::unknown}}});
}
inline void infer_bpr_loss(InferShapeContext& op) {
  const LoDTensorDesc x = op.input("X");
  op.set_output("Y", along(x, axis_of(-1, x.tensor.dims.size()), 1));
}
inline void infer_smooth_l1_loss(InferShapeContext& op) {
  const LoDTensorDesc x = op.input("X");
  const Dims& dims = x.tensor.dims;
  op.set_output("Diff", x);
  op.set_output("Out", reshaped_to(x, {dims.empty() ? 1 : dims.front(), 1}));
}
inline void infer_gather_tree(InferShapeContext& op) { op.set_output("Out", with_levels(op.input("Ids"), 0)); }
/// tensor_array_to_tensor: the array may have any number of tensors, which may differ along the axis.
inline void infer_tensor_array_to_tensor(InferShapeContext& op) {
  const LoDTensorDesc x = op.input("X");
  Dims dims = x.tensor.dims;
  const bool is_stack = op.attr("use_stack", false);
  const std::size_t axis = axis_of(op.attr("axis", 0), dims.size(), is_stack ? 1 : 0);
  if (is_stack) {
    dims.insert(dims.begin() + static_cast<std::ptrdiff_t>(axis), infer::unknown);
  } else {
    dims[axis] = infer::unknown;
  }
  op.set_output("Out",
                with_levels(reshaped_to(x, std::move(dims)), is_stack ? Defaulted<std::int32_t>(0) : x.lod_level));
  op.set_output("OutIndex", {{DataType::INT32, {infer::unknown}}});
}
inline void infer_lrn(InferShapeContext& op) {
  for (const char* const out : {"Out", "MidOut"}) infer_same(op, "X", out);
}
/// group_norm, and instance_norm, for which each channel is a group.
inline void infer_group_norm(InferShapeContext& op) {
  const LoDTensorDesc x = op.input("X");
  const Dims& dims = x.tensor.dims;
  if (dims.size() < 2) throw_dims("X", dims, "a batch of channels");
  op.set_output("Y", x);
  for (const char* const moment : {"Mean", "Variance"}) {
    op.set_output(moment, {{x.tensor.data_type, {dims[0], op.attr("groups", 1)}}});
  }
}
inline void infer_instance_norm(InferShapeContext& op) {
  const LoDTensorDesc x = op.input("X");
  const Dims& dims = x.tensor.dims;
  if (dims.size() < 2) throw_dims("X", dims, "a batch of channels");
  op.set_output("Y", x);
  for (const char* const moment : {"SavedMean", "SavedVariance"}) {
    op.set_output(moment, {{x.tensor.data_type, {infer::product({dims[0], dims[1]}, "channels")}}});
  }
}
inline void infer_cvm(InferShapeContext& op) {
  const LoDTensorDesc x = op.input("X");
  const Dims& dims = x.tensor.dims;
  if (dims.size() != 2 || (dims[1] != infer::unknown && dims[1] < 2))
    throw_dims("X", dims, "rows of 2 numbers or more");
  const bool is_shorter = dims[1] != infer::unknown && !op.attr("use_cvm", true);
  op.set_output("Y", along(x, 1, is_shorter ? dims[1] - 2 : dims[1]));
}
inline void infer_squared_l2_distance(InferShapeContext& op) {
  const LoDTensorDesc x = op.input("X");
  const Dims& dims = x.tensor.dims;
  if (dims.empty()) throw_dims("X", dims, "rows");
  op.set_output("sub_result", {{x.tensor.data_type, {dims[0], infer::product(part(dims, 1, dims.size()), "numbers")}}});
  op.set_output("Out", reshaped_to(x, {dims[0], 1}));
}
/// crop: its levels stay where the number of rows does.
inline void infer_crop(InferShapeContext& op) {
  const LoDTensorDesc x = op.input("X");
  Dims dims = op.inputs("Y") > 0 ? op.input("Y").tensor.dims : op.attr("shape", Dims());
  if (dims.size() != x.tensor.dims.size()) throw_dims("X", x.tensor.dims, detail::text({dims.size(), " dimensions"}));
  if (op.inputs("Y") == 0 && !dims.empty() && dims[0] == -1) dims[0] = x.tensor.dims[0];
  for (const std::int64_t dim : dims) {
    if (dim != infer::unknown && dim < 0) throw OutOfRange("attribute 'shape', expected numbers of 0 or more");
  }
  const bool keeps_levels = !dims.empty() && dims[0] == x.tensor.dims[0];
  op.set_output("Out", with_levels(reshaped_to(x, std::move(dims)), keeps_levels ? x.lod_level.value() : 0));
}
inline void infer_pad_constant_like(InferShapeContext& op) {
  const LoDTensorDesc y = op.input("Y");
  const Dims dims = op.input("X").tensor.dims;
  const bool keeps_levels = !dims.empty() && !y.tensor.dims.empty() && dims[0] == y.tensor.dims[0];
  op.set_output("Out", with_levels(reshaped_to(y, dims), keeps_levels ? y.lod_level.value() : 0));
}
inline void infer_linspace(InferShapeContext& op) {
  op.set_output("Out", {{op.input("Start").tensor.data_type, {infer::unknown}}});
}
inline void infer_eye(InferShapeContext& op) {
  const std::int64_t rows = op.attr("num_rows", std::int64_t{0}), columns = op.attr("num_columns", std::int64_t{-1});
  if (rows < 0 || columns < -1) throw OutOfRange("attribute 'num_rows' or 'num_columns', expected 0 or more");
  op.set_output("Out", {{op.data_type("dtype", DataType::FP32), {rows, columns == -1 ? rows : columns}}});
}
/// kldiv_loss: a number for each of X, or one for all.
inline void infer_kldiv_loss(InferShapeContext& op) {
  const LoDTensorDesc x = op.input("X");
  op.set_output("Loss", op.attr("reduction", std::string("mean")) == "none" ? x : LoDTensorDesc{{x.tensor.data_type}});
}
inline void infer_hierarchical_sigmoid(InferShapeContext& op) {
  const LoDTensorDesc x = op.input("X");
  const Dims rows{x.tensor.dims.empty() ? infer::unknown : x.tensor.dims.front()};
  const auto inner_nodes = static_cast<std::uint64_t>(std::max(op.attr("num_classes", 2), 2) - 1);
  const Dims ways = op.inputs("PathTable") > 0 ? op.input("PathTable").tensor.dims
                                               : joined(rows, {static_cast<std::int64_t>(std::bit_width(inner_nodes))});
  op.set_output("Out", reshaped_to(x, joined(rows, {1})));
  op.set_output("PreOut", {{x.tensor.data_type, ways}});
}
inline void infer_norm(InferShapeContext& op) {
  const LoDTensorDesc x = op.input("X");
  op.set_output("Out", x);
  op.set_output("Norm", with_levels(along(x, axis_in(op, "axis", -1, x.tensor.dims.size()), 1), 0));
}
/// fill_any_like: as X, unless there is another type.
inline void infer_fill_any_like(InferShapeContext& op) {
  const LoDTensorDesc x = op.input("X");
  const bool is_other = op.attr("dtype", -1) != -1;
  op.set_output("Out", is_other ? with_type(x, op.data_type("dtype", DataType::FP32)) : x);
}
inline void infer_nce(InferShapeContext& op) {
  const LoDTensorDesc x = op.input("Input"), labels = op.input("Label");
  const Dims& dims = labels.tensor.dims;
  const std::int64_t negatives = op.attr("num_neg_samples", 10);
  const Dims samples{x.tensor.dims.empty() ? infer::unknown : x.tensor.dims.front(),
                     infer::sum(dims.size() == 2 ? dims[1] : 1, negatives, "samples")};
  op.set_output("Cost", {{x.tensor.data_type, {samples[0], 1}}});
  op.set_output("SampleLogits", {{x.tensor.data_type, samples}});
  op.set_output("SampleLabels", {{DataType::INT64, samples}});
}

/// A rule, and the types of the operators that it is for.
struct InferenceFamily {
  void (*rule)(InferShapeContext&);
  std::string_view types;
};

inline constexpr InferenceFamily inference_families[] = {
    {infer_x_to_out,
     "abs acos add_position_encoding asin assign atan brelu ceil clip clip_by_norm cos cosh elu erf exp expm1 "
     "fill_zeros_like flip floor gelu hard_shrink hard_sigmoid hard_swish increment label_smooth leaky_relu log "
     "log10 log1p log2 log_softmax logsigmoid merge_selected_rows mish pow prelu reciprocal relu relu6 "
     "reorder_lod_tensor_by_rank reverse rnn_memory_helper round rsqrt scale scatter scatter_nd_add selu shard_index "
     "sigmoid "
     "sigmoid_cross_entropy_with_logits sign silu sin sinh soft_relu softmax softplus softshrink softsign sqrt "
     "square stanh swish tan tanh tanh_shrink thresholded_relu where"},
    {infer_x_to_y, "sequence_reverse"},
    {infer_in_to_out, "print"},
    {infer_updates, "adadelta adagrad adam adamax decayed_adagrad ftrl lamb lars_momentum momentum rmsprop sgd"},
    {infer_accumulates, "average_accumulates"},
    {infer_argsort, "argsort"},
    {infer_cumsum, "cumsum"},
    {infer_maxout, "maxout"},
    {infer_bilinear, "bilinear_tensor_product"},
    {infer_range, "range"},
    {infer_nothing,
     "channel_close channel_create conditional_block conditional_block_infer create_double_buffer_reader "
     "create_py_reader dequeue enqueue feed fetch queue_generator recurrent save save_combine while"},
    {infer_read, "read"},
    {infer_status, "channel_recv channel_send"},
    {infer_select_input, "select_input"},
    {infer_select_output, "select_output"},
    {infer_fill_any_like, "fill_any_like"},
    {infer_elementwise,
     "elementwise_add elementwise_div elementwise_floordiv elementwise_max elementwise_min elementwise_mod "
     "elementwise_mul elementwise_pow elementwise_sub minus"},
    {infer_comparison,
     "equal greater_equal greater_than less_equal less_than logical_and logical_or logical_xor not_equal"},
    {infer_logical_not, "isfinite_v2 isinf_v2 isnan_v2 logical_not"},
    {infer_bool, "is_empty isfinite isinf isnan"},
    {infer_cast, "cast"},
    {infer_dropout, "dropout"},
    {infer_sum, "sum"},
    {infer_mul, "mul"},
    {infer_fc, "fc"},
    {infer_matmul, "bmm matmul matmul_v2"},
    {infer_mean, "mean"},
    {infer_squared_l2_norm, "squared_l2_norm"},
    {infer_reduction, "reduce_all reduce_any reduce_max reduce_mean reduce_min reduce_prod reduce_sum"},
    {infer_cross_entropy, "cross_entropy cross_entropy2"},
    {infer_softmax_with_cross_entropy, "softmax_with_cross_entropy"},
    {infer_top_k, "top_k top_k_v2"},
    {infer_arg_extreme, "arg_max arg_min"},
    {infer_losses,
     "hinge_loss huber_loss log_loss margin_rank_loss modified_huber_loss rank_loss teacher_student_sigmoid_loss"},
    {infer_bpr_loss, "bpr_loss"},
    {infer_smooth_l1_loss, "smooth_l1_loss"},
    {infer_kldiv_loss, "kldiv_loss"},
    {infer_hierarchical_sigmoid, "hierarchical_sigmoid"},
    {infer_norm, "norm"},
    {infer_accuracy, "accuracy"},
    {infer_auc, "auc"},
    {infer_cos_sim, "cos_sim"},
    {infer_nce, "nce"},
    {infer_cvm, "cvm"},
    {infer_squared_l2_distance, "squared_l2_distance"},
    {infer_concat, "concat"},
    {infer_tensor_array_to_tensor, "tensor_array_to_tensor"},
    {infer_split, "split"},
    {infer_reshape, "reshape reshape2"},
    {infer_squeeze, "squeeze squeeze2"},
    {infer_unsqueeze, "unsqueeze unsqueeze2"},
    {infer_flatten, "flatten flatten2"},
    {infer_flatten_contiguous_range, "flatten_contiguous_range"},
    {infer_transpose, "transpose transpose2"},
    {infer_slice, "slice"},
    {infer_gather, "gather index_select"},
    {infer_strided_slice, "strided_slice"},
    {infer_multiplex, "multiplex"},
    {infer_sampling_id, "sampling_id"},
    {infer_size, "size"},
    {infer_stack, "stack"},
    {infer_expand, "expand"},
    {infer_tile, "tile"},
    {infer_expand_to, "expand_as_v2 expand_v2"},
    {infer_pad, "pad"},
    {infer_crop, "crop"},
    {infer_pad_constant_like, "pad_constant_like"},
    {infer_eye, "eye"},
    {infer_linspace, "linspace"},
    {infer_unstack, "unbind unstack"},
    {infer_gather_nd, "gather_nd"},
    {infer_where_index, "where_index"},
    {infer_shape_operator, "shape"},
    {infer_filling, "assign_value fill_constant gaussian_random truncated_gaussian_random uniform_random"},
    {infer_batch_size_like,
     "fill_constant_batch_size_like gaussian_random_batch_size_like uniform_random_batch_size_like"},
    {infer_one_hot<true>, "one_hot"},
    {infer_one_hot<false>, "one_hot_v2"},
    {infer_lookup_table<true>, "lookup_table"},
    {infer_lookup_table<false>, "lookup_table_v2"},
    {infer_layer_norm, "layer_norm"},
    {infer_batch_norm, "batch_norm"},
    {infer_conv2d, "conv2d depthwise_conv2d"},
    {infer_conv2d_transpose, "conv2d_transpose depthwise_conv2d_transpose"},
    {infer_group_norm, "group_norm"},
    {infer_instance_norm, "instance_norm"},
    {infer_lrn, "lrn"},
    {infer_pool2d, "pool2d"},
    {infer_pool_operator, "sequence_pool"},
    {infer_softmax_operator, "sequence_softmax"},
    {infer_expand_operator, "sequence_expand"},
    {infer_expand_as_operator, "sequence_expand_as"},
    {infer_concat_operator, "sequence_concat"},
    {infer_conv_operator, "sequence_conv"},
    {infer_row_conv_operator, "row_conv"},
    {infer_pad_operator, "sequence_pad"},
    {infer_unpad_operator, "sequence_unpad"},
    {infer_slice_operator, "sequence_slice"},
    {infer_reshape_operator, "sequence_reshape"},
    {infer_scatter_operator, "sequence_scatter"},
    {infer_enumerate_operator, "sequence_enumerate"},
    {infer_erase_operator, "sequence_erase"},
    {infer_mask_operator, "sequence_mask"},
    {infer_topk_avg_pooling_operator, "sequence_topk_avg_pooling"},
    {infer_lod_reset_operator, "lod_reset"},
    {infer_im2sequence_operator, "im2sequence"},
    {infer_edit_distance_operator, "edit_distance"},
    {infer_ctc_align_operator, "ctc_align"},
    {infer_crf_decoding_operator, "crf_decoding"},
    {infer_linear_chain_crf_operator, "linear_chain_crf"},
    {infer_warpctc_operator, "warpctc"},
    {infer_chunk_eval_operator, "chunk_eval"},
    {infer_gru_operator, "gru"},
    {infer_gru_unit_operator, "gru_unit"},
    {infer_lstm_operator, "lstm"},
    {infer_lstm_unit_operator, "lstm_unit"},
    {infer_lstmp_operator, "lstmp"},
    {infer_rank_table, "lod_rank_table"},
    {infer_one_id, "lod_array_length max_sequence_len"},
    {infer_write_to_array, "write_to_array"},
    {infer_read_from_array, "read_from_array"},
    {infer_lod_tensor_to_array_operator, "lod_tensor_to_array"},
    {infer_array_to_lod_tensor_operator, "array_to_lod_tensor"},
    {infer_shrink_operator, "shrink_rnn_memory"},
    {infer_split_by_mask, "split_lod_tensor"},
    {infer_merge_by_mask, "merge_lod_tensor merge_lod_tensor_infer"},
    {infer_beam_search, "beam_search"},
    {infer_beam_search_decode, "beam_search_decode"},
    {infer_gather_tree, "gather_tree"},
    {infer_dense_of_rows, "get_tensor_from_selected_rows"},
};

/// The rule of a type, from this table; null if there is none.
inline InferShape inference_in_table(std::string_view type) {
  const auto is_blank = [](std::string_view types, std::size_t at) { return at >= types.size() || types[at] == ' '; };
  for (const InferenceFamily& family : inference_families) {
    const std::string_view types = family.types;
    for (std::size_t at = types.find(type); at != std::string_view::npos; at = types.find(type, at + 1)) {
      if (is_blank(types, at - 1) && is_blank(types, at + type.size())) return family.rule;
    }
  }
  return {};
}

#if !defined(LOD_CPU_LIBRARY) && !defined(LOD_OPERATORS_LIBRARY)
inline InferShape inference_of(std::string_view type) { return inference_in_table(type); }
#endif

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs
