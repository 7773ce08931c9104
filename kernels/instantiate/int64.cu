// SPDX-License-Identifier: Apache-2.0
#include "cuda_instances.hpp"

#include <cstdint>

static_assert(lod::kernel::instantiate<lod::kernel::CudaLibrary, std::int64_t>());
static_assert(lod::kernel::instantiate_ids<lod::kernel::CudaLibrary>());
template void lod::kernel::bulk::System<lod::CudaExecutor>::sort_by_key(std::int64_t*, std::int64_t, std::int64_t*,
                                                                        int) const;
template void lod::kernel::bulk::System<lod::CudaExecutor>::inclusive_scan(std::int64_t*, std::int64_t) const;
template void lod::kernel::bulk::System<lod::CudaExecutor>::exclusive_scan(std::int64_t*, std::int64_t) const;
