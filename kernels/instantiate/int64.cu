// SPDX-License-Identifier: Apache-2.0
#include "cuda_instances.hpp"

#include <cstdint>

static_assert(lod::kernel::instantiate<lod::kernel::CudaLibrary, std::int64_t>());
static_assert(lod::kernel::instantiate<lod::kernel::CudaLibrary, bool>());  // masks
template lod::kernel::bulk::Pairs<std::int64_t, std::int64_t> lod::kernel::bulk::System<lod::CudaExecutor>::sort_pairs(
    const lod::kernel::bulk::Pairs<std::int64_t, std::int64_t>&,
    const lod::kernel::bulk::Pairs<std::int64_t, std::int64_t>&, std::int64_t, int) const;
