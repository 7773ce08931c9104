// SPDX-License-Identifier: Apache-2.0
#include "cpu_instances.hpp"

#include <cstdint>

static_assert(lod::kernel::instantiate<lod::kernel::CpuLibrary, std::int64_t>());
static_assert(lod::kernel::instantiate<lod::kernel::CpuLibrary, bool>());  // masks
