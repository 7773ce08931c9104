// SPDX-License-Identifier: Apache-2.0
/// @file
/// The kernels of the compiled library: a line for each of them and for what it is called with. The files beside this
/// one have those for one type of elements each.
#pragma once

#ifdef __CUDACC__
#  include <lod/cuda.cuh>
#endif
#include <lod/kernels/cuda/boundary.hpp>
#include <lod/kernels/cuda/fallback.hpp>

#include <bit>
#include <cstddef>
#include <span>
#include <type_traits>

namespace lod::inline LOD_TARGET {
namespace kernel {

#define LOD_NAMED(kernel_name)                      \
  template <>                                       \
  struct TypeOf<compiled::name::kernel_name> {      \
    using type = kernel::kernel_name<CudaExecutor>; \
  };
LOD_CUDA_KERNELS(LOD_NAMED)
LOD_CUDA_FILTERS(LOD_NAMED)
#undef LOD_NAMED
/// The first step of a filter as a kernel.
template <class Filter>
struct CountStep {
  template <class E, class T, class Rule>
  static void run(const E& executor, const T* x, const Segments& sequences, const Rule& rule, std::int64_t* scratch,
                  std::int64_t* kept) {
    Filter::count(executor, x, sequences, rule, scratch, kept);
  }
};
template <class Name>
struct TypeOf<compiled::name::Count<Name>> {
  using type = CountStep<typename TypeOf<Name>::type>;
};

/// The other way round than `Passed`.
template <class A>
struct Received {
  static A receive(const A& passed) noexcept { return passed; }
};
template <class Name, std::size_t size, std::size_t alignment>
struct Received<compiled::Value<Name, size, alignment>> {
  static auto receive(const compiled::Value<Name, size, alignment>& passed) noexcept {
    return std::bit_cast<typename TypeOf<Name>::type>(passed);
  }
};

}  // namespace kernel
}  // namespace lod::inline LOD_TARGET

template <class Kernel, class... Arguments>
typename lod::compiled::ResultOf<Kernel>::type lod::compiled::enqueue(const CudaExecutor& executor,
                                                                      Arguments... arguments) {
  return kernel::TypeOf<Kernel>::type::run(executor, kernel::Received<Arguments>::receive(arguments)...);
}

namespace lod::inline LOD_TARGET {
namespace kernel {

/// The function that users call for a kernel with these arguments.
template <class Name, class R, class... A>
constexpr bool is_there(R (*)(const CudaExecutor&, A...)) {
  return &compiled::enqueue<Name, typename Passed<std::decay_t<A>>::type...> != nullptr;
}
/// The same for a kernel whose template arguments, behind the executor, are these.
template <class Name, class... Arguments>
constexpr bool is_there() {
  return is_there<Name>(&TypeOf<Name>::type::template run<CudaExecutor, Arguments...>);
}

/// Optimizers, whose states are of type S.
template <class Rule, std::size_t states, class T, class S>
constexpr void instantiate_rule() {
  namespace name = compiled::name;
  static_assert(is_there<name::Update>(&bulk::Update::run<CudaExecutor, Rule, T, S, states>));
  static_assert(is_there<name::UpdateRows>(&bulk::UpdateRows::run<CudaExecutor, Rule, T, S, states>));
}
template <class T, class S>
constexpr void instantiate_rules() {
  instantiate_rule<operation::MomentumRule, 1, T, S>();
  instantiate_rule<operation::AdagradRule, 1, T, S>();
  instantiate_rule<operation::RmspropRule, 2, T, S>();
  instantiate_rule<operation::CenteredRmspropRule, 3, T, S>();
  instantiate_rule<operation::AdamRule, 2, T, S>();
  instantiate_rule<operation::FtrlRule, 2, T, S>();
}

/// What `scatter` does, with its gradient.
template <ScatterOp op, class T>
constexpr void instantiate_scatter() {
  namespace name = compiled::name;
  using F = operation::Scattered<op>;
  static_assert(is_there<name::ScatterRows, F, T>());
  if constexpr (op == ScatterOp::ADD || op == ScatterOp::SUB) static_assert(is_there<name::ScatterSums, F, T>());
  if constexpr (elements::Floating::includes<T>) static_assert(is_there<name::ScatterRowsGrad, F, T>());
}

/// What takes no elements but ids.
constexpr bool instantiate_ids() {
  namespace name = compiled::name;
  static_assert(is_there<name::CheckIds>());
  static_assert(is_there<name::GroupRows>());
  static_assert(is_there<name::GroupOfRows>());
  static_assert(is_there<name::ListLookUps>());
  static_assert(is_there<name::NameRows>());
  static_assert(is_there<name::SequenceMask, bool>());
  return true;
}

/// What takes any number.
template <class T>
constexpr void instantiate_numbers() {
  namespace name = compiled::name;
  static_assert(is_there<name::Combine, operation::Add, T>());
  static_assert(is_there<name::Combine, operation::Divide, T>());
  static_assert(is_there<name::Combine, operation::Multiply, T>());
  static_assert(is_there<name::Combine, operation::Subtract, T>());
  static_assert(is_there<name::CombineRows, operation::Add, T>());
  static_assert(is_there<name::CombineRows, operation::Divide, T>());
  static_assert(is_there<name::CombineRows, operation::Multiply, T>());
  static_assert(is_there<name::CombineRows, operation::Subtract, T>());
  static_assert(is_there<name::CopyValues, T>());
  static_assert(is_there<name::DividePooled, T>());
  static_assert(is_there<name::EmbeddingMaxPool, T>());
  static_assert(is_there<name::EmbeddingPool, T>());
  static_assert(is_there<name::GatherRows, T>());
  static_assert(is_there<name::Im2Sequence, T>());
  static_assert(is_there<name::Im2SequenceGrad, T>());
  static_assert(is_there<name::ListRows, T>());
  static_assert(is_there<name::LookUpWeightsGrad, T>());
  static_assert(is_there<name::Map, operation::Clipped, T>());
  static_assert(is_there<name::Map, operation::Scaled, T>());
  static_assert(is_there<name::RunCopy, T>());
  static_assert(is_there<name::SequenceCumsum, T>());
  static_assert(is_there<name::SequenceEnumerate, T>());
  static_assert(is_there<name::SequenceExpandGrad, T>());
  static_assert(is_there<name::SequenceMask, T>());
  static_assert(is_there<name::SequenceMaxPool, T>());
  static_assert(is_there<name::SequenceMaxPoolGrad, T>());
  static_assert(is_there<name::SequencePad, T>());
  static_assert(is_there<name::SequencePool, T>());
  static_assert(is_there<name::SequencePoolGrad, T>());
  static_assert(is_there<name::SequenceReverse, T>());
  static_assert(is_there<name::SequenceScatter, T>());
  static_assert(is_there<name::SequenceScatterUpdatesGrad, T>());
  static_assert(is_there<name::SequenceSliceGrad, T>());
  static_assert(is_there<name::SequenceSort, T>());
  static_assert(is_there<name::SequenceSortGrad, T>());
  static_assert(is_there<name::SequenceTopK, T>());
  static_assert(is_there<name::SequenceUnpad, T>());
  static_assert(is_there<name::SetZero, T>());
  static_assert(is_there<name::SumGroups, T>());
  static_assert(is_there<name::SumLookUpGrads, T>());
  instantiate_scatter<ScatterOp::ASSIGN, T>();
  instantiate_scatter<ScatterOp::ADD, T>();
  instantiate_scatter<ScatterOp::SUB, T>();
  instantiate_scatter<ScatterOp::SUBBY, T>();
  instantiate_scatter<ScatterOp::MUL, T>();
  instantiate_scatter<ScatterOp::DIV, T>();
  instantiate_scatter<ScatterOp::DIVBY, T>();
}

/// What takes floating-point numbers.
template <class T>
constexpr void instantiate_floating() {
  namespace name = compiled::name;
  static_assert(is_there<name::Combine, operation::ClippedGrad, T>());
  static_assert(is_there<name::Combine, operation::Negate, T>());
  static_assert(is_there<name::Combine, operation::NegatedQuotient, T>());
  static_assert(is_there<name::CombineRows, operation::NegatedQuotient, T>());
  static_assert(is_there<name::GruStep, T>());
  static_assert(is_there<name::GruStepGrad, T>());
  static_assert(is_there<name::LstmStep, T>());
  static_assert(is_there<name::LstmStepGrad, T>());
  static_assert(is_there<name::MatrixProduct, T>());
  static_assert(is_there<name::RowConv, T>());
  static_assert(is_there<name::RowConvFilterGrad, T>());
  static_assert(is_there<name::RowConvInputGrad, T>());
  static_assert(is_there<name::ScaleSequences, T>());
  static_assert(is_there<name::SequenceConv, T>());
  static_assert(is_there<name::SequenceConvFilterGrad, T>());
  static_assert(is_there<name::SequenceConvInputGrad, T>());
  static_assert(is_there<name::SequenceConvPaddingGrad, T>());
  static_assert(is_there<name::SequenceLogsumexp, T>());
  static_assert(is_there<name::SequenceSoftmax, T>());
  static_assert(is_there<name::SequenceSoftmaxGrad, T>());
  static_assert(is_there<name::SequenceTopKAvgPooling, T>());
  static_assert(is_there<name::SequenceTopKAvgPoolingGrad, T>());
  static_assert(is_there<name::Shorten, T>());
  static_assert(is_there<name::ShortenGrad, T>());
  static_assert(is_there<name::TransposeMatrix, T>());
  instantiate_rule<operation::SgdRule, 0, T, T>();
  instantiate_rules<T, T>();
  if constexpr (detail::Half<T>) instantiate_rules<T, float>();
}

/// What takes ids.
template <class T>
constexpr void instantiate_of_ids() {
  namespace name = compiled::name;
  static_assert(is_there<name::EditDistance, T>());
  static_assert(is_there<name::CtcAlign, T>());
  static_assert(is_there<name::Count<name::CtcAlign>, T, CtcAlignOptions>());
  static_assert(is_there<name::SequenceErase, T>());
  static_assert(is_there<name::Count<name::SequenceErase>, T, std::span<const T>>());
}

/// All kernels for elements of type T.
template <class T>
constexpr bool instantiate() {
  if constexpr (elements::Number::includes<T>) instantiate_numbers<T>();
  if constexpr (elements::Floating::includes<T>) instantiate_floating<T>();
  if constexpr (elements::Id::includes<T>) instantiate_of_ids<T>();
  return true;
}

}  // namespace kernel
}  // namespace lod::inline LOD_TARGET
