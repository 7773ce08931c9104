// SPDX-License-Identifier: Apache-2.0
/// @file
/// In place of cuDNN, whose kernels are no PTX of this library's: there is a plan for nothing.
#include <lod/core/reference.hpp>
#include <lod/cuda/executor.hpp>
#include <lod/kernels/cuda/attention_plans.hpp>

#include <memory>
#include <string>

namespace {

class NoPlans final : public lod::detail::AttentionPlans {
 public:
  NoPlans() : AttentionPlans([](const Shared* shared) noexcept { delete static_cast<const NoPlans*>(shared); }) {}
  std::shared_ptr<lod::detail::AttentionPlan> find(const lod::CudaExecutor&,
                                                   const lod::detail::AttentionShape&) override {
    return nullptr;
  }
  std::string refusal() const override { return "kernels are interpreted"; }
};

}  // namespace

lod::detail::Reference<lod::detail::AttentionPlans> lod::detail::AttentionPlans::make(const CudaExecutor&) {
  return Reference<AttentionPlans>::adopt(new NoPlans);
}
