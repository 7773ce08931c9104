// SPDX-License-Identifier: Apache-2.0
/// @file
/// Samples of the layers of networks that take one row after the other: products, attention, norms,
/// positions, dropout.
#pragma once

#include <lod/ops.hpp>

#include <cstdint>
#include <type_traits>

namespace lod_test {

namespace op = lod::op;

void sample(op::linear, auto& c) {
  const auto weight = c.weights({c.row_size, 5}), bias = c.weights({5});
  if (c.variant(2) == 0) return lod::linear_into(c.executor, c.rows(), weight, {.bias = bias}, c.out());
  lod::linear_into(c.executor, c.rows(), weight, c.out());
}
// Two products; the sums of dy, which may be a giant whose leaves are joined.
inline Launches launches(op::linear_grad) { return {{"", 5}}; }
void sample(op::linear_grad, auto& c) {
  lod::linear_grad_into(c.executor, c.dense({c.index.rows(), 5}), c.rows(), c.weights({c.row_size, 5}), c.out(),
                        c.out(), c.out());
}
template <class On>
void differences(op::linear_grad, On& on) {
  auto weight = on.weights({on.row_size, 2}), bias = on.weights({1, 2});
  const auto f = [&](const auto& x, const auto& by, const auto& added) {
    const lod::LinearOptions<double, typename On::Device> options{.bias = added};
    return lod::linear(on.executor, x, by, options);
  };
  const auto grad = [&](const auto& dy) { return lod::linear_grad(on.executor, dy, on.there(on.x), on.there(weight)); };
  on.check(
      on.x, [&](const auto& at) { return f(at, on.there(weight), on.there(bias)); },
      [&](const auto& dy) { return grad(dy).dx; });
  on.check(
      "of the weight", weight, [&](const auto& at) { return f(on.there(on.x), at, on.there(bias)); },
      [&](const auto& dy) { return grad(dy).dweight; });
  on.check(
      "of the bias", bias, [&](const auto& at) { return f(on.there(on.x), on.there(weight), at); },
      [&](const auto& dy) { return grad(dy).dbias; });
}

void sample(op::layer_norm, auto& c) {
  const auto scale = c.weights({c.row_size}), bias = c.weights({c.row_size});
  const std::int64_t form = c.variant(3);
  if (form == 0) return lod::layer_norm_into(c.executor, c.rows(), c.out());
  if (form == 1) return lod::layer_norm_into(c.executor, c.rows(), {.scale = scale}, c.out());
  lod::layer_norm_into(c.executor, c.rows(), {.scale = scale, .bias = bias, .epsilon = 0.5}, c.out());
}
// Statistics and dx; the sums over all rows, which may be a giant whose leaves are joined.
inline Launches launches(op::layer_norm_grad) { return {{"", 4}}; }
void sample(op::layer_norm_grad, auto& c) {
  const auto scale = c.weights({c.row_size});
  if (c.variant(2) == 0) {
    lod::layer_norm_grad_into(c.executor, c.rows(), c.rows(), {.scale = scale}, c.out(), c.out(), c.out());
  } else {
    lod::layer_norm_grad_into(c.executor, c.rows(), c.rows(), c.out(), c.out(), c.out());
  }
}
template <class On>
void differences(op::layer_norm_grad, On& on) {
  using Options = lod::LayerNormOptions<double, typename On::Device>;
  auto scale = on.weights({1, on.row_size}), bias = on.weights({1, on.row_size});
  // With an epsilon that rows of two nearly equal numbers are smooth with, too.
  const auto f = [&](const auto& x, const auto& by, const auto& added) {
    return lod::layer_norm(on.executor, x, Options{.scale = by, .bias = added, .epsilon = 0.5});
  };
  const auto grad = [&](const auto& dy) {
    const auto by = on.there(scale);
    return lod::layer_norm_grad(on.executor, dy, on.there(on.x), Options{.scale = by, .epsilon = 0.5});
  };
  on.check(
      on.x, [&](const auto& at) { return f(at, on.there(scale), on.there(bias)); },
      [&](const auto& dy) { return grad(dy).dx; });
  on.check(
      "of the scale", scale, [&](const auto& at) { return f(on.there(on.x), at, on.there(bias)); },
      [&](const auto& dy) { return grad(dy).dscale; });
  on.check(
      "of the bias", bias, [&](const auto& at) { return f(on.there(on.x), on.there(scale), at); },
      [&](const auto& dy) { return grad(dy).dbias; });
}
void sample(op::rms_norm, auto& c) {
  const auto scale = c.weights({c.row_size});
  if (c.variant(2) == 0) return lod::rms_norm_into(c.executor, c.rows(), c.out());
  lod::rms_norm_into(c.executor, c.rows(), {.scale = scale, .epsilon = 0.5}, c.out());
}
// As layer_norm_grad.
inline Launches launches(op::rms_norm_grad) { return {{"", 4}}; }
void sample(op::rms_norm_grad, auto& c) {
  const auto scale = c.weights({c.row_size});
  if (c.variant(2) == 0) {
    lod::rms_norm_grad_into(c.executor, c.rows(), c.rows(), {.scale = scale}, c.out(), c.out());
  } else {
    lod::rms_norm_grad_into(c.executor, c.rows(), c.rows(), c.out(), c.out());
  }
}
template <class On>
void differences(op::rms_norm_grad, On& on) {
  using Options = lod::RmsNormOptions<double, typename On::Device>;
  auto scale = on.weights({1, on.row_size});
  const auto f = [&](const auto& x, const auto& by) {
    return lod::rms_norm(on.executor, x, Options{.scale = by, .epsilon = 0.5});
  };
  const auto grad = [&](const auto& dy) {
    const auto by = on.there(scale);
    return lod::rms_norm_grad(on.executor, dy, on.there(on.x), Options{.scale = by, .epsilon = 0.5});
  };
  on.check(
      on.x, [&](const auto& at) { return f(at, on.there(scale)); }, [&](const auto& dy) { return grad(dy).dx; });
  on.check(
      "of the scale", scale, [&](const auto& at) { return f(on.there(on.x), at); },
      [&](const auto& dy) { return grad(dy).dscale; });
}

/// Rows of twice as many numbers, which can be turned in pairs.
auto rows_of_heads(auto& c) { return c.dense({c.index.rows(), 2 * c.row_size}); }
void sample(op::rotary_embedding, auto& c) {
  const std::int64_t form = c.variant(3);
  if (form < 2) {
    const auto positions = c.ids();
    const std::int64_t heads = form == 0 ? 1 : c.row_size;
    return lod::rotary_embedding_into(c.executor, rows_of_heads(c),
                                      {.heads = heads, .interleaved = form == 1, .positions = positions}, c.out());
  }
  const auto x = rows_of_heads(c);
  const auto& sequences = c.given([&] { return lod::lod_reset(c.executor, x, c.index); });
  lod::rotary_embedding_into(c.executor, sequences, {.base = 100}, c.out());
}
void sample(op::rotary_embedding_grad, auto& c) {
  const auto positions = c.ids();
  lod::rotary_embedding_grad_into(c.executor, rows_of_heads(c),
                                  {.interleaved = c.variant(2) == 1, .positions = positions}, c.out());
}
template <class On>
void differences(op::rotary_embedding_grad, On& on) {
  using Options = lod::RotaryOptions<double, typename On::Device>;
  auto x = on.reals(on.index, {2 * on.row_size});
  const auto positions = on.ids(50);
  for (const bool interleaved : {false, true}) {
    Options options{.heads = interleaved ? on.row_size : 1, .base = 100, .interleaved = interleaved};
    if (interleaved) options.positions = positions;
    on.check(
        x, [&](const auto& at) { return lod::rotary_embedding(on.executor, at, options); },
        [&](const auto& dy) { return lod::rotary_embedding_grad(on.executor, dy, options); });
  }
}

void sample(op::sequence_dropout, auto& c) {
  lod::sequence_dropout_into(c.executor, c.rows(),
                             {.probability = 0.25, .seed = 9, .whole_sequences = c.variant(2) == 1}, c.out());
}
void sample(op::sequence_dropout_grad, auto& c) {
  lod::sequence_dropout_grad_into(c.executor, c.rows(), c.index, {.seed = 9, .whole_sequences = c.variant(2) == 1},
                                  c.out());
}
void differences(op::sequence_dropout_grad, auto& on) {
  for (const bool by_sequence : {false, true}) {
    const lod::DropoutOptions options{.probability = 0.25, .seed = 4, .whole_sequences = by_sequence};
    on.check(
        on.x, [&](const auto& at) { return lod::sequence_dropout(on.executor, at, options); },
        [&](const auto& dy) { return lod::sequence_dropout_grad(on.executor, dy, on.index, options); });
  }
}

void sample(op::jagged_dense_bmm, auto& c) {
  const auto dense = c.weights({c.sequences(), c.row_size, 5});
  lod::jagged_dense_bmm_into(c.executor, c.rows(), dense, {.level = c.level}, c.out());
}
void sample(op::jagged_dense_bmm_grad, auto& c) {
  const auto dense = c.weights({c.sequences(), c.row_size, 5});
  lod::jagged_dense_bmm_grad_into(c.executor, c.dense({c.index.rows(), 5}), c.rows(), dense, {.level = c.level},
                                  c.out(), c.out());
}
void differences(op::jagged_dense_bmm_grad, auto& on) {
  auto dense = on.weights({on.index.size(on.level), on.row_size, 2});
  const auto f = [&](const auto& x, const auto& by) {
    return lod::jagged_dense_bmm(on.executor, x, by, {.level = on.level});
  };
  const auto grad = [&](const auto& dy) {
    return lod::jagged_dense_bmm_grad(on.executor, dy, on.there(on.x), on.there(dense), {.level = on.level});
  };
  on.check(
      on.x, [&](const auto& at) { return f(at, on.there(dense)); }, [&](const auto& dy) { return grad(dy).dx; });
  on.check(
      "of dense", dense, [&](const auto& at) { return f(on.there(on.x), at); },
      [&](const auto& dy) { return grad(dy).ddense; });
}
void sample(op::jagged_jagged_bmm, auto& c) {
  lod::jagged_jagged_bmm_into(c.executor, c.rows(), c.variant(2) == 0 ? c.rows() : c.column(), {.level = c.level},
                              c.out());
}
void sample(op::jagged_jagged_bmm_grad, auto& c) {
  const auto dz = c.dense({c.sequences(), c.row_size, c.row_size});
  lod::jagged_jagged_bmm_grad_into(c.executor, dz, c.rows(), c.rows(), {.level = c.level}, c.out(), c.out());
}
void differences(op::jagged_jagged_bmm_grad, auto& on) {
  auto y = on.reals(on.index, {2});
  const auto f = [&](const auto& left, const auto& right) {
    return lod::jagged_jagged_bmm(on.executor, left, right, {.level = on.level});
  };
  const auto grad = [&](const auto& dz) {
    return lod::jagged_jagged_bmm_grad(on.executor, dz, on.there(on.x), on.there(y), {.level = on.level});
  };
  on.check(
      on.x, [&](const auto& at) { return f(at, on.there(y)); }, [&](const auto& dz) { return grad(dz).dx; });
  on.check(
      "of y", y, [&](const auto& at) { return f(on.there(on.x), at); }, [&](const auto& dz) { return grad(dz).dy; });
}
/// A group of 4 for each sequence, of which some may have none.
auto groups(auto& c) { return c.ids_of(c.lod({c.sequences()}), 4); }
void sample(op::grouped_linear, auto& c) {
  const auto weights = c.weights({4, c.row_size, 5});
  lod::grouped_linear_into(c.executor, c.rows(), weights, groups(c), {.level = c.level}, c.out());
}
// Groups are checked, and rows sorted by them; dx; the sums of a group's rows, whose leaves may be joined.
inline Launches launches(op::grouped_linear_grad) { return {{"", 7}}; }
void sample(op::grouped_linear_grad, auto& c) {
  const auto weights = c.weights({4, c.row_size, 5});
  lod::grouped_linear_grad_into(c.executor, c.dense({c.index.rows(), 5}), c.rows(), weights, groups(c),
                                {.level = c.level}, c.out(), c.out());
}
void differences(op::grouped_linear_grad, auto& on) {
  auto weights = on.weights({3, on.row_size, 2});
  const auto group_of = on.ids(lod::LoD::from_lengths({{on.index.size(on.level)}}), 3);
  const auto f = [&](const auto& x, const auto& by) {
    return lod::grouped_linear(on.executor, x, by, group_of, {.level = on.level});
  };
  const auto grad = [&](const auto& dy) {
    return lod::grouped_linear_grad(on.executor, dy, on.there(on.x), on.there(weights), group_of, {.level = on.level});
  };
  on.check(
      on.x, [&](const auto& at) { return f(at, on.there(weights)); }, [&](const auto& dy) { return grad(dy).dx; });
  on.check(
      "of the weights", weights, [&](const auto& at) { return f(on.there(on.x), at); },
      [&](const auto& dy) { return grad(dy).dweights; });
}

// Scores are small, so that what rounding makes of them stays so.
void sample(op::sequence_attention, auto& c) {
  if (!c.is_short()) return;
  const std::int64_t heads = c.row_size > 0 && c.row_size % 2 == 0 ? 2 : 1;
  const auto q = c.rows(), k = c.rows(), v = c.rows(), slopes = c.weights({heads});
  auto& logsumexp =
      c.template out_of<lod::kernel::Accumulator<typename std::remove_cvref_t<decltype(c.out())>::value_type>>();
  if (c.variant(2) == 0)
    return lod::sequence_attention_into(c.executor, q, k, v, {.heads = heads, .scale = 0.01}, c.out(), logsumexp);
  lod::sequence_attention_into(
      c.executor, q, k, v,
      {.heads = heads, .causal = true, .window = {40, -1}, .scale = 0.01, .softcap = 3, .alibi = slopes}, c.out(),
      logsumexp);
}
void sample(op::sequence_attention_grad, auto& c) {
  if (!c.is_short()) return;
  const auto q = c.rows(), k = c.rows(), v = c.rows(), dy = c.rows();
  const bool is_causal = c.variant(2) == 1;
  const auto& of =
      c.given([&] { return lod::sequence_attention(c.executor, q, k, v, {.causal = is_causal, .scale = 0.01}); });
  lod::sequence_attention_grad_into(c.executor, dy, q, k, v, of.y, of.logsumexp, {.causal = is_causal, .scale = 0.01},
                                    c.out(), c.out(), c.out());
}
template <class On>
void differences(op::sequence_attention_grad, On& on) {
  const std::int64_t heads = on.row_size > 0 && on.row_size % 2 == 0 ? 2 : 1;
  auto q = on.reals(on.index, {on.row_size}), k = on.reals(on.index, {on.row_size}),
       v = on.reals(on.index, {2 * heads});
  const auto slopes = on.there(on.weights({heads}));
  for (const bool is_causal : {false, true}) {
    lod::AttentionOptions<double, typename On::Device> options{.heads = heads, .scale = 0.2};
    if (is_causal) {
      options.causal = true;
      options.window = {2, -1};
      options.softcap = 2;
      options.alibi = slopes;
    }
    const auto f = [&](const auto& queries, const auto& keys, const auto& values) {
      return lod::sequence_attention(on.executor, queries, keys, values, options);
    };
    const auto grad = [&](const auto& dy) {
      const auto queries = on.there(q), keys = on.there(k), values = on.there(v);
      const auto of = f(queries, keys, values);
      return lod::sequence_attention_grad(on.executor, dy, queries, keys, values, of.y, of.logsumexp, options);
    };
    on.check(
        "of q", q, [&](const auto& at) { return f(at, on.there(k), on.there(v)).y; },
        [&](const auto& dy) { return grad(dy).dq; });
    on.check(
        "of k", k, [&](const auto& at) { return f(on.there(q), at, on.there(v)).y; },
        [&](const auto& dy) { return grad(dy).dk; });
    on.check(
        "of v", v, [&](const auto& at) { return f(on.there(q), on.there(k), at).y; },
        [&](const auto& dy) { return grad(dy).dv; });
  }
}

}  // namespace lod_test
