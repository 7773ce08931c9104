// SPDX-License-Identifier: Apache-2.0
/// @file
/// Plans of cuDNN for attention, made by cudnn-frontend. The libraries are loaded for the first plan that is needed:
/// a program is not linked with cuDNN, and runs where there is none.

// As names of its own: a program may use cudnn-frontend itself, in another version or linked with cuDNN.
#define cudnn_frontend lod_cudnn_frontend
#define NV_CUDNN_FRONTEND_USE_DYNAMIC_LOADING
#define CUDNN_FRONTEND_SKIP_JSON_LIB
#include <lod/core/error.hpp>
#include <lod/core/reference.hpp>
#include <lod/cuda/executor.hpp>
#include <lod/cuda/memory.hpp>
#include <lod/kernels/cuda/attention_plans.hpp>

#include <cuda_runtime_api.h>
#include <cudnn_frontend.h>
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace cudnn_frontend {
void* cudnn_dlhandle = nullptr;
}  // namespace cudnn_frontend

namespace lod::inline LOD_INTERFACE::detail {

namespace {

namespace frontend = ::cudnn_frontend;
using Tensor = std::shared_ptr<frontend::graph::Tensor_attributes>;

/// Loads cuDNN; an empty text, or why it cannot be.
const std::string& load() {
  static const std::string refusal = [] {
    frontend::cudnn_dlhandle = dlopen("libcudnn.so.9", RTLD_NOW | RTLD_LOCAL);
    if (frontend::cudnn_dlhandle) return std::string();
    const char* const error = dlerror();
    return std::string(error ? error : "libcudnn.so.9 was not found");
  }();
  return refusal;
}

/// A cuDNN handle, which one call at a time may use.
class Handle {
 public:
  explicit Handle(int device) : device_(device) {
    const CurrentDevice current(device);
    const BesideCapture beside;
    const cudnnStatus_t status = frontend::detail::create_handle(&handle_);
    if (status != CUDNN_STATUS_SUCCESS) {
      handle_ = nullptr;
      throw CudaError(text({"cudnnCreate: ", frontend::detail::get_error_string(status)}), static_cast<int>(status));
    }
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() {
    try {
      const CurrentDevice current(device_);
      static_cast<void>(frontend::detail::destroy_handle(handle_));
    } catch (...) {  // the GPU is gone, and the handle with it
    }
  }
  /// Calls call(handle) with the executor's stream.
  template <class Call>
  void with(const CudaExecutor& executor, const Call& call) {
    const CurrentDevice current(device_);
    const BesideCapture beside;  // kernels may be loaded when they are first launched
    const std::lock_guard lock(mutex_);
    const cudnnStatus_t status = frontend::detail::set_stream(handle_, executor.stream());
    if (status != CUDNN_STATUS_SUCCESS) {
      throw CudaError(text({"cudnnSetStream: ", frontend::detail::get_error_string(status)}), static_cast<int>(status));
    }
    call(handle_);
  }

 private:
  int device_;
  cudnnHandle_t handle_ = nullptr;
  std::mutex mutex_;
};

void check(frontend::error_t error) {
  if (error.is_bad()) throw CudaError(error.get_message(), static_cast<int>(error.get_code()));
}

/// The arrays of a plan, by their numbers in it.
enum Place : std::int64_t {
  Q = 1,
  K,
  V,
  Y,
  LOGSUMEXP,
  DY,
  DQ,
  DK,
  DV,
  Q_OFFSETS,
  K_OFFSETS,
  V_OFFSETS,
  Y_OFFSETS,
  LOGSUMEXP_OFFSETS,
  Q_LENGTHS,
  K_LENGTHS
};

/// The graph of a shape, being made.
class Drawing {
 public:
  explicit Drawing(const AttentionShape& shape, int architecture) : shape_(shape) {
    graph_.set_io_data_type(shape.bfloat16 ? frontend::DataType_t::BFLOAT16 : frontend::DataType_t::HALF)
        .set_intermediate_data_type(frontend::DataType_t::FLOAT)
        .set_compute_data_type(frontend::DataType_t::FLOAT)
        .set_sm_version(architecture);
    q_ = input("q", Q, shape.heads, shape.most_queries, shape.size, offsets("q_offsets", Q_OFFSETS));
    k_ = input("k", K, shape.kv_heads, shape.most_keys, shape.size, offsets("k_offsets", K_OFFSETS));
    v_ = input("v", V, shape.kv_heads, shape.most_keys, shape.value_size, offsets("v_offsets", V_OFFSETS));
    y_offsets_ = offsets("y_offsets", Y_OFFSETS);
    logsumexp_offsets_ = offsets("logsumexp_offsets", LOGSUMEXP_OFFSETS);
    q_lengths_ = index("q_lengths", Q_LENGTHS, shape.sequences, frontend::DataType_t::INT32);
    k_lengths_ = index("k_lengths", K_LENGTHS, shape.sequences, frontend::DataType_t::INT32);
  }
  frontend::graph::Graph& graph() { return graph_; }

  void attend() {
    auto options = with_masks(frontend::graph::SDPA_attributes());
    options.set_name("attention").set_generate_stats(true);
    auto [y, logsumexp] = graph_.sdpa(q_, k_, v_, std::move(options));
    output(y, Y, shape_.heads, shape_.most_queries, shape_.value_size, y_offsets_);
    output(logsumexp, LOGSUMEXP, shape_.heads, shape_.most_queries, 1, logsumexp_offsets_);
    logsumexp->set_data_type(frontend::DataType_t::FLOAT);
  }
  void attend_grad() {
    const Tensor y = input("y", Y, shape_.heads, shape_.most_queries, shape_.value_size, y_offsets_);
    const Tensor dy = input("dy", DY, shape_.heads, shape_.most_queries, shape_.value_size, y_offsets_);
    const Tensor logsumexp = input("logsumexp", LOGSUMEXP, shape_.heads, shape_.most_queries, 1, logsumexp_offsets_);
    logsumexp->set_data_type(frontend::DataType_t::FLOAT);
    auto options = with_masks(frontend::graph::SDPA_backward_attributes());
    options.set_name("attention_grad").set_deterministic_algorithm(true);
    auto [dq, dk, dv] = graph_.sdpa_backward(q_, k_, v_, y, dy, logsumexp, std::move(options));
    output(dq, DQ, shape_.heads, shape_.most_queries, shape_.size, q_->get_ragged_offset());
    output(dk, DK, shape_.kv_heads, shape_.most_keys, shape_.size, k_->get_ragged_offset());
    output(dv, DV, shape_.kv_heads, shape_.most_keys, shape_.value_size, v_->get_ragged_offset());
  }

 private:
  Tensor index(const char* name, Place place, std::int64_t count, frontend::DataType_t type) {
    return graph_.tensor(frontend::graph::Tensor_attributes()
                             .set_name(name)
                             .set_uid(place)
                             .set_dim({count, 1, 1, 1})
                             .set_stride({1, 1, 1, 1})
                             .set_data_type(type));
  }
  Tensor offsets(const char* name, Place place) {
    return index(name, place, shape_.sequences + 1, frontend::DataType_t::INT64);
  }
  /// Rows of `heads` times `size` numbers: what the offsets do not say of the dimensions sequence, head, row, number.
  template <class Attributes>
  void lay_out(Attributes& tensor, Place place, std::int64_t heads, std::int64_t rows, std::int64_t size,
               const Tensor& offsets) const {
    tensor.set_uid(place)
        .set_dim({shape_.sequences, heads, rows, size})
        .set_stride({heads * rows * size, size, heads * size, 1})
        .set_ragged_offset(offsets);
  }
  Tensor input(const char* name, Place place, std::int64_t heads, std::int64_t rows, std::int64_t size,
               const Tensor& offsets) {
    frontend::graph::Tensor_attributes tensor;
    tensor.set_name(name);
    lay_out(tensor, place, heads, rows, size, offsets);
    return graph_.tensor(tensor);
  }
  void output(const Tensor& tensor, Place place, std::int64_t heads, std::int64_t rows, std::int64_t size,
              const Tensor& offsets) const {
    lay_out(*tensor, place, heads, rows, size, offsets);
    tensor->set_output(true);
  }
  template <class Options>
  Options with_masks(Options options) const {
    options.set_attn_scale(static_cast<float>(shape_.scale))
        .set_padding_mask(true)
        .set_seq_len_q(q_lengths_)
        .set_seq_len_kv(k_lengths_);
    if (shape_.before >= 0 || shape_.after >= 0) {
      options.set_diagonal_alignment(frontend::DiagonalAlignment_t::BOTTOM_RIGHT);
      // The left bound counts the row's own place, the right one does not.
      if (shape_.before >= 0) options.set_diagonal_band_left_bound(static_cast<int>(shape_.before + 1));
      if (shape_.after >= 0) options.set_diagonal_band_right_bound(static_cast<int>(shape_.after));
    }
    return options;
  }

  const AttentionShape& shape_;
  frontend::graph::Graph graph_;
  Tensor q_, k_, v_, y_offsets_, logsumexp_offsets_, q_lengths_, k_lengths_;
};

class Plan final : public AttentionPlan {
 public:
  /// Throws CudaError if cuDNN does not support the shape.
  Plan(const CudaExecutor& executor, const std::shared_ptr<Handle>& handle, const AttentionShape& shape)
      : handle_(handle), drawing_(shape, architecture(executor.ordinal())), gradient_(shape.gradient) {
    gradient_ ? drawing_.attend_grad() : drawing_.attend();
    handle_->with(executor, [&](cudnnHandle_t with) {
      auto& graph = drawing_.graph();
      check(graph.validate());
      check(graph.build_operation_graph(with));
      check(graph.create_execution_plans({frontend::HeurMode_t::A}));
      check(graph.check_support());
      check(graph.build_plans(frontend::BuildPlanPolicy_t::HEURISTICS_CHOICE));
      check(graph.get_workspace_size(workspace_bytes_));
    });
  }
  std::int64_t workspace_bytes() const noexcept override { return workspace_bytes_; }
  /// Whether a graph has its kernels, which must not be unloaded then.
  bool captured() const noexcept { return captured_; }
  void run(const CudaExecutor& executor, const AttentionArrays& arrays, void* workspace) override {
    // In the order of their numbers, which execute() expects.
    const auto writable = [](const void* array) { return const_cast<void*>(array); };
    std::array<void*, 16> all{};
    std::size_t count = 0;
    const auto add = [&](const void* array) { all[count++] = writable(array); };
    for (const void* array : {arrays.q, arrays.k, arrays.v}) add(array);
    add(arrays.y);
    add(arrays.logsumexp);
    if (gradient_) {
      for (const void* array : {arrays.dy, static_cast<const void*>(arrays.dq), static_cast<const void*>(arrays.dk),
                                static_cast<const void*>(arrays.dv)}) {
        add(array);
      }
    }
    for (const std::int64_t* array :
         {arrays.q_offsets, arrays.k_offsets, arrays.v_offsets, arrays.y_offsets, arrays.logsumexp_offsets}) {
      add(array);
    }
    add(arrays.q_lengths);
    add(arrays.k_lengths);
    if (executor.resource()->capturing()) captured_ = true;
    handle_->with(executor, [&](cudnnHandle_t with) {
      check(drawing_.graph().execute(with, all.data(), static_cast<int>(count), workspace));
    });
  }

 private:
  static int architecture(int device) {
    int major = 0, minor = 0;
    check_cuda(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device), "cudaDeviceGetAttribute");
    check_cuda(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device), "cudaDeviceGetAttribute");
    return 10 * major + minor;
  }

  std::shared_ptr<Handle> handle_;
  Drawing drawing_;
  bool gradient_;
  std::atomic<bool> captured_ = false;
  std::int64_t workspace_bytes_ = 0;
};

class Plans final : public AttentionPlans {
 public:
  Plans() : AttentionPlans([](const Shared* shared) noexcept { delete static_cast<const Plans*>(shared); }) {}

  std::shared_ptr<AttentionPlan> find(const CudaExecutor& executor, const AttentionShape& shape) override {
    const std::lock_guard lock(mutex_);
    const auto found = std::find_if(kept_.begin(), kept_.end(), [&](const Kept& each) { return each.shape == shape; });
    if (found != kept_.end()) {
      std::rotate(kept_.begin(), found, found + 1);  // the one used last comes first
    } else {
      Kept made = make_plan(executor, shape);
      if (kept_.size() == most) {
        if (kept_.back().plan && kept_.back().plan->captured()) of_graphs_.push_back(kept_.back().plan);
        kept_.pop_back();
      }
      kept_.insert(kept_.begin(), std::move(made));
    }
    const Kept& first = kept_.front();
    if (!first.plan) refusal_ = first.refusal;
    return first.plan;
  }
  std::string refusal() const override {
    const std::lock_guard lock(mutex_);
    return refusal_;
  }

 private:
  struct Kept {
    AttentionShape shape;
    std::shared_ptr<Plan> plan;  ///< null: refused
    std::string refusal;
  };

  Kept make_plan(const CudaExecutor& executor, const AttentionShape& shape) {
    Kept made{shape, nullptr, load()};
    if (!made.refusal.empty()) return made;
    try {
      if (!handle_) handle_ = std::make_shared<Handle>(executor.ordinal());
      made.plan = std::make_shared<Plan>(executor, handle_, shape);
    } catch (const std::exception& error) {  // whatever it is, the kernel in bulk does without
      made.refusal = error.what();
      if (made.refusal.empty()) made.refusal = "cuDNN has no plan";
    }
    return made;
  }

  mutable std::mutex mutex_;
  std::vector<Kept> kept_;
  std::vector<std::shared_ptr<Plan>> of_graphs_;
  std::string refusal_;
  std::shared_ptr<Handle> handle_;
};

}  // namespace

Reference<AttentionPlans> AttentionPlans::make(const CudaExecutor&) {
  return Reference<AttentionPlans>::adopt(new Plans);
}

}  // namespace lod::inline LOD_INTERFACE::detail
