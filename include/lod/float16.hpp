// SPDX-License-Identifier: Apache-2.0
/// @file
/// float16 and bfloat16. Documented in <lod/core/float16.hpp>.
#pragma once

#include <lod/core/float16.hpp>
