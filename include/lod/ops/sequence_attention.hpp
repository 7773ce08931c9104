// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup row_preserving
/// Attention: each row of a sequence is a mean of the rows of another, weighted by how well they match.
#pragma once

#include <lod/core/error.hpp>
#include <lod/core/scalar.hpp>
#include <lod/core/shape.hpp>
#include <lod/core/target.hpp>
#include <lod/ops/argument_list.hpp>
#include <lod/ops/declaration.hpp>
#include <lod/ops/infer.hpp>
#include <lod/ops/kernel.hpp>
#include <lod/ops/output.hpp>
#include <lod/ops/staging.hpp>
#include <lod/ops/supports.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <string>

namespace lod::inline LOD_INTERFACE::op {
struct sequence_attention : elements::Floating {
  static constexpr Text text{"q, k, v",
                             "For each row of q the mean of its sequence's rows of v, weighted by the softmax of q k."};
};
struct sequence_attention_grad : elements::Floating {
  static constexpr Text text{"dy, q, k, v, y, logsumexp",
                             "The gradients of `sequence_attention` with respect to q, k and v, with its options."};
};
}  // namespace lod::inline LOD_INTERFACE::op

namespace lod::inline LOD_INTERFACE {

/// The options of `sequence_attention`.
template <class T, class Device = Cpu>
struct AttentionOptions {
  std::int64_t heads = 1;     ///< into which the rows of q are divided
  std::int64_t kv_heads = 0;  ///< into which those of k and v are divided, a divisor of `heads`; 0: as many
  bool causal = false;        ///< whether a row sees only rows up to its own place; the ends of both are aligned
  /// How many rows before its place a row sees, and how many after it; -1: all.
  std::array<std::int64_t, 2> window = {-1, -1};
  double scale = 0;    ///< of the products q k; 0: 1 / sqrt(numbers a head of q)
  double softcap = 0;  ///< c: a scaled product s becomes c tanh(s / c); 0: it stays
  /// A slope for each head of q, which times the distance between places is subtracted (ALiBi); the levels are ignored.
  OptionalTensor<T, Device> alibi = nullptr;
};

/// The result of `sequence_attention`.
template <class T, class Device>
struct Attention {
  LoDTensor<T, Device> y;
  /// The logarithm of the sum of exponentials that the weights were divided by, for each row and head of q.
  LoDTensor<kernel::Accumulator<T>, Device> logsumexp;
};
/// The result of `sequence_attention_grad`.
template <class T, class Device>
struct AttentionGrad {
  LoDTensor<T, Device> dq;
  LoDTensor<T, Device> dk;
  LoDTensor<T, Device> dv;
};

/// The options of `infer_sequence_attention`: those that its result depends on.
struct AttentionDescOptions {
  std::int64_t heads = 1;
  std::int64_t kv_heads = 0;
};

}  // namespace lod::inline LOD_INTERFACE

namespace lod::inline LOD_INTERFACE::kernel {

/// Places [begin, end) of a sequence.
struct AttentionRange {
  std::int64_t begin, end;
};
/// How rows are divided into heads, and which rows see which. A row's place is counted so that the last rows of a
/// sequence of q and of k have the same.
struct AttentionHeads {
  std::int64_t heads, kv_heads;
  std::int64_t size;        ///< numbers a head of q and of k
  std::int64_t value_size;  ///< numbers a head of v and of y
  std::int64_t before, after;
  double scale, softcap;

  /// The head of k and v that a head of q meets.
  LOD_TAGGED LOD_HOST_DEVICE std::int64_t kv_head(std::int64_t head) const noexcept {
    return head / (heads / kv_heads);
  }
  /// Whether there are rows that some do not see.
  LOD_TAGGED LOD_HOST_DEVICE bool hides() const noexcept { return before >= 0 || after >= 0; }
  /// The rows of k that row i of a sequence of q sees.
  LOD_TAGGED LOD_HOST_DEVICE AttentionRange keys_of(std::int64_t i, std::int64_t queries,
                                                    std::int64_t keys) const noexcept {
    return cut(i + keys - queries, before, after, keys);
  }
  /// The rows of q that see row j of a sequence of k.
  LOD_TAGGED LOD_HOST_DEVICE AttentionRange queries_of(std::int64_t j, std::int64_t queries,
                                                       std::int64_t keys) const noexcept {
    return cut(j + queries - keys, after, before, queries);
  }

 private:
  LOD_TAGGED LOD_HOST_DEVICE static AttentionRange cut(std::int64_t place, std::int64_t before, std::int64_t after,
                                                       std::int64_t rows) noexcept {
    std::int64_t begin = before < 0 ? 0 : place - before, end = after < 0 ? rows : place + after + 1;
    begin = begin < 0 ? 0 : begin > rows ? rows : begin;
    end = end > rows ? rows : end < begin ? begin : end;
    return {begin, end};
  }
};
/// The arguments: rows of q are heads * size numbers, those of k kv_heads * size, those of v kv_heads * value_size.
template <class T>
struct AttentionRows {
  const T* q;
  const T* k;
  const T* v;
  const T* alibi;  ///< null: no slopes
  Segments queries, keys;
};
/// What the gradient is given besides: rows of y and dy are heads * value_size numbers, those of logsumexp `heads`.
template <class T>
struct AttentionResults {
  const T* dy;
  const T* y;
  const Accumulator<T>* logsumexp;
};
/// run(executor, heads, rows, y, logsumexp)
struct SequenceAttention {};
/// run(executor, heads, rows, results, dq, dk, dv)
struct SequenceAttentionGrad {};

}  // namespace lod::inline LOD_INTERFACE::kernel

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {

namespace operation {

/// Checks the arguments of attention, and says how rows are divided. `Numbers` are sizes, which may be unknown where
/// results are described.
inline void check_attention_heads(std::int64_t heads, std::int64_t kv_heads, const char* name) {
  if (heads < 1 || kv_heads < 1 || heads % kv_heads != 0) {
    throw OutOfRange(detail::text({name, ": heads ", heads, ", kv_heads ", kv_heads,
                                   ", expected 1 or more, the first a multiple of the second"}));
  }
}
inline void check_divides(std::int64_t row_size, std::int64_t heads, const char* name, const char* which) {
  if (row_size % heads != 0) {
    throw ShapeMismatch(detail::text({name, ": ", which, ": rows of ", row_size, " numbers, expected a multiple of ",
                                      heads, ", the number of heads"}));
  }
}
template <class Q, class K, class V, class T, class Device>
kernel::AttentionHeads check_attention(const Q& q, const K& k, const V& v, const AttentionOptions<T, Device>& options,
                                       const char* name) {
  check_has_level(q, {name, "q"});
  check_has_level(k, {name, "k"});
  check_has_level(v, {name, "v"});
  const std::int64_t heads = options.heads, kv_heads = options.kv_heads == 0 ? heads : options.kv_heads;
  check_attention_heads(heads, kv_heads, name);
  check_divides(q.row_size(), heads, name, "q");
  check_divides(v.row_size(), kv_heads, name, "v");
  const std::int64_t size = q.row_size() / heads;
  if (k.row_size() != kv_heads * size) {
    throw ShapeMismatch(detail::text({name, ": k: rows of ", k.row_size(), " numbers, expected ", kv_heads,
                                      " heads of ", size, ", as many numbers as q's"}));
  }
  const std::int64_t sequences = q.lod_view().size(q.levels() - 1), found = k.lod_view().size(k.levels() - 1);
  if (found != sequences) {
    throw ShapeMismatch(detail::text({name, ": k: ", found, " sequences, expected ", sequences, " as q"}));
  }
  if (k.lod_view() != v.lod_view()) {
    const std::string where = difference(v.lod_view().offsets(v.levels() - 1), k.lod_view().offsets(k.levels() - 1));
    if (!where.empty()) throw ShapeMismatch(detail::text({name, ": v: sequences other than those of k: ", where}));
  }
  if (options.window[0] < -1 || options.window[1] < -1) {
    throw OutOfRange(detail::text({name, ": window {", options.window[0], ", ", options.window[1],
                                   "}, expected numbers of rows, or -1 for all"}));
  }
  if (!std::isfinite(options.scale) || !(options.softcap >= 0) || !std::isfinite(options.softcap)) {
    throw OutOfRange(
        detail::text({name, ": scale ", to_string(Scalar(options.scale)), ", softcap ",
                      to_string(Scalar(options.softcap)), ", expected finite numbers, the second 0 or more"}));
  }
  using A = kernel::Accumulator<value_type_t<Q>>;
  static_cast<void>(detail::checked<A>(options.scale, name, "scale"));
  static_cast<void>(detail::checked<A>(options.softcap, name, "softcap"));
  if (options.alibi && options.alibi->rows() * options.alibi->row_size() != heads) {
    throw ShapeMismatch(detail::text({name, ": alibi: shape ", to_string(options.alibi->shape()), ", expected ", heads,
                                      " numbers, one for each head"}));
  }
  // More rows than there can be are all of them; sums of such numbers stay in range.
  constexpr std::int64_t most = std::int64_t{1} << 60;
  const auto rows = [](std::int64_t count) { return count > most ? -1 : count; };
  const double scale =
      options.scale != 0 ? options.scale : 1 / std::sqrt(static_cast<double>(std::max<std::int64_t>(size, 1)));
  return {heads,
          kv_heads,
          size,
          v.row_size() / kv_heads,
          rows(options.window[0]),
          options.causal ? 0 : rows(options.window[1]),
          scale,
          options.softcap};
}
/// The row shape of the result: that of q if it has as many numbers.
inline Shape attended_shape(const Shape& q, const kernel::AttentionHeads& heads) {
  return heads.size == heads.value_size ? q : Shape{heads.heads * heads.value_size};
}
/// The arguments for kernels.
template <Executor E, class T, class Options>
kernel::AttentionRows<T> attention_rows(const E& executor, const Input<E, T>& q, const Input<E, T>& k,
                                        const Input<E, T>& v, const Options& options) {
  return {q.data(),
          k.data(),
          v.data(),
          options.alibi.data(),
          segments(executor, q, q.levels() - 1),
          segments(executor, k, k.levels() - 1)};
}

template <>
struct Declared<op::sequence_attention> : Takes<Tensor, Tensor, Tensor>,
                                          WithTyped<AttentionOptions>,
                                          GivesAll<Attention, Tensor, Accumulated>,
                                          Launches<kernel::SequenceAttention> {
  static constexpr const char* name = "sequence_attention";
  using Gradient = op::sequence_attention_grad;
  template <Executor E, class T>
  static void run(const E& executor, const Input<E, T>& q, const Input<E, T>& k, const Input<E, T>& v,
                  const AttentionOptions<T, typename E::device>& options, const To<E, T>& y,
                  const To<E, kernel::Accumulator<T>>& logsumexp) {
    const kernel::AttentionHeads heads = check_attention(q, k, v, options, name);
    const std::initializer_list<OtherMemory> others = {{"q", q}, {"k", k}, {"v", v}, {"alibi", options.alibi}};
    const auto rows = attention_rows<E, T>(executor, q, k, v, options);
    const auto out =
        prepare(executor, {name, "y"}, y, SameLevels{q.lod_view()}, attended_shape(q.row_shape(), heads), others);
    const auto sums = prepare(executor, {name, "logsumexp"}, logsumexp, SameLevels{q.lod_view()}, Shape{heads.heads},
                              {{"q", q}, {"k", k}, {"v", v}, {"alibi", options.alibi}, {"y", y}});
    launch(kernel::SequenceAttention(), executor, heads, rows, out.data(), sums.data());
  }
};

template <>
struct Declared<op::sequence_attention_grad> : Takes<Tensor, Tensor, Tensor, Tensor, Tensor, Accumulated>,
                                               WithTyped<AttentionOptions>,
                                               GivesAll<AttentionGrad, Tensor, Tensor, Tensor>,
                                               Launches<kernel::SequenceAttentionGrad> {
  static constexpr const char* name = "sequence_attention_grad";
  template <Executor E, class T>
  static void run(const E& executor, const Input<E, T>& dy, const Input<E, T>& q, const Input<E, T>& k,
                  const Input<E, T>& v, const Input<E, T>& y, const Input<E, kernel::Accumulator<T>>& logsumexp,
                  const AttentionOptions<T, typename E::device>& options, const To<E, T>& dq, const To<E, T>& dk,
                  const To<E, T>& dv) {
    const kernel::AttentionHeads heads = check_attention(q, k, v, options, name);
    const auto check = [&](const auto& given, const Shape& row_shape, const char* which) {
      check_row_count(given.rows(), q.rows(), {name, which});
      check_row_shape(given.row_shape(), row_shape, {name, which});
    };
    const Shape of_y = attended_shape(q.row_shape(), heads);
    check(dy, of_y, "dy");
    check(y, of_y, "y");
    check(logsumexp, Shape{heads.heads}, "logsumexp");
    const OtherMemory others[] = {
        {"dy", dy}, {"q", q}, {"k", k}, {"v", v}, {"y", y}, {"logsumexp", logsumexp}, {"alibi", options.alibi}};
    const auto& [by_dy, by_q, by_k, by_v, by_y, by_sums, by_slopes] = others;
    const auto rows = attention_rows<E, T>(executor, q, k, v, options);
    const auto out_q = prepare(executor, {name, "dq"}, dq, SameLevels{q.lod_view()}, q.row_shape(),
                               {by_dy, by_q, by_k, by_v, by_y, by_sums, by_slopes});
    const auto out_k = prepare(executor, {name, "dk"}, dk, SameLevels{k.lod_view()}, k.row_shape(),
                               {by_dy, by_q, by_k, by_v, by_y, by_sums, by_slopes, {"dq", dq}});
    const auto out_v = prepare(executor, {name, "dv"}, dv, SameLevels{v.lod_view()}, v.row_shape(),
                               {by_dy, by_q, by_k, by_v, by_y, by_sums, by_slopes, {"dq", dq}, {"dk", dk}});
    launch(kernel::SequenceAttentionGrad(), executor, heads, rows,
           kernel::AttentionResults<T>{dy.data(), y.data(), logsumexp.data()}, out_q.data(), out_k.data(),
           out_v.data());
  }
};

}  // namespace operation

/// Attention of each sequence of the last level of q to the same sequence of k and v: for row i and each head
///
///     y_i = sum over j of w_ij v_j,    w_i = softmax over j of s_ij,    s_ij = scale q_i k_j,
///
/// where q_i is head h of a row, and k_j and v_j head h / (heads / kv_heads) of the rows of k and v. `y` has the LoD of
/// q and rows of heads * (numbers a head of v) numbers, of the shape of q's if that has as many; `logsumexp` has the
/// LoD of q, and for each head of a row log(sum over j of e^s_ij), which the gradient needs. k and v have the same
/// lengths, which may differ from those of q. Numbers of rows matter, not their shapes.
///
/// With `softcap` c, s becomes c tanh(s / c). With `alibi`, slope_h |i' - j| is subtracted, where i' = i + (rows of k)
/// - (rows of q) is the place of row i among the rows of k: both sequences end together, as in flash-attn. Then rows
/// outside of the `window` around i' are left out, and with `causal` those after i'. What a row does not see has no
/// influence, whatever it is. Where it sees nothing, in an empty sequence of k say, y is 0 and logsumexp -inf.
///
/// One pass over the rows of k and v with a running maximum, some rows at a time: the weights are never stored,
/// so that memory grows with rows, not with their squares. float16 and bfloat16 are computed as float. A score that is
/// NaN or infinite makes its row NaN. On the CPU, threads share blocks of rows of each sequence and head, so that one
/// giant sequence occupies all of them; the bits of a row depend only on its sequence. Over Thrust and on GPUs the
/// order of additions is another, and the work of a row and head that of one warp. On GPUs the compiled library lets
/// cuDNN, where there is one, compute float16 and bfloat16: the weights are then rounded to that type, and a NaN in a
/// row that a mask hides may spread within its sequence. Cost: 2 (numbers a head of q + of v) * (rows seen) for each
/// row and head. The outputs must not overlap the arguments. Throws InvalidLoD if one of the three has no level,
/// ShapeMismatch for different sequences or rows that do not divide into heads, OutOfRange for options out of range.
inline constexpr operation::Call<op::sequence_attention> sequence_attention{};
inline constexpr operation::CallInto<op::sequence_attention> sequence_attention_into{};

/// The gradients of `sequence_attention` with respect to q, k and v, each with the LoD and the row shape of these; `y`
/// and `logsumexp` are its results, and the options the same. Weights are computed again from `logsumexp`: for
/// sequences of up to some hundred rows once, for longer ones, whose blocks threads share, once for dq and once for dk
/// and dv, so that no two threads add to the same number. So on the CPU the bits depend only on the sequence. Scratch
/// memory: one number for each row and head of q. The gradient with respect to `alibi` is not computed. The outputs
/// must not overlap the arguments. Throws as `sequence_attention`, and ShapeMismatch unless dy, y and logsumexp have
/// the shapes of its results; their levels are ignored.
inline constexpr operation::Call<op::sequence_attention_grad> sequence_attention_grad{};
inline constexpr operation::CallInto<op::sequence_attention_grad> sequence_attention_grad_into{};

/// The result `y` of `sequence_attention`, described: see <lod/infer.hpp>.
inline LoDTensorDesc infer_sequence_attention(const LoDTensorDesc& q, const LoDTensorDesc& k, const LoDTensorDesc& v,
                                              const AttentionDescOptions& options = {}) {
  const char* const name = "sequence_attention";
  infer::Batch y = infer::batch_for<op::sequence_attention>(q, "sequence_attention: q");
  const infer::Batch keys(k, "sequence_attention: k"), values(v, "sequence_attention: v");
  infer::check_type(keys.type, y.type, "sequence_attention: k");
  infer::check_type(values.type, y.type, "sequence_attention: v");
  y.check_has_level("sequence_attention: q");
  keys.check_has_level("sequence_attention: k");
  values.check_has_level("sequence_attention: v");
  infer::check_row_count(values.rows, keys.rows, "sequence_attention: v");
  const std::int64_t heads = options.heads, kv_heads = options.kv_heads == 0 ? heads : options.kv_heads;
  operation::check_attention_heads(heads, kv_heads, name);
  const std::int64_t of_q = y.row_size("sequence_attention: q"), of_k = keys.row_size("sequence_attention: k"),
                     of_v = values.row_size("sequence_attention: v");
  if (of_q != infer::unknown) operation::check_divides(of_q, heads, name, "q");
  if (of_v != infer::unknown) operation::check_divides(of_v, kv_heads, name, "v");
  if (of_q != infer::unknown && !infer::agree(of_k, of_q / heads * kv_heads)) {
    throw ShapeMismatch(detail::text({name, ": k: rows of ", of_k, " numbers, expected ", kv_heads, " heads of ",
                                      of_q / heads, ", as many numbers as q's"}));
  }
  const std::int64_t of_y = of_v == infer::unknown ? infer::unknown : of_v / kv_heads * heads;
  if (of_y != of_q) y.row_shape = {of_y};
  return y;
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET
