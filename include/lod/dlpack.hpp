// SPDX-License-Identifier: Apache-2.0
/// @file
/// Exchange with other tensor libraries by DLPack. Documented in <lod/interop/dlpack.hpp>.
#pragma once

#include <lod/interop/dlpack.hpp>
