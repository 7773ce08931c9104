// SPDX-License-Identifier: Apache-2.0
/// @file
/// What cuDNN computes of attention on GPUs, and with which plan. The interface alone: what includes cuDNN's headers,
/// which take long to compile, is one file of the compiled library, kernels/instantiate/dnn/attention.cpp.
#pragma once

#include <lod/core/reference.hpp>
#include <lod/core/version.hpp>
#include <lod/cuda/executor.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace lod::inline LOD_INTERFACE::detail {

/// Everything that a plan is built for.
struct AttentionShape {
  bool gradient;  ///< or attention itself
  bool bfloat16;  ///< or float16
  std::int64_t heads, kv_heads;
  std::int64_t size, value_size;         ///< numbers a head of q and k, of v and y
  std::int64_t before, after;            ///< the window; -1: all
  std::int64_t sequences;                ///< of a call; some may be empty
  std::int64_t most_queries, most_keys;  ///< no sequence has more rows
  double scale;

  bool operator==(const AttentionShape&) const = default;
};

/// Arrays on the GPU. An offset says at which number of its array a sequence begins; lengths are in rows. Sequences of
/// which either length is 0 are not touched.
struct AttentionArrays {
  const void *q, *k, *v, *dy;
  void* y;
  float* logsumexp;  ///< natural logarithms
  void *dq, *dk, *dv;
  const std::int64_t *q_offsets, *k_offsets, *v_offsets, *y_offsets, *logsumexp_offsets;
  const std::int32_t *q_lengths, *k_lengths;
};

/// How cuDNN computes calls of one shape.
class AttentionPlan {
 public:
  AttentionPlan() = default;
  AttentionPlan(const AttentionPlan&) = delete;
  AttentionPlan& operator=(const AttentionPlan&) = delete;
  virtual ~AttentionPlan() = default;

  /// The bytes of memory that a call needs, and at a multiple of which address.
  virtual std::int64_t workspace_bytes() const noexcept = 0;
  static constexpr std::int64_t workspace_alignment = 256;
  /// Enqueues a call in the executor's stream. Throws CudaError.
  virtual void run(const CudaExecutor& executor, const AttentionArrays& arrays, void* workspace) = 0;
};

/// cuDNN for an executor and its copies: its handle, and the plans of the last `most` shapes. Where the library is not
/// found when the program runs, there are no plans.
class AttentionPlans : public Shared {
 public:
  static constexpr std::size_t most = 64;

  static Reference<AttentionPlans> make(const CudaExecutor& executor);

  /// The plan for a shape, which is built, in some tenths of a second, when the shape is met for the first time; null
  /// if cuDNN does not support it. May be called while the stream is captured into a graph.
  virtual std::shared_ptr<AttentionPlan> find(const CudaExecutor& executor, const AttentionShape& shape) = 0;
  /// Why there was no plan the last time that `find` gave none, in cuDNN's words; empty if there always was one.
  virtual std::string refusal() const = 0;

 protected:
  explicit AttentionPlans(Destroy destroy) noexcept : Shared(destroy) {}
  ~AttentionPlans() = default;
};

}  // namespace lod::inline LOD_INTERFACE::detail
