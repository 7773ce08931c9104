// SPDX-License-Identifier: Apache-2.0
/// @file
/// Operators on images by oneDNN. Documented in <lod/dnnl/operators.hpp>.
#pragma once

#include <lod/dnnl/operators.hpp>
