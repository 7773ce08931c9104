// SPDX-License-Identifier: Apache-2.0
/// @file
/// The names of the members of what operations take and give as aggregates: their options, weights and results.
#pragma once

#include <lod/lod.hpp>

#include <cstddef>
#include <string_view>
#include <type_traits>

namespace lod_python {

/// What C++ does not tell of an aggregate.
struct Aggregate {
  const char* name = nullptr;     ///< of its named tuple in Python; options have none
  const char* members = nullptr;  ///< in their order: "values, index"
};

/// That of X. Where members are added to X, decompose() does not compile before they are named here.
template <class X>
inline constexpr Aggregate aggregate{};

template <>
inline constexpr Aggregate aggregate<lod::AdagradOptions>{"", "learning_rate, epsilon, mode"};
template <>
inline constexpr Aggregate aggregate<lod::AdamOptions>{"", "learning_rate, beta1, beta2, epsilon, step, mode"};
template <>
inline constexpr Aggregate aggregate<lod::ChunkEvalOptions>{"", "scheme, types, excluded"};
template <class T>
inline constexpr Aggregate aggregate<lod::ConvOptions<T, lod::Cpu>>{"",
                                                                    "context_length, context_start, padding, level"};
template <>
inline constexpr Aggregate aggregate<lod::CrossEntropyOptions>{"", "ignore_index, label_smoothing, reduction"};
template <>
inline constexpr Aggregate aggregate<lod::CtcAlignOptions>{"", "blank, merge_repeated"};
template <>
inline constexpr Aggregate aggregate<lod::CtcLossOptions>{"", "blank, zero_infinity"};
template <>
inline constexpr Aggregate aggregate<lod::CumsumOptions>{"", "exclusive, reverse, level"};
template <>
inline constexpr Aggregate aggregate<lod::DropoutOptions>{"", "probability, seed, whole_sequences"};
template <>
inline constexpr Aggregate aggregate<lod::EditDistanceOptions>{"", "normalized, level"};
template <>
inline constexpr Aggregate aggregate<lod::ElementwiseOptions>{"", "level"};
template <>
inline constexpr Aggregate aggregate<lod::EmbeddingOptions>{"", "padding_idx, skip_minus_one"};
template <class T>
inline constexpr Aggregate aggregate<lod::EmbeddingPoolOptions<T, lod::Cpu>>{
    "", "weights, padding_idx, skip_minus_one, pad_value, level, row_index"};
template <>
inline constexpr Aggregate aggregate<lod::EnumerateOptions>{"", "pad_value, level"};
template <>
inline constexpr Aggregate aggregate<lod::ExpandOptions>{"", "ref_level"};
template <>
inline constexpr Aggregate aggregate<lod::FlattenOptions>{"", "level"};
template <>
inline constexpr Aggregate aggregate<lod::FtrlOptions>{"", "learning_rate, l1, l2, learning_rate_power, mode"};
template <>
inline constexpr Aggregate aggregate<lod::GruCellOptions>{"", "reset_after, origin_mode"};
template <class T>
inline constexpr Aggregate aggregate<lod::GruGradOptions<T, lod::Cpu>>{"", "dlast_hidden"};
template <class T>
inline constexpr Aggregate aggregate<lod::GruOptions<T, lod::Cpu>>{
    "", "initial_hidden, reverse, level, reset_after, origin_mode"};
template <>
inline constexpr Aggregate aggregate<lod::Im2SequenceOptions>{"",
                                                              "kernels, strides, paddings, real_sizes, out_strides"};
template <class T>
inline constexpr Aggregate aggregate<lod::LinearOptions<T, lod::Cpu>>{"", "bias"};
template <>
inline constexpr Aggregate aggregate<lod::LogsumexpOptions>{"", "level"};
template <class T>
inline constexpr Aggregate aggregate<lod::LstmGradOptions<T, lod::Cpu>>{"", "dlast_hidden, dlast_cell"};
template <class T>
inline constexpr Aggregate aggregate<lod::LstmOptions<T, lod::Cpu>>{"", "initial_hidden, initial_cell, reverse, level"};
template <>
inline constexpr Aggregate aggregate<lod::MaskOptions>{"", "max_length"};
template <>
inline constexpr Aggregate aggregate<lod::MeanVarOptions>{"", "level, unbiased"};
template <>
inline constexpr Aggregate aggregate<lod::MergeBranchOptions>{"", "level, lod"};
template <>
inline constexpr Aggregate aggregate<lod::MomentumOptions>{"", "learning_rate, momentum, nesterov, l2_decay, mode"};
template <>
inline constexpr Aggregate aggregate<lod::PadOptions>{"", "pad_value, padded_length, side, truncate, level"};
template <>
inline constexpr Aggregate aggregate<lod::PoolOptions>{"", "pad_value, level, row_index"};
template <>
inline constexpr Aggregate aggregate<lod::RemoveEmptyOptions>{"", "level"};
template <>
inline constexpr Aggregate aggregate<lod::ReverseOptions>{"", "level"};
template <>
inline constexpr Aggregate aggregate<lod::RmspropOptions>{"", "learning_rate, rho, epsilon, momentum, mode"};
template <>
inline constexpr Aggregate aggregate<lod::RowConvOptions>{"", "level"};
template <>
inline constexpr Aggregate aggregate<lod::SequenceScatterOptions>{"", "level"};
template <>
inline constexpr Aggregate aggregate<lod::SgdOptions>{"", "learning_rate, mode"};
template <>
inline constexpr Aggregate aggregate<lod::SoftmaxOptions>{"", "level"};
template <>
inline constexpr Aggregate aggregate<lod::SortOptions>{"", "descending, level, row_index"};
template <>
inline constexpr Aggregate aggregate<lod::SplitBranchOptions>{"", "level"};
template <>
inline constexpr Aggregate aggregate<lod::TopKOptions>{"", "level, row_index"};
template <>
inline constexpr Aggregate aggregate<lod::UnpadOptions>{"", "side"};

template <class T>
inline constexpr Aggregate aggregate<lod::LstmWeights<T, lod::Cpu>>{"LstmWeights", "input, recurrent, bias, peepholes"};
template <class T>
inline constexpr Aggregate aggregate<lod::GruWeights<T, lod::Cpu>>{"GruWeights",
                                                                   "input, recurrent, bias, recurrent_bias"};

template <class T>
inline constexpr Aggregate aggregate<lod::Branches<T, lod::Cpu>>{"Branches", "in_true, in_false"};
template <class T>
inline constexpr Aggregate aggregate<lod::ChunkEval<T, lod::Cpu>>{"ChunkEval", "rates, counts"};
template <class T>
inline constexpr Aggregate aggregate<lod::ConvGrad<T, lod::Cpu>>{"ConvGrad", "dx, dfilter, dpadding"};
template <class O, class S>
inline constexpr Aggregate aggregate<lod::DynamicRnn<O, S, lod::Cpu>>{"DynamicRnn", "output, state"};
template <class T, class S>
inline constexpr Aggregate aggregate<lod::DynamicRnnGrad<T, S, lod::Cpu>>{"DynamicRnnGrad", "x, initial_state"};
template <class T>
inline constexpr Aggregate aggregate<lod::ElementwiseGrad<T, lod::Cpu>>{"ElementwiseGrad", "x, y"};
template <class T>
inline constexpr Aggregate aggregate<lod::Gru<T, lod::Cpu>>{"Gru", "hidden, last_hidden, trace"};
template <class T>
inline constexpr Aggregate aggregate<lod::GruCell<T, lod::Cpu>>{"GruCell", "hidden, gates, memory"};
template <class T>
inline constexpr Aggregate aggregate<lod::GruCellGrad<T, lod::Cpu>>{"GruCellGrad", "x, weights, hidden"};
template <class T>
inline constexpr Aggregate aggregate<lod::GruGrad<T, lod::Cpu>>{"GruGrad", "x, weights, initial_hidden"};
template <class T>
inline constexpr Aggregate aggregate<lod::GruTrace<T, lod::Cpu>>{
    "GruTrace", "table, level, reverse, reset_after, origin_mode, gates, memory, hidden, initial_hidden"};
template <class T>
inline constexpr Aggregate aggregate<lod::LinearChainCrfGrad<T, lod::Cpu>>{"LinearChainCrfGrad",
                                                                           "demission, dtransition"};
template <class T>
inline constexpr Aggregate aggregate<lod::LinearGrad<T, lod::Cpu>>{"LinearGrad", "dx, dweight, dbias"};
template <class T>
inline constexpr Aggregate aggregate<lod::Lstm<T, lod::Cpu>>{"Lstm", "hidden, last_hidden, last_cell, trace"};
template <class T>
inline constexpr Aggregate aggregate<lod::LstmCell<T, lod::Cpu>>{"LstmCell", "hidden, cell, gates"};
template <class T>
inline constexpr Aggregate aggregate<lod::LstmCellGrad<T, lod::Cpu>>{"LstmCellGrad", "x, weights, hidden, cell"};
template <class T>
inline constexpr Aggregate aggregate<lod::LstmGrad<T, lod::Cpu>>{"LstmGrad",
                                                                 "x, weights, initial_hidden, initial_cell"};
template <class T>
inline constexpr Aggregate aggregate<lod::LstmTrace<T, lod::Cpu>>{
    "LstmTrace", "table, level, reverse, gates, cell, hidden, initial_hidden, initial_cell"};
template <class T>
inline constexpr Aggregate aggregate<lod::MaxPool<T, lod::Cpu>>{"MaxPool", "values, index"};
template <class T>
inline constexpr Aggregate aggregate<lod::MeanVar<T, lod::Cpu>>{"MeanVar", "mean, variance"};
template <class T>
inline constexpr Aggregate aggregate<lod::Padded<T, lod::Cpu>>{"Padded", "dense, lengths"};
template <class T>
inline constexpr Aggregate aggregate<lod::RowConvGrad<T, lod::Cpu>>{"RowConvGrad", "dx, dfilter"};
template <class T>
inline constexpr Aggregate aggregate<lod::ScatterGrad<T, lod::Cpu>>{"ScatterGrad", "dense, g"};
template <class T>
inline constexpr Aggregate aggregate<lod::SequenceScatterGrad<T, lod::Cpu>>{"SequenceScatterGrad", "dx, dupdates"};
template <class T>
inline constexpr Aggregate aggregate<lod::TopK<T, lod::Cpu>>{"TopK", "values, index"};
template <class T>
inline constexpr Aggregate aggregate<lod::UniqueSequences<T, lod::Cpu>>{"UniqueSequences", "values, index, counts"};

template <class X>
inline constexpr bool is_aggregate_of_operations = aggregate<X>.members != nullptr;

/// f(members...), by reference.
template <class X, class F>
decltype(auto) decompose(X& of, const F& f) {
  constexpr std::string_view names = aggregate<std::remove_const_t<X>>.members;
  constexpr std::size_t count = [names] {
    std::size_t commas = 0;
    for (const char c : names) commas += c == ',';
    return commas + 1;
  }();
  if constexpr (count == 1) {
    auto& [a] = of;
    return f(a);
  } else if constexpr (count == 2) {
    auto& [a, b] = of;
    return f(a, b);
  } else if constexpr (count == 3) {
    auto& [a, b, c] = of;
    return f(a, b, c);
  } else if constexpr (count == 4) {
    auto& [a, b, c, d] = of;
    return f(a, b, c, d);
  } else if constexpr (count == 5) {
    auto& [a, b, c, d, e] = of;
    return f(a, b, c, d, e);
  } else if constexpr (count == 6) {
    auto& [a, b, c, d, e, g] = of;
    return f(a, b, c, d, e, g);
  } else if constexpr (count == 8) {
    auto& [a, b, c, d, e, g, h, i] = of;
    return f(a, b, c, d, e, g, h, i);
  } else {
    static_assert(count == 9);
    auto& [a, b, c, d, e, g, h, i, j] = of;
    return f(a, b, c, d, e, g, h, i, j);
  }
}

}  // namespace lod_python
