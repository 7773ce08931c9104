// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tensors as std::mdspan. Documented in <lod/interop/mdspan.hpp>.
#pragma once

#include <lod/interop/mdspan.hpp>
