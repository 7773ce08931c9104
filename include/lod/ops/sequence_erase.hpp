// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup restructuring
/// Erasing: removing ids from their sequences.
#pragma once

#include <lod/core/error.hpp>
#include <lod/ops/argument_list.hpp>
#include <lod/ops/declaration.hpp>
#include <lod/ops/infer.hpp>
#include <lod/ops/run_copy.hpp>
#include <lod/ops/staging.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>

namespace lod::inline LOD_INTERFACE::op {
struct sequence_erase : elements::Id, elements::OnCpu {
  static constexpr Text text{"x, tokens", "x without the rows that equal one of the tokens."};
};
struct sequence_erase_and_wait : elements::Id {
  static constexpr Text text{"x, tokens", "The same as `sequence_erase`; on a GPU it waits."};
};
}  // namespace lod::inline LOD_INTERFACE::op

namespace lod::inline LOD_INTERFACE::kernel {
/// The first step of a filter, which determines the number of rows of its result. run(executor, x, sequences, tokens,
/// scratch, kept): sets kept[i] to the number of rows before sequence i that equal none of `tokens`, which ascend, for
/// i in [0, sequences.size]; writes to `scratch` what the second step needs.
struct SequenceErase {};
/// The second step of all filters. run(executor, x, sequences, scratch, y): copies the rows that are kept.
struct CopyKept {};
/// The size of `scratch` for a number of rows.
struct FilterScratch {
  static constexpr bool in_headers_only = true;  ///< runs on the CPU, whatever the device
};
}  // namespace lod::inline LOD_INTERFACE::kernel

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET {
template <class E>
std::int64_t launch(FilterScratch, const E&, std::int64_t rows) noexcept {
  return rows + 1;
}
}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {

namespace operation {

/// The numbers of a list that fit a T, in ascending order.
template <class T>
class SortedTokens {
 public:
  SortedTokens(Workspace& workspace, const IntegerList& tokens) : tokens_(workspace, tokens.size()) {
    for (std::int64_t i = 0; i < tokens.size(); ++i) {
      if (const Scalar token = tokens[i]; token.fits<T>()) tokens_[size_++] = token.to<T>();
    }
    std::sort(tokens_.data(), tokens_.data() + size_);
  }
  std::span<const T> span() const noexcept { return {tokens_.data(), static_cast<std::size_t>(size_)}; }

 private:
  Workspace::Loan<T> tokens_;
  std::int64_t size_ = 0;
};

/// The rows of x that a rule keeps: the lengths of the last level shrink, the levels above stay. `Kernel` is the first
/// step of kernel::SequenceErase, with the rule in place of the tokens.
template <class Op, class Kernel, Executor E, class View, class Rule, class Y>
void filter_rows_into(const E& executor, const View& x, const Rule& rule, const char* what, Y&& y,
                      std::initializer_list<OtherMemory> others) {
  using T = value_type_t<View>;
  detail::check_elements<Op, T>();
  detail::check_waits_for_nothing<Op, typename E::device>();
  check_has_level(x, what);
  if (x.row_size() != 1) {
    throw ShapeMismatch(detail::text({what, ": rows of shape ", to_string(x.row_shape()), ", expected one id a row"}));
  }
  const LoDView lod = x.lod_view();
  const int last = lod.levels() - 1;
  NewLevels levels(executor.workspace(), lod, last, 1, lod.size(last));
  const kernel::Segments sequences = segments(executor, x, last);
  const kernel::Scratch<E, std::int64_t> scratch(executor, launch(kernel::FilterScratch(), executor, x.rows()));
  const std::span<std::int64_t> kept = levels.add(lod.size(last));
  if constexpr (on_cpu<E>) {
    launch(Kernel(), executor, x.data(), sequences, rule, scratch.data(), kept.data());
  } else {
    const kernel::Scratch<E, std::int64_t> counted(executor, lod.size(last) + 1);
    launch(Kernel(), executor, x.data(), sequences, rule, scratch.data(), counted.data());
    executor.resource()->download(kept.data(), counted.data(), kept.size_bytes());
    executor.rethrow_faults();
  }
  const auto out = prepare<T>(executor, what, y, levels, x.row_shape(), others);
  launch(kernel::CopyKept(), executor, x.data(), sequences, static_cast<const std::int64_t*>(scratch.data()),
         out.data());
}

template <class Op>
struct Erasure : Takes<Tensor, IntegerList>, Launches<kernel::SequenceErase, kernel::CopyKept> {
  template <Executor E, class T>
  static void run(const E& executor, const Input<E, T>& x, const IntegerList& tokens, const To<E, T>& y) {
    const SortedTokens<T> sorted(executor.workspace(), tokens);
    const OnDevice<E, T> listed(executor, sorted.span());
    filter_rows_into<Op, kernel::SequenceErase>(executor, x, std::span<const T>(listed.data(), sorted.span().size()),
                                                Declared<Op>::name, y, {{"x", x}});
  }
};
template <>
struct Declared<op::sequence_erase> : Erasure<op::sequence_erase> {
  static constexpr const char* name = "sequence_erase";
};
template <>
struct Declared<op::sequence_erase_and_wait> : Erasure<op::sequence_erase_and_wait> {
  static constexpr const char* name = "sequence_erase_and_wait";
};

}  // namespace operation

/// x without the rows that equal one of `tokens`. Row shape as x; the lengths of the last level shrink, perhaps to 0,
/// and the levels above stay. Semantics: PaddlePaddle's sequence_erase.
///
/// Rows are of size 1. The tokens are integers of any type, in any order, with or without repetitions: a range, a list
/// in braces or a tensor. One pass to count and one to copy. `y` must not overlap x. Throws InvalidLoD if x has no
/// level, ShapeMismatch for any other row size.
inline constexpr operation::Call<op::sequence_erase> sequence_erase{};
inline constexpr operation::CallInto<op::sequence_erase> sequence_erase_into{};

/// `sequence_erase` for any device, for code that is generic over executors; on the CPU it is the same. Since the size
/// of the result depends on the values, on a GPU this waits for all work that is enqueued, so no graph can be captured
/// from it, and throws as `CudaExecutor::synchronize` does. The tokens are in CPU memory.
inline constexpr operation::Call<op::sequence_erase_and_wait> sequence_erase_and_wait{};
inline constexpr operation::CallInto<op::sequence_erase_and_wait> sequence_erase_and_wait_into{};

namespace operation {

/// The description of a batch of ids after some have been removed.
template <class Op>
LoDTensorDesc infer_filtered(const LoDTensorDesc& x, const char* what) {
  infer::Batch y = infer::batch_for<Op>(x, what);
  y.check_has_level(what);
  y.check_scalar_rows(what, "one id a row");
  y.rows = infer::unknown;
  return y;
}

}  // namespace operation

/// The results of `sequence_erase` and `sequence_erase_and_wait`, described: see <lod/infer.hpp>.
inline LoDTensorDesc infer_sequence_erase(const LoDTensorDesc& x) {
  return operation::infer_filtered<op::sequence_erase>(x, "sequence_erase");
}
inline LoDTensorDesc infer_sequence_erase_and_wait(const LoDTensorDesc& x) {
  return operation::infer_filtered<op::sequence_erase_and_wait>(x, "sequence_erase_and_wait");
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET
