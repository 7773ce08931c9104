// SPDX-License-Identifier: Apache-2.0
/// @file
/// LoDTensor and its views. Documented in <lod/core/lod_tensor.hpp>.
#pragma once

#include <lod/core/lod_tensor.hpp>
