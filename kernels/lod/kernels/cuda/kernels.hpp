// SPDX-License-Identifier: Apache-2.0
/// @file
/// The kernels that there are for GPUs, by name.
#pragma once

/// of(name) for each of them. A name is that of a template over executors in lod::kernel, and of its body in
/// lod::kernel::bulk, but where fallback.hpp says otherwise.
// clang-format off
#define LOD_CUDA_KERNELS(of) \
  of(CheckIds) \
  of(Combine) \
  of(CombineRows) \
  of(CopyValues) \
  of(DividePooled) \
  of(EditDistance) \
  of(EmbeddingMaxPool) \
  of(EmbeddingPool) \
  of(GatherRows) \
  of(GroupOfRows) \
  of(GroupRows) \
  of(GruStep) \
  of(GruStepGrad) \
  of(Im2Sequence) \
  of(Im2SequenceGrad) \
  of(ListLookUps) \
  of(ListRows) \
  of(LookUpWeightsGrad) \
  of(LstmStep) \
  of(LstmStepGrad) \
  of(Map) \
  of(MatrixProduct) \
  of(NameRows) \
  of(RowConv) \
  of(RowConvFilterGrad) \
  of(RowConvInputGrad) \
  of(RunCopy) \
  of(ScaleSequences) \
  of(ScatterRows) \
  of(ScatterRowsGrad) \
  of(ScatterSums) \
  of(SequenceConv) \
  of(SequenceConvFilterGrad) \
  of(SequenceConvInputGrad) \
  of(SequenceConvPaddingGrad) \
  of(SequenceCumsum) \
  of(SequenceEnumerate) \
  of(SequenceExpandGrad) \
  of(SequenceLogsumexp) \
  of(SequenceMask) \
  of(SequenceMaxPool) \
  of(SequenceMaxPoolGrad) \
  of(SequencePad) \
  of(SequencePool) \
  of(SequencePoolGrad) \
  of(SequenceReverse) \
  of(SequenceScatter) \
  of(SequenceScatterUpdatesGrad) \
  of(SequenceSliceGrad) \
  of(SequenceSoftmax) \
  of(SequenceSoftmaxGrad) \
  of(SequenceSort) \
  of(SequenceSortGrad) \
  of(SequenceTopK) \
  of(SequenceTopKAvgPooling) \
  of(SequenceTopKAvgPoolingGrad) \
  of(SequenceUnpad) \
  of(SetZero) \
  of(Shorten) \
  of(ShortenGrad) \
  of(SumGroups) \
  of(SumLookUpGrads) \
  of(TransposeMatrix) \
  of(Update) \
  of(UpdateRows)

// Those in two steps: see kernel::SequenceErase.
#define LOD_CUDA_FILTERS(of) \
  of(CtcAlign) \
  of(SequenceErase)
// clang-format on
