// SPDX-License-Identifier: Apache-2.0
#include "cpu_instances.hpp"

static_assert(lod::kernel::instantiate<lod::kernel::CpuLibrary, lod::bfloat16>());
