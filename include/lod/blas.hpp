// SPDX-License-Identifier: Apache-2.0
/// @file
/// Products of matrices in programs by a BLAS. Documented in <lod/blas/operators.hpp>.
#pragma once

#include <lod/blas/operators.hpp>
#include <lod/cpu.hpp>
