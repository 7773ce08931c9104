// SPDX-License-Identifier: Apache-2.0
/// @file
/// Operators that the library has for programs, with the parameters and attributes that they take, for tests that break
/// them and see what becomes of that: of families with one rule, such as activations, some; no gradients.
#pragma once

#include "support/operator_text.hpp"
#include <lod/program.hpp>

#include <sstream>
#include <string>
#include <vector>

namespace lod_test {

/// A line each, as operator_text.hpp reads them.
inline constexpr const char* operator_lines = R"(
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
pad_constant_like X=z Y=s4 -> Out=y pad_value:f=1
crop X=image -> Out=y shape:I=2,2,1 offsets:I=0,1,2
cvm X=x CVM=s2 -> Y=y use_cvm:b=1
shard_index X=ids -> Out=y index_num:i=9 nshards:i=2 shard_id:i=1
eye -> Out=y num_rows:l=3 num_columns:l=2 dtype:i=5
unstack X=s2 -> Y=y Y=n axis:i=1 num:i=2
unbind X=s2 -> Out=y Out=n axis:i=1
gather_nd X=image Index=o -> Out=y
scatter_nd_add X=z Index=o Updates=s4 -> Out=y
scatter X=z Ids=l Updates=s4 -> Out=y overwrite:b=0
where Condition=flags X=one31 Y=one31 -> Out=y
where_index Condition=flags -> Out=y
bpr_loss X=x Label=ids -> Y=y
smooth_l1_loss X=z Y=z1 InsideWeight=z2 OutsideWeight=z3 -> Out=y Diff=n sigma:f=2
squared_l2_distance X=z Y=z1 -> Out=y sub_result=n
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
group_norm X=pixels Scale=b3 Bias=b3 -> Y=y Mean=n Variance=k groups:i=3 data_layout:s=NHWC
instance_norm X=image Scale=b3 Bias=b3 -> Y=y SavedMean=n SavedVariance=k
lrn X=pixels -> Out=y MidOut=n n:i=3 alpha:f=0.5
less_than X=i Y=i -> Out=y axis:i=-1
lod_reset X=x Y=ids -> Out=y target_lod:I=0,2,5 append:b=0
logical_and X=flags Y=flags -> Out=y
lookup_table W=w Ids=ids -> Out=y padding_idx:l=-1
lookup_table_v2 W=w Ids=ids -> Out=y padding_idx:l=-1
lstm Input=x16 H0=s4 C0=s4 Weight=w16 Bias=b28 -> Hidden=y Cell=n BatchGate=k BatchCellPreAct=s use_peepholes:b=1
lstmp Input=x16 H0=s4 C0=s4 Weight=w16 ProjWeight=w Bias=b28 -> Projection=y Cell=n BatchGate=k BatchHidden=s cell_clip:f=0.5
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
reverse X=image -> Out=y axis:I=1
rnn_memory_helper X=x -> Out=y
gaussian_random_batch_size_like Input=x -> Out=y shape:I=-1,3 mean:f=1 std:f=2 seed:i=1 dtype:i=5
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
tensor_array_to_tensor X=array -> Out=y OutIndex=n axis:i=0 use_stack:b=0
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
conv2d_transpose Input=pixels Filter=filter -> Output=y strides:I=2,1 paddings:I=0,1 dilations:I=1,1 groups:i=1 data_format:s=NHWC
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

/// The operators of all lines.
inline std::vector<lod::OpDesc> sample_operators() {
  std::vector<lod::OpDesc> all;
  std::istringstream text(operator_lines);
  for (std::string line; std::getline(text, line);) {
    if (!line.empty()) all.push_back(operator_of(line));
  }
  return all;
}

}  // namespace lod_test
