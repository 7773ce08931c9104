// SPDX-License-Identifier: Apache-2.0
/// @file
/// What oneDNN computes: products of matrices of bfloat16 for a `DnnlExecutor`, and operators on images in programs.
/// Documented in <lod/dnnl/executor.hpp> and <lod/dnnl/operators.hpp>.
#pragma once

#include <lod/dnnl/executor.hpp>
#include <lod/dnnl/instructions.hpp>
#include <lod/dnnl/operators.hpp>
#include <lod/dnnl/quantized_linear.hpp>
#include <lod/dnnl/quantized_weights.hpp>
