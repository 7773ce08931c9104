// SPDX-License-Identifier: Apache-2.0
/// @file
/// Which instruction set the compiled library of kernels uses. Documented in <lod/core/instruction_set.hpp>.
#pragma once

#include <lod/core/instruction_set.hpp>
