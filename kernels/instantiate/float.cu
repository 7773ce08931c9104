// SPDX-License-Identifier: Apache-2.0
#include "cuda_instances.hpp"

#include <cstdint>

extern template void lod::kernel::bulk::System<lod::CudaExecutor>::sort_by_key(std::int64_t*, std::int64_t,
                                                                               std::int64_t*, int) const;
static_assert(lod::kernel::instantiate<lod::kernel::CudaLibrary, float>());
