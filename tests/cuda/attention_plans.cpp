// SPDX-License-Identifier: Apache-2.0
/// @file
/// What cuDNN is told of sequences, and what is done beside it: with plans that work out attention as it is asked for,
/// one sequence after the other, on an emulated GPU.
#include "support/check_on_gpu.hpp"
#include "support/random_batch.hpp"
#include <lod/cuda.hpp>
#include <lod/kernels/cuda/attention.cuh>

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#ifdef LOD_TEST_EMULATED_GPU

namespace {

using namespace lod_test;
namespace kernel = lod::kernel;
using T = lod::bfloat16;
using lod::LoD;
using lod::LoDTensor;
using lod::detail::AttentionArrays;
using lod::detail::AttentionShape;

int calls_of_plans = 0;
bool there_are_plans = true;

/// A sequence of a call; what no plan may be asked for gives NaN.
struct AttendSequence {
  AttentionShape shape;
  AttentionArrays arrays;

  struct At {
    std::int64_t queries, keys;
    const T *q, *k, *v, *dy;
    T *y, *dq, *dk, *dv;
    float* logsumexp;
  };
  void operator()(std::int64_t i) const {
    const auto moved = [](auto* to, std::int64_t offset) { return to == nullptr ? nullptr : to + offset; };
    const std::int64_t of_q = arrays.q_offsets[i], of_k = arrays.k_offsets[i], of_v = arrays.v_offsets[i],
                       of_y = arrays.y_offsets[i];
    const At at{arrays.q_lengths[i],
                arrays.k_lengths[i],
                moved(static_cast<const T*>(arrays.q), of_q),
                moved(static_cast<const T*>(arrays.k), of_k),
                moved(static_cast<const T*>(arrays.v), of_v),
                moved(static_cast<const T*>(arrays.dy), of_y),
                moved(static_cast<T*>(arrays.y), of_y),
                moved(static_cast<T*>(arrays.dq), of_q),
                moved(static_cast<T*>(arrays.dk), of_k),
                moved(static_cast<T*>(arrays.dv), of_v),
                arrays.logsumexp + arrays.logsumexp_offsets[i]};
    if (at.queries == 0 || at.keys == 0) return;
    if (shape.gradient) {
      attend_grad(at);
    } else {
      for (std::int64_t row = 0; row < at.queries; ++row) {
        for (std::int64_t head = 0; head < shape.heads; ++head) attend(at, row, head);
      }
    }
  }

 private:
  std::int64_t kv_head(std::int64_t head) const { return head / (shape.heads / shape.kv_heads); }
  bool sees(const At& at, std::int64_t row, std::int64_t key) const {
    const std::int64_t distance = row + at.keys - at.queries - key;
    return (shape.before < 0 || distance <= shape.before) && (shape.after < 0 || -distance <= shape.after);
  }
  static float product(const T* a, const T* b, std::int64_t size) {
    float sum = 0;
    for (std::int64_t c = 0; c < size; ++c) sum += static_cast<float>(a[c]) * static_cast<float>(b[c]);
    return sum;
  }
  float score(const At& at, std::int64_t row, std::int64_t head, std::int64_t key) const {
    return product(at.q + (row * shape.heads + head) * shape.size,
                   at.k + (key * shape.kv_heads + kv_head(head)) * shape.size, shape.size) *
           static_cast<float>(shape.scale);
  }
  void attend(const At& at, std::int64_t row, std::int64_t head) const {
    float most = -std::numeric_limits<float>::infinity(), total = 0;
    const bool too_long = at.queries > shape.most_queries || at.keys > shape.most_keys;
    for (std::int64_t key = 0; key < at.keys; ++key) {
      if (sees(at, row, key)) most = std::max(most, score(at, row, head, key));
    }
    if (std::isinf(most) || too_long) most = std::numeric_limits<float>::quiet_NaN();
    std::vector<float> sum(static_cast<std::size_t>(shape.value_size));
    for (std::int64_t key = 0; key < at.keys; ++key) {
      if (!sees(at, row, key)) continue;
      const float weight = std::exp(score(at, row, head, key) - most);
      total += weight;
      const T* const v = at.v + (key * shape.kv_heads + kv_head(head)) * shape.value_size;
      for (std::size_t c = 0; c < sum.size(); ++c) sum[c] += weight * static_cast<float>(v[c]);
    }
    const std::int64_t place = row * shape.heads + head;
    for (std::size_t c = 0; c < sum.size(); ++c) {
      at.y[place * shape.value_size + static_cast<std::int64_t>(c)] = static_cast<T>(sum[c] / total);
    }
    at.logsumexp[place] = most + std::log(total);
  }
  void attend_grad(const At& at) const {
    const auto room = [](std::int64_t count) { return std::vector<float>(static_cast<std::size_t>(count)); };
    auto dq = room(at.queries * shape.heads * shape.size), dk = room(at.keys * shape.kv_heads * shape.size),
         dv = room(at.keys * shape.kv_heads * shape.value_size);
    const auto add = [](std::vector<float>& sums, std::int64_t first, const T* x, std::int64_t size, float factor) {
      for (std::int64_t c = 0; c < size; ++c) {
        sums[static_cast<std::size_t>(first + c)] += factor * static_cast<float>(x[c]);
      }
    };
    for (std::int64_t row = 0; row < at.queries; ++row) {
      for (std::int64_t head = 0; head < shape.heads; ++head) {
        const std::int64_t place = row * shape.heads + head;
        const T* const dy = at.dy + place * shape.value_size;
        const float delta = product(dy, at.y + place * shape.value_size, shape.value_size);
        for (std::int64_t key = 0; key < at.keys; ++key) {
          if (!sees(at, row, key)) continue;
          const std::int64_t other = key * shape.kv_heads + kv_head(head);
          const float weight = std::exp(score(at, row, head, key) - at.logsumexp[place]);
          const float change = weight * (product(dy, at.v + other * shape.value_size, shape.value_size) - delta) *
                               static_cast<float>(shape.scale);
          add(dq, place * shape.size, at.k + other * shape.size, shape.size, change);
          add(dk, other * shape.size, at.q + place * shape.size, shape.size, change);
          add(dv, other * shape.value_size, dy, shape.value_size, weight);
        }
      }
    }
    const auto store = [](const std::vector<float>& sums, T* to) {
      for (std::size_t c = 0; c < sums.size(); ++c) to[c] = static_cast<T>(sums[c]);
    };
    store(dq, at.dq);
    store(dk, at.dk);
    store(dv, at.dv);
  }
};

/// Offsets never fall, and sequences do not overlap.
struct CheckOffsets {
  AttentionShape shape;
  AttentionArrays arrays;
  void operator()(std::int64_t) const {
    for (std::int64_t i = 0; i < shape.sequences; ++i) {
      const std::int64_t q = shape.heads * shape.size, k = shape.kv_heads * shape.size;
      CHECK(arrays.q_offsets[i] + arrays.q_lengths[i] * q <= arrays.q_offsets[i + 1]);
      CHECK(arrays.k_offsets[i] + arrays.k_lengths[i] * k <= arrays.k_offsets[i + 1]);
    }
  }
};

class PlanOfTest final : public lod::detail::AttentionPlan {
 public:
  explicit PlanOfTest(const AttentionShape& shape) : shape_(shape) {}
  std::int64_t workspace_bytes() const noexcept override { return 100; }
  void run(const lod::CudaExecutor& executor, const AttentionArrays& arrays, void* workspace) override {
    CHECK(reinterpret_cast<std::uintptr_t>(workspace) % workspace_alignment == 0);
    ++calls_of_plans;
    kernel::bulk::for_each(executor, 1, CheckOffsets{shape_, arrays});
    kernel::bulk::for_each(executor, shape_.sequences, AttendSequence{shape_, arrays});
  }

 private:
  AttentionShape shape_;
};
class PlansOfTest final : public lod::detail::AttentionPlans {
 public:
  PlansOfTest()
      : AttentionPlans([](const Shared* shared) noexcept { delete static_cast<const PlansOfTest*>(shared); }) {}
  std::shared_ptr<lod::detail::AttentionPlan> find(const lod::CudaExecutor&, const AttentionShape& shape) override {
    return there_are_plans ? std::make_shared<PlanOfTest>(shape) : nullptr;
  }
  std::string refusal() const override { return ""; }
};

/// Results on the CPU: y, logsumexp, dq, dk, dv.
struct Found {
  std::vector<LoDTensor<T>> halves;
  LoDTensor<float> logsumexp;
};

/// By plans, or without.
Found attend(const kernel::AttentionHeads& heads, const LoD& of_q, const std::optional<LoD>& of_k, bool by_plans,
             const T* alibi = nullptr) {
  Engine engine(3);
  there_are_plans = by_plans;
  const lod::CudaExecutor executor;
  const LoD& keys = of_k ? *of_k : of_q;
  const auto make = [&](const LoD& index, std::int64_t count) {
    return lod::to<lod::Cuda>(executor, real_numbers<T>(engine, index, {count}));
  };
  const auto q = make(of_q, heads.heads * heads.size), k = make(keys, heads.kv_heads * heads.size),
             v = make(keys, heads.kv_heads * heads.value_size), dy = make(of_q, heads.heads * heads.value_size);
  // What is not written stays as random as this.
  auto y = make(of_q, dy.row_size()), dq = make(of_q, q.row_size()), dk = make(keys, k.row_size()),
       dv = make(keys, v.row_size());
  auto logsumexp = lod::to<lod::Cuda>(executor, real_numbers<float>(engine, of_q, {heads.heads}));
  const kernel::AttentionRows<T> rows{q.data(),
                                      k.data(),
                                      v.data(),
                                      alibi,
                                      lod::operation::segments(executor, q, 0),
                                      lod::operation::segments(executor, k, 0)};
  kernel::launch(kernel::SequenceAttention(), executor, heads, rows, y.data(), logsumexp.data());
  kernel::launch(kernel::SequenceAttentionGrad(), executor, heads, rows,
                 kernel::AttentionResults<T>{dy.data(), y.data(), logsumexp.data()}, dq.data(), dk.data(), dv.data());
  Found found{{}, lod::to<lod::Cpu>(executor, logsumexp)};
  for (const auto* x : {&y, &dq, &dk, &dv}) found.halves.push_back(lod::to<lod::Cpu>(executor, *x));
  return found;
}
template <class X>
void check_close(const LoDTensor<X>& a, const LoDTensor<X>& b) {
  REQUIRE(a.values().size() == b.values().size());
  for (std::size_t i = 0; i < a.values().size(); ++i) {
    const auto x = static_cast<float>(a.values()[i]), y = static_cast<float>(b.values()[i]);
    if (x != y) CHECK(std::fabs(x - y) <= 0.02F * std::max(1.0F, std::fabs(y)));
  }
}
void check_same(const kernel::AttentionHeads& heads, const LoD& of_q, const std::optional<LoD>& of_k = {}) {
  CAPTURE(heads.before);
  CAPTURE(heads.after);
  calls_of_plans = 0;
  const Found expected = attend(heads, of_q, of_k, false);
  CHECK(calls_of_plans == 0);
  const Found found = attend(heads, of_q, of_k, true);
  CHECK(calls_of_plans >= 2);
  check_close(found.logsumexp, expected.logsumexp);
  for (std::size_t i = 0; i < found.halves.size(); ++i) check_close(found.halves[i], expected.halves[i]);
}

}  // namespace

lod::detail::Reference<lod::detail::AttentionPlans> lod::detail::AttentionPlans::make(const CudaExecutor&) {
  return Reference<AttentionPlans>::adopt(new PlansOfTest);
}

TEST_CASE("on a GPU: attention by plans, with rows that see nothing left out") {
  const LoD some = LoD::from_lengths({{5, 0, 1, 70, 2, 0, 9}});
  const LoD more = LoD::from_lengths({{8, 3, 1, 90, 0, 0, 9}}), fewer = LoD::from_lengths({{2, 0, 1, 40, 2, 4, 0}});
  for (const auto& [before, after] : std::vector<std::array<std::int64_t, 2>>{
           {-1, -1}, {-1, 0}, {3, 0}, {2, 1}, {0, 0}, {-1, 4}, {4, -1}, {100, 100}}) {
    const kernel::AttentionHeads heads{4, 2, 8, 16, before, after, 0.5, 0};
    check_same(heads, some);
    check_same(heads, some, some);
    check_same(heads, some, more);
    check_same(heads, some, fewer);
    check_same(heads, some, LoD::from_lengths({{5, 0, 1, 70, 2, 0, 9}}));
  }
}

TEST_CASE("on a GPU: attention by plans, in several calls") {
  // As many heads as leave room for a few sequences a call.
  const kernel::AttentionHeads heads{4096, 1, 8, 8, -1, 0, 0.5, 0};
  check_same(heads, LoD::from_lengths({{1, 0, 2, 3, 0, 1, 2, 1, 1, 0, 4, 1, 2, 1, 1, 3, 1, 1, 2}}));
  CHECK(calls_of_plans > 4);
}

TEST_CASE("on a GPU: attention by plans, in tiers of sequences of similar lengths") {
  Engine engine(7);
  std::vector<std::int64_t> lengths(120);
  for (std::int64_t& each : lengths) each = random_number(engine, 0, 9);
  for (const std::int64_t longer : {128, 129, 300, 1025, 130}) {
    lengths[static_cast<std::size_t>(random_number(engine, 0, 119))] = longer;
  }
  const LoD index = LoD::from_lengths({lengths});
  for (const auto& [before, after] : std::vector<std::array<std::int64_t, 2>>{{-1, -1}, {-1, 0}, {150, 3}}) {
    check_same({2, 1, 8, 8, before, after, 0.5, 0}, index);
    CHECK(calls_of_plans == 6);
  }
}

TEST_CASE("on a GPU: attention that no plan is asked for") {
  const LoD some = LoD::from_lengths({{5, 0, 9}});
  const auto without = [&](const kernel::AttentionHeads& heads) {
    calls_of_plans = 0;
    attend(heads, some, {}, true);
    CHECK(calls_of_plans == 0);
  };
  without({2, 2, 8, 8, -1, -1, 0.5, 3});
  without({2, 2, 12, 8, -1, -1, 0.5, 0});
  without({2, 2, 8, 264, -1, -1, 0.5, 0});
  calls_of_plans = 0;
  attend({2, 2, 8, 8, -1, 0, 0.5, 0}, LoD::from_lengths({{0, 0}}), {}, true);
  CHECK(calls_of_plans == 0);
}

#endif
