// SPDX-License-Identifier: Apache-2.0
/// @file
/// The results of operators on sequences, described: the rules of sequence_* and the like, of recurrent networks,
/// arrays and row-sparse tensors for `infer_shapes`. Most call the functions `infer_...` of this library's operations.
#pragma once

#include <lod/core/data_type.hpp>
#include <lod/core/desc.hpp>
#include <lod/core/error.hpp>
#include <lod/core/target.hpp>
#include <lod/ops/edit_distance.hpp>
#include <lod/ops/im2sequence.hpp>
#include <lod/ops/infer.hpp>
#include <lod/ops/linear_chain_crf.hpp>
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
#include <lod/ops/sequence_scatter.hpp>
#include <lod/ops/sequence_slice.hpp>
#include <lod/ops/sequence_softmax.hpp>
#include <lod/ops/sequence_topk_avg_pooling.hpp>
#include <lod/program/infer_shape_context.hpp>
#include <lod/program/operators/inference_dense.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs {

inline void infer_pool_operator(InferShapeContext& op) {
  const LoDTensorDesc y = infer_sequence_pool(op.input("X"), PoolType::SUM);
  op.set_output("Out", y);
  if (op.attr("pooltype", std::string("AVERAGE")) != "MAX") return;
  op.set_output("MaxIndex", with_levels(with_type(y, DataType::INT32), 0));
}
inline void infer_softmax_operator(InferShapeContext& op) {
  op.set_output("Out", infer_sequence_softmax(op.input("X")));
}
inline void infer_expand_operator(InferShapeContext& op) {
  op.set_output("Out", infer_sequence_expand(op.input("X"), op.input("Y"), {.ref_level = op.attr("ref_level", -1)}));
}
inline void infer_expand_as_operator(InferShapeContext& op) {
  op.set_output("Out", infer_sequence_expand_as(op.input("X"), op.input("Y")));
}
inline void infer_concat_operator(InferShapeContext& op) {
  std::vector<LoDTensorDesc> all;
  all.reserve(op.inputs("X"));
  for (std::size_t i = 0; i < op.inputs("X"); ++i) all.push_back(op.input("X", i));
  op.set_output("Out", infer_sequence_concat(all));
}
inline void infer_conv_operator(InferShapeContext& op) {
  ConvDescOptions options{.context_length = op.desc().attr<std::int32_t>("contextLength"),
                          .context_start = op.attr("contextStart", 0)};
  LoDTensorDesc padding;
  if (op.attr("paddingTrainable", false)) {
    padding = op.input("PaddingData");
    options.padding = &padding;
  }
  op.set_output("Out", infer_sequence_conv(op.input("X"), op.input("Filter"), options));
}
inline void infer_row_conv_operator(InferShapeContext& op) {
  op.set_output("Out", infer_row_conv(op.input("X"), op.input("Filter")));
}
inline void infer_pad_operator(InferShapeContext& op) {
  const PaddedDesc padded = infer_sequence_pad(op.input("X"), {.padded_length = op.attr("padded_length", -1)});
  op.set_output("Out", padded.dense);
  op.set_output("Length", padded.lengths);
}
/// Padded ids, {sequences, padded length}, become rows of one.
inline void infer_unpad_operator(InferShapeContext& op) {
  LoDTensorDesc x = op.input("X");
  if (x.tensor.dims.size() == 2) x.tensor.dims.push_back(1);
  op.set_output("Out", infer_sequence_unpad(x, op.input("Length")));
}
inline void infer_slice_operator(InferShapeContext& op) { op.set_output("Out", infer_sequence_slice(op.input("X"))); }
inline void infer_reshape_operator(InferShapeContext& op) {
  op.set_output("Out", infer_sequence_reshape(op.input("X"), op.desc().attr<std::int32_t>("new_dim")));
}
inline void infer_scatter_operator(InferShapeContext& op) {
  op.set_output("Out", infer_sequence_scatter(op.input("X"), op.input("Ids"), op.input("Updates")));
}
inline void infer_enumerate_operator(InferShapeContext& op) {
  op.set_output("Out", infer_sequence_enumerate(op.input("X"), op.desc().attr<std::int32_t>("win_size")));
}
inline void infer_erase_operator(InferShapeContext& op) { op.set_output("Out", infer_sequence_erase(op.input("X"))); }
inline void infer_mask_operator(InferShapeContext& op) {
  const MaskOptions options{.max_length = op.inputs("MaxLenTensor") > 0 ? -1 : op.attr("maxlen", -1)};
  op.set_output("Y", infer_sequence_mask(op.input("X"), op.data_type("out_dtype", DataType::INT64), options));
}
inline void infer_topk_avg_pooling_operator(InferShapeContext& op) {
  op.set_output("Out", infer_sequence_topk_avg_pooling(op.input("X"), op.input("ROW"), op.input("COLUMN"),
                                                       op.desc().attr<std::vector<std::int64_t>>("topks"),
                                                       op.desc().attr<std::int32_t>("channel_num")));
}
/// lod_reset: the levels of Y, if it has any; otherwise one, or one more than X has.
inline void infer_lod_reset_operator(InferShapeContext& op) {
  const LoDTensorDesc x = op.input("X");
  if (op.inputs("Y") > 0 && op.input("Y").lod_level > 0) {
    op.set_output("Out", infer_lod_reset(x, op.input("Y")));
  } else {
    op.set_output("Out", with_levels(x, op.attr("append", false) ? x.lod_level + 1 : 1));
  }
}
inline void infer_im2sequence_operator(InferShapeContext& op) {
  Im2SequenceOptions options;
  const auto read = [&](const char* name, auto& to) {
    if (!op.desc().find_attr(name)) return;
    const auto given = op.desc().attr<std::vector<std::int64_t>>(name);
    if (given.size() != to.size()) throw ShapeMismatch(detail::text({"attribute '", name, "' of ", given.size()}));
    std::copy(given.begin(), given.end(), to.begin());
  };
  read("kernels", options.kernels);
  read("strides", options.strides);
  read("paddings", options.paddings);
  op.set_output("Out", infer_im2sequence(op.input("X"), options));
}
inline void infer_edit_distance_operator(InferShapeContext& op) {
  LoDTensorDesc distances = infer_edit_distance(op.input("Hyps"), op.input("Refs"));
  distances.tensor.dims.push_back(1);
  op.set_output("Out", with_levels(distances, 0));
  op.set_output("SequenceNum", {{DataType::INT64, {1}}});
}
inline void infer_ctc_align_operator(InferShapeContext& op) {
  const LoDTensorDesc x = op.input("Input");
  op.set_output("Output", along(x, axis_of(0, x.tensor.dims.size()), infer::unknown));
  op.set_output("OutputLength", {{DataType::INT32, {x.tensor.dims.front(), 1}}});
}

inline void infer_crf_decoding_operator(InferShapeContext& op) {
  const LoDTensorDesc emission = op.input("Emission");
  if (op.inputs("Length") > 0) {
    op.set_output("ViterbiPath", with_type(reshaped_to(emission, part(emission.tensor.dims, 0, 2)), DataType::INT64));
    return;
  }
  LoDTensorDesc path = infer_crf_decoding(emission, op.input("Transition"));
  path.tensor.dims.push_back(1);
  op.set_output("ViterbiPath", path);
}
inline void infer_linear_chain_crf_operator(InferShapeContext& op) {
  const LoDTensorDesc emission = op.input("Emission"), transition = op.input("Transition");
  LoDTensorDesc loss{{emission.tensor.data_type, {infer::unknown}}};
  if (op.inputs("Length") == 0) loss = infer_linear_chain_crf(emission, transition, op.input("Label"));
  loss.tensor.dims.push_back(1);
  op.set_output("Alpha", emission);
  op.set_output("EmissionExps", emission);
  op.set_output("TransitionExps", transition);
  op.set_output("LogLikelihood", with_levels(loss, 0));
}
/// warpctc: padded frames, {longest, sequences, classes}, or sequences of frames, whose gradient is padded.
inline void infer_warpctc_operator(InferShapeContext& op) {
  const LoDTensorDesc logits = op.input("Logits");
  LoDTensorDesc loss{{logits.tensor.data_type, {infer::unknown, 1}}}, gradient = logits;
  if (op.inputs("LogitsLength") > 0) {
    if (logits.tensor.dims.size() == 3) loss.tensor.dims[0] = logits.tensor.dims[1];
  } else {
    gradient = with_levels(logits, 0);
    gradient.tensor.dims = {infer::unknown, infer::unknown,
                            infer::product(part(logits.tensor.dims, 1, logits.tensor.dims.size()), "Logits")};
  }
  op.set_output("Loss", loss);
  op.set_output("WarpCTCGrad", gradient);
}
inline void infer_chunk_eval_operator(InferShapeContext& op) {
  for (const char* const rate : {"Precision", "Recall", "F1-Score"}) op.set_output(rate, {{DataType::FP32, {1}}});
  for (const char* const count : {"NumInferChunks", "NumLabelChunks", "NumCorrectChunks"}) {
    op.set_output(count, {{DataType::INT64, {1}}});
  }
}

/// The states of a recurrent operator: a row for each row of the input, which is `gates` times as wide.
inline LoDTensorDesc states_of(const LoDTensorDesc& x, std::int64_t gates) {
  if (x.tensor.dims.size() != 2) throw_dims("Input", x.tensor.dims, "{rows, numbers}");
  const std::int64_t width = x.tensor.dims[1];
  if (width != infer::unknown && width % gates != 0) {
    throw_dims("Input", x.tensor.dims, detail::text({gates, " numbers for each of the state"}));
  }
  return along(x, 1, width == infer::unknown ? width : width / gates);
}
inline void check_weight(const InferShapeContext& op, std::int64_t size, std::int64_t gates) {
  const Dims dims = op.input("Weight").tensor.dims, expected{size, infer::product({gates, size}, "gates")};
  if (!infer::agree(dims, expected)) throw_dims("Weight", dims, infer::to_string(expected));
}
inline void infer_gru_operator(InferShapeContext& op) {
  const LoDTensorDesc x = op.input("Input"), states = states_of(x, 3);
  infer::Batch(x, "input 'Input'").check_has_level("input 'Input'");
  check_weight(op, states.tensor.dims[1], 3);
  op.set_output("Hidden", states);
  op.set_output("BatchGate", with_levels(x, 0));
  op.set_output("BatchResetHiddenPrev", with_levels(states, 0));
  op.set_output("BatchHidden", with_levels(states, 0));
}
inline void infer_gru_unit_operator(InferShapeContext& op) {
  const LoDTensorDesc x = op.input("Input"), states = op.input("HiddenPrev");
  if (!infer::agree(states_of(x, 3).tensor.dims, states.tensor.dims)) {
    throw_dims("HiddenPrev", states.tensor.dims, infer::to_string(states_of(x, 3).tensor.dims));
  }
  check_weight(op, states_of(x, 3).tensor.dims[1], 3);
  op.set_output("Hidden", states);
  op.set_output("Gate", with_levels(x, 0));
  op.set_output("ResetHiddenPrev", states);
}
inline void infer_lstm_unit_operator(InferShapeContext& op) {
  const LoDTensorDesc x = op.input("X"), cell = op.input("C_prev");
  if (!infer::agree(states_of(x, 4).tensor.dims, cell.tensor.dims)) {
    throw_dims("C_prev", cell.tensor.dims, infer::to_string(states_of(x, 4).tensor.dims));
  }
  for (const char* out : {"C", "H"}) op.set_output(out, cell);
}
inline void infer_lstm_operator(InferShapeContext& op) {
  const LoDTensorDesc x = op.input("Input"), states = states_of(x, 4);
  infer::Batch(x, "input 'Input'").check_has_level("input 'Input'");
  check_weight(op, states.tensor.dims[1], 4);
  op.set_output("Hidden", states);
  op.set_output("Cell", states);
  op.set_output("BatchGate", with_levels(x, 0));
  op.set_output("BatchCellPreAct", with_levels(states, 0));
}
inline void infer_lstmp_operator(InferShapeContext& op) {
  const LoDTensorDesc x = op.input("Input"), cells = states_of(x, 4);
  infer::Batch(x, "input 'Input'").check_has_level("input 'Input'");
  const Dims to = op.input("ProjWeight").tensor.dims, from = op.input("Weight").tensor.dims;
  const std::int64_t size = cells.tensor.dims[1], width = to.size() == 2 ? to[1] : infer::unknown;
  if (!infer::agree(to, {size, width})) throw_dims("ProjWeight", to, infer::to_string({size, width}));
  if (!infer::agree(from, {width, x.tensor.dims[1]})) {
    throw_dims("Weight", from, infer::to_string({width, x.tensor.dims[1]}));
  }
  op.set_output("Projection", along(cells, 1, width));
  op.set_output("Cell", cells);
  op.set_output("BatchGate", with_levels(x, 0));
  op.set_output("BatchCellPreAct", with_levels(cells, 0));
  op.set_output("BatchHidden", with_levels(cells, 0));
}

inline void infer_rank_table(InferShapeContext& op) { op.set_output("Out", VarType::LOD_RANK_TABLE); }
/// max_sequence_len, lod_array_length and other numbers.
inline void infer_one_id(InferShapeContext& op) { op.set_output("Out", {{DataType::INT64, {1}}}); }
/// write_to_array: what the elements of an array have in common.
inline void infer_write_to_array(InferShapeContext& op) {
  op.set_output("Out", op.input("X"), 0, VarType::LOD_TENSOR_ARRAY);
}
inline void infer_read_from_array(InferShapeContext& op) { op.set_output("Out", op.input("X")); }
/// lod_tensor_to_array: a step has a row for each sequence that is still active.
inline void infer_lod_tensor_to_array_operator(InferShapeContext& op) {
  LoDTensorDesc x = op.input("X");
  x = along(x, axis_of(0, x.tensor.dims.size()), infer::unknown);
  op.set_output("Out", with_levels(x, std::max(x.lod_level - 1, 0)), 0, VarType::LOD_TENSOR_ARRAY);
}
inline void infer_array_to_lod_tensor_operator(InferShapeContext& op) {
  LoDTensorDesc x = op.input("X");
  x = along(x, axis_of(0, x.tensor.dims.size()), infer::unknown);
  op.set_output("Out", with_levels(x, x.lod_level + 1));
}
/// shrink_rnn_memory, filter by mask: X with an unknown number of rows.
inline LoDTensorDesc some_rows(const LoDTensorDesc& x) {
  return along(x, axis_of(0, x.tensor.dims.size()), infer::unknown);
}
inline void infer_shrink_operator(InferShapeContext& op) { op.set_output("Out", some_rows(op.input("X"))); }
inline void infer_split_by_mask(InferShapeContext& op) {
  for (const char* const branch : {"OutTrue", "OutFalse"}) op.set_output(branch, some_rows(op.input("X")));
}
inline void infer_merge_by_mask(InferShapeContext& op) { op.set_output("Out", some_rows(op.input("InTrue"))); }
/// beam_search: each row is a candidate that is kept, under its source and the candidate that it extends.
inline void infer_beam_search(InferShapeContext& op) {
  const LoDTensorDesc scores = op.input("pre_scores");
  op.set_output("selected_ids", {{DataType::INT64, {infer::unknown, 1}}, 2});
  op.set_output("selected_scores", {{scores.tensor.data_type, {infer::unknown, 1}}, 2});
  op.set_output("parent_idx", {{DataType::INT32, {infer::unknown}}});
}
inline void infer_beam_search_decode(InferShapeContext& op) {
  op.set_output("SentenceIds", {{DataType::INT64, {infer::unknown, 1}}, 2});
  op.set_output("SentenceScores", {{op.input("Scores").tensor.data_type, {infer::unknown, 1}}, 2});
}
inline void infer_dense_of_rows(InferShapeContext& op) { op.set_output("Out", some_rows(op.input("X"))); }

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs
