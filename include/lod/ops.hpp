// SPDX-License-Identifier: Apache-2.0
/// @file
/// All operations, without kernels. Listed in <lod/ops/operations.hpp>.
#pragma once

#include <lod/ops/operations.hpp>
