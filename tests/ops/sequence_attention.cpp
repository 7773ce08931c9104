// SPDX-License-Identifier: Apache-2.0
#include "support/check_throws.hpp"
#include "support/count_allocations.hpp"
#include "support/element_types.hpp"
#include "support/executors.hpp"
#include "support/inferred.hpp"
#include "support/random_batch.hpp"
#include "support/random_lod.hpp"
#include <lod/lod.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

using lod::LoD;
using lod::LoDTensor;
using namespace lod_test;

namespace attention_tests {
namespace {

template <class T>
using Options = lod::AttentionOptions<T>;

/// Numbers between -1 and 1.
template <class T>
LoDTensor<T> reals(Engine& engine, const LoD& lod, const lod::Shape& row_shape) {
  auto x = real_numbers<T>(engine, lod, row_shape);
  for (T& number : x.values()) number = static_cast<T>(static_cast<double>(number) / 4);
  return x;
}

constexpr double nothing = -std::numeric_limits<double>::infinity();

/// What attention gives, in double, one pair of rows after the other.
template <class T>
struct Reference {
  std::vector<double> y, logsumexp, dq, dk, dv;

  Reference(const LoDTensor<T>& q, const LoDTensor<T>& k, const LoDTensor<T>& v, const LoDTensor<T>& dy,
            const Options<T>& options) {
    const std::int64_t heads = options.heads, kv_heads = options.kv_heads ? options.kv_heads : heads;
    const std::int64_t size = q.row_size() / heads, value_size = v.row_size() / kv_heads;
    const double scale = options.scale != 0 ? options.scale : 1 / std::sqrt(static_cast<double>(size));
    y.resize(static_cast<std::size_t>(q.rows() * heads * value_size));
    logsumexp.resize(static_cast<std::size_t>(q.rows() * heads));
    dq.resize(static_cast<std::size_t>(q.rows() * q.row_size()));
    dk.resize(static_cast<std::size_t>(k.rows() * k.row_size()));
    dv.resize(static_cast<std::size_t>(v.rows() * v.row_size()));
    const auto of = [](const auto& x, std::int64_t at) { return static_cast<double>(x.data()[at]); };
    const auto at = [](std::vector<double>& x, std::int64_t place) -> double& {
      return x[static_cast<std::size_t>(place)];
    };
    const auto queries = q.lod().offsets(-1), keys = k.lod().offsets(-1);
    for (std::size_t i = 0; i + 1 < queries.size(); ++i) {
      const std::int64_t shift = (keys[i + 1] - keys[i]) - (queries[i + 1] - queries[i]);
      for (std::int64_t row = queries[i]; row < queries[i + 1]; ++row) {
        for (std::int64_t head = 0; head < heads; ++head) {
          const std::int64_t place = row - queries[i] + shift, kv_head = head / (heads / kv_heads);
          const std::int64_t q_at = row * q.row_size() + head * size, y_at = (row * heads + head) * value_size;
          std::vector<std::int64_t> seen;
          std::vector<double> scores, slopes;
          for (std::int64_t key = keys[i]; key < keys[i + 1]; ++key) {
            const std::int64_t before = place - (key - keys[i]);
            if (options.window[0] >= 0 && before > options.window[0]) continue;
            if (options.window[1] >= 0 && -before > options.window[1]) continue;
            if (options.causal && before < 0) continue;
            double score = 0, slope = scale;
            for (std::int64_t c = 0; c < size; ++c) {
              score += of(q, q_at + c) * of(k, key * k.row_size() + kv_head * size + c);
            }
            score *= scale;
            if (options.softcap > 0) {
              const double part = std::tanh(score / options.softcap);
              score = options.softcap * part;
              slope *= 1 - part * part;
            }
            if (options.alibi) score -= of(options.alibi, head) * std::abs(static_cast<double>(before));
            seen.push_back(key);
            scores.push_back(score);
            slopes.push_back(slope);
          }
          double sum = 0, delta = 0;
          const double most = scores.empty() ? 0 : *std::max_element(scores.begin(), scores.end());
          for (const double score : scores) sum += std::exp(score - most);
          at(logsumexp, row * heads + head) = scores.empty() ? nothing : most + std::log(sum);
          for (std::size_t n = 0; n < seen.size(); ++n) {
            for (std::int64_t c = 0; c < value_size; ++c) {
              at(y, y_at + c) +=
                  std::exp(scores[n] - most) / sum * of(v, seen[n] * v.row_size() + kv_head * value_size + c);
            }
          }
          for (std::int64_t c = 0; c < value_size; ++c) delta += of(dy, y_at + c) * at(y, y_at + c);
          for (std::size_t n = 0; n < seen.size(); ++n) {
            const std::int64_t k_at = seen[n] * k.row_size() + kv_head * size;
            const std::int64_t v_at = seen[n] * v.row_size() + kv_head * value_size;
            const double weight = std::exp(scores[n] - most) / sum;
            double of_weight = 0;
            for (std::int64_t c = 0; c < value_size; ++c) {
              of_weight += of(dy, y_at + c) * of(v, v_at + c);
              at(dv, v_at + c) += weight * of(dy, y_at + c);
            }
            const double change = weight * (of_weight - delta) * slopes[n];
            for (std::int64_t c = 0; c < size; ++c) {
              at(dq, q_at + c) += change * of(k, k_at + c);
              at(dk, k_at + c) += change * of(q, q_at + c);
            }
          }
        }
      }
    }
  }
};

template <class T>
void check_near(const char* what, const LoDTensor<T>& found, const std::vector<double>& expected, double bound) {
  INFO(what);
  REQUIRE(found.values().size() == expected.size());
  double worst = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const auto number = static_cast<double>(found.values()[i]);
    if (number == expected[i]) continue;  // infinities, too
    worst = std::max(worst, std::abs(number - expected[i]) / std::max(1.0, std::abs(expected[i])));
    if (std::isnan(number) != std::isnan(expected[i])) worst = nothing;
  }
  CHECK(worst >= 0);
  CHECK(worst <= bound);
}
/// Checks results and gradients on every executor.
template <class T>
void check_attention(const LoDTensor<T>& q, const LoDTensor<T>& k, const LoDTensor<T>& v, const LoDTensor<T>& dy,
                     const Options<T>& options) {
  const Reference<T> expected(q, k, v, dy, options);
  // A sum of a thousand products, each rounded; halves are rounded once more.
  const double bound = std::is_same_v<T, double> ? 0x1p-43 : std::is_same_v<T, float> ? 0x1p-14 : 0.05;
  for_each_executor([&](const auto& executor) {
    const auto found = lod::sequence_attention(executor, q, k, v, options);
    CHECK(found.y.lod() == q.lod());
    CHECK(found.logsumexp.lod() == q.lod());
    check_near("y", found.y, expected.y, bound);
    check_near("logsumexp", found.logsumexp, expected.logsumexp, bound);
    const auto grad = lod::sequence_attention_grad(executor, dy, q, k, v, found.y, found.logsumexp, options);
    CHECK(grad.dq.shape() == q.shape());
    CHECK(grad.dk.lod() == k.lod());
    CHECK(grad.dv.lod() == v.lod());
    check_near("dq", grad.dq, expected.dq, bound);
    check_near("dk", grad.dk, expected.dk, bound);
    check_near("dv", grad.dv, expected.dv, bound);
  });
}

}  // namespace

TEST_CASE("sequence_attention: worked numbers; keys of another length; where nothing is seen") {
  const auto lod = LoD::from_lengths({{1, 2, 1}}), of_keys = LoD::from_lengths({{2, 1, 0}});
  const auto q = LoDTensor<float>::from_values(lod, {1}, std::vector<float>{0, 1, 2, 3});
  const auto k = LoDTensor<float>::from_values(of_keys, {1}, std::vector<float>{5, -5, 1});
  const auto v = LoDTensor<float>::from_values(of_keys, {2}, std::vector<float>{1, 10, 3, 20, 7, 8});
  for_each_executor([&](const auto& executor) {
    const auto found = lod::sequence_attention(executor, q, k, v);
    // Equal weights; one key; no key.
    CHECK(values_of(found.y) == std::vector<float>{2, 15, 7, 8, 7, 8, 0, 0});
    CHECK(found.logsumexp.data()[0] == doctest::Approx(std::log(2.0)));
    CHECK(found.logsumexp.data()[2] == doctest::Approx(2));
    CHECK(found.logsumexp.data()[3] == -std::numeric_limits<float>::infinity());
    // The only query of the first sequence stands beside its last key; the first one of the second before its key.
    const auto causal = lod::sequence_attention(executor, q, k, v, {.causal = true});
    CHECK(values_of(causal.y) == std::vector<float>{2, 15, 0, 0, 7, 8, 0, 0});
    const auto near = lod::sequence_attention(executor, q, k, v, {.window = {0, 0}});
    CHECK(values_of(near.y) == std::vector<float>{3, 20, 0, 0, 7, 8, 0, 0});
    const auto grad =
        lod::sequence_attention_grad(executor, near.y, q, k, v, near.y, near.logsumexp, {.window = {0, 0}});
    CHECK(values_of(grad.dq) == std::vector<float>(4));
    CHECK(values_of(grad.dk) == std::vector<float>(3));
    CHECK(values_of(grad.dv) == std::vector<float>{0, 0, 3, 20, 7, 8});
  });
}

TEST_CASE("sequence_attention and its gradient: agree with sums over pairs, for slices of every type and depth") {
  for_each_type(FloatingTypes(), []<class T>(std::type_identity<T>) {
    for_each_random_lod(3, 1, 3, [](Engine& engine, const Lengths& lengths) {
      const LoD whole = LoD::from_lengths(lengths);
      Lengths other = lengths;  // the same sequences, of other lengths
      for (std::int64_t& length : other.back()) length = random_number(engine, 0, 5);
      const bool is_slice = whole.size(0) > 1;
      const auto slice = [&](const LoDTensor<T>& x) { return is_slice ? LoDTensor<T>(x.between(1, x.size())) : x; };
      for (const std::int64_t size : {1, 3, 16}) {
        CAPTURE(size);
        const std::int64_t value_size = size == 3 ? 7 : size;
        const auto q = slice(reals<T>(engine, whole, {4 * size}));
        const auto k = slice(reals<T>(engine, LoD::from_lengths(other), {2 * size}));
        const auto v = slice(reals<T>(engine, LoD::from_lengths(other), {2 * value_size}));
        const auto dy = slice(reals<T>(engine, whole, {4 * value_size}));
        const auto slopes = small_reals<T>(engine, lod::Shape{4});
        for (const bool causal : {false, true}) {
          check_attention<T>(q, k, v, dy, {.heads = 4, .kv_heads = 2, .causal = causal});
        }
        check_attention<T>(
            q, k, v, dy, {.heads = 4, .kv_heads = 2, .window = {2, 1}, .scale = 0.7, .softcap = 1.5, .alibi = slopes});
      }
    });
  });
}

TEST_CASE("sequence_attention: blocks and tiles, of sequences longer than several of them") {
  Engine engine(first_seed());
  CAPTURE(first_seed());
  const LoD lod = LoD::from_lengths({{95, 0, 96, 210, 1, 300}}),
            of_keys = LoD::from_lengths({{128, 3, 129, 330, 257, 310}});
  for (const std::int64_t size : slow ? std::vector<std::int64_t>{5} : std::vector<std::int64_t>{5, 33}) {
    CAPTURE(size);
    const auto q = reals<float>(engine, lod, {2 * size}), k = reals<float>(engine, of_keys, {size});
    const auto v = reals<float>(engine, of_keys, {size + 2}), dy = reals<float>(engine, lod, {2 * (size + 2)});
    check_attention<float>(q, k, v, dy, {.heads = 2, .kv_heads = 1});
    check_attention<float>(q, k, v, dy, {.heads = 2, .kv_heads = 1, .causal = true, .scale = 4});
    check_attention<float>(q, k, v, dy, {.heads = 2, .kv_heads = 1, .window = {70, 10}});
    check_attention<float>(q, k, v, dy, {.heads = 2, .kv_heads = 1, .window = {std::int64_t{1} << 62, 0}});
  }
}

TEST_CASE("sequence_attention: what a row does not see has no influence, whatever it is") {
  Engine engine(first_seed());
  const LoD lod = LoD::from_lengths({{100, 70}});
  const auto q = reals<float>(engine, lod, {16}), dy = reals<float>(engine, lod, {16});
  const auto k = reals<float>(engine, lod, {16}), v = reals<float>(engine, lod, {16});
  auto strange_k = k, strange_v = v;
  for (std::int64_t c = 0; c < 16; ++c) {
    strange_k.data()[60 * 16 + c] = std::numeric_limits<float>::quiet_NaN();
    strange_v.data()[60 * 16 + c] = std::numeric_limits<float>::infinity();
  }
  for_each_executor([&](const auto& executor) {
    const Options<float> options{.heads = 2, .causal = true};
    const auto plain = lod::sequence_attention(executor, q, k, v, options);
    const auto strange = lod::sequence_attention(executor, q, strange_k, strange_v, options);
    const auto of_plain = lod::sequence_attention_grad(executor, dy, q, k, v, plain.y, plain.logsumexp, options);
    const auto of_strange =
        lod::sequence_attention_grad(executor, dy, q, strange_k, strange_v, strange.y, strange.logsumexp, options);
    for (std::int64_t row = 0; row < 170; ++row) {
      CAPTURE(row);
      const bool sees_it = row >= 60 && row < 100;
      CHECK(std::isnan(strange.y.row(row)[0]) == sees_it);
      CHECK(std::isnan(of_strange.dq.row(row)[0]) == sees_it);
      if (!sees_it) {
        CHECK(std::ranges::equal(strange.y.row(row), plain.y.row(row)));
        CHECK(std::ranges::equal(of_strange.dq.row(row), of_plain.dq.row(row)));
      }
    }
  });
}

TEST_CASE("sequence_attention: scores of any size; the same bits on any number of threads, and alone") {
  Engine engine(first_seed());
  CAPTURE(first_seed());
  const LoD lod = LoD::from_lengths({{150, 3, 0, 70, 90}});
  auto q = reals<float>(engine, lod, {24}), k = reals<float>(engine, lod, {24});
  const auto v = reals<float>(engine, lod, {24}), dy = reals<float>(engine, lod, {24});
  for (float& number : q.values()) number *= 1e4F;
  const Options<float> options{.heads = 3, .causal = true, .scale = 10};
  const auto one = lod::sequence_attention(lod::CpuExecutor(1), q, k, v, options);
  CHECK(std::ranges::all_of(one.y.values(), [](float number) { return std::abs(number) <= 1; }));
  const auto of_one = lod::sequence_attention_grad(lod::CpuExecutor(1), dy, q, k, v, one.y, one.logsumexp, options);
  const lod::CpuExecutor three(3);
  const auto other = lod::sequence_attention(three, q, k, v, options);
  CHECK(same_bits(other.y, one.y));
  CHECK(same_bits(other.logsumexp, one.logsumexp));
  const auto of_other = lod::sequence_attention_grad(three, dy, q, k, v, other.y, other.logsumexp, options);
  CHECK(same_bits(of_other.dq, of_one.dq));
  CHECK(same_bits(of_other.dk, of_one.dk));
  CHECK(same_bits(of_other.dv, of_one.dv));
  for (std::int64_t i = 0; i < lod.size(0); ++i) {
    const auto alone = lod::sequence_attention(q.between(i, i + 1), k.between(i, i + 1), v.between(i, i + 1), options);
    CHECK(std::ranges::equal(alone.y.values(), one.y.between(i, i + 1).values()));
  }
}

TEST_CASE("sequence_attention: the same bits, however many blocks of rows a task has") {
  Engine engine(first_seed());
  CAPTURE(first_seed());
  // On one thread a task has several blocks, of which only some see a tile; on many, and of a short sequence, one.
  const LoD lod = LoD::from_lengths(
      {slow ? std::vector<std::int64_t>{330, 1, 97, 200} : std::vector<std::int64_t>{610, 1, 97, 400}});
  const std::int64_t kv_heads = slow ? 1 : 3, heads = 2 * kv_heads;
  const auto q = reals<float>(engine, lod, {8 * heads}), dy = reals<float>(engine, lod, {8 * heads});
  const auto k = reals<float>(engine, lod, {8 * kv_heads}), v = reals<float>(engine, lod, {8 * kv_heads});
  for (const Options<float>& options : {Options<float>{.heads = heads, .kv_heads = kv_heads},
                                        Options<float>{.heads = heads, .kv_heads = kv_heads, .causal = true},
                                        Options<float>{.heads = heads, .kv_heads = kv_heads, .window = {150, 20}}}) {
    CAPTURE(options.causal);
    const lod::CpuExecutor one(1), many(16);
    const auto few = lod::sequence_attention(one, q, k, v, options),
               other = lod::sequence_attention(many, q, k, v, options);
    CHECK(same_bits(few.y, other.y));
    CHECK(same_bits(few.logsumexp, other.logsumexp));
    const auto grads = lod::sequence_attention_grad(one, dy, q, k, v, few.y, few.logsumexp, options);
    const auto of_other = lod::sequence_attention_grad(many, dy, q, k, v, few.y, few.logsumexp, options);
    CHECK(same_bits(grads.dq, of_other.dq));
    CHECK(same_bits(grads.dk, of_other.dk));
    CHECK(same_bits(grads.dv, of_other.dv));
    for (std::int64_t i = 0; i < lod.size(0); ++i) {
      const auto alone =
          lod::sequence_attention(one, q.between(i, i + 1), k.between(i, i + 1), v.between(i, i + 1), options);
      CHECK(std::ranges::equal(alone.y.values(), few.y.between(i, i + 1).values()));
    }
  }
}

TEST_CASE("sequence_attention_into: nothing is allocated the second time") {
  Engine engine(first_seed());
  const LoD lod = LoD::from_lengths({{50, 3, 0, 70}});
  const auto x = reals<float>(engine, lod, {8});
  LoDTensor<float> y, logsumexp, dq, dk, dv;
  const lod::CpuExecutor executor(2);
  const auto call = [&] {
    lod::sequence_attention_into(executor, x, x, x, {.heads = 2}, y, logsumexp);
    lod::sequence_attention_grad_into(executor, x, x, x, x, y, logsumexp, {.heads = 2}, dq, dk, dv);
  };
  call();
  const std::int64_t before = allocations;
  call();
  if (counts_allocations) CHECK(allocations == before);
}

TEST_CASE("sequence_attention: wrong arguments; infer_sequence_attention: what it gives and refuses") {
  const LoD lod = LoD::from_lengths({{2, 1}}), other = LoD::from_lengths({{1, 2}}),
            three = LoD::from_lengths({{1, 1, 1}});
  const LoDTensor<float> x(lod, {4}), shifted(other, {4}), more(three, {4}), plain({3, 4}), odd(lod, {3}), slopes({3});
  LoDTensor<float> y({1}), sums;
  const auto refused = [&]<class Error>(std::type_identity<Error>, const char* text, const auto& q, const auto& k,
                                        const auto& v, const Options<float>& options) {
    check_throws<Error>([&] { lod::sequence_attention_into(lod::CpuExecutor(1), q, k, v, options, y, sums); }, text, y);
  };
  const std::type_identity<lod::ShapeMismatch> shape;
  const std::type_identity<lod::OutOfRange> range;
  refused(std::type_identity<lod::InvalidLoD>(), "sequence_attention: q: the tensor has no level", plain, x, x, {});
  refused(shape, "sequence_attention: k: 3 sequences, expected 2 as q", x, more, more, {});
  refused(shape, "sequence_attention: v: sequences other than those of k: offset 1 at position 1, expected 2", x, x,
          shifted, {});
  refused(shape, "sequence_attention: q: rows of 3 numbers, expected a multiple of 2", odd, x, x, {.heads = 2});
  refused(shape, "sequence_attention: k: rows of 3 numbers, expected 1 heads of 4", x, odd, odd, {});
  refused(shape, "sequence_attention: alibi: shape {3}, expected 2 numbers", x, x, x, {.heads = 2, .alibi = slopes});
  refused(range, "sequence_attention: heads 2, kv_heads 4", x, x, x, {.heads = 2, .kv_heads = 4});
  refused(range, "sequence_attention: heads 0, kv_heads 0", x, x, x, {.heads = 0});
  refused(range, "sequence_attention: window {-2, -1}", x, x, x, {.window = {-2, -1}});
  refused(range, "softcap -1", x, x, x, {.softcap = -1});
  refused(range, "scale inf", x, x, x, {.scale = std::numeric_limits<double>::infinity()});
  const auto of = lod::sequence_attention(x, x, x);
  LoDTensor<float> dq, dk;
  check_throws<lod::ShapeMismatch>(
      [&] { lod::sequence_attention_grad_into(lod::CpuExecutor(1), odd, x, x, x, of.y, of.logsumexp, dq, dk, y); },
      "sequence_attention_grad: dy: rows of shape {3}, expected {4}", y);
  // The rows of y have the shape of q's where that has as many numbers.
  const LoDTensor<float> in_heads(lod, {2, 2}), wide(lod, {8});
  CHECK(lod::sequence_attention(in_heads, in_heads, x, {.heads = 2}).y.row_shape() == lod::Shape{2, 2});
  CHECK(lod::sequence_attention(in_heads, in_heads, wide, {.heads = 2}).y.row_shape() == lod::Shape{8});
  using lod::DataType;
  const auto of_heads = described(DataType::FP32, {-1, 2, 2}, 1);
  CHECK(lod::infer_sequence_attention(of_heads, of_heads, of_heads, {.heads = 2}) == of_heads);
  const auto rows = described(DataType::FP32, {-1, 8}, 1), narrow = described(DataType::FP32, {-1, 4}, 1);
  CHECK(lod::infer_sequence_attention(rows, narrow, narrow, {.heads = 4, .kv_heads = 2}) == rows);
  CHECK_THROWS_AS(lod::infer_sequence_attention(rows, narrow, narrow), lod::ShapeMismatch);
  CHECK_THROWS_AS(lod::infer_sequence_attention(rows, rows, rows, {.heads = 3}), lod::ShapeMismatch);
  CHECK_THROWS_AS(lod::infer_sequence_attention(described(DataType::FP32, {-1, 8}), rows, rows), lod::InvalidLoD);
  CHECK_THROWS_AS(lod::infer_sequence_attention(rows, described(DataType::FP64, {-1, 8}, 1), rows), lod::ShapeMismatch);
}

}  // namespace attention_tests
