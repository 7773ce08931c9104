// SPDX-License-Identifier: Apache-2.0
/// @file
/// Gradients against differences on random batches, with empty sequences at every level, of every row size.
#include "catalogue/gradients.hpp"
#include <lod/lod.hpp>

namespace {

[[maybe_unused]] const bool registered_differences =
    lod_test::register_cases<lod_test::Differences<lod::CpuExecutor>>(__FILE__, __LINE__);

}  // namespace
