// SPDX-License-Identifier: Apache-2.0
/// @file
/// Gradients that a GPU works out, against differences of what it gives.
#include "catalogue/gradients.hpp"

#include "support/check_on_gpu.hpp"

namespace {

[[maybe_unused]] const bool registered_differences_on_gpu =
    lod_test::register_cases<lod_test::Differences<lod::CudaExecutor>>(__FILE__, __LINE__);

}  // namespace
