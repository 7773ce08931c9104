// SPDX-License-Identifier: Apache-2.0
/// @file
/// What the compiled libraries contain: a line for each kernel and the types it is called with. Each of the source
/// files in this folder instantiates them for one element type, of `CudaLibrary` or of `CpuLibrary`.
#pragma once

#include <lod/core/target.hpp>
#include <lod/kernels/compiled/boundary.hpp>
#include <lod/kernels/compiled/kernels.hpp>
#include <lod/ops/kernel.hpp>
#include <lod/ops/operations.hpp>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {
namespace kernel {

/// From the name of a kernel to the kernel for an executor.
template <class Executor, class Name>
struct KernelOf;
#define LOD_KERNEL_OF(kernel_name)                              \
  template <class Executor>                                     \
  struct KernelOf<Executor, compiled::name::kernel_name> {      \
    using type = kernel::kernel_name<Executor>;                 \
    template <class... A>                                       \
    static auto call(const Executor& executor, const A&... a) { \
      return type::run(executor, a...);                         \
    }                                                           \
  };
LOD_SHARED_KERNELS(LOD_KERNEL_OF)
LOD_CUDA_ONLY_KERNELS(LOD_KERNEL_OF)
LOD_FILTERS(LOD_KERNEL_OF)
#undef LOD_KERNEL_OF
/// The first step of a filter.
template <class Executor, class Filter>
struct KernelOf<Executor, compiled::name::Count<Filter>> {
  using type = typename KernelOf<Executor, Filter>::type;
  template <class... A>
  static auto call(const Executor& executor, const A&... a) {
    return type::count(executor, a...);
  }
};

/// The inverse of `Passed`.
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

/// Runs a kernel with the arguments as they were passed.
template <class Name, class Executor, class... Passed>
typename compiled::ResultOf<Name>::type receive(const Executor& executor, const Passed&... passed) {
  return KernelOf<Executor, Name>::call(executor, Received<Passed>::receive(passed)...);
}

/// The function that users call for a kernel with these arguments.
template <class Library, class Name, class R, class... A>
constexpr bool is_there(R (*)(const typename Library::executor&, A...)) {
  return Library::template instantiate<Name, typename Passed<std::decay_t<A>>::type...>();
}
/// The same for a kernel whose template arguments, after the executor, are these.
template <class Library, class Name, class... Arguments>
constexpr bool is_there() {
  return is_there<Library, Name>(Library::template function<Name, Arguments...>());
}

/// Optimizers whose states are of type S.
template <class Library, class Rule, std::size_t states, class T, class S>
constexpr void instantiate_rule() {
  namespace name = compiled::name;
  static_assert(is_there<Library, name::Update>(Library::template rule<name::Update, Rule, T, S, states>()));
  static_assert(is_there<Library, name::UpdateRows>(Library::template rule<name::UpdateRows, Rule, T, S, states>()));
}
template <class Library, class T, class S>
constexpr void instantiate_rules() {
  instantiate_rule<Library, operation::MomentumRule, 1, T, S>();
  instantiate_rule<Library, operation::AdagradRule, 1, T, S>();
  instantiate_rule<Library, operation::RmspropRule, 2, T, S>();
  instantiate_rule<Library, operation::CenteredRmspropRule, 3, T, S>();
  instantiate_rule<Library, operation::AdamRule, 2, T, S>();
  instantiate_rule<Library, operation::FtrlRule, 2, T, S>();
}

/// The kernels of `scatter` and of its gradient.
template <class Library, ScatterOp op, class T>
constexpr void instantiate_scatter() {
  namespace name = compiled::name;
  using F = operation::Scattered<op>;
  static_assert(is_there<Library, name::ScatterRows, F, T>());
  if constexpr (op == ScatterOp::ADD || op == ScatterOp::SUB)
    static_assert(is_there<Library, name::ScatterSums, F, T>());
  if constexpr (elements::Floating::includes<T>) static_assert(is_there<Library, name::ScatterRowsGrad, F, T>());
}

/// Kernels whose only elements are ids of a fixed type.
template <class Library>
constexpr bool instantiate_ids() {
  namespace name = compiled::name;
  static_assert(is_there<Library, name::CountKept>());
  static_assert(is_there<Library, name::GroupRows>());
  static_assert(is_there<Library, name::KeepIds>());
  if constexpr (Library::on_gpu) {
    static_assert(is_there<Library, name::CheckIds>());
    static_assert(is_there<Library, name::GroupListed>());
    static_assert(is_there<Library, name::GroupOfRows>());
    static_assert(is_there<Library, name::ListLookUps>());
    static_assert(is_there<Library, name::RenumberRows>());
    static_assert(is_there<Library, name::ShiftRows>());
  }
  static_assert(is_there<Library, name::SequenceMask, bool>());
  return true;
}

/// Kernels for any number.
template <class Library, class T>
constexpr void instantiate_numbers() {
  namespace name = compiled::name;
  static_assert(is_there<Library, name::Combine, operation::Add, T>());
  static_assert(is_there<Library, name::Combine, operation::Divide, T>());
  static_assert(is_there<Library, name::Combine, operation::Multiply, T>());
  static_assert(is_there<Library, name::Combine, operation::Subtract, T>());
  static_assert(is_there<Library, name::CombineRows, operation::Add, T>());
  static_assert(is_there<Library, name::CombineRows, operation::Divide, T>());
  static_assert(is_there<Library, name::CombineRows, operation::Multiply, T>());
  static_assert(is_there<Library, name::CombineRows, operation::Subtract, T>());
  static_assert(is_there<Library, name::CopyValues, T>());
  static_assert(is_there<Library, name::DividePooled, T>());
  static_assert(is_there<Library, name::EmbeddingMaxPool, T>());
  static_assert(is_there<Library, name::EmbeddingPool, T>());
  static_assert(is_there<Library, name::GatherRows, T>());
  static_assert(is_there<Library, name::Im2Sequence, T>());
  static_assert(is_there<Library, name::Im2SequenceGrad, T>());
  if constexpr (Library::on_gpu) {
    static_assert(is_there<Library, name::FindTwins, T>());
    static_assert(is_there<Library, name::ListRows, T>());
    static_assert(is_there<Library, name::NumberSequences, T>());
  }
  static_assert(is_there<Library, name::LookUpWeightsGrad, T>());
  static_assert(is_there<Library, name::Map, operation::Clipped, T>());
  static_assert(is_there<Library, name::Map, operation::Scaled, T>());
  static_assert(is_there<Library, name::RunCopy, T>());
  static_assert(is_there<Library, name::SequenceCumsum, T, T>());
  if constexpr (kernel::has_wide_sums<T, Accumulator<T>>) {
    static_assert(is_there<Library, name::SequenceCumsum, T, Accumulator<T>>());
  }
  static_assert(is_there<Library, name::SequenceEnumerate, T>());
  static_assert(is_there<Library, name::SequenceExpandGrad, T>());
  static_assert(is_there<Library, name::SequenceMask, T>());
  static_assert(is_there<Library, name::SequenceMaxPool, T>());
  static_assert(is_there<Library, name::SequenceMaxPoolGrad, T>());
  static_assert(is_there<Library, name::SequencePad, T>());
  static_assert(is_there<Library, name::SequencePool, T>());
  static_assert(is_there<Library, name::SequencePoolGrad, T>());
  static_assert(is_there<Library, name::SequenceReverse, T>());
  static_assert(is_there<Library, name::SequenceScatter, T>());
  static_assert(is_there<Library, name::SequenceScatterUpdatesGrad, T>());
  static_assert(is_there<Library, name::SequenceSliceGrad, T>());
  static_assert(is_there<Library, name::SequenceSort, T>());
  static_assert(is_there<Library, name::SequenceSortGrad, T>());
  if constexpr (kernel::has_wide_sums<T, Accumulator<T>>) static_assert(is_there<Library, name::SequenceSums, T>());
  static_assert(is_there<Library, name::SequenceTopK, T>());
  static_assert(is_there<Library, name::SequenceUnpad, T>());
  static_assert(is_there<Library, name::SetZero, T>());
  static_assert(is_there<Library, name::SumGroups, T>());
  static_assert(is_there<Library, name::SumLookUpGrads, T>());
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
  namespace name = compiled::name;
  static_assert(is_there<Library, name::Combine, operation::ClippedGrad, T>());
  static_assert(is_there<Library, name::Combine, operation::Negate, T>());
  static_assert(is_there<Library, name::Combine, operation::NegatedQuotient, T>());
  static_assert(is_there<Library, name::CombineRows, operation::NegatedQuotient, T>());
  static_assert(is_there<Library, name::GruStep, T>());
  static_assert(is_there<Library, name::GruStepGrad, T>());
  static_assert(is_there<Library, name::LstmStep, T>());
  static_assert(is_there<Library, name::LstmStepGrad, T>());
  static_assert(is_there<Library, name::MatrixProduct, T>());
  static_assert(is_there<Library, name::RowConv, T>());
  static_assert(is_there<Library, name::RowConvFilterGrad, T>());
  static_assert(is_there<Library, name::RowConvInputGrad, T>());
  static_assert(is_there<Library, name::ScaleSequences, T>());
  static_assert(is_there<Library, name::SequenceConv, T>());
  static_assert(is_there<Library, name::SequenceConvFilterGrad, T>());
  static_assert(is_there<Library, name::SequenceConvInputGrad, T>());
  static_assert(is_there<Library, name::SequenceConvPaddingGrad, T>());
  static_assert(is_there<Library, name::SequenceLogsumexp, T>());
  static_assert(is_there<Library, name::SequenceSoftmax, T>());
  static_assert(is_there<Library, name::SequenceSoftmaxGrad, T>());
  static_assert(is_there<Library, name::SequenceTopKAvgPooling, T>());
  static_assert(is_there<Library, name::SequenceTopKAvgPoolingGrad, T>());
  static_assert(is_there<Library, name::Shorten, T>());
  static_assert(is_there<Library, name::ShortenGrad, T>());
  static_assert(is_there<Library, name::TransposeMatrix, T>());
  instantiate_rule<Library, operation::SgdRule, 0, T, T>();
  instantiate_rules<Library, T, T>();
  if constexpr (detail::Half<T>) instantiate_rules<Library, T, float>();
}

/// Kernels for ids of type T.
template <class Library, class T>
constexpr void instantiate_of_ids() {
  namespace name = compiled::name;
  static_assert(is_there<Library, name::EditDistance, T>());
  static_assert(is_there<Library, name::CtcAlign, T>());
  static_assert(is_there<Library, name::Count<name::CtcAlign>>(Library::template count<name::CtcAlign, T>()));
  static_assert(is_there<Library, name::SequenceErase, T>());
  static_assert(is_there<Library, name::Count<name::SequenceErase>>(Library::template count<name::SequenceErase, T>()));
}

/// All kernels for elements of type T.
template <class Library, class T>
constexpr bool instantiate() {
  if constexpr (elements::Number::includes<T>) instantiate_numbers<Library, T>();
  if constexpr (elements::Floating::includes<T>) instantiate_floating<Library, T>();
  if constexpr (elements::Id::includes<T>) instantiate_of_ids<Library, T>();
  return true;
}

}  // namespace kernel
}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET
