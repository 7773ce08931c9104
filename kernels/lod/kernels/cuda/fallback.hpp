// SPDX-License-Identifier: Apache-2.0
/// @file
/// What runs on GPUs where nothing is written for them: the bodies of the Thrust back end, one line a kernel. Those
/// that give the CPU a number, or read scratch memory there, are not among them.
#pragma once

#include <lod/cuda/executor.hpp>
#include <lod/kernels/thrust/checked_ids.hpp>
#include <lod/kernels/thrust/edit_distance.hpp>
#include <lod/kernels/thrust/elementwise.hpp>
#include <lod/kernels/thrust/embedding.hpp>
#include <lod/kernels/thrust/embedding_pool.hpp>
#include <lod/kernels/thrust/gru.hpp>
#include <lod/kernels/thrust/im2sequence.hpp>
#include <lod/kernels/thrust/lstm.hpp>
#include <lod/kernels/thrust/matrix_product.hpp>
#include <lod/kernels/thrust/merge_rows.hpp>
#include <lod/kernels/thrust/optimizers.hpp>
#include <lod/kernels/thrust/recurrent.hpp>
#include <lod/kernels/thrust/row_conv.hpp>
#include <lod/kernels/thrust/row_sparse.hpp>
#include <lod/kernels/thrust/run_copy.hpp>
#include <lod/kernels/thrust/sequence_conv.hpp>
#include <lod/kernels/thrust/sequence_cumsum.hpp>
#include <lod/kernels/thrust/sequence_enumerate.hpp>
#include <lod/kernels/thrust/sequence_expand.hpp>
#include <lod/kernels/thrust/sequence_logsumexp.hpp>
#include <lod/kernels/thrust/sequence_mask.hpp>
#include <lod/kernels/thrust/sequence_pad.hpp>
#include <lod/kernels/thrust/sequence_pool.hpp>
#include <lod/kernels/thrust/sequence_reverse.hpp>
#include <lod/kernels/thrust/sequence_scatter.hpp>
#include <lod/kernels/thrust/sequence_slice.hpp>
#include <lod/kernels/thrust/sequence_softmax.hpp>
#include <lod/kernels/thrust/sequence_sort.hpp>
#include <lod/kernels/thrust/sequence_topk_avg_pooling.hpp>
#include <lod/target.hpp>

namespace lod::inline LOD_TARGET {
namespace kernel {

template <>
struct CheckIds<CudaExecutor> : bulk::CheckIds {};
template <>
struct EditDistance<CudaExecutor> : bulk::EditDistance {};
template <>
struct Map<CudaExecutor> : bulk::Map {};
template <>
struct Combine<CudaExecutor> : bulk::Combine {};
template <>
struct CombineRows<CudaExecutor> : bulk::CombineRows {};
template <>
struct GatherRows<CudaExecutor> : bulk::GatherRows {};
template <>
struct EmbeddingPool<CudaExecutor> : bulk::EmbeddingPool {};
template <>
struct EmbeddingMaxPool<CudaExecutor> : bulk::EmbeddingMaxPool {};
template <>
struct DividePooled<CudaExecutor> : bulk::DividePooled {};
template <>
struct ListLookUps<CudaExecutor> : bulk::ListLookUps {};
template <>
struct SumLookUpGrads<CudaExecutor> : bulk::SumLookUpGrads {};
template <>
struct LookUpWeightsGrad<CudaExecutor> : bulk::LookUpWeightsGrad {};
template <>
struct GruStep<CudaExecutor> : bulk::GruStep {};
template <>
struct GruStepGrad<CudaExecutor> : bulk::GruStepGrad {};
template <>
struct Im2Sequence<CudaExecutor> : bulk::Im2Sequence {};
template <>
struct Im2SequenceGrad<CudaExecutor> : bulk::Im2SequenceGrad {};
template <>
struct LstmStep<CudaExecutor> : bulk::LstmStep {};
template <>
struct LstmStepGrad<CudaExecutor> : bulk::LstmStepGrad {};
template <>
struct MatrixProduct<CudaExecutor> : bulk::MatrixProduct {};
template <>
struct GroupRows<CudaExecutor> : bulk::GroupRowsInPlaces {};
template <>
struct ListRows<CudaExecutor> : bulk::ListRows {};
template <>
struct InvertOrder<CudaExecutor> : bulk::InvertOrder {};
template <>
struct NameRows<CudaExecutor> : bulk::NameRows {};
template <>
struct SumGroups<CudaExecutor> : bulk::SumGroups {};
template <>
struct SetZero<CudaExecutor> : bulk::SetZero {};
template <>
struct Update<CudaExecutor> : bulk::Update {};
template <>
struct UpdateRows<CudaExecutor> : bulk::UpdateRows {};
template <>
struct TransposeMatrix<CudaExecutor> : bulk::TransposeMatrix {};
template <>
struct RowConv<CudaExecutor> : bulk::RowConv {};
template <>
struct RowConvInputGrad<CudaExecutor> : bulk::RowConvInputGrad {};
template <>
struct RowConvFilterGrad<CudaExecutor> : bulk::RowConvFilterGrad {};
template <>
struct ScatterSums<CudaExecutor> : bulk::ScatterSums {};
template <>
struct ScatterRows<CudaExecutor> : bulk::ScatterRows {};
template <>
struct ScatterRowsGrad<CudaExecutor> : bulk::ScatterRowsGrad {};
template <>
struct RunCopy<CudaExecutor> : bulk::RunCopy {};
template <>
struct CopyValues<CudaExecutor> : bulk::CopyValues {};
template <>
struct SequenceConv<CudaExecutor> : bulk::SequenceConv {};
template <>
struct SequenceConvInputGrad<CudaExecutor> : bulk::SequenceConvInputGrad {};
template <>
struct SequenceConvFilterGrad<CudaExecutor> : bulk::SequenceConvFilterGrad {};
template <>
struct SequenceConvPaddingGrad<CudaExecutor> : bulk::SequenceConvPaddingGrad {};
template <>
struct SequenceCumsum<CudaExecutor> : bulk::SequenceCumsum {};
template <>
struct SequenceEnumerate<CudaExecutor> : bulk::SequenceEnumerate {};
template <>
struct SequenceExpandGrad<CudaExecutor> : bulk::SequenceExpandGrad {};
template <>
struct SequenceLogsumexp<CudaExecutor> : bulk::SequenceLogsumexp {};
template <>
struct ScaleSequences<CudaExecutor> : bulk::ScaleSequences {};
template <>
struct SequenceMask<CudaExecutor> : bulk::SequenceMask {};
template <>
struct SequencePad<CudaExecutor> : bulk::SequencePad {};
template <>
struct SequenceUnpad<CudaExecutor> : bulk::SequenceUnpad {};
template <>
struct SequencePool<CudaExecutor> : bulk::SequencePool {};
template <>
struct SequenceMaxPool<CudaExecutor> : bulk::SequenceMaxPool {};
template <>
struct SequencePoolGrad<CudaExecutor> : bulk::SequencePoolGrad {};
template <>
struct SequenceMaxPoolGrad<CudaExecutor> : bulk::SequenceMaxPoolGrad {};
template <>
struct SequenceReverse<CudaExecutor> : bulk::SequenceReverse {};
template <>
struct SequenceScatter<CudaExecutor> : bulk::SequenceScatter {};
template <>
struct SequenceScatterUpdatesGrad<CudaExecutor> : bulk::SequenceScatterUpdatesGrad {};
template <>
struct SequenceSliceGrad<CudaExecutor> : bulk::SequenceSliceGrad {};
template <>
struct SequenceSoftmax<CudaExecutor> : bulk::SequenceSoftmax {};
template <>
struct SequenceSoftmaxGrad<CudaExecutor> : bulk::SequenceSoftmaxGrad {};
template <>
struct SequenceSort<CudaExecutor> : bulk::SequenceSort {};
template <>
struct SequenceTopK<CudaExecutor> : bulk::SequenceTopK {};
template <>
struct SequenceSortGrad<CudaExecutor> : bulk::SequenceSortGrad {};
template <>
struct SequenceTopKAvgPooling<CudaExecutor> : bulk::SequenceTopKAvgPooling {};
template <>
struct SequenceTopKAvgPoolingGrad<CudaExecutor> : bulk::SequenceTopKAvgPoolingGrad {};

}  // namespace kernel
}  // namespace lod::inline LOD_TARGET
