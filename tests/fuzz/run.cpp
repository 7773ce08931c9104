// SPDX-License-Identifier: Apache-2.0
/// @file
/// Programs that run, with their parameters. Whatever their operators, attributes and shapes, and whatever their files
/// hold: a broken one ends in an error of the library, in bounded time and memory. The mutator knows programs, since
/// broken bytes seldom are one.
#include "model.hpp"
#include "support/operator_text.hpp"
#include "target.hpp"
#include <lod/io/paddle.hpp>
#include <lod/proto/program.hpp>
#include <lod/run.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <memory_resource>
#include <new>
#include <optional>
#include <random>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

extern "C" __attribute__((weak)) std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t most);

namespace {

constexpr const char* lines = R"(
abs X=x -> Out=y
accuracy Out=x Indices=ids Label=ids -> Accuracy=y Correct=n Total=k
arg_max X=x -> Out=y axis:l=1 keepdims:b=0 flatten:b=0
assign X=x -> Out=y
assign_value -> Out=y shape:I=2,2 dtype:i=5 fp32_values:F=1,2,3,4
batch_norm X=image Scale=b3 Bias=b3 Mean=b3 Variance=b3 -> Y=y MeanOut=b3 VarianceOut=b3 SavedMean=n SavedVariance=k ReserveSpace=s is_test:b=0 epsilon:f=0.5
cast X=x -> Out=y out_dtype:i=3
clip X=x -> Out=y min:f=0 max:f=1
concat X=x X=z -> Out=y axis:i=1
crf_decoding Emission=x Transition=w6 -> ViterbiPath=y
linear_chain_crf Emission=x Transition=w6 Label=ids -> Alpha=y EmissionExps=n TransitionExps=k LogLikelihood=s
cross_entropy X=x Label=ids -> Y=y soft_label:b=0 ignore_index:i=-100
ctc_align Input=ids -> Output=y blank:i=0 merge_repeated:b=1
dropout X=x -> Out=y is_test:b=1 dropout_prob:f=0.5
edit_distance Hyps=ids Refs=ids -> Out=y SequenceNum=n normalized:b=1
elementwise_add X=x Y=b -> Out=y axis:i=1
elementwise_div X=ids Y=ids -> Out=y axis:i=-1
elementwise_mod X=ids Y=i -> Out=y axis:i=-1
elementwise_floordiv X=ids Y=i -> Out=y axis:i=0
elementwise_pow X=z Y=x -> Out=y axis:i=-1
equal X=x Y=z -> Out=y axis:i=-1
expand X=z -> Out=y expand_times:I=2,1
tile X=x -> Out=y repeat_times:I=2,1,3
expand_v2 X=x1 -> Out=y shape:I=2,-1,3
expand_as_v2 X=x1 Y=x -> Out=y target_shape:I=5,4
flip X=image -> Out=y axis:I=0,-1
pad X=x -> Out=y paddings:I=0,1,2,0 pad_value:f=1
unstack X=s2 -> Y=y Y=n axis:i=1 num:i=2
unbind X=s2 -> Out=y Out=n axis:i=1
gather_nd X=image Index=o -> Out=y
scatter X=z Ids=l Updates=s4 -> Out=y overwrite:b=0
where Condition=flags X=one31 Y=one31 -> Out=y
where_index Condition=flags -> Out=y
bpr_loss X=x Label=ids -> Y=y
kldiv_loss X=z Target=z1 -> Loss=y reduction:s=mean
label_smooth X=x PriorDist=b -> Out=y epsilon:f=0.1
modified_huber_loss X=z Y=z1 -> Out=y IntermediateVal=n
teacher_student_sigmoid_loss X=z Label=z1 -> Y=y soft_max_up_bound:f=9
hierarchical_sigmoid X=z W=w6 Label=o5 Bias=b6 -> Out=y PreOut=n num_classes:i=5 is_sparse:b=0
hierarchical_sigmoid X=s4 W=w Label=l PathTable=o PathCode=o -> Out=y PreOut=n num_classes:i=5
argsort X=image -> Out=y Indices=n axis:i=1 descending:b=1
cumsum X=image -> Out=y axis:i=1 exclusive:b=1 reverse:b=1 flatten:b=0
maxout X=pixels -> Out=y groups:i=2 axis:i=1
prelu X=image Alpha=b3 -> Out=y mode:s=channel data_format:s=NCHW
bilinear_tensor_product X=z Y=z1 Weight=w44 Bias=b3 -> Out=y
range Start=one End=one1 Step=one2 -> Out=y
decayed_adagrad Param=z Grad=z1 Moment=z2 LearningRate=one -> ParamOut=z MomentOut=z2 decay:f=0.5
adadelta Param=z Grad=z1 AvgSquaredGrad=z2 AvgSquaredUpdate=z3 -> ParamOut=z AvgSquaredGradOut=z2 AvgSquaredUpdateOut=z3 rho:f=0.5
adamax Param=z Grad=z1 LearningRate=one Moment=z2 InfNorm=z3 Beta1Pow=one1 -> ParamOut=z MomentOut=z2 InfNormOut=z3 beta1:f=0.5
lamb Param=z Grad=z1 LearningRate=one Moment1=z2 Moment2=z3 Beta1Pow=one1 Beta2Pow=one2 -> ParamOut=z Moment1Out=z2 Moment2Out=z3 Beta1PowOut=one1 Beta2PowOut=one2 weight_decay:f=0.1
lars_momentum Param=z Grad=z1 Velocity=z2 LearningRate=one -> ParamOut=z VelocityOut=z2 mu:f=0.5 lars_weight_decay:F=0.1
strided_slice Input=x -> Out=y axes:I=0,1 starts:I=-1,0 ends:I=-9,4 strides:I=-2,3
index_select X=image Index=l2 -> Out=y dim:i=1
bmm X=image Y=image -> Out=y trans_y:b=1
multiplex X=s4 X=s4 Ids=o32 -> Out=y
add_position_encoding X=x -> Out=y alpha:f=1 beta:f=1
sampling_id X=s4 -> Out=y seed:i=3 min:f=0 max:f=1
uniform_random_batch_size_like Input=x -> Out=y shape:I=-1,3 seed:i=1 dtype:i=5
isnan_v2 X=x -> Out=y
size Input=image -> Out=y
norm X=image -> Out=y Norm=n axis:i=1 epsilon:f=0.1
mish X=x -> Out=y threshold:f=1
selu X=x -> Out=y scale:f=2 alpha:f=3
soft_relu X=x -> Out=y threshold:f=1
acos X=x -> Out=y
log2 X=x -> Out=y
fc Input=x W=w Bias=b -> Out=y in_num_col_dims:i=1 activation_type:s=relu
fill_constant -> Out=y shape:I=2,3 value:f=1 dtype:i=5 str_value:s=1
fill_constant_batch_size_like Input=x -> Out=y shape:I=-1,3 dtype:i=5 input_dim_idx:i=0 output_dim_idx:i=0
fill_zeros_like X=x -> Out=y
flatten2 X=image -> Out=y XShape=n axis:i=1
flatten_contiguous_range X=image -> Out=y XShape=n start_axis:i=1 stop_axis:i=2
gather X=x Index=i -> Out=y
gelu X=x -> Out=y approximate:b=1
gru Input=x12 H0=s4 Weight=w12 Bias=b12 -> Hidden=y BatchGate=n BatchResetHiddenPrev=k BatchHidden=s is_reverse:b=0
im2sequence X=pixels -> Out=y kernels:I=2,2 strides:I=1,1 paddings:I=0,0,0,0
increment X=i -> Out=i step:f=1
layer_norm X=x Scale=b Bias=b -> Y=y Mean=n Variance=k begin_norm_axis:i=1
less_than X=i Y=i -> Out=y axis:i=-1
lod_reset X=x Y=ids -> Out=y target_lod:I=0,2,5 append:b=0
logical_and X=flags Y=flags -> Out=y
lookup_table W=w Ids=ids -> Out=y padding_idx:l=-1
lookup_table_v2 W=w Ids=ids -> Out=y padding_idx:l=-1
lstm Input=x16 H0=s4 C0=s4 Weight=w16 Bias=b28 -> Hidden=y Cell=n BatchGate=k BatchCellPreAct=s use_peepholes:b=1
matmul X=z Y=w -> Out=y transpose_X:b=0 transpose_Y:b=1 alpha:f=2
matmul_v2 X=image Y=image -> Out=y trans_x:b=0 trans_y:b=1
mean X=x -> Out=y
mul X=x Y=w -> Out=y x_num_col_dims:i=1 y_num_col_dims:i=1
mul_grad X=x Y=w Out@GRAD=z -> X@GRAD=y Y@GRAD=n x_num_col_dims:i=1 y_num_col_dims:i=1
one_hot X=ids -> Out=y depth:i=5 dtype:i=5 allow_out_of_range:b=0
pow X=x -> Out=y factor:f=2
reduce_sum X=image -> Out=y dim:I=1 keep_dim:b=0 reduce_all:b=0
reduce_max X=x -> Out=y dim:I=0 keep_dim:b=1
relu_grad Out=x Out@GRAD=z -> X@GRAD=y
reshape2 X=x -> Out=y XShape=n shape:I=-1,2
row_conv X=x Filter=w -> Out=y
scale X=x -> Out=y scale:f=2 bias:f=1 bias_after_scale:b=1
sequence_concat X=x X=x -> Out=y
sequence_conv X=x Filter=w12t -> Out=y contextLength:i=3 contextStart:i=-1 contextStride:i=1
sequence_enumerate X=ids -> Out=y win_size:i=2 pad_value:i=0
sequence_erase X=ids -> Out=y tokens:I=1,2
sequence_expand X=s4 Y=x -> Out=y ref_level:i=-1
sequence_expand_as X=s4 Y=x -> Out=y
sequence_mask X=i -> Y=y maxlen:i=-1 out_dtype:i=3
sequence_pad X=x PadValue=one -> Out=y Length=n padded_length:i=-1
sequence_pool X=x -> Out=y MaxIndex=n pooltype:s=MAX pad_value:f=0
sequence_pool_grad X=x Out@GRAD=s4 -> X@GRAD=y pooltype:s=SUM
sequence_reshape X=x -> Out=y new_dim:i=2
sequence_reverse X=nested -> Y=y
sequence_scatter X=z Ids=ids Updates=x1 -> Out=y
sequence_slice X=x Offset=o Length=l -> Out=y
sequence_softmax X=x1 -> Out=y
sequence_topk_avg_pooling X=x1 ROW=x COLUMN=x -> Out=y topks:I=1,2 channel_num:i=1
sequence_unpad X=image Length=l2 -> Out=y
sgd Param=z Grad=z LearningRate=one -> ParamOut=z
shape Input=image -> Out=y
slice Input=x -> Out=y axes:I=0,1 starts:I=1,0 ends:I=3,9 decrease_axis:I=
softmax X=image -> Out=y axis:i=-1
softmax_with_cross_entropy Logits=x Label=ids -> Softmax=y Loss=n soft_label:b=0 axis:i=-1
split X=x -> Out=y Out=n axis:i=1 num:i=0 sections:I=1,-1
squeeze2 X=x1 -> Out=y XShape=n axes:I=1
stack X=z X=z -> Y=y axis:i=0
sum X=x X=x -> Out=y
top_k X=x -> Out=y Indices=n k:i=2
transpose2 X=image -> Out=y XShape=n axis:I=0,2,1
unsqueeze2 X=x -> Out=y XShape=n axes:I=0,-1
write_to_array X=x I=i -> Out=array
read_from_array X=array I=i -> Out=y
lod_array_length X=array -> Out=y
lod_rank_table X=x -> Out=table level:i=0
max_sequence_len RankTable=table -> Out=y
lod_tensor_to_array X=x RankTable=table -> Out=array
array_to_lod_tensor X=array RankTable=table -> Out=y
shrink_rnn_memory X=s4 I=i RankTable=table -> Out=y
reorder_lod_tensor_by_rank X=x RankTable=table -> Out=y
split_lod_tensor X=x Mask=flags -> OutTrue=y OutFalse=n level:i=0
merge_lod_tensor X=x Mask=flags InTrue=x InFalse=x -> Out=k level:i=0
adagrad Param=z Grad=z1 Moment=z2 LearningRate=one -> ParamOut=z MomentOut=z2 epsilon:f=0.5
adam Param=z Grad=z1 LearningRate=one Moment1=z2 Moment2=z3 Beta1Pow=one1 Beta2Pow=one2 -> ParamOut=z Moment1Out=z2 Moment2Out=z3 Beta1PowOut=one1 Beta2PowOut=one2 beta1:f=0.5
ftrl Param=z Grad=z1 SquaredAccumulator=z2 LinearAccumulator=z3 LearningRate=one -> ParamOut=z SquaredAccumOut=z2 LinearAccumOut=z3 l1:f=0.5 lr_power:f=-0.5
momentum Param=z Grad=z1 Velocity=z2 LearningRate=one -> ParamOut=z VelocityOut=z2 mu:f=0.5 use_nesterov:b=1
rmsprop Param=z Grad=z1 MeanSquare=z2 MeanGrad=z3 Moment=z4 LearningRate=one -> ParamOut=z MomentOut=z4 MeanSquareOut=z2 MeanGradOut=z3 centered:b=1
arg_min X=x -> Out=y axis:l=0 keepdims:b=1 dtype:i=2
auc Predict=s2 Label=o StatPos=stats StatNeg=stats -> AUC=y StatPosOut=n StatNegOut=k num_thresholds:i=3 slide_steps:i=0
brelu X=x -> Out=y t_min:f=1 t_max:f=2
clip_by_norm X=x -> Out=y max_norm:f=1
conv2d Input=pixels Filter=filter -> Output=y strides:I=1,1 paddings:I=0,1 dilations:I=1,1 groups:i=1 data_format:s=NCHW
depthwise_conv2d Input=pixels Filter=filter1 -> Output=y strides:I=2,1 paddings:I=0,0 dilations:I=1,2 groups:i=2
pool2d X=pixels -> Out=y ksize:I=2,2 strides:I=1,2 paddings:I=0,1 pooling_type:s=max ceil_mode:b=1 exclusive:b=1
pool2d X=pixels -> Out=y ksize:I=2,2 pooling_type:s=avg adaptive:b=1 global_pooling:b=0
cos_sim X=x Y=x -> Out=y XNorm=n YNorm=k
cross_entropy2 X=x Label=ids -> Y=y XShape=n MatchX=k ignore_index:i=-100
elementwise_max X=x Y=b -> Out=y axis:i=-1
elementwise_min X=x Y=z -> Out=y axis:i=0
elu X=x -> Out=y alpha:f=2
flatten X=image -> Out=y axis:i=1
gaussian_random -> Out=y shape:L=2,3 mean:f=1 std:f=2 seed:i=1 dtype:i=5
truncated_gaussian_random -> Out=y shape:L=2,3 seed:i=1 dtype:i=5
uniform_random -> Out=y shape:L=2,3 min:f=-1 max:f=2 seed:i=1 dtype:i=5 diag_num:i=0
get_tensor_from_selected_rows X=sparse -> Out=y
merge_selected_rows X=sparse -> Out=sparse
lookup_table W=w Ids=ids -> Out=y is_sparse:b=1 padding_idx:l=1
nce Input=z Label=o5 Weight=w6 Bias=b6 -> Cost=y SampleLogits=n SampleLabels=k num_total_classes:i=6 num_neg_samples:i=2 custom_neg_classes:I=0,5 seed:i=1
not_equal X=ids Y=i -> Out=y axis:i=0
logical_xor X=flags Y=flags -> Out=y
hinge_loss Logits=z Labels=z -> Loss=y
huber_loss X=z Y=z -> Out=y Residual=n delta:f=0.5
isfinite_v2 X=x -> Out=y
log_loss Predicted=z Labels=z -> Loss=y epsilon:f=0.1
margin_rank_loss X1=z X2=z Label=z -> Out=y Activated=n margin:f=0.1
one_hot_v2 X=l -> Out=y depth:i=5 dtype:i=5 allow_out_of_range:b=1
rank_loss Label=z Left=z Right=z -> Out=y
reduce_all X=flags -> Out=y dim:I=0 reduce_all:b=1
reduce_min X=image -> Out=y dim:I=0,2 keep_dim:b=1
reduce_prod X=image -> Out=y dim:I=-1 keep_dim:b=0 reduce_all:b=0
reshape X=image -> Out=y shape:I=2,-1
select_output X=x Mask=i -> Out=y Out=n
sigmoid_cross_entropy_with_logits X=z Label=z -> Out=y normalize:b=1 ignore_index:i=-100
softplus X=x -> Out=y
squared_l2_norm X=x -> Out=y
squeeze X=one3 -> Out=y axes:I=0
stanh X=x -> Out=y scale_a:f=1 scale_b:f=2
swish X=x -> Out=y beta:f=1
top_k_v2 X=image -> Out=y Indices=n k:i=2 axis:i=-1 largest:b=1
transpose X=image -> Out=y axis:I=1,0,2
unsqueeze X=image -> Out=y axes:I=1
conditional_block_infer Cond=going Input=x -> Out=y Scope=scopes sub_block:B=1 is_scalar_condition:b=1
merge_lod_tensor_infer X=x Mask=flags InTrue=x InFalse=x -> Out=k level:i=0
ceil X=x -> Out=y
cos X=x -> Out=y
erf X=x -> Out=y
exp X=x -> Out=y
hard_shrink X=x -> Out=y
hard_sigmoid X=x -> Out=y
hard_swish X=x -> Out=y
leaky_relu X=x -> Out=y
log X=x -> Out=y
log_softmax X=x -> Out=y
reciprocal X=x -> Out=y
round X=x -> Out=y
rsqrt X=x -> Out=y
sigmoid X=x -> Out=y
silu X=x -> Out=y
softshrink X=x -> Out=y
softsign X=x -> Out=y
sqrt X=x -> Out=y
tanh_shrink X=x -> Out=y
thresholded_relu X=x -> Out=y
beam_search pre_ids=bids pre_scores=bscores ids=kids scores=kscores -> selected_ids=y selected_scores=n parent_idx=k beam_size:i=2 end_id:i=0 level:i=0 is_accumulated:b=1
beam_search_decode Ids=ids_array Scores=scores_array -> SentenceIds=y SentenceScores=n beam_size:i=2 end_id:i=0
chunk_eval Inference=ids Label=ids -> Precision=y Recall=n F1-Score=k NumInferChunks=s NumLabelChunks=l NumCorrectChunks=l2 num_chunk_types:i=2 chunk_scheme:s=IOB excluded_chunk_types:I=1
gru_unit Input=z12 HiddenPrev=z Weight=w12 Bias=b12 -> Hidden=y Gate=n ResetHiddenPrev=k origin_mode:b=1
lstm_unit X=z16 C_prev=z -> H=y C=n forget_bias:f=1
warpctc Logits=x Label=ids32 -> Loss=y WarpCTCGrad=n blank:i=0 norm_by_times:b=1
select_input X=x X=z Mask=i -> Out=y
fill_any_like X=x -> Out=y value:f=2 dtype:i=-1
is_empty X=x -> Out=y
reduce_any X=flags -> Out=y dim:I=0
reduce_mean X=image -> Out=y dim:I=1 keep_dim:b=1
elementwise_mul X=x Y=b -> Out=y axis:i=1
elementwise_sub X=image Y=l2 -> Out=y axis:i=0
logical_not X=flags -> Out=y
greater_than X=x Y=z -> Out=y axis:i=-1
channel_create -> Out=channel capacity:i=2 data_type:i=7
channel_send Channel=channel X=x -> Status=y
channel_recv Channel=channel -> Out=y Status=n
channel_close Channel=channel
queue_generator names:S=channel capacity:i=1
enqueue X=x queue_name:s=channel
dequeue -> Out=y Out=n queue_name:s=channel
create_double_buffer_reader UnderlyingReader=reader -> Out=reader place:s=CPU
create_py_reader blocking_queue=channel -> Out=reader shape_concat:I=-1,4 ranks:I=2 lod_levels:I=0 dtypes:I=5
read Reader=reader -> Out=y throw_eof_exp:b=0
floor X=x -> Out=y
isfinite X=x -> Out=y
logsigmoid X=x -> Out=y
relu X=x -> Out=y
relu6 X=x -> Out=y
sign X=x -> Out=y
sin X=x -> Out=y
square X=x -> Out=y
tanh X=x -> Out=y
while X=x X=i Condition=going -> Out=i StepScopes=scopes sub_block:B=1 is_test:b=1
conditional_block Cond=going Input=x -> Out=y Scope=scopes sub_block:B=1 is_scalar_condition:b=1
)";

std::vector<lod::OpDesc> operators_of_lines() {
  std::vector<lod::OpDesc> all;
  std::istringstream text(lines);
  for (std::string line; std::getline(text, line);) {
    if (!line.empty()) all.push_back(lod_test::operator_of(line));
  }
  return all;
}

/// Block 0 with these operators, and block 1, which counts up to three.
lod::ProgramDesc program_of(std::vector<lod::OpDesc> ops) {
  using lod::DataType;
  lod::ProgramDesc program;
  program.blocks.resize(2);
  lod::BlockDesc &root = program.blocks[0], &body = program.blocks[1];
  const auto add = [&](const char* name, DataType type, std::vector<std::int64_t> dims, int levels = 0,
                       bool persistable = false) {
    root.vars.push_back(lod::VarDesc::lod_tensor(name, {type, std::move(dims)}, levels));
    if (persistable) root.vars.back().persistable = root.vars.back().is_parameter = true;
  };
  add("x", DataType::FP32, {-1, 4}, 1);
  add("z", DataType::FP32, {5, 4});
  add("x1", DataType::FP32, {-1, 1}, 1);
  add("x12", DataType::FP32, {-1, 12}, 1);
  add("x16", DataType::FP32, {-1, 16}, 1);
  add("nested", DataType::FP64, {-1, 2}, 2);
  add("s4", DataType::FP32, {3, 4});
  add("image", DataType::FP32, {2, 3, 4});
  add("ids", DataType::INT64, {-1, 1}, 1);
  add("i", DataType::INT64, {1});
  add("o", DataType::INT64, {3, 1});
  add("l", DataType::INT64, {3});
  add("flags", DataType::BOOL, {3, 1});
  add("going", DataType::BOOL, {1});
  add("one", DataType::FP32, {1});
  for (const char* const name : {"z1", "z2", "z3", "z4"}) add(name, DataType::FP32, {5, 4});
  for (const char* const name : {"one1", "one2"}) add(name, DataType::FP32, {1});
  add("one3", DataType::FP32, {1, 3});
  add("one31", DataType::FP32, {3, 1});
  add("l2", DataType::INT64, {2});
  add("z12", DataType::FP32, {5, 12});
  add("z16", DataType::FP32, {5, 16});
  add("ids32", DataType::INT32, {-1, 1}, 1);
  add("bids", DataType::INT64, {-1, 1}, 2);
  add("bscores", DataType::FP32, {-1, 1}, 2);
  add("kids", DataType::INT64, {-1, 3}, 2);
  add("kscores", DataType::FP32, {-1, 3}, 2);
  add("o5", DataType::INT64, {5, 1});
  add("o32", DataType::INT32, {3, 1});
  add("s2", DataType::FP32, {3, 2});
  add("stats", DataType::INT64, {1, 4});
  add("pixels", DataType::FP32, {2, 2, 4, 3});
  root.vars.push_back(lod::VarDesc::selected_rows("sparse", {DataType::FP32, {4, 4}}));
  for (const char* const name : {"y", "n", "k", "s"}) {
    root.vars.push_back({.name = name, .type = {.type = lod::VarType::LOD_TENSOR}});
  }
  add("w", DataType::FP32, {4, 4}, 0, true);
  add("w6", DataType::FP32, {6, 4}, 0, true);
  add("w12", DataType::FP32, {4, 12}, 0, true);
  add("w12t", DataType::FP32, {12, 4}, 0, true);
  add("w16", DataType::FP32, {4, 16}, 0, true);
  add("b", DataType::FP32, {4}, 0, true);
  add("b3", DataType::FP32, {3}, 0, true);
  add("w44", DataType::FP32, {3, 4, 4}, 0, true);
  add("b6", DataType::FP32, {6}, 0, true);
  add("filter", DataType::FP32, {3, 2, 2, 2}, 0, true);
  add("filter1", DataType::FP32, {4, 1, 2, 2}, 0, true);
  add("b12", DataType::FP32, {1, 12}, 0, true);
  add("b28", DataType::FP32, {1, 28}, 0, true);
  for (const char* const name : {"array", "ids_array", "scores_array"}) {
    root.vars.push_back(lod::VarDesc::of_type(name, lod::VarType::LOD_TENSOR_ARRAY));
  }
  root.vars.push_back(lod::VarDesc::of_type("channel", lod::VarType::CHANNEL));
  root.vars.push_back(lod::VarDesc::of_type("reader", lod::VarType::READER));
  root.vars.push_back(lod::VarDesc::of_type("table", lod::VarType::LOD_RANK_TABLE));
  root.vars.push_back(lod::VarDesc::of_type("scopes", lod::VarType::STEP_SCOPES));
  root.ops = std::move(ops);
  body.idx = 1;
  body.parent_idx = 0;
  body.vars = {lod::VarDesc::lod_tensor("three", {DataType::INT64, {1}})};
  body.ops = {{.outputs = {{"Out", {"three"}}}, .type = "fill_constant"},
              {.inputs = {{"X", {"i"}}}, .outputs = {{"Out", {"i"}}}, .type = "increment"},
              {.inputs = {{"X", {"i"}}, {"Y", {"three"}}}, .outputs = {{"Out", {"going"}}}, .type = "less_than"}};
  for (const char* const word : {"shape:I=1", "dtype:i=3", "value:f=3"})
    body.ops[0].attrs.push_back(lod_test::attr_of(word));
  return program;
}

/// Memory of which there is little.
class LittleMemory final : public std::pmr::memory_resource {
 private:
  void* do_allocate(std::size_t bytes, std::size_t alignment) override {
    if (bytes > left_) throw std::bad_alloc();
    left_ -= bytes;
    return std::pmr::new_delete_resource()->allocate(bytes, alignment);
  }
  void do_deallocate(void* memory, std::size_t bytes, std::size_t alignment) override {
    left_ += bytes;
    std::pmr::new_delete_resource()->deallocate(memory, bytes, alignment);
  }
  bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override { return this == &other; }

  std::size_t left_ = std::size_t{1} << 20;
};

constexpr auto least = std::numeric_limits<std::int64_t>::min(), greatest = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t odd_numbers[] = {
    0, 1, -1, 2, 3, 4, 5, 7, 12, -2, -100, 1000, 1 << 20, INT32_MAX, INT32_MIN, std::int64_t{1} << 40, greatest, least};

/// Small numbers, among which there may be an odd one.
template <class T>
void fill(std::span<T> values, std::minstd_rand* random) {
  std::int64_t number = 0;
  for (T& value : values) value = static_cast<T>(number++ % 4);
  if (!random || (*random)() % 8 > 0 || values.empty()) return;
  T& changed = values[(*random)() % values.size()];
  if constexpr (std::is_floating_point_v<T>) {
    using Limits = std::numeric_limits<T>;
    const T odd[] = {
        -1, T(0.5), T(1e-30), T(1e30), Limits::max(), Limits::infinity(), -Limits::infinity(), Limits::quiet_NaN()};
    changed = odd[(*random)() % std::size(odd)];
  } else {
    changed = static_cast<T>(odd_numbers[(*random)() % std::size(odd_numbers)]);
  }
}

/// A tensor as described; none if it would be large.
std::optional<lod::AnyLoDTensor> tensor_of(const lod::LoDTensorDesc& desc, std::pmr::memory_resource& memory,
                                           std::minstd_rand* random) {
  std::vector<std::int64_t> dims = desc.tensor.dims;
  if (dims.empty() || dims.size() > lod::Shape::max_rank) return std::nullopt;
  std::int64_t count = 1;
  for (std::int64_t& dim : dims) {
    if (dim < 0) dim = 5;
    if (dim > 64) return std::nullopt;
    count *= std::max<std::int64_t>(dim, 1);
    if (count > 1024) return std::nullopt;
  }
  const std::int64_t rows = dims[0];
  lod::LoD lod;
  if (desc.lod_level > 0) {
    std::vector<std::vector<std::int64_t>> lengths(static_cast<std::size_t>(std::min<std::int32_t>(desc.lod_level, 3)));
    lengths.back() = {std::min<std::int64_t>(rows, 2), 0, rows - std::min<std::int64_t>(rows, 2)};
    for (std::size_t level = 0; level + 1 < lengths.size(); ++level) lengths[level] = {1, 2};
    if (lengths.size() == 3) lengths[0] = {2};
    lod = lod::LoD::from_lengths(lengths);
  }
  const lod::Shape shape(dims), row_shape = shape.without_first();
  const auto filled = [&]<class T>(T) {
    lod::LoDTensor<T> made =
        lod.levels() > 0 ? lod::LoDTensor<T>(lod, row_shape, &memory) : lod::LoDTensor<T>(shape, &memory);
    fill(made.values(), random);
    return lod::AnyLoDTensor(std::move(made));
  };
  switch (desc.tensor.data_type) {
    case lod::DataType::FP32:
      return filled(float{});
    case lod::DataType::FP64:
      return filled(double{});
    case lod::DataType::INT32:
      return filled(std::int32_t{});
    case lod::DataType::INT64:
      return filled(std::int64_t{});
    case lod::DataType::BOOL:
      return filled(bool{});
    default:
      return std::nullopt;
  }
}

/// Calls f(), which may throw what the library documents of programs.
template <class F>
void survive(const F& f) {
  try {
    f();
  } catch (const std::invalid_argument&) {
  } catch (const std::out_of_range&) {
  } catch (const lod::LimitExceeded&) {
  } catch (const lod::EndOfData&) {
  } catch (const std::bad_alloc&) {
  }
}

/// The tensors of block 0 that are persistable, or those that are not.
std::map<std::string, lod::AnyLoDTensor> tensors_of(const lod::ProgramDesc& program, bool persistable,
                                                    std::pmr::memory_resource& memory,
                                                    std::minstd_rand* random = nullptr) {
  std::map<std::string, lod::AnyLoDTensor> tensors;
  for (const lod::VarDesc& var : program.blocks[0].vars) {
    if (var.type.type != lod::VarType::LOD_TENSOR || !var.type.lod_tensor || var.persistable != persistable) continue;
    auto value = tensor_of(*var.type.lod_tensor, memory, random);
    if (value) tensors.emplace(var.name, std::move(*value));
  }
  return tensors;
}

/// The parameters may be others than the program describes; what is fed follows from the seed.
void run(const lod::ProgramDesc& program, const lod::paddle::Parameters& parameters, std::size_t seed) {
  LittleMemory memory;
  lod::Scope scope;
  for (const auto& [name, value] : parameters) scope.var(name) = value;
  lod::Feed feed;
  std::minstd_rand random(static_cast<unsigned>(seed));
  for (auto& [name, value] : tensors_of(program, false, memory, &random)) feed.emplace(name, value);
  lod::PreparedProgram prepared(lod::CpuExecutor(1, &memory), program, scope, {},
                                {.steps = 10, .wait = std::chrono::microseconds(100)});
  prepared.run(feed);
  prepared.run(feed);
}

const std::vector<lod::OpDesc>& known_operators() {
  static const auto* const all = new std::vector<lod::OpDesc>(operators_of_lines());
  return *all;
}

/// Breaks a program somewhere.
class Mutation {
 public:
  Mutation(lod::ProgramDesc& program, unsigned seed) : program_(program), random_(seed) {
    lod::BlockDesc& block = program.blocks[below(program.blocks.size())];
    switch (below(8)) {
      case 0:
        if (block.ops.size() < 8) {
          block.ops.insert(block.ops.begin() + static_cast<std::ptrdiff_t>(below(block.ops.size() + 1)),
                           known_operators()[below(known_operators().size())]);
        }
        break;
      case 1:
        if (!block.vars.empty()) change(block.vars[below(block.vars.size())]);
        break;
      case 2:
        if (!block.ops.empty())
          block.ops.erase(block.ops.begin() + static_cast<std::ptrdiff_t>(below(block.ops.size())));
        break;
      default:
        if (!block.ops.empty()) change(block.ops[below(block.ops.size())]);
    }
  }

 private:
  std::size_t below(std::size_t count) { return random_() % count; }
  std::int64_t number() { return odd_numbers[below(std::size(odd_numbers))]; }
  void change(lod::VarDesc& var) {
    if (!var.type.lod_tensor) return;
    lod::TensorDesc& tensor = var.type.lod_tensor->tensor;
    switch (below(4)) {
      case 0:
        var.type.lod_tensor->lod_level = static_cast<std::int32_t>(below(4));
        break;
      case 1: {
        constexpr lod::DataType types[] = {lod::DataType::BOOL, lod::DataType::INT32, lod::DataType::INT64,
                                           lod::DataType::FP32, lod::DataType::FP64};
        tensor.data_type = types[below(std::size(types))];
        break;
      }
      case 2:
        if (below(2) == 0) {
          tensor.dims.push_back(number());
        } else if (!tensor.dims.empty()) {
          tensor.dims.pop_back();
        }
        break;
      default:
        if (!tensor.dims.empty()) tensor.dims[below(tensor.dims.size())] = static_cast<std::int64_t>(below(7)) - 1;
    }
  }
  void change(lod::OpDesc& op) {
    if (below(2) == 0 && !op.attrs.empty()) return change(op.attrs[below(op.attrs.size())]);
    auto& vars = below(3) > 0 ? op.inputs : op.outputs;
    if (vars.empty()) return;
    auto& arguments = vars[below(vars.size())].arguments;
    const auto& known = program_.blocks[0].vars;
    if (known.empty()) return;
    const std::string& name = known[below(known.size())].name;
    if (arguments.empty() || below(8) == 0) {
      arguments.push_back(name);
    } else if (below(12) == 0) {
      arguments.pop_back();
    } else {
      arguments[below(arguments.size())] = name;
    }
  }
  void change(lod::OpDesc::Attr& attr) {
    if (attr.i) attr.i = static_cast<std::int32_t>(number());
    if (attr.l) attr.l = number();
    if (attr.f) attr.f = static_cast<float>(number());
    if (attr.b) attr.b = !*attr.b;
    if (attr.block_idx) attr.block_idx = static_cast<std::int32_t>(below(3));
    if (attr.s) attr.s = std::to_string(number());
    if (attr.type != lod::AttrType::INTS) return;
    if (below(4) == 0 || attr.ints.empty()) {
      attr.ints.push_back(static_cast<std::int32_t>(number()));
    } else if (below(4) == 0) {
      attr.ints.pop_back();
    } else if (below(4) == 0) {
      attr.type = lod::AttrType::LONGS;
      attr.longs.assign(attr.ints.begin(), attr.ints.end());
      attr.longs[below(attr.longs.size())] = number();
    } else {
      attr.ints[below(attr.ints.size())] = static_cast<std::int32_t>(number());
    }
  }

  lod::ProgramDesc& program_;
  std::minstd_rand random_;
};

/// What makes variables that cannot be fed.
constexpr std::pair<const char*, const char*> makers[] = {
    {"table", "lod_rank_table X=x -> Out=table level:i=0"},
    {"array", "write_to_array X=x I=i -> Out=array"},
    {"ids_array", "write_to_array X=bids I=i -> Out=ids_array"},
    {"scores_array", "write_to_array X=bscores I=i -> Out=scores_array"},
    {"channel", "channel_create -> Out=channel capacity:i=2"},
    {"reader", "channel_create -> Out=channel capacity:i=2"},
    {"reader",
     "create_py_reader blocking_queue=channel -> Out=reader shape_concat:I=-1,4 ranks:I=2 lod_levels:I=0 dtypes:I=5"},
    {"sparse", "lookup_table_grad W=w Ids=ids Out@GRAD=x -> W@GRAD=sparse is_sparse:b=1"}};

/// A program of each operator, and one of each with its gradient.
std::vector<lod::ProgramDesc> programs() {
  std::vector<lod::ProgramDesc> all;
  for (const lod::OpDesc& op : known_operators()) {
    std::vector<lod::OpDesc> ops;
    for (const auto& [name, line] : makers) {
      const auto reads = [&, what = name](const auto& var) { return var.arguments[0] == what; };
      if (std::any_of(op.inputs.begin(), op.inputs.end(), reads)) ops.push_back(lod_test::operator_of(line));
    }
    ops.push_back(op);
    all.push_back(program_of(ops));
    if (op.outputs.empty()) continue;
    ops.push_back(lod_test::operator_of("mean X=" + op.outputs[0].arguments[0] + " -> Out=loss"));
    lod::ProgramDesc trained = program_of(std::move(ops));
    trained.blocks[0].vars.push_back(lod::VarDesc::lod_tensor("loss", {lod::DataType::FP32, {1}}));
    lod::BackwardOptions options;
    for (const auto& var : op.inputs) {
      options.parameters.insert(options.parameters.end(), var.arguments.begin(), var.arguments.end());
    }
    try {
      lod::append_backward(trained, "loss", options);
      all.push_back(std::move(trained));
    } catch (const lod::InvalidProgram&) {  // it has none
    }
  }
  return all;
}

/// Two parameters change places in their file, so that each has the other's name.
void exchange(std::string& bytes, std::vector<std::string> names, unsigned seed) {
  if (names.empty()) return;
  auto values = lod::paddle::decode_parameters(bytes, names);
  std::swap(values.at(names[seed % names.size()]), values.at(names[seed / 16 % names.size()]));
  bytes = lod::paddle::encode_parameters(values, names);
}

}  // namespace

std::vector<std::string> lod_fuzz::seeds() {
  std::vector<std::string> all;
  for (const lod::ProgramDesc& program : programs()) {
    const lod::paddle::Parameters parameters = tensors_of(program, true, *std::pmr::new_delete_resource());
    all.push_back(joined(lod::encode(program), lod::paddle::encode_parameters(parameters, program)));
  }
  return all;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t most, unsigned seed);
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t most, unsigned seed) {
  if (seed % 8 == 0) return LLVMFuzzerMutate(data, size, most);
  const auto [program_bytes, parameters] = lod_fuzz::parted(lod_fuzz::input(data, size));
  try {
    auto program = lod::decode<lod::ProgramDesc>(program_bytes);
    if (!program.blocks.empty()) {
      std::string changed(parameters);
      if (seed % 8 == 1) {
        exchange(changed, lod::paddle::parameter_names(program), seed / 8);
      } else {
        for (unsigned i = 0; i <= seed / 8 % 3; ++i) Mutation(program, seed + i);
      }
      const std::string bytes = lod_fuzz::joined(lod::encode(program), changed);
      if (bytes.size() <= most) {
        std::copy(bytes.begin(), bytes.end(), data);
        return bytes.size();
      }
    }
  } catch (const lod::ParseError&) {
  }
  return LLVMFuzzerMutate(data, size, most);
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const lod_fuzz::EncodedModel model = lod_fuzz::parted(lod_fuzz::input(data, size));
  lod::ProgramDesc program;
  lod::paddle::Parameters parameters;
  try {
    program = lod::decode<lod::ProgramDesc>(model.program);
    parameters = lod::paddle::decode_parameters(model.parameters, lod::paddle::parameter_names(program));
  } catch (const lod::ParseError&) {
    return 0;
  }
  std::size_t count = 0;
  for (const lod::BlockDesc& block : program.blocks) count += block.ops.size();
  if (count > 32) return 0;
  survive([&] {
    lod::ProgramDesc described = program;
    lod::infer_shapes(described);
  });
  survive([&] {
    lod::validate(program);
    if (!program.blocks[0].vars.empty()) static_cast<void>(lod::prune(program, {program.blocks[0].vars[0].name}));
    run(program, parameters, std::hash<std::string_view>()(model.program));
  });
  return 0;
}
