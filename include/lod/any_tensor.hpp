// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tensors whose element type is known at run time. Documented in <lod/core/any_tensor.hpp>.
#pragma once

#include <lod/core/any_tensor.hpp>
