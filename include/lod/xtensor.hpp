// SPDX-License-Identifier: Apache-2.0
/// @file
/// Exchange with xtensor. Documented in <lod/interop/xtensor.hpp>.
#pragma once

#include <lod/interop/xtensor.hpp>
