// SPDX-License-Identifier: Apache-2.0
/// @file
/// The kernels of the compiled libraries, by name: of(name) for each of them. A name is that of a template over
/// executors in lod::kernel. For GPUs it is also the name of the body in lod::kernel::bulk, except where
/// cuda/fallback.hpp says otherwise.
#pragma once

// clang-format off
// For CPUs and for GPUs.
#define LOD_SHARED_KERNELS(of) \
  of(Combine) \
  of(CombineRows) \
  of(CopyValues) \
  of(CountKept) \
  of(DividePooled) \
  of(EditDistance) \
  of(EmbeddingMaxPool) \
  of(EmbeddingPool) \
  of(GatherRows) \
  of(GroupRows) \
  of(GruStep) \
  of(GruStepGrad) \
  of(Im2Sequence) \
  of(Im2SequenceGrad) \
  of(KeepIds) \
  of(LookUpWeightsGrad) \
  of(LstmStep) \
  of(LstmStepGrad) \
  of(Map) \
  of(MatrixProduct) \
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
  of(SequenceSums) \
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

// Kernels in two steps: see kernel::SequenceErase.
#define LOD_FILTERS(of) \
  of(CtcAlign) \
  of(SequenceErase)

// For GPUs only: on a CPU these are part of other kernels.
#define LOD_CUDA_ONLY_KERNELS(of) \
  of(CheckIds) \
  of(FindTwins) \
  of(GroupListed) \
  of(GroupOfRows) \
  of(ListLookUps) \
  of(ListRows) \
  of(NumberSequences) \
  of(RenumberRows) \
  of(ShiftRows)

// For CPUs, and never in a library: they call a function of the caller's.
#define LOD_INLINE_KERNELS(of) \
  of(ForEachRange) \
  of(ForEachSequence) \
  of(UniqueSequences)
// clang-format on
