// SPDX-License-Identifier: Apache-2.0
/// @file
/// What the compiled libraries contain: a line for each kernel and the types it is called with. Each of the source
/// files in this folder instantiates them for one element type, of `CudaLibrary` or of `CpuLibrary`.
#pragma once

#include <lod/core/target.hpp>
#include <lod/kernels/compiled/boundary.hpp>
#include <lod/ops/kernel.hpp>
#include <lod/ops/operations.hpp>

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET {

/// The function that users call for a kernel with these arguments.
template <class Library, class Tag, class R, class... A>
constexpr bool is_there(R (*)(const typename Library::executor&, A...)) {
  return Library::template instantiate<Tag, typename compiled::Passed<std::decay_t<A>>::type...>();
}
/// The same for a kernel whose template arguments, after the executor, are these.
template <class Library, class Tag, class... Arguments>
constexpr bool is_there() {
  return is_there<Library, Tag>(Library::template function<Tag, Arguments...>());
}

/// Optimizers whose states are of type S.
template <class Library, class Rule, std::size_t states, class T, class S>
constexpr void instantiate_rule() {
  static_assert(is_there<Library, Update>(Library::template rule<Update, Rule, T, S, states>()));
  static_assert(is_there<Library, UpdateRows>(Library::template rule<UpdateRows, Rule, T, S, states>()));
}
template <class Library, class T, class S>
constexpr void instantiate_rules() {
  instantiate_rule<Library, MomentumRule, 1, T, S>();
  instantiate_rule<Library, AdagradRule, 1, T, S>();
  instantiate_rule<Library, RmspropRule, 2, T, S>();
  instantiate_rule<Library, CenteredRmspropRule, 3, T, S>();
  instantiate_rule<Library, AdamRule, 2, T, S>();
  instantiate_rule<Library, FtrlRule, 2, T, S>();
}

/// The kernels of `scatter` and of its gradient.
template <class Library, ScatterOp op, class T>
constexpr void instantiate_scatter() {
  using F = Scattered<op>;
  static_assert(is_there<Library, ScatterRows, F, T>());
  if constexpr (op == ScatterOp::ADD || op == ScatterOp::SUB) static_assert(is_there<Library, ScatterSums, F, T>());
  if constexpr (elements::Floating::includes<T>) static_assert(is_there<Library, ScatterRowsGrad, F, T>());
}

/// Kernels whose only elements are ids of a fixed type.
template <class Library>
constexpr bool instantiate_ids() {
  static_assert(is_there<Library, CountKept>());
  static_assert(is_there<Library, GroupRows>());
  static_assert(is_there<Library, KeepIds>());
  if constexpr (Library::on_gpu) {
    static_assert(is_there<Library, CheckIds>());
    static_assert(is_there<Library, GroupListed>());
    static_assert(is_there<Library, GroupOfRows>());
    static_assert(is_there<Library, ListLookUps>());
    static_assert(is_there<Library, RenumberRows>());
    static_assert(is_there<Library, ShiftRows>());
  }
  static_assert(is_there<Library, SequenceMask, bool>());
  return true;
}

/// Kernels for any number.
template <class Library, class T>
constexpr void instantiate_numbers() {
  static_assert(is_there<Library, Combine, Add, T>());
  static_assert(is_there<Library, Combine, Divide, T>());
  static_assert(is_there<Library, Combine, Multiply, T>());
  static_assert(is_there<Library, Combine, Subtract, T>());
  static_assert(is_there<Library, CombineRows, Add, T>());
  static_assert(is_there<Library, CombineRows, Divide, T>());
  static_assert(is_there<Library, CombineRows, Multiply, T>());
  static_assert(is_there<Library, CombineRows, Subtract, T>());
  static_assert(is_there<Library, CopyValues, T>());
  static_assert(is_there<Library, DividePooled, T>());
  static_assert(is_there<Library, EmbeddingMaxPool, T>());
  static_assert(is_there<Library, EmbeddingPool, T>());
  static_assert(is_there<Library, GatherRows, T>());
  static_assert(is_there<Library, Im2Sequence, T>());
  static_assert(is_there<Library, Im2SequenceGrad, T>());
  if constexpr (Library::on_gpu) {
    static_assert(is_there<Library, FindTwins, T>());
    static_assert(is_there<Library, ListRows, T>());
    static_assert(is_there<Library, NumberSequences, T>());
  }
  static_assert(is_there<Library, LookUpWeightsGrad, T>());
  static_assert(is_there<Library, Map, Clipped, T>());
  static_assert(is_there<Library, Map, Scaled, T>());
  static_assert(is_there<Library, RunCopy, T>());
  static_assert(is_there<Library, SequenceCumsum, T, T>());
  if constexpr (has_wide_sums<T, Accumulator<T>>) {
    static_assert(is_there<Library, SequenceCumsum, T, Accumulator<T>>());
  }
  static_assert(is_there<Library, SequenceEnumerate, T>());
  static_assert(is_there<Library, SequenceExpandGrad, T>());
  static_assert(is_there<Library, SequenceMask, T>());
  static_assert(is_there<Library, SequenceMaxPool, T>());
  static_assert(is_there<Library, SequenceMaxPoolGrad, T>());
  static_assert(is_there<Library, SequencePad, T>());
  static_assert(is_there<Library, SequencePool, T>());
  static_assert(is_there<Library, SequencePoolGrad, T>());
  static_assert(is_there<Library, SequenceReverse, T>());
  static_assert(is_there<Library, SequenceScatter, T>());
  static_assert(is_there<Library, SequenceScatterUpdatesGrad, T>());
  static_assert(is_there<Library, SequenceSliceGrad, T>());
  static_assert(is_there<Library, SequenceSort, T>());
  static_assert(is_there<Library, SequenceSortGrad, T>());
  if constexpr (has_wide_sums<T, Accumulator<T>>) static_assert(is_there<Library, SequenceSums, T>());
  static_assert(is_there<Library, SequenceTopK, T>());
  static_assert(is_there<Library, SequenceUnpad, T>());
  static_assert(is_there<Library, SetZero, T>());
  static_assert(is_there<Library, SumGroups, T>());
  static_assert(is_there<Library, SumLookUpGrads, T>());
  instantiate_scatter<Library, ScatterOp::ASSIGN, T>();
  instantiate_scatter<Library, ScatterOp::ADD, T>();
  instantiate_scatter<Library, ScatterOp::SUB, T>();
  instantiate_scatter<Library, ScatterOp::SUBBY, T>();
  instantiate_scatter<Library, ScatterOp::MUL, T>();
  instantiate_scatter<Library, ScatterOp::DIV, T>();
  instantiate_scatter<Library, ScatterOp::DIVBY, T>();
}

/// Kernels for floating-point numbers.
template <class Library, class T>
constexpr void instantiate_floating() {
  static_assert(is_there<Library, Combine, ClippedGrad, T>());
  static_assert(is_there<Library, Combine, Negate, T>());
  static_assert(is_there<Library, Combine, NegatedQuotient, T>());
  static_assert(is_there<Library, CombineRows, NegatedQuotient, T>());
  static_assert(is_there<Library, MatrixProduct, T>());
  static_assert(is_there<Library, RowConv, T>());
  static_assert(is_there<Library, RowConvFilterGrad, T>());
  static_assert(is_there<Library, RowConvInputGrad, T>());
  static_assert(is_there<Library, ScaleSequences, T>());
  static_assert(is_there<Library, SequenceConv, T>());
  static_assert(is_there<Library, SequenceConvFilterGrad, T>());
  static_assert(is_there<Library, SequenceConvInputGrad, T>());
  static_assert(is_there<Library, SequenceConvPaddingGrad, T>());
  static_assert(is_there<Library, SequenceLogsumexp, T>());
  static_assert(is_there<Library, SequenceMeanVar, T>());
  static_assert(is_there<Library, SequenceMeanVarGrad, T>());
  static_assert(is_there<Library, SequenceSoftmax, T>());
  static_assert(is_there<Library, SequenceSoftmaxGrad, T>());
  static_assert(is_there<Library, SequenceTopKAvgPooling, T>());
  static_assert(is_there<Library, SequenceTopKAvgPoolingGrad, T>());
  static_assert(is_there<Library, Shorten, T>());
  static_assert(is_there<Library, ShortenGrad, T>());
  static_assert(Library::template instantiate<StepStates, std::int64_t, GruStepGrad<T>>());
  static_assert(Library::template instantiate<StepStates, std::int64_t, GruStep<T>>());
  static_assert(Library::template instantiate<StepStates, std::int64_t, LstmStepGrad<T>>());
  static_assert(Library::template instantiate<StepStates, std::int64_t, LstmStep<T>>());
  static_assert(is_there<Library, TransposeMatrix, T>());
  instantiate_rule<Library, SgdRule, 0, T, T>();
  instantiate_rules<Library, T, T>();
  if constexpr (detail::Half<T>) instantiate_rules<Library, T, float>();
}

/// Kernels for ids of type T.
template <class Library, class T>
constexpr void instantiate_of_ids() {
  static_assert(is_there<Library, EditDistance, T>());
  static_assert(is_there<Library, CopyKept, T>());
  static_assert(is_there<Library, CtcAlign, T>());
  static_assert(is_there<Library, SequenceErase, T>());
}

/// All kernels for elements of type T.
template <class Library, class T>
constexpr bool instantiate() {
  if constexpr (elements::Number::includes<T>) instantiate_numbers<Library, T>();
  if constexpr (elements::Floating::includes<T>) instantiate_floating<Library, T>();
  if constexpr (elements::Id::includes<T>) instantiate_of_ids<Library, T>();
  return true;
}

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET
