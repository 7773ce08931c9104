// SPDX-License-Identifier: Apache-2.0
/// @file
/// CpuExecutor, and what an executor is. Documented in <lod/core/executor.hpp>.
#pragma once

#include <lod/core/executor.hpp>
