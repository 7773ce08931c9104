// SPDX-License-Identifier: Apache-2.0
/// @file
/// Erasing: ids that are taken out of their sequences.
#pragma once

#include <lod/error.hpp>
#include <lod/kernel.hpp>
#include <lod/ops/run_copy.hpp>
#include <lod/output.hpp>
#include <lod/target.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

namespace lod::inline LOD_TARGET {

namespace kernel {
/// Two steps, as the result has as many rows as are left. `tokens` ascend. The first step leaves in `scratch`, which is
/// for scratch(rows) numbers, what the second one needs.
///
/// count(executor, x, sequences, tokens, scratch, kept): kept[i] becomes the number of rows before sequence i that are
/// left, for i in [0, sequences.size].
/// run(executor, x, rows, tokens, scratch, y): the rows that are left.
template <class Executor>
struct SequenceErase : Missing<Executor> {};
}  // namespace kernel

namespace operation {

/// The numbers of a tensor, a vector or a span that are a T, in ascending order.
template <class T>
class SortedTokens {
 public:
  template <class Tokens>
  SortedTokens(Workspace& workspace, const Tokens& tokens) : SortedTokens(workspace, list(tokens)) {}
  template <std::integral Number, std::size_t extent>
  SortedTokens(Workspace& workspace, std::span<const Number, extent> tokens)
      : tokens_(workspace, static_cast<std::int64_t>(tokens.size())) {
    for (const Number token : tokens) {
      if (const T same = static_cast<T>(token); is_same(same, token)) tokens_[size_++] = same;
    }
    std::sort(tokens_.data(), tokens_.data() + size_);
  }
  std::span<const T> span() const noexcept { return {tokens_.data(), static_cast<std::size_t>(size_)}; }

 private:
  template <class Tokens>
  static auto list(const Tokens& tokens) {
    if constexpr (LoDTensorLike<Tokens>) {
      return tokens.view().values();
    } else {
      return std::span(std::as_const(tokens));
    }
  }
  template <class Number>
  static constexpr bool is_same(T converted, Number token) noexcept {
    return static_cast<Number>(converted) == token && (converted < T{}) == (token < Number{});
  }

  Workspace::Loan<T> tokens_;
  std::int64_t size_ = 0;
};

}  // namespace operation

/// x without the rows that are one of `tokens`. Row shape as x; the lengths of the last level become smaller, perhaps
/// 0, and the levels above stay. Semantics: PaddlePaddle's sequence_erase.
///
/// Rows are of size 1. The tokens are a tensor or view of integers, a vector or a span, in any order, and may repeat.
/// One pass that counts and one that copies. `y` must not overlap x. Throws InvalidLoD where x has no level,
/// ShapeMismatch for another row size.
template <Executor E, LoDTensorLike X, class Tokens, class Y>
void sequence_erase_into(const E& executor, const X& x, const Tokens& tokens, Y&& y) {
  using T = value_type_t<X>;
  static_assert(std::integral<T>, "sequence_erase: rows are ids: integers or bool");
  const auto view = x.view();
  operation::check_has_level(view, "sequence_erase");
  if (view.row_size() != 1) {
    throw ShapeMismatch(
        detail::text({"sequence_erase: rows of shape ", to_string(view.row_shape()), ", expected one id a row"}));
  }
  const operation::SortedTokens<T> sorted(executor.workspace(), tokens);
  const LoDView lod = view.lod_view();
  const int last = lod.levels() - 1;
  std::int64_t sequences = 0;
  for (int level = 0; level <= last; ++level) sequences += lod.size(level);
  operation::NewLevels levels(executor.workspace(), lod.levels(), sequences);
  for (int level = 0; level < last; ++level) operation::add_level(levels, lod.offsets(level));
  using Kernel = kernel::SequenceErase<E>;
  const Workspace::Loan<std::int64_t> scratch(executor.workspace(), Kernel::scratch(view.rows()));
  Kernel::count(executor, view.data(), operation::segments(view, last), sorted.span(), scratch.data(),
                levels.add(lod.size(last)).data());
  const auto out = operation::prepare(y, levels, view.row_shape());
  Kernel::run(executor, view.data(), view.rows(), sorted.span(), scratch.data(), out.data());
}
template <Executor E, LoDTensorLike X, class Tokens>
LoDTensor<value_type_t<X>, device_t<X>> sequence_erase(const E& executor, const X& x, const Tokens& tokens) {
  LoDTensor<value_type_t<X>, device_t<X>> y(executor.resource());
  sequence_erase_into(executor, x, tokens, y);
  return y;
}
template <LoDTensorLike X, class Tokens>
auto sequence_erase(const X& x, const Tokens& tokens) {
  return sequence_erase(default_executor<device_t<X>>(), x, tokens);
}

}  // namespace lod::inline LOD_TARGET
