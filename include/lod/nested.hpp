// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tensors from nested vectors, and back. Documented in <lod/interop/nested.hpp>.
#pragma once

#include <lod/interop/nested.hpp>
